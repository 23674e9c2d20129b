"""The .ggmlviz reader against files: header, layouts, faults, options, tables."""

import json
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ggmlviz_files as viz
from ggmlviz_files import Event
from ggscope.errors import (
    Cancelled,
    CorruptError,
    EmptyFileError,
    LimitExceededError,
    ReadError,
    TruncatedError,
    UnsupportedVersionError,
)
from ggscope.model.tables import Quality, quality_of
from ggscope.model.trace import LaneKind, ReadWarning, Severity, Trace
from ggscope.readers.api import Head, Limits, ReadContext, Sniff
from ggscope.readers.ggmlviz import trace as ggmlviz_trace
from ggscope.readers.ggmlviz.reader import GgmlvizReader
from ggscope.readers.source import Source
from support import need_corpus


def read(path: Path, context: ReadContext | None = None, **options: str) -> Trace:
    with Source(path) as source:
        trace = GgmlvizReader().read(source, context or ReadContext(options=options))
    assert trace.check() == []
    return trace


def read_events(tmp_path: Path, events: list[Event], **options: str) -> Trace:
    return read(viz.write(tmp_path / "t.ggmlviz", events), **options)


def read_bytes(tmp_path: Path, data: bytes, **options: str) -> Trace:
    path = tmp_path / "t.ggmlviz"
    path.write_bytes(data)
    return read(path, **options)


def warning(trace: Trace, code: str) -> ReadWarning:
    warnings = [w for w in trace.warnings if w.code == code]
    assert warnings, f"no {code} in {[w.code for w in trace.warnings]}"
    return warnings[0]


def codes(trace: Trace) -> set[str]:
    return {w.code for w in trace.warnings}


def sniff(data: bytes, name: str = "t.bin", size: int | None = None) -> Sniff:
    return GgmlvizReader().sniff(Head(name, len(data) if size is None else size, data))


# --- corpus


def test_real_trace_equals_its_index() -> None:
    folder = need_corpus()
    index = json.loads((folder / "INDEX.json").read_text())
    expect = next(
        row["expect"] for row in index if row["path"] == "ggmlviz/test_trace.ggmlviz"
    )

    trace = read(folder / "ggmlviz" / "test_trace.ggmlviz")

    names = [trace.span_name(i) for i in range(len(trace.spans))]
    graph = trace.spans.op == -1
    length = trace.spans.end - trace.spans.start
    assert trace.info.n_records == expect["events"]
    assert trace.info.summary["events"] == expect["types"]
    assert trace.info.options["layout"] == expect["layout"]
    assert trace.clock.origin == expect["t0"]
    assert trace.extent.duration == expect["span_ns"]
    assert int(graph.sum()) == trace.info.summary["graphs"] == expect["graphs"]
    assert int(length[graph].sum()) == expect["graph_time_ns"]
    assert trace.quality_counts() == {
        "measured": 10, "derived": 0, "estimated": 20, "unfinished": 0,
    }  # fmt: skip
    assert names.count("matmul_AB") == names.count("final_result") == 10
    assert [lane.attributes["raw"] for lane in trace.lanes] == [
        str(expect["thread_id"])
    ]
    assert trace.op_name(27) == "MUL_MAT"
    assert trace.op_name(2) == "ADD"
    assert trace.ops is not None
    assert trace.ops.source == "inferred"
    assert trace.ops.margin is not None
    assert trace.ops.margin > 3
    assert "2025-03-18" <= trace.ops.id.removeprefix("ggml-") < "2025-08-05"


def test_derived_files_equal_their_index() -> None:
    folder = need_corpus() / "ggmlviz" / "derived"
    index = json.loads((folder / "index.json").read_text())
    outcomes: dict[str, object] = {}

    for name in index:
        try:
            trace = read(folder / name)
            outcomes[name] = (trace.info.n_records, trace.info.options["layout"])
        except ReadError as error:
            outcomes[name] = error.code

    expected: dict[str, object] = {
        name: (row["events"], row.get("layout", "c64"))
        for name, row in index.items()
        if "events" in row
    }
    expected["truncated_header_11.ggmlviz"] = "truncated"
    expected["bad_magic.ggmlviz"] = "unsupported_version"
    assert outcomes == expected


