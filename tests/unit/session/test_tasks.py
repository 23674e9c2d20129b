"""Background jobs: newest wins, values come back on the main thread."""

import threading
import weakref
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from ggscope.errors import Cancelled, QueryError
from ggscope.session.tasks import NO_MEMORY, TaskContext, TaskFailure, Tasks, TaskState
from reading import workers


@pytest.fixture
def tasks(qtbot: QtBot) -> Iterator[Tasks]:
    made = Tasks()
    yield made
    made.close()


class Gate:
    """A request that waits until it is let go, and says where it ran."""

    def __init__(self, value: object = None) -> None:
        self.value = value
        self.begun = threading.Event()
        self.go = threading.Event()
        self.thread = ""
        self.was_cancelled = False

    def __call__(self, context: TaskContext) -> object:
        self.thread = threading.current_thread().name
        self.begun.set()
        self.go.wait(5)
        try:
            context.check_cancelled()
        except Cancelled:
            self.was_cancelled = True
            raise
        return self.value


def test_result_arrives_on_the_main_thread(qtbot: QtBot, tasks: Tasks) -> None:
    seen: list[tuple[int, str]] = []

    tasks.run(
        "k",
        lambda _: threading.current_thread().name,
        lambda worker: seen.append((threading.get_ident(), worker)),
    )
    qtbot.waitUntil(lambda: tasks.is_idle)

    assert seen[0][0] == threading.get_ident()
    assert seen[0][1] != threading.current_thread().name


def test_newer_request_supersedes_running_one(qtbot: QtBot, tasks: Tasks) -> None:
    first, results = Gate("old"), []
    tasks.run("k", first, results.append)
    first.begun.wait(5)

    tasks.run("k", lambda _: "middle", results.append)
    tasks.run("k", lambda _: "new", results.append)
    first.go.set()
    qtbot.waitUntil(lambda: tasks.is_idle and bool(results))

    assert results == ["new"]
    assert first.was_cancelled


def test_bursts_on_several_keys_end_with_the_newest(qtbot: QtBot, tasks: Tasks) -> None:
    latest: dict[int, int] = {}
    for number in range(400):
        key = number % 4
        tasks.run(
            f"k{key}",
            lambda _, n=number: n,
            lambda n, k=key: latest.__setitem__(k, n),
        )
    qtbot.waitUntil(lambda: tasks.is_idle)

    assert latest == {0: 396, 1: 397, 2: 398, 3: 399}


@pytest.mark.parametrize(
    ("error", "message", "has_report"),
    [
        (QueryError("the filter ends early."), "the filter ends early.", False),
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero", True),
        (MemoryError(), NO_MEMORY, False),
    ],
)
@pytest.mark.parametrize("has_handler", [True, False])
def test_exception_comes_back_as_a_failure(
    qtbot: QtBot,
    tasks: Tasks,
    error: Exception,
    message: str,
    has_report: bool,
    has_handler: bool,
) -> None:
    handled: list[TaskFailure] = []
    others: list[TaskFailure] = []

    def request(_: TaskContext) -> None:
        raise error

    tasks.failed.connect(others.append)
    on_error = handled.append if has_handler else None
    tasks.run("k", request, lambda _: None, on_error=on_error)
    qtbot.waitUntil(lambda: tasks.is_idle)

    (failure,) = handled if has_handler else others
    assert len(handled) + len(others) == 1
    assert failure.message == message
    assert (type(error).__name__ in failure.report) == has_report


def test_cancel_gives_no_result_but_shows(qtbot: QtBot, tasks: Tasks) -> None:
    gate, events = Gate(), []
    tasks.run(
        "k",
        gate,
        lambda _: events.append("result"),
        on_error=lambda _: events.append("error"),
        on_cancel=lambda: events.append("cancelled"),
    )
    gate.begun.wait(5)

    tasks.cancel("k")
    gate.go.set()
    qtbot.waitUntil(lambda: tasks.is_idle)

    assert events == ["cancelled"]


