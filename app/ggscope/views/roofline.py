"""Roofline: how near ops come to what memory and arithmetic of the machine allow."""

from functools import partial
from typing import ClassVar

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QMenu, QWidget

from ggscope.analysis.roofline import LeftOutOps, Roofline, RooflinePoint, roofline
from ggscope.descriptions.roofline import (
    REASONS,
    TraceRoofs,
    flops_text,
    limit_text,
    per,
    per_second,
    point_lines,
    point_text,
    roof_share,
    roofline_text,
    trace_roofs,
    weight_text,
    why_no_points,
)
from ggscope.model.selection import SpanGroup
from ggscope.model.trace import Trace
from ggscope.model.units import (
    Clock,
    format_byte_rate,
    format_count,
    format_duration,
    format_exact,
    format_share,
)
from ggscope.render.export import NOT_MARKED, ExportCommand
from ggscope.render.options import export_command
from ggscope.render.roofline import (
    RooflineOptions,
    RooflineScene,
    compose_roofline,
    draw_roofline,
    op_color,
    point_at,
)
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.session.tasks import TaskContext
from ggscope.views.base.canvas import ENTER_KEYS, STEP_KEYS, PaintedView
from ggscope.views.base.gestures import CanvasGestures
from ggscope.views.base.safe_text import add_action
from ggscope.views.base.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.base.widgets import ControlRow

_KEY = "roofline"
_MAX_HIGHLIGHTED = 100_000
"""Spans of a point that are highlighted; of more the first ones."""
_TIME = 5
"""Column by which rows come."""


class RooflineGestures(CanvasGestures):
    """Turns mouse events into calls of the view."""

    def __init__(self, view: "RooflineView") -> None:
        super().__init__(view)
        self._view = view

    def _is_ready(self) -> bool:
        return self._view.scene_now() is not None

    def _leave(self) -> None:
        self._view.point_to(-1)

    def _move(self, _: QMouseEvent, at: QPointF) -> bool:
        self._view.point_to(self._view.point_under(at.x(), at.y()))
        return True

    def _press(self, event: QMouseEvent, at: QPointF) -> bool:
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        point = self._view.point_under(at.x(), at.y())
        if point >= 0:
            self._view.select(point)
        return True

    def _double_click(self, event: QMouseEvent, at: QPointF) -> bool:
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        if self._view.point_under(at.x(), at.y()) >= 0:
            self._view.go_to_longest()
        return True


