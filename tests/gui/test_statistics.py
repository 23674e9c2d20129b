"""The selection statistics: what they are about, and that they are right."""

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction, QFontMetrics, QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester, QTest
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

import builders
from builders import statistics, token_trace
from extra_column import add_spread
from ggscope.analysis.rows.index import mask_of_lanes
from ggscope.analysis.statistics.pivot import PIVOT_MEASURES, SHARING, pivot
from ggscope.descriptions.statistics import GROUPING_RULES
from ggscope.model.selection import Filter, MarkedRange, Selection
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import MatchReport, Trace
from ggscope.model.units import TimeRange
from ggscope.render.export import Figure
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.statistics import counting
from ggscope.views.statistics.view import StatisticsView
from pages import Page, is_settled
from panes import texts_of_widgets
from reads_builder import Op, Read, TensorRow, reads_trace
from scenes import texts_of
from statements import new_statement, new_statements
from unrecorded_ops_traces import joined

CTRL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(builders.llama_like_trace(tokens=4, layers=4))
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> StatisticsView:
    view = StatisticsView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1200, 300)
    view.show()
    qtbot.waitExposed(view)
    return view


def counted(qtbot: QtBot, view: StatisticsView) -> None:
    """Wait until the figures are those of the current scope."""
    qtbot.waitUntil(
        lambda: (
            is_settled(view)
            and view.session.tasks.is_idle
            and view.result is not None
            and view.result.scope == view.scope()
            and view.result.by == view.by.currentData()
        )
    )


def column(view: StatisticsView, key: int | str) -> list[str]:
    if isinstance(key, str):
        key = [heading.title for heading in view.model.headings].index(key)
    return [view.model.row(row)[key].text for row in range(view.model.rowCount())]


def test_model_keeps_the_rules_of_item_models(
    qtbot: QtBot, view: StatisticsView
) -> None:
    QAbstractItemModelTester(
        view.model, QAbstractItemModelTester.FailureReportingMode.Fatal, view
    )

    counted(qtbot, view)
    view.model.sort(1, Qt.SortOrder.AscendingOrder)
    view.model.set_rows([])

    assert view.model.rowCount() == 0


def test_whole_trace_is_counted_where_all_of_it_is_visible(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)

    assert session.trace is not None
    expected = statistics(session.trace, "op")
    assert column(view, 0) == [*(row.key for row in expected), "all"]
    assert view.about.full_text.startswith("whole trace")


