"""The facts in a trace of CUDA calls, whether it was followed or read."""

import numpy as np

from ggscope.model.tables import SpanFlag, Spans
from ggscope.model.trace import Trace

WHILE_RUNNING = {"calls_without_end", "calls_cut_short"}


def span_rows(trace: Trace, spans: Spans, pattern: np.ndarray | None) -> list[tuple]:
    """Return spans with times in ns of the machine's clock."""
    spans, origin, accesses = spans.full(), trace.clock.origin, trace.accesses
    rows = []
    for i in range(len(spans)):
        access = None
        if pattern is not None and pattern[i] >= 0:
            at = int(accesses.first[pattern[i]])
            access = int(accesses.patterns.kind[at]), int(accesses.patterns.size[at])
        rows.append(
            (
                trace.lanes[int(spans.lane[i])].name,
                trace.strings[int(spans.name[i])],
                trace.ops.names[int(spans.op[i])],
                trace.strings[int(spans.category[i])],
                int(spans.start[i]) + origin, int(spans.end[i]) + origin,
                int(spans.flags[i]), int(spans.record[i]), int(spans.color[i]), access,
            )
        )  # fmt: skip
    return rows


def call_rows(trace: Trace) -> list[tuple]:
    """Return all calls: a call that is open is a span of a trace that is read."""
    rows = span_rows(trace, trace.spans, trace.accesses.pattern)
    rows += span_rows(trace, trace.open_spans, None)
    # One that lasts accesses nothing yet.
    is_open = int(SpanFlag.UNFINISHED)
    return sorted(row[:-1] if row[6] & is_open else row for row in rows)


def marker_rows(trace: Trace) -> list[tuple]:
    markers = trace.markers
    return sorted(
        (
            trace.lanes[int(markers.lane[i])].name,
            int(markers.time[i]) + trace.clock.origin,
            trace.strings[int(markers.name[i])], int(markers.record[i]),
        )
        for i in range(len(markers))
    )  # fmt: skip


def problems(trace: Trace, *, has_end: bool) -> list[tuple[str, int, str]]:
    return sorted(
        (w.code, w.count, w.place)
        for w in trace.warnings
        if has_end or w.code not in WHILE_RUNNING
    )


def facts(trace: Trace, *, has_end: bool = True) -> dict[str, object]:
    """Return all that is stated, independent of the order of rows and of tick 0."""
    return {
        "calls": call_rows(trace),
        "markers": marker_rows(trace),
        "counters": {
            series.name: (
                (series.time + trace.clock.origin).tolist(),
                [None if np.isnan(v) else v for v in series.value.tolist()],
            )
            for series in trace.counters
        },
        "lanes": sorted(lane.name for lane in trace.lanes),
        "problems": problems(trace, has_end=has_end),
        "events": trace.info.summary["events"],
        "lines": trace.info.n_records,
        "epoch": trace.clock.epoch,
    }
