"""Replay of a session: where it goes, and when it ends."""

from collections.abc import Iterator

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from builders import empty_trace, llama_like_trace, spans_trace
from ggscope.session.session import Session
from ggscope.session.tokens import token_times


@pytest.fixture
def session(qtbot: QtBot) -> Iterator[Session]:
    made = Session()
    made.set_trace(llama_like_trace(tokens=4))
    yield made
    made.close()


def test_replay_is_off_until_it_is_asked_for(session: Session) -> None:
    assert session.replay.tick is None
    assert session.replay.share is None
    assert not session.replay.is_playing


def test_play_goes_on_by_itself_and_the_line_with_it(
    session: Session, qtbot: QtBot
) -> None:
    replay = session.replay

    replay.toggle()

    assert replay.is_playing
    assert replay.tick == session.trace.extent.start
    qtbot.waitUntil(lambda: replay.tick > session.trace.extent.start)
    assert session.viewport.cursor_tick == replay.tick
    replay.toggle()
    now = replay.tick
    qtbot.wait(80)
    assert replay.tick == now
    assert replay.end()
    assert session.viewport.cursor_tick is None
    assert not replay.end()


def test_play_stops_at_the_end_and_begins_anew(session: Session, qtbot: QtBot) -> None:
    replay, extent = session.replay, session.trace.extent
    replay.go_to(0.999)
    replay.toggle()

    qtbot.waitUntil(lambda: not replay.is_playing)

    assert replay.tick == extent.end
    assert replay.share == 1.0
    replay.toggle()
    assert replay.tick == extent.start


def test_steps_are_tokens_and_pause(session: Session) -> None:
    replay = session.replay
    starts = np.unique(token_times(session.trace).start).tolist()
    replay.go_to(0.0)
    replay.toggle()

    for start in [s for s in starts if s > session.trace.extent.start]:
        replay.step(1)
        assert not replay.is_playing
        assert replay.tick == start
    replay.step(1)
    assert replay.tick == session.trace.extent.end
    replay.step(-1)
    assert replay.tick == starts[-1]
    for _ in range(20):
        replay.step(-1)
    assert replay.tick == starts[0]


def test_steps_of_a_trace_without_tokens_are_hundredths(session: Session) -> None:
    session.set_trace(spans_trace([0, 500], [400, 1000]))

    session.replay.step(-1)
    assert session.replay.tick == 990
    session.replay.step(-1)
    assert session.replay.tick == 980


def test_another_trace_ends_replay(session: Session) -> None:
    session.replay.go_to(0.5)

    session.set_trace(llama_like_trace(tokens=2))

    assert session.replay.tick is None


def test_trace_without_spans_is_not_replayed(session: Session) -> None:
    session.set_trace(empty_trace())

    session.replay.toggle()
    session.replay.step(1)
    session.replay.go_to(0.5)

    assert session.replay.tick is None
    assert not session.replay.is_playing


def test_closed_session_replays_no_more(qtbot: QtBot) -> None:
    session = Session()
    session.set_trace(llama_like_trace())
    session.replay.toggle()

    session.close()

    assert not session.replay.is_playing
    assert session.replay.tick is None
