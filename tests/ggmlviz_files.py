"""Writes ``.ggmlviz`` files in every layout, and pairs their events the slow way.

Nothing here uses the reader: the struct formats are written out once more, and the
reference pairs event by event, so that the two can be compared.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HEADER = b"GGMLVIZ1" + struct.pack("<I", 1)
T0 = 920_489_299_660_375

GRAPH_BEGIN, GRAPH_END, OP_BEGIN, OP_END, ALLOC, FREE, BUFFER_ALLOC, BUFFER_FREE = (
    range(8)
)
UNIONS = {
    # layout: (union bytes or None, graph, op, memory); fields in the order
    # graph (ptr, nodes, threads[, backend]), op (ptr, type, size[, backend]),
    # memory (ptr, size).
    "c64": (32, "<QIIQ", "<QI4xQQ", "<QQ"),
    "c64-old": (24, "<QII", "<QI4xQ", "<QQ"),
    "packed28": (28, "<QIIQ", "<QIQQ", "<QQ"),
    "packed20": (20, "<QII", "<QIQ", "<QQ"),
    "c32": (16, "<IIII", "<IIII", "<II"),
    "c32-old": (12, "<III", "<III", "<II"),
    "var": (None, "<QIIQ", "<QIQQ", "<QQ"),
    "var-c": (None, "<QIIQ", "<QI4xQQ", "<QQ"),
}
LAYOUT_IDS = tuple(UNIONS)
WITH_BACKEND = ("c64", "packed28", "c32", "var", "var-c")


@dataclass(frozen=True)
class Event:
    """One event, whatever the layout makes of it."""

    kind: int
    time: int
    ptr: int = 0
    number: int = 0
    size: int = 0
    thread: int = 1
    backend: int = 0
    label: str | bytes | None = None

    def packed(self, layout: str = "c64") -> bytes:
        """Return the event's bytes."""
        union, graph, op, memory = UNIONS[layout]
        has_backend = layout in WITH_BACKEND
        narrow = 0xFFFF_FFFF if layout.startswith("c32") else 0xFFFF_FFFF_FFFF_FFFF
        ptr, size, backend = self.ptr & narrow, self.size & narrow, self.backend
        if self.kind < 2:
            fields = (ptr, self.number, 1, backend & narrow)
            data = struct.pack(graph, *fields[: 3 + has_backend])
        elif self.kind < 4:
            fields = (ptr, self.number, size, backend & narrow)
            data = struct.pack(op, *fields[: 3 + has_backend])
        elif self.kind < 8:
            data = struct.pack(memory, ptr, size)
        else:
            data = b""
        head = struct.pack("<BQI", self.kind, self.time, self.thread)
        out = head + data.ljust(union or len(data), b"\0")
        if self.label is None:
            return out + b"\0"
        raw = self.label.encode() if isinstance(self.label, str) else self.label
        return out + b"\1" + struct.pack("<I", len(raw)) + raw


def packed(
    events: Iterable[Event], layout: str = "c64", header: bytes = HEADER
) -> bytes:
    """Return a whole file."""
    return header + b"".join(event.packed(layout) for event in events)


def write(path: Path, events: Iterable[Event], layout: str = "c64") -> Path:
    """Write a whole file; return its path."""
    path.write_bytes(packed(events, layout))
    return path


class InMemory:
    """A file that is read from memory."""

    def __init__(self, data: bytes) -> None:
        self.data = np.frombuffer(data, np.uint8)

    def read_into(self, offset: int, buffer: np.ndarray) -> int:
        part = self.data[offset : offset + len(buffer)]
        buffer[: len(part)] = part
        return len(part)


def graph(
    time: int,
    n_ops: int = 3,
    *,
    ptr: int = 0x1000,
    thread: int = 1,
    backend: int = 0,
    labels: bool = True,
    interleaved: bool = False,
    op: int = 27,
) -> list[Event]:
    """Return the events of one graph: all begins first, as ggml-viz writes them.

    Each op takes 100 ns, and the graph begins and ends 10 ns around them.
    """

    def op_event(kind: int, i: int, when: int) -> Event:
        return Event(
            kind, when, 0x2000 + 0x100 * i, op, 4096, thread, backend,
            f"matmul-{i}" if labels else None,
        )  # fmt: skip

    begins = [op_event(OP_BEGIN, i, time + 10 + 100 * i) for i in range(n_ops)]
    ends = [op_event(OP_END, i, time + 90 + 100 * i) for i in range(n_ops)]
    if interleaved:
        ops = [event for pair in zip(begins, ends, strict=True) for event in pair]
    else:
        late = time + 100 * n_ops
        begins = [op_event(OP_BEGIN, i, time + 10 + i) for i in range(n_ops)]
        ends = [op_event(OP_END, i, late + i) for i in range(n_ops)]
        ops = begins + ends
    last = time + 100 * n_ops + n_ops
    return [
        Event(GRAPH_BEGIN, time, ptr, n_ops, 0, thread, backend),
        *ops,
        Event(GRAPH_END, last + 10, ptr, n_ops, 0, thread, backend),
    ]


