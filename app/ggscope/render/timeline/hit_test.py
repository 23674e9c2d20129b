"""What lies under a point of the timeline: a span, a wait, idle time, a lane."""

from dataclasses import dataclass

from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneBox
from ggscope.model.selection import Gap
from ggscope.render.timeline.compose import unknown_range
from ggscope.render.timeline.tracks.track import track_of


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
    if lane is None or row < 0 or is_covered:
        return Hit(tick, box, row)
    return track_of(lane).hit(index, box, row, tick, ticks_per_px, has_waits=has_waits)


def row_at(box: LaneBox, y: float) -> int:
    """Return the number of the row at `y` of a box, -1 between rows."""
    for row, top in enumerate(box.row_y):
        if top <= y < top + box.row_height:
            return row
    return -1
