"""``ggscope check``: every problem of a file."""

from argparse import Namespace
from pathlib import Path

from ggscope.analysis.completeness import (
    completeness,
    completeness_words,
    with_completeness,
)
from ggscope.analysis.stated_facts import stated_of
from ggscope.cli import output
from ggscope.cli.exits import DATA_LOSS, ERROR, GOOD
from ggscope.cli.info import warning_json
from ggscope.cli.info_tables import completeness_json
from ggscope.cli.info_text import problems_text
from ggscope.cli.reading import failure_json, for_each_file, load
from ggscope.cli.report import check_report, write_report
from ggscope.cli.targets import spare_inputs
from ggscope.errors import ReadError, TraceError
from ggscope.model.trace import Severity, Trace
from ggscope.readers.registry import troubles, with_troubles
from ggscope.text import one_line


def run(arguments: Namespace) -> int:
    """Check the files; return the exit code.

    1 where the data breaks a rule of its format, 4 where data was lost and
    ``--strict`` is given, as `exits.code_of` where a file cannot be read at all.
    """
    if arguments.report is not None:
        spare_inputs(arguments.report, arguments.files)
        check_report(arguments.report, overwrite=arguments.force)

    def work(path: Path) -> tuple[int, object]:
        trace = with_troubles(load(path, arguments))
        found = completeness(trace)
        trace = with_completeness(trace, found)
        verdict = judge(trace, path)
        verdict["completeness"] = completeness_json(trace, found)
        if not arguments.json:
            word = "good" if verdict["ok"] else "not good"
            is_true = all(f.agrees is not False for _, f in stated_of(trace))
            if verdict["ok"] and not is_true:
                word += ", but what it says of itself is not what it holds"
            text = f"{one_line(str(path))}: {word}\n{problems_text(trace)}"
            if len(trace.spans):
                text += f"\nComplete: {one_line(completeness_words(found))}."
            try:
                output.emit(text)
            except BrokenPipeError:
                output.abandon()  # the verdict and the report are wanted all the same
        return _code(verdict, is_strict=arguments.strict), verdict

    results = for_each_file(arguments, work, _failed)
    if arguments.json:
        results.emit_json()
    if arguments.report is not None:
        write_report(arguments.report, results.objects, overwrite=arguments.force)
        output.say(f"report written to {arguments.report}.")
    return results.code


def judge(trace: Trace, path: Path) -> dict[str, object]:
    """Return what ``check --json`` prints: nothing lost and no rule broken is ok."""
    warnings = [warning_json(warning) for warning in trace.warnings]
    warnings += [
        _problem("inconsistent_trace", f"The trace contradicts itself: {sentence}.")
        for sentence in trace.check()
    ]
    bad = (Severity.DATA_LOSS.word, Severity.ERROR.word)
    return {
        "path": str(path),
        "reader": trace.info.reader_id,
        "ok": not any(warning["severity"] in bad for warning in warnings),
        "records": trace.info.n_records,
        "spans": len(trace.spans),
        "warnings": warnings,
    }


def _problem(
    code: str, message: str, offset: int | None = None, remedy: str = ""
) -> dict[str, object]:
    return {
        "severity": Severity.ERROR.word,
        "code": code,
        "message": message,
        "count": 1,
        "offset": offset,
        "place": "",
        "remedy": remedy,
    }


def _failed(path: Path, error: TraceError) -> dict[str, object]:
    details = failure_json(path, error)["error"]
    is_read_error = isinstance(error, ReadError)
    return {
        "path": str(path),
        "reader": error.reader_id if isinstance(error, ReadError) else None,
        "ok": False,
        "records": 0,
        "spans": 0,
        "warnings": [
            _problem(
                error.code if isinstance(error, ReadError) else "error",
                error.message if isinstance(error, ReadError) else str(error),
                error.offset if isinstance(error, ReadError) else None,
                error.hint if isinstance(error, ReadError) else "",
            ),
            *map(warning_json, troubles(waits=True)),
        ],
        "error": details if is_read_error else None,
    }


def _code(verdict: dict[str, object], *, is_strict: bool) -> int:
    warnings = verdict["warnings"]
    if not isinstance(warnings, list):
        raise TypeError("a verdict without warnings")
    severities = {warning["severity"] for warning in warnings}
    if is_strict and Severity.DATA_LOSS.word in severities:
        return DATA_LOSS
    return ERROR if Severity.ERROR.word in severities else GOOD
