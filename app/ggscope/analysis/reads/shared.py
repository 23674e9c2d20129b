"""Ops that several threads compute together: each thread has a span, the op one."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ggscope.analysis.once import once
from ggscope.analysis.reads.op_io import is_repeated
from ggscope.analysis.workers import chunks
from ggscope.model.tables import I64, Array, Quality, quality_of
from ggscope.model.trace import Trace

_MAX_SPANS = 1 << 23
"""Of a longer trace nobody looks for the other spans of an op: people wait for it."""
_MAX_IN_STEP = 1 << 25
"""Spans whose ops are timed: 8 bytes each."""
_MAX_SORTED, _MAX_RUNNING = 1 << 22, 1 << 18
"""The same where spans must be sorted for it, once or with every snapshot."""
_MAX_RUNS = 1 << 16
"""Of more changes from lane to lane nobody looks for threads in step."""
_LATEST = np.iinfo(np.int64).max


@once
def has_shared_ops(trace: Trace) -> bool:
    """Return whether some span records an op that another thread records, too."""
    flags = trace.spans.flags
    return any(bool(is_repeated(flags[piece]).any()) for piece in chunks(len(flags)))


def spans_of_op(trace: Trace, span: int) -> I64 | None:
    """Return the spans of the op of a span, itself among them, ascending.

    One per thread. None where the threads share ops and the trace is too long to look
    for them.
    """
    spans, own = trace.spans, np.array([span], np.int64)
    if int(spans.op[span]) < 0 or not has_shared_ops(trace):
        return own
    for lane in (lanes := lanes_in_step(trace)):
        if lane.start <= span < lane.stop:
            first = np.array([other.start for other in lanes], np.int64)
            return np.sort(first + (span - lane.start))
    if lanes:
        return own
    if len(spans) > _MAX_SPANS:
        return None
    is_like = (spans.name == spans.name[span]) & (spans.op == spans.op[span])
    pattern = trace.accesses.pattern
    if len(pattern):
        is_like &= pattern == pattern[span]
    ids = np.flatnonzero(is_like)
    start = spans.start[ids]
    firsts = np.sort(start[~is_repeated(spans.flags[ids])])
    if not len(firsts):
        return own
    # Threads begin an op at nearly the same time: each span is of the nearest first.
    borders = firsts[:-1] + np.diff(firsts) // 2
    of_op = np.searchsorted(borders, start, "left")
    mine = of_op == of_op[np.searchsorted(ids, span)]
    ids, away = ids[mine], np.abs(start[mine] - int(spans.start[span]))
    order = np.lexsort((away, spans.lane[ids]))
    _, nearest = np.unique(spans.lane[ids][order], return_index=True)
    return np.sort(ids[order][nearest])


@dataclass(frozen=True, slots=True, eq=False)
class OpTimes:
    """When ops are computed, from the first thread's begin to the last one's end.

    Attributes
    ----------
    ticks : int64[n_spans], length of the op that each span is counted for; -1 where the
        time of one of its threads is not known, and of spans that are counted with
        another. None: each op has one span, and takes as long as that.
    begin : int64[n_spans], of the ops; None where no two of them share time.
    is_known : whether it was found out; not in traces that are too long.
    """

    ticks: I64 | None
    begin: I64 | None = None
    is_known: bool = True


@once
def op_times(trace: Trace) -> OpTimes:
    """Return when each op is computed; O(n log n) where threads are not in step."""
    if not has_shared_ops(trace):
        return OpTimes(None)
    lanes, n = lanes_in_step(trace), len(trace.spans)
    limit = _MAX_RUNNING if trace.is_running else _MAX_SORTED
    if n > (_MAX_IN_STEP if lanes else limit):
        return OpTimes(None, is_known=False)
    find = _in_step if lanes else _nearest
    ids, begin, end, unknown = find(trace, lanes)
    ticks = np.full(n, -1, np.int64)
    ticks[ids] = np.where(unknown, -1, end - begin)
    order = np.argsort(begin, kind="stable")
    if not (end[order][:-1] > begin[order][1:]).any():
        return OpTimes(ticks)
    begins = np.zeros(n, np.int64)
    begins[ids] = begin
    return OpTimes(ticks, begins)


@once
def op_owners(trace: Trace) -> I64 | None:
    """Return the span that each span's op is counted with, int64[n_spans].

    -1 for spans of no op and for those whose op is not found. None where threads share
    ops and the trace is too long to look for them. O(n log n) at most.
    """
    n = len(trace.spans)
    owner = np.full(n, -1, np.int64)
    if not has_shared_ops(trace):
        ids = np.flatnonzero(trace.spans.op >= 0)
        owner[ids] = ids
        return owner
    if lanes := lanes_in_step(trace):
        for lane in lanes:
            owner[lane] = np.arange(lanes[0].start, lanes[0].stop)
        owner[trace.spans.op < 0] = -1
        return owner
    if n > (_MAX_RUNNING if trace.is_running else _MAX_SORTED):
        return None
    rows, of = _nearest_owners(trace)
    owner[rows] = of
    return owner


_Ops = tuple[I64, I64, I64, npt.NDArray[np.bool_]]
"""Spans that ops are counted with, their begins and ends, and whose are not known."""


@once
def lanes_in_step(trace: Trace) -> tuple[slice, ...]:
    """Return the spans of each thread where all threads compute the same ops.

    Op i is then the i-th span of each, of which the first one's count. Empty where
    that is not so.
    """
    spans, pattern = trace.spans, trace.accesses.pattern
    is_new = np.flatnonzero(spans.lane[1:] != spans.lane[:-1]) + 1
    edges = np.concatenate([[0], is_new, [len(spans)]]).astype(np.int64)
    if len(edges) > _MAX_RUNS:
        return ()
    runs = [slice(low, high) for low, high in pairwise(edges.tolist())]
    lanes = tuple(run for run in runs if (spans.op[run] >= 0).any())
    numbers = {int(spans.lane[run.start]) for run in lanes}
    lengths = {run.stop - run.start for run in lanes}
    if len(lengths) != 1 or len(lanes) < 2 or len(numbers) < len(lanes):
        return ()
    columns: list[Array] = [spans.name, spans.op]
    columns += [pattern] if len(pattern) == len(spans) else []
    first = lanes[0]
    start = spans.start[first]
    if is_repeated(spans.flags[first]).any() or (np.diff(start) < 0).any():
        return ()
    for lane in lanes[1:]:
        mine = spans.start[lane]
        if (
            not is_repeated(spans.flags[lane]).all()
            or any(not np.array_equal(c[first], c[lane]) for c in columns)
            # Each lies between the neighbours of the other.
            or (mine[1:] < start[:-1]).any()
            or (mine[:-1] > start[1:]).any()
        ):
            return ()
    return lanes


def _in_step(trace: Trace, lanes: tuple[slice, ...]) -> _Ops:
    spans, first = trace.spans, lanes[0]
    begin, end = spans.start[first].copy(), spans.end[first].copy()
    unknown = _is_untimed(trace, first)
    for lane in lanes[1:]:
        np.minimum(begin, spans.start[lane], out=begin)
        np.maximum(end, spans.end[lane], out=end)
        unknown |= _is_untimed(trace, lane)
    return np.arange(first.start, first.stop), begin, end, unknown


def _nearest(trace: Trace, _: tuple[slice, ...]) -> _Ops:
    """Return the same where each span is of the op of its kind that begins nearest."""
    rows, owner = _nearest_owners(trace)
    ops, of = np.unique(owner, return_inverse=True)
    begin, end = np.full(len(ops), _LATEST), np.full(len(ops), -_LATEST)
    np.minimum.at(begin, of, trace.spans.start[rows])
    np.maximum.at(end, of, trace.spans.end[rows])
    unknown = np.zeros(len(ops), np.bool_)
    unknown[of[_is_untimed(trace, rows)]] = True
    return ops, begin, end, unknown


def _nearest_owners(trace: Trace) -> tuple[I64, I64]:
    """Return spans of ops, and the span that each one's op is counted with."""
    spans, pattern = trace.spans, trace.accesses.pattern
    ids = np.flatnonzero(spans.op >= 0)
    start, repeated = spans.start[ids], is_repeated(spans.flags[ids])
    kinds: list[Array] = [spans.op[ids], spans.name[ids]]
    kinds += [pattern[ids]] if len(pattern) == len(spans) else []
    order = np.lexsort((start, *kinds))
    is_new = np.zeros(len(order), np.bool_)
    is_new[:1] = True
    for kind in kinds:
        is_new[1:] |= np.diff(kind[order]) != 0
    kind_of = np.cumsum(is_new)
    at = np.arange(len(order))
    counted = ~repeated[order]
    before = np.maximum.accumulate(np.where(counted, at, -1))
    behind = np.minimum.accumulate(np.where(counted, at, len(at))[::-1])[::-1]
    sorted_start = start[order]
    away = []
    for place in (before, behind):
        there = np.clip(place, 0, max(len(at) - 1, 0))
        is_near = (place >= 0) & (place < len(at)) & (kind_of[there] == kind_of)
        gap = np.abs(sorted_start - sorted_start[there])
        away.append(np.where(is_near, gap, _LATEST))
    op = np.where(away[0] <= away[1], before, behind)
    distance = np.minimum(*away)
    has_op = distance < _LATEST
    # Of several spans of one thread the nearest one is of the op.
    places = at[has_op]
    lane = spans.lane[ids][order][places]
    by = np.lexsort((distance[places], lane, op[places]))
    places, lane = places[by], lane[by]
    chosen = op[places]
    is_first = np.ones(len(places), np.bool_)
    is_first[1:] = (np.diff(chosen) != 0) | (np.diff(lane) != 0)
    return ids[order[places[is_first]]], ids[order[chosen[is_first]]]


def _is_untimed(trace: Trace, rows: slice | Array) -> npt.NDArray[np.bool_]:
    return np.asarray(quality_of(trace.spans.flags[rows]) > Quality.DERIVED, np.bool_)
