"""Bookmark files: the stored bookmarks of one trace, and where they are.

A file is one JSON object::

    {"ggscope": "bookmarks", "version": 1, "unit": "ns",
     "trace": {"name": …, "size": …, "head": …, "digest": …},
     "bookmarks": [{"id": …, "name": …, "start": …, "end": …, "note": …,
                    "what": …, "lane": …, "color": …, "changed": …}],
     "deleted": {id: …},
     "lanes": {key: {"name": …, "changed": …}}}

`start` and `end` are values of the trace's own clock; `changed` and those of `deleted`
are milliseconds since 1970. `color` is left out where it is the first of `NOTE_COLORS`.
`lanes` are those that the user renamed; "" = its own name again. Anybody may have
written such a file: whatever does not fit is left out and counted, and a file that is
something else is not touched.

It lies beside the trace, or in a folder of the user's own. There a trace is found
again by its fingerprint, wherever it is moved: by what it holds.
"""

import contextlib
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Mapping, Set
from dataclasses import asdict, dataclass, field, replace
from itertools import count, islice
from pathlib import Path

from ggscope.atomic_write import copy_aside, locked, make_folder, write_file
from ggscope.errors import TraceError, WriteError
from ggscope.model.notes import color_key
from ggscope.model.units import UNITS, TimeRange, Unit, format_counted
from ggscope.sanitize import one_line
from ggscope.session.bookmarks.bookmarks import MAX_NAME, MAX_NOTE, Bookmark, clean_line
from ggscope.session.bookmarks.fingerprint import Fingerprint, fingerprint, is_of
from ggscope.session.tasks import TaskContext

VERSION = 1
SUFFIX = ".ggscope.json"
MAX_BYTES = 4 << 20
MAX_ENTRIES = 5000
_MAX_TICK = 1 << 62
_MAX_KEY = 400
"""Characters of the key of a lane."""
_ID = re.compile(r"[0-9a-f]{16}")
_HASH = re.compile(r"[0-9a-f]{16}(?:[0-9a-f]{16})?")
_MAX_CANDIDATES = 16
"""Files with the same head that are read for a trace that has grown."""


class BookmarkFileError(TraceError):
    """A file is there that does not hold bookmarks which this program can read."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored bookmark, its time in values of the trace's own clock.

    `changed` : when it was made or changed last, milliseconds since 1970.
    """

    bookmark: Bookmark
    changed: int


@dataclass(frozen=True, slots=True)
class BookmarkSet:
    """The bookmarks of one trace, and which ones were deleted when.

    Attributes
    ----------
    entries : in the user's order.
    deleted : id -> milliseconds since 1970.
    lane_names : key of a lane or group -> when it was renamed last, and to what.
    """

    entries: tuple[Entry, ...] = ()
    deleted: Mapping[str, int] = field(default_factory=dict)
    lane_names: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.entries or self.deleted or self.lane_names)


@dataclass(frozen=True, slots=True)
class BookmarkFile:
    """The content of a file.

    Attributes
    ----------
    of : the trace that it belongs to.
    unit : of the times.
    n_bad : invalid entries, which were left out.
    """

    of: Fingerprint
    unit: Unit
    bookmarks: BookmarkSet
    n_bad: int = 0


