"""DOT files in ggml's dialects, and in everybody else's, become graphs."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ggscope.errors import CorruptError, LimitExceededError
from ggscope.model.graph import Graph, NodeFlag
from ggscope.model.names import split_suffixes
from ggscope.model.trace import Trace
from ggscope.readers import memory
from ggscope.readers.graph import dot as graph_dot
from ggscope.readers.graph.dot import GraphDotReader
from ggscope.readers.graph.draft import RecordLabel, op_name, op_table, parse_record
from ggscope.readers.graph.json import GraphJsonReader
from side_files import (
    codes,
    confidence,
    dtypes,
    edges,
    names,
    operations,
    read_path,
    read_text,
)
from support import corpus_path, need_corpus

READER = GraphDotReader()
RECORD = (
    '  "{id}" [ style = filled; fillcolor = {color}; shape = record; '
    'label="{label}"; ]\n'
)
EDGE = '  "{a}" -> "{b}" [ arrowhead = vee; style = solid; label = "src {k}"; ]\n'
PORTS = (
    '  "{a}":x -> "{b}":g [ arrowhead = empty; style = dashed; label = "src {k}"; ]\n'
)


def corpus_files() -> list[dict[str, object]]:
    folder = corpus_path()
    if folder is None:
        return []
    index = json.loads((folder / "INDEX.json").read_text())
    return [row for row in index if row["format"] == "ggml-dot"]


def ggml(*lines: str) -> str:
    return "digraph G {\n  newrank = true;\n  rankdir = TB;\n" + "".join(lines) + "}\n"


def record(node_id: str, label: str, color: str = "white") -> str:
    return RECORD.format(id=node_id, label=label, color=color)


def read(folder: Path, text: str) -> tuple[Trace, Graph]:
    trace = read_text(READER, folder, text, "g.dot")
    return trace, trace.graphs[0]


@pytest.mark.parametrize("row", corpus_files(), ids=lambda r: Path(r["path"]).stem)
def test_corpus_file_has_the_counts_of_the_index(row) -> None:
    path, expect = need_corpus() / row["path"], row["expect"]

    trace = read_path(READER, path)

    (graph,) = trace.graphs
    n_leaves = int(np.count_nonzero(graph.flags & NodeFlag.LEAF))
    assert n_leaves == expect["leafs"]
    assert len(graph) - n_leaves == expect["nodes"]
    assert graph.n_edges == expect["edges"]
    assert set(codes(trace)) <= {"self_loop"}
    is_old = "ports" in row["path"] or "ports" in expect.get("dialect", "")
    assert trace.info.format_version == ("ports" if is_old else "plain")


@pytest.mark.parametrize("row", corpus_files(), ids=lambda r: Path(r["path"]).stem)
def test_corpus_file_agrees_with_a_search_line_by_line(row) -> None:
    path = need_corpus() / row["path"]
    text = path.read_text()
    ids = re.findall(r'^  "(0x\w+)" \[', text, re.MULTILINE)
    arrows = re.findall(
        r'^  "(0x\w+)"\S* -> "(0x\w+)"\S* \[.*label = "src (\d+)"', text, re.MULTILINE
    )

    (graph,) = read_path(READER, path).graphs

    assert graph.address.tolist() == [int(i, 16) for i in ids]
    row_of = {i: k for k, i in enumerate(ids)}
    assert edges(graph) == [(row_of[a], row_of[b], int(k)) for a, b, k in arrows]


@pytest.mark.parametrize(
    "name", ["graph_new_dialect.dot", "graph_old_dialect_ports.dot"]
)
def test_dot_and_json_of_one_graph_agree(name: str) -> None:
    data = need_corpus() / "bsc/a6ba6071/tensor-tracing/webui/public/data/graphs"
    dot_trace = read_path(READER, need_corpus() / "tracer" / name)
    json_trace = read_path(GraphJsonReader(), data / "token-00000.json")
    (dot,), (other,) = dot_trace.graphs, json_trace.graphs

    assert edges(dot) == edges(other)
    for column in ("op", "layer", "category", "flags", "address"):
        assert getattr(dot, column).tolist() == getattr(other, column).tolist()
    assert dot.shape.tolist() == other.shape.tolist()
    assert operations(dot_trace, dot) == operations(json_trace, other)
    # The DOT was made from the JSON, which had lost some suffixes and their types.
    pairs = zip(names(dot_trace, dot), names(json_trace, other), strict=True)
    for short, whole in pairs:
        assert split_suffixes(short)[0] == split_suffixes(whole)[0]
    plain = (dot.flags & NodeFlag.LEAF) != 0
    ours, theirs = dtypes(dot_trace, dot), dtypes(json_trace, other)
    assert all(ours[i] == theirs[i] for i in np.flatnonzero(plain).tolist())


def test_symbols_are_those_of_ggml() -> None:
    stored = json.loads((need_corpus() / "ggml_op_symbols.json").read_text())
    expected: dict[str, str] = {}
    for name, symbol in stored["name_to_symbol"].items():
        expected.setdefault(symbol, name)

    values = {symbol: op_name(symbol) for symbol in expected}

    assert expected.pop("none") == "NONE"
    assert values.pop("none") == ""
    assert values == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [("x->y", "CPY"), ("x-\\>y", "CPY"), ("MUL_MAT", "MUL_MAT"), (" X*Y ", "MUL_MAT"),
     ("GGML_OP_ROPE", "ROPE"), ("odd(x)", ""), ("", ""), ("CONST", "")],
)  # fmt: skip
def test_operation_is_known_as_symbol_and_as_name(text: str, name: str) -> None:
    assert op_name(text) == name
    assert op_table().id.startswith("ggml-")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("norm-0 (f32)|1 [2048, 2] | <x>rms_norm(x)",
         RecordLabel("norm-0", "f32", "rms_norm(x)", (2048, 2), False)),
        ("q (view) (permuted) (f16)|16 [64, 2, 32] | <x>permute(x)",
         RecordLabel("q (view) (permuted)", "f16", "permute(x)", (64, 2, 32), False)),
        ("<x>blk.0.attn_q.weight (q4_K)|CONST 0 [2048, 256]",
         RecordLabel("blk.0.attn_q.weight", "q4_K", "CONST", (2048, 256), True)),
        ("<3>blk.0.attn_norm.weight (f32)|CONST 3 [2048, 1]",
         RecordLabel("blk.0.attn_norm.weight", "f32", "CONST", (2048, 1), True)),
        ("<x>eps (f32)|CONST 7 [1, 1] | (1.0e-05, #)",
         RecordLabel("eps", "f32", "CONST", (1, 1), True)),
        ("(f32)|3 [4, 5] | <x>X*Y | <g>x+y",
         RecordLabel("", "f32", "X*Y", (4, 5), False, True)),
        (" (copy) (f16)|21 [256, 2] | <x>x-\\>y",
         RecordLabel(" (copy)", "f16", "x-\\>y", (256, 2), False)),
        ("a|b (f32)|2 [1, 2] | <x>x*y",
         RecordLabel("a|b", "f32", "x*y", (1, 2), False)),
        ("12 [3, 4] | <x>x+y", RecordLabel("", "", "x+y", (3, 4), False)),
        (f"w (f32)|1 [{1 << 70}, 2] | <x>x",
         RecordLabel("w", "f32", "x", (0, 2), False)),
    ],
)  # fmt: skip
def test_label_of_a_record_is_taken_apart(text: str, expected: RecordLabel) -> None:
    assert parse_record(text) == expected


@pytest.mark.parametrize("text", ["", "plain", "a|b|c", "[1, 2", "x (f32)"])
def test_label_of_another_kind_is_no_record(text: str) -> None:
    assert parse_record(text) is None


@pytest.mark.parametrize("line", [EDGE, PORTS])
def test_both_dialects_of_edges_are_read(tmp_path, line: str) -> None:
    text = ggml(
        record("0xa", "a (f32)|0 [1, 2] | <x>X*Y"),
        record("0xb", "<x>w (q8_0)|CONST 0 [3, 4]", "pink"),
        line.format(a="0xb", b="0xa", k=1),
    )

    trace, graph = read(tmp_path, text)

    assert names(trace, graph) == ["a", "w"]
    assert edges(graph) == [(1, 0, 1)]
    assert dtypes(trace, graph) == ["f32", "q8_0"]
    assert graph.flags.tolist() == [0, NodeFlag.LEAF]
    assert codes(trace) == {}


def test_gradients_are_marked(tmp_path) -> None:
    text = ggml(
        record("0xa", "a (f32)|0 [1, 2] | <x>X*Y | <g>x+y"),
        record("0xb", "b (f32)|1 [1, 2] | <x>X*Y", "lightblue"),
        record("0xc", "c (f32)|2 [1, 2] | <x>X*Y", "yellow"),
    )

    _, graph = read(tmp_path, text)

    assert graph.flags.tolist() == [NodeFlag.GRADIENT, NodeFlag.GRADIENT, 0]


def test_edge_to_an_undeclared_view_is_usual(tmp_path) -> None:
    text = ggml(
        record("0xa", "a (f32)|0 [1, 2] | <x>X*Y"), EDGE.format(a="0xc", b="0xa", k=0)
    )

    trace, graph = read(tmp_path, text)

    (note,) = trace.warnings
    assert (note.code, note.severity.word) == ("undeclared_node", "info")
    assert graph.address.tolist() == [0xA, 0xC]


def test_address_of_windows_is_read(tmp_path) -> None:
    _, graph = read(
        tmp_path, ggml(record("000001F2A0B0C0D0", "a (f32)|0 [1, 2] | <x>X*Y"))
    )

    assert graph.address.tolist() == [0x1F2A0B0C0D0]


def test_name_with_a_quote_is_read_and_noted(tmp_path) -> None:
    text = ggml(
        record("0xa", 'a "b" (f32)|0 [1, 2] | <x>X*Y'),
        record("0xb", "c (f32)|1 [1, 2] | <x>X*Y"),
    )

    trace, graph = read(tmp_path, text)

    assert names(trace, graph) == ['a "b"', "c"]
    assert codes(trace) == {"unescaped_quote": 1}
    assert trace.warnings[0].place == "line 4"


def test_dot_of_other_programs_is_read(tmp_path) -> None:
    text = """\
