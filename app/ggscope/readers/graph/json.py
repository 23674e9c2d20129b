"""Reader of computation graphs in JSON, as the tensor tracer's tools export them.

Source of the format: the DOT parser of ErsjanKeri/BSC, January 2026. Three
generations: leaves as raw DOT records (6–7 January), leaves as nodes, and nodes with
a ``node_type`` (from 13 January).
"""

import re
from collections import Counter

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.graph import NodeCategory, NodeFlag
from ggscope.model.trace import (
    DeclaredMetric,
    Severity,
    Trace,
    stated_figure,
    without_verdict,
)
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import refuse_larger, trace_info
from ggscope.readers.common.json_cursor import first_element_keys, outer_keys
from ggscope.readers.common.json_walk import integer_of, note_fault, walk_root
from ggscope.readers.graph import JSON_INFO
from ggscope.readers.graph.build import build_graph, title_of
from ggscope.readers.graph.draft import (
    MAX_SLOT,
    UNKNOWN_SLOT,
    GraphDraft,
    Node,
    address_of,
    allowance_of,
    dimensions,
    op_table,
    parse_record,
)
from ggscope.readers.source import Source

NODE_KEYS = frozenset(
    (
        "id",
        "address",
        "label",
        "name",
        "operation",
        "shape",
        "dtype",
        "layer_id",
        "category",
        "node_type",
    )
)
_HUGE = 1 << 64
_SLOT = re.compile(r"\s*src\s*(\d{1,3})\s*$")
_CATEGORIES = {c.name.lower(): int(c) for c in NodeCategory}
_RAW_LEAVES, _PLAIN, _TYPED = "raw leaves", "plain", "node types"

_NOTES: dict[str, tuple[Severity, str, str]] = {
    "bad_node": (
        Severity.DATA_LOSS,
        "skipped nodes that are not JSON objects.",
        "Re-export the graph.",
    ),
    "bad_edge": (
        Severity.DATA_LOSS,
        "skipped edges without source or target.",
        "Re-export the graph.",
    ),
    "id_not_text": (
        Severity.INFO,
        "node ids are not strings; used as written.",
        "",
    ),
    "missing_id": (
        Severity.NOTICE,
        "nodes without an id; edges can refer to them only by address.",
        "Re-export the graph.",
    ),
    "duplicate_id": (
        Severity.NOTICE,
        "duplicate node ids; all edges go to the first node.",
        "Re-export the graph.",
    ),
    "unknown_field": (
        Severity.INFO,
        "unknown node fields; not shown.",
        "",
    ),
    "bad_shape": (
        Severity.NOTICE,
        "shapes are not lists of integers; treated as unknown.",
        "",
    ),
    "unknown_category": (
        Severity.NOTICE,
        "unknown categories; derived from the names instead.",
        "",
    ),
    "edge_label": (
        Severity.NOTICE,
        "edges have no source index (“src 0”); using their order in the file.",
        "",
    ),
    "raw_label": (
        Severity.INFO,
        "labels are whole DOT records (exporters of 6–7 January 2026); name, "
        "type and shape were read from them.",
        "",
    ),
}
MAX_BYTES = 1 << 30
"""Larger files are refused: a graph of a million nodes takes a quarter of that."""

_MAX_COUNT = 1 << 63
_NODE_KEYS = {"operation", "label", "address", "layer_id", "dtype", "shape"}


