"""Flags with real keys and mouse: the expert cache profile in a file."""

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QFileDialog, QMessageBox
from pytestqt.qtbot import QtBot

from ggscope.analysis.flags import cache_profile
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.views.flags import FlagCard, FlagsView
from messages import clear, newest_message, toast
from support import ROOT, small_files
from touching import Hand, answer_file_dialog

EXPERIMENT = ROOT / "resources" / "samples" / "moe-experiment"
OLD = "an old file\n"
Opened = Callable[[Path], Document]


def profile_card(hand: Hand, document: Document, qtbot: QtBot) -> FlagCard:
    """Return the card of the profile, in the pane that the palette opens."""
    hand.press("ctrl+shift+p")
    hand.type("analyse flags")
    hand.press("Return")
    qtbot.waitUntil(lambda: bool(document.workspace.views("flags")))
    (view,) = document.workspace.views("flags")
    assert isinstance(view, FlagsView)
    card = view.cards["moe_cache_profile"]
    qtbot.waitUntil(card.save_button.isVisible)
    hand.settle()
    return card


def expected(document: Document) -> bytes:
    """Return what the file must hold."""
    trace = document.session.trace
    assert trace is not None
    profile = cache_profile(trace)
    lines = b"".join(profile.lines())
    assert lines
    return lines


def test_profile_is_saved_and_named_in_the_flag(
    window: MainWindow,
    opened: Opened,
    hand: Hand,
    qtbot: QtBot,
    tmp_path: Path,
) -> None:
    document = opened(EXPERIMENT)
    card = profile_card(hand, document, qtbot)
    target = tmp_path / "a b" / "hot.csv"
    target.parent.mkdir()

    answer_file_dialog(hand, target, qtbot)
    hand.click(card.save_button)
    qtbot.waitUntil(lambda: "hot.csv" in newest_message(document))
    hand.click(card.copy_button)

    assert target.read_bytes() == expected(document)
    pasted = shlex.split(QGuiApplication.clipboard().text())
    assert pasted == ["--moe-cache-profile", str(target)]
    view = document.workspace.views("flags")[0]
    assert isinstance(view, FlagsView)
    assert view.result is not None
    assert view.result.profile is not None
    assert f"{view.result.profile.hits} choices" in newest_message(document)


@pytest.mark.parametrize("size", [(900, 600)], ids=["900x600"], indirect=True)
def test_name_without_suffix_replaces_a_file_only_after_a_question(
    window: MainWindow,
    opened: Opened,
    hand: Hand,
    qtbot: QtBot,
    tmp_path: Path,
) -> None:
    document = opened(EXPERIMENT)
    card = profile_card(hand, document, qtbot)
    target = tmp_path / "hot.csv"
    target.write_text(OLD)

    questions: list[str] = []

    def refuse() -> None:
        box = QApplication.activeModalWidget()
        if isinstance(box, QMessageBox) and box.isActiveWindow():
            questions.append(box.text())
            hand.press("Escape")
        else:
            QTimer.singleShot(10, refuse)

    answer_file_dialog(hand, tmp_path / "hot", qtbot)
    QTimer.singleShot(10, refuse)
    hand.click(card.save_button)

    (question,) = questions
    assert target.name in question
    assert target.read_text() == OLD
    assert not newest_message(document)
    assert card.argument.full_text.endswith("FILE.csv")


@pytest.mark.parametrize("size", [(900, 600)], ids=["900x600"], indirect=True)
def test_failed_write_says_why_and_keeps_the_old_file(
    window: MainWindow,
    opened: Opened,
    hand: Hand,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = opened(EXPERIMENT)
    card = profile_card(hand, document, qtbot)
    target = tmp_path / "hot.csv"
    target.write_text(OLD)
    # The question whether to replace it is Qt's.
    answer = lambda *_: (str(target), "")  # noqa: E731 - in the place of a dialog
    monkeypatch.setattr(QFileDialog, "getSaveFileName", answer)

    with small_files(16):
        hand.click(card.save_button)
        qtbot.waitUntil(lambda: "hot.csv" in newest_message(document))

    assert "size limit" in newest_message(document)
    assert toast(document).message.level == "error"
    assert [p.name for p in tmp_path.iterdir()] == ["hot.csv"]
    assert target.read_text() == OLD
    assert card.argument.full_text.endswith("FILE.csv")
    clear(document)


@pytest.mark.parametrize("size", [(900, 600)], ids=["900x600"], indirect=True)
def test_file_that_is_open_is_never_replaced(
    window: MainWindow,
    opened: Opened,
    hand: Hand,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "experiment"
    shutil.copytree(EXPERIMENT, folder)
    document = opened(folder)
    card = profile_card(hand, document, qtbot)
    # Another name of a part, in the form that the dialog insists on.
    part = folder / "memory-map.json"
    before = part.read_bytes()
    alias = tmp_path / "hot.csv"
    alias.symlink_to(part)
    answer = lambda *_: (str(alias), "")  # noqa: E731 - in the place of a dialog
    monkeypatch.setattr(QFileDialog, "getSaveFileName", answer)

    hand.click(card.save_button)
    qtbot.waitUntil(lambda: bool(newest_message(document)))

    assert alias.name in newest_message(document)
    assert toast(document).message.level == "error"
    assert part.read_bytes() == before
    assert card.argument.full_text.endswith("FILE.csv")
