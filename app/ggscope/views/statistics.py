"""Selection statistics: what lies inside the marked range, in figures."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import (
    QItemSelectionModel,
    QModelIndex,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QPalette, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QGridLayout,
    QHBoxLayout,
    QMenu,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.filters.text import format_filter
from ggscope.analysis.reads.account import counts_once
from ggscope.analysis.rows.index import TraceIndex, mask_of_lanes
from ggscope.analysis.statistics.members import filter_of_group
from ggscope.analysis.statistics.scan import SpanBlocks
from ggscope.analysis.statistics.table import RULES, StatRow, StatTable, stat_table
from ggscope.analysis.workers import Watcher
from ggscope.model.selection import By, Filter, SpanGroup
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    TimeRange,
    Unit,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_exact_bytes,
    format_share,
)
from ggscope.render.colors import category_color
from ggscope.render.export import Figure
from ggscope.render.look import Look, css_px
from ggscope.render.statistics import MEASURES, statistics_figure
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.session.tasks import TaskFailure, TaskState
from ggscope.text import one_line
from ggscope.views.base.plain import ElidedLabel, Label, add_action, add_menu, set_tip
from ggscope.views.base.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.base.view import View, guarded
from ggscope.views.base.widgets import (
    EmptyState,
    RangeSwitch,
    combo_box,
    lay_out,
    qcolor,
    scaled,
    set_label_color,
    tool_button,
    tool_button_style,
    tr,
    words_font,
)
from ggscope.words.groupings import GROUPINGS
from ggscope.words.spans import PENDING
from ggscope.words.times import time_notes

_MOST_NESTED = 1 << 20
"""Of more spans self and wall time would keep people waiting while they pan."""

Mask = npt.NDArray[np.bool_]
_ABOUT_PX = 240
"""What the figures are about goes to a line of its own if it gets less room."""
MAX_ROWS = 500
"""More groups than a person reads; the largest ones are shown, and it is said."""
_KEY = "statistics"
_LEAST_FIGURE_PX = 480.0
_QUIET_MS = 80
"""Rest before counting anew while the range is being dragged."""
_STALE_MS = 150
"""Figures are greyed if newer ones take longer than this."""
_WITH_OPS: tuple[By, ...] = (
    "op", "family", "layer", "token", "thread", "phase", "tensor",
)  # fmt: skip
_ENGINES: tuple[By, ...] = ("engine", "lane")
_LANES: tuple[By, ...] = ("lane",)
_CORES: tuple[By, ...] = ("core", "numa")


@dataclass(frozen=True, slots=True)
class Scope:
    """What the figures are about.

    Attributes
    ----------
    kind : where it comes from.
    time : range that spans must touch; None = the whole trace.
    lanes : timeline lane keys, None = all.
    ids : the selected spans, for kind "selected".
    """

    kind: Literal["marked", "selected", "visible", "all"]
    time: TimeRange | None = None
    lanes: frozenset[str] | None = None
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class StatisticsResult:
    """Figures and what they are about.

    Attributes
    ----------
    knows_bytes : whether the accesses had been read.
    notes : what the times hold besides.
    where : the filter that the spans pass.
    """

    scope: Scope
    by: By
    table: StatTable
    unit: Unit
    knows_bytes: bool = True
    notes: tuple[str, ...] = ()
    where: Filter = Filter()  # noqa: RUF009 - frozen

    @property
    def rows(self) -> tuple[StatRow, ...]:
        """The rows of the largest groups."""
        return self.table.rows

    @property
    def n_spans(self) -> int:
        """Number of spans counted, those of all groups."""
        return self.table.all.count

    @property
    def n_left_out(self) -> int:
        """Number of spans whose times were not used."""
        return self.table.all.count - self.table.all.timed


def figures_of(
    index: TraceIndex,
    scope: Scope,
    by: By,
    mask: Mask | None,
    with_estimated: bool,
    blocks: SpanBlocks | None,
    where: Filter,
    context: Watcher,
) -> StatisticsResult:
    """Return the figures of a scope. Raises Cancelled from the context.

    Parameters
    ----------
    mask : bool[n_spans] of the spans that pass the filter, None = all.
    blocks : of the trace; make short ranges quick where they are kept.
    where : the filter that `mask` is of.
    """
    trace, ids = index.trace, None
    if mask is not None and len(mask) < len(trace.spans):
        mask = np.append(mask, np.zeros(len(trace.spans) - len(mask), bool))
    if scope.kind == "selected":
        ids = np.array(scope.ids, np.int64)
    elif scope.lanes is not None and scope.time is not None:
        on_lanes = mask_of_lanes(index, scope.lanes, scope.time)
        mask = on_lanes if mask is None else on_lanes & mask
    table = stat_table(
        trace, by, mask=mask, ids=ids, time=scope.time, blocks=blocks,
        include_estimated=with_estimated, limit=MAX_ROWS, most_nested=_MOST_NESTED,
        watcher=context,
    )  # fmt: skip
    knows_bytes = "accesses" not in trace.pending
    notes = () if trace.is_partial else time_notes(trace)
    unit = trace.clock.unit
    return StatisticsResult(scope, by, table, unit, knows_bytes, notes, where)


@guarded
class StatisticsHead(QWidget):
    """Says what the figures are about; offers grouping, uncertain times and copying.

    Attributes
    ----------
    about : what the figures are about.
    switch : this range, or all.
    by : the grouping.
    estimated : whether times that are not measured or derived count.
    n_lines : in how many lines it lies, 1 to 3.
    """

    by_changed = Signal()
    estimated_toggled = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.about = ElidedLabel(self)
        self.estimated = QCheckBox(self)
        self.estimated.toggled.connect(self.estimated_toggled)
        self._tail = QWidget(self)
        self.switch = RangeSwitch(session, self)
        self._by_label = Label(self.tr("by"), self._tail)
        self.by = combo_box(self._tail, self.tr("Group by"))
        self.by.currentIndexChanged.connect(self.by_changed)
        self._by_label.setBuddy(self.by)
        self.menu = QMenu(self._tail)
        tip = self.tr("Copy the table")
        self._copy = tool_button(self._tail, self.tr("Copy"), tip, menu=self.menu)
        for widget in (self.about, self.estimated, self._by_label):
            widget.setFont(words_font(12))
        parts = (None, self._by_label, self.by, self._copy)
        lay_out(QHBoxLayout(self._tail), *parts, spacing=8)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(12, 4, 8, 4)
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(0, 1)
        self.n_lines = 0
        self._arrange()
        self.say_left_out(None)

    def say_left_out(self, result: StatisticsResult | None) -> None:
        """Name the kinds of times that are left out, and how many there are."""
        estimated = 0 if result is None else result.table.all.estimated
        unfinished = 0 if result is None else result.table.all.unfinished
        if estimated and unfinished:
            text = self.tr("include estimated and unfinished")
        elif unfinished:
            text = self.tr("include unfinished")
        else:
            text = self.tr("include estimated")
        if result is not None and result.n_left_out:
            n = format_count(result.n_left_out)
            text += " " + self.tr("({0} left out)").format(n)
        tips = [
            self.tr("Estimated times share out a measured whole; rank with care."),
            self.tr("Unfinished spans have no end in the file."),
        ]
        if result is not None:
            counts = self.tr("Here: {0} estimated, {1} unfinished.")
            tips.append(
                counts.format(format_count(estimated), format_count(unfinished))
            )
        self.estimated.setText(text)
        set_tip(self.estimated, "\n".join(tips))
        self._arrange()

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.switch.set_theme(theme)
        for widget in (self.about, self._by_label):
            set_label_color(widget, theme.dim)
        # Not by style sheet: that would take the box's own drawing away.
        palette = self.estimated.palette()
        palette.setColor(QPalette.ColorRole.WindowText, qcolor(theme.dim))
        self.estimated.setPalette(palette)
        self._copy.setStyleSheet(tool_button_style(theme, theme.dim))

    def minimumSizeHint(self) -> QSize:
        """Be as narrow as three lines can be, whatever the lines now."""
        margins = self._grid.contentsMargins()
        widest = max(
            self.estimated.sizeHint().width(), self._tail.minimumSizeHint().width()
        )
        width = widest + margins.left() + margins.right()
        return QSize(width, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Take as many lines as the width asks for."""
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        margins, gap = self._grid.contentsMargins(), self._grid.horizontalSpacing()
        room = self.width() - margins.left() - margins.right()
        controls = (
            self.estimated.sizeHint().width() + gap + self._tail.sizeHint().width()
        )
        switch = self.switch.sizeHint().width()
        n_lines = 1
        if room < controls + gap + switch + gap + scaled(_ABOUT_PX):
            n_lines = 2 if room >= controls else 3
        if n_lines == self.n_lines:
            return
        self.n_lines = n_lines
        for widget in (self.about, self.switch, self.estimated, self._tail):
            self._grid.removeWidget(widget)
        self._grid.addWidget(self.about, 0, 0, 1, 1 if n_lines == 1 else 3)
        right = Qt.AlignmentFlag.AlignRight
        self._grid.addWidget(self.switch, 0, 1 if n_lines == 1 else 3, right)
        if n_lines == 3:
            self._grid.addWidget(self.estimated, 1, 0, 1, 4)
            self._grid.addWidget(self._tail, 2, 0, 1, 4)
        else:
            self._grid.addWidget(self.estimated, n_lines - 1, 2)
            self._grid.addWidget(self._tail, n_lines - 1, 3)
        self.updateGeometry()


