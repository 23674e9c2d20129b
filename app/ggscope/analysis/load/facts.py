"""Figures of reads: how much, how fast, how large, how many at once, how scattered."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.load.rows import LoadRows
from ggscope.model.storage import IoKind
from ggscope.model.tables import I64, ranked

F64 = npt.NDArray[np.float64]
PERCENTILES = (50, 90, 99, 100)


@dataclass(frozen=True, slots=True)
class SizeBucket:
    """Requests of a size, or of sizes up to twice it.

    Attributes
    ----------
    low, high : bytes, both inclusive.
    n, bytes : requests, and their bytes together.
    """

    low: int
    high: int
    n: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FileShare:
    """What was read of a file.

    Attributes
    ----------
    name : "" = no file is known.
    n, bytes : reads, and their bytes together; bytes -1 = no size is recorded.
    distinct : different bytes of it; -1 = offsets or sizes are not recorded.
    size : of the file; -1 unknown.
    """

    name: str
    n: int
    bytes: int
    distinct: int
    size: int


@dataclass(frozen=True, slots=True)
class LoadFacts:
    """Figures of the reads of one level.

    Attributes
    ----------
    key : as in `LoadRows`.
    n, n_open, n_sized : reads; whose end is not recorded; whose size is.
    bytes : of those with a size.
    first, last : ticks of the first begin and the last end.
    busy : ticks with at least one in flight, of reads with both ends.
    alone : of these, ticks with exactly one.
    mean_depth, max_depth : in flight while busy, by time; 0 where nothing is timed.
    common_size, common_share : the size that most requests have, and their share.
    buckets : by size, ascending.
    latency : ticks at `PERCENTILES`; empty where nothing is timed.
    queued : median ticks in the queue; -1 not recorded.
    sequential : share of the reads that begin where the read before ended; NaN where
        places are not recorded.
    files : by bytes, largest first.
    n_major, n_minor, n_faults : page faults by kind.
    n_maps, mapped : mappings of files, and their bytes.
    """

    key: str
    n: int
    n_open: int
    n_sized: int
    bytes: int
    first: int
    last: int
    busy: int
    alone: int
    mean_depth: float
    max_depth: int
    common_size: int
    common_share: float
    buckets: tuple[SizeBucket, ...]
    latency: tuple[int, ...]
    queued: int
    sequential: float
    files: tuple[FileShare, ...]
    n_major: int
    n_minor: int
    n_faults: int
    n_maps: int = 0
    mapped: int = 0

    @property
    def duration(self) -> int:
        """Ticks from the first begin to the last end."""
        return self.last - self.first

    @property
    def rate(self) -> float:
        """Bytes per tick over all of that; NaN where it has no length."""
        return self.bytes / self.duration if self.duration > 0 else float("nan")

    @property
    def busy_share(self) -> float:
        """Share of the time with a read in flight; NaN where nothing is timed."""
        return self.busy / self.duration if self.duration > 0 else float("nan")

    @property
    def alone_share(self) -> float:
        """Share of the busy time with exactly one in flight; NaN where unknown."""
        return self.alone / self.busy if self.busy > 0 else float("nan")


def load_facts(rows: LoadRows, queued: I64 | None = None) -> LoadFacts:
    """Return the figures of some reads.

    Parameters
    ----------
    queued : int64[n], ticks of each in the queue, -1 not recorded.
    """
    sized = rows.size >= 0
    size = np.where(sized, rows.size, 0)
    timed = ~rows.is_open
    time, depth = depth_steps(rows)
    busy, alone, area = _depth_times(time, depth)
    took = np.sort((rows.end - rows.start)[timed])
    common, share = _common(rows.size[sized])
    waits = None if queued is None else queued[queued >= 0]
    return LoadFacts(
        key=rows.key,
        n=len(rows),
        n_open=int(np.count_nonzero(rows.is_open)),
        n_sized=int(np.count_nonzero(sized)),
        bytes=int(size.sum()),
        first=int(rows.start.min(initial=np.iinfo(np.int64).max)) if len(rows) else 0,
        last=int(rows.end.max()) if len(rows) else 0,
        busy=busy,
        alone=alone,
        mean_depth=area / busy if busy else 0.0,
        max_depth=int(depth.max(initial=0)),
        common_size=common,
        common_share=share,
        buckets=_buckets(rows.size[sized]),
        latency=_percentiles(took),
        queued=int(np.median(waits)) if waits is not None and len(waits) else -1,
        sequential=_sequential(rows),
        files=_files(rows),
        n_major=int(np.count_nonzero(rows.kind == IoKind.MAJOR_FAULT)),
        n_minor=int(np.count_nonzero(rows.kind == IoKind.MINOR_FAULT)),
        n_faults=int(np.count_nonzero(rows.kind >= IoKind.MAJOR_FAULT)),
    )


def depth_steps(rows: LoadRows) -> tuple[I64, I64]:
    """Return when how many were in flight: ticks, and the number from then on.

    Reads whose end is not recorded do not count. Ticks ascend; the last number is 0.
    """
    timed = ~rows.is_open & (rows.end > rows.start)
    start, end = np.sort(rows.start[timed]), np.sort(rows.end[timed])
    if not len(start):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    both = np.concatenate([start, end])
    both.sort(kind="stable")
    ticks = both[np.append(True, both[1:] != both[:-1])]
    begun = np.searchsorted(start, ticks, "right")
    done = np.searchsorted(end, ticks, "right")
    return ticks, (begun - done).astype(np.int64)


def _depth_times(time: I64, depth: I64) -> tuple[int, int, int]:
    """Return ticks with some in flight, with exactly one, and their sum by number."""
    if len(time) < 2:
        return 0, 0, 0
    length, depth = np.diff(time), depth[:-1]
    busy = int(length[depth > 0].sum())
    return busy, int(length[depth == 1].sum()), int((length * depth).sum())


def _common(size: I64) -> tuple[int, float]:
    if not len(size):
        return -1, 0.0
    values, first, place = ranked(size)
    counts = np.bincount(place, minlength=len(first))
    best = int(np.argmax(counts))
    return int(values[best]), float(counts[best] / len(size))


def _buckets(size: I64) -> tuple[SizeBucket, ...]:
    """Return the requests by powers of two; a size that fills a bucket names it."""
    if not len(size):
        return ()
    power = np.zeros(len(size), np.int64)
    some = size > 0
    # Exact: the bits that a number has, without logarithms.
    power[some] = np.frexp(size[some].astype(np.float64))[1]
    buckets = []
    for code in np.flatnonzero(np.bincount(power)).tolist():
        mine = size[power == code]
        buckets.append(
            SizeBucket(int(mine.min()), int(mine.max()), len(mine), int(mine.sum()))
        )
    return tuple(buckets)


def _percentiles(took: I64) -> tuple[int, ...]:
    """Return the smallest time that so many per cent of the reads do not exceed."""
    if not len(took):
        return ()
    ranks = [max(-(-len(took) * p // 100) - 1, 0) for p in PERCENTILES]
    return tuple(int(took[rank]) for rank in ranks)


def _sequential(rows: LoadRows) -> float:
    """Return the share of reads that go on where the one before ended."""
    where = positions(rows)
    known = (where >= 0) & (rows.size >= 0)
    if np.count_nonzero(known) < 2:
        return float("nan")
    where, size, file = where[known], rows.size[known], rows.file[known]
    goes_on = (where[1:] == where[:-1] + size[:-1]) & (file[1:] == file[:-1])
    return float(np.count_nonzero(goes_on) / len(goes_on))


def _files(rows: LoadRows) -> tuple[FileShare, ...]:
    order = np.argsort(rows.file, kind="stable")
    numbers = rows.file[order]
    edges = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
    files = []
    for begin, stop in zip(
        edges.tolist(), [*edges[1:].tolist(), len(numbers)], strict=True
    ):
        if begin == stop:
            continue
        mine, number = order[begin:stop], int(numbers[begin])
        size, offset = rows.size[mine], rows.offset[mine]
        has_sizes = bool((size >= 0).any())
        is_placed = number >= 0 and has_sizes and bool((offset >= 0).all())
        files.append(
            FileShare(
                rows.files[number].path if number >= 0 else "",
                len(mine),
                int(size[size >= 0].sum()) if has_sizes else -1,
                distinct_bytes(offset, size) if is_placed else -1,
                rows.files[number].size if number >= 0 else -1,
            )
        )
    return tuple(sorted(files, key=lambda share: (-share.bytes, -share.n, share.name)))


def distinct_bytes(offset: I64, size: I64) -> int:
    """Return how many different bytes ranges cover together."""
    size = np.maximum(size, 0)
    order = np.argsort(offset, kind="stable")
    begin, end = offset[order], (offset + size)[order]
    reach = np.maximum.accumulate(end)
    before = np.append(np.int64(-(1 << 62)), reach[:-1])
    return int(np.maximum(reach - np.maximum(begin, before), 0).sum())


# -- what a picture shows ----------------------------------------------------------


def amounts_by_column(rows: LoadRows, edges: I64) -> I64:
    """Return the bytes that were complete in each column, int64[len(edges) - 1].

    A read counts where it ended, whole; one without a size as 1 where none has one.
    """
    weight, at = _weights(rows), _column_of(rows.end, edges)
    inside = at >= 0
    amounts = np.zeros(len(edges) - 1, np.int64)
    np.add.at(amounts, at[inside], weight[inside])
    return amounts


def depth_by_column(rows: LoadRows, edges: I64) -> tuple[F64, I64]:
    """Return the mean and the largest number in flight in each column."""
    time, depth = depth_steps(rows)
    n = len(edges) - 1
    if not len(time):
        return np.zeros(n), np.zeros(n, np.int64)
    area = np.append(0, np.cumsum(np.diff(time) * depth[:-1]))
    step = np.searchsorted(time, edges, "right") - 1
    at = np.maximum(step, 0)
    level = np.where(step >= 0, depth[at], 0)
    until = np.where(step >= 0, area[at] + level * (edges - time[at]), 0)
    width = np.maximum(np.diff(edges), 1)
    # The steps within a column, and the one that goes on into it.
    cut = np.searchsorted(time, edges)
    peak = np.maximum.reduceat(np.append(depth, 0), np.minimum(cut, len(depth)))[:n]
    has_step = cut[:-1] < cut[1:]
    peak = np.where(has_step, np.maximum(peak, level[:-1]), level[:-1])
    return np.diff(until) / width, peak.astype(np.int64)


def amounts_by_cell(rows: LoadRows, edges: I64, rungs: I64) -> I64:
    """Return the bytes of each cell of a grid, int64[rungs - 1, edges - 1].

    A read lies in the column in which it ended, and in the rows by the bytes of it that
    lie there: each row's are exact. Reads without a size count as 1 where they begin.

    Parameters
    ----------
    edges : ticks, ascending; rungs : offsets (or places on a device), ascending.
    """
    n_columns, n_rows = len(edges) - 1, len(rungs) - 1
    where = positions(rows)
    column = _column_of(rows.end, edges)
    shown = (column >= 0) & (where >= 0)
    where, column, size = where[shown], column[shown], rows.size[shown]
    if not bool((rows.size >= 0).any()):
        row = _column_of(where, rungs)
        inside = row >= 0
        flat = row[inside] * n_columns + column[inside]
        counts = np.bincount(flat, minlength=n_rows * n_columns)
        return counts.reshape(n_rows, n_columns).astype(np.int64)
    begin = np.clip(where, rungs[0], rungs[-1])
    end = np.clip(where + np.maximum(size, 0), rungs[0], rungs[-1])
    some = end > begin
    begin, end, column = begin[some], end[some], column[some]
    first = np.searchsorted(rungs, begin, "right") - 1
    last = np.searchsorted(rungs, end, "left") - 1
    grid = np.zeros((n_rows, n_columns), np.int64)
    head = np.minimum(end, rungs[first + 1]) - begin
    np.add.at(grid, (first, column), head)
    more = last > first
    np.add.at(grid, (last[more], column[more]), (end - rungs[last])[more])
    # Whole rows in between, by where they begin and end.
    between = last > first + 1
    steps = np.zeros((n_rows + 1, n_columns), np.int64)
    np.add.at(steps, (first[between] + 1, column[between]), 1)
    np.add.at(steps, (last[between], column[between]), -1)
    whole = np.cumsum(steps, axis=0)[:n_rows]
    return np.asarray(grid + whole * np.diff(rungs)[:, None])


def positions(rows: LoadRows) -> I64:
    """Return where reads are: in their file, or where no file is known on the device.

    -1 where that is not recorded.
    """
    return rows.offset if bool((rows.offset >= 0).any()) else rows.place


def _weights(rows: LoadRows) -> I64:
    if bool((rows.size >= 0).any()):
        return np.maximum(rows.size, 0)
    return np.ones(len(rows), np.int64)


def _column_of(values: I64, edges: I64) -> I64:
    """Return the column that holds each value, -1 outside; the last edge is inside."""
    at = np.searchsorted(edges, values, "right") - 1
    at = np.where(values == edges[-1], len(edges) - 2, at)
    return np.where((values < edges[0]) | (values > edges[-1]), -1, at)
