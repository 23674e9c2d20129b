"""Columns of timeline events, gathered block by block.

The decoder's objects live for one block only; what stays are arrays. The lists in
between are plain comprehensions over a fixed attribute: they are three times as fast
as ``attrgetter`` and give other threads their turn.

From rows that the compiled kernel has read to columns of events.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.model.strings import StringTable
from ggscope.model.tables import I64, Array, narrow
from ggscope.readers.npu.scan import (
    ACCESS,
    COMMAND,
    ENGINE,
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
    MAX_INT,
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
_KINDS = (Engine, Access, Token, Stall, Command, Instant)
_KIND_NUMBERS: dict[type, int] = {kind: i for i, kind in enumerate(_KINDS)} | {
    type(None): -1
}


_I64, _I32, _I16, _I8 = (np.dtype(t) for t in (np.int64, np.int32, np.int16, np.int8))
_F64 = np.dtype(np.float64)
_INTERVAL = {"record": _I64, "start": _I64, "end": _I64}
_INSTANT = {"record": _I64, "time": _I64}
_UNIT = {"engine": _I32, "engine_id": _I32}
_DTYPES: dict[str, dict[str, np.dtype[Any]]] = {
    "engines": {
        **_INTERVAL,
        **_UNIT,
        "name": _I32,
        "op": _I16,
        "layer": _I16,
        "color": np.dtype(np.uint32),
        "cmdq": _I64,
    },
    "deps": {"record": _I64, "dep": _I64},
    "accesses": {
        **_INSTANT,
        **_UNIT,
        "memory": _I32,
        "kind": np.dtype(np.uint8),
        "size": _I64,
        "offset": _I64,
        "address": np.dtype(np.uint64),
        "cmdq": _I64,
    },
    "tokens": {**_INTERVAL, "index": _I32, "phase": _I8, "name": _I32},
    "stalls": {**_INTERVAL, **_UNIT, "name": _I32},
    "commands": {**_INSTANT, "id": _I64, "event": _I8, "name": _I32, "detail": _I32},
    "instants": {**_INSTANT, "name": _I32, "detail": _I32, "power": _F64},
    "samples": {
        "time": _I64,
        "window": _I64,
        **dict.fromkeys(("read", "write", "stall", "kv"), _F64),
    },
}


class Memo(dict[str | None, int]):
    """A number for every text, worked out once; -1 (or `missing`) for None."""

    def __init__(self, number: Callable[[str], int], missing: int = -1) -> None:
        super().__init__({None: missing})
        self._number = number

    def __missing__(self, text: str | None) -> int:
        """Work out the number of a new text (called by ``[]``)."""
        number = self[text] = self._number(str(text))
        return number

    def column(self, texts: Sequence[str | None], dtype: npt.DTypeLike) -> Array:
        """Return the numbers of `texts`."""
        return np.fromiter(map(self.__getitem__, texts), dtype, len(texts))


class Table:
    """Columns that grow piece by piece, each piece as narrow as its values.

    Parameters
    ----------
    dtypes : dtype of each column by name.
    """

    def __init__(self, **dtypes: npt.DTypeLike) -> None:
        self._dtypes = {name: np.dtype(dtype) for name, dtype in dtypes.items()}
        self._pieces: list[Mapping[str, Array]] = []
        self._n_rows = 0

    def __len__(self) -> int:
        return self._n_rows

    @property
    def names(self) -> frozenset[str]:
        """Names of the columns."""
        return frozenset(self._dtypes)

    @property
    def n_pieces(self) -> int:
        """How many pieces there are so far."""
        return len(self._pieces)

    def append(self, **columns: Array) -> None:
        """Add rows: one array for each column, all of one length."""
        self._pieces.append(
            {name: _compact(values) for name, values in columns.items()}
        )
        self._n_rows += len(next(iter(columns.values())))

    def column(self, name: str) -> Array:
        """Return one column whole."""
        parts = [piece[name] for piece in self._pieces]
        dtype = self._dtypes[name]
        if not parts:
            return np.zeros(0, dtype)
        return np.concatenate(parts, dtype=dtype, casting="unsafe")

    def keep(self, rows: Array) -> None:
        """Leave out all rows but the marked ones, bool[n]."""
        self._pieces = [{name: self.column(name)[rows] for name in self._dtypes}]
        self._n_rows = int(np.count_nonzero(rows))

    def clear(self) -> None:
        """Let go of all rows."""
        self._pieces, self._n_rows = [], 0

    def drop_reversed(self, mark: int) -> I64:
        """Leave out rows of later pieces that end before they start; return them.

        Parameters
        ----------
        mark : number of pieces before; tables without ends have nothing to drop.
        """
        dropped = [np.zeros(0, np.int64)]
        if "end" not in self._dtypes:
            return dropped[0]
        for i in range(mark, len(self._pieces)):
            piece = self._pieces[i]
            bad = piece["end"] < piece["start"]
            if bad.any():
                dropped.append(piece["record"][bad].astype(np.int64))
                self._pieces[i] = {name: c[~bad] for name, c in piece.items()}
                self._n_rows -= int(np.count_nonzero(bad))
        return np.concatenate(dropped)

    def merge_since(self, mark: int) -> None:
        """Bring the rows of the pieces after the first `mark` into record order."""
        later = self._pieces[mark:]
        if len(later) < 2:
            return
        joined = {name: np.concatenate([p[name] for p in later]) for name in later[0]}
        order = np.argsort(joined["record"], kind="stable")
        self._pieces[mark:] = [{name: c[order] for name, c in joined.items()}]


@dataclass(frozen=True, slots=True)
class Memos:
    """What the texts of events stand for, each worked out once.

    Attributes
    ----------
    strings : id in the trace's string table.
    ops, layers, colors : op number, layer and colour.
    codes : number of an engine, master or memory in `EventColumns.names`.
    """

    strings: Memo
    ops: Memo
    layers: Memo
    colors: Memo
    codes: Memo


class EventColumns:
    """All events of a trace as columns, times as the file gives them.

    Attributes
    ----------
    engines, accesses, tokens, stalls, commands, instants, samples : `Table`.
    ops : names of the ops, in the order of their first event.
    names : engine and master names by code.
    n_bad_colors : colour hints that name no colour.
    """

    def __init__(self, strings: StringTable) -> None:
        self.ops: list[str] = []
        self.names: list[str] = []
        self.n_bad_colors = 0
        self.memos = Memos(
            strings=Memo(strings.intern),
            ops=Memo(_numbering(self.ops, MAX_OPS)),
            layers=Memo(layer_number),
            colors=Memo(color_value, 0),
            codes=Memo(_numbering(self.names)),
        )
        self.engines = Table(**_DTYPES["engines"])
        self.deps = Table(**_DTYPES["deps"])
        self.accesses = Table(**_DTYPES["accesses"])
        self.tokens = Table(**_DTYPES["tokens"])
        self.stalls = Table(**_DTYPES["stalls"])
        self.commands = Table(**_DTYPES["commands"])
        self.instants = Table(**_DTYPES["instants"])
        self.samples = Table(**_DTYPES["samples"])

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every table whose rows belong to records."""
        return (
            self.engines,
            self.deps,
            self.accesses,
            self.tokens,
            self.stalls,
            self.commands,
            self.instants,
        )

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
        for number, add in enumerate(_ADDERS):
            of_kind = kinds == number
            rows = np.flatnonzero(of_kind)
            if not len(rows):
                continue
            table = add(self, list(compress(events, of_kind.tobytes())), record[rows])
            dropped.append(table.drop_reversed(table.n_pieces - 1))
        return np.sort(np.concatenate(dropped))

    def add_samples(self, samples: Sequence[Sample]) -> None:
        """Add bandwidth samples; missing figures become NaN."""
        if samples:
            self.samples.append(
                time=np.array([s.cycle for s in samples], np.int64),
                window=np.array([s.window_cycles for s in samples], np.int64),
                read=np.array([s.dram_read_bytes for s in samples], np.float64),
                write=np.array([s.dram_write_bytes for s in samples], np.float64),
                stall=np.array([s.stall_cycles for s in samples], np.float64),
                kv=np.array([s.kv_bytes for s in samples], np.float64),
            )

    def drop_samples_outside(self) -> None:
        """Leave out bandwidth samples outside the times of the other events."""
        tables = (
            (self.engines, "start", "end"),
            (self.tokens, "start", "end"),
            (self.stalls, "start", "end"),
            (self.accesses, "time", "time"),
            (self.commands, "time", "time"),
            (self.instants, "time", "time"),
        )
        filled = [entry for entry in tables if len(entry[0])]
        if not filled:
            return
        low = min(int(table.column(start).min()) for table, start, _ in filled)
        high = max(int(table.column(end).max()) for table, _, end in filled)
        time, window = self.samples.column("time"), self.samples.column("window")
        self.samples.keep((time <= high) & (time + window > low))

    def _add_engines(self, events: list[Engine], record: I64) -> Table:
        hints = [e.color_hint for e in events]
        color = self.memos.colors.column(hints, np.uint32)
        self.n_bad_colors += int(
            np.count_nonzero(color[[hint is not None for hint in hints]] == 0)
        )
        deps = [e.deps or () for e in events]
        if any(deps):
            flat = np.fromiter(chain.from_iterable(deps), np.int64)
            n_deps = np.fromiter(map(len, deps), np.int64, len(deps))
            self.deps.append(record=np.repeat(record, n_deps), dep=flat)
        self.engines.append(
            record=record,
            start=np.array([e.start_cycle for e in events], np.int64),
            end=np.array([e.end_cycle for e in events], np.int64),
            engine=self.memos.codes.column([e.engine for e in events], np.int32),
            engine_id=np.array([e.engine_id for e in events], np.int32),
            name=self.memos.strings.column(
                [e.tile_id or e.layer_id or e.op for e in events], np.int32
            ),
            op=self.memos.ops.column([e.op for e in events], np.int16),
            layer=self.memos.layers.column([e.layer_id for e in events], np.int16),
            color=color,
            cmdq=np.array([e.cmdq_id for e in events], np.int64),
        )
        return self.engines

    def _add_accesses(self, events: list[Access], record: I64) -> Table:
        raw = [e.addr for e in events]
        self.accesses.append(
            record=record,
            time=np.array([e.cycle for e in events], np.int64),
            memory=self.memos.codes.column([e.mem_type for e in events], np.int32),
            kind=np.array([e.direction == DIRECTIONS[1] for e in events], np.uint8),
            size=np.array([e.bytes for e in events], np.int64),
            # Kernel-like addresses do not fit the signed column.
            offset=np.array(
                [-1 if a is None or a > MAX_INT else a for a in raw], np.int64
            ),
            address=np.array([a or 0 for a in raw], np.uint64),
            engine=self.memos.codes.column([e.source_engine for e in events], np.int32),
            engine_id=np.array([e.source_engine_id for e in events], np.int32),
            cmdq=np.array([e.cmdq_id for e in events], np.int64),
        )
        return self.accesses

    def _add_tokens(self, events: list[Token], record: I64) -> Table:
        phases: dict[str, int] = {name: i for i, name in enumerate(TOKEN_PHASES)}
        index = np.array([e.token_index for e in events], np.int32)
        self.tokens.append(
            record=record,
            start=np.array([e.start_cycle for e in events], np.int64),
            end=np.array([e.end_cycle for e in events], np.int64),
            index=index,
            phase=np.array([phases.get(e.phase, -1) for e in events], np.int8),
            name=self.token_names(index),
        )
        return self.tokens

    def token_names(self, index: Array) -> Array:
        """Return the name of each token, as a string id.

        Names that no event holds get their ids with the first event that needs them:
        early snapshots must not make the ids of later strings others.
        """
        strings = self.memos.strings
        for name in PHASE_NAMES:
            strings[name]
        numbers, which = np.unique(index, return_inverse=True)
        ids = [strings[f"#{n}" if n >= 0 else "token"] for n in numbers.tolist()]
        return np.array(ids, np.int32)[which]

    def _add_stalls(self, events: list[Stall], record: I64) -> Table:
        self.stalls.append(
            record=record,
            start=np.array([e.start_cycle for e in events], np.int64),
            end=np.array([e.end_cycle for e in events], np.int64),
            engine=self.memos.codes.column([e.master for e in events], np.int32),
            engine_id=np.array([e.master_id for e in events], np.int32),
            name=self.memos.strings.column(
                [e.reason or NO_REASON for e in events], np.int32
            ),
        )
        return self.stalls

    def _add_commands(self, events: list[Command], record: I64) -> Table:
        steps: dict[str, int] = {name: i for i, name in enumerate(COMMANDS)}
        self.memos.strings[COMMAND_NAME]
        self.commands.append(
            record=record,
            time=np.array([e.cycle for e in events], np.int64),
            id=np.array([e.cmd_id for e in events], np.int64),
            event=np.array([steps.get(e.event, -1) for e in events], np.int8),
            name=self.memos.strings.column([e.event for e in events], np.int32),
            detail=self.memos.strings.column(
                [e.phase or e.source for e in events], np.int32
            ),
        )
        return self.commands

    def _add_instants(self, events: list[Instant], record: I64) -> Table:
        for name in PHASE_NAMES:
            self.memos.strings[name]
        self.instants.append(
            record=record,
            time=np.array([e.cycle for e in events], np.int64),
            name=self.memos.strings.column([e.name for e in events], np.int32),
            detail=self.memos.strings.column([e.detail for e in events], np.int32),
            power=np.array([e.power for e in events], np.float64),
        )
        return self.instants


