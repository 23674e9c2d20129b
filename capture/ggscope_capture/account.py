"""The account of a recording: what its graphs should have given, and what came.

Each computed node of a graph makes a record on each of its threads. The tracer tells of
every graph how many of these its filters left and how many it wrote; what is written
and did not come was lost on the way. So nothing of this is an estimate.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope_capture.ring_format import RECORD_GRAPH
from ggscope_capture.told import Told

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RecordCount:
    """Records of ops by graph; int64[n] each, in the order of `graph`.

    Attributes
    ----------
    graph : numbers of the graphs that were told, ascending.
    computed : what all computed nodes make on all threads; -1 = not known.
    expected : what filters leave of them, or `written` where nodes are not known; of
        a graph that has not ended what came.
    written : what the tracer wrote or had no room for; -1 = not told.
    came : what was taken out of the ring.
    has_ended : bool[n], whether the graph was computed to its end.
    n_unplaced : records of graphs that were not told.
    """

    graph: I64
    computed: I64
    expected: I64
    written: I64
    came: I64
    has_ended: npt.NDArray[np.bool_]
    n_unplaced: int


def account_of(told: Told) -> RecordCount:
    """Return the account of all that a ring told.

    Graphs that are recorded as a whole give no records of ops.
    """
    graphs = told.graphs
    graph = graphs["graph"].astype(np.int64)
    numbers, which = np.unique(graphs["build"], return_inverse=True)
    heads = [told.builds.head(number) for number in numbers.tolist()]
    n_computed = np.array(
        [-1 if head is None else head.n_computed for head in heads], np.int64
    )[which]
    n_threads = graphs["n_threads"].astype(np.int64)
    is_known = (n_computed >= 0) & (n_threads > 0)
    computed = np.where(is_known, n_computed * n_threads, -1)
    came, whole, n_unplaced = _counted(told)
    written, left = graphs["written"].copy(), graphs["expected"].copy()
    has_ended = graphs["has_end"].copy()
    # A graph is over too where its slot computes another one: its end was lost.
    for slot in np.unique(graphs["slot"]).tolist():
        has_ended[np.flatnonzero(graphs["slot"] == slot)[:-1]] = True
    is_whole = whole > 0
    computed[is_whole] = written[is_whole] = left[is_whole] = 0
    expected = np.where(computed < 0, written, np.where(left < 0, computed, left))
    expected = np.where(has_ended, np.maximum(expected, came), came)
    return RecordCount(graph, computed, expected, written, came, has_ended, n_unplaced)


def counted(told: Told) -> I64:
    """Return how many records of ops each graph has, int64[graphs]."""
    return _counted(told)[0]


def _counted(told: Told) -> tuple[I64, I64, int]:
    """Return the records of ops and of whole graphs by graph, and those of no graph."""
    n = len(told.graphs)
    ops, whole, n_unplaced = np.zeros(n, np.int64), np.zeros(n, np.int64), 0
    for chunk in told.records.chunks():
        places = told.places(chunk["graph"])
        is_graph = chunk["extra"] & RECORD_GRAPH != 0
        is_placed = places >= 0
        n_unplaced += int(np.count_nonzero(~is_placed & ~is_graph))
        ops += np.bincount(places[is_placed & ~is_graph], minlength=n)
        whole += np.bincount(places[is_placed & is_graph], minlength=n)
    return ops, whole, n_unplaced


def as_json(account: RecordCount, kept: I64, *, beyond_limit: int) -> dict[str, Any]:
    """Return the account as the sidecar has it.

    Parameters
    ----------
    kept : int64[n], records of each graph that are in the file: filters that the
        tracer learned late, or cannot do, take more away.
    beyond_limit : records that came when the limit had been reached, of all graphs.
    """
    is_known = (account.computed >= 0) & account.has_ended
    wanted = account.expected - (account.came - kept)
    short = np.flatnonzero((kept < wanted) & account.has_ended)
    missing = int((wanted - kept)[short].sum())
    is_told = account.written >= 0
    unseen = np.where(is_told, account.expected - account.written, 0)
    left_out = np.maximum(account.computed - wanted, 0)[is_known]
    return {
        "computed": int(account.computed[is_known].sum()),
        "expected": int(wanted.sum()),
        "recorded": int(kept.sum()),
        "left_out": int(left_out.sum()),
        "missing": missing,
        "not_seen": int(np.maximum(unseen, 0).sum()),
        "beyond_limit": beyond_limit,
        "unplaced": account.n_unplaced,
        "unknown_graphs": int(np.count_nonzero(account.computed < 0)),
        "interrupted": account.graph[~account.has_ended].tolist(),
        "short": {
            "graph": account.graph[short].tolist(),
            "expected": wanted[short].tolist(),
            "recorded": kept[short].tolist(),
        },
    }
