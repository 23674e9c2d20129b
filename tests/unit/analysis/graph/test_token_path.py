"""The critical path of a token, against plain recursion over all of its links."""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import builders
from dependency_traces import Op, dependency_trace, span_named
from ggscope.analysis.graph.dependencies import PassEdges, pass_edges
from ggscope.analysis.graph.op_links import NoEdges, NoPass
from ggscope.analysis.graph.token_path import NoPath, TokenPath, token_path
from ggscope.analysis.sessions.correlate import correlate
from ggscope.analysis.summary.bars import token_bars
from ggscope.api import open as open_trace
from ggscope.model.tables import NO_WAIT, Quality, SpanFlag
from ggscope.model.trace import Trace
from wait_traces import with_waits

SAMPLES = Path(__file__).parents[4] / "resources" / "samples"
NAMES = ("a", "b", "c", "d")


@st.composite
def random_pass(draw: st.DrawFn, *, shared: bool) -> Trace:
    """Return a token whose ops read each other's results on up to three threads.

    Where they are shared each op has a span on two threads, with a wait or none.
    """
    n = draw(st.integers(1, 8))
    ops: list[Op] = []
    lanes: list[int] = []
    times: list[tuple[int, int]] = []
    free = [0, 0, 0]
    for i in range(n):
        reads = draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
        op: Op = (draw(st.sampled_from(NAMES)), [(name, 16) for name in reads])
        begin = max(free) if shared else 0
        for lane in (0, 1) if shared else (draw(st.integers(0, 2)),):
            start = max(free[lane], begin) + draw(st.integers(0, 3))
            free[lane] = start + draw(st.integers(0, 9))
            ops.append(op)
            lanes.append(lane)
            times.append((start + (i if shared else 0), free[lane] + i * shared))
    trace = dependency_trace([ops], lanes=[lanes], times=[times])
    if not shared:
        return trace
    flags = np.zeros(len(trace.spans), np.uint16)
    flags[2::2] = SpanFlag.REPEATED
    trace = replace(trace, spans=replace(trace.spans, flags=flags))
    waits = draw(st.lists(st.booleans(), min_size=2 * n, max_size=2 * n))
    return with_waits(trace, [NO_WAIT, *(0 if has else NO_WAIT for has in waits)])


def links_slow(trace: Trace, edges: PassEdges) -> set[tuple[int, int]]:
    """Return all links (earlier, later) between spans of a pass, by position."""
    spans, ids, op = trace.spans, edges.ops.spans, edges.ops.op
    read = set(zip(edges.source.tolist(), edges.target.tolist(), strict=True))
    links = set()
    for b in range(len(ids)):
        on_lane = [a for a in range(b) if spans.lane[ids[a]] == spans.lane[ids[b]]]
        for a in range(b):
            meets = spans.wait is not None and any(
                int(spans.wait[ids[k]]) != NO_WAIT
                for k in range(len(ids))
                if op[k] == op[a]
            )
            follows = (
                (int(op[a]), int(op[b])) in read
                or (meets and op[b] == op[a] + 1)
                or on_lane[-1:] == [a]
            )
            if follows and spans.end[ids[a]] <= spans.start[ids[b]]:
                links.add((a, b))
    return links


def lengths_slow(trace: Trace, edges: PassEdges) -> list[int]:
    """Return the length of the longest chain through each span, by recursion."""
    spans, ids = trace.spans, edges.ops.spans
    links = links_slow(trace, edges)

    @cache
    def until(b: int) -> int:
        own = int(spans.end[ids[b]] - spans.start[ids[b]])
        return own + max((until(a) for a, x in links if x == b), default=0)

    @cache
    def behind(a: int) -> int:
        return max(
            (
                behind(b) + int(spans.end[ids[b]] - spans.start[ids[b]])
                for x, b in links
                if x == a
            ),
            default=0,
        )

    return [until(i) + behind(i) for i in range(len(ids))]


def check(trace: Trace) -> None:
    assume(len(trace.accesses.patterns))
    path, edges = token_path(trace, 0, None), pass_edges(trace, 0, None)
    assert isinstance(edges, PassEdges)
    assert path.unknown is None
    through = lengths_slow(trace, edges)
    assert path.length == max(through)
    assert path.slack.tolist() == [max(through) - own for own in through]
    positions = [path.spans.tolist().index(span) for span in path.path.tolist()]
    links = links_slow(trace, edges)
    assert all(pair in links for pair in pairwise(positions))
    lasted = trace.spans.end[path.path] - trace.spans.start[path.path]
    assert int(lasted.sum()) == path.length
    assert path.time is not None
    assert path.length <= path.time.duration
    assert not path.slack[positions].any()


@settings(max_examples=200)
@given(random_pass(shared=False))
def test_longest_chain_of_ops_on_threads_is_that_of_recursion(trace: Trace) -> None:
    check(trace)


@settings(max_examples=200)
@given(random_pass(shared=True))
def test_longest_chain_through_barriers_is_that_of_recursion(trace: Trace) -> None:
    check(trace)


