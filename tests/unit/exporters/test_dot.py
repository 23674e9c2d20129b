"""Graphs written as DOT come back the same."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

import graph_traces
import session_files
from ggscope.exporters.dot import graph_as_dot
from ggscope.readers import registry


def test_written_graph_is_read_back_as_it_was(tmp_path: Path) -> None:
    trace = graph_traces.network_trace(3)
    graph = trace.graphs[0]
    path = tmp_path / "graph.dot"
    path.write_text(graph_as_dot(trace, graph), "utf-8")

    read = registry.open_trace(path)

    again = read.graphs[0]
    assert [read.strings[int(i)] for i in again.name] == [
        trace.strings[int(i)] for i in graph.name
    ]
    assert [read.op_name(int(op)) for op in again.op] == [
        trace.op_name(int(op)) for op in graph.op
    ]
    for column in ("source", "target", "slot", "address"):
        assert np.array_equal(getattr(again, column), getattr(graph, column)), column
    assert np.array_equal(again.shape[:, :2], graph.shape[:, :2])


def test_names_that_would_break_a_record_are_escaped() -> None:
    odd = graph_traces.TraceBuilder()
    graph_traces.add_graph(odd, ['a|"b"{<c>}'], [])
    named = graph_traces.finished(odd)

    text = graph_as_dot(named, named.graphs[0])

    assert r"a\|\"b\"\{\<c\>\}" in text
    assert text.count("\n") == 5


def test_nodes_without_distinct_addresses_are_numbered() -> None:
    trace = graph_traces.graph_trace(3, [(0, 1)])
    graph = replace(trace.graphs[0], address=np.zeros(3, np.uint64))

    text = graph_as_dot(trace, graph)

    assert len(set(re.findall(r'^  "(0x\d)" \[', text, re.M))) == 3
    assert '"0x1" -> "0x2"' in text


def test_what_a_nameless_input_is_for_stands_beside_its_name(tmp_path: Path) -> None:
    nodes = [("leaf_4", ""), ("Qcur-0", "ROPE"), ("leaf_8", "")]
    trace = session_files.graph_trace(nodes, [(0, 1, 1)])
    path = tmp_path / "graph.dot"
    path.write_text(graph_as_dot(trace, trace.graphs[0]), "utf-8")

    tooltips = re.findall(r'label="([^"]*)"; (?:tooltip="([^"]*)")?', path.read_text())
    read = registry.open_trace(path)

    assert [text for _, text in tooltips[:3]] == ["RoPE positions (inferred)", "", ""]
    names = [read.strings[int(i)] for i in read.graphs[0].name]
    assert names == ["leaf_4", "Qcur-0", "leaf_8"]
