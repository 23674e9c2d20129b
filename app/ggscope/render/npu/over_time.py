"""Engines, bandwidth and banks over time: a row each, exact in every pixel column.

Of an engine a column is the share of its time that works, stalls and idles; of a
channel the highest window in it; of a bank the share in which a transfer runs. Whatever
occurs at all has a pixel.
"""

import numpy as np
import numpy.typing as npt

from ggscope.analysis.npu.bandwidth import TOTAL
from ggscope.analysis.npu.boundaries import layer_starts, token_starts
from ggscope.model.npu import HIGH_UTILISATION
from ggscope.model.tables import I64
from ggscope.model.units import format_share
from ggscope.render.axis import axis_ticks
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
from ggscope.render.charts import plain
from ggscope.render.colors import (
    DEFAULT,
    ColorBar,
    ColorScale,
    Entry,
    ScaleKind,
    category_color,
    map_on,
    texels,
)
from ggscope.render.npu.scene import LABEL_SIZE, NpuGeometry, NpuScene, Row, RowKind
from ggscope.render.theme import Theme, mix, visible_on, with_alpha

F64 = npt.NDArray[np.float64]
U32 = npt.NDArray[np.uint32]
_CHARACTER = 0.602 * LABEL_SIZE
_MIN_BOUNDARY_PX = 7.0
"""Boundaries that lie closer than this are left out, all of their kind."""
_FLAG_PX = 2.5
_GAP = 3.0
_STRIPE = 4


def engine_color(kind: str, theme: Theme) -> int:
    """Return the colour of an engine at work."""
    return visible_on(category_color(f"engine:{kind}", theme), theme.lane)


def stall_color(theme: Theme) -> int:
    """Return the colour of stalls."""
    return visible_on(theme.error, theme.lane)


def rate_scale(scene: NpuScene) -> ColorScale:
    """Return the scale of rates: from 0, or the lowest, to the peak where it is known.

    A rate above the peak has the colour of the peak, and a flag.
    """
    windows = scene.facts.bandwidth
    rates = [c.rate[c.rate > 0] for c in windows.channels]
    low = min((float(r.min()) for r in rates if len(r)), default=1.0)
    high = windows.peak or windows.top or 1.0
    return ColorScale(scene.scale_kind, min(low, high), high)


def rate_bar(scene: NpuScene) -> ColorBar | None:
    """Return the legend of the colours of rates; None without bandwidth samples."""
    windows = scene.facts.bandwidth
    if not windows.channels:
        return None
    scale = rate_scale(scene)
    is_log = scene.scale_kind is ScaleKind.LOG
    top = "peak" if windows.peak else "highest"
    unit = (
        "B/cycle"
        if scene.trace.clock.unit == "cycle"
        else f"B/{scene.trace.clock.unit}"
    )
    return ColorBar(
        f"{unit}, {'logarithmic' if is_log else 'linear'}",
        plain(scale.low if is_log else 0.0),
        f"{plain(scale.high)} ({top})",
        map_on(DEFAULT, scene.theme),
    )


def time_entries(scene: NpuScene) -> list[Entry]:
    """Return the legend of the rows of engines."""
    theme, engines = scene.theme, scene.facts.engines
    entries = [
        Entry(f"{kind} working", engine_color(kind, theme))
        for kind in dict.fromkeys(engines.kinds)
        if kind
        in {k for k, n in zip(engines.kinds, engines.lane, strict=True) if n >= 0}
    ]
    if len(engines.stalled.start):
        entries.append(Entry("stalled", stall_color(theme), pattern=Pattern.HATCH))
    if len(engines):
        entries.append(Entry("idle", mix(theme.lane, theme.dim, 0.25)))
    windows = scene.facts.bandwidth
    if len(windows.high()):
        label = f"window above {HIGH_UTILISATION * 100:.0f} % of the peak"
        entries.append(Entry(label, theme.caution))
    if len(windows.over_peak()):
        entries.append(Entry("window above the peak", theme.error))
    return entries


