"""The bars of a run: one per token, ubatch or graph pass, in the order of time."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.once import once
from ggscope.analysis.statistics.nesting import covered
from ggscope.analysis.workers import chunks
from ggscope.model.tables import I64, Phase, Quality, Table, looked_up, quality_of
from ggscope.model.tokens import has_ubatches, token_noun, tokens_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

GRAPH_PASS = "graph pass"


@dataclass(frozen=True, slots=True, eq=False)
class TokenBars(Table):
    """Equally long columns, one row per bar, ordered by start.

    Attributes
    ----------
    noun : what a bar is: "token", "ubatch" or "graph pass".
    span : int64[n], the span of the bar.
    start, end : int64[n], ticks.
    phase : int8[n], `Phase`; -1 unknown.
    key : int64[n], key of the token, see ``model.tokens``; the position of the bar
        among graph passes.
    n_tokens : int64[n], tokens that the bar computes; -1 unknown.
    quality : uint8[n], `Quality` of the bar's own times.
    """

    noun: str
    span: I64
    start: I64
    end: I64
    phase: npt.NDArray[np.int8]
    key: I64
    n_tokens: I64
    quality: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.span)

    @property
    def duration(self) -> I64:
        """Ticks from the begin to the end of each bar, int64[n]."""
        return self.end - self.start

    @property
    def is_timed(self) -> npt.NDArray[np.bool_]:
        """Whether begin and end of each bar are measured or derived, bool[n]."""
        return np.asarray(self.quality <= Quality.DERIVED, np.bool_)

    def of_phase(self, phase: Phase) -> npt.NDArray[np.bool_]:
        """Return which timed bars are of a phase, bool[n]."""
        return np.asarray((self.phase == phase) & self.is_timed, np.bool_)

    def covered(self, which: npt.NDArray[np.bool_]) -> int:
        """Return the ticks in which any of the chosen bars lasts."""
        if not which.any():
            return 0
        zero = np.zeros(int(which.sum()), np.int64)
        return int(covered(zero, self.start[which], self.end[which], 1)[0])

    def time(self, row: int) -> TimeRange:
        """Return from when to when a bar lasts."""
        return TimeRange(int(self.start[row]), int(self.end[row]))


@once
def token_bars(trace: Trace) -> TokenBars:
    """Return the bars of a trace; O(spans).

    Spans of token lanes where there are any, else of graphs: a format without tokens
    still records when each graph was computed.
    """
    ids = _of_lanes(trace, trace.lanes.is_token)
    noun = token_noun(trace)
    if not len(ids):
        ids, noun = _graphs(trace), GRAPH_PASS
    spans = trace.spans
    ids = ids[np.lexsort((spans.end[ids], spans.start[ids]))]
    phase = np.full(len(ids), -1, np.int8)
    if spans.phase is not None:
        phase[:] = spans.phase[ids]
    key = np.arange(len(ids), dtype=np.int64)
    tokens = tokens_of(trace).key
    if noun != GRAPH_PASS and tokens is not None:
        key = tokens[ids].astype(np.int64)
    return TokenBars(
        noun,
        ids,
        spans.start[ids].astype(np.int64),
        spans.end[ids].astype(np.int64),
        phase,
        key,
        _n_tokens(trace, ids, phase, noun),
        quality_of(spans.flags[ids]),
    )


def bar_text(trace: Trace, bars: TokenBars, row: int) -> str:
    """Return what people call a bar: ``decode 5``, ``ubatch 7`` or ``graph pass 3``."""
    if bars.noun == GRAPH_PASS:
        return f"{GRAPH_PASS} {int(bars.key[row]):,}"
    text = tokens_of(trace).text(int(bars.key[row]))
    return text if text and not text.isdecimal() else f"{bars.noun} {text}".rstrip()


def _of_lanes(trace: Trace, chosen: npt.NDArray[np.bool_]) -> I64:
    """Return the spans of the chosen lanes."""
    ids = np.zeros(0, np.int64)
    if chosen.any():
        for rows in chunks(len(trace.spans)):
            here = np.flatnonzero(chosen[trace.spans.lane[rows]]) + rows.start
            ids = np.concatenate([ids, here])
    return ids


def _graphs(trace: Trace) -> I64:
    """Return the spans of whole graphs: of graph lanes, else around ops of threads."""
    ids = _of_lanes(trace, trace.lanes.is_graph)
    if len(ids):
        return ids
    ids = _of_lanes(trace, trace.lanes.is_thread)
    ids = ids[trace.spans.op[ids] < 0]
    if trace.spans.category is not None:
        # Frames and annotations of a program are no graphs.
        ids = ids[trace.spans.category[ids] < 0]
    return ids


def _n_tokens(trace: Trace, ids: I64, phase: npt.NDArray[np.int8], noun: str) -> I64:
    """Return how many tokens each bar computes, -1 where the trace does not say."""
    n = np.where((phase == Phase.GENERATE) & (noun == "token"), 1, -1).astype(np.int64)
    token = trace.spans.token
    if noun == GRAPH_PASS or token is None or not has_ubatches(trace):
        return n
    ubatch, counts = np.unique(trace.batch_tokens.ubatch, return_counts=True)
    return looked_up(ubatch, counts, token[ids].astype(np.int64))
