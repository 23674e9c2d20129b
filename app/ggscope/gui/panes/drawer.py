"""The drawer at the bottom: tabs that are always there, panes that open and close."""

from collections.abc import Collection

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
    QWidget,
)

from ggscope.gui.panes.host import ViewHost, show_full_screen_state
from ggscope.gui.widgets import GlyphButton
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import lay_out
from ggscope.views.registry import BUILTIN


@guarded
class Drawer(QFrame):
    """What sums the trace up, and its problems, under one tab bar.

    Closed, only the tab bar is left; a click on a tab opens it. With `waits` the
    panes are not made before their turn.
    """

    toggled = Signal(bool)
    tab_changed = Signal(str)  # view id
    float_requested = Signal(str)  # view id
    full_screen_requested = Signal()

    def __init__(
        self,
        session: Session,
        theme: Theme,
        parent: QWidget | None = None,
        *,
        waits: bool = False,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("pane")
        self._is_open = True
        self._entries = tuple(e for e in BUILTIN if e.area == "bottom")
        self._bar = QTabBar(self)
        self._bar.setObjectName("drawerTabs")
        self._bar.setDrawBase(False)
        self._bar.setExpanding(False)
        self._bar.setAccessibleName("Bottom panel")
        self._stack = QStackedWidget(self)
        self._hosts: dict[str, ViewHost] = {}
        for entry in self._entries:
            self._bar.addTab(entry.title)
            host = ViewHost(
                entry,
                session,
                theme,
                self._stack,
                is_cell=False,
                has_head=False,
                waits=waits,
            )
            self._hosts[entry.id] = host
            self._stack.addWidget(host)
        self.float_button = GlyphButton("float", "Float in a separate window", self)
        self.float_button.clicked.connect(self._on_float)
        self.full_screen_button = GlyphButton("expand", "", self)
        self.full_screen_button.clicked.connect(self.full_screen_requested)
        self._button = GlyphButton("down", "", self)
        self._button.clicked.connect(self.toggle)
        head = lay_out(
            QHBoxLayout(),
            self._bar,
            self.float_button,
            self.full_screen_button,
            self._button,
            margins=(4, 0, 4, 0),
            spacing=4,
            # All the room there is: the tab in front is bold, wider than Qt thinks.
            wide=self._bar,
        )
        box = QVBoxLayout(self)
        lay_out(box, head, self._stack, margins=(0, 0, 0, 4), wide=self._stack)
        self._bar.currentChanged.connect(self._on_current)
        self._bar.tabBarClicked.connect(self._on_clicked)
        self._bar.installEventFilter(self)
        self.set_is_full(False)
        self._show_state()

    @property
    def is_open(self) -> bool:
        """Whether a pane is shown."""
        return self._is_open

    @property
    def tab(self) -> str:
        """Id of the view whose tab is in front."""
        return self._entries[max(0, self._bar.currentIndex())].id

    def hosts(self) -> tuple[ViewHost, ...]:
        """Return the panes in tab order."""
        return tuple(self._hosts.values())

    @property
    def front(self) -> ViewHost:
        """The pane whose tab is in front."""
        return self._hosts[self.tab]

    def set_is_full(self, is_full: bool) -> None:
        """Say in the head whether the drawer fills the screen."""
        show_full_screen_state(self.full_screen_button, is_full)

    def set_open(self, is_open: bool) -> None:
        """Open or close the drawer."""
        if is_open == self._is_open:
            return
        self._is_open = is_open
        self._show_state()
        self.toggled.emit(is_open)

    def toggle(self) -> None:
        """Open it where it is closed, close it where it is open."""
        self.set_open(not self._is_open)

    def show_tab(self, view_id: str, *, opens: bool = True) -> None:
        """Bring a tab to the front; an unknown id is ignored."""
        for position, entry in enumerate(self._entries):
            if entry.id == view_id:
                self._bar.setCurrentIndex(position)
                if opens:
                    self.set_open(True)

    def set_tab_text(self, view_id: str, text: str) -> None:
        """Show another text on a tab, such as one with a count."""
        for position, entry in enumerate(self._entries):
            # A text that is set lays the window out anew, even the same one.
            if entry.id == view_id and self._bar.tabText(position) != text:
                self._bar.setTabText(position, text)

    def set_elsewhere(self, ids: Collection[str]) -> None:
        """Leave out the tabs of views that are panes or windows of their own."""
        is_changed = False
        for position, entry in enumerate(self._entries):
            is_shown = entry.id not in ids
            is_changed |= self._bar.isTabVisible(position) != is_shown
            self._bar.setTabVisible(position, is_shown)
        if is_changed:
            # Qt leaves gaps where tabs were hidden until a text is set.
            self._bar.setTabText(0, self._bar.tabText(0))

    def head_height(self) -> int:
        """Return the height of the closed drawer."""
        return max(self._bar.sizeHint().height(), 28) + 4

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Keep the height of the closed drawer in step with the font."""
        if event.type() == QEvent.Type.FontChange:
            self._show_state()
        return super().eventFilter(watched, event)

    def _on_current(self, position: int) -> None:
        self._stack.setCurrentIndex(position)
        self.tab_changed.emit(self.tab)

    def _on_float(self) -> None:
        self.float_requested.emit(self.tab)

    def _on_clicked(self, position: int) -> None:
        # A click on the front tab of a closed drawer opens it; elsewhere the tab
        # bar has changed the current tab already.
        if position >= 0 and not self._is_open:
            self.set_open(True)

    def _show_state(self) -> None:
        self._stack.setVisible(self._is_open)
        if self._is_open:
            self._button.set_glyph("down", "Close the bottom panel")
            self.setMinimumHeight(self.head_height() + 60)
            self.setMaximumHeight(16_777_215)
        else:
            self._button.set_glyph("up", "Open the bottom panel")
            self.setMinimumHeight(self.head_height())
            self.setMaximumHeight(self.head_height())
        for part in (self.float_button, self.full_screen_button):
            part.setVisible(self._is_open)
        policy = self._bar.focusPolicy()
        if policy is not Qt.FocusPolicy.TabFocus:
            self._bar.setFocusPolicy(Qt.FocusPolicy.TabFocus)
