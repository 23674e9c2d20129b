"""Float operations and bytes of the roofline, against plain loops."""

from dataclasses import replace

import numpy as np
import pytest

import builders
from ggscope.analysis.reads import shared
from ggscope.analysis.roofline import (
    Reason,
    Roofline,
    RooflinePoint,
    Roofs,
    operand_shapes,
    roofline,
    roofs_of,
)
from ggscope.analysis.summary import machine
from ggscope.analysis.summary.machine import MachinePeak, machine_of
from ggscope.descriptions.roofline import (
    ABOVE,
    count_text,
    left_out_lines,
    point_lines,
    roof_share,
    trace_roofs,
    why_no_points,
)
from ggscope.model.tensors import ModelFile
from ggscope.model.trace import Trace
from ggscope.model.units import Clock
from ggscope.readers.registry import open_trace
from ggscope.session_loading import named_bundle, open_bundle
from oracles.roofline import multiply_adds, points
from reads_builder import Op, Read, reads_trace
from roofline_traces import (
    EXPERTS,
    STACK,
    TABLE,
    VECTORS,
    matmul,
    random_roofline,
    weights,
    with_types,
)
from support import ROOT


def as_table(roofline: Roofline) -> dict[object, tuple[int, int, int, int]]:
    return {
        (p.op, p.type, p.shape, p.columns): (p.n_ops, p.flops, p.bytes, p.ticks)
        for p in roofline.points
    }


def reasons(roofline: Roofline) -> dict[tuple[str, Reason], int]:
    return {(x.op, x.reason): x.n_ops for x in roofline.left_out}


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_points_are_those_of_plain_loops(seed: int, threads: int) -> None:
    trace = random_roofline(seed, threads=threads)

    result = roofline(trace)

    assert as_table(result) == points(trace)
    assert result.points
    assert [p.ticks for p in result.points] == sorted(
        (p.ticks for p in result.points), reverse=True
    )
    n_ops = sum(p.n_ops for p in result.points) + sum(x.n_ops for x in result.left_out)
    assert n_ops == len(trace.spans) // threads


def test_spans_of_a_point_are_those_of_its_ops_on_all_threads() -> None:
    trace = random_roofline(7, threads=3)
    result = roofline(trace)

    seen = [result.spans_of(i) for i in range(len(result.points))]

    for point, ids in zip(result.points, seen, strict=True):
        assert len(ids) == 3 * point.n_ops
    assert len(np.unique(np.concatenate(seen))) == sum(map(len, seen))


def test_every_op_that_is_left_out_has_a_reason() -> None:
    ops = [
        Op(0, (Read(VECTORS, 32),), "ADD"),
        Op(100, (Read(VECTORS, 32),), "VIEW"),
        Op(200),
        Op(300, (Read(6, 96, 9000), Read(VECTORS, 32))),
        Op(400, (Read(0, 96, 0), Read(VECTORS, 33))),
        Op(500, (Read(VECTORS, 96), Read(VECTORS, 32))),
        matmul(600, 0, 2),
    ]

    result = roofline(with_types(reads_trace(weights(), ops)))

    assert reasons(result) == {
        ("ADD", Reason.NO_FORMULA): 1,
        ("VIEW", Reason.NO_ARITHMETIC): 1,
        ("MUL_MAT", Reason.NO_READS): 1,
        ("MUL_MAT", Reason.NO_SHAPE): 2,  # what is no weight has none either
        ("MUL_MAT", Reason.NO_FIT): 1,
    }
    (point,) = result.points
    assert (point.flops, point.bytes, point.ticks) == (192, 96 + 64, 10)
    assert point.is_f32_assumed
    assert point.intensity == 1.2
    trace = with_types(reads_trace(weights(), ops))
    assert len(left_out_lines(trace, result, limit=2)) == 3


def experts_trace(columns: int, chosen: dict[tuple[int, int], list[int]]) -> Trace:
    size = 2 * 8 * 6 * EXPERTS
    reads = (Read(STACK, size, 6000), Read(VECTORS, 4 * 8 * columns), Read(VECTORS, 8))
    ops = [Op(0, reads, "MUL_MAT_ID")]
    return with_types(reads_trace(weights(), ops, chosen))


def test_experts_that_are_used_count_and_unknown_ones_leave_the_op_out() -> None:
    (point,) = roofline(experts_trace(1, {(0, 0): [1, 3]})).points

    assert (point.experts, point.columns, point.shape) == (2, 1, (8, 6))
    assert point.flops == 2 * multiply_adds(8, 6, 1)
    # Two of four experts of 96 bytes, a vector, and the list of the chosen ones.
    assert point.bytes == 2 * 96 + 32 + 8
    unknown = roofline(experts_trace(1, {}))
    assert unknown.points == ()
    assert set(reasons(unknown)) == {("MUL_MAT_ID", Reason.NO_EXPERTS)}
    several = roofline(experts_trace(3, {(0, 0): [1, 3]}))  # tokens are not known
    assert set(reasons(several)) == {("MUL_MAT_ID", Reason.NO_EXPERTS)}


