"""Rows of several tables, gathered into the columns of one trace."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import (
    F64,
    I16,
    I32,
    I64,
    U16,
    AccessColumns,
    Accesses,
    AccessKind,
    Bools,
    CounterShape,
    FlatAccesses,
    Flows,
    Space,
    SpanFlag,
    looked_up,
    narrow,
    ranked,
)
from ggscope.model.trace import LaneKind, OpTable, Severity
from ggscope.readers.common.launches import column_of, ops_around, ranges_around
from ggscope.readers.common.nesting import Nesting

_MAX_LANES = 16_384
_MAX_OPS = 32_000
_MAX_COUNTERS = 512
NONE = -(1 << 63)
"""Stands for a number that is not there."""
FAR = 1 << 61
"""Times beyond are no times: nanoseconds since 1970 reach it in 2043."""
_MAX_ROWID = 1 << 40
"""Rows beyond are drawn, but not shown as records."""


class Numbering:
    """Numbers rows of several tables one after the other."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._next = 0

    def of(self, table: str, rowid: I64) -> I64:
        """Return the numbers of a table's rows, -1 where they have none."""
        is_usual = (rowid >= 0) & (rowid < _MAX_ROWID)
        if table not in self._first:
            self._first[table] = self._next
            self._next += int(rowid[is_usual].max(initial=-1)) + 1
        return np.where(is_usual, rowid + self._first[table], -1)

    def row(self, number: int) -> tuple[str, int]:
        """Return table and rowid of a number. Raises KeyError where there is none."""
        last = max(
            (first, table) for table, first in self._first.items() if first <= number
        )
        return last[1], number - last[0]


