"""Lanes of an NPU from the lines of ggml's Hexagon backend.

Cycle counters have 32 bits and wrap every two seconds or so; the clock of the log,
where lines have one, says how often they did between two lines. Threads 0 to 9 run HVX
code and may have DMA under way at the same time; "thread 10" stands for HMX, as in
``ggml-hexagon-trace.py``.
"""

import re
from dataclasses import dataclass, replace

import numpy as np

from ggscope.model.backend_ops import BackendOps
from ggscope.model.builder import TraceBuilder
from ggscope.model.names import is_weight_name, layer_of
from ggscope.model.tables import (
    I16,
    I32,
    I64,
    AccessColumns,
    Accesses,
    AccessKind,
    FlatAccesses,
    Space,
    SpanFlag,
)
from ggscope.model.tensors import Tensors
from ggscope.model.trace import LaneKind, OpTable, Severity
from ggscope.readers.common.interval_pairing import match
from ggscope.readers.common.op_lines import Kind, OpLines

HMX_THREAD = 10
_WRAP = 1 << 32
_UNFINISHED = int(SpanFlag.UNFINISHED)
_MAX_LANES = 256
_KINDS = (Kind.PROFILED_OP, Kind.BATCH, Kind.EVENT)


@dataclass(frozen=True, slots=True, eq=False)
class NpuTimes:
    """When profiled ops, batches and events were, on one clock.

    Attributes
    ----------
    rows : int64[n], rows of `OpLines` of the three kinds.
    start : int64[n], ns from the first; -1 where the line has no cycle.
    hz : cycles per second, of all ops of the file; 0 unknown: then ticks are cycles.
    n_guessed : wraps that only the log's clock shows.
    """

    rows: I64
    start: I64
    hz: int
    n_guessed: int


def npu_times(lines: OpLines) -> NpuTimes:
    """Return when ops, batches and events were, from their 32-bit counters."""
    rows = lines.rows(*_KINDS)
    is_event = lines.kind[rows] == Kind.EVENT
    raw = np.where(is_event, lines.value[rows, 1], lines.value[rows, 2])
    hz = _frequency(lines)
    cycles = np.full(len(rows), -1, np.int64)
    n_guessed = 0
    for session in np.unique(lines.text[rows, 2]).tolist():
        mine = np.flatnonzero((lines.text[rows, 2] == session) & (raw >= 0))
        whole, n = _unwrapped(raw[mine], lines.time[rows[mine]], hz)
        cycles[mine] = whole
        n_guessed += n
    known = cycles >= 0
    if known.any():
        cycles[known] -= cycles[known].min()
    start = np.where(known, _ns(cycles, hz), -1)
    return NpuTimes(rows, start, hz, n_guessed)


def _frequency(lines: OpLines) -> int:
    """Return cycles per second: of all ops together, else what lines state; 0 none."""
    rows = lines.rows(Kind.PROFILED_OP, Kind.BATCH)
    micros, cycles = lines.value[rows, 0], lines.value[rows, 1]
    timed = (micros > 0) & (micros < 1 << 40) & (cycles > 0) & (cycles < 1 << 52)
    # Batches are around ops: the same cycles would count twice.
    is_op = lines.kind[rows] == Kind.PROFILED_OP
    timed &= is_op if (timed & is_op).any() else True
    if timed.any():
        hz = sum(cycles[timed].tolist()) * 10**6 // int(micros[timed].sum())
    else:
        stated = lines.value[rows, 3]
        stated = stated[stated > 0]
        hz = int(np.median(stated)) if len(stated) else 0
    return hz if hz < 9 * 10**9 else 0


