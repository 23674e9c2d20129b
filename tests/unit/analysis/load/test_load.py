"""Figures of reads, pictures of them and their causes, against plain loops."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from builders import llama_like_trace
from ggscope.analysis.load.causes import Cause, models_of
from ggscope.analysis.load.facts import (
    LoadFacts,
    amounts_by_cell,
    amounts_by_column,
    depth_by_column,
    depth_steps,
    distinct_bytes,
    load_facts,
)
from ggscope.analysis.load.load import load_of
from ggscope.analysis.load.rows import OPS, LoadRows, load_keys, load_rows
from ggscope.descriptions.load import load_text
from ggscope.model.storage import IoKind, StorageFile
from ggscope.model.units import TimeRange
from load_traces import N_TENSORS, SIZE, Read, paired, requests_of, rows

SEEDS = range(5)


def in_flight(reads: LoadRows, tick: int) -> int:
    pairs = zip(reads.start.tolist(), reads.end.tolist(), reads.is_open.tolist(),
                strict=True)  # fmt: skip
    return sum(not open_ and start <= tick < end for start, end, open_ in pairs)


@pytest.mark.parametrize("seed", SEEDS)
def test_depth_is_the_number_of_reads_that_a_loop_counts(seed):
    reads = rows(seed, 60, span=3000)

    ticks, depth = depth_steps(reads)

    for tick, value in zip(ticks.tolist(), depth.tolist(), strict=True):
        assert value == in_flight(reads, tick)
    facts = load_facts(reads)
    numbers = [in_flight(reads, tick) for tick in range(facts.first, facts.last)]
    assert facts.busy == sum(n > 0 for n in numbers)
    assert facts.alone == sum(n == 1 for n in numbers)
    assert facts.max_depth == max(numbers)
    assert facts.mean_depth == pytest.approx(sum(numbers) / facts.busy)


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_hold_what_a_loop_finds_in_them(seed):
    reads = rows(seed, 80, span=3000)
    edges = np.unique(np.linspace(-50, 4200, 37).astype(np.int64))

    amounts = amounts_by_column(reads, edges)
    mean, limit = depth_by_column(reads, edges)

    for i, (begin, end) in enumerate(pairwise(edges.tolist())):
        depths = [in_flight(reads, tick) for tick in range(begin, end)]
        assert mean[i] == pytest.approx(sum(depths) / len(depths))
        assert limit[i] == max(depths)
        is_last = i == len(edges) - 2
        ended = (reads.end >= begin) & (
            (reads.end < end) | (is_last & (reads.end == end))
        )
        assert amounts[i] == np.maximum(reads.size[ended], 0).sum()
    inside = (reads.end >= edges[0]) & (reads.end <= edges[-1])
    assert amounts.sum() == np.maximum(reads.size[inside], 0).sum()


@pytest.mark.parametrize("seed", SEEDS)
def test_cells_hold_the_bytes_that_lie_in_them(seed):
    reads = rows(seed, 90, span=3000)
    edges = np.arange(0, 4200, 300)
    rungs = np.array([0, 100_000, 150_000, 2_000_000, 30_000_000, 41_048_576])

    grid = amounts_by_cell(reads, edges, rungs)

    expected = np.zeros_like(grid)
    for i in range(len(reads)):
        column = int(reads.end[i]) // 300
        low, high = int(reads.offset[i]), int(reads.offset[i] + max(reads.size[i], 0))
        for row in range(len(rungs) - 1):
            part = min(high, int(rungs[row + 1])) - max(low, int(rungs[row]))
            expected[row, column] += max(part, 0)
    assert (grid == expected).all()


def test_cells_count_reads_where_no_size_is_recorded():
    reads = replace(rows(1, 50), size=np.full(50, -1, np.int64))
    edges = np.array([0, 50_000, 200_000])
    rungs = np.array([0, 20_000_000, 40_000_000])

    grid = amounts_by_cell(reads, edges, rungs)

    assert grid.sum() == 50
    assert grid[0, 0] == np.count_nonzero(
        (reads.end < 50_000) & (reads.offset < 20_000_000)
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_figures_are_those_of_plain_loops(seed):
    reads = rows(seed, 300)

    facts = load_facts(reads, queued=np.arange(-1, 299))

    sizes = [size for size in reads.size.tolist() if size >= 0]
    assert (facts.n, facts.n_sized, facts.bytes) == (300, len(sizes), sum(sizes))
    assert facts.n_open == sum(reads.is_open.tolist())
    counts = {size: sizes.count(size) for size in sizes}
    assert counts[facts.common_size] == max(counts.values())
    assert facts.common_share == pytest.approx(max(counts.values()) / len(sizes))
    assert sum(bucket.n for bucket in facts.buckets) == len(sizes)
    for bucket in facts.buckets:
        inside = [s for s in sizes if bucket.low <= s <= bucket.high]
        assert (bucket.n, bucket.bytes) == (len(inside), sum(inside))
        assert bucket.high < 2 * max(bucket.low, 1)
    took = sorted((reads.end - reads.start)[~reads.is_open].tolist())
    for percent, ticks in zip((50, 90, 99, 100), facts.latency, strict=True):
        assert sum(t <= ticks for t in took) * 100 >= percent * len(took)
        assert sum(t < ticks for t in took) * 100 < percent * len(took)
    assert facts.queued == int(np.median(np.arange(0, 299)))
    for share in facts.files:
        mine = [
            i
            for i in range(300)
            if (reads.files[int(reads.file[i])].path if reads.file[i] >= 0 else "")
            == share.name
        ]
        assert share.n == len(mine)
        assert share.bytes == sum(max(int(reads.size[i]), 0) for i in mine)


def test_distinct_bytes_are_those_of_a_set():
    rng = np.random.default_rng(3)
    offset, size = rng.integers(0, 500, 40), rng.integers(0, 60, 40)

    covered = {b for o, s in zip(offset, size, strict=True) for b in range(o, o + s)}

    assert distinct_bytes(offset, size) == len(covered)


def test_reads_that_go_on_where_the_last_one_ended_are_sequential():
    reads = [Read(i, i + 1, i * 4096, 4096, -1) for i in range(9)]
    reads.append(Read(10, 11, 0, 4096, -1))
    trace, _ = paired(1)
    assert trace.storage is not None
    storage = replace(trace.storage, requests=requests_of(reads))
    load = load_of(replace(trace, storage=storage), "device")

    assert load is not None
    assert load.facts.sequential == pytest.approx(8 / 9)


# -- tensors and causes -------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("threads", [1, 3])
def test_every_read_that_an_access_caused_is_attributed_to_it(seed, threads):
    trace, reads = paired(seed, threads=threads)

    load = load_of(trace, "device")

    assert load is not None
    assert load.causes.span.tolist() == [read.span for read in reads]
    assert set(load.causes.cause.tolist()) == {Cause.ACCESS}
    assert load.cause_counts[Cause.ACCESS] == len(reads)
    assert len(load.unattributed()) == 0


def test_bytes_of_tensors_are_those_that_a_loop_counts():
    trace, reads = paired(2)
    wide = [replace(read, size=3 * SIZE) for read in reads]
    assert trace.storage is not None
    storage = replace(trace.storage, requests=requests_of(wide))

    load = load_of(replace(trace, storage=storage), "device")

    assert load is not None
    expected = dict.fromkeys(range(N_TENSORS), 0)
    counts = dict.fromkeys(range(N_TENSORS), 0)
    for read in wide:
        for tensor in expected:
            begin = 4096 + tensor * SIZE
            part = min(read.offset + read.size, begin + SIZE) - max(read.offset, begin)
            expected[tensor] += max(part, 0)
            counts[tensor] += part > 0
    values = {row.tensor: (row.bytes, row.n) for row in load.by_tensor()}
    assert values == {t: (expected[t], counts[t]) for t in expected if counts[t]}
    for row in load.by_tensor():
        assert len(load.reads_of(row.tensor)) == row.n


def test_what_caused_no_read_is_left_open_and_says_why():
    trace, _ = paired(1)
    others = [
        Read(10, 20, 4096, 4096, -1),  # before the first op
        Read(12_300, 12_400, 0, 512, -1),  # the head of the file
        Read(1_000_000, 1_000_010, 4096, 4096, -1),  # when no op ran
    ]
    assert trace.storage is not None
    requests = requests_of(others)
    storage = replace(trace.storage, requests=requests)
    trace = replace(trace, storage=storage)

    load = load_of(trace, "device")

    assert load is not None
    assert load.causes.cause.tolist() == [
        Cause.BEFORE, Cause.NO_TENSOR, Cause.NO_ACCESS,
    ]  # fmt: skip
    assert load.unattributed().tolist() == [0, 1, 2]
    elsewhere = replace(requests, file=np.full(3, -1, np.int32))
    other = load_of(
        replace(trace, storage=replace(storage, requests=elsewhere)), "device"
    )
    assert other is not None
    assert set(other.causes.cause.tolist()) == {Cause.OTHER_FILE}


@pytest.mark.parametrize("is_aligned", [None, False])
def test_without_aligned_clocks_nothing_is_reported_of_causes(is_aligned):
    trace, _ = paired(1)
    assert trace.storage is not None
    trace = replace(trace, storage=replace(trace.storage, is_aligned=is_aligned))

    load = load_of(trace, "device")

    assert load is not None
    assert set(load.causes.cause.tolist()) == {Cause.OTHER_CLOCK}
    assert (load.causes.span == -1).all()


def test_a_file_is_a_model_by_name_and_size():
    trace, _ = paired(1)
    size = trace.models[0].size

    def of(path: str, size: int) -> int:
        return int(models_of(trace, (StorageFile(path, size),))[0])

    assert of("/x/tiny.gguf", -1) == 0
    assert of("/x/tiny.gguf", size) == 0
    assert of("/x/tiny.gguf", size + 1) == -1
    assert of("/x/other.gguf", size) == 0
    assert of("/x/other.gguf", -1) == -1


# -- levels -------------------------------------------------------------------------


def test_reads_of_ops_are_a_level_of_their_own():
    trace, _ = paired(1)

    assert load_keys(trace) == ("device", OPS)
    load = load_of(trace, OPS)

    assert load is not None
    assert load.facts.bytes == len(trace.spans) * SIZE
    assert load.causes.span.tolist() == load.rows.span.tolist()
    assert (np.diff(load.rows.start) >= 0).all()


def test_reads_of_ops_are_those_of_the_accesses_one_by_one():
    trace = llama_like_trace()
    expected = []
    accesses, what = trace.accesses, trace.accesses.patterns
    for span, pattern in enumerate(accesses.pattern.tolist()):
        if pattern < 0:
            continue
        for row in range(
            int(accesses.first[pattern]), int(accesses.first[pattern + 1])
        ):
            if what.space[row] == 0 and what.offset[row] >= 0:
                expected.append((span, int(what.offset[row]), int(what.size[row])))

    reads = load_rows(trace, OPS) if OPS in load_keys(trace) else None

    columns = () if reads is None else (reads.span, reads.offset, reads.size)
    items = list(zip(*(column.tolist() for column in columns), strict=True))
    assert sorted(items) == sorted(expected)


def test_a_range_and_a_file_leave_the_other_reads_out():
    trace, reads = paired(1)
    middle = reads[len(reads) // 2].start

    load = load_of(trace, "device", time=TimeRange(0, middle))
    none = load_of(trace, "device", file=5)

    assert load is not None
    assert load.facts.n == sum(read.start < middle for read in reads)
    assert len(load.whole) == len(reads)
    assert none is not None
    assert none.facts.n == 0


def test_a_trace_without_reads_has_no_load():
    trace, _ = paired(1)
    bare = replace(trace, storage=None, accesses=replace(trace.accesses,
                   patterns=replace(trace.accesses.patterns,
                                    offset=np.full(len(trace.spans), -1))))  # fmt: skip

    assert load_keys(bare) == ()
    assert load_of(bare) is None


# -- what limits loading ------------------------------------------------------------


def steady(n: int, size: int, took: int, gap: int, depth: int = 1) -> LoadFacts:
    start = np.arange(n, dtype=np.int64) * (took + gap) // depth
    reads = rows(0, n, open_share=0)
    offset = np.arange(n, dtype=np.int64) * size
    return load_facts(
        replace(
            reads,
            start=start,
            end=start + took,
            size=np.full(n, size, np.int64),
            offset=offset,
            file=np.zeros(n, np.int64),
            is_open=np.zeros(n, np.bool_),
        )
    )


def test_single_small_requests_are_named_only_where_they_are():
    trace, _ = paired(1)

    def text(facts: LoadFacts) -> str:
        return load_text(trace, facts)

    small = text(steady(1000, 4096, 16_000, 600))
    assert "4.0 KiB, one at a time" in small
    assert "single small requests" in small
    assert "single small" not in text(steady(1000, 1 << 20, 16_000, 600))
    half_idle = text(steady(1000, 4096, 16_000, 16_000))
    assert "one at a time" in half_idle
    assert "single small" not in half_idle
    assert "No timed read was in flight for 50.0 %" in half_idle
    assert "One request at a time" in text(steady(1000, 1 << 20, 16_000, 600))
    deep = text(steady(1000, 4096, 16_000, 0, depth=8))
    assert "at a time" not in deep
    assert "Queue depth 7.94 on average, 8 at most" in deep
    assert "something else than these reads" in text(steady(1000, 4096, 100, 9900))


def test_faults_are_reported_by_kind():
    trace, _ = paired(1)
    reads = rows(1, 30, open_share=1)
    kind = np.full(30, IoKind.MINOR_FAULT, np.uint8)
    kind[:10] = IoKind.MAJOR_FAULT
    facts = load_facts(replace(reads, key="fault", kind=kind))

    assert (facts.n_major, facts.n_minor, facts.n_faults) == (10, 20, 30)
    assert "10 major faults, 20 minor faults" in load_text(trace, facts)
