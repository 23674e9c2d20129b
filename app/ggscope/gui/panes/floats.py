"""Panes in windows of their own: out of the workspace, and back by closing."""

from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, QRect, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QGuiApplication, QMoveEvent, QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ggscope.gui.panes.host import ViewHost
from ggscope.views.base.safe_text import set_title
from ggscope.views.base.view import guarded
from ggscope.views.registry import BUILTIN

FLOATABLE = tuple(entry.id for entry in BUILTIN if not entry.uses_gl)
MIN_SIZE = (240, 160)
_FIRST_SIZES = {"details": (360, 640), "table": (960, 520)}
_SAVE_MS = 400


@guarded
class FloatWindow(QWidget):
    """A pane in a window; closing it means docking it."""

    closed = Signal(str)
    moved = Signal()

    def __init__(self, host: ViewHost, parent: QWidget) -> None:
        # A tool window stays over its window and leaves that one's keys working.
        super().__init__(parent, Qt.WindowType.Tool)
        self.setObjectName("desk")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAttribute(Qt.WidgetAttribute.WA_MacAlwaysShowToolWindow)
        self.setAttribute(Qt.WidgetAttribute.WA_QuitOnClose, False)
        self.host = host
        self.view_id = host.entry.id
        host.setParent(self)
        box = QVBoxLayout(self)
        box.setContentsMargins(8, 8, 8, 8)
        box.addWidget(host)
        self.setMinimumSize(*MIN_SIZE)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Go back into the workspace."""
        super().closeEvent(event)
        self.closed.emit(self.view_id)

    def moveEvent(self, event: QMoveEvent) -> None:
        """Report that the place has changed."""
        super().moveEvent(event)
        self.moved.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Report that the place has changed."""
        super().resizeEvent(event)
        self.moved.emit()


class Floats(QObject):
    """The floating panes of one workspace.

    Parameters
    ----------
    make_host : makes a pane for a view id.
    """

    docked = Signal(str)  # view id: its window was closed
    places_changed = Signal(object)  # tuple of "id x y width height"

    def __init__(self, make_host: Callable[[str], ViewHost], parent: QWidget) -> None:
        super().__init__(parent)
        self._over = parent
        self._make_host = make_host
        self._windows: dict[str, FloatWindow] = {}
        self._title = ""
        self._save = QTimer(self, singleShot=True, interval=_SAVE_MS)
        self._save.timeout.connect(self._store)

    def hosts(self) -> tuple[ViewHost, ...]:
        """Return the floating panes."""
        return tuple(window.host for window in self._windows.values())

    def window(self, view_id: str) -> FloatWindow | None:
        """Return the window of a view, or None where it does not float."""
        return self._windows.get(view_id)

    def set_title(self, text: str) -> None:
        """Name the file in the titles of the windows."""
        self._title = text
        for window in self._windows.values():
            set_title(window, self._window_title(window))

    def show_only(self, view_ids: Iterable[str], places: Iterable[str]) -> None:
        """Let exactly these views float."""
        ids = tuple(view_ids)
        for view_id in [i for i in self._windows if i not in ids]:
            self._drop(self._windows.pop(view_id))
        for view_id in ids:
            if view_id not in self._windows:
                self._add(view_id, places)

    def set_visible(self, is_visible: bool) -> None:
        """Show the windows with their workspace, and hide them with it."""
        for window in self._windows.values():
            window.setVisible(is_visible)

    def release(self) -> None:
        """Close all windows; nothing is docked."""
        self._save.stop()
        for window in self._windows.values():
            self._drop(window)
        self._windows.clear()

    def _add(self, view_id: str, places: Iterable[str]) -> None:
        window = FloatWindow(self._make_host(view_id), self._over)
        set_title(window, self._window_title(window))
        window.setGeometry(self._place(view_id, places))
        window.closed.connect(self.docked)
        window.moved.connect(self._save.start)
        self._windows[view_id] = window
        if self._over.isVisible():
            window.show()

    def _drop(self, window: FloatWindow) -> None:
        window.closed.disconnect(self.docked)
        window.host.release()
        window.hide()
        window.deleteLater()

    def _window_title(self, window: FloatWindow) -> str:
        title = window.host.entry.title
        return f"{title} – {self._title}" if self._title else title

    def _place(self, view_id: str, places: Iterable[str]) -> QRect:
        """Return where a window was last, or a place over the workspace."""
        known = {name: rect for name, rect in map(parsed_place, places) if rect}
        rect = known.get(view_id)
        if rect is None:
            rect = QRect(0, 0, *_FIRST_SIZES.get(view_id, (720, 360)))
            rect.moveCenter(self._over.mapToGlobal(self._over.rect().center()))
        screen = QGuiApplication.screenAt(rect.center()) or self._over.screen()
        available = screen.availableGeometry()
        rect.setSize(rect.size().boundedTo(available.size()))
        rect.moveLeft(
            max(available.left(), min(rect.left(), available.right() - rect.width()))
        )
        rect.moveTop(
            max(available.top(), min(rect.top(), available.bottom() - rect.height()))
        )
        return rect

    def _store(self) -> None:
        self.places_changed.emit(
            tuple(
                f"{view_id} {r.x()} {r.y()} {r.width()} {r.height()}"
                for view_id, window in self._windows.items()
                if (r := window.geometry())
            )
        )


def parsed_place(text: str) -> tuple[str, QRect | None]:
    """Return (view id, rectangle) of ``id x y width height``; None if it is not."""
    parts = text.split()
    try:
        name, (x, y, width, height) = parts[0], map(int, parts[1:])
    except (ValueError, IndexError):
        return "", None
    good = max(abs(x), abs(y)) < 1 << 20 and 0 < width < 1 << 16 > height > 0
    return name, QRect(x, y, width, height) if good else None
