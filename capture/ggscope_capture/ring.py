"""The ring as Python sees it: the layout of ``native/ring.h``, and a reader.

The header is the source of truth; a test compiles it and compares names, places and
numbers with these. ``resources/docs/ring-format.md`` tells the layout in prose.
"""

import contextlib
import mmap
import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ggscope_capture.regular_file import check_written, open_regular

RING_MAGIC = b"GGSRING1"
DEFS_MAGIC = b"GGSDEFS1"
DEFS_SUFFIX = ".defs"
RING_VERSION = 2
_VERSIONS = (1, RING_VERSION)
"""Those that are read. In the first one definitions are never given back."""
RING_BYTE_ORDER = 0x01020304
RING_PAGE = 4096
UNKNOWN_U32 = 0xFFFFFFFF
UNKNOWN_U64 = 0xFFFFFFFFFFFFFFFF
TENSOR_SOURCES = 10

RING_OVERWRITE = 1
CPU_BITS, NODE_SHIFT, BARRIER_SHIFT = 12, 12, 20
RECORD_FUSED, RECORD_BEGIN = 1 << 28, 1 << 29
RECORD_GRAPH, RECORD_MIGRATED = 1 << 30, 1 << 31
ROW_PHASE, ROW_OUTPUT = 3, 4


class State(IntEnum):
    """What became of the traced program."""

    RUNS = 1
    ENDED = 2
    REPLACED = 3


class Mode(IntEnum):
    """What the spans of a ring are."""

    UNKNOWN = 0
    THREADS = 1
    BEGINS = 2
    GRAPHS = 3


class AttachMethod(IntEnum):
    """How the tracer came into the program."""

    UNKNOWN = 0
    BACKEND_PATH = 1
    PRELOAD = 2
    DYLD = 3
    SOURCE = 4


class Clock(IntEnum):
    """What the times of records were read from; their unit is always nanoseconds."""

    IS_MONOTONIC = 0
    IS_TSC = 1
    IS_CNTVCT = 2


class Frame(IntEnum):
    """Types of frames: definitions below 32, events of the ring from there on."""

    PAD = 0
    PROGRAM = 1
    OP = 2
    TYPE = 3
    MODEL = 4
    WEIGHT = 5
    BUFFER = 6
    BUILD = 7
    LANE = 8
    CHECK = 9
    NOTE = 11
    MAPPING = 12
    BACKEND = 13
    BUILD_LIKE = 14
    CLOCK = 32
    GRAPH_BEGIN = 33
    GRAPH_END = 34
    UBATCH = 35
    EXPERTS = 36
    ROUTER = 37
    HOST = 38
    COPY = 39
    BUFFER_EVENT = 40


class TensorFlag(IntFlag):
    """What is known of a tensor of a build."""

    COMPUTED = 1
    FUSED = 2
    WEIGHT = 4
    BY_MAPPING = 8
    VIEW = 16


class TensorColumn(IntEnum):
    """Facts of tensors that may differ in builds that are alike.

    `NE` and `NB` are the first ones of four.
    """

    POINTER = 0
    DATA = 1
    BYTES = 2
    OFFSET = 3
    BUFFER = 4
    NE = 5
    NB = 9


class Phase(IntEnum):
    """What a token is, or all tokens of a ubatch are."""

    UNKNOWN = 0
    PROMPT = 1
    GENERATE = 2
    MIXED = 3


class Knowledge(IntFlag):
    """What a batch told of the rows of a ubatch."""

    SEQUENCES = 1
    OUTPUTS = 2


class Host(IntEnum):
    """What the program's own thread did."""

    DECODE = 1
    COMPUTE = 2
    ALLOC = 3
    INPUT = 4
    OUTPUT = 5
    SYNC = 6
    SAMPLE = 7
    RESET = 8


_Fields = Any  # pairs of name and type, as numpy takes them

