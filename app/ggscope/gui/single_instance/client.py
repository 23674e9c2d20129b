"""Single-instance client: open requests, the instance lock, and the hand-over.

The first process holds a lock file for its lifetime and listens on a socket beside it.
A later one, which does not get the lock, sends its open request to that socket and
exits. Nothing here imports Qt: the client exits before Qt would be loaded, and the
server listens while it is still starting; requests wait in the socket's backlog.

The lock, not the socket, shows whether an instance is alive: the system releases it
however the process ends, and whoever acquires it removes the stale socket.
"""

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import socket
import stat
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import platformdirs

import ggscope
from ggscope.gui.single_instance.startup import given_token, is_token
from ggscope.json_types import from_json

logger = logging.getLogger(__name__)

NAME_VARIABLE = "GGSCOPE_INSTANCE"
"""Processes with the same value share one instance; ``off`` = no hand-over."""
MAX_REQUEST_BYTES = 1 << 16
"""Largest request: fits into the socket's buffer, so that sending never blocks."""
REPLY_TIMEOUT_S = 2.0
"""How long a running instance may take to reply."""
STARTUP_TIMEOUT_S = 20.0
"""How long an instance may take to start before it has to reply."""

_VERSION = 3
_POLL_S = 0.05
_MAX_PATH_BYTES = 100
"""Bytes of a socket's path; systems allow 103 or 107."""
_STARTING, _READY = b"starting", b"open"
"""Content of the lock file."""
_NO_REPLY = "the open window does not respond; a new window opens."
_PROCESS_LOCAL = ("/dev", "/proc")
"""Paths below these name other files in another process."""


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """Options of the command line for reading and showing its files."""

    reader_id: str | None = None
    reader_options: tuple[tuple[str, str], ...] = ()
    time_range: str = ""
    is_forced: bool = False
    more: tuple[Path, ...] = ()
    """Further files of the same session."""
    shifts: tuple[tuple[str, str], ...] = ()
    """(File name, time shift) of files of the session."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """Files for the running instance to open, as absolute paths.

    Attributes
    ----------
    options : for all files; None = defaults.
    activation : startup token from the desktop, with which the window may raise itself.
    """

    files: tuple[Path, ...] = ()
    options: OpenOptions | None = None
    activation: str = ""


def open_options(options: object) -> OpenOptions | None:
    """Return the open options in the parsed command line; None = defaults."""
    pairs: list[tuple[str, str]] = list(getattr(options, "option", None) or ())
    ops = getattr(options, "ops", None)
    if ops and ops != "auto":
        pairs.append(("ops", str(ops)))
    records, names = getattr(options, "records", None), getattr(options, "names", None)
    if records:
        pairs.append(("range", str(records)))
    if names and names != "all":
        pairs.append(("names", str(names)))
    reader = getattr(options, "reader", None)
    time_range = str(getattr(options, "range", None) or "")
    is_forced = bool(getattr(options, "force", False))
    more = tuple(getattr(options, "beside", None) or ())
    shifts = tuple(getattr(options, "shift", None) or ())
    if not (pairs or reader or time_range or is_forced or more or shifts):
        return None
    return OpenOptions(reader, tuple(pairs), time_range, is_forced, more, shifts)


def make_request(paths: Sequence[Path], arguments: object) -> OpenRequest | None:
    """Return the request for a parsed ``ggscope open``; None = open a new window.

    A new window is needed with `--new-window` or an option of the window itself, and
    for a file that only this process can open, such as ``/dev/stdin`` or a pipe.
    """
    window_options = [
        *("new_window", "theme", "layout", "software_gl", "safe_mode", "demo"),
        *("config", "poll_interval_ms"),
    ]
    if any(getattr(arguments, name, None) for name in window_options):
        return None
    if getattr(arguments, "live", None) is not None:
        return None
    options = open_options(arguments)
    more = () if options is None else options.more
    if not all(map(_can_be_sent, (*paths, *more))):
        return None
    if options is not None:
        options = replace(options, more=tuple(path.absolute() for path in more))
    files = tuple(path.absolute() for path in paths)
    return OpenRequest(files, options, given_token())


def _can_be_sent(path: Path) -> bool:
    """Return whether another process finds the same file under this path."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return True  # the instance reports the error
    is_plain = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    return is_plain and not path.absolute().as_posix().startswith(_PROCESS_LOCAL)