class GraphElements:
    """Takes the elements of "nodes" and "edges" in file order.

    Parameters
    ----------
    builder : gets the warnings, by `note`.
    draft : gets the nodes and edges.
    """

    def __init__(self, builder: TraceBuilder, draft: GraphDraft) -> None:
        self.builder = builder
        self.draft = draft
        self._has_types = False
        self._n_edges = 0
        self._counts: Counter[str] = Counter()
        self._places: dict[str, str] = {}

    @property
    def generation(self) -> str:
        """Which generation of exporters wrote the file."""
        if self._counts["raw_label"]:
            return _RAW_LEAVES
        return _TYPED if self._has_types else _PLAIN

    def add_node(self, value: object) -> None:
        """Take one element of "nodes"."""
        place = f"nodes[{len(self.draft.nodes) + self._counts['bad_node']}]"
        if not isinstance(value, dict):
            self._count("bad_node", place)
            return
        unknown = value.keys() - NODE_KEYS
        if unknown:
            self._count("unknown_field", f"{place}.{min(map(str, unknown)):.40}")
        self._has_types |= "node_type" in value
        node_id = value.get("id")
        if node_id is None:
            self._count("missing_id", place)
            node_id = value.get("address")
            node_id = node_id if isinstance(node_id, str) else place
        elif not isinstance(node_id, str):
            self._count("id_not_text", place)
        if not self.draft.add_node(str(node_id), self._node(value, place)):
            self._count("duplicate_id", place)

    def add_edge(self, value: object) -> None:
        """Take one element of "edges"."""
        place = f"edges[{self._n_edges}]"
        self._n_edges += 1
        ends = (
            (value.get("source"), value.get("target"))
            if isinstance(value, dict)
            else (None, None)
        )
        if any(e is None or isinstance(e, dict | list) for e in ends):
            self._count("bad_edge", place)
            return
        label = value.get("label") if isinstance(value, dict) else None
        match = _SLOT.match(label) if isinstance(label, str) else None
        slot = int(match[1]) if match else UNKNOWN_SLOT
        if not 0 <= slot <= MAX_SLOT:
            self._count("edge_label", place)
            slot = UNKNOWN_SLOT
        self.draft.add_edge(str(ends[0]), str(ends[1]), slot)

    def note(self) -> None:
        """Turn what was counted into warnings."""
        for code, (severity, message, remedy) in _NOTES.items():
            if n := self._counts[code]:
                self.builder.warn(
                    severity,
                    code,
                    message,
                    count=n,
                    place=self._places[code],
                    remedy=remedy,
                )

    def _node(self, value: dict[str, object], place: str) -> Node:
        label = _text(value.get("label")) or _text(value.get("name"))
        node = Node(
            name=label,
            operation=_known(value.get("operation")),
            dtype=_known(value.get("dtype")),
            shape=self._shape(value.get("shape"), place),
            layer=_number(value.get("layer_id")),
            category=self._category(value.get("category"), place),
            address=address_of(value.get("address")),
        )
        record = parse_record(label) if "|" in label else None
        if record is not None:
            self._count("raw_label", place)
            node.name = record.name
            node.operation = node.operation or record.operation
            node.dtype = node.dtype or record.dtype
            node.shape = node.shape or record.shape
            node.flags |= int(NodeFlag.GRADIENT) if record.has_gradient else 0
        return node

    def _shape(self, value: object, place: str) -> tuple[int, ...]:
        if value is None:
            return ()
        if isinstance(value, list) and None not in map(integer_of, value):
            # A number of thousands of digits has no text in Python.
            return dimensions([str(n) if abs(n) < _HUGE else "" for n in value])
        self._count("bad_shape", place)
        return ()

    def _category(self, value: object, place: str) -> int:
        if value is None:
            return -1
        category = _CATEGORIES.get(value.lower(), -1) if isinstance(value, str) else -1
        if category < 0:
            self._count("unknown_category", place)
        return category

    def _count(self, code: str, place: str) -> None:
        self._counts[code] += 1
        self._places.setdefault(code, place)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _known(value: object) -> str:
    text = _text(value).strip()
    return "" if text in ("unknown", "null") else text


def _number(value: object) -> int:
    number = integer_of(value)
    return -1 if number is None else number


class GraphJsonReader:
    """Reads graph JSON files."""

    info = JSON_INFO

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
        refuse_larger(source, MAX_BYTES, "Is this a graph?")
        builder = TraceBuilder()
        elements = GraphElements(builder, GraphDraft(allowance_of(source.size)))
        walked = walk_root(
            source,
            context,
            builder,
            {"nodes": elements.add_node, "edges": elements.add_edge},
        )
        draft = elements.draft
        if walked.fault is not None:
            loaded = f"{len(draft.nodes):,} nodes and {draft.n_edges:,} edges"
            note_fault(builder, source, walked.fault, loaded, len(draft.nodes))
        if "nodes" not in walked.lists:
            raise CorruptError(
                "no list of nodes in this JSON.", hint="Is this a graph?"
            )
        return _trace(source, builder, elements, walked.facts)


def _trace(
    source: Source,
    builder: TraceBuilder,
    elements: GraphElements,
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
    counts = {"nodes": n_declared, "edges": n_edges, "layers": len(layers)}
    _note_counts(builder, stated, counts)
    figures = tuple(
        figure
        for key, n in counts.items()
        if (figure := _figure(key, stated.get(key), n)) is not None
    )
    is_cut = builder.has_loss
    builder.ops = op_table()
    builder.add_graph(graph)
    return builder.snapshot(
        trace_info(
            GraphJsonReader.info,
            source,
            n_declared,
            version=elements.generation,
            summary={f"stated_{key}": value for key, value in stated.items()},
            stated=tuple(map(without_verdict, figures)) if is_cut else figures,
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


def _figure(key: str, stated: int | None, counted: int) -> DeclaredMetric | None:
    basis = "the names of its nodes" if key == "layers" else f"its list of {key}"
    place = f"metadata.{'layers' if key == 'layers' else 'total_' + key}"
    return stated_figure(key, stated, counted, basis=basis, place=place)


def _note_counts(
    builder: TraceBuilder, stated: dict[str, int], counts: dict[str, int]
) -> None:
    for key in ("nodes", "edges", "layers"):
        if stated.get(key, counts[key]) == counts[key]:
            continue
        remedy = "" if key == "layers" else "Re-export the graph."
        builder.warn(
            Severity.NOTICE,
            f"{key}_mismatch",
            f"{key} count does not match: file says {stated[key]:,}, found "
            f"{counts[key]:,}.",
            place=f"metadata.{'layers' if key == 'layers' else 'total_' + key}",
            remedy=remedy,
        )
