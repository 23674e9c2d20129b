"""The settings dialog and other dialogs, by real clicks."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QDialog,
    QListWidget,
    QTextBrowser,
)
from pytestqt.qtbot import QtBot

from builders import llama_like_trace
from ggscope.gui.dialogs import dialogs
from ggscope.gui.dialogs.dialogs import SettingsDialog
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.session.settings import FONT_SCALES, Appearance, Settings
from ggscope.session.settings_store import MemoryStore
from support import ROOT


def choose(combo: QComboBox, row: int) -> None:
    """Pick a row as the keyboard does."""
    combo.setFocus()
    QTest.keyClick(combo, Qt.Key.Key_Home)
    for _ in range(row):
        QTest.keyClick(combo, Qt.Key.Key_Down)


@pytest.fixture
def dialog(qtbot: QtBot, settings: Settings) -> SettingsDialog:
    made = SettingsDialog(settings)
    made.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(made)
    made.show()
    return made


def test_every_choice_acts_at_once(
    dialog: SettingsDialog, settings: Settings, qtbot: QtBot
) -> None:
    choose(dialog.theme, 2)
    choose(dialog.font_size, 4)
    choose(dialog.renderer, 1)
    choose(dialog.wheel, 1)

    qtbot.waitUntil(lambda: settings.appearance.font_scale == 125)
    assert settings.appearance == Appearance(theme="light", font_scale=125)
    assert settings.drawing.renderer == "raster"
    assert settings.drawing.wheel == "zoom"


def test_sizes_that_are_passed_over_are_not_applied(
    dialog: SettingsDialog, settings: Settings
) -> None:
    applied: list[int] = []
    settings.changed.connect(lambda _: applied.append(settings.appearance.font_scale))
    for size in range(len(FONT_SCALES)):
        dialog.font_size.setCurrentIndex(size)
        dialog.font_size.activated.emit(size)

    dialog.close()

    assert applied == [FONT_SCALES[-1]]


def test_plugin_folder_is_off_until_ticked(
    dialog: SettingsDialog, settings: Settings
) -> None:
    QTest.keyClicks(dialog.folder, "/some/folder")
    QTest.keyClick(dialog.folder, Qt.Key.Key_Return)
    assert not settings.plugins.is_enabled

    dialog.plugins.setFocus()
    QTest.keyClick(dialog.plugins, Qt.Key.Key_Space)

    assert settings.plugins.is_enabled
    assert settings.plugins.folder == "/some/folder"


def test_controls_have_names(dialog: SettingsDialog) -> None:
    for combo in dialog.findChildren(QComboBox):
        assert combo.accessibleName()


def test_ignored_values_are_shown(qtbot: QtBot) -> None:
    settings = Settings(MemoryStore({"appearance/theme": '"pink"'}))
    dialog = SettingsDialog(settings)
    qtbot.addWidget(dialog)

    assert any("pink" in w.text() for w in dialog.findChildren(type(_a_label(dialog))))


def _a_label(dialog: SettingsDialog):
    from PySide6.QtWidgets import QLabel

    return dialog.findChild(QLabel)


def test_ctrl_comma_opens_the_dialog(window: MainWindow) -> None:
    QTest.keyClick(window, Qt.Key.Key_Comma, Qt.KeyboardModifier.ControlModifier)

    shown = [w for w in QApplication.topLevelWidgets() if isinstance(w, SettingsDialog)]
    assert any(w.isVisible() for w in shown)
    for widget in shown:
        widget.close()


def answer(row: int, *, accept: bool = True) -> None:
    """Pick a row of the list dialog that is about to open."""

    def act() -> None:
        dialog = QApplication.activeModalWidget()
        assert isinstance(dialog, QDialog)
        dialog.findChild(QListWidget).setCurrentRow(row)
        dialog.accept() if accept else dialog.reject()

    QTimer.singleShot(0, act)


def test_op_table_choice_returns_an_id(qtbot: QtBot) -> None:
    trace = llama_like_trace(tokens=1, layers=1)

    answer(0)
    assert dialogs.choose_ops(trace, None) == dialogs.AUTO_OPS
    answer(1)
    chosen = dialogs.choose_ops(trace, None)
    assert chosen is not None
    assert chosen.startswith("ggml")
    answer(1, accept=False)
    assert dialogs.choose_ops(trace, None) is None


def test_readers_dialog_lists_what_the_registry_knows(qtbot: QtBot) -> None:
    dialog = dialogs.readers_dialog(None)
    qtbot.addWidget(dialog)
    from PySide6.QtWidgets import QTableWidget

    table = dialog.findChild(QTableWidget)
    shown = {table.item(row, 0).text() for row in range(table.rowCount())}

    assert {"ggmlviz", "npu-json"} <= shown


def test_texts_exist() -> None:
    names = {name for name, _, _ in dialogs.third_parties()}

    assert "numpy" in names
    assert all(licence for _, _, licence in dialogs.third_parties())
    assert "Qt" in dialogs.system_report()
    assert dialogs.guide_text().startswith("#")


def test_about_lists_the_parts_of_a_bundle_with_versions_and_licences(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "licenses"
    folder.mkdir()
    components = [
        {"name": "ICU", "version": "73.2", "licenses": [{"expression": "Unicode-3.0"}]},
        {"name": "zlib", "licenses": [{"expression": "Zlib"}]},
    ]
    (folder / "bom.cdx.json").write_text(json.dumps({"components": components}))
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path), raising=False)

    dialog = dialogs.about_dialog(None)
    qtbot.addWidget(dialog)

    assert dialogs.third_parties() == [
        ("ICU", "73.2", "Unicode-3.0"), ("zlib", "", "Zlib"),
    ]  # fmt: skip
    text = dialog.findChild(QTextBrowser).toPlainText()
    assert "Unicode-3.0" in text
    assert str(folder) in text


@pytest.mark.parametrize(
    "command",
    ["edit.settings", "help.keys", "help.readers", "help.guide", "help.about",
     "file.record", "file.parts"],
)  # fmt: skip
def test_dialog_that_is_open_comes_to_the_front_instead_of_a_second(
    window: MainWindow,
    qtbot: QtBot,
    opened: Callable[[Path], Document],
    command: str,
) -> None:
    opened(ROOT / "resources" / "samples" / "llama.ggmlviz")
    assert window.dialogs  # what makes them is made with the first
    before = len(window.findChildren(QObject))

    for _ in range(20):
        window.actions_[command].trigger()

    (dialog,) = (d for d in window.findChildren(QDialog) if d.isVisible())
    qtbot.waitUntil(dialog.isActiveWindow)
    with qtbot.waitSignal(dialog.destroyed):
        dialog.close()
    qtbot.waitUntil(lambda: len(window.findChildren(QObject)) <= before)


def test_help_dialogs_open_and_close(window: MainWindow, qtbot: QtBot) -> None:
    dialogs = window.dialogs
    for show in (dialogs.show_about, dialogs.show_guide, dialogs.show_readers,
                 window.show_keys):  # fmt: skip
        show()
    shown = [
        w
        for w in QApplication.topLevelWidgets()
        if isinstance(w, QDialog) and w.isVisible()
    ]

    assert len(shown) == 4
    for dialog in shown:
        dialog.activateWindow()
        qtbot.waitUntil(dialog.isActiveWindow)
        with qtbot.waitSignal(dialog.finished):
            QTest.keyClick(dialog, Qt.Key.Key_Escape)
