"""The trace table with real keys and mouse, up to millions of rows."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import shiboken6
from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, Qt
from PySide6.QtGui import (
    QFontMetrics,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QWheelEvent,
)
from PySide6.QtTest import QAbstractItemModelTester, QTest
from PySide6.QtWidgets import QApplication, QMenu, QWidget
from pytestqt.qtbot import QtBot

import builders
import graph_traces
from ggscope.analysis.filters.masks import SearchHits
from ggscope.analysis.order.table_order import OrderRequest, Sorting
from ggscope.analysis.sessions.correlate import correlate
from ggscope.model.builder import TraceBuilder
from ggscope.model.selection import Filter, MarkedRange, Selection
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import Clock, TimeRange
from ggscope.render.theme import theme
from ggscope.session.session import Session, TraceChange
from ggscope.views.base.cells import (
    CellTexts,
    CopyRequest,
    columns_of,
    to_markdown,
    to_tsv,
)
from ggscope.views.base.widgets import mono_font
from ggscope.views.table import view as table_module
from ggscope.views.table.delegate import Role, TraceTableModel, search_pattern
from ggscope.views.table.grid import VirtualTable
from ggscope.views.table.view import TableView, filters_of
from pages import TablePage, is_settled
from panes import texts_of_widgets, titles_of
from statements import new_statement, new_statements

LEFT = Qt.MouseButton.LeftButton
PLAIN = Qt.KeyboardModifier.NoModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
CTRL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(builders.llama_like_trace(tokens=4, layers=4))
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> TableView:
    return shown(qtbot, session)


def shown(qtbot: QtBot, session: Session) -> TableView:
    view = TableView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1100, 420)
    view.show()
    qtbot.waitExposed(view)
    view.grid.setFocus()
    return view


def click(view: TableView, row: int, modifier: Qt.KeyboardModifier = PLAIN) -> None:
    box = view.grid.row_box(row)
    place = QPoint(300, box.center().y())
    QTest.mouseClick(view.grid.viewport(), LEFT, modifier, place)


def texts(view: TableView, row: int) -> dict[str, str]:
    return {c.key: view.model.text(row, c.key) for c in view.model.columns}


def rows_shown(view: TableView) -> list[int]:
    return [row for row, _, _ in view.grid.visible_rows()]


def clipboard() -> str:
    return QGuiApplication.clipboard().text()


def big_trace(n: int) -> Trace:
    """Return n back-to-back spans of 100 ns on one thread; span i is record i."""
    start = np.arange(n, dtype=np.int64) * 100
    op = (np.arange(n) % 8 + 1).astype(np.int8)
    return builders.spans_trace(start, start + 90, op=op)


# -- model -------------------------------------------------------------------


def test_model_keeps_the_rules_of_item_models(
    qapp: QApplication, session: Session
) -> None:
    model = TraceTableModel()
    tester = QAbstractItemModelTester(
        model, QAbstractItemModelTester.FailureReportingMode.Fatal
    )
    assert session.index is not None
    assert session.trace is not None

    model.set_rows(session.trace, OrderRequest(session.index, Sorting())())
    model.set_hits(None)
    model.set_absolute(True)
    model.set_rows(None, None)

    assert model.rowCount() == 0
    assert tester.model() is model


def test_row_reads_as_in_the_design(view: TableView, session: Session) -> None:
    assert texts(view, view.model.row_of(1) or 0) == {
        "record": "1",
        "time": "0.020 ms",
        "op": "MUL_MAT",
        "layer": "0",
        "lane": "0",
        "token": "#0",
        "destination": "Qcur-0",
        "sources": "DISK blk.0.attn_q.weight +1",
        "bytes": "68.0 KiB",
        "duration": "240.0 µs",
        "quality": "measured",
    }


def test_entry_without_sources_is_neither_blank_nor_nan(view: TableView) -> None:
    span = 5  # ffn_inp of layer 0 accesses nothing

    cells = texts(view, view.model.row_of(span) or 0)

    assert cells["sources"] == "–"
    assert cells["bytes"] == "N/A"
    assert all(cells.values())


def test_bands_are_no_records(view: TableView, session: Session) -> None:
    assert session.trace is not None
    listed = {
        session.trace.lanes[int(session.trace.spans.lane[view.model.span_at(row)])].name
        for row in range(view.model.rowCount())
    }

    assert "tokens" not in listed
    assert "thread 0" in listed


def test_npu_columns_name_the_engine(qtbot: QtBot, session: Session) -> None:
    trace = builders.npu_like_trace()
    session.set_trace(trace)
    view = shown(qtbot, session)

    keys = [column.key for column in view.model.columns]
    titles = [column.title for column in view.model.columns]

    assert "engine" in titles
    assert {"op", "sources", "bytes", "dot"}.isdisjoint(keys)
    assert texts(view, 0)["time"] == "0 cyc"


def test_pending_sources_are_reported_to_come() -> None:
    builder_trace = builders.llama_like_trace()
    trace = replace(builder_trace, pending=frozenset({"accesses"}))

    assert CellTexts.of(trace).text(5, "sources") == "still being read"
    assert CellTexts.of(trace).text(5, "bytes") == "…"


def test_columns_without_a_value_are_left_out() -> None:
    keys = [c.key for c in columns_of(builders.spans_trace([0], [5]))]

    assert keys == [
        "record",
        "time",
        "op",
        "lane",
        "destination",
        "duration",
        "quality",
    ]


def test_lanes_without_numbers_of_threads_keep_their_whole_names() -> None:
    builder = TraceBuilder()
    lane = builder.add_lane("tokens", LaneKind.THREAD)
    builder.add_spans(start=np.array([0]), end=np.array([5]), lane=np.array([lane]))
    trace = builders.finished(builder)

    (column,) = [c for c in columns_of(trace) if c.key == "lane"]

    assert column.title == "lane"
    assert column.width >= 8 * len("tokens")


@pytest.mark.parametrize("other", ["", "calls of the program"])
def test_threads_are_numbers_only_below_a_column_of_threads(
    view: TableView, session: Session, other: str
) -> None:
    builder = TraceBuilder()
    lanes = [
        builder.add_lane(name, LaneKind.THREAD)
        for name in ("thread 0", other or "thread 1")
    ]
    builder.add_spans(
        start=np.array([0, 7]), end=np.array([5, 9]), lane=np.array(lanes)
    )
    trace = builders.finished(builder)

    session.set_trace(trace)

    shown = [texts(view, row)["lane"] for row in (0, 1)]
    assert shown == (["thread 0", other] if other else ["0", "1"])
    (title,) = [c.title for c in columns_of(trace) if c.key == "lane"]
    assert title == ("lane" if other else "T")


# -- order -------------------------------------------------------------------


@pytest.mark.parametrize(
    "column",
    [
        "time",
        "record",
        "duration",
        "op",
        "layer",
        "lane",
        "token",
        "destination",
        "sources",
        "bytes",
        "quality",
    ],
)
@pytest.mark.parametrize("descending", [False, True])
def test_every_span_is_found_in_its_row_whatever_the_order(
    session: Session, column: str, descending: bool
) -> None:
    assert session.index is not None

    order = OrderRequest(session.index, Sorting(column, descending))()

    ids = order.slice(0, len(order))
    assert len(set(ids.tolist())) == len(order)
    assert [order.row_of(int(i)) for i in ids] == list(range(len(order)))
    assert order.arranged(ids[::-1]).tolist() == ids.tolist()


def test_sorting_by_duration_orders_rows(view: TableView, session: Session) -> None:
    view.sort_by(Sorting("duration", True))

    assert session.trace is not None
    ids = [view.model.span_at(row) for row in range(view.model.rowCount())]
    ticks = session.trace.spans.end[ids] - session.trace.spans.start[ids]
    assert bool((np.diff(ticks) <= 0).all())


def test_missing_values_sort_last_both_ways(session: Session) -> None:
    assert session.index is not None
    assert session.trace is not None
    for descending in (False, True):
        order = OrderRequest(session.index, Sorting("layer", descending))()

        layers = session.trace.spans.layer[order.slice(0, len(order))]  # type: ignore[index]
        known = np.flatnonzero(layers >= 0)
        assert known.tolist() == list(range(len(known)))


def test_header_click_sorts_and_second_click_turns(view: TableView) -> None:
    section = [c.key for c in view.model.columns].index("layer")
    place = QPoint(view.grid.header.sectionViewportPosition(section) + 8, 10)

    QTest.mouseClick(view.grid.header.viewport(), LEFT, PLAIN, place)
    first = view.grid.sorting
    QTest.mouseClick(view.grid.header.viewport(), LEFT, PLAIN, place)

    assert first == Sorting("layer", False)
    assert view.grid.sorting == Sorting("layer", True)
    assert view.model.headerData(section, Qt.Orientation.Horizontal) == "L ▾"


def test_first_click_on_duration_shows_the_longest(view: TableView) -> None:
    section = [c.key for c in view.model.columns].index("duration")
    place = QPoint(view.grid.header.sectionViewportPosition(section) + 8, 10)

    QTest.mouseClick(view.grid.header.viewport(), LEFT, PLAIN, place)

    assert view.grid.sorting == Sorting("duration", True)


def test_filter_shows_matching_rows_only(view: TableView, session: Session) -> None:
    session.queries.set_filter(Filter(ops=frozenset({"ROPE"})))

    ops = {view.model.text(row, "op") for row in range(view.model.rowCount())}
    assert ops == {"ROPE"}
    filtered = TablePage(view).count
    session.queries.set_filter(Filter())
    assert new_statement(filtered, TablePage(view).count)


def test_filter_that_matches_nothing_says_so(view: TableView, session: Session) -> None:
    session.queries.set_filter(Filter(text="no such thing"))

    assert TablePage(view).is_empty
    assert TablePage(view).placeholder.startswith("No matching records")
    anywhere = "\n".join(texts_of_widgets(view))
    session.queries.set_filter(Filter(ops=frozenset({"ROPE"})))
    some = "\n".join(texts_of_widgets(view))
    assert new_statements(anywhere, some)


def test_range_without_records_shows_a_filter_from_silence(
    qtbot: QtBot, view: TableView, session: Session
) -> None:
    session.set_trace(builders.spans_trace([0, 5_000], [10, 5_010], op=1))
    session.ranges.set_marked(MarkedRange(TimeRange(100, 200)))
    qtbot.waitUntil(
        lambda: TablePage(view).placeholder.startswith("No records in this range")
    )
    plain = TablePage(view).placeholder
    session.queries.set_filter(Filter(text="no such thing"))
    qtbot.waitUntil(lambda: TablePage(view).placeholder != plain)

    assert new_statement(TablePage(view).placeholder, plain)


# -- millions ----------------------------------------------------------------


def test_five_million_rows_jump_to_the_end_and_back(
    qtbot: QtBot, session: Session
) -> None:
    n = 5_000_000
    view = shown(qtbot, session)
    with qtbot.waitSignal(view.model.modelReset, timeout=60_000):
        session.set_trace(big_trace(n))
    qtbot.waitUntil(lambda: view.model.rowCount() == n, timeout=60_000)

    QTest.keyClick(view.grid, Qt.Key.Key_End)

    assert rows_shown(view)[-1] == n - 1
    assert view.grid.row_box(n - 1).bottom() < view.grid.viewport().height()
    assert texts(view, n - 1)["record"] == "4,999,999"
    assert session.selection.current == Selection("spans", (n - 1,))

    QTest.keyClick(view.grid, Qt.Key.Key_Home)

    assert rows_shown(view)[0] == 0
    assert not view.grab().isNull()


def test_scroll_bar_reaches_every_part_of_many_rows(
    qtbot: QtBot, session: Session
) -> None:
    n = 300_000
    view = shown(qtbot, session)
    session.set_trace(big_trace(n))
    qtbot.waitUntil(lambda: view.model.rowCount() == n, timeout=30_000)
    bar = view.grid.verticalScrollBar()

    bar.setValue(bar.maximum())
    assert rows_shown(view)[-1] == n - 1
    bar.setValue(150_000)
    assert view.grid.first_visible_row == 150_000
    bar.setValue(0)
    assert view.grid.first_visible_row == 0


def test_large_trace_is_sorted_on_a_worker(
    qtbot: QtBot, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "SYNC_ROWS", 10)
    view = shown(qtbot, session)
    qtbot.waitUntil(lambda: view.model.rowCount() > 0)
    titles = titles_of(session, monkeypatch)
    monkeypatch.setattr(table_module, "SYNC_ROWS", len(session.trace.spans))
    view.sort_by(Sorting("bytes", False))
    at_once = "\n".join(titles)
    monkeypatch.setattr(table_module, "SYNC_ROWS", 10)

    view.sort_by(Sorting("bytes", True))

    assert new_statement("\n".join(titles), at_once)
    assert session.tasks.is_running("table-order")
    assert TablePage(view).note == "sorting…"
    qtbot.waitUntil(lambda: not session.tasks.is_running("table-order"))
    assert TablePage(view).note == ""
    assert view.model.order is not None
    assert view.model.order.key.sorting.column == "bytes"


@pytest.fixture
def large(qtbot: QtBot, session: Session, monkeypatch: pytest.MonkeyPatch) -> TableView:
    """Return a table that sorts on a worker, sorted by op."""
    monkeypatch.setattr(table_module, "SYNC_ROWS", 10)
    view = shown(qtbot, session)
    qtbot.waitUntil(lambda: view.model.rowCount() > 0)
    view.sort_by(Sorting("op"))
    settled(qtbot, session)
    return view


def settled(qtbot: QtBot, session: Session) -> None:
    qtbot.waitUntil(lambda: not session.tasks.is_running("table-order"))


def listed(view: TableView) -> list[int]:
    order = view.model.order
    return [] if order is None else order.slice(0, len(order)).tolist()


@pytest.mark.parametrize("way", ["Esc", "button"])
def test_cancelled_sort_leaves_the_table_as_it_was(
    qtbot: QtBot, large: TableView, session: Session, way: str
) -> None:
    before = listed(large)
    section = [c.key for c in large.model.columns].index("duration")
    place = QPoint(large.grid.header.sectionViewportPosition(section) + 8, 10)

    QTest.mouseClick(large.grid.header.viewport(), LEFT, PLAIN, place)
    assert TablePage(large).footer.cancel.isVisible()
    assert large.grid.sorting == Sorting("op")
    if way == "Esc":
        QTest.keyClick(large.grid, Qt.Key.Key_Escape)
    else:
        QTest.mouseClick(TablePage(large).footer.cancel, LEFT)
    settled(qtbot, session)

    assert listed(large) == before
    assert large.grid.sorting == Sorting("op")
    assert large.model.headerData(
        [c.key for c in large.model.columns].index("op"), Qt.Orientation.Horizontal
    ).endswith("▴")
    assert not TablePage(large).footer.cancel.isVisible()
    assert TablePage(large).note == ""

    QTest.mouseClick(large.grid.header.viewport(), LEFT, PLAIN, place)
    settled(qtbot, session)
    assert large.grid.sorting == Sorting("duration", True)


def test_old_order_stays_until_the_new_one_is_there(
    qtbot: QtBot, large: TableView, session: Session
) -> None:
    before = listed(large)

    large.sort_by(Sorting("duration", True))

    assert listed(large) == before
    settled(qtbot, session)
    assert listed(large) != before


def test_escape_is_left_to_the_window_when_nothing_is_sorted(
    large: TableView,
) -> None:
    override = QKeyEvent(QEvent.Type.ShortcutOverride, Qt.Key.Key_Escape, PLAIN)
    override.ignore()

    QApplication.sendEvent(large.grid, override)

    assert not override.isAccepted()


def test_cancel_under_a_new_filter_falls_back_to_time(
    qtbot: QtBot, large: TableView, session: Session
) -> None:
    session.queries.set_filter(Filter(ops=frozenset({"ROPE"})))
    large.cancel_order()
    settled(qtbot, session)

    assert large.grid.sorting == Sorting()
    assert {texts(large, row)["op"] for row in range(large.model.rowCount())} == {
        "ROPE"
    }


def test_filter_keeps_the_sorting(
    qtbot: QtBot, large: TableView, session: Session
) -> None:
    large.sort_by(Sorting("duration", True))
    settled(qtbot, session)

    session.queries.set_filter(Filter(layers=frozenset({1, 2})))
    settled(qtbot, session)

    assert session.trace is not None
    spans, ids = session.trace.spans, listed(large)
    assert bool((np.diff(spans.end[ids] - spans.start[ids]) <= 0).all())
    assert spans.layer is not None
    assert set(spans.layer[ids].tolist()) == {1, 2}


# -- jumping -----------------------------------------------------------------


@pytest.mark.parametrize("text", ["30", "#30", "1.5ms"])
def test_typed_place_is_selected_and_in_view(
    view: TableView, session: Session, text: str
) -> None:
    QTest.keyClick(view.grid, Qt.Key.Key_G, CTRL)
    assert TablePage(view).footer.jump.hasFocus()

    QTest.keyClicks(TablePage(view).footer.jump, text)
    QTest.keyClick(TablePage(view).footer.jump, Qt.Key.Key_Return)

    row = view.grid.current_row
    assert row in rows_shown(view)
    assert session.selection.current.ids == (view.model.span_at(row),)
    if text == "30":
        assert row == 29
    elif text == "#30":
        assert view.model.span_at(row) == 30
    else:
        assert session.trace is not None
        starts = session.trace.spans.start
        assert starts[view.model.span_at(row)] >= 1_500_000
        assert starts[view.model.span_at(row - 1)] < 1_500_000


def test_place_that_is_not_there_is_explained(
    view: TableView, session: Session
) -> None:
    QTest.keyClicks(TablePage(view).footer.jump, "100000")
    QTest.keyClick(TablePage(view).footer.jump, Qt.Key.Key_Return)

    assert TablePage(view).note.startswith("rows are 1 to ")
    assert not session.selection.current


def test_escape_leaves_the_field_for_the_table(view: TableView) -> None:
    QTest.keyClick(view.grid, Qt.Key.Key_G, CTRL)

    QTest.keyClick(TablePage(view).footer.jump, Qt.Key.Key_Escape)

    assert view.grid.hasFocus()


def test_jump_in_a_million_rows_shows_the_row(qtbot: QtBot, session: Session) -> None:
    n = 1_000_000
    view = shown(qtbot, session)
    session.set_trace(big_trace(n))
    qtbot.waitUntil(lambda: view.model.rowCount() == n, timeout=30_000)

    view.go_to("765,432")

    assert view.grid.current_row == 765_431
    assert 765_431 in rows_shown(view)
    assert texts(view, 765_431)["record"] == "765,431"


# -- selection ---------------------------------------------------------------


def test_click_selects_the_span_everywhere(view: TableView, session: Session) -> None:
    click(view, 3)

    assert session.selection.current == Selection("spans", (view.model.span_at(3),))
    assert view.grid.current_row == 3


def test_ctrl_click_adds_and_takes_away(view: TableView, session: Session) -> None:
    click(view, 2)
    click(view, 5, CTRL)
    both = set(session.selection.current.ids)
    click(view, 5, CTRL)

    assert both == {view.model.span_at(2), view.model.span_at(5)}
    assert session.selection.current.ids == (view.model.span_at(2),)


def test_shift_click_selects_the_rows_between(
    view: TableView, session: Session
) -> None:
    click(view, 2)
    click(view, 6, SHIFT)

    expected = {view.model.span_at(row) for row in range(2, 7)}
    assert set(session.selection.current.ids) == expected
    assert session.selection.current.active == view.model.span_at(6)


def test_huge_shift_selection_is_bounded_with_a_notice(
    view: TableView, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "MAX_SELECTED", 3)
    click(view, 2)
    click(view, 8, SHIFT)

    assert len(session.selection.current.ids) == 3
    assert TablePage(view).note.startswith("3 of 7 selected")


def test_select_all_takes_the_listed_rows(view: TableView, session: Session) -> None:
    QTest.keyClick(view.grid, Qt.Key.Key_A, CTRL)

    assert len(session.selection.current.ids) == view.model.rowCount()


def test_selection_from_elsewhere_scrolls_into_view(
    view: TableView, session: Session
) -> None:
    last = view.model.span_at(view.model.rowCount() - 1)

    session.selection.select_span(last)

    assert view.grid.current_row == view.model.rowCount() - 1
    assert view.grid.current_row in rows_shown(view)


def test_selected_marker_clears_the_rows(view: TableView, session: Session) -> None:
    click(view, 1)

    session.selection.select(Selection("markers", (0,)))

    assert view.grid.current_row == -1


def test_filtered_out_selection_is_not_shown(view: TableView, session: Session) -> None:
    session.selection.select_span(1)  # a MUL_MAT

    session.queries.set_filter(Filter(ops=frozenset({"ROPE"})))

    assert view.grid.current_row == -1
    assert session.selection.current.ids == (1,)


def test_double_click_fits_the_span(view: TableView, session: Session) -> None:
    before = session.viewport.visible.duration
    place = QPoint(300, view.grid.row_box(4).center().y())

    QTest.mouseDClick(view.grid.viewport(), LEFT, PLAIN, place)

    assert session.viewport.visible.duration < before / 10


def slowest(view: TableView, session: Session, qtbot: QtBot) -> list[int]:
    """Zoom to the first half and sort by duration; return the rows' spans."""
    extent = session.viewport.visible
    half = TimeRange(extent.start, extent.start + extent.duration // 2)
    session.viewport.set_visible(half)
    view.sort_by(Sorting("duration", True))
    qtbot.waitUntil(lambda: is_settled(view))
    return [view.model.span_at(row) for row in range(view.model.rowCount())]


def test_double_click_keeps_the_list_and_the_row_under_the_mouse(
    view: TableView, session: Session, qtbot: QtBot
) -> None:
    spans = slowest(view, session, qtbot)
    box = view.grid.row_box(1)

    for row in (1, 2, 3):
        place = QPoint(300, view.grid.row_box(row).center().y())
        QTest.mouseDClick(view.grid.viewport(), LEFT, PLAIN, place)
        qtbot.wait(150)  # longer than the rest before rows are listed anew

        assert session.selection.current.active == spans[row]
        assert view.model.rowCount() == len(spans)
        assert view.grid.row_box(1) == box
        span = spans[row]
        assert session.trace is not None
        start, end = session.trace.spans.start[span], session.trace.spans.end[span]
        visible = session.viewport.visible
        assert visible.start <= start < end <= visible.end


def test_keys_walk_through_the_slowest_rows(
    view: TableView, session: Session, qtbot: QtBot
) -> None:
    spans = slowest(view, session, qtbot)
    click(view, 0)
    QTest.keyClick(view.grid, Qt.Key.Key_Return)

    for row in range(1, 6):
        QTest.keyClick(view.grid, Qt.Key.Key_Down)
        QTest.keyClick(view.grid, Qt.Key.Key_Return)
        qtbot.wait(100)

        assert session.selection.current.active == spans[row]
        assert view.model.rowCount() == len(spans)


def test_list_follows_the_timeline_again_when_that_is_moved(
    view: TableView, session: Session, qtbot: QtBot
) -> None:
    spans = slowest(view, session, qtbot)
    click(view, 1)
    session.navigator.fit_selection()
    qtbot.wait(100)
    count = TablePage(view).count

    session.viewport.zoom(1.5)
    qtbot.waitUntil(lambda: view.model.rowCount() < len(spans))

    assert TablePage(view).count != count
    assert "this range" in TablePage(view).count
    assert "this range" not in count


def test_switch_lists_what_is_visible_also_where_it_is_on(
    view: TableView, session: Session, qtbot: QtBot
) -> None:
    spans = slowest(view, session, qtbot)
    click(view, 1)
    session.navigator.fit_selection()
    qtbot.wait(100)

    QTest.mouseClick(TablePage(view).footer.switch.this_range, LEFT)

    qtbot.waitUntil(lambda: view.model.rowCount() < len(spans))
    assert session.ranges.listed == MarkedRange(session.viewport.visible)


def test_cores_of_a_recording_do_not_push_sources_and_quality_out(
    qtbot: QtBot, session: Session
) -> None:
    trace = session.trace
    assert trace is not None
    known = np.zeros(len(trace.spans), np.int16)
    spans = replace(trace.spans, core=known, numa=known, wait=known.astype(np.uint32))
    session.set_trace(replace(trace, spans=spans))
    view = shown(qtbot, session)
    view.resize(1250, 420)  # what a window of 1600 pixels leaves beside Details
    keys = [column.key for column in view.model.columns]
    cells = {cell.column.key: cell for cell in view.grid.cells()}

    assert "core" in keys  # the trace has them, and the header's menu shows them
    assert not {"core", "numa"} & set(cells)
    for key in ("sources", "quality"):
        assert cells[key].x + cells[key].width <= view.grid.viewport().width()
    view.grid.hide_column("core", False)
    assert "core" in {cell.column.key for cell in view.grid.cells()}


@pytest.mark.parametrize("end", [0, 30])
def test_span_without_an_end_has_no_duration(
    qtbot: QtBot, session: Session, end: int
) -> None:
    flags = np.array([0, SpanFlag.UNFINISHED, 0], np.uint16)
    ends = [10, 20 + end, 45]
    session.set_trace(builders.spans_trace([0, 20, 40], ends, op=1, flags=flags))
    view = shown(qtbot, session)
    view.sort_by(Sorting("duration", False))
    up = [view.model.span_at(row) for row in range(3)]
    view.sort_by(Sorting("duration", True))
    down = [view.model.span_at(row) for row in range(3)]
    row = view.model.row_of(1)
    assert row is not None

    assert (up, down) == ([2, 0, 1], [0, 2, 1])
    assert texts(view, row)["duration"] == "–"
    column = [c.key for c in view.model.columns].index("duration")
    index = view.model.index(row, column)
    assert view.model.data(index, Role.RAW) is None
    tip = view.model.data(index, Qt.ItemDataRole.ToolTipRole)
    assert "no end recorded" in tip
    assert ("30" in tip) == bool(end)


# -- keyboard and wheel ------------------------------------------------------


def test_arrow_keys_walk_and_keep_the_row_in_view(
    view: TableView, session: Session
) -> None:
    click(view, 0)
    for _ in range(40):
        QTest.keyClick(view.grid, Qt.Key.Key_Down)

    assert view.grid.current_row == 40
    box = view.grid.row_box(40)
    assert box.top() >= 0
    assert box.bottom() < view.grid.viewport().height()

    for _ in range(40):
        QTest.keyClick(view.grid, Qt.Key.Key_Up)

    assert view.grid.current_row == 0
    assert view.grid.row_box(0).top() == 0


def test_page_keys_move_by_a_screen(view: TableView) -> None:
    click(view, 0)
    QTest.keyClick(view.grid, Qt.Key.Key_PageDown)
    down = view.grid.current_row
    QTest.keyClick(view.grid, Qt.Key.Key_PageUp)

    assert down > 5
    assert view.grid.current_row == 0


def test_shift_and_arrow_extend_the_selection(
    view: TableView, session: Session
) -> None:
    click(view, 2)
    QTest.keyClick(view.grid, Qt.Key.Key_Down, SHIFT)
    QTest.keyClick(view.grid, Qt.Key.Key_Down, SHIFT)

    assert len(session.selection.current.ids) == 3


def test_other_keys_are_left_to_the_window(view: TableView) -> None:
    event = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_W, PLAIN, "w")

    view.grid.keyPressEvent(event)

    assert not event.isAccepted()


