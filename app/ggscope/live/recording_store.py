"""What was taken out of a ring is kept, so that it can be saved while it grows.

A ring forgets what its reader has taken. The reader therefore keeps every record and
event as it came, in the folder that the capture tool calls a recording: the tool writes
records of 256 bytes and their sidecar of it, at any moment, and after a crash of the
viewer too. What another process takes out of a ring is kept by that process, until it
has written it; whoever watched holds on to it from then on.
"""

import contextlib
import json
import mmap
import os
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ggscope.atomic_write import write_file
from ggscope.errors import LiveError
from ggscope.live.launcher import TOOL, Running
from ggscope.live.recording_folder import (
    FOLDER_SUFFIX,
    RecordingFolder,
    folder_of,
    remove_note,
    write_note,
)
from ggscope.live.regular_file import open_for_reading, open_regular
from ggscope.live.ring import DEFS_HEAD_BYTES, RECORD, Ring, Taken, defs_of
from ggscope.live.source import RecordingLocation
from ggscope.model.record_kinds import counted_words
from ggscope.model.tables import Array
from ggscope.model.units import format_bytes, format_count
from ggscope.sanitize import one_line
from ggscope_capture.ring_format import (
    FRAME_HEAD,
    DefBuild,
    DefLike,
    Frame,
    FrameType,
    RingError,
    SeenDefinitions,
    defs_head,
    frames,
    size_of,
    unpack,
)

if sys.platform != "win32":
    import fcntl

_PREFIX = "ggscope-kept-"
_LEFT_BYTES = 1 << 30
"""A disk with less room than this is left alone."""
_LOOK_BYTES = 1 << 26
_COPY_BYTES = 1 << 20
_POLL_S = 0.03
_HELD = ("records", "events", "definitions")
_PAGES = ("control", "lanes")
"""What a recording has of the ring itself, when it is over."""
_MAX_FACTS_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Saved:
    """What was written.

    Attributes
    ----------
    records : of ops; -1 = a file was copied as it is, and its records are not counted.
    lost : records that the ring had no room for or that were written over unread; -1
        = not told.
    lists : records that list choices of experts.
    """

    path: Path
    records: int = -1
    lost: int = -1
    lists: int = 0

    @property
    def by_kind(self) -> dict[str, int]:
        """How many records are of what."""
        return {"ops": self.records, "lists of experts": self.lists}

    def words(self) -> str:
        """Return it in words."""
        told = f"saved as {one_line(str(self.path))}"
        if self.records >= 0:
            told += f": {counted_words(0, self.by_kind)}"
        if self.lost >= 0:
            told += f", {format_count(self.lost) if self.lost else 'none'} lost"
        return told


