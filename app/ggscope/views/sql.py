"""SQL: queries over the tables of the trace, with their rows, and a plot of them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from PySide6.QtCore import QEvent, QStringListModel, Qt, Signal
from PySide6.QtGui import QAction, QKeyEvent, QTextCursor
from PySide6.QtWidgets import (
    QCompleter,
    QHBoxLayout,
    QMenu,
    QPlainTextEdit,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.sql.database import (
    SqlDatabase,
    SqlResult,
    answer,
    plain_value,
)
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.sql import trace_limits
from ggscope.model.selection import Selection
from ggscope.model.trace import Trace
from ggscope.model.units import format_count
from ggscope.render.theme import Theme, css
from ggscope.sanitize import one_line
from ggscope.session.session import Session, TraceChange
from ggscope.session.settings import MAX_RECENT, Settings
from ggscope.session.tasks import TaskFailure
from ggscope.views.base.safe_text import ElidedLabel, add_action
from ggscope.views.base.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.base.view import View, guarded
from ggscope.views.base.widgets import (
    EmptyState,
    keeps_key,
    lay_out,
    mono_font,
    scaled,
    set_label_color,
    tool_button,
    tool_button_style,
    ui_font,
)

MAX_ROWS = 5_000
"""Rows that the table shows."""
_LINES = 4
_MAX_WORDS = 80
_MAX_SELECTED = 10_000
_EXAMPLES = (
    "select op, count(*) as n, sum(duration_{t}) as total\n"
    "from spans group by op order by total desc",
    "select id as span, name, lane, duration_{t}\n"
    "from spans order by duration_{t} desc limit 20",
    "select tensor, count(*) as reads, sum(size) as bytes\n"
    "from accesses where kind = 'read' group by tensor order by bytes desc",
)
_WORDS = tuple(
    "select from where group by order limit having distinct count sum avg min max "  # noqa: SIM905 - a list of 40 lines else
    "median quantile_cont join left using between case when then else end desc asc "
    "null over partition all".split()
)
_NUMBERS = count()


@dataclass(frozen=True, slots=True)
class _QueryResult:
    """What a query returned, how long it took, and what the trace lacks.

    Attributes
    ----------
    is_partial : whether more was being read.
    limits : what the trace leaves out, and problems of its file.
    """

    result: SqlResult
    seconds: float
    is_partial: bool
    limits: list[str]


class SqlView(View):
    """An editor, and the rows of its query; rows with a span select it."""

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self.setAccessibleName("SQL")
        self._task = f"sql-{next(_NUMBERS)}"
        self._base: SqlDatabase | None = None
        self._of: Trace | None = None
        self._answer: _QueryResult | None = None
        self.editor = SqlEditor(self)
        self.editor.setObjectName("sql_editor")
        self.editor.run.connect(self.run_query)
        self.editor.stop.connect(self.stop)
        self.editor.older.connect(partial(self._step, 1))
        self.editor.newer.connect(partial(self._step, -1))
        self._place = -1
        self._earlier: tuple[str, ...] = ()
        self._settings: Settings | None = None
        self.model = TextTableModel((), self)
        self.table = TextTable(self.model, self, "SQL")
        self.table.setAccessibleName("Rows of the query")
        self.table.selectionModel().selectionChanged.connect(self._on_chosen)
        self.table.row_opened.connect(self._on_opened)
        self._empty = EmptyState(self)
        self._plot: QWidget | None = None
        body = QWidget(self)
        self._stack = QStackedLayout(body)
        for part in (self._empty, self.table):
            self._stack.addWidget(part)
        lay_out(QVBoxLayout(self), self.editor, self._make_head(), body, wide=body)
        self.setFocusProxy(self.editor)
        self.set_theme(theme)
        self.connect_until_release((session.trace_changed, self._on_trace_changed))
        self._on_trace_changed(TraceChange.REPLACED)

    def _make_head(self) -> QWidget:
        head = QWidget(self)
        self.run_button = tool_button(
            head, "Run", "Run the query (Ctrl+Enter)", self.run_query
        )
        self.stop_button = tool_button(
            head, "Cancel", "Stop the query (Esc)", self.stop
        )
        self.stop_button.setEnabled(False)
        self.plot_button = tool_button(
            head, "Plot", "Show the second column over the first", self._toggle_plot
        )
        self.plot_button.setCheckable(True)
        self.plot_button.setEnabled(False)
        self.earlier = QMenu(head)
        self.earlier.setObjectName("sql_history")
        self.earlier.triggered.connect(self._on_history)
        history = tool_button(
            head,
            "Earlier",
            "Earlier queries (Ctrl+Up, Ctrl+Down in the editor), and examples",
            menu=self.earlier,
        )
        self.about = ElidedLabel(head)
        self.about.setObjectName("table_about")
        self.about.setFont(ui_font(12))
        shown = (self.run_button, self.stop_button, self.plot_button, history)
        self._buttons = shown
        lay_out(
            QHBoxLayout(head),
            *self._buttons,
            self.about,
            margins=(4, 2, 8, 2),
            spacing=scaled(4),
            wide=self.about,
        )
        return head

    def use_settings(self, settings: Settings) -> None:
        """Keep queries for the next start."""
        self._settings, self._earlier = settings, settings.filters.queries
        self._fill_history()

    # -- queries -----------------------------------------------------------------

    def run_query(self) -> None:
        """Run the text of the editor."""
        sql, trace = self.editor.toPlainText().strip(), self.session.trace
        if not sql or trace is None:
            return
        self._remember(sql)
        self._place = -1
        self.stop_button.setEnabled(True)
        self.about.setText("Running…")
        if self._stack.currentWidget() is self._empty:
            self._say("Running…")  # not the error of another query
        self.session.tasks.run(
            self._task,
            partial(self._ask, trace, sql),
            self._on_answer,
            title="Running a query",
            on_error=self._on_failed,
            on_cancel=self._on_cancelled,
        )

    def stop(self) -> None:
        """Stop the query that runs."""
        self.session.tasks.cancel(self._task)
        if self._base is not None:
            self._base.interrupt()

    def release(self) -> None:
        """Stop the query and forget the tables as well."""
        super().release()
        self.stop()
        self._forget()

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.table.set_theme(theme)
        self._empty.set_theme(theme)
        self.editor.set_theme(theme)
        for button in self._buttons:
            button.setStyleSheet(
                tool_button_style(theme, theme.text)
                + f" QToolButton:disabled {{ color: {css(theme.faint)}; }}"
                f" QToolButton:checked {{ background: {css(theme.raised)}; }}"
            )
        set_label_color(self.about, theme.dim)
        if self._plot is not None:
            self._drop_plot()

    def _ask(self, trace: Trace, sql: str, watcher: Watcher) -> _QueryResult:
        """Answer a query, on a worker."""
        base = self._base
        if base is None or base.is_closed or self._of is not trace:
            self._forget()
            base = SqlDatabase(trace)
            self._base, self._of = base, trace
        began = time.monotonic()
        result = answer(base, sql, MAX_ROWS, partial(watcher.progress, 0, 1))
        is_partial = trace.is_partial or trace.is_running
        seconds = time.monotonic() - began
        return _QueryResult(result, seconds, is_partial, trace_limits(trace))

    def _forget(self) -> None:
        base, self._base, self._of = self._base, None, None
        if base is not None:
            base.close()

    def _on_answer(self, answer: _QueryResult) -> None:
        self._answer = answer
        self.stop_button.setEnabled(False)
        result = answer.result
        self.model.set_headings(_headings(result))
        self.model.set_rows(
            [tuple(_cell(value) for value in row) for row in result.rows],
            payloads=list(range(len(result.rows))),
        )
        self.table.fit_columns()
        n = format_count(len(result.rows))
        more = "" if result.is_whole else "the first "
        parts = [f"{more}{n} rows", f"{answer.seconds * 1e3:,.0f} ms"]
        parts += ["of what was read until then"] if answer.is_partial else []
        self.about.setText(" · ".join([*parts, *answer.limits]))
        can_plot = _plotted(result) is not None
        self.plot_button.setEnabled(can_plot)
        self._drop_plot()
        if can_plot and self.plot_button.isChecked():
            self._show_plot()
        elif result.rows:
            self._stack.setCurrentWidget(self.table)
        else:
            self._say("No rows.")

    def _on_failed(self, failure: TaskFailure) -> None:
        self.stop_button.setEnabled(False)
        self.about.clear()
        self._say(failure.message)

    def _on_cancelled(self) -> None:
        self.stop_button.setEnabled(False)
        self.about.setText("Cancelled")
        if self._stack.currentWidget() is self._empty:
            self._say("The query was cancelled.")
        else:
            self.about.setText("Cancelled · rows of the query before")

    def _on_trace_changed(self, change: TraceChange) -> None:
        trace = self.session.trace
        if change is TraceChange.REPLACED or self._answer is None:
            unit = trace.clock.unit_name if trace else "ns"
            self._examples = [text.format(t=unit) for text in _EXAMPLES]
            self._answer = None
            self._fill_history()
            self.model.set_rows(())
            self.about.clear()
            self._say("Write a query and press Ctrl+Enter.", "Tables: " + _TABLES)
            self.editor.complete_with((*_WORDS, *_table_text(unit)))
            if not self.editor.toPlainText():
                self.editor.setPlainText(self._examples[0])

    # -- rows --------------------------------------------------------------------

    def _on_chosen(self, *_: object) -> None:
        spans = self._spans(self.table.selected_rows())
        if len(spans) == 1:
            self.session.selection.select_span(spans[0])
        elif spans:
            self.session.selection.select(Selection("spans", spans))

    def _on_opened(self, row: int) -> None:
        spans = self._spans([row])
        if spans:
            self.session.selection.select_span(spans[0])
            self.session.navigator.fit_selection()

    def _spans(self, rows: Sequence[int]) -> tuple[int, ...]:
        """Return the spans that rows name in their column "span"."""
        trace = self.session.trace
        if self._answer is None or trace is None or len(rows) > _MAX_SELECTED:
            return ()
        result = self._answer.result
        if "span" not in result.columns:
            return ()
        at, n = result.columns.index("span"), len(trace.spans)
        payloads = (self.model.payload(row) for row in rows)
        values = [result.rows[p][at] for p in payloads if isinstance(p, int)]
        return tuple(v for v in values if isinstance(v, int) and 0 <= v < n)

    def _say(self, message: str, hint: str = "") -> None:
        self._empty.say(message, hint)
        self._stack.setCurrentWidget(self._empty)

    # -- history -----------------------------------------------------------------

    def _remember(self, sql: str) -> None:
        others = (query for query in self._earlier if query != sql)
        self._earlier = (sql, *others)[:MAX_RECENT]
        if self._settings is not None:
            self._settings.add("filters/queries", sql)
        self._fill_history()

    def _queries(self) -> list[str]:
        return [*self._earlier, *self._examples]

    def _fill_history(self) -> None:
        self.earlier.clear()
        for sql in self._queries():
            text = one_line(" ".join(sql.split()))[:_MAX_WORDS]
            add_action(self.earlier, text, tip=sql).setData(sql)

    def _on_history(self, action: QAction) -> None:
        self.editor.replace(str(action.data()))
        self.editor.setFocus()

    def _step(self, by: int) -> None:
        queries = self._queries()
        self._place = min(max(self._place + by, 0), len(queries) - 1)
        self.editor.replace(queries[self._place])

    # -- plot --------------------------------------------------------------------

    def _toggle_plot(self) -> None:
        if self.plot_button.isChecked():
            self._show_plot()
        elif self._answer is not None:
            self._stack.setCurrentWidget(self.table)

    def _show_plot(self) -> None:
        if self._answer is None or (plotted := _plotted(self._answer.result)) is None:
            return
        if self._plot is None:
            self._plot = _plot_widget(plotted, self._answer.result.columns, self.theme)
            self._stack.addWidget(self._plot)
        self._stack.setCurrentWidget(self._plot)

    def _drop_plot(self) -> None:
        if self._plot is not None:
            self._stack.setCurrentWidget(self.table)
            self._stack.removeWidget(self._plot)
            self._plot.deleteLater()
            self._plot = None


_TABLES = (
    "spans, accesses, markers, counters, samples, lanes, flows, tensors, buffers, "
    "routing, tokens, sequences, problems, strings"
)


@guarded
class SqlEditor(QPlainTextEdit):
    """A text that is completed and run.

    Signals
    -------
    run, stop : Ctrl+Enter, Esc.
    older, newer : Ctrl+Up and Ctrl+Down.
    """

    run = Signal()
    stop = Signal()
    older = Signal()
    newer = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName("Query")
        self.setFont(mono_font(12))
        self.setTabChangesFocus(True)
        self.setFixedHeight(self.fontMetrics().lineSpacing() * _LINES + scaled(12))
        self.setPlaceholderText("select … from spans")
        self._completions = QStringListModel(self)
        self._completer = QCompleter(self._completions, self)
        self._completer.setWidget(self)
        self._completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self._completer.activated.connect(self._insert)
        popup = self._completer.popup()
        assert popup is not None
        self._popup = popup

    def complete_with(self, offered: Sequence[str]) -> None:
        """Complete these words."""
        self._completions.setStringList(sorted(set(offered)))

    def replace(self, text: str) -> None:
        """Put another text in place of this one; Ctrl+Z takes that back."""
        cursor = self.textCursor()
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.setStyleSheet(
            f"QPlainTextEdit {{ background: {css(theme.pane)};"
            f" color: {css(theme.text)}; border: 1px solid {css(theme.line)};"
            " border-radius: 4px; }"
        )

    def event(self, event: QEvent) -> bool:
        """Keep the keys of the editor from the commands of the window."""
        return keeps_key(event, _is_key_of_editor) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Run, step through earlier queries, complete."""
        is_control = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        is_popup = self._popup.isVisible()
        key = event.key()
        if is_popup and key in (
            Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Escape, Qt.Key.Key_Tab,
        ):  # fmt: skip
            event.ignore()  # they are of the list
            return
        if is_control and key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.run.emit()
            return
        if key == Qt.Key.Key_Escape:
            self.stop.emit()
            return
        if is_control and key == Qt.Key.Key_Up:
            self.older.emit()
            return
        if is_control and key == Qt.Key.Key_Down:
            self.newer.emit()
            return
        asks = is_control and key == Qt.Key.Key_Space
        if not asks:
            super().keyPressEvent(event)
        if asks or (event.text().isidentifier() and not is_control):
            self._complete(1 if asks else 2)
        elif is_popup:
            self._popup.hide()

    def _complete(self, min_chars: int) -> None:
        cursor = self.textCursor()
        cursor.select(QTextCursor.SelectionType.WordUnderCursor)
        word = cursor.selectedText()
        self._completer.setCompletionPrefix(word)
        n = self._completer.completionCount()
        is_done = n == 1 and self._completer.currentCompletion() == word
        if len(word) < min_chars or not n or is_done:
            self._popup.hide()
            return
        self._popup.setCurrentIndex(self._completer.completionModel().index(0, 0))
        area = self.cursorRect()
        area.setWidth(self._popup.sizeHintForColumn(0) + scaled(24))
        self._completer.complete(area)

    def _insert(self, word: str) -> None:
        cursor = self.textCursor()
        cursor.select(QTextCursor.SelectionType.WordUnderCursor)
        cursor.insertText(word)
        self.setTextCursor(cursor)


