"""Benchmarks: the tests of llama-bench as a table, and charts of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from PySide6.QtCore import QItemSelection, QItemSelectionModel, QPointF, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import (
    QLineEdit,
    QMenu,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.bench.comparison import BenchChange, compare_tests
from ggscope.analysis.bench.curves import KINDS
from ggscope.analysis.bench.intervals import Interval
from ggscope.analysis.bench.table import FILE, SPEED, TEST, BenchTable, bench_table
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.bench import (
    change_interval_text,
    change_lines,
    change_text,
    comparison_lines,
    files_lines,
    interval_text,
    point_lines,
    speed_text,
    verdict,
)
from ggscope.errors import QueryError
from ggscope.exporters.bench_markdown import bench_markdown
from ggscope.model.bench import BenchRuns
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, format_counted
from ggscope.render.bench import (
    CHANGES,
    REPETITIONS,
    BenchChart,
    BenchOptions,
    BenchScene,
    about_chart,
    bench_chart,
    charts_of,
    compose_bench,
    draw_bench,
    most_rows,
    place_at,
    wants_log,
)
from ggscope.render.export import NOT_MARKED, ExportCommand
from ggscope.render.options import export_command
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.views.base.canvas import PaintedView
from ggscope.views.base.cells import CopyForm
from ggscope.views.base.gestures import CanvasGestures, WheelDelta
from ggscope.views.base.lazy_table import LazyTableModel
from ggscope.views.base.safe_text import Label, add_action, copy_text, set_tip
from ggscope.views.base.text_table import Cell, Heading, TextTable
from ggscope.views.base.widgets import (
    ControlRow,
    lay_out,
    scaled,
    set_label_color,
    ui_font,
)

_TABLE, _CHART = "bench-table", "bench-chart"
_FIRST = ("model_type", "backends")
_TESTED = ("n_prompt", "n_gen", "n_depth")
_KIND_WORDS = ("all", "prompt (pp)", "generation (tg)", "both (pp+tg)")
_ROWS_OF_NOTCH = 3
_EQUAL = 1000
_STEPS = {
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_PageUp: (-10, 0),
    Qt.Key.Key_PageDown: (10, 0),
}
_SELECT = (
    QItemSelectionModel.SelectionFlag.Select | QItemSelectionModel.SelectionFlag.Rows
)


@dataclass(frozen=True, slots=True, eq=False)
class _Loaded:
    """What a worker finds of a file: its table, and the charts that it has."""

    table: BenchTable
    charts: tuple[str, ...]


class BenchGestures(CanvasGestures):
    """Turns mouse events into calls of the view."""

    def __init__(self, view: "BenchView") -> None:
        super().__init__(view)
        self._view = view

    def _is_ready(self) -> bool:
        return self._view.scene_now() is not None

    def _leave(self) -> None:
        self._view.point_to(None)

    def _move(self, _: QMouseEvent, at: QPointF) -> bool:
        self._view.point_to(self._view.place_under(at.x(), at.y()))
        return True

    def _press(self, event: QMouseEvent, at: QPointF) -> bool:
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        adds = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        place = self._view.place_under(at.x(), at.y())
        if place is not None:
            self._view.select(place, adds=adds)
        return True

    def _wheel(self, turn: WheelDelta, at: QPointF) -> bool:
        self._view.scroll_rows(-round(turn.notches * _ROWS_OF_NOTCH))
        return True


class _TestTable(TextTable):
    """The table of tests, which copies them as llama-bench prints them."""

    def __init__(self, view: "BenchView") -> None:
        super().__init__(view.model, view, "benchmarks", keeps_first=True)
        self._view = view

    def copy_rows(self, form: CopyForm) -> None:
        """Copy the selected tests (or all), as Markdown in llama-bench's own form."""
        runs = self._view.tests_of(self.chosen_rows())
        if runs is None or form != "markdown":
            super().copy_rows(form)
        else:
            copy_text("\n".join(bench_markdown(runs)) + "\n")


