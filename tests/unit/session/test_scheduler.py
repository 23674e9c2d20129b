"""One clock between a trace that grows and the screen."""

import threading
import time
from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ggscope.session.scheduler import FrameClient, FrameClock, FrameScheduler
from ggscope.session.tasks import Tasks


@pytest.fixture
def tasks(qapp: QApplication) -> Iterator[Tasks]:
    tasks = Tasks()
    yield tasks
    tasks.close()


@pytest.fixture
def frames(tasks: Tasks) -> Iterator[FrameScheduler]:
    frames = FrameScheduler(tasks)
    yield frames
    frames.close()


def test_snapshot_is_due_at_once_where_it_would_show_something_new() -> None:
    clock = FrameClock()
    now = time.monotonic()
    dues = [clock.is_due(now)]
    clock.is_dirty = True
    dues.append(clock.is_due(now))
    clock.is_paused = True
    dues.append(clock.is_due(now))
    clock.is_paused = False
    clock.begin(now)
    clock.is_dirty = True
    dues.append(clock.is_due(now + 60))  # the frame before is in flight

    assert dues == [False, True, False, False]


def test_thread_waits_no_longer_than_until_the_next_frame() -> None:
    clock = FrameClock()
    clock.is_dirty = True
    before = time.monotonic()
    clock.wait(60.0)
    clock.begin(before)
    threading.Timer(0.05, clock.end).start()
    clock.is_dirty = True
    clock.wait(60.0)

    assert clock.wake.is_set()
    assert time.monotonic() - before < 50


@pytest.mark.parametrize(
    ("cost", "due"), [(0.0, 1 / 30), (0.02, 1 / 30), (0.08, 0.1), (2.0, 2.05)]
)
def test_frames_that_cost_much_leave_the_processors_a_rest(
    cost: float, due: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FrameClock()
    clock.begin(100.0)
    monkeypatch.setattr(time, "monotonic", lambda: 100.0 + cost)
    clock.end()
    clock.end()  # what came in between had nothing to show

    assert clock.due_s == pytest.approx(100 + due)


def test_status_is_due_some_time_after_a_frame_or_a_status() -> None:
    clock = FrameClock()
    clock.begin(100.0)

    dues = [clock.is_status_due(100 + s) for s in (0.1, 0.3, 0.4, 0.6)]

    assert dues == [False, True, False, True]


@pytest.mark.parametrize(
    ("n_spans", "seconds"),
    [(0, 0.25), (200_000, 0.25), (600_000, 0.6), (50_000_000, 10)],
)
def test_background_rests_the_longer_the_more_spans_there_are(
    frames: FrameScheduler, n_spans: int, seconds: float
) -> None:
    frames.n_spans = n_spans

    assert frames.background_s == seconds


def test_client_is_called_at_once_where_no_program_runs(frames: FrameScheduler) -> None:
    calls: list[float] = []
    client = FrameClient(frames, lambda: calls.append(time.monotonic()))

    client.mark_dirty()
    client.mark_dirty()

    assert len(calls) == 2
    assert not client.is_dirty


def test_marks_of_snapshots_are_one_call_per_interval(
    frames: FrameScheduler, qtbot: QtBot
) -> None:
    calls: list[float] = []
    client = FrameClient(frames, lambda: calls.append(time.monotonic()), 0.1)
    frames.is_appending = True
    for n in (1, 2):
        for _ in range(5):
            client.mark_dirty()
        assert len(calls) == n - 1
        qtbot.waitUntil(lambda n=n: len(calls) == n)

    assert calls[1] - calls[0] >= 0.09
    assert not client.is_dirty


def test_client_takes_no_more_than_its_share_of_the_main_thread(
    frames: FrameScheduler,
) -> None:
    client = FrameClient(frames, lambda: time.sleep(0.02), 0.001)
    client.run_now()
    before = time.monotonic()
    client.request()

    assert client.due_s is not None
    assert client.due_s - before > 0.05


def test_client_that_is_not_ready_is_asked_again(
    frames: FrameScheduler, qtbot: QtBot
) -> None:
    answers, calls = [False, False, True], []
    client = FrameClient(
        frames, lambda: calls.append(1), 0.01, is_ready=lambda: answers.pop(0)
    )
    client.request()
    qtbot.waitUntil(lambda: bool(calls))

    assert answers == []


def test_picture_goes_before_the_background(
    frames: FrameScheduler, tasks: Tasks, qtbot: QtBot
) -> None:
    gate, order = threading.Event(), []
    panes = FrameClient(frames, lambda: order.append("panes"))
    animation = FrameClient(frames, lambda: order.append("animation"), 0.001)
    frames.clock.begin(time.monotonic())
    tasks.run(
        "picture", lambda _: gate.wait(5), lambda _: order.append("picture"),
        is_urgent=True,
    )  # fmt: skip
    panes.request()
    animation.request()
    frames.frame_shown()
    qtbot.waitUntil(lambda: order == ["animation"])
    gate.set()
    qtbot.waitUntil(lambda: len(order) == 3)

    assert order == ["animation", "picture", "panes"]
    assert frames.clock.wait_idle(0)


def test_client_that_raises_does_not_stop_the_others(
    frames: FrameScheduler, qtbot: QtBot
) -> None:
    calls: list[int] = []

    def fail() -> None:
        raise ValueError("on purpose")

    with qtbot.captureExceptions() as caught:
        FrameClient(frames, fail, 0.01).request()
        FrameClient(frames, lambda: calls.append(1), 0.01).request()
        qtbot.waitUntil(lambda: bool(calls))

    assert [kind for kind, _, _ in caught] == [ValueError]


def test_new_clock_waits_for_no_frame_of_the_one_before(frames: FrameScheduler) -> None:
    before = frames.clock
    before.interval_s = 0.5
    before.begin(time.monotonic())

    clock = frames.new_clock()

    assert clock.wait_idle(0)
    assert not before.wait_idle(0)
    assert clock.interval_s == 0.5


def test_closed_scheduler_calls_nobody(frames: FrameScheduler, qtbot: QtBot) -> None:
    calls: list[int] = []
    client = FrameClient(frames, lambda: calls.append(1), 0.01)
    client.request()
    frames.close()
    qtbot.wait(50)

    assert calls == []
    assert not client.is_dirty
