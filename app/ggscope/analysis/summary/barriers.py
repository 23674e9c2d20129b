"""Barriers: where the threads of an op meet, who came last, and who waited how long."""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from ggscope.analysis.reads.shared import (
    has_shared_ops,
    lanes_in_step,
    op_owners,
    spans_of_op,
)
from ggscope.analysis.summary.partial import hidden_threads
from ggscope.analysis.workers import add_by_group, chunks
from ggscope.model.tables import I64, NO_WAIT, Array, Quality, Table, quality_of
from ggscope.model.trace import Trace, lane_titles
from ggscope.model.units import TimeRange

_IN_CACHE = 1 << 14
"""Ops looked at at once."""


@dataclass(frozen=True, slots=True, eq=False)
class SharedOps(Table):
    """Ops that several threads computed together; equally long columns, a row per op.

    Threads whose begin or end is not known are left out.

    Attributes
    ----------
    span : int64[n], the span that the op is counted with.
    n_threads : int64[n], at least 2.
    begin : int64[n], when the first thread began, ticks.
    last : int64[n], the span that ended last, and `end` when, ticks.
    longest : int64[n], the span that took longest, and `longest_time` how long, ticks.
    work : int64[n], ticks of all its spans.
    waited : int64[n], ticks that the others than the last waited behind it, as
        recorded.
    n_cores : int64[n], different cores on which its threads began; 0 where one of them
        is not recorded.
    """

    span: I64
    n_threads: I64
    begin: I64
    last: I64
    end: I64
    longest: I64
    longest_time: I64
    work: I64
    waited: I64
    n_cores: I64

    def ending_in(self, time: TimeRange | None) -> "SharedOps":
        """Return those whose last thread ends in a range; None = all."""
        if time is None:
            return self
        return self.take((self.end > time.start) & (self.end <= time.end))

    def sharing(self) -> "CoreSharing | None":
        """Return how its threads share cores; None where no op has all of them."""
        seen = self.take(self.n_cores > 0)
        ticks = seen.end - seen.begin
        if not (whole := int(ticks.sum())):
            return None
        crowded = seen.n_cores < seen.n_threads
        at_once = int((ticks * seen.n_cores).sum())
        return CoreSharing(int(ticks[crowded].sum()) / whole, at_once / whole)


@dataclass(frozen=True, slots=True)
class CoreSharing:
    """How threads that compute an op together share cores.

    Attributes
    ----------
    share : of the time of ops, that of ops two threads of which began on one core.
    at_once : mean number of cores on which the threads of an op began, by time.
    """

    share: float
    at_once: float


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """A thread that others wait for.

    Attributes
    ----------
    name : of its lane.
    n_last : barriers at which it came last.
    waited : ticks that the other threads waited at these.
    op : the op of the thread behind which they waited longest, and its share of
        `waited`; None where nobody waited.
    """

    name: str
    n_last: int
    waited: int
    op: tuple[str, float] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Barrier:
    """The barrier behind one op.

    Attributes
    ----------
    spans : int64[n], of the op, in the order in which their threads came.
    last : the one that came last.
    """

    spans: I64

    @property
    def last(self) -> int:
        """The span whose thread came last."""
        return int(self.spans[-1])


def barrier_of(trace: Trace, span: int) -> Barrier | None:
    """Return the barrier behind a span; None where it is not known.

    That is so without recorded waits, where no other thread computed the op, where an
    end is not known, where the recording leaves threads out, and in traces too long to
    find the spans of an op.
    """
    if trace.spans.wait is None or hidden_threads(trace):
        return None
    ids = spans_of_op(trace, span)
    if ids is None or len(ids) < 2:
        return None
    if (quality_of(trace.spans.flags[ids]) > Quality.DERIVED).any():
        return None
    return Barrier(ids[np.lexsort((ids, trace.spans.end[ids]))])


