"""Times of many clocks as times of one: by what each showed at the same moments."""

from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ggscope.model.tables import I64, Array, Bools
from ggscope.readers.perfetto.packets import Packets

_REALTIME, _BOOTTIME = 1, 6
_DEFAULT = 0
NAMES = {
    1: "REALTIME", 2: "REALTIME_COARSE", 3: "MONOTONIC", 4: "MONOTONIC_COARSE",
    5: "MONOTONIC_RAW", 6: "BOOTTIME", 9: "TSC", 10: "PERF",
}  # fmt: skip
"""What clocks are called that every trace has under the same number."""
_FARTHEST = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Converted:
    """Times of the clock of the trace.

    Attributes
    ----------
    time : int64[n]; where `is_known` is False it means nothing.
    is_known : bool[n], whether the clock can be converted.
    """

    time: I64
    is_known: Bools


class Clocks:
    """Converts times of all clocks of a file to the clock of the trace.

    That is the one that a snapshot names, else BOOTTIME where a snapshot has it. Where
    no snapshot relates clocks to it, and all events are of one clock, it is that one.

    Attributes
    ----------
    title : name of the clock of the trace, "" where it is not known.
    epoch : nanoseconds from 1970 to its zero; None = not known.
    """

    def __init__(self, packets: Packets) -> None:
        self._numbers = packets.clocks
        snapshots = packets.snapshots
        self._snapshot = snapshots["snapshot"].astype(np.int64)
        self._clock = snapshots["clock"].astype(np.int64)
        self._time = snapshots["time"].astype(np.int64)
        self._paths: dict[int, list[int] | None] = {}
        used = np.bincount(packets.clock, minlength=len(self._numbers))
        used += np.bincount(packets.value_clock, minlength=len(self._numbers))
        self._target = self._chosen(packets.primary_clock, used)
        number = int(self._numbers[self._target, 1]) if self._target >= 0 else 0
        self.title = NAMES.get(number, "")
        self.epoch = self._epoch()

    def _chosen(self, primary: int, used: I64) -> int:
        """Return the clock of the trace; -1 where every event has its default."""
        of_all = {
            int(number): i
            for i, (sequence, number) in enumerate(self._numbers.tolist())
            if sequence == 0
        }
        seen = set(self._clock.tolist())
        if primary in of_all:
            return of_all[primary]
        if of_all.get(_BOOTTIME, -1) in seen:
            return of_all[_BOOTTIME]
        clocks = np.flatnonzero(used)
        if len(clocks) == 0 or (_DEFAULT in of_all and used[of_all[_DEFAULT]] > 0):
            return of_all.get(_BOOTTIME, of_all.get(_DEFAULT, -1))
        return int(clocks[np.argmax(used[clocks])])

    def _epoch(self) -> int | None:
        if self._target < 0:
            return None
        if int(self._numbers[self._target, 1]) == _REALTIME:
            return 0
        pair = self._pairs(self._target, _REALTIME)
        if pair is None or not len(pair[0]):
            return None
        return int(pair[1][0] - pair[0][0])

    def _pairs(self, source: int, number: int) -> tuple[I64, I64] | None:
        """Return what a clock and one of all sequences showed together."""
        rows = np.flatnonzero(
            (self._numbers[:, 0] == 0) & (self._numbers[:, 1] == number)
        )
        return self._between(source, int(rows[0])) if len(rows) else None

    def _between(self, source: int, target: int) -> tuple[I64, I64]:
        """Return what two clocks showed in the same snapshots, by the first."""
        of_source = self._clock == source
        of_target = self._clock == target
        _, at, other = np.intersect1d(
            self._snapshot[of_source], self._snapshot[of_target], return_indices=True
        )
        shown, target_times = self._time[of_source][at], self._time[of_target][other]
        order = np.argsort(shown, kind="stable")
        return shown[order], target_times[order]

    def _path(self, clock: int) -> list[int] | None:
        """Return the clocks from one to that of the trace; None where none leads."""
        if clock not in self._paths:
            self._paths[clock] = self._searched(clock)
        return self._paths[clock]

    def _searched(self, clock: int) -> list[int] | None:
        if clock == self._target:
            return [clock]
        before: dict[int, int] = {clock: -1}
        waiting = deque([clock])
        while waiting:
            one = waiting.popleft()
            of_one = self._snapshot[self._clock == one]
            beside = np.unique(self._clock[np.isin(self._snapshot, of_one)])
            for other in beside.tolist():
                if other in before:
                    continue
                before[other] = one
                if other == self._target:
                    path = [other]
                    while before[path[-1]] >= 0:
                        path.append(before[path[-1]])
                    return path[::-1]
                waiting.append(other)
        return None

    def converted(self, time: Array, clock: Array) -> Converted:
        """Return times as those of the clock of the trace."""
        result = time.astype(np.int64)
        is_known = np.ones(len(result), np.bool_)
        different = np.flatnonzero(np.bincount(clock, minlength=1)).tolist()
        for one in different:
            if one == self._target or self._is_default(one):
                continue
            rows = np.flatnonzero(clock == one)
            path = self._path(one)
            if path is None:
                is_known[rows] = False
                continue
            values = result[rows]
            for source, target in pairwise(path):
                shown, target_times = self._between(source, target)
                place = np.searchsorted(shown, values, side="right") - 1
                place = np.maximum(place, 0)
                values = values + (target_times - shown)[place]
            result[rows] = values
            is_known[rows] &= (values >= 0) & (values < _FARTHEST)
        return Converted(result, is_known)

    def _is_default(self, clock: int) -> bool:
        """Whether times of a clock are those of the trace, for want of others."""
        sequence, number = self._numbers[clock].tolist()
        return bool(sequence == 0 and number == _DEFAULT)

    def name(self, clock: int) -> str:
        """Return what a clock is called."""
        sequence, number = self._numbers[clock].tolist()
        title = NAMES.get(number, f"clock {number}")
        return f"{title} of sequence {sequence - 1}" if sequence else title
