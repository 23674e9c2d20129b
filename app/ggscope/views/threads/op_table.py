"""The table of ops: how evenly threads share the work of each."""

from ggscope.analysis.summary.op_imbalance import OpImbalance
from ggscope.analysis.summary.threads import thread_times
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.threads import imbalance_reason, imbalance_text
from ggscope.model.selection import MarkedRange, SpanGroup
from ggscope.model.trace import Trace
from ggscope.model.units import Clock, format_count, format_share
from ggscope.session.session import Session
from ggscope.views.base.text_table import Cell, Heading
from ggscope.views.threads.section import (
    Contents,
    Query,
    Scope,
    Section,
    number_heading,
    time_cell,
    time_heading,
)

_LOST = 4


class OpSection(Section):
    """A row per kind of op that several threads compute together."""

    id = "imbalance"
    title = "Imbalance"
    tip = "How evenly threads share the work of each op"
    label = "Imbalance of ops"
    nothing = ("No op is shared by threads", "How even ops are is not known")
    came_by = _LOST

    def contents(self, query: Query, watcher: Watcher) -> Contents:
        """Return how even ops are, the most time lost first."""
        watcher.progress(0, 1)
        times, clock = thread_times(query.trace, query.scope.time), query.trace.clock
        by_op = times.by_op or ()
        return Contents(
            _headings(clock),
            tuple(_cells(query.trace, one) for one in by_op),
            by_op,
            imbalance_text(by_op, times.duration, clock.unit) if by_op else "",
            len(by_op),
            imbalance_reason(times),
            is_known=times.by_op is not None,
        )

    def choose(
        self, session: Session, scope: Scope, payload: object
    ) -> MarkedRange | None:
        """Light the spans of an op."""
        if isinstance(payload, OpImbalance):
            session.selection.select_group(
                SpanGroup("op", payload.name, time=scope.time)
            )
        return None

    def open(self, session: Session, payload: object) -> None:
        """Go to the longest thread of the most uneven op."""
        if isinstance(payload, OpImbalance):
            session.selection.select_span(payload.worst)
            session.navigator.fit_selection()


def _headings(clock: Clock) -> tuple[Heading, ...]:
    return (
        Heading("op", "Kind of op", 140, stretch=True),
        number_heading("ops", "Ops that several threads computed together"),
        number_heading(
            "max / mean",
            "Time of the longest thread over the mean of all threads of the op; "
            "1 = even. Ops count by their mean time.",
            84,
        ),
        number_heading("worst", "The same of the most uneven op", 64),
        time_heading(
            "lost",
            "By how much earlier the ops would end if their threads had even shares "
            "of the same work",
            clock,
        ),
        number_heading("lost %", "Lost time over that of the longest threads", 64),
    )


def _cells(trace: Trace, one: OpImbalance) -> tuple[Cell, ...]:
    unit = trace.clock.unit
    ratio, worst, lost = one.ratio, one.worst_ratio, round(one.lost)
    share = one.lost / one.longest_time if one.longest_time else 0.0
    return (
        Cell(one.name, one.name),
        Cell(format_count(one.n), one.n, one.n),
        Cell(f"{ratio:.2f}", ratio, ratio, f"{ratio:.6g}"),
        Cell(f"{worst:.2f}", worst, worst, f"{worst:.6g}; Enter goes there"),
        time_cell(lost, unit),
        Cell(format_share(share), share, share),
    )
