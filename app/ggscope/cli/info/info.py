"""``ggscope info``: what a file holds, as JSON and for people."""

from argparse import Namespace
from pathlib import Path

from ggscope.analysis.completeness.expected import completeness
from ggscope.cli import output
from ggscope.cli.info.facts import coverage_facts, describe
from ggscope.cli.info.text import info_text
from ggscope.cli.output import GOOD, USAGE
from ggscope.cli.reading import answer_each, load
from ggscope.descriptions.completeness import with_completeness


def run(arguments: Namespace) -> int:
    """Describe the files, the formats or the system; return the exit code."""
    if arguments.formats:
        from ggscope.cli.readers import run as run_readers

        return run_readers(arguments)
    if arguments.system:
        from ggscope.cli.system import run as run_system

        return run_system(arguments)
    if not arguments.files:
        output.complain("info needs a FILE, --formats or --system.")
        return USAGE

    def work(path: Path) -> tuple[int, object]:
        trace = load(path, arguments)
        complete = completeness(trace)
        trace = with_completeness(trace, complete)
        facts = describe(trace, path, complete)
        if arguments.json:
            return GOOD, facts | {"coverage": coverage_facts(trace)}
        output.emit(info_text(trace, facts))
        return GOOD, facts

    return answer_each(arguments, work)
