"""Lines from span to span of the critical path, where it goes to another row.

Each leaves a span at its end, along the edge of its row, and goes up or down where the
next one begins. Highlighted spans of one row follow each other and need no line.
"""

import numpy as np

from ggscope.model.tables import Array
from ggscope.render.batch import Batch, Clip, LineList
from ggscope.render.theme import outline_pair
from ggscope.render.timeline.scene import TimelineGeometry

_LINE_PX, _CASING_PX = 1.0, 3.0


def chain_batches(geometry: TimelineGeometry) -> list[Batch]:
    """Return the lines between spans of the chain that is highlighted, if there is one.

    Of many that begin in one pixel column between the same rows, one is drawn.
    """
    scene, time = geometry.scene, geometry.time
    highlighted, theme = scene.highlighted, scene.theme
    if highlighted is None or len(highlighted.chain) < 2:
        return []
    chain, row_numbers, rows = highlighted.chain_rows(scene.index)
    spans = scene.index.trace.spans
    leaves, begins = spans.end[chain[:-1]], spans.start[chain[1:]]
    early, late = np.minimum(leaves, begins), np.maximum(leaves, begins)
    tops = np.full((len(rows), 2), np.nan)
    for i, (key, row) in enumerate(rows):
        box = scene.layout.box_of(key) if key else None
        if box is not None and box.row_y and key not in scene.waiting:
            top = geometry.box_y(box) + box.row_y[min(row, len(box.row_y) - 1)]
            tops[i] = top, top + box.row_height
    source, target = row_numbers[:-1], row_numbers[1:]
    is_shown = (source != target) & (late >= scene.visible.start)
    is_shown &= (early < scene.visible.end) & ~np.isnan(tops[source, 0])
    at = np.flatnonzero(is_shown & ~np.isnan(tops[target, 0]))
    x0, x1 = time.xs(leaves[at]), time.xs(begins[at])
    places = np.stack([np.floor(x1 * time.scale), source[at], target[at]])
    first = np.unique(places, axis=1, return_index=True)[1]
    at, x0, x1 = at[first], x0[first], x1[first]
    is_down = tops[target[at], 0] > tops[source[at], 0]
    y0 = np.where(is_down, tops[source[at], 1], tops[source[at], 0])
    y1 = np.where(is_down, tops[target[at], 0], tops[target[at], 1])
    x0, x1, y0, y1 = (_pixel_middle(v, time.scale) for v in (x0, x1, y0, y1))
    left, right = np.minimum(x0, x1), np.maximum(x0, x1)
    left, right = np.clip(left, time.x0, time.x1), np.clip(right, time.x0, time.x1)
    is_long, turns = right - left >= 1, (x1 >= time.x0) & (x1 <= time.x1)
    # On white the selection's colour is that of some ops; see `highlight_batches`.
    line, casing = outline_pair(theme.selection if theme.is_dark else theme.text)
    far = (_CASING_PX - _LINE_PX) / 2
    batches: list[Batch] = []
    for width, grow, color in ((_CASING_PX, far, casing), (_LINE_PX, 0.0, line)):
        lines = LineList(width)
        level = y0[is_long]
        lines.add(left[is_long] - grow, level, right[is_long] + grow, level, color)
        lines.add(x1[turns], y0[turns], x1[turns], y1[turns], color)
        batches += lines.batch(_area(geometry))
    return batches


def _pixel_middle(places: Array, scale: float) -> Array:
    """Return the middles of the pixels that places lie in: a thin line is sharp."""
    return (np.floor(places * scale) + 0.5) / scale


def _area(geometry: TimelineGeometry) -> Clip:
    time, top = geometry.time, geometry.lanes_y
    return Clip(time.x0, top, time.x1 - time.x0, max(geometry.bottom - top, 0.0))