@dataclass(frozen=True, slots=True)
class Track:
    """Where rows are drawn: a stream, a thread, a core."""

    name: str
    kind: LaneKind
    group: tuple[str, ...]
    order: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class Events:
    """Rows of one table, n of them, as columns.

    Attributes
    ----------
    record, start, end : int64[n]; the first as `Numbering` gives it.
    track : int64[n], rows of `Gathered.tracks`.
    name, op : int32[n], strings of the trace.
    category : text of all.
    size : int64[n], bytes that are copied, -1 unknown; `reads`: bool[n], whether from
        the device.
    launch : int64[n], what joins a call and the work that it launched; -1 none.
    is_call : whether these are the calls.
    thread : int64[n], of calls and of ranges that the program itself set; -1 unknown.
    is_open : bool[n], whether there is no end in the file.
    """

    record: I64
    start: I64
    end: I64
    track: I64
    name: I32
    op: I32 | None = None
    category: str | I32 = ""
    size: I64 | None = None
    reads: Bools | None = None
    launch: I64 | None = None
    is_call: bool = False
    thread: I64 | None = None
    is_open: Bools | None = None

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of a counter: values hold until the next one."""

    name: str
    unit: str
    time: I64
    value: F64


@dataclass(slots=True)
class Gathered:
    """All that becomes of a file, before it is put in order.

    Attributes
    ----------
    op_table : name of the table of ops.
    n_bad : rows without usable times; `bad_place` says where the first one is.
    """

    builder: TraceBuilder
    op_table: str
    tracks: list[Track] = field(default_factory=list)
    spans: list[Events] = field(default_factory=list)
    markers: list[Events] = field(default_factory=list)
    counters: list[Series] = field(default_factory=list)
    numbering: Numbering = field(default_factory=Numbering)
    n_bad: int = 0
    bad_place: str = ""
    _numbers: dict[Track, int] = field(default_factory=dict)

    def track(self, track: Track) -> int:
        """Return the number of a track, adding it where it is new."""
        number = self._numbers.get(track)
        if number is None:
            number = self._numbers[track] = len(self.tracks)
            self.tracks.append(track)
        return number

    def usable(self, place: str, start: I64, end: I64 | None = None) -> Bools:
        """Return which rows have times; count those that have none."""
        is_good = (start > -FAR) & (start < FAR)
        if end is not None:
            is_good &= (end > -FAR) & (end < FAR) & (end >= start)
        n_bad = len(start) - int(np.count_nonzero(is_good))
        if n_bad and not self.n_bad:
            self.bad_place = place
        self.n_bad += n_bad
        return is_good

    @property
    def origin(self) -> int | None:
        """The earliest time; None where there is nothing."""
        times = [int(e.start.min()) for e in (*self.spans, *self.markers) if len(e)]
        times += [int(series.time[0]) for series in self.counters]
        return min(times, default=None)

    def warn_of_times(self) -> None:
        """Say how many rows have no usable times."""
        self.builder.warn(
            Severity.DATA_LOSS,
            "bad_event_time",
            "rows have no times, or an end before the begin; they are left out.",
            count=self.n_bad,
            place=self.bad_place,
        )

    def add_to_builder(self, origin: int) -> None:
        """Add lanes, spans, copies, launches and markers; times count from `origin`."""
        self.spans = [events for events in self.spans if len(events)]
        self.markers = [events for events in self.markers if len(events)]
        lane_of = self._add_lanes()
        if self.spans:
            self._add_spans(lane_of, origin)
        for events in self.markers:
            order = np.argsort(events.start, kind="stable")
            self.builder.add_markers(
                time=events.start[order] - origin,
                lane=narrow(lane_of[events.track[order]]),
                name=events.name[order],
                record=events.record[order],
            )
        for series in self.counters[:_MAX_COUNTERS]:
            self.builder.add_counter(
                series.name,
                series.unit,
                CounterShape.LEVEL,
                series.time - origin,
                series.value,
            )
        if len(self.counters) > _MAX_COUNTERS:
            self.builder.warn(
                Severity.NOTICE,
                "too_many_counters",
                f"only the first {_MAX_COUNTERS} counters were loaded.",
                count=len(self.counters) - _MAX_COUNTERS,
            )

    def _add_lanes(self) -> I64:
        """Add a lane for each track that is used; return them by track."""
        used = np.zeros(len(self.tracks), np.bool_)
        for events in (*self.spans, *self.markers):
            used[events.track] = True
        lanes = np.zeros(len(self.tracks), np.int64)
        numbers = sorted(
            np.flatnonzero(used).tolist(),
            key=lambda n: (self.tracks[n].order, self.tracks[n].name),
        )
        other = -1
        for place, number in enumerate(numbers):
            track = self.tracks[number]
            if place < _MAX_LANES:
                lanes[number] = self.builder.add_lane(
                    track.name, track.kind, track.group, (place,)
                )
                continue
            if other < 0:
                other = self.builder.add_lane(
                    "others", LaneKind.THREAD, (), (_MAX_LANES,)
                )
            lanes[number] = other
        return lanes

    def _add_spans(self, lane_of: I64, origin: int) -> None:
        parts = self.spans
        builder = self.builder
        start = np.concatenate([e.start for e in parts])
        end = np.concatenate([e.end for e in parts])
        lane = lane_of[np.concatenate([e.track for e in parts])]
        order = np.lexsort((-end, start, lane))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        flags = np.concatenate([_flags(e) for e in parts])
        call, work = self._launches(parts)
        builder.flows = Flows.between(place[call], place[work])
        category = np.concatenate([self._categories(e) for e in parts])
        nesting = Nesting.of(lane[order].astype(np.int32), start[order], end[order])
        launcher = self._launchers(parts, nesting, place, call, work, category[order])
        builder.add_spans(
            start=(start - origin)[order],
            end=(end - origin)[order],
            lane=narrow(lane[order]),
            launcher=launcher,
            name=narrow(np.concatenate([e.name for e in parts])[order]),
            op=self._ops(parts)[order],
            flags=flags[order],
            category=narrow(category[order]),
            record=narrow(np.concatenate([e.record for e in parts])[order]),
        )
        self._add_copies(parts, place)

    def _launchers(
        self,
        parts: Sequence[Events],
        nesting: Nesting,
        place: I64,
        call: I64,
        work: I64,
        category: I32,
    ) -> I32 | None:
        """Return the op that launched each work on a device, a string; None without.

        It is the innermost range around the call on its thread, else the innermost
        span around it on its lane.
        """
        if not len(call):
            return None
        text = np.concatenate([e.name if e.op is None else e.op for e in parts])
        op = np.empty(len(text), np.int64)
        op[place] = text
        by = ops_around(nesting, place[call], op, category)
        texts = np.where(by >= 0, op[by], -1)
        ranges, thread = _ranges(parts), _threads(parts)
        start = np.concatenate([e.start for e in parts])
        if len(ranges):
            end = np.concatenate([e.end for e in parts])
            around = ranges_around(
                thread[call], start[call], thread[ranges], start[ranges], end[ranges]
            )
            texts = np.where(around >= 0, text[ranges][around], texts)
        return column_of(len(text), place[work], texts)

    def _categories(self, events: Events) -> I32:
        if isinstance(events.category, str):
            number = self.builder.strings.intern(events.category)
            return np.full(len(events), number, np.int32)
        return events.category

    def _ops(self, parts: Sequence[Events]) -> I16:
        """Return the op of each span; the most frequent ones have numbers."""
        ids = np.concatenate([e.name if e.op is None else e.op for e in parts])
        different, _, place = ranked(ids)
        texts = [self.builder.strings[int(i)] for i in different[:_MAX_OPS].tolist()]
        if len(different) > _MAX_OPS:
            texts.append("others")
        self.builder.ops = OpTable(self.op_table, tuple(texts), source="spelled")
        return np.minimum(place, _MAX_OPS).astype(np.int16)

    def _add_copies(self, parts: Sequence[Events], place: I64) -> None:
        """Let copies access their bytes: those from the device read, others write."""
        spans, sizes, reads, first = [], [], [], 0
        for events in parts:
            rows = np.arange(first, first + len(events))
            first += len(events)
            if events.size is None:
                continue
            is_known = events.size >= 0
            spans.append(place[rows[is_known]])
            sizes.append(events.size[is_known])
            reads.append(
                np.zeros(int(is_known.sum()), np.bool_)
                if events.reads is None
                else events.reads[is_known]
            )
        if not spans:
            return
        size, is_read = np.concatenate(sizes), np.concatenate(reads)
        _, first_of, pattern = ranked(size * 2 + is_read)
        n = len(first_of)
        patterns = np.full(first, -1, narrow(np.array([n])).dtype)
        patterns[np.concatenate(spans)] = pattern
        none = np.full(n, -1, np.int8)
        kinds = np.where(is_read[first_of], int(AccessKind.READ), int(AccessKind.WRITE))
        self.builder.accesses = Accesses(
            patterns,
            np.arange(n + 1, dtype=np.int64),
            AccessColumns(
                tensor=none,
                kind=kinds.astype(np.uint8),
                space=np.full(n, int(Space.UNKNOWN), np.uint8),
                offset=np.full(n, -1, np.int64),
                size=size[first_of],
                buffer=none,
                layer=none,
                expert=none,
                address=np.zeros(n, np.uint64),
            ),
            FlatAccesses.blank(),
        )

    def _launches(self, parts: Sequence[Events]) -> tuple[I64, I64]:
        """Return the call and each work on a device that it launched, as rows."""
        calls: list[tuple[I64, I64]] = []
        works: list[tuple[I64, I64]] = []
        first = 0
        none = np.zeros(0, np.int64)
        for events in parts:
            rows = np.arange(first, first + len(events))
            first += len(events)
            if events.launch is None:
                continue
            is_known = events.launch >= 0
            pair = (events.launch[is_known], rows[is_known])
            (calls if events.is_call else works).append(pair)
        if not calls or not works:
            return none, none
        call_key, call = (np.concatenate(c) for c in zip(*calls, strict=True))
        work_key, work = (np.concatenate(c) for c in zip(*works, strict=True))
        order = np.argsort(call_key, kind="stable")
        call_key, call = call_key[order], call[order]
        source = looked_up(call_key, call, work_key)
        return source[source >= 0], work[source >= 0]


def _threads(parts: Sequence[Events]) -> I64:
    """Return the thread of each row, -1 unknown."""
    return np.concatenate(
        [np.full(len(e), -1, np.int64) if e.thread is None else e.thread for e in parts]
    )


def _ranges(parts: Sequence[Events]) -> I64:
    """Return the rows that are ranges of known threads."""
    is_range = np.concatenate(
        [np.full(len(e), e.thread is not None and not e.is_call) for e in parts]
    )
    return np.flatnonzero(is_range & (_threads(parts) >= 0))


def _flags(events: Events) -> U16:
    flags = np.zeros(len(events), np.uint16)
    if events.is_open is not None:
        flags[events.is_open] = int(SpanFlag.UNFINISHED)
    return flags


def combined(columns: Iterable[I64]) -> tuple[list[tuple[int, ...]], I64]:
    """Return the different rows of some columns, and the place of each row there."""
    key: I64 | None = None
    columns = list(columns)
    for column in columns:
        _, _, place = ranked(column)
        n = int(place.max(initial=0)) + 1
        key = place if key is None else ranked(key * n + place)[2]
    assert key is not None
    _, first, place = ranked(key)
    rows = [tuple(int(c[i]) for c in columns) for i in first.tolist()]
    return rows, place
