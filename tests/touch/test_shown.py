"""What is hidden is said, what is seen is exported, what is stated is short."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QFileDialog, QToolTip
from pytestqt.qtbot import QtBot

from ggscope.gui.dialogs.figure import FigureDialog
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.render.axis import CHARACTER_PX
from ggscope.render.batch import TextBatch
from ggscope.views.details.view import DetailsView
from ggscope.views.graph.view import GraphView
from ggscope.views.timeline.view import TimelineView
from pages import more_chips
from scenes import texts_of
from support import ROOT
from touching import Hand

SAMPLES = ROOT / "resources" / "samples"
HIDDEN = "thread:thread 0"


def timeline_of(document: Document) -> TimelineView:
    (timeline,) = document.workspace.views("timeline")
    assert isinstance(timeline, TimelineView)
    return timeline


def test_hidden_lanes_are_a_chip_and_stay_with_their_file(
    window: MainWindow, opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    first = opened(SAMPLES / "llama.ggmlviz")
    state = first.session.lanes.state
    first.session.lanes.set_state(replace(state, hidden=frozenset({HIDDEN})))

    second = opened(SAMPLES / "whisper.ggmlviz")

    assert not second.session.lanes.state.hidden
    assert not second.toolbar.chips.chips
    hand.press("ctrl+Tab")
    qtbot.waitUntil(lambda: window.document is first)
    (chip,) = first.toolbar.chips.chips
    assert chip.text == "1 lane hidden"
    close = chip.close_button
    if chip.isVisible():
        hand.click(close)
    else:  # a small window: behind "+1"
        hand.click(more_chips(first))
        hand.press("Down", "Return")
    qtbot.waitUntil(lambda: not first.session.lanes.state.hidden)
    assert not first.toolbar.chips.chips


def test_window_exports_the_lanes_that_are_seen(
    window: MainWindow,
    opened: Callable[[Path], Document],
    hand: Hand,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = opened(SAMPLES / "llama.ggmlviz")
    session = document.session
    assert session.index is not None
    value = session.index.lanes[-1]
    hidden = frozenset(lane.key for lane in session.index.lanes) - {value.key}
    session.lanes.set_state(
        replace(session.lanes.state, hidden=hidden, pinned=(value.key,))
    )
    path = tmp_path / "seen.svg"
    monkeypatch.setattr(
        QFileDialog, "getSaveFileName", lambda *_: (str(path), "SVG drawing (*.svg)")
    )

    hand.click(timeline_of(document))
    hand.press("ctrl+e")
    (dialog,) = window.findChildren(FigureDialog)
    qtbot.waitUntil(lambda: dialog.preview is not None, timeout=10_000)
    hand.press("Return")
    qtbot.waitUntil(path.exists, timeout=10_000)
    hand.press("Escape")
    qtbot.waitUntil(lambda: not window.findChildren(FigureDialog))

    drawing = path.read_text("utf-8")
    assert "Pinned" in drawing
    assert value.title in drawing
    assert "thread 0" not in drawing
    families = set(_families(drawing))
    assert families
    assert all(f.endswith(("sans-serif", "monospace")) for f in families)


def _families(drawing: str) -> list[str]:
    return [part.partition('"')[0] for part in drawing.split('font-family="')[1:]]


def test_token_key_shows_the_token_lane_or_says_why_not(
    window: MainWindow, opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "tinyllama-256.bin")
    session, timeline = document.session, timeline_of(document)
    assert session.index is not None
    hand.click(timeline)
    tokens = next(lane for lane in session.index.lanes if lane.group == "Tokens")
    session.lanes.set_state(
        replace(session.lanes.state, collapsed=frozenset({"Tokens"}))
    )
    Hand.settle()

    hand.press("bracketright")

    assert "Tokens" not in (session.lanes.state.collapsed or ())
    prepared = timeline.prepared()
    assert prepared is not None
    assert prepared.layout.box_of(tokens.key) is not None
    for _ in range(20):
        hand.press("bracketright")
        if document.status.message.full_text:
            break
    assert document.status.message.full_text == "This is the last token"


def test_labels_of_the_axis_are_whole(
    window: MainWindow, opened: Callable[[Path], Document], hand: Hand
) -> None:
    document = opened(SAMPLES / "llama.ggmlviz")
    timeline = timeline_of(document)
    hand.click(timeline)

    for key in ("w", "d", "d", "w", "d", "d"):
        hand.press(key)
        width, height = timeline.width(), timeline.height()
        picture = timeline.picture(float(width), float(height), 1.0)
        left = timeline.header_width()
        labels = [
            text
            for batch in picture.batches
            if isinstance(batch, TextBatch)
            for text in batch.texts
            if text.clip is not None and text.clip.x == left and text.y < 10
        ]
        assert labels, texts_of(picture)
        for text in labels:
            assert text.x - len(text.text) * CHARACTER_PX / 2 >= left


def test_tooltip_has_five_lines_and_nothing_unknown(
    window: MainWindow, opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "llama.ggmlviz")
    timeline = timeline_of(document)
    at = QPoint(timeline.width() * 2 // 3, 60)
    hand.hover(timeline, at + QPoint(3, 0))
    hand.hover(timeline, at)

    qtbot.waitUntil(QToolTip.isVisible, timeout=5_000)

    text = QToolTip.text()
    assert text.count("<br>") <= 4
    assert "N/A" not in text


def test_details_of_a_token_hold_what_is_known(
    window: MainWindow, opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "tinyllama-256.bin")
    document.workspace.set_details_shown(True)  # narrow windows begin without
    (details,) = document.workspace.views("details")
    assert isinstance(details, DetailsView)
    hand.click(timeline_of(document))

    hand.press("bracketright")
    qtbot.waitUntil(lambda: bool(details.facts.facts))

    known = {fact.label: fact.value for fact in details.facts.facts}
    assert known["token"].startswith("#")
    assert "N/A" not in known.values()


@pytest.mark.parametrize("size", [(900, 600)], ids=["900x600"], indirect=True)
def test_first_picture_of_a_graph_in_a_low_pane_begins_with_its_top_row(
    opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "moe-experiment")
    hand.press("ctrl+4")
    (view,) = document.workspace.views("graph")
    assert isinstance(view, GraphView)
    qtbot.waitUntil(lambda: view.shown is not None and view.camera.is_set)
    qtbot.waitUntil(lambda: document.session.tasks.is_idle)
    hand.settle()

    assert view.shown is not None
    layout, camera = view.shown.layout, view.camera
    assert layout.choice.across
    assert layout.height * camera.zoom > view.canvas_size().height()
    assert camera.y < layout.y0.min()
    first = layout.box_of_layer(0)
    assert (layout.y1[first] - camera.y) * camera.zoom < view.canvas_size().height()
