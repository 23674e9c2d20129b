"""Bookmark files: what is kept of the bookmarks of one trace, and where.

A file is one JSON object::

    {"ggscope": "bookmarks", "version": 1, "unit": "ns",
     "trace": {"name": …, "size": …, "head": …, "digest": …},
     "bookmarks": [{"id": …, "name": …, "start": …, "end": …, "note": …,
                    "what": …, "lane": …, "changed": …}],
     "deleted": {id: …},
     "lanes": {key: {"name": …, "changed": …}}}

`start` and `end` are values of the trace's own clock; `changed` and those of `deleted`
are milliseconds since 1970. `lanes` are those that the person renamed; "" = its own
name again. Anybody may have written such a file: whatever does not
fit is left out and counted, and a file that is something else is not touched.

It lies beside the trace, or in a folder of the person's own. There a trace is found
again by its fingerprint, wherever it is moved: by what it holds.
"""

import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from ggscope.atomic_write import locked, make_folder, write_file
from ggscope.errors import TraceError, WriteError
from ggscope.model.units import TimeRange, Unit
from ggscope.sanitize import one_line
from ggscope.session.bookmarks.bookmarks import MAX_NAME, MAX_NOTE, Bookmark, clean_line
from ggscope.session.tasks import TaskContext

VERSION = 1
SUFFIX = ".ggscope.json"
MAX_BYTES = 4 << 20
MAX_ENTRIES = 5000
_MAX_TICK = 1 << 62
_MAX_KEY = 400
"""Letters of the key of a lane."""
_ID = re.compile(r"[0-9a-f]{16}")
_HASH = re.compile(r"[0-9a-f]{16}(?:[0-9a-f]{16})?")
_WHOLE_BYTES = 1 << 20
"""Files up to this size are read as a whole."""
_EDGE_BYTES = 64 << 10
_SAMPLE_BYTES = 4 << 10
_N_SAMPLES = 62
HEAD_BYTES = 4 << 10
_MAX_CANDIDATES = 16
"""Files of one beginning that are looked at for a trace that has grown."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a file holds, in a few bytes.

    Attributes
    ----------
    size : bytes of the file, or of the part of it that was looked at.
    head : hash of the first 4 KiB, 16 hexadecimal digits: the same while a file
        grows at its end.
    digest : hash of the size, both ends and 62 samples between them, 32 digits; of
        all of a file of up to 1 MiB.
    """

    size: int
    head: str
    digest: str


def fingerprint(path: Path, size: int | None = None) -> Fingerprint:
    """Return the fingerprint of a file, or of its first `size` bytes.

    Raises
    ------
    OSError
        If it cannot be read, is no ordinary file, or is shorter than `size`.

    Notes
    -----
    Reads at most 1 MiB, of a file of 100 GB about 380 KiB.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb", buffering=0) as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path} is no ordinary file")
        whole = status.st_size if size is None else size
        if whole > status.st_size:
            raise OSError(f"{path} has less than {whole} bytes")
        digest = hashlib.sha256(whole.to_bytes(8, "little"))
        head = b""
        for start, end in _pieces(whole):
            file.seek(start)
            piece = file.read(end - start)
            head = head or piece[:HEAD_BYTES]
            digest.update(piece)
    short = hashlib.sha256(head).hexdigest()[:16]
    return Fingerprint(whole, short, digest.hexdigest()[:32])


def is_of(path: Path, known: Fingerprint) -> bool:
    """Tell whether a file is the one of a fingerprint, or has grown from it.

    Raises OSError where it cannot be read.
    """
    size = path.stat().st_size
    if known.size > size or (known.size < HEAD_BYTES and known.size != size):
        return False
    return fingerprint(path, known.size) == known


def _pieces(size: int) -> list[tuple[int, int]]:
    """Return (start, end) of the bytes that count, in order, without overlaps."""
    if size <= _WHOLE_BYTES:
        return [(0, size)]
    first, last = _EDGE_BYTES, size - _EDGE_BYTES
    step = (last - first) // (_N_SAMPLES + 1)
    samples = [
        (first + step * n, first + step * n + _SAMPLE_BYTES)
        for n in range(1, _N_SAMPLES + 1)
    ]
    return [(0, first), *samples, (last, size)]


class BookmarkFileError(TraceError):
    """A file is there that does not hold bookmarks which this program can read."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A kept bookmark, its time in values of the trace's own clock.

    `changed` : when it was made or changed last, milliseconds since 1970.
    """

    bookmark: Bookmark
    changed: int


@dataclass(frozen=True, slots=True)
class BookmarkSet:
    """The bookmarks of one trace, and which ones were deleted when.

    Attributes
    ----------
    entries : in the person's order.
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
    """What a file says.

    Attributes
    ----------
    of : the trace that it belongs to.
    unit : of the times.
    n_bad : entries that make no sense and were left out.
    """

    of: Fingerprint
    unit: Unit
    kept: BookmarkSet
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
    kept = tuple(e for name, e in entries.items() if e.changed > deleted.get(name, -1))
    alive = {e.bookmark.id for e in kept}
    gone = sorted(deleted.items(), key=lambda item: -item[1])
    return BookmarkSet(
        kept, dict([(n, t) for n, t in gone if n not in alive][:MAX_ENTRIES]), names
    )


def _rank(entry: Entry) -> tuple[int, str, str, TimeRange]:
    """Return what makes one of two versions the later one, in every window."""
    mark = entry.bookmark
    return entry.changed, mark.name, mark.note, mark.time