def diamond(**columns: object) -> Trace:
    """Return a, then b (40) and c (70) on two threads, then d, which reads both."""
    ops: list[Op] = [
        ("a", []), ("b", [("a", 0)]), ("c", [("a", 0)]), ("d", [("b", 0), ("c", 0)]),
    ]  # fmt: skip
    times = [[(0, 10), (12, 52), (11, 81), (90, 100)]]
    trace = dependency_trace([ops], lanes=[[0, 0, 1, 0]], times=times)
    return replace(trace, spans=replace(trace.spans, **columns))  # type: ignore[arg-type]


def test_path_of_a_diamond_goes_through_its_slower_side() -> None:
    trace = diamond()

    path = token_path(trace, span_named(trace, "b"), None)

    assert [trace.span_name(span) for span in path.path] == ["a", "c", "d"]
    assert (path.length, path.time and path.time.duration) == (90, 100)
    assert path.slack_of(span_named(trace, "b")) == 30
    assert path.slack_of(span_named(trace, "c")) == 0
    assert path.slack_of(0) is None
    assert (path.bar, path.is_lower_bound) == (0, False)
    assert path.concerns(0)
    assert path.concerns(span_named(trace, "d"))
    assert not path.concerns(None)


def test_span_without_an_end_counts_as_nothing_and_leaves_the_length_open() -> None:
    flags = np.array([0, 0, 0, 0, SpanFlag.UNFINISHED], np.uint16)
    path = token_path(diamond(flags=flags), 0, None)

    assert (path.length, path.n_untimed, path.is_lower_bound) == (80, 1, True)
    # It ends the path all the same.
    assert path.path[-1] == 4


def test_read_of_an_unknown_producer_leaves_the_length_open() -> None:
    ops: list[Op] = [("a", [("x", 0)]), ("b", [("a", 0)])]
    two = dependency_trace([ops], lanes=[[0, 1]])
    one = dependency_trace([ops])

    assert token_path(two, 0, None).n_open == 1
    # One thread computes its ops one after the other, whatever they read.
    assert not token_path(one, 0, None).is_lower_bound


def test_quality_is_that_of_the_worst_span() -> None:
    flags = np.array([0, SpanFlag.INFERRED_END, 0, 0, 0], np.uint16)

    assert token_path(diamond(flags=flags), 0, None).quality is Quality.DERIVED


def unknown(trace: Trace, span: int = 0) -> TokenPath:
    path = token_path(trace, span, correlate(trace))
    assert not len(path.path)
    assert path.slack_of(span) is None
    return path


def test_path_is_unknown_where_times_are_estimated_or_missing() -> None:
    n = 5
    estimated = np.full(n, SpanFlag.ESTIMATED, np.uint16)
    unfinished = np.full(n, SpanFlag.UNFINISHED, np.uint16)

    assert unknown(diamond(flags=estimated)).unknown is NoPath.ESTIMATED
    assert unknown(diamond(flags=unfinished)).unknown is NoPath.NO_TIMES


def test_path_is_unknown_where_ops_or_threads_are_left_out(monkeypatch) -> None:
    for name in ("hidden_ops", "hidden_threads"):
        with monkeypatch.context() as patch:
            target = f"ggscope.analysis.graph.token_path.{name}"
            patch.setattr(target, lambda _: "left out")
            result = unknown(diamond())

        assert (result.unknown, result.missing) == (NoPath.OPS_MISSING, "left out")


def test_path_of_several_threads_without_edges_is_unknown() -> None:
    two = dependency_trace([[("a", []), ("b", [])]], lanes=[[0, 1]])
    one = builders.spans_trace([0, 10], [10, 20], op=1)

    assert unknown(two).unknown is NoEdges.NO_SOURCES
    assert token_path(one, 0, None).length == 20


def test_token_without_ops_and_span_of_no_token_have_no_path() -> None:
    trace = dependency_trace([[("a", [])], []])
    alone = builders.spans_trace([0], [10])

    assert unknown(trace, 2).unknown is NoPath.NO_OPS
    assert token_path(alone, 99, None).unknown is NoPath.NO_SELECTION
    assert not isinstance(token_path(trace, 1, None).unknown, NoPass)


@pytest.mark.parametrize("name", ["moe-experiment", "tinyllama-256.bin"])
def test_paths_of_recorded_runs_fit_into_their_tokens(name: str) -> None:
    trace = open_trace(SAMPLES / name)
    correlation, bars = correlate(trace), token_bars(trace)
    for bar in bars.span.tolist():
        path = token_path(trace, bar, correlation)

        assert path.unknown is None
        assert path.bar == bar
        assert path.time is not None
        assert 0.9 * path.time.duration <= path.length <= path.time.duration
        # Ends are derived: each record lasts until the next one of its thread.
        assert path.quality is Quality.DERIVED
        start, end = trace.spans.start[path.path], trace.spans.end[path.path]
        assert (start[1:] >= end[:-1]).all()
