"""How evenly threads share the work of ops, by op."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.summary.barriers import SharedOps
from ggscope.analysis.workers import add_by_group
from ggscope.model.tables import I64, narrow
from ggscope.model.trace import Trace


@dataclass(frozen=True, slots=True)
class OpImbalance:
    """How evenly the threads of one kind of op share its work; times in ticks.

    Attributes
    ----------
    name : of the op.
    n : ops that several threads computed.
    longest_time : time of the longest thread of each op, summed up.
    mean : time of the mean thread of each op, summed up.
    worst : span of the longest thread of the op with the largest `worst_ratio`.
    worst_ratio : time of its longest thread over the mean of its threads.
    """

    name: str
    n: int
    longest_time: int
    mean: float
    worst: int
    worst_ratio: float

    @property
    def ratio(self) -> float:
        """Longest over mean thread, 1 = even, each op weighed by its mean time."""
        return self.longest_time / self.mean if self.mean else 1.0

    @property
    def lost(self) -> float:
        """Ticks by which even shares of the same work would end the ops earlier."""
        return self.longest_time - self.mean


def op_imbalance(trace: Trace, ops: SharedOps) -> tuple[OpImbalance, ...]:
    """Return how even each kind of op is, the most time lost first. O(n)."""
    if not len(ops):
        return ()
    op: I64 = trace.spans.op[ops.span].astype(np.int64)
    n_kinds = int(op.max()) + 1
    mean = ops.work / ops.n_threads
    ratio = np.divide(ops.longest_time, mean, out=np.ones_like(mean), where=mean > 0)
    order = np.argsort(narrow(op), kind="stable")
    kind = op[order]
    first = np.append(0, np.flatnonzero(kind[1:] != kind[:-1]) + 1)
    top = np.maximum.reduceat(ratio[order], first)
    n = np.diff(np.append(first, len(kind)))
    # The first op of each kind that is as uneven as the worst.
    is_top = np.where(ratio[order] == np.repeat(top, n), order, len(op))
    worst = np.minimum.reduceat(is_top, first)
    longest = np.zeros(n_kinds, np.int64)
    add_by_group(longest, op, ops.longest_time)
    means = np.bincount(op, weights=mean, minlength=n_kinds)
    listed = [
        OpImbalance(
            trace.op_name(number),
            count,
            int(longest[number]),
            float(means[number]),
            int(ops.longest[at]),
            float(ratio[at]),
        )
        for number, count, at in zip(
            kind[first].tolist(), n.tolist(), worst.tolist(), strict=True
        )
    ]
    return tuple(sorted(listed, key=lambda one: (-one.lost, one.name)))
