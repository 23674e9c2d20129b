"""Settings: frozen dataclasses with defaults in code over a key-value store.

Whatever the store holds, the program starts: unknown keys and ill-typed or
out-of-range values are ignored and reported, a broken file counts as empty.
"""

import contextlib
import json
import logging
import math
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from ggscope.session.settings_store import IniStore, MemoryStore

if TYPE_CHECKING:
    from ggscope.analysis.rows.lanes import LaneState

logger = logging.getLogger(__name__)

ThemeName = Literal["system", "dark", "light"]
Renderer = Literal["auto", "raster", "opengl"]
WheelMode = Literal["scroll", "zoom"]
LayoutName = Literal["dual", "grid", "single"]
FigureTheme = Literal["print", "light", "dark"]
BookmarkPlace = Literal["ask", "beside", "data"]
FONT_SCALES = (75, 90, 100, 110, 125, 150, 175, 200)
MAX_RECENT = 12
MAX_PARTS = 64
"""Files of one session that the list of recent ones remembers."""
RECENT_SEPARATOR = "\n"
MAX_FILTERS = 60
MAX_SHIFTS = 200
MAX_LIMIT_MIB = 1 << 24
MAX_TOKENS, MAX_THREADS = 1_000_000, 1024
SYNC_MS = 1000
"""Changes are written after so long without another."""
_MAX_TEXT = 1 << 20
_MAX_HIDDEN = 1_000
"""Hidden lanes are remembered where they are no more than these."""


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
    has them, whatever is printed on them.
    """

    renderer: Renderer = "auto"
    wheel: WheelMode = "scroll"
    shows_stalls: bool = True
    shows_waits: bool = True
    shows_arrows: bool = True
    shows_critical_path: bool = False
    keys_by_place: bool = False


@dataclass(frozen=True, slots=True)
class Tables:
    """What table and statistics are about.

    `only_range`: the marked range, or else the visible one; not the whole trace.
    """

    only_range: bool = True


@dataclass(frozen=True, slots=True)
class Layout:
    """Which views are where.

    Attributes
    ----------
    cells : view id per cell: two of the dual layout, then four of the grid.
    splits : permille of the first part: dual; grid columns; grid rows.
    shows_details, shows_details_narrow : the details, in a window that is wide enough
        for them and in a narrow one.
    right_width, bottom_height : of the docks, device-independent pixels; height 0 =
        a share of the window's.
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
    splits: tuple[int, ...] = (650, 500, 500)
    shows_details: bool = True
    shows_details_narrow: bool = False
    shows_drawer: bool = False
    right_width: int = 320
    bottom_height: int = 0
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

    `trusted` are ids of readers whose files are no longer asked about; `shifts` what
    was added to the times of files by hand: what was opened, the file and the shift.
    """

    recent: tuple[str, ...] = ()
    folder: str = ""
    trusted: tuple[str, ...] = ()
    shifts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bookmarks:
    """Where bookmarks are kept: beside the trace or in the user's data folder.

    "ask" is the data folder until the user has chosen.
    """

    place: BookmarkPlace = "ask"


@dataclass(frozen=True, slots=True)
class Filters:
    """What was asked of traces.

    Attributes
    ----------
    saved : filters that the user named: name, tab, expression; in order of the names.
    queries : SQL that was run, the newest first.
    """

    saved: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """How much memory a file may take: `limit_mib`, 0 = what the system has."""

    limit_mib: int = 0

    @property
    def limit_bytes(self) -> int:
        """The same in bytes."""
        return self.limit_mib << 20


@dataclass(frozen=True, slots=True)
class Capture:
    """What was run under the capture tool last: programs and models, newest first."""

    programs: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    prompt: str = "Once upon a time"
    tokens: int = 128
    threads: int = 1
    more: str = ""
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """How the last figure was to look; `preset` is "" where it was as in the window."""

    preset: str = "double"
    theme: FigureTheme = "print"
    is_seen: bool = True
    has_legend: bool = True
    has_color_bar: bool = True
    has_notes: bool = True
    is_transparent: bool = False


@dataclass(frozen=True, slots=True)
class Plugins:
    """Readers from a folder. Off unless the user turns it on."""

    is_enabled: bool = False
    folder: str = ""


_RANGES: Mapping[tuple[str, str], tuple[int, int]] = {
    ("appearance", "font_scale"): (75, 200),
    ("layout", "right_width"): (180, 4000),
    ("layout", "bottom_height"): (0, 4000),
    ("memory", "limit_mib"): (0, MAX_LIMIT_MIB),
    ("capture", "tokens"): (1, MAX_TOKENS),
    ("capture", "threads"): (1, MAX_THREADS),
}
_LENGTHS: Mapping[tuple[str, str], int] = {
    ("layout", "cells"): 6,
    ("layout", "splits"): 3,
}

_MAX_ITEMS = {("files", "shifts"): MAX_SHIFTS, ("filters", "saved"): MAX_FILTERS}
"""Of lists that may be longer than `MAX_RECENT`."""
_MERGED = {"files/recent", "files/trusted", "filters/saved", "filters/queries"}
"""Lists to which every window adds."""

_T = TypeVar("_T")


class _Topic(Generic[_T]):
    """A topic as an attribute of the settings: the values that hold now."""

    def __init__(self, kind: type[_T]) -> None:
        self.kind = kind

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, settings: "Settings", owner: type) -> _T:
        value = settings._topics[self._name]
        assert isinstance(value, self.kind)
        return value


class Settings(QObject):
    """The settings of the program.

    ``settings.appearance`` and so on are frozen values; ``settings.change(
    "appearance", theme="dark")`` replaces and stores one and emits `changed`.

    Attributes
    ----------
    problems : sentences about values that were ignored.
    store : where the values are.
    is_safe : whether this is ``--safe-mode``: defaults, nothing is stored.
    data_folder : where the user's own data are kept, None = nowhere.
    """

    appearance = _Topic(Appearance)
    drawing = _Topic(Drawing)
    tables = _Topic(Tables)
    layout = _Topic(Layout)
    window = _Topic(Window)
    files = _Topic(Files)
    bookmarks = _Topic(Bookmarks)
    filters = _Topic(Filters)
    memory = _Topic(Memory)
    capture = _Topic(Capture)
    figures = _Topic(Figures)
    plugins = _Topic(Plugins)

    changed = Signal(object)  # name of the topic
    store_failed = Signal(str)  # why nothing is stored; once
    _written = Signal(str)  # from the thread that writes: why not, "" = it was

    def __init__(
        self,
        store: MemoryStore | None = None,
        *,
        is_safe: bool = False,
        data_folder: Path | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.is_safe = is_safe
        self.data_folder = None if is_safe else data_folder
        self.store = MemoryStore() if is_safe or store is None else store
        if isinstance(self.store, IniStore):
            self.store.merge = merged
        self.problems = [self.store.problem] if self.store.problem else []
        self._topics: dict[str, Any] = {
            name: self._load(name, kind) for name, kind in _KINDS.items()
        }
        self._note_unknown()
        self._has_failed = False
        self._sync_later = QTimer(self)
        self._sync_later.setSingleShot(True)
        self._sync_later.setInterval(SYNC_MS)
        self._sync_later.timeout.connect(self._on_due)
        self._written.connect(self._on_written, Qt.ConnectionType.QueuedConnection)

    def sync(self) -> None:
        """Write what has changed, now; report once where that is not possible."""
        self._sync_later.stop()
        self._on_written(self.store.sync())

    def _on_due(self) -> None:
        # A disk that is busy can take seconds to confirm even a small file.
        threading.Thread(target=self._work, name="settings", daemon=True).start()

    def _work(self) -> None:
        problem = self.store.sync()
        with contextlib.suppress(RuntimeError):  # the program has ended meanwhile
            self._written.emit(problem)

    def _on_written(self, problem: str) -> None:
        """Report a failure; take over what other windows have added to the lists."""
        damage = self.store.problem
        if damage and damage not in self.problems:
            self.problems.append(damage)
            self.store_failed.emit(damage)
        if not problem:
            for topic in sorted({key.partition("/")[0] for key in _MERGED}):
                self._take_over(topic)
        if problem and not self._has_failed:
            logger.warning("%s", problem)
            self._has_failed = True
            self.store_failed.emit(problem)
        elif not problem:
            self._has_failed = False

    def change(self, topic: str, **values: object) -> None:
        """Replace fields of a topic, store them, and emit `changed`.

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
                self.store.put(f"{topic}/{name}", json.dumps(value))
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
        recent = self.files.recent
        others = () if path is None else tuple(p for p in recent if p != path)
        self.change("files", recent=others)

    def shifts_of(self, opened: Path) -> dict[Path, str]:
        """Return what is added to the times of the files of a session."""
        rows = [row.split(RECENT_SEPARATOR) for row in self.files.shifts]
        whole = str(opened.absolute())
        return {Path(r[1]): r[2] for r in rows if len(r) == 3 and r[0] == whole}

    def set_shift(self, opened: Path, file: Path, by: str) -> None:
        """Store what is added to the times of a file; "" = nothing any more."""
        key = f"{opened.absolute()}{RECENT_SEPARATOR}{file}{RECENT_SEPARATOR}"
        others = tuple(row for row in self.files.shifts if not row.startswith(key))
        new = (key + by,) if by else ()
        self.change("files", shifts=(*new, *others)[:MAX_SHIFTS])

    def saved_filters(self) -> tuple[tuple[str, str], ...]:
        """Return (name, expression) of the saved filters in order of the names."""
        lines = (line.partition("\t") for line in self.filters.saved)
        by_name = {name: text for name, tab, text in lines if name and tab}
        return tuple(sorted(by_name.items(), key=lambda pair: pair[0].casefold()))

    def save_filter(self, name: str, expression: str) -> None:
        """Store a filter under a name; one of the same name is replaced."""
        clean = " ".join(name.split())[:80]
        self._store_filters({**dict(self.saved_filters()), clean: expression})

    def forget_filter(self, name: str) -> None:
        """Remove a saved filter."""
        filters = dict(self.saved_filters())
        filters.pop(name, None)
        self._store_filters(filters)

    def _store_filters(self, filters: Mapping[str, str]) -> None:
        lines = sorted(map("\t".join, filters.items()), key=str.casefold)
        self.change("filters", saved=tuple(lines[:MAX_FILTERS]))

    def lane_state(self, reader_id: str) -> "LaneState":
        """Return how lanes of this format were arranged last."""
        # Settings are read before the first window, what a trace needs after it.
        from ggscope.analysis.rows.lane_state import read_lane_state
        from ggscope.analysis.rows.lanes import LaneState

        text = self.store.get(f"lanes/{reader_id}")
        if text is None:
            return LaneState()
        try:
            return read_lane_state(json.loads(str(text)[:_MAX_TEXT]))
        except (ValueError, TypeError, KeyError, RecursionError):
            self._ignore(f"lanes/{reader_id}", text)
            return LaneState()

    def set_lane_state(self, reader_id: str, state: "LaneState") -> None:
        """Store how lanes of this format are arranged, without names given to them."""
        from ggscope.analysis.rows.lane_state import lane_state_data

        few = state.hidden if len(state.hidden) <= _MAX_HIDDEN else frozenset()
        common = replace(state, hidden=few, names=())
        self.store.put(f"lanes/{reader_id}", json.dumps(lane_state_data(common)))
        self._sync_later.start()

    def reset(self) -> None:
        """Go back to the defaults everywhere."""
        self.store.clear()
        self._topics = {name: kind() for name, kind in _KINDS.items()}
        self._sync_later.start()
        for name in _KINDS:
            self.changed.emit(name)

    def _load(self, topic: str, kind: type[_T]) -> _T:
        values: dict[str, object] = {}
        hints = get_type_hints(kind)
        for f in fields(kind):  # type: ignore[arg-type]  # all topics are dataclasses
            key = f"{topic}/{f.name}"
            stored = self.store.get(key)
            if stored is None:
                continue
            try:
                values[f.name] = _checked(topic, f.name, hints[f.name], stored)
            except (ValueError, TypeError, RecursionError, OverflowError):
                self._ignore(key, stored)
        return kind(**values)

    def _take_over(self, topic: str) -> None:
        old = self._topics[topic]
        values = {f.name: getattr(self._load(topic, type(old)), f.name)
                  for f in fields(old) if f"{topic}/{f.name}" in _MERGED}  # fmt: skip
        new = replace(old, **values)
        if new != old:
            self._topics[topic] = new
            self.changed.emit(topic)

    def _ignore(self, key: str, stored: object) -> None:
        text = f"invalid value for setting {key}: {str(stored)[:60]!r}"
        logger.warning("%s; the default is used", text)
        self.problems.append(text + "; the default is used.")

    def _note_unknown(self) -> None:
        known = {
            f"{topic}/{f.name}" for topic, kind in _KINDS.items() for f in fields(kind)
        }
        for key in self.store.keys():  # noqa: SIM118 - a store is no mapping
            if key not in known and not key.startswith("lanes/"):
                self.problems.append(f"unknown setting {key[:80]}; it is ignored.")


