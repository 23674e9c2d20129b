"""Begin and end events become intervals.

Graphs pair per thread and graph pointer, ops per thread, open graph and tensor
pointer, both like brackets: pointers are reused, and ``sched_graph_compute`` wraps
``backend_graph_compute``, where both list the same nodes.

The hooks of ggml-viz log the begins of all nodes of a graph, run the graph, and log
all ends. Such times are no op's own: the ops of such a graph share its measured
time in equal slices, in the order of their begins. (The only weight at hand, the
size of the result, says little: a copy writes as much as a multiplication.)

Graphs are few and are paired by `ggmlviz_nesting`. Ops are many: compiled code pairs
them where there is any, with the same result as `ggmlviz_ops`.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz_blocks import taken
from ggscope.readers.ggmlviz_events import Events
from ggscope.readers.ggmlviz_kernel import kernel
from ggscope.readers.ggmlviz_kernel_ops import MAX_ROWS, pair_compiled
from ggscope.readers.ggmlviz_nesting import pair_graphs
from ggscope.readers.ggmlviz_ops import IS_MIXED, IntervalFlag, finish, pair_ops


@dataclass(slots=True, eq=False)
class Intervals:
    """One row for each GRAPH_BEGIN and OP_BEGIN, in the order of time, then file.

    Attributes
    ----------
    begin : row of the begin event.
    start, end : int64, ns of the file's clock, ``start <= end``.
    flags : uint8, `IntervalFlag`.
    stray_ends : rows of end events that nothing began.
    open_from : ns of the first graph that is open at the end and whose ops may still
        share its time: later events change what is known from there on; None where
        there is none.
    """

    begin: Array
    start: I64
    end: I64
    flags: npt.NDArray[np.uint8]
    stray_ends: Array
    open_from: int | None = None

    def has(self, flag: IntervalFlag) -> npt.NDArray[np.bool_]:
        """Tell which intervals have a flag."""
        found: npt.NDArray[np.bool_] = (self.flags & np.uint8(flag)) != 0
        return found

    def arrange(self, order: Array, context: ReadContext) -> None:
        """Bring the rows into another order, with memory for one more column."""
        for name in ("begin", "start", "end", "flags"):
            setattr(self, name, taken(getattr(self, name), order, context))

    @property
    def n_graphs(self) -> int:
        """Number of graphs."""
        return int(np.count_nonzero(self.has(IntervalFlag.GRAPH)))

    def with_strays(self, rows: Array) -> "Intervals":
        """Return the same intervals with other stray ends."""
        return replace(self, stray_ends=rows)

    def take(self, rows: Array) -> "Intervals":
        """Return the given rows, and all stray ends."""
        return Intervals(
            self.begin[rows], self.start[rows], self.end[rows], self.flags[rows],
            self.stray_ends,
        )  # fmt: skip


def pair_events(events: Events, trace_end: int, context: ReadContext) -> Intervals:
    """Return the intervals; what has no end lasts as long as the graph around it.

    Releases the pointers of the events, which nothing else needs.

    Parameters
    ----------
    trace_end : ns; the end of what no graph with an end surrounds.
    """
    graphs = pair_graphs(events, trace_end, context)
    library = kernel()
    if library is not None and len(events) < MAX_ROWS:
        pairs, start, end, flags = pair_compiled(
            library, events, graphs, trace_end, context
        )
    else:
        pairs = pair_ops(events, graphs, context)
        events.release("pointer")
        start, end, flags = finish(events, graphs, pairs, trace_end, context)
    strays = np.concatenate([graphs.strays(), pairs.strays])
    is_open = graphs.is_begin & (graphs.closer < 0) & ((pairs.seen & IS_MIXED) == 0)
    opened = graphs.start[is_open]
    open_from = int(opened.min()) if len(opened) else None
    return Intervals(pairs.begin, start, end, flags, strays, open_from)
