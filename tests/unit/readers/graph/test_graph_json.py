"""Graph JSON files of all generations become graphs, their quirks repaired."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ggscope.errors import CorruptError, ReadError
from ggscope.model.graph import Graph, NodeCategory, NodeFlag, count_text
from ggscope.model.names import SUFFIXES, normalise
from ggscope.model.trace import Severity, Trace
from ggscope.readers.graph.build import category_of
from ggscope.readers.graph.draft import Node
from ggscope.readers.graph.json import GraphJsonReader
from side_files import (
    codes,
    confidence,
    dtypes,
    edge,
    edges,
    graph_text,
    leaf,
    names,
    node,
    operations,
    read_path,
    read_text,
)
from support import corpus_path, need_corpus

READER = GraphJsonReader()
SLOTS = "token-00007.json"


def corpus_graphs() -> list[dict[str, object]]:
    folder = corpus_path()
    if folder is None:
        return []
    index = json.loads((folder / "INDEX.json").read_text())
    return [row for row in index if row["format"] == "graph-json"]


def read(folder: Path, *parts: list[object], **root: object) -> tuple[Trace, Graph]:
    nodes, links = parts if len(parts) == 2 else (parts[0], [])
    trace = read_text(READER, folder, graph_text(nodes, links, **root), SLOTS)
    (graph,) = trace.graphs
    return trace, graph


@pytest.mark.parametrize("row", corpus_graphs(), ids=lambda r: r["path"][4:12])
def test_corpus_graph_has_the_counts_of_the_index(row) -> None:
    path, expect = need_corpus() / row["path"], row["expect"]
    raw = json.loads(path.read_text())["nodes"]

    trace = read_path(READER, path)

    (graph,) = trace.graphs
    is_leaf = (graph.flags & NodeFlag.LEAF) != 0
    assert len(graph) == trace.info.n_records == expect["nodes"]
    assert graph.n_edges == expect["edges"]
    assert graph.token == expect["token_id"]
    assert np.count_nonzero(is_leaf) == expect["const"] + expect["unknown_op"]
    printed = Counter(operations(trace, graph))
    printed["unknown"] = expect["unknown_op"]
    printed["CONST"] -= expect["unknown_op"]
    assert +printed == Counter(expect["ops"])
    slots = Counter(f"src {slot}" for slot in graph.slot.tolist())
    assert slots == Counter(expect["edge_labels"])
    stated = [n["dtype"] for n in raw]
    counts = Counter(
        t for t, was in zip(dtypes(trace, graph), stated, strict=True)
        if was not in (*SUFFIXES, "unknown")
    )  # fmt: skip
    expected = {
        k: v for k, v in expect["dtypes"].items() if k not in (*SUFFIXES, "unknown")
    }
    assert counts == Counter(expected)
    labels = [n["label"] for n in raw]
    assert len(labels) - len(set(labels)) == expect["duplicate_labels"]
    n_repaired = sum(expect["dtypes"].get(word, 0) for word in SUFFIXES)
    assert codes(trace)["type_was_suffix"] == n_repaired
    assert trace.info.format_version == (
        "node types" if expect["node_type"]
        else "raw leaves" if expect["unknown_op"]
        else "plain"
    )  # fmt: skip


@pytest.mark.parametrize("row", corpus_graphs(), ids=lambda r: r["path"][4:12])
def test_corpus_types_and_names_are_all_recovered(row) -> None:
    trace = read_path(READER, need_corpus() / row["path"])

    (graph,) = trace.graphs
    assert (graph.dtype >= 0).all()
    assert not set(dtypes(trace, graph)) & set(SUFFIXES)
    assert "cache_k_l0 (view) (permuted)" in names(trace, graph)
    assert "unknown_type" not in codes(trace)
    assert len(set(graph.layer.tolist()) - {-1}) in (22, 24)
    assert (graph.op[(graph.flags & NodeFlag.LEAF) == 0] >= 0).all()


def test_recovered_names_are_those_that_the_trace_reads() -> None:
    data = need_corpus() / "bsc/a6ba6071/tensor-tracing/webui/public/data"
    entries = json.loads((data / "traces/token-00000.json").read_text())["entries"]
    read_names = {s["name"] for e in entries for s in e["sources"]}
    written = {e["dst_name"] for e in entries}

    trace = read_path(READER, data / "graphs/token-00000.json")

    assert read_names | written <= set(names(trace, trace.graphs[0]))


@pytest.mark.parametrize("row", corpus_graphs(), ids=lambda r: r["path"][4:12])
def test_own_rule_of_categories_agrees_with_every_file(row) -> None:
    trace = read_path(READER, need_corpus() / row["path"])
    (graph,) = trace.graphs

    own = [
        int(category_of(Node(name=name, operation=operation)))
        for name, operation in zip(
            names(trace, graph), operations(trace, graph), strict=True
        )
    ]

    assert own == graph.category.tolist()


def test_real_masks_and_positions_are_shared_and_weights_are_not() -> None:
    path = need_corpus() / "bsc/a6ba6071/tensor-tracing/webui/public/data"
    trace = read_path(READER, path / "graphs/token-00000.json")
    (graph,) = trace.graphs

    shared = np.flatnonzero(graph.flags & NodeFlag.SHARED).tolist()

    result = names(trace, graph)
    assert {result[i] for i in shared} == {
        "leaf_4", "leaf_7", "leaf_9", "leaf_11", " (copy)",
    }  # fmt: skip


def test_sources_keep_their_slots_and_shapes_say_what_is_unknown(tmp_path) -> None:
    nodes = [node("a", shape=[4, 5, 6]), node("b"), leaf("w", shape=[7, 8])]

    trace, graph = read(tmp_path, nodes, [edge("w", "a", 1), edge("a", "b", 4)])

    assert edges(graph) == [(2, 0, 1), (0, 1, 4)]
    assert graph.shape.tolist() == [[4, 5, 6, 0], [2, 3, 1, 1], [7, 8, 0, 0]]
    assert [trace.op_name(op) for op in graph.op.tolist()] == ["MUL_MAT", "MUL_MAT", ""]
    assert trace.ops is not None
    assert trace.ops.source == "spelled"
    assert codes(trace) == {}


def test_duplicate_labels_stay_apart(tmp_path) -> None:
    trace, graph = read(tmp_path, [node("a", "same"), node("b", "same")], [])

    assert names(trace, graph) == ["same", "same"]
    assert len(graph) == 2


def test_self_loop_is_kept_and_no_cycle(tmp_path) -> None:
    trace, graph = read(tmp_path, [node("a")], [edge("a", "a", 1)])

    assert edges(graph) == [(0, 0, 1)]
    assert codes(trace) == {"self_loop": 1}


def test_cycle_is_a_notice_and_all_edges_survive(tmp_path) -> None:
    nodes = [leaf("w"), node("a"), node("b"), node("c")]
    links = [edge("w", "a"), edge("a", "b"), edge("b", "a", 1), edge("b", "c")]

    trace, graph = read(tmp_path, nodes, links)

    assert codes(trace) == {"cycle": 3}
    assert graph.n_edges == 4


def test_backward_order_alone_is_no_cycle(tmp_path) -> None:
    nodes = [node("c"), node("b"), node("a"), leaf("w")]
    links = [edge("b", "c"), edge("a", "b"), edge("w", "a")]

    trace, _ = read(tmp_path, nodes, links)

    assert codes(trace) == {}


def test_undeclared_node_is_added_behind_the_others(tmp_path) -> None:
    trace, graph = read(tmp_path, [node("a"), node("b")], [edge("0x7f", "a")])

    assert codes(trace) == {"undeclared_node": 1}
    assert graph.flags.tolist() == [0, 0, NodeFlag.UNDECLARED]
    assert graph.address.tolist()[2] == 0x7F
    assert trace.info.n_records == 2
    assert (graph.n_declared, graph.n_leaves, graph.n_dangling) == (2, 0, 1)
    assert count_text(graph) == "2 nodes (0 leaves), 1 dangling end, 1 edges"


def test_odd_nodes_and_edges_are_counted_with_their_place(tmp_path) -> None:
    nodes = [
        node("a"), 17, node(4), node("a"), node("s", shape="no"),
        node("u", odd=1), node("k", category="strange"),
        {"label": "bare", "address": "0x99"},
    ]  # fmt: skip
    links = [
        edge("4", "a"), {"source": "a"}, "x", {"source": "a", "target": "s"},
        edge("0x99", "s", 3),
    ]  # fmt: skip

    trace, graph = read(tmp_path, nodes, links)

    result = codes(trace)
    assert result.pop("nodes_mismatch") == 1
    assert result.pop("edges_mismatch") == 1
    assert result == {
        "bad_node": 1, "id_not_text": 1, "duplicate_id": 1, "bad_shape": 1,
        "unknown_field": 1, "unknown_category": 1, "missing_id": 1, "bad_edge": 2,
        "edge_label": 1,
    }  # fmt: skip
    places = {w.code: w.place for w in trace.warnings}
    assert places["bad_node"] == "nodes[1]"
    assert places["bad_edge"] == "edges[1]"
    assert places["unknown_field"] == "nodes[5].odd"
    assert edges(graph) == [(1, 0, 0), (0, 3, 0), (6, 3, 3)]


def test_type_that_is_a_suffix_stays_unknown_without_its_source(tmp_path) -> None:
    nodes = [node("v", "x", operation="view(x)", dtype="view")]

    trace, graph = read(tmp_path, nodes, [])

    assert names(trace, graph) == ["x (view)"]
    assert dtypes(trace, graph) == [""]
    assert codes(trace) == {"type_was_suffix": 1, "unknown_type": 1}


def test_view_of_another_tensor_does_not_lend_its_type(tmp_path) -> None:
    nodes = [leaf("w", "y", dtype="q4_K")]
    nodes += [node("v", "x", operation="view(x)", dtype="view")]

    trace, graph = read(tmp_path, nodes, [edge("w", "v")])

    assert dtypes(trace, graph) == ["q4_K", ""]


def test_chain_of_views_in_any_order_is_recovered(tmp_path) -> None:
    nodes = [
        node("p", "q", operation="permute(x)", dtype="view"),
        node("v", "q", operation="view(x)", dtype="view"),
        leaf("w", "q", dtype="f16"),
    ]

    trace, graph = read(tmp_path, nodes, [edge("v", "p"), edge("w", "v")])

    assert names(trace, graph) == ["q (view) (permuted)", "q (view)", "q"]
    assert dtypes(trace, graph) == ["f16"] * 3


def test_views_of_each_other_end(tmp_path) -> None:
    nodes = [
        node(i, "q", operation="view(x)", dtype="view") for i in ("a", "b")
    ]  # fmt: skip

    trace, _ = read(tmp_path, nodes, [edge("a", "b"), edge("b", "a")])

    assert codes(trace)["unknown_type"] == 2


def test_name_that_is_only_a_suffix_gets_its_blank_back(tmp_path) -> None:
    trace, graph = read(tmp_path, [node("a", "(copy)", operation="x-\\>y")], [])

    assert names(trace, graph) == [" (copy)"]
    assert trace.op_name(int(graph.op[0])) == "CPY"
    assert normalise(" (copy)") == ""


def test_layer_of_a_counted_name_is_ignored(tmp_path) -> None:
    nodes = [node("a", "node_677", layer_id=677), node("b", "blk.3.w", layer_id=3)]
    nodes += [node("c", "odd", layer_id=5), node("d", "norm-1", layer_id=2)]

    trace, graph = read(tmp_path, nodes, [])

    assert graph.layer.tolist() == [-1, 3, 5, 1]
    assert codes(trace) == {"layer_from_count": 1, "layer_mismatch": 1}


def test_category_of_the_file_wins_over_the_name(tmp_path) -> None:
    _, graph = read(tmp_path, [node("a", "attn_x", category="FFN")], [])

    assert graph.category.tolist() == [NodeCategory.FFN]


@pytest.mark.parametrize(
    ("stated", "token", "title"),
    [(3, 3, "token 3"), (None, 7, "token 7"), (-5, -1, SLOTS), (True, 7, "token 7")],
)
def test_token_comes_from_the_content_else_the_name(
    tmp_path, stated, token, title
) -> None:
    _, graph = read(tmp_path, [node("a")], [], token_id=stated)

    assert (graph.token, graph.title) == (token, title)


def test_claims_that_differ_are_noted(tmp_path) -> None:
    metadata = {"total_nodes": 9, "total_edges": 0, "layers": 678}

    trace, _ = read(tmp_path, [node("a")], [], metadata=metadata)

    assert codes(trace) == {"nodes_mismatch": 1, "layers_mismatch": 1}
    assert trace.info.summary["stated_nodes"] == 9


def test_cut_file_keeps_the_nodes_before_the_cut(tmp_path) -> None:
    text = graph_text([node(f"n{i}") for i in range(9)], [edge("n0", "n1")])
    cut = text[: text.index('"n5"') + 30]

    trace = read_text(READER, tmp_path, cut, SLOTS)

    assert len(trace.graphs[0]) == 5
    assert codes(trace)["truncated_json"] == 1
    (worst,) = [w for w in trace.warnings if w.severity is Severity.ERROR]
    assert worst.place.startswith("line 1 column")


def test_broken_node_keeps_those_before_it(tmp_path) -> None:
    text = graph_text([node("a"), node("b")], []).replace('"id": "b"', '"id": b')

    trace = read_text(READER, tmp_path, text, SLOTS)

    assert len(trace.graphs[0]) == 1
    assert codes(trace)["broken_json"] == 1


def test_file_broken_before_its_first_node_is_an_error(tmp_path) -> None:
    with pytest.raises(ReadError, match="0 nodes"):
        read_text(READER, tmp_path, '{"nodes": [{"id" 3}]}', SLOTS)


@pytest.mark.parametrize("text", ['{"nodes": {"a": 1}}', '{"edges": []}', "{}"])
def test_json_without_nodes_is_an_error(tmp_path, text) -> None:
    with pytest.raises(CorruptError, match="no list of nodes"):
        read_text(READER, tmp_path, text, SLOTS)


def test_empty_graph_is_a_graph(tmp_path) -> None:
    trace, graph = read(tmp_path, [], [])

    assert (len(graph), graph.n_edges) == (0, 0)
    assert codes(trace) == {}


@pytest.mark.parametrize(
    "text",
    ['{"buffers": [], "timeline": []}', '{"timeline_events": []}', "[]", "digraph {}",
     '{"a": "nodes", "b": {"nodes": [], "edges": []}}', '{"nodes": 3}'],
)  # fmt: skip
def test_json_of_another_kind_is_not_taken(text) -> None:
    assert confidence(READER, text) == 0


def test_foreign_graph_is_taken_with_less_confidence() -> None:
    own = graph_text([node("a")], [])
    foreign = '{"nodes": [{"name": "a"}], "edges": []}'

    assert confidence(READER, own) == 90
    assert confidence(READER, foreign) == 50


def test_sniff_needs_no_end_of_the_file() -> None:
    text = graph_text([node(f"n{i}") for i in range(2000)], [])

    assert confidence(READER, text) == 90
