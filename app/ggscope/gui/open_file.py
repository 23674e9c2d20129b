"""Open a file with the program that the desktop has for it, or show where it lies."""

import shutil
import sys
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, QUrl
from PySide6.QtGui import QDesktopServices

_SHOW_ITEMS = (
    "--session", "--print-reply", "--reply-timeout=3000",
    "--dest=org.freedesktop.FileManager1", "/org/freedesktop/FileManager1",
    "org.freedesktop.FileManager1.ShowItems",
)  # fmt: skip
"""What the file managers of desktops answer to; with URIs and a start-up id."""


def open_file(path: Path) -> bool:
    """Open a file; False where no program could be asked."""
    return QDesktopServices.openUrl(QUrl.fromLocalFile(str(path)))


def show_in_folder(path: Path, parent: QObject) -> None:
    """Show a file in the file manager, marked where that can do so.

    Parameters
    ----------
    parent : what is asked lives as long as this.
    """
    command = _command(path)
    if command is None:
        open_file(path.parent)
        return
    asking = QProcess(parent)
    asking.finished.connect(partial(_on_answered, asking, path))
    asking.errorOccurred.connect(partial(_on_failed, asking, path))
    asking.start(command[0], command[1:])


def _command(path: Path) -> list[str] | None:
    """Return the command that marks a file in the file manager; None = there is none.

    Of Windows the exit code says nothing, so that it is not asked there.
    """
    if sys.platform == "darwin":
        return ["open", "-R", str(path)]
    send = shutil.which("dbus-send")
    if send is None:
        return None
    # A comma would begin another element of the array.
    url = QUrl.fromLocalFile(str(path)).toString(
        QUrl.ComponentFormattingOption.FullyEncoded
    )
    uri = url.replace(",", "%2C")
    return [send, *_SHOW_ITEMS, f"array:string:{uri}", "string:"]


def _on_answered(
    asking: QProcess, path: Path, code: int, _: QProcess.ExitStatus
) -> None:
    asking.deleteLater()
    if code:  # no file manager is there, or it knows no such question
        open_file(path.parent)


def _on_failed(asking: QProcess, path: Path, error: QProcess.ProcessError) -> None:
    if error is QProcess.ProcessError.FailedToStart:  # else `finished` comes, too
        asking.deleteLater()
        open_file(path.parent)
