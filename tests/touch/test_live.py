"""A program that is followed, with a real mouse: what is dragged is what is meant."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.model.units import TimeRange
from ggscope.session.settings import Settings
from ggscope.views.timeline.view import TimelineView
from ring_writer import Writer
from touching import PATIENCE_MS, Hand

pytestmark = pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the made-up writer needs Linux"
)
SHOWN = 500_000_000
"""Ticks of the view that moves."""


@contextmanager
def running(writer: Writer) -> Iterator[None]:
    """Let the made-up program compute a hundred graphs a second."""
    is_over = threading.Event()

    def compute() -> None:
        while not is_over.wait(0.01):
            writer.graph()

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    """Return a program that writes a ring, and rests."""
    made = Writer(tmp_path / "ring", n_lanes=2, capacity=1 << 14)
    yield made
    made.close()


def test_range_dragged_by_hand_is_as_long_as_it_looks_while_the_view_moves(
    make_window: Callable[..., MainWindow],
    settings: Settings,
    writer: Writer,
    hand: Hand,
    qtbot: QtBot,
) -> None:
    window = make_window(settings, (1600, 1000))
    document = window.follow(str(writer.path))
    session, live = document.session, document.live
    assert live is not None
    with running(writer):
        timeline = moving_timeline(document, qtbot)
        y = timeline.canvas.height() - 20
        start, end = (QPoint(x, y) for x in (600, 800))
        expected = 200 * timeline.ticks_per_px()
        hand.drag(timeline.canvas, start, end)
        marked = session.ranges.marked
        assert marked is not None
        assert abs(marked.time.duration - expected) <= 2 * timeline.ticks_per_px()
        # It stays where it was marked.
        assert not live.follows
        assert abs(timeline.tick_at(600) - marked.time.start) < 2 * expected / 200
        time.sleep(0.1)
        live.jump()
        qtbot.waitUntil(lambda: live.follows, timeout=PATIENCE_MS)


def moving_timeline(document: Document, qtbot: QtBot) -> TimelineView:
    """Return the timeline once it moves on with the program."""
    session = document.session
    qtbot.waitUntil(
        lambda: session.trace is not None and session.trace.extent.duration > 2 * SHOWN,
        timeout=PATIENCE_MS,
    )
    assert session.trace is not None
    end = session.trace.extent.end
    session.viewport.set_visible(TimeRange(end - SHOWN, end + SHOWN // 20))
    (timeline,) = document.workspace.views("timeline")
    assert isinstance(timeline, TimelineView)
    before = session.viewport.visible
    qtbot.waitUntil(
        lambda: session.viewport.visible.end > before.end, timeout=PATIENCE_MS
    )
    return timeline
