"""What the trace did with one tensor, buffer, node or expert: exact sums."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.chunks import chunks, count_values
from ggscope.analysis.correlate import Correlation
from ggscope.analysis.link_scan import (
    Bools,
    Touch,
    buffer_touch,
    expert_touch,
    joined,
    marked,
    patterns_with,
    routed_keys,
    tensor_touch,
)
from ggscope.analysis.workers import Watcher
from ggscope.model.selection import Selection
from ggscope.model.tables import I64, AccessKind, Quality, quality_of
from ggscope.model.time import TimeRange
from ggscope.model.tokens import tokens_of
from ggscope.model.trace import Trace

_QUALITIES = len(Quality)


@dataclass(frozen=True, slots=True, eq=False)
class ThingFigures:
    """Figures of one selected thing.

    Attributes
    ----------
    n_accesses : how often it is accessed; each access of each span counts.
    bytes_read, bytes_written : known bytes of these.
    n_spans : spans that access it or, for a node, are it.
    time : first to last tick of these spans; None without any.
    n_tokens : distinct tokens of these spans; -1 where the trace has no tokens.
    ticks, n_by_quality : int64[4], summed duration and number of the spans that are
        this node (or write this tensor), by `Quality`.
    n_chosen : how often a router chose this expert; -1 where that is no expert.
    """

    n_accesses: int
    bytes_read: int
    bytes_written: int
    n_spans: int
    time: TimeRange | None
    n_tokens: int
    ticks: I64
    n_by_quality: I64
    n_chosen: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class FiguresRequest:
    """Computes the figures of a selection's active thing; runs on a worker."""

    trace: Trace
    selection: Selection
    correlation: Correlation | None = None

    def __call__(self, context: Watcher | None = None) -> ThingFigures:
        """Return the figures. Raises Cancelled from the context."""
        return figures_of(self.trace, self.selection, self.correlation, context)


def figures_of(
    trace: Trace,
    selection: Selection,
    correlation: Correlation | None = None,
    watcher: Watcher | None = None,
) -> ThingFigures:
    """Return the figures of the active row of a selection that is no span.

    Accesses are summed per pattern and multiplied by how often the pattern occurs:
    the sums are those of all spans, exactly.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    row = selection.active
    assert row is not None
    ids = np.array([row], np.int64)
    if selection.table == "nodes":
        return _of_node(trace, row, correlation)
    if selection.table == "tensors":
        own = marked(len(trace.tensors), ids)
        return _of_accesses(trace, tensor_touch(trace, ids), own, None, watcher)
    if selection.table == "buffers":
        return _of_accesses(trace, buffer_touch(trace, ids), None, None, watcher)
    routed = trace.routing.span[routed_keys(trace) == row].astype(np.int64)
    return _of_accesses(trace, expert_touch(trace, ids), None, routed, watcher)


def _of_accesses(
    trace: Trace,
    touch: Touch,
    own: Bools | None,
    routed: I64 | None,
    watcher: Watcher | None,
) -> ThingFigures:
    accesses, spans = trace.accesses, trace.spans
    what = accesses.patterns
    hits, loose_hits = touch(what), touch(accesses.loose.what)
    times = count_values(accesses.pattern, len(accesses.first) - 1)
    per_row = np.repeat(times, np.diff(accesses.first))
    loose = accesses.loose.what.take(np.flatnonzero(loose_hits))
    chosen = joined(what.take(np.flatnonzero(hits)), loose)
    weight = np.append(per_row[hits], np.ones(len(loose), np.int64))
    size = np.maximum(chosen.size.astype(np.int64), 0)
    is_write = chosen.kind == AccessKind.WRITE
    pattern_hit = patterns_with(trace, hits)
    extra = accesses.loose.span[loose_hits].astype(np.int64)
    if routed is not None:
        extra = np.concatenate([extra, routed])
    extra = np.unique(extra[extra >= 0])
    column = spans.tensor if own is not None else None
    seen = _Seen(trace)
    for rows in chunks(len(spans)):
        mask = pattern_hit[accesses.pattern[rows]]
        is_own = mask[:0]
        if column is not None and own is not None:
            is_own = own[column[rows]]
            mask = mask | is_own
        begin, end = np.searchsorted(extra, (rows.start, rows.stop))
        mask[extra[begin:end] - rows.start] = True
        seen.add(np.flatnonzero(mask) + rows.start)
        seen.add_time(np.flatnonzero(is_own) + rows.start)
        if watcher is not None:
            watcher.progress(rows.stop, len(spans))
    return seen.figures(
        n_accesses=int(weight.sum()),
        bytes_read=int((weight * size)[~is_write].sum()),
        bytes_written=int((weight * size)[is_write].sum()),
        n_chosen=-1 if routed is None else len(routed),
    )


def _of_node(trace: Trace, node: int, correlation: Correlation | None) -> ThingFigures:
    seen = _Seen(trace)
    if correlation is None:
        return seen.figures(0, 0, 0)
    ids = correlation.spans_of(node)
    seen.add(ids)
    seen.add_time(ids)
    accesses = trace.accesses
    times = count_values(accesses.pattern[ids], len(accesses.first) - 1)
    per_row = np.repeat(times, np.diff(accesses.first))
    size = np.maximum(accesses.patterns.size.astype(np.int64), 0) * per_row
    is_write = accesses.patterns.kind == AccessKind.WRITE
    return seen.figures(
        int(per_row.sum()), int(size[~is_write].sum()), int(size[is_write].sum())
    )


class _Seen:
    """Gathers time, tokens and durations of spans."""

    def __init__(self, trace: Trace) -> None:
        self._spans = trace.spans
        self._token = tokens_of(trace).key
        self._n = 0
        self._begin: int | None = None
        self._end = 0
        self._tokens = np.zeros(0, np.int64)
        self._ticks = np.zeros(_QUALITIES, np.int64)
        self._by_quality = np.zeros(_QUALITIES, np.int64)

    def add(self, ids: I64) -> None:
        """Take note of spans that have to do with it."""
        if not len(ids):
            return
        self._n += len(ids)
        begin, end = self._spans.start[ids], self._spans.end[ids]
        first = int(begin.min())
        self._begin = first if self._begin is None else min(self._begin, first)
        self._end = max(self._end, int(end.max()))
        if self._token is not None:
            token = np.unique(self._token[ids]).astype(np.int64)
            self._tokens = np.union1d(self._tokens, token[token >= 0])

    def add_time(self, ids: I64) -> None:
        """Add up how long spans took that are the thing itself."""
        lasted = self._spans.end[ids] - self._spans.start[ids]
        quality = quality_of(self._spans.flags[ids])
        for kind in range(_QUALITIES):
            some = quality == kind
            self._ticks[kind] += int(lasted[some].sum())
            self._by_quality[kind] += int(some.sum())

    def figures(
        self, n_accesses: int, bytes_read: int, bytes_written: int, n_chosen: int = -1
    ) -> ThingFigures:
        """Return what was gathered, with these sums."""
        time = None if self._begin is None else TimeRange(self._begin, self._end)
        n_tokens = -1 if self._spans.token is None else len(self._tokens)
        return ThingFigures(
            n_accesses,
            bytes_read,
            bytes_written,
            self._n,
            time,
            n_tokens,
            self._ticks,
            self._by_quality,
            n_chosen,
        )


__all__ = ["FiguresRequest", "ThingFigures", "figures_of"]
