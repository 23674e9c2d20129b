"""The tensors of a model as a tree: by layer, part, name or type, with totals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ggscope.analysis.completeness.coverage import shown_coverage
from ggscope.analysis.model_tensors import ModelTensors
from ggscope.analysis.reads.hotness import Heat, heat
from ggscope.analysis.sessions.mapping import wholes_of
from ggscope.analysis.statistics import scan
from ggscope.analysis.statistics.grouping import tensor_groups, without_layer
from ggscope.analysis.statistics.scan import SpanBlocks, SpanScope
from ggscope.analysis.statistics.table import figures
from ggscope.analysis.workers import Watcher
from ggscope.model.names import COMPONENTS, shape_of
from ggscope.model.tables import I64, Quality
from ggscope.model.trace import Trace

TreeBy = Literal["layer", "component", "name", "type", "file", "tensor"]
TREE_BY: tuple[TreeBy, ...] = get_args(TreeBy)
Key = int | str
"""Of a group: number of a layer or file, -1 = none; name; type number, -1 unknown."""
_LEVELS: dict[TreeBy, tuple[str, ...]] = {
    "layer": ("layer",),
    "component": ("component", "name"),
    "name": ("name",),
    "type": ("type", "name"),
    "file": ("file", "layer"),
    "tensor": (),
}
_LARGEST_FIRST = ("component", "type")
"""Levels whose groups come by size; others in the order of layers, or of the file."""
_MAX_ELEMENTS = 1 << 62
UNKNOWN = -1


@dataclass(frozen=True, slots=True, eq=False)
class TensorReads:
    """What a trace does with the tensors of a model.

    Attributes
    ----------
    accesses, bytes : int64[n_tensors], known accesses, and bytes read or written by
        them, each op's once. None where the trace records no access.
    unsized : int64[n_tensors], of `accesses` those of unknown size; None as
        `accesses`.
    ticks : int64[n_tensors], time of the ops that are booked on a tensor, see
        ``weights.booked_on``, summed over threads; `UNKNOWN` where no duration of them
        is known. None where the trace has no time, or says of no op what it reads.
    is_open : bool[n_tensors], there may be further accesses that are not recorded: 0 is
        no proof that nothing is read, and sums are at least so much.
    """

    accesses: I64 | None
    bytes: I64 | None
    unsized: I64 | None
    ticks: I64 | None
    is_open: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class TensorSums:
    """Sums over the tensors of each of k groups.

    Attributes
    ----------
    n : int64[k], tensors; slices of experts count as their stack.
    size, elements : int64[k], of the tensors of which they are known.
    n_unsized, n_unshaped : int64[k], tensors of which they are not.
    bits : float64[k], bits per element of tensors whose size and elements are known;
        NaN without any.
    accesses, bytes, unsized, ticks : int64[k], as in `TensorReads`; None where that
        has none. Ticks are `UNKNOWN` where no tensor's are known.
    is_open : bool[k], as in `TensorReads`, of any tensor.
    """

    n: I64
    size: I64
    elements: I64
    n_unsized: I64
    n_unshaped: I64
    bits: npt.NDArray[np.float64]
    accesses: I64 | None
    bytes: I64 | None
    unsized: I64 | None
    ticks: I64 | None
    is_open: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class TensorTree:
    """Groups of tensors, those of the first level each followed by those within.

    Attributes
    ----------
    order : int64[n], positions in the listing, group by group.
    level : int64[k], 0 = outermost.
    key : of each group, see `Key`.
    first, stop : int64[k], which of `order` a group has.
    sums : of the groups.
    total : of all tensors, of length 1.
    """

    by: TreeBy
    order: I64
    level: I64
    key: tuple[Key, ...]
    first: I64
    stop: I64
    sums: TensorSums
    total: TensorSums

    def __len__(self) -> int:
        return len(self.level)


def levels_of(by: TreeBy) -> tuple[str, ...]:
    """Return what the groups of each level are, the outermost first."""
    return _LEVELS[by]


def element_counts(trace: Trace, rows: I64) -> I64:
    """Return the elements of some tensors, int64[len(rows)]; -1 unknown."""
    shape = trace.tensors.shape
    if shape is None:
        return np.full(len(rows), UNKNOWN, np.int64)
    sizes = shape[rows].astype(np.int64)
    count = np.where(sizes > 0, sizes, 1).astype(np.float64).prod(axis=1)
    is_known = (sizes > 0).all(axis=1) & (count < _MAX_ELEMENTS)
    exact = np.where(is_known[:, None], sizes, 1).prod(axis=1)
    return np.where(is_known, exact, UNKNOWN).astype(np.int64)


def tensor_reads(trace: Trace, watcher: Watcher | None = None) -> TensorReads:
    """Return what a trace does with each of its tensors.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    n = len(trace.tensors)
    if not len(trace.spans):
        return TensorReads(None, None, None, None, np.zeros(n, np.bool_))
    accesses = n_bytes = unsized = None
    is_open = np.full(n, shown_coverage(trace, None).may_hide_reads)
    if len(trace.accesses):
        measured = heat(trace)
        accesses, n_bytes, unsized = measured.accesses, measured.bytes, measured.unsized
        is_open |= _open_reads(measured)
    return TensorReads(accesses, n_bytes, unsized, _ticks(trace, watcher), is_open)


