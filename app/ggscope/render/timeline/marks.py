"""What lies over the lanes: selection, marked range, markers, hits, the hair line.

Spans of what is selected elsewhere are highlighted quietly on their lanes. The
labels of notes stand on the axis and below it, see `notes`.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from ggscope.analysis.derived_cache import DerivedCache
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneBox, TimelineLane
from ggscope.analysis.rows.rows import Row
from ggscope.analysis.rows.waits import pauses, wait_time
from ggscope.model.tables import I64, Array
from ggscope.model.trace import INVALID_TRACE
from ggscope.model.units import TimeRange, format_duration, shown_form
from ggscope.render.batch import (
    Align,
    Batch,
    Clip,
    Face,
    LineList,
    RectList,
    Text,
    TextList,
)
from ggscope.render.colors import label_color
from ggscope.render.theme import mix, with_alpha
from ggscope.render.timeline.arrows import arrow_batches
from ggscope.render.timeline.chain import chain_batches
from ggscope.render.timeline.notes import (
    NoteLabel,
    label_middle,
    note_labels,
    note_lines,
    note_plates,
    note_strips,
)
from ggscope.render.timeline.scene import (
    AXIS_HEIGHT,
    HIGHLIGHT_SHARE,
    HighlightedSpans,
    SortedSpans,
    TimelineGeometry,
    TimeScale,
    spans_on,
)

PILL_SIZE = 11.0
MAX_OUTLINES = 500
MIN_OUTLINE_PX = 3.0
_FLAG_GAP_PX = 10.0
_SEARCH_TICK_PX = 5.0
_INVALID_PX = 3.0
NARROW_SHARE = 0.85
"""As `HIGHLIGHT_SHARE`, for one that is too narrow for its own colour to matter."""
_MIN_PX = 3.0
_NARROW_PX = 8.0
_MANY = 2_000
"""More spans than this on a lane in view are thinned to one a pixel column."""
_TIES = 8
"""Spans of no length that may share their end with one looked for."""

_FADE_PX = 64.0
_FADE_STEPS = 16
_OPEN_SHARE = 0.5
"""How much of the text's colour an open span begins with."""

Boxes = list[tuple[LaneBox, float]]
_MIN_MARKER_PX, _MARKER_TICK_PX = 6.0, 5.0
"""Pixels per marker from which on their lines cross the lanes; length of the ticks that
they are where there are more."""
_marker_order: DerivedCache[TraceIndex, tuple[Array, Array]] = DerivedCache(
    "order of markers"
)
"""Ids of a trace's markers in time order, and their times."""
_invalid_times: DerivedCache[TraceIndex, Array] = DerivedCache(
    "markers of invalid traces"
)
"""Times of the markers that call a trace invalid, int64[n]."""


def highlight_batches(
    geometry: TimelineGeometry, boxes: Boxes
) -> tuple[list[Batch], list[Batch]]:
    """Return tints and thin frames, at least 3 px wide, for all highlighted spans.

    Only spans in view; of very many on a lane, one per pixel column. Tints go under the
    labels of spans, frames over them.
    """
    highlighted, theme = geometry.scene.highlighted, geometry.scene.theme
    if highlighted is None or not len(highlighted.ids):
        return [], []
    line = max(1.0, 1 / geometry.time.scale)
    # On white the selection's colour is that of some ops: dark lines set it apart.
    color = theme.selection if theme.is_dark else theme.text
    tints = {True: RectList(), False: RectList()}
    frames = {True: RectList(), False: RectList()}
    for box, y in boxes:
        lane = box.lane
        if lane is None or not lane.track.has_rows or not box.row_y:
            continue
        for row, x0, x1 in _highlighted_places(geometry, box, lane, highlighted):
            inset = 0.0 if lane.track.is_thin else 1.0
            top = geometry.time.snap(y + box.row_y[row] + inset)
            bottom = geometry.time.snap(y + box.row_y[row] + box.row_height - inset)
            narrow = x1 - x0 < _NARROW_PX
            thin = _united(x0[narrow], x1[narrow])
            wide = x0[~narrow], x1[~narrow]
            target = tints[box.fixed], frames[box.fixed]
            target[0].add(*thin, top, bottom, with_alpha(color, NARROW_SHARE))
            target[0].add(
                *wide, top, bottom, with_alpha(theme.selection, HIGHLIGHT_SHARE)
            )
            # Shape and not only colour: a line above and below.
            target[1].add(*wide, top, top + line, color)
            target[1].add(*wide, bottom - line, bottom, color)
    clips = {True: geometry.fixed_clip, False: geometry.body_clip}
    under, over = (
        [
            batch
            for fixed, clip in clips.items()
            for batch in rects[fixed].batch(clip=clip)
        ]
        for rects in (tints, frames)
    )
    return under, over


