"""The lane that counts busy threads."""

from collections.abc import Sequence

import numpy as np

from ggscope.analysis.rows.busy_threads import (
    busy_step,
    busy_threads,
    thread_lanes,
    thread_rows,
)
from ggscope.analysis.rows.columns import Columns, column_edges, query_many
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneBox
from ggscope.descriptions.spans import time_text
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, format_count, format_duration
from ggscope.render.batch import AreaBatch, Batch
from ggscope.render.theme import with_alpha
from ggscope.render.timeline.hit_test import Hit
from ggscope.render.timeline.lanes import LanesDraft
from ggscope.render.timeline.scene import axis_ends
from ggscope.render.timeline.tracks.track import TooltipContext, Track
from ggscope.sanitize import Html, html

_FILL_SHARE = 0.3


class BusyThreadsTrack(Track):
    """How many threads run an op: from none at the foot to all at the top."""

    def compose(self, draft: LanesDraft, box: LaneBox, y: float) -> None:
        """Draw the mean of each column."""
        scene, time, color = draft.scene, draft.time, draft.scene.theme.dim
        rows = thread_rows(scene.index, scene.color_by)
        if not rows:
            return

        def draw(columns: Sequence[Columns]) -> list[Batch]:
            top, base = axis_ends(y, time.snap(y + box.height))
            busy = busy_threads(columns)
            level = base - busy * (base - top) / self.lane.value
            x = time.column_x(np.arange(time.n_columns + 1)).astype(np.float32)
            fill = with_alpha(color, _FILL_SHARE)
            return [
                AreaBatch(x, level.astype(np.float32), base, fill, color, draft.clip)
            ]

        draft.add_columns(rows, draw)

    def axis_labels(self, trace: Trace) -> tuple[str, str] | None:
        """Return the ends of the axis: all threads, and none."""
        return format_count(self.lane.value), "0"

    def tooltip(self, context: TooltipContext, hit: Hit) -> Html:
        """Return how many threads are busy at the time of the hit, and how long."""
        index = context.index
        n, step = self.lane.value, busy_step(index, hit.tick)
        length = format_duration(step.time.duration, context.trace.clock.unit)
        begin = time_text(context.trace, step.time.start, absolute=context.absolute)
        return html(
            "<b>{} of {} threads busy</b><br>for {} from {}", step.n, n, length, begin
        )

    def header_lines(self, context: TooltipContext, title: str) -> list[Html]:
        """Return the mean of the range of the tooltip, and of all."""
        lines = super().header_lines(context, title)
        index, extent = context.index, context.index.trace.extent
        n = self.lane.value
        ranges = [("trace", extent)]
        if context.time != extent:
            ranges.insert(0, (context.time_title, context.time))
        for name, time in ranges:
            mean = _mean(index, context.color_by, time)
            lines.append(html("{}: {} of {} threads busy on average", name, mean, n))
        if any(
            index.has_derived_ends(index.lanes.keys[i]) for i in thread_lanes(index)
        ):
            lines.append(html("some span ends are derived, not recorded"))
        # Imported on demand: the first picture does without.
        from ggscope.analysis.summary.partial import hidden_ops, hidden_threads

        if reason := hidden_ops(context.trace) or hidden_threads(context.trace):
            lines.append(html("at least so many: {}", reason))
        return lines


def _mean(index: TraceIndex, by: str, time: TimeRange) -> str:
    edges = column_edges(time, 1)
    rows = thread_rows(index, by)
    return f"{float(busy_threads(query_many(rows, edges))[0]):.2f}" if rows else "0"
