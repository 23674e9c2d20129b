"""Nameless inputs are determined by who reads them."""

from dataclasses import replace

import numpy as np
import pytest

from ggscope.analysis.graph.inputs import (
    graph_input_purposes,
    input_purposes,
    input_title,
)
from ggscope.analysis.graph.search import find_nodes
from ggscope.analysis.sessions.join import SideFile, join
from ggscope.model.tables import AccessColumns, Accesses, FlatAccesses
from ggscope.model.trace import OpTable, Trace
from ggscope.readers.registry import open_trace
from session_files import graph_trace, reading_trace
from statements import new_statement
from support import need_corpus

OPS = OpTable(
    "leaves",
    ("GET_ROWS", "ROPE", "SET_ROWS", "FLASH_ATTN_EXT", "SOFT_MAX", "CPY", "ADD"),
)


def trace_of(*ops: tuple[str, str, tuple[str, ...]]) -> Trace:
    """Return a trace of ops (name, result, sources)."""
    sources = [(source, -1, 4) for _, _, names in ops for source in names]
    made = reading_trace(sources)
    columns = made.accesses.patterns
    first = np.concatenate([[0], np.cumsum([len(names) for _, _, names in ops])])
    n = len(ops)
    pattern = np.append(np.arange(n), np.full(len(made.spans) - n, -1))
    spans = replace(
        made.spans,
        op=np.array(
            [OPS.names.index(ops[i][0]) if i < n else -1 for i in range(len(pattern))],
            np.int16,
        ),
        name=made.strings.intern_many(
            [ops[i][1] if i < n else "" for i in range(len(pattern))]
        ),
    )
    accesses = Accesses(
        pattern.astype(np.int32),
        first.astype(np.int64),
        AccessColumns(*(getattr(columns, f) for f in columns.__dataclass_fields__)),
        FlatAccesses.blank(),
    )
    return replace(made, ops=OPS, spans=spans, accesses=accesses)


def leaf_texts(trace: Trace) -> dict[str, str]:
    return {
        trace.strings[int(trace.tensors.name[row])]: text
        for row, text in input_purposes(trace).items()
    }


@pytest.mark.parametrize(
    ("op", "result", "sources", "expected"),
    [
        ("GET_ROWS", "inp_embd", ("token_embd.weight", "leaf_2"), "token ids"),
        ("GET_ROWS", "node_9", ("attn_out-21", "leaf_2"), "output rows"),
        ("ROPE", "Qcur-0", ("Qcur-0", "leaf_2"), "RoPE positions"),
        ("ROPE", "Qcur-0", ("Qcur-0", "x", "leaf_2"), "RoPE frequency factors"),
        ("SET_ROWS", "cache_k_l0 (", ("Kcur-0", "leaf_2"), "K cache rows"),
        ("SET_ROWS", "cache_v_l0 (", ("Vcur-0", "leaf_2"), "V cache rows"),
        ("SOFT_MAX", "kq_soft_max-0", ("kq-0", "leaf_2"), "attention mask"),
    ],
)
def test_leaf_is_reported_by_its_reader(op, result, sources, expected):
    assert leaf_texts(trace_of((op, result, sources))) == {"leaf_2": expected}


@pytest.mark.parametrize(
    ("claim", "reader", "other"),
    [
        (
            "output rows",
            ("GET_ROWS", "node_9", ("attn_out-21", "leaf_2")),
            ("GET_ROWS", "inp_embd", ("token_embd.weight", "leaf_2")),
        ),
        (
            "RoPE frequency factors",
            ("ROPE", "Qcur-0", ("Qcur-0", "x", "leaf_2")),
            ("ROPE", "Qcur-0", ("Qcur-0", "leaf_2", "x")),
        ),
        (
            "K cache rows",
            ("SET_ROWS", "cache_k_l0 (", ("Kcur-0", "leaf_2")),
            ("SET_ROWS", "cache_v_l0 (", ("Vcur-0", "leaf_2")),
        ),
        (
            "V cache rows",
            ("SET_ROWS", "cache_v_l0 (", ("Vcur-0", "leaf_2")),
            ("SET_ROWS", "cache_k_l0 (", ("Kcur-0", "leaf_2")),
        ),
    ],
)
def test_leaf_is_reported_by_no_other_reader(claim, reader, other):
    message, unsaid = (
        "\n".join(leaf_texts(trace_of(op)).values()) for op in (reader, other)
    )

    assert new_statement(message, unsaid)
    assert unsaid


