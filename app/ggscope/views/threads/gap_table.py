"""The table of idle gaps, the longest first."""

from ggscope.analysis.summary.gaps import Gaps, gaps
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.spans import (
    column_time_form,
    exact_time_text,
    op_text,
    quality_word,
)
from ggscope.descriptions.threads import gaps_note, gaps_reason, gaps_text
from ggscope.model.selection import Gap, MarkedRange
from ggscope.model.trace import Trace, lane_titles
from ggscope.model.units import Clock, TimeRange, format_duration, format_exact
from ggscope.session.session import Session
from ggscope.session.time_ranges import with_air
from ggscope.views.base.text_table import Cell, Heading
from ggscope.views.threads.section import MAX_ROWS, Contents, Query, Scope, Section

_DURATION = 2


class GapSection(Section):
    """A row per gap between two spans of a lane."""

    id = "gaps"
    title = "Gaps"
    tip = "The longest idle gaps between spans"
    label = "Longest idle gaps"
    nothing = ("No idle gaps in this range", "No idle gap can be seen")
    counts_rows = True
    came_by = _DURATION

    def contents(self, query: Query, watcher: Watcher) -> Contents:
        """Return the longest gaps."""
        trace = query.trace
        longest = gaps(trace, query.scope.time, limit=MAX_ROWS, watcher=watcher)
        columns = (longest.start, longest.end, longest.before, longest.after)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        about = gaps_text(longest, trace.clock.unit)
        if note := gaps_note(longest):
            about += f" · {note}"
        reason = gaps_reason(longest)
        return Contents(
            _gap_headings(trace.clock, query.absolute),
            _gap_cells(trace, longest, query.absolute),
            [Gap(TimeRange(a, b), before, after) for a, b, before, after in rows],
            about,
            longest.n_all,
            f"{reason[:1].upper()}{reason[1:]}." if reason else "",
            is_known=not reason,
        )

    def choose(
        self, session: Session, scope: Scope, payload: object
    ) -> MarkedRange | None:
        """Select a gap and mark it."""
        if not isinstance(payload, Gap):
            return None
        session.selection.select_gap(payload)
        return MarkedRange(payload.time)

    def open(self, session: Session, payload: object) -> None:
        """Fit the timeline to a gap."""
        if isinstance(payload, Gap):
            session.viewport.set_visible(with_air(payload.time))


def _gap_headings(clock: Clock, absolute: bool) -> tuple[Heading, ...]:
    return (
        Heading("lane", "Thread, engine or command", 110),
        Heading("begin", "When the lane became idle", 96, right=True,
                copied=f"begin ({clock.column_unit(absolute)})"),
        Heading("duration", "How long nothing ran and no wait was recorded", 84,
                right=True, copied=f"duration ({clock.unit_name})", largest_first=True),
        Heading("before", "Op that ran before the gap", 140, stretch=True),
        Heading("after", "Op that ran behind the gap", 140, stretch=True),
    )  # fmt: skip


def _gap_cells(
    trace: Trace, gaps: Gaps, absolute: bool
) -> tuple[tuple[Cell, ...], ...]:
    """Return the rows of gaps: lane, begin, duration, op before, op after."""
    form, unit = column_time_form(trace, absolute=absolute), trace.clock.unit
    shift, titles = trace.clock.shift(absolute), lane_titles(trace.lanes)
    columns = (gaps.lane, gaps.start, gaps.end, gaps.before, gaps.after)
    rows = []
    for lane, start, end, before, after in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        length, exact = end - start, exact_time_text(trace, start)
        rows.append(
            (
                Cell(titles[lane], titles[lane]),
                Cell(form.text(start), start, start + shift, exact),
                Cell(format_duration(length, unit), length, length,
                     format_exact(length, unit)),
                _span_cell(trace, before),
                _span_cell(trace, after),
            )
        )  # fmt: skip
    return tuple(rows)


def _span_cell(trace: Trace, span: int) -> Cell:
    text, quality = op_text(trace, span), quality_word(trace, span)
    return Cell(text, text, tip=f"{text}: {quality}", caution=quality != "measured")
