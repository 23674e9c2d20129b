"""Whether the spare bytes of a file's records hold waits.

The tracer of ``ggscope-capture`` puts four numbers behind the sources of each record:
wait, node, graph and extra (``resources/docs/ring-format.md``). Other writers of the
layout leave zeros there, or what their memory held. No header says whose file it is,
so its records do: where the numbers of graphs and nodes ascend within each thread, and
each wait ends before the thread's next record begins, they are what they seem to be.
"""

import numpy as np

from ggscope.model.run import BEGIN_ONLY, WHOLE_GRAPH
from ggscope.model.tables import Array
from ggscope.readers.source import Source
from ggscope.readers.tensor.columns import Ranges, spread_records
from ggscope.readers.tensor.layouts import (
    FIRST_EXTENSION_OP,
    LAYOUT_256,
    RecordLayout,
)

WAIT, NODE, GRAPH, EXTRA = range(4)
"""Places of the spare numbers."""
_N_BLOCKS, _BLOCK_RECORDS = 6, 512
_MIN_SHARE = 0.95
"""Of the pairs of records that follow each other in a thread."""


def spare_numbers(records: Array) -> Array:
    """Return the spare numbers of records of 256 bytes, uint32[n, 4].

    `records` is uint8[n, 256].
    """
    sources = np.ascontiguousarray(records).view(LAYOUT_256.dtype)["sources"]
    numbers = np.ascontiguousarray(sources["pad2"]).view("<u4")
    return np.asarray(numbers.reshape(-1, 4), np.uint32)


def has_waits(source: Source, layout: RecordLayout, ranges: Ranges) -> bool:
    """Return whether records hold waits; a few blocks of them are looked at."""
    if layout is not LAYOUT_256:
        return False
    n_pairs = 0
    for first in _blocks(ranges):
        pairs, good = _judged(source, first)
        if good < _MIN_SHARE * pairs:
            return False  # mostly the first block decides
        n_pairs += pairs
    return n_pairs > 0


def _blocks(ranges: Ranges) -> list[int]:
    """Return the first records of blocks that lie apart from each other."""
    blocks = {n // _BLOCK_RECORDS for n in spread_records(ranges, _N_BLOCKS)}
    return [block * _BLOCK_RECORDS for block in sorted(blocks)]


def _judged(source: Source, first: int) -> tuple[int, int]:
    """Return how many pairs of records a block has, and how many are consistent."""
    size = LAYOUT_256.size
    block = source.array(first * size, _BLOCK_RECORDS * size)
    records = block[: len(block) // size * size].reshape(-1, size)
    fields = np.ascontiguousarray(records).view(LAYOUT_256.dtype).reshape(-1)
    is_op = (fields["operation_type"] < FIRST_EXTENSION_OP) & records.any(axis=1)
    fields, spare = fields[is_op], spare_numbers(records[is_op]).astype(np.int64)
    order = np.argsort(fields["thread_id"], kind="stable")
    fields, spare = fields[order], spare[order]
    follows = fields["thread_id"][1:] == fields["thread_id"][:-1]
    place = spare[:, GRAPH] << 32 | spare[:, NODE]
    flags = spare[:, EXTRA]
    start = fields["timestamp_ns"].astype(np.int64)
    end = start + _durations(fields) + spare[:, WAIT]
    good = (place[1:] > place[:-1]) & (end[:-1] <= start[1:])
    good &= (flags[:-1] & WHOLE_GRAPH) == 0
    # What has no end has no wait either.
    good &= ((flags[:-1] & BEGIN_ONLY) == 0) | (spare[:-1, WAIT] == 0)
    return int(np.count_nonzero(follows)), int(np.count_nonzero(good & follows))


def _durations(fields: Array) -> Array:
    """Return the durations of records, int64[n]."""
    wide = np.zeros((len(fields), 8), np.uint8)
    raw = np.ascontiguousarray(fields["duration"]).view(np.uint8)
    wide[:, :5] = raw.reshape(-1, 5)
    return wide.view("<i8").reshape(-1)
