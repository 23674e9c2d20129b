"""Requests: a table of what the log of a server tells of each of them."""

from collections.abc import Mapping

import numpy as np
from PySide6.QtWidgets import QWidget

from ggscope.analysis.requests import percentiles, request_times
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.requests import (
    REQUEST_COLUMNS,
    REQUEST_TIPS,
    request_cells,
    request_totals,
)
from ggscope.model.requests import Requests
from ggscope.model.selection import Selection
from ggscope.model.tables import schema_of
from ggscope.model.trace import Trace
from ggscope.model.units import format_count
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.views.base.table_pane import MAX_ROWS, TableContents, TablePane
from ggscope.views.base.text_table import Cell, Heading

_TEXTS = {"reason", "drafts"}
_WIDTHS = {
    "reason": 160, "drafts": 120, "first token": 88, "generated ms": 104,
    "prompt ms": 92,
}  # fmt: skip


class RequestsView(TablePane):
    """The requests of a log; a row selects its prompt and its generation."""

    name = "Requests"
    nothing = "No requests in this file."
    nothing_yet = "No request yet."

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        self._last: tuple[Requests, dict[int, tuple[Cell, ...]]] = Requests.blank(), {}
        super().__init__(session, theme, parent)

    def contents(self, trace: Trace, watcher: Watcher) -> TableContents | None:
        """Return a row per request, in the order of the log.

        Of a log that grows the newest ones, and only those are made anew that the log
        tells more of.
        """
        if trace.log is None:
            return None
        requests = trace.log.requests
        n = len(requests)
        is_followed = self.session.follower is not None
        first = max(n - MAX_ROWS, 0) if is_followed else 0
        shown = range(first, min(first + MAX_ROWS, n))
        same = self._same_rows(requests) if is_followed else {}
        rows = []
        for row in shown:
            if not row % 500:
                watcher.progress(row - first, len(shown))
            rows.append(same.get(row) or _cells(trace, row))
        if is_followed:
            self._last = requests, dict(zip(shown, rows, strict=True))
        headings = tuple(
            Heading(
                name,
                REQUEST_TIPS.get(name, ""),
                width=_WIDTHS.get(name, 72),
                right=name not in _TEXTS,
                is_text=name in _TEXTS,
                stretch=name == "reason",
                largest_first=name not in _TEXTS,
            )
            for name in REQUEST_COLUMNS
        )
        which = "last" if is_followed else "first"
        about = _about(trace, n, len(rows), which)
        return TableContents(headings, tuple(rows), shown, n, about)

    def _same_rows(self, requests: Requests) -> Mapping[int, tuple[Cell, ...]]:
        """Return the cells of rows that are as they were, by row."""
        before, cells = self._last
        n = min(len(before), len(requests))
        is_same = np.ones(n, np.bool_)
        for name in schema_of(Requests):
            is_same &= getattr(before, name)[:n] == getattr(requests, name)[:n]
        return {row: c for row, c in cells.items() if row < n and is_same[row]}

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


def _about(trace: Trace, n: int, n_shown: int, which: str) -> str:
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
    if n_shown < n:
        parts.append(f"the {which} {format_count(n_shown)} are listed")
    return " · ".join(parts)
