"""What a command is, and when it makes sense.

What commands work on: the main window as they see it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from typing import TYPE_CHECKING, Protocol

from PySide6.QtCore import QCoreApplication

from ggscope.gui.document import Document
from ggscope.session.session import Session
from ggscope.session.settings import Settings

if TYPE_CHECKING:
    from ggscope.gui.dialogs.window_dialogs import WindowDialogs


class Desk(Protocol):
    """The main window, as far as commands need it."""

    settings: Settings
    dialogs: "WindowDialogs"

    @property
    def document(self) -> Document | None:
        """The tab in front, None on the start page."""
        ...

    @property
    def session(self) -> Session | None:
        """Its session."""
        ...

    @property
    def n_documents(self) -> int:
        """Number of tabs."""
        ...

    def open_dialog(self) -> None:
        """Ask for files and open them."""
        ...

    def open_folder_dialog(self) -> None:
        """Ask for a folder and open it as one session."""
        ...

    def add_dialog(self) -> None:
        """Ask for files and add them to the session in front."""
        ...

    def open_with_dialog(self) -> None:
        """Read the tab's file with a reader that the person picks."""
        ...

    def close_current(self) -> None:
        """Close the tab in front."""
        ...

    def step_tab(self, by: int) -> None:
        """Go to the next or previous tab."""
        ...

    def copy(self, form: str) -> None:
        """Copy what is selected as "tsv" or "markdown"."""
        ...

    def escape(self) -> None:
        """Clear selection, else close the search, else leave full screen."""
        ...

    def toggle_full_screen(self) -> None:
        """Let the active view fill the screen, or end that."""
        ...

    def toggle_detailed(self) -> None:
        """Switch the table between compact and detailed rows."""
        ...

    def close(self) -> bool:
        """Close the window."""
        ...


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One thing that the program can be told to do.

    Attributes
    ----------
    id : stable name, used by ``keys.json``.
    text : what menus and the palette say.
    menu : path of the menu, parts joined by "/".
    run : what it does.
    keys : shortcuts in Qt's portable form; the first is the one that is shown.
    needs : when it is enabled.
    is_on : for commands with a tick: whether it is set now.
    title : what menus and the palette say instead of `text` now; "" = there is nothing
        of the kind, and it is left out.
    separated : whether a line stands above it in the menu.
    """

    id: str
    text: str
    menu: str
    run: Callable[[Desk], object]
    keys: tuple[str, ...] = ()
    needs: Needs = Needs.NOTHING
    is_on: Callable[[Desk], bool] | None = None
    title: Callable[[Desk], str] | None = None
    separated: bool = False


def conditions(desk: Desk) -> Needs:
    """Return everything that is there now."""
    now = Needs.NOTHING
    session = desk.session
    if session is None:
        return now
    now |= Needs.DOCUMENT
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


def with_session(call: Callable[[Session], object]) -> Callable[[Desk], object]:
    """Return a handler that does nothing where no file is open."""

    def run(desk: Desk) -> object:
        return None if desk.session is None else call(desk.session)

    return run


def of_workspace(name: str) -> Callable[[Desk], object]:
    """Return a handler that calls a method of the workspace in front."""

    def run(desk: Desk) -> object:
        if desk.document is None:
            return None
        return getattr(desk.document.workspace, name)()

    return run
