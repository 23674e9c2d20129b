"""Buffers for the rows of a scan, and what is known from packet to packet."""

import secrets
from typing import Any

import numpy as np

from ggscope.model.tables import I64, U8, U64, Array
from ggscope.native.declared import (
    PerfettoFlows,
    PerfettoInterned,
    PerfettoKnown,
    PerfettoNumbers,
    PerfettoRows,
    PerfettoSequences,
    PerfettoSnapshots,
    PerfettoStates,
    PerfettoTally,
    PerfettoTracks,
    PerfettoValues,
)
from ggscope.native.library import library
from ggscope.readers.common.text_blocks import TextSlots

OF_OPS = ("layer", "token", "core", "numa")
"""What ggscope writes of an op beside its times."""
OF_OWN = (*OF_OPS, "word", "span")
"""Further what it writes: the op where that is not the name, or the detail of a marker;
the span of a wait."""
_N_TABLE = 1 << 10
"""Sequences, tracks, texts and clocks there is room for at first."""
_MAX_EXTRA = 8
TRACK_COLUMNS: dict[str, Any] = {
    **dict.fromkeys(("track", "parent"), np.int32),
    **dict.fromkeys(("name", "process", "thread", "unit", "merge_key"), np.int32),
    **dict.fromkeys(("pid", "tid", "multiplier"), np.int64),
    "rank": np.int32,
    **dict.fromkeys(("flags", "unit_code", "ordering"), np.uint8),
}
_COLUMNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "rows": (
        PerfettoRows,
        {
            **dict.fromkeys(("offset", "time", "duration"), np.int64),
            **dict.fromkeys(("clock", "track", "name", "category"), np.int32),
            **dict.fromkeys(("phase", "flags", "quality"), np.uint8),
            **dict.fromkeys(OF_OWN, np.int32),
        },
    ),
    "values": (
        PerfettoValues,
        {
            "time": np.int64, "value": np.float64,
            **dict.fromkeys(("clock", "track", "state"), np.int32),
        },
    ),
    "flows": (
        PerfettoFlows, {"row": np.int32, "id": np.uint64, "role": np.uint8},
    ),
    "tracks": (PerfettoTracks, TRACK_COLUMNS),
    "interned": (
        PerfettoInterned,
        {
            **dict.fromkeys(("number", "length", "text"), np.int32),
            "offset": np.int64,
        },
    ),
    "snapshots": (
        PerfettoSnapshots,
        {"snapshot": np.int32, "clock": np.int32, "time": np.int64},
    ),
    "states": (PerfettoStates, {"sequence": np.int32, "offset": np.int64}),
}  # fmt: skip


class _Table:
    """Small numbers for pairs of large ones; it grows."""

    def __init__(self, secret: int) -> None:
        self.capacity = 0
        self.struct = PerfettoNumbers(secret=secret)
        self._columns: dict[str, Array] = {
            "first": np.zeros(0, np.uint64),
            "second": np.zeros(0, np.uint64),
            "space": np.zeros(0, np.uint8),
        }

    @property
    def count(self) -> int:
        """Number of pairs."""
        return int(self.struct.count)

    @property
    def first(self) -> U64:
        """The first number of each pair."""
        return self._columns["first"][: self.count]

    @property
    def second(self) -> U64:
        """The second number of each pair."""
        return self._columns["second"][: self.count]

    @property
    def space(self) -> U8:
        """What each pair is of."""
        return self._columns["space"][: self.count]

    def column(self, name: str) -> Array:
        """Return a copy of a column."""
        return self._columns[name][: self.count].copy()

    def grow(self, needed: int) -> None:
        """Make room for some more."""
        if self.count + needed <= self.capacity:
            return
        self.capacity = max(2 * self.capacity, self.count + needed, _N_TABLE)
        n_slots = 1 << (2 * self.capacity).bit_length()
        for name, column in self._columns.items():
            self._columns[name] = grown(column, self.capacity)
        self.struct = PerfettoNumbers(
            count=self.count,
            capacity=self.capacity,
            n_slots=n_slots,
            secret=self.struct.secret,
            slots=np.zeros(n_slots, np.int32),
            **self._columns,
        )
        library().ggscope_perfetto_rehash(self.struct)


