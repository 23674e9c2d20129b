"""The binary format of a ring: its structs, numbers and frames, and their decoder.

The Python counterpart of ``native/ring.h``, used by capture tool and viewer; a test
compiles the header and compares every struct and number.
``resources/docs/ring-format.md`` explains them. Nothing here needs numpy: `fields`
gives a struct as numpy's `dtype` takes it.

A new frame is a member of `FrameType`, a struct and a line in `FRAMES`. Where its
struct has a `begin` and an `end`, an `EventList` in that line is all it takes to keep
such events in recordings, and to show them as spans.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from mmap import mmap
from typing import Annotated, Any, NamedTuple, TypeVar, get_args

RING_MAGIC = b"GGSRING1"
DEFS_MAGIC = b"GGSDEFS1"
DEFS_SUFFIX = ".defs"
RING_VERSION = 2
RING_VERSIONS = (1, RING_VERSION)
"""Those that are read. In the first one definitions are never given back."""
RING_BYTE_ORDER = 0x01020304
RING_PAGE = 4096
MAX_RING_BYTES = 8 << 30
"""The tracer makes no longer ones."""
MAX_LANES = 1 << 16
LANES_OF_SLOT = 512
"""A thread is numbered ``LANES_OF_SLOT * slot + ith`` in recordings."""
UNKNOWN_U32 = 0xFFFFFFFF
UNKNOWN_U64 = 0xFFFFFFFFFFFFFFFF
TENSOR_SOURCES = 10

CPU_BITS, NODE_SHIFT, BARRIER_SHIFT = 12, 12, 20
RECORD_FUSED, RECORD_BEGIN = 1 << 28, 1 << 29
RECORD_GRAPH, RECORD_MIGRATED = 1 << 30, 1 << 31
"""Bits of `Record.extra`."""
ROW_PHASE, ROW_OUTPUT = 3, 4
"""Bits of a row of a ubatch: its `Phase`, and whether its output was asked for."""


class RingError(Exception):
    """The file is not a ring, damaged, or of another version; the text says which."""


# -- numbers ---------------------------------------------------------------


class RingFlag(IntFlag):
    """Policy for a full lane: overwrite the oldest records, or drop new ones."""

    OVERWRITE = 1


class RingState(IntEnum):
    """State of the traced program."""

    RUNS = 1
    ENDED = 2
    REPLACED = 3


class Mode(IntEnum):
    """Kind of a ring's records: ops with ends, begins only, or graphs."""

    UNKNOWN = 0
    THREADS = 1
    BEGINS = 2
    GRAPHS = 3


class AttachMethod(IntEnum):
    """How the tracer was loaded into the program."""

    UNKNOWN = 0
    BACKEND_PATH = 1
    PRELOAD = 2
    DYLD = 3
    SOURCE = 4


class Clock(IntEnum):
    """Clock source of the times; their unit is always nanoseconds."""

    IS_MONOTONIC = 0
    IS_TSC = 1
    IS_CNTVCT = 2


class LaneState(IntEnum):
    """Whether a lane has a writer."""

    FREE = 0
    USED = 1


class FrameType(IntEnum):
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
    """Among the definitions, because none of them may be lost."""


class TensorFlag(IntFlag):
    """What is known of a tensor of a build."""

    COMPUTED = 1
    FUSED = 2
    WEIGHT = 4
    BY_MAPPING = 8
    VIEW = 16


class CheckResult(IntEnum):
    """What the self-test after the first graph found."""

    EQUAL = 1
    MISSING = 2
    NO_BARRIER = 3
    NOTHING = 4


class TensorColumn(IntEnum):
    """Columns of tensors that may differ in builds that are alike.

    `NE` and `NB` are the first ones of four.
    """

    POINTER = 0
    DATA = 1
    BYTES = 2
    OFFSET = 3
    BUFFER = 4
    NE = 5
    NB = 9


N_TENSOR_COLUMNS = 13


class Phase(IntEnum):
    """What a token is, or all tokens of a ubatch are."""

    UNKNOWN = 0
    PROMPT = 1
    GENERATE = 2
    MIXED = 3


