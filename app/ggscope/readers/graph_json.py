"""Reader of computation graphs in JSON, as the tensor tracer's tools export them.

Source of the format: the DOT parser of ErsjanKeri/BSC, January 2026. Three
generations: leaves as raw DOT records (6–7 January), leaves as nodes, and nodes with
a ``node_type`` (from 13 January).
"""

from ggscope.errors import CorruptError, LimitExceededError
from ggscope.model.builder import TraceBuilder
from ggscope.model.claims import Stated, stated_figure, without_verdict
from ggscope.model.trace import Severity, Trace, TraceInfo
from ggscope.readers.api import NOT_MINE, Head, ReadContext, ReaderInfo, Sniff
from ggscope.readers.graph_build import build_graph
from ggscope.readers.graph_draft import Draft, allowance_of
from ggscope.readers.graph_elements import Elements
from ggscope.readers.graph_ops import op_table
from ggscope.readers.graph_title import title_of
from ggscope.readers.json_outline import first_element_keys, outer_keys
from ggscope.readers.json_walk import integer_of, note_fault, walk_root
from ggscope.readers.source import Source

MAX_BYTES = 1 << 30
"""Larger files are refused: a graph of a million nodes takes a quarter of that."""
_MAX_COUNT = 1 << 63
_NODE_KEYS = {"operation", "label", "address", "layer_id", "dtype", "shape"}


class GraphJsonReader:
    """Reads graph JSON files."""

    info = ReaderInfo(
        id="graph-json",
        title="Computation graph (JSON)",
        suffixes=(".json",),
        doc="Nodes and edges of one ggml graph, as the tensor tracer's tools export "
        "them.",
    )

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its keys and those of its first node."""
        if b"\0" in head.data or b'"nodes"' not in head.data:
            return NOT_MINE
        keys = outer_keys(head.data)
        if "nodes" not in keys:
            return NOT_MINE
        node_keys = first_element_keys(head.data, "nodes")
        if len(node_keys & _NODE_KEYS) >= 3:
            return Sniff(90, "nodes with operation, shape and type of a ggml graph")
        if "edges" in keys:
            return Sniff(50, "keys nodes and edges of a graph")
        return NOT_MINE

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace of no spans with one graph.

        Raises
        ------
        CorruptError, TruncatedError
            If the text is no JSON before its first node, or has no nodes.
        LimitExceededError
            If the file is too large for a graph, or describes more nodes and edges
            than a file of its size can mean.
        """
        if source.size > MAX_BYTES:
            raise LimitExceededError(
                f"the file is larger than {MAX_BYTES >> 20:,} MiB.",
                hint="Is this a graph?",
            )
        builder = TraceBuilder()
        elements = Elements(builder, Draft(allowance_of(source.size)))
        walked = walk_root(
            source,
            context,
            builder,
            {"nodes": elements.add_node, "edges": elements.add_edge},
        )
        draft = elements.draft
        if walked.fault is not None:
            kept = f"{len(draft.nodes):,} nodes and {draft.n_edges:,} edges"
            note_fault(builder, source, walked.fault, kept, len(draft.nodes))
        if "nodes" not in walked.lists:
            raise CorruptError(
                "the JSON holds no list of nodes.", hint="Is this a graph?"
            )
        return _trace(source, builder, elements, walked.facts)


def _trace(
    source: Source,
    builder: TraceBuilder,
    elements: Elements,
    facts: dict[str, object],
) -> Trace:
    elements.note()
    stated = _stated(facts)
    token, title = title_of(source.path, facts.get("token_id"))
    n_declared, n_edges = len(elements.draft.nodes), elements.draft.n_edges
    graph = build_graph(
        elements.draft, builder, token=token, title=title, expects_views=False
    )
    layers = {int(layer) for layer in graph.layer.tolist() if layer >= 0}
    found = {"nodes": n_declared, "edges": n_edges, "layers": len(layers)}
    _note_counts(builder, stated, found)
    figures = tuple(
        figure
        for key, n in found.items()
        if (figure := _figure(key, stated.get(key), n)) is not None
    )
    is_cut = builder.has_loss
    builder.ops = op_table()
    builder.add_graph(graph)
    return builder.snapshot(
        TraceInfo(
            paths=(source.path,),
            reader_id=GraphJsonReader.info.id,
            format=GraphJsonReader.info.title,
            format_version=elements.generation,
            byte_size=source.size,
            n_records=n_declared,
            summary={f"stated_{key}": value for key, value in stated.items()},
            stated=tuple(map(without_verdict, figures)) if is_cut else figures,
            modified_ns=source.modified_ns,
        )
    )


def _stated(facts: dict[str, object]) -> dict[str, int]:
    """Return the counts that the file claims."""
    metadata = facts.get("metadata")
    if not isinstance(metadata, dict):
        return {}
    numbers = (
        (key.removeprefix("total_"), integer_of(metadata.get(key)))
        for key in ("total_nodes", "total_edges", "layers")
    )
    return {k: v for k, v in numbers if v is not None and abs(v) < _MAX_COUNT}


def _figure(key: str, stated: int | None, found: int) -> Stated | None:
    basis = "the names of its nodes" if key == "layers" else f"its list of {key}"
    place = f"metadata.{'layers' if key == 'layers' else 'total_' + key}"
    return stated_figure(key, stated, found, basis=basis, place=place)


def _note_counts(
    builder: TraceBuilder, stated: dict[str, int], found: dict[str, int]
) -> None:
    for key in ("nodes", "edges", "layers"):
        if stated.get(key, found[key]) == found[key]:
            continue
        remedy = "" if key == "layers" else "Export the graph again."
        builder.warn(
            Severity.NOTICE,
            f"{key}_mismatch",
            f"the file says that it has {stated[key]:,} {key}; {found[key]:,} were "
            "found.",
            place=f"metadata.{'layers' if key == 'layers' else 'total_' + key}",
            remedy=remedy,
        )


__all__ = ["GraphJsonReader"]
