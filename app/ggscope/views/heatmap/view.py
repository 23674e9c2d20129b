"""The file heatmap and its head: which bytes of the model are read, when, by what."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from PySide6.QtCore import QPointF, QSignalBlocker, QSize, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QMenu, QPushButton, QWidget

from ggscope.analysis.heat.file_map import FileMap
from ggscope.analysis.heat.heatmap import HeatBase
from ggscope.analysis.heat.rows import HeatAxis, RowKind, natural_rows, row_begins
from ggscope.descriptions.reads import no_accesses_text, pending_accesses
from ggscope.model.selection import Filter, Selection
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.render.colors import NAMES, ScaleKind
from ggscope.render.export import NOT_MARKED, ExportCommand
from ggscope.render.heatmap.compose import compose_heatmap
from ggscope.render.heatmap.figure import (
    HeatmapOptions,
    draw_heatmap,
    heatmap_recipe,
    held_shares,
)
from ggscope.render.heatmap.scene import (
    HeatCache,
    HeatGeometry,
    HeatMark,
    HeatScene,
    HeatView,
)
from ggscope.render.theme import Theme
from ggscope.session.session import Session, TraceChange
from ggscope.views.base.canvas import PaintedView
from ggscope.views.base.safe_text import Label, set_tip
from ggscope.views.base.view import guarded, later
from ggscope.views.base.widgets import (
    combo_box,
    lay_out,
    scaled,
    set_label_color,
    ui_font,
)
from ggscope.views.heatmap.interaction import (
    HeatmapGestures,
    is_heatmap_key,
    run_heatmap_key,
)
from ggscope.views.heatmap.request import (
    HeatLook,
    filter_of_mark,
    tabled_base,
    tooltip_text,
)

_GAP_PX = 6
_KEY = "heatmap"
_BEGINS = "begins"
_QUIET_MS = 120
"""Rest before rows of time are counted anew while the timeline moves."""
_MIN_ROWS = 4


@guarded
class HeatmapHead(QWidget):
    """What the rows are, what x is, what is shown, and in which colours.

    Attributes
    ----------
    rows, axis, shows, scale, colors : the combo boxes.
    filter : filters everything to the marked range; hidden without one.
    """

    look_changed = Signal(object)  # HeatLook
    filter_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        box = lay_out(QHBoxLayout(self), spacing=_GAP_PX)
        self._labels: list[Label] = []
        self.filter = QPushButton("Show only this range", self)
        set_tip(
            self.filter,
            "Show only spans that access the marked bytes, in all views (Enter)",
        )
        self.filter.setFont(ui_font(12))
        self.filter.setMinimumHeight(scaled(24))
        self.filter.clicked.connect(self.filter_asked)
        self.filter.hide()
        box.addWidget(self.filter)
        self.rows = self._combo(
            box, "rows", "Rows of the heatmap",
            (("token", "token"), ("pass", "pass"), ("time", "time"),
             ("layer", "layer")),
        )  # fmt: skip
        self.axis = self._combo(
            box, "x", "X axis",
            (("offset", "offset"), ("equal width", "equal")),
        )  # fmt: skip
        self.shows = self._combo(
            box, "show", "Value shown as colour",
            (("bytes", "bytes"), ("accesses", "count")),
        )  # fmt: skip
        self.scale = self._combo(
            box, "",
            "Colour scale; auto: by percentile if most cells are similar, "
               "else by logarithm",
            (("auto", ScaleKind.AUTO), ("log", ScaleKind.LOG),
             ("linear", ScaleKind.LINEAR),
             ("percentile", ScaleKind.PERCENTILE)),
        )  # fmt: skip
        self.colors = self._combo(
            box, "", "Colour map", tuple((name, name) for name in NAMES)
        )
        box.addStretch(1)

    def _combo(
        self,
        box: QHBoxLayout,
        labels: str,
        tip: str,
        choices: tuple[tuple[str, Any], ...],
    ) -> QComboBox:
        combo = combo_box(self, tip, choices)
        if labels:
            label = Label(labels, self)
            label.setFont(ui_font(12))
            label.setBuddy(combo)
            self._labels.append(label)
            box.addWidget(label)
        box.addWidget(combo)
        combo.currentIndexChanged.connect(self._on_changed)
        return combo

    @property
    def look(self) -> HeatLook:
        """What is chosen now."""
        return HeatLook(
            self.rows.currentData(), self.axis.currentData(),
            self.shows.currentData(), self.scale.currentData(),
            self.colors.currentData(),
        )  # fmt: skip

    def show_rows(self, rows: RowKind) -> None:
        """Show what the rows are, without a signal."""
        with QSignalBlocker(self.rows):
            self.rows.setCurrentIndex(max(self.rows.findData(rows), 0))

    def show_filter(self, *, is_shown: bool) -> None:
        """Offer to filter, where something is marked."""
        self.filter.setVisible(is_shown)
        self._fit_width()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave out what has no room; the context menu has all of it."""
        super().resizeEvent(event)
        self._fit_width()

    def minimumSizeHint(self) -> QSize:
        """Be as narrow as the choice of the rows."""
        return QSize(self.rows.sizeHint().width(), super().minimumSizeHint().height())

    def _fit_width(self) -> None:
        gap = _GAP_PX
        space = self.width() - (
            0 if self.filter.isHidden() else self.filter.sizeHint().width() + gap
        )
        combos = (self.rows, self.axis, self.shows, self.scale, self.colors)
        boxes = [combo.sizeHint().width() + gap for combo in combos]
        labels = sum(label.sizeHint().width() + gap for label in self._labels)
        for label in self._labels:
            label.setVisible(sum(boxes) + labels <= space)
        for i, combo in enumerate(combos):
            combo.setVisible(i == 0 or sum(boxes[: i + 1]) <= space)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        for label in self._labels:
            set_label_color(label, theme.dim)

    def _on_changed(self, _: int) -> None:
        self.look_changed.emit(self.look)


