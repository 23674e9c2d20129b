"""What the picture of a graph consists of."""

from dataclasses import replace

import numpy as np
import pytest

import graph_traces
from ggscope.analysis.graph.layout import BoxKind, GraphChoice
from ggscope.analysis.graph.measures import edges_within, predecessors
from ggscope.model.trace import Trace
from ggscope.render.batch import DisplayList, ImageBatch, LineBatch, Pattern, RectBatch
from ggscope.render.graph.compose import compose_graph
from ggscope.render.graph.look import GraphColorBy
from ggscope.render.graph.marks import legend_picture, minimap_place
from ggscope.render.graph.scene import GraphScene, boxes_of, visible_boxes
from ggscope.render.theme import THEMES, contrast, theme
from graph_scenes import graph_scene
from scenes import texts_of

ALL = GraphChoice(None)

pytestmark = pytest.mark.usefixtures("qapp")


@pytest.fixture(scope="module")
def trace() -> Trace:
    return graph_traces.network_trace(6, 2)


def rects(picture: DisplayList) -> list[RectBatch]:
    return [b for b in picture.batches if isinstance(b, RectBatch)]


def n_filled(picture: DisplayList, color: int) -> int:
    return sum(int((b.fill == np.uint32(color)).sum()) for b in rects(picture))


def n_bordered(picture: DisplayList, color: int) -> int:
    return sum(
        int((b.border == np.uint32(color)).sum())
        for b in rects(picture)
        if b.border is not None
    )


def test_closed_layers_say_what_is_in_them(trace: Trace) -> None:
    texts = texts_of(compose_graph(graph_scene(trace)))

    assert "Layer 0" in texts
    assert "13 ops · 6 inputs" in texts
    assert "GET_ROWS inp_embd" in texts


def test_nodes_say_op_name_and_shape(trace: Trace) -> None:
    scene = graph_scene(trace, choice=GraphChoice(frozenset({0})))

    texts = texts_of(compose_graph(scene))

    assert "MUL_MAT Qcur-0" in texts
    assert "ROPE Qcur-0" in texts
    assert "64 × 4" in texts
    assert "blk.0.attn_q.weight" in texts
    assert any(t.startswith("▾ Layer 0") for t in texts)


@pytest.mark.parametrize(
    ("zoom", "expected", "unwanted"),
    [(1.0, "64 × 4", ""), (0.4, "MUL_MAT", "64 × 4"), (0.1, "", "MUL_MAT")],
)
def test_words_come_with_the_zoom(
    trace: Trace, zoom: float, expected: str, unwanted: str
) -> None:
    scene = graph_scene(trace, choice=GraphChoice(frozenset({0})), zoom=zoom)

    texts = texts_of(compose_graph(scene))

    assert not expected or expected in texts
    assert not unwanted or not any(unwanted in t for t in texts)


def test_only_boxes_in_the_picture_are_drawn(trace: Trace) -> None:
    scene = graph_scene(trace, choice=ALL)
    layout = scene.layout

    inside = set(visible_boxes(scene).tolist())

    for box in range(len(layout)):
        seen = (
            layout.y1[box] > scene.y
            and layout.y0[box] < scene.y + scene.height
            and layout.x1[box] > scene.x
            and layout.x0[box] < scene.x + scene.width
        )
        assert (box in inside) == seen
    assert 0 < len(inside) < len(layout)


def test_lines_out_of_sight_are_left_out(trace: Trace) -> None:
    near = graph_scene(trace, choice=ALL)
    far = replace(near, x=1e7)

    lines = [b for b in compose_graph(far).batches if isinstance(b, LineBatch)]

    assert any(isinstance(b, LineBatch) for b in compose_graph(near).batches)
    assert lines == []


def test_selected_linked_and_found_nodes_are_outlined(trace: Trace) -> None:
    scene = graph_scene(trace, choice=GraphChoice(frozenset({0})))
    n = len(scene.table)
    one = [np.arange(n) == k for k in (2, 3, 4)]
    colors = scene.theme

    picture = compose_graph(replace(scene, selected=one[0], linked=one[1], hits=one[2]))

    assert n_bordered(picture, colors.selection) == 3
    assert n_bordered(picture, colors.accent) == 2 + 1  # and the overview's frame
    assert n_bordered(picture, colors.caution) == 1


def test_selection_in_a_closed_layer_lights_its_box(trace: Trace) -> None:
    scene = graph_scene(trace)
    inside = np.arange(len(scene.table)) == 3

    boxes = boxes_of(scene.layout, inside)

    assert scene.layout.kind[boxes].tolist() == [BoxKind.LAYER]


def test_all_copies_of_a_repeated_input_are_highlighted(trace: Trace) -> None:
    scene = graph_scene(trace, choice=GraphChoice(None, None, repeats_inputs=True))
    shared = scene.layout.layers.is_shared
    first = np.arange(len(shared)) == np.flatnonzero(shared)[0]

    boxes = boxes_of(scene.layout, first)

    uses = int((scene.table.source == np.flatnonzero(shared)[0]).sum())
    assert len(boxes) == uses > 1


def test_path_is_bright_and_the_rest_is_pale(trace: Trace) -> None:
    scene = graph_scene(trace, choice=ALL)
    nodes = predecessors(scene.table, np.array([5]))
    highlighted = replace(
        scene, highlighted=nodes, highlighted_edges=edges_within(scene.table, nodes)
    )

    picture = compose_graph(highlighted)

    lines = [b for b in picture.batches if isinstance(b, LineBatch)]
    bright = sum(
        int((b.color == np.uint32(scene.theme.selection)).sum()) for b in lines
    )
    assert bright > 0
    plain = compose_graph(scene)
    node = int(scene.layout.box_of[6])
    assert n_filled(picture, int(scene.look.fill[node])) < n_filled(
        plain, int(scene.look.fill[node])
    )