_CONTROL: _Fields = [
    ("magic", "S8"), ("version", "<u4"), ("byte_order", "<u4"),
    ("header_size", "<u4"), ("record_size", "<u4"), ("lane_size", "<u4"),
    ("n_lanes", "<u4"), ("lanes_offset", "<u8"), ("lane_capacity", "<u8"),
    ("records_offset", "<u8"), ("events_offset", "<u8"), ("events_capacity", "<u8"),
    ("file_size", "<u8"), ("pid", "<u4"), ("flags", "<u4"), ("t0_mono", "<u8"),
    ("t0_real", "<u8"), ("start_time", "<u8"), ("clock", "<u4"), ("door", "<u4"),
    ("tracer_version", "<u4"), ("reserved0", "<u4"), ("identity", "u1", (16,)),
    ("reserved1", "u1", (112,)), ("program", "S256"), ("reserved2", "u1", (512,)),
    ("enabled", "<u4"), ("sample_every", "<u4"), ("reader_pid", "<u4"),
    ("filter_seq", "<u4"), ("reader_heartbeat", "<u8"), ("op_mask", "<u8", (4,)),
    ("lane_mask", "<u8", (8,)), ("layer_first", "<u4"), ("layer_last", "<u4"),
    ("defs_tail", "<u8"), ("reserved3", "u1", (888,)),
    ("heartbeat", "<u8"), ("graphs", "<u8"), ("skipped", "<u8"), ("state", "<u4"),
    ("mode", "<u4"), ("no_lane", "<u8"), ("no_node", "<u8"), ("defs_bytes", "<u8"),
    ("defs_lost", "<u8"), ("defs_first", "<u8"), ("reserved4", "u1", (440,)),
    ("events_head", "<u8"), ("events_dropped", "<u8"), ("events_dropped_bytes", "<u8"),
    ("events_oldest", "<u8"), ("reserved5", "u1", (32,)), ("events_tail", "<u8"),
    ("reserved6", "u1", (56,)), ("reserved7", "u1", (1408,)),
]  # fmt: skip
_LANE: _Fields = [
    ("state", "<u4"), ("slot", "<u2"), ("ith", "<u2"), ("tid", "<u4"),
    ("reserved0", "<u4"), ("reserved1", "<u8", (6,)),
    ("head", "<u8"), ("dropped", "<u8"), ("last_ns", "<u8"),
    ("reserved2", "<u8", (5,)),
    ("tail", "<u8"), ("reserved3", "<u8", (7,)), ("reserved4", "<u8", (8,)),
]  # fmt: skip
_RECORD: _Fields = [
    ("t0", "<u8"), ("op_ns", "<u4"), ("wait_ns", "<u4"), ("node", "<u4"),
    ("graph", "<u4"), ("lane", "<u2"), ("op", "<u2"), ("extra", "<u4"),
]  # fmt: skip
_TENSOR: _Fields = [
    ("op", "<u2"), ("type", "<u2"), ("flags", "<u4"), ("ggml_flags", "<u4"),
    ("layer", "<i4"), ("pointer", "<u8"), ("data", "<u8"), ("bytes", "<u8"),
    ("offset", "<u8"), ("model", "<u4"), ("weight", "<u4"), ("buffer", "<u4"),
    ("view_source", "<u4"), ("ne", "<u8", (4,)), ("nb", "<u8", (4,)),
    ("sources", "<u4", (TENSOR_SOURCES,)),
]  # fmt: skip

