"""What the graph pane computes on workers."""

from dataclasses import dataclass, field

from ggscope.analysis.correlate import Correlation
from ggscope.analysis.graph_frames import Cache
from ggscope.analysis.graph_layout import (
    GraphChoice,
    GraphLayout,
    lay_out_graph,
    opening_choice,
)
from ggscope.analysis.graph_measures import NodeMeasures, node_measures
from ggscope.analysis.graph_paths import CriticalPath, critical_path
from ggscope.model.trace import Trace
from ggscope.session.tasks import TaskContext


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """A graph of a trace with its layout: what the picture is drawn from."""

    trace: Trace
    number: int
    layout: GraphLayout


@dataclass(frozen=True, slots=True, eq=False)
class LayoutRequest:
    """Lays a graph out; without a choice, as graphs are shown first."""

    trace: Trace
    number: int
    choice: GraphChoice | None
    cache: Cache = field(default_factory=dict)

    def __call__(self, context: TaskContext | None = None) -> Shown:
        """Return the layout; Cancelled passes through."""
        graph = self.trace.graphs[self.number]
        choice = opening_choice(graph) if self.choice is None else self.choice
        layout = lay_out_graph(graph, choice, self.cache, context)
        return Shown(self.trace, self.number, layout)


@dataclass(frozen=True, slots=True, eq=False)
class MeasuresRequest:
    """Finds what the trace says of each node."""

    trace: Trace
    number: int
    correlation: Correlation | None

    def __call__(
        self, context: TaskContext | None = None
    ) -> tuple["MeasuresRequest", NodeMeasures]:
        """Return the request itself beside its answer."""
        found = node_measures(self.trace, self.number, self.correlation, context)
        return self, found


@dataclass(frozen=True, slots=True, eq=False)
class PathRequest:
    """Finds the path through a graph that takes longest."""

    trace: Trace
    number: int
    measures: NodeMeasures

    def __call__(
        self, context: TaskContext | None = None
    ) -> tuple["PathRequest", CriticalPath]:
        """Return the request itself beside its answer."""
        graph = self.trace.graphs[self.number]
        return self, critical_path(graph, self.measures.time, context)


__all__ = ["LayoutRequest", "MeasuresRequest", "PathRequest", "Shown"]