def open_batches(geometry: TimelineGeometry, boxes: Boxes) -> list[Batch]:
    """Return the spans of a running program that have not ended: they fade out.

    They reach to the last received record; the frame has no right side.
    """
    scene, time = geometry.scene, geometry.time
    spans, theme = scene.index.trace.open_spans, scene.theme
    if not len(spans):
        return []
    fills = {True: RectList(), False: RectList()}
    texts = {True: TextList(), False: TextList()}
    strings = scene.index.trace.strings
    color = theme.text
    shares = np.linspace(_OPEN_SHARE, 0.04, _FADE_STEPS).tolist()
    for box, y in boxes:
        if box.lane is None or not box.lane.lane_ids or not box.row_y:
            continue
        for i in np.flatnonzero(np.isin(spans.lane, box.lane.lane_ids)).tolist():
            x0, x1 = (time.x(int(t[i])) for t in (spans.start, spans.end))
            x0, x1 = max(x0, time.x0), max(min(x1, time.x1), x0 + _MIN_PX)
            if x0 >= time.x1 or int(spans.end[i]) < scene.visible.start:
                continue
            top = time.snap(y + box.row_y[0] + 1)
            bottom = time.snap(y + box.row_y[0] + box.row_height - 1)
            fade = max(x1 - _FADE_PX, x0)
            target = fills[box.fixed]
            target.add(x0, fade, top, bottom, with_alpha(color, _OPEN_SHARE))
            edges = np.linspace(fade, x1, _FADE_STEPS + 1)
            for left, right, share in zip(edges, edges[1:], shares, strict=False):
                target.add(left, right, top, bottom, with_alpha(color, share))
            name = strings[int(spans.name[i])] if spans.name is not None else ""
            if name and fade - x0 > 8 * len(name):
                label = Text(
                    x0 + 4, (top + bottom) / 2, name, theme.pane, PILL_SIZE, Face.UI,
                    width=fade - x0 - 8, clip=geometry.clip_of(box),
                    keeps_left=int(spans.start[i]) < scene.visible.start,
                )  # fmt: skip
                texts[box.fixed].append(label)
    clips = {True: geometry.fixed_clip, False: geometry.body_clip}
    return [
        batch
        for fixed, clip in clips.items()
        for batch in (*fills[fixed].batch(clip=clip), *texts[fixed].batch())
    ]


def _highlighted_places(
    geometry: TimelineGeometry,
    box: LaneBox,
    lane: TimelineLane,
    highlighted: HighlightedSpans,
) -> list[tuple[int, Array, Array]]:
    """Return (row, x0, x1) of the highlighted spans of a box that are in view."""
    index, time = geometry.scene.index, geometry.time
    ids, ends = _in_view(time, highlighted.on(index.trace.spans, lane))
    if not len(ids):
        return []
    places = []
    for number, row in _rows_of(index, box, lane):
        at = _positions(row, ids, ends)
        if len(at):
            x0, x1 = time.xs(row.start[at]), time.xs(row.end[at])
            lack = np.maximum(_MIN_PX - (x1 - x0), 0) / 2
            places.append((number, x0 - lack, x1 + lack))
    return places


