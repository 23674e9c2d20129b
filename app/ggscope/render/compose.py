"""From a trace and a view state to a display list: the timeline and its overview."""

from dataclasses import replace

import numpy as np

from ggscope.model.trace import Trace
from ggscope.render.axis import axis_ticks
from ggscope.render.batch import (
    Align,
    AreaBatch,
    Batch,
    DisplayList,
    Face,
    ImageBatch,
    LineBatch,
    RectBatch,
    Text,
    TextBatch,
)
from ggscope.render.compose_heads import (
    HEAD_PAD,
    axis_batches,
    grid_batches,
    head_batches,
)
from ggscope.render.compose_lanes import LanesDraft
from ggscope.render.compose_legend import legend_batches
from ggscope.render.compose_marks import flag_batches, mark_batches
from ggscope.render.compose_overview import compose_overview
from ggscope.render.compose_pending import pending_batches
from ggscope.render.scene import (
    AXIS_HEIGHT,
    HEADER_WIDTH,
    TITLE_HEIGHT,
    OverviewScene,
    TimelineGeometry,
    TimelineScene,
    TimeScale,
)
from ggscope.render.theme import Theme, blend


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
    boxes = geometry.visible_boxes()
    axis = axis_ticks(
        scene.visible,
        geometry.time.x1 - geometry.time.x0,
        trace.clock,
        absolute=scene.absolute,
    )
    body = LanesDraft(geometry, geometry.body_clip)
    pinned = LanesDraft(geometry, geometry.pinned_clip)
    for box, y in boxes:
        (pinned if box.pinned else body).add(box, y)
    batches: list[Batch] = [
        *body.grounds(),
        *pinned.grounds(),
        *grid_batches(geometry, axis),
        *body.batches(),
        *pinned.batches(),
        *pending_batches(geometry),
        *mark_batches(geometry, boxes),
        *head_batches(geometry, boxes, body.notes | pinned.notes),
        *axis_batches(geometry, axis),
        *flag_batches(geometry, boxes),
    ]
    if scene.title:
        batches += _title_batches(geometry)
        batches += legend_batches(scene, geometry.bottom)
    if theme.name == "print":
        batches = [_without_transparency(batch, theme) for batch in batches]
    return DisplayList(
        scene.width, scene.height, scene.scale, theme.pane, tuple(batches)
    )


def is_empty(trace: Trace) -> bool:
    """Tell whether there is nothing that a timeline could show."""
    return not (
        len(trace.spans)
        or len(trace.markers)
        or any(len(series) for series in trace.counters)
    )


def x_of_tick(scene: TimelineScene, tick: int) -> float:
    """Return the x position of a tick in the picture (may lie outside)."""
    return _time_scale(scene).x(tick)


def tick_of_x(scene: TimelineScene, x: float) -> int:
    """Return the tick at x, clamped to int64."""
    return _time_scale(scene).tick(x)


def layout_y(scene: TimelineScene, y: float) -> float | None:
    """Return the lane area coordinate of `y`, as ``LaneLayout.box_at`` takes it.

    Pinned lanes do not scroll, the others do. None on the axis and below the lanes.
    """
    return TimelineGeometry(scene).layout_y(y)


def _time_scale(scene: TimelineScene) -> TimeScale:
    left = min(scene.header_width, scene.width - 1)
    return TimeScale(scene.visible, left, scene.width, scene.scale)


def _empty_picture(scene: TimelineScene) -> DisplayList:
    """Return the picture of a trace without anything in it."""
    theme, trace = scene.theme, scene.index.trace
    name = trace.info.paths[0].name if trace.info.paths else "This trace"
    x, y = scene.width / 2, scene.height / 2
    if trace.pending:
        head, body = "Reading …", "Spans appear here as soon as they are read."
    else:
        head = f"{name} holds no spans"
        body = "There are no spans, markers or counters to show."
        if trace.warnings:  # the worst comes first
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
            Face.WORDS,
            Align.CENTER,
            width=scene.width - 24,
        ),
    )
    return DisplayList(
        scene.width, scene.height, scene.scale, theme.pane, (TextBatch(texts),)
    )


def _title_batches(geometry: TimelineGeometry) -> list[Batch]:
    """Return the title line; it owns up to lanes that the figure has no room for."""
    scene = geometry.scene
    room = geometry.bottom - geometry.lanes_y + scene.scroll_y
    hidden = scene.layout.n_lanes_beyond(room + 1)
    note = f"{hidden:,} more lanes do not fit" if hidden else ""
    y, width = TITLE_HEIGHT / 2, scene.width - 2 * HEAD_PAD
    return [
        TextBatch(
            (
                Text(
                    HEAD_PAD,
                    y,
                    scene.title,
                    scene.theme.text,
                    15,
                    Face.HEADING,
                    width=width - len(note) * 7,
                ),
                Text(
                    scene.width - HEAD_PAD,
                    y,
                    note,
                    scene.theme.caution,
                    11,
                    align=Align.RIGHT,
                ),
            )
        )
    ]


def _without_transparency(batch: Batch, theme: Theme) -> Batch:
    """Return a batch whose colours are mixed with the paper: for printing.

    What lies over the lanes (bands, hair lines) would hide them then, so such
    rectangles keep their border only; see the print theme's marked range.
    """
    if isinstance(batch, ImageBatch):
        # Empty columns stay see-through: ghosts and grid lines lie under them.
        mixed = blend(batch.pixels, theme.lane)
        empty = (batch.pixels >> np.uint32(24)) == 0
        return replace(batch, pixels=np.where(empty, np.uint32(0), mixed))
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


__all__ = [
    "AXIS_HEIGHT",
    "HEADER_WIDTH",
    "OverviewScene",
    "TimelineScene",
    "compose_overview",
    "compose_timeline",
    "is_empty",
    "layout_y",
    "tick_of_x",
    "x_of_tick",
]
