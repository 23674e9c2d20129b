"""What the timeline says about the thing under the cursor."""

from html import escape
from typing import TYPE_CHECKING

from ggscope.analysis.columns import column_edges
from ggscope.analysis.facts import Fact, span_facts
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace
from ggscope.model.units import (
    format_count,
    format_duration,
    format_exact,
    format_share,
)
from ggscope.render.compose_pending import unknown_range
from ggscope.session.session import Session

if TYPE_CHECKING:
    from ggscope.views.timeline_hit import Hit
    from ggscope.views.timeline_prepare import Prepared


def tooltip_for(
    prepared: "Prepared", session: Session, hit: "Hit", ticks_per_px: float
) -> str:
    """Return rich text for what `hit` found; "" where there is nothing to say."""
    trace = session.trace
    if trace is None:
        return ""
    if hit.in_header and hit.box is not None:
        return _lane_text(prepared, hit)
    unknown = unknown_range(prepared.index.trace)
    if unknown is not None and unknown.contains(hit.tick):
        return _unknown_text(trace)
    if hit.span >= 0:
        head = _folded_text(prepared, session, hit, ticks_per_px)
        facts = span_facts(trace, hit.span, absolute=session.absolute_time)
        return head + facts_html(trace.span_name(hit.span), facts)
    if hit.box is not None and hit.box.lane is not None and hit.box.lane.counter >= 0:
        return _counter_text(session, hit)
    return _marker_text(session, hit, ticks_per_px)


def _unknown_text(trace: Trace) -> str:
    """Say why nothing is shown here."""
    if trace.is_partial:
        return "<b>Still reading</b><br>What happened here is not known yet."
    return (
        "<b>Not read</b><br>Reading was stopped before this time. "
        "Reload (F5) reads the rest."
    )


def facts_html(title: str, facts: tuple[Fact, ...]) -> str:
    """Return facts as a small table under a title."""
    rows = "".join(
        f"<tr><td style='padding-right:12px'>{escape(f.label)}</td>"
        f"<td><b>{escape(f.value)}</b>"
        + (f"<br>{escape(f.exact)}" if f.exact and f.exact != f.value else "")
        + "</td></tr>"
        for f in facts
    )
    return f"<p><b>{escape(title)}</b></p><table>{rows}</table>"


def _folded_text(
    prepared: "Prepared", session: Session, hit: "Hit", ticks_per_px: float
) -> str:
    """Say how many spans share the pixel, where there is more than one."""
    if hit.box is None or hit.box.lane is None:
        return ""
    rows = prepared.index.row_columns(hit.box.lane.key, prepared.color_by)
    if hit.row >= len(rows):
        return ""
    width = max(1, round(ticks_per_px))
    start = hit.tick - width // 2
    columns = rows[hit.row].query(column_edges(TimeRange(start, start + width), 1))
    count = int(columns.count[0])
    if count <= 1:
        return ""
    return (
        f"<p>{format_count(count)} spans in this pixel, busy "
        f"{format_share(float(columns.busy[0]))}; the longest is:</p>"
    )


def _lane_text(prepared: "Prepared", hit: "Hit") -> str:
    box = hit.box
    if box is None:
        return ""
    if box.lane is None:
        state = "closed" if box.collapsed else "open"
        return (
            f"<b>{escape(box.group)}</b><br>{format_count(box.count)} lanes, {state}."
            "<br>Click to open or close."
        )
    lane = box.lane
    parts = [f"<b>{escape(lane.title)}</b>"]
    if lane.n_spans:
        parts.append(f"{format_count(lane.n_spans)} spans")
        share = prepared.index.busy_share(lane.key)
        parts.append(f"busy {format_share(share)} of the trace")
    for lane_id in lane.lane_ids:
        model = prepared.index.trace.lanes[lane_id]
        parts += [
            f"{escape(k)} {escape(v)}"
            for k, v in model.attributes.items()
            if k != "over"
        ]
    parts.append("Drag to move, drag the lower edge to resize, right-click for more.")
    return "<br>".join(parts)


def _counter_text(session: Session, hit: "Hit") -> str:
    trace = session.trace
    if trace is None or hit.box is None or hit.box.lane is None:
        return ""
    series = trace.counters[hit.box.lane.counter]
    at = int(series.time.searchsorted(hit.tick, "right")) - 1
    if at < 0:
        return f"<b>{escape(series.name)}</b><br>no sample yet here"
    value = float(series.value[at])
    text = "unknown" if value != value else f"{value:,.6g} {series.unit}"
    when = format_duration(int(series.time[at]), trace.clock.unit)
    return (
        f"<b>{escape(series.name)}</b><br>{escape(text)}<br>sample at {when} "
        f"({format_exact(int(series.time[at]), trace.clock.unit)})"
    )


def _marker_text(session: Session, hit: "Hit", ticks_per_px: float) -> str:
    """Describe the markers within a few pixels of the cursor."""
    trace = session.trace
    if trace is None or not len(trace.markers):
        return ""
    near = abs(trace.markers.time - hit.tick) <= 4 * ticks_per_px
    ids = near.nonzero()[0][:8]
    lines = []
    for i in ids.tolist():
        name = trace.strings[int(trace.markers.name[i])]
        detail = trace.strings[int(trace.markers.detail[i])]
        when = format_duration(int(trace.markers.time[i]), trace.clock.unit)
        lines.append(
            f"<b>{escape(name)}</b> at {when}"
            + (f"<br>{escape(detail)}" if detail else "")
        )
    return "<br>".join(lines)
