"""Delimited tables (CSV) with quotes as columns; what finds rows is ``fields.c``.

A field may stand in quotes and then hold delimiters, line ends and doubled quotes. The
first line names the columns; which of them are read, and as what, readers say.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import F64, I64, U8, Array
from ggscope.model.trace import Severity
from ggscope.model.units import format_counted
from ggscope.native.declared import TableLayout, TableRows, TableTally
from ggscope.native.library import library
from ggscope.readers.api import BOM, ReadContext
from ggscope.readers.chunked import ChunkedTable
from ggscope.readers.common.block_steps import BlockSteps
from ggscope.readers.common.gathered import NONE
from ggscope.readers.common.objects import Kind
from ggscope.readers.common.packed_text import (
    LONGEST,
    TextBlocks,
    TraceText,
    warn_of_packing,
)
from ggscope.readers.common.placed_records import Field
from ggscope.readers.common.text_blocks import TextSlots
from ggscope.readers.common.text_cursor import ScanStatus

_WHOLE = (Kind.INTEGER, Kind.MICROSECONDS)
_DELIMITERS = ",;\t"
_CAPACITY = 1 << 15
_N_TEXTS = 1 << 18
_FIRST_BYTES = 1 << 20
"""Of the first block, for an early picture."""
_HEADER_BYTES = 32 << 10
_MAX_FIELDS = 4096


@dataclass(frozen=True, slots=True)
class Header:
    """The line that names the columns.

    Attributes
    ----------
    names : as they stand there; `key` is how they are compared.
    end : byte at which the rows begin.
    """

    names: tuple[str, ...]
    delimiter: str
    end: int

    @property
    def keys(self) -> tuple[str, ...]:
        """The names in lower case: versions of a program write them differently."""
        return tuple(name.lower() for name in self.names)


def header_of(data: bytes) -> Header | None:
    """Return the header of a table by its first bytes; None where it is none."""
    start = len(BOM) if data.startswith(BOM) else 0
    while data[start : start + 1] in (b"\n", b"\r"):
        start += 1
    end = data.find(b"\n", start, start + _HEADER_BYTES) + 1
    if not end:
        return None
    line = data[start:end].decode("utf-8", "replace").strip("\r\n")
    if "\0" in line:
        return None
    delimiter = max(_DELIMITERS, key=line.count)
    names = _fields_of(line, delimiter)
    if not 2 <= len(names) <= _MAX_FIELDS:
        return None
    return Header(tuple(name.strip() for name in names), delimiter, end)


class DelimitedTable:
    """Reads the rows of a table block by block.

    Parameters
    ----------
    kinds : what each column that is read holds, by its name in lower case; of several
        columns of one name the first counts.

    Attributes
    ----------
    texts : that columns of texts refer to.
    n_stray : lines that are no rows, the first at `first_stray`; -1 none.
    has_open_end : whether the last line has no line end; it is no row.
    ended : why unpacking ended too soon; "" = it did not.
    """

    def __init__(self, header: Header, kinds: Mapping[str, Kind]) -> None:
        self._header = header
        self._kinds = {k: v for k, v in kinds.items() if k in header.keys}
        groups = (
            [
                k
                for k, v in self._kinds.items()
                if v in (Kind.INTEGER, Kind.MICROSECONDS)
            ],
            [k for k, v in self._kinds.items() if v is Kind.REAL],
            [k for k, v in self._kinds.items() if v is Kind.TEXT],
        )
        self._numbers, self._reals, self._words = groups
        self._buffers = _Buffers(header, self._kinds, groups)
        self._table = ChunkedTable(
            offset=np.int64,
            **dict.fromkeys(self._numbers, np.int64),
            **dict.fromkeys(self._reals, np.float64),
            **dict.fromkeys(self._words, np.int64),
        )
        self.texts: dict[str, int] = {}
        self.n_stray, self.first_stray = 0, -1
        self.has_open_end = False
        self.ended = ""

    def __len__(self) -> int:
        return len(self._table)

    @property
    def header(self) -> Header:
        """The line that names the columns."""
        return self._header

    def __contains__(self, key: str) -> bool:
        return key in self._kinds

    def read(
        self,
        text: TraceText,
        context: ReadContext,
        size: int,
        publish: Callable[[], None] | None = None,
    ) -> None:
        """Read all rows.

        Parameters
        ----------
        publish : called with the rows so far, for an early picture; None = do not.
        """
        steps = BlockSteps(text, context, size, publish)
        with TextBlocks(text) as blocks:
            blocks.first(_FIRST_BYTES)
            at = self._header.end
            while True:
                steps.begin()
                at = self._scan(blocks, at, context)
                steps.end(has_rows=len(self) > 0)
                if len(blocks.data) - at >= LONGEST:
                    self._note_stray(blocks.offset + at, 1)
                    at = len(blocks.data)
                if blocks.is_last or not blocks.extend(at):
                    break
                at = 0
            # Nothing follows: what is left is a line without its end.
            self._scan(blocks, 0 if blocks.is_last else at, context)
            self.ended = blocks.ended

    def _scan(self, blocks: TextBlocks, at: int, context: ReadContext) -> int:
        """Take the rows of a block; return where the next one begins."""
        capacity = self._buffers
        while True:
            data = blocks.data[at:]
            n = capacity.scan(data, blocks.is_last)
            tally = capacity.tally
            if tally.n_stray:
                self._note_stray(blocks.offset + at + tally.first_stray, tally.n_stray)
            self.has_open_end |= bool(tally.has_open_end)
            if n:
                self._add(n, data, blocks.offset + at)
            at += int(tally.consumed)
            if tally.status != ScanStatus.FULL:
                return at
            context.check_cancelled()

    def _note_stray(self, offset: int, count: int) -> None:
        self.n_stray += count
        if self.first_stray < 0:
            self.first_stray = offset

    def _add(self, n: int, data: U8, offset: int) -> None:
        capacity = self._buffers
        numbers = self.texts
        table = [numbers.setdefault(t, len(numbers)) for t in capacity.texts_of(data)]
        moved = np.array([*table, -1], np.int64)
        columns: dict[str, Array] = {"offset": capacity.offset[:n] + offset}
        for k, name in enumerate(self._numbers):
            columns[name] = capacity.number[k, :n].copy()
        for k, name in enumerate(self._reals):
            columns[name] = capacity.real[k, :n].copy()
        for k, name in enumerate(self._words):
            columns[name] = moved[capacity.text[k, :n]]
        self._table.append(**columns)

    def warn(self, builder: TraceBuilder) -> None:
        """Say which lines are no rows."""
        if self.ended:
            warn_of_packing(builder, self.ended, format_counted(len(self), "row"))
        if self.n_stray:
            builder.warn(
                Severity.DATA_LOSS,
                "csv_stray_line",
                f"lines have other than {len(self._header.names)} fields; they were "
                "skipped.",
                self.first_stray,
                self.n_stray,
            )
        if self.has_open_end:
            builder.warn(
                Severity.DATA_LOSS,
                "unfinished_line",
                "the last line has no newline and may be truncated; it was skipped.",
                remedy="Add a newline if the line is complete.",
            )

    def integers(self, key: str) -> I64:
        """Return a column of whole numbers; `NONE` for none, also of all rows."""
        if key not in self._kinds:
            return np.full(len(self), NONE)
        return self._table.column(key).astype(np.int64)

    def reals(self, key: str) -> F64:
        """Return a column of numbers; NaN for none, also of all rows."""
        if key not in self._kinds:
            return np.full(len(self), np.nan)
        return self._table.column(key).astype(np.float64)

    def numbers_of_texts(self, key: str) -> I64:
        """Return a column of texts as their numbers; -1 for none, also of all rows."""
        if key not in self._kinds:
            return np.full(len(self), -1, np.int64)
        return self._table.column(key).astype(np.int64)

    def offsets(self) -> I64:
        """Return where each row begins in the text."""
        return self._table.column("offset").astype(np.int64)


class _Buffers:
    """Where a scan puts its rows; used again for each."""

    def __init__(
        self,
        header: Header,
        kinds: Mapping[str, Kind],
        groups: tuple[list[str], list[str], list[str]],
    ) -> None:
        n_fields = len(header.names)
        kind, column = np.zeros(n_fields, np.uint8), np.zeros(n_fields, np.int32)
        for group in groups:
            for place, name in enumerate(group):
                field = header.keys.index(name)
                kind[field], column[field] = kinds[name], place
        self.offset = np.empty(_CAPACITY, np.int64)
        self.number = np.empty((max(len(groups[0]), 1), _CAPACITY), np.int64)
        self.real = np.empty((max(len(groups[1]), 1), _CAPACITY), np.float64)
        self.text = np.empty((max(len(groups[2]), 1), _CAPACITY), np.int32)
        self._layout = TableLayout(
            n_fields=n_fields,
            n_texts=len(groups[2]),
            delimiter=ord(header.delimiter),
            kind=kind,
            column=column,
        )
        self._rows = TableRows(
            capacity=_CAPACITY,
            offset=self.offset,
            number=self.number,
            real=self.real,
            text=self.text,
        )
        self._texts = TextSlots.of(_N_TEXTS)
        self.tally = TableTally()

    def scan(self, data: U8, is_last: bool) -> int:
        """Read rows; return how many."""
        self._texts.clear()
        return int(
            library().ggscope_table_rows(
                data, len(data), int(is_last), self._layout, self._rows,
                self._texts.table, self.tally,
            )
        )  # fmt: skip

    def texts_of(self, data: U8) -> Sequence[str]:
        """Return the texts of the last scan as people read them."""
        return [
            str(piece, "utf-8", "replace").replace('""', '"')
            for piece in self._texts.pieces(data)
        ]


def _fields_of(line: str, delimiter: str) -> list[str]:
    """Return the fields of the first row of a text."""
    try:
        rows = csv.reader(io.StringIO(line, newline=""), delimiter=delimiter)
        return next(iter(rows), [])
    except csv.Error:
        return []


def row_fields(header: Header) -> Callable[[bytes], tuple[int, list[Field]]]:
    """Return what makes fields of the row that some bytes begin with."""

    def fields(data: bytes) -> tuple[int, list[Field]]:
        values = _fields_of(data.decode("utf-8", "replace"), header.delimiter)
        if len(values) != len(header.names):
            return 0, []
        shown = [
            (name, value.strip(), -1, 0)
            for name, value in zip(header.names, values, strict=True)
            if value.strip()
        ]
        return len(data.partition(b"\n")[0]), shown

    return fields
