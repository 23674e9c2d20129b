"""The graph pane, by mouse and keyboard."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

import builders
import graph_traces
from ggscope.analysis.graph import layout as layout_module
from ggscope.analysis.graph.layout import BoxKind
from ggscope.analysis.links import Linked
from ggscope.model.graph import first_node
from ggscope.model.selection import Selection
from ggscope.render.export import Figure
from ggscope.render.figure_style import FigureStyle
from ggscope.render.graph.look import GraphColorBy
from ggscope.render.graph.marks import minimap_place
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.graph.interaction import fill_view_menu
from ggscope.views.graph.view import GraphView
from ggscope.views.graph.viewport import READABLE_ZOOM

LEFT, MIDDLE = Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton
CTRL = Qt.KeyboardModifier.ControlModifier
NONE = Qt.KeyboardModifier.NoModifier
STEP = graph_traces.N_LAYER_NODES


@pytest.fixture
def session(qtbot: QtBot) -> Iterator[Session]:
    made = Session()
    made.set_trace(graph_traces.network_trace(6, 2, graphs=2))
    yield made
    made.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> Iterator[GraphView]:
    made = GraphView(session, theme("dark"))
    qtbot.addWidget(made)
    made.resize(900, 600)
    made.show()
    qtbot.waitExposed(made)
    settle(qtbot, made)
    yield made
    made.release()


def settle(qtbot: QtBot, view: GraphView) -> None:
    """Wait until everything is laid out and counted, and draw it."""
    assert view.session is not None
    tasks = view.session.tasks
    qtbot.waitUntil(lambda: view.shown is not None and tasks.is_idle)
    view.canvas.repaint()


def place_of(view: GraphView, box: int) -> QPoint:
    """Return where the middle of a box is on the canvas."""
    assert view.shown is not None
    layout, camera = view.shown.layout, view.camera
    x = (float(layout.x0[box] + layout.x1[box]) / 2 - camera.x) * camera.zoom
    y = (float(layout.y0[box] + layout.y1[box]) / 2 - camera.y) * camera.zoom
    return QPoint(round(x), round(y))


def box_of(view: GraphView, node: int) -> int:
    assert view.shown is not None
    return int(view.shown.layout.box_of[node])


def kind_of_layer(view: GraphView, layer: int) -> int:
    assert view.shown is not None
    return int(view.shown.layout.kind[view.shown.layout.box_of_layer(layer)])


def wheel(view: GraphView, at: QPoint, delta: int, mods: object = NONE) -> None:
    event = QWheelEvent(
        QPointF(at), QPointF(view.canvas.mapToGlobal(at)), QPoint(), QPoint(0, delta),
        Qt.MouseButton.NoButton, mods, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(view.canvas, event)


def drag(
    view: GraphView, start: QPoint, end: QPoint, button: object = LEFT,
    mods: object = NONE,
) -> None:  # fmt: skip
    QTest.mousePress(view.canvas, button, mods, start)
    QTest.mouseMove(view.canvas, (start + end) / 2)
    QTest.mouseMove(view.canvas, end)
    QTest.mouseRelease(view.canvas, button, mods, end)


def test_layers_are_closed_at_first(view: GraphView) -> None:
    assert view.shown is not None
    assert [kind_of_layer(view, k) for k in range(6)] == [BoxKind.LAYER] * 6
    assert not view.canvas.grab().isNull()


def test_click_selects_a_node_by_its_id_over_all_graphs(
    view: GraphView, session: Session, qtbot: QtBot
) -> None:
    view.show_graph(1)
    settle(qtbot, view)

    QTest.mouseClick(view.canvas, LEFT, NONE, place_of(view, box_of(view, 0)))

    assert session.trace is not None
    assert session.selection.current == Selection(
        "nodes", (first_node(session.trace.graphs, 1),)
    )


def test_click_on_a_closed_layer_selects_all_its_nodes(
    view: GraphView, session: Session
) -> None:
    assert view.shown is not None
    box = view.shown.layout.box_of_layer(1)

    QTest.mouseClick(view.canvas, LEFT, NONE, place_of(view, box))

    inside = np.flatnonzero(view.shown.layout.layers.layer == 1)
    assert set(session.selection.current.ids) == set(inside.tolist())


def test_click_on_nothing_selects_nothing(view: GraphView, session: Session) -> None:
    QTest.mouseClick(view.canvas, LEFT, NONE, place_of(view, box_of(view, 0)))

    QTest.mouseClick(view.canvas, LEFT, NONE, QPoint(4, 300))

    assert not session.selection.current


def test_ctrl_click_adds_and_takes_away(view: GraphView, session: Session) -> None:
    first = place_of(view, box_of(view, 0))
    QTest.mouseClick(view.canvas, LEFT, NONE, first)
    positions = int(np.flatnonzero(view.shown.layout.layers.is_shared)[0])  # type: ignore[union-attr]
    other = place_of(view, box_of(view, positions))

    QTest.mouseClick(view.canvas, LEFT, CTRL, other)
    both = session.selection.current.ids
    QTest.mouseClick(view.canvas, LEFT, CTRL, other)

    assert both == (positions, 0)
    assert session.selection.current.ids == (0,)


def test_double_click_opens_a_layer_where_it_is(view: GraphView, qtbot: QtBot) -> None:
    assert view.shown is not None
    box = view.shown.layout.box_of_layer(1)
    at = place_of(view, box)
    top = (view.shown.layout.y0[box] - view.camera.y) * view.camera.zoom

    QTest.mouseDClick(view.canvas, LEFT, NONE, at)
    settle(qtbot, view)

    assert kind_of_layer(view, 1) == BoxKind.FRAME
    frame = view.shown.layout.box_of_layer(1)
    assert place_of(view, frame).x() == pytest.approx(at.x(), abs=1)
    moved = (view.shown.layout.y0[frame] - view.camera.y) * view.camera.zoom
    assert moved == pytest.approx(top)


def test_double_click_on_a_frame_closes_it(view: GraphView, qtbot: QtBot) -> None:
    view.toggle_layer(0)
    settle(qtbot, view)
    assert view.shown is not None
    frame = view.shown.layout.box_of_layer(0)
    layout, camera = view.shown.layout, view.camera
    corner = QPoint(
        round((float(layout.x0[frame]) - camera.x) * camera.zoom) + 8,
        round((float(layout.y0[frame]) - camera.y) * camera.zoom) + 40,
    )

    QTest.mouseDClick(view.canvas, LEFT, NONE, corner)
    settle(qtbot, view)

    assert kind_of_layer(view, 0) == BoxKind.LAYER


def test_wheel_zooms_and_keeps_what_is_under_the_cursor(view: GraphView) -> None:
    at = place_of(view, box_of(view, 0))
    before = view.camera.zoom

    wheel(view, at, 240)

    assert view.camera.zoom > before
    again = place_of(view, box_of(view, 0))
    assert (again - at).manhattanLength() <= 1


@pytest.mark.parametrize("button", [LEFT, MIDDLE])
def test_drag_moves_the_picture(view: GraphView, button: object) -> None:
    start = place_of(view, box_of(view, 0))

    drag(view, QPoint(200, 300), QPoint(240, 270), button)

    assert place_of(view, box_of(view, 0)) - start == QPoint(40, -30)


def test_drag_selects_nothing(view: GraphView, session: Session) -> None:
    at = place_of(view, box_of(view, 0))

    drag(view, at, at + QPoint(60, 0))

    assert not session.selection.current


def test_rubber_band_selects_what_it_touches(view: GraphView, session: Session) -> None:
    at = place_of(view, box_of(view, 0))

    drag(view, at - QPoint(100, 40), at + QPoint(20, 5), LEFT, CTRL)

    assert 0 in session.selection.current.ids
    assert view.scene_now().band is None  # type: ignore[union-attr]


def test_drag_in_the_overview_moves_there(view: GraphView, qtbot: QtBot) -> None:
    view.open_all(True)
    settle(qtbot, view)
    scene = view.scene_now()
    assert scene is not None
    place = minimap_place(scene)
    assert place is not None
    start = QPoint(round(place.x + place.width / 2), round(place.y + 4))

    drag(view, start, start + QPoint(0, round(place.height) - 8))

    assert view.shown is not None
    middle = view.camera.y + 300 / view.camera.zoom
    assert middle > view.shown.layout.height * 0.8


def test_click_on_a_stub_goes_to_its_other_end(
    qtbot: QtBot, view: GraphView, session: Session
) -> None:
    n = 24
    edges = [*[(i, i + 1) for i in range(n - 1)], (0, n - 1)]
    session.set_trace(graph_traces.graph_trace(n, edges))
    settle(qtbot, view)
    assert view.shown is not None
    x, y = view.shown.layout.stubs[0, :2]
    camera = view.camera
    at = QPoint(
        round((x - camera.x) * camera.zoom), round((y + 9 - camera.y) * camera.zoom)
    )

    QTest.mouseClick(view.canvas, LEFT, NONE, at)

    assert session.selection.current.ids == (n - 1,)
    place = place_of(view, box_of(view, n - 1))
    assert abs(place.y() - view.canvas.height() / 2) < 3


def test_selection_from_elsewhere_is_lit_and_centred(
    view: GraphView, session: Session, qtbot: QtBot
) -> None:
    view.open_all(True)
    settle(qtbot, view)
    node = 3 * STEP

    session.linking.linked_changed.emit(
        Linked(Selection("spans", (1,)), nodes=np.array([node]))
    )

    scene = view.scene_now()
    assert scene is not None
    # The span is the node: it has the colour of the selection, not of what is related.
    assert scene.selected is not None
    assert scene.linked is None
    assert np.flatnonzero(scene.selected).tolist() == [node]
    middle = view.canvas.rect().center()
    assert (place_of(view, box_of(view, node)) - middle).manhattanLength() <= 3


def test_node_of_another_graph_brings_that_graph(
    view: GraphView, session: Session, qtbot: QtBot
) -> None:
    assert session.trace is not None
    first = first_node(session.trace.graphs, 1)

    session.selection.select(Selection("nodes", (first + 3,)))
    settle(qtbot, view)

    assert view.number == 1
    assert view.selected_rows().tolist() == [3]
    assert view.head.graphs.currentText() == "token 1"


def test_open_layers_and_place_survive_a_change_of_the_token(
    view: GraphView, qtbot: QtBot
) -> None:
    view.toggle_layer(2)
    settle(qtbot, view)
    view.zoom_by(0.7, 100, 100)
    before = (view.camera.x, view.camera.y, view.camera.zoom)

    view.head.graphs.setCurrentIndex(1)
    view.head.graphs.activated.emit(1)
    settle(qtbot, view)

    assert kind_of_layer(view, 2) == BoxKind.FRAME
    assert (view.camera.x, view.camera.y, view.camera.zoom) == before


def test_search_steps_through_hits_and_opens_their_layers(
    view: GraphView, session: Session, qtbot: QtBot
) -> None:
    field = view.head.search
    QTest.keyClicks(field, "kqv")
    assert len(view.hits.rows) == 6

    QTest.keyClick(field, Qt.Key.Key_Return)
    settle(qtbot, view)
    first = session.selection.current.ids
    QTest.keyClick(field, Qt.Key.Key_Return)
    settle(qtbot, view)
    second = session.selection.current.ids
    QTest.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)

    assert (first, second) == ((7,), (7 + STEP,))
    assert session.selection.current.ids == first
    assert kind_of_layer(view, 1) == BoxKind.FRAME
    assert view.head.count.text() == "1 of 6"


def test_broken_search_pattern_finds_nothing_and_says_why(view: GraphView) -> None:
    QTest.keyClicks(view.head.search, "/(/")

    assert len(view.hits.rows) == 0
    assert "invalid regular expression" in view.head.count.toolTip()


def test_layer_filter_shows_one_layer_with_its_inputs(
    view: GraphView, qtbot: QtBot
) -> None:
    view.head.layer_chosen.emit(3)
    settle(qtbot, view)
    assert view.shown is not None
    layers = view.shown.layout.layers
    shown = view.shown.layout.box_of >= 0
    assert np.array_equal(shown, (layers.layer == 3) | layers.is_shared)

    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_Escape)
    settle(qtbot, view)

    assert (view.shown.layout.box_of >= 0).all()


def test_keys_pan_zoom_and_fit(view: GraphView) -> None:
    x = view.camera.x
    QTest.keyClick(view, Qt.Key.Key_Right)
    moved = view.camera.x
    zoom = view.camera.zoom
    QTest.keyClick(view, Qt.Key.Key_Plus)
    larger = view.camera.zoom
    QTest.keyClick(view, Qt.Key.Key_0)

    assert moved > x
    assert larger > zoom
    assert view.shown is not None
    scene = view.scene_now()
    assert scene is not None
    assert minimap_place(scene) is None  # all is in view


def test_keys_walk_along_the_edges(
    view: GraphView, session: Session, qtbot: QtBot
) -> None:
    view.open_all(True)
    settle(qtbot, view)
    view.select_rows(np.array([2]))

    visited = []
    for key in (Qt.Key.Key_Period, Qt.Key.Key_Comma):
        QTest.keyClick(view, key)
        visited.append(session.selection.current.ids[0])
    QTest.keyClick(view, Qt.Key.Key_Period)
    QTest.keyClick(view, Qt.Key.Key_Greater, Qt.KeyboardModifier.ShiftModifier)

    assert visited == [3, 2]
    assert session.selection.current.ids == (5,)


def test_enter_opens_and_closes_the_layer_of_the_selection(
    view: GraphView, qtbot: QtBot
) -> None:
    view.select_rows(np.array([3]))

    QTest.keyClick(view, Qt.Key.Key_Return)
    settle(qtbot, view)
    opened = kind_of_layer(view, 0)
    QTest.keyClick(view, Qt.Key.Key_Return)
    settle(qtbot, view)

    assert opened == BoxKind.FRAME
    assert kind_of_layer(view, 0) == BoxKind.LAYER


def test_f_centres_the_selection_then_fits_it(view: GraphView) -> None:
    view.select_rows(np.array([0]))
    view.pan_by(150, 120)

    QTest.keyClick(view, Qt.Key.Key_F)
    middle = view.canvas.rect().center()
    away = (place_of(view, box_of(view, 0)) - middle).manhattanLength()
    zoom = view.camera.zoom
    QTest.keyClick(view, Qt.Key.Key_F)

    assert away <= 3
    assert view.camera.zoom != zoom


def test_critical_path_is_lit_with_its_total_and_steps(
    view: GraphView, qtbot: QtBot
) -> None:
    view.paths.show_critical()
    settle(qtbot, view)

    assert view.paths.highlighted is not None
    assert view.path_bar.isVisible()
    text = view.path_bar.text()
    assert text.startswith("Critical path: ")
    assert "Qcur-0" in text or "Kcur-0" in text
    assert view.path_bar.steps.count() == len(view.paths.highlighted.steps)

    view.path_bar.steps.setCurrentRow(2)
    settle(qtbot, view)
    assert view.selected_rows().tolist() == [int(view.paths.highlighted.steps[2])]

    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_Escape)
    assert view.paths.highlighted is None
    assert not view.path_bar.isVisible()


def test_predecessors_of_the_selection_are_counted(view: GraphView) -> None:
    view.select_rows(np.array([2]))

    view.paths.show_sources()

    assert view.path_bar.message.full_text == "4 nodes lead to attn_norm-0"
    view.paths.clear()


def test_tooltip_shows_node_layer_and_stub(view: GraphView, qtbot: QtBot) -> None:
    at = place_of(view, box_of(view, 0))
    node = view.tooltip_at(at.x(), at.y())
    assert view.shown is not None
    at = place_of(view, view.shown.layout.box_of_layer(0))
    layer = view.tooltip_at(at.x(), at.y())

    assert "inp_embd" in node
    assert "GET_ROWS" in node
    assert "name, op and order" in node
    assert "Layer 0" in layer
    assert "13 ops" in layer
    assert view.tooltip_at(2, 300) == ""


def actions_of(menu: QMenu) -> dict[str, object]:
    return {a.text(): a for a in menu.actions() if a.text()}


def test_menu_of_a_node_copies_its_name(view: GraphView) -> None:
    at = place_of(view, box_of(view, 0))
    menu = view.menu_at(at.x(), at.y())
    assert menu is not None

    actions_of(menu)["Copy name"].trigger()  # type: ignore[attr-defined]

    assert QGuiApplication.clipboard().text() == "inp_embd"
    menu.deleteLater()


def test_menu_of_a_layer_isolates_it(view: GraphView, qtbot: QtBot) -> None:
    assert view.shown is not None
    at = place_of(view, view.shown.layout.box_of_layer(1))
    menu = view.menu_at(at.x(), at.y())
    assert menu is not None

    actions_of(menu)["Draw only layer 1"].trigger()  # type: ignore[attr-defined]
    settle(qtbot, view)

    assert view.shown.layout.choice.layer == 1
    assert view.head.layers.currentText() == "layer 1"
    menu.deleteLater()


def test_layers_menu_opens_all_and_repeats_inputs(
    view: GraphView, qtbot: QtBot
) -> None:
    view.head.view_menu.aboutToShow.emit()
    actions_of(view.head.view_menu)["Expand all layers"].trigger()  # type: ignore[attr-defined]
    settle(qtbot, view)
    view.head.view_menu.aboutToShow.emit()
    actions_of(view.head.view_menu)[
        "Repeat shared inputs next to their consumers"
    ].trigger()  # type: ignore[attr-defined]
    settle(qtbot, view)

    assert view.shown is not None
    assert view.shown.layout.choice.opened is None
    assert view.shown.layout.choice.repeats_inputs
    assert (view.shown.layout.kind != BoxKind.LAYER).all()


def test_view_is_exported_from_its_menu(view: GraphView, tmp_path: Path) -> None:
    expected: list[Figure] = []
    view.figure_requested.connect(expected.append)
    view.head.view_menu.aboutToShow.emit()
    actions_of(view.head.view_menu)["Export the whole graph…"].trigger()  # type: ignore[attr-defined]

    expected[0].write(tmp_path / "graph.svg")
    expected[0].write(tmp_path / "graph.dot")

    assert "Layer 5" in (tmp_path / "graph.svg").read_text("utf-8")
    assert "digraph" in (tmp_path / "graph.dot").read_text("utf-8")


def test_figure_in_other_colours_is_that_of_a_view_in_them(
    view: GraphView, tmp_path: Path
) -> None:
    dark, light = tmp_path / "a.svg", tmp_path / "b.svg"
    figure = view.figure()
    assert figure is not None
    figure.write(dark, FigureStyle(theme="light"))

    view.set_theme(theme("light"))
    same = view.figure()
    assert same is not None
    same.write(light)

    assert dark.read_bytes() == light.read_bytes()


@pytest.mark.parametrize("by", list(GraphColorBy))
@pytest.mark.parametrize("theme_name", ["dark", "light"])
def test_every_colouring_can_be_drawn(
    view: GraphView, by: GraphColorBy, theme_name: str
) -> None:
    view.set_theme(theme(theme_name))
    view.head.colors.setCurrentIndex(view.head.colors.findData(by))
    view.head.colors.activated.emit(view.head.colors.currentIndex())

    assert view.color_by is by
    assert not view.canvas.grab().isNull()


def test_trace_without_graph_says_what_to_open(
    view: GraphView, session: Session
) -> None:
    session.set_trace(builders.llama_like_trace())

    assert "No graph" in view.placeholder_text()[0]
    assert view.picture(400, 300, 1.0).batches


def test_closed_session_empties_the_pane(view: GraphView, session: Session) -> None:
    session.close()

    assert view.shown is None
    assert view.picture(400, 300, 1.0).batches
    assert view.hit(10, 10).box == -1


def test_font_scale_moves_the_mouse_with_the_picture(
    view: GraphView, session: Session
) -> None:
    view.set_zoom(1.5)
    view.canvas.repaint()
    at = place_of(view, box_of(view, 0)) * 1.5

    QTest.mouseClick(view.canvas, LEFT, NONE, at)

    assert session.selection.current.ids == (0,)


def test_narrow_head_hides_what_has_no_room(view: GraphView) -> None:
    head = view.head_widget()
    assert head is not None
    head.setParent(None)
    head.show()

    head.resize(900, 28)
    wide = [w.isVisibleTo(head) for w in (view.head.search, view.head.layers)]
    head.resize(150, 28)
    narrow = [w.isVisibleTo(head) for w in (view.head.view_button, view.head.layers)]

    assert wide == [True, True]
    assert narrow == [True, False]
    head.setParent(view)


# -- shown from elsewhere, and at any size ------------------------------------------


def in_view(view: GraphView, box: int) -> bool:
    """Return whether all of a box is on the canvas."""
    assert view.shown is not None
    layout, camera, size = view.shown.layout, view.camera, view.canvas_size()
    x0, x1 = ((float(v[box]) - camera.x) * camera.zoom for v in (layout.x0, layout.x1))
    y0, y1 = ((float(v[box]) - camera.y) * camera.zoom for v in (layout.y0, layout.y1))
    return x0 >= 0 and y0 >= 0 and x1 <= size.width() and y1 <= size.height()


def test_show_in_graph_opens_the_layer_and_keeps_the_selection(
    view: GraphView, session: Session, qtbot: QtBot
) -> None:
    node = Selection("nodes", (3 * STEP,))

    session.navigator.show_in("graph", node)
    settle(qtbot, view)

    assert view.shown is not None
    layer = int(view.shown.layout.layers.layer[3 * STEP])
    assert kind_of_layer(view, layer) == BoxKind.FRAME
    box = box_of(view, 3 * STEP)
    assert view.shown.layout.kind[box] == BoxKind.NODE
    assert in_view(view, box)
    middle = view.canvas.rect().center()
    assert (place_of(view, box) - middle).manhattanLength() <= 3
    assert view.camera.zoom >= READABLE_ZOOM
    assert session.selection.current == node


def test_show_in_graph_finds_the_node_in_another_graph_and_in_a_view_made_then(
    view: GraphView, session: Session, qtbot: QtBot
) -> None:
    assert session.trace is not None
    first = first_node(session.trace.graphs, 1)
    node = Selection("nodes", (first + 3 * STEP,))

    session.navigator.show_in("graph", node)
    settle(qtbot, view)
    later = GraphView(session, theme("dark"))
    qtbot.addWidget(later)
    later.resize(900, 600)
    later.show()
    settle(qtbot, later)

    for shown in (view, later):
        qtbot.waitUntil(lambda shown=shown: shown.number == 1)
        settle(qtbot, shown)
        box = box_of(shown, 3 * STEP)
        assert shown.shown is not None
        assert shown.shown.layout.kind[box] == BoxKind.NODE
        assert in_view(shown, box)
    later.release()


def double_click(view: GraphView, at: QPoint) -> None:
    """Click twice, as a person does: the first click comes alone."""
    QTest.mouseClick(view.canvas, LEFT, NONE, at)
    QTest.mouseDClick(view.canvas, LEFT, NONE, at)


@pytest.mark.parametrize(
    "before", [Selection(), Selection("nodes", (0,)), Selection("spans", (3,))]
)
def test_opening_and_closing_a_layer_selects_nothing(
    view: GraphView, session: Session, qtbot: QtBot, before: Selection
) -> None:
    session.selection.select(before)
    settle(qtbot, view)
    assert view.shown is not None
    place = place_of(view, view.shown.layout.box_of_layer(1))

    double_click(view, place)
    settle(qtbot, view)

    assert kind_of_layer(view, 1) == BoxKind.FRAME
    assert session.selection.current == before
    frame = view.shown.layout.box_of_layer(1)
    layout, camera = view.shown.layout, view.camera
    corner = QPoint(
        round((float(layout.x0[frame]) - camera.x) * camera.zoom) + 8,
        round((float(layout.y0[frame]) - camera.y) * camera.zoom) + 40,
    )
    double_click(view, corner)
    settle(qtbot, view)
    assert kind_of_layer(view, 1) == BoxKind.LAYER
    assert session.selection.current == before


@pytest.mark.parametrize("width", [420, 900])
def test_layer_that_is_opened_can_be_seen_in_its_whole_width(
    view: GraphView, qtbot: QtBot, width: int
) -> None:
    view.resize(width, 600)
    settle(qtbot, view)
    view.pan_by(-150, 0)  # its box lies at the left edge

    view.toggle_layer(1)
    settle(qtbot, view)

    assert view.shown is not None
    layout, camera, size = view.shown.layout, view.camera, view.canvas_size()
    frame = layout.box_of_layer(1)
    left = (float(layout.x0[frame]) - camera.x) * camera.zoom
    right = (float(layout.x1[frame]) - camera.x) * camera.zoom
    assert left >= 0
    assert right <= size.width() or camera.zoom <= 0.41


def test_fitted_graph_is_fitted_again_when_the_pane_grows(
    view: GraphView, qtbot: QtBot
) -> None:
    view.open_all(True)
    settle(qtbot, view)
    view.fit()
    before = view.camera.zoom

    view.resize(1500, 1400)
    settle(qtbot, view)

    assert view.shown is not None
    layout, camera, size = view.shown.layout, view.camera, view.canvas_size()
    assert camera.zoom > before * 1.5
    high, wide = layout.height * camera.zoom, layout.width * camera.zoom
    assert max(high / size.height(), wide / size.width()) > 0.9


def test_place_that_one_looks_at_stays_when_the_pane_grows(
    view: GraphView, qtbot: QtBot
) -> None:
    view.open_all(True)
    settle(qtbot, view)
    view.zoom_by(2.0, 450, 300)
    size, camera = view.canvas_size(), view.camera
    middle, zoom = camera.x + size.width() / 2 / camera.zoom, camera.zoom

    view.resize(1100, 620)
    settle(qtbot, view)

    size = view.canvas_size()
    assert camera.zoom == zoom
    assert camera.x + size.width() / 2 / zoom == pytest.approx(middle, abs=1)


def test_graph_that_is_turned_around_a_node_at_its_edge_leaves_no_side_empty(
    view: GraphView, qtbot: QtBot
) -> None:
    view.resize(1400, 300)
    qtbot.waitUntil(lambda: view.shown is not None and view.shown.layout.choice.across)
    settle(qtbot, view)
    assert view.shown is not None
    view.open_all(True)
    settle(qtbot, view)
    layout = view.shown.layout
    nodes = np.flatnonzero(layout.box_of >= 0)
    leftmost = nodes[np.argmin(layout.x0[layout.box_of[nodes]])]
    view.select_rows(np.array([leftmost]))
    view.centre_selection()

    view.resize(900, 900)
    qtbot.waitUntil(lambda: not view.shown.layout.choice.across)
    settle(qtbot, view)

    camera, layout, size = view.camera, view.shown.layout, view.canvas_size()
    for at, side, item in (
        (camera.x, layout.width, size.width() / camera.zoom),
        (camera.y, layout.height, size.height() / camera.zoom),
    ):
        air = 40 / camera.zoom
        assert at >= -air or side < item
        assert at + item <= side + air or side < item
    box = layout.box_of[leftmost]
    assert camera.x <= layout.x0[box] <= camera.x + size.width() / camera.zoom
    assert camera.y <= layout.y0[box] <= camera.y + size.height() / camera.zoom


def test_wide_low_pane_draws_from_left_to_right(view: GraphView, qtbot: QtBot) -> None:
    view.resize(1400, 300)
    qtbot.waitUntil(lambda: view.shown is not None and view.shown.layout.choice.across)
    settle(qtbot, view)

    assert view.shown is not None
    layout = view.shown.layout
    boxes = [layout.box_of_layer(k) for k in range(6)]
    assert (np.diff(layout.x0[boxes]) > 0).all()
    assert layout.width > layout.height

    view.resize(900, 700)
    qtbot.waitUntil(lambda: not view.shown.layout.choice.across)
    settle(qtbot, view)
    boxes = [view.shown.layout.box_of_layer(k) for k in range(6)]
    assert (np.diff(view.shown.layout.y0[boxes]) > 0).all()


def test_direction_can_be_chosen(view: GraphView, qtbot: QtBot) -> None:
    view.set_direction("right")
    settle(qtbot, view)

    assert view.shown is not None
    assert view.shown.layout.choice.across
    place = place_of(view, view.shown.layout.box_of_layer(1))
    double_click(view, place)
    settle(qtbot, view)
    assert kind_of_layer(view, 1) == BoxKind.FRAME


def test_legend_lies_below_the_picture_and_not_over_it(
    view: GraphView, qtbot: QtBot
) -> None:
    assert view.legend.isVisible()
    assert view.legend.geometry().top() >= view.canvas.geometry().bottom()

    view.resize(900, 120)
    qtbot.waitUntil(lambda: not view.legend.isVisible())


def test_views_can_be_hidden_and_are_counted(
    view: GraphView,
    session: Session,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = session.trace
    assert trace is not None
    view.open_all(True)
    settle(qtbot, view)
    ropes = {"ROPE"}  # in the place of views, of which this network has none
    graph = trace.graphs[0]
    n = sum(trace.op_name(int(op)) in ropes for op in graph.op)
    monkeypatch.setattr(layout_module, "VIEW_OPS", tuple(ropes))
    menu = QMenu()
    fill_view_menu(view, menu)
    (action,) = [a for a in menu.actions() if "Hide views" in a.text()]
    action.trigger()
    settle(qtbot, view)

    assert n > 0
    assert f"({n})" in action.text()
    assert view.hides_views
    assert view.shown is not None
    drawn = view.shown.layout.node[view.shown.layout.node >= 0]
    assert not any(trace.op_name(int(graph.op[row])) in ropes for row in drawn)
