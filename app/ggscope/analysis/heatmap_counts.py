"""How often each row of a heatmap does each kind of access: one pass over all spans."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.chunks import CHUNK_ROWS, add_by_group, chunks, count_values
from ggscope.analysis.heatmap_rows import RowFinder
from ggscope.analysis.heatmap_touches import Touches, Variants, ranges
from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64, Array

_ROWS_AT_ONCE = 64
Mask = npt.NDArray[np.bool_]
_DENSE_KEYS = 1 << 24
"""So many pairs of row and variant are counted in a table, more by sorting."""


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """How often each row touches what: a sparse matrix.

    row, touch : int64[k]; n : int64[k] > 0.
    """

    row: I64
    touch: I64
    n: I64


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How often each row makes each touch: as a table, or sparse where that is small.

    Attributes
    ----------
    dense : int32[n_rows, n_columns], or None; column : int64[n_touches], in it.
    entries : used where there is no table.
    """

    n_rows: int
    dense: Array | None
    column: I64
    entries: Entries

    def table(self, where: I64, width: int) -> Array:
        """Return int[n_rows, width]: the counts added at a place per touch.

        int32 where all counts together fit, which halves the memory, else int64.

        Parameters
        ----------
        where : int64[n_touches], in 0..width - 1; -1 leaves a touch out.
        """
        if self.dense is None:
            total = np.zeros(self.n_rows * width, np.int64)
            place = where[self.entries.touch]
            keep = place >= 0
            at = self.entries.row[keep] * width + place[keep]
            np.add.at(total, at, self.entries.n[keep])
            return total.reshape(self.n_rows, width)
        touches = np.flatnonzero(where >= 0)
        touches = touches[np.argsort(where[touches], kind="stable")]
        if not len(touches):
            return np.zeros((self.n_rows, width), np.int64)
        n_all = int(self.dense.sum(axis=0, dtype=np.int64)[self.column[touches]].sum())
        dtype = np.int32 if n_all < 1 << 31 else np.int64
        found = np.empty((self.n_rows, width), dtype)
        places, first = np.unique(where[touches], return_index=True)
        is_single = len(places) == len(touches)
        n = self.dense.shape[1] if is_single else len(places)
        # Which column goes to each place; the last one is of zeros.
        source = np.full(width, n, np.int64)
        source[places] = self.column[touches] if is_single else np.arange(n)
        padded = np.zeros((_ROWS_AT_ONCE, n + 1), dtype)
        # A few rows at a time, so that what is gathered stays in the cache.
        for begin in range(0, self.n_rows, _ROWS_AT_ONCE):
            part = self.dense[begin : begin + _ROWS_AT_ONCE]
            if not is_single:
                part = np.take(part, self.column[touches], axis=1)
                part = np.add.reduceat(part, first, axis=1, dtype=dtype)
            to = found[begin : begin + len(part)]
            padded[: len(part), :n] = part
            np.take(padded[: len(part)], source, axis=1, out=to, mode="clip")
        return found

    def of_touches(self, keep: Mask) -> Entries:
        """Return the counts of some touches; `keep` is bool[n_touches]."""
        if self.dense is None:
            chosen = keep[self.entries.touch]
            e = self.entries
            return Entries(e.row[chosen], e.touch[chosen], e.n[chosen])
        touches = np.flatnonzero(keep)
        part = np.take(self.dense, self.column[touches], axis=1)
        row, place = np.nonzero(part)
        n = part[row, place].astype(np.int64)
        return Entries(row.astype(np.int64), touches[place], n)

    def summed(self) -> "Counts":
        """Return one row for all rows."""
        n = np.zeros(len(self.column), np.int64)
        if self.dense is None:
            add_by_group(n, self.entries.touch, self.entries.n)
        else:
            n += self.dense.sum(axis=0, dtype=np.int64)[self.column]
        touch = np.flatnonzero(n)
        entries = Entries(np.zeros(len(touch), np.int64), touch, n[touch])
        return Counts(1, None, self.column, entries)

    def sparse(self) -> "Counts":
        """Return the same without a table."""
        every = np.ones(len(self.column), np.bool_)
        return Counts(self.n_rows, None, self.column, self.of_touches(every))


