"""From a trace and the state of a view to a display list: the timeline.

Lane headers stand at the left, the axis at the top, and what is still being read or
was left unread is marked as such. The legend of a figure says which colour means what,
and what is marked as doubtful.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

import numpy as np
import numpy.typing as npt

from ggscope.analysis.derived_cache import DerivedCache
from ggscope.analysis.rows.index import LaneUse, TraceIndex
from ggscope.analysis.rows.lanes import LaneBox, LaneLayout, TimelineLane
from ggscope.analysis.rows.rows import MAX_ROWS
from ggscope.analysis.summary.latency import SLOW
from ggscope.model.tables import Quality, quality_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, format_count, format_counted, format_share
from ggscope.render.axis import CHARACTER_PX, LABEL_SIZE, Axis, axis_ticks
from ggscope.render.batch import (
    Align,
    AreaBatch,
    Batch,
    Clip,
    DisplayList,
    Face,
    ImageBatch,
    LineBatch,
    LineList,
    Pattern,
    RectBatch,
    RectList,
    StaticLayer,
    Text,
    TextBatch,
    TextList,
)
from ggscope.render.colors import (
    BLACK,
    IDLE_SHARE,
    Entry,
    Sign,
    blend,
    category_color,
    lut,
    phase_color,
)
from ggscope.render.text_measurer import TextMeasurer
from ggscope.render.theme import Theme, mix, with_alpha
from ggscope.render.timeline.lanes import LanePlaces, LanesDraft, place_lanes
from ggscope.render.timeline.latency import has_slow_tokens
from ggscope.render.timeline.marks import (
    flag_batches,
    highlight_batches,
    mark_batches,
    open_batches,
    time_label_place,
    visible_markers,
)
from ggscope.render.timeline.notes import note_color
from ggscope.render.timeline.rows import (
    GHOST,
    RowStyle,
    idle_color,
    neutral_color,
    stall_color,
)
from ggscope.render.timeline.ruler import ruler_batches
from ggscope.render.timeline.scene import (
    OverviewScene,
    TimelineGeometry,
    TimelineScene,
    TimeScale,
    axis_ends,
    spans_on,
)
from ggscope.render.timeline.standing import DrawnLanes, standing_lanes
from ggscope.render.timeline.tracks.track import track_of
from ggscope.render.timeline.waits import wait_color

HEAD_PAD = 10.0
_TRIANGLE_PX = 7.0
_LANE_INDENT = 32.0
_GROUP_INDENT = 26.0
_NUMBER_SIZE, _LANE_SIZE = 10.0, 12.0
_AXIS_GAP_PX = 5.0
"""Between the labels of a lane's own axis and the lane."""
_MIN_NAME_PX = 40.0
"""So much of its name a lane shows beside them."""
_WORD_PX = 6.8
_DIGIT_PX = 6.1
"""Usual widths of a character at the sizes of the headers."""
_LABEL_GAP_PX = 4.0
_LABEL_Y = 7.0
"""Axis labels sit high, so that the flags of markers fit under them."""
_MAX_HEADS = 3
"""Several timelines may show a trace, each at a size of its own."""
_last_heads: DerivedCache[
    TraceIndex,
    list[tuple[LaneLayout, tuple[object, ...], tuple[list[Batch], list[Batch]]]],
] = DerivedCache("headers of lanes")
_last_places: DerivedCache[
    TraceIndex,
    list[
        tuple[
            tuple[LaneLayout, npt.NDArray[np.bool_] | None],
            tuple[object, ...],
            tuple[list[tuple[LaneBox, float]], tuple[LanePlaces, LanePlaces]],
        ]
    ],
] = DerivedCache("places of lanes")
_LONGEST_USE = "100.0 %"
_last_uses: DerivedCache[TraceIndex, tuple[tuple[object, ...], list[LaneUse]]] = (
    DerivedCache("utilisation of lanes")
)
"""Utilisation of the lanes of the last picture: the mouse moves, the range does not."""
_WORDS_PX = 96.0
"""Bands narrower than this carry no words."""
_PLATE_PX = 7.0
_FIGURE_SIZE, _FIGURE_INDENT = 11.0, 14.0
_TALLEST = 20_000.0
"""Headers of a figure further down do not count for their width."""


def head_batches(
    geometry: TimelineGeometry,
    boxes: list[tuple[LaneBox, float]],
) -> tuple[list[Batch], list[Batch]]:
    """Return the headers of `boxes`, and the lines under their lanes.

    Notes
    -----
    Headers do not depend on the time in view: those of the last pictures are cached.
    How busy a lane is changes with the range; see `use_batches`.
    """
    scene = geometry.scene
    key = (
        (scene.width, scene.height, scene.scale, scene.scroll_y, scene.header_width),
        geometry.lanes_y,
        (scene.theme, scene.is_figure),
        tuple(x.lane.key for x, _ in boxes if x.lane and x.lane.key in scene.waiting),
    )
    cached = _last_heads.setdefault(scene.index, [])
    for layout, cached_key, batches in cached:
        if layout is scene.layout and cached_key == key:
            return batches
    batches = _make_heads(geometry, boxes)
    cached[:] = [*cached[-_MAX_HEADS + 1 :], (scene.layout, key, batches)]
    return batches


