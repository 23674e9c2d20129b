"""What lies under a point of the timeline."""

from dataclasses import dataclass

from ggscope.analysis.index import TraceIndex
from ggscope.analysis.layout import LaneBox
from ggscope.render.compose_pending import unknown_range

_REACH_PX = 3.0
"""So far away a span is still found: most are narrower than a mouse can point."""


@dataclass(frozen=True, slots=True)
class Hit:
    """What lies under a point of the timeline.

    Attributes
    ----------
    tick : time at the point.
    box : lane or group head, None on the axis and below the last lane.
    row : row number inside the lane, -1 between rows.
    span : id of the span there, -1 for none.
    in_header : whether the point is over the lane headers.
    """

    tick: int
    box: LaneBox | None = None
    row: int = -1
    span: int = -1
    in_header: bool = False
    on_axis: bool = False


def hit_in_lane(
    index: TraceIndex, box: LaneBox, y: float, tick: int, ticks_per_px: float
) -> Hit:
    """Return what lies at (tick, y) of a lane's box, `y` in the lane area.

    No span is found where spans are still to be read: they are covered.
    """
    row, lane = row_at(box, y - box.y), box.lane
    unknown = unknown_range(index.trace)
    is_covered = unknown is not None and unknown.contains(tick)
    if lane is None or row < 0 or lane.counter >= 0 or is_covered:
        return Hit(tick, box, row)
    found = index.span_at(lane.key, row, tick)
    if found is None:
        reach = int(_REACH_PX * ticks_per_px) + 1
        found = index.nearest_span(lane.key, row, tick, reach)
    return Hit(tick, box, row, -1 if found is None else int(found))


def row_at(box: LaneBox, y: float) -> int:
    """Return the number of the row at `y` of a box, -1 between rows."""
    for row, top in enumerate(box.row_y):
        if top <= y < top + box.row_height:
            return row
    return -1


__all__ = ["Hit", "hit_in_lane", "row_at"]
