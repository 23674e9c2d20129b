"""The decoded contents of a ring: records, lanes, graphs, builds, events.

A server that runs for a day writes more than fits into memory. Records and frames stay
memory-mapped; only columns of numbers are held.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope_capture.builds import Build, Builds
from ggscope_capture.frames import HEAD_BYTES, Frames
from ggscope_capture.ring import DTYPES, RECORD
from ggscope_capture.ring_format import (
    FRAMES,
    LANES_OF_SLOT,
    RECORD_GRAPH,
    ROW_OUTPUT,
    ROW_PHASE,
    UNKNOWN_U32,
    EventGraphEnd,
    EventUbatch,
    Frame,
    FrameType,
    RingError,
    UbatchRows,
    fields,
    ubatch_body,
)

Array = npt.NDArray[Any]
I64 = npt.NDArray[np.int64]
CHUNK = 1 << 18
"""Records per chunk."""
_END = DTYPES["event_graph_end"]
_OLD_END = np.dtype(fields(EventGraphEnd)[:3])
"""The fields that older tracers write: without the count of expected records."""
GRAPH = np.dtype(
    [
        *DTYPES["event_graph"].descr,
        ("begin", "<u8"), ("end", "<u8"), ("has_end", "?"), ("status", "<i4"),
        ("written", "<i8"), ("expected", "<i8"),
    ]
)  # fmt: skip
"""A graph: its begin event, the times of begin and end, and its end event.

