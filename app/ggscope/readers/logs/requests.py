"""Requests of a log: which lines speak of the same one, and what they say together."""

import secrets
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I32, I64, U8, Bools, Table
from ggscope.native.library import library
from ggscope.readers.logs.lines import NO_NUMBER, Clock, Kind, LogLines

NEAR = 8
"""Timings follow the line that announces them within so many lines."""
_BACK_NS = 1_000_000_000
"""A clock that goes back by more is that of a program that started again."""
TIMINGS = (Kind.PROMPT_EVAL, Kind.EVAL, Kind.TOTAL)
_BEHIND_HEAD = (*TIMINGS, Kind.DRAFT, Kind.DRAFT_ROUNDS, Kind.DRAFT_TOKENS)
_OF_FIGURES = (
    *_BEHIND_HEAD, Kind.LAUNCH, Kind.HEAD, Kind.NEW_PROMPT, Kind.PAST, Kind.CACHED,
    Kind.REPROCESS, Kind.RELEASE,
)  # fmt: skip
_MAX_WITHOUT = 4096
"""Last lines with a task that no request has yet, which are held for it."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacedLines(Table):
    """Lines of a log, and whose they are.

    Attributes
    ----------
    run : int64[n], start of the program, from 0.
    slot, task : int64[n], of the line or of the one that announces it; negative where
        there is none.
    moment : int64[n], ns, when they were written, by the clock of the log.
    text : int32[n], number of the string of the line, -1 where it is not read.
    row : int32[n], row of its request in the table of all; -1 not known yet.
    """

    lines: LogLines
    run: I64
    slot: I64
    task: I64
    moment: I64
    text: I32
    row: I32


class Placing:
    """Says which start of the program, slot and task lines are of, as they come."""

    def __init__(self) -> None:
        self.run = 0
        """Starts of the program so far, less one."""
        self._has_worked = False
        self._last_time: int | None = None
        self._head = (-(1 << 62), NO_NUMBER, NO_NUMBER)
        self._last_timing = int(Kind.NONE)
        """Kind of the last head or timing."""

    def place(self, lines: LogLines) -> tuple[I64, I64, I64]:
        """Return run, slot and task of the next lines."""
        return (self._runs(lines), *self._slots(lines))

    def _runs(self, lines: LogLines) -> I64:
        """Return the start of the program that each line belongs to, from 0.

        A program begins anew where it says so, after something that it did, and where
        its own clock goes back.
        """
        starts = np.zeros(len(lines), np.bool_)
        begins = lines.rows(Kind.START, Kind.MODEL)
        work = lines.rows(Kind.LAUNCH, Kind.RELEASE, Kind.LISTENING, *TIMINGS)
        n_before = np.searchsorted(work, begins) + int(self._has_worked)
        is_new = n_before > np.append(0, n_before)[:-1]
        starts[begins[is_new]] = True
        n_last = int(n_before[-1]) if len(begins) else 0
        self._has_worked = len(work) + int(self._has_worked) > n_last
        own = np.flatnonzero(lines.clock == Clock.SINCE_START)
        if len(own):
            times = lines.time[own]
            first = int(times[0]) if self._last_time is None else self._last_time
            starts[own[np.diff(times, prepend=first) < -_BACK_NS]] = True
            self._last_time = int(times[-1])
        runs = self.run + np.cumsum(starts).astype(np.int64)
        self.run = int(runs[-1]) if len(runs) else self.run
        return runs

    def _slots(self, lines: LogLines) -> tuple[I64, I64]:
        """Return slot and task of each line; lines behind a head have its own."""
        slot, task = lines.slot.astype(np.int64), lines.task.copy()
        is_head = lines.kind == Kind.HEAD
        is_head |= lines.are(*TIMINGS) & (task >= 0)
        is_head |= self._repeats(lines, task)
        rows = np.arange(1, len(lines) + 1)
        # Row 0 is the head of the lines before.
        head = np.maximum.accumulate(np.where(is_head, rows, 0)) if len(rows) else rows
        line, head_slot, head_task = (
            np.append(before, column)
            for before, column in zip(self._head, (lines.line, slot, task), strict=True)
        )
        at = np.flatnonzero(lines.are(*_BEHIND_HEAD) & (task == NO_NUMBER))
        at = at[lines.line[at] - line[head[at]] <= NEAR]
        slot[at], task[at] = head_slot[head[at]], head_task[head[at]]
        if len(head):
            last = int(head[-1])
            self._head = int(line[last]), int(head_slot[last]), int(head_task[last])
        return slot, task

    def _repeats(self, lines: LogLines, task: I64) -> Bools:
        """Return which timings without a task begin a block behind a whole one.

        A task has each kind of timing once, in order: they are of another program, as
        ``llama_perf`` behind the timings of a server, and no longer of its task.
        """
        rows = lines.rows(Kind.HEAD, *TIMINGS)
        # HEAD is before all kinds of timings, so it repeats none.
        kind = lines.kind[rows].astype(np.int64)
        before = np.append(self._last_timing, kind)
        self._last_timing = int(before[-1])
        is_repeat = np.zeros(len(lines), np.bool_)
        is_repeat[rows] = (kind <= before[:-1]) & (kind > Kind.HEAD)
        is_repeat[rows] &= task[rows] == NO_NUMBER
        return is_repeat


@dataclass(frozen=True, slots=True, eq=False)
class Owners:
    """Whose each line is.

    Attributes
    ----------
    request : int64[n], of each line, -1 where it is of no request.
    run, slot, task, first, row : int64[m], of each request, in the order in which the
        log first lists them: start of the program, slot and task (-1 where the
        log names none), its first line, its row in the table (-1 not there yet).
    """

    request: I64
    run: I64
    slot: I64
    task: I64
    first: I64
    row: I64

    def __len__(self) -> int:
        return len(self.first)


def owners(placed: PlacedLines) -> Owners:
    """Return whose each line is.

    A task is one request from one start of the program to the next, but where it is
    launched or timed once more: then two programs wrote the log, or one started again
    and does not say so. Timings without a task, as command-line programs print them,
    are a request for each block.
    """
    lines, run, task = placed.lines, placed.run, placed.task
    n = len(lines)
    request = np.full(n, -1, np.int64)
    counts = lines.are(Kind.LAUNCH, Kind.HEAD, *TIMINGS)
    owned = np.flatnonzero(task >= 0)
    pairs, place = _distinct(run[owned], task[owned])
    begins_again = _begins_again(lines.kind[owned], place)
    if begins_again.any():
        pairs, place = _split(pairs, place, begins_again)
    is_request = np.zeros(len(pairs), np.bool_)
    is_request[place[counts[owned]]] = True
    number = np.where(is_request, np.cumsum(is_request) - 1, -1)
    request[owned] = number[place]
    n_tasks = int(is_request.sum())
    blocks = np.flatnonzero((task < 0) & lines.are(*TIMINGS))
    begins = _begins_block(lines.kind[blocks], lines.line[blocks], run[blocks])
    request[blocks] = n_tasks + np.cumsum(begins) - 1
    m = n_tasks + int(begins.sum())
    rows = np.flatnonzero(request >= 0)
    slots = _last_of(rows[placed.slot[rows] >= 0], request, placed.slot, m)
    tasks = np.full(m, -1, np.int64)
    tasks[:n_tasks] = pairs[is_request, 1]
    first = _least_of(rows, request, m, n)
    order = np.argsort(_least_of(rows[counts[rows]], request, m, n), kind="stable")
    renumbered = np.empty(m, np.int64)
    renumbered[order] = np.arange(m)
    known = _last_of(rows[placed.row[rows] >= 0], request, placed.row, m)
    request[rows] = renumbered[request[rows]]
    first = first[order]
    return Owners(request, run[first], slots[order], tasks[order], first, known[order])


def _begins_again(kind: U8, place: I64) -> Bools:
    """Return which lines begin a task of a number that was there before.

    Parameters
    ----------
    kind, place : of lines with a task, what they state and which task.
    """
    begins = np.zeros(len(kind), np.bool_)
    rows = np.flatnonzero(np.isin(kind, (Kind.LAUNCH, Kind.HEAD, *TIMINGS)))
    rows = rows[np.argsort(place[rows], kind="stable")]
    before, after = kind[rows[:-1]], kind[rows[1:]]
    launched = (after == Kind.LAUNCH) & (before != Kind.LAUNCH)
    timed = np.isin(before, (Kind.EVAL, Kind.TOTAL))
    timed &= np.isin(after, (Kind.HEAD, Kind.PROMPT_EVAL))
    is_same = place[rows[:-1]] == place[rows[1:]]
    begins[rows[1:][is_same & (launched | timed)]] = True
    return begins


def _split(pairs: I64, place: I64, begins: Bools) -> tuple[I64, I64]:
    """Return pairs and places as those of `_distinct`, a pair for each time it begins.

    Parameters
    ----------
    begins : which lines begin a pair anew; lines before the first are of that too.
    """
    order = np.argsort(place, kind="stable")
    is_first = np.append(True, np.diff(place[order]) != 0)
    number = np.cumsum(is_first | begins[order]) - 1
    split = np.empty(len(place), np.int64)
    split[order] = number
    of_pair = np.empty(int(number[-1]) + 1, np.int64)
    of_pair[number] = place[order]
    return pairs[of_pair], split


def _least_of(rows: I64, request: I64, m: int, none: int) -> I64:
    """Return the first of some rows, ascending, of each request."""
    first = np.full(m, none, np.int64)
    first[request[rows[::-1]]] = rows[::-1]
    return first


def _last_of(rows: I64, request: I64, values: npt.NDArray[np.integer], m: int) -> I64:
    """Return the last value of some rows of each request, -1 where it has none."""
    last = np.full(m, -1, np.int64)
    last[request[rows]] = values[rows]
    return last


def _distinct(run: I64, task: I64) -> tuple[I64, I64]:
    """Return distinct pairs, int64[m, 2], and which of them each row is.

    In the order in which they come. Tasks are numbered anew by each start of the
    program.
    """
    n = len(run)
    slots = np.zeros(1 << (2 * n).bit_length(), np.int32)
    first, place = np.empty(n, np.int64), np.empty(n, np.int64)
    run, task = np.ascontiguousarray(run), np.ascontiguousarray(task)
    m = library().ggscope_number_tasks(
        run, task, n, secrets.randbits(64), slots, len(slots), first, place
    )
    first = first[:m]
    return np.column_stack([run[first], task[first]]), place


def _begins_block(kind: U8, line: I64, run: I64) -> Bools:
    """Return which timings without a task begin a block: prompt, then generation.

    A block has one of each kind, in this order, in lines that are near.
    """
    begins = np.ones(len(kind), np.bool_)
    if len(kind) > 1:
        later = kind[1:] > kind[:-1]
        near = line[1:] - line[:-1] <= NEAR
        begins[1:] = ~(later & near & (run[1:] == run[:-1]))
    return begins


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """What lines say of each request; int64[m], -1 where they do not.

    Attributes
    ----------
    prompt_ns, generated_ns, total_ns : durations.
    whole, cached, reprocessed : tokens of the prompt, see `model.requests`.
    launch_row, timing_row, forced_row, release_row, last_row : rows of lines: when a
        slot took it, its timings, what forced the whole prompt, when the slot was free
        again, and its last line.
    """

    n_prompt: I64
    prompt_ns: I64
    n_generated: I64
    generated_ns: I64
    total_ns: I64
    whole: I64
    cached: I64
    reprocessed: I64
    n_drafted: I64
    n_accepted: I64
    launch_row: I64
    timing_row: I64
    forced_row: I64
    release_row: I64
    last_row: I64


def figures(lines: LogLines, owned: Owners) -> Figures:
    """Return what the lines say of each request."""
    every = np.arange(len(lines))

    def last(*kinds: Kind, value: int = 0) -> I64:
        """Return the row of the last line of a kind that has such a value."""
        rows = lines.rows(*kinds)
        rows = rows[(owned.request[rows] >= 0) & (lines.n_values[rows] >= value)]
        return _last_of(rows, owned.request, every, len(owned))

    def first(kind: Kind, value: int) -> I64:
        rows = lines.rows(kind)[::-1]
        rows = rows[(owned.request[rows] >= 0) & (lines.n_values[rows] >= value)]
        return _last_of(rows, owned.request, every, len(owned))

    def number(rows: I64, value: int, factor: float = 1.0) -> I64:
        # Other lines may have fewer values, and anything in their place.
        known = np.flatnonzero(rows >= 0)
        values = lines.value[rows[known], value] * factor
        numbers = np.full(len(rows), -1, np.int64)
        fits = np.abs(values) < 1 << 62
        numbers[known[fits]] = np.rint(values[fits])
        return numbers

    prompt, generated = last(Kind.PROMPT_EVAL, value=2), last(Kind.EVAL, value=2)
    total, launch = last(Kind.TOTAL, value=1), last(Kind.LAUNCH)
    n_prompt = number(prompt, 1)
    whole = number(last(Kind.NEW_PROMPT, value=3), 2)
    cached = number(first(Kind.CACHED, 1), 0)
    cached = np.where(
        (cached < 0) & (whole >= 0) & (n_prompt >= 0), whole - n_prompt, cached
    )
    whole = np.where(
        (whole < 0) & (cached >= 0) & (n_prompt >= 0), cached + n_prompt, whole
    )
    past = number(last(Kind.PAST, value=1), 0)
    forced = last(Kind.REPROCESS)
    reprocessed = np.where(
        past >= 0,
        np.where(cached >= 0, np.maximum(past - cached, 0), -1),
        np.where((cached >= 0) & (forced < 0), 0, -1),
    )
    draft = last(Kind.DRAFT, value=3)
    timing = np.maximum(generated, np.maximum(prompt, total))
    rows = np.flatnonzero(owned.request >= 0)
    last_row = owned.first.copy()
    last_row[owned.request[rows]] = rows
    return Figures(
        n_prompt=n_prompt,
        prompt_ns=number(prompt, 0, 1e6),
        n_generated=number(generated, 1),
        generated_ns=number(generated, 0, 1e6),
        total_ns=number(total, 0, 1e6),
        whole=whole,
        cached=np.maximum(cached, -1),
        reprocessed=reprocessed,
        n_drafted=number(draft, 2),
        n_accepted=number(draft, 1),
        launch_row=launch,
        timing_row=timing,
        forced_row=forced,
        release_row=last(Kind.RELEASE),
        last_row=last_row,
    )


def held_rows(placed: PlacedLines, owned: Owners, is_open: Bools, last: I64) -> I64:
    """Return the rows that lines to come may need, ascending.

    Those of open requests that say something of them, with the first and the last one;
    and the last ones of tasks that are none yet.
    """
    of_open = np.zeros(len(placed), np.bool_)
    rows = np.flatnonzero(owned.request >= 0)
    of_open[rows] = is_open[owned.request[rows]]
    says = placed.lines.are(*_OF_FIGURES)
    says[owned.first] = True
    says[last] = True
    chosen = of_open & says
    run = int(placed.run[-1]) if len(placed) else 0
    others = (owned.request < 0) & (placed.task >= 0) & (placed.run == run)
    chosen[np.flatnonzero(others)[-_MAX_WITHOUT:]] = True
    return np.flatnonzero(chosen).astype(np.int64)
