"""Waits and idle time in the window: pointing, clicking, leaving out."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import builders
from ggscope.analysis.rows.lanes import LaneState
from ggscope.analysis.rows.tracks import BUSY_THREADS
from ggscope.model.selection import Gap, MarkedRange, Selection
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, format_duration, format_exact, format_share
from ggscope.render.batch import RectBatch
from ggscope.render.theme import theme
from ggscope.render.timeline.hit_test import Hit
from ggscope.render.timeline.prepare import PrepareRequest
from ggscope.render.timeline.scene import AXIS_HEIGHT, TimelineGeometry
from ggscope.session.session import Session, TraceChange
from ggscope.views.base.canvas import RasterCanvas
from ggscope.views.statistics.view import StatisticsView
from ggscope.views.timeline.legend import WAITS, Legend, LegendRequest
from ggscope.views.timeline.tooltips import tooltip_for
from ggscope.views.timeline.view import TimelineView
from wait_traces import left_out, with_waits

LEFT, PLAIN = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
DURATION, WAIT = 100_000, 300_000
STARTS = [0, 1_000_000, 2_000_000]


def waiting() -> Trace:
    """Return three ops of a thread, each with a wait and idle time behind it."""
    ends = [t + DURATION for t in STARTS]
    trace = builders.spans_trace(STARTS, ends, op=[1, 2, 1])
    return with_waits(trace, [WAIT] * 3)


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(waiting())
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> TimelineView:
    view = TimelineView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1000, 300)
    view.show()
    qtbot.waitExposed(view)
    return view


def canvas(view: TimelineView) -> RasterCanvas:
    canvas = view.findChild(RasterCanvas)
    assert canvas is not None
    return canvas


def place(view: TimelineView, tick: int) -> QPoint:
    """Return the point of the thread's lane at a time."""
    prepared = view.prepared()
    assert prepared is not None
    box = prepared.layout.box_of(prepared.index.lane_of_span(0))
    scene = view.scene(canvas(view).width(), canvas(view).height(), 1.0)
    assert scene is not None
    assert box is not None
    y = AXIS_HEIGHT + box.y + box.row_y[0] + box.row_height / 2
    return QPoint(round(TimelineGeometry(scene).time.x(tick)), round(y))


def hit(view: TimelineView, tick: int) -> Hit:
    at = place(view, tick)
    return view.hit(at.x(), at.y())


def tip(view: TimelineView, tick: int) -> str:
    prepared = view.prepared()
    assert prepared is not None
    per_px = view.ticks_per_px()
    return str(tooltip_for(prepared, view.session, hit(view, tick), per_px))


def click(view: TimelineView, tick: int) -> None:
    QTest.mouseClick(canvas(view), LEFT, PLAIN, place(view, tick))


def test_work_wait_and_idle_time_are_distinguished(view):
    work, wait, gap = hit(view, 50_000), hit(view, 250_000), hit(view, 700_000)

    assert (work.span, work.is_wait, work.gap) == (0, False, None)
    assert (wait.span, wait.is_wait, wait.gap) == (0, True, None)
    assert (gap.span, gap.is_wait) == (-1, False)
    assert gap.gap.time == TimeRange(400_000, 1_000_000)
    assert (gap.gap.before, gap.gap.after) == (0, 1)


def test_nothing_is_idle_before_the_first_and_behind_the_last_span(view):
    view.session.viewport.set_visible(TimeRange(-1_000_000, 4_000_000))

    assert hit(view, -500_000).gap is None
    assert hit(view, 3_500_000).gap is None


def test_tooltip_of_a_wait_names_its_op_thread_length_and_share(view):
    text = tip(view, 250_000)

    assert "MUL_MAT" in text or view.session.trace.op_name(1) in text
    for part in ("thread 0", format_exact(WAIT, "ns"), format_share(0.75)):
        assert part in text


def test_tooltip_of_idle_time_shows_what_ended_and_what_begins(view):
    text, trace = tip(view, 700_000), view.session.trace

    assert format_exact(600_000, "ns") in text
    assert text.index(trace.op_name(1)) < text.index(trace.op_name(2))


def test_header_shows_work_wait_and_idle_time(view):
    prepared = view.prepared()
    at = place(view, 0)
    text = str(
        tooltip_for(prepared, view.session, view.hit(20, at.y()), view.ticks_per_px())
    )

    extent = view.session.trace.extent.duration
    busy, waits = 3 * DURATION / extent, 3 * WAIT / extent
    for share in (busy, waits, 1 - busy - waits):
        assert format_share(share) in text


