"""The ruler over the lanes: an edge at each end, an arrow between, and the readout."""

import numpy as np

from ggscope.render.batch import (
    Align,
    Batch,
    Clip,
    Face,
    LineList,
    RectList,
    Text,
    TextList,
)
from ggscope.render.theme import outline_pair, with_alpha
from ggscope.render.timeline.scene import TimelineGeometry

_SIZE = 11.0
_LETTER_PX = 0.602 * _SIZE
_LINE_PX = 15.0
_PAD_PX = 7.0
_FOOT_PX = 14.0
"""From the lower end of the lanes to the arrow."""
_ARROW_PX = 5.0
_GAP_PX = 6.0
_PLATE_SHARE = 0.94


def ruler_batches(geometry: TimelineGeometry) -> list[Batch]:
    """Return the ruler of a scene, over the lanes; it stays in view of them."""
    scene, time = geometry.scene, geometry.time
    ruler = scene.ruler
    if ruler is None:
        return []
    theme, clip = scene.theme, _lane_clip(geometry)
    line, casing = outline_pair(theme.accent)
    ends = np.array([ruler.time.start, ruler.time.end])
    x0, x1 = (np.floor(time.xs(ends) * time.scale) + 0.5) / time.scale
    y = time.snap(geometry.bottom - _FOOT_PX)
    wide, thin = LineList(3.0), LineList(1.0)
    for lines, color in ((wide, with_alpha(casing, 0.55)), (thin, line)):
        for x in (x0, x1):
            lines.add(x, geometry.lanes_y, x, geometry.bottom, color)
        lines.add(x0, y, x1, y, color)
        if x1 - x0 >= 3 * _ARROW_PX:
            for x, way in ((x0, 1), (x1, -1)):
                for tip in (-_ARROW_PX, _ARROW_PX):
                    lines.add(x, y, x + way * _ARROW_PX, y + tip, color)
    return [
        *wide.batch(clip),
        *thin.batch(clip),
        *_readout(geometry, float(x0), float(x1), y),
    ]


def _readout(geometry: TimelineGeometry, x0: float, x1: float, y: float) -> list[Batch]:
    """Return the lines of the readout on a plate above the arrow."""
    scene, time = geometry.scene, geometry.time
    if scene.ruler is None or x1 < time.x0 or x0 > time.x1:
        return []
    lines, theme = scene.ruler.lines, scene.theme
    width = max(len(text) for text in lines) * _LETTER_PX + 2 * _PAD_PX
    height = len(lines) * _LINE_PX + _PAD_PX
    middle = (max(x0, time.x0) + min(x1, time.x1)) / 2
    left = time.snap(max(time.x0 + 2, min(middle - width / 2, time.x1 - width - 2)))
    top = time.snap(max(y - _GAP_PX - height, geometry.lanes_y + 2))
    plate, texts = RectList(), TextList()
    color = with_alpha(theme.raised, _PLATE_SHARE)
    plate.add(left, left + width, top, top + height, color, theme.accent)
    for number, text in enumerate(lines):
        texts.append(
            Text(
                left + width / 2,
                top + _PAD_PX / 2 + (number + 0.5) * _LINE_PX,
                text,
                theme.dim if number else theme.text,
                _SIZE,
                Face.MONO,
                Align.CENTER,
            )
        )
    return [*plate.batch(radius=4.0, clip=_lane_clip(geometry)), *texts.batch()]


def _lane_clip(geometry: TimelineGeometry) -> Clip:
    time, top = geometry.time, geometry.lanes_y
    return Clip(time.x0, top, time.x1 - time.x0, max(geometry.bottom - top, 0))