`written` and `expected` count records of ops: -1 = not recorded.
"""


class Records:
    """Records of a ring, in the order in which they were read.

    Parameters
    ----------
    stored : of `RECORD`; may be a mapped file.
    keeps : returns for a chunk which records pass the filter, bool[n]; None = all.
    """

    def __init__(
        self, stored: Array, keeps: Callable[[Array], Array] | None = None
    ) -> None:
        self._stored, self._keeps = stored, keeps

    def __len__(self) -> int:
        """Return the number of records before filtering."""
        return len(self._stored)

    def filtered(self, keeps: Callable[[Array], Array]) -> "Records":
        """Return the same records with another filter."""
        return Records(self._stored, keeps)

    def chunks(self, size: int = CHUNK) -> Iterator[Array]:
        """Yield the filtered records, unordered."""
        for at in range(0, len(self._stored), size):
            yield self._filtered(self._stored[at : at + size])

    def chunks_by_time(self, size: int = CHUNK) -> Iterator[Array]:
        """Yield the filtered records ordered by begin, about `size` at a time.

        Threads and polls of the ring overlap a little in time. So each chunk is an
        interval of time, and only blocks that overlap it are searched.
        """
        begins = range(0, len(self._stored), size)
        times = [self._stored["t0"][at : at + size] for at in begins]
        earliest = np.array([part.min() for part in times], np.uint64)
        latest = np.array([part.max() for part in times], np.uint64)
        edges = np.unique(earliest)
        order, n_open = np.argsort(earliest, kind="stable"), 0
        open_blocks: list[int] = []
        for k, low in enumerate(edges):
            high = edges[k + 1] if k + 1 < len(edges) else None
            while n_open < len(order) and (
                high is None or earliest[order[n_open]] < high
            ):
                open_blocks.append(int(order[n_open]))
                n_open += 1
            parts = []
            for block in sorted(open_blocks):
                rows = self._stored[begins[block] : begins[block] + size]
                in_time = rows["t0"] >= low
                if high is not None:
                    in_time &= rows["t0"] < high
                parts.append(rows[in_time])
            if high is not None:
                open_blocks = [b for b in open_blocks if latest[b] >= high]
            chunk = self._filtered(np.concatenate(parts))
            if len(chunk):
                yield chunk[np.argsort(chunk["t0"], kind="stable")]

    def all(self) -> Array:
        """Return all filtered records, ordered by begin."""
        return np.concatenate([self._stored[:0], *self.chunks_by_time()])

    def _filtered(self, rows: Array) -> Array:
        return rows if self._keeps is None else rows[self._keeps(rows)]


@dataclass(frozen=True)
class Ubatch:
    """A ubatch: the tokens that are computed at once.

    Attributes
    ----------
    head : ``event_ubatch``.
    time : of its first event.
    tokens, positions : as the graph reads them; of M-RoPE several positions each.
    rows : ``ubatch_rows``; None from older tracers.
    phases : `Phase` of each token.
    outputs : whether each token's output is requested.
    sequences : the sequences of each token.
    """

    head: EventUbatch
    time: int
    tokens: list[int]
    positions: list[int]
    rows: UbatchRows | None = None
    phases: list[int] = field(default_factory=list)
    outputs: list[bool] = field(default_factory=list)
    sequences: list[list[int]] = field(default_factory=list)

    @classmethod
    def of(cls, event: Frame) -> "Ubatch":
        """Decode a UBATCH event; raises RingError if it is cut."""
        ubatch = ubatch_body(event.body)
        tokens, positions = [*ubatch.tokens], [*ubatch.positions]
        plain = cls(ubatch.head, event.time, tokens, positions)
        if ubatch.rows is None:
            return plain
        sequences = iter(ubatch.sequences)
        return replace(
            plain,
            rows=ubatch.rows,
            phases=[bits & ROW_PHASE for bits in ubatch.bits],
            outputs=[bits & ROW_OUTPUT != 0 for bits in ubatch.bits],
            sequences=[[*islice(sequences, n)] for n in ubatch.counts],
        )


@dataclass(frozen=True)
class RingContents:
    """The decoded contents of a ring.

    Attributes
    ----------
    lanes : of `LANE`.
    graphs : of `GRAPH`, by their number, ascending.
    ops : names by number.
    definitions : all but builds.
    """

    records: Records
    lanes: Array
    builds: Builds
    graphs: Array
    ops: dict[int, str]
    definitions: Sequence[Frame]
    events: Frames

    @classmethod
    def of(
        cls,
        definitions: Iterable[Frame],
        events: Iterable[Frame] | Frames,
        records: Array,
        lanes: Array,
    ) -> "RingContents":
        """Build from frames and records of `Ring`; raises RingError on damage."""
        builds, others = Builds(), []
        for event in definitions:
            if event.type in (FrameType.BUILD, FrameType.BUILD_LIKE):
                builds.add_event(event)
            else:
                others.append(event)
        frames = events if isinstance(events, Frames) else Frames.of(events)
        return cls.with_builds(builds, others, frames, Records(records), lanes)

    @classmethod
    def with_builds(
        cls,
        builds: Builds,
        definitions: Sequence[Frame],
        events: Frames,
        records: Records,
        lanes: Array,
    ) -> "RingContents":
        """Build from a recording; frames have the length of their type."""
        ops = {
            event.number(): event.text()
            for event in definitions
            if event.type == FrameType.OP
        }
        graphs = _graphs(events)
        return cls(records, lanes, builds, graphs, ops, definitions, events)

    def n_ops(self) -> int:
        """Return the number of records of ops."""
        return sum(
            int(np.count_nonzero(chunk["extra"] & RECORD_GRAPH == 0))
            for chunk in self.records.chunks()
        )

    def places(self, graphs: Array) -> I64:
        """Return the index of each graph number in `graphs`; -1 = not recorded."""
        numbers = self.graphs["graph"]
        if not len(numbers):
            return np.full(len(graphs), -1, np.int64)
        at = np.minimum(np.searchsorted(numbers, graphs), len(numbers) - 1)
        return np.where(numbers[at] == graphs, at, -1).astype(np.int64)

    def by_build(self, spans: Array) -> Iterator[tuple[Build, Array, Array]]:
        """Yield each build with its rows of `spans`, and their node numbers."""
        of_graph = np.append(self.graphs["build"].astype(np.int64), -1)
        of_span = of_graph[self.places(spans["graph"])]
        order = np.argsort(of_span, kind="stable")
        bounds = np.flatnonzero(np.diff(of_span[order])) + 1
        for rows in np.split(order, bounds):
            build = self.builds.get(int(of_span[rows[0]])) if len(rows) else None
            if build is None:
                continue
            nodes = spans["node"][rows].astype(np.int64)
            is_known = nodes < build.head.n_nodes
            yield build, rows[is_known], nodes[is_known]

    def threads(self, lanes: Array) -> I64:
        """Return a unique thread number for each lane."""
        lanes_here = np.minimum(lanes.astype(np.int64), max(len(self.lanes) - 1, 0))
        if not len(self.lanes):
            return lanes_here
        slot = self.lanes["slot"][lanes_here].astype(np.int64)
        return np.asarray(
            slot * LANES_OF_SLOT + self.lanes["ith"][lanes_here], np.int64
        )

    @cached_property
    def phases(self) -> I64:
        """The phase of each of `graphs`, of its ubatch's last event."""
        heads, _, _ = self._ubatches
        phases = self.graphs["phase"].astype(np.int64)
        if len(heads):
            at = np.searchsorted(heads["ubatch"], self.graphs["ubatch"])
            at = np.minimum(at, len(heads) - 1)
            has_ubatch = heads["ubatch"][at] == self.graphs["ubatch"]
            phases[has_ubatch] = heads["phase"][at[has_ubatch]]
        return phases

    @cached_property
    def steps(self) -> I64:
        """The decode step that each of `graphs` belongs to."""
        ubatch = self.graphs["ubatch"].astype(np.int64)
        graph = self.graphs["graph"].astype(np.int64)
        return np.where(ubatch == UNKNOWN_U32, graph, ubatch)

    def ubatches(self) -> Iterator[Ubatch]:
        """Yield each ubatch: content of its last event, time of its first."""
        _, frames, times = self._ubatches
        for number, time in zip(frames.tolist(), times.tolist(), strict=True):
            yield replace(Ubatch.of(self.events.event(number)), time=time)

    @cached_property
    def _ubatches(self) -> tuple[Array, I64, Array]:
        """Return each ubatch's last head, its frame, and the time of its first event.

        Ascending by number.
        """
        frames = self.events.where(FrameType.UBATCH)
        heads = self.events.structs(frames, DTYPES["event_ubatch"])
        order = np.argsort(heads["ubatch"], kind="stable")
        numbers = heads["ubatch"][order]
        is_last = np.append(numbers[1:] != numbers[:-1], True)[: len(order)]
        is_first = np.append(True, numbers[1:] != numbers[:-1])[: len(order)]
        last, first = order[is_last], order[is_first]
        return heads[last], frames[last], self.events.times(frames[first])


