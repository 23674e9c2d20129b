"""One selection through all panes, by clicking through a whole experiment."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from buffer_traces import MIB, Life, buffers_trace
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.gui.panes.workspace import Workspace
from ggscope.model.graph import first_node
from ggscope.model.routing import expert_key, of_expert_key
from ggscope.model.selection import Selection
from ggscope.model.trace import Trace
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from panes import (
    alive_buffers,
    broken,
    buffer_place,
    click,
    click_row,
    experiment,
    expert_place,
    highlighted_buffers,
    highlighted_bytes,
    highlighted_experts,
    highlighted_nodes,
    highlighted_spans,
    node_place,
    pane,
    row_named,
    settle,
    tensor_place,
)
from support import need_corpus

Opened = Callable[[Path], Document]
ALT = Qt.KeyboardModifier.AltModifier
WEIGHT = "blk.1.attn_q.weight"
STACK = "blk.1.ffn_up_exps.weight"


@pytest.fixture
def document(opened: Opened, window: MainWindow, qtbot: QtBot) -> Iterator[Document]:
    """Return the sample experiment in the grid, with everything computed."""
    window.resize(1600, 1000)
    made = opened(experiment())
    made.workspace.set_layout_name("grid")
    settle(qtbot, made)
    yield made
    assert broken(made) == []


@pytest.fixture
def workspace_of(
    qtbot: QtBot, settings: Settings
) -> Iterator[Callable[[Trace], tuple[Workspace, Session]]]:
    """Return a function that shows a trace in the panes of a session, no window."""
    made: list[tuple[Workspace, Session]] = []

    def show(trace: Trace) -> tuple[Workspace, Session]:
        session = Session()
        session.set_trace(trace)
        workspace = Workspace(session, settings, theme("dark"))
        made.append((workspace, session))
        qtbot.addWidget(workspace)
        workspace.resize(1400, 900)
        workspace.show()
        qtbot.waitExposed(workspace)
        workspace.filler.finish()
        return workspace, session

    yield show
    for workspace, session in made:
        workspace.release()
        session.close()


def trace_of(document: Document) -> Trace:
    trace = document.session.trace
    assert trace is not None
    return trace


def spans_reading(trace: Trace, tensor: int) -> set[int]:
    """Return the spans that access a tensor, found the slow way."""
    accesses = trace.accesses
    reading = set()
    for span in range(len(trace.spans)):
        pattern = int(accesses.pattern[span])
        if pattern >= 0:
            rows = slice(int(accesses.first[pattern]), int(accesses.first[pattern + 1]))
            if tensor in accesses.patterns.tensor[rows]:
                reading.add(span)
    return reading


def place_of(trace: Trace, tensor: int) -> tuple[int, int]:
    begin = int(trace.tensors.offset[tensor])
    return begin, begin + int(trace.tensors.size[tensor])


def show(document: Document, qtbot: QtBot, view_id: str):
    """Bring a view of the drawer to the front and return it."""
    document.workspace.show_view(view_id)
    settle(qtbot, document)
    return pane(document, view_id)


def nodes_of_shown_graph(document: Document, ids: np.ndarray) -> set[int]:
    """Return node ids as rows of the graph that is drawn."""
    graph = pane(document, "graph")
    trace = trace_of(document)
    first = first_node(trace.graphs, graph.number)
    n = len(trace.graphs[graph.number])
    return {int(i) - first for i in ids if first <= i < first + n}


def test_table_row_lights_file_graph_and_details(
    document: Document, qtbot: QtBot
) -> None:
    trace, session = trace_of(document), document.session
    weight = row_named(trace, WEIGHT)
    span = min(spans_reading(trace, weight))

    click_row(pane(document, "table"), span)
    settle(qtbot, document)

    assert session.selection.current == Selection("spans", (span,))
    assert place_of(trace, weight) in highlighted_bytes(pane(document, "heatmap"))
    nodes = nodes_of_shown_graph(document, session.linking.linked.nodes)
    assert len(nodes) == 1
    graph = pane(document, "graph")
    assert nodes <= highlighted_nodes(graph)
    assert graph.canvas.rect().contains(node_place(graph, nodes.pop()))
    cards = pane(document, "details").sources.accesses
    assert WEIGHT in [card.name for card in cards]


def test_row_of_another_pass_brings_that_graph_to_the_front(
    document: Document, qtbot: QtBot
) -> None:
    trace, session = trace_of(document), document.session
    span = sorted(spans_reading(trace, row_named(trace, WEIGHT)))[1]

    click_row(pane(document, "table"), span)
    settle(qtbot, document)

    node = int(session.linking.linked.nodes[0])
    graph = pane(document, "graph")
    assert graph.number == int(node >= first_node(trace.graphs, 1))
    assert nodes_of_shown_graph(
        document, session.linking.linked.nodes
    ) <= highlighted_nodes(graph)


def test_back_and_forward_walk_through_what_was_selected(
    document: Document, window: MainWindow, qtbot: QtBot
) -> None:
    trace, session = trace_of(document), document.session
    span = min(spans_reading(trace, row_named(trace, WEIGHT)))
    click_row(pane(document, "table"), span)
    settle(qtbot, document)
    session.history.record()  # the person looks at it for a while
    heatmap = pane(document, "heatmap")
    click(heatmap, tensor_place(heatmap, row_named(trace, STACK)))
    settle(qtbot, document)
    second = session.selection.current
    assert second.table == "tensors"

    QTest.keyClick(window, Qt.Key.Key_Left, ALT)
    settle(qtbot, document)
    assert session.selection.current == Selection("spans", (span,))
    assert session.linking.linked.selection == session.selection.current

    QTest.keyClick(window, Qt.Key.Key_Right, ALT)
    settle(qtbot, document)
    assert session.selection.current == second
    assert session.linking.linked.selection == second


def test_click_in_the_file_map_lights_the_spans_that_read_there(
    document: Document, qtbot: QtBot
) -> None:
    trace, session = trace_of(document), document.session
    weight = row_named(trace, WEIGHT)
    heatmap = pane(document, "heatmap")
    heatmap.fit_unit(int(np.flatnonzero(heatmap.base.files.tensor == weight)[0]))

    click(heatmap, tensor_place(heatmap, weight))
    settle(qtbot, document)

    assert session.selection.current == Selection("tensors", (weight,))
    expected = spans_reading(trace, weight)
    assert highlighted_spans(pane(document, "timeline")) == expected
    nodes = nodes_of_shown_graph(document, session.linking.linked.nodes)
    assert nodes
    assert nodes <= highlighted_nodes(pane(document, "graph"))
    assert WEIGHT in pane(document, "details").markdown()


def test_steps_go_through_the_spans_of_a_tensor_in_time(
    document: Document, window: MainWindow, qtbot: QtBot
) -> None:
    trace, session = trace_of(document), document.session
    weight = row_named(trace, WEIGHT)
    session.selection.select_tensor(weight)
    settle(qtbot, document)
    in_time = sorted(spans_reading(trace, weight), key=lambda i: trace.spans.start[i])

    seen = []
    for _ in in_time:
        QTest.keyClick(pane(document, "timeline"), Qt.Key.Key_Period)
        seen.append(session.linking.current_span)

    assert seen == in_time
    assert session.selection.current == Selection("tensors", (weight,))


def test_click_on_a_node_lights_its_spans_and_bytes(
    document: Document, qtbot: QtBot
) -> None:
    trace, session = trace_of(document), document.session
    graph = pane(document, "graph")
    graph.open_all(True)
    settle(qtbot, document)
    weight = row_named(trace, WEIGHT)
    span = min(spans_reading(trace, weight))
    node = session.linking.correlation.node_of(span)[0]
    graph.show_graph(int(node >= first_node(trace.graphs, 1)))
    settle(qtbot, document)
    (row,) = nodes_of_shown_graph(document, np.array([node]))
    graph.reveal(np.array([row]))

    click(graph, node_place(graph, row))
    settle(qtbot, document)

    assert session.selection.current == Selection("nodes", (int(node),))
    assert span in highlighted_spans(pane(document, "timeline"))
    assert place_of(trace, weight) in highlighted_bytes(pane(document, "heatmap"))


def test_click_on_an_expert_lights_its_slices_and_spans(
    document: Document, qtbot: QtBot
) -> None:
    trace, session = trace_of(document), document.session
    experts = show(document, qtbot, "experts")
    layer, expert = 1, int(trace.routing.expert[trace.routing.layer == 1][0])

    click(experts, expert_place(experts, layer, expert))
    settle(qtbot, document)

    assert session.selection.current == Selection(
        "experts", (expert_key(layer, expert),)
    )
    assert highlighted_experts(experts) == {expert_key(layer, expert)}
    stack = row_named(trace, STACK)
    begin, size = int(trace.tensors.offset[stack]), int(trace.tensors.size[stack])
    n = int(trace.tensors.n_experts[stack])
    slice_ = (begin + expert * size // n, begin + (expert + 1) * size // n)
    highlighted = highlighted_bytes(pane(document, "heatmap"))
    assert any(a <= slice_[0] and slice_[1] <= b for a, b in highlighted)
    spans = highlighted_spans(pane(document, "timeline"))
    assert spans
    assert {int(trace.spans.layer[i]) for i in spans} == {layer}


def test_span_that_reads_experts_lights_their_cells(
    document: Document, qtbot: QtBot
) -> None:
    trace = trace_of(document)
    experts = show(document, qtbot, "experts")
    span = int(trace.routing.span[trace.routing.layer == 2][0])

    click_row(pane(document, "table"), span)
    settle(qtbot, document)

    chosen = trace.routing.expert[trace.routing.span == span]
    expected = {expert_key(2, int(expert)) for expert in chosen}
    assert expected <= highlighted_experts(experts)
    assert {of_expert_key(key)[0] for key in highlighted_experts(experts)} == {2}


def test_click_on_a_buffer_selects_it_and_a_span_lights_those_alive(
    document: Document, qtbot: QtBot
) -> None:
    trace, session = trace_of(document), document.session
    document.workspace.choose_view(document.workspace.cells[1], "buffers")
    settle(qtbot, document)
    buffers = pane(document, "buffers")
    row = int(np.argmax(trace.buffers.size))

    click(buffers, buffer_place(buffers, row))
    settle(qtbot, document)

    assert session.selection.current == Selection("buffers", (row,))
    assert (
        trace.strings[trace.buffers.name[row]] in pane(document, "details").markdown()
    )
    session.selection.select_span(0)
    settle(qtbot, document)
    at = int(trace.spans.start[0])
    freed = trace.buffers.freed
    is_alive = (trace.buffers.allocated <= at) & ((freed < 0) | (freed > at))
    assert alive_buffers(buffers) == set(np.flatnonzero(is_alive).tolist())


def test_click_on_a_buffer_lights_its_spans_and_a_span_its_buffer(
    workspace_of: Callable[[Trace], tuple[Workspace, Session]], qtbot: QtBot
) -> None:
    workspace, session = workspace_of(
        buffers_trace([Life(MIB), Life(2 * MIB, 500)], accessed=[[0], [1], [0, 1], []])
    )
    workspace.choose_view(workspace.cells[1], "buffers")
    buffers = workspace.views("buffers")[0]
    (timeline,) = workspace.views("timeline")
    qtbot.waitUntil(lambda: buffers.result is not None and session.tasks.is_idle)

    click(buffers, buffer_place(buffers, 1))
    qtbot.waitUntil(lambda: session.linking.linked.selection.table == "buffers")

    assert highlighted_spans(timeline) == {1, 2}
    session.selection.select_span(2)
    qtbot.waitUntil(lambda: session.linking.linked.selection.table == "spans")
    assert highlighted_buffers(buffers) == {0, 1}


def test_details_link_shows_the_node_where_no_graph_was_in_sight(
    document: Document, qtbot: QtBot
) -> None:
    trace, session = trace_of(document), document.session
    document.workspace.set_layout_name("dual")
    settle(qtbot, document)
    span = min(spans_reading(trace, row_named(trace, WEIGHT)))
    click_row(pane(document, "table"), span)
    settle(qtbot, document)

    QTest.mouseClick(
        pane(document, "details").show_links.graph, Qt.MouseButton.LeftButton
    )
    settle(qtbot, document)

    graph = pane(document, "graph")
    assert graph.isVisible()
    assert session.selection.current.table == "nodes"
    (row,) = nodes_of_shown_graph(document, np.array(session.selection.current.ids))
    assert row in highlighted_nodes(graph)
    assert graph.canvas.rect().contains(node_place(graph, row))


def test_corpus_experiment_walks_from_row_to_node_to_bytes(
    opened: Opened, window: MainWindow, qtbot: QtBot
) -> None:
    run = need_corpus() / "bsc" / "962e44d2" / "tensor-tracing"
    folder = run / "webui" / "public" / "data"
    if not folder.is_dir():
        pytest.skip("this experiment is not in the corpus")
    document = opened(folder)
    document.workspace.set_layout_name("grid")
    settle(qtbot, document)
    trace, session = trace_of(document), document.session
    weight = row_named(trace, "blk.3.attn_q.weight")
    span = min(spans_reading(trace, weight))

    click_row(pane(document, "table"), span)
    settle(qtbot, document)

    assert place_of(trace, weight) in highlighted_bytes(pane(document, "heatmap"))
    nodes = nodes_of_shown_graph(document, session.linking.linked.nodes)
    assert nodes
    assert nodes <= highlighted_nodes(pane(document, "graph"))
    assert session.linking.correlation.n_found == session.linking.correlation.n_all
    assert broken(document) == []
