"""What a picture of the file heatmap depends on, where parts lie, and its colours."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from ggscope.analysis.heat.heatmap import HeatBase, HeatGrid, Metric
from ggscope.analysis.heat.rows import HeatAxis
from ggscope.analysis.rows.columns import column_edges
from ggscope.model.tables import I64, Array, StringTable
from ggscope.model.units import Clock, TimeRange, shown_form
from ggscope.native.library import library
from ggscope.render.batch import U32, Clip
from ggscope.render.colors import (
    DEFAULT,
    LOWER_PART,
    ColorScale,
    ScaleKind,
    automatic_kind,
    texels,
)
from ggscope.render.text_measurer import TextMeasurer, qt_measurer
from ggscope.render.theme import Theme
from ggscope.render.timeline.scene import TimeScale

HEAD_WIDTH = 92.0
AXIS_HEIGHT = 22.0
CURVE_HEIGHT = 40.0
STRIP_HEIGHT = 16.0
HELD_HEIGHT = 11.0
BAND_HEIGHT = 15.0
FOOT_HEIGHT = 26.0
GAP = 4.0
_AXIS_TITLE = 18.0
_T = TypeVar("_T")
_LOW = 220.0
"""Pictures lower than this do without curve and bands."""
_NAME_PX = 60.0
_MIN_HEAT = 24.0
"""Height of the heat that the strip of buffers gives way to."""
_N_KEYS = 1 << 16
_FRACTION_BITS = 15
_RANKS = 257


@dataclass(frozen=True, slots=True)
class HeatView:
    """What is shown: positions ``[begin, stop)`` along x and rows ``[top, bottom)``."""

    begin: int
    stop: int
    top: int
    bottom: int


@dataclass(frozen=True, slots=True)
class HeatMark:
    """What was marked by dragging: offsets ``[begin, stop)``, rows ``[top, bottom)``.

    `top` is -1 where all rows are meant.
    """

    begin: int
    stop: int
    top: int = -1
    bottom: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class HeatCells:
    """The cells of one picture.

    Attributes
    ----------
    offsets : int64[m + 1], strictly ascending global offsets between the cells.
    values : int64[groups, m]; see `HeatGeometry.levels` for float32.
    column : int64[n_columns], the cell that each pixel column shows.
    """

    offsets: I64
    values: Array
    column: I64


@dataclass(eq=False)
class HeatCache:
    """Keeps what the next picture of the same base may need; one value per part."""

    _cached: dict[str, tuple[object, object]] = field(default_factory=dict)

    def get(self, part: str, key: object, make: Callable[[], _T]) -> _T:
        """Return the value of `part` for `key`; ``make()`` makes a new one."""
        known = self._cached.get(part)
        if known is not None and known[0] == key:
            return cast("_T", known[1])
        value = make()
        self._cached[part] = (key, value)
        return value


@dataclass(frozen=True, slots=True, eq=False)
class HeatScene:
    """Everything that a picture of the file heatmap depends on.

    Attributes
    ----------
    strings : names of tensors; `tensor_names` their string ids.
    width, height : of the whole picture, device-independent pixels.
    absolute : whether times are those of the file's own clock.
    metric, scale_kind, colors : what the heat shows, and how.
    selected : units that are selected. linked : int64[k, 2], ranges of the file that
        belong to what is selected elsewhere.
    hover : (position along x, row) under the mouse, None = nowhere.
    n_begun : rows that replay has come to, the last of them now; None = no replay.
    held : float64[n_tensors], the share of each tensor that was last found in the page
        cache, -1 not known; None where nobody looked.
    n_all : accesses of the trace, where a filter hides some; else 0.
    is_figure : whether legend, colour bar and totals are in the frame of a figure.
    """

    base: HeatBase
    axis: HeatAxis
    view: HeatView
    strings: StringTable
    tensor_names: I64
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    metric: Metric = "bytes"
    scale_kind: ScaleKind = ScaleKind.AUTO
    colors: str = DEFAULT
    clock: Clock = field(default_factory=Clock)
    absolute: bool = False
    selected: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    linked: I64 = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    mark: HeatMark | None = None
    hover: tuple[int, int] | None = None
    is_filtered: bool = False
    n_begun: int | None = None
    held: npt.NDArray[np.float64] | None = None
    is_figure: bool = False
    cache: HeatCache = field(default_factory=HeatCache)
    measurer: TextMeasurer = field(default_factory=qt_measurer)

    def tensor_name(self, tensor: int) -> str:
        """Return the name of a row of ``Trace.tensors``; "" for none."""
        return self.strings[int(self.tensor_names[tensor])] if tensor >= 0 else ""

    def unit_name(self, unit: int) -> str:
        """Return the tensor of a unit, with the expert of a slice."""
        files = self.base.files
        name, expert = (
            self.tensor_name(int(files.tensor[unit])),
            int(files.expert[unit]),
        )
        return f"{name}[{expert}]" if expert >= 0 and "[" not in name else name

    def row_name(self, row: int) -> str:
        """Return what a row is called on the axis."""
        rows = self.base.rows
        if row >= len(rows.first):
            return f"no {rows.kind}"
        first, last = int(rows.first[row]), int(rows.last[row])
        if rows.kind == "time":
            whole = TimeRange(int(rows.first[0]), int(rows.last[-1]))
            form = shown_form(whole, self.clock, absolute=self.absolute)
            return form.text(first)
        return str(first) if first == last else f"{first}–{last}"


class HeatGeometry:
    """Where the parts of a picture lie, in device-independent pixels.

    Attributes
    ----------
    x : scale of positions along the file.
    curve, disk, held, heat, layers, names, buffer, foot : (top, bottom) of each part;
        equal where a part is left out.
    """

    def __init__(self, scene: HeatScene) -> None:
        self.scene = scene
        view = scene.view
        left = min(HEAD_WIDTH, scene.width * 0.3)
        visible = TimeRange(view.begin, max(view.stop, view.begin + 1))
        self.x = TimeScale(visible, left, max(scene.width - 8, left + 1), scene.scale)
        is_low = scene.height < _LOW
        self.axis = (0.0, AXIS_HEIGHT)
        self.curve = self._below(self.axis[1], 0 if is_low else CURVE_HEIGHT)
        disk, held, foot_height = self._strip_heights()
        self.disk = self._below(self.curve[1] + 2, disk)
        self.held = self._below(self.disk[1], held)
        foot = scene.height - foot_height
        self.foot = (foot, scene.height)
        has_place = foot - self.held[1] >= 2 * STRIP_HEIGHT + _MIN_HEAT
        self.buffer = self._above(foot - 2, STRIP_HEIGHT if has_place else 0)
        has_names = not is_low and (not scene.is_figure or self._is_name_wide())
        self.names = self._above(self.buffer[0] - GAP, BAND_HEIGHT if has_names else 0)
        self.layers = self._above(self.names[0], 0 if is_low else BAND_HEIGHT)
        heat_top = self.x.snap(self.held[1] + GAP)
        bottom = self.x.snap(self.layers[0] - (0 if is_low else 2))
        self.heat = (heat_top, max(bottom, heat_top + 8 / scene.scale))

    def _strip_heights(self) -> tuple[float, float, float]:
        """Return the heights of the strips above the heat, and of the foot.

        In a low pane the rows go before the foot, the pages held and the disk.
        """
        scene = self.scene
        disk = STRIP_HEIGHT
        held = 0.0 if scene.held is None else HELD_HEIGHT
        if scene.is_figure:
            return disk, held, _AXIS_TITLE
        space = scene.height - self.curve[1] - 2 - 3 * GAP - _MIN_HEAT
        heights = [disk, held, FOOT_HEIGHT]
        for strip in (2, 1, 0):
            if sum(heights) > space:
                heights[strip] = 0.0
        return heights[0], heights[1], heights[2]

    def _is_name_wide(self) -> bool:
        """Whether a tensor is wide enough for its name: else a strip has none."""
        begin, stop = self.scene.axis.unit_positions()
        begin = np.maximum(begin, self.scene.view.begin)
        stop = np.minimum(stop, self.scene.view.stop)
        is_first = np.diff(self.scene.base.files.tensor, prepend=-2) != 0
        last = np.append(np.flatnonzero(is_first)[1:], len(begin)) - 1
        ends = stop[last] - begin[is_first] if len(begin) else begin
        return bool((ends * self.x.px_per_tick >= _NAME_PX).any())

    def _below(self, y: float, height: float) -> tuple[float, float]:
        return self.x.snap(y), self.x.snap(y + height)

    def _above(self, y: float, height: float) -> tuple[float, float]:
        return self.x.snap(y - height), self.x.snap(y)

    def clip(self, part: tuple[float, float]) -> Clip:
        """Return the area of a part right of the row labels."""
        return Clip(self.x.x0, part[0], self.x.x1 - self.x.x0, part[1] - part[0])

    @cached_property
    def row_edges(self) -> I64:
        """Rows between the groups that are drawn, at most one per device pixel."""
        view = self.scene.view
        n = max(view.bottom - view.top, 0)
        px = max(round((self.heat[1] - self.heat[0]) * self.scene.scale), 1)
        groups = min(n, px)
        if not groups:
            return np.array([view.top, view.top], np.int64)
        return column_edges(TimeRange(view.top, view.bottom), groups)

    @cached_property
    def row_ys(self) -> I64:
        """Tops of the groups and the last one's bottom, device pixels of the heat."""
        px = max(round((self.heat[1] - self.heat[0]) * self.scene.scale), 1)
        return column_edges(TimeRange(0, px), max(len(self.row_edges) - 1, 1))

    def y_of_row(self, row: int) -> float:
        """Return the top of a row; it may lie outside the picture."""
        view = self.scene.view
        height = self.heat[1] - self.heat[0]
        return self.heat[0] + (row - view.top) * height / max(view.bottom - view.top, 1)

    def row_at(self, y: float) -> int:
        """Return the row at a height; -1 outside the heat."""
        if not self.heat[0] <= y < self.heat[1]:
            return -1
        view = self.scene.view
        share = (y - self.heat[0]) / (self.heat[1] - self.heat[0])
        row = view.top + int(share * (view.bottom - view.top))
        return min(row, view.bottom - 1) if view.bottom > view.top else -1

    def position_at(self, x: float) -> int:
        """Return the position along the file at `x`, inside the view."""
        return min(max(self.x.tick(x), self.scene.view.begin), self.scene.view.stop - 1)

    def xs(self, offsets: I64) -> np.ndarray:
        """Return the x of global offsets, float64; see ``TimeScale.xs``."""
        return self.x.xs(self.scene.axis.positions(offsets))

    # -- numbers -----------------------------------------------------------------

    def cells(self) -> HeatCells:
        """Return the cells of the heat."""
        return self._cells(self._grid())

    def total_cells(self, metric: Metric) -> HeatCells:
        """Return the cells of all rows together."""
        return self._cells(self._total_grid(metric))

    def levels(self, *, of_all_rows: bool = False) -> HeatCells:
        """Return cells as their colours show them: as `cells`, but equally wide.

        Pixels are a byte more or less of the file, which must not be seen as stripes.
        """
        scene = self.scene
        if scene.metric != "bytes":
            return self.total_cells(scene.metric) if of_all_rows else self.cells()
        grid = self._total_grid("bytes") if of_all_rows else self._grid()
        offsets, column = self._offsets()
        if offsets[0] == offsets[-1]:
            return self._cells(grid)
        levels = grid.densities(offsets)
        if scene.axis.kind == "offset":
            levels *= np.float32(self.cell_bytes)
        else:  # the file runs faster along some tensors than along others
            levels *= np.diff(offsets).astype(np.float32)
        return HeatCells(offsets, levels, column)

    @property
    def cell_bytes(self) -> float:
        """Mean width of a cell in bytes of the file."""
        offsets, _ = self._offsets()
        return float(offsets[-1] - offsets[0]) / max(len(offsets) - 1, 1)

    def _grid(self) -> HeatGrid:
        return self.scene.base.grid(self.row_edges, self.scene.metric)

    def _total_grid(self, metric: Metric) -> HeatGrid:
        scene = self.scene
        return scene.cache.get(
            f"total {metric}", id(scene.base), lambda: scene.base.total_grid(metric)
        )

    def _offsets(self) -> tuple[I64, I64]:
        """Return the offsets between cells, and the cell of each pixel column."""
        edges = self.scene.axis.offsets(self.x.edges)
        # More pixels than bytes: neighbouring columns show the same cell.
        is_new = np.diff(edges, prepend=-1) > 0
        offsets = edges[is_new]
        if len(offsets) < 2:
            return edges[[0, -1]], np.zeros(len(edges) - 1, np.int64)
        column = np.cumsum(is_new)[:-1] - 1
        return offsets, np.minimum(column, len(offsets) - 2)

    def _cells(self, grid: HeatGrid) -> HeatCells:
        offsets, column = self._offsets()
        if offsets[0] == offsets[-1]:
            none = np.zeros((len(grid.rows) - 1, 1), np.int64)
            return HeatCells(offsets, none, column)
        return HeatCells(offsets, grid.cells(offsets), column)


