"""Reader of ring files, and numpy dtypes of the structs of `ring_format`."""

import contextlib
import mmap
import os
import time
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ggscope_capture.regular_file import check_written, open_regular
from ggscope_capture.ring_format import (
    DEFS_MAGIC,
    DEFS_SUFFIX,
    MAX_LANES,
    MAX_RING_BYTES,
    RING_BYTE_ORDER,
    RING_MAGIC,
    RING_PAGE,
    RING_VERSIONS,
    STRUCTS,
    DefsHeader,
    Frame,
    RingError,
    RingFlag,
    SeenDefinitions,
    fields,
    frames,
    size_of,
    unpack,
)

DTYPES: dict[str, np.dtype[np.void]] = {
    name: np.dtype(fields(kind)) for name, kind in STRUCTS.items()
}
"""The structs of the header by their names, as numpy sees them."""
RECORD = DTYPES["ring_record"]
CONTROL = DTYPES["ring_control"]
LANE = DTYPES["ring_lane"]

_DEFS_HEAD_BYTES = size_of(DefsHeader)
_MAX_DEFS_BYTES = 1 << 28
"""So much of the definitions is read at a time."""
_SECOND_NS, _MAX_COUNT = 10**9, 1 << 56
Array = npt.NDArray[Any]


class NotReadyError(RingError):
    """The ring is not initialised yet, or its writer ended before."""


def check_control(page: bytes, n_bytes: int) -> dict[str, int]:
    """Return where what is in a ring of `n_bytes`, by its control page.

    Raises
    ------
    RingError
        If the page is not that of a ring, or its numbers cannot be.
    """
    if len(page) < RING_PAGE and not page.strip(b"\0"):
        raise NotReadyError("not ready yet")
    if len(page) < RING_PAGE:
        raise RingError("the file is shorter than the first page of a ring")
    control = np.frombuffer(page, CONTROL, 1)[0]
    if page[:8] != RING_MAGIC:
        if not page[:8].strip(b"\0"):
            raise NotReadyError("not ready yet")
        raise RingError("this is not a ring of ggscope")
    if control["version"] not in RING_VERSIONS:
        known = " or ".join(map(str, RING_VERSIONS))
        raise RingError(f"a ring of version {control['version']}, not {known}")
    if control["byte_order"] != RING_BYTE_ORDER:
        raise RingError("a ring of a machine with another order of bytes")
    number = {name: int(control[name]) for name in _NUMBERS}
    lanes_end = number["lanes_offset"] + number["n_lanes"] * LANE.itemsize
    lane_bytes = number["lane_capacity"] * RECORD.itemsize
    records_end = number["records_offset"] + number["n_lanes"] * lane_bytes
    events_end = number["events_offset"] + number["events_capacity"]
    if (
        number["header_size"] != RING_PAGE
        or number["record_size"] != RECORD.itemsize
        or number["lane_size"] != LANE.itemsize
        or not 0 < number["n_lanes"] <= MAX_LANES
        or not _is_power_of_two(number["lane_capacity"])
        or not _is_power_of_two(number["events_capacity"])
        or number["lanes_offset"] < RING_PAGE
        or max(lanes_end, records_end, events_end) > n_bytes
        or n_bytes > MAX_RING_BYTES
    ):
        raise RingError("the numbers of its first page do not fit the file")
    return number


_NUMBERS = ("header_size", "record_size", "lane_size", "n_lanes", "lanes_offset",
            "lane_capacity", "records_offset", "events_offset",
            "events_capacity")  # fmt: skip


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


