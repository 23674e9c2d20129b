"""Records of one op as one row, where a format has a record per source.

The first tracer wrote a record for each source of an op, one after the other and with
one stamp. Each of them by itself is no op: the first would take no time, the last all
of it. How many belong together follows from how many sources the op takes.
"""

from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from ggscope.model.claims import Claims
from ggscope.model.ggml_rules import ARITY
from ggscope.model.tables import I64, Array
from ggscope.model.trace import OpTable
from ggscope.readers.tensor_order import Work
from ggscope.readers.tensor_passes import Rows, room_for
from ggscope.readers.tensor_sources import Patterns

_MOST = 4
"""Records of one op, at most; longer runs of an unknown op are left apart."""
_ALONE = 1
_MOST_DENSE = 1 << 24
"""Up to so many pairs of patterns are looked up in a table, more are sorted."""

Bools = npt.NDArray[np.bool_]


def op_starts(rows: Rows, op: Array, ops: OpTable, work: Work) -> Bools:
    """Return which rows begin an op, bool[n]; the others are further sources of it.

    Parameters
    ----------
    op : number of each record's op, in file order.
    """
    n = len(rows)
    if rows.order is not None:
        of_row = np.empty(n, op.dtype)
        work.gather(op, rows.order, of_row)
        op = of_row
    starts = np.ones(n, np.bool_)
    arity = np.array([_arity(ops.name(code)) for code in range(256)], np.int32)
    for piece in work.pieces(n, 1):
        before = slice(piece.start - 1, piece.stop - 1)
        same = rows.start[piece] == rows.start[before]
        starts[piece] = ~(same & (op[piece] == op[before]))
    lanes = rows.lane_first[:-1]
    starts[lanes[lanes < n]] = True
    begins = work.find(n, lambda piece: starts[piece])
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
    # What begins a pass may be told by a further source: the op begins it then. But
    # no op belongs to two passes.
    if n:
        first = np.flatnonzero(starts)
        if (np.diff(np.searchsorted(first, rows.run_first, "right")) == 0).any():
            starts[rows.run_first] = True
    return starts


def _arity(name: str) -> int:
    """Return how many sources an op takes; 0 where that differs or is not known."""
    found = ARITY.get(name, frozenset())
    return next(iter(found)) if len(found) == 1 else 0


def joined_rows(rows: Rows, starts: Bools) -> Rows:
    """Return one row per op: from its first record to the end of its last one."""
    if starts.all():
        return rows
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(rows)) - 1
    m = len(first)

    def with_room(column: Array) -> Array:
        found = np.empty(m + room_for(m), column.dtype)
        found[:m] = column
        return found[:m]

    return replace(
        rows,
        order=first.astype(np.int32) if rows.order is None else rows.order[first],
        start=with_room(rows.start[first]),
        end=with_room(rows.end[last]),
        flags=with_room(rows.flags[first] | rows.flags[last]),
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
    found = of_record[first].astype(np.int32)
    parts: list[tuple[int, ...]] = [(p,) for p in range(n)]
    for k in range(1, int(length.max(initial=1))):
        more = np.flatnonzero((length > k) & (found >= 0))
        before, behind = found[more], of_record[first[more] + k]
        keys, place = _distinct(before, behind, len(parts), n + 1)
        number = np.full(len(keys), -1, np.int32)
        for i, both in enumerate(keys.tolist()):
            whole, last = divmod(both, n + 1)
            if last:  # else the record has no pattern, and so its op has none
                number[i] = len(parts)
                parts.append((*parts[whole], last - 1))
        found[more] = number[place]
    uses = np.bincount(found[found >= 0], minlength=len(parts))
    used = np.flatnonzero(uses)
    renumbered = np.full(len(parts) + 1, -1, np.int32)
    renumbered[used] = np.arange(len(used))
    chosen = [parts[i] for i in used.tolist()]
    edges = np.cumsum([0, *map(len, chosen)]).astype(np.int64)
    flat = np.array([p for part in chosen for p in part], np.int64)
    return renumbered[found], Joins(edges, flat)


def _distinct(a: Array, b: Array, height: int, width: int) -> tuple[I64, Array]:
    """Return the distinct ``a * width + b + 1``, and the place of each among them."""
    if height * width > _MOST_DENSE:
        key = a.astype(np.int64) * width + b + 1
        keys, place = np.unique(key, return_inverse=True)
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
    # The first source that tells its layer tells that of the op.
    told = np.flatnonzero(layer >= 0)
    owner = np.repeat(np.arange(len(head)), np.diff(joins.first))
    of_op = np.full(len(head) + 1, -1, patterns.layer.dtype)
    has, where = np.unique(owner[told], return_index=True)
    of_op[has] = layer[told[where]]
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


def _joined_claims(claims: Claims, joins: Joins, head: I64) -> Claims:
    columns = {
        f.name: getattr(claims, f.name)[
            joins.part if f.name.startswith("source_") else head
        ]
        for f in fields(Claims)
        if f.name != "has_results"
    }
    columns["n_sources"] = np.diff(joins.first).astype(np.int16)
    return Claims(**columns, has_results=claims.has_results)


__all__ = ["Joins", "joined", "joined_patterns", "joined_rows", "op_starts"]
