"""Dependencies of ops as text."""

from ggscope.analysis.graph.op_links import (
    EdgeSource,
    NoEdges,
    NoPass,
    NoProducer,
    OpenRead,
    OpLink,
    OpLinks,
)
from ggscope.descriptions.spans import op_text
from ggscope.model.trace import Trace
from ggscope.model.units import format_count
from ggscope.sanitize import one_line

_SHOWN = 4
"""Links in a tooltip; the others are counted."""
_SOURCES = {
    EdgeSource.GRAPH: "edge of the graph",
    EdgeSource.NAME: "tensor name",
    EdgeSource.RECORDED: "recorded dependency",
}
_UNKNOWN: dict[NoPass | NoEdges, str] = {
    NoPass.NOT_AN_OP: "the span is not an op",
    NoPass.OUTSIDE: "the op is outside of every token and graph pass",
    NoPass.OVERLAP: "graph passes overlap, and ops do not say which one they are of",
    NoPass.NOT_SHARED_OUT: "the trace is too long to match the spans of threads",
    NoPass.TOO_LONG: "the pass has too many ops",
    NoEdges.NO_SOURCES: "no graph, and the trace does not record what ops read",
    NoEdges.OPS_HIDDEN: "ops are missing from the recording, so names are ambiguous",
}


def unknown_text(unknown: NoPass | NoEdges) -> str:
    """Return why no dependencies are known, lower case."""
    return _UNKNOWN[unknown]


def source_text(how: EdgeSource) -> str:
    """Return how a dependency is known: "edge of the graph"."""
    return _SOURCES[how]


def open_text(read: OpenRead) -> str:
    """Return why the producer of what an op reads is not known."""
    name = one_line(read.name) or "a tensor without a name"
    if read.why is NoProducer.AMBIGUOUS:
        return f"{name}: ambiguous, {format_count(read.n_writers)} ops write it"
    if read.why is NoProducer.NOT_RECORDED:
        return f"{name}: its op is not recorded"
    return f"{name}: no recorded op of the pass writes it"


def links_note(links: OpLinks) -> str:
    """Return what is not known of the inputs of an op, one line each; "" = nothing."""
    if links.unknown is not None:
        return f"Inputs and readers unknown: {unknown_text(links.unknown)}."
    return "\n".join(open_text(read) for read in links.open)


def no_link_text(links: OpLinks, by: int) -> str:
    """Return why one cannot step to an input (-1) or a reader (+1) of an op."""
    if links.span < 0:
        return "Select an op first."
    what = "input" if by < 0 else "reader"
    if links.unknown is not None:
        return f"No {what}: {unknown_text(links.unknown)}."
    if by < 0 and links.open:
        return f"No input with a span. {open_text(links.open[0])}."
    return f"No {what} in this pass."


def tooltip_lines(trace: Trace, links: OpLinks) -> list[str]:
    """Return what an op reads of other ops and who reads its result, for a tooltip."""
    if links.unknown is not None:
        return []
    parts = (("reads", links.inputs), ("read by", links.consumers))
    lines = [_tooltip_line(trace, word, some) for word, some in parts if some]
    n_ambiguous = sum(read.why is NoProducer.AMBIGUOUS for read in links.open)
    if n_ambiguous:
        lines.append(f"{format_count(n_ambiguous)} ambiguous inputs")
    return lines


def _tooltip_line(trace: Trace, word: str, links: tuple[OpLink, ...]) -> str:
    names = ", ".join(one_line(op_text(trace, link.span)) for link in links[:_SHOWN])
    more = len(links) - _SHOWN
    return f"{word} {names}" + (f" and {format_count(more)} more" if more > 0 else "")
