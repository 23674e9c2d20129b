"""Record counts of a recording: expected, written and received, graph by graph.

Each computed node of a graph makes a record on each of its threads. The tracer reports
for every graph how many of these passed its filters and how many it wrote; records that
were written and not received are lost. None of these numbers is an estimate.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope_capture.ring_contents import RingContents
from ggscope_capture.ring_format import RECORD_GRAPH

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RecordCounts:
    """Records of ops by graph; int64[n] each, in the order of `graph`.

    Attributes
    ----------
    graph : numbers of the recorded graphs, ascending.
    computed : one for each computed node and thread; -1 = unknown.
    expected : those that pass the filters, or `written` where nodes are unknown; of a
        graph that has not ended those received.
    written : written by the tracer, those dropped included; -1 = not recorded.
    received : read from the ring.
    has_ended : bool[n], whether the graph was computed to its end.
    n_unplaced : records of graphs without a begin event.
    """

    graph: I64
    computed: I64
    expected: I64
    written: I64
    received: I64
    has_ended: npt.NDArray[np.bool_]
    n_unplaced: int


def count_records(contents: RingContents) -> RecordCounts:
    """Return the record counts of all graphs of a ring.

    Graphs that are recorded as a whole have no records of ops.
    """
    graphs = contents.graphs
    graph = graphs["graph"].astype(np.int64)
    numbers, which = np.unique(graphs["build"], return_inverse=True)
    heads = [contents.builds.head(number) for number in numbers.tolist()]
    n_computed = np.array(
        [-1 if head is None else head.n_computed for head in heads], np.int64
    )[which]
    n_threads = graphs["n_threads"].astype(np.int64)
    is_known = (n_computed >= 0) & (n_threads > 0)
    computed = np.where(is_known, n_computed * n_threads, -1)
    received, whole, n_unplaced = _received(contents)
    written, remaining = graphs["written"].copy(), graphs["expected"].copy()
    has_ended = graphs["has_end"].copy()
    # A graph is over too where its slot computes another one: its end was lost.
    for slot in np.unique(graphs["slot"]).tolist():
        has_ended[np.flatnonzero(graphs["slot"] == slot)[:-1]] = True
    is_whole = whole > 0
    computed[is_whole] = written[is_whole] = remaining[is_whole] = 0
    expected = np.where(
        computed < 0, written, np.where(remaining < 0, computed, remaining)
    )
    expected = np.where(has_ended, np.maximum(expected, received), received)
    return RecordCounts(
        graph, computed, expected, written, received, has_ended, n_unplaced
    )


def count_received(contents: RingContents) -> I64:
    """Return the number of records of ops of each graph, int64[graphs]."""
    return _received(contents)[0]


def _received(contents: RingContents) -> tuple[I64, I64, int]:
    """Return counts by graph, of ops and of whole graphs; and those of no graph."""
    n = len(contents.graphs)
    ops, whole, n_unplaced = np.zeros(n, np.int64), np.zeros(n, np.int64), 0
    for chunk in contents.records.chunks():
        places = contents.places(chunk["graph"])
        is_graph = chunk["extra"] & RECORD_GRAPH != 0
        is_placed = places >= 0
        n_unplaced += int(np.count_nonzero(~is_placed & ~is_graph))
        ops += np.bincount(places[is_placed & ~is_graph], minlength=n)
        whole += np.bincount(places[is_placed & is_graph], minlength=n)
    return ops, whole, n_unplaced


def as_json(
    counts: RecordCounts, written_ops: I64, *, beyond_limit: int
) -> dict[str, Any]:
    """Return the counts as the sidecar's ``account``.

    Parameters
    ----------
    written_ops : int64[n], records of each graph in the output file: the writer also
        applies filters that reached the tracer late, or that it lacks.
    beyond_limit : records received after the limit was reached, of all graphs.
    """
    is_known = (counts.computed >= 0) & counts.has_ended
    expected = counts.expected - (counts.received - written_ops)
    short = np.flatnonzero((written_ops < expected) & counts.has_ended)
    missing = int((expected - written_ops)[short].sum())
    has_written = counts.written >= 0
    unwritten = np.where(has_written, counts.expected - counts.written, 0)
    filtered = np.maximum(counts.computed - expected, 0)[is_known]
    return {
        "computed": int(counts.computed[is_known].sum()),
        "expected": int(expected.sum()),
        "recorded": int(written_ops.sum()),
        "left_out": int(filtered.sum()),
        "missing": missing,
        "not_seen": int(np.maximum(unwritten, 0).sum()),
        "beyond_limit": beyond_limit,
        "unplaced": counts.n_unplaced,
        "unknown_graphs": int(np.count_nonzero(counts.computed < 0)),
        "interrupted": counts.graph[~counts.has_ended].tolist(),
        "short": {
            "graph": counts.graph[short].tolist(),
            "expected": expected[short].tolist(),
            "recorded": written_ops[short].tolist(),
        },
    }
