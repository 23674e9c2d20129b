"""The buffers that a timeline file lists beside its events, one entry per id."""

from collections import Counter
from dataclasses import dataclass, field

from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity
from ggscope.readers.buffer_intake import (
    UNKNOWN_USAGE,
    EventLists,
    id_of,
    layer_of,
    ns_of,
    size_of,
    text_of,
    usage_of,
)
from ggscope.readers.room import Allowance

_USAGE_NAMES = {"ANY": 0, "WEIGHTS": 1, "COMPUTE": 2}


@dataclass(frozen=True, slots=True)
class Entry:
    """One buffer as listed; times in ns, None where there are none."""

    name: str
    size: int
    backend: str
    usage: int
    layer: int
    allocated: int | None
    freed: int | None


@dataclass(slots=True)
class Registry:
    """Entries by id; of entries that share an id the last one counts."""

    allowance: Allowance
    _entries: dict[int, Entry] = field(default_factory=dict)
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
        self._entries[buffer_id] = Entry(
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

    def complete(self, events: EventLists, builder: TraceBuilder) -> None:
        """Add to the events what only the list knows: backend, usage, layer, buffers.

        An entry describes the last life of its id; of earlier ones, which it
        overwrote, only the events tell.
        """
        last = {
            buffer_id: row
            for row, buffer_id in enumerate(events.id)
            if events.is_alloc[row]
        }
        for buffer_id, row in last.items():
            entry = self._entries.get(buffer_id)
            if entry is None:
                continue
            events.backend[row] = events.backend[row] or entry.backend
            events.name[row] = events.name[row] or entry.name
            events.usage[row] = entry.usage
            events.layer[row] = entry.layer
            if events.size[row] < 0:
                events.size[row] = entry.size
        self._note(events, builder, last)
        self._add_unlisted(events, builder, last)

    def _note(
        self, events: EventLists, builder: TraceBuilder, last: dict[int, int]
    ) -> None:
        if self._n_bad:
            builder.warn(
                Severity.DATA_LOSS,
                "bad_buffer",
                "listed buffers without an id were left out.",
                count=self._n_bad,
                place="buffers",
            )
        n_lives = sum(events.is_alloc)
        if n_lives > len(last):
            builder.warn(
                Severity.NOTICE,
                "overwritten_entry",
                "ids were used for several buffers, and the list keeps the last one "
                "only: backend, usage and layer of the others are unknown.",
                count=n_lives - len(last),
            )

    def _add_unlisted(
        self, events: EventLists, builder: TraceBuilder, last: dict[int, int]
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
            events.append(
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
            if entry.freed is not None and entry.freed >= entry.allocated:
                events.append(entry.freed, buffer_id, is_alloc=False, record=-1)
        if n_added:
            builder.warn(
                Severity.NOTICE if had_events else Severity.INFO,
                "not_in_timeline",
                "buffers are listed without their events; the times of the list were "
                "taken.",
                count=n_added,
                place="buffers",
            )
        if n_untimed:
            builder.warn(
                Severity.DATA_LOSS,
                "untimed_buffer",
                "listed buffers have neither events nor a time of allocation; they "
                "were left out.",
                count=n_untimed,
                place="buffers",
            )
