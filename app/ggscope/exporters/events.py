"""What other timeline viewers are given: processes, tracks and times of a trace.

Chrome's trace events and Perfetto's packets know slices that lie within each other on
a track, and nothing that overlaps in part. A lane with such spans becomes several
tracks of one name.
"""

from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.tracks import TRACKS, tracks_of_kinds
from ggscope.model.ggml import ops as ggml
from ggscope.model.tables import (
    I64,
    NO_WAIT,
    CounterSeries,
    CounterShape,
    Quality,
    quality_of,
)
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, format_count
from ggscope.native.declared import ExportSpace
from ggscope.native.library import library

WAIT = "wait"
"""Name and category of the events that are no spans but the waits behind them."""
_N_TRACKS = 64
"""Tracks of a lane that there is room for at first."""
_LAST_TIME = 1 << 61
"""Nanoseconds that other viewers take, which are 73 years."""
I32 = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Track:
    """One row of another viewer.

    Attributes
    ----------
    process, number : which one of the processes, from 1, and an id of its own.
    lane : of the trace; further tracks have the lane of an earlier one.
    """

    process: int
    number: int
    name: str
    lane: int


class Events:
    """A trace, or a part of it, as other viewers understand it.

    Attributes
    ----------
    spans : ids of the spans, by track and there by start, longer ones first.
    processes : names; process i + 1 is the i-th.
    tracks : of spans and markers; `track` has the row of each of `spans`, int32[n].
    markers : ids of the markers that lie within.
    counters : series of what is counted, the samples within.
    shift : ticks that are added so that no time is negative, which no viewer takes.
    is_unfinished : bool, those of `spans` without a recorded end.
    is_open : bool, those of them that may stay open on their track: nothing with an
        end surrounds them there, and nothing follows behind them.
    """

    def __init__(
        self,
        trace: Trace,
        keep: npt.NDArray[np.bool_] | None = None,
        time: TimeRange | None = None,
    ) -> None:
        """Take the spans of a mask that reach into a range of time, all by default.

        What a filter says of spans says nothing of markers and counters: with a mask
        they stay away.
        """
        self.trace, self.is_part = trace, keep is not None or time is not None
        self.markers = np.arange(len(trace.markers) if keep is None else 0)
        self.counters = trace.counters if keep is None else ()
        if time is not None:
            s = trace.spans
            inside = (s.end >= time.start) & (s.start < time.end)
            keep = inside if keep is None else keep & inside
            at = trace.markers.time[self.markers]
            self.markers = self.markers[(at >= time.start) & (at < time.end)]
            self.counters = tuple(_cut(series, time) for series in self.counters)
        every = np.arange(len(trace.spans)) if keep is None else np.flatnonzero(keep)
        s = trace.spans
        self.shift = max(-trace.extent.start, 0)
        titles: dict[str, int] = {}
        self._process = [
            titles.setdefault(_title(trace, lane), len(titles) + 1)
            for lane in range(len(trace.lanes))
        ]
        self.processes = list(titles)
        self.tracks: list[Track] = []
        self._first: dict[int, int] = {}
        order = self._lane_order()
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        of_span = rank[s.lane[every]] if len(every) else np.zeros(0, np.int64)
        chosen = _by_lane_and_start(of_span, s.start[every], s.end[every])
        self.spans: I64 = every[chosen].astype(np.int64)
        self.track: I32 = self._laid_out(order, of_span[chosen])
        quality = quality_of(s.flags[self.spans])
        self.is_unfinished: Mask = quality == Quality.UNFINISHED
        self.is_open = self._open()

    def _lane_order(self) -> I64:
        """Return the lanes by process, and there as people see them."""
        keys, process = self.trace.lanes.sort_keys, self._process
        order = sorted(range(len(keys)), key=lambda i: (process[i], keys[i], i))
        return np.array(order, np.int64)

    def _laid_out(self, order: I64, rank: I64) -> I32:
        """Return the track of each span; fill the list of tracks.

        `rank` : of the lane of each of `spans` in `order`, ascending. `spans` are put
        in the order of tracks.
        """
        s, lanes = self.trace.spans, self.trace.lanes
        start, end = s.start[self.spans], s.end[self.spans]
        result = np.zeros(len(self.spans), np.int32)
        marked = set(self.trace.markers.lane[self.markers].tolist())
        bounds = np.searchsorted(rank, np.arange(len(order) + 1)).tolist()
        is_split = False
        for place, lane in enumerate(order.tolist()):
            part = slice(bounds[place], bounds[place + 1])
            if part.start == part.stop and lane not in marked:
                continue
            first = self._first[lane] = len(self.tracks)
            number = nested(start[part], end[part])
            n_tracks = int(number.max(initial=0)) + 1
            result[part] = number + first
            is_split |= n_tracks > 1
            process, name = self._process[lane], lanes.names[lane]
            self.tracks += [
                Track(process, first + i + 1, name, lane) for i in range(n_tracks)
            ]
        if is_split:
            by_track = np.argsort(result, kind="stable")
            self.spans, result = self.spans[by_track], result[by_track]
        return result

    def _open(self) -> Mask:
        """Return which unfinished spans may stay open on their track."""
        s, result = self.trace.spans, np.zeros(len(self.spans), np.bool_)
        tracks = np.unique(self.track[self.is_unfinished])
        edges = [
            np.searchsorted(self.track, tracks, side).tolist()
            for side in ("left", "right")
        ]
        for first, stop in zip(*edges, strict=True):
            rows = slice(first, stop)
            start, end = s.start[self.spans[rows]], s.end[self.spans[rows]]
            is_unfinished = self.is_unfinished[rows]
            # Up to where spans with an end reach that begin before each one.
            ends = np.where(is_unfinished, start[0], end)
            before = np.maximum.accumulate(np.append(start[:1], ends[:-1]))
            reaches_last = end > start[-1]
            reaches_last[-1] = True
            result[rows] = is_unfinished & reaches_last & (before <= start)
        return result

    def part(self, start: int, end: int) -> "Events":
        """Return what begins in ``start <= time < end``, on the same tracks.

        Spans are whole: each lies in the part in which it begins.
        """
        part, trace = copy(self), self.trace
        begin, at = trace.spans.start[self.spans], trace.markers.time[self.markers]
        inside = (begin >= start) & (begin < end)
        part.spans, part.track = self.spans[inside], self.track[inside]
        part.is_unfinished = self.is_unfinished[inside]
        part.is_open = self.is_open[inside]
        part.markers = self.markers[(at >= start) & (at < end)]
        part.counters = tuple(
            _samples(series, *np.searchsorted(series.time, (start, end)).tolist())
            for series in self.counters
        )
        return part

    def track_of(self, lane: int) -> Track:
        """Return the first track of a lane that has spans or markers."""
        return self.tracks[self._first[lane]]

    def process_of(self, lane: int) -> int:
        """Return the process of a lane."""
        return self._process[lane]

    def nesting(self) -> "Nesting":
        """Return how the spans lie within each other on their tracks."""
        s, n = self.trace.spans, len(self.spans)
        parent = np.empty(n, np.int32)
        moment, buffers = np.empty(n, np.int64), np.empty(n, np.int64)
        start, end = s.start[self.spans], s.end[self.spans]
        depth = library().ggscope_export_nest(
            n, self.track, start, end, parent, moment, buffers
        )
        return Nesting(parent, moment, moment < end, buffers, int(depth))

    def waits(self, nesting: "Nesting") -> I64 | None:
        """Return how long the thread waited behind each of `spans`, int64[n].

        Never beyond what follows on its track; 0 where none is recorded, None where
        no wait is.
        """
        s = self.trace.spans
        if s.wait is None:
            return None
        wait = s.wait[self.spans].astype(np.int64)
        wait[wait == NO_WAIT] = 0
        end = s.end[self.spans]
        wait = np.minimum(end + wait, np.maximum(nesting.free_end, end)) - end
        return wait if wait.any() else None

    def arrows(self) -> tuple[I64, I64]:
        """Return source and target of the arrows between `spans`, as places in them."""
        flows = self.trace.flows
        if not len(flows):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        place = np.full(len(self.trace.spans), -1, np.int64)
        place[self.spans] = np.arange(len(self.spans))
        source, target = place[flows.source], place[flows.target]
        is_whole = (source >= 0) & (target >= 0)
        return source[is_whole], target[is_whole]

    def losses(
        self,
        *,
        has_times: bool = True,
        has_only_spans: bool = False,
        has_accesses: bool = False,
        has_arrows: bool = False,
    ) -> list[str]:
        """Return what such a file does not hold, in sentences.

        Parameters
        ----------
        has_times : whether it states when each span was.
        has_only_spans : whether it takes neither further tracks nor markers and
            counters.
        has_accesses : whether it states what ops access.
        has_arrows : whether it states which spans depend on which.
        """
        trace, messages = self.trace, []
        if trace.clock.unit != "ns" and has_times:
            hz = f" ({trace.clock.hz:,.0f} a second)" if trace.clock.hz else ""
            what = trace.clock.unit_name.capitalize()
            messages.append(f"{what}{hz} are written as nanoseconds, one for one.")
        if self.shift and has_times:
            messages.append(
                f"Times shifted by {format_count(self.shift)} {trace.clock.unit}, so "
                "that none is negative."
            )
        n_late = int(
            np.count_nonzero(trace.spans.end[self.spans] >= _LAST_TIME - self.shift)
        )
        if n_late and has_times:
            messages.append(
                f"Spans that end after 73 years: {format_count(n_late)}; other viewers "
                "may not show them."
            )
        split = len(self.tracks) - len(self._first)
        if split and has_times and not has_only_spans:
            messages.append(
                f"Partly overlapping spans are on {format_count(split)} additional "
                f"{'track' if split == 1 else 'tracks'} of the same name."
            )
        n_lost = 0 if has_accesses else len(trace.accesses.patterns)
        n_lost += len(trace.accesses.loose)
        has_others = len(trace.markers) or len(trace.counters)
        has_requested = len(self.markers) or self.counters
        if has_others and not has_requested and not has_only_spans:
            messages.append("Markers and counters omitted: only spans were selected.")
        left_out = [
            what
            for what, there in (
                ("markers and counters", has_others and has_only_spans),
                ("dependencies between spans", len(trace.flows) and not has_arrows),
                ("tensor accesses", n_lost),
                ("expert routing", len(trace.routing)),
                ("graphs", len(trace.graphs)),
                ("buffers", len(trace.buffers)),
            )
            if there
        ]
        if left_out:
            messages.append(
                f"Not supported by the format, omitted: {', '.join(left_out)}."
            )
        if has_arrows and (n := len(trace.flows) - len(self.arrows()[0])):
            messages.append(
                f"Dependencies on spans that were not selected: {format_count(n)}, "
                "omitted."
            )
        n_shapes = sum(series.shape != CounterShape.LEVEL for series in self.counters)
        if n_shapes and not has_only_spans:
            messages.append(
                f"Counters of amounts per window or of changes: "
                f"{format_count(n_shapes)}; viewers show their values as levels."
            )
        return messages


