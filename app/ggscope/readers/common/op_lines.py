"""Lines in which ggml reports ops and backends, as columns; ``ops.c`` reads them.

Sources of the lines, in ggml: ``ggml_backend_sched_print_assignments`` of
``ggml-backend.cpp`` (GGML_SCHED_DEBUG), ``vk_perf_logger`` of ``ggml-vulkan``
(GGML_VK_PERF_LOGGER), and ``ggml-hexagon.cpp`` (GGML_HEXAGON_PROFILE), 2023 to 2026.
"""

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from ggscope.errors import ReadError
from ggscope.model.tables import I32, I64, U8, Array
from ggscope.model.trace import RecordView
from ggscope.native.declared import OpRows, OpTally
from ggscope.native.library import library
from ggscope.readers.api import ReadContext
from ggscope.readers.common.text_arena import Texts
from ggscope.readers.common.text_blocks import line_blocks
from ggscope.readers.source import Source, read_at

TEXTS, VALUES = 5, 4
_CAPACITY = 1 << 16
_ROW_BYTES = 24
"""A row has about so many bytes of a line at least."""
_RECORD_BYTES = 4096
_LINE_ROWS, _TEXT_BYTES = 64, 256
"""Of a line at most, as in ``ops.c``."""
_DTYPES = {
    "line": np.int64, "offset": np.int64, "length": np.int32, "time": np.int64,
    "kind": np.uint8, "text": np.int32, "value": np.int64,
}  # fmt: skip
_WIDTHS = {"text": TEXTS, "value": VALUES}


class Kind(IntEnum):
    """Kind of a row, as in ``ops.c``: its texts; its values (-1 = not stated)."""

    SPLIT = 1
    """backend; number, inputs."""
    INPUT = 2
    """Of the split before: name; index, least bytes, rounded down to."""
    NODE = 3
    """op, name, backend, cause; number, least bytes, rounded down to, is computed."""
    SOURCE = 4
    """Of the node before: -, name, backend, cause; index, least bytes, rounded to."""
    TIMINGS = 5
    """A list of Vulkan begins."""
    TIMED_OP = 6
    """name; times, mean ns, total ns, flop/s."""
    TOTAL = 7
    """-; -, -, total ns."""
    PROFILED_OP = 8
    """op, names, session, dims, types; µs, cycles, first cycle, Hz."""
    BATCH = 9
    """As `PROFILED_OP`, of a batch."""
    EVENT = 10
    """event, op, session; thread, cycle, info, is end."""


@dataclass(frozen=True, slots=True, eq=False)
class OpLines:
    """What lines state about ops, in the order of the file.

    Attributes
    ----------
    line, offset, length : int64[n], int64[n], int32[n]; number of the line from 0, and
        its bytes.
    time : int64[n], ns since the start of the program; -1 where the line has no clock.
    kind : uint8[n], `Kind`.
    text : int32[n, TEXTS] into `texts`, -1 none; `value` : int64[n, VALUES].
    texts : all different texts.
    n_lines, n_broken, n_other : lines of the file; that begin like one of these and
        state nothing; that are others.
    first_broken : number of a line, -1 none.
    """

    line: I64
    offset: I64
    length: I32
    time: I64
    kind: U8
    text: I32
    value: I64
    texts: tuple[str, ...]
    n_lines: int
    n_broken: int
    n_other: int
    first_broken: int

    def __len__(self) -> int:
        return len(self.line)

    def rows(self, *kinds: Kind) -> I64:
        """Return the rows of some kinds, ascending."""
        return np.flatnonzero(np.isin(self.kind, kinds)).astype(np.int64)