# -- wire format ---------------------------------------------------------------


def encode(request: OpenRequest) -> bytes:
    """Return the line of JSON that `decode` reads."""
    fields = {"ggscope": _VERSION, **asdict(request)}
    # ASCII keeps file names that are not UTF-8: they are escaped surrogates.
    return json.dumps(fields, default=str).encode("ascii") + b"\n"


def decode(data: bytes) -> OpenRequest:
    """Return the request in a line of JSON from an untrusted client.

    Raises
    ------
    ValueError
        With the reason, where `encode` would not have written it.
    """
    if len(data) > MAX_REQUEST_BYTES:
        raise ValueError("request too long")
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(message, dict) or message.pop("ggscope", None) != _VERSION:
        raise ValueError("other protocol version")
    request: OpenRequest = from_json(message, OpenRequest)
    if not is_token(request.activation):
        raise ValueError("invalid activation token")
    return request


def reply(is_accepted: bool, reason: str = "") -> bytes:
    """Return the server's reply to a request, as a line of JSON."""
    fields = {"ggscope": _VERSION, "taken": is_accepted, "why": reason}
    return json.dumps(fields).encode("ascii") + b"\n"


# -- socket and lock -----------------------------------------------------------


def socket_path() -> Path | None:
    """Return the socket of this user's instance on this display; None = hand-over off.

    Each version and installation of the program, configuration folder, plug-in path
    and display has an instance of its own. Only this user can enter the folder.
    """
    name = os.environ.get(NAME_VARIABLE, "")
    is_safe = os.environ.get("GGSCOPE_SAFE_MODE", "0") not in ("", "0")
    if name == "off" or is_safe:
        return None
    with warnings.catch_warnings(action="ignore"):  # about a bad XDG_RUNTIME_DIR
        folder = Path(platformdirs.user_runtime_dir("ggscope", appauthor=False))
    path = folder / f"{_instance_key(name)}.socket"
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        logger.info("no hand-over: the path %s is too long", path)
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            logger.info("no hand-over: %s belongs to another user", folder)
            return None
        if status.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        logger.info("no hand-over: %s", error)
        return None
    return path


def _instance_key(name: str) -> str:
    """Return a short hash of everything that separates the instances of a user."""
    variable = os.environ.get
    # An AppImage is mounted at another path each time.
    is_frozen = getattr(sys, "frozen", False)
    home = "" if is_frozen else os.path.dirname(os.path.abspath(ggscope.__file__))
    parts = (
        name,
        ggscope.__version__,
        home,
        variable("DISPLAY", "").removesuffix(".0"),
        variable("WAYLAND_DISPLAY", ""),
        variable("QT_QPA_PLATFORM", ""),
        variable("GGSCOPE_PLUGIN_PATH", ""),
        platformdirs.user_config_dir("ggscope", appauthor=False),
    )
    joined = "\0".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.sha256(joined).hexdigest()[:16]


class InstanceLock:
    """The lock file and the listening socket of the running instance.

    Held from before the window is made until it closes; see `acquire`.
    """

    def __init__(self, path: Path, lock_fd: int, listener: socket.socket) -> None:
        self._path = path
        self._lock_fd = lock_fd
        self.listener = listener

    @property
    def is_held(self) -> bool:
        """Whether it has not been released."""
        return self._lock_fd >= 0

    def mark_ready(self) -> None:
        """Tell clients that the window is up and replies at once."""
        if self.is_held:
            os.pwrite(self._lock_fd, _READY.ljust(len(_STARTING)), 0)

    def release(self) -> None:
        """Remove the socket and let another process be the instance; idempotent."""
        if not self.is_held:
            return
        self.listener.close()
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._lock_fd)
        self._lock_fd = -1


