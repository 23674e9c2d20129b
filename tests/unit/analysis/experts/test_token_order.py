"""Experts of tokens are compared along sequences, not along ubatches."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

import builders
from expert_traces import random_choices, routed
from ggscope.analysis.experts.experts import expert_choices
from ggscope.analysis.experts.figures import (
    Overlap,
    coactivation,
    expert_sets,
    experts_base,
    overlap,
    transitions,
)
from ggscope.analysis.experts.token_order import tokens_before
from ggscope.model.batches import BatchTokens, TokenSequences
from ggscope.model.builder import TraceBuilder
from ggscope.model.routing import Routing
from ggscope.model.trace import Trace

N_EXPERTS, K = 6, 2

Told = tuple[int, int, int, bool]
"""Context, sequence and position of a token, and whether its output is asked for."""


def recording(
    ubatches: list[list[Told]], *, n_layers: int = 2, seed: int = 0
) -> tuple[Trace, dict[tuple[int, int, int], set[int]]]:
    """Return a recording of these ubatches, and what each row chose.

    The last layer computes only the rows whose output is asked for.
    """
    flat = [(u, r, *token) for u, batch in enumerate(ubatches)
            for r, token in enumerate(batch)]  # fmt: skip
    chosen = random_choices(seed, len(flat), n_layers, N_EXPERTS, K)
    columns: dict[str, list[int]] = defaultdict(list)
    sets: dict[tuple[int, int, int], set[int]] = {}
    n_rows: dict[tuple[int, int], int] = defaultdict(int)
    for i, (ubatch, _, _, _, _, is_output) in enumerate(flat):
        for layer in range(n_layers):
            if layer == n_layers - 1 and not is_output:
                continue
            row = n_rows[ubatch, layer]
            n_rows[ubatch, layer] += 1
            sets[i, layer, 0] = set(chosen[i, layer].tolist())
            for rank, expert in enumerate(chosen[i, layer].tolist()):
                for name, value in (
                    ("token", ubatch), ("layer", layer), ("row", row),
                    ("expert", expert), ("rank", rank),
                ):  # fmt: skip
                    columns[name].append(value)
    n = len(columns["token"])
    builder = TraceBuilder()
    builder.routing = Routing(
        time=np.arange(n, dtype=np.int64),
        span=np.full(n, -1, np.int64),
        token=np.array(columns["token"], np.int32),
        layer=np.array(columns["layer"], np.int16),
        expert=np.array(columns["expert"], np.int16),
        rank=np.array(columns["rank"], np.int16),
        score=np.full(n, np.nan, np.float32),
        is_used=np.ones(n, np.bool_),
        row=np.array(columns["row"], np.int32),
        n_experts=N_EXPERTS,
    )
    table = np.array([(u, r, c, p, o) for u, r, c, _, p, o in flat])
    tokens = BatchTokens(
        ubatch=table[:, 0].astype(np.int32),
        row=table[:, 1].astype(np.int32),
        id=np.full(len(flat), -1, np.int32),
        position=table[:, 3].astype(np.int32),
        phase=np.full(len(flat), -1, np.int8),
        is_output=table[:, 4].astype(np.int8),
        context=table[:, 2].astype(np.int32),
        decode=np.full(len(flat), -1, np.int64),
    )
    sequences = TokenSequences(
        np.arange(len(flat), dtype=np.int64),
        np.array([token[3] for token in flat], np.int32),
    )
    trace = builders.finished(builder)
    return replace(trace, batch_tokens=tokens, token_sequences=sequences), sets


def slowly(
    ubatches: list[list[Told]], sets: dict[tuple[int, int, int], set[int]], layers: int
) -> list[tuple[int, int, float]]:
    """Return (ubatch, layer, share kept) of each token that has one before it."""
    last: dict[tuple[int, int, int], int] = {}
    slowly, i = [], 0
    for ubatch, batch in enumerate(ubatches):
        for context, sequence, position, _ in batch:
            before = last.get((context, sequence, position - 1))
            for layer in range(layers):
                now = sets.get((i, layer, 0))
                then = None if before is None else sets.get((before, layer, 0))
                if now is not None and then is not None:
                    slowly.append((ubatch, layer, len(now & then) / len(now)))
            last[context, sequence, position] = i
            i += 1
    return slowly


def prompt(n: int, context: int = 0, sequence: int = 0, at: int = 0) -> list[Told]:
    return [(context, sequence, at + i, i == n - 1) for i in range(n)]


def one(position: int, context: int = 0, sequence: int = 0) -> Told:
    return (context, sequence, position, True)


RUNS = {
    "one request": [prompt(5), [one(5)], [one(6)], [one(7)]],
    "a prompt in two ubatches": [[*prompt(4)[:-1], (0, 0, 3, False)],
                                 prompt(3, at=4), [one(7)]],
    "requests side by side": [
        prompt(3) + prompt(4, sequence=1),
        [one(3), one(4, sequence=1)],
        [one(5, sequence=1), one(4)],
    ],
    "contexts in turn": [
        prompt(3), prompt(2, context=1), [one(3)], [one(2, context=1)], [one(4)],
    ],
    "drafts that were not accepted": [
        prompt(2), [one(2), one(3), one(4)], [one(3), one(4)], [one(5)],
    ],
    "another request in the same slot": [prompt(3), [one(3)], prompt(2), [one(2)]],
}  # fmt: skip


def found_of(trace: Trace) -> Overlap:
    choices = expert_choices(trace)
    return overlap(choices, expert_sets(choices))


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("seed", range(3))
def test_experts_kept_are_those_of_the_token_before_in_its_sequence(
    name: str, seed: int
) -> None:
    trace, sets = recording(RUNS[name], seed=seed)
    expected = slowly(RUNS[name], sets, 2)

    result = found_of(trace)

    assert result.mean == pytest.approx(np.mean([share for _, _, share in expected]))
    for layer in range(2):
        mine = [share for _, at, share in expected if at == layer]
        assert result.by_layer[layer] == pytest.approx(np.mean(mine))
        for ubatch in range(len(RUNS[name])):
            cell = [s for u, at, s in expected if (u, at) == (ubatch, layer)]
            value = result.share[layer, ubatch]
            if cell:
                assert value == pytest.approx(np.mean(cell))
            else:
                assert np.isnan(value)


@pytest.mark.parametrize("name", RUNS)
def test_pairs_are_of_tokens_and_not_of_ubatches(name: str) -> None:
    trace, sets = recording(RUNS[name], n_layers=1, seed=4)
    choices = expert_choices(trace)
    together = np.zeros((N_EXPERTS, N_EXPERTS), np.int64)
    for chosen in sets.values():
        for a in chosen:
            for b in chosen:
                together[a, b] += 1

    result = expert_sets(choices)

    assert coactivation(choices, result).tolist() == together.tolist()
    assert transitions(choices, result).sum() == K * K * len(
        slowly(RUNS[name], sets, 1)
    )
    assert experts_base(trace).sets.n_tokens == len({i for i, _, _ in sets})


def test_token_before_is_the_last_one_of_that_position() -> None:
    trace, _ = recording(RUNS["drafts that were not accepted"])

    # Rows: 0 1 | 2 3 4 | 3 4 again | 5: the second draft of 4 follows the second 3.
    assert tokens_before(trace).tolist() == [-1, 0, 1, 2, 3, 2, 5, 6]


def test_tokens_of_no_known_position_follow_none() -> None:
    trace, _ = recording(RUNS["one request"])
    tokens = trace.batch_tokens
    blank = replace(tokens, position=np.full(len(tokens), -1, np.int32))

    assert (tokens_before(replace(trace, batch_tokens=blank)) == -1).all()
    assert np.isnan(found_of(replace(trace, batch_tokens=blank)).mean)


def test_rows_without_their_tokens_are_not_compared() -> None:
    # The sequences of the rows are unknown: neighbours may be of other requests.
    trace, _ = recording(RUNS["requests side by side"])
    bare = replace(
        trace, batch_tokens=BatchTokens.blank(), token_sequences=TokenSequences.blank()
    )

    assert np.isnan(found_of(bare).mean)
    # Where each ubatch is one token they are numbered in order.
    single, sets = recording([[one(0)], [one(1)], [one(2)]])
    alone = replace(
        single, batch_tokens=BatchTokens.blank(), token_sequences=TokenSequences.blank()
    )
    expected = [s for _, _, s in slowly([[one(i)] for i in range(3)], sets, 2)]
    assert found_of(alone).mean == pytest.approx(np.mean(expected))


def test_rows_of_another_number_than_the_tokens_are_left_out() -> None:
    trace, _ = recording([prompt(4), [one(4)]], n_layers=1)
    # A layer that lists 2 of 4 rows, where the output of one is asked for.
    routing = trace.routing
    twice = np.where(routing.token == 0, 1, routing.row)
    odd = replace(trace, routing=replace(routing, row=twice.astype(np.int32)))

    choices = expert_choices(odd)

    assert (choices.order.unit[choices.token == 0] == -1).all()
    assert np.isnan(found_of(odd).mean)


def test_first_token_has_none_before_it() -> None:
    trace, _ = recording([[one(0)], [one(1)]])

    assert np.isnan(found_of(trace).share[:, 0]).all()
    assert not np.isnan(found_of(trace).share[:, 1]).any()


def test_numbers_that_skip_do_not_follow_each_other() -> None:
    chosen = random_choices(1, 3, 1, 4, 2)
    trace = routed(chosen, tokens=[0, 1, 5], n_experts=4)

    share = found_of(trace).share[0]

    assert np.isnan(share).tolist() == [True, False, True]
