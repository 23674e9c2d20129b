"""Storage traces of every tool: requests, reads and faults as they were, and damage."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import storage_files
from ggscope.errors import CorruptError, UnknownFormatError
from ggscope.model.storage import IoKind, IoLevel, IoRequests, Storage
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.api import Head, ReadContext
from ggscope.readers.common import line_table, text_blocks
from ggscope.readers.registry import open_trace
from ggscope.readers.storage.lines import Form, layout_of, scan_text
from ggscope.readers.storage.reader import StorageReader
from storage_files import (
    MODEL,
    Io,
    random_faults,
    random_io,
    random_reads,
)
from support import need_corpus

NANO = 1_000_000_000


def opened(tmp_path: Path, data: bytes, name: str = "x.txt", **options: str) -> Trace:
    path = tmp_path / name
    path.write_bytes(data)
    trace = open_trace(path, context=ReadContext(options=options))
    assert trace.info.reader_id == "storage"
    assert trace.check() == []
    return trace


def storage_of(trace: Trace) -> Storage:
    assert trace.storage is not None
    return trace.storage


def table(trace: Trace) -> IoRequests:
    return storage_of(trace).requests


def codes(trace: Trace) -> set[str]:
    return {warning.code for warning in trace.warnings}


def written(trace: Trace) -> list[tuple[int, ...]]:
    """Return start, end, queue, sector, size and kind of requests, in the file's ns."""
    r, origin = table(trace), trace.clock.origin
    return sorted(
        (
            int(r.start[i]) + origin,
            int(r.end[i]) + origin,
            int(r.queued[i]),
            int(r.sector[i]),
            int(r.size[i]),
            int(r.kind[i]),
        )
        for i in range(len(r))
    )


