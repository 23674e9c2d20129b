"""Requests of a log: which lines speak of the same one, and what they say together."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64
from ggscope.readers.logs.lines import NO_NUMBER, Clock, Kind, LogLines

Bools = npt.NDArray[np.bool_]

_NEAR = 8
"""Timings follow the line that announces them within so many lines."""
_BACK_NS = 1_000_000_000
"""A clock that goes back by more is that of a program that started again."""
_TIMINGS = (Kind.PROMPT_EVAL, Kind.EVAL, Kind.TOTAL)


@dataclass(frozen=True, slots=True, eq=False)
class Owners:
    """Whose each line is.

    Attributes
    ----------
    run : int64[n], start of the program, from 0, by line.
    request : int64[n], -1 where a line is of no request.
    of_run, slot, task, first : int64[m], of each request: its start of the program,
        its slot and task (-1 where the log names none), and the row of its first line.
    """

    run: I64
    request: I64
    of_run: I64
    slot: I64
    task: I64
    first: I64

    def __len__(self) -> int:
        return len(self.first)


def owners(lines: LogLines) -> Owners:
    """Return whose each line is.

    A task is one request from one start of the program to the next. Timings without a
    task, as command-line programs print them, are a request for each block.
    """
    run = _runs(lines)
    slot, task = _with_heads(lines)
    n = len(lines)
    request = np.full(n, -1, np.int64)
    counts = lines.are(Kind.LAUNCH, Kind.HEAD, *_TIMINGS)
    owned = np.flatnonzero(task >= 0)
    pairs, place = _distinct(run[owned], task[owned])
    is_request = np.zeros(len(pairs), np.bool_)
    is_request[place[counts[owned]]] = True
    number = np.where(is_request, np.cumsum(is_request) - 1, -1)
    request[owned] = number[place]
    n_tasks = int(is_request.sum())
    blocks = np.flatnonzero((task < 0) & lines.are(*_TIMINGS))
    begins = _begins_block(lines.kind[blocks], lines.line[blocks], run[blocks])
    request[blocks] = n_tasks + np.cumsum(begins) - 1
    m = n_tasks + int(begins.sum())
    rows = np.flatnonzero(request >= 0)
    first = np.full(m, n, np.int64)
    np.minimum.at(first, request[rows], rows)
    slots = np.full(m, -1, np.int64)
    known = rows[slot[rows] >= 0]
    slots[request[known]] = slot[known]
    tasks = np.full(m, -1, np.int64)
    tasks[:n_tasks] = pairs[is_request, 1]
    order = np.argsort(first, kind="stable")
    renumbered = np.empty(m, np.int64)
    renumbered[order] = np.arange(m)
    request[rows] = renumbered[request[rows]]
    return Owners(
        run, request, run[first[order]], slots[order], tasks[order], first[order]
    )


def _distinct(run: I64, task: I64) -> tuple[I64, I64]:
    """Return distinct pairs, int64[m, 2], and which of them each row is.

    Tasks are numbered anew by each start of the program.
    """
    tasks, of_task = _codes(task)
    keys, place = _codes(run * len(tasks) + of_task)
    if not len(tasks):
        return np.empty((0, 2), np.int64), place
    return np.column_stack([keys // len(tasks), tasks[keys % len(tasks)]]), place


def _codes(values: I64) -> tuple[I64, I64]:
    """Return the distinct ones of some numbers from 0, and which of them each is."""
    highest = int(values.max(initial=0))
    if highest > 4 * len(values) + 1024:
        distinct, place = np.unique(values, return_inverse=True)
        return distinct, place.reshape(-1).astype(np.int64)
    is_there = np.zeros(highest + 1, np.bool_)
    is_there[values] = True
    code = np.cumsum(is_there) - 1
    return np.flatnonzero(is_there).astype(np.int64), code[values]


def _begins_block(kind: npt.NDArray[np.uint8], line: I64, run: I64) -> Bools:
    """Return which timings without a task begin a block: prompt, then generation.

    A block has one of each kind, in this order, in lines that are near.
    """
    begins = np.ones(len(kind), np.bool_)
    if len(kind) > 1:
        later = kind[1:] > kind[:-1]
        near = line[1:] - line[:-1] <= _NEAR
        begins[1:] = ~(later & near & (run[1:] == run[:-1]))
    return begins


def _runs(lines: LogLines) -> I64:
    """Return the start of the program that each line belongs to, from 0.

    A program begins anew where it says so, after something that it did, and where its
    own clock goes back.
    """
    n = len(lines)
    starts = np.zeros(n, np.bool_)
    begins = lines.rows(Kind.START, Kind.MODEL)
    did = lines.rows(Kind.LAUNCH, Kind.RELEASE, Kind.LISTENING, *_TIMINGS)
    n_before = np.searchsorted(did, begins)
    is_new = n_before > np.append(0, n_before)[:-1]
    starts[begins[is_new]] = True
    own = np.flatnonzero(lines.clock == Clock.SINCE_START)
    back = np.flatnonzero(np.diff(lines.time[own]) < -_BACK_NS)
    starts[own[back + 1]] = True
    return np.cumsum(starts).astype(np.int64)


def _with_heads(lines: LogLines) -> tuple[I64, I64]:
    """Return slot and task of each line; lines behind a head have its own."""
    slot, task = lines.slot.astype(np.int64), lines.task.copy()
    rows = np.arange(len(lines))
    is_head = lines.kind == Kind.HEAD
    head = np.maximum.accumulate(np.where(is_head, rows, -1)) if len(rows) else rows
    bare = lines.are(*_TIMINGS, Kind.DRAFT) & (task == NO_NUMBER)
    at = np.flatnonzero(bare & (head >= 0))
    at = at[lines.line[at] - lines.line[head[at]] <= _NEAR]
    slot[at], task[at] = slot[head[at]], task[head[at]]
    return slot, task


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """What lines say of each request; int64[m], -1 where they do not.

    Attributes
    ----------
    prompt_ns, generated_ns, total_ns : durations.
    whole, cached, reprocessed : tokens of the prompt, see `model.requests`.
    launch_row, timing_row, forced_row, last_row : rows of lines: when a slot took it,
        its timings, what forced the whole prompt, and its last line.
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
    last_row: I64


def figures(lines: LogLines, owned: Owners) -> Figures:
    """Return what the lines say of each request."""

    def last(*kinds: Kind, value: int = 0) -> I64:
        """Return the row of the last line of a kind that has such a value."""
        rows = lines.rows(*kinds)
        rows = rows[(owned.request[rows] >= 0) & (lines.n_values[rows] >= value)]
        found = np.full(len(owned), -1, np.int64)
        found[owned.request[rows]] = rows  # the last one stays
        return found

    def first(kind: Kind, value: int) -> I64:
        rows = lines.rows(kind)[::-1]
        rows = rows[(owned.request[rows] >= 0) & (lines.n_values[rows] >= value)]
        found = np.full(len(owned), -1, np.int64)
        found[owned.request[rows]] = rows
        return found

    def number(rows: I64, value: int, factor: float = 1.0) -> I64:
        known = rows >= 0
        values = (
            lines.value[np.where(known, rows, 0), value] * factor
            if len(lines)
            else np.zeros(len(rows))
        )
        values = np.where(np.abs(values) < 1 << 62, values, -1)
        return np.where(known, np.rint(values), -1).astype(np.int64)

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
    np.maximum.at(last_row, owned.request[rows], rows)
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
        last_row=last_row,
    )
