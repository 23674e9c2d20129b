"""A selected row of statistics: a group of spans."""

from collections.abc import Hashable

from ggscope.analysis.filters.text import format_filter
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.analysis.statistics.members import filter_of_spans
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.groupings import GROUPINGS
from ggscope.descriptions.selected import COUNTING, SelectedFacts
from ggscope.descriptions.spans import Fact, exact_time_text
from ggscope.entities.durations import DurationStats, group_durations
from ggscope.entities.entity import Entity, EntityStats
from ggscope.model.selection import Filter, Selection, SpanGroup
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, format_duration, format_exact


class StatisticsRowEntity(Entity):
    """The spans of a row of statistics."""

    table = "groups"
    has_durations = True

    def __init__(self, index: TraceIndex, group: SpanGroup) -> None:
        super().__init__(index.trace, 0)
        self._index, self._group = index, group

    @property
    def selection(self) -> Selection:
        """The selection of this row."""
        return Selection("groups", (0,), self._group)

    @property
    def exists(self) -> bool:
        """Whether it exists: a group may turn out to be empty, but is one."""
        return True

    @property
    def color_key(self) -> str:
        """Key of the colour of an op or family."""
        key = self._group.key
        return {"op": f"op:{key}", "family": key}.get(self._group.by, "")

    @property
    def stats_key(self) -> Hashable:
        """The group."""
        return self._group

    def load_stats(
        self, correlation: Correlation | None, watcher: Watcher | None = None
    ) -> EntityStats:
        """Return the durations of its spans."""
        durations = group_durations(self._index, self._group, watcher)
        return EntityStats(durations=durations)

    def facts(
        self,
        stats: EntityStats | None,
        correlation: Correlation | None,
        *,
        absolute: bool,
    ) -> SelectedFacts:
        """Return what limits the group, and sums of its durations."""
        durations = None if stats is None else stats.durations
        facts = _limit_facts(self.trace, self._group)
        facts += _duration_facts(self.trace, durations)
        grouping, title = GROUPINGS[self._group.by], self._group.key
        kind = f"{grouping} · row of statistics"
        if (also := self._group.also) is not None:
            kind = f"{grouping} × {GROUPINGS[also[0]]} · cell of statistics"
            title = f"{title} · {also[1]}"
        return SelectedFacts(title, kind, tuple(facts))

    def span_filter(self) -> Filter:
        """Return the filter of its spans."""
        return filter_of_spans(self._group)


def _limit_facts(trace: Trace, group: SpanGroup) -> list[Fact]:
    facts = []
    if group.time is not None:
        length = format_duration(group.time.duration, trace.clock.unit)
        exact = " – ".join(
            exact_time_text(trace, tick) for tick in (group.time.start, group.time.end)
        )
        facts.append(Fact("limited to a range of", length, exact))
    if group.lanes is not None:
        facts.append(Fact("lanes", format_count(len(group.lanes))))
    if group.ids:
        facts.append(Fact("selected spans", format_count(len(group.ids))))
    if group.where:
        facts.append(Fact("filter", format_filter(group.where)))
    return facts


def _duration_facts(trace: Trace, durations: DurationStats | None) -> list[Fact]:
    unit = trace.clock.unit
    labels = ("sum", "mean", "shortest", "longest")
    if durations is None:
        return [Fact(label, COUNTING) for label in ("spans", *labels)]
    facts = [Fact("spans", format_count(durations.n))]
    if durations.n_ops != durations.n:
        facts.append(Fact("ops", format_count(durations.n_ops)))
    if durations.timed:
        mean = durations.total / durations.timed
        ticks = (durations.total, mean, durations.low, durations.high)
        facts += [
            Fact(label, format_duration(n, unit), format_exact(round(n), unit))
            for label, n in zip(labels, ticks, strict=True)
        ]
    n_untimed = durations.n - durations.timed
    if n_untimed:
        facts.append(Fact("duration unknown", format_count(n_untimed), caution=True))
    return facts
