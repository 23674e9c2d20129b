"""Tooltips of the timeline: spans, waits, idle time, lanes, counters, markers."""

from typing import TYPE_CHECKING

from ggscope.analysis.rows.columns import column_edges
from ggscope.analysis.rows.index import LaneUse
from ggscope.analysis.rows.lanes import TimelineLane
from ggscope.analysis.rows.waits import Gap
from ggscope.analysis.series import value_at
from ggscope.descriptions.spans import gap_text, time_text, tooltip_text, wait_text
from ggscope.model.tables import CounterShape
from ggscope.model.trace import Trace
from ggscope.model.units import (
    TimeRange,
    format_count,
    format_exact_bytes,
    format_share,
)
from ggscope.render.timeline.compose import tells_use, unknown_range
from ggscope.render.timeline.lanes import BYTE_UNITS, format_value
from ggscope.sanitize import Html, html, join_html
from ggscope.session.session import Session
from ggscope.views.timeline.hit_test import Hit

if TYPE_CHECKING:
    from ggscope.views.timeline.view import Prepared


def tooltip_for(
    prepared: "Prepared", session: Session, hit: Hit, ticks_per_px: float
) -> Html:
    """Return the tooltip of a hit as rich text, "" without one."""
    trace = session.trace
    if trace is None:
        return Html()
    if hit.in_header and hit.box is not None:
        return _lane_text(prepared, session, hit)
    unknown = unknown_range(prepared.index.trace)
    if unknown is not None and unknown.contains(hit.tick):
        return _unknown_text(trace)
    if hit.span >= 0 and hit.is_wait:
        return wait_tip(trace, hit.span, absolute=session.display.absolute_time)
    if hit.gap is not None:
        return gap_tip(trace, hit.gap, absolute=session.display.absolute_time)
    if hit.span >= 0:
        head = _folded_text(prepared, session, hit, ticks_per_px)
        first, *lines = tooltip_text(
            trace, hit.span, absolute=session.display.absolute_time
        ).split("\n")
        body = join_html([html("{}", line) for line in lines], html("<br>"))
        return join_html([head, html("<b>{}</b><br>{}", first, body)])
    if hit.box is not None and hit.box.lane is not None and hit.box.lane.counter >= 0:
        return _counter_text(session, hit)
    return _marker_text(session, hit, ticks_per_px)


def _unknown_text(trace: Trace) -> Html:
    """Return why a range shows nothing: it is still being read, or was not read."""
    if trace.is_partial:
        return html("<b>Still reading</b><br>This range has not been read yet.")
    return html(
        "<b>Not read</b><br>Reading was stopped before this time. "
        "Reload (F5) to read the rest."
    )


def _folded_text(
    prepared: "Prepared", session: Session, hit: Hit, ticks_per_px: float
) -> Html:
    """Return how many spans share the pixel, "" for fewer than two."""
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
    usage = f"busy {format_share(float(columns.busy[0]))}"
    if columns.waited_ticks is not None and session.display.shows_waits:
        share = int(columns.waited_ticks[0]) / width
        usage += f", waiting {format_share(share)}"
    return html("{} spans in this pixel, {}; longest:<br>", format_count(count), usage)


def wait_tip(trace: Trace, span: int, *, absolute: bool) -> Html:
    """Return the tooltip of the wait after a span."""
    first, *lines = wait_text(trace, span, absolute=absolute).split("\n")
    body = join_html([html("{}", line) for line in lines], html("<br>"))
    return html("<b>{}</b><br>{}", first, body)


def gap_tip(trace: Trace, gap: Gap, *, absolute: bool) -> Html:
    """Return the tooltip of idle time between two spans."""
    first, *lines = gap_text(
        trace, gap.time, gap.before, gap.after, absolute=absolute
    ).split("\n")
    body = join_html([html("{}", line) for line in lines], html("<br>"))
    return html("<b>{}</b><br>{}<br>Click to mark this range.", first, body)


