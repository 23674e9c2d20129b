"""Reader of ggml's profile, JSON version 2.

Source: pull request 21160 of llama.cpp and its forks: ``version, backends[{id, name,
device, device_type}], records[{type, name, backend_id, split_id, start_ns, duration_ns,
bytes, extra, ne_src0 …}]``; type 0 is an op, 1 a copy. Forks add ``tensor_name, ne,
out_type, ne_src[], type_src[]`` and ``fn_records[{name, start_ns, end_ns, pid, tid}]``
with the names of threads; what is there is used.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.backend_ops import (
    BackendOps,
    OpSources,
    SplitInputs,
    Splits,
    timed_ops,
)
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml.types import type_name
from ggscope.model.tables import (
    I32,
    I64,
    AccessColumns,
    Accesses,
    AccessKind,
    FlatAccesses,
    Space,
    places_among,
)
from ggscope.model.trace import LaneKind, OpTable, Severity, Trace
from ggscope.model.units import Clock
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import file_trace, refuse_larger
from ggscope.readers.common.json_cursor import outer_keys
from ggscope.readers.common.json_walk import (
    JsonRoot,
    integer_of,
    note_fault,
    walk_root,
)
from ggscope.readers.ggml_profile import INFO
from ggscope.readers.source import Source

_MAX_BYTES = 1 << 30
_OP, _COPY = 0, 1
_FAR = 1 << 60
_MAX_NAME = 256
_MAX_LANES = 4096
_MAX_SOURCES = 10
"""GGML_MAX_SRC."""
_THREADS = ("fn_threads", "threads")
"""Keys under which forks name threads."""


class GgmlProfileReader:
    """Reads ggml's profiles."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its keys."""
        keys = outer_keys(head.data)
        if "records" not in keys and b'"records"' not in head.data:
            return NOT_MINE
        has_records = b'"backend_id"' in head.data and b'"duration_ns"' in head.data
        if not has_records:
            return NOT_MINE
        is_whole = {"version", "backends"} <= keys
        return Sniff(90 if is_whole else 60, "records of backends with start and end")

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a profile.

        Raises
        ------
        CorruptError
            If there is no record.
        LimitExceededError
            If the file is too large to be one.
        """
        refuse_larger(source, _MAX_BYTES, "Profile fewer tokens.")
        builder = TraceBuilder()
        records, backends, functions = _Records(), _Backends(), _Functions()
        walked = walk_root(
            source,
            context,
            builder,
            {
                "records": records.take,
                "backends": backends.take,
                "fn_records": functions.take,
                **dict.fromkeys(_THREADS, functions.take_thread),
            },
        )
        n = len(records.start)
        if walked.fault is not None:
            note_fault(builder, source, walked.fault, f"{n:,} records", n)
        if not n:
            raise CorruptError(
                "no record of the profile can be read.",
                hint="Is this what llama.cpp --profile wrote?",
            )
        origin = records.add_to(builder, backends)
        functions.add_to(builder, origin)
        _warn(builder, records, functions, walked)
        events = {"ops": records.n_ops, "copies": n - records.n_ops}
        if len(functions):
            events["functions"] = len(functions)
        return file_trace(
            builder, INFO, source, n, events, producer=backends.facts(),
            version=str(integer_of(walked.facts.get("version")) or ""),
        )  # fmt: skip


def _warn(
    builder: TraceBuilder,
    records: "_Records",
    functions: "_Functions",
    walked: JsonRoot,
) -> None:
    version = integer_of(walked.facts.get("version"))
    if version is not None and version > 2:
        builder.warn(
            Severity.NOTICE,
            "profile_version",
            f"the profile has version {version}; what version 2 has was read.",
        )
    builder.warn(
        Severity.DATA_LOSS,
        "bad_function",
        "calls of functions without a name, begin or end were skipped.",
        count=functions.n_bad,
    )
    builder.warn(
        Severity.DATA_LOSS,
        "bad_record",
        "records without a backend, begin or duration were skipped.",
        count=records.n_bad,
        place=f"records[{records.first_bad}]",
    )


class _Backends:
    """Names of the backends by their number."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.devices: dict[int, str] = {}

    def take(self, value: object) -> None:
        """Take one element of "backends"."""
        if not isinstance(value, dict):
            return
        number, name = integer_of(value.get("id")), value.get("name")
        if number is None or not isinstance(name, str):
            return
        self.names[number] = name[:_MAX_NAME]
        if isinstance(device := value.get("device"), str):
            self.devices[number] = device[:_MAX_NAME]

    def name(self, number: int) -> str:
        """Return the name of a backend."""
        return self.names.get(number, f"backend {number}")

    def facts(self) -> dict[str, str]:
        """Return the device of each backend."""
        return {f"device {self.name(n)}": d for n, d in self.devices.items()}


