"""The critical path: its switch, the highlighted spans, what Details shows."""

import pytest
from pytestqt.qtbot import QtBot

from dependency_traces import Op, dependency_trace, span_named
from ggscope.analysis.graph.token_path import token_path
from ggscope.gui.commands.registry import COMMANDS
from ggscope.gui.main_window import MainWindow
from ggscope.model.selection import Selection
from ggscope.model.trace import Trace
from ggscope.render.batch import LineBatch, RectBatch
from ggscope.render.figure_style import FigureStyle
from ggscope.render.theme import theme
from ggscope.render.timeline.figure import TimelineOptions, timeline_figure
from ggscope.session.session import Session
from ggscope.views.details.view import DetailsView
from ggscope.views.timeline.view import TimelineView

DIAMOND: list[Op] = [
    ("a", []), ("b", [("a", 0)]), ("c", [("a", 0)]), ("d", [("b", 0), ("c", 0)]),
]  # fmt: skip
TIMES = [(0, 10), (12, 52), (11, 81), (90, 100)]


@pytest.fixture
def trace() -> Trace:
    return dependency_trace(
        [DIAMOND, DIAMOND], lanes=[[0, 0, 1, 0]] * 2, times=[TIMES] * 2
    )


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> TimelineView:
    view = TimelineView(session, theme("dark"))
    qtbot.addWidget(view)
    return view


def show(session: Session, qtbot: QtBot, span: int) -> None:
    session.selection.select_span(span)
    session.display.set_shows_critical_path(True)
    qtbot.waitUntil(lambda: session.critical_path.path is not None)


def highlighted(view: TimelineView) -> list[int]:
    scene = view.scene(800, 400, 1.0)
    assert scene is not None
    return [] if scene.highlighted is None else scene.highlighted.ids.tolist()


def test_path_of_the_selected_token_is_highlighted(view, session, trace, qtbot):
    span = span_named(trace, "b", 1)
    with qtbot.waitSignal(session.status_message) as messages:
        show(session, qtbot, span)

    shown = highlighted(view)
    session.display.set_shows_critical_path(False)

    assert shown == sorted(token_path(trace, span, None).path.tolist())
    assert [trace.span_name(i) for i in shown] == ["a", "c", "d"]
    assert "90 " in messages.args[0]
    assert highlighted(view) == []


def test_path_stays_within_a_token_and_follows_to_another(session, trace, qtbot):
    show(session, qtbot, span_named(trace, "a"))
    first = session.critical_path.path

    session.selection.select_span(span_named(trace, "b"))
    same = session.critical_path.path
    session.selection.select_span(span_named(trace, "b", 1))
    qtbot.waitUntil(lambda: session.critical_path.path is not first)

    assert same is first
    path = session.critical_path.path
    assert path is not None
    assert path.concerns(span_named(trace, "a", 1))


def test_span_of_the_token_itself_has_the_path(session, trace, qtbot):
    show(session, qtbot, span_named(trace, "token 1"))

    path = session.critical_path.path
    assert path is not None
    assert path.bar == span_named(trace, "token 1")


def test_nothing_selected_and_closed_traces_have_no_path(session, trace, qtbot):
    show(session, qtbot, span_named(trace, "a"))

    session.selection.select(Selection())

    assert session.critical_path.path is None
    session.display.set_shows_critical_path(False)
    session.selection.select_span(span_named(trace, "a"))
    assert session.critical_path.path is None


def test_details_have_length_and_slack(qtbot, session, trace):
    details = DetailsView(session, theme("dark"))
    qtbot.addWidget(details)
    details.show()
    assert not details.critical_path.isVisible()

    show(session, qtbot, span_named(trace, "b"))
    beside = details.critical_path.more.text()
    session.selection.select_span(span_named(trace, "c"))
    on_it = details.critical_path.more.text()

    assert "30 ns" in beside
    assert "90 ns of 100 ns" in beside
    assert "On the critical path" in on_it
    assert details.critical_path.isVisible()


def test_command_switches_the_setting(window: MainWindow, qtbot: QtBot):
    command = next(c for c in COMMANDS if c.id == "view.critical_path")

    command.run(window)
    is_on = window.settings.drawing.shows_critical_path
    command.run(window)

    assert (is_on, window.settings.drawing.shows_critical_path) == (True, False)


def test_figure_as_seen_lights_the_path(trace, qapp):
    selected = Selection("spans", (span_named(trace, "b"),))

    def n_boxes(*, seen: bool, shown: bool) -> int:
        options = TimelineOptions(selection=selected, critical_path=shown)
        figure = timeline_figure(trace, options, FigureStyle(seen=seen))
        batches = figure.draw(figure.style).picture.batches
        return sum(len(b.x0) for b in batches if isinstance(b, RectBatch))

    def n_lines(*, shown: bool) -> int:
        options = TimelineOptions(selection=selected, critical_path=shown)
        figure = timeline_figure(trace, options, FigureStyle(seen=True))
        batches = figure.draw(figure.style).picture.batches
        return sum(len(b.x0) for b in batches if isinstance(b, LineBatch))

    plain, highlighted = n_boxes(seen=True, shown=False), n_boxes(seen=True, shown=True)

    # A tint or a line above and below for each of three spans, at least.
    assert highlighted >= plain + 3
    # From "a" to "c" and back to "d", each with its casing.
    assert n_lines(shown=True) >= n_lines(shown=False) + 4
    assert n_boxes(seen=False, shown=True) == n_boxes(seen=False, shown=False)
