"""What Details says of tensors, buffers, nodes and experts."""

from dataclasses import replace

import numpy as np
import pytest

import builders
from ggscope.analysis.reads.usage import Usage, usage_of
from ggscope.analysis.sessions.correlate import correlate
from ggscope.descriptions.nodes import neighbours, node_facts
from ggscope.descriptions.selected import (
    COUNTING,
    SelectedFacts,
    buffer_facts,
    card_text,
    expert_facts,
    file_bytes,
    place_word,
    tensor_facts,
)
from ggscope.descriptions.spans import Fact
from ggscope.model.builder import TraceBuilder
from ggscope.model.routing import Routing, expert_key
from ggscope.model.selection import Selection
from ggscope.model.tensors import ModelFile, Place, SizeSource
from ggscope.model.trace import Trace
from graph_traces import add_graph
from link_traces import EXPS, SLICE, random_links_trace
from session_files import graph_trace


def by_label(facts: SelectedFacts) -> dict[str, Fact]:
    return {fact.label: fact for fact in facts.facts}


def described(trace: Trace) -> Trace:
    """Return the trace with types, shapes and a model file of 10,000 bytes."""
    n = len(trace.tensors)
    shape = np.zeros((n, 4), np.int64)
    shape[EXPS] = (10, 10, 4, 1)
    places = np.full(n, Place.CALIBRATED, np.uint8)
    places[0] = Place.STATED
    sizes = np.full(n, SizeSource.LISTED, np.uint8)
    sizes[2] = SizeSource.REPAIRED
    return replace(
        trace,
        models=(ModelFile("model.gguf", 10_000),),
        tensors=replace(
            trace.tensors,
            file=np.zeros(n, np.int16),
            type=np.full(n, 12, np.int16),
            shape=shape,
            place=places,
            size_source=sizes,
        ),
    )


@pytest.fixture
def trace() -> Trace:
    return described(random_links_trace(4))


def test_tensor_says_where_it_lies_and_how_that_is_known(trace: Trace) -> None:
    result = tensor_facts(trace, EXPS, None)

    facts = by_label(result)
    assert result.title == "blk.2.ffn_up_exps.weight"
    assert result.kind == "tensor · experts · layer 2"
    assert facts["type"].value == "q4_K"
    assert facts["shape"].value == "10 × 10 × 4"
    assert facts["experts"].value == "4 of 100 B"
    assert facts["offset"].value == "0x03E8 (calibrated)"
    assert facts["offset"].caution
    assert "byte 1,000; calibrated" in facts["offset"].exact
    assert facts["size"].exact == "400 bytes; from a side file"
    assert facts["share of the file"].value == "4.0 %"
    assert facts["file"].value == "model.gguf"
    assert facts["accesses"].value == COUNTING


def test_stated_offsets_and_repaired_sizes_say_so(trace: Trace) -> None:
    assert not by_label(tensor_facts(trace, 0, None))["offset"].caution
    size = by_label(tensor_facts(trace, 2, None))["size"]
    assert size.value == "50 B repaired"
    assert size.caution


def test_unknown_things_of_a_tensor_are_not_available() -> None:
    facts = by_label(tensor_facts(random_links_trace(4), 1, None))

    for label in ("offset", "type", "shape"):
        assert facts[label].value == "N/A"
    assert "share of the file" not in facts
    assert "file" not in facts


def test_slice_of_an_expert_names_it(trace: Trace) -> None:
    assert by_label(tensor_facts(trace, SLICE, None))["expert"].value == "3"


def test_leaf_is_explained_as_inferred(trace: Trace) -> None:
    first = tensor_facts(trace, 0, None, "RoPE positions").facts[0]

    assert first == Fact("stands for", "RoPE positions (inferred)", caution=True)


def test_figures_are_reported_with_every_digit(trace: Trace) -> None:
    figures = usage_of(trace, Selection("tensors", (0,)))

    facts = by_label(tensor_facts(trace, 0, figures))

    assert facts["accesses"].value == str(figures.n_accesses)
    assert facts["bytes read"].exact == f"{figures.bytes_read:,} bytes"
    assert facts["spans"].value == str(figures.n_spans)
    assert facts["tokens"].value == str(figures.n_tokens)
    times = [f for f in tensor_facts(trace, 0, figures).facts if f.label == "time"]
    assert len(times) == int((figures.n_by_quality > 0).sum())
    assert all(f.caution == (f.qualifier != "measured") for f in times)


