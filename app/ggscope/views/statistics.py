"""Selection statistics: what lies inside the marked range, in figures."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import (
    QItemSelectionModel,
    QModelIndex,
    QSignalBlocker,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QKeyEvent, QPalette, QResizeEvent, QShowEvent
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
from ggscope.analysis.rows.index import TraceIndex, mask_of_lanes
from ggscope.analysis.statistics.columns import (
    StatColumn,
    StatFacts,
    measures,
    shown_columns,
    stat_facts,
)
from ggscope.analysis.statistics.grouping import has_groups
from ggscope.analysis.statistics.members import filter_of_group
from ggscope.analysis.statistics.scan import SpanBlocks
from ggscope.analysis.statistics.table import StatRow, StatTable, stat_table
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.groupings import GROUPINGS
from ggscope.descriptions.statistics import (
    StatCell,
    headed_columns,
    stat_cell,
    stat_notes,
    unit_of,
    unrecorded_cells,
)
from ggscope.model.selection import By, Filter, SpanGroup
from ggscope.model.trace import Trace
from ggscope.model.units import (
    TimeRange,
    Unit,
    format_count,
    format_duration,
    format_share,
)
from ggscope.render.colors import category_color
from ggscope.render.export import Figure
from ggscope.render.figure_style import FigureStyle, css_px
from ggscope.render.statistics import StatisticsOptions, statistics_figure
from ggscope.render.theme import Theme
from ggscope.sanitize import one_line
from ggscope.session.session import Session
from ggscope.session.tasks import TaskFailure, TaskState
from ggscope.views.base.safe_text import (
    ElidedLabel,
    Label,
    add_action,
    add_menu,
    set_tip,
)
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
    words_font,
)

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
    "op", "family", "name", "layer", "token", "thread", "backend", "phase", "tensor",
    "type", "shape", "source", "expert",
)  # fmt: skip
_OF_SPANS: tuple[By, ...] = ("lane", "engine")
"""Groupings of all spans; the others are of ops."""
_WIDTHS = {
    "key": 160, "text": 90, "count": 56, "time": 72, "share": 60, "bytes": 72,
    "rate": 84,
}  # fmt: skip


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
    facts : what its columns depend on.
    notes : what they mean, and what the times hold besides.
    where : the filter that the spans pass.
    """

    scope: Scope
    table: StatTable
    facts: StatFacts
    notes: tuple[str, ...] = ()
    where: Filter = Filter()  # noqa: RUF009 - frozen

    @property
    def by(self) -> By:
        """What a row is."""
        return self.facts.by

    @property
    def unit(self) -> Unit:
        """What ticks are."""
        return self.facts.unit

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
    facts = stat_facts(trace, by, table, scope.time)
    notes = () if trace.is_partial else tuple(stat_notes(trace, table, facts))
    return StatisticsResult(scope, table, facts, notes, where)


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
        self._by_label = Label("by", self._tail)
        self.by = combo_box(self._tail, "Group by")
        self.by.currentIndexChanged.connect(self.by_changed)
        self._by_label.setBuddy(self.by)
        self.menu = QMenu(self._tail)
        tip = "Copy the table"
        self._copy = tool_button(self._tail, "Copy", tip, menu=self.menu)
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
        """Name the kinds of spans whose times are left out, and count them."""
        estimated = 0 if result is None else result.table.all.estimated
        unfinished = 0 if result is None else result.table.all.unfinished
        if estimated and unfinished:
            text = "Include estimated and unfinished spans"
        elif unfinished:
            text = "Include unfinished spans"
        else:
            text = "Include estimated spans"
        if result is not None and result.n_left_out:
            text += f" ({format_count(result.n_left_out)})"
        tips = [
            "Estimated times share out a measured whole; rank with care.",
            "Unfinished spans have no end in the file.",
        ]
        if result is not None:
            counts = "Here: {0} estimated, {1} unfinished."
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


