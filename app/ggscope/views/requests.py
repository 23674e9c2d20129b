"""Requests: a table of what the log of a server tells of each of them."""

import numpy as np

from ggscope.analysis.requests import percentiles, request_times
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.requests import (
    REQUEST_COLUMNS,
    REQUEST_TIPS,
    request_cells,
    request_totals,
)
from ggscope.model.selection import Selection
from ggscope.model.trace import Trace
from ggscope.model.units import format_count
from ggscope.views.base.table_pane import MAX_ROWS, TableContents, TablePane
from ggscope.views.base.text_table import Cell, Heading

_TEXTS = {"reason", "drafts"}
_WIDTHS = {"reason": 160, "drafts": 120, "generated ms": 104, "prompt ms": 92}


class RequestsView(TablePane):
    """The requests of a log; a row selects its prompt and its generation."""

    name = "Requests"
    nothing = "No requests in this file."

    def contents(self, trace: Trace, watcher: Watcher) -> TableContents | None:
        """Return a row per request, in the order of the log."""
        if trace.log is None:
            return None
        n = len(trace.log.requests)
        rows = []
        for row in range(min(n, MAX_ROWS)):
            if not row % 500:
                watcher.progress(row, n)
            rows.append(_cells(trace, row))
        headings = tuple(
            Heading(
                name,
                REQUEST_TIPS.get(name, ""),
                width=_WIDTHS.get(name, 72),
                right=name not in _TEXTS,
                words=name in _TEXTS,
                stretch=name == "reason",
                largest_first=name not in _TEXTS,
            )
            for name in REQUEST_COLUMNS
        )
        return TableContents(
            headings, tuple(rows), range(len(rows)), n, _about(trace, n, len(rows))
        )

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
        found = (requests.prompt_span[payload], requests.generated_span[payload])
        spans = tuple(int(span) for span in found if span >= 0)
        return spans or None


def _cells(trace: Trace, row: int) -> tuple[Cell, ...]:
    texts = request_cells(trace, row)
    cells = []
    for name, text in zip(REQUEST_COLUMNS, texts, strict=True):
        if name in _TEXTS:
            cells.append(Cell(text, sort=text or None))
            continue
        number = float(text.replace(",", "")) if text else None
        cells.append(Cell(text, sort=number, raw=number))
    return tuple(cells)


def _about(trace: Trace, n: int, n_shown: int) -> str:
    assert trace.log is not None
    times = request_times(trace.log.requests)
    parts = [request_totals(trace)]
    for title, values in (
        ("first token", times.first_token_ms),
        ("per token", times.per_token_ms),
    ):
        found = percentiles(np.asarray(values))
        if found:
            parts.append(f"{title} p50 {found[50]:,.1f} ms, p99 {found[99]:,.1f} ms")
    if n_shown < n:
        parts.append(f"the first {format_count(n_shown)} are listed")
    return " · ".join(parts)
