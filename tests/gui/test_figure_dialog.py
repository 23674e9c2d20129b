"""The figure studio: the preview is the file, and so is the command line."""

import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from ggscope.gui.dialogs import figure as figure_module
from ggscope.gui.dialogs.figure import FigureDialog
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.render.export import Figure
from ggscope.render.figure_style import PRESETS
from messages import clear, newest_message
from pages import is_settled
from statements import new_statement, new_statements

Opened = Callable[[Path], Document]
SAMPLE = Path(__file__).parents[2] / "resources" / "samples" / "tinyllama-256.bin"


@pytest.fixture
def studio(window: MainWindow, opened: Opened, qtbot: QtBot) -> Iterator[FigureDialog]:
    """Return the dialog on a sample, with its preview drawn."""
    opened(SAMPLE)
    window.actions_["file.export"].trigger()
    (dialog,) = window.findChildren(FigureDialog)
    settled(dialog, qtbot)
    yield dialog
    if shiboken6.isValid(dialog):
        dialog.close()


def settled(dialog: FigureDialog, qtbot: QtBot) -> None:
    """Wait until what is chosen is drawn, or refused."""
    qtbot.waitUntil(lambda: is_settled(dialog), timeout=20_000)


def choose(box, value: object) -> None:
    box.setCurrentIndex(box.findData(value))


def asked_for(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))


