"""What statistics add up per group, however it is computed."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.groups import chunks
from ggscope.model.tables import I64, Quality
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace

PERCENTILES = (0.50, 0.90, 0.99)
BLOCK_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """Which spans to count, and how.

    Attributes
    ----------
    mask : bool[n_spans] of the spans to count, None = all.
    time : count only spans that touch it.
    only_ops : leave out spans that are no op.
    worst_used : the worst quality whose durations are used.
    """

    mask: npt.NDArray[np.bool_] | None = None
    time: TimeRange | None = None
    only_ops: bool = True
    worst_used: Quality = Quality.DERIVED


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """Figures of groups 0..n-1; times in ticks, of the durations used.

    Attributes
    ----------
    spans : int64[n, 4], spans by `Quality`.
    bytes : int64[n], known bytes that they access, each op's once.
    total, least, most : int64[n], of whole spans; meaningless where no duration is
        used.
    inside : int64[n], the parts inside the wanted range; 0 without one.
    percentiles : float64[3, n], those of `PERCENTILES`; NaN likewise.
    unknown : int64[n], bytes that may be accessed besides, at most.
    ops : int64[n], spans that tell of an op, each op once however many threads do.
    """

    spans: I64
    bytes: I64
    total: I64
    least: I64
    most: I64
    percentiles: npt.NDArray[np.float64]
    inside: I64
    unknown: I64
    ops: I64


class SpanBlocks:
    """First start and last end of every 65,536 spans of a trace.

    Says which parts of the columns may hold spans of a range, so that a short one
    does not cost a look at every span. Spans lie lane by lane in time order, mostly;
    where they do not, the blocks are merely less of a help. A quarter byte per
    thousand spans; computed when first asked for.

    Attributes
    ----------
    known : what else was found out about the trace once, see ``nesting``.
    """

    def __init__(self, trace: Trace) -> None:
        self.known: dict[tuple[str, int], I64 | None] = {}
        self._trace = trace
        self._bounds: tuple[I64, I64] | None = None

    def touching(self, time: TimeRange | None) -> list[slice]:
        """Return the blocks that may hold spans which touch `time`, ascending."""
        n, extent = len(self._trace.spans), self._trace.extent
        blocks = list(chunks(n, BLOCK_ROWS))
        if time is None or (time.start <= extent.start and extent.end < time.end):
            return blocks
        if self._bounds is None:
            self._bounds = self._make_bounds()
        first, last = self._bounds
        near = (first < time.end) & (last >= time.start)
        return [blocks[k] for k in np.flatnonzero(near).tolist()]

    def _make_bounds(self) -> tuple[I64, I64]:
        s = self._trace.spans
        edges = np.arange(0, len(s), BLOCK_ROWS)
        if not len(edges):
            return edges, edges
        return np.minimum.reduceat(s.start, edges), np.maximum.reduceat(s.end, edges)


def ranks(n: I64, shares: tuple[float, ...]) -> tuple[I64, npt.NDArray[np.float64]]:
    """Return between which entries of n sorted ones each percentile lies.

    Parameters
    ----------
    n : int64[m], >= 1.

    Returns
    -------
    (rank int64[len(shares), 2, m], weight float64[len(shares), m]) : the ranks of the
    entries below and above, and how far towards the one above.
    """
    position = (n - 1) * np.array(shares)[:, None]
    below = np.floor(position).astype(np.int64)
    return np.stack([below, np.minimum(below + 1, n - 1)], axis=1), position - below


def between(
    low: I64, high: I64, weight: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the values that lie `weight` of the way from `low` to `high`.

    The same two-sided form as ``numpy.percentile``, to the last bit, which keeps
    the result monotonic.
    """
    step = high - low
    return np.where(weight < 0.5, low + step * weight, high - step * (1 - weight))
