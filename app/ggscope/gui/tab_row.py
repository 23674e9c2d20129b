"""The row of tabs: one per open trace, and a + at the end."""

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QHBoxLayout, QTabBar, QWidget

from ggscope.gui.widgets import GlyphButton
from ggscope.text import caption
from ggscope.views.guard import guarded
from ggscope.views.plain import set_tab_tip


@guarded
class TabRow(QWidget):
    """Tabs that can be dragged, and closed by × or the middle button.

    Signals
    -------
    chosen(position), moved(from, to), close_requested(position), plus_clicked.
    """

    chosen = Signal(int)
    moved = Signal(int, int)
    close_requested = Signal(int)
    plus_clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("tabs")
        self.bar = QTabBar(self)
        self.bar.setMovable(True)
        self.bar.setDrawBase(False)
        self.bar.setExpanding(False)
        self.bar.setUsesScrollButtons(True)
        self.bar.setElideMode(Qt.TextElideMode.ElideMiddle)
        self.bar.setAccessibleName(self.tr("Open traces"))
        self.bar.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.bar.currentChanged.connect(self.chosen)
        self.bar.tabMoved.connect(self.moved)
        self.bar.installEventFilter(self)
        plus = GlyphButton("plus", self.tr("Open… (Ctrl+O)"), self, 18)
        plus.clicked.connect(self.plus_clicked)
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 2, 8, 0)
        row.setSpacing(4)
        row.addWidget(self.bar)
        row.addWidget(plus)
        row.addStretch(1)

    @property
    def current(self) -> int:
        """Position of the tab in front, -1 where there is none."""
        return self.bar.currentIndex()

    def add(self, title: str, tip: str) -> None:
        """Add a tab at the end."""
        position = self.bar.addTab(_tab_text(title))
        set_tab_tip(self.bar, position, tip)
        close = GlyphButton("close", self.tr("Close {0}").format(title), self.bar, 12)
        close.clicked.connect(self._on_close_clicked)
        self.bar.setTabButton(position, QTabBar.ButtonPosition.RightSide, close)

    def remove(self, position: int) -> None:
        """Take a tab away."""
        self.bar.removeTab(position)

    def bring_to_front(self, position: int) -> None:
        """Make a tab the current one."""
        self.bar.setCurrentIndex(position)

    def set_title(self, position: int, title: str) -> None:
        """Show another title on a tab."""
        self.bar.setTabText(position, _tab_text(title))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Close a tab by the middle button."""
        if (
            isinstance(event, QMouseEvent)
            and event.type() == QEvent.Type.MouseButtonRelease
            and event.button() == Qt.MouseButton.MiddleButton
        ):
            position = self.bar.tabAt(event.position().toPoint())
            if position >= 0:
                self.close_requested.emit(position)
            return True
        return super().eventFilter(watched, event)

    def _on_close_clicked(self) -> None:
        side = QTabBar.ButtonPosition.RightSide
        for position in range(self.bar.count()):
            if self.bar.tabButton(position, side) is self.sender():
                self.close_requested.emit(position)
                return


def _tab_text(title: str) -> str:
    """Return a title that fits a tab; & would start a mnemonic."""
    if len(title) > 40:
        title = f"{title[:20]}…{title[-18:]}"
    return caption(title)


__all__ = ["TabRow"]
