"""A selected buffer."""

from ggscope.analysis.links import Linked
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.descriptions.selected import SelectedFacts, buffer_facts
from ggscope.entities.entity import Entity, EntityStats, RelatedGroup
from ggscope.entities.tensor import tensors_group
from ggscope.model.selection import Filter


class BufferEntity(Entity):
    """A backend buffer, from its allocation to its end."""

    table = "buffers"

    @property
    def exists(self) -> bool:
        """Whether the trace has such a buffer."""
        return 0 <= self.row < len(self.trace.buffers)

    def facts(
        self,
        stats: EntityStats | None,
        correlation: Correlation | None,
        *,
        absolute: bool,
    ) -> SelectedFacts:
        """Return its size, backend, lifetime and usage."""
        usage = None if stats is None else stats.usage
        return buffer_facts(self.trace, self.row, usage, absolute=absolute)

    def related(self, linked: Linked) -> tuple[RelatedGroup, ...]:
        """Return the tensors that its spans access."""
        return (tensors_group(self.trace, linked.accessed),)

    def span_filter(self) -> Filter | None:
        """Return the filter of its address; None without one."""
        address = int(self.trace.buffers.address[self.row])
        return Filter(buffers=frozenset({address})) if address else None
