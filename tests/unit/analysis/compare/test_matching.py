"""What of two sides belongs together, what stays open, and what differs."""

from dataclasses import replace

import numpy as np
import pytest

from builders import OPS, llama_like_trace, npu_like_trace, spans_trace, token_trace
from ggscope.analysis.compare.compare import compare
from ggscope.analysis.compare.matching import Absence, Hidden
from ggscope.analysis.completeness.coverage import Cause
from ggscope.model.run import RecordingInfo
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import Trace
from ggscope.model.units import Clock
from latency_traces import Ubatch, ubatch_trace


def partial_trace(trace: Trace, cause: Cause) -> Trace:
    """Return a trace whose recording left something out."""
    settings: dict[Cause, dict[str, object]] = {
        Cause.SAMPLED: {"sample_every": 3},
        Cause.OPS_FILTERED: {"ops": ["MUL_MAT"]},
        Cause.THREADS_FILTERED: {"threads": ["0"]},
    }
    return recorded(trace, settings[cause])


def recorded(trace: Trace, settings: dict[str, object], end: str = "exited") -> Trace:
    """Return a trace whose recording states these settings and how it ended."""
    recording = RecordingInfo(
        settings=settings, n_changes=0, skipped_graphs=0, end=end,
        signal="", whole=(), account=None,
    )  # fmt: skip
    return replace(trace, recordings=(recording,))


def in_cycles(hz: float | None) -> Trace:
    trace = spans_trace([0, 100], [10, 150], op=[1, 2])
    return replace(trace, clock=Clock("cycle", 0, hz))


def test_ticks_of_other_clocks_have_no_change():
    comparison = compare([llama_like_trace()], [npu_like_trace()])

    assert not comparison.is_comparable
    assert comparison.rows == ()
    assert comparison.parts == ()
    assert (comparison.whole.change, comparison.elapsed.change) == (None, None)


def test_counts_and_shares_need_no_common_clock():
    a = spans_trace([0, 100], [10, 130], op=[1, 2])
    b = replace(
        spans_trace([0, 5, 9], [3, 6, 9], op=[1, 2, 2]), clock=Clock("cycle", 0, None)
    )

    rows = {row.key: row for row in compare([a], [b]).shares}

    first, second = (rows[a.op_name(op)] for op in (1, 2))
    assert (first.count_a, first.count_b) == (1, 1)
    assert (second.count_a, second.count_b) == (1, 2)
    assert (first.share_a, first.share_b) == (0.25, 0.75)
    assert (second.share_a, second.share_b) == (0.75, 0.25)


def test_cycles_of_other_frequencies_are_not_comparable():
    assert compare([in_cycles(None)], [in_cycles(None)]).is_equal
    assert not compare([in_cycles(1e9)], [in_cycles(2e9)]).is_comparable
    assert not compare([in_cycles(1e9)], [in_cycles(None)]).is_comparable


def test_groups_without_a_known_time_are_listed():
    flags = [0, int(SpanFlag.ESTIMATED)]
    a = spans_trace([0, 100], [10, 150], op=[1, 2])
    b = spans_trace([0, 100], [10, 150], op=[1, 2], flags=flags)

    comparison = compare([a], [b])

    assert [row.key for row in comparison.rows] == [a.op_name(1)]
    assert comparison.untimed == (a.op_name(2),)
    assert (comparison.only_a, comparison.only_b) == ((), ())


@pytest.mark.parametrize(
    ("cause", "open_by"),
    [
        (Cause.SAMPLED, {"op": True, "token": True, "thread": True}),
        (Cause.OPS_FILTERED, {"op": True, "token": False, "thread": True}),
        (Cause.THREADS_FILTERED, {"op": True, "token": False, "thread": True}),
    ],
)
def test_what_a_partial_side_may_hide_is_open(cause, open_by):
    trace = llama_like_trace()

    comparison = compare([trace], [partial_trace(trace, cause)])

    a, b = comparison.hidden
    assert comparison.is_partial
    assert not a.is_partial
    assert b.is_partial
    assert {by: bool(b.groups(by)) for by in open_by} == open_by
    assert bool(b.sums()) is (cause is not Cause.SAMPLED)


@pytest.mark.parametrize(
    ("cause", "by", "bounds"),
    [
        (Cause.SAMPLED, "op", ("", "", "")),
        (Cause.OPS_FILTERED, "op", ("", "", "")),  # which are recorded each time
        (Cause.OPS_FILTERED, "layer", ("most", "least", "open")),
        (Cause.THREADS_FILTERED, "op", ("most", "least", "open")),
        (Cause.THREADS_FILTERED, "token", ("", "", "")),
    ],
)
def test_changes_of_partial_sides_are_bounds(cause, by, bounds):
    whole = llama_like_trace()
    part = partial_trace(whole, cause)

    pairs = [(part, whole), (whole, part), (part, part)]

    assert tuple(compare([a], [b], by).bound for a, b in pairs) == bounds


def test_a_side_without_any_op_may_have_run_all():
    a = token_trace([(0, 100, 50)])
    spans = replace(a.spans, op=np.full(len(a.spans), -1, np.int16))

    comparison = compare([a], [replace(a, spans=spans)])

    assert comparison.only_a
    assert comparison.hidden[1].groups("op")
    assert not comparison.hidden[0].is_partial