class Knowledge(IntFlag):
    """What a batch says about the rows of a ubatch; else it is derived."""

    SEQUENCES = 1
    OUTPUTS = 2


class HostCall(IntEnum):
    """A call of the program's own thread."""

    DECODE = 1
    COMPUTE = 2
    ALLOC = 3
    INPUT = 4
    OUTPUT = 5
    SYNC = 6
    SAMPLE = 7
    RESET = 8


class BufferChange(IntEnum):
    """What happened to a buffer."""

    ALLOCATED = 1
    FREED = 2
    USAGE = 3


# -- structs ---------------------------------------------------------------

U16 = Annotated[int, "<u2"]
U32 = Annotated[int, "<u4"]
U64 = Annotated[int, "<u8"]
I32 = Annotated[int, "<i4"]
_U64x4 = Annotated[tuple[int, ...], "<u8", 4]
_U64x5 = Annotated[tuple[int, ...], "<u8", 5]
_U64x6 = Annotated[tuple[int, ...], "<u8", 6]
_U64x7 = Annotated[tuple[int, ...], "<u8", 7]
_U64x8 = Annotated[tuple[int, ...], "<u8", 8]
_Sources = Annotated[tuple[int, ...], "<u4", TENSOR_SOURCES]
_Identity = Annotated[tuple[int, ...], "u1", 16]
_Chars8 = Annotated[bytes, "S8"]
_Chars64 = Annotated[bytes, "S64"]
_Chars256 = Annotated[bytes, "S256"]
_Bytes32 = Annotated[tuple[int, ...], "u1", 32]
_Bytes56 = Annotated[tuple[int, ...], "u1", 56]
_Bytes112 = Annotated[tuple[int, ...], "u1", 112]
_Bytes440 = Annotated[tuple[int, ...], "u1", 440]
_Bytes512 = Annotated[tuple[int, ...], "u1", 512]
_Bytes888 = Annotated[tuple[int, ...], "u1", 888]
_Bytes1408 = Annotated[tuple[int, ...], "u1", 1408]


class RingControl(NamedTuple):
    """The first page of a ring."""

    magic: _Chars8
    version: U32
    byte_order: U32
    header_size: U32
    record_size: U32
    lane_size: U32
    n_lanes: U32
    lanes_offset: U64
    lane_capacity: U64
    records_offset: U64
    events_offset: U64
    events_capacity: U64
    file_size: U64
    pid: U32
    flags: U32
    t0_mono: U64
    t0_real: U64
    start_time: U64
    clock: U32
    door: U32
    tracer_version: U32
    reserved0: U32
    identity: _Identity
    reserved1: _Bytes112
    program: _Chars256
    reserved2: _Bytes512
    enabled: U32
    sample_every: U32
    reader_pid: U32
    filter_seq: U32
    reader_heartbeat: U64
    op_mask: _U64x4
    lane_mask: _U64x8
    layer_first: U32
    layer_last: U32
    defs_tail: U64
    reserved3: _Bytes888
    heartbeat: U64
    graphs: U64
    skipped: U64
    state: U32
    mode: U32
    no_lane: U64
    no_node: U64
    defs_bytes: U64
    defs_lost: U64
    defs_first: U64
    reserved4: _Bytes440
    events_head: U64
    events_dropped: U64
    events_dropped_bytes: U64
    events_oldest: U64
    reserved5: _Bytes32
    events_tail: U64
    reserved6: _Bytes56
    reserved7: _Bytes1408


class RingLane(NamedTuple):
    """The head of a lane: how many records were written, dropped and read."""

    state: U32
    slot: U16
    ith: U16
    tid: U32
    reserved0: U32
    reserved1: _U64x6
    head: U64
    dropped: U64
    last_ns: U64
    reserved2: _U64x5
    tail: U64
    reserved3: _U64x7
    reserved4: _U64x8


class RingRecord(NamedTuple):
    """An op on a thread, or a whole graph."""

    t0: U64
    op_ns: U32
    wait_ns: U32
    node: U32
    graph: U32
    lane: U16
    op: U16
    extra: U32


class RingFrame(NamedTuple):
    """The head of a frame; `size` counts it and is a multiple of 8."""

    size: U32
    type: U16
    reserved: U16
    time: U64


