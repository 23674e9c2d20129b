"""Load readers: the built-in ones, installed packages and the user's folder.

Whatever a plug-in does wrong becomes a line in the list of readers, and it is not
asked again until the program ends. It can never stop the program, and nobody who has
not asked for it waits for it: plug-ins are loaded on a thread of their own.

Run code of plug-ins: watched, off stdout, and with nothing that can escape.

A guest runs on a daemon thread. Whatever it raises, `SystemExit` and its kind too,
becomes a `GuestError`; one that is not back in time is left behind and told to stop.
What it prints goes to stderr. What it changes for the whole process is noticed, and
put back where that can be done.

Threads share an interpreter: code in C that never gives it back, a crash and
``os._exit`` cannot be held off here; see the decision record "plug-ins are guests".
"""

import contextlib
import ctypes
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
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

import platformdirs

from ggscope.readers.api import Head, Reader, ReaderInfo, Sniff

logger = logging.getLogger(__name__)


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


ENTRY_POINTS = "ggscope.readers"
"""Group under which installed packages name their reader classes."""
BUILT_IN = "built-in"
PLUG_IN = "plug-in"
PATH_VARIABLE = "GGSCOPE_PLUGIN_PATH"
SAFE_VARIABLE = "GGSCOPE_SAFE_MODE"
_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")
_MEMBERS = ("info", "sniff", "read")


@dataclass(slots=True)
class Loaded:
    """A reader, or what kept it from loading.

    Attributes
    ----------
    reader : None where it could not be loaded.
    origin : `BUILT_IN` or `PLUG_IN`.
    path : file, entry point or module that it comes from.
    error : "" where all is well; set later too, when sniffing fails. A plug-in with
        an error is switched off.
    changes : what it changed for the whole program, in words.
    is_awaited : it is still being loaded.
    """

    reader: Reader | None
    origin: str
    path: str
    error: str = ""
    changes: tuple[str, ...] = ()
    is_awaited: bool = False

    @property
    def is_off(self) -> bool:
        """Whether it is a plug-in that must not be asked any more."""
        return self.origin == PLUG_IN and bool(self.error)

    def switch_off(self, error: str) -> None:
        """Do not ask it again; `error` says why."""
        self.error = error
        logger.warning("reader of %s is switched off: %s", self.path, error)

    def note_changes(self, changes: Iterable[str]) -> None:
        """Remember what it changed for the whole program."""
        self.changes = tuple(dict.fromkeys((*self.changes, *changes)))


_Found: TypeAlias = list[Reader | str]
"""Readers of a file or package, and what is wrong with classes that are none."""
_Load: TypeAlias = Callable[[], _Found]


def user_folder() -> Path:
    """Return the folder whose ``*.py`` files are loaded as readers."""
    return Path(platformdirs.user_data_dir("ggscope", appauthor=False)) / "readers"


def folders() -> tuple[Path, ...]:
    """Return the folders searched: those of ``GGSCOPE_PLUGIN_PATH``, then the user's.

    The variable holds folders separated as in ``PATH``.
    """
    named = os.environ.get(PATH_VARIABLE, "").split(os.pathsep)
    return (*(Path(name) for name in named if name), user_folder())


def is_safe_mode() -> bool:
    """Tell whether ``GGSCOPE_SAFE_MODE`` keeps plug-ins from being loaded."""
    return os.environ.get(SAFE_VARIABLE, "") not in ("", "0")


def load_all(builtin: Iterable[str], waits: bool = True) -> tuple[Loaded, ...]:
    """Return the readers named by `builtin` ("module:Class"), then the plug-ins.

    They are loaded once and kept until the folders or safe mode change; see
    `reload`.

    Parameters
    ----------
    waits : for the plug-ins, each of which may take `limit_seconds`; else
        those that are not there yet have no reader and no error.
    """
    key = tuple(builtin), () if is_safe_mode() else folders()
    with _LOCK:
        loading = _LOADINGS.get(key)
        if loading is None:
            loading = _LOADINGS[key] = _Loading(*key)
    if waits:
        loading.wait()
    return loading.found()


def reload() -> None:
    """Forget what is loaded, so that changed plug-ins are read again."""
    with _LOCK:
        _LOADINGS.clear()


class _Loading:
    """Loads built-in readers at once, and the plug-ins on a thread."""

    def __init__(self, builtin: tuple[str, ...], searched: tuple[Path, ...]) -> None:
        self._own = tuple(_load_own(target) for target in builtin)
        _drop_repeated_ids(self._own)
        for item in self._own:
            if item.error:
                logger.warning("reader of %s: %s", item.path, item.error)
        waiting = list(_guests_in(searched)) if searched else []
        self._guests = tuple(item for item, _ in waiting)
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

    def found(self) -> tuple[Loaded, ...]:
        """Return what there is by now."""
        return (*self._own, *self._guests)

    def _load(self, waiting: list[tuple[Loaded, _Load]]) -> None:
        try:
            for k, (item, load) in enumerate(waiting):
                made = tuple(_visited(item, load))
                n_left = len(waiting) - k
                known = self._guests[: len(self._guests) - n_left]
                _drop_repeated_ids((*self._own, *known, *made))
                for other in made:
                    if other.error:
                        other.switch_off(other.error)
                # One assignment: others read it at any moment.
                self._guests = (*known, *made, *self._guests[len(known) + 1 :])
        finally:
            self._is_done.set()


