"""Urgent jobs go first; held ones wait until more is known."""

import os
import sys
import threading

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ggscope.session.tasks import Tasks


def test_jobs_wait_for_an_urgent_one_and_then_run(
    qtbot: QtBot, qapp: QApplication
) -> None:
    tasks, gate, done = Tasks(), threading.Event(), []
    tasks.run("slow", lambda _: gate.wait(5), done.append, is_urgent=True)

    tasks.run("later", lambda _: "later", done.append)
    held = tasks.is_running("later")
    gate.set()
    qtbot.waitUntil(lambda: tasks.is_idle)

    assert held
    assert done == [True, "later"]
    tasks.close()


def test_held_jobs_go_on_though_the_result_was_not_taken(
    qtbot: QtBot, qapp: QApplication
) -> None:
    tasks, gate, done, idle = Tasks(), threading.Event(), [], []
    tasks.became_idle.connect(lambda: idle.append(True))

    def fail(_: object) -> None:
        raise ValueError("on purpose")

    with qtbot.captureExceptions() as caught:
        tasks.run("slow", lambda _: gate.wait(5), fail, is_urgent=True)
        tasks.run("later", lambda _: "later", done.append)
        gate.set()
        qtbot.waitUntil(lambda: bool(done))
        qtbot.waitUntil(lambda: bool(idle))

    assert [kind for kind, _, _ in caught] == [ValueError]
    assert done == ["later"]
    tasks.close()


def test_a_held_job_can_be_cancelled_and_replaced(
    qtbot: QtBot, qapp: QApplication
) -> None:
    tasks, gate, done = Tasks(), threading.Event(), []
    tasks.run("slow", lambda _: gate.wait(5), done.append, is_urgent=True)
    tasks.run("a", lambda _: "dropped", done.append)
    tasks.run("b", lambda _: "old", done.append)
    tasks.cancel("a")
    tasks.run("b", lambda _: "new", done.append)

    gate.set()
    qtbot.waitUntil(lambda: tasks.is_idle)

    assert done == [True, "new"]
    tasks.close()


def test_who_waits_for_a_held_job_is_reported_when_it_is_cancelled(
    qtbot: QtBot, qapp: QApplication
) -> None:
    tasks, gate, messages = Tasks(), threading.Event(), []
    tasks.run("slow", lambda _: gate.wait(5), messages.append, is_urgent=True)
    for key in ("a", "b", "c"):
        tasks.run(
            key,
            lambda _: "never",
            messages.append,
            on_cancel=lambda key=key: messages.append(key),
        )

    tasks.cancel("a")
    tasks.cancel("b")
    tasks.run("b", lambda _: "asked anew", messages.append)
    assert not messages, "not while the one who cancels is still at it"
    qtbot.waitUntil(lambda: messages == ["a"])
    gate.set()
    qtbot.waitUntil(lambda: tasks.is_idle)

    assert sorted(messages, key=str) == [True, "a", "asked anew", "never"]
    tasks.close()


def test_closing_forgets_held_jobs(qapp: QApplication) -> None:
    tasks, gate, done = Tasks(), threading.Event(), []
    tasks.run("slow", lambda c: gate.wait(0.2), done.append, is_urgent=True)
    tasks.run("a", lambda _: "never", done.append)

    tasks.close()
    gate.set()

    assert tasks.is_idle
    assert done == []


def test_held_jobs_wait_except_those_worth_doing_now(
    qtbot: QtBot, qapp: QApplication
) -> None:
    tasks, done = Tasks(), []
    tasks.hold(True)

    tasks.run("statistics", lambda _: "statistics", done.append)
    tasks.run("overview", lambda _: "overview", done.append, even_if_held=True)
    tasks.run("timeline", lambda _: "timeline", done.append, is_urgent=True)
    qtbot.waitUntil(lambda: len(done) == 2)
    before = sorted(done)
    tasks.hold(False)
    qtbot.waitUntil(lambda: tasks.is_idle)

    assert before == ["overview", "timeline"]
    assert done[2] == "statistics"
    tasks.close()


def test_forgotten_held_jobs_never_run(qtbot: QtBot, qapp: QApplication) -> None:
    tasks, done = Tasks(), []
    tasks.hold(True)
    tasks.run("table", lambda _: "of the old snapshot", done.append)

    tasks.forget_held()
    tasks.hold(False)
    tasks.run("other", lambda _: "new", done.append)
    qtbot.waitUntil(lambda: tasks.is_idle)

    assert done == ["new"]
    tasks.close()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority here")
def test_jobs_step_back_for_the_window_and_urgent_ones_do_not(qtbot: QtBot) -> None:
    tasks = Tasks()
    nice: dict[str, int] = {}

    def look(name: str) -> None:
        tid = threading.get_native_id()
        nice[name] = os.getpriority(os.PRIO_PROCESS, tid)

    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    for name in ("picture", "statistics"):
        is_urgent = name == "picture"
        tasks.run(name, lambda _, n=name: look(n), lambda _: None, is_urgent=is_urgent)
    qtbot.waitUntil(lambda: len(nice) == 2)
    tasks.close()

    assert nice == {"picture": own, "statistics": min(own + 5, 19)}