def _open_reads(heat: Heat) -> npt.NDArray[np.bool_]:
    """Return of which tensors there may be further accesses, bool[n_tensors]."""
    is_open = heat.unknown_read + heat.unknown_written > 0
    units = heat.unit_unrecorded | heat.unit_cut | (heat.unit_maybe > 0)
    np.logical_or.at(is_open, heat.places.tensor, units)
    return np.asarray(is_open | (heat.n_lost > 0), np.bool_)


def _ticks(trace: Trace, watcher: Watcher | None) -> I64 | None:
    """Return the time booked on each tensor; None where that is known of no op."""
    groups, scope = tensor_groups(trace), SpanScope()
    if scan.can_scan(trace, groups):
        sums = scan.figures(trace, groups, scope, SpanBlocks(trace), watcher)
    else:
        sums = figures(trace, groups, scope, watcher=watcher)
    n = len(trace.tensors)
    spans = sums.spans[:n]
    if not spans.any():
        return None
    n_timed = spans[:, : Quality.DERIVED + 1].sum(axis=1)
    is_timed = (n_timed > 0) | (spans.sum(axis=1) == 0)
    return np.where(is_timed, np.where(n_timed > 0, sums.total[:n], 0), UNKNOWN)


def tensor_tree(
    trace: Trace,
    listing: ModelTensors,
    by: TreeBy,
    reads: TensorReads,
    positions: I64 | None = None,
) -> TensorTree:
    """Return the tensors of a listing in groups.

    Parameters
    ----------
    positions : of the listing, ascending; None = all.

    Notes
    -----
    O(n log n) in the tensors. A stack of experts that a map lists beside its slices
    counts once.
    """
    chosen = np.arange(len(listing)) if positions is None else positions
    values = _Values(trace, listing, reads)
    levels = _LEVELS[by]
    codes = [_codes(trace, listing, level, chosen, values) for level in levels]
    numbers = [code for code, _ in codes]
    order = np.lexsort((np.arange(len(chosen)), *reversed(numbers)))
    groups: list[tuple[int, int, int, Key]] = []
    edges = np.zeros(len(chosen), np.bool_)
    for depth, (number, keys) in enumerate(codes):
        ordered = number[order]
        edges[:1] = True
        edges[1:] |= ordered[1:] != ordered[:-1]
        first = np.flatnonzero(edges)
        stop = np.append(first, len(chosen))[1:]
        groups += [
            (begin, depth, end, keys[int(ordered[begin])])
            for begin, end in zip(first.tolist(), stop.tolist(), strict=True)
        ]
    groups.sort(key=lambda group: group[:2])
    placed = chosen[order]
    firsts = np.array([group[0] for group in groups], np.int64)
    stops = np.array([group[2] for group in groups], np.int64)
    return TensorTree(
        by=by,
        order=placed,
        level=np.array([group[1] for group in groups], np.int64),
        key=tuple(group[3] for group in groups),
        first=firsts,
        stop=stops,
        sums=values.sums(placed, firsts, stops),
        total=values.sums(placed, np.zeros(1, np.int64), np.array([len(placed)])),
    )