STRUCTS: dict[str, np.dtype[np.void]] = {
    name: np.dtype(fields)
    for name, fields in {
        "ring_control": _CONTROL,
        "ring_lane": _LANE,
        "ring_record": _RECORD,
        "ring_frame": [
            ("size", "<u4"), ("type", "<u2"), ("reserved", "<u2"), ("time", "<u8"),
        ],
        "def_weight": [
            ("model", "<u4"), ("index", "<u4"), ("type", "<u4"), ("n_dims", "<u4"),
            ("ne", "<u8", (4,)), ("offset", "<u8"), ("size", "<u8"),
        ],
        "def_buffer": [
            ("buffer", "<u4"), ("usage", "<u4"), ("pointer", "<u8"), ("base", "<u8"),
            ("size", "<u8"),
        ],
        "def_backend": [
            ("backend", "<u4"), ("reserved", "<u4"), ("pointer", "<u8"),
        ],
        "def_build": [
            ("build", "<u4"), ("n_nodes", "<u4"), ("n_tensors", "<u4"),
            ("n_computed", "<u4"), ("n_fused", "<u4"), ("reserved", "<u4"),
            ("signature", "<u8"),
        ],
        "def_tensor": _TENSOR,
        "def_like": [("like", "<u4"), ("n_columns", "<u4")],
        "like_column": [
            ("column", "<u4"), ("n_moved", "<u4"), ("n_single", "<u4"),
            ("reserved", "<u4"),
        ],
        "def_check": [
            ("graph", "<u4"), ("result", "<u4"), ("mode", "<u4"), ("lanes", "<u4"),
            ("expected", "<u8"), ("found", "<u8"), ("missing_nodes", "<u8"),
            ("reserved", "<u8"),
        ],
        "def_mapping": [("address", "<u8"), ("size", "<u8"), ("offset", "<u8")],
        "event_graph": [
            ("graph", "<u4"), ("build", "<u4"), ("ubatch", "<u4"), ("slot", "<u2"),
            ("n_threads", "<u2"), ("phase", "<u2"), ("split", "<u2"),
            ("n_nodes", "<u4"), ("context", "<u8"), ("backend", "<u8"),
            ("backend_number", "<u4"), ("reserved", "<u4"),
        ],
        "event_graph_end": [
            ("graph", "<u4"), ("status", "<i4"), ("n_records", "<u8"),
            ("n_expected", "<u8"),
        ],
        "event_ubatch": [
            ("ubatch", "<u4"), ("n_tokens", "<u4"), ("n_positions", "<u4"),
            ("phase", "<u4"), ("context", "<u8"),
        ],
        "ubatch_rows": [
            ("n_rows", "<u4"), ("decode", "<u4"), ("knowledge", "<u4"),
            ("n_sequences", "<u4"), ("owner", "<u8"),
        ],
        "event_experts": [
            ("graph", "<u4"), ("node", "<u4"), ("layer", "<i4"), ("rows", "<u4"),
            ("used", "<u4"), ("n_experts", "<u4"), ("first_row", "<u4"),
            ("reserved", "<u4"),
        ],
        "event_host": [
            ("kind", "<u4"), ("tid", "<u4"), ("begin", "<u8"), ("end", "<u8"),
            ("context", "<u8"), ("bytes", "<u8"), ("ubatch", "<u4"), ("count", "<u4"),
        ],
        "event_copy": [
            ("begin", "<u8"), ("end", "<u8"), ("bytes", "<u8"), ("from_buffer", "<u4"),
            ("to_buffer", "<u4"), ("context", "<u8"), ("name", "S64"),
        ],
        "defs_header": [
            ("magic", "S8"), ("version", "<u4"), ("byte_order", "<u4"),
            ("identity", "u1", (16,)),
        ],
    }.items()
}  # fmt: skip
"""The structs of the header by their names, as numpy sees them."""

RECORD = STRUCTS["ring_record"]
CONTROL = STRUCTS["ring_control"]
LANE = STRUCTS["ring_lane"]

_DEFS_HEAD_BYTES = STRUCTS["defs_header"].itemsize
_MAX_RING_BYTES = 8 << 30
"""The tracer makes no longer ones."""
_MAX_DEFS_BYTES = 1 << 28
"""So much of the definitions is read at a time."""
_SECOND_NS, _MOST_COUNTED = 10**9, 1 << 56
_FRAME = struct.Struct("<IHHQ")
_TEXT = struct.Struct("<H")
Array = npt.NDArray[Any]


class RingError(Exception):
    """The file is no ring, or none that this version understands; says why."""


class NotReadyError(RingError):
    """The ring is in the making, or whoever made it ended before it was done."""


