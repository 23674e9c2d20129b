"""Run code of plug-ins: watched, off stdout, and with nothing that can escape.

A guest runs on a daemon thread. Whatever it raises, `SystemExit` and its kind too,
becomes a `GuestError`; one that is not back in time is left behind and told to stop.
What it prints goes to stderr. What it changes for the whole process is noticed, and
put back where that can be done.

Threads share an interpreter: code in C that never gives it back, a crash and
``os._exit`` cannot be held off here; see the decision record "plug-ins are guests".
"""

import contextlib
import ctypes
import locale
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TextIO, TypeVar, cast

SECONDS_VARIABLE = "GGSCOPE_PLUGIN_SECONDS"
"""Seconds that a plug-in may take to be imported, or to judge a file."""
USUAL_SECONDS = 2.0
_LONGEST = 3600.0
_POLL_SECONDS = 0.05
_END_SECONDS = 0.25
"""What a guest that is asked to end gets for it."""
_T = TypeVar("_T")


class GuestError(Exception):
    """A guest failed; the message says how, on one line."""


class _LeftBehindError(BaseException):
    """Raised within a guest that took too long. No ``except Exception`` stops it."""


@dataclass(slots=True)
class _Visit(Generic[_T]):
    """What became of one run of a guest."""

    result: list[_T] = field(default_factory=list)
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)


def limit_seconds() -> float:
    """Return how long a guest may take; see `SECONDS_VARIABLE`."""
    try:
        seconds = float(os.environ.get(SECONDS_VARIABLE, ""))
    except ValueError:
        return USUAL_SECONDS
    return min(seconds, _LONGEST) if seconds > 0 else USUAL_SECONDS


def one_line(error: BaseException) -> str:
    """Return ``ValueError: what`` on one line of bounded length."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - a guest's own class may fail at this, too
        text = ""
    return f"{type(error).__name__}: {text}"[:300].rstrip(": ")


def shown(value: object) -> str:
    """Return a value of a guest as text of bounded length, whatever its class does."""
    try:
        return f"{value!r:.80}"
    except Exception:  # noqa: BLE001 - border to plug-ins
        return type(value).__name__


def run(
    work: Callable[[], _T],
    *,
    seconds: float | None,
    check: Callable[[], None] = lambda: None,
    passes: tuple[type[BaseException], ...] = (),
) -> tuple[_T, tuple[str, ...]]:
    """Run a guest's code and return (its result, what it changed in the process).

    Parameters
    ----------
    seconds : how long it may take; None for as long as it likes.
    check : called every 50 ms meanwhile; what it raises comes out of here, and the
        guest is left behind.
    passes : kinds of exceptions that come out as they are.

    Raises
    ------
    GuestError
        If it raises anything else, or takes too long.
    """
    _divert_prints()
    visit: _Visit[_T] = _Visit()
    thread = threading.Thread(
        target=_visit, args=(work, visit), name="plug-in", daemon=True
    )
    before = _State.now()
    thread.start()
    try:
        is_back = _waited(visit.done, seconds, check)
    except BaseException:
        _leave_behind(thread)
        raise
    if not is_back:
        _leave_behind(thread)
        raise GuestError(f"it took longer than {seconds:g} seconds")
    changes = before.put_back()
    error = visit.error
    if error is None:
        return visit.result[0], changes
    if isinstance(error, passes):
        raise error
    raise GuestError(one_line(error)) from error


def _visit(work: Callable[[], _T], visit: _Visit[_T]) -> None:
    _THREADS.add(threading.get_ident())
    try:
        visit.result.append(work())
    except BaseException as error:  # noqa: BLE001 - border to plug-ins
        visit.error = error
    finally:
        _THREADS.discard(threading.get_ident())
        visit.done.set()


class _Stdout:
    """Stands for stdout, and for stderr to the threads of guests.

    Swapping ``sys.stdout`` while a guest runs would take it from all other threads.
    """

    routes_guests = True

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream

    def write(self, text: str) -> int:
        return self._here.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._here, name)

    @property
    def _here(self) -> TextIO:
        return sys.stderr if threading.get_ident() in _THREADS else self.raw


_THREADS: set[int] = set()
"""Threads on which guests run."""


def _divert_prints() -> None:
    # Whoever replaces stdout later, or wraps it, is met here again.
    if not getattr(sys.stdout, "routes_guests", False):
        sys.stdout = cast("TextIO", _Stdout(sys.stdout))


def _waited(
    done: threading.Event, seconds: float | None, check: Callable[[], None]
) -> bool:
    """Wait for a guest; False where it has not come back in time."""
    left = float("inf") if seconds is None else seconds
    while left > 0:
        if done.wait(min(_POLL_SECONDS, left)):
            return True
        left -= _POLL_SECONDS
        check()
    return done.is_set()


def _leave_behind(thread: threading.Thread) -> None:
    """Ask a thread to end: a loop in Python does, a long call into C does not."""
    if thread.ident is None or not thread.is_alive():
        return
    _ask(thread.ident, _LeftBehindError)
    thread.join(_END_SECONDS)
    if thread.is_alive():
        _ask(thread.ident, None)
    _forget_asking()


def _ask(ident: int, error: type[BaseException] | None) -> None:
    """Have `error` raised in a thread at its next step; None takes that back."""
    wanted = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), wanted)


def _forget_asking() -> None:
    """Clear the interpreter's note that a thread has been asked.

    Only a thread that takes such an exception clears it, and the one that was asked
    may have ended before. While the note stands, every thread looks for it at each
    call, and one that is traced goes on looking for ever (CPython 3.11).
    """
    try:
        _ask(threading.get_ident(), _LeftBehindError)
        while True:
            pass
    except _LeftBehindError:
        return


@dataclass(frozen=True, slots=True)
class _State:
    """What a guest could change for everybody."""

    folder: str
    recursion: int
    locale: str
    path: tuple[str, ...]
    threads: frozenset[threading.Thread]

    @classmethod
    def now(cls) -> "_State":
        """Return the state of the process."""
        return cls(
            _folder(),
            sys.getrecursionlimit(),
            locale.setlocale(locale.LC_ALL),
            tuple(sys.path),
            frozenset(threading.enumerate()),
        )

    def put_back(self) -> tuple[str, ...]:
        """Undo what can be undone; return what was changed, in words."""
        return tuple(self._changes())

    def _changes(self) -> Iterator[str]:
        now = _State.now()
        if now.folder != self.folder:
            with contextlib.suppress(OSError):
                os.chdir(self.folder)
            yield "it changed the working folder (put back)"
        if now.recursion != self.recursion:
            sys.setrecursionlimit(self.recursion)
            yield "it changed the recursion limit (put back)"
        if now.locale != self.locale:
            with contextlib.suppress(locale.Error):
                locale.setlocale(locale.LC_ALL, self.locale)
            yield "it changed the locale (put back)"
        if now.path != self.path:
            yield "it changed where Python looks for modules"
        left = [t for t in now.threads - self.threads if t.name != "plug-in"]
        if any(t.is_alive() and not t.name.startswith("ggscope") for t in left):
            yield "it left threads running"


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return os.sep


__all__ = [
    "SECONDS_VARIABLE",
    "USUAL_SECONDS",
    "GuestError",
    "limit_seconds",
    "one_line",
    "run",
    "shown",
]
