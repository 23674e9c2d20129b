"""Comma-separated tables inside captured output: find the header, give the rows.

The writers print to standard output and errors alike, so that messages stand before
the header and a summary after the last row. Names are never quoted.
"""

import re
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ggscope.errors import CorruptError, LimitExceededError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity
from ggscope.readers.common.tensor_rows import MAX_ROWS
from ggscope.readers.source import Source

MAX_BYTES = 64 << 20
"""A quarter of a million tensors take as much."""
BOM = "\ufeff"
_SHOWN = 80
_MAX_STRAYS = 8
_MAX_LINE = 1 << 16


@dataclass(frozen=True, slots=True)
class CsvLine:
    """One line that may be a row.

    Attributes
    ----------
    number : counted from 1 in the whole file.
    offset : byte offset of its first character.
    values : by column name; as many as the header has.
    text : the line as it stands.
    """

    number: int
    offset: int
    values: dict[str, str]
    text: str


@dataclass(slots=True)
class CsvTable:
    """A table found in a text.

    Attributes
    ----------
    columns : as the header names them.
    lines : those with enough fields.
    n_before : lines that stand before the header, blank ones aside.
    strays : (line number, offset, text) of the first lines that are no rows.
    n_strays : how many there are in all.
    n_left : rows that were left out because there are too many.
    ends_open : whether the file's last line is a row without a line end.
    """

    columns: tuple[str, ...]
    lines: list[CsvLine] = field(default_factory=list)
    n_before: int = 0
    strays: list[tuple[int, int, str]] = field(default_factory=list)
    n_strays: int = 0
    n_left: int = 0
    ends_open: bool = False

    def reject(self, line: CsvLine) -> None:
        """Count a line that has the fields of a row, but not their content."""
        self.skip(line.number, line.offset, line.text)

    def skip(self, number: int, offset: int, text: str) -> None:
        """Count a line that is no row; only the first few are kept."""
        self.n_strays += 1
        insort(self.strays, (number, offset, text[:_SHOWN]))
        del self.strays[_MAX_STRAYS:]


def read_table(source: Source, header: re.Pattern[str], name_column: str) -> CsvTable:
    """Return the table of a file whose header line matches `header`.

    Parameters
    ----------
    name_column : takes the surplus where a line has too many commas.

    Raises
    ------
    CorruptError
        If no line matches.
    LimitExceededError
        If the file is larger than such tables are.
    """
    data = _content(source)
    lines = _lines(data)
    n_before = 0
    for _, _, text in lines:
        if header.match(text):
            break
        n_before += bool(text.strip())
    else:
        raise CorruptError(
            "no line of this file is the header of a table of tensors "
            "(tensor_name,file_offset,…).",
            offset=0,
            hint="Write the table again.",
        )
    table = CsvTable(tuple(part.strip() for part in text.split(",")), n_before=n_before)
    for number, offset, text in lines:
        if not text.strip():
            continue
        if len(text) > _MAX_LINE:
            table.skip(number, offset, text)
            continue
        values = _fields(text, table.columns, name_column)
        if values is None or header.match(text):
            table.skip(number, offset, text)
        elif len(table.lines) < MAX_ROWS:
            table.lines.append(CsvLine(number, offset, values, text))
        else:
            table.n_left += 1
    last = table.lines[-1].offset if table.lines else -1
    table.ends_open = last >= 0 and b"\n" not in data[last:]
    return table


def _content(source: Source) -> bytes:
    if source.size > MAX_BYTES:
        raise LimitExceededError(
            f"the file has {source.size:,} bytes; a table of tensors has at most "
            f"{MAX_BYTES:,}.",
            hint="Is this a table of tensors?",
        )
    return source.read(0, source.size)


def whole(text: str) -> int | None:
    """Return the number that `text` is; None where it is none. "" counts as none."""
    stripped = text.strip()
    digits = stripped.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 20:
        return None
    return int(stripped)


def note_lines(builder: TraceBuilder, table: CsvTable) -> None:
    """Note lines that are no rows, and what stands before the header."""
    if table.n_before:
        builder.warn(
            Severity.INFO,
            "csv_lines_before",
            f"{table.n_before:,} lines before the header are messages of the program "
            "that wrote the table; they were skipped.",
            count=table.n_before,
            place="line 1",
        )
    if table.strays:
        number, offset, text = table.strays[0]
        shown = text.strip()[:_SHOWN]
        builder.warn(
            Severity.NOTICE,
            "csv_stray_line",
            f"{_numbers([n for n, _, _ in table.strays])} no row of the table and was "
            f"skipped: “{shown}”."
            if table.n_strays == 1
            else f"{_numbers([n for n, _, _ in table.strays])} no rows of the table "
            f"and were skipped; the first is “{shown}”.",
            offset,
            count=table.n_strays,
            place=f"line {number}",
        )
    if table.n_left:
        builder.warn(
            Severity.DATA_LOSS,
            "csv_too_many",
            f"More than {MAX_ROWS:,} tensors are listed; the rest was left out.",
            count=table.n_left,
        )
    if table.ends_open:
        line = table.lines[-1]
        builder.warn(
            Severity.INFO,
            "csv_open_end",
            "The last row has no line end: it may be cut.",
            line.offset,
            place=f"line {line.number}",
        )


def _numbers(lines: Sequence[int]) -> str:
    if len(lines) == 1:
        return f"Line {lines[0]} is"
    shown = ", ".join(map(str, lines[:4]))
    return f"Lines {shown}{' …' if len(lines) > 4 else ''} are"


def _lines(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield (number, byte offset, text without its end) of each line."""
    offset = 0
    number = 0
    while offset <= len(data):
        end = data.find(b"\n", offset)
        line = data[offset:] if end < 0 else data[offset:end]
        number += 1
        text = line.decode("utf-8", "replace").rstrip("\r")
        yield number, offset, text.removeprefix(BOM)
        offset += len(line) + 1


def _fields(
    text: str, columns: tuple[str, ...], name_column: str
) -> dict[str, str] | None:
    """Return the fields of a line by column; None where there are too few."""
    parts = text.split(",")
    surplus = len(parts) - len(columns)
    if surplus < 0:
        return None
    if surplus:
        at = columns.index(name_column) if name_column in columns else 0
        parts[at : at + surplus + 1] = [",".join(parts[at : at + surplus + 1])]
    return dict(zip(columns, parts, strict=True))
