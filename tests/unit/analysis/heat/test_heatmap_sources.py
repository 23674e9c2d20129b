"""Where rows, experts and accesses of the heatmap come from, in rarer traces."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from builders import finished
from ggscope.analysis.heat.heatmap import HeatBase, heat_base
from ggscope.analysis.heat.rows import HeatAxis, RowKind, interval_of
from ggscope.model.builder import TraceBuilder
from ggscope.model.routing import Routing
from ggscope.model.tables import AccessColumns, FlatAccesses, Space
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import TimeRange
from heat_traces import (
    N_EXPERTS,
    SLICE,
    make_accesses,
    make_tensors,
    moe_trace,
    recorded_bytes,
)

STACK = [("blk.0.ffn_up_exps.weight", 100, 80, 0, -1, 4), ("x", -1, 4, -1, -1, 0)]


def flat_accesses(
    what: AccessColumns, time: list[int], token: list[int]
) -> FlatAccesses:
    n = len(time)
    return FlatAccesses(
        np.array(time, np.int64), np.zeros(n, np.int32), np.full(n, -1, np.int64),
        np.array(token, np.int32), what,
    )  # fmt: skip


def with_loose() -> Trace:
    """Return two spans and three loose accesses: two of the file, one of DRAM."""
    builder = TraceBuilder()
    make_tensors(builder, [("w", 10, 20, 3, -1, 0)])
    lane = builder.add_lane("thread 0", LaneKind.THREAD, ("Threads",))
    passes = builder.add_lane("tokens", LaneKind.TOKEN, ("Tokens",))
    builder.add_spans(
        start=np.array([10, 30]), end=np.array([20, 40]), lane=lane,
        name=builder.strings.intern("op"), token=np.array([0, 1], np.int32),
    )  # fmt: skip
    builder.add_spans(
        start=np.array([10, 30]), end=np.array([30, 50]), lane=passes,
        name=builder.strings.intern("token"), token=np.array([0, 1], np.int32),
    )  # fmt: skip
    pattern = np.array([0, 0, -1, -1])
    accesses = make_accesses([[(0, Space.FILE, 10, 20)]], pattern)
    rows = [(0, Space.FILE, 12, 4), (0, Space.FILE, 10, 20), (-1, Space.DRAM, 9, 64)]
    what = make_accesses([rows], np.zeros(0)).patterns
    loose = flat_accesses(what, [12, 35, 41], [0, 7, 1])
    builder.accesses = replace(accesses, loose=loose)
    return finished(builder)


def rows_of(base: HeatBase) -> list[int]:
    """Return the bytes of each row."""
    edges = np.array([0, base.files.extent], np.int64)
    return base.grid(np.arange(len(base.rows) + 1)).cells(edges).ravel().tolist()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("token", [24, 20, 20]), ("pass", [24, 40]), ("layer", [64])],
)
def test_loose_accesses_count_in_their_own_rows(kind: str, expected: list[int]) -> None:
    base = heat_base(with_loose(), kind)  # type: ignore[arg-type]  # a kind of row

    assert rows_of(base) == expected
    assert (base.totals.n_other, base.totals.other_bytes) == (1, 64)


def test_loose_accesses_outside_the_time_are_left_out() -> None:
    base = heat_base(with_loose(), "time", time=TimeRange(0, 20))

    assert sum(rows_of(base)) == 20 + 4
    assert base.totals.n_other == 0


def test_loose_accesses_have_no_span_that_a_filter_could_pass() -> None:
    trace = with_loose()

    base = heat_base(trace, "token", mask=np.ones(len(trace.spans), np.bool_))

    assert sum(rows_of(base)) == 40


def stack_trace(
    expert: int = -1, *, token: bool = True, routing: Routing | None = None
) -> Trace:
    """Return one span per token 5 and 9 that reads a stack of four experts."""
    builder = TraceBuilder()
    make_tensors(builder, STACK)
    lane = builder.add_lane("thread 0", LaneKind.THREAD, ("Threads",))
    column = {"token": np.array([5, 9], np.int32)} if token else {}
    builder.add_spans(
        start=np.array([0, 10]), end=np.array([5, 15]), lane=lane,
        name=builder.strings.intern("op"), **column,
    )  # fmt: skip
    made = make_accesses([[(0, Space.FILE, 100, 80)]], np.zeros(2))
    what = replace(made.patterns, expert=np.array([expert], np.int16))
    builder.accesses = replace(made, patterns=what)
    if routing is not None:
        builder.routing = routing
    return finished(builder)


def routing_of(token: list[int], expert: list[int]) -> Routing:
    n = len(token)
    return Routing(
        time=np.full(n, -1, np.int64), span=np.full(n, -1, np.int64),
        token=np.array(token, np.int32), layer=np.zeros(n, np.int16),
        expert=np.array(expert, np.int16), rank=np.full(n, -1, np.int16),
        score=np.full(n, np.nan, np.float32), is_used=np.ones(n, np.bool_),
    )  # fmt: skip


def test_access_that_names_its_expert_lights_that_slice() -> None:
    base = heat_base(stack_trace(expert=2), "token")

    size, count = base.unit_sums()

    assert size.tolist() == [0, 0, 40, 0]
    assert count.tolist() == [0, 0, 2, 0]
    assert base.totals.passed_bytes == 2 * 60


def test_access_that_names_an_expert_that_does_not_exist_keeps_its_range() -> None:
    base = heat_base(stack_trace(expert=9), "token")

    assert base.unit_sums()[0].tolist() == [40, 40, 40, 40]


def test_choices_by_token_work_without_passes() -> None:
    trace = stack_trace(routing=routing_of([5, 5, 9], [0, 3, 1]))

    base = heat_base(trace, "token")

    begin = base.files.offset
    highlighted = base.grid(np.arange(3)).between(begin, begin + base.files.size)
    assert highlighted.tolist() == [[20, 0, 0, 20], [0, 20, 0, 0]]


def test_choice_of_an_expert_that_does_not_exist_loses_no_byte() -> None:
    base = heat_base(stack_trace(routing=routing_of([5], [8])), "token")

    totals = base.totals
    assert base.unit_sums()[0].tolist() == [20, 20, 20, 20]  # of token 9
    assert totals.passed_bytes == 80
    assert recorded_bytes(totals) == 160


@pytest.mark.parametrize("token", [[-1, -1], [77, 78]])
def test_choices_of_other_tokens_show_nothing(token: list[int]) -> None:
    base = heat_base(stack_trace(routing=routing_of(token, [1, 1])), "token")

    assert base.unit_sums()[0].tolist() == [40, 40, 40, 40]


def test_choices_without_tokens_on_spans_show_nothing() -> None:
    trace = stack_trace(token=False, routing=routing_of([5], [1]))

    base = heat_base(trace, "token")

    assert base.unit_sums()[0].tolist() == [40, 40, 40, 40]
    assert rows_of(base) == [160]  # the row of no token


def test_tokens_far_apart_are_distinguished() -> None:
    trace = stack_trace()
    far = replace(trace.spans, token=np.array([-1, 1 << 30], np.int32))
    far.token.flags.writeable = False  # type: ignore[union-attr]  # just given
    wide = replace(far, token=np.array([3, 1 << 30], np.int32))

    assert rows_of(heat_base(replace(trace, spans=far), "token")) == [80, 80]
    base = heat_base(replace(trace, spans=wide), "token")
    assert base.rows.first.tolist() == [3, 1 << 30]
    assert rows_of(base) == [80, 80]


@pytest.mark.parametrize("ascending", [True, False])
def test_interval_of_finds_the_last_start(ascending: bool) -> None:
    rng = np.random.default_rng(1)
    starts = np.unique(rng.integers(0, 100, 12))
    values = rng.integers(-5, 120, 200)
    values = np.sort(values) if ascending else values

    interval = interval_of(starts, values)

    expected = [sum(1 for s in starts if s <= v) - 1 for v in values]
    assert interval.tolist() == expected


def test_two_passes_of_one_token_are_two_rows_of_passes() -> None:
    trace = moe_trace(tokens=4, layers=1)
    same = replace(trace.spans, token=np.zeros(len(trace.spans), np.int32))

    base = heat_base(replace(trace, spans=same), "pass")

    assert len(base.rows) == 4
    assert len(heat_base(replace(trace, spans=same), "token").rows) == 1


@pytest.mark.parametrize("kind", get_args(RowKind))
def test_stack_of_eight_experts_is_eight_slices_in_every_kind(kind: str) -> None:
    base = heat_base(moe_trace(tokens=3, layers=1), kind)  # type: ignore[arg-type]  # one

    slices = base.files.expert >= 0
    size = base.unit_sums()[0][slices]
    assert len(size) == N_EXPERTS
    assert int(size.sum()) == 3 * 2 * SLICE


def test_grid_of_counts_has_no_bytes() -> None:
    base = heat_base(moe_trace(tokens=2, layers=1), "token")

    with pytest.raises(ValueError, match="counts accesses"):
        base.total_grid("count").bytes_before(np.array([0]))


def test_axis_without_a_file_has_one_position() -> None:
    base = heat_base(finished(TraceBuilder()), "token")
    axis = HeatAxis(base.files, "equal")

    assert (axis.extent, axis.unit_at(0), axis.unit_at(5)) == (1, -1, -1)
    assert axis.position(0) == axis.offset(0) == 0
