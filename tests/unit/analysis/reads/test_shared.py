"""An op of several threads is one op: its spans, its rate, how often it ran."""

from dataclasses import replace

import numpy as np
import pytest

from ggscope.analysis.reads.shared import has_shared_ops, spans_of_op
from ggscope.descriptions.spans import span_facts, tooltip_text
from ggscope.descriptions.times import fused_ops, time_notes
from ggscope.entities.durations import op_durations
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import Trace
from reads_builder import Op, Read, TensorRow, reads_trace

WEIGHT = TensorRow("blk.0.attn_q.weight", 0, 8000)
THREADS = 3


def shared(n: int = 4) -> Trace:
    """Return ops of 10 ticks, 100 apart, on threads that begin 2 ticks apart.

    The one whose op counts begins second.
    """
    read = (Read(0, 8000, 0),)
    late = (2, 0, 4)
    ops = [
        Op(100 * i + late[k], read, thread=k, repeated=k > 0)
        for i in range(n)
        for k in range(THREADS)
    ]
    return reads_trace([WEIGHT], ops)


def facts(trace: Trace, span: int) -> dict[str, str]:
    return {fact.label: fact.value for fact in span_facts(trace, span)}


def test_each_span_leads_to_all_spans_of_its_op():
    trace = shared()

    for span in range(len(trace.spans)):
        first = span // THREADS * THREADS
        spans = spans_of_op(trace, span)
        assert spans is not None
        assert spans.tolist() == list(range(first, first + THREADS))


def test_op_of_one_thread_has_one_span():
    trace = reads_trace([WEIGHT], [Op(0, (Read(0, 8000, 0),)), Op(100, ())])

    assert not has_shared_ops(trace)
    assert spans_of_op(trace, 0).tolist() == [0]


def test_bytes_and_rate_are_of_the_op_on_each_of_its_threads():
    trace = shared()

    message = [facts(trace, span) for span in range(THREADS)]

    # 8,000 bytes in the 14 ns from the first begin to the last end.
    assert {f["rate"] for f in message} == {"532.2 GiB/s"}
    assert {f["op of"] for f in message} == {"3 threads, 14 ns in total"}
    assert "3 threads" in tooltip_text(trace, 1)
    alone = reads_trace([WEIGHT], [Op(0, (Read(0, 8000, 0),))])
    assert "op of" not in facts(alone, 0)
    assert facts(alone, 0)["rate"] == "745.1 GiB/s"


def test_times_count_ops_and_not_threads():
    times = op_durations(shared(5), 0)

    assert (times.n, times.n_ops) == (5 * THREADS, 5)


@pytest.mark.parametrize("op", ["GET_ROWS", "MUL_MAT"])
def test_rate_is_not_known_where_bytes_are_in_part(op):
    # Nobody knows how long a row of this table is.
    reads = (Read(0, 8000, 0), Read(1, 8, -1))
    rows = [replace(WEIGHT, name="token_embd.weight"), TensorRow("ids", -1, 8)]
    trace = reads_trace(rows, [Op(0, reads, op)])

    rate = facts(trace, 0)["rate"]

    assert (rate == "N/A") == (op == "GET_ROWS")


def test_ops_that_hold_the_node_behind_them_are_counted_once():
    trace = shared()
    flags = trace.spans.flags.astype(np.uint16)
    flags[: 2 * THREADS] |= np.uint16(SpanFlag.FUSED)
    fused = replace(trace, spans=replace(trace.spans, flags=flags))

    assert fused_ops(trace) == {}
    assert fused_ops(fused) == {"MUL_MAT": 2}
    assert len(time_notes(fused)) == len(time_notes(trace)) + 1
    assert "fused" in facts(fused, 0)["note"]
    assert spans_of_op(fused, 0).tolist() == [0, 1, 2]
