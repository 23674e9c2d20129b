"""BookmarkModel: the bookmarks of a session, changed in steps that can be undone."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from ggscope.model.units import TimeRange
from ggscope.session.bookmarks import bookmarks
from ggscope.session.bookmarks.bookmarks import (
    Bookmark,
    Bookmarks,
    Subject,
    clean_line,
    reverted,
)

MAX_UNDO = 200
_Step = tuple[str, Bookmarks, Bookmarks]
"""The title of a change, and the bookmarks without it and with it."""


class BookmarkModel(QObject):
    """The bookmarks in the user's order. Positions that do not exist: IndexError.

    Parameters
    ----------
    default_subject : returns what a bookmark is set on where nothing else is given.

    Attributes
    ----------
    items : the bookmarks, in the user's order.
    location : where the bookmarks are stored, in words; "" = there is nothing to store.
    """

    changed = Signal(object)  # tuple[Bookmark, ...]
    location_changed = Signal(object)  # str
    status_message = Signal(object)  # str: for the status bar
    edit_requested = Signal(object)  # int | Subject: ask for name, note and colour
    show_requested = Signal(object)  # Bookmark: bring it into view

    def __init__(
        self, default_subject: Callable[[], Subject], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.items: Bookmarks = ()
        self.location = ""
        self._default_subject = default_subject
        self._undo: list[_Step] = []
        self._redo: list[_Step] = []

    def add(
        self,
        name: str = "",
        subject: TimeRange | Subject | None = None,
        permanent: bool = True,
        note: str = "",
        color: str = "",
    ) -> Bookmark | None:
        """Bookmark a range or a subject and report it.

        "" gets a name by number. None where there are `bookmarks.MAX_BOOKMARKS`. There
        is at most one that is not permanent: a new one replaces it.
        """
        if len(self.items) >= bookmarks.MAX_BOOKMARKS:
            self.status_message.emit("Too many bookmarks; delete some first.")
            return None
        name = clean_line(name, bookmarks.MAX_NAME)
        if subject is None:
            subject = self._default_subject()
        elif isinstance(subject, TimeRange):
            subject = Subject(subject)
        made = Bookmark(
            name or bookmarks.free_name(self.items),
            subject.time,
            permanent,
            note=clean_line(note, bookmarks.MAX_NOTE),
            what=subject.what,
            lane=subject.lane,
            color=color,
        )
        others = [b for b in self.items if b.permanent or permanent]
        self._change([*others, made], f"“{made.name}” added")
        self.status_message.emit(self._description_of_new(made, subject))
        return made

    def show(self, position: int) -> None:
        """Ask for the bookmark at `position` to be shown; none there: do nothing."""
        if 0 <= position < len(self.items):
            self.show_requested.emit(self.items[position])

    def remove(self, *positions: int) -> None:
        """Remove the bookmarks at `positions`."""
        removed = [self.items[position] for position in positions]
        others = [b for b in self.items if b not in removed]
        self._change(others, f"{_named(removed)} deleted")

    def set_name(self, position: int, name: str) -> None:
        """Give the bookmark at `position` another name; a blank one is ignored."""
        name = clean_line(name, bookmarks.MAX_NAME) or self.items[position].name
        self._edit([position], "{0} renamed", name=name)

    def set_note(self, position: int, note: str) -> None:
        """Give the bookmark at `position` another note."""
        note = clean_line(note, bookmarks.MAX_NOTE)
        self._edit([position], "note of {0} changed", note=note)

    def set_color(self, color: str, *positions: int) -> None:
        """Give the bookmarks at `positions` another colour."""
        self._edit(positions, "colour of {0} changed", color=color)

    def edit(self, bookmark_id: str, name: str, note: str, color: str) -> None:
        """Give a bookmark another name, note and colour, as one step.

        Nothing happens where it has gone meanwhile, as by another window.
        """
        for position, mark in enumerate(self.items):
            if mark.id == bookmark_id:
                name = clean_line(name, bookmarks.MAX_NAME) or mark.name
                note = clean_line(note, bookmarks.MAX_NOTE)
                parts = {"name": name, "note": note, "color": color}
                self._edit([position], "{0} changed", **parts)

    def move(self, source: int, target: int) -> None:
        """Put the bookmark at `source` in another place, within those there are."""
        others = list(self.items)
        mark = others.pop(source)
        others.insert(max(0, min(target, len(others))), mark)
        self._change(others, f"{_named([mark])} moved")

    def sort(self) -> None:
        """Put the bookmarks in order of time."""
        by_time = sorted(self.items, key=lambda b: b.time)
        self._change(by_time, "bookmarks sorted by time")

    def replace(self, items: Bookmarks, *, forgets_steps: bool = False) -> None:
        """Take bookmarks from elsewhere, such as a file.

        With `forgets_steps` nothing before it can be undone.
        """
        if forgets_steps:
            self._undo.clear()
            self._redo.clear()
        self._set(items)

    @property
    def undo_title(self) -> str:
        """Which change `undo` undoes; "" = none."""
        return self._undo[-1][0] if self._undo else ""

    @property
    def redo_title(self) -> str:
        """Which change `redo` makes again; "" = none."""
        return self._redo[-1][0] if self._redo else ""

    def undo(self) -> None:
        """Undo the last change and report which."""
        self._take_step(self._undo, self._redo, "Undone: {0}")

    def redo(self) -> None:
        """Make the change again that was undone last and report which."""
        self._take_step(self._redo, self._undo, "Redone: {0}")

    def set_location(self, location: str) -> None:
        """Set where the bookmarks are stored."""
        if location != self.location:
            self.location = location
            self.location_changed.emit(location)

    def _edit(self, positions: Iterable[int], title: str, **parts: str) -> None:
        """Change parts of bookmarks, which are permanent from then on."""
        chosen = [self.items[position] for position in positions]
        changed = {
            mark.id: replace(mark, permanent=True, **parts)  # type: ignore[arg-type]  # texts
            for mark in chosen
            if any(getattr(mark, part) != text for part, text in parts.items())
        }
        items = [changed.get(mark.id, mark) for mark in self.items]
        self._change(items, title.format(_named(chosen)))

    def _change(self, items: Iterable[Bookmark], title: str) -> None:
        """Do something that can be undone."""
        before, after = self.items, tuple(items)
        if after != before:
            self._undo.append((title, before, after))
            del self._undo[:-MAX_UNDO]
            self._redo.clear()
            self._set(after)

    def _take_step(self, steps: list[_Step], others: list[_Step], text: str) -> None:
        if steps:
            title, without, with_ = steps.pop()
            others.append((title, with_, without))
            self._set(reverted(self.items, without, with_))
            self.status_message.emit(text.format(title))

    def _set(self, items: Bookmarks) -> None:
        if items != self.items:
            self.items = items
            self.changed.emit(self.items)

    def _description_of_new(self, made: Bookmark, subject: Subject) -> str:
        """Return what was bookmarked and how to come back to it."""
        number = self.items.index(made) + 1
        thing = subject.what or ("range" if made.time.duration else "point in time")
        if subject.is_range:
            thing = "the marked range"
        shortcut = f" (Alt+{number})" if number <= 9 else ""
        return f"“{made.name}”: {thing}{shortcut}"


def _named(chosen: Bookmarks | list[Bookmark]) -> str:
    return f"“{chosen[0].name}”" if len(chosen) == 1 else f"{len(chosen)} bookmarks"
