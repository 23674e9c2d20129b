"""What lies between two points in time: ops with their bytes, and tokens."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ggscope.analysis.reads.shared import op_owners
from ggscope.analysis.statistics.grouping import SpanBytes
from ggscope.analysis.summary.bars import token_bars
from ggscope.analysis.summary.partial import hidden_graphs, hidden_ops, hidden_tokens
from ggscope.model.tables import I64, Quality, SpanFlag, quality_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class RulerFacts:
    """What lies between two points in time.

    Attributes
    ----------
    time : from one point to the other.
    n_ops : ops that lie wholly in it, with the spans of all their threads; None where
        it takes too long to find which spans are of one op.
    n_cut_ops : ops of which only a part lies in it; one without an end is such until
        the next one of its thread begins, where only begins are recorded.
    bytes : that the whole ops access; None = not known of any.
    is_least : whether more may have been accessed: some ops are cut, of some not all
        bytes are known, or the recording leaves some out.
    recorded : whether the trace has accesses; "pending" = still being read.
    is_estimated : whether the times of some of the ops are estimated.
    noun : what a bar is: "token", "ubatch" or "graph pass".
    n_bars, n_cut_bars : those that lie in it wholly, and in part.
    n_tokens : tokens of the whole ones; None = not known.
    hides_tokens : whether the recording may leave some out.
    """

    time: TimeRange
    n_ops: int | None
    n_cut_ops: int
    bytes: int | None
    is_least: bool
    recorded: Literal["none", "pending", "known"]
    is_estimated: bool
    noun: str
    n_bars: int
    n_cut_bars: int
    n_tokens: int | None
    hides_tokens: bool

    @property
    def rate(self) -> float | None:
        """`bytes` per tick from point to point; None where they are not known."""
        if self.bytes is None or not self.n_ops or not self.time.duration:
            return None
        return self.bytes / self.time.duration


def ruler_facts(trace: Trace, time: TimeRange) -> RulerFacts:
    """Return what lies between the ends of `time`, both belong to it; O(spans)."""
    n_ops, n_cut, ops = _whole_ops(trace, time)
    accesses = trace.accesses
    has_accesses = len(accesses.patterns) + len(accesses.loose) > 0
    known, is_open = None, False
    recorded: Literal["none", "pending", "known"] = "none"
    if "accesses" in trace.pending:
        recorded = "pending"
    elif has_accesses:
        recorded = "known"
        if n_ops is not None:
            sizes = SpanBytes(trace)
            open_ops = sizes.open_of(ops)
            is_open, known = bool(open_ops.any()), int(sizes.of(ops)[0].sum())
            if not known and open_ops.all():
                known = None
    bars = token_bars(trace)
    ended = bars.quality != Quality.UNFINISHED
    inside = (bars.start >= time.start) & (bars.end <= time.end) & ended
    touched = (bars.start < time.end) & ((bars.end > time.start) | ~ended)
    tokens = bars.n_tokens[inside]
    return RulerFacts(
        time=time,
        n_ops=n_ops,
        n_cut_ops=n_cut,
        bytes=known,
        is_least=is_open
        or n_cut > 0
        or bool(hidden_ops(trace) or hidden_graphs(trace)),
        recorded=recorded,
        is_estimated=bool(
            (quality_of(trace.spans.flags[ops]) == Quality.ESTIMATED).any()
        ),
        noun=bars.noun,
        n_bars=int(inside.sum()),
        n_cut_bars=int((touched & ~inside).sum()),
        n_tokens=None if (tokens < 0).any() else int(tokens.sum()),
        hides_tokens=bool(hidden_tokens(trace)),
    )


def _whole_ops(trace: Trace, time: TimeRange) -> tuple[int | None, int, np.ndarray]:
    """Return how many ops lie in `time`, how many in part, and the whole ones.

    These by the span that they are counted with, ascending.
    """
    owner = op_owners(trace)
    if owner is None:
        return None, 0, np.zeros(0, np.int64)
    rows = np.flatnonzero(owner >= 0)
    start, end, of = trace.spans.start[rows], _latest_ends(trace, rows), owner[rows]
    inside = (start >= time.start) & (end <= time.end)
    reaches = (start < time.end) & (end > time.start)
    touched, leaves = np.zeros((2, len(owner)), np.bool_)
    touched[of[inside | reaches]] = True
    leaves[of[~inside]] = True
    ops = np.flatnonzero(touched & ~leaves)
    return len(ops), int(np.count_nonzero(touched & leaves)), ops


def _latest_ends(trace: Trace, rows: I64) -> I64:
    """Return when spans have ended at the latest, ticks.

    An op without an end has ended when its thread begins the next one. That is known of
    lanes with derived ends, where spans do not nest; elsewhere it may never end.
    """
    spans = trace.spans
    end = spans.end[rows].astype(np.int64)
    is_open = quality_of(spans.flags[rows]) == Quality.UNFINISHED
    if not is_open.any():
        return end
    end[is_open] = _NEVER
    is_derived = (spans.flags[rows] & int(SpanFlag.INFERRED_END)) != 0
    lane = spans.lane[rows]
    for number in np.unique(lane[is_open]).tolist():
        mine = lane == number
        if not (mine & is_derived).any():
            continue
        starts = np.sort(spans.start[rows[mine]])
        open_rows = np.flatnonzero(mine & is_open)
        after = np.searchsorted(starts, spans.start[rows[open_rows]], "right")
        has_next = after < len(starts)
        end[open_rows[has_next]] = starts[after[has_next]]
    return end
