"""Chunked passes over all spans on several threads, cancellable; and grouping.

Indexing with a narrow column makes numpy widen the whole index to 64 bits: 264 MB
for 33 million spans. A million rows at a time fit the cache and cost nothing extra.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ggscope.model.tables import I64, LOCKED_ROWS, Array
from ggscope.native.library import library

if TYPE_CHECKING:
    from concurrent.futures import Future


MAX_WORKERS = 4
"""Scans are bound by memory: more threads than this gain nothing."""


class Watcher(Protocol):
    """Receiver of progress that may cancel, e.g. ``session.tasks.TaskContext``."""

    def progress(self, done: int, total: int) -> None:
        """Report progress; raises Cancelled if the result is no longer needed."""
        ...


def n_workers() -> int:
    """Return how many threads one computation may use, >= 1."""
    return min(MAX_WORKERS, os.cpu_count() or 1)


def share_out(
    work: Callable[[int, slice], None],
    pieces: Iterable[slice],
    watcher: Watcher | None = None,
    *,
    done: int = 0,
    total: int = 0,
) -> None:
    """Call ``work(worker, piece)`` for every piece, on several threads at once.

    Parameters
    ----------
    work : takes the number of the worker, in ``range(n_workers())``, and a piece;
        pays off where it releases the interpreter lock. No two calls for the same
        worker overlap.
    watcher : notified after every piece of how many rows are done.
    done, total : rows done before these pieces, and in all (0: only these).

    Raises
    ------
    Cancelled
        From the watcher; also whatever `work` raises. No thread works on then.
    """
    waiting = deque(pieces)
    total = total or done + sum(rows.stop - rows.start for rows in waiting)
    finished: deque[int] = deque()
    stop = Event()

    def run(worker: int, report: Callable[[], None] | None = None) -> None:
        while not stop.is_set():
            try:
                rows = waiting.popleft()
            except IndexError:
                return
            try:
                work(worker, rows)
                finished.append(rows.stop - rows.start)
                if report is not None:
                    report()
            except BaseException:
                stop.set()
                raise

    def report() -> None:
        if watcher is not None:
            watcher.progress(min(done + sum(finished.copy()), total), total)

    others = min(n_workers(), len(waiting)) - 1
    if others < 1:
        run(0, report)
        return
    from concurrent.futures import ThreadPoolExecutor  # not for a single piece

    with ThreadPoolExecutor(others, thread_name_prefix="ggscope-part") as pool:
        futures: list[Future[None]] = [
            pool.submit(run, worker) for worker in range(1, others + 1)
        ]
        run(0, report)
    for future in futures:
        future.result()
    report()  # others may have done the last pieces


CHUNK_ROWS = 1 << 20


def chunks(n: int, size: int = CHUNK_ROWS) -> list[slice]:
    """Return slices of at most `size` rows that cover ``range(n)`` in order."""
    return [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]


def count_values(column: Array, n_values: int, gate: Array | None = None) -> I64:
    """Return how often each of 0..n_values-1 occurs, int64[n_values].

    Negative values ("none") are left out, and so are those where `gate` (of the
    same length) is negative.
    """
    total = np.zeros(n_values, np.int64)
    if _has_codes(column, gate):
        counts = count_codes(column, gate)
        if np.issubdtype(column.dtype, np.signedinteger):
            counts = counts[: len(counts) // 2]
        total[: len(counts)] = counts[:n_values]
        return total
    for rows in chunks(len(column), LOCKED_ROWS):
        part = column[rows]
        known = part >= 0 if gate is None else (part >= 0) & (gate[rows] >= 0)
        total += np.bincount(part[known], minlength=n_values)[:n_values]
    return total


def _has_codes(column: Array, gate: Array | None) -> bool:
    """Return whether compiled code can count these values (one or two bytes each)."""
    return (
        column.dtype.kind in "iu"
        and column.itemsize <= 2
        and column.flags.c_contiguous
        and (gate is None or (gate.itemsize <= 4 and gate.flags.c_contiguous))
    )


def count_codes(codes: Array, gate: Array | None = None) -> I64:
    """Return how often each code of one or two bytes occurs.

    int64[256 or 65536] by the unsigned number that the code's bits make. Where
    `gate` (signed, of the same length) is negative, codes are left out.
    """
    counts = np.zeros(1 << (8 * codes.itemsize), np.int64)
    library().ggscope_codes_count(
        codes, codes.itemsize, gate, 0 if gate is None else gate.itemsize,
        len(codes), counts,
    )  # fmt: skip
    return counts


def add_by_group(total: I64, group: Array, values: I64) -> None:
    """Add each value to ``total[group]`` exactly, in place.

    Parameters
    ----------
    total : int64[n_groups], written to.
    group : numbers in [0, n_groups), [n].
    values : int64[n], >= 0.

    Notes
    -----
    ``bincount`` sums in float64, which is exact below 2**53 only: the values are
    added in two halves of 32 bits, at most `LOCKED_ROWS` at a time.
    """
    for rows in chunks(len(values), LOCKED_ROWS):
        part, where = values[rows], group[rows]
        low = np.bincount(where, part & 0xFFFF_FFFF, len(total))
        high = np.bincount(where, part >> 32, len(total))
        total += low.astype(np.int64) + (high.astype(np.int64) << 32)


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Span ids by group.

    Attributes
    ----------
    count : int64[n_groups], spans of each group.
    first : int64[n_groups], where the ids of each group begin: in `order`, or
        the first id itself where `order` is None.
    order : int32/int64[Σ count], ids group by group; None where every group is
        one run of consecutive ids.
    """

    count: I64
    first: I64
    order: Array | None

    def ids(self, group: int) -> slice | Array:
        """Return the ids of a group, ascending; a slice where they are consecutive."""
        begin = int(self.first[group])
        stop = begin + int(self.count[group])
        return slice(begin, stop) if self.order is None else self.order[begin:stop]


