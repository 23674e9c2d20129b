"""Read stretches of records into columns: in numpy, or with the compiled kernel.

Both do the same; tests hold them together. A reader of blocks keeps the patterns
that it met in a table of its own, so that two of them can work side by side.
"""

import ctypes
from dataclasses import fields
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array
from ggscope.readers import tensor_kernel, tensor_ranges
from ggscope.readers.records import FIRST_EXTENSION_OP, MAX_TIMESTAMP
from ggscope.readers.source import Source
from ggscope.readers.tensor_columns import (
    N_THREADS,
    NEVER,
    SAMPLE_RECORDS,
    Columns,
    Tally,
    Wants,
)
from ggscope.readers.tensor_patterns import (
    PatternNumbers,
    PatternTable,
    hash_factors,
    hash_name,
    key_words,
)
from ggscope.readers.tensor_ranges import Words

OP, EMPTY, BAD_TIME, EXTENSION = range(4)
"""Kinds of records."""

BUFFER_BYTES = 256 << 10
"""What the kernel reads at once; stays in the second-level cache."""

_NUMBER_OF_EXPERTS = 856
_U64 = np.uint64


class BlockReader(Protocol):
    """Reads stretches of records into the rows of columns.

    Attributes
    ----------
    tally : what the last call counted.
    kind : uint8, kind of each record of the last call.
    thread_first : int64[65536], first op record of each raw thread id in the last
        call, `NEVER` for none.
    """

    tally: Tally
    kind: npt.NDArray[np.uint8]
    thread_first: I64

    def read(self, first: int, stop: int, columns: Columns, row: int) -> int:
        """Read records ``[first, stop)`` into rows from `row` on.

        Every record gets a row, ops or not; only those of ops mean something.

        Returns
        -------
        The number of records read, fewer than asked for where the file ends.
        """
        ...

    def patterns(self) -> tuple[Array, I64]:
        """Return the first record of each pattern so far, and its number.

        uint64[n_patterns, size / 8] and int64[n_patterns].
        """
        ...


