"""The 3D view: reads of the model file over time, layer and file offset, and layers."""

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPointF
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QMenu, QWidget

from ggscope.descriptions.points import layer_text, point_rows, why_no_points
from ggscope.descriptions.reads import pending_accesses
from ggscope.model.selection import Filter, Selection, SpanGroup
from ggscope.model.trace import Trace
from ggscope.render.batch import U32, DisplayList
from ggscope.render.export import NOT_MARKED, ExportCommand
from ggscope.render.points import (
    HOME,
    Camera,
    PointsCache,
    PointsGeometry,
    PointsOptions,
    PointsScene,
    compose_points,
    draw_points,
    points_recipe,
)
from ggscope.render.theme import Theme
from ggscope.session.session import Session, TraceChange
from ggscope.session.tasks import TaskContext
from ggscope.views.base.canvas import GlCanvas, PaintedView, RasterCanvas
from ggscope.views.base.safe_text import tip_table
from ggscope.views.points.head import PointsHead
from ggscope.views.points.interaction import (
    PointsGestures,
    is_points_key,
    points_menu,
    run_points_key,
)
from ggscope.views.points.request import (
    ActiveLayers,
    PlacedPoints,
    active_layers,
    highlighted_points,
    placed_points,
    recolored,
    token_number,
)

_GL_MODULE = "ggscope.views.points.gl_canvas"
_IMPORT = "opengl"
_POINTS, _COLORS, _HIGHLIGHTED, _LAYERS = "points", "colors", "highlighted", "layers"
_BURST_S = 0.6
"""Turns of a wheel within so many seconds are undone together."""
_MAX_CAMERAS = 100
_NEARER = 0.5
_NO_GL_TIP = (
    "No graphics card with OpenGL 3.3 draws here; the picture is the same, "
    "but turning it is slower."
)