def compose_over_time(scene: NpuScene) -> DisplayList:
    """Return engines, bandwidth and banks over time, without `lights`."""
    geometry = NpuGeometry(scene)
    batches: list[Batch] = []
    for row, y0, y1 in geometry.seen():
        batches += _row(geometry, row, y0, y1)
    batches += boundaries(geometry)
    batches += time_axis(geometry)
    return DisplayList(
        scene.width, scene.height, scene.scale, scene.theme.pane, tuple(batches)
    )


def _row(geometry: NpuGeometry, row: Row, y0: float, y1: float) -> list[Batch]:
    draw = {
        RowKind.HEAD: _head,
        RowKind.ENGINE: _engine,
        RowKind.CHANNEL: _channel,
        RowKind.PROFILE: _profile,
        RowKind.BANK: _bank,
    }[row.kind]
    return draw(geometry, row, y0, y1)


def _head(geometry: NpuGeometry, row: Row, y0: float, y1: float) -> list[Batch]:
    theme = geometry.scene.theme
    texts = TextList()
    texts.append(
        Text(8, y1 - 8, row.title, theme.text, 11.5, Face.HEADING,
             width=geometry.time.x0 - 12, clip=geometry.row_clip)
    )  # fmt: skip
    return texts.batch()


def _label(geometry: NpuGeometry, name: str, label: str, y: float) -> list[Batch]:
    """Return a name at the left, and a figure at the right end of the labels."""
    theme, texts, x0 = geometry.scene.theme, TextList(), geometry.time.x0
    clip = geometry.row_clip
    space = len(label) * _CHARACTER + 8
    texts.append(
        Text(12, y, name, theme.text, LABEL_SIZE,
             width=max(x0 - 16 - space, 20.0), clip=clip)
    )  # fmt: skip
    if label:
        texts.append(
            Text(x0 - 6, y, label, theme.dim, LABEL_SIZE, Face.MONO, Align.RIGHT,
                 clip=clip)
        )  # fmt: skip
    return texts.batch()


def engine_share(scene: NpuScene, engine: int) -> tuple[float, float]:
    """Return the shares of the visible time that an engine is busy and stalls."""
    time, engines = scene.visible, scene.facts.engines
    begin, stop = np.array([time.start]), np.array([max(time.end, time.start + 1)])
    length = float(stop[0] - begin[0])
    busy, stalled = (
        float(of.covered(engine, begin, stop)[0]) / length
        for of in (engines.busy, engines.stalled)
    )
    return busy, stalled


def _engine(geometry: NpuGeometry, row: Row, y0: float, y1: float) -> list[Batch]:
    scene, theme = geometry.scene, geometry.scene.theme
    engines = scene.facts.engines
    working, stalled, _ = engines.ticks(geometry.begin, geometry.stop, [row.number])
    length = (geometry.stop - geometry.begin).astype(np.float64)
    pixels = stacked(
        working[0] / length,
        stalled[0] / length,
        round((y1 - y0 - _GAP) * scene.scale),
        engine_color(engines.kinds[row.number], theme),
        theme,
    )
    share, held = engine_share(scene, row.number)
    has_spans = engines.lane[row.number] >= 0
    title = row.title if has_spans else f"{row.title} stalls"
    text = format_share(share if has_spans else held)
    return [
        *_image(geometry, pixels, y0, y1 - _GAP),
        *_label(geometry, title, text, (y0 + y1 - _GAP) / 2),
    ]


