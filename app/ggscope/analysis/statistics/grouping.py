"""What spans can be grouped by: a small number per span, and what it is called."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.reads.file_blocks import scaled
from ggscope.analysis.reads.op_io import (
    AccessTable,
    Choosing,
    Knowledge,
    choosing,
    is_repeated,
    loose_bytes,
    op_accesses,
)
from ggscope.analysis.reads.weights import NO_WEIGHT, NOT_RECORDED, attributed
from ggscope.analysis.rows.tracks import lanes_where
from ggscope.model.ggml.ops import FAMILIES, family_of
from ggscope.model.ggml.types import type_name
from ggscope.model.names import NameShape, shapes_of
from ggscope.model.selection import By
from ggscope.model.tables import (
    I64,
    AccessColumns,
    Array,
    Column,
    Phase,
    Space,
    Spans,
    distinct,
    looked_up,
    ranges,
    schema_of,
)
from ggscope.model.tokens import tokens_of
from ggscope.model.trace import Lanes, Trace, lane_titles

NONE = "none"
"""Label of the spans that have no layer, token, phase or expert."""
NO_WEIGHT_LABEL = "no weight"
NOT_RECORDED_LABEL = "not recorded"
OPEN_LABEL = "unknown"
"""Label of what is read of experts that no list names, and of unknown cores."""

WITHOUT_OPS = ("lane", "engine", "category")
"""Groupings in which spans that are no op count too."""
_SOME_ROWS = 100_000
_MAX_DENSE = 1 << 18
"""Up to this many numbers get a group each; beyond, only those that occur."""
_OF_CORES = ("core", "numa")
"""Groupings in which the threads of one op may be in several groups."""


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """Spans with their groups; a span may occur several times or not at all.

    Attributes
    ----------
    span : int64[m], positions in the rows that were asked for; None = each once.
    group : int64[m].
    bytes : int64[m], known bytes that the span accesses for that group; of an op that
        several spans compute, with one of them.
    unknown : int64[m], bytes that it may access besides, at most.
    share : of the span's time that belongs to that group; None = all of it.
    """

    span: Array | None
    group: I64
    bytes: I64
    unknown: I64
    share: "Share | None" = None

    def place(self, n: int) -> I64:
        """Return the group of each of `n` spans, -1 = none; each has one at most."""
        if self.span is None:
            return self.group
        groups = np.full(n, -1, np.int64)
        groups[self.span] = self.group
        return groups


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """Parts of wholes: from ``before / whole`` to ``after / whole``, int64[m] each."""

    before: I64
    after: I64
    whole: I64

    def of(self, values: I64) -> I64:
        """Return each part of a value; the parts of one value add up to it."""
        after = scaled(self.after, values, self.whole)
        return after - scaled(self.before, values, self.whole)


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """A grouping as plain arrays, for the compiled scan.

    Attributes
    ----------
    column : of the spans; None where all of them are in group 0.
    low, table : the group of column value v is ``table[v - low]``, int32; a value
        outside of the table, or -1 in it, is in no group.
    sizes : the bytes that spans access.
    """

    column: Array | None
    low: int
    table: npt.NDArray[np.int32]
    sizes: "SpanBytes"


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """How spans are shared out among groups, for the compiled scan.

    Attributes
    ----------
    first : int64[n_entries + 2], spans of entry e of the `AccessTable` have the parts
        ``first[e] : first[e + 1]``; the last entry is for spans without one.
    group, known, unknown : int64[m], of each part, with its bytes.
    share : of the parts.
    sizes : the bytes that spans access.
    """

    first: I64
    group: I64
    known: I64
    unknown: I64
    share: Share
    sizes: "SpanBytes"


class Grouping:
    """Groups 0..n-1, their labels, and how to find those of given spans.

    Parameters
    ----------
    n : number of groups.
    label : name of a group.
    of : takes span ids int64[k], ascending.
    lookup : the same where each span is in one group at most and a table has
        which; else None.
    split : the same where spans are shared out by what they access; else None.
    shares_ops : whether groups are threads, or cores of threads, that compute ops
        together: then which part of an op's bytes is whose is not known.
    is_of_lanes : whether groups are lanes, where each span is of an op of its own.
    """

    def __init__(
        self,
        n: int,
        label: Callable[[int], str],
        of: Callable[[Array], Grouped],
        lookup: Lookup | None = None,
        *,
        split: Split | None = None,
        shares_ops: bool = False,
        is_of_lanes: bool = False,
    ) -> None:
        self._n = n
        self.split = split
        self.label = label
        self.of = of
        self.lookup = lookup
        self.shares_ops = shares_ops
        self.is_of_lanes = is_of_lanes

    def __len__(self) -> int:
        return self._n


def has_groups(trace: Trace, by: By) -> bool:
    """Tell whether spans can be grouped by something that the trace knows."""
    spans, lanes = trace.spans, trace.lanes
    has_ops = trace.ops is not None or bool((spans.op[:_SOME_ROWS] >= 0).any())
    if by in ("op", "family", "name"):
        return has_ops
    if by == "thread":
        return has_ops and bool(lanes.is_thread.any())
    if by == "engine":
        return bool(lanes.is_engine.any())
    if by == "backend":
        return has_ops and len(lanes.groups) > 1
    if by == "tensor":
        return has_ops and len(trace.tensors) > 0
    if by in ("type", "shape"):
        return has_ops and getattr(trace.tensors, by) is not None
    if by == "source":
        return has_ops and len(trace.accesses.patterns.space) > 0
    if by == "expert":
        names_experts = len(trace.routing) > 0 or bool(
            (trace.tensors.expert >= 0).any()
        )
        return has_ops and names_experts
    if by in ("layer", "token", "phase"):
        return has_ops and getattr(spans, by) is not None
    return by == "lane" or getattr(spans, by) is not None


def grouping(trace: Trace, by: str) -> Grouping:
    """Return the groups that `by` names (see ``model.selection.By``).

    Raises
    ------
    ValueError
        If `by` is unknown.
    """
    s = trace.spans
    if by == "op":
        n = int(s.op.max(initial=-1)) + 1
        names = [trace.op_name(i) for i in range(n)]
        return _by_table(trace, s.op, np.arange(n), names)
    if by == "family":
        n = int(s.op.max(initial=-1)) + 1
        family = [FAMILIES.index(family_of(trace.op_name(i))) for i in range(n)]
        return _by_table(trace, s.op, np.array(family, np.int64), FAMILIES)
    if by in ("thread", "engine", "lane"):
        return _by_lane(trace, by)
    if by == "phase":
        return _by_number(trace, s.phase, lambda i: Phase(i).name.lower())
    if by == "token":
        tokens = tokens_of(trace)
        return _by_number(trace, tokens.key, tokens.text)
    if by == "name":
        return _by_name(trace)
    if by == "backend":
        return _by_backend(trace)
    if by == "tensor":
        return _by_weight(trace, _tensor_names(trace))
    if by in ("type", "shape"):
        return _by_weight(trace, _tensor_kinds(trace, by))
    if by == "source":
        return _by_source(trace)
    if by == "expert":
        return _by_expert(trace)
    column = schema_of(Spans).get(by)
    if column is not None and column.label:
        none = OPEN_LABEL if column.is_rare else NONE
        label = _label_of(column)
        if column.of == "strings":
            label = trace.strings.__getitem__
        by_number = _by_number(trace, getattr(s, by), label, none)
        if by in _OF_CORES and op_accesses(trace).n_repeated:
            places = getattr(s, by)
            by_number.shares_ops = (
                places is not None and len(distinct(places[s.op >= 0])) > 1
            )
        return by_number
    raise ValueError(f"cannot group by {by!r}")


def _label_of(column: Column) -> Callable[[int], str]:
    """Return what makes the name of a group from the number in a column."""
    code = column.code
    return str if code is None else lambda value: (code(value).name or "").lower()


def _by_table(
    trace: Trace, column: Array, table: I64, labels: Sequence[str]
) -> Grouping:
    """Group by ``table[column]``; -1 in the column or the table leaves a span out."""
    padded = np.append(table, -1)
    sizes = SpanBytes(trace)
    lookup = Lookup(column, 0, table.astype(np.int32), sizes)

    def of(ids: Array) -> Grouped:
        group = padded[column[ids]]
        if len(group) == 0 or group.min() >= 0:
            return Grouped(None, group, *sizes.of(ids))
        members = np.flatnonzero(group >= 0)
        return Grouped(members, group[members], *sizes.of(ids[members]))

    return Grouping(len(labels), lambda g: labels[g], of, lookup)


def _by_lane(trace: Trace, by: str) -> Grouping:
    lanes = trace.lanes
    table = np.where(lanes_grouped_by(lanes, by), np.arange(len(lanes)), -1)
    grouping = _by_table(trace, trace.spans.lane, table, lane_titles(lanes))
    grouping.shares_ops = op_accesses(trace).n_repeated > 0
    grouping.is_of_lanes = True
    return grouping


def lanes_grouped_by(lanes: Lanes, by: str) -> npt.NDArray[np.bool_]:
    """Return which lanes are groups by "lane" (all), "thread" or "engine", bool[n]."""
    return lanes_where(lanes, lambda spec: by in ("lane", spec.id))


def _by_number(
    trace: Trace, column: Array | None, label: Callable[[int], str], none: str = NONE
) -> Grouping:
    """Group by a column of numbers, where -1 is a group of its own, called `none`."""
    sizes = SpanBytes(trace)
    if column is None or not len(column):
        return Grouping(
            1,
            lambda _: none,
            lambda ids: Grouped(None, np.zeros(len(ids), np.int64), *sizes.of(ids)),
            Lookup(None, 0, np.zeros(1, np.int32), sizes),
        )
    low, high = int(column.min()), int(column.max())
    values = distinct(column) if high - low >= _MAX_DENSE else None

    def of(ids: Array) -> Grouped:
        part = column[ids]
        if values is None:
            group = part.astype(np.int64) - low
        else:
            group = np.searchsorted(values, part).astype(np.int64)
        return Grouped(None, group, *sizes.of(ids))

    def name(group: int) -> str:
        value = low + group if values is None else int(values[group])
        return none if value < 0 else label(value)

    if values is not None:
        return Grouping(len(values), name, of)
    n = high - low + 1
    lookup = Lookup(column, low, np.arange(n, dtype=np.int32), sizes)
    return Grouping(n, name, of, lookup)


def _by_name(trace: Trace) -> Grouping:
    """Group by what spans compute, alike in all layers: ``Qcur-*``."""
    column, sizes = trace.spans.name, SpanBytes(trace)
    used = distinct(column)
    used = used[used >= 0].astype(np.int64)
    names = [trace.strings[int(i)] for i in used.tolist()]
    shapes, which = shapes_of(names)
    groups: dict[str, int] = {}
    table = np.full(int(used.max(initial=-1)) + 2, -1, np.int32)
    for i, name, shape in zip(used.tolist(), names, which.tolist(), strict=True):
        label = without_layer(name, shapes[shape])
        table[i + 1] = groups.setdefault(label, len(groups))
    table[0] = groups.setdefault(NONE, len(groups))
    labels = list(groups)
    group_of = table.astype(np.int64)

    def of(ids: Array) -> Grouped:
        return Grouped(None, group_of[column[ids].astype(np.int64) + 1], *sizes.of(ids))

    return Grouping(
        len(labels), lambda g: labels[g], of, Lookup(column, -1, table, sizes)
    )


def without_layer(name: str, shape: NameShape) -> str:
    """Return the base of a name with * in place of the layer's number."""
    begin, end = shape.layer
    if begin == end:
        return name[shape.begin : shape.end] or NONE
    return f"{name[shape.begin : begin]}*{name[end : shape.end]}"