def _make_heads(
    geometry: TimelineGeometry, boxes: list[tuple[LaneBox, float]]
) -> tuple[list[Batch], list[Batch]]:
    theme, time = geometry.scene.theme, geometry.time
    edge, right = time.x0, geometry.scene.width
    if edge < 24:
        return [], []
    grounds, marks, lines, rest = RectList(), RectList(), LineList(), LineList()
    texts = TextList()
    top, height = geometry.lanes_y, geometry.bottom - geometry.lanes_y
    is_figure = geometry.scene.is_figure
    if not is_figure:  # of which nothing is scrolled, and whose paper may be missing
        grounds.add(0, edge, top, geometry.bottom, theme.pane)
    fixed = Clip(0, top, edge, geometry.fixed_clip.height)
    scrolled = Clip(0, geometry.body_clip.y, edge, geometry.body_clip.height)
    for box, y in boxes:
        if not box.height:  # a group whose head is left out
            continue
        clip = fixed if box.fixed else scrolled
        end = time.snap(y + box.height) - 0.5 / time.scale
        share = 0.3 if box.lane is not None and box.lane.track.is_thin else 0.6
        color = with_alpha(theme.line, share)
        lines.add(0, end, right if is_figure else edge, end, color)
        if not is_figure:
            rest.add(edge, end, right, end, color)
        if is_figure:
            _add_figure_head(box, y, edge, texts, geometry)
        elif box.lane is None:
            _add_group(box, y, edge, clip, texts, marks, geometry)
        else:
            _add_lane(box, y, edge, clip, texts, geometry)
    is_split = geometry.scene.layout.has_pinned or geometry.scene.scroll_y > 0
    if is_split and geometry.fixed_height and geometry.body_clip.height:
        split = geometry.body_clip.y
        lines.add(0, split, right if is_figure else edge, split, theme.dim)
        if not is_figure:
            rest.add(edge, split, right, split, theme.dim)
    frame = Clip(0, top, right, max(height, 0))
    heads: list[Batch] = [
        *grounds.batch(),
        *lines.batch(frame),
        *marks.batch(clip=frame),
        *texts.batch(),
    ]
    return heads, list(rest.batch(frame))


def axis_batches(geometry: TimelineGeometry, axis: Axis) -> list[Batch]:
    """Return the axis row: ground, small and large marks, labels."""
    theme, time = geometry.scene.theme, geometry.time
    top, bottom = geometry.axis_y, geometry.axis_bottom
    ground, lines, texts = RectList(), LineList(1 / time.scale), TextList()
    if not geometry.scene.is_figure:
        ground.add(0, geometry.scene.width, top, geometry.lanes_y, theme.pane)
    right = Clip(time.x0, top, time.x1 - time.x0, bottom - top)
    xs = np.array([time.x(tick) for tick, _ in axis.ticks])
    snapped = _in_view(_on_pixels(xs, time.scale), time)
    lines.add(snapped, bottom - 6, snapped, bottom, theme.faint)
    small = _in_view(_small_ticks(geometry, axis), time)
    lines.add(small, bottom - 3, small, bottom, with_alpha(theme.faint, 0.6))
    taken, pill = time.x0, time_label_place(geometry)
    for x, (_, label) in zip(xs.tolist(), axis.ticks, strict=True):
        half = len(label) * CHARACTER_PX / 2
        if not time.x0 - 1 <= x <= time.x1 + 1:
            continue  # its label would be cut by the edge
        # Labels at the ends move inwards, so that none is cut in half.
        x = max(min(x, time.x1 - half - 2), time.x0 + half + 2)
        if x - half < taken:
            continue
        taken = x + half + _LABEL_GAP_PX
        if pill is not None and x + half > pill[1] and x - half < pill[2]:
            continue  # the time under the cursor would leave a part of it
        texts.append(
            Text(
                x,
                top + _LABEL_Y,
                label,
                theme.dim,
                LABEL_SIZE,
                Face.MONO,
                Align.CENTER,
                clip=right,
            )
        )
    if time.x0 > 60 or geometry.scene.is_figure:
        label = axis.base
        unit = geometry.scene.index.trace.clock.axis_word
        label = label or unit
        if geometry.scene.is_figure and not unit:
            label = f"time {label}".rstrip()
        if label:
            texts.append(
                Text(
                    HEAD_PAD,
                    top + _LABEL_Y,
                    label,
                    theme.dim,
                    _NUMBER_SIZE,
                    Face.MONO,
                    width=time.x0 - HEAD_PAD,
                )
            )
    under = LineList(1 / time.scale)
    y = geometry.lanes_y - 0.5 / time.scale
    under.add(0, y, geometry.scene.width, y, theme.line)
    return [*ground.batch(), *lines.batch(right), *under.batch(), *texts.batch()]


