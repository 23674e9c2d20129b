"""Which weight an op is booked on, and that nothing is booked twice."""

import numpy as np
import pytest

from builders import TraceBuilder, finished, llama_like_trace, statistics
from ggscope.model.tables import (
    AccessColumns,
    Accesses,
    AccessKind,
    FlatAccesses,
    Space,
)
from ggscope.model.tensors import Tensors
from ggscope.model.trace import LaneKind, Trace

FILE, BUFFER, UNKNOWN = int(Space.FILE), int(Space.BUFFER), int(Space.UNKNOWN)


def trace_of(*patterns: list[tuple[int, int, int]], expert: bool = False) -> Trace:
    """Return a trace with one op of 100 ticks per pattern of (tensor, space, size).

    Tensors 0 to 2 are "a" to "c"; "c" alone has a place in the model file. With
    `expert` the numbers of the tensors are those of experts.
    """
    builder = TraceBuilder()
    lane = builder.add_lane("thread 0", LaneKind.THREAD)
    three = np.full(3, -1)
    builder.tensors = Tensors(
        builder.strings.intern_many(["a", "b", "c"]),
        np.array([-1, -1, 64]),
        three,
        three.astype(np.int16),
        three.astype(np.int16),
    )
    n = len(patterns)
    start = np.arange(n) * 100
    builder.add_spans(start=start, end=start + 100, lane=lane, op=1)
    rows = [row for pattern in patterns for row in pattern]
    what = AccessColumns.blank(len(rows))
    for i, (tensor, space, size) in enumerate(rows):
        what.tensor[i], what.space[i], what.size[i] = tensor, space, size
        what.expert[i] = tensor if expert else -1
    what.kind[:] = AccessKind.READ
    first = np.cumsum([0, *(len(pattern) for pattern in patterns)])
    builder.accesses = Accesses(np.arange(n), first, what, FlatAccesses.blank())
    return finished(builder)


@pytest.mark.parametrize(
    ("pattern", "key"),
    [
        ([(0, FILE, 10), (1, BUFFER, 1000)], "a"),
        ([(0, FILE, 10), (1, FILE, 11)], "b"),
        ([(1, FILE, 10), (0, FILE, 10)], "b"),
        ([(0, FILE, 6), (1, FILE, 10), (0, FILE, 6)], "a"),
        ([(1, FILE, -1), (0, FILE, -1)], "b"),
        ([(2, UNKNOWN, 10), (0, UNKNOWN, 90)], "c"),
        ([(0, BUFFER, 10)], "no weight"),
        ([(-1, FILE, 10)], "not recorded"),
        ([(-1, FILE, 90), (0, FILE, 10)], "a"),
    ],
)
def test_op_is_booked_on_the_weight_of_most_bytes(
    pattern: list[tuple[int, int, int]], key: str
) -> None:
    (row,) = statistics(trace_of(pattern), "tensor")

    size = sum(max(size, 0) for _, _, size in pattern)
    assert (row.key, row.count, row.total, row.bytes) == (key, 1, 100, size)


def test_written_weight_is_not_read() -> None:
    trace = trace_of([(0, FILE, 10)])
    trace.accesses.patterns.kind.flags.writeable = True
    trace.accesses.patterns.kind[:] = AccessKind.WRITE

    assert [row.key for row in statistics(trace, "tensor")] == ["no weight"]


def test_time_is_shared_out_among_experts_to_the_last_tick() -> None:
    trace = trace_of(
        [(0, FILE, 10), (1, FILE, 20), (2, FILE, 3)],
        [(0, FILE, 0), (2, FILE, 7)],
        [(-1, FILE, 7)],
        expert=True,
    )

    rows = {row.key: row for row in statistics(trace, "expert")}

    assert {key: row.total for key, row in rows.items()} == {
        "none": 100,
        "0": 30 + 50,
        "1": 60,
        "2": 10 + 50,
    }
    assert rows["0"].min == 30


@pytest.mark.parametrize("by", ["tensor", "expert", "layer"])
def test_rows_add_up_to_the_ops(by: str) -> None:
    trace = llama_like_trace()

    rows = statistics(trace, by)  # type: ignore[arg-type]

    assert sum(row.total for row in rows) == sum(r.total for r in statistics(trace))