def grown(column: Array, n: int) -> Array:
    """Return an array of `n` values that begins with those of another, then zeros."""
    result = np.zeros(n, column.dtype)
    result[: len(column)] = column
    return result


class Tables:
    """What is known of sequences, tracks, interned texts and clocks."""

    def __init__(self) -> None:
        secret = secrets.randbits(64)
        self.sequences, self.tracks = _Table(secret), _Table(secret)
        self.interned, self.clocks = _Table(secret), _Table(secret)
        self._of_sequence: dict[str, Array] = {
            **dict.fromkeys(("state",), np.zeros(0, np.int32)),
            **{
                name: np.zeros(0, np.uint8)
                for name in (
                    "is_valid", "has_track", "has_thread", "has_time", "n_extra",
                    "n_extra_double",
                )
            },
            **{name: np.zeros(0, np.int64) for name in ("clock", "pid", "tid", "time")},
            "track": np.zeros(0, np.uint64),
            "extra": np.zeros(0, np.int32),
            "extra_double": np.zeros(0, np.int32),
        }  # fmt: skip
        self._of_clock: dict[str, Array] = {
            "multiplier": np.zeros(0, np.int64),
            "last": np.zeros(0, np.int64),
            "is_incremental": np.zeros(0, np.uint8),
        }
        self._of_interned: dict[str, Array] = {
            "hash": np.zeros(0, np.uint64),
            "note": np.zeros(0, np.uint8),
        }
        self.of_sequences = PerfettoSequences()
        self.known = PerfettoKnown()
        self.grow(_N_TABLE)

    @property
    def interned_space(self) -> U8:
        """The table of each interned text."""
        return self.interned.space

    def grow(self, needed: int) -> None:
        """Make room for some more of everything."""
        for table in (self.sequences, self.tracks, self.interned, self.clocks):
            table.grow(needed)
        for columns, n in (
            (self._of_sequence, self.sequences.capacity),
            (self._of_clock, self.clocks.capacity),
            (self._of_interned, self.interned.capacity),
        ):
            for name, column in columns.items():
                width = _MAX_EXTRA if name.startswith("extra") else 1
                if len(column) < width * n:
                    columns[name] = grown(column, width * n)
        self.of_sequences = PerfettoSequences(**self._of_sequence)
        self.known = PerfettoKnown(**self._of_clock, **self._of_interned)

    def clock_keys(self) -> I64:
        """Return sequence + 1 or 0, and number of each clock, int64[k, 2]."""
        return np.stack([self.clocks.second, self.clocks.first], 1).astype(np.int64)


class Buffers:
    """Where a scan puts its rows; used again for each."""

    def __init__(self, capacity: int, tally: PerfettoTally | None = None) -> None:
        self.capacity = capacity
        self.texts = TextSlots.of(capacity)
        self._arrays = {
            table: {name: np.zeros(capacity, dtype) for name, dtype in columns.items()}
            for table, (_, columns) in _COLUMNS.items()
        }
        self._structs = {
            table: struct(capacity=capacity, **self._arrays[table])
            for table, (struct, _) in _COLUMNS.items()
        }
        self.tally = tally or PerfettoTally(primary_clock=-1)

    def scan(
        self, data: U8, at: int, base: int, tables: Tables, *, has_own: bool
    ) -> PerfettoTally:
        """Read packets; return how far."""
        self.texts.clear()
        for struct in self._structs.values():
            struct.count = 0
        library().ggscope_perfetto_scan(
            data, len(data), at, base, int(has_own), *self._structs.values(),
            self.texts.table, tables.sequences.struct, tables.tracks.struct,
            tables.interned.struct, tables.clocks.struct, tables.of_sequences,
            tables.known, self.tally,
        )  # fmt: skip
        return self.tally

    def n(self, table: str) -> int:
        """Return how many rows the last scan put into a table."""
        return int(self._structs[table].count)

    def taken(self, table: str) -> dict[str, Array]:
        """Return copies of the rows of the last scan."""
        n = self.n(table)
        return {name: column[:n].copy() for name, column in self._arrays[table].items()}

    def kinds(self) -> dict[int, int]:
        """Return the number of packets by field."""
        counts = np.ctypeslib.as_array(self.tally.kinds)
        return {int(i): int(counts[i]) for i in np.flatnonzero(counts)}
