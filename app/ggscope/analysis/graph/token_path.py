"""The critical path of a token: its longest chain of ops that follow from each other.

An op follows from the ops whose results it reads, from the op before it on its thread,
and, where waits at barriers are recorded, from all threads of the op before it. A link
counts only where the earlier span has ended when the later one begins, so a chain is
never longer than the time from its begin to its end.
"""

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import numpy.typing as npt

from ggscope.analysis.graph.dependencies import PassEdges, pass_edges
from ggscope.analysis.graph.op_links import NoEdges, NoPass
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.analysis.summary.bars import token_bars
from ggscope.analysis.summary.partial import hidden_ops, hidden_threads
from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64, NO_WAIT, Quality, empty, quality_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

_CHECK_EVERY = 4096
Bools = npt.NDArray[np.bool_]


class NoPath(Enum):
    """Why the critical path of a token is not known."""

    NO_SELECTION = "no_selection"
    """Neither an op nor a token is chosen."""
    NO_OPS = "no_ops"
    """No op of the token is recorded."""
    OPS_MISSING = "ops_missing"
    """The recording leaves out ops or threads; see `TokenPath.missing`."""
    NO_TIMES = "no_times"
    """No op has a recorded end."""
    ESTIMATED = "estimated"
    """Times of ops are shares of a measured whole."""


Unknown = NoPath | NoPass | NoEdges


