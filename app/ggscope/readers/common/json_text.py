"""Finds syntax errors and repeated keys of JSON texts; removes what pasting adds.

Typed decoders ignore keys that an object has twice. `repeats` finds them:
``json_repeats.c`` scans a text at about 1 GB/s, and a decoder in Python reads what the
scan cannot decide.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ggscope.errors import LimitExceededError
from ggscope.model.tables import I64
from ggscope.native.library import library

_LOCATE_BYTES = 4 << 20

# Strings come first in the alternation, so that "//" inside one is kept.
_PASTED = re.compile(
    rb'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
    rb"|//[^\n]*"
    rb"|/\*.*?\*/"
    rb"|^(?:\xef\xbb\xbf)?[ \t]*"
    rb"(?:```\w*|(?:json)?[ \t]*(?:Copy code|Copy)|json)[ \t]*\r?$",
    re.MULTILINE | re.DOTALL,
)
_NOT_A_NUMBER = re.compile(r"[:,\[]\s*(-?Infinity|NaN)")
# What can be left of a literal, a number or an escape where a file is cut.
_CUT_TOKEN = re.compile(rb"\\?[\w.+-]{0,8}")
_INT_DIGITS = 40
# Escaped backslashes and whole pairs come first, so that they are stepped over.
_HALF_PAIRS = re.compile(
    r"\\\\"
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


class JsonText(Protocol):
    """Bytes of known size that can be read piece by piece (a `Source` is one)."""

    size: int

    def read_into(self, offset: int, buffer: npt.NDArray[np.uint8]) -> int:
        """Fill `buffer` from `offset`; return the bytes read (short at the end)."""
        ...


class MemoryText:
    """Bytes in memory with the interface of a file."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._bytes = np.frombuffer(data, np.uint8)

    def read_into(self, offset: int, buffer: npt.NDArray[np.uint8]) -> int:
        """Fill `buffer` from `offset`; return the bytes copied."""
        part = self._bytes[offset : offset + len(buffer)]
        buffer[: len(part)] = part
        return len(part)


