"""A selected expert."""

from ggscope.analysis.links import Linked
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.descriptions.selected import SelectedFacts, expert_facts
from ggscope.entities.entity import Entity, EntityStats, RelatedGroup
from ggscope.entities.tensor import tensors_group
from ggscope.model.routing import of_expert_key
from ggscope.model.selection import Filter


class ExpertEntity(Entity):
    """An expert of a layer; `row` is its ``model.routing.expert_key``."""

    table = "experts"

    @property
    def exists(self) -> bool:
        """Whether the key can be one: any expert of any layer may be selected."""
        return self.row >= 0

    def facts(
        self,
        stats: EntityStats | None,
        correlation: Correlation | None,
        *,
        absolute: bool,
    ) -> SelectedFacts:
        """Return its layer, bytes in the file, how often it was chosen, and usage."""
        usage = None if stats is None else stats.usage
        return expert_facts(self.trace, self.row, usage, absolute=absolute)

    def related(self, linked: Linked) -> tuple[RelatedGroup, ...]:
        """Return its tensors."""
        return (tensors_group(self.trace, linked.accessed),)

    def span_filter(self) -> Filter:
        """Return the filter of its layer and number."""
        layer, expert = of_expert_key(self.row)
        return Filter(experts=frozenset({expert}), layers=frozenset({layer}))
