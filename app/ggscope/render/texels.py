"""Texels of folded columns: hue by category, opacity by how busy a column is."""

import numpy as np

from ggscope.model.tables import Array
from ggscope.render.batch import U32, ColumnBatch, ImageBatch

FLOOR = 0.16
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


def resolved(batch: ColumnBatch) -> ImageBatch:
    """Return the picture that a shader would draw, found by the processor."""
    pixels = np.empty((len(batch.rows), len(batch.edges) - 1), np.uint32)
    for number, row in enumerate(batch.rows):
        found = row.columns.query(batch.edges)
        name = found.category if len(row.colors) > 1 else 0
        rgb = row.colors[name] + np.zeros_like(pixels[number])
        pixels[number] = column_pixels(found.busy, found.count, rgb, row.strength)
    return ImageBatch(pixels, batch.x0, batch.x1, batch.y0, batch.y1, batch.clip)