def test_size_of_the_file_is_not_known_from_accesses() -> None:
    trace = random_links_trace(4)

    assert file_bytes(trace, 0) == -1
    assert file_bytes(trace, 1) == -1
    assert place_word(trace, 0) == "from trace"
    assert place_word(trace, 1) == ""
    assert not any("of the file" in text for text in card_text(trace, 0))


def test_listed_file_ends_with_its_last_tensor_where_no_header_shows() -> None:
    trace = random_links_trace(4)
    places = np.where(trace.tensors.offset >= 0, Place.LISTED, Place.UNKNOWN)
    tensors = replace(trace.tensors, place=places.astype(np.uint8))
    trace = replace(trace, tensors=tensors)

    assert file_bytes(trace, 0) == 1400
    assert file_bytes(trace, 1) == -1


def test_card_shows_type_and_shares(trace: Trace) -> None:
    assert card_text(trace, EXPS) == ("q4_K", "4.0 % of the file")
    assert card_text(trace, EXPS, 100) == (
        "q4_K",
        "4.0 % of the file",
        "25.0 % of the tensor",
    )
    assert card_text(trace, -1) == ()


def test_buffer_says_its_life(trace: Trace) -> None:
    buffers = replace(
        trace.buffers,
        allocated=np.array([0, 0, 10, -1], np.int64),
        freed=np.array([-1, 0, 60, -1], np.int64),
        usage=np.array([0, 1, 2, 9], np.uint8),
        layer=np.array([-1, 3, -1, -1], np.int16),
    )
    trace = replace(trace, buffers=buffers)

    forever, brief, known = (
        by_label(buffer_facts(trace, row, None)) for row in (0, 2, 3)
    )

    assert forever["freed"].value == "never"
    assert forever["id"].value == "0x00A0"
    assert brief["life"].value == "50 ns"
    assert buffer_facts(trace, 2, None).kind == "compute buffer"
    assert buffer_facts(trace, 3, None).kind == "other buffer"
    assert known["allocated"].value == known["id"].value == "N/A"
    assert by_label(buffer_facts(trace, 1, None))["layer"].value == "3"


def test_expert_says_its_choices_and_its_bytes(trace: Trace) -> None:
    key = expert_key(2, 3)
    routing = replace(trace.routing, layer=np.full(10, 2, np.int16))
    trace = replace(trace, routing=routing)
    figures = usage_of(trace, Selection("experts", (key,)))

    facts = by_label(expert_facts(trace, key, figures))

    in_layer = routing.layer == 2
    n = int((in_layer & (routing.expert == 3)).sum())
    assert facts["chosen"].value.startswith(f"{n} (")
    assert f"of {int(in_layer.sum())} choices" in facts["chosen"].exact
    assert facts["bytes in the file"].exact == "100 bytes"
    assert facts["blk.2.ffn_up_exps.weight"].value == "0x0514 – 0x0578"
    unrouted = by_label(
        expert_facts(replace(trace, routing=Routing.blank()), key, None)
    )
    assert unrouted["chosen"].value == "N/A"


def test_expert_of_stacks_that_are_read_whole_cannot_be_reported(trace: Trace) -> None:
    whole = builders.llama_like_trace()
    figures = usage_of(whole, Selection("experts", (expert_key(0, 1),)))

    facts = by_label(expert_facts(whole, expert_key(0, 1), figures))

    assert facts["accesses"].value == facts["bytes in the file"].value == "N/A"
    assert "name no expert" in facts["accesses"].exact