_KINDS: Mapping[str, type] = {
    name: topic.kind for name, topic in vars(Settings).items() if type(topic) is _Topic
}
"""Topic -> the class of its values."""


def _checked(topic: str, name: str, hint: object, stored: str) -> object:
    """Return the stored text as a value of type `hint`, or raise ValueError."""
    value = json.loads(stored[:_MAX_TEXT])
    kind = get_origin(hint) or hint
    if kind is Literal:
        is_valid = isinstance(value, str) and value in get_args(hint)
    elif kind is tuple:
        item, length = get_args(hint)[0], _LENGTHS.get((topic, name))
        is_valid = isinstance(value, list) and all(type(x) is item for x in value)
        is_valid = is_valid and length in (None, len(value))
        is_valid = is_valid and (item is not int or all(0 < x < 1000 for x in value))
    else:
        low, high = _RANGES.get((topic, name), (-math.inf, math.inf))
        is_valid = type(value) is kind and (kind is not int or low <= value <= high)
    if not is_valid:
        raise ValueError(value)
    if kind is tuple:
        return tuple(value[: _MAX_ITEMS.get((topic, name), MAX_RECENT)])
    return value


def merged(key: str, base: str | None, mine: str, theirs: str) -> str:
    """Return a setting that two processes have changed; see `settings_store.Merge`.

    Lists keep what each of the two added and lose what each removed; of anything
    else this process's value holds.
    """
    if key not in _MERGED:
        return mine
    # By name: of filters what stands before the tab, else the text itself.
    old, ours, others = (
        {text.partition("\t")[0] if key == "filters/saved" else text: text
         for text in _texts(stored)} for stored in (base or "[]", mine, theirs)
    )  # fmt: skip
    new = {name: text for name, text in ours.items() if old.get(name) != text}
    first = next(iter(ours), "")
    if key == "files/recent" and ours and first != next(iter(old), None):
        new = {first: first, **new}  # opened last, also where it was in the list before
    rest = {n: text for n, text in others.items() if n in ours or n not in old}
    limit = MAX_FILTERS if key == "filters/saved" else MAX_RECENT
    return json.dumps(list({**new, **rest, **new}.values())[:limit])


def _texts(stored: str) -> list[str]:
    """Return a stored list of texts; anything else counts as an empty one."""
    try:
        value = json.loads(stored[:_MAX_TEXT])
    except (ValueError, RecursionError):
        return []
    return [x for x in value if isinstance(x, str)] if isinstance(value, list) else []