def grid_batches(geometry: TimelineGeometry, axis: Axis) -> list[Batch]:
    """Return the vertical lines that carry the axis through the lanes."""
    time = geometry.time
    xs = _on_pixels(np.array([time.x(tick) for tick, _ in axis.ticks]), time.scale)
    xs = _in_view(xs, time)
    lines = LineList(1 / time.scale)
    lines.add(xs, geometry.lanes_y, xs, geometry.bottom, geometry.scene.theme.grid)
    return lines.batch()


def _small_ticks(geometry: TimelineGeometry, axis: Axis) -> np.ndarray:
    time = geometry.time
    if axis.minor >= axis.step or axis.minor * time.px_per_tick < 5:
        return np.zeros(0)
    first = axis.ticks[0][0]
    n = (axis.ticks[-1][0] - first) // axis.minor
    away = first - time.visible.start + np.arange(n) * axis.minor
    return _on_pixels(time.x0 + away * time.px_per_tick, time.scale)


def _in_view(xs: np.ndarray, time: TimeScale) -> np.ndarray:
    """Return the positions inside the lane area; not every viewer obeys clips."""
    return xs[(xs >= time.x0) & (xs <= time.x1)]


def _on_pixels(xs: np.ndarray, scale: float) -> np.ndarray:
    """Return positions moved to the middle of a device pixel."""
    return (np.floor(xs * scale) + 0.5) / scale


def _add_group(
    box: LaneBox,
    y: float,
    edge: float,
    clip: Clip,
    texts: TextList,
    marks: RectList,
    geometry: TimelineGeometry,
) -> None:
    """Draw a group's head: triangle, title, number of lanes."""
    theme = geometry.scene.theme
    middle = y + box.height / 2
    triangle(marks, HEAD_PAD + 4, middle, theme.dim, clip, points_right=box.collapsed)
    texts.append(
        Text(
            _GROUP_INDENT,
            middle,
            box.title,
            theme.text,
            12,
            Face.HEADING,
            width=edge - _GROUP_INDENT - HEAD_PAD - 8 - _DIGIT_PX * len(str(box.count)),
            clip=clip,
        )
    )
    if box.count:
        texts.append(
            Text(
                edge - HEAD_PAD,
                middle,
                format_count(box.count),
                theme.dim,
                _NUMBER_SIZE,
                Face.MONO,
                Align.RIGHT,
                clip=clip,
            )
        )


def figure_header_width(
    layout: LaneLayout, trace: Trace, width: float, measurer: TextMeasurer
) -> float:
    """Return the width of the headers of a figure, at most 30 % of it."""
    widest, text_width = 24.0, measurer.width
    for box in layout.boxes_between(0.0, _TALLEST):
        if box.lane is None:
            width_px = text_width(box.title, Face.HEADING, _FIGURE_SIZE)
        else:
            width_px = text_width(box.title, Face.UI, _FIGURE_SIZE)
            if labels := track_of(box.lane).axis_labels(trace):
                ends = [text_width(x, Face.MONO, _NUMBER_SIZE) for x in labels]
                # In high lanes they stand above and below the name.
                beside = width_px + max(ends) + _LABEL_GAP_PX
                width_px = beside if _is_low(box) else max(width_px, *ends)
            width_px += _FIGURE_INDENT - HEAD_PAD
        widest = max(widest, width_px)
    return float(min(ceil(HEAD_PAD + widest + 8), width * 0.3))


def _add_figure_head(
    box: LaneBox,
    y: float,
    edge: float,
    texts: TextList,
    geometry: TimelineGeometry,
) -> None:
    """Write the name of a group or lane, and the note of its track."""
    lane, theme = box.lane, geometry.scene.theme
    if lane is None:
        texts.append(
            Text(HEAD_PAD, y + box.height / 2, box.title, theme.text, _FIGURE_SIZE,
                 Face.HEADING, width=edge - HEAD_PAD - 4)
        )  # fmt: skip
        return
    has_rows = lane.track.has_rows
    rows = len(box.row_y) * box.row_height if has_rows else box.height
    size = min(_FIGURE_SIZE, box.height - 1)
    first = y + rows / 2
    width = edge - _FIGURE_INDENT - 4
    labels_px = _add_axis_labels(box, y, edge, None, texts, geometry)
    width -= labels_px if _is_low(box) else 0.0
    texts.append(Text(_FIGURE_INDENT, first, box.title, theme.text, size, width=width))
    if rows >= 28 and (deeper := _deeper_levels(geometry, box)):
        note = f"+ {deeper:,} deeper levels"
        texts.append(
            Text(_FIGURE_INDENT, first + 13, note, theme.dim, _NUMBER_SIZE, width=width)
        )


