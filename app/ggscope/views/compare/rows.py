"""Rows of the tables of the comparison: changes, shares, what has no match."""

from collections.abc import Sequence

from ggscope.analysis.compare.compare import Bound, CompareRow, Comparison
from ggscope.analysis.compare.matching import ShareRow
from ggscope.descriptions.compare import (
    ABSENCES,
    change_text,
    noise_text,
    row_relative_text,
    share_text,
    side_spread_text,
    side_text,
    unmatched_tokens,
)
from ggscope.descriptions.groupings import GROUPINGS
from ggscope.model.selection import By
from ggscope.model.units import Unit, format_count
from ggscope.views.base.text_table import Cell, Heading


def change_headings(by: By, measure: str, *, has_spread: bool) -> list[Heading]:
    """Return the columns of changes; `has_spread` with several runs of a side."""
    of_side = f"\n{measure[:1].upper()}{measure[1:]}" if measure else ""
    effect = "sorted by its size"
    headings = [
        Heading(GROUPINGS[by], "What any run has", 160, stretch=True),
        Heading("A", f"This run{of_side}", 80, right=True, largest_first=True),
        Heading("B", f"The other run{of_side}", 80, right=True, largest_first=True),
        Heading("change", f"B − A, {effect}", 84, right=True, largest_first=True),
        Heading(
            "relative", f"Change as a share of A, {effect}", 84, right=True,
            largest_first=True,
        ),
    ]  # fmt: skip
    if has_spread:
        tip = "Least and most over the runs of {}; where both ranges overlap, a change "
        headings += [
            Heading(f"{side} range", tip.format(side) + "is noise", 150, right=True)
            for side in "AB"
        ]
    return headings


def change_cells(
    row: CompareRow,
    unit: Unit,
    title: str = "",
    *,
    has_spread: bool = False,
    bound: Bound = "",
) -> tuple[Cell, ...]:
    """Return the cells of a row, greyed where the change is noise.

    Parameters
    ----------
    bound : what changes of recorded times mean, see `Comparison.bound`.
    """
    a, b, change, relative = row.a.value, row.b.value, row.change, row.relative
    is_dim = bool(row.is_noise) and not title
    tip = noise_text(row) if change else ""
    why = "" if row.absence is None else ABSENCES[row.absence]
    shown = change_text(change, unit, bound)
    times = (
        Cell(
            side_text(row, side, unit), value, _raw(value),
            tip="" if side.is_there else why, is_dim=is_dim,
        )
        for side, value in ((row.a, a), (row.b, b))
    )  # fmt: skip
    cells = [
        Cell(title or row.key, None if title else row.key, is_dim=is_dim),
        *times,
        Cell(
            shown, _size(change), _raw(change), f"{shown}, {tip}" if tip else "",
            is_dim=is_dim,
        ),
        Cell(
            row_relative_text(row, bound), _size(relative), _raw(relative),
            is_dim=is_dim,
        ),
    ]  # fmt: skip
    if has_spread:
        for side in (row.a, row.b):
            low = None if side.spread is None else side.spread[0]
            cells.append(Cell(side_spread_text(side, unit), low, is_dim=is_dim))
    return tuple(cells)


def share_headings(by: By) -> list[Heading]:
    """Return the columns of counts and shares, which need no common clock."""
    return [
        Heading(GROUPINGS[by], "What either run has", 160, stretch=True),
        Heading("A spans", "Spans of A", 80, right=True, largest_first=True),
        Heading("B spans", "Spans of B", 80, right=True, largest_first=True),
        Heading("A share", "Of A's own time", 84, right=True, largest_first=True),
        Heading("B share", "Of B's own time", 84, right=True, largest_first=True),
    ]


def share_cells(row: ShareRow) -> tuple[Cell, ...]:
    """Return the cells of a row of counts and shares."""
    return (
        Cell(row.key, row.key),
        Cell(format_count(round(row.count_a)), row.count_a, row.count_a),
        Cell(format_count(round(row.count_b)), row.count_b, row.count_b),
        Cell(share_text(row.share_a), row.share_a, _raw(row.share_a)),
        Cell(share_text(row.share_b), row.share_b, _raw(row.share_b)),
    )


UNMATCHED_HEADINGS = (
    Heading("what", "Token, or what rows are grouped by", 90),
    Heading("name", "", 220, stretch=True),
    Heading("only in", "Which side has it", 80),
    Heading("why", "What is known of the other side", 190, is_text=True),
)


def unmatched_rows(comparison: Comparison) -> list[tuple[Cell, ...]]:
    """Return a row for each token and group that is not compared."""
    rows = list[tuple[Cell, ...]]()
    noun, bars = GROUPINGS[comparison.by], comparison.alignment.runs[0].bars.noun
    *alone, some = unmatched_tokens(comparison)
    sides = zip(
        "AB", alone, (comparison.only_a, comparison.only_b),
        reversed(comparison.hidden), strict=True,
    )  # fmt: skip
    for name, tokens, keys, hidden in sides:
        for what, missing, reason in (
            (bars, tokens, hidden.tokens),
            (noun, keys, comparison.absence_reason(hidden)),
        ):
            why = ABSENCES[hidden.absence(reason)]
            rows += _rows(what, missing, name, why, reason)
    rows += _rows(bars, some, "both", "not in every run")
    if comparison.is_comparable:
        rows += _rows(noun, comparison.untimed, "both", "no known time on a side")
    return rows


def _rows(
    what: str, keys: Sequence[str], side: str, why: str, reason: str = ""
) -> list[tuple[Cell, ...]]:
    tip = f"{why}: {reason}" if reason else why
    return [
        (Cell(what, what), Cell(key, key), Cell(side, side), Cell(why, why, tip=tip))
        for key in keys
    ]


def _size(value: float | None) -> float | None:
    return None if value is None else abs(value)


def _raw(value: float | None) -> float | str:
    """Return a plain number; "" for what is not known."""
    return "" if value is None else value
