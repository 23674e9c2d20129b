"""What commands work on: the main window as they see it."""

from typing import Protocol

from ggscope.gui.document import Document
from ggscope.session.session import Session
from ggscope.session.settings import Settings


class Desk(Protocol):
    """The main window, as far as commands need it."""

    settings: Settings

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

    def open_with_dialog(self) -> None:
        """Read the tab's file with a reader that the person picks."""
        ...

    def close_current(self) -> None:
        """Close the tab in front."""
        ...

    def step_tab(self, by: int) -> None:
        """Go to the next or previous tab."""
        ...

    def export_figure(self) -> None:
        """Ask for a name and write the timeline as a figure."""
        ...

    def repeat_export(self) -> None:
        """Write the figure once more, to the same name."""
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

    def show_palette(self) -> None:
        """Open the command palette."""
        ...

    def show_go_to(self) -> None:
        """Open the list of lanes and tensors."""
        ...

    def show_keys(self) -> None:
        """Show the keys sheet."""
        ...

    def show_settings(self) -> None:
        """Show the settings."""
        ...

    def show_readers(self) -> None:
        """List the readers."""
        ...

    def show_op_tables(self) -> None:
        """Let the person choose the op table."""
        ...

    def show_guide(self) -> None:
        """Show the user guide."""
        ...

    def show_about(self) -> None:
        """Show version and licences."""
        ...

    def copy_system_report(self) -> None:
        """Copy versions of everything, for bug reports."""
        ...

    def name_bookmark(self) -> None:
        """Ask for a name and keep a bookmark of the selection."""
        ...

    def save_filter(self) -> None:
        """Ask for a name and keep the present filter."""
        ...

    def close(self) -> bool:
        """Close the window."""
        ...


__all__ = ["Desk"]
