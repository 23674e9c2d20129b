"""The order of signals of a session, and what they find done when they arrive."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import SignalInstance
from pytestqt.qtbot import QtBot

from builders import llama_like_trace, spans_trace
from ggscope.model.selection import Filter, MarkedRange, Selection
from ggscope.model.trace import RUNNING, Trace
from ggscope.model.units import TimeRange
from ggscope.session.session import Session, TraceChange

VISIBLE = TimeRange(1000, 90_000)
FILTER = Filter(layers=frozenset({1}))
SIGNALS: dict[str, Callable[[Session], SignalInstance]] = {
    "selection": lambda s: s.selection.changed,
    "marked": lambda s: s.ranges.marked_changed,
    "listed": lambda s: s.ranges.pin_changed,
    "coloring": lambda s: s.display.color_by_changed,
    "trace": lambda s: s.trace_changed,
    "correlation": lambda s: s.linking.correlation_changed,
    "linked": lambda s: s.linking.linked_changed,
    "visible": lambda s: s.viewport.changed,
    "filter": lambda s: s.queries.filter_changed,
    "mask": lambda s: s.queries.mask_changed,
    "search": lambda s: s.queries.search_changed,
    "lanes": lambda s: s.lanes.changed,
}


class EventLog:
    """The signals of a session by name in order, and a snapshot of it at each.

    Attributes
    ----------
    names : the signals as they came.
    states : the state of the session at the last signal of each name.
    """

    def __init__(self, session: Session) -> None:
        self.names: list[str] = []
        self.states: dict[str, dict[str, object]] = {}
        self._session = session
        for name, signal in SIGNALS.items():
            signal(session).connect(self._slot(name))

    def _slot(self, name: str) -> Callable[[object], None]:
        def record(_payload: object) -> None:
            self.names.append(name)
            self.states[name] = snapshot(self._session)

        return record


def snapshot(session: Session) -> dict[str, object]:
    """Return what a listener can read of the session now."""
    mask, hits = session.queries.mask, session.queries.hits
    return {
        "spans": 0 if session.trace is None else len(session.trace.spans),
        "is_appending": session.is_appending,
        "holds_tasks": session.tasks.is_holding,
        "selection": session.selection.current.ids,
        "marked": session.ranges.marked,
        "color_by": session.display.color_by,
        "visible": session.viewport.visible,
        "mask": None if mask is None else len(mask),
        "hits": None if hits is None else len(hits.ids),
        "can_go_back": session.history.can_go_back,
    }


@pytest.fixture
def trace() -> Trace:
    """Return a trace with a column that later traces lack: the processor core."""
    made = llama_like_trace(tokens=4, layers=3)
    core = np.zeros(len(made.spans), np.int16)
    return replace(made, spans=replace(made.spans, core=core))


@pytest.fixture
def session(qtbot: QtBot, trace: Trace) -> Iterator[Session]:
    """Return a session in which everything that a person can set is set."""
    made = Session()
    made.set_trace(trace)
    made.selection.select(Selection("spans", (3,)))
    made.ranges.set_marked(MarkedRange(TimeRange(0, 10)))
    made.display.set_color_by("core")
    made.viewport.set_visible(VISIBLE)
    made.queries.set_filter(FILTER)
    made.queries.search("ffn")
    yield made
    made.close()


def test_replaced_trace_is_published_once_nothing_refers_to_the_old_rows(
    session: Session,
) -> None:
    log = EventLog(session)

    session.set_trace(replace(spans_trace([0], [1000]), pending=frozenset({"spans"})))

    assert log.names == [
        "search", "selection", "linked", "marked", "coloring", "trace",
        "correlation", "linked", "visible", "mask", "search",
    ]  # fmt: skip
    assert log.states["selection"]["holds_tasks"]
    assert log.states["trace"] == {
        "spans": 1, "is_appending": False, "holds_tasks": True, "selection": (),
        "marked": None, "color_by": "family", "visible": VISIBLE, "mask": None,
        "hits": None, "can_go_back": True,
    }  # fmt: skip
    assert log.states["search"] == log.states["trace"] | {
        "visible": TimeRange(0, 1000), "mask": 1, "hits": 0, "can_go_back": False,
    }  # fmt: skip
    assert not session.history.can_go_back


def test_extended_trace_asks_again_with_everything_else_as_it_was(
    session: Session, trace: Trace
) -> None:
    before = snapshot(session)
    log = EventLog(session)

    session.set_trace(
        replace(trace, generation=2, pending=frozenset({"spans"})), TraceChange.EXTENDED
    )

    assert log.names == ["search", "trace", "correlation", "linked", "mask", "search"]
    expected = before | {"holds_tasks": True}
    assert log.states["trace"] == expected | {"mask": None, "hits": None}
    assert log.states["search"] == expected


def test_grown_trace_keeps_hits_until_they_are_found_again(
    session: Session, trace: Trace
) -> None:
    before = snapshot(session)
    log = EventLog(session)

    session.set_trace(replace(trace, generation=2), TraceChange.GREW)

    assert log.names == ["trace", "correlation", "linked", "mask", "search"]
    assert log.states["trace"] == before | {"mask": None}
    assert log.states["search"] == before


def test_appended_trace_is_published_with_mask_and_hits_of_all_its_spans(
    session: Session, trace: Trace
) -> None:
    before = snapshot(session)
    log = EventLog(session)

    session.set_trace(
        replace(trace, generation=2, pending=frozenset({RUNNING})), TraceChange.APPENDED
    )

    assert log.names == ["trace", "mask", "search"]
    assert log.states["trace"] == before | {"is_appending": True}
    assert snapshot(session) == before


def test_appended_range_that_follows_a_program_is_no_step(
    session: Session, trace: Trace
) -> None:
    session.history.record()
    log = EventLog(session)

    session.set_trace(
        replace(trace, generation=2, pending=frozenset({RUNNING})),
        TraceChange.APPENDED,
        TimeRange(5000, 95_000),
    )

    assert log.names == ["trace", "visible", "mask", "search"]
    assert log.states["visible"]["is_appending"]
    session.history.record()
    session.navigator.back()
    assert session.viewport.visible != VISIBLE


def test_closed_trace_is_published_once_its_links_are_gone(session: Session) -> None:
    log = EventLog(session)

    session.close()

    assert log.names == ["linked", "trace"]
    assert log.states["trace"]["mask"] is None
    assert log.states["trace"]["hits"] is None


def test_selection_is_published_before_its_links(session: Session) -> None:
    session.ranges.set_marked(None)
    log = EventLog(session)

    session.selection.select(Selection("spans", (5,)))

    assert log.names == ["selection", "linked"]


def test_kept_list_is_known_to_those_who_hear_of_the_visible_range(
    session: Session,
) -> None:
    session.ranges.set_marked(None)
    session.selection.select(Selection("spans", (1,)), is_listed=True)
    ranges: list[MarkedRange | None] = []
    session.viewport.changed.connect(lambda _: ranges.append(session.ranges.listed))
    log = EventLog(session)

    session.navigator.fit_selection()

    assert sorted(log.names) == ["listed", "visible"]
    assert ranges == [MarkedRange(VISIBLE)]


def test_back_restores_visible_range_filter_selection_and_lanes_in_this_order(
    session: Session,
) -> None:
    session.history.record()
    before = snapshot(session)
    session.lanes.set_state(replace(session.lanes.state, hidden=frozenset({"a"})))
    session.selection.select(Selection("spans", (5,)))
    session.queries.set_filter(Filter())
    session.viewport.set_visible(TimeRange(0, 50_000))
    session.history.record()
    after = snapshot(session)
    log = EventLog(session)

    session.navigator.back()

    assert log.names == ["visible", "filter", "mask", "selection", "linked", "lanes"]
    assert snapshot(session) == before
    assert session.lanes.state.hidden == frozenset()
    session.navigator.forward()
    assert snapshot(session) == after
    assert session.lanes.state.hidden == {"a"}


def test_steps_back_end_at_the_first_view_of_the_trace(session: Session) -> None:
    session.history.record()

    session.navigator.back()

    assert not session.history.can_go_back
    assert session.history.can_go_forward
    assert session.viewport.visible == session.trace.extent
    assert session.selection.current == Selection()
    assert session.queries.filter == Filter()


def test_lanes_arranged_by_no_person_are_no_step(session: Session) -> None:
    session.history.record()
    hidden = replace(session.lanes.state, hidden=frozenset({"a"}))

    session.lanes.set_state(hidden, is_step=False)
    session.history.record()
    session.navigator.back()
    session.navigator.forward()

    assert session.lanes.state == hidden
    assert not session.history.can_go_forward
