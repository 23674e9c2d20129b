"""Plain twins of the 3D view: one read after the other, one point after the other."""

import math
from collections.abc import Sequence

import numpy as np

from ggscope.analysis.heat.byte_ranges import Track, span_variants
from ggscope.analysis.heat.file_map import file_map
from ggscope.model.trace import Trace

Read = tuple[int, int, int, int, int]


def reads_of(trace: Trace, mask: np.ndarray | None = None) -> list[Read]:
    """Return (start, layer, offset, span, bytes) of every read of the model file."""
    variants = span_variants(trace, file_map(trace))
    touches = variants.touches
    items = []
    for span, variant in enumerate(variants.column.tolist()):
        if variant < 0 or (mask is not None and not mask[span]):
            continue
        for row in range(int(touches.first[variant]), int(touches.first[variant + 1])):
            if touches.track[row] == Track.FILE:
                items.append(
                    (int(trace.spans.start[span]), int(touches.layer[row]),
                     int(touches.begin[row]), span, int(touches.size[row]))
                )  # fmt: skip
    return items


def nearest_points(
    xyz: Sequence[Sequence[float]],
    matrix: np.ndarray,
    width: int,
    height: int,
    radius: float,
) -> list[list[int]]:
    """Return the number of the nearest point of each pixel, -1 none."""
    picture = [[-1] * width for _ in range(height)]
    depth = [[math.inf] * width for _ in range(height)]
    for i, point in enumerate(xyz):
        x, y, z, w = (matrix @ np.array([*point, 1.0])).tolist()
        if w <= 0 or not -1 <= z / w <= 1:
            continue
        px, py = (1 + x / w) / 2 * width, (1 - y / w) / 2 * height
        for row in range(height):
            for column in range(width):
                far = (column + 0.5 - px) ** 2 + (row + 0.5 - py) ** 2
                is_own = column == math.floor(px) and row == math.floor(py)
                if far > radius**2 and not is_own:
                    continue
                if z / w < depth[row][column]:
                    depth[row][column], picture[row][column] = z / w, i
    return picture
