"""Ops of spans whose names are their ops."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I16, Array, Bools

MAX_OPS = 32_000


@dataclass(frozen=True, slots=True, eq=False)
class OpNames:
    """Ops by their names.

    Attributes
    ----------
    names : of all ops; more than `MAX_OPS` are one, at the end.
    op : int16[n], of each span, -1 none.
    n_others : names that are not distinguished.
    """

    names: tuple[str, ...]
    op: I16
    n_others: int


def ops_of_names(texts: Sequence[str], name: Array, is_work: Bools) -> OpNames:
    """Return the op of each span, its name; none for what is no work.

    Parameters
    ----------
    name : int[n] into `texts`, -1 none.
    """
    used = np.zeros(len(texts) + 1, np.bool_)
    used[name[is_work]] = True
    used[-1] = False
    listed = np.flatnonzero(used)
    number = np.full(len(texts) + 1, -1, np.int64)
    number[listed] = np.minimum(np.arange(len(listed)), MAX_OPS)
    names = [texts[i] for i in listed[:MAX_OPS].tolist()]
    n_others = max(len(listed) - MAX_OPS, 0)
    if n_others:
        names.append("other names")
    op = number[name]
    op[~is_work] = -1
    return OpNames(tuple(names), op.astype(np.int16), n_others)
