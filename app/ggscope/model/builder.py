"""TraceBuilder: the only way to make a trace."""

from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields, replace
from typing import TypeVar

import numpy as np

from ggscope.model.backend_ops import BackendOps
from ggscope.model.batches import BatchTokens, TokenSequences
from ggscope.model.bench import BenchRuns
from ggscope.model.expert_counts import ExpertCounts
from ggscope.model.graph import Graph
from ggscope.model.growing import Growing, GrowingTable
from ggscope.model.importance import Importance
from ggscope.model.requests import ServerLog
from ggscope.model.residency import Residency
from ggscope.model.routing import Routing
from ggscope.model.run import RecordCount
from ggscope.model.storage import Storage
from ggscope.model.tables import (
    AccessColumns,
    Accesses,
    Array,
    CounterSeries,
    CounterShape,
    FlatAccesses,
    Flows,
    Markers,
    Spans,
    StringTable,
    Table,
    no_accesses,
    schema_of,
    stacked,
)
from ggscope.model.tensors import Buffers, ModelFile, Tensors
from ggscope.model.trace import (
    DeclaredMetric,
    LaneColumns,
    LaneKind,
    OpTable,
    RawFileValues,
    ReadWarning,
    RecordAccess,
    Severity,
    Trace,
    TraceInfo,
    contradiction,
)
from ggscope.model.units import Clock, TimeRange
from ggscope.sanitize import one_line

_T = TypeVar("_T", bound=Table)
STATED_CODE = "stated_figures"
"""Code of the warning that a file's content contradicts what it says of itself."""
_LISTED = 6
"""Contradictions that one warning spells out; ``ggscope info`` lists all of them."""


