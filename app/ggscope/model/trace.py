"""The trace: every table of one session, immutable once published."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Protocol

import numpy as np

from ggscope.model.claims import Claims, Stated
from ggscope.model.graph import Graph, check_graph
from ggscope.model.lanes import Lanes
from ggscope.model.routing import Routing, no_routing
from ggscope.model.strings import StringTable
from ggscope.model.tables import (
    Accesses,
    Array,
    CounterSeries,
    Flows,
    Markers,
    Quality,
    Spans,
    quality_of,
)
from ggscope.model.tensors import Buffers, ModelFile, Tensors
from ggscope.model.time import Clock, TimeRange

MODEL_VERSION = 2
INVALID_TRACE = "INVALID_TRACE"
"""Name of the markers by which a writer takes back what it wrote."""
INVALID_CODE = "invalid_trace"
"""Code of the problem that tells of such markers."""
OTHER_FILES = "other files"
"""What is pending while further files of a session are still to be joined."""


class Severity(IntEnum):
    """How bad a problem of the data is."""

    INFO = 0
    NOTICE = 1
    DATA_LOSS = 2
    ERROR = 3

    @property
    def word(self) -> str:
        """The word of the command line's JSON."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class ReadWarning:
    """One kind of problem, aggregated over all its occurrences.

    Attributes
    ----------
    code : stable identifier, e.g. ``truncated_event``.
    message : what and effect, as people read it (of the first occurrence).
    count : number of occurrences.
    offset : byte offset of the first one; None where it has none.
    place : where in the file's own terms (record 17, ``timeline_events[3]``).
    remedy : what the person can do; "" where nothing needs doing.
    """

    severity: Severity
    code: str
    message: str
    count: int = 1
    offset: int | None = None
    place: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class OpTable:
    """Names of op numbers.

    Attributes
    ----------
    id : e.g. ``ggml-2025-11-25-95``.
    names : names[number]; a number beyond prints as ``op#83``.
    source : "declared" by the file, "inferred" from its content, "override", "format"
        where the format has one numbering only, or "spelled" where the file has the
        names themselves and numbers only stand for them here.
    margin : log-likelihood lead over the best table that decodes differently;
        None where nothing was inferred.
    """

    id: str
    names: tuple[str, ...]
    source: str = "declared"
    margin: float | None = None

    def name(self, op: int) -> str:
        """Return the name of `op`; "" for -1, ``op#N`` for an unknown number."""
        if op < 0:
            return ""
        if op < len(self.names) and self.names[op]:
            return self.names[op]
        return f"op#{op}"


@dataclass(frozen=True, slots=True)
class RecordView:
    """One record of the file, decoded for people.

    Attributes
    ----------
    offset : byte offset in the file.
    data : its raw bytes (cut at 4 KiB).
    fields : (name, value as text, byte offset in the record or -1, byte length).
    """

    offset: int
    data: bytes
    fields: tuple[tuple[str, str, int, int], ...]


