"""A trace that grows gives at every snapshot what the whole gives in one go."""

from dataclasses import fields

import numpy as np
import pytest

import growing
from ggscope.analysis.filters.masks import GrowingMask, filter_mask
from ggscope.analysis.order.table_order import OrderRequest, Sorting
from ggscope.analysis.rows import dominant_category, growth
from ggscope.analysis.rows.columns import RowColumns, column_edges, query_many
from ggscope.analysis.rows.index import TraceIndex
from ggscope.model.selection import Filter, MarkedRange
from ggscope.model.units import TimeRange

N = 2000


def chunk_sizes(seed: int, n: int = N) -> list[int]:
    rng, sizes = np.random.default_rng(seed + 100), []
    while sum(sizes) < n:
        size = int(rng.choice([0, 1, 2, 7, 60, 300, 700]))
        sizes.append(min(size, n - sum(sizes)))
    return sizes


def same_columns(result, expected) -> None:
    for name in ("busy", "category", "count", "covered_ticks", "first", "longest"):
        a, b = getattr(result, name), getattr(expected, name)
        assert np.array_equal(a, b), name


def same_waits(result, expected) -> None:
    a, b = result.waited_ticks, expected.waited_ticks
    assert (a is None) == (b is None)
    assert a is None or np.array_equal(a, b)


def compare(grown: TraceIndex, fresh: TraceIndex, rng, by) -> None:
    assert grown.lanes == fresh.lanes
    assert np.array_equal(grown.time_order(), fresh.time_order())
    phase_bands, bands = grown.phase_bands(), fresh.phase_bands()
    assert phase_bands.names == bands.names
    for name in ("phase", "start", "end", "n_prompt", "n_generated", "n_own"):
        assert np.array_equal(getattr(phase_bands, name), getattr(bands, name)), name
    colors, categories = grown.categories(by), fresh.categories(by)
    names, others = np.array(colors.keys), np.array(categories.keys)
    assert np.array_equal(names[colors.index], others[categories.index])
    if by != "op":  # the commonest first as of a while ago
        assert colors.keys == categories.keys
        assert colors.labels == categories.labels
    extent = grown.trace.extent
    for lane in grown.lanes:
        rows, expected = grown.rows(lane.key), fresh.rows(lane.key)
        assert len(rows) == len(expected), lane.key
        for a, b in zip(rows, expected, strict=True):
            assert np.array_equal(a.start, b.start)
            assert np.array_equal(a.end, b.end)
            assert np.array_equal(a.id, b.id[:])
            assert np.array_equal(a.prefix, b.prefix)
            assert np.array_equal(a.coarse, b.coarse)
        n = len(colors.labels)
        requested = grown.row_columns(lane.key, by)
        waits = fresh.waits(lane.key) or [None] * len(expected)
        plain = [
            RowColumns(row, colors.index, n, waits=own)
            for row, own in zip(expected, waits, strict=True)
        ]
        for px in (1, 300):
            low, high = np.sort(rng.integers(extent.start - 5, extent.end + 5, 2))
            for visible in (extent, TimeRange(int(low), int(high) + 1)):
                edges = column_edges(visible, px)
                for a, b in zip(
                    query_many(requested, edges), query_many(plain, edges), strict=True
                ):
                    same_columns(a, b)
                    same_waits(a, b)


@pytest.mark.parametrize("seed", range(8))
def test_growing_trace_is_at_each_snapshot_as_made_in_one_go(seed):
    columns, rng = growing.arrivals(seed, N), np.random.default_rng(seed)
    before = None
    by = ("family", "op", "layer", "thread", "phase", "source", "quality", "token")
    for number, (n, trace) in enumerate(growing.snapshots(columns, chunk_sizes(seed))):
        assert trace.check() == []
        before = TraceIndex(trace, before, is_appended=before is not None)
        if number % 5 == 4 or n == N:  # views are not asked at every snapshot
            fresh = TraceIndex(growing.whole(columns, n))
            compare(before, fresh, rng, by[(seed + number) % len(by)])


@pytest.mark.parametrize("seed", range(4))
def test_earlier_snapshots_of_a_growing_trace_stay_as_they_were(seed):
    columns = growing.arrivals(seed, N)
    items, before = [], None
    for _, trace in growing.snapshots(columns, chunk_sizes(seed)):
        before = TraceIndex(trace, before, is_appended=True)
        arrays = [before.time_order()]
        for lane in before.lanes:
            for row in before.row_columns(lane.key, "family"):
                arrays += [row.row.start, row.row.end, row.row.id, row.row.prefix]
        for f in fields(trace.spans):
            values = getattr(trace.spans, f.name)
            arrays += [] if values is None else [values]
        items.append([(array, np.array(array)) for array in arrays])

    assert all(np.array_equal(a, b) for snapshot in items for a, b in snapshot)


