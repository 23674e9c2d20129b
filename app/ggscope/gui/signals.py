"""Signals that ask the program to end: the window closes as by its own button."""

import contextlib
import signal
import socket
from types import FrameType

from PySide6.QtCore import QObject, QSocketNotifier
from PySide6.QtWidgets import QApplication, QWidget

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
_SIGNALLED = 128


class EndingSignals(QObject):
    """Closes the window when a signal asks for it, and leaves the event loop.

    Settings are stored and temporary files removed, as when a person closes it; the
    exit code is 128 plus the signal's number. A second signal ends the program at
    once. Signals that are ignored, as under nohup, stay so.

    Notes
    -----
    Python runs its handlers only when it runs at all, and an event loop that waits
    does not. So the signal also writes a byte to a socket, which wakes the loop.
    """

    window: QWidget | None = None
    """What to close; a signal that comes earlier waits for it."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._number = 0
        self._reader, self._writer = socket.socketpair()
        for end in (self._reader, self._writer):
            end.setblocking(False)
        self._notifier = QSocketNotifier(
            self._reader.fileno(), QSocketNotifier.Type.Read, self
        )
        self._notifier.activated.connect(self._on_woken)
        self._waker = signal.set_wakeup_fd(
            self._writer.fileno(), warn_on_full_buffer=False
        )
        self._before = {}
        for name in _ENDING:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)

    def stop(self) -> None:
        """Let signals do what they did before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._waker)
        self._notifier.setEnabled(False)
        for end in (self._reader, self._writer):
            end.close()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._number = number
        for other in self._before:
            signal.signal(other, signal.SIG_DFL)

    def _on_woken(self) -> None:
        if self._number and self.window is None:
            return  # not up yet: the byte stays, and wakes the loop again
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(64)
        if not self._number or self.window is None:
            return
        self.window.close()
        # Also out of the loops of dialogs, which close with the window.
        QApplication.exit(_SIGNALLED + self._number)


__all__ = ["EndingSignals"]