def test_click_on_a_wait_selects_it(view, session):
    click(view, 1_250_000)

    assert session.selection.current == Selection("waits", (1,))
    assert session.ranges.marked is None
    assert session.navigator.selected_range() == TimeRange(1_100_000, 1_400_000)


def test_click_on_idle_time_selects_and_marks_it_and_a_second_one_ends_that(
    view, session
):
    session.selection.select_span(0)

    click(view, 700_000)
    marked, selected = session.ranges.marked, session.selection.current
    click(view, 800_000)

    time = TimeRange(400_000, 1_000_000)
    assert marked == MarkedRange(time)
    assert selected == Selection("gaps", (0,), gap=Gap(time, 0, 1))
    assert not session.selection.current
    assert session.ranges.marked is None


def test_steps_go_from_wait_to_wait_and_from_gap_to_gap(view, session):
    gaps = [
        Gap(TimeRange(400_000, 1_000_000), 0, 1),
        Gap(TimeRange(1_400_000, 2_000_000), 1, 2),
    ]

    session.selection.select_wait(0)
    waits = [session.selection.current.ids]
    for by in (1, 1, 1, -1):
        session.navigator.step_span(by)
        waits.append(session.selection.current.ids)
    session.selection.select_gap(gaps[0])
    seen = [session.selection.current.gap]
    for by in (1, 1, -1):
        session.navigator.step_span(by)
        seen.append(session.selection.current.gap)

    assert waits == [(0,), (1,), (2,), (2,), (1,)]
    assert seen == [gaps[0], gaps[1], gaps[1], gaps[0]]


def test_double_click_on_a_wait_shows_it_across(view, session):
    QTest.mouseDClick(canvas(view), LEFT, PLAIN, place(view, 1_250_000))

    shown = session.viewport.visible
    assert session.selection.current == Selection("waits", (1,))
    assert shown.start <= 1_100_000
    assert shown.end >= 1_400_000
    assert shown.duration < 600_000


@pytest.mark.parametrize(
    ("tick", "selection", "time"),
    [
        (1_250_000, Selection("waits", (1,)), TimeRange(1_100_000, 1_400_000)),
        (
            700_000,
            Selection("gaps", (0,), gap=Gap(TimeRange(400_000, 1_000_000), 0, 1)),
            TimeRange(400_000, 1_000_000),
        ),
    ],
)
def test_menu_of_a_wait_and_of_idle_time_selects_and_marks_it(
    view, session, tick, selection, time
):
    at = place(view, tick)
    menu = view.menu_at(at.x(), at.y())
    entries = {action.text(): action for action in menu.actions()}

    next(a for text, a in entries.items() if text.startswith("Mark ")).trigger()

    assert session.selection.current == selection
    assert session.ranges.marked == MarkedRange(time)
    menu.deleteLater()


def test_selected_wait_and_gap_are_framed_from_begin_to_end(view, session):
    def frames() -> set[tuple[int, int]]:
        scene = view.scene(1000, 300, 1.0)
        assert scene is not None
        color = scene.theme.selection
        frames = set()
        for batch in view.compose_scene(scene).batches:
            if isinstance(batch, RectBatch):
                chosen = batch.fill == color
                pairs = zip(batch.x0[chosen], batch.x1[chosen], strict=True)
                frames |= {(round(a), round(b)) for a, b in pairs}
        return frames

    def xs(low: int, high: int) -> tuple[int, int]:
        scene = view.scene(1000, 300, 1.0)
        assert scene is not None
        time = TimelineGeometry(scene).time
        return math.floor(time.x(low)), math.ceil(time.x(high))

    before = frames()
    session.selection.select_wait(1)
    wait = frames()
    session.selection.select_gap(Gap(TimeRange(400_000, 1_000_000), 0, 1))
    gap = frames()

    assert xs(1_100_000, 1_400_000) in wait - before
    assert xs(400_000, 1_000_000) in gap - wait


def test_narrow_idle_time_is_not_marked_by_a_click(view, session):
    session.viewport.set_visible(TimeRange(-200_000_000, 200_000_000))

    click(view, 100_000_000)

    assert session.ranges.marked is None


def test_waits_that_are_left_out_are_neither_spans_nor_idle_time(view, session):
    session.display.set_shows_waits(False)

    result = hit(view, 250_000)

    assert (result.span, result.is_wait, result.gap) == (-1, False, None)
    assert hit(view, 700_000).gap is not None


