"""Points of the 3D view against one read after the other."""

from dataclasses import replace

import numpy as np
import pytest

from builders import empty_trace, llama_like_trace
from ggscope.analysis.heat.file_map import file_map
from ggscope.analysis.heat.heatmap import heat_base
from ggscope.analysis.heat.points import AccessPoints, access_points
from ggscope.descriptions.points import points_text, why_no_points
from ggscope.errors import Cancelled
from ggscope.model.tables import AccessKind, FlatAccesses, Space
from ggscope.model.trace import Trace
from heat_traces import moe_trace
from oracles.points import reads_of
from roofline_traces import random_roofline

TRACES = {
    "moe": lambda: moe_trace(),
    "unrouted": lambda: moe_trace(routed=False),
    "threads": lambda: random_roofline(5, threads=3),
    "llama": lambda: llama_like_trace(tokens=3),
    "empty": empty_trace,
}


def rows(points: AccessPoints) -> list[tuple[int, ...]]:
    columns = (points.time, points.layer, points.offset, points.span, points.size)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("name", TRACES)
def test_points_are_the_reads_in_order_of_time(name: str) -> None:
    trace = TRACES[name]()

    points = access_points(trace)

    assert sorted(rows(points)) == sorted(reads_of(trace))
    assert points.time.tolist() == sorted(points.time.tolist())
    assert points.n_accesses == len(points)
    assert points.step == 0


@pytest.mark.parametrize("name", ["moe", "unrouted", "threads"])
def test_points_add_up_to_the_heatmap(name: str) -> None:
    trace = TRACES[name]()

    points, base = access_points(trace), heat_base(trace, "token")

    totals, (_, counts) = base.totals, base.unit_sums()
    unit = np.searchsorted(base.files.offset, points.offset, "right") - 1
    if name != "unrouted":  # where an access is to all slices of a stack
        assert np.bincount(unit, minlength=len(counts)).tolist() == counts.tolist()
    assert int(points.size.sum()) == totals.file_bytes
    assert points.n_open == totals.n_maybe
    assert points.n_unplaced == totals.n_unplaced


def test_filter_leaves_out_the_reads_of_other_spans() -> None:
    trace = moe_trace()
    mask = np.arange(len(trace.spans)) % 3 == 0

    points = access_points(trace, mask)

    assert sorted(rows(points)) == sorted(reads_of(trace, mask))
    assert 0 < len(points) < len(access_points(trace))


@pytest.mark.parametrize("name", ["moe", "threads"])
@pytest.mark.parametrize("limit", [1, 20, 60, 150])
def test_points_of_many_reads_count_each_of_them_once(name: str, limit: int) -> None:
    trace = TRACES[name]()
    reads = reads_of(trace)
    limit = min(limit, len(reads) - 1)

    points = access_points(trace, limit=limit)

    n_layers = len({layer for _, layer, *_ in reads})
    assert len(points) <= max(limit, limit // 4 + n_layers)
    assert points.n_accesses == len(reads)
    assert int(points.size.sum()) == sum(read[4] for read in reads)
    # Each point stands at a read that there is, and counts reads of its layer alone.
    known = {read[:4] for read in reads}
    assert {row[:4] for row in rows(points)} <= known
    for layer in {read[1] for read in reads}:
        of_layer = sum(1 for read in reads if read[1] == layer)
        assert int(points.count[points.layer == layer].sum()) == of_layer


def test_merged_points_are_reads_of_the_same_bytes_that_are_near_in_time() -> None:
    trace = moe_trace(tokens=30)
    reads = reads_of(trace)
    count = len(reads) // 2

    points = access_points(trace, limit=count)

    assert points.step > 0
    start = trace.extent.start
    groups: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for time, layer, offset, span, size in reads:
        bin_of = int((time - start) / points.step)
        groups.setdefault((layer, offset, bin_of), []).append((span, time, size))
    expected = [
        (min(group)[1], layer, offset, min(group)[0], sum(g[2] for g in group),
         len(group))
        for (layer, offset, _), group in groups.items()
    ]  # fmt: skip
    pairs = [
        (*row, n) for row, n in zip(rows(points), points.count.tolist(), strict=True)
    ]
    assert sorted(pairs) == sorted(expected)


def test_points_until_a_time_are_those_that_began() -> None:
    points = access_points(moe_trace())
    middle = int(points.time[len(points) // 2])

    assert points.until(None) == len(points)
    assert points.until(int(points.time[0]) - 1) == 0
    assert points.until(middle) == int((points.time <= middle).sum())


def test_counting_reads_can_be_cancelled() -> None:
    class Stop:
        def progress(self, done: int, total: int) -> None:
            raise Cancelled

    with pytest.raises(Cancelled):
        access_points(moe_trace(), watcher=Stop())


def with_loose_reads(trace: Trace, n: int) -> Trace:
    """Return a trace with reads and writes of no span: of the file, and elsewhere."""
    a = trace.accesses
    rows = np.arange(n) % len(a.patterns)
    what = a.patterns.take(rows)
    kind = np.where(np.arange(n) % 4 == 3, AccessKind.WRITE, AccessKind.READ)
    what = replace(what, kind=kind.astype(np.uint8))
    loose = FlatAccesses(
        time=np.arange(n, dtype=np.int64), lane=np.full(n, -1, np.int32),
        span=np.full(n, -1, np.int64), token=np.full(n, -1, np.int32), what=what,
    )  # fmt: skip
    return replace(trace, accesses=replace(a, loose=loose))


@pytest.mark.parametrize("name", ["moe", "llama"])
def test_reads_of_no_span_are_counted_and_have_no_point(name: str) -> None:
    before = TRACES[name]()
    trace = with_loose_reads(before, 50)
    files, what = file_map(trace), trace.accesses.loose.what
    expected = 0
    for i in range(50):
        space, tensor = Space(int(what.space[i])), int(what.tensor[i])
        is_placed = tensor >= 0 and files.first[tensor] >= 0
        of_file = space is Space.FILE or (space is Space.UNKNOWN and is_placed)
        expected += of_file and what.kind[i] == AccessKind.READ

    points = access_points(trace)

    assert points.n_spanless == expected > 0
    assert rows(points) == rows(access_points(before))
    assert f"{expected} that no span makes" in points_text(trace, points)
    assert access_points(before).n_spanless == 0


def test_trace_with_reads_of_no_span_alone_says_so() -> None:
    whole = moe_trace()
    a = whole.accesses
    loose = with_loose_reads(whole, 9).accesses.loose
    bare = replace(a, pattern=np.full_like(a.pattern, -1), loose=loose)
    trace = replace(whole, accesses=bare)

    points = access_points(trace)

    assert len(points) == 0
    assert points.n_spanless > 0
    assert why_no_points(trace, points)[0] == "No reads by spans"