def _lane_text(prepared: "Prepared", session: Session, hit: Hit) -> Html:
    """Return the tooltip of the header of a lane or group."""
    box = hit.box
    if box is None:
        return Html()
    if box.lane is None:
        return html(
            "<b>{}</b><br>{} {}, {}<br>Click to {}.",
            box.title,
            format_count(box.count),
            "lane" if box.count == 1 else "lanes",
            "collapsed" if box.collapsed else "expanded",
            "expand" if box.collapsed else "collapse",
        )
    lane = box.lane
    parts = [html("<b>{}</b>", box.title)]
    if box.title != lane.title:
        parts.append(html("name in the file: {}", lane.title))
    if lane.n_spans:
        unit = "span" if lane.n_spans == 1 else "spans"
        parts.append(html("{} {}", format_count(lane.n_spans), unit))
        parts += _use_lines(prepared, session, lane)
        if prepared.index.has_derived_ends(lane.key):
            parts.append(html("some span ends are derived, not recorded"))
    stalled = prepared.index.stalled_share(lane.key)
    if stalled is not None:
        parts.append(html("trace: stalled {}", format_share(stalled)))
    for lane_id in lane.lane_ids:
        model = prepared.index.trace.lanes[lane_id]
        parts += [
            html("{} {}", k, v) for k, v in model.attributes.items() if k != "over"
        ]
    parts.append(html("Drag to move; drag the lower edge to resize."))
    return join_html(parts, html("<br>"))


def _use_lines(
    prepared: "Prepared", session: Session, lane: TimelineLane
) -> list[Html]:
    """Return the utilisation in the marked range, else the visible one, and in all."""
    index, marked = prepared.index, session.marked_range
    time = session.visible_range if marked is None else marked.time
    whole = LaneUse(index.busy_share(lane.key), index.wait_share(lane.key))
    lines = [html("trace: {}", _use_text(whole))]
    if tells_use(lane) and index.trace.extent != time:
        (use,) = index.shares_in((lane.key,), time, prepared.color_by)
        title = "visible range" if marked is None else "marked range"
        lines.insert(0, html("{}: {}", title, _use_text(use)))
    return lines


def _use_text(use: LaneUse) -> str:
    """Return "busy 45.0 %", with the shares of waiting and idle time if recorded."""
    text = f"busy {format_share(use.busy)}"
    if use.waiting is None:
        return text
    idle = max(1.0 - use.busy - use.waiting, 0.0)
    return f"{text}, waiting {format_share(use.waiting)}, idle {format_share(idle)}"


def _counter_text(session: Session, hit: Hit) -> Html:
    trace = session.trace
    if trace is None or hit.box is None or hit.box.lane is None:
        return Html()
    series = trace.counters[hit.box.lane.counter]
    at = int(series.time.searchsorted(hit.tick, "right")) - 1
    if at < 0:
        return html("<b>{}</b><br>no sample yet", series.name)
    value = float(series.value[at])
    if series.shape is not CounterShape.DELTA:
        value = value_at(series, hit.tick)
    text = _counter_value(value, series.unit)
    if value != value:
        return html("<b>{}</b><br>{}", series.name, text)
    when = time_text(
        trace, int(series.time[at]), absolute=session.display.absolute_time
    )
    return html("<b>{}</b><br>{}<br>sample at {}", series.name, text, when)


def _counter_value(value: float, unit: str) -> str:
    """Return ``1.2 MiB (1,214,720 bytes)``, ``93.0 % (0.929688)``, ``12 tokens``."""
    if value != value:
        return "unknown"
    text = format_value(value, unit)
    is_whole = value.is_integer() and abs(value) >= 1024
    if unit in BYTE_UNITS and is_whole:
        text += f" ({format_exact_bytes(int(value))})"
    if unit == "share":
        text += f" ({value:.6g})"
    return text


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
