"""The start page: recent files, samples, opening by hand."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QScrollArea
from pytestqt.qtbot import QtBot

from ggscope.gui.dialogs.window_dialogs import name_filters
from ggscope.gui.main_window import MainWindow
from ggscope.gui.pages import start
from ggscope.gui.pages.start import FileRow, StartPage, samples
from ggscope.live.options import OPTIONS
from ggscope.session.loader import LoadState
from ggscope.session.settings import RECENT_SEPARATOR, Settings
from statements import new_statement


@pytest.fixture
def page(qtbot: QtBot, settings: Settings) -> StartPage:
    made = StartPage(settings)
    qtbot.addWidget(made)
    made.resize(1000, 700)
    made.show()
    return made


def test_recent_files_are_listed_and_missing_ones_dimmed(
    page: StartPage, settings: Settings, tmp_path: Path
) -> None:
    there = tmp_path / "there.bin"
    there.write_bytes(b"1")
    settings.add_recent(tmp_path / "gone.bin")
    settings.add_recent(there)

    assert [row.path.name for row in page.recent_rows] == ["there.bin", "gone.bin"]
    assert page.recent_rows[0].isEnabled()
    assert page.recent_rows[1].is_missing
    assert not page.recent_rows[1].isEnabled()
    here, gone = (row.toolTip() for row in page.recent_rows)
    assert new_statement(gone, here)


def test_recent_file_with_a_name_that_is_too_long_is_missing(
    page: StartPage, settings: Settings, tmp_path: Path
) -> None:
    settings.add_recent(tmp_path / ("n" * 300))

    assert [row.is_missing for row in page.recent_rows] == [True]


def test_the_file_of_several_that_is_gone_is_named(
    qtbot: QtBot, tmp_path: Path
) -> None:
    paths = [tmp_path / name for name in ("there.bin", "gone.bin")]
    paths[0].write_bytes(b"1")
    row = FileRow(RECENT_SEPARATOR.join(map(str, paths)), "")
    qtbot.addWidget(row)

    assert row.toolTip() == f"{paths[1]} no longer exists"
    assert row.path == paths[0]


def test_click_on_a_recent_file_opens_it(
    page: StartPage, settings: Settings, tmp_path: Path, qtbot: QtBot
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"1")
    settings.add_recent(path)
    page.refresh()

    with qtbot.waitSignal(page.file_chosen) as caught:
        QTest.mouseClick(page.recent_rows[0], Qt.MouseButton.LeftButton)

    assert caught.args == [str(path)]


def test_file_row_is_reached_and_pressed_by_keyboard(
    page: StartPage, settings: Settings, tmp_path: Path, qtbot: QtBot
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"1")
    settings.add_recent(path)
    row = page.recent_rows[0]
    row.setFocus()

    with qtbot.waitSignal(page.file_chosen):
        QTest.keyClick(row, Qt.Key.Key_Space)

    assert row.focusPolicy() & Qt.FocusPolicy.TabFocus


def test_samples_are_offered_where_they_are(
    page: StartPage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert [row.path for row in page.sample_rows] == list(samples())

    def nowhere(_: str) -> Path:
        return tmp_path / "none"

    monkeypatch.setattr(start.assets, "path", nowhere)
    assert samples() == ()
    page.refresh()
    assert page.sample_rows == []


def test_sample_opens_from_the_window(window: MainWindow, qtbot: QtBot) -> None:
    if not samples():
        pytest.skip("the samples have not been made")
    rows = window.findChildren(FileRow)

    QTest.mouseClick(rows[-1], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.document is not None)
    document = window.document
    qtbot.waitUntil(lambda: document.loader.state is not LoadState.LOADING)

    assert document.loader.state is LoadState.READY


def test_open_button_asks_for_files(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    filters: list[str] = []

    def answer(*arguments: object) -> tuple[list[str], str]:
        filters.append(str(arguments[3]))
        return [str(tmp_path / "a.bin"), str(tmp_path / "b.bin")], ""

    monkeypatch.setattr(QFileDialog, "getOpenFileNames", answer)

    QTest.mouseClick(window.start_page.open_button, Qt.MouseButton.LeftButton)

    assert window.n_documents == 2
    assert "*.ggmlviz" in filters[0]


def test_filters_name_all_readers_and_all_files() -> None:
    filters = name_filters().split(";;")

    assert "*.ggmlviz" in filters[0]
    assert "*.json" in filters[0]
    assert filters[-1].endswith("(*)")


@pytest.mark.parametrize("size", [(1280, 720), (1024, 700)])
def test_everything_fits_small_windows(
    window: MainWindow, qtbot: QtBot, size: tuple[int, int]
) -> None:
    window.resize(*size)
    scroll = window.start_page.findChild(QScrollArea)
    assert scroll is not None

    qtbot.waitUntil(lambda: scroll.verticalScrollBar().maximum() == 0)

    assert scroll.horizontalScrollBar().maximum() == 0


def test_event_stream_that_the_settings_name_is_offered(
    page: StartPage, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not page.follow_button.isVisible()
    monkeypatch.setattr(OPTIONS, "output", "/tmp/a & b.ggmlviz")
    monkeypatch.setattr(OPTIONS, "output_source", "GGML_VIZ_OUTPUT")
    page.refresh()

    with qtbot.waitSignal(page.follow_requested) as requested:
        page.follow_button.click()

    assert page.follow_button.isVisible()
    assert page.follow_button.text() == "Follow a && b.ggmlviz"
    assert "GGML_VIZ_OUTPUT" in page.follow_button.toolTip()
    assert requested.args == ["/tmp/a & b.ggmlviz"]


def test_offered_stream_opens_in_a_tab_that_follows(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stream = str(tmp_path / "later.ggmlviz")
    monkeypatch.setattr(OPTIONS, "output", stream)
    window.start_page.refresh()

    window.start_page.follow_button.click()

    assert window.document is not None
    assert window.document.live is not None
    assert window.document.live.target == stream
