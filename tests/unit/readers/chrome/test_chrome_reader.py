"""Chrome trace events against the calls that they were made of."""

import gzip
import json
import random
import tracemalloc
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chrome_files
import people
from builders import llama_like_trace
from chrome_files import Call, complete, metadata, others, pairs, random_calls
from flame import frames_of
from ggscope.analysis.rows.colorings import default_coloring
from ggscope.analysis.rows.index import TraceIndex
from ggscope.cli import main
from ggscope.errors import Cancelled, ReadError, UnknownFormatError
from ggscope.exporters.chrome import chunks
from ggscope.exporters.events import Events
from ggscope.model.tables import NO_WAIT, Quality, SpanFlag, quality_of
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.chrome.events import EventScan
from ggscope.readers.common.packed_text import text_of
from ggscope.readers.registry import open_trace
from ggscope.readers.source import Source
from support import ROOT
from wait_traces import with_waits


def opened(path: Path, data: bytes, **options: Any) -> Trace:
    path.write_bytes(data)
    trace = open_trace(path, **options)
    assert trace.check() == []
    assert trace.info.reader_id == "chrome-json"
    return trace


def codes(trace: Trace) -> dict[str, int]:
    return {w.code: w.count for w in trace.warnings}


def thread_calls(trace: Trace) -> Counter[Call]:
    """Return the spans on threads as the calls that they were."""
    s = trace.spans
    origin = trace.clock.origin
    items = []
    for i in range(len(s)):
        lane = trace.lanes[int(s.lane[i])]
        if "pid" not in lane.attributes:
            continue
        category = "" if s.category is None else trace.strings[int(s.category[i])]
        items.append(
            Call(
                int(lane.attributes["pid"]), int(lane.attributes["tid"]),
                trace.strings[int(s.name[i])], category,
                int(s.start[i]) + origin, int(s.end[i]) + origin,
            )
        )  # fmt: skip
    return Counter(items)


@pytest.mark.parametrize("form", range(3))
@pytest.mark.parametrize("is_list", [False, True])
def test_complete_events_keep_their_nanoseconds(form, is_list, tmp_path):
    calls = random_calls(form, 300)
    data = chrome_files.text(
        complete(calls, form), is_list=is_list, indent=form or None
    )

    trace = opened(tmp_path / "x.txt", data)

    assert thread_calls(trace) == Counter(calls)
    assert trace.info.summary["events"] == {"X": 300}
    assert codes(trace) == {}
    assert set(quality_of(trace.spans.flags).tolist()) == {Quality.MEASURED}


@pytest.mark.parametrize("seed", range(6))
def test_begins_and_ends_are_paired_as_they_were_made(seed, tmp_path):
    calls = random_calls(seed, 300)

    trace = opened(tmp_path / "x.json", chrome_files.text(pairs(calls), is_list=True))

    assert thread_calls(trace) == Counter(calls)
    assert trace.info.summary["events"] == {"B": 300, "E": 300}
    assert codes(trace) == {}


def test_events_come_in_any_order(tmp_path):
    calls = random_calls(3, 200)
    events = complete(calls[:100]) + pairs(calls[100:])
    random.Random(3).shuffle(events)

    trace = opened(tmp_path / "x.json", chrome_files.text(events))

    assert thread_calls(trace) == Counter(calls)


