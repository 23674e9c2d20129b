"""Exports of Nsight Systems: ``nsys export --type sqlite``.

Source: "SQLite Schema Reference" of the Nsight Systems user guide; schemas 3.24 and
3.25. Tables are there only where they have rows, and columns come and go. Times are ns
from the start of the session; names are rows of ``StringIds``; a ``globalTid`` is its
``globalPid`` and, in the low 24 bits, the number of the thread.
"""

import re
from itertools import islice

import numpy as np

from ggscope.model.tables import I32, I64, ranked
from ggscope.model.trace import LaneKind, Severity
from ggscope.model.units import Clock, format_bytes
from ggscope.readers.common.gathered import (
    NONE,
    Events,
    Gathered,
    Series,
    Track,
    combined,
)
from ggscope.readers.sqlite.database import Database
from ggscope.readers.sqlite.export import DatabaseExport

STRINGS = "StringIds"
_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_KERNEL, _COPY, _SET, _SYNC, _GRAPH = (
    _ACTIVITY + word
    for word in ("KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION", "GRAPH_TRACE")
)
_NVTX, _SWITCHES = "NVTX_EVENTS", "SCHED_EVENTS"
_DIAGNOSTICS, _GPU_INFO = "DIAGNOSTIC_EVENT", "TARGET_INFO_GPU"
_METRICS, _METRIC_INFO = "GPU_METRICS", "TARGET_INFO_GPU_METRICS"
_MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"
_TID = (1 << 24) - 1
_COPIES = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA",
    8: "DtoD", 9: "HtoH", 10: "PtoP", 11: "unified HtoD", 12: "unified DtoH",
    13: "unified DtoD",
}  # fmt: skip
"""``ENUM_CUDA_MEMCPY_OPER``, as Nsight Systems abbreviates it."""
_FROM_DEVICE = (2, 7, 12)
_SYNCS = {
    1: "event sync", 2: "stream wait", 3: "stream sync", 4: "context sync",
}  # fmt: skip
_OVERHEADS = {
    1: "driver compiler", 2: "buffer flush", 3: "instrumentation", 4: "resource",
}  # fmt: skip
_RANGES = (59, 60, 70, 71)
"""Types of NVTX events that are ranges: pushed, started, and those of NVTXT."""
_MARKS = (34, 69)
_DOMAIN = 75
"""Type of the NVTX event that names a domain."""
_CATEGORIES = {
    _ACTIVITY + "RUNTIME": "cuda_runtime",
    _ACTIVITY + "DRIVER": "cuda_driver",
    _ACTIVITY + "OVERHEAD": "overhead",
    "PROFILER_OVERHEAD": "overhead",
    "OSRT_API": "os_runtime",
    "OSRT_FILE_ACCESS_EVENTS": "file_access",
}
_OTHER_NAMES = ("nameId", "textId", "name", "operationId")
_SEVERITIES = {2: Severity.NOTICE, 3: Severity.NOTICE, 4: Severity.DATA_LOSS}
"""``ENUM_DIAGNOSTIC_SEVERITY_LEVEL``: warning, error, fatal; below is no problem."""
_NVTX_NUMBERS = re.compile(r"(?:, (?:seq|op_id) = \d+)+$")
"""What PyTorch adds to the names of its ranges."""
_MEMORY_KINDS = {
    0: "pageable memory", 1: "pinned memory", 2: "device memory", 3: "array memory",
    4: "managed memory", 5: "static device memory", 6: "static managed memory",
}  # fmt: skip
_MAX_STREAMS = 100_000
_MAX_NAME = 512
_LARGEST = 1 << 50