class HeatmapView(PaintedView):
    """Rows of tokens, passes, time or layers over the bytes of the model file.

    Attributes
    ----------
    head : its controls. look : what they say.
    base, axis, shown : what the present picture is drawn from; None before it is
        computed.
    mark : the marked bytes (and rows), or None.
    """

    draw_scene = staticmethod(compose_heatmap)
    no_trace_text = ("No file", "")
    draw_figure = staticmethod(draw_heatmap)
    uses_gl = True

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        name = "File heatmap: which bytes of the model are read"
        super().__init__(name, session, theme, parent)
        self.setObjectName("heatmap")
        self.head = HeatmapHead(self)
        self.head.hide()
        self.head.look_changed.connect(self._on_look)
        self.head.filter_asked.connect(self.filter_to_mark)
        self.look = self.head.look
        self._has_chosen_rows = False
        self.base: HeatBase | None = None
        self.axis: HeatAxis | None = None
        self.shown: HeatView | None = None
        self.mark: HeatMark | None = None
        self._files: tuple[Trace, FileMap] | None = None
        self._cache = HeatCache()
        self._hover: tuple[int, int] | None = None
        self._begins: tuple[HeatBase, I64 | None] | None = None
        self._is_own_selection = False
        self._scroll_rest = 0.0
        self._gestures: HeatmapGestures = HeatmapGestures(self)
        self._timer = QTimer(self, singleShot=True, interval=_QUIET_MS)
        self._timer.timeout.connect(self.invalidate)
        self.theme_with(self.head)
        self.connect_until_release(
            (session.trace_changed, self._on_trace_changed),
            (session.linking.linked_changed, self._on_linked),
            (session.selection.changed, self.repaint_picture),
            (session.display.absolute_time_changed, self.repaint_picture),
            (session.queries.mask_changed, self.invalidate),
            (session.viewport.changed, self._on_visible),
            (session.replay.changed, self._on_replay),
        )

    def head_widget(self) -> QWidget:
        """Return the controls."""
        return self.head

    # -- session -----------------------------------------------------------------

    def release(self) -> None:
        """Count nothing any more."""
        super().release()
        self._timer.stop()

    def forget(self) -> None:
        """Show no accesses."""
        self.base = self.axis = self.shown = self._files = self._begins = None
        self._cache = HeatCache()
        self.set_mark(None)
        self.repaint_picture()

    def _on_trace_changed(self, change: object) -> None:
        if change in (TraceChange.REPLACED, TraceChange.CLOSED):
            self.forget()
        elif self._files is not None and not self.is_of(self._files[0]):
            # Its tensors have other numbers; what is chosen stays.
            self.base, self._files = None, None
            self._cache = HeatCache()
            self.repaint_picture()

    def _on_visible(self, _: object) -> None:
        if self.look.rows == "time":
            self._timer.start()

    def _on_look(self, look: HeatLook) -> None:
        old, self.look = self.look, look
        self._has_chosen_rows = self._has_chosen_rows or look.rows != old.rows
        if look.axis != old.axis and self.base is not None:
            self._turn_axis(self.base)
        if look.rows != old.rows:
            self.set_mark(None)
            self.invalidate()
        self.repaint_picture()

    def _turn_axis(self, base: HeatBase) -> None:
        """Show the same bytes on the other axis."""
        axis = HeatAxis(base.files, self.look.axis)
        if self.shown is not None and self.axis is not None:
            ends = self.axis.offsets(np.array([self.shown.begin, self.shown.stop]))
            is_whole = self.shown.stop - self.shown.begin >= self.axis.extent
            begin, stop = axis.positions(ends).tolist()
            whole = (0, axis.extent)
            begin, stop = whole if is_whole else axis.clamped(begin, stop)
            self.shown = replace(self.shown, begin=begin, stop=stop)
        self.axis = axis

    def compute(self, trace: Trace) -> None:
        """Count anew on a worker; the earlier picture stays until then."""
        session = self.session
        if trace.awaits_accesses:
            return
        if not self._has_chosen_rows:
            self.look = replace(self.look, rows=natural_rows(trace))
            self.head.show_rows(self.look.rows)
        known = self._files
        files = known[1] if known is not None and known[0] is trace else None
        time = session.viewport.visible if self.look.rows == "time" else None
        look, mask = self.look, session.queries.mask
        request = partial(tabled_base, trace, look.rows, look.metric, files, mask, time)
        then = partial(self._on_base, trace)
        self.run(_KEY, request, then, "File heatmap")

    def _on_base(self, trace: Trace, base: HeatBase) -> None:
        if not self.is_of(trace):  # of an earlier trace, asked for while it was seen
            return
        self._files = (trace, base.files)
        old, self.base = self.base, base
        self._on_replay(self.session.replay.tick)
        self._cache = HeatCache()
        axis = HeatAxis(base.files, self.look.axis)
        same_file = self.axis is not None and self.axis.extent == axis.extent
        same_rows = old is not None and len(old.rows) == len(base.rows)
        same_rows = same_rows and old is not None and old.rows.kind == base.rows.kind
        self.axis = axis
        view = self.shown
        if view is None or not same_file:
            view = HeatView(0, axis.extent, 0, len(base.rows))
        elif not same_rows:
            view = replace(view, top=0, bottom=len(base.rows))
        self.shown = view
        self.repaint_picture()

    # -- picture -----------------------------------------------------------------

    def empty_text(self, trace: Trace) -> tuple[str, str]:
        """Return why there is no picture."""
        if pending := pending_accesses(trace):
            return "Still reading", pending
        if self.base is None:
            return "Counting accesses", ""
        totals = self.base.totals
        if totals.n_file + totals.n_unplaced + totals.n_buffer == 0:
            return no_accesses_text(trace)
        return (
            "No model file",
            "Add the model (.gguf) or its memory map to this session.",
        )

    def scene(self, width: float, height: float, scale: float) -> HeatScene | None:
        """Return what the picture is drawn from; None before it is counted."""
        base, axis, view, session = self.base, self.axis, self.shown, self.session
        if base is None or axis is None or view is None:
            return None
        trace, totals = session.trace, base.totals
        if trace is None or not base.files.extent:
            return None
        if totals.n_file + totals.n_unplaced + totals.n_buffer == 0:
            return None  # of a model alone there is no access and no time
        return HeatScene(
            base=base, axis=axis, view=view, strings=trace.strings,
            tensor_names=trace.tensors.name, width=width, height=height,
            theme=self.theme, scale=scale, metric=self.look.metric,
            absolute=session.display.absolute_time,
            scale_kind=self.look.scale, colors=self.look.colors, clock=trace.clock,
            selected=self._selected_units(), linked=self._linked_ranges(),
            mark=self.mark, hover=self._hover,
            is_filtered=session.queries.mask is not None, n_begun=self._n_begun,
            cache=self._cache, held=held_shares(trace),
        )  # fmt: skip

    @property
    def _n_begun(self) -> int | None:
        """How many rows replay has come to; None = no replay, or not known yet."""
        tick, known = self.session.replay.tick, self._begins
        if tick is None or known is None or known[0] is not self.base:
            return None
        if known[1] is None:  # layers, which go on all the time
            return None
        begun = np.flatnonzero(known[1] <= tick)
        return int(begun[-1]) + 1 if len(begun) else 0

    def _on_replay(self, tick: object) -> None:
        """Look for when rows begin, once replay is on; then follow it."""
        trace, base = self.session.trace, self.base
        is_known = self._begins is not None and self._begins[0] is base
        if tick is not None and trace is not None and base is not None and not is_known:
            request = partial(row_begins, trace, base.rows)
            self.run(_BEGINS, request, partial(self._on_begins, base), "Replay")
        self.repaint_picture()

    def _on_begins(self, base: HeatBase, begins: I64 | None) -> None:
        self._begins = (base, begins)
        self.repaint_picture()

    def recipe(self, trace: Trace, scene: HeatScene) -> ExportCommand:
        """Return how the command line makes the figure of a scene."""
        view, axis = scene.view, scene.axis
        lacks = ["The command ignores the filter."] if scene.is_filtered else []
        if len(scene.selected) or len(scene.linked) or scene.mark is not None:
            lacks.append(NOT_MARKED)
        if scene.n_begun is not None:
            lacks.append("The command shows all rows, not those up to a time.")
        is_whole = (view.begin, view.stop) == (0, axis.extent)
        ends = axis.offsets(np.array([view.begin, view.stop], np.int64)).tolist()
        rows = (view.top, view.bottom)
        options = HeatmapOptions(
            rows=scene.base.rows.kind, axis=axis.kind, metric=scene.metric,
            scale=scene.scale_kind, colors=scene.colors,
            offsets=None if is_whole else (ends[0], ends[1]),
            shown_rows=None if rows == (0, len(scene.base.rows)) else rows,
            absolute=scene.absolute,
        )  # fmt: skip
        return heatmap_recipe(trace, options, tuple(lacks))

    @property
    def passing(self) -> dict[str, object]:  # type: ignore[override]  # made anew
        """What is under the mouse, and tables that belong to this thread."""
        return {"hover": None, "cache": HeatCache()}

    def geometry_now(self) -> HeatGeometry | None:
        """Return where the parts of the present picture lie; None without one."""
        scene = self.scene_now()
        return None if scene is None else HeatGeometry(scene)

    def _selected_units(self) -> I64:
        session, base = self.session, self.base
        none = np.zeros(0, np.int64)
        if base is None or session.selection.current.table != "tensors":
            return none
        rows = [r for r in session.selection.current.ids if r < len(base.files.first)]
        units = [np.arange(*base.files.units_of(row)) for row in rows]
        return np.unique(np.concatenate([none, *units])).astype(np.int64)

    def _linked_ranges(self) -> I64:
        session, base = self.session, self.base
        none = np.zeros((0, 2), np.int64)
        if base is None or not session.selection.current:
            return none
        linked = session.linking.linked
        if linked.selection != session.selection.current:
            return none  # what belongs to it is still being looked up
        if len(linked.ranges):
            return linked.ranges
        rows = linked.tensors[linked.tensors < len(base.files.first)]
        rows = rows[base.files.first[rows] >= 0]
        return np.stack([base.files.first[rows], base.files.stop[rows]], axis=1)

    def _on_linked(self, _: object) -> None:
        """Light up what belongs to the selection; scroll there if it is elsewhere."""
        if not self._is_own_selection and self.isVisible():
            self._reveal(self._linked_ranges())
        self.repaint_picture()

    def _reveal(self, ranges: I64) -> None:
        """Pan to the first of `ranges` where none can be seen."""
        if not len(ranges) or self.axis is None or self.shown is None:
            return
        begin, stop = (
            self.axis.positions(ranges[:, 0]),
            self.axis.positions(ranges[:, 1]),
        )
        view = self.shown
        if bool(((begin < view.stop) & (stop > view.begin)).any()):
            return
        middle = (int(begin[0]) + int(stop[0])) // 2
        half = (view.stop - view.begin) // 2
        self.show_positions(middle - half, middle - half + view.stop - view.begin)

    # -- what is shown -------------------------------------------------------------

    def show_positions(self, begin: int, stop: int) -> None:
        """Show positions along x, moved inside the file."""
        if self.axis is None or self.shown is None:
            return
        begin, stop = self.axis.clamped(begin, stop)
        self.shown = replace(self.shown, begin=begin, stop=stop)
        self.repaint_picture()

    def show_rows(self, top: int, bottom: int) -> None:
        """Show some rows, moved inside the picture."""
        if self.base is None or self.shown is None:
            return
        n = len(self.base.rows)
        height = min(max(bottom - top, _MIN_ROWS), n)
        top = min(max(top, 0), n - height)
        self.shown = replace(self.shown, top=top, bottom=top + height)
        self.repaint_picture()

    def fit(self) -> None:
        """Show the whole file and all rows."""
        if self.axis is not None and self.base is not None:
            self.show_rows(0, len(self.base.rows))
            self.show_positions(0, self.axis.extent)

    def zoom_x(self, factor: float, x: float | None = None) -> None:
        """Show `factor` times as many bytes; what is at `x` stays there."""
        place = self.geometry_now()
        if place is None or self.axis is None or self.shown is None:
            return
        view = self.shown
        at = (view.begin + view.stop) // 2
        if x is not None:
            at = place.position_at(x)
        elif self._hover is not None:
            at = self._hover[0]
        self.show_positions(*self.axis.zoomed(view.begin, view.stop, factor, at))

    def zoom_rows(self, factor: float, y: float | None = None) -> None:
        """Show `factor` times as many rows; the one at `y` stays there."""
        place = self.geometry_now()
        if place is None or self.shown is None:
            return
        view = self.shown
        n = view.bottom - view.top
        row = -1 if y is None else place.row_at(y)
        at = row if row >= 0 else view.top + n // 2
        # A step changes at least one row, else a few rows never become more.
        new = max(n + 1, round(n * factor)) if factor > 1 else round(n * factor)
        top = at - round((at - view.top) * new / max(n, 1))
        self.show_rows(top, top + new)

    def pan_px(self, px: float) -> None:
        """Move the view by pixels; > 0 is towards the end of the file."""
        place = self.geometry_now()
        if place is not None:
            shift = round(px / place.x.px_per_tick)
            view = place.scene.view
            self.show_positions(view.begin + shift, view.stop + shift)

    def pan(self, share: float) -> None:
        """Move the view by a share of its width."""
        if self.shown is not None:
            shift = round((self.shown.stop - self.shown.begin) * share)
            self.show_positions(self.shown.begin + shift, self.shown.stop + shift)

    def scroll_px(self, px: float) -> None:
        """Scroll the rows by pixels; > 0 is down."""
        place = self.geometry_now()
        if place is None:
            return
        view = place.scene.view
        height = (place.heat[1] - place.heat[0]) / max(view.bottom - view.top, 1)
        # Rows are whole: what is left of a small step counts for the next one.
        self._scroll_rest += px / height
        rows = int(self._scroll_rest)
        self._scroll_rest -= rows
        if rows:
            self.show_rows(view.top + rows, view.bottom + rows)

    def scroll_rows(self, share: float) -> None:
        """Scroll by a share of the rows that are shown, at least one."""
        if self.shown is not None:
            n = self.shown.bottom - self.shown.top
            step = max(round(n * abs(share)), 1) * (1 if share > 0 else -1)
            self.show_rows(self.shown.top + step, self.shown.bottom + step)

    def fit_unit(self, unit: int) -> None:
        """Show a tensor (all slices of a stack), with some air; again: the slice."""
        base, axis, view = self.base, self.axis, self.shown
        if base is None or axis is None or view is None or unit < 0:
            return
        first, last = base.files.units_of(int(base.files.tensor[unit]))
        begin, stop = axis.unit_positions()
        fitted = self._with_air(int(begin[first]), int(stop[max(last - 1, first)]))
        if last - first > 1 and fitted == (view.begin, view.stop):
            fitted = self._with_air(int(begin[unit]), int(stop[unit]))
        self.show_positions(*fitted)

    def _with_air(self, begin: int, stop: int) -> tuple[int, int]:
        if self.axis is None:
            return begin, stop
        air = max((stop - begin) // 20, 1)
        return self.axis.clamped(begin - air, stop + air)

    def fit_at(self, at: QPointF) -> None:
        """Show the tensor at a position of the picture."""
        unit = self.unit_under(at)
        if unit >= 0:
            self.fit_unit(unit)

    def focus_selection(self) -> None:
        """Bring the selection to the middle; where it is there already, fit it."""
        if self.axis is None or self.shown is None or self.base is None:
            return
        units, ranges = self._selected_units(), self._linked_ranges()
        if len(units):
            begin, stop = self.axis.unit_positions()
            low, high = int(begin[units[0]]), int(stop[units[-1]])
        elif len(ranges):
            ends = self.axis.positions(
                np.array([ranges[:, 0].min(), ranges[:, 1].max()])
            )
            low, high = ends.tolist()
        else:
            return
        width = self.shown.stop - self.shown.begin
        left = (low + high) // 2 - width // 2
        centred = self.axis.clamped(left, left + width)
        if centred == (self.shown.begin, self.shown.stop):
            centred = self._with_air(low, high)
        self.show_positions(*centred)

    # -- pointing, marking, filtering --------------------------------------------

    def unit_under(self, at: QPointF) -> int:
        """Return the unit at a position of the picture; -1 for none."""
        place = self.geometry_now()
        if place is None or self.axis is None:
            return -1
        is_inside = place.x.x0 <= at.x() < place.x.x1
        if not is_inside or not place.curve[0] <= at.y() < place.buffer[0]:
            return -1
        return self.axis.unit_at(place.position_at(at.x()))

    def set_hover(self, at: QPointF | None) -> None:
        """Put the hair lines under the mouse; None takes them away."""
        place = None if at is None else self.geometry_now()
        hover = None
        if at is not None and place is not None and place.x.x0 <= at.x() < place.x.x1:
            hover = (place.position_at(at.x()), place.row_at(at.y()))
        if hover != self._hover:
            self._hover = hover
            self.repaint_picture()

    def click(self, at: QPointF) -> None:
        """Select the tensor at a position, or nothing."""
        if self.base is None:
            return
        unit = self.unit_under(at)
        self.set_mark(None)
        if unit < 0:
            self.session.selection.select(Selection())
        else:
            self.select_tensor(int(self.base.files.tensor[unit]))

    def select_tensor(self, tensor: int) -> None:
        """Select a row of ``Trace.tensors`` without moving this view."""
        self._is_own_selection = True
        try:
            self.session.selection.select(Selection("tensors", (tensor,)))
        finally:
            # What belongs to it may be found on a worker, and come later.
            later(self, self._end_own_selection, _QUIET_MS)

    def _end_own_selection(self) -> None:
        self._is_own_selection = False

    def mark_between(self, start: QPointF, end: QPointF, *, with_rows: bool) -> None:
        """Mark the bytes, and if asked the rows, between two positions."""
        place = self.geometry_now()
        if place is None or self.axis is None or self.shown is None:
            return
        xs = sorted((place.position_at(start.x()), place.position_at(end.x())))
        ends = self.axis.offsets(np.array([xs[0], xs[1] + 1], np.int64)).tolist()
        begin, stop = int(ends[0]), max(int(ends[1]), int(ends[0]) + 1)
        top = bottom = -1
        if with_rows:
            low, high = place.heat
            ys = sorted(min(max(p.y(), low), high - 0.01) for p in (start, end))
            top, bottom = place.row_at(ys[0]), place.row_at(ys[1]) + 1
        self.set_mark(HeatMark(begin, stop, top, bottom))

    def set_mark(self, mark: HeatMark | None) -> None:
        """Mark bytes (and rows), or nothing."""
        if mark != self.mark:
            self.mark = mark
            self.head.show_filter(is_shown=mark is not None)
            self.repaint_picture()

    def zoom_to_mark(self) -> None:
        """Show the marked bytes, and unmark them."""
        if self.mark is not None and self.axis is not None:
            ends = np.array([self.mark.begin, self.mark.stop], np.int64)
            self.show_positions(*self.axis.positions(ends).tolist())
            self.set_mark(None)

    def filter_to_mark(self) -> None:
        """Show only spans that touch the marked bytes (in the marked rows)."""
        session, base, mark = self.session, self.base, self.mark
        if base is None or mark is None or session.trace is None:
            return
        where = filter_of_mark(session.trace, base, mark, session.queries.filter)
        self.set_mark(None)
        session.queries.set_filter(where)

    def filter_to_tensor(self, tensor: int) -> None:
        """Show only spans that access a tensor."""
        session = self.session
        if session.trace is not None:
            trace = session.trace
            name = trace.strings[int(trace.tensors.name[tensor])]
            where: Filter = replace(session.queries.filter, tensors=frozenset({name}))
            session.queries.set_filter(where)

    # -- input -----------------------------------------------------------------------

    def tooltip_at(self, x: float, y: float) -> str:
        """Return what is known of the bytes at a position."""
        place = self.geometry_now()
        return "" if place is None else tooltip_text(place, x, y, self.session.trace)

    def menu_at(self, x: float, y: float) -> QMenu | None:
        """Return the menu of a position."""
        # Imported when it is asked for: the first picture does without.
        from ggscope.views.heatmap.interaction import heatmap_menu

        return heatmap_menu(self, QPointF(x, y))

    def put_out(self) -> bool:
        """Give up what is being dragged or marked; return whether there was some."""
        was = self._gestures.cancel() or self.mark is not None
        self.set_mark(None)
        return self.session.replay.end() or was

    def takes_key(self, event: QKeyEvent) -> bool:
        """Return whether a key means the file axis."""
        return self.base is not None and is_heatmap_key(self, event)

    def press_key(self, event: QKeyEvent) -> None:
        """Zoom, pan, scroll, fit, filter."""
        run_heatmap_key(self, event)
