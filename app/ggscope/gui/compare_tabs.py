"""Compare what is in tabs once it is read."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from ggscope.gui.document import Document
    from ggscope.views.compare.view import CompareView


class PendingComparison(QObject):
    """Shows Compare in the tab of A as soon as all tabs that it needs are read.

    It belongs to the tab of A, and goes when it has done that.

    Parameters
    ----------
    b : a tab that is waited for, too; None = no other one is needed.
    start : gives the pane what to compare A with.
    to_front : brings a tab to the front.
    """

    def __init__(
        self,
        a: "Document",
        b: "Document | None",
        start: "Callable[[CompareView], object]",
        to_front: "Callable[[Document], object]",
    ) -> None:
        super().__init__(a)
        self._a = a
        self._documents = [a] if b is None else [a, b]
        self._start, self._to_front = start, to_front
        for document in self._documents:
            document.ready.connect(self._on_ready)
        if b is not None:
            b.destroyed.connect(self.deleteLater)
        self._on_ready()

    def _on_ready(self) -> None:
        """Show the comparison where nothing is waited for any more."""
        from ggscope.views.compare.view import CompareView  # with the first one

        if any(
            document.session.trace is None or document.is_reading
            for document in self._documents
        ):
            return
        for document in self._documents:
            document.ready.disconnect(self._on_ready)
        self._to_front(self._a)
        self._a.workspace.show_drawer("compare")
        for view in self._a.workspace.views("compare"):
            if isinstance(view, CompareView):
                self._start(view)
        self.deleteLater()
