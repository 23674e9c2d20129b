"""From the lanes of a trace to the lanes that the timeline offers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ggscope.analysis.chunks import chunks, count_values
from ggscope.analysis.groups import Groups
from ggscope.analysis.layout import (
    FEW_LANES,
    LAYERS,
    OPS,
    TOKENS,
    TimelineLane,
    TimelineLanes,
)
from ggscope.model.lanes import LaneKind
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
_SPANS, _COUNTERS, _LAYERS, _OPS = range(4)
"""Where a lane is from; in the order in which they are found."""
_FIELDS = ("", "", "layer", "op")


def timeline_lanes(
    trace: Trace, per_lane: I64, per_layer: I64, per_op: I64
) -> TimelineLanes:
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
    overlay = _overlays(trace, per_lane)
    kinds = (
        _span_lanes(trace, per_lane, overlay),
        _counter_lanes(trace),
        _layer_lanes(per_layer),
        _op_lanes(trace, per_op),
    )
    columns = {
        name: np.concatenate([getattr(part, name) for part in kinds])
        for name in ("group", "rank", "kind", "lane_id", "value", "n_spans")
    }
    source = np.repeat(np.arange(len(kinds)), [len(part.keys) for part in kinds])
    # Groups in the order of their first lanes.
    titles_of = [title for part in kinds for title in part.groups]
    base = np.repeat(
        np.cumsum([0, *(len(part.groups) for part in kinds[:-1])]),
        [len(part.keys) for part in kinds],
    )
    groups = {title: i for i, title in enumerate(dict.fromkeys(titles_of))}
    number = np.array([groups[title] for title in titles_of], np.int64)
    group = number[columns["group"] + base]
    ranks = np.full(len(groups), _FAR)
    np.minimum.at(ranks, group, columns["rank"])
    within = np.concatenate(
        [
            _places(kinds[0], kinds[1]),
            *(np.arange(len(part.keys)) for part in kinds[2:]),
        ]
    )
    order = np.lexsort((within, columns["rank"], group, ranks[group]))
    keys, position = _with_unique_keys(
        _taken([x for part in kinds for x in part.keys], order)
    )
    titles = _taken([x for part in kinds for x in part.titles], order)
    column = {name: values[order] for name, values in columns.items()}
    group, source = group[order].astype(np.int32), source[order]
    names = tuple(groups)

    def make(i: int) -> TimelineLane:
        of, value = int(source[i]), int(column["value"][i])
        lane_id = int(column["lane_id"][i])
        return TimelineLane(
            key=keys[i],
            title=titles[i],
            group=names[group[i]],
            kind=LaneKind(int(column["kind"][i])),
            lane_ids=(lane_id,) if of == _SPANS else (),
            field=_FIELDS[of],
            value=value if of in (_LAYERS, _OPS) else -1,
            counter=value if of == _COUNTERS else -1,
            overlay=tuple(overlay.get(lane_id, ())) if of == _SPANS else (),
            n_spans=int(column["n_spans"][i]),
            thin=of in (_LAYERS, _OPS),
        )

    return TimelineLanes(
        keys,
        titles,
        names,
        group,
        kinds=column["kind"],
        n_spans=column["n_spans"],
        lane_id=column["lane_id"],
        thin=source >= _LAYERS,
        is_counter=source == _COUNTERS,
        make=make,
        position=position,
        with_overlay=np.flatnonzero(
            np.isin(column["lane_id"], list(overlay)) & (column["lane_id"] >= 0)
        ).tolist(),
    )


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
    kinds, count = trace.lanes.kinds, by_lane.count
    is_work = np.isin(kinds, (LaneKind.ENGINE, LaneKind.THREAD)) & (count > 0)
    lanes = np.flatnonzero(is_work)
    lanes = lanes[np.argsort(by_lane.first[lanes], kind="stable")]
    begin = by_lane.first[lanes]
    stop, is_gated = begin + count[lanes], kinds[lanes] == LaneKind.THREAD
    is_new = np.ones(len(lanes), np.bool_)
    is_new[1:] = (begin[1:] != stop[:-1]) | (is_gated[1:] != is_gated[:-1])
    firsts = np.flatnonzero(is_new)
    lasts = np.append(firsts[1:], len(lanes))[: len(firsts)] - 1
    joined = zip(
        begin[firsts].tolist(),
        stop[lasts].tolist(),
        is_gated[firsts].tolist(),
        strict=True,
    )
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
    # One more for spans of a trace without lanes.
    is_thread = np.append(trace.lanes.of_kind(LaneKind.THREAD), False)
    is_engine = np.append(trace.lanes.of_kind(LaneKind.ENGINE), False)

    def is_work(rows: slice) -> npt.NDArray[np.bool_]:
        on = trace.spans.lane[rows].astype(np.intp)
        return is_engine[on] | (is_thread[on] & (trace.spans.op[rows] >= 0))

    return is_work


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Part:
    """Lanes of one source as columns, see `TimelineLanes`.

    Attributes
    ----------
    groups : titles in the order of their first lanes; `group` has the row of each.
    rank : of each lane, see `_KINDS`.
    order : sort keys of each lane within its rank.
    value : of the field, or id of the counter.
    """

    keys: Sequence[str]
    titles: Sequence[str]
    groups: Sequence[str]
    group: I64
    rank: I64
    kind: Array
    n_spans: I64
    lane_id: I64
    value: I64
    order: Sequence[tuple[int, ...]] = ()


def _overlays(trace: Trace, per_lane: I64) -> dict[int, list[int]]:
    """Return the lanes of stalls over each lane; those without are left out."""
    over: dict[int, list[int]] = {}
    is_stall = trace.lanes.of_kind(LaneKind.STALL) & (per_lane > 0)
    for i in np.flatnonzero(is_stall).tolist():
        target = _stall_target(trace, i)
        if target >= 0:
            over.setdefault(target, []).append(i)
    return over


def _stall_target(trace: Trace, lane: int) -> int:
    """Return the id of the lane that a lane of stalls lies over; -1 for none."""
    text = trace.lanes.attributes[lane].get("over", "")
    if not text.isdecimal():
        return -1
    target = int(text)
    if target >= len(trace.lanes) or trace.lanes.kinds[target] == LaneKind.STALL:
        return -1
    return target


def _span_lanes(
    trace: Trace, per_lane: I64, overlay: Mapping[int, Sequence[int]]
) -> _Part:
    """Return the lanes that hold spans, or over which stalls lie."""
    lanes = trace.lanes
    is_shown = per_lane > 0
    is_shown[list(overlay)] = True
    is_shown[[stall for stalls in overlay.values() for stall in stalls]] = False
    ids = np.flatnonzero(is_shown)
    kind = lanes.kinds[ids]
    # What goes by kind and group is worked out once for each pair of them.
    pairs = kind.astype(np.int64) * max(len(lanes.groups), 1) + lanes.group[ids]
    distinct, first, which = np.unique(pairs, return_index=True, return_inverse=True)
    own = [
        _group_of(LaneKind(int(lanes.kinds[ids[i]])), lanes.groups[lanes.group[ids[i]]])
        for i in first.tolist()
    ]
    groups = dict.fromkeys(own[i] for i in np.argsort(first).tolist())
    row = {title: i for i, title in enumerate(groups)}
    rows = np.array([row[title] for title in own], np.int64)
    ranks = np.zeros(len(LaneKind), np.int64)
    ranks[list(_KINDS)] = [rank for rank, _, _ in _KINDS.values()]
    alone = (LaneKind.TOKEN, LaneKind.PHASE)
    fronts = [f"{_KINDS[LaneKind(k)][2]}:" for k in range(len(LaneKind))]
    titles = _taken(lanes.names, ids)
    keys = [fronts[k] + title for k, title in zip(kind.tolist(), titles, strict=True)]
    for i in np.flatnonzero(np.isin(kind, alone)).tolist():
        keys[i] = _KINDS[LaneKind(int(kind[i]))][2]
    return _Part(
        keys=keys,
        titles=titles,
        groups=tuple(groups),
        group=rows[which] if len(distinct) else ids,
        rank=ranks[kind],
        kind=kind,
        n_spans=per_lane[ids],
        lane_id=ids,
        value=ids,
        order=_taken(lanes.sort_keys, ids),
    )


def _group_of(kind: LaneKind, group: tuple[str, ...]) -> str:
    """Return the title of the group that a lane of the trace stands in."""
    rank, title, _ = _KINDS[kind]
    return group[0] if group and rank > 1 and kind != LaneKind.STALL else title


def _counter_lanes(trace: Trace) -> _Part:
    """Return one lane per counter series, in the group of its lane."""
    rank, title, prefix = _KINDS[LaneKind.COUNTER]
    lanes = [trace.lanes[series.lane] for series in trace.counters]
    titles = [lane.group[0] if lane.group else title for lane in lanes]
    groups = {group: i for i, group in enumerate(dict.fromkeys(titles))}
    n, ids = len(lanes), np.array([series.id for series in trace.counters], np.int64)
    return _Part(
        keys=[f"{prefix}:{series.name}" for series in trace.counters],
        titles=[series.name for series in trace.counters],
        groups=tuple(groups),
        group=np.array([groups[group] for group in titles], np.int64),
        rank=np.full(n, rank),
        kind=np.full(n, LaneKind.COUNTER, np.int8),
        n_spans=np.zeros(n, np.int64),
        lane_id=np.full(n, -1),
        value=ids,
        order=[lane.sort_key for lane in lanes],
    )


def _layer_lanes(per_layer: I64) -> _Part:
    layers = np.flatnonzero(per_layer)
    names = [f"layer {i}" for i in layers.tolist()]
    keys = [f"layer:{i}" for i in layers.tolist()]
    return _thin(keys, names, LAYERS, _LAYER_RANK, layers, per_layer)


def _op_lanes(trace: Trace, per_op: I64) -> _Part:
    """Return one lane per op, the commonest first."""
    ops = np.argsort(-per_op, kind="stable")
    ops = ops[: np.count_nonzero(per_op)]
    names = [trace.op_name(op) for op in ops.tolist()]
    return _thin([f"op:{x}" for x in names], names, OPS, _OP_RANK, ops, per_op)


def _thin(
    keys: Sequence[str],
    titles: Sequence[str],
    group: str,
    rank: int,
    value: I64,
    n_spans: I64,
) -> _Part:
    n = len(value)
    return _Part(
        keys=keys,
        titles=titles,
        groups=(group,) if n else (),
        group=np.zeros(n, np.int64),
        rank=np.full(n, rank),
        kind=np.full(n, LaneKind.THREAD, np.int8),
        n_spans=n_spans[value],
        lane_id=np.full(n, -1),
        value=value,
    )


def _places(*parts: _Part) -> I64:
    """Return the place of each lane when all are sorted by their order, then number."""
    keys = [key for part in parts for key in part.order]
    number = np.concatenate([part.value for part in parts])
    if len(set(map(len, keys))) == 1:
        try:
            flat = np.fromiter(chain.from_iterable(keys), np.int64)
            columns = flat.reshape(len(keys), -1)
        except OverflowError:  # numbers of more than 64 bits
            columns = None
        if columns is not None:
            order = np.lexsort((number, *columns.T[::-1]))
            return _inverse(order)
    full = [(*key, i) for key, i in zip(keys, number.tolist(), strict=True)]
    return _inverse(np.array(sorted(range(len(full)), key=full.__getitem__), np.int64))


def _inverse(order: I64) -> I64:
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place


_T = TypeVar("_T")


def _taken(values: Sequence[_T], rows: I64) -> Sequence[_T]:
    if np.array_equal(rows, np.arange(len(values))):
        return values
    return [values[i] for i in rows.tolist()]


def _with_unique_keys(keys: Sequence[str]) -> tuple[Sequence[str], dict[str, int]]:
    """Return the keys, later ones that are the same as ``key#2`` and so on.

    Also returned is the place of each.
    """
    place = dict(zip(keys, range(len(keys)), strict=True))
    if len(place) == len(keys):
        return keys, place
    result: list[str] = []
    taken: set[str] = set()
    last: dict[str, int] = {}
    for wanted in keys:
        key, number = wanted, last.get(wanted, 1)
        while key in taken:
            number += 1
            key = f"{wanted}#{number}"
        taken.add(key)
        if key != wanted:
            last[wanted] = number
        result.append(key)
    return result, dict(zip(result, range(len(result)), strict=True))
