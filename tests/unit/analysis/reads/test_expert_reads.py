"""Reads that follow from a routing table's choices, against a plain simulation."""

import random
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gguf_files
import people
from expert_traces import routed
from ggscope.analysis.reads.what_if import WhatIf, cache_result, what_if
from ggscope.analysis.sessions.join import SideFile, join
from ggscope.descriptions.reads import cache_result_text, no_reads_text, rests_on
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.readers.experts.moe_csv import MoeCsvReader
from reads_builder import moe_reads
from side_files import read_text

READER = MoeCsvReader()
_HEAD = "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes\n"
Row = tuple[int, int, int, int, int]
"""turn, phase, step, layer and expert of a choice."""


def route_trace(folder: Path, rows: list[Row], sizes: dict[int, int]) -> Trace:
    """Return the trace of a table with these choices and sizes of experts."""
    text = "# route_trace v1\n# model=x n_layer=3\n"
    for layer, size in sizes.items():
        text += f"# layer={layer} expert_bytes={size} dense_bytes=5\n"
    text += _HEAD
    for turn, phase, step, layer, expert in rows:
        text += f"{turn},{phase},{step},{layer},0,{expert},0.5,0,0\n"
    return read_text(READER, folder, text, "route.csv")


def choices(seed: int, n_tokens: int = 12, n_layers: int = 3, n: int = 6) -> list[Row]:
    """Return the choices of two turns: a prompt layer by layer, then tokens."""
    rng = random.Random(seed)
    rows: list[Row] = []
    for turn in range(2):
        n_prompt = rng.randint(1, 4)
        for layer in range(n_layers):
            for step in range(n_prompt):
                picks = rng.sample(range(n), 2)
                rows += [(turn, 0, step, layer, expert) for expert in picks]
        for step in range(n_prompt, n_tokens):
            for layer in range(n_layers):
                picks = rng.sample(range(n), 2)
                rows += [(turn, 1, step, layer, expert) for expert in picks]
    return rows


def reads(rows: list[Row]) -> list[tuple[int, int]]:
    """Return layer and expert of each read: once per layer of a prompt or token."""
    result, batch, experts = [], None, set()
    for turn, phase, step, layer, expert in rows:
        if batch != (batch := (turn, phase, step if phase else 0, layer)):
            experts = set()
        if expert not in experts:
            result.append((layer, expert))
        experts.add(expert)
    return result


def simulated(asked: list[tuple[int, int]], units, capacity: int) -> int:
    """Return the bytes that LRU reads; `units` gives (key, size) of what is asked."""
    cache: OrderedDict[object, int] = OrderedDict()
    read = 0
    for one in asked:
        for key, size in units(*one):
            if key in cache:
                cache.move_to_end(key)
                continue
            read += size
            cache[key] = size
            while sum(cache.values()) > capacity:
                cache.popitem(last=False)
    return read


def with_model(trace: Trace, folder: Path, n_experts: int = 6) -> tuple[Trace, dict]:
    """Return the trace with a model, and the sizes of its expert slices by layer."""
    shapes = {"up": (64, 32), "down": (32, 64), "gate": (64, 16)}
    tensors = [gguf_files.T("token_embd.weight", (64, 100), "f32")]
    for layer in range(3):
        tensors += [
            gguf_files.T(
                f"blk.{layer}.ffn_{name}_exps.weight", (*shape, n_experts), "f16"
            )
            for name, shape in shapes.items()
        ]
    model = gguf_files.read_gguf(folder, gguf_files.encode(tensors))
    joined = join(trace, [SideFile(model, "model")])
    sizes = {name: 2 * a * b for name, (a, b) in shapes.items()}
    return joined, sizes


@pytest.mark.parametrize("seed", range(6))
def test_stated_sizes_give_what_a_simulated_cache_of_experts_reads(tmp_path, seed):
    rows, sizes = choices(seed), {0: 1000, 1: 3000, 2: 500}
    result = what_if(route_trace(tmp_path, rows, sizes))

    asked = reads(rows)
    assert result.curve.n_reads == len(asked)
    assert result.working_set == sum(sizes[layer] for layer, _ in set(asked))
    for capacity in (0, 900, 4000, 9000, 15_000, 27_000):
        expected = simulated(asked, lambda a, b: [((a, b), sizes[a])], capacity)
        assert result.curve.at(capacity)[0] == expected


@pytest.mark.parametrize("seed", range(6))
def test_model_gives_what_a_simulated_cache_of_slices_reads(tmp_path, seed):
    rows = choices(seed)
    trace, sizes = with_model(route_trace(tmp_path, rows, {}), tmp_path)
    result = what_if(trace)

    asked = reads(rows)
    # Slices of an expert in the order of the file.
    names = ("up", "down", "gate")
    assert result.curve.n_reads == 3 * len(asked)
    for capacity in (0, 4000, 9000, 30_000, 60_000, 200_000):
        expected = simulated(
            asked, lambda a, b: [((a, b, n), sizes[n]) for n in names], capacity
        )
        assert result.curve.at(capacity)[0] == expected
    with_cache = cache_result(result, 60_000, k=2, pin_share=0.5)
    assert with_cache.ahead is not None
    assert with_cache.pins is not None
    assert with_cache.best <= with_cache.bytes_read
    assert "expert slices" in " ".join(cache_result_text(result, with_cache))
    assert result.chosen is not None
    assert result.chosen.other_size == 64 * 100 * 4


