"""What a command is, and when it makes sense."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication

if TYPE_CHECKING:
    from ggscope.gui.document import Document
    from ggscope.gui.main_window import MainWindow
    from ggscope.gui.panes.workspace import Workspace
    from ggscope.session.session import Session

Run = Callable[["MainWindow"], object]


class Needs(Flag):
    """What must be there for a command to make sense."""

    NOTHING = 0
    DOCUMENT = auto()
    TRACE = auto()
    SELECTION = auto()
    TARGET = auto()
    """Something selected or a marked range."""
    HITS = auto()
    FILTER = auto()
    BACK = auto()
    FORWARD = auto()
    BOOKMARK = auto()
    BOOKMARK_UNDO = auto()
    BOOKMARK_REDO = auto()
    LIVE = auto()
    """A program that is followed and may go on."""
    RECORDING = auto()
    """Something was recorded here that can be saved."""


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that the program can be told to do.

    Attributes
    ----------
    id : stable name, used by ``keys.json``.
    text : what menus and the palette say.
    shortcuts : in Qt's portable form, with blanks between them; the first is shown.
    needs : when it is enabled.
    run : what it does.
    is_on : for commands with a tick: whether it is set now.
    title : what menus and the palette say instead of `text` now; "" = there is nothing
        of the kind, and it is left out.
    separated : whether a line stands above it in the menu.
    menu : path of the menu, parts joined by "/".
    """

    id: str
    text: str
    shortcuts: str
    needs: Needs
    run: Run
    is_on: Callable[["MainWindow"], bool] | None = None
    title: Callable[["MainWindow"], str] | None = None
    separated: bool = False
    menu: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The shortcuts, one by one."""
        return tuple(self.shortcuts.split())


def conditions(window: "MainWindow") -> Needs:
    """Return everything that is there now."""
    session = window.session
    if session is None:
        return Needs.NOTHING
    now = Needs.DOCUMENT
    live = None if window.document is None else window.document.live
    if live is not None and live.is_on:
        now |= Needs.LIVE
    if window.document is not None and window.document.has_recording:
        now |= Needs.RECORDING
    if session.trace is None:
        return now
    now |= Needs.TRACE
    for condition, holds in (
        (Needs.SELECTION, bool(session.selection)),
        (Needs.TARGET, bool(session.selection) or session.marked_range is not None),
        (Needs.HITS, session.n_hits > 0),
        (Needs.FILTER, bool(session.filter)),
        (Needs.BACK, session.history.can_go_back),
        (Needs.FORWARD, session.history.can_go_forward),
        (Needs.BOOKMARK, bool(session.bookmarks)),
        (Needs.BOOKMARK_UNDO, bool(session.bookmark_undo)),
        (Needs.BOOKMARK_REDO, bool(session.bookmark_redo)),
    ):
        if holds:
            now |= condition
    return now


def tr(text: str) -> str:
    """Return a text of the table in the person's language."""
    return QCoreApplication.translate("Commands", text)


def of_document(work: Callable[["Document"], object]) -> Run:
    """Return what works on the tab in front, if there is one."""

    def run(window: "MainWindow") -> None:
        if window.document is not None:
            work(window.document)

    return run


def of_workspace(work: Callable[["Workspace"], object]) -> Run:
    """Return what works on the panes of the tab in front."""
    return of_document(lambda document: work(document.workspace))


def of_session(work: Callable[["Session"], object]) -> Run:
    """Return what works on the session in front."""
    return of_document(lambda document: work(document.session))
