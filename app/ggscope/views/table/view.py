"""The trace table: every record, sortable, filtered, with the shared selection."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import (
    QMenu,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.links import Linked
from ggscope.analysis.order.table_order import OrderRequest, RowOrder, Sorting
from ggscope.analysis.order.time_merge import TimeRuns
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.analysis.workers import Watcher, chunks
from ggscope.descriptions.spans import access_facts
from ggscope.errors import QueryError
from ggscope.model.selection import Filter, MarkedRange, Selection
from ggscope.model.tokens import numbers_per_phase, token_text
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, format_share, parse_time
from ggscope.render.theme import Theme
from ggscope.session.session import Session, TraceChange
from ggscope.session.tasks import TaskFailure, TaskState
from ggscope.views.base.cells import (
    MAX_COPIED_ROWS,
    Column,
    CopyForm,
    CopyRequest,
    TableFile,
)
from ggscope.views.base.copying import Copyable
from ggscope.views.base.safe_text import add_action, copy_text
from ggscope.views.base.view import View
from ggscope.views.base.widgets import (
    EmptyState,
    lay_out,
    pop_up,
)
from ggscope.views.table.delegate import RowPainter, TraceTableModel
from ggscope.views.table.footer import TableFooter
from ggscope.views.table.grid import VirtualTable

_AHEAD = 1 << 16
"""Spans looked through at once for one that is listed."""
SYNC_ROWS = 200_000
"""Up to here sorting is quicker than a trip to a worker."""
SYNC_COPY = 500
MAX_SELECTED = 100_000
_QUIET_MS = 80
"""Rest before listing anew while the range is being dragged."""
_ORDER, _COPY = "table-order", "table-copy"
_List = tuple[int, Filter, MarkedRange | None]
"""What is listed: which trace, filter and range."""


def filters_of(trace: Trace, span: int, base: Filter) -> list[tuple[str, Filter]]:
    """Return (menu text, filter) for all that `span` can be filtered by.

    Each sets one part of `base`, as the same command does in the timeline.
    """
    spans, entries = trace.spans, []
    op = trace.op_name(int(spans.op[span]))
    if op:
        narrowed = replace(base, ops=frozenset({op}))
        entries.append((f"Show only {op}", narrowed))
    if spans.layer is not None and int(spans.layer[span]) >= 0:
        layer = int(spans.layer[span])
        text = f"Show only layer {format_count(layer)}"
        entries.append((text, replace(base, layers=frozenset({layer}))))
    if spans.token is not None and int(spans.token[span]) >= 0:
        token = int(spans.token[span])
        text = f"Show only token {token_text(trace, span)}"
        narrowed = replace(base, tokens=frozenset({token}))
        if spans.phase is not None and numbers_per_phase(trace):
            narrowed = replace(narrowed, phases=frozenset({int(spans.phase[span])}))
        entries.append((text, narrowed))
    lane = trace.lanes.names[int(spans.lane[span])]
    text = f"Show only {lane}"
    entries.append((text, replace(base, threads=frozenset({lane}))))
    for access in access_facts(trace, span)[:1]:
        text = f"Show only source {access.badge}"
        entries.append((text, replace(base, spaces=frozenset({int(access.space)}))))
    return entries


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
            "enter a row (1200), record (#1200), time (1.5 ms, 1:30) or token 5"
        ) from error
    return _span_from(tick, order, runs, mask)


def _row(number: int, n: int) -> int:
    if not 1 <= number <= n:
        raise QueryError(f"rows are 1 to {format_count(n)}")
    return number - 1


def _span_of_record(
    order: RowOrder, record: int, mask: npt.NDArray[np.bool_] | None
) -> int:
    span, name = order.key.trace.span_of(record), format_count(record)
    if span < 0 or not order.lanes[order.key.trace.spans.lane[span]]:
        raise QueryError(f"no record {name}")
    if mask is not None and not mask[span]:
        raise QueryError(f"record {name} does not match the filter")
    return span


def _span_of_token(
    order: RowOrder, number: int, runs: TimeRuns, mask: npt.NDArray[np.bool_] | None
) -> int:
    spans, first = order.key.trace.spans, None
    if spans.token is None or not (spans.token >= 0).any():
        raise QueryError("no tokens recorded")
    for rows in chunks(len(spans)):
        keep = (spans.token[rows] == number) & order.lanes[spans.lane[rows]]
        if mask is not None:
            keep &= mask[rows]
        if keep.any():
            start = int(spans.start[rows][keep].min())
            first = start if first is None else min(first, start)
    if first is None:
        raise QueryError(f"no record of token {format_count(number)}")
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
        ids = by_time.slice(first, first + _AHEAD)
        keep = order.lanes[spans.lane[ids]]
        if mask is not None:
            keep = keep & mask[ids]
        if token is not None and spans.token is not None:
            keep = keep & (spans.token[ids] == token)
        if keep.any():
            return int(ids[np.argmax(keep)])
        first += _AHEAD
    raise QueryError("no record starts at or after this time")


class TableView(Copyable, View):
    """Rows of spans in compact (one line) or detailed form (all sources)."""

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self._sorting = Sorting()
        self._requested_list: _List = (0, Filter(), None)
        self._shown_list: _List | None = None
        self._awaits_mask = False
        self._quiet = QTimer(self, singleShot=True, interval=_QUIET_MS)
        self._quiet.timeout.connect(self._on_quiet)
        self._runs: TimeRuns | None = None
        self._anchor = -1
        self.setAccessibleName("Trace table")
        self.model = TraceTableModel(self)
        self.grid = VirtualTable(self.model, RowPainter(self.model, theme), self)
        self.grid.setAccessibleName("Records of the trace")
        self._empty = EmptyState(self)
        self._footer = TableFooter(session, self._copy_menu(self), self)
        self._count, self._note = self._footer.count, self._footer.note
        self._form = self._footer.form
        self._build_layout()
        self._connect_grid()
        self.theme_with(self.grid, self._empty, self._footer)
        self.connect_until_release(
            (session.trace_changed, self._on_trace_changed),
            (session.selection.changed, self._on_selection_changed),
            (session.linking.linked_changed, self._on_linked_changed),
            (session.linking.correlation_changed, self._on_correlation_changed),
            (session.queries.mask_changed, self._on_mask_changed),
            (session.viewport.changed, self._on_range_changed),
            (session.ranges.marked_changed, self._on_range_changed),
            (session.ranges.limited_changed, self._on_range_changed),
            (session.ranges.pin_changed, self._on_list_pinned),
            (session.queries.search_changed, self._on_search_changed),
            (session.display.absolute_time_changed, self.model.set_absolute),
            (session.navigator.reveal_requested, self._on_reveal_requested),
        )
        self.connect_until_release(
            (session.tasks.task_changed, self._on_task_changed), is_throttled=False
        )
        self._show_session()

    def _build_layout(self) -> None:
        body = QWidget(self)
        self._stack = QStackedLayout(body)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self.grid)
        lay_out(QVBoxLayout(self), body, self._footer, wide=body)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Hide the footer in a low pane, which needs the space for rows."""
        super().resizeEvent(event)
        self._fit_height()

    def _fit_height(self) -> None:
        min_height = self.grid.header_height + 2 * self.grid.rows.compact_height
        has_footer = self.height() >= min_height + self._footer.sizeHint().height()
        self._footer.setVisible(has_footer or self._footer.jump.hasFocus())

    def _take_jump(self) -> None:
        self._footer.show()
        self._footer.take_jump()

    def _copy_menu(self, parent: QWidget) -> QMenu:
        menu = QMenu(parent)
        add = partial(add_action, menu)
        add("Copy as TSV", self.copy_tsv)
        add("Copy as Markdown", self.copy_markdown)
        add("Copy as JSON", self.copy_json)
        add("Save as…", self._save)
        return menu

    def _connect_grid(self) -> None:
        grid = self.grid
        grid.row_chosen.connect(self._on_row_chosen)
        grid.row_opened.connect(self._on_row_opened)
        grid.menu_requested.connect(self._on_menu_requested)
        grid.sort_requested.connect(self.sort_by)
        grid.copy_requested.connect(self.copy_rows)
        grid.all_requested.connect(self.select_all)
        grid.toggle_requested.connect(self.toggle_detailed)
        grid.jump_requested.connect(self._take_jump)
        grid.cancel_requested.connect(self.cancel_order)
        grid.header.customContextMenuRequested.connect(self._on_header_menu)
        self._footer.cancel.clicked.connect(self.cancel_order)
        self._footer.jump_typed.connect(self.go_to)
        self._footer.left.connect(grid.setFocus)
        self._footer.unused.connect(self._fit_height)
        self._form.toggled.connect(self.set_detailed)
        self.setFocusProxy(grid)

    # -- session -----------------------------------------------------------

    def _show_session(self) -> None:
        session = self.session
        self.model.set_absolute(session.display.absolute_time)
        self._runs = None if session.trace is None else TimeRuns(session.trace)
        self._want(is_other_trace=True)
        self._on_correlation_changed(session.linking.correlation)
        self._reorder()
        self._on_search_changed(None)
        self._on_linked_changed(session.linking.linked)

    def release(self) -> None:
        """Stop arranging and copying as well."""
        super().release()
        self._quiet.stop()
        self.session.tasks.cancel(_ORDER)
        self.session.tasks.cancel(_COPY)

    @property
    def _trace(self) -> Trace | None:
        return self.session.trace

    def _on_trace_changed(self, change: TraceChange) -> None:
        trace = self._trace
        self._runs = None if trace is None else TimeRuns(trace)
        if change not in (TraceChange.GREW, TraceChange.APPENDED):
            self._want(is_other_trace=True)
            self._drop_rows()
            self._anchor = -1
        elif change is TraceChange.APPENDED:
            self._want()  # the range has moved as well: they are arranged once
        self._on_search_changed(None)
        is_filtered = bool(self.session.queries.filter)
        self._awaits_mask = is_filtered and trace is not None and not trace.is_partial
        if not self._awaits_mask:
            self._reorder()
        # Else the mask of the new trace is on its way: filtered rows must not
        # give way to unfiltered ones in between.

    def _want(self, *, is_other_trace: bool = False) -> None:
        """Note what is to be listed now."""
        session = self.session
        number = self._requested_list[0] + int(is_other_trace)
        self._requested_list = (number, session.queries.filter, session.ranges.listed)

    def _on_range_changed(self, _: object) -> None:
        session = self.session
        if session.ranges.listed != self._requested_list[2]:
            self._quiet.start()

    def _on_list_pinned(self, _: object) -> None:
        """List the visible range again, or show that the list is of another range."""
        self._on_range_changed(None)
        if not self._quiet.isActive() and self.model.order is not None:
            self._show_count(self.model.order)

    def _on_quiet(self) -> None:
        self._want()
        if not self._awaits_mask:
            self._reorder()

    def _drop_rows(self) -> None:
        self.model.set_rows(None, None)
        self._shown_list = None

    def _on_mask_changed(self, _: object) -> None:
        self._awaits_mask = False
        self._want()
        self._reorder()

    def _on_search_changed(self, _: object) -> None:
        self.model.set_hits(self.session.queries.hits)

    def _on_correlation_changed(self, correlation: Correlation | None) -> None:
        self.model.set_correlation(correlation)
        self._footer.say_matched(correlation)

    def _on_linked_changed(self, linked: Linked) -> None:
        # Spans that are selected themselves stand out already.
        is_other = linked.selection.table != "spans"
        self.model.set_highlighted(linked.spans if is_other else linked.spans[:0])

    def _on_reveal_requested(self, span: int) -> None:
        row = self.model.row_of(int(span))
        if row is not None:
            self.grid.show_row(row)

    def _on_selection_changed(self, selection: Selection) -> None:
        self._select(selection, is_scrolling=True)

    def _select(self, selection: Selection, *, is_scrolling: bool) -> None:
        if selection.table != "spans" or selection.active is None:
            self.grid.set_selection(-1, frozenset())
            # The op before a wait or a gap is highlighted, as its row is about the
            # wait.
            if is_scrolling and selection.table in ("waits", "gaps"):
                self._on_reveal_requested(selection.ids[0])
            return
        self.grid.set_selection(selection.active, frozenset(selection.ids))
        if is_scrolling and self.grid.current_row >= 0:
            self.grid.show_row(self.grid.current_row)

    # -- order -------------------------------------------------------------

    def sort_by(self, sorting: Sorting) -> None:
        """Sort by a column; where there are many rows, the old order stays till then.

        `cancel_order` gives the old one back.
        """
        if sorting != self._sorting:
            self._sorting = sorting
            self._reorder()

    def cancel_order(self) -> None:
        """Stop arranging the rows; they stay as they are."""
        self.session.tasks.cancel(_ORDER)

    def _reorder(self) -> None:
        session, trace = self.session, self._trace
        index = session.index
        if trace is None or index is None or trace.is_partial:
            session.tasks.cancel(_ORDER)
            self._drop_rows()
            self._show_placeholder()
            return
        request = OrderRequest(
            index,
            self._sorting,
            session.queries.mask,
            self._runs,
            self._requested_list[2],
        )
        if len(trace.spans) <= SYNC_ROWS:
            session.tasks.cancel(_ORDER)
            self._on_order(request())
            return
        if not trace.is_running:  # else it is arranged again and again
            self._note.setText("sorting…")
            self._footer.show_cancel(True)
            self.grid.is_busy = True
        session.tasks.run(
            _ORDER,
            request,
            self._on_order,
            title="Sorting the table",
            on_error=self._on_order_failed,
            on_cancel=self._on_order_cancelled,
        )

    def _on_order(self, order: RowOrder) -> None:
        session = self.session
        if session.trace is None:
            return
        self._end_waiting()
        old, was = self.model.order, self._shown_list
        self._shown_list = self._requested_list
        is_sorted_anew = (
            old is not None
            and was == self._requested_list
            and old.key.sorting != order.key.sorting
        )
        self.grid.set_sorting(order.key.sorting)
        self.model.set_rows(order.key.trace, order)
        self._select(
            session.selection.current, is_scrolling=was != self._requested_list
        )
        if is_sorted_anew and len(order):
            # Whoever sorts asks what comes first, not where the selection went.
            self.grid.show_row(0)
        self._show_count(order)
        if len(order):
            self._stack.setCurrentWidget(self.grid)
        else:
            self._show_placeholder()

    def _on_task_changed(self, state: TaskState) -> None:
        if state.key == _ORDER and state.total and self.grid.is_busy:
            share = format_share(state.done / state.total)
            self._note.setText(f"sorting… {share}")

    def _end_waiting(self) -> None:
        self._note.clear()
        self._footer.show_cancel(False)
        self.grid.is_busy = False

    def _on_order_cancelled(self) -> None:
        if self.is_released:  # it stopped what it waited for, and has gone since
            return
        self._end_waiting()
        order = self.model.order
        if order is not None and self._shown_list == self._requested_list:
            self._sorting = order.key.sorting
        elif self._trace is not None and self._sorting.column != "time":
            # The rows shown are of another filter: by time is the quickest.
            self.sort_by(Sorting())

    def _on_order_failed(self, failure: TaskFailure) -> None:
        self._end_waiting()
        if self.model.order is not None:
            self._sorting = self.model.order.key.sorting
        self.session.problem_reported.emit(failure.message)

    # -- jumping -----------------------------------------------------------

    def go_to(self, text: str) -> None:
        """Select what a row number, ``#record``, time or ``token n`` names.

        What lies outside of the visible range comes into view, and the list with it.
        """
        session, order = self.session, self.model.order
        if order is None or self._runs is None or not text.strip():
            return
        try:
            span = span_for(
                text,
                order,
                self._runs,
                session.queries.mask,
                is_absolute=session.display.absolute_time,
            )
        except QueryError as error:
            self._note.setText(str(error))
            return
        self._note.clear()
        row = order.row_of(span)
        if row is None and session.ranges.marked is not None:
            # The range would stay where it is, and the span out of the list.
            session.ranges.set_marked(None)
        self._anchor = span
        session.selection.select_span(span)
        if row is not None:
            self.grid.show_row(row)

    def _show_count(self, order: RowOrder) -> None:
        n, n_rows = len(order), order.n_rows
        unit = "row" if n_rows == 1 else "rows"
        text = f"{format_count(n_rows)} {unit}"
        _, is_filtered, part = self._requested_list
        if part is not None or is_filtered:
            text = f"{format_count(n)} of {text}"
        if part is not None:
            session = self.session
            is_marked = part == session.ranges.marked
            where = "the marked range" if is_marked else "this range"
            if session.ranges.is_pinned:
                where = "the range before the zoom"
            text += " " + f"in {where}"
        if is_filtered:
            text += ", filtered" if part else " " + "match the filter"
        self._count.setText(text)
        self._footer.fit()

    def _show_placeholder(self) -> None:
        trace, session = self._trace, self.session
        if trace is None:
            self._empty.say("No trace is open.")
            self._count.clear()
        elif trace.is_partial:
            n = format_count(len(trace.spans))
            hint = f"{n} spans so far; the table appears when all are read."
            self._empty.say("Still reading…", hint)
            self._count.clear()
        elif not len(trace.spans):
            hint = "See Problems for what was read from the file."
            self._empty.say("No spans in this trace", hint)
        elif self._requested_list[2] is not None:
            hint = "“all” below lists the whole trace (Shift+T)."
            title = "No records in this range"
            if session.queries.filter:
                title = "No matching records in this range"
            self._empty.say(title, hint)
        else:
            hint = "Remove a filter to see more."
            self._empty.say("No matching records", hint)
        self._stack.setCurrentWidget(self._empty)

    # -- form --------------------------------------------------------------

    @property
    def is_detailed(self) -> bool:
        """Whether rows show all their sources."""
        return self.grid.rows.is_detailed

    def set_detailed(self, is_detailed: bool) -> None:
        """Show rows in detailed or compact form."""
        self._form.setChecked(is_detailed)
        if is_detailed != self.grid.rows.is_detailed:
            self.grid.set_detailed(is_detailed)

    def toggle_detailed(self) -> None:
        """Switch between compact and detailed form."""
        self.set_detailed(not self.is_detailed)

    # -- selection ---------------------------------------------------------

    def _on_row_chosen(self, row: int, modifiers: Qt.KeyboardModifier) -> None:
        session = self.session
        span = self.model.span_at(row)
        if modifiers & Qt.KeyboardModifier.ShiftModifier and self._anchor >= 0:
            self._select_range(session, row)
            return
        self._anchor = span
        is_added = bool(modifiers & Qt.KeyboardModifier.ControlModifier)
        session.selection.select_span(span, add=is_added, is_listed=True)

    def _select_range(self, session: Session, row: int) -> None:
        """Select from the anchor to `row`, which becomes the active one."""
        order, anchor = self.model.order, self.model.row_of(self._anchor)
        if order is None or anchor is None:
            session.selection.select_span(self.model.span_at(row), is_listed=True)
            return
        low, high = sorted((anchor, row))
        if high - low >= MAX_SELECTED:
            self._show_limit(high - low + 1, MAX_SELECTED, "selected")
            low, high = (
                (low, low + MAX_SELECTED - 1)
                if anchor == low
                else (high - MAX_SELECTED + 1, high)
            )
        ids = order.slice(low, high + 1).tolist()
        end = ids[-1] if anchor == low else ids[0]
        chosen = Selection("spans", (end, *(i for i in ids if i != end)))
        session.selection.select(chosen, is_listed=True)

    def select_all(self) -> None:
        """Select every listed record, as many as a selection can hold."""
        order, session = self.model.order, self.session
        if order is None or not len(order):
            return
        if len(order) > MAX_SELECTED:
            self._show_limit(len(order), MAX_SELECTED, "selected")
        ids = tuple(order.slice(0, MAX_SELECTED).tolist())
        session.selection.select(Selection("spans", ids), is_listed=True)

    def _on_row_opened(self, row: int) -> None:
        self.session.selection.select_span(self.model.span_at(row), is_listed=True)
        self.session.navigator.fit_selection()

    def _show_limit(self, requested: int, done: int, what: str) -> None:
        text = "{0} of {1} {2} (maximum)"
        self._note.setText(
            text.format(format_count(done), format_count(requested), what)
        )

    # -- copy --------------------------------------------------------------

    def copy_json(self) -> None:
        """Copy the selected records as JSON."""
        self.copy_rows("json")

    def copy_rows(self, form: CopyForm) -> None:
        """Copy the selected records; without a selection all listed ones."""
        selection = self.session.selection.current
        copy_request = self._request(
            form, selection if selection.table == "spans" else None
        )
        if copy_request is None:
            return
        request, n_rows = copy_request

        def on_copied(text: str) -> None:
            copy_text(text)
            self._on_copied(n_rows)

        if len(request.spans) <= SYNC_COPY:
            on_copied(request())
        else:
            self.session.tasks.run(_COPY, request, on_copied, title="Copying")

    def table_file(self) -> TableFile | None:
        """Return all listed records for a file; also the selected, if several are."""
        table, chosen = self._file(None), self.session.selection.current
        if table is None or chosen.table != "spans" or len(chosen.ids) < 2:
            return table
        return replace(table, selected=self._file(chosen))

    def _file(self, selection: Selection | None) -> TableFile | None:
        """Return the selected records for a file, None = all listed."""
        copy_request = self._request("csv", selection)
        if copy_request is None:
            return None
        request, n_rows = copy_request

        def text(form: CopyForm, context: Watcher) -> str:
            return replace(request, form=form)(context)

        rest = "Maximum reached; Export data… writes all spans."
        n, what = len(request.spans), self._count.full_text
        return TableFile("table", text, n, n_rows, rest, what)

    def _save(self) -> None:
        table = self.table_file()
        if table is not None:
            self.table_requested.emit(table)

    def _request(
        self, form: CopyForm, selection: Selection | None
    ) -> tuple[CopyRequest, int] | None:
        """Return what makes the text of the selected records, and how many those are.

        Without a selection it is that of all listed ones.
        """
        order, texts = self.model.order, self.model.texts
        if order is None or texts is None:
            return None
        if selection:
            spans = order.arranged(np.array(selection.ids, np.int64))
            n_rows = len(spans)
            spans = spans[:MAX_COPIED_ROWS]
        else:
            spans, n_rows = order.slice(0, MAX_COPIED_ROWS), len(order)
        hidden = self.grid.hidden_columns
        columns = tuple(c for c in self.model.columns if c.key not in hidden)
        return CopyRequest(texts, spans, columns, form), n_rows

    def _on_copied(self, n_rows: int) -> None:
        n = min(n_rows, MAX_COPIED_ROWS)
        if n < n_rows:
            self._show_limit(n_rows, n, "copied")
        else:
            self._note.setText(f"{format_count(n)} copied")

    # -- menus -------------------------------------------------------------

    def _on_menu_requested(self, row: int, column: str, place: QPoint) -> None:
        pop_up(self.menu_for(row, column), place)

    def menu_for(self, row: int, column: str = "") -> QMenu:
        """Return the menu of a row; the row is selected if it was not."""
        session, trace = self.session, self._trace
        menu = QMenu(self)
        add = partial(add_action, menu)
        if trace is None:
            return menu
        span = self.model.span_at(row)
        if (
            span not in session.selection.current.ids
            or session.selection.current.table != "spans"
        ):
            session.selection.select_span(span, is_listed=True)
        add("Copy", self.copy_tsv).setShortcut("Ctrl+C")
        add("Copy as Markdown", self.copy_markdown).setShortcut("Ctrl+Shift+C")
        add("Copy as JSON", self.copy_json)
        if column and column != "dot":
            cell = self.model.text(row, column)
            add("Copy cell", partial(copy_text, cell))
        add("Save as…", self._save)
        menu.addSeparator()
        for text, narrowed in filters_of(trace, span, session.queries.filter):
            add(text, partial(session.queries.set_filter, narrowed))
        if session.queries.filter:
            add("Remove all filters", partial(session.queries.set_filter, Filter()))
        menu.addSeparator()
        add("Select in timeline", partial(session.navigator.reveal_span, span))
        add("Zoom to", session.navigator.fit_selection)
        return menu

    def _on_header_menu(self, place: QPoint) -> None:
        menu = QMenu(self)
        for column in self.model.columns:
            action = add_action(menu, _column_text(column))
            action.setCheckable(True)
            action.setChecked(column.key not in self.grid.hidden_columns)
            action.setData(column.key)
        menu.triggered.connect(self._on_column_toggled)
        pop_up(menu, self.grid.header.mapToGlobal(place))

    def _on_column_toggled(self, action: QAction) -> None:
        self.grid.hide_column(str(action.data()), not action.isChecked())


def _column_text(column: Column) -> str:
    """Return a column's title as the header has it, and what it means."""
    if column.title.lower() == column.tip.lower():
        return column.title
    return f"{column.title} · {column.tip}"
