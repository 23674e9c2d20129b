"""Which views there are: one line each, and all that menus and layouts know of them.

A view's module is imported when it is first shown; this one needs neither numpy nor Qt.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ggscope.model.trace import Trace
    from ggscope.render.export import Figure
    from ggscope.views.base.view import View

Area = Literal["centre", "right", "bottom"]


@dataclass(frozen=True, slots=True)
class ViewEntry:
    """A view as menus know it, before its module is imported.

    Attributes
    ----------
    id : stable name, kept in layouts.
    title : what tabs and menus say.
    area : where it lives by default.
    target : ``module:name`` of its class, a `View`; the module below `ggscope.views`.
    has_data : tells whether a trace has anything for it to show.
    figure : ``module:name_figure`` below `ggscope.render` of what makes its figure of
        a trace for the command line, which calls the view by that name; "" = none.
    menu, keys : where the command that shows it stands, and its shortcuts; "" = none.
    uses_gl : whether it may draw by OpenGL. It cannot float then: a context does not
        survive the move to another window on every system.
    of_run : whether it is about a program that its tab has started; other tabs have no
        place for it.
    """

    id: str
    title: str
    area: Area
    target: str
    has_data: "Callable[[Trace], bool]" = lambda _: True
    figure: str = ""
    menu: str = "Analyse"
    keys: str = ""
    uses_gl: bool = False
    of_run: bool = False

    @property
    def module(self) -> str:
        """Name of the module that has to be imported to show it."""
        return "ggscope.views." + self.target.partition(":")[0]

    @property
    def figure_name(self) -> str:
        """What the command line calls it; "" where it has no figure."""
        return self.figure.partition(":")[2].removesuffix("_figure")

    def load_figure(self) -> "Callable[..., Figure]":
        """Import the module of the figure and return what makes one of a trace."""
        module, _, name = self.figure.partition(":")
        made: Callable[..., Figure] = getattr(
            import_module(f"ggscope.render.{module}"), name
        )
        return made

    def load(self) -> "type[View]":
        """Import the module and return the class.

        Raises whatever the import raises; the caller shows it in the view's place.
        """
        made: type[View] = getattr(
            import_module(self.module), self.target.partition(":")[2]
        )
        return made


def _has_accesses(trace: "Trace") -> bool:
    return len(trace.accesses.patterns) > 0


def _has_times(trace: "Trace") -> bool:
    return bool(
        len(trace.spans) or len(trace.markers) or trace.counters or len(trace.buffers)
    )


def _has_experts(trace: "Trace") -> bool:
    return bool(len(trace.routing)) or bool((trace.tensors.expert >= 0).any())


# fmt: off
BUILTIN: tuple[ViewEntry, ...] = (
    ViewEntry("overview", "Overview", "centre", "overview:OverviewView", _has_times, menu="", uses_gl=True),
    ViewEntry("timeline", "Timeline", "centre", "timeline.view:TimelineView", _has_times, figure="timeline.figure:timeline_figure", menu="View/Show", keys="Ctrl+1", uses_gl=True),
    ViewEntry("table", "Trace table", "centre", "table.view:TableView", lambda trace: len(trace.spans) > 0, menu="View/Show", keys="Ctrl+2"),
    ViewEntry("details", "Details", "right", "details.view:DetailsView", menu=""),
    ViewEntry("statistics", "Selection statistics", "bottom", "statistics:StatisticsView", figure="statistics:statistics_figure", keys="Ctrl+9"),
    ViewEntry("heatmap", "File heatmap", "centre", "heatmap.view:HeatmapView", _has_accesses, "heatmap.figure:heatmap_figure", "View/Show", "Ctrl+3", uses_gl=True),
    ViewEntry("graph", "Graph", "centre", "graph.view:GraphView", lambda trace: bool(trace.graphs), "graph.figure:graph_figure", "View/Show", "Ctrl+4", uses_gl=True),
    ViewEntry("tensors", "Tensors", "centre", "tensors:TensorsView", lambda trace: len(trace.tensors) > 0, menu="View/Show", keys="Ctrl+0"),
    ViewEntry("hot_cold", "Hot and cold", "bottom", "hot_cold:HotColdView", _has_accesses, "reads:hot_figure", keys="Ctrl+7"),
    ViewEntry("cache", "What-if cache", "bottom", "cache:CacheView", _has_accesses, "reads:cache_figure", keys="Ctrl+8"),
    ViewEntry("experts", "Experts", "bottom", "experts.view:ExpertsView", _has_experts, "experts:experts_figure", keys="Ctrl+5"),
    ViewEntry("buffers", "Buffers", "bottom", "buffers.view:BuffersView", lambda trace: len(trace.buffers) > 0, "buffers:buffers_figure", keys="Ctrl+6"),
    ViewEntry("bookmarks", "Bookmarks", "bottom", "bookmarks:BookmarksView", menu="Go", keys="Ctrl+B"),
    ViewEntry("problems", "Problems", "bottom", "problems:ProblemsView"),
    ViewEntry("console", "Console", "bottom", "console:ConsoleView", menu="View/Show", of_run=True),
)
# fmt: on


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
