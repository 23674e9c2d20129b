"""Selection statistics: what lies inside the marked range, in figures."""

from dataclasses import replace
from functools import partial

from PySide6.QtCore import QItemSelectionModel, QModelIndex, Qt, QTimer
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QMenu,
    QSplitter,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.filters.text import format_filter
from ggscope.analysis.statistics.columns import (
    StatColumn,
    StatFacts,
    measures,
    shown_columns,
)
from ggscope.analysis.statistics.grouping import has_groups
from ggscope.analysis.statistics.members import filter_of_spans
from ggscope.analysis.statistics.pivot import SHARING, Pivot, PivotMeasure
from ggscope.analysis.statistics.scan import SpanBlocks
from ggscope.analysis.statistics.table import StatRow
from ggscope.descriptions.groupings import GROUPINGS
from ggscope.descriptions.pivot import pivot_title
from ggscope.descriptions.statistics import (
    headed_columns,
    stat_cell,
    unrecorded_cells,
)
from ggscope.model.selection import By, Filter, SpanGroup
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, format_duration, format_share
from ggscope.render.colors import category_color
from ggscope.render.export import Figure
from ggscope.render.figure_style import FigureStyle, css_px
from ggscope.render.statistics import StatisticsOptions, statistics_figure
from ggscope.render.theme import Theme
from ggscope.sanitize import one_line
from ggscope.session.session import Session
from ggscope.session.tasks import TaskFailure, TaskState
from ggscope.views.base.cells import CopyForm, TableFile
from ggscope.views.base.copying import Copyable
from ggscope.views.base.safe_text import add_action, add_menu
from ggscope.views.base.text_table import Cell, Heading, TextTableModel
from ggscope.views.base.view import View
from ggscope.views.base.widgets import EmptyState, lay_out, scaled
from ggscope.views.statistics.counting import (
    Scope,
    StatisticsResult,
    figures_of,
    restricted,
)
from ggscope.views.statistics.head import StatisticsHead
from ggscope.views.statistics.histogram import HistogramView, Subject
from ggscope.views.statistics.tables import (
    PivotTable,
    StatisticsTable,
    headings,
    pivot_headings,
    pivot_rows,
    text_cell,
)

_KEY = "statistics"
_BESIDE_PX, _BELOW_PX = 900, 420
"""In a narrower pane, if it is so high, the histogram lies below the table."""
_MIN_FIGURE_PX = 480.0
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


