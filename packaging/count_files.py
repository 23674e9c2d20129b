"""Count the functions and files that run on the calls to an answer.

`count_files.py info FILE` or any other command; `count_files.py window FILE` opens a
file in the window until it is painted; `count_files.py click FILE` clicks on a span of
it. Each runs twice in this process and is counted the second time, so that imports do
not count. Prints functions, files, and distinct pairs of files that are called one
after the other, then the files by how many of their functions ran.

`make count-files` counts those of `LIMITS`, on bundled samples, and fails above them.
"""

import contextlib
import io
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import ggscope

if TYPE_CHECKING:
    from PySide6.QtCore import QPoint
    from PySide6.QtWidgets import QWidget

    from ggscope.gui.document import Document
    from ggscope.gui.main_window import MainWindow

PACKAGE = str(Path(ggscope.__file__).parent) + os.sep
SAMPLES = Path(__file__).resolve().parent.parent / "resources" / "samples"
LIMITS = {
    ("info", "llama.ggmlviz"): 154,
    ("info", "tinyllama-256.bin"): 189,
    ("window", "llama.ggmlviz"): 1020,
    ("click", "llama.ggmlviz"): 380,
}
"""Most distinct pairs of files, with a bundled sample."""
_SECONDS = 30.0
_QUIET_SECONDS = 0.4
"""So long nothing happens in the window when it is done."""


@dataclass(slots=True)
class Calls:
    """What ran.

    Attributes
    ----------
    functions : (file, function) -> how often it was called.
    pairs : distinct (file of a call, file of the next call), of two files; each
        thread has its own order of calls.
    """

    functions: Counter[tuple[str, str]] = field(default_factory=Counter)
    pairs: set[tuple[str, str]] = field(default_factory=set)
    last: dict[int, str] = field(default_factory=dict)

    @property
    def files(self) -> Counter[str]:
        """File -> how many of its functions were called."""
        return Counter(file for file, _ in self.functions)

    def __str__(self) -> str:
        return (
            f"{len(self.functions)} functions, {len(self.files)} files, "
            f"{len(self.pairs)} pairs of files"
        )


class CallCounter:
    """Counts calls while some work is done, on all threads that exist by then."""

    def __init__(self) -> None:
        self._calls: Calls | None = None

    def __enter__(self) -> "CallCounter":
        # Threads of workers outlive the work for which they are made.
        threading.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        threading.setprofile(None)

    def of(self, work: Callable[[], object]) -> Calls:
        """Return what `work` calls."""
        self._calls = calls = Calls()
        sys.setprofile(self._note)
        try:
            work()
        finally:
            sys.setprofile(None)
            self._calls = None
        return calls

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code, calls = frame.f_code, self._calls
        if calls is None or event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        file = code.co_filename[len(PACKAGE) :]
        calls.functions[file, code.co_qualname] += 1
        thread = threading.get_ident()
        last = calls.last.get(thread, file)
        if last != file:
            calls.pairs.add((last, file))
        calls.last[thread] = file


def of_command(counter: CallCounter, arguments: list[str]) -> Calls:
    """Return the calls of a command that needs no window."""
    from ggscope.cli import main as command

    def work() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            command(arguments)

    work()
    return counter.of(work)


def of_window(counter: CallCounter, path: Path) -> Calls:
    """Return the calls from asking for a file to its picture, and behind it."""
    window = _window()
    _open(window, path)
    window.close_current()
    _settle()
    calls = counter.of(lambda: _open(window, path))
    _end(window)
    return calls


def of_click(counter: CallCounter, path: Path) -> Calls:
    """Return the calls from a click on a span to all that is shown of it."""
    from PySide6.QtCore import Qt
    from PySide6.QtTest import QTest

    window = _window()
    document = _open(window, path)
    canvas, point = _span_point(document)

    def click() -> None:
        QTest.mouseClick(
            canvas, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, point
        )
        _settle()

    _deselect(document)
    calls = counter.of(click)
    _end(window)
    return calls


def _window() -> "MainWindow":
    # A picture is wanted, not a screen.
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtWidgets import QApplication

    from ggscope.gui.app import create_window
    from ggscope.session.settings import Settings
    from ggscope.session.settings_store import MemoryStore

    _KEPT.append(QApplication.instance() or QApplication([]))
    window = create_window(Settings(MemoryStore()), "dark")
    window.resize(1280, 800)
    window.show()
    _settle()
    return window


_KEPT: list[object] = []
"""The application must live as long as its windows."""


def _open(window: "MainWindow", path: Path) -> "Document":
    document = window.open_path(path)
    _wait(lambda: document.loader.state.name == "READY")
    _settle()
    return document


def _end(window: "MainWindow") -> None:
    window.close()
    window.deleteLater()
    _settle()


def _span_point(document: "Document") -> "tuple[QWidget, QPoint]":
    """Return a place of the timeline at which a click selects a span."""
    from PySide6.QtCore import QPoint, Qt
    from PySide6.QtTest import QTest

    from ggscope.views.base.canvas import RasterCanvas

    (view,) = document.workspace.views("timeline")[:1]
    canvas = view.findChild(RasterCanvas)
    assert canvas is not None
    for y in range(40, canvas.height(), 7):
        for x in (canvas.width() // 2, canvas.width() // 3):
            point = QPoint(x, y)
            QTest.mouseClick(
                canvas, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, point
            )
            _settle(0.05)
            if document.session.linking.linked.selection.table == "spans":
                _settle()
                return canvas, point
    raise SystemExit("count-files: no span is where it was looked for")


def _deselect(document: "Document") -> None:
    from ggscope.model.selection import Selection

    document.session.selection.select(Selection())
    _settle()


def _wait(is_done: Callable[[], bool]) -> None:
    until = time.monotonic() + _SECONDS
    while not is_done():
        _settle(0.02)
        if time.monotonic() > until:
            raise SystemExit("count-files: the file was not opened in time")


def _settle(seconds: float = _QUIET_SECONDS) -> None:
    """Let the window work for some time."""
    from PySide6.QtCore import QEventLoop, QTimer

    loop = QEventLoop()
    QTimer.singleShot(round(seconds * 1e3), loop.quit)
    loop.exec()


WINDOW_WORK = {"window": of_window, "click": of_click}


def counted(name: str, path: Path) -> Calls:
    """Return the calls of ``window``, ``click`` or a command with a file."""
    with CallCounter() as counter:
        if name in WINDOW_WORK:
            return WINDOW_WORK[name](counter, path)
        return of_command(counter, [name, str(path)])


def main(arguments: list[str]) -> int:
    """Count one command, or those of `LIMITS`; return 1 above a limit."""
    if not arguments:
        is_over = False
        for (name, sample), limit in LIMITS.items():
            calls = counted(name, SAMPLES / sample)
            print(f"{name} {sample}: {calls} (at most {limit})")
            is_over |= len(calls.pairs) > limit
        return int(is_over)
    if arguments[0] in WINDOW_WORK:
        calls = counted(arguments[0], Path(arguments[1]))
    else:
        with CallCounter() as counter:
            calls = of_command(counter, arguments)
    print(calls)
    for name, n in calls.files.most_common():
        print(f"{n:4d}  {name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
