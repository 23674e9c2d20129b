"""Texts state a condition of a trace where it holds, and only there."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from buffer_traces import COMPUTE, WEIGHTS, Life, buffers_trace, reference_buffers
from builders import spans_trace
from ggscope.analysis.buffers import buffer_use
from ggscope.analysis.filters.masks import read_filter
from ggscope.analysis.graph.layout import graph_layers
from ggscope.analysis.graph.measures import node_measures
from ggscope.analysis.reads.hot_cold import hot_cold
from ggscope.analysis.rows.colorings import coloring
from ggscope.analysis.sessions.correlate import correlate
from ggscope.analysis.sessions.join import SideFile, join
from ggscope.descriptions.files import join_text
from ggscope.descriptions.nodes import drawn_node_facts
from ggscope.descriptions.reads import (
    hot_facts,
)
from ggscope.descriptions.times import unrecorded_time_text
from ggscope.errors import QueryError
from ggscope.gui.commands.shortcuts import load_overrides
from ggscope.model.routing import UNKNOWN_MORE
from ggscope.model.tables import AccessKind, Space
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.session.bookmarks.bookmarks import Bookmark
from ggscope.session.bookmarks.files import (
    BookmarkSet,
    BookmarkStorage,
    Entry,
)
from ggscope.views.buffers.texts import buffer_text, gap_head, gap_text
from reads_builder import Op, Read, TensorRow, moe_reads, reads_trace
from session_files import model_trace, reading_trace
from statements import new_statements
from unrecorded_ops_traces import MODEL, joined, traced

LONG = "blk.0.attn_output.weight"
WHOLE = [("token_embd.weight", 0, 512), (LONG, 512, 256), ("output.weight", 768, 256)]


def facts(trace: Trace) -> str:
    facts = hot_facts(trace, hot_cold(trace))
    return "\n".join(f"{fact.title} | {fact.text} | {fact.remark}" for fact in facts)


def notes(trace: Trace) -> str:
    return "\n".join(warning.message for warning in trace.warnings)


def joins(*reads: tuple[str, int, int]) -> Trace:
    trace = reading_trace([("token_embd.weight", 0, 512), *reads])
    return join(trace, [SideFile(model_trace(WHOLE), "map")])


def of_nodes(trace: Trace) -> str:
    graph, correlation = trace.graphs[0], correlate(trace)
    measures = node_measures(trace, 0, correlation)
    layers = graph_layers(graph)
    shown = [
        fact
        for node in range(len(graph))
        for fact in drawn_node_facts(trace, graph, node, layers, measures)
    ]
    return "\n".join(f"{fact.label} | {fact.value}" for fact in shown)


def with_traced_nodes() -> Trace:
    """Return the trace of `joined`, of which every op has a record."""
    return joined(ops=("MUL", "MUL_MAT", "MUL_MAT"))


def cache_of(write: int) -> str:
    """Return what is said of a KV cache that is written to by ops of a rule."""
    side = {"space": Space.BUFFER}
    tensors = (
        TensorRow("cache_k_l0", -1, 512, 0),
        TensorRow("leaf_7", -1, 8),
        TensorRow("act", -1, 64),
    )
    put = (Read(2, 8, **side), Read(1, 8, **side), Read(0, 512, **side))
    messages = (Read(2, 8, **side), Read(0, 16, kind=AccessKind.WRITE, **side))
    ops = [Op(0, messages, "ADD")]
    ops += [Op(20 * i, put, "SET_ROWS") for i in range(1, write + 1)]
    return facts(reads_trace(tensors, ops))


def buffers(*lives: Life, accessed: list[list[int]] | None = None) -> str:
    trace = buffers_trace(list(lives), accessed=accessed)
    use = buffer_use(trace)
    texts = [buffer_text(trace, i, use, absolute=False) for i in range(len(lives))]
    return "\n".join([gap_head(trace), *texts])


def refused(op: str, trace: Trace) -> str:
    try:
        read_filter(f"op={op}", trace)
    except QueryError as error:
        return str(error)
    return ""


Text = Callable[[], str]
CONDITIONS: dict[str, tuple[Text, Text]] = {
    "KV cache was written": (lambda: cache_of(1), lambda: cache_of(0)),
    "cut names were matched by their beginning": (
        lambda: notes(joins((LONG[:19], -1, 256))),
        lambda: notes(joins((LONG[:19], 512, 256))),
    ),
    "names were matched without suffix": (
        lambda: join_text(joins(("output.weight (view)", 768, 256)).joins[0]),
        lambda: join_text(joins(("output.weight", 768, 256)).joins[0]),
    ),
    "durations include ops without a record": (
        lambda: unrecorded_time_text(joined()),
        lambda: unrecorded_time_text(traced()),
    ),
    "node was not recorded": (
        lambda: of_nodes(joined()),
        lambda: of_nodes(with_traced_nodes()),
    ),
    "tensors are read by ops without a record": (
        lambda: facts(joined()),
        lambda: facts(join(traced(), [SideFile(model_trace(MODEL), "map")])),
    ),
    "several buffers have an id": (
        lambda: buffers(
            Life(64, 0, 500, address=64),
            Life(64, 1500, address=64),
            accessed=[[0], [1]],
        ),
        lambda: buffers(Life(64, 0, 500), Life(64, 1500), accessed=[[0], [1]]),
    ),
    "buffer sizes are unknown": (
        lambda: gap_text(buffers_trace([Life(64, 0), Life(-1, 0)])),
        lambda: gap_text(buffers_trace([Life(64, 0), Life(64, 0)])),
    ),
    "release was not recorded": (
        lambda: buffers(Life(64, 0), Life(64, 0, 500)),
        lambda: buffers(Life(64, 0, 400), Life(64, 0, 500), Life(-1, -1)),
    ),
    "allocation was not recorded": (
        lambda: buffers(Life(-1, -1), accessed=[[0]]),
        lambda: buffers(Life(64, 0), accessed=[[0]]),
    ),
    "scheduler buffers were not recorded": (
        lambda: buffers(Life(64, 0, usage=WEIGHTS), Life(64, 0, name="KVCache_CPU")),
        lambda: buffers(Life(64, 0, usage=WEIGHTS), Life(64, 0, usage=COMPUTE)),
    ),
    "weights were not recorded": (
        lambda: buffers(Life(64, 0, usage=COMPUTE)),
        lambda: gap_head(reference_buffers()),
    ),
    "no op of the trace has the name": (
        lambda: refused("qqqqq", moe_reads()),
        lambda: refused("MUL_MAT", moe_reads()) + refused("MUL_MAX", moe_reads()),
    ),
    "trace has no ops": (
        lambda: refused("qqqqq", spans_trace([0], [1])),
        lambda: refused("qqqqq", moe_reads()),
    ),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_text_states_a_condition_where_it_holds(condition: str) -> None:
    holds, fails = CONDITIONS[condition]

    assert new_statements(holds(), fails())


def test_spans_whose_expert_is_not_known_have_a_colour_of_their_own() -> None:
    def categories(more: dict[tuple[int, int], int]) -> set[str]:
        stack = [TensorRow("blk.0.ffn_up_exps.weight", 0, 400, 0, 4)]
        op = Op(0, (Read(0, 400),), "MUL_MAT_ID")
        trace = reads_trace(stack, [op], {(0, 0): [1]}, more)
        categorized = coloring("expert").categorize(trace)
        return {categorized.labels[i] for i in np.unique(categorized.index).tolist()}

    assert len(categories({(0, 0): UNKNOWN_MORE}) - categories({})) == 1


@pytest.mark.parametrize("content", ["[]", "{", " " * 2_000_000])
def test_key_map_that_cannot_be_used_is_a_problem(tmp_path: Path, content: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(content)

    keys, problems = load_overrides(path)

    assert keys == {}
    assert len(problems) == 1
    path.write_text("{}")
    assert load_overrides(path)[1] == []


def test_entries_of_bookmarks_that_are_left_out_are_counted(tmp_path: Path) -> None:
    trace = tmp_path / "run.bin"
    trace.write_bytes(bytes(range(256)) * 40)
    storage = BookmarkStorage(trace, "ns", None, True)
    entry = Entry(Bookmark("a", TimeRange(1, 9), id="0" * 16), 5)
    saved = storage.store(BookmarkSet((entry,)))
    assert saved.place is not None
    assert storage.find().problem == ""
    content = json.loads(saved.place.read_text())
    content["bookmarks"] += [5, {}]
    saved.place.write_text(json.dumps(content))

    assert storage.find().problem.startswith("2 invalid bookmarks of")
