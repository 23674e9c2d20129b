"""The histogram beside the statistics: what it shows, and that dragging filters."""

from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import builders
from ggscope.analysis.statistics.amounts import AMOUNTS, amounts
from ggscope.analysis.statistics.distribution import Bars
from ggscope.model.selection import Filter, MarkedRange
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.charts import ChartGeometry
from ggscope.render.distribution import DistributionScene, distribution_chart, edges_px
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.statistics.histogram import HistogramView
from ggscope.views.statistics.view import StatisticsView

SHIFT = Qt.KeyboardModifier.ShiftModifier
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(builders.llama_like_trace(tokens=4, layers=4, threads=2))
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> StatisticsView:
    view = StatisticsView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1400, 400)
    view.show()
    qtbot.waitExposed(view)
    view.head.histogram.click()
    qtbot.waitUntil(lambda: view.histogram.distribution is not None)
    settle(qtbot, view)
    return view


def settle(qtbot: QtBot, view: StatisticsView) -> None:
    qtbot.waitUntil(
        lambda: (
            view.session.tasks.is_idle
            and view.result is not None
            and view.result.scope == view.scope()
            and view.result.where == view.session.queries.filter
            and view.histogram.distribution is not None
        )
    )
    qtbot.wait(20)
    qtbot.waitUntil(lambda: view.session.tasks.is_idle)


def scene_of(histogram: HistogramView) -> DistributionScene:
    scene = histogram.scene_now()
    assert isinstance(scene, DistributionScene)
    return scene


def place(histogram: HistogramView, bar: int) -> QPoint:
    """Return the middle of a bar, in pixels of the canvas."""
    scene = scene_of(histogram)
    geometry = ChartGeometry(distribution_chart(scene, scene.bars))
    edges = edges_px(scene, scene.bars, geometry)
    middle = (edges[bar] + edges[bar + 1]) / 2
    return QPoint(round(middle), round((geometry.top + geometry.bottom) / 2))


def drag(histogram: HistogramView, first: int, last: int) -> None:
    canvas = histogram.canvas
    a, b = place(histogram, first), place(histogram, last)
    QTest.mousePress(canvas, LEFT, pos=a)
    for share in (0.3, 0.7, 1.0):
        QTest.mouseMove(canvas, a + (b - a) * share)
    QTest.mouseRelease(canvas, LEFT, pos=b)


def trace_of(session: Session) -> Trace:
    assert session.trace is not None
    return session.trace


