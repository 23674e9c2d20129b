"""Totals of ops without times of day as a listing: how often, and how long in all."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ggscope.model.backend_ops import (
    BackendOps,
    ListedOps,
    OpSources,
    SplitInputs,
    Splits,
)
from ggscope.model.tables import I64

_MAX_SUM = (1 << 62) - 1


@dataclass(frozen=True, slots=True, eq=False)
class OpTotals:
    """Rows of a table of totals; numbers of texts are -1 for none.

    Attributes
    ----------
    op, name, backend : int64[n], numbers of texts.
    count : int64[n], how many runs; `time`: int64[n], ns of all of them. Negative where
        the table does not state it.
    """

    op: I64
    name: I64
    backend: I64
    count: I64
    time: I64


def listed_totals(texts: Sequence[str], totals: OpTotals) -> BackendOps:
    """Return totals as the listing of one graph, in the order of the table."""
    numbers: dict[str, int] = {}
    table = np.array(
        [*(numbers.setdefault(text, len(numbers)) for text in texts), -1], np.int32
    )
    n = len(totals.count)
    ops = replace(
        ListedOps.blank(n),
        line=np.arange(n, dtype=np.int64),
        op=table[totals.op],
        name=table[totals.name],
        backend=table[totals.backend],
        count=np.clip(totals.count, 0, _MAX_SUM),
        time=np.clip(totals.time, -1, _MAX_SUM),
    )
    return BackendOps(
        tuple(numbers), ops, OpSources.blank(), Splits.blank(), SplitInputs.blank(), 1
    )
