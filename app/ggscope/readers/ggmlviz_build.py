"""From the events of a ``.ggmlviz`` file to the tables of a trace."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ggscope.model import ggml, names
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml_rules import expected_ops
from ggscope.model.lanes import LaneKind
from ggscope.model.tables import I64, Array, CounterShape, SpanFlag, narrow
from ggscope.model.tensors import Buffers, Tensors
from ggscope.model.trace import OpTable, Severity
from ggscope.readers.ggmlviz_events import Events, Stream, encode, is_memory
from ggscope.readers.ggmlviz_layouts import EventType
from ggscope.readers.ggmlviz_memory import Allocations, follow
from ggscope.readers.ggmlviz_pairing import Intervals

MAX_LANES = 4096
MAX_OP = (1 << 15) - 1
"""Larger op numbers are damage."""

_MAX_SAMPLES = 1 << 14
_TYPE_NAMES = {int(kind): kind.name for kind in EventType}
# The writers without backend-buffer events, had they emitted it, meant THREAD_FREE.
_TYPE_NAMES[int(EventType.BARRIER_WAIT)] += "?"
_FIRST_ERA, _LAST_ERA = "ggml-2025-06-18", "ggml-2025-08-18"
"""Tables in force while the writers of this format were written."""

_USUAL = "ggml-2025-06-30-86"
"""In force for most of that time, and the table of the real files there are."""


def type_name(kind: int) -> str:
    """Return ``OP_BEGIN`` or, for a number without a name, ``event type 42``.

    A question mark stands behind a name that writers do not agree about.
    """
    return _TYPE_NAMES.get(kind, f"event type {kind}")


def add_intervals(
    builder: TraceBuilder,
    events: Events,
    intervals: Intervals,
    stream: Stream,
    origin: int,
) -> None:
    """Add lanes, a span for each interval and a marker for each other instant.

    Parameters
    ----------
    events : ordered by thread, time, place in the file.
    """
    is_instant = events.kind >= EventType.BARRIER_WAIT
    is_instant[intervals.stray_ends] = True
    instants = np.flatnonzero(is_instant)
    span_lane, marker_lane = _add_lanes(
        builder, events, intervals.begin, instants, stream
    )
    _add_spans(builder, events, intervals, span_lane, origin)
    kinds, distinct, _ = encode(events.kind[instants])
    texts = [type_name(kind) for kind in distinct.tolist()]
    if len(instants):
        builder.add_markers(
            time=events.time[instants] - origin,
            lane=marker_lane,
            name=builder.strings.intern_many(texts)[kinds],
            detail=events.label[instants],
            record=narrow(events.record[instants]),
        )


def _add_lanes(
    builder: TraceBuilder,
    events: Events,
    begins: I64,
    instants: I64,
    stream: Stream,
) -> tuple[Array, Array]:
    """Add a lane for each backend and thread; return those of spans and markers.

    Events without a backend go to the first lane of their thread.
    """
    n_threads = len(stream.thread_ids)
    backend = events.backend[instants]
    nowhere = events.kind[instants] >= EventType.BARRIER_WAIT
    home = np.full(n_threads, -1, np.int32)
    home[events.thread[instants]] = events.backend[instants]
    # Written backwards, so that the first span of each thread stays.
    home[events.thread[begins][::-1]] = events.backend[begins][::-1]
    backend[nowhere] = home[events.thread[instants[nowhere]]]
    rows = np.concatenate([begins, instants])
    key = np.concatenate([events.backend[begins], backend]).astype(np.int64)
    key = key * n_threads + events.thread[rows]
    if len(stream.backends) * n_threads <= MAX_LANES:
        present = np.flatnonzero(np.bincount(key))
    else:
        present = np.unique(key)
    first = _name_lanes(builder, stream, present)
    lanes = narrow(first + np.minimum(np.searchsorted(present, key), MAX_LANES))
    return lanes[: len(begins)], lanes[len(begins) :]


def _name_lanes(builder: TraceBuilder, stream: Stream, keys: I64) -> int:
    """Add a lane for each key (backend row times threads plus thread row).

    Returns
    -------
    The id of the first one; counters may have taken lanes before.
    """
    ids: list[int] = []
    groups = _group_names(stream.backends)
    for key in keys[:MAX_LANES].tolist():
        backend, thread = divmod(key, len(stream.thread_ids))
        ids.append(
            builder.add_lane(
                f"thread {thread}",
                LaneKind.THREAD,
                (groups[backend],),
                (backend, thread),
                raw=str(stream.thread_ids[thread]),
                backend=f"0x{stream.backends[backend]:x}",
            )
        )
    if len(keys) > MAX_LANES:
        builder.add_lane("other threads", LaneKind.THREAD, ("Others",))
        builder.warn(
            Severity.NOTICE,
            "too_many_lanes",
            f"the file names {len(keys):,} pairs of backend and thread; those beyond "
            f"the first {MAX_LANES:,} share one lane.",
        )
    return ids[0] if ids else 0


def _group_names(backends: Array) -> list[str]:
    """Name backends in the order of their appearance; NULL is the CPU."""
    found: list[str] = []
    n_others = 0
    for pointer in backends.tolist():
        n_others += pointer != 0
        found.append(f"Backend {n_others}" if pointer else "CPU backend")
    return found


def _add_spans(
    builder: TraceBuilder,
    events: Events,
    intervals: Intervals,
    lane: Array,
    origin: int,
) -> None:
    """Add all spans, lane by lane in the order of their begins."""
    order = np.argsort(lane, kind="stable")
    begin, is_graph = intervals.begin[order], intervals.is_graph[order]
    flags = np.where(
        intervals.is_unfinished[order], np.uint16(SpanFlag.UNFINISHED), np.uint16(0)
    )
    flags[intervals.is_estimated[order]] |= np.uint16(SpanFlag.ESTIMATED)
    number, label = events.number[begin], events.label[begin]
    name = label.copy()
    unnamed = np.flatnonzero(is_graph & (label < 0))
    name[unnamed] = _graph_names(builder, number[unnamed])
    op = np.where(is_graph | (number > MAX_OP), np.int64(-1), number.astype(np.int64))
    beyond = np.flatnonzero(~is_graph & (number > MAX_OP))
    if len(beyond):
        builder.warn(
            Severity.NOTICE,
            "bad_op_number",
            f"op number {number[beyond[0]]:,} cannot be one; such ops have no name.",
            count=len(beyond),
        )
    tensor, layer = _add_tensors(builder, events)
    builder.add_spans(
        start=intervals.start[order] - origin,
        end=intervals.end[order] - origin,
        lane=lane[order],
        name=name,
        op=op.astype(np.int16),
        flags=flags,
        tensor=np.where(is_graph, np.int32(-1), tensor[label]),
        layer=np.where(is_graph, np.int16(-1), layer[label]),
        record=narrow(events.record[begin]),
    )


def _graph_names(builder: TraceBuilder, n_nodes: Array) -> Array:
    codes, distinct, _ = encode(n_nodes)
    texts = [f"graph ({n} node{'s' * (n != 1)})" for n in distinct.tolist()]
    return builder.strings.intern_many(texts)[codes]


def _add_tensors(
    builder: TraceBuilder, events: Events
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int16]]:
    """Fill the tensors from the labels of ops and allocations.

    Returns
    -------
    The tensor and the layer of each string id, -1 for others and at the end (where
    label -1 looks).
    """
    about_tensors = (events.kind >= EventType.OP_BEGIN) & (
        events.kind <= EventType.TENSOR_FREE
    )
    n = len(builder.strings)
    is_used = np.zeros(n + 1, np.bool_)
    is_used[events.label[about_tensors]] = True
    used = np.flatnonzero(is_used[:-1])
    parsed = [names.parse(builder.strings[i]) for i in used.tolist()]
    tensor, layer = np.full(n + 1, -1, np.int32), np.full(n + 1, -1, np.int16)
    base = builder.strings.intern_many([p.base for p in parsed])
    tensor[used], distinct, first = encode(base)
    layer[used] = np.array([p.layer for p in parsed], np.int16)
    builder.tensors = Tensors(
        name=distinct.astype(np.int32),
        offset=np.full(len(distinct), -1, np.int64),
        size=np.full(len(distinct), -1, np.int64),
        layer=layer[used][first],
        expert=np.array([parsed[i].expert for i in first.tolist()], np.int16),
    )
    return tensor, layer


def choose_ops(builder: TraceBuilder, events: Events, wanted: str) -> OpTable | None:
    """Return the table that names the op numbers; None where there are no ops.

    Parameters
    ----------
    wanted : "auto", or the id of a table.

    Raises
    ------
    KeyError
        If there is no table of that id.
    """
    if wanted != "auto":
        return replace(ggml.table(wanted), source="override", margin=None)
    rows = np.flatnonzero(
        (events.kind == EventType.OP_BEGIN) & (events.number <= MAX_OP)
    )
    if not len(rows):
        return None
    pairs = events.number[rows].astype(np.int64) << 32
    pairs += events.label[rows] + 1
    codes, distinct, _ = encode(pairs)
    counts = np.bincount(codes)[:_MAX_SAMPLES].tolist()
    strings = builder.strings
    samples = [
        ggml.OpSample(pair >> 32, strings[(pair & 0xFFFF_FFFF) - 1], (), None, n)
        for pair, n in zip(distinct[:_MAX_SAMPLES].tolist(), counts, strict=True)
    ]
    everything = ggml.tables()
    era = [t for t in everything if _FIRST_ERA <= t.id <= _LAST_ERA]
    era.sort(key=lambda t: t.id != _USUAL)
    if not any(expected_ops(s.dst, (), None) for s in samples):
        return replace(ggml.infer(samples, candidates=era), margin=0.0)
    known = {t.id for t in era}
    others = [t for t in everything if t.id not in known]
    return ggml.infer(samples, candidates=era + others)


def add_memory(
    builder: TraceBuilder, events: Events, stream: Stream, origin: int
) -> dict[str, object]:
    """Add counters and buffers of allocations; return figures for the summary.

    Parameters
    ----------
    events : in file order.
    """
    summary: dict[str, object] = {}
    rows = np.flatnonzero(is_memory(events.kind))
    by_time = np.argsort(events.time[rows], kind="stable")
    events, sizes = events.take(rows[by_time]), stream.sizes[by_time]
    for alloc, title, prefix in (
        (EventType.TENSOR_ALLOC, "Tensor memory", ""),
        (EventType.BACKEND_BUFFER_ALLOC, "Backend buffers", "buffer_"),
    ):
        rows = np.flatnonzero((events.kind == alloc) | (events.kind == alloc + 1))
        if not len(rows):
            continue
        mine = events.take(rows)
        found = follow(mine, sizes[rows], mine.kind == alloc)
        builder.add_counter(
            title, "bytes", CounterShape.LEVEL, found.time - origin, found.live
        )
        _warn_memory(builder, found, title)
        if alloc == EventType.BACKEND_BUFFER_ALLOC:
            _add_buffers(builder, mine, found, origin)
        summary[prefix + "peak_bytes"] = found.peak_bytes
        summary[prefix + "leak_bytes"] = found.leak_bytes
    return summary


def _warn_memory(builder: TraceBuilder, found: Allocations, title: str) -> None:
    place = title.lower()
    for severity, code, rows, message in (
        (Severity.NOTICE, "free_without_alloc", found.strays,
         "something was freed whose allocation is not in the file."),
        (Severity.NOTICE, "double_free", found.doubles,
         "something was freed that was free already."),
        (Severity.NOTICE, "bad_size", found.oversized,
         "a size is larger than any address space; it counts as 0 bytes."),
        (Severity.INFO, "never_freed", found.leaks,
         f"{found.leak_bytes:,} bytes were still allocated at the end."),
    ):  # fmt: skip
        if len(rows):
            builder.warn(severity, code, message, count=len(rows), place=place)


def _add_buffers(
    builder: TraceBuilder, events: Events, found: Allocations, origin: int
) -> None:
    codes, distinct, _ = encode(events.pointer[found.allocs])
    texts = [f"buffer 0x{pointer:x}" for pointer in distinct.tolist()]
    label = events.label[found.allocs]
    freed = np.where(found.ended >= 0, found.time[found.ended] - origin, -1)
    n = len(found.allocs)
    builder.buffers = Buffers(
        name=np.where(label >= 0, label, builder.strings.intern_many(texts)[codes]),
        backend=np.full(n, -1, np.int32),
        usage=np.zeros(n, np.uint8),
        size=found.size[found.allocs],
        allocated=found.time[found.allocs] - origin,
        freed=freed,
        address=events.pointer[found.allocs],
    )
