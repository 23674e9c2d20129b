"""Tables of one trace in the numbers of another: strings, lanes, ops, ticks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from ggscope.errors import ReadError
from ggscope.model.graph import Graph
from ggscope.model.lanes import Lane, Lanes
from ggscope.model.routing import Routing
from ggscope.model.strings import StringTable
from ggscope.model.tables import I64, Array, CounterSeries, Markers, freeze
from ggscope.model.tensors import Buffers, Place, SizeSource, Tensors
from ggscope.model.trace import (
    OpTable,
    ReadWarning,
    RecordAccess,
    RecordView,
    Trace,
    TraceInfo,
)

TENSOR_DEFAULTS: Mapping[str, tuple[type[np.generic], int]] = {
    "file": (np.int16, -1),
    "type": (np.int16, -1),
    "n_experts": (np.int32, 0),
    "place": (np.uint8, Place.UNKNOWN),
    "size_source": (np.uint8, SizeSource.UNKNOWN),
    "address": (np.uint64, 0),
}
"""Columns of `Tensors` that may be None: dtype, and what stands for "unknown"."""
_NEVER = -1
_JUST_BEFORE = -2


def looked_up(table: Array, ids: Array) -> Array:
    """Return ``table[ids]`` with -1 where `ids` is -1; int32 where `table` is empty."""
    padded = np.append(table, np.array([-1], table.dtype))
    return padded[ids]


def string_map(source: StringTable, target: StringTable) -> Array:
    """Return what each string id of `source` is in `target`; new ones are added.

    `target` only grows, so traces that share it stay as they are.
    """
    return target.intern_many(source.texts())


def full_tensors(tensors: Tensors) -> Tensors:
    """Return the table with every column, "unknown" where it had none.

    What only accesses told is marked as traced.
    """
    n = len(tensors)
    columns = {
        name: np.full(n, missing, dtype)
        for name, (dtype, missing) in TENSOR_DEFAULTS.items()
        if getattr(tensors, name) is None
    }
    if "place" in columns:
        columns["place"][tensors.offset >= 0] = Place.TRACED
    if "size_source" in columns:
        columns["size_source"][tensors.size >= 0] = SizeSource.TRACED
    shape = np.zeros((n, 4), np.int64) if tensors.shape is None else tensors.shape
    return replace(tensors, shape=shape, **columns)


def stacked_tensors(a: Tensors, b: Tensors) -> Tensors:
    """Return the rows of `a`, then those of `b`; both with every column."""
    return Tensors(
        **{
            f.name: np.concatenate([getattr(a, f.name), getattr(b, f.name)])
            for f in fields(Tensors)
        }
    )


def taken_tensors(tensors: Tensors, rows: Array) -> Tensors:
    """Return the given rows of a table with every column."""
    return Tensors(**{f.name: getattr(tensors, f.name)[rows] for f in fields(Tensors)})


def moved_ticks(ticks: I64, by: int) -> I64:
    """Return ticks `by` later; -1 stays, for it means "never" or "not known".

    A time that would become -1 by the move becomes one tick less.
    """
    moved = np.where(ticks == _NEVER, _NEVER, ticks + by)
    moved[(ticks != _NEVER) & (moved == _NEVER)] = _JUST_BEFORE
    return moved.astype(np.int64)


def moved_buffers(buffers: Buffers, strings: Array, by: int) -> Buffers:
    """Return buffers with other string ids, `by` ticks later."""
    return replace(
        buffers,
        name=looked_up(strings, buffers.name),
        backend=looked_up(strings, buffers.backend),
        allocated=moved_ticks(buffers.allocated, by),
        freed=moved_ticks(buffers.freed, by),
    )


def joined_buffers(a: Buffers, b: Buffers) -> tuple[Buffers, Array]:
    """Return one table of both, and the row in it of every row of `b`.

    The rows of `a` keep their numbers. Where `a` knows a buffer by its address only,
    what `b` tells of it is filled in: of several lives of that address the last one
    that began before tick 0, else the first.
    """
    n = len(a)
    place = np.full(len(b), -1, np.int64)
    columns = {f.name: _column(a, f.name) for f in fields(Buffers)}
    others = {f.name: _column(b, f.name) for f in fields(Buffers)}
    bare = np.flatnonzero((a.allocated == _NEVER) & (a.size < 0) & (a.address != 0))
    for row in bare.tolist():  # a handful: buffers that accesses name
        lives = np.flatnonzero((b.address == a.address[row]) & (place < 0))
        if not len(lives):
            continue
        early = lives[b.allocated[lives] <= 0]
        life = int(early[-1] if len(early) else lives[0])
        place[life] = row
        for name, column in columns.items():
            column[row] = others[name][life]
    fresh = np.flatnonzero(place < 0)
    place[fresh] = n + np.arange(len(fresh))
    return (
        Buffers(
            **{
                name: np.concatenate([column, others[name][fresh]])
                for name, column in columns.items()
            }
        ),
        place,
    )


def _column(buffers: Buffers, name: str) -> Array:
    """Return a copy of a column; -1 throughout where the table has none."""
    column = getattr(buffers, name)
    return np.full(len(buffers), -1, np.int16) if column is None else column.copy()


def joined_markers(a: Markers, b: Markers) -> Markers:
    """Return the markers of `a`, then those of `b`."""
    if not len(b):
        return a
    records = [_records(a), _records(b)]
    rest = {
        f.name: np.concatenate([getattr(a, f.name), getattr(b, f.name)])
        for f in fields(Markers)
        if f.name != "record"
    }
    return Markers(**rest, record=np.concatenate(records))


def _records(markers: Markers) -> Array:
    return np.arange(len(markers)) if markers.record is None else markers.record


def moved_markers(
    markers: Markers, strings: Array, lanes: Array, by: int, first_record: int
) -> Markers:
    """Return markers with other ids, `by` ticks later.

    `first_record` : added to their record numbers; -1 takes the records away.
    """
    record = _records(markers).astype(np.int64)
    if first_record < 0:
        record = np.full(len(markers), -1, np.int64)
    else:
        record = np.where(record < 0, -1, record + first_record)
    return Markers(
        time=markers.time + by,
        lane=lanes[markers.lane] if len(lanes) else markers.lane,
        name=looked_up(strings, markers.name),
        detail=looked_up(strings, markers.detail),
        flags=markers.flags,
        record=record,
    )


def moved_counters(
    counters: Sequence[CounterSeries], lanes: Array, by: int, first: int
) -> list[CounterSeries]:
    """Return counters `by` ticks later, numbered from `first`."""
    return [
        replace(
            series, id=first + i, lane=int(lanes[series.lane]), time=series.time + by
        )
        for i, series in enumerate(counters)
    ]


def moved_routing(routing: Routing, by: int, first_span: int | None) -> Routing:
    """Return choices `by` ticks later; their spans from `first_span`, None = none."""
    time = moved_ticks(routing.time, by)
    if first_span is None:
        span = np.full(len(routing), -1, np.int64)
    else:
        span = np.where(routing.span < 0, -1, routing.span + first_span)
    return replace(routing, time=time, span=span.astype(np.int64))


def joined_routing(a: Routing, b: Routing) -> Routing:
    """Return the choices of `a`, then those of `b`."""
    columns: dict[str, Array | None] = {}
    for f in fields(Routing):
        first, second = getattr(a, f.name), getattr(b, f.name)
        if f.name == "n_experts":
            continue
        if first is None and second is None:
            columns[f.name] = None
            continue
        # What one of them does not have is 0 or False there.
        dtype = (first if second is None else second).dtype
        first = np.zeros(len(a), dtype) if first is None else first
        second = np.zeros(len(b), dtype) if second is None else second
        columns[f.name] = np.concatenate([first, second])
    n_experts = max(a.n_experts, b.n_experts)
    return Routing(**columns, n_experts=n_experts)  # type: ignore[arg-type]


def moved_graph(graph: Graph, strings: Array, ops: Array, tensors: Array) -> Graph:
    """Return a graph with other string ids, op numbers and tensor rows."""
    return replace(
        graph,
        name=looked_up(strings, graph.name),
        operation=looked_up(strings, graph.operation),
        dtype=looked_up(strings, graph.dtype),
        op=looked_up(ops, graph.op).astype(np.int16),
        tensor=looked_up(tensors, graph.tensor).astype(np.int32),
    )


def joined_ops(
    a: OpTable | None, b: OpTable | None, used: Array
) -> tuple[OpTable | None, Array]:
    """Return a table that names the `used` ops of `b` too, and the numbers they have.

    The numbers of `a` stay; names that it lacks are put at its end. Where nothing is
    lacking the table is `a` itself. The second result is indexed by the numbers of
    `b`, int16; -1 for those that are not used.
    """
    wanted = np.unique(used[used >= 0]).tolist() if len(used) else []
    place = np.full(max(wanted, default=-1) + 1, -1, np.int16)
    if b is None or a is None or a.names == b.names:
        place[wanted] = wanted
        return a or b, place
    number = {name: i for i, name in reversed(list(enumerate(a.names))) if name}
    extra: list[str] = []
    for op in wanted:
        name = b.name(op)
        if name not in number:
            number[name] = len(a.names) + len(extra)
            extra.append(name)
        place[op] = number[name]
    return (replace(a, names=(*a.names, *extra)) if extra else a), place


def appended_lanes(
    lanes: Lanes,
    new: Sequence[Lane],
    *,
    label: str = "",
    merges: bool = False,
) -> tuple[Lanes, Array]:
    """Return all lanes, and the id that each of `new` has now.

    Parameters
    ----------
    label : first word of the groups of the new lanes, "" = none.
    merges : lanes that are the same in name, kind, group and attributes become one.
    """
    known = {_key(lane): lane.id for lane in lanes} if merges else {}
    result = list(lanes)
    place: list[int] = []
    for lane in new:
        at = known.get(_key(lane))
        if at is None:
            at = len(result)
            group = (label, *lane.group) if label else lane.group
            attributes = dict(lane.attributes)
            over = attributes.get("over", "")
            if over.isdecimal() and int(over) < len(place):
                attributes["over"] = str(place[int(over)])
            result.append(replace(lane, id=at, group=group, attributes=attributes))
        place.append(at)
    return Lanes.of(result), np.array(place, np.int32)


def _key(lane: Lane) -> tuple[object, ...]:
    return lane.name, lane.kind, lane.group, tuple(sorted(lane.attributes.items()))


def placed_warnings(
    warnings: Sequence[ReadWarning], name: str
) -> tuple[ReadWarning, ...]:
    """Return warnings whose place says which file they are of."""
    return tuple(
        replace(w, place=f"{name}: {w.place}" if w.place else name) for w in warnings
    )


def sorted_warnings(warnings: Sequence[ReadWarning]) -> tuple[ReadWarning, ...]:
    """Return warnings, worst first, else as they come."""
    return tuple(sorted(warnings, key=lambda w: -w.severity))


def name_of(trace: Trace) -> str:
    """Return what people call the file of a trace; see `part_name`."""
    return part_name(trace.info)


def part_name(info: TraceInfo) -> str:
    """Return a file's name, with its folder where that tells twins apart.

    Traces and graphs of an experiment are all called ``token-00000.json``.
    """
    if not info.paths:
        return info.format
    path = info.paths[0]
    inner = path.parent.name in ("traces", "graphs")
    return f"{path.parent.name}/{path.name}" if inner else path.name


def frozen(trace: Trace) -> Trace:
    """Mark every array of a trace read-only; return it."""
    tables = (trace.spans, trace.markers, trace.accesses, trace.flows, trace.tensors)
    for table in (*tables, trace.buffers, trace.routing):
        freeze(table)
    claims = () if trace.claims is None else (trace.claims,)
    for part in (*trace.counters, *trace.graphs, *claims):
        freeze(part)
    return trace


@dataclass(frozen=True, slots=True)
class JoinedRecords:
    """Records of several files under one numbering.

    Attributes
    ----------
    first : number of the first record of each file, ascending.
    parts : their own access; None where a file gives none.
    """

    first: tuple[int, ...]
    parts: tuple[RecordAccess | None, ...]

    def view(self, record: int) -> RecordView:
        """Return record `record`. Raises ReadError where it is gone."""
        part = int(np.searchsorted(self.first, record, side="right")) - 1
        access = self.parts[part] if 0 <= part < len(self.parts) else None
        if access is None:
            raise ReadError("this part of the session gives no single records.")
        return access.view(record - self.first[part])
