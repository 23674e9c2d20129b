"""What ``ggscope info`` says about the model that a trace or a side file names."""

from typing import Any

import numpy as np

from ggscope.analysis.model_tensors import model_tensors
from ggscope.analysis.model_tree import TensorReads, TensorSums, tensor_tree
from ggscope.analysis.sessions.mapping import Wholes, wholes_of
from ggscope.cli.output import styled, table
from ggscope.descriptions.tensors import bits_text, element_text
from ggscope.model.ggml.types import type_name
from ggscope.model.names import parse
from ggscope.model.tables import Array, distinct
from ggscope.model.tensors import ModelFile, SizeSource
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_offset,
    format_share,
)
from ggscope.sanitize import one_line

_MAX_ROWS = 16
_FACTS = (
    ("general.architecture", "architecture"),
    ("file_type", "file type"),
    ("n_layers", "layers"),
    ("n_embd", "embedding length"),
    ("n_vocab", "vocabulary"),
    ("n_experts", "experts"),
    ("n_experts_used", "experts used"),
    ("n_ctx", "context length"),
)


def model_json(trace: Trace) -> dict[str, object]:
    """Return the model files, of which there are some, and their tensors by type.

    ``tensors`` counts stacks of experts once, also where a map lists their slices;
    ``slices`` says how many of these it lists. ``bytes`` counts tensors of known size;
    ``unknown_sizes`` says how many are not.
    ``elements`` are those of tensors of known shape, None without any.
    ``first_offset`` and ``end_offset`` are where their bytes begin and end.
    """
    tensors = trace.tensors
    own = np.ones(len(tensors), np.bool_) if tensors.file is None else tensors.file >= 0
    wholes = wholes_of(tensors, trace.strings)
    sizes = np.where(own & wholes.has_bytes, np.maximum(tensors.size, 0), 0)
    layers = distinct(tensors.layer[own & (tensors.layer >= 0)])
    total = _total(trace)
    placed = own & (tensors.offset >= 0)
    offsets, extents = tensors.offset[placed], np.maximum(tensors.size[placed], 0)
    return {
        "name": _fact(trace, "general.name") or trace.models[0].name,
        "architecture": _fact(trace, "general.architecture"),
        "files": [_file_json(model) for model in trace.models],
        "tensors": wholes.count(own),
        "slices": int(np.count_nonzero(own & (tensors.expert >= 0))),
        "layers": len(layers),
        "bytes": int(sizes.sum()),
        "elements": int(total.elements[0]) or None,
        "bits_per_element": _known(float(total.bits[0])),
        "first_offset": int(offsets.min()) if len(offsets) else None,
        "end_offset": int((offsets + extents).max()) if len(offsets) else None,
        "unknown_sizes": int(np.count_nonzero(own & wholes.is_unsized)),
        "repaired_sizes": _repaired(trace, own, wholes),
        "by_type": _by_type(trace, own, sizes, wholes),
        "by_component": _by_component(trace, own, sizes, wholes),
    }


def model_text(facts: dict[str, Any]) -> str:
    """Return the section for people; `facts` is what ``--json`` prints."""
    model = facts["model"]
    files = model["files"]
    names = _model_names(files)
    rows = [("name", model["name"] or NOT_AVAILABLE)]
    if len(names) > 1:
        rows = [("names", f"{', '.join(names)} (counted together)")]
    known: dict[str, str] = {}
    for file in files:
        known = {**file["metadata"], **known}
    rows += [(label, known[key]) for key, label in _FACTS if key in known]
    rows.append(("tensors", _tensors_text(model)))
    if model["elements"]:
        rows.append(("elements", _elements_text(model)))
    # A map beside the model file is one more file, but no part of a split model.
    if files[0]["parts"] > 1:
        n_parts = sum(file["parts"] == files[0]["parts"] for file in files)
        rows.append(("parts", f"{n_parts} of {files[0]['parts']} at hand"))
    if files[0]["data_offset"] >= 0 and files[0]["parts"] == 1 and len(names) < 2:
        place = files[0]["data_offset"]
        rows.append(("data section", f"from {format_offset(place)} ({place:,})"))
    width = max(len(label) for label, _ in rows)
    lines = [styled("Models" if len(names) > 1 else "Model", "bold")]
    lines += [f"  {label.ljust(width)}  {one_line(text)}" for label, text in rows]
    parts = ["\n".join(lines)]
    # Side files do not state types; a table of one row "N/A" tells nothing.
    if set(model["by_type"]) - {NOT_AVAILABLE}:
        parts.append(_table("type", model["by_type"], model["bytes"]))
    if model["tensors"]:
        parts.append(_table("component", model["by_component"], model["bytes"]))
    return "\n\n".join(parts)


