"""A trace as packets of Perfetto, written by Perfetto's own Python package.

Form: ``perfetto/protos/perfetto/trace/trace.proto``: track events (begin and end of
slices, instants, counters) on tracks of named processes; names are interned.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ggscope.errors import ExportError
from ggscope.exporters.chrome import losses as losses_of_chrome
from ggscope.exporters.events import Events, Slice, Track

MAX_BYTES = (4 << 30) - (64 << 20)
"""Viewers take less than 4 GiB; a piece may still come on top."""
_PIECE_PACKETS = 8192
_EVENT_BYTES, _HEAD_BYTES = 256, 160
"""More than an event (begin, end and facts) or a track takes, but for its name."""
_MOST_PARTS = 100
_SEQUENCE = 1
_PROCESS_UUID, _COUNTER_UUID = 1 << 40, 1 << 41
_CLEARED, _NEEDED = 1, 2  # SEQ_INCREMENTAL_STATE_CLEARED, SEQ_NEEDS_INCREMENTAL_STATE
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4  # TrackEvent.Type
_IN_ORDER, _APART = 3, 2  # ChildTracksOrdering.EXPLICIT, SiblingMergeBehavior.NONE


class OutgrownError(ExportError):
    """A file would become larger than viewers take."""


def chunks(events: Events) -> Iterator[bytes]:
    """Yield the file in pieces.

    Raises
    ------
    ExportError
        If the package is not there, or the file would become larger than viewers take.
    """
    try:
        from perfetto.trace_builder.proto_builder import TraceProtoBuilder
    except ImportError:
        raise ExportError(
            "The Python package perfetto is not installed: pip install perfetto. Or "
            "use chrome-json, which Perfetto opens too."
        ) from None
    writer = _Writer(events, TraceProtoBuilder)
    n_bytes = 0
    for chunk in writer.pieces():
        n_bytes += len(chunk)
        if n_bytes > MAX_BYTES:
            raise OutgrownError(
                "File larger than 4 GiB, the limit of Perfetto. Use ggscope convert, "
                "which writes several files, or --range."
            )
        yield chunk


def parts(events: Events) -> list[Events]:
    """Return what fills files one after the other in time, each below `MAX_BYTES`.

    A part may still outgrow a file where very much begins at one time, or where names
    alone fill it.
    """
    trace = events.trace
    texts = sum(
        len(text.encode("utf-8", "replace")) + 16 for text in trace.strings.texts()
    )
    heads = len(events.tracks) + len(events.counters) + len(events.processes)
    names = sum(len(name) * 4 for name in trace.lanes.names)
    capacity = MAX_BYTES - texts - heads * _HEAD_BYTES - 2 * names
    at = np.concatenate(
        [
            trace.spans.start[events.spans],
            trace.markers.time[events.markers],
            *(series.time for series in events.counters),
        ]
    )
    at.sort()
    each = max(capacity // _EVENT_BYTES, len(at) // _MOST_PARTS, 1)
    # What begins together stays together.
    edges = np.unique(at[each::each]).tolist()
    if not len(at) or edges[:1] == [int(at[0])]:
        edges = edges[1:]
    last = int(at[-1]) + 1 if len(at) else 1
    first = int(at[0]) if len(at) else 0
    bounds = [first, *edges, last]
    return [events.part(a, b) for a, b in itertools.pairwise(bounds)]


class _Writer:
    """Adds packets to one builder after the other, each of which becomes a piece."""

    def __init__(self, events: Events, make: Callable[[], Any]) -> None:
        self._events, self._make, self._builder = events, make, make()
        self._iids: dict[str, dict[str, int]] = {}
        self._is_first = True

    def pieces(self) -> Iterator[bytes]:
        """Yield what the builders hold, each time one is full."""
        for parts in (self._tracks, self._slices, self._markers, self._counters):
            for number, _ in enumerate(parts(), 1):
                if number % _PIECE_PACKETS == 0:
                    yield self._builder.serialize()
                    self._builder = self._make()
        yield self._builder.serialize()

    # -- each yields after every packet that it has added ------------------------

    def _tracks(self) -> Iterator[None]:
        for number, name in enumerate(self._events.processes, 1):
            d = self._packet().track_descriptor
            d.uuid = _PROCESS_UUID + number
            d.process.pid, d.process.process_name = number, _text(name)
            d.child_ordering = _IN_ORDER
            yield
        for track in self._events.tracks:
            self._declare(track.number, track.name, track.process, track.number)
            yield

    def _slices(self) -> Iterator[None]:
        opened: dict[Track, list[int]] = {}
        for slice_ in self._events.slices(with_waits=True):
            stack = opened.setdefault(slice_.track, [])
            while stack and stack[-1] <= slice_.start:
                self._event(_END, slice_.track.number, stack.pop())
                yield
            self._add(slice_)
            yield
            if not slice_.is_unfinished:
                stack.append(slice_.end)
        for track, stack in opened.items():
            while stack:
                self._event(_END, track.number, stack.pop())
                yield

    def _markers(self) -> Iterator[None]:
        trace = self._events.trace
        m = trace.markers.take(self._events.markers)
        rows = zip(m.time.tolist(), m.lane.tolist(), m.name.tolist(), strict=True)
        for time, lane, name in rows:
            uuid = self._events.track_of(lane).number
            packet = self._event(_INSTANT, uuid, time)
            text = _text(trace.strings[name] or "–")
            packet.track_event.name_iid = self._iid(packet, "event_names", text)
            yield

    def _counters(self) -> Iterator[None]:
        for number, series in enumerate(self._events.counters):
            uuid = _COUNTER_UUID + number
            process = self._events.process_of(series.lane)
            self._declare(uuid, series.name, process, number, unit=series.unit)
            yield
            rows = zip(series.time.tolist(), series.value.tolist(), strict=True)
            for time, value in rows:
                if math.isfinite(value):
                    packet = self._event(_COUNTER, uuid, time)
                    packet.track_event.double_counter_value = value
                    yield

    # -- single packets ----------------------------------------------------------

    def _packet(self) -> Any:
        packet = self._builder.add_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        return packet

    def _declare(
        self, uuid: int, name: str, process: int, place: int, *, unit: str | None = None
    ) -> None:
        d = self._packet().track_descriptor
        d.uuid, d.name = uuid, _text(name)
        d.parent_uuid = _PROCESS_UUID + process
        d.sibling_order_rank = place
        d.sibling_merge_behavior = _APART
        if unit is not None:
            d.counter.unit_name = _text(unit)

    def _event(self, kind: int, uuid: int, time: int) -> Any:
        packet = self._packet()
        packet.timestamp = time + self._events.shift
        packet.sequence_flags = _NEEDED | (_CLEARED if self._is_first else 0)
        self._is_first = False
        packet.track_event.type, packet.track_event.track_uuid = kind, uuid
        return packet

    def _add(self, slice_: Slice) -> None:
        """Add the begin of a span; an instant where it can have no end here."""
        has_begin = slice_.is_open or not slice_.is_unfinished
        kind = _BEGIN if has_begin else _INSTANT
        packet = self._event(kind, slice_.track.number, slice_.start)
        event = packet.track_event
        event.name_iid = self._iid(packet, "event_names", _text(slice_.name))
        if slice_.op:
            category = self._iid(packet, "event_categories", slice_.op)
            event.category_iids.append(category)
        for key, value in slice_.facts.items():
            note = event.debug_annotations.add()
            note.name_iid = self._iid(packet, "debug_annotation_names", key)
            if isinstance(value, int):
                note.int_value = value
            else:
                note.string_value = str(value)

    def _iid(self, packet: Any, table: str, text: str) -> int:
        """Return the number of a text, which the packet tells where it is new."""
        known = self._iids.setdefault(table, {})
        iid = known.get(text)
        if iid is None:
            iid = known[text] = len(known) + 1
            entry = getattr(packet.interned_data, table).add()
            entry.iid, entry.name = iid, text
        return iid


def _text(name: str) -> str:
    """Return a name without halves of surrogate pairs, which UTF-8 cannot hold."""
    return name.encode("utf-8", "replace").decode("utf-8")


def losses(events: Events) -> list[str]:
    """Return what the file does not hold, in sentences."""
    return losses_of_chrome(events)
