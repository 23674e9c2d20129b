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
from ggscope.readers.tensor.columns import Words
from ggscope.readers.tensor.layouts import RecordLayout

MAX_PATTERNS = 1 << 21
"""A trace with so many of them does not repeat itself; decoding each would take
gigabytes."""

MAX_PATTERN_BYTES = 1 << 30
"""The same for the records that show them."""

_MERGED_AT_ONCE = 1 << 14
_U64 = np.uint64


@cache
def name_factors(n_words: int) -> Words:
    """Return odd random factors, uint64[n_words]; the same every time.

    ``(words ^ words >> 32) @ factors`` hashes rows of words. The shift brings high
    bits down: without it, names that differ in their last letter only would differ
    in the top byte of the sum only.
    """
    return _odd(np.random.default_rng(0x6767_6D6C), n_words)


def secret_factors(n_words: int) -> Words:
    """Return factors like those of names, others in every run."""
    return _odd(np.random.default_rng(), n_words)


def _odd(rng: np.random.Generator, n: int) -> Words:
    factors = rng.integers(0, 1 << 63, n, dtype=_U64) * _U64(2) + _U64(1)
    factors.flags.writeable = False
    return factors


def hash_name(words: Words) -> npt.NDArray[np.uint32]:
    """Return a hash of the name in each row of `words`, uint32[m]; 0 for blank."""
    hashed = (_mixed(words) @ name_factors(words.shape[1])) >> _U64(32)
    is_blank = (words[:, 0] & _U64(0xFF)) == 0
    named = hashed.astype(np.uint32) | np.uint32(1)
    return np.asarray(np.where(is_blank, np.uint32(0), named))


def _mixed(words: Words) -> Words:
    return words ^ (words >> _U64(32))


def key_words(layout: RecordLayout) -> tuple[int, Words]:
    """Return the first word that tells patterns apart, and masks from there on."""
    mask = np.where(layout.key, np.uint8(0xFF), np.uint8(0)).view(_U64)
    used = np.flatnonzero(mask)
    return int(used[0]), mask[used[0] : used[-1] + 1]


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
        s = self.struct
        s.capacity, s.n_slots = capacity, n_slots
        s.slots, s.next, s.hashes = self._slots, self._next, self._hashes
        s.exemplars, s.first_record = self._exemplars, self._first_record


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
    by_record = np.argsort(np.concatenate([record for _, record in tables]))
    first_word, mask = key_words(layout)
    keys = words[:, first_word : first_word + len(mask)]
    ids, rows = _numbered(keys, mask, by_record)
    check_count(len(rows), words.shape[1])
    ends = np.cumsum([len(words) for words, _ in tables])[:-1]
    return np.split(ids, ends), words[rows]


def _numbered(
    keys: Words, mask: Words, order: Array
) -> tuple[npt.NDArray[np.int32], Array]:
    """Return a number for each key, and the row where each one is first.

    Keys are equal where they are so under the mask; numbers follow `order`.
    """
    starts = range(0, len(keys), _MERGED_AT_ONCE)
    pieces = [slice(at, at + _MERGED_AT_ONCE) for at in starts]
    while True:
        factors, hashes = secret_factors(len(mask)), np.empty(len(keys), _U64)
        for rows in pieces:
            hashes[rows] = _mixed(keys[rows] & mask) @ factors
        _, first, number = np.unique(
            hashes[order], return_index=True, return_inverse=True
        )
        rank = np.empty(len(first), np.int32)
        rank[np.argsort(first)] = np.arange(len(first))
        ids = np.empty(len(keys), np.int32)
        ids[order] = rank[number]
        firsts = order[np.sort(first)]
        if all(
            np.array_equal(keys[rows] & mask, keys[firsts[ids[rows]]] & mask)
            for rows in pieces
        ):
            return ids, firsts
        # Two keys have the same hash: with other factors they have not.
