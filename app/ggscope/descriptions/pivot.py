"""Cells of pivot tables as texts; window and command line share them."""

import math
from collections.abc import Mapping

from ggscope.analysis.statistics.pivot import Pivot, PivotMeasure
from ggscope.descriptions.groupings import GROUPINGS
from ggscope.descriptions.statistics import GROUPING_RULES, StatCell, exact_time
from ggscope.model.units import (
    NOT_AVAILABLE,
    Unit,
    format_bytes,
    format_count,
    format_duration,
    format_exact_bytes,
    format_share,
)

MEASURES: Mapping[PivotMeasure, str] = {
    "total": "time",
    "share": "share",
    "mean": "mean time",
    "count": "spans",
    "ops": "ops",
    "bytes": "bytes",
}
"""What people call the measures."""
_TIPS: Mapping[PivotMeasure, str] = {
    "total": "Sum of the durations",
    "share": "Share of the total of all cells",
    "mean": "Mean duration",
    "count": "Number of spans",
    "ops": "Number of ops; an op that several threads compute counts once",
    "bytes": "Known bytes of all accesses",
}


def pivot_title(table: Pivot, measure: PivotMeasure) -> str:
    """Return "time by layer and op"."""
    across = GROUPINGS[table.across]
    return f"{MEASURES[measure]} by {GROUPINGS[table.by]} and {across}"


def pivot_tip(table: Pivot, measure: PivotMeasure) -> str:
    """Return what a cell is, and how ops are attributed."""
    rules = (GROUPING_RULES.get(by, "") for by in (table.by, table.across))
    return "\n".join([f"{_TIPS[measure]}.", *filter(None, rules)])


def pivot_cells(
    table: Pivot, measure: PivotMeasure, unit: Unit
) -> list[list[StatCell]]:
    """Return the cells, the sums of all last; without spans they are empty."""
    rows = zip(table.values(measure).tolist(), table.count.tolist(), strict=True)
    return [
        [_cell(v, n, measure, unit) for v, n in zip(values, counts, strict=True)]
        for values, counts in rows
    ]


def _cell(value: float, n_spans: int, measure: PivotMeasure, unit: Unit) -> StatCell:
    if math.isnan(value):
        return StatCell(NOT_AVAILABLE if n_spans else "")
    if measure == "share":
        raw = round(value, 6)
        return StatCell(format_share(value), value, f"{100 * value:.9g} %", raw)
    if measure == "bytes":
        n = int(value)
        return StatCell(format_bytes(n), value, format_exact_bytes(n), n)
    if measure in ("count", "ops"):
        return StatCell(format_count(int(value)), value, "", int(value))
    raw = int(value) if value.is_integer() else round(value, 1)
    return StatCell(format_duration(value, unit), value, exact_time(value, unit), raw)


def pivot_notes(table: Pivot, measure: PivotMeasure) -> list[str]:
    """Return sentences on columns; those on rows are as of other statistics."""
    lines = [GROUPING_RULES[table.across]] if table.across in GROUPING_RULES else []
    if measure == "bytes" and table.bytes[-1, -1] < 0:
        lines.append("The bytes that each thread moves are not recorded.")
    return lines
