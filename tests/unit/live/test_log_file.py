"""Logs that grow: what is followed is what reading the file gives."""

import io
import os
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import log_files
from ggscope.errors import ReadError
from ggscope.live import growing_text, log_file
from ggscope.live.log_file import LogSource
from ggscope.live.open_source import follow
from ggscope.live.source import State
from ggscope.model.tables import SpanFlag, schema_of
from ggscope.model.trace import Trace
from ggscope.readers.logs.reader import LogReader
from ggscope.readers.registry import open_trace
from log_files import FORMS, Request, random_requests

_SPANS = ("prompt_span", "generated_span", "reason")


def first_tick(trace: Trace) -> int:
    """Return where all begins: a log that is followed does not know it beforehand."""
    times = (trace.spans.start, trace.markers.time)
    return min(int(values.min(initial=1 << 62)) for values in times)


def rows(trace: Trace) -> list[tuple]:
    """Return the requests, with their spans as what these are."""
    assert trace.log is not None
    table = trace.log.requests
    names = [name for name in schema_of(type(table)) if name not in _SPANS]
    launch = np.where(table.launch >= 0, table.launch - first_tick(trace), -1)
    columns = [
        (launch if name == "launch" else getattr(table, name)).tolist()
        for name in names
    ]
    spans = span_rows(trace)
    for name in ("prompt_span", "generated_span"):
        ids = getattr(table, name).tolist()
        columns.append([spans[i] if i >= 0 else None for i in ids])
    columns.append([trace.strings[i] if i >= 0 else "" for i in table.reason.tolist()])
    return list(zip(*columns, strict=True))


def span_rows(trace: Trace) -> list[tuple]:
    spans, first = trace.spans.full(), first_tick(trace)
    lanes = [lane.name for lane in trace.lanes]
    return [
        (
            lanes[spans.lane[i]], trace.span_name(i), int(spans.start[i]) - first,
            int(spans.end[i]) - first, int(spans.flags[i]), int(spans.phase[i]),
            int(spans.record[i]),
        )
        for i in range(len(spans))
    ]  # fmt: skip


def marker_rows(trace: Trace) -> list[tuple]:
    markers = trace.markers
    lanes = [lane.name for lane in trace.lanes]
    return [
        (
            lanes[markers.lane[i]], int(markers.time[i]) - first_tick(trace),
            trace.strings[markers.name[i]], trace.strings[markers.detail[i]],
        )
        for i in range(len(markers))
    ]  # fmt: skip


def facts(trace: Trace) -> tuple[object, ...]:
    assert trace.log is not None
    counters = {
        series.name: ((series.time - first_tick(trace)).tolist(), series.value.tolist())
        for series in trace.counters
    }
    return (
        rows(trace), sorted(span_rows(trace)), sorted(marker_rows(trace)), counters,
        trace.log.memory, trace.log.facts, trace.log.has_clock,
        trace.info.summary["events"], trace.info.n_records,
        trace.clock.epoch is None or trace.clock.epoch + first_tick(trace),
    )  # fmt: skip


def followed(source: LogSource, data: bytes, cuts: list[int]) -> Trace:
    """Return the trace of a file that is written in parts."""
    begin = 0
    for cut in [*cuts, len(data)]:
        with source.path.open("ab") as file:
            file.write(data[begin:cut])
        begin = cut
        source.poll()
        if cut % 3 == 0:
            assert source.snapshot().check() == []
    settle(source)
    trace = source.snapshot()
    assert trace.check() == []
    return trace