class BenchView(PaintedView):
    """A chart of tests, and the table of them; two selected rows are compared.

    Attributes
    ----------
    table_data : the tests; None before they are read.
    bench : the chart; None before it is computed.
    """

    draw_scene = staticmethod(compose_bench)
    draw_figure = staticmethod(draw_bench)
    passing: ClassVar = {"hover": None, "scroll": 0}
    needs_whole_trace = True
    no_trace_text = ("No trace is open.", "")
    keys = tuple(_STEPS)

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("Benchmarks", session, theme, parent)
        self.setObjectName("bench")
        self.table_data: BenchTable | None = None
        self.bench: BenchChart | None = None
        self._tests: I64 = np.zeros(0, np.int64)
        self._hover: tuple[int, int] | None = None
        self._cursor: tuple[int, int] | None = None
        self._scroll = 0
        self._kind = ("", "")
        self._gestures = BenchGestures(self)
        self.controls = ControlRow(self)
        self.filter_line = QLineEdit(self)
        self._make_controls()
        self.model = LazyTableModel((), self)
        self.table = _TestTable(self)
        self.table.setAccessibleName("Tests of llama-bench")
        self.table.selectionModel().selectionChanged.connect(self._on_rows)
        self.table.menu_requested.connect(self._on_table_menu)
        self.table.keep_selection_from_header()
        self.compared = Label(parent=self)
        self.compared.setObjectName("bench_comparison")
        self.compared.setFont(ui_font(12))
        self.compared.setWordWrap(True)
        self.compared.setMargin(6)
        self.compared.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
        )
        self.compared.hide()
        below = QWidget(self)
        lay_out(QVBoxLayout(below), self.compared, self.table, wide=self.table)
        split = self.split_with(below, (1, 1), Qt.Orientation.Vertical)
        split.setSizes([_EQUAL, _EQUAL])
        self.box.addWidget(self.controls)
        self.box.addWidget(split, 1)
        self.set_theme(theme)

    def _make_controls(self) -> None:
        row = self.controls
        self.chart_box = row.add_choice(
            "chart", (), "Chart: over a key of llama-bench, or a row for each test",
            self._on_chart,
        )  # fmt: skip
        kinds = tuple(zip(_KIND_WORDS, KINDS, strict=True))
        self.kind_box = row.add_choice(
            "tests", kinds, "Tests in the chart", self._on_chart
        )
        self.log_box = row.add_switch(
            "log", "Logarithmic axis of tokens/s", self.repaint_picture
        )
        line = self.filter_line
        line.setPlaceholderText("Filter, such as n_depth>=4096")
        line.setAccessibleName("Filter tests")
        set_tip(line, "Words, or column=value, <, >: n_ubatch=512 t/s>100")
        line.setFixedWidth(scaled(210))
        line.setClearButtonEnabled(True)
        line.textChanged.connect(self._on_filter)
        row.add_widget(line)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.controls.set_theme(theme)
        self.table.set_theme(theme)
        set_label_color(self.compared, theme.text)

    # -- session ---------------------------------------------------------------

    def compute(self, trace: Trace) -> None:
        """Read the tests on a worker."""
        if trace.bench is None:
            self.forget()
            return
        request = partial(_loaded, trace.bench)
        self.run(_TABLE, request, self._show_table, "Reading benchmarks")

    def forget(self) -> None:
        """Show no tests."""
        self.table_data = self.bench = None
        self._tests = np.zeros(0, np.int64)
        self._hover = self._cursor = None
        self.model.set_rows(())
        self.compared.hide()
        self.controls.message.clear()
        self.repaint_picture()

    def _show_table(self, loaded: _Loaded) -> None:
        self.table_data = loaded.table
        charts = [(_chart_text(chart), chart) for chart in loaded.charts]
        self.controls.set_choices(self.chart_box, charts)
        self._apply_filter()

    # -- table -----------------------------------------------------------------

    def _on_filter(self, _: str) -> None:
        if self.table_data is not None:
            self._apply_filter()

    def _apply_filter(self) -> None:
        """List the tests that the filter lets through, and draw them."""
        data = self.table_data
        if data is None:
            return
        try:
            mask = data.matches(self.filter_line.text())
        except QueryError as error:
            self.controls.message.setText(str(error))
            return
        self._tests = np.flatnonzero(mask)
        self._request_chart()

    def _on_chart(self) -> None:
        self._scroll = 0
        self._request_chart()

    def _request_chart(self) -> None:
        data, chart = self.table_data, self.chart_box.currentData()
        if data is None or chart is None:
            return
        kind = self.kind_box.currentData()
        request = partial(_chart_of, data, self._tests, chart, kind)
        self.run(_CHART, request, self._show_chart, "Drawing benchmarks")
        if chart != CHANGES:
            self._list_tests()

    def _list_tests(self) -> None:
        data = self.table_data
        assert data is not None
        mask = np.zeros(len(data), np.bool_)
        mask[self._tests] = True
        headings, keys = _headings(data)
        self._list(headings, partial(_cells, data, keys), _TestOrder(data, keys), mask)

    def _list_changes(self, bench: BenchChart) -> None:
        mask = np.ones(len(bench.changes), np.bool_)
        make = partial(_change_cells, bench)
        self._list(_CHANGE_HEADINGS, make, _ChangeOrder(bench), mask)

    def _list(
        self,
        headings: tuple[Heading, ...],
        make: "partial[tuple[Cell, ...]]",
        order: "_TestOrder | _ChangeOrder",
        mask: "np.ndarray",
    ) -> None:
        is_new = headings != self.model.headings
        self.model.set_source(headings, make, order, mask)
        self.table.what = self.accessibleName()
        if is_new:
            self.table.fit_columns()
        self._on_rows()

    def _show_chart(self, bench: BenchChart) -> None:
        kind = (bench.chart, self.kind_box.currentData())
        is_new, self._kind = kind != self._kind, kind
        self.bench = bench
        self._hover = self._cursor = None
        if is_new:
            self.log_box.blockSignals(True)
            self.log_box.setChecked(wants_log(bench))
            self.log_box.blockSignals(False)
        if bench.chart == CHANGES:
            self._list_changes(bench)
        self.log_box.setEnabled(bench.chart != CHANGES)
        self._say()
        self._on_rows()

    def _say(self) -> None:
        data, bench = self.table_data, self.bench
        if data is None or bench is None:
            return
        text = format_counted(len(data), "test")
        if len(self._tests) < len(data):
            text = f"{format_count(len(self._tests))} of {text}"
        n = data.runs.n_repetitions
        if n:
            text += f", {format_counted(n, 'repetition')}"
        self.controls.message.setText(f"{text} · {about_chart(bench)}")

    # -- two rows ----------------------------------------------------------------

    def selected(self) -> tuple[int, ...]:
        """Return the tests (of two files: the changes) whose rows are selected."""
        rows = self.table.selected_rows()
        return tuple(int(self.model.shown[row]) for row in rows)

    def tests_of(self, rows: Sequence[int]) -> BenchRuns | None:
        """Return the tests of some rows; None for changes, and tests of two files."""
        data, bench = self.table_data, self.bench
        if data is None or bench is None or bench.chart == CHANGES or data.runs.files:
            return None
        return data.runs.take([int(self.model.shown[row]) for row in rows])

    def _on_rows(self, *_: object) -> None:
        lines = self._compared_lines()
        self.compared.setText("\n".join([*lines[:1], " · ".join(lines[1:])]))
        self.compared.setVisible(bool(lines))
        self.repaint_picture()

    def _compared_lines(self) -> list[str]:
        """Return what is known of the two files, or of two rows."""
        data, bench, chosen = self.table_data, self.bench, self.selected()
        if data is None or bench is None:
            return []
        if self._has_changes():
            compared = bench.compared
            return [] if compared is None else files_lines(data.runs.files, compared)
        if len(chosen) != 2:
            return []
        names = " · ".join(
            f"{side} {_name_of(data, test)}"
            for side, test in zip("AB", chosen, strict=True)
        )
        return [names, *comparison_lines(compare_tests(data.runs, *chosen))]

    def _has_changes(self) -> bool:
        return bool(self.chart_box.currentData() == CHANGES)

    def _on_table_menu(self, menu: QMenu, _: int) -> None:
        if self.compared.isVisibleTo(self):
            add_action(menu, "Copy comparison", self._copy_comparison)

    def _copy_comparison(self) -> None:
        copy_text(self.compared.text())

    # -- picture -----------------------------------------------------------------

    def scene(self, width: float, height: float, scale: float) -> BenchScene | None:
        """Return the scene of the chart; None without tests."""
        bench = self.bench
        if bench is None or not bench.n_drawn:
            return None
        return BenchScene(
            width, height, self.theme, bench, self.log_box.isChecked(), scale,
            self._scroll, self.selected(), self._hover or self._cursor,
        )  # fmt: skip

    def recipe(self, trace: Trace, scene: BenchScene) -> ExportCommand:
        """Return the command line that makes the figure of a scene."""
        bench = scene.bench
        speeds = "auto"
        if bench.chart != CHANGES and scene.is_log != wants_log(bench):
            speeds = "log" if scene.is_log else "linear"
        options = BenchOptions(
            chart=bench.chart, kind=self.kind_box.currentData(), speeds=speeds,
            filter=self.filter_line.text(),
        )  # fmt: skip
        lacks = (NOT_MARKED,) if scene.selected else ()
        return export_command("bench", trace, options, lacks)

    def empty_text(self, trace: Trace) -> tuple[str, str]:
        """Return why there is no chart: a title and a hint."""
        if trace.is_unread:
            return "Reading…", ""
        if trace.bench is None:
            return (
                "No results of llama-bench in this file.",
                "Open what llama-bench -o json, jsonl, csv, md or sql printed.",
            )
        if self.bench is None:
            return "Reading…", ""
        return "No test fits.", "Change the filter, or choose other tests."

    def place_under(self, x: float, y: float) -> tuple[int, int] | None:
        """Return the curve and point at a position of the picture."""
        scene = self.scene_now()
        return None if scene is None else place_at(scene, x, y)

    def point_to(self, place: tuple[int, int] | None) -> None:
        """Highlight the point under the mouse, None for none."""
        if place != self._hover:
            self._hover = place
            self.repaint_picture()

    def select(self, place: tuple[int, int], *, adds: bool = False) -> None:
        """Select the rows of a point; `adds` keeps those that are."""
        bench = self.bench
        if bench is None:
            return
        self._cursor = place
        tests: Sequence[int] = (place[0],)
        if bench.chart != CHANGES:
            tests = bench.curves[place[0]].points[place[1]].tests
        rows = [row for row in map(self.model.row_of, tests) if row >= 0]
        chosen = QItemSelection()
        for row in rows:
            index = self.model.index(row, 0)
            chosen.select(index, index)
        flags = _SELECT
        if not adds:
            flags |= QItemSelectionModel.SelectionFlag.Clear
        self.table.selectionModel().select(chosen, flags)
        if rows:
            self.table.scrollTo(self.model.index(rows[0], 0))
        self.setAccessibleDescription(". ".join(self._lines_of(place)))

    def scroll_rows(self, by: int) -> None:
        """Scroll a chart of rows."""
        scene = self.scene_now()
        if scene is None or not scene.has_rows:
            return
        max_scroll = max(scene.n_rows - most_rows(scene.height), 0)
        self._scroll = min(max(self._scroll + by, 0), max_scroll)
        self.repaint_picture()

    def step(self, curves: int, points: int) -> None:
        """Select a point that many curves (or rows) and points further."""
        bench, scene = self.bench, self.scene_now()
        if bench is None or scene is None:
            return
        curve, point = self._cursor or (0, 0)
        if self._cursor is not None:
            curve = min(max(curve + curves, 0), scene.n_rows - 1)
            point += points
        if not scene.has_rows:
            point = min(max(point, 0), len(bench.curves[curve].points) - 1)
        else:
            point = 0
            n_shown = most_rows(scene.height)
            self._scroll = min(max(self._scroll, curve - n_shown + 1), curve)
        self.select((curve, point))

    # -- input -------------------------------------------------------------------

    def press_key(self, event: QKeyEvent) -> None:
        """Step from point to point, and from curve to curve."""
        self.step(*_STEPS[Qt.Key(event.key())])

    def tooltip_at(self, x: float, y: float) -> str:
        """Return what is known of the point at a position."""
        place = self.place_under(x, y)
        return "" if place is None else "\n".join(self._lines_of(place))

    def _lines_of(self, place: tuple[int, int]) -> list[str]:
        bench = self.bench
        if bench is None:
            return []
        if bench.chart == CHANGES:
            lines = change_lines(bench.changes[place[0]])
            return [bench.labels[place[0]], *lines[1:]]
        curve = bench.curves[place[0]]
        axis = "" if bench.chart == REPETITIONS else bench.chart
        return point_lines(curve, curve.points[place[1]], axis)

    def menu_at(self, x: float, y: float) -> QMenu | None:
        """Return the menu of a position."""
        place = self.place_under(x, y)
        if place is None:
            return None
        menu = QMenu(self)
        add_action(menu, "Select in the table", partial(self.select, place))
        add_action(menu, "Add to the selection", partial(self.select, place, adds=True))
        text = "\n".join(self._lines_of(place))
        add_action(menu, "Copy details", partial(copy_text, text))
        return menu