def _is_low(box: LaneBox) -> bool:
    """Return whether labels of a lane's own axis stand beside its name."""
    return box.height < 4 * _NUMBER_SIZE


def _add_axis_labels(
    box: LaneBox,
    y: float,
    edge: float,
    clip: Clip | None,
    texts: TextList,
    geometry: TimelineGeometry,
) -> float:
    """Write the ends of a lane's own axis at the header's edge; return their width.

    Where they leave no room for the name, they are left out: it matters more.
    """
    scene = geometry.scene
    labels = box.lane and track_of(box.lane).axis_labels(scene.index.trace)
    if not labels:
        return 0.0
    width = max(
        scene.measurer.width(label, Face.MONO, _NUMBER_SIZE) for label in labels
    )
    indent = _FIGURE_INDENT if scene.is_figure else _LANE_INDENT
    size = _FIGURE_SIZE if scene.is_figure else _LANE_SIZE
    name = scene.measurer.width(box.title, Face.UI, size)
    beside = min(name, _MIN_NAME_PX) if _is_low(box) else 0.0
    if indent + beside + width + HEAD_PAD > edge:
        return 0.0
    top, foot = axis_ends(y, y + box.height)
    half = _NUMBER_SIZE / 2
    ends = {labels[0]: top + 1}
    if foot - top > 2 * _NUMBER_SIZE:
        ends[labels[1]] = foot - half + 1  # alone where all values are 0
    for label, at in ends.items():
        texts.append(
            Text(edge - _AXIS_GAP_PX, at, label, scene.theme.dim, _NUMBER_SIZE,
                 Face.MONO, Align.RIGHT, clip=clip)
        )  # fmt: skip
    return width + _LABEL_GAP_PX


def triangle(
    marks: RectList, x: float, y: float, color: int, clip: Clip, *, points_right: bool
) -> None:
    """Draw a small triangle around (x, y) out of whole pixel steps.

    Rectangles instead of a letter: no typeface is sure to have one.
    """
    n = int(_TRIANGLE_PX) // 2 + 1
    for step in range(n):
        half = n - step - 0.5
        a, b = (x - 2 + step, x - 1 + step) if points_right else (x - half, x + half)
        c, d = (y - half, y + half) if points_right else (y - 2 + step, y - 1 + step)
        c, d = max(c, clip.y), min(d, clip.y + clip.height)
        if d > c:
            marks.add(a, b, c, d, color)


def _add_lane(
    box: LaneBox,
    y: float,
    edge: float,
    clip: Clip,
    texts: TextList,
    geometry: TimelineGeometry,
) -> None:
    """Draw a lane's header: title, and a note."""
    lane, theme = box.lane, geometry.scene.theme
    if lane is None or not box.row_y:
        return
    leads = lane.title == lane.group
    indent = _GROUP_INDENT if leads else _LANE_INDENT
    middle = y + (
        box.row_y[0] + box.row_height / 2
        if lane.track.has_rows
        else min(box.height, 24) / 2
    )
    note, width = "", edge - indent - HEAD_PAD
    is_ready = lane.key not in geometry.scene.waiting
    if is_ready:  # else nobody knows how busy it is
        track = track_of(lane)
        is_used = track.shows_use
        note = _LONGEST_USE if is_used else track.note(geometry.scene.index.trace)
        labels_px = _add_axis_labels(box, y, edge, clip, texts, geometry)
        if labels_px and not _is_low(box):
            middle = y + box.height / 2  # between the labels
        else:
            width -= labels_px
    if not _both_fit(note, box.title, width):
        note = ""  # where both do not fit, the name matters more
    width -= len(note) * _DIGIT_PX + (8 if note else 0)
    texts.append(
        Text(
            indent,
            middle,
            box.title,
            theme.text,
            min(_LANE_SIZE, box.row_height - 3),
            Face.HEADING if leads else Face.UI,
            width=width,
            clip=clip,
        )
    )
    if is_ready and (deeper := _deeper_levels(geometry, box)):
        texts.append(
            Text(
                indent,
                y + box.row_y[-1] + box.row_height / 2,
                f"+ {deeper:,} deeper levels",
                theme.caution,
                min(_NUMBER_SIZE, box.row_height - 3),
                Face.UI,
                width=edge - indent - HEAD_PAD,
                clip=clip,
            )
        )
    if note and note is not _LONGEST_USE:
        texts.append(_note_text(note, box, edge, middle, clip, theme))


def _note_text(
    note: str, box: LaneBox, edge: float, middle: float, clip: Clip, theme: Theme
) -> Text:
    size = min(_NUMBER_SIZE, box.row_height - 3)
    x, face, right = edge - HEAD_PAD, Face.MONO, Align.RIGHT
    return Text(x, middle, note, theme.dim, size, face, right, clip=clip)


