"""Run ggscope and write its state to a file on request: for `make walk`.

    python packaging/report_state.py FILE [argument of ggscope]…

On SIGUSR1 it adds to FILE what every thread is at, at once, and, as soon as
the main thread deals with events, its windows, what has the keys and what is copied.
"""

import faulthandler
import signal
import sys
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtGui import QClipboard, QGuiApplication, QWindow
from PySide6.QtWidgets import QApplication, QWidget


def main() -> int:
    path, *arguments = sys.argv[1:]
    out = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 - as long as it runs

    def write_state(*_: object) -> None:
        out.write("\n".join(state()) + "\n")
        out.flush()

    signal.signal(signal.SIGUSR1, write_state)
    faulthandler.register(signal.SIGUSR1, file=out, chain=True)
    from ggscope.cli import main as run

    sys.argv = ["ggscope", *arguments]
    return int(run(arguments) or 0)


def state() -> list[str]:
    """Return what is on the screen and who has the keys, a fact a line."""
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        return ["no application yet"]
    lines = [
        f"keys: {_named(app.focusWidget())} in {_named(app.activeWindow())}",
        f"modal: {_named(app.activeModalWidget())}",
        f"popup: {_named(app.activePopupWidget())}",
        f"focus window: {_named(app.focusWindow())}, state {app.applicationState()}",
        f"mouse held by {_named(QWidget.mouseGrabber())}, "
        f"keyboard by {_named(QWidget.keyboardGrabber())}, "
        f"buttons {app.mouseButtons()}",
    ]
    lines += [
        f"window: {_named(widget)} {widget.geometry()}"
        for widget in app.topLevelWidgets()
        if widget.isVisible()
    ]
    clipboard = QGuiApplication.clipboard()
    if clipboard.ownsClipboard():
        data = clipboard.mimeData(QClipboard.Mode.Clipboard)
        # Kept once each: as text of two bytes a letter, or as a picture.
        formats, n_letters = ", ".join(data.formats()), len(data.text())
        lines.append(f"copied: {formats}, {n_letters:,} letters")
    return lines


def _named(thing: QObject | None) -> str:
    if thing is None:
        return "none"
    title = ""
    if isinstance(thing, QWidget):
        title = thing.windowTitle()
    elif isinstance(thing, QWindow):
        title = thing.title()
    return f"{type(thing).__name__} {thing.objectName()!r} {title!r}"


if __name__ == "__main__":
    sys.exit(main())
