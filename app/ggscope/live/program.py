"""The trace of a program that writes a ring, as far as it has run."""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ggscope.errors import LiveError
from ggscope.live.ring import (
    BEGIN_ONLY,
    ENDED,
    MAGIC,
    REPLACED,
    TENSOR,
    UNKNOWN,
    WHOLE_GRAPH,
    Frame,
    Fresh,
    Ring,
    first_bytes,
    text_at,
)
from ggscope.live.source import NANO, Heard, State, now_ns, pending
from ggscope.model.builder import TraceBuilder
from ggscope.model.lanes import LaneKind
from ggscope.model.names import layer_of, normalise
from ggscope.model.tables import AccessColumns, Array, Space, SpanFlag, Spans
from ggscope.model.tensors import Tensors
from ggscope.model.time import Clock
from ggscope.model.trace import OpTable, Severity, Trace, TraceInfo
from ggscope.native.declared import RingFacts, RingSpans
from ggscope.native.library import library

_BUILD_BYTES = 32
_HOST_NAMES = ("", "decode", "compute", "allocate", "set inputs", "get outputs",
               "synchronize", "sample", "reset")  # fmt: skip
_IS_WEIGHT = 4
_LOOK_NS = NANO // 4
"""How often it is asked whether the program is still there."""
_MOST_OPS = 1 << 10
_FAR = 1 << 61
_NO_END = int(SpanFlag.INFERRED_END)
_UNFINISHED = int(SpanFlag.UNFINISHED)
_GUESSED = int(SpanFlag.INFERRED_START | SpanFlag.INFERRED_END)
_COLUMNS = {
    "start": np.int64, "end": np.int64, "name": np.int32, "op": np.int16,
    "flags": np.uint16, "layer": np.int16, "token": np.int32, "phase": np.int8,
    "pattern": np.int32,
}  # fmt: skip
"""What records become."""
_KEPT_GRAPHS = 1 << 12
"""Records come soon after their graph began: older graphs are forgotten."""


@dataclass(frozen=True, slots=True)
class _Graph:
    """A graph that is computed: where its nodes stand, and what it is part of."""

    first: int
    n_nodes: int
    begin: int
    token: int
    phase: int
    lane: int


@dataclass(slots=True)
class _Ubatch:
    """What is computed at once: from when to when, in how many graphs just now."""

    begin: int
    end: int
    phase: int
    lane: int
    n_open: int = 0


_NO_GRAPH = _Graph(0, 0, 0, -1, -1, -1)


