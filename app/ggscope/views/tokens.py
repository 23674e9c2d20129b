"""Token latency: how long each token takes, and how that grows with the context."""

from functools import partial
from typing import ClassVar

import numpy as np
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QMenu, QWidget

from ggscope.analysis.compare.bar_parts import BarParts, bar_parts
from ggscope.analysis.summary.bars import bar_text
from ggscope.analysis.summary.latency import Latency, token_latency
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.spans import phase_word
from ggscope.descriptions.tokens import (
    bar_lines,
    bars_lines,
    fit_text,
    latency_text,
    part_text,
    parts_lines,
    parts_text,
)
from ggscope.model.tables import I64, Phase, Quality
from ggscope.model.trace import Trace
from ggscope.render.charts import ChartGeometry
from ggscope.render.export import NOT_MARKED, ExportCommand
from ggscope.render.options import export_command
from ggscope.render.theme import Theme
from ggscope.render.tokens import (
    MIN_WINDOW,
    TokensOptions,
    TokensScene,
    Window,
    bars_at,
    chart_of_tokens,
    compose_tokens,
    draw_tokens,
    full_window,
    shown_rows,
    why_nothing,
    x_values,
)
from ggscope.sanitize import Value
from ggscope.session.session import Session
from ggscope.session.tasks import TaskContext
from ggscope.views.base.canvas import ENTER_KEYS, STEP_KEYS, PaintedView
from ggscope.views.base.cells import CopyForm, TableFile, rows_text
from ggscope.views.base.copying import Copyable
from ggscope.views.base.gestures import CanvasGestures, WheelDelta
from ggscope.views.base.safe_text import add_action, copy_text
from ggscope.views.base.widgets import ControlRow

_KEY, _PARTS = "tokens", "parts"
_ZOOM_STEP = 1.25
_DRAG_PX = 4.0
_CHECK_ROWS = 4096
_ZOOMS = {Qt.Key.Key_Up: 1 / _ZOOM_STEP, Qt.Key.Key_Down: _ZOOM_STEP}


_Measured = tuple[Latency | None, BarParts | None]


class TokensGestures(CanvasGestures):
    """Turns mouse events into calls of the view."""

    def __init__(self, view: "TokensView") -> None:
        super().__init__(view)
        self._view = view
        self._pressed: QPointF | None = None
        self._pressed_window: Window = (0.0, 1.0)
        self._is_panning = False

    def _is_ready(self) -> bool:
        return self._view.scene_now() is not None

    def _leave(self) -> None:
        self._view.point_at(-1)

    def _press(self, event: QMouseEvent, at: QPointF) -> bool:
        buttons = (Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton)
        if event.button() not in buttons:
            return False
        self._pressed, self._is_panning = at, False
        self._pressed_window = self._view.window_now()
        return True

    def _move(self, _: QMouseEvent, at: QPointF) -> bool:
        if self._pressed is None:
            rows = self._view.rows_at(at.x(), at.y())
            self._view.point_at(int(rows[0]) if len(rows) else -1)
            return True
        dx = self._pressed.x() - at.x()
        if self._is_panning or abs(dx) >= _DRAG_PX:
            self._is_panning = True
            low, high = self._pressed_window
            shift = dx * self._view.units_per_px()
            self._view.set_window(low + shift, high + shift)
        return True

    def _release(self, event: QMouseEvent, at: QPointF) -> bool:
        pressed, self._pressed = self._pressed, None
        is_click = event.button() == Qt.MouseButton.LeftButton and not self._is_panning
        self._is_panning = False
        if pressed is None:
            return False
        rows = self._view.rows_at(at.x(), at.y())
        if is_click and len(rows):
            self._view.go_to(int(rows[0]))
        return True

    def _wheel(self, turn: WheelDelta, at: QPointF) -> bool:
        if turn.x:
            low, high = self._view.window_now()
            shift = -turn.pan_px * self._view.units_per_px()
            self._view.set_window(low + shift, high + shift)
        elif turn.y:
            self._view.zoom_axis(_ZOOM_STEP**-turn.notches, at.x())
        return True

    def _pinch(self, factor: float, at: QPointF) -> bool:
        self._view.zoom_axis(1 / factor, at.x())
        return True


