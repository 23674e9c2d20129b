"""Texts that grow: what is new is read once, line by line."""

import os
from abc import abstractmethod
from typing import BinaryIO

from ggscope.live.files import GrowingFile
from ggscope.readers.common.text_blocks import LONGEST_LINE

_MAX_BYTES = 1 << 24
"""So much is read in one poll: the rest follows in the next ones."""
_TAIL_BYTES = 64
"""Before the place that was read to; they are looked at again, as the file may have
been written anew and be as long as before."""


class GrowingText(GrowingFile):
    """Lines that another program writes; each counts once it has its end."""

    unit = "lines"

    def _forget(self) -> None:
        super()._forget()
        self._looked = 0
        self._tail = b""
        self._is_behind = False

    @property
    def is_behind(self) -> bool:
        """Whether more was there than the last poll read."""
        return self._is_behind

    def _is_at_end(self) -> bool:
        return not self._is_behind

    def _read_new(self, file: BinaryIO) -> bool:
        """Add the lines that have their end since the last time; False: none is new."""
        size = os.fstat(file.fileno()).st_size
        if size <= self._looked:
            self._is_behind = False
            return False
        tail = self._tail
        if tail and self._take(file, self._at - len(tail), len(tail)) != tail:
            self._on_rewritten(file)
            return True
        data = self._take(file, self._looked, _MAX_BYTES)
        self._is_behind = len(data) == _MAX_BYTES
        n_whole = data.rfind(b"\n") + 1
        if not n_whole:
            self._looked += len(data)
            if self._looked - self._at > LONGEST_LINE:
                self._at, self._tail = self._looked, b""
            return True
        begin, end = self._at, self._looked + n_whole
        if begin < self._looked:
            data = self._take(file, begin, end - begin)
        if len(data) >= end - begin:  # else it was cut meanwhile
            self._add(data[: end - begin], begin)
        return True

    def _note_read(self, data: bytes, begin: int) -> None:
        """Note that the lines of `data` have been added, which begin there."""
        self._at = self._looked = begin + len(data)
        self._tail = (self._tail + data)[-_TAIL_BYTES:]

    @abstractmethod
    def _add(self, data: bytes, begin: int) -> None:
        """Add whole lines, and note what was read."""

    @abstractmethod
    def _on_rewritten(self, file: BinaryIO) -> None:
        """Take in that what was read before is not in the file any more."""
