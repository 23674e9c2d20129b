"""The compiled scan and its numpy twin give the same figures, to the last bit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ggscope
from builders import (
    llama_like_trace,
    npu_like_trace,
    random_trace,
    spans_trace,
    statistics,
)
from ggscope.analysis.statistics import scan
from ggscope.analysis.statistics.grouping import grouping
from ggscope.analysis.statistics.scan import BLOCK_ROWS, SpanBlocks, SpanScope
from ggscope.analysis.statistics.table import StatRow, stat_table
from ggscope.errors import Cancelled
from ggscope.model.selection import By
from ggscope.model.tables import LONGEST_WAIT, NO_WAIT, Quality, SpanFlag
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from link_traces import random_links_trace
from support import sample_path
from watchers import CancelAfter

SCANNED: tuple[By, ...] = (
    "op", "family", "layer", "token", "thread", "phase", "lane", "engine", "tensor",
)  # fmt: skip


def rows_of(trace: Trace, by: By = "op", **named: object) -> list[StatRow]:
    return list(stat_table(trace, by, **named).rows)  # type: ignore[arg-type]


def plainly(trace: Trace, by: By, **named: object) -> list[StatRow]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "can_scan", lambda *_: False)
        return rows_of(trace, by, **named)


def assert_same(trace: Trace, by: By, **named: object) -> None:
    assert scan.can_scan(trace, grouping(trace, by))
    scanned = rows_of(trace, by, **named)
    # By text: a mean that is not known is NaN, which no number equals.
    assert list(map(repr, scanned)) == list(map(repr, plainly(trace, by, **named)))


def with_flags(trace: Trace, seed: int) -> Trace:
    """Return the trace with spans of all qualities."""
    choice = np.array([0, 0, 0, 1, 2, SpanFlag.ESTIMATED, SpanFlag.UNFINISHED, 66])
    flags = choice[np.random.default_rng(seed).integers(0, 8, len(trace.spans))]
    return replace(trace, spans=replace(trace.spans, flags=flags.astype(np.uint16)))


@pytest.mark.parametrize("by", SCANNED)
@pytest.mark.parametrize("include_estimated", [False, True])
def test_scan_equals_numpy_whatever_the_grouping(
    by: By, include_estimated: bool
) -> None:
    for trace in (
        llama_like_trace(),
        with_flags(random_trace(7, 4_000, lanes=3, shuffled=True), 1),
        with_flags(random_trace(8, 500, lanes=2), 2),
    ):
        if len(grouping(trace, by)):
            assert_same(trace, by, include_estimated=include_estimated)


@pytest.mark.parametrize("by", ["engine", "lane"])
def test_scan_equals_numpy_on_engines_with_loose_accesses(by: By) -> None:
    trace = npu_like_trace(tiles=20)

    assert_same(trace, by)
    assert_same(trace, by, time=TimeRange(500, 3_000))


@pytest.mark.parametrize("seed", range(6))
def test_scan_equals_numpy_within_ranges_and_masks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trace = with_flags(random_trace(seed, 3_000, lanes=3, shuffled=seed % 2 == 1), seed)
    last = trace.extent.end
    blocks = SpanBlocks(trace)
    for _ in range(6):
        low, high = sorted(rng.integers(-last // 8, last + last // 8, 2).tolist())
        for _ in range(2):
            mask = rng.random(3_000) < rng.random() if rng.random() < 0.5 else None
            time = TimeRange(low, high)
            assert_same(trace, "op", time=time, mask=mask, blocks=blocks)
            assert_same(trace, "layer", time=time, mask=mask)


@given(
    st.lists(
        st.one_of(
            st.integers(0, 20),
            st.integers(0, 1 << 62).map(lambda v: v >> (v % 60)),
            st.sampled_from([0, 1, 255, 256, 257, (1 << 31), (1 << 62) - 1]),
        ),
        min_size=1,
        max_size=80,
    ),
    st.integers(1, 4),
)
@settings(max_examples=100, deadline=None)
def test_scan_equals_numpy_on_durations_of_any_size(
    durations: list[int], n_ops: int
) -> None:
    # Sums beyond 2^63 wrap in both; what is compared stays comparable.
    end = np.array(durations, np.int64)
    op = (np.arange(len(end)) % n_ops + 1).astype(np.int8)

    assert_same(spans_trace(np.zeros(len(end), np.int64), end, op=op), "op")


@pytest.mark.parametrize("n_tokens", [1, 300, 5_000, 70_000])
def test_scan_equals_numpy_for_many_groups(n_tokens: int) -> None:
    rng = np.random.default_rng(n_tokens)
    n = 80_000
    start = np.arange(n) * 50_000
    token = rng.integers(-1, n_tokens, n).astype(np.int32)

    trace = spans_trace(start, start + rng.integers(0, 40_000, n), op=1, token=token)

    assert_same(trace, "token")


def test_scan_of_one_value_only_is_exact() -> None:
    start = np.arange(70_000) * 1_000
    trace = spans_trace(start, start + 777, op=1)

    (row,) = statistics(trace)

    assert (row.min, row.p50, row.p99, row.max) == (777, 777.0, 777.0, 777)


@pytest.mark.parametrize("k", range(9))
def test_cancelled_scan_leaves_the_next_one_right(
    monkeypatch: pytest.MonkeyPatch, k: int
) -> None:
    monkeypatch.setattr(scan, "_CALL_ROWS", BLOCK_ROWS)  # one block per call
    n = 3 * BLOCK_ROWS
    start = np.arange(n) * 10
    trace = spans_trace(start, start + np.arange(n) % 9, op=1)
    expected = statistics(trace)

    try:
        again = rows_of(trace, watcher=CancelAfter(k))
    except Cancelled:
        again = statistics(trace)

    assert again == expected


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("keeps_keys", [True, False])
def test_scan_equals_numpy_on_ops_that_several_threads_have(
    monkeypatch: pytest.MonkeyPatch, seed: int, keeps_keys: bool
) -> None:
    if not keeps_keys:
        monkeypatch.setattr(scan, "MAX_KEYS", 0)
    rng = np.random.default_rng(seed)
    trace = random_trace(seed, 3_000, lanes=3)
    repeated = int(SpanFlag.REPEATED)
    flags = rng.choice([0, 0, 0, 1, SpanFlag.ESTIMATED, SpanFlag.UNFINISHED], 3_000)
    flags[trace.spans.lane > 0] |= repeated
    columns = {"flags": flags.astype(np.uint16)}
    if seed % 2:
        wait = rng.choice(np.array([0, 7, 1 << 20, NO_WAIT, LONGEST_WAIT]), 3_000)
        columns["wait"] = wait.astype(np.uint32)
    trace = replace(trace, spans=replace(trace.spans, **columns))  # type: ignore[arg-type]
    length = trace.extent.duration
    for time in (None, TimeRange(length // 5, length // 2)):
        for by in ("op", "layer", "tensor"):
            for include in (False, True):
                assert_same(trace, by, time=time, include_estimated=include)


def test_cancelled_numpy_statistics_raise() -> None:
    trace = random_trace(3, 100)

    with pytest.raises(Cancelled):
        rows_of(trace, "tensor", watcher=CancelAfter(0))


def test_progress_ends_at_the_whole() -> None:
    seen = CancelAfter(1_000)

    rows_of(random_trace(3, 5_000), watcher=seen)

    assert seen.reports[-1][0] == seen.reports[-1][1]
    assert [done for done, _ in seen.reports] == sorted(d for d, _ in seen.reports)


def test_blocks_that_do_not_touch_a_range_are_left_out() -> None:
    n = 5 * BLOCK_ROWS
    start = np.arange(n) * 10
    blocks = SpanBlocks(spans_trace(start, start + 10))
    inside = TimeRange(10 * (2 * BLOCK_ROWS + 5), 10 * (2 * BLOCK_ROWS + 9))

    touching = blocks.touching(inside)

    assert touching == [slice(2 * BLOCK_ROWS, 3 * BLOCK_ROWS)]
    assert len(blocks.touching(None)) == 5
    assert blocks.touching(TimeRange(10 * n + 1, 10 * n + 2)) == []


def test_columns_with_hostile_numbers_stay_within_bounds() -> None:
    # The model forbids these; a fault elsewhere must not become a crash here.
    trace = random_trace(3, 2_000)
    lane = trace.spans.lane.astype(np.int32).copy()
    lane[::7] = 1 << 30
    lane[::5] = -(1 << 30)
    pattern = trace.accesses.pattern.astype(np.int32)
    pattern[::3] = 1 << 30
    pattern[::4] = -(1 << 30)
    bad = replace(
        trace,
        spans=replace(trace.spans, lane=lane),
        accesses=replace(trace.accesses, pattern=pattern),
    )
    groups = grouping(bad, "lane")

    figures = scan.figures(bad, groups, SpanScope(), SpanBlocks(bad))

    assert figures.spans.sum() == np.isin(lane, (0, 1)).sum()


def test_counts_of_uncertain_spans_are_distinguished() -> None:
    flags = [0, SpanFlag.ESTIMATED, SpanFlag.UNFINISHED, SpanFlag.UNFINISHED]
    trace = spans_trace([0, 10, 20, 30], [10, 20, 70, 70], op=1, flags=flags)

    (row,) = statistics(trace)

    assert (row.estimated, row.unfinished) == (1, 2)
    assert Quality[row.quality.upper()] == Quality.MEASURED


def test_limited_table_has_the_largest_groups_and_the_sum_of_all() -> None:
    trace = with_flags(random_trace(9, 3_000, lanes=2), 4)
    every = statistics(trace, "layer")

    table = stat_table(trace, "layer", limit=3)

    assert list(table.rows) == every[:3]
    assert table.n_groups == len(every)
    together = table.all
    assert together.count == sum(row.count for row in every)
    assert together.timed == sum(row.timed for row in every)
    assert together.total == sum(row.total for row in every)
    assert together.bytes == sum(row.bytes for row in every)
    assert together.estimated == sum(row.estimated for row in every)
    assert together.unfinished == sum(row.unfinished for row in every)
    assert together.min == min(row.min for row in every if row.min is not None)
    assert together.max == max(row.max for row in every if row.max is not None)


def test_table_of_nothing_has_no_times() -> None:
    table = stat_table(spans_trace([0], [5]))

    assert (table.rows, table.n_groups, table.all.count) == ((), 0, 0)
    assert (table.all.min, table.all.max) == (None, None)


# -- spans that are shared out -----------------------------------------------------


def plainly_shared(trace: Trace, by: By, **named: object) -> list[StatRow]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "can_split", lambda *_: False)
        return rows_of(trace, by, **named)


def sample(name: str) -> Trace:
    return ggscope.open(sample_path(name))


@pytest.mark.parametrize("by", ["expert", "source"])
@pytest.mark.parametrize("name", ["moe-experiment", "tinyllama-256.bin"])
def test_scan_of_shared_spans_equals_numpy(name: str, by: By) -> None:
    trace = with_flags(sample(name), 3)
    rng = np.random.default_rng(1)
    first, length = trace.extent.start, trace.extent.duration
    time = TimeRange(first + length // 5, first + length // 2)
    mask = rng.random(len(trace.spans)) < 0.6
    assert scan.can_split(trace, grouping(trace, by))

    for named in (
        {},
        {"include_estimated": True},
        {"time": time},
        {"mask": mask, "time": time},
    ):
        scanned = rows_of(trace, by, **named)
        assert list(map(repr, scanned)) == list(
            map(repr, plainly_shared(trace, by, **named))
        )
        assert scanned


@pytest.mark.parametrize("seed", range(8))
def test_scan_of_shared_spans_equals_numpy_on_random_accesses(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trace = random_links_trace(seed)
    n = len(trace.spans)
    wait = rng.integers(0, 1000, n).astype(np.uint32)
    trace = with_flags(replace(trace, spans=replace(trace.spans, wait=wait)), seed)
    quiet = np.full(len(trace.accesses.loose), -1)
    loose = replace(trace.accesses.loose, span=quiet.astype(np.int64))
    trace = replace(trace, accesses=replace(trace.accesses, loose=loose))
    for by in ("expert", "source"):
        assert scan.can_split(trace, grouping(trace, by))
        scanned = list(map(repr, rows_of(trace, by)))  # type: ignore[arg-type]
        assert scanned == list(map(repr, plainly_shared(trace, by)))  # type: ignore[arg-type]


def test_shared_spans_with_accesses_of_their_own_are_for_numpy() -> None:
    trace = random_links_trace(4)
    assert (trace.accesses.loose.span >= 0).any()

    assert not scan.can_split(trace, grouping(trace, "source"))
