"""Read 128-byte buffer events: allocations and releases of backend buffers."""

from collections.abc import Sequence

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import Array
from ggscope.model.trace import Severity
from ggscope.readers.common.buffer_lives import MAX_SIZE, BufferEvents, add_buffers
from ggscope.readers.source import Source
from ggscope.readers.tensor.columns import Ranges, word_blocks
from ggscope.readers.tensor.layouts import BUFFER_128, MAX_TIMESTAMP


def add_buffer_events(builder: TraceBuilder, source: Source, ranges: Ranges) -> int:
    """Add buffers, their occupancy over time and one marker per event.

    Returns
    -------
    The number of events.
    """
    events, record, n = _events(source, ranges)
    usable = np.asarray(
        (events["timestamp_ns"] <= np.uint64(MAX_TIMESTAMP))
        & (events["event_type"] <= 1)
    )
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
    sizes = np.minimum(events["size_bytes"], np.uint64(MAX_SIZE)).astype(np.int64)
    add_buffers(
        builder,
        BufferEvents(
            time=events["timestamp_ns"].astype(np.int64),
            is_alloc=events["event_type"] == 0,
            id=events["buffer_id"].astype(np.uint64),
            size=sizes,
            name=_strings(builder, events["name"].tolist()),
            backend=_strings(builder, events["backend"].tolist()),
            usage=events["usage"],
            layer=events["layer_id"],
            record=record,
        ),
    )
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


def _strings(builder: TraceBuilder, raw: Sequence[bytes]) -> Array:
    """Return the string ids of raw names; -1 for blank ones."""
    ids: dict[bytes, int] = {}
    for name in dict.fromkeys(raw):
        text = name.split(b"\0", 1)[0].decode("utf-8", "replace").strip()
        ids[name] = builder.strings.intern(text) if text else -1
    return np.array([ids[name] for name in raw], np.int32)
