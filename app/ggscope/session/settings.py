"""Settings: frozen dataclasses with defaults in code over a key-value store.

Whatever the store holds, the program starts: unknown keys and ill-typed or
out-of-range values are ignored and reported, a broken file counts as empty.
"""

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    get_type_hints,
)

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from ggscope.json_types import from_json
from ggscope.session.settings_store import MemoryStore

if TYPE_CHECKING:
    from ggscope.analysis.rows.lanes import LaneState

logger = logging.getLogger(__name__)

ThemeName = Literal["system", "dark", "light"]
Renderer = Literal["auto", "raster", "opengl"]
WheelMode = Literal["scroll", "zoom"]
LayoutName = Literal["dual", "grid", "single"]
FigureTheme = Literal["print", "light", "dark"]
BookmarkPlace = Literal["ask", "beside", "data"]
Permille = Annotated[int, range(1, 1000)]
FONT_SCALES = (75, 90, 100, 110, 125, 150, 175, 200)
MAX_RECENT = 12
MAX_PARTS = 64
"""Files of one session that the list of recent ones remembers."""
RECENT_SEPARATOR = "\n"
MAX_LIMIT_MIB = 1 << 24
MAX_TOKENS, MAX_THREADS = 1_000_000, 1024
SYNC_MS = 1000
"""Changes are written after so long without another."""
_MAX_HIDDEN = 1_000
"""Hidden lanes are remembered where they are no more than these."""


@dataclass(frozen=True, slots=True)
class Appearance:
    """How the program looks. `font_scale` is in per cent, 75 to 200."""

    theme: ThemeName = "system"
    font_scale: Annotated[int, range(75, 201)] = 100
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
    cells: tuple[str, str, str, str, str, str] = (
        "timeline",
        "table",
        "graph",
        "table",
        "heatmap",
        "timeline",
    )
    splits: tuple[Permille, Permille, Permille] = (650, 500, 500)
    shows_details: bool = True
    shows_details_narrow: bool = False
    shows_drawer: bool = False
    right_width: Annotated[int, range(180, 4001)] = 320
    bottom_height: Annotated[int, range(4001)] = 0
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

    limit_mib: Annotated[int, range(MAX_LIMIT_MIB + 1)] = 0

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
    tokens: Annotated[int, range(1, MAX_TOKENS + 1)] = 128
    threads: Annotated[int, range(1, MAX_THREADS + 1)] = 1
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


class SharedList(NamedTuple):
    """A list of texts, newest first, that all windows add to and remove from.

    `key` : what a text is about; a newer text of the same key replaces the older.
    """

    max_items: int = MAX_RECENT
    key: Callable[[str], str] = str

    def added(self, texts: tuple[str, ...], text: str) -> tuple[str, ...]:
        """Return the list with `text` at its head."""
        return (text, *self.removed(texts, self.key(text)))[: self.max_items]

    def removed(self, texts: tuple[str, ...], key: str) -> tuple[str, ...]:
        """Return the list without the text of `key`."""
        return tuple(text for text in texts if self.key(text) != key)


