"""JSON files of any size, read in bounded blocks.

A cursor walks the keys of the root object and hands out small values whole and
long arrays block by block; or it hands out the lines of a JSON Lines file.

Brackets outside strings are found with a few numpy passes (about 1.7 GB/s), so a
block can be given to a typed decoder in one call of some milliseconds: nobody else
waits long for the interpreter, and the place of every element is known.
"""

import functools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64
from ggscope.readers.api import BOM
from ggscope.readers.common.json_text import (
    WHITESPACE,
    JsonSyntaxError,
    JsonText,
    JsonTooLargeError,
    MemoryText,
    fault_in,
    without_half_pairs,
)

_CACHE_BYTES = 128 * 1024
_QUOTE, _BACKSLASH, _COLON = ord('"'), ord("\\"), ord(":")
_ELEMENT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^\s,"\[\]{}]+|,', re.DOTALL)

T = TypeVar("T")
Bytes8 = npt.NDArray[np.uint8]
BLOCK_BYTES = 2 << 20
"""Decoding that much takes about 8 ms, in which no other thread runs."""

VALUE_BYTES = 8 << 20
"""Finding where a value of nothing but brackets ends takes forty times as much."""

_PEEK_BYTES = 64 * 1024
_NEWLINE = ord("\n")
# Possessive: a group that may give back keeps some 60 bytes for every escape.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb'[^\s,:"\[\]{}]+')


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Neighbouring elements of an array, or lines of a JSON Lines file.

    Attributes
    ----------
    buffer : uint8[n + 2]; ``data`` with one spare byte on each side.
    offset : file offset of ``data[0]``.
    start, end : int64[m], the elements in ``data``. Of an array only those that
        are objects or arrays; plain values stand in the gaps.
    length : bytes of ``data`` that belong to the block.
    first, last : whether the array begins or ends here.
    line : int64[m], 1-based line numbers, for lines; else None.
    overlong : the block stands for one line that is too large to take; its only
        element is empty.
    """

    buffer: Bytes8
    offset: int
    start: I64
    end: I64
    length: int
    first: bool = False
    last: bool = False
    line: I64 | None = None
    overlong: bool = False

    @property
    def data(self) -> Bytes8:
        """The bytes, without the spare ones."""
        return self.buffer[1:-1]

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing but white space."""
        if len(self.start):
            return False
        return not self.element(0, self.length).strip(WHITESPACE)

    def element(self, start: int, end: int) -> bytes:
        """Return a copy of bytes ``[start, end)`` of ``data``."""
        return self.data[start:end].tobytes()

    def decode_array(self, decoder: msgspec.json.Decoder[list[T]]) -> list[T] | None:
        """Return the elements of an array, decoded in one call.

        None where they are not all what the decoder expects, or where anything
        but commas stands between them: then go through `elements`.
        """
        if not len(self.start):
            return None
        begin, finish = int(self.start[0]), int(self.end[-1])
        before = self.element(0, begin).strip(WHITESPACE)
        after = self.element(finish, self.length).strip(WHITESPACE)
        if before != (b"" if self.first else b",") or after:
            return None
        # Brackets are put around the elements in place instead of copying them.
        buffer, ends = self.buffer, self.buffer[[begin, finish + 1]]
        buffer[begin], buffer[finish + 1] = ord("["), ord("]")
        try:
            values = decoder.decode(buffer[begin : finish + 2].data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        finally:
            buffer[begin], buffer[finish + 1] = ends
        return values

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

    def elements(self) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of every element of an array, plain values too.

        Slow: for blocks that the typed decoder refuses.

        Raises
        ------
        JsonSyntaxError
            If the elements are not separated by single commas.
        """
        after_value, after_comma = not self.first, False
        for start, end, is_comma in self._tokens():
            if is_comma != after_value:
                text = "Expecting value" if is_comma else "Expecting ',' delimiter"
                raise JsonSyntaxError(text, self.offset + start)
            if not is_comma:
                yield start, end
            after_value, after_comma = not is_comma, is_comma
        if after_comma:
            raise JsonSyntaxError("Expecting value", self.offset + self.length)

    def _tokens(self) -> Iterator[tuple[int, int, bool]]:
        """Yield (start, end, whether it is a comma) of all that is no white space."""
        gap = 0
        starts, ends = self.start.tolist(), self.end.tolist()
        for begin, finish in zip(
            [*starts, self.length], [*ends, self.length], strict=True
        ):
            for token in _ELEMENT.finditer(self.element(gap, begin)):
                yield gap + token.start(), gap + token.end(), token.group() == b","
            if begin < finish:
                yield begin, finish, False
            gap = finish


def brackets(data: Bytes8) -> tuple[I64, I64, bool]:
    """Return the brackets of a text that stand outside strings.

    Parameters
    ----------
    data : text that begins outside any string.

    Returns
    -------
    position int64[m] of every ``[ ] { }``, depth int64[m] after each of them
    (counted from 0 at the start), and whether the text ends inside a string.
    """
    at, quote = _marks(data)
    # Quotes counted between brackets give the parity at each bracket; uint8
    # overflow keeps parity. Ten times faster than a running sum over all bytes.
    edges = np.concatenate([[0], at])
    counts = np.zeros(len(edges), np.uint8)
    if len(data):
        np.add.reduceat(quote.view(np.uint8), edges, dtype=np.uint8, out=counts)
    parity = np.cumsum(counts, dtype=np.uint8) & 1
    at = at[parity[:-1] == 0]
    step = np.where(data[at] | 0x20 == ord("{"), 1, -1)
    return at, np.cumsum(step), bool(parity[-1])


def n_members(data: Bytes8) -> int:
    """Return how many members (``key: value``) stand in a text of whole values."""
    _, quote = _marks(data)
    inside = np.cumsum(quote, dtype=np.uint8) & 1
    return int(np.count_nonzero((data == _COLON) & (inside == 0)))


def cut_array(buffer: Bytes8, offset: int, first: bool) -> Block | None:
    """Return the whole elements at the start of a text; None if there is none."""
    data = buffer[1:-1]
    at, depth, in_string = brackets(data)
    stops = np.flatnonzero(depth < 0)
    last = len(stops) > 0
    if last:
        at, depth = at[: stops[0] + 1], depth[: stops[0] + 1]
    before = np.concatenate([[0], depth[:-1]])
    begins = at[(depth == 1) & (before == 0)]
    ends = at[(depth == 0) & (before == 1)] + 1
    if last:
        length = int(at[-1])
    elif len(ends):
        length = int(ends[-1])
    elif len(begins) or in_string:
        return None
    else:
        length = _whole_scalars(data)
        if not length:
            return None
    return Block(
        buffer, offset, begins[: len(ends)], ends, length, first=first, last=last
    )


def cut_lines(
    buffer: Bytes8, offset: int, breaks: I64, at_end: bool, number: int
) -> Block:
    """Return the whole lines at the start of a text."""
    data = buffer[1:-1]
    length = len(data) if at_end else int(breaks[-1]) + 1
    end = breaks
    if at_end and (not len(breaks) or int(breaks[-1]) + 1 < len(data)):
        end = np.append(breaks, len(data))
    start = np.concatenate([[0], end[:-1] + 1]).astype(np.int64)
    line = number + np.arange(len(start))
    returns = (end > start) & (data[np.maximum(end - 1, 0)] == ord("\r"))
    end = end - returns
    filled = end > start
    return Block(buffer, offset, start[filled], end[filled], length, line=line[filled])


def _marks(data: Bytes8) -> tuple[I64, npt.NDArray[np.bool_]]:
    """Return the positions of all brackets, and which bytes are unescaped quotes."""
    quote = np.empty(len(data), np.bool_)
    marks: list[I64] = [np.zeros(0, np.int64)]
    has_escapes = False
    # Pieces that stay in the processor's cache: four times as fast as whole blocks.
    for start in range(0, len(data), _CACHE_BYTES):
        piece = data[start : start + _CACHE_BYTES]
        np.equal(piece, _QUOTE, out=quote[start : start + _CACHE_BYTES])
        has_escapes = has_escapes or bool((piece == _BACKSLASH).any())
        # Bit 5 alone distinguishes "[" from "{" and "]" from "}".
        folded = piece | 0x20
        marks.append(
            np.flatnonzero((folded == ord("{")) | (folded == ord("}"))) + start
        )
    if has_escapes:
        quote[_escaped(data)] = False
    return np.concatenate(marks), quote


def _escaped(data: Bytes8) -> I64:
    """Return the positions of bytes behind an odd number of backslashes."""
    slashes = np.flatnonzero(data == _BACKSLASH)
    if not len(slashes):
        return slashes
    breaks = np.flatnonzero(np.diff(slashes) != 1)
    first = slashes[np.concatenate([[0], breaks + 1])]
    last = slashes[np.concatenate([breaks, [len(slashes) - 1]])]
    behind = last[(last - first) % 2 == 0] + 1
    inside: I64 = behind[behind < len(data)]
    return inside


def _whole_scalars(data: Bytes8) -> int:
    """Return where to cut a stretch of plain values: before its last comma."""
    quote = data == _QUOTE
    quote[_escaped(data)] = False
    inside = np.cumsum(quote, dtype=np.uint8) & 1
    commas = np.flatnonzero((data == ord(",")) & (inside == 0))
    if len(commas) and int(commas[-1]):
        return int(commas[-1])
    return 0 if data.tobytes().strip(WHITESPACE) else len(data)


ArrayCutter: TypeAlias = Callable[[Bytes8, int, bool], Block | None]
"""Like `cut_array`; None where that function is to do it."""
LineCutter: TypeAlias = Callable[[Bytes8, int, bool, int], tuple[Block, int] | None]
"""From (buffer, offset, whether it reaches the end of the text, line number) to
whole lines and the number of line breaks; None where `cut_lines` is to do it."""


class JsonCursor:
    """A position in a JSON text that moves forward value by value.

    Parameters
    ----------
    text : file or memory.
    start : byte offset to begin at; None = behind a byte order mark, if there is one.
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
        start: int | None = None,
        *,
        block_bytes: int = BLOCK_BYTES,
        value_bytes: int = VALUE_BYTES,
        reuses_buffer: bool = False,
    ) -> None:
        if start is None:
            mark = np.empty(len(BOM), np.uint8)
            got = text.read_into(0, mark)
            start = len(BOM) if mark[:got].tobytes() == BOM else 0
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
            lines = (
                cut(buffer, self.position, at_end, number) if cut is not None else None
            )
            if lines is not None:
                number += lines[1]
                self.position += lines[0].length
                yield lines[0]
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
        buffer = self._buffer_of(min(want, left) + 2)
        got = self._text.read_into(self.position, buffer[1:-1])
        return buffer[: got + 2], got >= left or got < len(buffer) - 2

    def _buffer_of(self, n_bytes: int) -> Bytes8:
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
            match = pattern.match(data)
            # A string ends with its quote; a number could go on in what follows.
            if match and (pattern is _STRING or at_end or match.end() < len(data)):
                return match.group()
            if at_end or (match is None and pattern is not _STRING):
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
    if f'"{key}"'.encode() not in data and b"\\u" not in data:
        return frozenset()
    cursor = JsonCursor(MemoryText(data))
    try:
        for member in cursor.members():
            if member != key:
                cursor.value()
                continue
            if cursor.peek() != b"[":
                break
            cursor.position += 1
            return frozenset(_keys(cursor))
    except (JsonSyntaxError, JsonTooLargeError, RecursionError):
        pass
    return frozenset()


def _keys(cursor: JsonCursor) -> Iterator[str]:
    if cursor.peek() != b"{":
        return
    try:
        for key in cursor.members():
            yield key
            cursor.value()
    except (JsonSyntaxError, JsonTooLargeError, RecursionError):
        return
