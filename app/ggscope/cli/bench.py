"""``ggscope bench FILE``: how fast a file opens and moves, as one line of JSON."""

import json
import os
import statistics
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from typing import cast

from ggscope.cli import output
from ggscope.cli.output import ERROR, GOOD
from ggscope.cli.reading import reading_text
from ggscope.cli.window import has_display, is_missing

_MAIN = ("first_s", "open_s", "fps", "p99_ms", "max_ms", "peak_mb")
"""Keys that come first in the line."""


def run(arguments: Namespace) -> int:
    """Measure and print; return the exit code."""
    path = arguments.files[0]
    if is_missing(path):
        return ERROR
    if not has_display():
        output.complain(
            "no display to open a window on. Run it under Xvfb, as in: "
            'xvfb-run -a -s "-screen 0 2048x1400x24" ggscope bench FILE; or set '
            "QT_QPA_PLATFORM=offscreen, which leaves out what a display costs."
        )
        return ERROR
    if arguments.rounds > 1:
        return _run_rounds(arguments)
    output.emit(_line(_measure(arguments)))
    return GOOD


def median_figures(rounds: Sequence[dict[str, object]]) -> dict[str, object]:
    """Return the median of every number, and what else the first round says.

    Figures that not all rounds have are left out.
    """
    result: dict[str, object] = {}
    for key, value in rounds[0].items():
        if not all(key in other for other in rounds):
            continue
        result[key] = value
        if isinstance(value, float | int) and not isinstance(value, bool):
            numbers = [cast("float", other[key]) for other in rounds]
            # Of an even number of rounds the lower one: a figure that was measured.
            result[key] = statistics.median_low(numbers)
    return result


def _measure(arguments: Namespace) -> dict[str, object]:
    # Qt is loaded here: the messages above need none.
    from ggscope.bench.measure import BenchOptions, measure
    from ggscope.gui.single_instance.client import open_options

    return measure(
        arguments.files[0],
        BenchOptions(
            seconds=arguments.seconds,
            size=arguments.size,
            renderer=arguments.renderer,
            opening=open_options(arguments),
            panes=arguments.panes,
        ),
    )


def _run_rounds(arguments: Namespace) -> int:
    """Measure in processes of their own: a second opening finds all imported."""
    rounds: list[dict[str, object]] = []
    for number in range(arguments.rounds):
        output.say(f"round {number + 1} of {arguments.rounds} …")
        done = subprocess.run(
            child_command(arguments),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "GGSCOPE_STARTED": repr(time.time())},
        )
        if done.returncode:
            return done.returncode if done.returncode > 0 else ERROR
        rounds.append(json.loads(done.stdout))
    output.emit(_line({**median_figures(rounds), "rounds": len(rounds)}))
    return GOOD


def child_command(arguments: Namespace) -> list[str]:
    """Return the command of one round."""
    command = [sys.executable]
    if not getattr(sys, "frozen", False):
        command += ["-m", "ggscope"]
    width, height = arguments.size
    command += ["bench", "--seconds", str(arguments.seconds)]
    command += ["--size", f"{width}x{height}", "--renderer", arguments.renderer]
    command += reading_text(arguments)
    if arguments.panes:
        command.append("--panes")
    if arguments.safe_mode:
        command.append("--safe-mode")
    if arguments.force:
        command.append("--force")
    return [*command, "--", str(arguments.files[0])]


def _line(figures: dict[str, object]) -> str:
    first = {key: figures[key] for key in _MAIN}
    return json.dumps({**first, **figures}, allow_nan=False)
