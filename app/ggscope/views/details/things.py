"""What Details says of tensors, buffers, nodes and experts. No widgets here."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.graph.search import leaf_words
from ggscope.analysis.links import Linked
from ggscope.analysis.reads.usage import Usage, usage_of
from ggscope.analysis.sessions.correlate import Correlation, node_words
from ggscope.model.graph import first_node, locate_node
from ggscope.model.names import normalise
from ggscope.model.routing import of_expert_key
from ggscope.model.selection import Filter, Selection
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.session.tasks import TaskContext
from ggscope.views.base.widgets import tr
from ggscope.views.details.links import MAX_RELATED, Related
from ggscope.words.nodes import neighbours, node_facts
from ggscope.words.selected import (
    SelectedFacts,
    buffer_facts,
    expert_facts,
    tensor_facts,
    tensor_name,
)

_LEAF = "leaf_"


@dataclass(frozen=True, slots=True, eq=False)
class ThingNews:
    """What takes a look at all spans.

    Attributes
    ----------
    leaf : what a nameless input is for, "" where nothing tells.
    """

    figures: Usage
    leaf: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ThingRequest:
    """Finds `ThingNews`; runs on a worker for large traces."""

    trace: Trace
    selection: Selection
    correlation: Correlation | None

    def __call__(self, context: TaskContext | None = None) -> ThingNews:
        """Return the news. Raises Cancelled from the context."""
        trace, row = self.trace, self.selection.active
        figures = usage_of(trace, self.selection, self.correlation, context)
        is_leaf = (
            self.selection.table == "tensors"
            and row is not None
            and tensor_name(trace, row).startswith(_LEAF)
        )
        leaf = leaf_words(trace).get(row, "") if is_leaf and row is not None else ""
        return ThingNews(figures, leaf)


def exists(trace: Trace, selection: Selection) -> bool:
    """Tell whether the active row of a selection is there."""
    row = selection.active
    if row is None or row < 0:
        return False
    if selection.table == "tensors":
        return row < len(trace.tensors)
    if selection.table == "buffers":
        return row < len(trace.buffers)
    if selection.table == "nodes":
        return row < first_node(trace.graphs, len(trace.graphs))
    return selection.table == "experts"


def facts_of(
    trace: Trace,
    selection: Selection,
    news: ThingNews | None,
    correlation: Correlation | None,
    *,
    absolute: bool,
) -> SelectedFacts:
    """Return what is known of the active thing; `news` None = still counting."""
    row = selection.active
    assert row is not None
    figures = None if news is None else news.figures
    if selection.table == "tensors":
        leaf = "" if news is None else news.leaf
        return tensor_facts(trace, row, figures, leaf, absolute=absolute)
    if selection.table == "buffers":
        return buffer_facts(trace, row, figures, absolute=absolute)
    if selection.table == "nodes":
        return node_facts(trace, row, figures, correlation, absolute=absolute)
    return expert_facts(trace, row, figures, absolute=absolute)


@dataclass(frozen=True, slots=True)
class Group:
    """Related things under a head; `n` counts also those that are not listed."""

    title: str
    items: tuple[Related, ...]
    n: int


def groups_of(trace: Trace, selection: Selection, found: Linked) -> tuple[Group, ...]:
    """Return what a thing reads or holds, and what reads it: two groups at most."""
    row = selection.active
    if row is None or not exists(trace, selection):
        return ()
    if selection.table == "nodes":
        sources, readers = neighbours(trace, row)
        return (
            _nodes(trace, tr("Predecessors"), sources),
            _nodes(trace, tr("Successors"), readers),
        )
    if found.selection != selection:
        return ()
    if selection.table == "tensors":
        return (_nodes(trace, tr("Nodes"), found.nodes.tolist()),)
    return (_tensors(trace, found.accessed),)


def placed_tensors(trace: Trace, found: Linked) -> I64:
    """Return those of the linked tensors that lie in the model file, sources first."""
    rows = np.concatenate([found.accessed, np.setdiff1d(found.tensors, found.accessed)])
    rows = rows[rows < len(trace.tensors)]
    return np.asarray(rows[trace.tensors.offset[rows] >= 0], np.int64)


def filter_of(trace: Trace, selection: Selection) -> Filter | None:
    """Return the filter that shows only the spans of a thing; None where none does."""
    row = selection.active
    if row is None or not exists(trace, selection):
        return None
    if selection.table == "tensors":
        return Filter(tensors=frozenset({tensor_name(trace, row)}))
    if selection.table == "buffers":
        address = int(trace.buffers.address[row])
        return Filter(buffers=frozenset({address})) if address else None
    if selection.table == "experts":
        layer, expert = of_expert_key(row)
        return Filter(experts=frozenset({expert}), layers=frozenset({layer}))
    number, place = locate_node(trace.graphs, row)
    graph = trace.graphs[number]
    name = trace.strings[int(graph.name[place])]
    op = trace.op_name(int(graph.op[place]))
    if not name:
        return None
    ops = frozenset({op}) if op else None
    return Filter(tensors=frozenset({normalise(name) or name}), ops=ops)


def _nodes(trace: Trace, title: str, ids: list[int]) -> Group:
    items = []
    for node in ids[:MAX_RELATED]:
        number, row = locate_node(trace.graphs, node)
        graph = trace.graphs[number]
        name = trace.strings[int(graph.name[row])] or "–"
        op = trace.op_name(int(graph.op[row]))
        text = f"{name} · {op}" if op else name
        items.append(
            Related(text, node_words(trace, node), Selection("nodes", (node,)))
        )
    return Group(title, tuple(items), len(ids))


def _tensors(trace: Trace, rows: I64) -> Group:
    items = tuple(
        Related(
            tensor_name(trace, row),
            tr("Select the tensor {0}").format(tensor_name(trace, row)),
            Selection("tensors", (row,)),
        )
        for row in rows[:MAX_RELATED].tolist()
    )
    return Group(tr("Tensors"), items, len(rows))
