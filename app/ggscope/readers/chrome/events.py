"""Events of a Chrome trace as columns; what finds them is ``chrome.c``.

Form: the Trace Event Format, a JSON object with ``traceEvents`` or a list of events.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntFlag
from functools import partial

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.tables import F64, I32, I64, U8, Array, distinct, narrow
from ggscope.native.declared import (
    ChromeRows,
    ChromeTally,
    ChromeValues,
    ListTally,
)
from ggscope.native.library import library
from ggscope.readers.api import ReadContext
from ggscope.readers.chunked import ChunkedTable
from ggscope.readers.common.block_steps import BlockSteps
from ggscope.readers.common.json_walk import decimal_of
from ggscope.readers.common.packed_text import (
    LONGEST,
    HeadText,
    TextBlocks,
    TraceText,
)
from ggscope.readers.common.text_blocks import TextSlots
from ggscope.readers.common.text_cursor import ScanStatus, TextCursor, string_of

BLOCK_BYTES = 4 << 20
_FACT_BYTES = 1 << 20
"""Values beside the events that are longer are passed over."""
STACK_KEYS = ("samples", "stackFrames")
"""Values of sampled stacks, which may be longer …"""
_STACK_BYTES = 64 << 20
"""… than this they are not."""
_MAX_FACTS = 200
_CAPACITY = 1 << 16
_N_TEXTS = 1 << 18
_N_VALUES = 1 << 17
_EVENTS = "traceEvents"
OF_OPS = ("layer", "token", "core", "numa")
"""What ggscope writes of an op beside its times."""
_OF_OWN = (*OF_OPS, "span", "word")
_PHASES = 128
"""After so many blocks the free memory is looked at."""


class Mark(IntFlag):
    """What is known of an event, as in ``chrome.c``."""

    TIME = 1
    DURATION = 2
    ID = 4
    BINDS_ENCLOSING = 8
    OF_PROCESS = 16
    OF_ALL = 32
    NEGATIVE = 64
    """Its duration is negative."""
    CPU_TIME = 128
    """Its duration is that of the thread on a core, for want of another."""


@dataclass(slots=True)
class Faults:
    """What was passed over, and where it was first; -1 nowhere.

    Attributes
    ----------
    broken : events that are no JSON, or have no time.
    other : elements of the list that are no objects.
    bare : objects without a phase.
    cut_at : where the text ends within an event or before the list ends.
    ended : why unpacking ended too soon; "" = it did not.
    left_out : keys of an outer object whose values were too long.
    has_end : whether the list was closed.
    """

    broken: int = 0
    first_broken: int = -1
    other: int = 0
    bare: int = 0
    first_bare: int = -1
    cut_at: int = -1
    ended: str = ""
    left_out: list[str] = field(default_factory=list)
    has_end: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """The events of a file that state something, in the order of the file.

    Attributes
    ----------
    phase, flags : uint8[n], letter and `Mark`.
    offset : int[n], where each begins in the text.
    time, duration : int[n], ns; 0 where `flags` has none.
    track : int[n] into `tracks`; name, category : int[n] into `texts`, -1 none.
    tracks : texts of pid and tid of each track, -1 none, int32[k, 2].
    id_row, id : int64[·], the rows that have an id, ascending, and the ids.
    argument_row : int64[·], rows with one of the following, -1 none: `correlation`,
        `external` (the id of the op that launched), `number` (a sort index, else
        bytes), `text` (a name in the arguments).
    value_row, value_key, value : of counters, `value_key` into `texts`.
    of_ops : rows that ggscope wrote with layer, token, core, NUMA node, span (its
        number among the spans) or word (a text, of the op or in detail), and these, -1
        none; empty of other files.
    by_phase : int64[128], how many events of each phase.
    facts : values of the outer object beside the events.
    """

    phase: U8
    flags: U8
    offset: Array
    time: Array
    duration: Array
    track: Array
    name: Array
    category: Array
    tracks: I32
    id_row: I64
    id: I64
    argument_row: I64
    correlation: I64
    external: I64
    number: I64
    text: I64
    value_row: I64
    value_key: I64
    value: F64
    of_ops: dict[str, Array]
    texts: list[str]
    by_phase: I64
    facts: dict[str, object]
    faults: Faults
    is_list: bool

    def __len__(self) -> int:
        return len(self.phase)

    @property
    def n_events(self) -> int:
        """All events of the file, also those that state nothing."""
        return int(self.by_phase.sum())

    def of(self, *phases: str) -> I64:
        """Return the rows of some phases, ascending, that have a time."""
        is_of = np.zeros(256, np.bool_)
        is_of[[ord(phase) for phase in phases]] = True
        has_time = (self.flags & Mark.TIME) != 0
        return np.flatnonzero(is_of[self.phase] & has_time).astype(np.int64)

    def counts(self) -> dict[str, int]:
        """Return the number of events by phase."""
        there = np.flatnonzero(self.by_phase).tolist()
        return {chr(i): int(self.by_phase[i]) for i in there}


class EventScan:
    """Reads the events of a text block by block.

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
        publish: Callable[["EventScan"], None] | None = None,
        *,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._text, self._context = text, context
        early = None if publish is None else partial(publish, self)
        self._steps = BlockSteps(text, context, size, early)
        self._block_bytes = block_bytes
        self._numbers: dict[str, int] = {}
        self._tracks: dict[int, int] = {}
        self._table = ChunkedTable(
            phase=np.uint8, flags=np.uint8, offset=np.int64, time=np.int64,
            duration=np.int64, track=np.int32, name=np.int32, category=np.int32,
        )  # fmt: skip
        self._ids = ChunkedTable(row=np.int64, id=np.int64)
        self._arguments = ChunkedTable(
            row=np.int64, correlation=np.int64, external=np.int64, number=np.int64,
            text=np.int64,
        )  # fmt: skip
        self._values = ChunkedTable(row=np.int64, key=np.int64, value=np.float64)
        self._of_ops = ChunkedTable(row=np.int64, **dict.fromkeys(_OF_OWN, np.int64))
        self._by_phase = np.zeros(_PHASES, np.int64)
        self._facts: dict[str, object] = {}
        self.faults = Faults()
        self._is_list = False
        self._buffers = _Buffers()
        self._at = 0
        """Of the buffer's first byte in the text."""

    def run(self) -> Events:
        """Read all of it.

        Raises
        ------
        CorruptError
            If it is no list of events, nor an object that has one.
        LimitExceededError
            If there is too little memory.
        ReadError
            If the file cannot be read.
        Cancelled
            If that was asked for.
        """
        with TextBlocks(self._text, self._block_bytes) as blocks:
            self._begin(blocks)
            self.faults.ended = blocks.ended
        return self.events(is_last=True)

    def events(self, *, is_last: bool = False) -> Events:
        """Return the events so far; `is_last`: the scan keeps none of them."""
        table, arguments, values = self._table, self._arguments, self._values
        tracks = np.array(list(self._tracks), np.int64)
        take = table.pop if is_last else table.column
        return Events(
            phase=take("phase"),
            flags=take("flags"),
            **{
                name: narrow(take(name))
                for name in ("offset", "time", "duration", "track", "name", "category")
            },
            tracks=np.stack([tracks >> 32, (tracks & 0xFFFF_FFFF)], 1).astype(np.int32)
            - 1,
            id_row=self._ids.column("row"),
            id=self._ids.column("id"),
            argument_row=arguments.column("row"),
            correlation=arguments.column("correlation"),
            external=arguments.column("external"),
            number=arguments.column("number"),
            text=arguments.column("text"),
            value_row=values.column("row"),
            value_key=values.column("key"),
            value=values.column("value"),
            of_ops={
                name: self._of_ops.column(name)
                for name in ("row", *_OF_OWN)
                if len(self._of_ops)
            },
            texts=list(self._numbers),
            by_phase=self._by_phase.copy(),
            facts=dict(self._facts),
            faults=self.faults,
            is_list=self._is_list,
        )

    def _begin(self, blocks: TextBlocks) -> None:
        cursor = TextCursor(blocks, self._context.check_cancelled)
        byte = cursor.byte()
        if byte == ord("["):
            self._is_list = True
            cursor.at += 1
            self._take_list(cursor)
        elif byte == ord("{"):
            self._take_outer(cursor)
        else:
            raise CorruptError(
                "the text is no JSON object or list.", offset=cursor.offset
            )

    def _take_outer(self, cursor: TextCursor) -> None:
        """Take the members of the outer object."""
        has_list = False
        for key in cursor.members():
            if key != _EVENTS or cursor.byte() != ord("["):
                self._take_fact(cursor, key)
                continue
            has_list = True
            cursor.at += 1
            if not self._take_list(cursor):
                return
        if not has_list:
            raise CorruptError(
                f"the object has no list {_EVENTS}.",
                hint="Is this a trace?",
            )

    def _take_fact(self, cursor: TextCursor, key: str) -> None:
        """Take a value beside the events."""
        is_stack = key in STACK_KEYS
        text = cursor.value(_STACK_BYTES if is_stack else _FACT_BYTES)
        if text is None or len(self._facts) >= _MAX_FACTS:
            self.faults.left_out.append(key[:80])
            return
        with suppress(ValueError, RecursionError):
            value = json.loads(
                text.decode("utf-8", "replace"),
                strict=False,
                parse_float=decimal_of if is_stack else float,
            )
            self._facts[key[:200]] = value

    def _take_list(self, cursor: TextCursor) -> bool:
        """Take events; return False where the text ends before their list does."""
        blocks = cursor.blocks
        while True:
            self._steps.begin()
            cursor.at, status = self._scan(blocks, cursor.at)
            if status is ScanStatus.CLOSED:
                self.faults.has_end = True
                return True
            self._steps.end(has_rows=len(self._table) > 0)
            if len(blocks.data) - cursor.at >= LONGEST:
                # Go on behind it, with whatever looks like an event.
                self._note_broken(cursor.offset)
                cursor.at = len(blocks.data)
            if not cursor.extend():
                self.faults.cut_at = cursor.offset
                return False

    def _note_broken(self, offset: int) -> None:
        self.faults.broken += 1
        if self.faults.first_broken < 0:
            self.faults.first_broken = offset

    def _scan(self, blocks: TextBlocks, at: int) -> tuple[int, ScanStatus]:
        """Take the events of a block; return where it goes on."""
        data, buffers = blocks.data, self._buffers
        while True:
            n = buffers.scan(data, at, blocks.is_last)
            faults, start = self.faults, blocks.offset
            listed, tally = buffers.list_tally, buffers.tally
            faults.other += listed.n_other
            faults.bare += tally.n_bare
            if tally.first_bare >= 0 and faults.first_bare < 0:
                faults.first_bare = start + tally.first_bare
            faults.broken += listed.n_broken
            if listed.first_broken >= 0 and faults.first_broken < 0:
                faults.first_broken = start + listed.first_broken
            self._by_phase += np.ctypeslib.as_array(tally.phases)
            if n:
                self._add(data, n, start)
            at = int(listed.consumed)
            if listed.status != ScanStatus.FULL:
                return at, ScanStatus(listed.status)
            self._context.check_cancelled()

    def _add(self, data: U8, n: int, offset: int) -> None:
        """Add the rows of a scan."""
        buffers, before = self._buffers, len(self._table)
        rows = {name: column[:n] for name, column in buffers.columns.items()}
        moved = self._moved(data)
        key = (moved[rows["pid"]].astype(np.int64) + 1) << 32
        key |= moved[rows["tid"]].astype(np.int64) + 1
        self._table.append(
            phase=rows["phase"].copy(),
            flags=rows["flags"].copy(),
            offset=rows["offset"] + offset,
            time=rows["time"].copy(),
            duration=rows["duration"].copy(),
            track=self._track_numbers(key),
            name=moved[rows["name"]],
            category=moved[rows["category"]],
        )
        having = np.flatnonzero(rows["flags"] & int(Mark.ID))
        if len(having):
            self._ids.append(row=having + before, id=rows["id"][having])
        having = np.flatnonzero(
            (rows["correlation"] != -1)
            | (rows["external"] != -1)
            | (rows["number"] != -1)
            | (rows["text"] != -1)
        )
        if len(having):
            self._arguments.append(
                row=having + before,
                text=moved[rows["text"][having]],
                **{
                    name: rows[name][having]
                    for name in ("correlation", "external", "number")
                },
            )
        if is_own(self._facts):
            having = np.flatnonzero(
                np.any([rows[name] >= 0 for name in _OF_OWN], axis=0)
            )
            if len(having):
                own = {name: rows[name][having] for name in _OF_OWN}
                own["word"] = moved[own["word"]]
                self._of_ops.append(row=having + before, **own)
        if n_values := buffers.values.count:
            values = {name: column[:n_values] for name, column in buffers.value.items()}
            self._values.append(
                row=values["row"].astype(np.int64) + before,
                key=moved[values["key"]],
                value=values["value"].copy(),
            )

    def _moved(self, data: U8) -> I64:
        """Return the number of each text of a block in all; -1 for -1."""
        numbers = self._numbers
        table = [
            numbers.setdefault(t, len(numbers)) for t in self._buffers.texts_of(data)
        ]
        return np.array([*table, -1], np.int64)

    def _track_numbers(self, key: I64) -> I64:
        tracks = self._tracks
        present = distinct(key)
        of_key = [tracks.setdefault(k, len(tracks)) for k in present.tolist()]
        return np.array(of_key, np.int64)[np.searchsorted(present, key)]


