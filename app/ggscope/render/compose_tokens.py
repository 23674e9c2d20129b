"""Tokens: quiet boxes with round corners, their number and how long they took."""

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import Array
from ggscope.model.tokens import numbers_per_phase, token_text
from ggscope.model.units import format_duration
from ggscope.render.batch import Batch, Clip, Face, Text
from ggscope.render.compose_wide import LABEL_SIZE, Wide
from ggscope.render.draft import RectList
from ggscope.render.scene import TimelineGeometry, TimelineScene

TOKEN_LABEL_PX = 22.0
_ROUND_PX = 16.0
"""Narrower boxes have square corners: nobody sees round ones."""


def token_boxes(geometry: TimelineGeometry, clip: Clip, wide: Wide) -> list[Batch]:
    """Return tokens as quiet boxes with round corners."""
    scene, spans = geometry.scene, geometry.scene.index.trace.spans
    theme, rects, visible = scene.theme, RectList(), geometry.time.visible
    marked = _is_selected(scene, wide.ids)
    border = np.where(marked, np.uint32(theme.selection), np.uint32(theme.line))
    # Boxes that go on outside the view must not show round ends in it.
    x0 = wide.x0 - np.where(spans.start[wide.ids] < visible.start, 8.0, 0.0)
    x1 = wide.x1 + np.where(spans.end[wide.ids] > visible.end, 8.0, 0.0)
    narrow = RectList()
    for target, chosen in (
        (rects, x1 - x0 >= _ROUND_PX),
        (narrow, x1 - x0 < _ROUND_PX),
    ):
        target.add(
            x0[chosen],
            x1[chosen] - 1,
            wide.y0[chosen],
            wide.y1[chosen],
            theme.raised,
            border[chosen],
        )
    return [
        *narrow.batch(clip=clip),
        *rects.batch(radius=4.0, clip=clip),
    ]


def token_labels(
    geometry: TimelineGeometry, clip: Clip, wide: Wide
) -> list[tuple[float, Text]]:
    """Return (width, text) of the tokens with room for one."""
    scene, trace = geometry.scene, geometry.scene.index.trace
    theme, spans, tokens = scene.theme, trace.spans, trace.spans.token
    marked = _is_selected(scene, wide.ids)
    labels = []
    for i in np.flatnonzero(wide.x1 - wide.x0 >= TOKEN_LABEL_PX).tolist():
        span, width = int(wide.ids[i]), float(wide.x1[i] - wide.x0[i])
        number = -1 if tokens is None else int(tokens[span])
        words = f"#{number}" if number >= 0 else trace.span_name(span)
        length = int(spans.end[span] - spans.start[span])
        whole = token_text(trace, span) or words
        took = format_duration(length, trace.clock.unit)
        for more in (whole, f"{words} {took}", f"{whole} {took}"):
            if len(more) * 6.6 + 10 <= width:
                words = more
        labels.append(
            (
                width,
                Text(
                    float(wide.x0[i]) + 7,
                    float(wide.y0[i] + wide.y1[i]) / 2,
                    words,
                    theme.selection if marked[i] else theme.text,
                    LABEL_SIZE,
                    Face.WORDS,
                    width=width - 9,
                    clip=clip,
                ),
            )
        )
    return labels


def _is_selected(scene: TimelineScene, ids: Array) -> npt.NDArray[np.bool_]:
    """Tell which token spans are those of the active span."""
    selection, tokens = scene.selection, scene.index.trace.spans.token
    active = selection.active
    if selection.table != "spans" or active is None or tokens is None:
        return np.zeros(len(ids), np.bool_)
    same: npt.NDArray[np.bool_] = tokens[ids] == tokens[active]
    phase = scene.index.trace.spans.phase
    if phase is not None and numbers_per_phase(scene.index.trace):
        same &= phase[ids] == phase[active]
    return same & (tokens[ids] >= 0)
