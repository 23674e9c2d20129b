"""Reader of ggml's profile, JSON version 2.

Source: pull request 21160 of llama.cpp and its forks: ``version, backends[{id, name,
device, device_type}], records[{type, name, backend_id, split_id, start_ns, duration_ns,
bytes, extra, ne_src0 …}]``; type 0 is an op, 1 a copy. Forks add ``tensor_name, ne,
type_src …``; what is there is used.
"""

from collections.abc import Sequence

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import (
    AccessColumns,
    Accesses,
    AccessKind,
    FlatAccesses,
    Space,
)
from ggscope.model.trace import LaneKind, OpTable, Severity, Trace
from ggscope.model.units import Clock
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import refuse_larger, trace_info
from ggscope.readers.common.json_cursor import outer_keys
from ggscope.readers.common.json_walk import (
    JsonRoot,
    integer_of,
    note_fault,
    walk_root,
)
from ggscope.readers.ggml_profile import INFO
from ggscope.readers.source import Source

_MOST_BYTES = 1 << 30
_OP, _COPY = 0, 1
_FAR = 1 << 60
_MOST_NAME = 256
_MOST_LANES = 4096


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
        refuse_larger(source, _MOST_BYTES, "Profile fewer tokens.")
        builder = TraceBuilder()
        records, backends = _Records(), _Backends()
        walked = walk_root(
            source,
            context,
            builder,
            {"records": records.take, "backends": backends.take},
        )
        n = len(records.start)
        if walked.fault is not None:
            note_fault(builder, source, walked.fault, f"{n:,} records", n)
        if not n:
            raise CorruptError(
                "no record of the profile can be read.",
                hint="Is this what llama.cpp --profile wrote?",
            )
        records.add_to(builder, backends)
        _warn(builder, records, walked)
        return builder.snapshot(
            trace_info(
                self.info,
                source,
                n,
                version=str(integer_of(walked.facts.get("version")) or ""),
                producer=backends.facts(),
                summary={"events": {"ops": records.n_ops, "copies": n - records.n_ops}},
            )
        )


def _warn(builder: TraceBuilder, records: "_Records", walked: JsonRoot) -> None:
    version = integer_of(walked.facts.get("version"))
    if version is not None and version > 2:
        builder.warn(
            Severity.NOTICE,
            "profile_version",
            f"the profile has version {version}; what version 2 has was read.",
        )
    if records.n_bad:
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
        self.names[number] = name[:_MOST_NAME]
        if isinstance(device := value.get("device"), str):
            self.devices[number] = device[:_MOST_NAME]

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
        self.n_bad, self.first_bad, self._n_seen = 0, -1, 0

    @property
    def n_ops(self) -> int:
        """Records that are no copies."""
        return len(self.is_copy) - sum(self.is_copy)

    def take(self, value: object) -> None:
        """Take one element of "records"."""
        number, self._n_seen = self._n_seen, self._n_seen + 1
        found = value if isinstance(value, dict) else {}
        start, duration = (
            integer_of(found.get(key)) for key in ("start_ns", "duration_ns")
        )
        backend = integer_of(found.get("backend_id"))
        if start is None or duration is None or backend is None:
            self._skip(number)
            return
        if not 0 <= start < _FAR or not 0 <= duration < _FAR:
            self._skip(number)
            return
        op, is_copy = (
            str(found.get("name") or "")[:_MOST_NAME],
            found.get("type") == _COPY,
        )
        self.start.append(start)
        self.duration.append(duration)
        self.backend.append(backend)
        self.is_copy.append(is_copy)
        self.op.append(op)
        self.name.append(_title(found, op))
        n_bytes = integer_of(found.get("bytes"))
        is_known = n_bytes is not None and 0 <= n_bytes < _FAR
        self.bytes.append(n_bytes if is_known and n_bytes is not None else -1)
        self.record.append(number)

    def _skip(self, number: int) -> None:
        self.n_bad += 1
        self.first_bad = number if self.first_bad < 0 else self.first_bad

    def add_to(self, builder: TraceBuilder, backends: _Backends) -> None:
        """Add lanes, spans and accesses."""
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

    def _lanes(self, builder: TraceBuilder, backends: _Backends) -> np.ndarray:
        keys = list(zip(self.backend, self.is_copy, strict=True))
        lanes: dict[tuple[int, bool], int] = {}
        for key in sorted(set(keys))[:_MOST_LANES]:
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
        return name[:_MOST_NAME]
    sources = [_shape(record.get(f"ne_src{i}")) for i in range(3)]
    if isinstance(listed := record.get("ne_src"), list):
        sources = [_shape(one) for one in listed[:3]]
    shapes = " · ".join(filter(None, sources))
    return f"{op} {shapes}".strip()


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
