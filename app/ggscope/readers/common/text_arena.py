"""Texts by number, each once, as compiled scans copy them: ``text_arena.h``."""

import secrets
from collections.abc import Iterator

import numpy as np

from ggscope.native.declared import TextArena
from ggscope.native.library import library


class Texts:
    """Texts in the order in which they first occur.

    Parameters
    ----------
    capacity, size : how many texts there is space for, and how many bytes of them.

    Attributes
    ----------
    table : for compiled code; another one after `grow`.
    generation : grows when the texts are forgotten to make space for others.
    """

    def __init__(self, capacity: int, size: int) -> None:
        self.generation = 0
        self.table = TextArena(secret=secrets.randbits(64))
        self._offset, self._length = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self._slots, self._arena = np.zeros(0, np.int32), np.zeros(0, np.uint8)
        self.grow(capacity, size)

    def __len__(self) -> int:
        return int(self.table.count)

    def __getitem__(self, number: int) -> bytes:
        """Return a text by its number, from 0."""
        offset = int(self._offset[number])
        return self._arena[offset : offset + int(self._length[number])].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        n = len(self)
        data = self._arena[: int(self.table.used)].tobytes()
        spots = zip(self._offset[:n].tolist(), self._length[:n].tolist(), strict=True)
        return (data[at : at + length] for at, length in spots)

    def grow(self, capacity: int, size: int) -> None:
        """Make space for so many texts, and so many bytes of them."""
        n, used = len(self), int(self.table.used)
        offset, length = np.empty(capacity, np.int64), np.empty(capacity, np.int32)
        arena = np.empty(size, np.uint8)
        offset[:n], length[:n] = self._offset[:n], self._length[:n]
        arena[:used] = self._arena[:used]
        self._offset, self._length, self._arena = offset, length, arena
        self._slots = np.zeros(1 << (2 * capacity - 1).bit_length(), np.int32)
        self.table = TextArena(
            count=n,
            capacity=capacity,
            n_slots=len(self._slots),
            secret=int(self.table.secret),
            slots=self._slots,
            offset=offset,
            length=length,
            used=used,
            size=size,
            arena=arena,
        )
        library().ggscope_stacks_rehash_texts(self.table)

    def forget(self) -> None:
        """Make space; numbers given out so far mean nothing any more."""
        self.generation += 1
        self._slots[:] = 0
        self.table.count, self.table.used = 0, 0
