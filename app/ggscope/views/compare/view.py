"""The pane Compare: changes by group, both timelines, steps from A to B, durations."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from PySide6.QtCore import QModelIndex, QSignalBlocker
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QComboBox, QStackedLayout, QVBoxLayout, QWidget

from ggscope.analysis.compare.compare import (
    CompareRow,
    Comparison,
    Tolerance,
    compare,
)
from ggscope.analysis.compare.matching import ShareRow
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.statistics.grouping import has_groups
from ggscope.analysis.statistics.members import group_of_span
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.compare import (
    MEASURES,
    headline,
    limits_text,
    matching_text,
    only_text,
    partial_text,
    parts_text,
)
from ggscope.descriptions.groupings import GROUPINGS
from ggscope.model.selection import By, SpanGroup
from ggscope.model.trace import Trace
from ggscope.model.units import format_count
from ggscope.render.export import Figure
from ggscope.render.figure_style import FigureStyle
from ggscope.render.theme import Theme
from ggscope.sanitize import one_line
from ggscope.session.deferred_release import free_in_steps
from ggscope.session.open_traces import OpenTraces, RunsRequest
from ggscope.session.session import Session
from ggscope.session.tasks import Request, TaskFailure
from ggscope.views.base.safe_text import ElidedLabel, Label, set_tip
from ggscope.views.base.text_table import TextTable, TextTableModel
from ggscope.views.base.view import View
from ggscope.views.base.widgets import (
    ControlRow,
    EmptyState,
    combo_box,
    lay_out,
    set_label_color,
    ui_font,
)
from ggscope.views.compare.charts import DurationsPane, StepsPane
from ggscope.views.compare.compared import Compared
from ggscope.views.compare.rows import (
    UNMATCHED_HEADINGS,
    change_cells,
    change_headings,
    share_cells,
    share_headings,
    unmatched_rows,
)
from ggscope.views.compare.timelines import TimelinesPane

MAX_ROWS = 500
"""More groups than anybody reads; those with the largest changes are shown."""
_KEY, _READ_KEY, _MORE_KEY = "compare", "compare-read", "compare-read-more"
_GROUP_KEY = "compare-group"
_A, _B = 0, 1
_MAX_TITLE = 40
_LOW_PX = 240
"""In lower panes pictures take the place of the sentence above them."""
_LOWER_PX = 160
"""In lower panes rows take the place of the parts of a thread's time."""
_CHOOSE, _OPEN = "choose a run", "Open other run…"
_FOLDER, _OWN = "Folder of runs…", "this run"
_TOLERANCES = (
    ("none", 0.0),
    ("1 %", 0.01),
    ("2 %", 0.02),
    ("5 %", 0.05),
    ("10 %", 0.1),
)
_PAGES = (
    ("changes", "changes"),
    ("timelines", "timelines"),
    ("steps", "steps"),
    ("durations", "durations"),
    ("no match", "unmatched"),
)


@dataclass(frozen=True, slots=True, eq=False)
class _ReadRuns:
    """Runs that are open in no tab."""

    title: str
    traces: tuple[Trace, ...]


def _compared(
    a: tuple[Trace, ...],
    b: tuple[Trace, ...],
    by: By,
    tolerance: float,
    watcher: Watcher,
) -> Comparison:
    """Return what `b` takes more than `a`. Raises Cancelled from the watcher."""
    return compare(a, b, by, tolerance=Tolerance(tolerance), watcher=watcher)


