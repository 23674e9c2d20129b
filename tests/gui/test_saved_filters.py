"""Filters with names: saved, listed, applied and forgotten."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

import ggmlviz_files
from ggscope.gui.dialogs.dialogs import NameDialog
from ggscope.gui.dialogs.filters import FilterPopup, apply_saved
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.model.selection import Filter
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from ggscope.session.settings_store import MemoryStore
from pages import saved_filters

LEFT = Qt.MouseButton.LeftButton
MATMUL = Filter(families=frozenset({"matmul"}))


@pytest.fixture
def popup(qtbot: QtBot, session: Session, settings: Settings) -> FilterPopup:
    made = FilterPopup(session, None, settings)
    qtbot.addWidget(made)
    made.show()
    qtbot.waitUntil(lambda: session.tasks.is_idle)
    return made


def test_present_filter_is_saved_under_its_name(
    popup: FilterPopup, session: Session, settings: Settings
) -> None:
    session.queries.set_filter(MATMUL)
    assert popup.saved is not None

    QTest.keyClicks(popup.saved.name, "  big  ones ")
    QTest.mouseClick(popup.saved.save, LEFT)

    assert settings.saved_filters() == (("big ones", "family=matmul"),)
    assert len(popup.saved.rows) == 1


def test_nothing_can_be_saved_without_a_filter(
    popup: FilterPopup, settings: Settings
) -> None:
    assert popup.saved is not None

    assert not popup.saved.save.isEnabled()
    assert not popup.saved.name.isEnabled()


def test_saved_filter_is_applied_and_forgotten_in_the_popup(
    qtbot: QtBot, session: Session, settings: Settings
) -> None:
    settings.save_filter("a", "layer=1")
    settings.save_filter("b", "family=matmul")
    popup = FilterPopup(session, None, settings)
    popup.show()
    assert popup.saved is not None
    first, second = popup.saved.rows

    forget = first.findChild(QWidget, "forget")
    QTest.mouseClick(forget, LEFT)
    assert settings.saved_filters() == (("b", "family=matmul"),)

    apply = popup.saved.rows[0].findChild(QWidget, "apply")
    assert second is not popup.saved.rows[0]
    QTest.mouseClick(apply, LEFT)
    assert session.queries.filter == MATMUL
    qtbot.waitUntil(lambda: session.tasks.is_idle)


def test_applying_the_present_filter_ends_it(
    session: Session, settings: Settings
) -> None:
    settings.save_filter("b", "family=matmul")

    apply_saved(settings, session, "b")
    assert session.queries.filter == MATMUL
    apply_saved(settings, session, "b")
    assert session.queries.filter == Filter()


def test_broken_saved_filter_is_reported(session: Session, settings: Settings) -> None:
    settings.save_filter("x", "colour=red")
    messages: list[str] = []
    session.problem_reported.connect(messages.append)

    apply_saved(settings, session, "x")

    assert session.queries.filter == Filter()
    assert len(messages) == 1
    assert messages[0].startswith("x: ")


def test_saved_filters_last_and_keep_their_number_bounded() -> None:
    store = MemoryStore()
    settings = Settings(store)
    for number in range(70):
        settings.save_filter(f"filter {number:02d}", f"layer={number}")

    again = Settings(store)

    assert len(again.saved_filters()) == 60
    assert again.saved_filters()[-1] == ("filter 69", "layer=69")
    assert again.problems == []


def test_menu_saves_lists_and_applies(
    window: MainWindow,
    opened: Callable[[Path], Document],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = opened(ggmlviz_files.write(tmp_path / "a.ggmlviz", ggmlviz_files.run()))
    document.session.queries.set_filter(MATMUL)

    window.actions_["analyse.save_filter"].trigger()
    (dialog,) = window.findChildren(NameDialog)
    QTest.keyClicks(dialog.name, "mine")
    QTest.keyClick(dialog.name, Qt.Key.Key_Return)
    document.session.queries.set_filter(Filter())
    menu = saved_filters(window)
    menu.aboutToShow.emit()
    menu.actions()[0].trigger()

    assert [action.text() for action in menu.actions()] == ["mine"]
    assert document.session.queries.filter == MATMUL
