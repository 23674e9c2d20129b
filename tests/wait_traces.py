"""Traces whose ops are followed by waits."""

from dataclasses import replace
from itertools import groupby

import numpy as np

from builders import OPS, finished, op_number, random_trace, spans_trace
from ggscope.analysis.reads.shared import op_owners
from ggscope.model.builder import TraceBuilder
from ggscope.model.run import RecordingInfo
from ggscope.model.tables import NO_WAIT, Array, Phase, Quality, SpanFlag, quality_of
from ggscope.model.trace import LaneKind, Trace

BARRIER_OPS = 12
"""Names of the ops of a `barrier_trace`."""


def with_waits(trace: Trace, wait: Array) -> Trace:
    """Return a trace with these waits, one for each span."""
    column = np.asarray(wait, np.uint32)
    spans = replace(trace.spans, wait=column)
    extent = replace(trace.extent, end=max(trace.extent.end, spans.last_tick()))
    waits = replace(trace, spans=spans, extent=extent)
    waits.freeze()
    return waits


def gaps_behind(trace: Trace) -> Array:
    """Return the room between each span and the next of its lane; 0 for the last."""
    s, array = trace.spans, np.zeros(len(trace.spans), np.int64)
    order = np.lexsort((s.end, s.start, s.lane))
    same = s.lane[order][1:] == s.lane[order][:-1]
    behind = s.start[order][1:] - s.end[order][:-1]
    array[order[:-1]] = np.where(same, np.maximum(behind, 0), 0)
    return array


def random_waits(seed: int, n: int, lanes: int = 2, *, shuffled: bool = False) -> Trace:
    """Return a random trace whose threads wait for a part of each gap.

    One span in ten has no wait, and one in ten waits until the next one begins.
    """
    rng = np.random.default_rng(seed)
    trace = random_trace(seed, n, lanes, shuffled=shuffled)
    space = gaps_behind(trace)
    kind = rng.random(n)
    wait = rng.integers(0, space + 1)
    wait = np.where(kind < 0.1, space, wait)
    return with_waits(trace, np.where(kind > 0.9, NO_WAIT, wait))


def threads_trace(seed: int, n: int, threads: int, *, in_step: bool) -> Trace:
    """Return a trace of ops that all threads compute, some without a known end."""
    rng = np.random.default_rng(seed)
    shape = (threads, n)
    start = np.arange(n) * 100 + rng.integers(0, 10, shape)
    end = start + rng.integers(1, 40, shape)
    wait = rng.integers(0, 20, shape).astype(np.uint32)
    wait[rng.random(shape) < 0.1] = NO_WAIT
    flags = np.full(shape, int(SpanFlag.REPEATED))
    flags[0] = 0
    if not in_step:
        flags[rng.random(shape) < 0.1] |= int(SpanFlag.UNFINISHED)
    order = np.arange(threads * n)
    if not in_step:
        order = rng.permutation(order)
    op = np.tile(np.arange(n) % 5 + 1, threads)
    lane = np.repeat(np.arange(threads), n)
    return spans_trace(
        start.ravel()[order], end.ravel()[order], lane[order], op=op[order],
        name=-1, flags=flags.ravel()[order], wait=wait.ravel()[order],
    )  # fmt: skip


def plain_ops(trace: Trace) -> dict[int, tuple[int, ...]]:
    """Return the row of each op that several threads computed, by its span."""
    s, owner = trace.spans, op_owners(trace)
    assert owner is not None
    quality, wait = quality_of(s.flags), np.maximum(recorded_wait(trace), 0)
    timed = [i for i in range(len(s)) if owner[i] >= 0]
    timed = [i for i in timed if quality[i] <= Quality.DERIVED]
    timed.sort(key=lambda i: int(owner[i]))
    rows = {}
    for op, members in groupby(timed, key=lambda i: int(owner[i])):
        ids = list(members)
        if len(ids) < 2:
            continue
        last = max(ids, key=lambda i: (int(s.end[i]), i))
        length = {i: int(s.end[i]) - int(s.start[i]) for i in ids}
        highest = max(length.values())
        longest = min(i for i in ids if length[i] == highest)
        waited = sum(int(wait[i]) for i in ids if i != last)
        rows[op] = (
            len(ids), min(int(s.start[i]) for i in ids), last, int(s.end[last]),
            longest, highest, sum(length.values()), waited, _n_cores(trace, ids),
        )  # fmt: skip
    return rows


def _n_cores(trace: Trace, ids: list[int]) -> int:
    """Return on how many cores spans began; 0 where one of them is not recorded."""
    if trace.spans.core is None:
        return 0
    cores = {int(trace.spans.core[i]) for i in ids}
    return 0 if min(cores) < 0 else len(cores)


def recorded_wait(trace: Trace) -> Array:
    """Return the wait of each span, int64; -1 where none is recorded."""
    wait = trace.spans.wait
    if wait is None:
        return np.full(len(trace.spans), -1)
    return np.where(wait == NO_WAIT, -1, wait.astype(np.int64))


def left_out(trace: Trace, **settings: object) -> Trace:
    """Return a trace whose recording was made with settings that leave things out."""
    recording = RecordingInfo(
        settings=settings, n_changes=0, skipped_graphs=0, end="exited", signal="",
        whole=(), account=None,
    )  # fmt: skip
    return replace(trace, recordings=(recording,))


def barrier_trace(start: Array, end: Array, *, phase: Array | None = None) -> Trace:
    """Return a trace of MUL_MATs with their begins and ends, int64[threads, ops].

    Threads wait at the barrier until the last one comes. Op i has the name of op
    i + `BARRIER_OPS`.
    """
    n_threads, n = start.shape
    wait = end.max(axis=0) - end
    flags = np.full(start.shape, int(SpanFlag.REPEATED))
    flags[0] = 0
    lane = np.repeat(np.arange(n_threads), n)
    names = [f"tensor-{i % BARRIER_OPS}" for i in range(n)]
    phases = np.full(n, int(Phase.GENERATE)) if phase is None else phase
    builder = TraceBuilder()
    builder.ops = OPS
    for number in range(n_threads):
        builder.add_lane(f"thread {number}", LaneKind.THREAD, ("Threads",))
    builder.add_spans(
        start=start.ravel(), end=end.ravel(), lane=lane.astype(np.int32),
        op=np.full(len(lane), op_number("MUL_MAT")),
        name=np.tile(builder.strings.intern_many(names), n_threads),
        flags=flags.ravel(), wait=wait.ravel().astype(np.uint32),
        phase=np.tile(phases, n_threads), core=lane.astype(np.int16),
    )  # fmt: skip
    return finished(builder)
