"""A selected wait behind a span."""

from collections.abc import Hashable

from ggscope.analysis.links import Linked
from ggscope.analysis.rows.waits import wait_time
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.analysis.summary.barriers import barrier_of
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.selected import SelectedFacts
from ggscope.descriptions.spans import op_text
from ggscope.descriptions.waits import arrival_text, wait_facts
from ggscope.entities.entity import (
    MAX_RELATED,
    Entity,
    EntityStats,
    Related,
    RelatedGroup,
)
from ggscope.model.selection import Selection
from ggscope.model.tables import NO_WAIT
from ggscope.model.trace import Trace


class WaitEntity(Entity):
    """The time that a thread waited at the barrier behind its op."""

    table = "waits"
    lies_in_time = True

    @property
    def exists(self) -> bool:
        """Whether the trace records a wait behind such a span."""
        wait = self.trace.spans.wait
        if wait is None or not 0 <= self.row < len(wait):
            return False
        return bool(wait[self.row] != NO_WAIT)

    @property
    def record(self) -> int:
        """Number of its record: that of its op."""
        return self.trace.record_of(self.row)

    @property
    def stats_key(self) -> Hashable:
        """The wait itself."""
        return self.selection

    def load_stats(
        self, correlation: Correlation | None, watcher: Watcher | None = None
    ) -> EntityStats:
        """Return what ran behind it, and what the other threads did meanwhile."""
        # Imported on demand: statistics import much.
        from ggscope.analysis.summary.pauses import pause_context

        time = wait_time(self.trace, self.row)
        return EntityStats(pause=pause_context(self.trace, self.row, time, watcher))

    def facts(
        self,
        stats: EntityStats | None,
        correlation: Correlation | None,
        *,
        absolute: bool,
    ) -> SelectedFacts:
        """Return how long and for whom it waited, and what ran before and after."""
        pause = None if stats is None else stats.pause
        return wait_facts(self.trace, self.row, pause, absolute=absolute)

    def related(self, linked: Linked) -> tuple[RelatedGroup, ...]:
        """Return the op before it, and the threads in the order in which they came."""
        groups = [spans_group(self.trace, "Op", (self.row,))]
        if (barrier := barrier_of(self.trace, self.row)) is not None:
            items = tuple(
                Related(
                    arrival_text(self.trace, span, barrier),
                    f"Select {op_text(self.trace, span)} of this thread",
                    Selection("spans", (span,)),
                )
                for span in barrier.spans[:MAX_RELATED].tolist()
            )
            groups.append(RelatedGroup("At the barrier", items, len(barrier.spans)))
        return tuple(groups)


def spans_group(trace: Trace, title: str, spans: tuple[int, ...]) -> RelatedGroup:
    """Return spans as a group of related entities."""
    items = tuple(
        Related(
            op_text(trace, span),
            f"Select the span {op_text(trace, span)}",
            Selection("spans", (span,)),
        )
        for span in spans
    )
    return RelatedGroup(title, items, len(items))