def test_waiting_request_is_forgotten_on_cancel(qtbot: QtBot, tasks: Tasks) -> None:
    gate, results = Gate("a"), []
    tasks.run("k", gate, results.append)
    gate.begun.wait(5)
    tasks.run("k", lambda _: "b", results.append)

    tasks.cancel("k")
    gate.go.set()
    qtbot.waitUntil(lambda: tasks.is_idle)

    assert results == []


def test_progress_reaches_the_state(qtbot: QtBot, tasks: Tasks) -> None:
    states: list[TaskState] = []
    gate = Gate()

    def request(context: TaskContext) -> None:
        context.progress(30, 100)
        gate(context)

    tasks.task_changed.connect(states.append)
    tasks.run("k", request, lambda _: None, title="Reading", unit="B")
    qtbot.waitUntil(lambda: any(s.done == 30 for s in states))
    running = tasks.states()
    gate.go.set()
    qtbot.waitUntil(lambda: tasks.is_idle)

    assert (running[0].title, running[0].done, running[0].total) == ("Reading", 30, 100)
    assert not states[-1].is_running
    assert tasks.states() == ()


def test_early_values_are_replaced_by_newer_ones(qtbot: QtBot, tasks: Tasks) -> None:
    early: list[int] = []
    event = threading.Event()

    def request(context: TaskContext) -> None:
        for number in range(100):
            context.publish(number)
        event.set()

    tasks.run("k", request, lambda _: None, on_publish=early.append)
    assert event.wait(10)  # the window is busy meanwhile
    qtbot.waitUntil(lambda: tasks.is_idle)

    assert early == [99]


def test_close_stops_threads_and_drops_results(qtbot: QtBot, tasks: Tasks) -> None:
    results: list[int] = []

    def request(context: TaskContext) -> int:
        while True:
            context.check_cancelled()

    tasks.run("k", request, results.append)
    tasks.close()
    tasks.run("k", lambda _: 1, results.append)
    qtbot.wait(20)

    assert results == []
    assert tasks.is_idle
    qtbot.waitUntil(lambda: not workers())


def test_close_does_not_wait_for_jobs_that_have_not_begun(
    qtbot: QtBot, tasks: Tasks
) -> None:
    def request(context: TaskContext) -> int:
        while True:
            context.check_cancelled()

    for number in range(12):  # more than there are threads
        tasks.run(f"k{number}", request, lambda _: None)
    tasks.close()

    qtbot.waitUntil(lambda: not workers())


def test_close_returns_while_a_job_is_deaf_and_drops_what_it_says(
    qtbot: QtBot, tasks: Tasks
) -> None:
    gate, results = Gate("late"), []
    tasks.run("k", gate, results.append, on_publish=results.append)
    gate.begun.wait(5)

    tasks.close()
    still_there = workers()
    gate.go.set()
    qtbot.waitUntil(lambda: not workers())

    assert still_there
    assert results == []


def test_a_closed_job_lets_go_of_whoever_waited(qtbot: QtBot, tasks: Tasks) -> None:
    class View:
        def on_result(self, _: object) -> None: ...

    gate, view = Gate(), View()
    tasks.run("k", gate, view.on_result)
    gate.begun.wait(5)

    tasks.close()
    left = weakref.ref(view)
    del view
    is_gone = left() is None
    gate.go.set()

    assert is_gone


def test_a_failed_job_lets_go_of_what_its_frames_held(
    qtbot: QtBot, tasks: Tasks
) -> None:
    class Column: ...

    columns: list[weakref.ref[Column]] = []

    def request(_: TaskContext) -> None:
        column = Column()
        columns.append(weakref.ref(column))
        raise MemoryError

    failures: list[TaskFailure] = []
    tasks.run("k", request, lambda _: None, on_error=failures.append)
    qtbot.waitUntil(lambda: bool(failures))

    assert columns[0]() is None


def test_estimate_follows_from_rate() -> None:
    state = TaskState("k", "Reading", 250, 1000, started=10.0)

    assert state.rate(15.0) == 50.0
    assert state.seconds_left(15.0) == 15.0
    assert TaskState("k", "", 0, 0, 10.0).seconds_left(11.0) is None
