"""What lies between two points, against plain loops over the spans."""

from dataclasses import replace

import numpy as np
import pytest

from builders import (
    empty_trace,
    llama_like_trace,
    npu_like_trace,
    random_trace,
    spans_trace,
)
from ggscope.analysis.reads import shared
from ggscope.analysis.reads.op_io import Knowledge, account_of
from ggscope.analysis.reads.shared import spans_of_op
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.ruler import RulerFacts, ruler_facts
from ggscope.analysis.summary.bars import token_bars
from ggscope.descriptions.ruler import ruler_lines, ruler_text
from ggscope.model.tables import Quality, SpanFlag, quality_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from reads_builder import Op, Read, TensorRow, reads_trace
from wait_traces import random_waits

WEIGHTS = [TensorRow(f"blk.{i}.attn_q.weight", 8000 * i, 8000, i) for i in range(3)]


def threads_trace(seed: int, *, in_step: bool) -> Trace:
    """Return ops of three threads, some of which end late."""
    rng = np.random.default_rng(seed)
    ops = [
        Op(
            100 * i + int(rng.integers(0, 6)),
            (Read(int(rng.integers(0, 3)), int(rng.integers(1, 9000))),),
            thread=k,
            repeated=k > 0,
        )
        for k in range(3)
        for i in range(40)
        if in_step or k == 0 or rng.random() < 0.7
    ]
    trace = reads_trace(WEIGHTS, ops)
    end = trace.spans.end + rng.integers(0, 80, len(ops))
    flags = trace.spans.flags.copy()
    flags[rng.random(len(ops)) < 0.05] |= np.uint8(SpanFlag.UNFINISHED)
    return replace(
        trace,
        spans=replace(trace.spans, end=end, flags=flags),
        extent=replace(trace.extent, end=int(end.max())),
    )


TRACES = {
    "threads in step": threads_trace(1, in_step=True),
    "threads": threads_trace(2, in_step=False),
    "llama": llama_like_trace(5, 3),
    "npu": npu_like_trace(),
    "random": random_trace(5, 300, 3, shuffled=True),
    "waits": random_waits(3, 300),
    "empty": empty_trace(),
}


def with_begins_only(trace: Trace) -> Trace:
    """Return a trace whose ends are the begins of the next records, if any."""
    is_open = quality_of(trace.spans.flags) == Quality.UNFINISHED
    flags = trace.spans.flags | np.where(is_open, 0, int(SpanFlag.INFERRED_END))
    return replace(
        trace, spans=replace(trace.spans, flags=flags.astype(trace.spans.flags.dtype))
    )


TRACES["begins only"] = with_begins_only(TRACES["threads"])


def latest_end(trace: Trace, span: int) -> float:
    """Return when a span has ended at the latest."""
    s = trace.spans
    if quality_of(s.flags[span : span + 1])[0] != Quality.UNFINISHED:
        return int(s.end[span])
    ops = [i for i in range(len(s)) if s.op[i] >= 0 and s.lane[i] == s.lane[span]]
    if not any(s.flags[i] & SpanFlag.INFERRED_END for i in ops):
        return float("inf")
    return min(
        (int(s.start[i]) for i in ops if s.start[i] > s.start[span]),
        default=float("inf"),
    )


def plainly(trace: Trace, time: TimeRange) -> tuple[int, int, int | None, bool]:
    """Return (whole ops, cut ops, their bytes, whether some are not known)."""
    whole = cut = total = 0
    n_open = 0
    spans = trace.spans
    for span in range(len(spans)):
        flags = int(spans.flags[span])
        if spans.op[span] < 0 or flags & SpanFlag.REPEATED:
            continue
        ids = spans_of_op(trace, span)
        assert ids is not None
        parts = [(int(spans.start[i]), latest_end(trace, i)) for i in ids.tolist()]
        inside = [a >= time.start and b <= time.end for a, b in parts]
        reaches = [a < time.end and b > time.start for a, b in parts]
        if all(inside):
            whole += 1
            table = account_of(trace, span)
            total += int(table.known.sum())
            unknown = table.is_access & (table.knowledge != Knowledge.KNOWN)
            n_open += bool(unknown.any() or not len(table.known))
        elif any(inside) or any(reaches):
            cut += 1
    known = total if total or n_open < whole or not whole else None
    return whole, cut, known, n_open > 0