class _Scan:
    """Puts the rows of blocks one behind the other."""

    def __init__(self) -> None:
        self._parts: list[dict[str, Array]] = []
        self._numbers: dict[bytes, int] = {}
        self._tally = OpTally()
        self._n_lines = self._n_broken = self._n_other = 0
        self._first_broken = -1

    def add(self, offset: int, data: U8, *, is_last: bool) -> None:
        """Add the rows of a block of whole lines."""
        capacity = min(len(data) // _ROW_BYTES + 4 * _LINE_ROWS, _CAPACITY)
        n_texts = capacity + 2 * _LINE_ROWS * TEXTS
        size = 2 * len(data) + 4 * _LINE_ROWS * TEXTS * _TEXT_BYTES
        tally, done = self._tally, 0
        while done < len(data):
            rest = data[done:]
            columns = {name: _column(name, capacity) for name in _DTYPES}
            texts = Texts(n_texts, size)
            n = library().ggscope_scan_ops(
                rest, len(rest), int(is_last), capacity, OpRows(**_flat(columns)),
                texts.table, tally,
            )  # fmt: skip
            if not tally.consumed:  # a block without a line end
                tally.consumed, tally.n_lines = len(rest), 0
            rows = {name: column[:n].copy() for name, column in columns.items()}
            rows["line"] += self._n_lines
            rows["offset"] += offset + done
            rows["text"] = self._renumbered(rows["text"], texts)
            self._parts.append(rows)
            if tally.first_broken >= 0 and self._first_broken < 0:
                self._first_broken = tally.first_broken + self._n_lines
            self._n_lines += tally.n_lines
            self._n_broken += tally.n_broken
            self._n_other += tally.n_other
            done += tally.consumed

    def _renumbered(self, text: I32, texts: Texts) -> I32:
        """Return numbers of texts that count over all blocks."""
        numbers = self._numbers
        table = [numbers.setdefault(word, len(numbers)) for word in texts]
        return np.array([*table, -1], np.int32)[text]

    def lines(self) -> OpLines:
        """Return all rows."""
        columns: dict[str, Any] = {
            name: np.concatenate(
                [_column(name, 0), *(part.pop(name) for part in self._parts)]
            )
            for name in _DTYPES
        }
        texts = tuple(text.decode("utf-8", "replace") for text in self._numbers)
        return OpLines(
            **columns,
            texts=texts,
            n_lines=self._n_lines,
            n_broken=self._n_broken,
            n_other=self._n_other,
            first_broken=self._first_broken,
        )


def _column(name: str, n: int) -> Array:
    shape = (n, _WIDTHS[name]) if name in _WIDTHS else n
    return np.empty(shape, _DTYPES[name])


def _flat(columns: dict[str, Array]) -> dict[str, Array]:
    return {name: column.reshape(-1) for name, column in columns.items()}


def scan_op_lines(source: Source, context: ReadContext) -> OpLines:
    """Return what the lines of a file state about ops.

    Memory is that of a block and of the rows. A line that is longer than 64 MiB is cut
    there.

    Raises
    ------
    ReadError
        If the file cannot be read.
    Cancelled
        If that was asked for.
    """
    scan = _Scan()
    for offset, block, is_last in line_blocks(source):
        context.progress(offset, source.size)
        scan.add(offset, block, is_last=is_last)
    return scan.lines()


def scan_op_text(data: bytes) -> OpLines:
    """Return what the lines of a text, whose last may be cut, state about ops."""
    scan = _Scan()
    scan.add(0, np.frombuffer(data, np.uint8), is_last=True)
    return scan.lines()


class OpLineRecords:
    """Gives back single lines."""

    def __init__(self, path: Path, lines: OpLines) -> None:
        self._path = path
        # Rows of a line lie one behind the other.
        is_first = np.ones(len(lines), np.bool_)
        is_first[1:] = lines.line[1:] != lines.line[:-1]
        self._line = lines.line[is_first]
        self._offset = lines.offset[is_first]
        self._length = lines.length[is_first]

    def view(self, record: int) -> RecordView:
        """Return a line by its number, from 0.

        Raises
        ------
        ReadError
            If it is gone, or is about no op.
        """
        row = int(np.searchsorted(self._line, record))
        if row >= len(self._line) or self._line[row] != record:
            raise ReadError(f"line {record + 1:,} is not kept.")
        offset = int(self._offset[row])
        data = read_at(self._path, offset, min(int(self._length[row]), _RECORD_BYTES))
        text = data.decode("utf-8", "replace")
        return RecordView(
            offset,
            data,
            (("line", f"{record + 1:,}", -1, 0), ("text", text, 0, len(data))),
        )
