"""What all dialogs are: never larger than the screen, with their buttons in sight."""

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QFrame, QLayout, QScrollArea, QWidget

from ggscope.views.base.view import guarded

_FRAME = QSize(16, 44)
"""Room for the frame of a window manager, which is not known before it is there."""


@guarded
class Dialog(QDialog):
    """A dialog that fits the screen it is shown on.

    What may need more room than a small screen has stands in a `scrolled` part, the
    buttons below it.
    """

    def setVisible(self, visible: bool) -> None:
        """Fit the screen before it is shown; Qt then puts it in the middle."""
        if visible and not self.isVisible():
            self.ensurePolished()
            has_size = self.testAttribute(Qt.WidgetAttribute.WA_Resized)
            size = self.size() if has_size else self.sizeHint()
            self.resize(size.boundedTo(max_window_size(self)))
        super().setVisible(visible)


def max_window_size(window: QWidget) -> QSize:
    """Return how large a window may be on the screen of its parent."""
    parent = window.parentWidget()
    screen = (parent or window).screen() or QGuiApplication.primaryScreen()
    return screen.availableSize() - _FRAME


@guarded
class _Scrolled(QScrollArea):
    """A part that is as large as its content where there is room, else scrolls."""

    def __init__(self, inner: QWidget, parent: QWidget) -> None:
        super().__init__(parent)
        self._inner = inner
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(inner)

    def sizeHint(self) -> QSize:
        """Return the size of the content, and room for the bar beside it."""
        bar = self.verticalScrollBar().sizeHint().width()
        inner = self._inner.sizeHint()
        return QSize(inner.width() + bar, inner.height())

    def minimumSizeHint(self) -> QSize:
        """Return the width that nothing is cut at, and little height."""
        bar = self.verticalScrollBar().sizeHint().width()
        inner = self._inner.minimumSizeHint()
        return QSize(inner.width() + bar, min(inner.height(), 80))

    def event(self, event: QEvent) -> bool:
        """Ask for another size when the content does."""
        if event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().event(event)


def scrolled(content: QLayout, parent: QWidget) -> QScrollArea:
    """Return a part of a dialog that scrolls where the screen is too low for it."""
    inner = QWidget(parent)
    content.setContentsMargins(0, 0, 0, 0)
    inner.setLayout(content)
    return _Scrolled(inner, parent)
