"""The head of a pane: one takes it to drag the pane onto another."""

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import (
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
)
from PySide6.QtWidgets import QApplication, QWidget

from ggscope.views.guard import guarded


@guarded
class PaneHead(QWidget):
    """A slim row that can be dragged; positions are global."""

    drag_moved = Signal(object)  # QPoint
    drag_dropped = Signal(object)  # QPoint
    drag_ended = Signal()  # after a drop, or given up

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("paneHead")
        self.is_movable = False
        self._pressed: QPointF | None = None
        self._is_dragged = False

    def event(self, event: QEvent) -> bool:
        """Keep Esc for the drag while there is one."""
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and self._is_dragged
            and event.key() == Qt.Key.Key_Escape
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Give the drag up on Esc."""
        if self._is_dragged and event.key() == Qt.Key.Key_Escape:
            self._end()
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Remember where a drag may begin."""
        if self.is_movable and event.button() == Qt.MouseButton.LeftButton:
            self._pressed = event.globalPosition()
            event.accept()
            pane = self.parentWidget()
            if pane is not None:
                pane.setFocus(Qt.FocusReason.MouseFocusReason)
        else:
            super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Drag once the mouse has moved far enough."""
        if self._pressed is None:
            super().mouseMoveEvent(event)
            return
        at = event.globalPosition()
        far = (at - self._pressed).manhattanLength()
        if not self._is_dragged and far >= QApplication.startDragDistance():
            self._is_dragged = True
            self.grabKeyboard()
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
        if self._is_dragged:
            self.drag_moved.emit(at.toPoint())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Drop."""
        if self._is_dragged and event.button() == Qt.MouseButton.LeftButton:
            at = event.globalPosition().toPoint()
            self._end()
            self.drag_dropped.emit(at)
        self._pressed = None

    def _end(self) -> None:
        self._pressed, self._is_dragged = None, False
        self.releaseKeyboard()
        self.unsetCursor()
        self.drag_ended.emit()


@guarded
class DropMark(QWidget):
    """A frame over the pane that a dragged one would change places with."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw a tint that the pane shines through."""
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            color = self.palette().color(QPalette.ColorRole.Accent)
            painter.setPen(QPen(color, 2))
            color.setAlphaF(0.16)
            painter.setBrush(color)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 6, 6)

    def show_over(self, pane: QWidget | None) -> None:
        """Lie over `pane`; None hides the frame."""
        over = self.parentWidget()
        if pane is None or over is None:
            self.hide()
            return
        corner = pane.mapTo(over, QPoint(0, 0))
        self.setGeometry(corner.x(), corner.y(), pane.width(), pane.height())
        self.raise_()
        self.show()


__all__ = ["DropMark", "PaneHead"]