class RooflineView(PaintedView):
    """A chart of points, and beside it the table of points and of what is left out.

    Attributes
    ----------
    chart : the points; None before they are computed.
    """

    draw_scene = staticmethod(compose_roofline)
    draw_figure = staticmethod(draw_roofline)
    passing: ClassVar = {"hover": -1}
    needs_whole_trace = True
    keys = (*STEP_KEYS, *ENTER_KEYS)

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("Roofline", session, theme, parent)
        self.setObjectName("roofline")
        self.chart: Roofline | None = None
        self._of: Trace | None = None
        self._roofs = TraceRoofs(None)
        self._hover = -1
        self._group: tuple[int, SpanGroup] | None = None
        self._gestures = RooflineGestures(self)
        self.controls = ControlRow(self)
        self.model = TextTableModel(_headings(Clock()), self)
        self.model.came_by = _TIME
        self.table = TextTable(self.model, self, "roofline", keeps_first=True)
        self.table.setAccessibleName("Points of the roofline, and ops left out")
        self.table.clicked.connect(self._on_row)
        self.table.selectionModel().selectionChanged.connect(self._on_row)
        self.table.row_opened.connect(self._on_row_opened)
        split = self.split_with(self.table)
        self.box.addWidget(self.controls)
        self.box.addWidget(split, 1)
        self.set_theme(theme)
        self.connect_until_release((session.selection.changed, self.repaint_picture))

    # -- session ---------------------------------------------------------------

    def compute(self, trace: Trace) -> None:
        """Find the points on a worker."""
        if "accesses" in trace.pending:
            self.forget()
            return
        if trace is not self._of and not trace.is_running:
            self.forget()
        self.run(
            _KEY,
            partial(_points_of, trace),
            partial(self._show, trace),
            "Counting float operations",
        )

    def forget(self) -> None:
        """Show no points."""
        self._show(None, None)

    def _show(
        self, trace: Trace | None, result: tuple[Roofline, TraceRoofs] | None
    ) -> None:
        self._of, self._hover, self._group = trace, -1, None
        self.chart, self._roofs = result or (None, TraceRoofs(None))
        text = ""
        if trace is not None and self.chart is not None:
            self.model.set_headings(_headings(trace.clock))
            if self.chart.points:
                text = roofline_text(trace, self.chart, self._roofs)
        self.controls.message.setText(text)
        self._show_rows()
        self.repaint_picture()

    def _show_rows(self) -> None:
        chart, trace = self.chart, self._of
        if chart is None or trace is None:
            self.model.set_rows(())
            self.table.setVisible(False)
            return
        whole = chart.ticks + sum(x.ticks for x in chart.left_out)
        rows = [
            _point_cells(trace, point, self._roofs, whole, self.theme)
            for point in chart.points
        ]
        rows += [_left_out_cells(trace, x, whole) for x in chart.left_out]
        payloads = [*range(len(chart.points)), *(-1 for _ in chart.left_out)]
        self.model.set_rows(rows, payloads=payloads)
        self.table.fit_columns()
        self.table.setVisible(bool(rows))

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.controls.set_theme(theme)
        self.table.set_theme(theme)
        self._show_rows()

    # -- picture ---------------------------------------------------------------

    def scene(self, width: float, height: float, scale: float) -> RooflineScene | None:
        """Return the scene of the chart; None without points."""
        chart, trace = self.chart, self._of
        if chart is None or trace is None or not chart.points:
            return None
        return RooflineScene(
            trace, chart, self._roofs, width, height, self.theme, scale,
            self._selected(), self._hover,
        )  # fmt: skip

    def _selected(self) -> int:
        """Return the point whose spans are selected, -1 = none."""
        group = self.session.selection.current.group
        is_own = self._group is not None and group is self._group[1]
        return self._group[0] if self._group is not None and is_own else -1

    def recipe(self, trace: Trace, scene: RooflineScene) -> ExportCommand:
        """Return the command line that makes the figure of a scene."""
        lacks = (NOT_MARKED,) if scene.selected >= 0 else ()
        return export_command("roofline", trace, RooflineOptions(), lacks)

    def empty_text(self, trace: Trace) -> tuple[str, str]:
        """Return why there is no chart: a title and a hint."""
        chart = self.chart
        if trace.is_unread or self.is_computing(_KEY) or chart is None:
            return "Counting…", ""
        hint = (
            "Matrix multiplications count where the trace has their reads and times "
            "and a model file (GGUF) or a graph has the shapes."
        )
        return why_no_points(chart).rstrip("."), hint

    # -- points ------------------------------------------------------------------

    def point_under(self, x: float, y: float) -> int:
        """Return the point at a position of the picture, -1 = none."""
        scene = self.scene_now()
        return -1 if scene is None else point_at(scene, x, y)

    def point_to(self, point: int) -> None:
        """Light the point under the mouse, -1 for none."""
        if point != self._hover:
            self._hover = point
            self.repaint_picture()

    def select(self, point: int) -> None:
        """Select the ops of a point: highlights their spans, for stepping through."""
        chart, trace = self.chart, self._of
        if chart is None or trace is None or not 0 <= point < len(chart.points):
            return
        if self._selected() == point:
            return
        ids = tuple(chart.spans_of(point)[:_MAX_HIGHLIGHTED].tolist())
        group = SpanGroup("op", chart.points[point].op, ids=ids)
        self._group = point, group
        self.session.selection.select_group(group)
        self._choose_row(point)
        lines = point_lines(trace, chart.points[point], self._roofs.roofs)
        self.setAccessibleDescription(". ".join(lines))

    def go_to_longest(self) -> None:
        """Show the longest span of the selected point."""
        if self._selected() >= 0:
            self.session.linking.show_longest()

    def step(self, by: int) -> None:
        """Select a point that many further, from little to much intensity."""
        chart = self.chart
        if chart is None or not chart.points:
            return
        order = sorted(
            range(len(chart.points)), key=lambda i: chart.points[i].intensity
        )
        now = self._selected()
        at = order.index(now) + by if now >= 0 else (0 if by > 0 else len(order) - 1)
        self.select(order[min(max(at, 0), len(order) - 1)])

    def _choose_row(self, point: int) -> None:
        for row in range(self.model.rowCount()):
            is_other = self.table.selected_rows() != [row]
            if self.model.payload(row) == point and is_other:
                self.table.selectRow(row)
                return

    def _on_row(self, *_: object) -> None:
        rows = self.table.selected_rows()
        point = self.model.payload(rows[0]) if len(rows) == 1 else -1
        if isinstance(point, int) and point >= 0:
            self.select(point)

    def _on_row_opened(self, _: int) -> None:
        self._on_row()
        self.go_to_longest()

    # -- input -------------------------------------------------------------------

    def press_key(self, event: QKeyEvent) -> None:
        """Step by arrows, show the longest span of the selected point by Enter."""
        key = Qt.Key(event.key())
        if key in STEP_KEYS:
            self.step(STEP_KEYS[key])
        else:
            self.go_to_longest()

    def tooltip_at(self, x: float, y: float) -> str:
        """Return what is known of the point at a position."""
        point = self.point_under(x, y)
        if self._of is None or self.chart is None or point < 0:
            return ""
        lines = point_lines(self._of, self.chart.points[point], self._roofs.roofs)
        return "\n".join(lines)

    def menu_at(self, x: float, y: float) -> QMenu | None:
        """Return the menu of a position."""
        scene, point = self.scene_now(), self.point_under(x, y)
        if scene is None or self.chart is None or point < 0:
            return None
        menu = QMenu(self)
        name = point_text(self.chart.points[point])
        add_action(menu, f"Select {name}", partial(self.select, point))

        def show() -> None:
            self.select(point)
            self.go_to_longest()

        add_action(menu, "Show its longest span", show)
        return menu


