"""How long tokens take: each from the begin of its own span to the end of it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.once import once
from ggscope.analysis.statistics.grouping import Grouping
from ggscope.analysis.workers import chunks
from ggscope.model.tables import I64, Quality, quality_of
from ggscope.model.tokens import tokens_of
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import TimeRange


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

    Those without a recorded end do not tell how long a token took.
    """
    spans, key = trace.spans, tokens_of(trace).key
    is_token = trace.lanes.of_kind(LaneKind.TOKEN)
    ids = np.zeros(0, np.int64)
    if key is None or not is_token.any():
        return ids
    for rows in chunks(len(spans)):
        here = np.flatnonzero(is_token[spans.lane[rows]]) + rows.start
        ids = np.concatenate([ids, here])
    ids = ids[key[ids] >= 0]
    _, first, n = np.unique(key[ids], return_index=True, return_counts=True)
    alone = ids[np.sort(first[n == 1])]
    found: I64 = alone[quality_of(spans.flags[alone]) <= Quality.DERIVED]
    return found
