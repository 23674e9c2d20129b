"""Columns of timeline events, gathered block by block.

The decoder's objects live for one block only; what stays are arrays. The lists in
between are plain comprehensions over a fixed attribute: they are three times as fast
as ``attrgetter`` and give other threads their turn.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, compress
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.model.strings import StringTable
from ggscope.model.tables import I64, Array
from ggscope.readers.npu_events import (
    COMMANDS,
    DIRECTIONS,
    MAX_INT,
    TOKEN_PHASES,
    Access,
    Command,
    Engine,
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
    """Columns that grow piece by piece.

    Parameters
    ----------
    dtypes : dtype of each column by name.
    """

    def __init__(self, **dtypes: npt.DTypeLike) -> None:
        self._dtypes = dtypes
        self._pieces: list[Mapping[str, Array]] = []
        self._n_rows = 0

    def __len__(self) -> int:
        return self._n_rows

    def append(self, **columns: Array) -> None:
        """Add rows: one array for each column, all of one length."""
        self._pieces.append(columns)
        self._n_rows += len(next(iter(columns.values())))

    def column(self, name: str) -> Array:
        """Return one column whole."""
        parts = [piece[name] for piece in self._pieces]
        if not parts:
            return np.zeros(0, self._dtypes[name])
        return np.concatenate(parts).astype(self._dtypes[name], copy=False)

    def last(self, *names: str) -> list[Array]:
        """Return columns of the piece that came last."""
        return [self._pieces[-1][name] for name in names]

    def keep(self, rows: Array) -> None:
        """Keep only the given rows of the piece that came last."""
        piece = self._pieces[-1]
        self._n_rows += int(np.count_nonzero(rows)) - len(rows)
        self._pieces[-1] = {name: column[rows] for name, column in piece.items()}


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
        self._strings = Memo(strings.intern)
        self._ops = Memo(self._op_number)
        self._codes = Memo(self._name_code)
        self._layers = Memo(layer_number)
        self._colors = Memo(color_value, 0)
        # In the order of _KINDS; each gets events of its own kind only.
        self._adders: tuple[Callable[[list[Any], I64], Table | None], ...] = (
            self._add_engines,
            self._add_accesses,
            self._add_tokens,
            self._add_stalls,
            self._add_commands,
            self._add_instants,
        )
        i64, i32 = np.int64, np.int32
        self.engines = Table(
            record=i64,
            start=i64,
            end=i64,
            engine=i32,
            engine_id=i32,
            name=i32,
            op=np.int16,
            layer=np.int16,
            color=np.uint32,
            cmdq=i64,
        )
        self.deps = Table(record=i64, dep=i64)
        self.accesses = Table(
            record=i64,
            time=i64,
            memory=i32,
            kind=np.uint8,
            size=i64,
            offset=i64,
            address=np.uint64,
            engine=i32,
            engine_id=i32,
            cmdq=i64,
        )
        self.tokens = Table(record=i64, start=i64, end=i64, index=i32, phase=np.int8)
        self.stalls = Table(
            record=i64, start=i64, end=i64, engine=i32, engine_id=i32, name=i32
        )
        self.commands = Table(
            record=i64, time=i64, id=i64, event=np.int8, name=i32, detail=i32
        )
        self.instants = Table(record=i64, time=i64, name=i32, detail=i32, power=float)
        self.samples = Table(
            time=i64, window=i64, read=float, write=float, stall=float, kv=float
        )

    def add(self, events: Sequence[object], first: int) -> I64:
        """Add the events of a block.

        Parameters
        ----------
        events : None stands for an event that is left out.
        first : record number of ``events[0]``.

        Returns
        -------
        Record numbers of events that end before they start; they are left out.
        """
        reversed_times = [np.zeros(0, np.int64)]
        kinds = np.fromiter(
            map(_KIND_NUMBERS.__getitem__, map(type, events)), np.int8, len(events)
        )
        for number, add in enumerate(self._adders):
            of_kind = kinds == number
            rows = np.flatnonzero(of_kind)
            if not len(rows):
                continue
            table = add(list(compress(events, of_kind.tobytes())), rows + first)
            if table is not None:
                reversed_times.append(_drop_reversed(table))
        return np.sort(np.concatenate(reversed_times))

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

    def _add_engines(self, events: list[Engine], record: I64) -> Table:
        hints = [e.color_hint for e in events]
        color = self._colors.column(hints, np.uint32)
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
            engine=self._codes.column([e.engine for e in events], np.int32),
            engine_id=np.array([e.engine_id for e in events], np.int32),
            name=self._strings.column(
                [e.tile_id or e.layer_id or e.op for e in events], np.int32
            ),
            op=self._ops.column([e.op for e in events], np.int16),
            layer=self._layers.column([e.layer_id for e in events], np.int16),
            color=color,
            cmdq=np.array([e.cmdq_id for e in events], np.int64),
        )
        return self.engines

    def _add_accesses(self, events: list[Access], record: I64) -> None:
        raw = [e.addr for e in events]
        self.accesses.append(
            record=record,
            time=np.array([e.cycle for e in events], np.int64),
            memory=self._codes.column([e.mem_type for e in events], np.int32),
            kind=np.array([e.direction == DIRECTIONS[1] for e in events], np.uint8),
            size=np.array([e.bytes for e in events], np.int64),
            # Kernel-like addresses do not fit the signed column.
            offset=np.array(
                [-1 if a is None or a > MAX_INT else a for a in raw], np.int64
            ),
            address=np.array([a or 0 for a in raw], np.uint64),
            engine=self._codes.column([e.source_engine for e in events], np.int32),
            engine_id=np.array([e.source_engine_id for e in events], np.int32),
            cmdq=np.array([e.cmdq_id for e in events], np.int64),
        )

    def _add_tokens(self, events: list[Token], record: I64) -> Table:
        phases: dict[str, int] = {name: i for i, name in enumerate(TOKEN_PHASES)}
        self.tokens.append(
            record=record,
            start=np.array([e.start_cycle for e in events], np.int64),
            end=np.array([e.end_cycle for e in events], np.int64),
            index=np.array([e.token_index for e in events], np.int32),
            phase=np.array([phases.get(e.phase, -1) for e in events], np.int8),
        )
        return self.tokens

    def _add_stalls(self, events: list[Stall], record: I64) -> Table:
        self.stalls.append(
            record=record,
            start=np.array([e.start_cycle for e in events], np.int64),
            end=np.array([e.end_cycle for e in events], np.int64),
            engine=self._codes.column([e.master for e in events], np.int32),
            engine_id=np.array([e.master_id for e in events], np.int32),
            name=self._strings.column([e.reason or "stall" for e in events], np.int32),
        )
        return self.stalls

    def _add_commands(self, events: list[Command], record: I64) -> None:
        steps: dict[str, int] = {name: i for i, name in enumerate(COMMANDS)}
        self.commands.append(
            record=record,
            time=np.array([e.cycle for e in events], np.int64),
            id=np.array([e.cmd_id for e in events], np.int64),
            event=np.array([steps.get(e.event, -1) for e in events], np.int8),
            name=self._strings.column([e.event for e in events], np.int32),
            detail=self._strings.column(
                [e.phase or e.source for e in events], np.int32
            ),
        )

    def _add_instants(self, events: list[Instant], record: I64) -> None:
        self.instants.append(
            record=record,
            time=np.array([e.cycle for e in events], np.int64),
            name=self._strings.column([e.name for e in events], np.int32),
            detail=self._strings.column([e.detail for e in events], np.int32),
            power=np.array([e.power for e in events], np.float64),
        )

    def _op_number(self, op: str) -> int:
        if len(self.ops) == MAX_OPS:
            return -1
        self.ops.append(op)
        return len(self.ops) - 1

    def _name_code(self, name: str) -> int:
        self.names.append(name)
        return len(self.names) - 1


def _drop_reversed(table: Table) -> I64:
    """Leave out the rows added last that end before they start; return them."""
    record, start, end = table.last("record", "start", "end")
    bad = end < start
    if not bad.any():
        return np.zeros(0, np.int64)
    dropped: I64 = record[bad]
    table.keep(~bad)
    return dropped
