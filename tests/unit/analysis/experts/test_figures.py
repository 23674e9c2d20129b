"""Figures about experts against brute force and known processes."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builders
from expert_traces import (
    accessing,
    falling_scores,
    random_choices,
    routed,
    routing,
    tensors,
)
from ggscope.analysis.experts import figures as figures_module
from ggscope.analysis.experts.experts import Choices, expert_choices, expert_grid
from ggscope.analysis.experts.figures import (
    Beside,
    ExpertsResult,
    coactivation,
    covers,
    expert_figures,
    expert_sets,
    experts_result,
    hotness_curve,
    overlap,
    rank_split,
    score_histogram,
    transitions,
)
from ggscope.errors import ExportError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Trace
from ggscope.render.experts import experts_figure
from ggscope.render.figure_style import FigureStyle
from ggscope.views.experts import texts
from statements import new_statement, new_statements

SHAPES = st.tuples(
    st.integers(0, 1000), st.integers(1, 6), st.integers(1, 3), st.integers(2, 6)
)


def made(
    seed: int, n_tokens: int, n_layers: int, n_experts: int
) -> tuple[np.ndarray, Choices]:
    k = 1 + seed % n_experts
    chosen = random_choices(seed, n_tokens, n_layers, n_experts, k)
    return chosen, expert_choices(routed(chosen, n_experts=n_experts))


def test_the_two_figures_people_ask_for() -> None:
    count = np.full((48, 512), 10, np.int64)
    count.flat[: 24_576 - round(24_576 * 0.986)] = 0
    count[47, 7] = 10 * 512  # so that its share can be determined by hand

    figures = expert_figures(count)

    assert figures.n_slots == 24_576
    assert f"{figures.utilisation:.1%}" == "98.6%"
    assert figures.hottest == (47, 7)
    share = 5120 / (5120 + 511 * 10)
    assert figures.hottest_ratio == pytest.approx(share * 512)


def test_hottest_expert_is_measured_against_an_even_choice() -> None:
    count = np.array([[10, 10, 10, 10], [25, 5, 5, 5]])

    figures = expert_figures(count)

    assert (figures.hottest, figures.hottest_ratio) == ((1, 0), 2.5)


def test_entropy_is_log_n_for_an_even_layer_and_zero_for_one_expert() -> None:
    figures = expert_figures(np.array([[3, 3, 3, 3], [0, 9, 0, 0], [0, 0, 0, 0]]))

    assert figures.entropy[:2].tolist() == [2.0, 0.0]
    assert figures.entropy_share[:2].tolist() == [1.0, 0.0]
    assert math.isnan(figures.entropy[2])


def test_figures_of_nothing_are_unknown() -> None:
    figures = expert_figures(np.zeros((0, 0), np.int64))

    assert math.isnan(figures.utilisation)
    assert figures.hottest is None
    assert math.isnan(figures.hottest_ratio)


@given(SHAPES)
@settings(max_examples=50)
def test_overlap_equals_sets_compared_one_by_one(
    shape: tuple[int, int, int, int],
) -> None:
    chosen, choices = made(*shape)

    share = overlap(choices, expert_sets(choices)).share

    n_tokens, n_layers, _ = chosen.shape
    expected = np.full((n_layers, n_tokens), np.nan)
    for token in range(1, n_tokens):
        for layer in range(n_layers):
            now, before = set(chosen[token, layer]), set(chosen[token - 1, layer])
            expected[layer, token] = len(now & before) / len(now)
    np.testing.assert_array_equal(share, expected)


@given(SHAPES)
@settings(max_examples=50)
def test_pairs_equal_loops_over_all_tokens(shape: tuple[int, int, int, int]) -> None:
    chosen, choices = made(*shape)
    sets = expert_sets(choices)
    n_tokens, n_layers, _ = chosen.shape
    follows = np.zeros((n_layers, choices.n_experts, choices.n_experts), np.int64)
    together = np.zeros_like(follows)
    for token in range(n_tokens):
        for layer in range(n_layers):
            for a in chosen[token, layer]:
                for b in chosen[token, layer]:
                    together[layer, a, b] += 1
                if token + 1 < n_tokens:
                    for b in chosen[token + 1, layer]:
                        follows[layer, a, b] += 1

    for layer in range(n_layers):
        np.testing.assert_array_equal(transitions(choices, sets, layer), follows[layer])
        np.testing.assert_array_equal(
            coactivation(choices, sets, layer), together[layer]
        )
    np.testing.assert_array_equal(transitions(choices, sets), follows.sum(axis=0))
    np.testing.assert_array_equal(coactivation(choices, sets), together.sum(axis=0))


def test_pairs_in_small_batches_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    _, choices = made(5, 20, 2, 5)
    sets = expert_sets(choices)
    whole = transitions(choices, sets)

    monkeypatch.setattr(figures_module, "_MAX_PAIRS", 7)

    np.testing.assert_array_equal(transitions(choices, sets), whole)


def test_tokens_with_a_gap_between_them_are_not_neighbours() -> None:
    choices = expert_choices(routed([[[0]], [[1]], [[0]]], tokens=[3, 4, 9]))
    sets = expert_sets(choices)

    assert transitions(choices, sets).tolist() == [[0, 1], [0, 0]]
    np.testing.assert_array_equal(overlap(choices, sets).share, [[np.nan, 0.0, np.nan]])


def test_a_layer_that_chose_nothing_breaks_the_chain() -> None:
    chosen = np.array([[[0], [0]], [[30_000], [1]], [[1], [0]]])

    choices = expert_choices(routed(chosen))
    sets = expert_sets(choices)

    assert transitions(choices, sets, 0).sum() == 0
    assert transitions(choices, sets, 1).tolist() == [[0, 1], [1, 0]]


def test_an_expert_that_is_listed_twice_is_one_of_the_set() -> None:
    choices = expert_choices(routed([[[2, 2]], [[2, 2]]]))

    assert transitions(choices, expert_sets(choices))[2, 2] == 1


def test_known_markov_chain_is_recovered() -> None:
    rng = np.random.default_rng(7)
    chain = np.array([[0.7, 0.2, 0.1, 0.0], [0.1, 0.6, 0.3, 0.0],
                      [0.25, 0.25, 0.25, 0.25], [0.0, 0.0, 0.9, 0.1]])  # fmt: skip
    path = [0]
    draws = rng.random(40_000)
    edges = chain.cumsum(axis=1)
    for draw in draws:
        path.append(int(np.searchsorted(edges[path[-1]], draw)))
    chosen = np.array(path).reshape(-1, 1, 1)

    choices = expert_choices(routed(chosen))
    counts = transitions(choices, expert_sets(choices))

    np.testing.assert_allclose(
        counts / counts.sum(axis=1, keepdims=True), chain, atol=0.02
    )
    assert counts[0, 3] == 0


def test_score_histogram_equals_that_of_numpy() -> None:
    chosen = random_choices(2, 50, 3, 16, 4)
    score = falling_scores(2, chosen.shape)
    score[0, 0] = [1.0, 0.5, 0.02, 0.0]
    choices = expert_choices(routed(chosen, score=score, used=2))

    histogram = score_histogram(choices)

    stored = score.astype(np.float32).astype(np.float64)
    assert histogram.count.shape == (4, 50)
    for rank in range(4):
        expected, _ = np.histogram(stored[:, :, rank], 50, (0, 1))
        np.testing.assert_array_equal(histogram.count[rank], expected)
        assert histogram.mean[rank] == pytest.approx(stored[:, :, rank].mean())


def test_scores_of_one_layer_are_those_of_that_layer() -> None:
    chosen = random_choices(2, 10, 3, 8, 2)
    choices = expert_choices(routed(chosen, score=falling_scores(1, chosen.shape)))

    assert score_histogram(choices, 1).count.sum() == 10 * 2


def test_scores_outside_of_zero_to_one_are_not_counted() -> None:
    choices = expert_choices(routed([[[0, 1, 2]]], score=np.array([1.5, 0.5, np.nan])))

    histogram = score_histogram(choices)

    assert histogram.count.sum() == 1


def test_ranks_of_an_expert_add_up_to_its_choices() -> None:
    chosen = random_choices(4, 30, 2, 6, 3)
    choices = expert_choices(routed(chosen))

    split = rank_split(choices, 1, 0, None)

    expected = [int((chosen[:, 1, rank] == 0).sum()) for rank in range(len(split))]
    assert split.tolist() == expected
    assert split.sum() == expert_grid(choices).count[1, 0]


def test_cover_is_the_fewest_experts_that_reach_the_share() -> None:
    count = np.array([[50, 30, 15, 5], [25, 25, 25, 25]])
    choices = expert_choices(routed(random_choices(0, 2, 2, 4, 1), n_experts=4))

    first, second = covers(choices, count, 0.8)

    assert (first.experts, first.count, first.share) == ((0, 1), 80, 0.8)
    assert (second.experts, second.share) == ((0, 1, 2, 3), 1.0)
    assert first.bytes == -1


@given(st.lists(st.integers(0, 40), min_size=2, max_size=9), st.integers(1, 100))
@settings(max_examples=60)
def test_no_smaller_cover_exists(counts: list[int], percent: int) -> None:
    choices = expert_choices(routed([[[len(counts) - 1]]], n_experts=len(counts)))

    (result,) = covers(choices, np.array([counts]), percent / 100)

    total, best = sum(counts), sorted(counts, reverse=True)
    assert result.count * 100 >= percent * total
    assert sum(best[: len(result.experts)]) == result.count
    if result.experts:
        assert sum(best[: len(result.experts) - 1]) * 100 < percent * total


def test_cover_of_a_layer_without_choices_is_empty() -> None:
    choices = expert_choices(routed(random_choices(0, 1, 2, 4, 1)))

    result = covers(choices, np.zeros((2, choices.n_experts), np.int64), 0.9)

    assert [cover.experts for cover in result] == [(), ()]
    assert math.isnan(result[0].share)


def test_cover_of_more_than_all_is_refused() -> None:
    choices = expert_choices(routed([[[0]]]))

    with pytest.raises(ValueError, match=r"1\.5"):
        covers(choices, np.array([[1]]), 1.5)


def test_hotness_curve_takes_the_hottest_slots_of_all_layers_first() -> None:
    curve = hotness_curve(np.array([[1, 6], [3, 0]]))

    assert curve.tolist() == [0.0, 0.6, 0.9, 1.0, 1.0]


def test_hotness_curve_of_nothing_is_unknown() -> None:
    assert np.isnan(hotness_curve(np.zeros((1, 2), np.int64))).all()


# -- what is said of them ------------------------------------------------------------


def result_of(trace: Trace) -> ExpertsResult:
    return experts_result(trace, None, None, None, Beside.OVERLAP)


def stacks(expert: int) -> Trace:
    """Return an op that accesses an expert of a stack; -1 = all of the stack."""
    rows = [("blk.0.ffn_up_exps.weight", -1, -1, 0, -1, 4)]
    return accessing([[(0, 0, expert, 9)]], [0], [0], rows)


def refused(trace: Trace) -> str:
    try:
        experts_figure(trace).draw(FigureStyle())
    except ExportError as error:
        return str(error)
    return ""


@pytest.mark.usefixtures("qapp")
def test_stacks_that_are_accessed_as_a_whole_show_no_expert() -> None:
    whole, one, none = (stacks(-1), stacks(2), builders.llama_like_trace())
    like = "\n".join(texts.source_text(result_of(t).base.choices) for t in (one, none))

    text = texts.source_text(result_of(whole).base.choices)
    assert new_statement(text, like)
    empty, others = (
        "\n".join(texts.empty_text(result_of(t).base.choices, t)) for t in (whole, none)
    )
    assert len(new_statements(empty, others)) >= 2
    assert new_statements(refused(whole), refused(one) + refused(none))


def test_experts_that_only_sizes_show_are_derived() -> None:
    trace = routed([[[0, 1], [0, 1]]])

    def caption(n_implied: int) -> str:
        is_implied = np.arange(4) < n_implied
        routing = replace(trace.routing, is_implied=is_implied)
        return texts.source_text(
            result_of(replace(trace, routing=routing)).base.choices
        )

    assert new_statement(caption(4), caption(3) + caption(0))


def test_number_of_experts_is_reported_with_what_shows_it() -> None:
    chosen = [[[0, 1]]]
    rows = [("blk.0.ffn_up_exps.weight", -1, -1, 0, -1, 4)]
    builder = TraceBuilder()
    builder.tensors = tensors(builder, rows)
    stacked = replace(routed(chosen), tensors=builders.finished(builder).tensors)
    stacked = replace(stacked, strings=builders.finished(builder).strings)
    values = {
        name: texts.about_tip(result_of(trace))
        for name, trace in (
            ("model", routed(chosen, n_experts=4)),
            ("tensors", stacked),
            ("seen", routed(chosen)),
        )
    }

    for name in ("model", "tensors"):
        others = "\n".join(text for key, text in values.items() if key != name)
        {
            "model": "{0} experts per layer (from the model).",
            "tensors": "{0} experts per layer (from the tensors).",
        }[name]
        assert new_statement(values[name], others)


def test_bytes_to_read_for_choices_are_derived_from_sizes() -> None:
    def caption(size: int) -> str:
        builder = TraceBuilder()
        rows = [("blk.0.ffn_up_exps.weight", -1, size, 0, -1, 4)]
        builder.tensors = tensors(builder, rows)
        builder.routing = routing(np.array([[[1]]]))
        return texts.cell_text(result_of(builders.finished(builder)), (0, 1))

    accessed = texts.cell_text(result_of(stacks(2)), (0, 2))
    assert new_statements(caption(4096), caption(-1) + accessed)
