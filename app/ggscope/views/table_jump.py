"""Where a typed row number, record number or time leads in the table. No Qt here."""

import re

import numpy as np
import numpy.typing as npt

from ggscope.analysis.chunks import chunks
from ggscope.analysis.time_merge import TimeRuns
from ggscope.errors import QueryError
from ggscope.model.tables import Array
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, parse_duration
from ggscope.views.table_order import RowOrder
from ggscope.views.widgets import tr

_AHEAD = 1 << 16
"""Spans looked through at once for one that is listed."""


def row_for(
    text: str,
    order: RowOrder,
    runs: TimeRuns,
    mask: npt.NDArray[np.bool_] | None = None,
    *,
    is_absolute: bool = False,
) -> int:
    """Return the row that `text` names.

    ``1200`` is the 1,200th row, ``#1200`` record 1200 of the file; ``1.5ms`` the row
    of the first listed span that starts then or later.

    Parameters
    ----------
    runs : of the trace that `order` is about.
    mask : of the spans that are listed, None = all.
    is_absolute : whether times count as the file's own clock does.

    Raises
    ------
    QueryError
        If it is none of these, or there is no such row.
    """
    plain = re.sub(r"[\s,_\u202f]", "", text)
    trace = order.key.trace
    if plain.isdecimal():
        return _row(int(plain), len(order))
    if re.fullmatch(r"#\d+", plain):
        return _row_of_record(trace, int(plain[1:]), order)
    try:
        tick = parse_duration(plain, trace.clock.unit)
    except (ValueError, OverflowError) as error:
        raise QueryError(
            tr("write a row (1200), a record (#1200) or a time (1.5ms)")
        ) from error
    return _row_from(
        tick - (trace.clock.origin if is_absolute else 0), order, runs, mask
    )


def _row(number: int, n: int) -> int:
    if not 1 <= number <= n:
        raise QueryError(tr("there are rows 1 to {0}").format(format_count(n)))
    return number - 1


def _row_of_record(trace: Trace, record: int, order: RowOrder) -> int:
    span = _span_of_record(trace, record)
    row = None if span is None else order.row_of(span)
    if row is None:
        raise QueryError(tr("record {0} is not listed").format(format_count(record)))
    return row


def _span_of_record(trace: Trace, record: int) -> int | None:
    column: Array | None = trace.spans.record
    if column is None:
        return record if record < len(trace.spans) else None
    for rows in chunks(len(column)):
        found = np.flatnonzero(column[rows] == record)
        if len(found):
            return int(rows.start + found[0])
    return None


def _row_from(
    tick: int,
    order: RowOrder,
    runs: TimeRuns,
    mask: npt.NDArray[np.bool_] | None,
) -> int:
    """Return the row of the first listed span that starts at `tick` or later."""
    by_time = runs.merge()
    first = by_time.rank(tick, -1)
    while first < len(by_time):
        spans = by_time.slice(first, first + _AHEAD)
        listed = spans if mask is None else spans[mask[spans]]
        for span in listed[:64].tolist():  # bands are spans too, but not listed
            row = order.row_of(span)
            if row is not None:
                return row
        first += _AHEAD
    raise QueryError(tr("no listed span starts then or later"))


__all__ = ["row_for"]
