"""Records of one op: joined within a thread, marked between threads.

The first tracer wrote a record for each source of an op, one after the other and with
one stamp. Each of them by itself is no op: the first would take no time, the last all
of it. How many belong together follows from how many sources the op takes.

Where every thread logs, an op that eight of them compute together is in the file
eight times. Threads wait for each other after each op, so records of one op lie
between the same two neighbours in every thread: a record whose pattern another thread
has at the same time, give or take some ops, is one of the same op.
"""

from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np

from ggscope.model.ggml.rules import ARITY
from ggscope.model.tables import I64, Array, Bools, ranked
from ggscope.model.trace import OpTable, RawFileValues
from ggscope.readers.chunked import ChunkedOps
from ggscope.readers.tensor.names import Patterns
from ggscope.readers.tensor.passes import Records, spare_rows

_MOST = 4
"""Records of one op, at most; longer runs of an unknown op are left apart."""
_ALONE = 1
_MAX_DENSE = 1 << 24
"""Up to so many pairs of patterns are looked up in a table, more are sorted."""

_REACH = 4
"""So many ops around a record's time are looked at: stamps may be coarse, and a
record may be missing."""

_ENOUGH = 0.5
"""A thread shares its ops with others where it shares so many of them; else equal
patterns are chance, as of two models that run side by side. Not more: of threads that
lost a third of their records, each has two thirds of the other's."""

_SAMPLE = 4096
_MAX_LANES = 1024
_LOOKS, _LOOKS_A_ROW = 1 << 24, 16
_LOOKS_A_PAIR = 2048
"""So many looks at a row of another thread are made in all, and more for each row that
there is. What two threads cost whatever their rows counts as some more."""


def op_starts(rows: Records, op: Array, ops: OpTable, chunked: ChunkedOps) -> Bools:
    """Return which rows begin an op, bool[n]; the others are further sources of it.

    Parameters
    ----------
    op : number of each record's op, in file order.
    """
    n = len(rows.start)
    if rows.order is not None:
        of_row = np.empty(n, op.dtype)
        chunked.gather(op, rows.order, of_row)
        op = of_row
    starts = np.ones(n, np.bool_)
    arity = np.array([_arity(ops.name(code)) for code in range(256)], np.int32)
    for chunk in chunked.slices(n, 1):
        before = slice(chunk.start - 1, chunk.stop - 1)
        same = rows.start[chunk] == rows.start[before]
        starts[chunk] = ~(same & (op[chunk] == op[before]))
    lanes = rows.lane_first[:-1]
    starts[lanes[lanes < n]] = True
    begins = chunked.find(n, lambda chunk: starts[chunk])
    length = np.diff(begins, append=n).astype(np.int32)
    each = arity[op[begins] & 0xFF]
    # A run of several ops with one stamp is cut where each has all of its sources;
    # where it cannot be, its records stay apart: nobody knows which one is missing.
    fits = (each > _ALONE) & (length % np.maximum(each, 1) == 0)
    is_whole = (each == 0) & (length <= _MOST)
    step = np.where(is_whole, length, np.where(fits, each, _ALONE))
    many = np.flatnonzero(length > step)
    for low in range(0, len(many), 1 << 16):
        part = many[low : low + (1 << 16)]
        count = length[part] // step[part]
        at = np.repeat(begins[part], count)
        turn = np.arange(len(at)) - np.repeat(np.cumsum(count) - count, count)
        starts[at + turn * np.repeat(step[part], count)] = True
    # What begins a pass may be known by a further source: the op begins it then. But
    # no op belongs to two passes.
    if n:
        first = np.flatnonzero(starts)
        if (np.diff(np.searchsorted(first, rows.run_first, "right")) == 0).any():
            starts[rows.run_first] = True
    return starts


def _arity(name: str) -> int:
    """Return how many sources an op takes; 0 where that differs or is not known."""
    counts = ARITY.get(name, frozenset())
    return next(iter(counts)) if len(counts) == 1 else 0


