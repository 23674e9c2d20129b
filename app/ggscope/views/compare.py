"""Compare: what another run takes more or less than this one, group by group."""

import weakref
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QModelIndex, QSignalBlocker
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QComboBox, QStackedLayout, QVBoxLayout, QWidget

from ggscope.analysis.compare.compare import (
    CompareRow,
    Comparison,
    Tolerance,
    compare,
)
from ggscope.analysis.statistics.grouping import has_groups
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.compare import (
    MEASURES,
    change_text,
    headline,
    matching_text,
    only_text,
    parts_text,
    relative_text,
    time_text,
)
from ggscope.descriptions.groupings import GROUPINGS
from ggscope.model.selection import By, SpanGroup
from ggscope.model.trace import Trace
from ggscope.model.units import Unit, format_count
from ggscope.render.theme import Theme
from ggscope.sanitize import one_line
from ggscope.session.deferred_release import free_in_steps
from ggscope.session.open_traces import OpenTraces
from ggscope.session.session import Session
from ggscope.session.tasks import TaskFailure
from ggscope.views.base.safe_text import ElidedLabel, Label
from ggscope.views.base.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.base.view import View
from ggscope.views.base.widgets import (
    ControlRow,
    EmptyState,
    combo_box,
    lay_out,
    set_label_color,
    words_font,
)

MAX_ROWS = 500
"""More groups than a person reads; those of largest change are shown."""
_KEY, _READ_KEY = "compare", "compare-read"
_MAX_TITLE = 40
_CHOOSE, _OPEN = "choose a run", "Open other run…"
_TOLERANCES = (
    ("none", 0.0),
    ("1 %", 0.01),
    ("2 %", 0.02),
    ("5 %", 0.05),
    ("10 %", 0.1),
)


@dataclass(frozen=True, slots=True, eq=False)
class _FileRun:
    """A run that is open in no tab."""

    title: str
    trace: Trace


def _compared(
    a: Trace, b: Trace, by: By, tolerance: float, watcher: Watcher
) -> Comparison:
    """Return what `b` takes more than `a`. Raises Cancelled from the watcher."""
    return compare([a], [b], by, tolerance=Tolerance(tolerance), watcher=watcher)