def test_narrow_span_beside_a_wide_wait_can_be_pointed_at(view, session):
    trace = with_waits(
        builders.spans_trace([0, 1_000_000], [500_000, 1_000_010], op=1),
        [500_000, 0],
    )
    session.set_trace(trace)

    per_px = view.ticks_per_px()
    hits = [hit(view, round(1_000_000 - px * per_px)) for px in (1, 4)]

    assert [(one.span, one.is_wait) for one in hits] == [(1, False), (0, True)]


def test_spans_in_a_pixel_are_reported_with_their_waiting(view, session):
    n = 4_000
    start = np.arange(n) * 1000
    trace = builders.spans_trace(start, start + 200, op=1)
    session.set_trace(with_waits(trace, np.full(n, 600)))
    session.viewport.set_visible(session.trace.extent)

    text = tip(view, 2_000_100)

    assert "waiting" in text
    session.display.set_shows_waits(False)
    assert "waiting" not in tip(view, 2_000_100)


def test_legend_reports_waits_that_are_shown(qtbot, session):
    legend = Legend(session, theme("dark"))
    qtbot.addWidget(legend)
    assert session.index is not None

    shown = {entry.key: entry for entry in legend.entries}
    session.display.set_shows_waits(False)
    hidden = {entry.key for entry in legend.entries}

    assert (shown[WAITS].n_spans, shown[WAITS].ticks) == (3, 3 * WAIT)
    assert WAITS not in hidden
    assert set(shown) - {WAITS} == hidden
    plain = builders.spans_trace([0], [1], op=1)
    session.set_trace(plain)
    assert WAITS not in {e.key for e in LegendRequest(session.index, "family")()}
    legend.release()


def test_statistics_have_columns_of_waits_where_they_are_recorded(qtbot, session):
    view = StatisticsView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(900, 300)
    view.show()
    qtbot.waitUntil(lambda: view.model.rowCount() > 0)

    titles = [
        view.model.headerData(i, Qt.Orientation.Horizontal)
        for i in range(view.model.columnCount())
    ]
    at = titles.index("wait")
    sums = [view.model.index(i, at).data() for i in range(2)]

    assert titles[at : at + 3] == ["wait", "mean wait", "waiting"]
    assert sorted(sums) == sorted(format_duration(n * WAIT, "ns") for n in (1, 2))
    view.release()


def test_lane_of_busy_threads_shows_how_many_run_and_how_long(qtbot, session):
    start, end = [0, 1_000_000, 500_000], [600_000, 2_000_000, 1_500_000]
    session.set_trace(builders.spans_trace(start, end, [0, 0, 1], op=1))
    view = TimelineView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1000, 400)
    view.show()
    qtbot.waitExposed(view)
    prepared = view.prepared()
    assert prepared is not None
    box = prepared.layout.box_of(BUSY_THREADS)
    scene = view.scene(canvas(view).width(), canvas(view).height(), 1.0)
    assert box is not None
    assert scene is not None

    def busy_tip(tick: int) -> str:
        x = TimelineGeometry(scene).time.x(tick)
        hit = view.hit(x, AXIS_HEIGHT + box.y + box.height / 2)
        return str(tooltip_for(prepared, session, hit, view.ticks_per_px()))

    seen = {tick: busy_tip(tick) for tick in (200_000, 550_000, 1_200_000, 1_700_000)}
    header = view.hit(20, AXIS_HEIGHT + box.y + box.height / 2)
    about = str(tooltip_for(prepared, session, header, view.ticks_per_px()))

    for (_, text), (n, ticks) in zip(
        seen.items(),
        ((1, 500_000), (2, 100_000), (2, 500_000), (1, 500_000)),
        strict=True,
    ):
        assert f"{n} of 2 threads busy" in text
        assert format_duration(ticks, "ns") in text
    assert "1.30 of 2 threads" in about
    assert "at least" not in about
    session.set_trace(left_out(session.trace, threads=["0", "1"]), TraceChange.GREW)
    part = str(tooltip_for(view.prepared(), session, header, view.ticks_per_px()))
    assert "at least" in part


def test_busy_threads_count_hidden_ones(qtbot, session):
    trace = builders.spans_trace([0, 0], [100, 100], [0, 1], op=1)
    session.set_trace(trace)
    lanes = LaneState(hidden=frozenset({"thread:thread 1"}), collapsed=frozenset())
    request = PrepareRequest(session.index, lanes, "family", None, 0)

    prepared = request()

    assert session.index.has_columns("thread:thread 1", "family")
    assert prepared.layout.box_of("thread:thread 1") is None
    assert prepared.layout.box_of(BUSY_THREADS) is not None
