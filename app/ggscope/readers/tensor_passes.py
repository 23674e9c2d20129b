"""Order records by thread and time, cut them into passes, and find their ends.

A record is an instant: it is written before its op runs. Its end is measured where
the writer left a duration in spare bytes, else *derived* from the next record of the
same thread. The last record of a thread in a pass has neither: what follows is the
pause between passes, which is no op time.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, SpanFlag, narrow
from ggscope.readers.tensor_scan import Columns


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Rows:
    """Records in lane-major order: by thread, then by time.

    Attributes
    ----------
    order : position of each row in file order; None where that is the same.
    start, end : int64[n], ticks since `origin`.
    flags : uint16[n], `SpanFlag`.
    lane_first : int64[n_lanes + 1], first row of each thread.
    run_first : first row of each run: the records of one thread in one pass.
    run_pass : pass of each run, 0-based.
    n_passes : number of passes.
    n_backwards : places where the file's order goes back in time.
    n_moved : records that lay behind a later one of their own thread.
    """

    order: Array | None
    start: I64
    end: I64
    flags: npt.NDArray[np.uint16]
    lane_first: I64
    run_first: I64
    run_pass: I64
    n_passes: int
    origin: int
    n_backwards: int
    n_moved: int
    n_measured: int

    def __len__(self) -> int:
        return len(self.start)

    def lanes(self, first: int) -> Array:
        """Return the lane of each row in a narrow dtype; threads begin at `first`."""
        ids = narrow(np.arange(first, first + len(self.lane_first) - 1))
        return np.repeat(ids, np.diff(self.lane_first))

    def take(self, column: Array) -> Array:
        """Return a column in file order as rows."""
        return column if self.order is None else column[self.order]


def arrange(columns: Columns, threads: list[int], key_hash: int | None) -> Rows:
    """Return the records in lane-major order with passes and ends.

    Parameters
    ----------
    threads : raw thread ids in lane order.
    key_hash : hash of the name that begins a pass; None to begin one wherever the
        claimed token changes.
    """
    n = len(columns)
    origin = int(columns.time.min()) if n else 0
    lane_first, order = _by_thread(columns, threads)
    n_backwards = int(np.count_nonzero(columns.time[1:] < columns.time[:-1]))
    order, moved = _by_time(columns.time, lane_first, order, n_backwards)
    start = (columns.time if order is None else columns.time[order]) - origin
    is_key = _keys(columns, order, key_hash, lane_first)
    pass_of, n_passes = _passes(start, lane_first, is_key)
    is_last = np.ones(n, np.bool_)
    np.not_equal(pass_of[1:], pass_of[:-1], out=is_last[:-1])
    is_last[lane_first[1:] - 1] = True
    duration = columns.duration
    if duration is not None and order is not None:
        duration = duration[order]
    end, flags = _ends(start, is_last, duration)
    if len(moved):
        flags[moved] |= np.uint16(SpanFlag.OUT_OF_ORDER)
    run_first = np.flatnonzero(np.append(True, is_last[:-1])) if n else np.zeros(0, int)
    derived = np.uint16(SpanFlag.INFERRED_END | SpanFlag.UNFINISHED)
    return Rows(
        order=order,
        start=start,
        end=end,
        flags=flags,
        lane_first=lane_first,
        run_first=run_first,
        run_pass=pass_of[run_first].astype(np.int64),
        n_passes=n_passes,
        origin=origin,
        n_backwards=n_backwards,
        n_moved=len(moved),
        n_measured=int(np.count_nonzero((flags & derived) == 0)),
    )


def _by_thread(columns: Columns, threads: list[int]) -> tuple[I64, Array | None]:
    """Return the first row of each lane, and file positions by lane."""
    n_lanes = len(threads)
    if n_lanes <= 1:
        return np.array([0, len(columns)][: n_lanes + 1], np.int64), None
    lookup = np.zeros(1 << 16, np.uint16)
    lookup[threads] = np.arange(n_lanes)
    lane = lookup[columns.thread]
    # 16-bit keys are sorted by radix, in linear time.
    order = np.argsort(lane, kind="stable")
    counts = np.bincount(lane, minlength=n_lanes)
    index = columns.record.dtype
    return np.concatenate([[0], np.cumsum(counts)]), order.astype(index, copy=False)


def _by_time(
    time: I64, lane_first: I64, order: Array | None, n_backwards: int
) -> tuple[Array | None, I64]:
    """Return `order` with every lane in time order, and the rows that were late."""
    none = np.zeros(0, np.int64)
    if not n_backwards:
        return order, none
    if order is None:
        order = np.arange(len(time))
    late = []
    by_lane = time[order]
    backwards = np.flatnonzero(by_lane[1:] < by_lane[:-1]) + 1
    lanes = np.unique(np.searchsorted(lane_first, backwards, "right") - 1)
    for lane in lanes.tolist():
        rows = slice(int(lane_first[lane]), int(lane_first[lane + 1]))
        times = by_lane[rows]
        if not bool((times[1:] < times[:-1]).any()):
            continue
        permutation = np.argsort(times, kind="stable")
        is_late = times < np.maximum.accumulate(times)
        late.append(rows.start + np.flatnonzero(is_late[permutation]))
        order[rows] = order[rows][permutation]
    return order, np.concatenate(late) if late else none


def _keys(
    columns: Columns, order: Array | None, key_hash: int | None, lane_first: I64
) -> npt.NDArray[np.bool_]:
    """Return which rows may begin a pass."""
    if key_hash is not None and columns.name_hash is not None:
        is_key = columns.name_hash == np.uint32(key_hash)
        return np.asarray(is_key if order is None else is_key[order])
    token = columns.token if order is None else columns.token[order]
    is_key = np.zeros(len(token), np.bool_)
    np.not_equal(token[1:], token[:-1], out=is_key[1:])
    is_key[lane_first[:-1]] = False
    return is_key


def _passes(
    start: I64, lane_first: I64, is_key: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int32], int]:
    """Return the pass of every row, int32[n], and how many there are."""
    n = len(start)
    keys = np.flatnonzero(is_key)
    if len(lane_first) <= 2:
        pass_of = np.cumsum(is_key, dtype=np.int32)
    else:
        bounds = _boundaries(start, lane_first, keys)
        pass_of = np.searchsorted(bounds, start, "right").astype(np.int32)
    if not n:
        return pass_of, 0
    pass_of -= pass_of.min()
    return pass_of, int(pass_of.max()) + 1


def _boundaries(start: I64, lane_first: I64, keys: I64) -> I64:
    """Return the times at which passes begin, ascending.

    A writer that logs every thread writes the first op of a pass once per thread,
    with nothing but its fellows in between (a barrier follows). So a key begins a
    pass unless it comes right after a key of another thread.
    """
    keys = keys[np.argsort(start[keys], kind="stable")]
    lane = np.searchsorted(lane_first, keys, "right") - 1
    times = start[keys]
    if len(np.unique(lane)) > 1:
        rank = np.searchsorted(np.sort(start, kind="stable"), times)
        begins = np.ones(len(keys), np.bool_)
        begins[1:] = (np.diff(rank) > len(lane_first) - 1) | (np.diff(lane) == 0)
        times = times[begins]
    return np.unique(times)


def _ends(
    start: I64, is_last: npt.NDArray[np.bool_], duration: I64 | None
) -> tuple[I64, npt.NDArray[np.uint16]]:
    """Return the end and the flags of every row."""
    end = start.copy()
    end[:-1] = start[1:]
    np.copyto(end, start, where=is_last)
    flags = np.full(len(start), SpanFlag.INFERRED_END, np.uint16)
    flags[is_last] = SpanFlag.UNFINISHED
    if duration is not None and _are_durations(start, is_last, duration):
        has_one = duration > 0
        # The clock may be too coarse for a short op: where most records have a
        # duration, zero is a measurement as well.
        if 2 * int(np.count_nonzero(has_one)) >= len(start):
            has_one[:] = True
        np.copyto(end, start + duration, where=has_one)
        flags[has_one] = 0
    return end, flags


def _are_durations(start: I64, is_last: npt.NDArray[np.bool_], duration: I64) -> bool:
    """Tell whether the spare bytes hold durations and not something else.

    An op ends before the next one of its thread begins.
    """
    judged = np.flatnonzero((duration > 0) & ~is_last)
    if not len(judged):
        return True
    fits = start[judged] + duration[judged] <= start[judged + 1]
    return 2 * int(np.count_nonzero(fits)) >= len(judged)


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
    token: npt.NDArray[np.int32]
    phase: npt.NDArray[np.uint8]
    count: I64


def pass_bands(rows: Rows, token: Array, phase: Array) -> Bands:
    """Return the extent and the claims of every pass.

    Parameters
    ----------
    token, phase : as rows, raw.
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
    lengths = np.diff(np.append(first, len(rows)))
    count = np.bincount(rows.run_pass, lengths, n).astype(np.int64)
    return Bands(start, end, token[leader], phase[leader], count)


def phase_bands(rows: Rows, phase: Array, passes: Bands) -> Bands:
    """Return the stretches of time in which the claimed phase is the same."""
    changes = np.ones(len(rows), np.bool_)
    np.not_equal(phase[1:], phase[:-1], out=changes[1:])
    changes[rows.lane_first[:-1]] = True
    at = np.flatnonzero(changes)
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
