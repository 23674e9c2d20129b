"""Compare two tabs once both are read."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QComboBox

if TYPE_CHECKING:
    from collections.abc import Callable

    from ggscope.gui.document import Document
    from ggscope.session.open_traces import OpenTraces


class PendingComparison(QObject):
    """Shows Compare in the tab of A, with that of B chosen, as soon as both are read.

    It belongs to the tab of A, and goes when it has done that.

    Parameters
    ----------
    to_front : brings a tab to the front.
    """

    def __init__(
        self,
        a: "Document",
        b: "Document",
        open_traces: "OpenTraces",
        to_front: "Callable[[Document], object]",
    ) -> None:
        super().__init__(a)
        self._a, self._b = a, b
        self._open_traces, self._to_front = open_traces, to_front
        a.ready.connect(self._on_ready)
        b.ready.connect(self._on_ready)
        b.destroyed.connect(self.deleteLater)
        self._on_ready()

    def _on_ready(self) -> None:
        """Show the comparison where nothing is waited for any more."""
        a, b = self._a.session, self._b.session
        if (
            a.trace is None
            or b.trace is None
            or self._a.is_reading
            or self._b.is_reading
        ):
            return
        self._a.ready.disconnect(self._on_ready)
        self._b.ready.disconnect(self._on_ready)
        self._to_front(self._a)
        self._a.workspace.show_drawer("compare")
        others = [session for _, session in self._open_traces.others(a)]
        for view in self._a.workspace.views("compare"):
            # The other tabs come first in the choice of the run to compare with.
            box = view.findChild(QComboBox, "compare_run")
            if isinstance(box, QComboBox) and b in others:
                box.setCurrentIndex(others.index(b))
                box.activated.emit(others.index(b))
        self.deleteLater()
