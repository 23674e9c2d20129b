"""Reads that records do not show, and signs that ops are missing.

Where a graph is in the session it says what ops without a record read
(``reads.unrecorded``). Without one the records are asked: what a format never records,
results that are read and that no record computes, accesses whose place is not known,
and sources for which a record has no room.
"""

import re

import numpy as np
import numpy.typing as npt

from ggscope.analysis.heat.file_map import file_map
from ggscope.analysis.once import once
from ggscope.analysis.sessions.mapping import SHORTEST_CUT, is_made_up
from ggscope.analysis.workers import count_values
from ggscope.model.ggml.rules import MAX_SOURCES, OPS_OF_MORE_SOURCES
from ggscope.model.names import normalise
from ggscope.model.tables import I64, AccessKind, Space, distinct
from ggscope.model.trace import Trace

Bools = npt.NDArray[np.bool_]
SINGLE_OP = "MUL_MAT"
"""The only op of which the tracers of 64- and 128-byte records write one."""
_RESULT = re.compile(r"(.+)-\d+$")
_FUSED = {
    "attn_out": None,
    "ffn_out": None,
    "ffn_down": None,
    "ffn_gate": "gate_up",
    "ffn_up": "gate_up",
    "ffn_moe_logits": None,
    "ffn_moe_down": None,
    "ffn_moe_gate": "gate_up",
    "ffn_moe_up": "gate_up",
    "Qcur": "qkv",
    "Kcur": "qkv",
    "Vcur": "qkv",
}
"""What llama.cpp calls products with a weight, and the part of a name by which a
product of several weights at once is known: then these are views of it."""


def has_graph(trace: Trace) -> bool:
    """Return whether a graph of the session says which ops have no record."""
    return any(join.n_nodes for join in trace.joins)


def only_op(trace: Trace) -> str:
    """Return the one op that the format of a trace records; "" where it records all."""
    claims = trace.claims
    return SINGLE_OP if claims is not None and not claims.has_results else ""


@once
def uncomputed_results(trace: Trace) -> tuple[str, ...]:
    """Return results with a weight that ops read and no record computes, by kind.

    Such as "attn_out" where ``ADD`` reads ``attn_out-0``: the multiplication ran, and
    the tracer did not see it. Names of views say nothing, for a view has no record.
    """
    claims = trace.claims
    if claims is None or not claims.has_results:
        return ()
    owner = np.repeat(np.arange(len(claims)), np.diff(trace.accesses.first))
    ids, at = np.unique(np.append(claims.name, claims.source_name), return_inverse=True)
    bases = [normalise(trace.strings[i]) if i >= 0 else "" for i in ids.tolist()]
    number = {text: i for i, text in enumerate(dict.fromkeys(bases))}
    base = np.array([number[text] for text in bases], np.int64)[at]
    result, source = base[: len(claims)], base[len(claims) :]
    # What an op reads under its own result's name, it changes and does not compute.
    computes = np.ones(len(claims), np.bool_)
    computes[owner[source == result[owner]]] = False
    texts = list(number)
    computed = {texts[i] for i in distinct(result[computes]).tolist()}
    fused = {part for part in _FUSED.values() if part and _any_has(computed, part)}
    results = {
        match[1]
        for i in distinct(source).tolist()
        if texts[i] not in computed and (match := _RESULT.fullmatch(texts[i]))
    }
    return tuple(k for k in _FUSED if k in results and _FUSED[k] not in fused)


def _any_has(names: set[str], part: str) -> bool:
    return any(part in name for name in names)


@once
def n_unplaced(trace: Trace) -> int:
    """Return how many accesses may be to a tensor that the session lists, unplaced.

    Those to the model file whose place is not known, and whose tensor has no name, or
    one that was cut and goes on as a listed one does.
    """
    places = file_map(trace)
    what, tensors = trace.accesses.patterns, trace.tensors
    is_listed = np.append(places.first >= 0, False)
    rows = np.flatnonzero(
        (what.space == Space.FILE) & (what.offset < 0) & ~is_listed[what.tensor]
    )
    if not len(rows) or not is_listed.any():
        return 0
    listed = [trace.strings[i] for i in tensors.name[is_listed[:-1]].tolist()]
    may_be = np.append(np.zeros(len(tensors), np.bool_), True)
    for row in distinct(what.tensor[rows]).tolist():
        name = "" if row < 0 else trace.strings[int(tensors.name[row])]
        if row >= 0 and is_made_up(trace, row):
            may_be[row] = True
        elif len(name) >= SHORTEST_CUT:
            may_be[row] = any(text.startswith(name) for text in listed)
    rows = rows[may_be[what.tensor[rows]]]
    pattern = np.searchsorted(trace.accesses.first, rows, "right") - 1
    times = count_values(trace.accesses.pattern, len(trace.accesses.first) - 1)
    return int(times[pattern].sum())


@once
def cut_sources(trace: Trace) -> Bools:
    """Return bool[n_tensors]: what a source beyond those of a record may have read.

    Vectors of the model file that no record names, of a layer in which an op with as
    many sources as a record has room for may have more: sinks of ``FLASH_ATTN_EXT``.
    """
    tensors, accesses = trace.tensors, trace.accesses
    result = np.zeros(len(tensors), np.bool_)
    counts = np.diff(accesses.first)
    if has_graph(trace) or int(counts.max(initial=0)) != MAX_SOURCES:
        return result
    if _has_sources_of_graphs(trace):
        return result
    ops = [
        op
        for op in distinct(trace.spans.op).tolist()
        if trace.op_name(op) in OPS_OF_MORE_SOURCES
    ]
    spans = (
        np.flatnonzero(np.isin(trace.spans.op, ops)) if ops else np.zeros(0, np.int64)
    )
    is_full = np.append(counts == MAX_SOURCES, False)
    spans = spans[is_full[accesses.pattern[spans]]]
    if not len(spans):
        return result
    layer = trace.spans.layer
    layers: I64 = np.array([-1]) if layer is None else distinct(layer[spans])
    is_near = np.ones(len(tensors), np.bool_)
    if layers[0] >= 0:
        is_near = np.isin(tensors.layer, layers)
    is_listed = (tensors.offset >= 0) & (tensors.expert < 0)
    result = is_near & is_listed & _are_vectors(trace)
    named = accesses.patterns.tensor[accesses.patterns.kind == AccessKind.READ]
    result[named[named >= 0]] = False
    return result


def _has_sources_of_graphs(trace: Trace) -> bool:
    """Return whether sources are those of graphs, as in a recording or its ring."""
    is_recording = any(join.kind == "recording" for join in trace.joins)
    is_recording |= trace.info.reader_id == "live-ring"
    # With claims they are those of the records: not every graph is known.
    return is_recording and trace.claims is None


def _are_vectors(trace: Trace) -> Bools:
    """Return which tensors have one dimension, or an unknown shape; bool[n]."""
    shape = trace.tensors.shape
    if shape is None:
        return np.ones(len(trace.tensors), np.bool_)
    return np.asarray((shape[:, 1:] <= 1).all(axis=1))
