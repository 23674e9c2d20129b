"""Memory in buffers over time: occupancy, its peak, lives, and who uses a buffer."""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

import numpy as np
import numpy.typing as npt

from ggscope.analysis.reads.op_io import (
    AccessTable,
    loose_bytes,
    loose_unsized,
    op_accesses,
)
from ggscope.analysis.workers import add_by_group, chunks
from ggscope.model.tables import I64, Array, Space
from ggscope.model.tensors import Buffers, BufferUsage
from ggscope.model.trace import Trace

Grouping = Literal["usage", "backend"]
_USAGE_ORDER = (BufferUsage.WEIGHTS, BufferUsage.COMPUTE, BufferUsage.ANY)
UNKNOWN = -1
_MAX_GROUPS = 64
"""Backends that have a level of their own; no machine has as many."""
_KV_WORDS = ("kv", "cache_k", "cache_v")


class Gap(Enum):
    """What the recording of buffers evidently lacks.

    WEIGHTS : no buffer of weights; the model was loaded before recording began.
    COMPUTE : no compute buffer but that of the KV cache, so none of the scheduler.
    RELEASES : no release at all; ends are not recorded, or nothing was freed.
    ALLOCATIONS : ops access buffers whose allocation is not recorded.
    SIZES : the size of a buffer is not known.
    """

    WEIGHTS = "weights"
    COMPUTE = "compute"
    RELEASES = "releases"
    ALLOCATIONS = "allocations"
    SIZES = "sizes"


@dataclass(frozen=True, slots=True, eq=False)
class Peak:
    """When most memory was occupied.

    Attributes
    ----------
    time : ticks, the first instant with that much.
    until : ticks of the next change; -1 where it is the last one.
    bytes : occupied then.
    alive : int64, rows of ``Trace.buffers`` alive then, the largest first.
    """

    time: int
    until: int
    bytes: int
    alive: I64


@dataclass(frozen=True, slots=True, eq=False)
class Occupancy:
    """Bytes in buffers as a step function; ``level[i]`` holds from ``time[i]``.

    Attributes
    ----------
    time : int64[m], ticks of all changes, strictly ascending.
    level : int64[m, g], bytes of each group from then on.
    total : int64[m], their exact sum.
    groups : titles of the groups: "WEIGHTS", "CPU" …; without a name "N/A".
    group : int64[n], the group of each buffer.
    peak : None where no allocation with a time and a size is recorded.
        Buffers without either are left out.
    """

    time: I64
    level: I64
    total: I64
    groups: tuple[str, ...]
    group: I64
    peak: Peak | None

    def at(self, tick: int) -> I64:
        """Return the bytes of each group at a tick, int64[g]."""
        row = int(np.searchsorted(self.time, tick, "right")) - 1
        return self.level[row] if row >= 0 else np.zeros(len(self.groups), np.int64)


def occupancy(trace: Trace, by: Grouping = "usage") -> Occupancy:
    """Return how much memory buffers occupied, and when most.

    Several changes at one instant count as one: only what held for a while is a
    level. A buffer freed before it was allocated counts for no time.
    """
    buffers = trace.buffers
    group, groups = _groups(trace, by)
    rows = np.flatnonzero((buffers.allocated != UNKNOWN) & (buffers.size >= 0))
    born, size = buffers.allocated[rows], buffers.size[rows]
    died = np.flatnonzero(buffers.freed[rows] != UNKNOWN)
    gone = np.maximum(buffers.freed[rows][died], born[died])
    time = np.concatenate([born, gone])
    change = np.concatenate([size, -size[died]])
    of_group = np.concatenate([group[rows], group[rows][died]])
    instants, at = np.unique(time, return_inverse=True)
    level = np.zeros((len(instants), len(groups)), np.int64)
    np.add.at(level, (at, of_group), change)
    level = np.cumsum(level, axis=0, dtype=np.int64)
    total = level.sum(axis=1, dtype=np.int64)
    peak = _peak(buffers, instants, total)
    return Occupancy(instants, level, total, groups, group, peak)


def alive_at(buffers: Buffers, tick: int) -> I64:
    """Return the rows of the buffers that were allocated and not freed at a tick."""
    is_born = (buffers.allocated != UNKNOWN) & (buffers.allocated <= tick)
    is_left = (buffers.freed == UNKNOWN) | (buffers.freed > tick)
    return np.flatnonzero(is_born & is_left)


def never_freed(buffers: Buffers) -> I64:
    """Return the rows of the buffers whose allocation, but no release, is recorded."""
    return np.flatnonzero((buffers.allocated != UNKNOWN) & (buffers.freed == UNKNOWN))