def _rows_of(
    index: TraceIndex, box: LaneBox, lane: TimelineLane
) -> list[tuple[int, Row]]:
    """Return (number, row) of the rows of a lane, and of the stalls over its first."""
    rows = list(enumerate(index.rows(lane.key)[: len(box.row_y)]))
    return [*rows, *((0, row) for row in index.overlay_rows(lane.key))]


def _united(x0: Array, x1: Array) -> tuple[Array, Array]:
    """Return narrow boxes with those that overlap as one: far fewer to draw."""
    if len(x0) < 2:
        return x0, x1
    order = np.argsort(x0, kind="stable")
    left, reach = x0[order], np.maximum.accumulate(x1[order])
    begins = np.flatnonzero(np.append(True, left[1:] > reach[:-1]))
    return left[begins], reach[np.append(begins[1:], len(left)) - 1]


def _in_view(time: TimeScale, some: SortedSpans) -> tuple[I64, I64]:
    """Return ids and ends of the spans that touch the view, thinned if very many."""
    ids, start, end, longest = some
    low, high = np.searchsorted(
        start, (time.visible.start - longest, time.visible.end + 1)
    )
    ids, start, end = ids[low:high], start[low:high], end[low:high]
    seen = end >= time.visible.start
    ids, start, end = ids[seen], start[seen], end[seen]
    if len(ids) > _MANY:
        # The longest of a column would be better, but nobody sees it at 3 px.
        column = time.column_of(start)
        first = np.append(True, column[1:] != column[:-1])
        wide = end - start > time.duration // time.n_columns
        ids, end = ids[first | wide], end[first | wide]
    return ids, end


def _positions(row: Row, ids: I64, ends: I64) -> I64:
    """Return the positions in a row of those of the spans `ids` that it shows."""
    at = np.searchsorted(row.end, ends, "left")
    parts: list[I64] = []
    for _ in range(_TIES):
        inside = at < len(row)
        at, ids, ends = at[inside], ids[inside], ends[inside]
        if not len(at):
            break
        hit = row.id[at] == ids
        parts.append(at[hit])
        # Spans of no length may end where another one does: look further.
        again = ~hit & (row.end[at] == ends)
        at, ids, ends = at[again] + 1, ids[again], ends[again]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def estimated_width(text: str, size: float) -> float:
    """Return an estimate of the width of `text` in the monospaced face."""
    return len(text) * 0.602 * size


def mark_batches(
    geometry: TimelineGeometry, boxes: Boxes, ready: Boxes, frames: Iterable[Batch]
) -> list[Batch]:
    """Return everything that lies over the lanes but under axis and headers.

    `ready` are the boxes whose spans are drawn: others have nothing to frame. `frames`
    are those of highlighted spans, see `highlight_batches`.
    """
    return [
        *_marker_lines(geometry),
        *_invalid_lines(geometry),
        *note_lines(geometry, _lane_clip(geometry)),
        *_marked_range(geometry, boxes),
        *frames,
        *chain_batches(geometry),
        *_outlines(geometry, ready),
        *arrow_batches(geometry),
        *_hair_line(geometry),
    ]


def flag_batches(geometry: TimelineGeometry, boxes: Boxes) -> list[Batch]:
    """Return what lies over the axis: flags, hits, the pill and the time label."""
    notes = note_labels(geometry.scene.bookmarks, geometry.time)
    return [
        *_invalid_band(geometry),
        *_search_ticks(geometry),
        *_flags(geometry, notes),
        *_pill(geometry, boxes),
        *_flash(geometry, boxes),
        *_time_label(geometry),
    ]


def visible_markers(geometry: TimelineGeometry) -> Array:
    """Return the first marker of each pixel column in view, in time order.

    A marker at the very end of the view belongs to it.
    """
    index, time = geometry.scene.index, geometry.time
    cached = _marker_order.get(index)
    if cached is None:
        times = index.trace.markers.time
        order = np.argsort(times, kind="stable")
        cached = _marker_order[index] = (order, times[order])
    order, times = cached
    at = np.searchsorted(times, np.append(time.edges, time.visible.end + 1), "left")
    return order[at[:-1][np.diff(at) > 0]]


