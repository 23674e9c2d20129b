"""Which views there are. A view's module is imported when it is first shown."""

import importlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

from ggscope.model.trace import Trace
from ggscope.views.base import Area, ViewSpec

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ViewEntry:
    """A view as menus know it, before its module is imported.

    Attributes
    ----------
    id, title, area : as in `ViewSpec`.
    target : ``module:name`` of the `ViewSpec`.
    height : that its picture or list needs to be read, device-independent pixels at
        100 %; 0 = it makes do with what the drawer has.
    has_data : tells whether a trace has anything for it to show.
    """

    id: str
    title: str
    area: Area
    target: str
    height: int = 0
    has_data: Callable[[Trace], bool] = lambda _: True

    def load(self) -> ViewSpec:
        """Import the module and return its spec.

        Raises whatever the import raises; the caller shows it in the view's place.
        """
        module, _, name = self.target.partition(":")
        spec = getattr(importlib.import_module(module), name)
        if not isinstance(spec, ViewSpec):
            raise TypeError(f"{self.target} is no ViewSpec")
        return spec


def _has_accesses(trace: Trace) -> bool:
    return len(trace.accesses.patterns) > 0


def _has_file_places(trace: Trace) -> bool:
    return _has_accesses(trace) or bool(trace.models)


def _has_graphs(trace: Trace) -> bool:
    return bool(trace.graphs)


def _has_experts(trace: Trace) -> bool:
    return bool(len(trace.routing)) or bool((trace.tensors.expert >= 0).any())


def _has_buffers(trace: Trace) -> bool:
    return bool(len(trace.buffers))


BUILTIN: tuple[ViewEntry, ...] = (
    ViewEntry("overview", "Overview", "centre", "ggscope.views.overview:SPEC"),
    ViewEntry("timeline", "Timeline", "centre", "ggscope.views.timeline:SPEC"),
    ViewEntry("table", "Trace table", "centre", "ggscope.views.table:SPEC"),
    ViewEntry("details", "Details", "right", "ggscope.views.details:SPEC"),
    ViewEntry(
        "statistics", "Selection statistics", "bottom", "ggscope.views.statistics:SPEC"
    ),
    ViewEntry(
        "heatmap",
        "File heatmap",
        "centre",
        "ggscope.views.heatmap:SPEC",
        has_data=_has_file_places,
    ),
    ViewEntry(
        "graph", "Graph", "centre", "ggscope.views.graph:SPEC", has_data=_has_graphs
    ),
    ViewEntry(
        "hot_cold",
        "Hot and cold",
        "bottom",
        "ggscope.views.hot_cold:SPEC",
        height=360,
        has_data=_has_accesses,
    ),
    ViewEntry(
        "cache",
        "What-if cache",
        "bottom",
        "ggscope.views.cache:SPEC",
        height=380,
        has_data=_has_accesses,
    ),
    ViewEntry(
        "experts",
        "Experts",
        "bottom",
        "ggscope.views.experts:SPEC",
        height=380,
        has_data=_has_experts,
    ),
    ViewEntry(
        "buffers",
        "Buffers",
        "bottom",
        "ggscope.views.buffers:SPEC",
        height=380,
        has_data=_has_buffers,
    ),
    ViewEntry("bookmarks", "Bookmarks", "bottom", "ggscope.views.bookmarks:SPEC"),
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
