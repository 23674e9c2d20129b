"""``ggscope live``: follow a program that runs, without a window."""

import time
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from ggscope.atomic_write import check_target
from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.live.metrics import Rates, Shown, shown_in
from ggscope.live.open_source import follow, path_to_follow, waiting_message
from ggscope.live.options import OPTIONS
from ggscope.live.recording_store import save_recording
from ggscope.live.running import ProgramList
from ggscope.live.source import LiveSource, SourceStatus, State
from ggscope.sanitize import json_text, one_line

_POLLS_PER_SECOND = 60
_LOOK_S = 0.1
"""Between looks for something to follow: each looks at processes and folders."""
_MIN_S = 0.05
"""Shorter times have no rate."""


@dataclass(frozen=True, slots=True)
class _Count:
    """What had come at a time, in seconds of the monotonic clock."""

    time: float
    records: int
    tokens: int


def run(arguments: Namespace) -> int:
    """Print a line a second, until the program or the time is over."""
    if arguments.list:
        return _list(is_json=arguments.json)
    if arguments.save:  # not first after hours of following
        check_target(arguments.save, overwrite=True)
    until = None
    if arguments.seconds is not None:
        until = time.monotonic() + arguments.seconds
    path = _find_ring(arguments, until)
    if path is None:
        return GOOD
    source = follow(path, keeps_spans=False, keeps_records=bool(arguments.save))
    try:
        try:
            _watch(source, until, arguments)
        except KeyboardInterrupt:
            if not arguments.save:
                raise
        finally:
            source.close()
        if arguments.save:
            location = source.status().recording
            saved = save_recording(
                location, Path(arguments.save), lambda *_: None, lambda: None
            )
            output.say(f"{saved.text()}.")
    finally:
        source.forget()
    return GOOD


def _list(*, is_json: bool) -> int:
    """Print which running programs can be followed."""
    programs = ProgramList().look(lambda: None)
    if is_json:
        output.emit_json(
            [
                {
                    "pid": program.pid,
                    "program": program.name,
                    "command": list(program.command),
                    "began": program.began,
                    "tracing": program.tracing.name.lower(),
                    "target": program.target or None,
                    "why": program.why or None,
                    "restart_command": program.restart_command or None,
                }
                for program in programs
            ]
        )
        return GOOD
    if not programs:
        output.say("no program that runs ggml was found.")
        return GOOD
    head = ("pid", "program", "tracing", "command")
    rows = [(str(p.pid), p.name, p.tracing.value, p.command_line) for p in programs]
    output.emit(output.table(head, rows, left=(1, 2, 3)))
    return GOOD


def _find_ring(arguments: Namespace, until: float | None) -> Path | None:
    """Wait for something to follow; None where the time was over before.

    A script gets its line a second meanwhile, too.

    Raises
    ------
    LiveError
        If there is no such process.
    """
    text: str | None = arguments.file
    line_at = time.monotonic()
    message = ""
    while (path := path_to_follow(text)) is None:
        if message != (new_message := waiting_message(text)):
            message = new_message
            output.say(f"{message}.")
        now = time.monotonic()
        is_over = until is not None and now >= until
        if arguments.json and (is_over or now - line_at >= 1):
            line_at += 1
            output.emit(_line(SourceStatus(), Rates(), is_json=True))
            output.flush()
        if is_over:
            return None
        time.sleep(_LOOK_S)
    return path


def _watch(source: LiveSource, until: float | None, arguments: Namespace) -> None:
    line_at = time.monotonic()
    then: _Count | None = None
    lag, message = (-1, False), ""
    while True:
        source.poll()
        now, status = time.monotonic(), source.status()
        # What was there before has no rate.
        if then is None or status.backlog > then.records:
            then = _Count(now, status.records, status.tokens)
        lag = max(lag, (status.lag_ns, status.is_least_lag))
        if status.message and status.message != message:
            output.say(f"{status.message}.")
        message = status.message
        is_over = status.state in (State.ENDED, State.GONE, State.NO_WRITER)
        is_over = is_over or (until is not None and now >= until)
        if now - line_at >= 1 or is_over:
            line_at += 1
            rates = _rates(then, now, status, lag)
            output.emit(_line(status, rates, is_json=arguments.json))
            output.flush()
            if arguments.reload is not None:
                arguments.reload()
            then, lag = _Count(now, status.records, status.tokens), (-1, False)
        if is_over:
            return
        time.sleep(_rest(status))


def _rest(status: SourceStatus) -> float:
    """Return the seconds until the next poll; a ring must not fill meanwhile."""
    usual = 1 / _POLLS_PER_SECOND
    return usual if status.lost >= 0 or not OPTIONS.poll_s else min(OPTIONS.poll_s, 1)


def _rates(
    then: _Count, now: float, status: SourceStatus, lag: tuple[int, bool]
) -> Rates:
    """Return the rates since `then`; a moment alone has none."""
    took = now - then.time
    records_per_s = tokens_per_s = -1.0
    if took >= _MIN_S:
        records_per_s = (status.records - then.records) / took
        if status.tokens >= 0:
            tokens_per_s = (status.tokens - max(then.tokens, 0)) / took
    return Rates(records_per_s, tokens_per_s, *lag)


def _line(status: SourceStatus, rates: Rates, *, is_json: bool) -> str:
    if is_json:
        return json_text(
            {metric.key: metric.value(status, rates) for metric in shown_in(Shown.JSON)}
        )
    phrases = [metric.phrase(status, rates) for metric in shown_in(Shown.LINE)]
    return one_line(" · ".join((*phrases, *status.run_texts())))
