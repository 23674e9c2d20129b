"""The account of a recording: what its graphs should have given, and what came.

Each computed node of a graph makes a record on each of its threads. The tracer tells of
every graph how many of these its filters left and how many it wrote; what is written
and did not come was lost on the way. So nothing of this is an estimate.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope_capture.record import Told
from ggscope_capture.ring import RECORD_GRAPH, STRUCTS, Frame

I64 = npt.NDArray[np.int64]
_END = STRUCTS["event_graph_end"]
_OLD_END_BYTES = 16
"""Older tracers do not tell what their filters leave."""


@dataclass(frozen=True, eq=False)
class Account:
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


def account_of(told: Told) -> Account:
    """Return the account of all that a ring told.

    Graphs that are recorded as a whole give no records of ops.
    """
    graph = np.array(sorted(told.graphs), np.int64)
    n = len(graph)
    heads = [told.graphs[number] for number in graph.tolist()]
    builds = [told.builds.get(int(head["build"])) for head in heads]
    computed = np.array(
        [
            -1
            if build is None or not head["n_threads"]
            else int(build.head["n_computed"]) * int(head["n_threads"])
            for head, build in zip(heads, builds, strict=True)
        ],
        np.int64,
    )
    is_whole = told.records["extra"] & RECORD_GRAPH != 0
    came = counted(graph, told.records["graph"][~is_whole])
    whole = counted(graph, told.records["graph"][is_whole]) > 0
    written, left = np.full((2, n), -1, np.int64)
    has_ended = np.zeros(n, np.bool_)
    for number, row in _ends(told).items():
        at = int(np.searchsorted(graph, number))
        if at < n and graph[at] == number:
            has_ended[at] = True
            written[at], left[at] = row
    # A graph is over too where its slot computes another one: its end was lost.
    last: dict[int, int] = {}
    for at, head in enumerate(heads):
        before = last.get(int(head["slot"]))
        if before is not None:
            has_ended[before] = True
        last[int(head["slot"])] = at
    computed[whole] = written[whole] = left[whole] = 0
    expected = np.where(computed < 0, written, np.where(left < 0, computed, left))
    expected = np.where(has_ended, np.maximum(expected, came), came)
    n_unplaced = int(np.count_nonzero(~is_whole)) - int(came.sum())
    return Account(graph, computed, expected, written, came, has_ended, n_unplaced)


def counted(graph: I64, numbers: npt.NDArray[Any]) -> I64:
    """Return how many of the numbers are each graph's; graphs ascend."""
    found, count = np.unique(numbers, return_counts=True)
    result = np.zeros(len(graph), np.int64)
    at = np.searchsorted(graph, found)
    is_known = at < len(graph)
    is_known[is_known] = graph[at[is_known]] == found[is_known]
    result[at[is_known]] = count[is_known]
    return result


def _ends(told: Told) -> dict[int, tuple[int, int]]:
    """Return how many records of each graph were written, and how many expected."""
    ends: dict[int, tuple[int, int]] = {}
    for event in told.events:
        if event.type != Frame.GRAPH_END or len(event.body) < _OLD_END_BYTES:
            continue
        body = event.body.ljust(_END.itemsize, b"\xff")
        row = np.frombuffer(body, _END, 1)[0]
        is_old = len(event.body) < _END.itemsize
        expected = -1 if is_old else int(row["n_expected"])
        ends[int(row["graph"])] = int(row["n_records"]), expected
    return ends


def as_json(account: Account, kept: I64, *, beyond_limit: int) -> dict[str, Any]:
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
