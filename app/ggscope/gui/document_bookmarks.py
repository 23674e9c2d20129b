"""The bookmarks of a tab: their count, where they are kept, and what is asked."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from ggscope.session.bookmark_keeper import BookmarkKeeper
from ggscope.session.bookmarks import Bookmarks
from ggscope.session.settings import Settings

if TYPE_CHECKING:
    from ggscope.gui.document import Document


class DocumentBookmarks(QObject):
    """Says in one tab what becomes of its bookmarks."""

    def __init__(
        self, document: "Document", settings: Settings, is_watching: Callable[[], bool]
    ) -> None:
        super().__init__(document)
        self._document = document
        self._settings = settings
        self._question = ""
        session = document.session
        self.keeper = BookmarkKeeper(session, document.loader, settings, is_watching)
        self.keeper.said.connect(self._on_said)
        self.keeper.place_asked.connect(self._on_place_asked)
        session.bookmarks_changed.connect(self._on_bookmarks_changed)
        document.banner.close_button.clicked.connect(self._on_banner_closed)

    def release(self) -> None:
        """Write what is not written yet."""
        self.keeper.release()

    def _on_bookmarks_changed(self, bookmarks: Bookmarks) -> None:
        text, n = self.tr("Bookmarks"), len(bookmarks)
        drawer = self._document.workspace.drawer
        drawer.set_tab_text("bookmarks", f"{text}  {n}" if n else text)

    def _on_said(self, text: str, action_text: str, action: object) -> None:
        self._document.say(text, action_text, action)

    def _on_place_asked(self) -> None:
        """Ask without a dialog, unless something else is being said."""
        if self._document.has_message:
            return
        self._question = self.tr(
            "Bookmarks are kept in your data folder and found again with this trace. "
            "Closing this bar leaves it at that; Settings can change it."
        )
        self._document.say(
            self._question, self.tr("Keep beside traces"), self._on_beside
        )

    def _on_beside(self) -> None:
        self._settings.change("bookmarks", place="beside")
        self._document.hide_message()

    def _on_banner_closed(self) -> None:
        if self._question and self._document.banner.text.text() == self._question:
            self._settings.change("bookmarks", place="data")


__all__ = ["DocumentBookmarks"]
