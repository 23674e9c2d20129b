"""The spans of a trace as a table: CSV, TSV, Markdown, JSON and Parquet.

One row per span in the order of the trace. Columns that the trace does not
have are left out; a value that a span lacks is empty (null), such as the duration
where no end was recorded.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.analysis.reads.op_io import Direction, op_accesses
from ggscope.errors import ExportError
from ggscope.exporters.columns import (
    ExportColumn,
    Numbers,
    Texts,
    known_numbers,
    texts_by_id,
    utf8,
)
from ggscope.exporters.events import Events
from ggscope.model.tables import (
    I64,
    NO_WAIT,
    AccessKind,
    Array,
    Phase,
    Quality,
    quality_of,
)
from ggscope.model.trace import Trace, lane_titles
from ggscope.sanitize import Value, csv_text, json_text, markdown_row, tsv_text

_CHUNK_ROWS = 1 << 14
_GROUP = 1 << 17
"""Rows of a row group of a Parquet file."""
_OF_NUMBERS = ("layer", "token", "core", "numa")
_OF_SOURCES = ("sources", "sizes", "offsets")
"""Columns with an entry for each source that is recorded."""
_OF_TEXT = frozenset(
    ["lane", "name", "op", "phase", "category", "tensor", "quality", *_OF_SOURCES]
)
SORTS = ("start", "duration", "wait", "bytes")
"""What rows can be sorted by."""


@dataclass(frozen=True, slots=True)
class SpanOrder:
    """Which rows come first, and how many there are.

    Attributes
    ----------
    by : one of `SORTS`, the largest first, of starts the earliest; "" = as they come.
    limit : only the first ones; None = all.
    """

    by: str = ""
    limit: int | None = None


class SpanTable:
    """Spans as a table of columns.

    Attributes
    ----------
    names : of the columns; times say their unit.
    """

    def __init__(self, events: Events, order: SpanOrder = SpanOrder()) -> None:
        self.trace: Trace = events.trace
        self._access_columns = _AccessColumns(self.trace)
        self.ids = self._ordered(np.sort(events.spans), order)
        trace, s = self.trace, self.trace.spans
        unit = trace.clock.unit_name
        titles = lane_titles(trace.lanes)
        strings = trace.strings
        make: dict[str, Callable[[Array], ExportColumn]] = {
            "record": lambda ids: known_numbers(
                ids if s.record is None else s.record[ids]
            ),
            f"start_{unit}": lambda ids: Numbers(s.start[ids]),
            f"duration_{unit}": self._durations,
            **self._wait_column(f"wait_{unit}"),
            "lane": lambda ids: texts_by_id(s.lane[ids], titles.__getitem__),
            "name": lambda ids: texts_by_id(s.name[ids], strings.__getitem__),
            "op": lambda ids: texts_by_id(s.op[ids], trace.op_name),
        }
        for name in _OF_NUMBERS:
            column = getattr(s, name)
            if column is not None:
                make[name] = partial(_numbers_of, column)
        if (phase := s.phase) is not None:
            phases = {int(phase): phase.name.lower() for phase in Phase}
            make["phase"] = lambda ids: texts_by_id(phase[ids], phases.get)
        if (category := s.category) is not None:
            make["category"] = lambda ids: texts_by_id(
                category[ids], strings.__getitem__
            )
        if (tensor := s.tensor) is not None:
            make["tensor"] = lambda ids: texts_by_id(tensor[ids], self._tensor)
        make["quality"] = lambda ids: texts_by_id(
            quality_of(s.flags[ids]), lambda quality: Quality(quality).word
        )
        make |= self._access_columns.columns()
        self._make = make
        self.names = tuple(make)

    def _ordered(self, ids: I64, order: SpanOrder) -> I64:
        """Return the rows in their order; those whose value is not known come last."""
        s = self.trace.spans
        if order.by == "start":
            ids = ids[np.argsort(s.start[ids], kind="stable")]
        elif order.by:
            values = self._values(ids, order.by)
            ids = ids[np.argsort(-values, kind="stable")]
        return ids[: order.limit]

    def _values(self, ids: I64, by: str) -> I64:
        """Return what spans are sorted by, -1 where it is not known."""
        s = self.trace.spans
        if by == "bytes":
            return self._access_columns.bytes(ids)
        if by == "wait":
            if s.wait is None:
                return np.full(len(ids), -1, np.int64)
            return np.where(s.wait[ids] == NO_WAIT, -1, s.wait[ids].astype(np.int64))
        is_unfinished = quality_of(s.flags[ids]) == Quality.UNFINISHED
        return np.where(is_unfinished, -1, s.end[ids] - s.start[ids])

    def _durations(self, ids: Array) -> Numbers:
        s = self.trace.spans
        has_end = quality_of(s.flags[ids]) != Quality.UNFINISHED
        return Numbers(s.end[ids] - s.start[ids], has_end)

    def _wait_column(self, name: str) -> dict[str, Callable[[Array], ExportColumn]]:
        """Return the column of waits by its name, where the trace has them."""
        wait = self.trace.spans.wait
        if wait is None:
            return {}
        return {name: lambda ids: Numbers(wait[ids], wait[ids] != NO_WAIT)}

    def _tensor(self, tensor: int) -> str | None:
        if tensor < 0:
            return None
        return self.trace.strings[int(self.trace.tensors.name[tensor])] or None

    def numbers(self) -> list[tuple[str, bool]]:
        """Return the columns, and whether they hold numbers; else texts."""
        return [(name, name not in _OF_TEXT) for name in self.names]

    def columns(self, size: int) -> Iterator[dict[str, list[Any]]]:
        """Yield chunks of so many rows, by the name of the column."""
        for begin in range(0, len(self.ids), size):
            ids = self.ids[begin : begin + size]
            yield {name: column(ids).to_list() for name, column in self._make.items()}

    def encoded(self) -> dict[str, ExportColumn]:
        """Return all rows by the name of the column, texts as codes."""
        return {name: column(self.ids) for name, column in self._make.items()}

    def rows(self) -> Iterator[list[tuple[Value, ...]]]:
        """Yield chunks of rows."""
        for chunk in self.columns(_CHUNK_ROWS):
            yield list(zip(*chunk.values(), strict=True))


class _AccessColumns:
    """What spans read and write, as columns; none where a trace records no accesses.

    Where several threads compute one op, its bytes are in the row of one of them only,
    so that sums are right.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        accesses = trace.accesses
        is_read = "accesses" not in trace.pending
        self._has_any = is_read and len(accesses.patterns) + len(accesses.loose) > 0
        if not self._has_any:
            return
        self._access_table = table = op_accesses(trace)
        self._sums = {
            "bytes_read": table.known_of(Direction.READ),
            "bytes_written": table.known_of(Direction.WRITE),
            "bytes_unknown": table.unknown,
        }
        self._sums = {
            name: np.append(table.per_entry(values), 0)
            for name, values in self._sums.items()
        }
        is_known = np.diff(table.first) > 0
        self._is_known = np.append(is_known, False)
        self._loose = accesses.loose
        self._texts: dict[tuple[int, str], str | None] = {}

    def columns(self) -> dict[str, Callable[[Array], ExportColumn]]:
        """Return functions that make the columns of spans, by name."""
        if not self._has_any:
            return {}
        numbers = {name: partial(self._numbers, name) for name in self._sums}
        texts = {name: partial(self._source_texts, name) for name in _OF_SOURCES}
        return {**numbers, **texts}

    def bytes(self, ids: I64) -> I64:
        """Return the known bytes of spans, -1 where nothing is recorded."""
        if not self._has_any:
            return np.full(len(ids), -1, np.int64)
        total = sum(
            self._bytes_of(name, ids) for name in ("bytes_read", "bytes_written")
        )
        return np.where(self._has_bytes(ids), total, -1).astype(np.int64)

    def _bytes_of(self, name: str, ids: Array) -> I64:
        """Return bytes of spans, with those of accesses that name their span."""
        sums = self._sums[name][self._access_table.counted_entries(ids)].astype(
            np.int64
        )
        what, span = self._loose.what, self._loose.span
        kind = {"bytes_read": AccessKind.READ, "bytes_written": AccessKind.WRITE}
        if name in kind and len(span):
            mine = np.flatnonzero((span >= 0) & (what.kind == kind[name]))
            per_span = np.zeros(len(self._trace.spans), np.int64)
            np.add.at(per_span, span[mine], np.maximum(what.size[mine], 0))
            sums += per_span[ids]
        return sums

    def _has_bytes(self, ids: Array) -> npt.NDArray[np.bool_]:
        """Return which spans have recorded bytes, bool[n]."""
        known = self._is_known[self._access_table.counted_entries(ids)]
        if len(self._loose.span):
            known |= np.isin(ids, self._loose.span)
        return np.asarray(known, np.bool_)

    def _numbers(self, name: str, ids: Array) -> Numbers:
        return Numbers(self._bytes_of(name, ids), self._has_bytes(ids))

    def _source_texts(self, name: str, ids: Array) -> Texts:
        """Return what is recorded of each source, a text for each span."""
        pattern = self._trace.accesses.pattern
        if len(pattern) != len(self._trace.spans):
            return Texts(np.zeros(len(ids), np.int64), [None])
        return texts_by_id(pattern[ids], partial(self._text, name))

    def _text(self, name: str, pattern: int) -> str | None:
        """Return the sources of a pattern; made once, as spans repeat them."""
        if pattern < 0:
            return None
        key = (pattern, name)
        if key not in self._texts:
            a = self._trace.accesses
            rows = range(int(a.first[pattern]), int(a.first[pattern + 1]))
            parts = [self._source(row, name) for row in rows]
            self._texts[key] = "; ".join(parts) if any(parts) else None
        return self._texts[key]

    def _source(self, row: int, name: str) -> str:
        what = self._trace.accesses.patterns
        if name == "sources":
            tensor = int(what.tensor[row])
            if tensor < 0:
                return ""
            return self._trace.strings[int(self._trace.tensors.name[tensor])]
        value = int(what.size[row] if name == "sizes" else what.offset[row])
        return str(value) if value >= 0 else ""


