"""Cancelling, closing and reloading at any moment leaves nothing behind."""

import gc
import random
import threading
import weakref
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ggscope.gui.app import create_window
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext
from ggscope.session.loader import LoadState
from ggscope.session.settings import Settings
from hostile import big_files
from reading import workers

BYTES = 24_000_000
READERS = ("tensor-access", "ggmlviz", "npu-json")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return big_files(tmp_path_factory.mktemp("moments"), BYTES)


class Eyes:
    """Keeps weak references to tabs, and to a column of every trace they show."""

    def __init__(self) -> None:
        self.seen: list[weakref.ref[object]] = []

    def follow(self, document: Document) -> None:
        session, seen = weakref.ref(document.session), self.seen

        def on_change(_: object) -> None:
            here = session()
            if here is not None and here.trace is not None:
                seen.append(weakref.ref(here.trace.spans.start))

        document.session.trace_changed.connect(on_change)
        seen += [weakref.ref(part) for part in (document, document.session)]

    def alive(self) -> list[str]:
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        QApplication.processEvents()
        gc.collect()
        gc.collect()
        refs = (ref() for ref in self.seen)
        return [type(part).__name__ for part in refs if part is not None]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("reader_id", READERS)
def test_any_order_of_cancel_close_and_reload_leaves_nothing(
    window: MainWindow,
    qtbot: QtBot,
    files: dict[str, Path],
    reader_id: str,
    seed: int,
) -> None:
    path, dice, eyes = files[reader_id], random.Random(seed), Eyes()

    for _ in range(4):
        document = window.open_path(path)
        eyes.follow(document)
        for _ in range(dice.randrange(4)):
            qtbot.wait(dice.randrange(120))
            dice.choice((document.stop_reading, document.session.reload))()
        qtbot.wait(dice.randrange(120))
        window.close_document(document)
        del document
    qtbot.waitUntil(lambda: not workers(), timeout=20_000)

    # A timer of one shot may still hold what it was to do; nothing holds it for ever.
    qtbot.waitUntil(lambda: eyes.alive() == [], timeout=20_000)
    assert str(path) not in {file.path for file in psutil.Process().open_files()}


def test_tab_that_is_closed_is_not_kept_by_another_one(
    window: MainWindow, qtbot: QtBot, settings: Settings, files: dict[str, Path]
) -> None:
    """The other remembered the pane that had the focus, whose ever it was."""
    eyes, path = Eyes(), files["tensor-access"]
    other = create_window(settings, "dark")
    try:
        entries = other.open_path(path)
        document = window.open_path(path)
        eyes.follow(document)
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        pane = document.workspace.hosts()[1]
        own = entries.workspace.hosts()[1]
        app.focusChanged.emit(None, own)
        app.focusChanged.emit(own, pane)
        window.close_document(document)
        del document, pane
        qtbot.waitUntil(lambda: eyes.alive() == [], timeout=20_000)

        assert entries.workspace.active_cell is own
    finally:
        other.close()
        other.deleteLater()


@pytest.mark.parametrize("reader_id", READERS)
def test_window_can_be_closed_at_any_moment(
    window: MainWindow, qtbot: QtBot, files: dict[str, Path], reader_id: str
) -> None:
    dice = random.Random(11)
    window.open_path(files[reader_id])
    qtbot.wait(dice.randrange(200))

    window.close()

    assert window.n_documents == 0
    qtbot.waitUntil(lambda: not workers(), timeout=20_000)


def test_stopping_as_soon_as_something_is_shown_keeps_just_that(
    window: MainWindow,
    qtbot: QtBot,
    files: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = threading.Event()
    publish = ReadContext.publish

    def slow(self: ReadContext, trace: Trace) -> None:
        publish(self, trace)
        shown.wait(10)  # until the person has reacted

    monkeypatch.setattr(ReadContext, "publish", slow)
    document = window.open_path(files["tensor-access"])
    qtbot.waitUntil(
        lambda: (
            document.session.trace is not None
            or document.loader.state is not LoadState.LOADING
        ),
        timeout=20_000,
    )
    if document.loader.state is LoadState.READY:
        pytest.skip("the file was read before anything could be shown early")

    document.stop_reading()
    shown.set()

    assert document.loader.state is LoadState.STOPPED
    trace = document.session.trace
    assert trace is not None
    assert not trace.pending
    assert trace.check() == []
    qtbot.waitUntil(lambda: document.session.tasks.is_idle, timeout=20_000)
    window.close_document(document)
