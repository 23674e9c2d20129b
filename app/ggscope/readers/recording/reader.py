"""Reader of the sidecar that ``ggscope-capture run -o OUT.bin`` writes as OUT.json.

``resources/docs/ring-format.md`` describes its keys. They become the same tables and
spans as the frames of the ring while the program runs; the records themselves are in
OUT.bin. Nothing in it is trusted: what is of the wrong kind, or out of all
bounds, is left out and counted.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np

from ggscope.errors import CorruptError, TruncatedError, UnsupportedVersionError
from ggscope.model.builder import TraceBuilder
from ggscope.model.run import RecordingInfo, Run, RunAccount
from ggscope.model.trace import (
    GRAPH_RECORDS,
    LaneKind,
    OpTable,
    Severity,
    Trace,
    TraceInfo,
)
from ggscope.model.units import Clock
from ggscope.readers.api import BOM, NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import refuse_larger, trace_info
from ggscope.readers.common.run_definitions import (
    ALLOCATED,
    FREED,
    NODE,
    UNKNOWN,
    Definitions,
)
from ggscope.readers.common.run_events import FAR, HOST_NAMES, RunEvents, RunGraph
from ggscope.readers.common.ubatches import MAX_SEQUENCES, N_PHASES, ubatch_tokens
from ggscope.readers.recording import INFO
from ggscope.readers.recording.columns import (
    Budget,
    ColumnError,
    columns,
    is_block,
    rows,
)
from ggscope.readers.recording.recording_info import end_text, recording_info
from ggscope.readers.source import Source
from ggscope_capture.ring_format import (
    LANES_OF_SLOT,
    TENSOR_SOURCES,
    HostCall,
    listed_frames,
)

MAX_BYTES = 1 << 29
_VERSIONS = (1, 2)
_SIGN = re.compile(rb'\s*\{\s*"format"\s*:\s*"ggscope-capture"')
_CALLS = {call.name.lower(): HOST_NAMES[call] for call in HostCall}
"""Display names of the calls that a sidecar names."""
_U16, _U32, _U64 = 1 << 16, 1 << 32, 1 << 64
_MAX_OPS = 1 << 10
_MAX_THREADS, _MAX_SLOTS = 1 << 14, (1 << 16) // LANES_OF_SLOT
"""Records number threads in 16 bits."""
_LOOK_EVERY = 1 << 10
"""Items between two looks at whether anybody still waits."""
_WIDTH = {"data": _U64, "bytes": _U64, "offset": _U64}
_CHANGING = ("data", "bytes", "offset", "buffer")
"""Columns of tensors that may differ in builds that are alike."""
_LARGER_RING = "Use a larger ring buffer, or trace fewer ops."
_LOSSES = (
    (
        ("lost", "dropped"),
        "capture_lost",
        "records were lost while the program ran: the ring buffer was full.",
        _LARGER_RING,
    ),
    (
        ("lost_events", "dropped_events"),
        "capture_events_lost",
        "events were lost: graphs, tokens, calls, copies or expert choices are "
        "missing.",
        _LARGER_RING,
    ),
    (
        ("lost_definitions",),
        "capture_definitions_lost",
        "definitions were lost: some graphs, weights or buffers have no names.",
        "",
    ),
    (
        ("no_lane",),
        "capture_no_lane",
        "ops of some threads were not recorded: more threads at once than the tracer's "
        "ring buffer has lanes.",
        "Run fewer contexts at once, or use fewer threads per context.",
    ),
    (
        ("unnamed_ops",),
        "capture_unnamed_ops",
        "ops ran outside of any graph; they have no records.",
        "",
    ),
    (
        ("damaged_frames",),
        "capture_damaged",
        "damaged definitions or events were skipped while recording.",
        "",
    ),
)
_NOT_PLACED = "Their position is unknown."
_MAX_RANGES = 8


class SidecarReader:
    """Reads what lies beside the records of a run."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its first key."""
        if _SIGN.match(head.data.removeprefix(BOM)) is None:
            return NOT_MINE
        return Sniff(100, "first key of a sidecar")

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return graphs, calls and copies as spans, and what records refer to.

        Raises
        ------
        TruncatedError
            If it is no whole JSON.
        CorruptError
            If it is no object of this format.
        UnsupportedVersionError
            If it is of another version.
        LimitExceededError
            If it is too large for a sidecar.
        """
        refuse_larger(source, MAX_BYTES, "Is this the sidecar of a recording?")
        context.progress(0, source.size)
        data = source.read(0, source.size).removeprefix(BOM)
        try:
            facts = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise TruncatedError(
                f"truncated or damaged sidecar: {error}.",
                hint="Copy it again from the recording.",
            ) from error
        if not isinstance(facts, dict) or facts.get("format") != "ggscope-capture":
            raise CorruptError("not a recording sidecar.")
        version = facts.get("version")
        if type(version) is not int or version not in _VERSIONS:
            known = " and ".join(map(str, _VERSIONS))
            raise UnsupportedVersionError(
                f"unsupported sidecar version {str(version)[:20]} (supported: "
                f"{known}).",
                hint="Use the ggscope version that recorded it.",
            )
        context.check_cancelled()
        trace = _Sidecar(facts, context.check_cancelled, source.size).trace(
            trace_info(INFO, source, 0)
        )
        context.progress(source.size, source.size)
        return trace


@dataclass(frozen=True, slots=True, eq=False)
class _Whole:
    """A build that is stated whole; others say how they differ from it."""

    n_nodes: int
    tensors: Any
    names: list[str]


class _Sidecar:
    """Takes the facts of a sidecar one kind after the other."""

    def __init__(
        self, facts: dict[str, Any], check: Callable[[], None], n_bytes: int
    ) -> None:
        self._facts, self._check = facts, check
        self._budget = Budget(n_bytes)
        self._builder = TraceBuilder(grows=True)
        self._definitions = Definitions(self._builder)
        self._events = RunEvents(self._builder)
        self._builds: dict[int, tuple[int, int]] = {}
        self._wholes: dict[int, _Whole] = {}
        self._graphs: dict[int, tuple[RunGraph, int]] = {}
        self._backend_of: dict[int, int] = {}
        self._slot_of: dict[int, int] = {}
        self._names_of_backends: dict[int, str] = {}
        self._whole: dict[str, int] = {}
        self._bad = 0
        self._first_bad = ""
        clock = self._object("clock")
        self._origin = _whole(clock.get("monotonic"), FAR) or 0
        real = _whole(clock.get("real"), 1 << 62) or 0
        epoch = real - self._origin if real and self._origin else None
        self._builder.clock = Clock("ns", self._origin, epoch=epoch)

    def trace(self, info: TraceInfo) -> Trace:
        """Return all of it."""
        builder = self._builder
        self._ops()
        lane_of = self._threads()
        for take, key in (
            (self._model, "models"), (self._buffer, "buffers"), (self._build, "builds"),
        ):  # fmt: skip
            for item in self._items(key):
                take(item)
        self._definitions.put()
        self._backends()
        self._graph_events()
        for item in self._items("host"):
            if times := self._times(item, "host"):
                kind = item.get("kind")
                name = _CALLS.get(kind, f"call {kind}") if isinstance(kind, str) else ""
                self._events.call(name, *times)
        for _, listed in listed_frames():
            for item in self._items(listed.key):
                if times := self._times(item, listed.key):
                    called = item.get("name")
                    is_text = called is None or isinstance(called, str)
                    self._events.listed(listed, called if is_text else "", *times)
        for item in self._items("whole_graphs"):
            self._whole_graph(item, lane_of)
        self._events.put()
        n_records = self._number("records") + self._number("extension_records")
        run = self._run(n_records, lane_of)
        facts = self._events.facts()
        recording = recording_info(self._facts, self._whole, self._doubt)
        if recording is not None:
            self._report_missing(recording)
            if end := end_text(recording):
                facts = {**facts, "end": end}
        self._warn(recording)
        trace = builder.snapshot(
            _with_facts(info, self._facts, facts, len(self._graphs))
        )
        passes = replace(trace.info, n_passes=self._events.n_ubatches)
        recordings = () if recording is None else (recording,)
        return replace(trace, run=run, info=passes, recordings=recordings)

    # -- values that may be anything ---------------------------------------

    def _doubt(self, place: str) -> None:
        self._bad += 1
        self._first_bad = self._first_bad or place

    def _object(self, key: str) -> dict[str, Any]:
        value = self._facts.get(key, {})
        if isinstance(value, dict):
            return value
        self._doubt(key)
        return {}

    def _items(self, key: str) -> Iterator[dict[str, Any]]:
        """Yield the objects of a list, and count what is none."""
        value = self._facts.get(key, [])
        if not isinstance(value, list):
            self._doubt(key)
            return
        for i, item in enumerate(value):
            if not i % _LOOK_EVERY:
                self._check()
            if is_block(item):
                try:
                    yield from rows(item, self._budget)
                except ColumnError:
                    self._doubt(f"{key}[{i}]")
            elif isinstance(item, dict):
                yield item
            else:
                self._doubt(f"{key}[{i}]")

    def _number(self, key: str) -> int:
        """Return a count; 0 where there is none."""
        value = self._facts.get(key, 0)
        number = _whole(value, _U64 >> 1)
        if number is None:
            self._doubt(key)
        return number or 0

    def _tick(self, value: object) -> int | None:
        time = _whole(value, FAR)
        return None if time is None else time - self._origin

    def _times(self, item: dict[str, Any], key: str) -> tuple[int, int] | None:
        """Return when something began and ended."""
        begin, end = self._tick(item.get("begin")), self._tick(item.get("end"))
        if begin is None or end is None:
            self._doubt(key)
            return None
        return begin, end

    # -- definitions -------------------------------------------------------

    def _ops(self) -> None:
        names: dict[int, str] = {}
        for key, name in self._object("ops").items():
            number = int(key) if re.fullmatch(r"\d{1,4}", key) else _MAX_OPS
            if number < _MAX_OPS and isinstance(name, str):
                names[number] = name
            else:
                self._doubt("ops")
        if names:
            listed = tuple(names.get(i, "") for i in range(max(names) + 1))
            self._builder.ops = OpTable("capture", listed)

    def _threads(self) -> dict[int, int]:
        """Return the lane of each thread by its number in the records."""
        threads: dict[int, int] = {}
        for item in self._items("threads"):
            numbers = [_whole(item.get(k), _U16) for k in ("thread", "slot", "index")]
            if None in numbers or len(threads) >= _MAX_THREADS:
                self._doubt("threads")
                continue
            thread, slot, index = (int(n or 0) for n in numbers)
            threads[thread] = self._events.thread(thread, slot, index)
        return threads

    def _model(self, item: dict[str, Any]) -> None:
        number, path = _whole(item.get("model"), _U32), item.get("path")
        if number is None or not isinstance(path, str):
            self._doubt("models")
            return
        size, data = (_whole(item.get(k), _U64) for k in ("size", "data_offset"))
        # Of its path only the name is taken: it is one of the machine that recorded.
        self._definitions.add_model(
            number, path.replace("\0", ""), _or(size, _U64 - 1), _or(data, _U64 - 1), 0
        )
        weights = item.get("weights", {})
        keys = ("index", "name", "type", "shape", "offset", "size")
        columns = [weights.get(k) if isinstance(weights, dict) else None for k in keys]
        if not _are_lists(columns):
            self._doubt("models.weights")
            return
        for index, name, kind, shape, offset, size in zip(*columns, strict=False):
            numbers = [_whole(n, _U64) for n in (*_listed(shape), offset, size)]
            index, kind = _whole(index, _U32), _whole(kind, _U32)
            is_name = isinstance(name, str)
            if None in (index, kind, *numbers) or len(numbers) != 6 or not is_name:
                self._doubt("models.weights")
                continue
            self._definitions.add_weight(number, index, name, kind, numbers)  # type: ignore[arg-type]  # none is None

    def _buffer(self, item: dict[str, Any]) -> None:
        keys = ("buffer", "size", "base", "pointer")
        numbers = [_whole(item.get(k, 0), _U64) for k in keys]
        name = item.get("name")
        if None in numbers or not isinstance(name, str):
            self._doubt("buffers")
            return
        number, size, base, pointer = (int(n or 0) for n in numbers)
        usage = _or(_whole(item.get("usage"), _U32), UNKNOWN)
        self._definitions.add_buffer(number, name, usage, base or pointer, size)
        for kind, key in ((ALLOCATED, "allocated"), (FREED, "freed")):
            if (tick := self._tick(item.get(key))) is not None:
                self._definitions.add_buffer_event(number, kind, 0, tick)

    def _build(self, item: dict[str, Any]) -> None:
        """Add the nodes of a graph, and what they read."""
        build = _whole(item.get("build"), _U32)
        if build is None:
            self._doubt("builds")
        elif "like" in item:
            self._like(build, item)
        else:
            self._whole_build(build, item)

    def _whole_build(self, build: int, item: dict[str, Any]) -> None:
        n_nodes, names = _whole(item.get("nodes"), _U32), item.get("names")
        stated = item.get("tensors")
        if n_nodes is None:
            self._doubt("builds")
            return
        try:
            if isinstance(stated, dict) and is_block(stated):
                stated = columns(stated, self._budget)
        except ColumnError:
            stated = None
        if not isinstance(stated, dict) or not isinstance(names, list):
            self._doubt("builds.tensors")
            return
        listed = {key: _listed(stated.get(key)) for key in NODE.names or ()}
        n = len(listed["flags"])
        if any(len(column) != n for column in listed.values()):
            self._doubt("builds.tensors")
            return
        tensors = np.zeros(n, NODE)
        for key in listed:
            if key not in ("sources", "layer"):
                tensors[key] = self._column(listed[key], _WIDTH.get(key, _U32))
        layers = self._column(listed["layer"], 1 << 31)
        tensors["layer"] = np.where(layers < 1 << 15, layers.astype(np.int64), -1)
        tensors["sources"] = UNKNOWN
        for row, used in zip(tensors, listed["sources"], strict=True):
            good = [_whole(s, n) for s in _listed(used)]
            sources = [s for s in good if s is not None][:TENSOR_SOURCES]
            if len(sources) != len(good) or not isinstance(used, list):
                self._doubt("builds.tensors.sources")
            row["sources"][: len(sources)] = sources
        texts = [text if isinstance(text, str) else "" for text in names[:n]]
        texts += [""] * (n - len(texts))
        self._wholes[build] = _Whole(n_nodes, tensors, texts)
        self._builds[build] = self._definitions.add_build(n_nodes, tensors, texts)

    def _like(self, build: int, item: dict[str, Any]) -> None:
        """Add a build that differs from another one in some values."""
        like = _whole(item.get("like"), _U32)
        whole = None if like is None else self._wholes.get(like)
        changes = item.get("changes")
        if like is None or whole is None or not isinstance(changes, dict):
            self._doubt("builds.like")
            return
        if not changes:
            self._builds[build] = self._builds[like]
            return
        try:
            tensors = self._changed(whole.tensors, changes)
        except ColumnError:
            self._doubt("builds.changes")
            return
        self._builds[build] = self._definitions.add_build(
            whole.n_nodes, tensors, whole.names
        )

    def _changed(self, tensors: Any, changes: dict[str, Any]) -> Any:
        """Return the tensors of a build with what differs; raises ColumnError."""
        self._budget.take(len(tensors) // 4)
        tensors = tensors.copy()
        for key, change in changes.items():
            if key not in _CHANGING or not isinstance(change, dict):
                raise ColumnError("a change of no known kind")
            self._change(tensors, key, change)
        return tensors

    def _change(self, tensors: Any, key: str, change: dict[str, Any]) -> None:
        """Put the values of a column that differ into it; raises ColumnError."""
        column, limit = tensors[key], _WIDTH.get(key, _U32)
        before, after = self._pair(change, "moved", ("from", "to"), limit)
        at, single = self._pair(change, "single", ("at", "is"), limit)
        if len(at) and int(at.max()) >= len(tensors):
            raise ColumnError("a change beyond the tensors of a build")
        if len(before):
            order = np.argsort(before)
            before, after = before[order], after[order].astype(column.dtype)
            place = np.searchsorted(before, column)
            place = np.minimum(place, len(before) - 1)
            moves = before[place] == column
            column[moves] = after[place[moves]]
        column[at.astype(np.int64)] = single.astype(column.dtype)

    def _pair(
        self, change: dict[str, Any], kind: str, names: tuple[str, str], limit: int
    ) -> list[Any]:
        """Return two columns of a block within a change; empty where it is not there.

        Raises
        ------
        ColumnError
            If it is no block with both.
        """
        block = change.get(kind, {"rows": 0, "columns": {key: [] for key in names}})
        if not is_block(block):
            raise ColumnError("a change that is no table")
        pair = columns(block, self._budget)
        if pair.keys() != set(names):
            raise ColumnError("a change without counterpart")
        return [self._column(pair[name], limit) for name in names]

    def _column(self, listed: list[Any], limit: int) -> Any:
        """Return numbers, all ones where one is not known; uint64[n]."""
        kinds = set(map(type, listed))
        if kinds <= {int, type(None)}:
            numbers = [limit - 1 if n is None or n == -1 else n for n in listed]
            if not numbers or 0 <= min(numbers) <= max(numbers) < limit:
                return np.array(numbers, np.uint64)
        column = np.full(len(listed), limit - 1, np.uint64)
        for i, value in enumerate(listed):
            number = _whole(value, limit)
            if number is not None:
                column[i] = number
            elif value is not None and value != -1:
                self._doubt("builds.tensors")
        return column

    # -- what happened -----------------------------------------------------

    def _graph_events(self) -> None:
        """Play the begins and ends of graphs in the order in which they were."""
        moments: list[tuple[int, int, int, dict[str, Any]]] = []
        for item in self._items("graph_list"):
            number, begin = (
                _whole(item.get("graph"), _U32),
                self._tick(item.get("begin")),
            )
            if number is None or begin is None:
                self._doubt("graph_list")
                continue
            moments.append((begin, number, 0, item))
            end = self._tick(item.get("end"))
            if end is not None:
                moments.append((max(end, begin), number, 1, item))
        moments += self._waits_for_backends()
        ubatches: dict[int, dict[str, Any]] = {}
        for item in self._items("ubatches"):
            number = _whole(item.get("ubatch"), 1 << 31)
            if number is None:
                self._doubt("ubatches")
            else:
                ubatches[number] = item
        moments.sort(key=lambda moment: moment[:3])
        last = 0
        for i, (tick, number, kind, item) in enumerate(moments):
            if not i % _LOOK_EVERY:
                self._check()
            if kind == 2:
                begin, _ = self._times(item, "host") or (tick, tick)
                self._events.synchronize(number, begin, tick)
                continue
            last = max(last, tick)
            if kind == 1:
                self._events.end_graph(number, tick)
                begun = self._graphs.get(number)
                if begun is not None:
                    self._graphs[number] = (begun[0], tick)
                continue
            ubatch = _whole(item.get("ubatch"), 1 << 31)
            if ubatch in ubatches:  # before its first graph
                self._ubatch(ubatch, ubatches.pop(ubatch))
            phase = _whole(item.get("phase"), N_PHASES)
            slot = _whole(item.get("slot"), _MAX_SLOTS)
            build = _or(_whole(item.get("build"), _U32), -1)
            graph = self._events.begin_graph(
                number,
                self._builds.get(build, (0, 0)),
                tick,
                token=_or(ubatch, -1),
                phase=phase or 0,
                slot=slot or 0,
                split=_whole(item.get("split"), _U16) or 0,
                backend=_whole(item.get("backend_number"), _U32) or 0,
            )
            self._slot_of[number] = slot or 0
            self._backend_of[number] = _whole(item.get("backend_number"), _U32) or 0
            self._graphs[number] = (graph, FAR)
        for number, item in ubatches.items():  # their graphs are not stated
            self._ubatch(number, item)
        self._events.finish(last)

    def _waits_for_backends(self) -> list[tuple[int, int, int, dict[str, Any]]]:
        """Return the calls that waited for backends: end, ubatch, kind, what it was.

        There are none where the CPU alone computed, which most programs do.
        """
        if len(self._names_of_backends) < 2:
            return []
        waits = []
        for item in self._items("host"):
            ubatch = _whole(item.get("ubatch"), 1 << 31)
            times = self._times(item, "host") if item.get("kind") == "sync" else None
            if ubatch is not None and times:
                waits.append((max(times), ubatch, 2, item))
        return waits

    def _backends(self) -> None:
        """Take what computed graphs, and the look that chose the mode."""
        for item in self._items("backends"):
            number = _whole(item.get("backend"), _U32)
            texts = [
                text
                for key in ("name", "device", "description")
                if isinstance(text := item.get(key), str)
            ]
            if number is None or len(texts) != 3:
                self._doubt("backends")
            else:
                self._events.add_backend(number, *texts)
                self._names_of_backends[number] = texts[0]
        for check in _listed(self._facts.get("checks"))[-1:]:
            keys = ("graph", "found", "expected") if isinstance(check, dict) else ()
            numbers = [
                number
                for key in keys
                if (number := _whole(check.get(key), _U64)) is not None
            ]
            if len(numbers) == 3:
                self._events.add_self_test(*numbers)

    def _whole_graph(self, item: dict[str, Any], lane_of: Mapping[int, int]) -> None:
        """Add a graph of a backend whose ops have no records, on its thread."""
        times = self._times(item, "whole_graphs")
        thread = _whole(item.get("thread"), _U16)
        if times is None or thread is None or thread not in lane_of:
            self._doubt("whole_graphs")
            return
        number = _or(_whole(item.get("graph"), _U32), -1)
        graph, _ = self._graphs.get(number, (None, 0))
        backend = self._names_of_backends.get(self._backend_of.get(number, 0), "")
        self._whole[backend] = self._whole.get(backend, 0) + 1
        token, phase = (-1, -1) if graph is None else (graph.token, graph.phase)
        name = "graph" if graph is None else graph.name
        self._events.add(times[0], max(times), lane_of[thread], name, 0, token, phase)

    def _ubatch(self, number: int, item: dict[str, Any]) -> None:
        tokens, positions = (item.get(key, []) for key in ("tokens", "positions"))
        phase = _whole(item.get("phase", 0), N_PHASES)
        if phase is None or not (_are_numbers(tokens) and _are_numbers(positions)):
            self._doubt("ubatches")
            return
        if min(tokens, default=0) < -1 or min(positions, default=0) < -1:
            self._doubt("ubatches")  # those are not known, the others are
        if item.get("phases") is None:
            self._events.add_ubatch(number, ubatch_tokens(tokens, positions, phase))
            return
        rows = _rows_of_ubatch(item)
        if rows is None:
            self._doubt("ubatches")
            return
        self._events.add_ubatch(number, ubatch_tokens(tokens, positions, phase, **rows))

    def _run(self, n_records: int, lane_of: Mapping[int, int]) -> Run:
        numbers = sorted(self._graphs)
        graphs = [self._graphs[number] for number in numbers]
        name, layer, pattern = self._definitions.columns()

        def column(values: list[int], dtype: Any) -> Any:
            return np.array(values, dtype)

        return Run(
            n_records=n_records,
            graph=column(numbers, np.int64),
            begin=column([g.begin for g, _ in graphs], np.int64),
            end=column([end for _, end in graphs], np.int64),
            first=column([g.first for g, _ in graphs], np.int64),
            n_nodes=column([g.n_nodes for g, _ in graphs], np.int64),
            token=column([g.token for g, _ in graphs], np.int32),
            phase=column([g.phase for g, _ in graphs], np.int8),
            slot=column([self._slot_of.get(n, 0) for n in numbers], np.int64),
            name=name,
            layer=layer,
            pattern=pattern,
            lane_of=lane_of,
        )

    def _report_missing(self, recording: RecordingInfo) -> None:
        """Hatch the graphs that lack records, as long as they last."""
        account = recording.account
        if account is None:
            return
        for number, expected, there in zip(
            account.short.tolist(),
            account.short_expected.tolist(),
            account.short_recorded.tolist(),
            strict=True,
        ):
            graph, end = self._graphs.get(number, (None, FAR))
            if graph is None or end == FAR or there >= expected:
                continue
            lane = self._events.lane("lost", 0, "records missing", LaneKind.STALL)
            name = f"{expected - there:,} of {expected:,} records missing"
            self._events.add(graph.begin, end, lane, name, 0, graph.token, graph.phase)
        self._events.put()

    def _warn(self, recording: RecordingInfo | None) -> None:
        builder = self._builder
        account = None if recording is None else recording.account
        short = "" if account is None else _graph_text(account)
        for keys, code, text, remedy in _LOSSES:
            n = max(self._number(key) for key in keys)
            if code == "capture_lost":
                n = max(n - self._number("no_lane"), 0)
            if n:
                if code == "capture_lost":
                    text = f"{text} {short or _NOT_PLACED}"
                builder.warn(Severity.DATA_LOSS, code, text, count=n, remedy=remedy)
        stated = max(self._number(key) for key in ("lost", "dropped", "unnamed_ops"))
        if account is not None and account.lost > stated:
            builder.warn(
                Severity.DATA_LOSS,
                "capture_ops_missing",
                f"ops of the recorded graphs have no record. {short}",
                count=account.lost - stated,
            )
        damaged = [
            name for name in _listed(self._facts.get("damaged_counters"))
            if isinstance(name, str)
        ]  # fmt: skip
        if damaged:
            builder.warn(
                Severity.DATA_LOSS,
                "capture_counters",
                "invalid loss counters: the number of lost records or events "
                "is unknown.",
                count=len(damaged),
                place=damaged[0],
            )
        notes = self._facts.get("notes", [])
        for note in notes if isinstance(notes, list) else ():
            if isinstance(note, str):
                builder.warn(Severity.NOTICE, "live_note", note)
        builder.warn(
            Severity.DATA_LOSS,
            "sidecar_values",
            "invalid values in the sidecar were skipped.",
            count=self._bad,
            place=self._first_bad,
            remedy="Copy it again from the recording.",
        )


def _graph_text(account: RunAccount) -> str:
    """Return "Graphs 6 to 59 lack records."; "" where none is stated."""
    if not len(account.short):
        return ""
    cuts = np.flatnonzero(np.diff(account.short) != 1) + 1
    runs = [part.tolist() for part in np.split(account.short, cuts)]
    parts = [
        str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}"
        for run in runs[:_MAX_RANGES]
    ]
    more = " and others" if len(runs) > _MAX_RANGES else ""
    if len(account.short) == 1:
        return f"Graph {parts[0]} lacks them."
    return f"Graphs {', '.join(parts)}{more} lack them."


def _with_facts(
    info: TraceInfo, facts: dict[str, Any], more: Mapping[str, str], n: int
) -> TraceInfo:
    """Return the info with what the sidecar says of the run; `more` comes with it.

    Of its own it holds `n` graphs; the records of ops are in the file beside it.
    """
    producer = {
        key: facts[key]
        for key in ("program", "ggml", "mode")
        if isinstance(facts.get(key), str) and facts[key]
    }
    command = facts.get("command")
    if isinstance(command, list) and all(isinstance(c, str) for c in command):
        producer["command"] = " ".join(command)
    pid = _whole(facts.get("pid"), 1 << 31)
    if pid:
        producer["pid"] = str(pid)
    producer |= more
    clock = facts.get("clock")
    real = _whole(clock.get("real") if isinstance(clock, dict) else None, 1 << 62)
    if real:
        begun = datetime.fromtimestamp(real // 10**9, UTC)
        producer["began"] = begun.isoformat(" ", "seconds")
    return replace(
        info,
        producer=producer,
        n_records=n,
        summary={**info.summary, GRAPH_RECORDS: n},
    )


def _rows_of_ubatch(item: dict[str, Any]) -> dict[str, Any] | None:
    """Return what is stated of each token of a ubatch; None where that cannot be."""
    phases, outputs = item["phases"], item.get("outputs")
    sequences, counts = item.get("sequences", []), item.get("sequence_counts")
    if not _are_numbers(phases, N_PHASES - 1):
        return None
    if not _are_numbers(sequences, MAX_SEQUENCES - 1):
        return None
    n = len(phases)
    if counts is None:
        counts = [1] * n if sequences else [0] * n
    if not _are_numbers(counts, _U16) or (len(counts), sum(counts)) != (
        n,
        len(sequences),
    ):
        return None
    is_output = None
    if outputs is not None:
        if not _are_numbers(outputs, n - 1):
            return None
        is_output = np.zeros(n, np.bool_)
        is_output[outputs] = True
    owner = _whole(item.get("owner"), _U64) or _whole(item.get("context"), _U64) or 0
    return {
        "phases": phases,
        "outputs": is_output,
        "counts": counts,
        "sequences": sequences,
        "context": owner,
        "decode": _or(_whole(item.get("decode"), _U32), -1),
    }


def _are_numbers(value: object, limit: int | None = None) -> bool:
    """Return whether it is a list of 32-bit numbers, of 0 to `limit` where given."""
    if not isinstance(value, list) or not all(type(x) is int for x in value):
        return False
    low, high = (-(1 << 31), (1 << 31) - 1) if limit is None else (0, limit)
    return not value or (low <= min(value) and max(value) <= high)


def _whole(value: object, limit: int) -> int | None:
    """Return a whole number in [0, limit); None for anything else."""
    return value if type(value) is int and 0 <= value < limit else None


def _or(value: int | None, other: int) -> int:
    return other if value is None else value


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _are_lists(columns: list[Any]) -> bool:
    """Return whether all are lists of one length."""
    if not all(isinstance(column, list) for column in columns):
        return False
    return len({len(column) for column in columns}) == 1
