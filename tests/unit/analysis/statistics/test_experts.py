"""Statistics by expert, with and without known choices of a router."""

from builders import statistics
from reads_builder import Op, Read, TensorRow, reads_trace

STACK = TensorRow("blk.0.ffn_up_exps.weight", 500, 103, 0, n_experts=4)
SINGLE = TensorRow("blk.0.attn_q.weight", 700, 50, 0)
CHOSEN = {(0, 0): (1, 3), (1, 0): (3,)}


def test_stats_by_expert_count_the_chosen_ones_and_their_bytes():
    ops = [Op(t, (Read(0, 103), Read(1, 50)), token=t // 10) for t in (0, 10, 20)]

    rows = statistics(reads_trace((STACK, SINGLE), ops, CHOSEN), "expert")

    values = {row.key: (row.count, row.total, row.bytes) for row in rows}
    # Slice 1 has 26 bytes, slice 3 too: the first op shares its time out among them.
    # What token 2 chose nobody knows.
    assert values == {"1": (1, 5, 26), "3": (2, 15, 52), "none": (1, 10, 153)}


def test_stats_by_expert_without_routing_go_by_the_accesses():
    ops = [Op(0, (Read(0, 26, expert=2),)), Op(10, (Read(0, 103),))]

    rows = statistics(reads_trace((STACK, SINGLE), ops), "expert")

    assert {row.key: (row.count, row.bytes) for row in rows} == {
        "2": (1, 26),
        "none": (1, 103),
    }


def test_stats_by_expert_with_routing_but_without_stacks_are_none():
    ops = [Op(0, (Read(0, 50),))]

    rows = statistics(reads_trace((SINGLE,), ops, CHOSEN), "expert")

    assert [(row.key, row.count, row.bytes) for row in rows] == [("none", 1, 50)]