def _marker_lines(geometry: TimelineGeometry) -> list[Batch]:
    theme, time = geometry.scene.theme, geometry.time
    markers = visible_markers(geometry)
    selection = geometry.scene.selection
    lines = LineList()
    if len(markers):
        # Many markers must not paint the lanes over: the more, the fainter, and more
        # still are ticks under the axis alone.
        is_dense = len(markers) * _MIN_MARKER_PX > time.x1 - time.x0
        share = 0.55 if len(markers) <= 40 or is_dense else 0.2
        top = geometry.lanes_y
        bottom = geometry.bottom
        if is_dense:
            bottom = min(top + _MARKER_TICK_PX, bottom)
        xs = _pixel_middle(time, geometry.scene.index.trace.markers.time[markers])
        lines.add(xs, top, xs, bottom, with_alpha(theme.dim, share))
    chosen = LineList(2.0)
    if selection.table == "markers":
        ids = np.array(selection.ids[:MAX_OUTLINES], np.int64)
        ids = ids[ids < len(geometry.scene.index.trace.markers)]
        xs = _pixel_middle(time, geometry.scene.index.trace.markers.time[ids])
        xs = xs[(xs >= time.x0) & (xs <= time.x1)]
        chosen.add(xs, geometry.lanes_y, xs, geometry.bottom, theme.selection)
    clip = _lane_clip(geometry)
    return [*lines.batch(clip), *chosen.batch(clip)]


def _invalid(geometry: TimelineGeometry) -> Array:
    """Return the times at which the trace's writer called it invalid, int64[n]."""
    index = geometry.scene.index
    times = _invalid_times.get(index)
    if times is None:
        trace, times = index.trace, index.trace.markers.time
        name = trace.strings.find(INVALID_TRACE)
        has_any = name >= 0 and len(times) > 0
        times = times[trace.markers.name == name] if has_any else times[:0]
        _invalid_times[index] = times
    return times


def _invalid_lines(geometry: TimelineGeometry) -> list[Batch]:
    time, lines = geometry.time, LineList(2.0)
    xs = _pixel_middle(time, _invalid(geometry))
    xs = xs[(xs >= time.x0) & (xs <= time.x1)]
    error = geometry.scene.theme.error
    lines.add(xs, geometry.lanes_y, xs, geometry.bottom, error)
    return lines.batch(_lane_clip(geometry))


def _invalid_band(geometry: TimelineGeometry) -> list[Batch]:
    """Return a band along the axis over all of a trace that is called invalid.

    The marker says so of the whole trace, not of what lies before or behind it.
    """
    if not len(_invalid(geometry)):
        return []
    scene, time, band = geometry.scene, geometry.time, RectList()
    extent = scene.index.trace.extent
    x0, x1 = time.xs(np.array([extent.start, extent.end])).tolist()
    y0, color = geometry.axis_y, scene.theme.error
    band.add(x0, max(x1, x0 + 1), y0, time.snap(y0 + _INVALID_PX), color)
    return band.batch(clip=_axis_clip(geometry))


def _marked_range(geometry: TimelineGeometry, boxes: Boxes) -> list[Batch]:
    marked = geometry.scene.marked
    if marked is None:
        return []
    theme, time = geometry.scene.theme, geometry.time
    x0, x1 = time.xs(np.array([marked.time.start, marked.time.end])).tolist()
    x1 = max(x1, x0 + 1)
    bands, edges = RectList(), LineList()
    fill = with_alpha(theme.accent, 0.2 if theme.is_dark else 0.14)
    for y0, y1 in _bands(geometry, boxes):
        bands.add(x0, x1, y0, y1, fill)
        xs = np.array([_middle(time, x0), _middle(time, x1)])
        edges.add(xs, y0, xs, y1, theme.accent)
    clip = _lane_clip(geometry)
    return [*bands.batch(clip=clip), *edges.batch(clip)]


