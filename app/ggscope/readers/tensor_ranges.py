"""Where the records of a tensor trace lie in its file.

The file is often preallocated to 2 GiB and mostly empty; holes of a sparse file are
never read.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ggscope.readers.api import ReadContext
from ggscope.readers.source import Source

SCAN_BYTES = 1 << 20
"""Block size; fits the second-level cache, so that column reads are cheap."""

_PROBE_BYTES = 1 << 20
_U64 = np.uint64

Words = npt.NDArray[np.uint64]
Ranges = list[tuple[int, int]]


def data_bounds(source: Source, context: ReadContext) -> tuple[int, int]:
    """Return where the first non-zero byte is and where the last one ends.

    (0, 0) if there is none. Holes of a sparse file are never read.
    """
    extents = source.data_extents()
    end = _last_data(source, context, extents)
    for start, stop in extents if end else ():
        for offset in range(start, stop, _PROBE_BYTES):
            context.check_cancelled()
            block = source.array(offset, min(_PROBE_BYTES, stop - offset))
            if block.any():
                return offset + int(np.argmax(block != 0)), end
    return 0, 0


def _last_data(source: Source, context: ReadContext, extents: Ranges) -> int:
    """Return the offset behind the last non-zero byte; 0 if there is none."""
    for start, stop in reversed(extents):
        while stop > start:
            context.check_cancelled()
            offset = max(start, stop - _PROBE_BYTES)
            block = source.array(offset, stop - offset)
            if block.any():
                return offset + len(block) - int(np.argmax(block[::-1] != 0))
            stop = offset
    return 0


def n_file_records(source: Source, size: int, end: int) -> int:
    """Return how many whole records of `size` bytes begin before `end`."""
    return min(-(-end // size), source.size // size)


def record_ranges(source: Source, size: int, begin: int, end: int) -> Ranges:
    """Return [first, stop) record numbers of the stored parts of ``[begin, end)``.

    Ascending and apart from each other. A record cut off by the end of the file is
    left out, one that merely ends in zeros is not.
    """
    stop_all = n_file_records(source, size, end)
    ranges: Ranges = []
    for start, stop in source.data_extents():
        low = max(start, begin) // size
        high = min(-(-min(stop, end) // size), stop_all)
        if ranges and low <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(high, ranges[-1][1]))
        elif low < high:
            ranges.append((low, high))
    return ranges


def cut_ranges(ranges: Ranges, first: int, stop: int) -> Ranges:
    """Return the parts of `ranges` within ``[first, stop)``."""
    cut = [(max(low, first), min(high, stop)) for low, high in ranges]
    return [(low, high) for low, high in cut if low < high]


def count_records(ranges: Ranges) -> int:
    """Return how many records the ranges hold."""
    return sum(stop - first for first, stop in ranges)


def spread_records(ranges: Ranges, n: int) -> list[int]:
    """Return the numbers of up to `n` records, evenly spread over the ranges."""
    total = count_records(ranges)
    if not total:
        return []
    at = np.unique(np.linspace(0, total - 1, n).astype(np.int64))
    lengths = np.array([stop - first for first, stop in ranges], np.int64)
    before = np.cumsum(lengths) - lengths
    of_range = np.searchsorted(before, at, "right") - 1
    firsts = np.array([first for first, _ in ranges], np.int64)
    numbers: list[int] = (firsts[of_range] + at - before[of_range]).tolist()
    return numbers


def word_blocks(
    source: Source, size: int, ranges: Ranges
) -> Iterator[tuple[int, Words]]:
    """Yield (first record number, words uint64[m, size / 8]) over the ranges.

    The same memory is used for every block. Stops where the file has become
    shorter.
    """
    for first, stop in ranges:
        at = first
        for offset, block in source.blocks(first * size, stop * size, SCAN_BYTES):
            at = offset // size
            m = len(block) // size
            yield at, block[: m * size].view(_U64).reshape(m, size // 8)
            at += m
        if at < stop:
            return