def _numbers_of(column: Array, ids: Array) -> Numbers:
    return known_numbers(column[ids])


def chunks(
    events: Events,
    form: str,
    order: SpanOrder = SpanOrder(),
) -> Iterator[bytes]:
    """Yield a file of one of the forms "csv", "tsv", "markdown", "json" and "parquet".

    Raises
    ------
    ExportError
        If a Parquet file is asked for, and DuckDB is not installed.
    """
    table = SpanTable(events, order)
    if form == "parquet":
        yield from _parquet(table)
    elif form == "json":
        yield from _json(table)
    elif form == "markdown":
        yield from _markdown(table)
    else:
        write = csv_text if form == "csv" else tsv_text
        yield write([table.names]).encode()
        for rows in table.rows():
            # UTF-8 cannot encode lone surrogates.
            yield write(rows).encode("utf-8", "replace")


def _markdown(table: SpanTable) -> Iterator[bytes]:
    sides = [" ---: " if is_number else " --- " for _, is_number in table.numbers()]
    yield f"{markdown_row(table.names)}\n|{'|'.join(sides)}|\n".encode()
    for rows in table.rows():
        cells = (["" if v is None else str(v) for v in row] for row in rows)
        lines = "".join(f"{markdown_row(row)}\n" for row in cells)
        yield lines.encode("utf-8", "replace")


