"""Allocations and frees of a ``.ggmlviz`` file: live bytes, buffers and mistakes."""

from dataclasses import dataclass

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I64, Array, CounterShape
from ggscope.model.tensors import Buffers
from ggscope.model.trace import Severity
from ggscope.readers.api import ReadContext
from ggscope.readers.common.bracket import neighbours
from ggscope.readers.ggmlviz.columns import Events, encode, is_memory
from ggscope.readers.ggmlviz.layouts import EventType

MAX_SIZE = 1 << 47
"""Larger sizes are damage: no process has such an address space."""
MEMORY = "memory"
"""Key of the summary with what `add_memory` lists of each kind of memory."""

LISTED = 1000
_NAMED = 8
"""So many pointers stand in the text of a problem."""


@dataclass(frozen=True, slots=True, eq=False)
class Allocations:
    """What one kind of allocation (tensors or backend buffers) did over time.

    Attributes
    ----------
    time : int64[n], ns of each event.
    live : float64[n], bytes alive after each event.
    allocs : rows of the allocating events.
    ended : row of the event that freed or replaced each of them; -1 while alive.
    strays : rows of frees of what was never allocated.
    doubles : rows of frees of what was already freed.
    reused : rows of allocations whose pointer was allocated before; most often by
        something else, which had been freed.
    oversized : rows whose size is beyond `MAX_SIZE` and counts as 0.
    """

    time: I64
    size: I64
    live: Array
    allocs: I64
    ended: I64
    strays: I64
    doubles: I64
    reused: I64
    oversized: I64

    @property
    def peak_bytes(self) -> int:
        """The most bytes ever alive."""
        return int(self.live.max(initial=0))

    @property
    def leaks(self) -> I64:
        """Rows of what was never freed."""
        return self.allocs[self.ended < 0]

    @property
    def leak_bytes(self) -> int:
        """Bytes alive at the end."""
        return int(self.size[self.leaks].sum(dtype=np.float64))


def follow(time: I64, pointer: Array, sizes: Array, is_alloc: Array) -> Allocations:
    """Return what events allocate, in time order.

    Parameters
    ----------
    time, pointer, sizes, is_alloc : of each event; the sizes of frees are not
        looked at.

    Notes
    -----
    An allocation of a pointer that is still alive replaces the earlier one: a
    tensor is reported again each time its graph is allocated.
    """
    codes, _, _ = encode(pointer)
    is_sound = sizes <= np.uint64(MAX_SIZE)
    size = np.where(is_alloc & is_sound, sizes, np.uint64(0)).astype(np.int64)
    previous, after = neighbours(codes)
    # A free has size 0, so the size of the event before is what was alive.
    change = size - np.where(previous >= 0, size[previous], 0)
    # float64 is exact to 2^53 and cannot overflow; so is the counter it becomes.
    live = np.cumsum(change, dtype=np.float64)
    frees = np.flatnonzero(~is_alloc)
    was_alloc = is_alloc[previous[frees]]
    allocs = np.flatnonzero(is_alloc)
    first_of_pointer = np.unique(codes[allocs], return_index=True)[1]
    return Allocations(
        time=time, size=size, live=live, allocs=allocs, ended=after[allocs],
        strays=frees[previous[frees] < 0],
        doubles=frees[(previous[frees] >= 0) & ~was_alloc],
        reused=np.delete(allocs, first_of_pointer),
        oversized=np.flatnonzero(is_alloc & ~is_sound),
    )  # fmt: skip


def add_memory(
    builder: TraceBuilder, events: Events, origin: int, context: ReadContext
) -> dict[str, object]:
    """Add counters and buffers of allocations; return figures for the summary."""
    summary: dict[str, object] = {}
    memory: dict[str, object] = {}
    rows = context.pieces.find(len(events), lambda b: is_memory(events.kind[b]))
    by_time = np.argsort(events.time[rows], kind="stable")
    rows, sizes = rows[by_time], events.sizes[: len(rows)][by_time]
    kind = events.kind[rows]
    for alloc, title, prefix in (
        (EventType.TENSOR_ALLOC, "Tensor memory", ""),
        (EventType.BACKEND_BUFFER_ALLOC, "Backend buffers", "buffer_"),
    ):
        of_kind = np.flatnonzero((kind == alloc) | (kind == alloc + 1))
        if not len(of_kind):
            continue
        mine = rows[of_kind]
        done = follow(
            events.time[mine], events.pointer[mine], sizes[of_kind],
            kind[of_kind] == alloc,
        )  # fmt: skip
        builder.add_counter(
            title, "bytes", CounterShape.LEVEL, done.time - origin, done.live
        )
        _warn_memory(builder, done, title, events.pointer[mine])
        if alloc == EventType.BACKEND_BUFFER_ALLOC:
            _add_buffers(builder, events, mine, done, origin)
        summary[prefix + "peak_bytes"] = done.peak_bytes
        summary[prefix + "leak_bytes"] = done.leak_bytes
        memory[title] = _lists(events.pointer[mine], done, origin)
    if memory:
        summary[MEMORY] = memory
    return summary


