"""The picture of the file heatmap: heat, tracks, curve and what is marked."""

import numpy as np
import numpy.typing as npt

from ggscope.model.units import format_bytes, format_count
from ggscope.render.batch import (
    Align,
    AreaBatch,
    Batch,
    DisplayList,
    Face,
    ImageBatch,
    LineList,
    Pattern,
    RectList,
    Text,
    TextList,
)
from ggscope.render.heatmap.parts import bands, foot, heads, never_color, offset_axis
from ggscope.render.heatmap.scene import (
    HeatCells,
    HeatGeometry,
    HeatMark,
    HeatScene,
    cell_scale,
    cell_texels,
    value_keys,
)
from ggscope.render.painter import text_width
from ggscope.render.theme import (
    ColorScale,
    Theme,
    label_color,
    mix,
    outline_pair,
    with_alpha,
)

F64 = npt.NDArray[np.float64]
_PILL_SIZE = 11.5
_MANY_ROWS = 128
_LEAST_RANGE_PX = 2.0
_FRAME_PX = 6.0
"""Frames that are closer than their lines are wide become one."""


def compose_heatmap(scene: HeatScene) -> DisplayList:
    """Return the picture of a file heatmap."""
    place = HeatGeometry(scene)
    heat, scale = _heat(place)
    batches = [
        *_grounds(place),
        *_curve(place),
        *_disk(place),
        *heat,
        *_no_data(place),
        *_buffers(place),
        *bands(place),
        *_linked(place),
        *_selected(place),
        *_mark(place),
        *_hair(place),
        *offset_axis(place),
        *heads(place),
        *foot(place, scale),
        *_title(place),
    ]
    return DisplayList(
        scene.width, scene.height, scene.scale, scene.theme.pane, tuple(batches)
    )


def _grounds(place: HeatGeometry) -> list[Batch]:
    rects, theme = RectList(), place.scene.theme
    for top, bottom in (place.curve, place.disk, place.heat, place.buffer):
        if bottom > top:
            rects.add(place.x.x0, place.x.x1, top, bottom, theme.lane)
    return rects.batch()


def _heat(place: HeatGeometry) -> tuple[list[Batch], ColorScale]:
    """Return the heat as one picture, and its scale."""
    scene, view = place.scene, place.scene.view
    size = (place.x.n_columns, len(place.row_edges), place.x.x0)
    key = (
        id(scene.base), scene.axis.kind, view, size, scene.metric, scene.scale_kind,
        scene.colors, scene.theme.name,
    )  # fmt: skip
    return scene.cache.get("heat", key, lambda: _make_heat(place))


def _make_heat(place: HeatGeometry) -> tuple[list[Batch], ColorScale]:
    scene, cells = place.scene, place.cells()
    pixels, scale = _image(cells, scene, scene.theme.lane)
    row_ys = place.row_ys
    if len(pixels) != len(row_ys) - 1 or not len(pixels):
        return [], scale
    if _MANY_ROWS < len(pixels) < row_ys[-1]:
        # One row per pixel is drawn at once, and many rows of a few pixels are not.
        pixels = np.repeat(pixels, np.diff(row_ys), axis=0)
        row_ys = np.arange(len(pixels) + 1)
    ys = place.heat[0] + row_ys / scene.scale
    tops, bottoms = (part.astype(np.float32) for part in (ys[:-1], ys[1:]))
    x = place.x
    clip = place.clip(place.heat)
    return [ImageBatch(pixels, x.x0, x.x1, tops, bottoms, clip)], scale


def _image(
    cells: HeatCells, scene: HeatScene, background: int
) -> tuple[np.ndarray, ColorScale]:
    """Return the texels of cells, one per pixel column, and their scale."""
    keys = value_keys(cells.values)
    scale = cell_scale(cells.values, keys, scene.scale_kind)
    pixels = cell_texels(keys, scale, scene.colors, background)
    if len(cells.column) != pixels.shape[1]:
        pixels = np.take(pixels, cells.column, axis=1)
    return pixels, scale