class _Records:
    """Takes the records of a profile one by one."""

    def __init__(self) -> None:
        self.start: list[int] = []
        self.duration: list[int] = []
        self.backend: list[int] = []
        self.is_copy: list[bool] = []
        self.op: list[str] = []
        self.name: list[str] = []
        self.bytes: list[int] = []
        self.record: list[int] = []
        self._split: list[int] = []
        self._tensor: list[str] = []
        self._shape: list[str] = []
        self._dtype: list[str] = []
        self.n_bad, self.first_bad, self._n_seen = 0, -1, 0

    @property
    def n_ops(self) -> int:
        """Records that are no copies."""
        return len(self.is_copy) - sum(self.is_copy)

    def take(self, value: object) -> None:
        """Take one element of "records"."""
        number, self._n_seen = self._n_seen, self._n_seen + 1
        record = value if isinstance(value, dict) else {}
        start, duration = (
            integer_of(record.get(key)) for key in ("start_ns", "duration_ns")
        )
        backend = integer_of(record.get("backend_id"))
        if start is None or duration is None or backend is None:
            self._skip(number)
            return
        if not 0 <= start < _FAR or not 0 <= duration < _FAR:
            self._skip(number)
            return
        op, is_copy = (
            str(record.get("name") or "")[:_MAX_NAME],
            record.get("type") == _COPY,
        )
        self.start.append(start)
        self.duration.append(duration)
        self.backend.append(backend)
        self.is_copy.append(is_copy)
        self.op.append(op)
        self.name.append(_title(record, op))
        n_bytes = integer_of(record.get("bytes"))
        is_known = n_bytes is not None and 0 <= n_bytes < _FAR
        self.bytes.append(n_bytes if is_known and n_bytes is not None else -1)
        self.record.append(number)
        split = integer_of(record.get("split_id"))
        known = split is not None and 0 <= split < 1 << 31
        self._split.append(split if known and split is not None else -1)
        tensor = record.get("tensor_name")
        self._tensor.append(tensor[:_MAX_NAME] if isinstance(tensor, str) else "")
        self._shape.append(_arrow(_sources(record), _shape(record.get("ne"))))
        self._dtype.append(_types(record))

    def _skip(self, number: int) -> None:
        self.n_bad += 1
        self.first_bad = number if self.first_bad < 0 else self.first_bad

    def add_to(self, builder: TraceBuilder, backends: _Backends) -> int:
        """Add lanes, spans, accesses and the listing; return the first nanosecond."""
        start = np.array(self.start, np.int64)
        origin = int(start.min())
        builder.clock = Clock(origin=origin)
        ops = sorted(set(self.op))
        number = {name: i for i, name in enumerate(ops)}
        builder.ops = OpTable("profile", tuple(ops), "spelled")
        names = builder.strings.intern_many(self.name)
        n = len(start)
        builder.add_spans(
            start=start - origin,
            end=start - origin + np.array(self.duration, np.int64),
            lane=self._lanes(builder, backends),
            name=np.asarray(names, np.int32),
            op=np.array([number[op] for op in self.op], np.int16),
            record=np.array(self.record, np.int64),
        )
        size = np.array(self.bytes, np.int64)
        rows = np.flatnonzero(size >= 0)
        none = np.full(len(rows), -1, np.int32)
        what = AccessColumns(
            tensor=none,
            kind=np.full(len(rows), AccessKind.READ, np.uint8),
            space=np.full(len(rows), Space.UNKNOWN, np.uint8),
            offset=np.full(len(rows), -1, np.int64),
            size=size[rows],
            buffer=none,
            layer=np.full(len(rows), -1, np.int16),
            expert=np.full(len(rows), -1, np.int16),
            address=np.zeros(len(rows), np.uint64),
        )
        pattern = np.full(n, -1, np.int32)
        pattern[rows] = np.arange(len(rows))
        first = np.arange(len(rows) + 1, dtype=np.int64)
        builder.accesses = Accesses(pattern, first, what, FlatAccesses.blank())
        builder.backend_ops = self._listing(backends)
        return origin

    def _listing(self, backends: _Backends) -> BackendOps:
        """Return ops by backend, and the splits with what was copied to each.

        A graph begins where the number of the split is lower than of the record before.
        """
        numbers: dict[str, int] = {}

        def numbered(texts: Iterable[str]) -> I32:
            ids = [numbers.setdefault(t, len(numbers)) if t else -1 for t in texts]
            return np.array(ids, np.int32)

        n = len(self.start)
        order = np.lexsort((np.arange(n), np.array(self.start, np.int64)))
        is_op = ~np.array(self.is_copy, np.bool_)
        split = np.array(self._split, np.int64)
        graph = np.zeros(n, np.int64)
        graph[order[1:]] = np.cumsum(split[order[1:]] < split[order[:-1]])
        backend = numbered(map(backends.name, self.backend))
        # A split is of the backend of its ops; one of copies alone, of theirs.
        by_kind = order[np.argsort(~is_op[order], kind="stable")]
        table, of_split = _splits(graph, split, backend, by_kind)
        rows = np.flatnonzero(is_op)
        size = np.array(self.bytes, np.int64)
        name = numbered(self._tensor)
        op = numbered(self.op)
        ops = timed_ops(
            line=np.array(self.record, np.int64),
            op=op,
            name=name,
            backend=backend,
            shape=numbered(self._shape),
            time=np.array(self.duration, np.int64),
            span=np.arange(n, dtype=np.int64),
        )
        ops = replace(
            ops,
            graph=graph.astype(np.int32),
            split=of_split.astype(np.int32),
            dtype=numbered(self._dtype),
            size=size,
            step=np.where(size >= 0, 1, -1),
        ).take(rows)
        copies = order[~is_op[order] & (of_split[order] >= 0)]
        copies = copies[np.argsort(of_split[copies], kind="stable")]
        count = np.bincount(of_split[copies], minlength=len(table))
        return BackendOps(
            tuple(numbers),
            ops,
            OpSources.blank(),
            replace(table, n_inputs=count.astype(np.int64)),
            SplitInputs(
                split=of_split[copies].astype(np.int32),
                name=np.where(name[copies] >= 0, name[copies], op[copies]),
                size=size[copies],
                step=np.where(size[copies] >= 0, 1, -1),
            ),
            n_graphs=int(graph.max(initial=0)) + 1,
        )

    def _lanes(self, builder: TraceBuilder, backends: _Backends) -> np.ndarray:
        keys = list(zip(self.backend, self.is_copy, strict=True))
        lanes: dict[tuple[int, bool], int] = {}
        for key in sorted(set(keys))[:_MAX_LANES]:
            backend, is_copy = key
            name = backends.name(backend)
            title = f"{name} copies" if is_copy else name
            lanes[key] = builder.add_lane(
                title, LaneKind.THREAD, ("Backends",), (len(lanes),)
            )
        last = len(lanes) - 1
        return np.array([lanes.get(key, last) for key in keys], np.int32)