def test_heat_shows_missing_from_zero(trace: Trace) -> None:
    scene = graph_scene(trace, choice=ALL, by=GraphColorBy.ACCESSES)
    names = [trace.strings[int(i)] for i in scene.table.name]
    layout, look = scene.layout, scene.look

    unused = layout.box_of[names.index("output.weight")]
    computed = layout.box_of[0]

    assert look.values[unused] == 0
    assert look.pattern[unused] == Pattern.SOLID
    assert np.isnan(look.values[computed])
    assert look.pattern[computed] == Pattern.FAINT_HATCH


def test_hottest_node_has_the_hottest_colour(trace: Trace) -> None:
    scene = graph_scene(trace, choice=ALL, by=GraphColorBy.TIME)
    longest = int(np.nanargmax(scene.look.values))

    last = 6 * graph_traces.N_LAYER_NODES  # node k takes (k + 1) × 1,000 ticks

    assert scene.layout.node[longest] == last
    assert scene.look.scale is not None
    assert scene.look.scale.high == scene.look.values[longest]


def test_inputs_take_no_time_and_are_not_missing(trace: Trace) -> None:
    scene = graph_scene(trace, choice=ALL, by=GraphColorBy.TIME)
    inputs = scene.layout.box_of[scene.layout.layers.is_input]
    untimed = scene.layout.box_of[1 + 6 * graph_traces.N_LAYER_NODES]

    assert (scene.look.pattern[inputs] == Pattern.SOLID).all()
    assert scene.look.pattern[untimed] == Pattern.FAINT_HATCH


def test_layers_have_a_scale_of_their_own(trace: Trace) -> None:
    scene = graph_scene(trace, choice=GraphChoice(frozenset({0})), by=GraphColorBy.TIME)
    picture = legend_picture(scene, 900.0, 1.0)

    assert scene.look.scale is not None
    assert scene.look.layer_scale is not None
    assert scene.look.layer_scale.high > scene.look.scale.high
    assert any(text.endswith(" in a layer") for text in texts_of(picture))


def test_closed_layer_has_the_time_of_all_its_nodes(trace: Trace) -> None:
    scene = graph_scene(trace, by=GraphColorBy.TIME)
    box = scene.layout.box_of_layer(1)
    first = 1 + graph_traces.N_LAYER_NODES
    rows = np.arange(first, first + graph_traces.N_LAYER_NODES)

    assert scene.look.values[box] == (rows + 1).sum() * 2_000


def test_mixture_of_a_closed_layer_adds_up(trace: Trace) -> None:
    scene = graph_scene(trace)
    layers = scene.layout.kind == BoxKind.LAYER

    assert scene.look.shares[layers].sum(1) == pytest.approx(1.0)
    assert [word for word, _ in scene.look.legend] == [
        "input", "attention", "FFN", "norm", "output", "other",
    ]  # fmt: skip


@pytest.mark.parametrize("by", list(GraphColorBy))
def test_legend_explains_every_colouring(trace: Trace, by: GraphColorBy) -> None:
    picture = legend_picture(graph_scene(trace, choice=ALL, by=by), 900.0, 1.0)

    texts = texts_of(picture)
    assert picture.height < 30
    if by.is_heat:
        assert "not in the trace" in texts
        assert any(isinstance(b, ImageBatch) for b in picture.batches)
    else:
        assert ("attention" if by is GraphColorBy.CATEGORY else "matmul") in texts


@pytest.mark.parametrize("theme_name", THEMES)
def test_letters_can_be_read_on_their_boxes(trace: Trace, theme_name: str) -> None:
    scene = graph_scene(trace, choice=ALL, theme_name=theme_name)
    fills = {int(scene.look.fill[box]) for box in visible_boxes(scene)}
    texts = [
        t for b in compose_graph(scene).batches for t in getattr(b, "texts", ())
        if t.text.startswith(("MUL_MAT", "blk."))
    ]  # fmt: skip

    assert texts
    for text in texts:
        assert max(contrast(text.color, fill) for fill in fills) >= 4.5


def test_overview_shows_where_one_looks(trace: Trace) -> None:
    scene = graph_scene(trace, choice=ALL)
    place = minimap_place(scene)
    assert place is not None

    whole = replace(scene, x=-10.0, y=-10.0, zoom=0.05)

    assert minimap_place(whole) is None
    assert place.x + place.width < scene.width


def test_stubs_name_where_they_come_from() -> None:
    n = 20
    edges = [*[(i, i + 1) for i in range(n - 1)], (0, n - 1)]
    trace = graph_traces.graph_trace(n, edges)
    scene = graph_scene(trace, height=2_000)

    texts = texts_of(compose_graph(scene))

    assert texts.count("node_0") == 1
    assert n_filled(compose_graph(scene), theme("dark").caution) == 2


def test_empty_graph_makes_an_empty_picture() -> None:
    scene = graph_scene(graph_traces.graph_trace(0, []))

    picture: DisplayList = compose_graph(scene)

    assert isinstance(scene, GraphScene)
    assert [b for b in picture.batches if isinstance(b, LineBatch)] == []
