"""Registry of views: one line each, and all that menus and layouts know of them.

A view's module is imported when it is first shown; this one needs neither numpy nor Qt.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from ggscope.render.figures import COMPARE, FIGURES, has_spans

if TYPE_CHECKING:
    from ggscope.model.trace import Trace
    from ggscope.views.base.view import View

Area = Literal["centre", "right", "bottom"]


@dataclass(frozen=True, slots=True)
class ViewEntry:
    """A view as menus know it, before its module is imported.

    Attributes
    ----------
    id : stable name, saved in layouts.
    title : text of tabs and menus.
    area : default area.
    target : ``module:name`` of its class, a `View`; the module below `ggscope.views`.
    has_data : whether a trace has anything for it to show.
    figure : key of its figure in `ggscope.render.figures.FIGURES`; "" = none.
    menu, keys : menu of the command that shows it, and its shortcuts; "" = none.
    gestures : (keys or mouse, action) that it handles itself, for the keys sheet.
    uses_gl : whether it may draw by OpenGL. It cannot float then: a context does not
        survive the move to another window on every system.
    of_few : whether few formats have anything for it: its tab is there where a trace
        has something, or where it was asked for.
    stays : whether its tab is there in a trace without spans too, where it has nothing
        to show. Others go there, as those `of_few` do everywhere.
    needs_height : whether a bottom panel of the usual height shows too little of it in
        a low window: it becomes higher for this one.
    of_run : whether it is about a program that its tab has started; hidden in other
        tabs.
    """

    id: str
    title: str
    area: Area
    target: str
    has_data: "Callable[[Trace], bool]" = lambda _: True
    figure: str = ""
    menu: str = "Analyse"
    keys: str = ""
    gestures: tuple[tuple[str, str], ...] = ()
    uses_gl: bool = False
    of_few: bool = False
    stays: bool = False
    needs_height: bool = False
    of_run: bool = False

    @property
    def module(self) -> str:
        """Name of the module that has to be imported to show it."""
        return "ggscope.views." + self.target.partition(":")[0]

    def load(self) -> "type[View]":
        """Import the module and return the class.

        Raises whatever the import raises; the caller shows it in the view's place.
        """
        view_class: type[View] = getattr(
            import_module(self.module), self.target.partition(":")[2]
        )
        return view_class


def _with_figure(
    view_id: str, area: Area, target: str, figure: str, **attributes: Any
) -> ViewEntry:
    """Return a view that has the title and the data of its figure."""
    spec = FIGURES[figure]
    return ViewEntry(
        view_id, spec.title, area, target, spec.has_data, figure, **attributes
    )


def _has_workers(trace: "Trace") -> bool:
    return bool((trace.lanes.is_thread | trace.lanes.is_engine).any())


def _has_summary(trace: "Trace") -> bool:
    return has_spans(trace) or (bool(trace.models) and len(trace.tensors) > 0)


def _has_flags(trace: "Trace") -> bool:
    """Tell whether anything of a trace can be evidence for a flag of llama.cpp."""
    experts = trace.importance is not None or trace.expert_counts is not None
    experts |= len(trace.routing) > 0
    return bool(trace.lanes.is_thread.any()) or bool(trace.models) or experts


_TIMELINE_GESTURES = (
    ("Up / Down, PgUp / PgDown", "Scroll lanes"),
    ("Wheel", "Scroll lanes"),
    ("Ctrl+wheel, pinch", "Zoom time at the cursor"),
    ("Shift+wheel", "Pan time"),
    ("Left drag", "Mark a range"),
    ("Middle drag, Shift+left drag", "Pan"),
    ("Ctrl+left drag", "Zoom to a region"),
    ("Ctrl+Shift+left drag", "Measure; Alt does not snap to edges of spans"),
    ("Click on a bookmark, double click", "Go there, edit it"),
    ("Click, Ctrl+click", "Select, add to the selection"),
    ("Double click", "Fit that span"),
    ("Right click", "Context menu"),
)
_TABLE_GESTURES = (
    ("Up / Down, PgUp / PgDown", "Scroll rows"),
    ("Ctrl+G", "Go to a row, record or time"),
)
_TOKENS_GESTURES = (
    ("Wheel, Up / Down", "Zoom the axis"),
    ("Drag, Shift+wheel", "Pan the axis"),
    ("Click", "Select a token and fit the timeline to it"),
    ("Left / Right, Home / End", "Select the previous, next, first or last token"),
    ("Enter", "Fit the timeline to the selected token"),
)
_TENSORS_GESTURES = (
    ("Right / Left", "Open or close a group, go into it or out"),
    ("*", "Open all groups"),
    ("Enter, double click", "Open a group; show a tensor in the heatmap"),
)
_COMPARE_GESTURES = (
    ("Ctrl+wheel, W / S", "Zoom both timelines"),
    ("Drag, Shift+wheel, A / D", "Pan both timelines"),
    ("Wheel, Up / Down", "Scroll the lanes of one timeline"),
    ("Drag of B's axis, Shift+drag, Shift+Left / Right", "Move B against A"),
    ("[ / ]", "Align by the previous or next token"),
    ("Double click, F", "Fit that span; show all"),
    ("Click, Enter", "Light the spans of a row or step"),
)
_ROOFLINE_GESTURES = (
    ("Click, Left / Right", "Select a point and light its spans"),
    ("Double click, Enter", "Show its longest span"),
)
_REPLAY_GESTURES = (
    ("Space", "Play or pause replay"),
    (", / .", "Replay: previous or next token, or step"),
    ("Esc", "End replay: show all"),
)
_POINTS_GESTURES = (
    ("Drag, arrows", "Turn the box"),
    ("Middle drag, Shift+drag, Shift+arrows", "Pan"),
    ("Wheel, W / S, pinch", "Zoom"),
    ("Click, Ctrl+Left / Right", "Select a point; the previous or next one in time"),
    ("PgUp / PgDown", "Select the next layer up or down the stack"),
    ("Enter", "Bring the selected op into view in all panes"),
    ("Double click", "Look closer at a point; elsewhere show the whole box"),
    ("F, 0, Home", "Show the whole box"),
    ("Backspace", "Undo a change of the view"),
    *_REPLAY_GESTURES,
)
_BENCH_GESTURES = (
    ("Click, Ctrl+click", "Select the tests of a point, add to the selection"),
    ("Left / Right, Up / Down", "Next point, next line or row"),
    ("Wheel", "Scroll rows"),
)
_SQL_GESTURES = (
    ("Ctrl+Enter, Esc", "Run the query, cancel it"),
    ("Ctrl+Up / Ctrl+Down", "Earlier query, later query"),
    ("Ctrl+Space", "Complete the word"),
    ("Click, Enter", "Select the span of a row, show it in the timeline"),
)
_NPU_GESTURES = (
    ("Click", "Select the engine, window, bank, stall or op, and move the timeline"),
    ("Up / Down, Home / End", "Select the previous, next, first or last of them"),
    ("Left / Right", "Select the previous or next bandwidth window"),
    ("Enter, double click", "Fit the timeline to it"),
    ("Wheel", "Scroll rows"),
    ("Ctrl+wheel, pinch", "Zoom time at the cursor"),
    ("Drag, Shift+wheel", "Pan time"),
)

_LOAD_GESTURES = (
    ("Click, Left / Right", "Select a read"),
    ("Double click, Enter", "Show it in the timeline"),
)

# fmt: off
BUILTIN: tuple[ViewEntry, ...] = (
    ViewEntry("overview", "Overview", "centre", "overview:OverviewView", has_spans, menu="", uses_gl=True),
    _with_figure("timeline", "centre", "timeline.view:TimelineView", "timeline", menu="View/Panes", keys="Ctrl+1", gestures=_TIMELINE_GESTURES, uses_gl=True),
    ViewEntry("table", "Trace table", "centre", "table.view:TableView", has_spans, menu="View/Panes", keys="Ctrl+2", gestures=_TABLE_GESTURES),
    ViewEntry("summary", "Summary", "bottom", "summary:SummaryView", _has_summary, keys="Ctrl+Shift+1", stays=True),
    ViewEntry("threads", "Threads and waits", "bottom", "threads.view:ThreadsView", _has_workers),
    _with_figure("tokens", "bottom", "tokens:TokensView", "tokens", gestures=_TOKENS_GESTURES),
    _with_figure("roofline", "bottom", "roofline:RooflineView", "roofline", gestures=_ROOFLINE_GESTURES),
    _with_figure("npu", "bottom", "npu.view:NpuView", "npu", gestures=_NPU_GESTURES, of_few=True),
    ViewEntry("details", "Details", "right", "details.view:DetailsView", menu=""),
    ViewEntry("statistics", FIGURES["statistics"].title, "bottom", "statistics.view:StatisticsView", has_spans, "statistics", keys="Ctrl+9"),
    ViewEntry("compare", "Compare", "bottom", "compare.view:CompareView", COMPARE.has_data, "compare", gestures=_COMPARE_GESTURES, stays=True, needs_height=True),
    _with_figure("heatmap", "centre", "heatmap.view:HeatmapView", "heatmap", menu="View/Panes", keys="Ctrl+3", gestures=_REPLAY_GESTURES, uses_gl=True),
    _with_figure("3d", "centre", "points.view:PointsView", "3d", menu="View/Panes", gestures=_POINTS_GESTURES, uses_gl=True),
    _with_figure("graph", "centre", "graph.view:GraphView", "graph", menu="View/Panes", keys="Ctrl+4", uses_gl=True),
    ViewEntry("tensors", "Tensors", "centre", "tensors.view:TensorsView", lambda trace: len(trace.tensors) > 0, menu="View/Panes", keys="Ctrl+0", gestures=_TENSORS_GESTURES),
    ViewEntry("requests", "Requests", "centre", "requests:RequestsView", lambda trace: trace.log is not None and (trace.is_running or len(trace.log.requests) > 0), menu="View/Panes"),
    ViewEntry("backends", "Backends", "centre", "backends:BackendsView", lambda trace: trace.backend_ops is not None, menu="View/Panes"),
    ViewEntry("memory", "Memory by device", "bottom", "memory:MemoryView", lambda trace: trace.log is not None and len(trace.log.memory) > 0, of_few=True),
    _with_figure("bench", "centre", "bench:BenchView", "bench", menu="View/Panes", gestures=_BENCH_GESTURES),
    _with_figure("load", "bottom", "load:LoadView", "load", gestures=_LOAD_GESTURES, of_few=True),
    _with_figure("hot_cold", "bottom", "hot_cold:HotColdView", "hot", keys="Ctrl+7"),
    _with_figure("cache", "bottom", "cache:CacheView", "cache", keys="Ctrl+8"),
    ViewEntry("flags", "Flags", "bottom", "flags:FlagsView", _has_flags),
    _with_figure("experts", "bottom", "experts.view:ExpertsView", "experts", keys="Ctrl+5"),
    _with_figure("buffers", "bottom", "buffers.view:BuffersView", "buffers", keys="Ctrl+6"),
    ViewEntry("sql", "SQL", "bottom", "sql:SqlView", has_spans, gestures=_SQL_GESTURES, stays=True),
    ViewEntry("bookmarks", "Bookmarks", "bottom", "bookmarks:BookmarksView", menu="Go", keys="Ctrl+B"),
    ViewEntry("problems", "Problems", "bottom", "problems:ProblemsView"),
    ViewEntry("console", "Console", "bottom", "console:ConsoleView", menu="View/Panes", of_run=True),
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

    The overview strip is always above the cells.
    """
    return tuple(known for known in BUILTIN if known.id != "overview")