def _is_key_of_editor(event: QKeyEvent) -> bool:
    is_control = event.modifiers() == Qt.KeyboardModifier.ControlModifier
    with_control = (
        Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Up, Qt.Key.Key_Down,
        Qt.Key.Key_Space,
    )  # fmt: skip
    if is_control:
        return event.key() in with_control
    return event.key() == Qt.Key.Key_Escape


def _table_text(unit: str) -> list[str]:
    """Return the names of tables and columns, as a trace without rows has them."""
    from ggscope.analysis.sql.tables import sql_schema
    from ggscope.model.builder import TraceBuilder
    from ggscope.model.trace import TraceInfo
    from ggscope.model.units import UNITS, Clock

    builder = TraceBuilder()
    builder.clock = Clock(next(key for key in UNITS if UNITS[key].plural == unit))
    schema = sql_schema(builder.snapshot(TraceInfo((), "", "", "", 0)))
    return [
        word
        for table in schema.tables
        for word in (table.name, *(name for name, _, _ in table.columns))
    ]


def _headings(result: SqlResult) -> tuple[Heading, ...]:
    n = len(result.columns)
    wide = next((i for i in range(n) if not _is_number(result, i)), -1)
    return tuple(
        Heading(
            one_line(name),
            kind,
            width=120,
            right=_is_number(result, i),
            is_text=not _is_number(result, i),
            stretch=i == wide,
            largest_first=_is_number(result, i),
        )
        for i, (name, kind) in enumerate(zip(result.columns, result.types, strict=True))
    )