def settle(source: LogSource) -> None:
    """Let the source find that nothing has been written for a while."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_file, "_QUIET_NS", -1)
        source.poll()


def texts() -> dict[str, bytes]:
    made = {
        f"{form} {seed}": log_files.log(random_requests(seed, 25), form)
        for form in FORMS
        for seed in range(2)
    }
    made["restarts"] = made["clock 0"] + made["clock 1"]
    made["ik"] = log_files.ik_log(random_requests(4, 25))
    made["json"] = log_files.json_log(random_requests(5, 25))
    made["ollama"] = log_files.ollama_log()
    made["interleaved"] = log_files.interleaved(random_requests(6, 40))
    made["interleaved, no clock"] = log_files.interleaved(
        random_requests(7, 40), "no clock"
    )
    made["drafts"] = log_files.log_with_draft_sums(random_requests(8, 40))
    made["loading"] = log_files.loading_log() + made["clock 1"]
    made["vllm"] = log_files.vllm_log(engines=2)
    made["command line"] = log_files.command_line_log(12)
    made["command line behind ik"] = made["ik"] + made["command line"]
    return made


@pytest.mark.parametrize("name", list(texts()))
@pytest.mark.parametrize("seed", range(3))
def test_followed_log_is_what_reading_it_gives(tmp_path, name, seed):
    data = texts()[name]
    path = tmp_path / "x.log"
    whole = tmp_path / "whole.log"
    whole.write_bytes(data)
    rng = np.random.default_rng(seed)
    cuts = sorted(rng.integers(0, len(data), (3, 30, 200)[seed]).tolist())

    with closing(LogSource(path)) as source:
        with_parts = followed(source, data, cuts)

    assert facts(with_parts) == facts(open_trace(whole))


def write(path: Path, data: bytes, mode: str = "ab") -> None:
    with path.open(mode) as file:
        file.write(data)


def tasks(source: LogSource) -> list[int]:
    trace = source.snapshot()
    assert trace.check() == []
    assert trace.log is not None
    return trace.log.requests.task.tolist()


REQUESTS = random_requests(3, 6, n_slots=1)
TEXT = log_files.log(REQUESTS)
TASKS = [r.task for r in REQUESTS]


@pytest.mark.parametrize("seed", range(3))
def test_lines_that_kubernetes_has_cut_are_whole_between_two_readings(tmp_path, seed):
    data = log_files.cut_by_cri(random_requests(seed, 12), seed)
    rng = np.random.default_rng(seed)
    ends = [i + 1 for i in range(len(data)) if data[i : i + 1] == b"\n"]
    cuts = sorted({*ends, *rng.integers(0, len(data), 50).tolist()})
    path = tmp_path / "x.log"
    path.write_bytes(b"")
    with closing(LogSource(path)) as source:
        with_parts = followed(source, data, cuts)

    assert facts(with_parts) == facts(open_trace(path))


def test_piece_without_a_rest_is_read_when_it_is_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(log_file, "MAX_PIECES_BYTES", 2000)
    path = tmp_path / "x.log"
    path.write_bytes(b"")
    piece = b"2026-11-26T12:00:00.123456789Z stderr P x\n"
    with closing(LogSource(path)) as source:
        trace = followed(source, piece * 60, [len(piece) * i for i in range(1, 60)])

    assert trace.info.n_records >= 40


def test_source_says_what_it_waits_for(tmp_path):
    path = tmp_path / "server.log"
    with closing(LogSource(path)) as source:
        source.poll()
        assert "is not there yet" in source.status().message
        path.touch()
        source.poll()
        assert "has no lines yet" in source.status().message
        write(path, b"warming up\n")
        source.poll()
        assert "no line of llama.cpp" in source.status().message
        assert source.status().state is State.RUNNING
        head = TEXT[: TEXT.index(b"launch_slot_")]
        write(path, head[: head.rindex(b"\n") + 1])
        source.poll()
        assert "no request yet" in source.status().message
        cut = TEXT.index(b"print_timing")
        write(path, TEXT[head.rindex(b"\n") + 1 : TEXT.rindex(b"\n", 0, cut) + 1])
        source.poll()
        assert "1 request running" in source.status().message
        assert source.status().by_kind["requests"] == 1


def test_half_a_line_counts_once_it_has_its_end(tmp_path):
    path = tmp_path / "x.log"
    cut = TEXT.index(b"      total time") - 40  # within the line of the generation
    with closing(LogSource(path)) as source:
        write(path, TEXT[:cut])
        source.poll()
        settle(source)
        before = source.snapshot()
        assert before.log is not None
        assert before.log.requests.n_generated.tolist() == [-1]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log_file, "_QUIET_NS", -1)
            source.poll()
        assert "has no end yet" in source.status().message
        write(path, TEXT[cut:])
        source.poll()

        assert tasks(source) == TASKS
        assert "has no end yet" not in source.status().message


def test_running_request_lasts_until_the_newest_line(tmp_path):
    path = tmp_path / "x.log"
    request = Request(2, 7, 10, 100.0, 5, 50.0, cached=3)
    text = log_files.log([request])
    cut = text.index(b"print_timing")
    with closing(LogSource(path)) as source:
        write(path, text[: text.rindex(b"\n", 0, cut) + 1])
        write(path, b"0.09.000.000 W srv  update: something else\n")
        source.poll()
        trace = source.snapshot()

    assert len(trace.spans) == 0
    (start,), (end,) = trace.open_spans.start.tolist(), trace.open_spans.end.tolist()
    assert trace.lanes[int(trace.open_spans.lane[0])].name == "slot 2"
    assert trace.read_until == end
    assert end - start == 9_000_000_000 - 100_000_000
    assert int(trace.open_spans.flags[0]) & int(SpanFlag.UNFINISHED)
    assert trace.log is not None
    assert trace.log.requests.is_timed.tolist() == [False]


@pytest.mark.parametrize("way", ["renamed", "cut", "written anew"])
def test_log_that_is_rotated_goes_on(tmp_path, way):
    path = tmp_path / "x.log"
    first, second = random_requests(1, 9), random_requests(2, 4)
    with closing(LogSource(path)) as source:
        write(path, log_files.log(first))
        source.poll()
        if way == "renamed":
            path.rename(tmp_path / "x.log.1")
            write(tmp_path / "x.log.1", log_files.log(first[:1], "clock"))
        elif way == "cut":
            write(path, b"", "wb")
            source.poll()
        else:  # longer at once than what was read of the one before
            second = random_requests(2, 40)
        write(path, log_files.log(second), "wb")
        for _ in range(3):
            source.poll()

        expected = [r.task for r in first]
        if way == "renamed":
            expected.append(first[0].task)
        assert tasks(source) == expected + [r.task for r in second]
        trace = source.snapshot()
        assert "log_rotated" in {w.code for w in trace.warnings}
        assert source.status().restarts == 0
        assert source.status().recording.place is None
        assert trace.log is not None
        assert (np.diff(trace.log.requests.line) > 0).all()
        assert trace.records is not None
        line = int(trace.log.requests.line[-1])
        assert b"processing task" in trace.records.view(line).data
        with pytest.raises(ReadError):
            trace.records.view(int(trace.log.requests.line[0]))


def test_log_that_is_cut_while_its_writer_goes_on_begins_with_a_hole(tmp_path):
    path = tmp_path / "x.log"
    first, second = random_requests(1, 30), random_requests(2, 4)
    with closing(LogSource(path)) as source, path.open("wb") as file:
        file.write(log_files.log(first))
        file.flush()
        source.poll()
        os.truncate(path, 0)
        file.write(log_files.log(second))  # behind what was there
        file.flush()
        for _ in range(3):
            source.poll()

        assert tasks(source) == [r.task for r in (*first, *second)]


def test_log_that_is_removed_stays(tmp_path):
    path = tmp_path / "x.log"
    with closing(LogSource(path)) as source:
        write(path, TEXT)
        source.poll()
        path.unlink()
        source.poll()

        assert tasks(source) == TASKS
        assert "was removed" in source.status().message
        trace = source.snapshot()
        assert trace.records is not None
        with pytest.raises(ReadError):
            trace.records.view(0)


def test_clock_that_comes_late_lays_all_out_anew(tmp_path):
    path = tmp_path / "x.log"
    without = log_files.log(REQUESTS[:2], "no clock")
    clocked = log_files.log(REQUESTS[2:])
    with closing(LogSource(path)) as source:
        write(path, without)
        source.poll()
        assert not source.snapshot().log.has_clock
        write(path, clocked)
        source.poll()
        source.poll()
        followed_trace = source.snapshot()

        assert source.status().restarts == 1
        assert source.status().records == (without + clocked).count(b"\n")
    whole = tmp_path / "whole.log"
    whole.write_bytes(without + clocked)
    assert facts(followed_trace) == facts(open_trace(whole))


class CountedFile(io.FileIO):
    """Counts the bytes that are read of all such files."""

    n_bytes = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        CountedFile.n_bytes += len(data)
        return data


def test_only_what_is_new_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fdopen", lambda file, *_, **__: CountedFile(file))
    path = tmp_path / "x.log"
    with closing(LogSource(path)) as source:
        write(path, log_files.log(random_requests(1, 400)))
        source.poll()
        assert CountedFile.n_bytes >= path.stat().st_size
        CountedFile.n_bytes = 0
        for _ in range(50):
            source.poll()
        assert CountedFile.n_bytes == 0
        for _ in range(50):
            write(path, b"0.09.000.000 W srv  update: something else\n")
            source.poll()
        assert CountedFile.n_bytes < 50 * 400
        # The line of 1 MB grows by pieces, and is read again once.
        for _ in range(64):
            write(path, b"x" * (1 << 14))
            source.poll()
        write(path, b"\n")
        source.poll()
        assert CountedFile.n_bytes < 3 << 20


def test_long_log_is_read_bit_by_bit_and_rows_come_once(tmp_path, monkeypatch):
    monkeypatch.setattr(growing_text, "_MAX_BYTES", 1000)
    path = tmp_path / "x.log"
    requests = random_requests(1, 60)
    write(path, log_files.log(requests))
    earlier: list[tuple] = []
    with closing(LogSource(path)) as source:
        while source.poll():
            now = span_rows(source.snapshot())
            assert now[: len(earlier)] == earlier
            earlier = now
        settle(source)

        assert tasks(source) == [r.task for r in requests]


def test_snapshots_stay_as_they_were(tmp_path):
    path = tmp_path / "x.log"
    data = log_files.interleaved(random_requests(9, 60))
    states = []
    with closing(LogSource(path)) as source:
        for at in range(0, len(data), 700):
            write(path, data[at : at + 700])
            source.poll()
            trace = source.snapshot()
            if trace.spans.start.size:
                states.append((trace, facts(trace)))

    assert len(states) > 10
    for trace, before in states:
        assert facts(trace) == before


def test_logs_are_detected_by_content_or_name(tmp_path):
    odd = tmp_path / "nohup.out"
    odd.write_bytes(TEXT)
    dull = tmp_path / "dull.log"
    dull.write_bytes(b"nothing yet\n")
    for path in (odd, dull, tmp_path / "later.log", tmp_path / "later.jsonl"):
        source = follow(path)
        assert type(source) is LogSource
        source.close()


def test_work_does_not_grow_with_the_requests_before(tmp_path):
    """Ten thousand requests before cost hardly more than ten."""
    took = []
    for n in (10, 10_000):
        path = tmp_path / f"{n}.log"
        write(path, log_files.log(random_requests(1, n, n_slots=4)))
        more = [
            log_files.log([Request(0, 7 * n + i, 9, 10.0, 5, 20.0)]) for i in range(60)
        ]
        with closing(LogSource(path)) as source:
            while source.poll():
                source.snapshot()
            begin = time.process_time()
            for text in more:
                write(path, text)
                source.poll()
                source.snapshot()
            took.append(time.process_time() - begin)

    assert took[1] < 4 * took[0] + 0.05


def test_read_log_and_followed_log_have_the_same_reader(tmp_path):
    with closing(LogSource(tmp_path / "x.log")) as source:
        assert source.reader_id == LogReader.info.id
