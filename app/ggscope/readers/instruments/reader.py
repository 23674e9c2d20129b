"""Reader of call trees that Instruments copies: one lane, as wide as they weigh."""

import re
from decimal import Decimal, InvalidOperation

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity, Trace
from ggscope.model.units import Clock, Unit
from ggscope.readers.api import BOM, NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import file_trace, note_open_end, refuse_larger
from ggscope.readers.common.line_records import LineRecords
from ggscope.readers.common.stacks import (
    MAX_FRAMES,
    StackBuilder,
    add_stack_lane,
    add_stack_spans,
    spans_by_weight,
    warn_of_depth,
)
from ggscope.readers.common.weight_units import kind_of, ticks_of, unit_of
from ggscope.readers.instruments import INFO
from ggscope.readers.source import Source

MAX_BYTES = 256 << 20
_HEAD = re.compile(rb"[^\t\n]*\bWeight\t+Self (Weight|Bytes|Count)\t")
_WEIGHT = re.compile(r"([\d.,]+)\s*([A-Za-zµ]*)")


class InstrumentsReader:
    """Reads the text of Instruments' Deep Copy."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its first line."""
        if _HEAD.match(head.data.removeprefix(BOM)):
            return Sniff(90, "the header of a call tree of Instruments")
        return NOT_MINE

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a file.

        Raises
        ------
        CorruptError
            If no row is a call.
        LimitExceededError
            If the file is larger than any such text.
        """
        refuse_larger(source, MAX_BYTES, "Is this a call tree of Instruments?")
        context.progress(0, source.size)
        tree = _Tree()
        data = source.read(0, source.size)
        at = len(BOM) if data.startswith(BOM) else 0
        for number, line in enumerate(data[at:].split(b"\n")):
            if number % 4096 == 0:
                context.check_cancelled()
            if number and line.strip():
                tree.take(line.rstrip(b"\r"), number, at)
            at += len(line) + 1
        if not tree.nodes:
            raise CorruptError(
                "no row is a call with a weight.",
                offset=0,
                hint="Copy the tree by Edit ▸ Deep Copy.",
            )
        builder = TraceBuilder()
        tree.add(builder, source)
        note_open_end(builder, source)
        n = len(tree.nodes)
        return file_trace(builder, INFO, source, n, {"rows": n}, noun="rows")


class _Tree:
    """Takes the rows of a tree: each lies below the last one that is less indented."""

    def __init__(self) -> None:
        self._made = StackBuilder()
        self._open: list[tuple[int, int]] = []
        self.nodes: list[int] = []
        self._weights: list[int] = []
        self._lines: list[int] = []
        self._offsets: list[int] = []
        self._unit: Unit | None = None
        self._n_other = self._n_deep = 0
        self._first_other = -1

    def take(self, line: bytes, number: int, offset: int) -> None:
        """Take one row: weight, own weight, name."""
        cells = line.decode("utf-8", "replace").split("\t")
        own = self._ticks(cells[1]) if len(cells) > 2 else None
        if own is None:
            self._first_other = offset if self._first_other < 0 else self._first_other
            self._n_other += 1
            return
        name = cells[-1]
        indent = len(name) - len(name.lstrip())
        while self._open and self._open[-1][0] >= indent:
            self._open.pop()
        if len(self._open) >= MAX_FRAMES:
            self._n_deep += 1
            return
        parent = self._open[-1][1] if self._open else -1
        node = self._made.node(parent, self._made.frame(name.strip() or "[unknown]"))
        self._open.append((indent, node))
        self.nodes.append(node)
        self._weights.append(own)
        self._lines.append(number)
        self._offsets.append(offset)

    def _ticks(self, cell: str) -> int | None:
        """Return a weight in ticks; None where it is none, or of another kind."""
        weight = _WEIGHT.match(cell.strip())
        if weight is None:
            return None
        unit, factor = unit_of(weight[2]) if weight[2] else ("count", 1)
        if self._unit is None:
            self._unit = unit
        if kind_of(unit) != kind_of(self._unit):
            return None
        try:
            return ticks_of(Decimal(weight[1].replace(",", "")), factor)
        except InvalidOperation:
            return None

    def add(self, builder: TraceBuilder, source: Source) -> None:
        """Add the lane, its spans and records, and say what was left out."""
        builder.clock = Clock(self._unit or "count", is_weight=True)
        lane = add_stack_lane(builder, "call tree")
        stacks = self._made.stacks()
        rows = np.array(self._lines, np.int64)
        spans = spans_by_weight(
            stacks,
            lane,
            np.array(self.nodes, np.int64),
            np.array(self._weights, np.int64),
            np.ones(len(rows), np.int64),
            rows,
        )
        add_stack_spans(builder, stacks, spans, is_sampled=False)
        builder.records = LineRecords(
            source.path, rows, np.array(self._offsets, np.int64)
        )
        warn_of_depth(builder, self._n_deep)
        builder.warn(
            Severity.NOTICE,
            "other_lines",
            "rows have no weight of the unit of the first one; they are left out.",
            self._first_other,
            self._n_other,
        )
