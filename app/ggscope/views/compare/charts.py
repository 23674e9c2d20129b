"""Pages of the comparison that are charts: steps from A to B, durations of a group."""

from functools import partial
from typing import ClassVar

import numpy as np
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QWidget

from ggscope.analysis.compare.histogram import Histogram, duration_histogram
from ggscope.analysis.compare.matching import group_names
from ggscope.analysis.compare.waterfall import Step, Waterfall, waterfall
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.compare import (
    group_text,
    step_share_text,
    step_times_text,
    steps_spread_text,
    ticks_text,
    waterfall_notes,
    waterfall_text,
)
from ggscope.model.selection import By, SpanGroup
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, format_duration
from ggscope.render.charts import ChartGeometry
from ggscope.render.compare.charts import (
    HistogramScene,
    WaterfallScene,
    compose_histogram,
    compose_waterfall,
    histogram_chart,
    waterfall_rows,
)
from ggscope.render.compare.rows_chart import RowsGeometry
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.views.base.canvas import ENTER_KEYS, PaintedView
from ggscope.views.base.gestures import CanvasGestures, WheelDelta
from ggscope.views.base.widgets import ControlRow
from ggscope.views.compare.compared import Compared

_KEY = "compare-chart"
_STEPS_BY = (
    ("op family", "family"),
    ("op", "op"),
    ("layer", "layer"),
    ("work, waits, idle", "part"),
)
_TOKENS = (
    ("generated, if any", None),
    ("prompt", "prompt"),
    ("all", "all"),
)
_GROUPS: dict[str, By] = {"family": "family", "op": "op", "layer": "layer"}
_STEPS = {
    Qt.Key.Key_Up: -1,
    Qt.Key.Key_Down: 1,
    Qt.Key.Key_PageUp: -8,
    Qt.Key.Key_PageDown: 8,
}


def steps_of(
    compared: Compared, by: str, tokens: str | None, watcher: Watcher
) -> Waterfall:
    """Return the steps from A to B. Raises Cancelled from the watcher."""
    return waterfall(
        compared.traces, compared.comparison.alignment, compared.n_a,
        by, tokens, watcher,  # type: ignore[arg-type]  # of the choices above
    )  # fmt: skip


