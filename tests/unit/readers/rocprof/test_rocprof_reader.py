"""JSON and CSV of rocprofv3 against the records that they were made of."""

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import people
import rocm_files
from ggscope.errors import Cancelled, ReadError
from ggscope.model.tables import AccessKind
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.registry import open_trace

Row = tuple[str, int, int]


def opened(path: Path, data: bytes) -> Trace:
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.check() == []
    assert trace.info.reader_id == "rocprof"
    return trace


def spans_of(trace: Trace, *categories: str) -> list[Row]:
    """Return name, begin and end of spans of some categories, by begin."""
    spans, origin = trace.spans, trace.clock.origin
    if spans.category is None:
        return []
    rows = [
        (trace.span_name(i), int(spans.start[i]) + origin, int(spans.end[i]) + origin)
        for i, c in enumerate(spans.category.tolist())
        if trace.strings[c] in categories
    ]
    return sorted(rows, key=lambda row: (row[1], row[2], row[0]))


def rows_of(made: list[dict[str, Any]]) -> list[Row]:
    rows = [(row["name"], row["start"], row["end"]) for row in made]
    return sorted(rows, key=lambda row: (row[1], row[2], row[0]))


def losses(trace: Trace) -> set[str]:
    return {w.code for w in trace.warnings if w.severity is Severity.DATA_LOSS}


# -- JSON ----------------------------------------------------------------------------


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("seed", range(3))
def test_json_records_become_spans(seed, indent, tmp_path):
    made = rocm_files.program(seed)
    whole = rocm_files.process(made)

    trace = opened(tmp_path / "x.txt", rocm_files.document(whole, indent=indent))

    assert spans_of(trace, "kernel") == rows_of(made.kernels)
    assert spans_of(trace, "hip_runtime_api") == rows_of(made.calls)
    assert spans_of(trace, "marker_core_api") == rows_of(made.ranges)
    assert spans_of(trace, "gpu_memcpy") == rows_of(made.copies)
    allocated = [
        {**row, "name": "MEMORY_ALLOCATION_ALLOCATE"} for row in made.allocations
    ]
    assert spans_of(trace, "gpu_memory") == rows_of(allocated)
    flat = trace.accesses.flat(trace.spans)
    assert sorted(flat.what.size.tolist()) == sorted(c["bytes"] for c in made.copies)
    is_read = flat.what.kind == AccessKind.READ
    assert int(flat.what.size[is_read].sum()) == sum(
        c["bytes"] for c in made.copies if "DEVICE_TO_HOST" in c["name"]
    )
    events = {k: len(v) for k, v in whole["buffer_records"].items() if v}
    assert trace.info.summary["events"] == events
    assert trace.info.producer["GPU 0"] == "AMD Instinct MI350X"
    assert not trace.warnings


def test_kernels_lie_on_their_stream_of_their_agent(tmp_path):
    made = rocm_files.program(7)

    trace = opened(tmp_path / "x.json", rocm_files.document(rocm_files.process(made)))

    counts: dict[str, int] = {}
    for kernel in made.kernels:
        name = f"stream {kernel['stream']}"
        counts[name] = counts.get(name, 0) + 1
    for copy in made.copies:
        assert copy["correlation"]
        counts["stream 0"] = counts.get("stream 0", 0) + 1
    n = np.bincount(trace.spans.lane, minlength=len(trace.lanes)).tolist()
    on_gpu = {
        lane.name: n[i]
        for i, lane in enumerate(trace.lanes)
        if lane.group == ("GPU 0 AMD Instinct MI350X",) and "stream" in lane.name
    }
    assert on_gpu == counts
    threads = {lane.name for lane in trace.lanes if "process" in lane.group[0]}
    assert threads == {f"thread {c['tid']}" for c in made.calls}


def test_work_is_joined_to_its_call_by_the_first_of_alike_ids(tmp_path):
    made = rocm_files.program(3)
    whole = rocm_files.process(made)
    again = {**whole["buffer_records"]["hip_api"][0]}
    again["start_timestamp"] += 1
    again["end_timestamp"] += 1
    whole["buffer_records"]["hip_api"].append(again)

    trace = opened(tmp_path / "x.json", rocm_files.document(whole))

    begin = {call["correlation"]: call["start"] for call in made.calls}
    works = [*made.kernels, *made.copies]
    spans, origin = trace.spans, trace.clock.origin
    joined = {
        (int(spans.start[a]) + origin, int(spans.start[b]) + origin)
        for a, b in zip(
            trace.flows.source.tolist(), trace.flows.target.tolist(), strict=True
        )
    }
    assert joined == {(begin[work["correlation"]], work["start"]) for work in works}


