"""Choices of experts: where they come from, and that every one is counted."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import builders
from expert_traces import accessing, random_choices, routed, routing, tensors
from ggscope.analysis.experts.experts import (
    CountSource,
    ExpertSource,
    expert_choices,
    expert_grid,
)
from ggscope.analysis.experts.slices import expert_slices
from ggscope.model.builder import TraceBuilder
from ggscope.model.tensors import Tensors
from ggscope.model.trace import Trace

STACKS = [
    (f"blk.{layer}.ffn_{part}_exps.weight", 1000 + layer * 300 + i * 96, 96,
     layer, -1, 8)
    for layer in (0, 1)
    for i, part in enumerate(("gate", "up", "down"))
]  # fmt: skip


def with_stacks(
    rows: list[tuple[str, int, int, int, int, int]], **values: object
) -> Trace:
    builder = TraceBuilder()
    builder.tensors = tensors(builder, rows)
    builder.routing = routing(random_choices(3, 9, 2, 8, 2), **values)  # type: ignore[arg-type]
    return builders.finished(builder)


@pytest.mark.parametrize("token", [None, 0, 11])
def test_grid_of_routing_equals_a_count_by_hand(token: int | None) -> None:
    chosen = random_choices(1, 12, 24, 32, 4)

    grid = expert_grid(expert_choices(routed(chosen, n_experts=32)), token)

    part = chosen if token is None else chosen[token : token + 1]
    expected = Counter(
        (layer, int(e)) for row in part for layer, es in enumerate(row) for e in es
    )
    assert grid.count.shape == (24, 32)
    assert grid.count.dtype == np.int64
    assert {tuple(at): int(grid.count[tuple(at)])
            for at in np.argwhere(grid.count).tolist()} == expected  # fmt: skip


def test_experts_that_did_not_compute_are_not_counted() -> None:
    chosen = random_choices(1, 5, 3, 16, 8)

    choices = expert_choices(routed(chosen, used=2))

    assert expert_grid(choices).count.sum() == 5 * 3 * 2
    assert len(choices) == 5 * 3 * 8


def test_number_of_experts_is_that_of_the_model_where_it_says_so() -> None:
    choices = expert_choices(routed([[[0, 5]]], n_experts=32))

    assert (choices.n_experts, choices.count_source) == (32, CountSource.MODEL)
    assert choices.n_slots == 32


def test_number_of_experts_below_one_seen_is_not_believed() -> None:
    choices = expert_choices(routed([[[0, 40]]], n_experts=32))

    assert (choices.n_experts, choices.count_source) == (41, CountSource.SEEN)


def test_number_of_experts_without_a_model_is_that_of_the_stacks() -> None:
    choices = expert_choices(with_stacks(STACKS))

    assert (choices.n_experts, choices.count_source) == (8, CountSource.TENSORS)


def test_layers_with_stacks_but_without_choices_have_a_row() -> None:
    rows = [*STACKS, ("blk.7.ffn_up_exps.weight", 9000, 96, 7, -1, 8)]

    choices = expert_choices(with_stacks(rows))

    assert choices.layers.tolist() == [0, 1, 7]
    assert expert_grid(choices).count[2].sum() == 0


def test_impossible_experts_are_counted_as_left_out() -> None:
    builder = TraceBuilder()
    chosen = np.array([[[0, 1]], [[4096, 2]], [[9999, 3]]])
    builder.routing = routing(chosen)

    choices = expert_choices(builders.finished(builder))

    assert choices.n_left_out == 2
    assert len(choices) == 4


def test_bytes_of_routing_are_choices_times_the_size_of_all_slices() -> None:
    trace = with_stacks(STACKS)

    grid = expert_grid(expert_choices(trace))

    np.testing.assert_array_equal(grid.bytes, grid.count * (3 * 96 // 8))


def test_bytes_are_unknown_where_one_size_is_missing() -> None:
    rows = [list(row) for row in STACKS]
    rows[0][2] = -1

    grid = expert_grid(expert_choices(with_stacks([tuple(r) for r in rows])))  # type: ignore[misc]

    assert (grid.bytes[0] == -1).all()
    assert (grid.bytes[1] >= 0).all()


def test_tokens_that_are_unknown_belong_to_no_token() -> None:
    choices = expert_choices(routed(random_choices(0, 2, 2, 4, 1), tokens=[-1, -1]))

    assert len(choices.tokens) == 0
    assert (choices.token == -1).all()
    assert expert_grid(choices).count.sum() == 4


def test_slices_of_a_stack_lie_at_base_plus_k_times_size_over_n() -> None:
    builder = TraceBuilder()
    builder.tensors = tensors(
        builder, [("blk.2.ffn_up_exps.weight", 1000, 100, 2, -1, 7)]
    )

    slices = expert_slices(builders.finished(builder))

    assert slices.offset.tolist() == [1000 + k * 100 // 7 for k in range(7)]
    assert slices.size.sum() == 100
    assert slices.offset[slices.of(2, 3)].tolist() == [1000 + 3 * 100 // 7]
    assert slices.n_experts == 7


def test_slices_of_huge_stacks_are_exact() -> None:
    size = (1 << 60) + 3
    builder = TraceBuilder()
    builder.tensors = tensors(
        builder, [("blk.0.ffn_up_exps.weight", 5, size, 0, -1, 256)]
    )

    slices = expert_slices(builders.finished(builder))

    assert slices.offset[255] == 5 + 255 * size // 256


def test_listed_slices_stand_for_their_stack() -> None:
    listed = [
        (f"blk.0.ffn_up_exps.weight[{k}]", 5000 + 10 * k, 10, 0, k, 0) for k in range(4)
    ]
    builder = TraceBuilder()
    builder.tensors = tensors(
        builder,
        [*listed, ("blk.0.ffn_up_exps.weight", 5000, 40, 0, -1, 4),
         ("blk.0.ffn_down_exps.weight", 6000, 80, 0, -1, 4)],
    )  # fmt: skip

    slices = expert_slices(builders.finished(builder))

    assert slices.offset[slices.of(0, 1)].tolist() == [5010, 6020]
    assert slices.sizes(np.array([0]), 4).tolist() == [[30, 30, 30, 30]]


SLICES = [(f"blk.{layer}.ffn_up_exps.weight[{k}]", -1, -1, layer, k, 0)
          for layer in range(2) for k in range(3)]  # fmt: skip


def test_accesses_to_slices_are_counted_per_token_layer_and_expert() -> None:
    # Tensors 0..2 are layer 0, 3..5 layer 1; the accesses themselves say nothing.
    patterns = [[(0, -1, -1, 10), (4, -1, -1, 7)], [(2, -1, -1, 5)], []]
    trace = accessing(patterns, [0, 1, 2, 0, -1, 0], [0, 0, 0, 1, 1, 1], SLICES)

    choices = expert_choices(trace)
    grid = expert_grid(choices)

    assert choices.source is ExpertSource.ACCESSES
    assert grid.count.tolist() == [[3, 0, 1], [0, 3, 0]]
    assert grid.bytes.tolist() == [[30, 0, 5], [0, 21, 0]]
    assert expert_grid(choices, 1).count.tolist() == [[2, 0, 0], [0, 2, 0]]


def test_layer_and_expert_of_the_access_itself_come_first() -> None:
    trace = accessing([[(0, 1, 2, 10)]], [0], [0], SLICES)

    grid = expert_grid(expert_choices(trace))

    assert np.argwhere(grid.count).tolist() == [[1, 2]]


def test_layers_beyond_all_models_are_counted_as_left_out() -> None:
    """Of 32,000 of them, a grid with 4,096 experts asked for 9 GB."""
    chosen = np.array([[[0, 1]], [[2, 3]], [[4, 5]]])
    builder = TraceBuilder()
    table = routing(chosen)
    layers = table.layer.copy()
    layers[2:4], layers[4:] = 511, 32_000
    builder.routing = replace(table, layer=layers)

    choices = expert_choices(builders.finished(builder))

    assert choices.layers.tolist() == [0, 511]
    assert (len(choices), choices.n_left_out) == (4, 2)
    assert expert_grid(choices).count.sum() == 4


def test_accesses_of_no_layer_are_counted_as_left_out() -> None:
    rows = [("experts[1]", -1, -1, -1, 1, 0), *SLICES]
    trace = accessing([[(0, -1, -1, 10)]], [0, 0], [0, 1], rows)

    choices = expert_choices(trace)

    assert choices.n_left_out == 2
    assert not len(choices)


def test_whole_stacks_show_no_expert() -> None:
    rows = [("blk.0.ffn_up_exps.weight", -1, -1, 0, -1, 0)]
    trace = accessing([[(0, 0, -1, 10)]], [0], [0], rows)

    assert expert_choices(trace).source is ExpertSource.STACKS


def test_a_trace_without_experts_says_so() -> None:
    choices = expert_choices(builders.llama_like_trace(tokens=2, layers=2))

    assert choices.source is ExpertSource.NONE
    assert choices.n_slots == 0
    assert expert_grid(choices).count.shape == (0, 0)


def test_loose_accesses_to_experts_count_too() -> None:
    trace = accessing([[(0, 0, 1, 10)]], [0], [0], SLICES)
    loose = trace.accesses.flat(trace.spans)
    trace = replace(trace, accesses=replace(trace.accesses, loose=loose))

    grid = expert_grid(expert_choices(trace))

    assert (grid.count[0, 1], grid.bytes[0, 1]) == (2, 20)


def test_accesses_of_a_trace_without_tokens_or_tensors_count_for_no_token() -> None:
    trace = accessing([[(-1, 0, 1, 10)]], [0, 0], [0, 0], SLICES)
    spans = replace(trace.spans, token=None)
    trace = replace(trace, spans=spans, tensors=Tensors.blank())

    choices = expert_choices(trace)

    assert len(choices.tokens) == 0
    assert expert_grid(choices).count.tolist() == [[0, 2]]


def test_a_model_alone_has_experts_but_shows_no_choice() -> None:
    builder = TraceBuilder()
    builder.tensors = tensors(builder, STACKS)

    choices = expert_choices(builders.finished(builder))

    assert choices.source is ExpertSource.STACKS
    assert (choices.layers.tolist(), choices.n_experts, len(choices)) == ([0, 1], 8, 0)
