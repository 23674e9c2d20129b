"""One clock, and one way to write times, in the whole window."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.model.units import parse_time
from ggscope.render.axis import axis_ticks
from ggscope.views.details.view import DetailsView
from ggscope.views.table.view import TableView
from ggscope.views.timeline.view import TimelineView
from scenes import texts_of
from support import ROOT
from touching import Hand

EXPERIMENT = ROOT / "resources" / "samples" / "moe-experiment"
"""Its buffers were allocated 0.9 ms before the first op."""


def read_times(document: Document) -> tuple[int, int]:
    """Return both ends of the range in the status strip, read as "Go to" would."""
    trace, absolute = document.session.trace, document.session.display.absolute_time
    assert trace is not None
    parts = document.status.range.full_text.removeprefix("range ").split(" (")[0]
    first, last = parts.split(" – ")
    return (
        parse_time(first, trace.clock, absolute=absolute),
        parse_time(last, trace.clock, absolute=absolute),
    )


def test_every_part_of_the_window_shows_the_same_time(
    window: MainWindow, opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(EXPERIMENT)
    session, trace = document.session, document.session.trace
    assert trace is not None
    assert trace.extent.start < 0
    (timeline,) = document.workspace.views("timeline")
    assert isinstance(timeline, TimelineView)
    at = QPoint(timeline.width() * 3 // 4, timeline.height() // 2)
    whole = session.viewport.visible

    hand.click(timeline, at)
    hand.press("w", "w")
    qtbot.waitUntil(lambda: session.viewport.visible.duration < whole.duration)

    for absolute in (False, True):
        session.display.set_absolute_time(absolute)
        Hand.settle()
        # The bar follows a view that moves a moment later.
        qtbot.waitUntil(lambda: _states_range(document))
        shown = session.viewport.visible
        step = shown.duration // 900
        scene = timeline.scene(timeline.width(), timeline.height(), 1.0)
        assert scene is not None
        assert scene.cursor_tick is not None
        texts = texts_of(
            timeline.picture(float(timeline.width()), float(timeline.height()), 1.0)
        )
        axis = axis_ticks(shown, 600, trace.clock, absolute=absolute)
        for tick, label in axis.ticks:
            if not axis.base:
                assert parse_time(label, trace.clock, absolute=absolute) == tick
        cursor = [w for w in texts if _is_near(w, scene.cursor_tick, step, document)]
        assert cursor, texts


def _states_range(document: Document) -> bool:
    visible = document.session.viewport.visible
    first, last = read_times(document)
    step = visible.duration // 900
    return 0 <= visible.start - first <= step and 0 <= visible.end - last <= step


def _is_near(text: str, tick: int, step: int, document: Document) -> bool:
    session = document.session
    assert session.trace is not None
    try:
        read = parse_time(
            text, session.trace.clock, absolute=session.display.absolute_time
        )
    except ValueError:
        return False
    return 0 <= tick - read <= step


def test_table_and_details_show_the_time_alike(
    window: MainWindow, opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(EXPERIMENT)
    session = document.session
    assert session.trace is not None
    spans = session.trace.spans

    session.selection.select_span(20)
    document.workspace.set_details_shown(True)  # narrow windows begin without
    (details,) = document.workspace.views("details")
    (table,) = document.workspace.views("table")
    assert isinstance(details, DetailsView)
    assert isinstance(table, TableView)
    qtbot.waitUntil(lambda: bool(details.facts.facts))
    report = {fact.label: fact.value for fact in details.facts.facts}["start"]

    assert parse_time(report, session.trace.clock) == int(spans.start[20])
    qtbot.waitUntil(lambda: table.model.row_of(20) is not None)
    row = table.model.row_of(20)
    assert row is not None
    # In the table all times have one unit.
    text = table.model.text(row, "time")
    assert parse_time(text, session.trace.clock) == int(spans.start[20])
