"""The column of lane headers at the left and the axis at the top."""

from weakref import WeakKeyDictionary

import numpy as np

from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneBox, LaneLayout
from ggscope.analysis.rows.rows import MAX_ROWS
from ggscope.model.lanes import LaneKind
from ggscope.model.units import format_count, format_share
from ggscope.render.axis import CHARACTER_PX, LABEL_SIZE, Axis
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
from ggscope.render.theme import with_alpha
from ggscope.render.timeline.scene import TimelineGeometry, TimeScale

HEAD_PAD = 10.0
_TRIANGLE_PX = 7.0
_LANE_INDENT = 32.0
_GROUP_INDENT = 26.0
_NUMBER_SIZE = 10.0
_WORD_PX = 6.8
_DIGIT_PX = 6.1
"""Usual widths of a character at the sizes of the headers."""
_LABEL_GAP_PX = 4.0
_LABEL_Y = 8.0
"""Axis labels sit high, so that the flags of markers fit under them."""
_KEPT_HEADS = 3
"""Several timelines may show a trace, each at a size of its own."""
_last_heads: WeakKeyDictionary[
    TraceIndex, list[tuple[LaneLayout, tuple[object, ...], list[Batch]]]
] = WeakKeyDictionary()


def head_batches(
    geometry: TimelineGeometry,
    boxes: list[tuple[LaneBox, float]],
    notes: dict[str, str],
) -> list[Batch]:
    """Return the headers of `boxes`.

    Parameters
    ----------
    notes : dim texts at the right of a lane's header, by lane key; lanes that
        are not in it say how busy they are.

    Notes
    -----
    Headers do not depend on the time in view: those of the last pictures are kept.
    """
    scene = geometry.scene
    key = (
        (scene.width, scene.height, scene.scale, scene.scroll_y, scene.header_width),
        (scene.theme, scene.title),
        tuple(notes.items()),
    )
    kept = _last_heads.setdefault(scene.index, [])
    for layout, known, batches in kept:
        if layout is scene.layout and known == key:
            return batches
    batches = _make_heads(geometry, boxes, notes)
    kept[:] = [*kept[-_KEPT_HEADS + 1 :], (scene.layout, key, batches)]
    return batches


def _make_heads(
    geometry: TimelineGeometry,
    boxes: list[tuple[LaneBox, float]],
    notes: dict[str, str],
) -> list[Batch]:
    theme, time = geometry.scene.theme, geometry.time
    edge = time.x0
    if edge < 24:
        return []
    grounds, marks, lines = RectList(), RectList(), LineList()
    texts = TextList()
    top, height = geometry.lanes_y, geometry.bottom - geometry.lanes_y
    grounds.add(0, edge, top, geometry.bottom, theme.pane)
    pinned = Clip(0, top, edge, geometry.pinned_clip.height)
    scrolled = Clip(0, geometry.body_clip.y, edge, geometry.body_clip.height)
    for box, y in boxes:
        clip = pinned if box.pinned else scrolled
        end = time.snap(y + box.height) - 0.5 / time.scale
        share = 0.3 if box.lane is not None and box.lane.thin else 0.6
        lines.add(0, end, geometry.scene.width, end, with_alpha(theme.line, share))
        if box.lane is None:
            _add_group(box, y, edge, clip, texts, marks, geometry)
        else:
            _add_lane(box, y, edge, clip, texts, geometry, notes)
    if geometry.pinned_height and geometry.body_clip.height:
        split = geometry.body_clip.y
        lines.add(0, split, geometry.scene.width, split, theme.dim)
    frame = Clip(0, top, geometry.scene.width, max(height, 0))
    return [
        *grounds.batch(),
        *lines.batch(frame),
        *marks.batch(clip=frame),
        *texts.batch(),
    ]


