"""Calls of GPU runtimes in which the host waits: the one table of them.

Their time is measured on the host, from the call to its return: what the GPU does
meanwhile is in the trace only where kernels and copies are recorded.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ggscope.analysis.once import once
from ggscope.analysis.statistics.nesting import covered
from ggscope.analysis.statistics.table import StatTable
from ggscope.model.tables import I64, Quality, distinct, quality_of
from ggscope.model.trace import Trace, lane_titles

_SYNC = (
    "CtxSynchronize",
    "StreamSynchronize",
    "EventSynchronize",
    "DeviceSynchronize",
    "ThreadSynchronize",
)
_COPIES = (
    "Memcpy",
    "Memcpy2D",
    "Memcpy3D",
    "MemcpyHtoD",
    "MemcpyDtoH",
    "MemcpyToSymbol",
    "MemcpyFromSymbol",
    "MemcpyWithStream",
)
_RUNTIMES = ("cu", "cuda", "hip")
WAITING_CALLS: frozenset[str] = frozenset(
    f"{runtime}{name}" for runtime in _RUNTIMES for name in (*_SYNC, *_COPIES)
)
"""Functions of CUDA's driver and runtime and of HIP that return when the GPU is done.

Copies between host and device that have no "Async" in their name are among them; copies
within a device are not, for they need not wait.
"""
_VERSION = re.compile(r"(_v\d+|_ptds|_ptsz)+$")
"""What nsys and the headers of CUDA add to the name of a function."""


@dataclass(frozen=True, slots=True)
class HostWaits:
    """Time of calls in which the host waits for the GPU.

    Attributes
    ----------
    share : of the time of all recorded ops.
    longest : the op of most of it, and its share of the time of all recorded ops.
    n_names : how many different ops they are.
    """

    share: float
    longest: tuple[str, float]
    n_names: int


def is_host_wait(op: str) -> bool:
    """Return whether a call of this name returns only when the GPU is done."""
    return _VERSION.sub("", op) in WAITING_CALLS


def host_waits(ops: StatTable) -> HostWaits | None:
    """Return what calls that wait for the GPU take; None where none is recorded.

    Parameters
    ----------
    ops : by op, where the time of nested calls counts once.
    """
    waits = [row for row in ops.rows if row.timed and is_host_wait(row.key)]
    if not waits:
        return None
    longest = max(waits, key=lambda row: row.share)
    share = sum(row.share for row in waits)
    return HostWaits(share, (longest.key, longest.share), len(waits))


@once
def host_waits_by_lane(trace: Trace) -> Mapping[str, int]:
    """Return in how many ticks a call that waits for the GPU runs, by title of lane.

    Lanes without one are left out. O(spans) where ops have such names, else O(ops).
    """
    if trace.ops is None:
        return {}
    ops = [op for op, name in enumerate(trace.ops.names) if is_host_wait(name)]
    spans = trace.spans
    if not ops or not len(spans):
        return {}
    is_wait = np.zeros(1 << 16, np.bool_)  # of each op number, those below 0 too
    is_wait[ops] = True
    ids = np.flatnonzero(
        is_wait[spans.op] & (quality_of(spans.flags) <= Quality.DERIVED)
    )
    lane, titles = spans.lane[ids], lane_titles(trace.lanes)
    result = {}
    for i in distinct(lane).tolist():
        of_lane = ids[np.flatnonzero(lane == i)]
        if ticks := _union(spans.start[of_lane], spans.end[of_lane]):
            result[titles[i]] = ticks
    return result


def _union(start: I64, end: I64) -> int:
    """Return the time that spans cover; without a sort where starts are in order."""
    if (np.diff(start) < 0).any():
        return int(covered(np.zeros(len(start), np.int64), start, end, 1)[0])
    reached = np.maximum.accumulate(end)
    begin = np.maximum(start[1:], reached[:-1])
    inside = np.maximum(reached[1:] - begin, 0)
    return int(inside.sum()) + int(end[0] - start[0])
