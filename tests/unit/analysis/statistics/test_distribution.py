"""Distributions against counts value by value, and the filters that dragging makes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builders
import ggscope
from ggscope.analysis.filters.masks import filter_mask
from ggscope.analysis.reads.op_io import is_repeated
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.statistics.amounts import AMOUNTS, Amount, amounts
from ggscope.analysis.statistics.distribution import Distribution, distribution
from ggscope.analysis.statistics.members import spans_of_group
from ggscope.analysis.statistics.table import stat_table
from ggscope.errors import Cancelled
from ggscope.model.selection import Filter, SpanGroup
from ggscope.model.tables import Quality, quality_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from support import sample_path
from wait_traces import random_waits
from watchers import CancelAfter

SAMPLES = ("tinyllama-256.bin", "moe-experiment", "npu-prefill-decode.json")
MADE = {
    "llama": lambda: builders.llama_like_trace(tokens=3, layers=3, threads=2),
    "random": lambda: builders.random_trace(3, n=400),
    "waits": lambda: random_waits(3, 900),
}


@pytest.fixture(params=[*MADE, *SAMPLES])
def trace(request: pytest.FixtureRequest) -> Trace:
    if request.param in MADE:
        made: Trace = MADE[request.param]()
        return made
    return ggscope.open(sample_path(request.param))


def counted(trace: Trace, of: Amount, *, include: bool = False) -> np.ndarray:
    """Return which spans are counted, span by span."""
    s = trace.spans
    amount = amounts(trace, of)(slice(0, len(s)))
    worst = Quality.UNFINISHED if include else Quality.DERIVED
    keep = []
    for i in range(len(s)):
        is_kept = s.op[i] >= 0 and amount[i] >= 0
        if of == "duration":
            is_kept &= quality_of(s.flags[i : i + 1])[0] <= worst
        else:
            is_kept &= not is_repeated(s.flags[i : i + 1])[0]
        keep.append(bool(is_kept))
    return np.array(keep, bool)


def assert_bars(
    distribution: Distribution, values: np.ndarray, own: np.ndarray
) -> None:
    assert distribution.n == len(values)
    if not len(values):
        assert not len(distribution.bars(is_log=True).counts)
        return
    assert (distribution.low, distribution.high) == (values.min(), values.max())
    for is_log in (False, True):
        for item in (10, 80):
            bars = distribution.bars(is_log=is_log, limit=item)
            edges = bars.edges
            assert (np.diff(edges) > 0).all()
            assert edges[0] <= values.min()
            assert edges[-1] > values.max()
            assert len(bars.counts) <= max(2 * item, 64)
            for k, count in enumerate(bars.counts.tolist()):
                inside = (values >= edges[k]) & (values < edges[k + 1])
                assert count == np.count_nonzero(inside)
                inside = (own >= edges[k]) & (own < edges[k + 1])
                assert bars.own[k] == np.count_nonzero(inside)


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("of", AMOUNTS)
def test_bars_equal_counts_value_by_value(
    trace: Trace, of: Amount, include: bool
) -> None:
    rows = stat_table(trace, include_estimated=True).rows
    group = SpanGroup("op", rows[0].key) if rows else None
    result = distribution(trace, of, group=group, include_estimated=include)

    keep = counted(trace, of, include=include)
    amount = amounts(trace, of)(slice(0, len(trace.spans)))
    is_own = np.zeros(len(keep), bool)
    if group is not None:
        is_own[spans_of_group(TraceIndex(trace), group)] = True
    assert_bars(result, amount[keep], amount[keep & is_own])
    ops = trace.spans.op >= 0
    if of != "duration":
        ops &= ~is_repeated(trace.spans.flags)
    assert result.n_unknown == np.count_nonzero(ops) - result.n


@pytest.mark.parametrize("of", AMOUNTS)
@pytest.mark.parametrize("is_log", [False, True])
def test_filter_of_some_bars_matches_what_they_count(
    trace: Trace, of: Amount, is_log: bool
) -> None:
    result = distribution(trace, of)
    bars = result.bars(is_log=is_log)
    if not len(bars.counts):
        pytest.skip("nothing is known of it")
    rng = np.random.default_rng(5)
    for _ in range(4):
        a, b = sorted(rng.integers(0, len(bars.counts) + 1, 2).tolist())
        b = max(b, a + 1) if a < len(bars.counts) else b
        if a == b:
            continue
        expected = result.within(int(bars.edges[a]), int(bars.edges[b]), Filter())
        mask = filter_mask(trace, expected)
        assert mask is not None
        again = distribution(trace, of, mask=mask)

        assert again.n == bars.counts[a:b].sum()


def test_range_mask_and_chosen_spans_restrict_it(trace: Trace) -> None:
    rng = np.random.default_rng(2)
    low, high = sorted(rng.integers(trace.extent.start, trace.extent.end, 2).tolist())
    time, mask = TimeRange(low, high + 1), rng.random(len(trace.spans)) < 0.5
    table = stat_table(trace, mask=mask, time=time)

    result = distribution(trace, "duration", mask=mask, time=time)

    assert result.n == table.all.timed
    assert result.n_unknown == table.all.count - table.all.timed
    if table.all.timed:
        assert (result.low, result.high) == (table.all.min, table.all.max)
    ids = np.flatnonzero(mask)[:40]
    some = distribution(trace, "duration", ids=ids)
    assert some.n == stat_table(trace, ids=ids).all.timed
    lanes = distribution(trace, "duration", by="lane")
    assert lanes.n == stat_table(trace, "lane").all.timed


@given(
    st.lists(
        st.integers(0, (1 << 62) - 1).flatmap(
            lambda v: st.integers(0, 62).map(lambda k: v >> k)
        ),
        min_size=1,
        max_size=60,
    )
)
@settings(max_examples=80, deadline=None)
def test_bars_of_values_of_any_size(values: list[int]) -> None:
    start = np.zeros(len(values), np.int64)
    trace = builders.spans_trace(start, np.array(values, np.int64), op=1)

    result = distribution(trace, "duration")

    assert_bars(result, np.array(values, np.int64), np.zeros(0, np.int64))


def test_quality_is_part_of_the_filter_where_times_are_left_out() -> None:
    trace = builders.random_trace(3, n=400)
    result = distribution(trace, "duration")
    expected = result.within(1, 10, Filter(layers=frozenset({1})))
    assert expected.layers == frozenset({1})
    assert (expected.min_duration, expected.max_duration) == (1, 9)
    used = frozenset({int(Quality.MEASURED), int(Quality.DERIVED)})
    assert expected.qualities == (used if result.n_unknown else None)
    whole = distribution(trace, "duration", include_estimated=True)
    assert whole.within(1, 10, Filter()).qualities is None


def test_cancelled_count_raises() -> None:
    trace = builders.random_trace(5, n=3000)
    with pytest.raises(Cancelled):
        distribution(trace, "duration", watcher=CancelAfter(0))
