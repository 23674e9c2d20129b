"""Where things are on the screen, for tests that walk through the whole window."""

from collections.abc import Iterator
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QComboBox,
    QLabel,
    QLineEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.model.routing import expert_key
from ggscope.model.trace import Trace
from ggscope.render.experts import frames, main_grid
from ggscope.render.grid import GridGeometry
from ggscope.session.session import Session
from ggscope.views.base.canvas import PaintedView
from ggscope.views.base.view import View
from ggscope.views.buffers.view import BuffersView
from ggscope.views.experts.view import ExpertsView
from ggscope.views.graph.view import GraphView
from ggscope.views.heatmap.view import HeatmapView
from ggscope.views.registry import cell_views
from ggscope.views.table.view import TableView
from ggscope.views.timeline.tooltips import tooltip_for
from ggscope.views.timeline.view import TimelineView
from support import sample_path

LEFT = Qt.MouseButton.LeftButton
NONE = Qt.KeyboardModifier.NoModifier
PANES = tuple(entry.id for entry in cell_views() if not entry.of_run)
"""Everything that a cell of the workspace can show for any trace."""
PICTURES = tuple(
    entry.id for entry in cell_views() if entry.figure
    and issubclass(entry.load(), PaintedView)
)  # fmt: skip
"""Views whose picture is also a figure."""


def experiment() -> Path:
    """Return the folder of the sample experiment, or skip where it is not made."""
    return sample_path("moe-experiment")


def settle(qtbot: QtBot, document: Document) -> None:
    """Wait until no pane waits for anything."""
    workspace, tasks = document.workspace, document.session.tasks
    qtbot.waitUntil(lambda: workspace.filler.is_done, timeout=20_000)
    for _ in range(3):  # a pane may ask for more once it knows the first answer
        QTest.qWait(1)
        qtbot.waitUntil(lambda: tasks.is_idle, timeout=20_000)


def settle_view(qtbot: QtBot, view: View) -> None:
    """Wait until a view that stands alone waits for nothing."""
    for _ in range(4):
        if isinstance(view, PaintedView):
            view.canvas.repaint()
        qtbot.wait(1)
        qtbot.waitUntil(lambda: view.session.tasks.is_idle, timeout=20_000)


def pane(document: Document, view_id: str) -> View:
    """Return the view of this kind that can be seen, else the only one."""
    views = document.workspace.views(view_id)
    assert views, f"there is no {view_id}"
    return next((view for view in views if view.isVisible()), views[0])


def broken(document: Document) -> list[str]:
    """Return the reports of panes that stopped working."""
    panels = (host.error_panel for host in document.workspace.hosts())
    return [panel.report for panel in panels if panel is not None]


def row_named(trace: Trace, name: str) -> int:
    """Return the row of the only tensor of this name."""
    names = [trace.strings[i] for i in trace.tensors.name.tolist()]
    assert names.count(name) == 1, f"{name} is there {names.count(name)} times"
    return names.index(name)


# -- places ------------------------------------------------------------------