def to_bytes(kept: BookmarkSet, of: Fingerprint, unit: Unit, trace_name: str) -> bytes:
    """Return the content of a file."""
    content: dict[str, object] = {
        "ggscope": "bookmarks",
        "version": VERSION,
        "unit": unit,
        "trace": {
            "name": clean_line(trace_name, MAX_NAME),
            "size": of.size,
            "head": of.head,
            "digest": of.digest,
        },
        "bookmarks": [
            {
                "id": e.bookmark.id,
                "name": e.bookmark.name,
                "start": e.bookmark.time.start,
                "end": e.bookmark.time.end,
                "note": e.bookmark.note,
                "what": e.bookmark.what,
                "lane": e.bookmark.lane,
                "changed": e.changed,
            }
            for e in kept.entries[:MAX_ENTRIES]
        ],
        "deleted": dict(kept.deleted),
    }
    if kept.lane_names:
        content["lanes"] = {
            key: {"name": name, "changed": when}
            for key, (when, name) in list(kept.lane_names.items())[:MAX_ENTRIES]
        }
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def read_bookmarks(path: Path) -> BookmarkFile | None:
    """Return what a file says, None where there is no file.

    Raises
    ------
    BookmarkFileError
        If it is a link, no ordinary file, too large, written by a newer version, or
        something else than bookmarks.
    """
    try:
        flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        if os.path.islink(path):
            raise BookmarkFileError("it is a link")
        handle = os.open(path, os.O_RDONLY | flags)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise BookmarkFileError("it is no ordinary file")
            with os.fdopen(handle, "rb", closefd=False) as file:
                content = file.read(MAX_BYTES + 1)
        finally:
            os.close(handle)
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
        raise BookmarkFileError("it is no JSON") from error
    if not isinstance(data, dict) or data.get("ggscope") != "bookmarks":
        raise BookmarkFileError("it holds something else")
    version = data.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise BookmarkFileError("a newer version of ggscope wrote it")
    of, unit, listed = (
        _fingerprint(data.get("trace")),
        data.get("unit"),
        data.get("bookmarks"),
    )
    if of is None or unit not in ("ns", "cycle") or not isinstance(listed, list):
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
    name, note, what = (
        clean_line(text, length)
        for text, length in zip(texts, (MAX_NAME, MAX_NOTE, MAX_NAME), strict=False)
    )
    mark = Bookmark(
        name or "Bookmark",
        TimeRange(start, end),
        note=note,
        what=what,
        lane=texts[3][:MAX_NAME],
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
    found: dict[str, tuple[int, str]] = {}
    for key, given in islice(value.items(), MAX_ENTRIES):
        name = given.get("name") if isinstance(given, dict) else None
        if isinstance(name, str) and len(key) <= _MAX_KEY:
            when = _moment(given.get("changed"), limit)
            found[key] = when, clean_line(name, MAX_NAME)
    return found


def side_car(path: Path) -> Path:
    """Return the name of the bookmark file beside a trace."""
    return path.with_name(path.name + SUFFIX)


@dataclass(frozen=True, slots=True)
class BookmarkStorage:
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

    shelf: BookmarkStorage

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
            problem = (
                f"{n_bad} {word} of its bookmark file left out: they make no sense, or "
                "are more than fit."
            )
        return Found(merged(BookmarkSet(), *sets), of, place, foreign, problem)


@dataclass(frozen=True, slots=True)
class SaveResult:
    """How keeping went.

    Attributes
    ----------
    kept : the bookmarks now, with what other windows added.
    place : the file that has them, None = none was written.
    stamp : of that file; see `stamp_of`.
    is_elsewhere : whether they should lie beside the trace and cannot.
    is_taken : whether that is for a file that lies there and is not theirs.
    """

    kept: BookmarkSet
    of: Fingerprint
    place: Path | None
    stamp: tuple[int, int, int] | None = None
    is_elsewhere: bool = False
    is_taken: bool = False


@dataclass(frozen=True, slots=True)
class KeepRequest:
    """Keeps the bookmarks of a trace, merged with what is there; runs on a worker.

    Raises WriteError where the trace cannot be read any more, or nothing can be
    written.
    """

    shelf: BookmarkStorage
    ours: BookmarkSet

    def __call__(self, context: TaskContext | None = None) -> SaveResult:
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
        can_write = shelf.is_beside and can_lie_beside(shelf.path)
        is_taken = can_write and not _is_ours_beside(shelf)
        if can_write and not is_taken:
            try:
                return self._write(side_car(shelf.path), of)
            except WriteError:
                if shelf.folder is None:
                    raise
        has_folder = shelf.folder is not None and os.path.exists(shelf.folder)
        if shelf.folder is None or not (has_folder or self.ours):
            return SaveResult(self.ours, of, None, None, shelf.is_beside, is_taken)
        make_folder(shelf.folder)
        kept = self._write(shelf.folder / _own_name(of), of)
        return replace(kept, is_elsewhere=shelf.is_beside, is_taken=is_taken)

    def _write(self, target: Path, of: Fingerprint) -> SaveResult:
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
        return SaveResult(kept, of, target, stamp_of(target))


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
    return (
        os.path.isfile(path) and is_short and os.access(path.parent, os.W_OK | os.X_OK)
    )


def _own_name(of: Fingerprint) -> str:
    return f"{of.head}-{of.digest}.json"


def _beside(
    shelf: BookmarkStorage,
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


def _own(
    shelf: BookmarkStorage, of: Fingerprint
) -> Iterator[tuple[Path, BookmarkFile]]:
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


def _is_ours_beside(shelf: BookmarkStorage) -> bool:
    """Tell whether the file beside the trace is ours to write: none, or about it."""
    beside, _, _ = _beside(shelf)
    return bool(beside) or not os.path.lexists(side_car(shelf.path))