class TraceBuilder:
    """Collects columns and hands out immutable snapshots.

    Columns are taken over, not copied, where a table comes in one piece: the
    caller must not change an array after handing it in.

    Parameters
    ----------
    grows : whether there will be snapshots many times a second, as of a program that
        is still running: columns have spare capacity then, and a snapshot costs what
        came since the last one.
    """

    def __init__(self, *, grows: bool = False) -> None:
        self.strings = StringTable()
        self.clock = Clock()
        self.ops: OpTable | None = None
        self.records: RecordAccess | None = None
        self.accesses: Accesses | None = None
        self.tensors = Tensors.blank()
        self.buffers = Buffers.blank()
        self.models: tuple[ModelFile, ...] = ()
        self.routing = Routing.blank()
        self.claims: RawFileValues | None = None
        self.residency: Residency | None = None
        self.record_count: RecordCount | None = None
        self.log: ServerLog | None = None
        self.bench: BenchRuns | None = None
        self.importance: Importance | None = None
        self.expert_counts: ExpertCounts | None = None
        self.backend_ops: BackendOps | None = None
        self.storage: Storage | None = None
        self.flows = Flows.blank()
        self._lanes = LaneColumns()
        self._grown = _Grown() if grows else None
        self._spans: list[Spans] = []
        self._markers: list[Markers] = []
        self._counters: list[CounterSeries] = []
        self._graphs: list[Graph] = []
        self._ubatches: _Ubatches | None = None
        self._warnings: dict[str, ReadWarning] = {}
        self._generation = 0
        self._open = Spans.blank()

    def add_lane(
        self,
        name: str,
        kind: LaneKind,
        group: tuple[str, ...] = (),
        sort_key: tuple[int, ...] | None = None,
        **attributes: str,
    ) -> int:
        """Add a lane; return its id."""
        key = (len(self._lanes),) if sort_key is None else sort_key
        return self._lanes.add((name,), kind, group, (key,), attributes)

    def add_lanes(
        self,
        names: Sequence[str],
        kind: LaneKind,
        group: tuple[str, ...],
        sort_keys: Sequence[tuple[int, ...]],
        **attributes: str,
    ) -> int:
        """Add lanes that differ in name and order alone; return the first one's id."""
        return self._lanes.add(names, kind, group, sort_keys, attributes)

    @property
    def grows(self) -> bool:
        """Whether there will be snapshots while more comes."""
        return self._grown is not None

    @property
    def n_spans(self) -> int:
        """Number of spans so far: the id of the next one."""
        return sum(map(len, self._spans)) if self._grown is None else len(self._grown)

    def add_spans(
        self,
        *,
        start: Array,
        end: Array,
        lane: Array | int,
        pattern: Array | None = None,
        **columns: Array | int | None,
    ) -> int:
        """Append spans with any of the columns of `Spans`.

        A scalar stands for the whole column, None for a column that is missing.
        `pattern` is that of each span, see `add_patterns`; only where the trace grows.

        Returns
        -------
        The id of the first one.

        Raises
        ------
        TypeError
            If there is no such column.
        """
        first = self.n_spans
        start = np.ascontiguousarray(start, np.int64)
        end = np.ascontiguousarray(end, np.int64)
        spans = _rows(Spans, len(start), start=start, end=end, lane=lane, **columns)
        if self._grown is None:
            self._spans.append(spans)
        else:
            self._grown.append(spans, pattern)
        return first

    def add_patterns(
        self,
        rows: AccessColumns,
        lengths: Array,
        result: Array | None = None,
        writer: Array | None = None,
    ) -> int:
        """Append access patterns of a trace that grows; return the first one's number.

        Parameters
        ----------
        rows : the accesses of one after the other; `lengths` : how many each has.
        result : bytes of what an op of each computes, -1 unknown; None = of all.
        writer : for each of `rows` which of these patterns the op makes whose result it
            is, -1 none; None = not known of any.
        """
        assert self._grown is not None
        return self._grown.add_patterns(rows, lengths, result, writer)

    def set_open(self, spans: Spans) -> None:
        """Say which spans have begun and not ended, instead of the last ones."""
        self._open = spans

    def add_markers(
        self, *, time: Array, lane: Array | int, **columns: Array | int | None
    ) -> None:
        """Append markers with any columns of `Markers`, as `add_spans`."""
        time = np.ascontiguousarray(time, np.int64)
        columns = {"record": -1, **columns}
        markers = _rows(Markers, len(time), time=time, lane=lane, **columns)
        if self._grown is None:
            self._markers.append(markers)
        else:
            self._grown.append_markers(markers)

    def add_counter(
        self,
        name: str,
        unit: str,
        shape: CounterShape,
        time: Array,
        value: Array,
        *,
        lane: int | None = None,
        window: Array | None = None,
    ) -> int:
        """Add a series in time order; without `lane` it gets one of its own."""
        if lane is None:
            lane = self.add_lane(name, LaneKind.COUNTER, ("Counters",))
        series_id = len(self._counters)
        self._counters.append(
            CounterSeries(
                series_id,
                name,
                lane,
                unit,
                shape,
                np.ascontiguousarray(time, np.int64),
                np.ascontiguousarray(value, np.float64),
                None if window is None else np.ascontiguousarray(window, np.int64),
            )
        )
        return series_id

    def set_counter(self, series: int, time: Array, value: Array) -> None:
        """Give a series other samples, in time order: of a trace that grows."""
        self._counters[series] = replace(
            self._counters[series],
            time=np.ascontiguousarray(time, np.int64),
            value=np.ascontiguousarray(value, np.float64),
        )

    def add_tokens(self, tokens: BatchTokens, counts: Array, sequences: Array) -> None:
        """Add tokens of a ubatch, each of `counts` of the `sequences`."""
        if self._ubatches is None:
            self._ubatches = _Ubatches()
        self._ubatches.append(tokens, counts, sequences)

    @property
    def n_tokens(self) -> int:
        """Number of tokens of ubatches so far."""
        return 0 if self._ubatches is None else len(self._ubatches.tokens)

    def add_graph(self, graph: Graph) -> None:
        """Add a computation graph."""
        self._graphs.append(graph)

    def warn(
        self,
        severity: Severity,
        code: str,
        message: str,
        offset: int | None = None,
        count: int = 1,
        *,
        place: str = "",
        remedy: str = "",
    ) -> None:
        """Note a problem that occurs `count` times; repeats of a code add to its count.

        A sentence is one line, whatever the names of the file in it are made of.
        """
        if not count:
            return
        old = self._warnings.get(code)
        if old is None:
            message, place = one_line(message), one_line(place)
            self._warnings[code] = ReadWarning(
                severity, code, message, count, offset, place, remedy
            )
        else:
            self._warnings[code] = ReadWarning(
                max(old.severity, severity),
                code,
                old.message,
                old.count + count,
                old.offset,
                old.place,
                old.remedy,
            )

    def retract(self, code: str) -> None:
        """Take a problem back: of a trace that grows, where it may hold no more."""
        self._warnings.pop(code, None)

    @property
    def has_loss(self) -> bool:
        """Whether a warning reports lost data."""
        return any(w.severity == Severity.DATA_LOSS for w in self._warnings.values())

    @property
    def warnings(self) -> tuple[ReadWarning, ...]:
        """All warnings so far, the worst first."""
        return tuple(sorted(self._warnings.values(), key=lambda w: -w.severity))

    def warn_stated(self, figures: Iterable[DeclaredMetric]) -> None:
        """Note the figures of a file that its content contradicts, all in one row."""
        wrong = [figure for figure in figures if figure.agrees is False]
        if not wrong:
            return
        shown = "; ".join(contradiction(figure) for figure in wrong[:_LISTED])
        more = len(wrong) - _LISTED
        self.warn(
            Severity.NOTICE,
            STATED_CODE,
            f"figures that the file states do not match its content. {shown}"
            + (f"; and {more:,} more." if more > 0 else "."),
            count=len(wrong),
            place=wrong[0].place,
            remedy="Cite the computed figures, or find out what the writer counted.",
        )

    def snapshot(
        self,
        info: TraceInfo,
        pending: frozenset[str] = frozenset(),
        *,
        read_until: int | None = None,
        extent: TimeRange | None = None,
    ) -> Trace:
        """Return the trace as it stands, with read-only columns.

        Parameters
        ----------
        pending, read_until : see `Trace`.
        extent : of the whole file where that is known to be more than the spans
            so far; widened to hold everything that is there.
        """
        batch_tokens, sequences = BatchTokens.blank(), TokenSequences.blank()
        if self._ubatches is not None:
            batch_tokens = self._ubatches.tokens.table()
            sequences = self._ubatches.sequences.table()
        if self._grown is None:
            spans, markers, accesses = self._stacked()
            whole = _extent(spans, markers, accesses, self._counters)
        else:
            spans, markers, accesses = self._grown.tables()
            whole = self._grown.extent(self._counters)
        self._generation += 1
        trace = Trace(
            info=info,
            clock=self.clock,
            extent=_widened(whole, extent),
            strings=self.strings,
            lanes=self._lanes.lanes(),
            spans=spans,
            markers=markers,
            accesses=accesses,
            counters=tuple(self._counters),
            flows=self.flows,
            tensors=self.tensors,
            buffers=self.buffers,
            graphs=tuple(self._graphs),
            warnings=self.warnings,
            ops=self.ops,
            records=self.records,
            pending=pending,
            generation=self._generation,
            read_until=read_until,
            models=self.models,
            routing=self.routing,
            claims=self.claims,
            residency=self.residency,
            record_count=self.record_count,
            log=self.log,
            bench=self.bench,
            importance=self.importance,
            expert_counts=self.expert_counts,
            backend_ops=self.backend_ops,
            storage=self.storage,
            open_spans=self._open,
            batch_tokens=batch_tokens,
            token_sequences=sequences,
        )
        trace.freeze()
        return trace

    def _stacked(self) -> tuple[Spans, Markers, Accesses]:
        self._spans = [stacked(*self._spans)] if self._spans else [Spans.blank()]
        self._markers = [stacked(*self._markers)] if self._markers else []
        spans = self._spans[0]
        markers = self._markers[0] if self._markers else Markers.blank().full()
        accesses = no_accesses(len(spans)) if self.accesses is None else self.accesses
        if len(accesses.pattern) < len(spans):
            missing = len(spans) - len(accesses.pattern)
            pattern = np.append(accesses.pattern, np.full(missing, -1, np.int32))
            accesses = replace(accesses, pattern=pattern)
        return spans, markers, accesses


