"""Order records by thread and time, cut them into passes, and find their ends.

A record is an instant: it is written before its op runs. Its end is measured where
the writer left a duration in spare bytes, else *derived* from the next record of the
same thread. The last record of a thread in a pass has neither: what follows is the
pause between passes, which is no op time. Passes and phases of inference are
intervals over all threads.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ggscope.model.tables import I32, I64, U8, U16, Array, Bools, SpanFlag, distinct
from ggscope.native.library import library
from ggscope.readers.chunked import ChunkedOps
from ggscope.readers.tensor.columns import (
    N_THREADS,
    SPARE_SHARE,
    Headers,
    Tally,
    TensorFile,
)

_PAUSE_NS = 100_000_000
_PAUSE_FACTOR = 1000
_MANY_LANES = 64
"""With more lanes, times are sorted as a whole instead of looked up lane by lane."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Records:
    """Records in lane-major order: by thread, then by time.

    Attributes
    ----------
    order : position of each row in file order; None where that is the same.
    start, end : int64[n], ticks since `origin`.
    flags : uint8[n], `SpanFlag`.
    lane_first : int64[n_lanes + 1], first row of each thread.
    run_first : first row of each run: the records of one thread in one pass.
    run_pass : pass of each run, 0-based.
    n_passes : number of passes.
    n_backwards : places where the file's order goes back in time.
    n_moved : records that lay behind a later one of their own thread.
    n_pauses : records within a pass after which nothing follows for more than `pause`
        ticks: they have no derived duration.

    Notes
    -----
    start, end and flags are views of longer arrays, so that spans can follow
    without a copy; see `with_spare_rows`.
    """

    order: Array | None
    start: I64
    end: I64
    flags: U8
    lane_first: I64
    run_first: I64
    run_pass: I64
    n_passes: int
    origin: int
    n_backwards: int
    n_moved: int
    n_pauses: int = 0
    pause: int = 0

    def positions(self, rows: Array) -> Array:
        """Return where the given rows are in file order."""
        return rows if self.order is None else self.order[rows]


def spare_rows(n: int) -> int:
    """Return how many more rows than `n` a column should have room for."""
    return n // SPARE_SHARE + 256


def arrange(
    columns: Headers,
    threads: list[int],
    marks: Bools | None,
    chunked: ChunkedOps,
    *,
    origin: int,
    may_consume: bool = False,
) -> Records:
    """Return the records in lane-major order with passes and ends.

    Parameters
    ----------
    threads : raw thread ids in lane order.
    marks : bool[n], rows in file order whose name may begin a pass; None to begin
        one wherever the claimed token changes.
    origin : time stamp of tick 0, not after any record.
    may_consume : the columns time, thread and duration are not needed any more;
        their memory is used again.
    """
    n = len(columns.time)
    lane_first, order = lane_order(chunked, columns.thread, threads)
    n_backwards = len(
        chunked.find(
            n - 1, lambda p: columns.time[p.start + 1 : p.stop + 1] < columns.time[p]
        )
    )
    start, spare = _starts(columns, order, origin, chunked, may_consume)
    order, moved = _by_time(start[:n], lane_first, order, n_backwards, chunked)
    runs = _runs(
        start[:n],
        _keys(columns, order, marks, lane_first, chunked),
        lane_first,
        chunked,
    )
    last = np.append(runs.first[1:], n)[: len(runs.first)] - 1
    end, flags = _ends(start[:n], spare, last, columns.duration, order, chunked)
    if may_consume:
        columns.duration = None
    n_pauses, pause = _cut_pauses(start[:n], end[:n], flags[:n], chunked)
    flags[moved] |= np.uint8(SpanFlag.OUT_OF_ORDER)
    return Records(
        order=order,
        start=start[:n],
        end=end[:n],
        flags=flags[:n],
        lane_first=lane_first,
        run_first=runs.first,
        run_pass=runs.pass_of,
        n_passes=runs.n_passes,
        origin=origin,
        n_backwards=n_backwards,
        n_moved=len(moved),
        n_pauses=n_pauses,
        pause=pause,
    )


