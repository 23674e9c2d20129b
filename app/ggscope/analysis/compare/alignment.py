"""Which parts of runs belong together: tokens of the same number, phases, or all."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.summary.bars import GRAPH_PASS, TokenBars, token_bars
from ggscope.analysis.summary.latency import token_latency
from ggscope.analysis.summary.partial import shifted_tokens
from ggscope.analysis.workers import chunks
from ggscope.model.selection import AlignBy
from ggscope.model.tables import I64, Phase
from ggscope.model.tokens import tokens_of
from ggscope.model.trace import Trace

Bools = npt.NDArray[np.bool_]
_PHASES = {int(phase): phase.name.lower() for phase in Phase}


@dataclass(frozen=True, slots=True, eq=False)
class AlignedRun:
    """The part of one run that the other runs have, too.

    Attributes
    ----------
    keys : what identifies each bar, by which runs are aligned: "generate 5".
    is_matched : whether all runs have a bar of that key, bool[n_bars].
    mask : bool[n_spans], spans of matched bars; None = all spans.
    """

    bars: TokenBars
    keys: tuple[str, ...]
    is_matched: Bools
    mask: Bools | None

    @property
    def n_matched(self) -> int:
        """Number of bars that are compared."""
        return int(np.count_nonzero(self.is_matched))

    @property
    def unmatched(self) -> list[str]:
        """Keys of the bars that another run lacks."""
        is_left = ~self.is_matched
        return [self.keys[i] for i in np.flatnonzero(is_left).tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """How runs are aligned.

    Attributes
    ----------
    by : "token" by the numbers of tokens or graph passes, "phase" by the phases that
        all have, "start": whole runs.
    runs : one per trace, in their order.
    is_open : whether the n-th token is compared with the n-th though a run hides
        tokens, and no positions show which ones these are.
    """

    by: AlignBy
    runs: tuple[AlignedRun, ...]
    is_open: bool = False

    @property
    def leaves_out(self) -> bool:
        """Whether any run has bars that are not compared."""
        return any(not run.is_matched.all() for run in self.runs)


def align(traces: Sequence[Trace], by: AlignBy | None = None) -> Alignment:
    """Return how traces are aligned.

    Parameters
    ----------
    by : None = by tokens where all traces have them in common, else by their starts.
    """
    bars = [token_bars(trace) for trace in traces]
    is_alike = len({one.noun for one in bars}) == 1 and all(map(len, bars))
    chosen: AlignBy = by or ("token" if is_alike else "start")
    if chosen == "start" or (chosen == "token" and not is_alike):
        everything = [
            AlignedRun(one, (), np.ones(len(one), np.bool_), None) for one in bars
        ]
        return Alignment("start", tuple(everything))
    hides = chosen == "token" and any(map(shifted_tokens, traces))
    places = [_position_keys(trace) for trace in traces] if hides else []
    if hides and all(keys is not None for keys in places):
        named = [keys for keys in places if keys is not None]
        hides = False
    else:
        named = [
            _token_keys(trace, one) if chosen == "token" else _phase_keys(one)
            for trace, one in zip(traces, bars, strict=True)
        ]
    common = set(named[0]).intersection(*named[1:])
    if by is None and not common:
        return align(traces, "start")
    runs = []
    for trace, one, keys in zip(traces, bars, named, strict=True):
        is_matched = np.fromiter((key in common for key in keys), np.bool_, len(keys))
        mask = None if is_matched.all() else _spans_of(trace, one, is_matched)
        runs.append(AlignedRun(one, tuple(keys), is_matched, mask))
    return Alignment(chosen, tuple(runs), hides)


def _position_keys(trace: Trace) -> list[str] | None:
    """Return what names each bar by its place in the context; None if not recorded.

    Where a run leaves tokens out, the n-th recorded one need not be the n-th computed.
    """
    latency = token_latency(trace)
    if not len(latency.position) or (latency.position < 0).any():
        return None
    counted: dict[str, int] = {}
    keys = []
    for phase, n_tokens, position in zip(
        latency.bars.phase.tolist(), latency.bars.n_tokens.tolist(),
        latency.position.tolist(), strict=True,
    ):  # fmt: skip
        what = f"{_PHASES.get(phase, '')} at position {position}".lstrip()
        if n_tokens > 1:
            what += f" of {n_tokens} tokens"
        n = counted[what] = counted.get(what, -1) + 1
        keys.append(f"{what} ({n + 1})" if n else what)
    return keys


def _token_keys(trace: Trace, bars: TokenBars) -> list[str]:
    """Return what names each bar in other runs, too: its phase and its place there."""
    if bars.noun == GRAPH_PASS:
        return [str(i) for i in range(len(bars))]
    # The n-th of a phase: prompts may be cut into other ubatches.
    phases = bars.phase.tolist()
    counted: dict[int, int] = {}
    keys = []
    for phase in phases:
        n = counted[phase] = counted.get(phase, -1) + 1
        keys.append(f"{_PHASES.get(phase, '')} {n}".lstrip())
    return keys


def _phase_keys(bars: TokenBars) -> list[str]:
    return [_PHASES.get(phase, "") for phase in bars.phase.tolist()]


def _spans_of(trace: Trace, bars: TokenBars, chosen: Bools) -> Bools:
    """Return which spans lie in the chosen bars, bool[n_spans].

    By the number of the token where spans have one, else by where they start. Spans
    of no bar count.
    """
    spans = trace.spans
    tokens = tokens_of(trace).key if bars.noun != GRAPH_PASS else None
    mask = np.ones(len(spans), np.bool_)
    if tokens is not None:
        left = np.unique(bars.key[~chosen])
        left = np.setdiff1d(left, bars.key[chosen])
        for rows in chunks(len(spans)):
            mask[rows] = ~np.isin(tokens[rows], left)
        return mask
    bar = bar_of(bars, spans.start)
    is_in = bar >= 0
    mask[is_in] = chosen[bar[is_in]]
    return mask


def bar_of(bars: TokenBars, ticks: I64) -> I64:
    """Return in which bar each tick lies, int64[n]; -1 in none."""
    at = np.searchsorted(bars.start, ticks, "right") - 1
    is_in = (at >= 0) & (ticks < bars.end[np.maximum(at, 0)])
    return np.where(is_in, at, -1)
