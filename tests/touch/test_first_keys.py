"""After whatever a person does to open a file, the keys go to its view."""

import shutil
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QDrag, QMouseEvent
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QPushButton,
    QTabBar,
    QWidget,
)
from pytestqt.qtbot import QtBot

from ggscope.gui.dialogs.filters import FilterPopup
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.session.loader import LoadState
from ggscope.session.settings import Settings
from messages import newest_message, toast
from pages import tab_row
from support import ROOT
from touching import PATIENCE_MS, Hand, answer_file_dialog, focused

SAMPLES = ROOT / "resources" / "samples"
LLAMA = SAMPLES / "llama.ggmlviz"
DEMO = SAMPLES / "llama-demo.ggmlviz"
TINY = SAMPLES / "tinyllama-256.bin"
FOLDER = SAMPLES / "moe-experiment"

Wait = Callable[[MainWindow], Document]


def assert_keys_reach_the_view(window: MainWindow, hand: Hand, qtbot: QtBot) -> None:
    """Press W: the view zooms, and nothing is typed anywhere."""
    document = window.document
    assert document is not None
    session, whole = document.session, document.session.viewport.visible

    hand.press("w")
    qtbot.waitUntil(lambda: session.viewport.visible.duration < whole.duration)

    assert document.toolbar.search.edit.text() == ""
    assert document.workspace.isAncestorOf(focused())
    hand.press("0")
    qtbot.waitUntil(lambda: session.viewport.visible == whole)


class Source(QWidget):
    """A window that files can be dragged out of."""

    def __init__(self, path: Path) -> None:
        super().__init__(None, Qt.WindowType.X11BypassWindowManagerHint)
        self._path = path

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        drag = QDrag(self)
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(self._path))])
        drag.setMimeData(data)
        drag.exec(Qt.DropAction.CopyAction)


def test_after_every_way_of_opening(
    window: MainWindow, hand: Hand, qtbot: QtBot, wait_read: Wait
) -> None:
    rows = {row.path.name: row for row in window.start_page.sample_rows}
    hand.click(rows[LLAMA.name], QPoint(30, 12))
    wait_read(window)
    assert_keys_reach_the_view(window, hand, qtbot)

    answer_file_dialog(hand, DEMO, qtbot)
    hand.press("ctrl+o")
    qtbot.waitUntil(lambda: window.n_documents == 2)
    wait_read(window)
    assert_keys_reach_the_view(window, hand, qtbot)

    answer_file_dialog(hand, FOLDER, qtbot)
    hand.press("ctrl+shift+o")
    qtbot.waitUntil(lambda: window.n_documents == 3)
    wait_read(window)
    assert_keys_reach_the_view(window, hand, qtbot)

    source = Source(TINY)
    qtbot.addWidget(source)
    source.setGeometry(window.width() + 30, 60, 60, 60)
    source.show()
    qtbot.waitExposed(source)
    hand.carry(source, QPoint(20, 20), QPoint(-120, 60))
    qtbot.waitUntil(lambda: window.n_documents == 4, timeout=PATIENCE_MS)
    source.close()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow, timeout=PATIENCE_MS)
    wait_read(window)
    assert_keys_reach_the_view(window, hand, qtbot)

    hand.press("ctrl+w")  # the tab beside it comes to the front
    assert window.n_documents == 3
    assert_keys_reach_the_view(window, hand, qtbot)
    hand.press("ctrl+Tab")
    assert_keys_reach_the_view(window, hand, qtbot)


def text_of(document: Document) -> str:
    return newest_message(document)


