"""The colours of bookmarks as icons and as entries of a menu."""

from collections.abc import Callable, Collection
from functools import partial

from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QMenu

from ggscope.model.notes import NOTE_COLORS
from ggscope.render.theme import Theme
from ggscope.render.timeline.notes import note_color
from ggscope.views.base.safe_text import add_action
from ggscope.views.base.text_table import sign_pixmap


def note_icon(key: str, theme: Theme) -> QIcon:
    """Return a small square in the colour of a note."""
    return QIcon(sign_pixmap(note_color(key, theme), "square"))


def add_note_colors(
    menu: QMenu,
    theme: Theme,
    current: Collection[str],
    run: Callable[[str], object],
) -> None:
    """Add an entry for each colour; those in `current` are ticked."""
    for color in NOTE_COLORS:
        action = add_action(menu, color.title, partial(run, color.key))
        action.setIcon(note_icon(color.key, theme))
        action.setCheckable(True)
        action.setChecked(color.key in current)
