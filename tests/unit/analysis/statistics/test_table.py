"""statistics against numpy and plain Python, group by group."""

import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from builders import (
    empty_trace,
    finished,
    llama_like_trace,
    npu_like_trace,
    random_trace,
    spans_trace,
    statistics,
)
from ggscope.analysis.filters.masks import filter_mask
from ggscope.analysis.filters.text import parse_filter
from ggscope.analysis.statistics import table as statistics_table
from ggscope.analysis.statistics.table import histogram, stat_table
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml.ops import family_of
from ggscope.model.selection import BY
from ggscope.model.tables import (
    AccessColumns,
    Accesses,
    FlatAccesses,
    Phase,
    Space,
    SpanFlag,
    no_accesses,
    quality_of,
)
from ggscope.model.tensors import Tensors
from ggscope.model.trace import LaneKind
from ggscope.model.units import TimeRange

LLAMA = llama_like_trace()
RANDOM = random_trace(3, 3_000, lanes=3, shuffled=True)
SOURCES = {Space.FILE: "DISK", Space.BUFFER: "BUFFER"}


def keys_slow(trace, by, i):
    """Return {key: bytes} of the groups that span i belongs to."""
    s, what = trace.spans, trace.accesses.of_span(i)
    lane = trace.lanes[s.lane[i]]
    size = int(np.maximum(what.size, 0).sum())
    op = trace.op_name(int(s.op[i]))
    if by == "source":
        slow = defaultdict(int)
        for row in range(len(what)):
            slow[SOURCES[what.space[row]]] += int(what.size[row])
        return slow
    if by == "tensor":
        return {weight_slow(trace, what): size}
    number = {"layer": s.layer, "token": s.token, "phase": s.phase}.get(by)
    if number is not None:
        value = int(number[i])
        if by == "token" and value >= 0 and s.phase is not None:
            word = ("prefill ", "decode ", "")[int(s.phase[i])]
            return {f"{word}{value}" if not trace.info.n_passes else str(value): size}
        key = Phase(value).name.lower() if by == "phase" and value >= 0 else str(value)
        return {key if value >= 0 else "none": size}
    if by in ("thread", "engine"):
        kind = LaneKind.THREAD if by == "thread" else LaneKind.ENGINE
        return {lane.name: size} if lane.kind == kind else {}
    return {{"op": op, "family": family_of(op), "lane": lane.name}[by]: size}


def weight_slow(trace, what):
    """Return the name of the weight of most bytes, of equals the first."""
    if not len(what):
        return "not recorded"
    sums = {}
    for row in range(len(what)):
        if what.space[row] == Space.FILE:
            tensor = int(what.tensor[row])
            sums[tensor] = sums.get(tensor, 0) + int(what.size[row])
    if not sums:
        return "no weight"
    return trace.strings[int(trace.tensors.name[max(sums, key=sums.__getitem__)])]


def expected(trace, by, ids):
    """Return {key: (count, durations, bytes, worst quality)} of the spans."""
    counts, times, sizes, worst = (defaultdict(t) for t in (int, list, int, int))
    quality = quality_of(trace.spans.flags)
    for i in ids:
        for key, size in keys_slow(trace, by, i).items():
            counts[key] += 1
            sizes[key] += size
            if quality[i] <= 1:
                times[key].append(int(trace.spans.end[i] - trace.spans.start[i]))
                worst[key] = max(worst[key], int(quality[i]))
    return {k: (counts[k], times[k], sizes[k], worst[k]) for k in counts}