class StatisticsView(Copyable, View):
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
        self.pivot_model = TextTableModel([Heading("", stretch=True)], self)
        self.pivot = PivotTable(self.pivot_model, self)
        self.pivot.setAccessibleName("Pivot table of the selection")
        self.histogram = HistogramView(session, theme, self)
        self.head = StatisticsHead(session, self)
        self.about, self.by = self.head.about, self.head.by
        self.estimated = self.head.estimated
        self.head.menu.aboutToShow.connect(self._fill_copy_menu)
        for table in (self.table, self.pivot):
            table.clicked.connect(self._on_row)
            table.row_opened.connect(self._on_opened)
            table.row_stepped.connect(self._on_stepped)
            table.menu_requested.connect(self._on_menu)
            table.rows.layoutChanged.connect(self._mark_group)
        self.table.selectionModel().currentRowChanged.connect(self._on_row)
        self.pivot.selectionModel().currentChanged.connect(self._on_row)
        self.head.by_changed.connect(self._on_grouping)
        self.head.cells_changed.connect(self._show_pivot)
        self.head.histogram.toggled.connect(self._on_histogram)
        self.head.estimated_toggled.connect(self.recount)
        self._lay_out()
        self.set_theme(theme)
        self.connect_until_release(
            (session.trace_changed, self._on_trace_changed),
            (session.viewport.changed, self._on_scope_changed),
            (session.ranges.marked_changed, self._on_scope_changed),
            (session.ranges.limited_changed, self._on_scope_changed),
            (session.ranges.pin_changed, self._on_scope_changed),
            (session.selection.changed, self._on_selection_changed),
            (session.queries.mask_changed, self._on_changed),
        )
        self.connect_until_release(
            (session.tasks.task_changed, self._on_task_changed), is_throttled=False
        )
        self._on_trace_changed(None)

    def _lay_out(self) -> None:
        self._body = QSplitter(self)
        self._body.setChildrenCollapsible(False)
        body = QWidget(self._body)
        self._body.addWidget(body)
        self._body.addWidget(self.histogram)
        self._body.setSizes([600, 400])
        self.histogram.hide()
        self._stack = QStackedLayout(body)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self.table)
        self._stack.addWidget(self.pivot)
        lay_out(QVBoxLayout(self), self.head, self._body, wide=self._body)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the histogram below the table where there is more room than beside it."""
        super().resizeEvent(event)
        is_narrow = self.width() < scaled(_BESIDE_PX)
        is_below = is_narrow and self.height() >= scaled(_BELOW_PX)
        way = Qt.Orientation.Vertical if is_below else Qt.Orientation.Horizontal
        if way != self._body.orientation():
            self._body.setOrientation(way)

    def _on_histogram(self, is_on: bool) -> None:
        self.histogram.setVisible(is_on)
        self._tell_histogram()

    def _tell_histogram(self) -> None:
        """Let the histogram count what the table counts, if it is shown."""
        session, result = self.session, self.result
        if not self.head.histogram.isChecked():
            return
        if result is None or session.index is None or not result.rows:
            self.histogram.set_subject(None)
            return
        group = session.selection.current.group
        if group is not None and not self._index_of(group).isValid():
            group = None
        subject = Subject(
            session.index, result.scope, result.by, session.queries.mask,
            result.where, self.estimated.isChecked(), self._blocks, group,
        )  # fmt: skip
        self.histogram.set_subject(subject)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.table.set_theme(theme)
        self.pivot.set_theme(theme)
        self.histogram.set_theme(theme)
        self._empty.set_theme(theme)
        self.head.set_theme(theme)
        if self.result is not None:
            self._show(self.result)

    def set_zoom(self, zoom: float) -> None:
        """Draw the histogram `zoom` times as large."""
        self.histogram.set_zoom(zoom)

    def figure(self) -> Figure | None:
        """Return what is counted as bars, by the column that the table is sorted by."""
        session, scope, result = self.session, self.scope(), self.result
        trace = session.trace
        if scope is None or trace is None or result is None or session.index is None:
            return None
        mask, chosen = restricted(session.index, scope, session.queries.mask)
        ids = None if chosen is None else scope.ids
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
        style = FigureStyle(
            width=css_px(max(self.width(), scaled(_MIN_FIGURE_PX))),
            theme=self.theme.name,
            seen=True,
        )
        return replace(figure, style=style, recipe=recipe)

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
        self.histogram.release()
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
            self._tell_histogram()
            self._say_empty()
            return
        if not trace.is_running:
            self.histogram.set_subject(None)
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
        self._tell_histogram()

    def showEvent(self, event: QShowEvent) -> None:
        """Count what was not counted while the pane was hidden."""
        super().showEvent(event)
        self._timer.start()

    def _offer_groupings(self, trace: Trace) -> None:
        self.head.offer([by for by in GROUPINGS if has_groups(trace, by)])

    def _on_grouping(self) -> None:
        self.head.offer_columns()
        self.recount()

    def _fill_copy_menu(self) -> None:
        self.head.menu.clear()
        self._table_shown().fill_menu(self.head.menu)

    def _table_shown(self) -> StatisticsTable:
        return self.table if self.pivot_shown() is None else self.pivot

    def pivot_shown(self) -> Pivot | None:
        """Return the pivot table that is shown; None = the table of one grouping."""
        return None if self.result is None else self.result.pivot

    def table_file(self) -> TableFile | None:
        """Return the rows of the table that is shown, for a file."""
        return self._table_shown().table_file()

    def copy_rows(self, form: CopyForm) -> None:
        """Copy the table that is shown."""
        self._table_shown().copy_rows(form)

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
            across=self.head.across.currentData(),
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
            self._tell_histogram()
            self._say_empty()
            return
        facts = result.facts
        if self._facts is not None and self._facts.by == facts.by:
            facts = facts.also(self._facts)  # so that columns do not come and go
        self._facts = facts
        columns = headed_columns(facts)
        keys = [column.key for column in columns]
        self.model.came_by = keys.index("latency" if "latency" in keys else "total")
        self.model.set_headings(headings(columns, facts))
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
        self._show_pivot()
        self._mark_group()
        self._tell_histogram()
        self._stack.setCurrentWidget(self._table_shown())

    def _show_pivot(self) -> None:
        """Fill the pivot table, where there is one, with what its cells are to be."""
        table, result = self.pivot_shown(), self.result
        if table is None or result is None:
            return
        measure: PivotMeasure = self.head.cells.currentData()
        self.pivot_model.set_headings(pivot_headings(table, measure, result.unit))
        rows, sums = pivot_rows(table, measure, result.unit)
        left_out = table.n_rows - len(table.rows)
        self.pivot_model.set_rows(
            rows, sums, payloads=list(table.rows), n_left_out=left_out
        )
        self.pivot.what = f"{pivot_title(table, measure)}, {self.about_text(result)}"
        self.pivot.fit_columns()
        self._mark_group()

    # -- the rows ----------------------------------------------------------

    def group_at(self, index: QModelIndex) -> SpanGroup | None:
        """Return the spans of a row, or of a cell of the pivot table.

        None where it is no group of spans.
        """
        result, table = self.result, self.pivot_shown()
        if result is None or not index.isValid():
            return None
        scope, by, also = result.scope, result.by, None
        if table is None:
            payload = self.model.payload(index.row())
            key = payload.key if isinstance(payload, StatRow) else None
        else:
            key, column = self.pivot.place(index, table)
            if column is not None and key is not None:
                also = table.across, column
            elif column is not None:
                by, key = table.across, column
        if key is None:
            return None
        return SpanGroup(
            by, key, result.where, scope.time, scope.lanes, scope.ids, also
        )

    def _on_row(self, index: QModelIndex) -> None:
        """Light the spans of the row, or cell, that was gone to."""
        group = self.group_at(index)
        if group is not None and not self._is_marking:
            self.session.selection.select_group(group)

    def _current_group(self, row: int) -> SpanGroup | None:
        """Return the spans of a row of the table shown, or of its current cell."""
        table = self._table_shown()
        column = max(table.currentIndex().column(), 0)
        return self.group_at(table.rows.index(row, column)) if row >= 0 else None

    def _on_opened(self, row: int) -> None:
        """Show only the spans of a row; back undoes it."""
        group = self._current_group(row)
        if group is not None:
            queries = self.session.queries
            queries.set_filter(queries.filter.merged(filter_of_spans(group)))

    def _on_stepped(self, row: int, by: int) -> None:
        """Go to the longest span of a row, from there to the next or previous one."""
        group, session = self._current_group(row), self.session
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
        group, table = self.session.selection.current.group, self._table_shown()
        index = QModelIndex() if group is None else self._index_of(group)
        flags = QItemSelectionModel.SelectionFlag.NoUpdate
        chosen = table.selectionModel()
        self._is_marking = True
        if not index.isValid() and chosen.hasSelection() and group is None:
            table.clearSelection()
        elif index.isValid() and not chosen.isSelected(index):
            if table is self.pivot:
                table.setCurrentIndex(index)
            else:
                table.selectRow(index.row())
        elif index.isValid() and table.currentIndex().row() != index.row():
            chosen.setCurrentIndex(index, flags)
        self._is_marking = False

    def _index_of(self, group: SpanGroup) -> QModelIndex:
        """Return the row, or the cell, of a group; none if it is not in the table."""
        result, table = self.result, self.pivot_shown()
        if result is None:
            return QModelIndex()
        if table is not None:
            also = group.also[1] if group.also else None
            is_across = group.also is not None and group.also[0] == table.across
            if group.by == table.by and (group.also is None or is_across):
                return self.pivot.index_of(group.key, also, table)
            return QModelIndex()
        keys = self._keys() if group.by == result.by and group.also is None else []
        row = keys.index(group.key) if group.key in keys else -1
        return self.model.index(row, 0) if row >= 0 else QModelIndex()

    def _keys(self) -> list[str]:
        """Return the key of each row's group, "" for what is none."""
        payloads = map(self.model.payload, range(self.model.rowCount()))
        return [p.key if isinstance(p, StatRow) else "" for p in payloads]

    def _on_menu(self, menu: QMenu, row: int) -> None:
        """Offer what can be done with the spans of a row."""
        group = self._current_group(row)
        if group is None:
            return
        session = self.session
        key = one_line(" · ".join([group.key, *(group.also or ())[1:]]))
        add = partial(add_action, menu)
        add("Go to the longest", partial(self._go_to_longest, group))
        add("Next span", partial(session.navigator.step_span, 1)).setShortcut(".")
        add("Previous span", partial(session.navigator.step_span, -1)).setShortcut(",")
        where = filter_of_spans(group)
        menu.addSeparator()
        both = session.queries.filter.merged(where)
        add(f"Show only {key}", partial(session.queries.set_filter, where))
        if session.queries.filter:
            text = f"Add {key} to the filter"
            add(text, partial(session.queries.set_filter, both))
        add("List in the table", partial(self._list_in_table, both))
        inner = add_menu(menu, f"Statistics of {key} by")
        known = [group.by, *(group.also or ())[:1]]
        for i in range(self.by.count()):
            if self.by.itemData(i) not in known:
                run = partial(self._drill_down, both, i)
                add_action(inner, self.by.itemText(i), run)

    def _list_in_table(self, where: Filter) -> None:
        self.session.queries.set_filter(where)
        self.session.navigator.view_requested.emit("table")

    def _drill_down(self, where: Filter, place: int) -> None:
        """Count the spans of one group, grouped by something else."""
        self.session.queries.set_filter(where)
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
            text = "visible range {0}"
            if scope.kind == "marked":
                text = "marked range {0}"
            elif self.session.ranges.is_pinned:
                text = "range before the zoom {0}"
            parts.append(text.format(length))
        if scope.lanes is not None:
            n = len(scope.lanes)
            parts.append("1 lane" if n == 1 else f"{n} lanes")
        n_ops = result.table.all.ops
        if result.by in SHARING:  # nobody counted how many ops these are
            pairs = f"{format_count(n_ops)} pairs of op and {GROUPINGS[result.by]}"
            parts.append(pairs)
        elif result.by in _WITH_OPS and n_ops != result.n_spans:
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
            text = "{0} spans so far; statistics follow when reading is done."
            hint = text.format(format_count(len(trace.spans)))
            self._empty.say("Still reading…", hint)
            self.about.clear()
        else:
            is_of_spans = self.result is not None and self.result.by in _OF_SPANS
            what = "span" if is_of_spans else "op"
            text = f"No {what} is in this range."
            hint = "Drag across the timeline to mark a range."
            scope = None if self.result is None else self.result.scope
            if scope is not None and (scope.lanes is not None or scope.ids):
                text = "No {0} of this selection is in this range."
                text = text.format(what)
            elif self.session.queries.filter:
                text = "No record in this range matches the filter."
                hint = "Remove a filter chip to see more."
            self._empty.say(text, hint)
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
            cell = text_cell(stat_cell(column, row, facts), column)
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
            replace(text_cell(cell, column), caution=column.key == "quality")
            for cell, column in zip(cells, columns, strict=True)
        )

    def _totals(
        self, total: StatRow, columns: tuple[StatColumn, ...], facts: StatFacts
    ) -> tuple[Cell, ...]:
        cells = [
            text_cell(stat_cell(column, total, facts), column) for column in columns
        ]
        none = Cell("–", raw="")
        return tuple(
            Cell("all") if column.key == "key" else cell if column.has_total else none
            for column, cell in zip(columns, cells, strict=True)
        )
