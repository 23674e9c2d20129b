"""``ggscope summary``: how fast a run was, what took the time, and what limits it."""

from argparse import Namespace
from pathlib import Path

from ggscope.analysis.summary.bars import bar_text
from ggscope.analysis.summary.gaps import Gaps, gaps
from ggscope.analysis.summary.machine import peak_of
from ggscope.analysis.summary.summary import Summary, summary
from ggscope.analysis.summary.token_threads import TokenThreads, token_threads
from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.cli.reading import answer_each, load, print_heading
from ggscope.descriptions.short_names import short_name
from ggscope.descriptions.spans import column_time_form, op_text
from ggscope.descriptions.summary import (
    bottleneck_line,
    summary_sections,
    unknown_lines,
)
from ggscope.descriptions.threads import (
    gaps_note,
    gaps_reason,
    gaps_text,
    token_threads_text,
)
from ggscope.exporters.summary_json import summary_json
from ggscope.model.trace import Trace, lane_titles
from ggscope.model.units import format_duration
from ggscope.sanitize import one_line


def run(arguments: Namespace) -> int:
    """Print the summary of each file; return the exit code."""

    def work(path: Path) -> tuple[int, object]:
        trace = load(path, arguments)
        facts = summary(trace, peak=peak_of(trace, arguments.peak))
        n_gaps = arguments.gaps
        idle = None if n_gaps is None else gaps(trace, limit=n_gaps)
        slowest = None
        if arguments.tokens is not None:
            slowest = token_threads(trace, limit=arguments.tokens)
        if not arguments.json:
            _print(path, trace, facts, idle, slowest, arguments)
        return GOOD, {"path": str(path), **summary_json(trace, facts, idle, slowest)}

    return answer_each(arguments, work)


def _print(
    path: Path,
    trace: Trace,
    facts: Summary,
    idle: Gaps | None,
    slowest: TokenThreads | None,
    arguments: Namespace,
) -> None:
    print_heading(path, arguments)
    output.emit(one_line(f"Bottleneck  {bottleneck_line(facts)}"))
    for section in summary_sections(trace, facts):
        output.emit("")
        lines = [line for line in section.lines if line.value]
        output.emit(section.title)
        rows = [
            (f"  {short_name(line.title)}", line.value, line.remark) for line in lines
        ]
        output.emit(output.table(("", "", ""), rows, left=(0, 1, 2)).split("\n", 1)[1])
    if idle is not None:
        _print_gaps(trace, idle)
    if slowest is not None:
        _print_tokens(trace, slowest)
    if facts.unknown:
        output.emit("\nNot known")
        for text in unknown_lines(facts):
            output.emit(one_line(f"  {text}"))


def _print_gaps(trace: Trace, idle: Gaps) -> None:
    unit, form = trace.clock.unit, column_time_form(trace)
    if reason := gaps_reason(idle):
        output.emit(f"\nGaps\n  cannot be seen: {reason}")
        return
    output.emit(f"\nGaps  {gaps_text(idle, unit)}")
    if note := gaps_note(idle):
        output.emit(f"  {note}")
    if not len(idle):
        return
    titles = lane_titles(trace.lanes)
    columns = (idle.lane, idle.start, idle.end, idle.before, idle.after)
    rows = [
        (
            f"  {titles[lane]}",
            form.text(start),
            format_duration(end - start, unit),
            op_text(trace, before),
            op_text(trace, after),
        )
        for lane, start, end, before, after in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]
    head = ("  lane", "begin", "duration", "before", "after")
    output.emit(output.table(head, rows, left=(0, 3, 4)))


def _print_tokens(trace: Trace, token_threads: TokenThreads) -> None:
    unit, bars = trace.clock.unit, token_threads.bars
    output.emit(
        f"\nSlowest tokens  {token_threads_text(token_threads) or 'none is recorded'}"
    )
    if not len(token_threads):
        return
    parts = (token_threads.busy, token_threads.wait, token_threads.idle)
    rows = [
        (
            f"  {bar_text(trace, bars, row)}",
            format_duration(int(bars.duration[row]), unit),
            name,
            *(
                "-" if part is None else format_duration(int(part[row, lane]), unit)
                for part in parts
            ),
        )
        for row in range(len(token_threads))
        for lane, name in enumerate(token_threads.lanes)
    ]
    head = (f"  {bars.noun}", "latency", "thread", "work", "wait", "idle")
    output.emit(output.table(head, rows, left=(0, 2)))