def _bands(geometry: TimelineGeometry, boxes: Boxes) -> list[tuple[float, float]]:
    """Return the vertical pieces that the marked range covers."""
    marked = geometry.scene.marked
    if marked is None or marked.lanes is None:
        return [(geometry.lanes_y, geometry.bottom)]
    bands: list[tuple[float, float]] = []
    for box, y in boxes:
        if box.lane is None or box.lane.key not in marked.lanes:
            continue
        clip = geometry.clip_of(box)
        y0, y1 = max(y, clip.y), min(y + box.height, clip.y + clip.height)
        if bands and abs(bands[-1][1] - y0) < 0.5:
            bands[-1] = (bands[-1][0], y1)
        elif y1 > y0:
            bands.append((y0, y1))
    return bands


def _pill(geometry: TimelineGeometry, boxes: Boxes) -> list[Batch]:
    """Return the length of the marked range on a pill at its top."""
    scene, time = geometry.scene, geometry.time
    bands = _bands(geometry, boxes)
    if scene.marked is None or not bands:
        return []
    span = scene.marked.time
    x0, x1 = time.xs(np.array([span.start, span.end])).tolist()
    x0, x1 = max(x0, time.x0), min(x1, time.x1)
    if x1 < x0:
        return []
    duration = format_duration(span.duration, scene.index.trace.clock.unit)
    half = estimated_width(duration, PILL_SIZE) / 2 + 9
    x = max(min((x0 + x1) / 2, time.x1 - half - 2), time.x0 + half + 2)
    y = min(max(bands[0][0] + 13, geometry.lanes_y + 13), geometry.bottom - 10)
    pill, texts = RectList(), TextList()
    y = time.snap(y)
    pill.add(time.snap(x - half), time.snap(x + half), y - 9, y + 9, scene.theme.accent)
    texts.append(
        Text(
            x,
            y,
            duration,
            label_color(scene.theme.accent),
            PILL_SIZE,
            Face.MONO,
            Align.CENTER,
        )
    )
    return [*pill.batch(radius=9.0), *texts.batch()]


def _flash(geometry: TimelineGeometry, boxes: Boxes) -> list[Batch]:
    """Return a frame around the lane that was navigated to, with its header."""
    scene, rects = geometry.scene, RectList()
    for box, y in boxes:
        if box.lane is None or box.lane.key != scene.flash_lane:
            continue
        accent = scene.theme.accent
        rects.add(
            1.0,
            scene.width - 1,
            y,
            geometry.time.snap(y + box.height),
            with_alpha(accent, 0.16),
            accent,
        )
    area = Clip(0, geometry.lanes_y, scene.width, geometry.bottom - geometry.lanes_y)
    return rects.batch(clip=area)


def _outlines(geometry: TimelineGeometry, boxes: Boxes) -> list[Batch]:
    """Return frames around the selected spans and the one under the cursor."""
    scene, theme = geometry.scene, geometry.scene.theme
    batches: list[Batch] = []
    if scene.hover_span >= 0 and scene.hovers_wait:
        hovered = ((scene.hover_span, wait_time(scene.index.trace, scene.hover_span)),)
        batches += _pause_frames(geometry, boxes, hovered, 1.0, theme.text)
    elif scene.hover_span >= 0:
        batches += _frames(geometry, boxes, (scene.hover_span,), 1.0, theme.text)
    # On white the selection's colour is that of some ops: a frame needs a second line.
    casing = None if theme.is_dark else theme.pane
    if scene.highlighted is not None and scene.highlighted.looked_at >= 0:
        looked_at = (scene.highlighted.looked_at,)
        batches += _frames(geometry, boxes, looked_at, 2.0, theme.selection, casing)
    if scene.selection.table == "spans":
        ids = scene.selection.ids[:MAX_OUTLINES]
        batches += _frames(geometry, boxes, ids, 2.0, theme.selection, casing)
    chosen = pauses(scene.index.trace, scene.selection)[:MAX_OUTLINES]
    batches += _pause_frames(geometry, boxes, chosen, 2.0, theme.selection)
    return batches


