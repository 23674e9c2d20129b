"""Tables of tensors in CSV inside captured output: two readers.

The writers print to standard output and errors alike, so that messages stand before
the header and a summary after the last row. Names are never quoted.

The GGUF structure dump of the tensor tracer has two dialects: ``tensor_name,
file_offset,size_bytes,layer_id,component_type,n_dims,dim0 …`` and, of December 2025,
``tensor_name,offset_bytes,size_bytes,type,layer,component``. Offsets count from the
file or its data section, sizes may be those of 32-bit floats: see
`ggscope.readers.maps.checks`.

The tensor registry is ``tensor_idx,tensor_name,data_ptr,file_offset,size_bytes,
layer_id``: which tensor lay where in memory. In practice it has a header only, because
nothing in the tracer ever registers a tensor.
"""

import re
from bisect import insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ggscope.errors import CorruptError, LimitExceededError
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml.types import type_number
from ggscope.model.tensors import ModelFile
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.tensor_rows import MAX_ROWS, TensorRows, slice_of
from ggscope.readers.maps import REGISTRY_INFO, STRUCTURE_INFO
from ggscope.readers.maps.checks import StatedTotals, note_claims, note_offsets
from ggscope.readers.maps.memory_map import list_tensors, side_trace
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


_NAME = "tensor_name"


def read_table(source: Source, header: re.Pattern[str]) -> CsvTable:
    """Return the table of a file whose header line matches `header`.

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
            "no header of a tensor table (tensor_name,file_offset,…) in this file.",
            offset=0,
            hint="Re-export the table.",
        )
    table = CsvTable(tuple(part.strip() for part in text.split(",")), n_before=n_before)
    for number, offset, text in lines:
        if not text.strip():
            continue
        if len(text) > _MAX_LINE:
            table.skip(number, offset, text)
            continue
        values = _fields(text, table.columns)
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
    builder.warn(
        Severity.INFO,
        "csv_lines_before",
        f"{table.n_before:,} lines of program output before the header were skipped.",
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
    builder.warn(
        Severity.DATA_LOSS,
        "csv_too_many",
        f"More than {MAX_ROWS:,} tensors; the rest was skipped.",
        count=table.n_left,
    )
    if table.ends_open:
        line = table.lines[-1]
        builder.warn(
            Severity.INFO,
            "csv_open_end",
            "The last row has no newline and may be truncated.",
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


def _fields(text: str, columns: tuple[str, ...]) -> dict[str, str] | None:
    """Return the fields of a line by column; None where there are too few.

    Commas too many are part of the tensor's name.
    """
    parts = text.split(",")
    surplus = len(parts) - len(columns)
    if surplus < 0:
        return None
    if surplus:
        at = columns.index(_NAME) if _NAME in columns else 0
        parts[at : at + surplus + 1] = [",".join(parts[at : at + surplus + 1])]
    return dict(zip(columns, parts, strict=True))


_STRUCTURE_HEADER = re.compile(r"\ufeff?tensor_name *, *(file_offset|offset_bytes) *,")
_STRUCTURE_IN_HEAD = re.compile(
    rb"(?m)^(?:\xef\xbb\xbf)?tensor_name *, *(?:file_offset|offset_)"
)
_DIMS = ("dim0", "dim1", "dim2", "dim3")
_MAX_TEXT = 80


class StructureCsvReader:
    """Reads tables of a model's tensors in CSV."""

    info = STRUCTURE_INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by the header line of the table."""
        if b"\0" in head.data or not _STRUCTURE_IN_HEAD.search(head.data):
            return NOT_MINE
        return Sniff(90, "a line tensor_name,file_offset,…")

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the tensors of a table.

        Raises
        ------
        CorruptError
            If there is no header line.
        LimitExceededError
            If the file is larger than such tables are.
        """
        table = read_table(source, _STRUCTURE_HEADER)
        rows, components = _structure_rows(table)
        context.progress(source.size, source.size)
        builder = TraceBuilder()
        builder.models = (ModelFile(source.path.stem),)
        note_lines(builder, table)
        layout = list_tensors(builder, rows)
        note_offsets(builder, layout)
        note_claims(builder, rows, layout, StatedTotals())
        return side_trace(
            builder,
            self.info,
            source,
            layout,
            version="2025-12" if "offset_bytes" in table.columns else "",
            summary={"component_types": dict(components.most_common())},
        )


