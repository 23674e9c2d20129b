"""The command palette: fuzzy, by keyboard alone."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester, QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from ggscope.gui.commands.palette import (
    MAX_SHOWN,
    Entry,
    EntryModel,
    Palette,
    fuzzy_score,
)
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.render.graph.look import GraphColorBy
from ggscope.views.graph.view import GraphView
from ggscope.views.statistics.view import StatisticsView
from panes import experiment, pane, settle


@pytest.fixture
def palette(qtbot: QtBot) -> Palette:
    over = QWidget()
    over.resize(800, 600)
    qtbot.addWidget(over)
    over.show()
    made = Palette(over)
    over.made = made  # type: ignore[attr-defined]  # keeps it alive
    return made


def entries(ran: list[str], *names: str) -> list[Entry]:
    return [Entry(name, lambda n=name: ran.append(n)) for name in names]


@pytest.mark.parametrize(
    ("pattern", "better", "worse"),
    [
        ("zi", "Zoom in", "Resize window"),
        ("grid", "2×2 grid", "Going right idly down"),
        ("fit", "Fit all", "First in trace"),
        ("nt", "Next token", "Command palette"),
    ],
)
def test_beginnings_and_runs_score_higher(
    pattern: str, better: str, worse: str
) -> None:
    assert fuzzy_score(pattern, better) > fuzzy_score(pattern, worse)


@given(st.text(max_size=20), st.text(max_size=60))
def test_score_is_positive_exactly_for_subsequences(pattern: str, text: str) -> None:
    rest = iter(text.lower())
    is_inside = all(c in rest for c in pattern.lower().replace(" ", ""))

    assert (fuzzy_score(pattern, text) > 0) == is_inside


def test_model_obeys_qt(qtbot: QtBot) -> None:
    model = EntryModel()
    tester = QAbstractItemModelTester(
        model, QAbstractItemModelTester.FailureReportingMode.Fatal
    )
    model.set_entries(entries([], *(f"entry {n}" for n in range(500))))

    assert model.rowCount() == MAX_SHOWN
    model.set_pattern("ntry 4")
    model.set_pattern("nothing fits")
    assert model.rowCount() == 0
    del tester


def test_typing_and_enter_run_the_best(palette: Palette) -> None:
    ran: list[str] = []
    palette.offer(entries(ran, "Zoom in", "Zoom out", "Fit all"), "Type")

    QTest.keyClicks(palette.edit, "zout")
    QTest.keyClick(palette.edit, Qt.Key.Key_Return)

    assert ran == ["Zoom out"]
    assert not palette.isVisible()


def test_arrows_move_and_wrap(palette: Palette) -> None:
    ran: list[str] = []
    palette.offer(entries(ran, "a", "b", "c"), "Type")

    QTest.keyClick(palette.edit, Qt.Key.Key_Up)
    QTest.keyClick(palette.edit, Qt.Key.Key_Return)

    assert ran == ["c"]


def test_escape_closes_without_running(palette: Palette) -> None:
    ran: list[str] = []
    palette.offer(entries(ran, "a"), "Type")

    QTest.keyClick(palette.edit, Qt.Key.Key_Escape)

    assert ran == []
    assert not palette.isVisible()


def test_click_runs(palette: Palette) -> None:
    ran: list[str] = []
    palette.offer(entries(ran, "a", "b"), "Type")
    row = palette.list.visualRect(palette.model.index(1)).center()

    QTest.mouseClick(palette.list.viewport(), Qt.MouseButton.LeftButton, pos=row)

    assert ran == ["b"]


def test_window_offers_only_what_makes_sense(window: MainWindow) -> None:
    control = Qt.KeyboardModifier.ControlModifier
    shift = Qt.KeyboardModifier.ShiftModifier
    QTest.keyClick(window, Qt.Key.Key_P, control | shift)
    texts = [
        window.palette_.model.entry(row).text
        for row in range(window.palette_.model.rowCount())
    ]

    assert window.palette_.isVisible()
    assert "Open" in texts
    assert "Zoom in" not in texts
    QTest.keyClicks(window.palette_.edit, "theme light")
    QTest.keyClick(window.palette_.edit, Qt.Key.Key_Return)
    assert window.settings.appearance.theme == "light"


def test_height_follows_the_number_of_results(palette: Palette) -> None:
    palette.offer(entries([], *(f"entry {n}" for n in range(40))), "")
    tall = palette.height()

    QTest.keyClicks(palette.edit, "39")
    short = palette.height()
    QTest.keyClicks(palette.edit, "no such thing")
    shortest = palette.height()

    row = palette.list.sizeHintForRow(0) if palette.model.rowCount() else 28
    assert shortest <= short < tall
    assert tall - short == 13 * row


def test_short_list_needs_no_scroll_bar(window: MainWindow, qtbot: QtBot) -> None:
    palette = window.palette_
    palette.offer(entries([], *(f"entry {n}" for n in range(40))), "")
    for text, n_rows in (("entry 39", 1), ("entry 2", 13)):
        palette.edit.setText(text)
        qtbot.waitUntil(palette.isVisible)
        QTest.qWait(1)

        assert palette.model.rowCount() == n_rows
        assert palette.list.verticalScrollBar().maximum() == 0


def type_command(window: MainWindow, text: str) -> list[str]:
    """Open the palette, type; return the entries that fit, the best first."""
    window.actions_["go.palette"].trigger()
    QTest.keyClicks(window.palette_.edit, text)
    model = window.palette_.model
    result = [model.entry(row) for row in range(model.rowCount())]
    return [f"{entry.text} · {entry.detail}" for entry in result if entry is not None]


def test_commands_of_the_panes_are_found_and_run(
    window: MainWindow, opened: Callable[[Path], Document], qtbot: QtBot
) -> None:
    document = opened(experiment())
    document.workspace.show_view("graph")
    settle(qtbot, document)
    view = pane(document, "graph")
    assert isinstance(view, GraphView)
    qtbot.waitUntil(lambda: view.shown is not None, timeout=20_000)

    text = type_command(window, "repeat shared")
    assert text[0] == "Repeat shared inputs next to their consumers · Graph · off"
    QTest.keyClick(window.palette_.edit, Qt.Key.Key_Return)
    settle(qtbot, document)
    assert view.shown is not None
    assert view.shown.layout.choice.repeats_inputs

    assert type_command(window, "colour by time")[0].startswith("Colour by: time")
    QTest.keyClick(window.palette_.edit, Qt.Key.Key_Return)
    assert view.color_by is GraphColorBy.TIME

    assert "on" in type_command(window, "repeat shared")[0]
    QTest.keyClick(window.palette_.edit, Qt.Key.Key_Escape)


def test_choices_of_a_pane_in_the_drawer_are_found(
    window: MainWindow, opened: Callable[[Path], Document], qtbot: QtBot
) -> None:
    document = opened(experiment())
    document.workspace.show_view("statistics")
    settle(qtbot, document)
    view = pane(document, "statistics")
    assert isinstance(view, StatisticsView)

    text = type_command(window, "group by layer")
    QTest.keyClick(window.palette_.edit, Qt.Key.Key_Return)

    assert text[0].startswith("Group by: layer · ")
    assert view.by.currentData() == "layer"