class _Ubatches:
    """The tokens of the ubatches of a recording, which few traces have."""

    def __init__(self) -> None:
        self.tokens = GrowingTable(BatchTokens)
        self.sequences = GrowingTable(TokenSequences)

    def append(self, tokens: BatchTokens, counts: Array, sequences: Array) -> None:
        """Add tokens, each of `counts` of the `sequences`."""
        first = len(self.tokens)
        self.tokens.append(tokens)
        rows = np.repeat(np.arange(first, first + len(tokens)), counts)
        if len(rows):
            self.sequences.append(TokenSequences(rows.astype(np.int64), sequences))


class _Grown:
    """The tables of a trace that grows."""

    def __init__(self) -> None:
        self._spans = GrowingTable(Spans)
        self._markers = GrowingTable(Markers)
        self._rows = GrowingTable(AccessColumns)
        self._pattern = Growing(np.int32)
        self._first = Growing(np.int64)
        self._first.append(np.zeros(1, np.int64))
        self._result = Growing(np.int64)
        self._writer = Growing(np.int32)
        self._has_results = self._has_writers = False
        self._low: int | None = None
        self._high = 0

    def __len__(self) -> int:
        return len(self._spans)

    def append(self, spans: Spans, pattern: Array | None) -> None:
        """Add spans and the patterns of their accesses (None: they have none)."""
        self._spans.append(spans)
        missing = np.full(len(spans), -1, np.int32)
        self._pattern.append(missing if pattern is None else pattern)
        if len(spans):
            self._note(int(spans.start.min()), spans.last_tick())

    def append_markers(self, markers: Markers) -> None:
        """Add markers."""
        self._markers.append(markers)
        if len(markers):
            self._note(int(markers.time.min()), int(markers.time.max()))

    def add_patterns(
        self,
        rows: AccessColumns,
        lengths: Array,
        result: Array | None,
        writer: Array | None,
    ) -> int:
        """Add patterns; return the number of the first one."""
        number, n = len(self._first) - 1, len(self._rows)
        self._has_results |= result is not None
        none = np.full(len(lengths), -1, np.int64)
        self._result.append(none if result is None else result)
        self._has_writers |= writer is not None
        of_pattern = np.full(len(rows), -1, np.int32)
        if writer is not None:
            of_pattern[:] = np.where(writer >= 0, writer + number, -1)
        self._writer.append(of_pattern)
        self._rows.append(rows)
        self._first.append(np.cumsum(lengths, dtype=np.int64) + n)
        return number

    def tables(self) -> tuple[Spans, Markers, Accesses]:
        """Return all that is there."""
        accesses = Accesses(
            self._pattern.view(),
            self._first.view(),
            self._rows.table(),
            FlatAccesses.blank(),
            self._result.view() if self._has_results else None,
            self._writer.view() if self._has_writers else None,
        )
        markers = self._markers.table() if len(self._markers) else Markers.blank()
        return self._spans.table(), markers.full(), accesses

    def extent(self, counters: list[CounterSeries]) -> TimeRange:
        """Return from when to when all of it and `counters` last; see `_extent`."""
        if self._low is None:
            return _extent(Spans.blank(), Markers.blank(), no_accesses(0), counters)
        low, high = self._low, self._high
        for series in counters:
            if len(series):
                low = min(low, int(series.time.min()))
                high = max(high, int(series.time.max()))
        return TimeRange(low, high)

    def _note(self, low: int, high: int) -> None:
        self._high = high if self._low is None else max(self._high, high)
        self._low = low if self._low is None else min(self._low, low)


