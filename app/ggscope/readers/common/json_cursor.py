"""JSON files of any size, read in bounded blocks.

A cursor walks the keys of the root object and hands out small values whole and
long arrays block by block; or it hands out the lines of a JSON Lines file.

``json_elements.c`` finds where elements end, so a block can be given to a typed decoder
in one call of some milliseconds: nobody else waits long for the interpreter, and the
place of every element is known.
"""

import functools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias, TypeVar

import msgspec
import numpy as np

from ggscope.model.tables import I64, U8
from ggscope.native.library import library
from ggscope.readers.api import BOM
from ggscope.readers.common.json_text import (
    JsonSyntaxError,
    JsonText,
    JsonTooLargeError,
    MemoryText,
    fault_in,
    without_half_pairs,
)

T = TypeVar("T")
BLOCK_BYTES = 2 << 20
"""Decoding that much takes about 8 ms, in which no other thread runs."""

VALUE_BYTES = 8 << 20
_BLOCK_ELEMENTS = 1 << 18
_PEEK_BYTES = 64 * 1024
_FIRST_BYTES = 4096
"""Of a value, looked at before more of it is read."""
_NO_SPACE = re.compile(rb"[^ \t\r\n]")
_NEWLINE, _RETURN = ord("\n"), ord("\r")