def group_spans(column: Array, n_groups: int) -> Groups:
    """Return the groups of a column of numbers below `n_groups`; -1 is left out."""
    count = count_values(column, n_groups)
    runs = _runs(column, count)
    if runs is not None:
        return Groups(count, runs, None)
    first = np.cumsum(count) - count
    dtype = np.int32 if len(column) < 1 << 31 else np.int64
    order = np.empty(int(count.sum()), dtype)
    _place(column, None, 0, first.copy(), order)
    return Groups(count, first, order)


def group_parts(
    column: Array, n_groups: int, parts: Sequence[tuple[slice, Array | None]]
) -> Groups:
    """Return the groups of the spans in `parts` alone.

    Parameters
    ----------
    column, n_groups : see `group_spans`.
    parts : (ids, gate) in the order of the ids; spans with a negative gate are
        left out too.
    """
    count = np.zeros(n_groups, np.int64)
    for ids, gate in parts:
        count += count_values(column[ids], n_groups, gate)
    first = np.cumsum(count) - count
    dtype = np.int32 if len(column) < 1 << 31 else np.int64
    order = np.empty(int(count.sum()), dtype)
    n_codes = 1 << (8 * min(column.itemsize, 2))
    # Codes that stand for no group have no room, so nothing is placed for them.
    cursor = np.zeros(max(n_codes, n_groups), np.int64)
    limit = cursor.copy()
    cursor[:n_groups], limit[:n_groups] = first, first + count
    for ids, gate in parts:
        part = column[ids]
        if _has_codes(part, gate) and dtype == np.int32:
            library().ggscope_codes_place(
                part, part.itemsize, gate, 0 if gate is None else gate.itemsize,
                len(part), ids.start, cursor, limit, order,
            )  # fmt: skip
        else:
            _place(part, gate, ids.start, cursor, order)
    return Groups(count, first, order)


def _place(
    part: Array, gate: Array | None, first: int, cursor: I64, order: Array
) -> None:
    """Write span numbers where the cursors of their values stand; moves these on.

    A counting sort in pieces: the whole argsort would take 8 bytes per span.
    """
    for rows in chunks(len(part)):
        values = part[rows]
        by_group = np.argsort(values, kind="stable")
        known = values[by_group] >= 0
        if gate is not None:
            known &= gate[rows][by_group] >= 0
        by_group = by_group[known]
        n = np.bincount(values[by_group], minlength=len(cursor))
        goes_to = np.repeat(cursor - (np.cumsum(n) - n), n) + np.arange(len(by_group))
        order[goes_to] = by_group + (first + rows.start)
        cursor += n


def _runs(column: Array, count: I64) -> I64 | None:
    """Return the first id of each group if all are runs of ids, else None."""
    first = np.zeros(len(count), np.int64)
    n_runs = 0
    for rows in chunks(len(column)):
        part = column[max(rows.start - 1, 0) : rows.stop]
        begins = np.flatnonzero(part[1:] != part[:-1]) + 1
        if rows.start == 0:
            begins = np.append(begins, 0)
        begins = begins[part[begins] >= 0]
        n_runs += len(begins)
        if n_runs > np.count_nonzero(count):
            return None
        first[part[begins]] = begins + max(rows.start - 1, 0)
    return first
