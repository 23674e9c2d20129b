"""The keys sheet: every command with its keys, by menu."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from ggscope.gui.commands.shortcuts import Actions
from ggscope.gui.commands.table import COMMANDS, MENUS, PASSIVE_KEYS, tr
from ggscope.gui.widgets import label
from ggscope.views.base.plain import set_title

_COLUMNS = 3


class KeysSheet(QDialog):
    """A sheet of all keys; typing narrows it down, Esc closes it."""

    def __init__(self, actions: Actions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_title(self, self.tr("Keys"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(1000, 660)
        self._actions = actions
        self.edit = QLineEdit(self)
        self.edit.setPlaceholderText(self.tr("Type to find a key or a command"))
        self.edit.setAccessibleName(self.tr("Find"))
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
        """Return (title, rows of (keys, text)) of what contains `pattern`."""
        found = []
        for menu in MENUS:
            rows = [
                (self._actions.all_keys_text(c), tr(c.text).removesuffix("…"))
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
                rows.append((f"{low} … {high}", tr("Go to bookmark 1 … 9")))
            found.append((tr(menu), rows))
        found.append((tr("In the views"), [(k, tr(text)) for k, text in PASSIVE_KEYS]))
        wanted = pattern.strip().lower()
        kept = [
            (title, [row for row in rows if wanted in " ".join(row).lower()])
            for title, rows in found
        ]
        return [(title, rows) for title, rows in kept if rows]

    def _fill(self, pattern: str) -> None:
        page = QWidget()
        columns = QHBoxLayout(page)
        columns.setContentsMargins(0, 0, 8, 0)
        columns.setSpacing(28)
        groups = self.groups(pattern)
        total = sum(len(rows) + 2 for _, rows in groups)
        sides = [QVBoxLayout() for _ in range(_COLUMNS)]
        filled, at = 0, 0
        for title, rows in groups:
            if filled > total / _COLUMNS * (at + 1) - 4 and at < _COLUMNS - 1:
                at += 1
            sides[at].addLayout(_group(page, title, rows))
            filled += len(rows) + 2
        for side in sides:
            side.setSpacing(16)
            side.addStretch(1)
            columns.addLayout(side, 1)
        if not groups:
            sides[0].insertWidget(0, label(self.tr("Nothing fits."), page, "dim"))
        self._scroll.setWidget(page)


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
