"""Traces whose ops are followed by waits."""

from dataclasses import replace

import numpy as np

from builders import random_trace
from ggscope.model.tables import NO_WAIT, Array
from ggscope.model.trace import Trace


def with_waits(trace: Trace, wait: Array) -> Trace:
    """Return a trace with these waits, one for each span."""
    column = np.asarray(wait, np.uint32)
    spans = replace(trace.spans, wait=column)
    extent = replace(trace.extent, end=max(trace.extent.end, spans.last_tick()))
    found = replace(trace, spans=spans, extent=extent)
    found.freeze()
    return found


def gaps_behind(trace: Trace) -> Array:
    """Return the room between each span and the next of its lane; 0 for the last."""
    s, room = trace.spans, np.zeros(len(trace.spans), np.int64)
    order = np.lexsort((s.end, s.start, s.lane))
    same = s.lane[order][1:] == s.lane[order][:-1]
    behind = s.start[order][1:] - s.end[order][:-1]
    room[order[:-1]] = np.where(same, np.maximum(behind, 0), 0)
    return room


def random_waits(seed: int, n: int, lanes: int = 2, *, shuffled: bool = False) -> Trace:
    """Return a random trace whose threads wait for a part of each gap.

    One span in ten has no wait, and one in ten waits until the next one begins.
    """
    rng = np.random.default_rng(seed)
    trace = random_trace(seed, n, lanes, shuffled=shuffled)
    room = gaps_behind(trace)
    kind = rng.random(n)
    wait = rng.integers(0, room + 1)
    wait = np.where(kind < 0.1, room, wait)
    return with_waits(trace, np.where(kind > 0.9, NO_WAIT, wait))


def recorded_wait(trace: Trace) -> Array:
    """Return the wait of each span, int64; -1 where none is recorded."""
    wait = trace.spans.wait
    if wait is None:
        return np.full(len(trace.spans), -1)
    return np.where(wait == NO_WAIT, -1, wait.astype(np.int64))
