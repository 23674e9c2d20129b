"""The row of tabs: one per open trace, their names legible however many there are."""

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QMouseEvent
from PySide6.QtWidgets import QHBoxLayout, QStyle, QStyleOptionTab, QTabBar, QWidget

from ggscope.gui.widgets import GlyphButton
from ggscope.text import caption
from ggscope.views.base.plain import set_tab_tip
from ggscope.views.base.view import guarded

_LEAST_LETTERS = 12
"""So much of its name a tab keeps; where that is not enough room, tabs scroll."""


@guarded
class TabBar(QTabBar):
    """Tabs that shorten their names to a legible rest; the one in front keeps its own.

    Qt's own bar squeezes names to "…" before it scrolls, and measures the name in
    front, which is bold, by letters that are not.
    """

    def minimumTabSizeHint(self, index: int) -> QSize:
        """Return the size below which the tabs scroll."""
        whole = self.tabSizeHint(index)
        if index == self.currentIndex():
            return whole
        letters = _LEAST_LETTERS * self.fontMetrics().averageCharWidth()
        name = self.fontMetrics().horizontalAdvance(self.tabText(index))
        return QSize(whole.width() - max(0, name - letters), whole.height())

    def initStyleOption(self, option: QStyleOptionTab, index: int) -> None:
        """Shorten the name in front by the letters that it is drawn with."""
        super().initStyleOption(option, index)
        if index != self.currentIndex():
            return
        font = self.font()
        font.setBold(True)
        where = QStyle.SubElement.SE_TabBarTabText
        width = self.style().subElementRect(where, option, self).width()
        name = self.tabText(index)
        flag = Qt.TextFlag.TextShowMnemonic.value
        option.text = QFontMetrics(font).elidedText(name, self.elideMode(), width, flag)


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
        self.bar = TabBar(self)
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