def _json(table: SpanTable) -> Iterator[bytes]:
    separator = "[\n"
    for rows in table.rows():
        objects = (dict(zip(table.names, row, strict=True)) for row in rows)
        yield (separator + ",\n".join(map(json_text, objects))).encode()
        separator = ",\n"
    yield b"\n]\n" if len(table.ids) else b"[]\n"


def _parquet(table: SpanTable) -> Iterator[bytes]:
    try:
        import duckdb
    except ImportError:
        raise ExportError(
            "Parquet files are written by DuckDB, which is not installed: "
            "pip install duckdb. Format csv needs no package."
        ) from None
    typed = ", ".join(
        f'"{name}" {"BIGINT" if is_number else "VARCHAR"}'
        for name, is_number in table.numbers()
    )
    with TemporaryDirectory(prefix="ggscope-") as folder:
        path = f"{folder}/spans.parquet"
        with duckdb.connect(f"{folder}/spans.duckdb") as base:
            base.execute(f"CREATE TABLE spans ({typed})")
            for chunk in table.columns(_GROUP):
                arrays = {name: _array(values) for name, values in chunk.items()}
                base.register("chunk", arrays)
                base.execute("INSERT INTO spans SELECT * FROM chunk")
                base.unregister("chunk")
            base.execute("COPY spans TO ? (FORMAT parquet, COMPRESSION zstd)", [path])
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                yield block


def _array(values: list[Any]) -> Array:
    """Return values as DuckDB takes them: None is masked, or an object."""
    if any(isinstance(v, str) for v in values):
        texts = [utf8(v) if isinstance(v, str) else v for v in values]
        return np.array(texts, object)
    is_missing = [v is None for v in values]
    return np.ma.array([v or 0 for v in values], np.int64, mask=is_missing)