def lane_order(
    chunked: ChunkedOps, thread: U16, ids: list[int]
) -> tuple[I64, Array | None]:
    """Return the first row of each lane, and positions by lane.

    Parameters
    ----------
    ids : raw thread ids in lane order, all that occur.

    Returns
    -------
    int64[n_lanes + 1], and int32[n]; None where that is the order already.
    """
    n, n_lanes = len(thread), len(ids)
    if n_lanes <= 1:
        return np.array([0, n][: n_lanes + 1], np.int64), None
    counts = chunked.counts(thread, N_THREADS)[ids]
    lane_first = np.concatenate([[0], np.cumsum(counts)])
    order = np.empty(n, np.int32)
    lane_of = np.zeros(N_THREADS, np.uint16)
    lane_of[ids] = np.arange(n_lanes)
    following, limit = lane_first[:-1].copy(), lane_first[1:].copy()
    for chunk in chunked.slices(n):
        fits = library().ggscope_tensor_order(
            thread, chunk.start, chunk.stop, lane_of, following, limit, order
        )
        assert fits, "a thread has more records than were counted"
    return lane_first, order


def _starts(
    columns: Headers,
    order: Array | None,
    origin: int,
    chunked: ChunkedOps,
    may_consume: bool,
) -> tuple[I64, I64 | None]:
    """Return the start of every row with room behind it, and memory for the ends."""
    n = len(columns.time)
    base = columns.time.base if may_consume else None
    # The memory of the raw stamps, with the room that was left behind them.
    raw = base if isinstance(base, np.ndarray) and base.dtype == np.int64 else None
    if may_consume:
        columns.thread = np.empty(0, np.uint16)
    if order is None and raw is not None:
        start, spare = raw, None
    else:
        start, spare = np.empty(n + spare_rows(n), np.int64), raw
        chunked.gather(columns.time, order, start)
    if may_consume:
        columns.time = np.empty(0, np.int64)
    for chunk in chunked.slices(n):
        start[chunk] -= origin
    return start, spare


def _by_time(
    start: I64,
    lane_first: I64,
    order: Array | None,
    n_backwards: int,
    chunked: ChunkedOps,
) -> tuple[Array | None, I64]:
    """Put every lane into time order, in place; return the order and the late rows.

    A row is late if it lay behind a later one of its own thread.
    """
    none = np.zeros(0, np.int64)
    if not n_backwards:
        return order, none
    n = len(start)
    backwards = 1 + chunked.find(
        n - 1, lambda p: start[p.start + 1 : p.stop + 1] < start[p]
    )
    lanes = np.searchsorted(lane_first, backwards, "right") - 1
    # Where a lane begins time may go back.
    lanes = distinct(lanes[backwards > lane_first[lanes]])
    if not len(lanes):
        return order, none
    if order is None:
        order = np.arange(n, dtype=np.int32 if n < 1 << 31 else np.int64)
    late = []
    for lane in lanes.tolist():
        rows = slice(int(lane_first[lane]), int(lane_first[lane + 1]))
        permutation = np.argsort(start[rows], kind="stable")
        is_late = start[rows] < np.maximum.accumulate(start[rows])
        late.append(rows.start + np.flatnonzero(is_late[permutation]))
        order[rows] = order[rows][permutation]
        start[rows] = start[rows][permutation]
    return order, np.concatenate(late)


def _keys(
    columns: Headers,
    order: Array | None,
    marks: Bools | None,
    lane_first: I64,
    chunked: ChunkedOps,
) -> I64:
    """Return the rows that may begin a pass, ascending."""
    n = len(columns.token)
    if marks is not None:
        is_key = marks
        if order is not None:
            is_key = np.empty(n, np.bool_)
            chunked.gather(marks, order, is_key)
        return chunked.find(n, lambda p: is_key[p])
    token = columns.token
    if order is not None:
        token = np.empty(n, np.int32)
        chunked.gather(columns.token, order, token)
    keys = chunked.changes(token)
    return keys[~np.isin(keys, lane_first)]


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """First row and pass of every run, and how many passes there are."""

    first: I64
    pass_of: I64
    n_passes: int


