"""From events to buffers: pair allocations with releases, and sum what is occupied.

Shared by the readers of all forms that buffer events come in.
"""

from dataclasses import dataclass

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I64, Array, Bools, CounterShape, Table
from ggscope.model.tensors import Buffers, BufferUsage
from ggscope.model.trace import LaneKind, Severity
from ggscope.model.units import Clock
from ggscope.readers.common.interval_pairing import neighbours

MAX_SIZE = 1 << 53
"""Sizes from here on are no sizes; sums of smaller ones are exact as float64."""
NO_LAYER = 65535
COUNTER_NAME = "Buffers"
_MAX_LAYER = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class BufferEvents(Table):
    """Allocations and releases, one row each, in file order.

    Attributes
    ----------
    time : int64, ns of the file's own clock.
    is_alloc : bool.
    id : uint64, the buffer's id or address.
    size : int64, bytes; -1 unknown.
    name, backend : string ids, -1 none; of releases too where the file has them.
    usage : as the file states it, `BufferUsage`; anything else is unknown.
    layer : as the file states it; 65535 and what is no layer become -1.
    record : int64, number of the event in the file's own terms.
    """

    time: I64
    is_alloc: Bools
    id: Array
    size: I64
    name: Array
    backend: Array
    usage: Array
    layer: Array
    record: I64


def add_buffers(
    builder: TraceBuilder, events: BufferEvents, *, record_word: str = "record"
) -> None:
    """Add buffers, occupied bytes over time and one marker per event.

    The clock's origin becomes the first event, on the file's own clock: that is the
    clock of the trace recorded beside it, so both can share one zero.

    Parameters
    ----------
    record_word : what `BufferEvents.record` counts, for places of warnings.
    """
    ordered = events.take(np.argsort(events.time, kind="stable"))
    origin = int(ordered.time[0]) if len(ordered) else 0
    builder.clock = Clock.of_stamps(origin)
    time = ordered.time - origin
    ends = ended_by(ordered.id, ordered.is_alloc)
    alloc = np.flatnonzero(ordered.is_alloc)
    freed = np.where(ends >= 0, time[ends], -1)[alloc]
    size = np.where(ordered.size < MAX_SIZE, ordered.size, -1)[alloc]
    usage = ordered.usage[alloc]
    layer = ordered.layer[alloc].astype(np.int64)
    is_usage = (usage >= 0) & (usage <= int(BufferUsage.COMPUTE))
    is_layer = (layer >= 0) & (layer < _MAX_LAYER)
    builder.buffers = Buffers(
        name=ordered.name[alloc].astype(np.int32),
        backend=ordered.backend[alloc].astype(np.int32),
        usage=np.where(is_usage, usage, int(BufferUsage.ANY)).astype(np.uint8),
        size=size.astype(np.int64),
        allocated=time[alloc],
        freed=freed,
        address=ordered.id[alloc].astype(np.uint64),
        layer=np.where(is_layer, layer, -1).astype(np.int16),
    )
    _add_counter(builder, time[alloc], freed, size)
    # A release names its buffer by the id alone in most files.
    bare = (ordered.name < 0) & ~ordered.is_alloc & (ends >= 0)
    names = np.where(bare, ordered.name[ends], ordered.name)
    _add_markers(builder, time, ordered, names)
    _note_values(builder, is_usage, size, layer, is_layer)
    _note_pairing(builder, ordered, ends, record_word)
    _note_gaps(builder)


def ended_by(buffer_id: Array, is_alloc: Array) -> I64:
    """Return which event ends each allocation; -1 where none does.

    The next event of the same id ends it: a release, or a new allocation, which
    replaces the old one. Releases get the allocation before them, -1 for none.
    """
    before, behind = neighbours(buffer_id)
    is_released = (before >= 0) & is_alloc[before]
    return np.where(is_alloc, behind, np.where(is_released, before, -1))


