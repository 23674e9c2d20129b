"""The part of a picture that is not known: still being read, or left unread."""

from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace
from ggscope.render.batch import (
    Align,
    Batch,
    Clip,
    Face,
    Pattern,
    RectList,
    Text,
    TextBatch,
)
from ggscope.render.theme import Theme, mix
from ggscope.render.timeline.scene import OverviewScene, TimelineGeometry, TimeScale

_WORDS_PX = 96.0
"""Bands narrower than this carry no words."""
_PLATE_PX = 7.0


def unknown_range(trace: Trace) -> TimeRange | None:
    """Return the time of which the spans are not all known; None where they are.

    It reaches from `read_until` to the end of the trace, as far as that is known.
    """
    until = trace.read_until
    if until is None or until >= trace.extent.end:
        return None
    return TimeRange(max(until, trace.extent.start), trace.extent.end)


def unknown_words(trace: Trace) -> str:
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
    ground = mix(theme.pane, theme.lane, 0.5)
    line = mix(theme.pane, theme.dim, 0.3)
    rects = RectList()
    rects.add(x0, x1, y0, y1, ground)
    rects.add(x0, x1, y0, y1, line, pattern=int(Pattern.FAINT_HATCH))
    # The edge of what is known; where it is off to the left there is none.
    if unknown.start >= time.visible.start:
        rects.add(x0, x0 + max(1.0, 1 / time.scale), y0, y1, theme.caution)
    batches = rects.batch(clip=area)
    if x1 - x0 >= _WORDS_PX:
        batches += _words(trace, theme, size, (x0 + x1) / 2, (y0 + y1) / 2, ground)
    return batches


def _words(
    trace: Trace, theme: Theme, size: float, x: float, y: float, ground: int
) -> list[Batch]:
    """Return the words in the middle of the cover, on a plate that calms the hatch."""
    words = unknown_words(trace)
    half, high = len(words) * size * 0.28 + _PLATE_PX, size * 0.75 + 2
    plate = RectList()
    plate.add(x - half, x + half, y - high, y + high, ground)
    text = Text(x, y, words, theme.text, size, Face.WORDS, Align.CENTER)
    return [*plate.batch(radius=4.0), TextBatch((text,))]
