"""The model file cut into units: one interval of bytes per tensor or expert slice.

A tensor that stacks experts becomes one unit per slice: slice k of n lies at
``base + k * size // n``. A side file may list such slices one by one, beside or
instead of the stack; what lies at one place is one unit. Parts of a split model
follow each other: all offsets here are *global*, those of the parts put end to end.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import (
    I64,
    AccessColumns,
    Array,
    Space,
    Table,
    ranges,
    stacked,
)
from ggscope.model.tensors import Place, SizeSource
from ggscope.model.trace import Trace

FAR = 1 << 60
"""Offsets and sizes from here on are damage, not places in a file."""
_MAX_SLICES = 1 << 16
"""A stack of more experts than this is damage: it stays one unit."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """One file of a model: where it begins and ends in global offsets.

    Attributes
    ----------
    data_begin : global offset of the first tensor data; -1 unknown.
    """

    name: str
    begin: int
    end: int
    data_begin: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class FileMap:
    """Sorted intervals that do not overlap, one row each: the *units*.

    Attributes
    ----------
    offset, size : int64[n], global offset, and bytes > 0.
    tensor : int32[n], row of ``Trace.tensors``: the stack where there is one.
    expert : int32[n], expert of a slice, -1 none.
    layer : int32[n], transformer layer, -1 none.
    is_traced : bool[n], whether only accesses of the trace state the place.
    is_cut : bool[n], whether the unit ran into the next one and was cut there.
    first, stop : int64[n_tensors], global range of each tensor; -1 no place.
    parts : the files, in order; at least one where there is a unit.
    extent : bytes of all parts.
    n_same : rows of ``Trace.tensors`` at the place of another row.
    n_odd : rows without a use: ranges that no file can have.
    is_read : whether an access leads to a place in the file.
    """

    offset: I64
    size: I64
    tensor: npt.NDArray[np.int32]
    expert: npt.NDArray[np.int32]
    layer: npt.NDArray[np.int32]
    is_traced: npt.NDArray[np.bool_]
    is_cut: npt.NDArray[np.bool_]
    first: I64
    stop: I64
    parts: tuple[FilePart, ...]
    extent: int
    n_same: int = 0
    n_odd: int = 0
    is_read: bool = True

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def is_complete(self) -> bool:
        """Whether an untouched byte is known to be cold.

        That takes a model file or a map, and accesses that lead to the file at all,
        which those of nameless records may not.
        """
        return self.is_read and self.is_listed

    @property
    def is_listed(self) -> bool:
        """Whether the places come from a model file or a map, not from accesses."""
        return len(self) > 0 and not bool(self.is_traced.all())

    def unit_at(self, offset: int) -> int:
        """Return the unit that holds a global offset; -1 for none."""
        unit = int(np.searchsorted(self.offset, offset, "right")) - 1
        inside = unit >= 0 and offset < int(self.offset[unit] + self.size[unit])
        return unit if inside else -1

    def part_at(self, offset: int) -> FilePart | None:
        """Return the file that holds a global offset."""
        parts = (part for part in self.parts if part.begin <= offset < part.end)
        return next(parts, None)

    def units_of(self, tensor: int) -> tuple[int, int]:
        """Return the first unit of a tensor and the one behind its last."""
        first, stop = int(self.first[tensor]), int(self.stop[tensor])
        if first < 0:
            return 0, 0
        low, high = np.searchsorted(self.offset, [first, stop])
        return int(low), int(high)

    def gaps(self) -> I64:
        """Return int64[k, 2]: global ranges [begin, stop) that no unit covers."""
        ends = np.concatenate([[0], self.offset + self.size])
        begins = np.concatenate([self.offset, [self.extent]])
        wide = begins > ends
        return np.stack([ends[wide], begins[wide]], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows(Table):
    """Candidates for units, any order."""

    begin: I64
    stop: I64
    tensor: I64
    expert: I64
    rank: I64
    """How good the place is known, less is better."""


def file_map(trace: Trace) -> FileMap:
    """Return the map of the model file that a trace reads.

    Places come from the tensors' own offsets (model file, map), and for a tensor
    without one from where the trace's accesses say that it lies.

    Notes
    -----
    O(t log t + p) in tensors, expert slices and access patterns; spans are not
    looked at.
    """
    first, stop, traced = _places(trace)
    known = first >= 0
    odd = known & ((first >= FAR) | (stop - first >= FAR))
    begins, parts = _part_begins(trace, np.where(known & ~odd, stop, 0))
    base = begins[_files(trace)]
    first = np.where(known & ~odd, first + base, -1)
    stop = np.where(known & ~odd, stop + base, -1)
    rows = _candidates(trace, first, stop, traced)
    rows, n_same, is_cut = _apart(rows)
    extent = max([part.end for part in parts], default=0)
    layer = np.asarray(trace.tensors.layer, np.int32)
    return FileMap(
        offset=rows.begin,
        size=rows.stop - rows.begin,
        tensor=rows.tensor.astype(np.int32),
        expert=rows.expert.astype(np.int32),
        layer=layer[rows.tensor] if len(rows.tensor) else np.zeros(0, np.int32),
        is_traced=traced[rows.tensor],
        is_cut=is_cut,
        first=first,
        stop=stop,
        parts=parts,
        extent=extent,
        n_same=n_same,
        n_odd=int(np.count_nonzero(odd)),
        is_read=any(
            _leads_to_file(what, first)
            for what in (trace.accesses.patterns, trace.accesses.loose.what)
        ),
    )


def _leads_to_file(what: AccessColumns, first: I64) -> bool:
    """Return whether an access has a place in the file, itself or by its tensor."""
    may_be = np.isin(what.space, (Space.FILE, Space.UNKNOWN))
    has_place = np.append(first >= 0, False)[what.tensor]
    has_place |= (what.space == Space.FILE) & (what.offset >= 0)
    return bool(np.any(may_be & has_place))


def access_base(trace: Trace, tensor: Array, parts: tuple[FilePart, ...]) -> I64:
    """Return the global offset of byte 0 of the file of each access's tensor.

    An access without a tensor is taken to be of the first file.
    """
    if not parts:
        return np.zeros(len(tensor), np.int64)
    begins = np.array([part.begin for part in parts], np.int64)
    files = _files(trace)
    if not len(files):
        return np.zeros(len(tensor), np.int64)
    known = tensor >= 0
    return np.where(known, begins[files[np.where(known, tensor, 0)]], begins[0])


def _files(trace: Trace) -> I64:
    """Return the part of each tensor; those without a file are in the first one."""
    files = trace.tensors.file
    if files is None:
        return np.zeros(len(trace.tensors), np.int64)
    return np.maximum(files.astype(np.int64), 0)


def _places(trace: Trace) -> tuple[I64, I64, npt.NDArray[np.bool_]]:
    """Return first and stop byte in its own file of each tensor, and if traced."""
    t = trace.tensors
    first, size = t.offset.astype(np.int64), t.size.astype(np.int64)
    if t.place is None:
        traced = np.ones(len(t), np.bool_)
    else:
        traced = np.isin(t.place, (Place.TRACED, Place.UNKNOWN))
    low, high = _accessed(trace)
    use = (first < 0) & (low >= 0)
    first = np.where(use, low, first)
    size = np.where(use & (size < 0), high - low, size)
    traced = traced | use
    has_place = (first >= 0) & (size > 0)
    return (
        np.where(has_place, first, -1),
        np.where(has_place, first + np.minimum(np.maximum(size, 0), FAR), -1),
        traced,
    )


def _accessed(trace: Trace) -> tuple[I64, I64]:
    """Return the lowest and highest byte that FILE accesses name, per tensor."""
    n = len(trace.tensors)
    low, high = np.full(n, FAR, np.int64), np.full(n, -1, np.int64)
    for what in (trace.accesses.patterns, trace.accesses.loose.what):
        offset, size = what.offset.astype(np.int64), what.size.astype(np.int64)
        good = (what.space == Space.FILE) & (what.tensor >= 0) & (offset >= 0)
        rows = np.flatnonzero(good & (offset < FAR) & (size < FAR))
        np.minimum.at(low, what.tensor[rows], offset[rows])
        ends = offset[rows] + np.maximum(size[rows], 0)
        np.maximum.at(high, what.tensor[rows], ends)
    is_accessed = high >= 0
    return np.where(is_accessed, low, -1), np.where(is_accessed, high, -1)


def _part_begins(trace: Trace, stop: I64) -> tuple[I64, tuple[FilePart, ...]]:
    """Return where each file begins in global offsets, int64, and the files."""
    files = _files(trace)
    n = max(len(trace.models), int(files.max(initial=0)) + 1)
    reach = np.zeros(n, np.int64)
    if len(files):
        np.maximum.at(reach, files, stop)
    for what in (trace.accesses.patterns, trace.accesses.loose.what):
        _reach_of_accesses(reach, files, what)
    parts, begin = [], 0
    for i in range(n):
        model = trace.models[i] if i < len(trace.models) else None
        size = -1 if model is None or model.size >= FAR else model.size
        end = begin + max(size, int(reach[i]))
        data = -1 if model is None or model.data_offset < 0 else model.data_offset
        name = "" if model is None else model.name
        parts.append(FilePart(name, begin, end, begin + data if data >= 0 else -1))
        begin = end
    begins = np.array([part.begin for part in parts], np.int64)
    return begins, tuple(part for part in parts if part.end > part.begin or n > 1)


def _reach_of_accesses(reach: I64, files: I64, what: AccessColumns) -> None:
    """Raise `reach` to the last byte that accesses of each file name."""
    tensor = what.tensor
    offset, size = what.offset.astype(np.int64), what.size.astype(np.int64)
    good = (what.space == Space.FILE) & (offset >= 0) & (offset < FAR) & (size < FAR)
    rows = np.flatnonzero(good)
    if not len(rows):
        return
    which = np.zeros(len(rows), np.int64)
    if len(files):
        which = np.where(tensor[rows] >= 0, files[np.maximum(tensor[rows], 0)], 0)
    np.maximum.at(reach, which, offset[rows] + np.maximum(size[rows], 0))


def _candidates(
    trace: Trace, first: I64, stop: I64, traced: npt.NDArray[np.bool_]
) -> _Rows:
    """Return every tensor with a place, stacks cut into their slices."""
    t, rows = trace.tensors, np.flatnonzero(first >= 0)
    expert = np.asarray(t.expert, np.int64)[rows]
    n_slices = np.zeros(len(rows), np.int64)
    if t.n_experts is not None:
        n_slices = t.n_experts.astype(np.int64)[rows]
    is_stack = (expert < 0) & (n_slices > 1) & (n_slices < _MAX_SLICES)
    is_stack &= stop[rows] - first[rows] >= n_slices
    rank = _ranks(trace, rows, traced)
    single = _Rows(first[rows], stop[rows], rows, expert, rank).take(~is_stack)
    n, rows, rank = n_slices[is_stack], rows[is_stack], rank[is_stack]
    k = ranges(0, n)
    many = np.repeat(rows, n)
    size, count = (stop - first)[many], np.repeat(n, n)
    slices = _Rows(
        np.asarray(first[many] + k * size // count, np.int64),
        np.asarray(first[many] + (k + 1) * size // count, np.int64),
        many,
        k,
        np.repeat(rank, n),
    )
    return stacked(single, slices)


def _ranks(trace: Trace, rows: I64, traced: npt.NDArray[np.bool_]) -> I64:
    """Return how much to trust each tensor's place; less is better."""
    rank = np.where(traced[rows], 4, 1).astype(np.int64)
    if trace.tensors.size_source is not None:
        poor = trace.tensors.size_source[rows] == SizeSource.TRACED
        rank += poor.astype(np.int64)
    return rank


def _apart(rows: _Rows) -> tuple[_Rows, int, npt.NDArray[np.bool_]]:
    """Return rows that do not overlap, how many are duplicates, and which are cut."""
    # Of those that begin at one byte: a slice (so a stack gives way to its listed
    # slices), then the best known, then the longest.
    whole = (rows.expert < 0).astype(np.int64)
    order = np.lexsort((rows.begin - rows.stop, rows.rank, whole, rows.begin))
    rows = rows.take(order)
    is_first = np.diff(rows.begin, prepend=-1) != 0
    n_same = len(rows.begin) - int(np.count_nonzero(is_first))
    rows = rows.take(is_first)
    limit = np.append(rows.begin[1:], np.iinfo(np.int64).max)
    is_cut = rows.stop > limit
    cut = np.minimum(rows.stop, limit)
    return (_Rows(rows.begin, cut, rows.tensor, rows.expert, rows.rank), n_same, is_cut)
