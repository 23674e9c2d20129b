"""The spans of a row of statistics, against what statistics count."""

from pathlib import Path

import numpy as np
import pytest

import builders
import ggscope
from ggscope.analysis.filters.masks import filter_mask
from ggscope.analysis.filters.text import format_filter, parse_filter
from ggscope.analysis.links import MAX_SPANS, linked
from ggscope.analysis.rows.index import TraceIndex, mask_of_lanes
from ggscope.analysis.statistics import members
from ggscope.analysis.statistics.grouping import WITHOUT_OPS
from ggscope.analysis.statistics.members import (
    filter_of_group,
    linked_group,
    spans_of_group,
)
from ggscope.analysis.statistics.table import stat_table
from ggscope.errors import QueryError
from ggscope.model.selection import BY, By, Filter, Selection, SpanGroup
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from support import sample_path


def experiment() -> Path:
    """Return the folder of the sample experiment, or skip where it is not made."""
    return sample_path("moe-experiment")


TRACES = {
    "llama": lambda: builders.llama_like_trace(tokens=4, layers=3, threads=2),
    "npu": lambda: builders.npu_like_trace(),
    "random": lambda: builders.random_trace(3, n=400),
    "experts": lambda: ggscope.open(experiment()),
}
PARTS = [None, 0.3]


@pytest.fixture(params=TRACES)
def trace(request: pytest.FixtureRequest) -> Trace:
    made: Trace = TRACES[request.param]()
    return made


