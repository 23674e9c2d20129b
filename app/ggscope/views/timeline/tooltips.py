"""Tooltips of the timeline: of lanes, groups, markers and times that are not read."""

from typing import TYPE_CHECKING

from ggscope.analysis.graph.dependencies import op_links
from ggscope.analysis.links import QUICK_SPANS
from ggscope.analysis.rows.lanes import LaneBox
from ggscope.descriptions.dependencies import tooltip_lines
from ggscope.descriptions.spans import time_text
from ggscope.model.trace import Trace
from ggscope.model.units import format_count
from ggscope.render.timeline.compose import unknown_range
from ggscope.render.timeline.hit_test import Hit
from ggscope.render.timeline.tracks.track import TooltipContext, track_of
from ggscope.sanitize import Html, html, join_html
from ggscope.session.session import Session

if TYPE_CHECKING:
    from ggscope.render.timeline.prepare import Prepared


def tooltip_for(
    prepared: "Prepared", session: Session, hit: Hit, ticks_per_px: float
) -> Html:
    """Return the tooltip of a hit as rich text, "" without one."""
    trace = session.trace
    if trace is None:
        return Html()
    context = _context(prepared, session, trace, ticks_per_px)
    if hit.in_header and hit.box is not None:
        return _header_text(context, hit.box)
    unknown = unknown_range(prepared.index.trace)
    if unknown is not None and unknown.contains(hit.tick):
        return _unknown_text(trace)
    lane = None if hit.box is None else hit.box.lane
    text = Html() if lane is None else track_of(lane).tooltip(context, hit)
    if text and hit.span >= 0 and not hit.is_wait:
        text = _with_links(session, hit.span, text)
    return text or _marker_text(session, hit, ticks_per_px)


def _with_links(session: Session, span: int, text: Html) -> Html:
    """Return a tooltip with what the op reads and who reads it.

    Of the selected op, and in traces that are short enough to look at once.
    """
    trace, linked = session.trace, session.linking.linked
    links = linked.op_links
    if trace is None:
        return text
    if links.span != span or linked.selection != session.selection.current:
        if len(trace.spans) > QUICK_SPANS or trace.pending or trace.is_running:
            return text
        links = op_links(trace, span, session.linking.correlation)
    lines = [html("{}", line) for line in tooltip_lines(trace, links)]
    return join_html([text, *lines], html("<br>"))


def _context(
    prepared: "Prepared", session: Session, trace: Trace, ticks_per_px: float
) -> TooltipContext:
    marked = session.ranges.marked
    return TooltipContext(
        trace=trace,
        index=prepared.index,
        color_by=prepared.color_by,
        ticks_per_px=ticks_per_px,
        time=session.viewport.visible if marked is None else marked.time,
        time_title="visible range" if marked is None else "marked range",
        absolute=session.display.absolute_time,
        shows_waits=session.display.shows_waits,
    )


def _unknown_text(trace: Trace) -> Html:
    """Return why a range shows nothing: it is still being read, or was not read."""
    if trace.is_partial:
        return html("<b>Still reading</b><br>This range has not been read yet.")
    return html(
        "<b>Not read</b><br>Reading was stopped before this time. "
        "Reload (F5) to read the rest."
    )


def _header_text(context: TooltipContext, box: LaneBox) -> Html:
    """Return the tooltip of the header of a lane or group."""
    if box.lane is None:
        return html(
            "<b>{}</b><br>{} {}, {}<br>Click to {}.",
            box.title,
            format_count(box.count),
            "lane" if box.count == 1 else "lanes",
            "collapsed" if box.collapsed else "expanded",
            "expand" if box.collapsed else "collapse",
        )
    lines = track_of(box.lane).header_lines(context, box.title)
    lines.append(html("Drag to move; drag the lower edge to resize."))
    return join_html(lines, html("<br>"))


def _marker_text(session: Session, hit: Hit, ticks_per_px: float) -> Html:
    """Return the tooltip of the markers within a few pixels of the cursor."""
    trace = session.trace
    if trace is None or not len(trace.markers):
        return Html()
    near = abs(trace.markers.time - hit.tick) <= 4 * ticks_per_px
    ids = near.nonzero()[0][:8]
    lines = []
    for i in ids.tolist():
        name = trace.strings[int(trace.markers.name[i])]
        detail = trace.strings[int(trace.markers.detail[i])]
        tick = int(trace.markers.time[i])
        when = time_text(trace, tick, absolute=session.display.absolute_time)
        below = html("<br>{}", detail) if detail else ""
        lines.append(html("<b>{}</b> at {}{}", name, when, below))
    return join_html(lines, html("<br>"))
