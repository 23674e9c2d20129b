"""The picture of the file heatmap: heat, tracks, curve, selection and marked range.

Around it: offsets, row labels, layers, names, badges and the colour bar.
"""

import numpy as np
import numpy.typing as npt

from ggscope.analysis.heat.rows import UNIT_WIDTH
from ggscope.descriptions.counting import UNKNOWN_USES, counting_rule
from ggscope.model.tables import I64, Array, Space
from ggscope.model.units import (
    format_bytes,
    format_count,
    format_duration,
    format_offset,
)
from ggscope.render.batch import (
    SPOT_PX,
    Align,
    AreaBatch,
    Batch,
    Clip,
    DisplayList,
    Face,
    HitRegions,
    ImageBatch,
    LineList,
    Pattern,
    RectList,
    Text,
    TextList,
)
from ggscope.render.colors import (
    ColorBar,
    ColorScale,
    Entry,
    ScaleKind,
    Sign,
    category_color,
    color_bar,
    label_color,
    map_on,
)
from ggscope.render.heatmap.scene import (
    HeatCells,
    HeatGeometry,
    HeatMark,
    HeatScene,
    cell_scale,
    cell_texels,
    key_counts,
    value_keys,
)
from ggscope.render.theme import Theme, mix, outline_pair, with_alpha

_SIZE = 10.5
_TICK_PX = 118.0
_ROW_PX = 15.0
_LABEL_PX = 22.0
_BAR_PX = 120.0
_SLICE_NAME_PX = 90.0
_GIB = 1 << 30
_SHADES = 32
_VEIL = 0.85
_MAX_LABELS = 400
F64 = npt.NDArray[np.float64]
_PILL_SIZE = 11.5
_MANY_ROWS = 128
_MIN_RANGE_PX = 2.0
_FRAME_PX = 6.0
"""Frames that are closer than their lines are wide become one."""


def offset_axis(geometry: HeatGeometry) -> list[Batch]:
    """Return the axis along the file: round offsets, or those of units."""
    scene, theme = geometry.scene, geometry.scene.theme
    offsets = _ticks(geometry)
    xs = geometry.xs(offsets)
    top, bottom = geometry.axis
    lines, texts = LineList(), TextList()
    shown = (xs >= geometry.x.x0 - 0.5) & (xs <= geometry.x.x1)
    xs, offsets = xs[shown], offsets[shown]
    if len(xs):
        lines.add(xs, bottom - 4, xs, bottom, theme.line)
        lines.add(xs, geometry.curve[0], xs, geometry.curve[1], theme.grid)
    in_gib = scene.axis.kind == "offset" and _step(geometry) >= _GIB // 64
    for x, offset in zip(xs.tolist(), offsets.tolist(), strict=True):
        label = _gib(offset, _step(geometry)) if in_gib else format_offset(offset)
        if (
            x + geometry.scene.measurer.width(label, Face.MONO, _SIZE) + 4
            <= scene.width
        ):
            texts.append(Text(x + 3, top + 10, label, theme.dim, _SIZE, Face.MONO))
    right = geometry.x.x0 - 6
    texts.append(Text(right, top + 10, "offset", theme.dim, _SIZE, align=Align.RIGHT))
    return [*lines.batch(), *texts.batch()]


def _step(geometry: HeatGeometry) -> int:
    """Return the power of two that ticks of the offset axis are apart."""
    min_step = geometry.x.duration * _TICK_PX / max(geometry.x.x1 - geometry.x.x0, 1)
    return 1 << max(int(np.ceil(np.log2(max(min_step, 1)))), 0)


