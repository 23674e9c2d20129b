"""Which spans belong to each value of a column, in the order of the trace."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ggscope.analysis import native
from ggscope.analysis.chunks import chunks, count_values
from ggscope.model.tables import I64, Array


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Span ids by group.

    Attributes
    ----------
    count : int64[n_groups], spans of each group.
    first : int64[n_groups], where the ids of each group begin: in `order`, or
        the first id itself where `order` is None.
    order : int32/int64[Σ count], ids group by group; None where every group is
        one run of consecutive ids.
    """

    count: I64
    first: I64
    order: Array | None

    def ids(self, group: int) -> slice | Array:
        """Return the ids of a group, ascending; a slice where they are consecutive."""
        begin = int(self.first[group])
        stop = begin + int(self.count[group])
        return slice(begin, stop) if self.order is None else self.order[begin:stop]


def group_spans(column: Array, n_groups: int) -> Groups:
    """Return the groups of a column of numbers below `n_groups`; -1 is left out."""
    count = count_values(column, n_groups)
    runs = _runs(column, count)
    if runs is not None:
        return Groups(count, runs, None)
    first = np.cumsum(count) - count
    dtype = np.int32 if len(column) < 1 << 31 else np.int64
    order = np.empty(int(count.sum()), dtype)
    _place(column, None, 0, first.copy(), order)
    return Groups(count, first, order)


def group_parts(
    column: Array, n_groups: int, parts: Sequence[tuple[slice, Array | None]]
) -> Groups:
    """Return the groups of the spans in `parts` alone.

    Parameters
    ----------
    column, n_groups : see `group_spans`.
    parts : (ids, gate) in the order of the ids; spans with a negative gate are
        left out too.
    """
    count = np.zeros(n_groups, np.int64)
    for ids, gate in parts:
        count += count_values(column[ids], n_groups, gate)
    first = np.cumsum(count) - count
    dtype = np.int32 if len(column) < 1 << 31 else np.int64
    order = np.empty(int(count.sum()), dtype)
    n_codes = 1 << (8 * min(column.itemsize, 2))
    # Codes that stand for no group have no room, so nothing is placed for them.
    cursor = np.zeros(max(n_codes, n_groups), np.int64)
    limit = cursor.copy()
    cursor[:n_groups], limit[:n_groups] = first, first + count
    for ids, gate in parts:
        part = column[ids]
        if not native.place_codes(part, gate, ids.start, cursor, limit, order):
            _place(part, gate, ids.start, cursor, order)
    return Groups(count, first, order)


def _place(
    part: Array, gate: Array | None, first: int, cursor: I64, order: Array
) -> None:
    """Write span numbers where the cursors of their values stand; moves these on.

    A counting sort in pieces: the whole argsort would take 8 bytes per span.
    """
    for rows in chunks(len(part)):
        values = part[rows]
        by_group = np.argsort(values, kind="stable")
        known = values[by_group] >= 0
        if gate is not None:
            known &= gate[rows][by_group] >= 0
        by_group = by_group[known]
        n = np.bincount(values[by_group], minlength=len(cursor))
        goes_to = np.repeat(cursor - (np.cumsum(n) - n), n) + np.arange(len(by_group))
        order[goes_to] = by_group + (first + rows.start)
        cursor += n


def _runs(column: Array, count: I64) -> I64 | None:
    """Return the first id of each group if all are runs of ids, else None."""
    first = np.zeros(len(count), np.int64)
    n_runs = 0
    for rows in chunks(len(column)):
        part = column[max(rows.start - 1, 0) : rows.stop]
        begins = np.flatnonzero(part[1:] != part[:-1]) + 1
        if rows.start == 0:
            begins = np.append(begins, 0)
        begins = begins[part[begins] >= 0]
        n_runs += len(begins)
        if n_runs > np.count_nonzero(count):
            return None
        first[part[begins]] = begins + max(rows.start - 1, 0)
    return first
