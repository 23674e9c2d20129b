"""Second pass over a tensor trace: names, tensors and accesses as patterns.

A model does the same accesses for every token, so records are numbered by what
they touch, and each distinct *pattern* is decoded once. Two 64-bit hashes of the
bytes that matter find it: one to look it up, the other to notice a collision.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import (
    I64,
    AccessColumns,
    Array,
    narrow,
)
from ggscope.model.tensors import Buffers, Tensors
from ggscope.readers.records import Layout
from ggscope.readers.source import Source
from ggscope.readers.tensor_names import PatternDecoder
from ggscope.readers.tensor_scan import Words, hash_factors, word_blocks

_U64 = np.uint64
_MAX_SEEDS = 8


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Patterns:
    """What the records touch, once per distinct pattern.

    Attributes
    ----------
    of_record : int32[n], pattern of each op record, in file order.
    first : int64[n_patterns + 1]; pattern p makes the accesses
        ``columns[first[p] : first[p + 1]]``.
    columns : the accesses.
    name : string id of the destination, -1 without name.
    tensor : row of `tensors` for the destination.
    layer : claimed by the record, else told by its name; -1 none.
    is_cut : bool, the destination's name fills its field and may go on.
    """

    of_record: npt.NDArray[np.int32]
    first: I64
    columns: AccessColumns
    name: Array
    tensor: Array
    layer: Array
    is_cut: npt.NDArray[np.bool_]
    tensors: Tensors
    buffers: Buffers


class HashCollisionError(Exception):
    """Two different patterns have the same hash."""


class PatternNumbers:
    """Numbers the distinct patterns of a layout's records, in order of appearance.

    Parameters
    ----------
    seed : which hash to use; another one where that collides.
    """

    def __init__(self, layout: Layout, seed: int = 0) -> None:
        mask = np.where(layout.key, np.uint8(0xFF), np.uint8(0)).view(_U64)
        used = np.flatnonzero(mask)
        self._columns = slice(int(used[0]), int(used[-1]) + 1)
        self._mask = mask[self._columns]
        self._factors = hash_factors(len(self._mask), 2, 1 + seed)
        self._sorted = np.zeros(0, _U64)
        self._ids = np.zeros(0, np.int32)
        self._checks = np.zeros(0, _U64)

    def __len__(self) -> int:
        return len(self._sorted)

    def number(self, words: Words) -> tuple[npt.NDArray[np.int32], Array]:
        """Return the pattern of each record, and the rows that begin new ones.

        Parameters
        ----------
        words : uint64[m, record size / 8].

        Raises
        ------
        HashCollisionError
            If two of the patterns so far cannot be told apart.
        """
        masked = words[:, self._columns] & self._mask
        masked ^= masked >> _U64(32)
        hashes = masked @ self._factors
        key = np.ascontiguousarray(hashes[:, 0])
        fresh = self._unknown(key)
        if len(fresh):
            self._learn(key[fresh], hashes[fresh, 1])
        ids = self._ids[np.searchsorted(self._sorted, key)]
        if not np.array_equal(self._checks[ids], hashes[:, 1]):
            raise HashCollisionError
        return ids, fresh

    def _unknown(self, key: Words) -> Array:
        """Return the first row of every key that is not known yet, ascending."""
        if not len(self._sorted):
            rows = np.arange(len(key))
        else:
            at = np.minimum(np.searchsorted(self._sorted, key), len(self._sorted) - 1)
            rows = np.flatnonzero(self._sorted[at] != key)
        if len(rows):
            rows = rows[np.unique(key[rows], return_index=True)[1]]
        return np.sort(rows)

    def _learn(self, key: Words, checks: Words) -> None:
        ids = np.arange(len(self), len(self) + len(key), dtype=np.int32)
        self._checks = np.append(self._checks, checks)
        joined = np.append(self._sorted, key)
        order = np.argsort(joined)
        self._sorted = joined[order]
        self._ids = np.append(self._ids, ids)[order]


def read_patterns(
    source: Source,
    layout: Layout,
    ranges: list[tuple[int, int]],
    record: Array,
    make_decoder: Callable[[], PatternDecoder],
    progress: Callable[[int], None],
) -> Patterns:
    """Return the patterns of the op records with file numbers `record`.

    Parameters
    ----------
    record : ascending numbers of the records, as the first pass found them.
    make_decoder : called again where a hash collides and all starts anew.
    """
    for seed in range(_MAX_SEEDS):
        decoder = make_decoder()
        try:
            numbers = PatternNumbers(layout, seed)
            of_record = _numbered(
                source, layout, ranges, record, numbers, decoder, progress
            )
        except HashCollisionError:
            continue
        return _patterns(of_record, decoder)
    raise AssertionError("hashes of every seed collide")


def _numbered(
    source: Source,
    layout: Layout,
    ranges: list[tuple[int, int]],
    record: Array,
    numbers: PatternNumbers,
    decoder: PatternDecoder,
    progress: Callable[[int], None],
) -> npt.NDArray[np.int32]:
    of_record = np.empty(len(record), np.int32)
    at, done = 0, 0
    for first, words in word_blocks(source, layout.size, ranges):
        here = record[at : at + len(words)]
        stop = at + int(np.searchsorted(here, first + len(words)))
        if stop - at < len(words):
            words = words[record[at:stop] - first]
        of_record[at:stop], fresh = numbers.number(words)
        if len(fresh):
            rows = np.ascontiguousarray(words[fresh])
            decoder.add(rows.view(layout.dtype).reshape(-1))
        at = stop
        done += words.nbytes
        progress(done)
    return of_record


def _patterns(of_record: npt.NDArray[np.int32], decoder: PatternDecoder) -> Patterns:
    columns, buffers = decoder.accesses()
    first = np.concatenate([[0], np.cumsum(decoder.counts())]).astype(np.int64)
    name, tensor, layer, is_cut = decoder.destinations()
    return Patterns(
        of_record=of_record,
        first=first,
        columns=columns,
        name=narrow(name),
        tensor=narrow(tensor),
        layer=narrow(layer),
        is_cut=is_cut,
        tensors=decoder.tensors(columns),
        buffers=buffers,
    )
