"""Fields of protobuf messages."""

from collections.abc import Iterator

VARINT, _FIXED64, BYTES, _FIXED32 = 0, 1, 2, 5
"""Wire types."""
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


def fields(
    data: bytes, *, keeps_cut: bool = False
) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield number, wire type and value of each field.

    Values are numbers as they stand, without sign, or bytes. `keeps_cut` : what there
    is of a last text or message too.

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
            key, at = varint(data, begin, begin)
        wire, length = key & 7, _LENGTHS.get(key & 7, -1)
        if wire in (VARINT, BYTES):
            if at < n and data[at] < 0x80:
                length = data[at]
                at += 1
            else:
                length, at = varint(data, at, begin)
        if wire == VARINT:
            yield key >> 3, wire, length
            continue
        if not 0 <= length <= n - at:
            if keeps_cut and wire == BYTES:
                yield key >> 3, wire, data[at:]
            raise CutError(begin)
        yield key >> 3, wire, data[at : at + length]
        at += length


def varint(data: bytes, at: int, begin: int) -> tuple[int, int]:
    """Return a number and where it ends; `begin`: of the field, for the error."""
    value = 0
    for shift, byte in zip(_SHIFTS, data[at : at + len(_SHIFTS)], strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, at + shift // 7 + 1
    raise CutError(begin)


def signed(number: int) -> int:
    """Return a number of 64 bits with its sign."""
    return number - (1 << 64) if number >> 63 else number
