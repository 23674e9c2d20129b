"""Picture of the 3D view: accesses over time, layer and file offset, and the layers.

Points are projected and drawn by compiled code into a picture of device pixels; walls,
axes and texts are shapes. The same camera serves OpenGL, see `views.points.gl_canvas`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.heat.points import AccessPoints, access_points
from ggscope.analysis.layers import LayerActivity, layer_activity
from ggscope.analysis.rows.categories import Categories
from ggscope.analysis.rows.colorings import available_colorings, coloring
from ggscope.analysis.workers import chunks, n_workers, share_out
from ggscope.descriptions.points import points_text, why_no_points
from ggscope.descriptions.spans import time_text
from ggscope.errors import ExportError, NothingToDrawError
from ggscope.model.tables import I64, Array
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, format_bytes, format_duration
from ggscope.native.library import library
from ggscope.render.axis import CHARACTER_PX, axis_ticks
from ggscope.render.batch import (
    U32,
    Align,
    Batch,
    DisplayList,
    Face,
    ImageBatch,
    LineList,
    RectList,
    Text,
    TextList,
)
from ggscope.render.colors import DEFAULT, Entry, colors, label_color, lut, map_on
from ggscope.render.export import ExportCommand, Figure, RenderedFigure, trace_name
from ggscope.render.figure_style import FigureStyle
from ggscope.render.frame import framed
from ggscope.render.options import changed_options, option, read_time
from ggscope.render.theme import Theme, mix, visible_on
from ggscope.render.theme import theme as theme_named

F64 = npt.NDArray[np.float64]
F32 = npt.NDArray[np.float32]
HALF = np.array([1.3, 0.9, 0.8], np.float64)
"""Half the sides of the box: time, layer, file offset."""
MIN_DISTANCE, MAX_DISTANCE = 0.05, 20.0
_FIELD_OF_VIEW = 32.0
_NEAR, _FAR = 0.01, 60.0
_LABEL_SIZE = 10.5
_STACK_PX = 168.0
_MIN_WIDTH = 420.0
"""A narrower picture has no room for the layers beside the box."""
_STACK_HEAD = 30.0
_PAD = 10.0
_AIR_PX = 70.0
_MAX_ROW_PX = 24.0
_TICKS = 5
_PICK_PX = 5.0
_DIM_SHARE = 0.78
_RADII = ((1_000, 3.0), (20_000, 2.2), (200_000, 1.4))
_SMALLEST = 0.9
_LARGE_PX = 480.0
_MIN_PART = 100_000
"""Fewer points are not worth another picture."""
_CELLS = (1 << 64) - 1
_ELEVATION = 89.9
HIGHLIGHT_SIZE = 1.6
"""Points of the selection are so many times as large."""


def product(a: Array, b: Array) -> F64:
    """Return the product of two matrices, float64[n, m].

    Not by numpy's own, which for floats is OpenBLAS's: that ends the process where it
    gets no buffer.
    """
    return np.asarray((a[:, :, None] * b[None, :, :]).sum(axis=1), np.float64)


@dataclass(frozen=True, slots=True)
class Camera:
    """Where the box is looked at from: degrees, and a centre in its coordinates."""

    azimuth: float = -62.0
    elevation: float = 24.0
    distance: float = 5.3
    centre: tuple[float, float, float] = (0.0, 0.0, -0.05)

    def orbited(self, right: float, up: float) -> "Camera":
        """Return the camera moved around the box by degrees."""
        elevation = max(-_ELEVATION, min(self.elevation + up, _ELEVATION))
        azimuth = (self.azimuth + right + 180.0) % 360.0 - 180.0
        return replace(self, azimuth=azimuth, elevation=elevation)

    def zoomed(self, factor: float) -> "Camera":
        """Return the camera so many times as far away."""
        distance = min(max(self.distance * factor, MIN_DISTANCE), MAX_DISTANCE)
        return replace(self, distance=distance)

    def panned(self, right: float, up: float) -> "Camera":
        """Return the camera moved sideways, in parts of the picture's height."""
        high = 2 * self.distance * math.tan(math.radians(_FIELD_OF_VIEW / 2))
        rotation = self.rotation()
        moved = np.array(self.centre) + high * (
            right * rotation[0, :3] + up * rotation[1, :3]
        )
        limit = 3 * HALF
        x, y, z = np.clip(moved, -limit, limit).tolist()
        return replace(self, centre=(x, y, z))

    def rotation(self) -> F64:
        """Return what turns the box to the eye, float64[4, 4]."""
        a, e = math.radians(-self.azimuth - 90), math.radians(self.elevation - 90)
        about_z = np.eye(4)
        about_z[:2, :2] = [[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]
        about_x = np.eye(4)
        about_x[1:3, 1:3] = [[math.cos(e), -math.sin(e)], [math.sin(e), math.cos(e)]]
        return product(about_x, about_z)

    def view_matrix(self) -> F64:
        """Return what leads to the coordinates of the eye, float64[4, 4]."""
        to_centre, back = np.eye(4), np.eye(4)
        to_centre[:3, 3] = -np.array(self.centre)
        back[2, 3] = -self.distance
        return product(product(back, self.rotation()), to_centre)

    def matrix(self, aspect: float) -> F64:
        """Return what leads to clip space, for a picture so much wider than high."""
        scale = 1 / math.tan(math.radians(_FIELD_OF_VIEW / 2))
        if aspect < 1:  # the box is wide: a narrow picture shows all of it, too
            scale *= aspect
        projection = np.zeros((4, 4))
        projection[0, 0], projection[1, 1] = scale / aspect, scale
        projection[2, 2] = -(_FAR + _NEAR) / (_FAR - _NEAR)
        projection[2, 3] = -2 * _FAR * _NEAR / (_FAR - _NEAR)
        projection[3, 2] = -1
        return product(projection, self.view_matrix())

    def eye(self) -> F64:
        """Return where the eye is, float64[3]."""
        to_eye = self.rotation()[2, :3] * self.distance
        return np.asarray(np.array(self.centre) + to_eye, np.float64)


HOME = Camera()


@dataclass(frozen=True, slots=True, eq=False)
class PointColors:
    """A colouring of points: index[n] into the labels of the categories."""

    categories: Categories
    index: Array

    def colors(self, theme: Theme) -> U32:
        """Return uint32[n]."""
        return np.array(self._table(theme) or [0], np.uint32)[self.index]

    def entries(self, theme: Theme) -> tuple[Entry, ...]:
        """Return the legend of the categories that points have."""
        used = np.unique(self.index).tolist()
        table = self._table(theme)
        return tuple(Entry(self.categories.labels[i], table[i]) for i in used)

    def _table(self, theme: Theme) -> list[int]:
        # A light point on a light ground could not be seen.
        return [visible_on(c, theme.pane) for c in lut(self.categories, theme).tolist()]


def point_colors(trace: Trace, points: AccessPoints, by: str) -> PointColors:
    """Return the points coloured as their spans are."""
    categories = coloring(by).categorize(trace)
    return PointColors(categories, categories.index[points.span])


@dataclass(frozen=True, slots=True, eq=False)
class LayerAxis:
    """Layers from the bottom of the axis up; the first is "none" where some have none.

    layer : int64[n].
    """

    layer: I64

    def place(self, layer: Array) -> F64:
        """Return where layers are, 0..1 of the axis."""
        at = np.searchsorted(self.layer, layer)
        return np.asarray((at + 0.5) / max(len(self.layer), 1), np.float64)


def layer_axis(points: AccessPoints) -> LayerAxis:
    """Return the layers from the first to the last one with a point, and "none"."""
    used = np.unique(points.layer)
    real = used[used >= 0]
    none = [-1] if (used < 0).any() else []
    span = range(int(real[0]), int(real[-1]) + 1) if len(real) else range(0)
    return LayerAxis(np.array([*none, *span], np.int64))


def places(points: AccessPoints, axis: LayerAxis) -> F32:
    """Return where points are in the box, float32[n, 3].

    The first time is subtracted from times as whole numbers: nothing is lost of clocks
    that count from 1970.
    """
    out = np.empty((len(points), 3), np.float32)
    duration = max(points.extent.duration, 1)
    shares = (
        (points.time - points.extent.start) / duration,
        axis.place(points.layer),
        points.offset / max(points.files.extent, 1),
    )
    for k, share in enumerate(shares):
        out[:, k] = (2 * share - 1) * HALF[k]
    return out


@dataclass(frozen=True, slots=True, eq=False)
class PointsCache:
    """What one picture hands to the next: its points, and what they were made of."""

    pictures: list[tuple[tuple[object, ...], tuple[object, ...], U32]] = field(
        default_factory=list
    )


@dataclass(frozen=True, slots=True, eq=False)
class PointsScene:
    """The inputs of the picture.

    Attributes
    ----------
    xyz : float32[n, 3], see `places`. colors : uint32[n].
    is_highlighted : bool[n], which points belong to the selection; None = nothing is
        selected.
    activity : of the layers beside the box; None = no layers, or still computed.
    of : what the activity is of, such as "token 5".
    entries : legend of the colours, for figures.
    layer : that is selected, -1 none.
    tick : replay stands there, None = all points are shown.
    hover : point under the mouse, -1 none.
    has_points : False leaves the points out and what lies over them, as OpenGL draws
        both by itself.
    """

    trace: Trace
    points: AccessPoints
    axis: LayerAxis
    xyz: F32
    colors: U32
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    camera: Camera = HOME
    is_highlighted: npt.NDArray[np.bool_] | None = None
    activity: LayerActivity | None = None
    of: str = ""
    layer: int = -1
    tick: int | None = None
    hover: int = -1
    absolute: bool = False
    has_points: bool = True
    entries: tuple[Entry, ...] = ()
    cache: PointsCache = field(default_factory=PointsCache)

    @property
    def n_shown(self) -> int:
        """How many points replay has come to."""
        return self.points.until(self.tick)

    @property
    def radius(self) -> float:
        """Of the discs, in pixels: the fewer in a larger picture, the larger."""
        n = len(self.points)
        large = next((px for limit, px in _RADII if n <= limit), _SMALLEST)
        share = min(self.width, self.height) / _LARGE_PX
        return large * min(max(share, 0.5), 1.0)

    @property
    def has_some_highlighted(self) -> bool:
        """Whether some points belong to the selection, and others do not."""
        highlighted = self.is_highlighted
        return (
            highlighted is not None
            and bool(highlighted.any())
            and not bool(highlighted.all())
        )

    def shown_colors(self) -> U32:
        """Return uint32[n]; what does not belong to the selection steps back."""
        if self.is_highlighted is None or not self.has_some_highlighted:
            return self.colors
        ground = np.array([self.theme.pane >> s & 255 for s in (16, 8, 0)], np.uint32)
        out = np.full(len(self.colors), 0xFF000000, np.uint32)
        keep = round((1 - _DIM_SHARE) * 256)
        for shift, base in zip((16, 8, 0), ground.tolist(), strict=True):
            channel = (self.colors >> np.uint32(shift)) & np.uint32(255)
            mixed = (channel * np.uint32(keep) + np.uint32(base * (256 - keep))) >> 8
            out |= mixed << np.uint32(shift)
        out[self.is_highlighted] = self.colors[self.is_highlighted]
        return out


class PointsGeometry:
    """Where things of a scene are in its picture."""

    def __init__(self, scene: PointsScene) -> None:
        self.scene = scene
        has_stack = scene.activity is not None and len(scene.activity) > 0
        has_stack = has_stack and scene.width >= _MIN_WIDTH
        self.box_width = max(scene.width - (_STACK_PX if has_stack else 0.0), 1.0)
        self.has_stack = has_stack
        self.aspect = self.box_width / max(scene.height, 1.0)
        # Labels need the same room around a small picture as around a large one.
        air = np.diag([1.0, 1.0, 1.0, 1.0])
        air[0, 0] = air[1, 1] = max(1 - _AIR_PX / max(scene.height, 1.0), 0.5)
        # A wide picture has room for a long axis of time.
        self.stretch = float(np.clip(self.aspect * 0.5, 1.0, 2.2))
        long = np.diag([self.stretch, 1.0, 1.0, 1.0])
        self.matrix = product(product(air, scene.camera.matrix(self.aspect)), long)

    def project(self, at: Array) -> F64:
        """Return pixels of places in the box, float64[n, 2]; NaN behind the eye."""
        xyz = np.atleast_2d(np.asarray(at, np.float64))
        clip = product(np.column_stack([xyz, np.ones(len(xyz))]), self.matrix.T)
        w = np.where(clip[:, 3] > 1e-6, clip[:, 3], np.nan)
        x = (1 + clip[:, 0] / w) / 2 * self.box_width
        y = (1 - clip[:, 1] / w) / 2 * self.scene.height
        return np.stack([x, y], axis=1)

    @property
    def row_px(self) -> float:
        """Height of a layer of the stack."""
        activity, space = self.scene.activity, self.scene.height - _STACK_HEAD - _PAD
        n = 0 if activity is None else len(activity)
        return min(max(space, 1.0) / max(n, 1), _MAX_ROW_PX)

    def layer_box(self, i: int) -> tuple[float, float, float, float]:
        """Return (x0, x1, y0, y1) of a layer of the activity; the last is on top."""
        activity = self.scene.activity
        n = 0 if activity is None else len(activity)
        top = _STACK_HEAD + (n - 1 - i) * self.row_px
        return self.box_width, self.scene.width - _PAD, top, top + self.row_px

    def layer_at(self, x: float, y: float) -> int:
        """Return the number in the activity of the layer at a position, -1 none."""
        activity = self.scene.activity
        if not self.has_stack or activity is None or x < self.box_width:
            return -1
        row = math.floor((y - _STACK_HEAD) / self.row_px)
        inside = 0 <= row < len(activity) and x < self.scene.width - _PAD
        return len(activity) - 1 - row if inside else -1

    def point_at(self, x: float, y: float) -> int:
        """Return the nearest point at a position, or close to it; -1 none."""
        scene = self.scene
        if not 0 <= x < self.box_width or not 0 <= y < scene.height:
            return -1
        for reach in (scene.radius, scene.radius + _PICK_PX):
            # A picture of one pixel, around the position.
            zoom = np.eye(4)
            zoom[0, 0], zoom[1, 1] = self.box_width, scene.height
            zoom[0, 3] = -(2 * x / self.box_width - 1) * self.box_width
            zoom[1, 3] = -(1 - 2 * y / scene.height) * scene.height
            cell = np.full(1, _CELLS, np.uint64)
            library().ggscope_points_draw(
                scene.xyz, scene.n_shown, 0, product(zoom, self.matrix),
                1, 1, reach, cell,
            )  # fmt: skip
            if int(cell[0]) != _CELLS:
                return int(cell[0]) & 0xFFFFFFFF
        return -1


def compose_points(scene: PointsScene) -> DisplayList:
    """Return the picture."""
    geometry = PointsGeometry(scene)
    batches = [*_walls(geometry)]
    if scene.has_points:
        batches += [*_image(geometry), *points_overlay(scene)]
    return DisplayList(
        scene.width, scene.height, scene.scale, scene.theme.pane, tuple(batches)
    )


def points_overlay(scene: PointsScene) -> list[Batch]:
    """Return what lies over the points: what is pointed at, words, and the layers."""
    geometry = PointsGeometry(scene)
    return [*_ring(geometry), *_caption(geometry), *_stack(geometry)]


# -- the box ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Tick:
    """A tick of an axis: its place 0..1 and its label."""

    place: float
    label: str


def _time_ticks(geometry: PointsGeometry) -> list[_Tick]:
    scene, extent = geometry.scene, geometry.scene.points.extent
    px = geometry.box_width * 0.42
    axis = axis_ticks(extent, px, scene.trace.clock, absolute=scene.absolute)
    shares = [
        ((tick - extent.start) / max(extent.duration, 1), label)
        for tick, label in axis.ticks
    ]
    return [_Tick(share, label) for share, label in shares if 0 <= share <= 1]


def _layer_ticks(geometry: PointsGeometry) -> list[_Tick]:
    layers = geometry.scene.axis.layer
    n = max(len(layers), 1)
    step = next(s for s in _steps() if n / s <= _TICKS * 1.6)
    return [
        _Tick((i + 0.5) / n, str(layer) if layer >= 0 else "none")
        for i, layer in enumerate(layers.tolist())
        if layer < 0 or layer % step == 0
    ]


def _offset_ticks(geometry: PointsGeometry) -> list[_Tick]:
    extent = max(geometry.scene.points.files.extent, 1)
    step = 1 << max(math.ceil(math.log2(extent / _TICKS)), 0)
    return [_Tick(at / extent, format_bytes(at)) for at in range(0, extent + 1, step)]


def _steps() -> Iterator[int]:
    """Yield 1, 2, 5, 10, 20 and so on."""
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def _walls(geometry: PointsGeometry) -> list[Batch]:
    """Return the floor and the walls behind the points, with grid lines and labels."""
    scene, theme = geometry.scene, geometry.scene.theme
    away = np.where(scene.camera.eye() >= 0, -1.0, 1.0)  # a longer box changes no sign
    ticks = (_time_ticks(geometry), _layer_ticks(geometry), _offset_ticks(geometry))
    ends: list[tuple[F64, F64, int]] = []
    for fixed in range(3):
        for along, across in ((k, j) for k in range(3) for j in range(3)):
            if len({fixed, along, across}) < 3:
                continue
            marks = [(2 * tick.place - 1, theme.grid) for tick in ticks[along]]
            for share, color in (*marks, (-1.0, theme.line), (1.0, theme.line)):
                low = np.zeros(3)
                low[fixed], low[along] = away[fixed] * HALF[fixed], share * HALF[along]
                high = low.copy()
                low[across], high[across] = -HALF[across], HALF[across]
                ends.append((low, high, color))
    first = geometry.project(np.array([low for low, _, _ in ends]))
    last = geometry.project(np.array([high for _, high, _ in ends]))
    tone = np.array([color for _, _, color in ends], np.uint32)
    seen = np.isfinite(first).all(axis=1) & np.isfinite(last).all(axis=1)
    lines = LineList()
    x0, y0 = first[seen].T
    x1, y1 = last[seen].T
    lines.add(*_clipped(geometry, x0, y0, x1, y1), tone[seen])
    return [*lines.batch(), *_labels(geometry, away, ticks)]


def _clipped(
    geometry: PointsGeometry, x0: F64, y0: F64, x1: F64, y1: F64
) -> tuple[F64, F64, F64, F64]:
    """Return lines cut to a frame around the picture, so that floats hold them.

    A line that does not touch the frame becomes a point of it.
    """
    low = np.array([-10.0, -10.0])
    high = np.array([geometry.box_width, geometry.scene.height]) + 10.0
    begin, step = np.stack([x0, y0], 1), np.stack([x1 - x0, y1 - y0], 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        enter = np.where(step != 0, (np.where(step > 0, low, high) - begin) / step, 0)
        leave = np.where(step != 0, (np.where(step > 0, high, low) - begin) / step, 1)
    t0 = np.clip(enter.max(axis=1), 0, 1)
    t1 = np.clip(leave.min(axis=1), 0, 1)
    is_out = (t0 >= t1) | ((step == 0) & ((begin < low) | (begin > high))).any(axis=1)
    t0, t1 = np.where(is_out, 0, t0), np.where(is_out, 0, t1)
    first = np.where(is_out[:, None], low, begin + step * t0[:, None])
    last = np.where(is_out[:, None], low, begin + step * t1[:, None])
    return first[:, 0], first[:, 1], last[:, 0], last[:, 1]


_TITLES = ("time", "layer", "file offset")


def _labels(
    geometry: PointsGeometry, away: F64, ticks: tuple[list[_Tick], ...]
) -> list[Batch]:
    """Return ticks and titles along one edge of each axis."""
    scene, near = geometry.scene, -away
    middle = geometry.project(np.zeros(3))[0]
    if not np.isfinite(middle).all():
        return []
    floor = -HALF[2]
    time_edge = (0.0, near[1] * HALF[1], floor)
    layer_edge = (near[0] * HALF[0], 0.0, floor)
    sides = [(near[0], away[1]), (away[0], near[1])]
    upright = [(x * HALF[0], y * HALF[1], 0.0) for x, y in sides]
    at = [float(geometry.project(np.array(edge))[0][0]) for edge in upright]
    offset_edge = upright[0 if at[0] <= at[1] or at[1] != at[1] else 1]
    texts = TextList()
    for axis, edge in enumerate((time_edge, layer_edge, offset_edge)):
        spots = np.tile(np.array(edge), (len(ticks[axis]) + 1, 1))
        spots[:-1, axis] = [(2 * t.place - 1) * HALF[axis] for t in ticks[axis]]
        xy = geometry.project(spots)
        if not np.isfinite(xy).all():
            continue
        out = xy[-1] - middle if axis < 2 else np.array([-1.0, 0.0])
        out = out / max(float(np.hypot(*out)), 1e-6)
        labels = [t.label for t in ticks[axis]]
        reach = 9 + max((len(label) for label in labels), default=0) * 6.4 * abs(out[0])
        for (x, y), label in zip(xy[:-1].tolist(), labels, strict=True):
            texts.append(_label(scene, x + out[0] * 9, y + out[1] * 9, label, out[0]))
        x, y = (xy[-1] + out * (reach + 12)).tolist()
        if axis == 2:  # above, where labels to the left may have no room
            top = np.array(edge)
            top[2] = HALF[2]
            x, y = (geometry.project(top)[0] - [0.0, 15.0]).tolist()
        texts.append(_title(geometry, x, y, _TITLES[axis]))
    return TextList(_apart(geometry, texts)).batch()


def _apart(geometry: PointsGeometry, texts: Sequence[Text]) -> list[Text]:
    """Return the texts that are in the picture and on no other one; titles first."""
    chosen: list[Text] = []
    boxes: list[tuple[float, float, float]] = []
    is_title = [text.face is Face.UI for text in texts]
    for text, _ in sorted(zip(texts, is_title, strict=True), key=lambda t: not t[1]):
        width = len(text.text) * CHARACTER_PX
        left = text.x - width * {Align.LEFT: 0.0, Align.CENTER: 0.5}.get(text.align, 1)
        is_in = left >= 0 and left + width <= geometry.box_width
        is_in = is_in and 8 <= text.y <= geometry.scene.height - 8
        is_free = all(
            abs(text.y - y) >= _LABEL_SIZE + 1 or left > end + 4 or left + width < x - 4
            for x, end, y in boxes
        )
        if is_in and is_free:
            chosen.append(text)
            boxes.append((left, left + width, text.y))
    return chosen


def _title(geometry: PointsGeometry, x: float, y: float, text: str) -> Text:
    """Return the title of an axis, moved into the picture."""
    half = len(text) * CHARACTER_PX / 2
    x = min(max(x, half), max(geometry.box_width - half, half))
    y = min(max(y, 30.0), max(geometry.scene.height - 9.0, 9.0))
    return Text(x, y, text, geometry.scene.theme.dim, _LABEL_SIZE, align=Align.CENTER)


def _label(scene: PointsScene, x: float, y: float, text: str, out: float) -> Text:
    face = Face.MONO
    return Text(x, y, text, scene.theme.dim, _LABEL_SIZE, face, _align(out))


def _align(out: float) -> Align:
    """Return how a text is set that leads away from the box."""
    if abs(out) < 0.3:
        return Align.CENTER
    return Align.LEFT if out > 0 else Align.RIGHT


# -- points ----------------------------------------------------------------------


def _image(geometry: PointsGeometry) -> list[Batch]:
    """Return the points as a picture of device pixels."""
    scene = geometry.scene
    width = max(math.ceil(geometry.box_width * scene.scale), 1)
    height = max(math.ceil(scene.height * scene.scale), 1)
    pixels = _pixels(geometry, width, height)
    tops = (np.arange(height) / scene.scale).astype(np.float32)
    bottoms = ((np.arange(height) + 1) / scene.scale).astype(np.float32)
    return [ImageBatch(pixels, 0.0, width / scene.scale, tops, bottoms)]


def _pixels(geometry: PointsGeometry, width: int, height: int) -> U32:
    """Return uint32[height, width]; of the same points from the same place kept."""
    scene = geometry.scene
    arrays = (scene.xyz, scene.colors, scene.is_highlighted)
    key = (scene.camera, scene.n_shown, width, height, scene.theme.name)
    for old, old_key, pixels in scene.cache.pictures:
        if key == old_key and all(a is b for a, b in zip(arrays, old, strict=True)):
            return pixels
    # The picture has whole pixels, of which the last may lie beyond the box.
    fit = np.eye(4)
    by_x = geometry.box_width * scene.scale / width
    by_y = scene.height * scene.scale / height
    fit[0, 0], fit[0, 3] = by_x, by_x - 1
    fit[1, 1], fit[1, 3] = by_y, 1 - by_y
    matrix = product(fit, geometry.matrix)
    radius = scene.radius * scene.scale
    cells = _cells(scene.xyz[: scene.n_shown], matrix, width, height, radius)
    if scene.has_some_highlighted:
        _draw_highlighted(scene, matrix, cells, radius * HIGHLIGHT_SIZE)
    pixels = np.empty((height, width), np.uint32)
    library().ggscope_points_resolve(
        cells, cells.size, np.ascontiguousarray(scene.shown_colors()), pixels
    )
    scene.cache.pictures[:] = [(arrays, key, pixels)]
    return pixels


def _cells(
    xyz: F32, matrix: F64, width: int, height: int, radius: float
) -> npt.NDArray[np.uint64]:
    """Return the cells of a picture of points; each worker draws some of them."""
    parts: list[npt.NDArray[np.uint64]] = []

    def draw(_: int, rows: slice) -> None:
        cells = np.full((height, width), _CELLS, np.uint64)
        part = xyz[rows]
        library().ggscope_points_draw(
            part, len(part), rows.start, matrix, width, height, radius, cells
        )
        parts.append(cells)

    size = max(-(-len(xyz) // n_workers()), _MIN_PART)
    share_out(draw, chunks(max(len(xyz), 1), size))
    cells = parts[0]
    for part in parts[1:]:
        np.minimum(cells, part, out=cells)
    return cells


def _draw_highlighted(
    scene: PointsScene, matrix: F64, cells: npt.NDArray[np.uint64], radius: float
) -> None:
    """Draw the points of the selection over all others, larger."""
    assert scene.is_highlighted is not None
    highlighted = np.flatnonzero(scene.is_highlighted[: scene.n_shown])
    height, width = cells.shape
    over = np.full_like(cells, _CELLS)
    xyz = np.ascontiguousarray(scene.xyz[highlighted])
    library().ggscope_points_draw(
        xyz, len(highlighted), 0, matrix, width, height, radius, over
    )
    is_set = over != np.uint64(_CELLS)
    number = (over[is_set] & np.uint64(0xFFFFFFFF)).astype(np.int64)
    cells[is_set] = highlighted[number].astype(np.uint64)


def _ring(geometry: PointsGeometry) -> list[Batch]:
    """Return a ring around the point under the mouse."""
    scene = geometry.scene
    if not 0 <= scene.hover < scene.n_shown:
        return []
    x, y = geometry.project(scene.xyz[scene.hover])[0].tolist()
    if not math.isfinite(x + y):
        return []
    r = scene.radius + 4.0
    ring = RectList()
    ring.add(x - r, x + r, y - r, y + r, 0, scene.theme.text)
    return ring.batch(radius=r)


def _caption(geometry: PointsGeometry) -> list[Batch]:
    """Return what the points stand for, and where replay is."""
    scene = geometry.scene
    text = points_text(scene.trace, scene.points)
    if scene.tick is not None:
        at = time_text(scene.trace, scene.tick, absolute=scene.absolute)
        text = f"{scene.n_shown:,} of {len(scene.points):,} points until {at} · {text}"
    return TextList(
        [Text(_PAD, 14.0, text, scene.theme.dim, 11.0, width=geometry.box_width - 20)]
    ).batch()


# -- layers ----------------------------------------------------------------------


def _stack(geometry: PointsGeometry) -> list[Batch]:
    """Return a box per layer in the colour of its activity, the last layer on top."""
    scene, activity = geometry.scene, geometry.scene.activity
    if not geometry.has_stack or activity is None:
        return []
    theme = scene.theme
    table = colors(map_on(DEFAULT, theme))
    boxes, texts = RectList(), TextList()
    gap = 1.5 if geometry.row_px >= 5 else 0.0
    shares = activity.shares
    for i, layer in enumerate(activity.layer.tolist()):
        x0, x1, y0, y1 = geometry.layer_box(i)
        share = float(shares[i])
        is_known, is_idle = share == share, share == 0
        fill = theme.lane if is_idle or not is_known else int(table[round(share * 255)])
        boxes.add(x0, x1, y0, y1 - gap, fill, mix(fill, theme.line, 0.5))
        if layer == scene.layer:
            boxes.add(x0 - 8, x0 - 3, y0, y1 - gap, theme.selection)
        if geometry.row_px < 13:
            continue
        ticks = int(activity.ticks[i])
        ink = theme.dim if fill == theme.lane else label_color(fill)
        middle = (y0 + y1 - gap) / 2
        time = format_duration(ticks, scene.trace.clock.unit) if is_known else "–"
        texts.append(Text(x0 + 6, middle, f"layer {layer}", ink, _LABEL_SIZE))
        texts.append(
            Text(x1 - 6, middle, time, ink, _LABEL_SIZE, Face.MONO, Align.RIGHT)
        )
    title = f"op time · {scene.of}" if scene.of else "op time by layer"
    x0, x1, *_ = geometry.layer_box(0)
    texts.append(Text(x0, 14.0, title, theme.dim, 11.0, width=x1 - x0))
    return [*boxes.batch(radius=2.0), *texts.batch()]


# -- figure ----------------------------------------------------------------------


def draw_points(scene: PointsScene, style: FigureStyle, name: str) -> RenderedFigure:
    """Return the figure of a scene, as `style` says."""
    width = style.width_or(scene.width)
    scene = replace(
        scene, width=width, theme=theme_named(style.theme), scale=style.scale, hover=-1,
        has_points=True, cache=PointsCache(),
    )  # fmt: skip
    if not len(scene.points):
        raise NothingToDrawError(". ".join(why_no_points(scene.trace, scene.points)))
    if not style.seen:
        scene = replace(scene, is_highlighted=None, layer=-1)
    text = points_text(scene.trace, scene.points)
    return framed(
        style, f"{name} · 3D view",
        lambda height: compose_points(replace(scene, height=height)), width=width,
        natural_height=max(width * 0.6, 300.0), entries=scene.entries,
        description=f"Reads of the model file of {name} over time, layer and offset: "
        f"{text}.",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsOptions:
    """Options of the figure of the 3D view.

    Attributes
    ----------
    color_by : id of a colouring.
    azimuth, elevation : degrees of the camera; distance : from the middle of the box.
    absolute : whether times are those of the file's own clock.
    visible : only reads of spans that start in it; all where None.
    mask : bool[n_spans], whose accesses count; all where None.
    """

    color_by: str = field(default="family", metadata=option(flag="color_by"))
    azimuth: float = HOME.azimuth
    elevation: float = HOME.elevation
    distance: float = HOME.distance
    absolute: bool = False
    visible: TimeRange | None = field(
        default=None, metadata=option(flag="range", read=read_time)
    )
    mask: npt.NDArray[np.bool_] | None = field(
        default=None, metadata=option(flag="where", read=None)
    )


def points_recipe(
    trace: Trace, options: PointsOptions, lacks: tuple[str, ...] = ()
) -> ExportCommand:
    """Return the command line that makes the figure."""
    values = changed_options(options)
    values.pop("color_by", None)
    by = options.color_by
    flags = () if by == "family" else ("--color-by", by)
    return ExportCommand("3d", trace.info.opened, values, flags, lacks=lacks)


def points_figure(trace: Trace, options: PointsOptions = PointsOptions()) -> Figure:
    """Return the figure of accesses over time, layer and file offset."""
    by = options.color_by
    if by not in available_colorings(trace):
        known = ", ".join(available_colorings(trace))
        raise ExportError(f"color_by can be {known}, not {by!r}.")
    for name in ("azimuth", "elevation", "distance"):
        if not math.isfinite(float(getattr(options, name))):
            raise ExportError(f"{name} must be a number.")
    camera = HOME.zoomed(float(options.distance) / HOME.distance)
    camera = replace(camera, azimuth=0.0, elevation=0.0).orbited(
        float(options.azimuth), float(options.elevation)
    )

    def draw(style: FigureStyle) -> RenderedFigure:
        mask, visible = options.mask, options.visible
        if visible is not None:
            start = trace.spans.start
            in_time = (start >= visible.start) & (start < visible.end)
            mask = in_time if mask is None else in_time & mask
        points = access_points(trace, mask)
        if visible is not None:
            points = replace(points, extent=visible)
        axis = layer_axis(points)
        theme = theme_named(style.theme)
        hues = point_colors(trace, points, by)
        scene = PointsScene(
            trace, points, axis, places(points, axis), hues.colors(theme),
            1400.0, 840.0, theme, style.scale, camera,
            activity=layer_activity(trace, visible, options.mask),
            absolute=options.absolute, entries=hues.entries(theme),
        )  # fmt: skip
        return draw_points(scene, style, trace_name(trace))

    lacks = () if options.mask is None else ("The command leaves the filter out.",)
    return Figure("3d", draw, recipe=points_recipe(trace, options, lacks))
