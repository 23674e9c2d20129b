"""Spans that belong to what is selected elsewhere, lit quietly on their lanes."""

import numpy as np

from ggscope.analysis.layout import LaneBox, TimelineLane
from ggscope.analysis.rows import Row
from ggscope.model.tables import I64, Array
from ggscope.render.batch import Batch
from ggscope.render.draft import RectList
from ggscope.render.lit_spans import LitSpans, SortedSpans
from ggscope.render.scene import TimelineGeometry, TimeScale
from ggscope.render.theme import with_alpha

LIT_SHARE = 0.3
"""How much of the selection's colour lies over a lit span."""
NARROW_SHARE = 0.85
"""The same for one that is too narrow for its own colour to matter."""
_MIN_PX = 3.0
_NARROW_PX = 8.0
_MANY = 2_000
"""More spans than this on a lane in view are thinned to one a pixel column."""
_TIES = 8
"""Spans of no length that may share their end with one looked for."""


def lit_batches(
    geometry: TimelineGeometry, boxes: list[tuple[LaneBox, float]]
) -> list[Batch]:
    """Return a tint and a thin frame for each lit span in view, at least 3 px wide.

    Only what is in view is looked at, and of very many on a lane one a pixel column.
    """
    lit, theme = geometry.scene.lit, geometry.scene.theme
    if lit is None or not len(lit.ids):
        return []
    line = max(1.0, 1 / geometry.time.scale)
    # On white the selection's colour is that of some ops: dark lines tell it apart.
    color = theme.selection if theme.is_dark else theme.text
    tints = {True: RectList(), False: RectList()}
    frames = {True: RectList(), False: RectList()}
    for box, y in boxes:
        lane = box.lane
        if lane is None or lane.counter >= 0 or not box.row_y:
            continue
        for row, x0, x1 in _places(geometry, box, lane, lit):
            inset = 0.0 if lane.thin else 1.0
            top = geometry.time.snap(y + box.row_y[row] + inset)
            bottom = geometry.time.snap(y + box.row_y[row] + box.row_height - inset)
            narrow = x1 - x0 < _NARROW_PX
            thin = _united(x0[narrow], x1[narrow])
            wide = x0[~narrow], x1[~narrow]
            own = tints[box.pinned], frames[box.pinned]
            own[0].add(*thin, top, bottom, with_alpha(color, NARROW_SHARE))
            own[0].add(*wide, top, bottom, with_alpha(theme.selection, LIT_SHARE))
            # Shape and not only colour: a line above and below.
            own[1].add(*wide, top, top + line, color)
            own[1].add(*wide, bottom - line, bottom, color)
    clips = {True: geometry.pinned_clip, False: geometry.body_clip}
    return [
        batch
        for rects in (tints, frames)
        for pinned, clip in clips.items()
        for batch in rects[pinned].batch(clip=clip)
    ]


def _places(
    geometry: TimelineGeometry, box: LaneBox, lane: TimelineLane, lit: LitSpans
) -> list[tuple[int, Array, Array]]:
    """Return (row, x0, x1) of the lit spans of a box that are in view."""
    index, time = geometry.scene.index, geometry.time
    ids, ends = _in_view(time, lit.on(index.trace.spans, lane))
    if not len(ids):
        return []
    rows = list(enumerate(index.rows(lane.key)[: len(box.row_y)]))
    if lane.overlay:
        rows += [(0, row) for row in index.overlay_rows(lane.key)]
    found = []
    for number, row in rows:
        at = _positions(row, ids, ends)
        if len(at):
            x0, x1 = time.xs(row.start[at]), time.xs(row.end[at])
            lack = np.maximum(_MIN_PX - (x1 - x0), 0) / 2
            found.append((number, x0 - lack, x1 + lack))
    return found


def _united(x0: Array, x1: Array) -> tuple[Array, Array]:
    """Return narrow boxes with those that overlap as one: far fewer to draw."""
    if len(x0) < 2:
        return x0, x1
    order = np.argsort(x0, kind="stable")
    left, reach = x0[order], np.maximum.accumulate(x1[order])
    begins = np.flatnonzero(np.append(True, left[1:] > reach[:-1]))
    return left[begins], reach[np.append(begins[1:], len(left)) - 1]


def _in_view(time: TimeScale, some: SortedSpans) -> tuple[I64, I64]:
    """Return ids and ends of the spans that touch the view, thinned if very many."""
    ids, start, end, longest = some
    low, high = np.searchsorted(
        start, (time.visible.start - longest, time.visible.end + 1)
    )
    ids, start, end = ids[low:high], start[low:high], end[low:high]
    seen = end >= time.visible.start
    ids, start, end = ids[seen], start[seen], end[seen]
    if len(ids) > _MANY:
        # The longest of a column would be better, but no reader of 3 px could tell.
        column = time.column_of(start)
        first = np.append(True, column[1:] != column[:-1])
        wide = end - start > time.duration // time.n_columns
        ids, end = ids[first | wide], end[first | wide]
    return ids, end


def _positions(row: Row, ids: I64, ends: I64) -> I64:
    """Return where in a row those of the spans `ids` are that it shows."""
    at = np.searchsorted(row.end, ends, "left")
    found: list[I64] = []
    for _ in range(_TIES):
        inside = at < len(row)
        at, ids, ends = at[inside], ids[inside], ends[inside]
        if not len(at):
            break
        hit = row.id[at] == ids
        found.append(at[hit])
        # Spans of no length may end where another one does: look further.
        again = ~hit & (row.end[at] == ends)
        at, ids, ends = at[again] + 1, ids[again], ends[again]
    return np.concatenate([np.zeros(0, np.int64), *found])


__all__ = ["LIT_SHARE", "NARROW_SHARE", "lit_batches"]
