"""Plug-ins: readers of installed packages and of the user's folder.

Whatever a plug-in does wrong becomes a line in the list of readers, and it is not
asked again until the program ends. It can never stop the program, and nobody who has
not asked for it waits for it: plug-ins are loaded on a thread of their own, when a
file is met that no built-in reader is certain of, or somebody lists the readers.

Code of a plug-in runs on a daemon thread. Whatever it raises, `SystemExit` and its
kind too, becomes a `PluginError`; a call that does not return in time is abandoned,
and its thread is asked to stop. What it prints goes to stderr. What it changes for the
whole process (working folder, locale, …) is detected, and undone where possible.

Threads share an interpreter: code in C that never releases it, a crash and
``os._exit`` cannot be contained here; see the decision record "plug-ins are guests".
"""

import contextlib
import functools
import importlib
import locale
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Generic, TextIO, TypeAlias, TypeVar, cast

from ggscope.readers.api import ROLES, Head, Option, Reader, ReaderInfo, Sniff

logger = logging.getLogger(__name__)


SECONDS_VARIABLE = "GGSCOPE_PLUGIN_SECONDS"
"""Seconds that a plug-in may take to be imported, or to judge a file."""
USUAL_SECONDS = 2.0
_LONGEST = 3600.0
_POLL_SECONDS = 0.05
_END_SECONDS = 0.25
"""How long a thread that is asked to stop may take for it."""
_T = TypeVar("_T")


class PluginError(Exception):
    """A plug-in failed; the message says how, on one line."""


class _StopPluginError(BaseException):
    """Raised in a plug-in's thread to stop it. No ``except Exception`` catches it."""


@dataclass(slots=True)
class _Call(Generic[_T]):
    """Result or error of one call of a plug-in."""

    result: list[_T] = field(default_factory=list)
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)


def limit_seconds() -> float:
    """Return how long a plug-in may take; see `SECONDS_VARIABLE`."""
    try:
        seconds = float(os.environ.get(SECONDS_VARIABLE, ""))
    except ValueError:
        return USUAL_SECONDS
    return min(seconds, _LONGEST) if seconds > 0 else USUAL_SECONDS