SHARED_LISTS: Mapping[str, SharedList] = {
    "files/recent": SharedList(),
    "files/trusted": SharedList(),
    "files/shifts": SharedList(200, lambda row: row.rpartition(RECENT_SEPARATOR)[0]),
    "filters/saved": SharedList(60, lambda row: row.partition("\t")[0]),
    "filters/queries": SharedList(),
}


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

    appearance: Appearance
    drawing: Drawing
    tables: Tables
    layout: Layout
    window: Window
    files: Files
    bookmarks: Bookmarks
    filters: Filters
    memory: Memory
    capture: Capture
    figures: Figures
    plugins: Plugins

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
        self.problems = [self.store.problem] if self.store.problem else []
        self._set_defaults()
        for key, stored in self.store.values.items():
            if key in _TYPES:
                try:
                    self._set(key, _checked(key, stored))
                except _INVALID:
                    self._ignore(key, stored)
            elif not key.startswith("lanes/"):
                self.problems.append(f"unknown setting {key[:80]}; it is ignored.")
        self._has_failed = False
        self._sync_later = QTimer(self)
        self._sync_later.setSingleShot(True)
        self._sync_later.setInterval(SYNC_MS)
        self._sync_later.timeout.connect(self._on_due)
        self._written.connect(self._on_written, Qt.ConnectionType.QueuedConnection)

    # -- the store -----------------------------------------------------------------

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
            for key in SHARED_LISTS:
                self._take_list(key)
        elif not self._has_failed:
            logger.warning("%s", problem)
            self.store_failed.emit(problem)
        self._has_failed = bool(problem)

    def _take_list(self, key: str) -> None:
        if self._set(key, _texts(key, self.store.values.get(key))):
            self.changed.emit(key.partition("/")[0])

    def _set(self, key: str, value: object) -> bool:
        """Set one field and return whether it is new."""
        topic, _, name = key.partition("/")
        old = getattr(self, topic)
        is_new = bool(value != getattr(old, name))
        if is_new:
            setattr(self, topic, replace(old, **{name: value}))
        return is_new

    def _set_defaults(self) -> None:
        for topic, kind in _TOPICS.items():
            setattr(self, topic, kind())

    def _ignore(self, key: str, stored: str) -> None:
        text = f"invalid value for setting {key}: {stored[:60]!r}"
        logger.warning("%s; the default is used", text)
        self.problems.append(text + "; the default is used.")

    # -- changes -------------------------------------------------------------------

    def change(self, topic: str, **values: object) -> None:
        """Replace fields of a topic, store them, and emit `changed`.

        Raises
        ------
        AttributeError
            If there is no such topic or field: a fault of the program.
        """
        changes = {f"{topic}/{name}": value for name, value in values.items()}
        new = [key for key, value in changes.items() if self._set(key, value)]
        for key in new:
            self.store.edit(key, partial(_as_stored, json.dumps(changes[key])))
        if new:
            self._sync_later.start()
            self.changed.emit(topic)

    def add(self, key: str, text: str) -> None:
        """Put a text at the head of one of `SHARED_LISTS`."""
        self._edit_list(key, lambda texts: SHARED_LISTS[key].added(texts, text))

    def remove(self, key: str, item: str) -> None:
        """Take the text about `item` off one of `SHARED_LISTS`."""
        self._edit_list(key, lambda texts: SHARED_LISTS[key].removed(texts, item))

    def _edit_list(
        self, key: str, edit: Callable[[tuple[str, ...]], tuple[str, ...]]
    ) -> None:
        # An edit, not the list that it gives here: other windows edit it as well.
        self.store.edit(key, lambda stored: json.dumps(edit(_texts(key, stored))))
        self._sync_later.start()
        self._take_list(key)

    def reset(self) -> None:
        """Go back to the defaults everywhere."""
        self.store.clear()
        self._set_defaults()
        self._sync_later.start()
        for topic in _TOPICS:
            self.changed.emit(topic)

    # -- files and filters -----------------------------------------------------------

    def add_recent(self, path: Path, *more: Path) -> None:
        """Put a file, or several that were opened as one, at the head of the list."""
        self.change("files", folder=str(path.parent))
        paths = (path, *more[:MAX_PARTS])
        self.add("files/recent", RECENT_SEPARATOR.join(map(str, paths)))

    def forget_recent(self, path: str | None = None) -> None:
        """Take one file, or all, off the list of recent ones."""
        if path is None:
            self.change("files", recent=())
        else:
            self.remove("files/recent", path)

    def shifts_of(self, opened: Path) -> dict[Path, str]:
        """Return what is added to the times of the files of a session."""
        rows = [row.split(RECENT_SEPARATOR) for row in self.files.shifts]
        whole = str(opened.absolute())
        return {Path(r[1]): r[2] for r in rows if len(r) == 3 and r[0] == whole}

    def set_shift(self, opened: Path, file: Path, by: str) -> None:
        """Store what is added to the times of a file; "" = nothing any more."""
        key = f"{opened.absolute()}{RECENT_SEPARATOR}{file}"
        if by:
            self.add("files/shifts", f"{key}{RECENT_SEPARATOR}{by}")
        else:
            self.remove("files/shifts", key)

    def saved_filters(self) -> tuple[tuple[str, str], ...]:
        """Return (name, expression) of the saved filters in order of the names."""
        rows = (row.partition("\t") for row in self.filters.saved)
        pairs = ((name, text) for name, tab, text in rows if name and tab)
        return tuple(sorted(pairs, key=lambda pair: pair[0].casefold()))

    def save_filter(self, name: str, expression: str) -> None:
        """Store a filter under a name; one of the same name is replaced."""
        self.add("filters/saved", f"{' '.join(name.split())[:80]}\t{expression}")

    def forget_filter(self, name: str) -> None:
        """Remove a saved filter."""
        self.remove("filters/saved", name)

    # -- lanes -----------------------------------------------------------------------

    def lane_state(self, reader_id: str) -> "LaneState":
        """Return how lanes of this format were arranged last."""
        # Settings are read before the first window, what a trace needs after it.
        from ggscope.analysis.rows.lane_state import read_lane_state
        from ggscope.analysis.rows.lanes import LaneState

        text = self.store.values.get(f"lanes/{reader_id}")
        if text is None:
            return LaneState()
        try:
            return read_lane_state(json.loads(text))
        except (*_INVALID, KeyError):
            self._ignore(f"lanes/{reader_id}", text)
            return LaneState()

    def set_lane_state(self, reader_id: str, state: "LaneState") -> None:
        """Store how lanes of this format are arranged, without names given to them."""
        from ggscope.analysis.rows.lane_state import lane_state_data

        few = state.hidden if len(state.hidden) <= _MAX_HIDDEN else frozenset()
        text = json.dumps(lane_state_data(replace(state, hidden=few, names=())))
        self.store.edit(f"lanes/{reader_id}", partial(_as_stored, text))
        self._sync_later.start()


_TOPICS: Mapping[str, type] = Settings.__annotations__
_TYPES: Mapping[str, Any] = {
    f"{topic}/{name}": hint
    for topic, kind in _TOPICS.items()
    for name, hint in get_type_hints(kind, include_extras=True).items()
}
"""What a field may hold, by its key in the store."""
_INVALID = (ValueError, TypeError, RecursionError, OverflowError)


def _checked(key: str, stored: str) -> Any:
    """Return a stored text as a value of its field, or raise one of `_INVALID`."""
    value = json.loads(stored)
    if isinstance(value, list):
        value = value[: SHARED_LISTS.get(key, SharedList()).max_items]
    return from_json(value, _TYPES[key])


def _texts(key: str, stored: str | None) -> tuple[str, ...]:
    """Return a stored list; one that is missing or invalid counts as empty."""
    try:
        texts: tuple[str, ...] = _checked(key, stored or "[]")
    except _INVALID:
        return ()
    return texts


def _as_stored(text: str, _: str | None) -> str:
    """Return `text`, whatever is stored."""
    return text
