"""Panes that change places: one's head is dragged onto another."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QPoint, Signal
from PySide6.QtWidgets import QWidget

from ggscope.gui.pane_head import DropMark
from ggscope.gui.view_host import ViewHost


class CellDrag(QObject):
    """Follows the heads of panes, and marks where a dragged one would go.

    Parameters
    ----------
    cells : returns the panes that there are now.

    Attributes
    ----------
    mark : lies over the pane that the dragged one would change places with.
    """

    dropped = Signal(object, object)  # ViewHost dragged, ViewHost under it

    def __init__(self, cells: Callable[[], Sequence[ViewHost]], over: QWidget) -> None:
        super().__init__(over)
        self._cells = cells
        self.mark = DropMark(over)

    def follow(self, host: ViewHost) -> None:
        """Let this pane be dragged."""
        host.head.drag_moved.connect(self._on_moved)
        host.head.drag_dropped.connect(self._on_dropped)
        host.head.drag_ended.connect(self.mark.hide)

    def _on_moved(self, at: QPoint) -> None:
        target, own = self._cell_at(at), self._dragged()
        self.mark.show_over(None if target is own else target)

    def _on_dropped(self, at: QPoint) -> None:
        target, own = self._cell_at(at), self._dragged()
        if target is not None and own is not None:
            self.dropped.emit(own, target)

    def _dragged(self) -> ViewHost | None:
        head = self.sender()
        return next((cell for cell in self._cells() if cell.head is head), None)

    def _cell_at(self, at: QPoint) -> ViewHost | None:
        for cell in self._cells():
            if cell.isVisible() and cell.rect().contains(cell.mapFromGlobal(at)):
                return cell
        return None


__all__ = ["CellDrag"]
