"""Frames in bulk: by their type, and the structs that they begin with as arrays.

A long run has millions of them. They stay where they are, in a mapped file mostly; what
is kept of each is its place.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator
from mmap import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope_capture.ring import STRUCTS, Event, Frame

Buffer = bytes | mmap
Array = npt.NDArray[Any]
I64 = npt.NDArray[np.int64]
HEAD_BYTES = 16
"""Of each frame: size, type, zero, time."""
_HEAD = struct.Struct("<IHHQ")
_SIZE_AND_TYPE = struct.Struct("<IH")
_BLOCK = 1 << 14


class Frames:
    """The whole frames of a buffer, in their order.

    Attributes
    ----------
    types : uint16[n], of `Frame` or unknown.
    begins, sizes : int64[n], where each is, its head included.
    end : where the last whole one ends; what is behind it is cut or damaged.
    """

    def __init__(self, data: Buffer, begin: int = 0) -> None:
        """Look through a buffer from `begin` on."""
        self.data = data
        types, begins, sizes = array("H"), array("q"), array("q")
        self.end, n_bytes, unpack = begin, len(data), _SIZE_AND_TYPE.unpack_from
        while self.end + 8 <= n_bytes:
            size, kind = unpack(data, self.end)
            if size < 8 or size % 8 or self.end + size > n_bytes:
                break
            if kind != Frame.PAD:
                if size < HEAD_BYTES:
                    break
                types.append(kind)
                begins.append(self.end)
                sizes.append(size)
            self.end += size
        self.types: npt.NDArray[np.uint16] = np.array(types, np.uint16)
        self.begins: I64 = np.array(begins, np.int64)
        self.sizes: I64 = np.array(sizes, np.int64)

    @classmethod
    def of(cls, events: Iterable[Event]) -> "Frames":
        """Return events as frames of a buffer."""
        return cls(b"".join(map(packed, events)))

    def __len__(self) -> int:
        return len(self.types)

    def where(self, *kinds: int) -> I64:
        """Return the numbers of the frames of some types, ascending."""
        return np.flatnonzero(np.isin(self.types, kinds))

    def event(self, number: int) -> Event:
        """Return a frame with its body copied."""
        begin = int(self.begins[number])
        _, kind, _, time = _HEAD.unpack_from(self.data, begin)
        end = begin + int(self.sizes[number])
        return Event(kind, time, bytes(self.data[begin + HEAD_BYTES : end]))

    def events(self, *kinds: int) -> Iterator[Event]:
        """Yield the frames of some types; of all where none is named."""
        numbers = self.where(*kinds) if kinds else np.arange(len(self))
        return map(self.event, numbers.tolist())

    def times(self, numbers: I64) -> npt.NDArray[np.uint64]:
        """Return the times of some frames, uint64[n]."""
        raw = self._bytes(self.begins[numbers] + 8, 8)
        return raw.view("<u8").ravel()

    def structs(self, numbers: I64, dtype: np.dtype[np.void]) -> Array:
        """Return the structs that the bodies of some frames begin with.

        All of them have to be long enough.
        """
        raw = self._bytes(self.begins[numbers] + HEAD_BYTES, dtype.itemsize)
        return raw.view(dtype).ravel()

    def rows(self, kind: int, name: str) -> Iterator[np.void]:
        """Yield the structs that frames of a type begin with; they are long enough."""
        numbers = self.where(kind)
        for at in range(0, len(numbers), _BLOCK):
            yield from self.structs(numbers[at : at + _BLOCK], STRUCTS[name])

    def where_true(self, is_good: npt.NDArray[np.bool_]) -> "Frames":
        """Return those of the frames that are good, of the same buffer."""
        made = Frames(b"")
        made.data, made.end = self.data, self.end
        made.types = self.types[is_good]
        made.begins, made.sizes = self.begins[is_good], self.sizes[is_good]
        return made

    def body_bytes(self, numbers: I64) -> I64:
        """Return how long the bodies of some frames are."""
        return self.sizes[numbers] - HEAD_BYTES

    def _bytes(self, begins: I64, n: int) -> npt.NDArray[np.uint8]:
        """Return `n` bytes from each place on, uint8[places, n]."""
        if not len(begins):
            return np.zeros((0, n), np.uint8)
        raw = np.frombuffer(self.data, np.uint8)
        return np.ascontiguousarray(raw[begins[:, None] + np.arange(n)])


def packed(event: Event) -> bytes:
    """Return an event as the frame that it was."""
    size = HEAD_BYTES + len(event.body)
    return _HEAD.pack(size, event.type, 0, event.time) + event.body
