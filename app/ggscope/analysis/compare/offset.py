"""How far the clock of one run lies behind that of another, by what is aligned."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ggscope.analysis.compare.alignment import align
from ggscope.model.tables import I64, Phase, Table
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

Anchor = Literal["start", "phase", "token", "offset"]
ANCHORS: tuple[Anchor, ...] = get_args(Anchor)
"""By what two timelines are aligned; an offset is moved by hand."""


@dataclass(frozen=True, slots=True, eq=False)
class MatchedTokens(Table):
    """The tokens that two runs have in common.

    Attributes
    ----------
    start_a, start_b : int64[n], begins, ascending in A.
    end_a, end_b : int64[n].
    keys : what identifies each.
    first_generated : the first one that is generated; -1 = none.
    """

    start_a: I64
    end_a: I64
    start_b: I64
    end_b: I64
    keys: tuple[str, ...]
    first_generated: int

    def nearest(self, tick: int) -> int:
        """Return the token of A that a time lies in, else the nearest; -1 = none."""
        if not len(self):
            return -1
        away = np.maximum(self.start_a - tick, 0) + np.maximum(tick - self.end_a, 0)
        return int(np.argmin(away))

    def first_in(self, visible: TimeRange) -> int:
        """Return the first token of A that begins in a range, else the nearest."""
        inside = (self.start_a >= visible.start) & (self.start_a < visible.end)
        if inside.any():
            return int(np.argmax(inside))
        return self.nearest(visible.start + visible.duration // 2)


def matched_tokens(a: Trace, b: Trace) -> MatchedTokens:
    """Return the tokens, ubatches or graph passes of both runs, matched one by one."""
    alignment = align([a, b], "token")
    empty = np.zeros(0, np.int64)
    if alignment.by != "token":
        return MatchedTokens(empty, empty, empty, empty, (), -1)
    first, second = alignment.runs
    of_b = {key: row for row, key in enumerate(second.keys)}
    rows = np.flatnonzero(first.is_matched).tolist()
    keys = tuple(first.keys[i] for i in rows)
    others = np.array([of_b[key] for key in keys], np.int64)
    own = np.array(rows, np.int64)
    generated = np.flatnonzero(first.bars.phase[own] == Phase.GENERATE)
    return MatchedTokens(
        first.bars.start[own], first.bars.end[own],
        second.bars.start[others], second.bars.end[others],
        keys, int(generated[0]) if len(generated) else -1,
    )  # fmt: skip


def first_tick(trace: Trace) -> int:
    """Return when the first span begins; of none, the begin of the trace."""
    spans = trace.spans
    return int(spans.start.min()) if len(spans) else trace.extent.start


def offset_between(
    a: Trace, b: Trace, tokens: MatchedTokens, anchor: Anchor, token: int = -1
) -> int:
    """Return the ticks that B's clock is ahead: tick t of A is drawn over t + offset.

    Parameters
    ----------
    anchor : "phase" = the first generated token that both have; "offset" as "start".
    token : row of `tokens` for "token"; -1 = the first one.
    """
    row = {"phase": tokens.first_generated, "token": max(token, 0)}.get(anchor, -1)
    if not 0 <= row < len(tokens):
        return first_tick(b) - first_tick(a)
    return int(tokens.start_b[row] - tokens.start_a[row])
