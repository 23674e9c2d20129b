"""The row of tabs: one per open trace, their names legible and distinguished."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QPoint, QSize, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QContextMenuEvent,
    QFontMetrics,
    QMouseEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QHBoxLayout,
    QMenu,
    QStyle,
    QStyleOptionTab,
    QTabBar,
    QToolButton,
    QWidget,
)

from ggscope.gui.widgets import GlyphButton
from ggscope.sanitize import caption
from ggscope.views.base.safe_text import add_action, set_tab_tip
from ggscope.views.base.view import guarded

if TYPE_CHECKING:
    # It imports numpy, which the first window does without.
    from ggscope.gui.panes.summary_bar import SummaryBar

_MIN_LETTERS = 20
"""So much of its name a tab keeps; where that is not enough room, tabs scroll."""
_MAX_LETTERS = 40
_MAX_OPTIONS = 24
_BUTTONS_PX = 48
"""Room that margins and the + take from the tabs."""


@dataclass(frozen=True, slots=True)
class TabName:
    """What a tab is called.

    Attributes
    ----------
    title : by itself.
    folders : names of the folders that its file lies in, the outermost first.
    sign : distinguishes it from others of the same title that have no folder; "" =
        none.
    """

    title: str
    folders: tuple[str, ...] = ()
    sign: str = ""


def distinct_titles(names: Sequence[TabName]) -> list[str]:
    """Return titles of which no two are alike.

    Those that would be alike are distinguished by the nearest folder that differs, or
    by their sign, else by a number.
    """
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for position, name in enumerate(names):
        groups[name.title].append(position)
    titles = [name.title for name in names]
    for alike in groups.values():
        if len(alike) > 1:
            apart = _distinguishing_parts([names[i] for i in alike])
            for position, title in zip(alike, apart, strict=True):
                titles[position] = title
    return titles


def differing_options(commands: Sequence[tuple[str, ...]]) -> list[str]:
    """Return of each command the options that others of the same program lack.

    "-t 2" where another has "-t 1"; of paths the name, of many options the first two.
    """
    options = [_options(command) for command in commands]
    programs = [command[:1] for command in commands]
    differing = []
    for own, program in zip(options, programs, strict=True):
        alike = [o for o, p in zip(options, programs, strict=True) if p == program]
        differ = [
            f"{name} {value}".strip()
            for name, value in own.items()
            if any(other.get(name) != value for other in alike)
        ]
        differing.append(" ".join(differ[:2])[:_MAX_OPTIONS])
    return differing


def recording_options(commands: Sequence[str]) -> list[str]:
    """Return of each recording's command line what others lack; "" where none is known.

    See `command_differences`; it is cut to what a tab has room for.
    """
    known = [command for command in commands if command]
    if len(known) < 2:
        return ["" for _ in commands]
    from ggscope.descriptions.runs import command_differences

    return [text[:_MAX_OPTIONS] for text in command_differences(commands)]


def _options(command: tuple[str, ...]) -> dict[str, str]:
    """Return the values of options by their names, "" for those without."""
    options: dict[str, str] = {}
    for word, value in pairwise((*command[1:], "")):
        if word.startswith("-"):
            is_value = value and (not value.startswith("-") or value[1:2].isdigit())
            options[word] = Path(value).name or value if is_value else ""
    return options


def _distinguishing_parts(names: Sequence[TabName]) -> list[str]:
    depth = max(len(name.folders) for name in names)
    for up in range(1, depth + 1):
        titles = [_under(name, up) for name in names]
        if len(set(titles)) == len(names):
            return titles
    # Files of one path, or programs: what can be distinguished by folders is, as well.
    titles = [f"{n.title} · {n.sign}" if n.sign else _under(n, 1) for n in names]
    seen: defaultdict[str, int] = defaultdict(int)
    for position, title in enumerate(titles):
        seen[title] += 1
        if seen[title] > 1:
            titles[position] = f"{title} ({seen[title]})"
    return titles


def _under(name: TabName, up: int) -> str:
    """Return the title under the folder that is `up` levels above it."""
    if name.sign or not name.folders:
        return f"{name.title} · {name.sign}" if name.sign else name.title
    between = "/…/" if up > 1 else "/"
    return f"{name.folders[-min(up, len(name.folders))]}{between}{name.title}"


@guarded
class TabBar(QTabBar):
    """Tabs that shorten their names to a legible rest; the one in front keeps its own.

    Qt's own bar squeezes names to "…" before it scrolls, and measures the name in
    front, which is bold, by letters that are not.
    """

    def tabLayoutChange(self) -> None:
        """Ask for the width that the tabs have now.

        Qt's own bar keeps its width where another tab, or a name, becomes bold.
        """
        super().tabLayoutChange()
        self.updateGeometry()

    def minimumSizeHint(self) -> QSize:
        """Return Qt's own, which has room for scroll buttons, or less for few tabs."""
        return super().minimumSizeHint().boundedTo(self.sizeHint())

    def minimumTabSizeHint(self, index: int) -> QSize:
        """Return the size below which the tabs scroll."""
        whole = self.tabSizeHint(index)
        if index == self.currentIndex():
            return whole
        letters = _MIN_LETTERS * self.fontMetrics().averageCharWidth()
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
    menu_requested(position, QPoint) : the menu of a tab, at a global position.
    """

    chosen = Signal(int)
    moved = Signal(int, int)
    close_requested = Signal(int)
    plus_clicked = Signal()
    menu_requested = Signal(int, QPoint)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("tabs")
        self.bar = TabBar(self)
        self.bar.setMovable(True)
        self.bar.setDrawBase(False)
        self.bar.setExpanding(False)
        self.bar.setUsesScrollButtons(True)
        self.bar.setElideMode(Qt.TextElideMode.ElideMiddle)
        self.bar.setAccessibleName("Open traces")
        self.bar.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.bar.currentChanged.connect(self.chosen)
        self.bar.tabMoved.connect(self.moved)
        self.bar.installEventFilter(self)
        plus = GlyphButton("plus", "Open… (Ctrl+O)", self, 18)
        plus.clicked.connect(self.plus_clicked)
        self._beside: SummaryBar | None = None
        row = self._row = QHBoxLayout(self)
        row.setContentsMargins(8, 2, 8, 0)
        row.setSpacing(4)
        self.all_tabs = GlyphButton("down", "List all tabs", self, 18)
        self.all_tabs.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._list = QMenu(self.all_tabs)
        self._list.aboutToShow.connect(self._fill_list)
        self._list.triggered.connect(self._on_listed)
        self.all_tabs.setMenu(self._list)
        row.addWidget(self.bar)
        row.addWidget(plus)
        row.addWidget(self.all_tabs)
        row.addStretch(1)

    def show_beside(self, line: "SummaryBar | None") -> None:
        """Show a line in the room that the tabs leave, instead of another one."""
        before, self._beside = self._beside, line
        if before is line:
            return
        if before is not None:
            before.set_front(False)
            self._row.removeWidget(before)
        if line is not None:
            self._row.insertWidget(self._row.count() - 1, line, 1_000)
            line.set_front(True)

    @property
    def current(self) -> int:
        """Position of the tab in front, -1 where there is none."""
        return self.bar.currentIndex()

    def add(self, title: str, position: int) -> None:
        """Add a tab before the one that is at `position`."""
        position = self.bar.insertTab(position, _tab_text(title))
        close = GlyphButton("close", f"Close {title}", self.bar, 12)
        close.clicked.connect(self._on_close_clicked)
        self.bar.setTabButton(position, QTabBar.ButtonPosition.RightSide, close)
        self._show_list_button()

    def remove(self, position: int) -> None:
        """Take a tab away."""
        self.bar.removeTab(position)
        self._show_list_button()

    def bring_to_front(self, position: int) -> None:
        """Make a tab the current one."""
        self.bar.setCurrentIndex(position)

    def set_title(self, position: int, title: str, tip: str) -> None:
        """Show another title on a tab, and all of what it is in its tooltip."""
        text = _tab_text(title)
        # A text that is set lays the tabs out anew, even the same one.
        if text != self.bar.tabText(position):
            self.bar.setTabText(position, text)
            self._show_list_button()
        set_tab_tip(self.bar, position, tip)
        side = QTabBar.ButtonPosition.RightSide
        close = self.bar.tabButton(position, side)
        if isinstance(close, GlyphButton):
            close.set_glyph("close", f"Close {title}")

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Offer a list where not all tabs can be seen."""
        super().resizeEvent(event)
        self._show_list_button()

    def _show_list_button(self) -> None:
        tabs = range(self.bar.count())
        min_width = sum(self.bar.minimumTabSizeHint(i).width() for i in tabs)
        self.all_tabs.setVisible(min_width > self.width() - _BUTTONS_PX)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Close a tab by the middle button, ask for its menu by the right one."""
        if isinstance(event, QContextMenuEvent):
            is_by_key = event.reason() is QContextMenuEvent.Reason.Keyboard
            position = self.bar.tabAt(event.pos())
            if is_by_key:
                position = self.bar.currentIndex()
            if position >= 0:
                at = event.globalPos()
                if is_by_key:
                    at = self.bar.mapToGlobal(self.bar.tabRect(position).center())
                self.menu_requested.emit(position, at)
            return True
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

    def _fill_list(self) -> None:
        self._list.clear()
        for position in range(self.bar.count()):
            text = self.bar.tabText(position).replace("&&", "&")
            action = add_action(self._list, text)
            action.setCheckable(True)
            action.setChecked(position == self.bar.currentIndex())
            action.setData(position)

    def _on_listed(self, action: QAction) -> None:
        self.bring_to_front(int(action.data()))

    def _on_close_clicked(self) -> None:
        side = QTabBar.ButtonPosition.RightSide
        for position in range(self.bar.count()):
            if self.bar.tabButton(position, side) is self.sender():
                self.close_requested.emit(position)
                return


def _tab_text(title: str) -> str:
    """Return a title that fits a tab; & would start a mnemonic."""
    if len(title) > _MAX_LETTERS:
        half = _MAX_LETTERS // 2
        title = f"{title[:half]}…{title[2 - half :]}"
    return caption(title)