def joined_rows(rows: Records, starts: Bools) -> Records:
    """Return one row per op: from its first record to the end of its last one."""
    if starts.all():
        return rows
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(rows.start)) - 1
    m = len(first)

    def with_spare_rows(column: Array) -> Array:
        wider = np.empty(m + spare_rows(m), column.dtype)
        wider[:m] = column
        return wider[:m]

    return replace(
        rows,
        order=first.astype(np.int32) if rows.order is None else rows.order[first],
        start=with_spare_rows(rows.start[first]),
        end=with_spare_rows(rows.end[last]),
        flags=with_spare_rows(rows.flags[first] | rows.flags[last]),
        lane_first=np.searchsorted(first, rows.lane_first),
        run_first=np.searchsorted(first, rows.run_first, "right") - 1,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Joins:
    """Which patterns of records make up the patterns of ops.

    Attributes
    ----------
    first : int64[n_ops + 1]; op pattern p joins ``part[first[p] : first[p + 1]]``.
    part : int64[m], patterns of records.
    """

    first: I64
    part: I64


def joined_patterns(of_record: Array, starts: Bools, n: int) -> tuple[Array, Joins]:
    """Return the pattern of each op, -1 none, and what these are joined from.

    Parameters
    ----------
    of_record : pattern of each record's row, below `n`; -1 none.
    """
    first = np.flatnonzero(starts)
    length = np.diff(np.append(first, len(starts)))
    patterns = of_record[first].astype(np.int32)
    parts: list[tuple[int, ...]] = [(p,) for p in range(n)]
    for k in range(1, int(length.max(initial=1))):
        more = np.flatnonzero((length > k) & (patterns >= 0))
        before, behind = patterns[more], of_record[first[more] + k]
        keys, place = _distinct(before, behind, len(parts), n + 1)
        number = np.full(len(keys), -1, np.int32)
        for i, both in enumerate(keys.tolist()):
            whole, last = divmod(both, n + 1)
            if last:  # else the record has no pattern, and so its op has none
                number[i] = len(parts)
                parts.append((*parts[whole], last - 1))
        patterns[more] = number[place]
    uses = np.bincount(patterns[patterns >= 0], minlength=len(parts))
    used = np.flatnonzero(uses)
    renumbered = np.full(len(parts) + 1, -1, np.int32)
    renumbered[used] = np.arange(len(used))
    chosen = [parts[i] for i in used.tolist()]
    edges = np.cumsum([0, *map(len, chosen)]).astype(np.int64)
    flat = np.array([p for part in chosen for p in part], np.int64)
    return renumbered[patterns], Joins(edges, flat)


def _distinct(a: Array, b: Array, height: int, width: int) -> tuple[I64, Array]:
    """Return the distinct ``a * width + b + 1``, and the place of each among them."""
    if height * width > _MAX_DENSE:
        key = a.astype(np.int64) * width + b + 1
        keys, _, place = ranked(key)
        return keys, place
    seen = np.zeros(height * width, np.bool_)
    number = np.zeros(height * width, np.int32)
    key = a.astype(np.int32) * np.int32(width) + b + 1
    seen[key] = True
    keys = np.flatnonzero(seen)
    number[keys] = np.arange(len(keys))
    return keys, number[key]


def joined(patterns: Patterns, joins: Joins) -> Patterns:
    """Return the patterns of ops from those of records, which have one access each.

    Their names are those of their first source: the result's is not recorded.
    """
    head = joins.part[joins.first[:-1]]
    at = np.append(head, -1)
    rows = joins.part
    layer = patterns.layer[rows].astype(np.int64)
    # The first source with a layer decides that of the op.
    has_layer = np.flatnonzero(layer >= 0)
    owner = np.repeat(np.arange(len(head)), np.diff(joins.first))
    of_op = np.full(len(head) + 1, -1, patterns.layer.dtype)
    has, where = np.unique(owner[has_layer], return_index=True)
    of_op[has] = layer[has_layer[where]]
    return replace(
        patterns,
        first=joins.first,
        columns=patterns.columns.take(rows),
        name=patterns.name[at],
        tensor=patterns.tensor[at],
        layer=of_op,
        is_cut=patterns.is_cut[at],
        claims=_joined_claims(patterns.claims, joins, head),
    )


def _joined_claims(claims: RawFileValues, joins: Joins, head: I64) -> RawFileValues:
    columns = {
        f.name: getattr(claims, f.name)[
            joins.part if f.name.startswith("source_") else head
        ]
        for f in fields(RawFileValues)
        if f.name != "has_results"
    }
    columns["n_sources"] = np.diff(joins.first).astype(np.int16)
    return RawFileValues(**columns, has_results=claims.has_results)


def repeated_rows(
    rows: Records, of_row: Array, chunked: ChunkedOps
) -> tuple[list[I64], int]:
    """Return the rows, lane by lane, whose op has a row of an earlier lane.

    The second number is that of the threads which were not looked at.

    Parameters
    ----------
    of_row : pattern of each row, -1 none; those are never repeated.

    Notes
    -----
    Threads that share their ops are a crew; a thread that shares none with a crew
    founds one, at the cost of a look at some thousand of its rows per crew. So that
    this ends soon where each thread does something else, such looks are counted; and
    more than `_MAX_LANES` threads, which no machine has, are not looked at.
    """
    first = rows.lane_first
    n_lanes = len(first) - 1
    repeated: list[I64] = []
    crews: list[tuple[I64, Array]] = []
    if n_lanes > _MAX_LANES:
        return repeated, n_lanes
    looks = _LOOKS + _LOOKS_A_ROW * len(of_row)
    for lane, (low, high) in enumerate(chunked.each(pairwise(first.tolist()))):
        mine = rows.start[low:high], of_row[low:high]
        each = _LOOKS_A_PAIR + (2 * _REACH + 1) * min(high - low, _SAMPLE)
        for number, crew in enumerate(crews):
            looks -= each
            if looks < 0:
                return repeated, n_lanes - lane
            is_same = _shared(*crew, *mine, chunked)
            if is_same is not None:
                repeated.append(low + np.flatnonzero(is_same))
                crews[number] = _merged(crew, mine, ~is_same)
                break
        else:
            if high > low:
                crews.append(mine)
    return repeated, 0


def _merged(
    crew: tuple[I64, Array], mine: tuple[I64, Array], is_new: Bools
) -> tuple[I64, Array]:
    """Return the ops of a crew with new ones, in order of time."""
    if not is_new.any():
        return crew
    start = np.concatenate([crew[0], mine[0][is_new]])
    pattern = np.concatenate([crew[1], mine[1][is_new]])
    order = np.argsort(start, kind="stable")
    return start[order], pattern[order]


def _shared(
    start: I64, pattern: Array, own_start: I64, own_pattern: Array, chunked: ChunkedOps
) -> Bools | None:
    """Return which own records are of ops among the others; None for (nearly) none."""
    n = len(own_start)
    if not n:
        return None
    if len(start) == n and _is_in_step(start, pattern, own_start, own_pattern, chunked):
        return np.asarray(own_pattern >= 0, np.bool_)
    at = np.linspace(0, n - 1, min(_SAMPLE, n)).astype(np.int64)
    sample = _near(start, pattern, own_start[at], own_pattern[at])
    known = int(np.count_nonzero(own_pattern[at] >= 0))
    if np.count_nonzero(sample) < _ENOUGH * max(known, 1):
        return None
    is_same = np.zeros(n, np.bool_)
    for chunk in chunked.slices(n):
        is_same[chunk] = _near(start, pattern, own_start[chunk], own_pattern[chunk])
    return is_same


def _is_in_step(
    start: I64, pattern: Array, own_start: I64, own_pattern: Array, chunked: ChunkedOps
) -> bool:
    """Return whether both did the same ops, each between neighbours of the other."""
    for p in chunked.slices(len(start)):
        if not np.array_equal(pattern[p], own_pattern[p]):
            return False
        low = max(p.start, 1)
        if (own_start[low : p.stop] < start[low - 1 : p.stop - 1]).any():
            return False
        behind = start[p.start + 1 : p.stop + 1]
        if (own_start[p.start : p.start + len(behind)] > behind).any():
            return False
    return True


def _near(start: I64, pattern: Array, own_start: I64, own_pattern: Array) -> Bools:
    """Return which own records have their pattern among the others at their time."""
    is_near = np.zeros(len(own_start), np.bool_)
    last = len(start) - 1
    at = np.searchsorted(start, own_start, "right") - 1
    for step in range(-_REACH, _REACH + 1):
        is_near |= pattern[np.clip(at + step, 0, last)] == own_pattern
    return np.asarray(is_near & (own_pattern >= 0), np.bool_)
