"""Read 128-byte buffer events: allocations and releases of backend buffers."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ggscope.model.builder import TraceBuilder
from ggscope.model.lanes import LaneKind
from ggscope.model.tables import I64, Array, CounterShape
from ggscope.model.tensors import Buffers, BufferUsage
from ggscope.model.time import Clock
from ggscope.model.trace import Severity
from ggscope.readers.records import BUFFER_128, MAX_TIMESTAMP
from ggscope.readers.source import Source
from ggscope.readers.tensor_ranges import Ranges, word_blocks

_MAX_SIZE = np.uint64(1 << 53)


def add_buffer_events(builder: TraceBuilder, source: Source, ranges: Ranges) -> int:
    """Add buffers, their occupancy over time and one marker per event.

    Returns
    -------
    The number of events.
    """
    events, record, n = _events(source, ranges)
    usable = _is_usable(events)
    if not usable.all():
        builder.warn(
            Severity.DATA_LOSS,
            "bad_event",
            "buffer events of an unknown type or with an impossible time stamp were "
            "left out.",
            int(record[~usable][0]) * BUFFER_128.size,
            int(np.count_nonzero(~usable)),
        )
    events, record = events[usable], record[usable]
    by_time = np.argsort(events["timestamp_ns"], kind="stable")
    events, record = events[by_time], record[by_time]
    raw_time = events["timestamp_ns"].astype(np.int64)
    origin = int(raw_time[0]) if len(raw_time) else 0
    builder.clock = Clock("ns", origin)
    time = raw_time - origin
    is_alloc = events["event_type"] == 0
    ends = _ended_by(events["buffer_id"], is_alloc)
    alloc = np.flatnonzero(is_alloc)
    freed = np.where(ends >= 0, time[ends], -1)
    is_sized = events["size_bytes"] < _MAX_SIZE
    size = np.where(is_sized, events["size_bytes"].astype(np.int64), -1)
    names = _strings(builder, events["name"].tolist(), "buffer")
    builder.buffers = Buffers(
        name=names[alloc],
        backend=_strings(builder, events["backend"].tolist(), "")[alloc],
        usage=np.minimum(events["usage"][alloc], BufferUsage.COMPUTE),
        size=size[alloc],
        allocated=time[alloc],
        freed=freed[alloc],
        address=events["buffer_id"][alloc].astype(np.uint64),
    )
    _add_counter(builder, time[alloc], freed[alloc], size[alloc])
    _add_markers(builder, time, names, is_alloc, record)
    _warn_orphans(builder, is_alloc, ends)
    return n


def _events(source: Source, ranges: Ranges) -> tuple[Array, Array, int]:
    """Return the events, their record numbers, and how many there are."""
    parts: list[Array] = [np.zeros(0, BUFFER_128.dtype)]
    numbers: list[Array] = [np.zeros(0, np.int64)]
    for first, words in word_blocks(source, BUFFER_128.size, ranges):
        used = np.flatnonzero(words.any(axis=1))
        rows = np.ascontiguousarray(words[used])
        parts.append(rows.view(BUFFER_128.dtype).reshape(-1))
        numbers.append(first + used)
    events = np.concatenate(parts)
    return events, np.concatenate(numbers), len(events)


def _is_usable(events: Array) -> npt.NDArray[np.bool_]:
    return np.asarray(
        (events["timestamp_ns"] <= np.uint64(MAX_TIMESTAMP))
        & (events["event_type"] <= 1)
    )


def _ended_by(buffer_id: Array, is_alloc: Array) -> I64:
    """Return which event ends each allocation; -1 where none does.

    The next event of the same id ends it: a release, or a new allocation, which
    replaces the old one. Releases get the allocation before them, -1 for none.
    """
    order = np.argsort(buffer_id, kind="stable")
    same = buffer_id[order][1:] == buffer_id[order][:-1]
    ends = np.full(len(order), -1, np.int64)
    previous, following = order[:-1][same], order[1:][same]
    of_alloc = is_alloc[previous]
    ends[previous[of_alloc]] = following[of_alloc]
    is_release = of_alloc & ~is_alloc[following]
    ends[following[is_release]] = previous[is_release]
    return ends


def _add_counter(builder: TraceBuilder, allocated: I64, freed: I64, size: I64) -> None:
    was_freed = freed >= 0
    time = np.concatenate([allocated, freed[was_freed]])
    known = np.maximum(size, 0).astype(np.float64)
    change = np.concatenate([known, -known[was_freed]])
    order = np.argsort(time, kind="stable")
    level = np.cumsum(change[order])
    time = time[order]
    # Of several changes at one instant only the last level ever held.
    holds = np.append(time[1:] != time[:-1], True)[: len(time)]
    builder.add_counter(
        "buffer memory",
        "bytes",
        CounterShape.LEVEL,
        time[holds],
        level[holds],
    )


def _add_markers(
    builder: TraceBuilder, time: I64, names: Array, is_alloc: Array, record: Array
) -> None:
    lane = builder.add_lane("buffers", LaneKind.MEMORY, ("Memory",))
    verbs = builder.strings.intern_many(["free", "alloc"])
    builder.add_markers(
        time=time,
        lane=lane,
        name=verbs[is_alloc.astype(np.int64)],
        detail=names,
        record=record,
    )


def _warn_orphans(builder: TraceBuilder, is_alloc: Array, ends: I64) -> None:
    orphans = int(np.count_nonzero(~is_alloc & (ends < 0)))
    if orphans:
        builder.warn(
            Severity.INFO,
            "free_without_alloc",
            "buffers were released whose allocation is not in the file.",
            count=orphans,
        )


def _strings(builder: TraceBuilder, raw: Sequence[bytes], default: str) -> Array:
    """Return the string ids of raw names; `default` for blank ones, "" = none."""
    ids: dict[bytes, int] = {}
    for name in dict.fromkeys(raw):
        text = name.split(b"\0", 1)[0].decode("utf-8", "replace").strip() or default
        ids[name] = builder.strings.intern(text) if text else -1
    return np.array([ids[name] for name in raw], np.int32)
