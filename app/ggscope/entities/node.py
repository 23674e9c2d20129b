"""A selected node of a graph."""

from ggscope.analysis.links import Linked
from ggscope.analysis.sessions.correlate import Correlation, node_text
from ggscope.descriptions.nodes import neighbours, node_facts
from ggscope.descriptions.selected import SelectedFacts
from ggscope.entities.entity import (
    MAX_RELATED,
    Entity,
    EntityStats,
    Related,
    RelatedGroup,
)
from ggscope.model.graph import first_node, locate_node
from ggscope.model.names import normalise
from ggscope.model.selection import Filter, Selection
from ggscope.model.trace import Trace


class NodeEntity(Entity):
    """A node; `row` counts over all graphs."""

    table = "nodes"

    @property
    def exists(self) -> bool:
        """Whether the graphs have such a node."""
        graphs = self.trace.graphs
        return 0 <= self.row < first_node(graphs, len(graphs))

    def facts(
        self,
        stats: EntityStats | None,
        correlation: Correlation | None,
        *,
        absolute: bool,
    ) -> SelectedFacts:
        """Return its op, shape, how it was matched to spans, and its usage."""
        usage = None if stats is None else stats.usage
        return node_facts(self.trace, self.row, usage, correlation, absolute=absolute)

    def related(self, linked: Linked) -> tuple[RelatedGroup, ...]:
        """Return its predecessors and successors."""
        sources, readers = neighbours(self.trace, self.row)
        return (
            nodes_group(self.trace, "Predecessors", sources),
            nodes_group(self.trace, "Successors", readers),
        )

    def span_filter(self) -> Filter | None:
        """Return the filter of its name and op; None without a name."""
        name, op = _name_and_op(self.trace, self.row)
        if not name:
            return None
        ops = frozenset({op}) if op else None
        return Filter(tensors=frozenset({normalise(name) or name}), ops=ops)


def nodes_group(trace: Trace, title: str, ids: list[int]) -> RelatedGroup:
    """Return nodes as a group of related entities."""
    items = []
    for node in ids[:MAX_RELATED]:
        name, op = _name_and_op(trace, node)
        text = " · ".join(part for part in (name or "–", op) if part)
        tip = node_text(trace, node)
        items.append(Related(text, tip, Selection("nodes", (node,))))
    return RelatedGroup(title, tuple(items), len(ids))


def _name_and_op(trace: Trace, node: int) -> tuple[str, str]:
    number, row = locate_node(trace.graphs, node)
    graph = trace.graphs[number]
    return trace.strings[int(graph.name[row])], trace.op_name(int(graph.op[row]))
