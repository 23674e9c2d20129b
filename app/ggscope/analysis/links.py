"""What belongs together: from a selection to everything it has to do with."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ggscope.analysis.link_scan import (
    access_ranges,
    buffer_touch,
    expert_keys,
    expert_ranges,
    expert_touch,
    marked,
    merged_ranges,
    routed_keys,
    spans_with,
    tensor_ranges,
    tensor_touch,
    with_kin,
)
from ggscope.analysis.sessions.correlate import Correlation, Rule
from ggscope.analysis.workers import Watcher
from ggscope.model.graph import Graph, first_node, locate_node
from ggscope.model.routing import EXPERT_KEY, of_expert_key
from ggscope.model.selection import Selection
from ggscope.model.tables import I64, AccessColumns, Array, empty, ranges, stacked
from ggscope.model.trace import Trace

MOST_SPANS = 100_000
"""So many spans are listed; `Linked.n_spans` counts them all."""
QUICK_IDS = 2_000
"""A selection of so many spans is linked in a few milliseconds, whatever the trace."""
QUICK_SPANS = 200_000
"""Traces of so few spans are looked through at once."""


def _none() -> I64:
    return empty(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Linked:
    """Everything that one selection has to do with, by table; ids ascend.

    Attributes
    ----------
    selection : what was selected; its own table lists just what is selected.
    spans : ids, at most MOST_SPANS (the first ones); `n_spans` counts all.
    tensors : rows of ``Trace.tensors`` that the selection is, writes or accesses.
    accessed : of these, the ones it accesses (sources), not its own result.
    buffers : rows of ``Trace.buffers`` it accesses; for a buffer: itself.
    nodes : ids of graph nodes.
    experts : ``model.routing.expert_key`` of each expert it accesses or routes to.
    layers : transformer layers.
    ranges : int64[k, 2], bytes [first, stop) of the model file that it touches.
    rules : how spans and nodes were matched, in words; "" where nothing was.
    """

    selection: Selection = field(default_factory=Selection)
    spans: I64 = field(default_factory=_none)
    n_spans: int = 0
    tensors: I64 = field(default_factory=_none)
    accessed: I64 = field(default_factory=_none)
    buffers: I64 = field(default_factory=_none)
    nodes: I64 = field(default_factory=_none)
    experts: I64 = field(default_factory=_none)
    layers: I64 = field(default_factory=_none)
    ranges: I64 = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    rules: str = ""


def is_quick(trace: Trace, selection: Selection) -> bool:
    """Tell whether `linked` answers in well under 50 ms."""
    if selection.table in (None, "markers") or len(trace.spans) <= QUICK_SPANS:
        return True
    return selection.table == "spans" and len(selection.ids) <= QUICK_IDS


def linked(
    trace: Trace,
    selection: Selection,
    correlation: Correlation | None = None,
    watcher: Watcher | None = None,
) -> Linked:
    """Return what `selection` has to do with; ids that do not exist are left out.

    Parameters
    ----------
    correlation : of this trace; without it spans and nodes are not matched.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    finder = _FINDERS.get(selection.table or "")
    if finder is None:
        return Linked(selection)
    ids = np.unique(np.asarray(selection.ids, np.int64))
    found = finder(trace, ids[ids >= 0], correlation, watcher)
    return replace(found, selection=selection)


