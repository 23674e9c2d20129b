"""Sessions over traces that are still being read: what stays and what waits."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from builders import llama_like_trace
from ggscope.analysis.rows.lanes import LaneState
from ggscope.analysis.selection_mapping import reselected
from ggscope.model.selection import Filter, Gap, MarkedRange, Selection
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.session import queries
from ggscope.session.loader import trace_when_failed, trace_when_stopped
from ggscope.session.session import Session, TraceChange
from staged import prefix, stages, with_records
from statements import new_statement, new_statements


@pytest.fixture(scope="module")
def snapshots() -> list[Trace]:
    """Return two prefixes, the spans, and the whole trace."""
    return stages(llama_like_trace(tokens=4, layers=3), 0.3, 0.6)


@pytest.fixture
def session(qapp: QApplication, snapshots: list[Trace]) -> Iterator[Session]:
    made = Session()
    made.set_trace(snapshots[0])
    yield made
    made.close()


def show_rest(session: Session, snapshots: list[Trace]) -> None:
    for before, trace in itertools.pairwise(snapshots):
        is_partial = before.is_partial
        change = TraceChange.EXTENDED if is_partial else TraceChange.GREW
        session.set_trace(trace, change)


def test_prefixes_pass_their_own_check(snapshots: list[Trace]) -> None:
    assert [trace.check() for trace in snapshots] == [[], [], [], []]
    assert [trace.is_partial for trace in snapshots] == [True, True, False, False]


def test_a_view_of_everything_goes_on_showing_everything(
    session: Session, snapshots: list[Trace]
) -> None:
    short = replace(snapshots[0], extent=TimeRange(0, snapshots[0].read_until or 1))
    session.set_trace(short)

    show_rest(session, snapshots)

    assert session.viewport.visible == snapshots[-1].extent
    assert not session.history.can_go_back


def test_what_a_person_did_stays_over_all_snapshots(
    session: Session, snapshots: list[Trace]
) -> None:
    zoomed, marked = TimeRange(1000, 90_000), MarkedRange(TimeRange(2000, 3000))
    lanes = LaneState(pinned=("token",))
    session.viewport.set_visible(zoomed)
    session.ranges.set_marked(marked)
    session.lanes.set_state(lanes)
    session.display.set_color_by("op")
    session.queries.set_filter(Filter(ops=frozenset({"MUL_MAT"})))
    session.bookmarks.add("here", TimeRange(5, 6))
    session.history.record()

    show_rest(session, snapshots)

    assert session.viewport.visible == zoomed
    assert session.ranges.marked == marked
    assert session.lanes.state == lanes
    assert session.display.color_by == "op"
    assert session.queries.filter == Filter(ops=frozenset({"MUL_MAT"}))
    assert session.queries.mask is not None
    assert len(session.queries.mask) == len(snapshots[-1].spans)
    assert [b.name for b in session.bookmarks.items] == ["here"]
    assert session.history.can_go_back


def test_selection_follows_the_record_where_ids_change(
    session: Session, snapshots: list[Trace]
) -> None:
    first = snapshots[0]
    assert first.spans.record is not None
    record = int(first.spans.record[7])
    session.selection.select_span(7, reveal=False)

    show_rest(session, snapshots)

    assert session.selection.current == Selection("spans", (record,))
    assert record != 7


def test_selection_of_what_is_not_known_any_more_is_dropped(
    snapshots: list[Trace],
) -> None:
    whole, small = snapshots[-1], snapshots[0]
    last = int(whole.spans.start.argmax())

    assert reselected(Selection("spans", (last,)), whole, small) == Selection()
    assert reselected(Selection("markers", (10**6,)), whole, small) == Selection()
    assert reselected(Selection("tensors", (10**6,)), whole, small) == Selection()
    time = TimeRange(5, 9)
    (before,) = reselected(Selection("spans", (0,)), whole, small).ids
    (after,) = reselected(Selection("spans", (1,)), whole, small).ids
    selection = reselected(Selection("gaps", (0,), gap=Gap(time, 0, 1)), whole, small)
    assert selection == Selection("gaps", (before,), gap=Gap(time, before, after))
    for gap in (Gap(time, 0, last), Gap(time, last, 0)):
        lost = Selection("gaps", (gap.before,), gap=gap)
        assert reselected(lost, whole, small) == Selection()
    waits = reselected(Selection("waits", (0, last)), whole, small)
    assert waits == Selection("waits", (before,))
    assert reselected(Selection(), whole, small) == Selection()


def test_selection_is_carried_in_its_order(snapshots: list[Trace]) -> None:
    whole = snapshots[-1]
    small = prefix(whole, 0.5)
    ids = (5, 3, 9)

    there = reselected(Selection("spans", ids), small, whole)
    back = reselected(there, whole, small)

    assert there.ids == tuple(int(small.spans.record[i]) for i in ids)
    assert back == Selection("spans", ids)


def test_selection_without_records_keeps_ids_that_exist() -> None:
    trace = llama_like_trace(tokens=1, layers=1)
    bare = replace(trace, spans=replace(trace.spans, record=None))
    n = len(trace.spans)

    selection = reselected(Selection("spans", (1, n + 5)), bare, bare)

    assert selection == Selection("spans", (1,))


def test_hits_of_a_snapshot_are_not_shown_over_the_next(
    session: Session, snapshots: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    session.queries.search("ffn")
    assert session.queries.n_hits
    monkeypatch.setattr(queries, "SYNC_SPANS", 0)

    session.set_trace(snapshots[1], TraceChange.EXTENDED)

    assert session.queries.hits is None
    assert session.queries.text == "ffn"


def test_filter_and_search_wait_until_all_spans_are_known(
    qtbot: QtBot,
    session: Session,
    snapshots: list[Trace],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queries, "SYNC_SPANS", 0)
    session.queries.set_filter(Filter(ops=frozenset({"MUL_MAT"})))
    session.queries.search("ffn")
    held = session.tasks.is_running("filter") and not session.tasks.states()

    show_rest(session, snapshots)
    qtbot.waitUntil(
        lambda: session.queries.mask is not None and session.queries.n_hits > 0
    )

    assert held
    assert len(session.queries.mask) == len(snapshots[-1].spans)


def test_work_on_the_last_snapshot_is_dropped_with_it(
    qtbot: QtBot, session: Session, snapshots: list[Trace]
) -> None:
    ran: list[str] = []
    session.tasks.run("statistics", lambda _: "of the prefix", ran.append)

    session.set_trace(snapshots[2], TraceChange.EXTENDED)
    session.tasks.run("other", lambda _: "of the spans", ran.append)
    qtbot.waitUntil(lambda: session.tasks.is_idle)

    assert ran == ["of the spans"]


def without_total(trace: Trace) -> Trace:
    """Return a trace of a file of which nobody knows how many records it has."""
    return replace(trace, info=replace(trace.info, n_records=0))


def test_stopped_reading_keeps_the_spans_and_says_how_far_it_came(
    snapshots: list[Trace],
) -> None:
    first, n_all = snapshots[0], len(snapshots[-1].spans)

    result = trace_when_stopped(first, n_all)

    assert not result.pending
    assert result.read_until == first.read_until
    assert result.warnings[0].code == "reading_stopped"
    message = result.warnings[0].message
    assert new_statements(
        message, trace_when_stopped(without_total(first)).warnings[0].message
    )
    assert f"{n_all:,}" in message
    assert "Reload" in result.warnings[0].remedy
    assert result.check() == []


def test_stopped_after_the_spans_names_what_is_missing(snapshots: list[Trace]) -> None:
    result = trace_when_stopped(snapshots[2])

    assert "accesses, names" in result.warnings[0].message
    before = trace_when_stopped(snapshots[1]).warnings[0].message
    assert new_statements(result.warnings[0].message, before)


def test_stopped_without_a_total_says_what_there_is() -> None:
    trace = with_records(llama_like_trace(tokens=1, layers=1))
    small = prefix(trace, 0.5)

    result, known = trace_when_stopped(without_total(small)), trace_when_stopped(small)

    assert new_statement(result.warnings[0].message, known.warnings[0].message)


def test_failed_reading_keeps_the_spans_and_the_reason(snapshots: list[Trace]) -> None:
    result = trace_when_failed(snapshots[0], "the file vanished.")

    assert not result.pending
    assert "the file vanished." in result.warnings[0].message
    assert result.warnings[0].code == "reading_failed"
