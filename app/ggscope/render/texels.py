"""Texels of rows of columns: hue by category, opacity by how busy a column is.

The one place that says what a column looks like, by numpy, and in C for pictures of
many rows.
"""

from collections.abc import Sequence

import numpy as np

from ggscope.analysis.rows.columns import Columns, table_of
from ggscope.model.tables import Array
from ggscope.native.library import library
from ggscope.render.batch import F32, U32, Clip, ImageBatch

FLOOR = 0.25
"""Opacity of a column that holds a span but is hardly covered at all."""


def column_pixels(busy: Array, count: Array, rgb: U32, strength: float = 1.0) -> U32:
    """Return texels 0xAARRGGBB of the shape given: hue from `rgb`, opacity from busy.

    The opacity is ``FLOOR + (1 - FLOOR) * busy`` (times `strength`) where the
    column holds a span and 0 where it holds none, so the busy share can be read
    back from the picture to within 1/255.
    """
    alpha = np.where(count > 0, FLOOR + (1 - FLOOR) * busy, 0.0)
    opacity = np.rint(alpha * (255 * strength)).astype(np.uint32)
    return (rgb & np.uint32(0xFFFFFF)) | (opacity << np.uint32(24))


def foot_pixels(count: Array, rgb: U32) -> U32:
    """Return texels 0xAARRGGBB of the feet: opaque where a column holds a span.

    However short the span is, its foot is seen: `rgb` has a contrast of 3:1.
    """
    return np.where(count > 0, rgb | np.uint32(0xFF000000), np.uint32(0))


def row_texels(
    rows: Sequence[Columns],
    hues: Array,
    foot_hues: Array | None,
    colors: U32,
    foot_colors: U32,
    *,
    strength: float = 1.0,
    around: Sequence[tuple[bool, bool] | None] | None = None,
    tone: int = 0,
) -> U32:
    """Return the texels of rows, each as `column_pixels` would.

    Parameters
    ----------
    hues : uint32[rows], the colour of all columns of a row, 0 = those of their
        categories.
    foot_hues : the same of feet; each row has two rows of texels then, the second one
        as of `foot_pixels`. None = no feet.
    colors, foot_colors : those of the categories, and behind them that of none.
    around : of each row whether spans lie before and after the view: idle time between
        spans has the `tone` then, in the feet as well. None = it has none.
    """
    table, at = table_of(rows)
    n, px = len(rows), len(rows[0].count)
    has_feet = foot_hues is not None
    out = np.empty((2 * n if has_feet else n, px), np.uint32)
    idle = np.zeros(n, np.uint8)
    if around is not None:
        # As TONED, BEFORE and AFTER of the C file.
        idle[:] = [0 if at is None else 1 + 2 * at[0] + 4 * at[1] for at in around]
    hues = np.asarray(hues, np.uint32)
    library().ggscope_texels(
        table, at, n, hues, hues if foot_hues is None else foot_hues,
        colors, foot_colors, len(colors), strength, idle, tone, has_feet, out,
    )  # fmt: skip
    return out


def footed(
    texels: U32, x0: float, x1: float, y0: F32, foot: F32, y1: F32, clip: Clip | None
) -> ImageBatch:
    """Return two rows of texels per row, columns above feet that begin at `foot`."""
    tops = np.stack([y0, foot], axis=1).ravel()
    bottoms = np.stack([foot, y1], axis=1).ravel()
    return ImageBatch(texels, x0, x1, tops, bottoms, clip)
