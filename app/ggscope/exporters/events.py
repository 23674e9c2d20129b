"""What other timeline viewers are given: processes, tracks and times of a trace.

Chrome's trace events and Perfetto's packets know slices that lie within each other on
a track, and nothing that overlaps in part. A lane with such spans becomes several
tracks of one name.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.tracks import TRACKS, tracks_of_kinds
from ggscope.model.ggml import ops as ggml
from ggscope.model.tables import I64, NO_WAIT, CounterSeries, Quality, quality_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, format_count

WAIT = "wait"
"""Name and category of the events that are no spans but the waits behind them."""
_PIECE = 1 << 16
"""So many spans are turned into numbers of Python at once."""


@dataclass(frozen=True, slots=True)
class Track:
    """One row of another viewer.

    Attributes
    ----------
    process, number : which one of the processes, from 1, and an id of its own.
    """

    process: int
    number: int
    name: str


class Slice(NamedTuple):
    """A span as other viewers take it.

    Attributes
    ----------
    start, end : in ticks; where no end was recorded, it is drawn until `end`.
    name, op : "–" and "" where there is none.
    facts : layer, token, record, and how the time is known unless it is measured.
    category : of a call or event, "" where there is none.
    is_unfinished : no end was recorded: how long it took is not known.
    is_open : of those, one that may stay open on its track: nothing with an end
        surrounds it there, and nothing follows behind it.
    """

    track: Track
    start: int
    end: int
    name: str
    op: str
    facts: dict[str, object]
    is_unfinished: bool
    is_open: bool
    category: str = ""


class Events:
    """A trace, or a part of it, as other viewers understand it.

    Attributes
    ----------
    spans : ids of the spans, by lane and there by start, longer ones first.
    processes : names; process i + 1 is the i-th.
    tracks : of spans and markers; `track` has the row of each of `spans`.
    markers : ids of the markers that lie within.
    counters : series of what is counted, the samples within.
    shift : ticks that are added so that no time is negative, which no viewer takes.
    is_unfinished : bool, those of `spans` without a recorded end.
    is_open : bool, those of them that may stay open on their track, see `Slice`.
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
        keys = (-s.end[every], s.start[every], s.lane[every])
        self.spans: I64 = every[np.lexsort(keys)].astype(np.int64)
        self.shift = max(-trace.extent.start, 0)
        titles: dict[str, int] = {}
        self._process = [
            titles.setdefault(_title(trace, lane), len(titles) + 1)
            for lane in range(len(trace.lanes))
        ]
        self.processes = list(titles)
        self.tracks: list[Track] = []
        self._first: dict[int, int] = {}
        self._names: dict[tuple[int, int], str] = {}
        self.track = self._laid_out()
        quality = quality_of(s.flags[self.spans])
        self.is_unfinished = quality == Quality.UNFINISHED
        self.is_open = self._open()

    def _laid_out(self) -> I64:
        """Return the track of each span; fill the list of tracks."""
        s, lanes = self.trace.spans, self.trace.lanes
        lane, start, end = s.lane[self.spans], s.start[self.spans], s.end[self.spans]
        edges = np.flatnonzero(np.append(True, np.diff(lane) != 0)[: len(lane)])
        result = np.zeros(len(self.spans), np.int64)
        marked = set(self.trace.markers.lane[self.markers].tolist())
        of_spans = dict(zip(lane[edges].tolist(), edges.tolist(), strict=True))
        ends = np.append(edges[1:], len(lane))
        stops = dict(zip(lane[edges].tolist(), ends.tolist(), strict=False))
        for number in range(len(lanes)):
            if number not in of_spans and number not in marked:
                continue
            first = len(self.tracks)
            self._first[number] = first
            n_tracks = 1
            if number in of_spans:
                part = slice(of_spans[number], stops[number])
                depth = nested(start[part], end[part])
                result[part] = first + depth
                n_tracks = int(depth.max()) + 1
            for _ in range(n_tracks):
                process, name = self._process[number], lanes.names[number]
                self.tracks.append(Track(process, len(self.tracks) + 1, name))
        return result

    def _open(self) -> npt.NDArray[np.bool_]:
        """Return which unfinished spans may stay open on their track."""
        s, result = self.trace.spans, np.zeros(len(self.spans), np.bool_)
        tracks = np.unique(self.track[self.is_unfinished])
        by_track = np.argsort(self.track, kind="stable")  # each in the order of time
        edges = [
            np.searchsorted(self.track[by_track], tracks, side).tolist()
            for side in ("left", "right")
        ]
        for first, stop in zip(*edges, strict=True):
            rows = by_track[first:stop]
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

    def slices(self, *, with_waits: bool = False) -> Iterator[Slice]:
        """Yield the spans by track, and there by start, longer ones first.

        `with_waits` : the wait behind an op is a slice of its own, called `WAIT`.
        """
        s, trace = self.trace.spans, self.trace
        columns = {
            name: column
            for name in ("layer", "token", "core", "numa")
            if (column := getattr(s, name)) is not None
        }
        quality_words = {int(quality): quality.word for quality in Quality}
        for begin in range(0, len(self.spans), _PIECE):
            ids = self.spans[begin : begin + _PIECE]
            facts = {name: column[ids].tolist() for name, column in columns.items()}
            record = ids if s.record is None else s.record[ids]
            waits = self._waits(begin, len(ids)) if with_waits else [0] * len(ids)
            codes = [-1] * len(ids) if s.category is None else s.category[ids].tolist()
            rows = zip(
                self.track[begin : begin + _PIECE].tolist(),
                s.start[ids].tolist(),
                s.end[ids].tolist(),
                s.name[ids].tolist(),
                s.op[ids].tolist(),
                record.tolist(),
                quality_of(s.flags[ids]).tolist(),
                self.is_open[begin : begin + _PIECE].tolist(),
                waits,
                strict=True,
            )
            for i, one in enumerate(rows):
                track, start, end, name, op, number, quality, is_open, wait = one
                category = trace.strings[codes[i]]
                more: dict[str, object] = {
                    key: values[i] for key, values in facts.items() if values[i] >= 0
                }
                if number >= 0:
                    more["record"] = number
                if quality:  # what is measured needs no word
                    more["time"] = quality_words[quality]
                title = self._names.get((name, op))
                if title is None:
                    title = trace.strings[name] or trace.op_name(op) or "–"
                    self._names[name, op] = title
                row, kind = self.tracks[track], trace.op_name(op)
                no_end = quality == Quality.UNFINISHED
                yield Slice(
                    row, start, end, title, kind, more, no_end, is_open, category
                )
                if wait:
                    after: dict[str, object] = {"after": title}
                    stop = end + wait
                    yield Slice(row, end, stop, WAIT, WAIT, after, False, False)

    def _waits(self, first: int, n: int) -> list[int]:
        """Return how long the thread waited behind each of some of `spans`.

        Never beyond the next span of the lane; 0 also where none is recorded.
        """
        s = self.trace.spans
        if s.wait is None:
            return [0] * n
        ids = self.spans[first : first + n + 1]
        wait = s.wait[ids[:n]].astype(np.int64)
        wait[wait == NO_WAIT] = 0
        gap = s.start[ids[1:]] - s.end[ids[:-1]]
        follows = s.lane[ids[1:]] == s.lane[ids[:-1]]
        np.minimum(
            wait[: len(gap)], np.maximum(gap, 0), out=wait[: len(gap)], where=follows
        )
        waits: list[int] = wait.tolist()
        return waits

    def losses(
        self,
        *,
        has_times: bool = True,
        has_only_spans: bool = False,
        has_accesses: bool = False,
    ) -> list[str]:
        """Return what such a file does not hold, in sentences.

        Parameters
        ----------
        has_times : whether it tells when each span was.
        has_only_spans : whether it takes neither further tracks nor markers and
            counters.
        has_accesses : whether it tells what ops access.
        """
        trace, messages = self.trace, []
        if trace.clock.unit != "ns":
            hz = f" ({trace.clock.hz:,.0f} a second)" if trace.clock.hz else ""
            what = trace.clock.unit_name.capitalize()
            messages.append(f"{what}{hz} are written as nanoseconds, one for one.")
        if self.shift and has_times:
            messages.append(
                f"Times shifted by {format_count(self.shift)} {trace.clock.unit}, so "
                "that none is negative."
            )
        split = len(self.tracks) - len(self._first)
        if split and not has_only_spans:
            messages.append(
                f"Partly overlapping spans are on {format_count(split)} additional "
                f"{'track' if split == 1 else 'tracks'} of the same name."
            )
        n_lost = 0 if has_accesses else len(trace.accesses.patterns)
        n_lost += len(trace.accesses.loose)
        has_others = len(trace.markers) or len(trace.counters)
        is_asked = len(self.markers) or self.counters
        if has_others and not is_asked and not has_only_spans:
            messages.append("Markers and counters omitted: only spans were selected.")
        left_out = [
            what
            for what, there in (
                ("markers and counters", has_others and has_only_spans),
                ("dependencies between spans", len(trace.flows)),
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
        return messages


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


def nested(start: I64, end: I64) -> npt.NDArray[np.int64]:
    """Return for spans by start, longer ones first, a track without partial overlap.

    int64[n]: 0 for all where each span lies within an earlier one or behind it.
    """
    result = np.zeros(len(start), np.int64)
    if len(start) < 2 or bool((start[1:] >= np.maximum.accumulate(end)[:-1]).all()):
        return result
    # Of each track, the ends of the spans that are open, outermost first.
    tracks: list[list[int]] = [[]]
    for i, (begin, stop) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        number = 0
        while True:
            if number == len(tracks):
                tracks.append([])
            opened = tracks[number]
            while opened and opened[-1] <= begin:
                opened.pop()
            if not opened or stop <= opened[-1]:
                break
            number += 1
        opened.append(stop)
        result[i] = number
    return result
