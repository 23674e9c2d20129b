"""Two sides of runs by groups: what each takes, the change, and whether it is noise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ggscope.analysis.compare.alignment import AlignedRun, Alignment, align
from ggscope.analysis.compare.matching import (
    Absence,
    Difference,
    Hidden,
    ShareRow,
    differences,
    hidden_of,
    names_of_first,
    share_rows,
)
from ggscope.analysis.compare.time_parts import thread_parts
from ggscope.analysis.statistics.scan import SpanBlocks
from ggscope.analysis.statistics.table import StatRow, stat_table
from ggscope.analysis.summary.partial import hidden_ops
from ggscope.analysis.summary.threads import thread_times
from ggscope.analysis.workers import Watcher
from ggscope.model.selection import AlignBy, By
from ggscope.model.tables import Phase
from ggscope.model.trace import Trace
from ggscope.model.units import UNITS

Measure = Literal["latency", "wall", "thread time"]
Bound = Literal["", "least", "most", "open"]
"""What the change of recorded times shows of the real one: all, or at least or at most
so much, or nothing."""
_OF_LANES = ("thread", "lane", "engine", "core", "numa")
PARTS = ("work", "waiting at barriers", "idle")
"""What the time of a thread consists of."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Relative changes that do not count as a difference.

    Attributes
    ----------
    latency : of times.
    bandwidth : of bytes per time; None = not looked at.
    """

    latency: float = 0.0
    bandwidth: float | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """What the runs of one side take for a group.

    Attributes
    ----------
    ticks : of each run, means over threads with a fraction; None where a run has no
        known time for the group.
    rates : bytes per tick of each run; None where not known.
    """

    ticks: tuple[float | None, ...]
    rates: tuple[float | None, ...]

    @property
    def is_there(self) -> bool:
        """Whether any run has the group, with a known time."""
        return any(ticks is not None for ticks in self.ticks)

    @property
    def value(self) -> float | None:
        """Median over the runs that have the group; of one run its own time."""
        known = [ticks for ticks in self.ticks if ticks is not None]
        if len(known) < 2:
            return known[0] if known else None
        middle = float(np.median(known))
        return int(middle) if middle.is_integer() else middle

    @property
    def spread(self) -> tuple[float, float] | None:
        """Least and most over at least two runs; None of fewer."""
        known = [ticks for ticks in self.ticks if ticks is not None]
        return (min(known), max(known)) if len(known) > 1 else None

    @property
    def rate(self) -> float | None:
        """Median rate, where all runs have one."""
        known = [rate for rate in self.rates if rate is not None]
        return float(np.median(known)) if len(known) == len(self.rates) else None


@dataclass(frozen=True, slots=True)
class CompareRow:
    """One group on both sides, or on one of them.

    Attributes
    ----------
    key : of the group.
    a, b : what the sides take.
    is_noise : whether the change is within the tolerance, or the runs of both sides
        overlap; None where one run per side and no tolerance show nothing.
    absence : why one side has no time: none of its runs has the group. None = both
        sides have it.
    """

    key: str
    a: Side
    b: Side
    is_noise: bool | None
    absence: Absence | None = None

    @property
    def only_in(self) -> Literal["", "a", "b"]:
        """The one side that has the group; "" = both."""
        if self.absence is None:
            return ""
        return "a" if self.a.is_there else "b"

    @property
    def change(self) -> float | None:
        """Ticks that B takes more; None where the time of a side is not known.

        All of the time of a group that did not run on the other side.
        """
        a, b = self.a.value, self.b.value
        if self.absence is not None:
            if self.absence is Absence.NOT_RECORDED:
                return None
            return b if a is None else -a
        return None if a is None or b is None else b - a

    @property
    def relative(self) -> float | None:
        """The change as a share of A: 1.0 = +100 %; None of nothing, or to nothing."""
        a, change = self.a.value, self.change
        if a is None or change is None or self.absence is not None:
            return None
        if not a:
            return None if change else 0.0
        return change / a

    @property
    def effect(self) -> float:
        """Ticks by which the row changes the whole, for sorting."""
        return (self.b.value or 0) - (self.a.value or 0)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Two sides, group by group.

    Attributes
    ----------
    by : what groups are.
    measure : "latency" of tokens, from begin to end; "wall": time in which any op of
        the group runs; "thread time": sum over its spans.
    alignment : of all runs, those of A first.
    rows : groups with a known time on all sides that have them, largest effect first;
        then those of which a side may have more than it records.
    only_a, only_b : keys of groups that one side lacks.
    whole : all groups together.
    elapsed : time in which any compared token is computed.
    phases : the same of prompt and generated tokens, where all runs have both.
    parts : what the elapsed time of a thread consists of, in the order of `PARTS`: of
        the compared tokens, of whole runs where these are compared.
    reason : why the sides cannot be compared; "" where they can.
    n_a : runs of A.
    untimed : keys of groups of both sides that lack a known time on one.
    hidden : what the recordings of A and of B leave out.
    differences : in what the recordings themselves differ: format, op table, model.
    shares : counts and shares of time of all groups, which need no common unit.
    """

    by: By
    measure: Measure
    alignment: Alignment
    rows: tuple[CompareRow, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    whole: CompareRow
    elapsed: CompareRow
    parts: tuple[CompareRow, ...]
    reason: str
    n_a: int
    untimed: tuple[str, ...] = ()
    hidden: tuple[Hidden, Hidden] = (Hidden(), Hidden())
    differences: tuple[Difference, ...] = ()
    shares: tuple[ShareRow, ...] = ()
    phases: tuple[CompareRow, ...] = ()

    @property
    def is_partial(self) -> bool:
        """Whether a recording of either side is known to leave something out."""
        return any(side.is_partial for side in self.hidden)

    @property
    def bound(self) -> Bound:
        """What changes of rows mean where a side does not record all that ran."""
        if self.measure == "latency":  # tokens are recorded from begin to end
            return ""
        a, b = (bool(side.sums(self.by)) for side in self.hidden)
        if a and b:
            return "open"
        return "most" if a else "least" if b else ""

    @property
    def is_comparable(self) -> bool:
        """Whether anything of both sides can be compared."""
        return not self.reason

    @property
    def matched(self) -> tuple[CompareRow, ...]:
        """Rows of groups that both sides have."""
        return tuple(row for row in self.rows if row.absence is None)

    @property
    def is_equal(self) -> bool:
        """Whether both have the same groups and all changes are noise."""
        n_left = len(self.only_a) + len(self.only_b)
        return not n_left and all(row.is_noise for row in self.rows)

    def absence_reason(self, hidden: Hidden) -> str:
        """Return why a side may have run groups that it lacks; "" = none is known."""
        return _absence_reason(hidden, self.by, self.alignment)

    def tokens(self) -> tuple[int, int]:
        """Return how many bars of each side are compared, the least of its runs."""
        counts = [run.n_matched for run in self.alignment.runs]
        return min(counts[: self.n_a]), min(counts[self.n_a :])


def compare(
    a: Sequence[Trace],
    b: Sequence[Trace],
    by: By = "op",
    *,
    align_by: AlignBy | None = None,
    tolerance: Tolerance = Tolerance(),
    watcher: Watcher | None = None,
) -> Comparison:
    """Return what the runs of B take more or less than those of A.

    Parameters
    ----------
    a, b : at least one trace each.
    align_by : see `align`.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    traces = [*a, *b]
    reason = _reason(traces)
    alignment = align(traces, None if reason else align_by)
    blocks = [SpanBlocks(trace) for trace in traces]
    tables = []
    for trace, run, part in zip(traces, alignment.runs, blocks, strict=True):
        table = stat_table(trace, by, mask=run.mask, blocks=part, watcher=watcher)
        tables.append({row.key: row for row in table.rows} | {_ALL: table.all})
    if by == "token" and alignment.by == "token":
        tables = names_of_first(tables, traces, alignment)
    n_a = len(a)
    keys = list(
        dict.fromkeys(key for table in tables for key in table if key is not _ALL)
    )
    measure = _measure(tables, by)
    rows = [_row(key, tables, n_a, tolerance, measure) for key in keys]
    is_timed = not reason
    both = [row for row in rows if is_timed and row.a.is_there and row.b.is_there]
    only_a = tuple(key for key in keys if _is_only(key, tables[:n_a], tables[n_a:]))
    only_b = tuple(key for key in keys if _is_only(key, tables[n_a:], tables[:n_a]))
    only = {*only_a, *only_b}
    timed = {row.key for row in both}
    untimed = tuple(key for key in keys if key not in only and key not in timed)
    if not reason and not both:
        reason = "they have no group with a known time in common"
    hidden = hidden_of(a), hidden_of(b)
    absences = [side.absence(_absence_reason(side, by, alignment)) for side in hidden]
    shown = list(both)
    for row in rows if both else ():
        if row.key in only and (row.a.is_there or row.b.is_there):
            absence = absences[row.a.is_there]
            noise = _is_noise_alone(row, absence, tolerance)
            shown.append(replace(row, absence=absence, is_noise=noise))
    shown.sort(key=lambda row: (row.change is None, -abs(row.effect), row.key))
    # Ticks of clocks that differ are no numbers to compare.
    elapsed = [
        (run.bars.covered(run.is_matched & run.bars.is_timed) or None)
        if is_timed
        else None
        for run in alignment.runs
    ]
    of_all = _of_times("", elapsed, n_a, tolerance)
    if measure != "latency" and is_timed:  # tokens may overlap
        whole = _row(_ALL, tables, n_a, tolerance, measure)
    else:
        whole = of_all
    return Comparison(
        by,
        measure,
        alignment,
        tuple(shown),
        only_a,
        only_b,
        whole,
        of_all,
        _parts(traces, blocks, alignment, n_a, tolerance) if is_timed else (),
        reason,
        n_a,
        untimed,
        hidden,
        differences(traces, n_a),
        share_rows(tables, keys, n_a),
        _phases(alignment, n_a, tolerance) if is_timed else (),
    )


_ALL = ""
"""Key of all groups together; no group has it."""


def _reason(traces: Sequence[Trace]) -> str:
    """Return why traces cannot be compared, or ""."""
    if len({trace.clock.is_weight for trace in traces}) > 1:
        return "one is a profile without times, the other has times"
    units = {(trace.clock.unit, trace.clock.hz) for trace in traces}
    if len({unit for unit, _ in units}) > 1:
        names = [UNITS[trace.clock.unit].many for trace in traces]
        one, other, *_ = dict.fromkeys(name or "plain numbers" for name in names)
        return f"one counts {one}, the other {other}"
    if len(units) > 1:
        return "their cycles are of different frequencies"
    if all(trace.bench is not None for trace in traces):
        return "they are results of llama-bench, which `ggscope bench-table` compares"
    if any(not len(trace.spans) for trace in traces):
        return "one of them records no spans"
    return ""


def _is_only(
    key: str, mine: Sequence[dict[str, StatRow]], others: Sequence[dict[str, StatRow]]
) -> bool:
    """Return whether only one side has a group."""
    return any(key in table for table in mine) and not any(
        key in table for table in others
    )


def _absence_reason(hidden: Hidden, by: By, alignment: Alignment) -> str:
    """Return why a side may have run groups that it lacks in what is compared."""
    # Tokens that are not recorded are not compared either.
    return hidden.groups(by, all_tokens=alignment.by != "token")


def _is_noise_alone(
    row: CompareRow, absence: Absence, tolerance: Tolerance
) -> bool | None:
    """Return whether a group that one side alone has may be noise."""
    mine, other = (row.a, row.b) if row.a.is_there else (row.b, row.a)
    if absence is Absence.NOT_RECORDED or None in mine.ticks:
        return None  # not even all runs of that side have it
    has_runs = min(len(mine.ticks), len(other.ticks)) > 1
    return False if has_runs or tolerance.latency else None


def _row(
    key: str,
    tables: Sequence[dict[str, StatRow]],
    n_a: int,
    tolerance: Tolerance,
    measure: Measure,
) -> CompareRow:
    rows = [table.get(key) for table in tables]
    ticks = [None if row is None else _time(row, measure) for row in rows]
    rates = [None if row is None else row.rate for row in rows]
    a = Side(tuple(ticks[:n_a]), tuple(rates[:n_a]))
    b = Side(tuple(ticks[n_a:]), tuple(rates[n_a:]))
    return CompareRow(key, a, b, _is_noise(a, b, tolerance))


def _time(row: StatRow, measure: Measure) -> int | None:
    """Return the time of a group; None where none is known."""
    if measure == "latency":
        return row.latency
    if measure == "wall":
        return row.op_ticks if row.timed else None
    return row.total if row.timed else None


def _measure(tables: Sequence[dict[str, StatRow]], by: By) -> Measure:
    """Return the time that all runs know: it is one and the same for all groups.

    Threads that share an op make its sum of spans larger, but not its time.
    """
    rows = [row for table in tables for row in table.values()]
    if by == "token" and all(row.latency is not None for row in rows if row.key):
        return "latency"
    if by not in _OF_LANES and all(row.op_ticks is not None for row in rows):
        return "wall"
    return "thread time"


def _of_times(
    key: str, ticks: Sequence[float | None], n_a: int, tolerance: Tolerance
) -> CompareRow:
    no_rates = (None,) * len(ticks)
    a = Side(tuple(ticks[:n_a]), no_rates[:n_a])
    b = Side(tuple(ticks[n_a:]), no_rates[n_a:])
    return CompareRow(key, a, b, _is_noise(a, b, tolerance))


def _phases(
    alignment: Alignment, n_a: int, tolerance: Tolerance
) -> tuple[CompareRow, ...]:
    """Return the elapsed times of prompt and generated tokens, where all have both."""
    rows = []
    for phase in (Phase.PROMPT, Phase.GENERATE):
        ticks = [
            run.bars.covered(run.is_matched & run.bars.of_phase(phase))
            for run in alignment.runs
        ]
        if not all(ticks):
            return ()
        rows.append(_of_times(phase.name.lower(), ticks, n_a, tolerance))
    return tuple(rows)


def _parts(
    traces: Sequence[Trace],
    blocks: Sequence[SpanBlocks],
    alignment: Alignment,
    n_a: int,
    tolerance: Tolerance,
) -> tuple[CompareRow, ...]:
    """Return the parts of the time that a thread spends, on average over threads.

    Those that are not recorded on both sides are left out; all of them where ops are
    not recorded, which would pass for less work.
    """
    if any(map(hidden_ops, traces)):
        return ()
    has_tokens, spent = alignment.by != "start", list[dict[str, float]]()
    if has_tokens:
        spent = [
            _parts_of_tokens(trace, run)
            for trace, run in zip(traces, alignment.runs, strict=True)
        ]
    if not alignment.leaves_out and not all(spent or [{}]):
        spent = [
            _parts_of_run(trace, part, with_idle=not has_tokens)
            for trace, part in zip(traces, blocks, strict=True)
        ]
    return tuple(
        _of_times(part, [mine[part] for mine in spent], n_a, tolerance)
        for part in PARTS
        if all(part in mine for mine in spent)
    )


def _parts_of_run(
    trace: Trace, blocks: SpanBlocks, *, with_idle: bool
) -> dict[str, float]:
    """Return the parts of a whole run; it is idle between tokens, too."""
    times = thread_times(trace, blocks=blocks)
    n = len(times.lanes)
    known = [lane for lane in times.lanes if lane.busy is not None]
    mine: dict[str, float] = {}
    if n and len(known) == n:
        mine["work"] = _mean(sum(lane.busy or 0 for lane in known), n)
        if all(lane.wait is not None for lane in known):
            waits = sum(lane.wait or 0 for lane in known)
            mine["waiting at barriers"] = _mean(waits, n)
        is_measured = all(lane.is_measured for lane in known)
        if with_idle and is_measured and all(lane.idle is not None for lane in known):
            mine["idle"] = _mean(sum(lane.idle or 0 for lane in known), n)
    return mine


def _parts_of_tokens(trace: Trace, run: AlignedRun) -> dict[str, float]:
    times = thread_parts(trace, run, run.is_matched & run.bars.is_timed)
    if times is None:
        return {}
    n = times.n_lanes
    mine = {"work": _mean(times.work, n)}
    if times.wait is not None:
        mine["waiting at barriers"] = _mean(times.wait, n)
    if times.tells_idle:
        mine["idle"] = _mean(times.idle, n)
    return mine


def _mean(total: int, n: int) -> float:
    """Return a mean, a whole number where it is one; of twice the total, twice it."""
    return total // n if total % n == 0 else total / n


def _is_noise(a: Side, b: Side, tolerance: Tolerance) -> bool | None:
    x, y = a.value, b.value
    if x is None or y is None:
        return None
    if x == y:
        return _is_same_rate(a, b, tolerance)
    within = abs(y - x) <= tolerance.latency * x
    if tolerance.latency and within:
        return _is_same_rate(a, b, tolerance)
    if a.spread is not None and b.spread is not None:
        return a.spread[0] <= b.spread[1] and b.spread[0] <= a.spread[1]
    return False if tolerance.latency else None


def _is_same_rate(a: Side, b: Side, tolerance: Tolerance) -> bool:
    if tolerance.bandwidth is None or a.rate is None or b.rate is None:
        return True
    return abs(b.rate - a.rate) <= tolerance.bandwidth * a.rate
