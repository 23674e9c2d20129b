"""Reader of folded stacks: one lane, as wide as the stacks weigh."""

import re

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I64
from ggscope.model.trace import Severity, Trace
from ggscope.model.units import Clock, Unit
from ggscope.readers.api import BOM, NOT_MINE, Estimate, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import file_trace, note_open_end
from ggscope.readers.common.line_records import LineRecords
from ggscope.readers.common.stack_text import (
    Form,
    SampleLines,
    scan_samples,
)
from ggscope.readers.common.stacks import (
    add_stack_lane,
    add_stack_spans,
    spans_by_weight,
    warn_of_depth,
)
from ggscope.readers.folded import INFO, UNIT
from ggscope.readers.source import Source

_ROW_BYTES = 250
"""Memory of a line while it is read, measured."""
_LINE = re.compile(rb"[^;]+(;[^;]*)* -?\d+(\.\d+)?")
_TWO_COUNTS = re.compile(rb".* \d+ \d+")
"""Of difffolded.pl: the first count would pass for the end of a frame's name."""
_FEW = 3
_WORDS: dict[str, tuple[Unit, int]] = {
    "samples": ("sample", 1),
    "ns": ("ns", 1),
    "us": ("ns", 1_000),
    "ms": ("ns", 1_000_000),
    "bytes": ("byte", 1),
    "counts": ("count", 1),
}
_BILLION = 1_000_000_000


class FoldedReader:
    """Reads folded stacks."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its lines: all of them must end in a weight."""
        if b"\0" in head.data:
            return NOT_MINE
        data = head.data.removeprefix(BOM)
        lines = data.split(b"\n")
        if len(head.data) < head.size:
            lines = lines[:-1]
        lines = [line.strip() for line in lines]
        lines = [line for line in lines if line and not line.startswith(b"#")]
        good = [line for line in lines if _LINE.fullmatch(line)]
        n_deep = sum(b";" in line for line in good)
        if not n_deep or 2 * n_deep < len(good):
            return NOT_MINE
        if all(_TWO_COUNTS.fullmatch(line) for line in good):
            return NOT_MINE
        # The last line may be cut.
        n_bad = len(lines) - len(good)
        if n_bad > (len(lines) > _FEW) + len(lines) // 100:
            return NOT_MINE
        return Sniff(60, "lines of frames and a weight")

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by its first lines."""
        if not head.data:
            return None
        n = int((head.data.count(b"\n") + 1) * head.size / len(head.data))
        return Estimate(n, 100 * n, _ROW_BYTES * n + (48 << 20))

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a file.

        Raises
        ------
        CorruptError
            If no line has a stack and a weight.
        ReadError
            If the unit is none of those known.
        LimitExceededError
            If there is too little memory.
        """
        unit = INFO.option_values(context.options)[UNIT]
        lines = scan_samples(source, context, Form.FOLDED)
        if not len(lines):
            raise CorruptError(
                "no line has a stack and a weight.",
                offset=max(lines.first_other, lines.first_negative, 0),
                hint="Folded stacks are lines like main;work;read 12.",
            )
        return _trace(source, context, lines, unit)


def _trace(
    source: Source, context: ReadContext, lines: SampleLines, unit: str
) -> Trace:
    builder = TraceBuilder()
    weight, ticks = weights(lines, unit)
    builder.clock = Clock(ticks, is_weight=True)
    lane = add_stack_lane(builder, "folded stacks")
    row = np.arange(len(lines), dtype=np.int64)
    samples = np.ones(len(lines), np.int64)
    is_sampled = unit == "samples" and ticks == "sample"
    spans = spans_by_weight(
        lines.stacks,
        lane,
        lines.node.astype(np.int64),
        weight,
        weight if is_sampled else samples,
        row,
        context.check_cancelled,
    )
    context.check_cancelled()
    add_stack_spans(builder, lines.stacks, spans, is_sampled=is_sampled)
    builder.records = LineRecords(source.path, row, lines.offset)
    _warn(builder, lines, not context.options.get(UNIT))
    note_open_end(builder, source)
    n = len(lines)
    return file_trace(builder, INFO, source, n, {"stacks": n}, noun="stacks")


def weights(lines: SampleLines, unit: str) -> tuple[I64, Unit]:
    """Return the weights in whole ticks, and what a tick is.

    Where the weights of a file have decimals its ticks are thousandths.
    """
    ticks, factor = _WORDS[unit]
    whole, rest = lines.period, lines.time
    has_decimals = bool((rest != 0).any())
    thousandths: dict[Unit, Unit] = {"sample": "sample/1000", "count": "count/1000"}
    if has_decimals and ticks in thousandths:
        ticks, factor = thousandths[ticks], 1000
    limit = np.iinfo(np.int64).max // (2 * factor)
    behind = (rest * min(factor, 1_000_000) + _BILLION // 2) // _BILLION
    scaled: I64 = np.minimum(whole, limit) * factor + behind
    return scaled, ticks


def _warn(builder: TraceBuilder, lines: SampleLines, is_guessed: bool) -> None:
    """Say what was left out, and what is not recorded."""
    warn_of_depth(builder, lines.n_deep, lines.first_deep)
    if is_guessed:
        builder.warn(
            Severity.INFO,
            "weights_without_unit",
            "folded stacks do not say what their weights are; they count as samples.",
            remedy="Open with --option unit=ns (us, ms, bytes, counts).",
        )
    builder.warn(
        Severity.DATA_LOSS,
        "bad_weight",
        "weights are below zero or no numbers; their samples are left out.",
        lines.first_negative,
        lines.n_negative,
    )
    builder.warn(
        Severity.NOTICE,
        "other_lines",
        "lines are no stacks with a weight; they are left out.",
        lines.first_other,
        lines.n_other,
    )
