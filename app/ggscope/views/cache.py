"""What-if cache: how much would be read from disk with so much page cache."""

from functools import partial
from typing import ClassVar

from PySide6.QtCore import QEvent, QSignalBlocker, Qt, QTimer
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QDoubleSpinBox, QMenu, QSpinBox, QWidget

from ggscope.analysis.reads.what_if import (
    CacheResult,
    Optimum,
    WhatIf,
    best_possible,
    cache_result,
    what_if,
)
from ggscope.descriptions.reads import cache_result_text, no_reads_text, rests_on
from ggscope.model.trace import Trace
from ggscope.model.units import (
    TimeRange,
    format_bytes,
    format_exact_bytes,
    format_share,
)
from ggscope.render.charts import ChartGeometry
from ggscope.render.export import ExportCommand
from ggscope.render.options import export_command
from ggscope.render.reads import (
    CacheOptions,
    CacheScene,
    chart_of_cache,
    compose_cache,
    draw_cache,
)
from ggscope.render.theme import Theme, css
from ggscope.sanitize import html, join_html
from ggscope.session.session import Session
from ggscope.session.tasks import TaskContext
from ggscope.views.base.canvas import PaintedView
from ggscope.views.base.safe_text import copy_text, set_tip
from ggscope.views.base.widgets import ControlRow, TextBeside

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_QUIET_MS = 120
"""Rest before an answer is computed while the size is being dragged."""
_STEPS = 40
"""Steps of the arrow keys from nothing to the working set."""


