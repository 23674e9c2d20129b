"""What is derived from one poll of a source to the next: rates, and when to poll."""

from collections import deque

from ggscope.live.metrics import Rates
from ggscope.live.options import OPTIONS
from ggscope.live.source import SourceStatus, State

LOOK_S = 0.25
"""Between looks for a source that is not there yet."""
QUICK_S, _MANY_S, _SLOW_S = 1 / 60, 1 / 30, 1 / 10
"""Between polls: while records come; where many come and the ring has room for them;
and after `_QUIET_S` without any."""
MANY_RECORDS, _FULL = 4096, 0.25
"""Records of a poll that are many, as each poll has a fixed cost; and the fill of a
ring up to which it may wait for more."""
_QUIET_S, _RATE_S = 0.5, 1.0


class RateWindow:
    """The status of the last second, of which rates are made."""

    def __init__(self) -> None:
        self._past: deque[tuple[float, int, int, tuple[int, bool]]] = deque()

    def clear(self) -> None:
        """Begin anew."""
        self._past.clear()

    def add(self, now: float, status: SourceStatus) -> Rates:
        """Return the rates of the second that ends with this status; `now` in s."""
        past = self._past
        if past and (past[-1][1] > status.records or past[-1][2] > status.tokens):
            past.clear()  # another program
        if past and status.backlog > past[0][1]:
            past.clear()  # what was there before has no rate
        lag_now = status.lag_ns, status.is_least_lag
        past.append((now, status.records, status.tokens, lag_now))
        while len(past) > 2 and now - past[1][0] >= _RATE_S:
            past.popleft()
        then, records, tokens, _ = past[0]
        took = now - then
        lag = max(lag for _, _, _, lag in past)
        if took < _RATE_S / 2:
            return Rates(-1.0, -1.0, *lag)
        tokens_per_s = -1.0
        if status.tokens >= 0:
            tokens_per_s = (status.tokens - max(tokens, 0)) / took
        return Rates((status.records - records) / took, tokens_per_s, *lag)


class PollPace:
    """Says how long to wait until the next poll.

    Parameters
    ----------
    received_at : when news came last, in s.
    """

    def __init__(self, received_at: float = 0.0) -> None:
        self.received_at = received_at
        self._n_known = 0

    def until_next(self, now: float, status: SourceStatus) -> float:
        """Return the seconds until the next poll, where no snapshot is due before."""
        if status.state is State.WAITING:
            return LOOK_S
        if OPTIONS.poll_s:  # a ring loses records where it is not emptied
            return min(OPTIONS.poll_s, _SLOW_S if status.lost >= 0 else 60.0)
        if now - self.received_at >= _QUIET_S:
            return _SLOW_S
        n_new = status.records - self._n_known
        self._n_known = status.records
        return _MANY_S if n_new >= MANY_RECORDS and status.fill < _FULL else QUICK_S