def test_table_claims_its_keys_from_shortcuts(view: TableView) -> None:
    home = QKeyEvent(QEvent.Type.ShortcutOverride, Qt.Key.Key_Home, PLAIN)
    back = QKeyEvent(QEvent.Type.ShortcutOverride, Qt.Key.Key_F, PLAIN)
    back.ignore()

    QApplication.sendEvent(view.grid, home)
    QApplication.sendEvent(view.grid, back)

    assert home.isAccepted()
    assert not back.isAccepted()


def wheel(
    view: TableView, angle: QPoint, modifier: Qt.KeyboardModifier = PLAIN
) -> None:
    place = QPointF(200, 100)
    event = QWheelEvent(
        place,
        view.grid.viewport().mapToGlobal(place),
        QPoint(),
        angle,
        Qt.MouseButton.NoButton,
        modifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(view.grid.viewport(), event)


def test_wheel_scrolls_three_rows_and_stops_at_the_ends(view: TableView) -> None:
    wheel(view, QPoint(0, -120))
    down = view.grid.first_visible_row
    wheel(view, QPoint(0, 1200))
    up = view.grid.first_visible_row
    wheel(view, QPoint(0, -1_200_000))

    assert (down, up) == (3, 0)
    assert rows_shown(view)[-1] == view.model.rowCount() - 1


def test_shift_wheel_scrolls_sideways(qtbot: QtBot, view: TableView) -> None:
    view.resize(500, 300)
    QTest.qWait(0)

    wheel(view, QPoint(0, -120), SHIFT)

    assert view.grid.horizontalScrollBar().value() > 0
    assert view.grid.first_visible_row == 0


# -- forms, search, looks ----------------------------------------------------


def test_t_toggles_the_detailed_form(view: TableView) -> None:
    compact = view.grid.row_box(0).height()
    QTest.keyClick(view.grid, Qt.Key.Key_T)
    detailed = view.grid.row_box(0).height()
    QTest.keyClick(view.grid, Qt.Key.Key_T)

    assert detailed > 3 * compact
    assert view.grid.row_box(0).height() == compact
    assert not view.is_detailed


def test_detailed_form_keeps_the_current_row_in_view(
    view: TableView, session: Session
) -> None:
    session.selection.select_span(view.model.span_at(60))

    view.set_detailed(True)

    assert 60 in rows_shown(view)
    assert TablePage(view).form_button.isChecked()


def test_detailed_rows_scroll_to_the_very_end(view: TableView) -> None:
    view.set_detailed(True)
    bar = view.grid.verticalScrollBar()

    bar.setValue(bar.maximum())

    row, top, height = view.grid.visible_rows()[-1]
    assert row == view.model.rowCount() - 1
    assert top + height == view.grid.viewport().height()


def test_search_hits_are_known_row_by_row(
    qtbot: QtBot, view: TableView, session: Session
) -> None:
    session.queries.search("attn_q")
    qtbot.waitUntil(lambda: session.queries.hits is not None)

    assert session.queries.hits is not None
    marked = {
        view.model.span_at(row)
        for row in range(view.model.rowCount())
        if view.model.is_hit(view.model.span_at(row))
    }
    assert marked == set(session.queries.hits.ids.tolist())
    assert marked


@pytest.mark.parametrize(
    ("text", "expected"),
    [("attn", ["attn"]), ("/q.*t/", ["q.weight"]), ("/(/", []), ("", [])],
)
def test_search_pattern_marks_what_matches(text: str, expected: list[str]) -> None:
    pattern = search_pattern(text)

    matches = [] if pattern is None else pattern.findall("blk.0.attn_q.weight")
    assert matches == expected


def test_absolute_time_changes_the_time_column(
    view: TableView, session: Session
) -> None:
    trace = builders.llama_like_trace(tokens=4, layers=4)
    session.set_trace(replace(trace, clock=Clock(origin=5_000_000_000)))
    session.display.set_absolute_time(True)

    assert view.model.text(0, "time") == "5.000000 s"


def test_time_of_day_fits_its_column(view: TableView, session: Session) -> None:
    trace = builders.llama_like_trace(tokens=4, layers=4)
    dated = Clock.of_stamps(1_700_000_000 * 10**9)
    session.set_trace(replace(trace, clock=dated))

    def width() -> int:
        keys = [column.key for column in view.model.columns]
        return view.grid.header.sectionSize(keys.index("time"))

    usual = width()
    session.display.set_absolute_time(True)

    assert view.model.text(0, "time") == "22:13:20.000000"
    text = QFontMetrics(mono_font(12)).horizontalAdvance("22:13:20.000000")
    assert width() >= text + 16
    session.display.set_absolute_time(False)
    assert width() == usual


@pytest.mark.parametrize("name", ["dark", "light"])
def test_selected_row_is_tinted_in_both_themes(
    view: TableView, session: Session, name: str
) -> None:
    view.set_theme(theme(name))
    session.selection.select_span(view.model.span_at(2))

    picture = view.grid.viewport().grab().toImage()
    ratio = picture.devicePixelRatio()
    middle = view.grid.row_box(2).center().y()

    bar = picture.pixelColor(round(1 * ratio), round(middle * ratio)).rgb()
    assert bar == theme(name).selection
    other = view.grid.row_box(3).center().y()
    assert picture.pixelColor(round(1 * ratio), round(other * ratio)).rgb() != bar


def test_badge_colours_show_disk_from_buffer(view: TableView) -> None:
    picture = view.grid.viewport().grab().toImage()
    seen = {
        picture.pixelColor(x, y).name()
        for y in range(0, picture.height(), 4)
        for x in range(0, picture.width(), 4)
    }

    assert {"#0072b2", "#009e73"} <= seen


def point_at_row(grid: VirtualTable, row: int) -> None:
    """Move the mouse there at once: QTest.mouseMove only posts it."""
    at = QPointF(grid.row_box(row).center())
    event = QMouseEvent(
        QEvent.Type.MouseMove, at, at, Qt.MouseButton.NoButton,
        Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier,
    )  # fmt: skip
    QApplication.sendEvent(grid.viewport(), event)


def test_rows_are_painted_anew_where_they_change_and_only_there(
    qtbot: QtBot, view: TableView, session: Session
) -> None:
    grid, trace = view.grid, session.trace
    assert trace is not None
    paints: list[QEvent.Type] = []

    class Watch(QObject):
        def eventFilter(self, _: QObject, event: QEvent) -> bool:
            if event.type() == QEvent.Type.Paint:
                paints.append(event.type())
            return False

    watch = Watch()
    grid.viewport().installEventFilter(watch)
    qtbot.waitUntil(lambda: session.tasks.is_idle)
    first, second = grid.model.span_at(0), grid.model.span_at(1)
    at = np.array([first])
    hits = SearchHits("blk", at, trace.spans.start[at], np.empty(0, np.int64))
    changes: list[Callable[[], object]] = [
        lambda: session.selection.select(Selection("spans", (first,))),
        lambda: session.selection.select(Selection("spans", (second,))),
        lambda: point_at_row(grid, 3),
        lambda: grid.model.set_hits(hits),
        lambda: grid.model.set_hits(None),
        lambda: grid.hide_column("record", True),
        lambda: session.display.set_absolute_time(True),
        lambda: view.set_theme(theme("light")),
        lambda: grid.scroll_pixels(7),
        lambda: grid.scroll_pixels(24 * 3),
        lambda: grid.clearFocus(),
        lambda: view.set_detailed(True),
        lambda: session.selection.select(Selection("spans", (first,))),
        lambda: view.set_detailed(False),
        lambda: view.resize(900, 300),
        lambda: session.set_trace(big_trace(50)),
    ]
    for change in changes:
        before = grid.viewport().grab().toImage()
        QTest.qWait(30)
        paints.clear()
        change()
        qtbot.waitUntil(lambda: session.tasks.is_idle)
        QTest.qWait(30)
        n = len(paints)
        after = grid.viewport().grab().toImage()
        assert n or before == after

    session.set_trace(session.trace, TraceChange.GREW)
    qtbot.waitUntil(lambda: session.tasks.is_idle)
    QTest.qWait(30)
    paints.clear()
    session.set_trace(session.trace, TraceChange.GREW)
    qtbot.waitUntil(lambda: session.tasks.is_idle)
    QTest.qWait(30)
    assert not paints


def test_current_row_is_given_to_screen_readers(
    view: TableView, session: Session
) -> None:
    session.selection.select_span(1)

    text = view.grid.accessibleDescription()

    assert "op MUL_MAT" in text
    assert "destination Qcur-0" in text


def test_detailed_row_reads_with_every_source(
    view: TableView, session: Session
) -> None:
    session.selection.select_span(1)

    view.set_detailed(True)

    text = view.grid.accessibleDescription()
    assert "source 0: DISK blk.0.attn_q.weight · 64.0 KiB · offset 0x0001_0000" in text
    assert "source 1: BUF activation · 4.0 KiB" in text


def test_tooltip_gives_every_digit(view: TableView) -> None:
    section = [c.key for c in view.model.columns].index("duration")
    index = view.model.index(view.model.row_of(1) or 0, section)

    text = view.model.data(index, Qt.ItemDataRole.ToolTipRole)

    assert text.startswith("0.000\u202f240\u202f")
    place = QPoint(view.grid.header.sectionViewportPosition(section) + 5, 30)
    event = QHelpEvent(
        QEvent.Type.ToolTip, place, view.grid.viewport().mapToGlobal(place)
    )
    assert QApplication.sendEvent(view.grid.viewport(), event)


def test_hidden_column_leaves_its_room_to_others(view: TableView) -> None:
    before = view.grid.header.length()

    view.grid.hide_column("quality", True)

    assert "quality" not in [cell.column.key for cell in view.grid.cells()]
    assert view.grid.header.length() == before
    view.grid.hide_column("quality", False)
    assert "quality" in [cell.column.key for cell in view.grid.cells()]


def test_column_dragged_by_hand_keeps_its_width(view: TableView) -> None:
    section = [c.key for c in view.model.columns].index("destination")

    view.grid.header.resizeSection(section, 333)
    view.resize(1300, 420)

    assert view.grid.header.sectionSize(section) == 333


# -- copy --------------------------------------------------------------------


def test_ctrl_c_copies_plain_figures_with_units_in_the_header(
    view: TableView, session: Session
) -> None:
    session.selection.select_span(1)

    QTest.keyClick(view.grid, Qt.Key.Key_C, CTRL)

    header, row = (line.split("\t") for line in clipboard().splitlines())
    cells = dict(zip(header, row, strict=True))
    assert cells["duration (ns)"] == "240000"
    assert cells["operand bytes"] == "69632"
    assert cells["sources"] == "DISK blk.0.attn_q.weight; BUF activation"


def test_ctrl_shift_c_copies_markdown(view: TableView, session: Session) -> None:
    session.selection.select_span(1)

    QTest.keyClick(view.grid, Qt.Key.Key_C, CTRL | SHIFT)

    lines = clipboard().splitlines()
    assert lines[0].startswith("| record | time | op | layer |")
    assert "| MUL_MAT |" in lines[2]
    assert "240.0 µs" in lines[2]


def test_json_copy_has_null_for_what_is_missing(
    view: TableView, session: Session
) -> None:
    session.selection.select_span(5)

    view.copy_json()

    (record,) = json.loads(clipboard())
    assert record["bytes"] is None
    assert record["op"] == "ADD"
    assert record["sources"] == []


def test_copy_follows_the_order_of_the_table(view: TableView, session: Session) -> None:
    view.sort_by(Sorting("duration", True))
    session.selection.select(Selection("spans", (0, 1, 2)))

    view.copy_tsv()

    column = clipboard().splitlines()[0].split("\t").index("duration (ns)")
    ticks = [int(line.split("\t")[column]) for line in clipboard().splitlines()[1:]]
    assert ticks == sorted(ticks, reverse=True)


def test_large_copy_runs_on_a_worker_and_says_when_done(
    qtbot: QtBot, view: TableView, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "SYNC_COPY", 10)
    monkeypatch.setattr(table_module, "MAX_COPIED_ROWS", 50)

    view.copy_tsv()
    qtbot.waitUntil(lambda: "copied" in TablePage(view).note)

    assert len(clipboard().splitlines()) == 51
    assert TablePage(view).note.startswith("50 of ")


def test_missing_number_copies_as_nothing() -> None:
    trace = builders.spans_trace([0], [5], flags=np.uint16(SpanFlag.INFERRED_END))
    request = CopyRequest(CellTexts.of(trace), np.array([0]), columns_of(trace), "tsv")

    header, row = (line.split("\t") for line in request().splitlines())

    cells = dict(zip(header, row, strict=True))
    assert cells["op"] == ""
    assert cells["quality"] == "derived"


def test_text_forms_escape_what_would_break_them() -> None:
    assert to_tsv(["a"], [["x\ty\nz"]]) == "a\nx y z\n"
    assert to_markdown(["a"], [["x|y"]], [True]).splitlines() == [
        "| a |",
        "| ---: |",
        "| x\\|y |",
    ]


def test_raw_role_gives_numbers(view: TableView) -> None:
    section = [c.key for c in view.model.columns].index("layer")

    row = view.model.row_of(1) or 0

    assert view.model.data(view.model.index(row, section), Role.RAW) == 0
    assert view.model.data(view.model.index(row, section), Role.SPAN) == 1


# -- menus -------------------------------------------------------------------


def commands(menu: QMenu) -> dict[str, object]:
    return {action.text(): action for action in menu.actions() if action.text()}


def test_row_menu_offers_the_row_and_its_filters(
    view: TableView, session: Session
) -> None:
    row = view.model.row_of(1) or 0

    result = commands(view.menu_for(row, "destination"))

    assert list(result)[:4] == ["Copy", "Copy as Markdown", "Copy as JSON", "Copy cell"]
    assert {
        "Show only MUL_MAT",
        "Show only layer 0",
        "Show only token #0",
        "Show only thread 0",
        "Select in timeline",
        "Zoom to",
    } <= set(result)
    assert session.selection.current.ids == (1,)


def test_filters_of_a_span_set_one_part_of_the_filter(session: Session) -> None:
    assert session.trace is not None
    base = Filter(text="q")

    values = dict(filters_of(session.trace, 1, base))

    assert values["Show only layer 0"] == Filter(text="q", layers=frozenset({0}))
    assert values["Show only MUL_MAT"] == Filter(text="q", ops=frozenset({"MUL_MAT"}))


def test_menu_command_filters(view: TableView, session: Session) -> None:
    menu = view.menu_for(view.model.row_of(1) or 0)

    commands(menu)["Show only MUL_MAT"].trigger()  # type: ignore[attr-defined]

    assert session.queries.filter == Filter(ops=frozenset({"MUL_MAT"}))
    assert "Remove all filters" in commands(view.menu_for(0))


def test_copy_cell_copies_what_it_says(view: TableView) -> None:
    menu = view.menu_for(view.model.row_of(1) or 0, "destination")

    commands(menu)["Copy cell"].trigger()  # type: ignore[attr-defined]

    assert clipboard() == "Qcur-0"


# -- life --------------------------------------------------------------------


def test_empty_trace_says_so(qtbot: QtBot, session: Session) -> None:
    session.set_trace(builders.empty_trace())

    view = shown(qtbot, session)

    assert TablePage(view).placeholder.startswith("No spans in this trace")


def test_growing_trace_adds_rows_and_keeps_the_place(
    view: TableView, session: Session
) -> None:
    n = view.model.rowCount()
    view.grid.verticalScrollBar().setValue(10)

    session.set_trace(builders.llama_like_trace(tokens=8, layers=4), TraceChange.GREW)

    assert view.model.rowCount() > n
    assert view.grid.first_visible_row == 10


def test_growing_trace_never_shows_what_is_filtered_out(
    view: TableView, session: Session
) -> None:
    session.queries.set_filter(Filter(ops=frozenset({"ROPE"})))
    seen: set[str] = set()

    def note() -> None:
        rows = range(view.model.rowCount())
        seen.update(view.model.text(row, "op") for row in rows)

    view.model.modelReset.connect(note)
    session.set_trace(builders.llama_like_trace(tokens=8, layers=4), TraceChange.GREW)

    assert seen == {"ROPE"}


def test_replaced_trace_under_a_filter_shows_the_new_matches(
    view: TableView, session: Session
) -> None:
    session.queries.set_filter(Filter(ops=frozenset({"ROPE"})))

    session.set_trace(builders.llama_like_trace(tokens=1, layers=1))

    assert {texts(view, row)["op"] for row in range(view.model.rowCount())} == {"ROPE"}


def test_header_menu_lists_the_columns(qtbot: QtBot, view: TableView) -> None:
    view.grid.header.customContextMenuRequested.emit(QPoint(5, 5))
    menu = QApplication.activePopupWidget()

    assert isinstance(menu, QMenu)
    action = next(a for a in menu.actions() if a.data() == "quality")
    action.trigger()
    menu.close()

    assert "quality" in view.grid.hidden_columns
    assert "quality" not in {cell.column.key for cell in view.grid.cells()}


def test_released_view_ignores_the_session(view: TableView, session: Session) -> None:
    n_rows = view.model.rowCount()
    view.release()

    session.queries.set_filter(Filter(text="q"))

    assert view.model.rowCount() == n_rows


def test_closed_session_leaves_an_empty_table(
    view: TableView, session: Session
) -> None:
    session.close()

    assert view.model.rowCount() == 0


# -- while the file is being read --------------------------------------------


def partly(trace: Trace, *pending: str) -> Trace:
    return replace(trace, pending=frozenset(pending))


def test_partial_trace_says_how_many_spans_are_there(
    view: TableView, session: Session
) -> None:
    trace = builders.llama_like_trace(tokens=2, layers=2)

    session.set_trace(partly(trace, "spans", "names", "accesses"))

    assert TablePage(view).is_empty
    assert TablePage(view).placeholder.startswith("Still reading…")
    assert f"{len(trace.spans)} spans so far" in TablePage(view).placeholder
    reading = TablePage(view).placeholder
    session.set_trace(builders.empty_trace())
    assert new_statements(reading, TablePage(view).placeholder)
    assert view.model.rowCount() == 0
    assert not session.tasks.is_running("table-order")


def test_final_trace_replaces_the_message(view: TableView, session: Session) -> None:
    trace = builders.llama_like_trace(tokens=2, layers=2)
    session.set_trace(partly(trace, "spans", "names", "accesses"))

    session.set_trace(partly(trace, "names", "accesses"), TraceChange.EXTENDED)

    assert not TablePage(view).is_empty
    assert view.model.rowCount() > 0
    assert texts(view, 0)["bytes"] == "…"


def test_partial_trace_under_a_filter_waits_too(
    view: TableView, session: Session
) -> None:
    trace = builders.llama_like_trace(tokens=2, layers=2)
    session.queries.set_filter(Filter(ops=frozenset({"ROPE"})))

    session.set_trace(partly(trace, "spans"))
    assert TablePage(view).placeholder.startswith("Still reading…")

    session.set_trace(trace, TraceChange.EXTENDED)
    assert {texts(view, row)["op"] for row in range(view.model.rowCount())} == {"ROPE"}


def test_names_that_arrive_do_not_scroll_back_to_the_selection(
    view: TableView, session: Session
) -> None:
    trace = builders.llama_like_trace(tokens=8, layers=4)
    session.set_trace(partly(trace, "names", "accesses"))
    session.selection.select_span(view.model.span_at(0))
    view.grid.verticalScrollBar().setValue(120)

    session.set_trace(trace, TraceChange.GREW)

    assert view.grid.first_visible_row == 120
    assert view.grid.current_row == 0


def test_view_of_a_filtered_session_lists_the_matches(
    qtbot: QtBot, session: Session
) -> None:
    session.queries.set_filter(Filter(ops=frozenset({"ROPE"})))

    view = shown(qtbot, session)

    assert {texts(view, row)["op"] for row in range(view.model.rowCount())} == {"ROPE"}


def test_painter_is_ended_when_a_row_cannot_be_drawn(
    view: TableView, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[QPainter] = []

    def fail(painter: QPainter, *_: object) -> None:
        used.append(painter)
        raise RuntimeError("on purpose")

    monkeypatch.setattr(view.grid.rows, "paint", fail)
    with qtbot.captureExceptions() as caught:
        view.grid.viewport().repaint()

    assert caught
    assert used
    assert not any(painter.isActive() for painter in used)


def test_table_that_goes_while_it_is_arranged_is_not_reported(
    qtbot: QtBot, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    pane = QWidget()
    qtbot.addWidget(pane)
    view = TableView(session, theme("dark"), pane)
    qtbot.waitUntil(lambda: session.tasks.is_idle, timeout=20_000)
    may_go_on, arrange = threading.Event(), OrderRequest.__call__

    def slowly(self, context):
        may_go_on.wait(20)
        return arrange(self, context)

    monkeypatch.setattr(OrderRequest, "__call__", slowly)
    monkeypatch.setattr(table_module, "SYNC_ROWS", 0)
    view.sort_by(Sorting("duration", True))
    assert not session.tasks.is_idle
    footer = TablePage(view).footer.cancel

    view.release()
    shiboken6.delete(view)
    may_go_on.set()
    qtbot.waitUntil(lambda: session.tasks.is_idle, timeout=20_000)

    assert not shiboken6.isValid(footer)


def test_footer_has_whole_words_at_every_width(qtbot: QtBot, session: Session) -> None:
    pane = QWidget()  # a grid of panes gives less than a view asks for
    qtbot.addWidget(pane)
    view = TableView(session, theme("dark"), pane)
    pane.show()
    qtbot.waitExposed(pane)
    footer = TablePage(view).footer
    footer.say_matched(correlate(graph_traces.network_trace()))
    seen: set[tuple[bool, bool, bool]] = set()
    for width in range(180, 1200, 20):
        pane.resize(width, 300)
        view.resize(width, 300)
        QApplication.processEvents()
        for button in (footer.switch.this_range, footer.switch.all, footer.form):
            is_whole = button.width() >= button.sizeHint().width()
            assert is_whole or not button.isVisible() or width < 260
        footer.show_cancel(True)
        QApplication.processEvents()
        is_whole = footer.cancel.width() >= footer.cancel.sizeHint().width()
        assert is_whole or width < 340  # switch, field and this
        footer.show_cancel(False)
        QApplication.processEvents()
        if footer.matched.isVisible():
            assert footer.matched.text() == footer.matched.full_text
        else:
            assert footer.matched.full_text in footer.count.toolTip()
        seen.add(
            (
                footer.form.isVisible(),
                footer.copy.isVisible(),
                footer.matched.isVisible(),
            )
        )
        assert footer.jump.isVisible()
    assert seen == {
        (False, False, False), (True, False, False), (True, True, False),
        (True, True, True),
    }  # fmt: skip


def test_low_pane_leaves_its_room_to_the_rows(qtbot: QtBot, session: Session) -> None:
    pane = QWidget()
    qtbot.addWidget(pane)
    view = TableView(session, theme("dark"), pane)
    pane.show()
    qtbot.waitExposed(pane)
    grid, footer = view.grid, TablePage(view).footer

    def squeeze(height: int) -> None:
        pane.resize(500, height)
        view.resize(500, height)
        QApplication.processEvents()

    squeeze(300)
    assert footer.isVisible()
    for height in range(150, 50, -4):
        squeeze(height)
        assert grid.viewport().height() >= 20  # a row, or nearly
        if grid.horizontalScrollBar().isVisible():
            assert grid.viewport().height() >= grid.rows.compact_height
    assert not footer.isVisible()

    # Where to go is typed all the same, and Esc gives the room back.
    grid.setFocus()
    QTest.keyClick(grid, Qt.Key.Key_G, CTRL)
    assert footer.isVisible()
    assert footer.jump.hasFocus()
    QTest.keyClick(footer.jump, Qt.Key.Key_Escape)
    assert not footer.isVisible()
    assert grid.hasFocus()
    squeeze(300)
    assert footer.isVisible()
