"""Texts about the tensors of a model: totals, and what a trace does with them."""

import math

import numpy as np

from ggscope.analysis.model_tensors import ModelTensors, model_tensors
from ggscope.analysis.model_tree import (
    UNKNOWN,
    Key,
    TensorReads,
    TensorSums,
    TreeBy,
    levels_of,
    tensor_tree,
)
from ggscope.analysis.once import once
from ggscope.descriptions.spans import Fact
from ggscope.model.ggml.types import type_name
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_both_bytes,
    format_bytes,
    format_count,
    format_counted,
    format_share,
)

TREE_TITLES: dict[TreeBy, str] = {
    "layer": "by layer",
    "component": "by part",
    "name": "by name over layers",
    "type": "by type",
    "file": "by file",
    "tensor": "list",
}
"""What tensors are grouped by, as a choice."""
NONE_RECORDED = "none recorded; the recording leaves some accesses out"
AT_LEAST = "at least; some accesses are not recorded"
_STEPS = ((1_000_000_000_000, "T"), (1_000_000_000, "B"), (1_000_000, "M"))
_MAX_TYPES = 6


def element_text(n: int) -> str:
    """Return a number of elements as llama.cpp does: ``7.24 B``; ``4,096``."""
    for step, letter in _STEPS:
        if n >= step:
            return f"{n / step:.2f} {letter}"
    return format_count(n) if n >= 0 else NOT_AVAILABLE


def bits_text(bits: float) -> str:
    """Return bits per element: ``4.83``; "N/A" unknown."""
    return NOT_AVAILABLE if math.isnan(bits) else f"{bits:.4g}"


def group_text(listing: ModelTensors, level: str, key: Key) -> str:
    """Return what a group is called."""
    if level == "layer":
        return f"layer {key}" if key != UNKNOWN else "outside layers"
    if level == "type":
        return type_name(int(key)) or "unknown type"
    if level == "file" and isinstance(key, int):
        return listing.files[key] if 0 <= key < len(listing.files) else "no file"
    return str(key)


def level_of(by: TreeBy, depth: int) -> str:
    """Return what the groups of a depth are."""
    return levels_of(by)[depth]


def access_text(n: int, *, is_open: bool) -> tuple[str, str]:
    """Return accesses or bytes as a count, and the remark on it; "" = none."""
    if is_open and not n:
        return "–", NONE_RECORDED
    if is_open:
        return f"≥ {format_count(n)}", AT_LEAST
    return format_count(n), ""


def total_text(sums: TensorSums, at: int = 0) -> str:
    """Return ``201 tensors, 13.2 M elements, 25.3 MiB, 16.01 bits each``."""
    parts = [format_counted(int(sums.n[at]), "tensor")]
    if sums.elements[at]:
        parts.append(f"{element_text(int(sums.elements[at]))} elements")
    is_sized = sums.size[at] or not sums.n_unsized[at]
    parts.append(format_bytes(int(sums.size[at])) if is_sized else "size unknown")
    if not math.isnan(float(sums.bits[at])):
        parts.append(f"{bits_text(float(sums.bits[at]))} bits per element")
    if is_sized and sums.n_unsized[at]:
        parts.append(f"{format_count(int(sums.n_unsized[at]))} of unknown size")
    return ", ".join(parts)


@once
def model_facts(trace: Trace) -> tuple[Fact, ...]:
    """Return what a model is: name, architecture, elements, size, types, layers."""
    listing, nothing = model_tensors(trace), np.zeros(len(trace.tensors), np.bool_)
    reads = TensorReads(None, None, None, None, nothing)
    known: dict[str, str] = {}
    for model in trace.models:
        known = {**model.metadata, **known}
    facts = [
        Fact(label, known[key])
        for key, label in (
            ("general.name", "name"),
            ("general.architecture", "architecture"),
            ("file_type", "file type"),
            ("n_layers", "layers"),
            ("n_embd", "embedding length"),
            ("n_ctx", "context length"),
            ("n_vocab", "vocabulary"),
            ("n_experts", "experts"),
            ("n_experts_used", "experts used"),
        )
        if known.get(key)
    ]
    tree = tensor_tree(trace, listing, "type", reads)
    total = tree.total
    n = int(total.elements[0])
    if n:
        facts.append(Fact("elements", element_text(n), f"{n:,}"))
        bits = bits_text(float(total.bits[0]))
        facts.append(Fact("bits per element", bits))
    size = int(total.size[0])
    facts.append(Fact("tensors", format_counted(int(total.n[0]), "tensor")))
    facts.append(Fact("size of tensors", format_bytes(size), format_both_bytes(size)))
    tops = [i for i in range(len(tree)) if not tree.level[i]]
    for i in tops[:_MAX_TYPES]:
        share = int(tree.sums.size[i]) / size if size else math.nan
        n_here = format_counted(int(tree.sums.n[i]), "tensor")
        value = f"{format_share(share)} · {n_here}"
        facts.append(Fact(group_text(listing, "type", tree.key[i]), value))
    return tuple(facts)
