"""Packets of a Perfetto trace as columns; what finds them is ``perfetto.c``.

Form: ``trace.proto`` of Perfetto, a list of ``TracePacket`` as field 1.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from functools import partial

import numpy as np

from ggscope.errors import ReadError
from ggscope.model.tables import F64, I64, U8, U64, Array, narrow
from ggscope.readers.api import ReadContext
from ggscope.readers.chunked import ChunkedTable
from ggscope.readers.common.block_steps import BlockSteps
from ggscope.readers.common.packed_text import (
    HeadText,
    TextBlocks,
    TraceText,
    zstd_reader,
)
from ggscope.readers.common.protobuf import signed
from ggscope.readers.perfetto.buffers import OF_OWN, TRACK_COLUMNS, Buffers, Tables
from ggscope.readers.perfetto.bundles import (
    COMPRESSED,
    ZSTD_COMPRESSED,
    Places,
    unpacked_bundle,
)
from ggscope.readers.perfetto.messages import fields_of, text_of_bytes

FIRST_BYTES = 1 << 20
"""Of the first block, for an early picture."""
_CAPACITY = 1 << 16

OWN = "ggscope."
"""What the keys of trace attributes begin with that ggscope writes."""
_MAX_OWN = 1 << 20
"""Characters of such a value, which may list lanes."""


class Mark(IntFlag):
    """What is known of an event, as in ``perfetto.c``."""

    NEGATIVE = 1
    """Its duration is not known."""
    OF_PROCESS = 2
    OF_ALL = 4
    TO_NEXT = 8
    """A flow leads to the span that begins next."""


class Of(IntFlag):
    """What a description is of, as in ``perfetto.c``."""

    PROCESS = 1
    THREAD = 2
    COUNTER = 4
    INCREMENTAL = 8
    APART = 16
    """It is not joined with others of its name."""
    SEPARATE = 32
    """A thread that is not joined with others of its number."""
    BESIDE = 64
    """An activity with an id, beside a thread."""
    LISTED = 128
    """By the kernel's list of processes."""


class TrackKey(IntEnum):
    """What identifies a track, as in ``perfetto.c``."""

    UUID = 0
    THREAD = 1
    PROCESS = 2
    ACTIVITY = 3


class Interned(IntEnum):
    """Tables of interned texts, as in ``perfetto.c``."""

    NAME = 0
    CATEGORY = 1
    BOTH = 2
    NOTE_NAME = 3
    NOTE_TEXT = 4


class FlowRole(IntEnum):
    """What an event is for a flow, as in ``perfetto.c``."""

    FLOW = 0
    LAST = 1
    OUT = 2
    IN = 3
    THROUGH = 4


class _Status(IntEnum):
    MORE = 0
    FULL = 1
    GROW = 2
    PACKED = 3
    ZSTD = 4
    ATTRIBUTES = 5


_FAULTS = ("broken", "untimed", "skipped", "gap", "left_out", "uncounted")
_COUNTS = {"gap": "n_gaps"}


@dataclass(slots=True)
class Faults:
    """What was passed over: how often by kind, and where it was first.

    Attributes
    ----------
    count, first : by kind of `perfetto.c`: "broken", "untimed", "skipped", "gap",
        "left_out", "uncounted"; and "bundle", packets packed together that could not be
        unpacked, "zstd", those that nothing here unpacks.
    cut_at : where the text ends within a packet; -1 nowhere.
    ended : why unpacking ended too soon; "" = it did not.
    """

    count: dict[str, int] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    cut_at: int = -1
    ended: str = ""

    def add(self, kind: str, offset: int, n: int = 1) -> None:
        """Count some; `offset` is of the first."""
        self.count[kind] = self.count.get(kind, 0) + n
        self.first.setdefault(kind, offset)


