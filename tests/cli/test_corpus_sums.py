"""Totals of every event stream and NPU trace of the corpus, added up once more.

The files are taken apart by `struct` and `json`; nothing is shared with the program.
"""

import json
import struct
from collections import Counter
from pathlib import Path

import pytest

from ggmlviz_files import UNIONS, WITH_BACKEND
from support import corpus_path, need_corpus

BY = ("op", "lane", "thread", "layer", "token")


def entries(*formats: str) -> list[dict]:
    folder = corpus_path()
    if folder is None:
        return []
    index = json.loads((folder / "INDEX.json").read_text("utf-8"))
    return [e for e in index if e["format"] in formats and is_whole(e["expect"])]


def is_whole(expect: dict) -> bool:
    return not (expect.get("error") or expect.get("verdict") in ("error", "warn"))


def json_of(run, *text: object) -> dict:
    result = run(*text, "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)


def events_of(data: bytes, layout: str) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return (kind, time, fields of the union) of each whole event of a stream."""
    union, graph, op, memory = UNIONS[layout]
    events, at = [], 12
    while at + 13 < len(data):
        kind, time, _ = struct.unpack_from("<BQI", data, at)
        form = graph if kind < 2 else op if kind < 4 else memory if kind < 8 else "<"
        end = at + 13 + (struct.calcsize(form) if union is None else union)
        if end >= len(data) or data[at:].strip(b"\0") == b"":
            break
        stop = end + 1
        if data[end]:
            if stop + 4 > len(data):
                break
            stop += 4 + int.from_bytes(data[stop : stop + 4], "little")
        if stop > len(data):
            break
        events.append((kind, time, struct.unpack_from(form, data, at + 13)))
        at = stop
    return events


STREAMS = [e for e in entries("ggmlviz") if "layout" in e["expect"]]


@pytest.mark.parametrize("entry", STREAMS, ids=lambda entry: entry["path"])
def test_event_streams_add_up(run, entry) -> None:
    path, layout = need_corpus() / entry["path"], entry["expect"]["layout"]
    events = events_of(path.read_bytes(), layout)
    begun = Counter(fields[1] for kind, _, fields in events if kind == 2)
    memory = [(kind, fields) for kind, _, fields in events if 4 <= kind < 8]

    info = json_of(run, "info", path)
    tables = {
        by: json_of(run, "stats", "--by", by, "--limit", 10_000, path)["rows"]
        for by in BY
    }

    assert layout in WITH_BACKEND or "old" in layout
    assert len(events) == entry["expect"]["events"]
    assert sum(info["ops"].values()) == sum(begun.values())
    assert sorted(info["ops"].values()) == sorted(begun.values())
    assert info["counts"]["accesses"] == 0
    assert all(row["bytes"] is None for rows in tables.values() for row in rows)
    for by in ("op", "thread", "layer", "token"):
        assert sum(row["ops"] for row in tables[by]) == sum(begun.values())
        assert sum(row["count"] for row in tables[by]) == sum(begun.values())
    if by_op := {row["key"]: row["count"] for row in tables["op"]}:
        assert by_op == info["ops"]
    n_graphs = sum(kind == 0 for kind, *_ in events)
    is_lane = [row["count"] for row in tables["lane"]]
    assert sum(is_lane) == n_graphs + sum(begun.values())
    # Tensors and buffers of backends are counted apart.
    for first, name in ((4, "Tensor memory"), (6, "Backend buffers")):
        values = [v for k, v in (info["memory"] or {}).items() if k == name]
        peaks = [one["peak_bytes"] for one in values]
        assert peaks in ([], [peak_of(memory, first)]), name
    named = set(info["memory"] or {})
    assert bool(named) == bool(memory)


def peak_of(memory: list[tuple[int, tuple[int, ...]]], first: int) -> int:
    """Return the most bytes at once of allocations (`first`) and frees behind them."""
    held: dict[int, int] = {}
    peak = 0
    for kind, (pointer, size) in memory:
        if kind == first:
            held[pointer] = size
        elif kind == first + 1:
            held.pop(pointer, None)
        peak = max(peak, sum(held.values()))
    return peak


def npu_entries() -> list[dict]:
    """Return the NPU files that can be read, those that break a rule too."""
    whole = {e["path"]: e for e in entries("npu-json", "npu-jsonl")}
    folder = corpus_path()
    if folder is not None:
        for entry in json.loads((folder / "INDEX.json").read_text()):
            is_npu = entry["format"] in ("npu-json", "npu-jsonl")
            if is_npu and entry["expect"].get("verdict") == "warn":
                whole[entry["path"]] = entry
    return list(whole.values())


def sound_events(path: Path) -> list[dict]:
    """Return the events that count: what no rule lets be shown is left out.

    By the rules of the format: an element that is no object, an event without a type,
    one whose times are missing or no numbers, and an access of no known direction.
    Negative cycles are stated as a breach, and count as they stand.
    """
    text = path.read_text("utf-8")
    if path.suffix == ".jsonl":
        events = [json.loads(line) for line in text.splitlines() if line.strip()]
    else:
        events = json.loads(text)["timeline_events"]
    times = {
        "ENGINE_EVENT": ("start_cycle", "end_cycle"),
        "STALL_EVENT": ("start_cycle", "end_cycle"),
        "MEM_ACCESS_EVENT": ("cycle",),
    }

    def is_sound(event: object) -> bool:
        if not isinstance(event, dict) or "type" not in event:
            return False
        is_access = event["type"] == "MEM_ACCESS_EVENT"
        if is_access and event["direction"] not in ("read", "write"):
            return False
        keys = times.get(event["type"], ())
        return all(isinstance(event.get(key), int) for key in keys)

    return list(filter(is_sound, events))


NPU = npu_entries()


@pytest.mark.parametrize("entry", NPU, ids=lambda entry: entry["path"])
def test_npu_traces_add_up(run, entry) -> None:
    path = need_corpus() / entry["path"]
    events = sound_events(path)
    engines = [e for e in events if e["type"] == "ENGINE_EVENT"]
    by_engine, by_op, counts = Counter(), Counter(), Counter()
    for event in engines:
        ticks = event["end_cycle"] - event["start_cycle"]
        by_engine[f"{event['engine']} {event['engine_id']}"] += ticks
        by_op[event["op"]] += ticks
        counts[event["op"]] += 1
    reads = [e for e in events if e["type"] == "MEM_ACCESS_EVENT"]

    info = json_of(run, "info", path)
    op, engine, lane, layer, token = (
        json_of(run, "stats", "--by", by, "--limit", 10_000, path)["rows"]
        for by in ("op", "engine", "lane", "layer", "token")
    )

    assert {r["key"]: r["total_cycles"] for r in op} == dict(by_op)
    assert {r["key"]: r["count"] for r in op} == dict(counts)
    assert info["ops"] == dict(counts)
    values = {r["key"]: r["total_cycles"] for r in engine if r["count"]}
    assert values == dict(by_engine)
    assert {r["key"] for r in engine} <= {r["key"] for r in lane}
    for rows in (layer, token):
        assert sum(r["total_cycles"] or 0 for r in rows) == sum(by_op.values())
        assert sum(r["count"] for r in rows) == len(engines)
    assert info["counts"]["accesses"] == len(reads)
    booked = sum(r["bytes"] or 0 for r in op)
    assert booked <= sum(e["bytes"] for e in reads)


def buffer_events(path: Path) -> list[tuple[float, bool, int, int]]:
    """Return (ms, whether it is an allocation, id, bytes) of the events of a file."""
    if path.suffix == ".bin":
        rows = struct.iter_unpack("<QBBHQQQ92x", path.read_bytes())
        return [(t / 1e6, kind == 0, i, n) for t, kind, _, _, i, _, n in rows]
    if path.suffix == ".jsonl":
        events = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        return [
            (e["timestamp_ms"], e["event"] == "alloc", e["buffer_id"], e["size"])
            for e in events
        ]
    items = []
    for one in json.loads(path.read_text("utf-8"))["buffers"]:
        items.append((one["alloc_time_ms"], True, one["id"], one["size"]))
        if one["dealloc_time_ms"] is not None:
            items.append((one["dealloc_time_ms"], False, one["id"], one["size"]))
    return sorted(items)


BUFFERS = entries("buffer-timeline-json", "buffer-stats-jsonl", "buffer-event-bin")


@pytest.mark.parametrize("entry", BUFFERS, ids=lambda entry: entry["path"])
def test_buffers_add_up(run, entry) -> None:
    path = need_corpus() / entry["path"]
    events = buffer_events(path)
    held: dict[int, int] = {}
    peak, peak_at, alive = 0, 0.0, 0
    for time, is_alloc, number, size in events:
        if is_alloc:
            held[number] = size
        else:
            del held[number]
        if sum(held.values()) > peak:
            peak, peak_at, alive = sum(held.values()), time, len(held)

    result = json_of(run, "info", path)["buffers"]

    assert (result["peak_bytes"], result["alive_at_peak"]) == (peak, alive)
    # Times of JSON are milliseconds as floats: microseconds are left of them.
    assert result["peak_at"] == pytest.approx(1e6 * (peak_at - events[0][0]), abs=1000)
    assert result["bytes"] == sum(size for _, is_alloc, _, size in events if is_alloc)
    assert result["never_freed"] == len(held)
