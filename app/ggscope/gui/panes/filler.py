"""Makes the panes that the first picture does not need, once it is out."""

import importlib
import logging
import sys
import threading
from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, QTimer, Signal

from ggscope.gui.panes.host import ViewHost

logger = logging.getLogger(__name__)

FIRST_VIEWS = ("overview", "timeline")
"""Views that make up the first picture; they are made at once."""
PATIENCE_MS = 1_000
"""So long the other panes wait for a first picture that does not come: it takes half a
second at any size, and importing them beside it takes the interpreter from it."""
_LOOK_MS = 5
"""So often a pane looks whether its module has been imported."""


class PaneFiller(QObject):
    """Fills panes one by one while nothing else is to be done.

    Their modules are imported on a thread of its own: each takes some 50 ms, in which
    the window would not answer.

    Parameters
    ----------
    hosts : returns the panes that there are now, in the order to fill them.
    """

    filled = Signal()

    def __init__(
        self, hosts: Callable[[], Iterable[ViewHost]], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._hosts = hosts
        self._is_done = False
        self._import: threading.Thread | None = None
        self._patience = self._timer(PATIENCE_MS)
        self._next = self._timer(0)
        self._patience.start()

    @property
    def is_done(self) -> bool:
        """Whether panes need not wait any more."""
        return self._is_done

    def waits(self, view_id: str) -> bool:
        """Tell whether a pane of this view, made now, is to wait for its turn."""
        return not self._is_done and view_id not in FIRST_VIEWS

    def start(self) -> None:
        """Fill the panes from now on, one per turn of the event loop."""
        self._patience.stop()
        if not self._is_done and not self._next.isActive():
            self._next.start()

    def finish(self) -> None:
        """Let all panes be made as soon as they are seen, those in sight now."""
        if self._is_done:
            return
        self._is_done = True
        self._patience.stop()
        self._next.stop()
        for host in self._hosts():
            host.stop_waiting()
        self.filled.emit()

    def stop(self) -> None:
        """Fill nothing any more: the panes are about to go."""
        self._is_done = True
        self._patience.stop()
        self._next.stop()

    def _on_turn(self) -> None:
        self._patience.stop()
        for host in self._hosts():
            if host.is_waiting and host.isVisible():
                if self._is_imported(host.entry.module):
                    host.stop_waiting()
                    self._next.start(0)
                else:
                    self._next.start(_LOOK_MS)
                return
        self.finish()

    def _is_imported(self, module: str) -> bool:
        """Tell whether a module need not be waited for; begin to import it if need be.

        One that cannot be imported need not either: making the view says why.
        """
        if self._import is None:
            if module in sys.modules:
                return True
            self._import = threading.Thread(
                target=_import, args=(module,), name="ggscope-import", daemon=True
            )
            self._import.start()
        if self._import.is_alive():
            return False
        self._import = None
        return True

    def _timer(self, after_ms: int) -> QTimer:
        made = QTimer(self, singleShot=True, interval=after_ms)
        made.timeout.connect(self._on_turn)
        return made


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except Exception:
        # Making the view imports it again, and shows why that fails.
        logger.debug("%s cannot be imported", module, exc_info=True)
