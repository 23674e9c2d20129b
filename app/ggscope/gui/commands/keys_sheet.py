"""The sheet of all keys."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from ggscope.gui.commands.menus import Actions
from ggscope.gui.commands.registry import COMMANDS, MENUS
from ggscope.gui.dialogs.fitted import Dialog
from ggscope.gui.widgets import label
from ggscope.views.base.safe_text import set_title
from ggscope.views.registry import BUILTIN

_COLUMNS = 3


class KeysSheet(Dialog):
    """A sheet of all keys; typing narrows it down, Esc closes it."""

    def __init__(self, actions: Actions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_title(self, "Keyboard shortcuts")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(1000, 660)
        self._actions = actions
        self.edit = QLineEdit(self)
        self.edit.setPlaceholderText("Search keys and commands")
        self.edit.setAccessibleName("Find")
        self.edit.textChanged.connect(self._fill)
        self._scroll = QScrollArea(self)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        box = QVBoxLayout(self)
        box.setContentsMargins(20, 20, 20, 16)
        box.setSpacing(12)
        box.addWidget(self.edit)
        box.addWidget(self._scroll, 1)
        self._fill("")

    def groups(self, pattern: str = "") -> list[tuple[str, list[tuple[str, str]]]]:
        """Return (title, rows of (keys, text)) that contain `pattern`."""
        groups = []
        for menu in MENUS:
            rows = [
                (self._actions.all_keys_text(c), c.text.removesuffix("…"))
                for c in COMMANDS
                if c.menu.split("/")[0] == menu
                and c.keys
                and not c.id.startswith("go.bookmark_")
            ]
            if menu == "Go":
                # Alt is another sign on other systems.
                low, high = (
                    QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText)
                    for key in ("Alt+1", "Alt+9")
                )
                rows.append((f"{low} … {high}", "Go to bookmark 1 … 9"))
            groups.append((menu, rows))
        groups += [
            (view.title, list(view.gestures)) for view in BUILTIN if view.gestures
        ]
        text = pattern.strip().lower()
        matches = [
            (title, [row for row in rows if text in " ".join(row).lower()])
            for title, rows in groups
        ]
        return [(title, rows) for title, rows in matches if rows]

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Use as many columns as there is room for."""
        super().resizeEvent(event)
        self._fill(self.edit.text())

    def _fill(self, pattern: str) -> None:
        for n_columns in range(_COLUMNS, 0, -1):
            page = self._page(pattern, n_columns)
            bar = self._scroll.verticalScrollBar().sizeHint().width()
            space = self.width() - 40 - bar
            if n_columns == 1 or page.minimumSizeHint().width() <= space:
                self._scroll.setWidget(page)
                return
            page.deleteLater()

    def _page(self, pattern: str, n_columns: int) -> QWidget:
        page = QWidget(self)
        columns = QHBoxLayout(page)
        columns.setContentsMargins(0, 0, 8, 0)
        columns.setSpacing(28)
        groups = self.groups(pattern)
        total = sum(len(rows) + 2 for _, rows in groups)
        sides = [QVBoxLayout() for _ in range(n_columns)]
        filled, at = 0, 0
        for title, rows in groups:
            if filled > total / n_columns * (at + 1) - 4 and at < n_columns - 1:
                at += 1
            sides[at].addLayout(_group(page, title, rows))
            filled += len(rows) + 2
        for side in sides:
            side.setSpacing(16)
            side.addStretch(1)
            columns.addLayout(side, 1)
        if not groups:
            sides[0].insertWidget(0, label("No matches", page, "dim"))
        return page


def _group(page: QWidget, title: str, rows: list[tuple[str, str]]) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(12)
    grid.setVerticalSpacing(4)
    grid.addWidget(label(title.upper(), page, "head"), 0, 0, 1, 2)
    for y, (keys, text) in enumerate(rows, 1):
        grid.addWidget(label(text, page, wraps=True), y, 0)
        key = label(keys, page, "key")
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        grid.addWidget(key, y, 1, right)
    grid.setColumnStretch(0, 1)
    return grid
