"""A selected span."""

from collections.abc import Hashable

from ggscope.analysis.graph.op_links import OpLink
from ggscope.analysis.links import Linked
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.dependencies import links_note, source_text
from ggscope.descriptions.selected import SelectedFacts, card_text, place_word
from ggscope.descriptions.spans import (
    AccessFact,
    Fact,
    access_facts,
    color_key,
    destination_of,
    known_duration,
    known_facts,
    op_text,
    span_facts,
)
from ggscope.entities.durations import DurationStats, op_durations, spans_like
from ggscope.entities.entity import (
    MAX_RELATED,
    Entity,
    EntityStats,
    Operands,
    Related,
    RelatedGroup,
)
from ggscope.model.selection import Filter, Selection
from ggscope.model.tables import Space
from ggscope.model.trace import Trace
from ggscope.model.units import NOT_AVAILABLE, format_count

_MAX_ALIKE = 100_000


class SpanEntity(Entity):
    """A span: the only entity with sources, a destination and others like it."""

    table = "spans"
    lies_in_time = True
    has_durations = True
    filter_title = "Show only this op"

    def __init__(self, trace: Trace, row: int) -> None:
        super().__init__(trace, row)
        self._op = trace.op_name(int(trace.spans.op[row])) if self.exists else ""
        what = "op" if self._op else "name"
        self.alike_title = f"Select all of this {what}"

    @property
    def exists(self) -> bool:
        """Whether the trace has such a span."""
        return 0 <= self.row < len(self.trace.spans)

    @property
    def color_key(self) -> str:
        """Key of the colour of its op or engine."""
        return color_key(self.trace, self.row)

    @property
    def record(self) -> int:
        """Number of its record in the file."""
        return self.trace.record_of(self.row)

    @property
    def duration(self) -> int:
        """Its duration in ticks, -1 if no end was recorded."""
        ticks = known_duration(self.trace, self.row)
        return -1 if ticks is None else ticks

    @property
    def stats_key(self) -> Hashable:
        """Its op: spans of one op share their statistics."""
        op = int(self.trace.spans.op[self.row])
        # Spans without an op are compared by name, which is only known per span.
        return ("op", op) if op >= 0 else ("name", self.row)

    def load_stats(
        self, correlation: Correlation | None, watcher: Watcher | None = None
    ) -> EntityStats:
        """Return the durations of all spans of its op."""
        return EntityStats(durations=op_durations(self.trace, self.row, watcher))

    def facts(
        self,
        stats: EntityStats | None,
        correlation: Correlation | None,
        *,
        absolute: bool,
    ) -> SelectedFacts:
        """Return its name, op and lane, and everything known but its accesses."""
        facts = span_facts(self.trace, self.row, absolute=absolute)
        title = self.trace.span_name(self.row)
        return SelectedFacts(title, _summary(facts), known_facts(facts[1:]))

    def durations_title(self, durations: DurationStats | None) -> str:
        """Return "This op, 120 times", with the number of spans if threads share it."""
        title = "This op" if self._op else "This name"
        if durations is None:
            return title
        title += f", {format_count(durations.n_ops)} times"
        if durations.n > durations.n_ops:
            title += f", {format_count(durations.n)} spans of threads"
        return title

    def operands(self) -> Operands:
        """Return its sources and its destination."""
        trace = self.trace
        accesses = access_facts(trace, self.row)
        reads = tuple(access for access in accesses if not access.is_write)
        is_pending = "accesses" in trace.pending
        return Operands(
            is_recorded=bool(len(trace.accesses.patterns)) or is_pending,
            is_pending=is_pending,
            reads=reads,
            cards=tuple(_card(trace, access) for access in reads),
            destination=_destination(trace, self.row, accesses) if self._op else None,
        )

    def related(self, linked: Linked) -> tuple[RelatedGroup, ...]:
        """Return the ops whose results it reads, and those that read its own."""
        links = linked.op_links
        if links.span != self.row:
            return ()
        return (
            _links_group(self.trace, "Inputs", links.inputs, links_note(links)),
            _links_group(self.trace, "Read by", links.consumers),
        )

    def span_filter(self) -> Filter | None:
        """Return the filter of its op."""
        return Filter(ops=frozenset({self._op})) if self._op else None

    def alike(self) -> tuple[int, ...]:
        """Return the spans of its op, itself first; at most 100,000."""
        ids = spans_like(self.trace, self.row)[:_MAX_ALIKE].tolist()
        return (self.row, *(span for span in ids if span != self.row))


def _links_group(
    trace: Trace, title: str, links: tuple[OpLink, ...], note: str = ""
) -> RelatedGroup:
    """Return the spans of linked ops as a group of related entities."""
    items = []
    for link in links[:MAX_RELATED]:
        text = op_text(trace, link.span)
        tip = f"{text}; known by {source_text(link.how)}"
        items.append(Related(text, tip, Selection("spans", (link.span,))))
    return RelatedGroup(title, tuple(items), len(links), note)


def _summary(facts: tuple[Fact, ...]) -> str:
    """Return "MUL_MAT · layer 0 · thread 0 · token #0"."""
    known = {f.label: f.value for f in facts if f.value != NOT_AVAILABLE}
    parts = [
        known.get("op", ""),
        f"layer {known['layer']}" if "layer" in known else "",
        known.get("lane", ""),
        f"token {known['token']}" if "token" in known else "",
    ]
    return " · ".join(part for part in parts if part)


def _card(trace: Trace, access: AccessFact) -> tuple[str, tuple[str, ...]]:
    """Return how the place of an access is known, and further texts of its card."""
    if access.tensor < 0 or access.space is not Space.FILE:
        return "", card_text(trace, access.tensor)
    return (
        "tensor by offset" if access.of_range else place_word(trace, access.tensor),
        card_text(trace, access.tensor, access.bytes),
    )


def _destination(
    trace: Trace, span: int, accesses: tuple[AccessFact, ...]
) -> Fact | None:
    """Return name and size of what an op writes."""
    for access in accesses:
        if access.is_write:
            return Fact(access.name, access.size, access.exact_size)
    return destination_of(trace, span)
