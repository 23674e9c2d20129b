"""Arrows of the selected op in the window: keys, setting, Details, tooltip."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from dependency_traces import Op, dependency_trace, span_named
from ggscope.analysis.graph.op_links import NO_LINKS, OpLinks
from ggscope.gui.main_window import MainWindow
from ggscope.model.trace import Trace
from ggscope.render.theme import theme
from ggscope.render.timeline.hit_test import Hit
from ggscope.session.session import Session
from ggscope.views.details.view import DetailsView
from ggscope.views.graph.view import GraphView
from ggscope.views.heatmap.view import HeatmapView
from ggscope.views.timeline.tooltips import tooltip_for
from ggscope.views.timeline.view import TimelineView
from watchers import PaintCount

SAMPLE = Path(__file__).parents[2] / "resources" / "samples" / "moe-experiment"

PASS: list[Op] = [
    ("a", []),
    ("b", []),
    ("c", [("a", 0), ("b", 0), ("input", 0)]),
    ("d", [("c", 0)]),
    ("e", [("c", 0)]),
]


@pytest.fixture
def trace() -> Trace:
    return dependency_trace([PASS, PASS])


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> TimelineView:
    view = TimelineView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1000, 300)
    view.show()
    qtbot.waitExposed(view)
    return view


def links_shown(view: TimelineView) -> bool:
    scene = view.scene(800, 400, 1.0)
    assert scene is not None
    return scene.links is not None and bool(scene.links.inputs)


def test_key_switches_the_arrows_of_the_selection(window: MainWindow, qtbot: QtBot):
    document = window.open_path(SAMPLE)
    session = document.session
    qtbot.waitUntil(lambda: session.trace is not None and session.tasks.is_idle)
    session.selection.select_span(222)
    view = next(iter(document.workspace.views("timeline")))
    assert isinstance(view, TimelineView)
    document.focus_views()
    shown = [links_shown(view)]

    for _ in range(2):
        QTest.keyClick(window.focusWidget() or window, Qt.Key.Key_E)
        shown.append(links_shown(view))

    assert shown == [True, False, True]


def test_keys_of_links_walk_through_a_run(window: MainWindow, qtbot: QtBot):
    document = window.open_path(SAMPLE)
    session = document.session
    qtbot.waitUntil(lambda: session.trace is not None and session.tasks.is_idle)
    session.selection.select_span(222)
    document.focus_views()

    QTest.keyClicks(window.focusWidget() or window, ">")
    reader = session.selection.current.ids
    QTest.keyClicks(window.focusWidget() or window, "<")

    assert (reader, session.selection.current.ids) == ((223,), (222,))


def test_steps_lead_to_the_last_input_and_the_first_reader(session, trace):
    second = span_named(trace, "c", 1)
    session.selection.select_span(second)
    places = []

    for by in (1, -1, -1):
        session.navigator.step_link(by)
        places.append(session.selection.current.ids)

    expected = [span_named(trace, "d", 1), second, span_named(trace, "b", 1)]
    assert places == [(span,) for span in expected]


@pytest.mark.parametrize("by", [-1, 1])
def test_status_bar_says_why_there_is_no_step(session, trace, qtbot, by):
    session.selection.select_span(span_named(trace, "a" if by < 0 else "e"))
    before = session.selection.current

    with qtbot.waitSignal(session.navigator.status_message) as messages:
        session.navigator.step_link(by)

    assert messages.args[0]
    assert session.selection.current == before


def test_several_selected_spans_have_no_arrows(session, trace):
    session.selection.select_span(span_named(trace, "c"))
    session.selection.select_span(span_named(trace, "d"), add=True)

    assert session.linking.linked.op_links is NO_LINKS


def test_details_list_inputs_readers_and_what_is_not_known(qtbot, session, trace):
    view = DetailsView(session, theme("dark"))
    qtbot.addWidget(view)
    view.show()
    session.selection.select_span(span_named(trace, "c"))

    inputs, readers = view.groups
    names = [[item.text for item in group.items] for group in (inputs, readers)]
    note = inputs.more.text()
    inputs.links[1].click()

    assert names == [["ADD a", "ADD b"], ["ADD d", "ADD e"]]
    assert "input" in note
    assert session.selection.current.ids == (span_named(trace, "b"),)


def test_tooltip_names_inputs_and_readers(view, session, trace):
    prepared = view.prepared()
    assert prepared is not None
    span = span_named(trace, "c")
    box = prepared.layout.box_of(prepared.index.lane_of_span(span))
    hit = Hit(int(trace.spans.start[span]), box, 0, span)

    text = str(tooltip_for(prepared, session, hit, 1.0))

    assert "reads ADD a, ADD b" in text
    assert "read by ADD d, ADD e" in text


def test_long_traces_find_links_on_a_worker(session, trace, qtbot, monkeypatch):
    monkeypatch.setattr("ggscope.session.linking.QUICK_SPANS", 1)

    changes = []
    session.linking.linked_changed.connect(lambda _: changes.append("linked"))
    session.linking.op_links_changed.connect(lambda _: changes.append("op links"))

    session.selection.select_span(span_named(trace, "c"))
    first = session.linking.linked.op_links
    qtbot.waitUntil(lambda: bool(session.linking.linked.op_links.inputs))

    assert first is NO_LINKS
    # Panes without arrows need not be drawn again for these.
    assert changes == ["linked", "op links"]


def test_links_from_a_worker_repaint_only_what_draws_them(
    session, trace, view, qtbot, monkeypatch
):
    monkeypatch.setattr("ggscope.session.linking.QUICK_SPANS", 1)
    graph = GraphView(session, theme("dark"))
    heatmap = HeatmapView(session, theme("dark"))
    for other in (graph, heatmap):
        qtbot.addWidget(other)
        other.resize(600, 300)
        other.show()
        qtbot.waitExposed(other)
    qtbot.waitUntil(lambda: session.tasks.is_idle)
    links: list[OpLinks] = []
    session.linking.op_links_changed.connect(links.append)
    QApplication.processEvents()
    counts = [PaintCount(painted.canvas) for painted in (view, graph, heatmap)]

    session.selection.select_span(span_named(trace, "c"))
    QApplication.processEvents()
    qtbot.waitUntil(lambda: bool(links) and session.tasks.is_idle)
    QApplication.processEvents()

    assert links[0].has_ends
    assert counts[0].n in (1, 2)  # one, if the worker is done before the first
    assert [count.n for count in counts[1:]] == [1, 1]
