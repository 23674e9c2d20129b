"""From a trace and the state of a view to a display list: the timeline.

A figure has a title above and a legend below: which colour means what, and marks of
doubt.
"""

from dataclasses import replace

import numpy as np

from ggscope.model.tables import Quality
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
    Pattern,
    RectBatch,
    RectList,
    Text,
    TextBatch,
    TextList,
)
from ggscope.render.theme import Theme, blend, lut
from ggscope.render.timeline.heads import (
    HEAD_PAD,
    axis_batches,
    grid_batches,
    head_batches,
)
from ggscope.render.timeline.lanes import LanesDraft
from ggscope.render.timeline.marks import flag_batches, mark_batches
from ggscope.render.timeline.pending import pending_batches
from ggscope.render.timeline.scene import (
    LEGEND_HEIGHT,
    TITLE_HEIGHT,
    TimelineGeometry,
    TimelineScene,
)

_SWATCH_PX = 11.0
_TEXT_SIZE = 11.0
_CHARACTER_PX = 6.6
_GAP_PX = 18.0
MAX_ENTRIES = 24


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
    boxes, waiting = geometry.visible_boxes(), scene.waiting
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
    # What is marked on spans needs the rows of their lanes.
    ready = [(b, y) for b, y in boxes if b.lane is None or b.lane.key not in waiting]
    batches: list[Batch] = [
        *body.grounds(),
        *pinned.grounds(),
        *grid_batches(geometry, axis),
        *body.batches(),
        *pinned.batches(),
        *pending_batches(geometry),
        *mark_batches(geometry, boxes, ready),
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


def legend_batches(scene: TimelineScene, top: float) -> list[Batch]:
    """Return the legend line at `top`: the categories in view, then qualities.

    What does not fit on the line is left out, with a count of what is missing.
    """
    theme = scene.theme
    rects, texts = RectList(), TextList()
    categories = scene.index.categories(scene.color_by)
    present = _present(scene)
    entries = [
        (categories.labels[i], int(color), Pattern.SOLID)
        for i, color in enumerate(lut(categories, theme).tolist())
        if present[i] and categories.keys[i] != "none"
    ]
    counts = scene.index.trace.quality_counts()
    if counts[Quality.ESTIMATED.name.lower()]:
        entries.append(("estimated", theme.caution, Pattern.DOTTED))
    if counts[Quality.UNFINISHED.name.lower()]:
        entries.append(("unfinished", theme.dim, Pattern.HATCH))
    x, y = 10.0, top + LEGEND_HEIGHT / 2
    for number, (label, color, pattern) in enumerate(entries):
        width = _SWATCH_PX + 5 + len(label) * _CHARACTER_PX
        rest = len(entries) - number
        if x + width > scene.width - 60 or number == MAX_ENTRIES:
            texts.append(Text(x, y, f"and {rest} more", theme.dim, _TEXT_SIZE))
            break
        rects.add(
            x,
            x + _SWATCH_PX,
            y - _SWATCH_PX / 2,
            y + _SWATCH_PX / 2,
            color,
            pattern=int(pattern),
        )
        texts.append(Text(x + _SWATCH_PX + 5, y, label, theme.text, _TEXT_SIZE))
        x += width + _GAP_PX
    return [*rects.batch(), *texts.batch()]


def _present(scene: TimelineScene) -> np.ndarray:
    """Return bool[n_categories]: which ones occur in the visible range."""
    categories, spans = scene.index.categories(scene.color_by), scene.index.trace.spans
    inside = (spans.start < scene.visible.end) & (spans.end >= scene.visible.start)
    if scene.mask is not None:
        inside &= scene.mask
    return np.bincount(categories.index[inside], minlength=len(categories.keys)) > 0


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