def test_processes_of_one_file_do_not_share_correlations(tmp_path):
    first, second = (rocm_files.program(i, pid=100 * i) for i in (1, 2))
    document = rocm_files.document(*map(rocm_files.process, (first, second)))

    trace = opened(tmp_path / "x.json", document)

    assert spans_of(trace, "kernel") == rows_of([*first.kernels, *second.kernels])
    works = [*first.kernels, *first.copies, *second.kernels, *second.copies]
    assert len(trace.flows) == len(works)
    groups = {lane.group for lane in trace.lanes if lane.name.startswith("stream")}
    assert {group[1] for group in groups} == {
        "process 100 python3",
        "process 200 python3",
    }


def test_counters_are_sums_at_the_begin_of_their_kernel(tmp_path):
    made = rocm_files.program(5)
    document = rocm_files.document(rocm_files.with_counters(made))

    trace = opened(tmp_path / "x.json", document)

    assert spans_of(trace, "kernel") == rows_of(made.kernels)
    series = {
        counter.name: [
            (int(t) + trace.clock.origin, float(v))
            for t, v in zip(counter.time, counter.value, strict=True)
        ]
        for counter in trace.counters
    }
    assert series == {k: sorted(v) for k, v in made.counted.items()}


def test_kernels_that_ranges_renamed_have_the_new_name(tmp_path):
    made = rocm_files.program(2)
    whole = rocm_files.process(made)
    kernels = whole["buffer_records"]["kernel_dispatch"]
    kernels[3]["correlation_id"]["external"] = 77
    whole["strings"]["correlation_id"]["external"] = [{"key": 77, "value": "attn"}]

    trace = opened(tmp_path / "x.json", rocm_files.document(whole))

    made.kernels[3]["name"] = "attn"
    assert spans_of(trace, "kernel") == rows_of(made.kernels)


def test_records_are_the_objects_of_the_file(tmp_path):
    made = rocm_files.program(6)
    document = gzip.compress(rocm_files.document(rocm_files.process(made)))

    trace = opened(tmp_path / "x.bin", document)

    for span in range(0, len(trace.spans), 5):
        fields = dict(f[:2] for f in trace.records.view(trace.record_of(span)).fields)
        start = int(trace.spans.start[span]) + trace.clock.origin
        assert fields["start_timestamp"] == str(start)
        assert "correlation_id · internal" in fields


def test_unusable_records_cost_themselves(tmp_path):
    made = rocm_files.program(4, 60)
    whole = rocm_files.process(made)
    kernels = whole["buffer_records"]["kernel_dispatch"]
    del kernels[1]["end_timestamp"]
    kernels[2]["end_timestamp"] = kernels[2]["start_timestamp"] - 1
    kernels[4]["start_timestamp"] = "soon"
    kernels[5]["dispatch_info"]["agent_id"] = {"handle": 1 << 70}
    kernels[6]["dispatch_info"]["kernel_id"] = 12345
    text = rocm_files.document(whole).replace(
        f'"start_timestamp": {kernels[7]["start_timestamp"]},'.encode(),
        b'"start_timestamp": NaN,',
    )

    trace = opened(tmp_path / "x.json", text)

    made.kernels[6]["name"] = "kernel"
    rows = [k for i, k in enumerate(made.kernels) if i not in (1, 2, 4, 7)]
    assert spans_of(trace, "kernel") == rows_of(rows)
    counts = {w.code: w.count for w in trace.warnings}
    assert counts == {"bad_event_time": 4}
    assert ("GPU unknown",) in {lane.group for lane in trace.lanes}


def test_lists_without_times_are_named_not_drawn(tmp_path):
    made = rocm_files.program(4)
    whole = rocm_files.process(made)
    whole["buffer_records"]["pc_sample_host_trap"] = [{"record": {"pc": 1}}, 7, {}]

    trace = opened(tmp_path / "x.json", rocm_files.document(whole))

    assert trace.info.summary["events"]["pc_sample_host_trap"] == 2
    codes = {w.code for w in trace.warnings}
    assert codes == {"records_without_times", "broken_event"}
    assert len(trace.spans) == sum(
        map(len, (made.kernels, made.calls, made.ranges, made.copies, made.allocations))
    )


def test_agents_and_names_may_be_missing(tmp_path):
    made = rocm_files.program(9)
    whole = rocm_files.process(made)
    for key in ("agents", "strings", "kernel_symbols", "metadata"):
        whole.pop(key)

    trace = opened(tmp_path / "x.json", rocm_files.document(whole))

    assert {name for name, _, _ in spans_of(trace, "kernel")} == {"kernel"}
    assert len(spans_of(trace, "hip_api")) == len(made.calls)