def _both_fit(note: str, title: str, width: float) -> bool:
    gap = 8 if note else 0
    return len(title) * _WORD_PX + len(note) * _DIGIT_PX + gap <= width


def use_batches(
    geometry: TimelineGeometry, boxes: list[tuple[LaneBox, float]]
) -> list[Batch]:
    """Return how busy the lanes are in the marked range, else in the one in view."""
    scene, edge = geometry.scene, geometry.time.x0
    if scene.is_figure or edge < 24:
        return []
    shown = [
        (lane, box, y)
        for box, y in boxes
        if (lane := box.lane) is not None
        and box.row_y
        and track_of(lane).shows_use
        and lane.key not in scene.waiting
    ]
    keys = tuple(lane.key for lane, _, _ in shown)
    time = scene.visible if scene.marked is None else scene.marked.time
    query = (time, keys, scene.color_by)
    cached = _last_uses.get(scene.index)
    if cached is None or cached[0] != query:
        cached = query, scene.index.shares_in(keys, time, scene.color_by)
        _last_uses[scene.index] = cached
    texts = TextList()
    fixed = Clip(0, geometry.lanes_y, edge, geometry.fixed_clip.height)
    scrolled = Clip(0, geometry.body_clip.y, edge, geometry.body_clip.height)
    for (lane, box, y), use in zip(shown, cached[1], strict=True):
        indent = _GROUP_INDENT if lane.title == lane.group else _LANE_INDENT
        if _both_fit(_LONGEST_USE, box.title, edge - indent - HEAD_PAD):
            middle = y + box.row_y[0] + box.row_height / 2
            clip, note = fixed if box.fixed else scrolled, format_share(use.busy)
            texts.append(_note_text(note, box, edge, middle, clip, scene.theme))
    return list(texts.batch())


def _deeper_levels(geometry: TimelineGeometry, box: LaneBox) -> int:
    """Return how many levels of nesting share the last row of a lane with another."""
    if box.lane is None or len(box.row_y) < MAX_ROWS:
        return 0
    return geometry.scene.index.rows(box.lane.key)[-1].levels - 1


def unknown_range(trace: Trace) -> TimeRange | None:
    """Return the time of which the spans are not all known; None where they are.

    It reaches from `read_until` to the end of the trace, as far as that is known.
    """
    until = trace.read_until
    if until is None or until >= trace.extent.end or trace.is_running:
        return None  # of a program that runs each lane ends at its last record
    return TimeRange(max(until, trace.extent.start), trace.extent.end)


def unknown_text(trace: Trace) -> str:
    """Return what stands over the time that is not known."""
    return "still reading …" if trace.is_partial else "not read"


def pending_batches(geometry: TimelineGeometry) -> list[Batch]:
    """Return the cover over the unknown part of all lanes.

    It is opaque: some lanes may hold spans there already, but as long as not all
    are known, none is shown.
    """
    scene = geometry.scene
    area = Clip(
        geometry.time.x0,
        geometry.lanes_y,
        geometry.time.x1 - geometry.time.x0,
        max(geometry.bottom - geometry.lanes_y, 0.0),
    )
    return _cover(scene.index.trace, geometry.time, area, scene.theme, 12.0)


def pending_strip(scene: OverviewScene, time: TimeScale) -> list[Batch]:
    """Return the same for the overview strip."""
    area = Clip(0.0, 0.0, scene.width, scene.height)
    return _cover(scene.index.trace, time, area, scene.theme, 10.5)


def _cover(
    trace: Trace, time: TimeScale, area: Clip, theme: Theme, size: float
) -> list[Batch]:
    unknown = unknown_range(trace)
    if unknown is None or unknown.end <= time.visible.start:
        return []
    left, right = area.x, area.x + area.width
    x0 = max(time.snap(time.x(max(unknown.start, time.visible.start))), left)
    x1 = min(time.snap(time.x(min(unknown.end, time.visible.end))), right)
    if x1 - x0 < 1 / time.scale or area.height <= 0:
        return []
    y0, y1 = area.y, area.y + area.height
    # The edge of what is known; where it is off to the left there is none.
    edge = time.scale if unknown.start >= time.visible.start else 0.0
    batches = cover(Clip(x0, y0, x1 - x0, area.height), theme, edge)
    ground = _cover_ground(theme)
    if x1 - x0 >= _WORDS_PX:
        batches += _unknown_label(
            trace, theme, size, (x0 + x1) / 2, (y0 + y1) / 2, ground
        )
    return batches


def _cover_ground(theme: Theme) -> int:
    return mix(theme.pane, theme.lane, 0.5)


def cover(area: Clip, theme: Theme, scale: float) -> list[Batch]:
    """Return the hatch of what is not known.

    `scale` is that of the edge of what is known, to the left of it; 0 = it has none.
    """
    x0, x1, y0, y1 = area.x, area.x + area.width, area.y, area.y + area.height
    line = mix(theme.pane, theme.dim, 0.3)
    rects = RectList()
    rects.add(x0, x1, y0, y1, _cover_ground(theme))
    rects.add(x0, x1, y0, y1, line, pattern=int(Pattern.FAINT_HATCH))
    if scale:
        rects.add(x0, x0 + max(1.0, 1 / scale), y0, y1, theme.caution)
    return rects.batch(clip=area)


