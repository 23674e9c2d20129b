"""What the graph says about the thing under the mouse."""

from html import escape

from ggscope.analysis.facts import Fact
from ggscope.analysis.graph_facts import node_facts
from ggscope.analysis.graph_layout import BoxKind
from ggscope.analysis.graph_measures import NodeMeasures
from ggscope.render.compose_graph_scene import GraphScene
from ggscope.render.compose_graph_words import amount_words, layer_words
from ggscope.views.graph_hit import GraphHit
from ggscope.views.widgets import tr


def tooltip_for(scene: GraphScene, hit: GraphHit, measures: NodeMeasures | None) -> str:
    """Return rich text for what `hit` found; "" where there is nothing to say."""
    if hit.stub >= 0:
        return _stub_text(scene, hit)
    if hit.box < 0:
        return ""
    if scene.layout.kind[hit.box] != BoxKind.NODE:
        return _layer_text(scene, hit.box)
    node = int(scene.layout.node[hit.box])
    graph, trace = scene.table, scene.trace
    facts = node_facts(trace, graph, node, scene.layout.layers, measures)
    return facts_html(trace.strings[int(graph.name[node])] or "–", facts)


def _layer_text(scene: GraphScene, box: int) -> str:
    title, inside = layer_words(scene, int(scene.layout.layer[box]))
    lines = [inside]
    if scene.look.by.is_heat and scene.layout.kind[box] == BoxKind.LAYER:
        value = float(scene.look.values[box])
        lines.append(amount_words(value, scene.look.by, scene.trace))
    is_open = scene.layout.kind[box] == BoxKind.FRAME
    lines.append(
        tr("Double click closes it") if is_open else tr("Double click opens it")
    )
    return f"<b>{escape(title)}</b><br>" + "<br>".join(escape(w) for w in lines)


def _stub_text(scene: GraphScene, hit: GraphHit) -> str:
    layout, graph = scene.layout, scene.table
    nodes = layout.stub_target if hit.leaves else layout.stub_source
    name = scene.trace.strings[int(graph.name[nodes[hit.stub]])]
    words = tr("An edge to {0}") if hit.leaves else tr("An edge from {0}")
    return (
        f"<b>{escape(words.format(name))}</b><br>"
        + escape(tr("Too long to draw; click to go there"))
    )  # fmt: skip


def facts_html(title: str, facts: tuple[Fact, ...]) -> str:
    """Return facts as a small table under a title."""
    rows = "".join(
        f"<tr><td style='padding-right:12px'>{escape(f.label)}</td>"
        f"<td><b>{escape(f.value)}</b>"
        + (f"<br>{escape(f.exact)}" if f.exact and f.exact != f.value else "")
        + "</td></tr>"
        for f in facts
    )
    return f"<p><b>{escape(title)}</b></p><table>{rows}</table>"


__all__ = ["tooltip_for"]