class _Ending(IntEnum):
    """Why a scan ended, as in ``json_elements.c``."""

    MORE = 0
    CLOSED = 1
    NO_VALUE = 2
    NO_COMMA = 3


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Neighbouring elements of an array, or lines of a JSON Lines file.

    Attributes
    ----------
    buffer : uint8[n + 2]; ``data`` with one spare byte on each side.
    offset : file offset of ``data[0]``.
    start, end : int64[m], the elements in ``data``.
    length : bytes of ``data`` that belong to the block.
    last : whether the array ends here.
    line : int64[m], 1-based line numbers, for lines; else None.
    overlong : the block stands for one line that is too large to take; its only
        element is empty.
    """

    buffer: U8
    offset: int
    start: I64
    end: I64
    length: int
    last: bool = False
    line: I64 | None = None
    overlong: bool = False

    @property
    def data(self) -> U8:
        """The bytes, without the spare ones."""
        return self.buffer[1:-1]

    def texts(self, rows: I64 | slice = slice(None)) -> Iterator[tuple[bytes, int]]:
        """Yield text and file offset of every element, or of those of `rows`."""
        data, offset = self.data, self.offset
        bounds = zip(self.start[rows].tolist(), self.end[rows].tolist(), strict=True)
        for start, end in bounds:
            yield data[start:end].tobytes(), offset + start

    def decode_array(self, decoder: msgspec.json.Decoder[list[T]]) -> list[T] | None:
        """Return the elements of an array, decoded in one call.

        None where they are not all what the decoder expects: then go through
        `texts`.
        """
        if not len(self.start):
            return None
        # Brackets are put around the elements in place instead of copying them.
        begin, finish = int(self.start[0]), int(self.end[-1]) + 1
        buffer, ends = self.buffer, self.buffer[[begin, finish]]
        buffer[begin], buffer[finish] = ord("["), ord("]")
        try:
            return decoder.decode(buffer[begin : finish + 1].data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        finally:
            buffer[begin], buffer[finish] = ends

    def decode_lines(self, decoder: msgspec.json.Decoder[T]) -> list[T] | None:
        """Return the values of the lines, decoded in one call; None as above."""
        begins, ends = self.data[self.start], self.data[self.end - 1]
        if (begins != ord("{")).any() or (ends != ord("}")).any():
            return None
        try:
            values = decoder.decode_lines(self.data[: self.length].data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        # The decoder takes any white space between values as a line break.
        return values if len(values) == len(self.start) else None


def cut_array(
    buffer: U8, offset: int, first: bool, capacity: int = _BLOCK_ELEMENTS
) -> Block:
    """Return the whole elements at the start of a text.

    Parameters
    ----------
    buffer : uint8[n + 2], see `Block`.
    first : whether none of the array stands before the text.
    capacity : largest number of elements.

    Raises
    ------
    JsonSyntaxError
        If something else stands there than an element and its comma.
    """
    data, tally = buffer[1:-1], np.zeros(3, np.int64)
    capacity = min(capacity, len(data) // 2 + 1)
    start, end = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    length = library().ggscope_json_elements(
        data, len(data), not first, capacity, start, end, tally
    )
    n, ending, place = tally.tolist()
    if not n and ending in (_Ending.NO_VALUE, _Ending.NO_COMMA):
        what = "value" if ending == _Ending.NO_VALUE else "',' delimiter"
        raise JsonSyntaxError(f"Expecting {what}", offset + place)
    last = ending == _Ending.CLOSED
    return Block(buffer, offset, start[:n], end[:n], int(length), last=last)


def cut_lines(buffer: U8, offset: int, at_end: bool, number: int) -> tuple[Block, int]:
    """Return the whole lines at the start of a text, and the number of line breaks.

    Parameters
    ----------
    at_end : whether the text reaches the end of the file: its last line needs no break.
    number : of the first line.
    """
    data = buffer[1:-1]
    end = np.flatnonzero(data == _NEWLINE)
    n_breaks = len(end)
    if at_end and len(data) and (not n_breaks or int(end[-1]) + 1 < len(data)):
        end = np.append(end, len(data))
    start = np.concatenate([[0], end + 1])
    length = min(int(start[-1]), len(data))
    start, line = start[:-1], number + np.arange(len(end))
    end = end - ((end > start) & (data[np.maximum(end - 1, 0)] == _RETURN))
    filled = end > start
    block = Block(buffer, offset, start[filled], end[filled], length, line=line[filled])
    return block, n_breaks


ArrayCutter: TypeAlias = Callable[[U8, int, bool], Block]
"""Like `cut_array`."""
LineCutter: TypeAlias = Callable[[U8, int, bool, int], tuple[Block, int]]
"""Like `cut_lines`."""


class JsonCursor:
    """A position in a JSON text that moves forward value by value.

    Parameters
    ----------
    text : file or memory.
    block_bytes : size of the blocks that arrays and lines are read in.
    value_bytes : largest value that is taken in one piece.
    reuses_buffer : a block is valid until the next one only; saves the touching of
        new memory, which is dearer than reading.

    Attributes
    ----------
    position : byte offset in the text; begins behind a byte order mark.

    Notes
    -----
    Methods raise JsonSyntaxError where the text is no JSON, and
    JsonTooLargeError where one value is too large.
    """

    def __init__(
        self,
        text: JsonText,
        *,
        block_bytes: int = BLOCK_BYTES,
        value_bytes: int = VALUE_BYTES,
        reuses_buffer: bool = False,
    ) -> None:
        self.position = 0
        self._spare = np.empty(0, np.uint8)
        self._reuses_buffer = reuses_buffer
        self._text = text
        self._block_bytes = block_bytes
        self._value_bytes = value_bytes
        self._chunk, self._chunk_start = b"", 0
        if self._read(len(BOM))[0][1:-1].tobytes() == BOM:
            self.position = len(BOM)

    def peek(self) -> bytes:
        """Skip white space; return the next byte, b"" at the end."""
        while True:
            at = self.position - self._chunk_start
            if not 0 <= at < len(self._chunk):
                self._chunk = self._read(_PEEK_BYTES)[0][1:-1].tobytes()
                self._chunk_start, at = self.position, 0
                if not self._chunk:
                    return b""
            match = _NO_SPACE.search(self._chunk, at)
            self.position += (match.start() if match else len(self._chunk)) - at
            if match:
                return match.group()

    def members(self) -> Iterator[str]:
        """Yield the keys of the object that begins here, as they come.

        Whoever iterates must take the value (`value`, `blocks`) of each.
        """
        if self.peek() != b"{":
            raise self.fault("Expecting value")
        self.position += 1
        if self.peek() == b"}":
            self.position += 1
            return
        while True:
            if self.peek() != b'"':
                raise self.fault("Expecting property name enclosed in double quotes")
            key = self._key()
            if self.peek() != b":":
                raise self.fault("Expecting ':' delimiter")
            self.position += 1
            self.peek()
            yield key
            following = self.peek()
            if following not in (b",", b"}") or not following:
                raise self.fault("Expecting ',' delimiter")
            self.position += 1
            if following == b"}":
                return

    def value(self) -> tuple[bytes, int]:
        """Return the text of the value that begins here, and its offset.

        Only its end is looked for: whether it is JSON is for a decoder to say.
        """
        self.peek()
        start, want = self.position, _FIRST_BYTES
        while True:
            buffer, at_end = self._read(want)
            seen = buffer
            if at_end:  # what ends with the text is whole
                seen = np.append(buffer, np.uint8(0))
                seen[-2] = _NEWLINE
            block = cut_array(seen, start, True, 1)
            for data, _ in block.texts():
                self.position += len(data)
                return data, start
            if at_end or want >= self._value_bytes:
                raise self._endless(buffer, at_end, b"")
            want *= 8

    def blocks(self, cut: ArrayCutter = cut_array) -> Iterator[Block]:
        """Yield the array that begins here block by block; end behind it.

        Parameters
        ----------
        cut : makes a block of the start of a text.
        """
        if self.peek() != b"[":
            raise self.fault("Expecting value")
        self.position += 1
        first, want = True, self._block_bytes
        while True:
            buffer, at_end = self._read(want)
            block = cut(buffer, self.position, first)
            if not block.length and not block.last:
                if at_end or want >= self._value_bytes:
                    raise self._endless(buffer, at_end, b"[" if first else b"[0")
                want *= 4
                continue
            self.position += block.length + block.last
            if block.last or len(block.start):
                yield block
                first = False
            if block.last:
                return
            want = self._block_bytes

    def lines(self, cut: LineCutter = cut_lines) -> Iterator[Block]:
        """Yield the lines from here to the end of the text, without blank ones.

        A line that is too large is skipped and yielded as an empty block.

        Parameters
        ----------
        cut : makes a block of the start of a text.
        """
        want, number = self._block_bytes, 1
        while True:
            buffer, at_end = self._read(want)
            if len(buffer) == 2:
                return
            block, n_breaks = cut(buffer, self.position, at_end, number)
            self.position += block.length
            if not block.length:
                if want < self._value_bytes:
                    want *= 4
                    continue
                block, n_breaks = self._overlong_line(number), 1
            number += n_breaks
            yield block
            want = self._block_bytes

    def fault(self, text: str) -> JsonSyntaxError:
        """Return an error for the byte at hand."""
        return JsonSyntaxError(
            text, self.position, at_end=self.position >= self._text.size
        )

    def _overlong_line(self, number: int) -> Block:
        start, at_end, breaks = self.position, False, np.zeros(0, np.int64)
        while not (at_end or len(breaks)):
            buffer, at_end = self._read(self._block_bytes)
            breaks = np.flatnonzero(buffer[1:-1] == _NEWLINE)
            self.position += int(breaks[0]) + 1 if len(breaks) else len(buffer) - 2
        none, line = np.zeros(1, np.int64), np.array([number])
        buffer = np.zeros(2, np.uint8)
        return Block(buffer, start, none, none, 0, line=line, overlong=True)

    def _read(self, want: int) -> tuple[U8, bool]:
        """Return up to `want` bytes with a spare one on each side; and if at end."""
        left = max(self._text.size - self.position, 0)
        n = min(want, left) + 2
        if len(self._spare) < n or not self._reuses_buffer:
            self._spare = np.empty(n, np.uint8)
        got = self._text.read_into(self.position, self._spare[1 : n - 1])
        return self._spare[: got + 2], got >= left or got < n - 2

    def _key(self) -> str:
        data, start = self.value()
        try:
            return str(json.loads(without_half_pairs(data.decode())))
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise fault_in(data, start) from None

    def _endless(self, buffer: U8, at_end: bool, prefix: bytes) -> Exception:
        """Return why no end is found: cut, broken earlier, or simply too large."""
        data = buffer[1:-1].tobytes()
        fault = fault_in(data, self.position, prefix=prefix, at_end=True)
        if at_end or not fault.at_end:
            return fault
        return JsonTooLargeError(self.position, self._value_bytes)


@functools.lru_cache(maxsize=1)
def outer_keys(data: bytes) -> frozenset[str]:
    """Return the keys of the object that a text begins with, as far as they are seen.

    Empty for anything but an object. `data` may be cut anywhere. Several readers ask
    for those of one file, one after the other.
    """
    return frozenset(_keys(JsonCursor(MemoryText(data))))


def first_element_keys(data: bytes, key: str) -> frozenset[str]:
    """Return the keys of the first object in the list that the root has under `key`.

    Empty where there is none within `data`.
    """
    if f'"{key}"'.encode() in data or b"\\u" in data:
        cursor = JsonCursor(MemoryText(data))
        for member in _keys(cursor):
            if member == key:
                is_list = cursor.peek() == b"["
                cursor.position += is_list
                return frozenset(_keys(cursor) if is_list else ())
    return frozenset()


def _keys(cursor: JsonCursor) -> Iterator[str]:
    with suppress(JsonSyntaxError, JsonTooLargeError, RecursionError):
        for key in cursor.members():
            yield key
            cursor.value()
