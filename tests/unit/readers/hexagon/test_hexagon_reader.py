"""Profiles of Hexagon against the ops and events that they were made of."""

from pathlib import Path

import pytest

import op_files
from ggscope.analysis.rows.categories import family_categories
from ggscope.errors import ReadError
from ggscope.model.tables import Quality, quality_of
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.common import op_lines
from ggscope.readers.common.op_lines import Kind
from ggscope.readers.hexagon import reader
from ggscope.readers.hexagon.reader import HexagonReader
from ggscope.readers.registry import open_trace
from ggscope.readers.source import Source
from op_files import HEXAGON_MHZ
from support import corpus_path


def opened(path: Path, data: bytes) -> Trace:
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.check() == []
    assert trace.info.reader_id == "ggml-hexagon"
    return trace


def ns(cycles: int) -> int:
    return cycles * 1000 // HEXAGON_MHZ


def by_lane(trace: Trace) -> dict[str, list[int]]:
    lanes: dict[str, list[int]] = {}
    for span, lane in enumerate(trace.spans.lane.tolist()):
        lanes.setdefault(trace.lanes[lane].name, []).append(span)
    return lanes


@pytest.mark.parametrize("clock", [False, True])
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_ops_and_events_are_those_that_were_written(seed, old, clock, tmp_path):
    ops = op_files.npu_ops(seed)

    trace = opened(tmp_path / "x.txt", op_files.hexagon(ops, old=old, clock=clock))

    # The counter wraps on the way; the first op is the first thing that happens.
    assert ops[0].start < 1 << 32 < ops[-1].start
    origin = ops[0].start
    lanes, spans = by_lane(trace), trace.spans
    mine = lanes["HTP0 ops"]
    pairs = [(int(spans.start[s]), int(spans.end[s])) for s in mine]
    expected = [(op.start - origin, op.start - origin + op.cycles) for op in ops]
    assert pairs == [(ns(a), ns(b)) for a, b in expected]
    assert [trace.op_name(int(spans.op[s])) for s in mine] == [op.op for op in ops]
    results = [op.names.rpartition("-> ")[2] for op in ops]
    assert [trace.span_name(s) for s in mine] == results
    assert spans.layer is not None
    assert [int(spans.layer[s]) for s in mine] == list(range(len(ops)))
    places = (
        (0, "HVX", "T0 HVX"),
        (1, "HVX", "T1 HVX"),
        (0, "DMA", "T0 DMA"),
        (10, "HMX", "HMX"),
    )
    for thread, unit, lane in places:
        events = [
            (ns(first - origin), ns(last - origin))
            for op in ops
            for number, event, _, first, last in op.events
            if number == thread and event.startswith(unit)
        ]
        mine = lanes.pop(lane)
        assert [(int(spans.start[s]), int(spans.end[s])) for s in mine] == events
    assert set(lanes) == {"HTP0 ops"}
    assert set(quality_of(spans.flags).tolist()) == {Quality.MEASURED}
    assert set(trace.lanes.kinds.tolist()) == {LaneKind.ENGINE}
    n_events = sum(len(op.events) for op in ops)
    events = {"ops": len(ops), "batches": 0, "trace_events": 2 * n_events}
    assert trace.info.summary["events"] == events
    assert trace.info.producer == {"NPU clock": "2,000.0 MHz"}


def test_ops_are_listed_with_their_spans_and_shapes(tmp_path):
    ops = op_files.npu_ops(1)

    trace = opened(tmp_path / "x.txt", op_files.hexagon(ops))

    listing = trace.backend_ops
    assert listing is not None
    assert listing.ops.span.tolist() == by_lane(trace)["HTP0 ops"]
    assert listing.ops.time.tolist() == [ns(op.cycles) for op in ops]
    row = listing.ops.take([0])
    texts = [
        listing.text(int(column[0]))
        for column in (row.op, row.backend, row.shape, row.dtype, row.name)
    ]
    assert texts == [
        "MUL_MAT", "HTP0", "64:32 x 64:2 -> 32:2", "q4_0 x f32 -> f32", "ffn_out-0"
    ]  # fmt: skip