def _unknown_label(
    trace: Trace, theme: Theme, size: float, x: float, y: float, ground: int
) -> list[Batch]:
    """Return the words in the middle of the cover, on a plate that calms the hatch."""
    message = unknown_text(trace)
    half, high = len(message) * size * 0.28 + _PLATE_PX, size * 0.75 + 2
    plate = RectList()
    plate.add(x - half, x + half, y - high, y + high, ground)
    text = Text(x, y, message, theme.text, size, Face.UI, Align.CENTER)
    return [*plate.batch(radius=4.0), TextBatch((text,))]


def compose_timeline(scene: TimelineScene) -> DisplayList:
    """Return the picture of the timeline.

    Notes
    -----
    Cost grows with the number of visible rows and pixels, not with the trace.
    The opacity of the folded columns is exact; see `column_pixels`.
    """
    geometry = TimelineGeometry(scene)
    trace, theme = scene.index.trace, scene.theme
    if is_empty(trace):
        return _empty_picture(scene)
    boxes, places = _places_of(geometry)
    axis = axis_ticks(
        scene.visible,
        geometry.time.x1 - geometry.time.x0,
        trace.clock,
        absolute=scene.absolute,
    )
    fixed_places, body_places = places
    drafts: list[LanesDraft] = []

    def draw() -> DrawnLanes:
        body = LanesDraft(geometry, geometry.body_clip, body_places)
        fixed = LanesDraft(geometry, geometry.fixed_clip, fixed_places)
        body.query_with(fixed)
        drafts[:] = fixed, body
        batches = (
            *body_places.grounds,
            *fixed_places.grounds,
            *grid_batches(geometry, axis),
            *body.batches(),
            *fixed.batches(),
            *pending_batches(geometry),
            *open_batches(geometry, boxes),
        )
        labels = (*body.labels, *fixed.labels)
        return DrawnLanes(batches, labels, body.has_tokens or fixed.has_tokens)

    lanes, is_still = standing_lanes(geometry, draw)
    # What is marked on spans needs the rows of their lanes.
    waiting = scene.waiting
    ready = [(b, y) for b, y in boxes if b.lane is None or b.lane.key not in waiting]
    heads, lines = head_batches(geometry, boxes)
    tints, frames = highlight_batches(geometry, ready)
    under = [
        *lanes.batches,
        *tints,
        *lanes.labels,
        *mark_batches(geometry, boxes, ready, frames),
    ]
    batches = [
        *under,
        *heads,
        *use_batches(geometry, boxes),
        *lines,
        *ruler_batches(geometry),
        *axis_batches(geometry, axis),
        *flag_batches(geometry, boxes),
    ]
    still: tuple[StaticLayer, ...] = ()
    top = geometry.lanes_y
    # Print makes each batch anew, and figures have no ground.
    if (
        heads
        and not scene.is_figure
        and theme.name != "print"
        and geometry.bottom > top
    ):
        area = Clip(0, top, geometry.time.x0, geometry.bottom - top)
        still = (StaticLayer(len(under), len(under) + len(heads), area),)
    if is_still and theme.name != "print":
        still += (StaticLayer(0, len(lanes.batches)),)
    if theme.name == "print":
        batches = [_without_transparency(batch, theme) for batch in batches]
    spots = tuple(draft.spots() for draft in drafts) if scene.is_figure else ()
    return DisplayList(
        scene.width,
        scene.height,
        scene.scale,
        theme.pane,
        tuple(batches),
        still,
        spots,
        None if scene.is_figure else _covered(geometry, *places),
    )


def _places_of(
    geometry: TimelineGeometry,
) -> tuple[list[tuple[LaneBox, float]], tuple[LanePlaces, LanePlaces]]:
    """Return the boxes in view, and what lies where on them.

    Those that do not scroll have places of their own, which come first.

    Notes
    -----
    They do not depend on the time in view: those of the last pictures are cached, but
    of a trace that grows.
    """
    scene = geometry.scene
    key = (
        (scene.width, scene.height, scene.scale, scene.scroll_y, scene.header_width),
        (geometry.lanes_y, scene.theme, scene.color_by, scene.waiting),
    )
    cached = _last_places.setdefault(scene.index, [])
    if not scene.index.grows:
        for (layout, mask), cached_key, known in cached:
            if layout is scene.layout and mask is scene.mask and cached_key == key:
                return known
    boxes = geometry.visible_boxes()
    sticky = [placed for placed in boxes if placed[0].fixed]
    scrolled = [placed for placed in boxes if not placed[0].fixed]
    places = (
        place_lanes(geometry, geometry.fixed_clip, sticky),
        place_lanes(geometry, geometry.body_clip, scrolled),
    )
    if not scene.index.grows:
        # Those of another filter would keep what it has computed, some bytes a span.
        same = [entry for entry in cached if entry[0][1] is scene.mask]
        entry = ((scene.layout, scene.mask), key, (boxes, places))
        cached[:] = [*same[-_MAX_HEADS + 1 :], entry]
    return boxes, places


