"""Arithmetic on ranges of time: zoom, pan, fit, clamp. Exact integers."""

import numpy as np

from ggscope.analysis.rows.waits import pauses
from ggscope.model.selection import Selection
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

MIN_TICKS = 16
_AIR = 10


def bounds(extent: TimeRange) -> TimeRange:
    """Return how far one can pan: the extent and 5 % on either side."""
    return extent.padded(max(extent.duration // 20, MIN_TICKS))


def fitted(extent: TimeRange) -> TimeRange:
    """Return the range that shows the whole extent, at least 16 ticks."""
    return _widened(extent)


def clamped(time: TimeRange, limits: TimeRange) -> TimeRange:
    """Return `time`, at least 16 ticks wide, moved into `limits`.

    Wider than the limits becomes the limits.
    """
    time = _widened(time)
    width = min(time.duration, limits.duration)
    start = max(limits.start, min(time.start, limits.end - width))
    return TimeRange(start, start + width)


def zoomed(
    visible: TimeRange, factor: float, centre: int | None, limits: TimeRange
) -> TimeRange:
    """Return a range `factor` times as wide around `centre` (None: the middle)."""
    if centre is None or not visible.contains(centre):
        centre = visible.start + visible.duration // 2
    width = round(visible.duration * factor)
    width = max(MIN_TICKS, min(width, limits.duration))
    if width == visible.duration:
        return visible
    left = (centre - visible.start) * width // max(visible.duration, 1)
    return TimeRange(centre - left, centre - left + width)


def centred(visible: TimeRange, target: TimeRange) -> TimeRange:
    """Return a range as wide as `visible` with `target` in its middle."""
    middle = target.start + target.duration // 2
    start = middle - visible.duration // 2
    return TimeRange(start, start + visible.duration)


def with_air(target: TimeRange) -> TimeRange:
    """Return `target` and a tenth of its length on either side."""
    return _widened(target.padded(target.duration // _AIR))


def shows(visible: TimeRange, target: TimeRange) -> bool:
    """Return whether `target`, or as much of it as fits, can be seen."""
    if target.duration >= visible.duration:
        common = visible.intersect(target)
        return common is not None and common.duration * 2 >= visible.duration
    return visible.start <= target.start and target.end <= visible.end


def of_selection(trace: Trace, selection: Selection) -> TimeRange | None:
    """Return the time from the first to the last selected thing.

    None where nothing is selected that lies in time; rows that do not exist are
    left out.
    """
    if gaps := pauses(trace, selection):
        times = [time for _, time in gaps]
        return TimeRange(min(t.start for t in times), max(t.end for t in times))
    if selection.table == "spans":
        start, end = trace.spans.start, trace.spans.end
    elif selection.table == "markers":
        start = end = trace.markers.time
    elif selection.table == "buffers":
        # From its allocation to its end; one that is never freed lasts to the end.
        start = np.maximum(trace.buffers.allocated, trace.extent.start)
        freed = trace.buffers.freed
        end = np.where(freed == -1, trace.extent.end, freed)
        end = np.maximum(end, start)
    else:
        return None
    ids = np.asarray(selection.ids, np.int64)
    ids = ids[(ids >= 0) & (ids < len(start))]
    if not len(ids):
        return None
    return TimeRange(int(start[ids].min()), int(end[ids].max()))


def _widened(time: TimeRange) -> TimeRange:
    missing = MIN_TICKS - time.duration
    if missing <= 0:
        return time
    start = time.start - missing // 2
    return TimeRange(start, start + MIN_TICKS)
