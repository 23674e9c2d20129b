"""What the graph says about the thing under the mouse."""

from ggscope.analysis.graph_facts import node_facts
from ggscope.analysis.graph_layout import BoxKind
from ggscope.analysis.graph_measures import NodeMeasures
from ggscope.render.compose_graph_scene import GraphScene
from ggscope.render.compose_graph_words import amount_words, layer_words
from ggscope.text import Html, html, join_html
from ggscope.views.graph_hit import GraphHit
from ggscope.views.tip_table import fact_table
from ggscope.views.widgets import tr


def tooltip_for(
    scene: GraphScene, hit: GraphHit, measures: NodeMeasures | None
) -> Html:
    """Return rich text for what `hit` found; "" where there is nothing to say."""
    if hit.stub >= 0:
        return _stub_text(scene, hit)
    if hit.box < 0:
        return Html()
    if scene.layout.kind[hit.box] != BoxKind.NODE:
        return _layer_text(scene, hit.box)
    node = int(scene.layout.node[hit.box])
    graph, trace = scene.table, scene.trace
    facts = node_facts(trace, graph, node, scene.layout.layers, measures)
    return fact_table(trace.strings[int(graph.name[node])] or "–", facts)


def _layer_text(scene: GraphScene, box: int) -> Html:
    title, inside = layer_words(scene, int(scene.layout.layer[box]))
    lines = [inside]
    if scene.look.by.is_heat and scene.layout.kind[box] == BoxKind.LAYER:
        value = float(scene.look.values[box])
        lines.append(amount_words(value, scene.look.by, scene.trace))
    is_open = scene.layout.kind[box] == BoxKind.FRAME
    lines.append(
        tr("Double click closes it") if is_open else tr("Double click opens it")
    )
    below = join_html((html("{}", line) for line in lines), html("<br>"))
    return html("<b>{}</b><br>{}", title, below)


def _stub_text(scene: GraphScene, hit: GraphHit) -> Html:
    layout, graph = scene.layout, scene.table
    nodes = layout.stub_target if hit.leaves else layout.stub_source
    name = scene.trace.strings[int(graph.name[nodes[hit.stub]])]
    words = tr("An edge to {0}") if hit.leaves else tr("An edge from {0}")
    return html(
        "<b>{}</b><br>{}", words.format(name), tr("Too long to draw; click to go there")
    )


__all__ = ["tooltip_for"]
