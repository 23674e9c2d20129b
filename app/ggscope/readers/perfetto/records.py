"""Single events of a Perfetto trace, with their annotations."""

from collections.abc import Callable, Iterator

from ggscope.errors import ReadError
from ggscope.model.tables import Array
from ggscope.model.trace import RecordView
from ggscope.readers.common.protobuf import signed
from ggscope.readers.perfetto.kinds import kind_name
from ggscope.readers.perfetto.messages import fields_of, real, text_of_bytes
from ggscope.readers.perfetto.packets import Interned, NoteTexts

_RECORD_BYTES = 64 << 10
_SHOWN_BYTES = 4096
_MAX_FIELDS = 200
_MAX_DEPTH = 16
_TRACK_EVENT, _LEGACY, _ANNOTATION = 11, 6, 4
_TYPES = {
    0: "unspecified", 1: "begin", 2: "end", 3: "instant", 4: "counter", 5: "state",
}  # fmt: skip
_OF_PACKET = {
    3: "trusted_uid", 8: "timestamp", 10: "trusted_packet_sequence_id",
    13: "sequence_flags", 41: "incremental_state_cleared",
    42: "previous_packet_dropped", 58: "timestamp_clock_id", 79: "trusted_pid",
    87: "first_packet_on_sequence", 98: "machine_id",
}  # fmt: skip
_OF_EVENT = {
    1: "timestamp_delta_us", 2: "thread_time_delta_us", 3: "category_iid",
    9: "type", 10: "name_iid", 11: "track_uuid", 12: "extra_counter_value",
    16: "timestamp_absolute_us", 17: "thread_time_absolute_us", 22: "category",
    23: "name", 31: "extra_counter_track_uuid", 34: "source_location_iid",
    36: "flow_id", 42: "terminating_flow_id", 45: "extra_double_counter_track_uuid",
    46: "extra_double_counter_value", 47: "flow_id", 48: "terminating_flow_id",
    52: "correlation_id", 53: "correlation_id_str", 56: "callstack_iid",
}  # fmt: skip
_OF_LEGACY = {
    1: "name_iid", 2: "phase", 3: "duration_us", 4: "thread_duration_us",
    6: "unscoped_id", 7: "id_scope", 8: "bind_id", 10: "local_id", 11: "global_id",
    12: "bind_to_enclosing", 13: "flow_direction", 14: "instant_event_scope",
    18: "pid_override", 19: "tid_override",
}  # fmt: skip
_SIGNED = frozenset({"timestamp_delta_us", "extra_counter_value", "duration_us",
                     "thread_duration_us", "timestamp_absolute_us", "pid_override",
                     "tid_override"})  # fmt: skip
_Read = Callable[[int, int], tuple[bytes, int]]


class PacketRecords:
    """Gives back single events.

    Parameters
    ----------
    read : returns bytes by (offset, length), and where in the text they lie.
    offset : of the packet of each event.
    texts : where texts of annotations stand.
    """

    def __init__(self, read: _Read, offset: Array, texts: NoteTexts) -> None:
        self._read, self._offset, self._texts = read, offset, texts

    def view(self, record: int) -> RecordView:
        """Return an event by its number.

        Raises
        ------
        ReadError
            If it is gone.
        """
        if not 0 <= record < len(self._offset):
            raise ReadError(f"there is no event {record:,}.")
        offset = int(self._offset[record])
        data, place = self._read(offset, _RECORD_BYTES)
        packet = next((v for n, v in fields_of(data) if n == 1), None)
        if not data.startswith(b"\n") or not isinstance(packet, bytes):
            raise ReadError(
                f"event {record:,} is no longer at byte {place:,}.",
                hint="Reload the file.",
            )
        fields = []
        for name, value in self._fields(packet, offset):
            fields.append((name, value[:_SHOWN_BYTES], -1, 0))
            if len(fields) == _MAX_FIELDS:
                break
        return RecordView(place, packet[:_SHOWN_BYTES], tuple(fields))

    def _fields(self, packet: bytes, offset: int) -> Iterator[tuple[str, str]]:
        fields = list(fields_of(packet))
        sequence = next((v for n, v in fields if n == 10 and isinstance(v, int)), 0)
        state = self._texts.state_at(sequence, offset)
        for number, value in fields:
            if number == _TRACK_EVENT and isinstance(value, bytes):
                yield from self._event(value, state)
            elif number in _OF_PACKET:
                yield _OF_PACKET[number], _shown(_OF_PACKET[number], value)
            elif isinstance(value, bytes):
                yield kind_name(number), f"{len(value):,} bytes"

    def _event(self, event: bytes, state: int) -> Iterator[tuple[str, str]]:
        for number, value in fields_of(event):
            if number == _ANNOTATION and isinstance(value, bytes):
                yield from self._annotation(value, state, "args", 0)
            elif number == _LEGACY and isinstance(value, bytes):
                for inner, content in fields_of(value):
                    name = _OF_LEGACY.get(inner, f"field {inner}")
                    text = _shown(name, content)
                    if name == "phase" and isinstance(content, int):
                        text = chr(content) if 32 < content < 127 else text
                    yield f"legacy · {name}", text
            elif number == 9 and isinstance(value, int):
                yield "type", _TYPES.get(value, str(value))
            elif number == 30 and isinstance(value, int):
                yield "counter_value", str(signed(value))
            elif number in (44, 46) and isinstance(value, int):
                yield "counter_value", repr(real(value))
            elif number in _OF_EVENT:
                yield _OF_EVENT[number], _shown(_OF_EVENT[number], value)
            elif isinstance(value, bytes):
                yield f"field {number}", f"{len(value):,} bytes"

    def _annotation(
        self, data: bytes, state: int, around: str, depth: int
    ) -> Iterator[tuple[str, str]]:
        """Yield names and values of an annotation and those within it."""
        name, fields = "", list(fields_of(data))
        for number, value in fields:
            if number == 1 and isinstance(value, int):
                name = self._text(Interned.NOTE_NAME, state, value)
            elif number == 10 and isinstance(value, bytes):
                name = text_of_bytes(value)
        path = f"{around} · {name}" if name else around
        for number, value in fields:
            if number in (11, 12) and isinstance(value, bytes):
                if depth < _MAX_DEPTH:
                    yield from self._annotation(value, state, path, depth + 1)
            elif number == 8 and isinstance(value, bytes):
                yield path, f"{len(value):,} bytes"
            elif (text := self._value(number, value, state)) is not None:
                yield path, text

    def _value(self, number: int, value: int | bytes, state: int) -> str | None:
        if isinstance(value, bytes):
            return text_of_bytes(value) if number in (6, 9) else None
        match number:
            case 2:
                return "true" if value else "false"
            case 3:
                return str(value)
            case 4:
                return str(signed(value))
            case 5:
                return repr(real(value))
            case 7:
                return hex(value)
            case 17:
                return self._text(Interned.NOTE_TEXT, state, value)
        return None

    def _text(self, space: Interned, state: int, iid: int) -> str:
        place = self._texts.place(space, state, iid)
        if place is None:
            return f"text {iid}"
        return text_of_bytes(self._read(place[0], min(place[1], _SHOWN_BYTES))[0])


def _shown(name: str, value: int | bytes) -> str:
    if isinstance(value, bytes):
        return text_of_bytes(value)
    return str(signed(value) if name in _SIGNED else value)
