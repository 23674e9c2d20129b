"""The choice of another open run, whose ops by bits are drawn beside those of this."""

import weakref
from collections.abc import Callable

from PySide6.QtCore import QObject, QSignalBlocker
from PySide6.QtWidgets import QComboBox

from ggscope.model.trace import Trace
from ggscope.session.open_traces import OpenTraces
from ggscope.session.session import Session

_NONE = "no other run"
_MAX_TITLE = 40


class OtherRun(QObject):
    """Lists the other tabs that can be drawn; the first entry is none of them.

    Parameters
    ----------
    box : shows the choice.
    changed : called where another run, or none, is chosen.

    Attributes
    ----------
    tabs : all open tabs.
    """

    def __init__(
        self, session: Session, box: QComboBox, changed: Callable[[], object]
    ) -> None:
        super().__init__(box)
        self.tabs = session.open_traces or OpenTraces(parent=self)
        self._session, self._box, self._changed = session, box, changed
        self._listed: list[tuple[str, weakref.ref[Session]]] = []
        self._chosen: weakref.ref[Session] | None = None
        box.currentIndexChanged.connect(self._on_chosen)

    @property
    def title(self) -> str:
        """Title of the chosen tab; "" for none."""
        titles = (title for title, session in self._listed if session is self._chosen)
        return next(titles, "")

    @property
    def trace(self) -> Trace | None:
        """Trace of the chosen tab; None for none."""
        session = None if self._chosen is None else self._chosen()
        return None if session is None else session.trace

    def list_tabs(self, _: object = None) -> None:
        """List the other tabs anew; one that was closed is no longer chosen."""
        others = [
            (title, weakref.ref(other))
            for title, other in self.tabs.others(self._session)
            if self._can_be_drawn(other.trace)
        ]
        chosen = self._chosen
        references = [reference for _, reference in others]
        place = references.index(chosen) + 1 if chosen in references else 0
        self._listed = others
        with QSignalBlocker(self._box):
            self._box.clear()
            self._box.addItem(_NONE)
            self._box.addItems([title[:_MAX_TITLE] for title, _ in others])
            self._box.setCurrentIndex(place)
        if chosen is not None and not place:
            self._chosen = None
            self._changed()
        elif place:
            self._chosen = references[place - 1]

    def _can_be_drawn(self, trace: Trace | None) -> bool:
        """Return whether a run states bits, and times in the unit of this one."""
        own = self._session.trace
        if trace is None or own is None or trace.spans.bits is None:
            return False
        return trace.clock.unit == own.clock.unit

    def _on_chosen(self, place: int) -> None:
        self._chosen = self._listed[place - 1][1] if place > 0 else None
        self._changed()
