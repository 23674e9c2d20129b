"""What every view is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from PySide6.QtWidgets import QWidget

from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.views.guard import guarded

Area = Literal["centre", "right", "bottom"]


class View(QWidget):
    """A window onto one session.

    A view connects to the session in `attach` and disconnects in `detach`;
    nobody else connects on its behalf. It keeps working without a session and
    shows an empty state then. What its overrides of Qt methods raise ends in the
    error panel of its pane, never in Qt.
    """

    def __init_subclass__(cls, **named: object) -> None:
        super().__init_subclass__(**named)
        guarded(cls)

    def attach(self, session: Session) -> None:
        """Show `session` from now on."""
        raise NotImplementedError

    def detach(self) -> None:
        """Stop showing it."""
        raise NotImplementedError

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme` for what the style sheet does not reach."""

    def set_zoom(self, zoom: float) -> None:
        """Draw what is painted by hand `zoom` times as large: the font scale."""

    def head_widget(self) -> QWidget | None:
        """Return what stands in the head of the view's pane, owned by the view."""
        return None


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """A kind of view.

    Attributes
    ----------
    id : stable name, kept in layouts.
    title : what tabs and menus say.
    area : where it lives by default.
    factory : makes one.
    """

    id: str
    title: str
    area: Area
    factory: Callable[[], View]
