"""Records show by themselves that they cannot hold every read."""

from pathlib import Path

import pytest

from ggscope.analysis.completeness.coverage import Cause, trace_coverage
from ggscope.analysis.reads.hot_cold import hot_cold
from ggscope.analysis.reads.hotness import UntouchedBytes, cold, heat
from ggscope.analysis.reads.record_limits import uncomputed_results
from ggscope.analysis.reads.what_if import what_if
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_parts
from tensor_files import Rec, Src, encode, one_source_each, weight

RMS_NORM, MUL, MUL_MAT, ROPE, ADD, FATTN = 25, 7, 29, 48, 2, 73
SIZE = 2048
MODEL = ("attn_norm.weight", "attn_q.weight", "attn_output.weight", "attn_sinks.weight")
PLACES = {f"blk.0.{name}": 4096 * (i + 1) for i, name in enumerate(MODEL)}


def w(name: str) -> Src:
    return weight(f"blk.0.{name}", 0, PLACES[f"blk.0.{name}"])


def layer(*, has_muls: bool = True, q: str = "Qcur", mask: bool = True) -> list[Rec]:
    """Return the ops of a layer; without products where `has_muls` is False."""
    sources = [Src(f"{q}-0 (view)"), Src("cache_k_l0 (view)"), Src("cache_v_l0 (view)")]
    rows = [
        ("norm-0", RMS_NORM, (Src("inp_embd"),)),
        ("attn_norm-0", MUL, (Src("norm-0"), w("attn_norm.weight"))),
        ("Qcur-0", MUL_MAT, (w("attn_q.weight"), Src("attn_norm-0"))),
        ("Qcur-0", ROPE, (Src("Qcur-0 (reshaped)"), Src("leaf_4"))),
        ("__fattn__-0", FATTN, (*sources, *([Src(" (copy)")] if mask else []))),
        ("attn_out-0", MUL_MAT, (w("attn_output.weight"), Src("kqv_out-0"))),
        ("l_out-0", ADD, (Src("attn_out-0"), Src("inp_embd"))),
    ]
    return [
        Rec(1000 + 100 * i, name, op, sources, layer=0)
        for i, (name, op, sources) in enumerate(rows)
        if has_muls or op != MUL_MAT
    ]


def read(
    folder: Path, records: list[Rec], layout: str = "256", *, dim1: int = 1
) -> Trace:
    head = "tensor_name,file_offset,size_bytes,layer_id,component_type,n_dims,dim0,dim1"
    rows = [f"{name},{at},{SIZE},0,x,2,8,{dim1}" for name, at in PLACES.items()]
    (folder / "map.csv").write_text("\n".join([head, *rows]) + "\n")
    (folder / "trace.bin").write_bytes(encode(records, layout))
    return open_parts(survey([folder / "trace.bin", folder / "map.csv"])).trace


def cold_of(trace: Trace) -> UntouchedBytes:
    return cold(heat(trace), trace_coverage(trace))


def causes(trace: Trace) -> list[Cause]:
    return [omission.cause for omission in trace_coverage(trace).omissions]


def test_trace_that_computes_all_that_it_reads_knows_what_it_never_touches(tmp_path):
    trace = read(tmp_path, layer(mask=False))

    assert uncomputed_results(trace) == ()
    assert causes(trace) == []
    cold = cold_of(trace)
    assert (cold.is_known, cold.n_cold, cold.n_cut) == (True, 1, 0)


def test_result_that_no_record_computes_hides_reads(tmp_path):
    trace = read(tmp_path, layer(has_muls=False, mask=False))

    assert uncomputed_results(trace) == ("attn_out", "Qcur")
    assert causes(trace)[0] is Cause.OPS_NOT_SEEN
    cold = cold_of(trace)
    assert (cold.is_known, cold.n_cold) == (False, 3)
    assert not what_if(trace).has_all


@pytest.mark.parametrize("fused", ["wqkv-0", "bqkv-0"])
def test_views_of_a_product_of_several_weights_are_no_results(tmp_path, fused):
    records = layer(mask=False)
    product = records[2]
    records[2] = Rec(product.time, fused, MUL_MAT, product.sources, layer=0)

    assert uncomputed_results(read(tmp_path, records)) == ()


def test_source_beyond_those_of_a_record_may_have_read_a_vector_of_its_layer(tmp_path):
    vectors = read(tmp_path, layer())
    matrices = read(tmp_path, layer(), dim1=8)

    cold = cold_of(vectors)
    assert (cold.n_cold, cold.n_cut, cold.cut_size) == (0, 1, SIZE)
    assert causes(vectors) == [Cause.SOURCES_CUT]
    cold = cold_of(matrices)
    assert (cold.is_known, cold.n_cold, cold.n_cut) == (True, 1, 0)


def test_short_records_are_of_one_op_only(tmp_path):
    products = [r for r in layer() if r.op == MUL_MAT]
    trace = read(tmp_path, one_source_each(products), "128")

    assert trace_coverage(trace).of(Cause.OPS_NOT_RECORDED)[0].detail == "MUL_MAT"
    assert not cold_of(trace).is_known


def test_access_that_may_be_to_any_tensor_leaves_none_untouched(tmp_path):
    records = layer(mask=False)
    none = (1 << 64) - 1
    cut, whole, blank = (
        [*records, Rec(5000, "x-0", ADD, (Src(name, mem=0, where=none),), layer=0)]
        for name in ("blk.0.attn_output.w", "blk.7.idle.weight", "")
    )

    assert not trace_coverage(read(tmp_path, whole)).of(Cause.ACCESSES_UNPLACED)
    (result,) = trace_coverage(read(tmp_path, blank)).of(Cause.ACCESSES_UNPLACED)
    assert result.count == 1
    assert not cold_of(read(tmp_path, blank)).is_known
    # One tensor alone goes on like this: so it is that.
    assert cold_of(read(tmp_path, cut)).is_known


def test_figures_of_a_range_are_all_of_that_range(tmp_path):
    trace = read(tmp_path, layer(mask=False))

    cold = hot_cold(trace, TimeRange(0, 200))

    assert cold.totals.accesses["weights"] == 1
    assert cold.totals.accesses["intermediates"] == 2
    assert (cold.cold.n_cold, cold.cold.is_known) == (3, True)
    assert cold.coverage.of(Cause.PART_SHOWN)[0].detail == "0 ns – 200 ns"