def tensor_place(view: HeatmapView, tensor: int) -> QPoint:
    """Return the middle of a tensor (of a stack: its first slice) in the heatmap."""
    place = view.geometry_now()
    assert place is not None
    assert view.base is not None
    unit = int(np.flatnonzero(view.base.files.tensor == tensor)[0])
    begin, stop = place.scene.axis.unit_positions()
    x = place.x.x((int(begin[unit]) + int(stop[unit])) // 2)
    return QPoint(round(x), round((place.heat[0] + place.heat[1]) / 2))


def node_place(view: GraphView, row: int) -> QPoint:
    """Return the middle of the box that holds a node of the drawn graph."""
    assert view.shown is not None
    layout, camera = view.shown.layout, view.camera
    box = int(layout.box_of[row])
    x = (float(layout.x0[box] + layout.x1[box]) / 2 - camera.x) * camera.zoom
    y = (float(layout.y0[box] + layout.y1[box]) / 2 - camera.y) * camera.zoom
    return QPoint(round(x), round(y))


def expert_place(view: ExpertsView, layer: int, expert: int) -> QPoint:
    """Return the middle of the cell of an expert."""
    size = view.canvas_size()
    scene = view.scene(size.width(), size.height(), 1.0)
    assert scene is not None
    grid = GridGeometry(main_grid(scene, frames(scene)[0]))
    row = scene.result.base.choices.layers.tolist().index(layer)
    x, y = grid.column_edges(), grid.row_edges()
    return QPoint(
        round((x[expert] + x[expert + 1]) / 2), round((y[row] + y[row + 1]) / 2)
    )


def buffer_place(view: BuffersView, buffer: int) -> QPoint:
    """Return a place on the life of a buffer."""
    place = view.geometry_now()
    assert place is not None
    lives = place.scene.lives
    i = int(np.flatnonzero(lives.buffer == buffer)[0])
    x0, x1 = place.life_xs()
    left, right = max(x0[i], place.time.x0), min(x1[i], place.time.x1)
    y = place.lives_y + 6 + 20 * int(lives.row[i]) - place.scene.scroll + 8
    return QPoint(round(float(left + right) / 2), round(y))


def click_row(view: TableView, span: int) -> None:
    """Click the line of a span in the table."""
    row = view.model.row_of(span)
    assert row is not None
    view.grid.show_row(row)
    at = QPoint(300, view.grid.row_box(row).center().y())
    QTest.mouseClick(view.grid.viewport(), LEFT, NONE, at)


def click(view: View, at: QPoint) -> None:
    """Click the picture of a painted view."""
    canvas = getattr(view, "canvas", None)
    assert isinstance(canvas, QWidget)
    assert canvas.rect().contains(at), f"{at} is not on the canvas"
    QTest.mouseClick(canvas, LEFT, NONE, at)


# -- what is highlighted -------------------------------------------------------------


def highlighted_spans(view: TimelineView) -> set[int]:
    """Return the spans that the timeline highlights."""
    return set() if view.highlighted is None else set(view.highlighted.ids.tolist())


def highlighted_bytes(view: HeatmapView) -> set[tuple[int, int]]:
    """Return the bytes of the file that the heatmap highlights."""
    scene = view.scene_now()
    assert scene is not None
    return {(int(a), int(b)) for a, b in scene.linked.tolist()}


def highlighted_nodes(view: GraphView) -> set[int]:
    """Return the rows of the drawn graph that are outlined, as linked or selected."""
    scene = view.scene_now()
    assert scene is not None
    masks = [m for m in (scene.linked, scene.selected) if m is not None]
    return {int(row) for mask in masks for row in np.flatnonzero(mask)}


def highlighted_experts(view: ExpertsView) -> set[int]:
    """Return the keys of experts that are outlined, as linked or selected."""
    size = view.canvas_size()
    scene = view.scene(size.width(), size.height(), 1.0)
    assert scene is not None
    layers = scene.result.base.choices.layers.tolist()
    cells = {*scene.highlighted, *scene.selected}
    return {expert_key(layers[row], expert) for row, expert in cells}


def highlighted_buffers(view: BuffersView) -> set[int]:
    """Return the buffers that are highlighted as accessed."""
    place = view.geometry_now()
    assert place is not None
    return set(place.scene.accessed)


def alive_buffers(view: BuffersView) -> set[int]:
    """Return the buffers that are marked as alive at the selected op."""
    place = view.geometry_now()
    assert place is not None
    return set(place.scene.alive or ())


def placeholder_text(view: View) -> str:
    """Return what stands where a picture would stand."""
    return "\n".join(view.placeholder_text())  # type: ignore[attr-defined]  # of a picture


def tips(view: View, step: int = 25) -> str:
    """Return every tooltip of a picture, on a grid of positions."""
    size = view.canvas.size()  # type: ignore[attr-defined]  # of a picture
    places = [
        (float(x), float(y))
        for x in range(0, size.width(), step)
        for y in range(0, size.height(), 10)
    ]
    if isinstance(view, TimelineView):
        prepared, width = view.prepared(), view.ticks_per_px()
        tooltips = {
            tooltip_for(prepared, view.session, view.hit(x, y), width)
            for x, y in places
        }
    else:
        tooltips = {view.tooltip_at(x, y) for x, y in places}  # type: ignore[attr-defined]
    return unescape("\n".join(map(str, tooltips)))


def titles_of(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the titles of what workers are asked for are added."""
    titles: list[str] = []
    run = session.tasks.run

    def noted(*arguments: object, **named: object) -> None:
        titles.append(str(named.get("title", "")))
        run(*arguments, **named)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(session.tasks, "run", noted)
    return titles


def texts_of_widgets(top: QWidget) -> Iterator[str]:
    """Yield all that a widget and those in it show, or say under the mouse."""
    for widget in (top, *top.findChildren(QWidget)):
        if widget is not top and not widget.isVisibleTo(top):
            continue
        yield from (widget.toolTip(), widget.accessibleName())
        yield widget.accessibleDescription()
        if isinstance(widget, QLabel | QAbstractButton | QLineEdit):
            yield widget.text()
        if isinstance(widget, QComboBox):
            yield from (widget.itemText(i) for i in range(widget.count()))
        if isinstance(widget, QAbstractItemView) and widget.model() is not None:
            model = widget.model()
            roles = (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole)
            for row in range(min(model.rowCount(), 30)):
                for column in range(model.columnCount()):
                    at = model.index(row, column)
                    yield from (str(model.data(at, role) or "") for role in roles)
    yield from (action.text() for action in top.findChildren(QAction))
