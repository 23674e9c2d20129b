"""What is said of sums where some threads were not compared with the others."""

from dataclasses import replace

import pytest

from ggscope.analysis.heat.file_map import file_map
from ggscope.analysis.heat.heatmap import heat_base
from ggscope.analysis.reads.file_blocks import read_sequence
from ggscope.analysis.reads.hot_cold import hot_cold
from ggscope.analysis.reads.hotness import space_totals
from ggscope.analysis.reads.op_io import counts_once
from ggscope.analysis.statistics.columns import stat_facts
from ggscope.analysis.statistics.table import stat_table
from ggscope.descriptions.reads import hot_facts
from ggscope.descriptions.statistics import headed_columns, stat_notes
from ggscope.model.trace import ReadWarning, Severity, Trace
from reads_builder import Op, Read, TensorRow, reads_trace
from statements import new_statement


def trace_of(*, is_compared: bool) -> Trace:
    tensors = [TensorRow("blk.0.a.weight", 0, 64, 0)]
    trace = reads_trace(
        tensors, [Op(0, (Read(0, 64),)), Op(20, (Read(0, 64),), thread=1)]
    )
    if is_compared:
        return trace
    problem = ReadWarning(Severity.NOTICE, "threads_not_compared", "too many.", 2)
    return replace(trace, warnings=(*trace.warnings, problem))


@pytest.fixture
def traces() -> tuple[Trace, Trace]:
    return trace_of(is_compared=True), trace_of(is_compared=False)


def test_every_sum_knows_whether_ops_count_once(traces: tuple[Trace, Trace]) -> None:
    for trace, is_once in zip(traces, (True, False), strict=True):
        assert counts_once(trace) == is_once
        assert heat_base(trace).totals.is_once == is_once
        assert space_totals(trace).is_once == is_once
        assert read_sequence(trace, file_map(trace)).is_once == is_once
        assert hot_cold(trace).heat.is_once == is_once


def test_remarks_of_sums_say_so(traces: tuple[Trace, Trace]) -> None:
    compared, apart = (
        "\n".join(fact.remark for fact in hot_facts(trace, hot_cold(trace)))
        for trace in traces
    )

    assert new_statement(compared, apart)
    assert new_statement(apart, compared)


def test_statistics_say_so(traces: tuple[Trace, Trace]) -> None:
    notes = []
    for trace in traces:
        table = stat_table(trace, "op")
        facts = stat_facts(trace, "op", table)
        columns = headed_columns(facts)
        # Of the command line, and of the window, whose columns explain themselves.
        for shown in (columns, None):
            notes.append("\n".join(stat_notes(trace, table, facts, shown)))

    assert new_statement(notes[2], notes[0])
    assert new_statement(notes[3], notes[1])