def shared_ops(trace: Trace) -> SharedOps | None:
    """Return the ops that several threads computed together, in the order of spans.

    None in traces too long to find the spans of each op. O(n) where all threads
    compute the same ops one after the other, else O(n log n).
    """
    if not has_shared_ops(trace):
        return _no_ops()
    lanes = lanes_in_step(trace)
    is_timed = quality_of(trace.spans.flags) <= Quality.DERIVED
    if lanes and all(bool(is_timed[lane].all()) for lane in lanes):
        return _in_step(trace, lanes)
    owner = op_owners(trace)
    return None if owner is None else _by_owner(trace, owner, is_timed)


def barriers(
    trace: Trace, time: TimeRange | None, ops: SharedOps
) -> tuple[int | None, tuple[WaitedFor, ...]]:
    """Return how many ops threads computed together, and who came last at their ends.

    None without recorded waits, and where the recording leaves threads out: these may
    have come last.

    Parameters
    ----------
    time : only ops whose last thread ends in it; None = all.
    ops : all of the trace.
    """
    if trace.spans.wait is None or hidden_threads(trace):
        return None, ()
    ending = ops.ending_in(time)
    lane = trace.spans.lane[ending.last].astype(np.int64)
    n_last = np.bincount(lane, minlength=len(trace.lanes))
    ticks = np.zeros(len(trace.lanes), np.int64)
    add_by_group(ticks, lane, ending.waited)
    titles = lane_titles(trace.lanes)
    last = [
        WaitedFor(
            titles[i],
            int(n_last[i]),
            int(ticks[i]),
            _longest_op(trace, ending, lane == i),
        )
        for i in np.flatnonzero(n_last).tolist()
    ]
    last.sort(key=lambda one: (-one.waited, -one.n_last, one.name))
    return len(ending), tuple(last)


def _longest_op(
    trace: Trace, ops: SharedOps, chosen: npt.NDArray[np.bool_]
) -> tuple[str, float] | None:
    """Return behind which op of the last threads others waited longest; its share."""
    op = trace.spans.op[ops.last[chosen]].astype(np.int64)
    waited = ops.waited[chosen]
    whole = int(waited.sum())
    if not whole:
        return None
    ticks = np.zeros(int(op.max()) + 1, np.int64)
    add_by_group(ticks, op, waited)
    longest = int(np.argmax(ticks))
    return trace.op_name(longest), int(ticks[longest]) / whole


def known_waits(trace: Trace, rows: slice | Array) -> I64:
    """Return what spans waited, int64[m]; 0 where it is not recorded."""
    wait = trace.spans.wait
    if wait is None:
        return np.zeros(len(trace.spans.start[rows]), np.int64)
    return np.where(wait[rows] == NO_WAIT, 0, wait[rows]).astype(np.int64)


def _no_ops() -> SharedOps:
    none = np.zeros(0, np.int64)
    return SharedOps(*[none] * len(fields(SharedOps)))


def _in_step(trace: Trace, lanes: tuple[slice, ...]) -> SharedOps:
    """Return the ops of threads that all compute the same: op i is span i of each."""
    n = lanes[0].stop - lanes[0].start
    columns = np.empty((len(fields(SharedOps)), n), np.int64)
    # Pieces that stay in the processor's cache: five times as fast as whole columns.
    for part in chunks(n, _IN_CACHE):
        columns[:, part] = _piece(trace, lanes, part)
    ops = SharedOps(*columns)
    is_op = trace.spans.op[lanes[0]] >= 0
    return ops if is_op.all() else ops.take(is_op)


