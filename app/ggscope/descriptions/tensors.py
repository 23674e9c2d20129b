"""Texts about the tensors of a model: totals, and what a trace does with them."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ggscope.analysis.model_tensors import ModelTensors, model_tensors
from ggscope.analysis.model_tree import (
    UNKNOWN,
    Key,
    TensorReads,
    TensorSums,
    TensorTree,
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
UNKNOWN_TYPE = "unknown type"
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
        return type_name(int(key)) or UNKNOWN_TYPE
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


@dataclass(frozen=True, slots=True)
class ModelShare:
    """A type or a component of a model.

    Attributes
    ----------
    n : tensors; slices of experts count as their stack.
    size : bytes, of the tensors of which they are known.
    share : 0..1 of the bytes of the model; None where none is known.
    """

    name: str
    n: int
    size: int
    share: float | None


def model_shares(
    trace: Trace, by: Literal["type", "component"]
) -> tuple[ModelShare, ...]:
    """Return how the tensors of a model are shared out, the largest part first."""
    tree = _tree(trace, by)
    whole = int(tree.total.size[0])
    return tuple(
        ModelShare(
            group_text(model_tensors(trace), by, tree.key[i]),
            int(tree.sums.n[i]),
            size := int(tree.sums.size[i]),
            size / whole if whole else None,
        )
        for i in range(len(tree))
        if not tree.level[i]
    )


def model_total(trace: Trace) -> TensorSums:
    """Return the sums over all tensors of a model, of length 1."""
    return _tree(trace, "type").total


def _tree(trace: Trace, by: TreeBy) -> TensorTree:
    nothing = np.zeros(len(trace.tensors), np.bool_)
    reads = TensorReads(None, None, None, None, nothing)
    return tensor_tree(trace, model_tensors(trace), by, reads)


def header_facts(trace: Trace) -> tuple[Fact, ...]:
    """Return what the headers of the model files say: name, architecture, layers."""
    known: dict[str, str] = {}
    for model in trace.models:
        known = {**model.metadata, **known}
    return tuple(
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
    )


@once
def model_facts(trace: Trace) -> tuple[Fact, ...]:
    """Return what a model is: name, architecture, elements, size, types, layers."""
    facts, total = list(header_facts(trace)), model_total(trace)
    n = int(total.elements[0])
    if n:
        facts.append(Fact("elements", element_text(n), f"{n:,}"))
        bits = bits_text(float(total.bits[0]))
        facts.append(Fact("bits per element", bits))
    size = int(total.size[0])
    facts.append(Fact("tensors", format_counted(int(total.n[0]), "tensor")))
    facts.append(Fact("size of tensors", format_bytes(size), format_both_bytes(size)))
    for part in model_shares(trace, "type")[:_MAX_TYPES]:
        share = format_share(math.nan if part.share is None else part.share)
        value = f"{share} · {format_counted(part.n, 'tensor')}"
        facts.append(Fact(part.name, value))
    return tuple(facts)
