"""Traces as a reader hands them out while it reads: prefixes, spans, the whole."""

from dataclasses import fields, replace

import numpy as np

from ggscope.model.tables import Array, Flows, Spans, empty, freeze, no_accesses
from ggscope.model.trace import Trace

LATER = frozenset({"names", "accesses"})


def with_records(trace: Trace) -> Trace:
    """Return the trace with the record number of each span: its id."""
    record = np.arange(len(trace.spans), dtype=np.int64)
    spans = replace(trace.spans, record=record)
    freeze(spans)
    return replace(trace, spans=spans)


def prefix(trace: Trace, share: float) -> Trace:
    """Return the snapshot of a reader that has read `share` of the time.

    Its ids run the other way round than those of `trace`, which must have records.
    """
    extent = trace.extent
    until = extent.start + round(extent.duration * share)
    known = np.flatnonzero(trace.spans.end <= until)[::-1]
    spans = _taken(trace.spans, known)
    return replace(
        trace,
        spans=spans,
        accesses=no_accesses(len(spans)),
        flows=Flows(empty(np.int64), empty(np.int64)),
        pending=LATER | {"spans"},
        read_until=until,
        generation=round(share * 100),
    )


def spans_only(trace: Trace) -> Trace:
    """Return the snapshot in which all spans are known, and nothing else."""
    return replace(
        trace,
        accesses=no_accesses(len(trace.spans)),
        pending=LATER,
        generation=101,
    )


def stages(trace: Trace, *shares: float) -> list[Trace]:
    """Return prefixes of these shares, then the spans, then the whole trace."""
    whole = replace(with_records(trace), generation=102)
    return [*(prefix(whole, share) for share in shares), spans_only(whole), whole]


def _taken(spans: Spans, ids: Array) -> Spans:
    columns = {
        f.name: None if column is None else column[ids]
        for f in fields(Spans)
        for column in [getattr(spans, f.name)]
    }
    taken = Spans(**columns)
    freeze(taken)
    return taken
