"""The ops of one pass: what is computed for a token, ubatch or graph computation."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.derived_cache import DerivedCache
from ggscope.analysis.graph.op_links import NoPass
from ggscope.analysis.reads.shared import op_owners
from ggscope.analysis.sessions.runs import Runs, runs_of
from ggscope.analysis.summary.bars import TokenBars, token_bars
from ggscope.analysis.workers import chunks
from ggscope.model.tables import I64, looked_up
from ggscope.model.tokens import has_ubatches
from ggscope.model.trace import Trace

MAX_OPS = 1 << 16
"""Ops of a longer pass are not linked."""


@dataclass(frozen=True, slots=True, eq=False)
class PassOps:
    """The ops of one pass, in the order of time.

    Attributes
    ----------
    key : distinguishes the passes of a trace.
    ops : int64[n], the span that each op is counted with, by (start, id).
    spans : int64[m], all spans of these ops, one per thread, by (start, id).
    op : int64[m], position in `ops` of each of `spans`.
    """

    key: tuple[str, int]
    ops: I64
    spans: I64
    op: I64

    def position(self, span: int) -> int:
        """Return the position in `ops` of the op of a span; -1 = not of the pass."""
        at = np.flatnonzero(self.spans == span)
        return int(self.op[at[0]]) if len(at) else -1

    def span_on(self, trace: Trace, position: int, lane: int) -> int:
        """Return the span of an op on a lane, else the one it is counted with."""
        mine = self.spans[self.op == position]
        on_lane = mine[trace.spans.lane[mine] == lane]
        return int(on_lane[0]) if len(on_lane) else int(self.ops[position])


_last: DerivedCache[Trace, PassOps] = DerivedCache("ops of the last pass")
_runs: DerivedCache[Trace, Runs] = DerivedCache("runs of passes")


def pass_ops(trace: Trace, span: int) -> PassOps | NoPass:
    """Return the ops of the pass that a span is of, or why they are not known.

    Parameters
    ----------
    span : an op, or the span of a token, ubatch or graph.

    Notes
    -----
    O(spans); that of the last pass is cached.
    """
    ops = _key(trace, span)
    if isinstance(ops, NoPass):
        return ops
    last = _last.get(trace)
    if last is not None and last.key == ops:
        return last
    made = _made(trace, ops)
    if isinstance(made, PassOps):
        _last[trace] = made
    return made


def _claims_pass(trace: Trace) -> bool:
    """Return whether the token numbers of ops say which pass they are of."""
    spans = trace.spans
    return spans.token is not None and (spans.wait is not None or has_ubatches(trace))


def _key(trace: Trace, span: int) -> tuple[str, int] | NoPass:
    spans = trace.spans
    if not 0 <= span < len(spans):
        return NoPass.NOT_AN_OP
    bars = token_bars(trace)
    is_bar = bool((bars.span == span).any())
    if int(spans.op[span]) < 0 and not is_bar:
        return NoPass.NOT_AN_OP
    if _claims_pass(trace) and spans.token is not None:
        token = int(spans.token[span])
        return ("token", token) if token >= 0 else NoPass.OUTSIDE
    if len(bars):
        row = _bar_at(bars, int(spans.start[span]))
        if row < 0:
            return NoPass.OUTSIDE
        before = bars.end[:row].max(initial=np.iinfo(np.int64).min)
        after = bars.start[row + 1] if row + 1 < len(bars) else bars.end[row]
        is_alone = before <= bars.start[row] and after >= bars.end[row]
        return ("bar", row) if is_alone else NoPass.OVERLAP
    runs = _runs_of(trace)
    place = runs.positions(np.array([span], np.int64), spans.lane[span : span + 1])
    return ("run", int(runs.of(place)[0])) if place[0] >= 0 else NoPass.OUTSIDE


def _bar_at(bars: TokenBars, tick: int) -> int:
    return int(np.searchsorted(bars.start, tick, "right")) - 1


def _runs_of(trace: Trace) -> Runs:
    runs = _runs.get(trace)
    if runs is None:
        runs = _runs[trace] = runs_of(trace)
    return runs


def _made(trace: Trace, key: tuple[str, int]) -> PassOps | NoPass:
    spans, owner = trace.spans, op_owners(trace)
    if owner is None:
        return NoPass.NOT_SHARED_OUT
    ids = _members(trace, key)
    ids = ids[(spans.op[ids] >= 0) & (owner[ids] >= 0)]
    ids = ids[np.argsort(spans.start[ids], kind="stable")]
    is_owner = owner[ids] == ids
    if int(is_owner.sum()) > MAX_OPS:
        return NoPass.TOO_LONG
    ops = ids[is_owner]
    place: npt.NDArray[np.intp] = np.argsort(ops, kind="stable")
    # The owner may have begun in the pass before; then so did the op.
    op = looked_up(ops[place], place, owner[ids])
    return PassOps(key, ops, ids[op >= 0], op[op >= 0])


def _members(trace: Trace, key: tuple[str, int]) -> I64:
    """Return the spans of a pass, ascending."""
    spans, (kind, number) = trace.spans, key
    if kind == "run":
        ids = _runs_of(trace).of_run(number)
        return np.sort(np.asarray(ids, np.int64))
    if kind == "token" and spans.token is not None:
        column, low, high = spans.token, number, number + 1
    else:
        bars = token_bars(trace)
        column, low = spans.start, int(bars.start[number])
        is_last = number + 1 >= len(bars)
        high = (1 << 62) if is_last else int(bars.start[number + 1])
    parts = [
        np.flatnonzero((column[rows] >= low) & (column[rows] < high)) + rows.start
        for rows in chunks(len(spans))
    ]
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)