def _pause_frames(
    geometry: TimelineGeometry,
    boxes: Boxes,
    chosen: tuple[tuple[int, TimeRange], ...],
    width: float,
    color: int,
) -> list[Batch]:
    """Return frames around waits and gaps, in the row of the span before each."""
    time, index = geometry.time, geometry.scene.index
    rects = {True: RectList(), False: RectList()}
    for span, pause in chosen:
        key, row = index.row_of_span(span)
        if pause.end < time.visible.start or pause.start > time.visible.end:
            continue
        for box, y in boxes:
            if box.lane is None or box.lane.key != key or row >= len(box.row_y):
                continue
            top = time.snap(y + box.row_y[row] + 1)
            bottom = time.snap(y + box.row_y[row] + box.row_height - 1)
            x = time.xs(np.array([pause.start, pause.end], np.int64))
            lack = max(MIN_OUTLINE_PX - float(x[1] - x[0]), 0.0) / 2
            sides = (x[:1] - lack, x[1:] + lack)
            _frame(rects[box.fixed], time, sides, (top, bottom), width, color)
    return [
        *rects[True].batch(clip=geometry.fixed_clip),
        *rects[False].batch(clip=geometry.body_clip),
    ]


def _frames(
    geometry: TimelineGeometry,
    boxes: Boxes,
    ids: tuple[int, ...],
    width: float,
    color: int,
    casing: int | None = None,
) -> list[Batch]:
    """Return frames around spans wherever they are drawn, at least 3 px wide.

    `casing` is the colour of a line within those of wide spans; None = without.
    """
    time, index = geometry.time, geometry.scene.index
    spans = index.trace.spans
    chosen = np.asarray(ids, np.int64)
    chosen = chosen[(chosen >= 0) & (chosen < len(spans.start))]
    chosen = chosen[
        (spans.end[chosen] >= time.visible.start)
        & (spans.start[chosen] <= time.visible.end)
    ]
    if not len(chosen):
        return []
    frames = {True: RectList(), False: RectList()}
    for box, y in boxes:
        thin = box.lane is not None and box.lane.track.is_thin
        inset = 0.0 if thin else 1.0
        for row, start, end in _times_in(geometry, box, chosen):
            top = time.snap(y + box.row_y[row] + inset)
            bottom = time.snap(y + box.row_y[row] + box.row_height - inset)
            x0, x1 = time.xs(start), time.xs(end)
            lack = np.maximum(MIN_OUTLINE_PX - (x1 - x0), 0) / 2
            _frame(
                frames[box.fixed],
                time,
                (x0 - lack, x1 + lack),
                (top, bottom),
                width,
                color,
            )
            if casing is not None and bottom - top >= _NARROW_PX:
                wide = x1 - x0 >= _NARROW_PX
                sides = (x0[wide] + width, x1[wide] - width)
                inner = (top + width, bottom - width)
                _frame(frames[box.fixed], time, sides, inner, 1.0, casing)
    return [
        *frames[True].batch(clip=geometry.fixed_clip),
        *frames[False].batch(clip=geometry.body_clip),
    ]


def _times_in(
    geometry: TimelineGeometry, box: LaneBox, ids: Array
) -> list[tuple[int, Array, Array]]:
    """Return (row, start, end) of those of the spans `ids` that are in `box`.

    The times are those that the row shows: in a lane of several threads the
    begin of a span may be hidden behind another one.
    """
    lane, index = box.lane, geometry.scene.index
    if lane is None or not lane.track.has_rows or not box.row_y:
        return []
    spans = index.trace.spans
    in_lane = spans_on(spans, lane, ids)
    if not len(in_lane):
        return []
    times = []
    for number, row in _rows_of(index, box, lane):
        # Ends ascend in a row; several spans of no length may share one.
        low = np.searchsorted(row.end, spans.end[in_lane], "left").tolist()
        high = np.searchsorted(row.end, spans.end[in_lane], "right").tolist()
        at = [
            a + int(hit[0])
            for span, a, b in zip(in_lane.tolist(), low, high, strict=True)
            if len(hit := np.flatnonzero(row.id[a:b] == span))
        ]
        if at:
            times.append((number, row.start[at], row.end[at]))
    return times


