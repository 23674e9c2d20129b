"""Traces of CUDA calls in every dialect: pairs, failures, copies, damage, mixtures."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest

import cuda_files
from builders import llama_like_trace
from cuda_files import DIALECTS, Call, random_calls
from ggscope.analysis.filters.masks import filter_mask
from ggscope.analysis.rows.colorings import (
    available_colorings,
    coloring,
    default_coloring,
)
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.isolation import isolating
from ggscope.analysis.statistics.table import stat_table
from ggscope.descriptions.spans import span_facts
from ggscope.errors import Cancelled, CorruptError
from ggscope.model.selection import Filter
from ggscope.model.tables import FAILED_COLOR, CallKind, Quality, SpanFlag, quality_of
from ggscope.model.trace import LaneKind, Severity, Trace
from ggscope.readers.api import Head, ReadContext
from ggscope.readers.common import line_table, text_blocks
from ggscope.readers.cuda.categories import category_of
from ggscope.readers.cuda.lines import scan_text
from ggscope.readers.cuda.reader import CudaReader
from ggscope.readers.registry import open_trace
from ggscope.readers.source import Source
from ggscope.render.colors import category_color
from ggscope.render.theme import theme
from oracles import cuda_calls
from support import need_corpus

UNITS = {"probes": "ms", "entries": "ms"}


def opened(tmp_path: Path, data: bytes, name: str = "x.txt", **options: str) -> Trace:
    path = tmp_path / name
    path.write_bytes(data)
    trace = open_trace(
        path, reader_id="cuda-calls", context=ReadContext(options=options)
    )
    assert trace.check() == []
    return trace


def lines_of(*lines: str) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def calls_of(trace: Trace) -> list[tuple[int, int, int | None, str, bool]]:
    """Return the facts of the spans with both ends, times in ns from the first one."""
    spans, lanes = trace.spans, trace.lanes
    color = np.zeros(len(spans)) if spans.color is None else spans.color
    return [
        (
            int(spans.start[i]),
            int(spans.end[i]),
            int(name.removeprefix("thread ")) if name.startswith("thread") else None,
            trace.op_name(int(spans.op[i])),
            bool(color[i]),
        )
        for i in range(len(spans))
        if not spans.flags[i] & SpanFlag.UNFINISHED
        for name in (lanes[int(spans.lane[i])].name,)
    ]


def events_of(trace: Trace) -> dict[str, int]:
    events = trace.info.summary["events"]
    assert isinstance(events, dict)
    return events


def codes(trace: Trace) -> set[str]:
    return {warning.code for warning in trace.warnings}


def same(trace: Trace, data: bytes, unit: str) -> cuda_calls.Found:
    """Hold a trace against its plain twin; return that."""
    twin = cuda_calls.read(data, unit)
    first = min((call[0] for call in twin.calls), default=0)
    calls = calls_of(trace)
    shift = first - min((call[0] for call in calls), default=0)
    moved = sorted((b + shift, e + shift, *rest) for b, e, *rest in calls)
    assert moved == sorted(tuple(call) for call in twin.calls)
    assert events_of(trace) == {
        "calls": len(twin.calls),
        "unmatched": twin.n_unmatched,
        "broken_lines": twin.n_broken,
    }
    return twin


@pytest.mark.parametrize("dialect", list(DIALECTS))
@pytest.mark.parametrize("seed", range(3))
def test_calls_are_those_of_the_plain_twin(dialect, seed, tmp_path):
    data = cuda_files.text(dialect, seed, 120)

    trace = opened(tmp_path, data)

    twin = same(trace, data, UNITS.get(dialect, "s"))
    n_written = len(random_calls(seed, 120))
    if dialect == "entries":
        assert len(trace.markers) == n_written
    else:
        assert len(twin.calls) == n_written
        assert len(trace.spans) == n_written


@pytest.mark.parametrize("dialect", list(DIALECTS))
@pytest.mark.parametrize("name", ["x.txt", "a.jsonl", "trace.log", "noname"])
def test_dialect_is_detected_by_content(dialect, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(cuda_files.text(dialect))

    assert open_trace(path).info.reader_id == "cuda-calls"


@pytest.mark.parametrize("dialect", ["hook", "generic hook", "probes", "strace"])
@pytest.mark.parametrize("seed", range(5))
def test_lost_and_foreign_lines_leave_the_rest_as_it_is(dialect, seed, tmp_path):
    rng = np.random.default_rng(seed)
    lines = DIALECTS[dialect](random_calls(seed, 80))
    lines = [line for line in lines if rng.random() < 0.9]
    for noise in (
        "=== banner ===", "# Heartbeat 1", "", "@map[cuInit]: 4", '{"ts":1.5,"op_id":',
        "{broken", "null", "[1, 2]", "lost 12 events", "{}", "\x00\x01\x02 binary",
    ):  # fmt: skip
        lines.insert(int(rng.integers(len(lines))), noise)
    data = lines_of(*lines)

    trace = opened(tmp_path, data)

    twin = cuda_calls.read(data, UNITS.get(dialect, "s"))
    assert sorted(c[3:] for c in calls_of(trace)) == sorted(c[3:] for c in twin.calls)
    events = events_of(trace)
    assert events["calls"] == len(twin.calls)
    assert events["unmatched"] == twin.n_unmatched > 0
    assert events["broken_lines"] == 2
    place = {w.code: w.place for w in trace.warnings}["broken_line"]
    first = min(lines.index("{broken"), lines.index('{"ts":1.5,"op_id":'))
    assert place == f"line {first + 1}"


def test_every_cut_of_a_file_reads_what_is_before_it(tmp_path):
    data = cuda_files.text("hook", 3, 8)
    whole = len(data.splitlines())
    for size in range(1, len(data), 7):
        rows = scan_text(np.frombuffer(data[:size], np.uint8))
        n_whole = data[:size].count(b"\n")
        assert n_whole <= len(rows) <= n_whole + 1 <= whole
        assert rows.n_broken <= 1


def test_mutated_files_never_fail_otherwise_than_by_a_read_error(tmp_path):
    rng = np.random.default_rng(8)
    for dialect in DIALECTS:
        data = np.frombuffer(cuda_files.text(dialect, 2, 30), np.uint8)
        for _ in range(30):
            bad = data.copy()
            at = rng.integers(len(bad), size=int(rng.integers(1, 30)))
            bad[at] = rng.integers(256, size=len(at))
            path = tmp_path / "bad"
            path.write_bytes(bad.tobytes())
            with Source(path) as source:
                assert CudaReader().read(source, ReadContext()).check() == []


def test_small_blocks_read_the_same(tmp_path, monkeypatch):
    data = lines_of(
        *cuda_files.generic_hook(random_calls(1, 300)),
        *cuda_files.strace(random_calls(2, 200)),
    )
    usual = opened(tmp_path, data)
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(line_table, "BLOCK_ROWS", 7)

    again = opened(tmp_path, data)

    assert calls_of(again) == calls_of(usual)
    assert events_of(again) == events_of(usual)
    for name in ("name", "record", "category"):
        a, b = getattr(again.spans, name), getattr(usual.spans, name)
        if name == "name":
            a, b = again.strings.get_many(a), usual.strings.get_many(b)
            assert a == b
        else:
            assert (a == b).all()


def test_seeds_eight_lines_are_four_bars(tmp_path):
    data = lines_of(
        '{"ts":0.000123,"op_id":0,"phase":"B","name":"cuInit"}',
        '{"ts":0.000456,"op_id":0,"phase":"E","name":"cuInit","result":0}',
        '{"ts":0.001234,"op_id":1,"phase":"B","name":"cuMemAlloc","details":{"size":4000000}}',
        '{"ts":0.001890,"op_id":1,"phase":"E","name":"cuMemAlloc","details":{"ptr":"0xdeadbeef"}}',
        '{"ts":0.015670,"op_id":2,"phase":"B","name":"cuMemcpyHtoD"}',
        '{"ts":0.029450,"op_id":2,"phase":"E","name":"cuMemcpyHtoD","details":{"bandwidth_gbps":12.3}}',
        '{"ts":0.029480,"op_id":3,"phase":"B","name":"cuLaunchKernel"}',
        '{"ts":0.029503,"op_id":3,"phase":"E","name":"cuLaunchKernel","result":0}',
    )

    trace = opened(tmp_path, data)

    spans = trace.spans
    assert (spans.end - spans.start).tolist() == [333_000, 656_000, 13_780_000, 23_000]
    assert trace.strings[int(spans.name[2])] == "cuMemcpyHtoD · 12.3 GB/s stated"
    assert spans.category is not None
    assert [trace.strings[i] for i in spans.category.tolist()] == [
        "init", "memory_mgmt", "transfer", "kernel",
    ]  # fmt: skip
    counters = {c.name: c for c in trace.counters}
    assert counters["copies, as stated"].value[0] == 12.3
    assert np.isnan(counters["copies, as stated"].value[1])
    assert counters["allocated by MemAlloc"].value.tolist() == [4_000_000]
    assert "copies, bytes by time" not in counters


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("cuMemAlloc_v2", CallKind.MEMORY_MGMT),
        ("cuMemFreeHost", CallKind.MEMORY_MGMT),
        ("cuMemcpyHtoDAsync_v2", CallKind.TRANSFER),
        ("cuLaunchKernel", CallKind.KERNEL),
        ("cuCtxSynchronize", CallKind.CONTEXT),
        ("cuStreamSynchronize", CallKind.STREAM),
        ("cuModuleGetFunction", CallKind.MODULE),
        ("cuInit", CallKind.INIT),
        ("cuDeviceGetCount", CallKind.INIT),
        ("cuEventSynchronize", CallKind.SYNC),
        ("cuEventRecord", CallKind.OTHER),
        ("ioctl", CallKind.OTHER),
    ],
)
def test_category_is_that_of_the_script_beside_the_hook(function, kind):
    assert category_of(function) is kind


def test_categories_add_up_to_all_calls(tmp_path):
    trace = opened(tmp_path, cuda_files.text("generic hook", 4, 200))

    calls = random_calls(4, 200)
    spans = trace.spans
    assert spans.category is not None
    for kind in CallKind:
        mine = spans.category == trace.strings.find(kind.word)
        written = [c for c in calls if category_of(c.name) is kind]
        assert int(mine.sum()) == len(written)
        total = sum(c.end - c.begin for c in written) * 1000
        assert int((spans.end - spans.start)[mine].sum()) == total


def test_statistics_by_category_are_those_of_the_script(tmp_path):
    trace = opened(tmp_path, cuda_files.text("hook", 4, 200))

    table = stat_table(trace, "category")

    values = {row.key: (row.count, row.total) for row in table.rows}
    written: dict[str, tuple[int, int]] = {}
    for call in random_calls(4, 200):
        key = category_of(call.name).name.lower()
        count, total = written.get(key, (0, 0))
        written[key] = (count + 1, total + (call.end - call.begin) * 1000)
    assert values == written


def test_colouring_by_category_shows_failed_calls_apart(tmp_path):
    trace = opened(tmp_path, cuda_files.text("hook", 4, 200))
    calls = sorted(random_calls(4, 200), key=lambda call: (call.begin, -call.end))

    assert "category" in available_colorings(trace)
    categories = coloring("category").categorize(trace)

    values = [categories.labels[i] for i in categories.index.tolist()]
    written = [
        "failed" if call.result else category_of(call.name).name.lower()
        for call in calls
    ]
    assert values == written
    assert categories.labels[0] == "failed"
    assert category_color(categories.keys[0], theme("dark")) == FAILED_COLOR


def test_category_is_isolated_by_a_filter(tmp_path):
    trace = opened(tmp_path, cuda_files.text("hook", 4, 200))

    categories = coloring("category").categorize(trace)
    assert trace.spans.category is not None
    present = set(trace.spans.category.tolist())
    for label, key in list(zip(categories.labels, categories.keys, strict=True))[1:]:
        field, values = isolating(trace, "category", key)
        mask = filter_mask(trace, Filter(**{field: values}))
        kind = trace.strings.find(label)
        assert (mask == (trace.spans.category == kind)).all()
        present.discard(kind)
    assert not present
    assert isolating(trace, "category", "rgb:d3302f") == ("", frozenset())


def test_calls_without_ends_are_kept_as_unfinished(tmp_path):
    lines = cuda_files.generic_hook(random_calls(5, 30))
    begins = [line for line in lines if '"phase":"B"' in line]

    trace = opened(tmp_path, lines_of(*begins))

    assert set(quality_of(trace.spans.flags).tolist()) == {Quality.UNFINISHED}
    assert events_of(trace) == {
        "calls": 0, "unmatched": len(begins), "broken_lines": 0
    }  # fmt: skip
    assert "calls_without_end" in codes(trace)
    assert trace.spans.last_tick() <= trace.extent.end


def test_ends_without_begins_are_markers(tmp_path):
    lines = cuda_files.hook(random_calls(5, 10))
    ends = [line for line in lines if '"phase":"E"' in line]

    trace = opened(tmp_path, lines_of(*ends))

    assert len(trace.spans) == 0
    lane = next(x for x in trace.lanes if x.name == "ends without a begin")
    assert int((trace.markers.lane == lane.id).sum()) == len(ends)
    assert "ends_without_call" in codes(trace)


def test_failed_calls_are_red_and_listed(tmp_path):
    calls = [
        Call(10, 20, 1, "cuMemAlloc_v2", 0, 1 << 40, 2), Call(30, 40, 1, "cuInit"),
    ]  # fmt: skip

    trace = opened(tmp_path, lines_of(*cuda_files.hook(calls)))

    assert trace.spans.color is not None
    assert [bool(c) for c in trace.spans.color] == [True, False]
    names = trace.strings.get_many(trace.markers.name.tolist())
    assert names == ["cuMemAlloc_v2 failed: 2 CUDA_ERROR_OUT_OF_MEMORY"]
    assert trace.markers.time.tolist() == [10_000]
    assert not any(c.name == "allocated by MemAlloc" for c in trace.counters)


def test_failed_system_call_names_its_error(tmp_path):
    calls = [Call(10, 20, 7, "x", 0, -1, 1)]

    trace = opened(tmp_path, lines_of(*cuda_files.strace(calls)))

    names = trace.strings.get_many(trace.markers.name.tolist())
    assert names == ["ioctl failed: EINVAL"]
    assert calls_of(trace) == [(0, 10_000, 7, "ioctl", True)]


def test_copies_show_bytes_direction_and_rate(tmp_path):
    calls = [
        Call(0, 1000, 1, "cuMemcpyHtoD_v2", 0, 4_000_000),
        Call(2000, 3000, 1, "cuMemcpyDtoH_v2", 0, 1_000_000),
    ]

    trace = opened(tmp_path, lines_of(*cuda_files.hook(calls)))

    assert trace.accesses.bytes_read_written().tolist() == [4_000_000, 1_000_000]
    patterns = trace.accesses.patterns
    by_size = dict(zip(patterns.size.tolist(), patterns.kind.tolist(), strict=True))
    assert by_size == {4_000_000: 1, 1_000_000: 0}
    series = next(c for c in trace.counters if c.name == "copies, bytes by time")
    assert series.unit == "GB/s"
    assert series.value[[0, 2]].tolist() == [4.0, 1.0]
    assert np.isnan(series.value[[1, 3]]).all()


def test_memory_in_use_follows_allocations_by_address(tmp_path):
    rows = []
    for i, (name, at, ptr, size) in enumerate(
        [("cuMemAlloc", 1, "0xa0", 100), ("cuMemAlloc", 2, "0xb0", 50),
         ("cuMemFree", 3, "0xa0", -1), ("cuMemFree", 4, "0xff", -1)]
    ):  # fmt: skip
        details = {"ptr": ptr} | ({"size": size} if size > 0 else {})
        rows += [
            {"ts": at, "op_id": i, "phase": "B", "name": name},
            {
                "ts": at + 0.5,
                "op_id": i,
                "phase": "E",
                "name": name,
                "details": details,
            },
        ]

    trace = opened(tmp_path, lines_of(*map(json.dumps, rows)))

    series = next(c for c in trace.counters if c.name == "allocated by MemAlloc")
    assert series.value.tolist() == [100, 150, 50, 50]


def test_depths_nest_in_rows(tmp_path):
    calls = [
        Call(0, 100, 1, "cuLaunchKernel", 0), Call(10, 90, 1, "cuStreamQuery", 1),
        Call(20, 80, 1, "cuEventQuery", 2),
    ]  # fmt: skip
    trace = opened(tmp_path, lines_of(*cuda_files.generic_hook(calls)))

    index = TraceIndex(trace)
    assert sum(1 for lane in trace.lanes if lane.kind is LaneKind.THREAD) == 1
    keys = [lane.key for lane in index.lanes if lane.key.startswith("thread:")]
    assert [len(index.rows(key)) for key in keys] == [3]


def test_probes_at_whole_milliseconds_last_as_long_as_they_say(tmp_path):
    data = lines_of(
        '{"event_id":0,"ts":12,"tid":7,"phase":"B","type":"userspace","name":"a:cuInit"}',
        '{"event_id":1,"ts":13,"tid":7,"phase":"E","type":"userspace",'
        '"name":"b:cuInit","duration_us":350}',
    )

    trace = opened(tmp_path, data, unit="ms")

    assert calls_of(trace) == [(0, 350_000, 7, "cuInit", False)]


def test_unit_is_that_of_durations_or_reported_to_be_a_guess(tmp_path):
    def of(scale: float, duration: str) -> Trace:
        lines = [
            f'{{"event_id":0,"ts":{1 * scale:.6f},"tid":7,"phase":"B",'
            f'"type":"userspace","name":"cuInit"}}',
            f'{{"event_id":1,"ts":{1.5 * scale:.6f},"tid":7,"phase":"E",'
            f'"type":"userspace","name":"cuInit"{duration}}}',
        ]
        return opened(tmp_path, lines_of(*lines))

    for scale in (1, 1000):
        trace = of(scale, ',"duration_us":500000')
        assert trace.extent.duration == 500_000_000
        assert "unit_guessed" not in codes(trace)
    assert "unit_guessed" in codes(of(1, ""))
    assert of(1, "").extent.duration == 500_000


def test_dialects_in_one_file_keep_their_units(tmp_path):
    calls = random_calls(3, 20)
    data = lines_of(*cuda_files.generic_hook(calls), *cuda_files.entries(calls))

    trace = opened(tmp_path, data)

    first = min(call.begin for call in calls)
    begins = sorted((call.begin - first) * 1000 for call in calls)
    assert trace.markers.time[: len(calls)].tolist() == begins
    assert sorted(trace.spans.start.tolist()) == begins


def test_asked_unit_wins(tmp_path):
    data = cuda_files.text("hook", 1, 10)

    in_s, in_ms = opened(tmp_path, data, unit="s"), opened(tmp_path, data, unit="ms")

    assert in_s.extent.duration == 1000 * in_ms.extent.duration


HOOK_BEGINS = (
    '{"trace":"ggscope-cuda","version":1,"pid":7,"program":"/x","way":"CUPTI",'
    '"ts":5000.000000001,"epoch_ns":1795751169321698893}'
)


def hook_ends(**values: int) -> str:
    return json.dumps({"trace": "ggscope-cuda", "end": True, "ts": 5001.0, **values})


def test_what_a_hook_dropped_is_data_loss(tmp_path):
    calls = cuda_files.hook([Call(0, 1000, 1, "cuInit")])
    ends = hook_ends(lines=3, dropped=12, functions_left_out=2)

    trace = opened(tmp_path, lines_of(HOOK_BEGINS, *calls, ends))

    assert {w.code: w.count for w in trace.warnings} == {
        "dropped_events": 12, "functions_left_out": 2,
    }  # fmt: skip
    assert {w.severity for w in trace.warnings} == {Severity.DATA_LOSS}
    assert events_of(trace) == {"calls": 1, "unmatched": 0, "broken_lines": 0}


def test_hook_shows_when_its_clock_was_zero(tmp_path):
    line = '{"ts":5000.500000001,"op_id":1,"phase":"B","name":"cuInit"}'

    trace = opened(tmp_path, lines_of(HOOK_BEGINS, line, hook_ends()))

    assert trace.clock.origin == 5_000_500_000_001
    assert trace.clock.wall(0) == 1_795_751_169_821_698_893


def test_recording_without_a_last_line_was_cut_short(tmp_path):
    calls = cuda_files.hook([Call(0, 1000, 1, "cuInit")])

    assert codes(opened(tmp_path, lines_of(HOOK_BEGINS, *calls))) == {
        "calls_cut_short",
    }  # fmt: skip
    both = lines_of(HOOK_BEGINS, *calls, hook_ends(), HOOK_BEGINS)
    assert codes(opened(tmp_path, both)) == {"calls_cut_short"}


def test_events_that_bpftrace_lost_are_data_loss(tmp_path):
    data = lines_of("Lost 40 events", *cuda_files.probes([Call(0, 10**6, 1, "cuInit")]),
                    "Lost 2 events", "Lost hope")  # fmt: skip

    counts = {w.code: w.count for w in opened(tmp_path, data).warnings}

    assert counts["dropped_events"] == 42
    assert counts["stray_line"] == 1


@pytest.mark.parametrize(
    ("name", "failed"), [("cuEventQuery", 0), ("cuStreamQuery", 0), ("cuMemAlloc", 1)]
)
def test_query_that_is_not_ready_has_not_failed(name, failed, tmp_path):
    trace = opened(
        tmp_path, lines_of(*cuda_files.hook([Call(0, 9, 1, name, result=600)]))
    )

    assert len(trace.markers) == failed


def test_asynchronous_copies_have_no_rate(tmp_path):
    calls = [
        Call(0, 1000, 1, "cuMemcpyHtoDAsync_v2", 0, 4_000_000),
        Call(2000, 3000, 1, "cuMemcpyDtoH_v2", 0, 1_000_000),
    ]

    trace = opened(tmp_path, lines_of(*cuda_files.hook(calls)))

    series = next(c for c in trace.counters if c.name == "copies, bytes by time")
    assert series.value[0] == 1.0
    assert len(series.value) == 2
    assert trace.spans.flags.tolist() == [SpanFlag.ASYNC, 0]
    assert trace.accesses.bytes_read_written().tolist() == [4_000_000, 1_000_000]
    rates = [
        {fact.label: fact.value for fact in span_facts(trace, span)}["rate"]
        for span in range(2)
    ]
    assert rates == ["N/A", "953.7 MiB/s"]


def test_launches_are_named_by_their_kernels(tmp_path):
    lines = [
        json.dumps({"ts": 5.0 + i, "op_id": i // 2, "phase": "BE"[i % 2], "name": name}
                   | ({"details": {"kernel": kernel}} if kernel else {}))
        for i, (name, kernel) in enumerate(
            [("cuLaunchKernel", "rms_norm"), ("cuLaunchKernel", ""),
             ("cuLaunchKernel", ""), ("cuLaunchKernel", ""),
             ("cuMemAlloc", "no launch"), ("cuMemAlloc", "")]
        )
    ]  # fmt: skip

    trace = opened(tmp_path, lines_of(*lines))

    assert [trace.span_name(i) for i in range(3)] == [
        "cuLaunchKernel · rms_norm", "cuLaunchKernel", "cuMemAlloc",
    ]  # fmt: skip
    assert {trace.op_name(int(op)) for op in trace.spans.op} == {
        "cuLaunchKernel", "cuMemAlloc",
    }  # fmt: skip


def test_failed_copies_move_no_bytes(tmp_path):
    calls = [Call(0, 1000, 1, "cuMemcpyHtoD_v2", 0, 4_000_000, 700)]

    trace = opened(tmp_path, lines_of(*cuda_files.hook(calls)))

    assert trace.span_name(0) == (
        "cuMemcpyHtoD_v2 · 3.8 MiB · failed: 700 CUDA_ERROR_ILLEGAL_ADDRESS"
    )
    assert trace.accesses.bytes_read_written().tolist() == [0]
    assert "copies, bytes by time" not in {c.name for c in trace.counters}


def test_calls_are_coloured_by_category_unless_ops_have_families(tmp_path):
    calls = opened(tmp_path, lines_of(*cuda_files.hook([Call(0, 9, 1, "cuInit")])))

    assert default_coloring(calls) == "category"
    assert default_coloring(llama_like_trace()) == "family"


def test_clock_that_jumps_back_is_reported_and_loses_nothing(tmp_path):
    calls = random_calls(6, 40)
    lines = cuda_files.hook(calls)
    again = [line.replace('"op_id":', '"op_id":9') for line in cuda_files.hook(calls)]

    trace = opened(tmp_path, lines_of(*lines, *again))

    assert events_of(trace) == {
        "calls": 2 * len(calls), "unmatched": 0, "broken_lines": 0
    }  # fmt: skip
    assert "clock_back" in codes(trace)


def test_end_before_its_begin_is_marked(tmp_path):
    data = lines_of(
        '{"ts":2,"op_id":1,"phase":"B","name":"a"}',
        '{"ts":1,"op_id":1,"phase":"E","name":"a"}',
    )

    trace = opened(tmp_path, data)

    assert trace.spans.flags.tolist() == [SpanFlag.OUT_OF_ORDER]
    assert trace.spans.start.tolist() == trace.spans.end.tolist()


def test_line_that_is_cut_into_the_next_loses_only_itself(tmp_path):
    data = lines_of(
        '{"ts":1,"op_i{"ts":2,"op_id":1,"phase":"B","name":"a"}',
        '12:00 docker | {"ts":3,"op_id":1,"phase":"E","name":"a"}',
        '{"ts":4,"op_id":2,"phase":"B","name":"b"}{"ts":5,"op_id":2,"phase":"E"}',
    )

    trace = opened(tmp_path, data)

    assert [c[3] for c in calls_of(trace)] == ["a", "b"]
    assert events_of(trace) == {"calls": 2, "unmatched": 0, "broken_lines": 1}


def test_damaged_details_cost_only_themselves(tmp_path):
    data = lines_of(
        '{"ts":1,"op_id":1,"phase":"B","name":"cuModuleLoad","details":{"file":"a"b"}}',
        '{"ts":2,"op_id":1,"phase":"E","name":"cuModuleLoad","details":{"x":"cut',
    )

    trace = opened(tmp_path, data)

    assert calls_of(trace) == [(0, 1_000_000_000, None, "cuModuleLoad", False)]
    warning = next(w for w in trace.warnings if w.code == "repaired_line")
    assert (warning.count, warning.place) == (2, "line 1")


def test_times_beyond_all_bounds_are_left_out_and_reported(tmp_path):
    good = cuda_files.hook(random_calls(1, 4))
    bad = '{"ts":999999999999999,"op_id":77,"phase":"B","name":"a"}'

    trace = opened(tmp_path, lines_of(*good, bad))

    assert "bad_event_time" in codes(trace)
    assert events_of(trace)["broken_lines"] == 1
    assert len(trace.spans) == len(random_calls(1, 4))


def test_line_of_ten_megabytes_is_one_event(tmp_path):
    long = "x" * (10 << 20)
    data = lines_of(
        f'{{"ts":1,"op_id":1,"phase":"B","name":"a","details":{{"log":"{long}"}}}}',
        long,
        '{"ts":2,"op_id":1,"phase":"E","name":"a"}',
    )

    trace = opened(tmp_path, data)

    assert calls_of(trace) == [(0, 1_000_000_000, None, "a", False)]
    assert trace.info.n_records == 3
    assert trace.records is not None
    assert trace.records.view(2).data.startswith(b'{"ts":2')


def test_longest_line_is_cut_and_its_rest_is_no_line(tmp_path, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 256)
    monkeypatch.setattr(text_blocks, "LONGEST_LINE", 512)
    long = "x" * 2000
    data = lines_of(
        f'{{"ts":1,"op_id":1,"phase":"B","name":"a","details":{{"log":"{long}"}}}}',
        '{"ts":2,"op_id":1,"phase":"E","name":"a"}',
    )

    trace = opened(tmp_path, data)

    assert [c[:2] for c in calls_of(trace)] == [(0, 1_000_000_000)]
    assert trace.records is not None
    assert trace.records.view(1).data.startswith(b'{"ts":2')


def test_times_of_day_go_on_behind_midnight_and_epochs_are_known(tmp_path):
    data = lines_of(
        "23:59:59.900000 ioctl(3, 1) = 0 <0.000010>",
        "00:00:00.100000 ioctl(3, 1) = 0 <0.000010>",
    )
    epoch = lines_of("1767225600.500000 ioctl(3, 1) = 0 <0.000010>")

    assert opened(tmp_path, data).extent.duration == 200_010_000
    trace = opened(tmp_path, epoch)
    assert trace.clock.wall(0) == 1_767_225_600_500_000_000


def test_times_since_the_line_before_add_up(tmp_path):
    data = lines_of(
        "     0.000000 ioctl(3, 1) = 0 <0.000010>",
        "     0.250000 ioctl(3, 1) = 0 <0.000010>",
        "     0.250000 ioctl(3, 1) = 0 <0.000010>",
    )

    assert opened(tmp_path, data).spans.start.tolist() == [0, 250_000_000, 500_000_000]


def test_first_part_is_published_early_and_cancelling_stops(tmp_path):
    path = tmp_path / "long.jsonl"
    path.write_bytes(cuda_files.text("generic hook", 1, 2000) * 60)
    early: list[Trace] = []

    with Source(path) as source:
        trace = CudaReader().read(source, ReadContext(publish=early.append))

    assert len(early) == 1
    assert early[0].pending == {"spans"}
    assert early[0].check() == []
    assert 0 < len(early[0].spans) < len(trace.spans)
    cancel = threading.Event()
    cancel.set()
    with Source(path) as source, pytest.raises(Cancelled):
        CudaReader().read(source, ReadContext(cancel=cancel))


@pytest.mark.parametrize(
    "text",
    [
        b'{"ph":"B","ts":1,"pid":1,"event_id":3,"name":"a"}\n',
        b'{"level":"info","ts":1700000000.5,"msg":"op_id"}\n',
        b'openat(AT_FDCWD, "model.gguf", O_RDONLY) = 3\n',
        b'{"ts":1700000000,"event_id":"a-7","type":"login","name":"x"}\n',
        b"plain text\n",
    ],
)
def test_other_files_are_not_taken(text, tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(text)

    assert CudaReader().sniff(Head("x.txt", len(text), text)).confidence == 0
    with Source(path) as source, pytest.raises(CorruptError):
        CudaReader().read(source, ReadContext())


def test_reference_files_hold_what_their_index_says(tmp_path):
    folder = need_corpus() / "cuda"
    index = json.loads((folder / "index.json").read_text("utf-8"))
    for name, facts in index.items():
        trace = open_trace(folder / name)
        expected = facts.get("expect", {"spans": facts["spans"]})
        assert trace.info.reader_id == "cuda-calls"
        assert events_of(trace)["calls"] == expected["spans"], name
        if "events" in expected:
            unmatched = expected["unmatched_begin"] + expected["orphan_end"]
            assert events_of(trace)["unmatched"] == unmatched
            assert events_of(trace)["broken_lines"] == expected["bad"]
            assert len(trace.markers) == expected["instants"]
        copied = tmp_path / "x.txt"
        copied.write_bytes((folder / name).read_bytes())
        assert open_trace(copied).info.reader_id == "cuda-calls"