def _rows(table: type[_T], n: int, **columns: Array | int | None) -> _T:
    """Return `n` rows of a table whose given columns are arrays, scalars or missing."""
    schema, given = schema_of(table), {}
    for name, value in columns.items():
        if name not in schema:
            raise TypeError(f"{table.__name__} have no column {name!r}")
        if isinstance(value, int | np.integer):
            given[name] = np.full(n, value, schema[name].dtype)
        elif value is not None:
            given[name] = value
    for f in fields(table):
        if f.name not in given and f.default is MISSING:
            given[f.name] = schema[f.name].blank(n)
    return table(**given)


def _widened(extent: TimeRange, announced: TimeRange | None) -> TimeRange:
    if announced is None:
        return extent
    return TimeRange(min(extent.start, announced.start), max(extent.end, announced.end))


def _extent(
    spans: Spans,
    markers: Markers,
    accesses: Accesses,
    counters: list[CounterSeries],
) -> TimeRange:
    """Return from when to when all of it lasts.

    Windows of counters are as long as their writer counted: the last one mostly ends
    behind the run. They say how long it lasts only where nothing else does.
    """
    lows: list[int] = []
    highs: list[int] = []

    def note(times: Array, ends: Array | None = None) -> None:
        if len(times):
            lows.append(int(times.min()))
            highs.append(int((times if ends is None else ends).max()))

    if len(spans):
        lows.append(int(spans.start.min()))
        highs.append(spans.last_tick())
    note(markers.time)
    note(accesses.loose.time)
    has_windows_alone = not lows
    for series in counters:
        windows = series.window if has_windows_alone else None
        note(series.time, None if windows is None else series.time + windows)
    return TimeRange(min(lows), max(highs)) if lows else TimeRange(0, 0)