def _frame(
    rects: RectList,
    time: TimeScale,
    x: tuple[Array, Array],
    y: tuple[float, float],
    width: float,
    color: int,
) -> None:
    """Draw frames as four thin rectangles each, snapped outwards."""
    x0 = np.floor(x[0] * time.scale) / time.scale
    x1 = np.ceil(x[1] * time.scale) / time.scale
    y0, y1 = y
    rects.add(x0, x1, y0, y0 + width, color)
    rects.add(x0, x1, y1 - width, y1, color)
    rects.add(x0, np.minimum(x0 + width, x1), y0 + width, y1 - width, color)
    rects.add(np.maximum(x1 - width, x0), x1, y0 + width, y1 - width, color)


def _hair_line(geometry: TimelineGeometry) -> list[Batch]:
    tick, time = geometry.scene.cursor_tick, geometry.time
    if tick is None:
        return []
    x = _middle(time, time.x(tick))
    lines = LineList(1 / time.scale)
    lines.add(
        x,
        geometry.lanes_y,
        x,
        geometry.bottom,
        with_alpha(geometry.scene.theme.text, 0.5),
    )
    return lines.batch(_lane_clip(geometry))


def time_label_place(geometry: TimelineGeometry) -> tuple[str, float, float] | None:
    """Return the time under the cursor, and from where to where it is on the axis."""
    scene, time = geometry.scene, geometry.time
    tick = scene.cursor_tick
    if tick is None or not time.visible.start <= tick <= time.visible.end:
        return None
    clock = scene.index.trace.clock
    text = shown_form(time.visible, clock, absolute=scene.absolute).text(tick)
    half = estimated_width(text, PILL_SIZE) / 2 + 6
    x = max(min(time.x(tick), time.x1 - half), time.x0 + half)
    return text, x - half, x + half


def _time_label(geometry: TimelineGeometry) -> list[Batch]:
    """Return the time under the cursor, on the axis."""
    scene, time = geometry.scene, geometry.time
    label = time_label_place(geometry)
    if label is None:
        return []
    text, x0, x1 = label
    x = (x0 + x1) / 2
    y = geometry.axis_y + AXIS_HEIGHT / 2 - 1
    plate, texts = RectList(), TextList()
    plate.add(
        time.snap(x0),
        time.snap(x1),
        y - 9,
        y + 9,
        scene.theme.raised,
        scene.theme.line,
    )
    texts.append(Text(x, y, text, scene.theme.text, PILL_SIZE, Face.MONO, Align.CENTER))
    return [*plate.batch(radius=4.0), *texts.batch()]


def _search_ticks(geometry: TimelineGeometry) -> list[Batch]:
    """Return a tick at the foot of the axis for each column with a hit."""
    scene, time = geometry.scene, geometry.time
    if scene.hits is None:
        return []
    columns = hit_columns(scene.hits.times, time)
    x = time.column_x(columns)
    width = max(2.0, 1 / time.scale)
    y1 = geometry.axis_bottom - 1
    ticks = RectList()
    border = 0 if scene.theme.is_dark else mix(scene.theme.selection, 0xFF000000, 0.2)
    ticks.add(x, x + width, y1 - _SEARCH_TICK_PX, y1, scene.theme.selection, border)
    return ticks.batch(clip=_axis_clip(geometry))


