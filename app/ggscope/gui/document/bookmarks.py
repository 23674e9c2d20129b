"""The bookmarks of a tab: their number, where they are saved, and what failed."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from ggscope.gui.messages import Action, Message
from ggscope.session.bookmarks.bookmarks import Bookmarks
from ggscope.session.bookmarks.keeper import BookmarkKeeper
from ggscope.session.settings import Settings

if TYPE_CHECKING:
    from ggscope.gui.document.document import Document

_BOOKMARKS, _PLACE = "bookmarks", "place"
"""Keys of messages."""


class DocumentBookmarks(QObject):
    """Shows messages about saving the bookmarks of a tab."""

    def __init__(
        self, document: "Document", settings: Settings, is_watching: Callable[[], bool]
    ) -> None:
        super().__init__(document)
        self._document = document
        self._settings = settings
        session = document.session
        self.keeper = BookmarkKeeper(session, document.loader, settings, is_watching)
        self.keeper.message_requested.connect(self._on_message_requested)
        self.keeper.place_asked.connect(self._on_place_asked)
        session.bookmarks.changed.connect(self._on_bookmarks_changed)
        document.messages.dismissed.connect(self._on_dismissed)

    def release(self) -> None:
        """Write what is not written yet."""
        self.keeper.release()

    def _on_bookmarks_changed(self, bookmarks: Bookmarks) -> None:
        text, n = "Bookmarks", len(bookmarks)
        drawer = self._document.workspace.drawer
        drawer.set_tab_text("bookmarks", f"{text}  {n}" if n else text)

    def _on_message_requested(
        self, text: str, action_text: str, action: object
    ) -> None:
        """Say what became of the bookmarks; what can be done about it stays."""
        actions = [Action(action_text, action)] if callable(action) else []
        self._document.messages.say(
            text, *actions, level="caution", key=_BOOKMARKS, stays=bool(actions)
        )

    def _on_place_asked(self) -> None:
        """Say where bookmarks are kept, and offer the other place."""
        self._document.messages.say(
            "Bookmarks are saved in your profile. Settings can change it.",
            Action("Save next to traces instead", self._on_beside),
            key=_PLACE,
        )

    def _on_beside(self) -> None:
        self._settings.change("bookmarks", place="beside")

    def _on_dismissed(self, message: Message, is_used: bool) -> None:
        if message.key == _PLACE and not is_used:
            self._settings.change("bookmarks", place="data")
