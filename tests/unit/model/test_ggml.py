"""Op tables, families and inference."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.model.ggml import ops as ggml_ops
from ggscope.model.ggml.ops import (
    FAMILIES,
    OpSample,
    eras,
    family_of,
    find_table,
    infer,
    table,
    tables,
)
from ggscope.model.ggml.rules import ARITY, COMMON, expected_ops, fits_arity
from ggscope.model.storage import IoKind
from ggscope.model.trace import OpTable, unknown_op, unknown_op_number
from support import need_corpus
from tensor_files import decode

WRITER = "ggml-2025-11-25-95"
REAL = (
    ("trace_256_3584a339.bin", "256"),
    ("trace_256_c26d86e7.bin", "256"),
    ("trace_1024v3_a6ba6071.bin", "1024"),
    ("trace_1024v3_962e44d2.bin", "1024"),
)


def real_samples(name: str, layout: str) -> list[OpSample]:
    data = (need_corpus() / "tracer" / name).read_bytes()
    counts = Counter(
        (r.op, r.dst, tuple(s.name for s in r.sources)) for r in decode(data, layout)
    )
    return [
        OpSample(op, dst, sources, len(sources), count)
        for (op, dst, sources), count in counts.items()
    ]


def under(target: OpTable, samples: list[OpSample]) -> list[OpSample]:
    """Return the samples with the op numbers that `target` would have written."""
    numbers = {name: code for code, name in enumerate(target.names)}
    written = table(WRITER)
    return [
        OpSample(numbers[name], s.dst, s.sources, s.n_sources, s.count)
        for s in samples
        if (name := written.names[s.code]) in numbers
    ]


def wrong(op_table: OpTable, target: OpTable, samples: list[OpSample]) -> int:
    return sum(s.count for s in samples if op_table.name(s.code) != target.name(s.code))


def test_main_lines_have_59_tables_newest_first() -> None:
    dates = [t.id.split("-")[1:4] for t in tables()]

    assert len(tables()) == 59
    assert dates == sorted(dates, reverse=True)
    assert len({t.id for t in tables(mainline=False)}) == 108


def test_tables_equal_the_reference() -> None:
    rows = json.loads((need_corpus() / "ggml_op_tables.json").read_text())

    for row in rows:
        assert table(row["id"]).names == tuple(row["ops"])
    assert [t.id for t in tables()] == [r["id"] for r in rows if r["mainline"]]


def test_unknown_table_raises_key_error() -> None:
    with pytest.raises(KeyError):
        table("ggml-1999")


@pytest.mark.parametrize(
    ("text", "table_id"),
    [
        ("ggml-2025-11-25-95", "ggml-2025-11-25-95"),
        ("2025-11-25", "ggml-2025-11-25-95"),
        ("2025-11-24", "ggml-2025-11-13-94"),
        ("2025-11", "ggml-2025-11-25-95"),
        ("2026-01", "ggml-2025-11-25-95"),
        ("2024-09", "ggml-2024-09-20-80-544d86a"),
        ("2024", "ggml-2024-12-03-82"),
        ("9999", "ggml-2026-07-17-101"),
    ],
)
def test_date_picks_the_table_that_was_valid_then(text: str, table_id: str) -> None:
    assert find_table(text).id == table_id


@pytest.mark.parametrize("text", ["2022-01", "ggml-1999", "24-09", "2025-1", ""])
def test_date_before_all_tables_raises_key_error(text: str) -> None:
    with pytest.raises(KeyError):
        find_table(text)


def test_eras_are_those_of_the_main_lines_with_their_days() -> None:
    assert [era.table for era in eras()] == list(tables())
    assert all(era.since <= era.until for era in eras())


def test_unknown_op_number_is_read_back() -> None:
    assert unknown_op_number(unknown_op(94)) == 94
    assert unknown_op_number("OP_94") is None
    assert unknown_op_number("OPT_STEP_ADAMW") is None


def test_private_table_is_found_by_id() -> None:
    result = table("tracer-private")

    assert [result.name(op) for op in (1, 2, 3)] == ["MUL_MAT", "ADD", "ROPE"]
    assert result.name(0) == "OP_0?"


def test_names_move_with_the_era() -> None:
    assert table("ggml-2024-09-01-79").name(27) != table(WRITER).name(27)
    assert table(WRITER).name(29) == "MUL_MAT"
    assert table(WRITER).name(95) == "OP_95?"


@pytest.mark.parametrize(
    ("op", "family"),
    [
        ("MUL_MAT", "matmul"),
        ("MUL_MAT_ID", "moe"),
        ("OUT_PROD", "matmul"),
        ("CONV_2D", "matmul"),
        ("TE_GEMM", "matmul"),
        ("FLASH_ATTN_EXT", "attention"),
        ("SOFT_MAX", "attention"),
        ("VE_SOFTMAX", "attention"),
        ("RMS_NORM", "norm"),
        ("GROUP_NORM", "norm"),
        ("VE_LAYERNORM", "norm"),
        ("VE_RMSNORM_Q8", "norm"),
        ("ADD", "elementwise"),
        ("GLU", "elementwise"),
        ("VE_GELU", "elementwise"),
        ("CPY", "move"),
        ("GET_ROWS", "move"),
        ("DMA_LOAD", "move"),
        ("ADD_ID", "moe"),
        ("ROPE_BACK", "rope"),
        *((kind.name, "storage") for kind in IoKind if kind is not IoKind.OTHER),
        ("PREFETCH", "storage"),
        ("OTHER", "other"),
        ("mul_mat", "matmul"),
        ("NONE", "other"),
        ("OP_94?", "other"),
        ("", "other"),
    ],
)
def test_family_of_op_is_the_expected_one(op: str, family: str) -> None:
    assert family_of(op) == family
    assert family in FAMILIES


@pytest.mark.parametrize(
    ("dst", "sources", "n", "ops"),
    [
        ("inp_embd", ("token_embd.weight", "leaf_2"), 2, {"GET_ROWS"}),
        ("norm-3", ("l_out-2",), 1, {"RMS_NORM", "NORM"}),
        ("attn_norm-3", ("norm-3", "blk.3.attn_norm.we"), 2, {"MUL"}),
        ("result_norm", ("norm", "output_norm.weight"), 2, {"MUL"}),
        ("Qcur-1", ("Qcur-1", "blk.1.attn_q.bias"), 2, {"ADD"}),
        ("Qcur-1", ("blk.1.attn_q.weigh", "attn_norm-1"), 2, {"MUL_MAT"}),
        ("Qcur-1", ("Qcur-1 (reshaped)", "leaf_4"), 2, {"ROPE"}),
        ("Kcur-1", ("Kcur-1", "inp_pos", "rope_freqs.weight"), 3, {"ROPE"}),
        ("cache_k_l1 (view)", ("Kcur-1 (view)", "leaf_5", "cache"), 3, {"SET_ROWS"}),
        ("cache_k_l1 (view)", ("Kcur-1", "x"), 2, {"SET_ROWS", "CPY"}),
        ("cache_k_l1 (view)", (), None, {"SET_ROWS", "CPY", "VIEW"}),
        ("cache_k_l1 (view)", ("cache_k_l1",), 1, {"VIEW"}),
        ("__fattn__-1", ("q", "k", "v", "m"), 4, {"FLASH_ATTN_EXT"}),
        ("kq-1", ("k", "q"), 2, {"MUL_MAT"}),
        ("kq_soft_max-1", ("kq-1", "mask"), 2, {"SOFT_MAX"}),
        ("ffn_moe_probs-1", ("ffn_moe_logits-1",), 1, {"SOFT_MAX", "UNARY"}),
        ("ffn_moe_gate-1", ("blk.1.ffn_gate_exps", "x", "t"), 3, {"MUL_MAT_ID"}),
        ("x", ("blk.1.ffn_up_exps.bias", "a", "b"), 3, {"ADD_ID"}),
        ("ffn_moe_up_biased-1", ("a", "b", "c"), 3, {"ADD_ID"}),
        ("ffn_moe_argsort-1", ("p",), 1, {"ARGSORT"}),
        ("ffn_moe_weights-1", ("p", "t"), 2, {"GET_ROWS"}),
        ("l_out-1", ("a", "b"), 2, {"ADD"}),
        ("ffn_swiglu-1", ("a", "b"), 2, {"GLU"}),
        ("ffn_silu-1", ("a",), 1, {"UNARY", "SILU"}),
        ("ffn_up-1", ("blk.1.ffn_up.weigh", "x"), 2, {"MUL_MAT"}),
        ("node_5", ("blk.1.attn_output.w", "x"), 2, {"MUL_MAT"}),
        ("result_output", ("output.weight", "x"), 2, {"MUL_MAT"}),
        ("a (reshaped)", ("a",), 1, {"RESHAPE"}),
        ("a (permuted)", ("a",), 1, {"PERMUTE"}),
        ("a (transposed)", ("a",), 1, {"TRANSPOSE"}),
        ("a (cont)", ("a",), 1, {"CONT"}),
        (" (copy)", ("leaf_3", " (copy)"), 2, {"CPY"}),
        ("matmul_AB", (), None, {"MUL_MAT"}),
        ("final_result", (), None, set()),
        ("node_5", ("a", "b"), 2, set()),
        ("a (view)", ("a", "b"), 2, set()),
        ("x (co", ("a",), 1, set()),
        ("inp_embd", ("a",), 1, set()),
        ("norm-1", ("a", "b"), 2, set()),
        ("__fattn__-1", ("a",), 1, set()),
        ("ffn_swiglu-1", ("a", "b", "c"), 3, set()),
        ("matmul_AB", ("a",), 1, set()),
        ("ffn_moe_up_biased-1", ("a",), 1, set()),
        ("cache_k_l1", ("a",), 1, set()),
        ("cache_k_l1", ("a", "b", "c", "d"), 4, set()),
    ],
)
def test_names_show_the_expected_ops(
    dst: str, sources: tuple[str, ...], n: int | None, ops: set[str]
) -> None:
    assert expected_ops(dst, sources, n) == ops


def test_arity_is_known_for_every_op_of_the_main_lines() -> None:
    names = {name for t in tables() for name in t.names}

    assert names - set(ARITY) == {"CUSTOM"}
    assert set(ARITY) >= COMMON
    assert fits_arity("CUSTOM", 3)
    assert not fits_arity("RMS_NORM", 2)


@pytest.mark.parametrize(("name", "layout"), REAL)
def test_every_table_is_found_again_from_a_real_trace(name: str, layout: str) -> None:
    samples = real_samples(name, layout)

    for target in tables():
        written = under(target, samples)
        op_table = infer(written)
        assert wrong(op_table, target, written) == 0, target.id
        assert op_table.source == "inferred"
        assert op_table.margin is not None
        assert op_table.margin > ggml_ops.UNCERTAIN_MARGIN


@pytest.mark.parametrize(("name", "layout"), REAL)
def test_real_trace_gives_its_writer_table(name: str, layout: str) -> None:
    assert infer(real_samples(name, layout)).id == WRITER


@pytest.mark.parametrize(("name", "layout"), REAL)
def test_table_is_found_without_names_of_results(name: str, layout: str) -> None:
    samples = [
        OpSample(s.code, "", s.sources, s.n_sources, s.count)
        for s in real_samples(name, layout)
    ]

    assert wrong(infer(samples), table(WRITER), samples) == 0


def test_ten_records_are_enough() -> None:
    samples = real_samples(*REAL[0])
    runs = [samples[i : i + 10] for i in range(0, len(samples) - 10, 10)]
    right = sum(wrong(infer(run), table(WRITER), run) == 0 for run in runs)

    assert right == len(runs)


def test_labels_of_the_real_ggmlviz_file_give_the_summer_of_2025() -> None:
    op_table = infer(
        [OpSample(27, "matmul_AB", count=20), OpSample(2, "final_result", count=20)]
    )

    assert op_table.name(27) == "MUL_MAT"
    assert op_table.name(2) == "ADD"
    assert op_table.id == "ggml-2025-06-30-86"


def test_nothing_gives_the_newest_table_without_margin() -> None:
    op_table = infer([])

    assert op_table.id == tables()[0].id
    assert op_table.margin == 0.0


def test_codes_that_all_tables_name_alike_are_certain() -> None:
    assert infer([OpSample(2, "l_out-1", ("a", "b"), 2)]).margin == ggml_ops.MAX_MARGIN


def test_code_beyond_a_table_speaks_against_it() -> None:
    old, new = table("ggml-2024-09-01-79"), table(WRITER)

    assert infer([OpSample(94, "", (), 2)], candidates=(old, new)).id == new.id


def test_ties_go_to_the_earlier_candidate() -> None:
    a, b = OpTable("a", ("NONE", "ADD")), OpTable("b", ("NONE", "ADD"))

    assert infer([OpSample(1)], candidates=(a, b)).id == "a"
    assert infer([OpSample(1)], candidates=(b, a)).id == "b"


@given(
    st.lists(
        st.builds(
            OpSample,
            st.integers(0, 300),
            st.sampled_from(["", "norm-1", "Qcur-2", "l_out-3", " (copy)", "x"]),
            st.just(()),
            st.one_of(st.none(), st.integers(0, 4)),
            st.integers(1, 100),
        ),
        max_size=8,
    )
)
@settings(max_examples=40, deadline=None)
def test_any_samples_give_a_table_with_a_margin(samples: list[OpSample]) -> None:
    op_table = infer(samples)

    assert op_table.margin is not None
    assert 0.0 <= op_table.margin <= ggml_ops.MAX_MARGIN
