"""``ggscope live``: follow a program that runs, without a window."""

import time
from argparse import Namespace
from pathlib import Path

from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.live.follow import follow, waiting_words, wanted_path
from ggscope.live.keeping import write_kept
from ggscope.live.options import OPTIONS
from ggscope.live.source import Heard, LiveSource, State
from ggscope.model.units import format_count
from ggscope.text import json_text, one_line

_POLLS_PER_SECOND = 60


def run(arguments: Namespace) -> int:
    """Print a line a second, until the program or the time is over."""
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
            output.emit(_line(Heard(), 0.0, -1, is_json=True))
            output.flush()
        if is_over:
            return None
        time.sleep(1 / _POLLS_PER_SECOND)
    return path


def _watch(source: LiveSource, until: float | None, arguments: Namespace) -> None:
    line_at = told_at = time.monotonic()
    told = 0
    lag_ns, words = -1, ""
    while True:
        now = time.monotonic()
        source.poll()
        heard = source.heard()
        lag_ns = max(lag_ns, heard.lag_ns)
        if heard.words and heard.words != words:
            output.say(f"{heard.words}.")
        words = heard.words
        is_over = heard.state in (State.ENDED, State.GONE)
        is_over = is_over or (until is not None and now >= until)
        if now - line_at >= 1 or is_over:
            line_at += 1
            rate = (heard.records - told) / max(now - told_at, 1e-9)
            output.emit(_line(heard, rate, lag_ns, is_json=arguments.json))
            output.flush()
            if arguments.reload is not None:
                arguments.reload()
            told, told_at, lag_ns = heard.records, now, -1
        if is_over:
            return
        time.sleep(_rest(heard))


def _rest(heard: Heard) -> float:
    """Return the seconds until the next poll; a ring must not fill meanwhile."""
    usual = 1 / _POLLS_PER_SECOND
    return usual if heard.fill >= 0 or not OPTIONS.poll_s else min(OPTIONS.poll_s, 1)


def _line(heard: Heard, rate: float, lag_ns: int, *, is_json: bool) -> str:
    lag = None if lag_ns < 0 else round(lag_ns / 1e6, 3)
    if is_json:
        return json_text(
            {
                "records": heard.records,
                "records_per_s": round(rate, 1),
                "lost": _known(heard.lost),
                "lag_ms": lag,
                "state": heard.state.value,
                "fill": None if heard.fill < 0 else round(heard.fill, 4),
                "restarts": heard.restarts,
                "resident_bytes": _known(heard.resident_bytes),
                "model_bytes": _known(heard.model_bytes),
                "read_bytes": _known(heard.read_bytes),
                "major_faults": _known(heard.major_faults),
                "self_test": heard.run.get("self-test"),
                "backends": heard.run.get("backends"),
            }
        )
    lost = "not known" if heard.lost < 0 else format_count(heard.lost)
    figures = (
        f"{format_count(heard.records)} records, {format_count(round(rate))}/s, "
        f"lost {lost}, lag {'N/A' if lag is None else f'{lag:.1f} ms'}"
    )
    return one_line(" · ".join((figures, *heard.run_words())))


def _known(number: int) -> int | None:
    return None if number < 0 else number