def test_names_behind_the_records_are_used(tmp_path):
    made = rocm_files.program(8)
    whole = rocm_files.process(made)
    last = {key: whole.pop(key) for key in ("strings", "kernel_symbols", "agents")}

    trace = opened(tmp_path / "x.json", rocm_files.document({**whole, **last}))

    assert spans_of(trace, "kernel") == rows_of(made.kernels)
    assert spans_of(trace, "marker_core_api") == rows_of(made.ranges)


def test_json_cut_anywhere_keeps_whole_records(tmp_path):
    made = rocm_files.program(1, 6)
    data = rocm_files.document(rocm_files.process(made))
    path = tmp_path / "x.json"
    starts = [
        data.index(b'{"size": 184', data.index(b'"kernel_dispatch"')),
        data.index(b'"hip_api"'),
    ]
    for cut in range(len(data) - 2):
        path.write_bytes(data[:cut])
        try:
            trace = open_trace(path)
        except ReadError:
            assert cut < starts[1]
            continue
        assert trace.check() == []
        assert losses(trace) == {"truncated_json"}
        kernels = [row[1:] for row in spans_of(trace, "kernel")]
        assert kernels == [row[1:] for row in rows_of(made.kernels)][: len(kernels)]
        if cut >= starts[1]:
            assert len(kernels) == len(made.kernels)


