"""The columns of statistics: what each is, where it belongs, and its cells as texts.

Window, command line, report and figures show the same columns by the same names, with
the same notes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import compress
from typing import Literal

from ggscope.analysis.completeness.coverage import trace_coverage
from ggscope.analysis.reads.op_io import counts_once
from ggscope.analysis.statistics.table import RULES, StatRow, StatTable
from ggscope.descriptions.coverage import left_out_words
from ggscope.descriptions.groupings import GROUPINGS
from ggscope.descriptions.spans import PENDING, summed_wait_text
from ggscope.descriptions.times import time_notes
from ggscope.model.selection import By
from ggscope.model.tokens import token_noun
from ggscope.model.trace import LaneKind, Trace, lane_titles
from ggscope.model.units import (
    NOT_AVAILABLE,
    TimeRange,
    Unit,
    format_byte_rate,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_exact_bytes,
    format_share,
)

Form = Literal["text", "count", "time", "share", "bytes", "rate"]
_OF_LATENCY = ("latency", "busy", "idle")


@dataclass(frozen=True, slots=True)
class StatFacts:
    """What the columns and notes of a table depend on.

    Attributes
    ----------
    noun : what a group is.
    hz : ticks per second of a clock that counts cycles, where known.
    bytes : whether the accesses of the trace are "known", still "pending", or "none"
        are recorded.
    has_range : whether a range of time is counted.
    nests, lies_beside : whether self times, and busy times, are others than totals.
    has_latency : whether groups have a span of their own.
    shares_ops : whether several spans tell of one op.
    has_waits : whether waits are recorded.
    has_unknown : whether some bytes are known at most.
    is_once : whether each op counts once, whichever threads tell of it.
    lanes_nest : whether groups are lanes of which some contain others.
    """

    by: By
    noun: str
    unit: Unit
    hz: float | None
    bytes: Literal["known", "pending", "none"]
    has_range: bool
    nests: bool
    lies_beside: bool
    has_latency: bool
    shares_ops: bool
    has_waits: bool
    has_unknown: bool
    is_once: bool
    lanes_nest: bool

    def also(self, other: "StatFacts") -> "StatFacts":
        """Return these facts with the columns of the other table too."""
        return replace(
            self,
            nests=self.nests or other.nests,
            lies_beside=self.lies_beside or other.lies_beside,
            has_latency=self.has_latency or other.has_latency,
            shares_ops=self.shares_ops or other.shares_ops,
            has_unknown=self.has_unknown or other.has_unknown,
        )


def stat_facts(
    trace: Trace, by: By, table: StatTable, time: TimeRange | None = None
) -> StatFacts:
    """Return the facts of a table; `time` is the range that it counts."""
    rows, accesses = table.rows, trace.accesses
    nests, lies_beside = table.counts_twice
    has_accesses = len(accesses.patterns) + len(accesses.loose) > 0
    return StatFacts(
        by=by,
        noun=token_noun(trace) if by == "token" else GROUPINGS[by],
        unit=trace.clock.unit,
        hz=trace.clock.hz,
        bytes="pending"
        if "accesses" in trace.pending
        else "known"
        if has_accesses
        else "none",
        has_range=time is not None,
        nests=nests,
        lies_beside=lies_beside,
        has_latency=any(row.latency is not None for row in rows),
        shares_ops=any(row.ops != row.count or row.bytes < 0 for row in rows),
        has_waits=trace.spans.wait is not None and any(row.waits for row in rows),
        has_unknown=any(row.unknown_bytes > 0 for row in rows),
        is_once=counts_once(trace),
        lanes_nest=by == "lane" and _lanes_nest(trace, rows),
    )


def _lanes_nest(trace: Trace, rows: tuple[StatRow, ...]) -> bool:
    """Tell whether some of these lanes hold spans around those of others."""
    outer = trace.lanes.of_kind(
        LaneKind.TOKEN,
        LaneKind.PHASE,
        LaneKind.SEQUENCE,
        LaneKind.GRAPH,
        LaneKind.COMMAND,
    )
    if len(rows) < 2 or not outer.any():
        return False
    titles = set(compress(lane_titles(trace.lanes), outer.tolist()))
    return any(row.key in titles for row in rows)


@dataclass(frozen=True, slots=True)
class StatColumn:
    """One column.

    Attributes
    ----------
    name : in options, such as ``--columns`` and ``--measure``.
    title, tip : of the table's head.
    of : the value of a row; None = not known.
    axis : what a bar as long as the value means; "" = there are no such bars.
    is_there : whether the column says something of a table.
    spare : where there is no room for all, columns with the largest go first; 0 stays.
    """

    name: str
    title: str
    tip: str
    form: Form
    of: Callable[[StatRow], float | int | str | None]
    axis: str = ""
    is_there: Callable[[StatFacts], bool] = lambda _: True
    spare: int = 0


def _timed(
    value: Callable[[StatRow], float | None],
) -> Callable[[StatRow], float | None]:
    def of(row: StatRow) -> float | None:
        found = value(row) if row.timed else None
        return None if found is None or math.isnan(found) else found

    return of


def _has(name: str) -> Callable[[StatFacts], bool]:
    return lambda facts: bool(getattr(facts, name))


def _knows_bytes(facts: StatFacts) -> bool:
    return facts.bytes != "none"


COLUMNS = (
    StatColumn("key", "", "", "text", lambda r: r.key),
    StatColumn(
        "latency", "latency", "From the begin to the end of its own span", "time",
        lambda r: r.latency, axis="latency", is_there=_has("has_latency"),
    ),
    StatColumn(
        "count", "count", "Number of spans", "count", lambda r: r.count,
        axis="number of spans", spare=3,
    ),
    StatColumn(
        "ops", "ops", "Ops, each counted once however many threads compute it",
        "count", lambda r: r.ops, axis="number of ops",
        is_there=_has("shares_ops"), spare=9,
    ),
    StatColumn(
        "total", "total", "Sum of the durations, each of a whole span; where spans "
        "nest or several lanes work at once, some time is counted several times",
        "time", _timed(lambda r: r.total), axis="sum of the durations, share",
    ),
    StatColumn(
        "share", "share", "Part of the total of all rows", "share",
        _timed(lambda r: r.share), spare=2,
    ),
    StatColumn(
        "self", "self", "The total without what lies within other spans", "time",
        _timed(lambda r: r.self_time), axis="time without what lies within",
        is_there=_has("nests"), spare=6,
    ),
    StatColumn(
        "busy", "busy", "Union of the spans, each as a whole: time on the clock "
        "in which any of them ran", "time", _timed(lambda r: r.wall),
        axis="time in which any of the spans ran",
        is_there=lambda f: f.lies_beside or f.has_latency, spare=6,
    ),
    StatColumn(
        "idle", "idle", "The part of the latency in which none of its ops ran",
        "time", lambda r: r.idle, axis="latency without any op",
        is_there=_has("has_latency"), spare=3,
    ),
    StatColumn(
        "in_range", "in range", "How much of the total lies inside the range that "
        "is counted", "time", _timed(lambda r: r.in_range),
        is_there=_has("has_range"), spare=4,
    ),
    StatColumn(
        "wait", "wait", "What threads waited at the barrier behind the spans",
        "time", lambda r: r.wait, axis="wait behind the spans, share",
        is_there=_has("has_waits"), spare=5,
    ),
    StatColumn(
        "wait_mean", "mean wait", "Mean of the waits that are recorded", "time",
        lambda r: None if r.wait is None else r.mean_wait,
        is_there=_has("has_waits"), spare=10,
    ),
    StatColumn(
        "waiting", "waiting", "Waits as a part of spans and waits together",
        "share", lambda r: r.waiting, is_there=_has("has_waits"), spare=8,
    ),
    StatColumn(
        "mean", "mean", "Mean duration", "time", _timed(lambda r: r.mean),
        axis="mean duration", spare=4,
    ),
    StatColumn("min", "min", "Shortest", "time", _timed(lambda r: r.min), spare=13),
    StatColumn(
        "p50", "p50", "Half take no longer than this", "time",
        _timed(lambda r: r.p50), axis="half take no longer than", spare=7,
    ),
    StatColumn(
        "p90", "p90", "90 % take no longer than this", "time",
        _timed(lambda r: r.p90), axis="90 % take no longer than", spare=12,
    ),
    StatColumn(
        "p99", "p99", "99 % take no longer than this", "time",
        _timed(lambda r: r.p99), axis="99 % take no longer than", spare=11,
    ),
    StatColumn(
        "max", "max", "Longest", "time", _timed(lambda r: r.max),
        axis="longest duration", spare=8,
    ),
    StatColumn(
        "bytes", "bytes", "Known bytes of all accesses of these spans", "bytes",
        lambda r: r.known_bytes,
        axis="known bytes accessed", is_there=_knows_bytes, spare=3,
    ),
    StatColumn(
        "unknown", "not known", "Bytes that may be accessed besides, at most",
        "bytes", lambda r: r.unknown_bytes if r.unknown_bytes > 0 else None,
        is_there=_has("has_unknown"), spare=9,
    ),
    StatColumn(
        "rate", "rate", "Bytes by the time in which any of the ops ran, those of "
        "several threads from the first one's begin to the last one's end; ≥ where "
        "not all bytes are known", "rate",
        lambda r: r.least_rate, axis="bytes by the time in which any op ran, at least",
        is_there=_knows_bytes, spare=6,
    ),
    StatColumn(
        "quality", "quality", "The least certain of its times", "text",
        lambda r: r.quality, spare=4,
    ),
)  # fmt: skip
BY_NAME = {column.name: column for column in COLUMNS}


MEASURES = {name: column for name, column in BY_NAME.items() if column.axis}
"""What bars can be as long as, by name."""


def columns_of(facts: StatFacts) -> tuple[StatColumn, ...]:
    """Return the columns that say something of a table, in their order.

    What a latency is made of stands beside it.
    """
    columns = [column for column in COLUMNS if column.is_there(facts)]
    key = replace(columns[0], title=facts.noun, tip=RULES.get(facts.by, ""))
    if facts.has_latency:
        columns.sort(key=lambda column: column.name not in ("key", *_OF_LATENCY))
    return (key, *columns[1:])


@dataclass(frozen=True, slots=True)
class StatCell:
    """A value as text.

    Attributes
    ----------
    value : to sort by; None where it is not known.
    exact : every digit, and what there is to say; "" where `text` says it all.
    raw : a plain number in the unit of the column; None where it is not known exactly.
    """

    text: str
    value: float | str | None = None
    exact: str = ""
    raw: float | None = None


def stat_cell(column: StatColumn, row: StatRow, facts: StatFacts) -> StatCell:
    """Return a cell of a table; what is not known reads "N/A"."""
    value = column.of(row)
    if column.form in ("bytes", "rate") and facts.bytes == "pending":
        return StatCell("…", exact=PENDING)
    if value is None:
        return StatCell(_blank(column, row), exact=_why_unknown(column, row))
    if isinstance(value, str):
        number = float(value) if column.name == "key" and value.isdecimal() else value
        return StatCell(value or NOT_AVAILABLE, number)
    if column.form == "count":
        words = _count_words(column, row)
        return StatCell(format_count(int(value)), value, words, value)
    if column.form == "share":
        exact = f"{100 * value:.9g} %"
        return StatCell(format_share(value), value, exact, round(value, 6))
    if column.form == "rate":
        return _rate_cell(row, value, facts)
    if column.form == "bytes":
        at_most = "≤ " if column.name == "unknown" else ""
        exact = at_most + format_exact_bytes(int(value))
        return StatCell(at_most + format_bytes(int(value)), value, exact, value)
    raw = int(value) if float(value).is_integer() else round(value, 1)
    exact = exact_time(value, facts.unit)
    if column.name in ("wait", "wait_mean"):
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
    if column.form == "time":
        return "ns" if facts.unit == "ns" else "cycles"
    if column.form == "rate":
        return "B/s" if facts.unit == "ns" or facts.hz else "B/cycle"
    return ""


def exact_time(ticks: float, unit: Unit) -> str:
    """Return every digit of a duration, also of one between ticks."""
    if float(ticks).is_integer():
        return format_exact(int(ticks), unit)
    return f"{ticks:,.3f} {'ns' if unit == 'ns' else 'cycles'}"


def _count_words(column: StatColumn, row: StatRow) -> str:
    if column.name != "count":
        return ""
    words = f"{format_count(row.timed)} with a time of their own"
    if row.ops != row.count:
        words += f"; {format_count(row.ops)} ops, for threads share them"
    return words


def _blank(column: StatColumn, row: StatRow) -> str:
    """Return what stands for no value: nothing where nothing is unknown."""
    is_none = column.name == "unknown" and row.unknown_bytes == 0
    return "" if is_none else NOT_AVAILABLE


def _why_unknown(column: StatColumn, row: StatRow) -> str:
    if column.name in ("bytes", "rate") and row.bytes < 0:
        return "threads share these ops; which part each moves is not recorded"
    if column.name == "latency":
        return "no span, or several, stand for it as a whole"
    if column.name == "idle":
        return "not all of its ops are counted with a time"
    return ""


def rate_per_unit(row_rate: float | None, facts: StatFacts) -> float | None:
    """Return bytes per second, or per cycle where nobody says how long one is."""
    if row_rate is None:
        return None
    if facts.unit == "ns":
        return row_rate * 1e9
    return row_rate * facts.hz if facts.hz else row_rate


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
    shown = set() if columns is None else {column.name for column in columns}
    left_out = left_out_words(trace_coverage(trace))
    lines = [f"Left out of the trace: {left_out}."] if left_out else []
    lines += [RULES[facts.by]] if columns is not None and facts.by in RULES else []
    lines += _time_lines(facts, shown)
    lines += time_notes(trace)
    is_any = columns is None or shown & {"count", "ops", "total", "bytes", "share"}
    if facts.lanes_nest and is_any:
        lines.append(
            "Lanes contain each other, as a graph does its ops: shares are of the sum "
            "of all lanes, in which such time is several times."
        )
    if not facts.is_once and is_any:
        lines.append(
            "An op may count several times, once for each of the threads that were "
            "not compared."
        )
    elif facts.shares_ops and is_any:
        lines.append(
            "Threads compute ops together and each has a record: count is of spans "
            "and total of all threads; ops and bytes count each op once."
        )
    if facts.has_waits and shown & {"wait", "wait_mean", "waiting"}:
        lines.append(
            "Wait is the time at the barrier behind the ops; waiting is its share of "
            "ops and waits together."
        )
    if "bytes" in shown and any(row.bytes < 0 for row in table.rows):
        lines.append("Which part of an op's bytes each thread moves is not recorded.")
    if facts.has_unknown and "bytes" in shown:
        lines.append(
            "Bytes are those that are known; not known is what may come on top, at "
            "most: rows whose length, experts whose choice and destinations whose "
            "part is not recorded."
        )
    if "rate" in shown and any(row.least_rate for row in table.rows):
        each = ", each from the first thread's begin to the last one's end"
        lines.append(
            "Rate is bytes by the time in which any of the ops ran"
            f"{each if facts.shares_ops else ''}."
        )
    return lines


def _time_lines(facts: StatFacts, shown: set[str]) -> list[str]:
    """Return what the columns of times mean where they differ from the total."""
    lines = []
    if (facts.nests or facts.lies_beside) and "total" in shown:
        lines.append(
            "Total adds up durations, also of spans within others and of several "
            "lanes at once."
        )
    if facts.nests and "self" in shown:
        lines.append("Self leaves out what lies within other spans.")
    if (facts.lies_beside or facts.has_latency) and "busy" in shown:
        lines.append("Busy is the union of the spans: the time in which any ran.")
    lines = [" ".join(lines)] if lines else []
    if facts.has_latency and "latency" in shown:
        lines.append(
            f"Latency is the length of the {facts.noun}'s own span, from begin to end; "
            "idle is the part of it in which none of its ops ran."
        )
    return lines