WHOLE: dict[str, object] = {"enabled": True}


@pytest.mark.parametrize(
    ("settings", "absence", "change"),
    [
        (None, Absence.NOT_STATED, -50),
        (WHOLE, Absence.DID_NOT_RUN, -50),
        ({"ops": ["ADD"]}, Absence.NOT_RECORDED, None),
        ({"threads": ["0"]}, Absence.NOT_RECORDED, None),
        ({"sample_every": 3}, Absence.NOT_RECORDED, None),  # whole runs are compared
    ],
)
def test_a_group_that_a_side_lacks_ran_or_not_as_its_recording_states(
    settings, absence, change
):
    a = spans_trace([0, 100, 200], [10, 150, 230], op=[1, 2, 3])
    b = spans_trace([0, 100], [10, 110], op=[1, 3])
    if settings is not None:
        b = recorded(b, settings)

    rows = compare([a], [b]).rows

    row = next(row for row in rows if row.key == a.op_name(2))
    assert (row.absence, row.change) == (absence, change)
    # What is not known comes last, however much A takes.
    assert (rows[-1] is row) == (change is None)
    assert row.is_noise is None


def test_an_op_that_compared_tokens_lack_did_not_run_in_them():
    times = [(0, 100, 50), (100, 200, 60), (200, 300, 70)]
    a = token_trace(times)
    op = np.where(a.spans.op >= 0, 2, a.spans.op).astype(np.int16)
    op[np.flatnonzero(op >= 0)[0]] = a.spans.op[a.spans.op >= 0][0]
    mixed = replace(a, spans=replace(a.spans, op=op))

    comparison = compare([mixed], [recorded(a, {"sample_every": 3})])

    assert comparison.alignment.by == "token"
    row = next(row for row in comparison.rows if row.only_in == "a")
    assert row.absence is Absence.DID_NOT_RUN


@pytest.mark.parametrize(
    ("settings", "end", "hides"),
    [(WHOLE, "exited", False), (WHOLE, "running", True)],
)
def test_tokens_behind_the_end_of_a_recording_may_have_run(settings, end, hides):
    a = token_trace([(0, 100, 50), (100, 200, 60), (200, 300, 70)])
    b = recorded(token_trace([(0, 100, 50), (100, 200, 60)]), settings, end)

    comparison = compare([a], [b])

    assert comparison.alignment.runs[0].unmatched == ["2"]
    assert bool(comparison.hidden[1].tokens) is hides
    # The n-th that is recorded is the n-th all the same.
    assert not comparison.alignment.is_open


def test_a_whole_recording_hides_nothing():
    trace = llama_like_trace()

    comparison = compare([trace], [trace])

    assert comparison.hidden == (Hidden(), Hidden())
    assert not comparison.hidden[0].is_stated
    assert not comparison.alignment.is_open


def test_tokens_of_a_sampled_run_are_matched_in_order_where_nothing_shows():
    trace = token_trace([(0, 100, 50), (100, 200, 60), (200, 300, 70)])

    comparison = compare([trace], [partial_trace(trace, Cause.SAMPLED)])

    assert comparison.alignment.by == "token"
    assert comparison.alignment.is_open


def ubatches(positions: list[int], ticks: int) -> Trace:
    """Return a recording of ubatches of a token each, at these positions."""
    times = [(1000 * at, 1000 * at + 500, ticks) for at in positions]
    named = ubatch_trace(
        [
            Ubatch(begin, end, tokens=((0, at),))
            for at, (begin, end, _) in zip(positions, times, strict=True)
        ]
    )
    return replace(
        token_trace(times),
        batch_tokens=named.batch_tokens,
        token_sequences=named.token_sequences,
    )


def test_tokens_of_a_sampled_run_are_matched_by_position():
    a = ubatches([3, 4, 5, 6, 7, 8], 100)
    b = partial_trace(ubatches([4, 7, 9], 150), Cause.SAMPLED)

    comparison = compare([a], [b], "token")

    assert not comparison.alignment.is_open
    assert comparison.tokens() == (2, 2)
    # As A numbers them: positions 4 and 7 are its second and fifth ubatch.
    assert {row.key for row in comparison.rows} == {"1", "4"}
    assert len(comparison.alignment.runs[0].unmatched) == 4
    assert len(comparison.alignment.runs[1].unmatched) == 1


def test_parts_are_those_of_the_compared_tokens():
    a = token_trace([(0, 100, 50), (100, 200, 60), (200, 300, 70)])
    b = token_trace([(0, 100, 50), (100, 200, 65)])

    comparison = compare([a], [b])

    work = next(row for row in comparison.parts if row.key == "work")
    assert (work.a.value, work.b.value) == (110, 115)


def test_parts_are_unknown_where_ops_are_not_recorded():
    trace = llama_like_trace()

    comparison = compare([trace], [partial_trace(trace, Cause.OPS_FILTERED)])

    assert comparison.parts == ()


def test_formats_and_op_tables_that_differ_are_stated():
    a = llama_like_trace()
    b = replace(
        a,
        info=replace(a.info, format="another"),
        ops=replace(OPS, id="another table"),
    )

    values = {one.what: (one.a, one.b) for one in compare([a], [b]).differences}

    assert values["format"] == (a.info.format, "another")
    assert values["op table"] == (OPS.id, "another table")
    assert compare([a], [a]).differences == ()