@pytest.mark.parametrize(
    ("name", "code", "severity"),
    [
        ("truncated_mid_event", "truncated_event", Severity.DATA_LOSS),
        ("truncated_mid_label", "truncated_event", Severity.DATA_LOSS),
        ("version2", "unknown_version", Severity.NOTICE),
        ("zero_tail", "zero_tail", Severity.NOTICE),
        ("backend_buffer_and_unknown_types", "unknown_type_42", Severity.NOTICE),
        ("memory", "free_without_alloc", Severity.NOTICE),
        ("huge_label", "bad_label_length", Severity.ERROR),
    ],
)
def test_derived_files_warn(name: str, code: str, severity: Severity) -> None:
    trace = read(need_corpus() / "ggmlviz" / "derived" / f"{name}.ggmlviz")

    assert warning(trace, code).severity == severity
    assert warning(trace, code).count == 1


def test_corpus_memory_has_indexed_peak_and_leak() -> None:
    trace = read(need_corpus() / "ggmlviz" / "derived" / "memory.ggmlviz")

    assert trace.info.summary["peak_bytes"] == 15360
    assert trace.info.summary["leak_bytes"] == 5120


def test_corpus_empty_file_is_an_empty_file_error() -> None:
    with pytest.raises(EmptyFileError):
        read(need_corpus() / "ggmlviz" / "empty_ggml_trace.bin")


# --- header and sniffing


def test_header_only_is_an_empty_trace(tmp_path: Path) -> None:
    trace = read_bytes(tmp_path, viz.HEADER)

    assert (len(trace.spans), len(trace.lanes), trace.info.n_records) == (0, 0, 0)
    assert warning(trace, "no_events").severity == Severity.NOTICE
    assert trace.ops is None


@pytest.mark.parametrize("length", range(1, 12))
def test_cut_header_is_truncated(tmp_path: Path, length: int) -> None:
    with pytest.raises(TruncatedError, match=f"{length} of 12") as caught:
        read_bytes(tmp_path, viz.HEADER[:length])

    assert caught.value.offset == length


@pytest.mark.parametrize(
    ("start", "error", "shown"),
    [
        (b"GGMLVIZ2", UnsupportedVersionError, '"GGMLVIZ2"'),
        (b"\x7fELF\x02\x01\x01\x00", CorruptError, "7f 45 4c 46 02 01 01 00"),
        (b"PK-other", CorruptError, '"PK-other"'),
        (b"GGMLviz1", CorruptError, '"GGMLviz1"'),
        (bytes(8), CorruptError, "00 00 00"),
    ],
)
def test_wrong_magic_is_named(
    tmp_path: Path, start: bytes, error: type[ReadError], shown: str
) -> None:
    with pytest.raises(error, match="magic") as caught:
        read_bytes(tmp_path, start + bytes(200))

    assert shown in str(caught.value)
    assert caught.value.offset == 0


@pytest.mark.parametrize(
    ("data", "name", "confidence"),
    [
        (viz.HEADER, "a.bin", 100),
        (viz.HEADER[:8] + struct.pack("<I", 2), "a.bin", 90),
        (viz.HEADER[:10], "a.bin", 90),
        (viz.HEADER[:5], "a.bin", 90),
        (viz.HEADER[:2], "a.bin", 25),
        (b"GGMLVIZ9" + bytes(30), "a.bin", 90),
        (b"no magic number", "a.ggmlviz", 10),
        (b"no magic number", "a.bin", 0),
        (b"GGUF" + bytes(30), "a.bin", 0),
        (b"", "a.bin", 0),
    ],
)
def test_sniff_judges_by_magic(data: bytes, name: str, confidence: int) -> None:
    judged = sniff(data, name)

    assert judged.confidence == confidence
    assert bool(judged.reason) == bool(confidence)


def test_sniff_of_a_long_file_takes_no_bare_prefix() -> None:
    assert sniff(b"GGML", size=10_000).confidence == 0


def test_unknown_version_is_read_with_a_notice(tmp_path: Path) -> None:
    header = b"GGMLVIZ1" + struct.pack("<I", 7)

    trace = read_bytes(tmp_path, viz.packed(viz.run(), header=header))

    assert "version 7" in warning(trace, "unknown_version").message
    assert trace.info.format_version == "7"
    assert len(trace.spans) == 20


# --- layouts


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("layout", viz.LAYOUT_IDS)
def test_layout_is_detected_and_decodes_alike(
    tmp_path: Path, layout: str, labels: bool
) -> None:
    events = viz.run(8, 4, labels=labels)

    trace = read(viz.write(tmp_path / "t.ggmlviz", events, layout))

    spans = trace.spans
    expected, _ = viz.reference(events)
    assert trace.info.options["layout"] == layout
    assert spans.record is not None
    assert sorted(
        zip(spans.record.tolist(), spans.start.tolist(), spans.end.tolist(),
            strict=True)
    ) == [
        (e.record, e.start - viz.T0, e.end - viz.T0) for e in expected
    ]  # fmt: skip
    assert set(spans.op.tolist()) == {-1, 27}
    items = {"matmul-0", "matmul-3"} if labels else {"MUL_MAT"}
    assert items <= {trace.span_name(i) for i in range(len(spans))}


