"""Jumps through the model file and the order of layers in it."""

import numpy as np
import pytest

from ggscope.analysis.heat.file_map import file_map
from ggscope.analysis.reads.hotness import disk_order, row_reads, seeks
from ggscope.analysis.reads.units import read_sequence
from reads_builder import Op, Read, TensorRow, reads_trace

ROW = tuple(TensorRow(f"blk.{i}.ffn_up.weight", 100 * i, 100, i) for i in range(8))


def jumps(order: list[int]):
    trace = reads_trace(ROW, [Op(i, (Read(t, 100),)) for i, t in enumerate(order)])
    places = file_map(trace)
    return seeks(places, read_sequence(trace, places))


def test_seeks_of_a_sequential_run_are_none():
    found = jumps(list(range(8)))

    assert (found.n, found.n_sequential) == (7, 7)
    assert found.share_sequential == 1.0
    assert found.total == 0
    assert found.forward.sum() + found.backward.sum() == 0


def test_seeks_tell_direction_and_distance():
    found = jumps([0, 2, 1, 1, 7])

    # From 100 to 200, from 300 to 100, again, from 200 to 700.
    assert (found.n_sequential, found.n_repeated) == (0, 1)
    assert (found.n_forward, found.n_backward) == (2, 1)
    assert found.forward[6] == 1  # 100 bytes
    assert found.forward[8] == 1  # 500 bytes
    assert found.backward[7] == 1  # 200 bytes
    assert found.total == 800


def test_seeks_bin_powers_of_two_exactly():
    at = [0, 1 + 64, 1 + 64 + 1 + 63]
    tensors = [TensorRow(f"t{i}", offset, 1) for i, offset in enumerate(at)]
    trace = reads_trace(tensors, [Op(i, (Read(i, 1),)) for i in range(3)])
    places = file_map(trace)

    found = seeks(places, read_sequence(trace, places))

    assert np.flatnonzero(found.forward).tolist() == [5, 6]


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

    found = disk_order(file_map(reads_trace(tensors, [])))

    assert found.kind == kind
    if kind != "unknown":
        assert list(found.layers) == layers


def test_row_reads_count_repeated_rows():
    table = TensorRow("token_embd.weight", 1000, 800, shape=(10, 80, 1, 1))
    rows = [5, 7, 5, 5]
    ops = [
        Op(i, (Read(0, 10, offset=1000 + 10 * row),), "GET_ROWS")
        for i, row in enumerate(rows)
    ]

    found = row_reads(reads_trace([table], ops), 0)

    assert found.row.tolist() == [5, 7]
    assert found.count.tolist() == [3, 1]
    assert (found.n_reads, found.n_placed, found.n_repeated) == (4, 4, 2)


def test_row_reads_of_whole_tensors_only_count():
    table = TensorRow("token_embd.weight", 1000, 800, shape=(10, 80, 1, 1))
    ops = [Op(i, (Read(0, 800, offset=1000),), "GET_ROWS") for i in range(3)]

    found = row_reads(reads_trace([table], ops), 0)

    assert (found.n_reads, found.n_placed, len(found.row)) == (3, 0, 0)
