"""Links between spans, tensors, buffers, nodes and experts, for linked selection.

They rest on the accesses of spans, and on the byte ranges in the model file.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.graph.op_links import NO_LINKS, OpLinks
from ggscope.analysis.sessions.correlate import Correlation, Rule
from ggscope.analysis.workers import Watcher, chunks, share_out
from ggscope.model.graph import Graph, first_node, locate_node
from ggscope.model.routing import EXPERT_KEY, of_expert_key
from ggscope.model.selection import Selection
from ggscope.model.tables import (
    I64,
    AccessColumns,
    Array,
    Space,
    empty,
    ranges,
    stacked,
    taken,
)
from ggscope.model.trace import Trace

Bools = npt.NDArray[np.bool_]
Touch = Callable[[AccessColumns], Bools]
"""Returns which of n accesses are meant, bool[n]."""
_SLICE = re.compile(r"\[\d+\]$")


def marked(n: int, rows: Array) -> Bools:
    """Return bool[n + 1] with `rows` set; the last entry answers for -1."""
    table = np.zeros(n + 1, np.bool_)
    table[rows] = True
    return table


def spans_with(
    trace: Trace,
    touch: Touch,
    computed: Bools | None,
    limit: int,
    watcher: Watcher | None = None,
    more: I64 | None = None,
) -> tuple[I64, int, AccessColumns]:
    """Return the spans that make an access that `touch` marks.

    Parameters
    ----------
    computed : bool[n_tensors + 1], spans that write such a tensor count too.
    limit : so many ids are returned, the first ones.
    more : spans that count in any case.

    Returns
    -------
    Their ids, ascending; their number; and the accesses that were marked, each
    pattern's once.
    """
    accesses, spans = trace.accesses, trace.spans
    hits = touch(accesses.patterns)
    pattern_hit = patterns_with(trace, hits)
    loose_hits = touch(accesses.loose.what)
    extra = accesses.loose.span[loose_hits].astype(np.int64)
    extra = np.unique(
        np.concatenate([extra, empty(np.int64) if more is None else more])
    )
    extra = extra[extra >= 0]
    tensor = spans.tensor if computed is not None and computed.any() else None
    ids_of_chunk: dict[int, I64] = {}
    counts: dict[int, int] = {}

    def search(_: int, rows: slice) -> None:
        mask = pattern_hit[accesses.pattern[rows]]
        if tensor is not None and computed is not None:
            mask |= computed[tensor[rows]]
        begin, end = np.searchsorted(extra, (rows.start, rows.stop))
        mask[extra[begin:end] - rows.start] = True
        ids = np.flatnonzero(mask)
        counts[rows.start] = len(ids)
        ids_of_chunk[rows.start] = ids[:limit] + rows.start

    if pattern_hit.any() or tensor is not None:
        share_out(search, chunks(len(spans)), watcher)
        listed = [empty(np.int64), *(ids_of_chunk[k] for k in sorted(ids_of_chunk))]
        ids, n = np.concatenate(listed)[:limit], sum(counts.values())
    else:
        ids, n = extra[:limit], len(extra)
    what = accesses.patterns.take(np.flatnonzero(hits))
    return ids, n, stacked(what, accesses.loose.what.take(np.flatnonzero(loose_hits)))


def tensor_touch(trace: Trace, ids: I64) -> Touch:
    """Return a test for "is an access of one of these tensors".

    A tensor that stacks experts may also be listed slice by slice (``…[4]``): the
    stack's accesses are those of its slices, and a slice's are those of the stack
    that may be of its expert.
    """
    kin, expert = with_kin(trace, ids)
    rows, mine = marked(len(trace.tensors), kin), marked(len(trace.tensors), ids)

    def touch(what: AccessColumns) -> Bools:
        hit: Bools = rows[what.tensor]
        if expert < 0:
            return hit
        is_other = (what.expert >= 0) & (what.expert != expert)
        may_touch: Bools = mine[what.tensor] | ~is_other
        return may_touch & hit

    return touch


def buffer_touch(trace: Trace, ids: I64) -> Touch:
    """Return a test for "is an access of one of these buffers".

    An address is a buffer's id: accesses may name another life of it.
    """
    address = trace.buffers.address
    known = address[ids]
    rows = marked(len(address), ids)
    rows[:-1] |= np.isin(address, known[known != 0])

    def touch(what: AccessColumns) -> Bools:
        return rows[what.buffer]

    return touch


def expert_touch(trace: Trace, keys: I64) -> Touch:
    """Return a test for "is an access of one of these experts" (expert keys)."""

    def touch(what: AccessColumns) -> Bools:
        return np.isin(expert_keys(trace, what), keys)

    return touch


def expert_keys(trace: Trace, what: AccessColumns, layer: int = -1) -> I64:
    """Return ``model.routing.expert_key`` of each access, -1 where it has none.

    Parameters
    ----------
    layer : of accesses that neither say theirs nor have a tensor that does.
    """
    layers = np.where(
        what.layer >= 0, what.layer, taken(trace.tensors.layer, what.tensor)
    )
    layers = np.where(layers >= 0, layers, layer)
    experts = np.where(
        what.expert >= 0, what.expert, taken(trace.tensors.expert, what.tensor)
    )
    known = (layers >= 0) & (experts >= 0)
    return np.where(known, layers * EXPERT_KEY + experts, -1)


def routed_keys(trace: Trace) -> I64:
    """Return the expert key of every choice of the router, int64."""
    r = trace.routing
    return r.layer.astype(np.int64) * EXPERT_KEY + r.expert


def patterns_with(trace: Trace, hits: Bools) -> Bools:
    """Return bool[n_patterns + 1]: patterns with a marked row; the last is False."""
    first = trace.accesses.first
    total = np.concatenate([[0], np.cumsum(hits)])
    return np.append(total[first[1:]] > total[first[:-1]], False)


def with_kin(trace: Trace, ids: I64) -> tuple[I64, int]:
    """Return tensors with their duplicate rows, and their common expert.

    The slices of a stack of experts, or the stack of a slice.

    Returns
    -------
    Rows; and the expert where all `ids` are slices of one expert, else -1.
    """
    tensors = trace.tensors
    expert = tensors.expert[ids]
    same = len(np.unique(expert)) == 1 and int(expert[0]) >= 0
    if not (tensors.expert >= 0).any():
        return ids, -1
    bases = {stack_name(trace, row) for row in ids.tolist()}
    listed = np.flatnonzero(tensors.expert >= 0)
    kin = [row for row in listed.tolist() if stack_name(trace, row) in bases]
    if same:
        kin = [row for row in kin if int(tensors.expert[row]) == int(expert[0])]
        whole = {i for base in bases if (i := trace.strings.find(base)) >= 0}
        kin += np.flatnonzero(np.isin(tensors.name, sorted(whole))).tolist()
    rows = np.union1d(ids, np.array(kin, np.int64))
    return rows, int(expert[0]) if same else -1


def stack_name(trace: Trace, row: int) -> str:
    """Return the name of a tensor without the number of a slice: ``…_exps.weight``."""
    return _SLICE.sub("", trace.strings[int(trace.tensors.name[row])])


# -- bytes of the model file ---------------------------------------------------


def merged_ranges(ranges: I64) -> I64:
    """Return the union of ranges [first, stop), int64[k, 2], ascending."""
    ranges = ranges[ranges[:, 1] > ranges[:, 0]]
    if not len(ranges):
        return np.zeros((0, 2), np.int64)
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    reach = np.maximum.accumulate(ranges[:, 1])
    begins = np.flatnonzero(np.append(True, ranges[1:, 0] > reach[:-1]))
    ends = np.append(begins[1:], len(ranges)) - 1
    return np.stack([ranges[begins, 0], reach[ends]], axis=1)


def tensor_ranges(trace: Trace, rows: I64) -> I64:
    """Return where tensors lie in the model file, int64[k, 2]; known places only."""
    offset, size = trace.tensors.offset[rows], trace.tensors.size[rows]
    known = (offset >= 0) & (size > 0)
    return np.stack([offset[known], offset[known] + size[known]], axis=1)


def access_ranges(trace: Trace, what: AccessColumns) -> I64:
    """Return the bytes of the model file that accesses touch, merged, int64[k, 2].

    An access without an offset of its own touches its tensor, or the slice of its
    expert; one without a size a single byte.
    """
    in_file = what.space == Space.FILE
    has_offset = in_file & (what.offset >= 0)
    first = what.offset[has_offset].astype(np.int64)
    ranges = [np.stack([first, first + np.maximum(what.size[has_offset], 1)], axis=1)]
    rest = np.flatnonzero(in_file & ~has_offset & (what.tensor >= 0))
    if len(rest):
        begin, stop = slices(trace, what.tensor[rest], what.expert[rest])
        ranges.append(np.stack([begin, stop], axis=1))
    return merged_ranges(np.concatenate(ranges))


def slices(trace: Trace, tensor: Array, expert: Array) -> tuple[I64, I64]:
    """Return first and stop of tensors in the file, or of an expert's slice of them.

    Slice k of n lies at ``offset + k * size // n``. Equal where it is not known.
    """
    t = trace.tensors
    offset, size = t.offset[tensor].astype(np.int64), t.size[tensor].astype(np.int64)
    known = (offset >= 0) & (size > 0)
    begin, stop = np.where(known, offset, 0), np.where(known, offset + size, 0)
    if t.n_experts is None:
        return begin, stop
    n, k = t.n_experts[tensor].astype(np.int64), expert.astype(np.int64)
    cut = known & (n > 0) & (k >= 0) & (k < n)
    n = np.maximum(n, 1)
    return (
        np.where(cut, offset + k * size // n, begin),
        np.where(cut, offset + (k + 1) * size // n, stop),
    )


def expert_ranges(trace: Trace, layer: int, expert: int) -> tuple[I64, I64]:
    """Return the tensors that hold an expert's weights, and its bytes in the file."""
    t = trace.tensors
    of_layer = t.layer == layer
    rows = of_layer & (t.expert == expert)
    if t.n_experts is not None:
        rows |= of_layer & (t.n_experts > expert) & (t.expert < 0)
    ids = np.flatnonzero(rows)
    begin, stop = slices(trace, ids, np.full(len(ids), expert))
    return ids, np.stack([begin, stop], axis=1)