@pytest.mark.parametrize("seed", range(8))
def test_filtered_rows_of_a_growing_trace_are_those_of_the_whole(seed, monkeypatch):
    for module in (growth, dominant_category):
        monkeypatch.setattr(module, "MIN_SUMMED", 40)  # so that small rows have sums
    columns, rng = growing.arrivals(seed, N), np.random.default_rng(seed)
    filters = (Filter(ops=frozenset(("ADD", "ROPE"))), Filter(layers=frozenset((1, 2))))
    before, grown, used = None, None, None
    for number, (_, trace) in enumerate(growing.snapshots(columns, chunk_sizes(seed))):
        before = TraceIndex(trace, before, is_appended=before is not None)
        expected = filters[number // 12 % 2]
        if expected is not used or grown is None:  # a person chose another one
            grown, used = GrowingMask(filter_mask(trace, expected)), expected
        mask = grown.extended_to(trace, expected)
        if number % 3:
            continue
        by, fresh = "family" if seed % 2 else "layer", TraceIndex(trace)
        n_names = len(before.categories(by).labels)
        for lane in before.lanes:
            requested = before.filtered_columns(lane.key, by, mask, number)
            plain = [
                RowColumns(row.select(mask), before.categories(by).index, n_names)
                for row in before.rows(lane.key)
            ]
            edges = column_edges(trace.extent, int(rng.choice([1, 7, 300])))
            pairs = zip(
                query_many(requested, edges), query_many(plain, edges), strict=True
            )
            for a, b in pairs:
                same_columns(a, b)
            whole = fresh.filtered_columns(lane.key, by, mask, number)
            for a, b in zip(
                query_many(requested, edges), query_many(whole, edges), strict=True
            ):
                same_waits(a, b)


@pytest.mark.parametrize("seed", range(8))
def test_table_of_a_growing_trace_lists_what_it_lists_of_the_whole(seed):
    columns, rng, before = growing.arrivals(seed, N), np.random.default_rng(seed), None
    for number, (n, trace) in enumerate(growing.snapshots(columns, chunk_sizes(seed))):
        before = TraceIndex(trace, before, is_appended=before is not None)
        if number % 3 or not n:
            continue
        fresh = TraceIndex(growing.whole(columns, n))
        low, high = np.sort(rng.integers(0, trace.extent.end + 5, 2)).tolist()
        mask = rng.random(n) < 0.5
        lanes = frozenset((fresh.lanes[0].key,))
        for time in (None, TimeRange(low, high), TimeRange(low, low)):
            for chosen in (None, lanes) if time else (None,):
                part = None if time is None else MarkedRange(time, chosen)
                for keep in (None, mask, mask[: n // 2]):
                    for is_down in (False, True):
                        sorting = Sorting("time", is_down)
                        a, b = (
                            OrderRequest(index, sorting, keep, part=part)()
                            for index in (before, fresh)
                        )
                        assert a.n_rows == b.n_rows
                        assert np.array_equal(a.slice(0, n), b.slice(0, n))


def test_table_of_an_earlier_snapshot_is_listed_though_rows_have_gone_on():
    columns, old, new = growing.arrivals(2, N), None, None
    for _, trace in growing.snapshots(columns, [1000, 1000]):
        old, new = new, TraceIndex(trace, new, is_appended=True)
    for lane in new.lanes:
        new.rows(lane.key)
    part = MarkedRange(TimeRange(1000, 3000), None)

    listed = OrderRequest(old, Sorting(), part=part)().slice(0, N)

    fresh = TraceIndex(growing.whole(columns, 1000))
    expected = OrderRequest(fresh, Sorting(), part=part)().slice(0, N)
    assert np.array_equal(listed, expected)


def test_growing_trace_of_deep_nesting_falls_back_to_the_whole():
    n = 700
    start = np.arange(n, dtype=np.int64)
    columns = growing.arrivals(0, n) | {
        "start": start,
        "end": 10 * n - start,
        "lane": np.ones(n, np.int16),
    }
    before = None
    for _, trace in growing.snapshots(columns, [300, 300, 100]):
        before = TraceIndex(trace, before, is_appended=True)
        compare(
            before,
            TraceIndex(growing.whole(columns, len(trace.spans))),
            np.random.default_rng(0),
            "family",
        )


def test_older_index_asked_late_answers_for_its_own_spans():
    columns = growing.arrivals(1, N)
    old, new = None, None
    for _, trace in growing.snapshots(columns, [1000, 1000]):
        old, new = new, TraceIndex(trace, new, is_appended=True)
    for lane in new.lanes:
        new.row_columns(lane.key, "family")

    rng = np.random.default_rng(0)
    compare(old, TraceIndex(growing.whole(columns, 1000)), rng, "family")