def _is_number(result: SqlResult, column: int) -> bool:
    values = [row[column] for row in result.rows[:100]]
    return any(v is not None for v in values) and all(
        v is None or isinstance(plain_value(v), int | float) for v in values
    )


def _cell(value: Any) -> Cell:
    if value is None:
        return Cell("", sort=None, tip="NULL")
    plain = plain_value(value)
    if isinstance(plain, bool):
        return Cell(str(plain).lower(), sort=str(plain))
    if isinstance(plain, int):
        return Cell(f"{plain:,}", sort=float(plain), raw=plain, tip=str(plain))
    if isinstance(plain, float):
        return Cell(f"{plain:,.6g}", sort=plain, raw=plain, tip=repr(plain))
    text = one_line(str(value))
    return Cell(text, sort=text, raw=text, tip=text)


def _plotted(result: SqlResult) -> tuple[list[float], list[float]] | None:
    """Return the values of the first two columns; None where they are no numbers."""
    if len(result.columns) < 2 or not (_is_number(result, 0) and _is_number(result, 1)):
        return None
    pairs = [
        (float(row[0]), float(row[1]))
        for row in result.rows
        if row[0] is not None and row[1] is not None
    ]
    return [x for x, _ in pairs], [y for _, y in pairs]


def _plot_widget(
    plotted: tuple[list[float], list[float]], names: Sequence[str], theme: Theme
) -> QWidget:
    """Return a plot of points; pyqtgraph is imported when one is asked for."""
    import pyqtgraph

    made = pyqtgraph.PlotWidget(background=css(theme.pane))
    made.setAccessibleName("Plot of the rows")
    x, y = plotted
    made.plot(x, y, pen=None, symbol="o", symbolSize=5, symbolPen=None,
              symbolBrush=css(theme.accent))  # fmt: skip
    for side, name in (("bottom", names[0]), ("left", names[1])):
        axis = made.getAxis(side)
        axis.setLabel(one_line(name), color=css(theme.text))
        axis.setPen(css(theme.line))
        axis.setTextPen(css(theme.dim))
    plot: QWidget = made
    return plot