def stacked(working: F64, stalled: F64, height: int, color: int, theme: Theme) -> U32:
    """Return shares as columns of pixels, from the bottom up: working, then stalled.

    Parameters
    ----------
    working, stalled : float64[k], shares whose sum is at most 1.
    height : of the picture, device pixels.

    Returns
    -------
    uint32[height, k]. A share above 0 has a pixel, and one below 1 leaves one.
    """
    height = max(height, 1)
    low = _whole(working, height)
    high = np.maximum(_whole(working + stalled, height), low + (stalled > 0))
    # Full columns: the stall takes a pixel of the work, which has more.
    low = np.where(high > height, height - 1, low)
    high = np.minimum(high, height)
    from_bottom = np.arange(height)[::-1, None]
    pixels = np.full((height, len(working)), theme.lane, np.uint32)
    is_idle = low + (high - low) == 0
    pixels[:, is_idle] = mix(theme.lane, theme.dim, 0.12)
    pixels[from_bottom < low] = color
    held = (from_bottom >= low) & (from_bottom < high)
    stripes = (from_bottom + np.arange(len(working))) % _STRIPE < _STRIPE // 2
    pixels[held & stripes] = stall_color(theme)
    pixels[held & ~stripes] = mix(theme.lane, stall_color(theme), 0.45)
    return pixels


def _whole(shares: F64, height: int) -> I64:
    """Return shares in pixels: at least one of those above 0, all only for 1."""
    n = np.rint(shares * height).astype(np.int64)
    n = np.maximum(n, (shares > 0).astype(np.int64))
    if height > 1:
        n = np.minimum(n, np.where(shares < 1, height - 1, height))
    return n


def _image(geometry: NpuGeometry, pixels: U32, y0: float, y1: float) -> list[Batch]:
    rows = np.linspace(y0, y1, len(pixels) + 1).astype(np.float32)
    return [
        ImageBatch(
            pixels, geometry.time.x0, geometry.time.x1, rows[:-1], rows[1:],
            geometry.clip,
        )
    ]  # fmt: skip


def _missing(geometry: NpuGeometry, y0: float, y1: float) -> list[Batch]:
    """Return the ground of what is not recorded."""
    rects, theme = RectList(), geometry.scene.theme
    rects.add(
        geometry.time.x0, geometry.time.x1, y0, y1, mix(theme.lane, theme.dim, 0.5),
        pattern=int(Pattern.FAINT_HATCH),
    )  # fmt: skip
    return rects.batch(clip=geometry.clip)


def _channel(geometry: NpuGeometry, row: Row, y0: float, y1: float) -> list[Batch]:
    scene, theme = geometry.scene, geometry.scene.theme
    windows = scene.facts.bandwidth
    rate = windows.columns(row.title, geometry.begin, geometry.stop)
    name = map_on(DEFAULT, theme)
    pixels = texels(rate, rate_scale(scene), name, theme.lane)[None, :]
    pixels[0, np.isnan(rate)] = 0
    y1 -= 2
    batches = [*_missing(geometry, y0, y1), *_image(geometry, pixels, y0, y1)]
    if row.title == TOTAL or len(windows.channels) == 1:
        batches += _flags(geometry, rate, y0)
    highest = windows.channels[row.number].rate
    top = float(np.nanmax(highest, initial=0.0))
    return [*batches, *_label(geometry, row.title, f"≤ {plain(top)}", (y0 + y1) / 2)]


def _flags(geometry: NpuGeometry, rate: F64, y0: float) -> list[Batch]:
    """Return marks over the columns with a window near or above the peak."""
    theme, peak = geometry.scene.theme, geometry.scene.facts.bandwidth.peak
    if peak is None:
        return []
    known = np.nan_to_num(rate)
    flags = np.zeros((1, len(rate)), np.uint32)
    flags[0, known > HIGH_UTILISATION * peak] = theme.caution
    flags[0, known > peak * (1 + 1e-9)] = theme.error
    return _image(geometry, flags, y0, y0 + _FLAG_PX) if flags.any() else []


