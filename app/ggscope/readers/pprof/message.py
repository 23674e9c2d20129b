"""The messages of a pprof profile, decoded from protobuf.

Form: github.com/google/pprof, proto/profile.proto. Fields that are not needed are
passed over; whether a number stands for something that is there is for the caller.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ggscope.readers.pprof import GZIP

MAX_BYTES = 1 << 30
MAX_RATIO, FREE_BYTES = 400, 64 << 20
"""A file may unpack to so many times its size, or to so much in any case."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_TOP = {
    1: _BYTES, 2: _BYTES, 3: _BYTES, 4: _BYTES, 5: _BYTES, 6: _BYTES, 7: _VARINT,
    8: _VARINT, 9: _VARINT, 10: _VARINT, 11: _BYTES, 12: _VARINT, 13: None,
    14: _VARINT, 15: _VARINT,
}  # fmt: skip
"""Wire types of the fields of a profile; None: several."""
_PART_FIELDS = 1 << 11
"""Some tens of milliseconds."""
_MASK = (1 << 64) - 1
_SHIFTS = range(0, 64, 7)
_LENGTHS = {_FIXED64: 8, _FIXED32: 4}


class CutError(Exception):
    """A message ends within a field, or holds what it cannot.

    Attributes
    ----------
    at : byte where that field begins.
    """

    def __init__(self, at: int = 0) -> None:
        super().__init__(at)
        self.at = at


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


class RatioError(Exception):
    """A file unpacks to more than `MAX_RATIO` times its size."""


def unpacked(
    data: bytes, max_bytes: int, check: Callable[[], None] = lambda: None
) -> tuple[bytes, bool]:
    """Return what a file holds, and whether all of it could be unpacked.

    Parameters
    ----------
    max_bytes : bytes that are unpacked at most.
    check : called for each part; may raise to end it.

    Raises
    ------
    RatioError
        If it unpacks to much more than it is long.
    """
    if not data.startswith(GZIP):
        return data, True
    parts: list[bytes] = []
    left, size = max_bytes, len(data)
    while data.startswith(GZIP):
        engine = zlib.decompressobj(31)
        try:
            while left > 0 and data and not engine.eof:
                part = engine.decompress(data, min(left, 1 << 20))
                parts.append(part)
                left -= len(part)
                data = engine.unconsumed_tail
                if max_bytes - left > max(FREE_BYTES, MAX_RATIO * (size - len(data))):
                    raise RatioError
                check()
        except zlib.error:
            return b"".join(parts), False
        if not engine.eof:
            return b"".join(parts), False
        data = engine.unused_data.lstrip(b"\0")
    return b"".join(parts), True


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
        return all(k in (1, 2) and w == _VARINT for k, w, _ in fields(data))
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


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield number, wire type and value of each field.

    Raises
    ------
    CutError
        If the text ends within one, with the byte where that one begins.
    """
    at, n = 0, len(data)
    while at < n:
        begin = at
        key = data[at]
        at += 1
        if key >= 0x80:
            key, at = _varint(data, begin, begin)
        wire, length = key & 7, _LENGTHS.get(key & 7, -1)
        if wire in (_VARINT, _BYTES):
            if at < n and data[at] < 0x80:
                length = data[at]
                at += 1
            else:
                length, at = _varint(data, at, begin)
        if wire == _VARINT:
            yield key >> 3, wire, length
            continue
        if not 0 <= length <= n - at:
            raise CutError(begin)
        yield key >> 3, wire, data[at : at + length]
        at += length


def _varint(data: bytes, at: int, begin: int) -> tuple[int, int]:
    """Return a number and where it ends; `begin`: of the field, for the error."""
    value = 0
    for shift, byte in zip(_SHIFTS, data[at : at + len(_SHIFTS)], strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, at + shift // 7 + 1
    raise CutError(begin)


def _data(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise CutError
    return value


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _numbers(wire: int, value: int | bytes) -> tuple[int, ...]:
    """Return the numbers of a repeated field, packed or one."""
    if isinstance(value, int):
        return (value,)
    if wire != _BYTES:
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
            number, at = _varint(value, at, at)
            numbers.append(number)
    return tuple(numbers)


def _plain(data: bytes) -> dict[int, int]:
    """Return the numbers of a message by field."""
    return {k: v for k, _, v in fields(data) if isinstance(v, int)}


def _take(message: Message, number: int, wire: int, value: int | bytes) -> None:
    """Take one field of a profile; what is damaged within it counts as broken."""
    if isinstance(value, bytes) and wire == _BYTES:
        try:
            _take_part(message, number, value)
        except CutError:
            message.n_broken += 1
    elif isinstance(value, int):
        if number == 9:
            message.time_ns = _signed(value)
        elif number == 10:
            message.duration_ns = _signed(value)
        elif number == 12:
            message.period = _signed(value)
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
                location.lines.append((line.get(1, 0), _signed(line.get(2, 0))))
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
        message.comments.extend(_numbers(_BYTES, data))


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
        sample.locations = _numbers(_BYTES, data[2:behind])
        sample.values = tuple(map(_signed, _numbers(_BYTES, data[behind + 2 :])))
        return sample
    for number, wire, value in fields(data):
        if number == 1:
            sample.locations += _numbers(wire, value)
        elif number == 2:
            sample.values += tuple(map(_signed, _numbers(wire, value)))
        elif number == 3 and isinstance(value, bytes):
            label = _plain(value)
            row = (label.get(1, 0), label.get(2, 0), _signed(label.get(3, 0)))
            sample.labels.append((*row, label.get(4, 0)))
    return sample
