"""Spool what is read from a ring to disk, so that it can be saved while it grows.

A ring forgets what its reader has consumed. The reader therefore appends every record
and event, unchanged, to the folder that the capture tool calls a recording: from it the
tool writes records of 256 bytes and their sidecar, at any moment, and after a crash of
the viewer too. Another process that reads a ring spools it itself; whoever watches that
recording mirrors it, and has a copy when the process removes it.
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
from ggscope.model.record_kinds import counted_text
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
_MIN_FREE_BYTES = 1 << 30
"""Nothing is spooled to a disk with less free space."""
_CHECK_BYTES = 1 << 26
"""So many bytes are written between two checks of the free space."""
_COPY_BYTES = 1 << 20
_POLL_S = 0.03
_STREAMS = ("records", "events", "definitions")
_PAGES = ("control", "lanes")
"""Pages of the ring itself, copied when the program has ended."""
_MAX_FACTS_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Saved:
    """What was written.

    Attributes
    ----------
    records : of ops; -1 = a file was copied as it is, and its records are not counted.
    lost : records that the full ring dropped or that were overwritten unread; -1 =
        unknown.
    lists : records that list choices of experts.
    """

    path: Path
    records: int = -1
    lost: int = -1
    lists: int = 0

    @property
    def by_kind(self) -> dict[str, int]:
        """Number of records by kind."""
        return {"ops": self.records, "lists of experts": self.lists}

    def text(self) -> str:
        """Return "saved as run.bin: 2,910 ops, none lost"."""
        text = f"saved as {one_line(str(self.path))}"
        if self.records >= 0:
            text += f": {counted_text(0, self.by_kind)}"
        if self.lost >= 0:
            text += f", {format_count(self.lost) if self.lost else 'none'} lost"
        return text


class RecordingWriter:
    """Spools one ring to a recording, until that is removed.

    The recording that a killed reader of the same ring has left is resumed: then one
    recording holds all that was ever consumed, and stays as long as the ring does.

    Attributes
    ----------
    folder : the recording.
    is_resumed : whether another reader began it.
    why : why writing has stopped early; "" = it has not.
    """

    def __init__(self, ring: Path, identity: bytes, dropped: int = 0) -> None:
        """Begin a recording, or resume one.

        Parameters
        ----------
        identity : of the ring.
        dropped : records that the traced program has dropped so far.

        Raises
        ------
        OSError
            If the disk is full.
        """
        self.why = ""
        self._files: list[BinaryIO] = []
        self._losses = (-1, -1)
        # Other facts that a killed reader has written: settings, their changes.
        self._other_facts, self._facts_size = "", 0
        self._until_check = 0
        self._tail: _Tail | None = None
        self._seen = SeenDefinitions()
        self._n_unwritten = 0
        self._ring, self._identity = ring, identity.hex()
        abandoned = _abandoned_recording(ring, self._identity, self._files)
        self.is_resumed = abandoned is not None
        place = abandoned or _make_folder(self._identity)
        self._place, self.folder = place, place.path
        # Also where nobody calls `remove`.
        self._remove = weakref.finalize(
            self, _release, self._files, place, self._identity,
            None if abandoned is None else ring,
        )  # fmt: skip
        self._has_note = False
        try:
            if abandoned is None:
                place.write("ring", os.fsencode(ring.resolve()))
                for name in ("facts", *_STREAMS):
                    descriptor = place.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
                    self._files.append(os.fdopen(descriptor, "r+b", buffering=0))
                _write(self._files[3], defs_head(identity))
                _lock(self._files[0])
                self.note_losses(0, 0)
            else:
                self._resume(ring.stat().st_size, dropped)
            # The note of another reader's recording stays: it is found by that.
            if abandoned is not None or other_recording(ring, identity) is None:
                # Without a note the recording can be saved all the same.
                self._has_note = write_note(ring, self.folder, self._identity)
        except OSError:
            self.remove()
            raise

    def _resume(self, limit: int, dropped: int) -> None:
        """Resume a recording, of which at most `limit` bytes are in the ring still."""
        place = self._place
        for name in _PAGES:  # of a ring that had ended
            place.drop(name)
        flags = os.O_RDWR | os.O_APPEND
        for name in _STREAMS:
            more = os.O_CREAT if name == "definitions" else 0
            descriptor = place.open(name, flags | more)
            self._files.append(os.fdopen(descriptor, "a+b", buffering=0))
        facts, records, events, definitions = self._files
        size = records.seek(0, os.SEEK_END)
        size -= size % RECORD.itemsize
        records.truncate(size)
        records.seek(-min(size, limit), os.SEEK_END)
        waiting = np.frombuffer(records.read(), RECORD)
        data = place.read("events")
        end = max((at for _, at in frames(data)), default=0)
        events.truncate(end)
        self._resume_definitions(definitions)
        for file in (records, events):
            file.seek(0, os.SEEK_END)
        self._tail = _Tail(waiting, data[max(end - limit, 0) : end])
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            facts.seek(0)
            content = facts.read(_MAX_FACTS_BYTES)
            values = json.loads(content)
            # The traced program counts all that it has dropped, for every reader.
            self._n_unwritten = max(int(values["lost"]) - dropped, 0)
            others = {k: v for k, v in values.items() if not k.startswith("lost")}
            self._other_facts = f", {json.dumps(others)[1:-1]}" if others else ""
            self._facts_size = len(content)

    def _resume_definitions(self, file: BinaryIO) -> None:
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

    def append(self, taken: Taken) -> None:
        """Write what is new; the ring may overwrite it after that.

        What comes after writing has stopped counts as lost.
        """
        records, events = taken.records, taken.events
        if self._tail is not None:
            records, events = self._tail.without(records, events)
            self._tail = None
        self._n_unwritten += len(records)
        if self.why:
            return
        begin = self._files[1].tell()
        definitions = b"".join(
            frame.packed()
            for frame, _ in frames(taken.definitions)
            if frame is not None and self._seen.is_new(frame)
        )
        self._until_check -= records.nbytes + len(events) + len(definitions)
        try:
            if self._until_check <= 0:
                self._until_check = _CHECK_BYTES
                disk = os.statvfs(self.folder)
                if disk.f_bavail * disk.f_frsize < _MIN_FREE_BYTES:
                    self._give_up(f"less than {format_bytes(_MIN_FREE_BYTES)} is free")
                    return
            # Definitions first: a reader of records needs them.
            if definitions:
                _write(self._files[3], definitions)
            if events:
                _write(self._files[2], events)
            if len(records):
                _write(self._files[1], records.view(np.uint8).data)
        except OSError as error:
            self._give_up(error.strerror or str(error))
        self._n_unwritten -= (self._files[1].tell() - begin) // RECORD.itemsize

    def note_losses(self, lost: int, lost_events: int) -> None:
        """Write how much this reader knows to be lost so far."""
        lost += self._n_unwritten
        if self._losses == (lost, lost_events) or len(self._files) < 4:
            return
        self._losses = (lost, lost_events)
        # Of one length, so that a reader sees the old or the new values.
        losses = f'"lost": {lost:>20}, "lost_events": {lost_events:>20}'
        text = f"{{{losses}{self._other_facts}}}"
        self._files[0].seek(0)
        with contextlib.suppress(OSError):
            self._files[0].write(text.encode().ljust(self._facts_size))

    def finish(self, ring: Ring) -> None:
        """Copy the pages of the ring itself, which goes away with its program."""
        with contextlib.suppress(OSError):
            pages = ring.pages() if ring.is_whole() else {}
            for name, content in pages.items():
                self._place.write(name, content)

    def remove(self) -> None:
        """Remove the recording."""
        self._remove()
        if self._has_note and not (self.folder.exists() and self._ring.exists()):
            remove_note(self._ring, self._identity)

    def _give_up(self, reason: str) -> None:
        self.why = (
            f"recording stopped, new records cannot be saved: {reason} in "
            f"{one_line(str(self.folder.parent))}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Tail:
    """The last records and events of a killed reader.

    The ring may not know yet that they were consumed: then they come again, first.
    """

    records: Array
    events: bytes

    def without(self, records: Array, events: bytes) -> tuple[Array, bytes]:
        """Return the records and events that are not in it."""
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
    """Mirrors a recording that another process writes and will remove.

    Its files are held open: they stay readable after they are removed, and take no
    space twice.

    Attributes
    ----------
    folder : the recording of the other process.
    """

    def __init__(self, ring: Path, place: RecordingFolder, identity: bytes) -> None:
        """Open the files; raises OSError."""
        self.folder, self._place = place.path, place
        self._identity = identity.hex()
        self._files: list[BinaryIO] = []
        self._copy: Path | None = None
        self._facts = b""
        try:
            for name in _STREAMS:
                # An older tool writes definitions at its end; its ring has them all.
                is_in_ring = name == "definitions" and not place.has(name)
                descriptor = (
                    open_regular(defs_of(ring)) if is_in_ring else place.open(name)
                )
                self._files.append(os.fdopen(descriptor, "rb"))
            self.update()
        except OSError:
            _release(self._files)
            raise
        self._remove = weakref.finalize(self, _release, self._files)

    def update(self) -> None:
        """Read how much the other process has lost so far."""
        with contextlib.suppress(OSError):
            self._facts = self._place.read("facts", _MAX_FACTS_BYTES) or self._facts

    def copy(self, ring: Ring) -> Path | None:
        """Return a copy of the recording of a program that has ended.

        None where the system gives open files no names, or the disk is full.
        """
        names = Path(f"/proc/{os.getpid()}/fd")
        if self._copy is not None or not names.is_dir() or not self._facts:
            return self._copy
        self.update()
        try:
            place = _make_folder(self._identity)
        except OSError:
            return None
        self._remove.detach()
        self._remove = weakref.finalize(
            self, _release, self._files, place, self._identity
        )
        try:
            for name, file in zip(_STREAMS, self._files, strict=True):
                place.link(name, names / str(file.fileno()))
            place.write("facts", self._facts)
            pages = ring.pages()
            for name in ("lanes", "control"):
                place.write(name, pages[name])
        except OSError:
            return None
        self._copy = place.path
        return self._copy

    def remove(self) -> None:
        """Close the files."""
        self._remove()
        self._place.close()


class RecordedBuilds:
    """Graph builds that another process has read from a ring, in its recording.

    Attributes
    ----------
    folder : the recording.
    """

    def __init__(self, place: RecordingFolder) -> None:
        self.folder, self._place = place.path, place
        self._places: dict[int, tuple[int, int]] = {}
        self._end = DEFS_HEAD_BYTES

    def find(self, number: int) -> list[Frame]:
        """Return the frame of a build, after that of the build that it is like."""
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
        """Index the builds that were added since the last scan."""
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
        parsed = next(frames(file.read(size)), None) if size else None
        return None if parsed is None else parsed[0]


def _make_folder(identity: str) -> RecordingFolder:
    """Make a folder for the recording of a ring; raises OSError."""
    folder = Path("/var/tmp")
    has_place = os.access(folder, os.W_OK | os.X_OK)
    # A disk, where there is one: the usual folder may be memory.
    base = folder if has_place else Path(tempfile.gettempdir())
    sweep_recordings(base)
    return RecordingFolder.make(base, _PREFIX, identity)


def _release(
    files: list[BinaryIO],
    place: RecordingFolder | None = None,
    identity: str = "",
    ring: Path | None = None,
) -> None:
    """Remove a recording; of a `ring` that still exists, only the copied pages."""
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


def _abandoned_recording(
    ring: Path, identity: str, files: list[BinaryIO]
) -> RecordingFolder | None:
    """Return the recording of this ring that no process writes, with its facts locked.

    Only of the ring at this path: a copy of a ring has its identity, too.
    """
    if sys.platform == "win32":
        return None
    place = folder_of(ring, identity)
    if place is None:
        return None
    try:
        if place.ring() != ring.resolve() or not all(map(place.has, _STREAMS[:2])):
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
    """Lock a file for this process while it is open; return whether that succeeded."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def sweep_recordings(base: Path) -> None:
    """Remove recordings that killed viewers left of rings that are gone.

    They lack their last part, so that no trace can be made of them.
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
    """Return whether no process writes a recording and no trace can be made of it.

    Raises
    ------
    OSError
        If its files cannot be read.
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


