"""Bytes per time: of ops, not of threads, and only where all of both is known."""

from dataclasses import replace

import numpy as np
import pytest

from ggscope.analysis.reads import shared
from ggscope.analysis.reads.op_io import account_of
from ggscope.analysis.reads.shared import op_times, spans_of_op
from ggscope.analysis.statistics import scan
from ggscope.analysis.statistics.table import StatRow, stat_table
from ggscope.descriptions.spans import span_facts
from ggscope.model.selection import By
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.readers.registry import open_trace
from reads_builder import Op, Read, TensorRow, reads_trace
from support import ROOT

WEIGHTS = [TensorRow(f"blk.{i}.attn_q.weight", 8000 * i, 8000, i) for i in range(3)]


def shared_ops(n: int, threads: int, seed: int, *, in_step: bool = True) -> Trace:
    """Return ops that some threads compute together, each with a span per thread.

    Each thread begins a little later than the others, or not, and takes its time.
    """
    rng = np.random.default_rng(seed)
    ops: list[Op] = []
    at = 0
    for _ in range(n):
        weight = int(rng.integers(0, 3))
        late = rng.integers(0, 6, threads)
        present = [0, *(k for k in range(1, threads) if in_step or rng.random() < 0.7)]
        ops += [
            Op(at + int(late[k]), (Read(weight, 8000),), thread=k, repeated=k > 0)
            for k in present
        ]
        at += 100
    ops.sort(key=lambda op: (op.thread, op.start))
    trace = reads_trace(WEIGHTS, ops)
    end = trace.spans.end + rng.integers(0, 40, len(ops))
    return replace(
        trace,
        spans=replace(trace.spans, end=end),
        extent=replace(trace.extent, end=int(end.max())),
    )


def slowly(trace: Trace) -> list[int]:
    """Return how long each op takes by a look for its spans, one after the other."""
    array = np.full(len(trace.spans), -1, np.int64)
    for span in range(len(trace.spans)):
        if int(trace.spans.flags[span]) & SpanFlag.REPEATED:
            continue
        ids = spans_of_op(trace, span)
        assert ids is not None
        array[span] = trace.spans.end[ids].max() - trace.spans.start[ids].min()
    return array.tolist()


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize("in_step", [True, False])
def test_ops_take_from_the_first_begin_to_the_last_end(
    threads: int, in_step: bool
) -> None:
    trace = shared_ops(60, threads, threads, in_step=in_step)

    times = op_times(trace)

    assert times.is_known
    assert times.ticks is not None
    assert times.ticks.tolist() == slowly(trace)


def test_threads_in_step_are_the_same_by_their_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = shared_ops(50, 4, 1)
    quick = op_times(trace).ticks
    monkeypatch.setattr(shared, "lanes_in_step", lambda _: ())
    again = replace(trace)  # what is known of a trace is known of that one only

    assert quick is not None
    by_time = op_times(again).ticks
    assert by_time is not None
    assert by_time.tolist() == quick.tolist()
    assert slowly(again) == quick.tolist()


def test_op_of_one_thread_takes_as_long_as_its_span() -> None:
    trace = reads_trace(WEIGHTS, [Op(0, (Read(0, 8000),)), Op(50, (Read(1, 8000),))])

    assert op_times(trace).ticks is None
    (row,) = stat_table(trace, "op").rows
    assert row.rate == 16000 / 20


@pytest.mark.parametrize("by", ["op", "layer", "tensor", "token"])
@pytest.mark.parametrize("in_step", [True, False])
def test_rate_is_bytes_of_the_ops_by_the_time_of_the_ops(by: By, in_step: bool) -> None:
    trace = shared_ops(80, 3, 5, in_step=in_step)
    ticks = np.array(slowly(trace))
    layer = np.array([account_of(trace, i).what.tensor[0] for i in range(len(ticks))])

    rows = {row.key: row for row in stat_table(trace, by).rows}

    if by == "tensor":
        for i, weight in enumerate(WEIGHTS):
            mine = ticks[(layer == i) & (ticks >= 0)]
            assert rows[weight.name].rate == 8000 * len(mine) / mine.sum()
    else:
        (row,) = rows.values()
        own = ticks[ticks >= 0]
        assert row.rate == 8000 * len(own) / own.sum()