class ProgramSource:
    """Listens to a program through its ring; waits for one that is not there yet.

    A ring that is made anew under the same name begins another trace.

    Parameters
    ----------
    keeps_spans : whether there will be snapshots; else records are only counted.
    """

    def __init__(self, path: Path, *, keeps_spans: bool = True) -> None:
        self.path = path
        self._ring: Ring | None = None
        self._keeps_spans = keeps_spans
        self._trace = _ProgramTrace(path, keeps_spans=keeps_spans)
        self._heard = Heard(words=f"{path} is not there yet")
        self._next_look = 0
        self._before = 0

    def poll(self) -> bool:
        """Take what is new; see `LiveSource.poll`."""
        now = now_ns()
        may_look = now >= self._next_look
        if may_look:
            self._next_look = now + _LOOK_NS
        if self._ring is None and not self._open():
            return False
        ring = self._ring
        assert ring is not None
        is_running = not may_look or ring.is_running()
        fresh = ring.take()
        has_news = self._trace.add(ring, fresh)
        lag = now_ns() - self._trace.newest if len(fresh.records) else -1
        self._heard = replace(
            self._heard,
            records=self._before + self._trace.n_records,
            lost=self._trace.n_lost,
            lag_ns=max(lag, -1),
            fill=fresh.fill,
            tokens=self._trace.n_tokens,
        )
        if not is_running and not len(fresh.records):
            has_news = self._stop(ring) or has_news
        elif self._heard.state is not State.RUNNING:
            self._heard = replace(self._heard, state=State.RUNNING, words="")
            has_news = True
        if may_look and self._is_replaced(ring):
            self._begin_anew()
        return has_news

    def heard(self) -> Heard:
        """Return what has been heard."""
        return self._heard

    def snapshot(self) -> Trace:
        """Return the trace as it stands."""
        return self._trace.snapshot(self._heard)

    def close(self) -> None:
        """Let go of the ring."""
        if self._ring is not None:
            self._ring.close()
            self._ring = None

    def _open(self) -> bool:
        try:
            # Read once: its writer may write them at this very moment.
            head = first_bytes(self.path)
            if head != MAGIC:
                if not MAGIC.startswith(head.rstrip(b"\0")):
                    raise LiveError(f"{self.path}: this is no ring of ggscope-capture.")
                self._wait(f"{self.path} is being made")
                return False
            self._ring = Ring(self.path)
        except FileNotFoundError:
            self._wait(f"{self.path} is not there yet")
            return False
        except OSError as error:
            raise LiveError(f"{self.path}: {error.strerror or error}.") from None
        self._trace.begin(self._ring)
        return True

    def _wait(self, words: str) -> None:
        self._heard = replace(self._heard, state=State.WAITING, words=words)

    def _stop(self, ring: Ring) -> bool:
        """Note that the program is no more; tell whether that is news."""
        state = ring.value("state")
        has_told = state in (ENDED, REPLACED)
        words = {
            ENDED: "the program has ended",
            REPLACED: "the program became another one (exec)",
        }.get(state, "the program is gone without a word: it was killed or crashed")
        before = self._heard.state
        self._trace.finish()
        self._heard = replace(
            self._heard, state=State.ENDED if has_told else State.GONE, words=words
        )
        return before is not self._heard.state

    def _is_replaced(self, ring: Ring) -> bool:
        """Tell whether there is another ring under the name now."""
        try:
            return (
                os.stat(self.path).st_ino != ring.inode
                and first_bytes(self.path) == MAGIC
            )
        except OSError:
            return False

    def _begin_anew(self) -> None:
        self.close()
        self._before += self._trace.n_records
        self._trace = _ProgramTrace(self.path, keeps_spans=self._keeps_spans)
        self._heard = replace(self._heard, restarts=self._heard.restarts + 1)
        self._next_look = 0


