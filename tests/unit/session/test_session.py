"""The document: setters that compare first, and signals that follow."""

from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from builders import empty_trace, llama_like_trace, spans_trace
from ggscope.model.selection import Filter, MarkedRange, Selection, SpanGroup
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.session import queries
from ggscope.session.session import Session, TraceChange
from ggscope.session.time_ranges import MIN_TICKS
from statements import new_statement


class Recorder:
    """Collects the signals of a session and of its models, in order."""

    NAMES = (
        "trace_changed", "selection.changed", "viewport.changed",
        "ranges.marked_changed", "queries.filter_changed", "queries.mask_changed",
        "queries.search_changed",
        "display.color_by_changed", "display.absolute_time_changed",
        "viewport.cursor_changed", "navigator.reveal_requested", "problem_reported",
    )  # fmt: skip

    def __init__(self, session: Session) -> None:
        self.emitted: list[tuple[str, object]] = []
        for name in self.NAMES:
            attrgetter(name)(session).connect(self._slot(name))

    def _slot(self, name: str):
        return lambda value: self.emitted.append((name, value))

    def of(self, name: str) -> list[object]:
        return [value for text, value in self.emitted if text == name]


@pytest.fixture
def trace() -> Trace:
    return llama_like_trace(tokens=4, layers=3)


@pytest.fixture
def session(qtbot: QtBot, trace: Trace) -> Iterator[Session]:
    made = Session()
    made.set_trace(trace)
    yield made
    made.close()


