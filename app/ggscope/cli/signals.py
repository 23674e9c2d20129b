"""Ending when the system asks for it: as an exception, so that nothing stays behind."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
"""What terminals, service managers and shells send; some systems lack the last."""


class Heard:
    """Which signal has come; 0 = none."""

    def __init__(self) -> None:
        self.number = 0

    @property
    def name(self) -> str:
        """Its name, e.g. ``SIGTERM``; "" = none."""
        return signal.Signals(self.number).name if self.number else ""


@contextlib.contextmanager
def raised() -> Iterator[Heard]:
    """Raise KeyboardInterrupt for each signal that asks the program to end.

    Signals that are ignored, as under nohup, stay so. A second one of the same kind
    ends the program at once.
    """
    heard = Heard()
    if threading.current_thread() is not threading.main_thread():
        yield heard
        return
    usual = (signal.SIG_DFL, signal.default_int_handler)
    before = {}

    def end(number: int, _: FrameType | None) -> None:
        heard.number = number
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    for name in _ENDING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) in usual:
            before[number] = signal.signal(number, end)
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


__all__ = ["Heard", "raised"]
