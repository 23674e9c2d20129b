"""What AMD's rocprofv3 records, in whichever form, as lanes, spans and launches.

Work of a device is on the lane of its stream, else of its queue, in the group of its
agent; calls and ranges are on the lane of their thread. A call and the work that it
launched have one correlation id.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ggscope.model.tables import F64, I32, I64, Bools, ranked
from ggscope.model.trace import LaneKind
from ggscope.readers.common.gathered import (
    NONE,
    Events,
    Gathered,
    Series,
    Track,
    combined,
)

KERNEL, COPY, MEMORY = "kernel", "gpu_memcpy", "gpu_memory"
"""Categories of what a device does."""
_PLACELESS = {MEMORY: "allocations", COPY: "copies"}
"""Lanes of what needs no queue."""
MAX_NAME = 512
PLACES = ("pid", "tid", "agent_id", "queue_id", "stream_id")
"""Columns that say where something ran."""
AGENT_KINDS = ("", "CPU", "GPU")
_CPU = AGENT_KINDS[1]
_LARGEST = 1 << 50
_MAX_CORRELATION = 1 << 48

Rows = dict[str, I64]
"""Columns of n rows: "record", "start", "end", `PLACES`, "correlation"; of copies also
"src_agent_id", "dst_agent_id" and "size". What is unknown is `NONE`, or not there."""


@dataclass(slots=True)
class RocmNames:
    """What a file calls agents, processes, threads, queues and streams, by their ids.

    Attributes
    ----------
    processes, threads : number of the system, and name, "" unknown.
    """

    agents: dict[int, str] = field(default_factory=dict)
    processes: dict[int, tuple[int, str]] = field(default_factory=dict)
    threads: dict[int, tuple[int, str]] = field(default_factory=dict)
    queues: dict[int, str] = field(default_factory=dict)
    streams: dict[int, str] = field(default_factory=dict)


def agent_title(kind: object, number: object, name: object) -> str:
    """Return the name of an agent, ``GPU 0 AMD Instinct MI300X``."""
    return f"{kind or 'agent'} {number} {name or ''}".rstrip()[:MAX_NAME]


class RocmEvents:
    """Adds the events of one process to what is gathered of a file.

    Parameters
    ----------
    number : of the process in the file, from 0; correlation ids are its own.
    """

    def __init__(self, into: Gathered, names: RocmNames, number: int = 0) -> None:
        self._into, self._names, self._number = into, names, number
        self._strings = into.builder.strings

    def strings_of(self, ids: I64, texts: dict[int, str], fallback: str) -> I32:
        """Return the string of each id; that of `fallback` where it has no text."""
        different, _, place = ranked(ids)
        shown = [texts.get(i) or fallback for i in different.tolist()]
        return self._strings.intern_many(shown)[place]

    def add_work(
        self,
        rows: Rows,
        name: I32,
        category: str,
        to_host: Bools | None = None,
    ) -> None:
        """Add what a device did: kernels, copies, allocations.

        Parameters
        ----------
        to_host : bool[n], whether a copy is for the host; None: the agents state.
        """
        none = np.full(len(rows["start"]), NONE)
        target, origin = (rows.get(f"{side}_agent_id", none) for side in ("dst", "src"))
        cpus = [i for i, text in self._names.agents.items() if text.startswith(_CPU)]
        if to_host is None:
            to_host = np.isin(target, cpus)
        agent = np.where(to_host, origin, target)
        agent = np.where(rows["agent_id"] != NONE, rows["agent_id"], agent)
        size = rows.get("size", none)
        is_size = (size >= 0) & (size < _LARGEST)
        self._into.spans.append(
            Events(
                record=rows["record"],
                start=rows["start"],
                end=rows["end"],
                track=self._tracks(
                    {**rows, "agent_id": agent},
                    ("pid", "agent_id", "stream_id", "queue_id"),
                    partial(self._device_track, _PLACELESS.get(category, "")),
                ),
                name=name,
                category=category,
                size=np.where(is_size, size, -1) if category == COPY else None,
                reads=to_host,
                launch=self._launches(rows),
            )
        )

    def add_calls(
        self,
        rows: Rows,
        name: I32,
        category: str | I32,
    ) -> None:
        """Add calls of the runtime, and ranges of the program."""
        self._into.spans.append(
            Events(
                record=rows["record"],
                start=rows["start"],
                end=rows["end"],
                track=self._tracks(rows, ("pid", "tid"), self._thread_track),
                name=name,
                category=category,
                launch=self._launches(rows),
                is_call=True,
            )
        )

    def add_samples(self, rows: Rows, name: I32) -> None:
        """Add events without duration."""
        self._into.markers.append(
            Events(
                record=rows["record"],
                start=rows["start"],
                end=rows["start"],
                track=self._tracks(rows, ("pid", "tid"), self._sample_track),
                name=name,
            )
        )

    def _launches(self, rows: Rows) -> I64:
        """Return what joins a call and its work: the correlation id in its process."""
        ids = rows["correlation"]
        is_known = (ids > 0) & (ids < _MAX_CORRELATION)
        return np.where(is_known, (self._number << 48) | ids, -1)

    # -- tracks ------------------------------------------------------------------

    def _tracks(
        self, rows: Rows, columns: tuple[str, ...], track: Callable[..., Track]
    ) -> I64:
        none = np.full(len(rows["start"]), NONE)
        where, at = combined([rows.get(column, none) for column in columns])
        numbers = [self._into.track(track(*place)) for place in where]
        return np.array(numbers, np.int64)[at]

    def _process(self, pid: int) -> str:
        number, name = self._names.processes.get(pid, (pid, ""))
        return f"process {number} {name}".rstrip() if pid != NONE else "process unknown"

    def _device_track(
        self, placeless: str, pid: int, agent: int, stream: int, queue: int
    ) -> Track:
        names = self._names
        group: tuple[str, ...] = (names.agents.get(agent, "GPU unknown"),)
        if self._number or len(names.processes) > 1:
            group = (*group, self._process(pid))
        if stream != NONE:
            # What runs in a stream runs in order, in whichever queue.
            queue = NONE
            name = names.streams.get(stream) or f"stream {stream}"
        elif queue != NONE:
            name = names.queues.get(queue) or f"queue {queue}"
        else:
            name = placeless or "queue unknown"
        return Track(
            name[:MAX_NAME],
            LaneKind.ENGINE,
            group,
            (0, self._number, agent, stream, queue),
        )

    def _thread_track(self, pid: int, tid: int) -> Track:
        number, name = self._names.threads.get(tid, (tid, ""))
        title = f"thread {number} {name}".rstrip() if tid != NONE else "calls"
        key = (1, self._number, pid, tid, 0)
        return Track(title, LaneKind.THREAD, (self._process(pid),), key)

    def _sample_track(self, pid: int, tid: int) -> Track:
        track = self._thread_track(pid, tid)
        return Track(
            f"{track.name} · samples",
            LaneKind.MARKER,
            track.group,
            (2, *track.order[1:]),
        )


def counter_series(
    start: I64,
    dispatch: I64,
    counter: I64,
    value: F64,
    title: Callable[[int], str],
) -> list[Series]:
    """Return a series for each counter, with a sample for each dispatch that has one.

    Parameters
    ----------
    start : begin of each dispatch.
    dispatch, counter, value : int64[n], rows of `start`, ids, and values that are added
        up; NaN counts as none.
    title : returns the name of a counter by its id.
    """
    known = np.flatnonzero(np.isfinite(value))
    order = known[np.lexsort((start[dispatch[known]], counter[known]))]
    series = []
    for part in np.split(order, np.flatnonzero(np.diff(counter[order])) + 1):
        if not len(part):
            continue
        _, first, place = ranked(dispatch[part])
        with np.errstate(over="ignore"):
            total = np.bincount(place, value[part]).astype(np.float64)
        time = start[dispatch[part[first]]]
        rows = np.argsort(time, kind="stable")
        rows = rows[np.isfinite(total[rows])]
        if len(rows):
            name = title(int(counter[part[0]]))[:MAX_NAME]
            series.append(Series(name, "", time[rows], total[rows]))
    return series