def test_preview_file_and_command_line_have_the_same_pixels(
    studio: FigureDialog, window, qtbot, tmp_path, monkeypatch
) -> None:
    choose(studio.preset, "single")
    settled(studio, qtbot)
    path = tmp_path / "out.png"
    asked_for(monkeypatch, path)

    QTest.mouseClick(studio.export, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(path.exists)

    assert studio.preview is not None
    written = QImage(str(path))
    assert (written.width(), written.height()) == (
        studio.preview.width,
        studio.preview.height,
    )
    form = QImage.Format.Format_RGB32
    assert studio.preview.image.convertToFormat(form) == written.convertToFormat(form)
    arguments = shlex.split(studio.command.toPlainText())
    again = tmp_path / "again.png"
    arguments[arguments.index("-o") + 1] = str(again)
    subprocess.run([sys.executable, "-m", *arguments], check=True, capture_output=True)
    assert QImage(str(again)) == written


@pytest.mark.parametrize("name", PRESETS)
def test_preset_says_what_the_figure_will_measure(
    studio: FigureDialog, qtbot: QtBot, name: str
) -> None:
    choose(studio.preset, name)
    settled(studio, qtbot)

    style = PRESETS[name]
    assert studio.preview is not None
    assert studio.preview.width == style.pixels(style.width)
    assert f"{studio.preview.width:,} × {studio.preview.height:,} pixels" in (
        studio.size_text.text()
    )
    assert studio.figure_style().font == style.font


def test_height_that_is_not_known_yet_is_no_number(
    window: MainWindow, opened: Opened, qtbot: QtBot
) -> None:
    opened(SAMPLE)
    window.actions_["file.export"].trigger()
    (dialog,) = window.findChildren(FigureDialog)
    assert dialog.fits.isChecked()
    assert dialog.height_box.text() == "…"
    settled(dialog, qtbot)
    assert dialog.height_box.text() not in ("…", "")
    dialog.close()


def test_unit_changes_no_pixel(studio: FigureDialog, qtbot: QtBot) -> None:
    assert studio.preview is not None
    before = studio.preview.width, studio.preview.height

    for unit in ("in", "px", "mm"):
        choose(studio.unit, unit)
        settled(studio, qtbot)
        width, height = studio.preview.width, studio.preview.height
        assert abs(width - before[0]) <= 1
        assert abs(height - before[1]) <= 1


def test_height_is_asked_for_only_where_it_does_not_follow(
    studio: FigureDialog, qtbot: QtBot
) -> None:
    assert not studio.height_box.isEnabled()

    QTest.keyClick(studio.fits, Qt.Key.Key_Space)
    studio.height_box.setValue(40)
    settled(studio, qtbot)

    assert studio.height_box.isEnabled()
    assert studio.preview is not None
    per_mm = studio.dpi.value() / 25.4
    assert studio.preview.height == pytest.approx(40 * per_mm, abs=1)


def test_title_legend_and_paper_are_as_chosen(
    studio: FigureDialog, qtbot: QtBot
) -> None:
    assert studio.preview is not None
    before = studio.preview

    QTest.keyClicks(studio.title, "Mine <b>")
    QTest.keyClick(studio.legend, Qt.Key.Key_Space)
    QTest.keyClick(studio.transparent, Qt.Key.Key_Space)
    settled(studio, qtbot)

    assert studio.preview.height < before.height
    assert studio.preview.caption.startswith("Mine <b>.")
    assert studio.preview.image.pixelColor(0, 0).alpha() == 0
    assert "--no-legend" in studio.command.toPlainText()
    assert "--transparent" in studio.command.toPlainText()


def test_copies_go_to_the_clipboard(studio: FigureDialog, qtbot: QtBot) -> None:
    clipboard = QGuiApplication.clipboard()

    QTest.mouseClick(studio.copy_caption, Qt.MouseButton.LeftButton)
    assert clipboard.text() == studio.caption.toPlainText()
    QTest.mouseClick(studio.copy_command, Qt.MouseButton.LeftButton)
    assert clipboard.text() == studio.command.toPlainText()
    before = studio.problem.text()
    QTest.mouseClick(studio.copy, Qt.MouseButton.LeftButton)
    settled(studio, qtbot)

    assert studio.preview is not None
    assert clipboard.image().width() == studio.preview.width
    assert new_statement(studio.problem.text(), before)


def test_what_cannot_be_drawn_or_written_is_reported_in_the_dialog(
    studio: FigureDialog, window, qtbot, tmp_path, monkeypatch
) -> None:
    before = studio.problem.text()
    asked_for(monkeypatch, tmp_path / "missing" / "a.png")
    QTest.mouseClick(studio.export, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bool(studio.problem.text()))
    failed = studio.problem.text()

    asked_for(monkeypatch, tmp_path / "a.png")
    QTest.mouseClick(studio.export, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: studio.problem.text().startswith("Saved"))
    written = studio.problem.text()

    studio.dpi.setValue(2400)
    studio.width_box.setValue(90_000)
    settled(studio, qtbot)

    assert "no such folder" in failed
    assert written == f"Saved {tmp_path / 'a.png'}"
    assert "written." not in before + failed
    assert "too large" in studio.pane.message
    assert not studio.export.isEnabled()
    assert not studio.caption.toPlainText()


def test_preview_that_takes_long_can_be_stopped(
    studio: FigureDialog, qtbot: QtBot, monkeypatch
) -> None:
    import threading

    gate = threading.Event()
    draw = figure_module.PreviewRequest.__call__

    def late(request, context):
        gate.wait(10)
        return draw(request, context)

    monkeypatch.setattr(figure_module.PreviewRequest, "__call__", late)
    idle = studio.size_text.text() + studio.pane.message
    choose(studio.preset, "single")
    qtbot.waitUntil(studio.stop.isVisible)
    busy = studio.size_text.text()
    QTest.mouseClick(studio.stop, Qt.MouseButton.LeftButton)
    stopped = studio.pane.message
    gate.set()
    settled(studio, qtbot)

    assert new_statement(busy, idle)
    assert new_statements(stopped, idle + busy)
    assert not studio.export.isEnabled()
    choose(studio.preset, "double")
    settled(studio, qtbot)
    assert studio.export.isEnabled()


def test_last_choices_are_there_again(
    studio: FigureDialog, window, qtbot, settings
) -> None:
    choose(studio.preset, "slide")
    choose(studio.theme, "dark")
    choose(studio.kind, "clean")
    QTest.keyClick(studio.legend, Qt.Key.Key_Space)
    settled(studio, qtbot)
    studio.close()

    window.actions_["file.export"].trigger()
    dialog = next(d for d in window.findChildren(FigureDialog) if d.isVisible())

    style = dialog.figure_style()
    assert (style.preset, style.theme, style.seen, style.legend) == (
        "slide",
        "dark",
        False,
        False,
    )
    dialog.close()


def test_last_export_is_repeated_without_asking(
    studio: FigureDialog, window, qtbot, tmp_path, monkeypatch
) -> None:
    path = tmp_path / "a.png"
    asked_for(monkeypatch, path)
    choose(studio.preset, "single")
    QTest.mouseClick(studio.export, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(path.exists)
    size = QImage(str(path)).size()
    path.unlink()
    studio.close()
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: ("", ""))

    window.actions_["file.export_again"].trigger()
    qtbot.waitUntil(path.exists)

    assert QImage(str(path)).size() == size


def test_view_without_a_picture_says_so(
    window: MainWindow, opened: Opened, qtbot: QtBot, settings
) -> None:
    document = opened(SAMPLE)
    figures: list[Figure | None] = [None]
    dialog = FigureDialog({"Nothing": lambda: figures[0]}, "Nothing", settings, window)
    qtbot.addWidget(dialog)
    dialog.show()
    settled(dialog, qtbot)
    nothing = dialog.pane.message
    figures[0] = document.workspace.views("timeline")[0].figure()

    dialog.refresh()
    settled(dialog, qtbot)

    assert new_statement(nothing, dialog.pane.message)
    assert dialog.preview is not None


def test_repeated_export_of_a_view_that_shows_nothing_says_so(
    studio: FigureDialog, window, qtbot, tmp_path, monkeypatch
) -> None:
    path = tmp_path / "a.png"
    asked_for(monkeypatch, path)
    QTest.mouseClick(studio.export, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(path.exists)
    studio.close()
    clear(window)

    window.actions_["file.export_again"].trigger()
    qtbot.waitUntil(lambda: bool(newest_message(window)), timeout=20_000)
    drawn = newest_message(window)
    monkeypatch.setattr(window.dialogs, "_figure_of", lambda *_: None)
    window.actions_["file.export_again"].trigger()

    assert new_statement(newest_message(window), drawn)


@pytest.mark.parametrize("view", ["hot_cold", "statistics"])
def test_studio_begins_with_the_view_used_last_and_repeats_its_export(
    window: MainWindow, opened: Opened, qtbot: QtBot, tmp_path, monkeypatch, view
) -> None:
    document = opened(SAMPLE)
    document.workspace.show_view(view)
    host = document.workspace.drawer.front
    assert host.entry.id == view
    qtbot.waitUntil(lambda: host.view is not None and host.view.figure() is not None)
    host.setFocus()

    window.actions_["file.export"].trigger()
    (dialog,) = window.findChildren(FigureDialog)
    settled(dialog, qtbot)
    chosen = dialog.view.currentData()
    path = tmp_path / "out.png"
    asked_for(monkeypatch, path)
    QTest.mouseClick(dialog.export, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(path.exists)
    first = QImage(str(path))
    path.unlink()
    dialog.close()
    window.dialogs.repeat_export()
    qtbot.waitUntil(path.exists)

    assert chosen == host.entry.title
    assert QImage(str(path)) == first


def test_button_of_the_toolbar_begins_with_the_view_used_last(
    window: MainWindow, opened: Opened, qtbot: QtBot
) -> None:
    document = opened(SAMPLE)

    QTest.mouseClick(document.toolbar.export_button, Qt.MouseButton.LeftButton)

    (dialog,) = window.findChildren(FigureDialog)
    settled(dialog, qtbot)
    assert dialog.preview is not None
    dialog.close()


@pytest.mark.parametrize("folder", [".", "missing"])
def test_dialog_may_be_closed_before_its_file_is_there(
    studio: FigureDialog, window, qtbot, tmp_path, monkeypatch, folder
) -> None:
    path = tmp_path / folder / "late.png"
    asked_for(monkeypatch, path)
    clear(window)
    may_write, write = threading.Event(), Figure.write

    def slowly(*arguments, **named) -> str:
        may_write.wait(20)
        return write(*arguments, **named)

    monkeypatch.setattr(Figure, "write", slowly)

    QTest.mouseClick(studio.export, Qt.MouseButton.LeftButton)
    studio.close()
    qtbot.waitUntil(lambda: not shiboken6.isValid(studio))
    may_write.set()
    qtbot.waitUntil(lambda: bool(newest_message(window)), timeout=20_000)

    assert path.exists() == (folder == ".")
    assert path.name in newest_message(window) or "no such folder" in (
        newest_message(window)
    )