def _by_backend(trace: Trace) -> Grouping:
    """Group threads and engines by what encloses them, as ``Backend 1``."""
    lanes = trace.lanes
    is_used = lanes.is_thread | lanes.is_engine
    titles = [" / ".join(group) or NONE for group in lanes.groups]
    table = np.where(is_used, lanes.group, -1).astype(np.int64)
    return _by_table(trace, trace.spans.lane, table, titles)


def tensor_groups(trace: Trace) -> Grouping:
    """Return a group per row of ``Trace.tensors``: the weight that a span reads.

    Two more follow: spans that read no weight, and those of which that is not recorded.
    """
    n = len(trace.tensors)
    return _by_weight(trace, ([str(i) for i in range(n)], np.arange(n)))


def _tensor_names(trace: Trace) -> tuple[list[str], I64]:
    """Return the names of tensors, and which of them each tensor has."""
    used, place = np.unique(trace.tensors.name.astype(np.int64), return_inverse=True)
    return [trace.strings[int(i)] if i >= 0 else NONE for i in used], place


def _tensor_kinds(trace: Trace, by: str) -> tuple[list[str], I64]:
    """Return the types, or shapes, of tensors, and which of them each tensor has."""
    tensors = trace.tensors
    n = len(tensors)
    if by == "type":
        column = np.full(n, -1) if tensors.type is None else tensors.type
        used, place = np.unique(column.astype(np.int64), return_inverse=True)
        return [type_name(i) or OPEN_LABEL for i in used.tolist()], place
    shape = np.zeros((n, 4), np.int64) if tensors.shape is None else tensors.shape
    rows, place = np.unique(shape, axis=0, return_inverse=True)
    labels = []
    for row in rows.tolist():
        sizes = row[: max((i + 1 for i, ne in enumerate(row) if ne != 1), default=1)]
        is_known = all(ne > 0 for ne in row)
        labels.append("×".join(map(str, sizes)) if is_known else OPEN_LABEL)
    return labels, place.reshape(-1)


