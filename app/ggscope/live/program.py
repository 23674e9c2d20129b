"""The trace of a program that writes a ring, as far as it has run."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ggscope.errors import LiveError
from ggscope.live.builds import Build, Builds
from ggscope.live.expert_routing import Choices
from ggscope.live.recording_folder import RecordingFolder, folder_of
from ggscope.live.recording_store import (
    RecordedBuilds,
    RecordingMirror,
    RecordingWriter,
    other_recording,
)
from ggscope.live.regular_file import owner_name
from ggscope.live.residency import ProgramResidency
from ggscope.live.ring import Ring, RingBatch, first_bytes
from ggscope.live.source import (
    NANO,
    RecordingLocation,
    SourceStatus,
    State,
    now_ns,
    pending,
)
from ggscope.model.builder import TraceBuilder
from ggscope.model.run import (
    BEGIN_ONLY,
    WHOLE_GRAPH,
    RecordCount,
    cores_of,
    fused_of,
)
from ggscope.model.tables import LONGEST_WAIT, NO_WAIT, SpanFlag
from ggscope.model.trace import (
    GRAPH_RECORDS,
    LaneKind,
    OpTable,
    Severity,
    Trace,
    TraceInfo,
)
from ggscope.model.units import Clock
from ggscope.native.declared import RingFacts, RingSpans
from ggscope.native.library import library
from ggscope.readers.common.run_definitions import Definitions
from ggscope.readers.common.run_events import (
    FAR,
    HOST_NAMES,
    RunEvents,
    RunGraph,
)
from ggscope.readers.common.ubatches import MAX_SEQUENCES, ubatch_tokens
from ggscope.readers.tensor.routing.extensions import CHOOSING_OPS
from ggscope.sanitize import one_line
from ggscope_capture.ring_format import (
    FRAMES,
    RING_MAGIC,
    ROW_OUTPUT,
    ROW_PHASE,
    UNKNOWN_U32,
    DefBuffer,
    DefCheck,
    DefMapping,
    DefWeight,
    EventBuffer,
    EventGraph,
    EventHost,
    Frame,
    FrameType,
    HostCall,
    Knowledge,
    Model,
    RingError,
    RingState,
    UbatchBody,
    name_in,
    ubatch_body,
    unpack,
)

_LOOK_NS = NANO // 4
"""How often it is asked whether the program is still there."""
_MAX_OPS = 1 << 10
_MAX_COUNTED = 1 << 10
_COUNTED_FRAMES = frozenset({
    FrameType.MODEL, FrameType.WEIGHT, FrameType.CHECK, FrameType.MAPPING,
    FrameType.BACKEND, FrameType.GRAPH_BEGIN,
})  # fmt: skip
"""What is read even where no spans are kept."""
_NO_END = int(SpanFlag.INFERRED_END)
_GUESSED = int(SpanFlag.INFERRED_START | SpanFlag.INFERRED_END)
_COLUMNS = {
    "start": np.int64, "end": np.int64, "name": np.int32, "op": np.int16,
    "flags": np.uint16, "wait": np.uint32, "layer": np.int16, "token": np.int32,
    "phase": np.int8, "pattern": np.int32,
}  # fmt: skip
"""What records become."""


_NO_GRAPH = RunGraph(0, 0, 0, -1, -1, -1)


class ProgramSource:
    """Listens to a program through its ring; waits for one that is not there yet.

    A ring that is made anew under the same name begins another trace.

    Parameters
    ----------
    keeps_spans : whether there will be snapshots; else records are only counted.
    keeps_records : whether what is taken out of the ring is kept, to be saved.
    look_ns : time between two looks at the program and at the name of the ring.
    """

    def __init__(
        self,
        path: Path,
        *,
        keeps_spans: bool = True,
        keeps_records: bool = True,
        look_ns: int = _LOOK_NS,
    ) -> None:
        self.path = path
        self._ring: Ring | None = None
        self._writer: RecordingWriter | None = None
        self._mirror: RecordingMirror | None = None
        self._missed = 0
        self._keeps_records = keeps_records
        self._why_not = "records are not saved"
        self._keeps_spans = keeps_spans
        self._trace = _ProgramTrace(path, keeps_spans=keeps_spans)
        self._status = SourceStatus(message=f"the ring {path} is not there yet")
        self._look_ns, self._next_look = look_ns, 0
        self._before = self._graphs_before = 0
        self._is_resting = False

    def poll(self) -> bool:
        """Take what is new; see `LiveSource.poll`."""
        now = now_ns()
        may_look = now >= self._next_look
        if may_look:
            self._next_look = now + self._look_ns
        if self._ring is None and not self._open():
            return False
        ring = self._ring
        assert ring is not None
        if not ring.is_whole():
            if may_look and self._is_replaced(ring):
                self._begin_anew()
                return True
            return self._stop(State.GONE, "the ring was cut while it was followed")
        is_running = not may_look or ring.is_running()
        if self._is_resting:
            # What came meanwhile is read first, as long as nobody makes room.
            self._is_resting = may_look = False
            self._next_look = 0
        elif may_look and ring.take_over():
            if self._writer is None:
                self._take_over(ring)
            else:  # it rested, and goes on with what it keeps
                ring.release()
        writer = self._writer
        batch = ring.take(None if writer is None else writer.append)
        if writer is not None:
            writer.note_losses(ring.lost - self._missed, ring.count("events_dropped"))
        has_news = self._trace.add(ring, batch)
        has_news = self._trace.look(ring) or has_news
        # A record cannot end before the ring was made.
        has_lag = len(batch.records) and self._trace.newest >= ring.value("t0_mono")
        lag = now_ns() - self._trace.newest if has_lag else -1
        records = self._before + self._trace.n_records
        graphs = self._graphs_before + self._trace.n_graphs
        self._status = replace(
            self._status,
            records=records,
            by_kind={"ops": records - graphs, "graphs": graphs},
            lost=self._trace.n_lost,
            lag_ns=max(lag, -1),
            fill=batch.fill,
            tokens=self._trace.n_tokens,
            **self._trace.residency.counts(),
            recording=self._recording(ring) if may_look else self._status.recording,
            run=self._trace.facts() if may_look else self._status.run,
            program=ring.program,
            began=ring.value("t0_real") / NANO,
        )
        if not is_running and not len(batch.records):
            has_news = self._stop(*_end(ring.value("state"))) or has_news
            # The other process writes what it took, and removes it then.
            own = None if self._mirror is None else self._mirror.copy(ring)
            if own is not None:
                self._status = replace(self._status, recording=RecordingLocation(own))
        elif self._status.state is not State.RUNNING:
            self._status = replace(self._status, state=State.RUNNING, message="")
            has_news = True
        if may_look and self._is_replaced(ring):
            self._begin_anew()
        return has_news

    def status(self) -> SourceStatus:
        """Return what was read so far."""
        return self._status

    def snapshot(self) -> Trace:
        """Return the trace as it stands."""
        return self._trace.snapshot(self._status)

    def rest(self) -> None:
        """Leave the ring to others; what was kept stays."""
        if self._ring is not None:
            self._ring.rest()
            self._is_resting = True

    def close(self) -> None:
        """Let go of the ring; what is kept stays."""
        self._trace.residency.end()
        if self._ring is not None:
            if self._writer is not None:
                self._writer.finish(self._ring)
            self._ring.close()
            self._ring = None

    def forget(self) -> None:
        """Remove what is kept."""
        if self._writer is not None:
            self._writer.remove()
            self._writer = None
        if self._mirror is not None:
            self._mirror.remove()
            self._mirror = None

    def _recording(self, ring: Ring) -> RecordingLocation:
        """Return where what this trace is made of can be saved from."""
        if not ring.is_owner and self._writer is None:
            folder = folder_of(self.path, ring.identity.hex())
            self._watch(folder, ring)
            self._trace.watch(folder)
            if folder is None:
                return RecordingLocation(
                    why="another process takes the records, and keeps none"
                )
            return RecordingLocation(folder.path)
        if self._writer is None:
            return RecordingLocation(why=self._why_not)
        return RecordingLocation(
            None if self._writer.why else self._writer.folder, -1, self._writer.why
        )

    def _watch(self, folder: RecordingFolder | None, ring: Ring) -> None:
        """Hold on to what another process keeps, for when it has ended."""
        mirror = self._mirror
        if folder is None or (mirror is not None and mirror.folder == folder.path):
            if mirror is not None:
                mirror.update()
            return
        if mirror is not None:
            mirror.remove()
        with contextlib.suppress(OSError):  # it may just be made, or removed
            self._mirror = RecordingMirror(self.path, folder, ring.identity)

    def _open(self) -> bool:
        try:
            # Read once: its writer may write them at this very moment.
            head = first_bytes(self.path)
            if head != RING_MAGIC:
                if not RING_MAGIC.startswith(head.rstrip(b"\0")):
                    raise LiveError(f"{self.path}: not a ring of ggscope-capture.")
                self._wait(f"{self.path} is being made")
                return False
            self._ring = Ring(self.path)
        except FileNotFoundError:
            self._wait(f"the ring {self.path} is not there yet")
            return False
        except OSError as error:
            raise LiveError(f"{self.path}: {error.strerror or error}.") from None
        if self._ring.is_owner:
            self._begin_recording(self._ring)
        else:
            self._trace.watch(folder_of(self.path, self._ring.identity.hex()))
        writer = self._writer
        self._trace.begin(
            self._ring, is_resumed=writer is not None and writer.is_resumed
        )
        return True

    def _begin_recording(self, ring: Ring) -> None:
        if not self._keeps_records:
            return
        self._missed = ring.missed
        try:
            self._writer = RecordingWriter(self.path, ring.identity, ring.dropped)
        except OSError as error:
            reason = error.strerror or str(error)
            self._why_not = f"records cannot be saved: {one_line(reason)}"

    def _take_over(self, ring: Ring) -> None:
        """Keep what comes, and what the one that was killed had not taken yet."""
        if self._mirror is not None:
            self._mirror.remove()
            self._mirror = None
        self._begin_recording(ring)
        writer = self._writer
        if writer is not None and ring.n_taken and not writer.is_resumed:
            # A recording without its beginning would pass for a whole one.
            writer.remove()
            self._writer = writer = None
            self._why_not = "another process took the first records, and keeps none"
        taken, n_over = ring.untaken()
        self._missed -= n_over
        if writer is not None:
            writer.append(taken)
        ring.release()

    def _wait(self, message: str) -> None:
        self._status = replace(self._status, state=State.WAITING, message=message)

    def _stop(self, state: State, message: str) -> bool:
        """Note that nothing more will come; return whether that is news."""
        before = self._status.state
        self._trace.finish()
        self._status = replace(self._status, state=state, message=message)
        return before is not state

    def _is_replaced(self, ring: Ring) -> bool:
        """Return whether there is another ring under the name now."""
        try:
            return (
                os.stat(self.path).st_ino != ring.inode
                and first_bytes(self.path) == RING_MAGIC
            )
        except OSError:
            return False

    def _begin_anew(self) -> None:
        self.close()
        self.forget()
        self._before += self._trace.n_records
        self._graphs_before += self._trace.n_graphs
        self._trace = _ProgramTrace(self.path, keeps_spans=self._keeps_spans)
        self._status = replace(self._status, restarts=self._status.restarts + 1)
        self._next_look = 0


def _end(state: int) -> tuple[State, str]:
    """Return how a program ended, by the state that it wrote last, and a message."""
    if state == RingState.ENDED:
        return State.ENDED, "the program has ended"
    if state == RingState.REPLACED:
        return State.ENDED, "the program became another one (exec)"
    return (
        State.GONE,
        "the program was killed or crashed",
    )


class _ProgramTrace:
    """The trace of one ring.

    Attributes
    ----------
    newest : CLOCK_MONOTONIC ns at which the newest record ended.
    n_graphs : of the records, those of whole graphs.
    n_tokens : in all ubatches that were stated; -1 before the first one.
    residency : what of its models is in the page cache.
    recorded_builds : builds that the ring has no more; None = not recorded.
    """

    def __init__(self, path: Path, *, keeps_spans: bool) -> None:
        self._path = path
        self._keeps_spans = keeps_spans
        self._builder = TraceBuilder(grows=True)
        self._origin = 0
        self.n_records = self.n_lost = self.newest = 0
        self._n_no_lane = 0
        self._n_ops = 0  # records of ops
        self.n_graphs = 0
        self.n_tokens = -1
        self._program = self._owner = ""
        self._ops: dict[int, str] = {}
        self.residency = ProgramResidency(self._builder)
        self._nodes = Definitions(self._builder, self.residency)
        self._choices = Choices(self._builder)
        # The last one stands for what is no op: -1.
        self._is_choosing = np.zeros(_MAX_OPS + 1, np.bool_)
        self._decoded = Builds()
        self._builds: dict[int, tuple[int, int]] = {}
        self.recorded_builds: RecordedBuilds | None = None
        self._counted: dict[int, int] = {}  # tokens of the newest ubatches
        self._run_events = RunEvents(self._builder)
        # When the last record of each lane of the ring ended, and losses behind it.
        self._ends: dict[int, int] = {}
        self._lost_since: dict[int, tuple[int, int]] = {}
        self._damage: set[str] = set()

    def begin(self, ring: Ring, *, is_resumed: bool) -> None:
        """Take over the clock of `ring`.

        is_resumed : whether the recording holds what came before, too.
        """
        # A clock that cannot be is damaged: times stay within those of a trace.
        self._origin = min(ring.value("t0_mono"), FAR)
        real = ring.value("t0_real")
        epoch = real - self._origin if real and self._origin else None
        self._builder.clock = Clock("ns", self._origin, epoch=epoch)
        self._program = ring.program
        if ring.owner != os.geteuid():
            self._owner = owner_name(ring.owner)
            self._builder.warn(
                Severity.NOTICE,
                "live_foreign",
                f"the ring belongs to another user, {one_line(self._owner)}: what is "
                "shown is what that user's program says.",
            )
        if not ring.n_before:
            return
        remedy = "Follow a program from its start to see all of it."
        if is_resumed:
            remedy = (
                "Another process took them and was killed. They are kept: a recording "
                "that is saved here has them."
            )
        elif other_recording(self._path, ring.identity) is not None:
            remedy = (
                "The other process keeps them: `ggscope-capture save RING -o FILE` "
                "writes what it has."
            )
        self._builder.warn(
            Severity.NOTICE,
            "live_before",
            "the program had written records before this viewer began to listen that "
            "its ring had no more: they are not in this trace, which begins later than "
            "the program.",
            count=ring.n_before,
            remedy=remedy,
        )

    def add(self, ring: Ring, batch: RingBatch) -> bool:
        """Add what is new; return whether anything was."""
        for frame in batch.frames:
            if not self._keeps_spans and frame.type not in _COUNTED_FRAMES:
                continue
            try:
                self._frame(frame)
            except (RingError, ValueError) as error:
                self._builder.warn(
                    Severity.NOTICE,
                    "live_damaged",
                    f"a definition or event of the program is damaged: {error}.",
                )
        has_choices = False
        if self._keeps_spans:
            self._gaps(ring, batch)
            self._run_events.put()
            if len(batch.records):
                self._records(ring, batch)
            has_choices = self._choices.put()
        self._count(batch)
        for name in sorted(ring.damage - self._damage):
            self._damage.add(name)
            self._builder.warn(
                Severity.DATA_LOSS,
                "live_counters",
                "counters of the ring are beyond anything that can be: how many "
                "records or events were lost is not known.",
                place=name,
                remedy="Record again: the program, or something else, wrote over them.",
            )
        n_lost = ring.lost - self.n_lost
        n_unseen = min(max(ring.count("no_lane") - self._n_no_lane, 0), n_lost)
        if n_unseen:
            self._builder.warn(
                Severity.DATA_LOSS,
                "live_no_lane",
                "ops of some threads are not recorded: more threads compute at once "
                "than the ring of the tracer has lanes for.",
                count=n_unseen,
                remedy="Let fewer contexts compute at the same time, or each with "
                "fewer threads.",
            )
            self._n_no_lane += n_unseen
        if n_lost > n_unseen:
            self._builder.warn(
                Severity.DATA_LOSS,
                "live_lost",
                "records of the running program were lost: it wrote faster than they "
                "were read, and its ring was full. Gaps of threads because of that are "
                "hatched.",
                count=n_lost - n_unseen,
                remedy="Make the ring larger, or trace fewer ops.",
            )
        self.n_lost += max(n_lost, 0)
        return bool(len(batch.records) or batch.frames or batch.gaps or has_choices)

    def watch(self, folder: RecordingFolder | None) -> None:
        """Look for builds that the ring has no more in what another process keeps."""
        before = self.recorded_builds
        if folder is None or (before is not None and before.folder == folder.path):
            return
        self.recorded_builds = RecordedBuilds(folder)

    def look(self, ring: Ring) -> bool:
        """Take what of the models is in memory; return whether that is news."""
        return self.residency.poll(ring.value("pid"), self._origin, self.n_records)

    def facts(self) -> dict[str, str]:
        """Return what is stated of the program, whose it is if not this user's."""
        owner = {"owner": self._owner} if self._owner else {}
        return {**self._run_events.facts(), **owner}

    def snapshot(self, status: SourceStatus) -> Trace:
        """Return the trace as it stands."""
        waits = pending(status)
        until = max(self.newest - self._origin, self.residency.newest - self._origin, 0)
        self.residency.put()
        self._builder.set_open(self._run_events.open_spans(until))
        self._nodes.put()
        self._builder.record_count = RecordCount(self._n_ops, self.n_lost)
        info = TraceInfo(
            (self._path,), "live-ring", "live ring", "1", 0, self.n_records,
            producer={
                **({"program": self._program} if self._program else {}),
                **self._run_events.facts(),
            },
            n_passes=self._run_events.n_ubatches,
            summary={GRAPH_RECORDS: self.n_graphs},
        )  # fmt: skip
        return self._builder.snapshot(info, waits, read_until=until if waits else None)

    # -- records -----------------------------------------------------------

    def _records(self, ring: Ring, batch: RingBatch) -> None:
        records, n = batch.records, len(batch.records)
        lanes = [self._thread(ring, i) for i in batch.lanes.tolist()]
        graph = records["graph"]
        changes = np.flatnonzero(graph[1:] != graph[:-1]) + 1
        numbers = sorted({int(graph[0]), *graph[changes].tolist()})
        graphs = [self._run_events.graphs.get(i, _NO_GRAPH) for i in numbers]
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
                far=FAR,
                most_ops=_MAX_OPS,
                graph_name=self._builder.strings.intern("graph"),
                no_end=_NO_END,
                begin_only=BEGIN_ONLY,
                whole_graph=WHOLE_GRAPH,
                no_wait=NO_WAIT,
                longest_wait=LONGEST_WAIT,
            ),
            RingSpans(**columns),
        )
        if not (columns["wait"] != NO_WAIT).any():
            del columns["wait"]  # the tracer's mode may be one without
        is_whole = records["extra"] & WHOLE_GRAPH != 0
        self._n_ops += int(np.count_nonzero(~is_whole))
        if is_whole.any():  # they are named after their backend
            names = self._builder.strings.intern_many([g.name for g in graphs])
            places = np.searchsorted(np.array(numbers, np.uint32), graph[is_whole])
            columns["name"][is_whole] = names[places]
        lane = np.repeat(np.array(lanes, np.int16), batch.counts)
        core, numa = cores_of(records["extra"])
        columns["flags"] |= fused_of(records["extra"])
        first_id = self._builder.add_spans(lane=lane, core=core, numa=numa, **columns)
        if self._is_choosing.any():
            rows = np.flatnonzero(self._is_choosing[columns["op"]])
            self._choices.add_ops(
                columns["start"][rows], rows + first_id, columns["layer"][rows]
            )
        for number, stop, _ in _segments(batch):
            last = records[stop - 1]
            end = min(int(last["t0"]), FAR) + int(last["op_ns"]) + int(last["wait_ns"])
            self._ends[number] = end - self._origin

    def _count(self, batch: RingBatch) -> None:
        """Count the new records, and note when the newest one ended."""
        self.n_records += len(batch.records)
        is_whole = batch.records["extra"] & WHOLE_GRAPH != 0
        self.n_graphs += int(np.count_nonzero(is_whole))
        for _, stop, _ in _segments(batch):
            # Those of a lane follow each other in time.
            last = batch.records[stop - 1]
            end = min(int(last["t0"]), FAR) + int(last["op_ns"]) + int(last["wait_ns"])
            self.newest = max(self.newest, end)

    def finish(self) -> None:
        """Close what is open: the program is no more."""
        self.residency.end()
        until = max(self.newest - self._origin, 0)
        self._run_events.finish(until)
        self._choices.put(is_over=True)

    def _thread(self, ring: Ring, number: int) -> int:
        slot, ith = ring.lane_names()[number]
        return self._run_events.thread(number, slot, ith)

    def _gaps(self, ring: Ring, batch: RingBatch) -> None:
        """Hatch the times in which records were lost, as soon as their end is known."""
        segments = {number: (stop - n, stop) for number, stop, n in _segments(batch)}
        records = batch.records
        known: list[tuple[int, int, int, int]] = []
        for number, (first, _) in segments.items():
            if number in self._lost_since:
                begin, n = self._lost_since.pop(number)
                known.append((number, begin, int(records["t0"][first]), n))
        for number, n, at in batch.gaps:
            first, stop = segments.get(number, (0, 0))
            begin = self._ends.get(number, 0)
            if first < at <= stop:
                last = records[at - 1]
                begin = min(int(last["t0"]), FAR) + int(last["op_ns"]) - self._origin
            if first <= at < stop:
                known.append((number, begin, int(records["t0"][at]), n))
            else:
                since, before = self._lost_since.get(number, (begin, 0))
                self._lost_since[number] = (since, before + n)
        for number, begin, until, n in known:
            end = min(until, FAR) - self._origin
            thread = self._thread(ring, number)
            lane = self._run_events.lane(
                "lost", number, "lost", LaneKind.STALL, over=str(thread)
            )
            self._run_events.add(
                min(begin, end), end, lane, f"{n:,} records lost", _GUESSED
            )

    # -- definitions and events --------------------------------------------

    def _frame(self, frame: Frame) -> None:
        """Add a definition or event; raises RingError where it is damaged."""
        add = _ADDERS.get(frame.type)
        frame_format = FRAMES.get(frame.type)
        if add is not None:
            add(self, frame)
        elif frame_format is not None and frame_format.listed is not None:
            event: Any = unpack(frame_format.body, frame.body)
            times = self._ticks(event.begin, event.end)
            self._run_events.listed(frame_format.listed, name_in(event), *times)

    def _op(self, frame: Frame) -> None:
        number = frame.number()
        if number >= _MAX_OPS:
            return
        name = self._ops[number] = frame.text()
        names = [self._ops.get(i, "") for i in range(max(self._ops) + 1)]
        self._builder.ops = OpTable("ring", tuple(names))
        if name in CHOOSING_OPS:
            self._is_choosing[number] = True

    def _model(self, frame: Frame) -> None:
        model = unpack(Model, frame.body)
        self._nodes.add_model(
            model.model, frame.text(), model.size, model.data_offset, model.n_tensors
        )

    def _weight(self, frame: Frame) -> None:
        weight = unpack(DefWeight, frame.body)
        numbers = [*weight.ne, weight.offset, weight.size]
        self._nodes.add_weight(
            weight.model, weight.index, frame.text(), weight.type, numbers
        )

    def _buffer(self, frame: Frame) -> None:
        number, usage, pointer, base, size = unpack(DefBuffer, frame.body)
        self._nodes.add_buffer(number, frame.text(), usage, base or pointer, size)

    def _buffer_event(self, frame: Frame) -> None:
        number, kind, usage = unpack(EventBuffer, frame.body)
        (tick,) = self._ticks(frame.time)
        self._nodes.add_buffer_event(number, kind, usage, tick)

    def _mapping(self, frame: Frame) -> None:
        mapping = unpack(DefMapping, frame.body)
        self.residency.add_place(mapping.address, mapping.size)

    def _whole_build(self, frame: Frame) -> None:
        self._build(self._decoded.whole(frame.body))

    def _like_build(self, frame: Frame) -> None:
        self._build(self._decoded.like(frame.body))

    def _self_test(self, frame: Frame) -> None:
        check = unpack(DefCheck, frame.body)
        self._run_events.add_self_test(check.graph, check.found, check.expected)

    def _backend(self, frame: Frame) -> None:
        self._run_events.add_backend(frame.number(), *frame.texts())

    def _note(self, frame: Frame) -> None:
        self._builder.warn(Severity.NOTICE, "live_note", frame.text())

    def _graph_begin(self, frame: Frame) -> None:
        graph = unpack(EventGraph, frame.body)
        if not self._keeps_spans:
            self._run_events.count_graph(graph.backend_number)
            return
        is_known = graph.build in self._builds or graph.build == UNKNOWN_U32
        if not is_known and self.recorded_builds:
            for definition in self.recorded_builds.find(graph.build):
                self._frame(definition)
        self._run_events.begin_graph(
            graph.graph,
            self._builds.get(graph.build, (0, 0)),
            self._ticks(frame.time)[0],
            token=-1 if graph.ubatch == UNKNOWN_U32 else graph.ubatch,
            phase=graph.phase,
            slot=graph.slot,
            split=graph.split,
            backend=graph.backend_number,
        )

    def _graph_end(self, frame: Frame) -> None:
        number = frame.number()
        self._choices.end(number)
        self._run_events.end_graph(number, self._ticks(frame.time)[0])

    def _ubatch(self, frame: Frame) -> None:
        ubatch = ubatch_body(frame.body)
        number = ubatch.head.ubatch
        tokens = ubatch_tokens(
            ubatch.tokens,
            ubatch.positions,
            ubatch.head.phase,
            **_rows_of_ubatch(ubatch),
        )
        # It may be repeated, when more of it is known.
        before = self._counted.pop(number, 0)
        self._counted[number] = len(tokens)
        if len(self._counted) > _MAX_COUNTED:
            self._counted.pop(next(iter(self._counted)))
        self.n_tokens = max(self.n_tokens, 0) + len(tokens) - before
        self._run_events.add_ubatch(number, tokens)

    def _experts(self, frame: Frame) -> None:
        graph = self._run_events.graphs.get(frame.number())
        if graph is not None:
            self._choices.add(frame, self._ticks(frame.time)[0], graph.token)

    def _host_call(self, frame: Frame) -> None:
        call = unpack(EventHost, frame.body)
        is_known = call.kind < len(HOST_NAMES)
        name = HOST_NAMES[call.kind] if is_known else f"call {call.kind}"
        times = self._ticks(call.begin, call.end)
        self._run_events.call(name, *times)
        if call.kind == HostCall.SYNC:
            self._run_events.synchronize(call.ubatch, *times)

    def _ticks(self, *times: int) -> list[int]:
        return [min(time, FAR) - self._origin for time in times]

    def _build(self, build: Build) -> None:
        # One may be defined anew, for those who come late.
        if build.number not in self._builds:
            self._builds[build.number] = self._nodes.add_build(
                build.n_nodes, build.tensors, build.names
            )


