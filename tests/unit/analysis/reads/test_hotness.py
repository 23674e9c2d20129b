"""Hot and cold tensors against counts in plain Python."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ggscope.analysis.reads import hotness
from ggscope.analysis.reads.hotness import (
    Coverage,
    cold,
    coverage,
    gini,
    heat,
    ranking,
    space_totals,
    unit_heat,
)
from ggscope.model.tables import AccessKind, Space
from ggscope.model.units import TimeRange
from reads_builder import Op, Read, TensorRow, reads_trace

TENSORS = (
    TensorRow("token_embd.weight", 0, 1000),
    TensorRow("blk.0.ffn_up_exps.weight", 1000, 4000, 0, n_experts=4),
    TensorRow("blk.1.attn_q.weight", 5000, 500, 1),
    TensorRow("output.weight", 6000, 2000),
    TensorRow("Qcur-1", -1, 64, 1),
    TensorRow("cache_k_l1", -1, 256, 1),
)

one_read = st.builds(
    Read,
    tensor=st.integers(-1, 5),
    size=st.integers(-1, 4000),
    expert=st.integers(-1, 3),
    space=st.sampled_from([Space.FILE, Space.BUFFER]),
    kind=st.sampled_from(list(AccessKind)),
)
all_ops = st.lists(
    st.builds(
        Op,
        start=st.integers(0, 50),
        reads=st.lists(one_read, max_size=3).map(tuple),
        token=st.integers(-1, 4),
    ),
    max_size=20,
)


def share_at(curve: Coverage, n_bytes: int, *, of_bytes: bool = False) -> float:
    """Return the share of accesses that the first `n_bytes` of a file serve, 0..1."""
    total = curve.bytes if of_bytes else curve.accesses
    return float(np.interp(n_bytes, curve.size, total) / total[-1])


@pytest.mark.parametrize(
    ("most_dense", "at_once"), [(1 << 26, 1 << 16), (0, 1), (40, 3)]
)
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(ops=all_ops)
def test_heat_equals_a_count_of_every_access(most_dense, at_once, monkeypatch, ops):
    monkeypatch.setattr(hotness, "_MAX_DENSE", most_dense)
    monkeypatch.setattr(hotness, "LOCKED_ROWS", at_once)
    trace = reads_trace(TENSORS, ops)

    result = heat(trace)

    count, read, written = Counter(), Counter(), Counter()
    tokens: dict[int, set[int]] = {}
    for op in ops:
        for r in op.reads:
            count[r.tensor] += 1
            into = written if r.kind == AccessKind.WRITE else read
            # An access that names its expert reads no more than that one's slice.
            value = 1000 if r.tensor == 1 and r.expert >= 0 else 4000
            into[r.tensor] += min(max(r.size, 0), value)
            if op.token >= 0:
                tokens.setdefault(r.tensor, set()).add(op.token)
    for t in range(len(TENSORS)):
        assert result.accesses[t] == count[t]
        assert result.bytes_read[t] == read[t]
        assert result.bytes_written[t] == written[t]
        assert result.tokens[t] == len(tokens.get(t, ()))
        starts = [op.start for op in ops if any(r.tensor == t for r in op.reads)]
        assert result.first[t] == min(starts, default=-1)
        assert result.last[t] == max(starts, default=-1)
    assert result.n_unknown == count[-1]
    with_access = {op.token for op in ops if op.reads and op.token >= 0}
    assert result.n_tokens == len(with_access)


@settings(max_examples=40, deadline=None)
@given(all_ops)
def test_units_alone_are_as_hot_as_with_the_tensors(ops):
    trace = reads_trace(TENSORS, ops)

    alone, whole = unit_heat(trace), heat(trace)

    for name in ("accesses", "bytes", "maybe", "unrecorded", "cut"):
        column = f"unit_{name}"
        assert getattr(alone, column).tolist() == getattr(whole, column).tolist()
    assert alone.n_lost == whole.n_lost
    assert cold(alone) == cold(whole)


def test_a_damaged_token_number_is_one_token_more() -> None:
    """Counted in a table of all numbers up to it, it asked for 16 GB."""
    ops = [Op(k, (Read(0, 10),), token=t) for k, t in enumerate((0, 2**31 - 1, 1))]

    result = heat(reads_trace(TENSORS, ops))

    assert result.n_tokens == 3
    assert result.tokens.tolist() == [3, 0, 0, 0, 0, 0]


@settings(max_examples=40, deadline=None)
@given(all_ops, st.integers(0, 50), st.integers(0, 50))
def test_heat_of_a_range_is_that_of_the_ops_in_it(ops, a, b):
    low, high = sorted((a, b))
    whole = reads_trace(TENSORS, ops)
    inside = [op for op in ops if low <= op.start < high]

    result = heat(whole, time=TimeRange(low, high))

    expected = heat(reads_trace(TENSORS, inside))
    assert result.accesses.tolist() == expected.accesses.tolist()
    assert result.unit_bytes.tolist() == expected.unit_bytes.tolist()


def test_cold_counts_slices_that_are_never_touched():
    ops = [Op(0, (Read(1, 1000, expert=2), Read(2, 500))), Op(5, (Read(0, 1000),))]

    untouched_bytes = cold(heat(reads_trace(TENSORS, ops)))

    assert (untouched_bytes.n_units, untouched_bytes.n_cold) == (7, 4)
    assert (untouched_bytes.size, untouched_bytes.cold_size) == (7500, 3000 + 2000)
    assert untouched_bytes.share == pytest.approx(5000 / 7500)
    assert untouched_bytes.is_known


def test_cold_without_a_map_is_not_known():
    trace = reads_trace((TensorRow("a", -1, 10),), [Op(0, (Read(0, 10, offset=100),))])

    assert not cold(heat(trace)).is_known


def test_ranking_orders_by_bytes_and_keeps_sums():
    ops = [Op(i, (Read(1, 4000), Read(3, 2000))) for i in range(3)]
    ops.append(Op(9, (Read(2, 500), Read(4, 64, space=Space.BUFFER))))
    trace = reads_trace(TENSORS, ops)
    result = heat(trace)

    by_tensor = ranking(trace, result)
    by_expert = ranking(trace, result, "expert")
    by_layer = ranking(trace, result, "layer")
    everything = ranking(trace, result, only_file=False)

    assert by_tensor.keys[:3] == (
        "blk.0.ffn_up_exps.weight",
        "output.weight",
        "blk.1.attn_q.weight",
    )
    assert by_tensor.bytes[:4].tolist() == [12000, 6000, 500, 0]
    assert by_tensor.keys[3] == "token_embd.weight"
    # By expert only experts are listed; all else is one row, the last.
    assert by_expert.keys[0] == "blk.0.ffn_up_exps.weight[0]"
    assert by_expert.expert[0] == 0
    assert by_expert.keys[-1] == "no expert"
    assert all("_exps" in key for key in by_expert.keys[:-1])
    assert by_expert.bytes.sum() == by_tensor.bytes.sum()
    assert by_expert.size.sum() == by_tensor.size.sum()
    assert (by_expert.tensor[-1], by_expert.expert[-1]) == (-1, -1)
    units = ranking(trace, result, "expert", lists_rest=True)
    assert "output.weight" in units.keys
    assert by_layer.keys == ("layer 0", "no layer", "layer 1")
    assert by_layer.size.tolist() == [4000, 3000, 500]
    assert everything.keys[-2] == "Qcur-1"
    assert everything.tensor[-2] == 4


def test_ranking_by_accesses_may_differ_from_bytes():
    ops = [Op(i, (Read(2, 500),)) for i in range(5)] + [Op(7, (Read(3, 20_000),))]
    trace = reads_trace(TENSORS, ops)

    by_bytes = ranking(trace, heat(trace))
    by_count = ranking(trace, heat(trace), measure="accesses")

    assert by_bytes.keys[0] == "output.weight"
    assert by_count.keys[0] == "blk.1.attn_q.weight"
    assert ranking(trace, heat(trace), "component").keys[0] == "output"


def test_coverage_by_place_equals_a_running_sum():
    ops = [Op(0, (Read(0, 1000),)), Op(1, (Read(2, 500),)), Op(2, (Read(3, 2000),))]
    trace = reads_trace(TENSORS, ops)

    result = coverage(heat(trace), by_place=True)

    assert result.size[-1] == 7500
    assert share_at(result, 1000) == pytest.approx(1 / 3)
    assert share_at(result, 500) == pytest.approx(1 / 6)
    assert share_at(result, 5500) == pytest.approx(2 / 3)
    assert share_at(result, 7500, of_bytes=True) == 1.0


def test_coverage_by_heat_names_the_smallest_part_of_the_file():
    ops = [Op(i, (Read(2, 500),)) for i in range(8)] + [
        Op(20 + i, (Read(3, 2000),)) for i in range(2)
    ]
    trace = reads_trace(TENSORS, ops)

    result = coverage(heat(trace), of_bytes=False)

    assert result.size_for(0.8) == 500
    assert result.size_for(1.0) == 2500
    assert coverage(heat(reads_trace(TENSORS, []))).size_for(0.8) == 0


def test_coverage_of_even_reads_is_the_share_itself():
    wholes = ((0, 1000), (2, 500), (3, 2000))
    trace = reads_trace(TENSORS, [Op(i, (Read(i, n),)) for i, n in wholes])

    result = coverage(heat(trace))

    assert result.bytes[-1] == 3500
    assert result.size_for(0.8, of_bytes=True) == 2800
    assert share_at(result, result.size_for(0.8, of_bytes=True), of_bytes=True) == (
        pytest.approx(0.8, abs=1e-3)
    )


def test_coverage_is_ranked_by_what_it_measures():
    # Ten small reads of a large tensor, one whole read of a small one.
    ops = [Op(i, (Read(3, 1),)) for i in range(10)] + [Op(20, (Read(2, 500),))]
    result = heat(reads_trace(TENSORS, ops))

    by_bytes, by_accesses = coverage(result), coverage(result, of_bytes=False)

    assert by_bytes.size_for(0.8, of_bytes=True) <= 500
    for share in (0.1, 0.5, 0.8, 1.0):
        size = by_accesses.size_for(share)
        assert share_at(by_accesses, size) >= share_at(by_bytes, size) - 1e-9


def test_gini_is_zero_where_even_and_high_where_one_takes_all():
    size = np.full(100, 10)

    assert gini(np.full(100, 7), size) == pytest.approx(0.0)
    assert gini(np.array([5] + [0] * 99), size) == pytest.approx(0.99)
    assert gini(np.zeros(100), size) == 0.0


def test_space_totals_distinguish_weights_cache_and_intermediates():
    ops = [
        Op(0, (Read(2, 500), Read(4, 64, space=Space.BUFFER))),
        Op(5, (Read(5, 256, space=Space.BUFFER), Read(4, 64, space=Space.BUFFER))),
    ]

    totals = space_totals(reads_trace(TENSORS, ops))

    assert totals.accesses == {
        "weights": 1, "kv cache": 1, "intermediates": 2, "unknown": 0,
    }  # fmt: skip
    assert totals.bytes["kv cache"] == 256
    assert totals.ratio == 3.0
    assert space_totals(reads_trace(TENSORS, [])).ratio is None
