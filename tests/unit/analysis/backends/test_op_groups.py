"""Groups of listed ops against adding them up one by one."""

from collections import defaultdict

import numpy as np
import pytest

import op_files
from ggscope.analysis.backends.op_groups import op_groups
from ggscope.model.backend_ops import BackendOps, joined_ops
from ggscope.readers.common.op_lines import scan_op_text
from ggscope.readers.common.op_listing import listing_of


def read(data: bytes) -> BackendOps:
    listing = listing_of(scan_op_text(data))
    assert listing is not None
    return listing


def scheduler(seed: int) -> BackendOps:
    return read(op_files.scheduler(op_files.graphs(seed, 5)))


def vulkan(seed: int) -> BackendOps:
    return read(op_files.vulkan(op_files.vulkan_lists(seed)))


@pytest.mark.parametrize("made", [scheduler, vulkan])
@pytest.mark.parametrize("seed", range(4))
def test_groups_are_those_of_adding_up_one_by_one(seed, made):
    listing = made(seed)

    groups = op_groups(listing)

    ops = listing.ops
    rows = defaultdict(list)
    for i in range(len(ops)):
        key = tuple(
            listing.text(int(column[i]))
            for column in (ops.backend, ops.op, ops.shape, ops.dtype)
        )
        rows[key].append(i)
    by_key = {(g.backend, g.op, g.shape, g.dtype): g for g in groups}
    assert by_key.keys() == rows.keys()
    whole = int(ops.time[ops.time >= 0].sum())
    for key, mine in rows.items():
        group = by_key[key]
        assert group.rows.tolist() == mine
        assert group.count == int(ops.count[mine].sum())
        assert group.n_graphs == len({int(ops.graph[i]) for i in mine})
        if made is vulkan:
            assert group.time == int(ops.time[mine].sum())
            assert group.share == pytest.approx(group.time / whole)
            assert (group.min_bytes, group.max_bytes) == (None, None)
        else:
            assert (group.time, group.share, group.mean) == (None, None, None)
            assert group.min_bytes == int(ops.size[mine].sum())
            assert group.max_bytes == int((ops.size + ops.step - 1)[mine].sum())
    times = [group.time or 0 for group in groups]
    assert times == sorted(times, reverse=True)


def test_rates_are_weighted_by_time():
    text = (
        b"Vulkan Timings:\nADD: 1 x 1 us = 1 us (100 GFLOPS/s)\n"
        b"Vulkan Timings:\nADD: 1 x 3 us = 3 us (20 GFLOPS/s)\n"
    )

    (group,) = op_groups(read(text))

    assert group.rate == pytest.approx((100 * 1 + 20 * 3) / 4 * 1e9)


def test_rows_can_be_chosen():
    listing = scheduler(1)
    rows = np.array([1, 3])

    groups = op_groups(listing, rows)

    assert sorted(np.concatenate([g.rows for g in groups]).tolist()) == [1, 3]


def test_two_listings_are_one_behind_the_other():
    first, second = scheduler(1), vulkan(2)

    both = joined_ops(first, second)

    assert both is not None
    assert both.n_graphs == first.n_graphs + second.n_graphs
    whole = {(g.backend, g.op, g.shape, g.dtype): g.count for g in op_groups(both)}
    parts = {
        (g.backend, g.op, g.shape, g.dtype): g.count
        for one in (first, second)
        for g in op_groups(one)
    }
    assert whole == parts
    assert joined_ops(None, first) is first
    assert joined_ops(first, None) is first
    twice = joined_ops(first, first)
    assert twice is not None
    assert twice.splits.graph.tolist() == [
        *first.splits.graph.tolist(),
        *(first.splits.graph + first.n_graphs).tolist(),
    ]
    assert twice.ops.split.tolist() == [
        *first.ops.split.tolist(),
        *(first.ops.split + len(first.splits)).tolist(),
    ]
