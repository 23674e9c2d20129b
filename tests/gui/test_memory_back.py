"""Memory that jobs have freed goes back to the system when they are done."""

import psutil
import pytest
from pytestqt.qtbot import QtBot

from ggscope.gui import memory as memory_back
from ggscope.gui.memory import MemoryReturner
from ggscope.session.tasks import TaskContext, Tasks

needs_glibc = pytest.mark.skipif(
    memory_back._trim() is None, reason="the C library has no malloc_trim"
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
        found = blocks()
        plugs.append(bytearray(b"y" * BLOCK))  # so the heap cannot shrink by itself
        held.append(resident())
        del found

    tasks.run("job", job, lambda _: None)
    qtbot.waitUntil(lambda: bool(held) and tasks.is_idle)

    qtbot.waitUntil(lambda: resident() < held[0] - 80_000_000)
    tasks.close()
    del returner


def test_giving_back_is_possible_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_back.sys, "platform", "darwin")
    memory_back._trim.cache_clear()
    try:
        memory_back.give_back()

        assert memory_back._trim() is None
    finally:
        memory_back._trim.cache_clear()
