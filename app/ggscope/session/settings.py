"""Settings: frozen dataclasses with defaults in code over a key-value store.

Whatever the store holds, the program starts: unknown keys and ill-typed or
out-of-range values are ignored and reported, a broken file counts as empty.
"""

import json
import logging
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, get_args, get_origin, get_type_hints

from PySide6.QtCore import QObject, QSettings, QTimer, Signal

from ggscope.analysis.layout import LaneState

logger = logging.getLogger(__name__)

ThemeName = Literal["system", "dark", "light"]
Renderer = Literal["auto", "raster", "opengl"]
WheelMode = Literal["scroll", "zoom"]
LayoutName = Literal["dual", "grid", "single"]
FONT_SCALES = (75, 90, 100, 110, 125, 150, 175, 200)
MAX_RECENT = 12
MAX_PARTS = 64
"""Files of one session that the list of recent ones remembers."""
RECENT_SEPARATOR = "\n"
MAX_FILTERS = 60
MAX_LIMIT_MIB = 1 << 24
SYNC_MS = 1000
"""Changes are written after so long without another."""
_MAX_TEXT = 1 << 20
_OBJECT = re.compile(rb'[=,]\s*"?@(Variant|DateTime)\(')
"""A serialised Qt object at the beginning of a value."""


@dataclass(frozen=True, slots=True)
class Appearance:
    """How the program looks. `font_scale` is in per cent, 75 to 200."""

    theme: ThemeName = "system"
    font_scale: int = 100
    reduced_motion: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """How pictures are drawn and moved.

    `keys_by_place`: W, A, S and D are the keys that lie where an English keyboard
    has them, whatever is printed on them. `gpu_mib`: memory of the graphics card that
    spans may take.
    """

    renderer: Renderer = "auto"
    wheel: WheelMode = "scroll"
    shows_stalls: bool = True
    keys_by_place: bool = False
    gpu_mib: int = 1536


@dataclass(frozen=True, slots=True)
class Layout:
    """Which views are where.

    Attributes
    ----------
    cells : view id per cell: two of the dual layout, then four of the grid.
    splits : permille of the first part: dual; grid columns; grid rows.
    right_width, bottom_height : of the docks, device-independent pixels.
    bottom_tab : view id of the open tab of the drawer.
    floating : ids of views that are in windows of their own.
    float_places : where those windows are, ``id x y width height`` each.
    """

    name: LayoutName = "dual"
    cells: tuple[str, ...] = (
        "timeline",
        "table",
        "graph",
        "table",
        "heatmap",
        "timeline",
    )
    splits: tuple[int, ...] = (500, 500, 500)
    shows_details: bool = True
    shows_drawer: bool = True
    right_width: int = 320
    bottom_height: int = 168
    bottom_tab: str = "statistics"
    floating: tuple[str, ...] = ()
    float_places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """Where the main window was: Qt's own geometry, base64, "" = unknown."""

    geometry: str = ""


