"""Texels of rows of columns: what a pixel column of a row looks like, in C.

A column of one or two spans has the hue of its category, and its opacity says how busy
it is. One of many spans is a stack: its height says how busy it is, and its parts what
with. Between the two the one fades into the other.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.columns import MAX_THREADS, Columns, table_of
from ggscope.model.tables import I64, Array
from ggscope.native.declared import StackLook
from ggscope.native.library import library
from ggscope.render.batch import F32, U32, Clip, ImageBatch

FLOOR = 0.25
"""Opacity of a column that holds a span but is hardly covered at all."""
WHOLE = 4
"""Weight of a stack that hides what a column would look like without it."""


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
    idle = _idle_codes(n, around)
    hues = np.asarray(hues, np.uint32)
    library().ggscope_texels(
        table, at, n, hues, hues if foot_hues is None else foot_hues,
        colors, foot_colors, len(colors), strength, idle, tone, has_feet, out,
    )  # fmt: skip
    return out


def _idle_codes(
    n: int, around: Sequence[tuple[bool, bool] | None] | None
) -> npt.NDArray[np.uint8]:
    """Return TONED, BEFORE and AFTER of the C file for each row."""
    idle = np.zeros(n, np.uint8)
    if around is not None:
        idle[:] = [0 if at is None else 1 + 2 * at[0] + 4 * at[1] for at in around]
    return idle


def share_levels(shares: Array, n_levels: int) -> npt.NDArray[np.uint16]:
    """Return the parts of columns stacked in levels, uint16[n_levels, px].

    `shares` is float64[parts, px]; levels are from the bottom up, each the number of a
    part, whose end is the level next to its true share, or `FREE` above all.
    """
    parts = np.ascontiguousarray(shares, np.float64)
    levels = np.empty((n_levels, parts.shape[1]), np.uint16)
    library().ggscope_texels_levels(parts, *parts.shape, n_levels, levels)
    return levels


def stack_weights(rows: Sequence[Columns], alone: int) -> npt.NDArray[np.uint8]:
    """Return how far columns are drawn as stacks, uint8[rows, px], 0 to `WHOLE`.

    Columns of one or two spans are none, those of six and more are nothing else. Runs
    of fewer than `alone` columns between empty ones are marks, and no stacks.
    """
    table, at = table_of(rows)
    weights = np.empty((len(rows), len(rows[0].count)), np.uint8)
    library().ggscope_texels_weights(table, at, len(rows), alone, weights)
    return weights


def stack_texels(
    rows: Sequence[Columns],
    weights: npt.NDArray[np.uint8],
    flat: U32,
    foot: I64,
    hues: Array,
    foot_hues: Array | None,
    colors: U32,
    foot_colors: U32,
    *,
    least: int,
    strength: float = 1.0,
    around: Sequence[tuple[bool, bool] | None] | None = None,
    tone: int = 0,
    waiting: int = 0,
    premultiplied: bool = False,
) -> U32:
    """Return the pictures of rows one below the other, uint32[Σ n_levels, px].

    That of each row has a row of texels for each of its levels, from the top down.

    Parameters
    ----------
    rows : with levels.
    weights : as of `stack_weights`.
    flat : what columns are as far as they are no stacks, as of `row_texels`.
    foot : how many levels of each row are its foot.
    hues … colors : as in `row_texels`.
    least : levels of the foot of a stack that hardly anything covers.
    around, tone : the tone lies above stacks, too.
    waiting : colour of waits on top of the work, 0xAARRGGBB; 0 = not shown.
    premultiplied : whether the texels are, which Qt draws twice as fast.
    """
    table, at = table_of(rows)
    n, heights = len(rows), [row.n_levels for row in rows]
    top = np.zeros(n + 1, np.int64)
    np.cumsum(heights, out=top[1:])
    out = np.empty((int(top[-1]), len(rows[0].count)), np.uint32)
    n_threads = min(MAX_THREADS, n)
    hues = np.asarray(hues, np.uint32)
    look = StackLook(
        hue=hues, foot_hue=hues if foot_hues is None else foot_hues, colors=colors,
        foot_colors=foot_colors, n_colors=len(colors), strength=strength,
        idle=_idle_codes(n, around), tone=tone, waiting=waiting, least=least,
        has_feet=foot_hues is not None, is_premultiplied=premultiplied,
    )  # fmt: skip
    library().ggscope_texels_stacks(
        table, look, at, n, np.append(foot, top), weights, flat,
        np.empty((n_threads, 2, 1 << 16), np.uint32), out, n_threads,
    )  # fmt: skip
    return out


def footed(
    texels: U32, x0: float, x1: float, y0: F32, foot: F32, y1: F32, clip: Clip | None
) -> ImageBatch:
    """Return two rows of texels per row, columns above feet that begin at `foot`."""
    tops = np.stack([y0, foot], axis=1).ravel()
    bottoms = np.stack([foot, y1], axis=1).ravel()
    return ImageBatch(texels, x0, x1, tops, bottoms, clip)
