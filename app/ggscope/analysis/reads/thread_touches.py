"""Tensors that several threads touch one shortly after the other."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.summary.partial import (
    hidden_graphs,
    hidden_ops,
    hidden_threads,
)
from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64, AccessKind, Array, Table, narrow, ranges
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

MAX_TOUCHES = 1 << 25
"""Of more touches nobody looks: sorting them takes gigabytes."""


@dataclass(frozen=True, slots=True, eq=False)
class ThreadTouches(Table):
    """Tensors that several threads touch within a window; equally long columns.

    A touch is an op of a thread that reads or writes the tensor. Two touches that
    follow each other, by different threads, are a *handover* where the second begins
    at most a window after the first.

    Attributes
    ----------
    tensor : int64[n], rows of ``Trace.tensors``, the most handovers first.
    touches, threads : int64[n], touches of each, and the threads that made them.
    handovers : int64[n], at least 1.
    writes : int64[n], handovers of which one of the two touches writes.
    closest : int64[n], ticks from begin to begin of the closest handover.
    first, second : int64[n], the spans of that one.
    n_tensors : tensors that threads touch at all.
    hidden : why there may be more, as the recording leaves something out; "".
    """

    tensor: I64
    touches: I64
    threads: I64
    handovers: I64
    writes: I64
    closest: I64
    first: I64
    second: I64
    n_tensors: int
    hidden: str = ""


def thread_touches(
    trace: Trace,
    window: int,
    time: TimeRange | None = None,
    watcher: Watcher | None = None,
) -> ThreadTouches | None:
    """Return the tensors that several threads touch within a window.

    None where that would be more than `MAX_TOUCHES` touches. Raises Cancelled.

    Parameters
    ----------
    window : ticks from the begin of one touch to that of the next.
    time : only ops that begin in it; None = all.

    Notes
    -----
    O(n log n) in touches. Which part of a tensor a thread touches is not recorded.
    """
    spans = trace.spans
    chosen = trace.lanes.is_thread[spans.lane] & (spans.op >= 0)
    if time is not None:
        chosen &= (spans.start >= time.start) & (spans.start < time.end)
    ids = np.flatnonzero(chosen)
    if watcher is not None:
        watcher.progress(0, 3)
    # Sorting by tensor is stable, so these stay in the order of time.
    ids = ids[np.argsort(spans.start[ids], kind="stable")]
    touched = _touched(trace, ids)
    if touched is None:
        return None
    span, tensor, is_write = touched
    if watcher is not None:
        watcher.progress(1, 3)
    order = np.argsort(narrow(tensor), kind="stable")
    span, tensor, is_write = span[order], tensor[order], is_write[order]
    if watcher is not None:
        watcher.progress(2, 3)
    return _counted(trace, window, span, tensor, is_write)


def has_touches(trace: Trace) -> bool:
    """Return whether the trace states what tensors ops read or write."""
    return bool(len(trace.accesses.patterns)) or trace.spans.tensor is not None


def _touched(trace: Trace, ids: I64) -> tuple[I64, Array, npt.NDArray[np.bool_]] | None:
    """Return span, tensor and whether it is written, of each touch, once per span."""
    accesses, result = trace.accesses, trace.spans.tensor
    first, rows_of = accesses.first, accesses.patterns
    pattern = np.asarray(accesses.pattern)
    n_rows = np.zeros(len(ids), np.int64)
    if len(pattern):
        of = pattern[ids].astype(np.int64)
        known = of >= 0
        n_rows[known] = (first[of + 1] - first[of])[known]
    if int(n_rows.sum()) + len(ids) > MAX_TOUCHES:
        return None
    place = np.repeat(np.arange(len(ids)), n_rows)
    tensor, write = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    if len(place):
        begin = np.where(n_rows > 0, first[np.maximum(of, 0)], 0)
        rows = ranges(begin, n_rows)
        tensor = rows_of.tensor[rows].astype(np.int64)
        write = rows_of.kind[rows] == AccessKind.WRITE
    if result is not None:
        place = np.append(place, np.arange(len(ids)))
        tensor = np.append(tensor, result[ids].astype(np.int64))
        write = np.append(write, np.ones(len(ids), np.bool_))
    is_known = tensor >= 0
    place, tensor, write = place[is_known], tensor[is_known], write[is_known]
    # An op that reads a tensor twice, or reads and writes it, touches it once.
    key = place * (len(trace.tensors) + 1) + tensor
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1])[: len(key)])
    if not len(starts):
        none = np.zeros(0, np.int64)
        return none, none, np.zeros(0, np.bool_)
    at = order[starts]
    writes = np.logical_or.reduceat(write[order], starts)
    return ids[place[at]], tensor[at], writes


def _counted(
    trace: Trace,
    window: int,
    span: I64,
    tensor: Array,
    is_write: npt.NDArray[np.bool_],
) -> ThreadTouches:
    """Return the tensors of touches that lie by tensor and time."""
    n = len(trace.tensors)
    start, lane = trace.spans.start[span], trace.spans.lane[span]
    away = start[1:] - start[:-1]
    is_handover = (tensor[1:] == tensor[:-1]) & (lane[1:] != lane[:-1])
    is_handover &= away <= window
    at = np.flatnonzero(is_handover)
    handovers = np.bincount(tensor[at], minlength=n)
    touches = np.bincount(tensor, minlength=n)
    writes = np.bincount(tensor[at], is_write[at] | is_write[at + 1], minlength=n)
    pairs = np.unique(tensor.astype(np.int64) * len(trace.lanes) + lane)
    threads = np.bincount(pairs // max(len(trace.lanes), 1), minlength=n)
    rows = np.flatnonzero(handovers)
    # Of each tensor the closest handover, the earliest of equals.
    order = np.lexsort((at, away[at], tensor[at]))
    begins = np.searchsorted(tensor[at][order], rows)
    best = at[order][begins]
    by_count = np.lexsort((rows, -handovers[rows]))
    rows, best = rows[by_count], best[by_count]
    return ThreadTouches(
        rows,
        touches[rows],
        threads[rows],
        handovers[rows],
        writes[rows].astype(np.int64),
        away[best],
        span[best],
        span[best + 1],
        int(np.count_nonzero(touches)),
        hidden_graphs(trace) or hidden_ops(trace) or hidden_threads(trace),
    )