# made by hand
    strict digraph "my graph" {
      graph [rankdir=LR]; node [shape=box] // comment
      size = "7,5"
      a -> b -> {c; d} [label="src 3"];
      subgraph cluster_0 { label = "x"; e [label="the e"]; e -> a:p:n; }
      a [label="A\\nname"]; b [label=<<b>hi</b>>]; "two" + "parts" [color=red]
      /* c -> x; */ c -- d
    }
    """

    trace, graph = read(tmp_path, text)

    row = {name: i for i, name in enumerate(names(trace, graph))}
    assert set(row) == {"A name", "<<b>hi</b>>", "c", "d", "the e", "twoparts"}
    assert set(edges(graph)) == {
        (row["A name"], row["<<b>hi</b>>"], 3),
        (row["<<b>hi</b>>"], row["c"], 3),
        (row["<<b>hi</b>>"], row["d"], 3),
        (row["the e"], row["A name"], 0),
        (row["c"], row["d"], 1),
    }
    assert set(codes(trace)) == {"edge_label", "undirected_edge"}


def test_broken_statement_costs_its_line_alone(tmp_path) -> None:
    text = ggml(
        record("0xa", "a (f32)|0 [1, 2] | <x>X*Y"),
        '  "0xb" [ label = = ; ]\n',
        "  ?!\n",
        record("0xc", "c (f32)|1 [1, 2] | <x>X*Y"),
    )

    trace, graph = read(tmp_path, text)

    assert names(trace, graph) == ["a", "c"]
    assert codes(trace) == {"unknown_statement": 2}
    (note,) = trace.warnings
    assert note.place == "line 5"
    assert note.offset == text.index('"0xb"')


def test_unterminated_file_is_kept(tmp_path) -> None:
    text = ggml(record("0xa", "a (f32)|0 [1, 2] | <x>X*Y"))[:-2]

    trace, graph = read(tmp_path, text)

    assert names(trace, graph) == ["a"]
    assert codes(trace) == {"truncated_graph": 1}


def test_every_cut_of_a_file_keeps_what_is_whole(tmp_path) -> None:
    text = ggml(
        record("0xa", "a (f32)|0 [1, 2] | <x>X*Y"),
        record("0xb", "<x>w (q8_0)|CONST 0 [3, 4]"),
        EDGE.format(a="0xb", b="0xa", k=0),
    )
    whole = text.index("}")

    for cut in range(len("digraph G {"), whole):
        trace, graph = read(tmp_path, text[:cut])

        n = text[:cut].count("; ]")
        assert len(graph) + graph.n_edges >= n, cut
        assert "truncated_graph" in codes(trace), cut


def test_several_graphs_of_a_file_are_all_read(tmp_path) -> None:
    text = ggml(record("0xa", "a (f32)|0 [1, 2] | <x>X*Y")) * 2 + "rest"

    trace = read_text(READER, tmp_path, text, "token-3.dot")

    assert [g.title for g in trace.graphs] == ["token 3 (1 of 2)", "token 3 (2 of 2)"]
    assert [g.token for g in trace.graphs] == [3, 3]
    assert codes(trace) == {"trailing_text": 1}


def test_second_description_of_a_node_is_noted(tmp_path) -> None:
    line = record("0xa", "a (f32)|0 [1, 2] | <x>X*Y")

    trace, graph = read(tmp_path, ggml(line, line))

    assert len(graph) == 1
    assert codes(trace) == {"duplicate_id": 1}


def test_bare_node_is_described_later(tmp_path) -> None:
    trace, graph = read(tmp_path, 'digraph { a; b; a [label="say \\"hi\\""]; }')

    assert names(trace, graph) == ['say "hi"', "b"]
    assert codes(trace) == {}


def test_deep_groups_end(tmp_path) -> None:
    trace, _ = read(tmp_path, "digraph {" + "{" * 500 + "a" + "}" * 500)

    assert "unknown_statement" in codes(trace)


def test_text_without_a_graph_is_an_error(tmp_path) -> None:
    with pytest.raises(CorruptError, match="no graph"):
        read(tmp_path, "hello\nworld\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [(ggml(record("0xa", "a (f32)|0 [1, 2] | <x>X*Y")), 95), ("digraph {}", 80),
     ("// x\nstrict graph g {", 80), ("graphs are nice {", 0), ("digraph", 80),
     ("the digraph {", 0), ('{"graph": 1}', 0), ("graph theory\nis fun", 0)],
)  # fmt: skip
def test_sniff_knows_graphs_by_their_first_words(text: str, expected: int) -> None:
    assert confidence(READER, text, "x.dot") == expected


def test_counts_of_the_whole_file_do_not_depend_on_line_ends(tmp_path) -> None:
    path = need_corpus() / "tracer" / "graph_new_dialect.dot"
    text = path.read_text()

    unix, dos = (
        read(tmp_path, t)[1] for t in (text, text.replace("\n", "\r\n"))
    )  # fmt: skip

    assert edges(unix) == edges(dos)
    assert Counter(unix.op.tolist()) == Counter(dos.op.tolist())


_PEAK = """
import resource, sys
from ggscope.errors import ReadError
from ggscope.readers import registry
registry.readers()
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
def read(name):
    try:
        registry.open_trace(name, reader_id="graph-dot")
    except ReadError as error:
        print(error.message, file=sys.stderr)