def _disk(place: HeatGeometry) -> list[Batch]:
    """Return the accumulated strip; what was never touched is told from gaps."""
    scene, theme = place.scene, place.scene.theme
    top, bottom = place.disk
    cells = place.total_cells(scene.metric)
    pixels, _ = _image(cells, scene, 0)
    ys = np.array([top], np.float32), np.array([bottom], np.float32)
    clip = place.clip(place.disk)
    rects = RectList()
    files = scene.base.files
    begin, stop = scene.axis.unit_positions()
    x0, x1 = place.x.xs(begin), place.x.xs(stop)
    visible = (x1 > place.x.x0) & (x0 < place.x.x1)
    untouched = visible & (_sums(scene) == 0)
    is_open = (scene.base.maybe > 0) | scene.base.silent
    for cold, color, pattern in (
        (files.is_complete & ~is_open, never_color(theme), Pattern.SOLID),
        (is_open, theme.idle, Pattern.FAINT_HATCH),
    ):
        seen = np.flatnonzero(untouched & cold)
        if len(seen):
            rects.add(
                np.maximum(x0[seen], place.x.x0), np.minimum(x1[seen], place.x.x1),
                top, bottom, color, pattern=int(pattern),
            )  # fmt: skip
    image = ImageBatch(pixels, place.x.x0, place.x.x1, *ys, clip)
    ends = LineList()
    for part in files.parts[1:]:
        x = float(place.xs(np.array([part.begin], np.int64))[0])
        if place.x.x0 < x < place.x.x1:
            ends.add(x, top, x, place.heat[1], theme.caution)
    return [*rects.batch(clip=clip), image, *ends.batch()]


def _sums(scene: HeatScene) -> np.ndarray:
    """Return the accesses of each unit, int64[n_units]."""
    return scene.cache.get("units", id(scene.base), lambda: scene.base.unit_sums()[1])


def _no_data(place: HeatGeometry) -> list[Batch]:
    """Hatch what belongs to no tensor, or what nothing is known of."""
    scene, theme = place.scene, place.scene.theme
    files = scene.base.files
    if scene.axis.kind == "equal" or not files.extent:
        return []
    gaps = scene.cache.get("gaps", id(scene.base), files.gaps)
    x0, x1 = place.xs(gaps[:, 0]), place.xs(gaps[:, 1])
    wide = np.flatnonzero((x1 - x0 >= 2) & (x1 > place.x.x0) & (x0 < place.x.x1))
    rects = RectList()
    free = wide[_untouched(place, gaps[wide])] if len(wide) else wide
    if not len(free):
        return []
    left, right = np.maximum(x0[free], place.x.x0), np.minimum(x1[free], place.x.x1)
    # A hatch as high as the heat costs more than all else: it is only in the track.
    rects.add(left, right, *place.heat, theme.window)
    if files.is_complete:
        rects.add(left, right, *place.disk, theme.window)
    else:
        rects.add(left, right, *place.disk, theme.pane)
        rects.add(
            left, right, *place.disk, theme.idle, pattern=int(Pattern.FAINT_HATCH)
        )
    return rects.batch()


def _untouched(place: HeatGeometry, ranges: np.ndarray) -> np.ndarray:
    """Return which ranges no access touches."""
    base = place.scene.base
    grid = place.scene.cache.get(
        "total count", id(base), lambda: base.total_grid("count")
    )
    return np.flatnonzero(grid.between(ranges[:, 0], ranges[:, 1])[0] == 0)


def _curve(place: HeatGeometry) -> list[Batch]:
    """Return how many accesses touch each column, as steps."""
    top, bottom = place.curve
    if bottom <= top:
        return []
    theme = place.scene.theme
    cells = place.total_cells("count")
    counts = cells.values[0][cells.column].astype(np.float64)
    high = counts.max(initial=0)
    if not high:
        return []
    words = format_count(int(high))
    label = Text(place.x.x0 - 6, top + 7, words, theme.dim, 10, Face.NUMBERS,
                 Align.RIGHT)  # fmt: skip
    steps = _step_area if place.scene.title else _step_image
    return [steps(place, counts / high), *TextList([label]).batch()]