def _by_weight(trace: Trace, labelled: tuple[list[str], I64]) -> Grouping:
    """Group by the weight that spans read: each is in one group, see ``weights``.

    Parameters
    ----------
    labelled : labels, and which of them each tensor has.
    """
    column, sizes = attributed(trace), SpanBytes(trace)
    texts, place = labelled
    labels = [*texts, NO_WEIGHT_LABEL, NOT_RECORDED_LABEL]
    table = np.append([len(texts) + 1, len(texts)], place).astype(np.int32)
    assert (NOT_RECORDED, NO_WEIGHT) == (-2, -1)
    groups = table.astype(np.int64)

    def of(ids: Array) -> Grouped:
        return Grouped(None, groups[column[ids] - NOT_RECORDED], *sizes.of(ids))

    lookup = Lookup(column, NOT_RECORDED, table, sizes)
    return Grouping(len(labels), lambda g: labels[g], of, lookup)


def _by_source(trace: Trace) -> Grouping:
    """Group by where the bytes live; a span counts once per source."""

    def source(what: AccessColumns) -> I64:
        return what.space.astype(np.int64)

    table = op_accesses(trace)
    group = np.where(table.is_access, source(table.what), -1)
    rows = _AccessRows.of_table(table, group)
    loose = LooseBytes(trace, source(trace.accesses.loose.what))
    labels = [space.word for space in Space]
    split = None
    if not len(loose.span):
        one = np.ones(len(rows.group), np.int64)
        first = np.append(rows.first, rows.first[-1])
        whole = Share(one * 0, one, one)
        split = Split(
            first, rows.group, rows.known, rows.unknown, whole, SpanBytes(trace)
        )

    def of(ids: Array) -> Grouped:
        span, row = rows.of(ids)
        place, extra = loose.of(ids)
        known, unknown = rows.sizes(ids, span, row)
        return Grouped(
            np.concatenate([span, place]),
            np.concatenate([rows.group[row], loose.group[extra]]),
            np.concatenate([known, loose.size[extra]]),
            np.concatenate([unknown, np.zeros(len(extra), np.int64)]),
        )

    return Grouping(len(labels), lambda g: labels[g], of, split=split)