def _graphs(events: Frames) -> Array:
    """Return the recorded graphs, of `GRAPH`, by number."""
    frames = events.where(FrameType.GRAPH_BEGIN)
    heads = events.structs(frames, DTYPES["event_graph"])
    order = np.argsort(heads["graph"], kind="stable")
    numbers = heads["graph"][order]
    last = order[np.append(numbers[1:] != numbers[:-1], True)[: len(order)]]
    graphs = np.zeros(len(last), GRAPH)
    for name in DTYPES["event_graph"].names or ():
        graphs[name] = heads[name][last]
    graphs["begin"] = events.times(frames[last])
    graphs["written"] = graphs["expected"] = -1
    ends = events.where(FrameType.GRAPH_END)
    rows = events.structs(ends, _OLD_END)
    expected = np.full(len(ends), -1, np.int64)
    is_new = events.body_bytes(ends) >= _END.itemsize
    n_expected = events.structs(ends[is_new], _END)["n_expected"]
    expected[is_new] = n_expected.astype(np.int64)
    at = np.searchsorted(graphs["graph"], rows["graph"])
    is_known = at < len(graphs)
    is_known[is_known] = graphs["graph"][at[is_known]] == rows["graph"][is_known]
    at, rows = at[is_known], rows[is_known]
    graphs["has_end"][at] = True
    graphs["end"][at] = events.times(ends[is_known])
    graphs["status"][at] = rows["status"]
    graphs["written"][at] = rows["n_records"].astype(np.int64)
    graphs["expected"][at] = expected[is_known]
    return graphs


def whole_events(events: Frames) -> npt.NDArray[np.bool_]:
    """Return whether each event has the size of its type; unknown types pass."""
    min_bytes = np.zeros(1 << 16, np.int64)
    for kind, frame_format in FRAMES.items():
        min_bytes[kind] = frame_format.n_bytes
    is_good: npt.NDArray[np.bool_] = (
        events.sizes - HEAD_BYTES >= min_bytes[events.types]
    )
    for number in events.where(FrameType.UBATCH).tolist():
        if is_good[number]:
            try:
                Ubatch.of(events.event(number))
            except RingError:
                is_good[number] = False
    return is_good


def joined(parts: Sequence[Array]) -> Array:
    """Return the records of several lanes as one array of `RECORD`."""
    return np.concatenate([np.zeros(0, RECORD), *parts])
