"""``ggscope diff``: what changed from one run, or set of runs, to another."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from ggscope.analysis.compare.compare import Bound, CompareRow, Comparison, compare
from ggscope.cli import output
from ggscope.cli.output import GOOD, message_of
from ggscope.cli.reading import load
from ggscope.descriptions.compare import (
    MEASURES,
    change_text,
    headline,
    limits_text,
    matching_text,
    only_text,
    row_relative_text,
    shares_text,
    side_text,
    spread_text,
)
from ggscope.descriptions.groupings import GROUPINGS
from ggscope.errors import TraceError
from ggscope.exporters.diff_json import diff_json
from ggscope.model.trace import Trace
from ggscope.model.units import Unit, format_count
from ggscope.readers.discovery import runs_of_side
from ggscope.sanitize import one_line

EQUAL, DIFFERENT, NOT_COMPARABLE = GOOD, 1, 2
_MAX_SHOWN = 30


def run(arguments: Namespace) -> int:
    """Compare two sides; return `EQUAL`, `DIFFERENT` or `NOT_COMPARABLE`.

    What cannot be read cannot be compared: it is no difference.
    """
    try:
        sides = [runs_of_side(path) for path in arguments.files]
        traces = [[load(path, arguments) for path in side] for side in sides]
    except TraceError as error:
        output.complain(message_of(error))
        if arguments.json:
            reason = message_of(error)
            output.emit_json({"comparable": False, "reason": reason, "rows": []})
        return NOT_COMPARABLE
    comparison = compare(
        traces[0],
        traces[1],
        arguments.by,
        align_by=arguments.align,
        tolerance=arguments.tol,
    )
    if arguments.json:
        names = ([str(path) for path in side] for side in sides)
        paths = dict(zip("ab", names, strict=True))
        output.emit_json({**paths, **diff_json(comparison)})
    else:
        _print(comparison, traces, sides, arguments)
    if not comparison.is_comparable:
        return NOT_COMPARABLE
    return EQUAL if comparison.is_equal else DIFFERENT


def _print(
    comparison: Comparison,
    traces: Sequence[Sequence[Trace]],
    sides: Sequence[Sequence[Path]],
    arguments: Namespace,
) -> None:
    unit: Unit = traces[0][0].clock.unit
    for name, given, side in zip("AB", arguments.files, sides, strict=True):
        more = f" ({format_count(len(side))} runs)" if len(side) > 1 else ""
        output.emit(one_line(f"{name}  {given}{more}"))
    output.emit(one_line(headline(comparison, unit)))
    limits = limits_text(comparison, unit, traces[0][0].clock.hz)
    limit = arguments.limit or _MAX_SHOWN
    if not comparison.is_comparable:
        _print_shares(comparison, limits, limit)
        return
    output.emit(matching_text(comparison))
    for line in limits:
        output.emit(one_line(line))
    if comparison.parts:
        output.emit("")
        output.emit(_table("per thread", comparison.parts, unit))
    if comparison.rows:
        output.emit("")
        noun = GROUPINGS[comparison.by]
        output.emit(_table(noun, comparison.rows[:limit], unit, comparison.bound))
        output.emit_more(len(comparison.rows) - limit)
    for line in only_text(comparison):
        output.emit(one_line(line))
    output.say(f"note: times are the {MEASURES[comparison.measure]}.")


def _print_shares(comparison: Comparison, limits: list[str], limit: int) -> None:
    """Print what needs no common clock: counts and shares of time."""
    for line in [*limits, *only_text(comparison)]:
        output.emit(one_line(line))
    rows = comparison.shares[:limit]
    if rows:
        output.emit("\nCounts and shares of each side's own time:\n")
        head = [GROUPINGS[comparison.by], "A", "B", "A share", "B share"]
        output.emit(output.table(head, [list(row) for row in shares_text(rows)]))
    if (left := len(comparison.shares) - len(rows)) > 0:
        output.emit(f"… and {format_count(left)} more; --json lists all of them")


def _table(noun: str, rows: Sequence[CompareRow], unit: Unit, bound: Bound = "") -> str:
    has_spread = any(spread_text(row, unit) for row in rows)
    head = [noun, "A", "B", "change", "", ""]
    head += ["range of runs"] if has_spread else []
    cells = [
        [
            row.key,
            side_text(row, row.a, unit),
            side_text(row, row.b, unit),
            change_text(row.change, unit, bound),
            row_relative_text(row, bound),
            "noise" if row.is_noise and row.change else "",
            *([spread_text(row, unit)] if has_spread else []),
        ]
        for row in rows
    ]
    return output.table(head, cells, left=(0, 5, 6) if has_spread else (0, 5))