_ADDERS: Mapping[int, Callable[[_ProgramTrace, Frame], None]] = {
    FrameType.OP: _ProgramTrace._op,
    FrameType.MODEL: _ProgramTrace._model,
    FrameType.WEIGHT: _ProgramTrace._weight,
    FrameType.BUFFER: _ProgramTrace._buffer,
    FrameType.BUFFER_EVENT: _ProgramTrace._buffer_event,
    FrameType.MAPPING: _ProgramTrace._mapping,
    FrameType.BUILD: _ProgramTrace._whole_build,
    FrameType.BUILD_LIKE: _ProgramTrace._like_build,
    FrameType.CHECK: _ProgramTrace._self_test,
    FrameType.BACKEND: _ProgramTrace._backend,
    FrameType.NOTE: _ProgramTrace._note,
    FrameType.GRAPH_BEGIN: _ProgramTrace._graph_begin,
    FrameType.GRAPH_END: _ProgramTrace._graph_end,
    FrameType.UBATCH: _ProgramTrace._ubatch,
    FrameType.EXPERTS: _ProgramTrace._experts,
    FrameType.ROUTER: _ProgramTrace._experts,
    FrameType.HOST: _ProgramTrace._host_call,
}
"""What adds a frame, by its type; those with an `EventList` become spans without it.
Clocks, lanes, types of tensors and the name of the program are not needed here."""


