"""Plain values that say what is selected, marked, filtered and searched."""

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from ggscope.model.units import TimeRange

TableName = Literal[
    "spans",
    "waits",
    "gaps",
    "markers",
    "accesses",
    "tensors",
    "buffers",
    "nodes",
    "experts",
    "groups",
]
"""What can be selected. Ids are rows of that table of the trace, except: "waits" are
the spans that they lie behind, "nodes" are ids over all graphs
(``model.graph.first_node``), "experts" are ``model.routing.expert_key``, of "gaps"
there is one, `Selection.gap`, and of "groups" one, `Selection.group`."""
ColorBy = str
"""Id of a colouring, see ``analysis.rows.colorings``."""

By = Literal[
    "op",
    "family",
    "name",
    "layer",
    "tensor",
    "type",
    "shape",
    "token",
    "thread",
    "engine",
    "backend",
    "phase",
    "lane",
    "source",
    "expert",
    "core",
    "numa",
    "category",
    "launcher",
    "bits",
    "bank",
]
BY: tuple[By, ...] = get_args(By)
"""All columns that statistics group spans by."""
AlignBy = Literal["token", "phase", "start"]
ALIGN_BY: tuple[AlignBy, ...] = get_args(AlignBy)
"""How runs that are compared are aligned."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Idle time in a row: neither a span nor the wait behind one.

    Attributes
    ----------
    before, after : ids of the spans around it.
    """

    time: TimeRange
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Selection:
    """What is selected: a locator; whoever shows it resolves the details.

    Attributes
    ----------
    table : name of the table, or None for nothing.
    ids : row numbers; the first is the *active* one that Details shows.
    group : of the table "groups": which spans it has. It may be millions, so they are
        found when somebody asks for them (``analysis.statistics.members``).
    gap : of the table "gaps": the idle time; `ids` has the span before it.
    """

    table: TableName | None = None
    ids: tuple[int, ...] = ()
    group: "SpanGroup | None" = None
    gap: Gap | None = None

    def __bool__(self) -> bool:
        return self.table is not None and bool(self.ids)

    @property
    def active(self) -> int | None:
        """The row that Details shows."""
        return self.ids[0] if self else None


@dataclass(frozen=True, slots=True)
class MarkedRange:
    """A range of time on some lanes, made by dragging.

    `lanes` holds timeline lane keys; None means all lanes.
    """

    time: TimeRange
    lanes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Not:
    """Spans that a filter does not match."""

    of: "Filter"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Spans that at least one of two or more filters matches."""

    of: tuple["Filter", ...]


Clause = Not | AnyOf


@dataclass(frozen=True, slots=True)
class Filter:
    """Which spans to show. None means "any"; all given parts must match.

    Attributes
    ----------
    ops : op names (upper case as ggml prints them), with ``*``, or ``/regex/``.
    families : op families.
    layers, tokens : numbers; -1 = none.
    threads : lane names, the numbers that they show or the file's own, ``/regex/``.
    phases : `Phase` values.
    spaces : `Space` values; a span matches if any of its accesses does.
    qualities : `Quality` values.
    text : plain text (any case) or ``/regex/`` over names, ops and sources.
    min_duration, max_duration : ticks.
    time : range that spans must touch.
    tensors : names (normalised) of tensors, with ``*``, or ``/regex/``; a span matches
        if it is, or accesses, one.
    offsets : (first, stop) bytes of the model file; a span matches if an access of it
        touches them.
    experts : expert numbers; a span matches if it accesses or routes to one.
    buffers : addresses (ids) of backend buffers; a span matches if it accesses one.
    cores, nodes : of processor cores and of NUMA nodes; -1 = not known.
    categories : of calls and events, with ``*``, or ``/regex/``.
    min_size, max_size : known bytes of all that a span accesses; none matches whose
        bytes are not recorded.
    min_wait, max_wait : ticks; no span matches whose wait is not recorded.
    min_traffic, max_traffic : known bytes that an op moves, as statistics count them.
    min_rate, max_rate : the same per 10^9 ticks, from the first thread's begin to the
        last one's end; none matches whose bytes or time are not known.
    groups : rows of statistics, ``layer:3``; a span matches if they count it in one.
    clauses : what the parts above cannot say: "not" and "or".
    """

    ops: frozenset[str] | None = None
    families: frozenset[str] | None = None
    layers: frozenset[int] | None = None
    tokens: frozenset[int] | None = None
    threads: frozenset[str] | None = None
    phases: frozenset[int] | None = None
    spaces: frozenset[int] | None = None
    qualities: frozenset[int] | None = None
    text: str = ""
    min_duration: int | None = None
    max_duration: int | None = None
    time: TimeRange | None = None
    tensors: frozenset[str] | None = None
    offsets: tuple[int, int] | None = None
    experts: frozenset[int] | None = None
    buffers: frozenset[int] | None = None
    min_size: int | None = None
    max_size: int | None = None
    min_wait: int | None = None
    max_wait: int | None = None
    cores: frozenset[int] | None = None
    nodes: frozenset[int] | None = None
    min_traffic: int | None = None
    max_traffic: int | None = None
    min_rate: int | None = None
    max_rate: int | None = None
    groups: frozenset[str] | None = None
    categories: frozenset[str] | None = None
    clauses: tuple[Clause, ...] = ()

    def __bool__(self) -> bool:
        return self != Filter()

    def merged(self, added: "Filter") -> "Filter":
        """Return the filter with every part that `added` sets replaced by it.

        Clauses are added to those that are there.
        """
        parts = {
            f.name: getattr(added, f.name)
            for f in fields(Filter)
            if getattr(added, f.name) != f.default
        }
        if added.groups and self.groups and _by(added.groups) != _by(self.groups):
            # By something else: both must hold.
            parts["groups"] = self.groups
            more = AnyOf((Filter(groups=added.groups),))
            added = replace(added, clauses=(*added.clauses, more))
        if added.clauses:
            new = [clause for clause in added.clauses if clause not in self.clauses]
            parts["clauses"] = (*self.clauses, *new)
        return replace(self, **parts)

    def without(self, part: str) -> "Filter":
        """Return the filter with field `part` back at its default.

        ``clauses:1`` stands for the second clause.
        """
        number = part.partition(":")[2]
        if number:
            clauses = (c for i, c in enumerate(self.clauses) if i != int(number))
            return replace(self, clauses=tuple(clauses))
        changes: dict[str, Any] = {f.name: f.default for f in fields(Filter)}
        return replace(self, **{part: changes[part]})


def _by(groups: frozenset[str]) -> set[str]:
    """Return what these rows of statistics are grouped by."""
    return {group.partition(":")[0] for group in groups}


@dataclass(frozen=True, slots=True)
class SpanGroup:
    """The spans of a row of statistics.

    Attributes
    ----------
    by, key : what spans are grouped by, and the label of the group.
    where : the filter that they pass.
    time : range that they touch; None = all of the trace.
    lanes : timeline lane keys; None = all.
    ids : the spans that are grouped; empty = all.
    also : what else they are grouped by, and the label: a cell of a pivot table.
    """

    by: By
    key: str
    where: Filter = Filter()
    time: TimeRange | None = None
    lanes: frozenset[str] | None = None
    ids: tuple[int, ...] = ()
    also: tuple[By, str] | None = None
