"""A program that runs as if it had been started directly.

It has the launcher's streams and process group, gets the signals that the launcher
gets, and the launcher ends as it ended. Signals are waited for and not handled, so that
none interrupts anything; they must be held back before a library starts threads,
because a signal goes to any thread that lets it in. Nothing here imports such a one.
"""

import contextlib
import errno
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ggscope_capture.files import reason_of
from ggscope_capture.regular_file import open_for_reading

FAILED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
"""Exit codes of the launcher itself, as `env` and `nohup` have them."""
_PASSED = {
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
    signal.SIGUSR2, signal.SIGALRM, signal.SIGWINCH,
}  # fmt: skip
_FAULTS = {
    signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV,
    signal.SIGSYS, signal.SIGTRAP, signal.SIGPIPE, signal.SIGXFSZ,
}  # fmt: skip
"""What a process does to itself."""
_STOPS = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
"""A terminal's; the shell that sent them waits for the launcher to stand still."""
if sys.platform != "darwin":  # nobody can hold back the other two
    _PASSED = signal.valid_signals() - _FAULTS - _STOPS
    _PASSED -= {signal.SIGCHLD, signal.SIGKILL, signal.SIGSTOP}
_HELD = _PASSED | {signal.SIGCHLD}
_FROM_KERNEL = 0x80
"""`si_code` of what a terminal sends to the whole process group, the program too."""
_mask: set[int | signal.Signals] = set()
"""What was held back already when this program started."""


class LaunchError(Exception):
    """The program cannot be started; `code` is the exit code for that."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Keep signals for `Child.wait`; those that nobody waited for are forgotten."""
    if sys.platform == "darwin":  # has no sigtimedwait: `spawned` handles them
        yield
        return
    old = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    _mask.clear()
    _mask.update(old)
    try:
        yield
    finally:
        while signal.sigtimedwait(_HELD - old, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


@dataclass
class Child:
    """The program; `status` is what `waitpid` returned."""

    pid: int
    status: int = 0

    def wait(self, seconds: float) -> bool:
        """Wait so long, pass signals on; return whether the program has ended."""
        if self._has_ended():
            return True
        if sys.platform == "darwin":  # has no sigtimedwait
            time.sleep(seconds)
            return self._has_ended()
        info = signal.sigtimedwait(_HELD, seconds)
        if info is None or info.si_signo == signal.SIGCHLD:
            return self._has_ended()
        if info.si_code != _FROM_KERNEL:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, info.si_signo)
        return False

    def _has_ended(self) -> bool:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        self.status = status
        return pid != 0


def is_bare_script(path: Path) -> bool:
    """Return whether a file is a script that names no interpreter: sh runs it.

    That is what shells and ``execvp`` do with a text that may be executed; `env`,
    `nohup` and `timeout` do it too.
    """
    try:
        with open_for_reading(path, follows_links=True) as handle:
            head = handle.read(256)
    except OSError:
        return False
    return head[:2] != b"#!" and b"\0" not in head and os.access(path, os.X_OK)


def _spawn(
    program: Path, command: Sequence[str], environment: Mapping[str, str]
) -> int:
    """Return the process of a program that was started; raises OSError."""
    # Python ignores SIGPIPE, and a program inherits what is ignored.
    restored = [signal.SIGPIPE, signal.SIGXFSZ]
    try:
        return os.posix_spawn(
            program,
            list(command),
            dict(environment),
            setsigmask=_mask,
            setsigdef=restored,
        )
    except OSError as error:
        if error.errno != errno.ENOEXEC or not is_bare_script(program):
            raise
    arguments = ["/bin/sh", str(program), *command[1:]]
    return os.posix_spawn(
        arguments[0], arguments, dict(environment), setsigmask=_mask, setsigdef=restored
    )


@contextlib.contextmanager
def spawned(
    program: Path, command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[Child]:
    """Start a program, within `signals_held`; raises LaunchError."""
    try:
        pid = _spawn(program, command, environment)
    except OSError as error:
        reason = reason_of(error)
        text = f"{program} cannot be executed: {reason}"
        raise LaunchError(text, NOT_EXECUTABLE) from error
    child = Child(pid)
    if sys.platform != "darwin":
        yield child
        return

    def pass_on(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, number)

    # A terminal sends these two to the program itself.
    from_terminal = {signal.SIGINT, signal.SIGQUIT}
    old = {
        number: signal.signal(
            number, signal.SIG_IGN if number in from_terminal else pass_on
        )
        for number in _PASSED
    }
    try:
        yield child
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def end_like(code: int) -> int:
    """Return a program's exit code, or end by the signal that ended it."""
    if code >= 0:
        return code
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code
