"""A position in a JSON text that moves forward block by block, tolerant of damage."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import IntEnum

import numpy as np

from ggscope.model.tables import I64
from ggscope.native.library import library
from ggscope.readers.common.packed_text import TextBlocks

_COMMA, _CLOSE_LIST = ord(","), ord("]")
_FIRST_BYTES = 1 << 20
"""Of the first block, for an early picture."""
_MARK = b"\xef\xbb\xbf"


class ScanStatus(IntEnum):
    """Why a scan of a list ended, as in ``lenient_json.h``."""

    MORE = 0
    CLOSED = 1
    FULL = 2


class TextCursor:
    """A position in a JSON text.

    Whoever iterates over `members` or `elements` must take each value: by `value`, by
    iterating within it, or by moving `at` behind it.

    Attributes
    ----------
    at : place in the data of `blocks`.
    is_cut : whether the text ends where more must follow.
    """

    def __init__(self, blocks: TextBlocks, check: Callable[[], None]) -> None:
        self.blocks, self._check = blocks, check
        data = blocks.first(_FIRST_BYTES)
        self.at = len(_MARK) if data[:3].tobytes() == _MARK else 0
        self.is_cut = False

    @property
    def offset(self) -> int:
        """The place in the text."""
        return self.blocks.offset + self.at

    def extend(self) -> bool:
        """Add the next block, dropping what stands before; False at the end."""
        self._check()
        if self.blocks.is_last:
            return False
        there = self.blocks.extend(self.at)
        self.at = 0
        return there

    def byte(self) -> int:
        """Return the next byte that is no white space; -1 at the end."""
        while True:
            data = self.blocks.data
            for at in range(self.at, min(self.at + 64, len(data))):
                if data[at] not in b" \t\r\n":
                    self.at = at
                    return int(data[at])
            self.at = min(self.at + 64, len(data))
            if self.at == len(data) and not self.extend():
                self.is_cut = True
                return -1

    def members(self) -> Iterator[str]:
        """Yield the keys of the object that begins here, each before its value."""
        place = np.zeros(3, np.int64)
        if self.byte() != ord("{"):
            return
        self.at += 1
        while not self.is_cut:
            data = self.blocks.data
            follows = library().ggscope_json_member(data, len(data), self.at, place)
            if follows == 0:
                self.is_cut = not self.extend()
                continue
            key = data[place[0] : place[1]].tobytes()
            self.at = int(place[2])
            if follows != 1:
                self.is_cut |= follows < 0
                return
            yield key.decode("utf-8", "replace")

    def elements(self) -> Iterator[None]:
        """Stop before each element of the list that begins here."""
        if self.byte() != ord("["):
            return
        self.at += 1
        while (byte := self.byte()) >= 0:
            if byte == _COMMA:
                self.at += 1
                continue
            if byte == _CLOSE_LIST:
                self.at += 1
                return
            before = self.offset
            yield
            if self.offset == before:
                self.is_cut = True
                return

    def value(self, limit: int) -> bytes | None:
        """Go behind the value here; return its text, None where it has more bytes."""
        return self._behind(np.zeros(4, np.int64), limit)

    def leave(self) -> None:
        """Go behind the end of the object or list around this place.

        It stands before a value in it.
        """
        self._behind(np.array([1, 0, 0, 1], np.int64), 0)

    def _behind(self, state: I64, limit: int) -> bytes | None:
        """Go to where a value ends of which `state` is known; return what it passed."""
        parts: list[bytes] = []
        n = 0
        while True:
            rest = self.blocks.data[self.at :]
            used = int(library().ggscope_json_skip(rest, len(rest), state))
            if n <= limit:
                parts.append(rest[:used].tobytes())
            n += used
            self.at += used
            self._check()
            if state[3] == 2:
                break
            if not self.extend():
                self.is_cut = True
                break
        return b"".join(parts) if n <= limit else None

    def parsed(
        self, limit: int, parse_float: Callable[[str], object] = float
    ) -> object:
        """Go behind the value here; return it, None where it is large or damaged.

        Parameters
        ----------
        parse_float : makes numbers with a point.
        """
        text = self.value(limit)
        if text is not None:
            with suppress(ValueError, ArithmeticError, RecursionError):
                value: object = json.loads(
                    text.decode("utf-8", "replace"),
                    strict=False,
                    parse_float=parse_float,
                )
                return value
        return None


def string_of(raw: bytes | memoryview) -> str:
    """Return the text that stands between the quotes of a JSON string."""
    text = str(raw, "utf-8", "replace")
    if "\\" in text:
        with suppress(ValueError):
            text = json.loads(f'"{text}"', strict=False)
            # Halves of surrogate pairs are no text.
            text = text.encode("utf-8", "replace").decode()
    return text