class DefsHeader(NamedTuple):
    """The head of a file of definitions."""

    magic: _Chars8
    version: U32
    byte_order: U32
    identity: _Identity


class Program(NamedTuple):
    """The traced process."""

    pid: U32


class Op(NamedTuple):
    """An op of ggml."""

    number: U32


class TensorType(NamedTuple):
    """A type of tensors: so many values are a block of so many bytes."""

    number: U32
    block: U32
    block_bytes: U64


class Model(NamedTuple):
    """A model file."""

    model: U32
    n_tensors: U32
    data_offset: U64
    size: U64


class DefWeight(NamedTuple):
    """A tensor of a model file; `offset` counts from the beginning of the file."""

    model: U32
    index: U32  # type: ignore[assignment]  # hides tuple.index
    type: U32
    n_dims: U32
    ne: _U64x4
    offset: U64
    size: U64


class DefBuffer(NamedTuple):
    """A buffer, under a number of its own: addresses are used again."""

    buffer: U32
    usage: U32
    pointer: U64
    base: U64
    size: U64


class DefBackend(NamedTuple):
    """A backend, numbered from 1: addresses are used again."""

    backend: U32
    reserved: U32
    pointer: U64


class DefBuild(NamedTuple):
    """A graph as it was built: nodes, then other tensors that they read."""

    build: U32
    n_nodes: U32
    n_tensors: U32
    n_computed: U32
    n_fused: U32
    reserved: U32
    signature: U64


class DefTensor(NamedTuple):
    """A tensor of a build."""

    op: U16
    type: U16
    flags: U32
    ggml_flags: U32
    layer: I32
    pointer: U64
    data: U64
    bytes: U64
    offset: U64
    model: U32
    weight: U32
    buffer: U32
    view_source: U32
    ne: _U64x4
    nb: _U64x4
    sources: _Sources


class DefLike(NamedTuple):
    """Which whole build another one is like, and how many columns differ."""

    like: U32
    n_columns: U32


class LikeColumn(NamedTuple):
    """A column of tensors that differs: so many values moved, so many are single."""

    column: U32
    n_moved: U32
    n_single: U32
    reserved: U32


class Lane(NamedTuple):
    """The thread that writes a lane."""

    lane: U32
    slot: U16
    ith: U16
    tid: U32


class DefCheck(NamedTuple):
    """The self-test after the first graph."""

    graph: U32
    result: U32
    mode: U32
    lanes: U32
    expected: U64
    found: U64
    missing_nodes: U64
    reserved: U64


class Note(NamedTuple):
    """A message for the user."""

    code: U32


class DefMapping(NamedTuple):
    """Where a model file is mapped; `offset` is that of `address` in the file."""

    address: U64
    size: U64
    offset: U64


class ClockReading(NamedTuple):
    """One moment on all clocks."""

    mono: U64
    real: U64
    ticks: U64
    first_ticks: U64


class EventGraph(NamedTuple):
    """The begin of a graph."""

    graph: U32
    build: U32
    ubatch: U32
    slot: U16
    n_threads: U16
    phase: U16
    split: U16
    n_nodes: U32
    context: U64
    backend: U64
    backend_number: U32
    reserved: U32


class EventGraphEnd(NamedTuple):
    """The end of a graph; older tracers leave out `n_expected`."""

    graph: U32
    status: I32
    n_records: U64
    n_expected: U64


class EventUbatch(NamedTuple):
    """The tokens that are computed at once."""

    ubatch: U32
    n_tokens: U32
    n_positions: U32
    phase: U32
    context: U64


class UbatchRows(NamedTuple):
    """What follows the positions of a ubatch; older tracers leave it out."""

    n_rows: U32
    decode: U32
    knowledge: U32
    n_sequences: U32
    owner: U64


class EventExperts(NamedTuple):
    """Experts that were chosen for the rows of a node."""

    graph: U32
    node: U32
    layer: I32
    rows: U32
    used: U32
    n_experts: U32
    first_row: U32
    reserved: U32