def _step_area(place: HeatGeometry, shares: F64) -> AreaBatch:
    """Return the curve as a shape, for figures."""
    top, bottom = place.curve
    y = bottom - shares * (bottom - top - 3)
    x = np.linspace(place.x.x0, place.x.x1, len(shares) + 1)
    accent = place.scene.theme.accent
    return AreaBatch(
        x.astype(np.float32), y.astype(np.float32), bottom, with_alpha(accent, 0.28),
        accent, place.clip(place.curve),
    )  # fmt: skip


def _step_image(place: HeatGeometry, shares: F64) -> ImageBatch:
    """Return the curve as a picture: thousands of steps are slow as a shape."""
    (top, bottom), theme, scale = place.curve, place.scene.theme, place.scene.scale
    n = max(round((bottom - top) * scale), 1)
    level = n - 1 - np.rint(shares * (n - 1 - 3 * scale)).astype(np.int64)
    before = np.concatenate([level[:1], level[:-1]])
    row = np.arange(n)[:, None]
    is_edge = (row >= np.minimum(level, before)) & (row <= np.maximum(level, before))
    fill = np.uint32(mix(theme.lane, theme.accent, 0.28))
    pixels = np.where(row > level, fill, np.uint32(theme.lane))
    pixels[is_edge] = theme.accent
    ys = (top + np.arange(n + 1) / scale).astype(np.float32)
    x = place.x
    return ImageBatch(pixels, x.x0, x.x1, ys[:-1], ys[1:], place.clip(place.curve))


def _buffers(place: HeatGeometry) -> list[Batch]:
    """Return the track of runtime buffers: a field per tensor, all equally wide."""
    scene, (top, bottom) = place.scene, place.buffer
    track = scene.base.buffers
    if not len(track):
        return []
    values = track.bytes if scene.metric == "bytes" else track.count
    column = np.arange(place.x.n_columns) * len(track) // place.x.n_columns
    if len(track) > place.x.n_columns:
        first = np.arange(place.x.n_columns) * len(track) // place.x.n_columns
        values, column = np.add.reduceat(values, first), np.arange(len(first))
    cells = HeatCells(np.zeros(0, np.int64), values[None, :], column)
    pixels, _ = _image(cells, scene, 0)
    ys = np.array([top], np.float32), np.array([bottom], np.float32)
    return [ImageBatch(pixels, place.x.x0, place.x.x1, *ys, place.clip(place.buffer))]


