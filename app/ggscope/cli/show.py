"""``ggscope show --ascii``: a timeline in the terminal."""

import shutil
import sys
from argparse import Namespace
from pathlib import Path

from ggscope.analysis.filters.text import parse_range
from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.cli.reading import answer_each, coloring, load
from ggscope.exporters.ascii import ascii_timeline

_WIDTH_ELSEWHERE = 100


def run(arguments: Namespace) -> int:
    """Draw the files; return the exit code."""
    width = arguments.width or _WIDTH_ELSEWHERE
    if not arguments.width and sys.stdout.isatty():
        width = shutil.get_terminal_size((_WIDTH_ELSEWHERE, 24)).columns

    def work(path: Path) -> tuple[int, object]:
        trace = load(path, arguments)
        visible = None
        if arguments.range is not None:
            visible = parse_range(arguments.range, trace.extent, trace.clock.unit)
        picture = ascii_timeline(
            trace, width=width, visible=visible, by=coloring(trace, arguments)
        )
        if not arguments.json:
            output.emit(picture)
        return GOOD, {"path": str(path), "lines": picture.split("\n")}

    return answer_each(arguments, work)
