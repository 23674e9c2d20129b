"""Tables of numbers in text, a line each, block by block as arrays."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import F64, I64, U8, Bools
from ggscope.model.trace import Severity
from ggscope.readers.api import Estimate, Head, ReadContext
from ggscope.readers.source import Source

_NEWLINE, _RETURN, _COMMA, _BLANK = (ord(c) for c in "\n\r, ")
_MAX_DIGITS = 18
_MAX_NUMBER_CHARS = 32
_MAX_TEXT_CHARS = 128
_FACT = re.compile(r"(\w[\w/]*)=(\S+)")
BLOCK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, eq=False)
class CsvRows:
    """Lines of a text with a fixed number of fields.

    Attributes
    ----------
    data : uint8, whole lines.
    line : int64[n], which line of `data` each row is, from 0.
    bounds : int64[n, c + 1]; field k of row i is
        ``data[bounds[i, k] + 1 : bounds[i, k + 1]]``.
    strays : int64, lines that have another number of fields; blank ones and
        comments (``#``) aside.
    n_lines : all lines of `data`.
    """

    data: U8
    line: I64
    bounds: I64
    strays: I64
    n_lines: int

    def integers(self, column: int) -> tuple[I64, Bools]:
        """Return the numbers of a column, and which fields are whole numbers.

        Blanks around a number are allowed, signs are not.
        """
        start, end = self._trimmed(column)
        width = end - start
        good = (width > 0) & (width <= _MAX_DIGITS)
        value = np.zeros(len(start), np.int64)
        for k in range(int(width[good].max(initial=0))):
            inside = good & (k < width)
            digit = self.data[np.where(inside, start + k, 0)].astype(np.int64) - 48
            good &= ~inside | ((digit >= 0) & (digit <= 9))
            value = np.where(inside, value * 10 + digit, value)
        return value, good

    def decimals(self, column: int) -> F64:
        """Return the numbers of a column, NaN for what is none."""
        start, end = self._trimmed(column)
        width = np.minimum(end - start, _MAX_NUMBER_CHARS)
        widest = int(width.max(initial=0))
        if not widest:
            return np.full(len(start), np.nan)
        k = np.arange(widest)
        inside = k < width[:, None]
        chars = np.where(inside, self.data[np.where(inside, start[:, None] + k, 0)], 0)
        texts = np.ascontiguousarray(chars, np.uint8).view(f"S{widest}").reshape(-1)
        texts[width == 0] = b"nan"
        try:
            return texts.astype(np.float64)
        except ValueError:
            return np.array([_number_slow(text) for text in texts.tolist()])

    def texts(self, column: int) -> npt.NDArray[np.bytes_]:
        """Return a column as texts, cut behind 128 bytes."""
        start, end = self._trimmed(column)
        width = np.minimum(end - start, _MAX_TEXT_CHARS)
        widest = max(int(width.max(initial=0)), 1)
        k = np.arange(widest)
        inside = k < width[:, None]
        chars = np.where(inside, self.data[np.where(inside, start[:, None] + k, 0)], 0)
        return np.ascontiguousarray(chars, np.uint8).view(f"S{widest}").reshape(-1)

    def _trimmed(self, column: int) -> tuple[I64, I64]:
        """Return where the fields of a column begin and end, without one blank."""
        start, end = self.bounds[:, column] + 1, self.bounds[:, column + 1]
        last = len(self.data) - 1
        start = start + ((start < end) & (self.data[np.minimum(start, last)] == _BLANK))
        end = end - ((end > start) & (self.data[np.maximum(end - 1, 0)] == _BLANK))
        return start, end


def rows_of(data: U8, n_columns: int) -> CsvRows:
    """Return the lines with `n_columns` fields of a text that ends with a line end."""
    ends = np.flatnonzero(data == _NEWLINE)
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)
    n_lines = len(ends)
    has_return = (ends > starts) & (data[np.maximum(ends - 1, 0)] == _RETURN)
    stops = ends - has_return
    commas = np.flatnonzero(data == _COMMA)
    first = np.searchsorted(commas, starts)
    n_commas = np.searchsorted(commas, stops) - first
    fits = (n_commas == n_columns - 1) & (stops > starts)
    line = np.flatnonzero(fits)
    inner = commas[first[line, None] + np.arange(n_columns - 1)]
    bounds = np.column_stack([starts[line] - 1, inner, stops[line]])
    filled = stops > starts
    is_comment = filled & (data[np.minimum(starts, len(data) - 1)] == ord("#"))
    return CsvRows(
        data, line, bounds, np.flatnonzero(filled & ~fits & ~is_comment), n_lines
    )


def _number_slow(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def comment_facts(text: bytes) -> dict[str, str]:
    """Return what lines of comment say as ``key=value``, those of layers aside."""
    facts: dict[str, str] = {}
    for line in text.decode("utf-8", "replace").splitlines():
        if line.startswith("# ") and not line.startswith("# layer="):
            facts |= dict(_FACT.findall(line))
    return facts


def table_estimate(
    head: Head, row_bytes: int, times: int, fixed: int = 0
) -> Estimate | None:
    """Return what reading a table would cost, by the length of its rows.

    Parameters
    ----------
    row_bytes, times : memory of a row in the end, and how often as much while it is
        read.
    fixed : memory of reading beside rows.
    """
    n_lines = head.data.count(b"\n")
    if not n_lines:
        return None
    records = head.size * n_lines // len(head.data)
    final = records * row_bytes
    return Estimate(records, final, times * final + fixed)


def warn_of_strays(builder: TraceBuilder, n_strays: int, *, has_open_end: bool) -> None:
    """Warn of lines of a table that were skipped."""
    builder.warn(
        Severity.DATA_LOSS,
        "stray_line",
        "lines that are no rows of the table were skipped.",
        count=n_strays,
    )
    if has_open_end:
        warn_of_open_end(builder)


def warn_of_open_end(builder: TraceBuilder, place: str = "") -> None:
    """Warn of a last line that may be cut."""
    builder.warn(
        Severity.DATA_LOSS,
        "unfinished_line",
        "the last line has no newline and may be truncated; it was skipped.",
        place=place,
        remedy="Add a newline if the line is complete.",
    )


class CsvBlocks:
    """Yields the whole lines of a table, block by block.

    Attributes
    ----------
    has_open_end : whether the last line has no line end; known behind the last block.
    """

    def __init__(
        self, source: Source, context: ReadContext, start: int, n_columns: int
    ) -> None:
        self._source, self._context = source, context
        self._start, self._n_columns = start, n_columns
        self.has_open_end = False

    def __iter__(self) -> Iterator[CsvRows]:
        rest = np.empty(0, np.uint8)
        source = self._source
        for offset, block in source.blocks(self._start, source.size, BLOCK_BYTES):
            data: U8 = np.concatenate([rest, block])
            breaks = np.flatnonzero(data == _NEWLINE)
            end = int(breaks[-1]) + 1 if len(breaks) else 0
            if end:
                yield rows_of(data[:end], self._n_columns)
            rest = data[end:].copy()
            if len(rest) > BLOCK_BYTES:
                raise CorruptError(
                    f"a line is longer than {BLOCK_BYTES >> 20} MiB.", offset=offset
                )
            self._context.progress(offset + len(block), source.size)
        self.has_open_end = bool(rest.tobytes().strip())