def _none() -> I64:
    return empty(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class TokenPath:
    """The critical path of a token, ubatch or graph pass.

    Attributes
    ----------
    bar : span of the token; -1 where the trace has none.
    time : of the token; from the first op's begin to the last one's end where the
        trace has no span for it.
    spans : int64[n], spans of its ops on all threads, by (start, id).
    slack : int64[n], ticks by which each could take longer without the chain getting
        longer; 0 on the path.
    path : int64[k], spans of the longest chain, in order.
    length : ticks of these.
    n_untimed : spans whose end is not recorded; they count as 0.
    n_open : reads whose producer is not known, where the order of threads does not
        make up for it.
    quality : the worst of the spans that have an end.
    unknown : why there is no path; None where there is one.
    missing : what the recording leaves out; "" = nothing that matters.
    """

    bar: int = -1
    time: TimeRange | None = None
    spans: I64 = field(default_factory=_none)
    slack: I64 = field(default_factory=_none)
    path: I64 = field(default_factory=_none)
    length: int = 0
    n_untimed: int = 0
    n_open: int = 0
    quality: Quality = Quality.MEASURED
    unknown: Unknown | None = None
    missing: str = ""

    @property
    def is_lower_bound(self) -> bool:
        """Whether the path may be longer: times or dependencies are missing."""
        return self.n_untimed > 0 or self.n_open > 0

    def concerns(self, span: int | None) -> bool:
        """Return whether a span is of this token, or its span."""
        return span is not None and (
            span == self.bar or bool((self.spans == span).any())
        )

    def slack_of(self, span: int) -> int | None:
        """Return the slack of a span in ticks; None = not of the token, or unknown."""
        at = np.flatnonzero(self.spans == span)
        return int(self.slack[at[0]]) if len(at) and self.unknown is None else None


def token_path(
    trace: Trace,
    span: int,
    correlation: Correlation | None,
    watcher: Watcher | None = None,
) -> TokenPath:
    """Return the critical path of the token that a span is of.

    Parameters
    ----------
    span : an op, or the span of a token, ubatch or graph.
    correlation : spans and graph nodes of the trace, where it has graphs.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    edges = pass_edges(trace, span, correlation)
    if isinstance(edges, NoPass):
        is_bar = edges is NoPass.NOT_AN_OP
        return TokenPath(unknown=NoPath.NO_SELECTION if is_bar else edges)
    ops, spans = edges.ops, trace.spans
    bar = _bar_of(trace, ops.key)
    ids = ops.spans
    if not len(ids):
        return TokenPath(bar, _time(trace, bar, ids), unknown=NoPath.NO_OPS)
    base = TokenPath(bar, _time(trace, bar, ids), ids)
    if missing := hidden_ops(trace) or hidden_threads(trace):
        return _unknown(base, NoPath.OPS_MISSING, missing)
    quality = quality_of(spans.flags[ids])
    if (quality == Quality.ESTIMATED).any():
        return _unknown(base, NoPath.ESTIMATED)
    is_timed = quality != Quality.UNFINISHED
    if not is_timed.any():
        return _unknown(base, NoPath.NO_TIMES)
    is_joined = _joined_ops(trace, edges)
    is_one_thread = len(np.unique(spans.lane[ids])) == 1
    is_ordered = is_one_thread or bool(is_joined[:-1].all())
    if edges.unknown is not None and not is_ordered:
        return _unknown(base, edges.unknown)
    chain = _Chains(trace, edges, is_timed, is_joined)
    chain.search(watcher)
    path = np.array(chain.longest(), np.int64)
    return TokenPath(
        bar=bar,
        time=base.time,
        spans=ids,
        slack=chain.slack(),
        path=ids[path],
        length=int(chain.durations[path].sum()),
        n_untimed=int(np.count_nonzero(~is_timed)),
        n_open=0 if is_ordered else len(edges.open),
        quality=Quality(int(quality[is_timed].max())),
    )


def _unknown(base: TokenPath, why: Unknown, missing: str = "") -> TokenPath:
    return TokenPath(base.bar, base.time, base.spans, unknown=why, missing=missing)


def _bar_of(trace: Trace, key: tuple[str, int]) -> int:
    """Return the span of the token of a pass; -1 none."""
    bars, (kind, number) = token_bars(trace), key
    if kind == "bar":
        return int(bars.span[number])
    if kind == "token":
        at = np.flatnonzero(bars.key == number)
        return int(bars.span[at[0]]) if len(at) == 1 else -1
    return -1


def _time(trace: Trace, bar: int, ids: I64) -> TimeRange | None:
    spans = trace.spans
    if bar >= 0:
        return TimeRange(int(spans.start[bar]), int(spans.end[bar]))
    if not len(ids):
        return None
    return TimeRange(int(spans.start[ids].min()), int(spans.end[ids].max()))


def _joined_ops(trace: Trace, edges: PassEdges) -> Bools:
    """Return after which ops all threads met at a recorded barrier, bool[n]."""
    ops, wait = edges.ops, trace.spans.wait
    if wait is None:
        return np.zeros(len(ops.ops), np.bool_)
    has_wait = wait[ops.spans] != NO_WAIT
    return np.asarray(np.bincount(ops.op[has_wait], minlength=len(ops.ops)) > 0)


class _Chains:
    """Longest chains through the spans of a pass.

    Loops over spans, as each needs what the ones before it got. Spans are in the order
    of their begins, and a link leads from an ended span to one that begins then or
    later, so every link leads forward.

    Attributes
    ----------
    durations : int64[n], ticks of each span, 0 without a recorded end.
    """

    def __init__(
        self,
        trace: Trace,
        edges: PassEdges,
        is_timed: Bools,
        is_joined: Bools,
    ) -> None:
        spans, ids = trace.spans, edges.ops.spans
        start = spans.start[ids].astype(np.int64)
        self.durations = np.where(is_timed, spans.end[ids] - start, 0)
        self._start = start.tolist()
        self._end = (start + self.durations).tolist()
        self._lane = spans.lane[ids].tolist()
        self._op = edges.ops.op.tolist()
        self._before = self._ops_before(edges, is_joined)
        n = len(ids)
        self._length_before = [0] * n  # up to the begin of each
        self._previous = [-1] * n
        self._links: list[tuple[int, ...]] = [()] * n

    @staticmethod
    def _ops_before(edges: PassEdges, is_joined: Bools) -> list[list[int]]:
        """Return the ops that each op follows from."""
        before: list[list[int]] = [[] for _ in range(len(edges.ops.ops))]
        for source, target in zip(
            edges.source.tolist(), edges.target.tolist(), strict=True
        ):
            before[target].append(source)
        for op in np.flatnonzero(is_joined[:-1]).tolist():
            before[op + 1].append(op)
        return before

    def search(self, watcher: Watcher | None) -> None:
        """Find the longest chain up to each span."""
        durations = self.durations.tolist()
        last_on_lane: dict[int, int] = {}
        of_op: dict[int, list[int]] = {}
        for i, start in enumerate(self._start):
            if watcher is not None and not i % _CHECK_EVERY:
                watcher.progress(i, len(self._start))
            before = [
                a
                for op in self._before[self._op[i]]
                for a in of_op.get(op, ())
                if self._end[a] <= start
            ]
            lane = self._lane[i]
            if lane in last_on_lane and self._end[last_on_lane[lane]] <= start:
                before.append(last_on_lane[lane])
            self._links[i] = tuple(before)
            for a in before:
                length = self._length_before[a] + durations[a]
                if self._previous[i] < 0 or length > self._length_before[i]:
                    self._length_before[i], self._previous[i] = length, a
            last_on_lane[lane] = i
            of_op.setdefault(self._op[i], []).append(i)

    def longest(self) -> list[int]:
        """Return the positions of the longest chain, in order."""
        total = np.array(self._length_before, np.int64) + self.durations
        # Of equals the last one: an op without a recorded end may end the pass.
        path = [int(np.flatnonzero(total == total.max())[-1])]
        while self._previous[path[-1]] >= 0:
            path.append(self._previous[path[-1]])
        return path[::-1]

    def slack(self) -> I64:
        """Return how much shorter the longest chain through each span is, int64[n]."""
        durations = self.durations.tolist()
        length_after = [0] * len(durations)
        for i in range(len(durations) - 1, -1, -1):
            rest = durations[i] + length_after[i]
            for a in self._links[i]:
                length_after[a] = max(length_after[a], rest)
        length_through = np.array(self._length_before, np.int64) + self.durations
        length_through += np.array(length_after, np.int64)
        slack: I64 = length_through.max() - length_through
        return slack