def _add_counter(builder: TraceBuilder, allocated: I64, freed: I64, size: I64) -> None:
    was_freed = freed >= 0
    time = np.concatenate([allocated, freed[was_freed]])
    known = np.maximum(size, 0).astype(np.int64)
    change = np.concatenate([known, -known[was_freed]])
    order = np.argsort(time, kind="stable")
    level = np.cumsum(change[order], dtype=np.int64)
    time = time[order]
    # Of several changes at one instant only the last level ever held.
    holds = np.append(time[1:] != time[:-1], True)[: len(time)]
    builder.add_counter(
        COUNTER_NAME, "bytes", CounterShape.LEVEL, time[holds], level[holds]
    )


def _add_markers(
    builder: TraceBuilder, time: I64, events: BufferEvents, names: Array
) -> None:
    lane = builder.add_lane("buffers", LaneKind.MEMORY, ("Memory",))
    verbs = builder.strings.intern_many(["free", "alloc"])
    builder.add_markers(
        time=time,
        lane=lane,
        name=verbs[events.is_alloc.astype(np.int64)],
        detail=names.astype(np.int32),
        record=events.record,
    )


def _note_values(
    builder: TraceBuilder, is_usage: Array, size: I64, layer: I64, is_layer: Array
) -> None:
    for rows, code, message in (
        (
            ~is_usage,
            "unknown_usage",
            "unknown buffer usage; shown as ANY.",
        ),
        (
            size < 0,
            "unknown_size",
            "buffers have no valid size; they count as 0 bytes.",
        ),
        (
            ~is_layer & (layer != NO_LAYER) & (layer != -1),
            "bad_layer",
            "buffers have an invalid layer number; their layer is unknown.",
        ),
    ):
        builder.warn(Severity.NOTICE, code, message, count=int(np.count_nonzero(rows)))


def _note_pairing(
    builder: TraceBuilder, events: BufferEvents, ends: I64, record_word: str
) -> None:
    """Say which events have no partner. Rows are in time order."""
    row = np.arange(len(events))
    first = np.full(len(events), len(events), np.int64)
    _, of_id = np.unique(events.id, return_inverse=True)
    np.minimum.at(first, of_id, row)
    is_first = first[of_id] == row
    orphan = ~events.is_alloc & (ends < 0)
    replaced = events.is_alloc & (ends >= 0) & events.is_alloc[ends]
    for rows, severity, code, message in (
        (
            orphan & is_first,
            Severity.INFO,
            "free_without_alloc",
            "buffers were released without an allocation in the file.",
        ),
        (
            orphan & ~is_first,
            Severity.NOTICE,
            "double_free",
            "buffers were released twice; the first release counts.",
        ),
        (
            replaced,
            Severity.NOTICE,
            "allocated_again",
            "buffer ids were allocated again without a release; the end of "
            "the earlier buffer is inferred.",
        ),
    ):
        numbers = np.flatnonzero(rows)
        if len(numbers):
            record = int(events.record[numbers[0]])
            place = f"{record_word} {record:,}" if record >= 0 else ""
            builder.warn(severity, code, message, count=len(numbers), place=place)


def _note_gaps(builder: TraceBuilder) -> None:
    """Say what the tracer evidently did not see, so that the peak is too low."""
    buffers = builder.buffers
    if not len(buffers):
        return
    names = {name: builder.strings[name] for name in set(buffers.name.tolist())}
    is_kv = np.array(["kv" in names[n].casefold() for n in buffers.name.tolist()])
    is_weights = buffers.usage == int(BufferUsage.WEIGHTS)
    missing = []
    if not is_weights.any():
        missing.append("model weights")
    if (is_kv | is_weights).all():
        missing.append("the scheduler's compute buffers")
    if missing:
        builder.warn(
            Severity.INFO,
            "buffers_not_recorded",
            f"No buffers of {' and '.join(missing)} recorded; total bytes are "
            "a lower bound.",
            remedy="Start recording before the model is loaded, with a tracer that "
            "sees all buffers.",
        )
