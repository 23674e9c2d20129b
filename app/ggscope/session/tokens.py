"""Where each token lies in time, for stepping from one to the next."""

from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I64, Table
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange


@dataclass(frozen=True, slots=True, eq=False)
class TokenTimes(Table):
    """Tokens (or passes) in order of their start.

    Attributes
    ----------
    start, end : int64[n], ticks.
    span : int64[n], id of the token's own span; -1 where it has none.
    number : int64[n], as the file numbers them, perhaps anew in each phase; -1 where
        it does not.
    """

    start: I64
    end: I64
    span: I64
    number: I64

    def range_of(self, position: int) -> TimeRange:
        """Return the time of the token at `position`."""
        return TimeRange(int(self.start[position]), int(self.end[position]))

    def step(self, tick: int, by: int) -> int | None:
        """Return the position of the token `by` (+1/-1) away from `tick`.

        A tick before the first token has that one as its next.
        """
        here = int(np.searchsorted(self.start, tick, "right")) - 1
        position = here + by
        return position if 0 <= position < len(self) else None


NO_TOKENS = TokenTimes(*(np.zeros(0, np.int64),) * 4)


def token_times(trace: Trace) -> TokenTimes:
    """Return the tokens of a trace, from its token lanes or else its token column.

    Notes
    -----
    O(n) in the spans; call it once per trace and only when somebody steps.
    """
    spans = trace.spans
    lanes = np.flatnonzero(trace.lanes.is_token)
    if len(lanes):
        ids = np.flatnonzero(np.isin(spans.lane, lanes)).astype(np.int64)
        if len(ids):
            ids = ids[np.argsort(spans.start[ids], kind="stable")]
            number = np.full(len(ids), -1, np.int64)
            if spans.token is not None:
                number = spans.token[ids].astype(np.int64)
            return TokenTimes(spans.start[ids], spans.end[ids], ids, number)
    return _from_column(trace)


def _from_column(trace: Trace) -> TokenTimes:
    spans = trace.spans
    if spans.token is None or not len(spans):
        return NO_TOKENS
    known = np.flatnonzero(spans.token >= 0)
    if not len(known):
        return NO_TOKENS
    names, which = np.unique(spans.token[known], return_inverse=True)
    start = np.full(len(names), np.iinfo(np.int64).max, np.int64)
    end = np.full(len(names), np.iinfo(np.int64).min, np.int64)
    np.minimum.at(start, which, spans.start[known])
    np.maximum.at(end, which, spans.end[known])
    order = np.argsort(start, kind="stable")
    alone = np.full(len(names), -1, np.int64)
    return TokenTimes(start[order], end[order], alone, names[order].astype(np.int64))
