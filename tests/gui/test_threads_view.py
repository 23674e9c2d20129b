"""Threads and waits in their pane: figures, real clicks, keys and the range."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from builders import empty_trace, llama_like_trace, npu_like_trace, spans_trace
from ggscope.analysis.reads.thread_touches import thread_touches
from ggscope.analysis.summary.gaps import gaps
from ggscope.analysis.summary.thread_estimate import NoEstimate, ThreadEstimate
from ggscope.analysis.summary.threads import thread_times
from ggscope.analysis.summary.token_threads import token_threads
from ggscope.descriptions.threads import no_estimate_text, other_count_text
from ggscope.model.selection import MarkedRange, Selection
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.base.safe_text import ElidedLabel
from ggscope.views.base.text_table import TextTable
from ggscope.views.threads.view import SECTIONS, ThreadsView
from pages import Page
from panes import settle_view
from wait_traces import (
    barrier_trace,
    gaps_behind,
    random_waits,
    threads_trace,
    with_waits,
)

LEFT = Qt.MouseButton.LeftButton
NONE = Qt.KeyboardModifier.NoModifier


@pytest.fixture
def session(qtbot: QtBot) -> Iterator[Session]:
    made = Session()
    made.set_trace(random_waits(4, 600, lanes=3))
    yield made
    made.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> ThreadsView:
    return shown(qtbot, session)


def shown(qtbot: QtBot, session: Session) -> ThreadsView:
    made = ThreadsView(session, theme("dark"))
    qtbot.addWidget(made)
    made.resize(1000, 300)
    made.show()
    qtbot.waitExposed(made)
    counted(qtbot, made)
    return made


def counted(qtbot: QtBot, view: ThreadsView) -> None:
    """Wait until the view shows the range that it should."""

    def is_counted() -> bool:
        known, query = view.shown.get(view.section.id), view.query()
        return known is not None and query is not None and known.query.is_same(query)

    qtbot.waitUntil(is_counted, timeout=20_000)
    settle_view(qtbot, view)


def show(qtbot: QtBot, view: ThreadsView, section: str) -> TextTable:
    """Click the tab of a table and wait until it is counted."""
    at = [one.id for one in SECTIONS].index(section)
    qtbot.mouseClick(view.tabs.button(at), LEFT)
    counted(qtbot, view)
    return view.tables[section]


def show_gaps(qtbot: QtBot, view: ThreadsView) -> None:
    show(qtbot, view, "gaps")


def click_row(qtbot: QtBot, table: TextTable, row: int) -> None:
    index = table.rows.index(row, 1)
    table.scrollTo(index)
    viewport: QWidget = table.viewport()
    qtbot.mouseClick(viewport, LEFT, NONE, table.visualRect(index).center())


def raw(table: TextTable, title: str) -> list[object]:
    """Return a column as plain numbers."""
    column = [heading.title for heading in table.rows.headings].index(title)
    rows = range(table.rows.rowCount())
    return [table.rows.row(row)[column].raw for row in rows]


def trace_of(session: Session) -> Trace:
    assert session.trace is not None
    return session.trace


@pytest.mark.parametrize("is_measured", [True, False])
def test_figures_are_those_of_the_analysis(
    qtbot: QtBot, view: ThreadsView, session: Session, is_measured: bool
) -> None:
    if is_measured:
        trace = trace_of(session)
        flags = np.zeros_like(trace.spans.flags)
        session.set_trace(replace(trace, spans=replace(trace.spans, flags=flags)))
        counted(qtbot, view)
    times = thread_times(trace_of(session))

    assert {lane.is_measured for lane in times.lanes} == {is_measured}
    assert raw(view.tables["threads"], "busy") == [lane.busy for lane in times.lanes]
    assert raw(view.tables["threads"], "wait") == [lane.wait for lane in times.lanes]
    idle = [lane.idle if is_measured else "" for lane in times.lanes]
    assert raw(view.tables["threads"], "idle") == idle
    result = gaps(trace_of(session), limit=500)
    show_gaps(qtbot, view)
    assert raw(view.tables["gaps"], "begin") == result.start.tolist()
    assert raw(view.tables["gaps"], "duration") == (result.end - result.start).tolist()
    assert len(result) > 50


@pytest.mark.parametrize("name", ["threads", "gaps"])
def test_models_keep_the_rules_of_item_models(
    qtbot: QtBot, view: ThreadsView, name: str
) -> None:
    model = show(qtbot, view, name).rows
    mode = QAbstractItemModelTester.FailureReportingMode.Fatal

    QAbstractItemModelTester(model, mode, view)
    model.sort(2, Qt.SortOrder.DescendingOrder)

    assert model.rowCount() > 2


def test_a_marked_range_is_counted_and_all_again(
    qtbot: QtBot, view: ThreadsView, session: Session
) -> None:
    trace = trace_of(session)
    third = trace.extent.duration // 3
    time = TimeRange(third, 2 * third)
    session.ranges.set_marked(MarkedRange(time))
    counted(qtbot, view)

    times, result = thread_times(trace, time), gaps(trace, time, limit=500)
    assert raw(view.tables["threads"], "busy") == [lane.busy for lane in times.lanes]
    show_gaps(qtbot, view)
    assert raw(view.tables["gaps"], "duration") == (result.end - result.start).tolist()

    session.ranges.set_limited(False)
    show(qtbot, view, "threads")

    busy = [lane.busy for lane in thread_times(trace).lanes]
    assert raw(view.tables["threads"], "busy") == busy


def test_a_click_selects_and_marks_the_gap(
    qtbot: QtBot, view: ThreadsView, session: Session
) -> None:
    result = gaps(trace_of(session), limit=500)
    show_gaps(qtbot, view)
    click_row(qtbot, view.tables["gaps"], 2)
    qtbot.wait(200)
    settle_view(qtbot, view)

    time = TimeRange(int(result.start[2]), int(result.end[2]))
    assert session.ranges.marked == MarkedRange(time)
    gap = session.selection.current.gap
    assert gap is not None
    assert (gap.time, gap.before, gap.after) == (
        time,
        result.before[2],
        result.after[2],
    )
    # The other gaps stay in the list though a range is marked.
    assert view.tables["gaps"].rows.rowCount() == len(result)
    assert view.tables["gaps"].selected_rows() == [2]


@pytest.mark.parametrize("by", ["enter", "double click"])
def test_opening_a_gap_fits_the_timeline_to_it(
    qtbot: QtBot, view: ThreadsView, session: Session, by: str
) -> None:
    result = gaps(trace_of(session), limit=500)
    show_gaps(qtbot, view)
    click_row(qtbot, view.tables["gaps"], 1)
    if by == "enter":
        qtbot.keyClick(view.tables["gaps"], Qt.Key.Key_Down)
        qtbot.keyClick(view.tables["gaps"], Qt.Key.Key_Return)
        row = 2
    else:
        row = 1
        box = view.tables["gaps"].visualRect(view.tables["gaps"].rows.index(row, 1))
        qtbot.mouseDClick(view.tables["gaps"].viewport(), LEFT, NONE, box.center())

    visible = session.viewport.visible
    assert visible.start <= result.start[row]
    assert result.end[row] <= visible.end
    assert visible.duration <= max(2 * (result.end[row] - result.start[row]), 32)
    assert session.selection.current.ids == (int(result.before[row]),)


def test_the_switch_counts_the_marked_gap_where_it_is_asked_for(
    qtbot: QtBot, view: ThreadsView, session: Session
) -> None:
    show_gaps(qtbot, view)
    click_row(qtbot, view.tables["gaps"], 0)
    session.ranges.set_limited(False)
    counted(qtbot, view)
    session.ranges.set_limited(True)
    counted(qtbot, view)

    assert session.ranges.marked is not None
    assert view.shown[view.section.id].query.scope.time == session.ranges.marked.time


def test_a_thread_lights_its_spans(
    qtbot: QtBot, view: ThreadsView, session: Session
) -> None:
    click_row(qtbot, view.tables["threads"], 1)

    group = session.selection.current.group
    assert group is not None
    assert (True, group.key) == view.tables["threads"].rows.payload(1)
    assert group.by == "thread"


def test_gaps_that_derived_ends_hide_differ_from_none(qtbot: QtBot) -> None:
    texts = []
    for flags in (int(SpanFlag.INFERRED_END), 0):
        session = Session()
        session.set_trace(spans_trace([0, 10], [10, 30], op=1, flags=flags))
        view = shown(qtbot, session)
        show_gaps(qtbot, view)
        assert Page(view).is_empty
        texts.append(Page(view).placeholder)
        # Unknown is not zero.
        assert view.tabs.button(1).text() == ("Gaps" if flags else "Gaps  0")
        idle = view.tables["threads"].rows.row(0)[5]
        assert idle.raw == ("" if flags else 0)
        session.close()

    assert "derived" in texts[0].lower()
    assert "derived" not in texts[1].lower()


def test_waits_and_cores_that_are_not_recorded_are_no_zeros(qtbot: QtBot) -> None:
    session = Session()
    session.set_trace(spans_trace([0, 0], [30, 10], [0, 1], op=1))
    view = shown(qtbot, session)

    for title in ("wait", "last", "waited for", "cores", "moves"):
        assert raw(view.tables["threads"], title) == ["", ""]
    session.close()


def test_who_is_waited_for_and_cores(qtbot: QtBot) -> None:
    repeated = int(SpanFlag.REPEATED)
    session = Session()
    session.set_trace(
        spans_trace(
            [0, 100, 0, 100], [50, 150, 90, 180], [0, 0, 1, 1], op=[1, 2, 1, 2],
            name=-1, flags=[0, 0, repeated, repeated],
            wait=np.array([40, 30, 2, 0], np.uint32),
            core=np.array([0, 1, 3, 3], np.int16),
        )
    )  # fmt: skip
    view = shown(qtbot, session)

    assert raw(view.tables["threads"], "last") == [0, 2]
    assert raw(view.tables["threads"], "waited for") == [0, 70]
    assert raw(view.tables["threads"], "cores") == ["0, 1", "3"]
    assert raw(view.tables["threads"], "moves") == [1, 0]
    session.close()


def test_engines_have_rows_too(qtbot: QtBot) -> None:
    session = Session()
    session.set_trace(npu_like_trace())
    view = shown(qtbot, session)

    times = thread_times(trace_of(session))
    assert raw(view.tables["threads"], "busy") == [lane.busy for lane in times.lanes]
    click_row(qtbot, view.tables["threads"], 0)
    assert session.selection.current.group is not None
    assert session.selection.current.group.by == "engine"
    session.close()


def test_a_trace_without_threads_says_so(qtbot: QtBot) -> None:
    session = Session()
    session.set_trace(empty_trace())
    view = shown(qtbot, session)

    assert Page(view).is_empty
    session.close()


def test_rows_are_copied_with_their_units(qtbot: QtBot, view: ThreadsView) -> None:
    show_gaps(qtbot, view)
    view.tables["gaps"].copy_tsv()

    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0].split("\t")[:3] == ["lane", "begin (ns)", "duration (ns)"]
    assert len(lines) == view.tables["gaps"].rows.rowCount() + 1


def test_nothing_is_counted_any_more_once_it_is_released(
    qtbot: QtBot, view: ThreadsView, session: Session
) -> None:
    view.release()
    before = view.shown[view.section.id]
    session.ranges.set_marked(MarkedRange(TimeRange(1, 5)))
    qtbot.wait(200)

    assert view.shown[view.section.id] is before
    assert session.tasks.is_idle


def test_a_hidden_pane_counts_when_it_is_seen(
    qtbot: QtBot, view: ThreadsView, session: Session
) -> None:
    view.hide()
    session.ranges.set_marked(MarkedRange(TimeRange(1, 500)))
    qtbot.wait(200)
    assert view.shown[view.section.id].query.scope.time is None

    view.show()
    counted(qtbot, view)

    assert view.shown[view.section.id].query.scope.time == TimeRange(1, 500)


def test_tokens_have_the_times_of_the_analysis(qtbot: QtBot) -> None:
    session = Session()
    trace = llama_like_trace(tokens=6, layers=2)
    waits = gaps_behind(trace) // 2
    flags = np.where(trace.spans.op >= 0, 0, trace.spans.flags)
    measured = replace(trace, spans=replace(trace.spans, flags=flags))
    session.set_trace(with_waits(measured, waits))
    view = shown(qtbot, session)

    table = show(qtbot, view, "tokens")
    threads = token_threads(trace_of(session))

    assert threads.busy is not None
    assert threads.wait is not None
    assert threads.idle is not None
    assert raw(table, "latency") == threads.bars.duration.tolist()
    for title, values in (
        ("work", threads.busy), ("wait", threads.wait), ("idle", threads.idle)
    ):  # fmt: skip
        assert raw(table, title) == values.sum(axis=1).tolist()
    for lane, name in enumerate(threads.lanes):
        shares = threads.busy[:, lane] / threads.bars.duration
        assert raw(table, name) == pytest.approx(shares.tolist())
    click_row(qtbot, table, 3)
    assert session.selection.current.ids == (int(threads.bars.span[3]),)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    visible, token = session.viewport.visible, threads.bars.time(3)
    assert visible.start <= token.start
    assert token.end <= visible.end
    assert visible.duration < 2 * token.duration
    session.close()


def test_uneven_ops_are_listed_and_the_worst_is_gone_to(qtbot: QtBot) -> None:
    session = Session()
    session.set_trace(threads_trace(5, 60, 3, in_step=True))
    view = shown(qtbot, session)

    table = show(qtbot, view, "imbalance")
    by_op = thread_times(trace_of(session)).by_op

    assert by_op
    names = [table.rows.row(row)[0].text for row in range(table.rows.rowCount())]
    assert names == [one.name for one in by_op]
    assert raw(table, "max / mean") == [one.ratio for one in by_op]
    assert raw(table, "worst") == [one.worst_ratio for one in by_op]
    assert raw(table, "lost") == [round(one.lost) for one in by_op]
    click_row(qtbot, table, 1)
    group = session.selection.current.group
    assert group is not None
    assert (group.by, group.key) == ("op", by_op[1].name)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert session.selection.current == Selection("spans", (by_op[1].worst,))
    session.close()


def test_shared_tensors_follow_the_window(qtbot: QtBot) -> None:
    session = Session()
    session.set_trace(llama_like_trace(tokens=4, layers=2))
    view = shown(qtbot, session)
    line = view.findChild(QLineEdit, "threads_window")
    assert line is not None
    assert not line.isVisible()

    table = show(qtbot, view, "tensors")
    assert line.isVisible()
    counts = []
    for text in ("1 us", "nonsense", "1 ms"):
        line.setFocus()
        line.selectAll()
        qtbot.keyClicks(line, text)
        qtbot.keyClick(line, Qt.Key.Key_Return)
        qtbot.wait(200)
        counted(qtbot, view)
        touches = thread_touches(trace_of(session), view.window_ticks)
        assert touches is not None
        assert raw(table, "handovers") == touches.handovers.tolist()
        assert raw(table, "closest") == touches.closest.tolist()
        counts.append((view.window_ticks, int(touches.handovers.sum())))

    assert [ticks for ticks, _ in counts] == [1_000, 1_000, 1_000_000]
    assert counts[2][1] > 0
    click_row(qtbot, table, 0)
    assert session.selection.current == Selection("tensors", (int(touches.tensor[0]),))
    qtbot.keyClick(table, Qt.Key.Key_Return)
    pair = {int(touches.first[0]), int(touches.second[0])}
    assert set(session.selection.current.ids) == pair
    session.close()


@pytest.mark.parametrize("section", [section.id for section in SECTIONS])
@pytest.mark.parametrize("kind", ["empty", "engines", "markers", "one thread"])
def test_every_table_says_why_it_is_empty(
    qtbot: QtBot, section: str, kind: str
) -> None:
    made = {
        "empty": empty_trace,
        "engines": npu_like_trace,
        "markers": lambda: spans_trace([5], [5], op=-1),
        "one thread": lambda: spans_trace([0], [9], op=1),
    }
    session = Session()
    session.set_trace(made[kind]())
    view = shown(qtbot, session)

    table = show(qtbot, view, section)

    assert table.rows.rowCount() > 0 or Page(view).placeholder
    session.close()


def test_estimate_for_other_counts_stands_below_the_threads(
    qtbot: QtBot, view: ThreadsView, session: Session
) -> None:
    """The same as in Summary; where there is none, the reason."""
    note = view.findChild(ElidedLabel, "threads_note")
    assert note is not None
    without = thread_times(trace_of(session)).estimate
    assert isinstance(without, NoEstimate)
    assert no_estimate_text(without) in note.full_text

    start = np.arange(240, dtype=np.int64) * 2_000
    ends = start + np.array([[700], [900]])
    session.set_trace(barrier_trace(np.stack([start, start]), ends))
    counted(qtbot, view)

    estimate = thread_times(trace_of(session)).estimate
    assert isinstance(estimate, ThreadEstimate)
    for other in (estimate.fewer, estimate.more):
        assert other_count_text(other) in note.full_text
    assert "240 ops" in note.tip
    show_gaps(qtbot, view)
    assert not note.isVisible()
