"""Back and forward over view points."""

import pytest
from pytestqt.qtbot import QtBot

from buffer_traces import Life, buffers_trace
from ggscope.model.selection import Filter, Selection
from ggscope.model.units import TimeRange
from ggscope.session.history import CAPACITY, History, ViewPoint
from ggscope.session.time_ranges import of_selection
from pages import is_settled


def point(number: int) -> ViewPoint:
    return ViewPoint(TimeRange(number, number + 100), Selection(), Filter())


@pytest.fixture
def history(qtbot: QtBot) -> History:
    made = History()
    made.note(point(0))
    made.record()
    return made


def test_quick_changes_leave_one_entry(qtbot: QtBot, history: History) -> None:
    for number in range(1, 50):
        history.note(point(number))
    qtbot.waitUntil(lambda: is_settled(history))

    assert history.back() == point(0)
    assert history.forward() == point(49)
    assert history.forward() is None


def test_back_at_the_beginning_gives_nothing(history: History) -> None:
    assert not history.can_go_back
    assert history.back() is None


def test_back_records_what_was_not_quiet_yet(history: History) -> None:
    history.note(point(1))

    assert history.can_go_back
    assert history.back() == point(0)
    assert history.forward() == point(1)


def test_new_point_after_back_forgets_what_lay_ahead(history: History) -> None:
    for number in (1, 2):
        history.note(point(number))
        history.record()
    history.back()
    history.note(point(3))
    history.record()

    assert history.forward() is None
    assert history.back() == point(1)


def test_noting_the_restored_point_adds_nothing(history: History) -> None:
    history.note(point(1))
    history.record()
    restored = history.back()
    assert restored is not None

    history.note(restored)
    history.record()

    assert history.can_go_forward
    assert history.forward() == point(1)


def test_capacity_drops_the_oldest(history: History) -> None:
    for number in range(1, CAPACITY + 50):
        history.note(point(number))
        history.record()
    steps = 0
    while history.back() is not None:
        steps += 1

    assert steps == CAPACITY - 1


def test_clear_forgets_everything(history: History) -> None:
    history.note(point(1))
    history.clear()

    assert not history.can_go_back
    assert history.back() is None


def test_buffer_that_ended_before_time_0_is_not_one_that_never_ended() -> None:
    times = [Life(8, -900, -600), Life(8, -500)]
    trace = buffers_trace(times, extent=TimeRange(-900, 1000))

    assert of_selection(trace, Selection("buffers", (0,))) == TimeRange(-900, -600)
    assert of_selection(trace, Selection("buffers", (1,))) == TimeRange(-500, 1000)


def test_signals_only_where_one_can_go_elsewhere(
    qtbot: QtBot, history: History
) -> None:
    with qtbot.waitSignal(history.changed, timeout=1000):
        history.note(point(1))  # one can go back now
    with qtbot.assertNotEmitted(history.changed, wait=0):
        history.note(point(2))
        history.note(point(3))

    with qtbot.waitSignal(history.changed, timeout=1000):
        history.back()
    assert (history.can_go_back, history.can_go_forward) == (False, True)
