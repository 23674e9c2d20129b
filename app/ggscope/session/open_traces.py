"""The sessions of all tabs, for a view that looks at another one."""

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

if TYPE_CHECKING:
    from ggscope.session.loader import LoadRequest
    from ggscope.session.session import Session


class OpenTraces(QObject):
    """Sessions by the titles of their tabs; it keeps none of them alive.

    Attributes
    ----------
    ask_file : asks for a file that is in no tab; returns how to read it, None where
        nothing was chosen.

    Signals
    -------
    changed : a tab came, went, or has another title.
    """

    changed = Signal()

    def __init__(
        self,
        ask_file: "Callable[[], LoadRequest | None]" = lambda: None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.ask_file = ask_file
        self._open: list[tuple[str, weakref.ref[Session]]] = []

    def set_sessions(self, titled: "Sequence[tuple[str, Session]]") -> None:
        """Set titles and sessions of all tabs, from left to right."""
        tabs = [(title, weakref.ref(session)) for title, session in titled]
        if tabs != self._open:
            self._open = tabs
            self.changed.emit()

    def others(self, than: "Session") -> "list[tuple[str, Session]]":
        """Return title and session of all tabs but one."""
        tabs = [(title, session()) for title, session in self._open]
        return [(t, s) for t, s in tabs if s is not None and s is not than]