class PointsView(PaintedView):
    """Points in a box that is turned, and a stack of layers beside it.

    Attributes
    ----------
    head : its controls.
    placed : the points; None before they are computed.
    layers : activity of the layers; None likewise.
    camera : where the box is looked at from.
    """

    draw_scene = staticmethod(compose_points)
    draw_figure = staticmethod(draw_points)
    no_trace_text = ("No file", "")
    passing: ClassVar[Mapping[str, object]] = {"hover": -1}
    uses_gl = True

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        name = "3D view: reads of the model file over time, layer and file offset"
        super().__init__(name, session, theme, parent)
        self.setObjectName("3d")
        self.head = PointsHead(self)
        self.head.hide()
        self.head.play_asked.connect(session.replay.toggle)
        self.head.step_asked.connect(self.step_replay)
        self.head.share_asked.connect(session.replay.go_to)
        self.head.reset_asked.connect(self.reset_camera)
        self.placed: PlacedPoints | None = None
        self.layers: ActiveLayers | None = None
        self.camera = HOME
        self._highlighted: npt.NDArray[np.bool_] | None = None
        self._colors: tuple[Theme, object, U32] | None = None
        self._by = ""
        self._cameras: list[Camera] = []
        self._last_burst = 0.0
        self._hover = -1
        self._gl_fault = ""
        self._layers_of: tuple[object, ...] = ()
        self._cache = PointsCache()
        self._gestures = PointsGestures(self)
        self.renderer_changed.connect(self._show_renderer)
        self.theme_with(self.head)
        self.connect_until_release(
            (session.trace_changed, self._on_trace_changed),
            (session.queries.mask_changed, self.invalidate),
            (session.display.color_by_changed, self._on_color_by),
            (session.display.absolute_time_changed, self.repaint_picture),
            (session.linking.linked_changed, self._on_linked),
            (session.ranges.marked_changed, self._on_marked),
            (session.replay.changed, self._on_replay),
        )

    def head_widget(self) -> QWidget:
        """Return the controls."""
        return self.head

    # -- session -----------------------------------------------------------------

    def forget(self) -> None:
        """Show no points."""
        self.placed = self.layers = self._highlighted = self._colors = None
        self._cache = PointsCache()
        self._layers_of = ()
        self._hover = -1
        self._show_renderer()
        self.repaint_picture()

    def _on_trace_changed(self, change: object) -> None:
        if change in (TraceChange.REPLACED, TraceChange.CLOSED):
            self.forget()
            self.camera, self._cameras = HOME, []

    def compute(self, trace: Trace) -> None:
        """Find the points on a worker; earlier ones stay until then."""
        if trace.awaits_accesses:
            return
        session = self.session
        by, mask = session.display.color_by, session.queries.mask
        request = partial(placed_points, trace, mask, by)
        self.run(_POINTS, request, partial(self._on_placed, by), "3D view")
        self._compute_layers(trace)

    def _compute_layers(self, trace: Trace) -> None:
        """Add up the time of layers, unless it would be the same again."""
        session = self.session
        marked, mask = session.ranges.marked, session.queries.mask
        number, span = token_number(trace, session.selection.current)
        of = (trace, mask, marked, number, span if number >= 0 else -1)
        if len(self._layers_of) == len(of) and all(
            a is b or (i > 1 and a == b)
            for i, (a, b) in enumerate(zip(of, self._layers_of, strict=True))
        ):
            return
        self._layers_of = of
        request = partial(
            active_layers, trace, session.selection.current, session.ranges.marked,
            session.queries.mask,
        )  # fmt: skip
        self.run(_LAYERS, request, self._on_layers, "Time of layers")

    def _on_placed(self, by: str, placed: PlacedPoints) -> None:
        if not self.is_of(placed.trace):
            return
        self.placed, self._by, self._hover = placed, by, -1
        self._highlighted = self._colors = None
        self._cache = PointsCache()
        self._on_color_by()
        self._find_highlighted()
        self._show_renderer()
        self.repaint_picture()

    def _on_layers(self, layers: ActiveLayers) -> None:
        self.layers = layers
        self.repaint_picture()

    def _on_color_by(self, _: object = None) -> None:
        by = self.session.display.color_by
        if self.placed is not None and by != self._by:
            request = partial(recolored, self.placed, by)
            then = partial(self._on_recolored, by, self.placed)
            self.run(_COLORS, request, then, "3D view")

    def _on_recolored(self, by: str, placed: PlacedPoints, hues: object) -> None:
        if self.placed is placed:
            self.placed = replace(placed, hues=hues)  # type: ignore[arg-type]  # PointColors
            self._by = by
            self.repaint_picture()

    def _on_marked(self, _: object) -> None:
        if self.session.trace is not None and self.isVisible():
            self._compute_layers(self.session.trace)

    def _on_linked(self, _: object) -> None:
        self._find_highlighted()
        if self.session.trace is not None and self.isVisible():
            self._compute_layers(self.session.trace)

    def _find_highlighted(self) -> None:
        """Look for the points of the selection."""
        placed, linked = self.placed, self.session.linking.linked
        current = self.session.selection.current
        if placed is None or not current or linked.selection != current:
            self.cancel(_HIGHLIGHTED)
            self._on_highlighted(placed, None)
            return
        request = partial(highlighted_points, placed, linked, self.selected_layer)
        self.run(
            _HIGHLIGHTED, request, partial(self._on_highlighted, placed), "3D view"
        )

    def _on_highlighted(
        self, placed: PlacedPoints | None, highlighted: npt.NDArray[np.bool_] | None
    ) -> None:
        if placed is self.placed:
            self._highlighted = highlighted
            self.repaint_picture()

    # -- picture -----------------------------------------------------------------

    def empty_text(self, trace: Trace) -> tuple[str, str]:
        """Return why there is no picture."""
        if pending := pending_accesses(trace):
            return "Still reading", pending
        if self.placed is None and self.is_computing(_POINTS):
            return "Counting reads", ""
        return why_no_points(trace, None if self.placed is None else self.placed.points)

    def scene(self, width: float, height: float, scale: float) -> PointsScene | None:
        """Return what the picture is drawn from; None before points are known."""
        placed, trace, session = self.placed, self.session.trace, self.session
        if placed is None or trace is None or not len(placed.points):
            return None
        layers = self.layers
        return PointsScene(
            placed.trace, placed.points, placed.axis, placed.xyz, self._point_colors(),
            width, height, self.theme, scale, self.camera, self._highlighted,
            None if layers is None else layers.activity,
            "" if layers is None else layers.of, self.selected_layer,
            session.replay.tick,
            self._hover, session.display.absolute_time,
            entries=placed.hues.entries(self.theme), cache=self._cache,
        )  # fmt: skip

    def _point_colors(self) -> U32:
        """Return the colours of points, the same array as long as they are the same."""
        assert self.placed is not None
        cached, hues = self._colors, self.placed.hues
        if cached is None or cached[0] is not self.theme or cached[1] is not hues:
            cached = (self.theme, hues, hues.colors(self.theme))
            self._colors = cached
        return cached[2]

    def recipe(self, trace: Trace, scene: PointsScene) -> ExportCommand:
        """Return how the command line makes the figure of a scene."""
        lacks = []
        if self.session.queries.mask is not None:
            lacks.append("The command ignores the filter.")
        if scene.is_highlighted is not None or scene.layer >= 0:
            lacks.append(NOT_MARKED)
        if scene.tick is not None:
            lacks.append("The command shows all points, not those up to a time.")
        if scene.of:
            lacks.append("The command adds up layers over the whole trace.")
        if scene.camera.centre != HOME.centre:
            lacks.append("The command looks at the middle of the box.")
        options = PointsOptions(
            color_by=self._by, azimuth=round(self.camera.azimuth, 2),
            elevation=round(self.camera.elevation, 2),
            distance=round(self.camera.distance, 3),
            absolute=self.session.display.absolute_time,
        )  # fmt: skip
        return points_recipe(trace, options, tuple(lacks))

    def geometry_now(self) -> PointsGeometry | None:
        """Return the geometry of the picture on the screen; None without one."""
        scene = self.scene_now()
        return None if scene is None else PointsGeometry(scene)

    # -- which canvas ----------------------------------------------------------------

    def gl_canvas(self) -> GlCanvas | None:
        """Return a canvas that draws points by OpenGL; None until it is imported."""
        module = sys.modules.get(_GL_MODULE)
        if module is not None and not self.is_computing(_IMPORT):
            canvas: GlCanvas = module.PointsCanvas(self, self)
            return canvas
        if not self._gl_fault:
            self.run(_IMPORT, _import_gl, self._on_imported, "OpenGL")
        return None

    def _on_imported(self, fault: str) -> None:
        self._gl_fault = fault
        if fault:
            self._show_renderer()
        else:
            self._choose_canvas()

    def compose(self, width: float, height: float, scale: float) -> DisplayList | None:
        """Return the picture; for OpenGL what lies under the points."""
        scene = self.scene(width, height, scale)
        if scene is None:
            return None
        has_points = isinstance(self.canvas, RasterCanvas)
        return compose_points(replace(scene, has_points=has_points))

    def canvas_failed(self, message: str) -> None:
        """Fall back to the raster canvas, and say so."""
        self._gl_fault = message
        super().canvas_failed(message)

    def canvas_ready(self) -> None:
        """Say what draws."""
        self._show_renderer()

    def _show_renderer(self, _: object = None) -> None:
        has_points = self.placed is not None and len(self.placed.points) > 0
        self.head.set_usable(is_usable=has_points)
        if not has_points or not isinstance(self.canvas, RasterCanvas):
            self.head.show_note("", "")
        elif self._gl_fault:
            tip = f"OpenGL failed: {self._gl_fault}. The picture is the same."
            self.head.show_note("No OpenGL: drawn by the CPU", tip)
        else:
            self.head.show_note("Drawn by the CPU", _NO_GL_TIP)

    # -- camera --------------------------------------------------------------------

    def set_camera(self, camera: Camera) -> None:
        """Look at the box from elsewhere."""
        if camera != self.camera:
            self.camera = camera
            self.repaint_picture()

    def remember_camera(self, *, is_burst: bool = False) -> None:
        """Note the camera before it moves; turns of a wheel in a row count as one."""
        now = time.monotonic()
        goes_on = is_burst and now - self._last_burst < _BURST_S
        self._last_burst = now if is_burst else 0.0
        if not goes_on:
            self._cameras = [*self._cameras[1 - _MAX_CAMERAS :], self.camera]

    @property
    def can_undo_camera(self) -> bool:
        """Whether a change of the view can be undone."""
        return bool(self._cameras)

    def undo_camera(self) -> None:
        """Look at the box as before the last change."""
        self._last_burst = 0.0
        while self._cameras:
            earlier = self._cameras.pop()
            if earlier != self.camera:
                self.set_camera(earlier)
                return

    def reset_camera(self) -> None:
        """Show the whole box."""
        if self.camera != HOME:
            self.remember_camera()
            self.set_camera(HOME)

    def focus_at(self, at: QPointF) -> None:
        """Look closer at the point at a position; elsewhere show the whole box."""
        point, place = self.point_under(at), self.geometry_now()
        if point < 0 or place is None or self.placed is None:
            self.reset_camera()
            return
        self.remember_camera()
        x, y, z = self.placed.xyz[point].tolist()
        centre = (x * place.stretch, y, z)
        self.set_camera(replace(self.camera.zoomed(_NEARER), centre=centre))

    # -- replay ----------------------------------------------------------------------

    def step_replay(self, by: int) -> None:
        """Go to the next or previous token, or else time of a read."""
        if self.placed is not None and len(self.placed.points):
            self.session.replay.step(by, self.placed.steps)

    def _on_replay(self, _: object) -> None:
        replay = self.session.replay
        self.head.show_replay(replay.share, is_playing=replay.is_playing)
        self.repaint_picture()

    def put_out(self) -> bool:
        """End replay; return whether there was one."""
        return self.session.replay.end()

    # -- pointing and selecting --------------------------------------------------------

    def point_under(self, at: QPointF) -> int:
        """Return the point at a position of the picture, -1 = none."""
        place = self.geometry_now()
        return -1 if place is None else place.point_at(at.x(), at.y())

    def layer_under(self, at: QPointF) -> int:
        """Return the layer whose box is at a position of the picture, -1 = none."""
        place = self.geometry_now()
        row = -1 if place is None else place.layer_at(at.x(), at.y())
        if row < 0 or self.layers is None:
            return -1
        return int(self.layers.activity.layer[row])

    def point_to(self, at: QPointF) -> None:
        """Light what is under the mouse."""
        self.set_hover(self.point_under(at))

    def set_hover(self, point: int) -> None:
        """Light a point, -1 = none."""
        if point != self._hover:
            self._hover = point
            self.repaint_picture()

    def click(self, at: QPointF) -> None:
        """Select the op of a point or a layer, or nothing."""
        point, layer = self.point_under(at), self.layer_under(at)
        if point >= 0:
            self.select_point(point)
        elif layer >= 0:
            self.select_layer(layer)
        else:
            self.session.selection.select(Selection())

    @property
    def selected_layer(self) -> int:
        """The layer that is selected, -1 = none."""
        group = self.session.selection.current.group
        is_layer = group is not None and group.by == "layer" and group.also is None
        known = group is not None and is_layer and group.key.isdecimal()
        return int(group.key) if group is not None and known else -1

    def select_point(self, point: int) -> None:
        """Select the op of a point."""
        if self.placed is not None:
            span = int(self.placed.points.span[point])
            self.session.selection.select_span(span, reveal=False)
            name, rows = point_rows(self.placed.trace, self.placed.points, point)
            text = ", ".join(f"{key} {value}" for key, value in rows)
            self.setAccessibleDescription(f"{name}, {text}")

    def show_point(self, point: int) -> None:
        """Select the op of a point and bring it into view everywhere."""
        if self.placed is not None:
            span = int(self.placed.points.span[point])
            self.session.selection.select_span(span)

    def show_selected(self) -> None:
        """Bring the selected op into view everywhere."""
        current = self.session.selection.current
        if current.table == "spans" and current.active is not None:
            self.session.selection.select_span(current.active)
        elif current.table == "groups":
            self.session.linking.show_longest()

    def select_layer(self, layer: int) -> None:
        """Select the ops of a layer."""
        group = SpanGroup("layer", str(layer), where=self.session.queries.filter)
        self.session.selection.select_group(group)
        self.setAccessibleDescription(self._layer_text(layer))

    def select_tensor(self, tensor: int) -> None:
        """Select a row of ``Trace.tensors``."""
        self.session.selection.select_tensor(tensor)

    def step_point(self, by: int) -> None:
        """Select the next or previous point in time."""
        placed, current = self.placed, self.session.selection.current
        if placed is None or not len(placed.points):
            return
        at = -1 if by > 0 else len(placed.points)
        if current.table == "spans" and current.active is not None:
            own = np.flatnonzero(placed.points.span == current.active)
            if len(own):
                at = int(own[-1] if by > 0 else own[0])
        at = min(max(at + by, 0), len(placed.points) - 1)
        self.select_point(at)
        self.set_hover(at)

    def step_layer(self, by: int) -> None:
        """Select the next layer up or down the stack."""
        if self.layers is None or not len(self.layers.activity):
            return
        known = self.layers.activity.layer
        now = self.selected_layer
        if now < 0:
            at = 0 if by > 0 else len(known) - 1
        else:
            at = int(np.searchsorted(known, now)) + by
        self.select_layer(int(known[min(max(at, 0), len(known) - 1)]))

    def filter_to_tensor(self, tensor: int) -> None:
        """Show only spans that access a tensor."""
        trace = self.session.trace
        if trace is not None:
            name = trace.strings[int(trace.tensors.name[tensor])]
            self._filter(replace(self._filter_now, tensors=frozenset({name})))

    def filter_to_layer(self, layer: int) -> None:
        """Show only spans of a layer."""
        self._filter(replace(self._filter_now, layers=frozenset({layer})))

    @property
    def _filter_now(self) -> Filter:
        now: Filter = self.session.queries.filter
        return now

    def _filter(self, where: Filter) -> None:
        self.session.queries.set_filter(where)

    def tooltip_at(self, x: float, y: float) -> str:
        """Return what is known of the point or layer at a position."""
        at = QPointF(x, y)
        point, layer = self.point_under(at), self.layer_under(at)
        if point >= 0 and self.placed is not None:
            absolute = self.session.display.absolute_time
            name, rows = point_rows(
                self.placed.trace, self.placed.points, point, absolute=absolute
            )
            return tip_table(name, rows)
        return self._layer_text(layer) if layer >= 0 else ""

    def _layer_text(self, layer: int) -> str:
        trace, layers = self.session.trace, self.layers
        if trace is None or layers is None:
            return ""
        row = int(np.searchsorted(layers.activity.layer, layer))
        if row >= len(layers.activity) or layers.activity.layer[row] != layer:
            return ""
        where = f" in {layers.of}" if layers.of else ""
        text = layer_text(trace, layers.activity, row)
        return f"layer {layer}: ops ran {text}{where}, summed over threads"

    def menu_at(self, x: float, y: float) -> QMenu | None:
        """Return the menu of a position."""
        return points_menu(self, QPointF(x, y))

    # -- input -------------------------------------------------------------------------

    def takes_key(self, event: QKeyEvent) -> bool:
        """Return whether a key means the picture."""
        return is_points_key(self, event)

    def press_key(self, event: QKeyEvent) -> None:
        """Turn, pan, zoom, replay and step."""
        run_points_key(self, event)


def _import_gl(context: TaskContext) -> str:
    """Import what draws by OpenGL; return why that cannot be, or ""."""
    context.check_cancelled()
    try:
        import_module(_GL_MODULE)
    except ImportError as error:  # a bundle may lack the package
        return str(error)
    return ""
