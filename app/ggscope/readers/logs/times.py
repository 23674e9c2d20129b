"""When the lines of a log were written: by their clock, else by their order."""

from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I64, Bools, looked_up
from ggscope.readers.logs.lines import Clock, LogLines
from ggscope.readers.logs.requests import Figures, Owners

_LONGEST_NS = 1 << 60
_QUARTER_NS = 15 * 60 * 1_000_000_000
"""Zones differ from UTC by whole quarters of an hour."""


@dataclass(frozen=True, slots=True)
class LogStart:
    """What the times of a log count from; all in ns.

    Attributes
    ----------
    clock : by which lines are placed.
    first : the first time of all by it.
    zone : what times of day without a zone are behind UTC; None = not known.
    origin : tick 0; None = the first event of the first lines.
    """

    clock: Clock
    first: int
    zone: int | None = None
    origin: int | None = None


class ClocksSeen:
    """Counts which clocks lines have, as they come."""

    def __init__(self) -> None:
        self._counts = np.zeros(len(Clock), np.int64)
        self._first: dict[Clock, int] = {}
        self._zone: int | None = None

    def add(self, lines: LogLines) -> None:
        """Count the clocks of the next lines."""
        counts = np.bincount(lines.clock, minlength=len(Clock))
        for clock in set(Clock) - {Clock.NONE} - self._first.keys():
            if counts[clock]:
                first = int(np.argmax(lines.clock == clock))
                self._first[clock] = int(lines.time[first])
        self._counts += counts
        if self._zone is None and counts[Clock.WALL] and counts[Clock.LOCAL]:
            at = np.flatnonzero(lines.clock == Clock.WALL)
            local = np.flatnonzero(lines.clock == Clock.LOCAL)
            self._zone = _zone(lines.time[at], at, lines.time[local], local)

    def start(self) -> LogStart | None:
        """Return the clock of most lines; the finer one where they are as many."""
        if not self._first:
            return None
        clock = Clock(int(np.argmax(self._counts[1:])) + 1)
        return LogStart(clock, self._first[clock], self._zone)


def _zone(wall: I64, at: I64, time: I64, local: I64) -> int:
    """Return what times without a zone are behind UTC, by the next ones that have one.

    Parameters
    ----------
    wall, at : int64[n], times with a zone and their lines, ascending.
    time, local : int64[m], times without and their lines.
    """
    near = np.clip(np.searchsorted(at, local), 0, len(at) - 1)
    quarters = np.rint((wall[near] - time) / _QUARTER_NS)
    return int(np.median(quarters)) * _QUARTER_NS


class ClockMoments:
    """Says when lines were written by one of their clocks, as they come.

    A line without a time has that of the line before it.

    Attributes
    ----------
    clock : which it is.
    first : the first time of all.
    n_gaps : starts of the program behind the first, whose time no clock states.
    """

    def __init__(self, start: LogStart) -> None:
        self.clock, self.first = start.clock, start.first
        self.n_gaps = 0
        self._last = start.first
        self._zone = start.zone
        self._wall: int | None = None
        self._run: int | None = None
        self._run_begin = self._run_end = 0

    def of(self, lines: LogLines, run: I64) -> I64:
        """Return the moments of the next lines, int64[n] in ns."""
        time = lines.time.copy()
        has_time = lines.clock == self.clock
        if self.clock is Clock.WALL:
            has_time |= self._with_zone(lines, time)
        if self.clock is Clock.SINCE_START:
            time = self._one_after_another(time, has_time, run)
        rows = np.arange(1, len(lines) + 1)
        known = (
            np.maximum.accumulate(np.where(has_time, rows, 0)) if len(rows) else rows
        )
        moments: I64 = np.append(self._last, time)[known]
        if len(moments):
            self._last = int(moments[-1])
        return moments

    def _with_zone(self, lines: LogLines, time: I64) -> Bools:
        """Give times of day without a zone that of the lines around; return which."""
        local = np.flatnonzero(lines.clock == Clock.LOCAL)
        wall = time[lines.clock == Clock.WALL]
        at = np.flatnonzero(lines.clock == Clock.WALL)
        if self._wall is not None:
            wall, at = np.append(self._wall, wall), np.append(-1, at)
        if len(wall):
            self._wall = int(wall[-1])
        if self._zone is None and len(local) and len(wall):
            self._zone = _zone(wall, at, time[local], local)
        has_zone = np.zeros(len(time), np.bool_)
        if self._zone is not None:
            time[local] += self._zone
            has_zone[local] = True
        return has_zone

    def _one_after_another(self, time: I64, has_time: Bools, run: I64) -> I64:
        """Return times of which each start of the program follows on the one before."""
        rows = np.flatnonzero(has_time)
        if not len(rows):
            return time
        timed_run = run[rows]  # ascending
        is_next = np.diff(timed_run, prepend=timed_run[0]) != 0
        runs, place = (
            timed_run[np.append(0, np.flatnonzero(is_next))],
            np.cumsum(is_next),
        )
        last = np.zeros(len(runs), np.int64)
        np.maximum.at(last, place, time[rows])
        begin = self._run_begin
        if self._run == int(runs[0]):
            last[0] = max(int(last[0]), self._run_end)
        elif self._run is not None:
            begin += self._run_end
            self.n_gaps += 1
        begins = begin + np.append(0, np.cumsum(last))[:-1]
        self._run, self._run_begin = int(runs[-1]), int(begins[-1])
        self._run_end = int(last[-1])
        self.n_gaps += len(runs) - 1
        moved = time.copy()
        moved[rows] += begins[place]
        return moved


class OrderMoments:
    """Lays requests out as their lines follow one another: for logs without a clock.

    A slot takes a request at the moment that the last one before was done; a request is
    done its own duration after that, and not before those that were done before.
    """

    def __init__(self) -> None:
        self.now = 0
        self._lines = self._begun = np.empty(0, np.int64)

    def of(
        self, line: I64, moment: I64, n_before: int, owned: Owners, stated: Figures
    ) -> I64:
        """Return the moments of lines; those before `n_before` are known.

        Parameters
        ----------
        line : int64[n], their numbers.
        moment : int64[n], of which the first `n_before` count.
        """
        m = len(owned)
        duration = np.maximum(stated.prompt_ns, 0) + np.maximum(stated.generated_ns, 0)
        starts = np.where(stated.launch_row >= 0, stated.launch_row, owned.first)
        timed = np.flatnonzero(stated.timing_row >= 0)
        rows = np.concatenate([starts, stated.timing_row[timed]])
        which = np.concatenate([np.arange(m), timed])
        is_end = np.arange(len(rows)) >= m
        order = np.lexsort((is_end, rows))
        order = order[rows[order] >= n_before]
        begun = self._begun_before(line[starts]).tolist()
        lasting = np.minimum(duration, _LONGEST_NS).tolist()
        now, moments = self.now, np.zeros(len(order), np.int64)
        for k, (request, ends_here) in enumerate(
            zip(which[order].tolist(), is_end[order].tolist(), strict=True)
        ):
            if ends_here:
                now = max(now, begun[request] + lasting[request])
            else:
                begun[request] = now
            moments[k] = now
        at = np.searchsorted(rows[order], np.arange(n_before, len(moment)), "right")
        result = moment.copy()
        result[n_before:] = np.append(self.now, moments)[at]
        by_line = np.argsort(line[starts])
        self._lines = line[starts][by_line]
        self._begun = np.array(begun, np.int64)[by_line]
        self.now = now
        return result

    def _begun_before(self, line: I64) -> I64:
        """Return when requests began that are known by the lines of their begin."""
        return looked_up(self._lines, self._begun, line, 0)