class TokensView(Copyable, PaintedView):
    """A bar per token, ubatch or graph pass; its axis follows nothing else.

    Attributes
    ----------
    latency : what is shown; None before it is computed.
    window_range : part of the x axis that is shown; None = all of it.
    parts : of what its bars are made; None before that is asked for and computed.
    """

    draw_scene = staticmethod(compose_tokens)
    needs_whole_trace = True
    draw_figure = staticmethod(draw_tokens)
    passing: ClassVar = {"hover": -1}
    keys = (*STEP_KEYS, *_ZOOMS, *ENTER_KEYS)

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("Token latency", session, theme, parent)
        self.setObjectName("tokens")
        self.latency: Latency | None = None
        self.window_range: Window | None = None
        self.parts: BarParts | None = None
        self._of: Trace | None = None
        self._hover = -1
        self._gestures = TokensGestures(self)
        self.controls = ControlRow(self)
        axes = (("order of time", "time"), ("context", "context"))
        self.over_box = self.controls.add_choice(
            "over", axes, "What the x axis is", self._on_choice
        )
        phases = (("all", "all"), ("prompt", "prompt"), ("generated", "generated"))
        self.show_box = self.controls.add_choice(
            "show", phases, "Phase of the bars", self._on_choice
        )
        tip = (
            "Stack bars by the op families that run in them; families that run at "
            "once share the time equally"
        )
        self.stack_box = self.controls.add_switch("Op families", tip, self._on_stack)
        self.controls.add_button("Show all", "Show the whole axis", self.show_all)
        self.controls.add_button("Copy", "Copy all bars as text", self.copy_tsv)
        self.box.insertWidget(0, self.controls)
        self.theme_with(self.controls)
        self.connect_until_release((session.selection.changed, self.repaint_picture))

    # -- session ---------------------------------------------------------------

    def forget(self) -> None:
        """Show no bars."""
        self._show(None, (None, None))

    def compute(self, trace: Trace) -> None:
        """Measure the bars on a worker."""
        if trace is not self._of and not trace.is_running:
            self.forget()
        # Bars of a running program change again and again: they come with their parts.
        has_parts = self.is_stacked and trace.is_running
        self.run(
            _KEY,
            partial(_measured, trace, has_parts),
            partial(self._show, trace),
            "Measuring the latency of tokens",
        )

    def _show(self, trace: Trace | None, measured: _Measured) -> None:
        latency, parts = measured
        if trace is None or not trace.is_running:
            self.window_range = None
        self.latency, self._of, self._hover = latency, trace, -1
        self.parts = parts
        self._measure_parts()
        self._say()
        self.repaint_picture()

    def _measure_parts(self) -> None:
        """Measure on a worker what runs in the bars, where that is shown anew."""
        latency, trace = self.latency, self._of
        if self.parts is not None or not self.is_stacked:
            return
        if latency is not None and trace is not None:
            self.run(
                _PARTS,
                partial(bar_parts, trace),
                partial(self._show_parts, latency),
                "Measuring what runs in tokens",
            )

    def _show_parts(self, latency: Latency, parts: BarParts) -> None:
        if latency is self.latency:
            self.parts = parts
            self._say()
            self.repaint_picture()

    @property
    def is_stacked(self) -> bool:
        """Whether bars are stacked: dots over the context are not."""
        is_time = self.over_box.currentData() == "time"
        return is_time and self.stack_box.isChecked()

    def _on_stack(self) -> None:
        self._measure_parts()
        self._say()
        self.repaint_picture()

    def _say(self) -> None:
        text, trace, latency = "", self._of, self.latency
        if trace is not None and latency is not None and len(latency.bars):
            is_context = self.over_box.currentData() == "context"
            text = (fit_text if is_context else latency_text)(trace, latency)
            scene = self.scene(1, 1, 1)
            if scene is not None and scene.stack is not None:
                text = f"{parts_text(scene.stack, shown_rows(scene))} · {text}"
        self.controls.message.setText(text)

    def _on_choice(self) -> None:
        self.stack_box.setEnabled(self.over_box.currentData() == "time")
        self._measure_parts()
        self.show_all()
        self._hover = -1
        self._say()

    # -- picture ---------------------------------------------------------------

    def scene(self, width: float, height: float, scale: float) -> TokensScene | None:
        """Return the scene of the chart; None without bars."""
        latency, trace = self.latency, self._of
        if latency is None or trace is None or self.session.trace is None:
            return None
        scene = TokensScene(
            trace, latency, width, height, self.theme, scale,
            self.over_box.currentData(), self.show_box.currentData(),
            self.window_range, self._selected(latency), self._hover,
            parts=self.parts if self.is_stacked else None,
        )  # fmt: skip
        return scene if len(shown_rows(scene)) else None

    def _selected(self, latency: Latency) -> int:
        """Return the bar whose span is selected, -1 for none."""
        selection = self.session.selection.current
        if selection.table != "spans" or selection.active is None:
            return -1
        at = np.flatnonzero(latency.bars.span == selection.active)
        return int(at[0]) if len(at) else -1

    def recipe(self, trace: Trace, scene: TokensScene) -> ExportCommand:
        """Return the command line that makes the figure of a scene."""
        options = TokensOptions(
            over=scene.over, show=scene.show, window=scene.window,
            stack="none" if scene.stack is None else "family",
        )  # fmt: skip
        lacks = (NOT_MARKED,) if scene.selected >= 0 else ()
        return export_command("tokens", trace, options, lacks)

    def empty_text(self, trace: Trace) -> tuple[str, str]:
        """Return why there is no chart: a title and a hint."""
        latency = self.latency
        if trace.is_unread or self.is_computing(_KEY) or latency is None:
            return "Measuring…", ""
        scene = TokensScene(
            trace, latency, 1, 1, self.theme, 1, self.over_box.currentData(),
            self.show_box.currentData(),
        )  # fmt: skip
        if not len(latency.bars):
            hint = (
                "Recordings, event streams and NPU traces record when each token or "
                "graph is computed."
            )
        elif scene.over == "context" and not (latency.position >= 0).any():
            hint = "Recordings of ggscope-capture hold the position of each token."
        else:
            hint = "Choose another phase, or the order of time."
        return why_nothing(scene).rstrip("."), hint

    # -- axis --------------------------------------------------------------------

    def window_now(self) -> Window:
        """Return the part of the x axis that is shown."""
        scene = self.scene_now()
        if scene is None:
            return 0.0, 1.0
        return scene.window or full_window(scene)

    def units_per_px(self) -> float:
        """Return how many bars, or tokens of context, a pixel is."""
        scene = self.scene_now()
        if scene is None:
            return 0.0
        geometry = ChartGeometry(chart_of_tokens(scene))
        low, high = self.window_now()
        return (high - low) / (geometry.right - geometry.left)

    def set_window(self, low: float, high: float) -> None:
        """Show this part of the x axis, moved into its bounds."""
        scene = self.scene_now()
        if scene is None:
            return
        first, last = full_window(scene)
        width = min(max(high - low, MIN_WINDOW), last - first)
        middle = (low + high) / 2
        low = min(max(middle - width / 2, first), last - width)
        is_all = width >= last - first
        self.window_range = None if is_all else (low, low + width)
        self.repaint_picture()

    def show_all(self) -> None:
        """Show the whole x axis."""
        self.window_range = None
        self.repaint_picture()

    def zoom_axis(self, factor: float, x: float | None = None) -> None:
        """Make the window `factor` times as wide around a pixel, or its middle."""
        scene = self.scene_now()
        if scene is None:
            return
        low, high = self.window_now()
        geometry = ChartGeometry(chart_of_tokens(scene))
        share = 0.5
        if x is not None:
            share = (x - geometry.left) / (geometry.right - geometry.left)
            share = min(max(share, 0.0), 1.0)
        first, last = full_window(scene)
        width = min(max((high - low) * factor, MIN_WINDOW), last - first)
        centre = low + (high - low) * share
        self.set_window(centre - width * share, centre + width * (1 - share))

    # -- bars --------------------------------------------------------------------

    def rows_at(self, x: float, y: float) -> I64:
        """Return the bars at a position of the picture, see ``bars_at``."""
        scene = self.scene_now()
        return np.zeros(0, np.int64) if scene is None else bars_at(scene, x, y)

    def point_at(self, row: int) -> None:
        """Light the bar under the mouse, -1 for none."""
        if row != self._hover:
            self._hover = row
            self.repaint_picture()

    def go_to(self, row: int) -> None:
        """Select the span of a bar and fit the timeline to it."""
        if self.latency is None:
            return
        self.session.selection.select_span(int(self.latency.bars.span[row]))
        self.session.navigator.fit_selection()

    def step(self, by: int) -> None:
        """Select a bar that many further along the axis, and bring it into view."""
        scene = self.scene_now()
        if scene is None:
            return
        rows = shown_rows(scene)
        x = x_values(scene, rows)
        order = np.argsort(x, kind="stable")
        rows, x = rows[order], x[order]
        low, high = self.window_now()
        at = np.flatnonzero(rows == scene.selected)
        if len(at):
            position = int(at[0]) + by
        else:  # begin with what is shown
            inside = np.flatnonzero((x >= low) & (x <= high))
            position = int(inside[0 if by > 0 else -1]) if len(inside) else 0
            position += by if abs(by) > 1 else 0
        position = min(max(position, 0), len(rows) - 1)
        row, value = int(rows[position]), float(x[position])
        self.session.selection.select_span(
            int(scene.latency.bars.span[row]), reveal=False
        )
        lines = bar_lines(scene.trace, scene.latency, row)
        if scene.stack is not None:
            lines += parts_lines(scene.trace, scene.stack, np.array([row]))
        self.setAccessibleDescription(". ".join(lines))
        air = 0.5 if scene.over == "time" else 0.0
        shift = min(value - air - low, 0.0) + max(value + air - high, 0.0)
        if shift and self.window_range is not None:
            self.set_window(low + shift, high + shift)

    # -- input -------------------------------------------------------------------

    def press_key(self, event: QKeyEvent) -> None:
        """Step by arrows, zoom the axis, go to the selected bar by Enter."""
        key = Qt.Key(event.key())
        if key in STEP_KEYS:
            self.step(STEP_KEYS[key])
        elif key in _ZOOMS:
            self.zoom_axis(_ZOOMS[key])
        elif self.latency is not None and (row := self._selected(self.latency)) >= 0:
            self.go_to(row)

    def tooltip_at(self, x: float, y: float) -> str:
        """Return what is known of the bars at a position."""
        rows = self.rows_at(x, y)
        if self._of is None or self.latency is None or not len(rows):
            return ""
        lines = bars_lines(self._of, self.latency, rows)
        if self.parts is not None and self.is_stacked:
            lines += parts_lines(self._of, self.parts, rows)
        return "\n".join(lines)

    def menu_at(self, x: float, y: float) -> QMenu | None:
        """Return the menu of a position."""
        if self.scene_now() is None or self._of is None or self.latency is None:
            return None
        menu, rows = QMenu(self), self.rows_at(x, y)
        if len(rows):
            row = int(rows[0])
            name = bar_text(self._of, self.latency.bars, row)
            add_action(menu, f"Go to {name}", partial(self.go_to, row))
        add_action(menu, "Show all", self.show_all)
        add_action(menu, "Copy all bars", self.copy_tsv)
        return menu

    # -- copying -----------------------------------------------------------------

    def copy_rows(self, form: CopyForm) -> None:
        """Copy the shown bars, made on a worker."""
        if (table := self.table_file()) is not None:
            self.run("copy", partial(table.text, form), copy_text, "Copying bars")

    def table_file(self) -> TableFile | None:
        """Return the bars of the chosen phase for a file."""
        scene = self.scene(800, 600, 1)
        if scene is None:
            return None
        n = len(shown_rows(scene))
        return TableFile("token-latency", partial(_rows_text, scene), n, n)