def _runs(start: I64, keys: I64, lane_first: I64, chunked: ChunkedOps) -> _Runs:
    """Return where the records of one thread in one pass begin, and whose they are."""
    n, n_lanes = len(start), len(lane_first) - 1
    if not n:
        return _Runs(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)
    if n_lanes <= 1:
        first = distinct(np.append(0, keys))
        pass_of = np.searchsorted(keys, first, "right")
    else:
        # Where each pass begins in each lane, found by its time.
        bounds = _boundaries(start, lane_first, keys, chunked)
        if n_lanes > _MANY_LANES:
            of_row = np.searchsorted(bounds, start, "right")
            begins = np.append(True, of_row[1:] != of_row[:-1])
            begins[lane_first[:-1][np.diff(lane_first) > 0]] = True
            first = np.flatnonzero(begins)
            pass_of = of_row[first] - of_row[first].min()
            return _Runs(first, pass_of, int(pass_of.max()) + 1)
        parts, passes = [], []
        for low, high in chunked.each(pairwise(lane_first.tolist())):
            at = low + np.searchsorted(start[low:high], bounds)
            begins = np.append(low, at)
            is_used = begins < np.append(at, high)
            parts.append(begins[is_used])
            passes.append(np.flatnonzero(is_used))
        first, pass_of = np.concatenate(parts), np.concatenate(passes)
    pass_of = pass_of - pass_of.min()
    return _Runs(first, pass_of.astype(np.int64), int(pass_of.max()) + 1)


def _boundaries(start: I64, lane_first: I64, keys: I64, chunked: ChunkedOps) -> I64:
    """Return the times at which passes begin, ascending.

    A writer that logs every thread writes the first op of a pass once per thread,
    with nothing but its fellows in between (a barrier follows). So a key begins a
    pass unless it comes right after a key of another thread.
    """
    keys = keys[np.argsort(start[keys], kind="stable")]
    lane = np.searchsorted(lane_first, keys, "right") - 1
    times = start[keys]
    if (lane != lane[:1]).any():
        if len(lane_first) - 1 > _MANY_LANES:
            rank = np.searchsorted(np.sort(start), times)
        else:
            rank = np.zeros(len(times), np.int64)
            for low, high in chunked.each(pairwise(lane_first.tolist())):
                rank += np.searchsorted(start[low:high], times)
        begins = np.ones(len(keys), np.bool_)
        begins[1:] = (np.diff(rank) > len(lane_first) - 1) | (np.diff(lane) == 0)
        times = times[begins]
    is_new = np.append(True, times[1:] > times[:-1])[: len(times)]
    boundaries: I64 = times[is_new]
    return boundaries


def _ends(
    start: I64,
    spare: I64 | None,
    last: I64,
    duration: I64 | None,
    order: Array | None,
    chunked: ChunkedOps,
) -> tuple[I64, U8]:
    """Return the end and the flags of every row, with room behind them.

    Parameters
    ----------
    spare : memory for the ends.
    last : rows that end a run.
    """
    n = len(start)
    end = np.empty(n + spare_rows(n), np.int64) if spare is None else spare
    flags = np.empty(n + spare_rows(n), np.uint8)
    for chunk in chunked.slices(n):
        until = min(chunk.stop, n - 1)
        end[chunk.start : until] = start[chunk.start + 1 : until + 1]
        flags[chunk] = SpanFlag.INFERRED_END
    end[last] = start[last]
    flags[last] = SpanFlag.UNFINISHED
    if duration is not None:
        _measure(start, end[:n], flags[:n], duration, order, chunked)
    return end, flags


