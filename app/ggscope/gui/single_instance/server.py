"""The window's side of the hand-over: take letters from later starts, and answer."""

import contextlib
import logging
import socket

from PySide6.QtCore import QObject, QSocketNotifier, QTimer, Signal

from ggscope.gui.single_instance.client import (
    LETTER_BYTES,
    PATIENCE_S,
    InstanceLock,
    answer,
    decode,
)

logger = logging.getLogger(__name__)

MAX_GUESTS = 16
"""So many may be writing at once; more are sent away."""


class InstanceServer(QObject):
    """Listens at the door of the window.

    A letter is answered before its files are opened, which takes longer. What is no
    letter is answered with the reason, what does not come within `PATIENCE_S` not at
    all; whoever has gone before the answer opens a window of its own, so that nothing
    opens twice.

    Signals
    -------
    came(OpenRequest) : a request that has been taken.
    """

    came = Signal(object)

    def __init__(self, door: InstanceLock, parent: QObject) -> None:
        super().__init__(parent)
        self._door = door
        self._guests: set[_Client] = set()
        self._notifier = QSocketNotifier(
            door.listener.fileno(), QSocketNotifier.Type.Read, self
        )
        self._notifier.setEnabled(False)
        self._notifier.activated.connect(self._on_knock)

    def start(self) -> None:
        """Take what has come and what comes; the window is up."""
        if self._door.is_open:
            self._door.say_open()
            self._notifier.setEnabled(True)

    def stop(self) -> None:
        """Send all away and let the next start be the first; may be called again."""
        # Before the descriptor is closed, which another file may get at once.
        self._notifier.setEnabled(False)
        for guest in list(self._guests):
            guest.leave()
        self._door.close()

    def forget(self, guest: "_Client") -> None:
        """Count a guest no more."""
        self._guests.discard(guest)

    def _on_knock(self) -> None:
        while self._door.is_open:
            try:
                line, _ = self._door.listener.accept()
            except OSError:  # nobody waits any more, or has gone meanwhile
                return
            if len(self._guests) >= MAX_GUESTS:
                line.close()
                continue
            self._guests.add(_Client(line, self))


class _Client(QObject):
    """Somebody who writes to the window."""

    def __init__(self, line: socket.socket, reception: InstanceServer) -> None:
        super().__init__(reception)
        self._reception = reception
        self._line = line
        self._text = b""
        line.setblocking(False)
        self._notifier = QSocketNotifier(line.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._on_readable)
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.timeout.connect(self.leave)
        self._patience.start(round(PATIENCE_S * 1000))

    def leave(self) -> None:
        """End the conversation."""
        self._patience.stop()
        self._notifier.setEnabled(False)
        self._line.close()
        self._reception.forget(self)
        self.deleteLater()

    def _on_readable(self) -> None:
        try:
            piece = self._line.recv(LETTER_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        self._text += piece
        if not piece:
            self.leave()
        elif b"\n" in self._text or len(self._text) > LETTER_BYTES:
            self._take()

    def _take(self) -> None:
        """Answer what has been written, and end."""
        try:
            letter = decode(self._text)
        except ValueError as error:
            logger.info("not taken: %s", error)
            self._say(answer(is_taken=False, why=str(error)))
            self.leave()
            return
        is_told = self._is_there() and self._say(answer(is_taken=True))
        self.leave()
        if is_told:
            self._reception.came.emit(letter)

    def _is_there(self) -> bool:
        """Tell whether the other side still waits for the answer."""
        try:
            return bool(self._line.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _say(self, text: bytes) -> bool:
        with contextlib.suppress(OSError):
            return self._line.send(text) == len(text)
        return False