def test_layout_option_overrides_detection(tmp_path: Path) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", viz.run(1, 1), "packed20")

    trace = read(path, layout="packed20")

    assert trace.info.options["layout"] == "packed20"
    assert trace.info.n_records == 4
    assert len(trace.spans) == 2


def test_layout_of_short_files_is_the_usual_one(tmp_path: Path) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", viz.run(1, 0), "c64")

    assert read(path).info.options["layout"] == "c64"


def test_layout_is_found_although_an_early_event_is_damaged(tmp_path: Path) -> None:
    data = bytearray(viz.packed(viz.run(8)))
    data[12 + 45] = 9

    trace = read_bytes(tmp_path, bytes(data))

    assert trace.info.options["layout"] == "c64"
    assert warning(trace, "skipped_bytes").severity == Severity.DATA_LOSS
    assert warning(trace, "skipped_bytes").offset == 12
    assert trace.info.n_records == len(viz.run(8)) - 1


def test_layout_is_found_before_a_type_that_cannot_be(tmp_path: Path) -> None:
    events = [*viz.run(4), Event(200, viz.T0 + 10**6), *viz.run(1)]

    trace = read(viz.write(tmp_path / "t.ggmlviz", events, "c64-old"))

    assert trace.info.options["layout"] == "c64-old"
    assert trace.info.n_records == len(events)


def test_unknown_layout_is_a_read_error(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="'c128' for option layout"):
        read_events(tmp_path, viz.run(), layout="c128")


# --- faults


def test_truncated_event_keeps_whole_ones(tmp_path: Path) -> None:
    events = viz.run(4)
    data = viz.packed(events)

    trace = read_bytes(tmp_path, data[:-10])

    at = len(viz.packed(events[:-1]))
    assert trace.info.n_records == len(events) - 1
    assert warning(trace, "truncated_event").offset == at
    assert warning(trace, "unfinished").count == 1


@pytest.mark.parametrize("missing", range(1, 9))
def test_truncated_label_keeps_earlier_events(tmp_path: Path, missing: int) -> None:
    events = [Event(0, viz.T0, 1), Event(2, viz.T0 + 1, 5, 27, label="abcd")]

    trace = read_bytes(tmp_path, viz.packed(events)[:-missing])

    assert trace.info.n_records == 1
    assert warning(trace, "truncated_event").offset == 12 + 46


def test_hostile_label_length_keeps_earlier_events(tmp_path: Path) -> None:
    events = viz.run(4)
    bad = bytearray(Event(2, viz.T0 + 10**7, 5, label="abc").packed())
    bad[46:50] = struct.pack("<I", 0xFFFF_FFF0)

    trace = read_bytes(tmp_path, viz.packed(events) + bytes(bad))

    problem = warning(trace, "bad_label_length")
    assert trace.info.n_records == len(events)
    assert problem.severity == Severity.DATA_LOSS
    assert problem.offset == len(viz.packed(events))


@pytest.mark.parametrize("zeros", [46, 63, 64, 4096])
def test_zero_tail_is_dropped(tmp_path: Path, zeros: int) -> None:
    events = viz.run(4)

    trace = read_bytes(tmp_path, viz.packed(events) + bytes(zeros))

    assert trace.info.n_records == len(events)
    assert warning(trace, "zero_tail").offset == len(viz.packed(events))
    assert codes(trace) == {"zero_tail", "estimated_ops"}


def test_few_zeros_at_the_end_are_a_cut_event(tmp_path: Path) -> None:
    trace = read_bytes(tmp_path, viz.packed(viz.run(4)) + bytes(45))

    assert "truncated_event" in codes(trace)


def test_data_after_a_hole_is_a_loss(tmp_path: Path) -> None:
    trace = read_bytes(
        tmp_path, viz.packed(viz.run(4)) + bytes(100) + b"no events" * 20
    )

    assert warning(trace, "data_after_zeros").severity == Severity.DATA_LOSS


