"""Span ids in buckets that ascend by some value; sorted further when looked at.

Sorting 33 million spans takes seconds, putting them into some ten thousand buckets
a third of one: a person sees fifty rows at a time, and those are quickly sorted.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.groups import chunks
from ggscope.analysis.workers import Watcher, n_workers, share_out
from ggscope.model.tables import I64, Array
from ggscope.native.library import library

N_CODES = 1 << 16
MAX_UNSORTED = 1 << 16
"""A larger bucket holds one value only."""
_PIECE_ROWS = 1 << 17
"""Rows whose temporaries fit the cache."""
_STEP_ROWS = 1 << 21
"""Rows that each thread places between two looks at the watcher, about 20 ms."""
_MISSING = np.iinfo(np.int64).max
_MIN_COMPILED = 1 << 18
"""Rows from which on the compiled sort gains more than its threads cost."""
_ONE = int(np.float32(1).view(np.int32))
_CODED_BITS = 10
"""Of the mantissa; with the 63 powers of two just fewer than 2^16 codes."""

U16 = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True, eq=False)
class Coder:
    """Turns values into codes that ascend with them.

    Attributes
    ----------
    encode : takes int64 values; the greatest one stands for "missing" and gets the
        last code.
    is_exact : whether different values have different codes.
    """

    encode: Callable[[I64], U16]
    is_exact: bool


def partition(
    n: int,
    ids: Array | None,
    values: Callable[[slice | Array], I64],
    coder: Coder,
    watcher: Watcher | None = None,
    *,
    codes: Callable[[slice | Array], U16] | None = None,
) -> tuple[Array, I64]:
    """Return (ids, edges): bucket k is ``ids[edges[k]:edges[k + 1]]``.

    All values of a bucket are less than those of the next; within a bucket ids keep
    their order. No bucket is empty. One with more than `MAX_UNSORTED` ids holds one
    value only.

    Parameters
    ----------
    n, ids : the ids to arrange: 0..n-1 where `ids` is None, else these n.
    values : takes ids (a slice for consecutive ones), returns int64 values.
    codes : a shorter way to ``coder.encode(values(ids))``, where there is one.

    Notes
    -----
    4 bytes per id, while at work 6. Raises Cancelled from the watcher.
    """
    dtype = np.int32 if n < 1 << 31 and (ids is None or ids.itemsize <= 4) else np.int64
    of = codes or (lambda rows: coder.encode(values(rows)))
    found = _encoded(n, ids, of, watcher)
    placed, counts = _by_code(found, ids, dtype, watcher, n)
    del found
    edges = _edges(counts)
    if not coder.is_exact:
        edges = _refined(placed, edges, values, watcher)
    return placed, edges


def linear_coder(low: int, high: int) -> Coder:
    """Return a coder for values of low..high: equal steps, exact below 2^16."""
    shift = 0
    while (high - low) >> shift > N_CODES - 2:
        shift += 1

    def encode(values: I64) -> U16:
        codes = ((values - low) >> shift).astype(np.uint16)
        codes[values == _MISSING] = N_CODES - 1
        return codes

    return Coder(encode, is_exact=shift == 0)


def proportional_coder(is_descending: bool = False) -> Coder:
    """Return a coder for any values >= 0: steps of a thousandth.

    Descending: for values <= 0, which are negated ones.
    """

    def encode(values: I64) -> U16:
        missing = values == _MISSING
        amount = -values if is_descending else values
        # The bits of a float ascend with it; its rounding does no harm, as equal
        # values stay equal and none overtakes another.
        bits = (amount + 1).astype(np.float32).view(np.int32) - _ONE
        codes = (bits >> (23 - _CODED_BITS)).astype(np.uint16)
        top = N_CODES - 2
        if is_descending:
            codes = (top - codes).astype(np.uint16)
        codes[missing] = N_CODES - 1
        return codes

    return Coder(encode, is_exact=False)


def _encoded(
    n: int,
    ids: Array | None,
    of: Callable[[slice | Array], U16],
    watcher: Watcher | None,
) -> U16:
    codes = np.empty(n, np.uint16)

    def encode(_: int, rows: slice) -> None:
        codes[rows] = of(rows if ids is None else ids[rows])

    share_out(encode, chunks(n, _PIECE_ROWS), watcher, total=2 * n)
    return codes


def _by_code(
    codes: U16,
    ids: Array | None,
    dtype: npt.DTypeLike,
    watcher: Watcher | None,
    done: int,
) -> tuple[Array, I64]:
    """Return the ids by code, stable, and how many there are of each code."""
    n = len(codes)
    if dtype != np.int32 or n < _MIN_COMPILED:
        order = np.argsort(codes, kind="stable")
        placed = (order if ids is None else ids[order]).astype(dtype, copy=False)
        return placed, np.bincount(codes, minlength=N_CODES).astype(np.int64)
    part = max(1, -(-n // n_workers()))
    parts = list(chunks(n, part))
    counts = np.zeros((len(parts), N_CODES), np.int64)
    given = None if ids is None else np.ascontiguousarray(ids, np.int32)
    placed = np.empty(n, np.int32)

    def count(_: int, rows: slice) -> None:
        library().ggscope_codes_count(
            codes[rows], 2, None, 0, rows.stop - rows.start, counts[rows.start // part]
        )

    def place(_: int, rows: slice) -> None:
        library().ggscope_codes_arrange(
            codes[rows], None if given is None else given[rows], rows.start,
            rows.stop - rows.start, cursors[rows.start // part], placed, n,
        )  # fmt: skip

    share_out(count, parts, watcher, done=done, total=done + n)
    # A part's ids of a code come after those of the parts before it.
    of_code = counts.sum(axis=0)
    cursors = np.cumsum(counts, axis=0) - counts + (np.cumsum(of_code) - of_code)
    for step in range(0, part, _STEP_ROWS):
        each = [
            slice(rows.start + step, min(rows.start + step + _STEP_ROWS, rows.stop))
            for rows in parts
            if rows.start + step < rows.stop
        ]
        share_out(place, each, watcher, done=done + n)
    return placed, of_code


def _edges(counts: I64) -> I64:
    return np.concatenate([[0], np.cumsum(counts[counts > 0])])


def _refined(
    placed: Array,
    edges: I64,
    values: Callable[[slice | Array], I64],
    watcher: Watcher | None,
) -> I64:
    """Split buckets that are too large in place; return the edges of all buckets."""
    pieces: list[I64] = [edges]
    for k in np.flatnonzero(np.diff(edges) > MAX_UNSORTED).tolist():
        low, high = int(edges[k]), int(edges[k + 1])
        inside = values(placed[low:high])
        least, most = int(inside.min()), int(inside.max())
        if watcher is not None:
            watcher.progress(high, len(placed))
        if least == most:
            continue
        coder = linear_coder(least, most)
        codes = coder.encode(inside)
        del inside
        ids, counts = _by_code(codes, placed[low:high], placed.dtype, None, high - low)
        placed[low:high] = ids
        within = _edges(counts)
        if not coder.is_exact:
            within = _refined(placed[low:high], within, values, watcher)
        pieces.append(within + low)
    return np.unique(np.concatenate(pieces)) if len(pieces) > 1 else edges
