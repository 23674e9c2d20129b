"""Lanes with rows of spans: threads, engines, tokens, phases, graphs, layers, ops."""

from typing import ClassVar

import numpy as np

from ggscope.analysis.rows.columns import add_ticks, column_edges
from ggscope.analysis.rows.index import LaneUse, TraceIndex
from ggscope.analysis.rows.lanes import LaneBox
from ggscope.analysis.summary.latency import SLOW
from ggscope.descriptions.spans import tooltip_text, wait_of
from ggscope.model.tables import Array
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, format_count, format_duration, format_share
from ggscope.render.timeline.hit_test import Hit
from ggscope.render.timeline.lanes import LanesDraft
from ggscope.render.timeline.latency import token_latency_of
from ggscope.render.timeline.rows import RowStyle
from ggscope.render.timeline.tracks.track import TooltipContext, Track
from ggscope.sanitize import Html, html, join_html

_MAX_PARTS = 6
"""Lines for what a pixel is made of."""
_REACH_PX = 3.0
"""How close to a span a point hits it: most are narrower than a mouse can aim at."""
_WIDE_WAIT_PX, _REACH_IN_WAIT_PX = 6.0, 1.0
"""Inside a wait wider than the first, spans have the second as their reach."""


class SpanTrack(Track):
    """Rows of spans, in the hues of the colouring."""

    style: ClassVar[RowStyle] = RowStyle.CATEGORY

    @property
    def has_plain_rows(self) -> bool:
        """Whether neither stalls nor what a derived track draws lie there as well."""
        return not self.lane.overlay and type(self).compose is SpanTrack.compose

    def compose(self, draft: LanesDraft, box: LaneBox, y: float) -> None:
        """Draw the rows, and hatch the stalls over them."""
        draft.add_rows(self.lane, box, y, self.style)
        draft.add_stalls(self.lane, box, y)

    def note(self, trace: Trace) -> str:
        """Return the number of spans."""
        n_spans = self.lane.n_spans
        return format_count(n_spans) if n_spans and not self.lane.track.is_thin else ""

    def hit(
        self,
        index: TraceIndex,
        box: LaneBox,
        row: int,
        tick: int,
        ticks_per_px: float,
        *,
        has_waits: bool,
    ) -> Hit:
        """Return the span, the wait behind a span, or the idle time between two."""
        key = self.lane.key
        span = index.span_at(key, row, tick)
        if span is not None:
            return Hit(tick, box, row, span)
        waiting = index.wait_at(key, row, tick)
        reach_px = _REACH_PX
        if waiting is not None and has_waits:
            wait = wait_of(index.trace, waiting)
            reach_px = (
                _REACH_IN_WAIT_PX if wait > _WIDE_WAIT_PX * ticks_per_px else _REACH_PX
            )
        reach = int(reach_px * ticks_per_px) + 1
        span = index.nearest_span(key, row, tick, reach)
        if span is not None:
            return Hit(tick, box, row, span)
        if waiting is not None:
            return Hit(tick, box, row, waiting if has_waits else -1, is_wait=has_waits)
        gap = index.gap_at(key, row, tick) if self.lane.track.is_work else None
        return Hit(tick, box, row, gap=gap)

    def tooltip(self, context: TooltipContext, hit: Hit) -> Html:
        """Return the tooltip of a span, of the wait behind it, or of idle time."""
        trace, absolute = context.trace, context.absolute
        if hit.is_wait or hit.gap is not None:
            return _pause_tooltip(trace, hit, absolute=absolute)
        if hit.span < 0:
            return Html()
        text = tooltip_text(trace, hit.span, absolute=absolute)
        return join_html([self._folded_text(context, hit), _headed(text)])

    def header_lines(self, context: TooltipContext, title: str) -> list[Html]:
        """Return number of spans, utilisation and what the trace says of the lane."""
        index, lane = context.index, self.lane
        lines = super().header_lines(context, title)
        if lane.n_spans:
            unit = "span" if lane.n_spans == 1 else "spans"
            lines.append(html("{} {}", format_count(lane.n_spans), unit))
            lines += self._use_lines(context)
            if index.has_derived_ends(lane.key):
                lines.append(html("some span ends are derived, not recorded"))
        stalled = index.stalled_share(lane.key)
        if stalled is not None:
            lines.append(html("trace: stalled {}", format_share(stalled)))
        for lane_id in lane.lane_ids:
            attributes = index.trace.lanes[lane_id].attributes
            lines += [html("{} {}", k, v) for k, v in attributes.items() if k != "over"]
        return lines

    def _folded_text(self, context: TooltipContext, hit: Hit) -> Html:
        """Return how many spans share the pixel, "" for fewer than two."""
        rows = context.index.row_columns(self.lane.key, context.color_by)
        if hit.row >= len(rows):
            return Html()
        width = max(1, round(context.ticks_per_px))
        start = hit.tick - width // 2
        edges = column_edges(TimeRange(start, start + width), 1)
        n_categories = len(context.index.categories(context.color_by).labels)
        ticks = np.zeros((n_categories, 1), np.int64)
        [columns] = add_ticks([rows[hit.row]], edges, ticks)
        count = int(columns.count[0])
        if count <= 1:
            return Html()
        usage = f"busy {format_share(float(columns.busy[0]))}"
        if columns.waited_ticks is not None and context.shows_waits:
            share = int(columns.waited_ticks[0]) / width
            usage += f", waiting {format_share(share)}"
        return html(
            "{} spans in this pixel, {}<br>{}Longest:<br>",
            format_count(count), usage, self._parts_text(context, ticks[:, 0] / width),
        )  # fmt: skip

    def _parts_text(self, context: TooltipContext, shares: Array) -> Html:
        """Return the largest shares of a pixel by category, a line each."""
        if self.style is not RowStyle.CATEGORY:
            return Html()
        labels = context.index.categories(context.color_by).labels
        order = np.argsort(-shares, kind="stable")[: np.count_nonzero(shares)]
        shown = order if len(order) <= _MAX_PARTS else order[: _MAX_PARTS - 1]
        lines = [
            html("{} {}<br>", labels[i], format_share(float(shares[i])))
            for i in shown.tolist()
        ]
        if len(rest := order[len(shown) :]):
            others = format_share(float(shares[rest].sum()))
            lines.append(html("{} others {}<br>", format_count(len(rest)), others))
        return join_html(lines)

    def _use_lines(self, context: TooltipContext) -> list[Html]:
        """Return the utilisation in the range of the tooltip, and in all."""
        index, key = context.index, self.lane.key
        whole = LaneUse(index.busy_share(key), index.wait_share(key))
        lines = [html("trace: {}", _use_text(whole))]
        if self.shows_use and index.trace.extent != context.time:
            (use,) = index.shares_in((key,), context.time, context.color_by)
            lines.insert(0, html("{}: {}", context.time_title, _use_text(use)))
        return lines


