"""The filter that a marked part of the file heatmap stands for."""

from dataclasses import replace

from ggscope.analysis.heatmap import HeatBase
from ggscope.analysis.heatmap_rows import pass_starts
from ggscope.model.selection import Filter
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace
from ggscope.render.heat_scene import HeatMark

_MOST_NUMBERS = 100_000
"""More tokens than this are not listed one by one: all rows are meant then."""


def filter_of_mark(trace: Trace, base: HeatBase, mark: HeatMark, old: Filter) -> Filter:
    """Return `old` narrowed to the spans that touch the marked bytes and rows.

    Offsets are those of the file that the mark begins in, where a model has parts.
    """
    part = base.files.part_at(mark.begin)
    shift = 0 if part is None else part.begin
    end = mark.stop if part is None else min(mark.stop, part.end)
    wanted = replace(old, offsets=(mark.begin - shift, end - shift))
    if mark.top < 0:
        return wanted
    rows = base.rows
    has_rest = mark.bottom > len(rows.first)
    last = min(mark.bottom, len(rows.first)) - 1
    if last < mark.top:
        numbers = frozenset({-1})
    else:
        first, stop = int(rows.first[mark.top]), int(rows.last[last])
        if rows.kind in ("time", "pass"):
            return replace(wanted, time=_time(trace, base, first, stop))
        if stop - first > _MOST_NUMBERS:
            return wanted
        numbers = frozenset(range(first, stop + 1)) | ({-1} if has_rest else set())
    if rows.kind == "token":
        return replace(wanted, tokens=numbers)
    return replace(wanted, layers=numbers) if rows.kind == "layer" else wanted


def _time(trace: Trace, base: HeatBase, first: int, last: int) -> TimeRange:
    """Return the time of rows: their own ticks, or those of passes."""
    if base.rows.kind == "time":
        return TimeRange(first, last)
    starts = pass_starts(trace)
    end = trace.extent.end if last + 1 >= len(starts) else int(starts[last + 1])
    return TimeRange(int(starts[first]), end)


__all__ = ["filter_of_mark"]
