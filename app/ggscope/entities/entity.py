"""What a kind of selectable entity declares: facts, relations, statistics, extent."""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ggscope.analysis.links import Linked
from ggscope.analysis.reads.usage import Usage, usage_of
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.selected import SelectedFacts
from ggscope.descriptions.spans import AccessFact, Fact
from ggscope.entities.durations import DurationStats
from ggscope.model.selection import Filter, Selection, TableName
from ggscope.model.trace import Trace

if TYPE_CHECKING:
    from ggscope.analysis.summary.pauses import PauseContext

MAX_RELATED = 12
"""Entities listed per group; the others are counted."""


@dataclass(frozen=True, slots=True)
class Related:
    """An entity that belongs to the selected one.

    Attributes
    ----------
    text, tip : title and tooltip of its link.
    target : the selection that the link makes.
    """

    text: str
    tip: str
    target: Selection


@dataclass(frozen=True, slots=True)
class RelatedGroup:
    """Related entities under a heading; `n` counts those that are not listed, too.

    `note` says what is not known of them, a line each; "" = nothing.
    """

    title: str
    items: tuple[Related, ...]
    n: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Operands:
    """Sources and destination of an op.

    Attributes
    ----------
    is_recorded : whether the trace records accesses at all.
    is_pending : whether accesses are still being read.
    reads : one per source.
    cards : per source, how its place is known, and further texts of its card.
    destination : name and size of the tensor that is written; None without an op.
    """

    is_recorded: bool
    is_pending: bool
    reads: tuple[AccessFact, ...]
    cards: tuple[tuple[str, tuple[str, ...]], ...]
    destination: Fact | None


@dataclass(frozen=True, slots=True, eq=False)
class EntityStats:
    """What takes a pass over all spans.

    Attributes
    ----------
    usage : how it is accessed; None of what lies in time itself.
    leaf : what an unnamed input is for, "" if unknown.
    durations : of its spans, or of those with the same op.
    pause : what is around a wait or a gap.
    """

    usage: Usage | None = None
    leaf: str = ""
    durations: DurationStats | None = None
    pause: "PauseContext | None" = None


class Entity(ABC):
    """One selected row of `table`. Nothing here takes a pass over all spans but stats.

    Attributes
    ----------
    lies_in_time : spans, waits, gaps and markers: they need no steps through spans.
    has_stats, has_durations : whether `load_stats` returns something, and durations.
    filter_title : the command that shows only its spans.
    alike_title : the command that selects all spans like it, "" without one.
    """

    table: ClassVar[TableName]
    lies_in_time: ClassVar[bool] = False
    has_stats: ClassVar[bool] = True
    has_durations: ClassVar[bool] = False
    filter_title: str = "Show only its spans"
    alike_title: str = ""

    def __init__(self, trace: Trace, row: int) -> None:
        self.trace, self.row = trace, row

    @property
    def selection(self) -> Selection:
        """The selection of this entity alone."""
        return Selection(self.table, (self.row,))

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether the trace has such a row."""

    @property
    def color_key(self) -> str:
        """Key of its colour, "" without one."""
        return ""

    @property
    def record(self) -> int:
        """Number of its record in the file, -1 without one."""
        return -1

    @property
    def duration(self) -> int:
        """Its place in the histogram of durations in ticks, -1 without one."""
        return -1

    @property
    def stats_key(self) -> Hashable:
        """What its statistics are cached by: equal keys have equal statistics."""
        return self.selection

    def load_stats(
        self, correlation: Correlation | None, watcher: Watcher | None = None
    ) -> EntityStats:
        """Return its statistics: its usage. Raises Cancelled from the watcher."""
        return EntityStats(usage_of(self.trace, self.selection, correlation, watcher))

    @abstractmethod
    def facts(
        self,
        stats: EntityStats | None,
        correlation: Correlation | None,
        *,
        absolute: bool,
    ) -> SelectedFacts:
        """Return title, kind and facts; without `stats` some of them are pending."""

    def durations_title(self, durations: DurationStats | None) -> str:
        """Return the heading of the histogram of durations."""
        return "Durations"

    def operands(self) -> Operands | None:
        """Return what it reads and writes; None unless it is a span."""
        return None

    def related(self, linked: Linked) -> tuple[RelatedGroup, ...]:
        """Return what it reads or holds, and what reads it: at most two groups."""
        return ()

    def span_filter(self) -> Filter | None:
        """Return the filter that matches its spans; None if no filter does."""
        return None

    def alike(self) -> tuple[int, ...]:
        """Return the ids of all spans like it."""
        return ()
