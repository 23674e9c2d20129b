"""What lies under a point of the timeline.

What the timeline says about the thing under the cursor.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ggscope.analysis.rows.columns import column_edges
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneBox
from ggscope.model.trace import Trace
from ggscope.model.units import (
    TimeRange,
    format_count,
    format_exact_bytes,
    format_share,
)
from ggscope.render.timeline.compose import unknown_range
from ggscope.render.timeline.lanes import BYTE_UNITS, format_value
from ggscope.session.session import Session
from ggscope.text import Html, html, join_html
from ggscope.words.spans import time_text, tooltip_text

if TYPE_CHECKING:
    from ggscope.views.timeline.view import Prepared


_REACH_PX = 3.0
"""So far away a span is still found: most are narrower than a mouse can point."""


@dataclass(frozen=True, slots=True)
class Hit:
    """What lies under a point of the timeline.

    Attributes
    ----------
    tick : time at the point.
    box : lane or group head, None on the axis and below the last lane.
    row : row number inside the lane, -1 between rows.
    span : id of the span there, -1 for none.
    in_header : whether the point is over the lane headers.
    """

    tick: int
    box: LaneBox | None = None
    row: int = -1
    span: int = -1
    in_header: bool = False
    on_axis: bool = False


def hit_in_lane(
    index: TraceIndex, box: LaneBox, y: float, tick: int, ticks_per_px: float
) -> Hit:
    """Return what lies at (tick, y) of a lane's box, `y` in the lane area.

    No span is found where spans are still to be read: they are covered.
    """
    row, lane = row_at(box, y - box.y), box.lane
    unknown = unknown_range(index.trace)
    is_covered = unknown is not None and unknown.contains(tick)
    if lane is None or row < 0 or lane.counter >= 0 or is_covered:
        return Hit(tick, box, row)
    found = index.span_at(lane.key, row, tick)
    if found is None:
        reach = int(_REACH_PX * ticks_per_px) + 1
        found = index.nearest_span(lane.key, row, tick, reach)
    return Hit(tick, box, row, -1 if found is None else int(found))


def row_at(box: LaneBox, y: float) -> int:
    """Return the number of the row at `y` of a box, -1 between rows."""
    for row, top in enumerate(box.row_y):
        if top <= y < top + box.row_height:
            return row
    return -1


def tooltip_for(
    prepared: "Prepared", session: Session, hit: "Hit", ticks_per_px: float
) -> Html:
    """Return rich text for what `hit` found; "" where there is nothing to say."""
    trace = session.trace
    if trace is None:
        return Html()
    if hit.in_header and hit.box is not None:
        return _lane_text(prepared, hit)
    unknown = unknown_range(prepared.index.trace)
    if unknown is not None and unknown.contains(hit.tick):
        return _unknown_text(trace)
    if hit.span >= 0:
        head = _folded_text(prepared, session, hit, ticks_per_px)
        first, *lines = tooltip_text(
            trace, hit.span, absolute=session.absolute_time
        ).split("\n")
        body = join_html([html("{}", line) for line in lines], html("<br>"))
        return join_html([head, html("<b>{}</b><br>{}", first, body)])
    if hit.box is not None and hit.box.lane is not None and hit.box.lane.counter >= 0:
        return _counter_text(session, hit)
    return _marker_text(session, hit, ticks_per_px)


def _unknown_text(trace: Trace) -> Html:
    """Say why nothing is shown here."""
    if trace.is_partial:
        return html("<b>Still reading</b><br>What happened here is not known yet.")
    return html(
        "<b>Not read</b><br>Reading was stopped before this time. "
        "Reload (F5) reads the rest."
    )


def _folded_text(
    prepared: "Prepared", session: Session, hit: "Hit", ticks_per_px: float
) -> Html:
    """Say how many spans share the pixel, where there is more than one."""
    if hit.box is None or hit.box.lane is None:
        return Html()
    rows = prepared.index.row_columns(hit.box.lane.key, prepared.color_by)
    if hit.row >= len(rows):
        return Html()
    width = max(1, round(ticks_per_px))
    start = hit.tick - width // 2
    columns = rows[hit.row].query(column_edges(TimeRange(start, start + width), 1))
    count = int(columns.count[0])
    if count <= 1:
        return Html()
    return html(
        "{} spans in this pixel, busy {}; the longest is:<br>",
        format_count(count),
        format_share(float(columns.busy[0])),
    )


def _lane_text(prepared: "Prepared", hit: "Hit") -> Html:
    box = hit.box
    if box is None:
        return Html()
    if box.lane is None:
        state = "closed" if box.collapsed else "open"
        return html(
            "<b>{}</b><br>{} {}, {}.<br>Click to open or close.",
            box.group,
            format_count(box.count),
            "lane" if box.count == 1 else "lanes",
            state,
        )
    lane = box.lane
    parts = [html("<b>{}</b>", lane.title)]
    if lane.n_spans:
        parts.append(html("{} spans", format_count(lane.n_spans)))
        share = prepared.index.busy_share(lane.key)
        parts.append(html("busy {} of the trace", format_share(share)))
    stalled = prepared.index.stalled_share(lane.key)
    if stalled is not None:
        parts.append(html("stalled {} of the trace", format_share(stalled)))
    for lane_id in lane.lane_ids:
        model = prepared.index.trace.lanes[lane_id]
        parts += [
            html("{} {}", k, v) for k, v in model.attributes.items() if k != "over"
        ]
    parts.append(
        html("Drag to move, drag the lower edge to resize, right-click for more.")
    )
    return join_html(parts, html("<br>"))


def _counter_text(session: Session, hit: "Hit") -> Html:
    trace = session.trace
    if trace is None or hit.box is None or hit.box.lane is None:
        return Html()
    series = trace.counters[hit.box.lane.counter]
    at = int(series.time.searchsorted(hit.tick, "right")) - 1
    if at < 0:
        return html("<b>{}</b><br>no sample yet here", series.name)
    value = float(series.value[at])
    text = _counter_value(value, series.unit)
    when = time_text(trace, int(series.time[at]), absolute=session.absolute_time)
    return html("<b>{}</b><br>{}<br>sample at {}", series.name, text, when)


def _counter_value(value: float, unit: str) -> str:
    """Return ``1.2 MiB (1,214,720 bytes)`` or ``12,345 tokens``."""
    if value != value:
        return "unknown"
    text = format_value(value, unit)
    is_whole = value.is_integer() and abs(value) >= 1024
    if unit in BYTE_UNITS and is_whole:
        text += f" ({format_exact_bytes(int(value))})"
    return text


def _marker_text(session: Session, hit: "Hit", ticks_per_px: float) -> Html:
    """Describe the markers within a few pixels of the cursor."""
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
        when = time_text(trace, tick, absolute=session.absolute_time)
        below = html("<br>{}", detail) if detail else ""
        lines.append(html("<b>{}</b> at {}{}", name, when, below))
    return join_html(lines, html("<br>"))