@pytest.mark.parametrize("is_log", [True, False])
@pytest.mark.parametrize("of", AMOUNTS)
def test_drag_filters_by_what_the_bars_hold_and_back_takes_it_away(
    qtbot: QtBot, view: StatisticsView, session: Session, of: str, is_log: bool
) -> None:
    histogram = view.histogram
    histogram.of_box.setCurrentIndex(histogram.of_box.findData(of))
    histogram.axis_box.setCurrentIndex(histogram.axis_box.findData(is_log))
    qtbot.waitUntil(
        lambda: histogram.distribution is not None and histogram.distribution.of == of
    )
    if histogram.scene_now() is None:
        pytest.skip("the trace has none of it")
    bars: Bars = scene_of(histogram).bars
    first, last = sorted((len(bars.counts) // 3, 2 * len(bars.counts) // 3))
    expected = int(bars.counts[first : last + 1].sum())

    drag(histogram, first, last)
    low, high = int(bars.edges[first]), int(bars.edges[last + 1]) - 1
    result = session.queries.filter
    assert getattr(result, f"min_{of}") == low
    assert getattr(result, f"max_{of}") == high
    qtbot.waitUntil(lambda: view.session.tasks.is_idle)
    if expected:
        settle(qtbot, view)
        assert histogram.distribution is not None
        assert histogram.distribution.n == expected

    session.navigator.back()
    assert session.queries.filter == Filter()


def test_escape_gives_up_a_drag_then_takes_the_filter_back(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    histogram = view.histogram
    histogram.setFocus()
    canvas = histogram.canvas
    QTest.mousePress(canvas, LEFT, pos=place(histogram, 1))
    QTest.mouseMove(canvas, place(histogram, 4))
    assert histogram.marked == (1, 5)
    QTest.keyClick(histogram, Qt.Key.Key_Escape)
    assert histogram.marked is None
    QTest.mouseRelease(canvas, LEFT, pos=place(histogram, 4))
    assert not session.queries.filter

    drag(histogram, 1, 4)
    assert session.queries.filter
    settle(qtbot, view)
    QTest.keyClick(histogram, Qt.Key.Key_Escape)
    assert not session.queries.filter


def test_keys_walk_mark_and_filter(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    histogram = view.histogram
    histogram.setFocus()
    bars = scene_of(histogram).bars

    QTest.keyClick(histogram, Qt.Key.Key_Right)
    assert histogram.bar == 0
    QTest.keyClick(histogram, Qt.Key.Key_Right)
    QTest.keyClick(histogram, Qt.Key.Key_Right, SHIFT)
    QTest.keyClick(histogram, Qt.Key.Key_Right, SHIFT)
    assert histogram.marked == (1, 4)
    assert str(int(bars.counts[1:4].sum())) in histogram.accessibleDescription()
    QTest.keyClick(histogram, Qt.Key.Key_Left, SHIFT)
    assert histogram.marked == (1, 3)
    QTest.keyClick(histogram, Qt.Key.Key_Return)

    assert session.queries.filter.min_duration == bars.edges[1]
    assert session.queries.filter.max_duration == bars.edges[3] - 1
    session.navigator.back()
    settle(qtbot, view)
    QTest.keyClick(histogram, Qt.Key.Key_End)
    QTest.keyClick(histogram, Qt.Key.Key_Return)
    last = scene_of(histogram).bars if histogram.scene_now() else bars
    assert session.queries.filter.min_duration in last.edges.tolist()


def test_click_puts_the_cursor_and_filters_nothing(
    view: StatisticsView, session: Session
) -> None:
    histogram = view.histogram
    QTest.mouseClick(histogram.canvas, LEFT, pos=place(histogram, 3))

    assert histogram.bar == 3
    assert not session.queries.filter
    tooltip = histogram.tooltip_at(*place(histogram, 3).toTuple())
    count = int(scene_of(histogram).bars.counts[3])
    assert f"{count} span" in tooltip
    assert "Drag to filter" in tooltip


def test_selected_row_is_distinguished(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    place_of_row = view.table.visualRect(view.model.index(1, 0)).center()
    QTest.mouseClick(view.table.viewport(), LEFT, pos=place_of_row)
    assert view.result is not None
    row = view.result.rows[1]
    qtbot.waitUntil(
        lambda: (
            view.histogram.distribution is not None
            and view.histogram.distribution.group is not None
        )
    )
    distribution = view.histogram.distribution
    assert distribution is not None
    assert distribution.own.sum() == row.timed
    assert distribution.bars(is_log=True).own.sum() == row.timed
    assert distribution.n == view.result.table.all.timed

    session.clear_selection()
    qtbot.waitUntil(
        lambda: (
            view.histogram.distribution is not None
            and view.histogram.distribution.group is None
        )
    )


def test_histogram_follows_the_range_and_the_filter(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    whole = view.histogram.distribution
    assert whole is not None
    session.ranges.set_marked(MarkedRange(TimeRange(0, 2_000_000)))
    settle(qtbot, view)
    assert view.result is not None
    marked = view.histogram.distribution
    assert marked is not None
    assert marked.n == view.result.table.all.timed < whole.n

    session.queries.set_filter(Filter(ops=frozenset({"ROPE"})))
    settle(qtbot, view)
    assert view.result is not None
    assert view.histogram.distribution is not None
    assert view.histogram.distribution.n == view.result.table.all.timed < marked.n


def test_hidden_histogram_counts_nothing(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    distribution = view.histogram.distribution
    view.head.histogram.click()
    assert not view.histogram.isVisible()
    session.ranges.set_marked(MarkedRange(TimeRange(0, 2_000_000)))
    settle(qtbot, view)

    assert view.histogram.distribution is distribution


def test_bars_have_the_height_of_their_counts(view: StatisticsView) -> None:
    scene = scene_of(view.histogram)
    bars = scene.bars
    picture = view.histogram.picture(scene.width, scene.height, 1.0)
    geometry = ChartGeometry(distribution_chart(scene, bars))
    tops = geometry.py(bars.counts.astype(float))
    rects = [b for b in picture.batches if type(b).__name__ == "RectBatch"]
    columns = max(rects, key=lambda batch: len(batch.x0))
    known = np.flatnonzero(bars.counts)
    assert len(columns.x0) == len(known)
    expected = np.minimum(tops[known], geometry.bottom - 1.5)
    assert columns.y0 == pytest.approx(expected, abs=0.01)


def test_amount_that_nobody_knows_says_so(
    qtbot: QtBot, view: StatisticsView, session: Session
) -> None:
    trace = builders.spans_trace([0, 10, 20], [5, 15, 25], op=1)
    session.set_trace(trace)
    settle(qtbot, view)
    view.histogram.of_box.setCurrentIndex(view.histogram.of_box.findData("rate"))
    qtbot.waitUntil(
        lambda: (
            view.histogram.distribution is not None
            and view.histogram.distribution.of == "rate"
        )
    )
    amount = amounts(trace_of(session), "rate")(slice(0, 3))
    assert (amount < 0).all()
    assert view.histogram.scene_now() is None
    assert (
        view.histogram.placeholder_text()[0] == "No rate is known of what is counted."
    )
    assert (
        "not 3 whose bytes or time are not known"
        in view.histogram.placeholder_text()[1]
    )


def test_narrow_pane_has_the_histogram_below(view: StatisticsView) -> None:
    def beside() -> bool:
        return view.histogram.mapTo(view, QPoint(0, 0)).x() > 0

    assert beside()
    view.resize(600, 500)
    QApplication.processEvents()
    assert not beside()
    assert view.histogram.height() > 60
