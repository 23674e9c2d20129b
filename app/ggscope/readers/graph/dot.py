"""Reader of computation graphs in DOT, as ``ggml_graph_dump_dot`` writes them.

Source of the format: ggml.c. Up to 25 July 2025 edges use ports (``"a":x -> "b":x``),
since then plain nodes; both label them ``src 0``. DOT of other programs is read as
far as its nodes and edges go.
"""

import re

from ggscope.errors import CorruptError, LimitExceededError
from ggscope.model.builder import TraceBuilder
from ggscope.model.graph import NodeFlag
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import refuse_larger, trace_info
from ggscope.readers.graph import DOT_INFO
from ggscope.readers.graph.build import build_graph, title_of
from ggscope.readers.graph.dot_parser import (
    DotParser,
    EdgeStatement,
    Faults,
    GraphStart,
    NodeStatement,
)
from ggscope.readers.graph.draft import (
    MAX_SLOT,
    UNKNOWN_SLOT,
    GraphDraft,
    Node,
    address_of,
    allowance_of,
    op_table,
    parse_record,
)
from ggscope.readers.memory import Allowance
from ggscope.readers.source import Source

MAX_BYTES = 1 << 28
MAX_GRAPHS = 4096
_STEPS = 4096
_BEGIN = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:\s|//[^\n]*\n|/\*.*?\*/|#[^\n]*\n)*(?:strict\s+)?"
    rb'(?:di)?graph\b\s*(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\w.]+)?\s*(?:\{|$)',
    re.DOTALL | re.IGNORECASE,
)
_GGML = re.compile(rb"shape = record; label=\"")
_PORTS = re.compile(r'"\s*:\s*\w+\s*->')
_SLOT = re.compile(r"\s*src\s*(\d{1,3})\s*$")
_ESCAPE = re.compile(r"\\([nlr]|\\)")


class GraphDotReader:
    """Reads DOT files."""

    info = DOT_INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its first words."""
        if b"\0" in head.data or not _BEGIN.match(head.data):
            return NOT_MINE
        if _GGML.search(head.data):
            return Sniff(95, "a DOT graph with the records of ggml")
        return Sniff(80, "a DOT graph")

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace of no spans with the graphs of the file.

        Raises
        ------
        CorruptError
            If no graph begins in the text.
        LimitExceededError
            If the file is too large for a graph, or describes more nodes, edges or
            graphs than a file of its size can mean.
        """
        refuse_larger(source, MAX_BYTES, "Is this a graph?")
        context.progress(0, source.size)
        builder = TraceBuilder()
        text = _text(source, builder)
        parser = DotParser(text)
        collector = _StatementCollector(allowance_of(source.size))
        for i, statement in enumerate(parser.statements()):
            if i % _STEPS == 0:
                context.progress(min(statement.at, source.size), source.size)
            collector.take(statement)
        if not collector.drafts:
            raise CorruptError("no graph in this file.", offset=0)
        collector.note(builder)
        _note_faults(builder, text, parser.faults)
        trace = _trace(source, builder, collector, text)
        context.progress(source.size, source.size)
        return trace


class _StatementCollector:
    """Turns statements into drafts, one for each graph of the file."""

    def __init__(self, allowance: Allowance) -> None:
        self.drafts: list[tuple[str, GraphDraft]] = []
        self._allowance = allowance
        self._bare: set[str] = set()
        self._n_undirected = 0
        self._n_unlabelled = 0
        self._n_repeated = 0

    def take(self, statement: NodeStatement | EdgeStatement | GraphStart) -> None:
        """Take one statement."""
        if isinstance(statement, GraphStart):
            if len(self.drafts) >= MAX_GRAPHS:
                raise LimitExceededError(
                    f"the file has more than {MAX_GRAPHS:,} graphs.",
                    offset=statement.at,
                    hint="Is this the graph of a model?",
                )
            self.drafts.append((statement.name, GraphDraft(self._allowance)))
            self._bare.clear()
            return
        draft = self.drafts[-1][1]
        if isinstance(statement, EdgeStatement):
            self._take_edge(draft, statement)
            return
        # As in Graphviz, a node named again is the same node.
        row = draft.rows.get(statement.id)
        if row is None:
            draft.add_node(statement.id, _node(statement))
            if "label" not in statement.attributes:
                self._bare.add(statement.id)
        elif "label" in statement.attributes:
            if statement.id in self._bare:
                self._bare.discard(statement.id)
                draft.nodes[row] = _node(statement)
            else:
                self._n_repeated += 1

    def note(self, builder: TraceBuilder) -> None:
        """Turn what was counted into warnings."""
        for n, severity, code, message in (
            (
                self._n_unlabelled,
                Severity.NOTICE,
                "edge_label",
                "edges have no source index (“src 0”); using their order in the file.",
            ),
            (
                self._n_undirected,
                Severity.NOTICE,
                "undirected_edge",
                "undirected edges; read as leading from the first node to the second.",
            ),
            (
                self._n_repeated,
                Severity.NOTICE,
                "duplicate_id",
                "duplicate nodes; the first definition counts.",
            ),
        ):
            if n:
                builder.warn(severity, code, message, count=n)

    def _take_edge(self, draft: GraphDraft, edge: EdgeStatement) -> None:
        match = _SLOT.match(edge.attributes.get("label", ""))
        slot = int(match[1]) if match else UNKNOWN_SLOT
        if not 0 <= slot <= MAX_SLOT:
            self._n_unlabelled += 1
            slot = UNKNOWN_SLOT
        self._n_undirected += not edge.is_directed
        draft.add_edge(edge.source, edge.target, slot)


