"""``ggscope live``: follow a program that runs, without a window."""

import time
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from ggscope.atomic_write import check_target
from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.live.open_source import follow, waiting_words, wanted_path
from ggscope.live.options import OPTIONS
from ggscope.live.recording_store import write_kept
from ggscope.live.running import ProgramList
from ggscope.live.source import LiveSource, SourceStatus, State
from ggscope.model.record_kinds import counted_words, record_unit
from ggscope.model.units import format_count, format_share
from ggscope.sanitize import json_text, one_line

_POLLS_PER_SECOND = 60
_LEAST_S = 0.05
"""Shorter times have no rate."""


@dataclass(frozen=True, slots=True)
class _Count:
    """What had come at a time, in seconds of the monotonic clock."""

    time: float
    records: int
    tokens: int


@dataclass(frozen=True, slots=True)
class LineMetrics:
    """Figures of a line; -1 = not known. The lag is the greatest since the last one."""

    records_per_s: float = -1.0
    tokens_per_s: float = -1.0
    lag_ns: int = -1
    is_least_lag: bool = False


def run(arguments: Namespace) -> int:
    """Print a line a second, until the program or the time is over."""
    if arguments.list:
        return _list(is_json=arguments.json)
    if arguments.save:  # not first after hours of following
        check_target(arguments.save, overwrite=True)
    until = None
    if arguments.seconds is not None:
        until = time.monotonic() + arguments.seconds
    path = _found(arguments, until)
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
            kept = source.heard().kept
            saved = write_kept(
                kept, Path(arguments.save), lambda *_: None, lambda: None
            )
            output.say(f"{saved.words()}.")
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


def _found(arguments: Namespace, until: float | None) -> Path | None:
    """Wait for something to follow; None where the time was over before.

    A script gets its line a second meanwhile, too.

    Raises
    ------
    LiveError
        If there is no such process.
    """
    text: str | None = arguments.file
    line_at = time.monotonic()
    words = ""
    while (path := wanted_path(text)) is None:
        if words != (now_words := waiting_words(text)):
            words = now_words
            output.say(f"{words}.")
        now = time.monotonic()
        is_over = until is not None and now >= until
        if arguments.json and (is_over or now - line_at >= 1):
            line_at += 1
            output.emit(_line(SourceStatus(), LineMetrics(), is_json=True))
            output.flush()
        if is_over:
            return None
        time.sleep(1 / _POLLS_PER_SECOND)
    return path


def _watch(source: LiveSource, until: float | None, arguments: Namespace) -> None:
    line_at = time.monotonic()
    then: _Count | None = None
    lag, words = (-1, False), ""
    while True:
        source.poll()
        now, heard = time.monotonic(), source.heard()
        # What was there before has no rate.
        if then is None or heard.backlog > then.records:
            then = _Count(now, heard.records, heard.tokens)
        lag = max(lag, (heard.lag_ns, heard.is_least_lag))
        if heard.words and heard.words != words:
            output.say(f"{heard.words}.")
        words = heard.words
        is_over = heard.state in (State.ENDED, State.GONE, State.NO_WRITER)
        is_over = is_over or (until is not None and now >= until)
        if now - line_at >= 1 or is_over:
            line_at += 1
            meters = _meters(then, now, heard, lag)
            output.emit(_line(heard, meters, is_json=arguments.json))
            output.flush()
            if arguments.reload is not None:
                arguments.reload()
            then, lag = _Count(now, heard.records, heard.tokens), (-1, False)
        if is_over:
            return
        time.sleep(_rest(heard))


def _rest(heard: SourceStatus) -> float:
    """Return the seconds until the next poll; a ring must not fill meanwhile."""
    usual = 1 / _POLLS_PER_SECOND
    return usual if heard.lost >= 0 or not OPTIONS.poll_s else min(OPTIONS.poll_s, 1)


def _meters(
    then: _Count, now: float, heard: SourceStatus, lag: tuple[int, bool]
) -> LineMetrics:
    """Return the figures since `then`; a moment alone has no rate."""
    took = now - then.time
    rate = tokens = -1.0
    if took >= _LEAST_S:
        rate = (heard.records - then.records) / took
        if heard.tokens >= 0:
            tokens = (heard.tokens - max(then.tokens, 0)) / took
    return LineMetrics(rate, tokens, *lag)


def _line(heard: SourceStatus, meters: LineMetrics, *, is_json: bool) -> str:
    if is_json:
        lag = None if meters.lag_ns < 0 else round(meters.lag_ns / 1e6, 3)
        return json_text(
            {
                "records": heard.records,
                "op_records": heard.by_kind.get("ops"),
                "records_per_s": _rounded(meters.records_per_s, 1),
                "tokens_per_s": _rounded(meters.tokens_per_s, 1),
                "lost": _known(heard.lost),
                "lag_ms": None if meters.is_least_lag else lag,
                "lag_at_least_ms": lag if meters.is_least_lag else None,
                "state": heard.state.value,
                "fill": _rounded(heard.fill, 4),
                "restarts": heard.restarts,
                "resident_bytes": _known(heard.resident_bytes),
                "model_bytes": _known(heard.model_bytes),
                "read_bytes": _known(heard.read_bytes),
                "major_faults": _known(heard.major_faults),
                "self_test": heard.run.get("self-test"),
                "owner": heard.run.get("owner"),
                "backends": heard.run.get("backends"),
            }
        )
    lost = "not known" if heard.lost < 0 else format_count(heard.lost)
    lag_text = f"{meters.lag_ns / 1e6:.1f} ms"
    if meters.is_least_lag:
        lag_text = f"at least {lag_text}"
    figures = [
        counted_words(heard.records, heard.by_kind),
        f"{_rate(meters.records_per_s)} {record_unit(heard.by_kind)}/s",
        *([f"{meters.tokens_per_s:.1f} tokens/s"] if meters.tokens_per_s >= 0 else []),
        f"lost {lost}",
        f"lag {'N/A' if meters.lag_ns < 0 else lag_text}",
        *([f"fill {format_share(heard.fill)}"] if heard.fill >= 0 else []),
    ]
    return one_line(" · ".join((", ".join(figures), *heard.run_words())))


def _rate(rate: float) -> str:
    return "N/A" if rate < 0 else format_count(round(rate))


def _rounded(number: float, digits: int) -> float | None:
    return None if number < 0 else round(number, digits)


def _known(number: int) -> int | None:
    return None if number < 0 else number