def truth(requests: list[Io]) -> list[tuple[int, ...]]:
    return sorted(
        (io.start, io.end, io.queued, io.sector, io.size, int(io.kind == "W"))
        for io in requests
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", [True, False])
def test_requests_of_blkparse_are_as_they_were(seed, noise, tmp_path):
    requests = random_io(seed, 200)

    trace = opened(tmp_path, storage_files.blkparse(requests, noise=noise))

    assert written(trace) == truth(requests)
    r = table(trace)
    names = {trace.strings[i] for i in r.process.tolist()}
    assert names == {io.process for io in requests}
    assert set(r.pid.tolist()) == {4242}, "of the queue, not of who dispatched"
    assert set(r.level.tolist()) == {IoLevel.DEVICE}
    assert not r.is_open.any()
    assert [d.name for d in storage_of(trace).devices] == ["259,0"]


def test_every_request_is_a_span_of_its_own_and_no_two_overlap_on_a_lane(tmp_path):
    requests = random_io(2, 300, depth=6)

    trace = opened(tmp_path, storage_files.blkparse(requests))

    r, spans = table(trace), trace.spans
    assert sorted(r.span.tolist()) == list(range(len(spans)))
    assert (spans.start[r.span] == r.start).all()
    assert (spans.end[r.span] == r.end).all()
    for lane in range(len(trace.lanes)):
        mine = np.flatnonzero(spans.lane == lane)
        assert (spans.start[mine][1:] >= spans.end[mine][:-1]).all()
    used = {trace.lanes[i].kind for i in set(spans.lane.tolist())}
    assert used == {LaneKind.IO}
    assert len(set(spans.lane.tolist())) == 6


def test_counter_of_requests_in_flight_is_the_brute_force_count(tmp_path):
    requests = random_io(3, 150, depth=5)

    trace = opened(tmp_path, storage_files.blkparse(requests))

    (series,) = trace.counters
    origin = trace.clock.origin
    for tick, value in zip(series.time.tolist(), series.value.tolist(), strict=True):
        at = tick + origin
        assert value == sum(io.start <= at < io.end for io in requests)


def test_partition_is_what_remapped_requests_show(tmp_path):
    requests = random_io(1, 20)

    trace = opened(tmp_path, storage_files.blkparse(requests, partition=2048))

    assert storage_of(trace).devices[0].partitions == (2048,)


def test_partition_that_a_person_states_counts(tmp_path):
    data = storage_files.blkparse(random_io(1, 20), partition=2048)

    trace = opened(tmp_path, data, partition="4096")

    assert storage_of(trace).devices[0].partitions == (4096,)
    assert storage_of(trace).devices[0].is_stated


def line(time: float, action: str, rest: str, kind: str = "R") -> str:
    return f"  8,0    1        9 {time:15.9f}  4242  {action} {kind:>3} {rest}"


def test_requests_without_an_end_or_a_begin_are_reported_and_not_timed(tmp_path):
    data = "\n".join(
        [
            line(1.0, "D", "100 + 8 [a]"),
            line(1.1, "C", "900 + 8 [0]"),
            line(1.2, "D", "200 + 8 [a]"),
            line(1.3, "C", "200 + 4 [0]"),
            line(1.4, "D", "300 + 8 [a]"),
            line(1.5, "C", "300 + 8 [65531]"),
            line(1.6, "D", "400 + 8 [a]"),
            line(1.7, "R", "400 + 8 [0]"),
            line(1.8, "D", "400 + 8 [a]"),
            line(1.9, "C", "400 + 8 [0]"),
            line(2.0, "Q", "FLUSH", "FW").replace("FLUSH", "[sync]"),
        ]
    )

    trace = opened(tmp_path, data.encode())

    assert {
        "requests_without_end", "ends_without_request", "partial_requests",
        "failed_requests",
    } <= codes(trace)  # fmt: skip
    r = table(trace)
    assert r.sector.tolist() == [100, 200, 300, 400]
    assert r.is_open.tolist() == [True, False, False, False]
    assert r.start[3] - r.start[0] == NANO * 8 // 10
    unfinished = trace.spans.flags[r.span] & SpanFlag.UNFINISHED
    assert (unfinished > 0).tolist() == [True, False, False, False]
    assert trace.spans.color is not None
    assert (trace.spans.color[r.span] > 0).tolist() == [False, False, True, False]


def test_without_issues_requests_count_from_the_queue(tmp_path):
    data = "\n".join([line(1, "Q", "100 + 8 [a]"), line(2, "C", "100 + 8 [0]")])

    trace = opened(tmp_path, data.encode())

    assert "no_issues" in codes(trace)
    assert table(trace).end.tolist() == [NANO]
    assert table(trace).queued.tolist() == [-1]


@pytest.mark.parametrize("queue", [True, False])
def test_requests_of_biosnoop_are_as_they_were_but_for_its_rounding(queue, tmp_path):
    requests = random_io(5, 100)

    trace = opened(tmp_path, storage_files.biosnoop(requests, queue=queue))

    r, origin = table(trace), trace.clock.origin
    mine = sorted(requests, key=lambda io: io.sector)
    order = np.argsort(r.sector)
    assert r.sector[order].tolist() == [io.sector for io in mine]
    assert r.size[order].tolist() == [io.size for io in mine]
    assert r.kind[order].tolist() == [int(io.kind == "W") for io in mine]
    for i, io in zip(order.tolist(), mine, strict=True):
        assert abs(int(r.end[i]) + origin - io.end) <= 1000
        assert abs(int(r.end[i] - r.start[i]) - (io.end - io.start)) <= 1000
        assert trace.strings[int(r.process[i])] == io.process
        assert r.queued[i] == (-1 if not queue else pytest.approx(io.queued, abs=1000))
    assert storage_of(trace).resolution == 10_000


def test_biosnoop_of_bpftrace_shows_no_sizes_and_says_so(tmp_path):
    requests = random_io(5, 100)

    trace = opened(tmp_path, storage_files.bpftrace_biosnoop(requests))

    r = table(trace)
    assert len(r) == 100
    assert (r.size == -1).all()
    assert (r.sector == -1).all()
    assert not storage_of(trace).has_sizes
    assert "no_request_sizes" in codes(trace)
    took = sorted((io.end - io.start) // 1_000_000 for io in requests)
    assert sorted(((r.end - r.start) // 1_000_000).tolist()) == took


def test_events_of_fatrace_are_markers_of_files(tmp_path):
    data = storage_files.fatrace(1, 60)

    trace = opened(tmp_path, data)

    r = table(trace)
    assert set(r.level.tolist()) == {IoLevel.FILE}
    assert (r.size == -1).all()
    paths = [storage_of(trace).files[i].path for i in r.file.tolist()]
    expected = [text.split(": ", 1)[1].split(" ", 1)[1] for text in
                data.decode().splitlines()]  # fmt: skip
    assert paths == expected
    names = [trace.strings[i] for i in r.process.tolist()]
    assert names == [("llama-cli", "Web Content", "a(b)")[i % 3] for i in range(60)]
    assert len(trace.markers) == 60


def test_fatrace_without_times_is_laid_out_by_order_and_says_so(tmp_path):
    trace = opened(tmp_path, storage_files.fatrace(1, 12, times=False))

    assert table(trace).start.tolist() == list(range(12))
    assert "no_times" in codes(trace)


@pytest.mark.parametrize("fds", [True, False])
@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("durations", [True, False])
def test_reads_of_strace_are_as_they_were(fds, split, durations, tmp_path):
    reads = random_reads(3, 120)

    trace = opened(
        tmp_path,
        storage_files.strace(reads, fds=fds, split=split, durations=durations),
    )

    r, origin = table(trace), trace.clock.origin
    rows = np.flatnonzero(r.kind == IoKind.READ).tolist()
    paths = [storage_of(trace).files[i].path for i in r.file.tolist()]
    items = sorted(
        (int(r.start[i]) + origin, int(r.offset[i]), int(r.size[i]), paths[i],
         int(r.pid[i]))
        for i in rows
    )  # fmt: skip
    assert items == sorted((x.start, x.offset, x.size, x.path, x.tid) for x in reads)
    ends = {x.start: x.end for x in reads}
    for i in rows:
        if not r.is_open[i]:
            assert int(r.end[i]) + origin == ends[int(r.start[i]) + origin]
    n_open = int(np.count_nonzero(r.is_open[rows]))
    if durations:
        assert n_open == 0
    else:
        assert n_open == len(reads) - (len(reads) // 3 if split else 0)
    maps = np.flatnonzero(r.kind == IoKind.MAP)
    assert r.size[maps].tolist() == [1 << 20] * 2
    assert r.offset[maps].tolist() == [4096] * 2


def test_reads_of_no_file_and_of_io_uring_are_reported(tmp_path):
    lines = storage_files.strace(random_reads(3, 9)).decode().splitlines()
    data = "\n".join([*lines, *storage_files.other_calls()])

    trace = opened(tmp_path, data.encode())

    assert len(table(trace)) == 9 + 2
    counts = {w.code: w.count for w in trace.warnings}
    assert counts["reads_of_no_file"] == 1
    assert counts["io_uring_hidden"] == 1
    assert counts["failed_requests"] == 1


def test_plain_reads_go_on_where_the_file_was_sought_to(tmp_path):
    data = (
        '1732000000.100000 openat(AT_FDCWD, "m", O_RDONLY) = 3 <0.000010>\n'
        '1732000000.200000 read(3, "x"..., 4096) = 100 <0.000010>\n'
        "1732000000.300000 lseek(3, 5000, SEEK_SET) = 5000 <0.000010>\n"
        '1732000000.400000 read(3, "x"..., 4096) = 4096 <0.000010>\n'
        '1732000000.500000 read(3, "x"..., 4096) = 50 <0.000010>\n'
        '1732000000.600000 read(4, "x"..., 4096) = 50 <0.000010>\n'
        "1732000000.700000 close(3) = 0 <0.000010>\n"
        '1732000000.800000 openat(AT_FDCWD, "n", O_RDONLY) = 3 <0.000010>\n'
        '1732000000.900000 read(3, "x"..., 4096) = 7 <0.000010>\n'
    )

    trace = opened(tmp_path, data.encode())

    assert table(trace).offset.tolist() == [0, 5000, 9096, -1, 0]
    counts = {w.code: w.count for w in trace.warnings}
    assert counts["reads_without_offset"] == 1
    files = storage_of(trace).files
    assert [files[i].path if i >= 0 else "" for i in table(trace).file.tolist()] == [
        "m", "m", "m", "", "n",
    ]  # fmt: skip


def test_calls_that_last_longer_than_times_can_be_are_listed(tmp_path):
    lines = storage_files.strace(random_reads(3, 20)).decode().splitlines()
    endless = "1732000000.000682 read(3</m>, 0x7f, 4096) = 4096 <4294967296.000001>"

    trace = opened(tmp_path, "\n".join([*lines, endless, ""]).encode())
    without = opened(tmp_path, "\n".join([*lines, ""]).encode(), "y.txt")

    (lost,) = (w for w in trace.warnings if w.code == "bad_event_time")
    assert lost.count == 1
    assert "bad_event_time" not in codes(without)
    assert len(table(trace)) == len(table(without)) > 0
    assert table(trace).end.tolist() == table(without).end.tolist()


def test_strace_of_other_calls_is_of_another_reader(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("20:43:21.123456 ioctl(3, 0x46, 0x7ffd5b0e2f40) = 0 <0.000034>\n")

    assert open_trace(path).info.reader_id == "cuda-calls"


@pytest.mark.parametrize("mapped", [True, False])
def test_faults_of_perf_script_are_placed_by_what_was_mapped(mapped, tmp_path):
    faults = random_faults(4, 90)

    trace = opened(tmp_path, storage_files.perf_script(faults, mapped=mapped))

    r, origin = table(trace), trace.clock.origin
    assert (r.start + origin).tolist() == [f.time for f in faults]
    expected = [
        IoKind.MAJOR_FAULT if f.is_major else IoKind.MINOR_FAULT for f in faults
    ]
    assert r.kind.tolist() == expected
    inside = [f.offset if f.offset >= 0x2000 and mapped else -1 for f in faults]
    assert r.offset.tolist() == inside
    assert {storage_of(trace).files[i].path for i in r.file.tolist()} == {MODEL}
    assert ("reads_without_offset" in codes(trace)) == (-1 in inside)
    assert len(trace.markers) == 90
    assert len(trace.spans) == 0


def test_faults_of_perf_trace_state_file_and_offset(tmp_path):
    faults = random_faults(4, 90)

    trace = opened(tmp_path, storage_files.perf_trace(faults))

    r = table(trace)
    assert r.start.tolist() == [f.time - faults[0].time for f in faults]
    assert r.offset.tolist() == [f.offset for f in faults]
    assert {storage_of(trace).files[i].path for i in r.file.tolist()} == {MODEL}
    assert set(r.pid.tolist()) == {4242}


# -- files of any form ------------------------------------------------------------


SAMPLES = dict(storage_files.samples())


@pytest.mark.parametrize("name", SAMPLES)
def test_every_form_is_taken_by_content_alone(name, tmp_path):
    for path in ("x.txt", "x", "x.json", "y.bin"):
        assert len(table(opened(tmp_path, SAMPLES[name], path)))


@pytest.mark.parametrize("name", SAMPLES)
def test_small_blocks_show_the_same(name, tmp_path, monkeypatch):
    data = dict(storage_files.samples(2, 60))[name]
    whole = opened(tmp_path, data)
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 700)
    monkeypatch.setattr(line_table, "BLOCK_ROWS", 5)

    trace = opened(tmp_path, data)

    for column in ("start", "end", "size", "sector", "offset", "kind", "pid", "file"):
        assert (getattr(table(trace), column) == getattr(table(whole), column)).all()
    assert trace.info.summary == whole.info.summary
    assert trace.warnings == whole.warnings


def rows_of(trace: Trace) -> np.ndarray:
    r, origin = table(trace), trace.clock.origin
    return np.array([r.start + origin, r.end + origin, r.size, r.sector, r.kind]).T


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_cut_anywhere_has_the_requests_before_the_cut(name, tmp_path):
    data = SAMPLES[name]
    whole = opened(tmp_path, data)
    for cut in range(len(data) // 3, len(data), 37):
        try:
            trace = opened(tmp_path, data[:cut])
        except (CorruptError, UnknownFormatError):
            continue
        ended = ~table(trace).is_open
        mine, theirs = (
            rows_of(one)[keep]
            for one, keep in (
                (trace, ended),
                (whole, np.ones(len(table(whole)), np.bool_)),
            )
        )
        # The last line may be cut within a number.
        assert len({*map(tuple, mine)} - {*map(tuple, theirs)}) <= 1


@pytest.mark.parametrize("name", SAMPLES)
def test_carriage_returns_and_a_byte_order_mark_change_nothing(name, tmp_path):
    data = SAMPLES[name]
    whole = table(opened(tmp_path, data))

    other = opened(tmp_path, b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"))

    assert (table(other).start == whole.start).all()
    assert (table(other).size == whole.size).all()


def test_records_are_the_lines_of_the_requests(tmp_path):
    data = storage_files.blkparse(random_io(1, 30))
    trace = opened(tmp_path, data)
    lines = data.decode().splitlines()

    assert trace.records is not None
    for span in range(len(trace.spans)):
        record = trace.record_of(span)
        fields = {field[0]: field[1] for field in trace.records.view(record).fields}
        assert fields["text"] == lines[record]


def test_a_file_without_an_event_is_refused(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("hello\nworld\n")

    with pytest.raises(CorruptError):
        open_trace(path, reader_id="storage")


def test_times_beyond_all_bounds_are_left_out(tmp_path):
    data = storage_files.blkparse(random_io(1, 9)).decode()
    data += line(0, "D", "1 + 8 [x]").replace("0.000000000", "99999999999.000000000")

    trace = opened(tmp_path, data.encode())

    assert len(table(trace)) == 9
    assert "broken_line" in codes(trace)


def test_sniff_prefers_the_form_that_most_lines_have():
    data = SAMPLES["blkparse.txt"]
    sniff = StorageReader().sniff(Head("x", len(data), data))

    assert sniff.confidence > 80
    assert "blkparse" in sniff.reason


# -- reference traces -------------------------------------------------------------


def corpus() -> Path:
    return need_corpus() / "blktrace"


_EVENT = re.compile(
    r"\s*(\d+),(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\.(\d{9})\s+(\d+)\s+([A-Z]|m|UT)\s+(\S+)\s?"
    r"(.*)"
)


def test_reference_traces_have_the_counts_of_their_index(tmp_path):
    index = json.loads((corpus() / "index.json").read_text())
    for name, expected in index.items():
        trace = opened(tmp_path, (corpus() / name).read_bytes())
        events = trace.info.summary["events"]
        assert isinstance(events, dict)
        for key in ("events", "actions", "other_lines", "read_dispatch_bytes",
                    "read_complete_bytes"):  # fmt: skip
            assert events[key] == expected[key], (name, key)


def test_requests_of_a_reference_trace_are_those_of_a_plain_parser(tmp_path):
    text = (corpus() / "blkparse_1.2.0_default.txt").read_text()
    issued: dict[tuple[int, int], int] = {}
    expected = []
    for match in map(_EVENT.match, text.splitlines()):
        if match is None or not (where := re.match(r"(\d+) \+ (\d+)", match[10])):
            continue
        time = int(match[5]) * NANO + int(match[6])
        what = int(where[1]), int(where[2]) * 512
        if match[8] == "D":
            issued[what] = time
        elif match[8] == "C":
            expected.append((issued.pop(what), time, *what))

    trace = opened(tmp_path, text.encode())

    r, origin = table(trace), trace.clock.origin
    actual = zip((r.start + origin).tolist(), (r.end + origin).tolist(),
                r.sector.tolist(), r.size.tolist(), strict=True)  # fmt: skip
    assert sorted(actual) == sorted(expected)
    assert not issued


def test_layout_follows_the_header_of_biosnoop():
    data = storage_files.bpftrace_biosnoop(random_io(1, 5))
    layout = layout_of(data)

    assert (layout.before, layout.behind) == (b"mD", b"PL")
    assert int(np.argmax(scan_text(data, layout).forms)) == Form.BIOSNOOP