@dataclass(frozen=True, slots=True)
class Files:
    """Recent files, newest first, and where the open dialog starts.

    `trusted` are ids of readers whose files are no longer asked about.
    """

    recent: tuple[str, ...] = ()
    folder: str = ""
    trusted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters that the person named: name, tab, expression; in order of the names."""

    saved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """How much memory a file may take: `limit_mib`, 0 = what the system has."""

    limit_mib: int = 0

    @property
    def limit_bytes(self) -> int:
        """The same in bytes."""
        return self.limit_mib << 20


@dataclass(frozen=True, slots=True)
class Plugins:
    """Readers from a folder. Off unless the person turns it on."""

    is_enabled: bool = False
    folder: str = ""


_RANGES: Mapping[tuple[str, str], tuple[int, int]] = {
    ("appearance", "font_scale"): (75, 200),
    ("layout", "right_width"): (180, 4000),
    ("layout", "bottom_height"): (80, 4000),
    ("drawing", "gpu_mib"): (0, MAX_LIMIT_MIB),
    ("memory", "limit_mib"): (0, MAX_LIMIT_MIB),
}
_TOPICS: Mapping[str, type] = {
    "appearance": Appearance,
    "drawing": Drawing,
    "layout": Layout,
    "window": Window,
    "files": Files,
    "filters": Filters,
    "memory": Memory,
    "plugins": Plugins,
}
_LENGTHS: Mapping[tuple[str, str], int] = {
    ("layout", "cells"): 6,
    ("layout", "splits"): 3,
}

_T = TypeVar("_T")


class Store(Protocol):
    """Where texts are kept by key."""

    def keys(self) -> list[str]:
        """Return all keys."""
        ...

    def get(self, key: str) -> object:
        """Return what is stored under `key`, or None."""
        ...

    def put(self, key: str, text: str) -> None:
        """Store a text; failures are logged, never raised."""
        ...

    def clear(self) -> None:
        """Forget everything."""
        ...

    def sync(self) -> str:
        """Write what is still in memory; return why it could not be, "" = it was."""
        ...


class MemoryStore:
    """A store that lives as long as the object: tests and ``--safe-mode``."""

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        self._values: dict[str, object] = dict(values or {})

    def keys(self) -> list[str]:
        """Return all keys."""
        return list(self._values)

    def get(self, key: str) -> object:
        """Return what is stored under `key`, or None."""
        return self._values.get(key)

    def put(self, key: str, text: str) -> None:
        """Store a text."""
        self._values[key] = text

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()

    def sync(self) -> str:
        """Do nothing; nothing is written."""
        return ""


class IniStore:
    """A store over an ini file by QSettings.

    Parameters
    ----------
    path : the file; None = where the system keeps the program's settings. One
        that this program cannot have written is set aside as ``*.broken``.
    """

    def __init__(self, path: Path | None = None) -> None:
        ini = QSettings.Format.IniFormat
        if path is None:
            user = QSettings.Scope.UserScope
            path = Path(QSettings(ini, user, "ggscope", "ggscope").fileName())
        _set_aside_if_broken(path)
        self._settings = QSettings(str(path), ini)

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self._settings.fileName())

    def keys(self) -> list[str]:
        """Return all keys; none where the file cannot be read."""
        try:
            return [str(key) for key in self._settings.allKeys()]
        except Exception:
            logger.warning("settings cannot be listed", exc_info=True)
            return []

    def get(self, key: str) -> object:
        """Return what is stored under `key`, or None."""
        try:
            value: object = self._settings.value(key)
        except Exception:
            logger.warning("setting %s cannot be read", key, exc_info=True)
            return None
        # Qt splits an unquoted text with commas into a list.
        if isinstance(value, list):
            return ", ".join(map(str, value))
        return value

    def put(self, key: str, text: str) -> None:
        """Store a text."""
        self._settings.setValue(key, text)

    def clear(self) -> None:
        """Forget everything."""
        self._settings.clear()

    def sync(self) -> str:
        """Write what is still in memory; return why it could not be, "" = it was."""
        self._settings.sync()
        if self._settings.status() is QSettings.Status.NoError:
            return ""
        return (
            f"The settings cannot be written to {self.path}: the disk may be full, or "
            "the folder may not be written. What you change lasts until the program "
            "ends."
        )


class Settings(QObject):
    """The settings of the program.

    ``settings.appearance`` and so on are frozen values; ``settings.change(
    "appearance", theme="dark")`` replaces and stores one and emits `changed`.

    Attributes
    ----------
    problems : sentences about values that were ignored.
    is_safe : whether this is ``--safe-mode``: defaults, nothing is stored.
    """

    changed = Signal(object)  # name of the topic
    store_failed = Signal(str)  # why nothing is stored; told once

    def __init__(
        self,
        store: Store | None = None,
        *,
        is_safe: bool = False,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.is_safe = is_safe
        self._store: Store = MemoryStore() if is_safe or store is None else store
        self.problems: list[str] = []
        self._topics: dict[str, Any] = {
            name: self._load(name, kind) for name, kind in _TOPICS.items()
        }
        self._note_unknown()
        self._has_failed = False
        self._sync_later = QTimer(self)
        self._sync_later.setSingleShot(True)
        self._sync_later.setInterval(SYNC_MS)
        self._sync_later.timeout.connect(self.sync)

    def sync(self) -> None:
        """Write what has changed; tell once where that is not possible."""
        self._sync_later.stop()
        problem = self._store.sync()
        if problem and not self._has_failed:
            logger.warning("%s", problem)
            self._has_failed = True
            self.store_failed.emit(problem)
        elif not problem:
            self._has_failed = False

    @property
    def store(self) -> Store:
        """Where the values are kept."""
        return self._store

    @property
    def appearance(self) -> Appearance:
        """How the program looks."""
        return self._typed("appearance", Appearance)

    @property
    def drawing(self) -> Drawing:
        """How pictures are drawn and moved."""
        return self._typed("drawing", Drawing)

    @property
    def layout(self) -> Layout:
        """Which views are where."""
        return self._typed("layout", Layout)

    @property
    def window(self) -> Window:
        """Where the main window was."""
        return self._typed("window", Window)

    @property
    def files(self) -> Files:
        """Recent files and folder."""
        return self._typed("files", Files)

    @property
    def filters(self) -> Filters:
        """Saved filters."""
        return self._typed("filters", Filters)

    @property
    def memory(self) -> Memory:
        """How much memory files may take."""
        return self._typed("memory", Memory)

    @property
    def plugins(self) -> Plugins:
        """Readers from a folder."""
        return self._typed("plugins", Plugins)

    def change(self, topic: str, **values: object) -> None:
        """Replace fields of a topic, store them, and tell.

        Raises
        ------
        KeyError, TypeError
            If there is no such topic or field: a fault of the program.
        """
        old = self._topics[topic]
        new = replace(old, **values)
        if new == old:
            return
        self._topics[topic] = new
        for name, value in asdict(new).items():
            if value != getattr(old, name):
                self._store.put(f"{topic}/{name}", json.dumps(value))
        self._sync_later.start()
        self.changed.emit(topic)

    def add_recent(self, path: Path, *more: Path) -> None:
        """Put a file, or several that were opened as one, at the head of the list."""
        text = RECENT_SEPARATOR.join(map(str, (path, *more[:MAX_PARTS])))
        others = [p for p in self.files.recent if p != text]
        self.change(
            "files", recent=(text, *others)[:MAX_RECENT], folder=str(path.parent)
        )

    def forget_recent(self, path: str | None = None) -> None:
        """Take one file, or all, off the list of recent ones."""
        kept = () if path is None else tuple(p for p in self.files.recent if p != path)
        self.change("files", recent=kept)

    def saved_filters(self) -> tuple[tuple[str, str], ...]:
        """Return (name, expression) of the saved filters in order of the names."""
        parts = (text.partition("\t") for text in self.filters.saved)
        return tuple((name, rest) for name, tab, rest in parts if name and tab)

    def save_filter(self, name: str, expression: str) -> None:
        """Keep a filter under a name; one of the same name is replaced."""
        clean = " ".join(name.split())[:80]
        kept = {**dict(self.saved_filters()), clean: expression}
        self._store_filters(kept)

    def forget_filter(self, name: str) -> None:
        """Take a filter off the list."""
        kept = dict(self.saved_filters())
        kept.pop(name, None)
        self._store_filters(kept)

    def _store_filters(self, kept: Mapping[str, str]) -> None:
        names = sorted(kept, key=str.casefold)[:MAX_FILTERS]
        self.change("filters", saved=tuple(f"{n}\t{kept[n]}" for n in names))

    def lane_state(self, reader_id: str) -> LaneState:
        """Return how lanes of this format were arranged last."""
        text = self._store.get(f"lanes/{reader_id}")
        if text is None:
            return LaneState()
        try:
            return _lane_state(json.loads(str(text)[:_MAX_TEXT]))
        except (ValueError, TypeError, KeyError, RecursionError):
            self._ignore(f"lanes/{reader_id}", text)
            return LaneState()

    def set_lane_state(self, reader_id: str, state: LaneState) -> None:
        """Remember how lanes of this format are arranged."""
        kept = {
            "collapsed": None if state.collapsed is None else sorted(state.collapsed),
            "hidden": sorted(state.hidden),
            "pinned": list(state.pinned),
            "order": list(state.order),
            "heights": [list(pair) for pair in state.heights],
        }
        self._store.put(f"lanes/{reader_id}", json.dumps(kept))
        self._sync_later.start()

    def reset(self) -> None:
        """Go back to the defaults everywhere."""
        self._store.clear()
        self._topics = {name: kind() for name, kind in _TOPICS.items()}
        for name in _TOPICS:
            self.changed.emit(name)

    def _typed(self, name: str, kind: type[_T]) -> _T:
        value = self._topics[name]
        assert isinstance(value, kind)
        return value

    def _load(self, topic: str, kind: type[_T]) -> _T:
        good: dict[str, object] = {}
        hints = get_type_hints(kind)
        for f in fields(kind):  # type: ignore[arg-type]  # all topics are dataclasses
            key = f"{topic}/{f.name}"
            stored = self._store.get(key)
            if stored is None:
                continue
            try:
                good[f.name] = _checked(topic, f.name, hints[f.name], stored)
            except (ValueError, TypeError, RecursionError, OverflowError):
                self._ignore(key, stored)
        return kind(**good)

    def _ignore(self, key: str, stored: object) -> None:
        text = f"setting {key} has a value that does not fit: {str(stored)[:60]!r}"
        logger.warning("%s; the default is used", text)
        self.problems.append(text + "; the default is used.")

    def _note_unknown(self) -> None:
        known = {
            f"{topic}/{f.name}" for topic, kind in _TOPICS.items() for f in fields(kind)
        }
        for key in self._store.keys():  # noqa: SIM118 - a store is no mapping
            if key not in known and not key.startswith("lanes/"):
                self.problems.append(f"setting {key[:80]} is not known; it is ignored.")


def _checked(topic: str, name: str, hint: object, stored: object) -> object:
    """Return the stored text as a value of type `hint`, or raise ValueError."""
    value = json.loads(str(stored)[:_MAX_TEXT])
    if get_origin(hint) is Literal:
        if value not in get_args(hint) or not isinstance(value, str):
            raise ValueError(value)
        return value
    if get_origin(hint) is tuple:
        return _checked_tuple(topic, name, get_args(hint)[0], value)
    if type(value) is not hint:
        raise ValueError(value)
    low, high = _RANGES.get((topic, name), (-math.inf, math.inf))
    if hint is int and not low <= value <= high:
        raise ValueError(value)
    return value


def _checked_tuple(
    topic: str, name: str, kind: type, value: object
) -> tuple[object, ...]:
    wanted = _LENGTHS.get((topic, name))
    if not isinstance(value, list) or any(type(part) is not kind for part in value):
        raise ValueError(value)
    if wanted is not None and len(value) != wanted:
        raise ValueError(value)
    if kind is int and any(not 0 < part < 1000 for part in value):
        raise ValueError(value)
    most = MAX_FILTERS if topic == "filters" else MAX_RECENT
    return tuple(value[: max(most, wanted or 0)])


def _lane_state(data: Mapping[str, Any]) -> LaneState:
    """Return a lane state from parsed JSON; raises where anything does not fit."""

    def texts(name: str) -> tuple[str, ...]:
        part = data[name]
        if not isinstance(part, list) or any(not isinstance(t, str) for t in part):
            raise ValueError(name)
        return tuple(part)

    heights = tuple((str(key), float(factor)) for key, factor in data["heights"])
    if any(not 0.1 <= factor <= 20 for _, factor in heights):
        raise ValueError("heights")
    collapsed = data["collapsed"]
    return LaneState(
        collapsed=None if collapsed is None else frozenset(texts("collapsed")),
        hidden=frozenset(texts("hidden")),
        pinned=texts("pinned"),
        order=texts("order"),
        heights=heights,
    )


def _set_aside_if_broken(path: Path) -> None:
    """Rename a file that QSettings had better not see.

    All values of ours are JSON texts. QSettings would also restore serialised Qt
    objects (``@Variant(…)``) from a file, which is no place for foreign bytes.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_TEXT + 1)
        if len(content) > _MAX_TEXT or _OBJECT.search(content):
            logger.warning("settings file %s is broken; it is set aside", path)
            path.replace(path.with_name(path.name + ".broken"))
    except OSError as error:
        logger.debug("settings file %s cannot be looked at: %s", path, error)


__all__ = [
    "FONT_SCALES",
    "Appearance",
    "Drawing",
    "Files",
    "Filters",
    "IniStore",
    "Layout",
    "LayoutName",
    "Memory",
    "MemoryStore",
    "Plugins",
    "Renderer",
    "Settings",
    "Store",
    "ThemeName",
    "WheelMode",
    "Window",
]