def _by_expert(trace: Trace) -> Grouping:
    """Group by expert; a span's time is shared out among those that it reads.

    In proportion to the bytes, or evenly where one of them is not known. Then come
    spans without experts, and what is read of experts that no list names.

    Where experts were chosen from a stack of which nobody says how many it holds, ops
    count with those that were chosen, and the bytes are unknown.
    """
    table, choices = op_accesses(trace), choosing(trace)
    of_tensor = np.append(trace.tensors.expert, -1).astype(np.int64)

    def expert_of(what: AccessColumns) -> I64:
        recorded = what.expert.astype(np.int64)
        return np.where(recorded >= 0, recorded, of_tensor[what.tensor])

    expert = expert_of(table.what)
    loose = LooseBytes(trace, expert_of(trace.accesses.loose.what))
    n = 1 + max(
        int(expert.max(initial=-1)),
        int(loose.group.max(initial=-1)),
        int(choices.expert.max(initial=-1)),
    )
    is_open = table.is_stack & (table.unknown > 0)
    group = np.where(is_open, n + 1, expert)
    rows = _AccessRows.of_table(table, np.where(table.is_access, group, -1))
    share, sizes = _shares(rows.first, rows.known + rows.unknown), SpanBytes(trace)
    names_experts = np.zeros(len(table) + 1, np.bool_)
    names_experts[table.owner[(expert >= 0) & table.is_access]] = True
    unsized = _UnsizedChoices(choices, names_experts, table, n + 1)

    def of(ids: Array) -> Grouped:
        span, row = rows.of(ids)
        chosen = unsized.of(ids)
        is_kept = ~chosen.is_one[span]
        apart = rows.sizes(ids, span[~is_kept], row[~is_kept])
        unsure = np.zeros(len(ids), np.int64)
        np.add.at(unsure, span[~is_kept], apart[0] + apart[1])
        span, row = span[is_kept], row[is_kept]
        place, extra = loose.of(ids)
        # Of the spans without a pattern.
        is_free = ~chosen.is_one
        is_free[span] = False
        place, extra = place[is_free[place]], extra[is_free[place]]
        begin = np.searchsorted(place, np.arange(len(ids) + 1))
        alone = _shares(begin, loose.size[extra])
        is_free[place] = False
        rest = np.flatnonzero(is_free)
        one, none = np.ones(len(rest), np.int64), np.zeros(len(rest), np.int64)
        known, unknown = rows.sizes(ids, span, row)
        of_rest = sizes.of(ids[rest])
        whole, before = chosen.whole, chosen.before
        size = unsure[chosen.span]
        part = scaled(before + 1, size, whole) - scaled(before, size, whole)
        return Grouped(
            np.concatenate([span, place, rest, chosen.span]),
            np.concatenate(
                [rows.group[row], loose.group[extra], one * n, chosen.group]
            ),
            np.concatenate([known, loose.size[extra], of_rest[0], part * 0]),
            np.concatenate([unknown, np.zeros(len(extra), np.int64), of_rest[1], part]),
            Share(
                np.concatenate([share.before[row], alone.before, none, before]),
                np.concatenate([share.after[row], alone.after, one, before + 1]),
                np.concatenate([share.whole[row], alone.whole, one, whole]),
            ),
        )

    labels = {n: NONE, n + 1: OPEN_LABEL}
    split = None
    if not len(loose.span) and not unsized.has_any:
        split = _with_rest(rows, share, n, sizes)
    return Grouping(n + 2, lambda g: labels.get(g, str(g)), of, split=split)


