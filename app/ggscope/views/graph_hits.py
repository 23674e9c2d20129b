"""The search of the graph pane: what was found, and stepping through it."""

from typing import TYPE_CHECKING

import numpy as np

from ggscope.analysis.graph_search import find_nodes
from ggscope.errors import QueryError
from ggscope.views.plain import set_tip

if TYPE_CHECKING:
    from ggscope.views.graph import GraphView


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


__all__ = ["Hits"]
