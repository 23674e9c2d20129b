"""Graph ops without a record count as not recorded, never as untouched."""

from dataclasses import replace

import pytest

from ggscope.analysis.reads.hot_cold import hot_cold
from ggscope.analysis.reads.unrecorded import (
    is_unrecorded,
    unrecorded_tensors,
)
from ggscope.analysis.sessions.join import SideFile, join
from ggscope.analysis.sessions.problems import NODES_NOT_RECORDED as CODE
from ggscope.analysis.sessions.problems import unrecorded_text
from ggscope.descriptions.reads import (
    hot_facts,
)
from ggscope.descriptions.times import unrecorded_time_text
from ggscope.model.trace import Trace
from session_files import model_trace
from statements import new_statements
from unrecorded_ops_traces import MODEL, NODES, graph_side, joined, traced


def test_nodes_without_a_record_are_counted_by_op() -> None:
    trace = joined()

    (join,) = (j for j in trace.joins if j.kind == "graph")
    assert (join.n_nodes, dict(join.unrecorded)) == (3, {"MUL_MAT": 2})
    assert join.unrecorded_nodes == (4, 5)
    text = "2 of 3 ops of the graph have no record in any pass: MUL_MAT 2"
    assert unrecorded_text(join) == text
    (problem,) = (w for w in trace.warnings if w.code == CODE)
    assert (problem.count, problem.severity.word) == (2, "notice")
    assert problem.message.startswith(text)
    assert text in unrecorded_time_text(trace)
    report = [is_unrecorded(trace, trace.graphs[0], row) for row in range(len(NODES))]
    assert report == [False] * 4 + [True] * 2
    whole = joined(ops=("MUL", "MUL_MAT", "MUL_MAT"))
    text_of_all_recorded = "\n".join(unrecorded_text(j) for j in whole.joins)
    assert new_statements(unrecorded_text(join), text_of_all_recorded)


def test_only_derived_times_hold_those_of_unrecorded_ops() -> None:
    derived = traced()
    measured = replace(
        derived, spans=replace(derived.spans, flags=derived.spans.flags * 0)
    )
    message, of_measured = (
        "\n".join(
            w.message
            for w in join(
                trace, [SideFile(model_trace(MODEL), "map"), graph_side()]
            ).warnings
        )
        for trace in (derived, measured)
    )

    assert new_statements(message, of_measured)
    assert "no record in any pass" in of_measured


def test_what_they_read_is_not_recorded_and_the_rest_untouched() -> None:
    trace = joined()

    cold = hot_cold(trace)

    names = [trace.strings[i] for i in trace.tensors.name.tolist()]
    unrecorded = unrecorded_tensors(trace)
    assert [n for n, s in zip(names, unrecorded.tolist(), strict=True) if s] == [
        "hidden.weight"
    ]
    assert (cold.cold.n_cold, cold.cold.cold_size) == (1, 256)
    assert (cold.cold.n_unrecorded, cold.cold.unrecorded_size) == (1, 192)
    (fact,) = (f for f in hot_facts(trace, cold) if f.title == "Never touched")
    assert fact.text.startswith("256 B (50.0 %) of 512 B: 1 of 3")
    assert ": 192 B (37.5 %, 1 tensors and expert slices)" in fact.remark


SINKS = [("wq.weight", 0, 64), ("attn_sinks.weight", 64, 192), ("idle.weight", 256, 8)]
NODES_OF_SINKS = (
    ("q", ""), ("k", ""), ("v", ""), ("mask", ""), ("attn_sinks.weight", ""),
    ("norm-0", "FLASH_ATTN_EXT"),
)  # fmt: skip


def with_sinks(edges: list[tuple[int, int]]) -> Trace:
    sides = [SideFile(model_trace(SINKS), "map"), graph_side(NODES_OF_SINKS, edges)]
    return join(traced(ops=("FLASH_ATTN_EXT",), reads=SINKS[0]), sides)


def test_fifth_source_of_a_node_is_read_without_a_record() -> None:
    five = with_sinks([(k, 5) for k in range(5)])
    four = with_sinks([(k, 5) for k in (0, 1, 2, 4)])

    (join,) = (j for j in five.joins if j.kind == "graph")
    assert join.truncated_nodes == (5,)
    cold = hot_cold(five).cold
    assert (cold.n_cold, cold.n_unrecorded, cold.unrecorded_size) == (1, 1, 192)
    cold = hot_cold(four).cold
    assert (cold.n_cold, cold.n_unrecorded) == (2, 0)


def test_without_a_graph_nothing_is_unrecorded() -> None:
    trace = join(traced(), [SideFile(model_trace(MODEL), "map")])

    assert not unrecorded_tensors(trace).any()
    assert unrecorded_time_text(trace) == ""
    assert hot_cold(trace).cold.n_cold == 2


@pytest.mark.parametrize("ops", [("MUL", "MUL_MAT"), ("MUL_MAT", "MUL")])
def test_op_with_unmatched_spans_is_not_called_unrecorded(ops) -> None:
    trace = joined(ops=ops)

    (join,) = (j for j in trace.joins if j.kind == "graph")
    assert (join.n_found, join.n_all) == (1, 2)
    assert join.unrecorded_nodes == ()
    assert all(w.code != CODE for w in trace.warnings)
