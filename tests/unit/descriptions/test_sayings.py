"""Claims, each said of a trace for which it is true, and not of its like."""

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
from ggscope.descriptions.files import join_words
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
from ggscope.views.buffers.texts import buffer_words, gap_head, gap_words
from reads_builder import Op, Read, TensorRow, moe_reads, reads_trace
from sentences import assert_sides
from session_files import model_trace, reading_trace
from silent_ops import MODEL, joined, traced

LONG = "blk.0.attn_output.weight"
WHOLE = [("token_embd.weight", 0, 512), (LONG, 512, 256), ("output.weight", 768, 256)]


def facts(trace: Trace) -> str:
    found = hot_facts(trace, hot_cold(trace))
    return "\n".join(f"{fact.title} | {fact.words} | {fact.remark}" for fact in found)


def notes(trace: Trace) -> str:
    return "\n".join(warning.message for warning in trace.warnings)


def joins(*reads: tuple[str, int, int]) -> Trace:
    trace = reading_trace([("token_embd.weight", 0, 512), *reads])
    return join(trace, [SideFile(model_trace(WHOLE), "map")])


def of_nodes(trace: Trace) -> str:
    graph, found = trace.graphs[0], correlate(trace)
    measures = node_measures(trace, 0, found)
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
    told = (Read(2, 8, **side), Read(0, 16, kind=AccessKind.WRITE, **side))
    ops = [Op(0, told, "ADD")]
    ops += [Op(20 * i, put, "SET_ROWS") for i in range(1, write + 1)]
    return facts(reads_trace(tensors, ops))


def buffers(*lives: Life, accessed: list[list[int]] | None = None) -> str:
    trace = buffers_trace(list(lives), accessed=accessed)
    use = buffer_use(trace)
    words = [buffer_words(trace, i, use, absolute=False) for i in range(len(lives))]
    return "\n".join([gap_head(trace), *words])


def refused(op: str, trace: Trace) -> str:
    try:
        read_filter(f"op={op}", trace)
    except QueryError as error:
        return str(error)
    return ""


Said = Callable[[], str]
SIDES: dict[str, tuple[Said, Said]] = {
    "* to * written": (lambda: cache_of(1), lambda: cache_of(0)),
    "; * of them (marked ~) from their beginning only": (
        lambda: notes(joins((LONG[:19], -1, 256))),
        lambda: notes(joins((LONG[:19], 512, 256))),
    ),
    "name without suffix": (
        lambda: join_words(joins(("output.weight (view)", 768, 256)).joins[0]),
        lambda: join_words(joins(("output.weight", 768, 256)).joins[0]),
    ),
    "*. Derived durations last until the next record, so they include these ops: "
    "durations of other ops are upper limits.": (
        lambda: unrecorded_time_text(joined()),
        lambda: unrecorded_time_text(traced()),
    ),
    "not recorded in any pass": (
        lambda: of_nodes(joined()),
        lambda: of_nodes(with_traced_nodes()),
    ),
    "read by ops of the graph that have no record: * (*, * tensors and expert "
    "slices)": (
        lambda: facts(joined()),
        lambda: facts(join(traced(), [SideFile(model_trace(MODEL), "map")])),
    ),
    "(of {0} buffers with this id)": (
        lambda: buffers(
            Life(64, 0, 500, address=64),
            Life(64, 1500, address=64),
            accessed=[[0], [1]],
        ),
        lambda: buffers(Life(64, 0, 500), Life(64, 1500), accessed=[[0], [1]]),
    ),
    "Buffers of unknown size are not included in the sums.": (
        lambda: gap_words(buffers_trace([Life(64, 0), Life(-1, 0)])),
        lambda: gap_words(buffers_trace([Life(64, 0), Life(64, 0)])),
    ),
    "no release recorded": (
        lambda: buffers(Life(64, 0), Life(64, 0, 500)),
        lambda: buffers(Life(64, 0, 400), Life(64, 0, 500), Life(-1, -1)),
    ),
    "allocation not recorded": (
        lambda: buffers(Life(-1, -1), accessed=[[0]]),
        lambda: buffers(Life(64, 0), accessed=[[0]]),
    ),
    "recording incomplete: no scheduler buffers": (
        lambda: buffers(Life(64, 0, usage=WEIGHTS), Life(64, 0, name="KVCache_CPU")),
        lambda: buffers(Life(64, 0, usage=WEIGHTS), Life(64, 0, usage=COMPUTE)),
    ),
    "recording incomplete: no weights": (
        lambda: buffers(Life(64, 0, usage=COMPUTE)),
        lambda: gap_head(reference_buffers()),
    ),
    "This trace has **.": (
        lambda: refused("qqqqq", moe_reads()),
        lambda: refused("MUL_MAT", moe_reads()) + refused("MUL_MAX", moe_reads()),
    ),
    "This trace has no ops.": (
        lambda: refused("qqqqq", spans_trace([0], [1])),
        lambda: refused("qqqqq", moe_reads()),
    ),
}


@pytest.mark.parametrize("claim", SIDES)
def test_claim_is_said_where_it_is_true_and_nowhere_else(claim: str) -> None:
    said, unsaid = SIDES[claim]

    assert_sides(claim, said(), unsaid())


def test_spans_whose_expert_is_not_known_have_a_colour_of_their_own() -> None:
    def used(trace: Trace) -> str:
        found = coloring("expert").categorize(trace)
        present = np.unique(found.index)
        return "\n".join(found.labels[i] for i in present.tolist())

    def one_op(more: dict[tuple[int, int], int]) -> Trace:
        stack = [TensorRow("blk.0.ffn_up_exps.weight", 0, 400, 0, 4)]
        op = Op(0, (Read(0, 400),), "MUL_MAT_ID")
        return reads_trace(stack, [op], {(0, 0): [1]}, more)

    assert_sides(
        "experts not known", used(one_op({(0, 0): UNKNOWN_MORE})), used(one_op({}))
    )


@pytest.mark.parametrize(
    ("content", "claim"),
    [
        ("[]", "* is not a JSON object and is ignored."),
        ("{", "Cannot read *: *. It is ignored."),
        (" " * 2_000_000, "* is too large for a key map and is ignored."),
    ],
)
def test_key_map_that_cannot_be_used_says_why(
    tmp_path: Path, content: str, claim: str
) -> None:
    path = tmp_path / "keys.json"
    path.write_text(content)
    _, problems = load_overrides(path)
    path.write_text("{}")
    _, none = load_overrides(path)

    assert_sides(claim, "\n".join(problems), "\n".join(none))


def test_entries_of_bookmarks_that_are_left_out_are_counted(tmp_path: Path) -> None:
    trace = tmp_path / "run.bin"
    trace.write_bytes(bytes(range(256)) * 40)
    shelf = BookmarkStorage(trace, "ns", None, True)
    entry = Entry(Bookmark("a", TimeRange(1, 9), id="0" * 16), 5)
    kept = shelf.store(BookmarkSet((entry,)))
    assert kept.place is not None
    whole = shelf.find()
    text = json.loads(kept.place.read_text())
    text["bookmarks"] += [5, {}]
    kept.place.write_text(json.dumps(text))

    found = shelf.find()

    claim = (
        "* * of its bookmark file left out: they make no sense, or are more than fit."
    )
    assert_sides(claim, found.problem, whole.problem)
    assert found.problem.startswith("2 entries of")