def _points_of(trace: Trace, context: TaskContext) -> tuple[Roofline, TraceRoofs]:
    context.check_cancelled()
    return roofline(trace), trace_roofs(trace)


# -- cells -----------------------------------------------------------------------


def _headings(clock: Clock) -> tuple[Heading, ...]:
    def figure(title: str, tip: str, width: int = 84, unit: str = "") -> Heading:
        copied = f"{title} ({unit})" if unit else ""
        return Heading(title, tip, width, right=True, copied=copied, largest_first=True)

    return (
        Heading("op", "Op; dim rows are left out", 96),
        Heading("weight", "Type and shape of the weight", 110),
        figure("vectors", "Vectors multiplied at once, such as tokens", 60),
        figure("experts", "Experts that each token uses", 60),
        figure("ops", "How many ops, each once on however many threads", 60),
        Heading(
            "time", "From the first thread's begin to the last one's end, summed", 76,
            right=True, copied=f"time ({clock.unit_name})", largest_first=True,
        ),
        figure("share", "Share of the time of all ops", 60),
        figure("FLOP/B", "Float operations per byte that is read", 66),
        figure("rate", "Float operations per second", 104, f"FLOP/{per(clock)}"),
        figure("bytes", "Bytes that are read per second", 84, f"B/{per(clock)}"),
        figure("of roof", "Share of what is possible at so many FLOP/B", 66),
        Heading("limit", "The roof over the point, or why ops are left out", 150,
                is_text=True, stretch=True),
    )  # fmt: skip


def _point_cells(
    trace: Trace, point: RooflinePoint, of: TraceRoofs, whole: int, theme: Theme
) -> tuple[Cell, ...]:
    unit, clock = trace.clock.unit, trace.clock
    rate, by = format_byte_rate(point.byte_rate, unit, clock.hz), per_second(clock)
    roof, limit = Cell(""), Cell("")
    if of.roofs is not None:
        share = roof_share(point, of.roofs)
        roof = Cell(format_share(share), share, round(share, 6))
        limit = Cell(limit_text(point, of.roofs))
    tip = "\n".join(point_lines(trace, point, of.roofs))
    return (
        Cell(point.op, tip=tip, color=op_color(point.op, theme), shape="circle"),
        Cell(weight_text(point), tip=tip),
        Cell(format_count(point.columns), point.columns, point.columns),
        Cell(str(point.experts or ""), point.experts, point.experts or ""),
        Cell(format_count(point.n_ops), point.n_ops, point.n_ops),
        Cell(format_duration(point.ticks, unit), point.ticks, point.ticks,
             tip=format_exact(point.ticks, unit)),
        _share_cell(point.ticks, whole),
        Cell(f"{point.intensity:.4g}", point.intensity, point.intensity),
        Cell(flops_text(trace, point.rate), point.rate, round(point.rate * by)),
        Cell(rate, point.byte_rate, round(point.byte_rate * by)),
        roof,
        limit,
    )  # fmt: skip


def _left_out_cells(trace: Trace, ops: LeftOutOps, whole: int) -> tuple[Cell, ...]:
    unit, none = trace.clock.unit, Cell("", is_dim=True)
    time = Cell("")
    if ops.ticks:
        text = format_duration(ops.ticks, unit)
        tip = format_exact(ops.ticks, unit)
        time = Cell(text, ops.ticks, ops.ticks, tip, is_dim=True)
    share = _share_cell(ops.ticks, whole) if ops.ticks else none
    reason = REASONS[ops.reason]
    n_ops = Cell(format_count(ops.n_ops), ops.n_ops, ops.n_ops, is_dim=True)
    return (
        Cell(ops.op, tip=reason, is_dim=True), none, none, none, n_ops, time, share,
        none, none, none, none, Cell(f"left out: {reason}", tip=reason, is_dim=True),
    )  # fmt: skip


def _share_cell(ticks: int, whole: int) -> Cell:
    share = ticks / whole if whole else 0.0
    return Cell(format_share(share), share, round(share, 6))
