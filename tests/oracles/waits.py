"""How long a column waits: by touching every span."""

from ggscope.analysis.rows.rows import Row
from ggscope.model.tables import I64, NO_WAIT, Array


def waits_slow(
    row: Row, edges: I64, wait: Array, keep: Array | None = None
) -> list[int]:
    """Return the time waited behind spans in each column.

    A plain loop over columns and spans. A wait ends where the next span of the row
    begins, at the latest. A column without width stands for its one tick; `keep` says
    which spans count, by position.
    """
    ids, start, end = (list(map(int, part)) for part in (row.id[:], row.start, row.end))
    waits = []
    for i, span in enumerate(ids):
        ticks = 0 if int(wait[span]) == NO_WAIT else int(wait[span])
        if keep is not None and not keep[i]:
            ticks = 0
        stop = end[i] + ticks
        waits.append((end[i], min(stop, start[i + 1]) if i + 1 < len(ids) else stop))
    items = []
    for k in range(len(edges) - 1):
        a, b = int(edges[k]), max(int(edges[k + 1]), int(edges[k]) + 1)
        items.append(sum(max(min(y, b) - max(x, a), 0) for x, y in waits))
    return items