class StatisticsView(View):
    """One table of figures, always on; it follows marking, panning and filters."""

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self._result: StatisticsResult | None = None
        self._blocks: SpanBlocks | None = None
        self._twice = (False, False)
        self._shares_ops = False
        self._has_range = False
        self._counted: Scope | None = None
        self._is_marking = False
        self._timer = QTimer(self, singleShot=True, interval=_QUIET_MS)
        self._timer.timeout.connect(self.recount)
        self._stale_timer = QTimer(self, singleShot=True, interval=_STALE_MS)
        self._stale_timer.timeout.connect(self._on_stale)
        self.setAccessibleName(self.tr("Selection statistics"))
        self.model = TextTableModel(self._headings("op", "ns"), self)
        self.table = TextTable(self.model, self, "statistics", keeps_first=True)
        self.table.setAccessibleName(self.tr("Figures of the selection"))
        self._empty = EmptyState(self)
        self._head = StatisticsHead(session, self)
        self.about, self.by = self._head.about, self._head.by
        self.estimated = self._head.estimated
        self.table.fill_menu(self._head.menu)
        self.table.clicked.connect(self._on_row)
        self.table.selectionModel().currentRowChanged.connect(self._on_row)
        self.table.row_opened.connect(self._on_opened)
        self.table.menu_requested.connect(self._on_menu)
        self.model.layoutChanged.connect(self._mark_group)
        self._head.by_changed.connect(self.recount)
        self._head.estimated_toggled.connect(self.recount)
        self._lay_out()
        self.set_theme(theme)
        self.hear(
            (session.trace_changed, self._on_trace_changed),
            (session.visible_range_changed, self._on_scope_changed),
            (session.marked_range_changed, self._on_scope_changed),
            (session.only_range_changed, self._on_scope_changed),
            (session.list_kept_changed, self._on_scope_changed),
            (session.selection_changed, self._on_selection_changed),
            (session.mask_changed, self._on_changed),
        )
        self.hear((session.tasks.task_changed, self._on_task_changed), is_calm=False)
        self._on_trace_changed(None)

    def _lay_out(self) -> None:
        body = QWidget(self)
        self._stack = QStackedLayout(body)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self.table)
        lay_out(QVBoxLayout(self), self._head, body, wide=body)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.table.set_theme(theme)
        self._empty.set_theme(theme)
        self._head.set_theme(theme)
        if self._result is not None:
            self._show(self._result)

    def figure(self) -> Figure | None:
        """Return what is counted as bars, by the column that the table is sorted by."""
        session, scope, result = self.session, self.scope(), self._result
        trace = session.trace
        if scope is None or trace is None or result is None or session.index is None:
            return None
        mask = session.mask
        if mask is not None and len(mask) < len(trace.spans):
            mask = np.append(mask, np.zeros(len(trace.spans) - len(mask), bool))
        if scope.lanes is not None and scope.time is not None:
            on_lanes = mask_of_lanes(session.index, scope.lanes, scope.time)
            mask = on_lanes if mask is None else on_lanes & mask
        ids = scope.ids if scope.kind == "selected" else None
        made = statistics_figure(
            trace, by=result.by, measure=self._measure(), visible=scope.time, ids=ids,
            include_estimated=self.estimated.isChecked(), mask=mask,
            where=format_filter(session.filter),
        )  # fmt: skip
        recipe = made.recipe
        if recipe is not None and scope.lanes is not None:
            lacks = (*recipe.lacks, self.tr("The command counts all lanes."))
            recipe = replace(recipe, lacks=lacks)
        look = Look(
            width=css_px(max(self.width(), scaled(_LEAST_FIGURE_PX))),
            theme=self.theme.name,
            seen=True,
        )
        return replace(made, look=look, recipe=recipe)

    def _measure(self) -> str:
        """Return what the table is sorted by, where that can be a bar."""
        column, _ = self.model.sorted_by
        title = "" if column < 0 else self._headings("op", "ns")[column].title
        return title if title in MEASURES else "total"

    # -- session -----------------------------------------------------------

    def release(self) -> None:
        """Stop counting as well."""
        super().release()
        self._timer.stop()
        self._stale_timer.stop()
        self.session.tasks.cancel(_KEY)

    def _on_trace_changed(self, _: object) -> None:
        trace = self.session.trace
        self._blocks = None if trace is None else SpanBlocks(trace)
        self._twice = (False, False)
        self._shares_ops = False
        # Figures of an older snapshot are of no use any more.
        self.session.tasks.cancel(_KEY)
        self._counted = None
        if trace is None or trace.is_partial:
            self._timer.stop()
            self._end_waiting()
            self._result = None
            self._say_empty()
            return
        if self._result is None:
            self._empty.say(self.tr("counting …"))
        self._offer_groupings(trace)
        self._on_changed(None)

    def _on_changed(self, _: object) -> None:
        # A pane behind another tab counts when it comes to the front.
        if self.isVisible():
            self._timer.start()

    def _on_scope_changed(self, _: object) -> None:
        """Count anew, unless it is about the same spans as before."""
        if self.scope() != self._counted:
            self._on_changed(None)
        elif self._result is not None and not self.model.is_stale:
            self._end_waiting()  # the range may be called something else now

    def _on_selection_changed(self, _: object) -> None:
        self._on_scope_changed(None)
        self._mark_group()

    def showEvent(self, event: QShowEvent) -> None:
        """Count what was not counted while the pane was hidden."""
        super().showEvent(event)
        self._timer.start()

    def _offer_groupings(self, trace: Trace) -> None:
        has_engines = bool(trace.lanes.of_kind(LaneKind.ENGINE).any())
        has_ops = bool((trace.spans.op[:100_000] >= 0).any()) or trace.ops is not None
        offered = _WITH_OPS if has_ops else _ENGINES if has_engines else _LANES
        if trace.spans.core is not None:
            offered += _CORES
        current = [self.by.itemData(i) for i in range(self.by.count())]
        if current == list(offered):
            return
        self.by.blockSignals(True)
        self.by.clear()
        for key in offered:
            self.by.addItem(GROUPINGS[key], key)
        self.by.blockSignals(False)

    # -- counting ----------------------------------------------------------

    def scope(self) -> Scope | None:
        """Return what the figures should be about now; None without a trace."""
        session = self.session
        if session.trace is None:
            return None
        shown, selection = session.range_shown, session.selection
        if selection.group is not None and selection.group.ids:
            return Scope("selected", ids=selection.group.ids)
        if shown is not None and shown is session.marked_range:
            return Scope("marked", shown.time, shown.lanes)
        if selection.table == "spans" and len(selection.ids) > 1:
            return Scope("selected", ids=selection.ids)
        return Scope("all") if shown is None else Scope("visible", shown.time)

    def recount(self) -> None:
        """Compute the figures anew, on a worker; the old ones stay until then."""
        session, scope = self.session, self.scope()
        if scope is None or session.index is None:
            return
        if session.trace is not None and session.trace.is_partial:
            return  # reading goes first; the trace with all spans announces itself
        by: By = self.by.currentData() or "op"
        request = partial(
            figures_of, session.index, scope, by, session.mask,
            self.estimated.isChecked(), self._blocks, session.filter,
        )  # fmt: skip
        self._counted = scope
        if not self._stale_timer.isActive() and not self.model.is_stale:
            self._stale_timer.start()
        session.tasks.run(
            _KEY,
            request,
            self._show,
            on_error=self._on_failed,
            on_cancel=self._end_waiting,
        )

    def _on_failed(self, failure: TaskFailure) -> None:
        self._counted = None
        self._end_waiting()
        self.session.problem_reported.emit(failure.message)

    def _on_stale(self) -> None:
        self.model.set_stale(True)
        self.about.setText(self.tr("counting …"))

    def _on_task_changed(self, state: TaskState) -> None:
        if state.key == _KEY and state.total and self.model.is_stale:
            share = format_share(state.done / state.total)
            self.about.setText(self.tr("counting … {0}").format(share))

    def _end_waiting(self) -> None:
        if self.is_released:  # it stopped what it waited for, and has gone since
            return
        self._stale_timer.stop()
        self.model.set_stale(False)
        if self._result is not None:
            about, notes = self.about_text(self._result), self._result.notes
            self.about.tip = "\n".join((about, *notes)) if notes else ""
            self.about.setText(f"{about} ⓘ" if notes else about)

    # -- showing -----------------------------------------------------------

    def _show(self, result: StatisticsResult) -> None:
        self._result = result
        self._end_waiting()
        self._head.say_left_out(result)
        if not result.rows:
            self._say_empty()
            return
        # A column that is there stays, so that it does not come and go with a range.
        nests, lies_beside = result.table.counts_twice
        self._twice = (self._twice[0] or nests, self._twice[1] or lies_beside)
        self._shares_ops |= result.table.all.ops != result.table.all.count
        self._has_range = result.scope.time is not None
        self.model.set_headings(self._headings(result.by, result.unit))
        rows = [self._cells(row, result) for row in result.rows]
        rows += [
            self._unrecorded(op, count, len(rows[0]))
            for op, count in result.table.unrecorded.items()
        ]
        groups = [*result.rows, *[None] * (len(rows) - len(result.rows))]
        self.table.what = self.about_text(result)
        n_left_out = result.table.n_groups - len(result.rows)
        totals = self._totals(result)
        self.model.set_rows(rows, totals, payloads=groups, n_left_out=n_left_out)
        self.table.fit_columns()
        self._mark_group()
        self._stack.setCurrentWidget(self.table)

    # -- the rows ----------------------------------------------------------

    def group_at(self, row: int) -> SpanGroup | None:
        """Return the spans of a row; None where it is no group of spans."""
        found, result = self.model.payload(row), self._result
        if result is None or not isinstance(found, StatRow):
            return None
        scope = result.scope
        return SpanGroup(
            result.by, found.key, result.where, scope.time, scope.lanes, scope.ids
        )

    def _on_row(self, index: QModelIndex) -> None:
        """Light the spans of the row that was gone to."""
        group = self.group_at(index.row()) if index.isValid() else None
        if group is not None and not self._is_marking:
            self.session.select_group(group)

    def _on_opened(self, row: int) -> None:
        """Go to the longest span of a row."""
        group = self.group_at(row)
        if group is not None:
            self.session.select_group(group)
            self.session.show_longest()

    def _mark_group(self) -> None:
        """Select the row of the selected group, wherever it is now."""
        group, table = self.session.selection.group, self.table
        row = -1
        if group is not None and self._result is not None:
            same = group.by == self._result.by
            keys = self._keys() if same else []
            row = keys.index(group.key) if group.key in keys else -1
        self._is_marking = True
        if row < 0 and table.selected_rows() and group is None:
            table.clearSelection()
        elif row >= 0 and row not in table.selected_rows():
            table.selectRow(row)
        elif row >= 0 and table.currentIndex().row() != row:
            flags = QItemSelectionModel.SelectionFlag.NoUpdate
            table.selectionModel().setCurrentIndex(self.model.index(row, 0), flags)
        self._is_marking = False

    def _keys(self) -> list[str]:
        """Return the key of each row's group, "" for what is none."""
        payloads = map(self.model.payload, range(self.model.rowCount()))
        return [p.key if isinstance(p, StatRow) else "" for p in payloads]

    def _on_menu(self, menu: QMenu, row: int) -> None:
        """Offer what can be done with the spans of a row."""
        group = self.group_at(row)
        if group is None:
            return
        session, key = self.session, one_line(group.key)
        add = partial(add_action, menu)
        add(self.tr("Go to the longest"), partial(self._on_opened, row))
        add(self.tr("Next span"), partial(session.step_span, 1)).setShortcut(".")
        add(self.tr("Previous span"), partial(session.step_span, -1)).setShortcut(",")
        wanted = filter_of_group(group.by, group.key)
        if wanted is None:
            return
        menu.addSeparator()
        both = session.filter.merged(wanted)
        add(self.tr("Show only {0}").format(key), partial(session.set_filter, wanted))
        if session.filter:
            words = self.tr("Add {0} to the filter").format(key)
            add(words, partial(session.set_filter, both))
        add(self.tr("List in the table"), partial(self._list_in_table, both))
        inner = add_menu(menu, self.tr("Statistics of {0} by").format(key))
        for i in range(self.by.count()):
            if self.by.itemData(i) != group.by:
                run = partial(self._drill_down, both, i)
                add_action(inner, self.by.itemText(i), run)

    def _list_in_table(self, wanted: Filter) -> None:
        self.session.set_filter(wanted)
        self.session.view_requested.emit("table")

    def _drill_down(self, wanted: Filter, place: int) -> None:
        """Count the spans of one group, grouped by something else."""
        self.session.set_filter(wanted)
        self.by.setCurrentIndex(place)

    def about_text(self, result: StatisticsResult) -> str:
        """Return what the figures are about: "marked range 448.6 µs · 2 lanes …"."""
        scope, parts = result.scope, []
        if scope.kind == "selected":
            n_ids = format_count(len(scope.ids))
            parts.append(self.tr("{0} selected spans").format(n_ids))
        elif scope.time is None:
            parts.append(self.tr("whole trace"))
        else:
            length = format_duration(scope.time.duration, result.unit)
            words = self.tr("visible range {0}")
            if scope.kind == "marked":
                words = self.tr("marked range {0}")
            elif self.session.keeps_list:
                words = self.tr("range before the zoom {0}")
            parts.append(words.format(length))
        if scope.lanes is not None:
            n = len(scope.lanes)
            parts.append(
                self.tr("1 lane") if n == 1 else self.tr("{0} lanes").format(n)
            )
        n_ops = result.table.all.ops
        if result.by in _WITH_OPS and n_ops != result.n_spans:
            spans = f"{format_count(result.n_spans)} spans of threads"
            parts.append(f"{format_count(n_ops)} op{'s' * (n_ops != 1)} in {spans}")
        else:
            what = self.tr("ops") if result.by in _WITH_OPS else self.tr("spans")
            if result.n_spans == 1:
                what = self.tr("op") if result.by in _WITH_OPS else self.tr("span")
            parts.append(f"{format_count(result.n_spans)} {what}")
        total = result.table.all
        if total.in_range is not None and total.in_range != total.total:
            parts.append(self.tr("cut spans count whole"))
        n_groups = result.table.n_groups
        if n_groups > len(result.rows):
            largest = self.tr("the {0} largest of {1} groups")
            n_rows = format_count(len(result.rows))
            parts.append(largest.format(n_rows, format_count(n_groups)))
        if self.session.filter:
            parts.append(self.tr("filtered"))
        return " · ".join(parts)

    def _say_empty(self) -> None:
        trace = self.session.trace
        if trace is None:
            self._empty.say(self.tr("No trace is open."))
            self.about.clear()
        elif trace.is_partial:
            words = self.tr("{0} spans so far; figures follow when all are there.")
            hint = words.format(format_count(len(trace.spans)))
            self._empty.say(self.tr("Still reading …"), hint)
            self.about.clear()
        else:
            words = self.tr("No span lies in this range.")
            hint = self.tr("Drag across the timeline to mark a range.")
            scope = None if self._result is None else self._result.scope
            if scope is not None and (scope.lanes is not None or scope.ids):
                words = self.tr("No span that is asked for lies in this range.")
            elif self.session.filter:
                words = self.tr("No record in this range matches the filter.")
                hint = self.tr("Remove a filter chip to see more.")
            self._empty.say(words, hint)
        self._stack.setCurrentWidget(self._empty)

    def _headings(self, by: By, unit: Unit) -> tuple[Heading, ...]:
        tr = self.tr
        group = RULES.get(by, tr("Group"))
        suffix = "ns" if unit == "ns" else "cycles"

        def times(title: str, tip: str) -> Heading:
            return Heading(title, tip, 84, right=True, copied=f"{title} ({suffix})")

        return (
            Heading(GROUPINGS[by], group, 160, stretch=True),
            Heading(tr("count"), tr("Number of spans"), 80, right=True),
            *self._ops_headings(),
            times(
                tr("sum"),
                tr(
                    "Sum of the durations, each of a whole span; where spans nest or "
                    "several lanes work at once, some time is counted several times"
                ),
            ),
            Heading(tr("share"), tr("Part of the sum of all rows"), 66, right=True),
            *self._in_range_headings(times),
            *self._twice_headings(times),
            *self._wait_headings(times),
            times(tr("mean"), tr("Mean duration")),
            times(tr("min"), tr("Shortest")),
            times(tr("max"), tr("Longest")),
            times("p50", tr("Half take no longer than this")),
            times("p90", tr("90 % take no longer than this")),
            times("p99", tr("99 % take no longer than this")),
            Heading(
                tr("bytes"),
                self._bytes_tip(),
                84,
                right=True,
            ),
            Heading(
                tr("quality"), tr("The least certain of its times"), 90, True, True
            ),
        )

    def _bytes_tip(self) -> str:
        trace = self.session.trace
        if trace is not None and not counts_once(trace):
            return self.tr(
                "Known bytes of all accesses of these spans, of threads not compared "
                "each one's; + where there may be more"
            )
        return self.tr(
            "Known bytes of all accesses of these spans, each op's once; + where there "
            "may be more"
        )

    def _ops_headings(self) -> list[Heading]:
        """Return the column of ops, of a trace in which threads share them."""
        tip = "Ops, each counted once however many threads compute it"
        return [Heading("ops", tip, 70, right=True)] if self._shares_ops else []

    def _ops_cells(self, row: StatRow) -> list[Cell]:
        cell = Cell(format_count(row.ops), row.ops, row.ops)
        return [cell] if self._shares_ops else []

    def _in_range_headings(self, times: Callable[[str, str], Heading]) -> list[Heading]:
        """Return the column of what lies in the range, where there is one."""
        tip = self.tr("How much of the sum lies inside the range that is counted")
        return [times(self.tr("in range"), tip)] if self._has_range else []

    def _in_range_cells(self, row: StatRow, unit: Unit) -> list[Cell]:
        return [_ticks(row.in_range, unit)] if self._has_range else []

    def _twice_headings(self, times: Callable[[str, str], Heading]) -> list[Heading]:
        """Return columns of times that count nothing twice, where there is need."""
        tr, (nests, lies_beside) = self.tr, self._twice
        own = times(tr("self"), tr("The sum without what lies within other spans"))
        words = tr("What passed on the clock while any of the spans was open")
        if self._has_range:
            words += tr("; of whole spans, so it may be longer than the range")
        wall = times(tr("wall"), words)
        return [*([own] if nests else []), *([wall] if lies_beside else [])]

    def _twice_cells(self, row: StatRow, unit: Unit) -> list[Cell]:
        nests, lies_beside = self._twice
        return [
            *([_ticks(row.self_time, unit)] if nests else []),
            *([_ticks(row.wall, unit)] if lies_beside else []),
        ]

    def _has_waits(self) -> bool:
        trace = self.session.trace
        return trace is not None and trace.spans.wait is not None

    def _wait_headings(self, times: Callable[[str, str], Heading]) -> list[Heading]:
        """Return the columns of waits, of a trace that records some."""
        tr = self.tr
        if not self._has_waits():
            return []
        share = tr("Waits as a part of spans and waits together")
        return [
            times(
                tr("wait"), tr("What threads waited at the barrier behind the spans")
            ),
            times(tr("mean wait"), tr("Mean of the waits that are recorded")),
            Heading(tr("waiting"), share, 72, right=True),
        ]

    def _wait_cells(self, row: StatRow, unit: Unit) -> list[Cell]:
        if not self._has_waits():
            return []
        cells = [_ticks(row.wait, unit), _ticks(row.mean_wait, unit)]
        if row.longest_waits:
            tip = self.tr("{0} waits were longer than can be recorded").format(
                format_count(row.longest_waits)
            )
            cells = [replace(c, text=f"≥ {c.text}", tip=tip) for c in cells]
        if row.waiting is None:
            return [*cells, Cell(NOT_AVAILABLE, raw="")]
        share = row.waiting
        return [*cells, Cell(format_share(share), share, round(share, 6))]

    def _cells(self, row: StatRow, result: StatisticsResult) -> tuple[Cell, ...]:
        unit, color = result.unit, 0
        if result.by in ("op", "family"):
            kind = f"op:{row.key}" if result.by == "op" else row.key
            color = category_color(kind, self.theme)
        number = float(row.key) if row.key.isdecimal() else row.key
        is_certain = row.quality == "measured"
        timed = self.tr("{0} with a time of their own").format(format_count(row.timed))
        if row.ops != row.count:
            ops = self.tr("{0} ops, for threads share them").format(
                format_count(row.ops)
            )
            timed = f"{timed}; {ops}"
        return (
            Cell(row.key, number, color=color),
            Cell(format_count(row.count), row.count, row.count, timed),
            *self._ops_cells(row),
            _ticks(row.total if row.timed else None, unit),
            _share(row),
            *self._in_range_cells(row, unit),
            *self._twice_cells(row, unit),
            *self._wait_cells(row, unit),
            _ticks(row.mean, unit),
            _ticks(row.min, unit),
            _ticks(row.max, unit),
            _ticks(row.p50, unit),
            _ticks(row.p90, unit),
            _ticks(row.p99, unit),
            _bytes(row, result.knows_bytes),
            Cell(self.tr(row.quality), row.quality, caution=not is_certain),
        )

    def _unrecorded(self, op: str, count: int, n_cells: int) -> tuple[Cell, ...]:
        """Return the row of ops that graphs compute and no record tells of."""
        tip = self.tr("In each pass, as the graph tells; no record tells of them.")
        return (
            Cell(op),
            Cell(format_count(count), count, count, tip),
            *[Cell(NOT_AVAILABLE, raw="")] * (n_cells - 3),
            Cell(self.tr("not recorded"), caution=True, tip=tip),
        )

    def _totals(self, result: StatisticsResult) -> tuple[Cell, ...]:
        total, unit = result.table.all, result.unit
        none = Cell("–", raw="")
        return (
            Cell(self.tr("all")),
            Cell(format_count(result.n_spans), raw=result.n_spans),
            *self._ops_cells(total),
            _ticks(total.total if total.timed else None, unit),
            Cell(format_share(1.0) if total.total else NOT_AVAILABLE, raw=""),
            *self._in_range_cells(total, unit),
            *self._twice_cells(total, unit),
            *self._wait_cells(total, unit),
            _ticks(total.mean, unit),
            _ticks(total.min, unit),
            _ticks(total.max, unit),
            none,
            none,
            none,
            _bytes(total, result.knows_bytes),
            none,
        )