def one_line(error: BaseException) -> str:
    """Return ``ValueError: what`` on one line of bounded length."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - a plug-in's own class may fail at this, too
        text = ""
    return f"{type(error).__name__}: {text}"[:300].rstrip(": ")


def shown(value: object) -> str:
    """Return a value of a plug-in as bounded text, whatever its class does."""
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
    """Run a plug-in's code; return (its result, what it changed in the process).

    Parameters
    ----------
    seconds : how long it may take; None for as long as it likes.
    check : called every 50 ms meanwhile; if it raises, the call is abandoned and the
        exception passes through.
    passes : exceptions of the plug-in that pass through unchanged.

    Raises
    ------
    PluginError
        If it raises anything else, or takes too long.
    """
    _divert_prints()
    call: _Call[_T] = _Call()
    thread = threading.Thread(
        target=_run_call, args=(work, call), name="plug-in", daemon=True
    )
    before = _State.now()
    thread.start()
    try:
        is_done = _wait(call.done, seconds, check)
    except BaseException:
        _abandon(thread)
        raise
    if not is_done:
        _abandon(thread)
        raise PluginError(f"it took longer than {seconds:g} seconds")
    changes = before.restore()
    error = call.error
    if error is None:
        return call.result[0], changes
    if isinstance(error, passes):
        raise error
    raise PluginError(one_line(error)) from error


def _run_call(work: Callable[[], _T], call: _Call[_T]) -> None:
    _THREADS.add(threading.get_ident())
    try:
        call.result.append(work())
    except BaseException as error:  # noqa: BLE001 - border to plug-ins
        call.error = error
    finally:
        _THREADS.discard(threading.get_ident())
        call.done.set()


class _Stdout:
    """Writes to stdout, and for the threads of plug-ins to stderr.

    Swapping ``sys.stdout`` while a plug-in runs would affect all other threads.
    """

    routes_plugins = True

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
"""Threads on which plug-ins run."""


def _divert_prints() -> None:
    # Checked at each call: others may have replaced or wrapped stdout since.
    if not getattr(sys.stdout, "routes_plugins", False):
        sys.stdout = cast("TextIO", _Stdout(sys.stdout))


def _wait(
    done: threading.Event, seconds: float | None, check: Callable[[], None]
) -> bool:
    """Wait for a call; False where it did not return in time."""
    left = float("inf") if seconds is None else seconds
    while left > 0:
        if done.wait(min(_POLL_SECONDS, left)):
            return True
        left -= _POLL_SECONDS
        check()
    return done.is_set()


def _abandon(thread: threading.Thread) -> None:
    """Ask a thread to stop: a loop in Python does, a long call into C does not."""
    if thread.ident is None or not thread.is_alive():
        return
    _raise_in(thread.ident, _StopPluginError)
    thread.join(_END_SECONDS)
    if thread.is_alive():
        _raise_in(thread.ident, None)
    _clear_request()


def _raise_in(ident: int, error: type[BaseException] | None) -> None:
    """Have `error` raised in a thread at its next step; None takes that back."""
    import ctypes  # not imported for those who have no plug-in

    exception = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), exception)


def _clear_request() -> None:
    """Clear the interpreter's flag that an asynchronous exception is pending.

    Only a thread that receives such an exception clears it, and the one that was asked
    may have ended before. While the flag is set, every thread checks it at each call,
    and a traced thread checks for ever (CPython 3.11).
    """
    try:
        _raise_in(threading.get_ident(), _StopPluginError)
        while True:
            pass
    except _StopPluginError:
        return


@dataclass(frozen=True, slots=True)
class _State:
    """The state of the process that a plug-in could change."""

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

    def restore(self) -> tuple[str, ...]:
        """Undo what can be undone; return what was changed, as texts."""
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
            yield "it changed sys.path"
        left = [t for t in now.threads - self.threads if t.name != "plug-in"]
        if any(t.is_alive() and not t.name.startswith("ggscope") for t in left):
            yield "it left threads running"


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return os.sep


ENTRY_POINTS = "ggscope.readers"
"""Group under which installed packages name their reader classes."""
_OLD_MODULES = {
    "claims": "trace",
    "lanes": "trace",
    "strings": "tables",
    "time": "units",
}
"""Modules merged into others: plug-ins may import the old names."""
PATH_VARIABLE = "GGSCOPE_PLUGIN_PATH"
SAFE_VARIABLE = "GGSCOPE_SAFE_MODE"
_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")
_MEMBERS = ("info", "sniff", "read")


@dataclass(slots=True)
class Loaded:
    """A plug-in's reader, or why it was not loaded.

    Attributes
    ----------
    reader : None where it could not be loaded.
    path : file or entry point that it comes from.
    error : "" where all is well; set later too, when sniffing fails. A plug-in with
        an error is switched off.
    changes : what it changed for the whole program, as texts.
    is_loading : it is still being loaded.
    """

    reader: Reader | None
    path: str
    error: str = ""
    changes: tuple[str, ...] = ()
    is_loading: bool = False

    @property
    def info(self) -> ReaderInfo | None:
        """The reader's facts, where there is one."""
        return None if self.reader is None else self.reader.info

    def switch_off(self, error: str) -> None:
        """Do not ask it again; `error` says why."""
        self.error = error
        logger.warning("reader of %s is switched off: %s", self.path, error)

    def asked(self, ask: Callable[[], _T]) -> _T:
        """Return what it answers within the time limit. Raises PluginError."""
        result, changes = run(ask, seconds=limit_seconds())
        self.note_changes(changes)
        return result

    def note_changes(self, changes: Iterable[str]) -> None:
        """Remember what it changed for the whole program."""
        self.changes = tuple(dict.fromkeys((*self.changes, *changes)))


_Loaded: TypeAlias = list[Reader | str]
"""Readers of a file or package, and what is wrong with classes that are none."""
_Load: TypeAlias = Callable[[], _Loaded]


def user_folder() -> Path:
    """Return the folder whose ``*.py`` files are loaded as readers."""
    import platformdirs  # not imported where nobody asks for plug-ins

    return Path(platformdirs.user_data_dir("ggscope", appauthor=False)) / "readers"


def folders() -> tuple[Path, ...]:
    """Return the folders searched: those of ``GGSCOPE_PLUGIN_PATH``, then the user's.

    The variable holds folders separated as in ``PATH``.
    """
    named = os.environ.get(PATH_VARIABLE, "").split(os.pathsep)
    return (*(Path(name) for name in named if name), user_folder())


