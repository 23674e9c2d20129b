"""A later start hands its files to the window that is open: the letter and its way.

The first start holds a lock for as long as it lives, and listens on a socket beside
it. A later one, which does not get the lock, writes its files there and ends. Nothing
here needs Qt: a start that hands over is over before it would be loaded, and the first
one listens already while it loads; what comes meanwhile waits in the socket.

The lock tells who lives, not the socket: the system frees it however a process ends,
and whoever gets it removes the socket of the one before.
"""

import contextlib
import hashlib
import json
import logging
import os
import socket
import stat
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import platformdirs

import ggscope
from ggscope.gui.single_instance.startup import given_token, is_token

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger(__name__)

NAME_VARIABLE = "GGSCOPE_INSTANCE"
"""Starts hand over among those that have the same value; ``off`` = never."""
LETTER_BYTES = 1 << 16
"""The longest letter, which the buffer of a socket holds at once."""
PATIENCE_S = 2.0
"""So long a window may take to answer."""
START_S = 20.0
"""So long it may take to come up, before that."""

_VERSION = 2
_POLL_S = 0.05
_MAX_NAME = 4096
_MAX_ADDRESS = 100
"""Bytes of a socket's path; systems take 103 or 107."""
_STARTING, _OPEN = b"starting", b"open"
_NO_ANSWER = (
    "the window that is open does not answer. A window of its own opens beside it."
)
_OTHERS = ("/dev", "/proc")
"""Below these a name means something else in another process."""


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """How files named on the command line are to be read and shown."""

    reader_id: str | None = None
    reader_options: tuple[tuple[str, str], ...] = ()
    time_range: str = ""
    is_forced: bool = False
    more: tuple[Path, ...] = ()
    """Further files of the same session."""
    shifts: tuple[tuple[str, str], ...] = ()
    """Names of files of the session, and what is added to their times."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """Files for the window that is open, with absolute names.

    Attributes
    ----------
    options : how to read all of them; None = as when a person opens them.
    activation : what the desktop gave this start to come to the front with.
    """

    files: tuple[Path, ...] = ()
    options: OpenOptions | None = None
    activation: str = ""


def open_options(options: object) -> OpenOptions | None:
    """Return how the files of the command line are to be read; None = as usual."""
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


def letter_of(paths: Sequence[Path], arguments: object) -> OpenRequest | None:
    """Return the letter that says what ``ggscope open`` was asked for.

    None where a window of its own is wanted: it was asked for, by `--new-window` or
    by what is said of a window and not of its files, or a file is one that only this
    process has, such as ``/dev/stdin`` or a pipe.
    """
    own = [
        *("new_window", "theme", "layout", "software_gl", "safe_mode", "demo"),
        *("config", "poll_interval_ms"),
    ]
    if any(getattr(arguments, name, None) for name in own):
        return None
    if getattr(arguments, "live", None) is not None:
        return None
    options = open_options(arguments)
    more = () if options is None else options.more
    if not all(map(_can_travel, (*paths, *more))):
        return None
    if options is not None:
        options = replace(options, more=tuple(path.absolute() for path in more))
    files = tuple(path.absolute() for path in paths)
    return OpenRequest(files, options, given_token())


def _can_travel(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return True  # the window says what is wrong with it
    is_plain = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    return is_plain and not path.absolute().as_posix().startswith(_OTHERS)


# -- the letter as bytes -----------------------------------------------------


def encode(letter: OpenRequest) -> bytes:
    """Return the line of JSON that `decode` reads."""
    options = letter.options
    text: dict[str, object] = {
        "ggscope": _VERSION,
        "files": list(map(str, letter.files)),
        "options": None,
        "activation": letter.activation,
    }
    if options is not None:
        text["options"] = {
            "reader": options.reader_id,
            "pairs": list(map(list, options.reader_options)),
            "range": options.time_range,
            "force": options.is_forced,
            "with": list(map(str, options.more)),
            "shifts": list(map(list, options.shifts)),
        }
    # In ASCII: bytes of names that are no text travel as the escapes they are here.
    return json.dumps(text).encode("ascii") + b"\n"


def decode(data: bytes) -> OpenRequest:
    """Return the letter in a line of JSON, which anybody may have written.

    Raises
    ------
    ValueError
        If it is anything else than what `encode` writes, with the reason.
    """
    if len(data) > LETTER_BYTES:
        raise ValueError("it is too long")
    try:
        text = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON") from None
    version = text.get("ggscope") if isinstance(text, dict) else None
    if version != _VERSION:
        raise ValueError("it is of another version")
    fields = _fields(text, "ggscope", "files", "options", "activation")
    activation = _word(fields["activation"])
    if not is_token(activation):
        raise ValueError("its activation is none")
    options = None if fields["options"] is None else _options(fields["options"])
    return OpenRequest(_paths(fields["files"]), options, activation)


def _options(value: object) -> OpenOptions:
    fields = _fields(value, "reader", "pairs", "range", "force", "with", "shifts")
    reader, force = fields["reader"], fields["force"]
    if not isinstance(force, bool):
        raise ValueError("its options are none")  # noqa: TRY004 - one kind for callers
    return OpenOptions(
        None if reader is None else _word(reader),
        _pairs(fields["pairs"]),
        _word(fields["range"]),
        force,
        _paths(fields["with"]),
        _pairs(fields["shifts"]),
    )


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list):
        raise ValueError("its options are none")  # noqa: TRY004 - one kind for callers
    if any(not isinstance(pair, list) or len(pair) != 2 for pair in value):
        raise ValueError("its options are no pairs")
    return tuple((_word(key), _word(text)) for key, text in value)


def _fields(value: object, *names: str) -> Mapping[str, object]:
    if not isinstance(value, dict) or value.keys() != set(names):
        raise ValueError("its fields are others")
    return value


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a text is none")  # noqa: TRY004 - one kind for callers
    return value


def _paths(value: object) -> tuple[Path, ...]:
    if not isinstance(value, list):
        raise ValueError("its files are no list")  # noqa: TRY004 - one kind for callers
    names = list(map(_word, value))
    if not all(map(_is_name, names)):
        raise ValueError("a name is not absolute, too long, or none of a file")
    return tuple(map(Path, names))


def _is_name(text: str) -> bool:
    try:
        is_short = len(os.fsencode(text)) <= _MAX_NAME
    except UnicodeEncodeError:
        return False
    return is_short and os.path.isabs(text) and "\0" not in text


def answer(is_taken: bool, why: str = "") -> bytes:
    """Return what the window answers to a letter."""
    said = {"ggscope": _VERSION, "taken": is_taken, "why": why}
    return json.dumps(said).encode("ascii") + b"\n"


# -- where it goes -------------------------------------------------------------


def address() -> Path | None:
    """Return the socket of this person's window on this display; None = hand-over off.

    Another version or installation of the program, other settings, plug-ins or
    displays have other windows. The folder is one that only this person can enter.
    """
    name = os.environ.get(NAME_VARIABLE, "")
    is_safe = os.environ.get("GGSCOPE_SAFE_MODE", "0") not in ("", "0")
    if name == "off" or is_safe or sys.platform == "win32":
        return None
    with warnings.catch_warnings(action="ignore"):  # of a variable that is wrong
        folder = Path(platformdirs.user_runtime_dir("ggscope", appauthor=False))
    found = folder / f"{_key(name)}.socket"
    if len(os.fsencode(found)) > _MAX_ADDRESS:
        logger.info("no hand-over: the name of %s is too long", found)
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            logger.info("no hand-over: %s belongs to somebody else", folder)
            return None
        if status.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        logger.info("no hand-over: %s", error)
        return None
    return found


def _key(name: str) -> str:
    """Return what tells the windows of a person apart, as a short word."""
    where = os.environ.get
    # Bundles that mount themselves lie elsewhere at each start.
    is_frozen = getattr(sys, "frozen", False)
    home = "" if is_frozen else os.path.dirname(os.path.abspath(ggscope.__file__))
    parts = (
        name,
        ggscope.__version__,
        home,
        where("DISPLAY", "").removesuffix(".0"),
        where("WAYLAND_DISPLAY", ""),
        where("QT_QPA_PLATFORM", ""),
        where("GGSCOPE_PLUGIN_PATH", ""),
        platformdirs.user_config_dir("ggscope", appauthor=False),
    )
    joined = "\0".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.sha256(joined).hexdigest()[:16]


class InstanceLock:
    """The lock and the socket of the window that takes files.

    Held from before the window is there until it closes; see `hold`.
    """

    def __init__(self, place: Path, lock: int, listener: socket.socket) -> None:
        self._place = place
        self._lock = lock
        self.listener = listener

    @property
    def is_open(self) -> bool:
        """Whether it has not been closed."""
        return self._lock >= 0

    def say_open(self) -> None:
        """Tell later starts that the window is up, and answers at once."""
        if self.is_open:
            os.pwrite(self._lock, _OPEN.ljust(len(_STARTING)), 0)

    def close(self) -> None:
        """Let the next start be the first; may be called again."""
        if not self.is_open:
            return
        self.listener.close()
        with contextlib.suppress(OSError):
            self._place.unlink()
        os.close(self._lock)
        self._lock = -1


def hold(place: Path) -> InstanceLock | None:
    """Become the one that takes files; None where another process is.

    Raises
    ------
    OSError
        Where there can be no lock or no socket.
    """
    only_a_file = os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(_lock_of(place), os.O_RDWR | os.O_CREAT | only_a_file, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except OSError:
        os.close(lock)
        raise
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.pwrite(lock, _STARTING, 0)
        with contextlib.suppress(FileNotFoundError):
            place.unlink()  # of one that was killed
        listener.bind(os.fsencode(place))
        place.chmod(0o600)
        listener.listen(64)
        listener.setblocking(False)
    except OSError:
        listener.close()
        os.close(lock)
        raise
    return InstanceLock(place, lock, listener)


def _lock_of(place: Path) -> Path:
    return place.with_suffix(".lock")


# -- handing over --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HandoverResult:
    """What became of a letter.

    Attributes
    ----------
    is_taken : the window that is open opens the files.
    door : where this process is now the one that takes files.
    notice : why a window of its own opens although another one is open; "" = nothing
        to be said.
    """

    is_taken: bool = False
    door: InstanceLock | None = None
    notice: str = ""


def offer(letter: OpenRequest | None, place: Path) -> HandoverResult:
    """Hand `letter` to the window that is open, or become the first.

    With None, nothing is handed over. Takes some milliseconds where a window is there
    or none is, `PATIENCE_S` where one does not answer, and as long as another start
    needs to come up, but no longer than `START_S`.
    """
    try:
        if letter is None:
            return HandoverResult(door=hold(place))
        return _offer(encode(letter), place)
    except OSError as error:
        logger.info("no hand-over: %s", error)
        return HandoverResult()


def _offer(data: bytes, place: Path) -> HandoverResult:
    if len(data) > LETTER_BYTES:
        door = hold(place)
        too_many = "these are too many files to hand over. They open in a new window."
        return HandoverResult(door=door, notice="" if door else too_many)
    patience = _Patience(place)
    while not patience.is_over():
        door = hold(place)
        if door is not None:
            return HandoverResult(door=door)
        said = _ask(data, place, patience)
        if said is not None:
            return said
        time.sleep(_POLL_S)
    return HandoverResult(notice=_NO_ANSWER)


class _Patience:
    """How long a start waits for the window: longer while that is coming up."""

    def __init__(self, place: Path) -> None:
        self._lock = _lock_of(place)
        self._begin = time.monotonic()
        self._until = self._begin + PATIENCE_S

    def is_over(self) -> bool:
        now = time.monotonic()
        if now < self._begin + START_S and self._is_starting():
            self._until = now + PATIENCE_S
        return now > self._until

    def _is_starting(self) -> bool:
        try:
            return self._lock.read_bytes() == _STARTING
        except OSError:
            return False


def _ask(data: bytes, place: Path, patience: _Patience) -> HandoverResult | None:
    """Send a letter and wait for the answer; None = there was nobody to ask."""
    said = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LETTER_BYTES)
        line.settimeout(PATIENCE_S)
        try:
            line.connect(os.fsencode(place))
            line.sendall(data)
            line.settimeout(2 * _POLL_S)
            while b"\n" not in said and len(said) < LETTER_BYTES:
                try:
                    piece = line.recv(4096)
                except TimeoutError:
                    if patience.is_over():
                        return HandoverResult(notice=_NO_ANSWER)
                    continue
                if not piece:
                    return None  # it ended meanwhile
                said += piece
        except (FileNotFoundError, ConnectionError, BlockingIOError, TimeoutError):
            return None
    try:
        text = json.loads(said)
        is_taken, why = text["taken"] is True, str(text["why"])
    except (ValueError, TypeError, KeyError, RecursionError):
        is_taken, why = False, "its answer is none"
    if is_taken:
        return HandoverResult(is_taken=True)
    return HandoverResult(
        notice=f"the window that is open takes no files: {why[:200]}."
    )
