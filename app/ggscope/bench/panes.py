"""The panes of a model file and its graph, measured for ``ggscope bench --panes``."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtWidgets import QWidget

from ggscope.bench.frames import (
    BenchError,
    Course,
    FrameTimes,
    PaintWatch,
    Walk,
    pass_time,
    range_at,
    wait_until,
)
from ggscope.model.selection import Selection, TableName
from ggscope.model.tables import Space
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace

if TYPE_CHECKING:  # a pane is imported when the first file is opened
    from typing import TypeGuard

    from ggscope.gui.document import Document
    from ggscope.views.base.painted import PaintedView
    from ggscope.views.base.view import View
    from ggscope.views.graph.view import GraphView
    from ggscope.views.heatmap.view import HeatmapView

N_SELECTIONS = 15
_PATIENCE_S = 60.0
_SELECTION_S = 10.0
_REST_S = 0.2
"""Rest between two selections, so that none pays for the last."""


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
        depth = np.log(0.95 / (part.duration / (1 << 30))) / np.log(0.95e5)
        camera.zoom = float(whole * (1 / whole) ** depth)
        middle = (part.start + part.duration / 2) / (1 << 30)
        camera.centre(
            layout.width / 2, layout.height * middle, size.width(), size.height()
        )
        view.repaint_picture()

    return Course(go, lambda: (camera.x, camera.y, camera.zoom))


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
    canvases : of the panes that light up what belongs to a selection.
    """

    def __init__(self, document: "Document", canvases: Sequence[QWidget]) -> None:
        self._session = document.session
        self._canvases = canvases
        self._watches = [
            PaintWatch(canvas, self._noting(i)) for i, canvas in enumerate(canvases)
        ]
        self._paints = _Paints(set())
        self._selection = Selection()
        self._session.linked_changed.connect(self._on_linked)

    def stop(self) -> None:
        """Watch no more."""
        self._session.linked_changed.disconnect(self._on_linked)
        self._watches.clear()

    def figures(self, name: str, chosen: Sequence[Selection]) -> dict[str, object]:
        """Return the median and the worst time of some selections, in ms."""
        times = np.array([self._select(selection) for selection in chosen]) * 1e3
        return {
            f"select_{name}_ms": round(float(np.median(times)), 1),
            f"select_{name}_max_ms": round(float(times.max()), 1),
        }

    def _noting(self, number: int) -> Callable[[], None]:
        def note() -> None:
            if number in self._paints.left:
                self._paints.left.discard(number)
                self._paints.last = time.perf_counter()

        return note

    def _on_linked(self, _: object) -> None:
        if self._session.linked.selection == self._selection:
            self._paints.left = set(range(len(self._canvases)))

    def _select(self, selection: Selection) -> float:
        """Return the seconds from selecting to the last pane's picture."""
        self._paints = _Paints({-1})  # nothing counts before the links are known
        self._selection = selection
        begin = time.perf_counter()
        self._session.select(selection)
        wait_until(lambda: not self._paints.left, _SELECTION_S, "the selection")
        seconds = self._paints.last - begin
        pass_time(_REST_S)
        return seconds


def selections(trace: Trace) -> dict[str, list[Selection]]:
    """Return what to select, by what it is: spans, and tensors of the model file."""
    rng = np.random.default_rng(1)

    def some(table: TableName, rows: np.ndarray) -> list[Selection]:
        n = min(N_SELECTIONS, len(rows))
        ids = rng.choice(rows, n, replace=False) if n else rows
        return [Selection(table, (row,)) for row in ids.tolist()]

    patterns = trace.accesses.patterns
    read = patterns.tensor[(patterns.space == Space.FILE) & (patterns.tensor >= 0)]
    return {
        "span": some("spans", np.arange(len(trace.spans))),
        "tensor": some("tensors", np.unique(read)),
    }
