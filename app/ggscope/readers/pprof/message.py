"""The messages of a pprof profile, decoded from protobuf.

Form: github.com/google/pprof, proto/profile.proto. Fields that are not needed are
passed over; whether a number stands for something that is there is for the caller.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from ggscope.readers.common.protobuf import (
    BYTES,
    VARINT,
    CutError,
    fields,
    signed,
    varint,
)

MAX_BYTES = 1 << 30
_TOP = {
    1: BYTES, 2: BYTES, 3: BYTES, 4: BYTES, 5: BYTES, 6: BYTES, 7: VARINT,
    8: VARINT, 9: VARINT, 10: VARINT, 11: BYTES, 12: VARINT, 13: None,
    14: VARINT, 15: VARINT,
}  # fmt: skip
"""Wire types of the fields of a profile; None: several."""
_PART_FIELDS = 1 << 11
"""Some tens of milliseconds."""


@dataclass(slots=True)
class Sample:
    """A stack with its values.

    Attributes
    ----------
    locations : ids, innermost first.
    labels : (key, text, number, unit) as numbers of texts; number as it is.
    """

    locations: tuple[int, ...] = ()
    values: tuple[int, ...] = ()
    labels: list[tuple[int, int, int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Location:
    """A place in code.

    Attributes
    ----------
    lines : (function, line) of it and of what it is inlined in, innermost first.
    """

    mapping: int = 0
    address: int = 0
    lines: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Message:
    """A profile as it stands; names are numbers of `texts`.

    Attributes
    ----------
    types : (type, unit) of the values of samples.
    functions : name and file by id.
    mappings : file by id.
    cut_at : byte of the unpacked text at which it cannot be read further; -1 nowhere.
    n_broken : parts of it that are damaged; they are left out.
    """

    types: list[tuple[int, int]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    mappings: dict[int, int] = field(default_factory=dict)
    locations: dict[int, Location] = field(default_factory=dict)
    functions: dict[int, tuple[int, int]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    time_ns: int = 0
    duration_ns: int = 0
    period: int = 0
    period_type: tuple[int, int] = (0, 0)
    comments: list[int] = field(default_factory=list)
    default_type: int = 0
    cut_at: int = -1
    n_broken: int = 0

    def text(self, number: int) -> str:
        """Return a text by its number; "" where there is none."""
        return self.texts[number] if 0 <= number < len(self.texts) else ""


def is_profile(data: bytes, *, is_whole: bool) -> bool:
    """Return whether a text may be a profile, or the begin of one."""
    n_types = n_samples = 0
    try:
        for number, wire, value in fields(data):
            if number not in _TOP or _TOP[number] not in (None, wire):
                return False
            n_samples += number == 2
            n_types += number == 1
            if number == 1 and not _is_value_type(_data(value)):
                return False
    except CutError:
        pass
    return n_types > 0 and (n_samples > 0 or not is_whole)


def _is_value_type(data: bytes) -> bool:
    """Return whether a whole message holds two indexes of texts and nothing else."""
    try:
        return all(k in (1, 2) and w == VARINT for k, w, _ in fields(data))
    except CutError:
        return False


def message_of(data: bytes, on_part: Callable[[int], None] = lambda _: None) -> Message:
    """Return the profile in a text, up to its end or to what cannot be read.

    Parameters
    ----------
    on_part : called now and then with the bytes so far; may raise to end it.
    """
    message, n_fields, n_bytes = Message(), 0, 0
    try:
        for number, wire, value in fields(data):
            _take(message, number, wire, value)
            n_fields += 1
            n_bytes += len(value) if isinstance(value, bytes) else 1
            if n_fields % _PART_FIELDS == 0:
                on_part(n_bytes)
    except CutError as error:
        message.cut_at = error.at
    return message


def _data(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise CutError
    return value


def _numbers(wire: int, value: int | bytes) -> tuple[int, ...]:
    """Return the numbers of a repeated field, packed or one."""
    if isinstance(value, int):
        return (value,)
    if wire != BYTES:
        raise CutError
    if value.isascii():  # numbers of one byte
        return tuple(value)
    numbers, at, n = [], 0, len(value)
    while at < n:
        byte = value[at]
        if byte < 0x80:
            numbers.append(byte)
            at += 1
        elif at + 1 < n and value[at + 1] < 0x80:
            numbers.append(byte & 0x7F | value[at + 1] << 7)
            at += 2
        else:
            number, at = varint(value, at, at)
            numbers.append(number)
    return tuple(numbers)


def _plain(data: bytes) -> dict[int, int]:
    """Return the numbers of a message by field."""
    return {k: v for k, _, v in fields(data) if isinstance(v, int)}


def _take(message: Message, number: int, wire: int, value: int | bytes) -> None:
    """Take one field of a profile; what is damaged within it counts as broken."""
    if isinstance(value, bytes) and wire == BYTES:
        try:
            _take_part(message, number, value)
        except CutError:
            message.n_broken += 1
    elif isinstance(value, int):
        if number == 9:
            message.time_ns = signed(value)
        elif number == 10:
            message.duration_ns = signed(value)
        elif number == 12:
            message.period = signed(value)
        elif number == 13:
            message.comments.append(value)
        elif number == 14:
            message.default_type = value


def _take_part(message: Message, number: int, data: bytes) -> None:
    if number == 1:
        plain = _plain(data)
        message.types.append((plain.get(1, 0), plain.get(2, 0)))
    elif number == 2:
        message.samples.append(_sample(data))
    elif number == 3:
        plain = _plain(data)
        message.mappings[plain.get(1, 0)] = plain.get(5, 0)
    elif number == 4:
        plain, location = _plain(data), Location()
        location.mapping, location.address = plain.get(2, 0), plain.get(3, 0)
        for key, _, value in fields(data):
            if key == 4 and isinstance(value, bytes):
                line = _plain(value)
                location.lines.append((line.get(1, 0), signed(line.get(2, 0))))
        message.locations[plain.get(1, 0)] = location
    elif number == 5:
        plain = _plain(data)
        name = plain.get(2, 0) or plain.get(3, 0)
        message.functions[plain.get(1, 0)] = name, plain.get(4, 0)
    elif number == 6:
        message.texts.append(data.decode("utf-8", "replace"))
    elif number == 11:
        plain = _plain(data)
        message.period_type = plain.get(1, 0), plain.get(2, 0)
    elif number == 13:
        message.comments.extend(_numbers(BYTES, data))


def _sample(data: bytes) -> Sample:
    sample = Sample()
    # Most are short lists of locations and of values, and nothing else.
    behind = 2 + data[1] if data[:1] == b"\x0a" and len(data) > 1 else 0
    if (
        2 <= behind < 0x82
        and data[behind : behind + 1] == b"\x12"
        and data[behind + 1 : behind + 2] == bytes([(len(data) - behind - 2) & 0x7F])
        and len(data) - behind - 2 < 0x80
    ):
        sample.locations = _numbers(BYTES, data[2:behind])
        sample.values = tuple(map(signed, _numbers(BYTES, data[behind + 2 :])))
        return sample
    for number, wire, value in fields(data):
        if number == 1:
            sample.locations += _numbers(wire, value)
        elif number == 2:
            sample.values += tuple(map(signed, _numbers(wire, value)))
        elif number == 3 and isinstance(value, bytes):
            label = _plain(value)
            row = (label.get(1, 0), label.get(2, 0), signed(label.get(3, 0)))
            sample.labels.append((*row, label.get(4, 0)))
    return sample