def _of_spans(
    trace: Trace, ids: I64, correlation: Correlation | None, _: Watcher | None
) -> Linked:
    ids = ids[ids < len(trace.spans)]
    what = _accesses_of(trace, ids)
    accessed = _distinct(what.tensor)
    own = empty(np.int64)
    if trace.spans.tensor is not None:
        own = _distinct(trace.spans.tensor[ids])
    layers = empty(np.int64)
    if trace.spans.layer is not None:
        layers = _distinct(trace.spans.layer[ids])
    if not len(layers):
        layers = _layers_of_tensors(trace, accessed)
    lone = int(layers[0]) if len(layers) == 1 else -1
    routed = np.isin(trace.routing.span, ids)
    nodes, rules = _nodes_of_spans(correlation, ids)
    return Linked(
        spans=ids,
        n_spans=len(ids),
        tensors=np.union1d(own, accessed),
        accessed=accessed,
        buffers=_distinct(what.buffer),
        nodes=nodes,
        experts=np.union1d(
            _distinct(expert_keys(trace, what, lone)), routed_keys(trace)[routed]
        ),
        layers=layers,
        ranges=access_ranges(trace, what),
        rules=rules,
    )


def _of_tensors(
    trace: Trace, ids: I64, correlation: Correlation | None, watcher: Watcher | None
) -> Linked:
    n = len(trace.tensors)
    ids = ids[ids < n]
    mine = marked(n, ids)
    touch = tensor_touch(trace, ids)
    spans, n_spans, what = spans_with(trace, touch, mine, MOST_SPANS, watcher)
    nodes = _nodes_of_tensors(trace, with_kin(trace, ids)[0])
    if correlation is not None and not len(nodes):
        tensor = trace.spans.tensor
        own = spans[:0] if tensor is None else spans[mine[tensor[spans]]]
        nodes = _nodes_of_spans(correlation, own)[0]
    expert = trace.tensors.expert[ids].astype(np.int64)
    layer = trace.tensors.layer[ids].astype(np.int64)
    told = (expert >= 0) & (layer >= 0)
    return Linked(
        spans=spans,
        n_spans=n_spans,
        tensors=ids,
        buffers=_distinct(what.buffer),
        nodes=nodes,
        experts=np.unique(layer[told] * EXPERT_KEY + expert[told]),
        layers=_distinct(layer),
        ranges=merged_ranges(tensor_ranges(trace, ids)),
        rules="name" if len(nodes) else "",
    )


def _of_buffers(
    trace: Trace, ids: I64, correlation: Correlation | None, watcher: Watcher | None
) -> Linked:
    ids = ids[ids < len(trace.buffers)]
    touch = buffer_touch(trace, ids)
    spans, n_spans, what = spans_with(trace, touch, None, MOST_SPANS, watcher)
    accessed = _distinct(what.tensor)
    nodes, rules = _nodes_of_spans(correlation, spans)
    return Linked(
        spans=spans,
        n_spans=n_spans,
        tensors=accessed,
        accessed=accessed,
        buffers=ids,
        nodes=nodes,
        layers=_layers_of_tensors(trace, accessed),
        ranges=access_ranges(trace, what),
        rules=rules,
    )


def _of_nodes(
    trace: Trace, ids: I64, correlation: Correlation | None, watcher: Watcher | None
) -> Linked:
    ids = ids[ids < first_node(trace.graphs, len(trace.graphs))]
    spans, accessed = [empty(np.int64)], [empty(np.int64)]
    own, layers, rules = [empty(np.int64)], [empty(np.int64)], set[Rule]()
    for node in ids.tolist():
        number, row = locate_node(trace.graphs, node)
        graph = trace.graphs[number]
        sources = graph.source[graph.target == row]
        own.append(_distinct(graph.tensor[row : row + 1]))
        accessed.append(_distinct(graph.tensor[sources]))
        layers.append(_distinct(graph.layer[row : row + 1]))
        if correlation is not None:
            spans.append(correlation.spans_of(node))
            rules.update(correlation.rules_of(node))
    found = np.unique(np.concatenate(spans))
    mine, n_found = np.unique(np.concatenate(own)), len(found)
    touched = _accesses_of(trace, found[:MOST_SPANS])
    if not n_found and len(mine):
        # A weight or an input: no op computes it, but ops read it.
        of_tensor = _of_tensors(trace, mine, None, watcher)
        found, n_found = of_tensor.spans, of_tensor.n_spans
    lone = np.unique(np.concatenate(layers))
    read = np.unique(np.concatenate(accessed))
    ranges = np.concatenate(
        [access_ranges(trace, touched), tensor_ranges(trace, np.union1d(mine, read))]
    )
    return Linked(
        spans=found[:MOST_SPANS],
        n_spans=n_found,
        tensors=np.union1d(mine, read),
        accessed=read,
        buffers=_distinct(touched.buffer),
        nodes=ids,
        experts=_distinct(
            expert_keys(trace, touched, int(lone[0]) if len(lone) == 1 else -1)
        ),
        layers=lone,
        ranges=merged_ranges(ranges),
        rules=_words(rules),
    )


