"""What spans can be grouped by: a small number per span, and what it is called."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.file_map import file_map
from ggscope.analysis.heatmap_touches import Track, span_variants
from ggscope.analysis.unit_reads import scaled
from ggscope.analysis.weights import NO_WEIGHT, NOT_RECORDED, booked_on
from ggscope.model.ggml import FAMILIES, family_of
from ggscope.model.lanes import LaneKind, lane_titles
from ggscope.model.tables import I64, AccessColumns, Array, Phase, Space
from ggscope.model.tokens import tokens_of
from ggscope.model.trace import Trace

NONE = "none"
"""Label of the spans that have no layer, token, phase or expert."""
NO_WEIGHT_LABEL = "no weight"
NOT_RECORDED_LABEL = "not recorded"

_MAX_DENSE = 1 << 18
"""Up to this many numbers get a group each; beyond, only those that occur."""
_SPACES = {
    Space.FILE: "DISK",
    Space.BUFFER: "BUFFER",
    Space.DRAM: "DRAM",
    Space.SPM: "SPM",
    Space.UNKNOWN: "unknown",
}


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """Spans with their groups; a span may occur several times or not at all.

    Attributes
    ----------
    span : int64[m], positions in the rows that were asked for; None = each once.
    group : int64[m].
    bytes : int64[m], known bytes that the span accesses for that group.
    share : of the span's time that belongs to that group; None = all of it.
    """

    span: Array | None
    group: I64
    bytes: I64
    share: "Share | None" = None


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """Parts of wholes: from ``before / whole`` to ``upto / whole``, int64[m] each."""

    before: I64
    upto: I64
    whole: I64

    def of(self, values: I64) -> I64:
        """Return each part of a value; the parts of one value add up to it."""
        upto = scaled(self.upto, values, self.whole)
        return upto - scaled(self.before, values, self.whole)


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


class Grouping:
    """Groups 0..n-1, their labels, and how to find those of given spans.

    Parameters
    ----------
    n : number of groups.
    label : name of a group.
    of : takes span ids int64[k], ascending.
    lookup : the same where each span is in one group at most and a table tells
        which; else None.
    """

    def __init__(
        self,
        n: int,
        label: Callable[[int], str],
        of: Callable[[Array], Grouped],
        lookup: Lookup | None = None,
    ) -> None:
        self._n = n
        self.label = label
        self.of = of
        self.lookup = lookup

    def __len__(self) -> int:
        return self._n


def grouping(trace: Trace, by: str) -> Grouping:
    """Return the groups that `by` names (see ``stats.By``).

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
    if by == "layer":
        return _by_number(trace, s.layer, str)
    if by == "token":
        tokens = tokens_of(trace)
        return _by_number(trace, tokens.key, tokens.text)
    if by == "tensor":
        return _by_weight(trace)
    if by == "source":
        return _by_source(trace)
    if by == "expert":
        return _by_expert(trace)
    raise ValueError(f"cannot group by {by!r}")


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
            return Grouped(None, group, sizes.of(ids))
        kept = np.flatnonzero(group >= 0)
        return Grouped(kept, group[kept], sizes.of(ids[kept]))

    return Grouping(len(labels), lambda g: labels[g], of, lookup)


def _by_lane(trace: Trace, by: str) -> Grouping:
    kinds = {"thread": (LaneKind.THREAD,), "engine": (LaneKind.ENGINE,)}.get(
        by, tuple(LaneKind)
    )
    table = np.array(
        [lane.id if lane.kind in kinds else -1 for lane in trace.lanes], np.int64
    )
    return _by_table(trace, trace.spans.lane, table, lane_titles(trace.lanes))


def _by_number(
    trace: Trace, column: Array | None, label: Callable[[int], str]
) -> Grouping:
    """Group by a column of numbers, where -1 is a group of its own."""
    sizes = SpanBytes(trace)
    if column is None or not len(column):
        return Grouping(
            1,
            lambda _: NONE,
            lambda ids: Grouped(None, np.zeros(len(ids), np.int64), sizes.of(ids)),
            Lookup(None, 0, np.zeros(1, np.int32), sizes),
        )
    low, high = int(column.min()), int(column.max())
    values = np.unique(column) if high - low >= _MAX_DENSE else None

    def of(ids: Array) -> Grouped:
        part = column[ids]
        if values is None:
            group = part.astype(np.int64) - low
        else:
            group = np.searchsorted(values, part).astype(np.int64)
        return Grouped(None, group, sizes.of(ids))

    def name(group: int) -> str:
        value = low + group if values is None else int(values[group])
        return NONE if value < 0 else label(value)

    if values is not None:
        return Grouping(len(values), name, of)
    n = high - low + 1
    lookup = Lookup(column, low, np.arange(n, dtype=np.int32), sizes)
    return Grouping(n, name, of, lookup)


