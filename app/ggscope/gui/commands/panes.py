"""What the panes' own controls and menus offer, as entries of the palette.

They are read off the widgets: whatever a pane has a choice, a switch, a button or a
menu for can be typed, without a list of its own.
"""

from collections.abc import Iterable, Iterator
from functools import partial

import shiboken6
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QCheckBox, QComboBox, QMenu, QToolButton, QWidget

from ggscope.gui.commands.palette import Entry
from ggscope.sanitize import one_line
from ggscope.views.base.view import View

MAX_ITEMS = 60
"""A choice of more (tokens, layers) is made in the pane."""


def pane_entries(panes: Iterable[tuple[str, View]]) -> list[Entry]:
    """Return an entry for each thing that panes (title, view) can do."""
    return [
        entry
        for title, view in panes
        for part in (view.head_widget(), view)
        if part is not None
        for entry in _entries(title, view, part)
    ]


def _entries(title: str, view: View, part: QWidget) -> Iterator[Entry]:
    for box in part.findChildren(QComboBox):
        if _is_offered(box, part) and not box.isEditable() and box.count() <= MAX_ITEMS:
            yield from _choices(title, box)
    for switch in part.findChildren(QCheckBox):
        if _is_offered(switch, part):
            state = "on" if switch.isChecked() else "off"
            text = one_line(switch.text())
            yield Entry(text, partial(_click, switch), f"{title} · {state}")
    for button in part.findChildren(QToolButton):
        if not _is_offered(button, part):
            continue
        menu = button.menu()
        if menu is not None:
            menu.aboutToShow.emit()  # some are filled only then
            yield from _actions(title, menu)
        elif button.text():
            text = button.accessibleName() or button.text()
            yield Entry(one_line(text), partial(_click, button), title)


def _choices(title: str, box: QComboBox) -> Iterator[Entry]:
    name = one_line(box.accessibleName())
    for i in range(box.count()):
        if i != box.currentIndex():
            text = f"{name}: {one_line(box.itemText(i))}"
            yield Entry(text, partial(_choose, box, i), title)


def _actions(title: str, menu: QMenu, path: str = "") -> Iterator[Entry]:
    for action in menu.actions():
        label = one_line(action.text().replace("&&", "\0").replace("&", ""))
        label = label.replace("\0", "&")
        inner = action.menu()
        if isinstance(inner, QMenu):
            yield from _actions(title, inner, f"{path}{label} › ")
        elif action.isEnabled() and not action.isSeparator():
            state = ""
            if action.isCheckable():
                state = " · on" if action.isChecked() else " · off"
            text = f"{path}{label}"
            yield Entry(text, partial(_trigger, action), f"{title}{state}")


def _is_offered(widget: QWidget, part: QWidget) -> bool:
    """Return whether a control can be used now."""
    return widget.isEnabled() and widget.isVisibleTo(part)


def _click(button: QToolButton | QCheckBox) -> None:
    if shiboken6.isValid(button):
        button.click()


def _choose(box: QComboBox, i: int) -> None:
    if shiboken6.isValid(box):
        box.setCurrentIndex(i)
        box.activated.emit(i)  # what the user chose


def _trigger(action: QAction) -> None:
    if shiboken6.isValid(action):
        action.trigger()