def _structure_rows(table: CsvTable) -> tuple[TensorRows, Counter[str]]:
    rows = TensorRows()
    components: Counter[str] = Counter()
    for line in table.lines:
        offset = whole(
            line.values.get("file_offset", line.values.get("offset_bytes", ""))
        )
        size = whole(line.values.get("size_bytes", ""))
        name = line.values["tensor_name"].strip()
        if offset is None or size is None or not name or len(rows) >= MAX_ROWS:
            table.reject(line)
            continue
        layer = whole(line.values.get("layer_id", line.values.get("layer", "")))
        rows.add(
            name,
            offset=offset,
            size=size,
            layer=-1 if layer is None else layer,
            expert=slice_of(name)[1],
            type_number=type_number(line.values.get("type", "")),
            shape=_shape(line),
            at=line.offset,
        )
        kind = line.values.get("component_type", line.values.get("component", ""))
        components[kind.strip()[:_MAX_TEXT]] += 1
    return rows, components


def _shape(line: CsvLine) -> tuple[int, ...]:
    """Return the stated dimensions; () where the table has none."""
    n = whole(line.values.get("n_dims", ""))
    if n is None or not 0 < n <= len(_DIMS):
        return ()
    dims = [whole(line.values.get(column, "")) for column in _DIMS[:n]]
    known = tuple(d for d in dims if d is not None and d > 0)
    return known if len(known) == n else ()


_REGISTRY_HEADER = re.compile(r"\ufeff?tensor_idx *, *tensor_name *,")
NO_LAYER = 65535
_REGISTRY_IN_HEAD = re.compile(rb"(?m)^(?:\xef\xbb\xbf)?tensor_idx *, *tensor_name *,")
_POINTER = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})$")
_NO_POINTER = ("(nil)", "(null)", "nil", "0x0", "0", "")


class RegistryCsvReader:
    """Reads dumps of the tracer's tensor registry."""

    info = REGISTRY_INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by the header line of the table."""
        if b"\0" in head.data or not _REGISTRY_IN_HEAD.search(head.data):
            return NOT_MINE
        return Sniff(90, "a line tensor_idx,tensor_name,…")

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the registered tensors; row i is the tensor with ``tensor_idx`` i.

        Raises
        ------
        CorruptError
            If there is no header line.
        LimitExceededError
            If the file is larger than such tables are.
        """
        table = read_table(source, _REGISTRY_HEADER)
        builder = TraceBuilder()
        rows = _registry_rows(table, builder)
        context.progress(source.size, source.size)
        builder.models = (ModelFile(source.path.stem),) if len(rows) else ()
        note_lines(builder, table)
        layout = list_tensors(builder, rows)
        if not len(rows):
            builder.warn(
                Severity.INFO,
                "registry_empty",
                "The registry is empty: the tracer registered no tensors, as "
                "is usual. Nothing is lost.",
            )
        return side_trace(builder, self.info, source, layout)


def _registry_rows(table: CsvTable, builder: TraceBuilder) -> TensorRows:
    """Return the rows in the order of ``tensor_idx``."""
    listed = [(index, line) for line in table.lines if (index := _index(line)) >= 0]
    for line in table.lines:
        if _index(line) < 0:
            table.reject(line)
    order = sorted(listed, key=lambda pair: pair[0])
    if [index for index, _ in order] != list(range(len(order))):
        builder.warn(
            Severity.NOTICE,
            "registry_numbers",
            "tensor_idx has gaps or duplicates: accesses cannot be matched to "
            "tensors by number.",
            place=f"line {listed[0][1].number}",
        )
        order = listed
    stated = [whole(line.values.get("file_offset", "")) for _, line in order]
    offsets = [-1 if offset is None else offset for offset in stated]
    # The tracer writes 0 where it does not know; only one tensor can begin there.
    is_known = offsets.count(0) <= 1
    rows = TensorRows()
    for (_, line), offset in zip(order[:MAX_ROWS], offsets, strict=False):
        layer = whole(line.values.get("layer_id", ""))
        rows.add(
            line.values["tensor_name"].strip(),
            offset=offset if is_known or offset else -1,
            size=whole(line.values["size_bytes"]) or 0,
            layer=-1 if layer is None or layer >= NO_LAYER else layer,
            address=_address(line.values["data_ptr"]) or 0,
            at=line.offset,
        )
    return rows


def _index(line: CsvLine) -> int:
    """Return the row's ``tensor_idx``; -1 where the line is no row."""
    values = line.values
    is_row = (
        values["tensor_name"].strip()
        and whole(values.get("size_bytes", "")) is not None
        and _address(values.get("data_ptr", "no")) is not None
    )
    index = whole(values["tensor_idx"])
    return index if is_row and index is not None else -1


def _address(text: str) -> int | None:
    """Return the address that ``%p`` printed, 0 for none; None for other text."""
    stripped = text.strip()
    if stripped in _NO_POINTER:
        return 0
    match = _POINTER.match(stripped)
    return int(match[1], 16) if match else None