def _rows_of_ubatch(ubatch: UbatchBody) -> dict[str, Any]:
    """Return what a ubatch says about each of its tokens.

    Raises
    ------
    RingError
        If that cannot be.
    """
    rows, context = ubatch.rows, ubatch.head.context
    if rows is None:
        return {"context": context}  # by an older tracer
    bits = np.frombuffer(ubatch.bits, "u1")
    sequences = np.array(ubatch.sequences, np.int32)
    if ((sequences < 0) | (sequences >= MAX_SEQUENCES)).any():
        raise RingError("the sequences of a ubatch are not those of its tokens")
    knows_outputs = rows.knowledge & Knowledge.OUTPUTS
    return {
        "phases": bits & ROW_PHASE,
        "outputs": (bits & ROW_OUTPUT) != 0 if knows_outputs else None,
        "counts": np.array(ubatch.counts, np.int64),
        "sequences": sequences,
        "context": rows.owner or context,
        "decode": -1 if rows.decode == UNKNOWN_U32 else rows.decode,
    }


def _segments(batch: RingBatch) -> Iterator[tuple[int, int, int]]:
    """Yield (lane, where its records end, how many) of each lane that has some."""
    stops = np.cumsum(batch.counts).tolist()
    segments = zip(batch.lanes.tolist(), stops, batch.counts.tolist(), strict=True)
    return ((lane, stop, n) for lane, stop, n in segments if n)
