"""A table of runs: its columns and the texts of its cells, for window and terminal."""

import datetime
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from ggscope.analysis.completeness.coverage import TraceCoverage
from ggscope.descriptions.coverage import coverage_text
from ggscope.model.ggml.ops import FAMILIES
from ggscope.model.units import (
    NOT_AVAILABLE,
    Unit,
    format_both_bytes,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_share,
)
from ggscope.run_summaries import RunSummary
from ggscope.sanitize import Value

_OPTION = re.compile(r"^--?[A-Za-z]")
_MAX_DIFFERENCES = 3
Side = Literal["A", "B", ""]
"""Of a comparison; "" = left out."""
SIDES: tuple[Side, ...] = get_args(Side)
_WHOLE, _PARTIAL, _NOT_STATED = "complete", "partial", "not stated"


@dataclass(frozen=True, slots=True)
class RunColumn:
    """A column of the table.

    Attributes
    ----------
    key : in JSON, and what it can be sorted by.
    is_number : whether it is flush right, and the largest comes first.
    """

    key: str
    title: str
    tip: str
    width: int
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class RunCell:
    """A cell of the table.

    Attributes
    ----------
    text : as people read it.
    sort : what it is sorted by; None = not known.
    raw : for spreadsheets.
    tip : every digit, or the reason.
    share : of a whole, for a bar; 0 = none.
    """

    text: str
    sort: float | str | None = None
    raw: Value = None
    tip: str = ""
    is_caution: bool = False
    share: float = 0.0


def run_columns(runs: Sequence[RunSummary]) -> tuple[RunColumn, ...]:
    """Return the columns of a table of runs, one for each op family of any run."""
    tip = "Thread time of the family's ops, summed over threads"
    families = [
        RunColumn(f"time_{name}", name, tip, 84, is_number=True)
        for name in shown_families(runs)
    ]
    return (
        RunColumn("run", "run", "Path below the folder", 170),
        RunColumn("differs", "differs in", "Options that differ", 120),
        RunColumn("producer", "producer", "Program that was recorded", 110),
        RunColumn("model", "model", "Model file", 110),
        RunColumn("generated_per_s", "generated/s",
                  "Generated tokens per second of computing", 88, is_number=True),
        RunColumn("prompt_per_s", "prompt/s",
                  "Prompt tokens per second of computing", 80, is_number=True),
        RunColumn("generated", "generated", "Generated tokens", 72, is_number=True),
        RunColumn("prompt", "prompt", "Prompt tokens", 64, is_number=True),
        RunColumn("threads", "threads", "Threads of which ops are recorded", 60,
                  is_number=True),
        *families,
        RunColumn("recording", "recording",
                  "Whether the recording states that it leaves nothing out", 84),
        RunColumn("size", "size", "Size of its traces", 76, is_number=True),
        RunColumn("date", "date",
                  "When the run began (UTC); ~ when its file was written", 130,
                  is_number=True),
        RunColumn("format", "format", "Format of the trace", 150),
    )  # fmt: skip


def shown_families(runs: Sequence[RunSummary]) -> tuple[str, ...]:
    """Return the op families that any run has, in the order of legends."""
    present = {name for run in runs for name, _ in run.families or ()}
    return tuple(name for name in FAMILIES if name in present)


def run_rows(folder: Path, runs: Sequence[RunSummary]) -> list[dict[str, RunCell]]:
    """Return the cells of each run by the keys of `run_columns`."""
    differences = run_differences(runs)
    families = shown_families(runs)
    return [
        _cells(folder, run, differs, families)
        for run, differs in zip(runs, differences, strict=True)
    ]


def run_name(folder: Path, run: RunSummary) -> str:
    """Return the path of a run below its folder."""
    name = os.path.relpath(run.path, folder)
    return folder.name if name == "." else name


def run_differences(runs: Sequence[RunSummary]) -> list[str]:
    """Return what distinguishes each run from the others; "" where it is not known."""
    return command_differences([run.command for run in runs])


def proposed_sides(folder: Path, runs: Sequence[RunSummary]) -> tuple[Side, ...]:
    """Return a side for each run, where they are of two folders or two command lines.

    The first run is of A. All are left out where they are of more kinds, or of one;
    those that cannot be read are in any case.
    """
    readable = [run for run in runs if not run.error]
    folders = [os.path.dirname(run_name(folder, run)) for run in readable]
    for kinds in (folders, run_differences(readable)):
        if len(set(kinds)) == 2:
            sides: dict[Path, Side] = {
                run.path: "A" if kind == kinds[0] else "B"
                for run, kind in zip(readable, kinds, strict=True)
            }
            return tuple(sides.get(run.path, "") for run in runs)
    return tuple("" for _ in runs)


def side_title(runs: Sequence[Path]) -> str:
    """Return what several runs are called: their folder; of several, "1.bin …"."""
    if len(runs) == 1:
        return runs[0].name
    folders = {run.parent for run in runs}
    return runs[0].parent.name if len(folders) == 1 else f"{runs[0].name} …"


