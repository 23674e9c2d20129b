"""A monkey at keyboard and mouse: whatever it does, the window goes on."""

import gc
import os
import random
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import shiboken6
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QContextMenuEvent, QKeySequence, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QWidget
from pytestqt.qtbot import QtBot

from ggscope.gui.commands.registry import COMMANDS
from ggscope.gui.dialogs.filters import FilterPopup
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.gui.pages.start import samples
from ggscope.model.routing import expert_key
from ggscope.model.selection import Filter, Selection
from ggscope.model.trace import Trace
from ggscope.session.loader import LoadState
from ggscope.session.session import Session
from ggscope.views.registry import cell_views
from hostile import big_files, hostile_files
from pages import filter_popup
from panes import broken as broken_panes
from reading import workers
from support import ROOT

STEPS = 300
SAMPLES = ROOT / "resources" / "samples"
SEEDS = [int(s) for s in os.environ.get("MONKEY_SEEDS", "1 2 3").split()]
MAX_TABS = 6
LEAVES = {"tab.show_file", "file.quit", "file.open", "file.export", "file.export_again"}
"""Commands that end the test, or ask for a file in a dialog of the system."""
TEXTS = (
    "", "t", "/attn.*/", "/(/", "blk.0", "layer=0-3", "layer=", "dur>1us", "dur>>",
    "é\0", "op=MUL_MAT token=1", "not op:", "((((", "-1", "9" * 40, "text:" * 50,
    "/a{9999}/",
)  # fmt: skip

_Mouse = Qt.MouseButton
_Modifier = Qt.KeyboardModifier


