"""Token numbers that are skipped: tokens between the first and last that have no span.

Tracers number tokens in steps of one. Where most steps are of one, a number that is
skipped is a token whose records are lost. Larger steps throughout are positions of
batches or a sample of the tokens, and nothing is missing for that.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from ggscope.analysis.once import once
from ggscope.analysis.workers import chunks
from ggscope.model.tables import I64, Phase, distinct, ranked
from ggscope.model.tokens import has_ubatches
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import format_count

_MAX_SHOWN = 3
_REGULAR = 0.5
"""At least this share of the steps between token numbers must be of one."""


@dataclass(frozen=True, slots=True)
class TokenGap:
    """Token numbers that are missing between two that are there.

    Attributes
    ----------
    first, last : token numbers that have no span.
    phase : `Phase` of the tokens around them; -1 = none is stated.
    time : tick at which the token before them begins.
    """

    first: int
    last: int
    phase: int
    time: int

    @property
    def n_tokens(self) -> int:
        """Number of missing tokens."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class SkippedTokens:
    """The token numbers that a trace skips, in the order of time."""

    gaps: tuple[TokenGap, ...] = ()

    @cached_property
    def n_tokens(self) -> int:
        """Number of missing tokens."""
        return sum(gap.n_tokens for gap in self.gaps)

    def numbers(self) -> str:
        """Return "10, 14–16 and 22 more" of the missing token numbers."""
        shown = [
            format_count(gap.first)
            if gap.n_tokens == 1
            else f"{format_count(gap.first)}–{format_count(gap.last)}"
            for gap in self.gaps[:_MAX_SHOWN]
        ]
        n_more = self.n_tokens - sum(gap.n_tokens for gap in self.gaps[:_MAX_SHOWN])
        more = f" and {format_count(n_more)} more" if n_more else ""
        return ", ".join(shown) + more


NO_SKIPS = SkippedTokens()


@once
def skipped_tokens(trace: Trace) -> SkippedTokens:
    """Return the token numbers between the first and last of each phase without a span.

    Notes
    -----
    Made of the spans of token lanes only. Recordings with ubatches have
    an account of their own; what their tracer sampled is no loss.
    """
    token, phase = trace.spans.token, trace.spans.phase
    of_lane = trace.lanes.kinds == LaneKind.TOKEN
    if token is None or not of_lane.any() or trace.pending or has_ubatches(trace):
        return NO_SKIPS
    parts = [
        rows.start
        + np.flatnonzero(of_lane[trace.spans.lane[rows]] & (token[rows] >= 0))
        for rows in chunks(len(token))
    ]
    spans = np.concatenate([np.zeros(0, np.int64), *parts])
    of_phase = np.full(len(spans), -1) if phase is None else phase[spans]
    gaps: list[TokenGap] = []
    for code in (-1, *Phase):
        of_code = spans[of_phase == code]
        gaps += _gaps_of(trace, of_code, int(code)) if len(of_code) else []
    return SkippedTokens(tuple(sorted(gaps, key=lambda gap: (gap.time, gap.first))))


def _gaps_of(trace: Trace, spans: I64, phase: int) -> list[TokenGap]:
    assert trace.spans.token is not None
    numbers, at, _ = ranked(trace.spans.token[spans])
    numbers = numbers.astype(np.int64)
    steps = np.diff(numbers)
    skips = np.flatnonzero(steps > 1)
    if not len(skips) or np.count_nonzero(steps == 1) < _REGULAR * len(steps):
        return []
    starts = trace.spans.start[spans[at]]
    # A pass that lost its first record has no span on the token lane, but ops.
    present = _numbers_between(trace, int(numbers[0]), int(numbers[-1]))
    gaps = []
    for i in skips.tolist():
        low, high = int(numbers[i]), int(numbers[i + 1])
        inside = present[slice(*np.searchsorted(present, (low, high + 1)))]
        for before, after in pairwise(inside.tolist()):
            if after - before > 1:
                gaps.append(TokenGap(before + 1, after - 1, phase, int(starts[i])))
    return gaps


def _numbers_between(trace: Trace, low: int, high: int) -> I64:
    """Return the token numbers from low to high that any span has, ascending."""
    token = trace.spans.token
    assert token is not None
    numbers = np.zeros(0, np.int64)
    for rows in chunks(len(token)):
        part = token[rows]
        part = distinct(part[(part >= low) & (part <= high)])
        numbers = distinct(np.append(numbers, part.astype(np.int64)))
    return numbers
