"""Frames in bulk: by their type, and the structs that they begin with as arrays.

A long run has millions of them. They stay where they are, in a mapped file mostly; what
is kept of each is its place.
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope_capture.ring_format import (
    FRAME_HEAD,
    FRAMES,
    Buffer,
    Frame,
    fields,
    frame_bounds,
)

Array = npt.NDArray[Any]
I64 = npt.NDArray[np.int64]
HEAD_BYTES = FRAME_HEAD.size
_BLOCK = 1 << 14


class Frames:
    """The whole frames of a buffer, in their order.

    Attributes
    ----------
    types : uint16[n], of `FrameType`, or unknown.
    begins, sizes : int64[n], where each is, its head included.
    end : where the last whole one ends; what is behind it is cut or damaged.
    """

    def __init__(self, data: Buffer, begin: int = 0) -> None:
        """Look through a buffer from `begin` on."""
        self.data, self.end = data, begin
        types, begins, sizes = array("H"), array("q"), array("q")
        for kind, at, self.end in frame_bounds(data, begin):
            if kind:  # a pad has none
                types.append(kind)
                begins.append(at)
                sizes.append(self.end - at)
        self.types: npt.NDArray[np.uint16] = np.array(types, np.uint16)
        self.begins: I64 = np.array(begins, np.int64)
        self.sizes: I64 = np.array(sizes, np.int64)

    @classmethod
    def of(cls, events: Iterable[Frame]) -> "Frames":
        """Return events as frames of a buffer."""
        return cls(b"".join(event.packed() for event in events))

    def __len__(self) -> int:
        return len(self.types)

    def where(self, *kinds: int) -> I64:
        """Return the numbers of the frames of some types, ascending."""
        return np.flatnonzero(np.isin(self.types, kinds))

    def event(self, number: int) -> Frame:
        """Return a frame with its body copied."""
        begin = int(self.begins[number])
        _, kind, _, time = FRAME_HEAD.unpack_from(self.data, begin)
        end = begin + int(self.sizes[number])
        return Frame(kind, time, bytes(self.data[begin + HEAD_BYTES : end]))

    def events(self, *kinds: int) -> Iterator[Frame]:
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

    def rows(self, kind: int) -> Iterator[np.void]:
        """Yield the structs that frames of a type begin with; they are long enough."""
        numbers, dtype = self.where(kind), np.dtype(fields(FRAMES[kind].body))
        for at in range(0, len(numbers), _BLOCK):
            yield from self.structs(numbers[at : at + _BLOCK], dtype)

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