def test_experts_that_the_model_states_must_fit_the_vectors() -> None:
    trace = experts_trace(2, {(0, 0): [1, 3]})
    model = ModelFile("m.gguf", metadata={"n_experts_used": "2"})

    result = roofline(replace(trace, models=(model,)))

    assert set(reasons(result)) == {("MUL_MAT_ID", Reason.NO_EXPERTS)}
    one = experts_trace(1, {(0, 0): [1, 3]})
    (point,) = roofline(replace(one, models=(model,))).points
    assert point.experts == 2


def test_row_lookup_is_no_multiplication() -> None:
    ops = [Op(0, (Read(TABLE, 160, 5000), Read(VECTORS, 4)), "GET_ROWS")]

    result = roofline(with_types(reads_trace(weights(), ops)))

    assert reasons(result) == {("GET_ROWS", Reason.NO_ARITHMETIC): 1}


def test_experiment_has_shapes_of_its_model_and_types_of_its_graphs() -> None:
    folder = ROOT / "resources" / "samples" / "moe-experiment"
    trace = open_bundle(named_bundle(folder, []), required=folder)
    shapes, _ = operand_shapes(trace)

    result = roofline(trace)

    by_op = {op: [p for p in result.points if p.op == op] for op in
             ("MUL_MAT", "MUL_MAT_ID")}  # fmt: skip
    assert all(by_op.values())
    assert not any(p.is_f32_assumed for p in result.points)  # the graphs show
    for i, point in enumerate(result.points):
        names = {trace.span_name(int(s)) for s in result.spans_of(i)}
        assert len(names) > 0
        per_op = multiply_adds(*point.shape, point.columns) * max(point.experts, 1)
        assert point.flops == per_op * point.n_ops
        assert list(point.shape) in shapes[:, :2].tolist()
    down = [p for p in by_op["MUL_MAT_ID"] if p.shape == (96, 64)]
    assert [(p.experts, p.columns) for p in down] == [(2, 1)]
    alone = open_trace(folder / "trace-1024.bin")
    assert {r for _, r in reasons(roofline(alone))} >= {Reason.NO_SHAPE}


@pytest.mark.parametrize(
    "trace",
    [
        builders.empty_trace(),
        builders.llama_like_trace(),
        builders.npu_like_trace(),
        builders.random_trace(3, 60),
    ],
    ids=["empty", "llama", "npu", "random"],
)
def test_traces_without_shapes_have_no_points_and_say_why(trace: Trace) -> None:
    result = roofline(trace)

    assert result.points == ()
    assert why_no_points(result).endswith(".")


def test_too_long_a_trace_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "_MAX_SORTED", 3)
    trace = random_roofline(3, threads=2)
    spans = trace.spans
    order = np.argsort(spans.start, kind="stable")  # threads are not in step any more
    mixed = replace(
        trace,
        spans=spans.take(order),
        accesses=replace(trace.accesses, pattern=trace.accesses.pattern[order]),
    )

    result = roofline(mixed)

    assert (result.is_too_long, result.points) == (True, ())


# -- roofs ---------------------------------------------------------------------------

PEAK = MachinePeak("host", "AMD EPYC", 2, 16e9, 64e9, 1.0)
POINT = RooflinePoint("MUL_MAT", 1, (8, 6), 2, 0, 1, 192, 96, 32, True)


def of_cpu(trace: Trace, backends: str) -> Trace:
    return replace(trace, info=replace(trace.info, producer={"backends": backends}))


def test_roofs_are_those_of_the_same_processor_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = random_roofline(1)
    monkeypatch.setattr(machine, "stored", lambda *_: PEAK)
    same = of_cpu(trace, "CPU (AMD EPYC): 3 graphs")

    assert machine_of(same) == PEAK
    roofs = trace_roofs(same).roofs
    assert roofs == Roofs(16.0, 64.0, 2, "AMD EPYC")
    for other in (trace, of_cpu(trace, "CPU (Cortex): 3 graphs")):
        assert machine_of(other) is None
        assert trace_roofs(other).roofs is None
        assert trace_roofs(other).reason
    cycles = replace(same, clock=Clock("cycle"))
    assert trace_roofs(cycles).roofs is None
    monkeypatch.setattr(machine, "stored", lambda *_: None)
    assert "ggscope machine" in trace_roofs(same).reason
    assert roofs_of(same, None) is None


def test_share_is_of_the_roof_over_the_point() -> None:
    roofs = Roofs(16.0, 64.0, 2, "x")
    fast = replace(POINT, ticks=1)

    assert (roofs.ridge, roofs.attainable(2), roofs.attainable(9)) == (4.0, 32.0, 64.0)
    assert roof_share(POINT, roofs) == 6 / 32
    trace = random_roofline(1)
    plain, above = (point_lines(trace, p, roofs) for p in (POINT, fast))
    assert "18.8 % of the memory roof" in plain
    assert ABOVE in above
    assert ABOVE not in plain
    assert len(point_lines(trace, POINT, None)) < len(plain)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 FLOP"), (999, "999 FLOP"), (1.5e3, "1.5 kFLOP"), (1.025e10, "10.25 GFLOP"),
     (3e18, "3000 PFLOP")],
)  # fmt: skip
def test_counts_have_decimal_prefixes(value: float, text: str) -> None:
    assert count_text(value, "FLOP") == text