def _node(statement: NodeStatement) -> Node:
    label = statement.attributes.get("label")
    flags = 0
    if statement.attributes.get("fillcolor") in ("green", "lightblue"):
        # ggml paints the nodes of forward graphs that have a gradient, and those of
        # backward graphs.
        flags |= int(NodeFlag.GRADIENT)
    record = parse_record(label) if label is not None else None
    address = address_of(statement.id)
    if record is None:
        text = statement.id if label is None else _ESCAPE.sub(" ", label)
        return Node(name=text.strip(), flags=flags, address=address)
    if record.has_gradient:
        flags |= int(NodeFlag.GRADIENT)
    return Node(
        name=record.name,
        operation=record.operation,
        dtype=record.dtype,
        shape=record.shape,
        flags=flags,
        address=address,
    )


def _text(source: Source, builder: TraceBuilder) -> str:
    data = source.read(0, source.size).removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        builder.warn(
            Severity.NOTICE,
            "bad_utf8",
            "invalid UTF-8; the bytes were replaced.",
            error.start,
        )
        return data.decode("utf-8", "replace")


def _note_faults(builder: TraceBuilder, text: str, faults: Faults) -> None:
    if faults.unfinished:
        builder.warn(
            Severity.DATA_LOSS,
            "truncated_graph",
            "the file ends inside the graph; everything before that was loaded.",
            len(text.encode()),
            remedy="Check that the program that writes it ran to completion.",
        )
    if faults.statements.count:
        at = faults.statements.first
        builder.warn(
            Severity.DATA_LOSS,
            "unknown_statement",
            "invalid DOT statements were skipped to the end of the line.",
            len(text[:at].encode()),
            faults.statements.count,
            place=_line(text, at),
            remedy="Compare that line with what ggml_graph_dump_dot writes.",
        )
    if faults.quotes.count:
        at = faults.quotes.first
        builder.warn(
            Severity.NOTICE,
            "unescaped_quote",
            "names have unescaped quotes; they were read up to the end of the "
            "record. Other programs cannot read such a file.",
            len(text[:at].encode()),
            faults.quotes.count,
            place=_line(text, at),
        )
    if faults.trailing >= 0:
        builder.warn(
            Severity.NOTICE,
            "trailing_text",
            "text outside of graphs was skipped.",
            len(text[: faults.trailing].encode()),
            place=_line(text, faults.trailing),
        )


def _line(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1:,}"


def _trace(
    source: Source, builder: TraceBuilder, collector: _StatementCollector, text: str
) -> Trace:
    token, title = title_of(source.path)
    n_nodes, n_graphs = 0, len(collector.drafts)
    for i, (_, draft) in enumerate(collector.drafts):
        n_nodes += len(draft.nodes)
        name = title if n_graphs == 1 else f"{title} ({i + 1} of {n_graphs})"
        builder.add_graph(
            build_graph(draft, builder, token=token, title=name, expects_views=True)
        )
    builder.ops = op_table()
    return builder.snapshot(
        trace_info(
            GraphDotReader.info,
            source,
            n_nodes,
            version="ports" if _PORTS.search(text) else "plain",
        )
    )
