"""The order of rows by a column of which some values are not known."""

import numpy as np

from ggscope.model.tables import I64, Array


def sorted_rows(values: Array, *, is_down: bool = False) -> I64:
    """Return the rows by their values, those that are unknown last either way.

    Unknown are NaN, and integers below 0. Rows of one value stay in their order.
    """
    is_known = ~np.isnan(values) if values.dtype.kind == "f" else values >= 0
    known, rest = np.flatnonzero(is_known), np.flatnonzero(~is_known)
    by = -values[known] if is_down else values[known]
    return np.concatenate([known[np.argsort(by, kind="stable")], rest])
