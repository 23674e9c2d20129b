"""Collect buffer events from parsed JSON values, whatever form they come in.

A timeline file lists its buffers beside the events, one entry per id.
"""

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity
from ggscope.readers.common.buffer_lives import MAX_SIZE, BufferEvents
from ggscope.readers.common.json_walk import integer_of
from ggscope.readers.memory import Allowance

_NS_PER_MS = 1_000_000
_MAX_MS = Decimal((1 << 62) // _NS_PER_MS)
_ID_STOP = 1 << 64
_EVENT_BYTES = 600
UNKNOWN_USAGE = 255
"""Stands for a usage that the file does not state, or states wrongly."""
ALLOC_WORDS = frozenset(("alloc", "allocate"))
FREE_WORDS = frozenset(("dealloc", "free", "deallocate"))
_USAGE_NAMES = {"ANY": 0, "WEIGHTS": 1, "COMPUTE": 2}


def allowance_of(size: int) -> Allowance:
    """Return the buffer events that a file of `size` bytes may hold."""
    return Allowance(size, _EVENT_BYTES, "buffer events")


@dataclass(slots=True)
class BufferEvent:
    """One allocation or release; see `BufferEvents`, whose row it becomes."""

    time: int
    id: int
    is_alloc: bool
    record: int
    size: int = -1
    name: str = ""
    backend: str = ""
    usage: int = UNKNOWN_USAGE
    layer: int = -1


@dataclass(slots=True)
class EventList:
    """Buffer events as they are met.

    Attributes
    ----------
    allowance : events that the file may still hold.
    bad : events that were left out, by what is wrong with them.
    first_bad : place of the first of them.
    """

    allowance: Allowance = field(default_factory=lambda: allowance_of(0))
    rows: list[BufferEvent] = field(default_factory=list)
    bad: Counter[str] = field(default_factory=Counter)
    first_bad: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    def add(
        self, value: dict[str, object], record: int, place: str, *, name: str = "name"
    ) -> bool:
        """Add one event; False where it lacks what an event needs, and is counted.

        Parameters
        ----------
        name : key of the buffer's name.
        """
        time = ns_of(value.get("timestamp_ms"))
        buffer_id = id_of(value.get("buffer_id"))
        word = value.get("event")
        is_alloc = word in ALLOC_WORDS if isinstance(word, str) else False
        fault = (
            "time"
            if time is None
            else "id"
            if buffer_id is None
            else "kind"
            if not is_alloc and not (isinstance(word, str) and word in FREE_WORDS)
            else ""
        )
        if fault or time is None or buffer_id is None:
            self.reject(fault, place)
            return False
        event = BufferEvent(
            time,
            buffer_id,
            is_alloc,
            record,
            size_of(value.get("size")),
            text_of(value.get(name)),
            text_of(value.get("backend")),
            usage_of(value.get("usage")),
            layer_of(value.get("layer")),
        )
        self.append(event)
        return True

    def append(self, event: BufferEvent) -> None:
        """Add an event; LimitExceededError where the file cannot mean so many."""
        self.allowance.take()
        self.rows.append(event)

    def reject(self, fault: str, place: str) -> None:
        """Count an event that is left out."""
        self.bad[fault] += 1
        self.first_bad = self.first_bad or place

    def events(self, builder: TraceBuilder) -> BufferEvents:
        """Return the columns; what was left out becomes a warning."""
        if self.bad:
            reasons = {
                "time": "have no valid timestamp",
                "id": "have no buffer id",
                "kind": "have an unknown event type",
                "form": "are not JSON objects",
            }
            why = ", ".join(f"{n:,} {reasons[k]}" for k, n in self.bad.items())
            builder.warn(
                Severity.DATA_LOSS,
                "bad_event",
                f"skipped buffer events: {why}.",
                count=self.bad.total(),
                place=self.first_bad,
            )
        intern = builder.strings.intern
        names = [intern(e.name) if e.name else -1 for e in self.rows]
        backends = [intern(e.backend) if e.backend else -1 for e in self.rows]
        return BufferEvents(
            time=np.array([e.time for e in self.rows], np.int64),
            is_alloc=np.array([e.is_alloc for e in self.rows], np.bool_),
            id=np.array([e.id for e in self.rows], np.uint64),
            size=np.array([e.size for e in self.rows], np.int64),
            name=np.array(names, np.int32),
            backend=np.array(backends, np.int32),
            usage=np.array([e.usage for e in self.rows], np.int16),
            layer=np.array([e.layer for e in self.rows], np.int64),
            record=np.array([e.record for e in self.rows], np.int64),
        )


def ns_of(value: object) -> int | None:
    """Return ns of a time in ms, exact to the last digit; None where it is none.

    ``541709309.541`` is 541709309541000: as a float it would be off by some 60 ns.
    """
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    return round(Decimal(value) * _NS_PER_MS) if 0 <= value < _MAX_MS else None


def id_of(value: object) -> int | None:
    """Return a 64-bit id, also of a text in decimal or hex; None where it is none."""
    if isinstance(value, str):
        try:
            value = int(value, 0)
        except ValueError:
            return None
    number = integer_of(value)
    if number is None:
        return None
    # %lld prints ids above 2^63 as negative numbers.
    number += _ID_STOP if -(_ID_STOP >> 1) <= number < 0 else 0
    return number if 0 <= number < _ID_STOP else None


def size_of(value: object) -> int:
    """Return a size in bytes, or -1."""
    number = integer_of(value)
    return number if number is not None and 0 <= number < MAX_SIZE else -1


def usage_of(value: object) -> int:
    """Return the number of a usage; `UNKNOWN_USAGE` where it is none."""
    number = integer_of(value)
    if number is None or not 0 <= number < UNKNOWN_USAGE:
        return UNKNOWN_USAGE
    return number


def layer_of(value: object) -> int:
    """Return a layer's number; -1 where the file has none."""
    number = integer_of(value)
    return number if number is not None and 0 <= number < 1 << 31 else -1


def text_of(value: object) -> str:
    """Return a text without blanks around it; "" for anything else."""
    return value.strip() if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class ListedBuffer:
    """One buffer as listed; times in ns, None where there are none."""

    name: str
    size: int
    backend: str
    usage: int
    layer: int
    allocated: int | None
    freed: int | None


@dataclass(slots=True)
class ListedBuffers:
    """Entries by id; of entries that share an id the last one counts."""

    allowance: Allowance
    _entries: dict[int, ListedBuffer] = field(default_factory=dict)
    _n_seen: int = 0
    _n_bad: int = 0

    def __len__(self) -> int:
        return self._n_seen - self._n_bad

    def take(self, value: object) -> None:
        """Take one element of "buffers"."""
        self._n_seen += 1
        buffer_id = id_of(value.get("id")) if isinstance(value, dict) else None
        if buffer_id is None or not isinstance(value, dict):
            self._n_bad += 1
            return
        if buffer_id not in self._entries:
            self.allowance.take()
        usage = usage_of(value.get("usage"))
        if usage == UNKNOWN_USAGE:
            name = text_of(value.get("usage_name")).upper()
            usage = _USAGE_NAMES.get(name, UNKNOWN_USAGE)
        self._entries[buffer_id] = ListedBuffer(
            text_of(value.get("name")),
            size_of(value.get("size")),
            text_of(value.get("backend")),
            usage,
            layer_of(value.get("layer")),
            ns_of(value.get("alloc_time_ms")),
            ns_of(value.get("dealloc_time_ms")),
        )

    def by_usage(self) -> dict[str, int]:
        """Return how many entries have each usage, by its name in the format."""
        counts = Counter(entry.usage for entry in self._entries.values())
        return {name: counts[usage] for name, usage in _USAGE_NAMES.items()}

    def complete(self, events: EventList, builder: TraceBuilder) -> None:
        """Add to the events what only the list knows: backend, usage, layer, buffers.

        An entry describes the last life of its id; of earlier ones, which it
        overwrote, only the events state.
        """
        last = {event.id: event for event in events.rows if event.is_alloc}
        for buffer_id, event in last.items():
            entry = self._entries.get(buffer_id)
            if entry is not None:
                event.backend = event.backend or entry.backend
                event.name = event.name or entry.name
                event.usage, event.layer = entry.usage, entry.layer
                if event.size < 0:
                    event.size = entry.size
        self._note(events, builder, last)
        self._add_unlisted(events, builder, last)

    def _note(
        self, events: EventList, builder: TraceBuilder, last: dict[int, BufferEvent]
    ) -> None:
        builder.warn(
            Severity.DATA_LOSS,
            "bad_buffer",
            "skipped buffers without an id.",
            count=self._n_bad,
            place="buffers",
        )
        n_lives = sum(event.is_alloc for event in events.rows)
        if n_lives > len(last):
            builder.warn(
                Severity.NOTICE,
                "overwritten_entry",
                "buffer ids were reused, and the list has only the last "
                "buffer of each; backend, usage and layer of the others are "
                "unknown.",
                count=n_lives - len(last),
            )

    def _add_unlisted(
        self, events: EventList, builder: TraceBuilder, last: dict[int, BufferEvent]
    ) -> None:
        """Add events for buffers that the timeline does not have."""
        had_events, n_added, n_untimed = bool(len(events)), 0, 0
        for buffer_id, entry in self._entries.items():
            if buffer_id in last:
                continue
            if entry.allocated is None:
                n_untimed += 1
                continue
            n_added += 1
            freed = entry.freed
            begin = BufferEvent(
                entry.allocated,
                buffer_id,
                is_alloc=True,
                record=-1,
                size=entry.size,
                name=entry.name,
                backend=entry.backend,
                usage=entry.usage,
                layer=entry.layer,
            )
            events.append(begin)
            if freed is not None and freed >= entry.allocated:
                events.append(BufferEvent(freed, buffer_id, is_alloc=False, record=-1))
        if n_added:
            builder.warn(
                Severity.NOTICE if had_events else Severity.INFO,
                "not_in_timeline",
                "buffers have no events; their times come from the buffer list.",
                count=n_added,
                place="buffers",
            )
        builder.warn(
            Severity.DATA_LOSS,
            "untimed_buffer",
            "skipped buffers without events and allocation time.",
            count=n_untimed,
            place="buffers",
        )