@guarded
class StatisticsTable(TextTable):
    """A table of groups of spans.

    Signals
    -------
    row_stepped(row, by) : Enter, or with Shift: on to the next or previous span (±1).
    """

    row_stepped = Signal(int, int)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Step with Enter; everything else as in other tables."""
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            super().keyPressEvent(event)
        elif self.currentIndex().isValid():
            is_back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self.row_stepped.emit(self.currentIndex().row(), -1 if is_back else 1)


class StatisticsView(View):
    """One table of figures, always on; it follows marking, panning and filters."""

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self.result: StatisticsResult | None = None
        self._blocks: SpanBlocks | None = None
        self._facts: StatFacts | None = None
        self._counted: Scope | None = None
        self._is_marking = False
        self._timer = QTimer(self, singleShot=True, interval=_QUIET_MS)
        self._timer.timeout.connect(self.recount)
        self._stale_timer = QTimer(self, singleShot=True, interval=_STALE_MS)
        self._stale_timer.timeout.connect(self._on_stale)
        self.setAccessibleName("Selection statistics")
        self.model = TextTableModel([Heading("", stretch=True)], self)
        self.table = StatisticsTable(self.model, self, "statistics", keeps_first=True)
        self.table.setAccessibleName("Statistics of the selection")
        self._empty = EmptyState(self)
        self.head = StatisticsHead(session, self)
        self.about, self.by = self.head.about, self.head.by
        self.estimated = self.head.estimated
        self.table.fill_menu(self.head.menu)
        self.table.clicked.connect(self._on_row)
        self.table.selectionModel().currentRowChanged.connect(self._on_row)
        self.table.row_opened.connect(self._on_opened)
        self.table.row_stepped.connect(self._on_stepped)
        self.table.menu_requested.connect(self._on_menu)
        self.model.layoutChanged.connect(self._mark_group)
        self.head.by_changed.connect(self.recount)
        self.head.estimated_toggled.connect(self.recount)
        self._lay_out()
        self.set_theme(theme)
        self.connect_until_release(
            (session.trace_changed, self._on_trace_changed),
            (session.viewport.changed, self._on_scope_changed),
            (session.ranges.marked_changed, self._on_scope_changed),
            (session.ranges.limited_changed, self._on_scope_changed),
            (session.ranges.kept_changed, self._on_scope_changed),
            (session.selection.changed, self._on_selection_changed),
            (session.queries.mask_changed, self._on_changed),
        )
        self.connect_until_release(
            (session.tasks.task_changed, self._on_task_changed), is_throttled=False
        )
        self._on_trace_changed(None)

    def _lay_out(self) -> None:
        body = QWidget(self)
        self._stack = QStackedLayout(body)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self.table)
        lay_out(QVBoxLayout(self), self.head, body, wide=body)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.table.set_theme(theme)
        self._empty.set_theme(theme)
        self.head.set_theme(theme)
        if self.result is not None:
            self._show(self.result)

    def figure(self) -> Figure | None:
        """Return what is counted as bars, by the column that the table is sorted by."""
        session, scope, result = self.session, self.scope(), self.result
        trace = session.trace
        if scope is None or trace is None or result is None or session.index is None:
            return None
        mask = session.queries.mask
        if mask is not None and len(mask) < len(trace.spans):
            mask = np.append(mask, np.zeros(len(trace.spans) - len(mask), bool))
        if scope.lanes is not None and scope.time is not None:
            on_lanes = mask_of_lanes(session.index, scope.lanes, scope.time)
            mask = on_lanes if mask is None else on_lanes & mask
        ids = scope.ids if scope.kind == "selected" else None
        options = StatisticsOptions(
            by=result.by, measure=self._measure(), visible=scope.time, ids=ids,
            include_estimated=self.estimated.isChecked(), mask=mask,
            where=format_filter(session.queries.filter),
        )  # fmt: skip
        figure = statistics_figure(trace, options)
        recipe = figure.recipe
        if recipe is not None and scope.lanes is not None:
            lacks = (*recipe.lacks, "The command counts all lanes.")
            recipe = replace(recipe, lacks=lacks)
        look = FigureStyle(
            width=css_px(max(self.width(), scaled(_LEAST_FIGURE_PX))),
            theme=self.theme.name,
            seen=True,
        )
        return replace(figure, look=look, recipe=recipe)

    def _measure(self) -> str:
        """Return what the table is sorted by, where that can be a bar."""
        column, _ = self.model.sorted_by
        shown = () if self._facts is None else shown_columns(self._facts)
        key = shown[column].key if 0 <= column < len(shown) else ""
        return key if key in measures() else "total"

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
        self._facts = None
        # Figures of an older snapshot are of no use any more.
        self.session.tasks.cancel(_KEY)
        self._counted = None
        if trace is None or trace.is_partial:
            self._timer.stop()
            self._end_waiting()
            self.result = None
            self._say_empty()
            return
        if self.result is None:
            self._empty.say("counting …")
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
        elif self.result is not None and not self.model.is_stale:
            self._end_waiting()  # the range may be called something else now

    def _on_selection_changed(self, _: object) -> None:
        self._on_scope_changed(None)
        self._mark_group()

    def showEvent(self, event: QShowEvent) -> None:
        """Count what was not counted while the pane was hidden."""
        super().showEvent(event)
        self._timer.start()

    def _offer_groupings(self, trace: Trace) -> None:
        offered = [by for by in GROUPINGS if has_groups(trace, by)]
        current = [self.by.itemData(i) for i in range(self.by.count())]
        if current == offered:
            return
        chosen = self.by.currentData()
        with QSignalBlocker(self.by):
            self.by.clear()
            for by in offered:
                self.by.addItem(GROUPINGS[by], by)
            if chosen in offered:
                self.by.setCurrentIndex(offered.index(chosen))

    # -- counting ----------------------------------------------------------

    def scope(self) -> Scope | None:
        """Return what the figures should be about now; None without a trace."""
        session = self.session
        if session.trace is None:
            return None
        shown, selection = session.ranges.listed, session.selection.current
        if selection.group is not None and selection.group.ids:
            return Scope("selected", ids=selection.group.ids)
        if shown is not None and shown is session.ranges.marked:
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
            figures_of, session.index, scope, by, session.queries.mask,
            self.estimated.isChecked(), self._blocks, session.queries.filter,
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
        self.about.setText("counting …")

    def _on_task_changed(self, state: TaskState) -> None:
        if state.key == _KEY and state.total and self.model.is_stale:
            share = format_share(state.done / state.total)
            self.about.setText(f"counting … {share}")

    def _end_waiting(self) -> None:
        if self.is_released:  # it stopped what it waited for, and has gone since
            return
        self._stale_timer.stop()
        self.model.set_stale(False)
        if self.result is not None:
            about, notes = self.about_text(self.result), self.result.notes
            self.about.tip = "\n".join((about, *notes)) if notes else ""
            if notes:
                many = f"{len(notes)} notes"
                about += " · " + ("1 note" if len(notes) == 1 else many)
            self.about.setText(about)

    # -- showing -----------------------------------------------------------

    def _show(self, result: StatisticsResult) -> None:
        self.result = result
        self._end_waiting()
        self.head.say_left_out(result)
        if not result.rows:
            self._say_empty()
            return
        facts = result.facts
        if self._facts is not None and self._facts.by == facts.by:
            facts = facts.also(self._facts)  # so that columns do not come and go
        self._facts = facts
        columns = headed_columns(facts)
        keys = [column.key for column in columns]
        self.model.came_by = keys.index("latency" if "latency" in keys else "total")
        self.model.set_headings(_headings(columns, facts))
        rows = [self._cells(row, columns, facts) for row in result.rows]
        rows += [
            self._unrecorded_row(op, count, columns)
            for op, count in result.table.unrecorded.items()
        ]
        groups = [*result.rows, *[None] * (len(rows) - len(result.rows))]
        self.table.what = self.about_text(result)
        n_left_out = result.table.n_groups - len(result.rows)
        totals = self._totals(result.table.all, columns, facts)
        self.model.set_rows(rows, totals, payloads=groups, n_left_out=n_left_out)
        self.table.fit_columns()
        self._mark_group()
        self._stack.setCurrentWidget(self.table)

    # -- the rows ----------------------------------------------------------

    def group_at(self, row: int) -> SpanGroup | None:
        """Return the spans of a row; None where it is no group of spans."""
        found, result = self.model.payload(row), self.result
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
            self.session.selection.select_group(group)

    def _on_opened(self, row: int) -> None:
        """Show only the spans of a row; back undoes it."""
        group = self.group_at(row)
        if group is not None:
            wanted = filter_of_group(group.by, group.key)
            queries = self.session.queries
            queries.set_filter(queries.filter.merged(wanted))

    def _on_stepped(self, row: int, by: int) -> None:
        """Go to the longest span of a row, from there to the next or previous one."""
        group, session = self.group_at(row), self.session
        if group is None:
            return
        is_there = session.selection.current.group == group
        if is_there and session.linking.current_span is not None:
            session.navigator.step_span(by)
        else:
            self._go_to_longest(group)

    def _go_to_longest(self, group: SpanGroup) -> None:
        self.session.selection.select_group(group)
        self.session.linking.show_longest()

    def _mark_group(self) -> None:
        """Select the row of the selected group, wherever it is now."""
        group, table = self.session.selection.current.group, self.table
        row = -1
        if group is not None and self.result is not None:
            same = group.by == self.result.by
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
        add("Go to the longest", partial(self._go_to_longest, group))
        add("Next span", partial(session.navigator.step_span, 1)).setShortcut(".")
        add("Previous span", partial(session.navigator.step_span, -1)).setShortcut(",")
        wanted = filter_of_group(group.by, group.key)
        menu.addSeparator()
        both = session.queries.filter.merged(wanted)
        add(f"Show only {key}", partial(session.queries.set_filter, wanted))
        if session.queries.filter:
            words = f"Add {key} to the filter"
            add(words, partial(session.queries.set_filter, both))
        add("List in the table", partial(self._list_in_table, both))
        inner = add_menu(menu, f"Statistics of {key} by")
        for i in range(self.by.count()):
            if self.by.itemData(i) != group.by:
                run = partial(self._drill_down, both, i)
                add_action(inner, self.by.itemText(i), run)

    def _list_in_table(self, wanted: Filter) -> None:
        self.session.queries.set_filter(wanted)
        self.session.navigator.view_requested.emit("table")

    def _drill_down(self, wanted: Filter, place: int) -> None:
        """Count the spans of one group, grouped by something else."""
        self.session.queries.set_filter(wanted)
        self.by.setCurrentIndex(place)

    def about_text(self, result: StatisticsResult) -> str:
        """Return what the figures are about: "marked range 448.6 µs · 2 lanes …"."""
        scope, parts = result.scope, []
        if scope.kind == "selected":
            n_ids = format_count(len(scope.ids))
            parts.append(f"{n_ids} selected spans")
        elif scope.time is None:
            parts.append("whole trace")
        else:
            length = format_duration(scope.time.duration, result.unit)
            words = "visible range {0}"
            if scope.kind == "marked":
                words = "marked range {0}"
            elif self.session.ranges.is_kept:
                words = "range before the zoom {0}"
            parts.append(words.format(length))
        if scope.lanes is not None:
            n = len(scope.lanes)
            parts.append("1 lane" if n == 1 else f"{n} lanes")
        n_ops = result.table.all.ops
        if result.by in _WITH_OPS and n_ops != result.n_spans:
            spans = f"{format_count(result.n_spans)} spans of threads"
            parts.append(f"{format_count(n_ops)} op{'s' * (n_ops != 1)} in {spans}")
        else:
            what = "ops" if result.by in _WITH_OPS else "spans"
            if result.n_spans == 1:
                what = "op" if result.by in _WITH_OPS else "span"
            parts.append(f"{format_count(result.n_spans)} {what}")
        total = result.table.all
        if total.in_range is not None and total.in_range != total.total:
            parts.append("cut spans count whole")
        n_groups = result.table.n_groups
        if n_groups > len(result.rows):
            largest = "the {0} largest of {1} groups"
            n_rows = format_count(len(result.rows))
            parts.append(largest.format(n_rows, format_count(n_groups)))
        if self.session.queries.filter:
            parts.append("filtered")
        return " · ".join(parts)

    def _say_empty(self) -> None:
        trace = self.session.trace
        if trace is None:
            self._empty.say("No trace is open.")
            self.about.clear()
        elif trace.is_partial:
            words = "{0} spans so far; statistics follow when reading is done."
            hint = words.format(format_count(len(trace.spans)))
            self._empty.say("Still reading…", hint)
            self.about.clear()
        else:
            is_of_spans = self.result is not None and self.result.by in _OF_SPANS
            what = "span" if is_of_spans else "op"
            words = f"No {what} lies in this range."
            hint = "Drag across the timeline to mark a range."
            scope = None if self.result is None else self.result.scope
            if scope is not None and (scope.lanes is not None or scope.ids):
                words = "No {0} that is asked for lies in this range."
                words = words.format(what)
            elif self.session.queries.filter:
                words = "No record in this range matches the filter."
                hint = "Remove a filter chip to see more."
            self._empty.say(words, hint)
        self._stack.setCurrentWidget(self._empty)

    def _cells(
        self, row: StatRow, columns: tuple[StatColumn, ...], facts: StatFacts
    ) -> tuple[Cell, ...]:
        color = 0
        if facts.by in ("op", "family"):
            kind = f"op:{row.key}" if facts.by == "op" else row.key
            color = category_color(kind, self.theme)
        cells = []
        for column in columns:
            cell = _cell(stat_cell(column, row, facts), column)
            if column.key == "key":
                cell = replace(cell, color=color)
            if column.unit == "share" and isinstance(cell.sort, float):
                cell = replace(cell, bar=cell.sort)
            if column.key == "quality":
                cell = replace(cell, caution=row.quality != "measured")
            cells.append(cell)
        return tuple(cells)

    def _unrecorded_row(
        self, op: str, count: int, columns: tuple[StatColumn, ...]
    ) -> tuple[Cell, ...]:
        """Return the row of an op that graphs compute and no record names."""
        cells = unrecorded_cells(op, count, columns)
        return tuple(
            replace(_cell(cell, column), caution=column.key == "quality")
            for cell, column in zip(cells, columns, strict=True)
        )

    def _totals(
        self, total: StatRow, columns: tuple[StatColumn, ...], facts: StatFacts
    ) -> tuple[Cell, ...]:
        cells = [_cell(stat_cell(column, total, facts), column) for column in columns]
        none = Cell("–", raw="")
        return tuple(
            Cell("all") if column.key == "key" else cell if column.has_total else none
            for column, cell in zip(columns, cells, strict=True)
        )


def _headings(columns: tuple[StatColumn, ...], facts: StatFacts) -> list[Heading]:
    headings = []
    for column in columns:
        is_text, is_key = column.unit == "text", column.key == "key"
        unit = unit_of(column, facts)
        headings.append(
            Heading(
                column.title,
                column.tooltip,
                _WIDTHS["key" if is_key else column.unit],
                not is_text,
                is_text and not is_key,
                is_key,
                f"{column.title} ({unit})" if unit else "",
                largest_first=not is_text,
            )
        )
    return headings


def _cell(cell: StatCell, column: StatColumn) -> Cell:
    """Return a cell that sorts by its value, and copies as a plain number."""
    raw = None if column.unit == "text" else "" if cell.raw is None else cell.raw
    return Cell(cell.text, cell.value, raw, cell.exact)