def is_own(facts: dict[str, object]) -> bool:
    """Return whether ggscope wrote the file, by what stands beside the events."""
    about = facts.get("otherData")
    return isinstance(about, dict) and about.get("written by") == "ggscope"


def scan_head(data: bytes) -> Events:
    """Return what the first bytes of a text hold, up to what is no list of events."""
    scan = EventScan(HeadText(data), ReadContext(), len(data))
    try:
        return scan.run()
    except CorruptError:
        return scan.events()


class _Buffers:
    """Where a scan puts its rows; used again for each."""

    def __init__(self) -> None:
        i64 = ("offset", "time", "duration", "id", "number", "correlation", "external")
        i32 = ("pid", "tid", "name", "category", "text", *_OF_OWN)
        self.columns: dict[str, Array] = {
            **{name: np.empty(_CAPACITY, np.int64) for name in i64},
            **{name: np.empty(_CAPACITY, np.int32) for name in i32},
            **{name: np.empty(_CAPACITY, np.uint8) for name in ("phase", "flags")},
        }
        self.value: dict[str, Array] = {
            "row": np.empty(_N_VALUES, np.int32),
            "key": np.empty(_N_VALUES, np.int32),
            "value": np.empty(_N_VALUES, np.float64),
        }
        self._texts = TextSlots.of(_N_TEXTS)
        self._rows = ChromeRows(**self.columns)
        self.values = ChromeValues(capacity=_N_VALUES, **self.value)
        self.list_tally, self.tally = ListTally(), ChromeTally()

    def scan(self, data: U8, at: int, is_last: bool) -> int:
        """Read events; return the number of rows."""
        self._texts.clear()
        n = library().ggscope_chrome_scan(
            data, len(data), at, int(is_last), _CAPACITY, self._rows, self.values,
            self._texts.table, self.list_tally, self.tally,
        )  # fmt: skip
        return int(n)

    def texts_of(self, data: U8) -> Iterator[str]:
        """Return the texts of the last scan as people read them."""
        return map(string_of, self._texts.pieces(data))