def test_ops_read_the_weights_among_their_sources(tmp_path):
    trace = opened(tmp_path / "x.txt", op_files.hexagon(op_files.npu_ops(2)))

    flat = trace.accesses.flat(trace.spans)
    names = [
        trace.strings[int(trace.tensors.name[t])] for t in flat.what.tensor.tolist()
    ]
    assert names == [f"blk.{i}.ffn_down.weight" for i in range(12)]
    assert flat.span.tolist() == by_lane(trace)["HTP0 ops"]


def test_wraps_while_nothing_was_written_are_counted_by_the_clock(tmp_path):
    ops = op_files.npu_ops(3, 2)
    far = 5 * (1 << 32)
    later = [(t, e, i, a + far, b + far) for t, e, i, a, b in ops[1].events]
    moved = op_files.NpuOp(
        ops[1].op, ops[1].names, ops[1].start + far, ops[1].cycles, later
    )
    first = op_files.hexagon(ops[:1], clock=True)
    seconds = 1.576635 + far / HEXAGON_MHZ / 1e6
    clock = f"0.{int(seconds):02}.{int(seconds % 1 * 1000):03}.000 D "
    second = op_files.hexagon([moved], clock=True).replace(
        b"0.01.576.635 D ", clock.encode()
    )

    trace = opened(tmp_path / "x.txt", first + second)

    starts = [int(trace.spans.start[s]) for s in by_lane(trace)["HTP0 ops"]]
    assert starts == [0, ns(moved.start - ops[0].start)]
    (warning,) = [w for w in trace.warnings if w.code == "counter_wraps"]
    assert warning.count == 5


def test_batches_state_lost_events_and_lie_around_ops(tmp_path):
    ops = op_files.npu_ops(4, 3)
    length = ops[-1].start + ops[-1].cycles - ops[0].start
    line = op_files.batch(3, [9, 4, 0, 3], ops[0].start, length)

    trace = opened(tmp_path / "x.txt", op_files.hexagon(ops) + line.encode())

    (batch,) = by_lane(trace)["HTP0 batches"]
    assert (int(trace.spans.start[batch]), int(trace.spans.end[batch])) == (
        0, ns(length)
    )  # fmt: skip
    assert trace.span_name(batch) == "batch · n-ops 3"
    codes = {w.code for w in trace.warnings}
    assert "npu_events_lost" not in codes
    lost = op_files.batch(3, [90, 4, 0, 3], ops[0].start, length)
    trace = opened(tmp_path / "x.txt", op_files.hexagon(ops) + lost.encode())
    (warning,) = [w for w in trace.warnings if w.code == "npu_events_lost"]
    n_lines = sum(2 * len(op.events) for op in ops)
    assert warning.count == 97 - n_lines


def test_ops_and_engines_are_coloured_by_op_family(tmp_path):
    trace = opened(tmp_path / "x.txt", op_files.hexagon(op_files.npu_ops(1, 4)))

    categories = family_categories(trace)

    keys = [categories.keys[i] for i in categories.index.tolist()]
    by_op = {
        trace.op_name(op): key
        for op, key in zip(trace.spans.op.tolist(), keys, strict=True)
    }
    assert by_op == {
        "MUL_MAT": "matmul", "RMS_NORM+MUL": "norm", "HMX_COMP": "matmul",
        "HVX_COMP": "other", "DMA": "move",
    }  # fmt: skip


def test_events_without_an_end_are_unfinished(tmp_path):
    lines = op_files.hexagon(op_files.npu_ops(5, 2)).splitlines(keepends=True)
    stops = [i for i, line in enumerate(lines) if b" stop " in line]

    trace = opened(tmp_path / "x.txt", b"".join(lines[: stops[-1]]))

    unfinished = quality_of(trace.spans.flags) == Quality.UNFINISHED
    assert unfinished.sum() == 1
    (warning,) = [w for w in trace.warnings if w.code == "unpaired_events"]
    assert warning.count == 1


def test_ops_without_a_first_cycle_follow_one_another(tmp_path):
    line = (
        b"ggml-hex: HTP0 profile-op ADD: a x b -> c : 8:1 : f32 : 4:32 : HTP0 : "
        b"op-usec 7 op-cycles 7000 op-pkts 70 (100.0) call-usec 9\n"
    )

    trace = opened(tmp_path / "x.txt", line * 3)

    assert trace.spans.start.tolist() == [0, 7000, 14000]
    assert trace.spans.end.tolist() == [7000, 14000, 21000]
    assert "no_times" in {w.code for w in trace.warnings}


