"""W, A, S and D by place: what an AZERTY keyboard sends."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtTest import QTest

import ggmlviz_files
from ggscope.gui.commands.keyboard import command_at
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow

PLAIN = Qt.KeyboardModifier.NoModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
CTRL = Qt.KeyboardModifier.ControlModifier


def key_event(
    kind: QEvent.Type, code: int, letter: str, mods: Qt.KeyboardModifier = PLAIN
) -> QKeyEvent:
    return QKeyEvent(kind, ord(letter.upper()), mods, code, code, 0, letter)


def press(window: MainWindow, code: int, letter: str) -> None:
    """Send what the window system sends for a key at a place."""
    for kind in (QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress):
        QCoreApplication.sendEvent(window.windowHandle(), key_event(kind, code, letter))


@pytest.mark.parametrize(
    ("platform", "code", "letter", "mods", "command"),
    [
        ("linux", 25, "z", PLAIN, "zoom.in"),
        ("linux", 38, "q", PLAIN, "go.left"),
        ("linux", 38, "Q", SHIFT, "go.left_little"),
        ("linux", 39, "s", PLAIN, "zoom.out"),
        ("linux", 25, "Z", SHIFT, ""),
        ("linux", 38, "q", CTRL, ""),
        ("linux", 52, "w", PLAIN, ""),
        ("darwin", 0, "q", PLAIN, "go.left"),
        ("darwin", 0, "", PLAIN, ""),
        ("win32", 32, "d", PLAIN, "go.right"),
        ("plan9", 25, "z", PLAIN, ""),
    ],
)
def test_place_of_a_key_names_its_command(
    platform: str, code: int, letter: str, mods: Qt.KeyboardModifier, command: str
) -> None:
    event = QKeyEvent(
        QEvent.Type.KeyPress, Qt.Key.Key_unknown, mods, code, code, 0, letter
    )

    assert command_at(event, platform) == command


@pytest.fixture
def document(
    opened: Callable[[Path], Document], tmp_path: Path, window: MainWindow
) -> Document:
    made = opened(ggmlviz_files.write(tmp_path / "a.ggmlviz", ggmlviz_files.run()))
    window.activateWindow()
    QTest.qWaitForWindowActive(window)
    made.focus_views()
    return made


def test_place_of_w_zooms_where_that_is_chosen(
    window: MainWindow, document: Document
) -> None:
    before = document.session.viewport.visible
    window.settings.change("drawing", keys_by_place=True)

    press(window, 25, "z")

    assert document.session.viewport.visible.duration < before.duration


def test_place_means_nothing_by_default(window: MainWindow, document: Document) -> None:
    before = document.session.viewport.visible

    press(window, 25, "z")

    assert document.session.viewport.visible == before


def test_text_field_keeps_its_letters(window: MainWindow, document: Document) -> None:
    window.settings.change("drawing", keys_by_place=True)
    before = document.session.viewport.visible
    window.activateWindow()
    edit = document.toolbar.search.edit
    edit.setFocus()
    QTest.qWaitForWindowActive(window)

    press(window, 25, "z")

    assert document.session.viewport.visible == before
    assert edit.text() == "z"