class StepsPane(PaintedView):
    """Steps from A's time per token to B's; a click highlights a step's spans.

    Attributes
    ----------
    waterfall : what is shown; None before it is computed.
    by, tokens : what the steps are, and of which tokens.
    """

    draw_scene = staticmethod(compose_waterfall)
    passing: ClassVar = {"hover": -1}
    keys = (*_STEPS, *ENTER_KEYS)

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("Steps from A to B", session, theme, parent)
        self.setObjectName("compare_steps")
        self.waterfall: Waterfall | None = None
        self._compared: Compared | None = None
        self._hover, self._scroll, self._current = -1, 0, -1
        self._gestures = _RowGestures(self)
        self.controls = ControlRow(self)
        self.by = self.controls.add_choice(
            "steps by", _STEPS_BY, "What a step is", self.invalidate
        )
        self.tokens = self.controls.add_choice(
            "tokens", _TOKENS, "Tokens that count", self.invalidate
        )
        self.box.insertWidget(0, self.controls)
        self.theme_with(self.controls)

    def set_compared(self, compared: Compared | None) -> None:
        """Show the steps of another comparison, as soon as the page is seen."""
        self._compared, self.waterfall = compared, None
        self.invalidate()

    def compute(self, trace: Trace) -> None:
        """Compute the steps on a worker."""
        self.waterfall, self._current, self._scroll = None, -1, 0
        self.controls.message.setText("")
        compared = self._compared
        if compared is None:
            self.cancel(_KEY)
        else:
            by, tokens = self.by.currentData(), self.tokens.currentData()
            request = partial(steps_of, compared, by, tokens)
            self.run(_KEY, request, self._show, "Computing steps")
        self.repaint_picture()

    def _show(self, waterfall: Waterfall) -> None:
        self.waterfall = waterfall
        if self._compared is not None:
            texts = [waterfall_text(waterfall, self._compared.unit)]
            self.controls.message.setText(" ".join(texts + waterfall_notes(waterfall)))
        self.repaint_picture()

    def scene(self, width: float, height: float, scale: float) -> WaterfallScene | None:
        """Return the scene; None without steps."""
        if (
            self.waterfall is None
            or self.waterfall.total is None
            or self._compared is None
        ):
            return None
        return WaterfallScene(
            self.waterfall, self._compared.unit, width, height, self.theme, scale,
            self._scroll, self._hover,
        )  # fmt: skip

    def empty_text(self, trace: Trace) -> tuple[str, str]:
        """Return why there are no steps."""
        if self._compared is None:
            return "", ""
        if self.waterfall is None:
            return "Computing…", ""
        return waterfall_text(self.waterfall, self._compared.unit).rstrip("."), ""

    def step_at(self, y: float) -> int:
        """Return the row at a height, 0 = A; -1 for none."""
        scene = self.scene_now()
        return -1 if scene is None else RowsGeometry(waterfall_rows(scene)).row_at(y)

    def step(self, row: int) -> Step | None:
        """Return the step of a row; None of A, B and none."""
        waterfall = self.waterfall
        if waterfall is None or not 0 < row <= len(waterfall.steps):
            return None
        return waterfall.steps[row - 1]

    def point_at(self, row: int) -> None:
        """Highlight a row, -1 for none."""
        if row != self._hover:
            self._hover = row
            self.repaint_picture()

    def light(self, row: int) -> None:
        """Select the spans of a step in this tab."""
        step, by = self.step(row), _GROUPS.get(self.by.currentData())
        if step is not None and by is not None and step.n_joined == 1:
            self.session.selection.select_group(SpanGroup(by, step.key))

    def go(self, by: int) -> None:
        """Go so many rows further down, and report what is there."""
        scene = self.scene_now()
        if scene is None:
            return
        rows = waterfall_rows(scene)
        row = min(max(self._current + by, 0), len(rows.rows) - 1)
        self._current = self._hover = row
        geometry = RowsGeometry(rows)
        if row not in geometry.shown:
            n = geometry.n_scrolled
            self._scroll = max(row - n + 1 if by > 0 else row, 0)
        self.setAccessibleDescription(self.row_text(row).replace("\n", ". "))
        self.repaint_picture()

    def scroll_rows(self, by: int) -> None:
        """Scroll the rows where not all fit."""
        scene = self.scene_now()
        if scene is not None:
            geometry = RowsGeometry(waterfall_rows(scene))
            max_scroll = len(geometry.scene.rows) - geometry.n
            self._scroll = min(max(self._scroll + by, 0), max(max_scroll, 0))
            self.repaint_picture()

    def row_text(self, row: int) -> str:
        """Return every figure of a row."""
        waterfall, compared = self.waterfall, self._compared
        if waterfall is None or waterfall.total is None or compared is None or row < 0:
            return ""
        unit, step = compared.unit, self.step(row)
        if step is None:
            is_b = row > 0
            runs = waterfall.total.b if is_b else waterfall.total.a
            mean = waterfall.total.mean_b if is_b else waterfall.total.mean_a
            n = (waterfall.n_b if is_b else waterfall.n_a)[0]
            title = compared.title_b if is_b else compared.title_a
            lines = [f"{'B' if is_b else 'A'}: {title}", ticks_text(mean, unit)]
            if waterfall.noun != "run":
                lines[1] += f" per {waterfall.noun}, {format_count(n)} of them"
            if len(runs) > 1:
                lines.append(steps_spread_text(runs, unit))
            return "\n".join(lines)
        lines = [
            step.key,
            step_times_text(step, compared.comparison, unit),
            f"change {ticks_text(step.change, unit, signed=True)}",
        ]
        if share := step_share_text(step):
            lines[-1] += f" ({share})"
        for name, runs in (("A", step.a), ("B", step.b)):
            if len(runs) > 1:
                lines.append(f"{name}: {steps_spread_text(runs, unit)}")
        if step.is_noise and step.change:
            lines.append("within the range of the runs")
        return "\n".join(lines)

    def tooltip_at(self, x: float, y: float) -> str:
        """Return every figure of the row at a position."""
        return self.row_text(self.step_at(y))

    def press_key(self, event: QKeyEvent) -> None:
        """Go from row to row by arrows, highlight a step's spans by Enter."""
        key = Qt.Key(event.key())
        if key in _STEPS:
            self.go(_STEPS[key])
        else:
            self.light(self._current)


class _RowGestures(CanvasGestures):
    """Turns mouse events into calls of the page."""

    def __init__(self, view: StepsPane) -> None:
        super().__init__(view)
        self._view = view

    def _is_ready(self) -> bool:
        return self._view.scene_now() is not None

    def _leave(self) -> None:
        self._view.point_at(-1)

    def _move(self, _: QMouseEvent, at: QPointF) -> bool:
        self._view.point_at(self._view.step_at(at.y()))
        return True

    def _press(self, event: QMouseEvent, at: QPointF) -> bool:
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        self._view.light(self._view.step_at(at.y()))
        return True

    def _wheel(self, turn: WheelDelta, at: QPointF) -> bool:
        self._view.scroll_rows(-1 if turn.y > 0 else 1)
        return True


# -- durations ---------------------------------------------------------------------


