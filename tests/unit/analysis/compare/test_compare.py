"""Comparison of runs: no change against itself, exact changes, noise, alignment."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import (
    llama_like_trace,
    npu_like_trace,
    slowed,
    spans_trace,
    token_trace,
)
from ggscope.analysis.compare.alignment import align
from ggscope.analysis.compare.compare import Comparison, Tolerance, compare
from ggscope.analysis.compare.matching import Absence
from ggscope.descriptions.compare import headline
from ggscope.model.selection import BY
from ggscope.model.tables import Phase, freeze
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


def test_what_one_side_lacks_is_a_row_and_listed():
    a = spans_trace([0, 100], [10, 150], op=[1, 2])
    b = spans_trace([0, 100], [30, 190], op=[1, 3])

    comparison = compare([a], [b])

    names = [a.op_name(i) for i in (1, 2, 3)]
    rows = [(row.key, row.only_in, row.change) for row in comparison.rows]
    assert rows == [(names[2], "b", 90), (names[1], "a", -50), (names[0], "", 20)]
    alone = [row for row in comparison.rows if row.only_in]
    assert all(row.relative is None for row in alone)
    assert all(row.absence is Absence.NOT_STATED for row in alone)
    assert [row.key for row in comparison.matched] == names[:1]
    assert (comparison.only_a, comparison.only_b) == ((names[1],), (names[2],))
    assert not comparison.is_equal


OPS_IN_TURN = st.lists(
    st.tuples(st.integers(1, 6), st.integers(1, 90), st.integers(0, 20)),
    min_size=1, max_size=12,
)  # fmt: skip


def in_turn(ops: list[tuple[int, int, int]]) -> Trace:
    """Return ops that run one after the other, with gaps."""
    starts, at = [], 0
    for _, length, gap in ops:
        starts.append(at)
        at += length + gap
    ends = [start + op[1] for start, op in zip(starts, ops, strict=True)]
    return spans_trace(starts, ends, op=[op for op, _, _ in ops])


@given(OPS_IN_TURN, OPS_IN_TURN)
def test_rows_of_one_or_both_sides_add_up_to_the_change_of_the_whole(a, b):
    sums = [
        {
            op: sum(length for other, length, _ in side if other == op)
            for op, _, _ in side
        }
        for side in (a, b)
    ]

    comparison = compare([in_turn(a)], [in_turn(b)])

    common = set(sums[0]) & set(sums[1])
    assert comparison.is_comparable == bool(common)
    if common:
        name = in_turn(a).op_name
        expected = {
            name(op): sums[1].get(op, 0) - sums[0].get(op, 0)
            for op in {*sums[0], *sums[1]}
        }
        assert {row.key: row.change for row in comparison.rows} == expected
        assert sum(expected.values()) == comparison.whole.change
        sizes = [abs(row.change or 0) for row in comparison.rows]
        assert sizes == sorted(sizes, reverse=True)
        assert {row.key for row in comparison.matched} == {name(op) for op in common}
        alone = {*comparison.only_a, *comparison.only_b}
        assert {row.key for row in comparison.rows if row.only_in} == alone


@pytest.mark.parametrize(
    ("n_a", "n_b", "tolerance", "is_noise"),
    [(1, 1, 0.0, None), (1, 1, 0.05, False), (2, 2, 0.0, False), (2, 1, 0.0, None)],
)
def test_a_group_of_one_side_is_noise_by_what_runs_show(n_a, n_b, tolerance, is_noise):
    a = spans_trace([0, 100], [10, 150], op=[1, 2])
    b = spans_trace([0], [10], op=[1])

    comparison = compare([a] * n_a, [b] * n_b, tolerance=Tolerance(tolerance))

    row = next(row for row in comparison.rows if row.only_in)
    assert row.is_noise is is_noise


def test_of_a_group_that_not_all_runs_have_noise_is_unknown():
    a = spans_trace([0, 100], [10, 150], op=[1, 2])
    b = spans_trace([0], [10], op=[1])

    comparison = compare([a, b], [b, b])

    assert next(row for row in comparison.rows if row.only_in).is_noise is None


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


TOKEN_TIMES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 60), st.integers(0, 60)),
    min_size=1, max_size=5,
)  # fmt: skip


def tokens_in_turn(times: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return begin, end and busy ticks of tokens with a pause before each."""
    result, at = [], 0
    for pause, length, busy in times:
        at += pause
        result.append((at, at + length, min(busy, length)))
        at += length
    return result


@given(TOKEN_TIMES)
def test_parts_of_a_thread_add_up_to_the_time_of_tokens_without_pauses(times):
    tokens = tokens_in_turn(times)
    trace = token_trace(tokens)

    comparison = compare([trace], [slowed(trace, 3)])

    elapsed = sum(end - begin for begin, end, _ in tokens)
    assert (comparison.elapsed.a.value, comparison.elapsed.change) == (
        elapsed, 2 * elapsed
    )  # fmt: skip
    parts = {row.key: (row.a.value, row.change) for row in comparison.parts}
    busy = sum(ticks for _, _, ticks in tokens)
    expected = {"work": (busy, 2 * busy)}
    expected["idle"] = (elapsed - busy, 2 * (elapsed - busy))
    assert parts == expected


def test_phases_are_told_apart():
    a = llama_like_trace(tokens=3)
    s = a.spans
    assert s.phase is not None
    end = s.end.copy()
    is_prompt = a.lanes.is_token[s.lane] & (s.phase == Phase.PROMPT)
    end[is_prompt] -= (end[is_prompt] - s.start[is_prompt]) // 2
    spans = replace(s, end=end)
    freeze(spans)
    b = replace(a, spans=spans)

    phases = {row.key: row for row in compare([a], [b]).phases}

    is_token = a.lanes.is_token[s.lane]
    for phase in (Phase.PROMPT, Phase.GENERATE):
        own = np.flatnonzero(is_token & (s.phase == phase))
        row = phases[phase.name.lower()]
        for side, ends in ((row.a, s.end), (row.b, end)):
            assert side.value == sum(int(ends[i] - s.start[i]) for i in own)
    assert (phases["prompt"].change or 0) < 0
    assert phases["generate"].change == 0


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