def _covered(
    geometry: TimelineGeometry, fixed: LanePlaces, body: LanePlaces
) -> Clip | None:
    """Return what the backgrounds of lanes cover, of regions one below the other."""
    regions = [region for region in (fixed.covered, body.covered) if region]
    if not regions or (len(regions) > 1 and regions[0][1] != regions[1][0]):
        return None
    (top, _), (_, bottom) = regions[0], regions[-1]
    x0, x1 = geometry.time.x0, geometry.time.x1
    return Clip(x0, top, x1 - x0, bottom - top) if bottom > top and x1 > x0 else None


def is_empty(trace: Trace) -> bool:
    """Return whether there is nothing that a timeline could show."""
    return not (
        len(trace.spans)
        or len(trace.markers)
        or any(len(series) for series in trace.counters)
    )


def _empty_picture(scene: TimelineScene) -> DisplayList:
    """Return the picture of a trace without anything in it."""
    theme, trace = scene.theme, scene.index.trace
    name = trace.info.paths[0].name if trace.info.paths else "This trace"
    x, y = scene.width / 2, scene.height / 2
    if trace.is_running:
        head = "Waiting for the first graph …"
        body = "Spans appear here as soon as the program computes."
    elif trace.pending:
        head, body = "Reading …", "Spans appear here as soon as they are read."
    else:
        head = f"{name} holds no spans"
        body = "There are no spans, markers or counters to show."
        if trace.importance is not None:
            n = format_counted(len(trace.importance.names), "tensor")
            body = f"It is an importance matrix of {n}: see the pane Tensors."
        has_tables = len(trace.tensors) or len(trace.routing) or len(trace.buffers)
        # The worst comes first; it is no reason where the file is of something else.
        if trace.warnings and not (has_tables or trace.graphs):
            message = trace.warnings[0].message
            body = message[:1].upper() + message[1:]
    texts = (
        Text(
            x,
            y - 12,
            head,
            theme.text,
            15,
            Face.HEADING,
            Align.CENTER,
            width=scene.width - 24,
        ),
        Text(
            x,
            y + 12,
            body,
            theme.dim,
            12,
            Face.UI,
            Align.CENTER,
            width=scene.width - 24,
        ),
    )
    return DisplayList(
        scene.width, scene.height, scene.scale, theme.pane, (TextBatch(texts),)
    )


def figure_legend(scene: TimelineScene) -> list[Entry]:
    """Return the entries of all that a figure of `scene` draws, as it is drawn."""
    theme, trace = scene.theme, scene.index.trace
    lanes = [box.lane for box in scene.layout if box.lane is not None]
    styles = {track_of(lane).style for lane in lanes}
    entries: list[Entry] = []
    if RowStyle.CATEGORY in styles:
        categories = scene.index.categories(scene.color_by)
        present = _present(scene, lanes)
        entries += [
            Entry(categories.labels[i], int(color))
            for i, color in enumerate(lut(categories, theme).tolist())
            if present[i]
        ]
        if present[-1]:
            color = category_color("none", theme)
            if all(entry.color != color for entry in entries):
                entries.append(Entry(f"no {scene.color_by}", color))
    divided_by = [
        word
        for word, style in (("tokens", RowStyle.TOKEN), ("graphs", RowStyle.NEUTRAL))
        if style in styles
    ]
    if divided_by:
        entries.append(Entry(", ".join(divided_by), neutral_color(theme)))
    time = TimelineGeometry(scene).time
    if RowStyle.TOKEN in styles and has_slow_tokens(scene.index, time):
        entries.append(Entry(f"token of {SLOW} × the median", theme.caution))
    if RowStyle.PHASE in styles and trace.spans.phase is not None:
        is_phase, shown = trace.lanes.is_phase, [i for x in lanes for i in x.lane_ids]
        of_phases = [i for i in shown if is_phase[i]]
        ids = np.flatnonzero(np.isin(trace.spans.lane, of_phases))
        phases, first = np.unique(trace.spans.phase[ids], return_index=True)
        entries += [
            Entry(trace.span_name(int(ids[i])), phase_color(phase, theme))
            for phase, i in zip(phases.tolist(), first.tolist(), strict=True)
        ]
    has_stalls = scene.show_stalls and any(lane.overlay for lane in lanes)
    if has_stalls or RowStyle.STALL in styles:
        entries.append(Entry("stalls", stall_color(theme), pattern=Pattern.HATCH))
    if scene.show_waits and any(scene.index.waits(lane.key) for lane in lanes):
        entries.append(Entry("waiting", wait_color(theme), Sign.BAND))
    if any(lane.track.is_work for lane in lanes):
        tone = mix(theme.lane, idle_color(theme) | BLACK, IDLE_SHARE)
        hatch = Pattern.FAINT_HATCH
        entries.append(Entry("idle", theme.idle, pattern=hatch, ground=tone))
    entries = list(dict.fromkeys(entries))  # phases may be the colouring, too
    signs = {entry.label: entry for entry in _doubt_entries(scene, lanes)}
    entries = [  # where qualities are the colouring, one entry has colour and pattern
        replace(e, pattern=signs.pop(e.label).pattern) if e.label in signs else e
        for e in entries
    ]
    entries += signs.values()
    if len(visible_markers(TimelineGeometry(scene))):
        entries.append(Entry("markers", theme.dim, Sign.LINE))
    if scene.mask is not None:
        entries.append(Entry("outside the filter", mix(theme.lane, theme.dim, GHOST)))
    if scene.bookmarks:
        colors = {note_color(note.color, theme) for note in scene.bookmarks}
        color = colors.pop() if len(colors) == 1 else theme.dim
        entries.append(Entry("notes", color, Sign.DASHES))
    if scene.highlighted is not None:
        entries.append(Entry("critical path", theme.selection, Sign.LINE))
    if scene.selection:
        entries.append(Entry("selected", theme.selection, Sign.FRAME))
    if scene.marked is not None:
        entries.append(Entry("marked range", theme.accent, Sign.LINE))
    return entries


