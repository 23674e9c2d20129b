"""Calls of ``ggmlviz_walk.c`` that pair ops: the compiled twin of `ggmlviz_ops`."""

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz_blocks import blocks
from ggscope.readers.ggmlviz_events import Events
from ggscope.readers.ggmlviz_kernel import address, free_slots, new_secret
from ggscope.readers.ggmlviz_layouts import EventType
from ggscope.readers.ggmlviz_nesting import Graphs
from ggscope.readers.ggmlviz_ops import Pairs

MAX_ROWS = (1 << 31) - 1
"""The compiled pairing counts events in 32 bits."""

_FEWEST_KEYS = 1 << 12

_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64


class PairingStruct(ctypes.Structure):
    """``Pairing`` of the C source."""

    _fields_ = (
        ("kind", _POINTER), ("time", _POINTER), ("place", _POINTER),
        ("pointer", _POINTER), ("order", _POINTER), ("thread_of", _POINTER),
        ("secret", _POINTER),
        ("innermost", _POINTER), ("last", _POINTER), ("graph_end", _POINTER),
        ("has_end", _POINTER), ("n_ops", _POINTER), ("seen", _POINTER),
        ("current", _POINTER),
        ("next_graph", _NUMBER), ("n", _NUMBER), ("n_strays", _NUMBER),
        ("begin", _POINTER), ("owner", _POINTER), ("partner", _POINTER),
        ("link", _POINTER), ("strays", _POINTER),
        ("n_keys", _NUMBER), ("mask", _NUMBER), ("slots", _POINTER),
    )  # fmt: skip


def pair_compiled(
    library: Any, events: Events, graphs: Graphs, trace_end: int, context: ReadContext
) -> tuple[Pairs, I64, I64, npt.NDArray[np.uint8]]:
    """Return what `pair_ops` and `finish` return, and release the pointers.

    Parameters
    ----------
    events : fewer than `MAX_ROWS`.
    """
    n_begins, n_ends = _counts(events, context)
    pairs = Pairs(
        begin=np.empty(n_begins, np.int32),
        owner=np.empty(n_begins, np.int32),
        partner=np.empty(n_begins, np.int32),
        strays=np.empty(n_ends, np.int32),
        n_ops=np.zeros(len(graphs), np.int32),
        seen=np.zeros(len(graphs), np.uint8),
    )
    job = _Job(library, events, graphs, pairs)
    job.pair(context)
    events.release("pointer")
    times = job.finish(trace_end, context)
    pairs.strays.resize(job.n_strays, refcheck=False)
    return pairs, *times


def _counts(events: Events, context: ReadContext) -> tuple[int, int]:
    """Return how many begins of anything, and ends of ops, there are."""
    n_begins = n_ends = 0
    for block in blocks(len(events), context):
        kind = events.kind[block]
        n_begins += int(np.count_nonzero((kind & ~np.uint8(EventType.OP_BEGIN)) == 0))
        n_ends += int(np.count_nonzero(kind == EventType.OP_END))
    return n_begins, n_ends


class _Job:
    """One run of the compiled pairing; holds every array that it points to."""

    def __init__(
        self, library: Any, events: Events, graphs: Graphs, pairs: Pairs
    ) -> None:
        self._library, self._events = library, events
        self._graphs, self._pairs = graphs, pairs
        self._secret = new_secret()
        self._link = np.empty(len(pairs.begin), np.int32)
        self._has_end = (graphs.partner >= 0).astype(np.uint8)
        self._current = np.full(events.n_threads, -1, np.int64)
        self._slots = free_slots(_FEWEST_KEYS)
        self._struct = PairingStruct(
            **{name: address(getattr(events, name)) for name in (
                "kind", "time", "place", "pointer", "order", "thread_of")},
            secret=address(self._secret),
            innermost=address(graphs.innermost), last=address(graphs.closer),
            graph_end=address(graphs.end), has_end=address(self._has_end),
            n_ops=address(pairs.n_ops), seen=address(pairs.seen),
            current=address(self._current),
            begin=address(pairs.begin), owner=address(pairs.owner),
            partner=address(pairs.partner), link=address(self._link),
            strays=address(pairs.strays),
            mask=len(self._slots) - 1, slots=address(self._slots),
        )  # fmt: skip

    @property
    def n_strays(self) -> int:
        """Ends of ops without begin."""
        return int(self._struct.n_strays)

    def pair(self, context: ReadContext) -> None:
        """Pair all events."""
        struct = ctypes.byref(self._struct)
        for block in blocks(len(self._events), context):
            at = block.start
            while at < block.stop:
                at = self._library.ggscope_ggmlviz_pair(struct, at, block.stop)
                if at < block.stop:
                    self._move_keys()

    def finish(
        self, trace_end: int, context: ReadContext
    ) -> tuple[I64, I64, npt.NDArray[np.uint8]]:
        """Return start, end and flags of the pairs."""
        n = len(self._pairs.begin)
        start, end = np.empty(n, np.int64), np.empty(n, np.int64)
        flags = np.empty(n, np.uint8)
        slot: Array = np.zeros(len(self._graphs), np.int32)
        for block in blocks(n, context):
            self._library.ggscope_ggmlviz_finish(
                ctypes.byref(self._struct), address(self._graphs.start), trace_end,
                address(slot), block.start, block.stop,
                address(start), address(end), address(flags),
            )  # fmt: skip
        return start, end, flags

    def _move_keys(self) -> None:
        """Make room for as many keys as there are now that still matter."""
        struct = ctypes.byref(self._struct)
        live = int(self._library.ggscope_ggmlviz_live(struct))
        slots = free_slots(max(2 * live, _FEWEST_KEYS))
        self._library.ggscope_ggmlviz_move(struct, address(slots), len(slots) - 1)
        self._slots = slots
