"""How long tokens take: each from the begin of its own span to the end of it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.once import once
from ggscope.analysis.statistics.grouping import Grouping
from ggscope.analysis.statistics.nesting import covered
from ggscope.analysis.workers import chunks
from ggscope.model.tables import I64, Phase, Quality, quality_of
from ggscope.model.tokens import tokens_of
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import TimeRange

SLOW = 2
"""A token is slow if it takes longer than so many times the median of its phase."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenTimes:
    """Latencies by group, of groups that are tokens.

    Attributes
    ----------
    latency : int64[n], ticks; -1 where a token has no span of its own, or several.
    is_whole : bool[n], whether no op of it is left out.
    """

    latency: I64
    is_whole: npt.NDArray[np.bool_]

    def idle(self, is_timed: npt.NDArray[np.bool_], busy: I64) -> I64:
        """Return the time of each token in which none of its ops ran; -1 unknown.

        Parameters
        ----------
        is_timed : whether the times of all its ops were used.
        busy : ticks in which any of them ran.
        """
        idle = self.latency - busy
        known = self.is_whole & is_timed & (self.latency >= 0) & (idle >= 0)
        return np.where(known, idle, -1)


def token_times(
    trace: Trace, groups: Grouping, time: TimeRange | None, *, is_whole: bool
) -> TokenTimes:
    """Return the latencies of the tokens that `groups` are.

    Parameters
    ----------
    time : the range of the spans that are counted, None = all.
    is_whole : whether all spans of it are.
    """
    spans, ids = trace.spans, token_spans(trace)
    latency = np.full(len(groups), -1, np.int64)
    whole = np.zeros(len(groups), np.bool_)
    group = groups.of(ids).group
    begin, end = spans.start[ids], spans.end[ids]
    latency[group] = end - begin
    if is_whole:
        low, high = (begin, end) if time is None else (time.start, time.end)
        whole[group] = (begin >= low) & (end <= high)
    return TokenTimes(latency, whole)


@once
def token_spans(trace: Trace) -> I64:
    """Return the ids of spans that are the only one that stands for their token.

    Those without a recorded end do not show how long a token took.
    """
    spans, key = trace.spans, tokens_of(trace).key
    is_token = trace.lanes.kinds == LaneKind.TOKEN
    ids = np.zeros(0, np.int64)
    if key is None or not is_token.any():
        return ids
    for rows in chunks(len(key)):
        here = np.flatnonzero(is_token[spans.lane[rows]]) + rows.start
        ids = np.concatenate([ids, here])
    ids = ids[key[ids] >= 0]
    _, first, n = np.unique(key[ids], return_index=True, return_counts=True)
    alone = ids[np.sort(first[n == 1])]
    known: I64 = alone[quality_of(spans.flags[alone]) <= Quality.DERIVED]
    return known


@dataclass(frozen=True, slots=True, eq=False)
class PhaseLatency:
    """How long the tokens (ubatches, in recordings) of one phase take.

    Attributes
    ----------
    phase : None where the trace does not say.
    ids : int64[n], the spans of the tokens, in the order of time.
    latency : int64[n], their ticks.
    tokens : how many tokens they are; None = not known (of a prompt, mostly).
    time : ticks in which any of them is computed.
    """

    phase: Phase | None
    ids: I64
    latency: I64
    tokens: int | None
    time: int

    def per_tick(self) -> float | None:
        """Return tokens per tick of `time`; None = not known."""
        return None if self.tokens is None or not self.time else self.tokens / self.time

    def slow(self) -> I64:
        """Return the spans of more than `SLOW` times the median, slowest first."""
        is_slow = self.latency > SLOW * np.median(self.latency)
        ids, latency = self.ids[is_slow], self.latency[is_slow]
        return ids[np.argsort(-latency, kind="stable")]


def phase_latencies(trace: Trace) -> tuple[PhaseLatency, ...]:
    """Return the latencies of prompt, generation and mixed ubatches, as there are."""
    spans, ids = trace.spans, token_spans(trace)
    ids = ids[np.argsort(spans.start[ids], kind="stable")]
    phase = np.full(len(ids), -1) if spans.phase is None else spans.phase[ids]
    latencies = []
    for code in (*Phase, None):
        here = ids[phase == (-1 if code is None else code)]
        if len(here):
            start, end = spans.start[here], spans.end[here]
            time = int(covered(np.zeros(len(here), np.int64), start, end, 1)[0])
            n = _n_tokens(trace, here, code)
            latencies.append(PhaseLatency(code, here, end - start, n, time))
    return tuple(latencies)


def _n_tokens(trace: Trace, ids: I64, phase: Phase | None) -> int | None:
    """Return how many tokens the spans `ids` stand for; a prompt's may be many."""
    token, ubatch = trace.spans.token, trace.batch_tokens.ubatch
    if len(ubatch) and token is not None:
        listed = np.isin(ubatch, token[ids])
        has_tokens = np.isin(token[ids], ubatch)
        return int(listed.sum()) if has_tokens.all() else None
    return len(ids) if phase is Phase.GENERATE else None