def _title(record: dict[str, object], op: str) -> str:
    """Return the name of the tensor, else op and shapes."""
    if isinstance(name := record.get("tensor_name"), str) and name:
        return name[:_MAX_NAME]
    return f"{op} {_sources(record)}".strip()


def _sources(record: dict[str, object]) -> str:
    """Return the shapes of the sources, ``4096×32 · 4096``."""
    sources = [_shape(record.get(f"ne_src{i}")) for i in range(3)]
    if isinstance(listed := record.get("ne_src"), list):
        sources = [_shape(one) for one in listed[:_MAX_SOURCES]]
    return " · ".join(filter(None, sources))


def _types(record: dict[str, object]) -> str:
    """Return the types of sources and result, ``q4_0 · f32 → f32``; "" unknown."""
    listed = record.get("type_src")
    of_sources = listed[:_MAX_SOURCES] if isinstance(listed, list) else []
    names = [_type(one) for one in of_sources]
    return _arrow(" · ".join(filter(None, names)), _type(record.get("out_type")))


def _type(value: object) -> str:
    number = integer_of(value)
    if number is None or not 0 <= number < 1 << 10:
        return ""
    return type_name(number)


def _arrow(before: str, behind: str) -> str:
    return f"{before} → {behind}" if before and behind else before or behind


