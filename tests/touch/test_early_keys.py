"""Keys that are pressed while the file of the command line is still being read."""

import threading
from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from builders import llama_like_trace
from ggscope.gui.main_window import MainWindow
from ggscope.readers import registry
from ggscope.session.loader import LoadState
from ggscope.session.settings import Settings
from reading import Reading
from staged import stages
from support import ROOT
from touching import PATIENCE_MS, Hand, focused

LLAMA = ROOT / "resources" / "samples" / "llama.ggmlviz"
KEYS = ("w", "a", "s", "d", "0", "f", "m", "comma", "period", "space", "Return", "Down")


class InParts(Reading):
    """A reader that gives its first part on request."""

    def __init__(self) -> None:
        super().__init__()
        self.first = threading.Event()
        self.go.clear()
        *self.parts, self.result = stages(llama_like_trace(tokens=4, layers=3), 0.4)

    def __call__(self, path, **named):
        context = named["context"]
        while not self.first.wait(0.01):
            context.check_cancelled()
        self.early = self.parts[:1]
        return super().__call__(path, **named)


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> InParts:
    """Return the reader of all files."""
    made = InParts()
    monkeypatch.setattr(registry, "open_trace", made)
    return made


def test_keys_go_to_the_view_as_soon_as_it_is_there(
    make_window: Callable[..., MainWindow],
    settings: Settings,
    size: tuple[int, int],
    in_parts: InParts,
    hand: Hand,
    qtbot: QtBot,
) -> None:
    window = make_window(settings, size)
    window.open_soon([LLAMA], None)
    hand.press("w", "space", "Return")  # before there are any panes
    qtbot.waitUntil(lambda: window.n_documents == 1)
    document = window.document
    assert document is not None
    search = document.toolbar.search.edit

    hand.press(*KEYS)  # nothing can be shown yet
    assert search.text() == ""
    assert document.workspace.isAncestorOf(focused())
    assert document.loader.state is LoadState.LOADING
    assert window.n_documents == 1

    session = document.session
    in_parts.first.set()
    qtbot.waitUntil(lambda: session.trace is not None, timeout=PATIENCE_MS)
    part = session.viewport.visible
    hand.press("w")  # still reading
    qtbot.waitUntil(lambda: session.viewport.visible.duration < part.duration)
    zoomed = session.viewport.visible

    in_parts.go.set()
    qtbot.waitUntil(lambda: document.loader.state is LoadState.READY)
    assert session.viewport.visible == zoomed
    hand.press("w")
    qtbot.waitUntil(lambda: session.viewport.visible.duration < zoomed.duration)
    assert search.text() == ""