def _lists(pointer: Array, found: Allocations, origin: int) -> dict[str, object]:
    """Return peak, leaks, mistaken frees and pointers that were allocated again.

    Each list is cut at `LISTED`; the numbers beside them are of all.
    """

    def listed(rows: I64, *, has_size: bool = True) -> list[dict[str, object]]:
        return [
            {
                "pointer": f"0x{int(pointer[row]):x}",
                **({"bytes": int(found.size[row])} if has_size else {}),
                "at": int(found.time[row]) - origin,
            }
            for row in rows[:LISTED].tolist()
        ]

    at = int(np.argmax(found.live))
    allocs, ended = found.allocs, found.ended
    alive = allocs[(allocs <= at) & ((ended < 0) | (ended > at))]
    alive = alive[found.size[alive] > 0]
    return {
        "peak_bytes": found.peak_bytes,
        "peak_at": int(found.time[at]) - origin,
        "alive_at_peak": len(alive),
        "peak": listed(alive),
        "leaked": len(found.leaks),
        "leak_bytes": found.leak_bytes,
        "leaks": listed(found.leaks),
        "double_freed": len(found.doubles),
        "double_frees": listed(found.doubles, has_size=False),
        "stray_freed": len(found.strays),
        "stray_frees": listed(found.strays, has_size=False),
        "reused": len(found.reused),
        "reuses": listed(found.reused),
    }


def _named(pointer: Array) -> str:
    """Return ``0xa, 0xb and 3 more``: distinct pointers in order of appearance."""
    first = np.sort(np.unique(pointer, return_index=True)[1])
    names = ", ".join(f"0x{int(p):x}" for p in pointer[first[:_NAMED]])
    more = len(first) - _NAMED
    return f"{names} and {more:,} more" if more > 0 else names


def _warn_memory(
    builder: TraceBuilder, found: Allocations, title: str, pointer: Array
) -> None:
    place = title.lower()
    for severity, code, rows, message in (
        (Severity.NOTICE, "free_without_alloc", found.strays,
         "something was freed whose allocation is not in the file: {0}."),
        (Severity.NOTICE, "double_free", found.doubles,
         "something was freed that was free already: {0}."),
        (Severity.NOTICE, "bad_size", found.oversized,
         "a size is larger than any address space; it counts as 0 bytes."),
        (Severity.INFO, "never_freed", found.leaks,
         f"{found.leak_bytes:,} bytes were still allocated at the end: {{0}}."),
        (Severity.INFO, "pointers_reused", found.reused,
         "a pointer was allocated again, freed before or not: {0}."),
    ):  # fmt: skip
        if len(rows):
            text = message.format(_named(pointer[rows]))
            builder.warn(severity, code, text, count=len(rows), place=place)


def _add_buffers(
    builder: TraceBuilder, events: Events, rows: I64, found: Allocations, origin: int
) -> None:
    pointer = events.pointer[rows[found.allocs]]
    codes, distinct, _ = encode(pointer)
    texts = [f"buffer 0x{address:x}" for address in distinct.tolist()]
    label = events.string_of[events.label[rows[found.allocs]]]
    freed = np.where(found.ended >= 0, found.time[found.ended] - origin, -1)
    n = len(found.allocs)
    builder.buffers = Buffers(
        name=np.where(label >= 0, label, builder.strings.intern_many(texts)[codes]),
        backend=np.full(n, -1, np.int32),
        usage=np.zeros(n, np.uint8),
        size=found.size[found.allocs],
        allocated=found.time[found.allocs] - origin,
        freed=freed,
        address=pointer,
    )
