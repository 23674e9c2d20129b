"""Splits, their copies and what ran on the CPU against counting them one by one."""

from collections import Counter

import numpy as np
import pytest

import op_files
from ggscope.analysis.backends.op_groups import op_groups
from ggscope.analysis.backends.splits import Reason, cpu_groups, split_groups
from ggscope.descriptions.backends import cpu_cells
from ggscope.model.backend_ops import BackendOps
from ggscope.readers.common.op_lines import scan_op_text
from ggscope.readers.common.op_listing import listing_of
from op_files import Graphs, Node, Split


def listing(graphs: Graphs) -> BackendOps:
    backend_ops = listing_of(scan_op_text(op_files.scheduler(graphs)))
    assert backend_ops is not None
    return backend_ops


def floor(size: int) -> tuple[int, int]:
    step = 1 << 20 if size >= 1 << 20 else 1 << 10
    return size // step * step, size // step * step + step - 1


def data_of(node: Node) -> str:
    """Return the first weight or cache of a node that lies on its backend."""
    for name, _, backend in node.sources:
        if backend == node.backend and name.startswith(("blk.", "cache_")):
            return name[:20]
    return ""


def reason_of(split: Split, before: Split | None) -> tuple[Reason, str]:
    data = next(filter(None, map(data_of, split.nodes)), "")
    if split.number == 0:
        return Reason.FIRST, data
    assert before is not None
    if before.backend == split.backend:
        return Reason.AGAIN, data
    if not split.nodes:
        return Reason.UNKNOWN, data
    return (Reason.DATA if data else Reason.MOVED), data


@pytest.mark.parametrize("seed", range(12))
def test_splits_are_those_of_counting_one_by_one(seed):
    graphs = op_files.graphs(seed, 6)

    groups = split_groups(listing(graphs))

    expected: Counter[tuple] = Counter()
    for splits in graphs:
        before = None
        for split in splits:
            bounds = [floor(size) for _, size in split.inputs]
            first = split.nodes[0]
            key = (
                split.number, split.backend, before.backend if before else "",
                first.op, first.name[:20], *reason_of(split, before),
                len(split.nodes), len(split.inputs),
                sum(low for low, _ in bounds), sum(high for _, high in bounds),
            )  # fmt: skip
            expected[key] += 1
            before = split
    assert {
        (g.number, g.backend, g.before, g.op, g.name, g.reason, g.data, g.n_nodes,
         g.n_inputs, g.min_bytes, g.max_bytes): g.count
        for g in groups
    } == expected  # fmt: skip
    rows = np.sort(np.concatenate([group.rows for group in groups]))
    assert rows.tolist() == list(range(sum(map(len, graphs))))


@pytest.mark.parametrize("seed", range(12))
def test_ops_on_the_cpu_are_those_of_counting_one_by_one(seed):
    graphs = op_files.graphs(seed, 6)

    groups = cpu_groups(listing(graphs))

    expected: Counter[tuple] = Counter()
    begins: Counter[tuple] = Counter()
    for splits in graphs:
        if all(split.backend == "CPU" for split in splits):
            continue
        for split in splits:
            held = any(map(data_of, split.nodes))
            for i, node in enumerate(split.nodes):
                if node.backend != "CPU":
                    continue
                reason = Reason.BETWEEN if held else Reason.MOVED
                reason = Reason.DATA if data_of(node) else reason
                expected[node.op, reason] += 1
                begins[node.op, reason] += i == 0
    assert {(g.op, g.reason): g.count for g in groups} == expected
    assert {(g.op, g.reason): g.begins for g in groups} == begins
    reasons = [g.reason for g in groups]
    order = [Reason.MOVED, Reason.BETWEEN, Reason.DATA]
    assert reasons == sorted(reasons, key=order.index)


def test_what_is_copied_is_reported_by_weight_and_largest_tensor():
    inputs = [("cur-0", 5000), ("blk.0.ffn_up.weight (reshaped)", 34 << 20), ("m", 9)]
    node = Node(1, "ADD", "b-0", 10, "CUDA0", [("CUDA0#cur-0#0", 5000, "NULL")])
    split = Split(1, "CUDA0", inputs, [node])
    graphs = [[Split(0, "CPU", [], [Node(0, "ADD", "a-0", 10, "CPU")]), split]]

    first, second = split_groups(listing(graphs))

    assert (first.min_bytes, first.max_bytes, first.largest) == (0, 0, "")
    assert second.weights == 34 << 20
    assert second.largest == "blk.0.ffn_up.weight (reshaped)"
    assert second.reason is Reason.MOVED


def test_copies_that_are_not_all_listed_have_no_upper_bound():
    text = b"## SPLIT #1: CUDA0 # 7 inputs: [a (  2K)] [b (  3K)] \n"
    backend_ops = listing_of(scan_op_text(text))
    assert backend_ops is not None

    (group,) = split_groups(backend_ops)

    assert (group.min_bytes, group.max_bytes, group.n_inputs) == (5 << 10, None, 7)
    assert group.reason is Reason.UNKNOWN


def test_a_split_on_the_same_backend_uses_memory_again():
    nodes = [Node(i, "ADD", f"a-{i}", 10, "CUDA0") for i in range(2)]
    splits = [Split(i, "CUDA0", [], [nodes[i]]) for i in range(2)]

    groups = split_groups(listing([splits]))

    assert [group.reason for group in groups] == [Reason.FIRST, Reason.AGAIN]


def test_nothing_fell_to_the_cpu_where_nothing_else_is():
    node = Node(0, "ADD", "a-0", 10, "CPU")

    assert cpu_groups(listing([[Split(0, "CPU", [], [node])]])) == ()


def test_codes_of_the_scheduler_are_reported_where_they_are_printed():
    text = (
        b"## SPLIT #0: CUDA0 # 0 inputs\n"
        b"node #  0 (       ADD):   a (   1K) [CUDA0    1.wgt] use=1,c=1:\n"
        b"## SPLIT #1: CPU # 0 inputs\n"
        b"node #  1 (      ROPE):   b (   1K) [  CPU    2.sup] use=1,c=1:"
        b" x (   1K) [ NULL         ]\n"
    )
    backend_ops = listing_of(scan_op_text(text))
    assert backend_ops is not None

    (group,) = cpu_groups(backend_ops)

    assert (group.op, group.reason, group.causes) == ("ROPE", Reason.MOVED, ("2.sup",))
    assert cpu_cells(group)[1].endswith("(2.sup)")


def test_nodes_that_are_not_computed_do_not_count():
    graphs = op_files.graphs(2, 4)
    data = op_files.scheduler(graphs, use="use=1,c=0")

    backend_ops = listing_of(scan_op_text(data))

    assert backend_ops is not None
    assert cpu_groups(backend_ops) == ()
    assert op_groups(backend_ops) == ()
