"""``ggscope bench-table``: results of llama-bench as one table, or compared."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ggscope.analysis.bench.comparison import (
    BenchComparison,
    Speed,
    compare_bench,
    speed_of,
    varying_keys,
)
from ggscope.cli import output
from ggscope.cli.output import GOOD, code_of, message_of
from ggscope.cli.reading import load
from ggscope.descriptions.bench import change_interval_text, change_text, verdict
from ggscope.errors import QueryError, TraceError
from ggscope.exporters.bench_markdown import bench_markdown
from ggscope.model.bench import BenchRuns
from ggscope.sanitize import markdown, markdown_row, one_line

_FIRST = ("model_type", "backends")
_HIDDEN = {
    "n_prompt", "n_gen", "n_depth", "model_filename", "model_size", "model_n_params",
    "test_time",
}  # fmt: skip
"""Keys that the test or the model's type stand for."""
_MAX_SHOWN = 200


def run(arguments: Namespace) -> int:
    """Print the tests of all files as one table; return the exit code."""
    if arguments.compare and len(arguments.files) != 2:
        raise QueryError("--compare takes two files.")
    runs: list[BenchRuns] = []
    paths: list[Path] = []
    code = GOOD
    for path in arguments.files:
        try:
            runs.append(_load(path, arguments))
        except TraceError as error:
            output.complain(message_of(error))
            code = max(code, code_of(error))
            continue
        paths.append(path)
    comparison = None
    if arguments.compare and len(runs) == 2:
        comparison = compare_bench(*runs)
    if arguments.json:
        output.emit_json(bench_json(paths, runs, comparison))
    elif arguments.markdown and not arguments.compare:
        _print_markdown(paths, runs, arguments.limit)
    elif comparison is not None:
        _print_comparison(paths, comparison, arguments)
    elif runs:
        _print(paths, runs, arguments)
    return code


def _load(path: Path, arguments: Namespace) -> BenchRuns:
    trace = load(path, arguments)
    if trace.bench is None:
        raise QueryError(
            f"{path.name} is not a result of llama-bench: it holds {trace.info.format}."
        )
    return trace.bench


def bench_json(
    paths: Sequence[Path],
    runs: Sequence[BenchRuns],
    comparison: BenchComparison | None,
) -> dict[str, Any]:
    """Return what ``bench-table --json`` prints: rows with llama-bench's own keys."""
    rows = [
        {"file": str(path), "test": one.test(i), **one.row(i)}
        for path, one in zip(paths, runs, strict=True)
        for i in range(len(one))
    ]
    result: dict[str, Any] = {"rows": rows, "varying": list(varying_keys(runs))}
    if comparison is not None:
        result["comparison"] = {
            "matched_by": list(comparison.matched_by),
            "differs": {
                key: {"a": list(a), "b": list(b)} for key, a, b in comparison.differs
            },
            "rows": [
                {
                    "test": change.test,
                    "a": change.a.mean,
                    "b": change.b.mean,
                    "relative": change.relative,
                    "within_noise": change.within_noise,
                    "difference": None
                    if change.difference is None
                    else {"low": change.difference.low, "high": change.difference.high},
                }
                for change in comparison.changes
            ],
            "only_a": list(comparison.only_a),
            "only_b": list(comparison.only_b),
        }
    return result


def _print_markdown(
    paths: Sequence[Path], runs: Sequence[BenchRuns], limit: int | None
) -> None:
    """Print each file as llama-bench prints it: a table, then its build."""
    for i, (path, one) in enumerate(zip(paths, runs, strict=True)):
        if len(runs) > 1:
            for line in ([""] if i else []) + [f"**{markdown(path.name)}**", ""]:
                output.emit(line)
        shown = one if not limit else one.take(range(min(limit, len(one))))
        for line in bench_markdown(shown):
            output.emit(line)
        if len(shown) < len(one):
            output.emit("")
            output.emit(f"… and {len(one) - len(shown):,} more")


def _print(
    paths: Sequence[Path], runs: Sequence[BenchRuns], arguments: Namespace
) -> None:
    """Print a table of what varies, the test, tokens per second."""
    varying = [
        key
        for key in varying_keys(runs)
        if key not in _HIDDEN and key not in _FIRST and not key.startswith("build_")
    ]
    first = [key for key in _FIRST if any(key in one.columns for one in runs)]
    keys = [*first, *varying]
    head = [*(["file"] if len(paths) > 1 else []), *keys, "test", "t/s"]
    lines = []
    for path, one in zip(paths, runs, strict=True):
        for i in range(len(one)):
            row = one.row(i)
            name = [path.name] if len(paths) > 1 else []
            cells = [_text(row.get(key)) for key in keys]
            lines.append([*name, *cells, one.test(i), _speed(speed_of(one, i))])
    limit = arguments.limit or _MAX_SHOWN
    _emit(head, lines[:limit], arguments)
    if len(lines) > limit:
        output.emit(f"… and {len(lines) - limit:,} more; --limit N lists more")


def _print_comparison(
    paths: Sequence[Path], comparison: BenchComparison, arguments: Namespace
) -> None:
    for name, path in zip("AB", paths, strict=True):
        output.emit(one_line(f"{name}  {path}"))
    for key, a, b in comparison.differs:
        output.emit(one_line(f"{key}: {', '.join(a)} → {', '.join(b)}"))
    if not comparison.changes:
        output.emit("No test is in both files.")
    else:
        keys = [
            (i, key)
            for i, key in enumerate(comparison.matched_by)
            if key not in _HIDDEN
            and len({change.key[i] for change in comparison.changes}) > 1
        ]
        lines = [
            [
                *(_text(change.key[i]) for i, _ in keys),
                change.test,
                _speed(change.a),
                _speed(change.b),
                "" if change.relative is None else change_text(change.relative),
                change_interval_text(change),
                verdict(change),
            ]
            for change in comparison.changes
        ]
        head = [
            *(key for _, key in keys),
            "test",
            "A, t/s",
            "B, t/s",
            "change",
            "95 %",
            "",
        ]
        output.emit("")
        _emit(head, lines, arguments)
    for side, tests in (("A", comparison.only_a), ("B", comparison.only_b)):
        if tests:
            output.emit(one_line(f"only in {side}: {', '.join(tests)}"))


def _emit(
    head: Sequence[str], lines: Sequence[Sequence[str]], arguments: Namespace
) -> None:
    if not arguments.markdown:
        n_left = len(head) - 1
        output.emit(output.table(head, lines, left=tuple(range(n_left))))
        return
    output.emit(markdown_row(head))
    output.emit(f"| {' | '.join(['---'] * (len(head) - 1) + ['---:'])} |")
    for line in lines:
        output.emit(markdown_row(line))


def _text(value: Any) -> str:
    return "" if value is None else one_line(str(value))


def _speed(speed: Speed) -> str:
    text = f"{speed.mean:.2f}"
    if speed.stddev is None or len(speed.samples) == 1:
        return text
    return f"{text} ± {speed.stddev:.2f}"
