"""Which spans belong to each value of a column, in the order of the trace."""

from dataclasses import dataclass

import numpy as np

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
    place = first.copy()
    # A counting sort in pieces: the whole argsort would take 8 bytes per span.
    for rows in chunks(len(column)):
        part = column[rows]
        by_group = np.argsort(part, kind="stable")
        by_group = by_group[part[by_group] >= 0]
        n = np.bincount(part[by_group], minlength=n_groups)
        goes_to = np.repeat(place - (np.cumsum(n) - n), n) + np.arange(len(by_group))
        order[goes_to] = by_group + rows.start
        place += n
    return Groups(count, first, order)


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