def test_mask_that_is_copied_first_is_reported_by_the_copy():
    trace = trace_of(
        ("CPY", "(copy)", ("leaf_11", "(copy)")),
        ("FLASH_ATTN_EXT", "__fattn__-0", ("q", "k", "v", "(copy)")),
    )

    assert leaf_texts(trace) == {"leaf_11": "attention mask"}


def test_leaf_whose_readers_disagree_or_say_nothing_is_left_out():
    trace = trace_of(
        ("ROPE", "Qcur-0", ("Qcur-0", "leaf_1")),
        ("SOFT_MAX", "soft", ("kq-0", "leaf_1")),
        ("ADD", "sum", ("a", "leaf_3")),
    )

    assert leaf_texts(trace) == {}


def test_named_tensors_are_never_renamed():
    trace = trace_of(("ROPE", "Qcur-0", ("Qcur-0", "inp_pos")))

    assert input_purposes(trace) == {}


def test_graph_shows_leaves_that_accesses_do_not():
    plain = reading_trace([("leaf_4", -1, 8)], ops=["ADD"])
    nodes = [("leaf_4", ""), ("Qcur-0", "ADD"), ("Qcur-0", "ROPE")]
    graph = graph_trace(nodes, [(1, 2, 0), (0, 2, 1)])

    assert leaf_texts(join(plain, [SideFile(graph, "graph")])) == {
        "leaf_4": "RoPE positions"
    }


@pytest.mark.parametrize(
    "name", ["trace_256_3584a339.bin", "trace_1024v3_a6ba6071.bin"]
)
def test_leaves_of_a_real_run_are_all_reported(name):
    trace = open_trace(need_corpus() / "tracer" / name)

    assert leaf_texts(trace) == {
        "leaf_2": "token ids",
        "leaf_4": "RoPE positions",
        "leaf_7": "K cache rows",
        "leaf_9": "V cache rows",
        "leaf_11": "attention mask",
        "leaf_247": "output rows",
    }


def named(trace: Trace) -> dict[str, str]:
    (graph,) = trace.graphs
    return {
        trace.strings[int(graph.name[row])]: text
        for row, text in graph_input_purposes(trace, graph).items()
    }


def test_leaf_of_a_graph_alone_is_reported_by_the_ops_that_read_it():
    nodes = [
        *(("leaf_4", ""), ("leaf_9", ""), ("leaf_11", ""), ("inp_pos", "")),
        *(("Qcur-0", "ROPE"), ("cache_v_l0 (", "SET_ROWS"), ("leaf_11 (copy)", "CPY")),
        *(("soft", "SOFT_MAX"), ("Kcur-0", "ROPE"), ("x", "ADD"), ("leaf_20", "")),
    ]
    edges = [(4, 8, 0), (0, 4, 1), (1, 5, 1), (2, 6, 0), (6, 7, 1), (3, 8, 1)]
    trace = graph_trace(nodes, [*edges, (10, 9, 0), (4, 9, 1)], table=OPS)
    (graph,) = trace.graphs

    assert named(trace) == {
        "leaf_4": "RoPE positions",
        "leaf_9": "V cache rows",
        "leaf_11": "attention mask",
    }
    shown = [input_title(trace, graph, node) for node in (0, 3, 10)]
    assert shown == ["leaf_4 · RoPE positions", "inp_pos", "leaf_20"]
    assert find_nodes(trace, graph, "positions").tolist() == [0]


def test_leaf_of_a_graph_whose_readers_disagree_has_no_words():
    nodes = [("leaf_4", ""), ("q", "ROPE"), ("soft", "SOFT_MAX")]

    assert named(graph_trace(nodes, [(0, 1, 1), (0, 2, 1)])) == {}


@pytest.mark.parametrize("name", ["graph_new_dialect", "graph_old_dialect_ports"])
def test_leaves_of_a_real_graph_are_all_reported(name):
    (path,) = need_corpus().rglob(f"{name}.dot")

    assert named(open_trace(path)) == {
        "leaf_2": "token ids",
        "leaf_4": "RoPE positions",
        "leaf_7": "K cache rows",
        "leaf_9": "V cache rows",
        "leaf_11": "attention mask",
        "leaf_247": "output rows",
    }