@pytest.mark.parametrize(
    "by",
    ["op", "family", "layer", "tensor", "token", "thread", "phase", "lane", "source"],
)
@pytest.mark.parametrize("trace", [LLAMA, RANDOM], ids=["llama", "random"])
def test_statistics_equal_numpy_group_by_group(trace, by):
    ids = np.arange(len(trace.spans))
    if by != "lane":
        ids = ids[trace.spans.op >= 0]

    rows = statistics(trace, by)

    want = expected(trace, by, ids.tolist())
    assert {row.key for row in rows} == set(want)
    whole = sum(sum(times) for _, times, _, _ in want.values())
    for row in rows:
        count, times, size, worst = want[row.key]
        assert (row.count, row.timed, row.bytes) == (count, len(times), size)
        assert (row.total, row.min, row.max) == (sum(times), min(times), max(times))
        assert row.mean == pytest.approx(np.mean(times), rel=1e-12)
        percentiles = np.percentile(np.array(times), [50, 90, 99]).tolist()
        assert [row.p50, row.p90, row.p99] == percentiles
        assert row.share == pytest.approx(sum(times) / whole)
        assert row.quality == ("measured", "derived")[worst]
    totals = [row.total for row in rows]
    assert totals == sorted(totals, reverse=True)
    if rows:
        assert math.fsum(row.share for row in rows) == pytest.approx(1)


@pytest.mark.parametrize("flags", [np.uint8, np.uint16])
@pytest.mark.parametrize("pattern", [np.int16, np.int32])
def test_statistics_do_not_depend_on_the_width_of_columns(flags, pattern):
    spans, accesses = LLAMA.spans, LLAMA.accesses
    narrow = replace(
        LLAMA,
        spans=replace(spans, flags=spans.flags.astype(flags)),
        accesses=replace(accesses, pattern=accesses.pattern.astype(pattern)),
    )

    assert statistics(narrow, "layer") == statistics(LLAMA, "layer")
    assert sum(row.bytes for row in statistics(narrow, "layer")) > 0


@pytest.mark.parametrize("by", BY)
def test_statistics_of_nothing_is_empty(by):
    assert statistics(empty_trace(), by) == []


def test_statistics_by_something_unknown_is_refused():
    with pytest.raises(ValueError, match="colour"):
        statistics(LLAMA, "colour")


def test_statistics_over_several_chunks_equal_one(monkeypatch):
    whole = statistics(RANDOM, "layer")
    monkeypatch.setattr(statistics_table, "CHUNK_ROWS", 11)

    assert statistics(RANDOM, "layer") == whole


def test_statistics_of_a_mask_equal_those_of_its_ids():
    mask = filter_mask(LLAMA, parse_filter("layer=1 source=disk"))

    by_mask = statistics(LLAMA, "op", mask=mask)

    assert by_mask == statistics(LLAMA, "op", ids=np.flatnonzero(mask))
    assert sum(row.count for row in by_mask) == mask.sum()


def test_statistics_of_a_range_count_the_spans_that_touch_it():
    trace = spans_trace([0, 10, 20, 30], [10, 20, 30, 40], op=1)

    (row,) = statistics(trace, time=TimeRange(15, 30))

    assert (row.count, row.total) == (2, 20)


def test_durations_at_the_edge_of_a_range_are_whole_and_the_part_inside_is_reported():
    trace = spans_trace([0, 10, 20, 30], [10, 20, 30, 40], op=1)

    table = stat_table(trace, time=TimeRange(15, 30))

    (row,) = table.rows
    assert (row.total, row.min, row.max, row.p50) == (20, 10, 10, 10)
    assert (row.in_range, table.all.in_range) == (15, 15)
    assert statistics(trace)[0].in_range is None


def test_estimated_and_unfinished_spans_are_counted_but_not_timed():
    flags = [0, int(SpanFlag.ESTIMATED), int(SpanFlag.UNFINISHED)]
    trace = spans_trace([0, 10, 20], [10, 20, 70], op=1, flags=flags)

    (row,) = statistics(trace)
    (every,) = statistics(trace, include_estimated=True)

    assert (row.count, row.timed, row.total, row.quality) == (3, 1, 10, "measured")
    assert (every.timed, every.total, every.quality) == (3, 70, "unfinished")


def test_group_without_a_known_duration_has_no_times():
    trace = spans_trace([0], [10], op=1, flags=int(SpanFlag.ESTIMATED))

    (row,) = statistics(trace)

    assert (row.count, row.timed, row.total, row.share) == (1, 0, 0, 0.0)
    assert row.min is None
    assert row.max is None
    assert math.isnan(row.mean)
    assert math.isnan(row.p99)
    assert row.quality == "estimated"