@dataclass(frozen=True)
class Event:
    """One frame.

    Attributes
    ----------
    type : of `Frame`, or a number that this version does not know.
    time : CLOCK_MONOTONIC, ns.
    body : what follows the frame's head, padded to 8 bytes.
    """

    type: int
    time: int
    body: bytes

    def struct(self, name: str) -> tuple[np.void, bytes]:
        """Return the struct that begins the body, and the bytes behind it.

        Raises
        ------
        RingError
            If the body is shorter.
        """
        dtype = STRUCTS[name]
        if len(self.body) < dtype.itemsize:
            raise RingError(f"a frame of type {self.type} is cut")
        return np.frombuffer(self.body, dtype, 1)[0], self.body[dtype.itemsize :]


def text_at(body: bytes, place: int = 0) -> tuple[str, int]:
    """Return the text that begins at `place`, and where it ends. Never raises on text.

    Bytes that are no UTF-8 become U+FFFD.
    """
    if place + _TEXT.size > len(body):
        raise RingError("a text goes beyond its frame")
    (length,) = _TEXT.unpack_from(body, place)
    end = place + _TEXT.size + length
    if end > len(body):
        raise RingError("a text goes beyond its frame")
    return body[place + _TEXT.size : end].decode("utf-8", "replace"), end


def frames(data: bytes) -> Iterator[tuple[Event, int]]:
    """Give the whole frames at the beginning of `data`, and where each ends.

    A frame that is cut, and what has no possible size, ends the walk.
    """
    place = 0
    while place + 8 <= len(data):
        size, kind = struct.unpack_from("<IH", data, place)
        if size < 8 or size % 8 or place + size > len(data):
            return
        if kind != Frame.PAD:
            if size < _FRAME.size:
                return
            time = _FRAME.unpack_from(data, place)[3]
            body = data[place + _FRAME.size : place + size]
            yield Event(kind, time, body), place + size
        place += size


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
    if control["version"] not in _VERSIONS:
        known = " or ".join(map(str, _VERSIONS))
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
        or not 0 < number["n_lanes"] <= 1 << 16
        or not _is_power_of_two(number["lane_capacity"])
        or not _is_power_of_two(number["events_capacity"])
        or number["lanes_offset"] < RING_PAGE
        or max(lanes_end, records_end, events_end) > n_bytes
        or n_bytes > _MAX_RING_BYTES
    ):
        raise RingError("the numbers of its first page do not fit the file")
    return number


_NUMBERS = ("header_size", "record_size", "lane_size", "n_lanes", "lanes_offset",
            "lane_capacity", "records_offset", "events_offset",
            "events_capacity")  # fmt: skip


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


class SeenDefinitions:
    """Tells definitions apart from those that were told before.

    Each generation of a ring's definitions begins with all that lasts, and tells the
    builds anew that its graphs use.
    """

    def __init__(self) -> None:
        self._frames: set[tuple[int, int, bytes]] = set()
        self._whole: set[int] = set()
        self._like: set[int] = set()

    def is_new(self, event: Event) -> bool:
        """Tell whether a definition says anything new; it is known from then on.

        A build that was described by what differs is new where it is told whole:
        others may be like it.
        """
        is_build = event.type in (Frame.BUILD, Frame.BUILD_LIKE)
        if not is_build or len(event.body) < STRUCTS["def_build"].itemsize:
            key = event.type, event.time, event.body
            is_new = key not in self._frames
            self._frames.add(key)
            return is_new
        number = int.from_bytes(event.body[:4], "little")
        if number in self._whole:
            return False
        known = self._whole if event.type == Frame.BUILD else self._like
        is_new = number not in known
        known.add(number)
        return is_new


