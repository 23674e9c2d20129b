"""What is lit in the graph: paths, and what the search found, with their words."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ggscope.analysis.graph.measures import (
    CriticalPath,
    edges_within,
    path_edges,
    predecessors,
    successors,
)
from ggscope.analysis.graph.search import find_nodes, op_words
from ggscope.errors import QueryError
from ggscope.model.tables import I64, Quality
from ggscope.model.units import format_count, format_duration, format_share
from ggscope.render.graph.scene import Flags
from ggscope.views.base.plain import set_tip
from ggscope.views.graph.sight import PathRequest

if TYPE_CHECKING:
    from ggscope.views.graph.view import GraphView


@dataclass(frozen=True, slots=True, eq=False)
class LitPath:
    """What is lit.

    Attributes
    ----------
    nodes : bool[n].
    edges : bool[m].
    steps : rows of its nodes in order; empty where it is no single path.
    """

    nodes: Flags
    edges: Flags
    steps: I64


class Paths:
    """Lights paths in a view, and says so in its bar.

    Attributes
    ----------
    lit : what is lit now, or None.
    """

    def __init__(self, view: "GraphView") -> None:
        self._view = view
        self.lit: LitPath | None = None

    def bright_edges(self) -> Flags | None:
        """Return bool[m]: edges of the path, else those of the one selected node."""
        graph, rows = self._view.graph, self._view.selected_rows()
        if self.lit is not None:
            return self.lit.edges
        if graph is None or len(rows) != 1:
            return None
        edges: Flags = (graph.source == rows[0]) | (graph.target == rows[0])
        return edges

    def clear(self) -> None:
        """Light nothing."""
        self.lit = None
        self._view.path_bar.say("", ())
        self._view.repaint_picture()

    def show_sources(self) -> None:
        """Light all nodes that the selected ones are computed from."""
        self._show_reached(is_back=True)

    def show_users(self) -> None:
        """Light all nodes that are computed from the selected ones."""
        self._show_reached(is_back=False)

    def _show_reached(self, *, is_back: bool) -> None:
        view, graph, rows = self._view, self._view.graph, self._view.selected_rows()
        if graph is None or view.shown is None or not len(rows):
            return
        reach = predecessors if is_back else successors
        nodes = reach(graph, rows)
        name = view.shown.trace.strings[int(graph.name[rows[0]])]
        if len(rows) > 1:
            name = view.tr("{0} nodes").format(format_count(len(rows)))
        words = (
            view.tr("{0} lead to {1}") if is_back else view.tr("{0} follow from {1}")
        )
        n = int(nodes.sum()) - len(np.unique(rows))
        count = view.tr("1 node") if n == 1 else view.tr("{0} nodes")
        self._light(LitPath(nodes, edges_within(graph, nodes), np.zeros(0, np.int64)))
        view.path_bar.say(words.format(count.format(format_count(n)), name), ())

    def show_critical(self) -> None:
        """Light the path that takes longest, once it is found on a worker."""
        view = self._view
        if view.shown is None:
            return
        if view.measures is None:
            view.path_bar.say(view.tr("The trace is still being searched."), ())
            return
        request = PathRequest(view.shown.trace, view.shown.number, view.measures)
        view.run(
            "graph-path", request, self._on_found, view.tr("Finding the longest path")
        )

    def _on_found(self, found: tuple[PathRequest, CriticalPath]) -> None:
        request, path = found
        view, shown, graph = self._view, self._view.shown, self._view.graph
        if shown is None or graph is None or request.trace is not shown.trace:
            return
        if request.number != shown.number:
            return
        if not len(path.nodes):
            self.clear()
            view.path_bar.say(
                view.tr("No critical path: no node has a time in the trace."), ()
            )
            return
        nodes = np.zeros(len(graph), np.bool_)
        nodes[path.nodes] = True
        self._light(LitPath(nodes, path_edges(graph, path.nodes), path.nodes))
        unit = shown.trace.clock.unit
        words = view.tr("Critical path: {0} of {1} ({2}) in {3} steps").format(
            format_duration(round(path.total), unit),
            format_duration(round(path.everything), unit),
            format_share(path.total / path.everything),
            format_count(len(path.nodes)),
        )
        untimed = len(path.nodes) - path.n_timed
        if untimed:
            words += view.tr(", {0} without a time in the trace").format(
                format_count(untimed)
            )
        worst = Quality(int(request.measures.quality[path.nodes].max()))
        if worst is not Quality.MEASURED:
            words += view.tr("; times are {0}").format(worst.name.lower())
        view.path_bar.say(words, self._step_words(path.nodes, request))

    def _step_words(self, nodes: I64, request: PathRequest) -> list[str]:
        trace, time = request.trace, request.measures.time
        graph = trace.graphs[request.number]
        lines = []
        for number, node in enumerate(nodes.tolist(), 1):
            name = trace.strings[int(graph.name[node])]
            took = time[node]
            words = (
                format_duration(round(took), trace.clock.unit) if took == took else "–"
            )
            op = op_words(trace, graph, node)
            lines.append(f"{number:>5}  {words:>10}  {op:<16} {name}")
        return lines

    def go_to_step(self, step: int) -> None:
        """Go to a step of the path."""
        if self.lit is not None and step < len(self.lit.steps):
            self._view.go_to(int(self.lit.steps[step]))

    def _light(self, lit: LitPath) -> None:
        self.lit = lit
        self._view.repaint_picture()


class Hits:
    """Finds nodes of the graph that a view draws.

    Attributes
    ----------
    rows : int64[k], nodes found, in the order of the program.
    position : which of them one is at, -1 = none yet.
    """

    def __init__(self, view: "GraphView") -> None:
        self._view = view
        self.forget()

    def forget(self) -> None:
        """Have found nothing."""
        self.rows = np.zeros(0, np.int64)
        self.position = -1

    def search(self, text: str) -> None:
        """Find the nodes whose name or op has `text` in it."""
        self.forget()
        view, problem = self._view, ""
        if view.shown is not None and view.graph is not None:
            try:
                self.rows = find_nodes(view.shown.trace, view.graph, text)
            except QueryError as error:
                problem = str(error)
        set_tip(view.head.count, problem)
        view.head.show_hits(self.position, len(self.rows))
        view.repaint_picture()

    def step(self, by: int) -> None:
        """Select the next (+1) or previous (-1) node; its layer opens."""
        if not len(self.rows):
            return
        if self.position < 0:
            self.position = 0 if by > 0 else len(self.rows) - 1
        else:
            self.position = (self.position + by) % len(self.rows)
        self._view.head.show_hits(self.position, len(self.rows))
        self._view.go_to(int(self.rows[self.position]))