def _cells(
    folder: Path, run: RunSummary, differs: str, families: Sequence[str]
) -> dict[str, RunCell]:
    name = run_name(folder, run)
    program = Path(run.facts.get("program", "")).name
    producer = program or run.facts.get("producer", "")
    known = "\n".join(f"{key} {value}" for key, value in run.facts.items())
    cells = {
        "run": RunCell(name, name, tip=run.error or str(run.path),
                       is_caution=bool(run.error)),
        "differs": RunCell(differs or "–", differs or None, differs, run.command),
        "producer": RunCell(producer or NOT_AVAILABLE, producer or None, producer,
                            known),
        "model": RunCell(run.model or NOT_AVAILABLE, run.model or None, run.model),
        "generated_per_s": _rate(run.generated_per_s),
        "prompt_per_s": _rate(run.prompt_per_s),
        "generated": _count(run.generated),
        "prompt": _count(run.prompt),
        "threads": _count(run.threads),
        "recording": _recording(run),
        "size": RunCell(format_bytes(run.size), run.size, run.size,
                        format_both_bytes(run.size)),
        "date": _date(run),
        "format": RunCell(run.format or NOT_AVAILABLE, run.format or None, run.format),
    }  # fmt: skip
    times = dict(run.families or ())
    for family in families:
        cells[f"time_{family}"] = _time(run, times.get(family))
    return cells


def _rate(rate: float | None) -> RunCell:
    if rate is None:
        return RunCell(NOT_AVAILABLE, raw="")
    text = f"{rate:,.1f}" if rate < 1000 else f"{rate:,.0f}"
    return RunCell(text, rate, rate, f"{rate:,.3f} tokens/s")


def _count(n: int | None) -> RunCell:
    if n is None:
        return RunCell(NOT_AVAILABLE, raw="")
    return RunCell(format_count(n), n, n)


def _time(run: RunSummary, ticks: int | None) -> RunCell:
    if run.families is None:
        is_pending = not run.is_read and not run.error
        return RunCell("…" if is_pending else NOT_AVAILABLE, raw="")
    if ticks is None and run.omissions != ():
        return RunCell("–", raw="", tip="No op of this family is recorded")
    ticks, total = ticks or 0, run.total
    share = ticks / total if total else 0.0
    unit: Unit = "ns" if run.ticks_per_s == 1e9 else "cycle"
    tip = f"{format_exact(ticks, unit)}, {format_share(share)} of the time of all ops"
    return RunCell(format_duration(ticks, unit), ticks, ticks, tip, share=share)


def _recording(run: RunSummary) -> RunCell:
    if run.error:
        return RunCell("error", "error", run.error, run.error, is_caution=True)
    if run.omissions:
        text = coverage_text(TraceCoverage(run.omissions))
        return RunCell(_PARTIAL, _PARTIAL, _PARTIAL, text)
    if run.omissions is None:
        is_pending = not run.is_read
        return RunCell("…" if is_pending else _NOT_STATED, None, "")
    return RunCell(_WHOLE, _WHOLE, _WHOLE)


def _date(run: RunSummary) -> RunCell:
    """Return when a run began, else when its file was written: that has a tilde."""
    began = run.facts.get("began", "")
    try:
        when = datetime.datetime.fromisoformat(began)
    except ValueError:
        if not run.modified_ns:
            return RunCell(NOT_AVAILABLE, raw="")
        seconds = run.modified_ns / 1e9
        when = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        text = f"~{when:%Y-%m-%d %H:%M}"
        return RunCell(text, seconds, text[1:], "When the file was written (UTC)")
    text = f"{when:%Y-%m-%d %H:%M}"
    return RunCell(text, when.timestamp(), began, f"{began}: when the run began")


def command_differences(commands: Sequence[str]) -> list[str]:
    """Return what distinguishes each command line from the others: ``-t 2``, ``-t 1``.

    Programs are compared by the last part of their paths that differs. Of paths the
    name is stated, of many options the first three. "" where nothing differs, or the
    command is not known.
    """
    known = [_options(command) for command in commands]
    programs = _distinct_programs([command.split(" ")[0] for command in commands])
    names = dict.fromkeys(name for options in known for name in options)
    differing = [
        name
        for name in names
        if len({o.get(name) for o, c in zip(known, commands, strict=True) if c}) > 1
    ]
    differences = []
    for command, options, program in zip(commands, known, programs, strict=True):
        parts = [program] if program else []
        parts += [
            f"{name} {options[name]}".strip() if name in options else f"no {name}"
            for name in differing
        ]
        differences.append(" ".join(parts[:_MAX_DIFFERENCES]) if command else "")
    return differences


def _options(command: str) -> dict[str, str]:
    """Return the values of options by their names, "" for those without.

    The text of a command line has no quotes: a value goes on to the next option.
    """
    options: dict[str, str] = {}
    name = ""
    for word in command.split(" ")[1:]:
        if _OPTION.match(word):
            name = word
            options[name] = ""
        elif name:
            options[name] = f"{options[name]} {word}".strip()
    return {
        name: os.path.basename(value) or value if "/" in value else value
        for name, value in options.items()
    }


def _distinct_programs(programs: Sequence[str]) -> list[str]:
    """Return the nearest part of each path that differs; "" where all are alike."""
    if len(set(filter(None, programs))) < 2:
        return ["" for _ in programs]
    parts = [Path(program).parts[::-1] for program in programs]
    depth = max(map(len, parts))
    for up in range(depth):
        names = [part[up] if up < len(part) else "" for part in parts]
        if len(set(names)) > 1:
            return names
    return list(programs)