def run(n_graphs: int = 5, n_ops: int = 3, **options: object) -> list[Event]:
    """Return `n_graphs` graphs one after the other, with the same pointers."""
    step = 100 * n_ops + 1000
    return [
        event
        for i in range(n_graphs)
        for event in graph(T0 + i * step, n_ops, **options)  # type: ignore[arg-type]
    ]


@dataclass(frozen=True)
class Expected:
    """What one begin event should become; times in ns of the file."""

    record: int
    start: int
    end: int
    quality: str


@dataclass
class _Open:
    """A graph of the reference: rows in time order."""

    begin: int
    thread: int
    outer: "_Open | None"
    end: int | None = None

    def closed(self) -> int | None:
        """Return the row that ends this graph or the one around it."""
        if self.end is not None:
            return self.end
        return self.outer.closed() if self.outer else None


def reference(events: Sequence[Event]) -> tuple[list[Expected], list[int]]:
    """Pair events one by one; return the spans by record, and records of strays."""
    rows = sorted(range(len(events)), key=lambda i: events[i].time)
    ordered = [events[i] for i in rows]
    graph_end, strays = _matched(
        [
            (row, (e.thread, e.ptr), e.kind == GRAPH_BEGIN)
            for row, e in enumerate(ordered)
            if e.kind <= GRAPH_END
        ]
    )
    graphs: list[_Open] = []
    owners: dict[int, _Open | None] = {}
    for row, event in enumerate(ordered):
        inside = [g for g in graphs if g.thread == event.thread and _is_open(g, row)]
        innermost = inside[-1] if inside else None
        owners[row] = innermost
        if event.kind == GRAPH_BEGIN:
            graphs.append(_Open(row, event.thread, innermost, graph_end.get(row)))
    op_end, more = _matched(
        [
            (row, (e.thread, id(owners[row]) if owners[row] else 0, e.ptr),
             e.kind == OP_BEGIN)
            for row, e in enumerate(ordered)
            if e.kind in (OP_BEGIN, OP_END)
        ]
    )  # fmt: skip
    last = ordered[-1].time if ordered else 0

    def time_of(row: int | None) -> int:
        return last if row is None else ordered[row].time

    result = [
        Expected(rows[g.begin], ordered[g.begin].time, time_of(g.closed()),
                 "unfinished" if g.end is None else "measured")
        for g in graphs
    ]  # fmt: skip
    slices = _shared_out(ordered, owners, graphs, op_end, time_of)
    for row, event in enumerate(ordered):
        if event.kind != OP_BEGIN:
            continue
        owner = owners[row]
        if row not in op_end:
            end = time_of(owner.closed() if owner else None)
            result.append(Expected(rows[row], event.time, end, "unfinished"))
        elif row in slices:
            result.append(Expected(rows[row], *slices[row], "estimated"))
        else:
            end = time_of(op_end[row])
            result.append(Expected(rows[row], event.time, end, "measured"))
    return sorted(result, key=lambda e: e.record), sorted(
        rows[row] for row in strays + more
    )


def _is_open(candidate: _Open, row: int) -> bool:
    closed = candidate.closed()
    return closed is None or row < closed


def _matched(
    brackets: Iterable[tuple[int, object, bool]],
) -> tuple[dict[int, int], list[int]]:
    """Return end row by begin row, and rows of ends without begin."""
    stacks: dict[object, list[int]] = {}
    ends: dict[int, int] = {}
    strays: list[int] = []
    for row, key, is_begin in brackets:
        stack = stacks.setdefault(key, [])
        if is_begin:
            stack.append(row)
        elif stack:
            ends[stack.pop()] = row
        else:
            strays.append(row)
    return ends, strays


def _shared_out(
    ordered: Sequence[Event],
    owners: dict[int, _Open | None],
    graphs: Sequence[_Open],
    op_end: dict[int, int],
    time_of: object,
) -> dict[int, tuple[int, int]]:
    """Return the slices of ops in graphs whose begins all come before any end."""
    slices: dict[int, tuple[int, int]] = {}
    for owner in graphs:
        inside = [r for r in owners if owners[r] is owner]
        begins = [r for r in inside if ordered[r].kind == OP_BEGIN]
        ends = [r for r in inside if ordered[r].kind == OP_END]
        if len(begins) < 2 or not ends or ends[0] < begins[-1]:
            continue
        start = ordered[owner.begin].time
        length = time_of(owner.closed()) - start  # type: ignore[operator]
        n = len(begins)
        for i, row in enumerate(begins):
            if row in op_end:
                slices[row] = (start + length * i // n, start + length * (i + 1) // n)
    return slices
