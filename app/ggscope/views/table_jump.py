"""Which span a typed row, record, time or token means in the table. No Qt here."""

import re

import numpy as np
import numpy.typing as npt

from ggscope.analysis.chunks import chunks
from ggscope.analysis.time_merge import TimeRuns
from ggscope.errors import QueryError
from ggscope.model.tables import Array
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, parse_time
from ggscope.views.table_order import RowOrder
from ggscope.views.widgets import tr

_AHEAD = 1 << 16
"""Spans looked through at once for one that is listed."""


def span_for(
    text: str,
    order: RowOrder,
    runs: TimeRuns,
    mask: npt.NDArray[np.bool_] | None = None,
    *,
    is_absolute: bool = False,
) -> int:
    """Return the span that `text` names.

    ``1200`` is the 1,200th row, ``#1200`` record 1200 of the file; ``1.5ms`` or
    ``1:30`` the first span that starts then or later, ``token 5`` the first of that
    token. All but rows may lie outside of the range that `order` lists.

    Parameters
    ----------
    runs : of the trace that `order` is about.
    mask : of the spans that pass the filter, None = all.
    is_absolute : whether times count as the file's own clock does.

    Raises
    ------
    QueryError
        If it is none of these, or there is no such span.
    """
    plain = re.sub(r"[\s,_\u202f]", "", text)
    trace = order.key.trace
    if plain.isdecimal():
        return order.at(_row(int(plain), len(order)))
    record = re.fullmatch(r"(?:#|record)(\d+)", plain, re.IGNORECASE)
    if record is not None:
        return _span_of_record(order, int(record[1]), mask)
    token = re.fullmatch(r"token#?(\d+)", plain, re.IGNORECASE)
    if token is not None:
        return _span_of_token(order, int(token[1]), runs, mask)
    try:
        tick = parse_time(plain, trace.clock, absolute=is_absolute)
    except (ValueError, OverflowError) as error:
        raise QueryError(
            tr("write a row (1200), record (#1200), time (1.5 ms, 1:30) or token 5")
        ) from error
    return _span_from(tick, order, runs, mask)


def _row(number: int, n: int) -> int:
    if not 1 <= number <= n:
        raise QueryError(tr("there are rows 1 to {0}").format(format_count(n)))
    return number - 1


def _span_of_record(
    order: RowOrder, record: int, mask: npt.NDArray[np.bool_] | None
) -> int:
    found = _find_record(order.key.trace, record)
    name = format_count(record)
    if found is None or not order.lanes[order.key.trace.spans.lane[found]]:
        raise QueryError(tr("the trace has no record {0}").format(name))
    if mask is not None and not mask[found]:
        raise QueryError(tr("record {0} does not match the filter").format(name))
    return found


def _find_record(trace: Trace, record: int) -> int | None:
    column: Array | None = trace.spans.record
    if column is None:
        return record if record < len(trace.spans) else None
    for rows in chunks(len(column)):
        found = np.flatnonzero(column[rows] == record)
        if len(found):
            return int(rows.start + found[0])
    return None


def _span_of_token(
    order: RowOrder,
    number: int,
    runs: TimeRuns,
    mask: npt.NDArray[np.bool_] | None,
) -> int:
    spans, first = order.key.trace.spans, None
    if spans.token is None or not (spans.token >= 0).any():
        raise QueryError(tr("this trace tells of no tokens"))
    for rows in chunks(len(spans)):
        keep = (spans.token[rows] == number) & order.lanes[spans.lane[rows]]
        if mask is not None:
            keep &= mask[rows]
        if keep.any():
            start = int(spans.start[rows][keep].min())
            first = start if first is None else min(first, start)
    if first is None:
        raise QueryError(tr("no record is of token {0}").format(format_count(number)))
    return _span_from(first, order, runs, mask, token=number)


def _span_from(
    tick: int,
    order: RowOrder,
    runs: TimeRuns,
    mask: npt.NDArray[np.bool_] | None,
    *,
    token: int | None = None,
) -> int:
    """Return the first record that starts at `tick` or later."""
    by_time, spans = runs.merge(), order.key.trace.spans
    first = by_time.rank(tick, -1)
    while first < len(by_time):
        found = by_time.slice(first, first + _AHEAD)
        keep = order.lanes[spans.lane[found]]
        if mask is not None:
            keep = keep & mask[found]
        if token is not None and spans.token is not None:
            keep = keep & (spans.token[found] == token)
        if keep.any():
            return int(found[np.argmax(keep)])
        first += _AHEAD
    raise QueryError(tr("no record starts then or later"))


__all__ = ["span_for"]