def test_sparse_file_is_read_to_its_last_data(tmp_path: Path) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", viz.run(4))
    with path.open("r+b") as file:
        file.truncate(1 << 31)

    trace = read(path, ReadContext(limits=Limits(memory_bytes=1 << 20)))

    assert trace.info.n_records == len(viz.run(4))
    assert trace.info.byte_size == 1 << 31
    assert "zero_tail" in codes(trace)


def test_unknown_types_are_markers_with_one_warning_each(tmp_path: Path) -> None:
    extra = [
        Event(kind, viz.T0 + 5000 + i, label="x" if i else None)
        for i, kind in enumerate([11, 200, 200])
    ]

    trace = read_events(tmp_path, viz.run(2) + extra)

    names = [trace.strings[i] for i in trace.markers.name.tolist()]
    details = [trace.strings[i] for i in trace.markers.detail.tolist()]
    assert names == ["event type 11", "event type 200", "event type 200"]
    assert details == ["", "x", "x"]
    assert warning(trace, "unknown_type_11").count == 1
    assert warning(trace, "unknown_type_200").count == 2
    assert set(trace.markers.lane.tolist()) == {0}
    assert trace.markers.record is not None
    assert trace.markers.record.tolist() == list(range(16, 19))


def test_bad_utf8_is_replaced_and_counted(tmp_path: Path) -> None:
    events = [
        Event(2, viz.T0, 1, 27, label=b"a\xff"), Event(3, viz.T0 + 1, 1, 27),
        Event(2, viz.T0 + 2, 1, 27, label="µ\ufffd"), Event(3, viz.T0 + 3, 1, 27),
        Event(2, viz.T0 + 4, 1, 27, label=b"a\xff"), Event(3, viz.T0 + 5, 1, 27),
    ]  # fmt: skip

    trace = read_events(tmp_path, events)

    assert [trace.span_name(i) for i in range(3)] == ["a\ufffd", "µ\ufffd", "a\ufffd"]
    assert warning(trace, "bad_label_text").count == 2
    assert warning(trace, "bad_label_text").offset == 12


def test_empty_label_falls_back_to_the_op(tmp_path: Path) -> None:
    events = [Event(2, viz.T0, 1, 27, label=""), Event(3, viz.T0 + 1, 1, 27)]

    trace = read_events(tmp_path, events)

    assert trace.span_name(0) == "MUL_MAT"


def test_backward_stamps_are_sorted_and_counted(tmp_path: Path) -> None:
    events = viz.run(4, interleaved=True)
    swapped = [*events[:2], events[3], events[2], *events[4:]]

    trace = read_events(tmp_path, swapped)

    assert warning(trace, "out_of_order").count == 1
    assert trace.quality_counts()["measured"] == 16
    assert trace.spans.record is not None
    assert sorted(trace.spans.record.tolist())[:3] == [0, 1, 2]


def test_equal_stamps_keep_the_order_of_the_file(tmp_path: Path) -> None:
    events = [
        Event(2, viz.T0, 1, 1), Event(3, viz.T0, 1, 1),
        Event(2, viz.T0, 1, 2), Event(3, viz.T0, 1, 2),
    ]  # fmt: skip

    trace = read_events(tmp_path, events)

    assert trace.spans.op.tolist() == [1, 2]
    assert trace.quality_counts()["measured"] == 2


@pytest.mark.parametrize("stamp", [1 << 63, (1 << 64) - 1, 1 << 61])
def test_impossible_stamp_does_not_stretch_the_trace(
    tmp_path: Path, stamp: int
) -> None:
    events = viz.run(2, interleaved=True)
    events[0] = Event(0, stamp, 0x1000, 3)
    events[4] = Event(3, stamp, 0x2100, 27)

    trace = read_events(tmp_path, events)

    assert warning(trace, "bad_timestamp").count == 2
    assert trace.extent.duration < 10_000
    assert trace.quality_counts()["unfinished"] == 0


def test_a_long_run_has_no_impossible_stamps(tmp_path: Path) -> None:
    day = 24 * 3600 * 10**9
    events = [Event(9, viz.T0 + k * day) for k in (0, 200, 400)]

    trace = read_events(tmp_path, events)

    assert trace.extent.duration == 400 * day
    assert "bad_timestamp" not in codes(trace)


def test_only_impossible_stamps_give_a_trace_at_zero(tmp_path: Path) -> None:
    trace = read_events(tmp_path, [Event(0, (1 << 64) - 1), Event(1, 1 << 63)])

    assert warning(trace, "bad_timestamp").count == 2
    assert trace.extent.duration == 0


# --- lanes


