"""``ggscope bench``: open files in the real window and time what the user sees.

``--panes`` measures those of a model file and its graph. What the program does not
import before its first window is not imported here before it, either.
"""

import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from PySide6.QtCore import QEventLoop
from PySide6.QtWidgets import QWidget

from ggscope.bench.frames import (
    BenchError,
    Course,
    FrameTimes,
    PaintWatch,
    Pulse,
    Walk,
    groups_to_close,
    pass_time,
    range_at,
    run_loop,
    wait_until,
)
from ggscope.errors import TraceError
from ggscope.gui.app import create_app, create_window, install_exception_hook
from ggscope.gui.imports import import_tab
from ggscope.gui.main_window import MainWindow
from ggscope.gui.memory import MainThreadCollector
from ggscope.gui.single_instance.client import OpenOptions
from ggscope.model.selection import Selection, TableName
from ggscope.model.units import TimeRange
from ggscope.session.settings import Layout, Renderer, Settings
from ggscope.session.settings_store import MemoryStore
from ggscope.views.base.view import View

if TYPE_CHECKING:
    from typing import TypeGuard

    import numpy as np

    from ggscope.analysis.graph.op_links import OpLinks
    from ggscope.gui.document import Document
    from ggscope.model.trace import Trace
    from ggscope.views.base.canvas import PaintedView
    from ggscope.views.graph.view import GraphView
    from ggscope.views.heatmap.view import HeatmapView
    from ggscope.views.points.view import PointsView
    from ggscope.views.timeline.view import TimelineView

N_SELECTIONS = 15
_SELECTION_S = 10.0
_REST_S = 0.2
"""Rest between two selections, so that none pays for the last."""
STARTED_VARIABLE = "GGSCOPE_STARTED"
"""``time.time()`` at which whoever started this process did so."""
N_ROWS = 32
_PATIENCE_S = 900.0
_QUIET_S = 0.3
"""So long nothing may run before everything counts as done."""
_PROBED_S = 2.0
"""The timeline looks for a graphics card 1.5 s after the file was opened."""


class FirstPicture:
    """Notes when the heatmap is painted for the first time.

    Attributes
    ----------
    at : ``perf_counter`` then; None before.
    """

    def __init__(self) -> None:
        self.at: float | None = None
        self._view: HeatmapView | None = None
        self._watch: PaintWatch | None = None

    def look(self, document: "Document | None") -> None:
        """Watch the canvas that there is now; call it again and again."""
        if self.at is not None or document is None:
            return
        # Asked by its id, the workspace would make the view before its turn.
        views = [v for v in document.workspace.views() if v.isVisible()]
        self._view = next((v for v in views if _is_heatmap(v)), None)
        if self._view is None:
            return
        canvas = self._view.canvas
        if self._watch is None or self._watch.widget is not canvas:
            self._watch = PaintWatch(canvas, self._on_painted)
            canvas.update()  # what was painted before the watch began

    def _on_painted(self) -> None:
        view = self._view
        if self.at is not None or view is None or view.base is None:
            return
        if view.base.files.extent:
            self.at = time.perf_counter()

    def stop(self) -> None:
        """Let go of the view."""
        self._view = self._watch = None


def _is_heatmap(view: "View") -> "TypeGuard[HeatmapView]":
    # Not imported before its turn; another thread may be in the midst of that.
    kind = getattr(sys.modules.get("ggscope.views.heatmap.view"), "HeatmapView", None)
    return kind is not None and isinstance(view, kind)


def heatmap_of(document: "Document") -> "HeatmapView | None":
    """Return the file heatmap, if a pane shows it."""
    from ggscope.views.heatmap.view import HeatmapView

    views = document.workspace.views("heatmap")
    return next((v for v in views if isinstance(v, HeatmapView)), None)


def graph_of(document: "Document") -> "GraphView | None":
    """Return the graph pane, if there is one."""
    from ggscope.views.graph.view import GraphView

    views = document.workspace.views("graph")
    return next((v for v in views if isinstance(v, GraphView)), None)


# -- panning and zooming -------------------------------------------------------


def heatmap_course(view: "HeatmapView") -> Course:
    """Return a course along the file, as the timeline goes through time."""
    axis = view.axis
    if axis is None:
        raise BenchError("the file heatmap shows nothing.")
    extent = TimeRange(0, axis.extent)

    def go(share: float) -> None:
        part = range_at(extent, share)
        view.show_positions(part.start, part.end)

    return Course(go, lambda: view.shown)


