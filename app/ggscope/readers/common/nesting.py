"""Spans within each other: begins with their ends, and what lies around each."""

from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import (
    I32,
    I64,
    U8,
    U16,
    Array,
    Bools,
    Flows,
    SpanFlag,
    Table,
    narrow,
    ranked,
)
from ggscope.native.library import library


@dataclass(frozen=True, slots=True, eq=False)
class Intervals(Table):
    """Spans before they have a lane, one row each.

    Attributes
    ----------
    row : int64[n], the event that each begins with.
    start, end : int64[n], ns.
    name_row : int64[n], the event that has its name.
    flags : uint16[n], `SpanFlag`.
    """

    row: I64
    start: I64
    end: I64
    name_row: I64
    flags: U16


@dataclass(frozen=True, slots=True, eq=False)
class Paired:
    """Begins and ends that belong together, and those left over.

    Attributes
    ----------
    spans : pairs, and begins without an end, until the last event.
    open : events that begin what has no end.
    orphan : ends without a begin.
    end_row : int64[n], the event that ends each of `spans`, -1 none.
    n_mismatched : ends that close a begin of another name.
    """

    spans: Intervals
    end_row: I64
    open: I64
    orphan: I64
    n_mismatched: int


def paired(
    row: I64,
    time: I64,
    is_begin: Bools,
    name: Array,
    group: I64,
    last: I64 | None = None,
) -> Paired:
    """Pair the begins and ends of each group like brackets, in the order of time.

    Parameters
    ----------
    row, time, is_begin, name, group : of each event, in the order of the file; `name`
        is a number, -1 none.
    last : until when the group of each event goes on at least; else until its last one.
    """
    order = np.argsort(time, kind="stable")
    order = order[np.argsort(group[order], kind="stable")]
    if last is not None:
        last = last[order]
    row, time, group, is_begin = row[order], time[order], group[order], is_begin[order]
    name = np.ascontiguousarray(name[order], np.int32)
    partner = np.empty(len(row), np.int32)
    _, _, place = ranked(group) if len(group) else (group, group, group)
    n_mismatched = library().ggscope_chrome_pair(
        len(row), place.astype(np.int32), is_begin.view(np.uint8), name,
        np.empty(len(row), np.int32), partner,
    )  # fmt: skip
    begins = np.flatnonzero(is_begin)
    other = partner[begins]
    has_end = other >= 0
    drawn_until = _last_of(place, time)[begins]
    if last is not None:
        drawn_until = np.maximum(drawn_until, last[begins])
    end = np.where(has_end, time[other], drawn_until)
    flags = np.where(has_end, 0, int(SpanFlag.UNFINISHED)).astype(np.uint16)
    own, closing = row[begins], row[other]
    name_row = np.where((name[begins] < 0) & has_end, closing, own)
    orphan = row[np.flatnonzero(~is_begin & (partner < 0))]
    spans = Intervals(own, time[begins], end, name_row, flags)
    end_row = np.where(has_end, closing, -1)
    return Paired(spans, end_row, own[~has_end], np.sort(orphan), int(n_mismatched))


@dataclass(frozen=True, slots=True, eq=False)
class Nesting:
    """The spans of lanes, by lane and start, longer ones first.

    Attributes
    ----------
    lane, start, end : int32[n], int64[n] each.
    parent : int32[n], the span around each, -1 none.
    reaches_out : uint8[n], whether it ends behind that.
    """

    lane: I32
    start: I64
    end: I64
    parent: I32
    reaches_out: U8

    @classmethod
    def of(cls, lane: I32, start: I64, end: I64) -> "Nesting":
        """Return how spans lie within each other."""
        parent = np.empty(len(lane), np.int32)
        reaches_out = np.empty(len(lane), np.uint8)
        library().ggscope_chrome_nest(len(lane), lane, start, end, parent, reaches_out)
        return cls(lane, start, end, parent, reaches_out)

    def enclosing(self, lane: I64, time: I64, is_next: Bools | None = None) -> I64:
        """Return the innermost span of a lane at each time, int64[m], -1 none.

        Where `is_next`, the one that begins then, or that which follows.
        """
        order = np.lexsort((time, lane))
        innermost = np.empty(len(lane), np.int32)
        marks = np.zeros(len(lane), np.uint8)
        if is_next is not None:
            marks[:] = is_next[order]
        library().ggscope_chrome_enclosing(
            len(self.lane), self.lane, self.start, self.end, self.parent, len(lane),
            lane[order].astype(np.int32), time[order], marks, innermost,
        )  # fmt: skip
        spans = np.empty(len(lane), np.int64)
        spans[order] = innermost
        return spans


def by_lane_and_start(lane: I64, start: I64, end: I64) -> I64:
    """Return spans by lane and start, longer ones first."""
    order = np.arange(len(lane))
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
    on = lane[order]
    if (on[1:] < on[:-1]).any():
        order = order[np.argsort(narrow(on), kind="stable")]
    on, begin, stop = lane[order], start[order], end[order]
    is_tie = (on[1:] == on[:-1]) & (begin[1:] == begin[:-1])
    if (stop[1:][is_tie] > stop[:-1][is_tie]).any():
        member = np.zeros(len(order), np.bool_)
        member[1:] = is_tie
        member[:-1] |= is_tie
        at = np.flatnonzero(member)
        order[at] = order[at[np.lexsort((-stop[at], begin[at], on[at]))]]
    return order


def _last_of(group: I64, time: I64) -> I64:
    """Return the last time of the group of each event; groups are runs."""
    is_last = np.ones(len(group), np.bool_)
    is_last[:-1] = group[1:] != group[:-1]
    lasts = time[is_last]
    number: I64 = np.cumsum(is_last) - is_last
    return lasts[number] if len(group) else time


def flows_of(source: I64, target: I64) -> Flows:
    """Return arrows by source and target, each pair once."""
    order = np.lexsort((target, source))
    source, target = source[order], target[order]
    is_new = np.ones(len(source), np.bool_)
    is_new[1:] = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
    return Flows.between(source[is_new], target[is_new])
