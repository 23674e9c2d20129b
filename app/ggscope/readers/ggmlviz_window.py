"""The part of a file that is in memory while it is read from its start to its end."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from ggscope.errors import ReadError
from ggscope.model.tables import Array

Bytes = npt.NDArray[np.uint8]

PADDING = 64
"""Zero bytes behind the data, so that no field of a cut event is out of bounds."""


class Readable(Protocol):
    """What a window looks at; `ggscope.readers.source.Source` is one."""

    def read_into(self, offset: int, buffer: Bytes) -> int:
        """Fill `buffer` from `offset`; return the bytes read (short at the end)."""
        ...


def unaligned(data: Bytes, width: int) -> Array:
    """Return a view of the `width` bytes from every byte on, as opaque values.

    Index it with offsets, then ``.view("<u4")`` or ``"<u8"`` what comes out: numpy
    copies opaque values of any alignment faster than it reads unaligned numbers.
    """
    return np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))


class Window:
    """A stretch of a file.

    Parameters
    ----------
    source : the file.
    file_end : bytes of it that count.
    capacity : bytes that the window holds.

    Attributes
    ----------
    data : uint8, the bytes, then at least `PADDING` zeros. Each move fills it anew.
    words, stamps : `unaligned` views of `data`, 4 and 8 bytes wide.
    base : where in the file ``data[0]`` lies.
    end : where in the file the bytes end.
    file_end : where the file ends: less than it should where it was cut meanwhile.
    failure : why bytes in front of that could not be read, if so.
    """

    def __init__(self, source: Readable, file_end: int, capacity: int) -> None:
        self._source = source
        self.file_end = file_end
        self.failure: ReadError | None = None
        self.base = self.end = 0
        self._allocate(min(capacity, file_end))

    def cover(self, first: int, last: int) -> None:
        """Hold at least the bytes from `first` to `last`, or to the file's end."""
        last = min(last, self.file_end)
        if self.base <= first and last <= self.end:
            return
        if last - first > self.capacity:
            self.base = self.end = first
            self._allocate(last - first)
        if self.base <= first < self.end:
            kept = self.data[first - self.base : self.end - self.base]
            # The parts may overlap; numpy sees to it.
            self.data[: len(kept)] = kept
            self.base = first
        else:
            self.base = self.end = first
        self._fill()

    @property
    def capacity(self) -> int:
        """Bytes that the window can hold."""
        return len(self.data) - PADDING

    def _allocate(self, capacity: int) -> None:
        self.data: Bytes = np.empty(capacity + PADDING, np.uint8)
        self.words = unaligned(self.data, 4)
        self.stamps = unaligned(self.data, 8)

    def _fill(self) -> None:
        done = self.end - self.base
        want = max(min(self.capacity, self.file_end - self.base) - done, 0)
        try:
            got = self._source.read_into(self.end, self.data[done : done + want])
        except ReadError as error:
            self.failure, got = error, 0
        if got < want:
            self.file_end = self.end + got
        done += got
        self.end = self.base + done
        self.data[done : done + PADDING] = 0