def _profile(geometry: NpuGeometry, row: Row, y0: float, y1: float) -> list[Batch]:
    scene, theme, time = geometry.scene, geometry.scene.theme, geometry.time
    windows = scene.facts.bandwidth
    y0, y1 = y0 + 4, y1 - 4
    scale = rate_scale(scene)
    top = max(windows.top, windows.peak or 0.0) * 1.06 or 1.0
    bounds = (scale.low * 0.8, top) if scene.scale_kind is ScaleKind.LOG else None
    rate = windows.columns(row.title, geometry.begin, geometry.stop)
    share = _profile_share(rate, top, bounds)
    heights = y1 - np.nan_to_num(share) * (y1 - y0)
    color = visible_on(theme.accent, theme.pane)
    batches: list[Batch] = [*_missing(geometry, y0, y1)]
    for begin, stop in _runs(~np.isnan(rate)):
        x = time.column_x(np.arange(begin, stop + 1)).astype(np.float32)
        ground = np.full(stop - begin, y0, np.float32)
        batches += [
            AreaBatch(x, ground, y1, theme.lane, clip=geometry.clip),
            AreaBatch(
                x, heights[begin:stop].astype(np.float32), y1, with_alpha(color, 0.4),
                color, geometry.clip,
            ),
        ]  # fmt: skip
    lines, dashes, texts = LineList(1.4), LineList(1.0, dashed=True), TextList()
    if windows.peak is not None:
        for factor, into, label in (
            (1.0, lines, "peak"),
            (HIGH_UTILISATION, dashes, "80 %"),
        ):
            y = y1 - float(
                _profile_share(np.array([windows.peak * factor]), top, bounds)[0]
            ) * (y1 - y0)
            into.add(time.x0, y, time.x1, y, theme.caution)
            texts.append(
                Text(time.x0 - 6, y, label, theme.dim, LABEL_SIZE, Face.MONO,
                     Align.RIGHT, clip=geometry.row_clip)
            )  # fmt: skip
    else:
        texts.append(
            Text(time.x0 - 6, y0 + 6, "peak not stated", theme.dim, LABEL_SIZE,
                 align=Align.RIGHT, clip=geometry.row_clip)
        )  # fmt: skip
    return [
        *batches, *lines.batch(geometry.clip), *dashes.batch(geometry.clip),
        *texts.batch(), *_label(geometry, row.title, "", (y0 + y1) / 2),
    ]  # fmt: skip


def _profile_share(rate: F64, top: float, bounds: tuple[float, float] | None) -> F64:
    if bounds is None:
        return np.asarray(np.clip(rate / top, 0, 1))
    low, high = bounds
    width = np.log(high / low) or 1.0
    share = np.log(np.maximum(rate, low) / low) / width
    return np.asarray(np.where(np.isnan(rate), np.nan, np.clip(share, 0, 1)))


