"""Tables of Ascend's profilers against the rows that they were made of."""

import csv
import io
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import ascend_files
import people
from ggscope.errors import ReadError
from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.registry import open_trace

Row = tuple[str, str, int, int]


def opened(path: Path, data: bytes) -> Trace:
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.check() == []
    assert trace.info.reader_id == "msprof"
    return trace


def spans_of(trace: Trace, category: str = "kernel") -> list[Row]:
    """Return name, op, begin and end of spans of a category, by begin."""
    spans, origin = trace.spans, trace.clock.origin
    assert spans.category is not None
    rows = [
        (trace.span_name(i), trace.op_name(int(spans.op[i])),
         int(spans.start[i]) + origin, int(spans.end[i]) + origin)
        for i, c in enumerate(spans.category.tolist())
        if trace.strings[c] == category
    ]  # fmt: skip
    return sorted(rows, key=lambda row: row[2:])


def rows_of(made: list[ascend_files.Kernel]) -> list[Row]:
    rows = [
        (k.name, k.name if k.op == "N/A" else k.op, k.start_ns, k.end_ns) for k in made
    ]
    return sorted(rows, key=lambda row: row[2:])


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("seed", range(3))
def test_kernel_details_become_spans(seed, delimiter, tmp_path):
    made = ascend_files.kernels(seed)

    trace = opened(tmp_path / "x.txt", ascend_files.kernel_details(made, delimiter))

    assert spans_of(trace) == rows_of(made)
    assert trace.info.summary["events"] == Counter(k.core for k in made)
    assert trace.clock.epoch == 0
    assert not trace.warnings


def test_op_summaries_become_the_same_spans(tmp_path):
    made = ascend_files.kernels(5)
    data = ascend_files.op_summary(made)

    trace = opened(tmp_path / "x.csv", data)
    old = opened(tmp_path / "y.csv", data.replace(b"Start Time(us)", b"Start Time"))

    assert spans_of(trace) == spans_of(old) == rows_of(made)


def test_lanes_are_streams_of_devices(tmp_path):
    made = ascend_files.kernels(6)

    trace = opened(tmp_path / "x.csv", ascend_files.kernel_details(made))

    n = np.bincount(trace.spans.lane, minlength=len(trace.lanes)).tolist()
    lanes = {(lane.group, lane.name): n[i] for i, lane in enumerate(trace.lanes)}
    expected = Counter(
        (
            (f"NPU {k.device}",),
            k.core if k.stream == "N/A" else f"stream {k.stream}",
        )
        for k in made
    )
    assert lanes == expected


def test_tasks_have_the_category_of_their_type(tmp_path):
    made = ascend_files.kernels(7, 60, cores=ascend_files.TASKS)

    trace = opened(tmp_path / "x.csv", ascend_files.task_time(made))

    kinds = {"AI_CORE": "kernel", "KERNEL_AICPU": "kernel", "MEMCPY_ASYNC":
             "gpu_memcpy", "EVENT_RECORD": "sync", "NOTIFY_WAIT": "sync"}  # fmt: skip
    for category in set(kinds.values()):
        rows = [(k.name, k.start_ns, k.end_ns) for k in made]
        rows = [r for r, k in zip(rows, made, strict=True) if kinds[k.core] == category]
        pairs = [(row[0], *row[2:]) for row in spans_of(trace, category)]
        assert pairs == sorted(rows, key=lambda row: row[1:])


def test_totals_are_listed_without_spans(tmp_path):
    made = ascend_files.kernels(8)

    trace = opened(tmp_path / "x.csv", ascend_files.op_statistic(made))

    assert len(trace.spans) == 0
    listing = trace.backend_ops
    assert listing is not None
    sums: dict[tuple[str, str], list[Decimal]] = {}
    for k in made:
        sums.setdefault((k.op, k.core), []).append(k.duration)
    ops = listing.ops
    rows = {
        (listing.text(op), listing.text(core)): (count, time)
        for op, core, count, time in zip(
            ops.op.tolist(), ops.backend.tolist(), ops.count.tolist(),
            ops.time.tolist(), strict=True,
        )
    }  # fmt: skip
    assert rows == {key: (len(t), int(sum(t) * 1000)) for key, t in sums.items()}


