"""Messages over a page: they leave, belong to their tab, and can be read again."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTableWidget
from pytestqt.qtbot import QtBot

from ggscope.gui import messages as messages_module
from ggscope.gui import open_file
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.gui.messages import MAX_SHOWN, Action
from ggscope.session.settings import Settings
from messages import clear, newest_message, toast
from session_files import write_experiment
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"
LEFT = Qt.MouseButton.LeftButton
Opened = Callable[[Path], Document]


@pytest.fixture
def document(opened: Opened, window: MainWindow) -> Document:
    made = opened(SAMPLES / "llama-demo.ggmlviz")
    window.activateWindow()
    assert QTest.qWaitForWindowActive(window)
    return made


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let messages leave after a moment."""
    for name in ("LEAVES_MS", "LEAVES_WITH_ACTION_MS", "_AGAIN_MS"):
        monkeypatch.setattr(messages_module, name, 30)


def test_message_lies_over_the_page_and_moves_nothing(document: Document) -> None:
    timeline = document.workspace.views("timeline")[0]
    before = timeline.mapTo(document, timeline.rect().topLeft()), timeline.size()

    document.messages.say("Something was done.")
    document.messages.say("long " * 60, Action("Do it", list), level="caution")

    assert before == (
        timeline.mapTo(document, timeline.rect().topLeft()),
        timeline.size(),
    )
    first, second = document.messages.toasts
    assert first.geometry().bottom() < second.geometry().top()
    assert second.geometry().bottom() < document.status.y()
    assert document.rect().contains(first.geometry())
    high = second.text.heightForWidth(second.text.width())
    assert second.text.height() >= high, "all of it can be read"


def test_message_stays_in_its_corner_when_the_window_changes(
    window: MainWindow, document: Document
) -> None:
    document.messages.say("Something was done.")

    window.resize(900, 600)
    QApplication.processEvents()

    shown = toast(document)
    assert shown.geometry().right() < document.width()
    assert shown.geometry().bottom() < document.status.y()


def test_message_leaves_by_itself_but_not_under_the_mouse_or_the_focus(
    document: Document, soon: None, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    document.messages.say("Leaves.")
    document.messages.say("Stays.", stays=True)
    document.messages.say("Is read.", Action("Do it", list))
    held = toast(document)
    held.buttons[0].setFocus()

    qtbot.waitUntil(lambda: len(document.messages.toasts) == 2)
    QTest.qWait(120)
    assert [t.message.text for t in document.messages.toasts] == ["Stays.", "Is read."]
    document.focus_views()
    qtbot.waitUntil(lambda: newest_message(document) == "Stays.")


def test_message_waits_for_its_tab_to_be_seen(
    window: MainWindow, document: Document, opened: Opened, soon: None, qtbot: QtBot
) -> None:
    other = opened(SAMPLES / "llama.ggmlviz")

    document.messages.say("Saved in the other tab.")
    QTest.qWait(120)

    assert newest_message(other) == ""
    assert newest_message(document) == "Saved in the other tab."
    window.step_tab(1)
    assert window.document is document
    qtbot.waitUntil(lambda: newest_message(document) == "")


def test_newer_message_of_a_key_takes_the_place_of_the_older(
    document: Document,
) -> None:
    done: list[int] = []
    document.messages.say("First.", Action("Undo", lambda: done.append(1)), key="k")
    document.messages.say("Second.", Action("Undo", lambda: done.append(2)), key="k")
    assert [t.message.text for t in document.messages.toasts] == ["Second."]

    QTest.mouseClick(toast(document).buttons[0], LEFT)

    assert done == [2]
    assert document.messages.toasts == ()
    for number in range(MAX_SHOWN + 2):
        document.messages.say(f"Message {number}.")
    assert len(document.messages.toasts) == MAX_SHOWN
    assert newest_message(document) == f"Message {MAX_SHOWN + 1}."


def test_saved_file_can_be_opened_and_shown_in_its_folder(
    document: Document, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, qtbot: QtBot
) -> None:
    opened: list[str] = []

    def open_url(url: QUrl) -> bool:
        opened.append(url.toLocalFile())
        return len(opened) != 2

    monkeypatch.setattr(QDesktopServices, "openUrl", staticmethod(open_url))
    monkeypatch.setattr(open_file.shutil, "which", lambda _: None)
    path = tmp_path / "a picture.pdf"

    document.messages.say_saved(path)
    assert newest_message(document) == "Saved a picture.pdf."
    QTest.mouseClick(toast(document).buttons[0], LEFT)
    document.messages.say_saved(path)
    QTest.mouseClick(toast(document).buttons[0], LEFT)
    assert toast(document).message.level == "error"  # no program opens it
    clear(document)
    document.messages.say_saved(path)
    QTest.mouseClick(toast(document).buttons[1], LEFT)

    qtbot.waitUntil(lambda: len(opened) == 3)
    assert opened == [str(path), str(path), str(tmp_path)]


@pytest.mark.parametrize("answer", [0, 1])
def test_file_manager_is_asked_to_mark_the_file(
    qapp: QApplication, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, qtbot: QtBot,
    answer: int,
) -> None:  # fmt: skip
    arguments_file, opened = tmp_path / "asked", []
    tool = tmp_path / "dbus-send"
    tool.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > "{arguments_file}"\nexit {answer}\n'
    )
    tool.chmod(0o755)
    monkeypatch.setattr(open_file.shutil, "which", lambda _: str(tool))
    monkeypatch.setattr(open_file.sys, "platform", "linux")
    monkeypatch.setattr(open_file, "open_file", lambda path: opened.append(path))
    owner = QObject()

    open_file.show_in_folder(tmp_path / "ä, b.pdf", owner)

    qtbot.waitUntil(lambda: arguments_file.exists() and not owner.children())
    text = arguments_file.read_text().splitlines()
    assert text[-2:] == [
        f"array:string:file://{tmp_path}/%C3%A4%2C%20b.pdf",
        "string:",
    ]
    assert opened == ([tmp_path] if answer else [])


