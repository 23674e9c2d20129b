"""Steps, filters, ruler and notes by real keys and mouse."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractItemView, QApplication, QLineEdit, QMenu
from pytestqt.qtbot import QtBot

from ggscope.analysis.graph.dependencies import op_links
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.render.charts import ChartGeometry
from ggscope.render.distribution import (
    DistributionScene,
    bar_near,
    distribution_chart,
)
from ggscope.session.settings import Settings
from ggscope.session.settings_store import MemoryStore
from ggscope.views.flags import FlagsView
from ggscope.views.statistics.view import StatisticsView
from ggscope.views.timeline.view import TimelineView
from scenes import texts_of
from support import ROOT
from touching import PATIENCE_MS, Hand, focused

SAMPLES = ROOT / "resources" / "samples"
Opened = Callable[[Path], Document]
small = pytest.mark.parametrize("size", [(900, 600)], ids=["900x600"], indirect=True)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return settings of a person who has said where bookmarks are kept."""
    made = Settings(MemoryStore(), data_folder=tmp_path / "data")
    made.change("bookmarks", place="data")
    return made


def timeline_of(document: Document) -> TimelineView:
    (timeline,) = document.workspace.views("timeline")
    assert isinstance(timeline, TimelineView)
    return timeline


def statistics_of(document: Document, hand: Hand, qtbot: QtBot) -> StatisticsView:
    """Return the statistics by op, counted."""
    hand.press("ctrl+9")
    (view,) = document.workspace.views("statistics")
    assert isinstance(view, StatisticsView)
    qtbot.waitUntil(lambda: view.result is not None and bool(view.result.rows))
    settled(document, qtbot)
    return view


def rows_of(view: StatisticsView) -> list[str]:
    return [] if view.result is None else [row.key for row in view.result.rows]


def settled(document: Document, qtbot: QtBot) -> None:
    Hand.settle()
    qtbot.waitUntil(lambda: document.session.tasks.is_idle, timeout=PATIENCE_MS)
    Hand.settle()


def click_cell(hand: Hand, table: QAbstractItemView, row: int, times: int = 1) -> None:
    at = table.visualRect(table.model().index(row, 0)).center()
    hand.click(table.viewport(), at, times=times)


def spans_of_op(document: Document, name: str) -> list[int]:
    """Return the spans of an op, longest first."""
    trace = document.session.trace
    assert trace is not None
    s = trace.spans
    ids = [i for i in range(len(s)) if trace.op_name(int(s.op[i])) == name]
    return sorted(ids, key=lambda i: (-int(s.end[i] - s.start[i]), i))


def test_row_of_statistics_is_stepped_through_and_filters(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "tinyllama-256.bin")
    session = document.session
    view = statistics_of(document, hand, qtbot)
    assert view.result is not None
    assert session.trace is not None
    name = view.result.rows[0].key
    length = session.trace.spans.end - session.trace.spans.start
    ids = spans_of_op(document, name)

    click_cell(hand, view.table, 0)
    settled(document, qtbot)
    assert set(session.linking.linked.spans.tolist()) == set(ids)

    looked_at = []
    for key in ("Return", "Return", "period", "comma"):
        hand.press(key)
        settled(document, qtbot)
        looked_at.append(session.linking.current_span)
    walked = [i for i in looked_at if i is not None]
    assert [int(length[i]) for i in walked[:2]] == [int(length[i]) for i in ids[:2]]
    assert walked[3] == walked[1] != walked[2]
    assert set(walked) <= set(ids)

    click_cell(hand, view.table, 0, times=2)
    qtbot.waitUntil(lambda: bool(session.queries.filter), timeout=PATIENCE_MS)
    qtbot.waitUntil(lambda: rows_of(view) == [name], timeout=PATIENCE_MS)
    hand.press("alt+Left")
    qtbot.waitUntil(lambda: not session.queries.filter, timeout=PATIENCE_MS)


@small
def test_drag_over_the_histogram_filters_and_is_taken_back(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "tinyllama-256.bin")
    queries = document.session.queries
    view = statistics_of(document, hand, qtbot)
    hand.click(view.head.histogram)
    settled(document, qtbot)
    histogram = view.histogram
    qtbot.waitUntil(lambda: histogram.scene_now() is not None, timeout=PATIENCE_MS)
    scene = histogram.scene_now()
    assert isinstance(scene, DistributionScene)
    geometry = ChartGeometry(distribution_chart(scene, scene.bars))
    y = (geometry.top + geometry.bottom) / 2
    width = geometry.right - geometry.left
    points = [QPointF(geometry.left + width * part, y) for part in (0.3, 0.8)]
    first, last = (bar_near(scene, point.x()) for point in points)
    expected = int(scene.bars.counts[first : last + 1].sum())
    assert 0 < expected < int(scene.bars.counts.sum())

    hand.drag(histogram.canvas, *points)
    qtbot.waitUntil(lambda: bool(queries.filter), timeout=PATIENCE_MS)
    assert queries.filter.min_duration == int(scene.bars.edges[first])
    qtbot.waitUntil(
        lambda: (
            histogram.distribution is not None and histogram.distribution.n == expected
        ),
        timeout=PATIENCE_MS,
    )
    hand.press("Escape")
    qtbot.waitUntil(lambda: not queries.filter, timeout=PATIENCE_MS)