class _ProgramTrace:
    """The trace of one ring.

    Attributes
    ----------
    newest : CLOCK_MONOTONIC ns at which the newest record ended.
    n_tokens : in all ubatches that were told; -1 before the first one.
    """

    def __init__(self, path: Path, *, keeps_spans: bool) -> None:
        self._path = path
        self._keeps_spans = keeps_spans
        self._builder = TraceBuilder(grows=True)
        self._origin = 0
        self.n_records = self.n_lost = self.newest = 0
        self.n_tokens = -1
        self._program = ""
        self._ops: dict[int, str] = {}
        self._nodes = _Nodes(self._builder)
        self._builds: dict[int, tuple[int, int]] = {}
        self._graphs: dict[int, _Graph] = {}
        self._open: dict[int, _Graph] = {}
        self._ubatches: dict[int, _Ubatch] = {}
        # Lanes of the trace by what they are for.
        self._lanes: dict[tuple[str, int], int] = {}
        # When the last record of each lane of the ring ended, and losses behind it.
        self._ends: dict[int, int] = {}
        self._lost_since: dict[int, tuple[int, int]] = {}
        # Spans that come one by one, until they are added together.
        self._single: list[tuple[int, int, int, int, int, int, int]] = []

    def begin(self, ring: Ring) -> None:
        """Take over the clock of `ring`."""
        self._origin = ring.value("t0_mono")
        self._builder.clock = Clock("ns", self._origin)
        self._program = ring.program

    def add(self, ring: Ring, fresh: Fresh) -> bool:
        """Add what is new; tell whether anything was."""
        for frame in fresh.frames if self._keeps_spans else ():
            try:
                self._frame(frame)
            except (LiveError, struct.error, ValueError) as error:
                self._builder.warn(
                    Severity.NOTICE,
                    "live_damaged",
                    f"a definition or event of the program is damaged: {error}.",
                )
        if self._keeps_spans:
            self._gaps(ring, fresh)
            self._add_single()
            if len(fresh.records):
                self._records(ring, fresh)
        self._count(fresh)
        if ring.lost > self.n_lost:
            self._builder.warn(
                Severity.DATA_LOSS,
                "live_lost",
                "records of the running program were lost: it wrote faster than they "
                "were read, and its ring had no more room. Where a thread was silent "
                "because of that is hatched.",
                count=ring.lost - self.n_lost,
                remedy="Make the ring larger, or trace fewer ops.",
            )
            self.n_lost = ring.lost
        return bool(len(fresh.records) or fresh.frames or fresh.gaps)

    def snapshot(self, heard: Heard) -> Trace:
        """Return the trace as it stands."""
        waits = pending(heard)
        until = max(self.newest - self._origin, 0)
        self._builder.set_open(self._open_spans(until))
        info = TraceInfo(
            (self._path,), "live-ring", "live ring", "1", 0, self.n_records,
            producer={"program": self._program} if self._program else {},
        )  # fmt: skip
        return self._builder.snapshot(info, waits, read_until=until if waits else None)

    # -- records -----------------------------------------------------------

    def _records(self, ring: Ring, fresh: Fresh) -> None:
        records, n = fresh.records, len(fresh.records)
        lanes = [self._thread(ring, i) for i in fresh.lanes.tolist()]
        graph = records["graph"]
        changes = np.flatnonzero(graph[1:] != graph[:-1]) + 1
        numbers = sorted({int(graph[0]), *graph[changes].tolist()})
        graphs = [self._graphs.get(i, _NO_GRAPH) for i in numbers]
        name, layer, pattern = self._nodes.columns()
        columns = {k: np.empty(n, kind) for k, kind in _COLUMNS.items()}
        library().ggscope_ring_spans(
            records.view(np.uint8),
            n,
            RingFacts(
                graph=np.array(numbers, np.uint32),
                first=np.array([g.first for g in graphs], np.int64),
                n_nodes=np.array([g.n_nodes for g in graphs], np.int64),
                token=np.array([g.token for g in graphs], np.int32),
                phase=np.array([g.phase for g in graphs], np.int8),
                n_graphs=len(numbers),
                name=name,
                pattern=pattern,
                layer=layer,
                n_nodes_all=len(name),
                origin=self._origin,
                far=_FAR,
                most_ops=_MOST_OPS,
                graph_name=self._builder.strings.intern("graph"),
                no_end=_NO_END,
                begin_only=BEGIN_ONLY,
                whole_graph=WHOLE_GRAPH,
            ),
            RingSpans(**columns),
        )
        self._builder.add_spans(
            lane=np.repeat(np.array(lanes, np.int16), fresh.counts), **columns
        )
        for number, stop, _ in _segments(fresh):
            last = records[stop - 1]
            end = min(int(last["t0"]), _FAR) + int(last["op_ns"])
            self._ends[number] = end - self._origin

    def _count(self, fresh: Fresh) -> None:
        """Count the new records, and note when the newest one ended."""
        self.n_records += len(fresh.records)
        for _, stop, _ in _segments(fresh):
            # Those of a lane follow each other in time.
            last = fresh.records[stop - 1]
            end = min(int(last["t0"]), _FAR) + int(last["op_ns"]) + int(last["wait_ns"])
            self.newest = max(self.newest, end)

    def finish(self) -> None:
        """Close what is open: the program is no more."""
        until = max(self.newest - self._origin, 0)
        for graph in self._open.values():
            self._add(
                graph.begin, max(graph.begin, until), graph.lane, "graph",
                _UNFINISHED, graph.token, graph.phase,
            )  # fmt: skip
        self._open.clear()
        for number in list(self._ubatches):
            self._end_ubatch(number)
        self._add_single()

    def _thread(self, ring: Ring, number: int) -> int:
        slot, ith = ring.lane_names()[number]
        group = (f"Context {slot}",) if slot else ()
        return self._lane("thread", number, f"thread {ith}", LaneKind.THREAD, group)

    def _lane(
        self,
        kind: str,
        number: int,
        name: str,
        lane_kind: LaneKind,
        group: tuple[str, ...] = (),
        **attributes: str,
    ) -> int:
        """Return a lane of the trace, made where it is new."""
        found = self._lanes.get((kind, number))
        if found is None:
            found = self._builder.add_lane(
                name, lane_kind, group, (number,), **attributes
            )
            self._lanes[kind, number] = found
        return found

    def _gaps(self, ring: Ring, fresh: Fresh) -> None:
        """Hatch the times in which records were lost, as soon as their end is known."""
        segments = {number: (stop - n, stop) for number, stop, n in _segments(fresh)}
        records = fresh.records
        known: list[tuple[int, int, int, int]] = []
        for number, (first, _) in segments.items():
            if number in self._lost_since:
                begin, n = self._lost_since.pop(number)
                known.append((number, begin, int(records["t0"][first]), n))
        for number, n, at in fresh.gaps:
            first, stop = segments.get(number, (0, 0))
            begin = self._ends.get(number, 0)
            if first < at <= stop:
                last = records[at - 1]
                begin = int(last["t0"]) + int(last["op_ns"]) - self._origin
            if first <= at < stop:
                known.append((number, begin, int(records["t0"][at]), n))
            else:
                since, before = self._lost_since.get(number, (begin, 0))
                self._lost_since[number] = (since, before + n)
        for number, begin, until, n in known:
            end = min(until, _FAR) - self._origin
            thread = self._thread(ring, number)
            lane = self._lane("lost", number, "lost", LaneKind.STALL, over=str(thread))
            self._add(min(begin, end), end, lane, f"{n:,} records lost", _GUESSED)

    # -- definitions and events --------------------------------------------

    def _frame(self, frame: Frame) -> None:
        match frame.type:
            case 2:
                (number,) = struct.unpack_from("<I", frame.body)
                if number < _MOST_OPS:
                    self._ops[number] = text_at(frame.body, 4)[0]
                    names = [self._ops.get(i, "") for i in range(max(self._ops) + 1)]
                    self._builder.ops = OpTable("ring", tuple(names))
            case 5:
                self._nodes.add_weight(frame.body)
            case 7:
                build, first, n = self._nodes.add_build(frame.body)
                self._builds[build] = (first, n)
            case 11:
                text, _ = text_at(frame.body, 4)
                self._builder.warn(Severity.NOTICE, "live_note", text)
            case 33:
                self._graph_begin(frame)
            case 34:
                self._graph_end(frame)
            case 35:
                n = struct.unpack_from("<II", frame.body)[1]
                if n != UNKNOWN:
                    self.n_tokens = max(self.n_tokens, 0) + n
            case 38:
                kind, _, begin, end = struct.unpack_from("<IIQQ", frame.body)
                lane = self._lane(
                    "host", 0, "calls of the program", LaneKind.COMMAND, ("Host",)
                )
                name = _HOST_NAMES[kind] if kind < len(_HOST_NAMES) else f"call {kind}"
                self._add_raw(begin, end, lane, name)
            case 39:
                begin, end = struct.unpack_from("<QQ", frame.body)
                lane = self._lane(
                    "copies", 0, "copies", LaneKind.COMMAND, ("Backends",)
                )
                name = frame.body[40:104].split(b"\0")[0].decode("utf-8", "replace")
                self._add_raw(begin, end, lane, name)

    def _graph_begin(self, frame: Frame) -> None:
        head = struct.unpack_from("<IIIHHHHI", frame.body)
        number, build, ubatch, slot, _, phase, _, _ = head
        first, n_nodes = self._builds.get(build, (0, 0))
        begin, token = frame.time - self._origin, -1 if ubatch == UNKNOWN else ubatch
        group = (f"Context {slot}",) if slot else ()
        lane = self._lane("graphs", slot, "graphs", LaneKind.GRAPH, group)
        phase = phase - 1 if phase in (1, 2) else -1
        graph = _Graph(first, n_nodes, begin, token, phase, lane)
        self._open[number] = graph
        if len(self._graphs) > _KEPT_GRAPHS:  # no record will name the oldest ones
            for old in list(self._graphs)[: _KEPT_GRAPHS // 2]:
                del self._graphs[old]
        self._graphs[number] = graph
        if token >= 0:
            for other, known in list(self._ubatches.items()):
                if other != token and not known.n_open and known.lane == lane:
                    self._end_ubatch(other)
            found = self._ubatches.setdefault(token, _Ubatch(begin, begin, phase, lane))
            found.n_open += 1

    def _graph_end(self, frame: Frame) -> None:
        (number,) = struct.unpack_from("<I", frame.body)
        graph = self._open.pop(number, None)
        if graph is None:
            return
        end = max(frame.time - self._origin, graph.begin)
        self._add(
            graph.begin, end, graph.lane, "graph", token=graph.token, phase=graph.phase
        )
        ubatch = self._ubatches.get(graph.token)
        if ubatch is not None:
            ubatch.n_open -= 1
            ubatch.end = max(ubatch.end, end)

    def _end_ubatch(self, number: int) -> None:
        found = self._ubatches.pop(number)
        lane = self._lane("tokens", 0, "tokens", LaneKind.TOKEN)
        self._add(
            found.begin, found.end, lane, f"ubatch {number}", token=number,
            phase=found.phase,
        )  # fmt: skip

    # -- spans one by one --------------------------------------------------

    def _add_raw(self, begin: int, end: int, lane: int, name: str) -> None:
        start, stop = (min(t, _FAR) - self._origin for t in (begin, end))
        self._add(start, max(start, stop), lane, name)

    def _add(
        self,
        start: int,
        end: int,
        lane: int,
        name: str,
        flags: int = 0,
        token: int = -1,
        phase: int = -1,
    ) -> None:
        name_id = self._builder.strings.intern(name)
        self._single.append((start, end, lane, name_id, flags, token, phase))

    def _add_single(self) -> None:
        """Add what came one by one: graphs, ubatches, calls, losses."""
        if not self._single:
            return
        columns = np.array(self._single, np.int64).T
        self._single.clear()
        start, end, lane, name, flags, token, phase = columns
        self._builder.add_spans(
            start=start,
            end=end,
            lane=lane.astype(np.int16),
            name=name.astype(np.int32),
            op=np.full(len(start), -1, np.int16),
            flags=flags.astype(np.uint16),
            layer=np.full(len(start), -1, np.int16),
            token=token.astype(np.int32),
            phase=phase.astype(np.int8),
        )

    def _open_spans(self, until: int) -> Spans:
        """Return the graphs and ubatches that have begun and not ended."""
        found = [
            (g.begin, g.lane, "graph", g.token, g.phase) for g in self._open.values()
        ]
        if self._ubatches:
            lane = self._lane("tokens", 0, "tokens", LaneKind.TOKEN)
            found += [
                (u.begin, lane, f"ubatch {i}", i, u.phase)
                for i, u in self._ubatches.items()
            ]
        if not found:
            return Spans.blank()
        begin, lanes, names, tokens, phases = zip(*found, strict=True)
        start = np.array(begin, np.int64)
        return Spans(
            start=start,
            end=np.maximum(start, until),
            lane=np.array(lanes, np.int16),
            name=self._builder.strings.intern_many(names),
            op=np.full(len(found), -1, np.int16),
            flags=np.full(len(found), SpanFlag.UNFINISHED, np.uint16),
            token=np.array(tokens, np.int32),
            phase=np.array(phases, np.int8),
        )


class _Nodes:
    """The nodes of all graphs: name, layer, and which pattern of accesses they make.

    The first row stands for a node that is not known.
    """

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._rows: list[tuple[int, int, int]] = [(-1, -1, -1)]
        self._weights: dict[tuple[int, int], int] = {}
        self._tensors: list[tuple[int, int, int, int, int, tuple[int, ...]]] = []
        self._columns: tuple[Array, Array, Array] | None = None

    def columns(self) -> tuple[Array, Array, Array]:
        """Return (name int32, layer int16, pattern int32) of all nodes."""
        if self._columns is None:
            name, layer, pattern = np.array(self._rows).T
            self._columns = (
                name.astype(np.int32), layer.astype(np.int16), pattern.astype(np.int32)
            )  # fmt: skip
        return self._columns

    def add_weight(self, body: bytes) -> None:
        """Add a tensor of the model file."""
        model, index, kind, _, *numbers = struct.unpack_from("<IIII4QQQ", body)
        name = text_at(body, 64)[0]
        *shape, offset, size = (_bounded(n) for n in numbers)
        row = (
            self._builder.strings.intern(normalise(name)), offset, size,
            layer_of(name), min(kind, 1 << 14),
            tuple(max(n, 0) for n in shape),
        )  # fmt: skip
        if (model, index) in self._weights:
            return
        self._weights[model, index] = len(self._tensors)
        self._tensors.append(row)
        names, offsets, sizes, layers, types, shapes = zip(*self._tensors, strict=True)
        n = len(names)
        self._builder.tensors = Tensors(
            name=np.array(names, np.int32),
            offset=np.array(offsets, np.int64),
            size=np.array(sizes, np.int64),
            layer=np.array(layers, np.int16),
            expert=np.full(n, -1, np.int16),
            type=np.array(types, np.int16),
            shape=np.array(shapes, np.int64).reshape(n, 4),
        )

    def add_build(self, body: bytes) -> tuple[int, int, int]:
        """Add the nodes of a graph; return (build, first row, number of nodes)."""
        build, n_nodes, n_tensors = struct.unpack_from("<III", body)
        at, first = _BUILD_BYTES, len(self._rows)
        tensors: list[Any] = []
        names: list[str] = []
        while len(tensors) < n_tensors:
            if at + TENSOR.itemsize > len(body):
                raise LiveError(f"build {build} ends within its tensors")
            tensors.append(np.frombuffer(body, TENSOR, 1, at)[0])
            name, at = text_at(body, at + TENSOR.itemsize)
            at = (at + 7) // 8 * 8
            names.append(name)
        accesses: list[tuple[int, int, int, int, int, int]] = []
        lengths: list[int] = []
        pattern = self._builder.add_patterns(
            AccessColumns.blank(), np.zeros(0, np.int64)
        )
        for i, tensor in enumerate(tensors[:n_nodes]):
            sources = [s for s in tensor["sources"].tolist() if s < len(tensors)]
            accesses += [self._access(tensors[s]) for s in sources]
            lengths.append(len(sources))
            layer = min(max(int(tensor["layer"]), -1), (1 << 15) - 1)
            name_id = self._builder.strings.intern(names[i]) if names[i] else -1
            self._rows.append((name_id, layer, pattern + i if sources else -1))
        columns = np.array(accesses, np.uint64).reshape(-1, 6)
        signed = columns.view(np.int64)
        rows = AccessColumns.blank(len(columns))
        rows = replace(
            rows,
            tensor=signed[:, 0].astype(np.int32),
            space=signed[:, 1].astype(np.uint8),
            offset=signed[:, 2].copy(),
            size=signed[:, 3].copy(),
            layer=signed[:, 4].astype(np.int16),
            address=columns[:, 5].copy(),
        )
        self._builder.add_patterns(rows, np.array(lengths, np.int64))
        self._columns = None
        return build, first, min(n_nodes, len(tensors))

    def _access(self, tensor: Any) -> tuple[int, int, int, int, int, int]:
        """Return what reading a tensor is, in the order of the columns above."""
        weight = int(tensor["model"]), int(tensor["weight"])
        is_weight = bool(tensor["flags"] & _IS_WEIGHT)
        row = self._weights.get(weight, -1) if is_weight else -1
        offset = _bounded(int(tensor["offset"])) if is_weight else -1
        layer = min(max(int(tensor["layer"]), -1), (1 << 15) - 1)
        space = Space.FILE if is_weight else Space.BUFFER
        signed = (row, int(space), offset, _bounded(int(tensor["bytes"])), layer)
        first, second, third, fourth, fifth = (n % (1 << 64) for n in signed)
        return first, second, third, fourth, fifth, int(tensor["data"])


def _segments(fresh: Fresh) -> Iterator[tuple[int, int, int]]:
    """Yield (lane, where its records end, how many) of each lane that has some."""
    stops = np.cumsum(fresh.counts).tolist()
    found = zip(fresh.lanes.tolist(), stops, fresh.counts.tolist(), strict=True)
    return ((lane, stop, n) for lane, stop, n in found if n)


def _bounded(number: int) -> int:
    """Return a size or place; -1 where it is not known or cannot be."""
    return number if number < _FAR else -1