# -- on a worker -------------------------------------------------------------------


def _loaded(runs: BenchRuns, watcher: Watcher) -> _Loaded:
    table = bench_table(runs, watcher)
    # Looked at by the table as it is drawn: not on the main thread.
    _ = table.intervals, table.extremes, table.shares
    return _Loaded(table, charts_of(table, np.arange(len(table))))


def _chart_of(
    table: BenchTable, tests: I64, chart: str, kind: str, watcher: Watcher
) -> BenchChart:
    watcher.progress(0, 1)
    return bench_chart(table, tests, chart, kind)


# -- texts of the table ------------------------------------------------------------


class _TestOrder:
    """The order of tests by a column of the table."""

    def __init__(self, data: BenchTable, keys: Sequence[str]) -> None:
        self._data, self._keys = data, keys

    def __call__(self, column: int, is_down: bool) -> I64:
        if not 0 <= column < len(self._keys):
            return np.arange(len(self._data))
        return self._data.order(self._keys[column], is_down=is_down)


class _ChangeOrder:
    """The order of changes by a column of the table."""

    def __init__(self, bench: BenchChart) -> None:
        self._found = bench

    def __call__(self, column: int, is_down: bool) -> I64:
        n = len(self._found.changes)
        if column < 0:
            return np.arange(n)
        cells = [_change_cells(self._found, i)[column].sort for i in range(n)]
        known = [i for i in range(n) if cells[i] is not None]
        rest = [i for i in range(n) if cells[i] is None]
        known.sort(key=cells.__getitem__, reverse=is_down)  # type: ignore[arg-type]
        return np.array(known + rest, np.int64)


