"""Reader of storage traces: requests as spans, page faults as markers, by any tool."""

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.storage import (
    Device,
    IoKind,
    IoLevel,
    IoRequests,
    Storage,
    StorageFile,
)
from ggscope.model.tables import (
    FAILED_COLOR,
    I32,
    I64,
    Array,
    CounterShape,
    SpanFlag,
    narrow,
    ranked,
)
from ggscope.model.trace import LaneKind, OpTable, Severity, Trace
from ggscope.model.units import Clock, format_bytes
from ggscope.native.library import library
from ggscope.readers.api import (
    NOT_MINE,
    Estimate,
    Head,
    ReadContext,
    Sniff,
)
from ggscope.readers.common.file_facts import file_trace
from ggscope.readers.common.line_clock import LineClock, epoch_of, n_backwards, settled
from ggscope.readers.common.line_records import LineRecords
from ggscope.readers.common.line_table import warn_broken, warn_stray
from ggscope.readers.common.text_blocks import lines_estimate, whole_lines
from ggscope.readers.source import Source
from ggscope.readers.storage import INFO, PARTITION
from ggscope.readers.storage.lines import (
    Form,
    IoLines,
    Layout,
    layout_of,
    scan_lines,
    scan_text,
)
from ggscope.readers.storage.requests import (
    Notes,
    Requests,
    remaps,
    requests_of,
    resolution_of,
)

OP_TABLE_ID = "storage"
_FIRST_BYTES = 4 << 20
"""Of a long file, shown before the rest is read."""
_ROW_BYTES = 150
"""Memory of a line while it is read."""
_MAX_PLACES = 256
"""Lanes of a device; of a deeper queue the last one shows the rest."""
_MAX_LANES = 1024
_MAX_NAMES = 20_000
_FURTHEST = 1 << 61
_LONGEST = 1 << 60
"""Shorter requests, of times below `_FURTHEST`, lie within 2^62 ns of each other."""
_SURE, _LIKELY = 85, 82
_OPS = tuple(kind.name for kind in IoKind)


class StorageReader:
    """Reads what tools print of requests to storage, reads and page faults."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its lines."""
        if b"\0" in head.data:
            return NOT_MINE
        lines = scan_text(whole_lines(head), layout_of(head.data))
        form = Form(int(np.argmax(lines.forms)))
        n = int(lines.forms[form])
        if not len(lines) or not n:
            return NOT_MINE
        if form is Form.STRACE and not _has_reads(lines):
            return NOT_MINE
        if n * 4 < lines.n_other + lines.n_broken:
            return Sniff(20, f"some lines look like those of {form.title}")
        return Sniff(_SURE, f"lines of {form.title}")

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by its first lines."""
        if not head.data:
            return None
        lines = scan_text(whole_lines(head), layout_of(head.data))
        return lines_estimate(head, lines.n_lines, len(lines), 110, 3 * _ROW_BYTES)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace of the requests of a file.

        Raises
        ------
        CorruptError
            If no line is an event.
        ReadError
            If an option is invalid.
        """
        partition = INFO.option_values(context.options)[PARTITION]
        context.progress(0, source.size)
        first = source.read(0, min(source.size, _FIRST_BYTES))
        layout = layout_of(first)
        some = scan_text(first[: first.rfind(b"\n") + 1] or first, layout)
        forms = sum(1 << int(form) for form in np.flatnonzero(some.forms))
        layout = layout_of(first, forms or layout.forms)
        if context.wants_stages and source.size > 4 * _FIRST_BYTES and len(some):
            context.publish(
                _trace(source, context, some, layout, partition, is_part=True)
            )
        lines = scan_lines(source, context, layout)
        if not lines.n_events:
            raise CorruptError(
                "no line is an event of a storage trace.",
                offset=0,
                hint="Is this the output of blkparse, biosnoop, strace or perf?",
            )
        return _trace(source, context, lines, layout, partition)


def _has_reads(lines: IoLines) -> bool:
    """Return whether strace saw reads or mappings of files."""
    return bool(np.isin(lines.action, [ord(letter) for letter in "rpm"]).any())