def _ticks(geometry: HeatGeometry) -> I64:
    """Return the offsets to label, ascending."""
    view, axis = geometry.scene.view, geometry.scene.axis
    if axis.kind == "offset":
        step = _step(geometry)
        first = -(-view.begin // step) * step
        return np.arange(first, view.stop + 1, step, dtype=np.int64)
    begin, _ = axis.unit_positions()
    low, high = np.searchsorted(begin, [view.begin, view.stop])
    every = max(int(np.ceil(_TICK_PX / (UNIT_WIDTH * geometry.x.px_per_tick))), 1)
    low = -(-int(low) // every) * every
    return geometry.scene.base.files.offset[low:high:every]


def _gib(offset: int, step: int) -> str:
    """Return an offset in GiB with the digits that `step` needs."""
    digits = max(int(np.ceil(np.log2(_GIB / step))), 0) if step < _GIB else 0
    return f"{offset / _GIB:.{min(digits, 4)}f} GiB"


def heads(geometry: HeatGeometry) -> list[Batch]:
    """Return the badges, row labels and titles left of the tracks."""
    theme = geometry.scene.theme
    rects, texts = RectList(), TextList()
    right = geometry.x.x0 - 6
    for (top, bottom), title, key in (
        (geometry.disk, "DISK", f"space:{int(Space.FILE)}"),
        (geometry.buffer, "BUF", f"space:{int(Space.BUFFER)}"),
    ):
        if bottom <= top:
            continue
        color = category_color(key, theme)
        middle = (top + bottom) / 2
        width = geometry.scene.measurer.width(title, Face.HEADING, 9.5) + 10
        rects.add(right - width, right, middle - 7, middle + 7, color)
        texts.append(
            Text(right - width / 2, middle, title, label_color(color), 9.5,
                 Face.HEADING, Align.CENTER)
        )  # fmt: skip
    if geometry.held[1] > geometry.held[0]:
        y = (_held_top(geometry) + geometry.held[1]) / 2
        texts.append(Text(right, y, "in cache", theme.dim, _SIZE, align=Align.RIGHT))
    if geometry.curve[1] > geometry.curve[0]:
        texts.append(Text(12, geometry.curve[1] - 8, "accesses", theme.dim, _SIZE))
    if geometry.layers[1] > geometry.layers[0]:
        for part, title in ((geometry.layers, "layer"), (geometry.names, "tensor")):
            if part[1] <= part[0]:
                continue
            y = (part[0] + part[1]) / 2
            texts.append(Text(right, y, title, theme.dim, _SIZE, align=Align.RIGHT))
    return [*rects.batch(radius=3.0), *texts.batch(), *_row_labels(geometry)]


def _row_labels(geometry: HeatGeometry) -> list[Batch]:
    scene, theme, view = geometry.scene, geometry.scene.theme, geometry.scene.view
    n = view.bottom - view.top
    height = geometry.heat[1] - geometry.heat[0]
    if n <= 0 or height < _ROW_PX:
        return []
    every = _round_up(max(n * _ROW_PX / height, 1))
    texts = TextList()
    first, last_y = -(-view.top // every) * every, -_ROW_PX
    for row in range(first, view.bottom, every):
        middle = (geometry.y_of_row(row) + geometry.y_of_row(row + 1)) / 2
        y = min(max(middle, geometry.heat[0] + 6), geometry.heat[1] - 6)
        if y - last_y < _SIZE:
            continue  # moved inwards from an edge, it would lie over its neighbour
        last_y = y
        max_px = geometry.x.x0 - 10
        label = scene.row_name(row)
        if row == first:
            # The kind of the rows stands with the first one: above them is an axis.
            titled = f"{scene.base.rows.kind} {label}"
            has_title = label.startswith("no ") or scene.base.rows.kind == "time"
            if (
                not has_title
                and geometry.scene.measurer.width(titled, Face.MONO, _SIZE) <= max_px
            ):
                label = titled
        texts.append(
            Text(geometry.x.x0 - 6, y, label, theme.dim, _SIZE, Face.MONO,
                 Align.RIGHT, width=max_px)
        )  # fmt: skip
    return texts.batch()


def _round_up(n: float) -> int:
    """Return the first of 1, 2, 5, 10, 20 … that is not less than `n`."""
    power = 1
    while True:
        for m in (1, 2, 5):
            if m * power >= n:
                return m * power
        power *= 10


def bands(geometry: HeatGeometry) -> list[Batch]:
    """Return layers and names of tensors below the heat, where wide enough."""
    if geometry.layers[1] <= geometry.layers[0] or not len(geometry.scene.base.files):
        return []
    scene, files = geometry.scene, geometry.scene.base.files
    begin, stop = scene.axis.unit_positions()
    low = np.searchsorted(stop, scene.view.begin, "right")
    units = np.arange(low, np.searchsorted(begin, scene.view.stop))
    if not len(units):
        return []
    layer = files.layer[units]
    of_layer = _runs(units, layer)
    of_tensor = _runs(units, files.tensor[units])
    batches = _layer_band(geometry, of_layer, begin, stop)
    if geometry.names[1] <= geometry.names[0]:
        return batches
    return batches + _name_band(geometry, of_tensor, begin, stop)


def _runs(units: I64, values: Array) -> I64:
    """Return int64[k, 2]: first and last unit of neighbours with equal values."""
    is_first = np.ones(len(units), np.bool_)
    is_first[1:] = values[1:] != values[:-1]
    starts = np.flatnonzero(is_first)
    ends = np.append(starts[1:], len(units)) - 1
    return np.stack([units[starts], units[ends]], axis=1)


def _span_px(
    geometry: HeatGeometry, runs: I64, begin: I64, stop: I64
) -> tuple[np.ndarray, np.ndarray]:
    x0 = np.maximum(geometry.x.xs(begin[runs[:, 0]]), geometry.x.x0)
    x1 = np.minimum(geometry.x.xs(stop[runs[:, 1]]), geometry.x.x1)
    return x0, x1


def _layer_band(
    geometry: HeatGeometry, runs: I64, begin: I64, stop: I64
) -> list[Batch]:
    scene, theme = geometry.scene, geometry.scene.theme
    layer = scene.base.files.layer[runs[:, 0]]
    x0, x1 = _span_px(geometry, runs, begin, stop)
    top, bottom = geometry.layers
    labelled = np.flatnonzero((layer >= 0) & (x1 - x0 >= 1))
    rects, texts = RectList(), TextList()
    if len(labelled):
        tints = np.array([mix(theme.raised, theme.dim, s) for s in (0.1, 0.32)])
        fill = tints[layer[labelled] % 2].astype(np.uint32)
        rects.add(x0[labelled], x1[labelled], top + 1, bottom - 1, fill)
    wide = labelled[x1[labelled] - x0[labelled] >= _LABEL_PX]
    for i in wide[:_MAX_LABELS].tolist():
        width = float(x1[i] - x0[i])
        label = f"layer {layer[i]}" if width > 54 else f"{layer[i]}"
        middle = float(x0[i] + x1[i]) / 2
        texts.append(
            Text(middle, (top + bottom) / 2, label, theme.text, _SIZE - 1, Face.MONO,
                 Align.CENTER, width=width - 2)
        )  # fmt: skip
    return [*rects.batch(), *texts.batch()]


def _name_band(geometry: HeatGeometry, runs: I64, begin: I64, stop: I64) -> list[Batch]:
    """Name tensors, or the slices of a stack where each has room for its number."""
    scene, theme = geometry.scene, geometry.scene.theme
    runs = _slices_apart(geometry, runs, begin, stop)
    x0, x1 = _span_px(geometry, runs, begin, stop)
    top, bottom = geometry.names
    wide = np.flatnonzero(x1 - x0 >= _LABEL_PX)[:_MAX_LABELS]
    rects, texts = RectList(), TextList()
    if len(wide):
        fill = mix(theme.pane, theme.raised, 0.8)
        rects.add(x0[wide], x1[wide] - 1, top + 1, bottom - 1, fill)
    files = scene.base.files
    for i in wide.tolist():
        first, last = runs[i].tolist()
        width = float(x1[i] - x0[i])
        if last > first:
            name = scene.tensor_name(int(files.tensor[first]))
        elif files.expert[first] >= 0 and width < _SLICE_NAME_PX:
            name = f"[{files.expert[first]}]"
        else:
            name = scene.unit_name(first)
        texts.append(
            Text(float(x0[i]) + 4, (top + bottom) / 2, name, theme.dim, _SIZE - 1,
                 Face.MONO, width=width - 6)
        )  # fmt: skip
    return [*rects.batch(), *texts.batch()]


def _slices_apart(geometry: HeatGeometry, runs: I64, begin: I64, stop: I64) -> I64:
    """Return the runs, those whose slices are wide enough cut into them."""
    n = runs[:, 1] - runs[:, 0] + 1
    # Whole runs, not their visible parts: a word must not appear by panning.
    px = geometry.x.px_per_tick * (stop[runs[:, 1]] - begin[runs[:, 0]])
    is_wide = (n > 1) & (px / n >= _LABEL_PX)
    parts = np.where(is_wide, n, 1)
    step = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
    first = np.repeat(runs[:, 0], parts) + step
    last = np.where(np.repeat(is_wide, parts), first, np.repeat(runs[:, 1], parts))
    return np.stack([first, last], axis=1)


def foot(geometry: HeatGeometry, scale: ColorScale) -> list[Batch]:
    """Return the totals at the left, the colours and their scale at the right."""
    scene, theme = geometry.scene, geometry.scene.theme
    if geometry.foot[1] <= geometry.foot[0]:
        return []
    y = (geometry.foot[0] + geometry.foot[1]) / 2
    values = (scale.low if scale.kind is not ScaleKind.LINEAR else 0.0, scale.high)
    low, high = (_amount(scene, v) for v in values)
    scale_text = scale_label(scene, scale)
    right = scene.width - 10
    texts = TextList()
    right = _right_text(geometry, texts, high, right, y, theme.dim, Face.MONO)
    bar_left = right - _BAR_PX - 6
    name = map_on(scene.colors, theme)
    bar = color_bar(bar_left, y - 5, _BAR_PX, 10, name)
    left = _right_text(geometry, texts, low, bar_left - 6, y, theme.dim, Face.MONO)
    if bar_left < 60:
        return []
    # Where not all fits: the text of the scale goes first, then the swatch.
    swatches, begin = _swatches(geometry, y)
    if begin > left:
        swatches, begin = [], 12.0
    if left - 12 - geometry.scene.measurer.width(scale_text, Face.UI, _SIZE) >= begin:
        left = _right_text(
            geometry, texts, scale_text, left - 12, y, theme.dim, Face.UI
        )
    if left - begin > 80:
        texts.append(
            Text(
                begin,
                y,
                totals_text(geometry),
                theme.dim,
                _SIZE,
                width=left - begin - 12,
            )
        )
    return [bar, *swatches, *texts.batch()]


def _amount(scene: HeatScene, value: float) -> str:
    """Return an end of the scale as text; cells may hold parts of a byte."""
    if scene.metric != "bytes":
        return format_count(round(value))
    return format_bytes(value) if value == 0 or value >= 0.5 else "<1 B"


def scale_label(scene: HeatScene, scale: ColorScale) -> str:
    """Return the quantity and scale of the colours: "bytes per cell, log"."""
    what = "bytes" if scene.metric == "bytes" else "accesses"
    chosen = " (auto)" if scene.scale_kind is ScaleKind.AUTO else ""
    return f"{what} per cell, {scale.kind.value}{chosen}"


def cell_text(geometry: HeatGeometry) -> str:
    """Return the size of a cell: "616 B × 1 token"."""
    scene = geometry.scene
    width = format_bytes(max(round(geometry.cell_bytes), 1))
    if scene.axis.kind == "equal":
        width = "part of a tensor"
    rows = scene.base.rows
    if not len(rows.first):
        return width
    n_rows = scene.view.bottom - scene.view.top
    n = round(max(n_rows / max(len(geometry.row_edges) - 1, 1), 1))
    if rows.kind == "time":
        whole = int(rows.last[-1] - rows.first[0]) + 1
        tick = format_duration(n * whole / len(rows.first), scene.clock.unit)
        return f"{width} × {tick}"
    n *= int(rows.last[0] - rows.first[0]) + 1
    return f"{width} × {n} {rows.kind if n == 1 else _plural(rows.kind)}"


def _plural(kind: str) -> str:
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


def never_color(theme: Theme) -> int:
    """Return the colour of tensors that nothing ever touched, in the DISK track."""
    return mix(theme.lane, theme.accent, 0.30)


def untouched_meanings(scene: HeatScene) -> list[tuple[str, int, Pattern]]:
    """Return the legend of fields without an access: text, colour, pattern."""
    base, theme = scene.base, scene.theme
    if not base.files.is_complete:
        return [("no data", theme.idle, Pattern.FAINT_HATCH)]
    untouched = "not touched by what is shown" if base.is_part else "never touched"
    meanings = []
    if not base.is_open.all():
        meanings.append((untouched, never_color(theme), Pattern.SOLID))
    if base.unknown_use is not None:
        text = UNKNOWN_USES[base.unknown_use]
        meanings.append((text, theme.idle, Pattern.FAINT_HATCH))
    return meanings


def _swatches(geometry: HeatGeometry, y: float) -> tuple[list[Batch], float]:
    """Return the swatches of untouched fields, and the x where they end."""
    theme = geometry.scene.theme
    rects, texts = RectList(), TextList()
    end = 12.0
    for text, color, pattern in untouched_meanings(geometry.scene):
        rects.add(end, end + 12, y - 5, y + 5, color, pattern=int(pattern))
        texts.append(Text(end + 17, y, text, theme.dim, _SIZE))
        end += 17 + geometry.scene.measurer.width(text, Face.UI, _SIZE) + 18
    batches: list[Batch] = [*rects.batch()]
    if geometry.held[1] > geometry.held[0]:
        text = "none to all of a tensor in the page cache (measured)"
        shades = held_colors(theme)[None, :]
        ys = np.array([y - 5], np.float32), np.array([y + 5], np.float32)
        batches.append(ImageBatch(shades, end, end + 33, *ys))
        texts.append(Text(end + 38, y, text, theme.dim, _SIZE))
        end += 38 + geometry.scene.measurer.width(text, Face.UI, _SIZE) + 18
    return [*batches, *texts.batch()], end


def _right_text(
    geometry: HeatGeometry,
    texts: TextList,
    text: str,
    right: float,
    y: float,
    color: int,
    face: Face,
) -> float:
    """Add a text that ends at `right`; return where it begins."""
    texts.append(Text(right, y, text, color, _SIZE, face, Align.RIGHT))
    return right - geometry.scene.measurer.width(text, face, _SIZE)


def totals_text(geometry: HeatGeometry) -> str:
    """Return the totals of all cells, and what they leave out."""
    scene, t = geometry.scene, geometry.scene.base.totals
    of_file = (
        f"DISK {format_count(t.n_file)} accesses, {format_bytes(t.file_bytes)} "
        f"({counting_rule(t.passed_bytes, is_once=t.is_once)})"
    )
    parts = [of_file, *rest_text(scene)]
    if scene.is_filtered:
        parts.insert(0, "filtered")
    return "  ·  ".join(parts)


def rest_text(scene: HeatScene) -> list[str]:
    """Return what is accessed besides the file, and what the cells leave out."""
    t = scene.base.totals
    parts = [f"BUFFER {format_count(t.n_buffer)}, {format_bytes(t.buffer_bytes)}"]
    if t.n_unplaced:
        parts.append(f"{format_count(t.n_unplaced)} without a place in the file")
    if t.passed_bytes:
        parts.append(f"{format_bytes(t.passed_bytes)} in experts not chosen")
    if t.unknown_file_bytes:
        parts.append(f"up to {format_bytes(t.unknown_file_bytes)} unknown")
    if t.n_moved:
        parts.append(f"{format_count(t.n_moved)} kinds of access at rounded places")
    files = scene.base.files
    if len(files) and not files.is_listed:
        parts.append("places from the trace alone")
    elif len(files) and not files.is_read:
        parts.append("no access leads to this file")
    return parts


def compose_heatmap(scene: HeatScene) -> DisplayList:
    """Return the picture of a file heatmap."""
    geometry = HeatGeometry(scene)
    heat, scale = _heat(geometry)
    batches = [
        *_grounds(geometry),
        *_curve(geometry),
        *_disk(geometry),
        *_held(geometry),
        *heat,
        *_no_data(geometry),
        *_replay(geometry),
        *_buffers(geometry),
        *bands(geometry),
        *_linked(geometry),
        *_selected(geometry),
        *_mark(geometry),
        *_hair(geometry),
        *offset_axis(geometry),
        *heads(geometry),
        *(_axis_title(geometry) if scene.is_figure else foot(geometry, scale)),
    ]
    return DisplayList(
        scene.width, scene.height, scene.scale, scene.theme.pane, tuple(batches),
        spots=(_spots(geometry),) if scene.is_figure else (),
    )  # fmt: skip


def _spots(geometry: HeatGeometry) -> HitRegions:
    """Return the tensors and slices of experts that are wide enough to point at."""
    scene, base = geometry.scene, geometry.scene.base
    begin, stop = scene.axis.unit_positions()
    x0 = np.maximum(geometry.x.xs(begin), geometry.x.x0)
    x1 = np.minimum(geometry.x.xs(stop), geometry.x.x1)
    ids = np.flatnonzero(x1 - x0 >= SPOT_PX)
    top, bottom = geometry.disk[0], max(geometry.names[1], geometry.heat[1])
    n_bytes, counts = base.unit_sums()

    def describe(unit: int) -> str:
        offset, size = int(base.files.offset[unit]), int(base.files.size[unit])
        count, read = int(counts[unit]), int(n_bytes[unit])
        never = "never accessed"
        if base.is_open[unit]:
            never = "not known whether accessed"
        elif base.is_part:
            never = "not accessed by what is shown"
        counts_text = f"accesses {count:,}, bytes {read:,}" if count else never
        if base.maybe[unit]:
            counts_text += f", perhaps {int(base.maybe[unit]):,} accesses more"
        name = scene.unit_name(unit) or "without a name"
        return f"{name}: {counts_text}; {size:,} B at {offset:,} of the file"

    high = np.full(len(ids), bottom - top)
    return HitRegions(
        "tensors",
        ids,
        x0[ids],
        np.full(len(ids), top),
        x1[ids] - x0[ids],
        high,
        describe,
    )


def _grounds(geometry: HeatGeometry) -> list[Batch]:
    rects, theme = RectList(), geometry.scene.theme
    for top, bottom in (geometry.curve, geometry.disk, geometry.heat, geometry.buffer):
        if bottom > top:
            rects.add(geometry.x.x0, geometry.x.x1, top, bottom, theme.lane)
    return rects.batch()


def _heat(geometry: HeatGeometry) -> tuple[list[Batch], ColorScale]:
    """Return the heat as one picture, and its scale."""
    scene, view = geometry.scene, geometry.scene.view
    size = (geometry.x.n_columns, len(geometry.row_edges), geometry.x.x0)
    key = (
        id(scene.base), scene.axis.kind, view, size, scene.metric, scene.scale_kind,
        scene.colors, scene.theme.name,
    )  # fmt: skip
    return scene.cache.get("heat", key, lambda: _make_heat(geometry))


def _make_heat(geometry: HeatGeometry) -> tuple[list[Batch], ColorScale]:
    scene, cells = geometry.scene, geometry.levels()
    pixels, scale = _image(cells, scene, scene.theme.lane)
    row_ys = geometry.row_ys
    if len(pixels) != len(row_ys) - 1 or not len(pixels):
        return [], scale
    if _MANY_ROWS < len(pixels) < row_ys[-1]:
        # One row per pixel is drawn at once, and many rows of a few pixels are not.
        pixels = np.repeat(pixels, np.diff(row_ys), axis=0)
        row_ys = np.arange(len(pixels) + 1)
    ys = geometry.heat[0] + row_ys / scene.scale
    tops, bottoms = (part.astype(np.float32) for part in (ys[:-1], ys[1:]))
    x = geometry.x
    clip = geometry.clip(geometry.heat)
    return [ImageBatch(pixels, x.x0, x.x1, tops, bottoms, clip)], scale


def _image(
    cells: HeatCells, scene: HeatScene, background: int
) -> tuple[np.ndarray, ColorScale]:
    """Return the texels of cells, one per pixel column, and their scale."""
    name = map_on(scene.colors, scene.theme)
    keys = value_keys(cells.values)
    counts = key_counts(keys)
    scale = cell_scale(cells.values, keys, counts, scene.scale_kind)
    pixels = cell_texels(keys, counts, scale, name, background)
    if len(cells.column) != pixels.shape[1]:
        pixels = np.take(pixels, cells.column, axis=1)
    return pixels, scale


def _disk(geometry: HeatGeometry) -> list[Batch]:
    """Return the strip of all rows; untouched units differ from gaps."""
    scene, theme = geometry.scene, geometry.scene.theme
    top, bottom = geometry.disk
    if bottom <= top:
        return []
    cells = geometry.levels(of_all_rows=True)
    pixels, _ = _image(cells, scene, 0)
    ys = np.array([top], np.float32), np.array([bottom], np.float32)
    clip = geometry.clip(geometry.disk)
    rects = RectList()
    files = scene.base.files
    begin, stop = scene.axis.unit_positions()
    x0, x1 = geometry.x.xs(begin), geometry.x.xs(stop)
    visible = (x1 > geometry.x.x0) & (x0 < geometry.x.x1)
    untouched = visible & (_sums(scene) == 0)
    is_open = scene.base.is_open
    for cold, color, pattern in (
        (files.is_complete & ~is_open, never_color(theme), Pattern.SOLID),
        (is_open, theme.idle, Pattern.FAINT_HATCH),
    ):
        seen = np.flatnonzero(untouched & cold)
        if len(seen):
            rects.add(
                np.maximum(x0[seen], geometry.x.x0),
                np.minimum(x1[seen], geometry.x.x1),
                top, bottom, color, pattern=int(pattern),
            )  # fmt: skip
    image = ImageBatch(pixels, geometry.x.x0, geometry.x.x1, *ys, clip)
    ends = LineList()
    for part in files.parts[1:]:
        x = float(geometry.xs(np.array([part.begin], np.int64))[0])
        if geometry.x.x0 < x < geometry.x.x1:
            ends.add(x, top, x, geometry.heat[1], theme.caution)
    return [*rects.batch(clip=clip), image, *ends.batch()]


def held_colors(theme: Theme) -> npt.NDArray[np.uint32]:
    """Return the shades of nothing to all of a tensor in the page cache."""
    shades = [
        mix(theme.lane, theme.text, 0.8 * k / _SHADES) for k in range(_SHADES + 1)
    ]
    return np.array(shades, np.uint32)


def _held_top(geometry: HeatGeometry) -> float:
    return geometry.x.snap(geometry.held[0] + 2)


def _held(geometry: HeatGeometry) -> list[Batch]:
    """Return how much of each tensor is in the page cache, as shades of a strip.

    A pixel column with several tensors has the mean over its bytes that are known.
    """
    scene, theme, bottom = geometry.scene, geometry.scene.theme, geometry.held[1]
    if scene.held is None or bottom <= geometry.held[0] or not len(scene.base.files):
        return []
    top = _held_top(geometry)
    begin, stop = scene.axis.unit_positions()
    share = scene.held[scene.base.files.tensor]
    is_known, length = share >= 0, (stop - begin).astype(np.float64)
    knots = np.stack([begin, stop], axis=1).ravel()

    def per_column(weight: F64) -> F64:
        total = np.cumsum(weight)
        before = np.stack([total - weight, total], axis=1).ravel()
        return np.diff(np.interp(geometry.x.edges, knots, before))

    known = per_column(np.where(is_known, length, 0.0))
    held = per_column(np.where(is_known, share * length, 0.0))
    has = known > 0
    pixels = np.zeros((1, len(known)), np.uint32)
    level = np.rint(held[has] / known[has] * _SHADES).astype(np.int64)
    pixels[0, has] = held_colors(theme)[np.clip(level, 0, _SHADES)]
    rects, clip = RectList(), geometry.clip((top, bottom))
    rects.add(geometry.x.x0, geometry.x.x1, top, bottom, theme.lane)
    hatched = _runs(np.arange(len(share)), is_known)
    hatched = hatched[~is_known[hatched[:, 0]]]
    x0, x1 = _span_px(geometry, hatched, begin, stop)
    seen = np.flatnonzero(x1 > x0)
    if len(seen):
        hatch = int(Pattern.FAINT_HATCH)
        rects.add(x0[seen], x1[seen], top, bottom, theme.idle, pattern=hatch)
    ys = np.array([top], np.float32), np.array([bottom], np.float32)
    image = ImageBatch(pixels, geometry.x.x0, geometry.x.x1, *ys, clip)
    return [*rects.batch(clip=clip), image]


def _sums(scene: HeatScene) -> np.ndarray:
    """Return the accesses of each unit, int64[n_units]."""
    return scene.cache.get("units", id(scene.base), lambda: scene.base.unit_sums()[1])


def _no_data(geometry: HeatGeometry) -> list[Batch]:
    """Hatch gaps between tensors, or bytes of unknown use."""
    scene, theme = geometry.scene, geometry.scene.theme
    files = scene.base.files
    if scene.axis.kind == "equal" or not files.extent:
        return []
    gaps = scene.cache.get("gaps", id(scene.base), files.gaps)
    x0, x1 = geometry.xs(gaps[:, 0]), geometry.xs(gaps[:, 1])
    wide = np.flatnonzero((x1 - x0 >= 2) & (x1 > geometry.x.x0) & (x0 < geometry.x.x1))
    rects = RectList()
    free = wide[_untouched(geometry, gaps[wide])] if len(wide) else wide
    if not len(free):
        return []
    left, right = (
        np.maximum(x0[free], geometry.x.x0),
        np.minimum(x1[free], geometry.x.x1),
    )
    # A hatch as high as the heat costs more than all else: it is only in the track.
    rects.add(left, right, *geometry.heat, theme.window)
    if files.is_complete:
        rects.add(left, right, *geometry.disk, theme.window)
    else:
        rects.add(left, right, *geometry.disk, theme.pane)
        rects.add(
            left, right, *geometry.disk, theme.idle, pattern=int(Pattern.FAINT_HATCH)
        )
    return rects.batch()


def _untouched(geometry: HeatGeometry, ranges: np.ndarray) -> np.ndarray:
    """Return which ranges no access touches."""
    base = geometry.scene.base
    grid = geometry.scene.cache.get(
        "total count", id(base), lambda: base.total_grid("count")
    )
    return np.flatnonzero(grid.between(ranges[:, 0], ranges[:, 1])[0] == 0)


def _curve(geometry: HeatGeometry) -> list[Batch]:
    """Return how many accesses touch each column, as steps."""
    top, bottom = geometry.curve
    if bottom <= top:
        return []
    theme = geometry.scene.theme
    cells = geometry.total_cells("count")
    counts = cells.values[0][cells.column].astype(np.float64)
    high = counts.max(initial=0)
    if not high:
        return []
    maximum = format_count(int(high))
    label = Text(geometry.x.x0 - 6, top + 7, maximum, theme.dim, 10, Face.MONO,
                 Align.RIGHT)  # fmt: skip
    steps = _step_area if geometry.scene.is_figure else _step_image
    return [steps(geometry, counts / high), *TextList([label]).batch()]


def _step_area(geometry: HeatGeometry, shares: F64) -> AreaBatch:
    """Return the curve as a shape, for figures."""
    top, bottom = geometry.curve
    y = bottom - shares * (bottom - top - 3)
    x = np.linspace(geometry.x.x0, geometry.x.x1, len(shares) + 1)
    accent = geometry.scene.theme.accent
    return AreaBatch(
        x.astype(np.float32), y.astype(np.float32), bottom, with_alpha(accent, 0.28),
        accent, geometry.clip(geometry.curve),
    )  # fmt: skip


def _step_image(geometry: HeatGeometry, shares: F64) -> ImageBatch:
    """Return the curve as a picture: thousands of steps are slow as a shape."""
    (top, bottom), theme, scale = (
        geometry.curve,
        geometry.scene.theme,
        geometry.scene.scale,
    )
    n = max(round((bottom - top) * scale), 1)
    level = n - 1 - np.rint(shares * (n - 1 - 3 * scale)).astype(np.int64)
    before = np.concatenate([level[:1], level[:-1]])
    row = np.arange(n)[:, None]
    is_edge = (row >= np.minimum(level, before)) & (row <= np.maximum(level, before))
    fill = np.uint32(mix(theme.lane, theme.accent, 0.28))
    pixels = np.where(row > level, fill, np.uint32(theme.lane))
    pixels[is_edge] = theme.accent
    ys = (top + np.arange(n + 1) / scale).astype(np.float32)
    x = geometry.x
    return ImageBatch(
        pixels, x.x0, x.x1, ys[:-1], ys[1:], geometry.clip(geometry.curve)
    )


def _buffers(geometry: HeatGeometry) -> list[Batch]:
    """Return the track of runtime buffers: a field per tensor, all equally wide."""
    scene, (top, bottom) = geometry.scene, geometry.buffer
    track = scene.base.buffers
    if not len(track) or bottom <= top:
        return []
    values = track.bytes if scene.metric == "bytes" else track.count
    column = np.arange(geometry.x.n_columns) * len(track) // geometry.x.n_columns
    unknown = track.unknown if scene.metric == "bytes" else track.unknown * 0
    if len(track) > geometry.x.n_columns:
        first = np.arange(geometry.x.n_columns) * len(track) // geometry.x.n_columns
        values, column = np.add.reduceat(values, first), np.arange(len(first))
        unknown = np.add.reduceat(unknown, first)
    cells = HeatCells(np.zeros(0, np.int64), values[None, :], column)
    pixels, _ = _image(cells, scene, 0)
    ys = np.array([top], np.float32), np.array([bottom], np.float32)
    clip = geometry.clip(geometry.buffer)
    image = ImageBatch(pixels, geometry.x.x0, geometry.x.x1, *ys, clip)
    # How much of a partial read is unknown: it gets no colour.
    edges = np.linspace(geometry.x.x0, geometry.x.x1, len(values) + 1)
    is_open = np.flatnonzero((values == 0) & (unknown > 0))
    rects, hatch = RectList(), int(Pattern.FAINT_HATCH)
    left, right = edges[is_open], edges[is_open + 1]
    rects.add(left, right, top, bottom, scene.theme.idle, pattern=hatch)
    return [image, *rects.batch(clip=clip)]


def _ranges_px(
    geometry: HeatGeometry, ranges: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of ranges of the file, in view and wide enough to be seen."""
    x0, x1 = geometry.xs(ranges[:, 0]), geometry.xs(ranges[:, 1])
    inside = (x1 >= geometry.x.x0) & (x0 <= geometry.x.x1)
    x0, x1 = x0[inside], np.maximum(x1[inside], x0[inside] + _MIN_RANGE_PX)
    return np.maximum(x0, geometry.x.x0), np.minimum(x1, geometry.x.x1)


def _linked(geometry: HeatGeometry) -> list[Batch]:
    """Light up what belongs to the selection."""
    scene = geometry.scene
    if not len(scene.linked):
        return []
    x0, x1 = _merged(*_ranges_px(geometry, scene.linked))
    rects = RectList()
    if len(x0):
        line, _ = outline_pair(scene.theme.selection)
        rects.add(x0, x1, geometry.disk[0] - 3, geometry.disk[0], line)
        _frame(rects, x0, x1, geometry.heat, scene.theme)
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
    """Add frames around ranges, two pixels in a casing, which show on any heat."""
    line, casing = outline_pair(theme.selection)
    top, bottom = rows
    for inset, color in enumerate((casing, line, line, casing)):
        grow = 4 - inset
        if bottom - top > 2 * inset + 1:
            rects.add(
                x0 - grow, x1 + grow, top + inset, bottom - inset, 0, border=color
            )


def _selected(geometry: HeatGeometry) -> list[Batch]:
    """Frame the selected units."""
    scene, files = geometry.scene, geometry.scene.base.files
    units = scene.selected
    if not len(units):
        return []
    begin, stop = scene.axis.unit_positions()
    # Slices of one stack are framed together.
    starts = np.flatnonzero(np.diff(units, prepend=-2) != 1)
    ends = np.append(starts[1:], len(units)) - 1
    x0, x1 = geometry.x.xs(begin[units[starts]]), geometry.x.xs(stop[units[ends]])
    inside = (x1 >= geometry.x.x0) & (x0 <= geometry.x.x1) & (len(files) > 0)
    x0, x1 = x0[inside], np.maximum(x1[inside], x0[inside] + _MIN_RANGE_PX)
    rects = RectList()
    if len(x0):
        for part in (geometry.disk, geometry.heat):
            if part[1] > part[0]:
                _frame(rects, x0, x1, part, scene.theme)
    span = geometry.clip((geometry.disk[0], geometry.heat[1]))
    return rects.batch(clip=span)


def _mark(geometry: HeatGeometry) -> list[Batch]:
    """Return the marked range with its extent on a pill."""
    scene, mark = geometry.scene, geometry.scene.mark
    if mark is None:
        return []
    theme = scene.theme
    ends = np.array([mark.begin, mark.stop], np.int64)
    left, right = geometry.xs(ends).tolist()
    x0, x1 = max(left, geometry.x.x0), min(max(right, left + 1), geometry.x.x1)
    if x1 <= x0:
        return []
    top, bottom = geometry.heat
    if mark.top >= 0:
        top = min(max(geometry.y_of_row(mark.top), top), bottom)
        bottom = max(min(geometry.y_of_row(mark.bottom), bottom), top)
    rects = RectList()
    rects.add(x0, x1, top, bottom, with_alpha(theme.accent, 0.22), border=theme.accent)
    rects.add(x0, x1, *geometry.disk, with_alpha(theme.accent, 0.22))
    return [*rects.batch(), *_pill(geometry, mark, (x0 + x1) / 2, top + 13)]


def mark_text(scene: HeatScene, mark: HeatMark) -> str:
    """Return the extent of a marked range: its bytes, and its rows if some."""
    extent = format_bytes(mark.stop - mark.begin)
    if mark.top < 0:
        return extent
    kind = scene.base.rows.kind
    first, last = scene.row_name(mark.top), scene.row_name(mark.bottom - 1)
    if first == last:
        return f"{extent} · {kind} {first}"
    return f"{extent} · {_plural(kind)} {first} to {last}"


def _pill(geometry: HeatGeometry, mark: HeatMark, x: float, y: float) -> list[Batch]:
    theme = geometry.scene.theme
    extent = mark_text(geometry.scene, mark)
    half = geometry.scene.measurer.width(extent, Face.MONO, _PILL_SIZE) / 2 + 9
    x = max(min(x, geometry.x.x1 - half - 2), geometry.x.x0 + half + 2)
    y = geometry.x.snap(min(y, geometry.heat[1] - 10))
    pill = RectList()
    pill.add(
        geometry.x.snap(x - half), geometry.x.snap(x + half), y - 9, y + 9, theme.accent
    )
    text = Text(x, y, extent, label_color(theme.accent), _PILL_SIZE, Face.MONO,
                Align.CENTER)  # fmt: skip
    return [*pill.batch(radius=9.0), *TextList([text]).batch()]


def _replay(geometry: HeatGeometry) -> list[Batch]:
    """Return a veil over rows that are still to come, and a frame around the last."""
    scene, n = geometry.scene, geometry.scene.n_begun
    if n is None:
        return []
    top, bottom = geometry.heat
    x0, x1 = geometry.x.x0, geometry.x.x1
    area, veil = Clip(x0, top, x1 - x0, bottom - top), RectList()
    y = min(max(geometry.y_of_row(n), top), bottom)
    veil.add(x0, x1, y, bottom, with_alpha(scene.theme.pane, _VEIL))
    last = RectList()
    if n > 0:
        low, high = geometry.y_of_row(n - 1), geometry.y_of_row(n)
        last.add(x0, x1, low, max(high, low + 2), 0, scene.theme.selection)
    return [*veil.batch(), *last.batch(clip=area)]


def _hair(geometry: HeatGeometry) -> list[Batch]:
    """Return lines through what is under the mouse."""
    scene = geometry.scene
    if scene.hover is None:
        return []
    position, row = scene.hover
    color = with_alpha(scene.theme.text, 0.35)
    lines = LineList()
    x = float(geometry.x.x(position))
    lines.add(x, geometry.curve[0], x, geometry.layers[0], color)
    if row >= 0:
        y = (
            geometry.y_of_row(row)
            + (geometry.y_of_row(row + 1) - geometry.y_of_row(row)) / 2
        )
        lines.add(geometry.x.x0, y, geometry.x.x1, y, color)
    return lines.batch()


def _axis_title(geometry: HeatGeometry) -> list[Batch]:
    """Return what the axis along the file measures."""
    scene, (top, bottom) = geometry.scene, geometry.foot
    title = {
        "offset": "offset in the model file",
        "equal": "tensors in the order of the file, equally wide",
    }[scene.axis.kind]
    middle = (geometry.x.x0 + geometry.x.x1) / 2
    text = Text(middle, (top + bottom) / 2, title, scene.theme.text, _SIZE,
                align=Align.CENTER, width=geometry.x.x1 - geometry.x.x0)  # fmt: skip
    return TextList([text]).batch()


def heat_legend(scene: HeatScene) -> tuple[list[Entry], ColorBar]:
    """Return the legend of all fields that are no heat, and the scale of the heat."""
    theme, geometry = scene.theme, HeatGeometry(scene)
    _, scale = _heat(geometry)
    values = (scale.low if scale.kind is not ScaleKind.LINEAR else 0.0, scale.high)
    low, high = (_amount(scene, v) for v in values)
    what = "bytes" if scene.metric == "bytes" else "accesses"
    title = f"{what} per cell ({cell_text(geometry)}), {scale.kind.value}"
    entries = [
        Entry(label, color, pattern=pattern)
        for label, color, pattern in untouched_meanings(scene)
    ]
    if scene.held is not None:
        shades = held_colors(theme)
        entries += [
            Entry("not in the page cache", int(shades[0]), Sign.FRAME),
            Entry("in the page cache (measured)", int(shades[-1])),
        ]
    if len(scene.selected):
        entries.append(Entry("selected", theme.selection, Sign.FRAME))
    return entries, ColorBar(title, low, high, map_on(scene.colors, theme))
