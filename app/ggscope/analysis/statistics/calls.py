"""What the program's own thread does for each decode: a time for every call.

Calls lie within each other (``compute`` within ``decode``), so each has its own time,
without those within it. Own times and what lies between calls add up to the time on
the clock.
"""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.once import once
from ggscope.analysis.statistics.nesting import own_times
from ggscope.analysis.workers import chunks
from ggscope.model.tables import I64, Array, Quality, quality_of
from ggscope.model.trace import Trace

_DECODE = "decode"


@dataclass(frozen=True, slots=True, eq=False)
class CallTimes:
    """Times of the calls of a program, in ticks.

    Attributes
    ----------
    names : of the calls, longest own time first.
    count, own : int64[n], how many there are, and their time without calls within.
    time : from the first call's begin to the last one's end.
    decode : int64[d], ids of the spans of the decodes, in their order.
    per_decode : int64[d, n + 1], own times of the calls from each decode's begin to
        the next one's, and last what lies between them; rows add up to that time.
        None where decodes overlap, as those of several contexts do.
    """

    names: tuple[str, ...]
    count: I64
    own: I64
    time: int
    decode: I64
    per_decode: I64 | None

    @property
    def between(self) -> int:
        """Time in which no call ran."""
        return self.time - int(self.own.sum())


@once
def call_times(trace: Trace) -> CallTimes | None:
    """Return the times of the calls of the program; None where none is recorded."""
    spans, ids = trace.spans, _call_spans(trace)
    if not len(ids):
        return None
    ids = ids[np.argsort(spans.start[ids], kind="stable")]
    start, end = spans.start[ids], spans.end[ids]
    own = own_times(start, end, np.zeros(len(ids), np.int8))
    texts, name = np.unique(spans.name[ids], return_inverse=True)
    n = len(texts)
    sums = np.zeros(n, np.int64)
    np.add.at(sums, name, own)
    order = np.argsort(-sums, kind="stable")
    names = tuple(trace.strings[int(texts[i])] for i in order)
    place = np.argsort(order)[name]
    first = ids[place == names.index(_DECODE)] if _DECODE in names else ids[:0]
    return CallTimes(
        names=names,
        count=np.bincount(place, minlength=n).astype(np.int64),
        own=sums[order],
        time=int(end.max() - start.min()),
        decode=first,
        per_decode=_per_decode(trace, first, start, end, place, own, n),
    )


def _call_spans(trace: Trace) -> I64:
    lanes, spans = trace.lanes, trace.spans
    is_call = lanes.is_command
    for lane in np.flatnonzero(is_call).tolist():
        is_call[lane] = lanes[lane].group == ("Host",)
    parts = [np.zeros(0, np.int64)]
    if is_call.any():
        for rows in chunks(len(spans)):
            known = quality_of(spans.flags[rows]) <= Quality.DERIVED
            here = is_call[spans.lane[rows]] & known
            parts.append(np.flatnonzero(here) + rows.start)
    ids: I64 = np.concatenate(parts)
    return ids


def _per_decode(
    trace: Trace, decode: I64, start: I64, end: I64, place: Array, own: I64, n: int
) -> I64 | None:
    begin, stop = trace.spans.start[decode], trace.spans.end[decode]
    if not len(decode) or np.any(stop[:-1] > begin[1:]):
        return None
    until = np.append(begin[1:], end.max())
    which = np.searchsorted(begin, start, "right") - 1
    is_within = which >= 0
    times = np.zeros((len(decode), n + 1), np.int64)
    np.add.at(times, (which[is_within], place[is_within]), own[is_within])
    times[:, n] = until - begin - times.sum(axis=1)
    return times if np.all(times[:, n] >= 0) else None
