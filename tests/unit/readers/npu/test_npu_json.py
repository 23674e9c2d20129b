"""NPU traces: what of them becomes which part of a trace."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.series import value_at
from ggscope.errors import LimitExceededError, ReadError
from ggscope.model.tables import AccessKind, CounterShape, Quality, Space, quality_of
from ggscope.model.trace import LaneKind, Severity, Trace
from ggscope.model.units import TimeRange
from ggscope.readers.api import Limits, ReadContext
from ggscope.readers.npu.reader import NpuJsonReader
from ggscope.readers.source import Source
from npu_files import (
    access,
    as_lines,
    command,
    comparable,
    document,
    engine,
    lane_named,
    marker,
    only_warning,
    read_events,
    read_text,
    sample,
    spans_on,
    stall,
    token,
)
from support import need_corpus


def read_document(folder: Path, **values: object) -> Trace:
    events = values.pop("events", [])
    assert isinstance(events, list)
    return read_text(folder, json.dumps(document(*events, **values)))


def test_engine_event_becomes_span_on_its_engine(tmp_path: Path) -> None:
    trace = read_events(tmp_path, engine(100, 250, engine="VE", engine_id=3))

    assert spans_on(trace, "VE 3") == [("ffn_1_t0", 100, 250)]
    (lane,) = trace.lanes
    assert (lane.kind, lane.group) == (LaneKind.ENGINE, ("Engines",))
    assert lane.attributes == {"engine": "VE"}
    assert trace.op_name(int(trace.spans.op[0])) == "TE_GEMM_TILE"
    assert trace.ops is not None
    assert (trace.ops.id, trace.ops.source) == ("npu", "spelled")
    assert trace.clock.unit == "cycle"
    assert trace.clock.origin == 0
    assert trace.spans.layer is not None
    assert trace.spans.layer.tolist() == [1]
    assert trace.warnings == ()


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "ffn_1_t0"),
        ({"tile_id": None}, "TE_GEMM_TILE"),
        ({"tile_id": None, "op": None}, "ffn_1"),
        ({"tile_id": None, "layer_id": None, "op": None}, "–"),
    ],
)
def test_span_is_called_after_its_tile_its_op_or_its_layer(
    tmp_path: Path, fields: dict[str, object], name: str
) -> None:
    trace = read_events(tmp_path, engine(**fields))

    assert trace.span_name(0) == name


def test_engine_lanes_are_ordered_by_kind_then_number(tmp_path: Path) -> None:
    names = ["OTHER", "HOST", "CTRL", "VE", "TE", "DMA"]
    events = [engine(engine=name, engine_id=i) for name in names for i in (1, 0)]

    trace = read_events(tmp_path, *events)

    lanes = sorted(trace.lanes, key=lambda lane: lane.sort_key)
    assert [lane.name for lane in lanes] == [
        f"{name} {i}" for name in reversed(names) for i in (0, 1)
    ]


def test_spans_of_a_lane_stand_together_in_order_of_start(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        engine(5, 6, engine_id=1),
        engine(9, 10),
        engine(1, 2, engine_id=1),
        engine(0, 3),
    )

    assert trace.spans.lane.tolist() == [0, 0, 1, 1]
    assert trace.spans.start.tolist() == [0, 9, 1, 5]
    assert trace.spans.record is not None
    assert trace.spans.record.tolist() == [3, 1, 2, 0]


@pytest.mark.parametrize(
    ("layer_id", "layer"),
    [
        ("attn_0", 0),
        ("ffn_3", 3),
        ("blk_5", 5),
        ("blk.12.ffn", 12),
        ("layer7", 7),
        ("conv2d_1", 1),
        ("embed", -1),
        (None, -1),
        ("x_40000", -1),
    ],
)
def test_layer_number_is_read_from_the_layer_id(
    tmp_path: Path, layer_id: str | None, layer: int
) -> None:
    trace = read_events(tmp_path, engine(layer_id=layer_id))

    assert trace.spans.layer is not None
    assert trace.spans.layer.tolist() == [layer]


@pytest.mark.parametrize(
    ("hint", "color"),
    [("#ff8000", 0xFFFF8000), ("0f8", 0xFF00FF88), (" Red ", 0xFFFF0000)],
)
def test_color_hint_becomes_the_span_color(
    tmp_path: Path, hint: str, color: int
) -> None:
    trace = read_events(tmp_path, engine(color_hint=hint), engine(20, 30))

    assert trace.spans.color is not None
    assert trace.spans.color.tolist() == [color, 0]


def test_unknown_color_is_noted(tmp_path: Path) -> None:
    trace = read_events(tmp_path, engine(color_hint="#12"), engine(color_hint="teal"))

    assert trace.spans.color is None
    assert only_warning(trace).code == "color_hint_unknown"
    assert only_warning(trace).count == 2


def test_inclusive_end_makes_each_span_one_cycle_longer(tmp_path: Path) -> None:
    events = [engine(5, 5), token(5, 8), stall(6, 7)]

    exclusive = read_events(tmp_path, *events)
    inclusive = read_events(tmp_path, *events, end_cycle="inclusive")

    lengths = exclusive.spans.end - exclusive.spans.start
    assert spans_on(exclusive, "TE 0") == [("ffn_1_t0", 5, 5)]
    assert (inclusive.spans.end - inclusive.spans.start - lengths).tolist() == [1] * 4
    assert exclusive.info.options["end_cycle"] == "exclusive"
    assert inclusive.info.options["end_cycle"] == "inclusive"


def test_hz_option_goes_to_the_clock(tmp_path: Path) -> None:
    trace = read_events(tmp_path, engine(), hz="1.5e9")

    assert trace.clock.hz == 1.5e9
    assert trace.info.options["hz"] == "1.5e+09"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hz", "fast"),
        ("hz", "0"),
        ("hz", "-1"),
        ("hz", "nan"),
        ("hz", "inf"),
        ("end_cycle", "both"),
    ],
)
def test_option_that_is_not_understood_is_refused(
    tmp_path: Path, name: str, value: str
) -> None:
    with pytest.raises(ReadError, match=f"option {name}"):
        read_events(tmp_path, engine(), **{name: value})


def test_tokens_become_token_lane_and_phase_bands(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        token(300, 400, token_index=1),
        token(100, 200, phase="PREFILL"),
        token(200, 290),
        token(500, 600, phase="PREFILL", token_index=2),
    )

    assert spans_on(trace, "tokens") == [
        ("#0", 100, 200),
        ("#0", 200, 290),
        ("#1", 300, 400),
        ("#2", 500, 600),
    ]
    assert spans_on(trace, "phase") == [
        ("prefill", 100, 200),
        ("decode", 200, 400),
        ("prefill", 500, 600),
    ]
    spans = trace.spans
    assert spans.token is not None
    assert spans.phase is not None
    assert spans.token.tolist() == [0, 0, 1, 2, -1, -1, -1]
    assert spans.phase.tolist() == [0, 1, 1, 0, 0, 1, 0]
    quality = quality_of(spans.flags).tolist()
    assert quality == [Quality.MEASURED] * 4 + [Quality.DERIVED] * 3


def test_token_of_unknown_phase_ends_no_band(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path, token(0, 10), token(10, 20, phase="WARMUP"), token(20, 30)
    )

    assert spans_on(trace, "phase") == [("decode", 0, 30)]


def test_tokens_without_phase_make_no_band(tmp_path: Path) -> None:
    trace = read_events(tmp_path, token(0, 10, phase="X"), engine(1, 2))

    assert [lane.kind for lane in trace.lanes] == [LaneKind.TOKEN, LaneKind.ENGINE]
    assert trace.spans.phase is not None
    assert trace.spans.phase.tolist() == [-1, -1]


def test_prefill_done_marker_is_the_phase_boundary(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        engine(8000, 8200),
        engine(12000, 12320),
        marker(18000),
        token(20000, 24000, token_index=37),
        engine(20010, 20020),
    )

    assert spans_on(trace, "phase") == [
        ("prefill", 8000, 18000),
        ("decode", 18000, 24000),
    ]
    engines = trace.spans.lane == lane_named(trace, "TE 0")
    assert trace.spans.phase is not None
    assert trace.spans.phase[engines].tolist() == [0, 0, 1]


def test_prefill_done_without_tokens_makes_two_bands(tmp_path: Path) -> None:
    trace = read_events(tmp_path, engine(0, 10), marker(10), engine(10, 30))

    assert spans_on(trace, "phase") == [("prefill", 0, 10), ("decode", 10, 30)]


@pytest.mark.parametrize(
    "events",
    [
        [marker(10), marker(20)],
        [marker(5), token(0, 10), token(10, 20, phase="PREFILL"), token(20, 30)],
        [marker(50), token(0, 10), token(60, 70, phase="PREFILL")],
    ],
)
def test_boundary_that_contradicts_the_tokens_is_not_used(
    tmp_path: Path, events: list[object]
) -> None:
    trace = read_events(tmp_path, engine(0, 100), *events)

    bands = [lane for lane in trace.lanes if lane.kind == LaneKind.PHASE]
    assert not bands or len(spans_on(trace, "phase")) == len(events) - 1


def test_boundary_outside_its_bands_is_not_used(tmp_path: Path) -> None:
    trace = read_events(tmp_path, token(0, 10), marker(50), engine(0, 60))

    assert spans_on(trace, "phase") == [("decode", 0, 10)]


def test_engine_span_belongs_to_the_token_that_covers_its_start(
    tmp_path: Path,
) -> None:
    trace = read_events(
        tmp_path,
        token(10, 20, token_index=4),
        token(30, 40, token_index=5),
        engine(9, 12),
        engine(10, 30),
        engine(19, 50),
        engine(20, 21),
        engine(39, 40),
    )

    engines = trace.spans.lane == lane_named(trace, "TE 0")
    assert trace.spans.token is not None
    assert trace.spans.token[engines].tolist() == [-1, 4, 4, -1, 5]


intervals = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 12)), min_size=0, max_size=10
)


@given(intervals, st.lists(st.integers(-3, 60), max_size=20))
@settings(max_examples=100)
def test_covering_equals_a_loop_over_all_intervals(
    pairs: list[tuple[int, int]], points: list[int]
) -> None:
    from ggscope.readers.npu.intervals import busy_cycles, covering

    pairs = sorted(pairs, key=lambda pair: pair[0])
    start = np.array([a for a, _ in pairs], np.int64)
    end = np.array([a + n for a, n in pairs], np.int64)

    result = covering(start, end, np.array(points, np.int64))

    expected = [
        max((i for i, (a, n) in enumerate(pairs) if a <= p < a + n), default=-1)
        for p in points
    ]
    assert result.tolist() == expected
    first = np.zeros(min(len(pairs), 1), np.int64)
    assert busy_cycles(start, end, first).tolist() == [
        len({cycle for a, n in pairs for cycle in range(a, a + n)})
    ] * len(first)


def test_memory_access_becomes_loose_access_of_its_span(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        token(0, 100, token_index=3),
        engine(10, 20, cmdq_id=5),
        engine(30, 40, cmdq_id=6),
        access(12, cmdq_id=5, mem_type="SPM"),
        access(11, cmdq_id=6, direction="write", bytes=32, addr=7),
    )

    loose = trace.accesses.loose
    assert loose.time.tolist() == [11, 12]
    assert loose.token.tolist() == [3, 3]
    names = [trace.spans.start[s] for s in loose.span.tolist()]
    assert names == [30, 10]
    assert set(loose.lane.tolist()) == {lane_named(trace, "TE 0")}
    what = loose.what
    assert what.kind.tolist() == [AccessKind.WRITE, AccessKind.READ]
    assert what.space.tolist() == [Space.DRAM, Space.SPM]
    assert what.size.tolist() == [32, 64]
    assert what.offset.tolist() == [7, 4096]
    assert what.address.tolist() == [7, 4096]
    assert what.layer.tolist() == [1, 1]


@pytest.mark.parametrize(
    "fields",
    [
        {"cmdq_id": 9},
        {"source_engine": "VE"},
        {"source_engine_id": 1},
        {"cmdq_id": 2},
        {"cmdq_id": -1},
    ],
)
def test_access_without_one_certain_span_is_linked_to_none(
    tmp_path: Path, fields: dict[str, object]
) -> None:
    trace = read_events(
        tmp_path,
        engine(cmdq_id=1),
        engine(cmdq_id=2),
        engine(cmdq_id=2),
        engine(cmdq_id=-1),
        access(**fields),
    )

    assert trace.accesses.loose.span.tolist() == [-1]


def test_access_of_an_engine_without_spans_lies_on_a_memory_lane(
    tmp_path: Path,
) -> None:
    trace = read_events(tmp_path, access(5), access(6, source_engine=None))

    (lane,) = trace.lanes
    assert (lane.name, lane.kind) == ("memory", LaneKind.MEMORY)
    assert trace.accesses.loose.lane.tolist() == [0, 0]
    assert len(trace.spans) == 0


def test_address_beyond_int64_is_kept_as_raw_pointer(tmp_path: Path) -> None:
    trace = read_events(tmp_path, access(addr=0xFFFF_8000_0000_1000))

    assert trace.accesses.loose.what.address.tolist() == [0xFFFF_8000_0000_1000]
    assert trace.accesses.loose.what.offset.tolist() == [-1]
    assert trace.warnings == ()


def test_missing_address_and_size_are_unknown(tmp_path: Path) -> None:
    trace = read_events(tmp_path, access(addr=None, bytes=None))

    assert trace.accesses.loose.what.offset.tolist() == [-1]
    assert trace.accesses.loose.what.size.tolist() == [-1]


def test_marker_keeps_its_details(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path, marker(9, "B"), marker(4, "A", details={"note": "é", "n": 1})
    )

    markers, strings = trace.markers, trace.strings
    assert [strings[i] for i in markers.name.tolist()] == ["A", "B"]
    assert [strings[i] for i in markers.detail.tolist()] == [
        '{"note": "é", "n": 1}',
        "",
    ]
    assert markers.record is not None
    assert markers.record.tolist() == [1, 0]
    assert [lane.kind for lane in trace.lanes] == [LaneKind.MARKER]


def test_stall_lies_over_the_lane_of_its_master(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        engine(),
        stall(3, 4),
        stall(1, 2, reason=None),
        stall(5, 6, master="BUS", reason="throttle"),
    )

    assert spans_on(trace, "TE 0 stalls") == [("stall", 1, 2), ("queue_full", 3, 4)]
    assert spans_on(trace, "BUS 0 stalls") == [("throttle", 5, 6)]
    over = {lane.name: lane.attributes.get("over") for lane in trace.lanes}
    assert over["TE 0 stalls"] == str(lane_named(trace, "TE 0"))
    assert over["BUS 0 stalls"] is None


def test_command_start_and_end_become_a_span(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        command(1, "ENQUEUE"),
        command(5, "START"),
        command(9, "END"),
        command(20, "START"),
        command(3, "END", cmd_id=8),
        command(4, "ERROR"),
        command(30, "START", cmd_id=9, phase=None),
        command(31, "START", cmd_id=10, phase=None, source=None),
        command(35, "END", cmd_id=10),
        engine(0, 50),
    )

    assert spans_on(trace, "commands") == [
        ("QKV_PROJ", 5, 9),
        ("QKV_PROJ", 20, 50),
        ("CMDQ_EXECUTOR", 30, 50),
        ("command", 31, 35),
    ]
    rows = trace.spans.lane == lane_named(trace, "commands")
    assert quality_of(trace.spans.flags[rows]).tolist() == [
        Quality.MEASURED,
        Quality.UNFINISHED,
        Quality.UNFINISHED,
        Quality.MEASURED,
    ]
    markers = [
        (int(t), trace.strings[n], trace.strings[d])
        for t, n, d in zip(
            trace.markers.time,
            trace.markers.name.tolist(),
            trace.markers.detail.tolist(),
            strict=True,
        )
    ]
    assert markers == [
        (1, "ENQUEUE", "QKV_PROJ"),
        (3, "END", "QKV_PROJ"),
        (4, "ERROR", "QKV_PROJ"),
    ]


def test_commands_without_id_are_never_paired(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path, command(1, "START", cmd_id=-1), command(2, "END", cmd_id=-1)
    )

    assert (len(trace.spans), len(trace.markers)) == (0, 2)


def test_reserved_events_become_markers_without_a_word(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        {"type": "BUS_EVENT", "cycle": 3, "details": {"link": 2}},
        {"type": "ERROR_EVENT", "start_cycle": 5, "details": {}},
        {"type": "POWER_ESTIMATE", "cycle": 4, "mw": 120.5},
        {"type": "POWER_ESTIMATE", "cycle": 2, "mw": 100},
        {"type": "POWER_ESTIMATE", "cycle": 6, "mw": True},
    )

    assert trace.warnings == ()
    assert (trace.markers.time + trace.clock.origin).tolist() == [2, 3, 4, 5, 6]
    (power,) = trace.counters
    assert (power.name, power.unit, power.shape) == ("Power", "mW", CounterShape.LEVEL)
    assert power.time.tolist() == [2, 4]
    assert power.value.tolist() == [100, 120.5]


def test_power_beyond_any_float_is_left_out_of_the_counter(tmp_path: Path) -> None:
    event = {"type": "POWER_ESTIMATE", "cycle": 7, "mw": "huge"}
    text = json.dumps(document(event)).replace('"huge"', "1e999")

    trace = read_text(tmp_path, text)

    assert (len(trace.markers), trace.counters) == (1, ())


def test_unknown_types_become_markers_and_one_warning(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        engine(),
        {"type": "FOO_EVENT", "cycle": 3},
        {"type": "FOO_EVENT", "cycle": 5, "x": [1]},
        {"type": "BAR", "start_cycle": 7},
    )

    warning = only_warning(trace)
    assert warning.code == "unknown_event_type"
    assert "FOO_EVENT (2), BAR (1)" in warning.message
    assert (warning.count, warning.place) == (3, "timeline_events[1].type")
    names = [trace.strings[i] for i in trace.markers.name.tolist()]
    assert names == ["FOO_EVENT", "FOO_EVENT", "BAR"]
    assert trace.strings[int(trace.markers.detail[1])] == '{"x": [1]}'


def test_deps_become_flows_from_commands_or_event_numbers(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        engine(0, 1, cmdq_id=70),
        engine(2, 3, cmdq_id=71),
        engine(4, 5, cmdq_id=70),
        engine(6, 7, cmdq_id=72, deps=[70, 1]),
    )

    # Command 70 means its latest span; 1 is no command, so it is event 1.
    assert trace.flows.source.tolist() == [2, 1]
    assert trace.flows.target.tolist() == [3, 3]
    assert trace.warnings == ()


def test_deps_that_do_not_come_before_are_noted(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        marker(0, "M"),
        engine(0, 1, cmdq_id=70, deps=[71, 70, 1, 0, 900]),
        engine(2, 3, cmdq_id=71, deps=[]),
        engine(5, 4, deps=[70]),
    )

    codes = {w.code: w.count for w in trace.warnings}
    assert len(trace.flows) == 0
    assert codes == {"dependency_missing": 6, "end_before_start": 1}


def test_flows_without_any_engine_are_noted(tmp_path: Path) -> None:
    trace = read_events(tmp_path, engine(5, 4, deps=[0]))

    assert {w.code for w in trace.warnings} == {
        "dependency_missing",
        "end_before_start",
    }


def test_samples_become_rate_counters_in_order_of_time(tmp_path: Path) -> None:
    trace = read_document(
        tmp_path,
        events=[engine(0, 10)],
        bandwidth_samples=[sample(128, stall_cycles=3), sample(64, kv_bytes=1)],
        config_snapshot={"memory": {"dram_peak_bw_bytes_per_cycle": 20}},
    )

    by_name = {series.name: series for series in trace.counters}
    assert list(by_name) == [
        "DRAM read",
        "DRAM write",
        "Stall cycles",
        "KV bytes",
        "DRAM utilisation",
    ]
    read = by_name["DRAM read"]
    assert (read.shape, read.unit) == (CounterShape.RATE, "B")
    assert read.time.tolist() == [64, 128]
    assert read.window is not None
    assert read.window.tolist() == [64, 64]
    assert str(by_name["KV bytes"].value.tolist()) == "[1.0, nan]"
    assert by_name["DRAM utilisation"].value.tolist() == [0.5, 0.5]
    assert trace.warnings == ()


def test_utilisation_ends_with_its_window(tmp_path: Path) -> None:
    trace = read_document(
        tmp_path,
        events=[engine(0, 400)],
        bandwidth_samples=[sample(0), sample(64), sample(200), sample(390)],
        config_snapshot={"memory": {"dram_peak_bw_bytes_per_cycle": 20}},
    )

    (held,) = [c for c in trace.counters if c.name == "DRAM utilisation"]
    assert held.time.tolist() == [0, 64, 128, 200, 264, 390]
    assert str(held.value.tolist()) == "[0.5, 0.5, nan, 0.5, nan, 0.5]"
    ticks = [0, 127, 128, 199, 200, 263, 264, 389, 390, 399]
    known = [value_at(held, tick) == 0.5 for tick in ticks]
    of_read = [not np.isnan(value_at(trace.counters[0], tick)) for tick in ticks]
    assert known == of_read
    assert known == [True, True, False, False, True, True, False, False, True, True]


def test_windows_of_samples_do_not_make_the_run_longer(tmp_path: Path) -> None:
    trace = read_document(
        tmp_path,
        events=[engine(0, 300)],
        bandwidth_samples=[
            sample(0, window_cycles=256),
            sample(256, window_cycles=256),
        ],
    )

    assert trace.extent == TimeRange(0, 300)
    computed = trace.info.summary["computed"]
    assert isinstance(computed, dict)
    assert computed["cycles"] == trace.extent.duration


def test_samples_alone_last_as_long_as_their_windows(tmp_path: Path) -> None:
    trace = read_document(tmp_path, bandwidth_samples=[sample(0), sample(64)])

    assert trace.extent == TimeRange(0, 128)


def test_samples_without_figures_make_no_counter(tmp_path: Path) -> None:
    trace = read_document(
        tmp_path,
        bandwidth_samples=[{"cycle": 0, "window_cycles": 4}],
        config_snapshot={"memory": {"dram_peak_bw_bytes_per_cycle": 20}},
    )

    assert trace.counters == ()


def test_more_than_the_peak_is_noted_with_its_sample(tmp_path: Path) -> None:
    trace = read_document(
        tmp_path,
        events=[engine(0, 10)],
        bandwidth_samples=[sample(0), sample(64, dram_read_bytes=4096)],
        config_snapshot={"memory": {"dram_peak_bw_bytes_per_cycle": 12}},
    )

    values = {w.code: w for w in trace.warnings}
    assert set(values) == {"bandwidth_over_peak", "bandwidth_high"}
    over, high = values["bandwidth_over_peak"], values["bandwidth_high"]
    assert (over.count, high.count) == (1, 1)
    assert "cycle 64" in over.message
    assert "550 %" in over.message
    assert "sample at cycle 0: DRAM at 83.3 % of its peak" in high.message
    computed = trace.info.summary["computed"]
    assert isinstance(computed, dict)
    assert computed["dram_samples_above_80_percent"] == 2
    assert computed["dram_bytes_read"] == 4608


def test_eighty_per_cent_of_the_peak_is_no_bottleneck_and_more_is(tmp_path) -> None:
    def message_of(n_bytes: int) -> str:
        trace = read_document(
            tmp_path,
            events=[engine(0, 100)],
            bandwidth_samples=[
                sample(
                    0, window_cycles=100, dram_read_bytes=n_bytes, dram_write_bytes=0
                )
            ],
            config_snapshot={"memory": {"dram_peak_bw_bytes_per_cycle": 100}},
        )
        return "\n".join(w.message for w in trace.warnings)

    claim = "of its peak; above 80 % counts as a bandwidth bottleneck"
    assert claim in message_of(8_001)
    assert message_of(8_000) == ""


@pytest.mark.parametrize("peak", [0, -1, "64", None, True])
def test_unusable_peak_gives_no_utilisation(tmp_path: Path, peak: object) -> None:
    trace = read_document(
        tmp_path,
        bandwidth_samples=[sample(0)],
        config_snapshot={"memory": {"dram_peak_bw_bytes_per_cycle": peak}},
    )

    assert [c.name for c in trace.counters] == ["DRAM read", "DRAM write"]


def test_configuration_without_memory_gives_no_utilisation(tmp_path: Path) -> None:
    trace = read_document(
        tmp_path, bandwidth_samples=[sample(0)], config_snapshot={"memory": 5}
    )

    assert len(trace.counters) == 2


@pytest.mark.parametrize(("first", "origin"), [(700, 0), (1 << 50, 1 << 50)])
def test_times_are_the_cycles_of_the_file(
    tmp_path: Path, first: int, origin: int
) -> None:
    """So large that pictures could not distinguish them, they count from the first."""
    trace = read_document(
        tmp_path,
        events=[engine(first + 200, first + 300), token(first + 100, first + 250)],
        bandwidth_samples=[sample(first)],
    )

    assert trace.clock.origin == origin
    assert trace.extent.start + origin == first
    assert spans_on(trace, "TE 0") == [("ffn_1_t0", first + 200, first + 300)]


def test_extent_begins_at_the_first_cycle_of_anything(tmp_path: Path) -> None:
    trace = read_document(
        tmp_path,
        events=[engine(900, 1000), token(800, 950)],
        bandwidth_samples=[sample(700)],
    )

    assert trace.extent.start == 700
    assert spans_on(trace, "TE 0") == [("ffn_1_t0", 900, 1000)]


def test_computed_summary_stands_beside_the_claimed_one(tmp_path: Path) -> None:
    trace = read_document(
        tmp_path,
        events=[
            engine(0, 50),
            engine(40, 60),
            engine(80, 100),
            engine(0, 25, engine="VE"),
            token(0, 40, phase="PREFILL"),
            token(40, 50),
            token(50, 70),
        ],
        summary_metrics={"cycles_total": 100, "te": {"per_engine": []}},
    )

    summary = trace.info.summary
    assert summary["cycles_total"] == 100
    assert summary["computed"] == {
        "cycles": 100,
        "first_cycle": 0,
        "engines": {
            "TE 0": {"active_cycles": 80, "utilization": 0.8},
            "VE 0": {"active_cycles": 25, "utilization": 0.25},
        },
        "avg_prefill_latency_cycles": 40.0,
        "prefill_cycles": 40,
        "prefill_events": 1,
        "avg_decode_latency_cycles": 15.0,
        "decode_cycles": 30,
        "decode_events": 2,
    }


RUN = (
    engine(0, 50),
    engine(40, 60),
    engine(80, 100),
    engine(0, 25, engine="VE"),
    engine(10, 30, engine="DMA"),
    engine(20, 40, engine="DMA", engine_id=1),
    token(0, 40, phase="PREFILL"),
    token(40, 50),
    token(50, 71),
)
TRUE_SUMMARY = {
    "cycles_total": 100,
    "dram_bytes_read": 1024,
    "dram_bytes_write": 256,
    "kv_cache": {"bytes_read": 30, "bytes_written": 10},
    "dma": {"utilization": 0.2, "max_concurrent_transfers": 2},
    "te": {"per_engine": [{"id": 0, "utilization": 0.8, "active_cycles": 80}]},
    "ve": {"per_engine": [{"id": 0, "utilization": 0.25, "active_cycles": 25}]},
    "tokens": {"prefill_latency_cycles": 40, "avg_decode_latency_cycles": 15.5},
}
SAMPLES = [sample(0, kv_bytes=40), sample(64, kv_bytes=0)]


def stated(folder: Path, summary: object, samples: object = SAMPLES, **root: object):
    """Return the trace and the verdict of each stated figure by its name."""
    trace = read_document(
        folder,
        events=list(RUN),
        summary_metrics=summary,
        bandwidth_samples=samples,
        **root,
    )
    return trace, {figure.name: figure for figure in trace.info.stated}


def test_summary_that_shows_the_truth_is_no_problem(tmp_path: Path) -> None:
    trace, figures = stated(
        tmp_path,
        TRUE_SUMMARY,
        config_snapshot={"npu": {"num_te": 2, "num_dma": 2}},
        run_metadata={"tokens": {"prefill_tokens": 16, "decode_tokens": 2}},
    )

    assert trace.warnings == ()
    assert {name for name, f in figures.items() if f.agrees is not True} == {
        "TE engines"
    }
    assert figures["TE engines"].agrees is None
    assert figures["decode tokens"].computed == 2
    assert figures["TE 0 utilization"].computed == 0.8


def test_share_of_another_whole_agrees_and_names_it(tmp_path: Path) -> None:
    te = {"per_engine": [{"id": 0, "utilization": 0.4}]}
    trace, figures = stated(tmp_path, {"cycles_total": 200, "te": te})

    figure = figures["TE 0 utilization"]
    assert figure.agrees
    assert figure.computed == 0.4
    assert "in 200 cycles" in figure.basis
    assert trace.warnings == ()


@pytest.mark.parametrize(
    ("part", "wrong_value", "name", "message"),
    [
        ("te", {"per_engine": [{"id": 0, "utilization": 0.72}]}, "TE 0 utilization",
         "72.0 % stated, 80.0 % by its spans"),
        ("te", {"utilization": 72.0}, "TE utilization", "72.0 % stated, 80.0 % by"),
        ("te", {"per_engine": [{"id": 0, "active_cycles": 90}]}, "TE 0 active cycles",
         "90 cycles stated, 80 cycles by its spans"),
        ("te", {"per_engine": [{"id": 3, "active_cycles": 7}]}, "TE 3 active cycles",
         "7 cycles stated, 0 cycles by its spans"),
        ("dma", {"max_concurrent_transfers": 3}, "DMA transfers at once",
         "3 stated, 2 by its spans"),
        ("dram_bytes_read", 1000, "dram bytes read",
         "1,000 bytes stated, 1,024 bytes (1.0 KiB) by its bandwidth"),
        ("kv_cache", {"bytes_read": 80}, "KV cache bytes", "80 bytes stated, 40"),
        ("tokens", {"avg_decode_latency_cycles": 20}, "avg decode latency",
         "20 cycles stated, 15.5 cycles by its token events"),
    ],
)  # fmt: skip
def test_summary_that_lies_is_a_problem(
    tmp_path: Path, part: str, wrong_value: object, name: str, message: str
) -> None:
    trace, figures = stated(tmp_path, {**TRUE_SUMMARY, part: wrong_value})

    warning = only_warning(trace)
    assert (warning.code, warning.severity) == ("stated_figures", Severity.NOTICE)
    assert f"{name}: {message}" in warning.message
    assert [n for n, f in figures.items() if f.agrees is False] == [name]


def test_engines_that_were_not_traced_contradict_nothing(tmp_path: Path) -> None:
    summary = {"te": {"per_engine": [{"id": 0, "utilization": 0.5}]}}
    trace = read_document(
        tmp_path, events=[engine(0, 5, engine="VE")], summary_metrics=summary
    )

    assert trace.warnings == ()
    assert trace.info.stated[0].computed is None


def test_samples_of_a_part_of_the_run_contradict_only_smaller_totals(
    tmp_path: Path,
) -> None:
    more = stated(tmp_path, {"dram_bytes_read": 5000}, SAMPLES[:1])
    less = stated(tmp_path, {"dram_bytes_read": 500}, SAMPLES[:1])

    assert more[0].warnings == ()
    assert more[1]["dram bytes read"].agrees is None
    assert only_warning(less[0]).code == "stated_figures"


def test_summary_is_not_held_against_a_part_or_what_is_left(tmp_path: Path) -> None:
    text = json.dumps(
        {
            "version": "1.0",
            "summary_metrics": {"te": {"utilization": 0.99}},
            "timeline_events": list(RUN),
        }
    )
    part = read_text(tmp_path, text, range="0:2")
    cut = read_text(tmp_path, text[:-30])

    assert part.info.stated == ()
    assert {w.code for w in cut.warnings} == {"truncated_json"}
    (figure,) = cut.info.stated
    assert figure.agrees is None
    assert "of which parts were lost" in figure.basis


@pytest.mark.parametrize(
    ("second", "code"),
    [
        (sample(0), "bandwidth_window_repeated"),
        (sample(10), "bandwidth_windows_overlap"),
        (sample(0, window_cycles=80), "bandwidth_windows_overlap"),
    ],
)
def test_windows_that_share_cycles_break_a_rule(
    tmp_path: Path, second: object, code: str
) -> None:
    trace, figures = stated(
        tmp_path, {"dram_bytes_read": 7}, [sample(0), second, sample(80)]
    )

    warning = only_warning(trace)
    assert (warning.severity, warning.code) == (Severity.ERROR, code)
    assert warning.count == 1
    # Nothing is held against a sum that counts bytes twice.
    assert figures["dram bytes read"].computed is None


def test_windows_side_by_side_break_no_rule(tmp_path: Path) -> None:
    trace, _ = stated(tmp_path, {}, [sample(128), sample(0), sample(64)])

    assert trace.warnings == ()


def test_summary_of_the_corpus_is_reported_as_the_lie_it_is() -> None:
    path = need_corpus() / "npu" / "valid_1_llm_all_event_types.json"
    with Source(path) as source:
        trace = NpuJsonReader().read(source, ReadContext())

    figures = {figure.name: figure for figure in trace.info.stated}
    assert figures["TE 0 utilization"].stated == 0.72
    computed = figures["TE 0 utilization"].computed
    assert computed == pytest.approx(2400 / trace.extent.duration)
    assert computed == pytest.approx(TraceIndex(trace).busy_share("engine:TE 0"))
    assert figures["TE 0 active cycles"].agrees
    assert figures["dram bytes read"].agrees
    wrong = {name for name, figure in figures.items() if figure.agrees is False}
    assert wrong == {
        "KV cache bytes", "DMA utilization", "DMA transfers at once",
        "TE 0 utilization", "TE 1 utilization", "VE 0 utilization", "VE 1 utilization",
    }  # fmt: skip


def test_metadata_becomes_dotted_facts(tmp_path: Path) -> None:
    trace = read_document(
        tmp_path,
        run_metadata={"model_name": "TinyLLM", "tokens": {"prefill": 16}, "x": {}},
        config_snapshot={"npu": {"num_te": 2}},
    )

    assert trace.info.producer == {
        "model_name": "TinyLLM",
        "tokens.prefill": "16",
        "config.npu.num_te": "2",
    }
    assert (trace.info.format, trace.info.format_version) == (
        "NPU simulator JSON",
        "1.0",
    )


def test_facts_are_bounded_in_number_and_depth(tmp_path: Path) -> None:
    deep: dict[str, object] = {"end": 1}
    for _ in range(200):
        deep = {"d": deep}

    trace = read_document(
        tmp_path,
        run_metadata={"deep": deep} | {f"k{i}": i for i in range(2000)},
        config_snapshot={"a": 1},
    )

    assert len(trace.info.producer) == 1000
    assert trace.info.producer["deep.d.d.d.d.d"].startswith('{"d": {"d"')


def test_more_ops_than_the_column_holds_are_noted(tmp_path: Path) -> None:
    events = [engine(i, i + 1, op=f"OP_{i}") for i in range(32_770)]

    trace = read_events(tmp_path, *events)

    assert only_warning(trace).code == "too_many_ops"
    assert trace.spans.op[32_766:].tolist() == [32_766, 32_767, -1, -1]


def test_top_level_keys_may_come_in_any_order(tmp_path: Path) -> None:
    root = document(
        engine(),
        access(),
        summary_metrics={"cycles_total": 10},
        run_metadata={"a": 1},
        bandwidth_samples=[sample(0)],
    )

    forward = read_text(tmp_path, json.dumps(root))
    backward = read_text(tmp_path, json.dumps(dict(reversed(root.items()))))

    assert comparable(forward) == comparable(backward)
    assert forward.info.producer == backward.info.producer


EVENTS: list[object] = [
    engine(100, 250, cmdq_id=3, color_hint="#fff"),
    access(110, cmdq_id=3),
    token(100, 900, phase="PREFILL"),
    stall(120, 130),
    command(90, "START"),
    command(95, "END"),
    marker(880, details={"a": {"b": [1, "}{"]}}),
    42,
    "text",
    None,
    engine(5, 2),
    engine("30", 40),
    [1, {"type": "x"}],
    {"cycle": 1},
    {"type": "FOO_EVENT", "cycle": 4},
    {"type": "BUS_EVENT", "cycle": 8},
    engine(10, 20, deps=[3], engine="GPU"),
    access(-3, direction="both"),
]


@pytest.mark.parametrize("indent", [None, 1])
def test_every_block_size_gives_the_same_trace(
    tmp_path: Path, indent: int | None
) -> None:
    root = document(*EVENTS, bandwidth_samples=[sample(0), sample(1, window_cycles=0)])
    text = json.dumps(root, indent=indent)

    whole = comparable(read_text(tmp_path, text))

    for block in [*range(1, 80, 3), 200, 333, 1000, 2000]:
        assert comparable(read_text(tmp_path, text, block_bytes=block)) == whole


@given(st.lists(st.sampled_from(EVENTS), max_size=14), st.integers(1, 700))
@settings(max_examples=60)
def test_any_mixture_of_events_is_independent_of_blocks(
    tmp_path_factory: pytest.TempPathFactory, events: list[object], block: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    text = json.dumps(document(*events))

    small = read_text(folder, text, block_bytes=block)

    assert comparable(small) == comparable(read_text(folder, text))


def test_lines_give_the_same_trace_as_the_object(tmp_path: Path) -> None:
    events = [e for e in EVENTS if isinstance(e, dict) and "type" in e]

    from_object = read_text(tmp_path, json.dumps(document(*events)))
    from_lines = read_text(tmp_path, as_lines(*events), name="t.jsonl")

    assert comparable(from_lines) == comparable(from_object)


def test_lines_of_every_block_size_give_the_same_trace(tmp_path: Path) -> None:
    header = {"version": "1.1", "run_metadata": {"run_id": "r"}}
    text = "\n".join(
        [json.dumps(header), *map(json.dumps, EVENTS), "{bad", json.dumps(sample(9))]
    )

    whole = comparable(read_text(tmp_path, text, name="t.jsonl"))

    for block in [*range(1, 80, 5), 200, 333, 1000, 2000]:
        small = read_text(tmp_path, text, name="t.jsonl", block_bytes=block)
        assert comparable(small) == whole


def test_more_events_than_the_limit_are_refused(tmp_path: Path) -> None:
    context = ReadContext(limits=Limits(records=2))
    text = json.dumps(document(engine(), engine(), engine()))

    with pytest.raises(LimitExceededError):
        read_text(tmp_path, text, context=context)
