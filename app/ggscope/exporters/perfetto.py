"""A trace as packets of Perfetto.

Form: ``perfetto/protos/perfetto/trace/trace.proto``: track events (begin and end of
slices, instants, counters) on tracks of named processes; texts are interned,
and defined in packets before those that use them. This module writes everything but
the events; ``export.c`` writes those.
"""

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from ggscope.errors import ExportError
from ggscope.exporters.chrome import MAX_ABOUT, about_counters, about_lanes
from ggscope.exporters.chrome import losses as losses_of_chrome
from ggscope.exporters.event_rows import EventRows, Rows
from ggscope.exporters.events import Events
from ggscope.model.tables import I64, Array, CounterSeries, distinct
from ggscope.model.units import format_count
from ggscope.native.declared import ExportRows, ExportStack
from ggscope.native.library import library
from ggscope.sanitize import json_text

MAX_BYTES = (4 << 30) - (64 << 20)
"""Viewers take less than 4 GiB; a piece may still come on top."""
_PIECE_BYTES = 4 << 20
_BLOCK_ROWS = 1 << 17
_EVENT_BYTES, _HEAD_BYTES = 256, 160
"""More than an event (begin, end and facts) or a track takes, but for its name."""
_MAX_PARTS = 100
_PROCESS_UUID = 1 << 40
_CLEARED = 1  # SEQ_INCREMENTAL_STATE_CLEARED
_IN_ORDER, _APART = 3, 2  # ChildTracksOrdering.EXPLICIT, SiblingMergeBehavior.NONE
# Fields of Trace and TracePacket.
_PACKET, _SEQUENCE, _INTERNED, _FLAGS, _TRACK, _ATTRIBUTES = 1, 10, 12, 13, 60, 126
_OWN = "ggscope."
"""What the keys of trace attributes begin with that ggscope writes."""
_CATEGORIES, _NAMES, _KEYS, _VALUES = 1, 2, 3, 29
"""Tables of InternedData."""


class FileTooLargeError(ExportError):
    """A file would become larger than viewers take."""


def chunks(events: Events) -> Iterator[bytes]:
    """Yield the file in pieces.

    Raises
    ------
    FileTooLargeError
        If the file would become larger than viewers take.
    """
    n_bytes = 0
    for chunk in _pieces(events):
        n_bytes += len(chunk)
        if n_bytes > MAX_BYTES:
            raise FileTooLargeError(
                "File larger than 4 GiB, the limit of Perfetto. Use ggscope convert, "
                "which writes several files, or --range."
            )
        yield chunk


