"""Lists of tensor names: ``tensor_names.txt`` of the first tracer.

One tensor per line, its name alone or behind its number in the tracer's registry, its
address, or both. Without numbers line i, from 0, is tensor i: that is what records call
``tensor_idx``. Blank lines and those that begin with ``#`` do not count.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tensors import Place
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import refuse_larger, trace_info
from ggscope.readers.common.tensor_rows import MAX_ROWS, TensorRows
from ggscope.readers.maps import NAMES_INFO
from ggscope.readers.source import Source

_MAX_BYTES = 64 << 20
_LINE = re.compile(
    rb"\s*(?:\[?(\d{1,9})\]?\s*[:=,;\s]\s*)?(?:(0x[0-9a-fA-F]{1,16})\s*[:,;\s]\s*)?"
    rb"\"?([A-Za-z_][\w.\-/()~\[\] ]{0,200}?)\"?\s*"
)
_USUAL = re.compile(rb"(?m)^[^\n,{]*\b(?:blk\.\d+\.\w|token_embd\b|output(?:_norm)?\.)")
_FEWEST, _MAX_ODD = 3, 0.1
_SHOWN = 4


class NamesReader:
    """Reads lists of tensor names."""

    info = NAMES_INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its first lines, or by its name and these."""
        if b"\0" in head.data:
            return NOT_MINE
        rows = [row for row in _rows(head.data) if row is not None]
        lines = sum(1 for _ in _rows(head.data))
        # The head of a longer file ends within a line.
        is_list = len(rows) >= lines * (1 - _MAX_ODD) - 1
        if not rows or not is_list:
            return NOT_MINE
        if head.name.lower() in NAMES_INFO.names:
            return Sniff(85, "file name of a tensor name list, with names in it")
        usual = len(_USUAL.findall(head.data))
        if len(rows) < _FEWEST or usual * 2 < len(rows):
            return NOT_MINE
        return Sniff(50, "a list of tensor names")

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the named tensors; row i is the tensor with ``tensor_idx`` i.

        Raises
        ------
        CorruptError
            If no line is a name.
        LimitExceededError
            If the file is larger than such lists are.
        """
        refuse_larger(source, _MAX_BYTES, "Is this a list of tensor names?")
        builder = TraceBuilder()
        named: list[_Row] = []
        odd: list[int] = []
        data = source.read(0, source.size)
        for number, row in enumerate(_rows(data), 1):
            if row is None:
                odd.append(number)
            elif len(named) < MAX_ROWS:
                named.append(row)
        if not named:
            raise CorruptError("no tensor names in this file.", offset=0)
        _note_odd(builder, odd)
        if not data.endswith(b"\n"):
            builder.warn(
                Severity.INFO,
                "names_open_end",
                "the last line has no newline and may be truncated.",
                named[-1].at,
            )
        rows = TensorRows()
        for row in _in_order(named, builder):
            rows.add(row.name, file=-1, address=row.address, at=row.at)
        context.progress(source.size, source.size)
        # Such a list has no places, and lacks none.
        builder.tensors = rows.table(builder.strings, place=Place.LISTED)
        return builder.snapshot(trace_info(self.info, source, len(rows)))


@dataclass(frozen=True, slots=True)
class _Row:
    """One line; `number` is -1 where it states none."""

    number: int
    address: int
    name: str
    at: int


def _rows(data: bytes) -> Iterator[_Row | None]:
    """Yield what each line names that is not blank; None for what is no name."""
    at = 0
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        begin, at = at, at + len(line) + 1
        if not line.strip() or line.lstrip().startswith(b"#"):
            continue
        match = _LINE.fullmatch(line) if len(line) < 1024 else None
        if match is None:
            yield None
            continue
        number, address, name = match.groups()
        yield _Row(
            -1 if number is None else int(number),
            0 if address is None else int(address, 16),
            name.decode(),
            begin,
        )


def _note_odd(builder: TraceBuilder, odd: list[int]) -> None:
    if odd:
        shown = ", ".join(map(str, odd[:_SHOWN])) + (" …" if odd[_SHOWN:] else "")
        builder.warn(
            Severity.NOTICE,
            "names_stray_line",
            f"lines without a tensor name were skipped: {shown}.",
            count=len(odd),
            place=f"line {odd[0]}",
        )


def _in_order(rows: list[_Row], builder: TraceBuilder) -> list[_Row]:
    """Return the rows by their numbers, where these are 0, 1, 2 …."""
    if all(row.number < 0 for row in rows):
        return rows
    order = sorted(rows, key=lambda row: row.number)
    if [row.number for row in order] == list(range(len(order))):
        return order
    builder.warn(
        Severity.NOTICE,
        "registry_numbers",
        "Tensor numbers have gaps or duplicates, or do not begin at 0: "
        "accesses cannot be matched to tensors by number.",
    )
    return rows
