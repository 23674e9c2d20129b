"""Spread the pieces of one computation over a few threads, cancellable."""

import os
from collections import deque
from collections.abc import Callable, Iterable
from threading import Event
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from concurrent.futures import Future

MAX_WORKERS = 4
"""Scans are bound by memory: more threads than this gain nothing."""


class Watcher(Protocol):
    """Who waits for a result, e.g. ``session.tasks.TaskContext``."""

    def progress(self, done: int, total: int) -> None:
        """Take note of work done. Raises Cancelled where it is not wanted any more."""
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
    watcher : told after every piece how many rows are done.
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
