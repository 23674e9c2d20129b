"""Tables of one trace in the numbers of another: strings, lanes, ops, ticks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ggscope.errors import ReadError
from ggscope.model.routing import Routing
from ggscope.model.tables import (
    I64,
    Array,
    CounterSeries,
    Markers,
    StringTable,
    distinct,
    schema_of,
    stacked,
)
from ggscope.model.tensors import Buffers, Place, SizeSource, Tensors
from ggscope.model.trace import (
    Lane,
    Lanes,
    OpTable,
    ReadWarning,
    RecordAccess,
    RecordView,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T", bound="DataclassInstance")
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

    What is known from accesses alone is marked as traced.
    """
    full = tensors.full()
    if tensors.place is None and full.place is not None:
        full.place[tensors.offset >= 0] = Place.TRACED
    if tensors.size_source is None and full.size_source is not None:
        full.size_source[tensors.size >= 0] = SizeSource.TRACED
    return full


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """How ids of one trace are translated into those of another.

    Attributes
    ----------
    places : what each number of the old trace is in the new one, by the `Column.of`
        of the columns that hold such numbers; others stay.
    ticks : added to every time.
    first_span, first_record : added to numbers of spans and records; None = in the
        new trace none of them means anything.
    """

    places: Mapping[str, Array] = field(default_factory=dict)
    ticks: int = 0
    first_span: int | None = None
    first_record: int | None = None

    def of(self, table: _T) -> _T:
        """Return a table with its numbers and times moved, as its schema says."""
        moved: dict[str, Any] = {}
        for name, column in schema_of(type(table)).items():
            values = getattr(table, name)
            if column.of == "records":
                moved[name] = _shifted(record_numbers(table), self.first_record)
            elif values is None:
                continue
            elif column.of == "spans":
                moved[name] = _shifted(values, self.first_span)
            elif column.unit == "ticks" and not column.is_length:
                keeps = column.null == _NEVER
                by = self.ticks
                moved[name] = moved_ticks(values, by) if keeps else values + by
            elif len(numbers := self.places.get(column.of, ())):
                targets = looked_up(np.asarray(numbers), values)
                moved[name] = targets.astype(column.dtype, copy=False)
        return replace(table, **moved)


def _shifted(numbers: Array, by: int | None) -> I64:
    """Return numbers `by` more; -1 stays, and None makes all of them -1."""
    if by is None:
        return np.full(len(numbers), -1, np.int64)
    return np.where(numbers < 0, -1, numbers.astype(np.int64) + by)


def record_numbers(table: Any) -> Array:
    """Return the number of each row's record, also where it is the row's own."""
    record: Array | None = table.record
    return np.arange(len(table)) if record is None else record


def moved_ticks(ticks: I64, by: int) -> I64:
    """Return ticks `by` later; -1 stays, for it means "never" or "not known".

    A time that would become -1 by the move becomes one tick less.
    """
    moved = np.where(ticks == _NEVER, _NEVER, ticks + by)
    moved[(ticks != _NEVER) & (moved == _NEVER)] = _JUST_BEFORE
    return moved.astype(np.int64)


def joined_buffers(a: Buffers, b: Buffers) -> tuple[Buffers, Array]:
    """Return one table of both, and the row in it of every row of `b`.

    The rows of `a` keep their numbers. Where `a` knows a buffer by its address only,
    what `b` says about it is filled in: of several lives of that address the last one
    that began before tick 0, else the first.
    """
    n = len(a)
    place = np.full(len(b), -1, np.int64)
    columns = {f.name: getattr(a.full(), f.name).copy() for f in fields(Buffers)}
    b = b.full()
    bare = np.flatnonzero((a.allocated == _NEVER) & (a.size < 0) & (a.address != 0))
    for row in bare.tolist():  # a handful: buffers that accesses name
        lives = np.flatnonzero((b.address == a.address[row]) & (place < 0))
        if not len(lives):
            continue
        early = lives[b.allocated[lives] <= 0]
        life = int(early[-1] if len(early) else lives[0])
        place[life] = row
        for name, column in columns.items():
            column[row] = getattr(b, name)[life]
    fresh = np.flatnonzero(place < 0)
    place[fresh] = n + np.arange(len(fresh))
    return stacked(Buffers(**columns), b.take(fresh)), place


def joined_markers(a: Markers, b: Markers) -> Markers:
    """Return the markers of `a`, then those of `b`."""
    return stacked(replace(a, record=record_numbers(a)), b) if len(b) else a


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


def joined_routing(a: Routing, b: Routing) -> Routing:
    """Return the choices of `a`, then those of `b`."""
    n_experts = max(a.n_experts, b.n_experts)
    sizes = dict(b.expert_bytes) | dict(a.expert_bytes)
    return replace(
        stacked(a, b), n_experts=n_experts, expert_bytes=tuple(sorted(sizes.items()))
    )


def joined_ops(
    a: OpTable | None, b: OpTable | None, used: Array
) -> tuple[OpTable | None, Array]:
    """Return a table that names the `used` ops of `b` too, and the numbers they have.

    The numbers of `a` stay; names that it lacks are put at its end. Where nothing is
    lacking the table is `a` itself. The second result is indexed by the numbers of
    `b`, int16; -1 for those that are not used.
    """
    codes = distinct(used[used >= 0]).tolist() if len(used) else []
    place = np.full(max(codes, default=-1) + 1, -1, np.int16)
    if b is None or a is None or a.names == b.names:
        place[codes] = codes
        return a or b, place
    number = {name: i for i, name in reversed(list(enumerate(a.names))) if name}
    extra: list[str] = []
    for op in codes:
        name = b.name(op)
        if name not in number:
            number[name] = len(a.names) + len(extra)
            extra.append(name)
        place[op] = number[name]
    return (replace(a, names=(*a.names, *extra)) if extra else a), place


def appended_lanes(
    lanes: Lanes, new: Sequence[Lane], *, label: str = "", merges: bool = False
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
        replace(w, place=f"{name}: {w.place}" if w.place else name, file=w.file or name)
        for w in warnings
    )


def sorted_warnings(warnings: Sequence[ReadWarning]) -> tuple[ReadWarning, ...]:
    """Return warnings, worst first, else as they come."""
    return tuple(sorted(warnings, key=lambda w: -w.severity))


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
