"""Table and statistics with real keys and mouse: this range or all, sorting, Go to."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication, QMenu, QStyle, QStyleOptionFrame
from pytestqt.qtbot import QtBot

from ggscope.analysis.order.table_order import Sorting
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.model.units import TimeRange
from ggscope.session.settings import Settings
from ggscope.views.statistics.view import StatisticsView
from ggscope.views.table.view import TableView
from pages import TablePage
from support import ROOT
from touching import Hand

SAMPLE = ROOT / "resources" / "samples" / "tinyllama-256.bin"
Opened = Callable[[Path], Document]


def table_of(document: Document, hand: Hand) -> TableView:
    """Return the table, brought to the front."""
    hand.press("ctrl+2")
    (table,) = document.workspace.views("table")
    assert isinstance(table, TableView)
    return table


def listed(table: TableView) -> set[int]:
    order = table.model.order
    assert order is not None
    return set(order.slice(0, len(order)).tolist())


def touching(document: Document, time: TimeRange) -> set[int]:
    """Return the records that touch a range, looked up one by one."""
    trace = document.session.trace
    assert trace is not None
    s = trace.spans
    is_band = np.array([lane.kind.name in ("TOKEN", "PHASE") for lane in trace.lanes])
    inside = (s.start < time.end) & (s.end > time.start) & ~is_band[s.lane]
    return set(np.flatnonzero(inside).tolist())


def test_table_begins_with_what_the_timeline_shows(
    window: MainWindow,
    opened: Opened,
    hand: Hand,
    settings: Settings,
    qtbot: QtBot,
) -> None:
    document = opened(SAMPLE)
    session, table = document.session, table_of(document, hand)
    everything = listed(table)

    hand.press("w", "w", "w")
    qtbot.waitUntil(
        lambda: listed(table) == touching(document, session.viewport.visible)
    )
    assert 0 < len(listed(table)) < len(everything)
    assert "in this range" in TablePage(table).count

    hand.click(TablePage(table).footer.switch.all)
    qtbot.waitUntil(lambda: listed(table) == everything)
    assert not settings.tables.only_range

    hand.press("shift+t")
    qtbot.waitUntil(
        lambda: listed(table) == touching(document, session.viewport.visible)
    )
    assert settings.tables.only_range


def test_hint_of_the_field_and_the_count_are_whole(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLE)
    footer = TablePage(table_of(document, hand)).footer
    hand.press("w", "w", "w")
    qtbot.waitUntil(lambda: "in this range" in footer.count.full_text)

    hint = QStyleOptionFrame()
    footer.jump.initStyleOption(hint)
    space = footer.jump.style().subElementRect(
        QStyle.SubElement.SE_LineEditContents, hint, footer.jump
    )
    text = footer.jump.placeholderText()
    assert footer.jump.isVisible()
    assert footer.jump.fontMetrics().horizontalAdvance(text) + 4 <= space.width()
    qtbot.waitUntil(lambda: footer.count.text() == footer.count.full_text)


def test_rows_are_counted_alike_with_and_without_a_filter(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLE)
    table = table_of(document, hand)
    count = TablePage(table).footer.count
    everything = f"{len(listed(table)):,} rows"
    assert count.full_text == everything

    hand.press("ctrl+shift+f")
    hand.type("op=MUL_MAT")
    hand.press("Return")
    qtbot.waitUntil(lambda: "filter" in count.full_text)
    hand.settle()

    text = f"{len(listed(table)):,}"
    assert count.full_text == f"{text} of {everything} match the filter"


def test_slowest_record_is_in_sight_after_sorting_by_duration(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLE)
    session, table = document.session, table_of(document, hand)
    hand.click(table.grid.viewport(), QPoint(60, 40))
    hand.press("End")
    assert session.selection.current.active is not None
    assert table.grid.first_visible_row > 0

    hand.press("F11")
    qtbot.waitUntil(lambda: table.width() > window.width() * 3 // 4)
    header = table.grid.header
    place = next(
        i for i, column in enumerate(table.model.columns) if column.key == "duration"
    )
    at = QPoint(
        header.sectionViewportPosition(place) + header.sectionSize(place) // 2,
        header.height() // 2,
    )
    hand.click(header.viewport(), at)
    qtbot.waitUntil(lambda: table.grid.sorting == Sorting("duration", True))

    assert session.trace is not None
    spans = session.trace.spans
    rows = table.model.order
    assert rows is not None
    duration = (spans.end - spans.start)[sorted(listed(table))]
    assert table.grid.first_visible_row == 0
    first = rows.at(0)
    assert spans.end[first] - spans.start[first] == duration.max()


def test_statistics_follow_the_same_switch(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLE)
    hand.press("ctrl+9")
    (view,) = document.workspace.views("statistics")
    assert isinstance(view, StatisticsView)
    qtbot.waitUntil(lambda: view.about.full_text.startswith("whole trace"))

    hand.press("w", "w", "w")
    qtbot.waitUntil(lambda: view.about.full_text.startswith("visible range"))
    hand.click(view.head.switch.all)
    qtbot.waitUntil(lambda: view.about.full_text.startswith("whole trace"))

    (table,) = document.workspace.views("table")
    assert isinstance(table, TableView)
    assert TablePage(table).footer.switch.all.isChecked()


def go_to(hand: Hand, text: str) -> None:
    hand.press("ctrl+g")
    hand.type(text)
    hand.press("Return")


def test_go_to_takes_what_is_printed_and_leads_out_of_the_range(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLE)
    session, table = document.session, table_of(document, hand)
    assert session.trace is not None
    spans = session.trace.spans
    printed = table.model.text(2_000, "time")
    far = table.model.span_at(2_000)
    for _ in range(6):
        hand.press("w")
    qtbot.waitUntil(
        lambda: listed(table) == touching(document, session.viewport.visible)
    )
    last = max(set(range(len(spans))) & touching(document, session.trace.extent))
    assert not {last, far} & listed(table)

    go_to(hand, f"#{int(spans.record[last])}")
    assert session.selection.current.active == last
    qtbot.waitUntil(lambda: last in listed(table))
    assert table.grid.current_row >= 0

    go_to(hand, printed.replace("\u202f", " "))
    active = session.selection.current.active
    assert active is not None
    assert TablePage(table).note == "", printed
    assert abs(int(spans.start[active]) - int(spans.start[far])) < 1_000_000
    qtbot.waitUntil(lambda: active in listed(table))

    go_to(hand, "token 3")
    active = session.selection.current.active
    assert active is not None
    assert spans.token[active] == 3

    go_to(hand, "nonsense")
    assert session.selection.current.active == active
    assert "token 5" in TablePage(table).note


def test_menu_of_columns_names_them_as_the_header_does(
    window: MainWindow, opened: Callable[[Path], Document], hand: Hand, qtbot: QtBot
) -> None:
    table = table_of(opened(SAMPLE), hand)
    header = table.grid.header
    hand.click(header.viewport(), QPoint(60, header.height() // 2), button="right")
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    titles = [column.title for column in table.model.columns]
    named = [action.text().split(" · ")[0] for action in menu.actions()]
    assert named == titles

    last = menu.actions()[titles.index("duration")]
    hand.click(menu, menu.actionGeometry(last).center())
    qtbot.waitUntil(lambda: "duration" in table.grid.hidden_columns)
