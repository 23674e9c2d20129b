"""When a snapshot of what has been read so far is worth its cost, and how far it goes.

A snapshot costs about a tenth of the time that reading its events took. They come
whenever three times as much has been read as at the last one, so that all of them
together cost a part of what the last one does.
"""

import re
import time
from collections.abc import Callable

import numpy as np

from ggscope.model.tables import I64
from ggscope.readers.source import Source

FIRST_SECONDS = 0.1
_GROWTH = 3
_MOST = 4
_TAIL_BYTES = 64 * 1024
_CYCLE = re.compile(rb'"(?:start_cycle|end_cycle|cycle)"\s*:\s*(\d{1,18})(?=[\s,}])')
_TOTAL = re.compile(rb'"cycles_total"\s*:\s*(\d{1,18})(?=[\s,}])')


class Stages:
    """Tells when to publish.

    Parameters
    ----------
    is_wanted : whether anybody listens.
    first_seconds : reading time before the first snapshot; what takes hardly longer
        publishes nothing early.
    clock : seconds.
    """

    def __init__(
        self,
        is_wanted: bool,
        first_seconds: float = FIRST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_wanted = is_wanted
        self._first_seconds = first_seconds
        self._clock = clock
        self._start = clock()
        self._last_done = 0
        self._n = 0

    def is_due(self, done: int, total: int) -> bool:
        """Tell whether to publish now, with `done` of `total` bytes read."""
        if not self._is_wanted or self._n >= _MOST or not 0 < done < total:
            return False
        if done < _GROWTH * self._last_done:
            return False
        elapsed = self._clock() - self._start
        left = elapsed * (total - done) / done
        if min(elapsed, left) < self._first_seconds:
            return False
        self._last_done = done
        self._n += 1
        return True

    @property
    def is_worth_it(self) -> bool:
        """Whether reading took so long that the last parts are announced one by one."""
        elapsed = self._clock() - self._start
        return self._is_wanted and elapsed >= 1.5 * self._first_seconds


def read_until(start: I64) -> int:
    """Return up to which time all spans are likely to be known.

    Parameters
    ----------
    start : int64[n], n >= 1, of the spans so far in the order of the file.

    Notes
    -----
    The format promises no order, so nothing is certain before the end of the file.
    Simulators write events as they finish: an event may lie some way before an
    earlier one. The furthest such step back so far is taken as what may still come.
    Files whose events are grouped (by engine, say) step back to the beginning with
    the second group, and from then on promise nothing.
    """
    latest = int(start[0])
    setback = 0
    step = 1 << 16
    for first in range(0, len(start), step):
        part = np.maximum.accumulate(start[first : first + step])
        np.maximum(part, latest, out=part)
        setback = max(setback, int((part - start[first : first + step]).max()))
        latest = int(part[-1])
    return latest - setback


def last_cycle(source: Source) -> int | None:
    """Return the last cycle that the end of the file names; None if it names none."""
    begin = max(source.size - _TAIL_BYTES, 0)
    data = source.array(begin, source.size - begin).tobytes()
    found = _CYCLE.findall(data) or _TOTAL.findall(data)
    return max(map(int, found), default=None)
