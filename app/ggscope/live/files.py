"""Trace files that grow: ``.ggmlviz`` streams and headerless records in shared memory.

Both are read from where the last poll ended. A file that became shorter, or another
one under the same name, begins another trace.
"""

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ggscope.errors import LiveError
from ggscope.live.regular_file import open_regular
from ggscope.live.source import (
    NANO,
    Lag,
    RecordingLocation,
    SourceStatus,
    State,
    now_ns,
    pending,
)
from ggscope.live.writers import WriterWatch, Writing
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml import ops as ggml
from ggscope.model.tables import Array, SpanFlag, Spans
from ggscope.model.trace import LaneKind, OpTable, Severity, Trace, TraceInfo
from ggscope.model.units import Clock
from ggscope.readers.ggmlviz.layouts import (
    DETECT_BYTES,
    HEADER_BYTES,
    MAGIC,
    EventLayout,
    EventType,
    RawEvent,
    detect,
    walk,
)
from ggscope.readers.ggmlviz.op_table import infer_table, usual_table
from ggscope.readers.tensor.layouts import (
    FIRST_EXTENSION_OP,
    LAYOUT_64A,
    LAYOUT_64P,
    NO_LAYER,
    RecordLayout,
    declared_ops,
    detect_head,
)
from ggscope.readers.tensor.names import PatternDecoder
from ggscope.readers.tensor.scan import FIRST_NAME

_MAX_BYTES = 1 << 24
"""So much is read in one poll: the rest follows in the next ones."""
_HEAD_BYTES = 1 << 16
_QUIET_NS = NANO // 2
"""What does not change for so long stands as it is: a short file, a hole."""
_SILENCES_S = (3600, 600, 300, 120, 60, 30, 10, 5)
"""Seconds without anything new that are stated, the longest first."""
_MAX_TOKENS = 1 << 20
"""Generated tokens that are distinguished."""
_FEW_BYTES = 512
_MAX_PATTERNS = 1 << 14
_FAR = 1 << 61
_ESTIMATED, _UNFINISHED = int(SpanFlag.ESTIMATED), int(SpanFlag.UNFINISHED)
_DERIVED = int(SpanFlag.INFERRED_END)
_GENERATE = 1
"""Of the records' column `phase`; 0 is the prompt."""
_MAX_SAMPLES = 1 << 14
"""Different numbers and labels of ops that the op table is inferred from."""