def _with_rest(
    rows: "_AccessRows", share: Share, rest: int, sizes: "SpanBytes"
) -> Split:
    """Return the rows as parts; entries without one belong to the group `rest`."""
    n = np.append(np.diff(rows.first), 0)
    empty_entries = np.flatnonzero(n == 0)
    at = np.append(rows.first, rows.first[-1])[empty_entries]
    one = np.ones(len(at), np.int64)
    known, unknown = sizes.per_entry, sizes.unknown_per_entry
    columns = (
        (rows.group, one * rest),
        (rows.known, known[empty_entries]),
        (rows.unknown, unknown[empty_entries]),
        (share.before, one * 0),
        (share.after, one),
        (share.whole, one),
    )
    group, counts, more, *parts = (np.insert(a, at, b) for a, b in columns)
    first = np.concatenate([[0], np.cumsum(np.maximum(n, 1))]).astype(np.int64)
    return Split(first, group, counts, more, Share(*parts), sizes)


@dataclass(frozen=True, slots=True, eq=False)
class _Chosen:
    """Spans of `_UnsizedChoices`, one row for each expert of each.

    is_one : bool[n_ids], whether the span is such a one.
    span : positions in the ids; group, before, whole : int64[m], which expert, and the
        how many-th of how many of its span.
    """

    is_one: npt.NDArray[np.bool_]
    span: I64
    group: I64
    before: I64
    whole: I64


