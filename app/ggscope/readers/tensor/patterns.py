"""Number the distinct access patterns of records.

A model does the same accesses for every token, so records are numbered by what
they touch, and each distinct *pattern* is decoded once.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from ggscope.errors import LimitExceededError
from ggscope.model.tables import I64, Array
from ggscope.native.declared import RecordPatterns
from ggscope.readers.api import NAMES_OPTION
from ggscope.readers.tensor import kernel as tensor_kernel
from ggscope.readers.tensor.columns import Words
from ggscope.readers.tensor.layouts import RecordLayout

MAX_PATTERNS = 1 << 21
"""A trace with so many of them does not repeat itself; decoding each would take
gigabytes."""

MAX_PATTERN_BYTES = 1 << 30
"""The same for the records that show them."""

_MERGED_AT_ONCE = 1 << 14
_U64 = np.uint64


class HashCollisionError(Exception):
    """Two different patterns have the same hash."""


@cache
def hash_factors(n_words: int, n_hashes: int, seed: int = 0) -> Words:
    """Return odd random factors, uint64[n_words, n_hashes]; the same every time.

    ``(words ^ words >> 32) @ factors`` hashes rows of words. The shift brings high
    bits down: without it, names that differ in their last letter only would differ
    in the top byte of the sum only.
    """
    rng = np.random.default_rng(0x6767_6D6C + seed)
    high = rng.integers(0, 1 << 63, (n_words, n_hashes), dtype=_U64)
    factors = high * _U64(2) + _U64(1)
    factors.flags.writeable = False
    return factors


def hash_name(words: Words) -> npt.NDArray[np.uint32]:
    """Return a hash of the name in each row of `words`, uint32[m]; 0 for blank."""
    factors = hash_factors(words.shape[1], 1)[:, 0]
    mixed = words ^ (words >> _U64(32))
    hashed = ((mixed @ factors) >> _U64(32)).astype(np.uint32) | np.uint32(1)
    is_blank = (words[:, 0] & _U64(0xFF)) == 0
    return np.asarray(np.where(is_blank, np.uint32(0), hashed))


def key_words(layout: RecordLayout) -> tuple[int, Words]:
    """Return the first word that tells patterns apart, and masks from there on."""
    mask = np.where(layout.key, np.uint8(0xFF), np.uint8(0)).view(_U64)
    used = np.flatnonzero(mask)
    return int(used[0]), mask[used[0] : used[-1] + 1]


class PatternNumbers:
    """Numbers the distinct patterns of a layout's records, in order of appearance.

    Two 64-bit hashes of the bytes that matter find a pattern: one to look it up,
    the other to notice a collision.

    Parameters
    ----------
    seed : which hash to use; another one where that collides.
    """

    def __init__(self, layout: RecordLayout, seed: int = 0) -> None:
        first, self._mask = key_words(layout)
        self._columns = slice(first, first + len(self._mask))
        self._factors = hash_factors(len(self._mask), 2, 1 + seed)
        self._sorted = np.zeros(0, _U64)
        self._ids = np.zeros(0, np.int32)
        self._checks = np.zeros(0, _U64)
        self._exemplars = [np.zeros((0, layout.size // 8), _U64)]
        self._records = [np.zeros(0, np.int64)]

    def __len__(self) -> int:
        return len(self._sorted)

    def exemplars(self) -> Words:
        """Return the first record of each pattern, uint64[n, size / 8]."""
        return np.concatenate(self._exemplars)

    def first_record(self) -> I64:
        """Return the number of the first record of each pattern, int64[n]."""
        return np.concatenate(self._records)

    def number(self, words: Words, record: I64) -> npt.NDArray[np.int32]:
        """Return the pattern of each record.

        Parameters
        ----------
        words : uint64[m, record size / 8].
        record : their numbers in the file.

        Raises
        ------
        HashCollisionError
            If two of the patterns so far cannot be told apart.
        LimitExceededError
            If there are too many patterns.
        """
        masked = words[:, self._columns] & self._mask
        masked ^= masked >> _U64(32)
        hashes = masked @ self._factors
        key = np.ascontiguousarray(hashes[:, 0])
        fresh = self._unknown(key)
        if len(fresh):
            self._learn(key[fresh], hashes[fresh, 1])
            self._exemplars.append(words[fresh])
            self._records.append(record[fresh])
            check_count(len(self), words.shape[1])
        ids = self._ids[np.searchsorted(self._sorted, key)]
        if not np.array_equal(self._checks[ids], hashes[:, 1]):
            raise HashCollisionError
        return ids

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


def check_count(n: int, n_words: int) -> None:
    """Raise LimitExceededError where `n` patterns of so many words are too many."""
    limit = min(MAX_PATTERNS, MAX_PATTERN_BYTES // (8 * n_words))
    if n >= limit:
        raise LimitExceededError(
            f"the records touch {limit:,} different sets of tensors or more; "
            "decoding each would need too much memory.",
            hint=f"Read the names of some only with the option "
            f"{NAMES_OPTION}=sampled, or none with {NAMES_OPTION}=none.",
        )


class PatternTable:
    """The hash table that the compiled kernel numbers patterns with.

    Compares whole keys, so nothing can collide.
    """

    def __init__(self, layout: RecordLayout, capacity: int = 4096) -> None:
        self._n_words = layout.size // 8
        self.struct = RecordPatterns(count=0, last=-1)
        self._next = np.zeros(0, np.int32)
        self._hashes = np.zeros(0, _U64)
        self._exemplars = np.zeros((0, self._n_words), _U64)
        self._first_record = np.zeros(0, np.int64)
        self._slots = np.zeros(0, np.int32)
        self._resize(capacity)

    def __len__(self) -> int:
        return int(self.struct.count)

    def exemplars(self) -> Words:
        """Return the first record of each pattern, uint64[n, size / 8]."""
        return self._exemplars[: len(self)]

    def first_record(self) -> I64:
        """Return the number of the first record of each pattern, int64[n]."""
        return self._first_record[: len(self)]

    def grow(self) -> None:
        """Make room for twice as many patterns; LimitExceededError at the limit."""
        check_count(len(self), self._n_words)
        self._resize(2 * self.struct.capacity)

    def _resize(self, capacity: int) -> None:
        n = len(self)
        for name in ("_next", "_hashes", "_exemplars", "_first_record"):
            old = getattr(self, name)
            grown = np.empty((capacity, *old.shape[1:]), old.dtype)
            grown[:n] = old[:n]
            setattr(self, name, grown)
        n_slots = 4 * capacity
        self._slots = np.full(n_slots, -1, np.int32)
        _fill_slots(self._slots, self._hashes[:n])
        address = tensor_kernel.address
        s = self.struct
        s.capacity, s.n_slots = capacity, n_slots
        s.slots, s.next = address(self._slots), address(self._next)
        s.hashes = address(self._hashes)
        s.exemplars = address(self._exemplars)
        s.first_record = address(self._first_record)


def _fill_slots(slots: Array, hashes: Words) -> None:
    """Put patterns into an empty table by linear probing."""
    wrap = np.int64(len(slots) - 1)
    todo = np.arange(len(hashes))
    at = (hashes & _U64(wrap)).astype(np.int64)
    while len(todo):
        # The first claimant of a free slot gets it, the others move on by one.
        is_free = slots[at] < 0
        chosen, first = np.unique(at[is_free], return_index=True)
        slots[chosen] = todo[is_free][first]
        left = np.ones(len(todo), np.bool_)
        left[np.flatnonzero(is_free)[first]] = False
        todo, at = todo[left], (at[left] + 1) & wrap


def merged(
    tables: Sequence[tuple[Words, I64]], layout: RecordLayout
) -> tuple[list[npt.NDArray[np.int32]], Words]:
    """Return the number of each table's patterns among all, and all patterns.

    Numbers follow the order of first appearance in the file, so that it does not
    matter who read which part of it.

    Parameters
    ----------
    tables : first record of each pattern, and its number in the file.
    """
    if len(tables) == 1:
        exemplars, _ = tables[0]
        return [np.arange(len(exemplars), dtype=np.int32)], exemplars
    words = np.concatenate([words for words, _ in tables])
    record = np.concatenate([record for _, record in tables])
    by_record = np.argsort(record, kind="stable")
    ids = np.empty(len(words), np.int32)
    numbers = PatternNumbers(layout)
    for first in range(0, len(words), _MERGED_AT_ONCE):
        rows = by_record[first : first + _MERGED_AT_ONCE]
        ids[rows] = numbers.number(words[rows], record[rows])
    ends = np.cumsum([len(words) for words, _ in tables])[:-1]
    return np.split(ids, ends), numbers.exemplars()