def test_some_ops_without_a_first_cycle_are_listed_alone(tmp_path):
    lines = op_files.hexagon(op_files.npu_ops(6, 2)).splitlines(keepends=True)
    line = b"ggml-hex: HTP0 profile-op ADD|a|8:1|f32|4:32|--|usec 7 cycles 9 mhz 1.0\n"

    trace = opened(tmp_path / "x.txt", lines[0] + line)

    assert len(trace.spans) == 1
    assert trace.backend_ops is not None
    assert trace.backend_ops.ops.span.tolist() == [0, -1]
    assert "no_op_start" in {w.code for w in trace.warnings}


@pytest.mark.parametrize("old", [False, True])
def test_profiles_cut_anywhere_keep_what_stands_before(old, tmp_path):
    data = op_files.hexagon(op_files.npu_ops(7, 4), old=old)
    whole = op_lines.scan_op_text(data)
    path = tmp_path / "x.txt"
    for cut in range(data.index(b"\n") + 1, len(data), 23):
        path.write_bytes(data[:cut])

        trace = open_trace(path)

        assert trace.check() == []
        part = op_lines.scan_op_text(data[:cut])
        assert part.value.tolist() == whole.value.tolist()[: len(part)]


def test_records_are_the_lines_of_the_file(tmp_path):
    data = op_files.hexagon(op_files.npu_ops(8, 3))

    trace = opened(tmp_path / "x.txt", data)

    assert trace.records is not None
    assert trace.spans.record is not None
    lines = data.decode().splitlines()
    for record in trace.spans.record.tolist():
        assert trace.records.view(record).data.decode() == lines[record]
    with pytest.raises(ReadError):
        trace.records.view(len(lines))


def test_texts_without_ops_are_refused(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"ggml-hex: HTP0 profile-op x\nnothing\n")

    with pytest.raises(ReadError, match="no line is of an op"):
        open_trace(path, reader_id="ggml-hexagon")


def test_quoted_dialects_are_counted():
    folder = corpus_path()
    path = None if folder is None else folder / "people/quoted/hexagon-dialects.txt"
    if path is None or not path.is_file():
        pytest.skip("no quoted files")

    trace = open_trace(path)

    events = {"ops": 2, "batches": 1, "trace_events": 3}
    assert trace.info.summary["events"] == events
    kinds = op_lines.scan_op_text(path.read_bytes()).kind.tolist()
    assert kinds == [Kind.PROFILED_OP, Kind.EVENT, Kind.EVENT, Kind.PROFILED_OP,
                     Kind.EVENT, Kind.BATCH]  # fmt: skip


@pytest.mark.parametrize("old", [False, True])
def test_first_part_of_a_long_file_is_shown_before_the_rest(tmp_path, monkeypatch, old):
    path = tmp_path / "x.txt"
    path.write_bytes(op_files.hexagon(op_files.npu_ops(4, 400), old=old))
    early: list[Trace] = []
    monkeypatch.setattr(reader, "_FIRST_BYTES", 8192)

    with Source(path) as source:
        trace = HexagonReader().read(source, ReadContext(publish=early.append))

    (first,) = early
    assert first.pending == {"spans"}
    assert first.check() == []
    assert first.read_until is not None
    whole, part = rows_by_lane(trace), rows_by_lane(first)
    assert 0 < len(first.spans) < len(trace.spans) // 4
    for lane, rows in part.items():
        assert (
            rows[:-1] == whole[lane][: len(rows) - 1]
        )  # the last one may lack its end
    assert not [w for w in first.warnings if w.code == "other_lines"]


def rows_by_lane(trace: Trace) -> dict[str, list[tuple]]:
    """Return name, start and end of the spans of each lane, by start."""
    rows: dict[str, list[tuple]] = {}
    spans = trace.spans
    for i in range(len(spans)):
        row = trace.span_name(i), int(spans.start[i]), int(spans.end[i])
        rows.setdefault(trace.lanes[int(spans.lane[i])].name, []).append(row)
    return {lane: sorted(mine, key=lambda row: row[1]) for lane, mine in rows.items()}


def test_short_file_is_shown_once(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(op_files.hexagon(op_files.npu_ops(4, 9)))
    early: list[Trace] = []

    with Source(path) as source:
        HexagonReader().read(source, ReadContext(publish=early.append))

    assert early == []