def test_calls_and_communication_are_listed(tmp_path):
    calls = ascend_files.table(
        "Device_id,Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance",
        [["host", "acl", "aclrtMemcpy", "900.001", 3, 300, 250, 350, 100.0]],
    )
    hccl = ascend_files.table(
        "OP Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)",
        [["hcom_allReduce_", 14, "27870.5", 1, 2, 3, 4]],
    )

    first = opened(tmp_path / "a.csv", calls).backend_ops
    second = opened(tmp_path / "b.csv", hccl).backend_ops

    assert first is not None
    assert second is not None
    assert [first.text(int(n[0])) for n in (first.ops.op, first.ops.backend)] == [
        "aclrtMemcpy",
        "acl",
    ]
    assert (first.ops.count[0], first.ops.time[0]) == (3, 900_001)
    assert (second.ops.count[0], second.ops.time[0]) == (14, 27_870_500)
    assert second.text(int(second.ops.backend[0])) == "NPU"


def test_steps_list_the_parts_that_do_not_overlap(tmp_path):
    data = ascend_files.table(
        "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,"
        "Communication,Free,Stage",
        [[0, 1, "85704.02", "3873.52", "630.54", "4504.06", "21471.45", "111048.99"],
         [0, 2, "1", "2", "3", "4", "N/A", "6"]],
    )  # fmt: skip

    listing = opened(tmp_path / "x.csv", data).backend_ops

    assert listing is not None
    ops = listing.ops
    names = zip(ops.name.tolist(), ops.op.tolist(), ops.time.tolist(), strict=True)
    assert [(listing.text(n), listing.text(o), t) for n, o, t in names] == [
        ("step 1", "Computing", 85_704_020),
        ("step 1", "Communication(Not Overlapped)", 3_873_520),
        ("step 1", "Free", 21_471_450),
        ("step 2", "Computing", 1_000),
        ("step 2", "Communication(Not Overlapped)", 2_000),
        ("step 2", "Free", -1),
    ]


def test_unusable_rows_cost_themselves(tmp_path):
    made = ascend_files.kernels(9, 12)
    lines = ascend_files.kernel_details(made).decode().splitlines()
    for row, old, new in (
        (1, str(made[0].start), "N/A"),
        (2, str(made[1].duration), "-3"),
        (3, str(made[2].duration), "NaN"),
        (4, str(made[3].start), "1e40"),
    ):
        lines[row] = lines[row].replace(old, new)
    lines.insert(6, "1,2,3")
    data = "\n".join(lines) + "\n1,0,4294967295,9,16,cut"

    trace = opened(tmp_path / "x.csv", data.encode())

    assert spans_of(trace) == rows_of(made[4:])
    counts = {w.code: w.count for w in trace.warnings}
    assert counts["bad_event_time"] == 4
    assert counts["csv_stray_line"] == 1
    assert "unfinished_line" in counts


def test_details_have_all_columns(tmp_path):
    made = ascend_files.kernels(4)
    trace = opened(tmp_path / "x.csv", ascend_files.kernel_details(made))

    for span in range(0, len(trace.spans), 3):
        fields = dict(f[:2] for f in trace.records.view(trace.record_of(span)).fields)
        assert fields["Name"] == trace.span_name(span)
        assert fields["Input Shapes"] == '"4,1025;2"'
        assert fields["Wait Time(us)"] == "0.5"


def test_tables_cut_anywhere_keep_whole_rows(tmp_path):
    made = ascend_files.kernels(2, 5)
    data = ascend_files.kernel_details(made)
    whole = rows_of(made)
    path = tmp_path / "x.csv"
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        try:
            trace = open_trace(path)
        except ReadError:
            continue
        assert trace.check() == []
        assert spans_of(trace) == whole[: data[:cut].count(b"\n") - 1]


def test_large_tables_are_read_over_blocks_with_early_pictures(tmp_path):
    made = ascend_files.kernels(3, 40_000)
    path = tmp_path / "x.csv"
    path.write_bytes(ascend_files.kernel_details(made))
    early: list[Trace] = []

    trace = open_trace(path, context=ReadContext(publish=early.append))

    assert spans_of(trace) == rows_of(made)
    assert early
    assert 0 < len(early[0].spans) < len(made)
    assert early[0].pending == {"spans"}


@people.each("csv", lambda name, _: name.startswith("ascend/"))
def test_real_tables_have_the_rows_that_a_plain_parser_finds(name, tmp_path):
    data = people.content(name)
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    assert len(rows) == people.counts("csv")[name]["rows"]

    trace = opened(tmp_path / "x.txt", data)

    expected = []
    for row in rows:
        start = int(Decimal(row["Start Time(us)"]) * 1000)
        end = start + int(Decimal(row["Duration(us)"]) * 1000)
        expected.append((row["Name"], row["Type"], start, end))
    assert spans_of(trace) == sorted(expected, key=lambda row: row[2:])
    assert trace.info.summary["events"] == Counter(r["Accelerator Core"] for r in rows)
    assert not trace.warnings