class TokenTrack(SpanTrack):
    """Boxes with number and duration; narrow ones are coloured by latency."""

    style = RowStyle.TOKEN

    def tooltip(self, context: TooltipContext, hit: Hit) -> Html:
        """Return the tooltip of a token, with its latency beside the median."""
        text, trace = super().tooltip(context, hit), context.trace
        typical = token_latency_of(context.index)
        ratio = typical.ratios(trace.spans, np.array([max(hit.span, 0)]))[0]
        if hit.span < 0 or ratio != ratio:
            return text
        of = format_duration(round(typical.median), trace.clock.unit)
        return html("{}<br>{} × the median of {}", text, f"{ratio:.2f}", of)

    def header_lines(self, context: TooltipContext, title: str) -> list[Html]:
        """Return those of all lanes, and what the colours stand for."""
        lines = super().header_lines(context, title)
        if median := token_latency_of(context.index).median:
            of = format_duration(round(median), context.trace.clock.unit)
            lines.append(html("median latency {}", of))
            lines.append(
                html("Narrow tokens: grey up to the median, full colour at {} ×", SLOW)
            )
        return lines


class PhaseTrack(SpanTrack):
    """Bands in the colours of phases."""

    style = RowStyle.PHASE


class GraphTrack(SpanTrack):
    """Boxes in one neutral colour."""

    style = RowStyle.NEUTRAL


class StallTrack(SpanTrack):
    """Hatched boxes."""

    style = RowStyle.STALL


def _headed(text: str) -> Html:
    """Return lines of text as rich text, the first one bold."""
    first, *lines = text.split("\n")
    body = join_html([html("{}", line) for line in lines], html("<br>"))
    return html("<b>{}</b><br>{}", first, body)


def _pause_tooltip(trace: Trace, hit: Hit, *, absolute: bool) -> Html:
    """Return the tooltip of a wait or of idle time."""
    # Imported on demand: the first picture does without.
    from ggscope.descriptions.waits import gap_text, wait_text

    if hit.gap is None:
        return _headed(wait_text(trace, hit.span, absolute=absolute))
    text = gap_text(trace, hit.gap, absolute=absolute)
    return html("{}<br>Click to select and mark it.", _headed(text))


def _use_text(use: LaneUse) -> str:
    """Return "busy 45.0 %", with the shares of waiting and idle time if recorded."""
    text = f"busy {format_share(use.busy)}"
    if use.waiting is None:
        return text
    idle = max(1.0 - use.busy - use.waiting, 0.0)
    return f"{text}, waiting {format_share(use.waiting)}, idle {format_share(idle)}"
