"""When the requests of a log ran: by the clock of its lines, else by their order."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64
from ggscope.readers.logs.lines import Clock, LogLines
from ggscope.readers.logs.requests import Figures, Owners

_LONGEST_NS = 1 << 60
_QUARTER_NS = 15 * 60 * 1_000_000_000
"""Zones differ from UTC by whole quarters of an hour."""


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Ticks of lines and requests, in ns from the first of them.

    Attributes
    ----------
    line : int64[n], of each line; of one without a clock that of the line before.
    launch, end : int64[m], when a slot took a request and when it was done; -1 where
        that is not known.
    until : the end of the log.
    has_clock : whether lines have times; else `line` and `end` follow from the order of
        the lines and the durations in them, and nobody knows how long the program did
        nothing.
    epoch : nanoseconds from 1970, UTC, to tick 0; None where lines do not tell.
    n_gaps : starts of the program behind the first, of which no clock tells when.
    """

    line: I64
    launch: I64
    end: I64
    until: int
    has_clock: bool
    epoch: int | None
    n_gaps: int


def times_of(lines: LogLines, owned: Owners, figures: Figures) -> Times:
    """Return when lines were written and requests ran."""
    has_clock = bool((lines.clock != Clock.NONE).any())
    if has_clock:
        return _by_clock(lines, owned, figures)
    return _by_order(lines, owned, figures)


def _by_clock(lines: LogLines, owned: Owners, figures: Figures) -> Times:
    clock = _chosen_clock(lines)
    time = lines.time.copy()
    has_time = lines.clock == clock
    if clock == Clock.WALL:
        has_time |= _with_zone(lines, time)
    n_gaps = 0
    if clock == Clock.SINCE_START:
        time, n_gaps = _one_after_another(time, has_time, owned.run)
    rows = np.arange(len(lines))
    known = np.maximum.accumulate(np.where(has_time, rows, -1))
    first = int(np.flatnonzero(has_time)[0])
    line = time[np.where(known < 0, first, known)]
    # Clocks of days are set, and threads write in no strict order.
    begin = _at(line, figures.timing_row)
    begin = begin - np.maximum(figures.prompt_ns, 0)
    begin = (begin - np.maximum(figures.generated_ns, 0))[figures.timing_row >= 0]
    # A log may begin in the middle of a request.
    origin = min(int(line.min()), int(begin.min(initial=1 << 62)))
    line = line - origin
    return Times(
        line=line,
        launch=_at(line, figures.launch_row),
        end=_at(line, figures.timing_row),
        until=int(line.max()),
        has_clock=True,
        epoch=origin if clock == Clock.WALL else None,
        n_gaps=n_gaps,
    )


def _chosen_clock(lines: LogLines) -> Clock:
    """Return the clock of most lines; the finer one where they are as many."""
    counts = np.bincount(lines.clock, minlength=len(Clock))[1:]
    return Clock(int(np.argmax(counts)) + 1)


def _with_zone(lines: LogLines, time: I64) -> npt.NDArray[np.bool_]:
    """Give times of day without a zone that of the lines around; return which."""
    local = np.flatnonzero(lines.clock == Clock.LOCAL)
    wall = np.flatnonzero(lines.clock == Clock.WALL)
    found = np.zeros(len(time), np.bool_)
    if not len(local) or not len(wall):
        return found
    near = np.clip(np.searchsorted(wall, local), 0, len(wall) - 1)
    quarters = np.rint((time[wall[near]] - time[local]) / _QUARTER_NS)
    time[local] += int(np.median(quarters)) * _QUARTER_NS
    found[local] = True
    return found


def _one_after_another(
    time: I64, has_time: npt.NDArray[np.bool_], run: I64
) -> tuple[I64, int]:
    """Return times of which each start of the program follows on the one before."""
    rows = np.flatnonzero(has_time)
    runs, place = np.unique(run[rows], return_inverse=True)
    last = np.zeros(len(runs), np.int64)
    np.maximum.at(last, place, time[rows])
    before = np.append(0, np.cumsum(last))[:-1]
    moved = time.copy()
    moved[rows] += before[place]
    return moved, len(runs) - 1


def _at(values: I64, rows: I64) -> I64:
    """Return the values of rows, -1 for row -1."""
    return np.where(rows >= 0, values[np.maximum(rows, 0)], -1)


def _by_order(lines: LogLines, owned: Owners, figures: Figures) -> Times:
    """Lay requests out as their lines follow one another.

    A slot takes a request at the moment that the last one before was done; a request is
    done its own duration after that, and not before those that were done before.
    """
    m = len(owned)
    duration = np.maximum(figures.prompt_ns, 0) + np.maximum(figures.generated_ns, 0)
    end = np.full(m, -1, np.int64)
    starts = np.where(figures.launch_row >= 0, figures.launch_row, owned.first)
    ends = figures.timing_row
    timed = np.flatnonzero(ends >= 0)
    events = np.concatenate([starts, ends[timed]])
    which = np.concatenate([np.arange(m), timed])
    is_end = np.arange(len(events)) >= m
    order = np.lexsort((is_end, events))
    now = 0
    moment = np.zeros(len(order), np.int64)
    begun = [0] * m
    lasting = np.minimum(duration, _LONGEST_NS).tolist()
    for k, (request, ends_here) in enumerate(
        zip(which[order].tolist(), is_end[order].tolist(), strict=True)
    ):
        if ends_here:
            now = max(now, begun[request] + lasting[request])
            end[request] = now
        else:
            begun[request] = now
        moment[k] = now
    rows = events[order]
    at = np.searchsorted(rows, np.arange(len(lines)), side="right") - 1
    line = (
        np.where(at >= 0, moment[np.maximum(at, 0)], 0)
        if m
        else np.zeros(len(lines), np.int64)
    )
    return Times(line, np.array(begun, np.int64), end, now, False, None, 0)
