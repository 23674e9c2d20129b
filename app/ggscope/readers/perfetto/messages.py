"""Fields of single protobuf messages, for what is looked at or rare."""

import struct
from collections.abc import Iterator

_MAX_FIELDS = 10_000


def fields_of(
    data: bytes, *, keeps_cut: bool = False
) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field, up to where the message is damaged.

    Values are numbers as they stand, without sign, or bytes. `keeps_cut` : what there
    is of the last one too.
    """
    at = 0
    for _ in range(_MAX_FIELDS):
        tag, at = _varint(data, at)
        if at < 0 or not tag >> 3:
            return
        wire = tag & 7
        if wire == 0:
            number, at = _varint(data, at)
            if at < 0:
                return
            yield tag >> 3, number
        elif wire in (1, 5):
            n = 8 if wire == 1 else 4
            if at + n > len(data):
                return
            yield tag >> 3, int.from_bytes(data[at : at + n], "little")
            at += n
        elif wire == 2:
            length, at = _varint(data, at)
            if at < 0 or (at + length > len(data) and not keeps_cut):
                return
            yield tag >> 3, data[at : at + length]
            at += length
        else:
            return


def text_of_bytes(data: bytes) -> str:
    """Return a text as people read it."""
    return data.decode("utf-8", "replace")


def signed(number: int) -> int:
    """Return a number of 64 bits with its sign."""
    return number - (1 << 64) if number >> 63 else number


def real(number: int) -> float:
    """Return the floating point number that has these bits."""
    return float(struct.unpack("<d", struct.pack("<Q", number))[0])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends, -1 where the bytes end before."""
    result = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        result |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return result & (1 << 64) - 1, at
        shift += 7
    return 0, -1