class RecordingWriter:
    """Keeps what one ring tells, until it is removed.

    What a reader that was killed has kept of the same ring is gone on with: then there
    is one recording, of all that was ever taken out. As long as the ring is there such
    a recording stays.

    Attributes
    ----------
    folder : the recording.
    goes_on : whether somebody else began it.
    why : why keeping has ended before its time; "" = it goes on.
    """

    def __init__(self, ring: Path, identity: bytes, dropped: int = 0) -> None:
        """Begin, or go on.

        Parameters
        ----------
        identity : of the ring.
        dropped : records that the writer has not placed so far.

        Raises
        ------
        OSError
            If there is no room.
        """
        self.why = ""
        self._files: list[BinaryIO] = []
        self._told = (-1, -1)
        # What else a reader that was killed has noted: settings, their changes.
        self._noted, self._noted_size = "", 0
        self._until_look = 0
        self._left: _Left | None = None
        self._seen = SeenDefinitions()
        self._unkept = 0
        self._ring, self._identity = ring, identity.hex()
        left = _left_of(ring, self._identity, self._files)
        self.goes_on = left is not None
        place = left or _made_folder(self._identity)
        self._place, self.folder = place, place.path
        # Also where nobody says that it is to go.
        self._remove = weakref.finalize(
            self, _let_go, self._files, place, self._identity,
            None if left is None else ring,
        )  # fmt: skip
        self._has_note = False
        try:
            if left is None:
                place.write("ring", os.fsencode(ring.resolve()))
                for name in ("facts", *_HELD):
                    descriptor = place.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
                    self._files.append(os.fdopen(descriptor, "r+b", buffering=0))
                _write(self._files[3], defs_head(identity))
                _lock(self._files[0])
                self.tell(0, 0)
            else:
                self._go_on(ring.stat().st_size, dropped)
            # What somebody else has taken is found by its own note: it stays.
            if left is not None or kept_elsewhere(ring, identity) is None:
                # Where there can be none, it is saved all the same.
                self._has_note = write_note(ring, self.folder, self._identity)
        except OSError:
            self.remove()
            raise

    def _go_on(self, most: int, dropped: int) -> None:
        """Go on with a recording; not more than `most` bytes of it wait in the ring."""
        place = self._place
        for name in _PAGES:  # as if it had come to its end
            place.drop(name)
        flags = os.O_RDWR | os.O_APPEND
        for name in _HELD:
            more = os.O_CREAT if name == "definitions" else 0
            descriptor = place.open(name, flags | more)
            self._files.append(os.fdopen(descriptor, "a+b", buffering=0))
        facts, records, events, definitions = self._files
        size = records.seek(0, os.SEEK_END)
        size -= size % RECORD.itemsize
        records.truncate(size)
        records.seek(-min(size, most), os.SEEK_END)
        waiting = np.frombuffer(records.read(), RECORD)
        data = place.read("events")
        end = max((at for _, at in frames(data)), default=0)
        events.truncate(end)
        self._go_on_with_definitions(definitions)
        for file in (records, events):
            file.seek(0, os.SEEK_END)
        self._left = _Left(waiting, data[max(end - most, 0) : end])
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            facts.seek(0)
            content = facts.read(_MAX_FACTS_BYTES)
            told = json.loads(content)
            # The writer tells all that it could not place, whoever listens.
            self._unkept = max(int(told["lost"]) - dropped, 0)
            others = {k: v for k, v in told.items() if not k.startswith("lost")}
            self._noted = f", {json.dumps(others)[1:-1]}" if others else ""
            self._noted_size = len(content)

    def _go_on_with_definitions(self, file: BinaryIO) -> None:
        if file.seek(0, os.SEEK_END) < DEFS_HEAD_BYTES:
            # An older tool wrote them at its end.
            file.truncate(0)
            _write(file, defs_head(bytes.fromhex(self._identity)))
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            last = DEFS_HEAD_BYTES
            for frame, end in frames(content, DEFS_HEAD_BYTES):
                last = end
                if frame is not None:
                    self._seen.is_new(frame)
        file.truncate(last)

    def keep(self, taken: Taken) -> None:
        """Keep what is new; it may be written over in the ring after that.

        What comes when keeping has ended counts as lost.
        """
        records, events = taken.records, taken.events
        if self._left is not None:
            records, events = self._left.without(records, events)
            self._left = None
        self._unkept += len(records)
        if self.why:
            return
        begin = self._files[1].tell()
        definitions = b"".join(
            frame.packed()
            for frame, _ in frames(taken.definitions)
            if frame is not None and self._seen.is_new(frame)
        )
        self._until_look -= records.nbytes + len(events) + len(definitions)
        try:
            if self._until_look <= 0:
                self._until_look = _LOOK_BYTES
                found = os.statvfs(self.folder)
                if found.f_bavail * found.f_frsize < _LEFT_BYTES:
                    self._give_up(f"less than {format_bytes(_LEFT_BYTES)} is free")
                    return
            # Whoever reads records knows then what they belong to.
            if definitions:
                _write(self._files[3], definitions)
            if events:
                _write(self._files[2], events)
            if len(records):
                _write(self._files[1], records.view(np.uint8).data)
        except OSError as error:
            self._give_up(error.strerror or str(error))
        self._unkept -= (self._files[1].tell() - begin) // RECORD.itemsize

    def tell(self, lost: int, lost_events: int) -> None:
        """Note what this reader knows to be lost so far."""
        lost += self._unkept
        if self._told == (lost, lost_events) or len(self._files) < 4:
            return
        self._told = (lost, lost_events)
        # Of one length: who reads it meanwhile finds one or the other.
        text = f'{{"lost": {lost:>20}, "lost_events": {lost_events:>20}{self._noted}}}'
        self._files[0].seek(0)
        with contextlib.suppress(OSError):
            self._files[0].write(text.encode().ljust(self._noted_size))

    def finish(self, ring: Ring) -> None:
        """Keep what the ring itself tells: it will not be there any more."""
        with contextlib.suppress(OSError):
            pages = ring.pages() if ring.is_whole() else {}
            for name, content in pages.items():
                self._place.write(name, content)

    def remove(self) -> None:
        """Let go of all that was kept."""
        self._remove()
        if self._has_note and not (self.folder.exists() and self._ring.exists()):
            remove_note(self._ring, self._identity)

    def _give_up(self, reason: str) -> None:
        self.why = (
            f"what comes is kept no longer, so that it cannot be saved: {reason} in "
            f"{one_line(str(self.folder.parent))}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Left:
    """The end of what a reader that was killed has kept.

    The writer may not have learned that room is free: then it comes again, and first.
    """

    records: Array
    events: bytes

    def without(self, records: Array, events: bytes) -> tuple[Array, bytes]:
        """Return what it does not have of the first records and events that come."""
        last = np.full(1 << 16, -1, np.int64)
        np.maximum.at(last, self.records["lane"], self.records["t0"].astype(np.int64))
        is_new = records["t0"].astype(np.int64) > last[records["lane"]]
        _, first = next(frames(events), (None, 0))
        at = self.events.rfind(events[:first]) if first else -1
        n = len(self.events) - at
        if at >= 0 and events[:n] == self.events[at:]:
            events = events[n:]
        return records[is_new], events


class RecordingMirror:
    """Holds on to what another process keeps of a ring and will remove.

    Its files are held open: what is written to them until they are removed is there
    afterwards, too, and takes no room twice.

    Attributes
    ----------
    folder : the recording of the other process.
    """

    def __init__(self, ring: Path, place: RecordingFolder, identity: bytes) -> None:
        """Take hold; raises OSError where that cannot be."""
        self.folder, self._place = place.path, place
        self._identity = identity.hex()
        self._files: list[BinaryIO] = []
        self._own: Path | None = None
        self._facts = b""
        try:
            for name in _HELD:
                # An older tool writes definitions at its end, and its ring keeps all.
                is_in_ring = name == "definitions" and not place.has(name)
                descriptor = (
                    open_regular(defs_of(ring)) if is_in_ring else place.open(name)
                )
                self._files.append(os.fdopen(descriptor, "rb"))
            self.look()
        except OSError:
            _let_go(self._files)
            raise
        self._remove = weakref.finalize(self, _let_go, self._files)

    def look(self) -> None:
        """Note what the other process says was lost so far."""
        with contextlib.suppress(OSError):
            self._facts = self._place.read("facts", _MAX_FACTS_BYTES) or self._facts

    def own(self, ring: Ring) -> Path | None:
        """Return a recording of one's own, of a program that has ended.

        None where the system gives open files no names, or there is no room.
        """
        names = Path(f"/proc/{os.getpid()}/fd")
        if self._own is not None or not names.is_dir() or not self._facts:
            return self._own
        self.look()
        try:
            made = _made_folder(self._identity)
        except OSError:
            return None
        self._remove.detach()
        self._remove = weakref.finalize(
            self, _let_go, self._files, made, self._identity
        )
        try:
            for name, file in zip(_HELD, self._files, strict=True):
                made.link(name, names / str(file.fileno()))
            made.write("facts", self._facts)
            pages = ring.pages()
            for name in ("lanes", "control"):
                made.write(name, pages[name])
        except OSError:
            return None
        self._own = made.path
        return self._own

    def remove(self) -> None:
        """Let go of it."""
        self._remove()
        self._place.close()


class KeptBuilds:
    """Builds that another process took out of a ring, in its recording.

    Attributes
    ----------
    folder : the recording.
    """

    def __init__(self, place: RecordingFolder) -> None:
        self.folder, self._place = place.path, place
        self._places: dict[int, tuple[int, int]] = {}
        self._end = DEFS_HEAD_BYTES

    def find(self, number: int) -> list[Frame]:
        """Return what tells a build: its frame, and that of the one that it is like."""
        place = self._place
        try:
            with os.fdopen(place.open("definitions"), "rb") as file:
                if number not in self._places:
                    self._scan(file)
                frame, whole = self._frame(file, number), None
                if frame is not None and frame.type == FrameType.BUILD_LIKE:
                    like = unpack(DefLike, frame.body, size_of(DefBuild)).like
                    whole = self._frame(file, like)
        except (OSError, RingError):
            return []
        return [each for each in (whole, frame) if each is not None]

    def _scan(self, file: BinaryIO) -> None:
        """Note where each build is that was added since the last look."""
        while True:
            file.seek(self._end)
            head = file.read(20)
            if len(head) < 20:
                return
            size, kind, _, _ = FRAME_HEAD.unpack_from(head)
            if size < 8 or size % 8:
                return
            if kind in (FrameType.BUILD, FrameType.BUILD_LIKE):
                number = int.from_bytes(head[16:20], "little")
                known = self._places.get(number)
                if known is None or kind == FrameType.BUILD:
                    self._places[number] = (self._end, size)
            self._end += size

    def _frame(self, file: BinaryIO, number: int) -> Frame | None:
        begin, size = self._places.get(number, (0, 0))
        file.seek(begin)
        found = next(frames(file.read(size)), None) if size else None
        return None if found is None else found[0]


def _made_folder(identity: str) -> RecordingFolder:
    """Make a folder for the recording of a ring; raises OSError."""
    folder = Path("/var/tmp")
    has_place = os.access(folder, os.W_OK | os.X_OK)
    # A disk, where there is one: the usual folder may be memory.
    base = folder if has_place else Path(tempfile.gettempdir())
    _sweep(base)
    return RecordingFolder.make(base, _PREFIX, identity)


def _let_go(
    files: list[BinaryIO],
    place: RecordingFolder | None = None,
    identity: str = "",
    ring: Path | None = None,
) -> None:
    """Remove what is kept; of a `ring` that is still there only what ends it."""
    for file in files:
        file.close()
    files.clear()
    if place is None:
        return
    if ring is not None and ring.exists():
        for name in _PAGES:
            with contextlib.suppress(OSError):
                place.drop(name)
    elif ring is None or place.path.name.startswith(_PREFIX):
        place.remove(identity)
    place.close()


def _left_of(
    ring: Path, identity: str, files: list[BinaryIO]
) -> RecordingFolder | None:
    """Return the recording of this ring that nobody goes on with; its facts are taken.

    Only where it is of the ring at this place: a copy of a ring has its identity, too.
    """
    if sys.platform == "win32":
        return None
    place = folder_of(ring, identity)
    if place is None:
        return None
    try:
        if place.ring() != ring.resolve() or not all(map(place.has, _HELD[:2])):
            raise FileNotFoundError
        facts = os.fdopen(place.open("facts", os.O_RDWR), "r+b", buffering=0)
    except OSError:
        place.close()
        return None
    if not _lock(facts):
        facts.close()
        place.close()
        return None
    files.append(facts)
    return place


def _lock(file: BinaryIO) -> bool:
    """Take a file for this process as long as it is open; tell whether that went."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep(base: Path) -> None:
    """Remove what killed viewers left of rings that are gone: it lacks its last part.

    Nobody can make a trace of it.
    """
    for path in base.glob(f"{_PREFIX}*{FOLDER_SUFFIX}"):
        with contextlib.suppress(OSError):
            place = RecordingFolder(path)
            try:
                if _is_useless(place):
                    place.remove(place.identity())
            finally:
                place.close()


def _is_useless(place: RecordingFolder) -> bool:
    """Tell whether nobody writes a recording, or will be able to make a trace of it.

    Raises
    ------
    OSError
        If that cannot be known.
    """
    if place.holds_what_is_gone():
        return True
    ring = place.ring()
    if ring is None or ring.exists() or place.has("control"):
        return False
    with os.fdopen(place.open("facts"), "rb") as facts:
        return _lock(facts)


def _write(file: BinaryIO, content: bytes | memoryview) -> None:
    """Write all of it; a file without a buffer may take a part at a time."""
    view = memoryview(content)
    while view:
        view = view[file.write(view) :]


def kept_elsewhere(ring: Path, identity: bytes) -> Path | None:
    """Return the folder that another process keeps a ring's records in, if any.

    What a ring of the same name has left, which is another one, does not count.
    """
    place = folder_of(ring, identity.hex())
    if place is None:
        return None
    place.close()
    return place.path


def write_kept(
    kept: RecordingLocation,
    target: Path,
    tell: Callable[[int, int], None],
    check: Callable[[], None],
) -> Saved:
    """Write what was heard so far to a file, whole or not at all.

    Parameters
    ----------
    tell : takes how much is done, and of how much.
    check : raises what ends it, which passes.

    Raises
    ------
    LiveError
        If there is nothing to write, or the capture tool does not write it.
    WriteError
        If a file cannot be copied.
    """
    if kept.place is None:
        raise LiveError(kept.why)
    if kept.n_bytes >= 0:
        write_file(target, _pieces(kept.place, kept.n_bytes, tell, check))
        return Saved(target)
    running = Running(["save", str(kept.place), "-o", str(target), "--json"])
    said, complaint = "", ""
    try:
        while True:
            status = running.status()  # first: what it said last is there then
            for is_error, text in running.said():
                if is_error:
                    complaint += text
                else:
                    said += text
            *lines, said = said.split("\n")
            for line in lines:
                told = json.loads(line)
                if "written" in told:
                    n_lists = int(told.get("extension_records", 0))
                    n_ops, n_lost = int(told["records"]), int(told["lost"])
                    return Saved(target, n_ops, n_lost, n_lists)
                tell(int(told["done"]), int(told["of"]))
            if status is not None:
                words = complaint.strip().splitlines()[-1:] or [f"ended with {status}"]
                raise LiveError(words[0].removeprefix(f"{TOOL}: "))
            check()
            time.sleep(_POLL_S)
    except (ValueError, KeyError, TypeError) as error:
        raise LiveError(f"{TOOL} gave no answer: {error}") from error
    finally:
        running.let_go()


def _pieces(
    path: Path,
    n_bytes: int,
    tell: Callable[[int, int], None],
    check: Callable[[], None],
) -> Iterator[bytes]:
    done = 0
    with open_for_reading(path, follows_links=True) as file:
        while piece := file.read(min(_COPY_BYTES, n_bytes - done)):
            check()
            done += len(piece)
            tell(done, n_bytes)
            yield piece
    if done < n_bytes:
        raise LiveError(f"{path} has become shorter than what was read of it")