def gaps(trace: Trace) -> tuple[Gap, ...]:
    """Return what the recording of buffers lacks; empty where no buffer is known."""
    buffers = trace.buffers
    if not len(buffers):
        return ()
    timed = np.flatnonzero(buffers.allocated != UNKNOWN)
    result = []
    if len(timed):
        usage = buffers.usage[timed]
        if not (usage == BufferUsage.WEIGHTS).any():
            result.append(Gap.WEIGHTS)
        compute = timed[usage == BufferUsage.COMPUTE].tolist()
        if all(_is_kv_cache(trace, row) for row in compute):
            result.append(Gap.COMPUTE)
        if (buffers.freed[timed] == UNKNOWN).all():
            result.append(Gap.RELEASES)
        if (buffers.size[timed] < 0).any():
            result.append(Gap.SIZES)
    if len(timed) < len(buffers):
        result.append(Gap.ALLOCATIONS)
    return tuple(result)


def _is_kv_cache(trace: Trace, row: int) -> bool:
    name = int(trace.buffers.name[row])
    text = trace.strings[name].casefold() if name >= 0 else ""
    return any(word in text for word in _KV_WORDS)


def _peak(buffers: Buffers, time: I64, total: I64) -> Peak | None:
    if not len(total):
        return None
    row = int(np.argmax(total))
    alive = alive_at(buffers, int(time[row]))
    by_size = np.argsort(-buffers.size[alive], kind="stable")
    until = int(time[row + 1]) if row + 1 < len(time) else -1
    return Peak(int(time[row]), until, int(total[row]), alive[by_size])


def _groups(trace: Trace, by: Grouping) -> tuple[I64, tuple[str, ...]]:
    """Return the group of each buffer and the titles of the groups that occur."""
    buffers = trace.buffers
    if by == "usage":
        numbers = [int(u) for u in _USAGE_ORDER if (buffers.usage == u).any()]
        lookup = np.zeros(len(BufferUsage), np.int64)
        lookup[numbers] = np.arange(len(numbers))
        return lookup[buffers.usage], tuple(BufferUsage(u).name for u in numbers)
    distinct, group = np.unique(buffers.backend, return_inverse=True)
    titles = [trace.strings[i] if i >= 0 else "N/A" for i in distinct.tolist()]
    if len(titles) > _MAX_GROUPS:
        uses = np.bincount(group)
        uses[distinct < 0] = len(group)  # what is not known is no other backend
        often = np.argsort(-uses, kind="stable")[:_MAX_GROUPS]
        titles = [titles[i] for i in often.tolist()] + ["other backends"]
        place = np.full(len(distinct), _MAX_GROUPS, np.int64)
        place[often] = np.arange(_MAX_GROUPS)
        group = place[group]
    return group.astype(np.int64), tuple(titles)


@dataclass(frozen=True, slots=True, eq=False)
class BufferUse:
    """What accesses a buffer, one row per buffer.

    Lives of one address share its accesses: which one an access meant is not stated.

    Attributes
    ----------
    count : int64[n], accesses, each op's once; views are none.
    bytes : int64[n], known bytes of them.
    unsized : int64[n], accesses of unknown size.
    last_span : int64[n], the last span to access it by start; -1 none.
    n_lives : int64[n], buffers with the same address.
    is_open : bool[n], buffers of weights where reads of weights name no buffer: some
        of those may be of theirs.
    """

    count: I64
    bytes: I64
    unsized: I64
    last_span: I64
    n_lives: I64
    is_open: npt.NDArray[np.bool_]

    @property
    def is_known(self) -> bool:
        """Whether any access names its buffer."""
        return bool(self.count.any())

    def knows(self, row: int) -> bool:
        """Return whether the accesses of a buffer are known."""
        return self.is_known and not self.is_open[row]


def buffer_use(trace: Trace) -> BufferUse:
    """Return the accesses of each buffer.

    Notes
    -----
    O(spans + distinct accesses); a span's pattern is looked at, not its accesses.
    """
    n = len(trace.buffers)
    _, life = np.unique(trace.buffers.address, return_inverse=True)
    # A buffer without an address is nobody's other life.
    alone = trace.buffers.address == 0
    life = np.where(alone, len(life) + np.arange(n), life)
    _, life = np.unique(life, return_inverse=True)
    *sums, last = _by_row(trace)
    shared, last_of = np.zeros((len(sums), n), np.int64), np.full(n, -1, np.int64)
    for total, values in zip(shared, sums, strict=True):
        np.add.at(total, life, values)
    start = np.where(last >= 0, _starts(trace, last), np.iinfo(np.int64).min)
    order = np.lexsort((last, start))
    last_of[life[order]] = last[order]  # the last one written wins
    n_lives = np.bincount(life, minlength=n)
    holds_weights = trace.buffers.usage == BufferUsage.WEIGHTS
    return BufferUse(
        shared[0][life], shared[1][life], shared[2][life], last_of[life],
        n_lives[life].astype(np.int64), holds_weights & _has_unnamed_reads(trace),
    )  # fmt: skip