@given(st.permutations(range(4)), st.integers(2, 5))
def test_repeats_within_a_batch_of_a_prompt_read_once(picks, n_tokens):
    trace = routed([[[pick] for pick in picks]] * n_tokens)  # token by token
    by_layer = trace.routing.take(np.argsort(trace.routing.layer, kind="stable"))
    sizes = tuple((layer, 10) for layer in range(4))

    alone = what_if(_of(trace, trace.routing, sizes))
    batch = what_if(_of(trace, by_layer, sizes))

    assert alone.curve.n_reads == 4 * n_tokens
    assert batch.curve.n_reads == 4


def _of(trace, routing, sizes) -> Trace:
    return replace(trace, routing=replace(routing, expert_bytes=sizes))


def test_table_of_one_layer_counts_each_token():
    trace = routed([[[1, 2]], [[1, 2]], [[1, 3]]])
    unnumbered = routed([[[1, 2]], [[1, 2]], [[1, 3]]], tokens=[-1, -1, -1])

    sizes = ((0, 10),)
    assert what_if(_of(trace, trace.routing, sizes)).curve.n_reads == 6
    assert what_if(_of(trace, unnumbered.routing, sizes)).curve.n_reads == 6


def test_dropped_experts_are_not_read():
    trace = routed([[[1, 2]], [[1, 3]]])
    is_used = np.array([True, False, True, True])
    routing = replace(trace.routing, is_used=is_used)

    result = what_if(_of(trace, routing, ((0, 10),)))

    assert result.curve.bytes_asked == 30
    assert result.working_set == 20


def test_choices_without_sizes_ask_for_the_model(tmp_path):
    trace = route_trace(tmp_path, choices(1), {})

    result = what_if(trace)

    assert result.curve.n_reads == 0
    assert result.sequence.n_lost == len(reads(choices(1)))
    title, hint = no_reads_text(trace)
    assert title == "No sizes of experts"
    assert "Add the model" in hint


def test_choices_without_times_lie_in_no_range(tmp_path):
    trace = route_trace(tmp_path, choices(1), {0: 10, 1: 10, 2: 10})

    result = what_if(trace, TimeRange(0, 1 << 60))

    assert result.curve.n_reads == result.sequence.n_lost == 0
    assert no_reads_text(trace, result)[0] == "No choices of experts"


def test_sizes_of_some_layers_only_count_the_rest_as_lost(tmp_path):
    rows = choices(2)
    result = what_if(route_trace(tmp_path, rows, {0: 10, 2: 20}))

    n_lost = sum(layer == 1 for layer, _ in reads(rows))
    assert result.sequence.n_lost == n_lost
    assert f"{n_lost} reads of experts of unknown size" in " ".join(rests_on(result))


def test_model_with_fewer_experts_gives_way_to_stated_sizes(tmp_path):
    rows, sizes = choices(3), {0: 1000, 1: 3000, 2: 500}
    trace, _ = with_model(route_trace(tmp_path, rows, sizes), tmp_path, n_experts=3)

    result = what_if(trace)

    assert result.chosen is not None
    assert not result.chosen.has_slices
    assert result.curve.bytes_asked == sum(sizes[layer] for layer, _ in reads(rows))


def test_other_sizes_in_the_model_are_stated(tmp_path):
    of_model = 2 * (64 * 32 + 32 * 64 + 64 * 16)
    rows = choices(4)
    trace, _ = with_model(
        route_trace(tmp_path, rows, {0: of_model, 1: of_model + 3, 2: 9999}), tmp_path
    )

    result = what_if(trace)

    assert result.chosen is not None
    assert result.chosen.n_other_layers == 1
    assert "another quantisation" in " ".join(rests_on(result))


def test_read_ahead_without_places_is_not_simulated(tmp_path):
    result = what_if(route_trace(tmp_path, choices(5), {0: 10, 1: 10, 2: 10}))

    with_cache = cache_result(result, 60, k=3)

    assert with_cache.ahead is None
    assert "Read-ahead is not simulated" in " ".join(
        cache_result_text(result, with_cache)
    )


def test_recorded_accesses_lead_over_choices():
    result = what_if(moe_reads())

    assert result.chosen is None


@people.each("csv", lambda name, _: name.endswith("gemma.route.csv"))
def test_reads_of_a_real_run_are_those_that_the_engine_states(tmp_path, name):
    """BigMoeOnEdge states what it read for each choice; with no hit it is all."""
    data = people.content(name)
    trace = read_text(READER, tmp_path, data, "gemma.route.csv")
    rows = [line.split(b",") for line in data.splitlines() if line[:1].isdigit()]
    prompt = replace(trace, routing=trace.routing.of_phase(0))

    result: WhatIf = what_if(trace)

    assert what_if(prompt).curve.bytes_asked == sum(
        int(row[8]) for row in rows if row[1] == b"0"
    )
    # A cache of about 4000 MiB misses as many as the engine did.
    n_missed = sum(row[8] != b"0" for row in rows)
    enough = result.curve.misses <= n_missed
    assert 4000 < result.curve.capacity[enough][0] / 2**20 < 4010