def test_ruler_snaps_to_spans_and_goes_on_by_keys(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "moe-experiment")
    session, timeline = document.session, timeline_of(document)
    assert session.trace is not None
    spans = session.trace.spans
    span = sorted(spans_of_op(document, "MUL_MAT"))[10]
    session.selection.select_span(span)
    hand.press("f", "f")
    settled(document, qtbot)
    (x0, x1), y = ends_of(timeline, span)

    hand.send("keydown", "ctrl", "keydown", "shift")
    hand.drag(timeline, QPointF(x0 + 3, y), QPointF(x1 - 3, y))
    hand.send("keyup", "shift", "keyup", "ctrl")
    qtbot.waitUntil(lambda: session.ruler.facts is not None, timeout=PATIENCE_MS)

    ruler, facts = session.ruler.current, session.ruler.facts
    assert ruler is not None
    assert facts is not None
    start, end = int(spans.start[span]), int(spans.end[span])
    assert (ruler.time.start, ruler.time.end) == (start, end)
    assert (facts.n_ops, facts.n_cut_ops) == (1, 0)
    hand.press("alt+period")
    assert session.ruler.current is not None
    assert session.ruler.current.time.end > end
    hand.press("Escape")
    assert session.ruler.current is None


def ends_of(timeline: TimelineView, span: int) -> tuple[tuple[float, float], float]:
    """Return the first and last x at which a span lies in its thread, and its y."""
    for y in range(20, timeline.height(), 3):
        line = [x for x in range(timeline.width()) if timeline.hit(x, y).span == span]
        if len(line) > 20:
            return (line[0], line[-1]), y + 3
    raise AssertionError("the span is not in sight")


def test_arrows_are_walked_by_keys(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "moe-experiment")
    session = document.session
    trace = session.trace
    assert trace is not None
    span = next(
        i
        for i in spans_of_op(document, "MUL_MAT")
        if op_links(trace, i, session.linking.correlation).consumers
    )
    session.selection.select_span(span)
    reader = op_links(trace, span, session.linking.correlation).consumers[0].span

    hand.press("greater")
    assert session.selection.current.ids == (reader,)
    last = op_links(trace, reader, session.linking.correlation).inputs[-1].span
    hand.press("less")
    assert session.selection.current.ids == (last,)


@small
def test_note_gets_text_and_colour_is_changed_and_deleted(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot, tmp_path: Path
) -> None:
    document = opened(SAMPLES / "tinyllama-256.bin")
    session, timeline = document.session, timeline_of(document)
    qtbot.waitUntil(lambda: document.bookmarks.keeper.is_read)
    at = QPoint(timeline.width() // 2, timeline.height() * 2 // 3)
    hand.drag(timeline, at, at + QPoint(120, 0))
    # The dialog takes the release of the key that opens it, and leaves that of Return.
    hand.send("key", "shift+m")
    qtbot.waitUntil(lambda: isinstance(focused(), QLineEdit), timeout=PATIENCE_MS)
    hand.type("slow")
    hand.press("Tab")
    hand.type("why")
    hand.send("key", "Return")
    qtbot.waitUntil(lambda: len(session.bookmarks.items) == 1, timeout=PATIENCE_MS)
    (note,) = session.bookmarks.items
    assert (note.name, note.note, note.color) == ("slow", "why", "")
    assert session.ranges.marked is not None
    assert note.time == session.ranges.marked.time

    label = next(
        QPoint(x, 20)
        for x in range(timeline.width())
        if timeline.bookmarks_at(QPointF(x, 20))
    )
    hand.click(timeline, label, button="right")
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    colors = next(a for a in menu.actions() if a.text() == "Colour")
    hand.click(menu, menu.actionGeometry(colors).center())
    submenu = colors.menu()
    assert isinstance(submenu, QMenu)
    qtbot.waitUntil(submenu.isVisible, timeout=PATIENCE_MS)
    blue = next(a for a in submenu.actions() if a.text().lower() == "blue")
    hand.click(submenu, submenu.actionGeometry(blue).center())
    qtbot.waitUntil(lambda: session.bookmarks.items[0].color == "blue")
    figure = timeline.figure()
    assert figure is not None
    assert any("slow" in text for text in texts_of(figure.draw(figure.style).picture))

    hand.click(timeline, label, button="right")
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    delete = next(a for a in menu.actions() if a.text().startswith("Delete"))
    hand.click(menu, menu.actionGeometry(delete).center())
    qtbot.waitUntil(lambda: not session.bookmarks.items, timeout=PATIENCE_MS)


@small
def test_thread_flag_is_copied(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "moe-experiment")
    hand.press("ctrl+shift+p")
    hand.type("analyse flags")
    hand.press("Return")
    qtbot.waitUntil(lambda: bool(document.workspace.views("flags")))
    (view,) = document.workspace.views("flags")
    assert isinstance(view, FlagsView)
    card = view.cards["threads"]
    qtbot.waitUntil(card.copy_button.isVisible, timeout=PATIENCE_MS)
    settled(document, qtbot)

    hand.click(card.copy_button)

    assert QGuiApplication.clipboard().text() == "-t 1"
