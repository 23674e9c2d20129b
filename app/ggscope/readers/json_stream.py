"""JSON files of any size, read in bounded blocks.

A cursor walks the keys of the root object and hands out small values whole and
long arrays block by block; or it hands out the lines of a JSON Lines file.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from ggscope.readers.json_blocks import Block, Bytes8, brackets, cut_array, cut_lines
from ggscope.readers.json_text import (
    WHITESPACE,
    JsonSyntaxError,
    JsonText,
    JsonTooLargeError,
    fault_in,
    without_half_pairs,
)

ArrayCutter: TypeAlias = Callable[[Bytes8, int, bool], Block | None]
"""Like `cut_array`; None where that function is to do it."""
LineCutter: TypeAlias = Callable[[Bytes8, int, bool, int], tuple[Block, int] | None]
"""From (buffer, offset, whether it reaches the end of the text, line number) to
whole lines and the number of line breaks; None where `cut_lines` is to do it."""

BLOCK_BYTES = 2 << 20
"""Decoding that much takes about 8 ms, in which no other thread runs."""
VALUE_BYTES = 8 << 20
"""Finding where a value of nothing but brackets ends takes forty times as much."""
_PEEK_BYTES = 64 * 1024
_NEWLINE = ord("\n")
# Possessive: a group that may give back keeps some 60 bytes for every escape.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb'[^\s,:"\[\]{}]+')


class JsonCursor:
    """A position in a JSON text that moves forward value by value.

    Parameters
    ----------
    text : file or memory.
    start : byte offset to begin at (behind a byte order mark).
    block_bytes : size of the blocks that arrays and lines are read in.
    value_bytes : largest value that is taken in one piece.
    reuses_buffer : a block is valid until the next one only; saves the touching of
        new memory, which is dearer than reading.

    Notes
    -----
    Methods raise JsonSyntaxError where the text is no JSON, and
    JsonTooLargeError where one value is too large.
    """

    def __init__(
        self,
        text: JsonText,
        start: int = 0,
        *,
        block_bytes: int = BLOCK_BYTES,
        value_bytes: int = VALUE_BYTES,
        reuses_buffer: bool = False,
    ) -> None:
        self.position = start
        self._spare = np.empty(0, np.uint8)
        self._reuses_buffer = reuses_buffer
        self._text = text
        self._block_bytes = block_bytes
        self._value_bytes = value_bytes
        self._chunk = b""
        self._chunk_start = 0

    def peek(self) -> bytes:
        """Skip white space; return the next byte, b"" at the end."""
        while True:
            ahead = self._ahead()
            if not ahead:
                return b""
            rest = ahead.lstrip(WHITESPACE)
            self.position += len(ahead) - len(rest)
            if rest:
                return rest[:1]

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
            key = self._string()
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
        first, start = self.peek(), self.position
        if first in (b"{", b"["):
            data = self._container()
        elif first == b'"':
            data = self._match(_STRING)
        else:
            data = self._match(_SCALAR)
        self.position = start + len(data)
        return data, start

    def blocks(self, cut: ArrayCutter | None = None) -> Iterator[Block]:
        """Yield the array that begins here block by block; end behind it.

        Parameters
        ----------
        cut : asked first where a block ends.
        """
        if self.peek() != b"[":
            raise self.fault("Expecting value")
        self.position += 1
        first, want = True, self._block_bytes
        while True:
            buffer, at_end = self._read(want)
            block = cut(buffer, self.position, first) if cut is not None else None
            if block is None:
                block = cut_array(buffer, self.position, first)
            if block is None:
                if at_end or want >= self._value_bytes:
                    raise self._endless(buffer, at_end, b"[" if first else b"[0")
                want *= 4
                continue
            self.position += block.length + block.last
            if block.last or not block.is_blank:
                yield block
                first = False
            if block.last:
                if block.data[block.length] != ord("]"):
                    self.position -= 1
                    raise self.fault("Expecting ',' delimiter")
                return
            want = self._block_bytes

    def lines(self, cut: LineCutter | None = None) -> Iterator[Block]:
        """Yield the lines from here to the end of the text, without blank ones.

        A line that is too large is skipped and yielded as an empty block.

        Parameters
        ----------
        cut : asked first where a block ends.
        """
        want, number = self._block_bytes, 1
        while True:
            buffer, at_end = self._read(want)
            data = buffer[1:-1]
            if not len(data):
                return
            found = (
                cut(buffer, self.position, at_end, number) if cut is not None else None
            )
            if found is not None:
                number += found[1]
                self.position += found[0].length
                yield found[0]
                want = self._block_bytes
                continue
            breaks = np.flatnonzero(data == _NEWLINE)
            if not len(breaks) and not at_end:
                if want < self._value_bytes:
                    want *= 4
                    continue
                yield self._overlong_line(number)
                number += 1
            else:
                block = cut_lines(buffer, self.position, breaks, at_end, number)
                number += int(np.searchsorted(breaks, block.length))
                self.position += block.length
                yield block
            want = self._block_bytes

    def fault(self, text: str) -> JsonSyntaxError:
        """Return an error for the byte at hand."""
        return JsonSyntaxError(
            text, self.position, at_end=self.position >= self._text.size
        )

    def _overlong_line(self, number: int) -> Block:
        start = self.position
        while True:
            buffer, at_end = self._read(self._block_bytes)
            breaks = np.flatnonzero(buffer[1:-1] == _NEWLINE)
            if len(breaks):
                self.position += int(breaks[0]) + 1
                break
            self.position += len(buffer) - 2
            if at_end:
                break
        nothing = np.zeros(1, np.int64)
        return Block(
            np.zeros(2, np.uint8),
            start,
            nothing,
            nothing,
            0,
            line=np.array([number]),
            overlong=True,
        )

    def _ahead(self) -> bytes:
        """Return some bytes from the position on; b"" only at the end."""
        behind = self.position - self._chunk_start
        if not 0 <= behind < len(self._chunk):
            buffer = np.empty(_PEEK_BYTES, np.uint8)
            got = self._text.read_into(self.position, buffer)
            self._chunk, self._chunk_start = buffer[:got].tobytes(), self.position
            behind = 0
        return self._chunk[behind : behind + 4096]

    def _read(self, want: int) -> tuple[Bytes8, bool]:
        """Return up to `want` bytes with a spare one on each side; and if at end."""
        left = max(self._text.size - self.position, 0)
        buffer = self._room(min(want, left) + 2)
        got = self._text.read_into(self.position, buffer[1:-1])
        return buffer[: got + 2], got >= left or got < len(buffer) - 2

    def _room(self, n_bytes: int) -> Bytes8:
        """Return a buffer of that size with anything in it."""
        if not self._reuses_buffer:
            return np.empty(n_bytes, np.uint8)
        if len(self._spare) < n_bytes:
            self._spare = np.empty(n_bytes, np.uint8)
        return self._spare[:n_bytes]

    def _string(self) -> str:
        data = self._match(_STRING)
        start = self.position
        self.position += len(data)
        try:
            return str(json.loads(without_half_pairs(data.decode("utf-8"))))
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise fault_in(data, start) from None

    def _match(self, pattern: re.Pattern[bytes]) -> bytes:
        """Return what matches here and is certain to be complete."""
        want = 256
        while True:
            buffer, at_end = self._read(want)
            data = buffer[1:-1].tobytes()
            found = pattern.match(data)
            # A string ends with its quote; a number could go on in what follows.
            if found and (pattern is _STRING or at_end or found.end() < len(data)):
                return found.group()
            if at_end or (found is None and pattern is not _STRING):
                raise fault_in(data, self.position, at_end=at_end)
            if want >= self._value_bytes:
                raise JsonTooLargeError(self.position, self._value_bytes)
            want *= 8

    def _container(self) -> bytes:
        want = _PEEK_BYTES
        while True:
            buffer, at_end = self._read(want)
            data = buffer[1:-1]
            at, depth, _ = brackets(data)
            closed = np.flatnonzero(depth == 0)
            if len(closed):
                return data[: int(at[closed[0]]) + 1].tobytes()
            if at_end or want >= self._value_bytes:
                raise self._endless(buffer, at_end, b"")
            want *= 4

    def _endless(self, buffer: Bytes8, at_end: bool, prefix: bytes) -> Exception:
        """Return why no end is found: cut, broken earlier, or simply too large."""
        fault = fault_in(
            buffer[1:-1].tobytes(), self.position, prefix=prefix, at_end=True
        )
        if at_end or not fault.at_end:
            return fault
        return JsonTooLargeError(self.position, self._value_bytes)
