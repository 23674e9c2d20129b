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
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TextIO, TypeAlias, TypeVar, cast

import msgspec

from ggscope.errors import Cancelled, ReadError
from ggscope.model.trace import Trace
from ggscope.readers.api import (
    NOT_MINE,
    ROLES,
    Estimate,
    EstimatingReader,
    Head,
    Option,
    ReadContext,
    Reader,
    ReaderInfo,
    Sniff,
)
from ggscope.readers.source import Source

logger = logging.getLogger(__name__)

ENTRY_POINTS = "ggscope.readers"
"""Group under which installed packages name their reader classes."""
PATH_VARIABLE = "GGSCOPE_PLUGIN_PATH"
SAFE_VARIABLE = "GGSCOPE_SAFE_MODE"
SECONDS_VARIABLE = "GGSCOPE_PLUGIN_SECONDS"
"""Seconds that a plug-in may take to be imported, or to judge a file."""
USUAL_SECONDS = 2.0
_POLL_SECONDS = 0.05
_END_SECONDS = 0.25
"""How long a thread that is asked to stop may take for it."""
_OLD_MODULES = {
    "claims": "trace",
    "lanes": "trace",
    "strings": "tables",
    "time": "units",
}
"""Modules merged into others: plug-ins may import the old names."""
_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")
_MEMBERS = ("info", "sniff", "read")
_T = TypeVar("_T")


class PluginError(Exception):
    """A plug-in failed; the message says how, on one line."""


class _StopPluginError(BaseException):
    """Raised in a plug-in's thread to stop it. No ``except Exception`` catches it."""


def limit_seconds() -> float:
    """Return how long a plug-in may take; see `SECONDS_VARIABLE`."""
    try:
        seconds = float(os.environ.get(SECONDS_VARIABLE, ""))
    except ValueError:
        return USUAL_SECONDS
    return seconds if seconds > 0 else USUAL_SECONDS


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


# -- running the code of a plug-in -------------------------------------------


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
    future: Future[_T] = Future()
    thread = threading.Thread(
        target=_run_into, args=(work, future), name="plug-in", daemon=True
    )
    before, threads = _process_state(), set(threading.enumerate())
    thread.start()
    left = float("inf") if seconds is None else seconds
    try:
        while left > 0 and not future.done():
            wait([future], min(_POLL_SECONDS, left))
            left -= _POLL_SECONDS
            check()
    except BaseException:
        _abandon(thread)
        raise
    if not future.done():
        _abandon(thread)
        raise PluginError(f"it took longer than {seconds:g} seconds")
    changes = _restored(before, threads)
    error = future.exception()
    if error is None:
        return future.result(), changes
    if isinstance(error, passes):
        raise error
    raise PluginError(one_line(error)) from error


def _run_into(work: Callable[[], _T], future: "Future[_T]") -> None:
    _THREADS.add(threading.get_ident())
    error: BaseException | None = None
    try:
        result = work()
    except BaseException as raised:  # noqa: BLE001 - border to plug-ins
        error = raised
    _THREADS.discard(threading.get_ident())
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


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


def _process_state() -> dict[str, object]:
    """Return what a plug-in could change for the whole process."""
    try:
        folder = os.getcwd()
    except OSError:
        folder = os.sep
    return {
        "the working folder": folder,
        "the recursion limit": sys.getrecursionlimit(),
        "the locale": locale.setlocale(locale.LC_ALL),
        "sys.path": tuple(sys.path),
    }


_RESTORES: Mapping[str, Callable[..., object]] = {
    "the working folder": os.chdir,
    "the recursion limit": sys.setrecursionlimit,
    "the locale": functools.partial(locale.setlocale, locale.LC_ALL),
}


def _restored(
    before: Mapping[str, object], threads: set[threading.Thread]
) -> tuple[str, ...]:
    """Undo what can be undone; return what was changed, as texts."""
    changes = []
    for what, now in _process_state().items():
        if now != before[what]:
            restore = _RESTORES.get(what)
            changes.append(f"it changed {what}{' (put back)' if restore else ''}")
            if restore is not None:
                with contextlib.suppress(OSError, locale.Error):
                    restore(before[what])
    new = (t for t in set(threading.enumerate()) - threads if t.name != "plug-in")
    if any(t.is_alive() and not t.name.startswith("ggscope") for t in new):
        changes.append("it left threads running")
    return tuple(changes)


