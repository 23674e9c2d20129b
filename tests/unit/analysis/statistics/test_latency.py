"""How long a token takes is the length of its own span, not the work in it."""

from dataclasses import replace

import numpy as np
import pytest

from builders import random_trace, token_trace
from ggscope.analysis.statistics.latency import phase_latencies, token_spans
from ggscope.analysis.statistics.scan import SpanBlocks
from ggscope.analysis.statistics.table import StatRow, stat_table
from ggscope.model.tables import Phase, SpanFlag
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import TimeRange
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_bundle
from recordings import recording, requests


def by_token(trace: Trace, **named: object) -> dict[str, StatRow]:
    return {row.key: row for row in stat_table(trace, "token", **named).rows}  # type: ignore[arg-type]


def random_tokens(seed: int, n: int = 60) -> Trace:
    rng = np.random.default_rng(seed)
    begin = np.cumsum(rng.integers(50, 500, n))
    length = rng.integers(20, 50, n)
    return token_trace(
        list(zip(begin, begin + length, rng.integers(0, length + 1), strict=True))
    )


@pytest.mark.parametrize("seed", range(3))
def test_latency_and_idle_are_those_of_the_tokens_own_span(seed: int) -> None:
    trace = random_tokens(seed)
    spans = trace.spans
    is_token = trace.lanes.of_kind(LaneKind.TOKEN)[spans.lane]

    rows = by_token(trace)

    assert len(rows) == 60
    for key, row in rows.items():
        (own,) = np.flatnonzero(is_token & (spans.token == int(key)))
        (op,) = np.flatnonzero(~is_token & (spans.token == int(key)))
        latency = int(spans.end[own] - spans.start[own])
        assert row.latency == latency
        assert row.wall == row.total == spans.end[op] - spans.start[op]
        assert row.idle == latency - row.wall


def test_first_rows_are_the_slowest_tokens_however_little_they_compute() -> None:
    trace = token_trace([(0, 90, 90), (100, 400, 5), (500, 700, 6)])

    rows = stat_table(trace, "token").rows
    assert [row.key for row in rows] == ["1", "2", "0"]

    few = stat_table(trace, "token", limit=1)
    assert [row.key for row in few.rows] == ["1"]


def test_idle_is_not_known_where_ops_are_left_out() -> None:
    trace = token_trace([(0, 100, 40), (100, 200, 30)])
    only_ops = np.array(trace.spans.op >= 0)

    chosen = by_token(trace, ids=np.flatnonzero(only_ops))
    filtered = by_token(trace, mask=only_ops)
    half = by_token(trace, time=TimeRange(0, 150))

    assert [row.latency for row in chosen.values()] == [100, 100]
    assert [row.idle for row in chosen.values()] == [None, None]
    assert [row.idle for row in filtered.values()] == [None, None]
    # The range holds the first token as a whole, the second in part.
    assert (half["0"].idle, half["1"].idle) == (60, None)
    assert (half["0"].latency, half["1"].latency) == (100, 100)


def test_idle_is_not_known_where_an_op_has_no_time() -> None:
    trace = token_trace([(0, 100, 40), (100, 200, 30)])
    flags = np.where(trace.spans.start == 100, int(SpanFlag.ESTIMATED), 0)
    flags = np.where(trace.spans.op < 0, 0, flags).astype(np.uint16)
    trace = replace(trace, spans=replace(trace.spans, flags=flags))

    rows = by_token(trace)
    every = by_token(trace, include_estimated=True)

    assert (rows["0"].idle, rows["1"].idle) == (60, None)
    assert (every["0"].idle, every["1"].idle) == (60, 70)


def test_latency_is_not_known_without_one_finished_span_of_a_token() -> None:
    trace = token_trace([(0, 100, 40), (100, 200, 30), (300, 400, 20)])
    spans = trace.spans
    is_token = spans.op < 0
    # Two tokens claim one number; the third has no end.
    token = np.where(is_token & (spans.token == 1), 0, spans.token)
    is_open = is_token & (spans.token == 2)
    flags = np.where(is_open, int(SpanFlag.UNFINISHED), 0).astype(np.uint16)
    trace = replace(
        trace, spans=replace(spans, token=token.astype(np.int32), flags=flags)
    )

    rows = by_token(trace)

    assert len(token_spans(trace)) == 0
    assert {key: (row.latency, row.idle) for key, row in rows.items()} == {
        "0": (None, None),
        "1": (None, None),
        "2": (None, None),
    }


def test_traces_without_lanes_of_tokens_have_no_latency() -> None:
    trace = random_trace(3, 200)

    assert len(token_spans(trace)) == 0
    assert all(row.latency is None for row in by_token(trace).values())
    assert all(row.latency is None for row in stat_table(trace, "op").rows)


def test_compiled_scan_and_numpy_show_the_same_latency() -> None:
    trace = random_tokens(7)
    ids = np.arange(len(trace.spans))

    scanned = by_token(trace, blocks=SpanBlocks(trace))
    sorted_ = by_token(trace, ids=ids)

    assert [row.latency for row in scanned.values()] == [
        row.latency for row in sorted_.values()
    ]
    assert [row.wall for row in scanned.values()] == [
        row.wall for row in sorted_.values()
    ]


def test_latencies_by_phase_are_those_of_their_tokens() -> None:
    tokens = [(0, 400, 1), (500, 510, 1), (520, 530, 1), (540, 550, 1), (560, 600, 1)]
    trace = token_trace(tokens)
    phase = np.where(trace.spans.token == 0, int(Phase.PROMPT), int(Phase.GENERATE))
    trace = replace(trace, spans=replace(trace.spans, phase=phase.astype(np.int8)))

    prompt, generate = phase_latencies(trace)

    assert (prompt.phase, generate.phase) == (Phase.PROMPT, Phase.GENERATE)
    assert (prompt.latency.tolist(), prompt.time) == ([400], 400)
    # A prompt is of any number of tokens: nothing says how many.
    assert (prompt.tokens, prompt.per_tick()) == (None, None)
    assert generate.latency.tolist() == [10, 10, 10, 40]
    assert (generate.tokens, generate.per_tick()) == (4, 4 / 70)
    assert trace.spans.token is not None
    assert trace.spans.token[generate.slow()].tolist() == [4]
    assert prompt.slow().tolist() == []


def test_tokens_at_once_count_their_time_once() -> None:
    trace = token_trace([(0, 100, 1), (50, 150, 1)])
    phase = np.full(len(trace.spans), int(Phase.GENERATE), np.int8)

    (result,) = phase_latencies(replace(trace, spans=replace(trace.spans, phase=phase)))

    assert (result.latency.tolist(), result.time) == ([100, 100], 150)
    assert result.per_tick() == 2 / 150


def test_tokens_of_ubatches_are_those_that_it_lists(tmp_path) -> None:
    path = recording(tmp_path, **requests())
    trace = open_bundle(survey((path,)))

    values = {p.phase: (len(p.ids), p.tokens) for p in phase_latencies(trace)}

    assert values == {
        Phase.PROMPT: (1, 3), Phase.GENERATE: (2, 5), Phase.MIXED: (1, 3),
    }  # fmt: skip


def test_phase_that_nobody_shows_is_none() -> None:
    (result,) = phase_latencies(token_trace([(0, 100, 40)]))

    assert (result.phase, result.tokens, result.latency.tolist()) == (None, None, [100])