class JsonSyntaxError(Exception):
    """The text is not JSON.

    Parameters
    ----------
    text : what is wrong, in the words of the standard library's json module.
    offset : byte offset of the fault in the file.
    at_end : whether the text simply stops there (a cut file).
    """

    def __init__(self, text: str, offset: int, *, at_end: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.offset = offset
        self.at_end = at_end


class JsonTooLargeError(Exception):
    """One value or line is larger than what is taken in one piece.

    Parameters
    ----------
    offset : where the value begins.
    limit : bytes allowed.
    """

    def __init__(self, offset: int, limit: int) -> None:
        super().__init__(f"a value at byte {offset} is larger than {limit} bytes")
        self.offset = offset
        self.limit = limit

    def as_limit(self, hint: str, path: Path | None = None) -> LimitExceededError:
        """Return the error that says so."""
        return LimitExceededError(
            f"a value is larger than {self.limit:,} bytes.",
            path=path,
            offset=self.offset,
            hint=hint,
        )


@dataclass(frozen=True, slots=True)
class TextPlace:
    """A position as editors show it.

    Attributes
    ----------
    line, column : 1-based; columns count characters.
    char : 0-based number of the character in the file.
    """

    line: int
    column: int
    char: int


def parse_json(text: str) -> object:
    """Return the value of a JSON text, as strict as the standard asks.

    Raises
    ------
    json.JSONDecodeError
        If it is no JSON, or holds NaN or Infinity.
    RecursionError
        If it is nested more deeply than Python can follow.

    Notes
    -----
    Integers of more than 40 digits come back as floats: Python refuses to
    convert very long ones, and no column holds them.
    """
    try:
        return _DECODER.decode(text)
    except _NotANumberError as error:
        match = _NOT_A_NUMBER.search(text)
        place = match.start(1) if match else 0
        raise json.JSONDecodeError(str(error), text, place) from None


class TolerantDecoder:
    """Decodes JSON values; what they hold beyond JSON costs no more than itself.

    NaN, Infinity, numbers beyond all bounds and values nested too deeply become None,
    halves of surrogate pairs U+FFFD, and of a key that an object names twice the last
    value counts. Not for several threads at a time.

    Parameters
    ----------
    parse_float : makes numbers with a point or an exponent; raises ValueError.

    Attributes
    ----------
    n_odd : values that became None, or text that was replaced.
    n_repeated : keys that were named again.
    repeated : one of the first object that did so.
    """

    def __init__(self, parse_float: Callable[[str], object] = float) -> None:
        self.n_odd = 0
        self.n_repeated = 0
        self.repeated = ""
        self._make = parse_float
        self._decoder = json.JSONDecoder(
            parse_float=self._float,
            parse_int=self._int,
            parse_constant=self._nothing,
            object_pairs_hook=self._object,
        )

    def decode(self, text: str) -> object:
        """Return the value of a text. Raises json.JSONDecodeError where it is none."""
        sound = without_half_pairs(text)
        self.n_odd += sound != text
        try:
            value: object = self._decoder.decode(sound)
        except RecursionError:
            self.n_odd += 1
            return None
        return value

    def _float(self, digits: str) -> object:
        try:
            return self._make(digits)
        except ValueError:
            return self._nothing(digits)

    def _int(self, digits: str) -> object:
        is_short = len(digits) <= _INT_DIGITS
        return int(digits) if is_short else self._nothing(digits)

    def _nothing(self, _: str) -> object:
        self.n_odd += 1
        return None

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        members = dict(pairs)
        if len(members) < len(pairs):
            if not self.n_repeated:
                counts = Counter(key for key, _ in pairs)
                self.repeated = counts.most_common(1)[0][0]
            self.n_repeated += len(pairs) - len(members)
        return members


def without_half_pairs(text: str) -> str:
    r"""Return a JSON text with ``\ufffd`` for each escape of half a surrogate pair.

    Lengths stay. Python takes such text, but can neither encode nor print it.
    """
    return _HALF_PAIRS.sub(_whole_pair, text) if "\\u" in text else text


def locate(text: JsonText, offset: int) -> TextPlace:
    """Return line, column and character number of byte `offset`. O(offset)."""
    line, char, line_start = 1, 0, 0
    buffer = np.empty(min(_LOCATE_BYTES, max(offset, 1)), np.uint8)
    position = 0
    while position < offset:
        want = min(len(buffer), offset - position)
        got = text.read_into(position, buffer[:want])
        if got == 0:
            break
        part = buffer[:got]
        breaks = np.flatnonzero(part == ord("\n"))
        line += len(breaks)
        if len(breaks):
            last = int(breaks[-1]) + 1
            line_start = char + _characters(part[:last])
        char += _characters(part)
        position += got
    return TextPlace(line, char - line_start + 1, char)


def fault_in(
    data: bytes, offset: int, *, prefix: bytes = b"", at_end: bool = False
) -> JsonSyntaxError:
    """Return what the standard parser has against ``prefix + data``.

    Parameters
    ----------
    data : the text at fault.
    offset : byte offset of `data` in the file.
    prefix : what must stand before `data` to make it a value.
    at_end : whether `data` reaches the end of the file.
    """
    # Latin-1 makes every byte one character: positions are byte offsets.
    text = (prefix + data).decode("latin-1")
    try:
        parse_json(text)
    except json.JSONDecodeError as error:
        where = max(error.pos - len(prefix), 0)
        cut = at_end and (
            error.msg.startswith("Unterminated string")
            or _CUT_TOKEN.fullmatch(data[max(where, 0) :].rstrip()) is not None
        )
        return JsonSyntaxError(error.msg, offset + where, at_end=cut)
    except RecursionError:
        return JsonSyntaxError("Nested too deeply", offset)
    return JsonSyntaxError("Invalid JSON", offset)


def without_paste(data: bytes) -> bytes:
    """Return `data` with comments and "json"/"Copy code" lines turned to spaces.

    Lengths and line breaks stay, so every offset and line number stays true.
    """
    return _PASTED.sub(_blank, data)


def _blank(match: re.Match[bytes]) -> bytes:
    text = match.group()
    if text.startswith(b'"'):
        return text
    return re.sub(rb"[^\r\n]", b" ", text)


def _whole_pair(match: re.Match[str]) -> str:
    return "\\ufffd" if match.lastgroup == "half" else match.group()


def _characters(part: npt.NDArray[np.uint8]) -> int:
    """Return the number of UTF-8 characters that begin in `part`."""
    return len(part) - int(np.count_nonzero((part & 0xC0) == 0x80))


def _bounded_int(digits: str) -> int | float:
    return int(digits) if len(digits) <= _INT_DIGITS else float(digits)


class _NotANumberError(Exception):
    pass


def _refuse(name: str) -> float:
    raise _NotANumberError(f"NaN/Infinity is not JSON: {name}")


_DECODER = json.JSONDecoder(parse_int=_bounded_int, parse_constant=_refuse)


_Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Repeats:
    """Keys that were named again.

    Attributes
    ----------
    count : of all elements.
    element : number of the first element that has one.
    key : the first one.
    """

    count: int
    element: int
    key: str


def repeats(data: _Bytes, start: I64, end: I64) -> Repeats | None:
    """Return what the elements of a text name twice; None for nothing.

    Parameters
    ----------
    data : uint8[n], text in which each element is sound JSON.
    start, end : int64[m], the elements in `data`, in order; only commas and white
        space stand between them.
    """
    if not len(start):
        return None
    begin = int(start[0])
    part = np.ascontiguousarray(data[begin : int(end[-1])])
    place = np.zeros(2, np.int64)
    n = library().ggscope_json_repeats(part, len(part), place)
    if n < 0:
        return repeats_decoded(data, start, end)
    if not n:
        return None
    at, length = place.tolist()
    element = int(np.searchsorted(start, begin + at, "right")) - 1
    key = part[at : at + length].tobytes().decode("utf-8", "replace")
    return Repeats(n, element, key)


def repeats_in(text: bytes) -> Repeats | None:
    """Return the same of one value."""
    data = np.frombuffer(text, np.uint8)
    return repeats(data, np.array([0]), np.array([len(text)]))


def repeats_decoded(data: _Bytes, start: I64, end: I64) -> Repeats | None:
    """Return the same by decoding each element."""
    decoder, first = TolerantDecoder(), -1
    bounds = zip(start.tolist(), end.tolist(), strict=True)
    for element, (begin, finish) in enumerate(bounds):
        decoder.decode(data[begin:finish].tobytes().decode("utf-8", "replace"))
        if decoder.n_repeated and first < 0:
            first = element
    if first < 0:
        return None
    return Repeats(decoder.n_repeated, first, decoder.repeated)