class CompareView(View):
    """The run of this tab (A) and another one (B), the largest change first.

    Attributes
    ----------
    result : what is shown; None while nothing is.
    run_box, by, tolerance : which run is B, what a row is, which changes are noise.
    """

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self.result: Comparison | None = None
        self._tabs = session.open_traces or OpenTraces(parent=self)
        self._tab: weakref.ref[Session] | None = None
        self._file: _FileRun | None = None
        self._listed: list[weakref.ref[Session]] = []
        self._is_due = False
        self._is_computing = False
        self._is_marking = False
        self._trouble: tuple[str, str] | None = None
        self.setAccessibleName("Compare")
        self._make_controls()
        self.model = TextTableModel(_headings("op", ""), self)
        self.table = TextTable(self.model, self, "compare", keeps_first=True)
        self.table.setAccessibleName("Changes by group")
        self.table.clicked.connect(self._on_row)
        self.table.selectionModel().currentRowChanged.connect(self._on_row)
        self.table.row_opened.connect(self._on_opened)
        self.model.layoutChanged.connect(self._mark_group)
        self._lay_out()
        self.set_theme(theme)
        self.connect_until_release(
            (session.trace_changed, self._recompute),
            (session.selection.changed, self._mark_group),
        )
        self.connect_until_release(
            (self._tabs.changed, self._on_tabs), is_throttled=False
        )
        self._on_tabs()

    def _make_controls(self) -> None:
        self.controls = ControlRow(self)
        self.run_box = combo_box(self.controls, "Compare with")
        # Its width follows the titles, which are short.
        self.run_box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.run_box.setObjectName("compare_run")
        self.run_box.activated.connect(self._on_run_chosen)
        self.controls.add_widget(self.run_box, "compare with")
        self.by = self.controls.add_choice("by", (), "Group by", self._recompute)
        tip = "Changes up to this share of A count as noise"
        self.tolerance = self.controls.add_choice(
            "tolerance", _TOLERANCES, tip, self._recompute
        )
        self.controls.add_button("Copy", "Copy the table", self._copy)

    def _lay_out(self) -> None:
        self._empty = EmptyState(self)
        self._headline = Label(parent=self)
        self._headline.setObjectName("compare_headline")
        self._headline.setFont(words_font(13, bold=True))
        self._headline.setWordWrap(True)
        self._parts, self._only = ElidedLabel(self), ElidedLabel(self)
        self._matching = self.controls.words
        self._texts = (self._parts, self._only, self._matching)
        names = ("compare_parts", "compare_only", "compare_matching")
        for text, name in zip(self._texts, names, strict=True):
            text.setObjectName(name)
            text.setFont(words_font(12))
        self._head = QWidget(self)
        above = (self._headline, self._parts)
        lay_out(QVBoxLayout(self._head), *above, margins=(12, 2, 12, 6), spacing=2)
        self._foot = QWidget(self)
        lay_out(QVBoxLayout(self._foot), self._only, margins=(12, 4, 12, 0))
        self._body = QWidget(self)
        lay_out(
            QVBoxLayout(self._body), self._head, self.table, self._foot, wide=self.table
        )
        stack = QWidget(self)
        self._stack = QStackedLayout(stack)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self._body)
        lay_out(QVBoxLayout(self), self.controls, stack, wide=stack)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.controls.set_theme(theme)
        self.table.set_theme(theme)
        self._empty.set_theme(theme)
        set_label_color(self._headline, theme.text)
        for text in self._texts:
            set_label_color(text, theme.dim)

    def release(self) -> None:
        """Stop reading and comparing, and let go of the other run."""
        super().release()
        self._leave_other()

    def showEvent(self, event: QShowEvent) -> None:
        """Compare what was not compared while the pane was hidden."""
        super().showEvent(event)
        self._refresh()

    # -- the other run -----------------------------------------------------

    def _on_tabs(self) -> None:
        """List the other tabs; let go of one that was closed, take the only one."""
        others = self._tabs.others(self.session)
        sessions = [session for _, session in others]
        if self._tab is not None and self._tab() not in sessions:
            self._leave_other()
        is_free = self._tab is None and self._file is None
        if is_free and len(sessions) == 1 and not self._is_reading:
            self._take_tab(sessions[0])
        self._list_runs(others)
        self._recompute()

    def _list_runs(self, others: list[tuple[str, Session]]) -> None:
        self._listed = [weakref.ref(session) for _, session in others]
        titles = [_short(title) for title, _ in others]
        chosen = self._tab
        with QSignalBlocker(self.run_box):
            self.run_box.clear()
            self.run_box.addItems(titles)
            if self._file is not None:
                self.run_box.addItem(_short(self._file.title))
            elif chosen is None:
                self.run_box.addItem(_CHOOSE)
            self.run_box.addItem(_OPEN)
            place = len(titles)  # of the file, or of no run
            if chosen is not None:
                place = self._listed.index(chosen)
            self.run_box.setCurrentIndex(place)

    def _on_run_chosen(self, place: int) -> None:
        if place == self.run_box.count() - 1:
            self._ask_file()
        elif place < len(self._listed):
            session = self._listed[place]()
            if session is not None and self._tab != self._listed[place]:
                self._leave_other()
                self._take_tab(session)
        self._on_tabs()

    def _ask_file(self) -> None:
        """Ask for a file, and read it on a worker unless a tab has it."""
        request = self._tabs.ask_file()
        if request is None:
            return
        self._leave_other()
        for _, session in self._tabs.others(self.session):
            if session.path == request.path:
                self._take_tab(session)
                return
        title = request.path.name
        self.session.tasks.run(
            _READ_KEY,
            request,
            partial(self._on_read, title),
            title=f"Reading {title}",
            unit="B",
            on_error=partial(self._on_read_failed, title),
            on_cancel=self._on_read_cancelled,
            even_if_held=True,
        )

    @property
    def _is_reading(self) -> bool:
        return self.session.tasks.is_running(_READ_KEY)

    def _on_read(self, title: str, trace: Trace) -> None:
        self._file = _FileRun(title, trace)
        self._on_tabs()

    def _on_read_failed(self, title: str, failure: TaskFailure) -> None:
        self._on_tabs()
        self._say_trouble(f"Cannot read {title}", failure.message)

    def _on_read_cancelled(self) -> None:
        if not self.is_released:
            self._on_tabs()

    def _take_tab(self, session: Session) -> None:
        self._tab = weakref.ref(session)
        session.trace_changed.connect(self._recompute)

    def _leave_other(self) -> None:
        """Forget the other run, and all that holds its trace."""
        self._stop()
        self.session.tasks.cancel(_READ_KEY)
        session = None if self._tab is None else self._tab()
        if session is not None:
            session.trace_changed.disconnect(self._recompute)
        if self._file is not None:
            free_in_steps(self._file.trace)
        self._tab = self._file = self.result = None

    def _other(self) -> Trace | None:
        """Return the trace of the other run; None where there is none so far."""
        if self._file is not None:
            return self._file.trace
        session = None if self._tab is None else self._tab()
        return None if session is None else session.trace

    # -- comparing ---------------------------------------------------------

    def _stop(self) -> None:
        self._is_computing = False
        self.session.tasks.cancel(_KEY)

    def _recompute(self, _: object = None) -> None:
        """Compare anew, once the pane is seen."""
        self._is_due, self._trouble = True, None
        self._refresh()

    def _refresh(self) -> None:
        a, b = self.session.trace, self._other()
        message = self._reason_to_wait(a, b)
        if message is not None or a is None or b is None:
            self._stop()
            self.result = None
            self._say_empty(*(message or ("", "")))
            return
        if not self._is_due or not self.isVisible():
            return
        self._is_due = False
        self._offer_groupings(a, b)
        by: By = self.by.currentData() or "op"
        request = partial(_compared, a, b, by, self.tolerance.currentData())
        if self.result is None:
            self._say_empty("Comparing…", "")
        self.model.set_stale(True)
        self._is_computing = True
        self.session.tasks.run(
            _KEY,
            request,
            self._show,
            title=f"Comparing with {self.run_box.currentText()}",
            on_error=self._on_failed,
            on_cancel=self._on_cancelled,
        )

    def _reason_to_wait(
        self, a: Trace | None, b: Trace | None
    ) -> tuple[str, str] | None:
        """Return why nothing can be compared so far; None where it can."""
        if self._trouble is not None:
            return self._trouble
        if a is None:
            return "No trace is open.", ""
        if self._is_reading:
            return "Reading the other run…", ""
        if b is None and self._tab is None:
            hint = f"Open it in another tab, or choose {_OPEN}"
            return "No run to compare with", hint
        if b is None:
            hint = "It is compared once it has been read."
            return "The other tab shows no trace", hint
        if a.is_unread or b.is_unread:
            return "Still reading…", ""
        if a.is_running or b.is_running:
            hint = "Runs are compared when the program has ended."
            return "Still recording…", hint
        return None

    def _say_trouble(self, title: str, hint: str) -> None:
        self._trouble = (title, hint)
        self._refresh()

    def _offer_groupings(self, a: Trace, b: Trace) -> None:
        """Offer what spans of both runs can be grouped by."""
        offered = [by for by in GROUPINGS if has_groups(a, by) and has_groups(b, by)]
        if offered == [self.by.itemData(i) for i in range(self.by.count())]:
            return
        chosen = self.by.currentData()
        with QSignalBlocker(self.by):
            self.by.clear()
            for by in offered:
                self.by.addItem(GROUPINGS[by], by)
            if chosen in offered:
                self.by.setCurrentIndex(offered.index(chosen))

    def _on_failed(self, failure: TaskFailure) -> None:
        self._is_computing = False
        self.session.problem_reported.emit(failure.message)
        self._say_trouble("The comparison failed", failure.message)

    def _on_cancelled(self) -> None:
        if self._is_computing and not self.is_released:  # by the person
            self._is_computing = False
            hint = "Choose the run again to start anew."
            self._say_trouble("The comparison was cancelled", hint)

    # -- showing -----------------------------------------------------------

    def _say_empty(self, title: str, hint: str) -> None:
        self.model.set_rows([])
        self._matching.clear()
        self._empty.say(title, hint)
        self._stack.setCurrentWidget(self._empty)

    def _show(self, found: Comparison) -> None:
        trace = self.session.trace
        self._is_computing = False
        if trace is None:
            return
        self.result, unit = found, trace.clock.unit
        self.model.set_stale(False)
        if not found.is_comparable:
            self._say_empty(headline(found, unit), "")
            return
        self._headline.setText(headline(found, unit))
        self._parts.setText(parts_text(found, unit))
        self._parts.setVisible(bool(found.parts))
        n_left_out = max(len(found.rows) - MAX_ROWS, 0)
        matching = matching_text(found)
        if n_left_out:
            n = format_count(len(found.rows))
            matching += f" The {MAX_ROWS} groups of largest change of {n} are listed."
        self._matching.setText(matching)
        only = one_line(" ".join(only_text(found)))
        self._only.setText(only)
        self._foot.setVisible(bool(only))
        rows = found.rows[:MAX_ROWS]
        self.model.set_headings(_headings(found.by, MEASURES[found.measure]))
        self.model.came_by = 3
        path = self.session.path
        own = "this run" if path is None else path.name
        self.table.what = f"A: {own}, B: {self.run_box.currentText()}"
        self.model.set_rows(
            [_cells(row, unit) for row in rows],
            _cells(found.whole, unit, "all"),
            payloads=rows,
            n_left_out=n_left_out,
        )
        self.table.fit_columns()
        self._mark_group()
        self._stack.setCurrentWidget(self._body)

    def _copy(self) -> None:
        if self.result is not None:
            self.table.copy_tsv()

    # -- rows --------------------------------------------------------------

    def group_at(self, row: int) -> SpanGroup | None:
        """Return the spans of a row in this tab; None of no group."""
        found, result = self.model.payload(row), self.result
        if result is None or not isinstance(found, CompareRow):
            return None
        return SpanGroup(result.by, found.key)

    def _on_row(self, index: QModelIndex) -> None:
        """Light the spans of the row that was gone to."""
        group = self.group_at(index.row()) if index.isValid() else None
        if group is not None and not self._is_marking:
            self.session.selection.select_group(group)

    def _on_opened(self, row: int) -> None:
        """Go to the longest span of a row."""
        group = self.group_at(row)
        if group is not None:
            self.session.selection.select_group(group)
            self.session.linking.show_longest()

    def _mark_group(self, _: object = None) -> None:
        """Select the row of the selected group, wherever it is now."""
        group, table = self.session.selection.current.group, self.table
        groups = [self.group_at(row) for row in range(self.model.rowCount())]
        row = -1 if group is None or group not in groups else groups.index(group)
        self._is_marking = True
        if row < 0 and table.selected_rows():
            table.clearSelection()
        elif row >= 0 and row not in table.selected_rows():
            table.selectRow(row)
        self._is_marking = False


