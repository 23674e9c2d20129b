"""``ggscope requests``: what a server's log states about each request."""

from argparse import Namespace
from pathlib import Path

import numpy as np

from ggscope.analysis.requests import PERCENTILES, known, percentiles, request_times
from ggscope.analysis.sorting import sorted_rows
from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.cli.reading import answer_each, load, print_heading
from ggscope.descriptions.requests import (
    REQUEST_HEAD,
    memory_table,
    memory_title,
    request_cells,
    request_totals,
)
from ggscope.errors import QueryError, UsageError
from ggscope.exporters.requests_json import requests_json
from ggscope.model.tables import I64
from ggscope.model.trace import Trace

MAX_SHOWN = 40


def run(arguments: Namespace) -> int:
    """Print the requests of each log; return the exit code."""
    if arguments.follow:
        from ggscope.cli.followed_requests import follow_requests

        return follow_requests(arguments)
    if arguments.seconds is not None:
        raise UsageError("--seconds goes with --follow.")

    def work(path: Path) -> tuple[int, object]:
        trace = load(path, arguments)
        if trace.log is None:
            raise QueryError(
                f"{path.name} is not a server log; its format is {trace.info.format}."
            )
        if not arguments.json:
            _print(path, trace, arguments)
        return GOOD, {"path": str(path), **requests_json(trace)}

    return answer_each(arguments, work)


def _print(path: Path, trace: Trace, arguments: Namespace) -> None:
    log = trace.log
    assert log is not None
    print_heading(path, arguments)
    n = len(log.requests)
    if not n:
        output.emit("No requests in this log.")
    else:
        limit = arguments.limit or MAX_SHOWN
        rows = np.arange(min(n, limit))
        if arguments.sort:
            rows = _sorted(trace, arguments.sort)[:limit]
        cells = request_cells(trace, rows)
        output.emit(output.table(REQUEST_HEAD, cells, left=(len(REQUEST_HEAD) - 1,)))
        output.emit_more(n - limit)
        print_sums(trace)
    if log.memory:
        head, lines = memory_table(log.memory)
        output.emit(f"\n{memory_title(log.memory)}")
        output.emit(output.table(head, lines, left=(0,)))
    if not log.has_clock and n:
        output.say(
            "note: the log has no times; waits and when slots were idle are unknown."
        )


def _sorted(trace: Trace, column: str) -> I64:
    assert trace.log is not None
    values = getattr(request_times(trace.log.requests), column)
    return sorted_rows(values, is_down=True)


def print_sums(trace: Trace) -> None:
    """Print the sums over all requests of a log, and percentiles."""
    assert trace.log is not None
    output.emit("")
    output.emit(request_totals(trace))
    requests = trace.log.requests
    times = request_times(requests)
    rows = []
    for title, values, form in (
        ("wait in slot, ms", times.queued_ms, "{:,.2f}"),
        ("first token, ms", times.first_token_ms, "{:,.2f}"),
        ("per token, ms", times.per_token_ms, "{:,.2f}"),
        ("tokens/s", times.generated_per_s, "{:,.2f}"),
        ("generated tokens", known(requests.n_generated), "{:,.0f}"),
        ("drafting, ms", known(requests.draft_time) / 1e6, "{:,.2f}"),
    ):
        at = percentiles(values)
        if at:
            rows.append([title, *(form.format(at[p]) for p in PERCENTILES)])
    if rows:
        output.emit("")
        output.emit(
            output.table(["", *(f"p{p}" for p in PERCENTILES)], rows, left=(0,))
        )