class EventHost(NamedTuple):
    """A call of the program's own thread, or `count` of them in a row."""

    kind: U32
    tid: U32
    begin: U64
    end: U64
    context: U64
    bytes: U64
    ubatch: U32
    count: U32  # type: ignore[assignment]  # hides tuple.count


class EventCopy(NamedTuple):
    """A tensor that was copied between backends."""

    begin: U64
    end: U64
    bytes: U64
    from_buffer: U32
    to_buffer: U32
    context: U64
    name: _Chars64


class EventBuffer(NamedTuple):
    """A `BufferChange`, and the usage that a buffer has from then on."""

    buffer: U32
    kind: U32
    usage: U64


STRUCTS: dict[str, type[tuple[Any, ...]]] = {
    "ring_control": RingControl, "ring_lane": RingLane, "ring_record": RingRecord,
    "ring_frame": RingFrame, "def_weight": DefWeight, "def_buffer": DefBuffer,
    "def_backend": DefBackend, "def_build": DefBuild, "def_tensor": DefTensor,
    "def_like": DefLike, "like_column": LikeColumn, "def_check": DefCheck,
    "def_mapping": DefMapping, "event_graph": EventGraph,
    "event_graph_end": EventGraphEnd, "event_ubatch": EventUbatch,
    "ubatch_rows": UbatchRows, "event_experts": EventExperts, "event_host": EventHost,
    "event_copy": EventCopy, "defs_header": DefsHeader,
}  # fmt: skip
"""The structs of the header by their names there."""

_Struct = TypeVar("_Struct", bound=tuple[Any, ...])
Buffer = bytes | mmap


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a struct is unpacked; `parts` are the slices of fields of several numbers."""

    fields: list[tuple[Any, ...]]
    codes: struct.Struct
    parts: tuple[slice | int, ...] = field(default=())


def fields(kind: type[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the fields of a struct as numpy's `dtype` takes them."""
    return _layout(kind).fields


def size_of(kind: type[tuple[Any, ...]]) -> int:
    """Return how many bytes a struct has."""
    return _layout(kind).codes.size


def unpack(kind: type[_Struct], data: Buffer, at: int = 0) -> _Struct:
    """Return the struct that lies at `at`; raises RingError where `data` is shorter."""
    layout = _layout(kind)
    if at + layout.codes.size > len(data):
        raise RingError(f"{kind.__name__} is cut")
    values = layout.codes.unpack_from(data, at)
    if layout.parts:
        values = tuple(values[part] for part in layout.parts)
    return kind._make(values)  # type: ignore[attr-defined, no-any-return]


def pack(value: tuple[Any, ...]) -> bytes:
    """Return the bytes of a struct; texts are cut or filled with zeros."""
    layout = _layout(type(value))
    numbers = list[Any]()
    for item in value:
        numbers += item if isinstance(item, tuple) else (item,)
    return layout.codes.pack(*numbers)


_LETTERS = {"u1": "B", "<u2": "H", "<u4": "I", "<i4": "i", "<u8": "Q"}
_LAYOUTS: dict[type[tuple[Any, ...]], _Layout] = {}


def _layout(kind: type[tuple[Any, ...]]) -> _Layout:
    layout = _LAYOUTS.get(kind)
    if layout is None:
        layout = _LAYOUTS[kind] = _made_layout(kind)
    return layout


def _made_layout(kind: type[tuple[Any, ...]]) -> _Layout:
    codes, named, parts, at = "<", list[tuple[Any, ...]](), list[slice | int](), 0
    for name, annotation in kind.__annotations__.items():
        _, code, *count = get_args(annotation)
        named.append((name, code, tuple(count)) if count else (name, code))
        if code.startswith("S"):
            codes += f"{code[1:]}s"
        else:
            codes += _LETTERS[code] * (count[0] if count else 1)
        parts.append(slice(at, at + count[0]) if count else at)
        at += count[0] if count else 1
    is_flat = all(isinstance(part, int) for part in parts)
    return _Layout(named, struct.Struct(codes), () if is_flat else tuple(parts))


# -- frames ----------------------------------------------------------------


