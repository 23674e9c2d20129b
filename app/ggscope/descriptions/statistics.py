"""Statistics as texts: cells of their tables, and notes on what is counted.

Window, command line, report and figures share them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ggscope.analysis.completeness.coverage import trace_coverage
from ggscope.analysis.statistics.columns import (
    StatColumn,
    StatFacts,
    rate_per_unit,
    shown_columns,
)
from ggscope.analysis.statistics.table import StatRow, StatTable
from ggscope.descriptions.coverage import left_out_text
from ggscope.descriptions.groupings import GROUPINGS
from ggscope.descriptions.spans import PENDING, summed_wait_text
from ggscope.descriptions.times import time_notes
from ggscope.model.selection import By
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    UNITS,
    Unit,
    format_byte_rate,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_exact_bytes,
    format_share,
)

GROUPING_RULES: Mapping[By, str] = {
    "tensor": (
        "Each op is attributed to one weight, the one that it reads most bytes of (of "
        "equals the first), with all of its time and bytes. Ops that read no weight "
        "have a row of their own; where reads are not recorded, an op counts on the "
        "tensor that it computes. The rows add up to the ops."
    ),
    "type": (
        "Each op is attributed to the type of the weight that it reads most bytes of, "
        "with all of its time and bytes; the rows add up to the ops."
    ),
    "shape": (
        "Each op is attributed to the shape of the weight that it reads most bytes of, "
        "with all of its time and bytes; the rows add up to the ops."
    ),
    "name": (
        "Names of tensors that ops compute, without the number of the layer, "
        "which * stands for."
    ),
    "expert": (
        "The time of an op on several experts is shared out among them by the bytes "
        "that it reads of each, evenly where these are unknown. This is an estimate; "
        "the rows add up to the ops. Ops without experts have a row of their own."
    ),
    "source": (
        "An op counts in full for each source that it accesses: the rows add up to "
        "more than the run."
    ),
}
"""How ops are attributed, for groupings in which an op may be in several groups."""


_SUMMED = ("total", "share", "self", "in_range")
"""Columns that split a time."""


def group_noun(facts: StatFacts) -> str:
    """Return what a group is: "op", "layer", "ubatch" …."""
    if facts.by == "token" and facts.counts_ubatches:
        return "ubatch"
    return GROUPINGS[facts.by]


def headed_columns(facts: StatFacts) -> tuple[StatColumn, ...]:
    """Return the columns of a table, the first one headed by what a group is."""
    first, *others = shown_columns(facts)
    rule = GROUPING_RULES.get(facts.by, "")
    return (
        replace(first, title=group_noun(facts), tooltip=rule),
        *(replace(c, tooltip=column_tip(c, facts.by)) for c in others),
    )


def column_tip(column: StatColumn, by: By) -> str:
    """Return what a column means, and what its rows add up to."""
    if column.key in _SUMMED:
        rule = GROUPING_RULES.get(by, "Each span counts in one row; the rows add up.")
        return f"{column.tooltip}.\n{rule}"
    if column.key == "busy":
        return f"{column.tooltip}.\nRows may run at once: they add up to more than all."
    return column.tooltip


@dataclass(frozen=True, slots=True)
class StatCell:
    """A value as text.

    Attributes
    ----------
    value : to sort by; None where unknown.
    exact : every digit, and details; "" where `text` has them all.
    raw : a plain number in the unit of the column; None where not known exactly.
    """

    text: str
    value: float | str | None = None
    exact: str = ""
    raw: float | None = None


def stat_cell(column: StatColumn, row: StatRow, facts: StatFacts) -> StatCell:
    """Return a cell of a table; an unknown value reads "N/A"."""
    value = column.value(row)
    if column.unit in ("bytes", "rate") and facts.bytes == "pending":
        return StatCell("…", exact=PENDING)
    if value is None:
        return StatCell(NOT_AVAILABLE, exact=_why_unknown(column, row))
    if isinstance(value, str):
        number = float(value) if column.key == "key" and value.isdecimal() else value
        return StatCell(value or NOT_AVAILABLE, number)
    if column.unit == "count":
        exact = _count_details(row) if column.key == "count" else ""
        return StatCell(format_count(int(value)), value, exact, value)
    if column.unit == "share":
        exact = f"{100 * value:.9g} %"
        return StatCell(format_share(value), value, exact, round(value, 6))
    if column.unit == "rate":
        return _rate_cell(row, value, facts)
    if column.key == "unknown" and not value:
        return StatCell("")
    if column.unit == "bytes":
        at_most = "≤ " if column.key == "unknown" else ""
        exact = at_most + format_exact_bytes(int(value))
        return StatCell(at_most + format_bytes(int(value)), value, exact, value)
    raw = int(value) if float(value).is_integer() else round(value, 1)
    exact = exact_time(value, facts.unit)
    if column.key in ("wait", "wait_mean"):
        text = summed_wait_text(value, row.longest_waits, facts.unit)
        if row.longest_waits:
            n = format_count(row.longest_waits)
            exact += f"; {n} waits were longer than can be recorded"
        return StatCell(text, value, exact, raw)
    return StatCell(format_duration(value, facts.unit), value, exact, raw)


def _rate_cell(row: StatRow, value: float, facts: StatFacts) -> StatCell:
    text = format_byte_rate(value, facts.unit, facts.hz)
    ticks = format_exact(row.op_ticks or 0, facts.unit)
    exact = f"{format_exact_bytes(row.op_bytes)} in {ticks}"
    if row.rate is None:
        n = format_count(row.timed_open_ops)
        return StatCell(f"≥ {text}", value, f"{exact}; more in {n} of the ops")
    raw = rate_per_unit(value, facts)
    return StatCell(text, value, exact, None if raw is None else round(raw, 6))


def unit_of(column: StatColumn, facts: StatFacts) -> str:
    """Return the unit of a column's plain numbers; "" where they need none."""
    if column.unit == "time":
        return UNITS[facts.unit].plural
    if column.unit == "rate":
        return "B/s" if facts.unit == "ns" or facts.hz else f"B/{facts.unit}"
    return ""


