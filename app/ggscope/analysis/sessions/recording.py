"""The records of a run with its sidecar: what the live view showed at the end.

Records of 256 bytes cut names and lack what is no op. The sidecar states it, and by the
graph and node that stand in the spare bytes of each record the two come together.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ggscope.analysis.sessions import problems, remap_ids
from ggscope.analysis.sessions.remap_ids import Move
from ggscope.analysis.sessions.sidecar import from_sidecar
from ggscope.model.names import normalise
from ggscope.model.routing import Routing
from ggscope.model.run import Run, cores_of, fused_of, waits_of
from ggscope.model.tables import (
    NO_WAIT,
    Accesses,
    Array,
    FlatAccesses,
    SpanFlag,
    Spans,
    stacked,
)
from ggscope.model.trace import Lanes, OpTable, ReadWarning, Trace
from ggscope.model.units import TimeRange, format_count

_FITS_FROM = 0.9
"""From this share of records in the times of their graphs on a sidecar belongs."""
_BY_NAME = {"low_confidence", "truncated_names"}
"""Warnings that a sidecar settles: whose records they are, and how names go on."""
_BY_OPS = {"op_table_uncertain"}
"""Warnings that a sidecar settles which names the ops."""
_WAIT, _NODE, _GRAPH, _EXTRA = range(4)
"""Places of the spare numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The spans that are records, and what the sidecar says of each.

    Attributes
    ----------
    at : their ids in the trace of the records.
    graph : rows of `Run.graph`; those without stand at `known` False.
    node : rows of the nodes, 0 = not known.
    wait, extra : uint32, as in a ring.
    """

    at: Array
    graph: Array
    known: Array
    node: Array
    wait: Array
    extra: Array


def refusal(trace: Trace, side: Trace, spare: Array | None) -> str:
    """Return why a sidecar cannot be that of a trace; "" where it is.

    Parameters
    ----------
    spare : uint32[n, 4], the numbers in the spare bytes of all records of the file;
        None where its records have no such bytes.
    """
    run = side.run
    if spare is None:
        return f"{trace.info.name} has no 256-byte records"
    if run is None:  # a plug-in's
        return "no record belongs to one of its graphs"
    if len(spare) > run.n_records:
        stated, actual = (format_count(n) for n in (run.n_records, len(spare)))
        return f"it states {stated} records, but there are {actual}"
    rows = _rows_of(trace, run, spare)
    if not len(rows.at):
        return ""
    n_known = int(np.count_nonzero(rows.known))
    if not n_known:
        return "no record belongs to one of its graphs"
    start = trace.spans.start[rows.at] + trace.clock.origin - side.clock.origin
    graph = rows.graph[rows.known]
    inside = (start[rows.known] >= run.begin[graph]) & (
        start[rows.known] <= run.end[graph]
    )
    n = int(np.count_nonzero(inside))
    if n < _FITS_FROM * n_known:
        return (
            f"{format_count(n)} of {format_count(n_known)} records lie within its "
            "graphs"
        )
    return ""


def with_recording(trace: Trace, side: Trace, spare: Array) -> Trace:
    """Return the trace of the records with all that its sidecar states.

    Spans of records keep their order; graphs, ubatches, calls and copies come behind
    them, in place of the tokens and phases that were derived from the records. Where
    the sidecar does not name all nodes that records name, names and accesses stay
    those of the records.

    Parameters
    ----------
    side : for which there is no `refusal`.
    spare : as for `refusal`.
    """
    run = side.run
    assert run is not None
    rows = _rows_of(trace, run, spare)
    strings = remap_ids.string_map(side.strings, trace.strings)
    by = side.clock.origin - trace.clock.origin
    lanes, lane_of_thread, lane_of = _lanes(trace, side, run, rows)
    name = remap_ids.looked_up(strings, run.name)[rows.node]
    is_missing = (rows.node == 0) & (trace.spans.name[rows.at] >= 0)
    takes_nodes = not is_missing.any()
    move = Move(places={"strings": strings, "lanes": lane_of}, ticks=by)
    spans = _spans(trace, run, rows, lane_of_thread)
    others = move.of(side.spans)
    latest = int(spans.end.max(initial=0))
    is_open = (others.flags & int(SpanFlag.UNFINISHED)) != 0
    others = replace(
        others, end=np.where(is_open, np.maximum(others.end, latest), others.end)
    )
    changed: dict[str, Any] = {}
    pattern = trace.accesses.pattern[rows.at]
    if takes_nodes:
        tensors = replace(
            side.tensors, name=remap_ids.looked_up(strings, side.tensors.name)
        )
        spans = replace(
            spans,
            name=name,
            layer=run.layer[rows.node],
            tensor=_written(trace, tensors.name, name),
            flags=spans.flags & np.uint16(0xFFFF ^ SpanFlag.TRUNCATED_NAME),
        )
        pattern = run.pattern[rows.node]
        changed = {"tensors": tensors, "buffers": move.of(side.buffers), "claims": None}
    elif len(side.buffers):
        buffers, _ = remap_ids.joined_buffers(trace.buffers, move.of(side.buffers))
        changed = {"buffers": buffers}
    accesses = trace.accesses
    settled = _BY_NAME if takes_nodes else {"low_confidence"}
    if side.ops is not None:
        settled = settled | _BY_OPS
    result = replace(
        trace,
        clock=replace(trace.clock, epoch=side.clock.epoch),
        lanes=lanes,
        ops=_ops(trace.ops, side.ops),
        spans=stacked(spans, others),
        accesses=Accesses(
            np.append(pattern, np.full(len(others), -1, np.int32)),
            side.accesses.first if takes_nodes else accesses.first,
            side.accesses.patterns if takes_nodes else accesses.patterns,
            FlatAccesses.blank(),
            side.accesses.result if takes_nodes else accesses.result,
            side.accesses.writer if takes_nodes else accesses.writer,
        ),
        models=side.models,
        routing=_routing(trace, spans, rows),
        warnings=remap_ids.sorted_warnings(
            (
                *(w for w in trace.warnings if w.code not in settled),
                *remap_ids.placed_warnings(side.warnings, side.info.name),
                *_fewer(trace, side, run, spare),
            )
        ),
        generation=trace.generation + 1,
        **from_sidecar(
            trace,
            side,
            int(np.count_nonzero(rows.known)),
            int(np.count_nonzero(rows.node)),
            len(rows.at),
        ),
        **changed,
    )
    spans = result.spans
    extent = TimeRange(0, 0)
    if len(spans):
        extent = TimeRange(int(spans.start.min()), spans.last_tick())
    result = replace(result, extent=extent)
    result.freeze()
    return result


def _rows_of(trace: Trace, run: Run, spare: Array) -> _Rows:
    record = np.asarray(remap_ids.record_numbers(trace.spans), np.int64)
    at = np.flatnonzero((record >= 0) & (record < len(spare)))
    spare_fields = spare[record[at]]
    numbers = spare_fields[:, _GRAPH].astype(np.int64)
    graph = np.searchsorted(run.graph, numbers)
    graph = np.minimum(graph, max(len(run.graph) - 1, 0))
    known = np.zeros(len(at), np.bool_)
    node = np.zeros(len(at), np.int64)
    if len(run.graph):
        known = run.graph[graph] == numbers
        within = spare_fields[:, _NODE].astype(np.int64)
        is_node = known & (within < run.n_nodes[graph])
        node = np.where(is_node, run.first[graph] + within, 0)
        node[node >= len(run.name)] = 0
    return _Rows(
        at, graph, known, node, spare_fields[:, _WAIT], spare_fields[:, _EXTRA]
    )


def _lanes(
    trace: Trace, side: Trace, run: Run, rows: _Rows
) -> tuple[Lanes, Array, Array]:
    """Return all lanes, and the new one of each lane of the records and the sidecar.

    Threads of the sidecar without records have none.
    """
    of_rows = trace.spans.lane[rows.at]
    used = np.unique(of_rows).tolist()
    lane_of_raw: dict[int, int] = {}
    for lane in used:
        raw = trace.lanes[lane].attributes.get("raw", "")
        if raw.isdecimal() and int(raw) in run.lane_of:
            lane_of_raw[lane] = run.lane_of[int(raw)]
    used_lanes = set(lane_of_raw.values()) | set(np.unique(side.spans.lane).tolist())
    lanes = [lane for lane in side.lanes if lane.id in used_lanes]
    place = np.full(len(side.lanes), -1, np.int32)
    place[[lane.id for lane in lanes]] = np.arange(len(lanes))
    others = [trace.lanes[lane] for lane in used if lane not in lane_of_raw]
    of_thread = np.full(len(trace.lanes), -1, np.int32)
    for lane, one in lane_of_raw.items():
        of_thread[lane] = place[one]
    of_thread[[lane.id for lane in others]] = len(lanes) + np.arange(len(others))
    every = [replace(lane, id=i) for i, lane in enumerate((*lanes, *others))]
    return Lanes.of(every), of_thread, place


def _spans(trace: Trace, run: Run, rows: _Rows, lane_of: Array) -> Spans:
    """Return the spans of the records, named as before."""
    spans = trace.spans.take(rows.at)
    none = np.int32(-1)
    token, phase = spans.token, spans.phase
    if len(run.graph):
        token = np.where(rows.known, run.token[rows.graph], none).astype(np.int32)
        phase = np.where(rows.known, run.phase[rows.graph], -1).astype(np.int8)
    core, numa = cores_of(rows.extra)
    wait = waits_of(rows.wait, rows.extra)
    return replace(
        spans,
        lane=lane_of[spans.lane],
        token=token,
        phase=phase,
        core=core,
        numa=numa,
        flags=spans.flags | fused_of(rows.extra),
        wait=wait if (wait != NO_WAIT).any() else None,
        record=remap_ids.record_numbers(trace.spans)[rows.at],
    )


def _written(trace: Trace, names: Array, of_spans: Array) -> Array:
    """Return the tensor that each span writes, by its name; int32, -1 none."""
    rows = {
        trace.strings[i]: row for row, i in reversed(list(enumerate(names.tolist())))
    }
    ids, back = np.unique(of_spans, return_inverse=True)
    texts = [trace.strings[i] if i >= 0 else "" for i in ids.tolist()]
    row_of = [rows.get(normalise(text), -1) if text else -1 for text in texts]
    return np.array([*row_of, -1], np.int32)[back]


def _routing(trace: Trace, spans: Spans, rows: _Rows) -> Routing:
    """Return the choices of experts, with the spans' own tokens."""
    routing = trace.routing
    if not len(routing):
        return routing
    place = np.full(len(trace.spans) + 1, -1, np.int64)
    place[rows.at] = np.arange(len(rows.at))
    span = place[routing.span]
    token = routing.token
    if spans.token is not None:
        token = np.where(span >= 0, spans.token[span], token).astype(np.int32)
    return replace(routing, span=span, token=token)


def _ops(before: OpTable | None, recorded: OpTable | None) -> OpTable | None:
    """Return the names that were stated, and for other numbers those before."""
    if recorded is None:
        return before
    names = [] if before is None else list(before.names)
    names += [""] * (len(recorded.names) - len(names))
    for number, name in enumerate(recorded.names):
        names[number] = name or names[number]
    return replace(recorded, names=tuple(names))


def _fewer(
    trace: Trace, side: Trace, run: Run, spare: Array
) -> tuple[ReadWarning, ...]:
    n = run.n_records - len(spare)
    if n <= 0:
        return ()
    return (problems.recording_cut(trace.info.name, side.info.name, n),)
