"""From the events of a ``.ggmlviz`` file to the lanes, spans and markers of a trace.

Each thread of each backend has a lane; the op table is determined by the names of ops.
Single events are read again when somebody looks at one (`GgmlvizRecords`).

Barrier and thread events have two numberings, both called version 1. The first
descriptions count BARRIER_WAIT, THREAD_BEGIN and THREAD_FREE as 6, 7 and 8. Since
backend buffers took 6 and 7 they are 8, 9 and 10. No known build writes any of the
three. A thread lives from its BEGIN to its FREE. A wait has no end of its own: it is
derived as lasting until the next event of its thread.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ggscope.errors import CorruptError, ReadError
from ggscope.model import names
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml import ops as ggml
from ggscope.model.tables import I64, Array, Bools, SpanFlag, distinct, narrow
from ggscope.model.tensors import Tensors
from ggscope.model.trace import LaneKind, OpTable, RecordView, Severity
from ggscope.readers.chunked import ChunkedOps
from ggscope.readers.common.interval_pairing import neighbours
from ggscope.readers.ggmlviz import NUMBERING_OPTION
from ggscope.readers.ggmlviz.columns import Events, encode, is_memory
from ggscope.readers.ggmlviz.layouts import (
    PREFIX_BYTES,
    EventLayout,
    EventType,
    RawEvent,
    walk,
)
from ggscope.readers.ggmlviz.op_table import infer_table
from ggscope.readers.ggmlviz.pairing import IntervalFlag, Intervals
from ggscope.readers.ggmlviz.walk import Anchors
from ggscope.readers.source import read_at

MAX_LANES = 4096
MAX_OP = (1 << 15) - 1
"""Larger op numbers are damage."""

_TYPE_NAMES = {int(kind): kind.name for kind in EventType}
_FLAGS = np.array(
    [
        SpanFlag.UNFINISHED * bool(i & IntervalFlag.UNFINISHED)
        | SpanFlag.ESTIMATED * bool(i & IntervalFlag.ESTIMATED)
        for i in range(8)
    ],
    np.uint16,
)
"""Flags of a span by those of its interval."""

_MAX_SAMPLES = 1 << 14
MAX_OPS = 1 << 18
"""So many ops show the table: more of them are the same graphs again."""


def add_lanes(
    builder: TraceBuilder,
    events: Events,
    begins: Array,
    instants: I64,
    chunked: ChunkedOps,
) -> tuple[Array, Array]:
    """Add a lane for each backend and thread; return those of begins and instants.

    Parameters
    ----------
    begins, instants : rows of events, in the order of time. Instants without a
        backend go to the first lane of their thread.
    """
    begin_place = chunked.take(events.place, begins)
    place = events.place[instants]
    nowhere = events.kind[instants] >= EventType.BARRIER_WAIT
    if nowhere.any():
        thread = events.thread_of[place]
        home = np.full(len(events.thread_ids), -1, np.int32)
        home[thread] = place
        # Written backwards, so that the first span of each thread stays.
        home[events.thread_of[begin_place][::-1]] = begin_place[::-1]
        place[nowhere] = home[thread[nowhere]]
    n_places = len(events.thread_of)
    n_uses = chunked.counts(begin_place, n_places)
    n_uses += np.bincount(place, minlength=n_places)
    lane_of = _name_lanes(builder, events, np.flatnonzero(n_uses))
    for block in chunked.slices(len(begins)):
        begin_place[block] = lane_of[begin_place[block]]
    return narrow(begin_place), lane_of[place]


def _name_lanes(builder: TraceBuilder, events: Events, places: I64) -> Array:
    """Add a lane for each of the places; return the lane of every place.

    Counters may have taken lanes before.
    """
    keys = events.thread_of[places], events.backend_of[places]
    places = places[np.lexsort(keys)]
    groups = _group_names(events.backends)
    lane_of = np.full(len(events.thread_of), -1, np.int32)
    for place in places[:MAX_LANES].tolist():
        backend, thread = int(events.backend_of[place]), int(events.thread_of[place])
        lane_of[place] = builder.add_lane(
            f"thread {thread}",
            LaneKind.THREAD,
            (groups[backend],),
            (backend, thread),
            raw=str(events.thread_ids[thread]),
            backend=f"0x{events.backends[backend]:x}",
        )
    if len(places) > MAX_LANES:
        lane_of[places[MAX_LANES:]] = builder.add_lane(
            "other threads", LaneKind.THREAD, ("Others",)
        )
        builder.warn(
            Severity.NOTICE,
            "too_many_lanes",
            f"{len(places):,} pairs of backend and thread; those beyond the "
            f"first {MAX_LANES:,} share one lane.",
        )
    return narrow(lane_of)


def _group_names(backends: Array) -> list[str]:
    """Name backends in the order of their first events; NULL is the CPU."""
    names: list[str] = []
    n_others = 0
    for pointer in backends.tolist():
        n_others += pointer != 0
        names.append(f"Backend {n_others}" if pointer else "CPU backend")
    return names


def type_name(kind: int, *, is_sure: bool = True) -> str:
    """Return ``OP_BEGIN`` or, for a number without a name, ``event type 42``.

    A question mark stands behind 8 where it is not sure what it means: writers without
    backend-buffer events, had they emitted it, meant THREAD_FREE.
    """
    doubt = "?" if kind == EventType.BARRIER_WAIT and not is_sure else ""
    return _TYPE_NAMES.get(kind, f"event type {kind}") + doubt


def add_intervals(
    builder: TraceBuilder,
    events: Events,
    intervals: Intervals,
    origin: int,
    chunked: ChunkedOps,
    *,
    is_numbering_sure: bool = False,
) -> None:
    """Add lanes, a span for each interval and a marker for each other instant.

    Where it is sure which events are of barriers and threads, these are bars.

    Columns of events and intervals are released on the way: the two largest tables
    lie side by side here.
    """
    instants = _instants(events, intervals.stray_ends, chunked)
    lane, marker_lane = add_lanes(builder, events, intervals.begin, instants, chunked)
    if is_numbering_sure and len(instants):
        is_bar = add_threads(builder, events, instants, marker_lane, origin)
        instants, marker_lane = instants[~is_bar], marker_lane[~is_bar]
    _add_markers(
        builder, events, instants, marker_lane, origin, is_sure=is_numbering_sure
    )
    tables = _add_tensors(builder, events, chunked)
    events.release("kind", "place", "time")
    small = np.int32 if len(lane) < 1 << 31 else np.int64
    order = np.argsort(lane, kind="stable").astype(small)
    lane = chunked.take(lane, order)
    intervals.arrange(order, chunked)
    # The memory of the order is needed for what follows.
    del order
    intervals.start -= origin
    intervals.end -= origin
    _add_spans(builder, events, intervals, lane, tables, chunked)


def _add_spans(
    builder: TraceBuilder,
    events: Events,
    intervals: Intervals,
    lane: Array,
    tables: tuple[Array, Array],
    chunked: ChunkedOps,
) -> None:
    """Add a span for each interval, in their order.

    Parameters
    ----------
    tables : tensor and layer of each label.
    """
    tensor_of, layer_of = tables
    begin = intervals.begin
    graphs = np.flatnonzero(intervals.flags & IntervalFlag.GRAPH)
    number = chunked.take(events.number, begin)
    events.release("number")
    label = chunked.take(events.label, begin)
    events.release("label")
    name_of, graph_names = _names(builder, events, label[graphs], number[graphs])
    builder.add_spans(
        start=intervals.start,
        end=intervals.end,
        lane=lane,
        name=_with(chunked.take(name_of, label), graphs, graph_names),
        op=_with(_ops(builder, number, graphs), graphs, -1),
        flags=chunked.take(_FLAGS, intervals.flags),
        tensor=_with(chunked.take(tensor_of, label), graphs, -1),
        layer=_with(chunked.take(layer_of, label), graphs, -1),
        record=_records(begin, events.first_record),
    )


def _with(column: Array, rows: I64, values: Array | int) -> Array:
    column[rows] = values
    return column


def _records(begin: Array, first: int) -> Array:
    if first == 0:
        return narrow(begin)
    return narrow(begin.astype(np.int64) + first)


def _add_markers(
    builder: TraceBuilder,
    events: Events,
    instants: I64,
    lane: Array,
    origin: int,
    *,
    is_sure: bool,
) -> None:
    if not len(instants):
        return
    kinds, distinct, _ = encode(events.kind[instants])
    texts = [type_name(kind, is_sure=is_sure) for kind in distinct.tolist()]
    builder.add_markers(
        time=events.time[instants] - origin,
        lane=lane,
        name=narrow(builder.strings.intern_many(texts))[kinds],
        detail=events.string_of[events.label[instants]],
        record=narrow(events.first_record + instants),
    )


def _instants(events: Events, stray_ends: Array, chunked: ChunkedOps) -> I64:
    """Return the rows that become markers, in the order of time."""
    others = events.rows_of(EventType.BARRIER_WAIT, 255, chunked)
    if not len(stray_ends):
        return others
    rows = np.sort(np.concatenate([others, stray_ends.astype(np.int64)]))
    if events.order is None:
        return rows
    return rows[np.argsort(events.time[rows], kind="stable")]


def _names(
    builder: TraceBuilder, events: Events, label: Array, n_nodes: Array
) -> tuple[Array, Array]:
    """Return the string id of each label, and of the graphs with these labels."""
    codes, distinct, _ = encode(n_nodes)
    texts = [f"graph ({n} node{'s' * (n != 1)})" for n in distinct.tolist()]
    unnamed = label < 0
    ids = events.string_of[label].astype(np.int32)
    ids[unnamed] = builder.strings.intern_many(texts)[codes[unnamed]]
    widest = narrow(np.array([-1, len(builder.strings)])).dtype
    return events.string_of.astype(widest), ids.astype(widest)


def _ops(builder: TraceBuilder, number: Array, graphs: I64) -> Array:
    """Return the op number of each span; that of graphs says nothing."""
    number[graphs] = 0
    beyond = np.flatnonzero(number > MAX_OP)
    if len(beyond):
        builder.warn(
            Severity.NOTICE,
            "bad_op_number",
            f"invalid op number {number[beyond[0]]:,}; such ops have no name.",
            count=len(beyond),
        )
        number[beyond] = 0
    op = narrow(number)
    op[beyond] = -1
    return op


def _add_tensors(
    builder: TraceBuilder, events: Events, chunked: ChunkedOps
) -> tuple[Array, Array]:
    """Fill the tensors from the labels of ops and allocations.

    Returns
    -------
    The tensor and the layer of each label, -1 for others and at the end (where
    label -1 looks).
    """
    n = len(events.string_of)
    is_used = np.zeros(n, np.bool_)
    for block in chunked.slices(events.n):
        kind = events.kind[block]
        is_about = (kind >= EventType.OP_BEGIN) & (kind <= EventType.TENSOR_FREE)
        is_used[events.label[block][is_about]] = True
    used = np.flatnonzero(is_used[:-1])
    strings = builder.strings
    base = np.array(events.string_of[used], np.int32)
    labels = strings.texts()
    if not np.array_equal(base, np.arange(len(labels))):
        labels = [labels[i] for i in base.tolist()]
    shapes, which = names.shapes_of(labels)
    tensor, layer = np.full(n, -1, np.int32), np.full(n, -1, np.int16)
    # Names of one shape are equally long. Most have no suffix: they are their own base.
    has_suffix = np.zeros(len(shapes), np.bool_)
    sample = np.zeros(len(shapes), np.int64)
    sample[which] = np.arange(len(labels))
    for k, (s, i) in enumerate(zip(shapes, sample.tolist(), strict=True)):
        has_suffix[k] = s.end - s.begin != len(labels[i])
    suffixed = np.flatnonzero(has_suffix[which])
    places = [(i, shapes[which[i]]) for i in suffixed.tolist()]
    base[suffixed] = strings.intern_many(
        [labels[i][s.begin : s.end] for i, s in places]
    )
    tensor[used], distinct, first = encode(base)
    layer[used] = _numbers(labels, which, [s.layer for s in shapes])
    builder.tensors = Tensors(
        name=distinct.astype(np.int32),
        offset=np.full(len(distinct), -1, np.int64),
        size=np.full(len(distinct), -1, np.int64),
        layer=layer[used][first],
        expert=_numbers(labels, which, [s.expert for s in shapes])[first],
    )
    return narrow(tensor), narrow(layer)


def _numbers(
    labels: Sequence[str], which: Array, digits: Sequence[tuple[int, int]]
) -> Array:
    """Return the number in each name, int16[n]; -1 where its shape has none.

    `which` has the shape of each name, `digits` where a number stands in each shape.
    """
    numbers = np.full(len(labels), -1, np.int16)
    has_digits = np.array([stop > 0 for _, stop in digits], np.bool_)
    rows = np.flatnonzero(has_digits[which])
    numbers[rows] = [
        names.number_at(labels[i], digits[k])
        for i, k in zip(rows.tolist(), which[rows].tolist(), strict=True)
    ]
    return numbers


def choose_ops(
    builder: TraceBuilder, events: Events, choice: str, chunked: ChunkedOps
) -> OpTable | None:
    """Return the table that names the op numbers; None where there are no ops.

    Parameters
    ----------
    choice : "auto", or the id or date of a table.

    Raises
    ------
    KeyError
        If there is no such table.
    """
    if choice != "auto":
        return replace(ggml.find_table(choice), source="override", margin=None)
    rows = _some_ops(events, chunked)
    if not len(rows):
        return None
    pairs = events.number[rows].astype(np.int64) << 32
    pairs += events.string_of[events.label[rows]].astype(np.int64) + 1
    codes, distinct, _ = encode(pairs)
    counts = np.bincount(codes)[:_MAX_SAMPLES].tolist()
    numbers, ids = np.divmod(distinct[:_MAX_SAMPLES], 1 << 32)
    labels = builder.strings.get_many((ids - 1).tolist())
    samples = [
        ggml.OpSample(number, label, (), None, n)
        for number, label, n in zip(numbers.tolist(), labels, counts, strict=True)
    ]
    return infer_table(samples)


def _some_ops(events: Events, chunked: ChunkedOps) -> Array:
    """Return the rows of the first `MAX_OPS` begins of ops."""
    parts: list[Array] = [np.empty(0, np.int64)]
    n = 0
    for block in chunked.slices(events.n):
        is_op = events.kind[block] == EventType.OP_BEGIN
        rows = np.flatnonzero(is_op & (events.number[block] <= MAX_OP))
        parts.append(rows[: MAX_OPS - n] + block.start)
        n += len(parts[-1])
        if n == MAX_OPS:
            break
    return np.concatenate(parts)


_SHOWN_BYTES = 4096


class GgmlvizRecords:
    """Decodes single events of one file.

    Parameters
    ----------
    path : the file.
    layout : layout of its events.
    anchors : where some of them start; the others are walked to from there.
    """

    def __init__(self, path: Path, layout: EventLayout, anchors: Anchors) -> None:
        self._path = path
        self._layout = layout
        self._anchors = anchors

    def __len__(self) -> int:
        return self._anchors.n

    def view(self, record: int) -> RecordView:
        """Return event `record` with its fields in the order of the file.

        Raises
        ------
        ReadError
            If there is no such event, or none any more at its place.
        """
        start, data, event = self._locate(record)
        raw = data[event.offset : event.offset + min(event.size, _SHOWN_BYTES)]
        return RecordView(start + event.offset, raw, self._fields(event))

    def offset(self, record: int) -> int:
        """Return where event `record` starts; roughly where the file has changed."""
        try:
            start, _, event = self._locate(record)
        except ReadError:
            return self._stretch(record)[1]
        return start + event.offset

    def _stretch(self, record: int) -> tuple[int, int, int]:
        """Return the event before `record` from which to walk, its start and how far.

        A gap, if there is one, belongs to the stretch before it.
        """
        rows, offsets = self._anchors.rows, self._anchors.offsets
        group = int(np.searchsorted(rows, record, "right")) - 1
        start, end = offsets[group : group + 2].tolist()
        return int(rows[group]), start, end

    def _locate(self, record: int) -> tuple[int, bytes, RawEvent]:
        """Return a place in the file, the bytes there, and the event in them."""
        if not 0 <= record < len(self):
            raise ReadError(f"event {record:,} does not exist.", path=self._path)
        first, start, end = self._stretch(record)
        data = read_at(self._path, start, end - start)
        events = walk(data, 0, self._layout, len(data))
        for number, event in enumerate(events, first):
            if number == record:
                return start, data, event
        raise CorruptError(
            f"event {record:,} has moved.",
            path=self._path,
            offset=start,
            reader_id="ggmlviz",
            hint="The file has changed; reload it.",
        )

    def _fields(self, event: RawEvent) -> tuple[tuple[str, str, int, int], ...]:
        kinds = {int(kind): kind.name for kind in EventType}
        named = kinds.get(event.type, "unknown")
        fields = [
            ("type", f"{event.type} {named}", 0, 1),
            ("timestamp_ns", str(event.timestamp_ns), 1, 8),
            ("thread_id", str(event.thread_id), 9, 4),
        ]
        for name, at, width in self._layout.member(event.type):
            value = event.values[name]
            text = f"0x{value:x}" if name.endswith("ptr") else str(value)
            fields.append((name, text, PREFIX_BYTES + at, width))
        flag = int(self._layout.body_bytes[event.type]) - 1
        fields.append(("has_label", str(int(event.label is not None)), flag, 1))
        if event.label is not None:
            n = len(event.label)
            text = event.label.decode("utf-8", "replace")
            fields += [("label_len", str(n), flag + 1, 4), ("label", text, flag + 5, n)]
        return tuple(fields)


_FIRST, _STEP = int(EventType.BACKEND_BUFFER_ALLOC), 2
WAITS, LIVES = "Stalls", "Thread lives"


def renumber(
    builder: TraceBuilder, events: Events, n_of_kind: I64, choice: str
) -> bool:
    """Give barrier and thread events the numbers 8 to 10; return whether they are sure.

    With "auto", 9 or 10 in the file state the numbering; else 6 and 7 that carry
    neither a pointer nor a size are no buffers, so that 6 to 8 are meant. A file with 8
    alone does not show.
    """
    low, middle = n_of_kind[_FIRST : _FIRST + 2].sum(), n_of_kind[_FIRST + 2]
    high = n_of_kind[_FIRST + 3 : _FIRST + 5].sum()
    if not (low or middle or high):
        return True
    if choice == "8-10" or (choice == "auto" and high):
        return True
    memory = np.flatnonzero(is_memory(events.kind))
    is_old = events.kind[memory] >= _FIRST
    rows = memory[is_old]
    is_bare = not (
        events.pointer[rows].any() or events.sizes[: len(memory)][is_old].any()
    )
    if choice == "auto" and not (low and is_bare):
        return not middle
    later = np.flatnonzero(events.kind == _FIRST + _STEP)
    events.sizes = events.sizes[: len(memory)][~is_old]
    moved = np.concatenate([rows, later])
    events.kind[moved] += np.uint8(_STEP)
    if choice == "auto":
        builder.warn(
            Severity.NOTICE,
            "old_numbering",
            "events 6 to 8 were read as barriers and threads (early "
            "numbering), because backend buffer events carry a pointer.",
            count=len(moved),
            remedy=f"If they are buffers, set reader option {NUMBERING_OPTION}=8-10.",
        )
    return True


def add_threads(
    builder: TraceBuilder, events: Events, rows: I64, lane: Array, origin: int
) -> Bools:
    """Add bars of waits and of threads' lives; return which of `rows` became one.

    Parameters
    ----------
    rows : barrier and thread events among others, in the order of time.
    lane : the lane of each one's thread.
    """
    kind, thread = events.kind[rows], events.thread_of[events.place[rows]]
    is_bar = np.zeros(len(rows), np.bool_)
    is_bar |= kind == EventType.BARRIER_WAIT
    _add_waits(builder, events, rows[is_bar], lane[is_bar], origin)
    of_life = np.flatnonzero(
        (kind == EventType.THREAD_BEGIN) | (kind == EventType.THREAD_FREE)
    )
    of_life = of_life[np.argsort(thread[of_life], kind="stable")]
    begins = kind[of_life] == EventType.THREAD_BEGIN
    _, behind = neighbours(thread[of_life])
    is_closed = begins & (behind >= 0) & ~begins[behind]
    at = np.flatnonzero(begins)
    is_bar[of_life[at]] = True
    is_bar[of_life[behind[is_closed]]] = True
    last = int(events.time.max()) - origin
    start = events.time[rows[of_life[at]]] - origin
    closer = of_life[behind[at]]
    end = np.where(is_closed[at], events.time[rows[closer]] - origin, last)
    lanes = {
        number: builder.add_lane(
            f"thread {number} life", LaneKind.COMMAND, (LIVES,), (number,)
        )
        for number in distinct(thread[of_life[at]]).tolist()
    }
    if len(at):
        name = builder.strings.intern("THREAD")
        builder.add_spans(
            start=start,
            end=np.maximum(end, start),
            lane=np.array([lanes[n] for n in thread[of_life[at]].tolist()], np.int32),
            name=np.full(len(at), name, np.int32),
            flags=np.where(is_closed[at], 0, int(SpanFlag.UNFINISHED)).astype(
                np.uint16
            ),
            record=events.first_record + rows[of_life[at]].astype(np.int64),
        )
    return is_bar


def _add_waits(
    builder: TraceBuilder, events: Events, rows: I64, lane: Array, origin: int
) -> None:
    if not len(rows):
        return
    thread = events.thread_of[events.place]
    in_time = np.arange(events.n) if events.order is None else events.order
    _, behind = neighbours(thread[in_time])
    follower = np.empty(events.n, np.int64)
    follower[in_time] = np.where(behind >= 0, in_time[behind], -1)
    follower = follower[rows]
    has_next = follower >= 0
    last = int(events.time.max())
    end = np.where(has_next, events.time[follower], last) - origin
    homes, first = np.unique(lane, return_index=True)
    waits = {
        i: builder.add_lane(
            f"thread {number} waits", LaneKind.STALL, (WAITS,), (number,), over=str(i)
        )
        for i, number in zip(homes.tolist(), thread[rows[first]].tolist(), strict=True)
    }
    builder.add_spans(
        start=events.time[rows] - origin,
        end=end,
        lane=np.array([waits[i] for i in lane.tolist()], np.int32),
        name=np.full(len(rows), builder.strings.intern("BARRIER_WAIT"), np.int32),
        flags=np.where(
            has_next, int(SpanFlag.INFERRED_END), int(SpanFlag.UNFINISHED)
        ).astype(np.uint16),
        record=events.first_record + rows.astype(np.int64),
    )