def acquire(path: Path) -> InstanceLock | None:
    """Return the lock of the instance; None where another process holds it.

    Raises
    ------
    OSError
        Where lock or socket cannot be made.
    """
    only_a_file = os.O_CLOEXEC | os.O_NOFOLLOW
    lock_fd = os.open(_lock_path(path), os.O_RDWR | os.O_CREAT | only_a_file, 0o600)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.pwrite(lock_fd, _STARTING, 0)
        path.unlink(missing_ok=True)  # left by a process that was killed
        listener.bind(os.fsencode(path))
        path.chmod(0o600)
        listener.listen(64)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        os.close(lock_fd)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return InstanceLock(path, lock_fd, listener)


def _lock_path(path: Path) -> Path:
    return path.with_suffix(".lock")


# -- hand-over -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HandoverResult:
    """Result of a hand-over.

    Attributes
    ----------
    is_accepted : the running instance opens the files.
    lock : held where this process is the instance now.
    notice : why a new window opens although an instance runs; "" = none does.
    """

    is_accepted: bool = False
    lock: InstanceLock | None = None
    notice: str = ""


def hand_over(request: OpenRequest | None, path: Path) -> HandoverResult:
    """Send `request` to the running instance, or become the instance.

    With None, nothing is sent. Takes milliseconds where an instance replies or none
    runs, `REPLY_TIMEOUT_S` where one does not reply, and at most `STARTUP_TIMEOUT_S`
    while another one starts.
    """
    try:
        if request is None:
            return HandoverResult(lock=acquire(path))
        return _send_or_acquire(encode(request), path)
    except OSError as error:
        logger.info("no hand-over: %s", error)
        return HandoverResult()


def _send_or_acquire(data: bytes, path: Path) -> HandoverResult:
    if len(data) > MAX_REQUEST_BYTES:
        lock = acquire(path)
        too_many = "too many files for the open window; a new window opens."
        return HandoverResult(lock=lock, notice="" if lock else too_many)
    begin = last_start = time.monotonic()

    def is_late() -> bool:
        """Return whether the instance should have replied; it may start meanwhile."""
        nonlocal last_start
        now = time.monotonic()
        if now < begin + STARTUP_TIMEOUT_S and _is_starting(path):
            last_start = now
        return now > last_start + REPLY_TIMEOUT_S

    while not is_late():
        lock = acquire(path)
        if lock is not None:
            return HandoverResult(lock=lock)
        result = _send(data, path, is_late)
        if result is not None:
            return result
        time.sleep(_POLL_S)
    return HandoverResult(notice=_NO_REPLY)


def _is_starting(path: Path) -> bool:
    try:
        return _lock_path(path).read_bytes() == _STARTING
    except OSError:
        return False


def _send(
    data: bytes, path: Path, is_late: Callable[[], bool]
) -> HandoverResult | None:
    """Send a request and wait for the reply; None = nothing listens, try again."""
    received = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MAX_REQUEST_BYTES
        )
        connection.settimeout(REPLY_TIMEOUT_S)
        try:
            connection.connect(os.fsencode(path))
            connection.sendall(data)
            connection.settimeout(2 * _POLL_S)
            while b"\n" not in received and len(received) < MAX_REQUEST_BYTES:
                try:
                    chunk = connection.recv(4096)
                except TimeoutError:
                    if is_late():
                        return HandoverResult(notice=_NO_REPLY)
                    continue
                if not chunk:
                    return None  # the instance exited meanwhile
                received += chunk
        except (FileNotFoundError, ConnectionError, BlockingIOError, TimeoutError):
            return None
    try:
        fields = json.loads(received)
        is_accepted, reason = fields["taken"] is True, str(fields["why"])
    except (ValueError, TypeError, KeyError, RecursionError):
        is_accepted, reason = False, "invalid reply"
    if is_accepted:
        return HandoverResult(is_accepted=True)
    return HandoverResult(
        notice=f"the open window refused the files ({reason[:200]}); "
        "a new window opens."
    )
