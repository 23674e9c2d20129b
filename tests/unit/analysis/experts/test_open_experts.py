"""Experts that no list names: unknown in every figure and sentence, on both sides."""

import numpy as np
import pytest

from ggscope.analysis.experts.experts import expert_choices, expert_grid
from ggscope.analysis.experts.figures import (
    Beside,
    expert_figures,
    expert_sets,
    experts_result,
    overlap,
)
from ggscope.analysis.heat.heatmap import heat_base
from ggscope.analysis.heat.rows import HeatAxis
from ggscope.analysis.reads.hot_cold import hot_cold
from ggscope.analysis.reads.hotness import ranking
from ggscope.analysis.reads.what_if import what_if
from ggscope.descriptions.reads import (
    hot_facts,
    rests_on,
)
from ggscope.model.routing import UNKNOWN_MORE
from ggscope.model.tables import Space
from ggscope.model.trace import Trace
from ggscope.render.heatmap.compose import compose_heatmap
from ggscope.render.heatmap.figure import heat_scene
from ggscope.views.experts.texts import about_text, about_tip, cell_text
from reads_builder import Op, Read, TensorRow, reads_trace
from scenes import texts_of

STACK = TensorRow("blk.0.ffn_up_exps.weight", 0, 400, 0, n_experts=4)
OTHER = TensorRow("output.weight", 400, 100)
NEVER = TensorRow("unused.weight", 500, 50)
ACT = TensorRow("Qcur-0", -1, 8, 0)


def run_of(more: int, chosen: tuple[int, ...] = (0, 2)) -> Trace:
    """Return two tokens that choose the same experts and `more` that nobody names."""
    reads = (Read(0, 400), Read(3, 8, space=Space.BUFFER))
    ops = [
        Op(100 * t + 20 * i, made, name, t)
        for t in range(2)
        for i, (made, name) in enumerate(
            ((reads, "MUL_MAT_ID"), ((Read(1, 100),), "MUL_MAT"))
        )
    ]
    lists = {(t, 0): chosen for t in range(2)}
    return reads_trace(
        (STACK, OTHER, NEVER, ACT), ops, lists, dict.fromkeys(lists, more)
    )


def facts_of(trace: Trace) -> dict[str, tuple[str, str]]:
    return {f.title: (f.text, f.remark) for f in hot_facts(trace, hot_cold(trace))}


@pytest.mark.parametrize("more", [0, 1, UNKNOWN_MORE])
def test_what_may_be_touched_is_neither_hot_nor_cold(more: int) -> None:
    trace = run_of(more)
    cold = hot_cold(trace)

    text, remark = facts_of(trace)["Never touched"]

    n_cold = 3 if more == 0 else 1  # two experts and a tensor that nothing reads
    assert (cold.cold.n_cold, cold.cold.n_unknown) == (n_cold, 3 - n_cold)
    assert f"{n_cold} of 6 tensors and expert slices" in text
    assert ("unknown" in remark) == (more != 0)
    by_expert = ranking(trace, cold.heat, "expert", lists_rest=True)
    perhaps = dict(zip(by_expert.keys, by_expert.unknown.tolist(), strict=True))
    assert (perhaps["blk.0.ffn_up_exps.weight[1]"] > 0) == (more != 0)
    assert perhaps["output.weight"] == 0


@pytest.mark.parametrize(("more", "max_bytes"), [(0, 0), (1, 200), (2, 400), (-1, 400)])
def test_bytes_that_may_come_on_top_are_reported_with_their_most(
    more: int, max_bytes: int
) -> None:
    trace = run_of(more)

    text, _ = facts_of(trace)["Bytes of the model"]

    assert text.startswith("600 B read")
    assert text.endswith(f"up to {max_bytes} B more unknown") == (max_bytes > 0)
    result = what_if(trace)
    assert result.curve.bytes_asked == 600
    left_out = [line for line in rests_on(result) if "expert stacks" in line]
    assert len(left_out) == (more != 0)
    assert all(f"up to {max_bytes} B" in line for line in left_out)