def test_after_recent_files_reload_and_adding(
    window: MainWindow,
    hand: Hand,
    qtbot: QtBot,
    wait_read: Wait,
    opened: Callable[[Path], Document],
    tmp_path: Path,
) -> None:
    path = shutil.copy(DEMO, tmp_path / "run.ggmlviz")
    side = shutil.copy(FOLDER / "buffer-timeline.json", tmp_path / "side.json")
    opened(path)
    hand.press("ctrl+w")
    qtbot.waitUntil(window.start_page.isVisible)
    hand.click(window.start_page.recent_rows[0], QPoint(30, 12))
    wait_read(window)
    assert_keys_reach_the_view(window, hand, qtbot)

    document = window.document
    assert document is not None
    hand.press("F5")
    qtbot.waitUntil(lambda: document.loader.state is LoadState.READY)
    assert_keys_reach_the_view(window, hand, qtbot)

    document.loader.file_changed.emit(True)
    qtbot.waitUntil(lambda: toast(document).buttons[0].isVisible())
    Hand.settle()  # the message has its place only when it is laid out
    hand.click(toast(document).buttons[0])  # Reload, in a message that goes
    # What lies beside the trace may be offered as soon as it is read again.
    qtbot.waitUntil(lambda: "changed" not in text_of(document))
    wait_read(window)
    assert_keys_reach_the_view(window, hand, qtbot)

    answer_file_dialog(hand, side, qtbot)
    hand.press("ctrl+shift+p")
    hand.type("add to session")
    hand.press("Return")
    qtbot.waitUntil(lambda: bool(document.loader.more), timeout=PATIENCE_MS)
    wait_read(window)
    assert_keys_reach_the_view(window, hand, qtbot)


def test_after_pages_that_stand_in_for_the_view(
    window: MainWindow,
    hand: Hand,
    qtbot: QtBot,
    wait_read: Wait,
    settings: Settings,
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.ggmlviz"
    path.write_bytes(b"no trace at all")
    window.open_path(path)
    document = wait_read(window)
    assert document.loader.state is LoadState.FAILED
    assert focused() is document.problem_page.reload_button
    shutil.copy(DEMO, path)
    hand.press("space")
    qtbot.waitUntil(lambda: document.loader.state is LoadState.READY)
    wait_read(window)
    assert_keys_reach_the_view(window, hand, qtbot)

    settings.change("memory", limit_mib=1)
    window.open_path(LLAMA)
    document = window.document
    assert document is not None
    qtbot.waitUntil(lambda: document.loader.state is LoadState.TOO_LARGE)
    page = document.too_large_page
    assert page.isAncestorOf(focused())
    hand.click(page.all_button)
    wait_read(window)
    assert_keys_reach_the_view(window, hand, qtbot)


def test_after_dialogs_popups_and_the_palette(
    window: MainWindow,
    hand: Hand,
    qtbot: QtBot,
    opened: Callable[[Path], Document],
) -> None:
    document = opened(LLAMA)

    hand.press("ctrl+shift+p", "Escape")
    assert_keys_reach_the_view(window, hand, qtbot)

    hand.click(document.toolbar.add_filter)
    popup = QApplication.activePopupWidget()
    assert isinstance(popup, FilterPopup)
    hand.press("Escape")
    qtbot.waitUntil(lambda: QApplication.activePopupWidget() is None)
    assert_keys_reach_the_view(window, hand, qtbot)

    for key in ("question", "ctrl+comma"):
        hand.press(key)
        qtbot.waitUntil(lambda: isinstance(QApplication.activeWindow(), QDialog))
        hand.press("Escape")
        qtbot.waitUntil(window.isActiveWindow)
        assert_keys_reach_the_view(window, hand, qtbot)

    hand.press("ctrl+f")  # the person's own choice stays
    assert focused() is document.toolbar.search.edit
    hand.type("w")
    assert document.toolbar.search.edit.text() == "w"
    hand.press("Escape")
    assert_keys_reach_the_view(window, hand, qtbot)


def test_after_the_command_line_and_closing_a_tab_by_its_cross(
    make_window: Callable[..., MainWindow],
    settings: Settings,
    size: tuple[int, int],
    hand: Hand,
    qtbot: QtBot,
    wait_read: Wait,
) -> None:
    window = make_window(settings, size)
    window.open_soon([LLAMA, DEMO], None)
    qtbot.waitUntil(lambda: window.n_documents == 2)
    wait_read(window)
    assert_keys_reach_the_view(window, hand, qtbot)

    bar = tab_row(window).bar
    close = bar.tabButton(1, QTabBar.ButtonPosition.RightSide)
    assert close is not None
    hand.click(close)
    qtbot.waitUntil(lambda: window.n_documents == 1)
    wait_read(window)
    assert_keys_reach_the_view(window, hand, qtbot)

    hand.press("ctrl+w")
    qtbot.waitUntil(window.start_page.isVisible)
    assert isinstance(focused(), QPushButton)