def _codes(
    trace: Trace, listing: ModelTensors, level: str, chosen: I64, values: "_Values"
) -> tuple[I64, Sequence[Key]]:
    """Return the group of each tensor, ascending as groups come, and their keys."""
    rows = listing.rows[chosen]
    numbered: dict[str, Callable[[], I64]] = {
        "layer": lambda: trace.tensors.layer[rows].astype(np.int64),
        "file": lambda: listing.file[chosen],
        "component": lambda: listing.component[chosen].astype(np.int64),
        "type": lambda: _types(trace, rows),
    }
    if level == "name":
        strings = (trace.strings[i] for i in trace.tensors.name[rows].tolist())
        names = [without_layer(name, shape_of(name)) for name in strings]
        # In the order in which they first lie in the file.
        known = {name: i for i, name in enumerate(dict.fromkeys(names))}
        return np.array([known[name] for name in names], np.int64), tuple(known)
    keys, code = np.unique(numbered[level](), return_inverse=True)
    code = code.reshape(-1).astype(np.int64)
    if level in _LARGEST_FIRST:
        size = np.zeros(len(keys), np.int64)
        np.add.at(size, code, values.size[chosen])
        ranks = np.argsort(-size, kind="stable")
        code, keys = np.argsort(ranks, kind="stable")[code], keys[ranks]
    if level == "component":
        return code, tuple(COMPONENTS[i] for i in keys.tolist())
    return code, tuple(keys.tolist())


def _types(trace: Trace, rows: I64) -> I64:
    kinds = trace.tensors.type
    return np.full(len(rows), -1) if kinds is None else kinds[rows].astype(np.int64)


class _Values:
    """What is summed, by position in the listing."""

    def __init__(self, trace: Trace, listing: ModelTensors, reads: TensorReads) -> None:
        rows = listing.rows
        wholes = wholes_of(trace.tensors, trace.strings)
        has_bytes = wholes.has_bytes[rows]
        elements = element_counts(trace, rows)
        self.size = np.where(has_bytes, np.maximum(listing.size, 0), 0)
        self._whole = wholes.whole[rows]
        self._elements = np.where(has_bytes, np.maximum(elements, 0), 0)
        self._is_unsized = wholes.is_unsized[rows]
        self._is_unshaped = has_bytes & (elements < 0)
        is_both = has_bytes & (listing.size >= 0) & (elements > 0)
        self._of_both = np.where(is_both, [self.size, self._elements], 0)
        self._accesses = _at(reads.accesses, rows)
        self._bytes = _at(reads.bytes, rows)
        self._unsized = _at(reads.unsized, rows)
        self._ticks = _at(reads.ticks, rows)
        self._is_open = reads.is_open[rows]

    def sums(self, order: I64, first: I64, stop: I64) -> TensorSums:
        """Return the sums over ``order[first:stop]`` of each group."""

        def total(values: npt.NDArray[np.generic]) -> I64:
            running = np.append(0, np.cumsum(values[order].astype(np.int64)))
            return np.asarray(running[stop] - running[first], np.int64)

        size, elements = total(self._of_both[0]), total(self._of_both[1])
        with np.errstate(invalid="ignore", divide="ignore"):
            bits = np.where(elements > 0, size * 8 / elements, np.nan)
        ticks = None
        if self._ticks is not None:
            is_known = self._ticks >= 0
            ticks = total(np.where(is_known, self._ticks, 0))
            ticks = np.where(total(is_known) > 0, ticks, UNKNOWN)
        return TensorSums(
            n=self._counts(order, first, stop),
            size=total(self.size),
            elements=total(self._elements),
            n_unsized=total(self._is_unsized),
            n_unshaped=total(self._is_unshaped),
            bits=bits,
            accesses=None if self._accesses is None else total(self._accesses),
            bytes=None if self._bytes is None else total(self._bytes),
            unsized=None if self._unsized is None else total(self._unsized),
            ticks=ticks,
            is_open=total(self._is_open) > 0,
        )

    def _counts(self, order: I64, first: I64, stop: I64) -> I64:
        """Return the tensors of each group; all slices of a stack count as one."""
        whole = self._whole[order]
        if len(np.unique(whole)) == len(whole):
            return stop - first
        pairs = zip(first.tolist(), stop.tolist(), strict=True)
        return np.array([len(np.unique(whole[i:j])) for i, j in pairs], np.int64)


def _at(values: I64 | None, rows: I64) -> I64 | None:
    return None if values is None else values[rows]