class Ring:
    """An open ring: what is new in its lanes, events and definitions.

    One reader empties a ring that drops (it moves the tails); any number may look at
    one that overwrites, or follow with `is_owner` false. All arrays are copies.

    Attributes
    ----------
    identity : what distinguishes this ring from all others, in hexadecimal digits.
    control : the control page, a view of the mapped file.
    lanes : (n_lanes,) of `LANE`, likewise.
    lost : int64[n_lanes], records that were overwritten before they were read here.
    seen : the definitions that were taken.
    n_bytes : how long the file is.
    damage : names of counters that cannot be; what they count is not known.
    """

    def __init__(
        self, path: Path, *, is_owner: bool = True, releases: bool = True
    ) -> None:
        """Map the file. Raises RingError or OSError.

        `releases` false leaves the tails where they are until `release`, for readers
        that first put in safety what they took.
        """
        self.path = path
        self.is_owner = is_owner
        self.n_bytes = 0
        self._releases = is_owner and releases
        descriptor = open_regular(path, os.O_RDWR if is_owner else os.O_RDONLY)
        try:
            self._status = os.fstat(descriptor)
            size = self.n_bytes = self._status.st_size
            number = check_control(os.pread(descriptor, RING_PAGE, 0), size)
            access = mmap.ACCESS_WRITE if is_owner else mmap.ACCESS_READ
            self._map = mmap.mmap(descriptor, size, access=access)
            self.control: Array = np.frombuffer(self._map, CONTROL, 1)
            self.identity = bytes(self.control["identity"][0]).hex()
            n, capacity = number["n_lanes"], number["lane_capacity"]
            self.lanes: Array = np.frombuffer(
                self._map, LANE, n, number["lanes_offset"]
            )
            self._records: Array = np.frombuffer(
                self._map, RECORD, n * capacity, number["records_offset"]
            ).reshape(n, capacity)
            try:
                n_waiting = int(self.waiting().sum())
                check_written(descriptor, path, n_waiting * RECORD.itemsize)
            except OSError:
                self.close()
                raise
        finally:
            os.close(descriptor)
        self._events_at = number["events_offset"]
        self._events_capacity = number["events_capacity"]
        self._tail = self.lanes["tail"].astype(np.int64)
        self._events_tail = int(self.control["events_tail"][0])
        self.events_lost = 0
        self.lost: npt.NDArray[np.int64] = np.zeros(n, np.int64)
        self._defs_at = _DEFS_HEAD_BYTES
        self._has_generations = self.value("version") > 1
        self.seen = SeenDefinitions()
        self.damage: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Unmap the file; arrays of the ring must not be used afterwards."""
        del self.control, self.lanes, self._records
        self._map.close()

    def value(self, name: str) -> int:
        """Return one number of the control page as it is now."""
        return int(self.control[name][0])

    def count(self, name: str) -> int:
        """Return a counter of the control page; 0 where it is damaged."""
        value = self.value(name)
        if value <= self._max_head():
            return value
        self.damage.add(name)
        return 0

    def _max_head(self) -> int:
        """Return the upper limit of counters: one record or event per nanosecond."""
        elapsed = time.monotonic_ns() - self.value("t0_mono")
        # Of another start of the machine, or another one, it is not known how long.
        return elapsed + _SECOND_NS if elapsed >= 0 else _MAX_COUNT

    def waiting(self) -> npt.NDArray[np.int64]:
        """Return the number of unread records of each lane, int64[n_lanes]."""
        n = self.lanes["head"].astype(np.int64) - self.lanes["tail"].astype(np.int64)
        return np.clip(n, 0, self._records.shape[1])

    def dropped(self) -> int:
        """Return the number of records that the writer dropped for lack of space."""
        dropped = self.lanes["dropped"]
        is_damaged = dropped > self._max_head()
        for lane in np.flatnonzero(is_damaged).tolist():
            self.damage.add(f"dropped of lane {lane}")
        return int(dropped[~is_damaged].sum()) + self.count("no_lane")

    def _is_possible(self, head: int, tail: int) -> bool:
        """Return whether the counters of a lane are consistent."""
        if self.value("flags") & RingFlag.OVERWRITE == 0:
            return 0 <= head - tail <= int(self._records.shape[1])
        return 0 <= tail <= head <= self._max_head()

    def records(self) -> list[Array]:
        """Return the new records, one array of `RECORD` per lane that has some.

        What the writer overwrote meanwhile is left out and counted in `lost`.
        """
        new = []
        capacity = self._records.shape[1]
        for lane in np.flatnonzero(self.lanes["state"]).tolist():
            head, tail = int(self.lanes["head"][lane]), int(self._tail[lane])
            if not self._is_possible(head, tail):
                self.damage.add(f"head of lane {lane}")
                continue
            first = max(tail, head - capacity)
            if head <= tail:
                continue
            copied = self._records[lane, np.arange(first, head) % capacity]
            # The record being written may lie over the oldest one: hence the 1.
            now = int(self.lanes["head"][lane])
            safe = min(max(first, now - capacity + (now > first)), head)
            if self.value("flags") & RingFlag.OVERWRITE == 0:
                safe = first
            self.lost[lane] += safe - int(self._tail[lane])
            new.append(copied[safe - first :])
            self._tail[lane] = head
            if self._releases:
                self.lanes["tail"][lane] = head
        return [part for part in new if len(part)]

    def events(self) -> list[Frame]:
        """Return the new events, oldest first.

        What the writer overwrote meanwhile is left out; `events_lost` counts its bytes.
        """
        head, capacity = self.value("events_head"), self._events_capacity
        oldest = self.value("events_oldest")
        if max(head, oldest) > self._max_head() or head < self._events_tail:
            self.damage.add("events_head")
            return []
        first = max(self._events_tail, oldest)
        self.events_lost += first - self._events_tail
        new: list[Frame] = []
        if 0 < head - first <= capacity:
            low, high = first % capacity, head % capacity
            at = self._events_at
            if low < high:
                data = self._map[at + low : at + high]
            else:
                data = self._map[at + low : at + capacity] + self._map[at : at + high]
            # Some may have been overwritten while they were copied.
            torn = max(self.value("events_oldest") - first, 0)
            self.events_lost += torn
            new = [frame for frame, _ in frames(data[torn:]) if frame is not None]
        else:
            # Where a frame begins is not known behind what was overwritten.
            self.events_lost += head - first
        self._events_tail = head
        if self._releases:
            self.control["events_tail"][0] = head
        return new

    def is_file(self, name: str, folder: int) -> bool:
        """Return whether a name in a folder is this ring's file, owned by this user."""
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(status, self._status) and status.st_uid == os.geteuid()

    def release(self) -> None:
        """Release the space of all records and events read so far."""
        if self.is_owner:
            self.lanes["tail"][:] = self._tail
            self.control["events_tail"][0] = self._events_tail
            self._release_definitions()

    def check_definitions(self) -> None:
        """Raise RingError if the definitions file belongs to another ring."""
        with contextlib.suppress(FileNotFoundError):
            descriptor = open_regular(defs_path(self.path))
            try:
                head = os.pread(descriptor, _DEFS_HEAD_BYTES, 0)
            finally:
                os.close(descriptor)
            self._check_head(head)

    def _check_head(self, head: bytes) -> None:
        if len(head) == _DEFS_HEAD_BYTES and _identity(head) != self.identity:
            raise RingError("the definitions beside it are another ring's")

    def definitions(self) -> list[Frame]:
        """Return the definitions that are new in the file beside the ring.

        Raises
        ------
        RingError
            If that file belongs to another ring.
        """
        try:
            descriptor = open_regular(defs_path(self.path))
        except FileNotFoundError:
            return []
        try:
            head = os.pread(descriptor, _DEFS_HEAD_BYTES, 0)
            if len(head) < _DEFS_HEAD_BYTES:
                return []
            self._check_head(head)
            data = self._definitions(descriptor)
        finally:
            os.close(descriptor)
        walked = list(frames(data))
        if walked:
            self._defs_at += walked[-1][1]
        if self._releases:
            self._release_definitions()
        new = [frame for frame, _ in walked if frame is not None]
        return [frame for frame in new if self.seen.is_new(frame)]

    def _definitions(self, descriptor: int) -> bytes:
        """Return what lies behind what was read, from a whole frame on."""
        if not self._has_generations:
            return os.pread(descriptor, _MAX_DEFS_BYTES, self._defs_at)
        self._defs_at = max(self._defs_at, self.value("defs_first"))
        # Half a frame may lie behind the last whole one.
        end = _DEFS_HEAD_BYTES + self.value("defs_bytes")
        n = min(max(end - self._defs_at, 0), _MAX_DEFS_BYTES)
        data = os.pread(descriptor, n, self._defs_at)
        # Some of it may have been given back while it was copied.
        given_back = max(self.value("defs_first") - self._defs_at, 0)
        self._defs_at += given_back
        return data[given_back:]

    def _release_definitions(self) -> None:
        if self._has_generations:
            self.control["defs_tail"][0] = self._defs_at


def defs_path(ring: Path) -> Path:
    """Return the file of definitions that belongs to a ring."""
    return ring.with_name(ring.name + DEFS_SUFFIX)


def identity_of(defs: str, folder: int) -> str:
    """Return the identity of the ring that a file of this user defines; "" = none.

    `folder` : descriptor of the one that `defs` is a name in.
    """
    try:
        descriptor = open_regular(defs, folder=folder, is_own=True)
    except OSError:
        return ""
    try:
        return _identity(os.pread(descriptor, _DEFS_HEAD_BYTES, 0))
    finally:
        os.close(descriptor)


def _identity(head: bytes) -> str:
    if len(head) < _DEFS_HEAD_BYTES or not head.startswith(DEFS_MAGIC):
        return ""
    return bytes(unpack(DefsHeader, head).identity).hex()
