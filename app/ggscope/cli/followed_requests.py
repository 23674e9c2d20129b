"""``ggscope requests LOG --follow``: requests as a server writes them to its log."""

import signal
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

import numpy as np

from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.cli.requests import MAX_SHOWN, print_sums
from ggscope.descriptions.requests import REQUEST_HEAD, request_cells
from ggscope.errors import QueryError, UsageError
from ggscope.exporters.requests_json import percentiles_json, request_rows
from ggscope.live.log_file import LogSource
from ggscope.live.open_source import follow
from ggscope.live.source import State
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, format_counted
from ggscope.sanitize import json_text

_POLL_S = 0.1
_STATUS_S = 1.0


def follow_requests(arguments: Namespace) -> int:
    """Print requests as they end, until Ctrl-C, then sums; return the exit code.

    Raises
    ------
    UsageError
        If it is not one file, or an order is asked for.
    QueryError
        If the file is no log.
    """
    if len(arguments.files) != 1 or arguments.sort:
        raise UsageError("--follow takes one log, and prints requests as they end.")
    source = follow(Path(arguments.files[0]))
    if not isinstance(source, LogSource):
        source.close()
        raise QueryError(f"{arguments.files[0]} is not a server log.")
    printed = _JsonLines() if arguments.json else _Lines(arguments.limit or MAX_SHOWN)
    status = _StatusLine()
    until = None
    if arguments.seconds is not None:
        until = time.monotonic() + arguments.seconds
    with closing(source), _interruption() as interruption:
        finished = FinishedRequests(source)
        message = ""
        while not interruption.is_set:
            has_news = source.poll()
            state = source.status()
            if state.state is State.WAITING and state.message != message:
                message = state.message
                status.clear()
                output.say(f"{message}.")
            if has_news and not source.is_behind:
                trace, rows = finished.new()
                if len(rows):
                    status.clear()
                    printed.rows(trace, rows)
                    output.flush()
            if until is not None and time.monotonic() >= until:
                break
            status.show(finished, state.message)
            if not source.is_behind:
                time.sleep(_POLL_S)
        status.clear()
        trace, rows = finished.new(is_end=True)
        printed.rows(trace, rows)
        assert trace.log is not None
        is_timed = trace.log.requests.is_timed[source.unfinished_requests]
        printed.end(trace, int(np.count_nonzero(~is_timed)))
    return GOOD


class FinishedRequests:
    """Requests of a followed log that have ended, each of them once.

    Attributes
    ----------
    n : number of those so far.
    """

    def __init__(self, source: LogSource) -> None:
        self.n = 0
        self._source = source
        self._is_listed = np.empty(0, np.bool_)

    def new(self, *, is_end: bool = False) -> tuple[Trace, I64]:
        """Return the trace, and the rows of requests that have ended since.

        Parameters
        ----------
        is_end : those that have not ended count, too.
        """
        source = self._source
        trace = source.snapshot()
        assert trace.log is not None
        n_dropped = source.n_dropped_requests
        end = n_dropped + len(trace.log.requests)
        # A trace that begins again has fewer rows at first.
        if n_more := max(end - len(self._is_listed), 0):
            self._is_listed = np.append(self._is_listed, np.zeros(n_more, np.bool_))
        is_new = ~self._is_listed[n_dropped:end]
        if not is_end:
            is_new[source.unfinished_requests] = False
        self._is_listed[n_dropped:end] |= is_new
        rows = np.flatnonzero(is_new).astype(np.int64)
        self.n += len(rows)
        return trace, rows


class _Lines:
    """Requests as rows of a table, and their sums at the end.

    Parameters
    ----------
    limit : so many of the requests that were there before are printed.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._table = output.GrowingTable(REQUEST_HEAD, left=(len(REQUEST_HEAD) - 1,))
        self._has_begun = False

    def rows(self, trace: Trace, rows: I64) -> None:
        """Print some requests."""
        if not len(rows):
            return
        n_before = len(rows) - self._limit
        if not self._has_begun and n_before > 0:
            earlier = format_counted(n_before, "earlier request")
            output.emit(f"… {earlier}; --limit N lists more")
            rows = rows[n_before:]
        self._has_begun = True
        cells = request_cells(trace, rows)
        output.emit(self._table.lines(cells))

    def end(self, trace: Trace, n_unfinished: int) -> None:
        """Print the sums."""
        assert trace.log is not None
        if not len(trace.log.requests):
            output.emit("No requests.")
            return
        print_sums(trace)
        if n_unfinished:
            output.say(f"{format_counted(n_unfinished, 'request')} did not end.")


class _JsonLines:
    """Requests as lines of JSON, the last line with their sums."""

    def rows(self, trace: Trace, rows: I64) -> None:
        """Print some requests."""
        assert trace.log is not None
        for row in request_rows(trace, trace.log.requests.take(rows)):
            output.emit(json_text(row))

    def end(self, trace: Trace, n_unfinished: int) -> None:
        """Print the sums."""
        assert trace.log is not None
        sums = {
            "events": trace.info.summary["events"],
            "percentiles": percentiles_json(trace.log.requests),
            "has_clock": trace.log.has_clock,
            "unfinished": n_unfinished,
        }
        output.emit(json_text(sums))


class _StatusLine:
    """What runs, in the last line of a terminal."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._text, self._next = "", 0.0

    def show(self, finished: FinishedRequests, message: str) -> None:
        """Show how many requests have ended, and what the log states about others."""
        now = time.monotonic()
        if not self._is_shown or (self._text and now < self._next):
            return
        self._next = now + _STATUS_S
        text = " · ".join(filter(None, (f"{format_count(finished.n)} done", message)))
        if text != self._text:
            self._text = text
            output.rewrite_line(text[: output.width() - 1])

    def clear(self) -> None:
        """Take the line away."""
        if self._text:
            self._text = ""
            output.rewrite_line("")


class _Interruption:
    """Whether Ctrl-C was pressed.

    No `threading.Event`: its lock may be held by the very wait that a signal's handler
    comes into, which would then wait for itself.
    """

    is_set = False


@contextmanager
def _interruption() -> Iterator[_Interruption]:
    """Return what the first Ctrl-C sets; the second one interrupts.

    The log is read and printed to the end of what is being done.
    """
    interruption = _Interruption()
    usual = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not callable(usual):
        yield interruption
        return

    def note(number: int, frame: FrameType | None) -> None:
        if interruption.is_set:
            usual(number, frame)
        interruption.is_set = True

    signal.signal(signal.SIGINT, note)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, usual)
