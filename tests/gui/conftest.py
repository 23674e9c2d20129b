"""Fixtures of the window tests: settings in memory, windows that clean up."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from builders import llama_like_trace
from ggscope.gui.app import create_window
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.gui.panes.workspace import Workspace
from ggscope.gui.theme import base_px, mono_family, style_sheet, ui_font
from ggscope.model.trace import Trace
from ggscope.readers import registry
from ggscope.render.theme import theme
from ggscope.session.loader import LoadState
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from ggscope.session.settings_store import MemoryStore
from ggscope.views.base.view import View
from ggscope.views.registry import BUILTIN
from panes import settle_view
from reading import Reading


@pytest.fixture
def settings() -> Settings:
    """Return settings that live as long as the test."""
    return Settings(MemoryStore())


@pytest.fixture
def trace() -> Trace:
    """Return a small trace of llama.cpp; modules replace it by theirs."""
    return llama_like_trace(tokens=2, layers=2)


@pytest.fixture
def session(qtbot: QtBot, trace: Trace) -> Iterator[Session]:
    """Return a session that shows the trace."""
    made = Session()
    made.set_trace(trace)
    yield made
    made.close()


@pytest.fixture
def workspace(
    qtbot: QtBot, session: Session, settings: Settings
) -> Iterator[Workspace]:
    """Return a workspace of 1200 × 800 pixels that stands alone."""
    made = Workspace(session, settings, theme("dark"))
    qtbot.addWidget(made)
    made.resize(1200, 800)
    made.show()
    qtbot.waitExposed(made)
    yield made
    made.release()


@pytest.fixture
def window(qtbot: QtBot, settings: Settings) -> Iterator[MainWindow]:
    """Return a window on its start page; closed after the test."""
    made = create_window(settings, "dark")
    made.resize(1280, 800)
    made.show()
    qtbot.waitExposed(made)
    yield made
    made.close()
    made.deleteLater()
    _drop_theme_manager(made)


def _drop_theme_manager(window: MainWindow) -> None:
    # The application outlives the test; what hangs on it must not, nor letters of a
    # size that the test chose.
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    for child in app.findChildren(QObject, "themeManager"):
        child.deleteLater()
    if app.font().pixelSize() != base_px(100):
        app.setFont(ui_font(base_px(100)))
        app.setStyleSheet(style_sheet(theme("dark"), base_px(100), mono_family()))


@pytest.fixture
def opened(window: MainWindow, qtbot: QtBot) -> Callable[[Path], Document]:
    """Return a function that opens a file and waits until it is read or refused.

    All panes are there then.
    """

    def open_file(path: Path) -> Document:
        document = window.open_path(path)
        done = (LoadState.READY, LoadState.FAILED, LoadState.CANCELLED)
        qtbot.waitUntil(lambda: document.loader.state in done, timeout=10_000)
        qtbot.waitUntil(lambda: document.workspace.filler.is_done, timeout=20_000)
        return document

    return open_file


@pytest.fixture
def shown(qtbot: QtBot) -> Iterator[Callable[[str, Trace | None], View]]:
    """Return a function that shows a trace in a view, and waits."""
    made: list[tuple[View, Session]] = []

    def show(view_id: str, trace: Trace | None) -> View:
        session = Session()
        (entry,) = (entry for entry in BUILTIN if entry.id == view_id)
        view = entry.load()(session, theme("dark"))
        qtbot.addWidget(view)
        view.resize(1000, 700)
        view.show()
        made.append((view, session))
        if trace is not None:
            session.set_trace(trace)
        settle_view(qtbot, view)
        return view

    yield show
    for view, session in made:
        view.release()
        session.close()


@pytest.fixture
def own_hook() -> Iterator[None]:
    """Put `sys.excepthook` back after a test that replaces it."""
    before = sys.excepthook
    yield
    sys.excepthook = before


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file whose content nobody reads."""
    path = tmp_path / "trace.bin"
    path.write_bytes(b"x" * 100)
    return path


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    """Return what stands in for all readers."""
    made = Reading()
    monkeypatch.setattr(registry, "open_trace", made)
    return made