def in_two_contexts(seed: int) -> Trace:
    """Return two programs' ops side by side, each on two threads, begun anywhere."""
    rng = np.random.default_rng(seed)
    ops = []
    for context in (0, 1):
        at = 0
        for _ in range(40):
            at += int(rng.integers(15, 60))
            weight = int(rng.integers(0, 3))
            for k in (0, 1):
                begin = at + int(rng.integers(0, 5))
                thread = 2 * context + k
                read = (Read(weight, 8000),)
                ops.append(Op(begin, read, thread=thread, repeated=k > 0))
    ops.sort(key=lambda op: (op.thread, op.start))
    return reads_trace(WEIGHTS, ops)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("time", [None, TimeRange(300, 900)])
def test_ops_at_once_count_their_time_once(seed: int, time: TimeRange | None) -> None:
    trace = in_two_contexts(seed)
    spans, times = trace.spans, op_times(trace)
    assert times.ticks is not None
    assert times.begin is not None
    is_busy, n = np.zeros(4000, np.bool_), 0
    for span in np.flatnonzero(times.ticks >= 0).tolist():
        touches = time is None or (
            spans.start[span] < time.end and spans.end[span] > time.start
        )
        if touches:
            begin = int(times.begin[span])
            is_busy[begin : begin + int(times.ticks[span])] = True
            n += 1

    (row,) = stat_table(trace, "op", time=time).rows
    (few,) = stat_table(trace, "op", time=time, most_nested=3).rows

    assert row.op_ticks == is_busy.sum()
    assert row.rate == 8000 * n / is_busy.sum()
    assert few.rate is None


def test_ops_of_threads_that_share_none_count_their_time_once() -> None:
    ops = [Op(0, (Read(0, 8000),)), Op(5, (Read(1, 8000),), thread=1)]
    (row,) = stat_table(reads_trace(WEIGHTS, ops), "op").rows

    assert row.total == 20
    assert row.rate == 16000 / 15


def test_rate_of_one_op_is_the_same_in_details() -> None:
    trace = shared_ops(1, 3, 9)
    (row,) = stat_table(trace, "op").rows

    facts = {fact.label: fact for fact in span_facts(trace, 1)}

    assert row.rate == 8000 / op_times(trace).ticks.max()
    assert facts["rate"].exact.startswith("8,000 bytes in ")
    assert facts["rate"].exact.endswith(f"{row.op_ticks:03d}\u202fs")


def test_rate_needs_all_bytes() -> None:
    known = Op(0, (Read(0, 8000),))
    no_size = Op(50, (Read(1, 100), Read(0)))
    silent = Op(100, ())

    def row(*ops: Op) -> StatRow:
        (row,) = stat_table(reads_trace(WEIGHTS, ops), "op").rows
        return row

    assert row(known).rate == 800
    assert (row(known, no_size).rate, row(known, no_size).open_ops) == (None, 1)
    assert (row(known, silent).rate, row(known, silent).open_ops) == (None, 1)
    assert row(known, no_size).least_rate == 8100 / 20
    # Nothing is recorded of it: that is not 0.
    assert row(silent).known_bytes is None
    assert row(silent).least_rate is None


@pytest.mark.parametrize("is_scanned", [True, False])
def test_bytes_of_a_transfer_are_all_that_it_moves(
    monkeypatch: pytest.MonkeyPatch, *, is_scanned: bool
) -> None:
    trace = open_trace(ROOT / "resources" / "samples" / "npu-prefill-decode.json")
    if not is_scanned:
        monkeypatch.setattr(scan, "can_scan", lambda *_: False)

    rows = {row.key: row for row in stat_table(trace, "lane").rows}

    for key, row in rows.items():
        if row.known_bytes is not None:
            assert row.open_ops == 0, key
            assert row.rate == row.bytes / row.op_ticks
    assert any(row.rate is not None for row in rows.values())


