"""Watchers: of long computations that change their mind, of paints."""

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QWidget

from ggscope.errors import Cancelled


class CancelAfter:
    """Wants a result no more after `n` reports of progress."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.reports: list[tuple[int, int]] = []

    def progress(self, done: int, total: int) -> None:
        """Note a report. Raises Cancelled after the n-th."""
        if len(self.reports) >= self.n:
            raise Cancelled
        self.reports.append((done, total))


class PaintCount(QObject):
    """Counts how often a widget is asked to paint itself."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self.n = 0
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        self.n += event.type() == QEvent.Type.Paint
        return False