def _cut_pauses(
    start: I64, end: I64, flags: U8, chunked: ChunkedOps
) -> tuple[int, int]:
    """Take derived durations away that are out of all proportion: pauses.

    Returns
    -------
    How many they were, and from how many ticks on.
    """
    step = max(len(start) // 4096, 1)
    sample = end[::step] - start[::step]
    typical = float(np.median(sample)) if len(sample) else 0.0
    limit = int(max(_PAUSE_NS, _PAUSE_FACTOR * typical))
    count = 0
    for part in chunked.slices(len(start)):
        is_pause = end[part] - start[part] > limit
        is_pause &= (flags[part] & SpanFlag.INFERRED_END) != 0
        rows = part.start + np.flatnonzero(is_pause)
        end[rows] = start[rows]
        flags[rows] = SpanFlag.UNFINISHED
        count += len(rows)
    return count, limit


def _measure(
    start: I64,
    end: I64,
    flags: U8,
    duration: I64,
    order: Array | None,
    chunked: ChunkedOps,
) -> None:
    """Put measured ends in place of derived ones, where the durations are some.

    An op ends before the next one of its thread begins; where most do not, the
    spare bytes hold something else.
    """
    unfinished = np.uint8(SpanFlag.UNFINISHED)

    def of(chunk: slice) -> I64:
        return duration[chunk] if order is None else duration[order[chunk]]

    n_judged = n_fitting = n_known = 0
    for chunk in chunked.slices(len(start)):
        part = of(chunk)
        has_one = part > 0
        n_known += int(np.count_nonzero(has_one))
        judged = has_one & ((flags[chunk] & unfinished) == 0)
        n_judged += int(np.count_nonzero(judged))
        fits = start[chunk] + part <= end[chunk]
        n_fitting += int(np.count_nonzero(judged & fits))
    if 2 * n_fitting < n_judged:
        return
    # The clock may be too coarse for a short op: where most records have a
    # duration, zero is a measurement as well.
    is_for_all = 2 * n_known >= len(start)
    for chunk in chunked.slices(len(start)):
        part = of(chunk)
        has_one = np.asarray((part > 0) | is_for_all)
        np.copyto(end[chunk], start[chunk] + part, where=has_one)
        np.copyto(flags[chunk], np.uint8(0), where=has_one)


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """Intervals over all threads: passes, or phases.

    Attributes
    ----------
    start, end : int64[n], ticks, ascending.
    token : int32[n], claimed by the first record.
    phase : uint8[n], claimed by the first record, raw.
    count : int64[n], records; of passes only.
    """

    start: I64
    end: I64
    token: I32
    phase: U8
    count: I64


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Draft:
    """What is known once header columns have been read and arranged.

    Attributes
    ----------
    threads : raw thread ids in lane order.
    spans : columns of all spans but for names; see `make_draft`.
    band_names : string ids of the spans of passes and phases, which come last.
    ended_at : number of the first record that the file no longer had; -1 none.
    is_full : whether the recording stopped because its buffer was full.
    """

    file: TensorFile
    tally: Tally
    threads: list[int]
    rows: Records
    passes: Bands
    phases: Bands
    spans: dict[str, Array]
    band_names: Array
    ended_at: int = -1
    is_full: bool = False


def pass_bands(rows: Records, token: Array, phase: Array) -> Bands:
    """Return the extent and the claims of every pass.

    Parameters
    ----------
    token, phase : in file order, raw.
    """
    n, first = rows.n_passes, rows.run_first
    start = np.full(n, np.iinfo(np.int64).max)
    end = np.zeros(n, np.int64)
    run_start = rows.start[first]
    np.minimum.at(start, rows.run_pass, run_start)
    if len(first):
        np.maximum.at(end, rows.run_pass, np.maximum.reduceat(rows.end, first))
    by_pass = np.lexsort((run_start, rows.run_pass))
    leader = first[by_pass[np.searchsorted(rows.run_pass[by_pass], np.arange(n))]]
    at = rows.positions(leader)
    lengths = np.diff(np.append(first, len(rows.start)))
    count = np.bincount(rows.run_pass, lengths, n).astype(np.int64)
    return Bands(start, end, token[at], phase[at], count)


def phase_bands(
    rows: Records, phase: Array, passes: Bands, chunked: ChunkedOps
) -> Bands:
    """Return the stretches of time in which the claimed phase is the same.

    Parameters
    ----------
    phase : of each row, raw.
    """
    at = distinct(np.append(rows.lane_first[:-1], chunked.changes(phase)))
    at = at[np.argsort(rows.start[at], kind="stable")]
    at = at[np.append(True, phase[at][1:] != phase[at][:-1])] if len(at) else at
    start = rows.start[at]
    final = int(passes.end.max()) if len(at) else 0
    limit = np.append(start[1:], final) if len(at) else start
    band = np.searchsorted(start, passes.start, "right") - 1
    reach = np.full(len(at), -1, np.int64)
    np.maximum.at(reach, band, passes.end)
    end = np.where(reach < 0, limit, np.minimum(reach, limit))
    token = np.full(len(at), -1, np.int32)
    return Bands(start, end, token, phase[at], np.zeros(len(at), np.int64))
