"""The picture of how a model was read: bytes over time and offset, rate, depth, sizes.

One composer for screen and figure. Panels share the time axis; every pixel of the heat
is exact: the bytes that were complete in its column and lie in its row.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.load.cells import LoadCells, load_cells, offsets_of
from ggscope.analysis.load.facts import positions
from ggscope.analysis.load.load import ALL_FILES, Load, load_of
from ggscope.analysis.load.rows import KEYS, LoadRows, load_keys, load_rows
from ggscope.descriptions.load import (
    COLUMNS_NOTE,
    bucket_text,
    cause_lines,
    level_text,
    load_text,
)
from ggscope.errors import ExportError, NothingToDrawError
from ggscope.model.trace import Trace
from ggscope.model.units import (
    TimeRange,
    format_both_bytes,
    format_byte_rate,
    format_bytes,
    format_count,
    format_counted,
    format_duration,
    format_offset,
    format_share,
)
from ggscope.render.batch import (
    Align,
    Batch,
    DisplayList,
    ImageBatch,
    Text,
    TextBatch,
)
from ggscope.render.charts import (
    LABEL_SIZE,
    Axis,
    Bar,
    BarScene,
    ChartGeometry,
    ChartScene,
    Curve,
    compose_bars,
    compose_chart,
    curve_entries,
    in_bytes,
    plain,
)
from ggscope.render.colors import (
    ColorBar,
    ColorScale,
    Entry,
    ScaleKind,
    category_color,
    color_scale,
    map_on,
    texels,
)
from ggscope.render.export import Figure, RenderedFigure, trace_name
from ggscope.render.figure_style import FigureStyle
from ggscope.render.frame import framed
from ggscope.render.grid import moved
from ggscope.render.options import export_command, option, read_time
from ggscope.render.theme import Theme, with_alpha
from ggscope.render.theme import theme as theme_named

_COLORS = "cividis"
_SIDE_PX, _NARROW_PX = 300.0, 720.0
"""Width of the chart of request sizes; it is left out in narrower pictures."""
_PANEL_PX, _LOWEST_PX, _FLAT_PX = 104.0, 250.0, 360.0
_MESSAGE_PX = 24.0
_MAX_BUCKETS = 24
_MIN_SHARE = 0.3
"""Of the scale, where the least amount lies."""
_MARK_PX, _SPARSE_SHARE = 2.0, 0.03
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True, eq=False)
class LoadScene:
    """Everything the picture depends on. Sizes are device-independent pixels.

    Attributes
    ----------
    time : the range shown.
    faults : page faults beside reads of another level; None = there are none.
    cells : those of an earlier picture, drawn as they are; None = exact ones.
    """

    trace: Trace
    load: Load
    time: TimeRange
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    faults: LoadRows | None = None
    cells: LoadCells | None = None
    is_figure: bool = False


@dataclass(frozen=True, slots=True)
class Panels:
    """Where the parts lie: top and height of each, in pixels; 0 high = left out.

    Attributes
    ----------
    width : of the parts over time; the sizes of requests are to the right of it.
    """

    width: float
    heat: tuple[float, float]
    rate: tuple[float, float]
    depth: tuple[float, float]
    faults: tuple[float, float]


def panels_of(scene: LoadScene) -> Panels:
    """Return where the parts lie; the lower ones go first where there is no room."""
    width = scene.width
    if scene.width >= _NARROW_PX and scene.load.facts.buckets:
        width -= _SIDE_PX
    has_depth = scene.load.facts.max_depth > 0
    is_shown = [True, has_depth, scene.faults is not None]
    has_places = _has_places(scene.load)
    if scene.height < _FLAT_PX:
        is_shown[1:] = [False, False]
    if scene.height < _LOWEST_PX and has_places:
        is_shown[0] = False
    lower = [_PANEL_PX if is_there else 0.0 for is_there in is_shown]
    heat = max(scene.height - sum(lower), 60.0 if has_places else _MESSAGE_PX)
    tops = np.cumsum([heat, *lower]).tolist()
    return Panels(
        width,
        (0.0, heat),
        (tops[0], lower[0]),
        (tops[1], lower[1]),
        (tops[2], lower[2]),
    )


def heat_geometry(scene: LoadScene) -> ChartGeometry:
    """Return where the heat lies, with its axes."""
    return ChartGeometry(_heat_chart(scene, panels_of(scene)))


def _ticks(scene: LoadScene) -> Callable[[float], str]:
    unit = scene.trace.clock.unit
    return lambda value: format_duration(value, unit) if value else "0"


def _time_axis(scene: LoadScene) -> Axis:
    end = max(scene.time.end, scene.time.start + 1)
    return Axis(scene.time.start, end, "", _ticks(scene))


def _heat_chart(scene: LoadScene, panels: Panels) -> ChartScene:
    low, high = offsets_of(scene.load.rows)
    return ChartScene(
        panels.width, panels.heat[1], scene.theme, _time_axis(scene),
        Axis(low, high, _place_label(scene.load), _place_text(low, high),
             is_binary=True),
        scale=scene.scale, is_figure=scene.is_figure,
    )  # fmt: skip


def _place_text(low: int, high: int) -> Callable[[float], str]:
    """Return what writes places with the digits that distinguish neighbours."""
    power = min(max(high.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    unit = 1024.0**power
    digits = max(math.ceil(-math.log10((high - low) / unit / 16)), 0) if power else 0
    return lambda value: f"{value / unit:.{digits}f} {_UNITS[power]}"


def _has_places(load: Load) -> bool:
    """Return whether it is recorded where anything was read."""
    return bool((positions(load.rows) >= 0).any())


def _no_places(scene: LoadScene, panels: Panels) -> Batch:
    """Return the message in the place of a heat without offsets."""
    text = Text(
        panels.width / 2, panels.heat[1] / 2,
        "No offsets recorded: where in the file was read is unknown.",
        scene.theme.dim, LABEL_SIZE, align=Align.CENTER, width=panels.width - 16,
    )  # fmt: skip
    return TextBatch((text,))


def _place_label(load: Load) -> str:
    if not bool((load.rows.offset >= 0).any()):
        return "place on the device"
    names = [share.name.rpartition("/")[2] for share in load.facts.files if share.name]
    return f"offset in {names[0]}" if len(names) == 1 else "offset in the file"


def heat_shape(scene: LoadScene) -> tuple[int, int]:
    """Return the columns and rows of the heat in device pixels."""
    geometry = heat_geometry(scene)
    columns = round((geometry.right - geometry.left) * scene.scale)
    rows = round((geometry.bottom - geometry.top) * scene.scale)
    return max(columns, 1), max(rows, 1)


def exact_cells(scene: LoadScene) -> LoadCells:
    """Return the cells of the picture, one per pixel."""
    return load_cells(
        scene.load.rows,
        scene.time,
        offsets_of(scene.load.rows),
        heat_shape(scene),
        scene.faults,
    )


def compose_load(scene: LoadScene) -> DisplayList:
    """Return the picture."""
    cells = scene.cells or exact_cells(scene)
    panels = panels_of(scene)
    batches: list[Batch] = [_no_places(scene, panels)]
    if _has_places(scene.load):
        heat = compose_chart(_heat_chart(scene, panels), _heat(scene, cells))
        batches = list(heat.batches)
    for chart, (top, height) in (
        (rate_chart(scene, cells), panels.rate),
        (depth_chart(scene, cells), panels.depth),
        (fault_chart(scene, cells), panels.faults),
    ):
        if height and chart is not None:
            part = compose_chart(chart)
            batches += [moved(batch, 0.0, top) for batch in part.batches]
    if panels.width < scene.width:
        sizes = compose_bars(_size_bars(scene, scene.width - panels.width))
        batches += [moved(batch, panels.width, 0.0) for batch in sizes.batches]
    return DisplayList(
        scene.width, scene.height, scene.scale, scene.theme.pane, tuple(batches)
    )


def heat_scale(cells: LoadCells) -> ColorScale:
    """Return the scale of the heat: logarithmic, as one read may be a whole tensor.

    It begins below the least amount, whose colour would hardly differ from the ground.
    """
    scale = color_scale(cells.grid, ScaleKind.LOG)
    low = scale.high * min(scale.low / scale.high, 0.5) ** (1 / (1 - _MIN_SHARE))
    return replace(scale, low=low)


def _enlarged(grid: npt.NDArray[np.int64], px: int) -> npt.NDArray[np.int64]:
    """Return a grid with few marks, each `px` cells wide and high where none else is.

    Single pixels of a screen are hard to see.
    """
    if px < 2 or np.count_nonzero(grid) > grid.size * _SPARSE_SHARE:
        return grid
    enlarged = grid.copy()
    for down in range(px):
        for right in range(px):
            part = enlarged[down:, right:]
            source = grid[: grid.shape[0] - down, : grid.shape[1] - right]
            np.copyto(part, source, where=(part == 0) & (source > 0))
    return enlarged


def _heat(scene: LoadScene, cells: LoadCells) -> list[Batch]:
    """Return the heat as a picture; cells of another size are spread to the pixels."""
    geometry = heat_geometry(scene)
    n_columns, n_rows = heat_shape(scene)
    colors = texels(
        _enlarged(cells.grid, round(_MARK_PX * scene.scale)),
        heat_scale(cells), map_on(_COLORS, scene.theme), background=0,
    )  # fmt: skip
    column = np.arange(n_columns) * cells.grid.shape[1] // n_columns
    row = np.arange(n_rows)[::-1] * cells.grid.shape[0] // n_rows
    pixels = np.ascontiguousarray(colors[row][:, column])
    step = (geometry.bottom - geometry.top) / n_rows
    tops = geometry.top + np.arange(n_rows) * step
    return [
        ImageBatch(
            pixels, geometry.left, geometry.left + n_columns / scene.scale,
            tops.astype(np.float32), (tops + step).astype(np.float32), geometry.clip,
        )
    ]  # fmt: skip


def _per_second(scene: LoadScene, cells: LoadCells, amounts: np.ndarray) -> np.ndarray:
    clock = scene.trace.clock
    per = clock.per_s or 1.0
    return np.asarray(amounts / np.maximum(np.diff(cells.edges), 1) * per)


def _steps(cells: LoadCells, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    heights = np.append(values, values[-1:]).astype(np.float64)
    return cells.edges.astype(np.float64), heights


def _small_chart(scene: LoadScene, axis: Axis, curves: tuple[Curve, ...]) -> ChartScene:
    return ChartScene(
        panels_of(scene).width, _PANEL_PX, scene.theme, _time_axis(scene), axis, curves,
        scale=scene.scale, is_figure=scene.is_figure,
    )  # fmt: skip


def _has_sizes(scene: LoadScene) -> bool:
    return scene.load.facts.n_sized > 0


def rate_chart(scene: LoadScene, cells: LoadCells) -> ChartScene:
    """Return the chart of bytes, or reads, a second."""
    values = _per_second(scene, cells, cells.amounts)
    noun = "faults" if scene.load.facts.n_faults else "reads"
    has_sizes = _has_sizes(scene)
    color = category_color("space:0", scene.theme)
    x, y = _steps(cells, values)
    curve = Curve(x, y, color, is_step=True, fills=True, width=1.0)
    top = max(float(values.max(initial=0)) * 1.08, 1.0)
    axis = Axis(0.0, top, "bytes/s" if has_sizes else f"{noun}/s",
                in_bytes if has_sizes else plain, is_binary=has_sizes)  # fmt: skip
    return _small_chart(scene, axis, (curve,))


def depth_chart(scene: LoadScene, cells: LoadCells) -> ChartScene | None:
    """Return the chart of reads in flight; None where nothing is timed."""
    if not scene.load.facts.max_depth:
        return None
    color = category_color("space:1", scene.theme)
    x, y = _steps(cells, cells.mean)
    max_x, max_y = _steps(cells, cells.maximum)
    curves = (
        Curve(max_x, max_y, with_alpha(color, 0.45), "most", is_step=True, width=1.0),
        Curve(x, y, color, "mean in flight", is_step=True, fills=True, width=1.0),
    )
    axis = Axis(0.0, max(float(cells.maximum.max(initial=0)) * 1.1, 1.0), "queue depth")
    return _small_chart(scene, axis, curves)


def fault_chart(scene: LoadScene, cells: LoadCells) -> ChartScene | None:
    """Return the chart of page faults beside reads; None where none are recorded."""
    if cells.faults is None:
        return None
    values = _per_second(scene, cells, cells.faults)
    x, y = _steps(cells, values)
    curve = Curve(x, y, scene.theme.caution, is_step=True, fills=True, width=1.0)
    top = max(float(values.max(initial=0)) * 1.08, 1.0)
    return _small_chart(scene, Axis(0.0, top, "page faults/s"), (curve,))


def _size_bars(scene: LoadScene, width: float) -> BarScene:
    """Return the sizes of requests, smallest first."""
    facts = scene.load.facts
    color = category_color("space:0", scene.theme)
    bars = tuple(
        Bar(
            bucket_text(bucket), bucket.n,
            f"{format_share(bucket.n / facts.n_sized)} · {format_bytes(bucket.bytes)}",
            color,
        )
        for bucket in facts.buckets[:_MAX_BUCKETS]
    )  # fmt: skip
    return BarScene(
        width, scene.height, scene.theme, bars, "Request sizes", scene.scale
    )


# -- what lies where ---------------------------------------------------------------


def cell_at(scene: LoadScene, x: float, y: float) -> tuple[TimeRange, int, int] | None:
    """Return the time and the bytes of the file below a position of the heat."""
    geometry = heat_geometry(scene)
    if geometry.value_at(x, y) is None:
        return None
    low, high = offsets_of(scene.load.rows)
    columns, rows = heat_shape(scene)
    along = (x - geometry.left) / (geometry.right - geometry.left)
    up = (geometry.bottom - y) / (geometry.bottom - geometry.top)
    column = min(int(along * columns), columns - 1)
    row = min(int(up * rows), rows - 1)
    length, span = scene.time.duration, high - low
    first = scene.time.start + length * column // columns
    stop = scene.time.start + length * (column + 1) // columns
    bottom, top = low + span * row // rows, low + span * (row + 1) // rows
    return TimeRange(first, max(stop, first)), bottom, max(top, bottom + 1)


def reads_at(scene: LoadScene, x: float, y: float, reach: float = 3.0) -> np.ndarray:
    """Return the rows of reads at a position, int64[m] of ``load.rows``.

    The nearest first, of those as near the largest; none is further than `reach` px.
    """
    corners = [
        cell_at(scene, x + dx, y + dy)
        for dx, dy in ((0, 0), (-reach, -reach), (reach, reach))
    ]
    there = [corner for corner in corners if corner is not None]
    if corners[0] is None:
        return np.zeros(0, np.int64)
    first = min(corner[0].start for corner in there)
    stop = max(corner[0].end for corner in there)
    low, high = min(c[1] for c in there), max(c[2] for c in there)
    rows = scene.load.rows
    where = positions(rows)
    inside = (rows.end >= first) & (rows.end <= stop) & (where < high)
    inside &= (where >= 0) & (where + np.maximum(rows.size, 1) > low)
    reads = np.flatnonzero(inside)
    geometry = heat_geometry(scene)
    across = np.abs(geometry.px(rows.end[reads]) - x)
    below = geometry.py(where[reads])
    above = geometry.py(where[reads] + np.maximum(rows.size[reads], 1))
    up = np.maximum(above - y, 0) + np.maximum(y - below, 0)
    away = np.floor(np.hypot(across, up))
    return np.asarray(reads[np.lexsort((-rows.size[reads], away))])


def cell_lines(scene: LoadScene, x: float, y: float) -> list[str]:
    """Return what is known of the reads below a position, a line each."""
    cell = cell_at(scene, x, y)
    if cell is None:
        return []
    time, low, high = cell
    clock = scene.trace.clock
    reads = reads_at(scene, x, y)
    lines = [
        f"{format_duration(time.start, clock.unit)} · {format_offset(low)}"
        f" to {format_offset(high)}",
    ]
    if not len(reads):
        return [*lines, "nothing was read here"]
    rows, load = scene.load.rows, scene.load
    size = rows.size[reads]
    amount = int(size[size >= 0].sum())
    text = format_counted(len(reads), "read")
    lines.append(f"{text}, {format_both_bytes(amount)}" if (size >= 0).any() else text)
    best = int(reads[0])
    if not rows.is_open[best]:
        took = int(rows.end[best] - rows.start[best])
        lines.append(f"the nearest took {format_duration(took, clock.unit)}")
        if rows.size[best] > 0 and took > 0:
            rate = int(rows.size[best]) / took
            lines[-1] += f": {format_byte_rate(rate, clock.unit, clock.hz)}"
    of = load.tensors
    tensors = of.tensor[np.isin(of.read, reads)]
    names = list(dict.fromkeys(tensors.tolist()))[:4]
    lines += [scene.trace.strings[int(scene.trace.tensors.name[t])] for t in names]
    span = int(load.causes.span[best])
    if span >= 0 and rows.key != KEYS[-1]:
        lines.append(f"caused by {scene.trace.span_name(span)}")
    return lines


# -- figure ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Options of the figure of the load timeline.

    Attributes
    ----------
    level : as what reads were recorded; "" = what is nearest to storage.
    file : the end of a path; "" = the file of which most was read.
    visible : only reads in it; None = all.
    """

    level: str = ""
    file: str = ""
    visible: TimeRange | None = field(
        default=None, metadata=option(flag="range", read=read_time)
    )


