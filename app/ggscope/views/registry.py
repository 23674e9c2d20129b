"""Which views there are. A view's module is imported when it is first shown."""

import importlib
import logging
from dataclasses import dataclass

from ggscope.views.base import Area, ViewSpec

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ViewEntry:
    """A view as menus know it, before its module is imported.

    Attributes
    ----------
    id, title, area : as in `ViewSpec`.
    target : ``module:name`` of the `ViewSpec`.
    """

    id: str
    title: str
    area: Area
    target: str

    def load(self) -> ViewSpec:
        """Import the module and return its spec.

        Raises whatever the import raises; the caller shows it in the view's place.
        """
        module, _, name = self.target.partition(":")
        spec = getattr(importlib.import_module(module), name)
        if not isinstance(spec, ViewSpec):
            raise TypeError(f"{self.target} is no ViewSpec")
        return spec


BUILTIN: tuple[ViewEntry, ...] = (
    ViewEntry("overview", "Overview", "centre", "ggscope.views.overview:SPEC"),
    ViewEntry("timeline", "Timeline", "centre", "ggscope.views.timeline:SPEC"),
    ViewEntry("table", "Trace table", "centre", "ggscope.views.table:SPEC"),
    ViewEntry("details", "Details", "right", "ggscope.views.details:SPEC"),
    ViewEntry(
        "statistics", "Selection statistics", "bottom", "ggscope.views.statistics:SPEC"
    ),
    ViewEntry("heatmap", "File heatmap", "centre", "ggscope.views.heatmap:SPEC"),
    ViewEntry("graph", "Graph", "centre", "ggscope.views.graph:SPEC"),
    ViewEntry("hot_cold", "Hot and cold", "bottom", "ggscope.views.hot_cold:SPEC"),
    ViewEntry("cache", "What-if cache", "bottom", "ggscope.views.cache:SPEC"),
    ViewEntry("experts", "Experts", "bottom", "ggscope.views.experts:SPEC"),
    ViewEntry("buffers", "Buffers", "bottom", "ggscope.views.buffers:SPEC"),
    ViewEntry("problems", "Problems", "bottom", "ggscope.views.problems:SPEC"),
)


def entry(view_id: str) -> ViewEntry:
    """Return the entry of a view. Raises KeyError for an unknown one."""
    for known in BUILTIN:
        if known.id == view_id:
            return known
    raise KeyError(view_id)


def cell_views() -> tuple[ViewEntry, ...]:
    """Return the views that a cell of the centre can show, in menu order.

    The overview strip has a place of its own.
    """
    return tuple(known for known in BUILTIN if known.id != "overview")


__all__ = ["BUILTIN", "ViewEntry", "cell_views", "entry"]