class RecordAccess(Protocol):
    """Gives back single records of the file, for tooltips and the hex pane.

    Reads the file with ordinary reads when asked, so that a file that changed
    meanwhile gives an error and never a crash.
    """

    def view(self, record: int) -> RecordView:
        """Return record `record`. Raises ReadError where it is gone."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class TraceInfo:
    """Where a trace came from.

    Attributes
    ----------
    n_records : what the file holds in its own terms (events, records, lines).
    n_passes : passes over the graph, where the format shows them.
    producer : facts the file states of itself (model, run id …).
    options : reader options that shaped the trace (op table, inclusive end …).
    summary : figures that the file claims of itself, for cross-checks.
    stated : those that its content can be held against, in the order of the file.
    """

    paths: tuple[Path, ...]
    reader_id: str
    format: str
    format_version: str
    byte_size: int
    n_records: int = 0
    n_passes: int = 0
    producer: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    summary: Mapping[str, object] = field(default_factory=dict)
    stated: tuple[Stated, ...] = ()
    modified_ns: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One of the files that a trace was joined from.

    Attributes
    ----------
    role : "trace", "model", "map", "registry", "buffers", "graph", "experts".
    shift : ticks added to the file's own times so that all parts share one zero.
    """

    info: TraceInfo
    role: str
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Join:
    """How well one part fitted the rest, for people and for ``ggscope info``.

    Attributes
    ----------
    kind : "map" (accesses to tensors of a model or map), "graph" (spans to graph
        nodes), "registry" (accesses to a registry) or "names" (truncated names).
    part : name of the file that was joined.
    n_found, n_all : how many of all accesses, spans or names found their partner.
    rules : how many by which rule: "name", "name without suffix", "unique prefix",
        "offset", "pointer", "order" …; in the order in which the rules are tried.
    delta : bytes added to the map's offsets; None where that means nothing.
    n_agree : how many offsets agree with `delta`.
    n_nodes : nodes of graphs that do work.
    silent : how many of these no record tells of, by op.
    silent_nodes : their ids.
    """

    kind: str
    part: str
    n_found: int
    n_all: int
    rules: Mapping[str, int] = field(default_factory=dict)
    delta: int | None = None
    n_agree: int = 0
    n_nodes: int = 0
    silent: Mapping[str, int] = field(default_factory=dict)
    silent_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Trace:
    """All tables of one trace. Arrays are read-only.

    Attributes
    ----------
    extent : from the first to the last tick of any span, marker or counter.
    ops : names for the op numbers, or None where the format has no ops.
    records : access to single records, or None.
    pending : parts that are still being read: "spans" (more of them follow, and
        their ids may change until all are there), "names", "accesses",
        `OTHER_FILES`.
    read_until : while "spans" are pending, the tick up to which all spans are
        known; the extent already reaches to the end of the file where the reader
        could look there. None once every span is known.
    generation : grows with every snapshot of the same file.
    models : model files that ``tensors.file`` refers to.
    routing : choices of experts, where recorded.
    parts : the files that were joined into this trace; empty for a single file.
    joins : how well they fitted.
    claims : the file's own words for each access pattern, or None.
    """

    info: TraceInfo
    clock: Clock
    extent: TimeRange
    strings: StringTable
    lanes: Lanes
    spans: Spans
    markers: Markers
    accesses: Accesses
    counters: tuple[CounterSeries, ...]
    flows: Flows
    tensors: Tensors
    buffers: Buffers
    graphs: tuple[Graph, ...]
    warnings: tuple[ReadWarning, ...]
    ops: OpTable | None = None
    records: RecordAccess | None = None
    pending: frozenset[str] = frozenset()
    generation: int = 0
    read_until: int | None = None
    models: tuple[ModelFile, ...] = ()
    routing: Routing = field(default_factory=no_routing)
    parts: tuple[Part, ...] = ()
    joins: tuple[Join, ...] = ()
    claims: Claims | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.lanes, Lanes):  # a plug-in's own tuple
            object.__setattr__(self, "lanes", Lanes.of(self.lanes))

    @property
    def is_partial(self) -> bool:
        """Whether more spans follow: analyses of this trace are not worth doing."""
        return "spans" in self.pending

    @property
    def awaits_files(self) -> bool:
        """Whether more files follow: what a model tells of tensors is not there yet."""
        return OTHER_FILES in self.pending

    def op_name(self, op: int) -> str:
        """Return the name of op number `op` under the trace's table."""
        if op < 0:
            return ""
        return self.ops.name(op) if self.ops is not None else f"op#{op}"

    def span_name(self, span: int) -> str:
        """Return the name of a span; its op's name, then a dash, if it has none."""
        text = self.strings[int(self.spans.name[span])]
        return text or self.op_name(int(self.spans.op[span])) or "–"

    def quality_counts(self) -> dict[str, int]:
        """Return the number of spans of each quality, by lower-case name."""
        counts = np.bincount(quality_of(self.spans.flags), minlength=len(Quality))
        return {q.name.lower(): int(counts[q]) for q in Quality}

    def check(self) -> list[str]:
        """Return every broken invariant as a sentence; empty if all hold."""
        return _check(self)


