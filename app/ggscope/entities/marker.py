"""A selected marker."""

from ggscope.analysis.sessions.correlate import Correlation
from ggscope.descriptions.selected import SelectedFacts
from ggscope.descriptions.spans import known_facts, marker_facts
from ggscope.entities.entity import Entity, EntityStats


class MarkerEntity(Entity):
    """An instant."""

    table = "markers"
    lies_in_time = True
    has_stats = False

    @property
    def exists(self) -> bool:
        """Whether the trace has such a marker."""
        return 0 <= self.row < len(self.trace.markers)

    @property
    def record(self) -> int:
        """Number of its record in the file, -1 without one."""
        records = self.trace.markers.record
        return -1 if records is None else int(records[self.row])

    def facts(
        self,
        stats: EntityStats | None,
        correlation: Correlation | None,
        *,
        absolute: bool,
    ) -> SelectedFacts:
        """Return its name, lane, time and detail."""
        name, *facts = marker_facts(self.trace, self.row, absolute=absolute)
        kind = f"marker · {facts[0].value}"
        return SelectedFacts(name.value, kind, known_facts(tuple(facts)))
