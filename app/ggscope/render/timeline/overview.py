"""The overview strip: the whole trace, its phases, hits and the shown range."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ggscope.analysis.derived_cache import DerivedCache
from ggscope.analysis.rows.columns import RowColumns, add_ticks, query_many
from ggscope.analysis.rows.dominant_category import MAX_EXACT
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import FEW_LANES
from ggscope.analysis.rows.waits import pauses
from ggscope.model.tables import Array
from ggscope.model.units import TimeRange
from ggscope.render.batch import (
    Batch,
    Clip,
    DisplayList,
    Face,
    ImageBatch,
    LineList,
    RectList,
    StaticLayer,
    Text,
    TextList,
)
from ggscope.render.colors import foot_colors, lut, phase_color
from ggscope.render.texels import share_levels
from ggscope.render.theme import Theme, mix, with_alpha
from ggscope.render.timeline.compose import cover, pending_strip
from ggscope.render.timeline.marks import hit_columns
from ggscope.render.timeline.notes import note_color
from ggscope.render.timeline.rows import ALONE_PX
from ggscope.render.timeline.runs import marked_runs
from ggscope.render.timeline.scene import OverviewScene, TimeScale
from ggscope.render.timeline.waits import wait_color, waiting_share

BAND_PX = 4.0
_BRACKET_PX = 2.0
_HIT_PX = 6.0
_FOOT_PX = 4.0
_TEXT_SIZE = 9.5
_BAR_STRENGTH, _WAIT_STRENGTH = 0.8, 0.5
_MAX_CACHED = 8
_MAX_NAMES = 40
_NAME_PX = 44.0


@dataclass(frozen=True, slots=True, eq=False)
class Skyline:
    """How busy the whole trace is, column by column.

    Attributes
    ----------
    busy : float64[px], mean over all working lanes (threads, engines), 0..1.
    category : int32[px], that which takes most of the time in all of them, -1 = no
        span. With more than `MAX_EXACT` categories that of the busiest lane.
    touched : bool[px], whether a span lies in the column, however short.
    waiting : float64[px], mean share of waiting over the same lanes; of very many
        lanes 0.
    parts : float64[n_categories, px], mean share of each category; None with more than
        `MAX_EXACT` of them.
    """

    busy: npt.NDArray[np.float64]
    category: npt.NDArray[np.int32]
    waiting: npt.NDArray[np.float64]
    touched: npt.NDArray[np.bool_]
    parts: npt.NDArray[np.float64] | None = None


_cache: DerivedCache[TraceIndex, dict[Any, Any]] = DerivedCache("overview")
"""Skylines and static layers of pictures, by what they depend on."""
_cache_lock = Lock()
_T = TypeVar("_T")


def compose_overview(scene: OverviewScene) -> DisplayList:
    """Return the picture of the overview strip.

    The extent of the trace is spread over the whole width. Heights say how busy
    the threads (engines) are on average; the first picture of a trace asks every
    working lane once, later ones with the same width reuse that. What does not
    depend on the range in view is made once and stands still.
    """
    time = TimeScale(scene.index.trace.extent, 0, scene.width, scene.scale)
    look = (scene.width, scene.height, scene.scale, scene.theme)
    key = ("still", look, scene.color_by, scene.mask_token, scene.show_waits)
    still = _cached(scene, key, lambda: tuple(_still(scene, time)))
    bottom = time.snap(scene.height - 1)
    batches = (*still, *_marks(scene, time, bottom), *_window(scene, time))
    return DisplayList(
        scene.width,
        scene.height,
        scene.scale,
        scene.theme.pane,
        batches,
        (StaticLayer(0, len(still)),),
    )


def compose_thumbnail(scene: OverviewScene, *, is_part: bool) -> DisplayList:
    """Return the strip without words and frame, as file managers show it.

    Where the trace is only the first part of its file, the last eighth is hatched.
    """
    width = scene.width * 7 / 8 if is_part else scene.width
    time = TimeScale(scene.index.trace.extent, 0, width, scene.scale)
    batches = [*_phases(scene, time), *_bars(scene, time, BAND_PX + 2, scene.height)]
    if is_part:
        area = Clip(time.x1, 0.0, scene.width - time.x1, scene.height)
        batches += cover(area, scene.theme, time.scale)
    return DisplayList(
        scene.width, scene.height, scene.scale, scene.theme.pane, tuple(batches)
    )


def _still(scene: OverviewScene, time: TimeScale) -> list[Batch]:
    """Return what the trace, the colours and the size of the strip decide."""
    batches: list[Batch] = []
    if len(scene.index.trace.spans):
        top, bottom = time.snap(BAND_PX + 2), time.snap(scene.height - 1)
        batches += _phases(scene, time)
        batches += _bars(scene, time, top, bottom)
        batches += _phase_names(scene, time)
    return [*batches, *pending_strip(scene, time)]


def skyline(scene: OverviewScene, time: TimeScale) -> Skyline:
    """Return the busy shares of the strip, computed once per width and colouring."""
    key = (time.n_columns, time.visible, scene.color_by, scene.mask_token)
    return _cached(scene, key, lambda: _skyline(scene, time))


def _cached(scene: OverviewScene, key: Any, make: Callable[[], _T]) -> _T:
    """Return the value of `key`; a trace has the last few of them cached."""
    with _cache_lock:
        values = _cache.setdefault(scene.index, {})
        value: _T | None = values.get(key)
    if value is None:
        value = make()
        with _cache_lock:
            while len(values) >= _MAX_CACHED:
                values.pop(next(iter(values)))
            values[key] = value
    return value


def _skyline(scene: OverviewScene, time: TimeScale) -> Skyline:
    index, by = scene.index, scene.color_by
    chosen = np.flatnonzero(index.lanes.is_work())
    if not len(chosen):
        chosen = np.flatnonzero((index.lanes.lane_id >= 0) & (index.lanes.n_spans > 0))
    if len(chosen) > FEW_LANES:
        return _skyline_of_many(scene, time, index.lanes.lane_id[chosen])
    lanes = [index.lanes[i] for i in chosen.tolist()]
    n = time.n_columns
    total, busiest, waiting = np.zeros((3, n))
    category = np.full(n, -1, np.int32)
    touched = np.zeros(n, np.bool_)
    rows: list[RowColumns] = []
    for lane in lanes:
        columns = (
            index.row_columns(lane.key, by)
            if scene.mask is None
            else index.filtered_columns(lane.key, by, scene.mask, scene.mask_token)
        )
        rows += [columns[index.work_row(lane.key)]] if columns else []
    n_categories = len(index.categories(by).keys)
    ticks = np.zeros((n_categories, n), np.int64)
    has_parts = n_categories <= MAX_EXACT
    pictures = (
        add_ticks(rows, time.edges, ticks)
        if has_parts
        else query_many(rows, time.edges)
    )
    for picture in pictures:
        total += picture.busy
        waiting += waiting_share(picture, time.edges)
        held = picture.count > 0
        better = (picture.busy > busiest) | (held & ~touched)
        touched |= held
        busiest[better] = picture.busy[better]
        category[better] = picture.category[better]
    n_lanes = max(len(lanes), 1)
    total, waiting = total / n_lanes, waiting / n_lanes
    if not has_parts:
        return Skyline(total, category, waiting, touched)
    # A column without width stands for the tick at its edge.
    parts = ticks / (np.maximum(np.diff(time.edges), 1) * n_lanes)
    category = np.where(total > 0, parts.argmax(axis=0), category).astype(np.int32)
    return Skyline(total, category, waiting, touched, parts)


def _skyline_of_many(scene: OverviewScene, time: TimeScale, lanes: Array) -> Skyline:
    """Return the skyline from the spans themselves, without a row per lane."""
    index, n, edges = scene.index, time.n_columns, time.edges
    ids = index.work_spans(lanes)
    if scene.mask is not None:
        ids = ids[scene.mask[ids]]
    start, end = index.trace.spans.start[ids], index.trace.spans.end[ids]
    categories = index.categories(scene.color_by)
    n_categories, kind = len(categories.labels), categories.index[ids].astype(np.int64)
    first, last = time.column_of(start), time.column_of(end)
    # Ticks by category and column: both ends of a span, and columns between them.
    shape, size = (n_categories, n + 1), n_categories * (n + 1)

    def summed(column: Array, ticks: Array) -> npt.NDArray[np.float64]:
        sums = np.bincount(kind * (n + 1) + column, ticks, size)
        return np.asarray(sums, np.float64).reshape(shape)

    ends_elsewhere = first < last
    until = edges[np.minimum(first + 1, n)]
    ticks = summed(first, np.where(ends_elsewhere, until, end) - start)
    ticks += summed(last, np.where(ends_elsewhere, end - edges[last], 0))
    steps = summed(np.minimum(first + 1, n), ends_elsewhere.astype(np.int64))
    steps -= summed(last, ends_elsewhere.astype(np.int64))
    width = np.append(np.diff(edges), 0)
    ticks = (ticks + np.cumsum(steps, axis=1) * width)[:, :n]
    busy = ticks.sum(axis=0)
    # A span without length lies in the column of its tick, if no other span does.
    short = np.full(n + 1, -1, np.int32)
    short[first] = kind
    category = np.where(busy > 0, ticks.argmax(axis=0), short[:n]).astype(np.int32)
    whole = np.maximum(width[:n], 1) * len(lanes)
    parts = ticks / whole if n_categories <= MAX_EXACT else None
    touched = (busy > 0) | (short[:n] >= 0)
    return Skyline(busy / whole, category, np.zeros(n), touched, parts)


def _bars(
    scene: OverviewScene, time: TimeScale, top: float, bottom: float
) -> list[Batch]:
    """Return the skyline as a picture with one texel per device pixel."""
    sky, theme = skyline(scene, time), scene.theme
    n_rows = max(round((bottom - top) * scene.scale), 1)
    colors = lut(scene.index.categories(scene.color_by), theme)
    colors = np.append(colors, np.uint32(theme.dim))
    solid = colors & np.uint32(0xFFFFFF) | np.uint32(round(255 * _BAR_STRENGTH) << 24)
    parts = sky.busy[None] if sky.parts is None else sky.parts
    # What is waited stands on top of the work.
    levels = share_levels(np.append(parts, sky.waiting[None], axis=0), n_rows)[::-1]
    is_work, is_wait = levels < len(parts), levels == len(parts)
    own = sky.category if sky.parts is None else np.where(is_work, levels, 0)
    pixels = np.where(is_work, solid[own], np.uint32(0))
    if scene.show_waits:
        pixels[is_wait] = with_alpha(wait_color(theme), _WAIT_STRENGTH)
    # However short the spans of a column are, its foot is seen.
    level = np.arange(n_rows, 0, -1)[:, None]
    min_level = np.where(_alone(sky.touched, scene.scale), _FOOT_PX, 1.0) * scene.scale
    is_foot = (level <= np.rint(min_level)) & sky.touched & ~is_work
    pixels = np.where(is_foot, foot_colors(colors, theme)[sky.category], pixels)
    y0 = (top + np.arange(n_rows) / scene.scale).astype(np.float32)
    y1 = (top + np.arange(1, n_rows + 1) / scene.scale).astype(np.float32)
    return [ImageBatch(pixels, time.x0, time.x1, y0, y1)]


def _alone(touched: npt.NDArray[np.bool_], scale: float) -> npt.NDArray[np.bool_]:
    """Return which columns are marks: runs too narrow for a chart, bool[px]."""
    runs = marked_runs(touched[None], np.zeros(1, np.int64))
    narrow = runs.take(runs.stop - runs.first < round(ALONE_PX * scale))
    steps = np.zeros(len(touched) + 1, np.int64)
    steps[narrow.first] += 1
    steps[narrow.stop] -= 1
    is_alone: npt.NDArray[np.bool_] = np.cumsum(steps[:-1]) > 0
    return is_alone


def _phases(scene: OverviewScene, time: TimeScale) -> list[Batch]:
    """Return the band at the top that says prompt or generate."""
    bands = scene.index.phase_bands()
    codes, which = np.unique(bands.phase, return_inverse=True)
    fills = np.array([phase_color(p, scene.theme) for p in codes.tolist()], np.uint32)
    x0, x1, fill = time.xs(bands.start), time.xs(bands.end), fills[which]
    rects = RectList()
    rects.add(x0, np.maximum(x1, x0 + 1), 0.0, BAND_PX, fill)
    return rects.batch()


def _phase_names(scene: OverviewScene, time: TimeScale) -> list[Batch]:
    """Return the names of the phases on plates over the bars.

    Phases of contexts that compute at once overlap: a name whose place is taken is
    left out.
    """
    if scene.height < 30:
        return []
    theme, y = scene.theme, BAND_PX + 9
    plates, texts = RectList(), TextList()
    bands = scene.index.phase_bands()
    left, right = time.xs(bands.start), time.xs(bands.end)
    labelled = np.flatnonzero(right - left >= _NAME_PX)[:_MAX_NAMES]
    taken = -np.inf
    for i in labelled.tolist():
        x0, x1, text = float(left[i]), float(right[i]), bands.text(i)
        if x0 < taken:
            continue
        taken = x0 + min(len(text) * 6.0 + 8, x1 - x0)
        plates.add(x0, taken, y - 7, y + 7, with_alpha(theme.pane, 0.72))
        texts.append(
            Text(x0 + 4, y, text, theme.text, _TEXT_SIZE, Face.UI, width=x1 - x0 - 6)
        )
    return [*plates.batch(), *texts.batch()]


def _marks(scene: OverviewScene, time: TimeScale, bottom: float) -> list[Batch]:
    """Return hits, selection, bookmarks and the marked range."""
    theme, trace = scene.theme, scene.index.trace
    rects, lines = RectList(), LineList()
    if scene.hits is not None:
        x = time.column_x(hit_columns(scene.hits.times, time))
        border = 0 if theme.is_dark else mix(theme.selection, 0xFF000000, 0.2)
        rects.add(
            x,
            x + max(1.5, 1 / scene.scale),
            bottom - _HIT_PX,
            bottom,
            theme.selection,
            border,
        )
    if scene.marked is not None:
        x0, x1 = time.xs(
            np.array([scene.marked.time.start, scene.marked.time.end])
        ).tolist()
        rects.add(x0, max(x1, x0 + 1), BAND_PX, bottom, with_alpha(theme.accent, 0.3))
    for note in scene.bookmarks:
        at = time.snap(time.x(note.time.start))
        lines.add(at, 0, at, bottom, note_color(note.color, theme))
    active = scene.selection.active
    chosen = pauses(trace, scene.selection)
    if scene.selection.table == "spans" and active is not None:
        begin, end = int(trace.spans.start[active]), int(trace.spans.end[active])
        chosen = ((active, TimeRange(begin, end)),)
    if chosen:
        x0, x1 = time.xs(np.array([chosen[0][1].start, chosen[0][1].end])).tolist()
        _add_selected(rects, x0 - 1, max(x1, x0 + 1) + 1, bottom, theme)
    clip = Clip(0, 0, scene.width, scene.height)
    return [*rects.batch(clip=clip), *lines.batch(clip)]


def _add_selected(
    rects: RectList, x0: float, x1: float, bottom: float, theme: Theme
) -> None:
    """Add a selected span: a bracket around what lies in it, or a line."""
    edge = _BRACKET_PX
    if x1 - x0 <= 4 * edge:
        rects.add(x0, x1, BAND_PX, bottom, with_alpha(theme.selection, 0.7))
        return
    rects.add(x0, x1, BAND_PX, BAND_PX + edge, theme.selection)
    rects.add(x0, x0 + edge, BAND_PX, bottom, theme.selection)
    rects.add(x1 - edge, x1, BAND_PX, bottom, theme.selection)


def _window(scene: OverviewScene, time: TimeScale) -> list[Batch]:
    """Return the frame around the shown range, at least 6 px wide.

    A trace without a duration has no range that could be shown.
    """
    if not scene.index.trace.extent.duration:
        return []
    theme = scene.theme
    x0, x1 = time.xs(np.array([scene.visible.start, scene.visible.end])).tolist()
    lack = max(6.0 - (x1 - x0), 0) / 2
    x0 = max(time.snap(x0 - lack), 0.0)
    x1 = min(time.snap(x1 + lack), scene.width)
    frame = RectList()
    share = 0.0 if x1 - x0 >= scene.width - 1 else 0.22
    frame.add(x0, x1, 0.0, scene.height, with_alpha(theme.accent, share), theme.accent)
    return frame.batch(radius=3.0)
