"""Fields of single protobuf messages, for what is looked at or rare."""

import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from ggscope.readers.common.protobuf import BYTES, VARINT, CutError, fields

_MAX_FIELDS = 10_000


def fields_of(
    data: bytes, *, keeps_cut: bool = False
) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field, up to where the message is damaged.

    Values are numbers as they stand, without sign, or bytes. `keeps_cut` : what there
    is of the last one too.
    """
    with suppress(CutError):
        for number, wire, value in islice(
            fields(data, keeps_cut=keeps_cut), _MAX_FIELDS
        ):
            if not number:
                return
            if wire not in (VARINT, BYTES) and isinstance(value, bytes):
                value = int.from_bytes(value, "little")
            yield number, value


def text_of_bytes(data: bytes) -> str:
    """Return a text as people read it."""
    return data.decode("utf-8", "replace")


def real(number: int) -> float:
    """Return the floating point number that has these bits."""
    return float(struct.unpack("<d", struct.pack("<Q", number))[0])
