"""Events of an NPU trace as columns, gathered block by block.

`KINDS` declares the columns of each kind of event. Their values come from the rows of
the C scan, or from events that the rules judged one by one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, StringTable
from ggscope.readers.chunked import ChunkedTable
from ggscope.readers.common.text_arena import Texts
from ggscope.readers.npu.scan import (
    ACCESS,
    COMMAND,
    ENGINE,
    ODD,
    SAMPLE,
    STALL,
    TOKEN,
    WORDS,
    Numbered,
    Rows,
)
from ggscope.readers.npu.schema import (
    COMMAND_NAME,
    COMMANDS,
    DIRECTIONS,
    MARKER,
    MEMORIES,
    NO_REASON,
    PHASE_NAMES,
    TOKEN_PHASES,
    Event,
    Fields,
    color_value,
    layer_number,
)

MAX_OPS = 1 << 15
_I64, _I32, _I16, _I8 = np.int64, np.int32, np.int16, np.int8
_U64, _U32, _U8, _F64 = np.uint64, np.uint32, np.uint8, np.float64


@dataclass(frozen=True, slots=True)
class EventColumn:
    """A column of one kind of event, and where its values come from.

    Attributes
    ----------
    name, dtype : of the column.
    field : of the rules' `EVENTS`; of several, the first that is not empty counts.
    row : the same in the scan's `Rows`; "" where those have no such events.
    memo : in `EventColumns.numbered`, where texts are looked up; "" for numbers.
    names : texts for which the rows have numbers: their places here. Without a memo
        these are the column's values as well, -1 for other texts.
    missing : what stands for no value, or for one that the column cannot hold.
    """

    name: str
    dtype: type[np.generic]
    field: str
    row: str = ""
    memo: str = ""
    names: Sequence[str] = ()
    missing: str | int | None = None


@dataclass(frozen=True, slots=True)
class EventKind:
    """What becomes of one kind of event.

    Attributes
    ----------
    type : of the events.
    row_kind : number of the scan.
    strings : names that get their ids with the first such event, whether one holds
        them or not: early snapshots must not make the ids of later strings others.
    """

    type: str
    row_kind: int
    columns: tuple[EventColumn, ...]
    strings: tuple[str, ...] = ()

    def table(self) -> ChunkedTable:
        """Return a table for such events without any."""
        dtypes = {column.name: column.dtype for column in self.columns}
        if self.row_kind == TOKEN:
            dtypes["name"] = _I32  # known by its index
        return ChunkedTable(record=_I64, **dtypes)


_INTERVAL = (
    EventColumn("start", _I64, "start_cycle", "time"),
    EventColumn("end", _I64, "end_cycle", "until"),
)
_TIME = EventColumn("time", _I64, "cycle", "time")
_COMMAND_QUEUE = EventColumn("cmdq", _I64, "cmdq_id", "number")

KINDS = (
    EventKind(
        "ENGINE_EVENT",
        ENGINE,
        (
            *_INTERVAL,
            EventColumn("engine", _I32, "engine", "word", "codes", WORDS),
            EventColumn("engine_id", _I32, "engine_id", "unit"),
            EventColumn(
                "name", _I32, "tile_id op layer_id", "text2 text0 text1", "strings"
            ),
            EventColumn("op", _I16, "op", "text0", "ops"),
            EventColumn("layer", _I16, "layer_id", "text1", "layers"),
            EventColumn("color", _U32, "color_hint", "text3", "colors"),
            EventColumn("moved", _I64, "moved", "detail0"),
            EventColumn("bits", _I8, "bits", "detail1"),
            EventColumn("bank", _I16, "bank", "detail2"),
            EventColumn("bank_offset", _I64, "bank_offset", "detail3"),
            EventColumn("role", _I8, "role", "detail4"),
            _COMMAND_QUEUE,
        ),
    ),
    EventKind(
        "MEM_ACCESS_EVENT",
        ACCESS,
        (
            _TIME,
            EventColumn("memory", _I32, "mem_type", "word", "codes", MEMORIES),
            EventColumn("kind", _U8, "direction", "way", names=DIRECTIONS),
            EventColumn("size", _I64, "bytes", "size"),
            # Kernel-like addresses do not fit the signed column.
            EventColumn("offset", _I64, "addr", "address", missing=-1),
            EventColumn("address", _U64, "addr", "address", missing=0),
            EventColumn("engine", _I32, "source_engine", "text0", "codes"),
            EventColumn("engine_id", _I32, "source_engine_id", "unit"),
            _COMMAND_QUEUE,
        ),
    ),
    EventKind(
        "TOKEN_EVENT",
        TOKEN,
        (
            *_INTERVAL,
            EventColumn("index", _I32, "token_index", "number"),
            EventColumn("phase", _I8, "phase", "word", names=TOKEN_PHASES),
        ),
        PHASE_NAMES,
    ),
    EventKind(
        "STALL_EVENT",
        STALL,
        (
            *_INTERVAL,
            EventColumn("engine", _I32, "master", "word", "codes", WORDS),
            EventColumn("engine_id", _I32, "master_id", "unit"),
            EventColumn("name", _I32, "reason", "text0", "strings", missing=NO_REASON),
        ),
    ),
    EventKind(
        "CMD_EVENT",
        COMMAND,
        (
            _TIME,
            EventColumn("id", _I64, "cmd_id", "number"),
            EventColumn("event", _I8, "event", "word", names=COMMANDS),
            EventColumn("name", _I32, "event", "word", "strings", COMMANDS),
            EventColumn("detail", _I32, "phase source", "text1 text0", "strings"),
        ),
        (COMMAND_NAME,),
    ),
    EventKind(
        MARKER,
        ODD,
        (
            _TIME,
            EventColumn("name", _I32, "name", memo="strings"),
            EventColumn("detail", _I32, "detail", memo="strings"),
            EventColumn("power", _F64, "power"),
        ),
        PHASE_NAMES,
    ),
)
_SAMPLE_COLUMNS = (
    _TIME,
    EventColumn("window", _I64, "window_cycles", "until"),
    EventColumn("read", _F64, "dram_read_bytes", "amount0"),
    EventColumn("write", _F64, "dram_write_bytes", "amount1"),
    EventColumn("stall", _F64, "stall_cycles", "amount2"),
    EventColumn("kv", _F64, "kv_bytes", "amount3"),
)
_KIND_NUMBERS = {kind.type: i for i, kind in enumerate(KINDS)}


class EventColumns:
    """All events of a trace as columns, times as the file gives them.

    Parameters
    ----------
    texts : what the text numbers of the compiled scan's rows mean.

    Attributes
    ----------
    engines, accesses, tokens, stalls, commands, instants, deps, samples : one row
        for each; see `KINDS`.
    tables : all of them whose rows belong to records, in the order of `KINDS`.
    ops : names of the ops, in the order of their first event.
    names : engine and master names by code.
    n_bad_colors : colour hints that name no colour.
    numbered : what texts stand for: ids in the trace's string table, numbers in `ops`
        and `names`, layers and colours.
    """

    def __init__(self, strings: StringTable, texts: Texts) -> None:
        self.ops: list[str] = []
        self.names: list[str] = []
        self.n_bad_colors = 0
        self.numbered = {
            "strings": Numbered(texts, strings.intern),
            "ops": Numbered(texts, _numbering(self.ops, MAX_OPS)),
            "layers": Numbered(texts, layer_number),
            "colors": Numbered(texts, color_value, 0),
            "codes": Numbered(texts, _numbering(self.names)),
        }
        self.deps = ChunkedTable(record=_I64, dep=_I64)
        self.samples = ChunkedTable(**{c.name: c.dtype for c in _SAMPLE_COLUMNS})
        self.tables = (*(kind.table() for kind in KINDS), self.deps)
        self.engines, self.accesses, self.tokens, *others, _ = self.tables
        self.stalls, self.commands, self.instants = others

    def add(self, events: Sequence[Event | None], record: I64) -> I64:
        """Add events.

        Parameters
        ----------
        events : None stands for an event that is left out.
        record : number of each, ascending.

        Returns
        -------
        Record numbers of events that end before they start; they are left out.
        """
        dropped = [np.zeros(0, np.int64)]
        kinds = np.array([-1 if e is None else _KIND_NUMBERS[e.kind] for e in events])
        for number, table in enumerate(self.tables[:-1]):
            of_kind = kinds == number
            if of_kind.any():
                chosen = [e.values for e in compress(events, of_kind) if e is not None]
                self._add(number, _Judged(chosen, self.numbered), record[of_kind])
                dropped.append(table.drop_reversed(table.n_chunks - 1))
        return np.sort(np.concatenate(dropped))

    def add_rows(
        self, rows: Rows, first: int, others: Sequence[Event | None], at: I64
    ) -> I64:
        """Add the events of a scanned block, to the same effect as `add`.

        Parameters
        ----------
        first : record number of row 0.
        others : events for the rows `at`, which hold none themselves.

        Returns
        -------
        Record numbers of events that end before they start; they are left out.
        """
        marks = [(table, table.n_chunks) for table in self.tables]
        for number, kind in enumerate(KINDS):
            i = np.flatnonzero(rows["kind"] == kind.row_kind)
            if len(i) and kind.row_kind != ODD:
                batch = _Scanned(rows, i, self.numbered)
                self._add(number, batch, i + first)
        dropped = [table.drop_reversed(mark) for table, mark in marks]
        if len(others):
            dropped.append(self.add(others, at + first))
            for table, mark in marks:
                table.merge_since(mark)
        return np.sort(np.concatenate(dropped))

    def add_samples(self, samples: Sequence[Fields]) -> None:
        """Add bandwidth samples; missing figures become NaN."""
        if samples:
            batch = _Judged(samples, self.numbered)
            self.samples.append(**{c.name: batch.column(c) for c in _SAMPLE_COLUMNS})

    def add_sample_rows(
        self, rows: Rows, others: Sequence[Fields | None], at: I64
    ) -> None:
        """Add the samples of a scanned block, `others` for the rows `at`."""
        batch = _Scanned(rows, np.arange(len(rows)), self.numbered)
        columns = {c.name: batch.column(c) for c in _SAMPLE_COLUMNS}
        is_sample = rows["kind"] == SAMPLE
        repaired = [sample for sample in others if sample is not None]
        if repaired:
            places = at[np.array([sample is not None for sample in others])]
            judged = _Judged(repaired, self.numbered)
            for column in _SAMPLE_COLUMNS:
                columns[column.name][places] = judged.column(column)
            is_sample[places] = True
        self.samples.append(**{n: values[is_sample] for n, values in columns.items()})

    def extent(self, *, with_samples: bool = False) -> tuple[int, int] | None:
        """Return the first and the last time that events name; None without any."""
        low, high = [], []
        for table in (*self.tables[:-1], *([self.samples] if with_samples else [])):
            if len(table):
                is_interval = "end" in table.names
                low.append(int(table.column("start" if is_interval else "time").min()))
                high.append(int(table.column("end" if is_interval else "time").max()))
        return (min(low), max(high)) if low else None

    def drop_samples_outside(self) -> None:
        """Leave out bandwidth samples outside the times of the other events."""
        extent = self.extent()
        if extent is not None:
            time, window = self.samples.column("time"), self.samples.column("window")
            self.samples.keep((time <= extent[1]) & (time + window > extent[0]))

    def _add(self, number: int, batch: "_Judged | _Scanned", record: I64) -> None:
        kind = KINDS[number]
        for text in kind.strings:
            self.numbered["strings"][text]
        columns = {c.name: batch.column(c) for c in kind.columns}
        if kind.row_kind == TOKEN:
            columns["name"] = self._token_names(columns["index"])
        elif kind.row_kind == ENGINE:
            is_bad = columns["color"][batch.has_hint()] == 0
            self.n_bad_colors += int(np.count_nonzero(is_bad))
            n_deps, deps = batch.deps()
            if len(deps):
                self.deps.append(record=np.repeat(record, n_deps), dep=deps)
        self.tables[number].append(record=record, **columns)

    def _token_names(self, index: Array) -> Array:
        """Return the name of each token, as a string id."""
        numbers, which = np.unique(index, return_inverse=True)
        strings = self.numbered["strings"]
        ids = [strings[f"#{n}" if n >= 0 else "token"] for n in numbers.tolist()]
        return np.array(ids, np.int32)[which]


class _Judged:
    """Events of one kind as the rules give them."""

    def __init__(
        self, events: Sequence[Fields], numbered: Mapping[str, Numbered]
    ) -> None:
        self._events, self._numbered = events, numbered

    def column(self, column: EventColumn) -> Array:
        """Return the values of a column."""
        values, dtype = self._values(column.field), column.dtype
        if column.memo:
            if column.missing is not None:
                values = [value or column.missing for value in values]
            number = self._numbered[column.memo].__getitem__
            return np.fromiter(map(number, values), dtype, len(values))
        if column.names:
            places = {word: i for i, word in enumerate(column.names)}
            return np.array([places.get(value, -1) for value in values], dtype)
        if column.missing is not None:
            highest = np.iinfo(dtype).max  # type: ignore[type-var]  # of integers only
            values = [column.missing if v is None or v > highest else v for v in values]
        return np.array(values, dtype)

    def has_hint(self) -> npt.NDArray[np.bool_]:
        """Return which engine events hint at a colour."""
        return np.array([e["color_hint"] is not None for e in self._events], np.bool_)

    def deps(self) -> tuple[Array, Array]:
        """Return how many deps each engine event has, and all of them."""
        deps = [e["deps"] or () for e in self._events]
        flat = np.fromiter(chain.from_iterable(deps), np.int64)
        return np.fromiter(map(len, deps), np.int64, len(deps)), flat

    def _values(self, fields: str) -> list[Any]:
        first, *others = fields.split()
        values = [e[first] for e in self._events]
        for name in others:
            pairs = zip(values, self._events, strict=True)
            values = [value or e[name] for value, e in pairs]
        return values


class _Scanned:
    """Events of one kind as rows of the scan."""

    def __init__(self, rows: Rows, i: I64, numbered: Mapping[str, Numbered]) -> None:
        self._rows, self._i, self._numbered = rows, i, numbered

    def column(self, column: EventColumn) -> Array:
        """Return the values of a column."""
        values, *others = (self._rows[name][self._i] for name in column.row.split())
        dtype, missing = column.dtype, column.missing
        if not column.memo:
            values = values if missing is None else np.maximum(values, missing)
            return values.astype(dtype, copy=False)
        numbered = self._numbered[column.memo]
        if column.names:
            # Words that do not occur are not looked up.
            numbers = np.full(len(column.names), -1, dtype)
            used = np.bincount(values, minlength=len(numbers))
            for i in np.flatnonzero(used).tolist():
                numbers[i] = numbered[column.names[i]]
            return numbers[values]
        for instead in others:
            # Text 0 is empty and as good as none.
            values = np.where(values > 0, values, instead)
        if missing is None:
            return numbered.column(values, dtype)
        numbers = numbered.column(np.where(values > 0, values, -1), dtype)
        if (numbers < 0).any():
            numbers[numbers < 0] = numbered[str(missing)]
        return numbers

    def has_hint(self) -> npt.NDArray[np.bool_]:
        """Return which engine events hint at a colour."""
        return np.asarray(self._rows["text3"][self._i] >= 0)

    def deps(self) -> tuple[Array, Array]:
        """Return how many deps each engine event has, and all of them."""
        return self._rows["dep_count"][self._i], self._rows.deps.copy()


def _numbering(names: list[str], limit: int | None = None) -> Callable[[str], int]:
    """Return what puts a name at the end of `names` and returns its number.

    -1 where there are `limit` names already.
    """

    def number(name: str) -> int:
        if len(names) == limit:
            return -1
        names.append(name)
        return len(names) - 1

    return number
