"""Reader of the tensor registry that the tensor tracer dumps as CSV.

``tensor_idx,tensor_name,data_ptr,file_offset,size_bytes,layer_id``: which tensor lay
where in memory. In practice it has a header only, because nothing in the tracer ever
registers a tensor.
"""

import re

from ggscope.model.builder import TraceBuilder
from ggscope.model.tensors import ModelFile
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.tensor_rows import MAX_ROWS, TensorRows
from ggscope.readers.maps import REGISTRY_INFO
from ggscope.readers.maps.csv import CsvLine, CsvTable, note_lines, read_table, whole
from ggscope.readers.maps.memory_map import list_tensors, side_trace
from ggscope.readers.source import Source

HEADER = re.compile(r"\ufeff?tensor_idx *, *tensor_name *,")
NO_LAYER = 65535
_IN_HEAD = re.compile(rb"(?m)^(?:\xef\xbb\xbf)?tensor_idx *, *tensor_name *,")
_POINTER = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})$")
_NO_POINTER = ("(nil)", "(null)", "nil", "0x0", "0", "")


class RegistryCsvReader:
    """Reads dumps of the tracer's tensor registry."""

    info = REGISTRY_INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by the header line of the table."""
        if b"\0" in head.data or not _IN_HEAD.search(head.data):
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
        table = read_table(source, HEADER, "tensor_name")
        builder = TraceBuilder()
        rows = _rows(table, builder)
        context.progress(source.size, source.size)
        builder.models = (ModelFile(source.path.stem),) if len(rows) else ()
        note_lines(builder, table)
        layout = list_tensors(builder, rows)
        if not len(rows):
            builder.warn(
                Severity.INFO,
                "registry_empty",
                "The registry has a header but no tensor: the tracer had nothing "
                "registered, as is usual. Nothing is lost by it.",
            )
        return side_trace(builder, self.info, source, layout)


def _rows(table: CsvTable, builder: TraceBuilder) -> TensorRows:
    """Return the rows in the order of ``tensor_idx``."""
    found = [(index, line) for line in table.lines if (index := _index(line)) >= 0]
    for line in table.lines:
        if _index(line) < 0:
            table.reject(line)
    order = sorted(found, key=lambda pair: pair[0])
    if [index for index, _ in order] != list(range(len(order))):
        builder.warn(
            Severity.NOTICE,
            "registry_numbers",
            "The numbers in tensor_idx have gaps or repeats: an access cannot be "
            "joined with a tensor by its number.",
            place=f"line {found[0][1].number}",
        )
        order = found
    offsets = [_offset(line) for _, line in order]
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


def _offset(line: CsvLine) -> int:
    found = whole(line.values.get("file_offset", ""))
    return -1 if found is None else found


def _address(text: str) -> int | None:
    """Return the address that ``%p`` printed, 0 for none; None for other text."""
    stripped = text.strip()
    if stripped in _NO_POINTER:
        return 0
    match = _POINTER.match(stripped)
    return int(match[1], 16) if match else None