def other_recording(ring: Path, identity: bytes) -> Path | None:
    """Return the folder to which another process records a ring; None without one.

    A recording of an earlier ring of the same name does not count.
    """
    place = folder_of(ring, identity.hex())
    if place is None:
        return None
    place.close()
    return place.path


def save_recording(
    recording: RecordingLocation,
    target: Path,
    report: Callable[[int, int], None],
    check: Callable[[], None],
) -> Saved:
    """Save a recording as far as it goes to a file, whole or not at all.

    Parameters
    ----------
    report : takes how much is done, and of how much.
    check : raises an exception to cancel.

    Raises
    ------
    LiveError
        If there is nothing to write, or the capture tool does not write it.
    WriteError
        If a file cannot be copied.
    """
    if recording.place is None:
        raise LiveError(recording.why)
    if recording.n_bytes >= 0:
        write_file(target, _chunks(recording.place, recording.n_bytes, report, check))
        return Saved(target)
    running = Running(["save", str(recording.place), "-o", str(target), "--json"])
    output, errors = "", ""
    try:
        while True:
            status = running.status()  # first, so that all its output is there
            for is_error, text in running.read_output():
                if is_error:
                    errors += text
                else:
                    output += text
            *lines, output = output.split("\n")
            for line in lines:
                message = json.loads(line)
                if "written" in message:
                    n_lists = int(message.get("extension_records", 0))
                    n_ops, n_lost = int(message["records"]), int(message["lost"])
                    return Saved(target, n_ops, n_lost, n_lists)
                report(int(message["done"]), int(message["of"]))
            if status is not None:
                reasons = errors.strip().splitlines()[-1:]
                reason = reasons[0] if reasons else f"ended with {status}"
                raise LiveError(reason.removeprefix(f"{TOOL}: "))
            check()
            time.sleep(_POLL_S)
    except (ValueError, KeyError, TypeError) as error:
        raise LiveError(f"{TOOL} did not answer: {error}") from error
    finally:
        running.detach()


def _chunks(
    path: Path,
    n_bytes: int,
    report: Callable[[int, int], None],
    check: Callable[[], None],
) -> Iterator[bytes]:
    done = 0
    with open_for_reading(path, follows_links=True) as file:
        while chunk := file.read(min(_COPY_BYTES, n_bytes - done)):
            check()
            done += len(chunk)
            report(done, n_bytes)
            yield chunk
    if done < n_bytes:
        raise LiveError(f"{path} is shorter than the part read from it")
