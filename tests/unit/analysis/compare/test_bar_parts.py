"""What runs in each token, held against a count tick by tick."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import OPS, llama_like_trace
from ggscope.analysis import workers
from ggscope.analysis.compare.bar_parts import BarParts, bar_parts
from ggscope.analysis.order import turns
from ggscope.analysis.statistics import scan
from ggscope.analysis.summary.bars import token_bars
from ggscope.descriptions.tokens import parts_text
from ggscope.errors import Cancelled
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml.ops import FAMILIES, family_of
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_bundle
from latency_traces import TimedOp, TimedToken, ops_in_tokens
from support import ROOT


def slow_parts(token: TimedToken, ops: list[TimedOp]) -> dict[str, Fraction]:
    """Return the parts of a token, a tick at a time; {} of one that is not split."""
    begin, end, is_timed = token
    parts = dict.fromkeys((*FAMILIES, "idle"), Fraction())
    for tick in range(begin, end):
        running = {
            family_of(OPS.name(op))
            for _, first, length, op, known in ops
            if known and first <= tick < first + length
        }
        for family in running or {"idle"}:
            parts[family] += Fraction(1, max(len(running), 1))
    is_split = is_timed and parts["idle"] < end - begin
    return {key: part for key, part in parts.items() if part} if is_split else {}


def found_parts(parts: BarParts, row: int) -> dict[str, Fraction]:
    names = (*parts.families, "idle")
    ticks = [*parts.ticks[row].tolist(), int(parts.idle[row])]
    return {
        word: Fraction(n, parts.divisor) for word, n in zip(names, ticks, strict=True)
        if n
    }  # fmt: skip


TOKENS = st.lists(
    st.tuples(st.integers(0, 120), st.integers(0, 30), st.integers(0, 5)),
    min_size=1, max_size=5,
).map(
    lambda rows: sorted((at, at + length, known > 0) for at, length, known in rows)
)  # fmt: skip
RUN_OPS = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(0, 150), st.integers(0, 25),
        st.integers(1, len(OPS.names) - 1), st.integers(0, 6).map(bool),
    ),
    max_size=16,
)  # fmt: skip


@pytest.mark.parametrize("is_compiled", [True, False])
@settings(max_examples=100, deadline=None)
@given(tokens=TOKENS, ops=RUN_OPS)
def test_parts_equal_a_count_tick_by_tick_and_add_up(is_compiled, tokens, ops):
    with pytest.MonkeyPatch.context() as patch:
        if not is_compiled:
            patch.setattr(scan, "MAX_SHARING", 0)
        result = bar_parts(ops_in_tokens(tokens, ops))

    for row, token in enumerate(tokens):
        slow = slow_parts(token, ops)
        assert found_parts(result, row) == slow
        assert bool(result.is_split[row]) == bool(slow)
        if slow:
            begin, end, _ = token
            assert sum(slow.values()) == end - begin
            mine = result.shares(np.array([row]))[0]
            assert mine.sum() == pytest.approx(1)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n_workers", [1, 3])
@pytest.mark.parametrize("keeps_order", [True, False])
def test_workers_share_the_time_out_without_a_loss(
    monkeypatch: pytest.MonkeyPatch, seed: int, n_workers: int, keeps_order: bool
) -> None:
    rng = np.random.default_rng(seed)
    length = rng.integers(0, 300, 40)
    begin = np.sort(rng.integers(0, 6_000, 40))
    tokens = [
        (int(a), int(a + b), bool(c))
        for a, b, c in zip(begin, length, rng.random(40) < 0.8, strict=True)
    ]
    columns = (
        rng.integers(0, 4, 900), rng.integers(0, 6_500, 900),
        rng.integers(0, 10 + 200 * (seed % 2), 900),
        rng.integers(1, len(OPS.names), 900), rng.random(900) < 0.9,
    )  # fmt: skip
    rows = zip(*(column.tolist() for column in columns), strict=True)
    trace = ops_in_tokens(tokens, list(rows))
    with monkeypatch.context() as patch:
        patch.setattr(scan, "MAX_SHARING", 0)
        expected = bar_parts(trace)
    for module in (turns, workers):
        monkeypatch.setattr(module, "n_workers", lambda: n_workers)
    monkeypatch.setattr(turns, "MIN_SHARED", 32)
    monkeypatch.setattr(scan, "_CALL_ROWS", 50)
    if keeps_order:
        monkeypatch.setattr(turns, "MIN_SPANS", 1)

    result = bar_parts(trace)

    for row in range(len(tokens)):
        assert found_parts(result, row) == found_parts(expected, row)
    assert result.families == expected.families
    assert result.is_split.tolist() == expected.is_split.tolist()
    assert result.has_untimed == expected.has_untimed
    assert result.is_split.any()


def test_families_that_run_at_once_share_the_time() -> None:
    tokens = [(0, 100, True), (100, 150, True), (150, 160, False)]
    ops = [
        (0, 0, 60, 3, True),  # MUL_MAT
        (1, 30, 60, 3, True),  # the same family counts once
        (2, 60, 30, 1, True),  # ADD
        (3, 60, 15, 5, True),  # ROPE
        (0, 150, 10, 3, True),
    ]

    result = bar_parts(ops_in_tokens(tokens, ops))

    assert found_parts(result, 0) == {
        "matmul": 60 + 5 + Fraction(15, 2),
        "elementwise": 5 + Fraction(15, 2),
        "rope": 5,
        "idle": 10,
    }
    assert result.is_split.tolist() == [True, False, False]
    assert not result.has_untimed


def test_ops_without_a_known_time_are_reported() -> None:
    ops = [(0, 10, 10, 3, True), (1, 30, 10, 1, False)]

    result = bar_parts(ops_in_tokens([(0, 100, True)], ops))

    assert result.has_untimed
    assert found_parts(result, 0) == {"matmul": 10, "idle": 90}


@pytest.mark.parametrize("name", ["moe-experiment", "tinyllama-256.bin"])
def test_parts_of_whole_traces_add_up(name: str) -> None:
    trace = open_bundle(survey([ROOT / "resources" / "samples" / name]))
    bars, result = token_bars(trace), bar_parts(trace)

    split = result.is_split

    assert split.any()
    assert (result.idle >= 0).all()
    whole = result.ticks.sum(axis=1) + result.idle
    assert (whole[split] == bars.duration[split] * result.divisor).all()
    assert not whole[~split].any()


def test_trace_without_tokens_has_no_parts() -> None:
    result = bar_parts(TraceBuilder().snapshot(llama_like_trace().info))

    assert (len(result.idle), result.families) == (0, ())


class Impatient:
    def progress(self, done: int, total: int) -> None:
        raise Cancelled


def test_idle_time_says_what_it_may_hold() -> None:
    parts = bar_parts(ops_in_tokens([(0, 100, True)], [(0, 0, 25, 3, True)]))
    row = np.array([0])

    assert parts_text(parts, row) == "mean shares: matmul 25.0 %, no op runs 75.0 %"
    assert "no op of known time runs 75" in parts_text(
        replace(parts, has_untimed=True), row
    )
    assert "no recorded op runs 75" in parts_text(replace(parts, hides_ops=True), row)
    assert "derived" in parts_text(replace(parts, has_derived=True), row)


def test_parts_can_be_cancelled() -> None:
    with pytest.raises(Cancelled):
        bar_parts(llama_like_trace(), Impatient())