@pytest.mark.parametrize("more", [0, 3, UNKNOWN_MORE])
def test_shares_of_layers_with_open_choices_are_not_known(more: int) -> None:
    choices = expert_choices(run_of(more))
    grid = expert_grid(choices)
    figures = expert_figures(grid.count, grid.more)
    share = overlap(choices, expert_sets(choices)).share

    is_open = more != 0
    assert grid.count.tolist() == [[2, 0, 2, 0]]
    assert grid.more.tolist() == [2 * more if more > 0 else more]
    assert np.isnan(figures.entropy).tolist() == [is_open]
    assert (figures.hottest is None) == is_open
    assert (figures.n_open_layers, figures.n_open_slots) == (is_open, 2 * is_open)
    assert np.isnan(share[0, 1]) == is_open


@pytest.mark.usefixtures("qapp")
@pytest.mark.parametrize("more", [0, 1])
def test_heatmap_says_what_is_perhaps_touched(more: int) -> None:
    trace = run_of(more)
    base = heat_base(trace, "token")
    scene = heat_scene(trace, base, HeatAxis(base.files, "offset"), (900, 420), "dark")

    texts = texts_of(compose_heatmap(scene))

    assert ("possibly touched" in texts) == (more != 0)
    assert "never touched" in texts
    assert base.maybe.tolist() == [2 * more] * 4 + [0, 0]


@pytest.mark.usefixtures("qapp")
@pytest.mark.parametrize("more", [0, 2, UNKNOWN_MORE])
def test_view_of_experts_says_which_figures_are_open(more: int) -> None:
    result = experts_result(run_of(more), None, None, None, Beside.OVERLAP)

    about, tip = about_text(result), about_tip(result)
    known, silent = (cell_text(result, (0, expert)) for expert in (0, 1))

    is_open = more != 0
    assert ("50.0 % unknown" in about) == is_open
    assert ("routing incomplete in 1 of 1 layers" in about) == is_open
    assert ("hottest" in about) == ("entropy" in about) == (not is_open)
    assert ("first token" in tip) == is_open
    assert (
        ("at least 2 choices" in known) == ("at least 0 choices" in silent) == is_open
    )
    assert ("further choices of the layer unknown" in known) == is_open


def test_choice_of_an_op_without_any_list_is_open() -> None:
    trace = reads_trace((STACK,), [Op(0, (Read(0, 400),), "MUL_MAT_ID")])

    cold = hot_cold(trace)

    assert (cold.cold.n_cold, cold.cold.n_unknown) == (0, 4)
    assert (
        "0 B read; up to 400 B more unknown" in facts_of(trace)["Bytes of the model"][0]
    )


def test_kv_cache_shows_reads_from_writes_and_both_from_silence() -> None:
    cache, rows = TensorRow("cache_k_l0", -1, 512, 0), TensorRow("leaf_7", -1, 8)
    tensors = (cache, rows, ACT)
    side = {"space": Space.BUFFER}
    write = (Read(2, 8, **side), Read(1, 8, **side), Read(0, 512, **side))
    read = (Read(2, 8, **side), Read(0, 64, **side))

    def kv(*ops: Op) -> str:
        return facts_of(reads_trace(tensors, ops))["KV cache"][0]

    both = kv(Op(0, write, "SET_ROWS"), Op(20, read, "FLASH_ATTN_EXT"))
    silent = kv(Op(20, read, "FLASH_ATTN_EXT"))
    written = kv(Op(0, write, "SET_ROWS"))

    # Eight bytes of numbers become at most sixteen in the type of the cache.
    assert both == "64 B read, at most 16 B written"
    assert silent == "64 B read, no writes recorded"
    assert written == "no reads recorded, at most 16 B written"
    masked = (Read(2, 8, **side), Read(0, 64, **side), Read(0, 64, **side))
    attend = Op(20, (*masked, Read(1, 8, **side)), "FLASH_ATTN_EXT")
    assert kv(attend) == "at most 128 B read, no writes recorded"
    assert kv(Op(20, masked, "FLASH_ATTN_EXT")).startswith("128 B read")
