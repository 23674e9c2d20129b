"""A lane for each thread of each backend in a ``.ggmlviz`` file."""

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.lanes import LaneKind
from ggscope.model.tables import I64, Array, narrow
from ggscope.model.trace import Severity
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz_blocks import blocks, counts, taken
from ggscope.readers.ggmlviz_events import Events
from ggscope.readers.ggmlviz_layouts import EventType

MAX_LANES = 4096


def add_lanes(
    builder: TraceBuilder,
    events: Events,
    begins: Array,
    instants: I64,
    context: ReadContext,
) -> tuple[Array, Array]:
    """Add a lane for each backend and thread; return those of begins and instants.

    Parameters
    ----------
    begins, instants : rows of events, in the order of time. Instants without a
        backend go to the first lane of their thread.
    """
    begin_place, place = taken(events.place, begins, context), events.place[instants]
    nowhere = events.kind[instants] >= EventType.BARRIER_WAIT
    if nowhere.any():
        thread = events.thread_of[place]
        home = np.full(events.n_threads, -1, np.int32)
        home[thread] = place
        # Written backwards, so that the first span of each thread stays.
        home[events.thread_of[begin_place][::-1]] = begin_place[::-1]
        place[nowhere] = home[thread[nowhere]]
    n_places = len(events.thread_of)
    n_uses = counts(begin_place, n_places, context)
    n_uses += np.bincount(place, minlength=n_places)
    lane_of = _name_lanes(builder, events, np.flatnonzero(n_uses))
    for block in blocks(len(begins), context):
        begin_place[block] = lane_of[begin_place[block]]
    return narrow(begin_place), lane_of[place]


def _name_lanes(builder: TraceBuilder, events: Events, places: I64) -> Array:
    """Add a lane for each of the places; return the lane of every place.

    Counters may have taken lanes before.
    """
    keys = events.thread_of[places], events.backend_of[places]
    places = places[np.lexsort(keys)]
    groups = _group_names(events.backends)
    lane_of = np.full(len(events.thread_of), -1, np.int32)
    for place in places[:MAX_LANES].tolist():
        backend, thread = int(events.backend_of[place]), int(events.thread_of[place])
        lane_of[place] = builder.add_lane(
            f"thread {thread}",
            LaneKind.THREAD,
            (groups[backend],),
            (backend, thread),
            raw=str(events.thread_ids[thread]),
            backend=f"0x{events.backends[backend]:x}",
        )
    if len(places) > MAX_LANES:
        lane_of[places[MAX_LANES:]] = builder.add_lane(
            "other threads", LaneKind.THREAD, ("Others",)
        )
        builder.warn(
            Severity.NOTICE,
            "too_many_lanes",
            f"the file names {len(places):,} pairs of backend and thread; those beyond "
            f"the first {MAX_LANES:,} share one lane.",
        )
    return narrow(lane_of)


def _group_names(backends: Array) -> list[str]:
    """Name backends in the order of their appearance; NULL is the CPU."""
    found: list[str] = []
    n_others = 0
    for pointer in backends.tolist():
        n_others += pointer != 0
        found.append(f"Backend {n_others}" if pointer else "CPU backend")
    return found