def test_node_that_is_not_in_the_trace_says_why(trace: Trace) -> None:
    builder = TraceBuilder()
    builder.strings, builder.ops = trace.strings, builders.OPS
    names = ["mystery (view)", "leaf_1", "t0"]
    add_graph(builder, names, [(1, 0)], ops=[1, 1, 1], leaves=[1], layers=[3, -1, -1])
    other = replace(trace, graphs=builder.snapshot(builders.make_info()).graphs)
    correlation = correlate(other)

    op = by_label(node_facts(other, 0, None, correlation))
    leaf = by_label(node_facts(other, 1, None, correlation))

    assert op["in the trace"] == Fact(
        "in the trace", "not found", "no span with this name, op and order"
    )
    assert (op["tensor"].value, op["layer"].value) == ("mystery", "3")
    assert leaf["in the trace"].exact == "no op computes it"
    assert leaf["note"].value == "leaf: nothing computes it"
    waits = by_label(node_facts(other, 0, None))["in the trace"]
    assert waits.exact == "matching spans…"


def test_tensor_with_an_odd_shape_or_no_size_is_still_described(trace: Trace) -> None:
    shape = np.zeros((len(trace.tensors), 4), np.int64)
    shape[0] = (8, 0, 4, 1)
    odd = replace(
        trace, tensors=replace(trace.tensors, shape=shape), models=(ModelFile("m", -1),)
    )

    facts = by_label(tensor_facts(odd, 0, None))

    assert facts["shape"].value == "8 × ? × 4"
    assert facts["share of the file"].value == "3.6 %"
    assert by_label(tensor_facts(odd, 4, None))["size"].value == "N/A"
    assert by_label(tensor_facts(odd, 1, None))["shape"].value == "N/A"


def test_node_says_how_it_was_found_and_never_compares_addresses(trace: Trace) -> None:
    correlation = correlate(trace)
    figures = usage_of(trace, Selection("nodes", (1,)), correlation)

    result = node_facts(trace, 1, figures, correlation)

    facts = by_label(result)
    assert (result.title, result.kind) == ("t1", "graph node · MUL")
    assert facts["shape"].value == "64 × 2"
    assert facts["type"].value == "f32"
    assert "not of tensor data" in facts["ggml_tensor at"].exact
    assert facts["in the trace"].value.startswith("by name")
    assert facts["spans"].value == str(figures.n_spans)


def test_leaf_that_ops_read_is_in_the_trace(trace: Trace) -> None:
    (graph,) = trace.graphs
    leaf = replace(trace, graphs=(replace(graph, op=np.full_like(graph.op, -1)),))
    correlation = correlate(leaf)
    selection = Selection("nodes", (0,))
    tensor = Selection("tensors", (int(graph.tensor[0]),))
    figures = usage_of(leaf, selection, correlation)

    facts = by_label(node_facts(leaf, 0, figures, correlation))

    assert figures.n_spans == usage_of(leaf, tensor).n_spans > 0
    assert facts["in the trace"].value != "not found"
    assert facts["accesses"].value == str(usage_of(leaf, tensor).n_accesses)


def test_nameless_input_of_a_graph_says_what_it_is_for() -> None:
    nodes = [("leaf_4", ""), ("Qcur-0", "ROPE"), ("leaf_8", "")]
    alone = graph_trace(nodes, [(0, 1, 1), (2, 1, 0)])

    inputs = [by_label(node_facts(alone, node, None)) for node in (0, 2)]

    assert inputs[0]["stands for"].value == "RoPE positions (inferred)"
    assert inputs[0]["stands for"].caution
    assert "stands for" not in inputs[1]


def test_node_of_a_graph_alone_has_no_figures(trace: Trace) -> None:
    alone = replace(trace, spans=builders.empty_trace().spans)

    facts = by_label(node_facts(alone, 0, None))

    assert facts["in the trace"].value == "N/A"
    assert "accesses" not in facts


def test_neighbours_are_ids_over_all_graphs(trace: Trace) -> None:
    two = replace(trace, graphs=trace.graphs * 2)

    assert neighbours(two, 1) == ([0], [2])
    assert neighbours(two, 4) == ([3], [5])
    with pytest.raises(IndexError):
        neighbours(two, 6)


def test_node_figures_without_matching_are_empty(trace: Trace) -> None:
    figures = usage_of(trace, Selection("nodes", (1,)))

    assert isinstance(figures, Usage)
    assert (figures.n_spans, figures.n_accesses, figures.time) == (0, 0, None)
