"""Load readers: the built-in ones, installed packages and the user's folder.

Whatever a plug-in does wrong becomes a line in the list of readers. It can never
stop the program.
"""

import contextlib
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import platformdirs

from ggscope.readers.api import Head, Reader, ReaderInfo, Sniff

ENTRY_POINTS = "ggscope.readers"
"""Group under which installed packages name their reader classes."""
BUILT_IN = "built-in"
PLUG_IN = "plug-in"
PATH_VARIABLE = "GGSCOPE_PLUGIN_PATH"
SAFE_VARIABLE = "GGSCOPE_SAFE_MODE"
_T = TypeVar("_T")
_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")
_MEMBERS = ("info", "sniff", "read")

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Loaded:
    """A reader, or what kept it from loading.

    Attributes
    ----------
    reader : None where it could not be loaded.
    origin : `BUILT_IN` or `PLUG_IN`.
    path : file, entry point or module that it comes from.
    error : "" where all is well; set later too, when sniffing fails.
    """

    reader: Reader | None
    origin: str
    path: str
    error: str = ""


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


def load_all(builtin: Iterable[str]) -> tuple[Loaded, ...]:
    """Return the readers named by `builtin` ("module:Class"), then the plug-ins.

    They are loaded once and kept until the folders or safe mode change; see
    `reload`.
    """
    return _load_all(tuple(builtin), () if is_safe_mode() else folders())


def reload() -> None:
    """Forget what is loaded, so that changed plug-ins are read again."""
    _load_all.cache_clear()


def one_line(error: BaseException) -> str:
    """Return ``ValueError: what`` on one line of bounded length."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300].rstrip(": ")


@functools.lru_cache(maxsize=8)
def _load_all(
    builtin: tuple[str, ...], searched: tuple[Path, ...]
) -> tuple[Loaded, ...]:
    found = [_load_class(target, BUILT_IN, target) for target in builtin]
    if searched:
        found += _from_packages()
        for folder in searched:
            found += _from_folder(folder)
    _drop_repeated_ids(found)
    for item in found:
        if item.error:
            logger.warning("reader of %s: %s", item.path, item.error)
    return tuple(found)


def _from_packages() -> Iterator[Loaded]:
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        yield _load_class(point.value, PLUG_IN, f"{point.name} = {point.value}")


def _from_folder(folder: Path) -> Iterator[Loaded]:
    try:
        files = sorted(folder.glob("*.py"))
    except OSError as error:
        yield Loaded(None, PLUG_IN, str(folder), one_line(error))
        return
    for file in files:
        if not file.name.startswith("_"):
            yield from _from_file(file)


def _from_file(file: Path) -> Iterator[Loaded]:
    """Load one file under a private module name; yield each reader class in it."""
    module, error = _guarded(lambda: _import_file(file))
    if module is None:
        yield Loaded(None, PLUG_IN, str(file), error)
        return
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and any(member in vars(value) for member in _MEMBERS[1:])
    ]
    if not classes:
        text = "it defines no class with info, sniff and read"
        yield Loaded(None, PLUG_IN, str(file), text)
    for cls in classes:
        reader, error = _guarded(functools.partial(_made, cls))
        yield Loaded(reader, PLUG_IN, str(file), error)


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


def _load_class(target: str, origin: str, path: str) -> Loaded:
    def load() -> Reader:
        module, _, name = target.partition(":")
        value: object = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
        if not isinstance(value, type):
            raise TypeError(f"{target} is no class")
        return _made(value)

    reader, error = _guarded(load)
    return Loaded(reader, origin, path, error)


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
    sniff = reader.sniff(Head("probe", 0, b""))
    if not isinstance(sniff, Sniff):
        raise TypeError(f"{cls.__name__}.sniff returned {type(sniff).__name__}")
    return reader


def _guarded(work: Callable[[], _T]) -> tuple[_T | None, str]:
    """Return (result, "") or (None, what went wrong)."""
    try:
        # What a plug-in prints must not end up in the JSON of the command line.
        with contextlib.redirect_stdout(sys.stderr):
            return work(), ""
    except (Exception, SystemExit) as error:  # noqa: BLE001 - border to plug-ins
        return None, one_line(error)


def _drop_repeated_ids(found: list[Loaded]) -> None:
    taken: dict[str, Loaded] = {}
    for item in found:
        if item.reader is None:
            continue
        first = taken.setdefault(item.reader.info.id, item)
        if first is not item:
            text = f"the id {item.reader.info.id!r} is taken by {first.path}"
            item.reader, item.error = None, text