def main_file(rows: LoadRows) -> int:
    """Return the file of which most was read; `ALL_FILES` where none is known."""
    known = rows.file >= 0
    if not known.any():
        return ALL_FILES
    weight = np.maximum(rows.size[known], 1).astype(np.float64)
    return int(np.argmax(np.bincount(rows.file[known], weights=weight)))


def faults_beside(trace: Trace, key: str) -> LoadRows | None:
    """Return the page faults of a trace whose reads are of another level."""
    has_faults = "fault" in load_keys(trace) and key != "fault"
    return load_rows(trace, "fault") if has_faults else None


def shown_time(load: Load, visible: TimeRange | None) -> TimeRange:
    """Return the range of a picture: as asked for, else that of all reads."""
    if visible is not None:
        return visible
    facts = load.facts
    return TimeRange(facts.first, max(facts.last, facts.first + 1))


def draw_load(scene: LoadScene, style: FigureStyle, name: str) -> RenderedFigure:
    """Return the figure of a scene, as `style` says."""
    width = style.width_or(scene.width)
    scene = replace(
        scene, width=width, theme=theme_named(style.theme), scale=style.scale,
        cells=None, is_figure=True,
    )  # fmt: skip
    if not scene.load.facts.n:
        raise NothingToDrawError("No reads are recorded in this range.")
    height = max(width * 0.55, 440.0)
    cells = exact_cells(replace(scene, height=height))
    scale = heat_scale(cells)
    format_amount = (
        format_bytes if _has_sizes(scene) else lambda n: format_count(round(n))
    )
    unit = "bytes" if _has_sizes(scene) else "reads"
    bar = ColorBar(
        f"{unit} per pixel, log", format_amount(scale.low), format_amount(scale.high),
        map_on(_COLORS, scene.theme),
    )  # fmt: skip
    depth = depth_chart(scene, cells)
    entries: list[Entry] = [] if depth is None else curve_entries(depth)
    facts = scene.load.facts
    causes = "; ".join(
        f"{format_counted(n, 'read')}: {text}" for text, n in cause_lines(scene.load)
    )
    return framed(
        style, f"{name} · load timeline",
        lambda height: compose_load(replace(scene, height=height)),
        width=width, natural_height=height, entries=entries,
        bars=[bar] if _has_places(scene.load) else [],
        description=f"Load timeline of {name}, {level_text(facts.key)}. "
        f"{load_text(scene.trace, facts)} {COLUMNS_NOTE[:1].upper()}"
        f"{COLUMNS_NOTE[1:]}. {causes}.",
    )  # fmt: skip