def graph_course(view: "GraphView") -> Course:
    """Return a course down the graph, from the whole of it to readable boxes."""
    shown = view.shown
    if shown is None:
        raise BenchError("the graph shows nothing.")
    layout, camera = shown.layout, view.camera
    view.fit()
    whole, size = camera.zoom, view.canvas_size()

    def go(share: float) -> None:
        part = range_at(TimeRange(0, 1 << 30), share)
        # The walk's widths of 0.95 … 0.00001 as zooms from the whole to 1.
        depth = math.log(0.95 / (part.duration / (1 << 30))) / math.log(0.95e5)
        camera.zoom = float(whole * (1 / whole) ** depth)
        middle = (part.start + part.duration / 2) / (1 << 30)
        camera.centre(
            layout.width / 2, layout.height * middle, size.width(), size.height()
        )
        view.repaint_picture()

    return Course(go, lambda: (camera.x, camera.y, camera.zoom))


def points_of(document: "Document") -> "PointsView | None":
    """Return the 3D view, if there is one."""
    from ggscope.views.points.view import PointsView

    views = document.workspace.views("3d")
    return next((v for v in views if isinstance(v, PointsView)), None)


def points_course(view: "PointsView") -> Course:
    """Return a course around the box, nearer and away again."""
    home = view.camera

    def go(share: float) -> None:
        near = 0.6 + 0.4 * math.cos(share * 4 * math.pi)
        turned = home.orbited(share * 720, 20 * math.sin(share * 6 * math.pi))
        view.set_camera(turned.zoomed(near))

    return Course(go, lambda: view.camera)


def frames(name: str, times: FrameTimes) -> dict[str, object]:
    """Return the figures of a walk under the name of a view."""
    chosen = ("fps", "p99_ms", "median_ms", "cpu_ms", "moved")
    figures = times.figures()
    return {f"{name}_{key}": figures[key] for key in chosen}


def walk(name: str, view: "PaintedView", course: Course, s: float) -> dict[str, object]:
    """Return the figures of `s` seconds of a course of a view."""
    return frames(name, Walk(course, view.canvas, s).run())


# -- selecting -----------------------------------------------------------------


@dataclass(slots=True)
class _Paints:
    """Which of some canvases have been painted since the links were found."""

    left: set[int]
    last: float = 0.0


class Selecting:
    """Selects one thing after the other and notes when all panes show it.

    Parameters
    ----------
    canvases : of the panes that highlight what belongs to a selection; that of the
        timeline comes first.
    """

    def __init__(self, document: "Document", canvases: Sequence[QWidget]) -> None:
        self._session = document.session
        self._canvases = canvases
        self._watches = [
            PaintWatch(canvas, self._noting(i)) for i, canvas in enumerate(canvases)
        ]
        self._paints = _Paints(set())
        self._selection = Selection()
        self._session.linking.linked_changed.connect(self._on_linked)
        self._session.linking.op_links_changed.connect(self._on_op_links)

    def stop(self) -> None:
        """Watch no more."""
        self._session.linking.linked_changed.disconnect(self._on_linked)
        self._session.linking.op_links_changed.disconnect(self._on_op_links)
        self._watches.clear()

    def figures(self, name: str, chosen: Sequence[Selection]) -> dict[str, object]:
        """Return the median and the worst time of some selections, in ms."""
        times = [self._select(selection) * 1e3 for selection in chosen]
        return {
            f"select_{name}_ms": round(statistics.median(times), 1),
            f"select_{name}_max_ms": round(max(times), 1),
        }

    def _noting(self, number: int) -> Callable[[], None]:
        def note() -> None:
            if number in self._paints.left:
                self._paints.left.discard(number)
                self._paints.last = time.perf_counter()

        return note

    def _on_linked(self, _: object) -> None:
        if self._session.linking.linked.selection == self._selection:
            self._paints.left = set(range(len(self._canvases)))

    def _on_op_links(self, links: "OpLinks") -> None:
        if self._session.linking.linked.selection == self._selection and links.has_ends:
            self._paints.left.add(0)  # the arrows

    def _select(self, selection: Selection) -> float:
        """Return the seconds from selecting to the last pane's picture."""
        self._paints = _Paints({-1})  # nothing counts before the links are known
        self._selection = selection
        begin = time.perf_counter()
        self._session.selection.select(selection)
        wait_until(lambda: not self._paints.left, _SELECTION_S, "the selection")
        seconds = self._paints.last - begin
        pass_time(_REST_S)
        return seconds