def _short(title: str) -> str:
    """Return a title that a choice has room for."""
    title = one_line(title)
    if len(title) <= _MAX_TITLE:
        return title
    half = _MAX_TITLE // 2
    return f"{title[:half]}…{title[1 - half :]}"


def _headings(by: By, measure: str) -> list[Heading]:
    noun = GROUPINGS[by]
    of_side = f"\n{measure[:1].upper()}{measure[1:]}" if measure else ""
    effect = "sorted by its size"
    return [
        Heading(noun, "What both runs have", 160, stretch=True),
        Heading("A", f"This run{of_side}", 80, right=True, largest_first=True),
        Heading("B", f"The other run{of_side}", 80, right=True, largest_first=True),
        Heading("change", f"B − A, {effect}", 84, right=True, largest_first=True),
        Heading(
            "relative", f"Change as a share of A, {effect}", 84, right=True,
            largest_first=True,
        ),
    ]  # fmt: skip


def _cells(row: CompareRow, unit: Unit, title: str = "") -> tuple[Cell, ...]:
    """Return the cells of a row, greyed where the change is noise."""
    a, b, change, relative = row.a.value, row.b.value, row.change, row.relative
    is_dim = bool(row.is_noise) and not title
    tip = "within the tolerance" if row.is_noise and change else ""
    shown = change_text(change, unit)
    return (
        Cell(title or row.key, None if title else row.key, is_dim=is_dim),
        Cell(time_text(a, unit), a, _raw(a), is_dim=is_dim),
        Cell(time_text(b, unit), b, _raw(b), is_dim=is_dim),
        Cell(
            shown, _size(change), _raw(change), f"{shown} {tip}".strip(), is_dim=is_dim
        ),
        Cell(relative_text(relative), _size(relative), _raw(relative), is_dim=is_dim),
    )


def _size(value: float | None) -> float | None:
    return None if value is None else abs(value)


def _raw(value: float | None) -> float | str:
    """Return a plain number; "" for what is not known."""
    return "" if value is None else value