def now_ms() -> int:
    """Return the time of day, milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def merged(first: BookmarkSet, *others: BookmarkSet) -> BookmarkSet:
    """Return the bookmarks of several sets: of each one what happened last.

    The order is that of `first`; what only others have follows. Sets may be merged
    again and in any order: the same bookmarks remain.
    """
    entries = {e.bookmark.id: e for e in first.entries}
    deleted, names = dict(first.deleted), dict(first.lane_names)
    for other in others:
        for key, given in other.lane_names.items():
            names[key] = max(given, names.get(key, given))
        for entry in other.entries:
            known = entries.get(entry.bookmark.id)
            if known is None or _rank(entry) > _rank(known):
                entries[entry.bookmark.id] = entry
        for name, when in other.deleted.items():
            deleted[name] = max(when, deleted.get(name, 0))
    entries_left = tuple(
        e for name, e in entries.items() if e.changed > deleted.get(name, -1)
    )
    alive = {e.bookmark.id for e in entries_left}
    gone = sorted(deleted.items(), key=lambda item: -item[1])
    return BookmarkSet(
        entries_left,
        dict([(n, t) for n, t in gone if n not in alive][:MAX_ENTRIES]),
        names,
    )


def with_listed(
    bookmarks: BookmarkSet, listed: Iterable[Bookmark], were_listed: Set[str], now: int
) -> BookmarkSet:
    """Return the bookmarks after the user changed those that are listed.

    Parameters
    ----------
    listed : those of now, in the user's order.
    were_listed : ids of those before; what is missing now was deleted.
    now : milliseconds since 1970.
    """
    others = {e.bookmark.id: e for e in bookmarks.entries}
    deleted = dict(bookmarks.deleted)
    entries = []
    for mark in listed:
        entry = others.pop(mark.id, None)
        if entry is None or entry.bookmark != mark:
            # Later than its deletion, which may have been undone this very moment.
            entry = Entry(mark, max(now, deleted.pop(mark.id, -1) + 1))
        entries.append(entry)
    for gone in were_listed & others.keys():
        deleted[gone] = max(now, others.pop(gone).changed)
    return replace(bookmarks, entries=(*entries, *others.values()), deleted=deleted)


def _rank(entry: Entry) -> tuple[int, str, str, TimeRange, str]:
    """Return what makes one of two versions the later one, in every window."""
    mark = entry.bookmark
    return entry.changed, mark.name, mark.note, mark.time, mark.color


def to_bytes(
    bookmarks: BookmarkSet, of: Fingerprint, unit: Unit, trace_name: str
) -> bytes:
    """Return the content of a file."""
    content: dict[str, object] = {
        "ggscope": "bookmarks",
        "version": VERSION,
        "unit": unit,
        "trace": {"name": clean_line(trace_name, MAX_NAME), **asdict(of)},
        "bookmarks": [_stored(e) for e in bookmarks.entries[:MAX_ENTRIES]],
        "deleted": dict(bookmarks.deleted),
    }
    if bookmarks.lane_names:
        content["lanes"] = {
            key: {"name": name, "changed": when}
            for key, (when, name) in islice(bookmarks.lane_names.items(), MAX_ENTRIES)
        }
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def _stored(entry: Entry) -> dict[str, object]:
    mark = entry.bookmark
    color = {"color": mark.color} if mark.color else {}  # as 0.1.0 wrote those without
    return {
        "id": mark.id,
        "name": mark.name,
        "start": mark.time.start,
        "end": mark.time.end,
        "note": mark.note,
        "what": mark.what,
        "lane": mark.lane,
        **color,
        "changed": entry.changed,
    }


def read_bookmarks(path: Path) -> BookmarkFile | None:
    """Return what a file says, None where there is no file.

    Raises
    ------
    BookmarkFileError
        If it is a link, no ordinary file, too large, written by a newer version, or
        something else than bookmarks.
    """
    if os.path.islink(path):
        raise BookmarkFileError("it is a link")
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with open(path, "rb", opener=lambda p, _: os.open(p, os.O_RDONLY | flags)) as f:
            if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
                raise BookmarkFileError("it is not a regular file")
            content = f.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BookmarkFileError(error.strerror or str(error)) from error
    if len(content) > MAX_BYTES:
        raise BookmarkFileError("it is too large")
    return parsed(content)


def parsed(content: bytes) -> BookmarkFile:
    """Return what the content of a file says; raises BookmarkFileError."""
    try:
        data: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BookmarkFileError("it is not JSON") from error
    if not isinstance(data, dict) or data.get("ggscope") != "bookmarks":
        raise BookmarkFileError("it holds something else")
    version = data.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise BookmarkFileError("a newer version of ggscope wrote it")
    of, listed = _fingerprint(data.get("trace")), data.get("bookmarks")
    # Compared, for what stands there may be a list, which has no hash.
    unit = next((unit for unit in UNITS if unit == data.get("unit")), None)
    if of is None or unit is None or not isinstance(listed, list):
        raise BookmarkFileError("parts of it are missing")
    limit = now_ms()
    entries: dict[str, Entry] = {}
    for value in listed[:MAX_ENTRIES]:
        entry = _entry(value, limit)
        if entry is not None:
            entries.setdefault(entry.bookmark.id, entry)
    return BookmarkFile(
        of,
        unit,
        BookmarkSet(
            tuple(entries.values()),
            _deleted(data.get("deleted"), limit),
            _lane_names(data.get("lanes"), limit),
        ),
        len(listed) - len(entries),
    )


def _fingerprint(value: object) -> Fingerprint | None:
    if not isinstance(value, dict):
        return None
    size, head, digest = value.get("size"), value.get("head"), value.get("digest")
    is_good = (
        type(size) is int
        and 0 <= size < 1 << 63
        and all(isinstance(h, str) and _HASH.fullmatch(h) for h in (head, digest))
    )
    return Fingerprint(int(size or 0), str(head), str(digest)) if is_good else None


def _entry(value: object, limit: int) -> Entry | None:
    """Return a checked entry, or None where it makes no sense."""
    if not isinstance(value, dict):
        return None
    start, end = value.get("start"), value.get("end")
    if type(start) is not int or type(end) is not int:
        return None
    if not -_MAX_TICK <= start <= end <= _MAX_TICK:
        return None
    texts = [value.get(part, "") for part in ("name", "note", "what", "lane")]
    if any(not isinstance(text, str) for text in texts):
        return None
    name = clean_line(texts[0], MAX_NAME)
    mark = Bookmark(
        name or "Bookmark",
        TimeRange(start, end),
        note=clean_line(texts[1], MAX_NOTE),
        what=clean_line(texts[2], MAX_NAME),
        lane=texts[3][:MAX_NAME],
        color=color_key(value.get("color")),
        id=_id(value.get("id"), f"{start} {end} {name}"),
    )
    return Entry(mark, _moment(value.get("changed"), limit))


def _id(value: object, content: str) -> str:
    """Return the id of an entry; of one without, always the same."""
    if isinstance(value, str) and _ID.fullmatch(value):
        return value
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _moment(value: object, limit: int) -> int:
    """Return a time that is not in the future: nobody could change it any more."""
    return min(max(value, 0), limit) if type(value) is int else 0


def _deleted(value: object, limit: int) -> dict[str, int]:
    if not isinstance(value, dict):
        return {}
    good = {k: _moment(v, limit) for k, v in value.items() if _ID.fullmatch(k)}
    return dict(sorted(good.items(), key=lambda item: -item[1])[:MAX_ENTRIES])


def _lane_names(value: object, limit: int) -> dict[str, tuple[int, str]]:
    """Return the names of lanes that make sense."""
    if not isinstance(value, dict):
        return {}
    names: dict[str, tuple[int, str]] = {}
    for key, given in islice(value.items(), MAX_ENTRIES):
        name = given.get("name") if isinstance(given, dict) else None
        if isinstance(name, str) and len(key) <= _MAX_KEY:
            when = _moment(given.get("changed"), limit)
            names[key] = when, clean_line(name, MAX_NAME)
    return names


def side_car(path: Path) -> Path:
    """Return the name of the bookmark file beside a trace."""
    return path.with_name(path.name + SUFFIX)


def can_lie_beside(path: Path) -> bool:
    """Return whether a bookmark file can be written beside a trace."""
    place = side_car(path)
    is_short = len(os.fsencode(place.name)) <= 255
    return (
        os.path.isfile(path) and is_short and os.access(path.parent, os.W_OK | os.X_OK)
    )


@dataclass(frozen=True, slots=True)
class Found:
    """The stored bookmarks of a trace.

    Attributes
    ----------
    of : what the trace holds now; None where it cannot be read, and nothing is saved.
    place : the first file with bookmarks of the trace, None = there is none.
    foreign : the file beside the trace, if it belongs to other content.
    problem : a sentence about a file that cannot be used, "" = none.
    """

    bookmarks: BookmarkSet = field(default_factory=BookmarkSet)
    of: Fingerprint | None = None
    place: Path | None = None
    foreign: BookmarkFile | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SaveResult:
    """The bookmarks that were saved, with those that other windows added.

    Attributes
    ----------
    place : the file that has them, None = none was written.
    stamp : of that file; see `stamp_of`.
    is_elsewhere : whether they should lie beside the trace and cannot.
    is_taken : whether that is for a file that lies there and is not theirs.
    problem : a sentence on why they are not beside the trace, "" = they are, or a
        file of that name is there, which `Found` reports.
    """

    bookmarks: BookmarkSet
    of: Fingerprint
    place: Path | None
    stamp: tuple[int, int, int] | None = None
    is_elsewhere: bool = False
    is_taken: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class BookmarkStorage:
    """The places where the bookmarks of one trace are stored.

    Attributes
    ----------
    path : the trace.
    unit : of its clock.
    folder : the user's own folder of bookmarks, None = nothing is saved there.
    is_beside : whether the user wants them beside the trace.
    accepted : digests of other content whose bookmarks are this trace's too: what it
        held before it was overwritten while it was open, or what the user says.
    """

    path: Path
    unit: Unit
    folder: Path | None
    is_beside: bool = False
    accepted: frozenset[str] = frozenset()

    def find(self, _: TaskContext | None = None) -> Found:
        """Return the stored bookmarks; raises nothing."""
        try:
            of = fingerprint(self.path)
        except OSError:
            return Found()
        files, foreign, problem = self._scan(of)
        bad = next((path for path, file in files.items() if file.n_bad), None)
        if bad is not None and not problem:
            problem = (
                f"{format_counted(files[bad].n_bad, 'invalid bookmark')} of "
                f"{one_line(bad.name)} not shown. The file is copied to "
                f"{one_line(bad.name)}.broken before bookmarks are saved."
            )
        bookmarks = merged(BookmarkSet(), *(file.bookmarks for file in files.values()))
        return Found(bookmarks, of, next(iter(files), None), foreign, problem)

    def store(self, ours: BookmarkSet, _: TaskContext | None = None) -> SaveResult:
        """Merge bookmarks with the stored ones and write them.

        Raises
        ------
        WriteError
            If the trace cannot be read any more, or nothing can be written.
        """
        try:
            of = fingerprint(self.path)
        except OSError as error:
            reason = error.strerror or str(error)
            raise WriteError(
                f"{one_line(self.path.name)}, which they belong to, cannot be read "
                f"any more: {reason}.",
                path=self.path,
            ) from error
        beside = side_car(self.path)
        can_write = self.is_beside and can_lie_beside(self.path)
        is_taken = (
            can_write and os.path.lexists(beside) and beside not in self._scan(of)[0]
        )
        problem = ""
        if can_write and not is_taken:
            try:
                return self._write(beside, of, ours)
            except WriteError as error:
                if self.folder is None:
                    raise
                problem = str(error)
        elif self.is_beside and not is_taken:
            problem = f"{beside} cannot be written."
        if self.folder is None or not (os.path.exists(self.folder) or ours):
            return SaveResult(ours, of, None, None, self.is_beside, is_taken)
        make_folder(self.folder)
        result = self._write(None, of, ours)
        if problem:
            problem = f"Bookmarks are saved in your profile: {one_line(problem)}"
        return replace(
            result, is_elsewhere=self.is_beside, is_taken=is_taken, problem=problem
        )

    def _write(
        self, beside: Path | None, of: Fingerprint, ours: BookmarkSet
    ) -> SaveResult:
        """Write the file beside the trace; None = that in the user's folder."""
        parent = self.folder if beside is None else beside.parent
        assert parent is not None
        with locked(parent):
            files, _, _ = self._scan(of)
            target = beside or self._free_place(of, files)
            bookmarks = merged(ours, *(file.bookmarks for file in files.values()))
            current = files.get(target)
            is_same = current and (current.bookmarks, current.of) == (bookmarks, of)
            if not is_same and (bookmarks or current):
                if current and current.n_bad:
                    copy_aside(target)
                write_file(target, to_bytes(bookmarks, of, self.unit, self.path.name))
        for path, file in files.items():
            # From before the trace grew, or they lay beside it.
            if path not in (target, side_car(self.path)):
                if file.n_bad:
                    copy_aside(path)
                path.unlink(missing_ok=True)
        return SaveResult(bookmarks, of, target, stamp_of(target))

    def _matches(self, file: BookmarkFile) -> bool:
        """Return whether a bookmark file is about this trace. Raises OSError."""
        if file.unit != self.unit:
            return False
        return file.of.digest in self.accepted or is_of(self.path, file.of)

    def _scan(
        self, of: Fingerprint
    ) -> tuple[dict[Path, BookmarkFile], BookmarkFile | None, str]:
        """Return the files about this trace, a foreign one beside it, and a problem.

        The file beside the trace comes first, then those in the user's folder.
        """
        files: dict[Path, BookmarkFile] = {}
        foreign, problem = None, ""
        beside = side_car(self.path)
        for path in (beside, *self._places(of)):
            try:
                file = read_bookmarks(path)
                if file is not None and self._matches(file):
                    files[path] = file
                elif path == beside:
                    foreign = file
            except BookmarkFileError as error:
                name = one_line(path.name if path == beside else str(path))
                problem = problem or (
                    f"{name} is not read as bookmarks: {error}. It stays as it is."
                )
            except OSError:
                continue
        return files, foreign, problem

    def _places(self, of: Fingerprint) -> list[Path]:
        """Return the files in the user's folder that may be about this trace.

        The same content comes first; a trace that has grown is found by its head.
        """
        if self.folder is None:
            return []
        grown: list[Path] = []
        with contextlib.suppress(OSError):
            grown = sorted(self.folder.glob(f"{of.head}-*.json"))
        first = self.folder / _name_in_folder(of)
        return list(dict.fromkeys([first, *grown]))[:_MAX_CANDIDATES]

    def _free_place(self, of: Fingerprint, files: Mapping[Path, BookmarkFile]) -> Path:
        """Return the file in the user's folder to write: none that cannot be read."""
        assert self.folder is not None
        paths = (self.folder / _name_in_folder(of, number) for number in count(1))
        return next(p for p in paths if p in files or not os.path.lexists(p))


def _name_in_folder(of: Fingerprint, number: int = 1) -> str:
    return f"{of.head}-{of.digest}{f'-{number}' if number > 1 else ''}.json"


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """Return what distinguishes one state of a file from the next, None = no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