def _ranges_px(
    place: HeatGeometry, ranges: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of ranges of the file, in view and wide enough to be seen."""
    x0, x1 = place.xs(ranges[:, 0]), place.xs(ranges[:, 1])
    inside = (x1 >= place.x.x0) & (x0 <= place.x.x1)
    x0, x1 = x0[inside], np.maximum(x1[inside], x0[inside] + _LEAST_RANGE_PX)
    return np.maximum(x0, place.x.x0), np.minimum(x1, place.x.x1)


def _linked(place: HeatGeometry) -> list[Batch]:
    """Light up what belongs to the selection."""
    scene = place.scene
    if not len(scene.linked):
        return []
    x0, x1 = _merged(*_ranges_px(place, scene.linked))
    rects = RectList()
    if len(x0):
        line, _ = outline_pair(scene.theme.selection)
        rects.add(x0, x1, place.disk[0] - 3, place.disk[0], line)
        _frame(rects, x0, x1, place.heat, scene.theme)
    return rects.batch()


def _merged(x0: np.ndarray, x1: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ranges of pixels with those as one that touch or nearly do."""
    if not len(x0):
        return x0, x1
    order = np.argsort(x0, kind="stable")
    x0, x1 = x0[order], np.maximum.accumulate(x1[order])
    first = np.flatnonzero(np.append(True, x0[1:] > x1[:-1] + _FRAME_PX))
    return x0[first], x1[np.append(first[1:], len(x1)) - 1]


def _frame(
    rects: RectList,
    x0: np.ndarray,
    x1: np.ndarray,
    rows: tuple[float, float],
    theme: Theme,
) -> None:
    """Add frames around ranges, a line in a casing, which show on any heat."""
    line, casing = outline_pair(theme.selection)
    rects.add(x0 - 1, x1 + 1, *rows, 0, border=casing)
    rects.add(x0 - 2, x1 + 2, *rows, 0, border=line)
    rects.add(x0 - 3, x1 + 3, *rows, 0, border=casing)


def _selected(place: HeatGeometry) -> list[Batch]:
    """Frame the selected units."""
    scene, files = place.scene, place.scene.base.files
    units = scene.selected
    if not len(units):
        return []
    begin, stop = scene.axis.unit_positions()
    # Slices of one stack are framed together.
    starts = np.flatnonzero(np.diff(units, prepend=-2) != 1)
    ends = np.append(starts[1:], len(units)) - 1
    x0, x1 = place.x.xs(begin[units[starts]]), place.x.xs(stop[units[ends]])
    inside = (x1 >= place.x.x0) & (x0 <= place.x.x1) & (len(files) > 0)
    x0, x1 = x0[inside], np.maximum(x1[inside], x0[inside] + _LEAST_RANGE_PX)
    rects = RectList()
    if len(x0):
        _frame(rects, x0, x1, place.disk, scene.theme)
        _frame(rects, x0, x1, place.heat, scene.theme)
    span = place.clip((place.disk[0], place.heat[1]))
    return rects.batch(clip=span)


def _mark(place: HeatGeometry) -> list[Batch]:
    """Return the marked range with its extent on a pill."""
    scene, mark = place.scene, place.scene.mark
    if mark is None:
        return []
    theme = scene.theme
    ends = np.array([mark.begin, mark.stop], np.int64)
    left, right = place.xs(ends).tolist()
    x0, x1 = max(left, place.x.x0), min(max(right, left + 1), place.x.x1)
    if x1 <= x0:
        return []
    top, bottom = place.heat
    if mark.top >= 0:
        top = min(max(place.y_of_row(mark.top), top), bottom)
        bottom = max(min(place.y_of_row(mark.bottom), bottom), top)
    rects = RectList()
    rects.add(x0, x1, top, bottom, with_alpha(theme.accent, 0.22), border=theme.accent)
    rects.add(x0, x1, *place.disk, with_alpha(theme.accent, 0.22))
    return [*rects.batch(), *_pill(place, mark, (x0 + x1) / 2, top + 13)]


def mark_words(scene: HeatScene, mark: HeatMark) -> str:
    """Return the extent of a marked range: its bytes, and its rows if some."""
    words = format_bytes(mark.stop - mark.begin)
    if mark.top < 0:
        return words
    kind = scene.base.rows.kind
    first, last = scene.row_name(mark.top), scene.row_name(mark.bottom - 1)
    if first == last:
        return f"{words} · {kind} {first}"
    return f"{words} · {kind}s {first} to {last}"


def _pill(place: HeatGeometry, mark: HeatMark, x: float, y: float) -> list[Batch]:
    theme = place.scene.theme
    words = mark_words(place.scene, mark)
    half = text_width(words, Face.NUMBERS, _PILL_SIZE) / 2 + 9
    x = max(min(x, place.x.x1 - half - 2), place.x.x0 + half + 2)
    y = place.x.snap(min(y, place.heat[1] - 10))
    pill = RectList()
    pill.add(place.x.snap(x - half), place.x.snap(x + half), y - 9, y + 9, theme.accent)
    text = Text(x, y, words, label_color(theme.accent), _PILL_SIZE, Face.NUMBERS,
                Align.CENTER)  # fmt: skip
    return [*pill.batch(radius=9.0), *TextList([text]).batch()]


def _hair(place: HeatGeometry) -> list[Batch]:
    """Return lines through what is under the mouse."""
    scene = place.scene
    if scene.hover is None:
        return []
    position, row = scene.hover
    color = with_alpha(scene.theme.text, 0.35)
    lines = LineList()
    x = float(place.x.x(position))
    lines.add(x, place.curve[0], x, place.layers[0], color)
    if row >= 0:
        y = place.y_of_row(row) + (place.y_of_row(row + 1) - place.y_of_row(row)) / 2
        lines.add(place.x.x0, y, place.x.x1, y, color)
    return lines.batch()


def _title(place: HeatGeometry) -> list[Batch]:
    scene = place.scene
    if not scene.title:
        return []
    text = Text(12, 16, scene.title, scene.theme.text, 14.0, Face.HEADING,
                width=scene.width - 24)  # fmt: skip
    return TextList([text]).batch()
