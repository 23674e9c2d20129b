"""When to publish early snapshots of a file that is being read."""

import math
import time
from collections.abc import Callable
from typing import Self

_BLOCKS_S = 0.5


class SnapshotScheduler:
    """Decides when to publish a snapshot while a file is being read.

    Parameters
    ----------
    first_s : seconds of reading before the first snapshot, and left after each.
    is_requested : whether anybody receives snapshots.
    short_s : no snapshots of a file that is read in less time.
    most : maximum number of snapshots.
    growth : minimum ratio of the records in a snapshot to those in the last one.
    largest_share : maximum share of the file in a snapshot.
    cost_share : maximum share of the reading time for all snapshots but the first.
    clock : seconds from anywhere.
    """

    def __init__(
        self,
        first_s: float,
        *,
        is_requested: bool = True,
        short_s: float = 0.0,
        most: float = math.inf,
        growth: float = 2.0,
        largest_share: float = 1.0,
        cost_share: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_requested = is_requested
        self._first_s, self._short_s = first_s, short_s
        self._most, self._growth = most, growth
        self._largest_share, self._cost_share = largest_share, cost_share
        self._clock = clock
        self._began = clock()
        self._spent = self._price = 0.0
        self._last = self._count = 0

    @classmethod
    def of_blocks(cls, *, is_requested: bool = True) -> Self:
        """Return that of readers that publish their first block at once.

        At most four more follow, from half a second on, each of four times as much.
        """
        return cls(
            _BLOCKS_S,
            is_requested=is_requested,
            short_s=3 * _BLOCKS_S,
            most=4,
            growth=4,
            cost_share=0.2,
        )

    def is_due(self, done: int, total: int) -> bool:
        """Return whether to publish, with `done` of `total` records or bytes read."""
        if not self._is_requested or self._count >= self._most or not 0 < done < total:
            return False
        if done < self._growth * self._last or done > self._largest_share * total:
            return False
        reading = self._clock() - self._began - self._spent
        left = reading * (total - done) / done
        if min(reading, left) < self._first_s or reading + left < self._short_s:
            return False
        cost = self._spent + self._price * done
        return not self._count or cost <= self._cost_share * (reading + left)

    def timed(self, publish: Callable[[], None], done: int) -> None:
        """Publish a snapshot of `done` records or bytes, and measure its cost."""
        began = self._clock()
        publish()
        seconds = self._clock() - began
        self._spent += seconds
        self._price = seconds / done
        self._last = done
        self._count += 1

    @property
    def is_slow(self) -> bool:
        """Whether reading is slow enough to publish the last stages one by one."""
        elapsed = self._clock() - self._began
        return self._is_requested and (self._count > 0 or elapsed >= self._short_s)