def test_visible_part_is_counted_when_nothing_is_marked(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    session.viewport.set_visible(TimeRange(0, 1_000_000))
    counted(qtbot, view)

    assert session.trace is not None
    expected = statistics(session.trace, "op", time=TimeRange(0, 1_000_000))
    assert view.result is not None
    assert list(view.result.rows) == expected
    assert view.about.full_text.startswith("visible range 1.000 ms")


def test_marked_range_is_what_the_figures_are_about(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    marked = TimeRange(0, 448_600)

    session.ranges.set_marked(MarkedRange(marked))
    counted(qtbot, view)

    assert session.trace is not None
    expected = statistics(session.trace, "op", time=marked)
    assert view.result is not None
    assert list(view.result.rows) == expected
    n = sum(row.count for row in expected)
    assert view.about.full_text.startswith(f"marked range 448.6 µs · {n} ops")


def test_marked_lanes_restrict_the_figures(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    assert session.index is not None
    key = next(lane.key for lane in session.index.lanes if lane.title == "thread 0")

    session.ranges.set_marked(MarkedRange(TimeRange(0, 2_000_000), frozenset({key})))
    counted(qtbot, view)

    assert session.trace is not None
    spans = session.trace.spans
    on_lane = np.flatnonzero(spans.lane == spans.lane[1])
    expected = statistics(
        session.trace,
        "op",
        ids=on_lane,
        time=TimeRange(0, 2_000_000),
    )
    assert view.result is not None
    assert list(view.result.rows) == expected
    assert " · 1 lane · " in view.about.full_text


def test_left_out_times_are_counted_once_there_are_figures(
    qtbot: QtBot, view: StatisticsView
) -> None:
    counted(qtbot, view)
    session = Session()
    empty = StatisticsView(session, theme("dark"))
    qtbot.addWidget(empty)
    there, none = ("\n".join(texts_of_widgets(v)) for v in (view, empty))
    empty.release()
    session.close()

    assert re.search(r"\d+ estimated, \d+ unfinished", there)
    assert "unfinished." not in none


def test_mask_of_lanes_equals_brute_force(session: Session) -> None:
    assert session.index is not None
    assert session.trace is not None
    time = TimeRange(500_000, 3_000_000)
    keys = frozenset(
        lane.key
        for lane in session.index.lanes
        if lane.title in ("thread 0", "thread 1")
    )

    mask = mask_of_lanes(session.index, keys | {"no such lane"}, time)

    s = session.trace.spans
    names = {"thread 0", "thread 1"}
    lanes = [lane.id for lane in session.trace.lanes if lane.name in names]
    expected = np.isin(s.lane, lanes) & (s.end >= time.start) & (s.start <= time.end)
    assert mask.tolist() == expected.tolist()


def test_several_selected_spans_are_counted(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    session.selection.select(Selection("spans", (1, 4, 7)))
    counted(qtbot, view)

    assert view.about.full_text == "3 selected spans · 3 ops"
    assert column(view, 1)[-1] == "3"


def test_filter_restricts_the_figures(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)

    session.queries.set_filter(Filter(ops=frozenset({"ROPE"})))
    qtbot.waitUntil(lambda: column(view, 0) == ["ROPE", "all"])

    assert view.about.full_text.endswith("filtered")


def test_grouping_follows_the_box(qtbot: QtBot, view: StatisticsView) -> None:
    counted(qtbot, view)

    view.by.setCurrentIndex(view.by.findData("layer"))
    counted(qtbot, view)

    assert sorted(column(view, 0)[:-1]) == ["0", "1", "2", "3"]
    assert view.model.headings[0].title == "layer"


def test_npu_trace_is_grouped_by_engine(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    session.set_trace(builders.npu_like_trace())
    counted(qtbot, view)

    assert "TE0" in column(view, 0)
    assert view.about.full_text.endswith("spans")


def test_estimated_times_are_left_out_until_asked_for(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    flags = np.array([0, SpanFlag.ESTIMATED, SpanFlag.ESTIMATED], np.uint16)
    session.set_trace(builders.spans_trace([0, 10, 20], [5, 15, 25], op=1, flags=flags))
    counted(qtbot, view)
    before, text = column(view, 2)[0], view.estimated.text()

    view.estimated.setChecked(True)
    qtbot.waitUntil(lambda: column(view, 2)[0] != before)

    assert before == "5 ns"
    assert text == "Include estimated spans (2)"
    assert column(view, 2)[0] == "15 ns"
    assert view.model.row(0)[-1].caution


def test_unfinished_only_reads_not_available(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    session.set_trace(
        builders.spans_trace([0], [5], op=1, flags=np.uint16(SpanFlag.UNFINISHED))
    )
    counted(qtbot, view)

    cells = [cell.text for cell in view.model.row(0)]
    assert cells[2:10] == ["N/A"] * 8
    assert "nan" not in " ".join(cells)


def test_column_click_sorts_and_totals_stay_last(
    qtbot: QtBot, view: StatisticsView
) -> None:
    counted(qtbot, view)

    view.table.sortByColumn(1, Qt.SortOrder.AscendingOrder)

    counts = [int(text.replace(",", "")) for text in column(view, 1)]
    assert counts[:-1] == sorted(counts[:-1])
    assert counts[-1] == sum(counts[:-1])
    assert column(view, 0)[-1] == "all"


def test_title_shows_what_rows_are_sorted_by_and_clicks_begin_with_the_largest(
    qtbot: QtBot, view: StatisticsView
) -> None:
    counted(qtbot, view)
    header = view.table.horizontalHeader()

    def titles() -> list[str]:
        across = Qt.Orientation.Horizontal
        return [view.model.headerData(i, across) for i in range(header.count())]

    def click(title: str) -> list[str]:
        [section] = [i for i, t in enumerate(titles()) if t.split(" ")[0] == title]
        x = header.sectionViewportPosition(section) + header.sectionSize(section) // 2
        at = QPoint(x, header.height() // 2)
        QTest.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=at)
        return column(view, section)[:-1]

    assert [title for title in titles() if " ▾" in title] == ["total ▾"]

    counts = [int(text.replace(",", "")) for text in click("count")]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]
    assert [title for title in titles() if " ▾" in title] == ["count ▾"]

    counts = [int(text.replace(",", "")) for text in click("count")]
    assert counts == sorted(counts)
    names = click("op")
    assert names == sorted(names, key=str.casefold)


def test_ctrl_c_copies_plain_ticks(qtbot: QtBot, view: StatisticsView) -> None:
    counted(qtbot, view)

    QTest.keyClick(view.table, Qt.Key.Key_C, CTRL)

    lines = [
        line.split("\t") for line in QGuiApplication.clipboard().text().splitlines()
    ]
    assert lines[0][:3] == ["op", "count", "total (ns)"]
    assert view.result is not None
    assert lines[1][2] == str(view.result.rows[0].total)


def test_ctrl_shift_c_copies_markdown(qtbot: QtBot, view: StatisticsView) -> None:
    counted(qtbot, view)
    # Clicked, for `selectRow` heeds modifiers that a test before left pressed.
    place = view.table.visualRect(view.model.index(0, 0)).center()
    QTest.mouseClick(view.table.viewport(), Qt.MouseButton.LeftButton, pos=place)

    QTest.keyClick(view.table, Qt.Key.Key_C, CTRL | SHIFT)

    lines = QGuiApplication.clipboard().text().splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("| MUL_MAT |")


def test_spans_at_the_edges_count_whole_and_the_part_inside_apart(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    session.set_trace(builders.spans_trace([0, 10, 20, 30], [10, 20, 30, 40], op=1))
    session.ranges.set_marked(MarkedRange(TimeRange(15, 30)))
    counted(qtbot, view)

    shown = {
        title: column(view, title)[0]
        for title in ("count", "total", "share", "in range", "mean", "min", "max")
    }
    assert list(shown.values()) == [
        "2", "20 ns", "100.0 %", "15 ns", "10 ns", "10 ns", "10 ns",
    ]  # fmt: skip
    assert "cut spans count whole" in view.about.full_text


def test_whole_trace_has_no_column_for_what_lies_in_a_range(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)
    whole = [heading.title for heading in view.model.headings]

    view.table.sortByColumn(whole.index("mean"), Qt.SortOrder.AscendingOrder)
    session.ranges.set_marked(MarkedRange(TimeRange(0, 448_600)))
    counted(qtbot, view)

    part = [heading.title for heading in view.model.headings]
    assert "in range" not in whole
    assert [title for title in part if title != "in range"] == whole
    # The rows stay sorted by the same column, which is another one by its number.
    header = view.table.horizontalHeader()
    assert header.sortIndicatorSection() == part.index("mean")
    means = [view.model.row(r)[part.index("mean")].sort for r in range(2)]
    assert means == sorted(means)


def test_switch_counts_the_whole_trace(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    session.ranges.set_marked(MarkedRange(TimeRange(0, 448_600)))
    counted(qtbot, view)

    view.head.switch.all.click()
    qtbot.waitUntil(lambda: view.about.full_text.startswith("whole trace"))

    assert session.trace is not None
    assert view.result is not None
    assert list(view.result.rows) == statistics(session.trace, "op")


def test_weights_are_a_grouping_whose_header_says_the_rule(
    qtbot: QtBot, view: StatisticsView
) -> None:
    counted(qtbot, view)

    view.by.setCurrentIndex(view.by.findData("tensor"))
    counted(qtbot, view)

    heading = view.model.headings[0]
    assert heading.title == "weight"
    assert heading.tip == GROUPING_RULES["tensor"]
    assert "no weight" in column(view, 0)


def test_hidden_pane_does_not_count(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)
    view.hide()

    session.ranges.set_marked(MarkedRange(TimeRange(0, 1_000)))
    assert is_settled(view)

    view.show()
    counted(qtbot, view)
    assert view.about.full_text.startswith("marked range 1.000 µs")


def test_range_without_spans_says_so(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    trace = builders.spans_trace([0, 5_000], [10, 5_010], op=1, lane=[0, 1])
    session.set_trace(trace)
    session.ranges.set_marked(MarkedRange(TimeRange(100, 200)))
    counted(qtbot, view)

    assert Page(view).is_empty
    assert Page(view).placeholder.startswith("No op is in this range.")
    none = Page(view).placeholder
    session.ranges.set_marked(MarkedRange(TimeRange(0, 200)))
    session.queries.set_filter(Filter(text="no such thing"))
    counted(qtbot, view)
    qtbot.waitUntil(lambda: Page(view).placeholder != none)
    of_filter = Page(view).placeholder
    session.queries.set_filter(Filter())
    key = next(lane.key for lane in session.index.lanes if 1 in lane.lane_ids)
    session.ranges.set_marked(MarkedRange(TimeRange(0, 200), frozenset({key})))
    counted(qtbot, view)
    qtbot.waitUntil(lambda: Page(view).placeholder != of_filter)
    assert Page(view).is_empty
    of_lane = Page(view).placeholder
    assert new_statement(none, of_filter + of_lane)
    assert new_statements(of_lane, none + of_filter)


def test_ops_without_a_record_are_reported_as_the_graph_shows_them(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    def shown(trace: Trace) -> str:
        session.set_trace(trace)
        counted(qtbot, view)
        return "\n".join(texts_of_widgets(view))

    silent = shown(joined())
    assert new_statements(silent, shown(joined(ops=("MUL", "MUL_MAT", "MUL_MAT"))))


def test_extra_column_is_in_the_table_and_its_figure(
    qtbot: QtBot,
    view: StatisticsView,
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_spread(monkeypatch)

    view.recount()
    counted(qtbot, view)

    titles = [heading.title for heading in view.model.headings]
    place = titles.index("spread")
    assert titles[place - 1] == "max"
    rows = statistics(session.trace, "op")
    values = [view.model.row(i)[place].sort for i in range(len(rows))]
    assert values == [row.max - row.min for row in rows]
    view.table.sortByColumn(place, Qt.SortOrder.DescendingOrder)
    assert view._measure() == "spread"


def test_theme_change_recolours_the_squares(qtbot: QtBot, view: StatisticsView) -> None:
    counted(qtbot, view)

    view.set_theme(theme("light"))

    assert view.model.theme is theme("light")
    assert not view.grab().isNull()


def test_released_view_counts_no_more(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)
    view.release()

    session.ranges.set_marked(MarkedRange(TimeRange(0, 5)))

    assert is_settled(view)


# -- while something is going on ---------------------------------------------


def test_partial_trace_is_not_counted(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)
    trace = builders.llama_like_trace(tokens=2, layers=2)

    session.set_trace(replace(trace, pending=frozenset({"spans", "names"})))
    view.recount()

    assert Page(view).is_empty
    assert Page(view).placeholder.startswith("Still reading…")
    assert f"{len(trace.spans)} spans so far" in Page(view).placeholder
    assert not session.tasks.is_running("statistics")
    reading = Page(view).placeholder
    session.set_trace(replace(trace, pending=frozenset({"names"})))
    session.viewport.set_visible(TimeRange(-20, -10))
    qtbot.waitUntil(lambda: Page(view).placeholder != reading)
    assert new_statements(reading, Page(view).placeholder)


def test_all_spans_are_counted_before_their_accesses_are_known(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    trace = builders.llama_like_trace(tokens=2, layers=2)

    session.set_trace(replace(trace, pending=frozenset({"names", "accesses"})))
    counted(qtbot, view)

    assert not Page(view).is_empty
    titles = [heading.title for heading in view.model.headings]
    assert set(column(view, titles.index("bytes"))) == {"…"}


def test_old_figures_are_greyed_until_the_new_ones_are_there(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)
    figures = column(view, 2)
    session.tasks.hold(True)

    session.ranges.set_marked(MarkedRange(TimeRange(0, 448_600)))
    qtbot.waitUntil(lambda: view.model.is_stale)

    assert column(view, 2) == figures
    assert view.about.full_text == "counting …"
    index = view.model.index(0, 2)
    grey = view.model.data(index, Qt.ItemDataRole.ForegroundRole)
    assert grey.rgb() & 0xFFFFFF == theme("dark").faint & 0xFFFFFF

    session.tasks.hold(False)
    counted(qtbot, view)

    assert not view.model.is_stale
    assert column(view, 2) != figures
    assert view.about.full_text.startswith("marked range ")


def test_cancelled_count_keeps_the_old_figures(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)
    figures, about = column(view, 2), view.about.full_text

    session.tasks.hold(True)
    view.by.setCurrentIndex(view.by.findData("layer"))
    qtbot.waitUntil(lambda: view.model.is_stale)
    session.tasks.cancel("statistics")
    session.tasks.hold(False)
    qtbot.waitUntil(lambda: not view.model.is_stale)

    assert column(view, 2) == figures
    assert view.about.full_text == about


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ((0, SpanFlag.ESTIMATED), "Include estimated spans (1)"),
        ((0, SpanFlag.UNFINISHED), "Include unfinished spans (1)"),
        (
            (SpanFlag.ESTIMATED, SpanFlag.UNFINISHED),
            "Include estimated and unfinished spans (2)",
        ),
        ((0, 0), "Include estimated spans"),
    ],
)
def test_box_names_what_it_includes(
    qtbot: QtBot,
    view: StatisticsView,
    session: Session,
    flags: tuple[int, int],
    text: str,
) -> None:
    session.set_trace(
        builders.spans_trace([0, 10], [5, 15], op=1, flags=np.array(flags, np.uint16))
    )
    counted(qtbot, view)

    assert view.estimated.text() == text


def test_narrow_pane_takes_more_lines_and_elides_with_a_tooltip(
    qtbot: QtBot, view: StatisticsView
) -> None:
    counted(qtbot, view)
    assert view.head.n_lines == 1
    assert view.about.text() == view.about.full_text

    view.resize(200, 300)
    qtbot.waitUntil(lambda: view.about.text().endswith("…"))

    assert view.head.n_lines > 1
    assert view.about.toolTip() == view.about.full_text
    for child in (view.about, view.estimated, view.by):
        right = child.mapTo(view, child.rect().topRight()).x()
        assert right <= view.width()


def test_many_groups_are_cut_and_it_is_reported(
    qtbot: QtBot, view: StatisticsView, monkeypatch: pytest.MonkeyPatch
) -> None:
    view.by.setCurrentIndex(view.by.findData("layer"))
    counted(qtbot, view)
    all_of_them = view.about.full_text
    view.by.setCurrentIndex(view.by.findData("op"))
    monkeypatch.setattr(counting, "MAX_ROWS", 2)
    counted(qtbot, view)

    view.by.setCurrentIndex(view.by.findData("layer"))
    counted(qtbot, view)

    assert view.model.rowCount() == 3
    assert "the 2 largest of 4 groups" in view.about.full_text
    assert new_statement(view.about.full_text, all_of_them)
    assert view.result is not None
    assert column(view, 1)[-1] == str(view.result.n_spans)


def shown_cells(view: StatisticsView, row: int = 0) -> dict[str, str]:
    """Return the texts of a row by the titles of their columns."""
    titles = [heading.title for heading in view.model.headings]
    texts = [cell.text for cell in view.model.row(row)]
    return dict(zip(titles, texts, strict=True))


def test_self_and_busy_time_stand_where_times_are_counted_twice(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    session.set_trace(builders.spans_trace([0, 10], [100, 30], op=1))
    counted(qtbot, view)

    cells = shown_cells(view)
    assert [cells[name] for name in ("total", "self", "busy")] == [
        "120 ns",
        "100 ns",
        "100 ns",
    ]

    session.set_trace(builders.spans_trace([0, 100], [100, 130], op=1))
    counted(qtbot, view)

    assert not {"self", "busy"} & set(shown_cells(view))


def test_slowest_token_is_the_one_with_the_longest_span(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    # Of two tokens the second one has less work and takes longer.
    session.set_trace(token_trace([(0, 100, 90), (100, 400, 20)]))
    view.by.setCurrentIndex(view.by.findData("token"))
    counted(qtbot, view)
    qtbot.waitUntil(lambda: "latency" in shown_cells(view))

    cells = shown_cells(view)
    assert [cells[name] for name in ("token", "latency", "busy", "idle")] == [
        "1",
        "300 ns",
        "20 ns",
        "280 ns",
    ]
    titles = [heading.title for heading in view.model.headings]
    view.table.sortByColumn(titles.index("busy"), Qt.SortOrder.DescendingOrder)
    assert column(view, 0) == ["0", "1", "all"]

    # Ops that a filter leaves out may run in what would look idle.
    session.queries.set_filter(Filter(ops=frozenset({"NO_SUCH_OP"})))
    session.queries.set_filter(Filter(min_duration=15))
    qtbot.waitUntil(lambda: view.about.full_text.endswith("filtered"))
    counted(qtbot, view)
    assert shown_cells(view)["idle"] == "N/A"
    assert shown_cells(view)["latency"] == "100 ns"


def test_sorting_stays_with_its_column_when_others_come(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    session.set_trace(
        builders.spans_trace([0, 10, 40, 90], [10, 40, 90, 95], op=[1, 1, 2, 2])
    )
    counted(qtbot, view)
    titles = [heading.title for heading in view.model.headings]
    view.table.sortByColumn(titles.index("max"), Qt.SortOrder.AscendingOrder)
    assert column(view, titles.index("max"))[:-1] == ["30 ns", "50 ns"]

    session.ranges.set_marked(MarkedRange(TimeRange(5, 92)))
    counted(qtbot, view)

    titles = [heading.title for heading in view.model.headings]
    assert "in range" in titles
    assert view.model.sorted_by[0] == titles.index("max")
    assert view.table.horizontalHeader().sortIndicatorSection() == titles.index("max")
    assert column(view, titles.index("max"))[:-1] == ["30 ns", "50 ns"]


def test_ops_that_no_record_reports_are_rows_of_their_own(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)
    shown = column(view, 0)
    join = MatchReport(
        "graph", "graph.json", 5, 5, n_nodes=8, unrecorded={"CONV_2D": 3}
    )
    session.set_trace(replace(session.trace, joins=(join,)))
    qtbot.waitUntil(lambda: "CONV_2D" in column(view, 0))

    row = column(view, 0).index("CONV_2D")
    texts = [cell.text for cell in view.model.row(row)]
    assert texts[1] == "3"
    assert set(texts[2:-1]) == {"N/A"}
    assert texts[-1].startswith("not recorded")
    assert set(column(view, 0)) == {*shown, "CONV_2D"}

    session.queries.set_filter(Filter(ops=frozenset({"MUL_MAT"})))
    qtbot.waitUntil(lambda: column(view, 0) == ["MUL_MAT", "all"])


def drawn(figure: Figure | None) -> tuple[list[str], str]:
    assert figure is not None
    made = figure.draw(figure.style)
    return texts_of(made.picture), made.caption


def test_figure_is_of_what_is_counted_by_the_column_it_is_sorted_by(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)
    titles = [h.title for h in view.model.headings]
    whole = view.figure()
    view.table.sortByColumn(titles.index("p99"), Qt.SortOrder.DescendingOrder)
    session.ranges.set_marked(MarkedRange(TimeRange(0, 448_600)))
    session.queries.set_filter(Filter(ops=frozenset({"MUL_MAT"})))
    counted(qtbot, view)
    part = view.figure()
    assert part is not None

    assert "sum of the durations, share" in drawn(whole)[0]
    texts, caption = drawn(part)
    assert "99 % take no longer than" in texts
    assert [t for t in texts if t.isupper()] == ["MUL_MAT"]
    assert "that touch 0.0 µs – 448.6 µs (448.6 µs), that pass op=MUL_MAT" in caption
    assert part.recipe is not None
    assert part.recipe.options == {"measure": "p99", "visible": [0, 448_600]}


def test_figure_of_some_lanes_says_that_the_command_has_all(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    def lacks() -> str:
        counted(qtbot, view)
        figure = view.figure()
        assert figure is not None
        assert figure.recipe is not None
        return " ".join(figure.recipe.lacks)

    assert session.index is not None
    every = lacks()
    key = next(lane.key for lane in session.index.lanes if lane.title == "thread 0")
    session.ranges.set_marked(MarkedRange(TimeRange(0, 448_600), frozenset({key})))

    assert new_statement(lacks(), every)


def test_no_figure_before_anything_is_counted(qtbot: QtBot, qapp: QApplication) -> None:
    session = Session()
    view = StatisticsView(session, theme("light"))
    qtbot.addWidget(view)

    assert view.figure() is None
    session.close()


# -- rows that can be gone to ------------------------------------------------------


def row_place(view: StatisticsView, row: int) -> QPoint:
    return view.table.visualRect(view.model.index(row, 0)).center()


def click_row(view: StatisticsView, row: int, double: bool = False) -> None:
    viewport, left = view.table.viewport(), Qt.MouseButton.LeftButton
    QTest.mouseClick(viewport, left, pos=row_place(view, row))
    if double:
        QTest.mouseDClick(viewport, left, pos=row_place(view, row))


def test_click_lights_the_spans_of_a_row(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    session.ranges.set_marked(MarkedRange(TimeRange(0, 2_000_000)))
    counted(qtbot, view)
    assert view.result is not None
    row = view.result.rows[1]

    click_row(view, 1)

    assert session.selection.current.group is not None
    assert session.selection.current.group.key == row.key
    assert (
        session.linking.linked.n_spans == row.count == len(session.linking.linked.spans)
    )
    trace = session.trace
    assert trace is not None
    ops = {trace.op_name(int(i)) for i in trace.spans.op[session.linking.linked.spans]}
    assert ops == {row.key}
    assert view.table.selected_rows() == [1]


def test_rows_stay_what_they_are_while_one_walks_through_them(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    session.viewport.set_visible(TimeRange(0, 2_000_000))
    counted(qtbot, view)
    result = view.result
    keys = column(view, 0)
    view.table.setFocus()
    click_row(view, 0)

    for row in range(1, 4):
        QTest.keyClick(view.table, Qt.Key.Key_Down)
        QTest.keyClick(view.table, Qt.Key.Key_Return)
        qtbot.wait(150)  # longer than the rest before figures are counted anew

        assert session.selection.current.group is not None
        assert session.selection.current.group.key == keys[row]
        assert column(view, 0) == keys
    assert view.result is result


def test_enter_goes_to_the_longest_span_and_on_to_the_next(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)
    assert view.result is not None
    assert session.trace is not None
    row, spans = view.result.rows[0], session.trace.spans
    op = next(i for i in range(200) if session.trace.op_name(i) == row.key)
    ids = np.flatnonzero(spans.op == op)
    in_time = ids[np.argsort(spans.start[ids], kind="stable")].tolist()
    click_row(view, 0)
    view.table.setFocus()

    QTest.keyClick(view.table, Qt.Key.Key_Return)
    longest = session.linking.current_span
    assert longest is not None
    assert spans.end[longest] - spans.start[longest] == row.max
    assert session.viewport.visible.duration < 2 * row.max

    at = in_time.index(longest)
    for modifier, step in ((Qt.KeyboardModifier.NoModifier, 1), (SHIFT, -1)):
        QTest.keyClick(view.table, Qt.Key.Key_Return, modifier)
        at = (at + step) % len(in_time)
        assert session.linking.current_span == in_time[at]
    QTest.keyClick(view.table, Qt.Key.Key_Return, SHIFT)
    assert session.linking.current_span == in_time[at - 1]


@pytest.mark.parametrize("by", ["op", "name", "layer", "tensor", "token", "thread"])
def test_double_click_filters_by_the_row_and_back_takes_it_away(
    qtbot: QtBot, view: StatisticsView, session: Session, by: str
) -> None:
    view.by.setCurrentIndex(view.by.findData(by))
    counted(qtbot, view)
    assert view.result is not None
    row = view.result.rows[0]

    click_row(view, 0, double=True)
    qtbot.waitUntil(lambda: column(view, 0) == [row.key, "all"])

    assert session.queries.filter
    assert view.result.rows[0].count == row.count
    assert view.result.rows[0].total == row.total
    session.navigator.back()
    assert not session.queries.filter


def test_ctrl_enter_filters_as_a_double_click_does(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)
    key = column(view, 0)[1]
    click_row(view, 1)
    view.table.setFocus()

    QTest.keyClick(view.table, Qt.Key.Key_Return, CTRL)

    assert session.queries.filter == Filter(ops=frozenset({key}))


def test_by_expert_it_says_that_ops_count_for_each(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    stack = TensorRow("blk.0.ffn_up_exps.weight", 500, 103, 0, n_experts=4)
    ops = [Op(t, (Read(0, 103),), token=t // 10) for t in (0, 10)]
    session.set_trace(reads_trace((stack,), ops, {(0, 0): (1, 3), (1, 0): (3,)}))
    view.by.setCurrentIndex(view.by.findData("expert"))
    counted(qtbot, view)

    assert view.about.full_text.startswith("whole trace · 3 pairs of op and expert")
    assert column(view, 0) == ["3", "1", "all"]
    assert column(view, "total")[-1] == "20 ns"  # of two ops


def test_bar_under_a_share_is_as_long_as_the_share(
    qtbot: QtBot, view: StatisticsView
) -> None:
    counted(qtbot, view)
    titles = [heading.title for heading in view.model.headings]
    place = titles.index("share")
    assert view.result is not None
    bars = [view.model.row(i)[place].bar for i in range(len(view.result.rows))]
    assert bars == [row.share for row in view.result.rows]

    # The picture as well: bar of the longest row against that of a shorter one.
    def length(row: int) -> int:
        box = view.table.visualRect(view.model.index(row, place))
        picture = view.table.viewport().grab(box).toImage()
        accent = theme("dark").accent & 0xFFFFFF
        y = picture.height() - round(picture.devicePixelRatio()) * 2
        return sum(
            picture.pixel(x, y) & 0xFFFFFF == accent for x in range(picture.width())
        )

    assert length(0) > 10
    assert length(1) / length(0) == pytest.approx(bars[1] / bars[0], abs=0.05)


def test_header_says_what_rows_add_up_to(qtbot: QtBot, view: StatisticsView) -> None:
    for by in ("op", "tensor"):
        view.by.setCurrentIndex(view.by.findData(by))
        counted(qtbot, view)
        tips = {heading.title: heading.tip for heading in view.model.headings}
        rule = GROUPING_RULES.get(by, "Each span counts in one row; the rows add up.")
        assert rule in tips["total"]
        assert rule in tips["share"]
        assert view.result is not None
        rows = view.result.rows
        assert sum(row.total for row in rows) == view.result.table.all.total


def test_row_of_the_group_is_marked_wherever_sorting_puts_it(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)
    click_row(view, 0)
    key = column(view, 0)[0]

    view.table.sortByColumn(0, Qt.SortOrder.DescendingOrder)

    (row,) = view.table.selected_rows()
    assert column(view, 0)[row] == key
    session.selection.select_span(1)
    assert view.table.selected_rows() == []


def test_figures_of_selected_spans_stay_when_a_row_is_clicked(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    session.selection.select(Selection("spans", (1, 2, 3, 4, 5)))
    counted(qtbot, view)
    keys = column(view, 0)

    click_row(view, 0)
    qtbot.wait(150)

    assert column(view, 0) == keys
    assert session.linking.linked.n_spans == int(column(view, 1)[0])


def menu_of(view: StatisticsView, row: int) -> dict[str, QAction]:
    menu = QMenu(view)
    view.table.menu_requested.emit(menu, row)
    values = {a.text(): a for a in menu.actions() if a.text()}
    for action in list(values.values()):
        inner = action.menu()
        if isinstance(inner, QMenu):
            values |= {f"{action.text()} {a.text()}": a for a in inner.actions()}
    return values


def test_menu_filters_lists_and_drills_down(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)
    key = column(view, 0)[0]
    shown: list[object] = []
    session.navigator.view_requested.connect(shown.append)

    menu = menu_of(view, 0)
    menu[f"Statistics of {key} by layer"].trigger()
    counted(qtbot, view)

    assert session.queries.filter == Filter(ops=frozenset({key}))
    assert view.by.currentData() == "layer"
    assert f"Add {key} to the filter" not in menu

    menu = menu_of(view, 1)
    layer = int(column(view, 0)[1])
    menu["List in the table"].trigger()
    assert session.queries.filter == Filter(
        ops=frozenset({key}), layers=frozenset({layer})
    )
    assert shown == ["table"]

    counted(qtbot, view)
    menu = menu_of(view, 0)
    menu[f"Show only {layer}"].trigger()
    assert session.queries.filter == Filter(layers=frozenset({layer}))


def test_rows_that_are_no_spans_cannot_be_gone_to(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)
    last = view.model.rowCount() - 1

    click_row(view, last)

    assert not session.selection.current
    assert menu_of(view, last) == {}


def test_first_column_stays_in_sight_and_sorts(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    view.resize(500, 300)
    counted(qtbot, view)
    bar = view.table.horizontalScrollBar()
    assert bar.maximum() > 0
    before = view.table.viewport().grab().toImage()
    width = view.table.columnWidth(0)

    bar.setValue(bar.maximum())
    after = view.table.viewport().grab().toImage()

    assert view.table.pinned_width() == width
    same = [
        before.pixel(x, y) == after.pixel(x, y)
        for x in range(0, width - 2, 3)
        for y in range(0, 120, 3)
    ]
    assert all(same)
    header = view.table.horizontalHeader()
    at = QPoint(20, header.height() // 2)
    QTest.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert column(view, 0)[:-1] == sorted(column(view, 0)[:-1], key=str.casefold)


def test_columns_are_no_wider_than_they_need_when_others_come(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    def widths() -> dict[str, int]:
        titles = [heading.title for heading in view.model.headings]
        return {t: view.table.columnWidth(i) for i, t in enumerate(titles)}

    counted(qtbot, view)
    titles = list(widths())
    view.table.setColumnWidth(titles.index("mean"), 240)
    before = widths()
    digits = QFontMetrics(view.table.font()).horizontalAdvance("9,999")
    assert before["count"] < 2 * digits + 40

    session.ranges.set_marked(MarkedRange(TimeRange(5, 3_000_000)))
    counted(qtbot, view)

    after = widths()
    assert "in range" in after
    assert "in range" not in before
    # Those that were there stay as wide, the others have their own width.
    values = [t for t in before if t not in ("op", "in range")]
    assert {t: after[t] for t in values} == {t: before[t] for t in values}


def offered(view: StatisticsView) -> list[str]:
    return [view.by.itemData(i) for i in range(view.by.count())]


def test_groupings_are_those_that_the_trace_has(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)
    assert {"op", "layer", "token", "thread", "phase", "tensor"} <= set(offered(view))
    assert "engine" not in offered(view)

    session.set_trace(builders.npu_like_trace())
    counted(qtbot, view)
    assert {"engine", "lane"} <= set(offered(view))
    assert "thread" not in offered(view)
    # Each of them has groups.
    for by in offered(view):
        view.by.setCurrentIndex(view.by.findData(by))
        counted(qtbot, view)
        assert len(column(view, 0)) > 1, by


def test_trace_without_ops_is_counted_by_lane(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    session.set_trace(replace(builders.spans_trace([0, 20], [10, 50]), ops=None))
    counted(qtbot, view)

    assert offered(view) == ["lane"]
    assert column(view, "count") == ["2", "2"]


def test_grouping_stays_with_the_next_trace_that_has_it(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    counted(qtbot, view)
    view.by.setCurrentIndex(view.by.findData("lane"))

    session.set_trace(builders.npu_like_trace())
    counted(qtbot, view)

    assert view.by.currentData() == "lane"


# -- two groupings -----------------------------------------------------------------


@pytest.fixture
def pivoted(qtbot: QtBot, view: StatisticsView) -> StatisticsView:
    view.by.setCurrentIndex(view.by.findData("layer"))
    view.head.across.setCurrentIndex(view.head.across.findData("op"))
    counted(qtbot, view)
    qtbot.waitUntil(view.pivot.isVisible)
    return view


def click_cell(
    view: StatisticsView, row: int, column: int, double: bool = False
) -> None:
    viewport, left = view.pivot.viewport(), Qt.MouseButton.LeftButton
    view.pivot.scrollTo(view.pivot_model.index(row, column))
    place = view.pivot.visualRect(view.pivot_model.index(row, column)).center()
    QTest.mouseClick(viewport, left, pos=place)
    if double:
        QTest.mouseDClick(viewport, left, pos=place)


def test_pivot_table_shows_every_cell_and_the_sums(
    pivoted: StatisticsView, session: Session
) -> None:
    assert session.trace is not None
    table = pivot(session.trace, "layer", "op")
    model = pivoted.pivot_model
    titles = [heading.title for heading in model.headings]
    assert titles == ["layer ↓ op →", *table.columns, "all"]
    QAbstractItemModelTester(
        model, QAbstractItemModelTester.FailureReportingMode.Fatal, pivoted
    )
    totals = table.values("total")
    for r in range(model.rowCount()):
        for c, cell in enumerate(model.row(r)[1:]):
            expected = totals[r, c]
            assert cell.sort == (None if np.isnan(expected) else expected)
    assert [row[0].text for row in map(model.row, range(5))] == [*"0123", "all"]
    heats = [cell.heat for cell in model.row(0)[1:-1]]
    hottest = np.nanmax(totals[:-1, :-1])
    assert heats == [0 if np.isnan(v) else v / hottest for v in totals[0, :-1]]
    assert model.row(0)[-1].heat is None
    assert model.row(4)[1].heat is None


def test_cells_of_a_pivot_table_are_what_is_chosen(
    pivoted: StatisticsView, session: Session
) -> None:
    table = pivoted.pivot_shown()
    assert table is not None
    assert pivoted.head.cells.isVisible()

    for measure in PIVOT_MEASURES:
        pivoted.head.cells.setCurrentIndex(pivoted.head.cells.findData(measure))
        last = pivoted.pivot_model.row(4)[-1]
        assert last.sort == table.values(measure)[-1, -1]

    pivoted.head.across.setCurrentIndex(0)
    assert not pivoted.head.cells.isVisible()


def test_click_on_a_cell_lights_the_spans_of_both(
    qtbot: QtBot, pivoted: StatisticsView, session: Session
) -> None:
    table, trace = pivoted.pivot_shown(), session.trace
    assert table is not None
    assert trace is not None

    click_cell(pivoted, 2, 1)

    qtbot.waitUntil(lambda: session.linking.linked.n_spans == table.count[2, 0])
    ids = session.linking.linked.spans
    assert {trace.op_name(int(i)) for i in trace.spans.op[ids]} == {table.columns[0]}
    assert trace.spans.layer is not None
    assert set(trace.spans.layer[ids].tolist()) == {2}

    n_columns = len(table.columns)
    click_cell(pivoted, 2, n_columns + 1)  # all of the row
    qtbot.waitUntil(lambda: session.linking.linked.n_spans == table.count[2, -1])
    click_cell(pivoted, 4, 1)  # all of the column
    qtbot.waitUntil(lambda: session.linking.linked.n_spans == table.count[-1, 0])


def test_keys_walk_through_cells_and_their_spans(
    qtbot: QtBot, pivoted: StatisticsView, session: Session
) -> None:
    click_cell(pivoted, 1, 1)
    pivoted.pivot.setFocus()
    QTest.keyClick(pivoted.pivot, Qt.Key.Key_Right)
    group = session.selection.current.group
    table = pivoted.pivot_shown()
    assert table is not None
    assert group is not None
    assert (group.key, group.also) == ("1", ("op", table.columns[1]))

    QTest.keyClick(pivoted.pivot, Qt.Key.Key_Down)
    assert session.selection.current.group is not None
    assert session.selection.current.group.key == "2"
    QTest.keyClick(pivoted.pivot, Qt.Key.Key_Return)
    first = session.linking.current_span
    assert first is not None
    QTest.keyClick(pivoted.pivot, Qt.Key.Key_Return)
    assert session.linking.current_span != first


def test_double_click_on_a_cell_filters_by_both(
    qtbot: QtBot, pivoted: StatisticsView, session: Session
) -> None:
    table = pivoted.pivot_shown()
    assert table is not None
    count = table.count[1, 0]

    click_cell(pivoted, 1, 1, double=True)
    qtbot.waitUntil(
        lambda: (
            pivoted.result is not None
            and pivoted.result.n_spans == count
            and pivoted.result.pivot is not None
        )
    )

    assert session.queries.filter == Filter(
        ops=frozenset({table.columns[0]}), layers=frozenset({1})
    )
    session.navigator.back()
    assert not session.queries.filter


def test_cell_stays_marked_where_sorting_puts_it(
    pivoted: StatisticsView, session: Session
) -> None:
    click_cell(pivoted, 1, 2)
    group = session.selection.current.group

    for order in (Qt.SortOrder.DescendingOrder, Qt.SortOrder.AscendingOrder):
        pivoted.pivot.sortByColumn(1, order)
        (index,) = pivoted.pivot.selectedIndexes()
        assert pivoted.group_at(index) == group
        values = [pivoted.pivot_model.row(r)[1].sort for r in range(4)]
        assert values == sorted(values, reverse=order is Qt.SortOrder.DescendingOrder)


def test_pivot_table_is_copied_as_plain_numbers(
    pivoted: StatisticsView, session: Session
) -> None:
    table = pivoted.pivot_shown()
    assert table is not None
    pivoted.copy_tsv()

    lines = [
        line.split("\t") for line in QGuiApplication.clipboard().text().splitlines()
    ]
    assert lines[0][1] == f"{table.columns[0]} (ns)"
    expected = table.total[:, 0].tolist()
    assert [int(line[1]) for line in lines[1:]] == expected
    file = pivoted.table_file()
    assert file is not None
    assert "time by layer and op" in file.what


def test_columns_offered_are_those_that_can_be_crossed(
    qtbot: QtBot, view: StatisticsView
) -> None:
    counted(qtbot, view)
    for i in range(view.by.count()):
        view.by.setCurrentIndex(i)
        box = view.head.across
        offered = [box.itemData(k) for k in range(box.count())]
        assert offered[0] is None
        assert view.by.currentData() not in offered
        if view.by.currentData() in SHARING:
            assert not set(offered) & set(SHARING)


def test_menu_of_a_cell_filters_by_it(
    qtbot: QtBot, pivoted: StatisticsView, session: Session
) -> None:
    table = pivoted.pivot_shown()
    assert table is not None
    click_cell(pivoted, 1, 1)
    menu = QMenu()
    pivoted.pivot.menu_requested.emit(menu, 1)
    actions = {action.text(): action for action in menu.actions()}

    actions[f"Show only 1 · {table.columns[0]}"].trigger()

    assert session.queries.filter.layers == frozenset({1})
    assert session.queries.filter.ops == frozenset({table.columns[0]})