@dataclass(frozen=True, slots=True, eq=False)
class _UnsizedChoices:
    """Choices from stacks whose slices nobody knows: they have no rows of their own.

    names_experts : bool[n_entries + 1], entries whose rows are of single experts.
    open_group : group of experts that no list names.
    """

    choices: Choosing
    names_experts: npt.NDArray[np.bool_]
    access_table: AccessTable
    open_group: int

    @property
    def has_any(self) -> bool:
        """Whether there may be such spans."""
        spans = self.choices.spans
        if not len(spans) or not len(self.choices.more):
            return False
        is_one = self.choices.choice >= 0
        return bool(
            (is_one & ~self.names_experts[self.access_table.entries(spans)]).any()
        )

    def of(self, ids: Array) -> _Chosen:
        """Return the experts that some spans chose."""
        c = self.choices
        is_one = np.zeros(len(ids), np.bool_)
        none = np.zeros(0, np.int64)
        if not len(c.spans) or not len(c.more):
            return _Chosen(is_one, none, none, none, none)
        choice = looked_up(c.spans, c.choice, ids)
        is_one = (choice >= 0) & ~self.names_experts[self.access_table.entries(ids)]
        places = np.flatnonzero(is_one)
        choice = choice[places]
        listed = c.first[choice + 1] - c.first[choice]
        n = listed + (c.more[choice] != 0)
        span = np.repeat(places, n)
        before = ranges(0, n)
        is_listed = before < np.repeat(listed, n)
        row = np.repeat(c.first[choice], n) + before
        row = np.where(is_listed, row, 0)
        group = np.where(is_listed, c.expert[row], self.open_group)
        return _Chosen(is_one, span, group, before, np.repeat(n, n))


def _shares(first: I64, size: I64) -> Share:
    """Return the share of each row of its run ``first[i] : first[i + 1]``."""
    n = np.diff(first)
    known = np.add.reduceat(np.append(size > 0, False), first[:-1]) if len(n) else n
    is_even = np.repeat(np.where(n > 0, known, 0) < n, n)
    part = np.where(is_even, 1, size).astype(np.int64)
    total = np.concatenate([[0], np.cumsum(part)]).astype(np.int64)
    begin = np.repeat(total[first[:-1]], n)
    whole = np.repeat(total[first[1:]] - total[first[:-1]], n)
    return Share(total[:-1] - begin, total[1:] - begin, whole)


@dataclass(frozen=True, slots=True, eq=False)
class _AccessRows:
    """Rows of groups per entry: ``first[e] : first[e + 1]`` are those of entry e.

    group : int64[m], distinct for an entry; known, unknown : int64[m], their bytes.
    """

    access_table: AccessTable
    first: I64
    group: I64
    known: I64
    unknown: I64

    @staticmethod
    def of_table(table: AccessTable, group: Array) -> "_AccessRows":
        """Return the distinct groups of each entry; -1 leaves a row out."""
        rows = np.flatnonzero(group >= 0)
        owner, group = table.owner[rows], group[rows].astype(np.int64)
        order = np.lexsort((group, owner))
        owner, group, rows = owner[order], group[order], rows[order]
        begin = np.flatnonzero(_is_new(owner, group))
        sums = [
            np.add.reduceat(values[rows], begin) if len(begin) else values[rows]
            for values in (table.known, table.unknown)
        ]
        first = np.searchsorted(owner[begin], np.arange(len(table) + 1))
        return _AccessRows(table, first.astype(np.int64), group[begin], *sums)

    def of(self, ids: Array) -> tuple[Array, Array]:
        """Return (positions in `ids`, rows), one entry for each row of each span."""
        counts = np.append(np.diff(self.first), 0)
        p = self.access_table.entries(ids)
        n = counts[p]
        return np.repeat(np.arange(len(ids)), n), ranges(self.first[p], n)

    def sizes(self, ids: Array, span: Array, row: Array) -> tuple[I64, I64]:
        """Return known and unknown bytes of what `of` found; each op's once."""
        is_own = (self.access_table.counted_entries(ids) >= 0)[span]
        return (
            np.where(is_own, self.known[row], 0).astype(np.int64),
            np.where(is_own, self.unknown[row], 0).astype(np.int64),
        )