def _trace(
    source: Source,
    context: ReadContext,
    lines: IoLines,
    layout: Layout,
    partition: str,
    *,
    is_part: bool = False,
) -> Trace:
    """Return the trace of some lines; `is_part` where more follow."""
    time, is_placed = lines.time.copy(), np.abs(lines.time) < _FURTHEST
    settled(lines.clock, time, is_placed)
    has_times = bool((lines.clock != LineClock.OF_ROW_BEFORE).any())
    if not has_times:
        time[:], is_placed[:] = np.arange(len(time)), True
    context.check_cancelled()
    requests, notes = requests_of(lines, layout, time)
    took = requests.end - requests.start  # wrapped where the sum was beyond int64
    is_endless = is_placed[requests.row] & ((took < 0) | (took >= _LONGEST))
    n_endless = int(np.count_nonzero(is_endless))
    requests = requests.take(np.flatnonzero(is_placed[requests.row] & ~is_endless))
    context.check_cancelled()
    start = requests.start
    requests = requests.take(np.argsort(start, kind="stable"))
    builder = TraceBuilder()
    origin = int(requests.start.min()) if len(requests) else 0
    epoch = epoch_of(origin)
    builder.clock = Clock("ns", origin, epoch=None if epoch is None else 0)
    made = _StorageTrace(builder, lines, requests, origin)
    made.add_spans()
    context.check_cancelled()
    made.add_markers()
    made.add_depth()
    builder.storage = Storage(
        requests=made.table(),
        files=made.files(),
        devices=made.devices(partition),
        has_sizes=bool((requests.size >= 0).any()),
        resolution=resolution_of(lines, layout),
        has_own_clock=epoch is None,
    )
    if not is_part:
        _warn(builder, lines, notes, requests, has_times=has_times)
        if lines.forms[Form.BIOSNOOP] and not layout.has_sizes:
            builder.warn(
                Severity.NOTICE,
                "no_request_sizes",
                "biosnoop of bpftrace states neither size nor offset of "
                "requests; times are whole milliseconds.",
                remedy="Use biosnoop of bcc, or blktrace.",
            )
        n_lost = int(np.count_nonzero(~is_placed)) + n_endless
        builder.warn(
            Severity.DATA_LOSS,
            "bad_event_time",
            "lines have no time, or a time or duration beyond all bounds; they "
            "are left out.",
            count=n_lost,
        )
        n_back = n_backwards(lines.clock[is_placed], time[is_placed])
        if n_back and not lines.forms[Form.BLKPARSE]:
            builder.warn(
                Severity.INFO,
                "clock_back",
                "lines are earlier than those before them in the file.",
                count=n_back,
            )
    rows = np.sort(requests.row)
    builder.records = LineRecords(source.path, lines.line[rows], lines.offset[rows])
    forms = ", ".join(Form(i).title for i in np.flatnonzero(lines.forms).tolist())
    until = int(requests.start.max(initial=origin)) - origin if is_part else None
    return file_trace(
        builder, INFO, source, lines.n_lines, events_of(lines, requests),
        version=forms, producer={"written by": forms}, read_until=until,
        pending=frozenset({"spans"}) if is_part else frozenset(),
    )  # fmt: skip


def events_of(lines: IoLines, requests: Requests) -> dict[str, object]:
    """Return what the file holds, counted by its own names."""
    events: dict[str, object] = {
        "events": lines.n_events,
        "other_lines": lines.n_other,
        "broken_lines": lines.n_broken,
        "requests": len(requests),
    }
    if lines.forms[Form.BLKPARSE]:
        letters = np.flatnonzero(lines.actions).tolist()
        events["actions"] = {chr(i): int(lines.actions[i]) for i in letters}
        reads = (lines.kind == IoKind.READ) & (lines.form == Form.BLKPARSE)
        for letter, name in (
            ("D", "read_dispatch_bytes"),
            ("C", "read_complete_bytes"),
        ):
            rows = reads & (lines.action == ord(letter)) & (lines.size > 0)
            events[name] = int(lines.size[rows].sum())
    return events


