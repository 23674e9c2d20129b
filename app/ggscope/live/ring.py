"""The ring of the capture library, read while a program writes it.

``ggscope_capture.ring_format`` has its layout. Every number in the file is another
program's, which may be broken, older or killed: what leads outside is unknown.
"""

import mmap
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ggscope.errors import LiveError
from ggscope.live.processes import is_alive, is_running
from ggscope.live.regular_file import (
    check_written,
    open_for_reading,
    open_regular,
)
from ggscope.live.source import NANO, now_ns
from ggscope.model.tables import I64, Array
from ggscope_capture.ring_format import (
    DEFS_MAGIC,
    DEFS_SUFFIX,
    MAX_LANES,
    MAX_RING_BYTES,
    RING_BYTE_ORDER,
    RING_MAGIC,
    RING_PAGE,
    RING_VERSIONS,
    DefsHeader,
    DefTensor,
    Frame,
    RingControl,
    RingFlag,
    RingLane,
    RingRecord,
    RingState,
    SeenDefinitions,
    fields,
    frames,
    size_of,
)

RECORD, TENSOR = np.dtype(fields(RingRecord)), np.dtype(fields(DefTensor))
_CONTROL, _LANE = np.dtype(fields(RingControl)), np.dtype(fields(RingLane))
_WORD = np.dtype("<u8")
"""What records are copied as: numpy copies those of a structure field by field."""
DEFS_HEAD_BYTES = size_of(DefsHeader)
_MAX_DEFS_BYTES = 1 << 28
"""So much of the definitions is read at a time."""
_MAX_COUNT = 1 << 56
_LAYOUT = ("version", "byte_order", "header_size", "record_size", "lane_size",
           "n_lanes", "lanes_offset", "lane_capacity", "records_offset",
           "events_offset", "events_capacity")  # fmt: skip
"""Fields of the first page that say where the others are."""
_NAME = re.compile(r"ggscope-(\d+)-")
"""Rings are named after the program, or after the launcher that records them."""


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """What a reader took out of a ring, as it was there, in whole frames.

    The writer learns that its room is free when it is in safety.
    """

    records: Array
    events: bytes
    definitions: bytes


@dataclass(frozen=True, slots=True, eq=False)
class RingBatch:
    """What is new in a ring.

    Attributes
    ----------
    lanes : numbers of the lanes with new records, ascending.
    records : theirs, lane by lane; `counts` says how many each has.
    gaps : (lane, how many were lost, before which of `records`) for each loss; the
        number of records where none came behind it yet.
    frames : definitions, then events.
    fill : share of the fullest lane's room that was full.
    """

    lanes: Array
    records: Array
    counts: I64
    gaps: tuple[tuple[int, int, int], ...]
    frames: tuple[Frame, ...]
    fill: float