def _ticks(value: float | None, unit: Unit) -> Cell:
    """Return a cell of a duration; what is not known reads "N/A"."""
    if value is None or math.isnan(value):
        return Cell(NOT_AVAILABLE, None, "")
    whole = float(value).is_integer()
    tip = format_exact(round(value), unit)
    raw = int(value) if whole else round(value, 1)
    return Cell(format_duration(value, unit), float(value), raw, tip)


def _share(row: StatRow) -> Cell:
    """Return the part of the sum of all rows; not known where no time is."""
    if not row.timed:
        return Cell(NOT_AVAILABLE, None, "")
    return Cell(format_share(row.share), row.share, round(row.share, 6))


def _bytes(row: StatRow, is_known: bool) -> Cell:
    """Return the known bytes of a row; its tip says how many more there may be."""
    if not is_known:
        return Cell("…", None, "", PENDING)
    if row.bytes < 0:
        return Cell(
            NOT_AVAILABLE, None, "", tr("threads share these; whose is not told")
        )
    open_ = row.unknown_bytes
    more = tr("of up to {0} more it is not known").format(format_exact_bytes(open_))
    if not row.bytes:
        return Cell(NOT_AVAILABLE, None, "", more if open_ else "")
    tip = format_exact_bytes(row.bytes)
    text = format_bytes(row.bytes) + (" +" if open_ else "")
    return Cell(text, float(row.bytes), row.bytes, f"{tip}; {more}" if open_ else tip)
