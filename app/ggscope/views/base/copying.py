"""What can put its rows on the clipboard, or into a file."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from ggscope.views.base.safe_text import copy_text

if TYPE_CHECKING:
    # It imports numpy, which the first window does without.
    from ggscope.views.base.cells import CopyForm, TableFile


class _NoWatcher:
    """Gets the progress of what is made at once."""

    def progress(self, done: int, total: int) -> None:
        """Do nothing."""


class Copyable:
    """A widget with rows: what is selected in it, else all."""

    def table_file(self) -> "TableFile | None":
        """Return the rows for a file; None where there are none."""
        raise NotImplementedError

    def copy_rows(self, form: "CopyForm") -> None:
        """Put the rows on the clipboard, of `table_file` where nothing else is said."""
        table = self.table_file()
        if table is not None:
            copy_text(table.text(form, _NoWatcher()))

    def copy_tsv(self) -> None:
        """Copy for a spreadsheet."""
        self.copy_rows("tsv")

    def copy_markdown(self) -> None:
        """Copy as a Markdown table."""
        self.copy_rows("markdown")


def copying(focus: QWidget | None, others: Iterable[QWidget]) -> list[Copyable]:
    """Return what has rows to copy: what holds the focus, else which of `others`."""
    while focus is not None and not isinstance(focus, Copyable):
        focus = focus.parentWidget()
    sources = others if focus is None else (focus,)
    return [source for source in sources if isinstance(source, Copyable)]