class Ring:
    """An open ring.

    Whoever comes first empties it; others only look, and lose what is written over,
    until they `take_over` from one that was killed. One whose program has gone needs no
    room: it is left as it is, to be recovered.

    Attributes
    ----------
    is_owner : whether this reader empties it.
    owner : number of the user that the file is of.
    n_before : so many records had left the ring when this reader came; no more are in
        what it takes.
    damage : names of counters that cannot be; what they count is not known.
    """

    def __init__(self, path: Path) -> None:
        """Map the ring.

        Raises
        ------
        LiveError
            If the file is no ring, or none that can be read.
        OSError
            If it cannot be opened.
        """
        self.path = path
        self.damage: set[str] = set()
        try:
            descriptor, may_write = open_regular(path, os.O_RDWR), True
        except PermissionError:
            descriptor, may_write = open_regular(path), False
        try:
            status = os.fstat(descriptor)
            self.inode, self.owner = status.st_ino, status.st_uid
            if status.st_size < RING_PAGE:
                raise LiveError(f"{path}: shorter than the first page of a ring")
            access = mmap.ACCESS_WRITE if may_write else mmap.ACCESS_READ
            self._map = mmap.mmap(descriptor, status.st_size, access=access)
            try:
                self._open(status.st_size)
                check_written(descriptor, path, self._waiting_bytes())
            except (LiveError, OSError):
                self.close()
                raise
        finally:
            os.close(descriptor)
        self._may_write = may_write
        self.is_owner = may_write and self._is_free()
        self._frees_slots = self.is_owner and self.is_running()
        if self.is_owner:
            self._head["reader_pid"] = os.getpid()
        else:
            # What the owner has taken lies there until it is written over; some room
            # is left for what comes before the first look.
            n_kept = self._records.shape[1] * 15 // 16
            self._tail = np.maximum(self._lanes["head"].astype(np.int64) - n_kept, 0)
            self._events_tail = self.value("events_oldest")
        self.n_before = int(self._tail.sum())

    def take_over(self) -> bool:
        """Take over from a reader that is gone; return whether that happened now.

        That of a program that has gone is left as it is, as when it is opened.
        """
        if self.is_owner or not self._may_write or not self._is_free():
            return False
        try:
            is_there = os.stat(self.path).st_ino == self.inode
        except OSError:
            return False
        if not is_there:
            return False
        self.is_owner, self._frees_slots = True, self.is_running()
        self._head["reader_pid"] = os.getpid()
        return True

    def rest(self) -> None:
        """Let another reader empty the ring, until this one may `take_over`."""
        if self.is_owner and self.is_whole():
            self._head["reader_pid"] = 0
        self.is_owner = self._frees_slots = False

    def untaken(self) -> tuple[Taken, int]:
        """Return what this reader has, and the writer keeps.

        It lies in the ring until `release`. The number says how many of the records
        the writer has written over.
        """
        parts, capacity = [np.zeros(0, RECORD)], self._records.shape[1]
        may_lap, n_over = bool(self.value("flags") & RingFlag.OVERWRITE), 0
        for lane in range(len(self._lanes)):
            tail, stop = int(self._lanes["tail"][lane]), int(self._tail[lane])
            first = max(tail, stop - capacity)
            if first >= stop:
                continue
            part = self._copied(lane, first, stop)
            if may_lap:  # the one being written may lie over the oldest one
                oldest = int(self._lanes["head"][lane]) - capacity + 1
                safe = min(max(first, oldest), stop)
                part, first = part[safe - first :], safe
            n_over += first - tail
            parts.append(part)
        upto, self._events_tail = self._events_tail, self.value("events_tail")
        _, raw = self._events(upto)
        both = np.concatenate([np.ascontiguousarray(p).view(_WORD) for p in parts])
        definitions, _ = self._read_definitions(0, self._defs_at)
        return Taken(both.view(RECORD), raw, definitions), n_over

    def release(self) -> None:
        """Tell the writer that all that this reader has is taken: its room is free."""
        if self._frees_slots:
            self._lanes["tail"] = self._tail
            self._head["events_tail"] = self._events_tail
            self._head["defs_tail"] = self._defs_at

    @property
    def n_taken(self) -> int:
        """How many records have been taken out, by whomever."""
        return int(self._lanes["tail"].sum())

    @property
    def missed(self) -> int:
        """How many records this reader lost that the writer had placed."""
        pending = int((self._sane_dropped() - self._dropped).sum())
        return self.lost + pending - self.dropped

    def _is_free(self) -> bool:
        """Return whether nobody empties the ring, or is to."""
        owner = self.value("reader_pid")
        is_free = owner in (0, os.getpid()) or not is_alive(owner)
        return is_free and not self._has_launcher()

    def _has_launcher(self) -> bool:
        """Return whether the process that the ring is named after is to empty it."""
        named = _NAME.match(self.path.name)
        pid = int(named[1]) if named else 0
        return pid not in (0, os.getpid(), self.value("pid")) and is_alive(pid)

    def _waiting_bytes(self) -> int:
        """Return how many bytes of records nobody took yet."""
        n = self._lanes["head"].astype(np.int64) - self._lanes["tail"].astype(np.int64)
        n_waiting = np.clip(n, 0, self._records.shape[1]).sum()
        return int(n_waiting) * RECORD.itemsize

    def _open(self, size: int) -> None:
        head = np.frombuffer(self._map[:RING_PAGE], _CONTROL, 1)
        self._head: Any = np.frombuffer(self._map, _CONTROL, 1)
        number = {name: int(head[name][0]) for name in _LAYOUT}
        capacity, n = number["lane_capacity"], number["n_lanes"]
        ends = (
            number["lanes_offset"] + n * _LANE.itemsize,
            number["records_offset"] + n * capacity * RECORD.itemsize,
            number["events_offset"] + number["events_capacity"],
        )
        if number["version"] not in RING_VERSIONS:
            known = " and ".join(map(str, RING_VERSIONS))
            raise LiveError(
                f"{self.path}: a ring of version {number['version']}; this program "
                f"reads versions {known}. Use the capture tool that came with it."
            )
        self._has_generations = number["version"] > 1
        if (
            number["byte_order"] != RING_BYTE_ORDER
            or number["header_size"] != RING_PAGE
            or number["record_size"] != RECORD.itemsize
            or number["lane_size"] != _LANE.itemsize
            or not 0 < n <= MAX_LANES
            or not _is_power_of_two(capacity)
            or not _is_power_of_two(number["events_capacity"])
            or min(number["lanes_offset"], number["records_offset"]) < RING_PAGE
            or max(ends) > size
            or size > MAX_RING_BYTES
        ):
            raise LiveError(f"{self.path}: the first page of this ring is damaged")
        at = number["lanes_offset"]
        self._lanes: Any = np.frombuffer(self._map, _LANE, n, at)
        at = number["records_offset"]
        records: Array = np.frombuffer(self._map, RECORD, n * capacity, at)
        self._records = records.reshape(n, capacity)
        self._events_at = number["events_offset"]
        self._events_size = number["events_capacity"]
        self._tail = self._lanes["tail"].astype(np.int64)
        self._dropped = np.zeros(n, np.int64)
        self._events_tail = self.value("events_tail")
        self._defs_at = DEFS_HEAD_BYTES
        self._seen = SeenDefinitions()
        self._lost = 0

    def close(self) -> None:
        """Let go of the file; another viewer may empty it then."""
        if getattr(self, "is_owner", False) and self.is_whole():
            self._head["reader_pid"] = 0
        for name in ("_head", "_lanes", "_records"):
            if hasattr(self, name):
                delattr(self, name)
        self._map.close()

    def is_whole(self) -> bool:
        """Return whether the file is still as long as when it was opened.

        Whoever looks at what is beyond the end of a mapped file is ended by SIGBUS.
        """
        return self._map.size() >= len(self._map)

    def value(self, name: str) -> int:
        """Return a number of the control page as it is now."""
        return int(self._head[name][0])

    @property
    def lost(self) -> int:
        """How many records were lost: not placed by the writer, or not read in time."""
        return self._lost + self.count("no_lane")

    @property
    def dropped(self) -> int:
        """How many records the writer has not placed."""
        return int(self._sane_dropped().sum()) + self.count("no_lane")

    def count(self, name: str) -> int:
        """Return a counter of the control page; 0 where it is damaged."""
        value = self.value(name)
        if value <= self._max_head():
            return value
        self.damage.add(name)
        return 0

    def _max_head(self) -> int:
        """Return what no counter can exceed: a record or event each nanosecond."""
        elapsed = now_ns() - self.value("t0_mono")
        # Of another start of the machine, or another one, it is not known how long.
        return elapsed + NANO if elapsed >= 0 else _MAX_COUNT

    def _sane_dropped(self) -> I64:
        """Return how many records each lane has not placed; 0 where that cannot be."""
        dropped = self._lanes["dropped"]
        is_damaged = dropped > self._max_head()
        for lane in np.flatnonzero(is_damaged).tolist():
            self.damage.add(f"dropped of lane {lane}")
        possible: I64 = np.where(is_damaged, 0, dropped).astype(np.int64)
        return possible

    def _sane_heads(self) -> I64:
        """Return how many records each lane has written; those taken, if it cannot be.

        The writer of a ring that drops waits for whoever empties it.
        """
        head = self._lanes["head"].astype(np.int64)
        behind = head - self._tail
        limit = self._max_head()
        if not self._may_lap():
            limit = self._records.shape[1]
        is_damaged = (behind < 0) | (behind > limit)
        for lane in np.flatnonzero(is_damaged).tolist():
            self.damage.add(f"head of lane {lane}")
        possible: I64 = np.where(is_damaged, self._tail, head).astype(np.int64)
        return possible

    def _may_lap(self) -> bool:
        return not self.is_owner or bool(self.value("flags") & RingFlag.OVERWRITE)

    @property
    def identity(self) -> bytes:
        """What distinguishes this ring from all others."""
        return bytes(self._head["identity"][0])

    @property
    def program(self) -> str:
        """The file of the program, as it says; "" where it does not."""
        raw = bytes(self._head["program"][0])
        return raw.split(b"\0")[0].decode("utf-8", "replace")

    def lane_names(self) -> list[tuple[int, int]]:
        """Return (slot, index of the thread) of each lane."""
        return list(
            zip(self._lanes["slot"].tolist(), self._lanes["ith"].tolist(), strict=True)
        )

    def is_running(self) -> bool:
        """Return whether the program still writes, as far as can be seen."""
        if self.value("state") != RingState.RUNS:
            return False
        # A writer that does not know when its process began leaves 0 there.
        return is_running(self.value("pid"), self.value("start_time") or None)

    def take(self, keep: Callable[[Taken], None] | None = None) -> RingBatch:
        """Return what is new. Never waits.

        `keep` takes it before the writer learns that its room is free.
        """
        # Heads first: what the records below them refer to is in the events then, and
        # what these refer to is among the definitions.
        head, dropped = self._sane_heads(), self._sane_dropped()
        events, raw = self._events(self.value("events_head"))
        definitions, raw_definitions = self._definitions()
        capacity = self._records.shape[1]
        behind = head - self._tail
        lanes = np.flatnonzero(behind)
        parts: list[Array] = []
        gaps: list[tuple[int, int, int]] = []
        counts = np.zeros(len(lanes), np.int64)
        n = 0
        overwrites = bool(self.value("flags") & RingFlag.OVERWRITE)
        may_lap = self._may_lap()
        for at, lane in enumerate(lanes.tolist()):
            tail, stop = int(self._tail[lane]), int(head[lane])
            first = max(tail, stop - capacity)
            part = self._copied(lane, first, stop)
            if may_lap:
                now = int(self._lanes["head"][lane])
                # The record being written may lie over the oldest one: hence the 1.
                oldest = now - capacity + (now > first)
                if not overwrites:  # nothing is written over before it was taken
                    oldest = min(oldest, int(self._lanes["tail"][lane]))
                safe = min(max(first, oldest), stop)
                part, first = part[safe - first :], safe
            if first > tail:
                gaps.append((lane, first - tail, n))
            # A full lane takes nothing until it is emptied: what was dropped since
            # would lie behind its last record of then.
            if dropped[lane] > self._dropped[lane] and not may_lap:
                full = min(max(tail + capacity - first, 0), len(part))
                gaps.append((lane, int(dropped[lane] - self._dropped[lane]), n + full))
                self._dropped[lane] = dropped[lane]
            parts.append(part)
            counts[at] = len(part)
            n += len(part)
            self._tail[lane] = stop
        for lane in np.flatnonzero(dropped > self._dropped).tolist():
            gaps.append((lane, int(dropped[lane] - self._dropped[lane]), n))
            self._dropped[lane] = dropped[lane]
        self._lost += sum(gap[1] for gap in gaps)
        records = parts[0] if len(parts) == 1 else np.zeros(0, RECORD)
        if len(parts) > 1:
            both = np.concatenate([np.ascontiguousarray(p).view(_WORD) for p in parts])
            records = both.view(RECORD)
        if keep is not None:
            keep(Taken(records, raw, raw_definitions))
        if self._frees_slots:
            self._lanes["tail"][lanes] = self._tail[lanes]
            self._head["events_tail"] = self._events_tail
            self._head["defs_tail"] = self._defs_at
        if self.is_owner:
            self._head["reader_heartbeat"] = now_ns()
        fill = min(float(behind.max(initial=0)) / capacity, 1.0)
        frames_now = (*definitions, *events)
        return RingBatch(lanes, records, counts, tuple(gaps), frames_now, fill)

    def pages(self) -> dict[str, bytes]:
        """Return what a recording has of the ring itself, by the name of its file."""
        at = self.value("lanes_offset")
        lanes = self._map[at : at + len(self._lanes) * _LANE.itemsize]
        # In this order: where the first page is, the others are.
        return {"lanes": lanes, "control": self._map[:RING_PAGE]}

    def _copied(self, lane: int, first: int, stop: int) -> Array:
        capacity = self._records.shape[1]
        low, high = first % capacity, (stop - 1) % capacity + 1
        ring = self._records[lane]
        if stop == first:
            return np.zeros(0, RECORD)
        if low < high:
            return np.array(ring[low:high].view(_WORD)).view(RECORD)
        both = np.concatenate([ring[low:].view(_WORD), ring[:high].view(_WORD)])
        return both.view(RECORD)

    def _events(self, head: int) -> tuple[list[Frame], bytes]:
        """Return the events up to `head`, and the bytes of those that are whole."""
        size = self._events_size
        first = max(self._events_tail, self.value("events_oldest"))
        if max(head, first) > self._max_head():
            self.damage.add("events_head")
            return [], b""
        if not 0 <= head - first <= size:
            self._events_tail = head  # where the next frame begins is not known
            return [], b""
        low, n = first % size, head - first
        begin = self._events_at + low
        data = self._map[begin : begin + min(n, size - low)]
        data += self._map[self._events_at : self._events_at + n - len(data)]
        # Some may have been overwritten while they were copied.
        torn = max(self.value("events_oldest") - first, 0)
        self._events_tail = head
        events = list(frames(data[torn:]))
        whole = [frame for frame, _ in events if frame is not None]
        raw = data[torn : torn + events[-1][1]] if events else b""
        if len(whole) < len(events):  # what fills room may be damage for others
            raw = b"".join(frame.packed() for frame in whole)
        return whole, raw

    def _definitions(self) -> tuple[list[Frame], bytes]:
        """Return the definitions that are new, and the bytes of all that were read."""
        data, self._defs_at = self._read_definitions(self._defs_at, None)
        definitions = [frame for frame, _ in frames(data) if frame is not None]
        return [frame for frame in definitions if self._seen.is_new(frame)], data

    def _read_definitions(self, begin: int, end: int | None) -> tuple[bytes, int]:
        """Return whole frames of the file beside the ring, and where they end.

        Parameters
        ----------
        begin, end : places in the file; None = all that is there. What was given back
            is passed over.
        """
        try:
            with open_for_reading(defs_of(self.path)) as file:
                head = file.read(DEFS_HEAD_BYTES)
                if head[:8] != DEFS_MAGIC or head[16:32] != self.identity:
                    return b"", begin  # not written yet, or another ring's
                begin = max(begin, DEFS_HEAD_BYTES)
                if self._has_generations:
                    begin = max(begin, self.value("defs_first"))
                    written = DEFS_HEAD_BYTES + self.value("defs_bytes")
                    end = written if end is None else min(end, written)
                n_bytes = _MAX_DEFS_BYTES if end is None else max(end - begin, 0)
                file.seek(begin)
                data = file.read(min(n_bytes, _MAX_DEFS_BYTES))
        except (OSError, OverflowError):
            return b"", begin
        if self._has_generations:
            # Some of it may have been given back while it was copied.
            given_back = max(self.value("defs_first") - begin, 0)
            data, begin = data[given_back:], begin + given_back
        definitions = list(frames(data))
        n_whole = definitions[-1][1] if definitions else 0
        return data[:n_whole], begin + n_whole


