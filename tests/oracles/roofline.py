"""Float operations and bytes of ops, counted one multiply-add and op at a time."""

from collections import defaultdict

from ggscope.analysis.reads.op_io import Knowledge, account_of
from ggscope.analysis.reads.shared import spans_of_op
from ggscope.model.tables import Quality, SpanFlag, quality_of
from ggscope.model.trace import Trace

Key = tuple[str, int, tuple[int, int], int]
"""Op, type and shape of the weight, number of vectors."""


def multiply_adds(cols: int, rows: int, columns: int) -> int:
    """Return the float operations of a plain matrix multiplication."""
    n = 0
    for _ in range(rows):
        for _ in range(columns):
            for _ in range(cols):
                n += 2
    return n


def points(trace: Trace) -> dict[Key, tuple[int, int, int, int]]:
    """Return (ops, flops, bytes, ticks) of plain multiplications with F32 vectors."""
    sums: dict[Key, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    spans, tensors = trace.spans, trace.tensors
    assert tensors.shape is not None
    assert tensors.type is not None
    for span in range(len(spans)):
        if int(spans.flags[span]) & SpanFlag.REPEATED:
            continue
        if trace.op_name(int(spans.op[span])) != "MUL_MAT":
            continue
        table = account_of(trace, span)
        if len(table.what) < 2:
            continue
        weight, size = int(table.what.tensor[0]), int(table.what.size[1])
        cols, rows, *_ = tensors.shape[weight].tolist()
        if int(tensors.offset[weight]) < 0 or cols <= 0 or size <= 0:
            continue
        if size % (4 * cols):
            continue
        ids = spans_of_op(trace, span)
        assert ids is not None
        if (quality_of(spans.flags[ids]) > Quality.DERIVED).any():
            continue
        unknown = table.is_access & (table.knowledge != Knowledge.KNOWN)
        ticks = int(spans.end[ids].max() - spans.start[ids].min())
        if unknown.any() or ticks <= 0:
            continue
        columns = size // (4 * cols)
        entry = sums["MUL_MAT", int(tensors.type[weight]), (cols, rows), columns]
        entry[0] += 1
        entry[1] += multiply_adds(cols, rows, columns)
        entry[2] += int(table.known.sum())
        entry[3] += ticks
    return {key: tuple(values) for key, values in sums.items()}  # type: ignore[misc]