def _check(trace: Trace) -> list[str]:
    broken: list[str] = []
    n_strings, n_lanes = len(trace.strings), len(trace.lanes)
    n_spans, n_tensors = len(trace.spans), len(trace.tensors)

    def column(what: str, array: Array | None, n: int, low: int, high: int) -> None:
        """Note a column of the wrong length, kind or range [low, high)."""
        if array is None:
            return
        if array.shape != (n,):
            broken.append(f"{what} has shape {array.shape}, expected ({n},)")
        elif array.dtype.kind not in "iu":
            broken.append(f"{what} has dtype {array.dtype}, expected integers")
        elif n and (int(array.min()) < low or int(array.max()) >= high):
            broken.append(
                f"{what} has values {array.min()}..{array.max()} outside "
                f"[{low}, {high})"
            )
        if array.flags.writeable:
            broken.append(f"{what} is writable")

    huge = 1 << 62
    s = trace.spans
    for what, array, high in (
        ("spans.start", s.start, huge),
        ("spans.end", s.end, huge),
    ):
        column(what, array, n_spans, -huge, high)
        if array.dtype != np.int64:
            broken.append(f"{what} has dtype {array.dtype}, expected int64")
    if s.end.shape == s.start.shape and bool((s.end < s.start).any()):
        broken.append("a span ends before it starts")
    column("spans.lane", s.lane, n_spans, 0, max(n_lanes, 1))
    column("spans.name", s.name, n_spans, -1, n_strings)
    column("spans.op", s.op, n_spans, -1, 1 << 15)
    column("spans.flags", s.flags, n_spans, 0, 1 << 16)
    column("spans.tensor", s.tensor, n_spans, -1, n_tensors)
    column("spans.token", s.token, n_spans, -1, 1 << 32)
    column("spans.layer", s.layer, n_spans, -1, 1 << 15)
    column("spans.phase", s.phase, n_spans, -1, 2)
    column("spans.record", s.record, n_spans, -1, huge)
    column("spans.color", s.color, n_spans, 0, 1 << 32)
    m = trace.markers
    column("markers.time", m.time, len(m), -huge, huge)
    column("markers.lane", m.lane, len(m), 0, max(n_lanes, 1))
    column("markers.name", m.name, len(m), -1, n_strings)
    column("markers.detail", m.detail, len(m), -1, n_strings)
    column("markers.record", m.record, len(m), -1, huge)
    broken += _check_accesses(trace)
    for i, series in enumerate(trace.counters):
        if series.id != i:
            broken.append(f"counter {i} has id {series.id}")
        if series.time.shape != series.value.shape:
            broken.append(f"counter {series.name} has unequal columns")
        elif bool((np.diff(series.time) < 0).any()):
            broken.append(f"counter {series.name} is not in time order")
    column("tensors.name", trace.tensors.name, n_tensors, -1, n_strings)
    column("tensors.layer", trace.tensors.layer, n_tensors, -1, 1 << 15)
    column("tensors.file", trace.tensors.file, n_tensors, -1, len(trace.models))
    column("tensors.type", trace.tensors.type, n_tensors, -1, 1 << 15)
    column("tensors.n_experts", trace.tensors.n_experts, n_tensors, 0, 1 << 31)
    if trace.claims is not None:
        n_patterns = len(trace.accesses.first) - 1
        column("claims.name", trace.claims.name, n_patterns, -1, n_strings)
        n_rows = len(trace.accesses.patterns)
        column("claims.source_name", trace.claims.source_name, n_rows, -1, n_strings)
    r, n_routing = trace.routing, len(trace.routing)
    column("routing.span", r.span, n_routing, -1, n_spans)
    column("routing.token", r.token, n_routing, -1, 1 << 32)
    column("routing.layer", r.layer, n_routing, -1, 1 << 15)
    column("routing.expert", r.expert, n_routing, 0, 1 << 15)
    column("routing.rank", r.rank, n_routing, -1, 1 << 15)
    column("routing.n_more", r.n_more, n_routing, -1, 1 << 31)
    for graph in trace.graphs:
        broken += check_graph(graph, n_strings, n_tensors)
    column("buffers.name", trace.buffers.name, len(trace.buffers), -1, n_strings)
    column("flows.source", trace.flows.source, len(trace.flows), 0, max(n_spans, 1))
    column("flows.target", trace.flows.target, len(trace.flows), 0, max(n_spans, 1))
    if (
        n_spans
        and not broken
        and (
            int(s.start.min()) < trace.extent.start
            or int(s.end.max()) > trace.extent.end
        )
    ):
        broken.append("a span lies outside the extent")
    if (
        len(m)
        and not broken
        and (
            int(m.time.min()) < trace.extent.start
            or int(m.time.max()) > trace.extent.end
        )
    ):
        broken.append("a marker lies outside the extent")
    return broken


def _check_accesses(trace: Trace) -> list[str]:
    a, broken = trace.accesses, []
    if a.pattern.shape != (len(trace.spans),):
        return [f"accesses.pattern has shape {a.pattern.shape}"]
    if len(a.first) < 1 or a.first[0] != 0 or bool((np.diff(a.first) < 0).any()):
        broken.append("accesses.first does not ascend from 0")
    elif int(a.first[-1]) != len(a.patterns):
        broken.append("accesses.first does not end at the number of pattern rows")
    if (
        len(a.pattern)
        and not -1 <= int(a.pattern.min()) <= int(a.pattern.max()) < len(a.first) - 1
    ):
        broken.append("accesses.pattern names patterns that do not exist")
    for what, columns in (("patterns", a.patterns), ("loose", a.loose.what)):
        n = len(columns)
        broken.extend(
            f"accesses.{what}.{name} has the wrong length"
            for name in columns.__dataclass_fields__
            if getattr(columns, name).shape != (n,)
        )
        if (
            n
            and not broken
            and (
                int(columns.tensor.min()) < -1
                or int(columns.tensor.max()) >= len(trace.tensors)
            )
        ):
            broken.append(f"accesses.{what}.tensor names tensors that do not exist")
        if n and not broken and int(columns.buffer.max()) >= len(trace.buffers):
            broken.append(f"accesses.{what}.buffer names buffers that do not exist")
    n = len(a.loose)
    broken.extend(
        f"accesses.loose.{name} has the wrong length"
        for name in ("lane", "span", "token")
        if getattr(a.loose, name).shape != (n,)
    )
    return broken