class EventList(NamedTuple):
    """Where events with a `begin` and an `end` are kept, and where they are shown.

    Attributes
    ----------
    key : of the list in the sidecar; a row has the fields of the struct.
    lane, group : titles of the lane whose spans they are, and of its group. A span is
        called by the field `name`; without one, as the lane is.
    """

    key: str
    lane: str
    group: str


class FrameFormat(NamedTuple):
    """What the body of a frame holds.

    Attributes
    ----------
    body : the struct that it begins with.
    n_texts : so many texts follow it.
    min_bytes : of the struct, where older tracers leave some of it out; 0 = all.
    listed : where such events are kept and shown, if all of them alike.
    """

    body: type[tuple[Any, ...]]
    n_texts: int = 0
    min_bytes: int = 0
    listed: EventList | None = None

    @property
    def n_bytes(self) -> int:
        """How many bytes there are before the texts, at least."""
        return self.min_bytes or size_of(self.body)


FRAMES: dict[int, FrameFormat] = {
    FrameType.PROGRAM: FrameFormat(Program, 3),
    FrameType.OP: FrameFormat(Op, 1),
    FrameType.TYPE: FrameFormat(TensorType, 1),
    FrameType.MODEL: FrameFormat(Model, 1),
    FrameType.WEIGHT: FrameFormat(DefWeight, 1),
    FrameType.BUFFER: FrameFormat(DefBuffer, 1),
    FrameType.BUILD: FrameFormat(DefBuild),
    FrameType.LANE: FrameFormat(Lane),
    FrameType.CHECK: FrameFormat(DefCheck),
    FrameType.NOTE: FrameFormat(Note, 1),
    FrameType.MAPPING: FrameFormat(DefMapping, 1),
    FrameType.BACKEND: FrameFormat(DefBackend, 3),
    FrameType.BUILD_LIKE: FrameFormat(DefBuild),
    FrameType.CLOCK: FrameFormat(ClockReading),
    FrameType.GRAPH_BEGIN: FrameFormat(EventGraph),
    FrameType.GRAPH_END: FrameFormat(EventGraphEnd, min_bytes=16),
    FrameType.UBATCH: FrameFormat(EventUbatch),
    FrameType.EXPERTS: FrameFormat(EventExperts),
    FrameType.ROUTER: FrameFormat(EventExperts),
    FrameType.HOST: FrameFormat(EventHost),
    FrameType.COPY: FrameFormat(
        EventCopy, listed=EventList("copies", "copies", "Backends")
    ),
    FrameType.BUFFER_EVENT: FrameFormat(EventBuffer),
}
"""The body of every type of frame but `FrameType.PAD`."""


def listed_frames() -> Iterator[tuple[int, EventList]]:
    """Yield the types of frames that are kept as lists, and which list it is."""
    for kind, frame_format in FRAMES.items():
        if frame_format.listed is not None:
            yield kind, frame_format.listed


def name_in(event: tuple[Any, ...]) -> str | None:
    """Return the text in the field `name` of a struct; None if it has none."""
    raw: bytes | None = getattr(event, "name", None)
    return None if raw is None else text_of(raw)


def text_of(chars: bytes) -> str:
    """Return the text of a field of characters, which a zero may end."""
    return chars.split(b"\0")[0].decode("utf-8", "replace")


FRAME_HEAD = struct.Struct("<IHHQ")
"""`RingFrame`, of which millions are unpacked."""
_SIZE_AND_TYPE = struct.Struct("<IH")
_U32 = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Frame:
    """A definition or an event.

    Attributes
    ----------
    type : of `FrameType`, or a number that this version does not know.
    time : CLOCK_MONOTONIC, ns.
    body : what follows the head, padded to 8 bytes.
    """

    type: int
    time: int
    body: bytes

    def number(self) -> int:
        """Return the u32 that the body begins with; raises RingError if it is cut."""
        if len(self.body) < _U32.size:
            raise RingError("a frame is cut")
        number: int = _U32.unpack_from(self.body)[0]
        return number

    def texts(self) -> tuple[str, ...]:
        """Return the texts behind the struct; raises RingError where one is cut."""
        frame_format, texts = FRAMES[self.type], list[str]()
        at = size_of(frame_format.body)
        for _ in range(frame_format.n_texts):
            text, at = text_at(self.body, at)
            texts.append(text)
        return tuple(texts)

    def text(self) -> str:
        """Return the first text behind the struct; raises RingError if it is cut."""
        return text_at(self.body, size_of(FRAMES[self.type].body))[0]

    def is_whole(self) -> bool:
        """Return whether the body holds what `FRAMES` says; unknown types do."""
        frame_format = FRAMES.get(self.type)
        if frame_format is None:
            return True
        if len(self.body) < frame_format.n_bytes:
            return False
        try:
            self.texts()
        except RingError:
            return False
        return True

    def packed(self) -> bytes:
        """Return the frame as it is in a ring."""
        size = FRAME_HEAD.size + len(self.body)
        return FRAME_HEAD.pack(size, self.type, 0, self.time) + self.body


