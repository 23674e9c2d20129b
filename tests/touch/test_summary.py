"""Why is it slow, without a click; and each line of the summary by mouse and keys."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QScrollArea
from pytestqt.qtbot import QtBot

from ggscope.descriptions.summary import Target
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.views.base.summary_list import SummaryList
from ggscope.views.details.view import DetailsView
from ggscope.views.summary import SummaryView
from support import sample_path
from touching import Hand, focused, visible_rect


def shown_answers(document: Document) -> list[str]:
    """Return the sentences on what limits the run that are in sight now."""
    answers = []
    bar = document.workspace.summary_bar
    if bar.isVisible():
        answers.append(bar.text())
    for view in document.workspace.views("details"):
        assert isinstance(view, DetailsView)
        if view.summary.lines.isVisible():
            answers.append(view.summary.lines.texts()[0][2])
    return answers


@pytest.mark.parametrize(
    "name",
    [
        "llama-demo.ggmlviz",
        "llama.ggmlviz",
        "moe-experiment",
        "npu-prefill-decode.json",
        "tinyllama-256.bin",
        "whisper.ggmlviz",
    ],
)
def test_a_sample_is_answered_without_a_click(
    opened: Callable[[Path], Document], qtbot: QtBot, name: str
) -> None:
    document = opened(sample_path(name))
    qtbot.waitUntil(lambda: document.session.tasks.is_idle)
    Hand.settle()

    (answer,) = shown_answers(document)

    assert answer
    assert not answer.endswith("…")
    bar = document.workspace.summary_bar
    if bar.isVisible():
        assert visible_rect(bar).size() == bar.size()


@pytest.mark.parametrize("size", [(900, 600)], ids=["900x600"], indirect=True)
@pytest.mark.parametrize("way", ["mouse", "Return", "space"])
def test_the_line_opens_the_summary_and_comes_back(
    opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot, way: str
) -> None:
    document = opened(sample_path("tinyllama-256.bin"))
    workspace = document.workspace
    bar = workspace.summary_bar
    qtbot.waitUntil(lambda: bool(bar.figure))
    if way == "mouse":
        hand.click(bar)
    else:
        bar.setFocus()
        assert focused() is bar
        hand.press(way)

    assert workspace.drawer.is_open
    assert workspace.drawer.tab == "summary"
    assert not bar.isVisible()
    (view,) = workspace.views("summary")
    assert isinstance(view, SummaryView)
    assert bar.text().startswith(view.panel.lines.texts()[0][1])
    workspace.drawer.set_open(False)
    Hand.settle()
    assert bar.isVisible()


@pytest.mark.parametrize("size", [(900, 600)], ids=["900x600"], indirect=True)
def test_tab_reaches_the_line(opened: Callable[[Path], Document], hand: Hand) -> None:
    document = opened(sample_path("tinyllama-256.bin"))
    bar = document.workspace.summary_bar
    reached = []
    for _ in range(40):
        hand.press("Tab")
        reached.append(focused())
        if reached[-1] is bar:
            break
    assert reached[-1] is bar


@pytest.mark.parametrize("size", [(900, 600)], ids=["900x600"], indirect=True)
def test_each_tab_has_its_own_line_and_panes_keep_their_height(
    window: MainWindow, opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    first = opened(sample_path("tinyllama-256.bin"))
    second = opened(sample_path("llama.ggmlviz"))
    qtbot.waitUntil(lambda: bool(second.workspace.summary_bar.figure))
    bars = [each.workspace.summary_bar for each in (first, second)]
    height = second.workspace.cells[0].height()
    assert [bar.isVisible() for bar in bars] == [False, True]

    window.step_tab(1)
    Hand.settle()

    assert [bar.isVisible() for bar in bars] == [True, False]
    assert bars[0].text() != bars[1].text()
    assert first.workspace.cells[0].height() == height
    window.close_document(first)
    Hand.settle()
    assert bars[1].isVisible()


def test_details_and_the_line_take_turns(
    opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(sample_path("tinyllama-256.bin"))
    qtbot.waitUntil(lambda: document.session.tasks.is_idle)
    bar, workspace = document.workspace.summary_bar, document.workspace
    for _ in range(3):
        assert bar.isVisible() is not workspace.shows_details
        hand.press("q")


def summary_lines(document: Document, qtbot: QtBot) -> SummaryList:
    """Return the lines in the pane of the summary, brought into sight."""
    document.workspace.show_view("summary")
    (view,) = document.workspace.views("summary")
    assert isinstance(view, SummaryView)
    qtbot.waitUntil(lambda: view.panel.result is not None)
    Hand.settle()
    return view.panel.lines


def is_there(document: Document, target: Target) -> bool:
    """Return whether the window shows where a line leads."""
    session, shown = document.session, document.session.selection.current
    if target.span is not None:
        return shown.table == "spans" and shown.ids == (target.span,)
    if target.time is not None:
        visible, marked = session.viewport.visible, session.ranges.marked
        return (
            marked is not None
            and marked.time == target.time
            and visible.start <= target.time.start
            and visible.end >= target.time.end
        )
    if target.group is not None:
        group = shown.group
        return group is not None and (group.by, group.key) == target.group
    return document.workspace.drawer.tab == target.view


@pytest.mark.parametrize("name", ["tinyllama-256.bin", "npu-prefill-decode.json"])
def test_a_click_on_each_line_goes_where_it_leads(
    opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot, name: str
) -> None:
    document = opened(sample_path(name))
    lines = summary_lines(document, qtbot)
    links = [row.line for row in lines.placed_rows() if row.target is not None]
    assert len(links) > 4

    for link in links:
        lines = summary_lines(document, qtbot)
        row = next(row for row in lines.placed_rows() if row.line == link)
        (view,) = document.workspace.views("summary")
        assert isinstance(view, SummaryView)
        (area,) = view.findChildren(QScrollArea)
        place = lines.mapTo(area.widget(), row.rect.center())
        area.ensureVisible(place.x(), place.y(), 0, row.rect.height())
        Hand.settle()
        hand.click(lines, row.rect.center())

        assert row.target is not None
        assert is_there(document, row.target), link


def test_keys_walk_all_lines_and_enter_goes_there(
    opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    document = opened(sample_path("tinyllama-256.bin"))
    lines = summary_lines(document, qtbot)
    lines.setFocus()
    links = [row for row in lines.placed_rows() if row.target is not None]

    for row in links:
        assert row.target is not None
        hand.press("Down")
        seen = lines.visibleRegion().boundingRect()
        assert seen.contains(row.rect.center()), row
        if not row.target.view:
            hand.press("Return")
            assert is_there(document, row.target), row
            lines.setFocus()
