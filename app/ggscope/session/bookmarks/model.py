"""BookmarkModel: the bookmarks of a session, changed in steps that can be undone."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from ggscope.model.units import TimeRange
from ggscope.session.bookmarks import bookmarks
from ggscope.session.bookmarks.bookmarks import (
    Bookmark,
    BookmarkList,
    Bookmarks,
    Subject,
)


class BookmarkModel(QObject):
    """The bookmarks in the user's order. Positions that do not exist: IndexError.

    Parameters
    ----------
    default_subject : returns what a bookmark is set on where nothing else is given.

    Attributes
    ----------
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
        self.location = ""
        self._default_subject = default_subject
        self._list = BookmarkList()

    @property
    def items(self) -> Bookmarks:
        """The bookmarks, in the user's order."""
        return self._list.now

    def add(
        self,
        name: str = "",
        subject: TimeRange | Subject | None = None,
        permanent: bool = True,
        note: str = "",
        color: str = "",
    ) -> Bookmark | None:
        """Bookmark a range or a subject and report it.

        "" gets a name by number. None where there are `bookmarks.MAX_BOOKMARKS`.
        """
        if len(self.items) >= bookmarks.MAX_BOOKMARKS:
            self.status_message.emit("Too many bookmarks; delete some first.")
            return None
        name = bookmarks.clean_line(name, bookmarks.MAX_NAME)
        if subject is None:
            subject = self._default_subject()
        elif isinstance(subject, TimeRange):
            subject = Subject(subject)
        made = Bookmark(
            name or bookmarks.free_name(self.items),
            subject.time,
            permanent,
            note=bookmarks.clean_line(note, bookmarks.MAX_NOTE),
            what=subject.what,
            lane=subject.lane,
            color=color,
        )
        self._change(bookmarks.added(self.items, made), f"“{made.name}” added")
        self.status_message.emit(self._description_of_new(made, subject))
        return made

    def show(self, position: int) -> None:
        """Ask for the bookmark at `position` to be shown; none there: do nothing."""
        if 0 <= position < len(self.items):
            self.show_requested.emit(self.items[position])

    def remove(self, *positions: int) -> None:
        """Remove the bookmarks at `positions`."""
        names = [self.items[position].name for position in positions]
        title = f"“{names[0]}” deleted" if names else ""
        if len(names) > 1:
            title = f"{len(names)} bookmarks deleted"
        self._change(bookmarks.without(self.items, positions), title)

    def set_name(self, position: int, name: str) -> None:
        """Give the bookmark at `position` another name."""
        title = f"“{self.items[position].name}” renamed"
        self._change(bookmarks.renamed(self.items, position, name), title)

    def set_note(self, position: int, note: str) -> None:
        """Give the bookmark at `position` another note."""
        title = f"note of “{self.items[position].name}” changed"
        self._change(bookmarks.noted(self.items, position, note), title)

    def set_color(self, color: str, *positions: int) -> None:
        """Give the bookmarks at `positions` another colour."""
        names = [self.items[position].name for position in positions]
        title = f"colour of “{names[0]}” changed" if names else ""
        if len(names) > 1:
            title = f"colour of {len(names)} bookmarks changed"
        self._change(bookmarks.colored(self.items, positions, color), title)

    def edit(self, bookmark_id: str, name: str, note: str, color: str) -> None:
        """Give a bookmark another name, note and colour, as one step.

        Nothing happens where it has gone meanwhile, as by another window.
        """
        ids = [b.id for b in self.items]
        if bookmark_id not in ids:
            return
        at = ids.index(bookmark_id)
        items = bookmarks.renamed(self.items, at, name)
        items = bookmarks.noted(items, at, note)
        items = bookmarks.colored(items, (at,), color)
        self._change(items, f"“{self.items[at].name}” changed")

    def move(self, source: int, target: int) -> None:
        """Put the bookmark at `source` in another place."""
        title = f"“{self.items[source].name}” moved"
        self._change(bookmarks.moved(self.items, source, target), title)

    def sort(self) -> None:
        """Put the bookmarks in order of time."""
        by_time = tuple(sorted(self.items, key=lambda b: b.time))
        self._change(by_time, "bookmarks sorted by time")

    def replace(self, items: Bookmarks, *, forgets_steps: bool = False) -> None:
        """Take bookmarks from elsewhere, such as a file; see `BookmarkList.replace`."""
        if self._list.replace(items, forgets_steps=forgets_steps):
            self.changed.emit(self.items)

    @property
    def undo_title(self) -> str:
        """Which change `undo` undoes; "" = none."""
        return self._list.undo_text

    @property
    def redo_title(self) -> str:
        """Which change `redo` makes again; "" = none."""
        return self._list.redo_text

    def undo(self) -> None:
        """Undo the last change and report which."""
        self._report_step(self._list.undo(), "Undone: {0}")

    def redo(self) -> None:
        """Make the change again that was undone last and report which."""
        self._report_step(self._list.redo(), "Redone: {0}")

    def set_location(self, location: str) -> None:
        """Set where the bookmarks are stored."""
        if location != self.location:
            self.location = location
            self.location_changed.emit(location)

    def _change(self, items: Bookmarks, title: str) -> None:
        if self._list.change(items, title):
            self.changed.emit(self.items)

    def _report_step(self, title: str, text: str) -> None:
        if title:
            self.changed.emit(self.items)
            self.status_message.emit(text.format(title))

    def _description_of_new(self, made: Bookmark, subject: Subject) -> str:
        """Return what was bookmarked and how to come back to it."""
        number = self.items.index(made) + 1
        thing = subject.what or ("range" if made.time.duration else "point in time")
        if subject.is_range:
            thing = "the marked range"
        shortcut = f" (Alt+{number})" if number <= 9 else ""
        return f"“{made.name}”: {thing}{shortcut}"