def value_keys(values: Array) -> npt.NDArray[np.uint16]:
    """Return a number per value >= 0, monotone in the value.

    It is the exponent and the first 8 bits of the fraction of the value as float32:
    finer than a step of the colours, and a table by it is an order faster than a
    logarithm or a search per cell.
    """
    bits = values.astype(np.float32).view(np.uint32)
    return np.asarray(bits >> np.uint32(_FRACTION_BITS), np.uint16)


def key_counts(keys: npt.NDArray[np.uint16]) -> I64:
    """Return how often each key occurs, int64[2**16]."""
    counts = np.zeros(_N_KEYS, np.int64)
    library().ggscope_codes_count(keys, 2, None, 0, keys.size, counts)
    return counts


@cache
def key_values() -> np.ndarray:
    """Return a number that each key stands for, float64[2**16]; 0 for key 0."""
    bits = np.arange(_N_KEYS, dtype=np.uint32) << np.uint32(_FRACTION_BITS)
    with np.errstate(invalid="ignore"):
        numbers = bits.view(np.float32).astype(np.float64)
    return np.where(np.isfinite(numbers), numbers, 0.0)


def cell_scale(
    values: Array, keys: npt.NDArray[np.uint16], counts: I64, kind: ScaleKind
) -> ColorScale:
    """Return the scale that covers all cells above zero, from `key_counts` of keys."""
    high = float(values.max(initial=0))
    if not high:
        return ColorScale(kind, 1.0, 1.0)
    if kind is ScaleKind.LINEAR:
        return ColorScale(kind, 0.0, high)
    occurring = np.flatnonzero(counts[1:]) + 1
    numbers, ranks = key_values()[occurring], np.cumsum(counts[occurring])
    if kind is ScaleKind.AUTO:
        lower = np.searchsorted(ranks, LOWER_PART * ranks[-1])
        kind = automatic_kind(float(numbers[lower]), high)
    if kind is ScaleKind.LOG:
        # Key 0 becomes the largest number: the least key above 0 is found at once.
        at = int((keys - np.uint16(1)).argmin())
        return ColorScale(kind, min(float(values.flat[at]), high), high)
    quantiles = numbers[np.searchsorted(ranks, np.linspace(1, ranks[-1], _RANKS))]
    return ColorScale(kind, min(float(numbers[0]), high), high, quantiles)


def cell_texels(
    keys: npt.NDArray[np.uint16],
    counts: I64,
    scale: ColorScale,
    colors: str,
    background: int,
) -> U32:
    """Return the colour of each cell, as ``colormap.texels`` within half a per cent."""
    table = np.full(_N_KEYS, background, np.uint32)
    occurring = np.flatnonzero(counts)
    table[occurring] = texels(key_values()[occurring], scale, colors, background)
    return np.take(table, keys)
