"""Memory that jobs have freed goes back to the system when they are done."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import QTimer
from pytestqt.qtbot import QtBot

from ggscope.gui import memory
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.gui.memory import ClosedReturner, MemoryReturner
from ggscope.render import text_metrics
from ggscope.render.batch import Face
from ggscope.session.tasks import TaskContext, Tasks
from support import ROOT

needs_glibc = pytest.mark.skipif(
    memory.malloc_trim() is None, reason="the C library has no malloc_trim"
)
BLOCK, N_BLOCKS = 1 << 16, 1_600


def resident() -> int:
    return psutil.Process().memory_info().rss


def blocks() -> list[bytearray]:
    """Return 100 MB in blocks so small that they come from the heap."""
    return [bytearray(b"x" * BLOCK) for _ in range(N_BLOCKS)]


@needs_glibc
def test_memory_that_a_job_freed_is_given_back(qtbot: QtBot) -> None:
    tasks = Tasks()
    returner = MemoryReturner(tasks)
    plugs: list[bytearray] = []
    held: list[int] = []

    def job(_: TaskContext) -> None:
        result = blocks()
        plugs.append(bytearray(b"y" * BLOCK))  # so the heap cannot shrink by itself
        held.append(resident())
        del result

    tasks.run("job", job, lambda _: None)
    qtbot.waitUntil(lambda: bool(held) and tasks.is_idle)

    qtbot.waitUntil(lambda: resident() < held[0] - 80_000_000)
    tasks.close()
    del returner


@needs_glibc
def test_memory_of_a_job_that_outlives_its_tab_is_given_back(qtbot: QtBot) -> None:
    tasks, returner = Tasks(), ClosedReturner()
    plugs: list[bytearray] = []
    held: list[int] = []
    may_end = threading.Event()

    def job(_: TaskContext) -> None:
        result = blocks()
        plugs.append(bytearray(b"y" * BLOCK))  # so the heap cannot shrink by itself
        held.append(resident())
        may_end.wait()
        del result

    tasks.run("job", job, lambda _: None)
    qtbot.waitUntil(lambda: bool(held))
    tasks.close()
    with qtbot.waitSignal(returner.findChild(QTimer).timeout):
        returner.start(tasks.jobs)
    may_end.set()

    qtbot.waitUntil(lambda: resident() < held[0] - 80_000_000)
    assert not tasks.jobs


def test_closing_a_tab_waits_for_its_jobs(
    window: MainWindow,
    opened: Callable[[Path], Document],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = opened(ROOT / "resources" / "samples" / "llama.ggmlviz")
    given: list[object] = []
    monkeypatch.setattr(window.findChild(ClosedReturner), "start", given.append)

    window.close_document(document)

    assert given == [document.session.tasks.jobs]


def test_texts_of_a_closed_trace_are_not_kept(
    window: MainWindow, opened: Callable[[Path], Document], qtbot: QtBot
) -> None:
    document = opened(ROOT / "resources" / "samples" / "llama.ggmlviz")
    for width in range(40, 140):
        text_metrics.elided("blk.0.attn_q.weight of the trace", Face.MONO, 12.0, width)
    assert text_metrics.elided.cache_info().currsize >= 100
    assert text_metrics.text_width.cache_info().currsize

    window.close_document(document)

    qtbot.waitUntil(lambda: text_metrics.elided.cache_info().currsize == 0)
    assert text_metrics.text_width.cache_info().currsize == 0


HEAPS = """
import ctypes, sys, threading
from ggscope.gui.memory import share_one_heap
if sys.argv[1] == "one":
    share_one_heap()
begin = threading.Barrier(5)
kept = []
def work():
    kept.append([bytearray(70_000) for _ in range(50)])
    begin.wait()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
begin.wait()
ctypes.CDLL(None).malloc_stats()
"""


@needs_glibc
@pytest.mark.parametrize(("mode", "is_one"), [("one", True), ("many", False)])
def test_threads_of_the_window_share_one_heap(mode: str, is_one: bool) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", HEAPS, mode],
        stderr=subprocess.PIPE, text=True, check=True, env=environment,
    )  # fmt: skip

    assert "Arena 0:" in done.stderr
    assert ("Arena 1:" not in done.stderr) == is_one


def test_giving_back_is_possible_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    memory.malloc_trim.cache_clear()
    try:
        memory.give_back()

        assert memory.malloc_trim() is None
    finally:
        memory.malloc_trim.cache_clear()
