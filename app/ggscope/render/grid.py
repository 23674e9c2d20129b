"""A matrix as a picture: cells in colour, labelled rows and columns, a colour bar.

Zero is the background, missing (NaN) is hatched. Where there are more cells than
pixels, a pixel shows the largest cell under it, so nothing hot is ever lost. Several
pictures can be put next to each other.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64
from ggscope.model.units import NOT_AVAILABLE
from ggscope.render import colors as colormap
from ggscope.render.batch import (
    SPOT_PX,
    U32,
    Align,
    AreaBatch,
    Batch,
    Clip,
    DisplayList,
    Face,
    HitRegions,
    ImageBatch,
    LineBatch,
    Pattern,
    RectBatch,
    RectList,
    StaticLayer,
    Text,
    TextBatch,
)
from ggscope.render.charts import plain
from ggscope.render.colors import ColorBar, ColorScale, Entry
from ggscope.render.theme import Theme, mix, with_alpha

F64 = npt.NDArray[np.float64]
Cell = tuple[int, int]
"""Row and column."""
LABEL_SIZE = 10.5
_CHARACTER = 0.602 * LABEL_SIZE
_TOP, _BOTTOM, _RIGHT = 30.0, 34.0, 12.0
_TITLE_X = 12.0
_GAP_FROM = 5.0
"""Cells at least so large are distinguished by a gap of one pixel."""
_BAR, _BAR_HEIGHT = 96.0, 8.0
_SIDE = 58.0
_SIDE_GAP = 10.0
_ROW_SPACE, _COLUMN_GAP = 13.0, 12.0


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """A strip of one length per row, at the right of the matrix.

    Attributes
    ----------
    shares : float64[R], 0..1; NaN = missing.
    title : what it measures.
    """

    shares: F64
    title: str


@dataclass(frozen=True, slots=True, eq=False)
class GridScene:
    """Everything the picture of a matrix depends on.

    Attributes
    ----------
    values : float64[R, C]; 0 is nothing, NaN is missing.
    colors : scale of the colours; ``colormap.color_scale(values, kind)``.
    row_labels, column_labels : as many as there are rows and columns.
    row_title, column_title : what rows and columns are.
    value_title : what the colours mean, with its unit.
    format_value : returns the label of a number in the colour bar.
    missing : what is written where nothing is known.
    map_name : colour map.
    hover, cursor : cell under the mouse, and under the keys.
    selected : cells that are selected.
    highlighted : cells that have to do with the selection.
    show_bar : whether its colour bar is in the picture; a figure has one below.
    square : whether rows and columns are the same things (experts by experts).
    """

    width: float
    height: float
    theme: Theme
    values: F64
    colors: ColorScale
    row_labels: Sequence[str]
    column_labels: Sequence[str]
    row_title: str = ""
    column_title: str = ""
    value_title: str = ""
    title: str = ""
    format_value: Callable[[float], str] = plain
    missing: str = ""
    map_name: str = colormap.DEFAULT
    side: Side | None = None
    scale: float = 1.0
    hover: Cell | None = None
    cursor: Cell | None = None
    selected: tuple[Cell, ...] = field(default_factory=tuple)
    highlighted: tuple[Cell, ...] = field(default_factory=tuple)
    show_bar: bool = True


class GridGeometry:
    """Where the parts of a matrix lie.

    Attributes
    ----------
    left, right, top, bottom : of the matrix, on device pixels.
    """

    __slots__ = ("bottom", "left", "right", "scene", "top")

    def __init__(self, scene: GridScene) -> None:
        self.scene = scene
        longest = max((len(label) for label in scene.row_labels), default=0)
        labels = max(longest * _CHARACTER + 12, 30.0)
        beside = _SIDE + _SIDE_GAP if scene.side is not None else 0.0
        self.left = self._snap(min(labels, scene.width * 0.3))
        self.right = max(
            self._snap(scene.width - _RIGHT - beside), self.left + 1 / scene.scale
        )
        has_head = scene.show_bar or scene.title
        self.top = self._snap(min(_TOP, scene.height * 0.3) if has_head else 6.0)
        self.bottom = max(
            self._snap(scene.height - _BOTTOM), self.top + 1 / scene.scale
        )

    def _snap(self, value: float) -> float:
        return round(value * self.scene.scale) / self.scene.scale

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.scene.values)

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.scene.values.shape[1])

    def cell_at(self, x: float, y: float) -> Cell | None:
        """Return the cell at a position; None outside the matrix."""
        if not (self.left <= x < self.right and self.top <= y < self.bottom):
            return None
        if not self.scene.values.size:
            return None
        row = int((y - self.top) / (self.bottom - self.top) * self.n_rows)
        column = int((x - self.left) / (self.right - self.left) * self.n_columns)
        return min(row, self.n_rows - 1), min(column, self.n_columns - 1)

    def row_edges(self) -> F64:
        """Return the upper edges of the rows and the last lower one, float64[R + 1]."""
        return self._edges(self.top, self.bottom, self.n_rows)

    def column_edges(self) -> F64:
        """Return the left edges of the columns and the last right one."""
        return self._edges(self.left, self.right, self.n_columns)

    def _edges(self, low: float, high: float, n: int) -> F64:
        at = np.linspace(low, high, n + 1)
        return np.asarray(np.rint(at * self.scene.scale) / self.scene.scale)


def compose_grid(scene: GridScene) -> DisplayList:
    """Return the picture of a matrix."""
    place = GridGeometry(scene)
    batches: list[Batch] = []
    if scene.values.size:
        batches += _cells(place)
        batches += _frames(place)
        batches += _side(place)
    texts = [*_row_labels(place), *_column_labels(place), *_heads(place)]
    batches += _bar(place, texts)
    batches.append(TextBatch(tuple(texts)))
    return DisplayList(
        scene.width, scene.height, scene.scale, scene.theme.pane, tuple(batches),
        spots=() if scene.show_bar else (_spots(place),),
    )  # fmt: skip


def _spots(place: GridGeometry) -> HitRegions:
    """Return the cells that are wide and high enough to be pointed at."""
    scene, n_columns = place.scene, place.n_columns
    xs, ys = place.column_edges(), place.row_edges()
    y, x = np.meshgrid(ys[:-1], xs[:-1], indexing="ij")
    high, wide = np.meshgrid(np.diff(ys), np.diff(xs), indexing="ij")
    ids = np.flatnonzero(((wide >= SPOT_PX) & (high >= SPOT_PX)).ravel())
    x, y, wide, high = (side.ravel()[ids] for side in (x, y, wide, high))

    def describe(cell: int) -> str:
        row, column = divmod(cell, n_columns)
        value = float(scene.values[row, column])
        where = (
            f"{scene.row_title} {scene.row_labels[row]}, "
            f"{scene.column_title} {scene.column_labels[column]}"
        )
        if math.isnan(value):
            return f"{where}: {NOT_AVAILABLE}"
        exact = f"{int(value):,}" if value.is_integer() else f"{value:.9g}"
        return f"{where}: {exact} ({scene.value_title or scene.title})"

    return HitRegions("cells", ids, x, y, wide, high, describe)


def nothing_color(theme: Theme) -> int:
    """Return the colour of cells that hold nothing."""
    return mix(theme.pane, theme.text, 0.06)


def _cells(place: GridGeometry) -> list[Batch]:
    scene = place.scene
    values, per_row = _reduced(scene.values, place)
    texels = colormap.texels(
        values,
        scene.colors,
        colormap.map_on(scene.map_name, scene.theme),
        nothing_color(scene.theme),
    )
    missing = np.isnan(values)
    texels[missing] = 0
    width = place.right - place.left
    column, is_gap = _columns_of(place, values.shape[1])
    pixels: U32 = texels[:, column]
    pixels[:, is_gap] = scene.theme.pane
    edges = place._edges(place.top, place.bottom, len(values))
    y0, y1 = edges[:-1].astype(np.float32), edges[1:].astype(np.float32)
    if (place.bottom - place.top) / per_row >= _GAP_FROM:
        y1 = y1 - np.float32(1 / scene.scale)
    clip = Clip(place.left, place.top, width, place.bottom - place.top)
    under = RectList()
    if missing.any():
        under.add(
            place.left, place.right, place.top, place.bottom,
            with_alpha(scene.theme.idle, 0.9), 0, int(Pattern.FAINT_HATCH),
        )  # fmt: skip
    image = ImageBatch(pixels, place.left, place.right, y0, y1, clip)
    return [*under.batch(clip=clip), image]


def _reduced(values: F64, place: GridGeometry) -> tuple[F64, int]:
    """Return at most a cell per device pixel, and the number of its rows."""
    scale = place.scene.scale
    n_x = max(round((place.right - place.left) * scale), 1)
    n_y = max(round((place.bottom - place.top) * scale), 1)
    for axis, size in ((0, n_y), (1, n_x)):
        n = values.shape[axis]
        if n > size:
            # fmax passes over NaN where there is a number beside it.
            starts = np.arange(size, dtype=np.int64) * n // size
            values = np.fmax.reduceat(values, starts, axis=axis)
    return values, len(values)


def _columns_of(place: GridGeometry, n: int) -> tuple[I64, npt.NDArray[np.bool_]]:
    """Return the column of each device pixel, and which pixels are gaps."""
    scale = place.scene.scale
    n_px = max(round((place.right - place.left) * scale), 1)
    edges = np.rint(np.linspace(0, n_px, n + 1)).astype(np.int64)
    column = np.repeat(np.arange(n), np.diff(edges))
    is_gap = np.zeros(n_px, np.bool_)
    if (place.right - place.left) / n >= _GAP_FROM:
        is_gap[edges[1:] - 1] = True
    return column, is_gap


def _frames(place: GridGeometry) -> list[Batch]:
    """Return outlines of selected, highlighted and pointed cells, the last on top."""
    scene, theme = place.scene, place.scene.theme
    batches: list[Batch] = []
    groups = (
        (scene.highlighted, theme.accent),
        (scene.selected, theme.selection),
        (() if scene.cursor is None else (scene.cursor,), theme.text),
        (() if scene.hover is None else (scene.hover,), theme.text),
    )
    x, y = place.column_edges(), place.row_edges()
    for cells, color in groups:
        inside = [
            cell for cell in cells
            if 0 <= cell[0] < place.n_rows and 0 <= cell[1] < place.n_columns
        ]  # fmt: skip
        if not inside:
            continue
        row, column = np.array(inside, np.int64).T
        # A cell of a pixel gets a frame that can be seen.
        lack_x = np.maximum(5.0 - (x[column + 1] - x[column]), 0) / 2
        lack_y = np.maximum(5.0 - (y[row + 1] - y[row]), 0) / 2
        for grow, hue in ((1.0, theme.pane), (0.0, color)):
            rects = RectList()
            rects.add(
                x[column] - lack_x - grow - 1, x[column + 1] + lack_x + grow,
                y[row] - lack_y - grow - 1, y[row + 1] + lack_y + grow,
                0, hue,
            )  # fmt: skip
            batches += rects.batch()
    return batches


def _side(place: GridGeometry) -> list[Batch]:
    side, scene = place.scene.side, place.scene
    if side is None:
        return []
    x0 = place.right + _SIDE_GAP
    edges = place.row_edges()
    gap = 1 / scene.scale if edges[1] - edges[0] >= _GAP_FROM else 0.0
    rects = RectList()
    known = ~np.isnan(side.shares)
    for rows, pattern, color in (
        (known, Pattern.SOLID, nothing_color(scene.theme)),
        (~known, Pattern.FAINT_HATCH, scene.theme.idle),
    ):
        at = np.flatnonzero(rows)
        rects.add(x0, x0 + _SIDE, edges[at], edges[at + 1] - gap, color, 0,
                  int(pattern))  # fmt: skip
    at = np.flatnonzero(known)
    length = np.clip(side.shares[at], 0, 1) * _SIDE
    fill = mix(scene.theme.pane, scene.theme.accent, 0.75)
    rects.add(x0, x0 + length, edges[at], edges[at + 1] - gap, fill)
    return rects.batch()


def _row_labels(place: GridGeometry) -> list[Text]:
    scene, edges = place.scene, place.row_edges()
    labels = []
    for row in _labelled(place.n_rows, edges, _ROW_SPACE):
        middle = float(edges[row] + edges[row + 1]) / 2
        labels.append(
            Text(place.left - 6, middle, scene.row_labels[row], scene.theme.dim,
                 LABEL_SIZE, Face.MONO, Align.RIGHT, width=place.left - 8)
        )  # fmt: skip
    return labels


def _column_labels(place: GridGeometry) -> list[Text]:
    scene, edges = place.scene, place.column_edges()
    longest = max((len(label) for label in scene.column_labels), default=0)
    space = longest * _CHARACTER + _COLUMN_GAP
    labels = []
    for column in _labelled(place.n_columns, edges, space):
        middle = float(edges[column] + edges[column + 1]) / 2
        labels.append(
            Text(middle, place.bottom + 9, scene.column_labels[column],
                 scene.theme.dim, LABEL_SIZE, Face.MONO, Align.CENTER)
        )  # fmt: skip
    return labels


def _labelled(n: int, edges: F64, space: float) -> range:
    """Return which of `n` rows or columns get a label, at round distances."""
    if not n:
        return range(0)
    each = float(edges[-1] - edges[0]) / n
    min_step = max(math.ceil(space / max(each, 1e-9)), 1)
    power = 10 ** int(math.log10(min_step))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= min_step)
    return range(0, n, step)


def _heads(place: GridGeometry) -> list[Text]:
    scene, theme = place.scene, place.scene.theme
    middle = (place.left + place.right) / 2
    space = place.right - place.left
    texts = [
        Text(middle, place.bottom + 23, scene.column_title, theme.dim, LABEL_SIZE,
             align=Align.CENTER, width=space),
        Text(6, place.bottom + 23, scene.row_title, theme.dim, LABEL_SIZE,
             width=max(space * 0.3, place.left)),
        Text(_TITLE_X, 14, scene.title, theme.text, 12.0, Face.HEADING,
             width=max(space * 0.5 if scene.show_bar else space, 1.0)),
    ]  # fmt: skip
    if scene.side is not None and scene.values.size:
        texts.append(
            Text(place.right + _SIDE_GAP, place.bottom + 9, scene.side.title,
                 theme.dim, LABEL_SIZE, width=_SIDE)
        )  # fmt: skip
    if np.isnan(scene.values).all():
        y = (place.top + place.bottom) / 2
        texts.append(
            Text(middle, y, scene.missing, theme.dim, 12.0, align=Align.CENTER,
                 width=space)
        )  # fmt: skip
    return [text for text in texts if text.text]


def _bar(place: GridGeometry, texts: list[Text]) -> list[Batch]:
    """Return the colour bar at the upper right; append its words to `texts`."""
    scene, theme = place.scene, place.scene.theme
    right = scene.width - _RIGHT
    low, high = (
        scene.format_value(scene.colors.value_at(share)) for share in (0.0, 1.0)
    )
    if scene.colors.low == scene.colors.high and scene.colors.value_at(0.0) > 0:
        low = ""
    x1 = right - len(high) * _CHARACTER - 6
    x0 = x1 - _BAR
    start = x0 - len(low) * _CHARACTER - 6
    if not scene.show_bar or x0 < place.left or np.isnan(scene.values).all():
        return []
    y = 14.0
    for x, label, align in ((x1 + 6, high, Align.LEFT), (x0 - 6, low, Align.RIGHT)):
        texts.append(Text(x, y, label, theme.dim, LABEL_SIZE, Face.MONO, align))
    title_px = len(scene.value_title) * _CHARACTER * 0.9
    used = _TITLE_X + len(scene.title) * 7.2 + 16
    if scene.value_title and start - 8 - title_px > used:
        texts.append(
            Text(start - 8, y, scene.value_title, theme.dim, LABEL_SIZE,
                 align=Align.RIGHT)
        )  # fmt: skip
    snapped = [round(v * scene.scale) / scene.scale for v in (x0, x1)]
    bar = colormap.color_bar(
        snapped[0], y - _BAR_HEIGHT / 2, (snapped[1] - snapped[0]), _BAR_HEIGHT,
        colormap.map_on(scene.map_name, scene.theme),
    )  # fmt: skip
    return [bar]


def grid_bars(scene: GridScene) -> list[ColorBar]:
    """Return what the colours of a matrix stand for; [] where nothing is known."""
    if not scene.values.size or np.isnan(scene.values).all():
        return []
    low, high = (
        scene.format_value(scene.colors.value_at(share)) for share in (0.0, 1.0)
    )
    kind = scene.colors.kind.value
    title = f"{scene.value_title}, {kind}".removeprefix(", ")
    return [ColorBar(title, low, high, colormap.map_on(scene.map_name, scene.theme))]


def grid_entries(*scenes: GridScene) -> list[Entry]:
    """Return the legend of the cells of matrices that have no colour of the scale."""
    entries, theme = [], scenes[0].theme
    if any((scene.values == 0).any() for scene in scenes):
        entries.append(Entry("none", nothing_color(theme)))
    if any(np.isnan(scene.values).any() for scene in scenes):
        entries.append(Entry("not known", theme.idle, pattern=Pattern.FAINT_HATCH))
    return entries


def unit_scale() -> ColorScale:
    """Return the scale of shares: 0..1, whatever the largest one is."""
    return ColorScale(colormap.ScaleKind.LINEAR, 0.0, 1.0)


def share_values(values: F64) -> F64:
    """Return values as float64, with tiny ones for zeros that are known.

    A share of 0 is a fact, not "nothing": it gets the lowest colour of the map.
    """
    numbers = np.asarray(values, np.float64)
    return np.where(numbers == 0, np.finfo(np.float64).tiny, numbers)


def moved(batch: Batch, dx: float, dy: float) -> Batch:
    """Return a batch moved right by `dx` and down by `dy` pixels."""
    if not dx and not dy:
        return batch
    x, y = np.float32(dx), np.float32(dy)
    if isinstance(batch, TextBatch):
        return TextBatch(
            tuple(
                replace(t, x=t.x + dx, y=t.y + dy, clip=_clip(t.clip, dx, dy))
                for t in batch.texts
            )
        )
    clip = _clip(batch.clip, dx, dy)
    if isinstance(batch, RectBatch | LineBatch):
        return replace(
            batch, x0=batch.x0 + x, x1=batch.x1 + x, y0=batch.y0 + y,
            y1=batch.y1 + y, clip=clip,
        )  # fmt: skip
    if isinstance(batch, ImageBatch):
        return replace(
            batch, x0=batch.x0 + dx, x1=batch.x1 + dx, y0=batch.y0 + y,
            y1=batch.y1 + y, clip=clip,
        )  # fmt: skip
    assert isinstance(batch, AreaBatch)
    return replace(batch, x=batch.x + x, y=batch.y + y, base=batch.base + dy, clip=clip)


def placed(
    width: float,
    height: float,
    scale: float,
    background: int,
    parts: Sequence[tuple[DisplayList, float, float]],
) -> DisplayList:
    """Return one picture of several, each with the place of its upper left corner."""
    batches: list[Batch] = []
    still: list[StaticLayer] = []
    for picture, dx, dy in parts:
        # One without an area is the ground of a whole picture.
        layers = [layer for layer in picture.still if layer.area is not None]
        first, at = len(batches), 0
        for layer in layers:
            some = picture.batches[at : layer.first]
            batches += (moved(batch, dx, dy) for batch in some)
            batches += _moved_still(picture.batches[layer.first : layer.stop], dx, dy)
            area = _clip(layer.area, dx, dy)
            still.append(StaticLayer(first + layer.first, first + layer.stop, area))
            at = layer.stop
        batches += (moved(batch, dx, dy) for batch in picture.batches[at:])
    spots = [s.moved(dx, dy) for picture, dx, dy in parts for s in picture.spots]
    return DisplayList(
        width, height, scale, background, tuple(batches), tuple(still), tuple(spots)
    )


@lru_cache(maxsize=8)
def _moved_still(batches: tuple[Batch, ...], dx: float, dy: float) -> list[Batch]:
    """Return the batches of a static layer elsewhere: of the same ones the same."""
    return [moved(batch, dx, dy) for batch in batches]


def _clip(clip: Clip | None, dx: float, dy: float) -> Clip | None:
    if clip is None:
        return None
    return Clip(clip.x + dx, clip.y + dy, clip.width, clip.height)