# -- what is loaded ----------------------------------------------------------


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

    def sniff(self, head: Head) -> Sniff:
        """Return its judgement within the time limit. Raises PluginError."""
        return self._run(
            lambda reader: reader.sniff(head) if reader.info.allows(head) else NOT_MINE,
            seconds=limit_seconds(),
        )

    def estimate(self, head: Head) -> Estimate | None:
        """Return the cost of a file within the time limit. Raises PluginError."""
        if not isinstance(self.reader, EstimatingReader):
            return None
        estimate = self.reader.estimate
        return self._run(lambda _: estimate(head), seconds=limit_seconds())

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the checked trace that it makes; only `context` can end it.

        Raises
        ------
        ReadError, Cancelled, MemoryError
            As it raises them.
        PluginError
            If it raises anything else, or returns something else than a sound trace.
        """
        return self._run(
            lambda reader: _checked_trace(reader.read(source, context)),
            check=context.check_cancelled,
            passes=(ReadError, Cancelled, MemoryError),
        )

    def _run(
        self,
        work: Callable[[Reader], _T],
        *,
        seconds: float | None = None,
        check: Callable[[], None] = lambda: None,
        passes: tuple[type[BaseException], ...] = (),
    ) -> _T:
        assert self.reader is not None
        run_reader = functools.partial(work, self.reader)
        result, changes = run(run_reader, seconds=seconds, check=check, passes=passes)
        self.changes = tuple(dict.fromkeys((*self.changes, *changes)))
        return result


def _checked_trace(trace: object) -> Trace:
    if not isinstance(trace, Trace):
        raise TypeError(f"it returned {type(trace).__name__}, not a Trace")
    problems = trace.check()
    if problems:
        raise ValueError(f"inconsistent trace: {problems[0]}")
    return trace


_Readers: TypeAlias = list[Reader | str]
"""Readers of a file or package, and what is wrong with classes that are none."""
_Load: TypeAlias = Callable[[], _Readers]


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
        to_load = list(_plugins_in(searched)) if searched else []
        self.readers = tuple(Loaded(None, path, is_loading=True) for path, _ in to_load)
        self._thread = threading.Thread(
            target=self._load, args=(to_load,), name="ggscope-plug-ins", daemon=True
        )
        if to_load:
            self._thread.start()

    def wait(self) -> None:
        """Return when every plug-in is there or switched off."""
        if self._thread.ident is not None:
            self._thread.join()

    def _load(self, to_load: list[tuple[str, _Load]]) -> None:
        for old, new in _OLD_MODULES.items():
            home = importlib.import_module(f"ggscope.model.{new}")
            sys.modules.setdefault(f"ggscope.model.{old}", home)
        waiting, done = self.readers, []
        for number, (path, load) in enumerate(to_load, 1):
            done += [self._admitted(item) for item in _loaded(path, load)]
            # One assignment: others read it at any moment.
            self.readers = (*done, *waiting[number:])

    def _admitted(self, item: Loaded) -> Loaded:
        """Return a reader, switched off where it failed or its id is not free."""
        if item.reader is not None:
            name = item.reader.info.id
            owner = self._taken.setdefault(name, item.path)
            if owner is not item.path:
                item.reader = None
                item.error = f"the id {name!r} is already used by {owner}"
        if item.error:
            item.switch_off(item.error)
        return item


_LOADINGS: dict[tuple[Path, ...], _Loading] = {}
_LOCK = threading.Lock()


def _plugins_in(searched: tuple[Path, ...]) -> Iterator[tuple[str, _Load]]:
    """Yield where each plug-in comes from, and the function that loads it."""
    if any(map(_may_offer, sys.path)):
        import importlib.metadata

        for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
            load = functools.partial(_from_entry_point, point.value)
            yield f"{point.name} = {point.value}", load
    for folder in searched:
        try:
            files = sorted(folder.glob("[!_]*.py"))
        except OSError as error:
            yield str(folder), functools.partial(list, [one_line(error)])
            continue
        for file in files:
            yield str(file), functools.partial(_from_file, file)


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


def _loaded(path: str, load: _Load) -> Iterator[Loaded]:
    """Load a file or entry point; yield an item for each reader in it."""
    try:
        readers, changes = run(load, seconds=limit_seconds())
    except PluginError as error:
        yield Loaded(None, path, str(error))
        return
    for reader in readers:
        if isinstance(reader, str):
            yield Loaded(None, path, reader, changes)
        else:
            yield Loaded(reader, path, "", changes)


def _from_entry_point(target: str) -> _Readers:
    """Load the class that "module:Class" names."""
    module, _, name = target.partition(":")
    value: object = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    if not isinstance(value, type):
        raise TypeError(f"{target} is not a class")
    return [made(value)]


def _from_file(file: Path) -> _Readers:
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
    loaded: _Readers = []
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


class _Facts(msgspec.Struct):
    """What the facts of a `ReaderInfo` have to be, to be shown and to select files."""

    title: str
    doc: str
    line: str
    suffixes: tuple[str, ...]
    keys: tuple[str, ...]
    names: tuple[str, ...]
    magic: tuple[bytes, ...]
    is_binary: bool
    options: dict[str, str] | tuple[object, ...]


def _check_info(info: ReaderInfo, name: str) -> None:
    """Refuse facts that cannot be shown, or by which no file can be recognised."""
    try:
        msgspec.convert(info, _Facts, from_attributes=True, builtin_types=(bytes,))
        re.compile(info.line)
    except msgspec.ValidationError as error:
        raise TypeError(f"invalid {name}.info: {error}") from None
    except re.error as error:
        raise ValueError(f"invalid {name}.info.line: {error}") from None
    options = () if isinstance(info.options, Mapping) else info.options
    if not all(isinstance(option, Option) for option in options):
        raise TypeError(f"{name}.info.options is not a tuple of Option")
    if info.role not in ROLES:
        known = ", ".join(ROLES)
        raise ValueError(f"{name}.info.role is {shown(info.role)}, not one of {known}")