class Ring:
    """An open ring: what is new in its lanes, events and definitions.

    One reader empties a ring that drops (it moves the tails); any number may look at
    one that overwrites, or follow with `is_owner` false. All arrays are copies.

    Attributes
    ----------
    identity : what tells this ring from all others, in hexadecimal digits.
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
        """Give the mapping back; arrays of the ring itself must not be used again."""
        del self.control, self.lanes, self._records
        self._map.close()

    def value(self, name: str) -> int:
        """Return one number of the control page as it is now."""
        return int(self.control[name][0])

    def count(self, name: str) -> int:
        """Return a counter of the control page; 0 where it is damaged."""
        value = self.value(name)
        if value <= self._most():
            return value
        self.damage.add(name)
        return 0

    def _most(self) -> int:
        """Return what no counter can exceed: a record or event each nanosecond."""
        elapsed = time.monotonic_ns() - self.value("t0_mono")
        # Of another start of the machine, or another one, it is not known how long.
        return elapsed + _SECOND_NS if elapsed >= 0 else _MOST_COUNTED

    def waiting(self) -> npt.NDArray[np.int64]:
        """Return how many records of each lane nobody took yet; int64[n_lanes]."""
        n = self.lanes["head"].astype(np.int64) - self.lanes["tail"].astype(np.int64)
        return np.clip(n, 0, self._records.shape[1])

    def dropped(self) -> int:
        """Return how many records the writer could not place, for want of room."""
        dropped = self.lanes["dropped"]
        is_damaged = dropped > self._most()
        for lane in np.flatnonzero(is_damaged).tolist():
            self.damage.add(f"dropped of lane {lane}")
        return int(dropped[~is_damaged].sum()) + self.count("no_lane")

    def _is_possible(self, head: int, tail: int) -> bool:
        """Tell whether a lane can have written so many, of which so many were taken."""
        if self.value("flags") & RING_OVERWRITE == 0:
            return 0 <= head - tail <= int(self._records.shape[1])
        return 0 <= tail <= head <= self._most()

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
            if self.value("flags") & RING_OVERWRITE == 0:
                safe = first
            self.lost[lane] += safe - int(self._tail[lane])
            new.append(copied[safe - first :])
            self._tail[lane] = head
            if self._releases:
                self.lanes["tail"][lane] = head
        return [part for part in new if len(part)]

    def events(self) -> list[Event]:
        """Return the new events, oldest first.

        What the writer overwrote meanwhile is left out; `events_lost` counts its bytes.
        """
        head, capacity = self.value("events_head"), self._events_capacity
        oldest = self.value("events_oldest")
        if max(head, oldest) > self._most() or head < self._events_tail:
            self.damage.add("events_head")
            return []
        first = max(self._events_tail, oldest)
        self.events_lost += first - self._events_tail
        found: list[tuple[Event, int]] = []
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
            found = list(frames(data[torn:]))
        else:
            # Where a frame begins is not known behind what was overwritten.
            self.events_lost += head - first
        self._events_tail = head
        if self._releases:
            self.control["events_tail"][0] = head
        return [event for event, _ in found]

    def is_file(self, name: str, folder: int) -> bool:
        """Tell whether a name in a folder is that of this ring, and it this user's."""
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(found, self._status) and found.st_uid == os.geteuid()

    def release(self) -> None:
        """Tell the writer that what was taken so far may be overwritten."""
        if self.is_owner:
            self.lanes["tail"][:] = self._tail
            self.control["events_tail"][0] = self._events_tail
            self._release_definitions()

    def check_definitions(self) -> None:
        """Raise RingError where the definitions beside it are another ring's."""
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

    def definitions(self) -> list[Event]:
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
        found = list(frames(data))
        if found:
            self._defs_at += found[-1][1]
        if self._releases:
            self._release_definitions()
        return [event for event, _ in found if self.seen.is_new(event)]

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


def defs_head(identity: str) -> bytes:
    """Return what a file of definitions of a ring begins with."""
    head = np.zeros(1, STRUCTS["defs_header"])
    head["magic"], head["version"] = DEFS_MAGIC, RING_VERSION
    head["byte_order"] = RING_BYTE_ORDER
    head["identity"][0] = np.frombuffer(bytes.fromhex(identity), np.uint8)
    return head.tobytes()


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
    header = np.frombuffer(head, STRUCTS["defs_header"], 1)[0]
    return bytes(header["identity"]).hex()
