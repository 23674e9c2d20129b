"""The histogram beside the statistics; dragging over it filters."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QMenu, QWidget

from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.statistics.amounts import AMOUNTS, Amount
from ggscope.analysis.statistics.distribution import Distribution, distribution
from ggscope.analysis.statistics.scan import SpanBlocks
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.distribution import (
    AMOUNT_NAMES,
    bars_text,
    distribution_text,
)
from ggscope.model.selection import By, Filter, SpanGroup
from ggscope.model.trace import Trace
from ggscope.render.charts import ChartGeometry
from ggscope.render.distribution import (
    DistributionScene,
    bar_near,
    compose_distribution,
    distribution_chart,
)
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.views.base.canvas import ENTER_KEYS, STEP_KEYS, PaintedView
from ggscope.views.base.gestures import CanvasGestures
from ggscope.views.base.safe_text import add_action
from ggscope.views.base.widgets import ControlRow
from ggscope.views.statistics.counting import Mask, Scope, restricted

_KEY = "histogram"
_DRAG_PX = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """What the histogram is of; the same as the table beside it.

    Attributes
    ----------
    mask, where : spans that pass the filter, and the filter.
    group : whose bars are distinguished, None = nobody's.
    """

    index: TraceIndex
    scope: Scope
    by: By
    mask: Mask | None
    where: Filter
    with_estimated: bool
    blocks: SpanBlocks | None
    group: SpanGroup | None = None


class HistogramGestures(CanvasGestures):
    """Turns mouse events into calls of the view."""

    def __init__(self, view: "HistogramView") -> None:
        super().__init__(view)
        self._view = view
        self._pressed: QPointF | None = None
        self._is_dragging = False

    def cancel(self) -> bool:
        """Give up a drag; return whether there was one."""
        was_dragging, self._pressed = self._is_dragging, None
        self._is_dragging = False
        return was_dragging

    def _is_ready(self) -> bool:
        return self._view.scene_now() is not None

    def _leave(self) -> None:
        self._view.point_at(-1)

    def _press(self, event: QMouseEvent, at: QPointF) -> bool:
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        self._pressed, self._is_dragging = at, False
        return True

    def _move(self, _: QMouseEvent, at: QPointF) -> bool:
        view, pressed = self._view, self._pressed
        if pressed is None:
            view.point_at(view.bar_at(at))
            return True
        if self._is_dragging or abs(at.x() - pressed.x()) >= _DRAG_PX:
            self._is_dragging = True
            view.mark(view.bar_at(pressed), view.bar_at(at))
        return True

    def _release(self, _: QMouseEvent, at: QPointF) -> bool:
        pressed, is_drag = self._pressed, self._is_dragging
        self.cancel()
        if pressed is None:
            return False
        if is_drag:
            self._view.filter_marked()
        else:
            self._view.go_to(self._view.bar_at(at))
        return True


class HistogramView(PaintedView):
    """How the times, bytes or rates of what is counted are distributed.

    Attributes
    ----------
    distribution : what is shown; None before it is counted.
    bar : that keys are about, -1 = none.
    marked : bars that are dragged over, or chosen by keys: first, and behind the last.
    """

    draw_scene = staticmethod(compose_distribution)
    passing: ClassVar = {"hover": -1, "cursor": -1, "marked": None}

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("Histogram of the selection", session, theme, parent)
        self.setObjectName("histogram")
        self.distribution: Distribution | None = None
        self.bar = -1
        self.marked: tuple[int, int] | None = None
        self._subject: Subject | None = None
        self._of: Trace | None = None
        self._hover, self._anchor = -1, -1
        self._made = Filter()
        self._gestures: HistogramGestures = HistogramGestures(self)
        self.controls = ControlRow(self)
        names = [(AMOUNT_NAMES[of], of) for of in AMOUNTS]
        tip = "Time of spans, or bytes and rate of ops (bytes by time)"
        self.of_box = self.controls.add_choice("of", names, tip, self._on_amount)
        axes = (("logarithmic", True), ("linear", False))
        self.axis_box = self.controls.add_choice("axis", axes, "Axis", self._on_axis)
        self.box.insertWidget(0, self.controls)
        self.theme_with(self.controls)

    def set_subject(self, subject: Subject | None) -> None:
        """Show the spans of something else; None = of nothing."""
        self._subject = subject
        if subject is None:
            self.cancel(_KEY)
            self._show(None, None)
        else:
            self.invalidate()

    def refresh(self) -> None:
        """Count on a worker."""
        subject = self._subject
        if subject is None or subject.index is not self.session.index:
            return  # what the trace of now has follows
        of: Amount = self.of_box.currentData()
        self.run(
            _KEY,
            partial(_counted, subject, of),
            partial(self._show, subject.index.trace),
            "Counting a histogram",
        )

    def _show(self, trace: Trace | None, distribution: Distribution | None) -> None:
        self.distribution, self._of = distribution, trace
        self._forget()
        text = ""
        if trace is not None and distribution is not None:
            text = distribution_text(trace, distribution)
        self.controls.message.setText(text)
        self.repaint_picture()

    def _forget(self) -> None:
        self.marked, self.bar, self._anchor, self._hover = None, -1, -1, -1
        self._gestures.cancel()

    def _on_amount(self) -> None:
        self.invalidate()

    def _on_axis(self) -> None:
        self._forget()
        self.repaint_picture()

    # -- picture ---------------------------------------------------------------

    def scene(
        self, width: float, height: float, scale: float
    ) -> DistributionScene | None:
        """Return the scene of the chart; None without bars."""
        if self.distribution is None or self._of is None or not self.distribution.n:
            return None
        return DistributionScene(
            self._of, self.distribution, width, height, self.theme, scale,
            self.axis_box.currentData(), self.marked, self.bar, self._hover,
        )  # fmt: skip

    def placeholder_text(self) -> tuple[str, str]:
        """Return why there is no chart: a title and a hint."""
        if self._subject is None:
            return "", ""
        if self.distribution is None or self.is_computing(_KEY):
            return "counting …", ""
        name = AMOUNT_NAMES[self.distribution.of]
        return (
            f"No {name} is known of what is counted.",
            self.controls.message.full_text,
        )

    # -- bars --------------------------------------------------------------------

    def bar_at(self, at: QPointF) -> int:
        """Return the bar nearest to a position, -1 for none."""
        scene = self.scene_now()
        return -1 if scene is None else bar_near(scene, at.x())

    def point_at(self, bar: int) -> None:
        """Light the bar under the mouse, -1 for none."""
        if bar != self._hover:
            self._hover = bar
            self.repaint_picture()

    def mark(self, a: int, b: int) -> None:
        """Mark the bars between two, both included."""
        if a >= 0 and b >= 0:
            self.marked, self.bar, self._anchor = (min(a, b), max(a, b) + 1), b, a
            self.setAccessibleDescription(self._bars_text(*self.marked))
            self.repaint_picture()

    def go_to(self, bar: int) -> None:
        """Put the cursor on a bar; nothing is marked any more."""
        self.marked, self.bar, self._anchor = None, bar, bar
        if bar >= 0:
            self.setAccessibleDescription(self._bars_text(bar, bar + 1))
        self.repaint_picture()

    def filter_marked(self) -> None:
        """Show only what the marked bars, or that under the cursor, count."""
        scene, queries = self.scene_now(), self.session.queries
        chosen = self.marked
        if chosen is None and self.bar >= 0:
            chosen = self.bar, self.bar + 1
        if scene is None or chosen is None:
            return
        edges = scene.bars.edges
        low, stop = int(edges[chosen[0]]), int(edges[chosen[1]])
        self._made = scene.distribution.within(low, stop, queries.filter)
        queries.set_filter(self._made)

    def take_back(self) -> bool:
        """Unmark, else undo the filter made here; return whether there was one."""
        if self._gestures.cancel() or self.marked is not None or self.bar >= 0:
            self.go_to(-1)
            return True
        if self._made and self.session.queries.filter == self._made:
            self._made = Filter()
            self.session.navigator.back()
            return True
        return False

    def _bars_text(self, a: int, b: int) -> str:
        scene = self.scene_now()
        if scene is None:
            return ""
        return bars_text(scene.trace, scene.distribution, scene.bars, a, b)

    # -- input -------------------------------------------------------------------

    def takes_key(self, event: QKeyEvent) -> bool:
        """Return whether a key moves the cursor, filters or takes back."""
        key = Qt.Key(event.key())
        if key == Qt.Key.Key_Escape:
            is_ours = bool(self._made) and self.session.queries.filter == self._made
            return is_ours or self.marked is not None or self.bar >= 0
        allowed = Qt.KeyboardModifier.KeypadModifier | Qt.KeyboardModifier.ShiftModifier
        is_known = key in STEP_KEYS or key in ENTER_KEYS
        return (
            is_known
            and not event.modifiers() & ~allowed
            and self.distribution is not None
        )

    def press_key(self, event: QKeyEvent) -> None:
        """Move the cursor, mark with Shift, filter with Enter, take back with Esc."""
        key, scene = Qt.Key(event.key()), self.scene_now()
        if key == Qt.Key.Key_Escape:
            self.take_back()
        elif key in ENTER_KEYS:
            self.filter_marked()
        elif scene is not None:
            last = len(scene.bars.counts) - 1
            is_first = self.bar < 0
            begin = 0 if STEP_KEYS[key] > 0 else last
            bar = begin if is_first else self.bar + STEP_KEYS[key]
            bar = min(max(bar, 0), last)
            has_shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            if has_shift and not is_first:
                self.mark(self._anchor, bar)
            else:
                self.go_to(bar)

    def tooltip_at(self, x: float, y: float) -> str:
        """Return what the bar at a position holds."""
        scene = self.scene_now()
        if scene is None:
            return ""
        geometry = ChartGeometry(distribution_chart(scene, scene.bars))
        if geometry.value_at(x, y) is None:
            return ""
        bar = bar_near(scene, x)
        return f"{self._bars_text(bar, bar + 1)}\nDrag to filter."

    def menu_at(self, x: float, y: float) -> QMenu | None:
        """Return the menu of a position."""
        scene = self.scene_now()
        if scene is None:
            return None
        menu, bar = QMenu(self), bar_near(scene, x)
        text = self._bars_text(bar, bar + 1).split("\n")[0]

        def show_only() -> None:
            self.go_to(bar)
            self.filter_marked()

        add_action(menu, f"Show only {text}", show_only)
        return menu


def _counted(subject: Subject, of: Amount, watcher: Watcher) -> Distribution:
    mask, ids = restricted(subject.index, subject.scope, subject.mask)
    return distribution(
        subject.index.trace, of, by=subject.by, group=subject.group, mask=mask, ids=ids,
        time=subject.scope.time, include_estimated=subject.with_estimated,
        blocks=subject.blocks, watcher=watcher,
    )  # fmt: skip
