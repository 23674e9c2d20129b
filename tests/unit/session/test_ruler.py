"""The ruler of a session: made, moved by keys, kept and removed."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from builders import llama_like_trace
from ggscope.analysis.ruler import ruler_facts
from ggscope.model.selection import MarkedRange
from ggscope.model.units import TimeRange
from ggscope.session.ruler import Ruler
from ggscope.session.session import Session, TraceChange


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(llama_like_trace())
    yield session
    session.close()


def test_selection_is_measured_and_its_facts_follow(
    session: Session, qtbot: QtBot
) -> None:
    trace = session.trace
    assert trace is not None
    session.selection.select_span(3)

    session.ruler.measure()

    ruler = session.ruler.current
    assert ruler is not None
    time = TimeRange(int(trace.spans.start[3]), int(trace.spans.end[3]))
    assert (ruler.time, session.ruler.is_active) == (time, True)
    qtbot.waitUntil(lambda: session.ruler.facts is not None)
    assert session.ruler.facts == ruler_facts(trace, time)
    session.ruler.measure()
    assert (session.ruler.current, session.ruler.is_active) == (None, False)
    assert session.ruler.facts is None


def test_keys_move_one_end_along_the_edges_of_the_lane(session: Session) -> None:
    trace = session.trace
    assert trace is not None
    session.selection.select_span(3)  # on thread 0, as 0, 1 … are
    start, end = trace.spans.start, trace.spans.end

    session.ruler.step(1)
    assert session.ruler.current is not None
    assert session.ruler.current.time == TimeRange(int(start[3]), int(start[4]))
    session.ruler.step(1)
    assert session.ruler.current.time == TimeRange(int(start[3]), int(end[4]))
    session.ruler.swap()
    session.ruler.step(-1)
    assert session.ruler.current.time == TimeRange(int(end[2]), int(end[4]))
    for _ in range(10 * len(trace.spans)):
        session.ruler.step(-1)
    assert session.ruler.current.moving == int(start[0])  # the first there is


def test_end_that_leaves_the_view_is_brought_back(session: Session) -> None:
    session.ranges.set_marked(MarkedRange(TimeRange(0, 1000)))
    session.viewport.set_visible(TimeRange(0, 1000))

    session.ruler.step(1)

    ruler = session.ruler.current
    assert ruler is not None
    assert session.viewport.visible.contains(ruler.moving)


def test_ruler_stays_at_its_moment_and_goes_with_its_trace(session: Session) -> None:
    trace = session.trace
    assert trace is not None
    session.ruler.set(Ruler(100, 500))

    origin = trace.clock.origin - 50  # files of an earlier begin were added
    clock = replace(trace.clock, origin=origin)
    session.set_trace(replace(trace, clock=clock), TraceChange.GREW)
    assert session.ruler.current == Ruler(150, 550)

    session.set_trace(llama_like_trace(2), TraceChange.REPLACED)
    assert session.ruler.current is None
