"""How long each token takes, and how that grows with the context."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.once import once
from ggscope.analysis.summary.bars import GRAPH_PASS, TokenBars, token_bars
from ggscope.model.tables import I64, Phase, Quality, Spans, quality_of
from ggscope.model.trace import Trace

Bools = npt.NDArray[np.bool_]
SLOW = 2
"""An outlier takes more than so many times the median."""
_MIN_POINTS = 3


@dataclass(frozen=True, slots=True)
class Fit:
    """A straight line through latencies by position, by least squares.

    Attributes
    ----------
    slope : ticks per token of context.
    error : standard error of `slope`.
    at_zero : ticks at position 0.
    n : number of bars.
    low, high : least and greatest position of these.
    """

    slope: float
    error: float
    at_zero: float
    n: int
    low: int
    high: int


@dataclass(frozen=True, slots=True, eq=False)
class Latency:
    """How long bars take.

    Attributes
    ----------
    bars : one per token, ubatch or graph pass, in the order of time.
    is_counted : bool[n], those that `median`, `p99` and outliers are about.
    median, p99 : ticks, as ``numpy.percentile`` has them; None without a counted bar.
    is_outlier : bool[n], counted bars that take more than `SLOW` times the median.
    position : int64[n], tokens that were computed before it in its sequence; -1 where
        that is not recorded, or the bar computes tokens of several sequences.
    fit : of counted bars of one token and known position; None where they do not state
        it.
    no_fit : why there is none, "" where there is one.
    """

    bars: TokenBars
    is_counted: Bools
    median: float | None
    p99: float | None
    is_outlier: Bools
    position: I64
    fit: Fit | None
    no_fit: str


def counted_bars(bars: TokenBars) -> Bools:
    """Return which timed bars are generated tokens, else all timed ones; bool[n]."""
    generated = bars.of_phase(Phase.GENERATE)
    has_generated = bars.noun != GRAPH_PASS and bool(generated.any())
    return generated if has_generated else bars.is_timed


@dataclass(frozen=True, slots=True)
class TypicalLatency:
    """What the latency of a token is held against.

    Attributes
    ----------
    median : ticks, that of `Latency`; 0 where there is none.
    is_of_generated : whether it is that of generated tokens alone.
    """

    median: float = 0.0
    is_of_generated: bool = False

    def ratios(self, spans: Spans, ids: I64) -> npt.NDArray[np.float64]:
        """Return how many times the median tokens take; NaN of those not counted."""
        is_counted = quality_of(spans.flags[ids]) <= Quality.DERIVED
        if self.is_of_generated and spans.phase is not None:
            is_counted &= spans.phase[ids] == Phase.GENERATE
        duration = (spans.end[ids] - spans.start[ids]).astype(np.float64)
        duration[~is_counted] = np.nan
        return duration / (self.median or np.nan)


def typical_latency(spans: Spans, ids: I64) -> TypicalLatency:
    """Return the median latency of the spans of token lanes; O(ids)."""
    is_timed = quality_of(spans.flags[ids]) <= Quality.DERIVED
    counted = is_timed
    if spans.phase is not None:
        generated = is_timed & (spans.phase[ids] == Phase.GENERATE)
        counted = generated if generated.any() else is_timed
    if not counted.any():
        return TypicalLatency()
    duration = (spans.end[ids] - spans.start[ids])[counted]
    return TypicalLatency(float(np.percentile(duration, 50)), counted is not is_timed)


@once
def token_latency(trace: Trace) -> Latency:
    """Return how long the bars of a trace take; O(spans)."""
    bars = token_bars(trace)
    is_counted = counted_bars(bars)
    duration = bars.duration
    median: float | None = None
    p99: float | None = None
    is_outlier = np.zeros(len(bars), np.bool_)
    if is_counted.any():
        counted = duration[is_counted]
        median = float(np.percentile(counted, 50))
        p99 = float(np.percentile(counted, 99))
        is_outlier = is_counted & (duration > SLOW * median)
    position, context = _positions(trace, bars)
    usable = is_counted & (position >= 0) & (bars.n_tokens == 1)
    fit, no_fit = _fit(position[usable], duration[usable], context[usable])
    if not (position >= 0).any():
        no_fit = "the trace does not record positions of tokens"
    return Latency(bars, is_counted, median, p99, is_outlier, position, fit, no_fit)


def _positions(trace: Trace, bars: TokenBars) -> tuple[I64, I64]:
    """Return position and context of each bar; -1 = not known."""
    position = np.full(len(bars), -1, np.int64)
    context = np.full(len(bars), -1, np.int64)
    tokens = trace.batch_tokens
    if not len(tokens) or bars.noun == GRAPH_PASS:
        return position, context
    ubatch, which = np.unique(tokens.ubatch, return_inverse=True)
    low, high = _extremes(which, tokens.position, len(ubatch))
    size = np.bincount(which, minlength=len(ubatch))
    # One sequence goes on without a gap; a tree of drafts repeats positions.
    place = which.astype(np.int64) << 32 | (tokens.position.astype(np.int64) + 1)
    n_places = np.bincount(np.unique(place) >> 32, minlength=len(ubatch))
    is_known = (low >= 0) & (high - low + 1 == size) & (n_places == size)
    sequences = trace.token_sequences
    if len(sequences):
        first, last = _extremes(which[sequences.token], sequences.sequence, len(ubatch))
        is_known &= (first == last) | (size == 1)
    else:
        is_known &= size == 1
    of_context, last_context = _extremes(which, tokens.context, len(ubatch))
    number = bars.key
    at = np.minimum(np.searchsorted(ubatch, number), len(ubatch) - 1)
    hit = (ubatch[at] == number) & is_known[at]
    position[hit] = low[at[hit]]
    context[hit] = np.where(of_context == last_context, of_context, -1)[at[hit]]
    return position, context


def _extremes(
    which: npt.NDArray[np.intp], values: npt.NDArray[np.generic], n: int
) -> tuple[I64, I64]:
    """Return least and greatest value of each group; -1 and -2 of an empty one."""
    order = np.argsort(which, kind="stable")
    groups, ordered = which[order], values[order].astype(np.int64)
    low, high = np.full(n, -1, np.int64), np.full(n, -2, np.int64)
    if len(order):
        first = np.flatnonzero(np.diff(groups, prepend=-1))
        low[groups[first]] = np.minimum.reduceat(ordered, first)
        high[groups[first]] = np.maximum.reduceat(ordered, first)
    return low, high


def _fit(position: I64, duration: I64, context: I64) -> tuple[Fit | None, str]:
    """Return the line through points of one context, or why there is none."""
    if len(np.unique(context)) > 1:
        return None, "several contexts generate tokens"
    if len(position) < _MIN_POINTS or position.min() == position.max():
        return None, "too few generated tokens of known position"
    x, y = position.astype(np.float64), duration.astype(np.float64)
    dx, dy = x - x.mean(), y - y.mean()
    spread = float((dx * dx).sum())
    slope = float((dx * dy).sum()) / spread
    rest = dy - slope * dx
    error = float(np.sqrt((rest * rest).sum() / (len(x) - 2) / spread))
    at_zero = float(y.mean() - slope * x.mean())
    low, high = int(position.min()), int(position.max())
    return Fit(slope, error, at_zero, len(x), low, high), ""