def text_at(body: Buffer, at: int = 0) -> tuple[str, int]:
    """Return the text that begins at `at`, and where it ends.

    Bytes that are no UTF-8 become U+FFFD.

    Raises
    ------
    RingError
        If it goes beyond `body`.
    """
    begin = at + 2
    if begin > len(body):
        raise RingError("a text goes beyond its frame")
    end = begin + int.from_bytes(body[at:begin], "little")
    if end > len(body):
        raise RingError("a text goes beyond its frame")
    return body[begin:end].decode("utf-8", "replace"), end


def frame_bounds(data: Buffer, begin: int = 0) -> Iterator[tuple[int, int, int]]:
    """Yield (type, begin, end) of each whole frame from `begin` on, pads included.

    A frame that is cut, and what has no possible size, ends the walk.
    """
    at, n_bytes = begin, len(data)
    while at + 8 <= n_bytes:
        size, kind = _SIZE_AND_TYPE.unpack_from(data, at)
        end = at + size
        if size < 8 or size % 8 or end > n_bytes:
            return
        if kind and size < FRAME_HEAD.size:
            return
        yield kind, at, end
        at = end


def frames(data: Buffer, begin: int = 0) -> Iterator[tuple[Frame | None, int]]:
    """Yield the whole frames of `data`, and where each ends; None stands for a pad."""
    for kind, at, end in frame_bounds(data, begin):
        frame = None
        if kind:
            body = data[at + FRAME_HEAD.size : end]
            frame = Frame(kind, FRAME_HEAD.unpack_from(data, at)[3], body)
        yield frame, end


class SeenDefinitions:
    """Finds the definitions that repeat earlier ones.

    Each generation of a ring's definitions begins with all that lasts, and repeats the
    builds that its graphs use.
    """

    def __init__(self) -> None:
        self._frames: set[Frame] = set()
        self._whole: set[int] = set()
        self._like: set[int] = set()

    def is_new(self, frame: Frame) -> bool:
        """Return whether a definition is new, and remember it.

        A build that was described by its differences is new when it comes whole:
        others may be like it.
        """
        is_build = frame.type in (FrameType.BUILD, FrameType.BUILD_LIKE)
        if not is_build or len(frame.body) < size_of(DefBuild):
            is_new = frame not in self._frames
            self._frames.add(frame)
            return is_new
        number = frame.number()
        if number in self._whole:
            return False
        seen = self._whole if frame.type == FrameType.BUILD else self._like
        is_new = number not in seen
        seen.add(number)
        return is_new


def defs_head(identity: bytes) -> bytes:
    """Return what the file of definitions of a ring begins with."""
    return pack(DefsHeader(DEFS_MAGIC, RING_VERSION, RING_BYTE_ORDER, tuple(identity)))


# -- bodies of several parts -----------------------------------------------


class TensorPlaces(NamedTuple):
    """A whole build: its head, where each `DefTensor` begins, and the names."""

    head: DefBuild
    begins: list[int]
    names: list[str]


def build_tensors(body: bytes) -> TensorPlaces:
    """Return where the tensors of a whole build are; raises RingError if it is cut."""
    head = unpack(DefBuild, body)
    n_bytes = size_of(DefTensor)
    at, begins, names = size_of(DefBuild), list[int](), list[str]()
    while len(begins) < head.n_tensors:
        if at + n_bytes > len(body):
            raise RingError(f"build {head.build} is cut")
        begins.append(at)
        name, at = text_at(body, at + n_bytes)
        at += -at % 8
        names.append(name)
    if head.n_nodes > head.n_tensors:
        raise RingError(f"build {head.build} is damaged")
    return TensorPlaces(head, begins, names)