def defs_of(ring: Path) -> Path:
    """Return the file of a ring's definitions."""
    return ring.with_name(ring.name + DEFS_SUFFIX)


def first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file; a ring's `RING_MAGIC` is written last."""
    with open_for_reading(path) as file:
        return file.read(len(RING_MAGIC))


@dataclass(frozen=True, slots=True)
class RingHead:
    """What the first page of a ring says of its program.

    Attributes
    ----------
    program : file of the program; "" where it does not say.
    began : when the ring was made, in seconds since 1970; 0 = not stated.
    is_running : whether the program still writes, as far as can be seen.
    """

    pid: int
    program: str
    began: float
    is_running: bool


def ring_head(path: Path) -> RingHead | None:
    """Return what a ring says of its program; None where that cannot be read."""
    try:
        with open_for_reading(path) as file:
            page = file.read(RING_PAGE)
    except OSError:
        return None
    if len(page) < RING_PAGE or not page.startswith(RING_MAGIC):
        return None
    head: Any = np.frombuffer(page, _CONTROL, 1)[0]
    pid, start = int(head["pid"]), int(head["start_time"])
    program = bytes(head["program"]).split(b"\0")[0].decode("utf-8", "replace")
    runs = int(head["state"]) == RingState.RUNS and is_running(pid, start or None)
    return RingHead(pid, program, int(head["t0_real"]) / 1e9, runs)


def writer_of(path: Path) -> tuple[int, bool]:
    """Return the process that a ring says writes it, and whether it still does.

    (0, False) where that cannot be read.
    """
    head = ring_head(path)
    return (0, False) if head is None else (head.pid, head.is_running)


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0
