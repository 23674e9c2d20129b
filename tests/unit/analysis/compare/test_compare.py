"""Comparison of runs: no change against itself, exact changes, noise, alignment."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from builders import (
    llama_like_trace,
    npu_like_trace,
    slowed,
    spans_trace,
    token_trace,
)
from ggscope.analysis.compare.alignment import align
from ggscope.analysis.compare.compare import Comparison, Tolerance, compare
from ggscope.descriptions.compare import headline
from ggscope.model.selection import BY
from ggscope.model.tables import freeze
from ggscope.model.trace import Trace

TRACES = {"llama": llama_like_trace(), "npu": npu_like_trace()}


def everything(comparison: Comparison) -> list[tuple[float | None, float | None]]:
    rows = [*comparison.rows, *comparison.parts]
    rows += [row for row in (comparison.whole, comparison.elapsed) if row.a.is_there]
    return [(row.change, row.relative) for row in rows]


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("name", list(TRACES))
def test_a_trace_against_itself_has_no_change(name, by):
    trace = TRACES[name]

    comparison = compare([trace], [trace], by)

    assert all(pair == (0, 0.0) for pair in everything(comparison))
    assert not comparison.only_a
    assert not comparison.only_b
    assert comparison.is_equal


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("name", list(TRACES))
def test_twice_the_durations_are_exactly_100_percent_more(name, by):
    trace = TRACES[name]

    comparison = compare([trace], [slowed(trace, 2)], by)

    timed = [row for row in comparison.rows if row.a.value]
    assert all(row.relative == 1.0 for row in timed)
    if comparison.is_comparable:
        assert timed
        assert comparison.whole.relative == 1.0
    assert comparison.elapsed.relative == 1.0
    assert all(part.relative == 1.0 for part in comparison.parts if part.a.value)


def test_the_largest_effect_comes_first():
    a = spans_trace([0, 100, 200], [10, 150, 290], op=[1, 2, 3])
    b = spans_trace([0, 100, 200], [90, 155, 290], op=[1, 2, 3])

    rows = compare([a], [b]).rows

    assert [row.change for row in rows] == [80, 5, 0]
    assert rows[0].relative == 8.0


def test_what_one_side_lacks_is_listed():
    a = spans_trace([0, 100], [10, 150], op=[1, 2])
    b = spans_trace([0, 100], [10, 150], op=[1, 3])

    comparison = compare([a], [b])

    names = [a.op_name(i) for i in (1, 2, 3)]
    assert [row.key for row in comparison.rows] == names[:1]
    assert (comparison.only_a, comparison.only_b) == ((names[1],), (names[2],))
    assert not comparison.is_equal


def test_units_that_differ_cannot_be_compared():
    comparison = compare([llama_like_trace()], [npu_like_trace()])

    assert not comparison.is_comparable
    assert comparison.reason


def test_tokens_that_one_run_lacks_are_left_out():
    a = token_trace([(0, 100, 50), (100, 200, 60), (200, 300, 70)])
    b = token_trace([(0, 100, 50), (100, 200, 60)])

    comparison = compare([a], [b])

    assert comparison.alignment.by == "token"
    assert comparison.tokens() == (2, 2)
    assert comparison.alignment.runs[0].unmatched == ["2"]
    assert comparison.is_equal
    assert comparison.elapsed.change == 0


def test_whole_runs_are_compared_by_their_starts():
    a = token_trace([(0, 100, 50), (100, 200, 60), (200, 300, 70)])
    b = token_trace([(0, 100, 50), (100, 200, 60)])

    comparison = compare([a], [b], align_by="start")

    assert comparison.alignment.by == "start"
    assert comparison.rows[0].change == -70


def test_runs_are_aligned_by_phase():
    a, b = llama_like_trace(tokens=4), llama_like_trace(tokens=1)

    alignment = align([a, b], "phase")

    assert [run.n_matched for run in alignment.runs] == [1, 1]
    assert set(alignment.runs[0].unmatched) == {"generate"}


def run_of(ticks: int) -> Trace:
    return spans_trace([0, 1000], [ticks, 1500], op=[1, 2])


@pytest.mark.parametrize(
    ("a", "b", "is_noise"),
    [
        ([100, 120], [110, 130], True),
        ([100, 120], [121, 130], False),
        ([100], [101], None),
        ([100, 110], [120], None),
    ],
)
def test_runs_that_overlap_are_noise(a, b, is_noise):
    comparison = compare([run_of(t) for t in a], [run_of(t) for t in b])

    assert comparison.rows[0].is_noise is is_noise


@pytest.mark.parametrize(
    ("latency", "is_equal"), [(0.01, True), (0.0099, False), (0.0, False)]
)
def test_changes_within_the_tolerance_are_no_difference(latency, is_equal):
    comparison = compare([run_of(100)], [run_of(101)], tolerance=Tolerance(latency))

    assert comparison.is_equal is is_equal


def test_changes_within_noise_are_not_called_no_change():
    noisy = compare([run_of(100)], [run_of(101)], tolerance=Tolerance(0.01))
    alike = compare([run_of(100)], [run_of(100)], tolerance=Tolerance(0.01))

    assert noisy.is_equal
    assert alike.is_equal
    assert "noise" in headline(noisy, "ns")
    assert "noise" not in headline(alike, "ns")


def test_of_several_runs_the_median_counts():
    comparison = compare([run_of(t) for t in (100, 300, 110)], [run_of(220)])

    assert (comparison.rows[0].a.value, comparison.rows[0].change) == (110, 110)
    assert comparison.rows[0].a.spread == (100, 300)


def test_a_delay_in_one_op_is_the_first_row():
    a = llama_like_trace()
    s = a.spans
    late = int(np.flatnonzero(s.op >= 0)[5])
    end = s.end.copy()
    end[late] += 10_000_000
    spans = replace(s, end=end)
    freeze(spans)

    comparison = compare([a], [replace(a, spans=spans)])

    assert comparison.rows[0].key == a.op_name(int(s.op[late]))
    assert comparison.rows[0].change is not None
    assert comparison.rows[0].change > 0


def delayed(trace: Trace, which: npt.NDArray[np.bool_], ticks: int) -> Trace:
    """Return a trace in which some spans end later."""
    spans = replace(trace.spans, end=trace.spans.end + which * ticks)
    freeze(spans)
    return replace(trace, spans=spans)


@pytest.mark.parametrize("by", ["thread", "token", "layer", "op"])
def test_a_delay_in_one_group_is_its_first_row(by):
    a, late = llama_like_trace(), 5_000_000
    s = a.spans
    assert s.token is not None
    assert s.layer is not None
    is_op = s.op >= 0
    which = {
        "thread": is_op & (s.lane == s.lane[is_op][-1]),
        "token": (~is_op) & (s.token == 2) & a.lanes.is_token[s.lane],
        "layer": is_op & (s.layer == 1),
        "op": is_op & (s.op == s.op[is_op][3]),
    }[by]

    rows = compare([a], [delayed(a, which, late)], by).rows

    key = {
        "thread": a.lanes[int(s.lane[is_op][-1])].name,
        "token": "2",
        "layer": "1",
        "op": a.op_name(int(s.op[is_op][3])),
    }[by]
    assert rows[0].key == key
    assert rows[0].change is not None
    assert rows[0].change >= late
    if by in ("token", "thread"):  # ops of others run meanwhile
        assert all(not row.change for row in rows[1:])