def _runs(mask: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return where runs of true begin and stop."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _bank(geometry: NpuGeometry, row: Row, y0: float, y1: float) -> list[Batch]:
    scene, theme = geometry.scene, geometry.scene.theme
    memory, bank = scene.facts.memory, scene.facts.memory.banks[row.number]
    busy = memory.busy.covered(row.number, geometry.begin, geometry.stop)
    share = busy / (geometry.stop - geometry.begin)
    scale = ColorScale(ScaleKind.LINEAR, 0.0, 1.0)
    pixels = texels(share, scale, map_on(DEFAULT, theme), theme.lane)[None, :]
    y1 -= 1.5
    batches = _image(geometry, pixels, y0, y1)
    spm = memory.spm
    mine = spm.time[memory.bank_of(spm.address) == row.number]
    here = mine[(mine >= scene.visible.start) & (mine < scene.visible.end)]
    if len(here):
        marks = np.zeros((1, len(share)), np.uint32)
        column = np.clip(
            np.searchsorted(geometry.begin, here, "right") - 1, 0, len(share) - 1
        )
        marks[0, column] = theme.text
        batches += _image(geometry, marks, y1 - _FLAG_PX, y1)
    n = bank.n_transfers + (bank.n_accesses or 0)
    text = f"{n:,}×"
    return [*batches, *_label(geometry, row.title, text, (y0 + y1) / 2)]


# -- what all pictures with a time axis have -----------------------------------------


def time_axis(geometry: NpuGeometry) -> list[Batch]:
    """Return the time axis at the top, over a ground of its own."""
    scene, time, theme = geometry.scene, geometry.time, geometry.scene.theme
    axis = axis_ticks(
        scene.visible, time.x1 - time.x0, scene.trace.clock, absolute=scene.absolute
    )
    ground, marks, texts = RectList(), LineList(1 / time.scale), TextList()
    ground.add(0, scene.width, 0, geometry.top, theme.pane)
    for tick, label in axis.ticks:
        x = time.x(tick)
        if not time.x0 <= x <= time.x1:
            continue
        snapped = time.snap(x)
        marks.add(snapped, geometry.top - 6, snapped, geometry.top, theme.faint)
        half = len(label) * _CHARACTER / 2
        at = max(min(x, scene.width - half - 2), time.x0 + half * 0.2)
        texts.append(
            Text(at, 10, label, theme.dim, LABEL_SIZE, Face.MONO, Align.CENTER)
        )
    title = axis.base or ("cycles" if scene.trace.clock.unit == "cycle" else "time")
    texts.append(
        Text(8, 10, title, theme.dim, LABEL_SIZE, Face.MONO, width=time.x0 - 12)
    )
    return [*ground.batch(), *marks.batch(), *texts.batch()]


def boundaries(geometry: NpuGeometry) -> list[Batch]:
    """Return lines where tokens begin, and where layers change, if there is room."""
    scene, theme, time = geometry.scene, geometry.scene.theme, geometry.time
    batches: list[Batch] = []
    for starts, color, width, dashed in (
        (layer_starts(scene.trace), with_alpha(theme.dim, 0.45), 1.0, True),
        (token_starts(scene.trace), with_alpha(theme.text, 0.7), 1.0, False),
    ):
        low, high = np.searchsorted(starts, [scene.visible.start, scene.visible.end])
        n = int(high - low)
        if not n or (time.x1 - time.x0) / n < _MIN_BOUNDARY_PX:
            continue
        x = time.xs(starts[low:high])
        lines = LineList(width / time.scale if not dashed else 1.0, dashed=dashed)
        lines.add(x, geometry.top, x, geometry.bottom, color)
        batches += lines.batch(geometry.clip)
    return batches


def lights(geometry: NpuGeometry) -> list[Batch]:
    """Return what changes with mouse and selection: frames of rows, range, cursor."""
    rows = _highlighted(geometry) if geometry.scene.chart == "time" else []
    return [*rows, *_hair(geometry)]


def _highlighted(geometry: NpuGeometry) -> list[Batch]:
    """Return the frames of the rows under the mouse and selected."""
    scene, frames = geometry.scene, RectList()
    for row, color in (
        (scene.hover, scene.theme.dim),
        (scene.selected, scene.theme.selection),
    ):
        if 0 <= row < len(geometry.rows):
            y0, y1 = geometry.span_of(row)
            frames.add(geometry.time.x0, geometry.time.x1, y0, y1 - 2, 0, color)
    return frames.batch(clip=geometry.clip)


def _hair(geometry: NpuGeometry) -> list[Batch]:
    """Return the marked range, and the line at the cursor."""
    scene, theme, time = geometry.scene, geometry.scene.theme, geometry.time
    batches: list[Batch] = []
    if scene.marked is not None:
        x0, x1 = time.xs(np.array([scene.marked.start, scene.marked.end])).tolist()
        rects = RectList()
        rects.add(
            x0, max(x1, x0 + 1), geometry.top, geometry.bottom,
            with_alpha(theme.selection, 0.16), theme.selection,
        )  # fmt: skip
        batches += rects.batch(clip=geometry.clip)
    if scene.cursor_tick is not None:
        x = time.snap(time.x(scene.cursor_tick))
        if time.x0 <= x <= time.x1:
            lines = LineList(1 / time.scale)
            lines.add(x, geometry.top, x, geometry.bottom, with_alpha(theme.text, 0.6))
            batches += lines.batch()
    return batches
