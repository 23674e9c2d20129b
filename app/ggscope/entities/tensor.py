"""A selected tensor."""

from ggscope.analysis.graph.inputs import input_purposes
from ggscope.analysis.links import Linked
from ggscope.analysis.reads.usage import usage_of
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.selected import SelectedFacts, tensor_facts, tensor_name
from ggscope.entities.entity import (
    MAX_RELATED,
    Entity,
    EntityStats,
    Related,
    RelatedGroup,
)
from ggscope.entities.node import nodes_group
from ggscope.model.selection import Filter, Selection
from ggscope.model.tables import I64
from ggscope.model.trace import Trace

_LEAF = "leaf_"
"""How llama.cpp names inputs that have no name of their own."""


class TensorEntity(Entity):
    """A tensor: a weight, an input or a result."""

    table = "tensors"

    @property
    def exists(self) -> bool:
        """Whether the trace has such a tensor."""
        return 0 <= self.row < len(self.trace.tensors)

    def load_stats(
        self, correlation: Correlation | None, watcher: Watcher | None = None
    ) -> EntityStats:
        """Return its usage, and what it is for if it has no name of its own."""
        usage = usage_of(self.trace, self.selection, correlation, watcher)
        leaf = ""
        if tensor_name(self.trace, self.row).startswith(_LEAF):
            leaf = input_purposes(self.trace).get(self.row, "")
        return EntityStats(usage, leaf)

    def facts(
        self,
        stats: EntityStats | None,
        correlation: Correlation | None,
        *,
        absolute: bool,
    ) -> SelectedFacts:
        """Return its shape, type, place in the file and usage."""
        usage, leaf = (None, "") if stats is None else (stats.usage, stats.leaf)
        return tensor_facts(self.trace, self.row, usage, leaf, absolute=absolute)

    def related(self, linked: Linked) -> tuple[RelatedGroup, ...]:
        """Return the nodes that read or write it."""
        return (nodes_group(self.trace, "Nodes", linked.nodes.tolist()),)

    def span_filter(self) -> Filter:
        """Return the filter of its name."""
        return Filter(tensors=frozenset({tensor_name(self.trace, self.row)}))


def tensors_group(trace: Trace, rows: I64) -> RelatedGroup:
    """Return tensors as a group of related entities."""
    names = [(row, tensor_name(trace, row)) for row in rows[:MAX_RELATED].tolist()]
    items = tuple(
        Related(name, f"Select the tensor {name}", Selection("tensors", (row,)))
        for row, name in names
    )
    return RelatedGroup("Tensors", items, len(rows))
