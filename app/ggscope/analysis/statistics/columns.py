"""The columns of statistics, each declared once.

The table of the window, ``ggscope stats`` (table, ``--columns``, JSON and CSV), the
report and the figure read `STAT_COLUMNS`; one more entry there is one more column.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import compress
from typing import Literal

from ggscope.analysis.reads.op_io import counts_once
from ggscope.analysis.rows.tracks import lanes_where
from ggscope.analysis.statistics.table import StatRow, StatTable
from ggscope.model.selection import By
from ggscope.model.tokens import has_ubatches
from ggscope.model.trace import Trace, lane_titles
from ggscope.model.units import UNITS, TimeRange, Unit

StatUnit = Literal["text", "count", "time", "share", "bytes", "rate"]
StatValue = float | int | str | None


@dataclass(frozen=True, slots=True)
class StatFacts:
    """What the columns and notes of a table depend on.

    Attributes
    ----------
    counts_ubatches : whether token numbers are those of ubatches.
    hz : ticks per second of a clock that counts cycles, where known.
    bytes : whether accesses are "known", still "pending", or "none" are recorded.
    has_range : whether a range of time is counted.
    nests, lies_beside : whether self times, and busy times, differ from totals.
    has_latency : whether groups have a span of their own.
    shares_ops : whether several spans belong to one op.
    has_waits : whether waits are recorded.
    has_unknown : whether some bytes have only an upper bound.
    is_once : whether each op counts once, however many threads recorded it.
    lanes_nest : whether groups are lanes of which some contain others.
    """

    by: By
    counts_ubatches: bool
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

    @property
    def ticks_name(self) -> str:
        """The unit of times in names of JSON and CSV: "ns", "cycles" or "samples"."""
        return UNITS[self.unit].plural

    @property
    def rate_per(self) -> str:
        """The unit that rates are divided by: "second" or "cycle"."""
        return "second" if self.unit == "ns" or self.hz else self.unit

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StatColumn:
    """One column.

    Attributes
    ----------
    key : its name in options, such as ``--columns`` and ``--measure``.
    title, tooltip : of the table's head.
    unit : what the values are; times are in ticks, rates in bytes per tick.
    value : the value of a row; None = unknown.
    place : its place in tables, ascending from the left; None = in no table.
    record : its name in JSON and CSV, where ``{ticks}`` and ``{per}`` stand for the
        units of the trace; "" = in neither.
    axis : title of the axis of a bar chart of it; "" = has no bar chart.
    is_shown : whether the column says something about a table.
    drop_rank : where not all columns fit, the largest go first; 0 always stays.
    has_total : whether it has a value for all rows together.
    """

    key: str
    title: str = ""
    tooltip: str = ""
    unit: StatUnit
    value: Callable[[StatRow], StatValue]
    place: int | None = None
    record: str = ""
    axis: str = ""
    is_shown: Callable[[StatFacts], bool] = lambda _: True
    drop_rank: int = 0
    has_total: bool = True


def _timed(
    value: Callable[[StatRow], float | None],
) -> Callable[[StatRow], float | None]:
    """Return the value of rows with a known time; None for others and for NaN."""

    def known_value(row: StatRow) -> float | None:
        number = value(row) if row.timed else None
        return None if number is None or math.isnan(number) else number

    return known_value


def _if(name: str) -> Callable[[StatFacts], bool]:
    """Return whether a fact holds."""
    return lambda facts: bool(getattr(facts, name))


def _has_bytes(facts: StatFacts) -> bool:
    return facts.bytes != "none"


STAT_COLUMNS: tuple[StatColumn, ...] = (
    StatColumn(
        key="key", unit="text", value=lambda r: r.key, place=0, record="key",
    ),
    StatColumn(
        key="count", title="count", tooltip="Number of spans",
        unit="count", value=lambda r: r.count, place=20, record="count",
        axis="number of spans", drop_rank=3,
    ),
    StatColumn(
        key="timed", unit="count", value=lambda r: r.timed, record="timed",
    ),
    StatColumn(
        key="total", title="total",
        tooltip="Thread time: sum of the durations of whole spans; nested spans and "
        "parallel lanes count the same time more than once",
        unit="time", value=_timed(lambda r: r.total), place=40,
        record="total_{ticks}", axis="sum of the durations, share",
    ),
    StatColumn(
        key="mean", title="mean", tooltip="Mean duration",
        unit="time", value=_timed(lambda r: r.mean), place=130, record="mean",
        axis="mean duration", drop_rank=4,
    ),
    StatColumn(
        key="min", title="min", tooltip="Shortest duration",
        unit="time", value=_timed(lambda r: r.min), place=140, record="min",
        drop_rank=13,
    ),
    StatColumn(
        key="p50", title="p50", tooltip="Median: half take no longer than this",
        unit="time", value=_timed(lambda r: r.p50), place=150, record="p50",
        axis="half take no longer than", drop_rank=7, has_total=False,
    ),
    StatColumn(
        key="p90", title="p90", tooltip="90 % take no longer than this",
        unit="time", value=_timed(lambda r: r.p90), place=160, record="p90",
        axis="90 % take no longer than", drop_rank=12, has_total=False,
    ),
    StatColumn(
        key="p99", title="p99", tooltip="99 % take no longer than this",
        unit="time", value=_timed(lambda r: r.p99), place=170, record="p99",
        axis="99 % take no longer than", drop_rank=11, has_total=False,
    ),
    StatColumn(
        key="max", title="max", tooltip="Longest duration",
        unit="time", value=_timed(lambda r: r.max), place=180, record="max",
        axis="longest duration", drop_rank=8,
    ),
    StatColumn(
        key="bytes", title="bytes", tooltip="Known bytes of all accesses of the spans",
        unit="bytes", value=lambda r: r.known_bytes, place=190, record="bytes",
        axis="known bytes accessed", is_shown=_has_bytes, drop_rank=3,
    ),
    StatColumn(
        key="share", title="share", tooltip="Share of the total of all rows",
        unit="share", value=_timed(lambda r: r.share), place=50, record="share",
        drop_rank=2, has_total=False,
    ),
    StatColumn(
        key="quality", title="quality",
        tooltip="Least certain timing of the spans: measured, derived or estimated",
        unit="text", value=lambda r: r.quality, place=220, record="quality",
        drop_rank=4, has_total=False,
    ),
    StatColumn(
        key="in_range", title="in range",
        tooltip="Part of the total inside the counted range",
        unit="time", value=_timed(lambda r: r.in_range), place=90, record="in_range",
        is_shown=_if("has_range"), drop_rank=4,
    ),
    StatColumn(
        key="self", title="self", tooltip="Total without the spans nested inside",
        unit="time", value=_timed(lambda r: r.self_time), place=60, record="self",
        axis="time without what lies within", is_shown=_if("nests"), drop_rank=6,
    ),
    StatColumn(
        key="busy", title="busy",
        tooltip="Wall time: union of the whole spans, in which at least one of them "
        "ran",
        unit="time", value=_timed(lambda r: r.wall), place=70, record="wall",
        axis="time in which any of the spans ran",
        is_shown=lambda f: f.lies_beside or f.has_latency, drop_rank=6,
    ),
    StatColumn(
        key="ops", title="ops",
        tooltip="Ops; an op that several threads compute counts once",
        unit="count", value=lambda r: r.ops, place=30, record="ops",
        axis="number of ops", is_shown=_if("shares_ops"), drop_rank=9,
    ),
    StatColumn(
        key="unknown", title="not known",
        tooltip="Upper bound of further bytes that may be accessed",
        unit="bytes",
        value=lambda r: None if r.unknown_bytes < 0 else r.unknown_bytes,
        place=200, record="bytes_unknown", is_shown=_if("has_unknown"), drop_rank=9,
    ),
    StatColumn(
        key="wait", title="wait",
        tooltip="Time that threads waited at the barrier after the spans",
        unit="time", value=lambda r: r.wait, place=100, record="wait_{ticks}",
        axis="wait behind the spans, share", is_shown=_if("has_waits"), drop_rank=5,
    ),
    StatColumn(
        key="wait_mean", title="mean wait", tooltip="Mean of the recorded waits",
        unit="time", value=lambda r: None if r.wait is None else r.mean_wait,
        place=110, record="wait_mean", is_shown=_if("has_waits"), drop_rank=10,
    ),
    StatColumn(
        key="wait_share", unit="share", value=lambda r: r.wait_share,
        record="wait_share",
    ),
    StatColumn(
        key="waiting", title="waiting", tooltip="Waits as a share of spans and waits",
        unit="share", value=lambda r: r.waiting, place=120, record="waiting",
        is_shown=_if("has_waits"), drop_rank=8,
    ),
    StatColumn(
        key="waits", unit="count", value=lambda r: r.waits, record="waits",
    ),
    StatColumn(
        key="longest_waits", unit="count", value=lambda r: r.longest_waits,
        record="longest_waits",
    ),
    StatColumn(
        key="latency", title="latency",
        tooltip="Duration of the group's own span, from begin to end",
        unit="time", value=lambda r: r.latency, place=10, record="latency_{ticks}",
        axis="latency", is_shown=_if("has_latency"), has_total=False,
    ),
    StatColumn(
        key="idle", title="idle",
        tooltip="Part of the latency in which none of its ops ran",
        unit="time", value=lambda r: r.idle, place=80, record="idle_{ticks}",
        axis="latency without any op", is_shown=_if("has_latency"), drop_rank=3,
        has_total=False,
    ),
    StatColumn(
        key="exact_rate", unit="rate", value=lambda r: r.rate,
        record="bytes_per_{per}",
    ),
    StatColumn(
        key="rate", title="rate",
        tooltip="Bytes divided by the time in which any of the ops ran, with several "
        "threads from the first begin to the last end; ≥ where some bytes are unknown",
        unit="rate", value=lambda r: r.least_rate, place=210,
        record="least_bytes_per_{per}",
        axis="bytes by the time in which any op ran, at least",
        is_shown=_has_bytes, drop_rank=6,
    ),
)  # fmt: skip
"""All columns, in the order of JSON and CSV: a new one goes to the end."""

_LATENCY_KEYS = ("latency", "busy", "idle")


def stat_facts(
    trace: Trace, by: By, table: StatTable, time: TimeRange | None = None
) -> StatFacts:
    """Return the facts of a table; `time` is the range that it counts."""
    rows, accesses = table.rows, trace.accesses
    nests, lies_beside = table.counts_twice
    has_accesses = len(accesses.patterns) + len(accesses.loose) > 0
    return StatFacts(
        by=by,
        counts_ubatches=has_ubatches(trace),
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
    """Return whether some of these lanes hold spans around those of others."""
    outer = lanes_where(trace.lanes, lambda spec: spec.encloses)
    if len(rows) < 2 or not outer.any():
        return False
    titles = set(compress(lane_titles(trace.lanes), outer.tolist()))
    return any(row.key in titles for row in rows)


def table_columns() -> dict[str, StatColumn]:
    """Return the columns that tables can show, by key, in their order."""
    shown = [column for column in STAT_COLUMNS if column.place is not None]
    return {c.key: c for c in sorted(shown, key=lambda c: c.place or 0)}


def measures() -> dict[str, StatColumn]:
    """Return the columns that bars can be as long as, by key."""
    return {key: column for key, column in table_columns().items() if column.axis}


def shown_columns(facts: StatFacts) -> tuple[StatColumn, ...]:
    """Return the columns that say something about a table, in their order.

    What a latency consists of stands beside it.
    """
    columns = [c for c in table_columns().values() if c.is_shown(facts)]
    if facts.has_latency:
        columns.sort(key=lambda column: column.key not in ("key", *_LATENCY_KEYS))
    return tuple(columns)


def records(rows: Iterable[StatRow], facts: StatFacts) -> list[dict[str, StatValue]]:
    """Return rows as JSON and CSV have them; None where a value is unknown."""
    named = [
        (column.record.format(ticks=facts.ticks_name, per=facts.rate_per), column)
        for column in STAT_COLUMNS
        if column.record
    ]
    return [
        {name: _record_value(column, row, facts) for name, column in named}
        for row in rows
    ]


def record_names(tables: Iterable[StatFacts]) -> list[str]:
    """Return the names that records of these tables have, each once, in order.

    Without a table they are those of one in nanoseconds.
    """
    facts = list(tables)
    units = [(f.ticks_name, f.rate_per) for f in facts] or [("ns", "second")]
    names = (
        column.record.format(ticks=ticks, per=per)
        for column in STAT_COLUMNS
        if column.record
        for ticks, per in units
    )
    return list(dict.fromkeys(names))


def rate_per_unit(rate: float | None, facts: StatFacts) -> float | None:
    """Return bytes per second, or per cycle where its length is unknown."""
    if rate is None:
        return None
    if facts.unit == "ns":
        return rate * 1e9
    return rate * facts.hz if facts.hz else rate


def _record_value(column: StatColumn, row: StatRow, facts: StatFacts) -> StatValue:
    if column.unit in ("bytes", "rate") and facts.bytes != "known":
        return None
    value = column.value(row)
    if column.unit == "rate" and not isinstance(value, str):
        return rate_per_unit(value, facts)
    return value