def test_backends_and_threads_have_lanes_in_order_of_appearance(
    tmp_path: Path,
) -> None:
    events = (
        viz.graph(viz.T0, thread=77)
        + viz.graph(viz.T0 + 1000, thread=5, backend=0xBBB)
        + viz.graph(viz.T0 + 2000, thread=77, backend=0xAAA)
    )

    trace = read_events(tmp_path, events)

    assert [(lane.group, lane.name) for lane in trace.lanes] == [
        (("CPU backend",), "thread 0"),
        (("Backend 1",), "thread 1"),
        (("Backend 2",), "thread 0"),
    ]
    assert [lane.attributes["raw"] for lane in trace.lanes] == ["77", "5", "77"]
    assert trace.lanes[1].attributes["backend"] == "0xbbb"
    assert {lane.kind for lane in trace.lanes} == {LaneKind.THREAD}
    assert np.bincount(trace.spans.lane).tolist() == [4, 4, 4]


def test_ops_follow_their_own_backend(tmp_path: Path) -> None:
    events = viz.graph(viz.T0, 2)
    events[1] = Event(2, viz.T0 + 10, 0x2000, 27, backend=0xCC)

    trace = read_events(tmp_path, events)

    assert [lane.group[0] for lane in trace.lanes] == ["CPU backend", "Backend 1"]
    assert np.bincount(trace.spans.lane).tolist() == [2, 1]


def test_counters_before_them_do_not_shift_the_lanes(tmp_path: Path) -> None:
    events = [
        Event(4, viz.T0, 1, size=8, thread=9),
        *viz.graph(viz.T0 + 1, thread=7),
        Event(8, viz.T0 + 9, thread=7),
    ]

    trace = read_events(tmp_path, events)

    lanes = {trace.lanes[i].attributes["raw"] for i in trace.spans.lane.tolist()}
    assert lanes == {"7"}
    assert trace.lanes[int(trace.markers.lane[0])].attributes["raw"] == "7"
    assert trace.lanes[trace.counters[0].lane].kind == LaneKind.COUNTER


def test_spans_of_a_lane_lie_together_in_start_order(tmp_path: Path) -> None:
    events = viz.run(3, thread=1, interleaved=True)
    events += viz.run(3, thread=2, interleaved=True)

    spans = read_events(tmp_path, events).spans

    key = spans.lane.astype(np.int64) << 40 | spans.start
    assert (np.diff(key) >= 0).all()


def test_marker_of_a_thread_without_spans_has_a_lane(tmp_path: Path) -> None:
    trace = read_events(tmp_path, [Event(9, viz.T0, thread=3)])

    groups = [lane.group for lane in trace.lanes]
    assert groups == [("CPU backend",), ("Thread lives",)]
    assert quality_of(trace.spans.flags).tolist() == [Quality.UNFINISHED]