class Monkey:
    """Does one random thing at a time, repeatably for one seed."""

    def __init__(self, window: MainWindow, files: list[Path], seed: int) -> None:
        self.window = window
        self.files = files
        self.random = random.Random(seed)
        self.done: list[str] = []
        self.n_looks = 0
        self.keys = [
            (command.id, QKeySequence(key))
            for command in COMMANDS
            if command.id not in LEAVES
            for key in command.keys
        ]
        self._closer = QTimer()
        self._closer.setInterval(5)
        self._closer.timeout.connect(self._close_dialogs)
        self._closer.start()

    def stop(self) -> None:
        """Leave dialogs alone from now on."""
        self._closer.stop()
        self._closer.deleteLater()

    def step(self) -> None:
        """Do something."""
        acts: list[tuple[int, Callable[[], str]]] = [
            (30, self.press_key),
            (10, self.run_command),
            (20, self.click),
            (12, self.drag),
            (10, self.wheel),
            (6, self.open_file),
            (3, self.close_tab),
            (3, self.choose_tab),
            (4, self.resize),
            (4, self.show_context_menu),
            (6, self.type_text),
            (8, self.change_session),
            (8, self.arrange),
        ]
        weights, calls = zip(*acts, strict=True)
        act = self.random.choices(calls, weights)[0]
        self.done.append(act.__name__)
        self.done[-1] = f"{act.__name__} {act()}"
        QApplication.processEvents()
        if self.random.random() < 0.3:
            self._look()

    def press_key(self) -> str:
        name, sequence = self.random.choice(self.keys)
        combination = sequence[0]
        target = QApplication.focusWidget() or self.window
        QTest.keyClick(target, combination.key(), combination.keyboardModifiers())
        return name

    def run_command(self) -> str:
        command = self.random.choice([c for c in COMMANDS if c.id not in LEAVES])
        self.window.actions_[command.id].trigger()
        return command.id

    def click(self) -> str:
        widget, at = self._somewhere()
        button = self.random.choice((_Mouse.LeftButton,) * 5 + (_Mouse.MiddleButton,))
        modifier = self.random.choice(
            (_Modifier.NoModifier,) * 3
            + (_Modifier.ShiftModifier, _Modifier.ControlModifier)
        )
        text = f"{type(widget).__name__} {at.x()},{at.y()}"
        if self.random.random() < 0.15:
            QTest.mouseDClick(widget, button, modifier, at)
        else:
            QTest.mouseClick(widget, button, modifier, at)
        return text

    def drag(self) -> str:
        widget, at = self._somewhere()
        text = f"{type(widget).__name__} {at.x()},{at.y()}"
        modifier = self.random.choice((_Modifier.NoModifier, _Modifier.ShiftModifier))
        button = self.random.choice((_Mouse.LeftButton, _Mouse.MiddleButton))
        QTest.mousePress(widget, button, modifier, at)
        for _ in range(4):
            at += QPoint(self.random.randint(-400, 400), self.random.randint(-80, 80))
            if not shiboken6.isValid(widget):
                return text
            QTest.mouseMove(widget, at)
            QApplication.processEvents()
        if shiboken6.isValid(widget):
            QTest.mouseRelease(widget, button, modifier, at)
        return text

    def wheel(self) -> str:
        widget, at = self._somewhere()
        modifier = self.random.choice(
            (
                _Modifier.NoModifier,
                _Modifier.ControlModifier,
                _Modifier.ShiftModifier,
                _Modifier.ControlModifier | _Modifier.ShiftModifier,
            )
        )
        delta = QPoint(0, self.random.choice((-1200, -120, 15, 120, 1200)))
        event = QWheelEvent(
            QPointF(at),
            QPointF(widget.mapToGlobal(at)),
            QPoint(),
            delta,
            _Mouse.NoButton,
            modifier,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        text = type(widget).__name__
        QApplication.sendEvent(widget, event)
        return text

    def open_file(self) -> str:
        path = self.random.choice(self.files)
        if self.window.n_documents >= MAX_TABS:
            self.close_tab()
        self.window.open_path(path)
        return path.name

    def close_tab(self) -> str:
        if not self.window.documents:
            return ""
        document = self.random.choice(self.window.documents)
        self.window.close_document(document)
        return document.path.name

    def choose_tab(self) -> str:
        self.window.step_tab(self.random.choice((-1, 1)))
        return ""

    def resize(self) -> str:
        wide, high = self.random.choice(
            ((1, 1), (640, 420), (641, 1400), (2600, 430), (1280, 800))
        )
        self.window.resize(wide, high)
        for document in self.window.documents[:1]:
            if self.random.random() < 0.3:
                document.workspace.resize(wide, high)
        return f"{wide}x{high}"

    def show_context_menu(self) -> str:
        widget, at = self._somewhere()
        name = type(widget).__name__
        event = QContextMenuEvent(
            QContextMenuEvent.Reason.Mouse, at, widget.mapToGlobal(at)
        )
        QApplication.sendEvent(widget, event)
        return name

    def type_text(self) -> str:
        text = self.random.choice(TEXTS)
        document = self.window.document
        if document is None:
            return ""
        if self.random.random() < 0.5:
            document.toolbar.search.edit.setText(text)
            return f"search {text[:20]!r}"
        document.show_filter_popup()
        filter_popup(document).edit.setText(text)
        QTest.keyClick(filter_popup(document).edit, Qt.Key.Key_Return)
        return f"filter {text[:20]!r}"

    def change_session(self) -> str:
        session = self.window.session
        if session is None or session.trace is None:
            return ""
        choice = self.random.randrange(9)
        n = len(session.trace.spans)
        if choice == 0 and n:
            session.selection.select_span(self.random.randrange(n))
        elif choice == 1:
            session.queries.set_filter(
                Filter(layers=frozenset({self.random.randrange(9)}))
            )
        elif choice == 2:
            session.queries.set_filter(
                Filter(text=self.random.choice(("/(/", "x", "/q/")))
            )
        elif choice == 3:
            session.viewport.zoom(10.0 ** self.random.randint(-30, 30))
        elif choice == 4:
            session.viewport.pan(self.random.choice((-1e12, -0.1, 0.1, 1e12)))
        elif choice in (5, 6):
            session.selection.select(self._thing(session.trace))
        elif choice == 7:
            session.queries.set_filter(self._filter(session.trace))
        else:
            session.queries.set_filter(Filter())
        return str(choice)

    def _thing(self, trace: Trace) -> Selection:
        """Return a selection of something that is no span, if there is any."""
        dice = self.random
        n_nodes = sum(len(graph) for graph in trace.graphs)
        table, n = dice.choice(
            (
                ("tensors", len(trace.tensors)),
                ("buffers", len(trace.buffers)),
                ("nodes", n_nodes),
                ("markers", len(trace.markers)),
            )
        )
        if dice.random() < 0.3:
            key = expert_key(dice.randrange(6), dice.randrange(10))
            return Selection("experts", (key,))
        return Selection(table, (dice.randrange(n),)) if n else Selection()

    def _filter(self, trace: Trace) -> Filter:
        dice, addresses = self.random, trace.buffers.address.tolist()
        begin = dice.randrange(1 << 20)
        return dice.choice(
            (
                Filter(offsets=(begin, begin + dice.randrange(1, 1 << 20))),
                Filter(experts=frozenset({dice.randrange(10)})),
                Filter(buffers=frozenset(addresses[:1] or [1])),
                Filter(tensors=frozenset({"token_embd.weight"})),
            )
        )

    def arrange(self) -> str:
        """Move panes about."""
        document = self.window.document
        if document is None:
            return ""
        workspace, dice = document.workspace, self.random
        view_id = dice.choice([known.id for known in cell_views()])
        choice = dice.randrange(5)
        if choice == 0:
            workspace.show_view(view_id)
        elif choice == 1:
            workspace.choose_view(dice.choice(workspace.cells), view_id)
        elif choice == 2:
            workspace.toggle_float(view_id)
        elif choice == 3:
            one, other = (dice.choice(workspace.cells) for _ in range(2))
            workspace.swap_cells(one, other)
        else:
            workspace.set_layout_name(dice.choice(("dual", "grid", "single")))
        return f"{choice} {view_id}"

    def _look(self) -> None:
        """Wait for the file in front, and open another where there is none."""
        if self.window.document is None:
            self.open_file()
        document = self.window.document
        until = time.monotonic() + 0.5
        while document is not None and time.monotonic() < until:
            if document.loader.state is not LoadState.LOADING:
                self.n_looks += document.session.trace is not None
                return
            QApplication.processEvents()
            document = self.window.document

    def _somewhere(self) -> tuple[QWidget, QPoint]:
        """Return a random visible widget that takes the mouse, and a point in it."""
        popup = QApplication.activePopupWidget()
        is_there = popup is not None and shiboken6.isValid(popup)
        root = popup if is_there else self.window
        self._root = root  # PySide forgets the children of a wrapper that is gone
        at = QPoint(
            self.random.randrange(max(1, root.width())),
            self.random.randrange(max(1, root.height())),
        )
        result = root.childAt(at)
        if result is None or not shiboken6.isValid(result):
            return root, at
        return result, result.mapFrom(root, at)

    def _close_dialogs(self) -> None:
        """Answer what waits for a person, so that the monkey goes on."""
        popup = QApplication.activePopupWidget()
        if popup is not None and not isinstance(popup, QMenu | FilterPopup):
            popup.hide()  # the list of a combo box
        if isinstance(popup, QMenu):
            actions = [a for a in popup.actions() if a.isEnabled() and not a.menu()]
            named = {self.window.actions_[name] for name in LEAVES}
            safe = [a for a in actions if a not in named and "…" not in a.text()]
            if safe and self.random.random() < 0.5:
                self.random.choice(safe).trigger()
            popup.close()
        dialog = QApplication.activeModalWidget()
        if dialog is not None:
            dialog.close()


def broken_invariant(session: Session) -> str:
    """Return what a session must never be, "" where all is well."""
    trace, visible = session.trace, session.viewport.visible
    if trace is None:
        return ""
    if visible.duration < 1:
        return f"nothing is visible: {visible}"
    extent = trace.extent
    reach = max(extent.duration, 1000)
    if visible.end < extent.start - reach or visible.start > extent.end + reach:
        return f"{visible} lies outside {extent}"
    selection = session.selection.current
    if selection.table == "spans":
        n = len(trace.spans)
        if not all(0 <= i < n for i in selection.ids):
            return f"selection {selection.ids[:3]} of {n} spans"
    if session.queries.mask is not None and len(session.queries.mask) != len(
        trace.spans
    ):
        return "the mask does not fit the trace"
    return ""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Samples, broken files, and files that take some time to read."""
    folder = tmp_path_factory.mktemp("monkey")
    broken = hostile_files(folder)
    big = big_files(folder, 4_000_000)
    good = [*samples()]
    runs = [p for p in SAMPLES.iterdir() if p.is_dir()] * 4  # all panes have something
    files = [*good, *good, *broken.values(), *big.values(), folder / "absent.bin"]
    return [*files, *runs]


@pytest.fixture
def worker_threads() -> Iterator[None]:
    """Fail a test that leaves one of the program's workers behind."""
    yield
    assert not workers()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("worker_threads")
def test_monkey_does_not_break_the_window(
    window: MainWindow, qtbot: QtBot, files: list[Path], seed: int
) -> None:
    window.open_path(files[0])
    monkey = Monkey(window, files, seed)
    broken = ""

    with qtbot.captureExceptions() as caught:
        for _ in range(STEPS):
            monkey.step()
            for document in window.documents:
                broken = broken or broken_invariant(document.session)
                broken = broken or "".join(broken_panes(document)[:1])
            if caught or broken:
                break
        trail = "\n".join(monkey.done[-6:])
        monkey.stop()
        _end(window)
        qtbot.wait(1)

    assert not caught, f"{_text(caught[0])} after\n{trail}"
    assert not broken, f"{broken} after\n{trail}"
    assert monkey.n_looks > STEPS / 30  # it did not play with an empty window


def _text(caught: tuple[type[BaseException], BaseException, object]) -> str:
    kind, value, trace = caught
    return "".join(traceback.format_exception(kind, value, trace))


def _end(window: MainWindow) -> None:
    popup = QApplication.activePopupWidget()
    while popup is not None:
        popup.close()
        popup = QApplication.activePopupWidget()
    window.close()


@pytest.mark.usefixtures("worker_threads")
def test_opening_and_closing_forty_files_leaves_nothing_behind(
    window: MainWindow, qtbot: QtBot
) -> None:
    if not samples():
        pytest.skip("the samples have not been made")
    paths = [p for p in samples() if p.stat().st_size < 300_000]
    for path in paths:  # imports, caches and the list of recent files
        _open_and_close(window, qtbot, path)
    _collect()
    objects_before = len(window.findChildren(object))
    memory_before = psutil.Process().memory_info().rss
    left: list[weakref.ref[object]] = []

    for number in range(40):
        document = _open_and_close(window, qtbot, paths[number % len(paths)])
        left += document
    _collect()

    alive = [ref() for ref in left if ref() is not None]
    assert not alive, f"{len(alive)} alive: {[type(a).__name__ for a in alive[:8]]}"
    # A timer of one shot is a child of the window until it has fired.
    qtbot.waitUntil(
        lambda: len(window.findChildren(object)) <= objects_before, timeout=20_000
    )
    assert psutil.Process().memory_info().rss - memory_before < 60 << 20


def _open_and_close(
    window: MainWindow, qtbot: QtBot, path: Path
) -> list[weakref.ref[object]]:
    """Open a file, look at it, close it; return references to all that it made."""
    document: Document = window.open_path(path)
    qtbot.waitUntil(lambda: document.loader.state is LoadState.READY, timeout=20_000)
    session = document.session
    session.selection.select_span(0)
    session.queries.search("t")
    QApplication.processEvents()
    made = [document, session, session.index, document.workspace]
    window.close_document(document)
    return [weakref.ref(part) for part in made]


def _collect() -> None:
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QApplication.processEvents()
    gc.collect()
    gc.collect()