def test_related_files_are_offered_in_the_status_bar_for_good(
    opened: Opened, soon: None, qtbot: QtBot, window: MainWindow, tmp_path: Path
) -> None:
    folder = write_experiment(tmp_path / "run")
    window.activateWindow()
    QTest.qWaitForWindowActive(window)
    document = opened(folder / "traces" / "token-00000.json")
    timeline = document.workspace.views("timeline")[0]
    place = timeline.mapTo(document, timeline.rect().topLeft())
    related = document.status.related
    qtbot.waitUntil(related.isVisible)
    qtbot.waitUntil(
        lambda: newest_message(document, "offer") == ""
    )  # its message has left

    assert timeline.mapTo(document, timeline.rect().topLeft()) == place
    assert related.text() == "1 related file"
    assert "memory-map.json" in related.accessibleDescription()
    QTest.mouseClick(related, LEFT)
    qtbot.waitUntil(lambda: document.title.endswith("+1"))
    assert not related.isVisible()


def test_guess_is_reported_of_other_peoples_files_only_and_once(
    opened: Opened, window: MainWindow, settings: Settings, tmp_path: Path, soon: None,
    qtbot: QtBot,
) -> None:  # fmt: skip
    window.activateWindow()
    QTest.qWaitForWindowActive(window)
    sample = opened(SAMPLES / "tinyllama-256.bin")
    assert newest_message(sample, "guess") == ""
    copy = tmp_path / "run.bin"
    copy.write_bytes((SAMPLES / "tinyllama-256.bin").read_bytes())

    document = opened(copy)
    assert settings.files.trusted == () or newest_message(document, "guess") == ""
    qtbot.waitUntil(lambda: bool(settings.files.trusted))  # the settings have it

    assert newest_message(document, "guess") == ""


def test_messages_of_all_tabs_can_be_read_again(
    window: MainWindow, document: Document, opened: Opened
) -> None:
    window.close_document(document)
    window.report("Nothing can be read.")
    other = opened(SAMPLES / "llama.ggmlviz")
    other.messages.say("Saved x.csv.")
    other.session.status_message.emit("“a” renamed")
    clear(other)

    window.actions_["help.messages"].trigger()

    table = window.findChild(QTableWidget)
    assert table is not None
    rows = [
        [table.item(row, column).text() for column in (1, 2)]
        for row in range(table.rowCount())
    ]
    assert rows[:3] == [
        ["llama.ggmlviz", "“a” renamed"],
        ["llama.ggmlviz", "Saved x.csv."],
        ["", "Nothing can be read."],
    ]
