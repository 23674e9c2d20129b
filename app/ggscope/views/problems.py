"""Problems: what was wrong with the file, and what failed while looking at it."""

import re
from collections import Counter
from datetime import datetime
from functools import partial

from PySide6.QtCore import QModelIndex, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QMenu,
    QScrollArea,
    QSizePolicy,
    QStackedLayout,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ggscope.errors import ReadError
from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.model.units import format_count, format_offset
from ggscope.render.theme import Theme, css
from ggscope.sanitize import one_line
from ggscope.session.session import Session, TraceChange
from ggscope.session.tasks import TaskContext, TaskFailure
from ggscope.views.base.safe_text import Label
from ggscope.views.base.text_table import (
    Cell,
    Heading,
    Shape,
    TextTable,
    TextTableModel,
)
from ggscope.views.base.view import View, guarded
from ggscope.views.base.widgets import (
    EmptyState,
    lay_out,
    set_label_color,
    tool_button,
    tool_button_style,
    ui_font,
)

MAX_FAILURES = 200
_JUMP = "problems-jump"
_RECORD = re.compile(r"\b(?:record|event|entry|line)\s+([\d,]+)")
_SHAPES: dict[Severity, Shape] = {
    Severity.INFO: "circle",
    Severity.NOTICE: "triangle",
    Severity.DATA_LOSS: "diamond",
    Severity.ERROR: "square",
}


def span_of_problem(
    trace: Trace, record: int, offset: int, _: TaskContext | None = None
) -> int:
    """Return the span that a problem is about; -1 where none was made of its record.

    Parameters
    ----------
    record : its number, -1 = look for the one at byte `offset`.
    """
    if record < 0 and offset >= 0:
        record = record_at(trace, offset)
    return trace.span_of(record)


def record_at(trace: Trace, offset: int) -> int:
    """Return the last record that starts at or before byte `offset`, or -1.

    Records lie in the file in order, so 25 of them are read for 33 million.
    """
    if trace.records is None:
        return -1
    low, high = 0, trace.info.n_records
    try:
        while low < high:
            middle = (low + high) // 2
            if trace.records.view(middle).offset <= offset:
                low = middle + 1
            else:
                high = middle
    except (ReadError, IndexError):
        return -1
    return low - 1


def severity_word(severity: Severity) -> str:
    """Return the severity as people read it."""
    return {
        Severity.INFO: "note",
        Severity.NOTICE: "notice",
        Severity.DATA_LOSS: "data loss",
        Severity.ERROR: "error",
    }[severity]


