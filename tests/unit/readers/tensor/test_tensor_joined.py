"""Records of one source each: those of one op are one span with several accesses."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ggscope.analysis.statistics.table import stat_table
from ggscope.model.tables import Quality, quality_of
from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.source import Source
from ggscope.readers.tensor.reader import TensorAccessReader
from support import need_corpus
from tensor_files import Rec, Src, encode, weight

SINGLE = ("64p", "64a", "128")
MUL_MAT, ADD, ROPE, ODD = 1, 2, 3, 9


def read(path: Path, **options: str) -> Trace:
    with Source(path) as source:
        return TensorAccessReader().read(source, ReadContext(options=options))


def read_records(
    tmp_path: Path, records: list[Rec], layout: str = "128", **options: str
) -> Trace:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(records, layout))
    return read(path, layout=layout, **options)


def records_of(time: int, op: int, *sources: Src, **values: int) -> list[Rec]:
    return [Rec(time, op=op, sources=(s,), **values) for s in sources]


def mul_mat(time: int, k: int = 0, **values: int) -> list[Rec]:
    w = weight(f"blk.{k}.attn_q.weight", k, 4096 * (k + 1))
    return records_of(time, MUL_MAT, w, Src(f"attn_norm-{k}"), **values)


def ops_of(trace: Trace) -> list[tuple[int, int, int, list[str]]]:
    """Return (start, op, record, tensors) of every op in the order of records."""
    assert trace.spans.record is not None
    items = []
    for i in np.flatnonzero(trace.spans.op >= 0).tolist():
        rows = trace.accesses.of_span(i).tensor
        names = [trace.strings[int(n)] for n in trace.tensors.name[rows]]
        span = trace.spans
        items.append((int(span.start[i]), int(span.op[i]), int(span.record[i]), names))
    return sorted(items, key=lambda row: row[2])


@pytest.mark.parametrize("layout", SINGLE)
def test_the_two_records_of_a_multiplication_are_one_op(
    tmp_path: Path, layout: str
) -> None:
    records = [r for k in range(6) for r in mul_mat(10**12 + 1000 * k, k % 3)]

    trace = read_records(tmp_path, records, layout)

    assert trace.check() == []
    assert trace.info.n_records == len(records)
    assert [row[:3] for row in ops_of(trace)] == [
        (1000 * k, MUL_MAT, 2 * k) for k in range(6)
    ]
    ids = np.flatnonzero(trace.spans.op >= 0)
    assert [len(trace.accesses.of_span(i)) for i in ids.tolist()] == [2] * 6
    known = quality_of(trace.spans.flags[ids]) == Quality.DERIVED
    lasted = (trace.spans.end - trace.spans.start)[ids]
    assert lasted[known].tolist() == [1000] * int(known.sum())
    (row,) = stat_table(trace, "op").rows
    assert (row.count, row.p50) == (6, 1000.0)


def test_an_op_is_called_by_its_first_source_and_has_the_layer_it_shows(
    tmp_path: Path,
) -> None:
    trace = read_records(tmp_path, mul_mat(10**12, 2))

    assert trace.span_name(0) == "blk.2.attn_q.weight"
    assert trace.spans.layer is not None
    assert int(trace.spans.layer[0]) == 2
    table = stat_table(trace, "tensor", include_estimated=True)
    assert [row.key for row in table.rows] == ["blk.2.attn_q.weight"]


def test_ops_with_one_stamp_are_cut_by_how_many_sources_they_take(
    tmp_path: Path,
) -> None:
    records = [*mul_mat(10**12, 0), *mul_mat(10**12, 1), *mul_mat(10**12 + 5, 2)]

    ops = ops_of(read_records(tmp_path, records))

    assert [row[3] for row in ops] == [
        [f"blk.{k}.attn_q.weight", f"attn_norm-{k}"] for k in range(3)
    ]


def test_records_that_do_not_come_out_even_stay_apart(tmp_path: Path) -> None:
    records = [*mul_mat(10**12, 0), *mul_mat(10**12, 1)[:1], *mul_mat(10**12 + 5, 2)]

    ops = ops_of(read_records(tmp_path, records))

    assert [len(row[3]) for row in ops] == [1, 1, 1, 2]


def test_ops_of_other_kinds_and_threads_are_not_joined(tmp_path: Path) -> None:
    at = 10**12
    a, b, c = Src("a"), Src("b"), Src("c")
    records = [
        *records_of(at, ROPE, a, b, c),
        *records_of(at, ADD, a, b),
        *records_of(at, ODD, a, b),
        *records_of(at, MUL_MAT, a, b, thread=7),
        *records_of(at, MUL_MAT, b, a, thread=8),
    ]

    ops = ops_of(read_records(tmp_path, records))

    assert sorted((row[1], row[3]) for row in ops) == [
        (MUL_MAT, ["a", "b"]), (MUL_MAT, ["b", "a"]), (ADD, ["a", "b"]),
        (ROPE, ["a", "b", "c"]), (ODD, ["a", "b"]),
    ]  # fmt: skip


steps = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 3)), max_size=40
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=steps, layout=st.sampled_from(SINGLE), n_threads=st.integers(1, 3))
def test_any_multiplications_are_reported_once_with_all_their_sources(
    tmp_path: Path, steps: list, layout: str, n_threads: int
) -> None:
    time, records, expected = 10**12, [], []
    for gap, k, thread in steps:
        time += gap
        made = mul_mat(time, k, thread=100 + thread % n_threads)
        expected.append((time, 100 + thread % n_threads, k))
        records += made
    if not records:
        return

    trace = read_records(tmp_path, records, layout)

    ids = np.flatnonzero(trace.spans.op >= 0)
    lanes = [lane.attributes.get("raw") for lane in trace.lanes]
    rows = [
        (
            int(trace.spans.start[i]) + trace.clock.origin,
            int(lanes[int(trace.spans.lane[i])] or 0),
            trace.accesses.of_span(i).address.tolist(),
        )
        for i in ids.tolist()
    ]
    requested = [
        (t, th, [r.sources[0].ptr for r in mul_mat(t, k)]) for t, th, k in expected
    ]
    assert sorted(rows) == sorted(requested)
    assert len(trace.accesses) == len(records)


def test_names_of_some_records_only_leave_the_ops_whole(tmp_path: Path) -> None:
    records = [r for k in range(9000) for r in mul_mat(10**12 + 10 * k, k % 5)]

    trace = read_records(tmp_path, records, names="sampled")

    assert int((trace.spans.op >= 0).sum()) == 9000
    sizes = trace.accesses.counts()[:9000]
    assert set(sizes.tolist()) == {0, 2}


def test_passes_begin_where_they_began(tmp_path: Path) -> None:
    records = [
        replace(r, token=t)
        for t in range(4)
        for k in range(5)
        for r in mul_mat(10**12 + 10**8 * t + 1000 * k, k)
    ]

    trace = read_records(tmp_path, records)

    assert trace.info.n_passes == 4
    lane = next(lane.id for lane in trace.lanes if lane.name == "tokens")
    start = trace.spans.start[trace.spans.lane == lane]
    assert start.tolist() == [10**8 * t for t in range(4)]


def test_real_pairs_share_their_stamp() -> None:
    trace = read(need_corpus() / "tracer" / "trace_128_71099aab.bin")

    (row,) = stat_table(trace, "op").rows

    assert (row.key, row.count, row.p50) == ("MUL_MAT", 105, 782_500.0)
    assert trace.info.n_records == len(trace.accesses) == 210
    by_tensor = stat_table(trace, "tensor").rows
    assert all(row.key.endswith(".weight") for row in by_tensor)
    assert sum(row.total for row in by_tensor) == row.total