class CompareView(View):
    """The run of this tab (A) and another one (B), or several runs of each.

    Attributes
    ----------
    result : what is shown; None while nothing is.
    run_box, own_box : which run is B, and which further runs belong to A.
    page_box : changes, timelines, steps, durations, or what has no match.
    by, tolerance : what a row is, which changes are noise.
    """

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self.result: Comparison | None = None
        self._tabs = session.open_traces or OpenTraces(parent=self)
        self._tab: weakref.ref[Session] | None = None
        self._read: _ReadRuns | None = None
        self._more_a: _ReadRuns | None = None
        self._shown: Compared | None = None
        self._row_key = ""
        self._listed: list[weakref.ref[Session]] = []
        self._needs_compare = False
        self._is_computing = False
        self._is_marking = False
        self._zoom = 1.0
        self._error: tuple[str, str] | None = None
        self.setAccessibleName("Compare")
        self._make_controls()
        headings = change_headings("op", "", has_spread=False)
        self.model = TextTableModel(headings, self)
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
            (self._tabs.changed, self._on_tabs_changed), is_throttled=False
        )
        self._on_tabs_changed()

    def _make_controls(self) -> None:
        self.controls = ControlRow(self)
        self.run_box = combo_box(self.controls, "Compare with")
        # Its width follows the titles, which are short.
        self.run_box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.run_box.setObjectName("compare_run")
        self.run_box.activated.connect(self._on_run_chosen)
        self.controls.add_widget(self.run_box, "compare with")
        self.page_box = self.controls.add_choice(
            "show", _PAGES, "What to show of the comparison", self._on_page
        )
        self.by = self.controls.add_choice("by", (), "Group by", self._recompute)
        tip = "Changes up to this share of A count as noise"
        self.tolerance = self.controls.add_choice(
            "tolerance", _TOLERANCES, tip, self._recompute
        )
        self.own_box = combo_box(self.controls, "Runs of A")
        self.own_box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.own_box.setObjectName("compare_own")
        self.own_box.activated.connect(self._on_own_chosen)
        self.controls.add_widget(self.own_box, "A")
        self._copy_button = self.controls.add_button(
            "Copy", "Copy the table", self._copy
        )

    def _lay_out(self) -> None:
        self._empty = EmptyState(self)
        self._headline = Label(parent=self)
        self._headline.setObjectName("compare_headline")
        self._headline.setFont(ui_font(13, bold=True))
        self._headline.setWordWrap(True)
        self._parts, self._only = ElidedLabel(self), ElidedLabel(self)
        self._matching = self.controls.message
        self._texts = (self._parts, self._only, self._matching)
        names = ("compare_parts", "compare_only", "compare_matching")
        for text, name in zip(self._texts, names, strict=True):
            text.setObjectName(name)
            text.setFont(ui_font(12))
        self._head = QWidget(self)
        self._limits = ElidedLabel(self)
        self._limits.setObjectName("compare_limits")
        self._limits.setFont(ui_font(12))
        above = (self._headline, self._parts, self._limits)
        lay_out(QVBoxLayout(self._head), *above, margins=(12, 2, 12, 6), spacing=2)
        self._foot = QWidget(self)
        lay_out(QVBoxLayout(self._foot), self._only, margins=(12, 4, 12, 0))
        changes = QWidget(self)
        lay_out(QVBoxLayout(changes), self.table, self._foot, wide=self.table)
        self._pages: dict[str, QWidget] = {"changes": changes}
        self._make_pages: dict[str, Callable[[], QWidget]] = {
            "timelines": self._make_timelines,
            "steps": lambda: StepsPane(self.session, self.theme, self),
            "durations": lambda: DurationsPane(self.session, self.theme, self),
            "unmatched": self._make_unmatched,
        }
        pages = QWidget(self)
        self._page_stack = QStackedLayout(pages)
        self._page_stack.addWidget(changes)
        self._body = QWidget(self)
        lay_out(QVBoxLayout(self._body), self._head, pages, wide=pages)
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
        set_label_color(self._limits, theme.caution)
        for page in self._pages.values():
            if isinstance(page, View | TextTable):
                page.set_theme(theme)

    def set_zoom(self, zoom: float) -> None:
        """Draw pictures `zoom` times as large."""
        self._zoom = zoom
        for page in self._pages.values():
            if isinstance(page, View):
                page.set_zoom(zoom)

    def release(self) -> None:
        """Stop reading and comparing, and let go of the other run."""
        super().release()
        self._drop_b()
        self._drop_more_a()
        for page in self._pages.values():
            if isinstance(page, View):
                page.release()

    def showEvent(self, event: QShowEvent) -> None:
        """Compare what was not compared while the pane was hidden."""
        super().showEvent(event)
        self._refresh()

    # -- the other run -----------------------------------------------------

    def _on_tabs_changed(self) -> None:
        """List the other tabs; let go of one that was closed, take the only one."""
        others = self._tabs.others(self.session)
        sessions = [session for _, session in others]
        if self._tab is not None and self._tab() not in sessions:
            self._drop_b()
        is_free = self._tab is None and self._read is None
        if is_free and len(sessions) == 1 and not self._is_reading:
            self._use_tab(sessions[0])
        self._list_runs(others)
        self._recompute()

    def _list_runs(self, others: list[tuple[str, Session]]) -> None:
        self._listed = [weakref.ref(session) for _, session in others]
        titles = [_short(title) for title, _ in others]
        chosen = self._tab
        with QSignalBlocker(self.run_box):
            self.run_box.clear()
            self.run_box.addItems(titles)
            if self._read is not None:
                self.run_box.addItem(_short(self._read.title))
            elif chosen is None:
                self.run_box.addItem(_CHOOSE)
            self.run_box.addItems([_FOLDER, _OPEN])
            place = len(titles)  # of what was read, or of no run
            if chosen is not None:
                place = self._listed.index(chosen)
            self.run_box.setCurrentIndex(place)
        with QSignalBlocker(self.own_box):
            self.own_box.clear()
            self.own_box.addItem(_OWN)
            if self._more_a is not None:
                self.own_box.addItem(_short(self._more_a.title))
            self.own_box.addItem(_FOLDER)
            self.own_box.setCurrentIndex(0 if self._more_a is None else 1)

    def _on_run_chosen(self, place: int) -> None:
        count = self.run_box.count()
        if place == count - 1:
            self._ask_file()
        elif place == count - 2:
            self._ask_folder()
        elif place < len(self._listed):
            session = self._listed[place]()
            if session is not None and self._tab != self._listed[place]:
                self._drop_b()
                self._use_tab(session)
        self._on_tabs_changed()

    def _on_own_chosen(self, place: int) -> None:
        """Add runs to A, or compare the run of this tab alone."""
        if place == 0:
            self._drop_more_a()
        elif place == self.own_box.count() - 1:
            request = self._tabs.ask_folder()
            if request is not None:
                self._read_more_a(replace(request, left_out=self.session.path))
        self._on_tabs_changed()

    def compare_with(self, other: Session) -> None:
        """Compare the run of this tab with that of another one, as if chosen."""
        for place, listed in enumerate(self._listed):
            if listed() is other:
                self._on_run_chosen(place)

    def compare_runs(self, more: RunsRequest | None, others: RunsRequest) -> None:
        """Compare the run of this tab, and `more` of A, with runs that no tab has."""
        self._drop_more_a()
        if more is not None:
            self._read_more_a(more)
        self._read_b(others)
        self._on_tabs_changed()

    def _ask_file(self) -> None:
        """Ask for a file, and read it on a worker unless a tab has it."""
        request = self._tabs.ask_file()
        if request is None:
            return
        self._drop_b()
        for _, session in self._tabs.others(self.session):
            if session.path == request.path:
                self._use_tab(session)
                return
        title = request.path.name
        then = partial(self._on_read, title)
        self._read_runs(_READ_KEY, request, title, then)

    def _ask_folder(self) -> None:
        """Ask for a folder of several runs, and read them on a worker."""
        request = self._tabs.ask_folder()
        if request is not None:
            self._read_b(request)

    def _read_b(self, request: RunsRequest) -> None:
        """Read the runs of B on a worker."""
        self._drop_b()
        then = partial(self._on_read, request.title)
        self._read_runs(_READ_KEY, request, request.title, then)

    def _read_more_a(self, request: RunsRequest) -> None:
        """Read further runs of A on a worker."""
        self._drop_more_a()
        then = partial(self._on_more, request.title)
        self._read_runs(_MORE_KEY, request, request.title, then)

    def _read_runs(
        self,
        key: str,
        request: "Request[Trace] | Request[tuple[Trace, ...]]",
        title: str,
        then: Callable[[Any], None],
    ) -> None:
        self.session.tasks.run(
            key,
            request,
            then,
            title=f"Reading {title}",
            unit="B",
            on_error=partial(self._on_read_failed, title),
            on_cancel=self._on_read_cancelled,
            even_if_held=True,
        )

    @property
    def _is_reading(self) -> bool:
        tasks = self.session.tasks
        return tasks.is_running(_READ_KEY) or tasks.is_running(_MORE_KEY)

    def _on_read(self, title: str, read: "Trace | tuple[Trace, ...]") -> None:
        traces = read if isinstance(read, tuple) else (read,)
        if len(traces) > 1:
            title = f"{title} ({format_count(len(traces))} runs)"
        self._read = _ReadRuns(title, traces)
        self._on_tabs_changed()

    def _on_more(self, title: str, traces: tuple[Trace, ...]) -> None:
        n = format_count(len(traces) + 1)
        self._more_a = _ReadRuns(f"{title} ({n} runs)", traces)
        self._on_tabs_changed()

    def _on_read_failed(self, title: str, failure: TaskFailure) -> None:
        self._on_tabs_changed()
        self._show_error(f"Cannot read {title}", failure.message)

    def _on_read_cancelled(self) -> None:
        if not self.is_released:
            self._on_tabs_changed()

    def _use_tab(self, session: Session) -> None:
        self._tab = weakref.ref(session)
        session.trace_changed.connect(self._recompute)

    def _drop_b(self) -> None:
        """Drop the runs of B and every reference to their traces."""
        self._stop()
        self.session.tasks.cancel(_READ_KEY)
        session = None if self._tab is None else self._tab()
        if session is not None:
            session.trace_changed.disconnect(self._recompute)
        if self._read is not None:
            for trace in self._read.traces:
                free_in_steps(trace)
        self._tab = self._read = self.result = None
        self._forget_shown()

    def _drop_more_a(self) -> None:
        """Drop the further runs of A."""
        self._stop()
        self.session.tasks.cancel(_MORE_KEY)
        if self._more_a is not None:
            for trace in self._more_a.traces:
                free_in_steps(trace)
        self._more_a = self.result = None
        self._forget_shown()

    def _forget_shown(self) -> None:
        """Drop the traces of a dropped side from the pages."""
        self._shown, self._row_key = None, ""
        self._update_pages()

    def _traces_b(self) -> tuple[Trace, ...]:
        """Return the traces of the other side; () where there is none so far."""
        if self._read is not None:
            return self._read.traces
        session = None if self._tab is None else self._tab()
        trace = None if session is None else session.trace
        return () if trace is None else (trace,)

    # -- comparing ---------------------------------------------------------

    def _stop(self) -> None:
        self._is_computing = False
        self.session.tasks.cancel(_KEY)

    def _recompute(self, _: object = None) -> None:
        """Compare again once the pane is visible."""
        self._needs_compare, self._error = True, None
        self._refresh()

    def _refresh(self) -> None:
        own, others = self.session.trace, self._traces_b()
        if own is not None and self.isVisible() and not self.by.count():
            self._offer_groupings((own,))
        message = self._missing_reason(own, others)
        if message is not None or own is None or not others:
            self._stop()
            self.result = None
            self._forget_shown()
            self._show_empty(*(message or ("", "")))
            return
        if not self._needs_compare or not self.isVisible():
            return
        self._needs_compare = False
        runs = (own, *(() if self._more_a is None else self._more_a.traces))
        self._offer_groupings((*runs, *others))
        by: By = self.by.currentData() or "op"
        request = partial(_compared, runs, others, by, self.tolerance.currentData())
        if self.result is None:
            self._show_empty("Comparing…", "")
        self.model.set_stale(True)
        self._is_computing = True
        self.session.tasks.run(
            _KEY,
            request,
            partial(self._show, runs + others),
            title=f"Comparing with {self.run_box.currentText()}",
            on_error=self._on_failed,
            on_cancel=self._on_cancelled,
        )

    def _missing_reason(
        self, own: Trace | None, others: tuple[Trace, ...]
    ) -> tuple[str, str] | None:
        """Return why nothing can be compared so far; None where it can."""
        if self._error is not None:
            return self._error
        if own is None:
            return "No trace is open.", ""
        if self._is_reading:
            return "Reading runs…", ""
        if not others and self._tab is None:
            hint = f"Open it in another tab, or choose {_OPEN}"
            return "No run to compare with", hint
        if not others:
            hint = "It is compared once it has been read."
            return "The other tab shows no trace", hint
        if own.is_unread or any(trace.is_unread for trace in others):
            return "Still reading…", ""
        if own.is_running or any(trace.is_running for trace in others):
            hint = "Runs are compared when the program has ended."
            return "Still recording…", hint
        return None

    def _show_error(self, title: str, hint: str) -> None:
        self._error = (title, hint)
        self._refresh()

    def _offer_groupings(self, traces: tuple[Trace, ...]) -> None:
        """Offer what spans of all runs can be grouped by."""
        offered = [
            by for by in GROUPINGS if all(has_groups(trace, by) for trace in traces)
        ]
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
        self._show_error("The comparison failed", failure.message)

    def _on_cancelled(self) -> None:
        if self._is_computing and not self.is_released:  # by the person
            self._is_computing = False
            hint = "Choose the run again to restart."
            self._show_error("The comparison was cancelled", hint)

    # -- showing -----------------------------------------------------------

    def _show_empty(self, title: str, hint: str) -> None:
        self.model.set_rows([])
        self._matching.clear()
        self._empty.say(title, hint)
        self._stack.setCurrentWidget(self._empty)

    def _show(self, traces: tuple[Trace, ...], comparison: Comparison) -> None:
        trace = self.session.trace
        self._is_computing = False
        if trace is None:
            return
        self.result, unit = comparison, trace.clock.unit
        lines = limits_text(comparison, unit, trace.clock.hz)
        limits = one_line(" ".join(lines))
        self.model.set_stale(False)
        if not comparison.is_comparable and not self._has_shares(comparison):
            self._forget_shown()
            self._show_empty(headline(comparison, unit), limits)
            return
        self._parts.setText(parts_text(comparison, unit))
        self._limits.setText(limits)
        self._show_parts()
        lines = only_text(comparison, with_rows=not comparison.is_comparable)
        only = one_line(" ".join(lines))
        self._only.setText(only)
        self._foot.setVisible(bool(only))
        path = self.session.path
        own = "this run" if path is None else path.name
        if self._more_a is not None:
            own = self._more_a.title
        self.table.what = f"A: {own}, B: {self.run_box.currentText()}"
        if comparison.is_comparable:
            self._show_changes(comparison)
            shown = Compared(comparison, traces, own, self.run_box.currentText())
            self._shown = shown
        else:
            self._show_shares(comparison)
            self._forget_shown()
        self.table.fit_columns()
        self._mark_group()
        self._stack.setCurrentWidget(self._body)
        self._update_pages()

    def _has_shares(self, comparison: Comparison) -> bool:
        """Return whether counts and shares of both sides can be compared."""
        return any(row.count_a and row.count_b for row in comparison.shares)

    def _show_changes(self, comparison: Comparison) -> None:
        trace = self.session.trace
        assert trace is not None
        unit = trace.clock.unit
        n_left_out = max(len(comparison.rows) - MAX_ROWS, 0)
        matching = matching_text(comparison)
        if n_left_out:
            n = format_count(len(comparison.rows))
            matching += f" The {MAX_ROWS} groups of largest change of {n} are listed."
        self._matching.setText(matching)
        rows = comparison.rows[:MAX_ROWS]
        has_spread = len(comparison.alignment.runs) > 2
        measure = MEASURES[comparison.measure]
        self.model.set_headings(
            change_headings(comparison.by, measure, has_spread=has_spread)
        )
        self.model.came_by = 3
        cells = partial(
            change_cells, unit=unit, has_spread=has_spread, bound=comparison.bound
        )
        self.model.set_rows(
            [cells(row) for row in rows],
            cells(comparison.whole, title="all"),
            payloads=rows,
            n_left_out=n_left_out,
        )

    def _show_shares(self, comparison: Comparison) -> None:
        """Show what needs no common clock."""
        self._matching.setText("Counts and shares of each side's own time.")
        rows = comparison.shares[:MAX_ROWS]
        self.model.set_headings(share_headings(comparison.by))
        self.model.came_by = -1
        self.model.set_rows(
            [share_cells(row) for row in rows],
            payloads=rows,
            n_left_out=max(len(comparison.shares) - MAX_ROWS, 0),
        )

    # -- pages -------------------------------------------------------------

    def page(self, name: str) -> QWidget:
        """Return a page, made when it is first asked for."""
        page = self._pages.get(name)
        if page is None:
            page = self._pages[name] = self._make_pages[name]()
            self._page_stack.addWidget(page)
            if isinstance(page, View):
                page.set_zoom(self._zoom)
            self._update_pages()
        return page

    def _make_timelines(self) -> QWidget:
        page = TimelinesPane(self.session, self.theme, self)
        page.index_of = self._index_of
        page.span_clicked.connect(self._on_span_clicked)
        return page

    def _make_unmatched(self) -> QWidget:
        model = TextTableModel(UNMATCHED_HEADINGS, self)
        table = TextTable(model, self, "compare-no-match")
        table.setAccessibleName("What has no match")
        table.set_theme(self.theme)
        return table

    def _on_page(self) -> None:
        page = self.page_box.currentData()
        self._page_stack.setCurrentWidget(self.page(page))
        no_effect: list[QWidget] = []
        if page != "changes":
            no_effect += [self.tolerance, self._copy_button]
        if page == "steps":
            no_effect.append(self.by)
        self.controls.leave_out(*no_effect)
        self._show_parts()

    def _show_parts(self) -> None:
        """Show the headline, its parts and its limits where the page leaves space.

        Where it does not, the headline names partial recordings itself.
        """
        result, trace = self.result, self.session.trace
        if result is None or trace is None:
            return
        is_table = self.page_box.currentData() in ("changes", "unmatched")
        has_space = is_table or self.height() > _LOW_PX
        partial = "" if has_space else partial_text(result)
        self._headline.setText(
            f"{headline(result, trace.clock.unit)} {partial}".strip()
        )
        set_tip(self._headline, self._limits.full_text)
        self._headline.setVisible(has_space or bool(partial))
        has_parts = bool(result.parts) and self.height() > _LOWER_PX
        self._parts.setVisible(has_parts and is_table)
        self._limits.setVisible(has_space and bool(self._limits.full_text))
        self._head.setVisible(has_space or bool(partial))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave more of a low pane to its picture."""
        super().resizeEvent(event)
        self._show_parts()

    def _update_pages(self) -> None:
        """Pass the comparison to the pages."""
        shown, pages = self._shown, self._pages
        if isinstance(timelines := pages.get("timelines"), TimelinesPane):
            timelines.set_compared(shown)
        if isinstance(steps := pages.get("steps"), StepsPane):
            steps.set_compared(shown)
        if isinstance(durations := pages.get("durations"), DurationsPane):
            durations.set_compared(shown, self._duration_key())
        if isinstance(table := pages.get("unmatched"), TextTable):
            comparison = self.result
            rows = [] if comparison is None else unmatched_rows(comparison)
            more = max(len(rows) - MAX_ROWS, 0)
            table.rows.set_rows(rows[:MAX_ROWS], n_left_out=more)
            table.fit_columns()

    def _duration_key(self) -> str:
        """Return the group whose durations are drawn: of the row, or the largest."""
        if self._shown is None or not self._shown.comparison.rows:
            return ""
        rows = self._shown.comparison.rows
        keys = {row.key for row in rows}
        return self._row_key if self._row_key in keys else rows[0].key

    def _on_span_clicked(self, side: int, span: int) -> None:
        """Select a span of B in its tab, and the group of a span on the other side."""
        session = None if self._tab is None else self._tab()
        if side == _B and session is not None:
            session.selection.select_span(span)
        other = session if side == _A else self.session
        self._find_group(side, span, None if other is None else weakref.ref(other))

    def _index_of(self, trace: Trace) -> TraceIndex:
        """Return the index of a trace of B: that of its tab, or a new one."""
        session = None if self._tab is None else self._tab()
        index = None if session is None else session.index
        return index if index and index.trace is trace else TraceIndex(trace)

    def figure(self) -> Figure | None:
        """Return the picture of the page as a figure."""
        shown = self._shown
        if shown is None:
            return None
        # Imported on demand: the first table does without.
        from ggscope.render.compare.figure import CompareOptions, Show, compare_figure

        shows: dict[str, Show] = {
            "timelines": "timelines", "steps": "waterfall", "durations": "durations"
        }  # fmt: skip
        options = CompareOptions(
            b=shown.runs_b, more_a=shown.runs_a[1:], by=shown.comparison.by,
            show=shows.get(self.page_box.currentData(), "changes"),
            tolerance=self.tolerance.currentData(), key=self._duration_key(),
        )  # fmt: skip
        for page in self._pages.values():
            if isinstance(page, StepsPane):
                by, tokens = page.by.currentData(), page.tokens.currentData()
                options = replace(options, steps=by, tokens=tokens)
            elif isinstance(page, DurationsPane):
                options = replace(options, log=page.axis_box.currentData())
            elif isinstance(page, TimelinesPane):
                options = replace(options, **page.figure_options())
        style = FigureStyle(theme=self.theme.name)
        return compare_figure(shown.runs_a[0], options, style)

    def _copy(self) -> None:
        if self.result is not None:
            self.table.copy_tsv()

    # -- rows --------------------------------------------------------------

    def group_at(self, row: int) -> SpanGroup | None:
        """Return the spans of a row in this tab; None of no group."""
        payload, result = self.model.payload(row), self.result
        if result is None or not isinstance(payload, CompareRow | ShareRow):
            return None
        return SpanGroup(result.by, payload.key)

    def _on_row(self, index: QModelIndex) -> None:
        """Highlight the spans of the current row."""
        group = self.group_at(index.row()) if index.isValid() else None
        if group is not None and not self._is_marking:
            self._row_key = group.key
            self._session_of(index.row()).selection.select_group(group)
            self._update_duration_key()
            if isinstance(page := self._pages.get("timelines"), TimelinesPane):
                page.highlight(group)

    def _session_of(self, row: int) -> Session:
        """Return the tab that has the spans of a row: that of B where A has none."""
        payload = self.model.payload(row)
        is_of_b = isinstance(payload, CompareRow) and payload.only_in == "b"
        other = self._tab() if is_of_b and self._tab is not None else None
        return other or self.session

    def _update_duration_key(self) -> None:
        durations = self._pages.get("durations")
        if isinstance(durations, DurationsPane):
            durations.set_compared(self._shown, self._duration_key())

    def _on_opened(self, row: int) -> None:
        """Go to the longest span of a row."""
        group = self.group_at(row)
        if group is not None:
            session = self._session_of(row)
            session.selection.select_group(group)
            session.linking.show_longest()

    def _find_group(
        self, side: int, span: int, other: "weakref.ref[Session] | None" = None
    ) -> None:
        """Mark the row of a span's group, on a worker.

        Parameters
        ----------
        other : where the group is selected then.
        """
        shown = self._shown
        if shown is None:
            return
        trace = (shown.runs_a if side == _A else shown.runs_b)[0]
        by = shown.comparison.by
        self.session.tasks.run(
            _GROUP_KEY,
            partial(_group_of, trace, by, span),
            partial(self._on_group, by, other),
            title="Finding the group of a span",
        )

    def _on_group(
        self, by: By, other: "weakref.ref[Session] | None", key: str | None
    ) -> None:
        shown, session = self._shown, None if other is None else other()
        if self.is_released or shown is None or shown.comparison.by != by:
            return
        group = None if key is None else SpanGroup(by, key)
        self._show_group(group)
        is_on_both = any(row.key == key for row in shown.comparison.matched)
        if group is not None and session is not None and is_on_both:
            session.selection.select_group(group)

    def _mark_group(self, _: object = None) -> None:
        """Mark the row of the selected group, or of the group of the selected span."""
        selection = self.session.selection.current
        self.session.tasks.cancel(_GROUP_KEY)
        self._show_group(selection.group)
        if selection.table == "spans" and len(selection.ids) == 1 and self.isVisible():
            self._find_group(_A, selection.ids[0])

    def _show_group(self, group: SpanGroup | None) -> None:
        """Select the row of a group, wherever it is now, and highlight its spans."""
        timelines, table = self._pages.get("timelines"), self.table
        if isinstance(timelines, TimelinesPane):
            timelines.highlight(group)
        groups = [self.group_at(row) for row in range(self.model.rowCount())]
        row = -1 if group is None or group not in groups else groups.index(group)
        self._is_marking = True
        if row < 0 and table.selected_rows():
            table.clearSelection()
        elif row >= 0 and row not in table.selected_rows():
            table.selectRow(row)
        self._is_marking = False


def _group_of(trace: Trace, by: By, span: int, watcher: Watcher) -> str | None:
    watcher.progress(0, 1)
    return group_of_span(trace, by, span)


def _short(title: str) -> str:
    """Return a title that a choice has room for."""
    title = one_line(title)
    if len(title) <= _MAX_TITLE:
        return title
    half = _MAX_TITLE // 2
    return f"{title[:half]}…{title[1 - half :]}"