class NumpyBlocks:
    """Reads blocks with numpy: the twin of ``ggscope_tensor_scan``."""

    def __init__(self, source: Source, wants: Wants, seed: int = 0) -> None:
        self._source = source
        self._wants = wants
        self._numbers = PatternNumbers(wants.layout, seed)
        self.tally = Tally()
        self.kind = np.zeros(0, np.uint8)
        self.thread_first = np.full(N_THREADS, NEVER, np.int64)

    def read(self, first: int, stop: int, columns: Columns, row: int) -> int:
        """Read records ``[first, stop)``; see `BlockReader`."""
        self.tally = Tally()
        self.kind = np.zeros(stop - first, np.uint8)
        self.thread_first.fill(NEVER)
        done = 0
        size = self._wants.layout.size
        for at, words in tensor_ranges.word_blocks(self._source, size, [(first, stop)]):
            self._take(at, words, columns, row + done, self.kind[done:])
            done += len(words)
        return done

    def patterns(self) -> tuple[Array, I64]:
        """Return the first record of each pattern, and its number."""
        return self._numbers.exemplars(), self._numbers.first_record()

    def _take(
        self, first: int, words: Words, columns: Columns, row: int, kind: Array
    ) -> None:
        """Take the records of a block that starts with record number `first`."""
        kind[: len(words)] = self._kinds(first, words)
        is_op = kind[: len(words)] == OP
        at = slice(row, row + len(words))
        _take_header(np.ascontiguousarray(words[:, :3]), columns, at)
        layers = (words[:, 1] >> _U64(32)) & _U64(0xFFFF)
        self.tally.has_layers |= bool(layers[is_op].any())
        self._note_threads(first, columns.thread[at], is_op)
        if columns.name_hash is not None:
            name = words[:, slice(*self._wants.name_words)]
            columns.name_hash[at] = hash_name(name)
        if columns.duration is not None:
            columns.duration[at] = np.where(is_op, words[:, 2] >> _U64(24), 0)
            self.tally.has_durations |= bool(columns.duration[at].any())
        if self._wants.layout.has_experts:
            experts = (words[:, _NUMBER_OF_EXPERTS // 8] & _U64(0xFF)) != 0
            self.tally.n_expert += int(np.count_nonzero(experts & is_op))
        if columns.pattern is not None:
            self._number(first, words, is_op, columns.pattern[at])

    def _kinds(self, first: int, words: Words) -> npt.NDArray[np.uint8]:
        """Return what each record is, and count them."""
        t = self.tally
        is_empty = np.asarray((words[:, 0] | words[:, 1] | words[:, 2]) == 0)
        if is_empty.any():
            is_empty[is_empty] = ~words[is_empty].any(axis=1)
            _count(t, "empty", first, is_empty)
        is_bad = words[:, 0] > _U64(MAX_TIMESTAMP)
        _count(t, "bad_time", first, is_bad)
        is_extension = np.zeros(len(words), np.bool_)
        if self._wants.layout.has_ggml_ops:
            is_extension = (words[:, 2] & _U64(0xFF)) >= _U64(FIRST_EXTENSION_OP)
            is_extension &= ~is_bad
        t.n_extension += int(np.count_nonzero(is_extension))
        kind = is_empty * EMPTY + is_bad * BAD_TIME + is_extension * EXTENSION
        t.n_records += len(words) - int(np.count_nonzero(is_empty))
        t.n_ops += int(np.count_nonzero(kind == OP))
        return np.asarray(kind.astype(np.uint8))

    def _note_threads(self, first: int, thread: Array, is_op: Array) -> None:
        rows = np.flatnonzero(is_op)
        ids, at = np.unique(thread[rows], return_index=True)
        self.thread_first[ids] = np.minimum(self.thread_first[ids], first + rows[at])

    def _number(self, first: int, words: Words, is_op: Array, pattern: Array) -> None:
        record = np.arange(first, first + len(words))
        every = self._wants.sample_every
        is_wanted = is_op & (record // SAMPLE_RECORDS % every == 0)
        pattern[:] = -1
        if is_wanted.all():
            pattern[:] = self._numbers.number(words, record)
        elif is_wanted.any():
            chosen = words[is_wanted]
            pattern[is_wanted] = self._numbers.number(chosen, record[is_wanted])


class CompiledBlocks:
    """Reads blocks with the compiled kernel, straight from the file."""

    def __init__(self, source: Source, wants: Wants, library: Any) -> None:
        self._source = source
        self._scan = library.ggscope_tensor_scan
        self._size = wants.layout.size
        self._table = PatternTable(wants.layout)
        self._buffer = np.empty(BUFFER_BYTES // 8, np.uint64)
        self._constants = _form_constants(wants)
        self._form = _form(wants, self._constants)
        self.tally = Tally()
        self.kind = np.zeros(0, np.uint8)
        self.thread_first = np.full(N_THREADS, NEVER, np.int64)

    def read(self, first: int, stop: int, columns: Columns, row: int) -> int:
        """Read records ``[first, stop)``; see `BlockReader`."""
        self.thread_first.fill(NEVER)
        if len(self.kind) < stop - first:
            self.kind = np.empty(stop - first, np.uint8)
        counts = tensor_kernel.TallyStruct(first_bad_time=-1, first_empty=-1)
        done = 0
        while True:
            done += self._scan(
                self._source.descriptor,
                first + done,
                stop,
                self._buffer.ctypes.data,
                self._buffer.nbytes // self._size,
                ctypes.byref(self._form),
                ctypes.byref(self._rows(columns, row + done, done)),
                ctypes.byref(self._table.struct),
                self.thread_first.ctypes.data,
                ctypes.byref(counts),
            )
            if counts.status != tensor_kernel.TABLE_FULL:
                break
            self._table.grow()
        if counts.status == tensor_kernel.FAILED:
            raise self._source.failure(counts.error, (first + done) * self._size)
        self.tally = Tally(**{f.name: getattr(counts, f.name) for f in fields(Tally)})
        self.tally.has_layers = bool(counts.has_layers)
        self.tally.has_durations = bool(counts.has_durations)
        return int(done)

    def patterns(self) -> tuple[Array, I64]:
        """Return the first record of each pattern, and its number."""
        return self._table.exemplars(), self._table.first_record()

    def _rows(
        self, columns: Columns, row: int, done: int
    ) -> tensor_kernel.ColumnsStruct:
        """Return where the rows from `row` on lie."""
        rows = {
            name: tensor_kernel.address(column[row:])
            for name in _SCANNED
            if (column := getattr(columns, name)) is not None
        }
        return tensor_kernel.ColumnsStruct(
            kind=tensor_kernel.address(self.kind[done:]), **rows
        )


_SCANNED = (
    "time", "token", "layer", "thread", "op", "phase", "duration", "name_hash",
    "pattern",
)  # fmt: skip


def _form_constants(wants: Wants) -> tuple[Words, Words, Words]:
    """Return mask and factors of the key, whole records long, and of the name.

    The factors differ from run to run: nobody can craft a file whose patterns all
    fall into one slot.
    """
    first, used = key_words(wants.layout)
    mask = np.zeros(wants.layout.size // 8, _U64)
    mask[first : first + len(used)] = used
    factors = np.random.default_rng().integers(0, 1 << 63, len(mask), _U64)
    name_first, name_stop = wants.name_words
    of_name = hash_factors(name_stop - name_first, 1)[:, 0]
    return mask, factors * _U64(2) + _U64(1), np.ascontiguousarray(of_name)


def _form(
    wants: Wants, constants: tuple[Words, Words, Words]
) -> tensor_kernel.FormStruct:
    layout = wants.layout
    first, used = key_words(layout)
    mask, factors, of_name = constants
    return tensor_kernel.FormStruct(
        n_words=layout.size // 8,
        key_first=first,
        key_stop=first + len(used),
        name_first=wants.name_words[0],
        name_stop=wants.name_words[1],
        experts_word=_NUMBER_OF_EXPERTS // 8 if layout.has_experts else 0,
        max_time=MAX_TIMESTAMP,
        first_extension=FIRST_EXTENSION_OP if layout.has_ggml_ops else 1 << 8,
        has_durations=layout.source is not None,
        sample_records=SAMPLE_RECORDS,
        sample_every=wants.sample_every,
        key_mask=tensor_kernel.address(mask),
        key_factors=tensor_kernel.address(factors),
        name_factors=tensor_kernel.address(of_name),
    )


def _take_header(head: Words, columns: Columns, at: slice) -> None:
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
