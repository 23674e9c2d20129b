"""Reader of the CSV that the GGUF structure dump of the tensor tracer prints.

Two dialects: ``tensor_name,file_offset,size_bytes,layer_id,component_type,n_dims,
dim0 …`` and, of December 2025, ``tensor_name,offset_bytes,size_bytes,type,layer,
component``. Offsets count from the file or its data section, sizes may be those of
32-bit floats: see `ggscope.readers.maps.checks`.
"""

import re
from collections import Counter

from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml.types import type_number
from ggscope.model.tensors import ModelFile
from ggscope.model.trace import Trace
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.tensor_rows import MAX_ROWS, TensorRows, slice_of
from ggscope.readers.maps import STRUCTURE_INFO
from ggscope.readers.maps.checks import StatedTotals, note_claims, note_offsets
from ggscope.readers.maps.csv import CsvLine, CsvTable, note_lines, read_table, whole
from ggscope.readers.maps.memory_map import list_tensors, side_trace
from ggscope.readers.source import Source

HEADER = re.compile(r"\ufeff?tensor_name *, *(file_offset|offset_bytes) *,")
_IN_HEAD = re.compile(rb"(?m)^(?:\xef\xbb\xbf)?tensor_name *, *(?:file_offset|offset_)")
_DIMS = ("dim0", "dim1", "dim2", "dim3")
_MAX_TEXT = 80


class StructureCsvReader:
    """Reads tables of a model's tensors in CSV."""

    info = STRUCTURE_INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by the header line of the table."""
        if b"\0" in head.data or not _IN_HEAD.search(head.data):
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
        table = read_table(source, HEADER, "tensor_name")
        rows, components = _rows(table)
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


def _rows(table: CsvTable) -> tuple[TensorRows, Counter[str]]:
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
