"""The legend of a printed figure: which colour means what, and marks of doubt."""

import numpy as np

from ggscope.model.tables import Quality
from ggscope.render.batch import Batch, Pattern, Text
from ggscope.render.draft import RectList, TextList
from ggscope.render.palette import lut
from ggscope.render.scene import LEGEND_HEIGHT, TimelineScene

_SWATCH_PX = 11.0
_TEXT_SIZE = 11.0
_CHARACTER_PX = 6.6
_GAP_PX = 18.0
MAX_ENTRIES = 24


def legend_batches(scene: TimelineScene, top: float) -> list[Batch]:
    """Return the legend line at `top`: the categories in view, then qualities.

    What does not fit on the line is left out, with a count of what is missing.
    """
    theme = scene.theme
    rects, texts = RectList(), TextList()
    categories = scene.index.categories(scene.color_by)
    present = _present(scene)
    entries = [
        (categories.labels[i], int(color), Pattern.SOLID)
        for i, color in enumerate(lut(categories, theme).tolist())
        if present[i] and categories.keys[i] != "none"
    ]
    counts = scene.index.trace.quality_counts()
    if counts[Quality.ESTIMATED.name.lower()]:
        entries.append(("estimated", theme.caution, Pattern.DOTTED))
    if counts[Quality.UNFINISHED.name.lower()]:
        entries.append(("unfinished", theme.dim, Pattern.HATCH))
    x, y = 10.0, top + LEGEND_HEIGHT / 2
    for number, (label, color, pattern) in enumerate(entries):
        width = _SWATCH_PX + 5 + len(label) * _CHARACTER_PX
        rest = len(entries) - number
        if x + width > scene.width - 60 or number == MAX_ENTRIES:
            texts.append(Text(x, y, f"and {rest} more", theme.dim, _TEXT_SIZE))
            break
        rects.add(
            x,
            x + _SWATCH_PX,
            y - _SWATCH_PX / 2,
            y + _SWATCH_PX / 2,
            color,
            pattern=int(pattern),
        )
        texts.append(Text(x + _SWATCH_PX + 5, y, label, theme.text, _TEXT_SIZE))
        x += width + _GAP_PX
    return [*rects.batch(), *texts.batch()]


def _present(scene: TimelineScene) -> np.ndarray:
    """Return bool[n_categories]: which ones occur in the visible range."""
    categories, spans = scene.index.categories(scene.color_by), scene.index.trace.spans
    inside = (spans.start < scene.visible.end) & (spans.end >= scene.visible.start)
    if scene.mask is not None:
        inside &= scene.mask
    return np.bincount(categories.index[inside], minlength=len(categories.keys)) > 0
