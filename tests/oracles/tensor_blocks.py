"""What the compiled scan of tensor records does, with numpy alone."""

from functools import cache

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, U64, Array
from ggscope.readers.source import Source
from ggscope.readers.tensor import scan
from ggscope.readers.tensor.columns import (
    N_THREADS,
    NEVER,
    Headers,
    Tally,
    TensorOptions,
    word_blocks,
)
from ggscope.readers.tensor.layouts import (
    FIRST_EXTENSION_OP,
    MAX_TIMESTAMP,
    RecordLayout,
)
from ggscope.readers.tensor.scan import (
    BAD_TIME,
    EMPTY,
    EXTENSION,
    OP,
    check_count,
    hash_name,
    key_words,
)

_NUMBER_OF_EXPERTS = 856
_U64 = np.uint64


class NumpyBlocks:
    """Reads blocks with numpy: the twin of ``ggscope_tensor_scan``."""

    def __init__(self, source: Source, options: TensorOptions) -> None:
        self._source = source
        self._options = options
        self._numbers = PatternNumbers(options.layout)
        self.tally = Tally()
        self.kind = np.zeros(0, np.uint8)
        self.thread_first = np.full(N_THREADS, NEVER, np.int64)

    def read(self, first: int, stop: int, columns: Headers, row: int) -> int:
        """Read records ``[first, stop)``."""
        self.tally = Tally()
        self.kind = np.zeros(stop - first, np.uint8)
        self.thread_first.fill(NEVER)
        done = 0
        size = self._options.layout.size
        for at, text in word_blocks(self._source, size, [(first, stop)]):
            self._take(at, text, columns, row + done, self.kind[done:])
            done += len(text)
        return done

    def patterns(self) -> tuple[Array, I64]:
        """Return the first record of each pattern, and its number."""
        return self._numbers.exemplars(), self._numbers.first_record()

    def _take(
        self, first: int, text: U64, columns: Headers, row: int, kind: Array
    ) -> None:
        """Take the records of a block that starts with record number `first`."""
        kind[: len(text)] = self._kinds(first, text)
        is_op = kind[: len(text)] == OP
        at = slice(row, row + len(text))
        _take_header(np.ascontiguousarray(text[:, :3]), columns, at)
        layers = (text[:, 1] >> _U64(32)) & _U64(0xFFFF)
        self.tally.has_layers |= bool(layers[is_op].any())
        self._note_threads(columns.thread[at], columns.time[at], is_op)
        if columns.name_hash is not None:
            name = text[:, slice(*self._options.name_words)]
            columns.name_hash[at] = hash_name(name)
        if columns.duration is not None:
            columns.duration[at] = np.where(is_op, text[:, 2] >> _U64(24), 0)
            self.tally.has_durations |= bool(columns.duration[at].any())
        if self._options.layout.has_experts:
            experts = (text[:, _NUMBER_OF_EXPERTS // 8] & _U64(0xFF)) != 0
            self.tally.n_expert += int(np.count_nonzero(experts & is_op))
        if columns.pattern is not None:
            self._number(first, text, is_op, columns.pattern[at])

    def _kinds(self, first: int, text: U64) -> npt.NDArray[np.uint8]:
        """Return what each record is, and count them."""
        t = self.tally
        is_empty = np.asarray((text[:, 0] | text[:, 1] | text[:, 2]) == 0)
        if is_empty.any():
            is_empty[is_empty] = ~text[is_empty].any(axis=1)
            _count(t, "empty", first, is_empty)
        is_bad = text[:, 0] > _U64(MAX_TIMESTAMP)
        _count(t, "bad_time", first, is_bad)
        is_extension = np.zeros(len(text), np.bool_)
        if self._options.layout.has_ggml_ops:
            is_extension = (text[:, 2] & _U64(0xFF)) >= _U64(FIRST_EXTENSION_OP)
            is_extension &= ~is_bad
        t.n_extension += int(np.count_nonzero(is_extension))
        kind = is_empty * EMPTY + is_bad * BAD_TIME + is_extension * EXTENSION
        t.n_records += len(text) - int(np.count_nonzero(is_empty))
        t.n_ops += int(np.count_nonzero(kind == OP))
        return np.asarray(kind.astype(np.uint8))

    def _note_threads(self, thread: Array, time: Array, is_op: Array) -> None:
        np.minimum.at(self.thread_first, thread[is_op], time[is_op])

    def _number(self, first: int, text: U64, is_op: Array, pattern: Array) -> None:
        record = np.arange(first, first + len(text))
        every = self._options.sample_every
        is_selected = is_op & (record // scan.SAMPLE_RECORDS % every == 0)
        pattern[:] = -1
        if is_selected.all():
            pattern[:] = self._numbers.number(text, record)
        elif is_selected.any():
            chosen = text[is_selected]
            pattern[is_selected] = self._numbers.number(chosen, record[is_selected])


def _take_header(head: U64, columns: Headers, at: slice) -> None:
    columns.time[at] = head[:, 0].view(np.int64)
    token = (head[:, 1] & _U64(0xFFFF_FFFF)).astype(np.uint32)
    columns.token[at] = np.where(token < 1 << 31, token, 0xFFFF_FFFF).view(np.int32)
    layer = ((head[:, 1] >> _U64(32)) & _U64(0xFFFF)).astype(np.uint16)
    columns.layer[at] = np.where(layer < 1 << 15, layer, 0xFFFF).view(np.int16)
    columns.thread[at] = head[:, 1] >> _U64(48)
    columns.op[at] = head[:, 2] & _U64(0xFF)
    columns.phase[at] = (head[:, 2] >> _U64(8)) & _U64(0xFF)


def _count(tally: Tally, what: str, first: int, marked: Array) -> None:
    """Add the marked records to ``n_<what>``; note the first of them."""
    count = int(np.count_nonzero(marked))
    if not count:
        return
    setattr(tally, f"n_{what}", getattr(tally, f"n_{what}") + count)
    if getattr(tally, f"first_{what}") < 0:
        setattr(tally, f"first_{what}", first + int(np.argmax(marked)))


class HashCollisionError(Exception):
    """Two different patterns have the same hash."""


@cache
def hash_factors(n_words: int) -> U64:
    """Return odd random factors, uint64[n_words, 2]; the same every time."""
    high = np.random.default_rng(1).integers(0, 1 << 63, (n_words, 2), dtype=_U64)
    return high * _U64(2) + _U64(1)


class PatternNumbers:
    """Numbers the distinct patterns of a layout's records, in order of appearance.

    Two 64-bit hashes of the bytes that matter find a pattern: one to look it up,
    the other to notice a collision.
    """

    def __init__(self, layout: RecordLayout) -> None:
        first, self._mask = key_words(layout)
        self._columns = slice(first, first + len(self._mask))
        self._factors = hash_factors(len(self._mask))
        self._sorted = np.zeros(0, _U64)
        self._ids = np.zeros(0, np.int32)
        self._checks = np.zeros(0, _U64)
        self._exemplars = [np.zeros((0, layout.size // 8), _U64)]
        self._records = [np.zeros(0, np.int64)]

    def __len__(self) -> int:
        return len(self._sorted)

    def exemplars(self) -> U64:
        """Return the first record of each pattern, uint64[n, size / 8]."""
        return np.concatenate(self._exemplars)

    def first_record(self) -> I64:
        """Return the number of the first record of each pattern, int64[n]."""
        return np.concatenate(self._records)

    def number(self, text: U64, record: I64) -> npt.NDArray[np.int32]:
        """Return the pattern of each record.

        Parameters
        ----------
        words : uint64[m, record size / 8].
        record : their numbers in the file.

        Raises
        ------
        HashCollisionError
            If two of the patterns so far cannot be distinguished.
        LimitExceededError
            If there are too many patterns.
        """
        masked = text[:, self._columns] & self._mask
        masked ^= masked >> _U64(32)
        hashes = masked @ self._factors
        key = np.ascontiguousarray(hashes[:, 0])
        fresh = self._unknown(key)
        if len(fresh):
            self._learn(key[fresh], hashes[fresh, 1])
            self._exemplars.append(text[fresh])
            self._records.append(record[fresh])
            check_count(len(self), text.shape[1])
        ids = self._ids[np.searchsorted(self._sorted, key)]
        if not np.array_equal(self._checks[ids], hashes[:, 1]):
            raise HashCollisionError
        return ids

    def _unknown(self, key: U64) -> Array:
        """Return the first row of every key that is not known yet, ascending."""
        if not len(self._sorted):
            rows = np.arange(len(key))
        else:
            at = np.minimum(np.searchsorted(self._sorted, key), len(self._sorted) - 1)
            rows = np.flatnonzero(self._sorted[at] != key)
        if len(rows):
            rows = rows[np.unique(key[rows], return_index=True)[1]]
        return np.sort(rows)

    def _learn(self, key: U64, checks: U64) -> None:
        ids = np.arange(len(self), len(self) + len(key), dtype=np.int32)
        self._checks = np.append(self._checks, checks)
        joined = np.append(self._sorted, key)
        order = np.argsort(joined)
        self._sorted = joined[order]
        self._ids = np.append(self._ids, ids)[order]
