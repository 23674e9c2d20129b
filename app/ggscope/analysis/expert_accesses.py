"""Experts told by accesses, for traces that record no routing."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.account import Account, account, loose_bytes
from ggscope.analysis.chunks import chunks
from ggscope.model.tables import I64, Array
from ggscope.model.trace import Trace

_STACK_WORD = "_exps"


@dataclass(frozen=True, slots=True, eq=False)
class AccessedExperts:
    """Accesses to experts, one row per token, layer and expert, in that order.

    Attributes
    ----------
    token : int64[n], number of the token; -1 unknown.
    layer, expert : int64[n].
    n_accesses : int64[n].
    bytes : int64[n], the known bytes of them.
    n_left_out : accesses to experts of no known layer.
    """

    token: I64
    layer: I64
    expert: I64
    n_accesses: I64
    bytes: I64
    n_left_out: int


def accessed_experts(trace: Trace, most: int) -> AccessedExperts:
    """Return which experts the accesses name; expert numbers are below `most`.

    Notes
    -----
    Spans that do the same accesses for the same token are counted first, so the
    cost is one look at each span and one at each distinct access and token.
    """
    found = account(trace)
    layer, expert = _experts_of(
        trace, found.what.tensor, found.what.layer, found.what.expert
    )
    is_one = (expert >= 0) & (expert < most) & found.is_access
    row = np.flatnonzero(is_one)
    of_row = np.searchsorted(found.first, row, "right") - 1
    entry, token, n_times = _repeats(trace, found, of_row)
    begin = np.searchsorted(of_row, entry)
    n_rows = np.searchsorted(of_row, entry, "right") - begin
    first = np.repeat(begin - (np.cumsum(n_rows) - n_rows), n_rows)
    at = row[first + np.arange(len(first))]
    times, size = np.repeat(n_times, n_rows), found.known[at]
    loose = trace.accesses.loose
    loose_layer, loose_expert = _experts_of(trace, loose.what.tensor,
                                            loose.what.layer,
                                            loose.what.expert)  # fmt: skip
    kept = np.flatnonzero((loose_expert >= 0) & (loose_expert < most))
    return _grouped(
        np.concatenate([np.repeat(token, n_rows), loose.token[kept].astype(np.int64)]),
        np.concatenate([layer[at], loose_layer[kept]]),
        np.concatenate([expert[at], loose_expert[kept]]),
        np.concatenate([times, np.ones(len(kept), np.int64)]),
        np.concatenate([times * size, loose_bytes(trace)[0][kept]]),
    )


def touches_stacks(trace: Trace) -> bool:
    """Tell whether a tensor that stacks experts is accessed or listed."""
    tensors = trace.tensors
    if tensors.n_experts is not None and (tensors.n_experts > 0).any():
        return True
    names = np.unique(tensors.name[tensors.name >= 0]).tolist()
    return any(_STACK_WORD in trace.strings[name] for name in names)


def _experts_of(
    trace: Trace, tensor: Array, layer: Array, expert: Array
) -> tuple[I64, I64]:
    """Return the layer and expert of accesses, else those of their tensors."""
    tensors = trace.tensors
    if not len(tensors):
        return layer.astype(np.int64), expert.astype(np.int64)
    # Row -1 is the appended one: no tensor.
    of_tensor = np.append(tensors.layer, np.int16(-1))[tensor]
    told = np.append(tensors.expert, np.int16(-1))[tensor]
    return (
        np.where(layer >= 0, layer, of_tensor).astype(np.int64),
        np.where(expert >= 0, expert, told).astype(np.int64),
    )


def _repeats(trace: Trace, found: Account, entries: I64) -> tuple[I64, I64, I64]:
    """Return (entry, token, number of ops) of ops that do these entries."""
    spans = trace.spans
    wanted = np.zeros(len(found) + 1, np.bool_)
    wanted[entries] = True
    wanted[-1] = False  # what -1 finds
    parts: list[tuple[I64, I64]] = []
    for part in chunks(len(spans)):
        entry = found.told(part)
        hit = np.flatnonzero(wanted[entry])
        token = (
            np.full(len(hit), -1, np.int64)
            if spans.token is None
            else spans.token[part][hit].astype(np.int64)
        )
        key = entry[hit].astype(np.int64) << 32 | (token + 1)
        parts.append(np.unique(key, return_counts=True))
    if not parts:
        none = np.zeros(0, np.int64)
        return none, none, none
    key, inverse = np.unique(np.concatenate([p[0] for p in parts]), return_inverse=True)
    n_times = np.zeros(len(key), np.int64)
    np.add.at(n_times, inverse, np.concatenate([p[1] for p in parts]))
    return key >> 32, (key & 0xFFFFFFFF) - 1, n_times


def _grouped(
    token: I64, layer: I64, expert: I64, n: I64, n_bytes: I64
) -> AccessedExperts:
    """Return one row per token, layer and expert."""
    placed = layer >= 0
    n_left_out = int(n[~placed].sum())
    columns = (token, layer, expert, n, n_bytes)
    token, layer, expert, n, n_bytes = (c[placed] for c in columns)
    order = np.lexsort((expert, layer, token))
    token, layer, expert = token[order], layer[order], expert[order]
    starts = np.flatnonzero(_changes(token) | _changes(layer) | _changes(expert))
    if not len(starts):
        return AccessedExperts(token, layer, expert, n, n_bytes, n_left_out)
    return AccessedExperts(
        token[starts],
        layer[starts],
        expert[starts],
        np.add.reduceat(n[order], starts),
        np.add.reduceat(n_bytes[order], starts),
        n_left_out,
    )


def _changes(values: I64) -> npt.NDArray[np.bool_]:
    return np.append(True, values[1:] != values[:-1])[: len(values)]


__all__ = ["AccessedExperts", "accessed_experts", "touches_stacks"]