def test_rate_is_of_the_ops_with_a_time() -> None:
    trace = reads_trace(WEIGHTS, [Op(0, (Read(0, 8000),)), Op(50, (Read(1, 8000),))])
    flags = np.array([0, int(SpanFlag.ESTIMATED)], np.uint16)
    trace = replace(trace, spans=replace(trace.spans, flags=flags))

    (row,) = stat_table(trace, "op").rows
    (every,) = stat_table(trace, "op", include_estimated=True).rows

    # Bytes without a time are in no rate.
    assert (row.bytes, row.op_bytes, row.rate) == (16000, 8000, 800)
    assert every.rate == 16000 / 20
    flags[:] = int(SpanFlag.ESTIMATED)
    trace = replace(trace, spans=replace(trace.spans, flags=flags))
    (none,) = stat_table(trace, "op").rows
    assert none.least_rate is None


def test_threads_that_share_ops_have_no_rate_of_their_own() -> None:
    trace = shared_ops(10, 2, 3)

    assert all(row.least_rate is None for row in stat_table(trace, "thread").rows)
    assert all(row.least_rate is None for row in stat_table(trace, "source").rows)


@pytest.mark.parametrize("by", ["core", "numa"])
@pytest.mark.parametrize("n_cores", [1, 2])
def test_cores_that_share_ops_have_no_bytes_of_their_own(by: By, n_cores: int) -> None:
    trace = shared_ops(10, 3, 3)
    core = (trace.spans.lane % n_cores).astype(np.int16)
    trace = replace(trace, spans=replace(trace.spans, **{by: core}))

    rows = stat_table(trace, by).rows

    assert {row.key: row.count for row in rows} == (
        {"0": 30} if n_cores == 1 else {"0": 20, "1": 10}
    )
    assert sum(row.ops for row in rows) == 10
    bytes_of_rows = {row.bytes for row in rows}
    assert bytes_of_rows == ({80_000} if n_cores == 1 else {-1})
    assert all((row.least_rate is None) == (n_cores > 1) for row in rows)


def test_range_and_filter_count_whole_ops() -> None:
    trace = shared_ops(20, 3, 11)
    ticks = np.array(slowly(trace))
    only_first = np.array(trace.spans.lane == 0)

    (of_thread,) = stat_table(trace, "op", mask=only_first).rows
    (whole,) = stat_table(trace, "op").rows

    # What the others take of the ops is in their time, whatever spans are shown.
    assert of_thread.rate == whole.rate == 8000 * 20 / ticks[ticks >= 0].sum()


@pytest.mark.parametrize("by", ["op", "layer", "token", "lane", "phase"])
@pytest.mark.parametrize("in_step", [True, False])
def test_compiled_scan_and_numpy_show_the_same_rate(by: By, in_step: bool) -> None:
    trace = shared_ops(40, 3, 21, in_step=in_step)
    scanned = stat_table(trace, by).rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "can_scan", lambda *_: False)
        sorted_ = stat_table(trace, by).rows

    def rate_columns(row: StatRow) -> tuple[object, ...]:
        return row.op_ticks, row.open_ops, row.op_bytes, row.rate, row.bytes

    assert list(map(rate_columns, scanned)) == list(map(rate_columns, sorted_))


def test_trace_that_is_too_long_has_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "_MAX_IN_STEP", 5)
    monkeypatch.setattr(shared, "_MAX_SORTED", 5)

    for in_step in (True, False):
        trace = shared_ops(10, 2, 3, in_step=in_step)
        assert not op_times(trace).is_known
        (row,) = stat_table(trace, "op").rows
        assert row.op_ticks is None
        assert row.least_rate is None
