"""Waits behind ops: a pale band along the middle of a row, behind the work.

Shape and colour set them apart from work, which is as high as its row, and from
idle time, which is hatched: in print, too, and for people who see no colours.
"""

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.columns import Columns
from ggscope.model.tables import I64, Array
from ggscope.render.batch import U32
from ggscope.render.texels import FLOOR
from ggscope.render.theme import Theme, mix

_BAND_SHARE = 0.4
"""How much of a row's height waits take."""
_MIN_BAND_PX = 3.0
_COLOR_SHARE = 0.42


def wait_color(theme: Theme) -> int:
    """Return the colour of waits: paler than any work, darker than a lane."""
    return mix(theme.lane, theme.dim, _COLOR_SHARE)


def wait_band(y0: Array, y1: Array, scale: float) -> tuple[Array, Array]:
    """Return top and bottom of the band in rows, on device pixels.

    Low rows are filled, for there is no room to be lower.
    """
    height = np.rint((y1 - y0) * scale)
    band = np.maximum(np.rint(height * _BAND_SHARE), round(_MIN_BAND_PX * scale))
    band = np.minimum(band, height)
    above = np.floor((height - band) / 2) / scale
    return y0 + above, y0 + above + band / scale


def waiting_share(columns: Columns, edges: I64) -> npt.NDArray[np.float64]:
    """Return the share of each column that is waiting, float64[px], exact."""
    if columns.waited_ticks is None:
        return np.zeros(len(columns.count))
    share: npt.NDArray[np.float64] = columns.waited_ticks / np.maximum(
        np.diff(edges), 1
    )
    return share


def wait_pixels(waiting: Array, busy: Array, color: int, beside: Array) -> U32:
    """Return texels 0xAARRGGBB of waits that lie behind work.

    The opacity is ``FLOOR + (1 - FLOOR) * waiting / (1 - busy)`` where there is a wait:
    the part of the time without work that is waiting. Under the work that part is
    left, so that band and work together cover what both take of the column. `beside`,
    0..1, is how far a column is drawn so, and not as a stack.
    """
    free = 1.0 - busy
    part = np.divide(waiting, free, out=np.zeros_like(free), where=free > 0)
    alpha = np.where(waiting > 0, FLOOR + (1 - FLOOR) * np.minimum(part, 1.0), 0.0)
    opacity = np.rint(alpha * beside * 255).astype(np.uint32)
    pixels: U32 = np.uint32(color & 0xFFFFFF) | (opacity << np.uint32(24))
    return pixels
