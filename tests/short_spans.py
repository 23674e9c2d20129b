"""A trace whose spans are far shorter than a pixel, and how clear they stand out."""

import numpy as np
from PySide6.QtGui import QImage

import builders
from ggscope.model.tables import Array
from ggscope.model.trace import LaneKind, Trace
from ggscope.render.theme import contrast

SECOND = 1_000_000_000
EACH_OP = np.arange(len(builders.OPS.names))
GRID_FREE = 137_000_000
"""Away from the grid lines, which stand at whole seconds."""


def short_spans(kind: LaneKind = LaneKind.THREAD) -> Trace:
    """Return a span of 1 ns for each op in about 10 s, between two on the ends."""
    n = len(EACH_OP)
    start = GRID_FREE + np.arange(n) * 790_000_000
    first_and_last = np.array([0, 10 * SECOND])
    start = np.concatenate([start, first_and_last])
    op = np.concatenate([EACH_OP, [3, 3]])
    return builders.spans_trace(
        start, start + 1, kind=kind, op=op, layer=np.arange(n + 2) % 3
    )


def colors_of(image: QImage) -> Array:
    """Return uint32[height, width], 0xFFRRGGBB."""
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    bits = np.frombuffer(bytes(image.constBits()), np.uint32)
    return bits.reshape(image.height(), image.width())


def best_contrast(pixels: Array, column: int) -> float:
    """Return the contrast of the clearest pixel of a column with those beside it."""
    here, beside = pixels[:, column].tolist(), pixels[:, column + 3].tolist()
    return max(contrast(a, b) for a, b in zip(here, beside, strict=True))