@dataclass(frozen=True, slots=True, eq=False)
class Packets:
    """What the packets of a file state.

    Attributes
    ----------
    phase, flags : uint8[n], letter as in Chrome's events, Z for a state; and `Mark`.
    offset : int[n], where the packet of each begins, see `Places`.
    time, duration : int[n], ns of `clock`.
    clock, track : int[n] into `clocks` and `track_keys`.
    name, category : int[n] into `texts`, -1 none.
    value_time, value_clock, value_track, value_state, value : of counters.
    flow_row, flow_id, flow_role : of flows; the row of the event.
    tracks : descriptions of tracks by column, in the order of the file.
    track_space, track_first, track_second : what each track is known by.
    clocks : sequence + 1 or 0, and number of each clock, int64[k, 2].
    snapshots : snapshot, clock and time of each clock at a snapshot.
    primary_clock : the clock of the trace; -1 unknown.
    of_ops : of events that ggscope wrote: `OF_OWN`, and the first letter of their
        quality; a word is a text, -1 not there, -2 empty.
    n_nameless : texts that events refer to and that were never stated.
    by_kind : number of packets by field of TracePacket, 0 those without content.
    attributes : what the trace says of itself.
    """

    phase: U8
    flags: U8
    offset: Array
    time: Array
    duration: Array
    clock: Array
    track: Array
    name: Array
    category: Array
    value_time: Array
    value_clock: Array
    value_track: Array
    value_state: Array
    value: F64
    flow_row: Array
    flow_id: U64
    flow_role: U8
    tracks: dict[str, Array]
    track_space: U8
    track_first: U64
    track_second: U64
    clocks: I64
    snapshots: dict[str, Array]
    primary_clock: int
    of_ops: dict[str, Array]
    texts: list[str]
    n_nameless: int
    by_kind: dict[int, int]
    attributes: dict[str, str | int]
    faults: Faults

    def __len__(self) -> int:
        return len(self.phase)

    @property
    def n_packets(self) -> int:
        """All packets of the file."""
        return sum(self.by_kind.values())

    def of(self, phases: str) -> I64:
        """Return the rows of some phases, ascending."""
        is_phase = np.zeros(256, np.bool_)
        is_phase[[ord(phase) for phase in phases]] = True
        return np.flatnonzero(is_phase[self.phase]).astype(np.int64)


