"""The model files of a trace as one object of JSON, for ``info`` and ``summary``."""

import numpy as np

from ggscope.analysis.model_tensors import model_tensors
from ggscope.analysis.model_tree import TensorReads, TensorSums, tensor_tree
from ggscope.analysis.sessions.mapping import Wholes, wholes_of
from ggscope.model.ggml.types import type_name
from ggscope.model.names import parse
from ggscope.model.tables import Array, distinct
from ggscope.model.tensors import ModelFile, SizeSource
from ggscope.model.trace import Trace
from ggscope.model.units import NOT_AVAILABLE


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


def _total(trace: Trace) -> TensorSums:
    """Return the sums over the tensors of the model files."""
    nothing = np.zeros(len(trace.tensors), np.bool_)
    reads = TensorReads(None, None, None, None, nothing)
    return tensor_tree(trace, model_tensors(trace), "tensor", reads).total


def _known(value: float) -> float | None:
    return None if value != value else value


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