def is_safe_mode() -> bool:
    """Return whether ``GGSCOPE_SAFE_MODE`` keeps plug-ins from being loaded."""
    return os.environ.get(SAFE_VARIABLE, "") not in ("", "0")


def load_all(taken: Mapping[str, str], waits: bool = True) -> tuple[Loaded, ...]:
    """Return every plug-in, loaded or failed; they are loaded once and cached.

    They are loaded anew when the folders or safe mode change, or after `reload`.

    Parameters
    ----------
    taken : ids in use, and the readers that use them.
    waits : whether to wait for those that are still being loaded, each of which may
        take `limit_seconds`; else they have no reader and no error.
    """
    key = () if is_safe_mode() else folders()
    with _LOCK:
        loading = _LOADINGS.get(key)
        if loading is None:
            loading = _LOADINGS[key] = _Loading(taken, key)
    if waits:
        loading.wait()
    return loading.readers


def reload() -> None:
    """Forget what is loaded, so that changed plug-ins are read again."""
    with _LOCK:
        _LOADINGS.clear()


class _Loading:
    """Loads plug-ins on a thread.

    Attributes
    ----------
    readers : what there is by now.
    """

    def __init__(self, taken: Mapping[str, str], searched: tuple[Path, ...]) -> None:
        self._taken = dict(taken)
        waiting = list(_plugins_in(searched)) if searched else []
        self.readers = tuple(item for item, _ in waiting)
        self._is_done = threading.Event()
        if not waiting:
            self._is_done.set()
            return
        threading.Thread(
            target=self._load, args=(waiting,), name="ggscope-plug-ins", daemon=True
        ).start()

    def wait(self) -> None:
        """Return when every plug-in is there or switched off."""
        self._is_done.wait()

    def _load(self, waiting: list[tuple[Loaded, _Load]]) -> None:
        try:
            for old, new in _OLD_MODULES.items():
                home = importlib.import_module(f"ggscope.model.{new}")
                sys.modules.setdefault(f"ggscope.model.{old}", home)
            for k, (item, load) in enumerate(waiting):
                made = tuple(map(self._checked, _loaded(item, load)))
                n_known = len(self.readers) - (len(waiting) - k)
                # One assignment: others read it at any moment.
                self.readers = (
                    *self.readers[:n_known],
                    *made,
                    *self.readers[n_known + 1 :],
                )
        finally:
            self._is_done.set()

    def _checked(self, item: Loaded) -> Loaded:
        """Return a reader, switched off where it failed or its id is not free."""
        if item.reader is not None:
            name = item.reader.info.id
            if name in self._taken:
                owner = self._taken[name]
                item.reader, item.error = (
                    None,
                    f"the id {name!r} is already used by {owner}",
                )
            self._taken.setdefault(name, item.path)
        if item.error:
            item.switch_off(item.error)
        return item


_LOADINGS: dict[tuple[Path, ...], _Loading] = {}
_LOCK = threading.Lock()


def _plugins_in(searched: tuple[Path, ...]) -> Iterator[tuple[Loaded, _Load]]:
    """Yield what there is to load, and the function that loads it."""
    if any(map(_may_offer, sys.path)):
        import importlib.metadata

        for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
            item = Loaded(None, f"{point.name} = {point.value}", is_loading=True)
            yield item, functools.partial(_from_entry_point, point.value)
    for folder in searched:
        try:
            files = sorted(folder.glob("*.py"))
        except OSError as error:
            item = Loaded(None, str(folder), is_loading=True)
            yield item, functools.partial(_only, one_line(error))
            continue
        for file in files:
            if not file.name.startswith("_"):
                item = Loaded(None, str(file), is_loading=True)
                yield item, functools.partial(_from_file, file)


def _may_offer(place: str) -> bool:
    """Return whether a package in an entry of `sys.path` may offer readers.

    Importing importlib.metadata takes 30 ms, longer than to read a small file, and most
    people have no plug-in; looking for one takes one.
    """
    try:
        names = os.listdir(place or ".")
    except NotADirectoryError:
        return True
    except OSError:
        return False
    group = f"[{ENTRY_POINTS}]".encode()
    for name in names:
        if name.endswith((".dist-info", ".egg-info", "EGG-INFO")):
            with contextlib.suppress(OSError):
                if group in Path(place, name, "entry_points.txt").read_bytes():
                    return True
    return False