def _by_weight(trace: Trace) -> Grouping:
    """Group by the weight that spans read: each is in one group, see ``weights``."""
    booked, sizes = booked_on(trace), SpanBytes(trace)
    names = trace.tensors.name.astype(np.int64)
    used, place = np.unique(names, return_inverse=True)
    texts = [trace.strings[int(i)] if i >= 0 else NONE for i in used]
    labels = [*texts, NO_WEIGHT_LABEL, NOT_RECORDED_LABEL]
    # Negative numbers of `booked_on` count from the end: -2, then -1.
    table = np.append(place, [len(used) + 1, len(used)]).astype(np.int64)
    assert (NOT_RECORDED, NO_WEIGHT) == (-2, -1)
    pattern, computed = trace.accesses.pattern, booked.computed

    def of(ids: Array) -> Grouped:
        tensor = booked.per_pattern[pattern[ids]]
        at = np.searchsorted(booked.loose_span, ids)
        at = np.minimum(at, max(len(booked.loose_span) - 1, 0))
        if len(booked.loose_span):
            named = (booked.loose_span[at] == ids) & (tensor < 0)
            tensor[named] = booked.loose_tensor[at[named]]
        if computed is not None:
            own = computed[ids].astype(np.int64)
            tensor = np.where((tensor == NOT_RECORDED) & (own >= 0), own, tensor)
        return Grouped(None, table[tensor], sizes.of(ids))

    lookup = None
    if not len(booked.loose_span) and len(pattern) == len(trace.spans):
        if computed is None:
            groups = table[np.roll(booked.per_pattern, 1)].astype(np.int32)
            lookup = Lookup(pattern, -1, groups, sizes)
        elif len(booked.per_pattern) == 1:
            groups = np.append(len(used) + 1, place).astype(np.int32)
            lookup = Lookup(computed, -1, groups, sizes)
    return Grouping(len(labels), lambda g: labels[g], of, lookup)


def _by_source(trace: Trace) -> Grouping:
    """Group by where the bytes live; a span counts once per source."""

    def source(what: AccessColumns) -> I64:
        return what.space.astype(np.int64)

    first, group, size = _distinct_per_pattern(trace, source)
    rows = _AccessRows(trace.accesses.pattern, first)
    loose = LooseBytes(trace, source(trace.accesses.loose.what))
    labels = list(_SPACES.values())

    def of(ids: Array) -> Grouped:
        span, row = rows.of(ids)
        place, extra = loose.of(ids)
        return Grouped(
            np.concatenate([span, place]),
            np.concatenate([group[row], loose.group[extra]]),
            np.concatenate([size[row], loose.size[extra]]),
        )

    return Grouping(len(labels), lambda g: labels[g], of)


def _by_expert(trace: Trace) -> Grouping:
    """Group by expert; a span's time is shared out among those that it reads.

    In proportion to the bytes, or evenly where one of them is not known. Spans
    without experts are a group of their own, the last.
    """
    if len(trace.routing):
        pattern, first, group, size = _chosen_experts(trace)
    else:
        pattern = trace.accesses.pattern
        first, group, size = _distinct_per_pattern(
            trace, lambda what: what.expert.astype(np.int64)
        )
    rows = _AccessRows(pattern, first)
    share, sizes = _shares(first, size), SpanBytes(trace)
    loose = LooseBytes(trace, trace.accesses.loose.what.expert.astype(np.int64))
    n = 1 + max(int(group.max(initial=-1)), int(loose.group.max(initial=-1)))

    def of(ids: Array) -> Grouped:
        span, row = rows.of(ids)
        place, extra = loose.of(ids)
        # Of the spans that patterns tell nothing of.
        is_free = np.ones(len(ids), np.bool_)
        is_free[span] = False
        place, extra = place[is_free[place]], extra[is_free[place]]
        begin = np.searchsorted(place, np.arange(len(ids) + 1))
        alone = _shares(begin, loose.size[extra])
        is_free[place] = False
        rest = np.flatnonzero(is_free)
        one, none = np.ones(len(rest), np.int64), np.zeros(len(rest), np.int64)
        return Grouped(
            np.concatenate([span, place, rest]),
            np.concatenate([group[row], loose.group[extra], one * n]),
            np.concatenate([size[row], loose.size[extra], sizes.of(ids[rest])]),
            Share(
                np.concatenate([share.before[row], alone.before, none]),
                np.concatenate([share.upto[row], alone.upto, one]),
                np.concatenate([share.whole[row], alone.whole, one]),
            ),
        )

    return Grouping(n + 1, lambda g: NONE if g == n else str(g), of)


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
    """Rows of groups per pattern: ``first[p] : first[p + 1]`` are those of p."""

    pattern: Array
    first: I64

    def of(self, ids: Array) -> tuple[Array, Array]:
        """Return (positions in `ids`, rows), one entry for each row of each span."""
        counts = np.append(np.diff(self.first), 0)
        p = self.pattern[ids]
        n = counts[p]
        span = np.repeat(np.arange(len(ids)), n)
        begin = np.repeat(self.first[p] - (np.cumsum(n) - n), n)
        return span, np.arange(len(span)) + begin


