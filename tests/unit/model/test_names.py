"""Table of real and made-up tensor names and what they state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggscope.model import names
from ggscope.model.names import (
    COMPONENTS,
    SUFFIXES,
    layer_of,
    normalise,
    parse,
    split_suffixes,
)

# name, base, layer, expert, role, component
TABLE = [
    ("Qcur-5", "Qcur-5", 5, -1, "Q", "attention"),
    ("Kcur-0", "Kcur-0", 0, -1, "K", "attention"),
    ("Vcur-21", "Vcur-21", 21, -1, "V", "attention"),
    ("Qcur-5 (view)", "Qcur-5", 5, -1, "Q", "attention"),
    ("Qcur-5 (view) (permuted)", "Qcur-5", 5, -1, "Q", "attention"),
    ("Qcur-5 (view) (perm", "Qcur-5", 5, -1, "Q", "attention"),
    ("Qcur-5 (view) (", "Qcur-5", 5, -1, "Q", "attention"),
    ("Kcur-3 (reshaped)", "Kcur-3", 3, -1, "K", "attention"),
    ("Kcur-3 (reshap", "Kcur-3", 3, -1, "K", "attention"),
    ("Vcur-7 (transposed)", "Vcur-7", 7, -1, "V", "attention"),
    ("Vcur-7 (cont)", "Vcur-7", 7, -1, "V", "attention"),
    ("Vcur-7 (c", "Vcur-7", 7, -1, "V", "attention"),
    (" (copy)", "", -1, -1, "", "other"),
    ("(copy)", "", -1, -1, "", "other"),
    (" (view)", "", -1, -1, "", "other"),
    ("x (copy of y)", "x", -1, -1, "", "other"),
    ("cache_k_l5", "cache_k_l5", 5, -1, "K", "cache"),
    ("cache_v_l10 (view)", "cache_v_l10", 10, -1, "V", "cache"),
    ("cache_k_l11 (view) ", "cache_k_l11", 11, -1, "K", "cache"),
    ("leaf_4", "leaf_4", -1, -1, "", "input"),
    ("leaf_12 (copy)", "leaf_12", -1, -1, "", "input"),
    ("node_677", "node_677", -1, -1, "", "other"),
    ("node_9 (view)", "node_9", -1, -1, "", "other"),
    ("inp_embd", "inp_embd", -1, -1, "", "embedding"),
    ("inp_tokens", "inp_tokens", -1, -1, "", "input"),
    ("inp_pos", "inp_pos", -1, -1, "", "input"),
    ("KQ_mask", "KQ_mask", -1, -1, "", "input"),
    ("KQ_mask (copy)", "KQ_mask", -1, -1, "", "input"),
    ("norm", "norm", -1, -1, "", "norm"),
    ("norm-3", "norm-3", 3, -1, "", "norm"),
    ("attn_norm-3", "attn_norm-3", 3, -1, "", "norm"),
    ("result_norm", "result_norm", -1, -1, "", "norm"),
    ("result_output", "result_output", -1, -1, "", "output"),
    ("output.weight", "output.weight", -1, -1, "", "output"),
    ("output_norm.weight", "output_norm.weight", -1, -1, "", "norm"),
    ("token_embd.weight", "token_embd.weight", -1, -1, "", "embedding"),
    ("l_out-15", "l_out-15", 15, -1, "", "residual"),
    ("ffn_inp-2", "ffn_inp-2", 2, -1, "", "ffn"),
    ("ffn_out-2", "ffn_out-2", 2, -1, "", "ffn"),
    ("ffn_swiglu-0", "ffn_swiglu-0", 0, -1, "", "ffn"),
    ("attn_out-4", "attn_out-4", 4, -1, "O", "attention"),
    ("kqv_out-4", "kqv_out-4", 4, -1, "O", "attention"),
    ("kq-4", "kq-4", 4, -1, "", "attention"),
    ("kqv-4", "kqv-4", 4, -1, "", "attention"),
    ("__fattn__-9", "__fattn__-9", 9, -1, "", "attention"),
    ("blk.0.attn_q.weight", "blk.0.attn_q.weight", 0, -1, "Q", "attention"),
    ("blk.10.attn_k.bias", "blk.10.attn_k.bias", 10, -1, "K", "attention"),
    ("blk.1.attn_v.weight", "blk.1.attn_v.weight", 1, -1, "V", "attention"),
    ("blk.1.attn_qkv.weight", "blk.1.attn_qkv.weight", 1, -1, "QKV", "attention"),
    ("blk.1.attn_output.we", "blk.1.attn_output.we", 1, -1, "O", "attention"),
    ("blk.7.attn_norm.wei", "blk.7.attn_norm.wei", 7, -1, "", "norm"),
    ("blk.7.ffn_down.weight", "blk.7.ffn_down.weight", 7, -1, "", "ffn"),
    ("blk.3.ffn_gate_inp.weight", "blk.3.ffn_gate_inp.weight", 3, -1, "", "router"),
    ("blk.3.ffn_up_exps.weight", "blk.3.ffn_up_exps.weight", 3, -1, "", "experts"),
    (
        "blk.3.ffn_up_exps.weight[4]", "blk.3.ffn_up_exps.weight[4]", 3, 4, "",
        "experts",
    ),
    ("blk.3.ffn_gate.7.weight", "blk.3.ffn_gate.7.weight", 3, 7, "", "ffn"),
    ("expert_3", "expert_3", -1, 3, "", "experts"),
    ("model.layers.8.expert.12.w", "model.layers.8.expert.12.w", 8, 12, "", "experts"),
    ("model.layers.8.q_proj", "model.layers.8.q_proj", 8, -1, "Q", "attention"),
    ("model.layers.8.self_attn.o_proj.weight",
     "model.layers.8.self_attn.o_proj.weight", 8, -1, "O", "attention"),
    ("ffn_moe_topk-6", "ffn_moe_topk-6", 6, -1, "", "router"),
    ("ffn_moe_gate-6", "ffn_moe_gate-6", 6, -1, "", "experts"),
    ("v.blk.2.attn_q.weight", "v.blk.2.attn_q.weight", 2, -1, "Q", "attention"),
    ("foo (bar)", "foo (bar)", -1, -1, "", "other"),
    ("", "", -1, -1, "", "other"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "base", "layer", "expert", "role", "component"),
    TABLE,
    ids=[row[0] or "empty" for row in TABLE],
)
def test_name_of_the_table_shows_what_it_should(
    name: str, base: str, layer: int, expert: int, role: str, component: str
) -> None:
    namespace = parse(name)

    assert namespace.raw == name
    assert (namespace.base, namespace.layer, namespace.expert) == (base, layer, expert)
    assert (namespace.role, namespace.component) == (role, component)
    assert namespace.component in COMPONENTS


def test_suffixes_come_back_in_order_and_completed() -> None:
    assert split_suffixes("a (view) (perm") == ("a", ("view", "permuted"), True)
    assert split_suffixes("a (copy) (view)") == ("a", ("copy", "view"), False)


def test_ambiguous_cut_suffix_stays_as_it_stands() -> None:
    base, text, is_cut = split_suffixes("a (co")

    assert (base, text, is_cut) == ("a", ("co",), True)


def test_suffix_behind_an_open_one_is_part_of_the_name() -> None:
    assert normalise("a (vie (view)") == "a (vie"


def test_head_number_is_parsed() -> None:
    assert parse("blk.1.attn.head_12.weight").head == 12
    assert parse("blk.1.attn_q.weight").head == -1


@given(
    st.text("abQKV_-.0123456789", max_size=20),
    st.lists(st.sampled_from(SUFFIXES), max_size=4),
)
def test_appended_suffixes_are_removed_again(base: str, suffixes: list[str]) -> None:
    name = base + "".join(f" ({word})" for word in suffixes)

    assert normalise(name) == base
    assert layer_of(name) == layer_of(base)


@given(st.text(max_size=40))
def test_any_text_is_parsed_without_error(name: str) -> None:
    namespace = parse(name)

    assert normalise(namespace.base) == namespace.base or "(" in namespace.base
    assert namespace.layer >= -1


def test_names_that_differ_in_digits_are_looked_at_once() -> None:
    names.pattern_shape.cache_clear()

    reports = [parse(f"blk.{i:05}.ffn_up-{i:05}") for i in range(10_000)]

    assert names.pattern_shape.cache_info().misses == 1
    assert reports[123].base == "blk.00123.ffn_up-00123"


def test_long_names_are_not_kept() -> None:
    names.pattern_shape.cache_clear()

    assert parse("x" * 5_000).base == "x" * 5_000
    assert names.pattern_shape.cache_info().currsize == 0


def test_name_of_very_many_suffixes_is_read_once() -> None:
    base, suffixes, is_cut = split_suffixes("Qcur-5" + " (view)" * 100_000)

    assert base == "Qcur-5"
    assert len(suffixes) == 100_000
    assert not is_cut


@given(st.lists(st.text(alphabet="blk.0123 -_l()view\n[]", max_size=12), max_size=6))
def test_shapes_of_many_names_equal_those_of_each(some: list[str]) -> None:
    shapes, which = names.shapes_of(some)

    assert [shapes[i] for i in which] == [names.shape_of(name) for name in some]
