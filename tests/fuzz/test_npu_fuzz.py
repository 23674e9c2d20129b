"""Damaged NPU traces: a checked trace or one ReadError; sound ones: the truth."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.errors import ReadError
from ggscope.model.trace import Trace
from ggscope.readers.api import HEAD_BYTES, Head
from ggscope.readers.npu.reader import NpuJsonReader
from npu_files import (
    access,
    as_lines,
    command,
    document,
    engine,
    marker,
    read_text,
    sample,
    stall,
    token,
)
from support import swept

EVENTS = [
    engine(100, 250, color_hint="#123456"),
    access(110),
    token(100, 300),
    stall(120, 130),
    command(90, "START"),
    command(95, "END"),
    marker(99, "M", details={"q": '\\"}'}),
    {"type": "POWER_ESTIMATE", "cycle": 5, "mw": 2},
    engine(260, 300, engine="DMA", deps=[1]),
]
GOLDEN = json.dumps(
    document(
        *EVENTS,
        run_metadata={"run_id": "r"},
        bandwidth_samples=[sample(0), sample(64)],
        config_snapshot={"memory": {"dram_peak_bw_bytes_per_cycle": 64}},
        summary_metrics={"cycles_total": 300},
    )
).encode()
LINES = as_lines({"version": "1.0"}, *EVENTS).encode()


def attempt(folder: Path, data: bytes, name: str, **options: str) -> Trace | None:
    """Return the trace, None for a ReadError; anything else fails the test."""
    NpuJsonReader().sniff(Head(name, len(data), data[:HEAD_BYTES]))
    error: ReadError | None = None
    try:
        return read_text(
            folder, data, name=name, block_bytes=200, value_bytes=2000, **options
        )
    except ReadError as caught:
        error = caught
    assert error.message
    assert error.offset is None or 0 <= error.offset <= len(data)
    return None


def test_golden_files_are_small_and_whole(tmp_path: Path) -> None:
    assert len(GOLDEN) < 4096
    for data, name in ((GOLDEN, "t.json"), (LINES, "t.jsonl")):
        trace = attempt(tmp_path, data, name)
        assert trace is not None
        assert (trace.info.n_records, trace.warnings) == (len(EVENTS), ())


@pytest.mark.parametrize("strict", ["", "true"])
def test_every_prefix_of_an_object_is_refused_or_kept(
    tmp_path: Path, strict: str
) -> None:
    begin = GOLDEN.index(b'"timeline_events"')
    value = 0
    last = len(GOLDEN) - 1
    for cut in (*swept(range(1, last)), last):
        trace = attempt(tmp_path, GOLDEN[:cut], "t.json", strict=strict)
        if strict:
            assert trace is None
        elif trace is not None:
            assert cut > begin
            assert trace.info.n_records >= value
            value = trace.info.n_records
    assert value == (len(EVENTS) if not strict else 0)


def test_every_prefix_of_lines_keeps_the_whole_lines(tmp_path: Path) -> None:
    first = LINES.index(b"\n") + 1
    for cut in swept(range(first + 2, len(LINES))):
        trace = attempt(tmp_path, LINES[:cut], "t.jsonl")
        if trace is not None:
            whole = LINES[:cut].count(b"\n") - 1
            assert trace.info.n_records in (whole, whole + 1)


@pytest.mark.parametrize(("data", "name"), [(GOLDEN, "t.json"), (LINES, "t.jsonl")])
def test_every_byte_replaced_gives_a_trace_or_an_error(
    tmp_path: Path, data: bytes, name: str
) -> None:
    for i in swept(range(len(data))):
        for byte in (b"\xff", b'"', b"}", b"9")[i % 2 :: 2]:
            attempt(tmp_path, data[:i] + byte + data[i + 1 :], name)


@given(
    st.lists(
        st.tuples(st.integers(0, len(GOLDEN) - 1), st.binary(max_size=3)), max_size=4
    ),
    st.sampled_from(["", "true"]),
)
@settings(max_examples=100)
def test_random_damage_gives_a_trace_or_an_error(
    tmp_path_factory: pytest.TempPathFactory,
    edits: list[tuple[int, bytes]],
    strict: str,
) -> None:
    data = bytearray(GOLDEN)
    for at, replacement in edits:
        data[at : at + 1] = replacement

    attempt(
        tmp_path_factory.getbasetemp(), bytes(data) or b" ", "t.json", strict=strict
    )


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["7", "0x9", "-3", "TE", "read", "START", "DECODE", "#fff"])
    | st.integers(-(2**70), 2**70)
    | st.lists(st.integers(-2, 9), max_size=3)
)
FIELDS = sorted({key for event in EVENTS for key in event} | {"mw", "name", "deps"})


@given(
    st.lists(
        st.tuples(
            st.sampled_from(EVENTS), st.dictionaries(st.sampled_from(FIELDS), SCALARS)
        ),
        max_size=6,
    )
)
@settings(max_examples=100)
def test_fields_of_any_type_give_a_trace(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[tuple[dict[str, object], dict[str, object]]],
) -> None:
    folder = tmp_path_factory.getbasetemp()
    text = json.dumps(document(*[event | changes for event, changes in events]))

    trace = attempt(folder, text.encode(), "t.json", strict="true")

    finite = not any(word in text for word in ("NaN", "Infinity"))
    assert (trace is not None) == finite or '"Infinity"' in text or '"NaN"' in text
    if trace is None:
        part = attempt(folder, text.encode(), "t.json")
        if part is not None:  # what stands before the fault, and a word of it
            assert part.info.n_records <= len(events)
            assert any(w.code == "broken_json" for w in part.warnings)
    else:
        assert trace.info.n_records == len(events)
        assert trace.records is not None
        for record in range(len(events)):
            assert trace.records.view(record).fields


def slow_engines(root: dict[str, Any]) -> set[tuple[object, ...]]:
    """Return the engine spans of a valid document, read with the json module."""
    tokens = sorted(
        (e for e in root["timeline_events"] if e["type"] == "TOKEN_EVENT"),
        key=lambda e: e["start_cycle"],
    )
    engines = set()
    for number, event in enumerate(root["timeline_events"]):
        if event["type"] != "ENGINE_EVENT":
            continue
        start = event["start_cycle"]
        owner = -1
        for t in tokens:
            if t["start_cycle"] <= start < t["end_cycle"]:
                owner = t["token_index"]
        layer = event["layer_id"]
        engines.add(
            (
                number,
                f"{event['engine']} {event['engine_id']}",
                start,
                event["end_cycle"],
                event["op"],
                event["tile_id"] or event["op"] or layer,
                int(layer.rpartition("_")[2]) if layer else -1,
                owner if tokens else -1,
            )
        )
    return engines


cycles = st.integers(0, 2**40)
valid_engines = st.builds(
    lambda start, length, name, number, layer, tile, op: engine(
        start,
        start + length,
        engine=name,
        engine_id=number,
        layer_id=None if layer is None else f"blk_{layer}",
        tile_id=tile,
        op=op,
    ),
    cycles,
    st.integers(0, 99),
    st.sampled_from(["DMA", "TE", "VE", "HOST"]),
    st.integers(0, 3),
    st.none() | st.integers(0, 99),
    st.none() | st.text(max_size=5),
    st.text(min_size=1, max_size=4),
)
valid_tokens = st.builds(
    lambda start, length, index: token(start, start + length, token_index=index),
    cycles,
    st.integers(0, 2**38),
    st.integers(0, 9999),
)


@given(st.lists(valid_engines | valid_tokens, max_size=12), st.booleans())
@settings(max_examples=100)
def test_valid_files_equal_a_slow_reading_by_the_json_module(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[dict[str, object]],
    as_json_lines: bool,
) -> None:
    folder = tmp_path_factory.getbasetemp()
    root = document(*events)
    text = as_lines(*events) if as_json_lines and events else json.dumps(root)

    trace = read_text(folder, text, block_bytes=300)

    spans, origin = trace.spans, trace.clock.origin
    names = set()
    for i in range(len(spans)):
        lane = trace.lanes[int(spans.lane[i])]
        if not lane.group:
            continue
        assert spans.record is not None
        assert spans.layer is not None
        names.add(
            (
                int(spans.record[i]),
                lane.name,
                int(spans.start[i]) + origin,
                int(spans.end[i]) + origin,
                trace.op_name(int(spans.op[i])),
                trace.span_name(i),
                int(spans.layer[i]),
                -1 if spans.token is None else int(spans.token[i]),
            )
        )
    assert names == slow_engines(json.loads(json.dumps(root)))
    assert trace.warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        '{"timeline_events": ' + "[" * 50_000,
        '{"timeline_events": [' + '{"a":' * 50_000,
        '{"a":' * 50_000,
        "[" * 100_000 + '"timeline_events"',
        '{"timeline_events": [1' + "0" * 5000 + "]}",
        '{"timeline_events": [' + "," * 5000 + "]}",
        '{"timeline_events": ["' + "\\" * 5001 + '"]}',
        '{"timeline_events": [' + '"' * 5001 + "]}",
        '{"timeline_events"' + ":" * 500,
        '{"' + "k" * 5000 + '": 1, "timeline_events": []}',
        "\x00" * 100,
        '{"version": 1' + "0" * 5000 + ', "timeline_events": []}',
    ],
)
def test_hostile_text_gives_a_trace_or_an_error(tmp_path: Path, text: str) -> None:
    for options in ({}, {"strict": "true"}):
        attempt(tmp_path, text.encode(), "t.json", **options)
        attempt(tmp_path, text.encode(), "t.jsonl", **options)


def test_reading_ends_even_where_every_event_is_bad(tmp_path: Path) -> None:
    text = json.dumps(document(*[engine(math.pi, "x")] * 3000))

    trace = attempt(tmp_path, text.encode(), "t.json")

    assert trace is not None
    assert {w.code: w.count for w in trace.warnings} == {
        "fractional_number": 3000,
        "cycle_unusable": 3000,
    }
