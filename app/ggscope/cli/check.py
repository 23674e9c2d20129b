"""``ggscope check``: every problem of a file, on the terminal and as a report."""

import json
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ggscope import __version__
from ggscope.analysis.completeness.expected import completeness
from ggscope.atomic_write import check_target, refuse_inputs, write_file
from ggscope.cli import output
from ggscope.cli.info.facts import warning_json
from ggscope.cli.info.text import problems_text
from ggscope.cli.output import DATA_LOSS, ERROR, GOOD
from ggscope.cli.reading import failure_json, for_each_file, load
from ggscope.descriptions.completeness import (
    completeness_json,
    completeness_text,
    with_completeness,
)
from ggscope.errors import ReadError, SuffixError, TraceError
from ggscope.exporters.report import policy
from ggscope.model.trace import Severity, Trace
from ggscope.readers.registry import troubles, with_troubles
from ggscope.sanitize import markdown, markdown_row, one_line, xml

_COLUMNS = ("severity", "code", "count", "place", "offset", "message", "remedy")
_STYLE = """body{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}
table{border-collapse:collapse;width:100%}th,td{border-bottom:1px solid #ccc;
padding:.3em .6em;text-align:left;vertical-align:top}code{overflow-wrap:anywhere}
.error,.data_loss{color:#a33b00;font-weight:bold}
@media(prefers-color-scheme:dark){body{background:#1e1e1e;color:#ddd}
.error,.data_loss{color:#ff9d6b}}"""


_Words = Mapping[str, tuple[str, str]]
"""What a report says of a file beside its verdict: a doubt, and how complete it is."""


def run(arguments: Namespace) -> int:
    """Check the files; return the exit code.

    1 where the data breaks a rule of its format, 4 where data was lost and
    ``--strict`` is given, as `output.code_of` where a file cannot be read at all.
    """
    if arguments.report is not None:
        refuse_inputs(arguments.report, arguments.files)
        _writer(arguments.report)  # refuses a name that is of no report
        check_target(arguments.report, overwrite=arguments.force)

    sentences: dict[str, tuple[str, str]] = {}

    def work(path: Path) -> tuple[int, object]:
        trace = with_troubles(load(path, arguments))
        result = completeness(trace)
        trace = with_completeness(trace, result)
        verdict = judge(trace, path)
        verdict["completeness"] = completeness_json(trace, result)
        is_true = all(f.agrees is not False for _, f in trace.stated_figures())
        doubt = complete = ""
        if verdict["ok"] and not is_true:
            doubt = ", but figures that it states do not match its content"
        if len(trace.spans):
            complete = f"Complete: {one_line(completeness_text(result))}."
        sentences[str(path)] = doubt, complete
        if not arguments.json:
            word = "good" if verdict["ok"] else "not good"
            word += doubt
            problems = [warning_json(warning) for warning in trace.warnings]
            text = f"{one_line(str(path))}: {word}\n{problems_text(problems)}"
            if complete:
                text += f"\n{complete}"
            try:
                output.emit(text)
            except BrokenPipeError:
                output.abandon()  # the exit code and the report are still due
        return _code(verdict, is_strict=arguments.strict), verdict

    results = for_each_file(arguments, work, _failed)
    if arguments.json:
        results.emit_json()
    if arguments.report is not None:
        _write_report(
            arguments.report, results.objects, sentences, overwrite=arguments.force
        )
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
        "graph_records": trace.info.records_by_kind.get("graphs", 0),
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
        "graph_records": 0,
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


def _write_report(
    target: Path,
    verdicts: Sequence[object],
    sentences: _Words,
    *,
    overwrite: bool = True,
) -> None:
    """Write what `check` found; the suffix of `target` says how.

    Raises
    ------
    ExportError
        If the suffix is unknown or the file cannot be written.
    """
    text = _writer(target)([v for v in verdicts if isinstance(v, dict)], sentences)
    content = text.encode("utf-8", "backslashreplace")
    write_file(target, content, overwrite=overwrite)


def _writer(target: Path) -> Callable[[list[dict[str, Any]], _Words], str]:
    writers = {".html": _html, ".htm": _html, ".md": _markdown, ".json": _json}
    writer = writers.get(target.suffix.lower())
    if writer is None:
        raise SuffixError("a report", (".html", ".md", ".json"), target)
    return writer


def _json(verdicts: list[dict[str, Any]], _: _Words) -> str:
    return json.dumps(verdicts, indent=2) + "\n"


def _cells(warning: dict[str, Any]) -> list[str]:
    return ["" if warning[c] is None else str(warning[c]) for c in _COLUMNS]


def _markdown(verdicts: list[dict[str, Any]], sentences: _Words) -> str:
    lines = ["# Check report", "", f"ggscope {__version__}", ""]
    for verdict in verdicts:
        lines += [
            f"## {markdown(verdict['path'], any_dialect=True)}",
            "",
            markdown(_summary(verdict, sentences), any_dialect=True),
            "",
        ]
        if not verdict["warnings"]:
            continue
        lines += [markdown_row(_COLUMNS), "| --- " * len(_COLUMNS) + "|"]
        lines += [
            markdown_row(_cells(w), any_dialect=True) for w in verdict["warnings"]
        ]
        lines.append("")
    return "\n".join(lines)


def _html(verdicts: list[dict[str, Any]], sentences: _Words) -> str:
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy(_STYLE)}">',
        f"<title>ggscope check report</title><style>{_STYLE}</style></head><body>",
        f"<h1>Check report</h1><p>ggscope {xml(__version__)}</p>",
    ]
    for verdict in verdicts:
        parts.append(f"<h2><code>{xml(verdict['path'])}</code></h2>")
        parts.append(f"<p>{xml(_summary(verdict, sentences))}</p>")
        if verdict["warnings"]:
            head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>")
            for warning in verdict["warnings"]:
                cells = "".join(f"<td>{xml(c)}</td>" for c in _cells(warning))
                kind = xml(str(warning["severity"]))
                cells = cells.replace("<td>", f'<td class="{kind}">', 1)
                parts.append(f"<tr>{cells}</tr>")
            parts.append("</tbody></table>")
    parts.append("</body></html>\n")
    return "\n".join(parts)


def _summary(verdict: dict[str, Any], sentences: _Words) -> str:
    if verdict.get("error") is not None:
        return "Not good: the file could not be read."
    doubt, complete = sentences[verdict["path"]]
    word = ("Good" if verdict["ok"] else "Not good") + doubt
    n_records = verdict["records"] - verdict["graph_records"]
    sentence = (
        f"{word}: {n_records:,} records, "
        f"{verdict['spans']:,} spans, read as {verdict['reader']}."
    )
    return f"{sentence} {complete}".rstrip()
