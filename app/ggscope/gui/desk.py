"""What commands work on: the main window as they see it."""

from typing import TYPE_CHECKING, Protocol

from ggscope.gui.document import Document
from ggscope.session.session import Session
from ggscope.session.settings import Settings

if TYPE_CHECKING:
    from ggscope.gui.window_dialogs import WindowDialogs


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


__all__ = ["Desk"]
