"""What statistics are about, and counting it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.index import TraceIndex, mask_of_lanes
from ggscope.analysis.statistics.columns import StatFacts, stat_facts
from ggscope.analysis.statistics.pivot import Pivot, pivot
from ggscope.analysis.statistics.scan import SpanBlocks
from ggscope.analysis.statistics.table import StatRow, StatTable, stat_table
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.pivot import pivot_notes
from ggscope.descriptions.statistics import stat_notes
from ggscope.model.selection import By, Filter
from ggscope.model.tables import Array
from ggscope.model.units import TimeRange, Unit

_MAX_NESTED = 1 << 20
"""Of more spans self and wall time would keep people waiting while they pan."""
MAX_ROWS = 500
"""More groups than the user reads; the largest ones are shown, with a note."""
MAX_COLUMNS = 60
"""The same across; a table of more is slow to scroll."""
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Scope:
    """What the figures are about.

    Attributes
    ----------
    kind : where it comes from.
    time : range that spans must touch; None = the whole trace.
    lanes : timeline lane keys, None = all.
    ids : the selected spans, for kind "selected".
    """

    kind: Literal["marked", "selected", "visible", "all"]
    time: TimeRange | None = None
    lanes: frozenset[str] | None = None
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class StatisticsResult:
    """Figures and what they are about.

    Attributes
    ----------
    facts : what its columns depend on.
    notes : what they mean, and what the times hold besides.
    where : the filter that the spans pass.
    pivot : the same spans by two groupings, where that is shown.
    """

    scope: Scope
    table: StatTable
    facts: StatFacts
    notes: tuple[str, ...] = ()
    where: Filter = Filter()  # noqa: RUF009 - frozen
    pivot: Pivot | None = None

    @property
    def by(self) -> By:
        """What a row is."""
        return self.facts.by

    @property
    def unit(self) -> Unit:
        """What ticks are."""
        return self.facts.unit

    @property
    def rows(self) -> tuple[StatRow, ...]:
        """The rows of the largest groups."""
        return self.table.rows

    @property
    def n_spans(self) -> int:
        """Number of spans counted, those of all groups."""
        return self.table.all.count

    @property
    def n_left_out(self) -> int:
        """Number of spans whose times were not used."""
        return self.table.all.count - self.table.all.timed


def figures_of(
    index: TraceIndex,
    scope: Scope,
    by: By,
    mask: Mask | None,
    with_estimated: bool,
    blocks: SpanBlocks | None,
    where: Filter,
    context: Watcher,
    *,
    across: By | None = None,
) -> StatisticsResult:
    """Return the figures of a scope. Raises Cancelled from the context.

    Parameters
    ----------
    mask : bool[n_spans] of the spans that pass the filter, None = all.
    blocks : of the trace; make short ranges quick where they are kept.
    where : the filter that `mask` is of.
    across : also tabulate the spans by this; None = not.
    """
    trace = index.trace
    mask, ids = restricted(index, scope, mask)
    table = stat_table(
        trace, by, mask=mask, ids=ids, time=scope.time, blocks=blocks,
        include_estimated=with_estimated, limit=MAX_ROWS, most_nested=_MAX_NESTED,
        watcher=context,
    )  # fmt: skip
    facts = stat_facts(trace, by, table, scope.time)
    notes = () if trace.is_partial else tuple(stat_notes(trace, table, facts))
    crossed = None
    if across is not None:
        crossed = pivot(
            trace, by, across, mask=mask, ids=ids, time=scope.time, blocks=blocks,
            include_estimated=with_estimated, max_rows=MAX_ROWS,
            max_columns=MAX_COLUMNS, watcher=context,
        )  # fmt: skip
        notes = (*notes, *pivot_notes(crossed, "total"))
    return StatisticsResult(scope, table, facts, notes, where, crossed)


def restricted(
    index: TraceIndex, scope: Scope, mask: Mask | None
) -> tuple[Mask | None, Array | None]:
    """Return which spans of a scope count: a mask, and the selected ones.

    Parameters
    ----------
    mask : bool of the spans that pass the filter, None = all; of a trace that grew the
        new ones are left out.
    """
    n = len(index.trace.spans)
    if mask is not None and len(mask) < n:
        mask = np.append(mask, np.zeros(n - len(mask), bool))
    if scope.kind == "selected":
        return mask, np.array(scope.ids, np.int64)
    if scope.lanes is not None and scope.time is not None:
        on_lanes = mask_of_lanes(index, scope.lanes, scope.time)
        mask = on_lanes if mask is None else on_lanes & mask
    return mask, None
