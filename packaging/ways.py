"""Count the rooms that the program passes on its way to an answer.

`ways.py info FILE` or any other command; `ways.py window FILE` opens a file in the
window until it is painted; `ways.py click FILE` clicks on a span of it. Each way is
gone twice in this process and counted the second time, so that imports do not count.
Prints functions, files and changes of file (calls whose file is another than that of
the call before), then the files by how many of their functions were entered.

`make ways` counts the ways that the house promises to keep short; `AIMS` names them.
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

HOUSE = str(Path(ggscope.__file__).parent) + os.sep
SAMPLES = Path(__file__).resolve().parent.parent / "resources" / "samples"
AIMS = {
    ("info", "llama.ggmlviz"): 30,
    ("info", "tinyllama-256.bin"): 30,
    ("window", "llama.ggmlviz"): 80,
    ("click", "llama.ggmlviz"): 40,
}
"""Fewer files than this are to be passed with a bundled sample."""
_SECONDS = 30.0
_QUIET_SECONDS = 0.4
"""So long nothing happens in the window when it is done."""


@dataclass(slots=True)
class Way:
    """What was passed.

    Attributes
    ----------
    functions : (file, function) -> how often it was entered.
    n_changes : calls whose file is another than that of the call before.
    """

    functions: Counter[tuple[str, str]] = field(default_factory=Counter)
    n_changes: int = 0
    last: str = ""

    @property
    def files(self) -> Counter[str]:
        """File -> how many of its functions were entered."""
        return Counter(file for file, _ in self.functions)

    def __str__(self) -> str:
        return (
            f"{len(self.functions)} functions, {len(self.files)} files, "
            f"{self.n_changes} changes of file"
        )


class Watch:
    """Notes what is entered while a way is gone, on all threads there are by then."""

    def __init__(self) -> None:
        self._way: Way | None = None

    def __enter__(self) -> "Watch":
        # Threads of workers outlive the way on which they are made.
        threading.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        threading.setprofile(None)

    def passed(self, work: Callable[[], object]) -> Way:
        """Return the way that `work` goes."""
        self._way = way = Way()
        sys.setprofile(self._note)
        try:
            work()
        finally:
            sys.setprofile(None)
            self._way = None
        return way

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code, way = frame.f_code, self._way
        if way is None or event != "call" or not code.co_filename.startswith(HOUSE):
            return
        file = code.co_filename[len(HOUSE) :]
        way.functions[file, code.co_qualname] += 1
        way.n_changes += file != way.last
        way.last = file


def of_command(watch: Watch, arguments: list[str]) -> Way:
    """Return the way of a command that needs no window."""
    from ggscope.cli import main as command

    def work() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            command(arguments)

    work()
    return watch.passed(work)


def of_window(watch: Watch, path: Path) -> Way:
    """Return the way from asking for a file to its picture, with all that follows."""
    window = _window()
    _open(window, path)
    window.close_current()
    _settle()
    way = watch.passed(lambda: _open(window, path))
    _end(window)
    return way


def of_click(watch: Watch, path: Path) -> Way:
    """Return the way from a click on a span to all that is shown of it."""
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
    way = watch.passed(click)
    _end(window)
    return way


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
            if document.session.linked.selection.table == "spans":
                _settle()
                return canvas, point
    raise SystemExit("ways: no span is where it was looked for")


def _deselect(document: "Document") -> None:
    from ggscope.model.selection import Selection

    document.session.select(Selection())
    _settle()


def _wait(is_done: Callable[[], bool]) -> None:
    until = time.monotonic() + _SECONDS
    while not is_done():
        _settle(0.02)
        if time.monotonic() > until:
            raise SystemExit("ways: the file was not opened in time")


def _settle(seconds: float = _QUIET_SECONDS) -> None:
    """Let the window work for some time."""
    from PySide6.QtCore import QEventLoop, QTimer

    loop = QEventLoop()
    QTimer.singleShot(round(seconds * 1e3), loop.quit)
    loop.exec()


WINDOW_WAYS = {"window": of_window, "click": of_click}


def counted(name: str, path: Path) -> Way:
    """Return the way of ``window``, ``click`` or a command with a file."""
    with Watch() as watch:
        if name in WINDOW_WAYS:
            return WINDOW_WAYS[name](watch, path)
        return of_command(watch, [name, str(path)])


def main(arguments: list[str]) -> int:
    """Count one way, or those of `AIMS`."""
    if not arguments:
        for (name, sample), aim in AIMS.items():
            way = counted(name, SAMPLES / sample)
            print(f"{name} {sample}: {way} (aim: fewer than {aim} files)")
        return 0
    if arguments[0] in WINDOW_WAYS:
        way = counted(arguments[0], Path(arguments[1]))
    else:
        with Watch() as watch:
            way = of_command(watch, arguments)
    print(way)
    for name, n in way.files.most_common():
        print(f"{n:4d}  {name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
