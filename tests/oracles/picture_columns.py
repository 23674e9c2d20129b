"""The exact column picture of a row: by touching every span, and by numpy."""

import numpy as np

from ggscope.analysis.rows.columns import Columns, Once
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
        limit = -1
        for start, end, span in spans:
            inside = min(end, b) - max(start, a)
            if inside < 0 or (inside == 0 and not (start == end and a <= start < b)):
                continue
            name = 0 if category is None else int(category[span])
            sums[name] = sums.get(name, 0) + inside
            if first[k] < 0:
                first[k], names[k] = span, name
            if inside > limit:
                limit, longest[k] = inside, span
            count[k] += 1
        total = sum(sums.values())
        covered[k] = total if width else 0
        busy[k] = total / max(width, 1)
        if total:
            names[k] = min(sums, key=lambda name: (-sums[name], name))
    return Columns(busy, names, count, covered, first, Once(lambda: longest))


def columns_by_numpy(
    row: Row, edges: I64, category: Array | None = None, mask: Array | None = None
) -> Columns:
    """Return the same for rows of thousands of spans, a column after the other.

    With a mask of span ids it is the picture of those spans.
    """
    ids = np.asarray(row.id)
    keep = np.ones(len(row), np.bool_) if mask is None else mask[ids]
    starts, ends, ids = row.start[keep], row.end[keep], ids[keep].astype(np.int64)
    px = len(edges) - 1
    busy, names = np.zeros(px), np.full(px, -1, np.int32)
    count, covered = np.zeros(px, np.int64), np.zeros(px, np.int64)
    first, longest = np.full(px, -1, np.int64), np.full(px, -1, np.int64)
    for k, (a, width) in enumerate(zip(edges[:-1], np.diff(edges), strict=True)):
        b = a + max(width, 1)
        near = slice(np.searchsorted(ends, a), np.searchsorted(starts, b))
        start, end = starts[near], ends[near]
        inside = np.minimum(end, b) - np.maximum(start, a)
        touched = np.flatnonzero((inside > 0) | ((start == end) & (start >= a)))
        if not len(touched):
            continue
        inside, span = inside[touched], ids[near][touched]
        sums = np.zeros(1, np.int64)
        name = np.zeros(len(span), np.int64)
        if category is not None:
            name = category[span].astype(np.int64)
            sums = np.zeros(int(name.max()) + 1, np.int64)
        np.add.at(sums, name, inside)
        total, count[k], first[k] = int(sums.sum()), len(span), span[0]
        covered[k], busy[k] = total if width else 0, total / max(width, 1)
        names[k] = int(np.argmax(sums)) if total else name[0]
        longest[k] = span[np.argmax(inside)]
    return Columns(busy, names, count, covered, first, Once(lambda: longest))
