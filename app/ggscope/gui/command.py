"""What a command is, and when it makes sense."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto

from PySide6.QtCore import QCoreApplication

from ggscope.gui.desk import Desk
from ggscope.session.session import Session


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


__all__ = ["Command", "Needs", "conditions", "of_workspace", "tr", "with_session"]