@pytest.fixture
def big(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every trace as one that needs a worker."""
    monkeypatch.setattr(queries, "SYNC_SPANS", 0)


def test_first_trace_is_fitted(session: Session, trace: Trace) -> None:
    assert session.viewport.visible == trace.extent
    assert session.index is not None


def test_empty_trace_shows_the_smallest_range(qtbot: QtBot) -> None:
    session = Session()
    session.set_trace(empty_trace())

    assert session.viewport.visible.duration == MIN_TICKS
    session.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("selection.select", Selection("spans", (3,))),
        ("viewport.set_visible", TimeRange(1000, 90_000)),
        ("ranges.set_marked", MarkedRange(TimeRange(0, 10))),
        ("queries.set_filter", Filter(layers=frozenset({1}))),
        ("queries.search", "ffn"),
        ("display.set_color_by", "layer"),
        ("display.set_absolute_time", True),
    ],
)
def test_setting_the_same_value_twice_says_nothing(
    session: Session, name: str, value: object
) -> None:
    setter = attrgetter(name)(session)
    setter(value)
    recorder = Recorder(session)

    setter(value)

    assert recorder.emitted == []


def test_visible_range_is_clamped_to_padded_extent(session: Session) -> None:
    session.viewport.set_visible(TimeRange(-(10**15), 10**15))

    assert session.viewport.visible == session.viewport.bounds
    session.viewport.set_visible(TimeRange(5, 5))
    assert session.viewport.visible.duration == MIN_TICKS


def test_zoom_without_a_point_uses_the_cursor(session: Session) -> None:
    session.viewport.cursor_tick = 1000

    session.viewport.zoom(0.5)

    before = 1000 / session.trace.extent.duration
    after = (1000 - session.viewport.visible.start) / session.viewport.visible.duration
    assert after == pytest.approx(before, abs=1e-3)


def test_pan_moves_by_share_of_the_width(session: Session) -> None:
    session.viewport.set_visible(TimeRange(10_000, 20_000))

    session.viewport.pan(0.25)

    assert session.viewport.visible == TimeRange(12_500, 22_500)


def test_select_span_adds_and_takes_out(session: Session) -> None:
    session.selection.select_span(4)
    session.selection.select_span(7, add=True)
    assert session.selection.current == Selection("spans", (7, 4))
    assert session.selection.current.active == 7

    session.selection.select_span(4, add=True)
    assert session.selection.current == Selection("spans", (7,))
    session.selection.select_span(7, add=True)
    assert not session.selection.current


def test_select_span_reveals_without_zooming(session: Session, trace: Trace) -> None:
    session.viewport.set_visible(TimeRange(0, 50_000))
    last = int(np.argmax(trace.spans.start))
    recorder = Recorder(session)

    session.selection.select_span(last)

    assert recorder.of("navigator.reveal_requested") == [last]
    assert session.viewport.visible.contains(int(trace.spans.start[last]))
    assert session.viewport.visible.duration == 50_000


def test_focus_centres_first_and_fits_then(session: Session, trace: Trace) -> None:
    span = len(trace.spans) // 3
    session.viewport.set_visible(TimeRange(0, 900_000))
    session.selection.select_span(span, reveal=False)

    session.navigator.focus_selection()
    assert session.viewport.visible.duration == 900_000
    session.navigator.focus_selection()

    length = int(trace.spans.end[span] - trace.spans.start[span])
    assert session.viewport.visible.duration <= max(length * 1.3, MIN_TICKS)


def test_selected_range_covers_all_selected(session: Session, trace: Trace) -> None:
    session.selection.select(Selection("spans", (2, 5, 3)))

    chosen = session.navigator.selected_range()

    assert chosen == TimeRange(
        int(trace.spans.start[[2, 3, 5]].min()), int(trace.spans.end[[2, 3, 5]].max())
    )
    session.navigator.mark_selection()
    assert session.ranges.marked == MarkedRange(chosen)


def test_filter_says_filter_then_mask(session: Session, trace: Trace) -> None:
    recorder = Recorder(session)

    session.queries.set_filter(Filter(layers=frozenset({1})))

    names = [name for name, _ in recorder.emitted]
    assert names == ["queries.filter_changed", "queries.mask_changed"]
    assert np.array_equal(session.queries.mask, trace.spans.layer == 1)


def test_clearing_the_filter_gives_no_mask(session: Session) -> None:
    session.queries.set_filter(Filter(layers=frozenset({1})))

    session.queries.set_filter(Filter())

    assert session.queries.mask is None


def test_bad_filter_is_reported_and_the_old_one_stays(session: Session) -> None:
    good = Filter(layers=frozenset({1}))
    session.queries.set_filter(good)
    mask = session.queries.mask
    recorder = Recorder(session)

    session.queries.set_filter(Filter(text="/(/"))

    assert session.queries.filter == good
    assert session.queries.mask is mask
    assert len(recorder.of("problem_reported")) == 1
    assert recorder.of("queries.filter_changed") == []


@pytest.mark.usefixtures("big")
def test_filter_of_a_big_trace_arrives_from_a_worker(
    qtbot: QtBot, session: Session, trace: Trace
) -> None:
    session.queries.set_filter(Filter(layers=frozenset({0})))
    session.queries.set_filter(Filter(layers=frozenset({2})))
    assert session.queries.mask is None

    with qtbot.waitSignal(session.queries.mask_changed):
        pass

    assert np.array_equal(session.queries.mask, trace.spans.layer == 2)


@pytest.mark.usefixtures("big")
def test_bad_filter_of_a_big_trace_is_taken_back(
    qtbot: QtBot, session: Session
) -> None:
    recorder = Recorder(session)

    with qtbot.waitSignal(session.problem_reported):
        session.queries.set_filter(Filter(text="/(/"))

    assert session.queries.filter == Filter()
    assert recorder.of("queries.filter_changed")[-1] == Filter()


def test_search_steps_round_through_all_hits(session: Session) -> None:
    session.queries.search("ffn_up-1")
    n = session.queries.n_hits
    assert n > 2
    seen = []
    for _ in range(n):
        session.navigator.step_hit(1)
        seen.append(session.selection.current.active)

    assert len(set(seen)) == n
    session.navigator.step_hit(1)
    assert session.selection.current.active == seen[0]
    session.navigator.step_hit(-1)
    assert session.selection.current.active == seen[-1]


def test_first_step_goes_to_the_hit_after_the_left_edge(
    session: Session, trace: Trace
) -> None:
    session.queries.search("ffn_up-1")
    times = session.queries.hits.times
    session.viewport.set_visible(TimeRange(int(times[2]) - 10, int(times[2]) + 10**6))

    session.navigator.step_hit(1)

    assert session.queries.position == 2
    assert int(trace.spans.start[session.selection.current.active]) == int(times[2])


def test_search_finds_markers_in_time_order(session: Session, trace: Trace) -> None:
    name = trace.strings[int(trace.markers.name[0])]
    session.queries.search(name)

    session.navigator.step_hit(1)

    assert session.selection.current == Selection("markers", (0,))


def test_bad_search_is_reported_and_shows_no_hits(session: Session) -> None:
    recorder = Recorder(session)

    session.queries.search("/[/")

    assert session.queries.hits is None
    assert len(recorder.of("problem_reported")) == 1


def test_ending_the_search_says_none(session: Session) -> None:
    session.queries.search("ffn")
    recorder = Recorder(session)

    session.queries.search("")

    assert recorder.of("queries.search_changed") == [None]
    assert session.queries.n_hits == 0


def test_step_token_goes_to_the_next_token_span(session: Session, trace: Trace) -> None:
    lane = next(x.id for x in trace.lanes if x.name == "tokens")
    tokens = np.flatnonzero(trace.spans.lane == lane)
    session.selection.select_span(int(tokens[1]), reveal=False)
    noted: list[str] = []
    session.status_message.connect(noted.append)

    def message_of(by: int) -> str:
        noted.clear()
        session.navigator.step_token(by)
        return "\n".join(noted)

    to_last = [message_of(1) for _ in tokens[2:]]
    assert session.selection.current.active == tokens[-1]
    beyond = message_of(1)
    assert session.selection.current.active == tokens[-1]
    to_first = [message_of(-1) for _ in tokens[1:]]
    assert session.selection.current.active == tokens[0]
    before = message_of(-1)
    assert session.selection.current.active == tokens[0]
    steps = "\n".join(to_last + to_first)
    assert new_statement(before, steps + beyond)
    assert new_statement(beyond, steps + before)


def test_step_token_without_token_lane_uses_the_column(qtbot: QtBot) -> None:
    session = Session()
    session.set_trace(
        spans_trace([0, 100, 5000, 9000], [90, 200, 6000, 9500], token=[0, 0, 1, 2])
    )
    session.viewport.set_visible(TimeRange(0, 300))

    session.navigator.step_token(1)

    assert session.ranges.marked == MarkedRange(TimeRange(5000, 6000))
    session.close()


def test_step_span_stays_on_the_row(session: Session) -> None:
    session.selection.select_span(10)
    lane = session.trace.spans.lane

    session.navigator.step_span(1)
    following = session.selection.current.active
    session.navigator.step_span(-1)

    assert following != 10
    assert lane[following] == lane[10]
    assert session.selection.current.active == 10


def test_growing_keeps_range_selection_and_filter(
    session: Session, trace: Trace
) -> None:
    session.viewport.set_visible(TimeRange(1000, 90_000))
    session.selection.select_span(3, reveal=False)
    session.queries.set_filter(Filter(layers=frozenset({1})))
    recorder = Recorder(session)

    session.set_trace(replace(trace, generation=2), TraceChange.GREW)

    assert session.viewport.visible == TimeRange(1000, 90_000)
    assert session.selection.current == Selection("spans", (3,))
    assert session.queries.mask is not None
    assert recorder.of("trace_changed") == [TraceChange.GREW]


def test_growing_goes_on_showing_everything(qtbot: QtBot) -> None:
    session = Session()
    session.set_trace(spans_trace([0], [1000]))

    session.set_trace(spans_trace([0, 1000], [1000, 5000]), TraceChange.GREW)

    assert session.viewport.visible == TimeRange(0, 5000)
    session.close()


def test_replacing_forgets_rows_and_keeps_the_filter(session: Session) -> None:
    session.selection.select_span(3)
    session.queries.search("ffn")
    session.queries.set_filter(Filter(layers=frozenset({1})))
    session.ranges.set_marked(MarkedRange(TimeRange(0, 10)))

    session.set_trace(llama_like_trace(tokens=2, layers=2))

    assert not session.selection.current
    assert session.ranges.marked is None
    assert session.queries.filter == Filter(layers=frozenset({1}))
    assert len(session.queries.mask) == len(session.trace.spans)
    assert session.queries.n_hits > 0
    assert not session.history.can_go_back


def test_back_restores_range_selection_and_filter(session: Session) -> None:
    start = session.viewport.visible
    session.viewport.set_visible(TimeRange(1000, 90_000))
    session.selection.select_span(3, reveal=False)
    session.history.record()
    session.queries.set_filter(Filter(layers=frozenset({1})))
    session.viewport.fit()

    session.navigator.back()
    assert session.viewport.visible == TimeRange(1000, 90_000)
    assert session.selection.current == Selection("spans", (3,))
    assert not session.queries.filter
    session.navigator.back()
    assert session.viewport.visible == start
    session.navigator.forward()
    session.navigator.forward()
    assert session.queries.filter == Filter(layers=frozenset({1}))


def test_temporary_bookmark_replaces_the_last_one(session: Session) -> None:
    session.bookmarks.add("a", TimeRange(1, 2))
    session.bookmarks.add("t1", TimeRange(3, 4), permanent=False)
    session.bookmarks.add("t2", TimeRange(5, 6), permanent=False)

    assert [b.name for b in session.bookmarks.items] == ["a", "t2"]
    session.bookmarks.remove(0)
    assert [b.name for b in session.bookmarks.items] == ["t2"]


def test_bookmark_takes_marked_range_and_is_found_again(session: Session) -> None:
    session.ranges.set_marked(MarkedRange(TimeRange(50_000, 60_000)))
    session.bookmarks.add()
    session.viewport.set_visible(TimeRange(0, 1000))

    session.bookmarks.show(0)
    session.bookmarks.show(7)

    assert session.viewport.visible.contains(55_000)


def test_closing_lets_go_of_the_trace(session: Session) -> None:
    recorder = Recorder(session)

    session.close()
    session.close()

    assert recorder.of("trace_changed") == [TraceChange.CLOSED]
    assert session.trace is None
    assert session.index is None


def test_session_without_trace_takes_every_command(qtbot: QtBot) -> None:
    session = Session()

    session.viewport.fit()
    session.viewport.zoom(0.5)
    session.viewport.pan(1)
    session.navigator.step_hit(1)
    session.navigator.step_span(1)
    session.navigator.step_token(1)
    session.navigator.focus_selection()
    session.navigator.mark_selection()
    session.queries.set_filter(Filter(layers=frozenset({1})))
    session.queries.search("x")
    session.navigator.back()
    session.viewport.show_end()

    assert session.trace is None
    session.set_trace(llama_like_trace(tokens=2, layers=2))
    assert session.queries.mask is not None
    assert session.queries.hits is not None
    session.close()


# -- lists that stay while one goes through their rows ----------------------------


def zoomed(session: Session) -> MarkedRange:
    """Show the first half; return what lists are about then."""
    extent = session.viewport.visible
    session.viewport.set_visible(
        TimeRange(extent.start, extent.start + extent.duration // 2)
    )
    assert session.ranges.listed is not None
    return session.ranges.listed


def test_fitting_a_selection_brings_its_lane_into_view(session: Session) -> None:
    revealed: list[int] = []
    session.navigator.reveal_requested.connect(revealed.append)
    session.navigator.fit_selection()
    assert revealed == []

    session.selection.select(Selection("spans", (7, 3)))
    session.navigator.fit_selection()

    assert revealed == [7]


def test_going_to_a_listed_span_keeps_the_range_of_the_list(session: Session) -> None:
    before = zoomed(session)

    session.selection.select_span(1, is_listed=True)
    session.navigator.fit_selection()
    first = session.viewport.visible
    session.selection.select_span(40, is_listed=True)
    session.navigator.focus_selection()

    assert session.ranges.listed == before
    assert session.ranges.is_pinned
    assert session.viewport.visible != first != before.time


@pytest.mark.parametrize(
    "move",
    [
        lambda s: s.viewport.pan(0.1),
        lambda s: s.viewport.zoom(2),
        lambda s: s.viewport.fit(),
        lambda s: s.viewport.set_visible(TimeRange(0, 1000)),
        lambda s: s.navigator.step_token(1),
        lambda s: s.viewport.show_end(),
        lambda s: s.ranges.set_limited(False),
        lambda s: s.ranges.set_marked(MarkedRange(TimeRange(0, 500))),
        lambda s: s.ranges.unpin(),
        lambda s: s.navigator.back(),
    ],
)
def test_list_follows_again_once_the_view_is_moved_by_hand(
    session: Session, move
) -> None:
    zoomed(session)
    session.history.record()
    session.selection.select_span(1, is_listed=True)
    session.navigator.fit_selection()
    messages: list[object] = []
    session.ranges.pin_changed.connect(messages.append)

    move(session)

    assert not session.ranges.is_pinned
    assert messages == [False]
    visible, extent = session.viewport.visible, session.trace.extent
    shows_all = visible.start <= extent.start and extent.end <= visible.end
    expected = None if shows_all else MarkedRange(visible)
    expected = session.ranges.marked or expected
    assert session.ranges.listed == (expected if session.ranges.is_limited else None)


def test_span_that_was_not_chosen_in_a_list_keeps_none(session: Session) -> None:
    zoomed(session)

    session.selection.select_span(1)
    session.navigator.fit_selection()

    assert not session.ranges.is_pinned
    assert session.ranges.listed == MarkedRange(session.viewport.visible)


def test_bringing_another_span_into_view_neither_keeps_nor_frees_a_list(
    session: Session,
) -> None:
    before = zoomed(session)
    session.selection.select_span(1, is_listed=True)
    session.navigator.fit_selection()

    session.navigator.step_span(1)

    assert session.selection.current.ids != (1,)
    assert session.ranges.listed == before


def test_list_of_another_trace_is_not_kept(session: Session) -> None:
    zoomed(session)
    session.selection.select_span(1, is_listed=True)
    session.navigator.fit_selection()

    session.set_trace(llama_like_trace(tokens=2, layers=2))

    assert not session.ranges.is_pinned


def test_longest_span_of_a_group_is_gone_to_once_it_is_found(
    session: Session, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ggscope.analysis import links

    trace = session.trace
    assert trace is not None
    ids = np.flatnonzero(trace.spans.op == trace.spans.op[1])
    ticks = trace.spans.end[ids] - trace.spans.start[ids]
    longest = int(ids[np.argmax(ticks)])
    before = zoomed(session)
    monkeypatch.setattr(links, "QUICK_SPANS", 0)  # it takes a worker

    session.selection.select_group(
        SpanGroup("op", trace.op_name(int(trace.spans.op[1])))
    )
    session.linking.show_longest()
    assert session.linking.current_span is None
    qtbot.waitUntil(lambda: session.linking.current_span == longest)

    start, end = int(trace.spans.start[longest]), int(trace.spans.end[longest])
    shown = session.viewport.visible
    assert shown.start <= start < end <= shown.end
    assert shown.duration < 2 * (end - start)
    assert session.ranges.listed == before
    session.navigator.step_span(1)
    assert session.linking.current_span != longest
    assert session.selection.current.group is not None