class CacheView(PaintedView):
    """The miss-ratio curve; a click or a drag chooses the size of the cache.

    Attributes
    ----------
    capacity : the chosen size of the cache in bytes; -1 = none yet.
    """

    draw_scene = staticmethod(compose_cache)
    needs_whole_trace = True
    draw_figure = staticmethod(draw_cache)
    passing: ClassVar = {"hover": None}

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("What-if cache", session, theme, parent)
        self.what_if: WhatIf | None = None
        self._of: Trace | None = None
        self.optimum: Optimum | None = None
        self.cache_result: CacheResult | None = None
        self.capacity = -1
        self._unit = 1 << 30
        self._hover: tuple[float, float] | None = None
        self._timer = QTimer(self, singleShot=True, interval=_QUIET_MS)
        self._timer.timeout.connect(self._ask)
        self.setObjectName("cache")
        self.controls = ControlRow(self)
        self._make_controls()
        self.beside = TextBeside(self.canvas, "Answer", self)
        self.message = self.beside.message
        self.box.insertWidget(0, self.beside, 1)
        self.box.insertWidget(0, self.controls)
        self.set_canvas_cursor(Qt.CursorShape.CrossCursor)
        self.set_theme(theme)
        self.connect_until_release((session.ranges.marked_changed, self._on_marked))

    def _make_controls(self) -> None:
        row = self.controls
        self.size_box = QDoubleSpinBox(self)
        self.size_box.setRange(0, 1 << 20)
        self.size_box.setDecimals(3)
        self.size_box.setSingleStep(0.5)
        self.size_box.setSuffix(" GiB")
        set_tip(self.size_box, "Size of the page cache")
        self.size_box.setAccessibleName("Size of the page cache")
        self.size_box.valueChanged.connect(self._on_size)
        row.add_widget(self.size_box, "page cache")
        self.ahead_box = QSpinBox(self)
        self.ahead_box.setRange(0, 1000)
        self.ahead_box.setSpecialValueText("none")
        set_tip(
            self.ahead_box,
            "Tensors read ahead after each miss, in file order",
        )
        self.ahead_box.setAccessibleName("Read-ahead in tensors")
        self.ahead_box.valueChanged.connect(self._on_choice)
        row.add_widget(self.ahead_box, "read-ahead")
        self.pin_box = QSpinBox(self)
        self.pin_box.setRange(1, 100)
        self.pin_box.setValue(90)
        self.pin_box.setSuffix(" %")
        set_tip(
            self.pin_box,
            "Share of repeated expert reads to serve by pinning",
        )
        self.pin_box.setAccessibleName("Hits by pinned experts")
        self.pin_box.valueChanged.connect(self._on_choice)
        row.add_widget(self.pin_box, "pin experts for")
        self.unit_box = row.add_choice(
            "axis",
            (("share", False), ("bytes", True)),
            "Unit of the y axis",
            self.repaint_picture,
        )
        self.rows_box = row.add_switch(
            "row lookups",
            "Include GET_ROWS as reads of whole tensors, which is what traces record",
            self.invalidate,
        )
        self.range_box = row.add_switch(
            "marked range only",
            "Only reads in the marked range, starting with an empty cache",
            self.invalidate,
        )
        row.add_button("Copy", "Copy results", self._copy)

    # -- session ---------------------------------------------------------------

    def compute(self, trace: Trace) -> None:
        """Compute the curve on a worker."""
        self.optimum = self.cache_result = None
        if not self.is_of(self._of):
            self.forget()
        marked = self.session.ranges.marked
        is_part = self.range_box.isChecked() and marked is not None
        time = marked.time if is_part and marked is not None else None
        self.run(
            "cache",
            partial(_curve, trace, time, self.rows_box.isChecked()),
            partial(self._on_curve, trace),
            "Computing the miss-ratio curve",
        )

    def forget(self) -> None:
        """Show no curve."""
        self.optimum = self.cache_result = None
        self.what_if = self._of = None
        self._say()
        self.repaint_picture()

    def _on_curve(self, trace: Trace, result: WhatIf) -> None:
        self.what_if, self._of = result, trace
        self._choose_unit(result.working_set)
        if self.capacity < 0 and result.working_set:
            self._set_capacity(result.working_set // 2)
        self._ask()
        if result.curve.n_reads:
            self.run(
                "cache best",
                partial(_best, result),
                self._on_best,
                "Computing Belady's optimum",
            )
        self.repaint_picture()

    def _on_best(self, best: Optimum) -> None:
        self.optimum = best
        self.repaint_picture()

    def _ask(self) -> None:
        what_if = self.what_if
        if what_if is None or not what_if.curve.n_reads:
            self._say()
            return
        self.run(
            "cache answer",
            partial(
                _cache_result,
                what_if,
                max(self.capacity, 0),
                self.ahead_box.value(),
                self.pin_box.value() / 100,
            ),
            self._on_cache_result,
            "Simulating this cache size",
        )

    def _on_cache_result(self, result: CacheResult) -> None:
        self.cache_result = result
        self._say()

    def _on_marked(self, _: object) -> None:
        if self.range_box.isChecked():
            self.invalidate()

    def _on_choice(self, _: object = None) -> None:
        self._timer.start()

    # -- size of the cache -------------------------------------------------------

    def _choose_unit(self, working_set: int) -> None:
        """Set the unit of the size field by the size of the model: GiB to KiB."""
        fits = (u for u in _UNITS if working_set >= u[1] // 2)
        unit, self._unit = next(fits, _UNITS[-1])
        with QSignalBlocker(self.size_box):
            self.size_box.setSuffix(f" {unit}")
            self.size_box.setValue(max(self.capacity, 0) / self._unit)

    def _set_capacity(self, capacity: int) -> None:
        capacity = max(capacity, 0)
        if capacity == self.capacity:
            return
        self.capacity = capacity
        with QSignalBlocker(self.size_box):
            self.size_box.setValue(capacity / self._unit)
        self._timer.start()
        self.repaint_picture()

    def _on_size(self, value: float) -> None:
        self.capacity = max(round(value * self._unit), 0)
        self._timer.start()
        self.repaint_picture()

    # -- text -----------------------------------------------------------------

    def answer_lines(self) -> tuple[str, ...]:
        """Return the results, a text each, as shown and copied."""
        if self.what_if is None or self.cache_result is None:
            return ()
        return cache_result_text(self.what_if, self.cache_result)

    def _say(self) -> None:
        remarks = () if self.what_if is None else rests_on(self.what_if)
        parts = [(line, css(self.theme.text)) for line in self.answer_lines()]
        # Below the results: the controls leave no space for a sentence.
        parts += [(remark, css(self.theme.faint)) for remark in remarks]
        self.beside.say(
            join_html(
                html("<p style='margin:0 0 8px 0; color:{}'>{}</p>", color, line)
                for line, color in parts
            )
        )

    def empty_text(self, trace: Trace) -> tuple[str, str]:
        """Return why there is no chart: a title and a hint."""
        if trace.is_unread or self.is_computing("cache"):
            return "Reading accesses…", ""
        return no_reads_text(trace, self.what_if)

    def _copy(self) -> None:
        remarks = () if self.what_if is None else rests_on(self.what_if)
        copy_text("\n".join((*self.answer_lines(), *remarks)))

    # -- picture ---------------------------------------------------------------

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.controls.set_theme(theme)
        self.beside.set_theme(theme)
        self._say()

    def scene(self, width: float, height: float, scale: float) -> CacheScene | None:
        """Return the scene of the chart; None without reads."""
        if self.what_if is None or not self.what_if.curve.n_reads:
            return None
        return CacheScene(
            self.what_if, width, height, self.theme, scale, self.optimum, self.capacity,
            bool(self.unit_box.currentData()), self._hover,
        )  # fmt: skip

    def recipe(self, trace: Trace, scene: CacheScene) -> ExportCommand:
        """Return the command line that makes the figure of a scene."""
        marked = self.session.ranges.marked
        is_part = self.range_box.isChecked() and marked is not None
        options = CacheOptions(
            capacity=scene.capacity if scene.capacity >= 0 else None,
            as_bytes=scene.in_bytes, with_row_reads=self.rows_box.isChecked(),
            visible=marked.time if is_part and marked is not None else None,
        )  # fmt: skip
        lacks = () if scene.best else ("The command also draws Belady's optimum.",)
        return export_command("cache", trace, options, lacks)

    def _value_at(self, x: float, y: float) -> tuple[float, float] | None:
        scene = self.scene_now()
        if scene is None:
            return None
        return ChartGeometry(chart_of_cache(scene)).value_at(x, y)

    # -- input -----------------------------------------------------------------

    def pointer_event(self, event: QEvent) -> bool:
        """Set the cache size by pressing or dragging; show a cross hair."""
        if event.type() == QEvent.Type.Leave:
            self._hover = None
            self.repaint_picture()
            return True
        if not isinstance(event, QMouseEvent):
            return False
        at = self.position_of(event)
        value = self._value_at(at.x(), at.y())
        self._hover = value
        is_pressed = event.buttons() & Qt.MouseButton.LeftButton
        if value is not None and is_pressed:
            self._set_capacity(round(value[0]))
        self.repaint_picture()
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Change the cache size by the arrow keys, Home and End."""
        what_if = self.what_if
        whole = 0 if what_if is None else what_if.working_set
        step = max(whole // _STEPS, 1)
        capacity = {
            Qt.Key.Key_Left: self.capacity - step,
            Qt.Key.Key_Right: self.capacity + step,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: whole,
        }.get(Qt.Key(event.key()))
        if capacity is None or not whole:
            super().keyPressEvent(event)
            return
        self._set_capacity(capacity)

    def tooltip_at(self, x: float, y: float) -> str:
        """Return how much is read with the cache size under the mouse."""
        value, what_if = self._value_at(x, y), self.what_if
        if value is None or what_if is None:
            return ""
        capacity = round(value[0])
        read, misses = what_if.curve.at(capacity)
        share = read / max(what_if.curve.bytes_asked, 1)
        return "\n".join(
            (
                f"page cache of {format_bytes(capacity)}",
                f"{format_bytes(read)} ({format_exact_bytes(read)}) read from disk: "
                f"{format_share(share)}",
                f"{misses:,} of {what_if.curve.n_reads:,} reads miss",
            )
        )

    def menu_at(self, x: float, y: float) -> QMenu | None:
        """Return a menu that copies the results."""
        if self.what_if is None:
            return None
        menu = QMenu(self)
        menu.addAction("Copy results", self._copy)
        return menu


def _curve(
    trace: Trace, time: TimeRange | None, with_row_reads: bool, context: TaskContext
) -> WhatIf:
    return what_if(trace, time, with_row_reads=with_row_reads, watcher=context)


def _best(what_if: WhatIf, context: TaskContext) -> Optimum:
    return best_possible(what_if, watcher=context)


def _cache_result(
    what_if: WhatIf, capacity: int, k: int, pin_share: float, context: TaskContext
) -> CacheResult:
    context.check_cancelled()
    return cache_result(what_if, capacity, k=k, pin_share=pin_share, watcher=context)
