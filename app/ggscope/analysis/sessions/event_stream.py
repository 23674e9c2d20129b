"""The event stream of a run with the sidecar of its recording.

The stream has the ops of every thread and the graphs; the sidecar has ubatches, tokens,
calls of the program and copies, and how the recording was made. They are of one run
where the graphs of the one begin when those of the other do.
"""

from dataclasses import replace

import numpy as np

from ggscope.analysis.sessions import remap_ids
from ggscope.analysis.sessions.remap_ids import Move
from ggscope.analysis.sessions.sidecar import from_sidecar
from ggscope.model.run import THREADS_OF_SLOT, Run
from ggscope.model.tables import I64, Array, SpanFlag, stacked
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, format_count

READER_ID = "ggmlviz"
_FITS_FROM = 0.9


def refusal_of_stream(trace: Trace, side: Trace) -> str:
    """Return why a sidecar cannot be that of an event stream; "" where it is."""
    run = side.run
    if run is None or not len(run.graph):
        return "it has no graphs"
    begins = run.begin + side.clock.origin - trace.clock.origin
    own = trace.spans.start[trace.spans.op < 0]
    n = int(np.count_nonzero(np.isin(begins, own)))
    if n < _FITS_FROM * len(begins):
        return (
            f"{format_count(n)} of {format_count(len(begins))} graphs begin together "
            "with one of the stream"
        )
    return ""


def with_stream(trace: Trace, side: Trace) -> Trace:
    """Return the trace of an event stream with what its sidecar states.

    Parameters
    ----------
    side : for which there is no `refusal_of_stream`.
    """
    run = side.run
    assert run is not None
    by = side.clock.origin - trace.clock.origin
    strings = remap_ids.string_map(side.strings, trace.strings)
    # The stream has lanes of its own for threads and graphs.
    new = np.flatnonzero(~(side.lanes.is_thread | side.lanes.is_graph)).tolist()
    lanes, places = remap_ids.appended_lanes(trace.lanes, [side.lanes[i] for i in new])
    lane_of = np.full(len(side.lanes), -1, np.int64)
    lane_of[new] = places
    move = Move(places={"strings": strings, "lanes": lane_of}, ticks=by)
    others = move.of(side.spans.take(np.flatnonzero(lane_of[side.spans.lane] >= 0)))
    latest = int(trace.spans.end.max(initial=0))
    is_open = (others.flags & int(SpanFlag.UNFINISHED)) != 0
    end = np.where(is_open, np.maximum(others.end, latest), others.end)
    graph = _graph_of(trace, run, by)
    token = np.append(run.token, np.int32(-1))[graph]
    phase = np.append(run.phase, np.int8(-1))[graph]
    record = remap_ids.record_numbers(trace.spans)
    spans = replace(trace.spans, token=token, phase=phase, record=record)
    is_op = trace.spans.op >= 0
    n_matched = int(np.count_nonzero(is_op & (graph >= 0)))
    joined = replace(
        trace,
        lanes=lanes,
        spans=stacked(spans, replace(others, end=end)),
        accesses=replace(
            trace.accesses,
            pattern=np.append(
                trace.accesses.pattern, np.full(len(others), -1, np.int32)
            ),
        ),
        warnings=remap_ids.sorted_warnings(
            (
                *trace.warnings,
                *remap_ids.placed_warnings(side.warnings, side.info.name),
            )
        ),
        generation=trace.generation + 1,
        **from_sidecar(trace, side, n_matched, n_matched, int(np.count_nonzero(is_op))),
    )
    first, last = trace.extent.start, trace.extent.end
    if len(others):
        first = min(first, int(others.start.min()))
        last = max(last, joined.spans.last_tick())
    joined = replace(joined, extent=TimeRange(first, last))
    joined.freeze()
    return joined


def _graph_of(trace: Trace, run: Run, by: int) -> I64:
    """Return the row of the graph that each span is in, int64[n]; -1 = in none."""
    spans, graph = trace.spans, np.full(len(trace.spans), -1, np.int64)
    slots = np.full(len(trace.lanes), -1, np.int64)
    for i in np.flatnonzero(trace.lanes.is_thread).tolist():
        raw = trace.lanes.attributes[i].get("raw", "")
        if raw.isdecimal():
            slots[i] = int(raw) // THREADS_OF_SLOT
    slot: Array = slots[spans.lane]
    for number in np.unique(run.slot).tolist():
        graphs = np.flatnonzero(run.slot == number)
        graphs = graphs[np.argsort(run.begin[graphs], kind="stable")]
        at = np.flatnonzero(slot == number)
        start = spans.start[at] - by
        place = np.searchsorted(run.begin[graphs], start, "right") - 1
        is_in = place >= 0
        is_in[is_in] = start[is_in] <= run.end[graphs[place[is_in]]]
        graph[at[is_in]] = graphs[place[is_in]]
    return graph
