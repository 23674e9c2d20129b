"""Garbage is collected on the main thread only."""

import gc
import threading
import weakref

from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from ggscope.gui import memory
from ggscope.gui.memory import MainThreadCollector


class Knot(QObject):
    """Refers to itself, so only the collector frees it."""

    def __init__(self) -> None:
        super().__init__()
        self.me = self


def test_workers_never_collect_and_the_timer_does(qtbot: QtBot) -> None:
    gc.enable()
    collector = MainThreadCollector(period_ms=10)
    freed_on: list[threading.Thread] = []
    knot = Knot()
    watch = weakref.ref(knot, lambda _: freed_on.append(threading.current_thread()))
    del knot

    worker = threading.Thread(target=lambda: [[i] for i in range(200_000)])
    worker.start()
    worker.join()
    alive_after_worker = watch() is not None
    rubbish = [[] for _ in range(5_000)]
    qtbot.waitUntil(lambda: watch() is None)
    collector.stop()

    assert alive_after_worker
    assert freed_on == [threading.main_thread()]
    assert rubbish
    assert gc.isenabled()
    assert memory.PERIOD_MS > 0
