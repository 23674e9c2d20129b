"""Buffer timelines: events, the list beside them, and claims that do not hold."""

import json
from pathlib import Path

import numpy as np
import pytest

from ggscope.errors import CorruptError, ReadError
from ggscope.model.trace import Severity, Trace
from ggscope.readers.buffers.timeline_json import BufferTimelineReader
from side_files import codes, confidence, read_path, read_text
from support import corpus_path, need_corpus

READER = BufferTimelineReader()
Json = dict[str, object]


def corpus_files() -> list[Json]:
    folder = corpus_path()
    if folder is None:
        return []
    index = json.loads((folder / "INDEX.json").read_text())
    return [row for row in index if row["format"] == "buffer-timeline-json"]


def listed(buffer_id: int, size: int, **values: object) -> Json:
    known: Json = {
        "id": buffer_id, "name": "KV", "size": size, "backend": "CPU", "usage": 2,
        "usage_name": "COMPUTE", "layer": 65535, "alloc_time_ms": 1.0,
        "dealloc_time_ms": None,
    }  # fmt: skip
    return known | values


def event(
    ms: float, buffer_id: int, size: int, level: int, kind: str = "alloc"
) -> Json:
    return {
        "timestamp_ms": ms, "event": kind, "buffer_id": buffer_id,
        "buffer_name": "KV", "size": size, "cumulative_size": level,
        "num_active_buffers": 1,
    }  # fmt: skip


def read(
    folder: Path, buffers: object, timeline: object, metadata: object = None
) -> Trace:
    root: Json = {"buffers": buffers, "timeline": timeline}
    if metadata is not None:
        root = {"metadata": metadata, **root}
    return read_text(READER, folder, json.dumps(root), "buffer-timeline.json")


def noted(trace: Trace) -> dict[str, int]:
    noted = codes(trace)
    noted.pop("buffers_not_recorded", None)
    return noted


@pytest.mark.parametrize("row", corpus_files(), ids=lambda r: r["path"][4:12])
def test_corpus_file_has_the_counts_of_the_index(row) -> None:
    trace = read_path(READER, need_corpus() / row["path"])

    assert trace.info.n_records == row["expect"]["events"]
    assert len(trace.buffers) == row["expect"]["buffers"]
    assert int(np.max(trace.counters[0].value)) == row["expect"]["peak"]
    assert set(codes(trace)) == {"buffers_not_recorded"}
    assert [trace.strings[i] for i in trace.buffers.name.tolist()] == (
        ["KVCache_CPU"] * row["expect"]["buffers"]
    )


def test_corpus_timeline_equals_the_lines_it_was_made_from() -> None:
    from ggscope.readers.buffers.events_jsonl import BufferStatsReader

    data = need_corpus() / "bsc/962e44d2/tensor-tracing/webui/public/data"
    lines = need_corpus() / "tracer/buffer_stats_962e44d2.jsonl"

    timeline = read_path(READER, data / "buffer-timeline.json")
    stats = read_path(BufferStatsReader(), lines)

    assert timeline.clock == stats.clock
    for column in ("usage", "size", "allocated", "freed", "address", "layer"):
        ours, theirs = (getattr(t.buffers, column) for t in (timeline, stats))
        assert ours.tolist() == theirs.tolist()


def test_used_again_id_keeps_both_lives_and_says_what_is_lost(tmp_path) -> None:
    timeline = [
        event(1, 7, 10, 10), event(2, 7, 10, 0, "dealloc"), event(3, 7, 20, 20)
    ]  # fmt: skip

    trace = read(tmp_path, [listed(7, 20, layer=3)], timeline)

    b = trace.buffers
    assert b.size.tolist() == [10, 20]
    assert b.freed.tolist() == [1_000_000, -1]
    assert b.usage.tolist() == [0, 2]
    assert b.layer is not None
    assert b.layer.tolist() == [-1, 3]
    assert [trace.strings[i] for i in b.backend.tolist()] == ["", "CPU"]
    assert noted(trace) == {"overwritten_entry": 1, "unknown_usage": 1}