def _chart_text(chart: str) -> str:
    own = {REPETITIONS: "repetitions per test", CHANGES: "A → B, test by test"}
    return own.get(chart, f"over {chart}")


def _name_of(data: BenchTable, test: int) -> str:
    return data.columns[TEST].text(test) or f"test {test + 1}"


def _headings(data: BenchTable) -> tuple[tuple[Heading, ...], tuple[str, ...]]:
    """Return headings, and the key of each column: what varies comes first."""
    columns = data.columns
    keys = [key for key in (*_FIRST, *columns) if key in columns]
    keys = [key for key in keys if key not in (FILE, TEST, *_TESTED)]
    first = [key for key in keys if key in _FIRST or columns[key].varies]
    order = dict.fromkeys([*first, *keys])
    head = [TEST, SPEED, "±", "range", "95 %", *([FILE] if FILE in columns else [])]
    tips = {
        TEST: ("pp: prompt tokens, tg: generated tokens, @ d: depth", 120),
        SPEED: (
            "tokens per second, mean of the repetitions; the bar: share of the "
            "fastest of the same test", 92,
        ),
        "±": ("standard deviation", 72),
        "range": ("slowest and fastest repetition", 132),
        "95 %": (
            "interval of the mean, by Student's t; from two repetitions on", 132
        ),
        FILE: ("of several files that are open together", 110),
    }  # fmt: skip
    headings = [
        Heading(
            key, *tips[key], right=key not in (TEST, FILE),
            largest_first=key not in (TEST, FILE),
        )
        for key in head
    ]  # fmt: skip
    for key in order:
        several = "several values" if columns[key].varies else "the same in all"
        headings.append(Heading(key, f"{key}: {several}", 96))
    return tuple(headings), (*head, *order)


