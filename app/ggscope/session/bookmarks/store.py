"""Where bookmarks are kept: beside the trace, or in a folder of the person's own."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ggscope.errors import WriteError
from ggscope.model.time import Unit
from ggscope.session.bookmarks.file import (
    SUFFIX,
    BookmarkFile,
    BookmarkFileError,
    BookmarkSet,
    Fingerprint,
    fingerprint,
    is_of,
    merged,
    read_bookmarks,
    to_bytes,
)
from ggscope.session.tasks import TaskContext
from ggscope.text import one_line
from ggscope.writing import locked, make_folder, write_file

_MAX_CANDIDATES = 16
"""Files of one beginning that are looked at for a trace that has grown."""


def side_car(path: Path) -> Path:
    """Return the name of the bookmark file beside a trace."""
    return path.with_name(path.name + SUFFIX)


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where the bookmarks of one trace are looked for and kept.

    Attributes
    ----------
    path : the trace.
    unit : of its clock.
    folder : the person's own folder of bookmarks, None = nothing is kept there.
    is_beside : whether the person wants them beside the trace.
    accepted : digests of other content whose bookmarks are this trace's too: what it
        held before it was overwritten while it was open, or what the person says.
    """

    path: Path
    unit: Unit
    folder: Path | None
    is_beside: bool = False
    accepted: frozenset[str] = frozenset()

    def takes(self, found: BookmarkFile) -> bool:
        """Tell whether a bookmark file is about this trace. Raises OSError."""
        if found.unit != self.unit:
            return False
        return found.of.digest in self.accepted or is_of(self.path, found.of)


@dataclass(frozen=True, slots=True)
class Found:
    """What was there.

    Attributes
    ----------
    kept : all bookmarks of the trace.
    of : what it holds now; None where that cannot be told, and nothing is kept.
    place : the file that the bookmarks come from, None = there is none.
    foreign : bookmarks beside it that belong to other content.
    problem : a sentence about a file that cannot be used, "" = none.
    """

    kept: BookmarkSet = field(default_factory=BookmarkSet)
    of: Fingerprint | None = None
    place: Path | None = None
    foreign: BookmarkFile | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class FindRequest:
    """Looks for the bookmarks of a trace; runs on a worker, raises nothing."""

    shelf: Shelf

    def __call__(self, context: TaskContext | None = None) -> Found:
        """Return what was found."""
        shelf = self.shelf
        try:
            of = fingerprint(shelf.path)
        except OSError:
            return Found()
        beside, foreign, problem = _beside(shelf)
        own = list(_own(shelf, of))
        sets = [found.kept for _, found in (*beside, *own)]
        place = next((path for path, _ in (*beside, *own)), None)
        n_bad = sum(found.n_bad for _, found in (*beside, *own))
        if n_bad and not problem:
            word = "entry" if n_bad == 1 else "entries"
            problem = f"{n_bad} {word} of its bookmark file made no sense."
        return Found(merged(BookmarkSet(), *sets), of, place, foreign, problem)


@dataclass(frozen=True, slots=True)
class Kept:
    """How keeping went.

    Attributes
    ----------
    kept : the bookmarks now, with what other windows added.
    place : the file that has them, None = none was written.
    stamp : of that file; see `stamp_of`.
    is_elsewhere : whether they should lie beside the trace and cannot.
    """

    kept: BookmarkSet
    of: Fingerprint
    place: Path | None
    stamp: tuple[int, int, int] | None = None
    is_elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class KeepRequest:
    """Keeps the bookmarks of a trace, merged with what is there; runs on a worker.

    Raises WriteError where the trace cannot be read any more, or nothing can be
    written.
    """

    shelf: Shelf
    ours: BookmarkSet

    def __call__(self, context: TaskContext | None = None) -> Kept:
        """Return what is kept where."""
        shelf = self.shelf
        try:
            of = fingerprint(shelf.path)
        except OSError as error:
            reason = error.strerror or str(error)
            raise WriteError(
                f"{one_line(shelf.path.name)}, which they belong to, cannot be read "
                f"any more: {reason}.",
                path=shelf.path,
            ) from error
        if shelf.is_beside and _may_write_beside(shelf):
            try:
                return self._write(side_car(shelf.path), of)
            except WriteError:
                if shelf.folder is None:
                    raise
        has_folder = shelf.folder is not None and shelf.folder.exists()
        if shelf.folder is None or not (has_folder or self.ours):
            return Kept(self.ours, of, None, is_elsewhere=shelf.is_beside)
        make_folder(shelf.folder)
        kept = self._write(shelf.folder / _own_name(of), of)
        return Kept(kept.kept, of, kept.place, kept.stamp, shelf.is_beside)

    def _write(self, target: Path, of: Fingerprint) -> Kept:
        shelf = self.shelf
        with locked(target.parent):
            beside, _, _ = _beside(shelf)
            own = list(_own(shelf, of))
            here = [found for path, found in (*beside, *own) if path == target]
            others = [found.kept for _, found in (*beside, *own)]
            kept = merged(self.ours, *others)
            is_same = bool(here) and here[0].kept == kept and here[0].of == of
            if not is_same and (kept or here):
                content = to_bytes(kept, of, shelf.unit, shelf.path.name)
                write_file(target, content)
        for path, _ in own:  # what it held before it grew, or before it lay beside
            if path != target:
                path.unlink(missing_ok=True)
        return Kept(kept, of, target, stamp_of(target))


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """Return what tells one state of a file from the next, None = no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def can_lie_beside(path: Path) -> bool:
    """Tell whether a bookmark file can be written beside a trace."""
    place = side_car(path)
    is_short = len(os.fsencode(place.name)) <= 255
    return path.is_file() and is_short and os.access(path.parent, os.W_OK | os.X_OK)


def _own_name(of: Fingerprint) -> str:
    return f"{of.head}-{of.digest}.json"


def _beside(
    shelf: Shelf,
) -> tuple[list[tuple[Path, BookmarkFile]], BookmarkFile | None, str]:
    """Return the file beside a trace if it is about it, one that is not, a problem."""
    path = side_car(shelf.path)
    try:
        found = read_bookmarks(path)
        if found is None:
            return [], None, ""
        if shelf.takes(found):
            return [(path, found)], None, ""
    except BookmarkFileError as error:
        problem = f"{path.name} is not read as bookmarks: {error}. It stays as it is."
        return [], None, problem
    except OSError:
        return [], None, ""
    return [], found, ""


def _own(shelf: Shelf, of: Fingerprint) -> Iterator[tuple[Path, BookmarkFile]]:
    """Yield the files of the person's folder about this trace: the same content first.

    A trace that has grown is found by its beginning.
    """
    if shelf.folder is None:
        return
    exact = shelf.folder / _own_name(of)
    try:
        with os.scandir(shelf.folder) as entries:
            near = sorted(
                entry.name for entry in entries if entry.name.startswith(of.head + "-")
            )
    except OSError:
        return
    for name in islice(dict.fromkeys((exact.name, *near)), _MAX_CANDIDATES):
        path = shelf.folder / name
        try:
            found = read_bookmarks(path)
            if found is not None and shelf.takes(found):
                yield path, found
        except (BookmarkFileError, OSError):
            continue


def _may_write_beside(shelf: Shelf) -> bool:
    """Tell whether the file beside the trace is ours to write: none, or about it."""
    path = side_car(shelf.path)
    if not can_lie_beside(shelf.path):
        return False
    beside, _, _ = _beside(shelf)
    return bool(beside) or not os.path.lexists(path)