_LOADINGS: dict[tuple[tuple[str, ...], tuple[Path, ...]], _Loading] = {}
_LOCK = threading.Lock()


def _guests_in(searched: tuple[Path, ...]) -> Iterator[tuple[Loaded, _Load]]:
    """Yield what there is to load, and how; nothing of it runs yet."""
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        item = Loaded(None, PLUG_IN, f"{point.name} = {point.value}", is_awaited=True)
        yield item, functools.partial(_from_entry_point, point.value)
    for folder in searched:
        try:
            files = sorted(folder.glob("*.py"))
        except OSError as error:
            item = Loaded(None, PLUG_IN, str(folder), is_awaited=True)
            yield item, functools.partial(_only, one_line(error))
            continue
        for file in files:
            if not file.name.startswith("_"):
                item = Loaded(None, PLUG_IN, str(file), is_awaited=True)
                yield item, functools.partial(_from_file, file)


def _visited(item: Loaded, load: _Load) -> Iterator[Loaded]:
    """Load what stands behind an item; yield an item for each reader in it."""
    try:
        found, changes = run(load, seconds=limit_seconds())
    except GuestError as error:
        yield Loaded(None, item.origin, item.path, str(error))
        return
    for reader in found:
        if isinstance(reader, str):
            yield Loaded(None, item.origin, item.path, reader, changes)
        else:
            yield Loaded(reader, item.origin, item.path, "", changes)


def _only(error: str) -> _Found:
    return [error]


def _from_entry_point(target: str) -> _Found:
    return [_made(_class_of(target))]


def _from_file(file: Path) -> _Found:
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
        return ["it defines no class with info, sniff and read"]
    found: _Found = []
    for cls in classes:
        try:
            found.append(_made(cls))
        except Exception as error:  # noqa: BLE001 - the other classes still work
            found.append(one_line(error))
    return found


def _import_file(file: Path) -> ModuleType:
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


def _class_of(target: str) -> type:
    """Return the class that "module:Class" names."""
    module, _, name = target.partition(":")
    value: object = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    if not isinstance(value, type):
        raise TypeError(f"{target} is no class")
    return value


def _load_own(target: str) -> Loaded:
    try:
        return Loaded(_made(_class_of(target)), BUILT_IN, target)
    except Exception as error:  # noqa: BLE001 - the others still work
        return Loaded(None, BUILT_IN, target, one_line(error))


def _made(cls: type) -> Reader:
    """Return an instance that obeys the protocol as far as can be seen."""
    missing = [member for member in _MEMBERS if not hasattr(cls, member)]
    if missing:
        raise TypeError(f"class {cls.__name__} lacks {', '.join(missing)}")
    reader: Reader = cls()
    info = reader.info
    if not isinstance(info, ReaderInfo):
        raise TypeError(f"{cls.__name__}.info is no ReaderInfo")
    if not isinstance(info.id, str) or not _ID.fullmatch(info.id):
        raise ValueError(f"reader id {info.id!r} is not like my-format")
    _check_info(info, cls.__name__)
    sniff = reader.sniff(Head("probe", 0, b""))
    if not isinstance(sniff, Sniff):
        raise TypeError(f"{cls.__name__}.sniff returned {type(sniff).__name__}")
    return reader


def _check_info(info: ReaderInfo, name: str) -> None:
    """Refuse facts that a list of readers or the open dialog cannot show."""
    texts = {"title": info.title, "doc": info.doc}
    for fact, value in texts.items():
        if not isinstance(value, str):
            raise TypeError(f"{name}.info.{fact} is no text")
    # A single text would be taken letter by letter.
    suffixes: object = info.suffixes
    if not isinstance(suffixes, (tuple, list)) or not _are_texts(suffixes):
        raise TypeError(f"{name}.info.suffixes is no tuple of texts")
    if not isinstance(info.options, Mapping) or not _are_texts(
        (*info.options.keys(), *info.options.values())
    ):
        raise TypeError(f"{name}.info.options does not map texts to texts")


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _drop_repeated_ids(found: Iterable[Loaded]) -> None:
    taken: dict[str, Loaded] = {}
    for item in found:
        if item.reader is None:
            continue
        first = taken.setdefault(item.reader.info.id, item)
        if first is not item:
            text = f"the id {item.reader.info.id!r} is taken by {first.path}"
            item.reader, item.error = None, text