def _chosen_experts(trace: Trace) -> tuple[Array, I64, I64, I64]:
    """Return the experts whose slices spans touch, as the router chose them.

    Returns
    -------
    variant of each span, and (first, group, bytes) per variant as
    `_distinct_per_pattern` has them.
    """
    files = file_map(trace)
    variants = span_variants(trace, files)
    touches = variants.touches
    n = len(touches.first) - 1
    owner = np.repeat(np.arange(n), np.diff(touches.first))
    unit = np.searchsorted(files.offset, touches.begin, "right") - 1
    # A touch that reaches beyond its slice is of a whole stack: nobody was chosen.
    end = (files.offset + files.size)[unit] if len(files) else touches.stop
    is_slice = (touches.track == Track.FILE) & (unit >= 0) & (touches.stop <= end)
    rows = np.flatnonzero(is_slice)
    expert = files.expert[unit[rows]].astype(np.int64)
    known = expert >= 0
    first, group, size = _distinct(
        owner[rows[known]], expert[known], touches.size[rows[known]], n
    )
    return variants.column, first, group, size


def _distinct_per_pattern(
    trace: Trace, groups: Callable[[AccessColumns], I64]
) -> tuple[I64, I64, I64]:
    """Return (first int64[n_patterns + 1], group int64[m], bytes int64[m]).

    The distinct groups of pattern p are ``group[first[p] : first[p + 1]]``.
    """
    accesses = trace.accesses
    n_patterns = len(accesses.first) - 1
    pattern = np.repeat(np.arange(n_patterns), np.diff(accesses.first))
    group = groups(accesses.patterns)
    size = np.maximum(accesses.patterns.size.astype(np.int64), 0)
    known = group >= 0
    return _distinct(pattern[known], group[known], size[known], n_patterns)


def _distinct(owner: I64, group: I64, size: I64, n: int) -> tuple[I64, I64, I64]:
    """Return the distinct groups of each of n owners, and their sums of sizes."""
    order = np.lexsort((group, owner))
    owner, group, size = owner[order], group[order], size[order]
    begin = np.flatnonzero(_is_new(owner, group))
    total = np.add.reduceat(size, begin) if len(begin) else size
    first = np.searchsorted(owner[begin], np.arange(n + 1))
    return first.astype(np.int64), group[begin], total


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
        size = np.maximum(loose.what.size[rows][order].astype(np.int64), 0)
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
        found = ids[place] == self.span[rows]
        return place[found], rows[found]


def _is_new(a: Array, b: Array) -> npt.NDArray[np.bool_]:
    """Tell of each row of a sorted pair of columns whether it differs from the last."""
    result = np.ones(len(a), np.bool_)
    result[1:] = (a[1:] != a[:-1]) | (b[1:] != b[:-1])
    return result


class SpanBytes:
    """Known bytes that spans access.

    Attributes
    ----------
    per_pattern : int64[n_patterns + 1]; the last entry, 0, is for "no pattern".
    loose : what spans access besides.
    """

    def __init__(self, trace: Trace) -> None:
        accesses = trace.accesses
        size = np.maximum(accesses.patterns.size.astype(np.int64), 0)
        total = np.concatenate([[0], np.cumsum(size)])
        per_pattern = total[accesses.first[1:]] - total[accesses.first[:-1]]
        self._pattern = accesses.pattern
        self.per_pattern: I64 = np.append(per_pattern, 0)
        self.loose = LooseBytes(trace, np.zeros(len(accesses.loose), np.int64))

    def of(self, ids: Array) -> I64:
        """Return int64[len(ids)]; `ids` ascend."""
        size: I64 = self.per_pattern[self._pattern[ids]]
        place, rows = self.loose.of(ids)
        size[place] += self.loose.size[rows]
        return size
