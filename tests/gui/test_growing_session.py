"""A session of a trace that grows keeps what a person did and appends to it."""

import numpy as np
import pytest

import growing
from ggscope.analysis.filters.masks import filter_mask, search
from ggscope.analysis.rows.index import TraceIndex
from ggscope.model.selection import Filter
from ggscope.model.units import TimeRange
from ggscope.session import queries
from ggscope.session.session import Session, TraceChange

N = 3000


def grown(seed: int, sizes: list[int]):
    return [t for _, t in growing.snapshots(growing.arrivals(seed, N), sizes)]


@pytest.fixture
def session(qtbot):
    made = Session()
    yield made
    made.close()


def test_selection_and_range_stay_when_spans_are_appended(session):
    first, second = grown(1, [1000, 2000])
    session.set_trace(first)
    session.selection.select_span(7, reveal=False)
    session.viewport.set_visible(TimeRange(100, 900))

    session.set_trace(second, TraceChange.APPENDED)

    assert session.selection.current.ids == (7,)
    assert session.viewport.visible == TimeRange(100, 900)
    assert session.appended_from == 1000


def test_view_of_everything_goes_on_showing_everything(session):
    first, second = grown(1, [1000, 2000])
    session.set_trace(first)
    session.viewport.fit()

    session.set_trace(second, TraceChange.APPENDED)

    extent = session.trace.extent
    assert session.viewport.visible.start <= extent.start
    assert session.viewport.visible.end >= extent.end


@pytest.mark.parametrize("is_small", [True, False])
def test_mask_and_hits_are_those_of_the_whole_at_each_snapshot(
    session, qtbot, monkeypatch, is_small
):
    if not is_small:
        monkeypatch.setattr(queries, "SYNC_SPANS", 0)
    traces = grown(2, [500, 0, 1, 999, 1500])
    row_filter = Filter(ops=frozenset({"ADD"}))
    session.set_trace(traces[0])
    session.queries.set_filter(row_filter)
    session.queries.search("b")

    for trace in traces[1:]:  # of a large trace the first answers come late
        session.set_trace(trace, TraceChange.APPENDED)
        qtbot.waitUntil(
            lambda: (
                session.queries.mask is not None and session.queries.hits is not None
            )
        )
        assert np.array_equal(session.queries.mask, filter_mask(trace, row_filter))
        expected = search(trace, "b")
        assert np.array_equal(session.queries.hits.ids, expected.ids)
        assert np.array_equal(session.queries.hits.times, expected.times)


def test_answer_that_was_under_way_is_for_all_spans_there_are_now(
    session, qtbot, monkeypatch
):
    monkeypatch.setattr(queries, "SYNC_SPANS", 0)
    traces = grown(2, [500, 700, 800])
    expected = Filter(layers=frozenset({1, 3}))
    session.set_trace(traces[0])
    session.queries.set_filter(expected)
    session.queries.search("a")
    for trace in traces[1:]:
        session.set_trace(trace, TraceChange.APPENDED)

    qtbot.waitUntil(
        lambda: session.queries.mask is not None and session.queries.hits is not None
    )

    assert np.array_equal(session.queries.mask, filter_mask(traces[-1], expected))
    assert np.array_equal(session.queries.hits.ids, search(traces[-1], "a").ids)


def test_index_goes_on_where_that_of_an_earlier_snapshot_was(session):
    traces = grown(3, [1000, 500, 500, 1000])
    session.set_trace(traces[0])
    key = session.index.lanes.keys[-1]
    for trace in traces[1:3]:  # nobody asks for the index of the third
        session.set_trace(trace, TraceChange.APPENDED)
        if trace is traces[1]:
            session.index.row_columns(key, "family")
            growth = session.index._growth

    session.set_trace(traces[3], TraceChange.APPENDED)

    assert growth is not None
    assert session.index._growth is growth
    fresh = TraceIndex(growing.whole(growing.arrivals(3, N), N))
    for row, expected in zip(session.index.rows(key), fresh.rows(key), strict=True):
        assert np.array_equal(row.id, expected.id)