def test_claims_are_checked_against_the_events(tmp_path) -> None:
    peak = 654_311_424
    metadata = {
        "total_events": 3, "total_buffers": 1, "peak_occupancy_bytes": peak + 1,
        "peak_occupancy_mb": 623.96,
    }  # fmt: skip

    trace = read(tmp_path, [listed(1, peak)], [event(1, 1, peak, 5)], metadata)

    assert noted(trace) == {
        "cumulative_mismatch": 1, "peak_mismatch": 1, "peak_mb_mismatch": 1,
        "total_events_mismatch": 1,
    }  # fmt: skip
    assert all(
        w.severity is Severity.NOTICE for w in trace.warnings if "mismatch" in w.code
    )
    assert int(trace.counters[0].value.max()) == peak
    assert trace.info.summary["stated_peak_occupancy_mb"] == 623.96


def test_right_claims_are_no_warnings(tmp_path) -> None:
    metadata = {
        "total_events": 1, "total_buffers": 1, "peak_occupancy_bytes": 654_311_424,
        "peak_occupancy_mb": 624.0,
    }  # fmt: skip

    trace = read(
        tmp_path, [listed(1, 654_311_424)], [event(1, 1, 654_311_424, 654_311_424)],
        metadata,
    )  # fmt: skip

    assert noted(trace) == {}


def test_list_alone_gives_the_lives(tmp_path) -> None:
    buffers = [listed(1, 10, dealloc_time_ms=3.5), listed(2, 5, alloc_time_ms=2)]

    trace = read(tmp_path, buffers, [])

    assert trace.buffers.allocated.tolist() == [0, 1_000_000]
    assert trace.buffers.freed.tolist() == [2_500_000, -1]
    assert noted(trace) == {"not_in_timeline": 2}


def test_events_alone_give_the_lives(tmp_path) -> None:
    trace = read(tmp_path, [], [event(1, 1, 10, 10), event(2, 1, 10, 0, "dealloc")])

    assert trace.buffers.freed.tolist() == [1_000_000]
    assert trace.counters[0].value.tolist() == [10.0, 0.0]


def test_listed_buffer_without_event_or_time_is_a_loss(tmp_path) -> None:
    buffers = [listed(1, 10), listed(2, 5, alloc_time_ms=None), {"name": "x"}, 4]

    trace = read(tmp_path, buffers, [event(1, 1, 10, 10)])

    assert noted(trace) == {"untimed_buffer": 1, "bad_buffer": 2}


def test_usage_is_taken_from_its_name_where_the_number_is_missing(tmp_path) -> None:
    buffers = [listed(1, 10, usage=None, usage_name="WEIGHTS")]

    trace = read(tmp_path, buffers, [event(1, 1, 10, 10)])

    assert trace.buffers.usage.tolist() == [1]


def test_empty_timeline_is_an_empty_trace(tmp_path) -> None:
    trace = read(tmp_path, [], [], {"total_events": 0, "peak_occupancy_bytes": 0})

    assert len(trace.buffers) == 0
    assert codes(trace) == {}


def test_cut_file_keeps_the_events_before_the_cut(tmp_path) -> None:
    timeline = [event(i, i, 10, 10 * i) for i in range(1, 9)]
    root = {"buffers": [listed(i, 10) for i in range(1, 9)], "timeline": timeline}
    text = json.dumps(root)

    trace = read_text(READER, tmp_path, text[: text.index('"buffer_id": 6')], "x.json")

    assert codes(trace)["truncated_json"] == 1
    assert len(trace.buffers) == 8
    assert codes(trace)["not_in_timeline"] == 3


@pytest.mark.parametrize(
    ("buffers", "timeline"), [({}, None), (1, "x")]
)  # fmt: skip
def test_lists_of_another_kind_are_an_error(tmp_path, buffers, timeline) -> None:
    with pytest.raises(CorruptError, match="no buffers"):
        read(tmp_path, buffers, timeline)


def test_broken_json_is_an_error(tmp_path) -> None:
    with pytest.raises(ReadError, match="line 1"):
        read_text(READER, tmp_path, '{"buffers": [,]}', "x.json")


@pytest.mark.parametrize(
    ("text", "expected"),
    [('{"metadata": {}, "buffers": [], "timeline": []}', 90),
     ('{"buffers": [{"id": 1, "usage": 2, "alloc_time_ms": 3', 90),
     ('{"buffers": [{"id": 1}]', 0), ('{"nodes": [], "edges": []}', 0), ("[]", 0)],
)  # fmt: skip
def test_sniff_looks_at_the_keys(text: str, expected: int) -> None:
    assert confidence(READER, text) == expected
