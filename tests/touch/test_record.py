"""A program is run from the window with keys and mouse, and stopped."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

import traced_program
from ggscope.gui.dialogs.record import RecordDialog
from ggscope.gui.live import LiveStrip
from ggscope.gui.main_window import MainWindow
from ggscope.session.settings import Settings
from ggscope.views.console import ConsoleView
from ggscope_capture import models
from panes import pane
from touching import PATIENCE_MS, Hand, visible_rect


def test_program_is_named_started_and_stopped_by_hand(
    make_window: Callable[..., MainWindow],
    settings: Settings,
    hand: Hand,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built = traced_program.build(tmp_path)
    rings = tmp_path / "rings"
    rings.mkdir()
    traced_program.set_up(monkeypatch, built, rings)
    models.write_model(tmp_path / "m.gguf", "nano")
    settings.change(
        "capture",
        programs=(str(built["program"]),),
        more="--waits",
        folder=str(tmp_path / "out"),
    )
    window = make_window(settings, (900, 600))

    hand.click(window.start_page.record_button)
    qtbot.waitUntil(lambda: bool(window.findChildren(RecordDialog)))
    (dialog,) = window.findChildren(RecordDialog)
    qtbot.waitUntil(dialog.isActiveWindow, timeout=PATIENCE_MS)
    hand.click(dialog.model)
    hand.type(str(tmp_path / "m.gguf"))
    qtbot.waitUntil(dialog.start.isEnabled, timeout=PATIENCE_MS)
    assert dialog.model_text.text().startswith("llama · ")
    hand.click(dialog.start)

    qtbot.waitUntil(lambda: window.document is not None, timeout=PATIENCE_MS)
    document = window.document
    assert document is not None
    run, session = document.run, document.session
    strip = document.findChild(LiveStrip)
    assert strip is not None
    assert run is not None
    qtbot.waitUntil(lambda: session.trace is not None, timeout=PATIENCE_MS)
    qtbot.waitUntil(lambda: document.workspace.filler.is_done, timeout=PATIENCE_MS)
    console = pane(document, "console")
    assert isinstance(console, ConsoleView)
    qtbot.waitUntil(lambda: "Once upon a time" in console.text.toPlainText())
    buttons = (strip.follow, strip.pause, strip.now, strip.save, strip.stop)
    places = [visible_rect(button) for button in buttons]
    hand.click(strip.stop)
    qtbot.waitUntil(lambda: run.has_recording, timeout=PATIENCE_MS)
    hand.settle()
    # Nothing has moved to where a late click would hit it.
    assert all(button.isVisible() for button in buttons)
    assert [visible_rect(button) for button in buttons] == places
    assert not strip.stop.isEnabled()
    qtbot.waitUntil(console.open.isVisible, timeout=PATIENCE_MS)
    hand.click(console.open)
    qtbot.waitUntil(lambda: window.document is not document, timeout=PATIENCE_MS)