def histogram_of(
    compared: Compared, key: str, is_log: bool, watcher: Watcher
) -> Histogram:
    """Return the durations of a group. Raises Cancelled from the watcher."""
    comparison = compared.comparison
    names = group_names(key, comparison.by, compared.traces, comparison.alignment)
    return duration_histogram(
        compared.traces, comparison.alignment, comparison.n_a, comparison.by, names,
        is_log=is_log, watcher=watcher,
    )  # fmt: skip


class DurationsPane(PaintedView):
    """Durations of the spans of a group on both sides, one over the other.

    Attributes
    ----------
    histogram : what is shown; None before it is computed.
    axis_box : whether the axis is logarithmic.
    """

    draw_scene = staticmethod(compose_histogram)
    passing: ClassVar = {"hover": None}

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("Durations of A and B", session, theme, parent)
        self.setObjectName("compare_durations")
        self.histogram: Histogram | None = None
        self._compared: Compared | None = None
        self.key = ""
        self._hover: tuple[float, float] | None = None
        self._gestures = _HairGestures(self)
        self.controls = ControlRow(self)
        axes = (("logarithmic", True), ("linear", False))
        self.axis_box = self.controls.add_choice(
            "axis", axes, "Axis of durations", self.invalidate
        )
        self.box.insertWidget(0, self.controls)
        self.theme_with(self.controls)

    def set_compared(self, compared: Compared | None, key: str) -> None:
        """Show the durations of a group, as soon as the page is seen."""
        if compared is self._compared and key == self.key:
            return
        self._compared, self.key = compared, key
        self.invalidate()

    def compute(self, trace: Trace) -> None:
        """Count the durations on a worker."""
        self.histogram, self._hover = None, None
        self.controls.message.setText("")
        if self._compared is None or not self.key:
            self.cancel(_KEY)
        else:
            is_log = self.axis_box.currentData()
            request = partial(histogram_of, self._compared, self.key, is_log)
            self.run(_KEY, request, self._show, "Counting durations")
        self.repaint_picture()

    def _show(self, histogram: Histogram) -> None:
        self.histogram = histogram
        if self._compared is not None:
            group = group_text(self._compared.comparison.by, histogram.key)
            text = f"{group}: choose another row in Changes."
            self.controls.message.setText(text)
        self.repaint_picture()

    def scene(self, width: float, height: float, scale: float) -> HistogramScene | None:
        """Return the scene; None without a known duration."""
        histogram = self.histogram
        if histogram is None or self._compared is None:
            return None
        if not histogram.a.timed and not histogram.b.timed:
            return None
        return HistogramScene(
            histogram, self._compared.unit, width, height, self.theme, scale,
            hover=self._hover,
        )  # fmt: skip

    def empty_text(self, trace: Trace) -> tuple[str, str]:
        """Return why there is no chart."""
        if self._compared is None:
            return "", ""
        if not self.key:
            return "No group in common", "Choose another grouping."
        if self.histogram is None:
            return "Counting…", ""
        return f"No span of {self.key} has a known time", ""

    def point_at(self, x: float, y: float) -> None:
        """Put the cross hair at a position of the picture."""
        scene = self.scene_now()
        hover = None
        if scene is not None:
            hover = ChartGeometry(histogram_chart(scene)).value_at(x, y)
        if hover != self._hover:
            self._hover = hover
            self.repaint_picture()

    def tooltip_at(self, x: float, y: float) -> str:
        """Return how many spans of each side lie in the bin at a position."""
        scene = self.scene_now()
        if scene is None:
            return ""
        value = ChartGeometry(histogram_chart(scene)).value_at(x, y)
        if value is None:
            return ""
        histogram, unit = scene.histogram, scene.unit
        row = int(np.searchsorted(histogram.edges, value[0], "right")) - 1
        row = min(max(row, 0), len(histogram.a.counts) - 1)
        low, high = (
            format_duration(float(edge), unit)
            for edge in histogram.edges[row : row + 2]
        )
        lines = [f"{low} … {high}"]
        for name, side in (("A", histogram.a), ("B", histogram.b)):
            n = float(side.counts[row])
            text = format_count(round(n)) if n.is_integer() else f"{n:.1f}"
            lines.append(f"{name}: {text} of {format_count(side.timed)} spans")
        return "\n".join(lines)


class _HairGestures(CanvasGestures):
    """Turns mouse events into calls of the page."""

    def __init__(self, view: DurationsPane) -> None:
        super().__init__(view)
        self._view = view

    def _leave(self) -> None:
        self._view.point_at(-1, -1)

    def _move(self, _: QMouseEvent, at: QPointF) -> bool:
        self._view.point_at(at.x(), at.y())
        return True
