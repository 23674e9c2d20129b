"""Lines in which ggml reports ops and backends, as columns; ``ops.c`` reads them.

Sources of the lines, in ggml: ``ggml_backend_sched_print_assignments`` of
``ggml-backend.cpp`` (GGML_SCHED_DEBUG), ``vk_perf_logger`` of ``ggml-vulkan``
(GGML_VK_PERF_LOGGER), and ``ggml-hexagon.cpp`` (GGML_HEXAGON_PROFILE), 2023 to 2026.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ggscope.model.tables import I32, I64, U8, Table
from ggscope.native.declared import OpRows, OpTally
from ggscope.native.library import library
from ggscope.readers.api import ReadContext
from ggscope.readers.common.line_table import Columns, LineForm, LineTable
from ggscope.readers.common.text_arena import Texts
from ggscope.readers.common.text_blocks import line_blocks
from ggscope.readers.source import Source

TEXTS, VALUES = 5, 4
_LINE_ROWS, _TEXT_BYTES = 64, 256
"""Of a line at most, as in ``ops.c``."""
_FORM = LineForm(
    {
        "line": np.int64, "offset": np.int64, "length": np.int32, "time": np.int64,
        "kind": np.uint8, "text": np.int32, "value": np.int64,
    },
    row_bytes=24,
    widths={"text": TEXTS, "value": VALUES},
    counts=("n_lines", "n_broken", "n_other"),
    firsts=("first_broken",),
)  # fmt: skip


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
class OpLines(Table):
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

    def rows(self, *kinds: Kind) -> I64:
        """Return the rows of some kinds, ascending."""
        return np.flatnonzero(np.isin(self.kind, kinds)).astype(np.int64)


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
    table, scan = LineTable(_FORM), _OpScan()
    for offset, block, is_last in line_blocks(source):
        context.progress(offset, source.size)
        table.add(offset, scan.rows(block, is_last))
    return scan.lines(table)


def scan_op_text(data: bytes) -> OpLines:
    """Return what the lines of a text, whose last may be cut, state about ops."""
    scan = _OpScan()
    return scan.lines(scan.rows(np.frombuffer(data, np.uint8), is_last=True))


class _OpScan:
    """Scans blocks of a file one after the other: lists and texts go on in the next."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._tally = OpTally()

    def rows(self, data: U8, is_last: bool) -> LineTable:
        """Return the rows of a block of whole lines."""
        block, tally, numbers = LineTable(_FORM), self._tally, self._numbers

        def scan(rest: U8, capacity: int, columns: Columns, _: object) -> int:
            n_bytes = 2 * len(rest) + 4 * _LINE_ROWS * TEXTS * _TEXT_BYTES
            texts = Texts(capacity + 2 * _LINE_ROWS * TEXTS, n_bytes)
            flat = {name: column.reshape(-1) for name, column in columns.items()}
            n: int = library().ggscope_scan_ops(
                rest, len(rest), int(is_last), capacity, OpRows(**flat), texts.table,
                tally,
            )  # fmt: skip
            # Numbers that count over all blocks.
            moved = [numbers.setdefault(text, len(numbers)) for text in texts]
            columns["text"][:n] = np.array([*moved, -1], np.int32)[columns["text"][:n]]
            return n

        block.scan(data, scan, tally)
        return block

    def lines(self, table: LineTable) -> OpLines:
        """Return the rows of a table with their texts."""
        texts = tuple(text.decode("utf-8", "replace") for text in self._numbers)
        return OpLines(**table.fields(), texts=texts)
