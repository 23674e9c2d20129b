"""Packets that are packed together within a trace."""

import io
import zlib
from bisect import bisect_right
from collections.abc import Callable

import numpy as np

from ggscope.errors import ReadError
from ggscope.readers.common.packed_text import zstd_reader

COMPRESSED, ZSTD_COMPRESSED = 50, 133
"""Fields of TracePacket."""
_MAX_BYTES = 256 << 20
_MAX_RATIO, _FREE_BYTES = 400, 1 << 20
"""Packets that are packed together may unpack to so many times their size, or to so
much in any case."""


class Places:
    """Where packets lie: in the text, or in what is packed within it.

    Offsets count all bytes of the text and those that were unpacked, in order.
    """

    def __init__(self) -> None:
        # Of each bundle: begin of its content, its length, place and length when
        # packed, and the field.
        self._bundles: list[tuple[int, int, int, int, int]] = []
        self._begins: list[int] = []
        self.unpacked = 0
        """Bytes that were unpacked so far."""

    def add(self, at: int, length: int, place: int, packed: int, kind: int) -> None:
        """Note a bundle."""
        self._bundles.append((at, length, place, packed, kind))
        self._begins.append(at)
        self.unpacked += length

    def reader(
        self, read: Callable[[int, int], bytes]
    ) -> Callable[[int, int], tuple[bytes, int]]:
        """Return what reads bytes by (offset, length), and says where they lie.

        Parameters
        ----------
        read : bytes of the text by (offset, length).
        """
        bundles, begins = tuple(self._bundles), tuple(self._begins)
        before = np.cumsum([0, *(bundle[1] for bundle in bundles)]).tolist()

        def read_at(offset: int, length: int) -> tuple[bytes, int]:
            number = bisect_right(begins, offset)
            if number:
                at, size, place, packed, kind = bundles[number - 1]
                if offset < at + size:
                    content = unpacked_bundle(read(place, packed), kind)
                    return content[offset - at : offset - at + length], place
            place = offset - int(before[number])
            return read(place, length), place

        return read_at


def unpacked_bundle(data: bytes, kind: int) -> bytes:
    """Return packets that were packed together.

    Raises
    ------
    ReadError
        If they are damaged, too many, or packed as nothing here can unpack.
    """
    max_bytes = min(max(_MAX_RATIO * len(data), _FREE_BYTES), _MAX_BYTES)
    if kind == COMPRESSED:
        engine = zlib.decompressobj()
        try:
            content = engine.decompress(data, max_bytes)
        except zlib.error as error:
            raise ReadError(f"packed packets are damaged ({error}).") from None
        if engine.unconsumed_tail or not engine.eof:
            raise ReadError("packed packets are cut, or unpack to too much.")
        return content
    opened = zstd_reader()
    if opened is None:
        raise ReadError("packets are packed by zstd.")
    try:
        stream = opened(io.BytesIO(data))
        parts, n = [], 0
        while n <= max_bytes and (part := bytes(stream.read(1 << 20))):
            parts.append(part)
            n += len(part)
    except Exception as error:  # noqa: BLE001 - of two packages
        raise ReadError(f"packed packets are damaged ({error}).") from None
    if n > max_bytes:
        raise ReadError("packed packets unpack to too much.")
    return b"".join(parts)