MAX_SPANS = 100_000
"""So many spans are listed; `Linked.n_spans` counts them all."""
QUICK_IDS = 2_000
"""A selection of so many spans is linked in a few milliseconds, whatever the trace."""
QUICK_SPANS = 200_000
"""Traces of so few spans are looked through at once."""


def _none() -> I64:
    return empty(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Linked:
    """Ids linked to one selection, by table, ascending.

    Attributes
    ----------
    selection : what was selected; its own table lists just what is selected.
    spans : ids, at most MAX_SPANS (the first ones); `n_spans` counts all.
    tensors : rows of ``Trace.tensors`` that the selection is, writes or accesses.
    accessed : of these, the ones it accesses (sources), not its own result.
    buffers : rows of ``Trace.buffers`` it accesses; for a buffer: itself.
    nodes : ids of graph nodes.
    experts : ``model.routing.expert_key`` of each expert it accesses or routes to.
    layers : transformer layers.
    ranges : int64[k, 2], bytes [first, stop) of the model file that it touches.
    rules : how spans and nodes were matched, in words; "" where nothing was.
    longest : of a selected group: its longest span; -1 none.
    op_links : of a single selected op: what it reads of other ops, and who reads its
        result; found by themselves, see ``analysis.graph.dependencies``.
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
    longest: int = -1
    op_links: OpLinks = NO_LINKS


NOTHING = Linked()
"""What no selection has to do with."""


def is_quick(trace: Trace, selection: Selection) -> bool:
    """Return whether `linked` takes well under 50 ms."""
    if selection.table in (None, "markers") or len(trace.spans) <= QUICK_SPANS:
        return True
    of_spans = selection.table in ("spans", "waits", "gaps")
    return of_spans and len(selection.ids) <= QUICK_IDS


def linked(
    trace: Trace,
    selection: Selection,
    correlation: Correlation | None = None,
    watcher: Watcher | None = None,
) -> Linked:
    """Return the ids linked to `selection`; nonexistent ids are ignored.

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
    chosen = selection.ids
    if selection.gap is not None:
        chosen = (selection.gap.before, selection.gap.after)
    ids = np.unique(np.asarray(chosen, np.int64))
    links = finder(trace, ids[ids >= 0], correlation, watcher)
    return replace(links, selection=selection)


def _of_spans(
    trace: Trace, ids: I64, correlation: Correlation | None, _: Watcher | None
) -> Linked:
    ids = ids[ids < len(trace.spans)]
    what = _accesses_of(trace, ids)
    accessed = _distinct(what.tensor)
    computed = empty(np.int64)
    if trace.spans.tensor is not None:
        computed = _distinct(trace.spans.tensor[ids])
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
        tensors=np.union1d(computed, accessed),
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


def _of_pauses(
    trace: Trace, ids: I64, _: Correlation | None, __: Watcher | None
) -> Linked:
    """Return the op before a wait and that of who came last; the spans around a gap."""
    from ggscope.analysis.summary.barriers import barrier_of  # which imports this

    ids = ids[ids < len(trace.spans)]
    if len(ids) == 1 and (barrier := barrier_of(trace, int(ids[0]))) is not None:
        ids = np.union1d(ids, barrier.last)
    return Linked(spans=ids, n_spans=len(ids))


def _of_tensors(
    trace: Trace, ids: I64, correlation: Correlation | None, watcher: Watcher | None
) -> Linked:
    n = len(trace.tensors)
    ids = ids[ids < n]
    mine = marked(n, ids)
    touch = tensor_touch(trace, ids)
    spans, n_spans, what = spans_with(trace, touch, mine, MAX_SPANS, watcher)
    nodes = _nodes_of_tensors(trace, with_kin(trace, ids)[0])
    if correlation is not None and not len(nodes):
        tensor = trace.spans.tensor
        computing = spans[:0] if tensor is None else spans[mine[tensor[spans]]]
        nodes = _nodes_of_spans(correlation, computing)[0]
    expert = trace.tensors.expert[ids].astype(np.int64)
    layer = trace.tensors.layer[ids].astype(np.int64)
    has_expert = (expert >= 0) & (layer >= 0)
    return Linked(
        spans=spans,
        n_spans=n_spans,
        tensors=ids,
        buffers=_distinct(what.buffer),
        nodes=nodes,
        experts=np.unique(layer[has_expert] * EXPERT_KEY + expert[has_expert]),
        layers=_distinct(layer),
        ranges=merged_ranges(tensor_ranges(trace, ids)),
        rules="name" if len(nodes) else "",
    )


def _of_buffers(
    trace: Trace, ids: I64, correlation: Correlation | None, watcher: Watcher | None
) -> Linked:
    ids = ids[ids < len(trace.buffers)]
    touch = buffer_touch(trace, ids)
    spans, n_spans, what = spans_with(trace, touch, None, MAX_SPANS, watcher)
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
    computed_tensors, layers, rules = [empty(np.int64)], [empty(np.int64)], set[Rule]()
    for node in ids.tolist():
        number, row = locate_node(trace.graphs, node)
        graph = trace.graphs[number]
        sources = graph.source[graph.target == row]
        computed_tensors.append(_distinct(graph.tensor[row : row + 1]))
        accessed.append(_distinct(graph.tensor[sources]))
        layers.append(_distinct(graph.layer[row : row + 1]))
        if correlation is not None:
            spans.append(correlation.spans_of(node))
            rules.update(correlation.rules_of(node))
    span_ids = np.unique(np.concatenate(spans))
    mine, n_spans = np.unique(np.concatenate(computed_tensors)), len(span_ids)
    touched = _accesses_of(trace, span_ids[:MAX_SPANS])
    if not n_spans and len(mine):
        # A weight or an input: no op computes it, but ops read it.
        of_tensor = _of_tensors(trace, mine, None, watcher)
        span_ids, n_spans = of_tensor.spans, of_tensor.n_spans
    lone = np.unique(np.concatenate(layers))
    read = np.unique(np.concatenate(accessed))
    ranges = np.concatenate(
        [access_ranges(trace, touched), tensor_ranges(trace, np.union1d(mine, read))]
    )
    return Linked(
        spans=span_ids[:MAX_SPANS],
        n_spans=n_spans,
        tensors=np.union1d(mine, read),
        accessed=read,
        buffers=_distinct(touched.buffer),
        nodes=ids,
        experts=_distinct(
            expert_keys(trace, touched, int(lone[0]) if len(lone) == 1 else -1)
        ),
        layers=lone,
        ranges=merged_ranges(ranges),
        rules=_rules_text(rules),
    )


def _of_experts(
    trace: Trace, keys: I64, correlation: Correlation | None, watcher: Watcher | None
) -> Linked:
    chosen = _distinct(trace.routing.span[np.isin(routed_keys(trace), keys)])
    touch = expert_touch(trace, keys)
    spans, n_spans, what = spans_with(trace, touch, None, MAX_SPANS, watcher, chosen)
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
    "waits": _of_pauses,
    "gaps": _of_pauses,
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
    """Return the accesses of spans: each pattern once, then loose accesses."""
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
    return _distinct(nodes), _rules_text({Rule(int(r)) for r in np.unique(rules)})


def _nodes_of_tensors(trace: Trace, rows: I64) -> I64:
    nodes = [empty(np.int64)]
    for number, graph in enumerate(trace.graphs):
        nodes.append(_rows_of(graph, rows) + first_node(trace.graphs, number))
    return np.concatenate(nodes)


def _rows_of(graph: Graph, tensors: I64) -> I64:
    return np.flatnonzero(np.isin(graph.tensor, tensors)).astype(np.int64)


def _rules_text(rules: set[Rule]) -> str:
    return "; ".join(rule.text for rule in sorted(rules) if rule)
