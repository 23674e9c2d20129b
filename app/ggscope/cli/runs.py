"""``ggscope runs``: a table of the runs in a folder."""

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ggscope import __version__
from ggscope.cli import output
from ggscope.cli.output import ERROR, GOOD
from ggscope.cli.reading import Progress
from ggscope.descriptions.coverage import omission_text
from ggscope.descriptions.runs import (
    command_differences,
    run_columns,
    run_name,
    run_rows,
)
from ggscope.errors import QueryError
from ggscope.model.units import format_counted
from ggscope.readers.discovery import RunFolder, run_folder
from ggscope.run_summaries import RunSummary, SummaryCache, default_cache, summaries
from ggscope.sanitize import one_line

_HIDDEN = ("format",)
"""Columns that the terminal has no room for."""


def run(arguments: Namespace) -> int:
    """List the runs of a folder; return `ERROR` where one cannot be read."""
    folder: Path = arguments.folder
    if not os.path.isdir(folder):
        raise QueryError(f"{folder} is not a folder.")
    with Progress(folder.name) as progress:
        update = progress.update if progress.is_shown else None
        folder_of_runs = run_folder(folder)
        cache = None if arguments.no_cache else default_cache(__version__)
        runs = _summaries(folder_of_runs, cache, arguments, update)
    _sort(folder, runs, arguments.sort)
    if arguments.json:
        output.emit_json(runs_json(folder_of_runs, runs))
    else:
        _print(folder_of_runs, runs)
    return ERROR if any(run.error for run in runs) else GOOD


def _summaries(
    folder: RunFolder, cache: SummaryCache | None, arguments: Namespace, update: Any
) -> list[RunSummary]:
    reads = not arguments.quick
    try:
        # Of each run the last summary is the one that knows most.
        known = dict(summaries(folder, cache, reads_events=reads, progress=update))
    finally:
        if cache is not None:
            cache.save()
    return [known[i] for i in range(len(folder.runs))]


def _sort(folder: Path, runs: list[RunSummary], key: str) -> None:
    """Sort by a column: numbers the largest first, what is not known last."""
    columns = [column.key for column in run_columns(runs)]
    if key not in columns:
        raise QueryError(f"no column {key}; there are {', '.join(columns)}.")
    if key == "run":
        return
    keys = [row[key].sort for row in run_rows(folder, runs)]

    def rank(i: int) -> tuple[bool, float, str]:
        value = keys[i]
        if isinstance(value, str):
            return (False, 0.0, value.casefold())
        return (value is None, -(value or 0.0), "")

    runs[:] = [runs[i] for i in sorted(range(len(runs)), key=rank)]


def runs_json(folder: RunFolder, runs: Sequence[RunSummary]) -> dict[str, object]:
    """Return what ``runs --json`` prints."""
    differences = command_differences([run.command for run in runs])
    return {
        "folder": str(folder.folder),
        "runs": [
            _run_json(folder.folder, run, differs)
            for run, differs in zip(runs, differences, strict=True)
        ],
        "skipped": [{"file": str(s.path), "why": s.reason} for s in folder.skipped],
        "not_looked_at": folder.n_left,
    }


def _run_json(folder: Path, run: RunSummary, differs: str) -> dict[str, object]:
    omissions = run.omissions
    families = None
    if run.families is not None:
        unit = "ns" if run.ticks_per_s == 1e9 else "cycle"
        families = {name: {f"total_{unit}": ticks} for name, ticks in run.families}
    return {
        "run": run_name(folder, run),
        "path": str(run.path),
        "format": run.format or None,
        "producer": run.facts,
        "model": run.model or None,
        "command": run.command or None,
        "differs": differs or None,
        "prompt": run.prompt,
        "generated": run.generated,
        "prompt_per_s": run.prompt_per_s,
        "generated_per_s": run.generated_per_s,
        "threads": run.threads,
        "families": families,
        "whole": None if omissions is None else not omissions,
        "left_out": None if omissions is None else list(map(omission_text, omissions)),
        "bytes": run.size,
        "began": run.facts.get("began"),
        "modified_ns": run.modified_ns or None,
        "events_read": run.is_read,
        "error": run.error or None,
    }


def _print(folder: RunFolder, runs: Sequence[RunSummary]) -> None:
    if not runs:
        output.emit(f"No runs in {one_line(str(folder.folder))}.")
    else:
        columns = [c for c in run_columns(runs) if c.key not in _HIDDEN]
        rows = run_rows(folder.folder, runs)
        left = [i for i, column in enumerate(columns) if not column.is_number]
        cells = [[row[column.key].text for column in columns] for row in rows]
        output.emit(output.table([c.title for c in columns], cells, left=left))
    for run in runs:
        if run.error:
            output.emit(one_line(f"{run_name(folder.folder, run)}: {run.error}"))
    n = len(folder.skipped)
    if n:
        reason = folder.skipped[0]
        names = f"{reason.path.name}: {reason.reason}"
        output.say(f"{format_counted(n, 'file')} skipped, such as {one_line(names)}")
    if folder.n_left:
        output.say(f"{format_counted(folder.n_left, 'file')} more not looked at.")