class _StorageTrace:
    """Fills a builder with the requests of a file, which are in order of start."""

    def __init__(
        self, builder: TraceBuilder, lines: IoLines, requests: Requests, origin: int
    ) -> None:
        self._builder, self._lines, self._requests = builder, lines, requests
        self._start = requests.start - origin
        self._end = requests.end - origin
        self._span = np.full(len(requests), -1, np.int64)
        self._texts = builder.strings.intern_many(lines.texts) if lines.texts else None
        self._device, self._device_names = _devices_of(lines, requests)
        self._file, self._paths = _files_of(lines, requests)
        builder.ops = OpTable(OP_TABLE_ID, _OPS, "spelled")

    def add_spans(self) -> None:
        """Add requests and calls, on as many lanes as ran at once."""
        requests = self._requests
        lasts = (requests.level == IoLevel.DEVICE) | (requests.level == IoLevel.CALL)
        rows = np.flatnonzero(lasts)
        if not len(rows):
            return
        lane = self._lanes(rows)
        order = np.lexsort((self._start[rows], lane))
        rows, lane = rows[order], lane[order]
        failed = requests.is_failed[rows]
        first = self._builder.add_spans(
            start=self._start[rows],
            end=self._end[rows],
            lane=narrow(lane),
            name=self._names(rows),
            op=requests.kind[rows].astype(np.int16),
            flags=np.where(requests.is_open[rows], int(SpanFlag.UNFINISHED), 0).astype(
                np.uint16
            ),
            record=narrow(self._lines.line[requests.row[rows]]),
            color=np.where(failed, FAILED_COLOR, 0).astype(np.uint32)
            if failed.any()
            else None,
        )
        self._span[rows] = first + np.arange(len(rows))

    def _lanes(self, rows: I64) -> I64:
        """Add a lane per device or thread and request at once; return each one's."""
        requests = self._requests
        is_call = requests.level[rows] == IoLevel.CALL
        _, first, group = ranked(
            np.where(is_call, requests.pid[rows].astype(np.int64), self._device[rows])
            * 2
            + is_call
        )
        group = np.minimum(group, _MAX_LANES)
        first = first[: _MAX_LANES + 1]
        lanes = np.zeros(len(rows), np.int64)
        order = np.argsort(group, kind="stable")
        bounds = np.searchsorted(group[order], np.arange(len(first) + 1))
        n_lanes = 0
        for number in range(len(first)):
            mine = order[bounds[number] : bounds[number + 1]]
            where = self._group_name(int(rows[mine[0]]), bool(is_call[mine[0]]))
            where = where if number < _MAX_LANES else "others"
            place = np.zeros(len(mine), np.int32)
            n_places = 1
            if number < _MAX_LANES:
                n_places = library().ggscope_storage_places(
                    np.ascontiguousarray(self._start[rows[mine]]),
                    np.ascontiguousarray(self._end[rows[mine]]),
                    len(mine),
                    np.zeros(_MAX_PLACES, np.int64),
                    min(_MAX_PLACES, max(_MAX_LANES - n_lanes, 1)),
                    place,
                )
            ids = [
                self._builder.add_lane(
                    where if n_places == 1 else f"{where} · {k + 1}",
                    LaneKind.IO,
                    ("Requests",) if not is_call[mine[0]] else ("Reads",),
                    (number, k),
                )
                for k in range(n_places)
            ]
            n_lanes += n_places
            lanes[mine] = np.array(ids, np.int64)[place]
        return lanes

    def _group_name(self, row: int, is_call: bool) -> str:
        if is_call:
            pid = int(self._requests.pid[row])
            return f"thread {pid}" if pid >= 0 else "calls"
        device = int(self._device[row])
        return self._device_names[device] if device >= 0 else "device"

    def _names(self, rows: I64) -> I32:
        """Return the name of each request: what it asks, and how much."""
        requests = self._requests
        _, first, place = ranked(requests.size[rows] * 16 + requests.kind[rows])
        if len(first) > _MAX_NAMES:
            _, first, place = ranked(requests.kind[rows].astype(np.int64))
            names = [IoKind(int(requests.kind[i])).word for i in rows[first].tolist()]
        else:
            names = [
                _name(int(requests.kind[i]), int(requests.size[i]))
                for i in rows[first].tolist()
            ]
        return self._builder.strings.intern_many(names)[place].astype(np.int32)

    def add_markers(self) -> None:
        """Add page faults and events of files."""
        requests = self._requests
        for level, group in ((IoLevel.FAULT, "Page faults"), (IoLevel.FILE, "Files")):
            rows = np.flatnonzero(requests.level == level)
            if not len(rows):
                continue
            kinds, _, kind = ranked(requests.kind[rows].astype(np.int64))
            for number, code in enumerate(kinds.tolist()):
                mine = rows[kind == number]
                lane = self._builder.add_lane(
                    f"{IoKind(code).word}s"
                    if level is IoLevel.FAULT
                    else IoKind(code).word,
                    LaneKind.MARKER,
                    (group,),
                )
                self._builder.add_markers(
                    time=self._start[mine],
                    lane=lane,
                    name=self._marker_names(mine),
                    record=self._lines.line[requests.row[mine]],
                )

    def _marker_names(self, rows: I64) -> I32:
        """Return the file of each fault or event, else its process."""
        path, name = self._requests.path[rows], self._requests.name[rows]
        text = np.where(path >= 0, path, name)
        if self._texts is None:
            return np.full(len(rows), -1, np.int32)
        return np.append(self._texts, np.int32(-1))[text].astype(np.int32)

    def add_depth(self) -> None:
        """Add how many requests each device had in flight."""
        requests = self._requests
        chosen = (requests.level == IoLevel.DEVICE) & ~requests.is_open
        for device in range(-1, len(self._device_names)):
            rows = np.flatnonzero(chosen & (self._device == device))
            if not len(rows):
                continue
            name = self._device_names[device] if device >= 0 else "device"
            times = np.concatenate([self._start[rows], self._end[rows]])
            step = np.repeat([1.0, -1.0], len(rows))
            order = np.argsort(times, kind="stable")
            times, depth = times[order], np.cumsum(step[order])
            # Of several changes at one tick the last one counts.
            last = np.append(times[1:] != times[:-1], True)
            self._builder.add_counter(
                f"in flight, {name}",
                "requests",
                CounterShape.LEVEL,
                times[last],
                depth[last],
            )

    def table(self) -> IoRequests:
        """Return the requests as the model has them."""
        requests = self._requests
        strings = self._texts
        process = np.full(len(requests), -1, np.int32)
        if strings is not None:
            process = np.append(strings, np.int32(-1))[requests.name].astype(np.int32)
        return IoRequests(
            start=self._start,
            end=self._end,
            is_open=requests.is_open,
            queued=requests.queued,
            kind=requests.kind,
            level=requests.level,
            size=requests.size,
            sector=requests.place,
            offset=requests.offset,
            file=self._file,
            device=self._device.astype(np.int32),
            process=process,
            pid=requests.pid,
            span=self._span,
        )

    def files(self) -> tuple[StorageFile, ...]:
        """Return the files that lines name."""
        return tuple(StorageFile(path) for path in self._paths)

    def devices(self, partition: str) -> tuple[Device, ...]:
        """Return the devices, with where their partitions begin.

        A remapped request names the device it came from, or that it goes to; either
        may be the one whose requests are seen.
        """
        starts = tuple(dict.fromkeys(delta for _, delta in remaps(self._lines)))
        if partition:
            starts = (int(float(partition)),)
        return tuple(
            Device(name, starts, is_stated=bool(partition))
            for name in self._device_names
        )


