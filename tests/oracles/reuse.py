"""What caches do with a sequence of reads, in plain Python."""

from bisect import bisect_left
from heapq import heappop, heappush

import numpy as np

from ggscope.model.tables import I64, Array


def distances(unit: Array, size: I64) -> I64:
    """Return the LRU stack distance of each read in bytes, -1 for a first one.

    O(n) list operations of the number of units.
    """
    array = np.full(len(unit), -1, np.int64)
    sizes = size.tolist()
    times: list[int] = []  # of the last reads of all units, ascending
    units: list[int] = []  # whose they are
    last: dict[int, int] = {}
    for i, u in enumerate(unit.tolist()):
        if not 0 <= u < len(sizes):
            continue
        if u in last:
            at = bisect_left(times, last[u])
            array[i] = sum(sizes[v] for v in units[at:])
            del times[at], units[at]
        times.append(i)
        units.append(u)
        last[u] = i
    return array


def next_reads(unit: Array, n_units: int) -> I64:
    """Return where the unit of each read is read next; n where it never is."""
    n = len(unit)
    array = np.full(n, n, np.int64)
    last: dict[int, int] = {}
    for i in range(n - 1, -1, -1):
        u = int(unit[i])
        if 0 <= u < n_units:
            array[i] = last.get(u, n)
            last[u] = i
    return array


def optimum(unit: Array, size: I64, capacity: int) -> tuple[int, int]:
    """Return (bytes read, reads not served whole) under Belady's rule, bytewise."""
    sizes = size.tolist()
    following = next_reads(unit, len(sizes)).tolist()
    resident = dict.fromkeys(range(len(sizes)), 0)
    queue: list[tuple[int, int]] = []  # (-next read, unit), with outdated entries
    current: dict[int, int] = {}
    held = from_disk = misses = 0
    for i, u in enumerate(unit.tolist()):
        if not 0 <= u < len(sizes) or sizes[u] <= 0:
            continue
        lacking = sizes[u] - resident[u]
        from_disk += lacking
        misses += lacking > 0
        held += lacking
        resident[u] = sizes[u]
        current[u] = following[i]
        heappush(queue, (-following[i], u))
        while held > capacity:
            later, v = queue[0]
            if current.get(v) != -later:
                heappop(queue)
                continue
            out = min(resident[v], held - capacity)
            resident[v] -= out
            held -= out
            if not resident[v]:
                heappop(queue)
                del current[v]
    return from_disk, misses


def with_read_ahead(
    unit: Array, size: I64, follow: I64, k: int, capacity: int
) -> tuple[int, int, int]:
    """Return (bytes read, misses, bytes read ahead) of LRU that reads k units ahead."""
    sizes, following = size.tolist(), follow.tolist()
    recent: dict[int, None] = {}  # oldest first
    held = from_disk = misses = early = 0
    for u in unit.tolist():
        if not 0 <= u < len(sizes):
            continue
        if u in recent:
            del recent[u]
            recent[u] = None
            continue
        misses += 1
        ahead: list[int] = []
        v = following[u]
        while len(ahead) < k and 0 <= v < len(sizes) and v != u:
            ahead.append(v)
            v = following[v]
        for v in reversed(ahead):
            if v in recent:
                del recent[v]
            else:
                held += sizes[v]
                from_disk += sizes[v]
                early += sizes[v]
            recent[v] = None
        held += sizes[u]
        from_disk += sizes[u]
        recent[u] = None
        while held > capacity:
            oldest = next(iter(recent))
            del recent[oldest]
            held -= sizes[oldest]
    return from_disk, misses, early
