"""What lies under a point of the timeline: a span, a wait, idle time, a lane."""

from dataclasses import dataclass

from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneBox
from ggscope.analysis.rows.waits import Gap
from ggscope.descriptions.spans import wait_of
from ggscope.render.timeline.compose import unknown_range
from ggscope.render.timeline.lanes import WORK_KINDS

_REACH_PX = 3.0
"""How close to a span a point hits it: most are narrower than a mouse can aim at."""
_WIDE_WAIT_PX, _REACH_IN_WAIT_PX = 6.0, 1.0
"""Inside a wait wider than the first, spans have the second as their reach."""


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
    on_axis : whether the point is on the time axis.
    is_wait : whether the point is in the wait after `span`.
    gap : the idle time there, in lanes of computing threads and engines.
    """

    tick: int
    box: LaneBox | None = None
    row: int = -1
    span: int = -1
    in_header: bool = False
    on_axis: bool = False
    is_wait: bool = False
    gap: Gap | None = None


def hit_in_lane(
    index: TraceIndex,
    box: LaneBox,
    y: float,
    tick: int,
    ticks_per_px: float,
    *,
    has_waits: bool = True,
) -> Hit:
    """Return what lies at (tick, y) of a lane's box, `y` in the lane area.

    Parameters
    ----------
    has_waits : whether waits are shown.

    Notes
    -----
    Ranges that are still to be read hold no hit but the lane: they are covered.
    """
    row, lane = row_at(box, y - box.y), box.lane
    unknown = unknown_range(index.trace)
    is_covered = unknown is not None and unknown.contains(tick)
    if lane is None or row < 0 or lane.counter >= 0 or is_covered:
        return Hit(tick, box, row)
    span = index.span_at(lane.key, row, tick)
    if span is not None:
        return Hit(tick, box, row, span)
    waiting = index.wait_at(lane.key, row, tick)
    reach_px = _REACH_PX
    if waiting is not None and has_waits:
        wait = wait_of(index.trace, waiting)
        reach_px = (
            _REACH_IN_WAIT_PX if wait > _WIDE_WAIT_PX * ticks_per_px else _REACH_PX
        )
    reach = int(reach_px * ticks_per_px) + 1
    span = index.nearest_span(lane.key, row, tick, reach)
    if span is not None:
        return Hit(tick, box, row, span)
    if waiting is not None:
        return Hit(tick, box, row, waiting if has_waits else -1, is_wait=has_waits)
    is_work = lane.kind in WORK_KINDS and not lane.thin
    gap = index.gap_at(lane.key, row, tick) if is_work else None
    return Hit(tick, box, row, gap=gap)


def row_at(box: LaneBox, y: float) -> int:
    """Return the number of the row at `y` of a box, -1 between rows."""
    for row, top in enumerate(box.row_y):
        if top <= y < top + box.row_height:
            return row
    return -1