def _cells(data: BenchTable, keys: Sequence[str], i: int) -> tuple[Cell, ...]:
    mean, stddev = float(data.mean[i]), float(data.stddev[i])
    low, high = (float(end[i]) for end in data.extremes)
    start, end = (float(end[i]) for end in data.intervals)
    own = {
        SPEED: Cell(speed_text(mean), mean, mean, bar=float(data.shares[i])),
        "±": _number(stddev),
        "range": _range(low, high),
        "95 %": _range(start, end),
    }
    return tuple(own[key] if key in own else _value(data, key, i) for key in keys)


def _number(value: float) -> Cell:
    return Cell("") if np.isnan(value) else Cell(speed_text(value), value, value)


def _range(low: float, high: float) -> Cell:
    return Cell("") if np.isnan(low) else Cell(interval_text(Interval(low, high)), low)


def _value(data: BenchTable, key: str, i: int) -> Cell:
    column = data.columns[key]
    number = column.number(i)
    if number is None:
        text = column.text(i)
        return Cell(text, sort=text or None)
    return Cell(column.text(i), number)


_CHANGE_HEADINGS = (
    Heading("test", "what both files have, by all keys of the same value", 220),
    Heading("A, t/s", "tokens per second of the first file", 92, right=True,
            largest_first=True),
    Heading("B, t/s", "tokens per second of the second file", 92, right=True,
            largest_first=True),
    Heading("change", "what B is faster than A", 84, right=True, largest_first=True),
    Heading("95 %", "interval of the difference of the means, as a share of A's "
            "mean (Welch); from two repetitions of each on", 150, right=True,
            largest_first=True),
    Heading("", "noise: the interval holds 0; without repetitions, whether the ranges "
            "overlap", 110),
)  # fmt: skip


def _change_cells(bench: BenchChart, i: int) -> tuple[Cell, ...]:
    change: BenchChange = bench.changes[i]
    relative = change.relative
    low = None if change.difference is None else change.difference.low
    return (
        Cell(bench.labels[i], sort=bench.labels[i]),
        Cell(speed_text(change.a.mean), change.a.mean, change.a.mean),
        Cell(speed_text(change.b.mean), change.b.mean, change.b.mean),
        Cell("" if relative is None else change_text(relative), relative, relative),
        Cell(change_interval_text(change), low),
        Cell(verdict(change), verdict(change)),
    )
