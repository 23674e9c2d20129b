"""From the lanes of a trace to the lanes that the timeline offers."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.chunks import chunks, count_values
from ggscope.analysis.groups import Groups
from ggscope.analysis.layout import FEW_LANES, LAYERS, OPS, TOKENS, TimelineLane
from ggscope.model.lanes import Lane, LaneKind
from ggscope.model.tables import I64, Array
from ggscope.model.trace import Trace

THREADS, ENGINES, GRAPHS, COMMANDS = "Threads", "Engines", "Graphs", "Commands"
STALLS, MEMORY, COUNTERS, MARKERS = "Stalls", "Memory", "Counters", "Markers"

_FAR = 1 << 20
# (rank, default group, key prefix); lanes of a rank follow those of a lower one.
_KINDS: dict[LaneKind, tuple[int, str, str]] = {
    LaneKind.TOKEN: (0, TOKENS, "token"),
    LaneKind.PHASE: (1, TOKENS, "phase"),
    LaneKind.THREAD: (2, THREADS, "thread"),
    LaneKind.ENGINE: (3, ENGINES, "engine"),
    LaneKind.GRAPH: (4, GRAPHS, "graph"),
    LaneKind.COMMAND: (5, COMMANDS, "command"),
    LaneKind.STALL: (6, STALLS, "stall"),
    LaneKind.MEMORY: (9, MEMORY, "memory"),
    LaneKind.COUNTER: (10, COUNTERS, "counter"),
    LaneKind.MARKER: (11, MARKERS, "marker"),
}
_LAYER_RANK, _OP_RANK = 7, 8


def timeline_lanes(
    trace: Trace, per_lane: I64, per_layer: I64, per_op: I64
) -> tuple[TimelineLane, ...]:
    """Return all lanes that the timeline can show, in default order.

    Parameters
    ----------
    per_lane : int64[n_lanes], spans of each lane of the trace.
    per_layer, per_op : int64, work spans (see `work_column`) by layer and op.

    Notes
    -----
    Lanes without spans are left out, and so are stalls that lie over another
    lane: they are its `overlay`. A group stands where its first lane ranks.
    """
    found = list(_span_lanes(trace, per_lane))
    found += _counter_lanes(trace)
    found += [
        (_LAYER_RANK, (i,), _thin(f"layer:{i}", f"layer {i}", LAYERS, "layer", i, n))
        for i, n in enumerate(per_layer.tolist())
        if n
    ]
    for op, n in enumerate(per_op.tolist()):
        if n:
            name = trace.op_name(op)
            found.append(
                (_OP_RANK, (-n, op), _thin(f"op:{name}", name, OPS, "op", op, n))
            )
    ranks: dict[str, int] = {}
    for rank, _, lane in found:
        ranks[lane.group] = min(ranks.get(lane.group, _FAR), rank)
    order = {group: i for i, group in enumerate(ranks)}
    found.sort(
        key=lambda item: (
            ranks[item[2].group],
            order[item[2].group],
            item[0],
            item[1],
        )
    )
    return _with_unique_keys(item[2] for item in found)


def work_column(trace: Trace, column: Array) -> Array:
    """Return `column` where a span is work, else -1.

    Work is an op on a thread, or anything on an engine; graphs, tokens, phases
    and stalls repeat the time of the work below them.
    """
    is_work = _work_test(trace)
    result = np.empty(len(column), column.dtype)
    for rows in chunks(len(column)):
        result[rows] = np.where(is_work(rows), column[rows], column.dtype.type(-1))
    return result


def work_parts(trace: Trace, by_lane: Groups) -> list[tuple[slice, Array | None]]:
    """Return (ids, gate) of the lanes that hold work, in the order of the ids.

    Work are those spans whose gate is not negative; all where it is None.
    `by_lane` are the spans by lane, each a run of ids; lanes of one kind that lie
    side by side are one part.
    """
    runs: list[tuple[int, int, bool]] = []
    first, count = by_lane.first.tolist(), by_lane.count.tolist()
    for lane, begin, n in zip(trace.lanes, first, count, strict=True):
        if n and lane.kind in (LaneKind.ENGINE, LaneKind.THREAD):
            runs.append((begin, begin + n, lane.kind == LaneKind.THREAD))
    joined: list[tuple[int, int, bool]] = []
    for begin, stop, is_gated in sorted(runs):
        if joined and joined[-1][1:] == (begin, is_gated):
            begin = joined.pop()[0]
        joined.append((begin, stop, is_gated))
    op = trace.spans.op
    return [(slice(a, b), op[a:b] if gated else None) for a, b, gated in joined]


def count_work(
    trace: Trace, columns: Sequence[Array], by_lane: Groups | None = None
) -> list[I64]:
    """Return how many work spans have each value, int64[max + 1] per column.

    `by_lane` are the spans by lane, which is faster where each is a run of ids.
    """
    if by_lane is not None and by_lane.order is None:
        parts = work_parts(trace, by_lane)
        if len(parts) <= FEW_LANES:
            return [_count_parts(column, parts) for column in columns]
    is_work = _work_test(trace)
    counts = [np.zeros(int(c.max(initial=-1)) + 1, np.int64) for c in columns]
    for rows in chunks(len(trace.spans)):
        work = is_work(rows)
        for column, count in zip(columns, counts, strict=True):
            part = column[rows][work[: len(column)]]
            count += np.bincount(part[part >= 0], minlength=len(count))[: len(count)]
    return counts


def _count_parts(column: Array, parts: list[tuple[slice, Array | None]]) -> I64:
    total = np.zeros(int(column.max(initial=-1)) + 1, np.int64)
    for ids, gate in parts if len(column) else ():
        total += count_values(column[ids], len(total), gate)
    return total


def _work_test(trace: Trace) -> Callable[[slice], npt.NDArray[np.bool_]]:
    """Return a function that tells of some rows of the spans which are work."""
    is_thread = np.zeros(max(len(trace.lanes), 1), np.bool_)
    is_engine = is_thread.copy()
    for lane in trace.lanes:
        is_thread[lane.id] = lane.kind == LaneKind.THREAD
        is_engine[lane.id] = lane.kind == LaneKind.ENGINE

    def is_work(rows: slice) -> npt.NDArray[np.bool_]:
        on = trace.spans.lane[rows].astype(np.intp)
        return is_engine[on] | (is_thread[on] & (trace.spans.op[rows] >= 0))

    return is_work


def stall_target(trace: Trace, lane: Lane) -> int:
    """Return the id of the lane that a stall lane lies over; -1 for none."""
    text = lane.attributes.get("over", "")
    if lane.kind != LaneKind.STALL or not text.isdecimal():
        return -1
    target = int(text)
    if target >= len(trace.lanes) or trace.lanes[target].kind == LaneKind.STALL:
        return -1
    return target


_Found = tuple[int, tuple[int, ...], TimelineLane]


def _span_lanes(trace: Trace, per_lane: I64) -> Iterable[_Found]:
    """Yield (rank, order within it, lane) for the lanes that hold spans."""
    over: dict[int, list[int]] = {}
    for lane in trace.lanes:
        target = stall_target(trace, lane)
        if target >= 0 and per_lane[lane.id]:
            over.setdefault(target, []).append(lane.id)
    laid = {stall for stalls in over.values() for stall in stalls}
    for lane in trace.lanes:
        n = int(per_lane[lane.id])
        if lane.id in laid or (not n and lane.id not in over):
            continue
        rank, group, prefix = _KINDS[lane.kind]
        if lane.group and rank > 1 and lane.kind != LaneKind.STALL:
            group = lane.group[0]
        alone = lane.kind in (LaneKind.TOKEN, LaneKind.PHASE)
        yield (
            rank,
            (*lane.sort_key, lane.id),
            TimelineLane(
                key=prefix if alone else f"{prefix}:{lane.name}",
                title=lane.name,
                group=group,
                kind=lane.kind,
                lane_ids=(lane.id,),
                overlay=tuple(over.get(lane.id, ())),
                n_spans=n,
            ),
        )


def _counter_lanes(trace: Trace) -> list[_Found]:
    """Return one lane per counter series, in the group of its lane."""
    found: list[_Found] = []
    for series in trace.counters:
        rank, group, prefix = _KINDS[LaneKind.COUNTER]
        lane = trace.lanes[series.lane]
        found.append(
            (
                rank,
                (*lane.sort_key, series.id),
                TimelineLane(
                    key=f"{prefix}:{series.name}",
                    title=series.name,
                    group=lane.group[0] if lane.group else group,
                    kind=LaneKind.COUNTER,
                    counter=series.id,
                ),
            )
        )
    return found


def _thin(
    key: str, title: str, group: str, field: str, value: int, n_spans: int
) -> TimelineLane:
    return TimelineLane(
        key=key,
        title=title,
        group=group,
        kind=LaneKind.THREAD,
        field=field,
        value=value,
        n_spans=n_spans,
        thin=True,
    )


def _with_unique_keys(lanes: Iterable[TimelineLane]) -> tuple[TimelineLane, ...]:
    """Return the lanes, later ones of the same key as ``key#2`` and so on."""
    result: list[TimelineLane] = []
    taken: set[str] = set()
    last: dict[str, int] = {}
    for lane in lanes:
        key, number = lane.key, last.get(lane.key, 1)
        while key in taken:
            number += 1
            key = f"{lane.key}#{number}"
        taken.add(key)
        if key != lane.key:
            last[lane.key] = number
            lane = replace(lane, key=key)
        result.append(lane)
    return tuple(result)