@pytest.mark.parametrize(
    ("digits", "ns"),
    [
        ("1", 1000), ("1.5", 1500), ('"2.25"', 2250), ("1e3", 1_000_000),
        ("1.25E-2", 13), ("0.0004", 0), ("0.0005", 1), ("12e-4", 1),
        ("9007199254740993.001", 9007199254740993001 // 1),
        ("1000000000000000000e-9", 10**12), ("00012", 12000), ("+3", 3000),
        ("0." + "0" * 300 + "1", 0), ("1" + "0" * 3, 10**6),
    ],
)  # fmt: skip
def test_times_are_decimal_digits(digits, ns, tmp_path):
    limit = 1 << 61
    data = (
        f'[{{"ph":"X","name":"a","pid":1,"tid":1,"ts":{digits},"dur":{digits}}},'
        '{"ph":"i","name":"zero","pid":1,"tid":1,"ts":0}]'
    )

    trace = opened(tmp_path / "x.json", data.encode())

    if ns > limit:
        assert not len(trace.spans)
        assert codes(trace) == {"broken_event": 1}
    else:
        assert int(trace.spans.start[0]) == ns
        assert int(trace.spans.end[0] - trace.spans.start[0]) == ns


@pytest.mark.parametrize("seed", range(20))
def test_times_are_rounded_like_decimals(seed, tmp_path):
    rng = random.Random(seed)
    texts = []
    for _ in range(50):
        whole, n = rng.randrange(10 ** rng.randrange(1, 14)), rng.randrange(8)
        part = "".join(rng.choice("0123456789") for _ in range(n))
        exponent = rng.choice(["", f"e{rng.randrange(-5, 3)}", f"E+{rng.randrange(3)}"])
        texts.append(f"{whole}{'.' * bool(n)}{part}{exponent}")
    rows = [
        f'{{"ph":"X","ts":0,"dur":{text},"pid":1,"tid":{i}}}'
        for i, text in enumerate(texts)
    ]

    trace = opened(tmp_path / "x.json", f"[{','.join(rows)}]".encode())

    lanes = [int(trace.lanes[i].attributes["tid"]) for i in trace.spans.lane.tolist()]
    lasts = dict(
        zip(lanes, (trace.spans.end - trace.spans.start).tolist(), strict=True)
    )
    for i, text in enumerate(texts):
        exact = (Decimal(text) * 1000).to_integral_value(ROUND_HALF_UP)
        assert lasts[i] == int(exact), text


def test_metadata_name_and_order_lanes(tmp_path):
    events = [*complete(random_calls(1, 100)), *metadata()]

    trace = opened(tmp_path / "x.json", chrome_files.text(events))

    lanes = [(lane.group, lane.name) for lane in trace.lanes]
    assert lanes == [
        (("device",), "device main"), (("device",), "thread 2"),
        (("host",), "host main"), (("host",), "thread 2"),
    ]  # fmt: skip


def test_only_work_is_an_op_and_only_streams_are_engines(tmp_path):
    def event(pid: int, at: int, name: str, category: str = "") -> dict[str, Any]:
        made: dict[str, Any] = {
            "ph": "X", "pid": pid, "tid": f"at {at}", "name": name, "ts": 1, "dur": 2,
        }  # fmt: skip
        return made | ({"cat": category} if category else {})

    def about(pid: int, what: str, **args: str) -> dict[str, Any]:
        return {"ph": "M", "pid": pid, "tid": 0, "name": what, "args": args}

    events = [
        about(1, "process_labels", labels="CPU"),
        about(2, "process_labels", labels="NPU"),
        about(3, "process_labels", labels="NPU"),
        about(3, "process_name", name="Overlap Analysis"),
        about(4, "process_labels", labels="GPU 0"),
        event(1, 1, "ProfilerStep#3", "cpu_op"),
        event(1, 1, "aten::add", "cpu_op"),
        event(2, 2, "MatMul"),
        event(3, 3, "Free"),
        event(4, 4, "Context Sync", "cuda_sync"),
        event(4, 5, "gemm", "kernel"),
        event(4, 5, "Stream Wait", "cuda_sync"),
        event(4, 6, "gemm", "cuda_profiler_range"),
        event(4, 7, "frame", "python_function"),
        event(5, 8, "PyTorch Profiler (0)", "Trace"),
    ]
    events.append({"ph": "i", "s": "g", "pid": "", "tid": "", "name": "end", "ts": 9})
    trace = opened(tmp_path / "x.json", chrome_files.text(events))

    of_kind = {
        kind: {lane.name for lane in trace.lanes if lane.kind is kind}
        for kind in (LaneKind.ENGINE, LaneKind.COMMAND)
    }
    assert of_kind[LaneKind.ENGINE] == {"at 2", "at 5", "at 6"}
    assert of_kind[LaneKind.COMMAND] == {"at 3", "at 4", "at 8"}
    ops = {
        trace.span_name(i): trace.op_name(op)
        for i, op in enumerate(trace.spans.op.tolist())
        if op >= 0
    }
    assert ops == {name: name for name in ("aten::add", "MatMul", "gemm")}
    assert all(group for lane in trace.lanes for group in lane.group)


def test_other_phases_become_counters_markers_and_activities(tmp_path):
    trace = opened(tmp_path / "x.json", chrome_files.text(others()))

    series = {
        c.name: (c.unit, c.time.tolist(), c.value.tolist()) for c in trace.counters
    }
    assert series == {
        "memory free": ("B", [0, 10], [1.5, -2]),
        "memory used": ("B", [0, 10], [5, 7]),
    }
    names = [trace.strings[i] for i in trace.markers.name.tolist()]
    assert sorted(zip(names, trace.markers.time.tolist(), strict=True)) == [
        ("all", 30), ("now", 20), ("step", 5),
    ]  # fmt: skip
    s = trace.spans
    activities = [
        (trace.lanes[lane].name, start, end)
        for lane, start, end in zip(
            s.lane.tolist(), s.start.tolist(), s.end.tolist(), strict=True
        )
    ]
    assert sorted(activities) == [
        ("Object", 1, 8),
        ("request", 0, 9),
        ("request", 5, 50),
    ]
    assert set(trace.lanes.kinds[s.lane].tolist()) == {LaneKind.COMMAND}
    assert codes(trace) == {}


def test_flows_lead_from_span_to_span(tmp_path):
    def call(tid: int, name: str, start: int, last: int) -> dict[str, Any]:
        return {"ph": "X", "pid": 1, "tid": tid, "name": name, "ts": start, "dur": last}

    def flow(
        phase: str, tid: int, at: float, id_: object, **more: str
    ) -> dict[str, Any]:
        where = {"pid": 1, "tid": tid, "ts": at}
        return {"ph": phase, "cat": "go", "name": "go", "id": id_, **where, **more}

    events = [
        call(1, "outer", 0, 100), call(1, "launch", 10, 5), call(1, "launch 2", 30, 5),
        call(2, "kernel", 50, 10), call(2, "kernel 2", 70, 10), call(2, "last", 90, 1),
        flow("s", 1, 10, 1), flow("f", 2, 50, 1, bp="e"),
        flow("s", 1, 31, "0x2"), flow("t", 2, 75, 2), flow("f", 2, 82, 2),
        flow("f", 1, 12, 99, bp="e"),
    ]  # fmt: skip

    trace = opened(tmp_path / "x.json", chrome_files.text(events))

    names = [trace.strings[i] for i in trace.spans.name.tolist()]
    arrows = {
        (names[source], names[target])
        for source, target in zip(
            trace.flows.source.tolist(), trace.flows.target.tolist(), strict=True
        )
    }
    assert arrows == {
        ("launch", "kernel"), ("launch 2", "kernel 2"), ("kernel 2", "last"),
    }  # fmt: skip
    assert codes(trace) == {"loose_flow": 1}


def test_bad_nesting_and_loose_ends_are_listed(tmp_path):
    events = [
        {"ph": "X", "pid": 0, "tid": 0, "ts": 0, "dur": 10, "name": "alpha"},
        {"ph": "X", "pid": 0, "tid": 0, "ts": 5, "dur": 10, "name": "beta"},
        {"ph": "E", "pid": 0, "tid": 1, "ts": 1},
        {"ph": "B", "pid": 0, "tid": 1, "ts": 2, "name": "open"},
        {"ph": "B", "pid": 0, "tid": 1, "ts": 3, "name": "a"},
        {"ph": "E", "pid": 0, "tid": 1, "ts": 9, "name": "b"},
        {"ph": "X", "pid": 0, "tid": 2, "ts": 3, "name": "no end"},
        {"ph": "X", "pid": 0, "tid": 2, "ts": 3, "tdur": 2, "name": "on a core"},
        {"ph": "X", "pid": 0, "tid": 2, "ts": 30, "dur": -2, "name": "backwards"},
    ]

    trace = opened(tmp_path / "x.json", chrome_files.text(events))

    assert codes(trace) == {
        "bad_nesting": 1, "begin_without_end": 1, "end_without_begin": 1,
        "mismatched_end": 1,
    }  # fmt: skip
    flags = dict(
        zip(
            [trace.strings[i] for i in trace.spans.name.tolist()],
            trace.spans.flags.tolist(),
            strict=True,
        )
    )
    assert flags == {
        "alpha": 0, "beta": SpanFlag.OVERLAPS_PARENT, "open": SpanFlag.UNFINISHED,
        "a": 0, "no end": SpanFlag.UNFINISHED, "on a core": SpanFlag.INFERRED_END,
        "backwards": SpanFlag.UNFINISHED | SpanFlag.OUT_OF_ORDER,
    }  # fmt: skip


def test_what_does_not_end_is_drawn_to_the_end_of_its_thread(tmp_path):
    events = [
        {"ph": "B", "pid": 0, "tid": 1, "ts": 2, "name": "open"},
        {"ph": "X", "pid": 0, "tid": 1, "ts": 3, "dur": 40, "name": "inside"},
        {"ph": "X", "pid": 0, "tid": 2, "ts": 0, "dur": 90, "name": "elsewhere"},
    ]

    trace = opened(tmp_path / "x.json", chrome_files.text(events))

    rows = zip(trace.spans.name.tolist(), trace.spans.end.tolist(), strict=True)
    assert {trace.strings[name]: end for name, end in rows} == {
        "open": 43_000, "inside": 43_000, "elsewhere": 90_000
    }  # fmt: skip


def test_damage_is_passed_over_and_reported(tmp_path):
    sound = [json.dumps(e) for e in complete(random_calls(1, 4))]
    data = ",\n".join([
        sound[0], '{"ph":"X","name":"cut', '{"ph":"X" "ts":1}', sound[1],
        "17", "[[1,2],{}]", '{"name":"no phase"}', '{"ph":"X","ts":NaN,"dur":1}',
        sound[2].replace('"n": 2', '"n": NaN, "i": -Infinity, "t": "a\tb\x01\n"'),
        "", sound[3],
    ])  # fmt: skip

    trace = opened(tmp_path / "x.json", b'{"traceEvents":[' + data.encode() + b",]}")

    result = codes(trace)
    assert len(trace.spans) >= 3
    assert result["broken_event"] >= 2
    assert result["no_event"] == 3
    assert "list_not_closed" not in result


@pytest.mark.parametrize("pack", [False, True])
def test_cut_anywhere_opens_with_what_is_whole(pack, tmp_path):
    data = chrome_files.sample(2, 30)
    if pack:
        data = chrome_files.packed(data)
    whole = opened(tmp_path / "x", data)
    refused = 0
    for length in range(1, len(data), 97):
        try:
            trace = opened(tmp_path / "x", data[:length])
        except ReadError:
            refused += 1
            continue
        assert trace.info.n_records <= whole.info.n_records
        is_reported = codes(trace).keys() & {"list_not_closed", "packed_cut"}
        assert is_reported or trace.info.n_records == whole.info.n_records
    assert refused < 12 if not pack else refused < len(data) // 97


def test_small_blocks_give_the_same_events(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(chrome_files.sample(5, 200))
    items = []
    for block in (64, 1000, 4 << 20):
        with Source(path) as source:
            scan = EventScan(
                text_of(source), ReadContext(), source.size, block_bytes=block
            )
            events = scan.run()
        items.append(events)
    for other in items[1:]:
        for name in ("phase", "flags", "offset", "time", "duration", "id", "value"):
            assert np.array_equal(getattr(items[0], name), getattr(other, name)), name
        for name in ("name", "category"):
            texts = [
                [e.texts[i] if i >= 0 else None for i in getattr(e, name).tolist()]
                for e in (items[0], other)
            ]
            assert texts[0] == texts[1]


def test_early_picture_holds_a_part(tmp_path):
    calls = random_calls(1, 20_000)
    path = tmp_path / "x.json"
    path.write_bytes(chrome_files.text(complete(calls)))
    early: list[Trace] = []

    trace = open_trace(path, context=ReadContext(publish=early.append))

    assert early
    assert "spans" in early[0].pending
    assert 0 < len(early[0].spans) < len(trace.spans) == 20_000
    assert early[0].check() == []
    assert early[0].clock.origin == trace.clock.origin


def test_reading_can_be_cancelled(tmp_path):
    import threading

    path = tmp_path / "x.json"
    path.write_bytes(chrome_files.sample(1, 300))
    cancel = threading.Event()
    cancel.set()

    with pytest.raises(Cancelled):
        open_trace(path, context=ReadContext(cancel=cancel))


@pytest.mark.parametrize("pack", [False, True])
def test_arguments_are_read_back(pack, tmp_path):
    calls = random_calls(4, 50)
    data = chrome_files.text(complete(calls))
    trace = opened(tmp_path / "x.json", chrome_files.packed(data) if pack else data)

    for span in range(0, 50, 7):
        record = trace.record_of(span)
        view = trace.records.view(record)
        fields = {name: value for name, value, *_ in view.fields}
        assert fields["name"] == calls[record].name
        assert fields["args · n"] == str(record)
        assert fields["args · text"] == '"quoted" \\'
        assert json.loads(view.data)["args"]["list"] == [1, {"a": "}]"}]
    with pytest.raises(ReadError):
        trace.records.view(50)


def test_arguments_far_in_a_packed_file_are_read_back(tmp_path):
    events = complete(random_calls(1, 400))
    for event in events:
        event["args"]["long"] = "x" * 100_000
    trace = opened(tmp_path / "x.gz", chrome_files.packed(chrome_files.text(events)))

    fields = {f[0]: f[1] for f in trace.records.view(399).fields}

    assert fields["text" if "text" in fields else "args · n"]
    assert trace.records.view(399).offset > 39_000_000


def test_depth_and_sizes_of_values_have_no_bounds(tmp_path):
    deep = b"[" * 300_000 + b"]" * 300_000
    number = b"1" * 2_000_000
    keys = b",".join(b'"k%d":1' % i for i in range(50_000))
    data = (
        b'{"deep":%s,"traceEvents":[{"ph":"X","ts":1,"dur":1,"args":{"d":%s,"n":%s}},'
        b'{"ph":"C","name":"c","ts":1,"args":{%s}},{"ph":"X","ts":%s,"dur":1}]}'
    ) % (deep, deep, number, keys, number)

    trace = opened(tmp_path / "x.json", data, reader_id="chrome-json")

    assert len(trace.spans) == 1
    assert codes(trace)["broken_event"] == 1
    assert codes(trace)["too_many_counters"] == 50_000 - len(trace.counters)


def test_a_packed_bomb_is_ended(tmp_path):
    data = b'{"traceEvents":[{"ph":"X","ts":1,"dur":2},' + b" " * (200 << 20)

    trace = opened(tmp_path / "x.gz", gzip.compress(data, 9))

    assert len(trace.spans) == 1
    assert "packed_cut" in codes(trace)


@pytest.mark.parametrize(
    "data",
    [
        b"[]", b"{}", b'{"traceEvents":[]}', b'{"traceEvents":{}}', b"[1,2,3]",
        b'[{"name":"a"}]', b'{"traceEvents":[[1,2],[3,4]]}',
    ],
)  # fmt: skip
def test_what_holds_no_events_is_refused(data, tmp_path):
    for name, content in (("x.json", data), ("x.json.gz", gzip.compress(data))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ReadError) as caught:
            open_trace(tmp_path / name)
        assert len(str(caught.value)) > 20


def test_command_line_sums_durations_exactly(tmp_path, capsys):
    calls = random_calls(6, 400)
    path = tmp_path / "x.txt"
    path.write_bytes(chrome_files.text(complete(calls), is_list=True))

    assert main(["info", str(path), "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    info = info[0] if isinstance(info, list) else info
    assert info["events"] == {"X": 400}
    assert info["counts"]["spans"] == 400
    assert main(["stats", str(path), "--by", "lane", "--json"]) == 0
    stats = json.loads(capsys.readouterr().out)
    stats = stats[0] if isinstance(stats, list) else stats
    total = sum(row["total_ns"] for row in stats["rows"])
    assert total == sum(c.end - c.start for c in calls)
    assert (
        main(
            ["stats", str(path), "--where", "category=kernel", "--by", "name", "--json"]
        )
        == 0
    )
    stats = json.loads(capsys.readouterr().out)
    stats = stats[0] if isinstance(stats, list) else stats
    kernels = [c for c in calls if c.category == "kernel"]
    assert sum(row["count"] for row in stats["rows"]) == len(kernels)
    assert sum(row["total_ns"] for row in stats["rows"]) == sum(
        c.end - c.start for c in kernels
    )


def test_sampled_stacks_without_a_time_are_reported_of(tmp_path):
    events = complete(random_calls(1, 3))
    data = chrome_files.text(events, samples=[{"sf": 1}], stackFrames={"1": {}})

    trace = opened(tmp_path / "x.json", data)

    assert codes(trace) == {"stacks_left_out": 1}


_FRAMES = {
    "1": {"name": "root", "category": "js"},
    "2": {"name": "work", "parent": 1},
    "3": {"name": "loop", "parent": 4},
    "4": {"name": "loop", "parent": 3},
}


def test_sampled_stacks_are_lanes_beside_the_events_of_their_thread(tmp_path):
    events = [
        {"ph": "M", "pid": 7, "tid": "8", "name": "thread_name",
         "args": {"name": "main"}},
        {"ph": "X", "pid": 7, "tid": "8", "ts": 5, "dur": 90, "name": "work"},
    ]  # fmt: skip
    times = ("1.5", 11.5, 21, 80)
    samples = [
        {"ts": ts, "pid": 7, "tid": "8", "sf": 2 if i else 1}
        for i, ts in enumerate(times)
    ]
    samples += [{"ts": 1, "tid": "8", "sf": 3}, {"ts": 1, "sf": 99}, {"sf": 1}, 5]

    trace = opened(
        tmp_path / "x.json",
        chrome_files.text(events, samples=samples, stackFrames=_FRAMES),
    )

    assert codes(trace) == {"bad_sample": 4, "period_estimated": 1}
    stacks = trace.lanes.is_stacks
    lane = int(np.flatnonzero(stacks)[0])
    assert (trace.lanes.names[lane], trace.lanes[lane].group) == ("main", ("Stacks",))
    assert frames_of(trace, lane) == [
        (0, 19_500 + 10_000, ("root",)),
        (10_000, 19_500 + 10_000, ("root", "work")),
        (78_500, 88_500, ("root",)),
        (78_500, 88_500, ("root", "work")),
    ]
    # The frame and the event of the same name are one op.
    assert trace.ops.names.count("work") == 1


@people.each("chrome-json", lambda name, _: name.endswith("simple-with-samples.json"))
def test_samples_of_a_real_trace_are_all_there(name, tmp_path):
    trace = opened(tmp_path / "x.txt", people.content(name))

    roots = [i for i in range(len(trace.spans)) if trace.span_name(i) == "[root]"]
    assert sum(int(trace.spans.samples[i]) for i in roots) == 7
    assert trace.lanes.names == ("mqt_js",)


def test_names_beyond_the_numbers_of_ops_count_together(tmp_path):
    events = [
        {"ph": "X", "pid": 1, "tid": 1, "ts": i, "dur": 1, "name": f"name {i}"}
        for i in range(32_010)
    ]

    trace = opened(tmp_path / "x.json", chrome_files.text(events))

    assert codes(trace).keys() == {"too_many_ops"}
    assert trace.op_name(int(trace.spans.op[-1])) == "other names"
    assert trace.span_name(len(trace.spans) - 1) == "name 32009"


def _as_rows(trace: Trace) -> Counter[tuple[Any, ...]]:
    """Return what distinguishes spans, of each."""
    s = trace.spans
    none = [-1] * len(s)
    wait = none if s.wait is None else np.where(s.wait == NO_WAIT, 0, s.wait).tolist()
    lanes = [(trace.lanes[i].kind, trace.lanes[i].name) for i in s.lane.tolist()]
    return Counter(
        zip(
            lanes,
            s.start.tolist(),
            s.end.tolist(),
            [trace.span_name(i) for i in range(len(s))],
            [trace.op_name(op) for op in s.op.tolist()],
            none if s.layer is None else s.layer.tolist(),
            none if s.token is None else s.token.tolist(),
            wait,
            quality_of(s.flags).tolist(),
            strict=True,
        )
    )


@pytest.mark.parametrize(
    "sample",
    [
        "llama-demo.ggmlviz", "whisper.ggmlviz", "tinyllama-256.bin",
        "npu-prefill-decode.json", "moe-experiment/trace-1024.bin",
    ],
)  # fmt: skip
def test_what_ggscope_writes_gives_the_same_spans(sample, tmp_path, capsys):
    source = ROOT / "resources" / "samples" / sample
    target = tmp_path / "x.json"
    assert main(["convert", str(source), "--to", "chrome-json", "-o", str(target)]) == 0

    written, read = open_trace(source), open_trace(target)

    assert read.check() == []
    assert read.info.reader_id == "chrome-json"
    assert read.clock.unit == written.clock.unit
    assert read.clock.origin == written.clock.origin
    assert _as_rows(read) == _as_rows(written)


def test_waits_are_written_and_read_back(tmp_path):
    trace = llama_like_trace(tokens=3, layers=2)
    wait = np.random.default_rng(2).integers(1, 500, len(trace.spans))
    trace = with_waits(trace, wait)
    target = tmp_path / "x.json"
    target.write_bytes(b"".join(chunks(Events(trace))))

    read = open_trace(target)

    assert read.check() == []
    events = Events(trace)
    waits = events.waits(events.nesting())
    assert waits is not None
    written = int(waits.sum())
    assert read.spans.wait is not None
    assert int(read.spans.wait[read.spans.wait != NO_WAIT].sum()) == written > 0


def test_kernels_are_joined_to_calls_by_correlation(tmp_path):
    def event(
        tid: int, category: str, name: str, at: int, **args: Any
    ) -> dict[str, Any]:
        return {
            "ph": "X", "pid": int(tid == 9), "tid": tid, "name": name,
            "cat": category, "ts": at, "dur": 2, "args": args,
        }  # fmt: skip

    events = [
        event(1, "cuda_runtime", "one", 0, correlation=5),
        event(1, "cuda_runtime", "graph", 10, correlation=6),
        event(1, "cuda_runtime", "twice", 20, correlation=7),
        event(1, "cuda_runtime", "again", 30, correlation=7),
        event(9, "kernel", "k5", 5, correlation=5, stream=9),
        event(9, "kernel", "k6", 15, correlation=6),
        event(9, "kernel", "k6 too", 18, correlation=6),
        event(9, "kernel", "k7", 40, correlation=7),
        event(9, "kernel", "k8", 50, correlation=8),
        event(9, "gpu_memcpy", "copy", 60, correlation=8, bytes=77),
        event(1, "cpu_op", "op", 60, bytes=5),
    ]
    for i, (kind, bytes_) in enumerate([(1, 30), (1, 10), (0, 7)]):
        facts = {"Total Allocated": bytes_, "Device Type": kind, "Device Id": 0}
        events.append(
            {"ph": "i", "s": "t", "name": "[memory]", "pid": 0, "tid": 1, "ts": 3 - i,
             "args": facts}
        )  # fmt: skip

    trace = opened(tmp_path / "x.json", chrome_files.text(events))

    names = [trace.strings[i] for i in trace.spans.name.tolist()]
    arrows = {
        (names[source], names[target])
        for source, target in zip(
            trace.flows.source.tolist(), trace.flows.target.tolist(), strict=True
        )
    }
    assert arrows == {("one", "k5"), ("graph", "k6"), ("graph", "k6 too")}
    assert trace.spans.moved is not None
    moved = dict(zip(names, trace.spans.moved.tolist(), strict=True))
    assert moved == {**dict.fromkeys(names, -1), "copy": 77}
    assert {c.name: (c.time.tolist(), c.value.tolist()) for c in trace.counters} == {
        "allocated, CPU": ([1000], [7]),
        "allocated, device 0": ([2000, 3000], [10, 30]),
    }  # fmt: skip
    assert not len(trace.markers)
    kinds = {lane.name: (lane.kind, lane.group) for lane in trace.lanes}
    assert kinds["stream 9"] == (LaneKind.ENGINE, ("device 1",))


def test_a_converted_file_gives_back_spans_lanes_and_categories(tmp_path, capsys):
    events = [*metadata(), *complete(random_calls(2, 200)), *others()]
    events += [
        {"ph": "X", "pid": 5, "tid": 9, "cat": "kernel", "name": "k", "ts": i, "dur": 1}
        for i in range(0, 20, 2)
    ]
    source = tmp_path / "source.json"
    target = tmp_path / "target.json"
    first = opened(source, chrome_files.text(events))
    assert main(["convert", str(source), "--to", "chrome-json", "-o", str(target)]) == 0

    second = open_trace(target)

    assert second.check() == []
    assert _as_rows(second) == _as_rows(first)
    items = []
    for trace in (first, second):
        s, lanes = trace.spans, trace.lanes
        assert s.category is not None
        counts = Counter(trace.strings[i] for i in s.category.tolist())
        groups = {(lanes[i].name, lanes[i].group) for i in s.lane.tolist()}
        items.append((counts, groups))
    assert items[0] == items[1]
    assert [c.value.tolist() for c in second.counters] == [
        c.value.tolist() for c in first.counters
    ]


def test_kernels_without_a_call_are_joined_to_the_op_by_external_id(tmp_path):
    def event(tid: int, category: str, name: str, at: int, **args: int) -> Any:
        return {
            "ph": "X", "pid": tid, "tid": tid, "name": name, "cat": category, "ts": at,
            "dur": 2, "args": {key.replace("_", " "): n for key, n in args.items()},
        }  # fmt: skip

    events = [
        event(1, "cpu_op", "mm", 0, External_id=3),
        event(1, "cuda_runtime", "launch", 1, External_id=3, correlation=8),
        event(1, "cpu_op", "add", 5, External_id=4),
        event(9, "kernel", "of a call", 20, External_id=3, correlation=8),
        event(9, "kernel", "of an op", 30, External_id=4, correlation=9),
        event(9, "kernel", "of none", 40, External_id=5),
    ]

    trace = opened(tmp_path / "x.json", chrome_files.text(events))

    names = [trace.strings[i] for i in trace.spans.name.tolist()]
    arrows = {
        (names[source], names[target])
        for source, target in zip(
            trace.flows.source.tolist(), trace.flows.target.tolist(), strict=True
        )
    }
    assert arrows == {("launch", "of a call"), ("add", "of an op")}


def test_colours_go_by_category_else_by_name_unless_ops_have_families(tmp_path):
    def events(name: str, **more: str) -> list[dict[str, Any]]:
        where = {"ph": "X", "pid": 1, "tid": 1, "dur": 1, **more}
        return [{**where, "ts": i, "name": f"{name}{i % 3}"} for i in range(30)]

    values = {}
    for word, made in (
        ("with", events("a", cat="c")),
        ("without", events("a")),
        ("few", [*events("a"), *events("a", cat="c")[:5]]),
        ("ggml", [{**e, "name": "MUL_MAT"} for e in events("a")]),
    ):
        trace = opened(tmp_path / "x.json", chrome_files.text(made))
        values[word] = default_coloring(trace)

    assert values == {
        "with": "category",
        "without": "op",
        "few": "op",
        "ggml": "family",
    }


@pytest.mark.parametrize("name", ["x.json", "x.txt", "x.json.gz"])
@pytest.mark.parametrize(
    "begin",
    [
        '{"otherData": {"env": "%s"}, "traceEvents": [',
        '{"otherData": {"%s": 1, "a": [' + "{}," * 9999 + ']}, "traceEvents": [',
        '{"deviceProperties": [{"name": "%s"}], "traceEvents": [',
        '[{"args": {"a": "%s", "b": [1, 2]}, "ph": "X", "ts": 5, "dur": 1},',
        '{"traceEvents": [{"args": {"a": {"b": "%s"}}, "ph": "X", "ts": 5, "dur": 1},',
        '{"a": [[[["%s"]]]], "traceEvents": [',
    ],
)  # fmt: skip
def test_what_comes_before_the_first_event_may_be_long(begin, name, tmp_path):
    text = begin.replace("%s", '\\"[{' * 50_000) + '{"ph": "X", "ts": 7, "dur": 2}]'
    text += "}" if text.startswith("{") else ""
    data = text.encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)

    trace = open_trace(path)

    assert trace.info.reader_id == "chrome-json"
    assert trace.info.summary["events"] == {"X": begin.count('"ph"') + 1}


def test_long_json_without_events_is_refused_in_words(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"rows": [{"n": "y" * 300}] * 5000, "other": 1}))

    with pytest.raises(UnknownFormatError):
        open_trace(path)


def test_events_take_little_memory_at_rest(tmp_path):
    """Of the trace and of the rows that the timeline draws."""
    n, path = 100_000, tmp_path / "x.json"
    events = (
        f'{{"ph":"X","cat":"cpu_op","name":"op_{i % 300}","pid":1,"tid":{i % 8},'
        f'"ts":{i // 8 * 3}.{i % 1000:03d},"dur":4.5,"args":{{"id":{i}}}}}'
        for i in range(n)
    )
    path.write_text("[" + ",\n".join(events) + "]")
    open_trace(path)  # imports
    tracemalloc.start()
    try:
        trace = open_trace(path)
        index = TraceIndex(trace)
        rows = [index.rows(lane.key) for lane in index.lanes if not lane.track.column]
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert sum(len(row) for lane in rows for row in lane) == n
    assert held < 56 * n