class LooseBytes:
    """Accesses that are no pattern but name their span, one row per span and group.

    Attributes
    ----------
    span : int64[m], ascending.
    group : int64[m].
    size : int64[m], known bytes.
    """

    def __init__(self, trace: Trace, group: I64) -> None:
        loose = trace.accesses.loose
        rows = np.flatnonzero((loose.span >= 0) & (group >= 0))
        span, group = loose.span[rows], group[rows]
        order = np.lexsort((group, span))
        span, group = span[order], group[order]
        size = loose_bytes(trace)[0][rows][order]
        begin = np.flatnonzero(_is_new(span, group))
        self.span, self.group = span[begin], group[begin]
        self.size = np.add.reduceat(size, begin) if len(begin) else size

    def of(self, ids: Array) -> tuple[Array, Array]:
        """Return (positions in `ids`, rows) of what spans `ids` (ascending) access."""
        if not len(self.span) or not len(ids):
            nothing = np.zeros(0, np.int64)
            return nothing, nothing
        low, high = np.searchsorted(self.span, (ids[0], ids[-1] + 1))
        rows = np.arange(low, high)
        place = np.searchsorted(ids, self.span[rows])
        is_member = ids[place] == self.span[rows]
        return place[is_member], rows[is_member]


def _is_new(a: Array, b: Array) -> npt.NDArray[np.bool_]:
    """Tell of each row of a sorted pair of columns whether it differs from the last."""
    result = np.ones(len(a), np.bool_)
    result[1:] = (a[1:] != a[:-1]) | (b[1:] != b[:-1])
    return result


class SpanBytes:
    """Bytes that spans access; of an op that several compute, with one of them.

    Attributes
    ----------
    column : entry of the `AccessTable` of each span.
    per_entry, unknown_per_entry : int64[n_entries + 1], known bytes, and those that
        may be accessed besides; the last one, 0, is for "no accesses".
    is_open : bool[n_entries + 1], whether the bytes of an entry are not all known.
    loose : what spans access besides.
    """

    def __init__(self, trace: Trace) -> None:
        self._access_table = table = op_accesses(trace)
        self.column = table.column
        self.per_entry: I64 = np.append(table.per_entry(table.known), 0)
        self.unknown_per_entry: I64 = np.append(table.per_entry(table.unknown), 0)
        is_open = table.is_access & (table.knowledge != Knowledge.KNOWN)
        n_open = table.per_entry(is_open.astype(np.int64))
        self.is_open = np.append((n_open > 0) | (np.diff(table.first) == 0), True)
        self.loose = LooseBytes(trace, np.zeros(len(trace.accesses.loose), np.int64))
        self._lane, self._is_engine = (
            trace.spans.lane,
            trace.lanes.is_engine,
        )

    def of(self, ids: Array) -> tuple[I64, I64]:
        """Return known and unknown bytes, int64[len(ids)] each; `ids` ascend."""
        entry = self._access_table.counted_entries(ids)
        size: I64 = self.per_entry[entry]
        place, rows = self.loose.of(ids)
        size[place] += self.loose.size[rows]
        return size, self.unknown_per_entry[entry]

    def open_of(self, ids: Array) -> npt.NDArray[np.bool_]:
        """Return of which spans the bytes are not all known, bool[len(ids)]."""
        is_open = self.is_open[self._access_table.entries(ids)]
        place = self.loose.of(ids)[0]
        is_open[place] = self._open_with_loose(ids[place])
        return is_open

    def opened_by_loose(self, ids: Array) -> I64:
        """Return how loose accesses change whether ops are open: 1, 0 or -1 for each.

        0 for spans whose ops are counted with another span.
        """
        before = self.is_open[self._access_table.entries(ids)].astype(np.int64)
        change = self._open_with_loose(ids) - before
        return np.where(is_repeated(self._access_table.flags[ids]), 0, change)

    def _open_with_loose(self, ids: Array) -> npt.NDArray[np.bool_]:
        """Tell of spans with loose accesses whether not all of their bytes are known.

        What a file states itself may be a part of what an op moves; transfers of
        engines are nothing else.
        """
        entry = self._access_table.entries(ids)
        is_open = self.is_open[entry] & (entry >= 0)
        return is_open | ~self._is_engine[self._lane[ids]]