def load_scene(
    trace: Trace, options: LoadOptions, theme: Theme, scale: float = 1.0
) -> LoadScene:
    """Return the scene of options.

    Raises
    ------
    ExportError
        If there is no such level or file.
    NothingToDrawError
        If no read is recorded.
    """
    keys = load_keys(trace)
    if not keys:
        raise NothingToDrawError("No reads of storage or of a model file are recorded.")
    if options.level and options.level not in keys:
        raise ExportError(f"There is no level {options.level!r}: {', '.join(keys)}.")
    key = options.level or keys[0]
    rows = load_rows(trace, key)
    number = main_file(rows)
    if options.file:
        names = [("/" + file.path).endswith("/" + options.file) for file in rows.files]
        if names.count(True) != 1:
            known = ", ".join(file.path for file in rows.files[:8])
            raise ExportError(f"There is no one file {options.file!r}: {known}.")
        number = names.index(True)
    load = load_of(trace, key, number, options.visible)
    assert load is not None
    return LoadScene(
        trace, load, shown_time(load, options.visible), 1200.0, 640.0, theme, scale,
        faults_beside(trace, key),
    )  # fmt: skip


def load_figure(trace: Trace, options: LoadOptions = LoadOptions()) -> Figure:
    """Return the figure of how a model was read."""

    def draw(style: FigureStyle) -> RenderedFigure:
        scene = load_scene(trace, options, theme_named(style.theme), style.scale)
        return draw_load(scene, style, trace_name(trace))

    return Figure("load", draw, recipe=export_command("load", trace, options))
