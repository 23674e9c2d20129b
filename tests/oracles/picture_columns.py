"""The exact column picture of a row, by touching every span."""

import numpy as np

from ggscope.analysis.rows.columns import Columns, _Once
from ggscope.analysis.rows.rows import Row
from ggscope.model.tables import I64, Array


def columns_slow(row: Row, edges: I64, category: Array | None = None) -> Columns:
    """Return the same by touching every span: what a picture must be.

    A plain loop over columns and spans, so that it can be checked by reading.
    """
    px = len(edges) - 1
    busy, names = np.zeros(px), np.full(px, -1, np.int32)
    count, covered = np.zeros(px, np.int64), np.zeros(px, np.int64)
    first, longest = np.full(px, -1, np.int64), np.full(px, -1, np.int64)
    ids = np.asarray(row.id).tolist()
    spans = list(zip(row.start.tolist(), row.end.tolist(), ids, strict=True))
    for k in range(px):
        a, width = int(edges[k]), int(edges[k + 1] - edges[k])
        b = a + max(width, 1)
        sums: dict[int, int] = {}
        most = -1
        for start, end, span in spans:
            inside = min(end, b) - max(start, a)
            if inside < 0 or (inside == 0 and not (start == end and a <= start < b)):
                continue
            name = 0 if category is None else int(category[span])
            sums[name] = sums.get(name, 0) + inside
            if first[k] < 0:
                first[k], names[k] = span, name
            if inside > most:
                most, longest[k] = inside, span
            count[k] += 1
        total = sum(sums.values())
        covered[k] = total if width else 0
        busy[k] = total / max(width, 1)
        if total:
            names[k] = min(sums, key=lambda name: (-sums[name], name))
    return Columns(busy, names, count, covered, first, _Once(lambda: longest))