def _piece(trace: Trace, lanes: tuple[slice, ...], part: slice) -> Array:
    """Return the columns of some ops of threads in step, int64[columns, m]."""
    spans, length = trace.spans, part.stop - part.start
    rows = [slice(x.start + part.start, x.start + part.stop) for x in lanes]
    first = rows[0]
    span = np.arange(first.start, first.stop, dtype=np.int64)
    begin = spans.start[first].astype(np.int64)
    last, end = span, spans.end[first].astype(np.int64)
    last_wait = waited = known_waits(trace, first)
    longest_ticks = work = end - spans.start[first]
    longest = span
    for lane in rows[1:]:
        mine, at = spans.end[lane], np.arange(lane.start, lane.stop, dtype=np.int64)
        wait, ticks = known_waits(trace, lane), mine - spans.start[lane]
        waited, work = waited + wait, work + ticks
        begin = np.minimum(begin, spans.start[lane])
        is_later, is_longer = mine >= end, ticks > longest_ticks
        last, end = np.where(is_later, at, last), np.maximum(end, mine)
        last_wait = np.where(is_later, wait, last_wait)
        longest = np.where(is_longer, at, longest)
        longest_ticks = np.maximum(longest_ticks, ticks)
    n_threads = np.full(length, len(lanes), np.int64)
    n_cores = np.zeros(length, np.int64)
    if spans.core is not None:
        n_cores += _n_different([spans.core[lane] for lane in rows])
    # What the last one waits, nobody else made it wait.
    waited = waited - last_wait
    return np.stack(
        [
            span, n_threads, begin, last, end, longest, longest_ticks, work, waited,
            n_cores,
        ]
    )  # fmt: skip


def _by_owner(trace: Trace, owner: I64, is_timed: npt.NDArray[np.bool_]) -> SharedOps:
    """Return the same of spans whose ops are known one by one."""
    spans = trace.spans
    ids = np.flatnonzero((owner >= 0) & is_timed)
    of = owner[ids]
    order = np.lexsort((spans.end[ids], of))
    ids, of = ids[order], of[order]
    if not len(ids):
        return _no_ops()
    first = np.append(0, np.flatnonzero(of[1:] != of[:-1]) + 1)
    last = np.append(first[1:], len(ids)) - 1
    length, wait = spans.end[ids] - spans.start[ids], known_waits(trace, ids)
    longest_ticks = np.maximum.reduceat(length, first)
    group = np.repeat(np.arange(len(first)), last - first + 1)
    # The first of equally long spans, by its number.
    is_most = np.flatnonzero(length == longest_ticks[group])
    longest = np.full(len(first), len(spans), np.int64)
    np.minimum.at(longest, group[is_most], ids[is_most])
    ops = SharedOps(
        of[first],
        last - first + 1,
        np.minimum.reduceat(spans.start[ids], first),
        ids[last],
        spans.end[ids[last]],
        longest,
        longest_ticks,
        np.add.reduceat(length, first),
        np.add.reduceat(wait, first) - wait[last],
        _cores_by_owner(trace, ids, group, len(first)),
    )
    return ops.take(ops.n_threads > 1)


def _n_different(columns: list[Array]) -> Array:
    """Return how many different values each row has; 0 where one is negative.

    By pairs of columns: faster than to sort the rows, even of 64 columns.
    """
    n = np.zeros(len(columns[0]), np.int16)
    is_known = np.ones(len(n), np.bool_)
    for i, column in enumerate(columns):
        is_new = np.ones(len(n), np.bool_)
        for other in columns[:i]:
            is_new &= column != other
        n += is_new
        is_known &= column >= 0
    return n * is_known


def _cores_by_owner(trace: Trace, ids: I64, group: I64, n: int) -> I64:
    """Return the column `n_cores` of `n` ops whose spans lie group by group."""
    n_cores = np.zeros(n, np.int64)
    if (core := trace.spans.core) is None:
        return n_cores
    order = np.lexsort((core[ids], group))
    cores, of = core[ids][order], group[order]
    is_new = np.append(True, (cores[1:] != cores[:-1]) | (of[1:] != of[:-1]))
    n_cores += np.bincount(of[is_new], minlength=n)
    n_cores[of[cores < 0]] = 0
    return n_cores
