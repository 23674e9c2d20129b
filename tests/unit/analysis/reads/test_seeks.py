"""Jumps through the model file and the order of layers in it."""

from dataclasses import replace

import numpy as np
import pytest

from ggscope.analysis.heat.file_map import file_map
from ggscope.analysis.reads.file_blocks import read_sequence
from ggscope.analysis.reads.hotness import disk_order, row_reads, seeks
from ggscope.model.batches import BatchTokens
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from reads_builder import Op, Read, TensorRow, reads_trace

ROW = tuple(TensorRow(f"blk.{i}.ffn_up.weight", 100 * i, 100, i) for i in range(8))


def jumps(order: list[int]):
    trace = reads_trace(ROW, [Op(i, (Read(t, 100),)) for i, t in enumerate(order)])
    places = file_map(trace)
    return seeks(places, read_sequence(trace, places))


def test_seeks_of_a_sequential_run_are_none():
    result = jumps(list(range(8)))

    assert (result.n, result.n_sequential) == (7, 7)
    assert result.share_sequential == 1.0
    assert result.total == 0
    assert result.forward.sum() + result.backward.sum() == 0


def test_seeks_show_direction_and_distance():
    result = jumps([0, 2, 1, 1, 7])

    # From 100 to 200, from 300 to 100, again, from 200 to 700.
    assert (result.n_sequential, result.n_repeated) == (0, 1)
    assert (result.n_forward, result.n_backward) == (2, 1)
    assert result.forward[6] == 1  # 100 bytes
    assert result.forward[8] == 1  # 500 bytes
    assert result.backward[7] == 1  # 200 bytes
    assert result.total == 800


def test_seeks_bin_powers_of_two_exactly():
    at = [0, 1 + 64, 1 + 64 + 1 + 63]
    tensors = [TensorRow(f"t{i}", offset, 1) for i, offset in enumerate(at)]
    trace = reads_trace(tensors, [Op(i, (Read(i, 1),)) for i in range(3)])
    places = file_map(trace)

    result = seeks(places, read_sequence(trace, places))

    assert np.flatnonzero(result.forward).tolist() == [5, 6]


def test_seeks_of_no_reads_are_zero():
    assert jumps([]).n == 0
    assert jumps([3]).share_sequential == 0.0


@pytest.mark.parametrize(
    ("order", "kind"),
    [
        (range(12), "numeric"),
        (sorted(range(12), key=str), "alphabetical"),
        ([3, 1, 2, *range(4, 12), 0], "mixed"),
        (range(2), "unknown"),
    ],
)
def test_disk_order_is_recognised(order, kind):
    layers = list(order)
    tensors = [
        TensorRow(f"blk.{layer}.attn_q.weight", 100 * i, 100, layer)
        for i, layer in enumerate(layers)
    ]

    result = disk_order(file_map(reads_trace(tensors, [])))

    assert result.kind == kind
    if kind != "unknown":
        assert list(result.layers) == layers


def test_row_reads_count_repeated_rows():
    table = TensorRow("token_embd.weight", 1000, 800, shape=(10, 80, 1, 1))
    rows = [5, 7, 5, 5]
    ops = [
        Op(i, (Read(0, 10, offset=1000 + 10 * row),), "GET_ROWS")
        for i, row in enumerate(rows)
    ]

    reads = row_reads(reads_trace([table], ops), 0)

    assert reads.row.tolist() == [5, 7]
    assert reads.count.tolist() == [3, 1]
    assert (reads.n_reads, reads.n_placed, reads.n_repeated) == (4, 4, 2)


def test_row_reads_of_whole_tensors_only_count():
    table = TensorRow("token_embd.weight", 1000, 800, shape=(10, 80, 1, 1))
    ops = [Op(i, (Read(0, 800, offset=1000),), "GET_ROWS") for i in range(3)]

    reads = row_reads(reads_trace([table], ops), 0)

    assert (reads.n_reads, reads.n_placed, len(reads.row)) == (3, 0, 0)


TABLE = TensorRow("token_embd.weight", 1000, 800, shape=(10, 80, 1, 1))


def with_ids(trace: Trace, ids: dict[int, list[int]]) -> Trace:
    """Return a trace of a recording whose ubatches compute tokens of these ids."""
    flat = [
        (ubatch, row, i) for ubatch, own in ids.items() for row, i in enumerate(own)
    ]
    n = len(flat)
    tokens = replace(
        BatchTokens.blank(n),
        ubatch=np.array([row[0] for row in flat], np.int32),
        row=np.array([row[1] for row in flat], np.int32),
        id=np.array([row[2] for row in flat], np.int32),
    )
    return replace(trace, batch_tokens=tokens)


def look_ups(n: int, **options: object) -> list[Op]:
    return [
        Op(20 * i, (Read(0, 800, offset=1000),), "GET_ROWS", token=i, **options)
        for i in range(n)
    ]


def test_rows_are_those_of_the_ids_of_the_tokens():
    ids = {0: [5, 7, 5], 1: [5], 2: [79]}
    trace = with_ids(reads_trace([TABLE], look_ups(3)), ids)

    reads = row_reads(trace, 0)

    assert (reads.row.tolist(), reads.count.tolist()) == ([5, 7, 79], [3, 1, 1])
    assert (reads.n_ops, reads.n_reads, reads.n_placed) == (3, 5, 5)
    assert (reads.n_rows, reads.row_bytes, reads.n_untouched) == (80, 10, 77)


def test_rows_of_ubatches_without_a_look_up_are_left_out():
    ids = {0: [5], 1: [6], 2: [7]}
    trace = with_ids(reads_trace([TABLE], look_ups(3)), ids)

    assert row_reads(trace, 0, TimeRange(0, 30)).row.tolist() == [5, 6]
    few = with_ids(reads_trace([TABLE], look_ups(1)), ids)
    assert row_reads(few, 0).row.tolist() == [5]


@pytest.mark.parametrize("ids", [{0: [5], 1: [-1]}, {0: [5], 1: [80]}])
def test_row_of_an_unknown_id_is_not_known(ids):
    trace = with_ids(reads_trace([TABLE], look_ups(2)), ids)

    reads = row_reads(trace, 0)

    assert (reads.n_reads, reads.n_placed, reads.row.tolist()) == (2, 1, [5])
    assert reads.n_untouched is None


def test_ubatch_that_no_list_shows_leaves_rows_unknown():
    trace = with_ids(reads_trace([TABLE], look_ups(2)), {0: [5]})

    assert row_reads(trace, 0).n_placed == 0


def test_table_that_is_read_as_a_whole_has_no_untouched_rows():
    """Models with tied embeddings multiply by the same table."""
    ops = [*look_ups(1), Op(100, (Read(0, 800, offset=1000),), "MUL_MAT")]
    trace = with_ids(reads_trace([TABLE], ops), {0: [5]})

    reads = row_reads(trace, 0)

    assert (reads.n_ops, reads.is_whole, reads.n_untouched) == (1, True, 0)


def test_op_that_several_threads_report_looks_up_once():
    again = [Op(1, (Read(0, 800, offset=1000),), "GET_ROWS", thread=1, repeated=True)]
    trace = with_ids(reads_trace([TABLE], [*look_ups(1), *again]), {0: [5, 6]})

    reads = row_reads(trace, 0)

    assert (reads.n_ops, reads.n_reads) == (1, 2)
    assert reads.count.tolist() == [1, 1]