# In the order of _KINDS; each gets events of its own kind only. Functions of the class:
# an object that held its own methods would wait for the garbage collector.
_ADDERS: tuple[Callable[[EventColumns, list[Any], I64], Table], ...] = (
    EventColumns._add_engines,
    EventColumns._add_accesses,
    EventColumns._add_tokens,
    EventColumns._add_stalls,
    EventColumns._add_commands,
    EventColumns._add_instants,
)


def _numbering(names: list[str], most: int | None = None) -> Callable[[str], int]:
    """Return what puts a name at the end of `names` and tells its number.

    -1 where there are `most` names already.
    """

    def number(name: str) -> int:
        if len(names) == most:
            return -1
        names.append(name)
        return len(names) - 1

    return number


def _compact(values: Array) -> Array:
    """Return 64-bit integers as narrow as they are; other columns as they come."""
    if values.dtype == np.int64:
        return narrow(values)
    if values.dtype == np.uint64 and len(values) and int(values.max()) <= MAX_INT:
        return narrow(values.view(np.int64))
    return values


class RowTaker:
    """Adds rows to columns, to the same effect as `EventColumns.add`.

    Parameters
    ----------
    columns : that take the rows.
    texts : what the text numbers of the rows mean.
    """

    def __init__(self, columns: EventColumns, texts: Texts) -> None:
        self._columns = columns
        memos = columns.memos
        self._strings = Numbered(texts, memos.strings)
        self._ops = Numbered(texts, memos.ops)
        self._layers = Numbered(texts, memos.layers)
        self._colors = Numbered(texts, memos.colors)
        self._codes = Numbered(texts, memos.codes)

    def add(
        self, rows: Rows, first: int, others: Sequence[Event | None], at: I64
    ) -> I64:
        """Add the events of a block.

        Parameters
        ----------
        first : record number of row 0.
        others : events for the rows `at`, which hold none themselves.

        Returns
        -------
        Record numbers of events that end before they start; they are left out.
        """
        columns = self._columns
        marks = [(table, table.n_pieces) for table in columns.tables]
        for kind, add in (
            (ENGINE, self._add_engines),
            (ACCESS, self._add_accesses),
            (TOKEN, self._add_tokens),
            (STALL, self._add_stalls),
            (COMMAND, self._add_commands),
        ):
            of_kind = np.flatnonzero(rows.kind == kind)
            if len(of_kind):
                add(rows, of_kind, of_kind + first)
        dropped = [table.drop_reversed(mark) for table, mark in marks]
        if len(others):
            dropped.append(columns.add(others, at + first))
            for table, mark in marks:
                table.merge_since(mark)
        return np.sort(np.concatenate(dropped))

    def _add_engines(self, rows: Rows, i: I64, record: I64) -> None:
        op, layer, tile, hint = (text[i] for text in rows.texts)
        color = self._colors.column(hint, np.uint32)
        columns = self._columns
        columns.n_bad_colors += int(np.count_nonzero(color[hint >= 0] == 0))
        if len(rows.deps):
            dep_record = np.repeat(record, rows.dep_count[i])
            columns.deps.append(record=dep_record, dep=rows.deps.copy())
        columns.engines.append(
            record=record,
            start=rows.time[i],
            end=rows.until[i],
            engine=self._masters(rows.word[i]),
            engine_id=rows.unit[i],
            # Text 0 is empty and as good as none.
            name=self._strings.column(
                np.where(tile > 0, tile, np.where(layer > 0, layer, op)), np.int32
            ),
            op=self._ops.column(op, np.int16),
            layer=self._layers.column(layer, np.int16),
            color=color,
            cmdq=rows.number[i],
        )

    def _add_accesses(self, rows: Rows, i: I64, record: I64) -> None:
        address = rows.address[i]
        self._columns.accesses.append(
            record=record,
            time=rows.time[i],
            memory=self._words(("DRAM", "SPM"), rows.word[i]),
            kind=rows.way[i],
            size=rows.size[i],
            offset=address,
            address=np.maximum(address, 0).astype(np.uint64),
            engine=self._codes.column(rows.texts[0][i], np.int32),
            engine_id=rows.unit[i],
            cmdq=rows.number[i],
        )

    def _add_tokens(self, rows: Rows, i: I64, record: I64) -> None:
        index = rows.number[i].astype(np.int32)
        self._columns.tokens.append(
            record=record,
            start=rows.time[i],
            end=rows.until[i],
            index=index,
            phase=rows.word[i].astype(np.int8),
            name=self._columns.token_names(index),
        )

    def _add_stalls(self, rows: Rows, i: I64, record: I64) -> None:
        strings = self._columns.memos.strings
        reason = rows.texts[0][i]
        name = self._strings.column(np.where(reason > 0, reason, -1), np.int32)
        if (name < 0).any():
            name = np.where(name < 0, strings[NO_REASON], name).astype(np.int32)
        self._columns.stalls.append(
            record=record,
            start=rows.time[i],
            end=rows.until[i],
            engine=self._masters(rows.word[i]),
            engine_id=rows.unit[i],
            name=name,
        )

    def _add_commands(self, rows: Rows, i: I64, record: I64) -> None:
        source, phase = rows.texts[0][i], rows.texts[1][i]
        self._columns.memos.strings[COMMAND_NAME]
        self._columns.commands.append(
            record=record,
            time=rows.time[i],
            id=rows.number[i],
            event=rows.word[i].astype(np.int8),
            name=_worded(self._columns.memos.strings, COMMANDS, rows.word[i]),
            detail=self._strings.column(np.where(phase > 0, phase, source), np.int32),
        )

    def _masters(self, word: Array) -> Array:
        return self._words(WORDS, word)

    def _words(self, names: Sequence[str], word: Array) -> Array:
        return _worded(self._columns.memos.codes, names, word)


def _worded(memo: Memo, names: Sequence[str], word: Array) -> Array:
    """Return what names stand for; those that do not occur are not looked up."""
    numbers = np.full(len(names), -1, np.int32)
    for i in np.flatnonzero(np.bincount(word, minlength=len(names))).tolist():
        numbers[i] = memo[names[i]]
    return numbers[word]