def selections(trace: "Trace") -> dict[str, list[Selection]]:
    """Return what to select, by what it is: spans, and tensors of the model file."""
    import numpy as np

    from ggscope.model.tables import Space

    rng = np.random.default_rng(1)

    def some(table: TableName, rows: "np.ndarray") -> list[Selection]:
        n = min(N_SELECTIONS, len(rows))
        ids = rng.choice(rows, n, replace=False) if n else rows
        return [Selection(table, (row,)) for row in ids.tolist()]

    patterns = trace.accesses.patterns
    read = patterns.tensor[(patterns.space == Space.FILE) & (patterns.tensor >= 0)]
    return {
        "span": some("spans", np.arange(len(trace.spans))),
        "tensor": some("tensors", np.unique(read)),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """How to measure.

    Attributes
    ----------
    seconds : how long to pan and zoom.
    size : width and height of the window while opening, of the timeline's canvas
        while moving; device-independent pixels.
    renderer : what draws the timeline.
    opening : how to read the file; None = with the reader that fits.
    panes : measure the panes of the model file and the graph as well, with all panes
        in sight while the file is opened.
    """

    seconds: float = 5.0
    size: tuple[int, int] = (1920, 1080)
    renderer: Renderer = "auto"
    opening: OpenOptions | None = None
    panes: bool = False


def measure(path: Path, options: BenchOptions) -> dict[str, object]:
    """Return the figures of one opening and one walk through `path`.

    Keys, besides the six of the command line: see ``resources/docs/performance.md``.
    The user's settings are neither read nor written.

    Raises
    ------
    TraceError
        If the file cannot be read or the window does not paint.
    """
    create_app()
    settings = Settings(MemoryStore())
    settings.change("drawing", renderer=options.renderer)
    if options.panes:
        settings.change("layout", name="grid", bottom_tab="experts")
    collector = MainThreadCollector()
    window = create_window(settings)
    hook = install_exception_hook(window)
    window.resize(*options.size)
    bench = _Bench(window, path, options)

    def note(
        kind: type[BaseException], value: BaseException, trace: TracebackType | None
    ) -> None:
        bench.interrupted |= issubclass(kind, KeyboardInterrupt)
        bench.problem = bench.problem or f"{kind.__name__}: {value}"
        hook(kind, value, trace)

    sys.excepthook = note
    try:
        return bench.run()
    finally:
        bench.stop()
        window.close()
        collector.stop()
        sys.excepthook = sys.__excepthook__


class _Bench:
    """One measurement, from the empty window to the last frame.

    Attributes
    ----------
    problem : what went wrong in the program meanwhile; "" = nothing. What is
        broken is quick, so its figures would be worth nothing.
    interrupted : whether the user interrupts, maybe outside of all loops.
    """

    def __init__(self, window: MainWindow, path: Path, options: BenchOptions) -> None:
        self._window = window
        self.problem = ""
        self.interrupted = False
        self._path = path
        self._options = options
        self._pulse = Pulse(self._on_beat)
        self._figures: dict[str, object] = {"file": path.name}
        self._document: Document | None = None
        self._watch: PaintWatch | None = None
        self._heatmap = FirstPicture()
        self._opened = 0.0
        self._first: float | None = None
        self._complete: float | None = None
        self._quiet_since: float | None = None

    def run(self) -> dict[str, object]:
        """Return all figures; see `measure`."""
        self._show_window()
        self._open()
        if self._options.panes:
            self._select()
            self._move_panes()
        self._spread()
        self._move()
        self._check()
        self._figures["peak_mb"] = round(self._pulse.peak_mb(), 1)
        if self._options.panes:
            self._close()
        return self._figures

    def stop(self) -> None:
        """Let go of the window."""
        self._pulse.stop()
        self._watch = None
        self._heatmap.stop()

    # -- the empty window --------------------------------------------------

    def _show_window(self) -> None:
        painted: list[float] = []
        watch = PaintWatch(self._window, lambda: painted.append(time.time()))
        self._window.show()
        wait_until(lambda: bool(painted), 60, "the window")
        del watch
        started = os.environ.get(STARTED_VARIABLE)
        if started:
            self._figures["window_s"] = round(painted[0] - float(started), 3)
        pass_time(_QUIET_S)
        self._figures["window_mb"] = round(self._pulse.resident_mb(), 1)

    # -- opening -----------------------------------------------------------

    def _open(self) -> None:
        """Hand over the file, wait for everything, and note when what was there."""
        cpu, self._opened = time.process_time(), time.perf_counter()
        loop = QEventLoop()
        import_tab(self._window, loop.quit)
        run_loop(loop)
        begin = time.perf_counter()
        self._document = self._window.open_path(self._path, self._options.opening)
        self._document.problem_reported.connect(self._on_problem)
        panes_s = time.perf_counter() - begin
        self._pulse.restart()
        wait_until(self._is_open, _PATIENCE_S, f"{self._path.name} to be read")
        self._check()
        assert self._quiet_since is not None
        assert self._first is not None
        assert self._complete is not None
        self._figures |= {
            "first_s": round(self._first, 3),
            "complete_s": round(self._complete, 3),
            "open_s": round(self._quiet_since - self._opened, 3),
            "open_cpu_s": round(time.process_time() - cpu, 3),
            "panes_ms": round(panes_s * 1e3, 1),
            "worst_stall_ms": round(self._pulse.worst_ms, 1),
            **self._memory(),
        }

    def _is_open(self) -> bool:
        """Return whether nothing has run for a while, or will run again."""
        from ggscope.session.loader import LoadState

        document = self._document
        assert document is not None
        state, trace = document.loader.state, document.session.trace
        going = (LoadState.IDLE, LoadState.LOADING, LoadState.READY)
        if self.problem or state not in going:
            return True
        is_read = state is LoadState.READY and trace is not None and not trace.pending
        is_idle = document.session.tasks.is_idle
        if not is_read or not is_idle or self._complete is None:
            self._quiet_since = None
            return False
        now = time.perf_counter()
        if self._quiet_since is None:
            self._quiet_since = now
        return now - self._quiet_since >= _QUIET_S

    def _check(self) -> None:
        """Raise what kept the file from being read or shown."""
        from ggscope.session.loader import LoadState

        document = self._document
        assert document is not None
        if self.interrupted:
            raise KeyboardInterrupt
        if self.problem:
            raise BenchError(f"the program failed meanwhile: {self.problem}")
        if document.loader.state is LoadState.READY:
            return
        failure = document.loader.failure
        if failure is None:
            raise BenchError(f"{self._path.name} was not read.")
        if isinstance(failure.error, TraceError):
            raise failure.error
        raise BenchError(failure.message) from failure.error

    def _memory(self) -> dict[str, object]:
        assert self._document is not None
        trace = self._document.session.trace
        assert trace is not None
        rest, window = self._pulse.resident_mb(), self._figures["window_mb"]
        assert isinstance(window, float)
        n = max(trace.info.n_records, 1)
        return {
            "records": trace.info.n_records,
            "spans": len(trace.spans),
            "rest_mb": round(rest, 1),
            "open_peak_mb": round(self._pulse.peak_mb(), 1),
            "bytes_per_record": round((rest - window) * 1e6 / n, 1),
        }

    # -- what is painted ---------------------------------------------------

    def _on_beat(self) -> None:
        """Watch the canvas that there is now: it comes late and is replaced."""
        if self._options.panes:
            self._heatmap.look(self._document)
        canvas = self._canvas()
        watched = None if self._watch is None else self._watch.widget
        if canvas is not None and canvas is not watched:
            self._watch = PaintWatch(canvas, self._on_painted)
            canvas.update()  # what was painted before the watch began

    def _on_painted(self) -> None:
        if self._complete is not None or (view := self._timeline()) is None:
            return
        prepared = view.prepared()
        trace = None if prepared is None else prepared.index.trace
        if trace is None or (trace.pending and not len(trace.spans)):
            return
        now = time.perf_counter() - self._opened
        if self._first is None:
            self._first = now
        if "spans" not in trace.pending:
            self._complete = now

    def _on_problem(self, text: str) -> None:
        self.problem = self.problem or text

    def _timeline(self) -> "TimelineView | None":
        from ggscope.views.timeline.view import TimelineView

        document = self._document
        views: tuple[View, ...] = ()
        if document is not None:
            views = document.workspace.views("timeline")
        return next((v for v in views if isinstance(v, TimelineView)), None)

    def _canvas(self) -> QWidget | None:
        from ggscope.views.base.canvas import GlCanvas, RasterCanvas

        view = self._timeline()
        if view is None:
            return None
        kinds = (GlCanvas, RasterCanvas)
        canvases = [w for w in view.findChildren(QWidget) if isinstance(w, kinds)]
        return next((w for w in canvases if w.isVisible()), None)

    # -- moving ------------------------------------------------------------

    def _spread(self) -> None:
        """Give the timeline the whole size and enough lanes, and let it settle."""
        document = self._document
        assert document is not None
        session = document.session
        self._show_alone("timeline")
        assert session.index is not None
        closed = groups_to_close(session.index.lanes, N_ROWS)
        session.lanes.set_state(replace(session.lanes.state, collapsed=closed))
        self._settle("the lanes")
        left = self._opened + _PROBED_S - time.perf_counter()
        if self._options.renderer == "auto" and left > 0:
            pass_time(left)
        self._fit_canvas(self._canvas)

    def _show_alone(self, view_id: str) -> None:
        """Give a view the whole window, and let it settle."""
        assert self._document is not None
        settings = self._window.settings
        settings.change(
            "layout",
            name="single",
            cells=(view_id, *Layout().cells[1:]),
            shows_details=False,
            shows_drawer=False,
        )
        self._document.workspace.take_layout()
        self._settle("the panes")

    def _settle(self, what: str) -> None:
        self._quiet_since = None
        wait_until(self._is_open, _PATIENCE_S, what)
        self._check()

    def _fit_canvas(self, find: Callable[[], QWidget | None]) -> None:
        """Make the window so large that the canvas has the size asked for."""
        for _ in range(3):  # a scroll bar may come or go
            canvas = find()
            if canvas is None:
                raise BenchError("the view cannot be drawn.")
            width, height = self._options.size
            if (canvas.width(), canvas.height()) == (width, height):
                return
            self._window.resize(
                self._window.width() + width - canvas.width(),
                self._window.height() + height - canvas.height(),
            )
            pass_time(_QUIET_S)

    def _move(self) -> None:
        document, canvas, view = self._document, self._canvas(), self._timeline()
        if document is None or canvas is None or view is None:
            raise BenchError("the timeline cannot be drawn.")
        session, trace = document.session, document.session.trace
        assert trace is not None

        def go(share: float) -> None:
            session.viewport.set_visible(range_at(trace.extent, share))

        course = Course(go, lambda: session.viewport.visible)
        times = Walk(course, canvas, self._options.seconds).run()
        self._figures |= times.figures()
        self._figures |= {
            "rows": _rows_in_view(view),
            "canvas": [canvas.width(), canvas.height()],
            "scale": canvas.devicePixelRatioF(),
            "renderer": view.renderer_text(),
        }

    # -- the panes of a model file ---------------------------------------------

    def _select(self) -> None:
        """Select spans and tensors while all panes are in sight."""
        document, complete = self._document, self._complete
        assert document is not None
        assert complete is not None
        heatmap = heatmap_of(document)
        canvas, trace = self._canvas(), document.session.trace
        if heatmap is None or canvas is None or trace is None or not self._heatmap.at:
            raise BenchError(f"{self._path.name} names no offset in a model file.")
        since = self._heatmap.at - self._opened - complete
        self._figures["heatmap_first_s"] = round(max(since, 0.0), 3)
        selecting = Selecting(document, (canvas, heatmap.canvas))
        for name, chosen in selections(trace).items():
            self._figures |= selecting.figures(name, chosen)
        selecting.stop()
        self._check()

    def _move_panes(self) -> None:
        """Pan and zoom the file heatmap, the 3D view, and the graph if there is one."""
        document = self._document
        assert document is not None
        document.session.selection.select(Selection())
        seconds = self._options.seconds
        self._show_alone("heatmap")
        heatmap = heatmap_of(document)
        if heatmap is not None:
            self._fit_canvas(lambda: heatmap.canvas)
            course = heatmap_course(heatmap)
            self._figures |= walk("heatmap", heatmap, course, seconds)
        self._show_alone("3d")
        points = points_of(document)
        if points is not None and points.placed is not None:
            self._fit_canvas(lambda: points.canvas)
            course = points_course(points)
            self._figures["points"] = len(points.placed.points)
            self._figures |= walk("points", points, course, seconds)
        if document.session.trace is None or not document.session.trace.graphs:
            return
        self._show_alone("graph")
        graph = graph_of(document)
        if graph is not None:
            graph.open_all(True)
            self._settle("the graph")
            self._fit_canvas(lambda: graph.canvas)
            course = graph_course(graph)
            self._figures |= walk("graph", graph, course, seconds)

    def _close(self) -> None:
        """Close the file while a task of it runs."""
        document = self._document
        assert document is not None
        self._show_alone("heatmap")
        heatmap = heatmap_of(document)
        if heatmap is not None:
            heatmap.invalidate()
        begin = time.perf_counter()
        self._window.close_document(document)
        self._figures["close_ms"] = round((time.perf_counter() - begin) * 1e3, 1)
        self._document = None


def _rows_in_view(view: "TimelineView") -> int:
    """Return how many rows of spans are at least partly in view."""
    prepared = view.prepared()
    if prepared is None:
        return 0
    height = view.lane_area_height()
    return sum(
        box.y + top < height
        for box in prepared.layout.boxes
        if box.lane is not None and box.lane.track.has_rows
        for top in box.row_y
    )
