"""Trace files that are read while another program writes them."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ggmlviz_files as viz
import tensor_files as tensor
from ggscope.errors import LiveError
from ggscope.live import files
from ggscope.live import source as live_source
from ggscope.live.files import GgmlvizSource, RecordsSource
from ggscope.live.open_source import follow
from ggscope.live.program import ProgramSource
from ggscope.live.source import NANO, Lag, State
from ggscope.live.writers import WriterWatch, Writing
from ggscope.model.ggml import ops as ggml
from ggscope.model.trace import RUNNING, LaneKind
from ggscope.readers.registry import open_trace
from support import ROOT


def rows(trace) -> list[tuple]:
    """Return what is said of the spans on threads, in the order of time."""
    s, names = trace.spans, [trace.span_name(i) for i in range(len(trace.spans))]
    of_threads = trace.lanes.of_kind(LaneKind.THREAD)[s.lane]
    columns = (s.start, s.end, s.op, s.flags)
    actual = zip(*(column.tolist() for column in columns), names, strict=True)
    return sorted(row for row, is_one in zip(actual, of_threads, strict=True) if is_one)


def snapshots(source, data: bytes, cuts: list[int]):
    """Write `data` in pieces, poll after each; return the snapshots."""
    messages, before = [], 0
    for cut in [*cuts, len(data)]:
        with source.path.open("ab") as file:
            file.write(data[before:cut])
        before = cut
        source.poll()
        messages.append(source.snapshot())
        assert messages[-1].check() == []
    return messages


@pytest.mark.parametrize("options", [{}, {"interleaved": True}, {"labels": False}])
def test_growing_stream_gives_the_spans_that_reading_it_whole_gives(tmp_path, options):
    events = viz.run(12, 4, **options)
    events += viz.graph(viz.T0 + 30_000, 3, thread=9, backend=0x77, ptr=0x5000)
    data = viz.packed(events)
    source = GgmlvizSource(tmp_path / "growing.ggmlviz")
    cuts = sorted(np.random.default_rng(1).integers(0, len(data), 9).tolist())

    last = snapshots(source, data, [5, *cuts, len(data) - 7])[-1]

    whole = open_trace(viz.write(tmp_path / "whole.ggmlviz", events))
    assert source.status().records == len(events)
    expected = rows(whole)
    if not options.get("labels", True):  # without names the table of ops is a guess
        expected, result = ([row[:4] for row in r] for r in (expected, rows(last)))
        assert result == expected
    else:
        assert rows(last) == expected
    source.close()


NEWEST = "ggml-2026-07-17-101"


def test_ops_of_a_growing_stream_have_the_names_that_its_labels_speak_for(tmp_path):
    table = ggml.table(NEWEST)
    ops = {"norm": "RMS_NORM", "Qcur": "MUL_MAT", "kq_soft_max": "SOFT_MAX"}
    ops |= {"ffn_inp": "ADD", "ffn_swiglu": "GLU", "cache_k_l0": "SET_ROWS"}
    events, at = [viz.Event(viz.GRAPH_BEGIN, viz.T0, 0x9)], viz.T0
    for layer in range(4):
        for label, name in ops.items():
            code, text = table.names.index(name), f"{label}-{layer}".encode()
            pointer, at = 0x40 + at - viz.T0, at + 20
            for kind, stamp in ((viz.OP_BEGIN, at - 10), (viz.OP_END, at - 5)):
                events.append(viz.Event(kind, stamp, pointer, code, label=text))
    events.append(viz.Event(viz.GRAPH_END, at, 0x9))
    data = viz.packed(events)
    source = GgmlvizSource(tmp_path / "growing.ggmlviz")

    *_, last = snapshots(source, data, [len(data) // 2])

    whole = open_trace(viz.write(tmp_path / "whole.ggmlviz", events))
    assert last.ops.margin == whole.ops.margin > 0
    names = {last.ops.name(code) for code in last.spans.op.tolist() if code >= 0}
    assert names == set(ops.values())
    source.close()


def test_graph_that_has_begun_is_open_until_it_ends(tmp_path):
    events = [*viz.run(4, 2), viz.Event(viz.GRAPH_BEGIN, viz.T0 + 99_000, 0x9)]
    source = GgmlvizSource(tmp_path / "a.ggmlviz")

    (trace,) = snapshots(source, viz.packed(events), [])

    assert trace.open_spans.start.tolist() == [99_000]
    assert trace.is_running
    source.close()


def test_stream_that_begins_anew_begins_another_trace(tmp_path):
    path = tmp_path / "a.ggmlviz"
    source = GgmlvizSource(path)
    snapshots(source, viz.packed(viz.run(8, 2)), [])
    before = source.status().records
    viz.write(path, viz.run(5, 2))

    source.poll()

    assert source.status().restarts == 1
    assert source.status().records == before + len(viz.run(5, 2))
    source.close()


@pytest.mark.parametrize("layout", ["64p", "128", "256", "1024"])
@pytest.mark.parametrize("size", [None, 1 << 20])
def test_records_in_a_file_made_beforehand_come_as_they_are_written(
    tmp_path, layout, size
):
    path = tmp_path / "trace.bin"
    records = tensor.llama_trace(4)
    if layout in ("64p", "128"):
        records = tensor.one_source_each(records)
    data = tensor.encode(records, layout)
    path.write_bytes(bytes(size or 0))
    source, at, seen = RecordsSource(path), 0, []
    for stop in (3000, 10_016, 10_016, len(data)):
        with path.open("r+b") as file:
            file.seek(at)
            file.write(data[at:stop])
        at = stop
        source.poll()
        seen.append(source.status().records)
        assert source.snapshot().check() == []

    trace = source.snapshot()

    assert seen[-1] == len(records)
    assert seen == sorted(seen)
    assert len(trace.spans) == len(records) - 1  # the last one's end is not known
    assert len(trace.open_spans) == 1
    times = np.array([r.time for r in records])
    assert np.array_equal(trace.spans.start, times[:-1] - times[0])
    tokens = np.array([r.token for r in records])
    lasts = np.flatnonzero(np.diff(tokens))
    ends = times[1:] - times[0]
    ends[lasts] = trace.spans.start[lasts]  # then comes a pause, which is no op time
    assert len(lasts) == 3
    assert np.array_equal(trace.spans.end, ends)
    assert trace.quality_counts()["unfinished"] == len(lasts)
    whole = open_trace(path)
    of_records = np.flatnonzero(whole.lanes.of_kind(LaneKind.THREAD)[whole.spans.lane])
    order = of_records[np.argsort(whole.spans.start[of_records], kind="stable")]
    result = [reads(trace, i) for i in range(len(trace.spans))]
    expected = [reads(whole, i) for i in order.tolist()]
    if layout in ("64p", "128"):  # a file joins the records of an op, one source each
        result, expected = (
            [one for span in spans for one in span] for spans in (result, expected)
        )
        assert len(result) == len(trace.spans)
    if layout == "64p":  # whether its layers mean anything, only the whole file states
        assert {one[5] for one in result} == {-1}
        result, expected = (
            [(*o[:5], *o[6:]) for o in ones] for ones in (result, expected)
        )
    assert result == expected[: len(result)]
    assert trace.pending == {RUNNING}
    source.close()


def reads(trace, span):
    access_columns, names = trace.accesses.of_span(span), trace.strings
    tensors, buffers = trace.tensors, trace.buffers
    columns = (
        [names[int(tensors.name[row])] for row in access_columns.tensor],
        [
            int(buffers.address[row]) if row >= 0 else -1
            for row in access_columns.buffer
        ],
        *(
            getattr(access_columns, name).tolist()
            for name in ("space", "offset", "size")
        ),
        *(
            getattr(access_columns, name).tolist()
            for name in ("layer", "expert", "address")
        ),
    )
    return list(zip(*columns, strict=True))


def test_pause_between_passes_of_one_token_is_no_time_of_an_op(tmp_path):
    path = tmp_path / "trace.bin"
    records = [replace(r, token=0) for r in tensor.llama_trace(3)]
    source = RecordsSource(path)

    trace = snapshots(source, tensor.encode(records, "256"), [5120, 7680])[-1]

    (begins,) = np.nonzero([r.dst == "inp_embd" for r in records])
    assert len(begins) == 3
    assert (
        np.flatnonzero(trace.spans.end == trace.spans.start).tolist()
        == (begins[1:] - 1).tolist()
    )
    whole = open_trace(path)
    of_records = whole.lanes.of_kind(LaneKind.THREAD)[whole.spans.lane]
    lasting = (whole.spans.end - whole.spans.start)[of_records]
    result = trace.spans.end - trace.spans.start
    assert result.tolist() == lasting[: len(result)].tolist()
    source.close()


def test_measured_durations_and_names_are_those_of_the_records(tmp_path):
    path = tmp_path / "trace.bin"
    records = tensor.llama_trace(3, duration=123)
    source = RecordsSource(path)

    trace = snapshots(source, tensor.encode(records, "256"), [5120, 7680])[-1]

    assert set((trace.spans.end - trace.spans.start).tolist()) == {123}
    assert trace.quality_counts()["measured"] == len(trace.spans)
    names = [trace.span_name(i) for i in range(5)]
    assert names == [r.dst for r in records[:5]]
    assert trace.op_name(int(trace.spans.op[3])) == "MUL_MAT"
    source.close()


def test_hole_that_stays_is_passed_and_reported(tmp_path, monkeypatch):
    path = tmp_path / "trace.bin"
    data = tensor.encode(tensor.llama_trace(4), "256")
    holed = data[:2560] + bytes(1280) + data[3840:]
    path.write_bytes(holed)
    source = RecordsSource(path)
    source.poll()
    first = source.status().records
    later = live_source.now_ns() + 10**9
    monkeypatch.setattr(files, "now_ns", lambda: later)

    source.poll()

    assert first == 10
    assert source.status().records == len(data) // 256 - 5
    assert [w.code for w in source.snapshot().warnings] == ["live_hole"]
    source.close()


def test_writer_that_comes_round_to_the_first_record_is_followed(tmp_path):
    path = tmp_path / "trace.bin"
    records = tensor.llama_trace(3)
    later = [
        tensor.Rec(records[-1].time + 1000 * (i + 1), f"late-{i}") for i in range(7)
    ]
    data = tensor.encode(records, "256")
    path.write_bytes(data)
    source = RecordsSource(path)
    source.poll()
    with path.open("r+b") as file:
        file.write(tensor.encode(later, "256"))

    source.poll()

    assert source.status().records == len(records) + 7
    assert source.status().restarts == 0
    source.close()


def test_file_that_is_written_anew_in_its_place_begins_another_trace(tmp_path):
    path = tmp_path / "trace.bin"
    data = tensor.encode(tensor.llama_trace(3), "256")
    path.write_bytes(data + bytes(1 << 20))
    source = RecordsSource(path)
    source.poll()
    before = source.status().records
    other = tensor.llama_pass(2_000_000_000_000)
    path.write_bytes(tensor.encode(other, "256") + bytes(1 << 20))

    source.poll()
    source.poll()

    assert source.status().restarts == 1
    assert source.status().records == before + len(other)
    source.close()


def test_file_that_is_removed_stays_as_it_was(tmp_path):
    path = tmp_path / "trace.bin"
    path.write_bytes(tensor.encode(tensor.llama_trace(3), "256"))
    source = RecordsSource(path)
    source.poll()
    n = len(source.snapshot().spans)
    path.unlink()

    source.poll()

    assert "was removed" in source.status().message
    assert len(source.snapshot().spans) == n
    source.close()


@pytest.mark.parametrize("kind", [GgmlvizSource, RecordsSource])
def test_foreign_file_is_refused(tmp_path, kind):
    path = tmp_path / "x"
    path.write_bytes(b"\x7fELF" + bytes(range(1, 256)) * 40)

    with pytest.raises(LiveError):
        kind(path).poll()


def test_what_is_followed_is_detected_by_content_else_by_name(tmp_path):
    stream = viz.write(tmp_path / "odd.name", viz.run(2, 2))
    kinds = {
        stream: GgmlvizSource,
        tmp_path / "later.ggmlviz": GgmlvizSource,
        tmp_path / "later.bin": RecordsSource,
        tmp_path / "ggscope-12-ab": ProgramSource,
    }

    for path, kind in kinds.items():
        source: Path | object = follow(path)
        assert type(source) is kind
        assert source.status().state is State.WAITING


def poll_until(source, condition):
    until = time.monotonic() + 30
    while not condition(source.status()):
        assert time.monotonic() < until, source.status()
        source.poll()
        time.sleep(0.005)
    return source.status()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_killed_writer_of_a_buffer_is_reported_and_another_one_is_followed(tmp_path):
    path = tmp_path / "tensor_trace.bin"
    data = tensor.encode(tensor.llama_trace(3), "256")
    path.write_bytes(bytes(1 << 20))

    def started():
        made = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "writing_program.py"), "map", path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert made.stdout.readline() == "ready\n"
        return made

    source = RecordsSource(path)
    with started() as first:
        first.stdin.write(f"0 {data[:7680].hex()}\n")
        first.stdin.flush()
        poll_until(source, lambda h: source.writers.state is Writing.OPEN)
        before = poll_until(source, lambda h: h.records == 30)
        first.kill()
    gone = poll_until(source, lambda h: h.state is State.NO_WRITER)
    with started() as second:
        second.stdin.write(f"7680 {data[7680:].hex()}\n")
        second.stdin.flush()
        after = poll_until(source, lambda h: h.records == len(data) // 256)
        second.kill()

    assert before.state is State.RUNNING
    assert str(first.pid) in gone.message
    assert source.snapshot().is_running  # another one may go on with it
    assert after.state is State.RUNNING
    source.close()


def test_fill_and_tokens_are_those_of_the_file(tmp_path):
    path = tmp_path / "trace.bin"
    records = tensor.llama_trace(5)
    data = tensor.encode(records, "256")
    path.write_bytes(data[: 256 * 20] + bytes(len(data)))
    source = RecordsSource(path)
    source.poll()
    first = source.status()
    with path.open("r+b") as file:
        file.write(data)

    source.poll()

    last = source.status()
    decoded = {r.token for r in records if r.phase == 1}
    assert first.fill == 20 * 256 / (len(data) + 5120)
    assert first.backlog == last.backlog == 20  # the rest came later
    assert last.fill == len(data) / (len(data) + 5120)
    assert last.tokens == len(decoded) > 1
    source.close()


def test_file_that_is_appended_to_has_no_fill_and_prompts_no_tokens(tmp_path):
    path = tmp_path / "trace.bin"
    records = [replace(r, phase=0) for r in tensor.llama_trace(2)]
    source = RecordsSource(path)

    snapshots(source, tensor.encode(records, "256"), [5120])

    assert source.status().fill == -1
    assert source.status().tokens == -1
    source.close()


@pytest.mark.parametrize("clock", ["monotonic", "wall", "own"])
def test_lag_is_that_of_the_clock_of_the_stamps(clock, monkeypatch):
    monotonic, wall = 500 * NANO, 1_800_000_000 * NANO
    monkeypatch.setattr(live_source, "now_ns", lambda: monotonic)
    monkeypatch.setattr(live_source.time, "time_ns", lambda: wall)
    begin = {"monotonic": monotonic, "wall": wall, "own": 90 * NANO}[clock]
    lag = Lag()

    first = lag.of(begin - 3_000_000)
    monotonic, wall, begin = monotonic + NANO, wall + NANO, begin + NANO
    second = lag.of(begin - 1_000_000)
    third = lag.of(begin - 7_000_000)

    if clock == "own":  # the delays of the second and third differ by 6 ms
        assert [first, second, third] == [(-1, False), (0, True), (6_000_000, True)]
    else:
        assert [first[0], second[0], third[0]] == [3_000_000, 1_000_000, 7_000_000]
        assert not any(is_least for _, is_least in (first, second, third))


def test_silence_is_reported_with_what_is_known_of_the_writer(tmp_path, monkeypatch):
    path = tmp_path / "trace.bin"
    path.write_bytes(tensor.encode(tensor.llama_trace(3), "256"))
    now = NANO
    monkeypatch.setattr(files, "now_ns", lambda: now)
    source = RecordsSource(path)
    source.writers = WriterWatch(path, lambda _: ())
    source.poll()
    arguments = []
    for seconds in (1, 4, 5, 61):
        now += seconds * NANO
        source.poll()
        arguments.append(source.status().message)

    assert arguments[0] == ""
    assert [w.partition(" s;")[0].rpartition(" ")[2] for w in arguments[1:]] == [
        "5", "10", "60",
    ]  # fmt: skip
    assert all("its writer is not known" in w for w in arguments[1:])
    source.close()