@pytest.mark.parametrize("name", list(TRACES))
@pytest.mark.parametrize("seed", range(6))
def test_ops_and_bytes_are_those_of_a_plain_loop(name: str, seed: int) -> None:
    trace = TRACES[name]
    rng = np.random.default_rng(seed)
    extent = trace.extent
    low, high = sorted(rng.integers(extent.start - 5, extent.end + 5, 2).tolist())
    edges = np.concatenate([trace.spans.start, trace.spans.end])
    if seed % 2 and len(edges):  # as the ruler snaps
        low, high = sorted(rng.choice(edges, 2).tolist())
    time = TimeRange(low, high)

    facts = ruler_facts(trace, time)

    whole, cut, n_bytes, is_open = plainly(trace, time)
    assert (facts.n_ops, facts.n_cut_ops) == (whole, cut)
    if facts.recorded == "known":
        assert facts.bytes == n_bytes
        assert facts.is_least == (is_open or cut > 0)
    else:
        assert facts.bytes is None
    bars = token_bars(trace)
    rows = list(zip(bars.start.tolist(), bars.end.tolist(), strict=True))
    assert facts.n_bars == sum(a >= low and b <= high for a, b in rows)
    assert facts.n_cut_bars == sum(
        a < high and b > low and not (a >= low and b <= high) for a, b in rows
    )


def test_op_without_an_end_is_not_cut_behind_the_next_one() -> None:
    derived, unfinished = int(SpanFlag.INFERRED_END), int(SpanFlag.UNFINISHED)
    trace = spans_trace(
        [0, 10, 20, 100, 110], [10, 20, 20, 110, 110], op=1,
        flags=[derived, derived, unfinished, derived, unfinished],
    )  # fmt: skip

    def ops_in(low: int, high: int) -> tuple[int | None, int]:
        facts = ruler_facts(trace, TimeRange(low, high))
        return facts.n_ops, facts.n_cut_ops

    assert ops_in(100, 110) == (1, 0)
    assert ops_in(0, 60) == (2, 1)
    assert ops_in(0, 100) == (3, 0)
    assert ops_in(100, 900) == (1, 1)


def test_rate_is_bytes_over_the_length_of_the_ruler() -> None:
    ops = [Op(0, (Read(0, 8000, 0),)), Op(90, (Read(1, 4000, 8000),))]
    trace = reads_trace(WEIGHTS, ops)

    both = ruler_facts(trace, TimeRange(0, 100))
    first = ruler_facts(trace, TimeRange(0, 95))

    assert (both.bytes, both.rate, both.is_least) == (12_000, 120.0, False)
    assert (first.bytes, first.n_cut_ops, first.is_least) == (8_000, 1, True)
    assert ruler_facts(trace, TimeRange(5, 5)).rate is None
    assert "111.8 GiB/s" in ruler_text(trace, both.time, both)
    assert "≥ 7.8 KiB" in ruler_text(trace, first.time, first)


def test_what_is_not_recorded_or_too_long_is_reported_and_not_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = spans_trace([0, 20], [10, 30], op=1)
    time = TimeRange(0, 30)
    facts = ruler_facts(plain, time)
    assert (facts.n_ops, facts.bytes, facts.rate) == (2, None, None)
    assert "B" not in ruler_lines(plain, time, facts)[2].replace("bytes", "")
    with monkeypatch.context() as patch:
        patch.setattr(shared, "_MAX_SORTED", 3)
        long = threads_trace(9, in_step=False)
        result = ruler_facts(long, long.extent)
    assert (result.n_ops, result.bytes, result.rate) == (None, None, None)


def test_length_has_all_digits_and_waits_for_what_lies_between() -> None:
    trace = TRACES["llama"]
    far = TimeRange(-(1 << 60), (1 << 60) + 1)  # a float would lose the last digits

    assert ruler_lines(trace, TimeRange(3, 7), None) == ("4 ns", "…")
    assert "2,305,843,009.213 693 953" in ruler_lines(trace, far, None)[0].replace(
        "\u202f", " "
    )
    other = ruler_facts(trace, TimeRange(0, 5))
    assert ruler_lines(trace, TimeRange(0, 6), other)[-1] == "…"
    assert isinstance(other, RulerFacts)


@pytest.mark.parametrize("name", ["threads", "llama", "npu", "random"])
def test_next_edge_is_that_of_a_plain_look(name: str) -> None:
    trace = TRACES[name]
    index = TraceIndex(trace)
    rng = np.random.default_rng(1)
    for lane in index.lanes:
        if not lane.track.has_rows:
            continue
        rows = index.rows(lane.key)
        edges = {int(t) for row in rows for t in (*row.start, *row.end)}
        extent = trace.extent
        for tick in rng.integers(extent.start - 9, extent.end + 9, 20).tolist():
            after = min((e for e in edges if e > tick), default=None)
            before = max((e for e in edges if e < tick), default=None)
            assert index.next_edge(lane.key, tick, 1) == after
            assert index.next_edge(lane.key, tick, -1) == before