def test_too_many_lanes_share_the_last(tmp_path: Path) -> None:
    events = [
        Event(0, viz.T0 + i, i, thread=i % 70, backend=i // 70) for i in range(4900)
    ]

    trace = read_events(tmp_path, events)

    assert len(trace.lanes) == 4097
    assert trace.lanes[-1].name == "other threads"
    assert np.bincount(trace.spans.lane)[-1] == 4900 - 4096
    assert "too_many_lanes" in codes(trace)


# --- names, ops, tensors


def test_graphs_are_named_by_their_size(tmp_path: Path) -> None:
    events = viz.graph(viz.T0, 1) + viz.graph(viz.T0 + 500, 2)
    events.append(Event(0, viz.T0 + 2000, 9, 7, label="prompt"))

    trace = read_events(tmp_path, events)

    names = {trace.span_name(i) for i in np.flatnonzero(trace.spans.op == -1)}
    assert names == {"graph (1 node)", "graph (2 nodes)", "prompt"}


def test_labels_make_tensors_and_layers(tmp_path: Path) -> None:
    events = [
        Event(2, viz.T0, 1, 27, label="Qcur-5"), Event(3, viz.T0 + 1, 1, 27),
        Event(2, viz.T0 + 2, 2, 27, label="Qcur-5 (view)"), Event(3, viz.T0 + 3, 2, 27),
        Event(2, viz.T0 + 4, 3, 27), Event(3, viz.T0 + 5, 3, 27),
        Event(0, viz.T0 + 6, label="whole-9"), Event(1, viz.T0 + 7),
    ]  # fmt: skip

    trace = read_events(tmp_path, events)

    assert [trace.strings[i] for i in trace.tensors.name] == ["Qcur-5"]
    assert trace.spans.tensor is not None
    assert trace.spans.layer is not None
    assert trace.spans.tensor.tolist() == [0, 0, -1, -1]
    assert trace.spans.layer.tolist() == [5, 5, -1, -1]


def test_ops_without_telling_labels_take_a_table_of_the_time(tmp_path: Path) -> None:
    trace = read_events(tmp_path, viz.run(4, labels=False))

    assert trace.ops is not None
    assert trace.ops.id == "ggml-2025-06-30-86"
    assert trace.ops.margin == 0.0
    assert "op_table_uncertain" in codes(trace)


def test_ops_option_overrides_the_table(tmp_path: Path) -> None:
    trace = read_events(tmp_path, viz.run(4), ops="ggml-2025-11-25-95")

    assert trace.ops is not None
    assert trace.ops.source == "override"
    assert trace.info.options["ops"] == "ggml-2025-11-25-95"
    assert trace.op_name(29) == "MUL_MAT"
    assert "op_table_uncertain" not in codes(trace)


def test_op_table_is_reported_from_the_first_ops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = viz.run(20, op=27)
    expected = read_events(tmp_path, events).ops
    monkeypatch.setattr(ggmlviz_trace, "MAX_OPS", len(viz.run(20)) // 4)

    # Later ops that speak for another table are not asked.
    late = [
        Event(kind, e.time + 10**6, e.ptr, 29, 0, 1, 0, e.label)
        for e in viz.run(100) for kind in [e.kind]
    ]  # fmt: skip
    trace = read_events(tmp_path, events + late)

    assert expected is not None
    assert trace.ops is not None
    assert trace.ops.id == expected.id


def test_unknown_op_table_is_a_read_error(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="unknown op table 'nope'"):
        read_events(tmp_path, viz.run(), ops="nope")


def test_op_numbers_beyond_the_table_are_counted(tmp_path: Path) -> None:
    events = viz.run(4) + viz.run(2, op=120)

    trace = read_events(tmp_path, events)

    assert "120" in warning(trace, "unknown_op").message
    assert trace.op_name(120) == "OP_120?"


def test_impossible_op_number_is_no_op(tmp_path: Path) -> None:
    events = viz.run(4, 1) + viz.graph(viz.T0 + 10**6, 1, op=1 << 31)

    trace = read_events(tmp_path, events)

    assert warning(trace, "bad_op_number").count == 1
    assert int((trace.spans.op == 27).sum()) == 4


# --- memory


def memory_events(*steps: tuple[int, int, int]) -> list[Event]:
    return [
        Event(kind, viz.T0 + i, ptr, size=size)
        for i, (kind, ptr, size) in enumerate(steps)
    ]


def test_tensor_memory_is_the_live_bytes(tmp_path: Path) -> None:
    events = memory_events(
        (4, 0xA, 100), (4, 0xB, 50), (4, 0xA, 30), (5, 0xB, 0), (5, 0xB, 0),
        (5, 0xC, 0), (4, 0xB, 7),
    )  # fmt: skip

    trace = read_events(tmp_path, events)

    (series,) = trace.counters
    assert series.name == "Tensor memory"
    assert series.value.tolist() == [100, 150, 80, 30, 30, 30, 37]
    assert series.time.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert trace.info.summary["peak_bytes"] == 150
    assert trace.info.summary["leak_bytes"] == 37
    assert warning(trace, "double_free").count == 1
    assert warning(trace, "free_without_alloc").count == 1
    assert warning(trace, "never_freed").count == 2
    assert "37 bytes" in warning(trace, "never_freed").message


def test_memory_events_out_of_order_are_followed_in_time(tmp_path: Path) -> None:
    events = memory_events((4, 1, 10), (5, 1, 0), (4, 2, 5), (5, 2, 0))

    trace = read_events(tmp_path, [events[i] for i in (1, 3, 0, 2)])

    assert trace.counters[0].value.tolist() == [10, 0, 5, 0]


def test_impossible_size_counts_as_nothing(tmp_path: Path) -> None:
    trace = read_events(tmp_path, memory_events((4, 1, 1 << 63), (4, 2, 8)))

    assert warning(trace, "bad_size").count == 1
    assert trace.info.summary["peak_bytes"] == 8


def test_backend_buffers_are_a_table_and_a_counter(tmp_path: Path) -> None:
    events = memory_events((6, 0xA0, 64), (6, 0xB0, 32), (7, 0xA0, 0))
    events.append(Event(6, viz.T0 + 9, 0xC0, size=1, label="KV"))

    trace = read_events(tmp_path, events)

    buffers = trace.buffers
    assert [trace.strings[i] for i in buffers.name] == [
        "buffer 0xa0", "buffer 0xb0", "KV",
    ]  # fmt: skip
    assert buffers.size.tolist() == [64, 32, 1]
    assert buffers.allocated.tolist() == [0, 1, 9]
    assert buffers.freed.tolist() == [2, -1, -1]
    assert buffers.address.tolist() == [0xA0, 0xB0, 0xC0]
    assert trace.counters[0].name == "Backend buffers"
    assert trace.counters[0].value.tolist() == [64, 96, 32, 33]
    assert trace.info.summary["buffer_peak_bytes"] == 96
    assert trace.info.summary["buffer_leak_bytes"] == 33


# --- records


@pytest.mark.parametrize("layout", viz.LAYOUT_IDS)
def test_record_shows_the_fields_of_its_bytes(tmp_path: Path, layout: str) -> None:
    events = [*viz.run(20), Event(4, viz.T0 + 10**6, 0xAB, size=77), Event(9, viz.T0)]
    path = viz.write(tmp_path / "t.ggmlviz", events, layout)

    records = read(path).records

    assert records is not None
    data = path.read_bytes()
    at = 12
    for number, event in enumerate(events):
        view = records.view(number)
        size = len(event.packed(layout))
        fields = {name: value for name, value, _, _ in view.fields}
        assert (view.offset, view.data) == (at, data[at : at + size])
        assert fields["type"].split()[0] == str(event.kind)
        assert fields["timestamp_ns"] == str(event.time)
        assert fields["thread_id"] == "1"
        assert fields.get("label") == event.label
        for name, value, offset, length in view.fields:
            raw = view.data[offset : offset + length]
            if name.endswith("ptr"):
                assert int(value, 16) == int.from_bytes(raw, "little")
            elif name not in ("type", "label"):
                assert int(value) == int.from_bytes(raw, "little")
        at += size
    assert {"ptr": "0xab", "size": "77"}.items() <= {
        (name, value) for name, value, _, _ in records.view(len(events) - 2).fields
    }
    assert records.view(len(events) - 1).fields[0][1] == "9 THREAD_BEGIN"


@pytest.mark.parametrize("record", [-1, 25])
def test_record_that_does_not_exist_is_a_read_error(
    tmp_path: Path, record: int
) -> None:
    trace = read_events(tmp_path, viz.run(5, 3)[:25])

    assert trace.records is not None
    with pytest.raises(ReadError, match="does not exist"):
        trace.records.view(record)


def test_record_of_a_changed_file_is_a_read_error(tmp_path: Path) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", viz.run(5))
    trace = read(path)
    path.write_bytes(viz.HEADER)

    assert trace.records is not None
    with pytest.raises(CorruptError, match="has moved"):
        trace.records.view(3)


def test_record_of_an_unknown_type_says_so(tmp_path: Path) -> None:
    trace = read_events(tmp_path, [Event(99, viz.T0)])

    assert trace.records is not None
    assert trace.records.view(0).fields[0][1] == "99 unknown"
    assert len(trace.records) == 1  # type: ignore[arg-type]  # more than the protocol


# --- context


def test_progress_ends_at_the_size_of_the_file(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    path = viz.write(tmp_path / "t.ggmlviz", viz.run())

    read(path, ReadContext(progress=lambda done, total: calls.append((done, total))))

    size = path.stat().st_size
    assert calls[-1] == (size, size)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_cancelled_read_raises(tmp_path: Path) -> None:
    cancel = threading.Event()
    cancel.set()

    with pytest.raises(Cancelled):
        read(viz.write(tmp_path / "t.ggmlviz", viz.run()), ReadContext(cancel=cancel))


@pytest.mark.parametrize(
    ("limits", "match"),
    [
        (Limits(memory_bytes=1000), "bytes"),
        (Limits(records=10), "more than 10 events"),
    ],
)
def test_limits_hold(tmp_path: Path, limits: Limits, match: str) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", viz.run(10))

    with pytest.raises(LimitExceededError, match=match):
        read(path, ReadContext(limits=limits))


def changing(path: Path, change: Callable[[Path], None]) -> ReadContext:
    """Return a context that changes the file at its first progress."""
    waiting = [change]

    def progress(done: int, total: int) -> None:
        if waiting:
            waiting.pop()(path)

    return ReadContext(progress=progress)


def test_file_that_grows_meanwhile_is_noted(tmp_path: Path) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", viz.run())

    def append(grown: Path) -> None:
        with grown.open("ab") as file:
            file.write(viz.run()[0].packed())

    trace = read(path, changing(path, append))

    assert trace.info.n_records == len(viz.run())
    assert warning(trace, "file_changed").severity == Severity.DATA_LOSS


def test_file_that_shrinks_meanwhile_keeps_what_was_read(tmp_path: Path) -> None:
    events = viz.run() + [Event(0, viz.T0 + 10**6, label="x" * 4000)] * 1500
    path = viz.write(tmp_path / "t.ggmlviz", events)

    def shrink(cut: Path) -> None:
        with cut.open("r+b") as file:
            file.truncate(4 << 20)

    trace = read(path, changing(path, shrink))

    # Where a window holds all of the file, all of it was read before.
    is_short = trace.info.n_records < len(events)
    assert "file_changed" in codes(trace)
    assert ("truncated_event" in codes(trace)) == is_short
    assert trace.info.n_records > 0


# --- barriers and threads


def bars(trace: Trace) -> dict[str, list[tuple[int, int]]]:
    """Return (start, end) of the spans of each lane of waits and lives."""
    kinds = (LaneKind.STALL, LaneKind.COMMAND)
    lanes = {lane.id: lane.name for lane in trace.lanes if lane.kind in kinds}
    bars: dict[str, list[tuple[int, int]]] = {name: [] for name in lanes.values()}
    for i, lane in enumerate(trace.spans.lane.tolist()):
        if lane in lanes:
            at = int(trace.spans.start[i]), int(trace.spans.end[i])
            bars[lanes[lane]].append(at)
    return bars


def thread_events(first: int) -> list[Event]:
    """Return two threads with a wait each; BARRIER_WAIT is number `first`."""
    t = viz.T0
    wait, begin, free = first, first + 1, first + 2
    return [
        Event(begin, t, thread=1), Event(begin, t + 5, thread=2),
        *viz.graph(t + 10, 1, thread=1),
        Event(wait, t + 300, thread=2), Event(wait, t + 400, thread=1),
        Event(free, t + 450, thread=2), Event(free, t + 500, thread=1),
        Event(begin, t + 600, thread=2), Event(wait, t + 700, thread=2),
    ]  # fmt: skip


@pytest.mark.parametrize("first", [6, 8])
def test_waits_and_lives_of_threads_are_bars(tmp_path: Path, first: int) -> None:
    trace = read_events(tmp_path, thread_events(first))

    assert trace.check() == []
    assert bars(trace) == {
        "thread 0 waits": [(400, 500)],
        "thread 1 waits": [(300, 450), (700, 700)],
        "thread 0 life": [(0, 500)],
        "thread 1 life": [(5, 450), (600, 700)],
    }
    assert not len(trace.markers)
    assert not len(trace.buffers)
    quality = quality_of(trace.spans.flags)
    names = [trace.span_name(i) for i in range(len(trace.spans))]
    pairs = {(n, int(q)) for n, q in zip(names, quality, strict=True)}
    assert {
        ("BARRIER_WAIT", 1),
        ("BARRIER_WAIT", 3),
        ("THREAD", 0),
        ("THREAD", 3),
    } <= pairs
    events = trace.info.summary["events"]
    assert isinstance(events, dict)
    counted = [events[n] for n in ("BARRIER_WAIT", "THREAD_BEGIN", "THREAD_FREE")]
    assert counted == [3, 3, 2]
    assert ("old_numbering" in codes(trace)) == (first == 6)


def test_events_6_and_7_with_pointers_are_buffers_unless_said_otherwise(
    tmp_path: Path,
) -> None:
    events = [Event(6, viz.T0, ptr=0xA, size=64), Event(7, viz.T0 + 9, ptr=0xA)]
    path = viz.write(tmp_path / "t.ggmlviz", events)

    assert len(read(path).buffers) == 1
    trace = read(path, ReadContext(options={"numbering": "6-8"}))
    assert not len(trace.buffers)
    assert bars(trace) == {"thread 0 waits": [(0, 9)], "thread 0 life": [(9, 9)]}


def test_an_8_alone_is_a_marker_with_a_question_mark(tmp_path: Path) -> None:
    trace = read_events(tmp_path, [*viz.run(1), Event(8, viz.T0 + 5000)])

    assert trace.strings[int(trace.markers.name[0])] == "BARRIER_WAIT?"
    assert bars(trace) == {}