def _doubt_entries(scene: TimelineScene, lanes: Sequence[TimelineLane]) -> list[Entry]:
    """Return what marks spans whose times are not measured; see `RowsDraft`."""
    if not any(lane.track.has_rows for lane in lanes):
        return []
    theme, spans = scene.theme, scene.index.trace.spans
    inside = (spans.start < scene.visible.end) & (spans.end >= scene.visible.start)
    qualities = set(np.unique(quality_of(spans.flags[inside])).tolist())
    signs = (
        (Quality.DERIVED, Entry("end derived", theme.dim, Sign.DASHES)),
        (Quality.ESTIMATED, Entry("estimated", theme.caution, pattern=Pattern.DOTTED)),
        (Quality.UNFINISHED, Entry("unfinished", theme.dim, pattern=Pattern.HATCH)),
    )
    return [entry for quality, entry in signs if int(quality) in qualities]


def _present(
    scene: TimelineScene, lanes: Sequence[TimelineLane]
) -> npt.NDArray[np.bool_]:
    """Return bool[n_categories + 1]: which ones are on the lanes and in view.

    The last one stands for spans without a category.
    """
    categories, spans = scene.index.categories(scene.color_by), scene.index.trace.spans
    inside = (spans.start < scene.visible.end) & (spans.end >= scene.visible.start)
    if scene.mask is not None:
        inside &= scene.mask
    own = [lane for lane in lanes if track_of(lane).style is RowStyle.CATEGORY]
    if not any(lane.track.column for lane in own):
        inside &= np.isin(spans.lane, [i for lane in own for i in lane.lane_ids])
    else:
        shown = np.zeros(len(spans), np.bool_)
        for lane in own:  # stalls over a lane have an entry of their own
            plain = replace(lane, overlay=())
            shown[spans_on(spans, plain, np.flatnonzero(inside))] = True
        inside = shown
    n = len(categories.keys)
    index = categories.index[inside]
    return np.bincount(np.where(index < 0, n, index), minlength=n + 1) > 0


def _without_transparency(batch: Batch, theme: Theme) -> Batch:
    """Return a batch whose colours are mixed with the paper: for printing.

    What lies over the lanes (bands, hair lines) would hide them then, so such
    rectangles keep their border only; see the print theme's marked range.
    """
    if isinstance(batch, ImageBatch):
        # Empty columns stay see-through: ghosts and grid lines lie under them.
        pixels = batch.straight()
        mixed = blend(pixels, theme.lane)
        empty = (pixels >> np.uint32(24)) == 0
        mixed = np.where(empty, np.uint32(0), mixed)
        return replace(batch, pixels=mixed, premultiplied=False)
    if isinstance(batch, RectBatch):
        opaque = (batch.fill >> np.uint32(24)) == 255
        hatched = (
            np.zeros(len(opaque), bool) if batch.pattern is None else batch.pattern > 0
        )
        fill = np.where(opaque | hatched, blend(batch.fill, theme.lane), np.uint32(0))
        return replace(batch, fill=fill)
    if isinstance(batch, LineBatch):
        return replace(batch, color=blend(batch.color, theme.lane))
    if isinstance(batch, AreaBatch):
        fill = blend(np.array([batch.fill], np.uint32), theme.lane)
        return replace(batch, fill=int(fill[0]))
    return batch
