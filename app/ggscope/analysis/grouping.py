"""What spans can be grouped by: a small number per span, and what it is called."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.file_map import file_map
from ggscope.analysis.heatmap_touches import Track, span_variants
from ggscope.model.ggml import FAMILIES, family_of
from ggscope.model.lanes import LaneKind
from ggscope.model.tables import I64, AccessColumns, Array, Phase, Space
from ggscope.model.trace import Trace

NONE = "none"
"""Label of the spans that have no layer, no token or no phase."""

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
    """

    span: Array | None
    group: I64
    bytes: I64


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
    if by in ("layer", "token"):
        return _by_number(trace, s.layer if by == "layer" else s.token, str)
    if by in ("tensor", "source", "expert"):
        return _by_access(trace, by)
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
    return _by_table(
        trace, trace.spans.lane, table, [lane.name for lane in trace.lanes]
    )


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


def _by_access(trace: Trace, by: str) -> Grouping:
    """Group by what spans access; a span counts once per group."""
    group_of, labels = _access_groups(trace, by)
    first, group, size = _distinct_per_pattern(trace, group_of)
    pattern = trace.accesses.pattern
    if by == "expert" and len(trace.routing):
        pattern, first, group, size = _chosen_experts(trace)
        labels = [str(i) for i in range(int(group.max(initial=-1)) + 1)]
    counts = np.append(np.diff(first), 0)
    own = _own_tensor(trace, by)
    loose = LooseBytes(trace, group_of(trace.accesses.loose.what))

    def of(ids: Array) -> Grouped:
        p = pattern[ids]
        n = counts[p]
        span = np.repeat(np.arange(len(ids)), n)
        row = np.arange(len(span)) + np.repeat(first[p] - (np.cumsum(n) - n), n)
        place, extra = loose.of(ids)
        parts = [
            (span, group[row], size[row]),
            (place, loose.group[extra], loose.size[extra]),
        ]
        if own is not None:
            has_none = n == 0
            has_none[place] = False
            alone = np.flatnonzero(has_none & (own[ids] >= 0))
            parts.append((alone, own[ids[alone]], np.zeros(len(alone), np.int64)))
        return Grouped(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    return Grouping(len(labels), lambda g: labels[g], of)


def _access_groups(
    trace: Trace, by: str
) -> tuple[Callable[[AccessColumns], I64], Sequence[str]]:
    """Return how accesses map to groups (-1: none), and the groups' labels."""
    if by == "source":
        return lambda what: what.space.astype(np.int64), list(_SPACES.values())
    if by == "expert":
        n = 1 + max(
            int(what.expert.max(initial=-1))
            for what in (trace.accesses.patterns, trace.accesses.loose.what)
        )
        return lambda what: what.expert.astype(np.int64), [str(i) for i in range(n)]
    names = np.append(trace.tensors.name, -1).astype(np.int64)
    return lambda what: names[what.tensor], trace.strings.texts()


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


def _own_tensor(trace: Trace, by: str) -> I64 | None:
    """Return the name of each span's own tensor where it has one and `by` asks."""
    if by != "tensor" or trace.spans.tensor is None:
        return None
    names = np.append(trace.tensors.name, -1).astype(np.int64)
    return np.asarray(names[trace.spans.tensor], np.int64)


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