def _unwrapped(raw: I64, time: I64, hz: int) -> tuple[I64, int]:
    """Return counts that do not wrap, from 2^32 on, and how many wraps were guessed.

    Between two neighbours lies less than half a round, unless the log's clock says
    that more of them went by.
    """
    if not len(raw):
        return raw, 0
    step = np.diff(raw % _WRAP)
    step = (step + _WRAP // 2) % _WRAP - _WRAP // 2
    passed = np.diff(time)
    clocked = (time[1:] >= 0) & (time[:-1] >= 0) & (passed > 0) & (hz > 0)
    expected = np.where(clocked, passed, 0) / 1e9 * hz
    rounds = np.where(clocked, np.rint((expected - step) / _WRAP), 0).astype(np.int64)
    rounds = np.maximum(rounds, 0)
    whole = np.concatenate([[0], np.cumsum(step + rounds * _WRAP)])
    return whole - whole.min() + raw[0] % _WRAP, int(rounds.sum())


def _ns(cycles: I64, hz: int) -> I64:
    if not hz:
        return cycles
    return cycles // hz * 10**9 + cycles % hz * 10**9 // hz


class NpuLanes:
    """Adds ops, batches and events of Hexagon's profile to a trace."""

    def __init__(self, builder: TraceBuilder, lines: OpLines) -> None:
        self._builder, self._lines = builder, lines
        self._times = npu_times(lines)
        self._kind = lines.kind[self._times.rows]
        self._shift = 0
        self._n_unpaired = 0

    @property
    def hz(self) -> int:
        """Cycles per second; 0 unknown: then ticks are cycles."""
        return self._times.hz

    def align(self, origin: int) -> None:
        """Move all so that no op ends behind the time of its line.

        Parameters
        ----------
        origin : tick 0, in ns of the log's clock.
        """
        rows = np.flatnonzero(
            (self._kind == Kind.PROFILED_OP) & (self._times.start >= 0)
        )
        printed = self._lines.time[self._times.rows[rows]]
        rows, printed = rows[printed >= 0], printed[printed >= 0]
        if len(rows):
            late = printed - origin - self._times.start[rows] - self._lengths(rows)
            self._shift = int(late.min())

    def add(self, listing: BackendOps | None) -> BackendOps | None:
        """Add all; return the listing with the span of each op."""
        if not len(self._times.rows):
            return listing
        self._set_ops()
        ops = np.flatnonzero(self._kind == Kind.PROFILED_OP)
        first = self._builder.n_spans
        span = self._add_ops(ops)
        self._add_reads(ops, first)
        self._add_batches()
        self._add_events()
        self._warn(len(ops), int(np.count_nonzero(span < 0)))
        return None if listing is None else _with_spans(listing, self._lines, span)

    # -- spans ---------------------------------------------------------------

    def _set_ops(self) -> None:
        lines, rows = self._lines, self._times.rows
        self._ops = np.unique(lines.text[rows, 0])
        names = tuple(lines.texts[op] for op in self._ops.tolist())
        self._builder.ops = OpTable("hexagon", names, "spelled")

    def _op(self, at: I64) -> I16:
        op = np.searchsorted(self._ops, self._lines.text[self._times.rows[at], 0])
        return np.where(op < 1 << 15, op, -1).astype(np.int16)

    def _lengths(self, at: I64) -> I64:
        cycles = np.minimum(self._lines.value[self._times.rows[at], 1], 1 << 52)
        return _ns(cycles, self._times.hz)

    def _lane(self, session: int, name: str, kind: LaneKind, order: int) -> int:
        title = self._lines.texts[session] if session >= 0 else "NPU"
        # Threads are distinguished by their group: their names must be short.
        long_name = f"{title} {name}" if name in ("ops", "batches") else name
        return self._builder.add_lane(
            long_name, kind, (title,), (session, order), ops="ggml"
        )

    def _add_ops(self, at: I64) -> I64:
        """Add profiled ops; return the span of each, -1 for those without a place."""
        lines, rows = self._lines, self._times.rows[at]
        start, length = self._times.start[at], self._lengths(at)
        has_start = start >= 0
        if not has_start.any():
            length = np.minimum(lines.value[rows, 0], 1 << 50) * 1000
            start, has_start = np.cumsum(length) - length, np.ones(len(at), np.bool_)
        span = np.full(len(at), -1, np.int64)
        names = self._result_names(rows)
        for session in np.unique(lines.text[rows, 2]).tolist():
            mine = np.flatnonzero((lines.text[rows, 2] == session) & has_start)
            if not len(mine):
                continue
            mine = mine[np.argsort(start[mine], kind="stable")]
            first = self._builder.add_spans(
                start=start[mine] + self._shift,
                end=start[mine] + length[mine] + self._shift,
                lane=self._lane(session, "ops", LaneKind.ENGINE, 1),
                name=names[0][mine],
                op=self._op(at[mine]),
                layer=names[1][mine],
                record=lines.line[rows[mine]],
            )
            span[mine] = first + np.arange(len(mine))
        return span

    def _result_names(self, rows: I64) -> tuple[I32, I16]:
        """Return the string and the layer of what each op computes."""
        different, place = np.unique(self._lines.text[rows, 1], return_inverse=True)
        texts = [
            self._lines.texts[n].rpartition(" -> ")[2].strip() if n >= 0 else ""
            for n in different.tolist()
        ]
        strings = np.asarray(self._builder.strings.intern_many(texts), np.int32)
        layer = np.array([layer_of(text) for text in texts], np.int16)
        place = place.reshape(-1)
        return strings[place], layer[place]

    def _add_reads(self, at: I64, first: int) -> None:
        """Let ops read the weights among their sources."""
        builder, lines = self._builder, self._lines
        n_spans = builder.n_spans - first
        if not n_spans:
            return
        # Spans are sorted within their session: find each one's line again.
        order = self._span_rows(at)
        names = lines.text[self._times.rows[at[order]], 1]
        different, place = np.unique(names, return_inverse=True)
        tensors: dict[str, int] = {}
        counts, read = [], []
        for number in different.tolist():
            text = lines.texts[number] if number >= 0 else ""
            sources = text.rpartition(" -> ")[0].split(" x ")
            weights = [one.strip() for one in sources if is_weight_name(one.strip())]
            counts.append(len(weights))
            read += [tensors.setdefault(name, len(tensors)) for name in weights]
        if not read:
            return
        layers = np.array([layer_of(name) for name in tensors], np.int16)
        n = len(tensors)
        builder.tensors = Tensors(
            name=np.asarray(builder.strings.intern_many(list(tensors)), np.int32),
            offset=np.full(n, -1, np.int64),
            size=np.full(n, -1, np.int64),
            layer=layers,
            expert=np.full(n, -1, np.int16),
        )
        tensor = np.array(read, np.int32)
        m = len(tensor)
        what = AccessColumns(
            tensor=tensor,
            kind=np.full(m, AccessKind.READ, np.uint8),
            space=np.full(m, Space.UNKNOWN, np.uint8),
            offset=np.full(m, -1, np.int64),
            size=np.full(m, -1, np.int64),
            buffer=np.full(m, -1, np.int32),
            layer=layers[tensor],
            expert=np.full(m, -1, np.int16),
            address=np.zeros(m, np.uint64),
        )
        pattern = np.full(builder.n_spans, -1, np.int32)
        pattern[first:] = place.reshape(-1)
        edges = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        builder.accesses = Accesses(pattern, edges, what, FlatAccesses.blank())

    def _span_rows(self, at: I64) -> I64:
        """Return which of the ops each span is, in the order of the spans."""
        rows = self._times.rows[at]
        session = self._lines.text[rows, 2]
        start = self._times.start[at]
        if not (start >= 0).any():
            return np.lexsort((np.arange(len(at)), session)).astype(np.int64)
        order = np.lexsort((np.arange(len(at)), start, session))
        return order[start[order] >= 0].astype(np.int64)

    def _add_batches(self) -> None:
        lines = self._lines
        at = np.flatnonzero((self._kind == Kind.BATCH) & (self._times.start >= 0))
        rows = self._times.rows[at]
        texts = lines.text[rows, 3]
        different, place = np.unique(texts, return_inverse=True)
        names = [
            f"batch · {lines.texts[n]}" if n >= 0 else "batch"
            for n in different.tolist()
        ]
        strings = np.asarray(self._builder.strings.intern_many(names), np.int32)
        for session in np.unique(lines.text[rows, 2]).tolist():
            mine = np.flatnonzero(lines.text[rows, 2] == session)
            mine = mine[np.argsort(self._times.start[at[mine]], kind="stable")]
            start = self._times.start[at[mine]] + self._shift
            self._builder.add_spans(
                start=start,
                end=start + self._lengths(at[mine]),
                lane=self._lane(session, "batches", LaneKind.GRAPH, 0),
                name=strings[place.reshape(-1)[mine]],
                record=lines.line[rows[mine]],
            )

    def _add_events(self) -> None:
        lines = self._lines
        at = np.flatnonzero((self._kind == Kind.EVENT) & (self._times.start >= 0))
        if not len(at):
            return
        # A counter that stands still begins before it ends.
        is_end = lines.value[self._times.rows[at], 3] != 0
        at = at[np.lexsort((np.arange(len(at)), is_end, self._times.start[at]))]
        rows, time = self._times.rows[at], self._times.start[at] + self._shift
        thread, info = lines.value[rows, 0], lines.value[rows, 2]
        is_begin = lines.value[rows, 3] == 0
        session, event = lines.text[rows, 2], lines.text[rows, 0]
        parts = np.stack([session, thread, event, info], axis=1)
        _, key = np.unique(parts, axis=0, return_inverse=True)
        partner, _ = match(key.reshape(-1), is_begin)
        begins = np.flatnonzero(is_begin)
        end = np.where(
            partner[begins] >= 0, time[np.maximum(partner[begins], 0)], time.max()
        )
        is_open = partner[begins] < 0
        orphans = int(np.count_nonzero(~is_begin & (partner < 0)))
        self._n_unpaired = int(np.count_nonzero(is_open)) + orphans
        dma_of_text = np.array([*(t.startswith("DMA") for t in lines.texts), False])
        is_dma = dma_of_text[event[begins]]
        unit = np.where(is_dma, 2, np.where(thread[begins] == HMX_THREAD, 0, 1))
        places = np.stack([session[begins], thread[begins], unit], axis=1)
        lanes, place = np.unique(places, axis=0, return_inverse=True)
        place = place.reshape(-1)
        strings = np.asarray(
            self._builder.strings.intern_many(list(lines.texts)), np.int32
        )
        for number, (of, number_of_thread, what) in enumerate(
            lanes.tolist()[:_MAX_LANES]
        ):
            mine = begins[place == number]
            name = (f"T{number_of_thread} HVX", f"T{number_of_thread} DMA")[what == 2]
            name = "HMX" if what == 0 else name
            self._builder.add_spans(
                start=time[mine],
                end=np.maximum(end[place == number], time[mine]),
                lane=self._lane(
                    of, name, LaneKind.ENGINE, 2 + 2 * number_of_thread + what
                ),
                name=strings[event[mine]],
                op=self._op(at[mine]),
                flags=np.where(is_open[place == number], _UNFINISHED, 0).astype(
                    np.uint16
                ),
                record=lines.line[rows[mine]],
            )

    # -- what is open --------------------------------------------------------

    def _warn(self, n_ops: int, n_unplaced: int) -> None:
        builder, lines = self._builder, self._lines
        starts = self._times.start[self._kind == Kind.PROFILED_OP]
        if n_ops and not (starts >= 0).any():
            builder.warn(
                Severity.NOTICE,
                "no_times",
                "ops have durations and no times: they follow one another. When the "
                "NPU did nothing is unknown.",
            )
        elif n_unplaced:
            builder.warn(
                Severity.NOTICE,
                "no_op_start",
                "ops have no first cycle: they are listed and not on the timeline.",
                count=n_unplaced,
            )
        builder.warn(
            Severity.NOTICE,
            "counter_wraps",
            "cycle counters wrapped while no line was written; how often is "
            "inferred from the clock of the log.",
            count=self._times.n_guessed,
        )
        builder.warn(
            Severity.NOTICE,
            "unpaired_events",
            "events of the NPU have a begin or an end alone.",
            count=self._n_unpaired,
        )
        stated = 0
        for number in lines.text[lines.rows(Kind.BATCH), 4].tolist():
            text = lines.texts[number] if number >= 0 else ""
            stated += sum(map(int, re.findall(r"\d{1,9}", text)))
        n_events = len(lines.rows(Kind.EVENT))
        if stated > n_events:
            builder.warn(
                Severity.DATA_LOSS,
                "npu_events_lost",
                "batches state more events of their threads than lines list.",
                count=stated - n_events,
                remedy="A larger buffer: GGML_HEXAGON_OPTRACE.",
            )


def _with_spans(listing: BackendOps, lines: OpLines, span: I64) -> BackendOps:
    listed = lines.kind[lines.rows(Kind.NODE, Kind.TIMED_OP, Kind.PROFILED_OP)]
    column = np.full(len(listed), -1, np.int64)
    column[listed == Kind.PROFILED_OP] = span
    return replace(listing, ops=replace(listing.ops, span=column))
