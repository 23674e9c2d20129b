"""Times of a file are moved against the others by a mouse that is dragged."""

import shutil
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot

from ggscope.gui.dialogs.session_files import SessionFilesDialog
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from messages import newest_message, toast
from support import ROOT
from touching import Hand


def test_buffers_are_dragged_against_the_trace(
    window: MainWindow,
    opened: Callable[[Path], Document],
    hand: Hand,
    qtbot: QtBot,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "moe"
    shutil.copytree(ROOT / "resources" / "samples" / "moe-experiment", folder)
    document = opened(folder)
    session = document.session

    def first_alloc() -> int:
        return int(session.trace.buffers.allocated.min())

    before = first_alloc()
    window.actions_["file.parts"].trigger()
    dialog = window.findChild(SessionFilesDialog)
    assert dialog is not None
    qtbot.waitExposed(dialog)
    names = [dialog.table.item(row, 0).text() for row in range(dialog.table.rowCount())]
    dialog.table.selectRow(names.index("buffer-timeline.json"))
    (timeline, *_) = document.workspace.views("timeline")
    shown = session.viewport.visible.duration
    middle = dialog.shift_handle.rect().center()

    hand.drag(dialog.shift_handle, middle, middle + QPoint(-40, 0))

    moved = shown * -40 // timeline.width()
    step = shown // timeline.width() + 1  # the screen's pixels may be finer
    qtbot.waitUntil(lambda: abs(first_alloc() - before - moved) <= step)
    assert session.trace.check() == []
    assert newest_message(document)
    toast(document).buttons[0].click()
    qtbot.waitUntil(lambda: abs(first_alloc() - before - moved) > step)
