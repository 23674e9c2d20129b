"""Rows that a scan in C makes of the lines of a file, block by block, as columns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import U8, Array
from ggscope.model.trace import Severity
from ggscope.native.declared import Struct, TextTable
from ggscope.readers.common.text_blocks import TextSlots

BLOCK_ROWS = 1 << 16
Columns = dict[str, Array]
Scan = Callable[[U8, int, Columns, TextTable | None], int]
"""Fills columns of a capacity from lines; returns how many rows there are."""


@dataclass(frozen=True, slots=True)
class LineForm:
    """What a scan makes of lines.

    Attributes
    ----------
    dtypes : of each column; `line` and `offset` are among them. widths : of those that
        have several values in a row.
    texts : columns (int32) that number texts, -1 none. texts_per_row : texts that one
        row may have beyond its own.
    counts, firsts : fields of the tally that are added up (``n_lines`` is one of them),
        and that name a line, -1 none.
    row_bytes : what the line of a row has at least, about.
    is_packed : whether columns of one value alone take no memory; not for those with
        several values in a row.
    """

    dtypes: Mapping[str, type]
    counts: tuple[str, ...]
    row_bytes: int
    widths: Mapping[str, int] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    texts_per_row: int = 0
    firsts: tuple[str, ...] = ()
    is_packed: bool = False

    def empty(self, n: int) -> Columns:
        """Return columns of `n` rows to be written."""
        widths = self.widths
        return {
            name: np.empty((n, widths[name]) if name in widths else n, dtype)
            for name, dtype in self.dtypes.items()
        }


class LineTable:
    """Puts the rows of blocks one behind the other.

    Attributes
    ----------
    counts, firsts : the fields of the tallies, over all blocks.
    n_rows : number of rows so far.
    """

    def __init__(self, form: LineForm) -> None:
        self._form = form
        self._parts: list[Columns] = []
        self.n_rows = 0
        self._numbers: dict[str, int] = {}
        self.counts = dict.fromkeys(form.counts, 0)
        self.firsts = dict.fromkeys(form.firsts, -1)

    @property
    def texts(self) -> tuple[str, ...]:
        """All different texts."""
        return tuple(self._numbers)

    def add(self, offset: int, block: "LineTable") -> None:
        """Add the rows of the next block, whose first byte is at `offset`."""
        columns = block.columns()
        columns["offset"] += offset
        self._append(columns, list(block.texts), block.counts, block.firsts)
        if self._form.is_packed:
            for name, column in columns.items():
                columns[name] = _packed(column)

    def scan(self, data: U8, scan: Scan, tally: Struct) -> None:
        """Add the rows of a block of lines; `scan` fills `tally` anew each time."""
        form = self._form
        capacity = min(len(data) // form.row_bytes + 64, BLOCK_ROWS)
        done = 0
        while done < len(data):
            rest, columns = data[done:], form.empty(capacity)
            slots = TextSlots.of(capacity + form.texts_per_row) if form.texts else None
            n = scan(rest, capacity, columns, None if slots is None else slots.table)
            if not tally.consumed:  # a block without a line end
                tally.consumed, tally.n_lines = len(rest), 0
            rows = {name: column[:n].copy() for name, column in columns.items()}
            rows["offset"] += done
            self._append(
                rows,
                [] if slots is None else slots.texts(rest),
                {name: getattr(tally, name) for name in form.counts},
                {name: getattr(tally, name) for name in form.firsts},
            )
            done += tally.consumed

    def _append(
        self,
        columns: Columns,
        texts: list[str],
        counts: Mapping[str, int],
        firsts: Mapping[str, int],
    ) -> None:
        n_before = self.counts["n_lines"]
        columns["line"] += n_before
        if texts:
            numbers = self._numbers
            table = [numbers.setdefault(text, len(numbers)) for text in texts]
            moved = np.array([*table, -1], np.int32)
            for name in self._form.texts:
                columns[name] = moved[columns[name]]
        for name, first in firsts.items():
            if first >= 0 and self.firsts[name] < 0:
                self.firsts[name] = first + n_before
        for name, count in counts.items():
            self.counts[name] += count
        self._parts.append(columns)
        self.n_rows += len(columns["line"])

    def fields(self) -> dict[str, Any]:
        """Return columns, counts and first lines by name, and forget the rows."""
        return {**self.columns(), **self.counts, **self.firsts}

    def columns(self) -> Columns:
        """Return all rows, and forget them."""
        parts, self._parts, self.n_rows = self._parts, [], 0
        if len(parts) == 1:
            return parts[0]
        joined = _joined if self._form.is_packed else np.concatenate
        return {
            name: joined([empty, *(part.pop(name) for part in parts)])
            for name, empty in self._form.empty(0).items()
        }


def warn_broken(builder: TraceBuilder, n: int, first: int) -> None:
    """Warn of n lines that begin like an event and cannot be read, from the first."""
    builder.warn(
        Severity.DATA_LOSS,
        "broken_line",
        "lines begin like an event and cannot be read; they are left out.",
        count=n,
        place=f"line {first + 1:,}",
    )


def warn_stray(builder: TraceBuilder, n: int, first: int, examples: str) -> None:
    """Note n lines that are no events, from the first on, such as `examples`."""
    builder.warn(
        Severity.INFO,
        "stray_line",
        f"lines are no events: {examples}, or of another program.",
        count=n,
        place=f"line {first + 1:,}",
    )


def _packed(column: Array) -> Array:
    """Return a column that takes no memory where all of its values are alike."""
    if len(column) < 2 or column[0] != column[-1] or (column != column[0]).any():
        return column
    return np.broadcast_to(column[0].copy(), len(column))


def _joined(parts: list[Array]) -> Array:
    """Return columns one behind the other, as `_packed` does where all are packed."""
    firsts = [part[0] for part in parts if len(part)]
    is_packed = all(not part.strides[0] or len(part) < 2 for part in parts)
    if firsts and is_packed and all(first == firsts[0] for first in firsts):
        return np.broadcast_to(firsts[0], sum(map(len, parts)))
    return np.concatenate(parts)
