"""Header columns of a tensor trace while it is read, in the order of the file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array
from ggscope.readers.api import SAMPLED_SHARE
from ggscope.readers.records import Layout

ROOM_SHARE = 32
"""Columns are made longer by one part in so many: the spans of passes and phases
follow those of the records. Memory that is never touched costs nothing."""

SAMPLE_RECORDS = 4096
"""Names are sampled in blocks of so many records."""

N_THREADS = 1 << 16
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class Wants:
    """What a scan is to take from the records.

    Attributes
    ----------
    names : one of ``NAMES_CHOICES``.
    """

    layout: Layout
    names: str = "all"

    @property
    def sample_every(self) -> int:
        """One block of `SAMPLE_RECORDS` in so many has names; 0: none has."""
        return {"all": 1, "sampled": SAMPLED_SHARE, "none": 0}[self.names]

    @property
    def name_words(self) -> tuple[int, int]:
        """The words of the name that may begin a pass, as (first, stop)."""
        if not self.layout.dst_width:
            return 0, 0
        first = 8 if self.layout.source is None else 3
        return first, first + self.layout.dst_width // 8

    @property
    def keeps_hashes(self) -> bool:
        """Whether every record's name must be hashed, for want of its pattern."""
        return self.names != "all" and bool(self.layout.dst_width)


@dataclass(slots=True, eq=False, kw_only=True)
class Columns:
    """Header columns of all op records, in file order.

    Attributes
    ----------
    time : int64[n], raw stamps.
    token : int32[n]; -1 where the claim cannot be a token number.
    layer : int16[n]; -1 none.
    thread : uint16[n], raw.
    op, phase : uint8[n], raw.
    duration : int64[n], ns from the spare bytes; None where there cannot be any.
    name_hash : uint32[n] of the destination's name, 0 where that is blank; None
        where patterns tell.
    pattern : int32[n], number in the table of whoever read the record, -1 none;
        None where names are not wanted.
    record : number of the record in the file; None where it is the row number
        + `first_record`.
    record_dtype : of `record`, wide enough for every number in the file.
    """

    time: I64
    token: npt.NDArray[np.int32]
    layer: npt.NDArray[np.int16]
    thread: npt.NDArray[np.uint16]
    op: npt.NDArray[np.uint8]
    phase: npt.NDArray[np.uint8]
    duration: I64 | None
    name_hash: npt.NDArray[np.uint32] | None
    pattern: Array | None
    record: Array | None = None
    first_record: int = 0
    record_dtype: npt.DTypeLike = np.int32

    def __len__(self) -> int:
        return len(self.time)

    def first(self, n: int) -> "Columns":
        """Return the first `n` rows, without a copy."""
        return self._each(lambda column: column[:n])

    def keep(self, at: int, row: int, is_kept: npt.NDArray[np.bool_]) -> int:
        """Move the chosen ones of the rows from `row` on to `at`; return their end."""
        rows = slice(row, row + len(is_kept))
        stop = at + int(np.count_nonzero(is_kept))
        for name in _PER_ROW:
            column = getattr(self, name)
            if column is not None:
                column[at:stop] = column[rows][is_kept]
        if self.duration is not None:
            self.duration[stop : rows.stop] = 0
        return stop

    def number(self, at: int, stop: int, records: Array | int) -> None:
        """Note the file's numbers of rows `at` to `stop`.

        `records` is the number of the first of them where they follow each other.
        """
        if isinstance(records, int):
            if self.record is None and records == self.first_record + at:
                return
            records = np.arange(records, records + stop - at)
        if self.record is None:
            # Few files have gaps; the others do without this column.
            self.record = np.empty(len(self), self.record_dtype)
            self.record[:at] = np.arange(self.first_record, self.first_record + at)
        self.record[at:stop] = records

    def _each(self, change: Callable[[Array], Array]) -> "Columns":
        changed: dict[str, Any] = {
            f.name: change(column)
            for f in fields(self)
            if isinstance(column := getattr(self, f.name), np.ndarray)
        }
        return replace(self, **changed)


_PER_ROW = (
    "time", "token", "layer", "thread", "op", "phase", "duration", "name_hash",
    "pattern",
)  # fmt: skip


def empty_columns(wants: Wants, ranges: Sequence[tuple[int, int]]) -> Columns:
    """Return columns for the records of the ranges, with nothing in them yet."""
    capacity = sum(stop - first for first, stop in ranges)
    stop = ranges[-1][1] if ranges else 0
    room = capacity + capacity // ROOM_SHARE + 256
    has_durations = wants.layout.source is not None
    return Columns(
        # Its memory later holds the ends of all spans; see `arrange`.
        time=np.empty(room, np.int64)[:capacity],
        token=np.empty(capacity, np.int32),
        layer=np.empty(capacity, np.int16),
        thread=np.empty(capacity, np.uint16),
        op=np.empty(capacity, np.uint8),
        phase=np.empty(capacity, np.uint8),
        duration=np.zeros(capacity, np.int64) if has_durations else None,
        name_hash=np.empty(capacity, np.uint32) if wants.keeps_hashes else None,
        pattern=np.empty(capacity, np.int32) if wants.sample_every else None,
        first_record=ranges[0][0] if ranges else 0,
        record_dtype=np.int32 if stop < 1 << 31 else np.int64,
    )


@dataclass(slots=True)
class Tally:
    """What a scan counted.

    Attributes
    ----------
    n_records : records that are not all zero.
    n_ops : those that are ops, one row of the columns each.
    n_extension, n_bad_time, n_expert : how many are extension records, have an
        impossible stamp, are ops that list experts.
    n_empty : all-zero records between others.
    first_bad_time, first_empty : number of the first such record; -1 none.
    has_layers : some op record names a layer other than 0.
    has_durations : some op record has something in its spare bytes.
    """

    n_records: int = 0
    n_ops: int = 0
    n_extension: int = 0
    n_bad_time: int = 0
    n_expert: int = 0
    n_empty: int = 0
    first_bad_time: int = -1
    first_empty: int = -1
    has_layers: bool = False
    has_durations: bool = False

    def add(self, other: "Tally") -> None:
        """Add what was counted in records behind these."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("first_bad_time", "first_empty"):
            if getattr(self, name) < 0:
                setattr(self, name, getattr(other, name))
        self.has_layers |= other.has_layers
        self.has_durations |= other.has_durations

    def note_holes(
        self, ranges: Sequence[tuple[int, int]], first: int, ended_at: int
    ) -> None:
        """Count the records between the ranges, from `first` on, as empty ones.

        `ended_at` is the first record that could not be read; -1 none.
        """
        at = first
        for low, stop in ranges:
            if 0 <= ended_at < low:
                return
            if low > at:
                self.n_empty += low - at
                if self.first_empty < 0 or at < self.first_empty:
                    self.first_empty = at
            at = stop


_SUMS = (
    "n_records", "n_ops", "n_extension", "n_bad_time", "n_expert", "n_empty",
)  # fmt: skip


@dataclass(slots=True, eq=False)
class Threads:
    """Raw thread ids by the first record that has them.

    Attributes
    ----------
    first : int64[65536], number of the first op record, `NEVER` for none.
    """

    first: I64 = field(default_factory=lambda: np.full(N_THREADS, NEVER, np.int64))

    def add(self, other: I64) -> None:
        """Take over the first records of some more of the file."""
        np.minimum(self.first, other, out=self.first)

    def ids(self) -> list[int]:
        """Return the raw ids in order of first appearance."""
        used = np.flatnonzero(self.first != NEVER)
        ids: list[int] = used[np.argsort(self.first[used])].tolist()
        return ids
