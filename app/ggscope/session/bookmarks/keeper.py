"""Keeps a session's bookmarks: found when its trace is opened, written when changed."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from ggscope.analysis.rows.lanes import LaneState
from ggscope.errors import TraceError
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.session.bookmarks.bookmarks import Bookmark, Bookmarks
from ggscope.session.bookmarks.files import (
    BookmarkFile,
    BookmarkSet,
    BookmarkStorage,
    Entry,
    Found,
    SaveResult,
    can_lie_beside,
    merged,
    now_ms,
    side_car,
    stamp_of,
    with_listed,
)
from ggscope.session.loader import Loader, LoadState
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from ggscope.session.tasks import TaskFailure

logger = logging.getLogger(__name__)

QUIET_MS = 250
"""Bookmarks are written after so long without another change."""
WATCH_MS = 2000
_FIND, _WRITE = "bookmarks-find", "bookmarks-keep"


class BookmarkKeeper(QObject):
    """Looks after the bookmarks of one session.

    They belong to the trace that was opened first. What lies outside of the part that
    is shown is kept too, though it is not listed.

    Parameters
    ----------
    is_watching : asked before the file that has them is looked at.
    """

    message_requested = Signal(str, str, object)  # text, button text or "", callback
    place_asked = Signal()  # the first bookmark was kept: where should they be?

    def __init__(
        self,
        session: Session,
        loader: Loader,
        settings: Settings,
        is_watching: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(session)
        self._session = session
        self._loader = loader
        self._settings = settings
        self._is_watching = is_watching
        self._bookmarks = BookmarkSet()
        """All that is known, in values of the trace's own clock; listed ones first."""
        self._listed: frozenset[str] = frozenset()
        self._accepted: frozenset[str] = frozenset()
        self._origin = 0
        self._path: Path | None = None
        self._place: Path | None = None
        self._stamp: tuple[int, int, int] | None = None
        self._is_found = self._is_lost = self._is_writing = False
        self._problem = ""
        """Why bookmarks are not beside the trace, as it was shown last."""
        self._has_asked = False
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(QUIET_MS)
        self._later.timeout.connect(self._write)
        self._watch = QTimer(self)
        self._watch.setInterval(WATCH_MS)
        self._watch.setTimerType(Qt.TimerType.VeryCoarseTimer)
        self._watch.timeout.connect(self.check_file)
        loader.state_changed.connect(self._on_load_state)
        loader.parts_changed.connect(self._follow_clock)
        session.bookmarks.changed.connect(self._on_bookmarks_changed)
        session.lanes.changed.connect(self._on_lanes_changed)
        settings.changed.connect(self._on_settings_changed)

    # -- where ---------------------------------------------------------------

    @property
    def is_read(self) -> bool:
        """Whether the bookmarks of the trace's file have been read."""
        return self._is_found

    @property
    def is_saving(self) -> bool:
        """Whether bookmarks are being written, or are about to be."""
        return self._later.isActive() or self._is_writing

    @property
    def trace_path(self) -> Path | None:
        """The file that the bookmarks belong to; None where there is none."""
        trace = self._session.trace
        if trace is None:
            return None
        infos = [part.info for part in trace.parts] or [trace.info]
        paths = [path for info in infos for path in info.paths]
        if self._path not in paths:  # files that are added may come before it
            self._path = paths[0] if paths else None
        return self._path

    def _storage(self) -> BookmarkStorage | None:
        trace, path = self._session.trace, self.trace_path
        if trace is None or path is None:
            return None
        data = self._settings.data_folder
        return BookmarkStorage(
            path,
            trace.clock.unit,
            None if data is None else data / "bookmarks",
            self._settings.bookmarks.place == "beside" and not self._settings.is_safe,
            self._accepted,
        )

    def _say_place(self, is_elsewhere: bool = False, is_taken: bool = False) -> None:
        """Tell the session in words where its bookmarks are."""
        text, path = "", self.trace_path
        if self._place is None:
            is_open = self.is_saving or not (self._is_found or self._is_lost)
            if self._storage() is None or not is_open:
                text = "Bookmarks of this trace are not saved."
        elif path is not None and self._place == side_car(path):
            text = f"Saved next to the trace in {self._place.name}"
        else:
            text = "Saved in your profile"
            if is_taken:
                text += "; another file next to the trace has their name"
            elif is_elsewhere:
                text += "; the file next to the trace cannot be written"
        self._session.bookmarks.set_location(text if self._permanent() else "")

    # -- finding -------------------------------------------------------------

    def _on_load_state(self, state: LoadState) -> None:
        if state in (LoadState.READY, LoadState.STOPPED):
            self._follow_clock()
            self._find()
        else:
            self._watch.stop()

    def _follow_clock(self, _: object = None) -> None:
        """Keep bookmarks at their times where tick 0 is another moment now."""
        trace = self._session.trace
        if trace is None:
            return
        by, self._origin = self._origin - trace.clock.origin, trace.clock.origin
        items = self._session.bookmarks.items
        if by and self._is_found and items:
            self._session.bookmarks.replace(
                tuple(_shifted(b, by) for b in items), forgets_steps=True
            )

    def _find(self) -> None:
        storage = self._storage()
        if storage is not None:
            self._session.tasks.run(
                _FIND,
                storage.find,
                partial(self._on_found, storage.path),
                on_error=self._on_lost,
                even_if_held=True,
            )

    def _on_found(self, path: Path, stored: Found) -> None:
        if stored.of is None or self.trace_path != path:
            return
        self._accepted |= {stored.of.digest}
        self._place, self._stamp = stored.place, None
        if stored.place is not None:
            self._stamp = stamp_of(stored.place)
            self._watch.start()
        self._is_found, self._is_lost = True, False
        ours = self._with_listed()
        self._listed |= {b.id for b in self._permanent()}
        self._list(merged(ours, stored.bookmarks))
        if merged(stored.bookmarks, ours) != stored.bookmarks:
            self._later.start()
        self._say_place()
        if stored.foreign is not None and stored.foreign.bookmarks.entries:
            self._say_foreign(path, stored.foreign)
        elif stored.problem:
            self.message_requested.emit(stored.problem, "", None)

    def _say_foreign(self, path: Path, foreign: BookmarkFile) -> None:
        text = (
            f"{side_car(path).name} belongs to other content of {path.name}; its "
            f"bookmarks ({len(foreign.bookmarks.entries)}) are not shown."
        )
        accept = partial(self._accept, foreign.of.digest)
        trace = self._session.trace
        if trace is None or foreign.unit != trace.clock.unit:
            self.message_requested.emit(text, "", None)
        else:
            self.message_requested.emit(text, "Show anyway", accept)

    def _accept(self, digest: str) -> None:
        self._accepted |= {digest}
        self._find()

    def _on_lost(self, failure: TaskFailure) -> None:
        logger.warning("bookmarks: %s", failure.message)
        self._is_lost = not self._is_found
        self._say_place()

    def check_file(self) -> None:
        """Look whether another window has changed them; called every two seconds."""
        if self._place is None or self.is_saving:
            return
        if self._is_watching() and stamp_of(self._place) != self._stamp:
            self._find()

    # -- the session's bookmarks and what is stored of them --------------------

    def _permanent(self) -> Bookmarks:
        return tuple(b for b in self._session.bookmarks.items if b.permanent)

    def _with_listed(self) -> BookmarkSet:
        """Return all that is known, with what the session lists now."""
        listed = [_shifted(b, self._origin) for b in self._permanent()]
        return with_listed(self._bookmarks, listed, self._listed, now_ms())

    def _list(self, bookmarks: BookmarkSet) -> None:
        """List bookmarks as far as they lie in the trace, and name lanes."""
        trace = self._session.trace
        if trace is None:
            return
        listed: list[Entry] = []
        others: list[Entry] = []
        for entry in bookmarks.entries:
            mark = entry.bookmark
            is_listed = mark.id in self._listed or _lies_in(
                mark.time.shifted(-self._origin), trace
            )
            (listed if is_listed else others).append(entry)
        # First, so that what is heard of it is no change.
        self._bookmarks = replace(bookmarks, entries=(*listed, *others))
        self._listed = frozenset(e.bookmark.id for e in listed)
        shown = (_shifted(e.bookmark, -self._origin) for e in listed)
        temporary = (b for b in self._session.bookmarks.items if not b.permanent)
        self._session.bookmarks.replace((*shown, *temporary))
        given = ((key, name) for key, (_, name) in bookmarks.lane_names.items() if name)
        lanes = replace(self._session.lanes.state, names=tuple(sorted(given)))
        self._session.lanes.set_state(lanes, is_step=False)

    def _on_lanes_changed(self, state: LaneState) -> None:
        """Note how the user named lanes, and save it soon."""
        given, names = dict(state.names), dict(self._bookmarks.lane_names)
        for key in given.keys() | names.keys():
            when, name = names.get(key, (0, ""))
            if given.get(key, "") != name:
                names[key] = max(now_ms(), when + 1), given.get(key, "")
        if names != self._bookmarks.lane_names:
            self._bookmarks = replace(self._bookmarks, lane_names=names)
            if self._is_found:
                self._later.start()

    def _on_bookmarks_changed(self, _: Bookmarks) -> None:
        """Note what the user did, and save it soon."""
        bookmarks = self._with_listed()
        if self._is_found and bookmarks != self._bookmarks:
            self._bookmarks = bookmarks
            self._listed = frozenset(b.id for b in self._permanent())
            self._later.start()
            self._ask()
        self._say_place()

    # -- writing ---------------------------------------------------------------

    def _write(self) -> None:
        storage = self._storage()
        if storage is None or not self._is_found:
            return
        if self._is_writing:
            self._later.start()
            return
        self._is_writing = True
        self._session.tasks.run(
            _WRITE,
            partial(storage.store, self._bookmarks),
            self._on_saved,
            on_error=self._on_not_saved,
            even_if_held=True,
        )

    def _on_saved(self, result: SaveResult) -> None:
        self._is_writing = False
        self._accepted |= {result.of.digest}
        self._place, self._stamp = result.place, result.stamp
        if result.place is not None:
            self._watch.start()
        self._list(merged(self._bookmarks, result.bookmarks))
        self._say_place(result.is_elsewhere, result.is_taken)
        if result.problem and result.problem != self._problem:
            self.message_requested.emit(result.problem, "", None)
        self._problem = result.problem

    def _on_not_saved(self, failure: TaskFailure) -> None:
        self._is_writing = False
        self._session.bookmarks.set_location(f"Not saved: {failure.message}")
        self.message_requested.emit(
            f"Could not save the bookmarks. {failure.message}",
            "Try again",
            self._write,
        )

    def release(self) -> None:
        """Write what is not written yet, now: the session is about to close."""
        self._watch.stop()
        storage = self._storage()
        is_due = self.is_saving
        self._later.stop()
        if storage is None or not self._is_found or not is_due:
            return
        try:
            storage.store(self._bookmarks)
        except (TraceError, OSError) as error:
            logger.warning("bookmarks of %s are not kept: %s", storage.path, error)

    # -- asking --------------------------------------------------------------

    def _ask(self) -> None:
        """Ask once where bookmarks should be kept; the data folder meanwhile."""
        path = self.trace_path
        is_open = self._settings.bookmarks.place == "ask" and not self._has_asked
        if is_open and self._permanent() and self._settings.data_folder is not None:
            self._has_asked = True
            if path is not None and can_lie_beside(path):
                self.place_asked.emit()

    def _on_settings_changed(self, topic: str) -> None:
        has_any = self._bookmarks.entries or self._bookmarks.lane_names
        if topic == "bookmarks" and self._is_found and has_any:
            self._later.start()


def _shifted(mark: Bookmark, by: int) -> Bookmark:
    if not by:
        return mark
    return replace(mark, time=mark.time.shifted(by))


def _lies_in(time: TimeRange, trace: Trace) -> bool:
    return time.intersect(trace.extent) is not None