def test_unknown_op_number_is_a_row_of_its_own():
    trace = spans_trace([0, 10], [10, 30], op=[1, 94])

    assert [row.key for row in statistics(trace)] == ["OP_94?", "ADD"]


def test_engines_are_counted_without_op_numbers():
    trace = npu_like_trace(tiles=6)

    rows = {row.key: row for row in statistics(trace, "engine")}

    assert set(rows) == {"DMA0", "TE0", "VE0", "CTRL", "HOST"}
    assert (rows["DMA0"].count, rows["DMA0"].total) == (6, 1_800)


def test_huge_durations_of_many_groups_stay_exact():
    big = 1 << 61
    trace = spans_trace([0, 0, 0], [big, big - 1, 5], op=[1, 1, 2])

    first, second = statistics(trace)

    assert (first.key, first.total, first.max) == ("ADD", 2 * big - 1, big)
    assert (second.key, second.total) == ("MUL", 5)


def test_far_apart_token_numbers_are_groups():
    trace = spans_trace(
        [0, 10, 20], [10, 30, 25], op=1, token=np.array([0, 4_000_000_000, -1])
    )

    rows = {row.key: row.total for row in statistics(trace, "token")}

    assert rows == {"0": 10, "4000000000": 20, "none": 5}


def test_span_with_its_own_tensor_counts_for_it():
    builder = TraceBuilder()
    lane = builder.add_lane("thread 0", LaneKind.THREAD)
    one = np.full(1, -1)
    builder.tensors = Tensors(
        builder.strings.intern_many(["w"]),
        one,
        one,
        one.astype(np.int16),
        one.astype(np.int16),
    )
    builder.add_spans(
        start=np.array([0, 5]),
        end=np.array([3, 9]),
        lane=lane,
        op=1,
        tensor=np.array([0, -1], np.int32),
    )

    rows = statistics(finished(builder), "tensor")

    result = [(row.key, row.count, row.total) for row in rows]
    assert result == [("not recorded", 1, 4), ("w", 1, 3)]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("engine", {"TE0": (4, 40, 111)}),
        ("source", {"DRAM": (2, 20, 11), "SPM": (1, 10, 100)}),
        ("tensor", {"w": (2, 20, 0), "no weight": (2, 20, 111)}),
    ],
)
def test_loose_accesses_count_for_the_spans_they_name(by, expected):
    builder = TraceBuilder()
    lane = builder.add_lane("TE0", LaneKind.ENGINE)
    one = np.full(1, -1, np.int64)
    builder.tensors = Tensors(
        builder.strings.intern_many(["w"]),
        one,
        one,
        one.astype(np.int16),
        one.astype(np.int16),
    )
    start = np.arange(4) * 10
    own = np.array([0, -1, -1, 0], np.int32)
    builder.add_spans(start=start, end=start + 10, lane=lane, op=1, tensor=own)
    what = AccessColumns.blank(6)
    what.space[:] = [Space.SPM, *[Space.DRAM] * 5]
    what.size[:] = [100, 3, 7, 1, 1000, -1]
    loose = FlatAccesses(
        np.zeros(6, np.int64),
        np.zeros(6, np.int32),
        np.array([2, 1, 1, 2, -1, 1]),
        np.full(6, -1, np.int32),
        what,
    )
    none = no_accesses(4)
    builder.accesses = Accesses(none.pattern, none.first, none.patterns, loose)

    rows = statistics(finished(builder), by)

    assert {r.key: (r.count, r.total, r.bytes) for r in rows} == expected
    assert statistics(finished(builder), by, ids=np.zeros(0, np.int64)) == []


def test_histogram_counts_every_finished_span():
    ids = np.arange(len(RANDOM.spans))

    counts, edges = histogram(RANDOM, ids, bins=12)

    duration = RANDOM.spans.end - RANDOM.spans.start
    assert counts.dtype == np.int64
    assert (len(counts), len(edges)) == (12, 13)
    assert counts.sum() == len(ids)
    assert (edges[0], edges[-1]) == (duration.min(), duration.max())


def test_histogram_of_nothing_is_all_zero():
    counts, edges = histogram(RANDOM, np.zeros(0, np.int64), bins=3)

    assert counts.tolist() == [0, 0, 0]
    assert edges.tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
