"""``ggscope load``: how a model was read, and what limits loading."""

from argparse import Namespace
from pathlib import Path

from ggscope.analysis.load.facts import PERCENTILES
from ggscope.analysis.load.load import ALL_FILES, Load, load_of
from ggscope.analysis.load.rows import load_keys
from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.cli.reading import answer_each, load, print_heading
from ggscope.descriptions.load import (
    bucket_text,
    cause_lines,
    level_text,
    load_text,
)
from ggscope.errors import QueryError
from ggscope.exporters.load_json import load_json
from ggscope.model.trace import Trace
from ggscope.model.units import (
    format_bytes,
    format_count,
    format_duration,
    format_share,
)
from ggscope.sanitize import one_line

_MAX_SHOWN = 20


def run(arguments: Namespace) -> int:
    """Print how the model of each file was read; return the exit code."""

    def work(path: Path) -> tuple[int, object]:
        trace = load(path, arguments)
        load_timeline = _model_load(path, trace, arguments)
        if not arguments.json:
            _print(path, trace, load_timeline, arguments)
        return GOOD, {
            "path": str(path),
            **load_json(trace, load_timeline, arguments.limit),
        }

    return answer_each(arguments, work)


def _model_load(path: Path, trace: Trace, arguments: Namespace) -> Load:
    keys = load_keys(trace)
    if not keys:
        raise QueryError(
            f"{path.name} has no reads: open output of blkparse, biosnoop, strace or "
            "perf."
        )
    key = arguments.level or keys[0]
    if key not in keys:
        there = ", ".join(f"{one} ({level_text(one)})" for one in keys)
        raise QueryError(f"{path.name} has no {level_text(key)}; there are {there}.")
    load = load_of(trace, key)
    assert load is not None
    if arguments.file is None:
        return load
    numbers = [
        i
        for i, file in enumerate(load.whole.files)
        if ("/" + file.path).endswith("/" + arguments.file)
    ]
    if len(numbers) != 1:
        names = ", ".join(file.path for file in load.whole.files[:8])
        how = "several files are" if numbers else "no file is"
        raise QueryError(f"{how} called {arguments.file}; there are {names}.")
    return load_of(trace, key, numbers[0] if numbers else ALL_FILES) or load


def _print(path: Path, trace: Trace, load: Load, arguments: Namespace) -> None:
    print_heading(path, arguments)
    facts, unit = load.facts, trace.clock.unit
    output.emit(one_line(f"{level_text(facts.key)}: {load_text(trace, facts)}"))
    limit = arguments.limit or _MAX_SHOWN
    if facts.latency:
        names = [f"p{p}" if p < 100 else "max" for p in PERCENTILES]
        row = [format_duration(ticks, unit) for ticks in facts.latency]
        output.emit("")
        output.emit(output.table(["", *names], [["latency", *row]], left=(0,)))
    if facts.buckets:
        lines = [
            [bucket_text(b), format_count(b.n), format_share(b.n / facts.n_sized),
             format_bytes(b.bytes)]
            for b in facts.buckets
        ]  # fmt: skip
        output.emit("")
        output.emit(
            output.table(["request size", "reads", "share", "bytes"], lines, left=(0,))
        )
    lines = [
        [one_line(share.name or "not known"), format_count(share.n),
         format_bytes(share.bytes) if share.bytes >= 0 else "",
         format_bytes(share.distinct) if share.distinct >= 0 else ""]
        for share in facts.files[:limit]
    ]  # fmt: skip
    output.emit("")
    output.emit(output.table(["file", "reads", "bytes", "different"], lines, left=(0,)))
    tensors = load.by_tensor(limit)
    if tensors:
        lines = [
            [one_line(trace.strings[int(trace.tensors.name[row.tensor])]),
             format_count(row.n),
             format_bytes(row.bytes) if facts.n_sized else "",
             format_duration(row.ticks, unit) if facts.latency else ""]
            for row in tensors
        ]  # fmt: skip
        output.emit("")
        output.emit(
            output.table(["tensor", "reads", "bytes", "waited"], lines, left=(0,))
        )
    if facts.key != "op":
        output.emit("\nWhat caused the reads")
        lines = [[text, format_count(n)] for text, n in cause_lines(load)]
        output.emit(output.table(["", "reads"], lines, left=(0,)))
