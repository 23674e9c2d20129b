"""Reports of ``ggscope check`` as HTML, Markdown or JSON."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ggscope import __version__
from ggscope.errors import ExportError
from ggscope.text import markdown, markdown_row, xml
from ggscope.writing import check_target, write_file

_COLUMNS = ("severity", "code", "count", "place", "offset", "message", "remedy")
_STYLE = """body{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}
table{border-collapse:collapse;width:100%}th,td{border-bottom:1px solid #ccc;
padding:.3em .6em;text-align:left;vertical-align:top}code{overflow-wrap:anywhere}
.error,.data_loss{color:#a33b00;font-weight:bold}
@media(prefers-color-scheme:dark){body{background:#1e1e1e;color:#ddd}
.error,.data_loss{color:#ff9d6b}}"""


def check_report(target: Path, *, overwrite: bool) -> None:
    """Refuse a report that cannot be written; raises ExportError."""
    _writer(target)
    check_target(target, overwrite=overwrite)


def write_report(
    target: Path, verdicts: Sequence[object], *, overwrite: bool = True
) -> None:
    """Write what `check` found; the suffix of `target` says how.

    Raises
    ------
    ExportError
        If the suffix is unknown or the file cannot be written.
    """
    text = _writer(target)([v for v in verdicts if isinstance(v, dict)])
    content = text.encode("utf-8", "backslashreplace")
    write_file(target, content, overwrite=overwrite)


def _writer(target: Path) -> Callable[[list[dict[str, Any]]], str]:
    writers = {".html": _html, ".htm": _html, ".md": _markdown, ".json": _json}
    writer = writers.get(target.suffix.lower())
    if writer is None:
        raise ExportError(
            f"{target.name}: a report can be .html, .md or .json, not "
            f"{target.suffix or 'a file without a suffix'}."
        )
    return writer


def _json(verdicts: list[dict[str, Any]]) -> str:
    return json.dumps(verdicts, indent=2) + "\n"


def _cells(warning: dict[str, Any]) -> list[str]:
    return ["" if warning[c] is None else str(warning[c]) for c in _COLUMNS]


def _markdown(verdicts: list[dict[str, Any]]) -> str:
    lines = ["# Check report", "", f"ggscope {__version__}", ""]
    for verdict in verdicts:
        lines += [
            f"## {markdown(verdict['path'], any_dialect=True)}",
            "",
            _summary(verdict),
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


def _html(verdicts: list[dict[str, Any]]) -> str:
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f"<title>ggscope check report</title><style>{_STYLE}</style></head><body>",
        f"<h1>Check report</h1><p>ggscope {xml(__version__)}</p>",
    ]
    for verdict in verdicts:
        parts.append(f"<h2><code>{xml(verdict['path'])}</code></h2>")
        parts.append(f"<p>{xml(_summary(verdict))}</p>")
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


def _summary(verdict: dict[str, Any]) -> str:
    if verdict.get("error") is not None:
        return "Not good: the file could not be read."
    word = "Good" if verdict["ok"] else "Not good"
    return (
        f"{word}: {verdict['records']:,} records, {verdict['spans']:,} spans, read as "
        f"{verdict['reader']}."
    )