class PacketScan:
    """Reads the packets of a text block by block.

    Parameters
    ----------
    text : of the file.
    publish : called with the first events, for an early picture; None = do not.
    """

    def __init__(
        self,
        text: TraceText,
        context: ReadContext,
        size: int,
        publish: Callable[["PacketScan"], None] | None = None,
        *,
        first_bytes: int = FIRST_BYTES,
    ) -> None:
        self._text, self._context, self._first_bytes = text, context, first_bytes
        early = None if publish is None else partial(publish, self)
        self._steps = BlockSteps(text, context, size, early)
        self._numbers: dict[str, int] = {}
        self._rows = ChunkedTable(
            offset=np.int64, time=np.int64, duration=np.int64, clock=np.int32,
            track=np.int32, name=np.int32, category=np.int32, phase=np.uint8,
            flags=np.uint8,
        )  # fmt: skip
        self._of_ops = ChunkedTable(**dict.fromkeys(OF_OWN, np.int32), quality=np.uint8)
        self._values = ChunkedTable(
            time=np.int64, clock=np.int32, track=np.int32, state=np.int32,
            value=np.float64,
        )  # fmt: skip
        self._flows = ChunkedTable(row=np.int64, id=np.uint64, role=np.uint8)
        self._tracks = ChunkedTable(**TRACK_COLUMNS)
        self._snapshots = ChunkedTable(snapshot=np.int32, clock=np.int32, time=np.int64)
        self._states = ChunkedTable(sequence=np.int32, offset=np.int64)
        self._notes = ChunkedTable(number=np.int32, offset=np.int64, length=np.int32)
        self._text_of = np.full(0, -1, np.int32)
        self._buffers = Buffers(_CAPACITY)
        self._tables = Tables()
        self.attributes: dict[str, str | int] = {}
        self.places = Places()
        self.faults = Faults()

    def run(self) -> Packets:
        """Read all of it.

        Raises
        ------
        LimitExceededError
            If there is too little memory.
        ReadError
            If the file cannot be read.
        Cancelled
            If that was asked for.
        """
        with TextBlocks(self._text) as blocks:
            self._take(blocks)
            self.faults.ended = blocks.ended
        return self.packets(is_last=True)

    def _take(self, blocks: TextBlocks) -> None:
        blocks.first(self._first_bytes)
        while True:
            self._steps.begin()
            at = self._scan(blocks.data, blocks.offset)
            self._steps.end(has_rows=len(self._rows) > 0)
            if not blocks.extend(at):
                if len(blocks.data):
                    self.faults.cut_at = blocks.offset + self.places.unpacked
                return

    def _scan(self, data: U8, offset: int, *, is_packed: bool = False) -> int:
        """Take the packets of a block; return where it goes on."""
        at = 0
        base = offset if is_packed else offset + self.places.unpacked
        buffers, tables = self._buffers, self._tables
        while True:
            tally = buffers.scan(data, at, base, tables, has_own=self.is_own)
            self._add(data)
            at = int(tally.consumed)
            status = _Status(tally.status)
            self._context.check_cancelled()
            if status is _Status.MORE:
                return at
            begin, size = int(tally.body_at), int(tally.body_size)
            if status is _Status.GROW:
                needed = int(tally.needed)
                tables.grow(needed)
                if needed > buffers.capacity:
                    self._buffers = buffers = Buffers(2 * needed, buffers.tally)
            elif status is _Status.ATTRIBUTES:
                self._note_attributes(data[begin : begin + size].tobytes())
            elif status in (_Status.PACKED, _Status.ZSTD):
                if is_packed:
                    self.faults.add("bundle", base + begin)
                    continue
                kind = COMPRESSED if status is _Status.PACKED else ZSTD_COMPRESSED
                packed = data[begin : begin + size].tobytes()
                base += self._unpack(packed, base + at, offset + begin, kind)
                buffers = self._buffers

    def _unpack(self, packed: bytes, at: int, place: int, kind: int) -> int:
        """Take packets that are packed together; return how many bytes they are."""
        if kind == ZSTD_COMPRESSED and zstd_reader() is None:
            self.faults.add("zstd", at)
            return 0
        try:
            content = unpacked_bundle(packed, kind)
        except ReadError:
            self.faults.add("bundle", at)
            return 0
        self.places.add(at, len(content), place, len(packed), kind)
        used = self._scan(np.frombuffer(content, np.uint8), at, is_packed=True)
        if used < len(content):
            self.faults.add("bundle", at + used)
        return len(content)

    def _note_attributes(self, data: bytes) -> None:
        for number, entry in fields_of(data):
            if number != 1 or not isinstance(entry, bytes):
                continue
            key = ""
            value: int | str | None = None
            for inner, content in fields_of(entry):
                if inner == 1 and isinstance(content, bytes):
                    key = text_of_bytes(content)[:200]
                elif inner == 2 and isinstance(content, int):
                    value = signed(content)
                elif inner == 3 and isinstance(content, bytes):
                    max_length = _MAX_OWN if key.startswith(OWN) else 200
                    value = text_of_bytes(content)[:max_length]
            if key and value is not None and len(self.attributes) < 200:
                self.attributes[key] = value

    @property
    def is_own(self) -> bool:
        """Whether ggscope wrote the file."""
        return f"{OWN}format" in self.attributes

    def _add(self, data: U8) -> None:
        """Add the rows of a scan."""
        buffers, before = self._buffers, len(self._rows)
        texts = buffers.texts.texts(data, is_escaped=False)
        numbers = self._numbers
        moved = np.array(
            [*(numbers.setdefault(t, len(numbers)) for t in texts), -1], np.int32
        )

        def global_text(code: Array) -> Array:
            return np.where(code >= 0, moved[np.maximum(code, -1)], code)

        if buffers.n("rows"):
            rows = buffers.taken("rows")
            for name in ("name", "category"):
                rows[name] = global_text(rows[name])
            if self.is_own:
                # Before the attributes there are none.
                if not len(self._of_ops) and before:
                    self._of_ops.append(
                        **{name: np.full(before, -1, np.int32) for name in OF_OWN},
                        quality=np.zeros(before, np.uint8),
                    )
                self._of_ops.append(
                    **{name: rows[name] for name in (*OF_OWN, "quality")}
                )
            self._rows.append(**{name: rows[name] for name in self._rows.names})
        if buffers.n("values"):
            self._values.append(**buffers.taken("values"))
        if buffers.n("flows"):
            flows = buffers.taken("flows")
            flows["row"] = flows["row"].astype(np.int64) + before
            self._flows.append(**flows)
        if buffers.n("tracks"):
            tracks = buffers.taken("tracks")
            for name in ("name", "process", "thread", "unit", "merge_key"):
                tracks[name] = global_text(tracks[name])
            self._tracks.append(**tracks)
        if buffers.n("snapshots"):
            self._snapshots.append(**buffers.taken("snapshots"))
        if buffers.n("states"):
            self._states.append(**buffers.taken("states"))
        if buffers.n("interned"):
            self._add_interned(buffers.taken("interned"), moved)

    def _add_interned(self, rows: dict[str, Array], moved: Array) -> None:
        number, text = rows["number"], rows["text"]
        n = int(self._tables.interned.count)
        if len(self._text_of) < n:
            more = np.full(max(n, 2 * len(self._text_of)), -1, np.int32)
            more[: len(self._text_of)] = self._text_of
            self._text_of = more
        space = self._tables.interned_space[number]
        shown = np.flatnonzero((space < Interned.BOTH) | (text >= 0))[::-1]
        # What was stated first holds, within what a sequence knows.
        shown = shown[self._text_of[number[shown]] < 0]
        self._text_of[number[shown]] = moved[text[shown]]
        notes = np.flatnonzero(space > Interned.BOTH)
        if len(notes):
            self._notes.append(
                **{name: rows[name][notes] for name in ("number", "offset", "length")}
            )

    # -- what there is so far ------------------------------------------------------

    def packets(self, *, is_last: bool = False) -> Packets:
        """Return the packets so far; `is_last`: the scan keeps none of them."""
        values, flows, tables = self._values, self._flows, self._tables
        take = self._rows.pop if is_last else self._rows.column
        names = dict(self._numbers)
        text_of = self._interned_texts(names)
        name, n_nameless = _resolved(take("name"), text_of)
        category, _ = _resolved(take("category"), text_of)
        tracks = {name: self._tracks.column(name) for name in self._tracks.names}
        tracks["name"], _ = _resolved(tracks["name"], text_of)
        return Packets(
            phase=take("phase"),
            flags=take("flags"),
            **{
                name: narrow(take(name))
                for name in ("offset", "time", "duration", "clock", "track")
            },
            name=narrow(name),
            category=narrow(category),
            value_time=values.column("time"),
            value_clock=values.column("clock"),
            value_track=values.column("track"),
            value_state=values.column("state"),
            value=values.column("value"),
            flow_row=flows.column("row"),
            flow_id=flows.column("id"),
            flow_role=flows.column("role"),
            tracks=tracks,
            track_space=tables.tracks.column("space"),
            track_first=tables.tracks.column("first"),
            track_second=tables.tracks.column("second"),
            clocks=tables.clock_keys(),
            snapshots={
                name: self._snapshots.column(name) for name in self._snapshots.names
            },
            primary_clock=int(self._buffers.tally.primary_clock),
            of_ops=self._own_columns(text_of),
            texts=list(names),
            n_nameless=n_nameless,
            by_kind=self._buffers.kinds(),
            attributes=dict(self.attributes),
            faults=self._all_faults(),
        )

    def _own_columns(self, text_of: Array) -> dict[str, Array]:
        """Return what ggscope wrote of events, in a file of its own."""
        if not len(self._of_ops):
            return {}
        columns = {name: self._of_ops.column(name) for name in (*OF_OWN, "quality")}
        word = columns["word"]
        text, _ = _resolved(word, text_of)
        columns["word"] = np.where((word != -1) & (text < 0), -2, text)
        return columns

    def _interned_texts(self, names: dict[str, int]) -> Array:
        """Return the text of each interned one; joined categories are new texts."""
        table = self._tables.interned
        n = int(table.count)
        text_of = np.full(n, -1, np.int32)
        m = min(n, len(self._text_of))
        text_of[:m] = self._text_of[:m]
        is_both = self._tables.interned_space[:n] == Interned.BOTH
        op_names = list(names)
        for i in np.flatnonzero(is_both).tolist():
            parts = [
                op_names[code]
                for code in text_of[[int(table.first[i]), int(table.second[i])]]
                if code >= 0
            ]
            if parts:
                word = ",".join(parts)[:4096]
                text_of[i] = names.setdefault(word, len(names))
                if len(names) > len(op_names):
                    op_names.append(word)
        return text_of

    def _all_faults(self) -> Faults:
        tally, result = self._buffers.tally, Faults()
        result.cut_at, result.ended = self.faults.cut_at, self.faults.ended
        result.count, result.first = dict(self.faults.count), dict(self.faults.first)
        for kind in _FAULTS:
            n = int(getattr(tally, _COUNTS.get(kind, f"n_{kind}")))
            if n:
                result.add(kind, int(getattr(tally, f"first_{kind}")), n)
        return result

    def note_texts(self) -> "NoteTexts":
        """Return where the texts of annotations stand."""
        table = self._tables.interned
        number = self._notes.column("number").astype(np.int64)
        return NoteTexts(
            space=table.space[number].copy(),
            state=table.first[number].astype(np.int64),
            iid=table.second[number].copy(),
            offset=self._notes.column("offset"),
            length=self._notes.column("length"),
            state_sequence=self._tables.sequences.column("first")[
                self._states.column("sequence")
            ].astype(np.int64),
            state_offset=self._states.column("offset"),
        )