def test_a_cut_packed_file_shows_what_it_holds(tmp_path):
    made = rocm_files.program(1, 4000)
    data = gzip.compress(rocm_files.document(rocm_files.process(made)))

    trace = opened(tmp_path / "x.gz", data[: len(data) // 2])

    n = sum(map(len, (made.kernels, made.calls, made.ranges, made.copies)))
    assert 0 < len(trace.spans) < n
    assert losses(trace) == {"packed_cut"}


def test_large_json_is_read_over_blocks_with_early_pictures(tmp_path):
    made = rocm_files.program(2, 9000)
    path = tmp_path / "x.json"
    path.write_bytes(rocm_files.document(rocm_files.process(made)))
    assert path.stat().st_size > 4 << 20

    trace = open_trace(path, context=ReadContext(publish=lambda _: None))

    assert spans_of(trace, "kernel") == rows_of(made.kernels)
    assert len(trace.flows) == len(made.kernels) + len(made.copies)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_reading_can_be_cancelled(form, tmp_path):
    made = rocm_files.program(2, 900)
    path = tmp_path / "x"
    data = rocm_files.document(rocm_files.process(made))
    path.write_bytes(data if form == "json" else rocm_files.kernel_trace(made))
    cancel = threading.Event()
    cancel.set()

    with pytest.raises(Cancelled):
        open_trace(path, context=ReadContext(cancel=cancel))


def test_json_without_records_is_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b'{"rocprofiler-sdk-tool":[{"metadata":{},"agents":[]}]}')

    with pytest.raises(ReadError, match="no record with a time"):
        open_trace(path)


# -- CSV -----------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_kernel_tables_of_all_versions_open(old, mark, delimiter, tmp_path):
    made = rocm_files.program(3, 60)
    data = rocm_files.kernel_trace(made, old=old, delimiter=delimiter)

    trace = opened(tmp_path / "x.txt", mark + data)

    assert spans_of(trace, "kernel") == rows_of(made.kernels)
    assert trace.info.summary["events"] == {"kernel_dispatch": len(made.kernels)}
    group = "agent 1" if old else "Agent 2"
    assert {lane.group for lane in trace.lanes} == {(group,)}
    assert not trace.warnings


def test_line_ends_and_cases_of_other_writers_are_taken(tmp_path):
    made = rocm_files.program(3, 60)
    head, _, rows = rocm_files.kernel_trace(made).partition(b"\n")
    data = head.upper() + b"\r\n" + rows.replace(b"\n", b"\r\n")

    trace = opened(tmp_path / "x.csv", data)

    kernels = [{**k, "name": k["name"].replace("\n", "\r\n")} for k in made.kernels]
    assert spans_of(trace, "kernel") == rows_of(kernels)


def test_tables_of_calls_ranges_copies_and_allocations_open(tmp_path):
    made = rocm_files.program(4)

    calls = opened(tmp_path / "a", rocm_files.api_trace(made))
    ranges = opened(tmp_path / "b", rocm_files.marker_trace(made))
    copies = opened(tmp_path / "c", rocm_files.copy_trace(made))
    memory = opened(tmp_path / "d", rocm_files.allocation_trace(made))

    assert spans_of(calls, "hip_runtime_api") == rows_of(made.calls)
    assert {lane.group for lane in calls.lanes} == {("process 908",)}
    assert spans_of(ranges, "marker_core_api") == rows_of(made.ranges)
    assert spans_of(copies, "gpu_memcpy") == rows_of(made.copies)
    assert {lane.group for lane in copies.lanes} == {("Agent 2",)}
    assert len(spans_of(memory, "gpu_memory")) == len(made.allocations)


def test_counter_tables_have_each_kernel_once(tmp_path):
    made = rocm_files.program(4)

    trace = opened(tmp_path / "x.csv", rocm_files.counter_collection(made))

    assert spans_of(trace, "kernel") == rows_of(made.kernels)
    series = {
        counter.name: [
            (int(t) + trace.clock.origin, float(v))
            for t, v in zip(counter.time, counter.value, strict=True)
        ]
        for counter in trace.counters
    }
    assert series == {k: sorted(v) for k, v in made.counted.items()}


def test_counters_without_times_are_refused_with_a_way_out(tmp_path):
    made = rocm_files.program(4)
    path = tmp_path / "x.csv"
    path.write_bytes(rocm_files.counter_collection(made, has_times=False))

    with pytest.raises(ReadError, match="no times") as error:
        open_trace(path)

    assert "json" in error.value.hint


def test_totals_are_listed_without_spans(tmp_path):
    made = rocm_files.program(4)

    trace = opened(tmp_path / "x.csv", rocm_files.kernel_stats(made))

    assert len(trace.spans) == 0
    listing = trace.backend_ops
    assert listing is not None
    sums: dict[str, list[int]] = {}
    for kernel in made.kernels:
        sums.setdefault(kernel["name"], []).append(kernel["end"] - kernel["start"])
    ops = listing.ops
    rows = {
        listing.text(op): (count, time)
        for op, count, time in zip(
            ops.op.tolist(), ops.count.tolist(), ops.time.tolist(), strict=True
        )
    }
    assert rows == {name: (len(t), sum(t)) for name, t in sums.items()}
    assert trace.info.summary["events"] == {"totals": len(sums)}


def test_details_have_all_columns_of_a_row(tmp_path):
    made = rocm_files.program(4)
    trace = opened(tmp_path / "x.csv", rocm_files.kernel_trace(made))

    for span in range(len(trace.spans)):
        fields = dict(f[:2] for f in trace.records.view(trace.record_of(span)).fields)
        start = int(trace.spans.start[span]) + trace.clock.origin
        assert fields["Start_Timestamp"] == str(start)
        assert fields["Kernel_Name"] == trace.span_name(span)
        assert fields["Grid_Size_X"] == "1024"


def test_stray_lines_open_quotes_and_a_cut_end_cost_themselves(tmp_path):
    made = rocm_files.program(4, 60)
    head, *rest = rocm_files.kernel_trace(made).split(b"\n", 1)
    data = b"\n".join([head, b"a,b", b'"KERNEL_DISPATCH,1', *rest])
    data += b'"KERNEL_DISPATCH","Agent 2",1,0,7,9,9,"cut'

    trace = opened(tmp_path / "x.csv", data)

    assert len(trace.spans) >= len(made.kernels) - 1
    codes = {w.code for w in trace.warnings}
    assert codes == {"csv_stray_line", "unfinished_line"}


def test_csv_cut_anywhere_keeps_whole_rows(tmp_path):
    made = rocm_files.program(5, 9)
    data = rocm_files.kernel_trace(made)
    whole = rows_of(made.kernels)
    path = tmp_path / "x.csv"
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        try:
            trace = open_trace(path)
        except ReadError:
            continue
        spans = spans_of(trace, "kernel")
        assert spans == [row for row in whole if row in spans]
        assert trace.check() == []


def test_large_csv_is_read_over_blocks(tmp_path):
    made = rocm_files.program(2, 60_000)
    data = rocm_files.kernel_trace(made)
    assert len(data) > 4 << 20

    trace = opened(tmp_path / "x.csv", data)

    assert spans_of(trace, "kernel") == rows_of(made.kernels)


# -- real files ------------------------------------------------------------------------


@people.each("rocm")
def test_real_files_have_the_kernels_that_a_plain_parser_finds(name, tmp_path):
    data = gzip.decompress(people.content(name))
    (process,) = json.loads(data)["rocprofiler-sdk-tool"]
    symbols = {
        symbol["kernel_id"]: symbol["formatted_kernel_name"]
        for symbol in process["kernel_symbols"]
    }
    expected = [
        {
            "name": symbols[record["dispatch_info"]["kernel_id"]],
            "start": record["start_timestamp"],
            "end": record["end_timestamp"],
        }
        for record in process["buffer_records"]["kernel_dispatch"]
    ]

    trace = opened(tmp_path / "x.txt", people.content(name))

    assert spans_of(trace, "kernel") == rows_of(expected)
    assert trace.info.summary["events"] == {"kernel_dispatch": len(expected)}
    assert not trace.warnings