def _name(kind: int, size: int) -> str:
    word = IoKind(kind).word
    return f"{word} {format_bytes(size)}" if size >= 0 else word


def _devices_of(lines: IoLines, requests: Requests) -> tuple[I64, list[str]]:
    """Return the place of each request's device among the names, -1 none."""
    is_device = requests.level == IoLevel.DEVICE
    numbered = is_device & (requests.device >= 0)
    named = is_device & (requests.device < 0) & (requests.path >= 0)
    key = np.where(numbered, requests.device + (1 << 32), -1)
    key = np.where(named, requests.path.astype(np.int64), key)
    different, _, place = ranked(key)
    names = []
    for code in different.tolist():
        if code >= 1 << 32:
            number = code - (1 << 32)
            names.append(f"{number >> 20},{number & 0xFFFFF}")
        elif code >= 0:
            names.append(lines.texts[code])
    has_none = len(different) > 0 and int(different[0]) < 0
    return np.asarray(place - has_none, np.int64), names


def _files_of(lines: IoLines, requests: Requests) -> tuple[Array, list[str]]:
    """Return the place of each request's file among the paths, -1 none."""
    path = np.where(requests.level == IoLevel.DEVICE, -1, requests.path)
    different, _, place = ranked(path.astype(np.int64))
    has_none = len(different) > 0 and int(different[0]) < 0
    paths = [lines.texts[i] for i in different.tolist() if i >= 0]
    return (place - has_none).astype(np.int32), paths


def _warn(
    builder: TraceBuilder,
    lines: IoLines,
    notes: Notes,
    requests: Requests,
    *,
    has_times: bool,
) -> None:
    """Say what was repaired, guessed and lost."""
    warn_broken(builder, lines.n_broken, lines.first_broken)
    warn_stray(builder, lines.n_other, lines.first_other, "headers, summaries")
    if not has_times:
        builder.warn(
            Severity.NOTICE,
            "no_times",
            "the file has no times: its lines follow one another. When anything "
            "happened is unknown.",
            remedy="Run fatrace with -t, strace with -ttt and -T.",
        )
    for n, code, text in (
        (notes.n_open, "requests_without_end",
         "requests have no end in the file; how long they took is unknown."),
        (notes.n_unissued, "ends_without_request",
         "ends of requests have no begin in the file; they are left out."),
        (notes.n_partial, "partial_requests",
         "requests completed with another size than they were issued with."),
        (notes.n_failed, "failed_requests", "requests or calls failed."),
        (notes.n_unplaced, "reads_without_offset",
         "reads or page faults have no file offset."),
        (notes.n_no_files, "reads_of_no_file",
         "reads are of pipes, sockets or terminals; they are left out."),
        (lines.n_hidden, "io_uring_hidden",
         "calls of io_uring: strace does not see what they read."),
    ):  # fmt: skip
        builder.warn(Severity.NOTICE, code, text, count=n)
    if notes.is_queue:
        builder.warn(
            Severity.NOTICE,
            "no_issues",
            "the file does not say when requests were issued to the device: they "
            "count from the queue.",
        )
