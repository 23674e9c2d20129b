"""From packets to the tables of a trace: spans by lane, markers, counters, arrows."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import (
    F64,
    I16,
    I64,
    U16,
    U32,
    Array,
    Bools,
    CounterShape,
    Flows,
    SpanFlag,
    narrow,
    ranked,
    stacked,
)
from ggscope.model.trace import LaneKind, OpTable
from ggscope.model.units import Clock
from ggscope.readers.common.nesting import (
    Intervals,
    Nesting,
    Paired,
    by_lane_and_start,
    flows_of,
    paired,
)
from ggscope.readers.common.op_names import MAX_OPS, ops_of_names
from ggscope.readers.common.own_traces import (
    ACTIVITIES,
    NAMELESS,
    QUALITIES,
    WAIT,
    OwnLists,
    add_own_counter,
    clock_of,
    lane_of,
    shift_of,
    waits_by_number,
    waits_of,
)
from ggscope.readers.perfetto.buffers import OF_OPS
from ggscope.readers.perfetto.clocks import Clocks
from ggscope.readers.perfetto.packets import OWN, FlowRole, Mark, Of, Packets
from ggscope.readers.perfetto.tracks import Tracks

OP_TABLE_ID = "perfetto"
_BEGINS, _ENDS, _INSTANTS = "BbS", "EeF", "iIRnTp"
_MAX_LANES = 16_384
_MAX_SERIES = 4096
_ON_DEVICE = frozenset(
    {"kernel_dispatch", "memory_copy", "kernel", "gpu_memcpy", "gpu_memset"}
)
"""Categories of what runs on a device, as profilers of AMD and NVIDIA call it."""
_OTHERS = "other tracks"


class PerfettoTrace:
    """Fills a builder with what the packets of a file state.

    Attributes
    ----------
    origin : ns of the trace's clock at tick 0.
    clock : of the trace.
    own : what the file says of itself, where ggscope wrote it; else empty.
    clock_title : what the trace's clock is called, "" unknown.
    n_unknown : events and samples whose clock cannot be converted; `unknown_clock` one
        of them.
    paired : begins and ends.
    nesting : of all spans.
    n_reaching : spans that end behind the one around them; `first_reaching` an event.
    n_other_names : names that are none of the ops, for there are too many.
    n_loose : flows that lead to or from nothing that is shown.
    n_left_series, n_joined_lanes : counters and tracks that are too many.
    """

    def __init__(self, builder: TraceBuilder, packets: Packets) -> None:
        self._builder, self._packets = builder, packets
        self._string = builder.strings.add_distinct(packets.texts).astype(np.int64)
        self._tracks = Tracks(packets)
        clocks = Clocks(packets)
        events = clocks.converted(packets.time, packets.clock)
        samples = clocks.converted(packets.value_time, packets.value_clock)
        self._time, self._is_known = events.time, events.is_known
        self._sample_time, self._sample_is_known = samples.time, samples.is_known
        self.n_unknown = int(np.count_nonzero(~events.is_known))
        self.n_unknown += int(np.count_nonzero(~samples.is_known))
        self.unknown_clock = self._first_unknown(clocks)
        self.clock_title = clocks.title
        self.own = {
            key.removeprefix(OWN): value
            for key, value in packets.attributes.items()
            if key.startswith(OWN)
        }
        self.is_own = "format" in self.own
        self._lists = OwnLists.of(
            {
                key: _parsed(self.own.get(key))
                for key in ("lanes", "counters", "categories without op")
            }
        )
        self._own_counters = {
            uuid: counter for (_, uuid), counter in self._lists.counters.items()
        }
        self.origin = shift_of(self.own) if self.is_own else self._first_time()
        self.clock = (
            clock_of(self.own)
            if self.is_own
            else Clock.of_stamps(self.origin)
            if clocks.epoch is None
            else Clock("ns", self.origin, epoch=clocks.epoch)
        )
        self._track = self._tracks.same[packets.track]
        rows = self._of(_BEGINS + _ENDS)
        self.paired: Paired = paired(
            rows,
            self._time[rows],
            np.isin(packets.phase[rows], _codes(_BEGINS)),
            packets.name[rows],
            self._track[rows],
        )
        self._lane = np.full(len(self._tracks.same), -1, np.int64)
        self._is_alone = np.zeros(0, np.bool_)
        self._shown = np.zeros(0, np.int64)
        """Instants that are spans."""
        self._span_of = np.zeros(0, np.int64)
        self.nesting = Nesting.of(
            np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64)
        )
        self._around = self.nesting
        self.n_reaching = self.n_other_names = self.n_loose = 0
        self.n_left_series = self.n_joined_lanes = 0
        self.first_reaching = -1

    def _of(self, phases: str) -> I64:
        rows = self._packets.of(phases)
        return rows[self._is_known[rows]]

    def _first_time(self) -> int:
        times = [
            int(time[is_known].min())
            for time, is_known in (
                (self._time, self._is_known),
                (self._sample_time, self._sample_is_known),
            )
            if is_known.any()
        ]
        return min(times, default=0)

    def _first_unknown(self, clocks: Clocks) -> str:
        for is_known, clock in (
            (self._is_known, self._packets.clock),
            (self._sample_is_known, self._packets.value_clock),
        ):
            if not is_known.all():
                return clocks.name(int(clock[np.argmin(is_known)]))
        return ""

    @property
    def last_begin(self) -> int:
        """Last time of an event, in ns of the trace's clock."""
        return int(self._time[self._is_known].max(initial=self.origin))

    # -- spans -----------------------------------------------------------------------

    def add_spans(self) -> None:
        """Add all spans, by lane and in order of start."""
        packets = self._packets
        parts = [self._whole(), self._up_to_last(), self._states()]
        if self.is_own:
            parts.append(self._instants_without_end())
            self._shown = parts[-1].row
        joined = stacked(*parts)
        self._add_lanes(joined)
        lane = self._lane[self._track[joined.row]]
        waits: U32 | None = None
        by_op = self.is_own and self.own.get("cat") != "category"
        if self.is_own:
            is_behind = self._is_wait(joined.row)
            rest, behind = np.flatnonzero(~is_behind), np.flatnonzero(is_behind)
            waits = self._waits(
                lane[rest], joined.take(rest), lane[behind], joined.take(behind)
            )
            lane, joined = lane[rest], joined.take(rest)
        order = by_lane_and_start(lane, joined.start, joined.end)
        lane, joined = lane[order], joined.take(order)
        waits = None if waits is None else waits[order]
        self.nesting = Nesting.of(lane.astype(np.int32), joined.start, joined.end)
        self._note_spans(joined.row)
        # What has no end goes on behind the last event that was seen.
        is_open = (joined.flags & int(SpanFlag.UNFINISHED)) != 0
        self._around = (
            Nesting.of(self.nesting.lane, joined.start, joined.end + is_open)
            if is_open.any()
            else self.nesting
        )
        if not len(joined):
            return
        flags = joined.flags
        # Tracks that share a lane need not lie within each other.
        reaches_out = (self.nesting.reaches_out != 0) & self._is_alone[lane]
        self.n_reaching = int(np.count_nonzero(reaches_out))
        if self.n_reaching:
            over = np.uint16(SpanFlag.OVERLAPS_PARENT)
            flags = flags | np.where(reaches_out, over, np.uint16(0))
            self.first_reaching = int(joined.row[reaches_out].min())
        row = joined.name_row
        name = packets.name[row].astype(np.int64)
        category = packets.category[joined.row].astype(np.int64)
        more: dict[str, Array | None] = {}
        if by_op:
            op, name = self._own_ops(name, category)
        else:
            if self.is_own and NAMELESS in packets.texts:
                name = np.where(name == packets.texts.index(NAMELESS), -1, name)
            word = self._op_names(row, name, category)
            ops = ops_of_names(packets.texts, word, word >= 0)
            op, self.n_other_names = ops.op, ops.n_others
            self._builder.ops = OpTable(OP_TABLE_ID, ops.names, source="spelled")
            if (category >= 0).any():
                more["category"] = narrow(self._strings(category))
        if self.is_own:
            more |= {key: narrow(value) for key, value in self._of_ops(row).items()}
            more["wait"] = waits
            flags = flags | self._qualities(joined.row)
        self._builder.add_spans(
            start=joined.start - self.origin,
            end=joined.end - self.origin,
            lane=narrow(lane),
            name=narrow(self._strings(name)),
            op=op,
            flags=flags,
            record=narrow(joined.row),
            **more,
        )

    def _whole(self) -> Intervals:
        """Return the events that have a duration, phase X."""
        row = self._of("X")
        start = self._time[row]
        flags = np.where(
            self._packets.flags[row] & int(Mark.NEGATIVE),
            np.uint16(SpanFlag.UNFINISHED),
            np.uint16(0),
        ).astype(np.uint16)
        end = start + self._packets.duration[row]
        return Intervals(row, start, end, row, flags)

    def _up_to_last(self) -> Intervals:
        """Return what begins and ends; without an end until the last event there."""
        spans = self.paired.spans
        is_open = spans.flags != 0
        if not is_open.any():
            return spans
        last = np.full(len(self._tracks.same), self.origin, np.int64)
        rows = np.flatnonzero(self._is_known)
        np.maximum.at(last, self._track[rows], self._time[rows])
        end = np.where(is_open, last[self._track[spans.row]], spans.end)
        return replace(spans, end=end)

    def _states(self) -> Intervals:
        """Return the states of tracks: each lasts until the next one of its track.

        One without a name ends the one before. The last one of a track goes on: it is
        drawn up to the last event of the trace.
        """
        row = self._of("Z")
        row = row[np.lexsort((row, self._time[row], self._track[row]))]
        start, track = self._time[row], self._track[row]
        is_last = np.append(
            track[1:] != track[:-1], np.ones(min(len(row), 1), np.bool_)
        )
        end = np.where(is_last, self.last_begin, np.append(start[1:], start[-1:]))
        flags = np.where(is_last, int(SpanFlag.UNFINISHED), 0).astype(np.uint16)
        texts = self._packets.texts
        name = self._packets.name[row]
        nameless = texts.index("") if "" in texts else -1
        is_state = (name >= 0) & (name != nameless)
        row, start, end = row[is_state], start[is_state], end[is_state]
        return Intervals(row, start, end, row, flags[is_state])

    def _note_spans(self, row: I64) -> None:
        """Note which span each event begins or ends."""
        self._span_of = np.full(len(self._packets), -1, np.int64)
        self._span_of[row] = np.arange(len(row))
        end = self.paired.end_row
        has_end = end >= 0
        begin = self.paired.spans.row[has_end]
        self._span_of[end[has_end]] = self._span_of[begin]

    def _strings(self, codes: I64) -> I64:
        return np.append(self._string, -1)[codes]

    # -- what ggscope wrote ------------------------------------------------------------

    def _op_names(self, row: I64, name: I64, category: I64) -> I64:
        """Return the text that names the op of each span: its name, or another."""
        if not self.is_own:
            return name
        texts = self._packets.texts
        without = [i for i, t in enumerate(texts) if t in self._lists.without_op]
        word = np.where(np.isin(category, without), -1, name)
        op_name = self._packets.of_ops.get("word")
        if op_name is None:
            return word
        op = op_name[row].astype(np.int64)
        return np.where(op == -1, word, np.maximum(op, -1))

    def _waits(
        self, lane: I64, spans: Intervals, wait_lane: I64, waits: Intervals
    ) -> U32 | None:
        """Return how long each span waited, by its number where waits have it."""
        number = self._packets.of_ops.get("span")
        if number is None or not len(waits) or not (number[waits.row] >= 0).any():
            return waits_of(lane, spans, wait_lane, waits)
        return waits_by_number(spans.row, number[waits.row].astype(np.int64), waits)

    def _is_wait(self, row: I64) -> Bools:
        packets = self._packets
        number = packets.of_ops.get("span")
        if number is not None and (number >= 0).any():
            has_span: Bools = number[row] >= 0
            return has_span
        if WAIT not in packets.texts:
            return np.zeros(len(row), np.bool_)
        code = packets.texts.index(WAIT)
        is_wait: Bools = (packets.name[row] == code) & (packets.category[row] == code)
        return is_wait

    def _instants_without_end(self) -> Intervals:
        """Return spans without a recorded end that could not stay open."""
        row = self._of("i")
        row = row[self._qualities(row) == int(SpanFlag.UNFINISHED)]
        start = self._time[row]
        flags = np.full(len(row), int(SpanFlag.UNFINISHED), np.uint16)
        return Intervals(row, start, start, row, flags)

    def _qualities(self, row: I64) -> U16:
        result = np.zeros(len(row), np.uint16)
        if "quality" in self._packets.of_ops:
            quality = self._packets.of_ops["quality"][row]
            for word, flag in QUALITIES.items():
                result[quality == ord(word[0])] |= np.uint16(flag)
        return result

    def _own_ops(self, name: I64, category: I64) -> tuple[I16, I64]:
        """Return op and name of each span: the category of events is the op."""
        texts = self._packets.texts
        listed = np.unique(category[category >= 0])[:MAX_OPS]
        number = np.full(len(texts) + 1, -1, np.int64)
        number[listed] = np.arange(len(listed))
        names = tuple(texts[i] for i in listed.tolist())
        self._builder.ops = OpTable(OP_TABLE_ID, names, source="spelled")
        nameless = texts.index(NAMELESS) if NAMELESS in texts else -2
        # What has no name is called by its op in the file.
        has_name = (name != category) & (name != nameless)
        return number[category].astype(np.int16), np.where(has_name, name, -1)

    def _of_ops(self, row: I64) -> dict[str, Array]:
        columns = {}
        for key in OF_OPS:
            values = self._packets.of_ops.get(key)
            if values is not None and (values[row] >= 0).any():
                known = values[row].astype(np.int64)
                fits = known < 1 << 15 if key != "token" else known >= 0
                columns[key] = np.where(fits, known, -1)
        return columns

    # -- lanes ---------------------------------------------------------------------

    def _add_lanes(self, spans: Intervals) -> None:
        """Add a lane for each track that has spans or markers."""
        packets, tracks = self._packets, self._tracks
        rows = np.concatenate([spans.row, self._of(_INSTANTS)])
        rows.sort()
        used, first, _ = ranked(self._track[rows])
        name = {}
        for track, row in zip(used.tolist(), rows[first].tolist(), strict=True):
            code = int(packets.name[row])
            text = packets.texts[code] if code >= 0 else ""
            name[track] = (tracks.name(track) or text, row)
        lanes: dict[tuple[object, ...], list[int]] = {}
        for track in sorted(name, key=lambda track: name[track][1]):
            title = name[track][0]
            key = tracks.merge_key(track, title)
            if self.is_own and self._lists.lanes:
                key = ("own", self._first_track(track))
            elif self.is_own:
                key = ("own", tracks.process(track), title)
            lanes.setdefault(key, []).append(track)
        known = [
            (tracks.lane(members[0], *name[members[0]]), members)
            for members in lanes.values()
        ]
        known.sort(key=lambda lane: lane[0].order)
        titles = Counter((lane.title, lane.group) for lane, _ in known)
        on_device = self._on_device(spans)
        has_states = np.zeros(len(self._tracks.same), np.bool_)
        has_states[self._track[self._of("Z")]] = True
        several = len({tracks.process(track) for track in name}) > 1
        alone = []
        lane_of_track: dict[int, int] = {}
        for place, (lane, members) in enumerate(known[:_MAX_LANES]):
            track = members[0]
            # What shares a lane with others need not lie within each other.
            kind = LaneKind.THREAD if len(members) == 1 else LaneKind.COMMAND
            group = lane.group or ("Tracks",)
            attributes: dict[str, str] = {}
            if tracks.is_a(track, Of.THREAD):
                attributes = {
                    "pid": str(int(tracks.pid[track])),
                    "tid": str(int(tracks.tid[track])),
                }
            elif tracks.is_activity(track):
                kind = LaneKind.COMMAND
                process = lane.group[0] if lane.group else ""
                group = (f"{process} · {ACTIVITIES}",) if several else ("Activities",)
            elif has_states[members].any():
                # A state lasts while nothing runs: it makes no thread busy.
                kind = LaneKind.COMMAND
            own = self._lists.lanes.get(self._first_track(track))
            if self.is_own and own is not None:
                kind, group = own.kind, own.group
                over = -1 if own.over is None else own.over
                if over in lane_of_track:
                    attributes = {"over": str(lane_of_track[over])}
            elif self.is_own:
                kind, group = lane_of(lane.group[0] if lane.group else "", lane.title)
            elif on_device[members].all():
                kind = LaneKind.ENGINE
            title = lane.title
            if titles[title, lane.group] > 1 and "tid" in attributes:
                title = f"{title} ({attributes['tid']})"
            made = self._builder.add_lane(title, kind, group, (place,), **attributes)
            self._lane[members] = lane_of_track[self._first_track(track)] = made
            alone.append(len(members) == 1)
        rest = [track for _, members in known[_MAX_LANES:] for track in members]
        if rest:
            self.n_joined_lanes = len(known) - _MAX_LANES
            self._lane[rest] = self._builder.add_lane(
                _OTHERS, LaneKind.COMMAND, ("Tracks",), (_MAX_LANES,)
            )
            alone.append(False)
        self._is_alone = np.array(alone, np.bool_)

    def _first_track(self, track: int) -> int:
        """Return the number of the first track of a lane of ggscope's."""
        number = int(self._packets.track_first[track])
        return self._lists.first_track.get(number, number)

    def _on_device(self, spans: Intervals) -> Bools:
        """Return which tracks hold nothing but work of a device."""
        packets, n = self._packets, len(self._tracks.same)
        codes = [i for i, text in enumerate(packets.texts) if text in _ON_DEVICE]
        track = self._track[spans.row]
        runs = np.isin(packets.category[spans.row], codes)
        count = np.bincount(track, minlength=n)
        is_device: Bools = (count > 0) & (
            np.bincount(track[runs], minlength=n) == count
        )
        return is_device

    # -- markers, counters, arrows ---------------------------------------------------

    def add_markers(self) -> None:
        """Add instants on the lanes of their tracks."""
        packets = self._packets
        rows = np.setdiff1d(self._of(_INSTANTS), self._shown)
        if not len(rows):
            return
        lane = self._lane[self._track[rows]]
        is_wide = (packets.flags[rows] & int(Mark.OF_PROCESS | Mark.OF_ALL)) != 0
        if is_wide.any():
            wide = self._builder.add_lane("instants", LaneKind.MARKER, ("Events",))
            lane = np.where(is_wide, wide, lane)
        order = np.argsort(self._time[rows], kind="stable")
        rows, lane = rows[order], lane[order]
        name = packets.name[rows].astype(np.int64)
        if self.is_own and NAMELESS in packets.texts:
            name = np.where(name == packets.texts.index(NAMELESS), -1, name)
        self._builder.add_markers(
            time=self._time[rows] - self.origin,
            lane=lane.astype(np.int32),
            name=self._strings(name).astype(np.int32),
            detail=self._details(rows),
            record=rows,
        )

    def _details(self, row: I64) -> Array | None:
        """Return the details of markers, which ggscope writes; None where none has."""
        word = self._packets.of_ops.get("word")
        if word is None or not (word[row] >= 0).any():
            return None
        return self._strings(np.maximum(word[row].astype(np.int64), -1))

    def add_counters(self) -> None:
        """Add a series for each track of a counter."""
        packets, tracks = self._packets, self._tracks
        known = np.flatnonzero(self._sample_is_known & np.isfinite(packets.value))
        if not len(known):
            return
        track = tracks.same[packets.value_track[known]]
        with np.errstate(over="ignore"):
            value = packets.value[known] * tracks.multiplier()[track]
        is_sum = (tracks.flags[track] & Of.INCREMENTAL) != 0
        if is_sum.any():
            value = _summed(track, packets.value_state[known], value, is_sum)
        time = self._sample_time[known]
        order = np.lexsort((time, track))
        parts = np.split(order, np.flatnonzero(np.diff(track[order])) + 1)
        numbers = [int(track[part[0]]) for part in parts]
        # In the order in which the file has them.
        listed = sorted(zip(numbers, parts, strict=True), key=lambda one: one[1].min())
        names = tracks.counter_names([number for number, _ in listed])
        for (name, unit), (number, part) in list(zip(names, listed, strict=True))[
            :_MAX_SERIES
        ]:
            part = part[np.isfinite(value[part])]
            own = self._own_counters.get(str(int(packets.track_first[number])))
            if len(part) and self.is_own and own is not None:
                add_own_counter(
                    self._builder, own, time[part] - self.origin, value[part]
                )
            elif len(part):
                self._builder.add_counter(
                    name,
                    unit,
                    CounterShape.LEVEL,
                    time[part] - self.origin,
                    value[part],
                )
        self.n_left_series = max(len(parts) - _MAX_SERIES, 0)

    def add_arrows(self) -> None:
        """Add the arrows between spans."""
        packets = self._packets
        row = packets.flow_row.astype(np.int64)
        at = np.flatnonzero(self._is_known[row])
        if not len(at):
            return
        row, number, role = row[at], packets.flow_id[at], packets.flow_role[at]
        time = self._time[row]
        span = self._spans_around(row, time)
        is_old = role >= FlowRole.OUT
        _, _, place = ranked(number)
        key = place * 2 + is_old
        # An end before what follows at the same time.
        order = np.lexsort((row, time, key))
        key, role, span = key[order], role[order], span[order]
        before = np.arange(len(key)) - 1
        follows = np.zeros(len(key), np.bool_)
        follows[1:] = key[1:] == key[:-1]
        closes = np.isin(role, (FlowRole.LAST,))
        opens = role == FlowRole.OUT
        follows &= ~closes[before] & ~opens
        source, target = span[before[follows]], span[follows]
        is_bound = (source >= 0) & (target >= 0) & (source != target)
        self.n_loose = int(np.count_nonzero(span < 0))
        has_next = np.append(follows[1:], False)
        self.n_loose += int(np.count_nonzero((span >= 0) & ~follows & ~has_next))
        self._builder.flows = self._in_time(source[is_bound], target[is_bound])

    def _in_time(self, source: I64, target: I64) -> Flows:
        """Return arrows from what began before to what began after."""
        start = self.nesting.start
        is_back = start[source] > start[target]
        first = np.where(is_back, target, source)
        return flows_of(first, np.where(is_back, source, target))

    def _spans_around(self, row: I64, time: I64) -> I64:
        """Return the span that each event begins or ends, or lies in; -1 none."""
        span = self._span_of[row]
        rest = np.flatnonzero(span < 0)
        if len(rest):
            lane = self._lane[self._track[row[rest]]]
            is_next = (self._packets.flags[row[rest]] & int(Mark.TO_NEXT)) != 0
            around = self._around.enclosing(lane, time[rest], is_next)
            is_sure = (lane >= 0) & self._is_alone[np.maximum(lane, 0)]
            span[rest] = np.where(is_sure, around, -1)
        return span


def _parsed(text: object) -> object:
    """Return the value of a JSON text; None where it is none."""
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _codes(phases: str) -> Array:
    return np.array([ord(phase) for phase in phases], np.uint8)


def _summed(track: I64, state: Array, value: F64, is_sum: Array) -> F64:
    """Return the sums of differences: of each counter, while a sequence goes on."""
    result = value.copy()
    rows = np.flatnonzero(is_sum)
    key = track[rows] * (int(state.max(initial=0)) + 1) + state[rows]
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order])) + 1
    for part in np.split(rows[order], edges):
        with np.errstate(over="ignore", invalid="ignore"):
            result[part] = np.cumsum(value[part])
    return result
