"""What is chosen shows in every pane, counters read well, nothing lies over nodes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QToolTip, QWidget
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.model.units import TimeRange
from ggscope.render.graph.marks import minimap_place
from ggscope.render.theme import outline_pair, theme
from ggscope.session.settings import Settings
from ggscope.views.graph.view import GraphView
from ggscope.views.timeline.view import TimelineView
from support import ROOT
from touching import PATIENCE_MS, Hand

SAMPLES = ROOT / "resources" / "samples"
MIN_PIXELS = 24
"""A frame around anything has more; lines of one pixel by chance have fewer."""
Opened = Callable[[Path], Document]


def timeline_of(document: Document) -> TimelineView:
    (timeline,) = document.workspace.views("timeline")
    assert isinstance(timeline, TimelineView)
    return timeline


def n_pixels(widget: QWidget, color: int) -> int:
    """Return how many pixels of a widget have exactly this colour."""
    image = widget.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.frombuffer(image.constBits(), np.uint32) & 0xFFFFFF
    return int(np.count_nonzero(pixels == color & 0xFFFFFF))


def place_of(timeline: TimelineView, span: int) -> QPoint:
    """Return a point of the picture on a span."""
    for y in range(20, timeline.height(), 4):
        for x in range(timeline.width() // 4, timeline.width(), 2):
            if timeline.hit(x, y).span == span:
                return QPoint(x, y)
    raise AssertionError("the span is not in sight")


@pytest.mark.parametrize(
    ("key", "view_id"), [("ctrl+4", "graph"), ("ctrl+3", "heatmap")]
)
@pytest.mark.parametrize("name", ["dark", "light"])
def test_span_chosen_in_the_timeline_is_framed_in_other_panes(
    make_window: Callable[..., MainWindow],
    settings: Settings,
    hand: Hand,
    qtbot: QtBot,
    wait_read: Callable[[MainWindow], Document],
    name: str,
    key: str,
    view_id: str,
) -> None:
    window = make_window(settings, (1600, 1000), theme=name)
    window.open_path(SAMPLES / "moe-experiment")
    document = wait_read(window)
    session, timeline = document.session, timeline_of(document)
    hand.press(key)
    (view,) = document.workspace.views(view_id)
    qtbot.waitUntil(view.isVisible, timeout=PATIENCE_MS)
    qtbot.waitUntil(lambda: session.tasks.is_idle, timeout=PATIENCE_MS)
    trace = session.trace
    assert trace is not None
    span = next(
        i
        for i in range(len(trace.spans))
        if trace.op_name(int(trace.spans.op[i])) == "MUL_MAT"
    )
    start, end = int(trace.spans.start[span]), int(trace.spans.end[span])
    session.viewport.set_visible(TimeRange(start - (end - start), end + (end - start)))
    Hand.settle()
    # What is chosen itself, or what it is in: a closed layer, say.
    color = outline_pair(theme(name).selection)[0]
    before = n_pixels(view, color)

    hand.click(timeline, place_of(timeline, span))

    assert session.selection.current.ids == (span,)
    qtbot.waitUntil(lambda: session.tasks.is_idle, timeout=PATIENCE_MS)
    qtbot.waitUntil(
        lambda: n_pixels(view, color) >= before + MIN_PIXELS, timeout=PATIENCE_MS
    )


def test_counter_under_the_pointer_is_reported_in_readable_bytes(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "npu-prefill-decode.json")
    timeline = timeline_of(document)
    qtbot.waitUntil(lambda: document.session.tasks.is_idle, timeout=PATIENCE_MS)
    at = _counter_place(timeline, hand)
    hand.hover(timeline, at + QPoint(3, 0))
    hand.hover(timeline, at)

    qtbot.waitUntil(QToolTip.isVisible, timeout=PATIENCE_MS)

    assert "e+0" not in QToolTip.text()
    assert (
        "MiB" in QToolTip.text() or "KiB" in QToolTip.text() or " B" in QToolTip.text()
    )


def _counter_place(timeline: TimelineView, hand: Hand) -> QPoint:
    """Scroll down to a counter's lane; return a point on it."""
    x = timeline.width() * 2 // 3
    for _ in range(40):
        for y in range(40, timeline.height() - 10, 6):
            box = timeline.hit(x, y).box
            if box is not None and box.lane is not None and not box.lane.track.has_rows:
                return QPoint(x, y)
        hand.press("Next")
    raise AssertionError("there is no counter")


def test_overview_of_a_small_graph_pane_lies_over_no_node(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "moe-experiment")
    hand.press("ctrl+4")
    (view,) = document.workspace.views("graph")
    assert isinstance(view, GraphView)
    qtbot.waitUntil(view.isVisible, timeout=PATIENCE_MS)
    qtbot.waitUntil(lambda: view.scene_now() is not None, timeout=PATIENCE_MS)
    at = QPoint(view.canvas.width() // 2, view.canvas.height() // 2)
    for _ in range(6):
        hand.wheel(view.canvas, "up", at=at, held="ctrl")
        scene = view.scene_now()
        assert scene is not None
        place = minimap_place(scene)
        if place is None or (scene.width >= 640 and scene.height >= 420):
            continue
        for x in range(int(place.x), int(place.x + place.width), 4):
            for y in range(int(place.y), int(place.y + place.height), 4):
                assert view.hit(x, y).box < 0