def _rows_text(scene: TokensScene, form: CopyForm, watcher: Watcher) -> str:
    """Return the shown bars as text."""
    trace, latency = scene.trace, scene.latency
    bars, unit = latency.bars, trace.clock.unit_name
    titles = (
        bars.noun, "name", "phase", "tokens", "position", f"begin ({unit})",
        f"wall time ({unit})", "quality",
        *(f"{word} ({unit})" for word in part_text(scene.stack)),
    )  # fmt: skip
    phases = {phase: phase_word(trace, phase) for phase in (-1, *Phase)}
    shown, rows = shown_rows(scene), []
    for number, row in enumerate(shown.tolist()):
        if not number % _CHECK_ROWS:
            watcher.progress(number, len(shown))
        rows.append((
            int(bars.key[row]),
            trace.span_name(int(bars.span[row])),
            phases[int(bars.phase[row])],
            _known(int(bars.n_tokens[row])),
            _known(int(latency.position[row])),
            int(bars.start[row]),
            int(bars.duration[row]),
            Quality(int(bars.quality[row])).word,
            *_part_values(scene.stack, row),
        ))  # fmt: skip
    return rows_text(form, titles, rows)


def _part_values(parts: BarParts | None, row: int) -> list[Value]:
    """Return the times of a bar's parts, or nothing where it has none."""
    if parts is None:
        return []
    if not parts.is_split[row]:
        return [""] * len(part_text(parts))
    ticks = [*parts.ticks[row].tolist(), int(parts.idle[row])]
    return [n / parts.divisor if n % parts.divisor else n // parts.divisor
            for n in ticks]  # fmt: skip


def _known(value: int) -> Value:
    """Return a number, or nothing where it is not known."""
    return value if value >= 0 else ""


def _measured(trace: Trace, has_parts: bool, context: TaskContext) -> _Measured:
    context.check_cancelled()
    return token_latency(trace), bar_parts(trace, context) if has_parts else None
