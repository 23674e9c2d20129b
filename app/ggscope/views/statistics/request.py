"""What the selection statistics are about, and their computation. No widgets here."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.index import TraceIndex, mask_of_lanes
from ggscope.analysis.statistics.figures import SpanBlocks
from ggscope.analysis.statistics.table import By, StatRow, StatTable, stat_table
from ggscope.analysis.workers import Watcher
from ggscope.model.tables import Array
from ggscope.model.time import TimeRange, Unit

_MOST_NESTED = 1 << 20
"""Of more spans self and wall time would keep people waiting while they pan."""

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
class StatisticsRequest:
    """Computes the figures of a scope; runs on a worker.

    Attributes
    ----------
    mask : bool[n_spans] of the spans that pass the filter, None = all.
    blocks : of the trace; make short ranges quick where they are kept.
    limit : rows to make of many groups.
    """

    index: TraceIndex
    scope: Scope
    by: By
    mask: Mask | None = None
    with_estimated: bool = False
    blocks: SpanBlocks | None = None
    limit: int | None = None

    def __call__(self, context: Watcher | None = None) -> "StatisticsResult":
        """Return the figures. Raises Cancelled from the context."""
        scope, trace = self.scope, self.index.trace
        ids: Array | None = None
        mask = self.mask
        if mask is not None and len(mask) < len(trace.spans):
            mask = np.append(mask, np.zeros(len(trace.spans) - len(mask), bool))
        if scope.kind == "selected":
            ids = np.array(scope.ids, np.int64)
        elif scope.lanes is not None and scope.time is not None:
            on_lanes = mask_of_lanes(self.index, scope.lanes, scope.time)
            mask = on_lanes if mask is None else on_lanes & mask
        table = stat_table(
            trace,
            self.by,
            mask=mask,
            ids=ids,
            time=scope.time,
            include_estimated=self.with_estimated,
            blocks=self.blocks,
            limit=self.limit,
            most_nested=_MOST_NESTED,
            watcher=context,
        )
        knows_bytes = "accesses" not in trace.pending
        return StatisticsResult(scope, self.by, table, trace.clock.unit, knows_bytes)


@dataclass(frozen=True, slots=True, eq=False)
class StatisticsResult:
    """Figures and what they are about.

    Attributes
    ----------
    knows_bytes : whether the accesses had been read.
    """

    scope: Scope
    by: By
    table: StatTable
    unit: Unit
    knows_bytes: bool = True

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