def _model_names(files: list[dict[str, Any]]) -> list[str]:
    """Return the models that are whole by themselves, such as one and its draft."""
    return list(
        dict.fromkeys(
            file["name"]
            for file in files
            if file["data_offset"] >= 0 and file["parts"] == 1
        )
    )


def _tensors_text(model: dict[str, Any]) -> str:
    text = f"{format_count(model['tensors'])}, {format_bytes(model['bytes'])}"
    if model["slices"]:
        text += f" ({format_count(model['slices'])} slices of experts listed)"
    if model["layers"]:
        text += f", in {format_count(model['layers'])} layers"
    if model["repaired_sizes"]:
        text += f"; {format_count(model['repaired_sizes'])} sizes repaired"
    if model["unknown_sizes"]:
        text += f"; {format_count(model['unknown_sizes'])} of unknown size"
    return text


def _elements_text(model: dict[str, Any]) -> str:
    text = element_text(model["elements"])
    bits = model["bits_per_element"]
    return text if bits is None else f"{text}, {bits_text(bits)} bits each"


def _total(trace: Trace) -> TensorSums:
    """Return the sums over the tensors of the model files."""
    nothing = np.zeros(len(trace.tensors), np.bool_)
    reads = TensorReads(None, None, None, None, nothing)
    return tensor_tree(trace, model_tensors(trace), "tensor", reads).total


def _known(value: float) -> float | None:
    return None if value != value else value


def _table(what: str, groups: dict[str, dict[str, int]], total: int) -> str:
    rows = [
        (
            name,
            format_count(group["tensors"]),
            format_bytes(group["bytes"]),
            format_share(group["bytes"] / total) if total else NOT_AVAILABLE,
        )
        for name, group in list(groups.items())[:_MAX_ROWS]
    ]
    more = len(groups) - _MAX_ROWS
    text = table((what, "tensors", "bytes", "share"), rows)
    return text + (f"\n… and {format_count(more)} more" if more > 0 else "")


def _file_json(model: ModelFile) -> dict[str, object]:
    return {
        "name": model.name,
        "size": model.size,
        "data_offset": model.data_offset,
        "part": model.part,
        "parts": model.n_parts,
        "metadata": dict(model.metadata),
    }


def _fact(trace: Trace, key: str) -> str:
    return next((m.metadata[key] for m in trace.models if key in m.metadata), "")


def _repaired(trace: Trace, own: Array, wholes: Wholes) -> int:
    source = trace.tensors.size_source
    if source is None:
        return 0
    return wholes.count(np.asarray(own & (source == SizeSource.REPAIRED)))


def _by_type(
    trace: Trace, own: Array, sizes: Array, wholes: Wholes
) -> dict[str, dict[str, int]]:
    kinds = trace.tensors.type
    numbers = np.full(len(own), -1) if kinds is None else kinds
    names = [type_name(n) or NOT_AVAILABLE for n in numbers[own].tolist()]
    return _grouped(names, sizes[own], wholes.whole[own])


def _by_component(
    trace: Trace, own: Array, sizes: Array, wholes: Wholes
) -> dict[str, dict[str, int]]:
    ids = trace.tensors.name[own].tolist()
    names = [parse(trace.strings[i]).component for i in ids]
    return _grouped(names, sizes[own], wholes.whole[own])


def _grouped(
    names: list[str], sizes: Array, wholes: Array
) -> dict[str, dict[str, int]]:
    """Return tensors and bytes by name, the largest first; slices count as one."""
    groups: dict[str, dict[str, int]] = {}
    seen: set[int] = set()
    for name, size, whole in zip(names, sizes.tolist(), wholes.tolist(), strict=True):
        group = groups.setdefault(name, {"tensors": 0, "bytes": 0})
        group["tensors"] += whole not in seen
        group["bytes"] += size
        seen.add(whole)
    return dict(sorted(groups.items(), key=lambda pair: -pair[1]["bytes"]))