def _of_experts(
    trace: Trace, keys: I64, correlation: Correlation | None, watcher: Watcher | None
) -> Linked:
    chosen = _distinct(trace.routing.span[np.isin(routed_keys(trace), keys)])
    touch = expert_touch(trace, keys)
    spans, n_spans, what = spans_with(trace, touch, None, MOST_SPANS, watcher, chosen)
    tensors = [_distinct(what.tensor)]
    ranges = [np.zeros((0, 2), np.int64)]
    for layer, expert in map(of_expert_key, keys.tolist()):
        rows, places = expert_ranges(trace, layer, expert)
        tensors.append(rows)
        ranges.append(places)
    accessed = np.unique(np.concatenate(tensors))
    nodes, rules = _nodes_of_spans(correlation, spans)
    return Linked(
        spans=spans,
        n_spans=n_spans,
        tensors=accessed,
        accessed=accessed,
        buffers=_distinct(what.buffer),
        nodes=nodes,
        experts=keys,
        layers=np.unique(keys // EXPERT_KEY),
        ranges=merged_ranges(np.concatenate(ranges)),
        rules=rules,
    )


_Finder = Callable[[Trace, I64, Correlation | None, Watcher | None], Linked]
_FINDERS: dict[str, _Finder] = {
    "spans": _of_spans,
    "tensors": _of_tensors,
    "buffers": _of_buffers,
    "nodes": _of_nodes,
    "experts": _of_experts,
}


# -- parts ---------------------------------------------------------------------


def _distinct(column: Array) -> I64:
    """Return the distinct values of an id column without -1, ascending, int64."""
    values = np.unique(column).astype(np.int64)
    return values[values >= 0]


def _accesses_of(trace: Trace, ids: I64) -> AccessColumns:
    """Return what spans access: each pattern once, and what is loose."""
    accesses = trace.accesses
    patterns = _distinct(accesses.pattern[ids])
    first, stop = accesses.first[patterns], accesses.first[patterns + 1]
    rows = ranges(first, stop - first)
    what = accesses.patterns.take(rows)
    loose = np.flatnonzero(np.isin(accesses.loose.span, ids))
    return stacked(what, accesses.loose.what.take(loose))


def _layers_of_tensors(trace: Trace, rows: I64) -> I64:
    return _distinct(trace.tensors.layer[rows])


def _nodes_of_spans(correlation: Correlation | None, ids: I64) -> tuple[I64, str]:
    if correlation is None or not len(ids):
        return empty(np.int64), ""
    nodes, rules = correlation.nodes_of(ids)
    return _distinct(nodes), _words({Rule(int(r)) for r in np.unique(rules)})


def _nodes_of_tensors(trace: Trace, rows: I64) -> I64:
    found = [empty(np.int64)]
    for number, graph in enumerate(trace.graphs):
        found.append(_rows_of(graph, rows) + first_node(trace.graphs, number))
    return np.concatenate(found)


def _rows_of(graph: Graph, tensors: I64) -> I64:
    return np.flatnonzero(np.isin(graph.tensor, tensors)).astype(np.int64)


def _words(rules: set[Rule]) -> str:
    return "; ".join(rule.words for rule in sorted(rules) if rule)