class NsysExport(DatabaseExport):
    """Fills a builder from an export of Nsight Systems."""

    def __init__(
        self, database: Database, gathered: Gathered, max_blocks: int | None = None
    ) -> None:
        super().__init__(database, gathered, max_blocks)
        self._strings = gathered.builder.strings
        self._texts: dict[int, str] = {}
        self._processes: dict[int, str] = {}
        self._threads: dict[int, str] = {}
        self._gpus: dict[int, str] = {}
        self._pid_ranks: dict[int, int] = {}
        self._devices: dict[tuple[int, int], int] = {}
        self._has_processes = False

    @staticmethod
    def is_one(database: Database) -> bool:
        """Return whether a database is an export of Nsight Systems."""
        return database.has(STRINGS, "id", "value") and any(
            name.startswith((_ACTIVITY, "NVTX_", "OSRT_", "META_DATA_", "TARGET_INFO_"))
            for name in database.tables
        )

    def read(self) -> None:
        """Read all tables that hold events."""
        self._read_names()
        self._device_work(_KERNEL, "kernel", ("shortName", "demangledName"))
        self._device_work(_COPY, "gpu_memcpy", ("bytes", "copyKind"))
        self._device_work(_SET, "gpu_memset", ("bytes",))
        self._device_work(_GRAPH, "cuda_graph", ("graphId", "graphExecId"))
        self._syncs()
        self._nvtx()
        for table in self._tables:
            if table not in self.counts and self._is_calls(table):
                self._calls(table)
        self._switches()
        self._memory()
        self._metrics()

    # -- facts ---------------------------------------------------------------

    def producer(self) -> dict[str, str]:
        """Return what the file says of the machine and program.

        The environment that is recorded too may hold secrets and is left alone.
        """
        facts: dict[str, str] = {}
        for name, value in self._db.rows("META_DATA_EXPORT", ("name", "value")):
            if name == "EXPORT_PRODUCT_VERSION":
                facts["Nsight Systems"] = str(value)
        command = ""
        for name, value in self._db.rows("META_DATA_CAPTURE", ("name", "value")):
            if name == "PROCESS_0:COMMAND":
                command = str(value)
            elif str(name).startswith("PROCESS_0:ARGUMENT_") and value:
                command += f" {value}"
        if command:
            facts["command"] = command[:_MAX_NAME]
        columns = ("id", "name", "memoryBandwidth", "totalMemory", "smCount")
        for number, name, rate, memory, cores in self._db.rows(_GPU_INFO, columns):
            parts = [str(name)]
            if isinstance(memory, int) and memory > 0:
                parts.append(format_bytes(memory))
            if isinstance(rate, int) and rate > 0:
                parts.append(f"{rate / 1e9:,.1f} GB/s peak")
            if isinstance(cores, int) and cores > 0:
                parts.append(f"{cores} SMs")
            facts[f"GPU {number}"] = ", ".join(parts)[:_MAX_NAME]
        return facts

    def version(self) -> str:
        """Return the version of the schema; "" where it is not stated."""
        for name, value in self._db.rows("META_DATA_EXPORT", ("name", "value")):
            if name == "EXPORT_SCHEMA_VERSION":
                return str(value)[:64]
        return ""

    def clock(self, origin: int) -> Clock:
        """Return the clock; the time of day is known where times were not shifted."""
        settings: dict[object, object] = dict(
            self._db.rows("META_DATA_EXPORT", ("name", "value"))
        )
        is_plain = (
            settings.get("EXPORT_PARAM_TIME_NORMALIZE", "false") == "false"
            and settings.get("EXPORT_PARAM_TIME_SHIFT", "0") == "0"
        )
        epoch = next(
            (
                value
                for (value,) in self._db.rows(
                    "TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",)
                )
                if isinstance(value, int) and 0 < value < 1 << 62
            ),
            None,
        )
        return Clock("ns", origin, epoch=epoch if is_plain else None)

    def warn(self) -> None:
        """Add the warnings and errors that the profiler noted."""
        columns = ("severity", "text")
        for severity, text in self._db.rows(_DIAGNOSTICS, columns):
            level = _SEVERITIES.get(severity)
            if level is None or not isinstance(text, str):
                continue
            self.into.builder.warn(
                level,
                f"profiler_{'warning' if severity == 2 else 'error'}",
                f"Nsight Systems noted: {text[:_MAX_NAME]}",
            )
        overhead = sum(
            int((e.end - e.start).sum())
            for e in self.into.spans
            if e.category == "overhead"
        )
        if overhead:
            self.into.builder.warn(
                Severity.INFO,
                "profiler_overhead",
                "spans of the category overhead are work of the profiler itself: "
                f"{overhead / 1e6:,.1f} ms in all threads together.",
            )

    # -- names ---------------------------------------------------------------

    def _read_names(self) -> None:
        for block in self._db.texts(STRINGS, ("id", "value")):
            for _, number, text in block:
                if isinstance(number, int) and isinstance(text, str):
                    self._texts[number] = text
        for pid, name in self._db.rows("PROCESSES", ("globalPid", "name")):
            if isinstance(pid, int) and isinstance(name, str):
                self._processes[pid] = name[:_MAX_NAME]
        for number, tid in self._db.rows("ThreadNames", ("nameId", "globalTid")):
            if isinstance(number, int) and isinstance(tid, int):
                self._threads[tid] = self._texts.get(number, "")[:_MAX_NAME]
        streams = self._db.rows("TARGET_INFO_CUDA_STREAM", ("vmId", "processId"))
        self._has_processes = len(set(islice(streams, _MAX_STREAMS))) > 1
        for number, name in self._db.rows(_GPU_INFO, ("id", "name")):
            if isinstance(number, int) and isinstance(name, str):
                self._gpus[number] = name[:_MAX_NAME]

    def _names(self, ids: I64, fallback: str) -> I32:
        """Return the strings that rows of ``StringIds`` are."""
        different, _, place = ranked(ids)
        texts = [self._texts.get(number) or fallback for number in different.tolist()]
        return self._strings.intern_many(texts)[place]

    def _process(self, pid: int) -> str:
        number = (pid >> 24) & _TID
        name = self._processes.get(pid, "")
        return f"process {number} {name}".rstrip()

    def _thread_track(self, tid: int, part: str = "", order: int = 0) -> int:
        """Return the track of a thread, or of a part of what it does."""
        if tid == NONE:
            track = Track(part or "calls", LaneKind.THREAD, ("CPU",), (1, 0, 0, order))
            return self.into.track(track)
        pid, number = tid & ~_TID, tid & _TID
        name = f"thread {number} {self._threads.get(tid, '')}".rstrip()
        if part:
            name = f"{part} · {name}"  # in front: long names are cut at their end
        order_key = (1, pid, tid, order)
        kind = LaneKind.COMMAND if part else LaneKind.THREAD
        track = Track(name, kind, (self._process(pid),), order_key)
        return self.into.track(track)

    def _device_track(
        self, pid: int, device: int, context: int, stream: int, part: str = ""
    ) -> int:
        name = self._gpus.get(device, "")
        group: tuple[str, ...] = (f"GPU {device} {name}".rstrip(),)
        if pid != NONE and self._has_processes:
            group += (self._process(pid),)
        title = f"stream {stream}" if stream != NONE else f"context {context}"
        key = (0, device, pid, len(part), context, stream)
        kind = LaneKind.COMMAND if part else LaneKind.ENGINE
        return self.into.track(Track(title + part, kind, group, key))

    def _sync_track(self, pid: int, device: int, context: int, stream: int) -> int:
        # Rows of this table name the first device whatever their context is on.
        device = self._devices.get((pid, context), device)
        return self._device_track(pid, device, context, stream, " · synchronisation")

    # -- tables --------------------------------------------------------------

    def _launch(self, process: I64, correlation: I64) -> I64:
        """Return what joins calls and work: a process, and a number of it."""
        for pid in ranked(process)[0].tolist():
            self._pid_ranks.setdefault(pid, len(self._pid_ranks))
        different, _, place = ranked(process)
        rank = np.array([self._pid_ranks[p] for p in different.tolist()], np.int64)
        is_known = (correlation > 0) & (correlation < 1 << 40)
        return np.where(is_known, (rank[place] << 40) | correlation, -1)

    def _usable(self, table: str, columns: tuple[str, ...]) -> dict[str, I64]:
        """Return the rows of a table with a begin and an end, and further columns."""
        rows = self.whole(table, ("start", "end", *columns))
        good = self.into.usable(table, rows["start"], rows["end"])
        return {name: column[good] for name, column in rows.items()}

    def _device_work(self, table: str, category: str, columns: tuple[str, ...]) -> None:
        """Read kernels, copies or other work of a stream."""
        if not self._db.has(table, "start", "end"):
            return
        place = ("globalPid", "deviceId", "contextId", "streamId")
        rows = self._usable(table, ("correlationId", *place, *columns))
        if not len(rows["start"]):
            return
        where, at = combined([rows[c] for c in place])
        self._devices.update({(w[0], w[2]): w[1] for w in where})
        tracks = np.array(
            [self._device_track(w[0], w[1], w[2], w[3]) for w in where], np.int64
        )
        size = reads = None
        if "bytes" in rows:
            size = rows["bytes"]
            size = np.where((size >= 0) & (size < _LARGEST), size, -1)
            if "copyKind" in rows:
                reads = np.isin(rows["copyKind"], _FROM_DEVICE)
        self.into.spans.append(
            Events(
                record=rows["record"],
                start=rows["start"],
                end=rows["end"],
                track=tracks[at],
                name=self._work_names(table, rows),
                category=category,
                size=size,
                reads=reads,
                launch=self._launch(rows["globalPid"], rows["correlationId"]),
            )
        )

    def _work_names(self, table: str, rows: dict[str, I64]) -> I32:
        if table == _KERNEL:
            short, full = rows["shortName"], rows["demangledName"]
            return self._names(np.where(short != NONE, short, full), "kernel")
        if table == _COPY:
            kinds, _, place = ranked(rows["copyKind"])
            texts = [
                f"memcpy {_COPIES.get(kind, 'unknown')}" for kind in kinds.tolist()
            ]
            return self._strings.intern_many(texts)[place]
        if table == _GRAPH:
            graph = np.where(
                rows["graphId"] != NONE, rows["graphId"], rows["graphExecId"]
            )
            numbers, _, place = ranked(graph)
            texts = [f"graph {n}" if n != NONE else "graph" for n in numbers.tolist()]
            return self._strings.intern_many(texts)[place]
        number = self._strings.intern("memset")
        return np.full(len(rows["start"]), number, np.int32)

    def _syncs(self) -> None:
        """Read synchronisations: on lanes of their own, for they last across work."""
        if not self._db.has(_SYNC, "start", "end"):
            return
        place = ("globalPid", "deviceId", "contextId", "streamId")
        rows = self._usable(_SYNC, ("correlationId", "syncType", *place))
        if not len(rows["start"]):
            return
        # A context as a whole has the stream 2³² - 1.
        stream = np.where(rows["streamId"] == (1 << 32) - 1, NONE, rows["streamId"])
        where, at = combined([*(rows[c] for c in place[:3]), stream])
        tracks = np.array([self._sync_track(*w) for w in where], np.int64)
        kinds, _, kind = ranked(rows["syncType"])
        texts = [_SYNCS.get(k, "sync") for k in kinds.tolist()]
        self.into.spans.append(
            Events(
                record=rows["record"],
                start=rows["start"],
                end=rows["end"],
                track=tracks[at],
                name=self._strings.intern_many(texts)[kind],
                category="cuda_sync",
            )
        )

    def _is_calls(self, table: str) -> bool:
        """Return whether a table holds calls of threads: begin, end and a name."""
        there = self._db.tables[table]
        return {"start", "end"} <= set(there) and (
            table in _CATEGORIES or any(name in there for name in _OTHER_NAMES)
        )

    def _calls(self, table: str) -> None:
        """Read calls of threads, of whatever interface."""
        name = next((n for n in _OTHER_NAMES if n in self._db.tables[table]), "nameId")
        columns = ("globalTid", "globalPid", "correlationId", "overheadType", name)
        rows = self._usable(table, columns)
        if not len(rows["start"]):
            return
        category = _CATEGORIES.get(table, _plain(table))
        thread = np.where(
            rows["globalTid"] != NONE, rows["globalTid"], rows["globalPid"]
        )
        threads, _, at = ranked(thread)
        part, order = ("", 1) if category.startswith("cuda_") else (category, 2)
        tracks = np.array(
            [self._thread_track(t, part, order) for t in threads.tolist()], np.int64
        )
        names = self._names(rows[name], category)
        if category == "overhead":
            kinds, _, kind = ranked(rows["overheadType"])
            texts = [_OVERHEADS.get(k, "overhead") for k in kinds.tolist()]
            names = np.where(
                rows[name] == NONE, self._strings.intern_many(texts)[kind], names
            ).astype(np.int32)
        is_call = category in ("cuda_runtime", "cuda_driver")
        process = np.where(thread != NONE, thread & ~np.int64(_TID), thread)
        self.into.spans.append(
            Events(
                record=rows["record"],
                start=rows["start"],
                end=rows["end"],
                track=tracks[at],
                name=names,
                category=category,
                launch=self._launch(process, rows["correlationId"])
                if is_call
                else None,
                is_call=is_call,
                thread=thread if is_call else None,
            )
        )

    def _nvtx(self) -> None:
        """Read ranges and marks that the program itself set."""
        if not self._db.has(_NVTX, "start"):
            return
        columns = ("start", "end", "eventType", "globalTid", "textId", "domainId")
        rows = self.whole(_NVTX, columns)
        name = self._nvtx_names(rows["textId"])
        # The default domain has the number 0; older exports have no domains.
        domain = np.maximum(rows["domainId"], 0)
        is_named = (rows["eventType"] == _DOMAIN) & (name >= 0)
        domains = {
            int(number): self._strings[int(text)]
            for number, text in zip(domain[is_named], name[is_named], strict=True)
        }
        is_range = np.isin(rows["eventType"], _RANGES) | (rows["end"] != NONE)
        is_mark = np.isin(rows["eventType"], _MARKS)
        is_open = is_range & (rows["end"] == NONE)
        # Ranges that nobody ended last to the end of the recording.
        last = int(rows["end"].max(initial=NONE))
        end = np.where(is_open, np.maximum(rows["start"], last), rows["end"])
        good = self.into.usable(
            _NVTX, rows["start"], np.where(is_range, end, rows["start"])
        )
        for chosen, into, part in (
            (is_range & ~is_mark & good, self.into.spans, "NVTX"),
            (is_mark & good, self.into.markers, "NVTX marks"),
        ):
            if not chosen.any():
                continue
            thread = rows["globalTid"][chosen]
            started = rows["eventType"][chosen] == 60
            where, at = combined([thread, started.astype(np.int64), domain[chosen]])
            tracks = []
            for tid, is_started, number in where:
                title = f"{part} {domains.get(number, f'domain {number}')}"
                title = title if number else part
                if is_started:
                    title += " started"
                # The default domain stands first.
                tracks.append(self._thread_track(tid, title, int(number > 0)))
            into.append(
                Events(
                    record=rows["record"][chosen],
                    start=rows["start"][chosen],
                    end=end[chosen],
                    track=np.array(tracks, np.int64)[at],
                    name=name[chosen],
                    op=self._nvtx_ops(name[chosen]),
                    category="nvtx",
                    thread=thread,
                    is_open=is_open[chosen],
                )
            )

    def _nvtx_names(self, text_id: I64) -> I32:
        """Return the name of each NVTX event: registered, or spelled out."""
        names = self._names(text_id, "range")
        if not self._db.has(_NVTX, "text"):
            return names
        at = 0
        for block in islice(self._db.texts(_NVTX, ("text",)), self._max_blocks):
            texts = [row[1] for row in block][: len(names) - at]
            is_text = np.array(
                [isinstance(t, str) and t != "" for t in texts], np.bool_
            )
            spelled = [t for t, is_one in zip(texts, is_text, strict=True) if is_one]
            rows = at + np.flatnonzero(is_text)
            names[rows] = self._strings.intern_many(spelled)
            at += len(texts)
        return names

    def _nvtx_ops(self, names: I32) -> I32:
        """Return the names without the numbers that PyTorch gives each range."""
        different, _, place = ranked(names)
        texts = [
            _NVTX_NUMBERS.sub("", self._strings[int(n)]) for n in different.tolist()
        ]
        return self._strings.intern_many(texts)[place]

    def _switches(self) -> None:
        """Read which thread each core ran, from switches of the scheduler."""
        if not self._db.has(_SWITCHES, "start", "cpu", "isSchedIn", "globalTid"):
            return
        rows = self.whole(_SWITCHES, ("start", "cpu", "isSchedIn", "globalTid"))
        good = self.into.usable(_SWITCHES, rows["start"])
        order = np.flatnonzero(good)
        order = order[np.lexsort((rows["start"][order], rows["cpu"][order]))]
        rows = {name: column[order] for name, column in rows.items()}
        n = len(order)
        if n < 2:
            return
        same = (rows["cpu"][1:] == rows["cpu"][:-1]) & (
            rows["globalTid"][1:] == rows["globalTid"][:-1]
        )
        first = np.flatnonzero(
            same & (rows["isSchedIn"][:-1] == 1) & (rows["isSchedIn"][1:] == 0)
        )
        if not len(first):
            return
        cores, _, at = ranked(rows["cpu"][first])
        tracks = np.array(
            [
                self.into.track(Track(f"CPU {c}", LaneKind.COMMAND, ("CPUs",), (2, c)))
                for c in cores.tolist()
            ],
            np.int64,
        )
        threads, _, thread = ranked(rows["globalTid"][first])
        texts = [
            f"thread {t & _TID} {self._threads.get(t, '')}".rstrip()
            for t in threads.tolist()
        ]
        self.into.spans.append(
            Events(
                record=rows["record"][first],
                start=rows["start"][first],
                end=rows["start"][first + 1],
                track=tracks[at],
                name=self._strings.intern_many(texts)[thread],
                category="sched",
            )
        )

    # -- counters ------------------------------------------------------------

    def _memory(self) -> None:
        """Count what was allocated on devices since the recording began."""
        if not self._db.has(_MEMORY, "start", "bytes", "memoryOperationType"):
            return
        columns = ("start", "bytes", "memoryOperationType", "deviceId", "memKind")
        rows = self.whole(_MEMORY, columns)
        good = self.into.usable(_MEMORY, rows["start"])
        good &= (rows["bytes"] >= 0) & (rows["bytes"] < _LARGEST)
        rows = {name: column[good] for name, column in rows.items()}
        if not len(rows["start"]):
            return
        where, at = combined([rows["deviceId"], rows["memKind"]])
        change = np.where(rows["memoryOperationType"] == 1, -1, 1) * rows["bytes"]
        for number, (device, kind) in enumerate(where):
            mine = np.flatnonzero(at == number)
            mine = mine[np.argsort(rows["start"][mine], kind="stable")]
            word = _MEMORY_KINDS.get(kind, "memory")
            name = f"GPU {device} {word} allocated since the start"
            total = np.cumsum(change[mine]).astype(np.float64)
            self.into.counters.append(Series(name, "B", rows["start"][mine], total))

    def _metrics(self) -> None:
        """Read samples of the metrics of GPUs."""
        time = "timestamp" if self._db.has(_METRICS, "timestamp") else "start"
        if not self._db.has(_METRICS, time, "typeId", "metricId", "value"):
            return
        rows = self.whole(_METRICS, (time, "typeId", "metricId", "value"))
        good = self.into.usable(_METRICS, rows[time]) & (rows["value"] != NONE)
        rows = {name: column[good] for name, column in rows.items()}
        if not len(rows[time]):
            return
        columns = ("typeId", "metricId", "metricName")
        names = {
            (kind, metric): str(name)[:_MAX_NAME]
            for kind, metric, name in self._db.rows(_METRIC_INFO, columns)
        }
        where, at = combined([rows["typeId"], rows["metricId"]])
        for number, key in enumerate(where):
            mine = np.flatnonzero(at == number)
            mine = mine[np.argsort(rows[time][mine], kind="stable")]
            name = names.get((key[0], key[1]), f"metric {key[1]}")
            gpu = f"GPU {key[0] & 0xFF}"
            value = rows["value"][mine].astype(np.float64)
            self.into.counters.append(
                Series(f"{gpu} {name}", "", rows[time][mine], value)
            )


def _plain(table: str) -> str:
    """Return the category of calls by the name of their table."""
    word = table.removeprefix(_ACTIVITY).lower()
    return word.removesuffix("_events").removesuffix("_api")
