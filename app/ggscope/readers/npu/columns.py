"""Events of an NPU trace as columns, gathered block by block.

`KINDS` says once for all what becomes of the fields of each kind of event: the rows of
the scan, and the events of which the rules had something to say.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, StringTable
from ggscope.readers.chunked import ChunkedTable
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
    Texts,
)
from ggscope.readers.npu.schema import (
    COMMAND_NAME,
    COMMANDS,
    DIRECTIONS,
    MEMORIES,
    NO_REASON,
    PHASE_NAMES,
    TOKEN_PHASES,
    Access,
    Command,
    Engine,
    Event,
    Instant,
    Sample,
    Stall,
    Token,
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
    field : of the rules' event; of several, the first that is not empty counts.
    row : the same in the scan's `Rows`; "" where those have no such events.
    memo : attribute of `Memos` that texts are looked up in; "" for numbers.
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
    type : of the rules' events.
    row_kind : number of the scan.
    strings : names that get their ids with the first such event, whether one holds
        them or not: early snapshots must not make the ids of later strings others.
    """

    type: type
    row_kind: int
    columns: tuple[EventColumn, ...]
    strings: tuple[str, ...] = ()

    def table(self) -> ChunkedTable:
        """Return a table for such events without any."""
        dtypes = {column.name: column.dtype for column in self.columns}
        if self.type is Token:
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
        Engine,
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
        Access,
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
        Token,
        TOKEN,
        (
            *_INTERVAL,
            EventColumn("index", _I32, "token_index", "number"),
            EventColumn("phase", _I8, "phase", "word", names=TOKEN_PHASES),
        ),
        PHASE_NAMES,
    ),
    EventKind(
        Stall,
        STALL,
        (
            *_INTERVAL,
            EventColumn("engine", _I32, "master", "word", "codes", WORDS),
            EventColumn("engine_id", _I32, "master_id", "unit"),
            EventColumn("name", _I32, "reason", "text0", "strings", missing=NO_REASON),
        ),
    ),
    EventKind(
        Command,
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
        Instant,
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
_KIND_NUMBERS = {kind.type: i for i, kind in enumerate(KINDS)} | {type(None): -1}


class Memo(dict[str | None, int]):
    """A number for every text, worked out once; -1 (or `missing`) for None."""

    def __init__(self, number: Callable[[str], int], missing: int = -1) -> None:
        super().__init__({None: missing})
        self._number = number

    def __missing__(self, text: str | None) -> int:
        """Work out the number of a new text (called by ``[]``)."""
        number = self[text] = self._number(str(text))
        return number


class Memos:
    """What the texts of events stand for, each worked out once.

    Attributes
    ----------
    strings : id in the trace's string table.
    ops, layers, colors : op number, layer and colour.
    codes : number of an engine, master or memory in `EventColumns.names`.
    """

    def __init__(self, strings: StringTable, ops: list[str], names: list[str]) -> None:
        self.strings = Memo(strings.intern)
        self.ops = Memo(_numbering(ops, MAX_OPS))
        self.layers = Memo(layer_number)
        self.colors = Memo(color_value, 0)
        self.codes = Memo(_numbering(names))

    def __getitem__(self, name: str) -> Memo:
        """Return one of them by its name."""
        memo: Memo = getattr(self, name)
        return memo


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
    """

    def __init__(self, strings: StringTable, texts: Texts | None = None) -> None:
        self.ops: list[str] = []
        self.names: list[str] = []
        self.n_bad_colors = 0
        self.memos = Memos(strings, self.ops, self.names)
        self._numbered = {} if texts is None else _numbered(texts, self.memos)
        self.deps = ChunkedTable(record=_I64, dep=_I64)
        self.samples = ChunkedTable(**{c.name: c.dtype for c in _SAMPLE_COLUMNS})
        self.tables = (*(kind.table() for kind in KINDS), self.deps)
        self.engines, self.accesses, self.tokens, *others, _ = self.tables
        self.stalls, self.commands, self.instants = others

    def add(self, events: Sequence[object], record: I64) -> I64:
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
        kinds = np.fromiter(
            map(_KIND_NUMBERS.__getitem__, map(type, events)), np.int8, len(events)
        )
        for number, table in enumerate(self.tables[:-1]):
            of_kind = kinds == number
            if of_kind.any():
                chosen = list(compress(events, of_kind.tobytes()))
                self._add(number, _Judged(chosen, self.memos), record[of_kind])
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
            i = np.flatnonzero(rows.kind == kind.row_kind)
            if len(i) and kind.row_kind != ODD:
                batch = _Scanned(rows, i, self.memos, self._numbered)
                self._add(number, batch, i + first)
        dropped = [table.drop_reversed(mark) for table, mark in marks]
        if len(others):
            dropped.append(self.add(others, at + first))
            for table, mark in marks:
                table.merge_since(mark)
        return np.sort(np.concatenate(dropped))

    def add_samples(self, samples: Sequence[Sample]) -> None:
        """Add bandwidth samples; missing figures become NaN."""
        if samples:
            batch = _Judged(samples, self.memos)
            self.samples.append(**{c.name: batch.column(c) for c in _SAMPLE_COLUMNS})

    def add_sample_rows(
        self, rows: Rows, others: Sequence[Sample | None], at: I64
    ) -> None:
        """Add the samples of a scanned block, `others` for the rows `at`."""
        batch = _Scanned(rows, np.arange(len(rows)), self.memos, self._numbered)
        columns = {c.name: batch.column(c) for c in _SAMPLE_COLUMNS}
        is_sample = rows.kind == SAMPLE
        repaired = [sample for sample in others if sample is not None]
        if repaired:
            places = at[np.array([sample is not None for sample in others])]
            judged = _Judged(repaired, self.memos)
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
            self.memos.strings[text]
        columns = {c.name: batch.column(c) for c in kind.columns}
        if kind.type is Token:
            columns["name"] = self._token_names(columns["index"])
        elif kind.type is Engine:
            is_bad = columns["color"][batch.has_hint()] == 0
            self.n_bad_colors += int(np.count_nonzero(is_bad))
            n_deps, deps = batch.deps()
            if len(deps):
                self.deps.append(record=np.repeat(record, n_deps), dep=deps)
        self.tables[number].append(record=record, **columns)

    def _token_names(self, index: Array) -> Array:
        """Return the name of each token, as a string id."""
        numbers, which = np.unique(index, return_inverse=True)
        strings = self.memos.strings
        ids = [strings[f"#{n}" if n >= 0 else "token"] for n in numbers.tolist()]
        return np.array(ids, np.int32)[which]


class _Judged:
    """Events of one kind as the rules give them."""

    def __init__(self, events: Sequence[Any], memos: Memos) -> None:
        self._events, self._memos = events, memos

    def column(self, column: EventColumn) -> Array:
        """Return the values of a column."""
        values, dtype = self._values(column.field), column.dtype
        if column.memo:
            if column.missing is not None:
                values = [value or column.missing for value in values]
            number = self._memos[column.memo].__getitem__
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
        return np.array([e.color_hint is not None for e in self._events], np.bool_)

    def deps(self) -> tuple[Array, Array]:
        """Return how many deps each engine event has, and all of them."""
        deps = [e.deps or () for e in self._events]
        flat = np.fromiter(chain.from_iterable(deps), np.int64)
        return np.fromiter(map(len, deps), np.int64, len(deps)), flat

    def _values(self, fields: str) -> list[Any]:
        first, *others = fields.split()
        values = [getattr(e, first) for e in self._events]
        for name in others:
            pairs = zip(values, self._events, strict=True)
            values = [value or getattr(e, name) for value, e in pairs]
        return values


class _Scanned:
    """Events of one kind as rows of the scan."""

    def __init__(
        self, rows: Rows, i: I64, memos: Memos, numbered: dict[str, Numbered]
    ) -> None:
        self._rows, self._i = rows, i
        self._memos, self._numbered = memos, numbered

    def column(self, column: EventColumn) -> Array:
        """Return the values of a column."""
        first, *others = column.row.split()
        values, dtype, missing = self._values(first), column.dtype, column.missing
        if column.memo and column.names:
            return self._worded(column, values)
        if not column.memo:
            values = values if missing is None else np.maximum(values, missing)
            return values.astype(dtype, copy=False)
        for name in others:
            # Text 0 is empty and as good as none.
            values = np.where(values > 0, values, self._values(name))
        numbered = self._numbered[column.memo]
        if missing is None:
            return numbered.column(values, dtype)
        numbers = numbered.column(np.where(values > 0, values, -1), dtype)
        if (numbers < 0).any():
            instead = self._memos[column.memo][str(missing)]
            numbers = np.where(numbers < 0, instead, numbers).astype(dtype)
        return numbers

    def has_hint(self) -> npt.NDArray[np.bool_]:
        """Return which engine events hint at a colour."""
        return np.asarray(self._values("text3") >= 0)

    def deps(self) -> tuple[Array, Array]:
        """Return how many deps each engine event has, and all of them."""
        return self._rows.dep_count[self._i], self._rows.deps.copy()

    def _values(self, name: str) -> Array:
        if name.startswith("text"):
            return self._rows.texts[int(name[-1])][self._i]
        if name.startswith("detail"):
            return self._rows.details[int(name[-1])][self._i]
        if name.startswith("amount"):
            return self._rows.amounts[int(name[-1])][self._i]
        values: Array = getattr(self._rows, name)
        return values[self._i]

    def _worded(self, column: EventColumn, places: Array) -> Array:
        """Return what words stand for; those that do not occur are not looked up."""
        memo, texts = self._memos[column.memo], column.names
        numbers = np.full(len(texts), -1, column.dtype)
        for i in np.flatnonzero(np.bincount(places, minlength=len(texts))).tolist():
            numbers[i] = memo[texts[i]]
        return numbers[places]


def _numbered(texts: Texts, memos: Memos) -> dict[str, Numbered]:
    names = ("strings", "ops", "layers", "colors", "codes")
    return {name: Numbered(texts, memos[name]) for name in names}


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