def parts(events: Events) -> list[Events]:
    """Return what fills files one after the other in time, each below `MAX_BYTES`.

    A part may still become too large where very much begins at one time, or where
    names alone fill it.
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
    each = max(capacity // _EVENT_BYTES, len(at) // _MAX_PARTS, 1)
    # What begins together stays together.
    edges = np.unique(at[each::each]).tolist()
    if not len(at) or edges[:1] == [int(at[0])]:
        edges = edges[1:]
    last = int(at[-1]) + 1 if len(at) else 1
    first = int(at[0]) if len(at) else 0
    bounds = [first, *edges, last]
    return [events.part(a, b) for a, b in itertools.pairwise(bounds)]


def _pieces(events: Events) -> Iterator[bytes]:
    rows = EventRows(events)
    tracks = _descriptors(events)
    yield _packet(_number(_FLAGS, _CLEARED))
    # What they say of a span is known only behind them.
    yield _packet(_message(_ATTRIBUTES, b"".join(_attributes(rows))))
    for piece in iter(lambda: list(itertools.islice(tracks, 4096)), []):
        yield b"".join(piece)
    writer = _Writer(rows)
    for block in rows.spans():
        yield from writer.written(block)
    for block in rows.markers():
        yield from writer.written(block)
    first = len(events.tracks) + 1
    for uuid, series in enumerate(events.counters, first):
        yield from writer.counter(series, uuid)
    yield from writer.rest()


def _attributes(rows: EventRows) -> Iterator[bytes]:
    """Yield what the file says of itself, as `ggscope` reads it back."""
    events = rows.events
    clock = events.trace.clock
    about: dict[str, str | int] = {
        "format": events.trace.info.format,
        "file": events.trace.info.name,
        "clock": clock.unit,
        "shift": events.shift,
        "origin": str(clock.origin),
    }
    if clock.epoch is not None:
        about["epoch"] = str(clock.epoch)
    if clock.hz is not None:
        about["hz"] = repr(clock.hz)
    if clock.is_weight:
        about["axis"] = "weight"
    if rows.has_categories:
        about["cat"] = "category"
    first = len(events.tracks) + 1
    uuids = [str(first + place) for place in range(len(events.counters))]
    for key, lists in (
        ("lanes", about_lanes(events)),
        ("counters", about_counters(events, uuids)),
        ("categories without op", rows.categories_without_op),
    ):
        text = json_text(lists)
        if len(text) <= MAX_ABOUT:
            about[key] = text
    for key, value in about.items():
        held = _number(2, value) if isinstance(value, int) else _text(3, value)
        yield _message(1, _text(1, _OWN + key) + held)


def _descriptors(events: Events) -> Iterator[bytes]:
    """Yield the packets about processes, tracks and counters."""
    clock = events.trace.clock
    for number, name in enumerate(events.processes, 1):
        process = _number(1, number) + _text(6, name)
        about = _number(1, _PROCESS_UUID + number) + _message(3, process)
        about += _number(11, _IN_ORDER)
        if clock.unit != "ns":
            about += _text(14, f"Times are {clock.unit_name}, not nanoseconds.")
        yield _packet(_message(_TRACK, about))
    for track in events.tracks:
        yield _track(track.number, track.name, track.process, track.number)
    first = len(events.tracks) + 1
    for place, series in enumerate(events.counters):
        counter, of = _message(8, _text(6, series.unit)), events.process_of(series.lane)
        yield _track(first + place, series.name, of, place, counter)


def _track(uuid: int, name: str, process: int, place: int, more: bytes = b"") -> bytes:
    about = _number(1, uuid) + _text(2, name) + _number(5, _PROCESS_UUID + process)
    about += more + _number(12, place) + _number(15, _APART)
    return _packet(_message(_TRACK, about))


class _Writer:
    """Writes rows as packets, and in front of them the texts that are new."""

    def __init__(self, rows: EventRows) -> None:
        self._rows, self._texts = rows, rows.texts
        self._defined: dict[int, Array] = {
            table: np.zeros(0, np.bool_)
            for table in (_CATEGORIES, _NAMES, _KEYS, _VALUES)
        }
        depth = rows.nesting.depth + 2  # a wait may lie innermost
        self._stack = ExportStack(
            depth=0, end=np.empty(depth, np.int64), track=np.empty(depth, np.int32)
        )
        self._buffer = np.empty(_PIECE_BYTES, np.uint8)
        self._flows = _Flows(rows.events)

    def written(self, rows: Rows) -> Iterator[bytes]:
        """Yield some spans or markers in pieces."""
        n, texts = len(rows), self._texts
        keys = np.array([texts.word(key) for key in rows.args], np.int64)
        values = [values for is_text, values in rows.args.values() if is_text]
        yield self._interned(
            {
                _NAMES: rows.name,
                _CATEGORIES: rows.category,
                _KEYS: keys,
                _VALUES: np.concatenate([distinct(v) for v in values])
                if values
                else keys[:0],
            }
        )
        flow_at, flow = self._flows.of(rows.place)
        args = np.empty((len(keys), n), np.int64)
        for row, (_, column) in zip(args, rows.args.values(), strict=True):
            row[:] = column
        yield from self._packets(
            ExportRows(
                n=n,
                n_args=len(keys),
                kind=rows.kind,
                start=rows.start,
                end=rows.end,
                name=rows.name.astype(np.int32),
                category=rows.category.astype(np.int32),
                track=rows.track + np.int32(1),
                args=args,
                key=keys.astype(np.int32),
                is_text=np.array([t for t, _ in rows.args.values()], np.uint8),
                flow_at=flow_at,
                flow=flow,
            )
        )

    def counter(self, series: CounterSeries, uuid: int) -> Iterator[bytes]:
        """Yield the samples of a counter that are numbers."""
        known = np.flatnonzero(np.isfinite(series.value))
        for begin in range(0, len(known), _BLOCK_ROWS):
            at = known[begin : begin + _BLOCK_ROWS]
            none = np.full(len(at), -1, np.int32)
            time = series.time[at] + self._rows.events.shift
            yield from self._packets(
                ExportRows(
                    n=len(at),
                    kind=np.full(len(at), ord("C"), np.uint8),
                    start=time,
                    end=time,
                    name=none,
                    category=none,
                    track=np.full(len(at), uuid, np.int32),
                    value=series.value[at],
                )
            )

    def rest(self) -> Iterator[bytes]:
        """Yield the ends of the slices that are open."""
        none, times = np.zeros(1, np.int32), np.zeros(1, np.int64)
        rows = ExportRows(n=0, kind=np.zeros(1, np.uint8), start=times, end=times,
                          name=none, category=none, track=none)  # fmt: skip
        yield from self._packets(rows, is_last=True)

    def _packets(self, rows: ExportRows, *, is_last: bool = False) -> Iterator[bytes]:
        place = np.zeros(2, np.int64)
        while place[0] < rows.n + is_last:
            needed = library().ggscope_export_packets(
                rows, int(place[0]), int(is_last), self._stack, len(self._buffer),
                self._buffer, place,
            )  # fmt: skip
            if place[1]:
                yield self._buffer[: place[1]].tobytes()
            elif needed:
                self._buffer = np.empty(int(needed), np.uint8)

    def _interned(self, used: Mapping[int, I64]) -> bytes:
        """Return a packet with the texts of each table that no packet defines yet."""
        texts, entries = self._texts, []
        for table, numbers in used.items():
            known = self._defined[table]
            if len(known) < texts.n:
                known = np.append(known, np.zeros(texts.n - len(known), np.bool_))
                self._defined[table] = known
            fresh = distinct(numbers)
            fresh = fresh[fresh >= 0]
            fresh = fresh[~known[fresh]]
            known[fresh] = True
            entries += [
                _message(table, _number(1, number + 1) + _text(2, texts[number]))
                for number in fresh.tolist()
            ]
        return _packet(_message(_INTERNED, b"".join(entries))) if entries else b""


class _Flows:
    """Which arrows begin and end at each span.

    An arrow is a number that the packets of its two spans have.
    """

    def __init__(self, events: Events) -> None:
        source, target = events.arrows()
        number = np.arange(1, len(source) + 1, dtype=np.uint64) << np.uint64(1)
        place = np.concatenate([source, target])
        order = np.argsort(place, kind="stable")
        self._number = np.concatenate([number, number | np.uint64(1)])[order]
        self._place = place[order]

    def of(self, place: I64) -> tuple[I64 | None, Array | None]:
        """Return the first entry of each of some spans and one more, and the entries.

        None where they have none; -1 is no span.
        """
        if not len(self._place):
            return None, None
        first, stop = (
            np.searchsorted(self._place, place, side) for side in ("left", "right")
        )
        n = stop - first
        at = np.zeros(len(place) + 1, np.int64)
        np.cumsum(n, out=at[1:])
        if not at[-1]:
            return None, None
        return at, self._number[np.repeat(first - at[:-1], n) + np.arange(at[-1])]


def _packet(content: bytes) -> bytes:
    return _message(_PACKET, _number(_SEQUENCE, 1) + content)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, text: str) -> bytes:
    """Return a field with a text; halves of surrogate pairs have no place in UTF-8."""
    return _message(field, text.encode("utf-8", "replace"))


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def losses(events: Events) -> list[str]:
    """Return what the file does not hold, in sentences."""
    messages = losses_of_chrome(events)
    source, target = events.arrows()
    start = events.trace.spans.start[events.spans]
    if n := int(np.count_nonzero(start[source] > start[target])):
        messages.append(
            f"Dependencies on spans that begin later: {format_count(n)}; Perfetto may "
            "not show them."
        )
    return messages
