"""``ggscope npu``: claims of an NPU trace beside what its events give."""

from argparse import Namespace
from pathlib import Path

from ggscope.analysis.npu.facts import NpuFacts, npu_facts
from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.cli.reading import answer_each, load, print_heading
from ggscope.descriptions.npu import (
    ListedTable,
    about_text,
    banks_table,
    bits_table,
    cell_text,
    claims_table,
    engines_table,
    stalls_table,
    traffic_table,
    window_problems,
    windows_table,
)
from ggscope.errors import QueryError
from ggscope.exporters.npu_json import npu_json, npu_table
from ggscope.model.trace import Trace
from ggscope.sanitize import csv_text, one_line

_MAX_SHOWN = 40


def run(arguments: Namespace) -> int:
    """Print what each trace states about its NPU; return the exit code."""

    def work(path: Path) -> tuple[int, object]:
        trace = load(path, arguments)
        facts = npu_facts(trace)
        if not facts.has_any:
            raise QueryError(
                f"{path.name} records no engine, bandwidth or memory of an NPU; it "
                f"holds {trace.info.format}."
            )
        if arguments.json:
            return GOOD, {"path": str(path), **npu_json(trace, facts)}
        if arguments.csv:
            _print_csv(npu_table(arguments.csv, trace, facts))
        else:
            _print(path, trace, facts, arguments)
        return GOOD, None

    return answer_each(arguments, work)


def _print_csv(listed: ListedTable) -> None:
    head = [title for title, _ in listed.head]
    output.emit(csv_text([head, *listed.rows]).rstrip("\r\n"))


def _print(path: Path, trace: Trace, facts: NpuFacts, arguments: Namespace) -> None:
    print_heading(path, arguments)
    output.emit(about_text(trace, facts))
    windows = facts.bandwidth
    high = windows_table(facts, windows.high().tolist())
    for title, listed in (
        (
            "Figures stated by the file, and computed from its events",
            claims_table(trace),
        ),
        ("Engines", engines_table(trace, facts)),
        ("Stalls", stalls_table(facts)),
        ("Bandwidth windows above 80 % of the peak", high),
        ("SPM banks", banks_table(facts)),
        ("Ops by bits", bits_table(facts)),
        ("Bytes moved per token", traffic_table(facts)),
    ):
        _print_table(trace, title, listed, arguments.limit or _MAX_SHOWN)
    for problem in window_problems(trace):
        output.say(f"note: {one_line(problem)}")


def _print_table(trace: Trace, title: str, listed: ListedTable, limit: int) -> None:
    if not listed.rows:
        return
    heads = [head for head, _ in listed.head]
    rows = [
        [cell_text(trace, head, value) for head, value in zip(heads, row, strict=True)]
        for row in listed.rows[:limit]
    ]
    texts = tuple(
        i
        for i, value in enumerate(listed.rows[0])
        if isinstance(value, str) and heads[i] not in ("stated", "computed")
    )
    output.emit("")
    output.emit(title)
    output.emit(output.table(heads, rows, left=texts))
    output.emit_more(len(listed.rows) - limit)
