"""Small numbers for values and labels that occur again and again."""

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, distinct
from ggscope.readers.ggmlviz_window import Bytes, unaligned


def encode(values: Array) -> tuple[npt.NDArray[np.int32], Array, I64]:
    """Return numbers for values, in the order of their first appearance.

    Returns
    -------
    The number of each value, int32[n]; the distinct values; the row where each
    of them appears first.

    Notes
    -----
    Sorting millions of values to find a handful is slow, so a sample is sorted
    and the rest looked up in it.
    """
    if bool((values[1:] > values[:-1]).all()):  # all different, and in order
        rows = np.arange(len(values))
        return rows.astype(np.int32), values, rows
    known = distinct(values[:: max(len(values) >> 14, 1)])
    codes = _positions(known, values)
    missing = known[codes] != values if len(known) else np.zeros(0, np.bool_)
    if missing.any():
        known = distinct(np.concatenate([known, values[missing]]))
        codes = _positions(known, values)
    first = np.empty(len(known), np.int64)
    # Written backwards, so that the first appearance stays.
    first[codes[::-1]] = np.arange(len(values) - 1, -1, -1)
    order = np.argsort(first)
    rank = np.empty(len(known), np.int32)
    rank[order] = np.arange(len(known), dtype=np.int32)
    return rank[codes], known[order], first[order]


def _positions(known: Array, values: Array) -> Array:
    return np.minimum(np.searchsorted(known, values), max(len(known) - 1, 0))


def distinct_labels(data: Bytes, at: I64, length: I64) -> tuple[Array, I64]:
    """Return a number for each label, equal for equal bytes, and first rows."""
    codes, _, first = encode(_digests(data, at, length))
    model = first[codes]
    if not _are_equal(data, at, length, at[model], length[model]):
        return _distinct_slow(data, at, length)
    return codes, first


_MIX = np.uint64(0x9E37_79B9_7F4A_7C15)


def _digests(data: Bytes, at: I64, length: I64) -> npt.NDArray[np.uint64]:
    """Return a 64-bit digest of each label."""
    digest = (length.astype(np.uint64) + np.uint64(1)) * _MIX
    for k in range(0, int(length.max()), 8):
        rows = np.flatnonzero(length > k)
        mixed = (digest[rows] ^ _words(data, at[rows] + k, length[rows] - k)) * _MIX
        digest[rows] = mixed ^ (mixed >> np.uint64(29))
    return digest


def _words(data: Bytes, at: I64, rest: I64) -> npt.NDArray[np.uint64]:
    """Return 8 bytes of each label, zeros where `rest` bytes end before."""
    words: npt.NDArray[np.uint64] = unaligned(data, 8)[at].view("<u8")
    unused = (8 - np.minimum(rest, 8)).astype(np.uint64) * np.uint64(8)
    mask = np.uint64(0xFFFF_FFFF_FFFF_FFFF) >> unused
    return words & mask


def _are_equal(
    data: Bytes, at: I64, length: I64, other: I64, other_length: I64
) -> bool:
    """Tell whether all labels equal their others, byte for byte."""
    if not np.array_equal(length, other_length):
        return False
    for k in range(0, int(length.max()), 8):
        rows = np.flatnonzero(length > k)
        rest = length[rows] - k
        if not np.array_equal(
            _words(data, at[rows] + k, rest), _words(data, other[rows] + k, rest)
        ):
            return False
    return True


def _distinct_slow(data: Bytes, at: I64, length: I64) -> tuple[Array, I64]:
    """Return what `_distinct_labels` does, one by one.

    Only where unequal labels have equal digests, which takes a forged file.
    """
    seen: dict[bytes, int] = {}
    first: list[int] = []
    codes = np.empty(len(at), np.int32)
    for row, (start, n) in enumerate(zip(at.tolist(), length.tolist(), strict=True)):
        raw = data[start : start + n].tobytes()
        codes[row] = seen.setdefault(raw, len(first))
        if codes[row] == len(first):
            first.append(row)
    return codes, np.array(first, np.int64)