class SpanCounter:
    """Counts spans by variant, and by row and variant for those on the file.

    Parameters
    ----------
    first : int64[n_variants + 1], which touches of the file each variant makes.
    place : row of the picture for each row of the finder.
    mask : bool[n_spans], whose spans count; all where None.

    Attributes
    ----------
    n_spans : int64[n_variants], filled by `run`.
    """

    def __init__(
        self, variants: Variants, first: I64, place: I64, mask: Mask | None
    ) -> None:
        self._column, self._place, self._mask = variants.column, place, mask
        lengths = np.diff(first)
        self._used = np.flatnonzero(lengths)
        self._n_used = max(len(self._used), 1)
        number = np.full(len(lengths) + 1, -1, np.int32)  # the last one is for -1
        number[self._used] = np.arange(len(self._used))
        self._number = number
        self._n_rows = int(place.max(initial=-1)) + 1
        n_keys = self._n_rows * self._n_used
        # No pair can occur more often than there are spans: int32 is enough.
        self._dense = np.zeros(n_keys, np.int32) if n_keys <= _DENSE_KEYS else None
        self._found: list[tuple[I64, I64]] = []
        self.n_spans = np.zeros(len(lengths), np.int64)

    def run(self, finder: RowFinder, n: int, watcher: Watcher | None = None) -> None:
        """Count all `n` spans. Raises Cancelled from the watcher."""
        for piece in chunks(n, CHUNK_ROWS):
            if watcher is not None:
                watcher.progress(piece.start, n)
            variant, row = self._column[piece], finder.of_spans(piece)
            use = row >= 0
            if self._mask is not None:
                use &= self._mask[piece]
            if not use.all():
                variant, row = variant[use], row[use]
            self.n_spans += count_values(variant, len(self.n_spans))
            number = self._number[variant]
            on_file = number >= 0
            key = self._place[row[on_file]]
            key *= self._n_used
            key += number[on_file]
            self._add(key)

    def _add(self, key: I64) -> None:
        if self._dense is not None:
            # Of the same type: a plain 1 is added twenty times slower.
            np.add.at(self._dense, key, np.int32(1))
        elif len(key):
            self._found.append(np.unique(key, return_counts=True))

    def counts(self, touches: Touches) -> Counts:
        """Return how often each row makes each of the `touches` of the file."""
        lengths = np.diff(touches.first)[self._used]
        column = np.repeat(np.arange(len(self._used), dtype=np.int64), lengths)
        none = np.zeros(0, np.int64)
        nothing = Entries(none, none, none)
        if not len(self._used):
            return Counts(self._n_rows, None, column, nothing)
        if self._dense is not None:
            table = self._dense.reshape(self._n_rows, self._n_used)
            return Counts(self._n_rows, table, column, nothing)
        key, n = self._sorted()
        row, number = np.divmod(key, self._n_used)
        variant = self._used[number]
        lengths = np.diff(touches.first)[variant]
        touch = ranges(touches.first[variant], lengths)
        entries = Entries(np.repeat(row, lengths), touch, np.repeat(n, lengths))
        return Counts(self._n_rows, None, column, entries)

    def _sorted(self) -> tuple[I64, I64]:
        """Return the pairs that occur and how often, from all pieces."""
        if not self._found:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        keys, counts = zip(*self._found, strict=True)
        key, place = np.unique(np.concatenate(keys), return_inverse=True)
        n = np.zeros(len(key), np.int64)
        add_by_group(n, place, np.concatenate(counts).astype(np.int64))
        return key, n


__all__ = ["Counts", "Entries", "Mask", "SpanCounter"]
