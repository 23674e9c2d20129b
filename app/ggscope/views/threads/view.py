"""Threads and waits: who is busy, who waits for whom, idle gaps, uneven ops."""

from dataclasses import dataclass
from functools import partial
from itertools import count

from PySide6.QtCore import QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QLineEdit,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from ggscope.model.selection import MarkedRange
from ggscope.model.units import format_count, format_duration, parse_duration
from ggscope.render.theme import Theme
from ggscope.session.session import Session, TraceChange
from ggscope.session.tasks import TaskFailure
from ggscope.views.base.safe_text import ElidedLabel, set_tip
from ggscope.views.base.text_table import TextTable, TextTableModel
from ggscope.views.base.view import View
from ggscope.views.base.widgets import (
    EmptyState,
    RangeSwitch,
    lay_out,
    scaled,
    set_label_color,
    tool_button,
    tool_button_style,
    ui_font,
)
from ggscope.views.threads.gap_table import GapSection
from ggscope.views.threads.op_table import OpSection
from ggscope.views.threads.section import Contents, Query, Scope, Section
from ggscope.views.threads.tensor_table import TensorSection
from ggscope.views.threads.thread_table import ThreadSection
from ggscope.views.threads.token_table import TokenSection

SECTIONS: tuple[Section, ...] = (
    ThreadSection(),
    GapSection(),
    TokenSection(),
    OpSection(),
    TensorSection(),
)
"""The tables, in the order of their tabs."""
WINDOW = 100_000
"""Ticks within which touches of a tensor count as handed over, to begin with."""
_QUIET_MS = 80
"""Rest before counting anew while the range is being dragged."""
_NUMBERS = count()


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What a table shows: the answer to a query."""

    query: Query
    contents: Contents


class ThreadsView(View):
    """A table per question; the one in front is counted."""

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self.shown: dict[str, Shown] = {}
        """By the id of the section; what is not there was not counted yet."""
        self.window_ticks = WINDOW
        self._task = f"threads-{next(_NUMBERS)}"
        self._requested: tuple[str, object] | None = None
        self._own_mark: MarkedRange | None = None
        self._scope_of_list: Scope | None = None
        self._timer = QTimer(self, singleShot=True, interval=_QUIET_MS)
        self._timer.timeout.connect(self._recount)
        self.setAccessibleName("Threads and waits")
        self.tables = {section.id: self._make_table(section) for section in SECTIONS}
        self._empty = EmptyState(self)
        self._lay_out()
        self.set_theme(theme)
        self.connect_until_release(
            (session.trace_changed, self._on_trace_changed),
            (session.viewport.changed, self._on_scope_changed),
            (session.ranges.marked_changed, self._on_scope_changed),
            (session.ranges.pin_changed, self._on_scope_changed),
            (session.ranges.limited_changed, self._on_switched),
            (session.display.absolute_time_changed, self._on_scope_changed),
        )
        self._on_trace_changed(TraceChange.REPLACED)

    def _make_table(self, section: Section) -> TextTable:
        model = TextTableModel((), self)
        model.came_by = section.came_by
        table = TextTable(model, self, section.id, keeps_first=True)
        table.setAccessibleName(section.label)
        table.clicked.connect(self._on_chosen)
        table.selectionModel().selectionChanged.connect(self._on_chosen)
        table.row_opened.connect(self._on_opened)
        return table

    def _lay_out(self) -> None:
        head = QWidget(self)
        self.about = ElidedLabel(head)
        self.about.setObjectName("threads_about")
        self.about.setFont(ui_font(12))
        self.tabs = QButtonGroup(self)
        for i, section in enumerate(SECTIONS):
            button = tool_button(head, section.title, section.tip)
            button.setCheckable(True)
            self.tabs.addButton(button, i)
        self.tabs.button(0).setChecked(True)
        self.tabs.idToggled.connect(self._on_tab)
        self.window_line = QLineEdit(head)
        self.window_line.setObjectName("threads_window")
        self.window_line.setAccessibleName("Window length")
        set_tip(
            self.window_line,
            "Window: two threads share a tensor where the second access begins within "
            "this time of the first, such as 100 us or 1 ms",
        )
        self.window_line.setFixedWidth(scaled(112))  # 100,000 cyc
        self.window_line.editingFinished.connect(self._on_window)
        self._switch = RangeSwitch(self.session, head)
        lay_out(
            QHBoxLayout(head), *self.tabs.buttons(), self.window_line, self.about,
            self._switch, margins=(8, 4, 8, 4), spacing=8, wide=self.about,
        )  # fmt: skip
        body = QWidget(self)
        self._stack = QStackedLayout(body)
        for part in (self._empty, *self.tables.values()):
            self._stack.addWidget(part)
        self._foot = QWidget(self)
        self.note = ElidedLabel(self._foot)
        self.note.setObjectName("threads_note")
        self.note.setFont(ui_font(12))
        lay_out(QVBoxLayout(self._foot), self.note, margins=(12, 4, 12, 6))
        lay_out(QVBoxLayout(self), head, body, self._foot, wide=body)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        for table in self.tables.values():
            table.set_theme(theme)
        self._empty.set_theme(theme)
        self._switch.set_theme(theme)
        for text in (self.about, self.note):
            set_label_color(text, theme.dim)
        style = (
            tool_button_style(theme, theme.dim)
            + f" QToolButton:checked {{ color: #{theme.text & 0xFFFFFF:06x};"
            f" background: #{theme.raised & 0xFFFFFF:06x}; }}"
            f" QToolButton:focus {{ color: #{theme.accent & 0xFFFFFF:06x}; }}"
        )
        for button in self.tabs.buttons():
            button.setStyleSheet(style)

    # -- session -----------------------------------------------------------

    def release(self) -> None:
        """Stop counting as well."""
        super().release()
        self._timer.stop()
        self.session.tasks.cancel(self._task)

    def showEvent(self, event: QShowEvent) -> None:
        """Count what was not counted while the pane was hidden."""
        super().showEvent(event)
        self._timer.start()

    def _on_trace_changed(self, change: TraceChange) -> None:
        self.session.tasks.cancel(self._task)
        self._requested = None
        if change not in (TraceChange.GREW, TraceChange.APPENDED):
            self._own_mark = None
            self.shown.clear()
            for table in self.tables.values():
                table.rows.set_rows(())
            self._show_section()
        self._count_soon()

    def _on_switched(self, _: object) -> None:
        """Count what the switch says, also where a gap is marked."""
        self._own_mark = None
        self._on_scope_changed(None)

    def _on_scope_changed(self, _: object) -> None:
        query = self.query()
        if query is not None and (self.section.id, query.key) != self._requested:
            self._count_soon()

    def _on_tab(self, _: int, is_down: bool) -> None:
        if is_down:
            self._show_section()
            self._count_soon()

    def _on_window(self) -> None:
        """Take the typed window length, or restore the last one if it is invalid."""
        trace = self.session.trace
        if trace is None:
            return
        try:
            ticks = parse_duration(self.window_line.text(), trace.clock.unit)
        except ValueError as error:
            self.session.status_message.emit(str(error))
            ticks = -1
        if ticks >= 0:
            self.window_ticks = ticks
        self._show_window()
        self._count_soon()

    def _count_soon(self) -> None:
        # A pane behind another tab counts when it comes to the front.
        if self.isVisible():
            self._timer.start()

    @property
    def section(self) -> Section:
        """The table in front."""
        return SECTIONS[max(self.tabs.checkedId(), 0)]

    def scope(self) -> Scope | None:
        """Return what to count; None without a trace.

        The mark of a gap that was chosen here does not count: it would take the other
        gaps out of the list.
        """
        session = self.session
        if session.trace is None:
            return None
        shown = session.ranges.listed
        if shown is None:
            return Scope("whole trace")
        if shown == self._own_mark and self._scope_of_list is not None:
            return self._scope_of_list
        name = "visible range" if session.ranges.marked is None else "marked range"
        return Scope(name, shown.time)

    def query(self) -> Query | None:
        """Return what the table in front is to show; None without a trace."""
        trace, scope = self.session.trace, self.scope()
        if trace is None or scope is None:
            return None
        window = self.window_ticks if self.section.has_window else 0
        return Query(trace, scope, self.session.display.absolute_time, window)

    def _recount(self) -> None:
        """Count anew on a worker; the rows stay until then."""
        query, section = self.query(), self.section
        if query is None or query.trace.is_partial:
            return
        if (requested := (section.id, query.key)) == self._requested:
            return
        known = self.shown.get(section.id)
        if known is not None and known.query.is_same(query):
            self.session.tasks.cancel(self._task)  # another range was asked for
            return
        self._requested = requested
        self.session.tasks.run(
            self._task,
            partial(section.contents, query),
            partial(self._on_contents, section, query),
            title="Adding up waits",
            on_error=self._on_failed,
            on_cancel=self._on_cancelled,
        )

    def _on_cancelled(self) -> None:
        self._requested = None

    def _on_failed(self, failure: TaskFailure) -> None:
        self._requested = None
        self.session.problem_reported.emit(failure.message)

    # -- showing -----------------------------------------------------------

    def _on_contents(self, section: Section, query: Query, contents: Contents) -> None:
        self._requested = None
        self.shown[section.id] = Shown(query, contents)
        table, n = self.tables[section.id], len(contents.rows)
        table.rows.set_headings(contents.headings)
        table.rows.set_rows(
            contents.rows,
            payloads=contents.payloads,
            n_left_out=contents.n_all - n,
        )
        table.what = _range_text(query)
        table.fit_columns()
        title = section.title
        if section.counts_rows and contents.is_known:
            title += f"  {format_count(contents.n_all)}"
        self.tabs.button(SECTIONS.index(section)).setText(title)
        self._show_section()

    def _show_section(self) -> None:
        """Show the table in front, or why there is none."""
        section, shown = self.section, self.shown.get(self.section.id)
        self._show_window()
        self._foot.setVisible(shown is not None and bool(shown.contents.note))
        if shown is None:
            self.about.clear()
            trace = self.session.trace
            if trace is None:
                self._empty.say("No trace is open.")
            else:
                self._empty.say("Still reading…" if trace.is_partial else "Counting…")
            self._stack.setCurrentWidget(self._empty)
            return
        contents = shown.contents
        parts = [_range_text(shown.query), contents.about]
        self.about.setText(" · ".join(part for part in parts if part))
        self.note.tip = contents.note_tip
        self.note.setText(contents.note)
        if contents.rows:
            self._stack.setCurrentWidget(self.tables[section.id])
            return
        known, unknown = section.nothing
        self._empty.say(known if contents.is_known else unknown, contents.reason)
        self._stack.setCurrentWidget(self._empty)

    def _show_window(self) -> None:
        trace = self.session.trace
        self.window_line.setVisible(self.section.has_window and trace is not None)
        if trace is not None:
            self.window_line.setText(
                format_duration(self.window_ticks, trace.clock.unit)
            )

    # -- choosing ----------------------------------------------------------

    def _on_chosen(self, *_: object) -> None:
        """Select what the chosen row stands for."""
        section, shown = self.section, self.shown.get(self.section.id)
        table = self.tables[section.id]
        rows = table.selected_rows()
        if len(rows) != 1 or shown is None:
            return
        payload = table.rows.payload(rows[0])
        marked = section.choose(self.session, shown.query.scope, payload)
        if marked is not None:
            self._own_mark, self._scope_of_list = marked, shown.query.scope
            self.session.ranges.set_marked(marked)

    def _on_opened(self, row: int) -> None:
        """Show what a row stands for."""
        self._on_chosen()
        payload = self.tables[self.section.id].rows.payload(row)
        if payload is not None:
            self.section.open(self.session, payload)


def _range_text(query: Query) -> str:
    scope = query.scope
    if scope.time is None:
        return scope.name
    length = format_duration(scope.time.duration, query.trace.clock.unit)
    return f"{scope.name} {length}"