def _splits(graph: I64, split: I64, backend: I32, records: I64) -> tuple[Splits, I64]:
    """Return splits in the order of graphs, and the one of each record, -1 none.

    Parameters
    ----------
    records : in the order in which their backend counts as that of the split.
    """
    records = records[split[records] >= 0]
    keys = np.stack([graph[records], split[records]], axis=1)
    different, first = np.unique(keys, axis=0, return_index=True)
    of_record = np.full(len(graph), -1, np.int64)
    if len(different):
        width = int(split.max()) + 2
        known = different[:, 0] * width + different[:, 1]
        key = graph * width + split
        of_record = np.where(split >= 0, places_among(known, key), -1)
    return (
        Splits(
            line=records[first],
            graph=different[:, 0].astype(np.int32),
            number=different[:, 1],
            backend=backend[records[first]],
            n_inputs=np.zeros(len(different), np.int64),
        ),
        of_record,
    )


class _Functions:
    """Takes the calls of functions that forks record, and names of threads."""

    def __init__(self) -> None:
        self._name: list[str] = []
        self._start: list[int] = []
        self._end: list[int] = []
        self._thread: list[tuple[int, int]] = []
        self._threads: dict[int, str] = {}
        self.n_bad = 0

    def __len__(self) -> int:
        return len(self._start)

    def take(self, value: object) -> None:
        """Take one element of "fn_records"."""
        record = value if isinstance(value, dict) else {}
        start, end, name = (record.get(key) for key in ("start_ns", "end_ns", "name"))
        first, last = integer_of(start), integer_of(end)
        is_sound = first is not None and last is not None and isinstance(name, str)
        if not is_sound or first is None or last is None:
            self.n_bad += 1
            return
        if not 0 <= first <= last < _FAR:
            self.n_bad += 1
            return
        pid, tid = integer_of(record.get("pid")), integer_of(record.get("tid"))
        self._name.append(str(name)[:_MAX_NAME])
        self._start.append(first)
        self._end.append(last)
        self._thread.append((-1 if pid is None else pid, -1 if tid is None else tid))

    def take_thread(self, value: object) -> None:
        """Take the name of a thread."""
        if not isinstance(value, dict):
            return
        tid, name = integer_of(value.get("tid")), value.get("name")
        if tid is not None and isinstance(name, str):
            self._threads[tid] = name[:_MAX_NAME]

    def add_to(self, builder: TraceBuilder, origin: int) -> None:
        """Add a lane per thread and the calls on them."""
        if not self._start:
            return
        threads = sorted(set(self._thread))
        several = len({pid for pid, _ in threads}) > 1
        lanes: dict[tuple[int, int], int] = {}
        for pid, tid in threads[:_MAX_LANES]:
            name = self._threads.get(tid, f"thread {tid}" if tid >= 0 else "functions")
            group = ("Functions", f"process {pid}") if several else ("Functions",)
            lanes[pid, tid] = builder.add_lane(
                name, LaneKind.THREAD, group, (len(lanes),)
            )
        last = lanes[threads[min(len(threads), _MAX_LANES) - 1]]
        names = builder.strings.intern_many(self._name)
        builder.add_spans(
            start=np.array(self._start, np.int64) - origin,
            end=np.array(self._end, np.int64) - origin,
            lane=np.array([lanes.get(one, last) for one in self._thread], np.int32),
            name=np.asarray(names, np.int32),
        )


def _shape(value: object) -> str:
    """Return ``4096×32``; "" where it is no shape or an empty one."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ""
    sizes = [integer_of(size) for size in value[:4]]
    known = [size for size in sizes if size is not None and size > 0]
    if not known or len(known) < len(sizes):
        return ""
    while len(known) > 1 and known[-1] == 1:
        known.pop()
    return "×".join(map(str, known))