def _has_unnamed_reads(trace: Trace) -> bool:
    """Return whether ops read the model file without naming the buffer of it."""
    parts = (trace.accesses.patterns, trace.accesses.loose.what)
    return any(
        bool(((what.space == Space.FILE) & (what.buffer < 0)).any()) for what in parts
    )


def _starts(trace: Trace, spans: I64) -> I64:
    if not len(trace.spans):
        return np.zeros(len(spans), np.int64)
    return trace.spans.start[np.maximum(spans, 0)]


def _by_row(trace: Trace) -> tuple[I64, I64, I64, I64]:
    """Return accesses, bytes, accesses without bytes, and last span of each row."""
    n, table = len(trace.buffers), op_accesses(trace)
    row = np.flatnonzero((table.what.buffer >= 0) & table.is_access)
    entry = table.owner[row]
    buffer = table.what.buffer[row].astype(np.int64)
    times = table.occurrences()[entry]
    count, n_bytes, unsized = np.zeros((3, n), np.int64)
    add_by_group(count, buffer, times * table.counts[row])
    add_by_group(n_bytes, buffer, times * table.known[row])
    add_by_group(unsized, buffer, times * table.unsized[row])
    last = np.full(n, -1, np.int64)
    if len(row):
        of_entry = _last_spans(trace, table, entry)[entry]
        start = _starts(trace, of_entry)
        order = np.lexsort((of_entry, start, of_entry >= 0))
        last[buffer[order]] = of_entry[order]
    loose = trace.accesses.loose.what
    rows = np.flatnonzero(loose.buffer >= 0)
    of_loose = loose.buffer[rows].astype(np.int64)
    add_by_group(count, of_loose, np.ones(len(rows), np.int64))
    add_by_group(n_bytes, of_loose, loose_bytes(trace)[0][rows])
    add_by_group(unsized, of_loose, loose_unsized(trace)[rows].astype(np.int64))
    return count, n_bytes, unsized, last


def _last_spans(trace: Trace, table: AccessTable, buffers: Array) -> I64:
    """Return the last span (by start, then row) of the given entries, else -1."""
    is_requested: npt.NDArray[np.bool_] = np.zeros(len(table) + 1, np.bool_)
    is_requested[buffers] = True
    last = np.full(len(table), -1, np.int64)
    latest = np.full(len(table), np.iinfo(np.int64).min, np.int64)
    for part in chunks(len(trace.spans)):
        entry = table.entries(part).astype(np.int64)
        hit = np.flatnonzero(is_requested[entry])
        entry, start = entry[hit], trace.spans.start[part][hit]
        np.maximum.at(latest, entry, start)
        is_last = start == latest[entry]
        last[entry[is_last]] = hit[is_last] + part.start
    return last


@dataclass(frozen=True, slots=True, eq=False)
class Lives:
    """Lives of buffers packed into rows, none over another; the largest on top.

    Attributes
    ----------
    buffer : int64[k], rows of ``Trace.buffers``, the largest first.
    row : int64[k].
    n_rows : number of rows.
    n_left_out : smaller buffers beyond the most that are drawn.
    """

    buffer: I64
    row: I64
    n_rows: int
    n_left_out: int


def lives(buffers: Buffers, limit: int = 400) -> Lives:
    """Return the lives of the `limit` largest buffers in as few rows as simply found.

    Buffers without a time are left out; a life without a size is the smallest.
    """
    timed = np.flatnonzero(buffers.allocated != UNKNOWN)
    order = timed[np.argsort(-buffers.size[timed], kind="stable")]
    shown = order[:limit]
    born = buffers.allocated[shown].tolist()
    freed = buffers.freed[shown].tolist()
    never = np.iinfo(np.int64).max
    rows: list[list[tuple[int, int]]] = []
    result = []
    # A picture holds some hundred lives: a loop over them costs less than a frame.
    for begin, stop in zip(born, freed, strict=True):
        end = never if stop == UNKNOWN else max(stop, begin + 1)
        place = next(
            (i for i, row in enumerate(rows)
             if all(end <= b or begin >= e for b, e in row)),
            len(rows),
        )  # fmt: skip
        if place == len(rows):
            rows.append([])
        rows[place].append((begin, end))
        result.append(place)
    return Lives(shown, np.array(result, np.int64), len(rows), len(order) - len(shown))