@dataclass(frozen=True, slots=True, eq=False)
class Nesting:
    """How spans lie within each other on their tracks, a row for each span.

    Attributes
    ----------
    parent : int32[n], the span around each, -1 none.
    moment : int64[n], where `has_moment` a tick at which no other is further within.
    free_end : int64[n], the tick behind its end at which something else begins or ends.
    depth : how many lie within each other at most.
    """

    parent: I32
    moment: I64
    has_moment: Mask
    free_end: I64
    depth: int


def threads_of_work(
    events: Events,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Return a number and a backend's address for each lane, no two pairs alike.

    Those of the trace where it has some: else the lane's own number, and for engines
    a number for their group.
    """
    trace = events.trace
    lanes = trace.lanes
    thread = np.zeros(len(lanes), np.int64)
    backend, is_thread = np.zeros(len(lanes), np.uint64), lanes.is_thread
    taken: set[tuple[int, int]] = set()
    for i in np.unique(trace.spans.lane[events.spans]).tolist():
        known = lanes.attributes[i]
        raw, pointer = known.get("raw", ""), known.get("backend", "")
        number = int(raw) if raw.isdecimal() and int(raw) < 1 << 32 else i
        address = 0
        if pointer.startswith("0x"):
            address = int(pointer, 16) & 0xFFFF_FFFF_FFFF_FFFF
        elif not is_thread[i]:
            address = int(lanes.group[i]) + 1
        while (number, address) in taken:
            number = (number + 1) & 0xFFFF_FFFF
        taken.add((number, address))
        thread[i], backend[i] = number, address
    return thread, backend


def ggml_numbers(
    trace: Trace, usual: str, reader_id: str
) -> tuple[npt.NDArray[np.int32], str]:
    """Return the number of each op in ggml, and the table that these are of.

    What came from the same format keeps its numbers. Others get those of its `usual`
    table, which its readers think of first, or of the newest one that has all ops that
    there are; where none has, those of their own table.

    int32[n + 1], -1 for what ggml does not have, and last; "" where nothing is known.
    """
    if trace.ops is None:
        return np.full(1, -1, np.int32), ""
    used = np.unique(trace.spans.op)
    used = used[used >= 0]
    names = [trace.ops.name(i) for i in range(int(used[-1]) + 1 if len(used) else 0)]
    of_own = trace.ops.id in {t.id for t in ggml.tables(mainline=False)}
    if of_own and trace.info.reader_id == reader_id:
        return np.append(np.arange(len(names)), -1).astype(np.int32), trace.ops.id
    op_names = {names[i] for i in used.tolist()}
    choices = [ggml.table(usual), *ggml.tables()]
    whole = next((t for t in choices if op_names <= set(t.names)), None)
    if whole is None and of_own:
        return np.append(np.arange(len(names)), -1).astype(np.int32), trace.ops.id
    chosen = choices[0] if whole is None else whole
    known = {name: i for i, name in enumerate(chosen.names) if name}
    numbers = np.array([*(known.get(name, -1) for name in names), -1], np.int32)
    return numbers, chosen.id if (numbers >= 0).any() else ""


def _cut(series: CounterSeries, time: TimeRange) -> CounterSeries:
    """Return the samples in a range of time, and the one that holds at its begin."""
    first = max(int(np.searchsorted(series.time, time.start, "right")) - 1, 0)
    return _samples(series, first, int(np.searchsorted(series.time, time.end)))


def _samples(series: CounterSeries, first: int, stop: int) -> CounterSeries:
    part = slice(first, stop)
    window = None if series.window is None else series.window[part]
    return replace(
        series, time=series.time[part], value=series.value[part], window=window
    )


def _title(trace: Trace, lane: int) -> str:
    lanes = trace.lanes
    group = lanes.groups[lanes.group[lane]]
    return " / ".join(group) or TRACKS[tracks_of_kinds()[lanes.kinds[lane]]].group


def _by_lane_and_start(lane: I64, start: I64, end: I64) -> I64:
    """Return the order by lane and start, longer ones first."""
    n = len(lane)
    if n < 2:
        return np.arange(n)
    is_tie = (start[1:] == start[:-1]) & (end[1:] <= end[:-1])
    is_sorted = (start[1:] > start[:-1]) | is_tie
    is_sorted &= lane[1:] == lane[:-1]
    is_sorted |= lane[1:] > lane[:-1]
    if is_sorted.all():
        return np.arange(n)
    return np.lexsort((-end, start, lane))


def nested(start: I64, end: I64) -> I32:
    """Return for spans by start, longer ones first, a track without partial overlap.

    int32[n]: 0 for all where each span lies within an earlier one or behind it.
    """
    n = len(start)
    result = np.zeros(n, np.int32)
    if n < 2 or bool((start[1:] >= np.maximum.accumulate(end)[:-1]).all()):
        return result
    capacity = _N_TRACKS
    below, heap = np.empty(n, np.int32), np.empty(n, np.int32)
    while True:
        space = ExportSpace(
            capacity=capacity,
            tree=np.empty(2 * capacity, np.int64),
            top=np.empty(capacity, np.int32),
            below=below,
            heap=heap,
        )
        if library().ggscope_export_tracks(n, start, end, space, result) >= 0:
            return result
        capacity *= 8