def time_of(trace: Trace, share: float | None) -> TimeRange | None:
    if share is None:
        return None
    first, length = trace.extent.start, trace.extent.duration
    return TimeRange(first + length // 5, first + round(length * (0.2 + share)))


@pytest.mark.parametrize("share", PARTS)
@pytest.mark.parametrize("by", BY)
def test_spans_of_a_group_are_as_many_as_statistics_count(
    trace: Trace, by: By, share: float | None
) -> None:
    index, time = TraceIndex(trace), time_of(trace, share)

    for row in stat_table(trace, by, time=time, include_estimated=True).rows:
        ids = spans_of_group(index, SpanGroup(by, row.key, time=time))

        assert len(ids) == row.count, row.key
        assert (np.diff(ids) > 0).all()
        total = int((trace.spans.end[ids] - trace.spans.start[ids]).sum())
        if by not in ("expert",):  # shares of an op's time
            assert total == row.total, row.key


def test_filter_lanes_and_chosen_spans_restrict_a_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(members, "CHUNK_ROWS", 17)
    trace = builders.llama_like_trace(tokens=4, layers=3, threads=2)
    index, time = TraceIndex(trace), TimeRange(0, 2_000_000)
    op = stat_table(trace).rows[0].key
    is_op = np.array([trace.op_name(int(i)) == op for i in trace.spans.op])
    key = next(lane.key for lane in index.lanes if lane.title == "thread 1")
    where = Filter(layers=frozenset({1, 2}))
    matches = filter_mask(trace, where)
    assert matches is not None

    filtered = spans_of_group(index, SpanGroup("op", op, where))
    lanes = frozenset({key})
    marked = spans_of_group(index, SpanGroup("op", op, time=time, lanes=lanes))
    some = tuple(np.flatnonzero(is_op)[:5].tolist())
    chosen = spans_of_group(index, SpanGroup("op", op, ids=(*some, 0)))

    assert filtered.tolist() == np.flatnonzero(is_op & matches).tolist()
    touch = (trace.spans.start < time.end) & (trace.spans.end > time.start)
    on_lane = mask_of_lanes(index, lanes, time)
    assert marked.tolist() == np.flatnonzero(is_op & touch & on_lane).tolist()
    assert set(some) <= set(chosen.tolist()) <= {*some, 0}


@pytest.mark.parametrize("by", BY)
def test_filter_of_a_group_leaves_its_spans(trace: Trace, by: By) -> None:
    index, spans = TraceIndex(trace), trace.spans
    for row in stat_table(trace, by, include_estimated=True).rows:
        expected = filter_of_group(by, row.key)
        assert parse_filter(format_filter(expected)) == expected
        mask = filter_mask(trace, expected)
        assert mask is not None

        rows = np.flatnonzero(mask if by in WITHOUT_OPS else mask & (spans.op >= 0))

        assert rows.tolist() == spans_of_group(index, SpanGroup(by, row.key)).tolist()


def test_filters_of_groups_speak_of_fields_where_there_is_one() -> None:
    assert filter_of_group("tensor", "no weight") == Filter(
        groups=frozenset({"tensor:no weight"})
    )
    assert filter_of_group("expert", "none") == Filter(
        groups=frozenset({"expert:none"})
    )
    assert filter_of_group("expert", "3") == Filter(experts=frozenset({3}))
    assert filter_of_group("token", "decode 12") == Filter(
        tokens=frozenset({12}), phases=frozenset({1})
    )
    assert filter_of_group("core", "unknown") == Filter(cores=frozenset({-1}))


def test_filters_of_groups_by_several_things_must_all_hold(trace: Trace) -> None:
    if not stat_table(trace, "type").rows:
        pytest.skip("it has no ops")
    types, names = (stat_table(trace, by).rows[0].key for by in ("type", "name"))
    expected = filter_of_group("type", types).merged(filter_of_group("name", names))

    index, mask = TraceIndex(trace), filter_mask(trace, expected)

    assert mask is not None
    a, b = (
        spans_of_group(index, SpanGroup(by, key))
        for by, key in (("type", types), ("name", names))
    )
    assert np.flatnonzero(mask).tolist() == np.intersect1d(a, b).tolist()
    assert parse_filter(format_filter(expected)) == expected
    other = filter_of_group("type", "other")
    assert filter_of_group("type", types).merged(other) == other


def test_group_of_nothing_that_is_grouped_by_is_refused() -> None:
    for text in ("group=nothing:3", "group=3", "group>layer:3"):
        with pytest.raises(QueryError):
            parse_filter(text)


def test_group_is_linked_with_what_its_spans_are_linked_with() -> None:
    trace = builders.llama_like_trace(tokens=2, layers=2, threads=1)
    index, row = TraceIndex(trace), stat_table(trace).rows[0]
    group = SpanGroup("op", row.key)
    ids = spans_of_group(index, group)
    ticks = trace.spans.end[ids] - trace.spans.start[ids]

    result = linked_group(index, Selection("groups", (0,), group))
    same = linked(trace, Selection("spans", tuple(ids.tolist())))

    assert result.spans.tolist() == ids.tolist()
    assert result.n_spans == row.count
    assert result.tensors.tolist() == same.tensors.tolist()
    assert result.ranges.tolist() == same.ranges.tolist()
    assert result.longest == int(ids[np.argmax(ticks)])


def test_longest_span_is_listed_and_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "MAX_SPANS", 3)
    flags = np.zeros(6, np.uint16)
    flags[5] = SpanFlag.UNFINISHED
    trace = builders.spans_trace(
        [0, 10, 20, 30, 40, 60], [5, 15, 25, 35, 59, 999], op=1, flags=flags
    )
    op = trace.op_name(1)

    linked = linked_group(
        TraceIndex(trace), Selection("groups", (0,), SpanGroup("op", op))
    )

    assert linked.longest == 4
    assert linked.spans.tolist() == [0, 1, 4]
    assert linked.n_spans == 6
    assert MAX_SPANS > 3


def test_group_that_is_not_there_has_no_spans() -> None:
    trace = builders.llama_like_trace(tokens=1, layers=1)
    group = SpanGroup("op", "NO_SUCH_OP")

    assert not len(spans_of_group(TraceIndex(trace), group))
    assert (
        linked_group(TraceIndex(trace), Selection("groups", (0,), group)).longest == -1
    )
