"""Which spans statistics count in given groups."""

from collections.abc import Callable

import numpy as np

from ggscope.analysis.statistics.grouping import Grouping
from ggscope.model.tables import I64, Array


def groups_called(groups: Grouping, keys: frozenset[str]) -> I64:
    """Return the numbers of the groups of these labels."""
    called = (g for g in range(len(groups)) if groups.label(g) in keys)
    return np.array(list(called), np.int64)


def member_test(groups: Grouping, group_ids: I64) -> Callable[[Array], Array]:
    """Return a membership test of these groups, for ascending span ids."""
    lookup = groups.lookup
    if lookup is None:

        def is_member(ids: Array) -> Array:
            part = groups.of(ids)
            hit = np.isin(part.group, group_ids)
            if part.span is None:
                return hit
            members = np.zeros(len(ids), np.bool_)
            members[part.span[hit]] = True
            return members

        return is_member
    column, low, table = lookup.column, lookup.low, lookup.table
    if column is None:
        return lambda ids: np.full(len(ids), bool(np.isin(table[0], group_ids)))
    of_value = np.append(np.isin(table, group_ids), False)

    def has_value(ids: Array) -> Array:
        at = column[ids].astype(np.int64) - low
        at[(at < 0) | (at >= len(table))] = len(table)
        return of_value[at]

    return has_value