class ColumnChange(NamedTuple):
    """Where the changes of a column of tensors are in the body of a build.

    `u64` from[n_moved], to[n_moved], is[n_single] begin at `values_at`; `u32`
    at[n_single] at `indexes_at`.
    """

    column: int
    n_moved: int
    n_single: int
    values_at: int
    indexes_at: int


def build_changes(body: bytes) -> Iterator[ColumnChange]:
    """Yield the columns in which a build differs; raises RingError if one is cut."""
    at = size_of(DefBuild)
    n_columns = unpack(DefLike, body, at).n_columns
    at += size_of(DefLike)
    for _ in range(min(n_columns, N_TENSOR_COLUMNS)):
        column, n_moved, n_single, _ = unpack(LikeColumn, body, at)
        at += size_of(LikeColumn)
        indexes_at = at + 8 * (2 * n_moved + n_single)
        end = indexes_at + 4 * n_single
        if column >= N_TENSOR_COLUMNS or end > len(body):
            raise RingError("the changes of a build are cut")
        yield ColumnChange(column, n_moved, n_single, at, indexes_at)
        at = end + -(end - at) % 8


class UbatchBody(NamedTuple):
    """All parts of a ubatch.

    `rows` and what follows: None and empty where an older tracer wrote it. `bits` has
    a byte for each row, `counts` how many of `sequences` it has.
    """

    head: EventUbatch
    tokens: tuple[int, ...]
    positions: tuple[int, ...]
    rows: UbatchRows | None = None
    bits: bytes = b""
    counts: tuple[int, ...] = ()
    sequences: tuple[int, ...] = ()


def ubatch_body(body: bytes) -> UbatchBody:
    """Return the parts of a ubatch.

    Raises
    ------
    RingError
        If it is cut, or its rows do not fit together.
    """
    head = unpack(EventUbatch, body)
    n, at = head.n_tokens + head.n_positions, size_of(EventUbatch)
    if at + 4 * n > len(body):
        raise RingError(f"ubatch {head.ubatch} ends within its tokens")
    numbers = struct.unpack_from(f"<{n}i", body, at)
    tokens, positions = numbers[: head.n_tokens], numbers[head.n_tokens :]
    at += 4 * n
    if len(body) - at < size_of(UbatchRows):
        return UbatchBody(head, tokens, positions)
    rows = unpack(UbatchRows, body, at)
    at += size_of(UbatchRows)
    counts_at = at + rows.n_rows + -rows.n_rows % 4
    sequences_at = counts_at + 4 * rows.n_rows
    if sequences_at + 4 * rows.n_sequences > len(body):
        raise RingError("the rows of a ubatch are cut")
    counts = struct.unpack_from(f"<{rows.n_rows}I", body, counts_at)
    if sum(counts) != rows.n_sequences:
        raise RingError("the sequences of a ubatch are not those of its rows")
    sequences = struct.unpack_from(f"<{rows.n_sequences}i", body, sequences_at)
    bits = body[at : at + rows.n_rows]
    return UbatchBody(head, tokens, positions, rows, bits, counts, sequences)


class ExpertsBody(NamedTuple):
    """A list of chosen experts: i32 ids and, of a router, f32 scores, as bytes."""

    head: EventExperts
    ids: bytes
    scores: bytes


def experts_body(frame: Frame) -> ExpertsBody:
    """Return the parts of a list of experts; raises RingError if it is cut."""
    head, body = unpack(EventExperts, frame.body), frame.body
    at, n_bytes = size_of(EventExperts), 4 * head.rows * head.used
    scores_at = at + n_bytes
    end = scores_at + (n_bytes if frame.type == FrameType.ROUTER else 0)
    if end > len(body):
        raise RingError("a list of experts is cut")
    return ExpertsBody(head, body[at:scores_at], body[scores_at:end])