@dataclass(frozen=True, slots=True, eq=False)
class NoteTexts:
    """Where interned names and texts of annotations stand.

    Attributes
    ----------
    space, state, iid : what each is known by: table, what a sequence knows, number.
    offset, length : where its text stands.
    state_sequence, state_offset : whose knowledge each state is, and where it begins.
    """

    space: U8
    state: I64
    iid: U64
    offset: Array
    length: Array
    state_sequence: I64
    state_offset: Array

    def state_at(self, sequence: int, offset: int) -> int:
        """Return the state of a sequence at a packet, -1 none."""
        states = np.flatnonzero(
            (self.state_sequence == sequence) & (self.state_offset <= offset)
        )
        return int(states[-1]) if len(states) else -1

    def place(self, space: Interned, state: int, iid: int) -> tuple[int, int] | None:
        """Return offset and length of a text; None where it was never defined."""
        rows = np.flatnonzero(
            (self.state == state)
            & (self.space == space)
            & (self.iid == np.uint64(iid & (1 << 64) - 1))
        )
        if not len(rows):
            return None
        return int(self.offset[rows[0]]), int(self.length[rows[0]])


def scan_head(data: bytes) -> Packets:
    """Return what the first bytes of a text hold."""
    scan = PacketScan(
        HeadText(data), ReadContext(), len(data), first_bytes=max(len(data), 1)
    )
    return scan.run()


def _resolved(code: Array, text_of: Array) -> tuple[Array, int]:
    """Return the text of each code, and how many refer to none."""
    is_interned = code <= -2
    if not is_interned.any():
        return code, 0
    number = np.where(is_interned, -2 - code, 0)
    text = np.where(is_interned, text_of[number], code)
    return text, int(np.count_nonzero(text[is_interned] < 0))