@guarded
class WholeText(QScrollArea):
    """A text as tall as its lines; in a low pane it scrolls."""

    def __init__(self, label: Label, parent: QWidget) -> None:
        super().__init__(parent)
        self._label = label
        self.setWidget(label)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName(label.accessibleName())
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)

    def fit(self) -> None:
        """Scroll to the first line of a new text and fit its height."""
        self.verticalScrollBar().setValue(0)
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        """Return the height of all lines at this width."""
        return QSize(0, self._label.heightForWidth(self.width()))

    def minimumSizeHint(self) -> QSize:
        """Return the height of two lines."""
        margins = self._label.contentsMargins()
        lines = 2 * self._label.fontMetrics().lineSpacing()
        min_height = lines + margins.top() + margins.bottom()
        return QSize(0, min(min_height, self.sizeHint().height()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Wrap lines at the new width."""
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self.updateGeometry()


class ProblemsView(View):
    """Lists the warnings of the trace, the worst first, and failures as they come."""

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self._failures: list[ReadWarning] = []
        self.setAccessibleName("Problems")
        self.model = TextTableModel(self._headings(), self)
        self.table = TextTable(self.model, self, "problems")
        self.table.setAccessibleName("Problems of this file")
        # The full text of the current row is below the table.
        self.table.elide_mode = Qt.TextElideMode.ElideRight
        self.table.row_opened.connect(self._on_opened)
        self.table.selectionModel().currentRowChanged.connect(self._on_current)
        self._empty = EmptyState(self)
        self._filters: dict[Severity, QToolButton] = {}
        self._lay_out(self._make_head())
        self.set_theme(theme)
        self.connect_until_release(
            (session.trace_changed, self._on_trace_changed),
            (session.problem_reported, self._on_problem),
        )

    def _make_head(self) -> QWidget:
        head = QWidget(self)
        for severity in sorted(Severity, reverse=True):
            tip = f"Show or hide: {severity_word(severity)}"
            button = self._filters[severity] = tool_button(head, "", tip)
            button.setObjectName(f"problems_{severity.name.lower()}")
            button.setCheckable(True)
            button.setChecked(True)
            button.toggled.connect(self._show)
        self._note = Label(parent=head)
        self._note.setObjectName("problems_note")
        self._note.setFont(ui_font(12))
        menu = QMenu(self)
        self.table.fill_menu(menu)
        tip = "Copy as text or table"
        self._copy = tool_button(head, "Copy", tip, menu=menu)
        lay_out(
            QHBoxLayout(head),
            *self._filters.values(),
            self._note,
            self._copy,
            margins=(12, 4, 8, 4),
            spacing=4,
            wide=self._note,
        )
        return head

    def _lay_out(self, head: QWidget) -> None:
        self._full = Label(parent=self)
        self._full.setObjectName("problem_text")
        self._full.setFont(ui_font(12))
        self._full.setWordWrap(True)
        self._full.setContentsMargins(12, 8, 12, 8)
        self._full.setAccessibleName("Full text of the problem")
        self._frame = WholeText(self._full, self)
        body = QWidget(self)
        self._stack = QStackedLayout(body)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self.table)
        lay_out(QVBoxLayout(self), head, body, self._frame, wide=body)

    def _headings(self) -> tuple[Heading, ...]:
        return (
            Heading("severity", "Note, notice, data loss or error", 104, is_text=True),
            Heading(
                "message", "Problem and its consequence", 300, False, True, True
            ),
            Heading(
                "count", "Number of occurrences", 70, right=True,
                largest_first=True,
            ),
            Heading("where", "First occurrence", 96),
            Heading("what to do", "How to fix it", 96, is_text=True),
            Heading("code", "Identifier of this kind of problem", 120),
        )  # fmt: skip

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.table.set_theme(theme)
        self._empty.set_theme(theme)
        set_label_color(self._note, theme.dim)
        set_label_color(self._full, theme.text)
        style = (
            tool_button_style(theme, theme.dim)
            + f" QToolButton:checked {{ color: {css(theme.text)};"
            f" background: {css(theme.raised)}; }}"
            f" QToolButton:focus {{ color: {css(theme.accent)}; }}"
        )
        for button in (*self._filters.values(), self._copy):
            button.setStyleSheet(style)
        self._show()

    # -- session -----------------------------------------------------------

    def release(self) -> None:
        """Cancel the search for a span."""
        super().release()
        self.session.tasks.cancel(_JUMP)

    def _on_trace_changed(self, change: TraceChange) -> None:
        if change is TraceChange.REPLACED:
            self._failures.clear()
        self._show()

    def _on_problem(self, message: str) -> None:
        """Note a failure of the program with the time at which it happened."""
        now = datetime.now().astimezone().strftime("%H:%M:%S")
        last = self._failures[-1] if self._failures else None
        count = 1
        if last is not None and last.message == str(message):
            count = last.count + 1
            self._failures.pop()
        self._failures.append(
            ReadWarning(Severity.ERROR, "program", str(message), count, place=now)
        )
        del self._failures[:-MAX_FAILURES]
        self._show()

    # -- showing -----------------------------------------------------------

    @property
    def problems(self) -> tuple[ReadWarning, ...]:
        """All problems, the worst first, before filtering by severity."""
        trace = self.session.trace
        warnings = [*(() if trace is None else trace.warnings), *self._failures]
        return tuple(sorted(warnings, key=lambda p: -p.severity))

    def _show(self, _: object = None) -> None:
        problems = self.problems
        counts = Counter(p.severity for p in problems)
        for severity, button in self._filters.items():
            n = counts[severity]
            button.setText(f"{severity_word(severity)} {format_count(n)}")
            button.setVisible(n > 0)
        shown = [p for p in problems if self._filters[p.severity].isChecked()]
        self.model.set_rows([self._cells(p) for p in shown], payloads=shown)
        self.table.fit_columns()
        self._frame.setVisible(False)
        hidden = len(problems) - len(shown)
        self._note.setText(self._note_text(hidden))
        self._copy.setVisible(bool(shown))
        if shown:
            self._stack.setCurrentWidget(self.table)
            return
        self._say_empty(has_hidden=bool(problems))

    def _note_text(self, hidden: int) -> str:
        parts = [f"{format_count(hidden)} hidden"] if hidden else []
        if self._is_reading():
            parts.append("still reading")
        return " · ".join(parts)

    def _is_reading(self) -> bool:
        trace = self.session.trace
        return trace is not None and bool(trace.pending)

    def _say_empty(self, *, has_hidden: bool) -> None:
        if has_hidden:
            self._empty.say("All problems hidden")
        elif self.session.trace is None:
            self._empty.say("No trace is open.")
        elif self._is_reading():
            self._empty.say("No problems so far; still reading")
        else:
            self._empty.say("No problems found")
        self._stack.setCurrentWidget(self._empty)

    def _cells(self, problem: ReadWarning) -> tuple[Cell, ...]:
        theme = self.theme
        color = {
            Severity.INFO: theme.accent,
            Severity.NOTICE: theme.caution,
            Severity.DATA_LOSS: theme.error,
            Severity.ERROR: theme.error,
        }[problem.severity]
        return (
            Cell(
                severity_word(problem.severity),
                -float(problem.severity),
                color=color,
                shape=_SHAPES[problem.severity],
            ),
            Cell(problem.message, problem.message),
            Cell(format_count(problem.count), problem.count, problem.count),
            Cell(where(problem), float(problem.offset or 0), tip=_exact_place(problem)),
            Cell(remedy(problem) or "–", remedy(problem), remedy(problem)),
            Cell(problem.code, problem.code),
        )

    def _on_current(self, current: QModelIndex, _: QModelIndex) -> None:
        """Show the whole text of the current problem below the table."""
        problem = self.model.payload(current.row()) if current.isValid() else None
        if not isinstance(problem, ReadWarning):
            self._frame.setVisible(False)
            return
        text = problem.message
        if remedy(problem):
            text += " " + remedy(problem)
        self._full.setText(text)
        self._frame.fit()
        self._frame.setVisible(True)
        layout = self.layout()
        if layout is not None:  # the text covers rows: scroll to the current one
            layout.activate()
            self.table.scrollTo(current)

    # -- jumping -----------------------------------------------------------

    def _on_opened(self, row: int) -> None:
        problem, session = self.model.payload(row), self.session
        if session.trace is None:
            return
        if not isinstance(problem, ReadWarning) or problem.code == "program":
            return
        if problem.file:  # its records and bytes are not those of the trace
            self._note.setText(
                f"This problem is in {one_line(problem.file)}, not in the trace itself."
            )
            return
        match = _RECORD.search(problem.place)
        record = int(match.group(1).replace(",", "")) if match else -1
        offset = -1 if problem.offset is None else problem.offset
        if record < 0 and offset < 0:
            self._note.setText("No location recorded for this problem")
            return
        trace = session.trace

        def on_result(span: int) -> None:
            if session.trace is trace:  # the next snapshot may have other ids
                self._on_found(span)

        session.tasks.run(
            _JUMP,
            partial(span_of_problem, trace, record, offset),
            on_result,
            on_error=self._on_lost,
            even_if_held=True,
        )

    def _on_found(self, span: int) -> None:
        if span < 0:
            self._note.setText("No span at this location")
            return
        self._note.clear()
        self.session.selection.select_span(span)

    def _on_lost(self, failure: TaskFailure) -> None:
        self._note.setText(failure.message)


def where(problem: ReadWarning) -> str:
    """Return the location of a problem: record or event, and byte offset."""
    parts = [problem.place] if problem.place else []
    if problem.offset is not None:
        parts.append(format_offset(problem.offset))
    return " · ".join(parts) or "–"


def remedy(problem: ReadWarning) -> str:
    """Return how to fix a problem, by commands of the window.

    Readers may name options of the command line.
    """
    if problem.code == "low_confidence":
        return "If it looks wrong: File › Open with another reader."
    return problem.remedy


def _exact_place(problem: ReadWarning) -> str:
    if problem.offset is None:
        return problem.place
    return f"{problem.place} byte {format_count(problem.offset)}".strip()
