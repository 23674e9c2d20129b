"""Selected idle time between two spans."""

from collections.abc import Hashable

from ggscope.analysis.links import Linked
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.selected import SelectedFacts
from ggscope.descriptions.waits import gap_facts
from ggscope.entities.entity import Entity, EntityStats, RelatedGroup
from ggscope.entities.wait import spans_group
from ggscope.model.selection import Gap, Selection
from ggscope.model.trace import Trace


class GapEntity(Entity):
    """Idle time of a thread, an engine or a command."""

    table = "gaps"
    lies_in_time = True

    def __init__(self, trace: Trace, gap: Gap) -> None:
        super().__init__(trace, gap.before)
        self._gap = gap

    @property
    def selection(self) -> Selection:
        """The selection of this gap."""
        return Selection("gaps", (self._gap.before,), gap=self._gap)

    @property
    def exists(self) -> bool:
        """Whether the trace has the spans around it."""
        n = len(self.trace.spans)
        return 0 <= self._gap.before < n and 0 <= self._gap.after < n

    @property
    def stats_key(self) -> Hashable:
        """The gap."""
        return self._gap

    def load_stats(
        self, correlation: Correlation | None, watcher: Watcher | None = None
    ) -> EntityStats:
        """Return what the other lanes did meanwhile."""
        # Imported on demand: statistics import much.
        from ggscope.analysis.summary.pauses import pause_context

        gap = self._gap
        return EntityStats(
            pause=pause_context(self.trace, gap.before, gap.time, watcher)
        )

    def facts(
        self,
        stats: EntityStats | None,
        correlation: Correlation | None,
        *,
        absolute: bool,
    ) -> SelectedFacts:
        """Return when and how long nothing ran, and what ran before and after."""
        pause = None if stats is None else stats.pause
        return gap_facts(self.trace, self._gap, pause, absolute=absolute)

    def related(self, linked: Linked) -> tuple[RelatedGroup, ...]:
        """Return the spans before and behind it."""
        around = (self._gap.before, self._gap.after)
        return (spans_group(self.trace, "Before and after", around),)