class GrowingFile(ABC):
    """A file that another program writes.

    Writers of these formats do not say when they end: the trace waits for more until
    the source is closed.
    """

    format = ""
    reader_id = ""
    unit = "records"
    """What it consists of."""

    def __init__(self, path: Path, *, keeps_spans: bool = True) -> None:
        self.path = path
        self._keeps_spans = keeps_spans
        self._file: BinaryIO | None = None
        self._inode = self._next_look = self._changed = 0
        self._is_changed = False
        self._status = SourceStatus(
            message=f"the file {path} is not there yet", file=str(path)
        )
        self._before = 0
        self._is_removed = self._has_caught_up = False
        self.writers = WriterWatch(path)
        self._forget()

    def _forget(self) -> None:
        """Begin another trace."""
        self._builder = TraceBuilder(grows=True)
        self._at = self._n_records = self._newest = 0
        self._origin: int | None = None
        self._lag = Lag()
        self._fill = -1.0
        self._n_tokens = -1

    def poll(self) -> bool:
        """Take what is new; see `LiveSource.poll`."""
        now, before = now_ns(), self._n_records
        self._is_changed = False
        try:
            is_there = self._look()
            if is_there and self._file is not None:
                before = self._n_records
                self._read(self._file, now)
        except OSError as error:
            self.close()
            raise LiveError(f"{self.path}: {error.strerror or error}.") from None
        except LiveError:
            self.close()
            raise
        if not is_there:
            return False
        has_news = self._n_records > before
        if has_news:
            self._changed = now
        self.writers.poll(now, is_requested=not self._is_removed)
        records = self._before + self._n_records
        lag, is_least = self._lag_now() if has_news else (-1, False)
        self._status = replace(
            self._status,
            state=self._state(now),
            records=records,
            by_kind=self._by_kind(),
            backlog=self._status.backlog if self._has_caught_up else records,
            lag_ns=lag,
            is_least_lag=is_least,
            lost=-1,
            fill=self._fill,
            tokens=self._n_tokens,
            message=self._message(now),
            recording=self._recording(),
        )
        self._has_caught_up = self._has_caught_up or self._is_at_end()
        return has_news or self._is_changed

    def _lag_now(self) -> tuple[int, bool]:
        """Return the lag of the newest record; see `Lag.of`."""
        return self._lag.of(self._newest)

    def _by_kind(self) -> dict[str, int]:
        """Return how many records are of which kind; see `SourceStatus`."""
        return {}

    def _state(self, now: int) -> State:
        if not self._n_records:
            return State.WAITING
        is_quiet = now - self._changed > _QUIET_NS
        is_left = is_quiet and self.writers.state is Writing.GONE
        return State.NO_WRITER if is_left else State.RUNNING

    def status(self) -> SourceStatus:
        """Return what was read so far."""
        return self._status

    def snapshot(self) -> Trace:
        """Return the trace as it stands."""
        builder, until = self._builder, max(self._newest - (self._origin or 0), 0)
        builder.clock = Clock.of_stamps(self._origin or 0)
        builder.set_open(self._open_spans(until))
        info = TraceInfo(
            (self.path,), self.reader_id, self.format, "1", self._at, self._n_records
        )
        return builder.snapshot(
            info, pending(self._status, self._missing()), read_until=until
        )

    def rest(self) -> None:  # noqa: B027
        """Do nothing: a file is only looked at."""

    def close(self) -> None:
        """Let go of the file."""
        self._close_file()
        self.writers.close()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def forget(self) -> None:  # noqa: B027
        """Do nothing: the file is its writer's."""

    def _recording(self) -> RecordingLocation:
        """Return how much of the file can be copied, which is all that was read."""
        if self._is_removed:
            return RecordingLocation(why=f"the file {self.path} was removed")
        return (
            RecordingLocation(self.path, self._at) if self._at else RecordingLocation()
        )

    def _missing(self) -> tuple[str, ...]:
        """Return what of the spans is not known here, as in ``Trace.pending``."""
        return ()

    def _message(self, now: int) -> str:
        if self._is_removed:
            return f"the file {self.path} was removed"
        if not self._n_records:
            return f"the file {self.path} has no {self.unit} yet"
        writers, seconds = self.writers, (now - self._changed) // NANO
        if self._state(now) is State.NO_WRITER:
            return f"its writer has ended: {writers.writer} has ended"
        silence = next((s for s in _SILENCES_S if seconds >= s), 0)
        if not silence:
            return ""
        who = {
            Writing.UNKNOWN: "its writer is not known",
            Writing.OPEN: f"{writers.writer} has it open",
            Writing.CLOSED: f"{writers.writer} runs, and has closed it",
            Writing.GONE: f"{writers.writer} has ended",
        }
        return f"nothing was written for {silence} s; {who[writers.state]}"

    def _look(self) -> bool:
        """Open the file, anew where it is another one; return whether it is there."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            self._is_removed = self._file is not None
            if not self._is_removed:
                message = f"the file {self.path} is not there yet"
                self._status = replace(self._status, message=message)
            return self._is_removed
        self._is_removed = False
        if self._file is not None and (
            status.st_ino != self._inode or status.st_size < self._at
        ):
            self._begin_anew()
        if self._file is None:
            descriptor = open_regular(self.path, follows_links=True)
            self._file = os.fdopen(descriptor, "rb", buffering=0)
            self._inode = os.fstat(self._file.fileno()).st_ino
            self._changed = now_ns()
        return True

    def _begin_anew(self) -> None:
        self._close_file()
        self._before += self._n_records
        self._status = replace(self._status, restarts=self._status.restarts + 1)
        self.writers.forget()
        self._forget()

    def _take(self, file: BinaryIO, at: int, n: int) -> bytes:
        file.seek(at)
        return file.read(n)

    def _tick(self, stamp: int) -> int:
        """Return the tick of a stamp; the first one of all is 0."""
        stamp = min(stamp, _FAR)
        if self._origin is None:
            self._origin = stamp
        self._newest = max(self._newest, stamp)
        return stamp - self._origin

    @abstractmethod
    def _read(self, file: BinaryIO, now: int) -> None:
        """Take in what was written since the last time."""

    @abstractmethod
    def _is_at_end(self) -> bool:
        """Return whether all that was there has been read."""

    @abstractmethod
    def _open_spans(self, until: int) -> Spans:
        """Return the spans that last, as if they ended now."""


@dataclass(slots=True)
class _Op:
    """An op of an open graph; `end` is None while it lasts."""

    pointer: int
    code: int
    name: int
    begin: int
    end: int | None = None


@dataclass(slots=True)
class _OpenGraph:
    """A graph that is open on a thread, and the ops in it."""

    pointer: int
    begin: int
    n_nodes: int = 0
    ops: list[_Op] = field(default_factory=list)
    n_before_end: int = -1
    """How many ops had begun when the first one ended; -1: none has."""


class GgmlvizSource(GrowingFile):
    """A ``.ggmlviz`` stream: spans are known when their graph ends.

    The op table is inferred once, from all ops that have come when the first spans do.
    """

    format = "growing .ggmlviz"
    reader_id = "ggmlviz"

    def _forget(self) -> None:
        super()._forget()
        self._layout: EventLayout | None = None
        self._is_behind = False
        self._lanes: dict[int, int] = {}
        self._open: dict[int, list[_OpenGraph]] = {}
        self._rows: list[tuple[int, int, int, int, int, int]] = []
        self._samples: Counter[tuple[int, str]] | None = Counter()
        """Ops by number and label; None = the table is inferred."""
        self._builder.ops = usual_table()

    def _read(self, file: BinaryIO, now: int) -> None:
        if self._layout is None and not self._begin(file, now):
            return
        layout = self._layout
        assert layout is not None
        data = self._take(file, self._at, _MAX_BYTES)
        self._is_behind = len(data) == _MAX_BYTES
        end = 0
        for event in walk(data, 0, layout, len(data)):
            end = event.offset + event.size
            self._n_records += 1
            if self._keeps_spans:
                self._event(event)
            else:
                self._tick(event.timestamp_ns)
        self._at += end
        if self._rows:
            if self._samples:
                self._infer_table(self._samples)
            start, stop, lane, name, op, flags = np.array(self._rows, np.int64).T
            self._rows.clear()
            self._builder.add_spans(
                start=start,
                end=stop,
                lane=lane.astype(np.int16),
                name=name.astype(np.int32),
                op=op.astype(np.int16),
                flags=flags.astype(np.uint16),
            )

    def _count(self, samples: Counter[tuple[int, str]], code: int, label: str) -> None:
        if len(samples) < _MAX_SAMPLES or (code, label) in samples:
            samples[code, label] += 1

    def _infer_table(self, samples: Counter[tuple[int, str]]) -> None:
        op_samples = [
            ggml.OpSample(code, label, count=n) for (code, label), n in samples.items()
        ]
        self._builder.ops, self._samples = infer_table(op_samples), None

    def _is_at_end(self) -> bool:
        return self._layout is not None and not self._is_behind

    def _begin(self, file: BinaryIO, now: int) -> bool:
        """Tell the layout once there are enough events; False: not yet."""
        head = self._take(file, 0, DETECT_BYTES)
        if not MAGIC.startswith(head[: len(MAGIC)]):
            raise LiveError(f"{self.path}: this is no .ggmlviz file.")
        is_quiet = now - self._changed > _QUIET_NS
        if len(head) <= HEADER_BYTES or (len(head) < _FEW_BYTES and not is_quiet):
            return False
        self._layout, self._at = detect(head, len(head)), HEADER_BYTES
        return True

    def _event(self, event: RawEvent) -> None:
        time, thread = self._tick(event.timestamp_ns), event.thread_id
        graphs = self._open.setdefault(thread, [])
        values = event.values
        match event.type:
            case EventType.GRAPH_BEGIN:
                pointer, n = values.get("graph_ptr", 0), values.get("n_nodes", 0)
                graphs.append(_OpenGraph(pointer, time, n))
            case EventType.GRAPH_END:
                pointer = values.get("graph_ptr", 0)
                if any(graph.pointer == pointer for graph in graphs):
                    while graphs:
                        graph = graphs.pop()
                        self._end_graph(thread, graph, time, graph.pointer == pointer)
                        if graph.pointer == pointer:
                            break
            case EventType.OP_BEGIN:
                label = (event.label or b"").decode("utf-8", "replace")
                name = self._builder.strings.intern(label) if label else -1
                code = values.get("op_type", 0)
                code = code if code < 1 << 15 else -1
                if code >= 0 and self._samples is not None:
                    self._count(self._samples, code, label)
                op = _Op(values.get("tensor_ptr", 0), code, name, time)
                if not graphs:  # ops outside of all graphs have one that never ends
                    graphs.append(_OpenGraph(-1, time))
                graphs[-1].ops.append(op)
            case EventType.OP_END if graphs:
                self._end_op(thread, graphs[-1], values.get("tensor_ptr", 0), time)

    def _end_op(self, thread: int, graph: _OpenGraph, pointer: int, time: int) -> None:
        for op in reversed(graph.ops):
            if op.pointer == pointer and op.end is None:
                if graph.n_before_end < 0:
                    graph.n_before_end = len(graph.ops)
                op.end = max(time, op.begin)
                if graph.pointer == -1:
                    graph.ops.remove(op)
                    self._add(thread, op.begin, op.end, op.name, op.code)
                return

    def _end_graph(
        self, thread: int, graph: _OpenGraph, end: int, has_ended: bool
    ) -> None:
        end = max(end, graph.begin)
        ops, n = graph.ops, len(graph.ops)
        n_nodes = graph.n_nodes
        name = self._builder.strings.intern(
            f"graph ({n_nodes} node{'s' * (n_nodes != 1)})"
        )
        flags = 0 if has_ended else _UNFINISHED
        self._add(thread, graph.begin, end, name, -1, flags)
        if n > 1 and graph.n_before_end in (-1, n):
            # All begins, the run, all ends: the ops share the measured time.
            edges = [graph.begin + (end - graph.begin) * k // n for k in range(n + 1)]
            for op, first, stop in zip(ops, edges, edges[1:], strict=False):
                self._add(thread, first, stop, op.name, op.code, _ESTIMATED)
            return
        for op in ops:
            if op.end is None:
                stop = max(end, op.begin)
                self._add(thread, op.begin, stop, op.name, op.code, _UNFINISHED)
            else:
                self._add(thread, op.begin, op.end, op.name, op.code)

    def _add(
        self, thread: int, start: int, end: int, name: int, op: int, flags: int = 0
    ) -> None:
        self._rows.append((start, end, self._lane(thread), name, op, flags))

    def _lane(self, thread: int) -> int:
        if thread not in self._lanes:
            number = len(self._lanes)
            self._lanes[thread] = self._builder.add_lane(
                f"thread {number}", LaneKind.THREAD, raw=str(thread)
            )
        return self._lanes[thread]

    def _open_spans(self, until: int) -> Spans:
        begins = [
            (graph.begin, self._lane(thread))
            for thread, graphs in self._open.items()
            for graph in graphs
            if graph.pointer != -1
        ]
        return _unfinished(begins, self._builder.strings.intern("graph"), until)


class RecordsSource(GrowingFile):
    """Headerless records in a file that may be allocated beforehand, or a ring.

    A record is whole when it is not zero. It is an instant: its span lasts until the
    next record of its thread in the same pass, unless the writer left the duration in
    spare bytes. What follows the last one of a pass is the pause between passes.
    """

    format = "growing tensor trace"
    reader_id = "tensor-access"

    def _forget(self) -> None:
        super()._forget()
        self._layout: RecordLayout | None = None
        self._tokens: set[int] = set()
        self._lanes: dict[int, int] = {}
        self._names: dict[bytes, int] = {}
        self._last: dict[int, bytes] = {}
        self._known: _Patterns | None = None
        self._first_record = b""
        self._has_wrapped = False
        self._hole_since = 0
        self._last_at = -1

    def _read(self, file: BinaryIO, now: int) -> None:
        if self._layout is None and not self._begin(file, now):
            return
        layout = self._layout
        assert layout is not None
        first = self._take(file, 0, layout.size)
        if first != self._first_record and not self._follow_wrap(file, first, layout):
            return
        self._take_last_again(file, layout)
        while True:
            data = self._take(file, self._at, _MAX_BYTES // layout.size * layout.size)
            n = len(data) // layout.size
            records = np.frombuffer(data, layout.dtype, n)
            known = self._whole(records, layout)
            self._at += known * layout.size
            if known:
                self._hole_since = 0
                self._last_at = self._at - layout.size
                self._add(records[:known], layout)
                self._count_tokens(records[:known])
            self._note_fill(file, is_made=known < n)
            if not n or (
                known < n and not self._pass_hole(records[known:], layout, now)
            ):
                return

    def _is_at_end(self) -> bool:
        return self._layout is not None

    def _note_fill(self, file: BinaryIO, *, is_made: bool) -> None:
        """Note how much of a file is used that was made before it is written.

        Such a file has zeros behind its records, or had some.
        """
        if is_made or self._fill >= 0:
            size = os.fstat(file.fileno()).st_size
            self._fill = 1.0 if self._has_wrapped else self._at / max(size, 1)

    def _count_tokens(self, records: Array) -> None:
        """Count generated tokens; how many a prompt has is not in its records."""
        tokens = np.unique(records["token_id"][records["phase"] == _GENERATE])
        self._tokens.update(tokens.tolist())
        is_known = 0 < len(self._tokens) < _MAX_TOKENS
        self._n_tokens = len(self._tokens) if is_known else -1

    def _recording(self) -> RecordingLocation:
        if self._has_wrapped:
            return RecordingLocation(
                why=f"the file {self.path} has wrapped: its first records are "
                "overwritten"
            )
        return super()._recording()

    def _take_last_again(self, file: BinaryIO, layout: RecordLayout) -> None:
        """Read the newest record once more: it may have been half written."""
        raw = (
            self._take(file, self._last_at, layout.size) if self._last_at >= 0 else b""
        )
        if len(raw) == layout.size:
            thread = int(np.frombuffer(raw, layout.dtype, 1)["thread_id"][0])
            if self._last.get(thread, b"")[:8] == raw[:8]:  # of the same time
                self._last[thread] = raw

    def _begin(self, file: BinaryIO, now: int) -> bool:
        head = self._take(file, 0, _HEAD_BYTES)
        used = len(head.rstrip(b"\0"))
        is_quiet = now - self._changed > _QUIET_NS
        if not used or (used < 4 * _FEW_BYTES and not is_quiet):
            return False
        n = (used // 1024 + 2) * 1024  # whole records of every size
        match = detect_head(head[:n].ljust(n, b"\0"), n)
        if match is None or match.layout.id == "buffer128":
            raise LiveError(f"{self.path}: not records of a tensor trace.")
        self._layout = match.layout
        self._first_record = head[: match.layout.size]
        self._builder.ops = _op_table(head, match.layout)
        return True

    def _whole(self, records: Array, layout: RecordLayout) -> int:
        """Return how many records from the first on are there."""
        rows = np.ascontiguousarray(records).view(np.uint8).reshape(-1, layout.size)
        is_there = rows[:, :32].any(axis=1)
        if self._has_wrapped:
            is_there &= records["timestamp_ns"] >= self._newest
        missing = np.flatnonzero(~is_there)
        return int(missing[0]) if len(missing) else len(records)

    def _pass_hole(self, rest: Array, layout: RecordLayout, now: int) -> bool:
        """Go on behind records that stay zero while others come behind them."""
        rows = np.ascontiguousarray(rest).view(np.uint8).reshape(-1, layout.size)
        later = np.flatnonzero(rows[:, :32].any(axis=1))
        if self._has_wrapped or not len(later):
            self._hole_since = 0
            return False
        self._hole_since = self._hole_since or now
        if now - self._hole_since <= _QUIET_NS:
            return False
        self._hole_since = 0
        self._builder.warn(
            Severity.DATA_LOSS,
            "live_hole",
            "records of the running program are missing: the file has zeros in their "
            "place, and further records after them.",
            offset=self._at,
            count=int(later[0]),
        )
        self._at += int(later[0]) * layout.size
        return True

    def _follow_wrap(self, file: BinaryIO, first: bytes, layout: RecordLayout) -> bool:
        """Return whether a writer that came back to the first record is followed."""
        stamp = int(np.frombuffer(first, layout.dtype, 1)["timestamp_ns"][0])
        last = self._take(file, max(self._at - layout.size, 0), layout.size)
        is_kept = bool(last.strip(b"\0"))
        self._first_record = first
        size = os.fstat(file.fileno()).st_size
        if is_kept and stamp >= self._newest and self._at + layout.size > size:
            self._has_wrapped, self._at = True, 0
            return True
        self._begin_anew()
        return False

    def _add(self, records: Array, layout: RecordLayout) -> None:
        self._n_records += len(records)
        self._tick(int(records["timestamp_ns"].max()))
        if self._origin is None or not self._keeps_spans:
            return
        if not self._lanes:
            self._origin = min(int(records["timestamp_ns"][0]), _FAR)
        if layout.has_ggml_ops:
            records = records[records["operation_type"] < FIRST_EXTENSION_OP]
        threads = records["thread_id"].astype(np.int64)
        for thread in np.unique(threads).tolist():
            mine = records[threads == thread]
            held = self._last.get(thread)
            if held is not None:  # numpy would leave out the bytes between the fields
                mine = np.frombuffer(held + mine.tobytes(), layout.dtype)
            self._last[thread] = mine[-1:].tobytes()
            if len(mine) > 1:
                self._add_thread(thread, mine, layout)

    def _missing(self) -> tuple[str, ...]:
        is_full = self._known is not None and self._known.is_full
        return ("accesses",) if is_full else ()

    def _patterns(self, records: Array, layout: RecordLayout) -> Array:
        """Return the pattern of accesses of each record; new ones are added."""
        if self._known is None:
            self._known = _Patterns(self._builder, layout)
        return self._known.of(records)

    def _add_thread(self, thread: int, records: Array, layout: RecordLayout) -> None:
        """Add the spans of all but the last record, whose end is not known yet."""
        if thread not in self._lanes:
            self._lanes[thread] = self._builder.add_lane(
                f"thread {len(self._lanes)}", LaneKind.THREAD, raw=str(thread)
            )
        stamp = np.minimum(records["timestamp_ns"], _FAR).astype(np.int64)
        stamp -= self._origin or 0
        is_last = _ends_pass(records)
        records = records[:-1]
        start, end = stamp[:-1], np.maximum(stamp[1:], stamp[:-1])
        flags = np.full(len(start), _DERIVED, np.uint16)
        end[is_last], flags[is_last] = start[is_last], _UNFINISHED
        if layout.source is not None:
            rows = np.ascontiguousarray(records).view(np.uint8)
            spare = rows.reshape(-1, layout.size)[:, 19:24].astype(np.int64)
            duration = (spare << (8 * np.arange(5))).sum(axis=1)
            end = np.where(duration > 0, start + duration, end)
            flags[duration > 0] = 0
        layer = records["layer_id"].astype(np.int32)
        self._builder.add_spans(
            start=start,
            end=end,
            lane=np.full(len(start), self._lanes[thread], np.int16),
            name=self._name_ids(records, layout),
            op=records["operation_type"].astype(np.int16),
            flags=flags,
            layer=np.where(layer == NO_LAYER, -1, layer & 0x7FFF).astype(np.int16),
            token=(records["token_id"] & 0x7FFFFFFF).astype(np.int32),
            phase=np.where(records["phase"] <= 1, records["phase"], -1).astype(np.int8),
            pattern=self._patterns(records, layout),
        )

    def _name_ids(self, records: Array, layout: RecordLayout) -> Array:
        names = records.dtype.names or ()
        column = next((n for n in ("dst_name", "tensor_name") if n in names), None)
        if column is None:
            return np.full(len(records), -1, np.int32)
        distinct, which = np.unique(records[column], return_inverse=True)
        ids = np.array([self._name_id(bytes(raw)) for raw in distinct], np.int32)
        return ids[which]

    def _name_id(self, raw: bytes) -> int:
        name = self._names.get(raw)
        if name is None:
            text = raw.split(b"\0", 1)[0].decode("utf-8", "replace")
            name = self._builder.strings.intern(text) if text else -1
            self._names[raw] = name
        return name

    def _open_spans(self, until: int) -> Spans:
        begins = [
            # Every layout begins with the stamp.
            (
                min(int.from_bytes(record[:8], "little"), _FAR) - (self._origin or 0),
                lane,
            )
            for thread, record in self._last.items()
            if (lane := self._lanes.get(thread)) is not None
        ]
        return _unfinished(begins, -1, until)


class _Patterns:
    """What the records of a file read, once per distinct pattern."""

    def __init__(self, builder: TraceBuilder, layout: RecordLayout) -> None:
        self._builder, self._layout = builder, layout
        assert builder.ops is not None
        self._decoder = PatternDecoder(
            layout,
            builder.strings,
            builder.ops,
            # The first tracer never set them.
            claims_layers=layout not in (LAYOUT_64P, LAYOUT_64A),
        )
        # Records are alike where the bytes are that make a pattern; they are compared
        # by a number that nobody can foresee.
        secret = np.random.default_rng().integers(1, 1 << 63, layout.size // 8)
        self._secret = secret.astype(np.uint64) | np.uint64(1)
        self._key = layout.key.astype(np.uint8)
        self._numbers: dict[int, int] = {}
        self._buffers: dict[int, int] = {}
        self._n_accesses = 0
        self.is_full = False
        """Whether there were more patterns than are kept: accesses are missing."""

    def of(self, records: Array) -> Array:
        """Return the pattern of each record, int32; -1 for one too many."""
        raw = np.ascontiguousarray(records).view(np.uint8)
        blocks = (raw.reshape(-1, self._layout.size) * self._key).view(np.uint64)
        distinct, first, which = np.unique(
            blocks @ self._secret, return_index=True, return_inverse=True
        )
        known = [int(number) in self._numbers for number in distinct]
        new = first[~np.array(known, np.bool_)]
        if len(new) and len(self._numbers) + len(new) > _MAX_PATTERNS:
            self.is_full = True
        elif len(new):
            n = len(self._numbers)
            order = np.argsort(new)
            numbers = distinct[~np.array(known, np.bool_)][order].tolist()
            self._numbers |= {number: n + i for i, number in enumerate(numbers)}
            self._add(np.ascontiguousarray(records[new[order]]), n)
        given = [self._numbers.get(number, -1) for number in distinct.tolist()]
        return np.array(given, np.int32)[which]

    def _add(self, records: Array, n_before: int) -> None:
        builder, decoder = self._builder, self._decoder
        decoder.add(records)
        columns, buffers = decoder.accesses()
        ids = buffers.address
        for number in ids.tolist():
            self._buffers.setdefault(number, len(self._buffers))
        # Here rows never change their places: spans of earlier snapshots name them.
        place = np.array([*map(self._buffers.get, ids.tolist()), -1], np.int32)
        part = columns.take(np.arange(self._n_accesses, len(columns)))
        part = replace(part, buffer=place[part.buffer])
        self._n_accesses = len(columns)
        builder.add_patterns(part, decoder.patterns("count")[n_before:])
        builder.tensors = decoder.tensors(columns)
        builder.buffers = buffers.take(np.argsort(place[:-1]))


def _op_table(head: bytes, layout: RecordLayout) -> OpTable:
    """Return the table of ops that the first record names, or the first speak for."""
    if not layout.has_ggml_ops:
        return ggml.TRACER_PRIVATE
    declared = declared_ops(head, layout)
    if declared is not None:
        return declared
    records = np.frombuffer(head, layout.dtype, len(head) // layout.size)
    records = records[records["timestamp_ns"] > 0]
    pairs = zip(
        records["operation_type"].tolist(), records["dst_name"].tolist(), strict=True
    )
    counts = Counter(pairs)
    return ggml.infer(list(_samples(counts)))


def _samples(counts: Counter[tuple[int, bytes]]) -> Iterator[ggml.OpSample]:
    for (code, raw), n in counts.items():
        if code < FIRST_EXTENSION_OP:
            text = raw.split(b"\0", 1)[0].decode("utf-8", "replace")
            yield ggml.OpSample(code, text, count=n)


def _ends_pass(records: Array) -> Array:
    """Tell of all records of a thread but the last which end a pass.

    The next one claims another token, or is the graph's first op by its name.
    """
    begins = np.diff(records["token_id"].astype(np.int64)) != 0
    if "dst_name" in (records.dtype.names or ()):
        begins |= records["dst_name"][1:] == FIRST_NAME
    return np.asarray(begins)


def _unfinished(begins: list[tuple[int, int]], name: int, until: int) -> Spans:
    """Return spans of one name that have begun on lanes and not ended."""
    if not begins:
        return Spans.blank()
    start, lane = np.array(begins, np.int64).T
    n = len(begins)
    return Spans(
        start=start.copy(),
        end=np.maximum(start, until),
        lane=lane.astype(np.int16),
        name=np.full(n, name, np.int32),
        op=np.full(n, -1, np.int16),
        flags=np.full(n, _UNFINISHED, np.uint16),
    )
