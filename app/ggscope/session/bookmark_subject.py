"""What a bookmark is set on: a time, and in words the span or lane that was meant."""

from dataclasses import dataclass

from ggscope.analysis.index import TraceIndex
from ggscope.model.selection import MarkedRange, Selection
from ggscope.model.time import TimeRange
from ggscope.session.bookmarks import MAX_NAME, clean_line


@dataclass(frozen=True, slots=True)
class Subject:
    """What a bookmark is set on.

    Attributes
    ----------
    what : in words, "" = nothing but a time.
    lane : key of the one lane that it lies on, "" = none.
    is_range : whether it is a range that the person marked.
    """

    time: TimeRange
    what: str = ""
    lane: str = ""
    is_range: bool = False


def subject_of_range(index: TraceIndex | None, marked: MarkedRange) -> Subject:
    """Return a marked range and the lanes that it covers, where it does not all."""
    keys = () if index is None or marked.lanes is None else sorted(marked.lanes)
    if len(keys) != 1 or index is None:
        what = f"{len(keys)} lanes" if keys else ""
        return Subject(marked.time, what, is_range=True)
    what = clean_line(_title(index, keys[0]), MAX_NAME)
    return Subject(marked.time, what, keys[0], is_range=True)


def subject_of_selection(
    index: TraceIndex | None, selection: Selection, time: TimeRange
) -> Subject:
    """Return what is selected, which takes `time`, with the lane of a span."""
    if index is None or selection.active is None:
        return Subject(time)
    trace, n = index.trace, len(selection.ids)
    if n > 1 or selection.table != "spans":
        word = str(selection.table)
        return Subject(time, f"{n} {word if n > 1 else word.removesuffix('s')}")
    lane = index.lane_of_span(selection.active)
    title = _title(index, lane)
    words = " · ".join(t for t in (trace.span_name(selection.active), title) if t)
    return Subject(time, clean_line(words, MAX_NAME), lane)


def _title(index: TraceIndex, key: str) -> str:
    at = index.lanes.position(key)
    return index.lanes.titles[at] if at >= 0 else ""


__all__ = ["Subject", "subject_of_range", "subject_of_selection"]