def axis_batches(geometry: TimelineGeometry, axis: Axis) -> list[Batch]:
    """Return the axis row: ground, small and large marks, labels."""
    theme, time = geometry.scene.theme, geometry.time
    top, bottom = geometry.axis_y, geometry.lanes_y
    ground, lines, texts = RectList(), LineList(1 / time.scale), TextList()
    ground.add(0, geometry.scene.width, top, bottom, theme.pane)
    right = Clip(time.x0, top, time.x1 - time.x0, bottom - top)
    xs = np.array([time.x(tick) for tick, _ in axis.ticks])
    snapped = _in_view(_on_pixels(xs, time.scale), time)
    lines.add(snapped, bottom - 6, snapped, bottom, theme.faint)
    small = _in_view(_small_ticks(geometry, axis), time)
    lines.add(small, bottom - 3, small, bottom, with_alpha(theme.faint, 0.6))
    taken = time.x0
    for x, (_, label) in zip(xs.tolist(), axis.ticks, strict=True):
        half = len(label) * CHARACTER_PX / 2
        if not time.x0 - 1 <= x <= time.x1 + 1:
            continue  # its label would be cut by the edge
        # Labels at the ends move inwards, so that none is cut in half.
        x = max(min(x, time.x1 - half - 2), time.x0 + half + 2)
        if x - half < taken:
            continue
        taken = x + half + _LABEL_GAP_PX
        texts.append(
            Text(
                x,
                top + _LABEL_Y,
                label,
                theme.dim,
                LABEL_SIZE,
                Face.NUMBERS,
                Align.CENTER,
                clip=right,
            )
        )
    if time.x0 > 60:
        words = axis.base
        if not words and geometry.scene.index.trace.clock.unit == "cycle":
            words = "cycles"
        if words:
            texts.append(
                Text(
                    HEAD_PAD,
                    top + _LABEL_Y,
                    words,
                    theme.dim,
                    _NUMBER_SIZE,
                    Face.NUMBERS,
                    width=time.x0 - 2 * HEAD_PAD,
                )
            )
    under = LineList(1 / time.scale)
    y = bottom - 0.5 / time.scale
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
    xs = np.array([time.x(first + k * axis.minor) for k in range(n)])
    return _on_pixels(xs, time.scale)


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
            box.group,
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
                Face.NUMBERS,
                Align.RIGHT,
                clip=clip,
            )
        )


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
    notes: dict[str, str],
) -> None:
    """Draw a lane's header: title, and how busy it is over the whole trace."""
    lane, theme = box.lane, geometry.scene.theme
    if lane is None or not box.row_y:
        return
    leads = lane.title == lane.group
    indent = _GROUP_INDENT if leads else _LANE_INDENT
    is_tall = lane.kind == LaneKind.COUNTER
    middle = y + (
        min(box.height, 24) / 2 if is_tall else box.row_y[0] + box.row_height / 2
    )
    note = notes.get(lane.key)
    if note is None:
        note = _busy_note(geometry, box)
    room = edge - indent - HEAD_PAD
    if note and len(lane.title) * _WORD_PX + len(note) * _DIGIT_PX + 8 > room:
        note = ""  # where both do not fit, the name matters more
    room -= len(note) * _DIGIT_PX + (8 if note else 0)
    texts.append(
        Text(
            indent,
            middle,
            lane.title,
            theme.text,
            min(12.0, box.row_height - 2),
            Face.HEADING if leads else Face.WORDS,
            width=room,
            clip=clip,
        )
    )
    is_ready = lane.key not in geometry.scene.waiting
    if is_ready and (deeper := _deeper_levels(geometry, box)):
        texts.append(
            Text(
                indent,
                y + box.row_y[-1] + box.row_height / 2,
                f"+ {deeper:,} deeper levels",
                theme.caution,
                min(_NUMBER_SIZE, box.row_height - 3),
                Face.WORDS,
                width=edge - indent - HEAD_PAD,
                clip=clip,
            )
        )
    if note:
        texts.append(
            Text(
                edge - HEAD_PAD,
                middle,
                note,
                theme.dim,
                min(_NUMBER_SIZE, box.row_height - 3),
                Face.NUMBERS,
                Align.RIGHT,
                clip=clip,
            )
        )


def _deeper_levels(geometry: TimelineGeometry, box: LaneBox) -> int:
    """Return how many levels of nesting share the last row of a lane with another."""
    if box.lane is None or len(box.row_y) < MAX_ROWS:
        return 0
    return geometry.scene.index.rows(box.lane.key)[-1].levels - 1


def _busy_note(geometry: TimelineGeometry, box: LaneBox) -> str:
    lane = box.lane
    if lane is None or lane.thin or not lane.n_spans:
        return ""
    if lane.kind in (LaneKind.THREAD, LaneKind.ENGINE):
        return format_share(geometry.scene.index.busy_share(lane.key))
    return format_count(lane.n_spans)
