"""Requests: a table of them from the log of a server."""

from functools import partial

import numpy as np

from ggscope.analysis.requests import percentiles, request_times
from ggscope.analysis.sorting import sorted_rows
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.requests import (
    REQUEST_COLUMNS,
    RequestRows,
    request_totals,
)
from ggscope.model.selection import Selection
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.views.base.lazy_table import LazyTableModel
from ggscope.views.base.table_pane import LazyContents, TablePane
from ggscope.views.base.text_table import Cell, Heading

_WIDTHS = {
    "reason": 160, "drafts": 120, "first token": 88, "generated ms": 104,
    "prompt ms": 92,
}  # fmt: skip
_HEADINGS = tuple(
    Heading(
        column.title,
        column.tip,
        width=_WIDTHS.get(column.title, 72),
        right=not column.is_text,
        is_text=column.is_text,
        stretch=column.title == "reason",
        largest_first=column.title != "reason",
    )
    for column in REQUEST_COLUMNS
)


class RequestsView(TablePane):
    """The requests of a log; a row selects its prompt and its generation."""

    name = "Requests"
    nothing = "No requests in this file."
    nothing_yet = "No request yet."

    model_class = LazyTableModel

    def contents(self, trace: Trace, watcher: Watcher) -> LazyContents | None:
        """Return a row per request, in the order of the log."""
        if trace.log is None:
            return None
        return LazyContents(
            _HEADINGS, len(trace.log.requests), partial(_cells, trace),
            partial(_order, trace), _about(trace),
        )  # fmt: skip

    def choose(self, payload: object) -> None:
        """Select the spans of a request."""
        if (spans := self._spans(payload)) is not None:
            self.session.selection.select(Selection("spans", spans))

    def open(self, payload: object) -> None:
        """Fit the timeline to a request."""
        self.choose(payload)
        self.session.navigator.fit_selection()

    def _spans(self, payload: object) -> tuple[int, ...] | None:
        trace = self.session.trace
        if trace is None or trace.log is None or not isinstance(payload, int):
            return None
        requests = trace.log.requests
        both = (requests.prompt_span[payload], requests.generated_span[payload])
        spans = tuple(int(span) for span in both if span >= 0)
        return spans or None


def _order(trace: Trace, column: int, is_down: bool) -> I64:
    """Return the requests by a column, -1 = as they stand in the log."""
    assert trace.log is not None
    if column < 0:
        return np.arange(len(trace.log.requests))
    values = REQUEST_COLUMNS[column].values(RequestRows(trace))
    return sorted_rows(values, is_down=is_down)


def _cells(trace: Trace, row: int) -> tuple[Cell, ...]:
    rows = RequestRows(trace, np.array([row]))
    cells = []
    for column in REQUEST_COLUMNS:
        (text,) = column.texts(rows)
        raw = float(text.replace(",", "")) if text and not column.is_text else None
        cells.append(Cell(text, raw=raw))
    return tuple(cells)


def _about(trace: Trace) -> str:
    assert trace.log is not None
    times = request_times(trace.log.requests)
    parts = [request_totals(trace)]
    for title, values in (
        ("first token", times.first_token_ms),
        ("per token", times.per_token_ms),
    ):
        at = percentiles(np.asarray(values))
        if at:
            parts.append(f"{title} p50 {at[50]:,.1f} ms, p99 {at[99]:,.1f} ms")
    return " · ".join(parts)