def _loaded(item: Loaded, load: _Load) -> Iterator[Loaded]:
    """Load a file or entry point; yield an item for each reader in it."""
    try:
        readers, changes = run(load, seconds=limit_seconds())
    except PluginError as error:
        yield Loaded(None, item.path, str(error))
        return
    for reader in readers:
        if isinstance(reader, str):
            yield Loaded(None, item.path, reader, changes)
        else:
            yield Loaded(reader, item.path, "", changes)


def _only(error: str) -> _Loaded:
    return [error]


def _from_entry_point(target: str) -> _Loaded:
    """Load the class that "module:Class" names."""
    module, _, name = target.partition(":")
    value: object = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    if not isinstance(value, type):
        raise TypeError(f"{target} is not a class")
    return [made(value)]


def _from_file(file: Path) -> _Loaded:
    """Load one file under a private module name; return each reader class in it."""
    module = _import_file(file)
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and any(member in vars(value) for member in _MEMBERS[1:])
    ]
    if not classes:
        return ["no class with info, sniff and read"]
    loaded: _Loaded = []
    for cls in classes:
        try:
            loaded.append(made(cls))
        except Exception as error:  # noqa: BLE001 - the other classes still work
            loaded.append(one_line(error))
    return loaded


def _import_file(file: Path) -> ModuleType:
    import hashlib
    import importlib.util

    digest = hashlib.sha256(str(file).encode("utf-8", "surrogateescape")).hexdigest()
    name = f"_ggscope_reader_{digest[:12]}"
    # Compiled here rather than imported, so that no cache is written to the folder.
    code = compile(importlib.util.decode_source(file.read_bytes()), file, "exec")
    module = ModuleType(name)
    module.__file__ = str(file)
    # Dataclasses look their module up while they are made.
    sys.modules[name] = module
    try:
        exec(code, vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def made(cls: type) -> Reader:
    """Return an instance that obeys the protocol as far as can be seen."""
    missing = [member for member in _MEMBERS if not hasattr(cls, member)]
    if missing:
        raise TypeError(f"class {cls.__name__} lacks {', '.join(missing)}")
    reader: Reader = cls()
    info = reader.info
    if not isinstance(info, ReaderInfo):
        raise TypeError(f"{cls.__name__}.info is not a ReaderInfo")
    if not isinstance(info.id, str) or not _ID.fullmatch(info.id):
        raise ValueError(f"invalid reader id {info.id!r} (example: my-format)")
    _check_info(info, cls.__name__)
    sniff = reader.sniff(Head("probe", 0, b""))
    if not isinstance(sniff, Sniff):
        raise TypeError(f"{cls.__name__}.sniff returned {type(sniff).__name__}")
    return reader


def _check_info(info: ReaderInfo, name: str) -> None:
    """Refuse facts that cannot be shown, or by which no file can be recognised."""
    for fact in ("title", "doc", "line"):
        if not isinstance(getattr(info, fact), str):
            raise TypeError(f"{name}.info.{fact} is not a string")
    # A single string would be taken character by character.
    for fact, kind, what in (
        ("suffixes", str, "texts"),
        ("keys", str, "texts"),
        ("magic", bytes, "bytes"),
    ):
        values = getattr(info, fact)
        if not isinstance(values, tuple | list) or not _are(kind, values):
            raise TypeError(f"{name}.info.{fact} is not a tuple of {what}")
    options: object = info.options
    if isinstance(options, Mapping):
        if not _are(str, (*options.keys(), *options.values())):
            raise TypeError(f"{name}.info.options does not map strings to strings")
    elif not isinstance(options, tuple | list) or not _are(Option, options):
        raise TypeError(f"{name}.info.options is not a tuple of Option")
    if info.role not in ROLES:
        known = ", ".join(ROLES)
        raise ValueError(f"{name}.info.role is {shown(info.role)}, not one of {known}")
    try:
        re.compile(info.line)
    except re.error as error:
        raise ValueError(
            f"{name}.info.line is not a regular expression: {error}"
        ) from None


def _are(kind: type, values: Iterable[object]) -> bool:
    return all(isinstance(value, kind) for value in values)