read(sys.argv[1])
before = peak()
read(sys.argv[2])
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="units of ru_maxrss differ")
@pytest.mark.parametrize(
    "text",
    ['digraph G { "a" [label="' + "x" * 3_000_000,
     'digraph G { "a" [label="' + r"\"" * 1_500_000,
     'digraph G { "a" [label="' + r"\"" * 1_500_000 + '"]}',
     'digraph G {a[b="' + '"+"x' * 300_000 + '"]}'],
    ids=["open", "open with escapes", "escapes", "sum"],
)  # fmt: skip
def test_long_string_takes_no_more_than_some_times_its_size(tmp_path, text) -> None:
    small, large = tmp_path / "small.dot", tmp_path / "large.dot"
    small.write_text("digraph G {a}")
    large.write_text(text)

    program = [sys.executable, "-c", _PEAK, small, large]
    done = subprocess.run(program, capture_output=True, text=True, check=True)

    # It was 170 times the size: 510 MB.
    assert int(done.stdout) < 16 * len(text) + (16 << 20)


def test_groups_that_multiply_are_refused(tmp_path) -> None:
    group = " ".join(f"n{i}" for i in range(600))

    with pytest.raises(LimitExceededError, match="a statement defines more than"):
        read(tmp_path, f"digraph G {{ {{{group}}} -> {{{group}}} }}")


def test_more_nodes_than_the_file_can_mean_are_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(memory, "_FREE_BYTES", 80_000)

    with pytest.raises(LimitExceededError, match=r"more than 11\d nodes and edges"):
        read(tmp_path, "graph {" + "a--b " * 1000 + "}")


def test_very_many_graphs_are_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(graph_dot, "MAX_GRAPHS", 3)

    with pytest.raises(LimitExceededError, match="more than 3 graphs"):
        read(tmp_path, "graph{}" * 4)