def exact_time(ticks: float, unit: Unit) -> str:
    """Return every digit of a duration, also of one between ticks."""
    if float(ticks).is_integer():
        return format_exact(int(ticks), unit)
    return f"{ticks:,.3f} {UNITS[unit].plural}"


def _count_details(row: StatRow) -> str:
    """Return how many spans have a time, and how many ops they are."""
    text = f"{format_count(row.timed)} with a time of their own"
    if row.ops != row.count:
        text += f"; {format_count(row.ops)} ops, shared by threads"
    return text


def _why_unknown(column: StatColumn, row: StatRow) -> str:
    if column.key in ("bytes", "rate") and row.bytes < 0:
        return "threads share these ops; the bytes of each thread are not recorded"
    if column.key == "latency":
        return "it has no span of its own, or several"
    if column.key == "idle":
        return "some of its ops have no usable time"
    return ""


UNRECORDED_TIP = "In each pass, by the graph; they have no records."


def unrecorded_cells(
    op: str, count: int, columns: Sequence[StatColumn]
) -> list[StatCell]:
    """Return the row of an op that graphs compute `count` times in each pass.

    It has no record, so nothing else is known about it.
    """
    cells = {
        "key": StatCell(op),
        "count": StatCell(format_count(count), count, UNRECORDED_TIP, count),
        "quality": StatCell("not recorded, per pass", exact=UNRECORDED_TIP),
    }
    return [cells.get(column.key, StatCell(NOT_AVAILABLE)) for column in columns]


def stat_notes(
    trace: Trace,
    table: StatTable,
    facts: StatFacts,
    columns: tuple[StatColumn, ...] | None = None,
) -> list[str]:
    """Return sentences on what is counted and what columns mean.

    Parameters
    ----------
    columns : those that are shown without an explanation of their own; None = where
        each has one.
    """
    shown = set() if columns is None else {column.key for column in columns}
    left_out = left_out_text(trace_coverage(trace))
    lines = [f"Left out of the trace: {left_out}."] if left_out else []
    if columns is not None and facts.by in GROUPING_RULES:
        lines.append(GROUPING_RULES[facts.by])
    whole = table.all
    is_cut = whole.in_range is not None and whole.in_range != whole.total
    lines += _time_lines(facts, shown, is_cut=is_cut)
    lines += time_notes(trace)
    is_any = columns is None or shown & {"count", "ops", "total", "bytes", "share"}
    if facts.lanes_nest and is_any:
        lines.append(
            "Lanes contain each other, as a graph lane contains its ops: shares are of "
            "the sum of all lanes, which counts such time more than once."
        )
    if not facts.is_once and is_any:
        lines.append(
            "An op may count several times, once per thread: records of different "
            "threads were not compared."
        )
    elif facts.shares_ops and is_any:
        lines.append(
            "Each thread records its part of an op: count and total include all "
            "threads; ops and bytes count each op once."
        )
    if facts.has_waits and shown & {"wait", "wait_mean", "waiting"}:
        lines.append(
            "Wait is the time at the barrier after the ops; waiting is its share of "
            "ops and waits together."
        )
    if "bytes" in shown and any(row.bytes < 0 for row in table.rows):
        lines.append("The bytes that each thread moves are not recorded.")
    if facts.has_unknown and "bytes" in shown:
        lines.append(
            "Bytes are the known ones; not known is an upper bound of further bytes: "
            "rows of unrecorded length, experts whose choice and destinations whose "
            "part is not recorded."
        )
    if "rate" in shown and any(row.least_rate for row in table.rows):
        extent = ", from the first thread's begin to the last thread's end"
        lines.append(
            "Rate is bytes divided by the time in which any of the ops ran"
            f"{extent if facts.shares_ops else ''}."
        )
    return lines


def _time_lines(facts: StatFacts, shown: set[str], *, is_cut: bool) -> list[str]:
    """Return what the columns of times mean where they differ from the total."""
    lines = []
    if is_cut and "in_range" in shown:
        lines.append(
            "Spans that the range cuts count whole; in range is the part inside."
        )
    if (facts.nests or facts.lies_beside) and "total" in shown:
        lines.append(
            "Total is the sum of durations; nested spans and parallel lanes count the "
            "same time more than once."
        )
    if facts.nests and "self" in shown:
        lines.append("Self is the total without the spans nested inside.")
    if (facts.lies_beside or facts.has_latency) and "busy" in shown:
        lines.append("Busy is the union of the spans: time in which at least one ran.")
    lines = [" ".join(lines)] if lines else []
    if facts.has_latency and "latency" in shown:
        lines.append(
            f"Latency is the duration of the {group_noun(facts)}'s own span, begin to "
            "end; idle is the part of it in which none of its ops ran."
        )
    return lines
