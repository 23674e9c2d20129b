"""What a Perfetto trace states, packet by packet, by Perfetto's own protobuf classes.

Of clocks it knows those that a snapshot shows beside the clock of the trace.
"""

import zlib
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

CLEARED, NEEDED = 1, 2
BOOTTIME = 6
OPEN = -1

Key = tuple[str, int, int]
"""What a track is known by: "thread" with pid and tid, or "uuid" with its number."""


@dataclass(frozen=True, order=True)
class Slice:
    """A span: `end` is `OPEN` where none was recorded."""

    track: Key
    start: int
    end: int
    name: str
    category: str


@dataclass
class Contents:
    """All that a file states."""

    slices: list[Slice] = field(default_factory=list)
    instants: list[tuple[int, str]] = field(default_factory=list)
    samples: dict[str, list[tuple[int, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    kinds: dict[str, int] = field(default_factory=dict)
    """Number of packets by kind."""
    flows: set[tuple[int, int]] = field(default_factory=set)
    """Starts of the spans that each leads from and to."""


class _Sequence:
    def __init__(self) -> None:
        self.is_valid = False
        self.thread: tuple[int, int] | None = None
        self.clear()

    def clear(self) -> None:
        self.names: dict[int, str] = {}
        self.categories: dict[int, str] = {}
        self.defaults: Any = None
        self.sums: dict[int, float] = defaultdict(float)


@dataclass
class _Event:
    time: int
    number: int
    event: Any
    track: Key
    name: str
    category: str


def read(data: bytes) -> Contents:
    """Return what a trace states."""
    return _Reading(data).contents


class _Reading:
    def __init__(self, data: bytes) -> None:
        self.contents = Contents()
        self._sequences: dict[int, _Sequence] = defaultdict(_Sequence)
        self._threads: dict[int, tuple[int, int]] = {}
        self._counters: dict[int, Any] = {}
        self._snapshots: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._local: dict[tuple[int, int], list[int]] = {}
        self._events: list[_Event] = []
        packets = list(_packets(data))
        kinds = Counter(packet.WhichOneof("data") or "" for packet in packets)
        self.contents.kinds = dict(kinds)
        for packet in packets:
            self._note_clocks(packet)
        for packet in packets:
            self._take(packet)
        self._events.sort(key=lambda e: (e.time, e.number))
        self._pair()

    def _note_clocks(self, packet: Any) -> None:
        shown = {c.clock_id: c.timestamp for c in packet.clock_snapshot.clocks}
        for clock, time in shown.items():
            if BOOTTIME in shown and clock < 64:
                self._snapshots[clock].append((time, shown[BOOTTIME]))

    def _time(self, packet: Any, state: _Sequence) -> int:
        clock = packet.timestamp_clock_id or (
            state.defaults.timestamp_clock_id if state.defaults else 0
        )
        sequence = packet.trusted_packet_sequence_id
        if clock in (0, BOOTTIME):
            return packet.timestamp
        if (sequence, clock) in self._local:
            last = self._local[sequence, clock]
            last[0] += packet.timestamp
            return last[0]
        shown = sorted(self._snapshots[clock])
        place = max(bisect_right([a for a, _ in shown], packet.timestamp) - 1, 0)
        return packet.timestamp + shown[place][1] - shown[place][0]

    def _take(self, packet: Any) -> None:
        sequence = packet.trusted_packet_sequence_id
        state = self._sequences[sequence]
        if packet.sequence_flags & CLEARED:
            state.clear()
            state.is_valid = True
        elif packet.previous_packet_dropped:
            state.is_valid = False
        if packet.HasField("trace_packet_defaults"):
            state.defaults = packet.trace_packet_defaults
        for entry in packet.interned_data.event_names:
            state.names.setdefault(entry.iid, entry.name)
        for entry in packet.interned_data.event_categories:
            state.categories.setdefault(entry.iid, entry.name)
        if packet.HasField("clock_snapshot"):
            for clock in packet.clock_snapshot.clocks:
                if clock.is_incremental:
                    self._local[sequence, clock.clock_id] = [clock.timestamp]
            return
        if packet.sequence_flags & NEEDED and not state.is_valid:
            return
        time = self._time(packet, state) if packet.HasField("timestamp") else 0
        if packet.HasField("track_descriptor"):
            about = packet.track_descriptor
            if about.HasField("thread"):
                self._threads[about.uuid] = (about.thread.pid, about.thread.tid)
                state.thread = self._threads[about.uuid]
            if about.HasField("counter"):
                self._counters[about.uuid] = about
        if packet.HasField("track_event"):
            self._add(packet.track_event, time, state)

    def _add(self, event: Any, time: int, state: _Sequence) -> None:
        defaults = state.defaults.track_event_defaults if state.defaults else None
        uuid = (
            event.track_uuid
            if event.HasField("track_uuid")
            else defaults.track_uuid
            if defaults
            else 0
        )
        extra = list(event.extra_counter_track_uuids) or (
            list(defaults.extra_counter_track_uuids) if defaults else []
        )
        for one, value in zip(extra, event.extra_counter_values, strict=False):
            self._sample(one, time, value, state)
        if event.type == 4:
            value = (
                event.counter_value
                if event.HasField("counter_value")
                else event.double_counter_value
            )
            self._sample(uuid, time, value, state)
            return
        track: Key = ("uuid", uuid, 0)
        if uuid in self._threads:
            track = ("thread", *self._threads[uuid])
        elif not uuid and state.thread and not event.HasField("track_uuid"):
            track = ("thread", *state.thread)
        values = [state.categories.get(iid) for iid in event.category_iids]
        category = ",".join(w for w in [*values, *event.categories] if w)
        name = state.names.get(event.name_iid, "") if event.name_iid else event.name
        self._events.append(
            _Event(time, len(self._events), event, track, name, category)
        )

    def _sample(self, uuid: int, time: int, value: float, state: _Sequence) -> None:
        about = self._counters[uuid]
        value = value * (about.counter.unit_multiplier or 1)
        if about.counter.is_incremental:
            state.sums[uuid] += value
            value = state.sums[uuid]
        self.contents.samples[about.name].append((time, float(value)))

    def _pair(self) -> None:
        stacks: dict[Key, list[_Event]] = defaultdict(list)
        owner: dict[int, _Event] = {}
        for e in self._events:
            phase = e.event.legacy_event.phase
            kind = {1: "B", 2: "E", 3: "i"}.get(e.event.type, chr(phase))
            stack = stacks[e.track]
            if kind == "B":
                stack.append(e)
                owner[e.number] = e
            elif kind == "E" and stack:
                begin = stack.pop()
                owner[e.number] = begin
                name = begin.name or e.name
                self._slice(begin, e.time, name)
            elif kind == "X":
                owner[e.number] = e
                end = e.time + e.event.legacy_event.duration_us * 1000
                self._slice(e, end, e.name)
            elif kind == "i":
                self.contents.instants.append((e.time, e.name))
                if stack:
                    owner[e.number] = stack[-1]
        for stack in stacks.values():
            for begin in stack:
                self._slice(begin, OPEN, begin.name)
        self._lead(owner)

    def _slice(self, begin: _Event, end: int, name: str) -> None:
        self.contents.slices.append(
            Slice(begin.track, begin.time, end, name, begin.category)
        )

    def _lead(self, owner: dict[int, _Event]) -> None:
        active: dict[int, _Event] = {}
        for e in self._events:
            own = owner.get(e.number)
            for flow, is_last in [
                *((f, False) for f in e.event.flow_ids),
                *((f, True) for f in e.event.terminating_flow_ids),
            ]:
                before = active.get(flow)
                if own is None:
                    active.pop(flow, None)
                    continue
                if before is not None and before is not own:
                    pair = sorted([before.time, own.time])
                    self.contents.flows.add((pair[0], pair[1]))
                if is_last:
                    active.pop(flow, None)
                else:
                    active[flow] = own


def _packets(data: bytes) -> Any:
    trace = Trace()
    trace.ParseFromString(data)
    for packet in trace.packet:
        if packet.HasField("compressed_packets"):
            yield from _packets(zlib.decompress(packet.compressed_packets))
        else:
            yield packet