def hit_columns(times: Array, time: TimeScale) -> Array:
    """Return the columns that hold at least one of the sorted `times`."""
    at = np.searchsorted(times, time.edges, "left")
    return np.flatnonzero(np.diff(at) > 0)


def _flags(geometry: TimelineGeometry, notes: Sequence[NoteLabel]) -> list[Batch]:
    """Return the labels of notes on the axis, and of markers where they fit."""
    scene, time, trace = geometry.scene, geometry.time, geometry.scene.index.trace
    markers = visible_markers(geometry)
    named: list[tuple[float, str]] = []
    if len(markers) <= 200:
        named += [
            (
                time.x(int(trace.markers.time[m])),
                trace.strings[int(trace.markers.name[m])],
            )
            for m in markers.tolist()
        ]
    plates, bars, texts = note_plates(geometry, notes)
    taken = [(label.left, label.right) for label in notes if not label.row]
    y = time.snap(geometry.axis_y + label_middle(0))
    seen = [(x, name) for x, name in named if name and time.x0 - 1 <= x <= time.x1]
    for left, right, name in marker_labels(seen, time, taken):
        color, ground = scene.theme.dim, scene.theme.raised
        plates.add(left, right, y - 5.5, y + 5.5, ground, color)
        text_px = right - left - 4
        texts.append(
            Text(left + 4, y, name, scene.theme.text, 9, Face.MONO, width=text_px)
        )
    return [
        *plates.batch(radius=2.0),
        *bars.batch(),
        *note_strips(geometry, notes, _axis_clip(geometry)),
        *texts.batch(),
    ]


def marker_labels(
    markers: list[tuple[float, str]],
    time: TimeScale,
    taken: list[tuple[float, float]],
) -> list[tuple[float, float, str]]:
    """Return (left, right, text) of labels of markers that do not overlap.

    Markers (position, name; in order of time) with no room for a label of their own
    share that of the one before: "alloc ×2", "alloc +1". `taken` are labels of others.
    """
    labels: list[tuple[float, float, str]] = []
    groups: list[list[str]] = []
    places: list[float] = []
    for x, name in markers:
        trial, at = [*groups, [name]], [*places, x]
        label = _label_of(x, [name], time)
        # At the right edge a label that grows moves to the left, onto the one before.
        while len(trial) > 1 and label[0] < labels[len(trial) - 2][1] + _FLAG_GAP_PX:
            trial, at = [*trial[:-2], trial[-2] + trial[-1]], at[:-1]
            label = _label_of(at[-1], trial[-1], time)
        if any(
            label[0] < b + _FLAG_GAP_PX and label[1] + _FLAG_GAP_PX > a
            for a, b in taken
        ):
            continue
        groups, places = trial, at
        labels = [*labels[: len(trial) - 1], label]
    return labels


def _label_of(x: float, names: list[str], time: TimeScale) -> tuple[float, float, str]:
    text, n_more = names[0], len(names) - 1
    if n_more:
        same = len(set(names)) == 1
        text += f" ×{n_more + 1}" if same else f" +{n_more}"
    width = estimated_width(text, 9) + 8
    left = time.snap(min(max(x, time.x0), time.x1 - width))
    return left, left + width, text


def _lane_clip(geometry: TimelineGeometry) -> Clip:
    time = geometry.time
    return Clip(
        time.x0,
        geometry.lanes_y,
        time.x1 - time.x0,
        max(geometry.bottom - geometry.lanes_y, 0),
    )


def _axis_clip(geometry: TimelineGeometry) -> Clip:
    time = geometry.time
    height = geometry.lanes_y - geometry.axis_y
    return Clip(time.x0, geometry.axis_y, time.x1 - time.x0, height)


def _middle(time: TimeScale, x: float) -> float:
    """Return the middle of the device pixel that holds `x`."""
    return float((np.floor(x * time.scale) + 0.5) / time.scale)


def _pixel_middle(time: TimeScale, ticks: Array) -> Array:
    return (np.floor(time.xs(ticks) * time.scale) + 0.5) / time.scale
