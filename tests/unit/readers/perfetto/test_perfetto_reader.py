"""Perfetto traces against the spans that they were made of."""

import gzip
import itertools
import json
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfetto_files as files
from ggscope.analysis.summary.devices import device_times
from ggscope.cli import main
from ggscope.errors import Cancelled, ReadError
from ggscope.model.tables import Quality, SpanFlag, quality_of
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.api import Head, ReadContext
from ggscope.readers.common.packed_text import text_of
from ggscope.readers.perfetto.packets import PacketScan
from ggscope.readers.perfetto.reader import PerfettoReader
from ggscope.readers.registry import open_trace
from ggscope.readers.source import Source
from ggscope.render.figures import has_npu
from perfetto_files import (
    BEGIN,
    COUNTER,
    END,
    INSTANT,
    LOCAL_CLOCK,
    MONOTONIC,
    STATE,
    Sequence,
    Span,
    fixed,
    note,
    num,
    packet,
    sub,
    track,
)


def opened(path: Path, data: bytes, **options: Any) -> Trace:
    path.write_bytes(data)
    trace = open_trace(path, **options)
    assert trace.check() == []
    assert trace.info.reader_id == "perfetto"
    return trace


def codes(trace: Trace) -> dict[str, int]:
    return {w.code: w.count for w in trace.warnings}


def thread_spans(trace: Trace) -> Counter[Span]:
    """Return the spans on threads as they were made."""
    s, origin = trace.spans, trace.clock.origin
    is_open = quality_of(s.flags) == Quality.UNFINISHED
    items = []
    for i in range(len(s)):
        lane = trace.lanes[int(s.lane[i])]
        if "tid" in lane.attributes:
            category = "" if s.category is None else trace.strings[int(s.category[i])]
            items.append(
                Span(
                    int(lane.attributes["pid"]), int(lane.attributes["tid"]),
                    trace.strings[int(s.name[i])], category,
                    int(s.start[i]) + origin,
                    -1 if is_open[i] else int(s.end[i]) + origin,
                )
            )  # fmt: skip
    return Counter(items)


def spans_by_lane(trace: Trace) -> dict[str, list[tuple[str, int, int]]]:
    s, origin = trace.spans, trace.clock.origin
    spans: dict[str, list[tuple[str, int, int]]] = {}
    for i in range(len(s)):
        one = trace.strings[int(s.name[i])], int(s.start[i]), int(s.end[i])
        row = one[0], one[1] + origin, one[2] + origin
        spans.setdefault(trace.lanes.names[int(s.lane[i])], []).append(row)
    return spans


@pytest.mark.parametrize("clock", [0, LOCAL_CLOCK, MONOTONIC])
@pytest.mark.parametrize("has_gaps", [False, True])
def test_spans_keep_their_nanoseconds(clock, has_gaps, tmp_path):
    data, made = files.random_trace(clock, 400, clock=clock, has_gaps=has_gaps)

    trace = opened(tmp_path / "x.txt", data)

    assert thread_spans(trace) == Counter(made)
    n_open = sum(span.end < 0 for span in made)
    assert codes(trace) == ({"begin_without_end": n_open} if n_open else {})
    assert trace.clock.epoch is not None
    assert trace.info.producer == {"clock": "BOOTTIME"}


def test_lanes_have_the_names_and_order_of_threads(tmp_path):
    trace = opened(tmp_path / "x.txt", files.random_trace(1, 100)[0])

    assert [lane.attributes["tid"] for lane in trace.lanes] == ["1", "2", "1", "2"]
    assert [lane.group for lane in trace.lanes][::2] == [("worker 7",), ("worker 8",)]
    assert {lane.kind for lane in trace.lanes} == {LaneKind.THREAD}
    assert len(set(trace.lanes.names)) == 4


def test_counts_of_packets_by_kind_are_events(tmp_path, capsys):
    path = tmp_path / "x.txt"
    path.write_bytes(files.others() + packet(num(10, 5), sub(1, b"\x08\x01")))

    main(["info", str(path), "--json"])

    events = json.loads(capsys.readouterr().out)["events"]
    assert events == {
        "track_event": 17, "track_descriptor": 7, "ftrace_events": 1,
        "trace_packet_defaults": 1,
    }  # fmt: skip


def test_counters_flows_activities_and_old_events(tmp_path):
    trace = opened(tmp_path / "x.txt", files.others())

    origin = trace.clock.origin
    assert spans_by_lane(trace) == {
        "main": [("launch", 1000, 1100), ("whole", 1700, 3700)],
        "queue": [("kernel", 1150, 1400)],
        "requests": [("request", 1200, 1500), ("request", 1300, 1600)],
        "step": [("step", 1800, 1900)],
    }
    memory, steps = trace.counters
    assert (memory.name, memory.unit) == ("memory", "B")
    assert memory.value.tolist() == [5 * 1024, 2.5 * 1024, 7 * 1024]
    assert (memory.time + origin).tolist() == [1010, 1600, 1650]
    assert (steps.unit, steps.value.tolist()) == ("steps", [2, 5])
    names = [trace.strings[i] for i in trace.spans.name]
    assert [names[i] for i in trace.flows.source] == ["launch"]
    assert [names[i] for i in trace.flows.target] == ["kernel"]
    assert [trace.strings[i] for i in trace.markers.name] == ["mark", "sampled"]
    kinds = dict(zip(trace.lanes.names, trace.lanes.kinds, strict=True))
    assert kinds["queue"] == LaneKind.ENGINE
    assert kinds["requests"] == LaneKind.COMMAND
    assert codes(trace) == {}


def test_arguments_are_read_when_looked_at(tmp_path):
    one = Sequence(1)
    names = b"".join(files.interned(3, i, word) for i, word in enumerate("abc", 1))
    texts = sub(29, num(1, 9) + sub(2, "told before"))
    nested = sub(4, num(1, 1) + sub(11, num(1, 2) + num(4, -7)))
    more = (
        nested + sub(4, num(1, 3) + num(17, 9)) + note("half", 0.5) + note("on", True)
    )
    data = (
        one.start()
        + one.packet(sub(12, names + texts))
        + one.event(BEGIN, 5, 3, "x", more=more)
        + one.start()
        + one.packet(sub(12, files.interned(3, 1, "other")))
        + one.event(END, 9, 3)
    )
    for form in (data, files.packed(data), files.bundled(data)):
        trace = opened(tmp_path / "x.txt", form)
        assert trace.records is not None

        view = trace.records.view(int(trace.spans.record[0]))

        fields = {name: value for name, value, *_ in view.fields}
        assert fields["args · a · b"] == "-7"
        assert fields["args · c"] == "told before"
        assert fields["args · half"] == "0.5"
        assert fields["args · on"] == "true"
        assert fields["type"] == "begin"
        with pytest.raises(ReadError):
            trace.records.view(10**9)


@pytest.mark.parametrize("wrap", [files.packed, files.bundled])
def test_packed_traces_are_as_plain_ones(wrap, tmp_path):
    data, made = files.random_trace(5, 300)

    trace = opened(tmp_path / "x.txt", wrap(data))

    assert thread_spans(trace) == Counter(made)


def test_bundles_may_lie_between_packets(tmp_path):
    data, made = files.random_trace(6, 300)
    packets = files.split(data)
    parts = [b"".join(packets[i : i + 7]) for i in range(0, len(packets), 7)]

    mixed = b"".join(
        files.bundled(part) if i % 2 else part for i, part in enumerate(parts)
    )
    trace = opened(tmp_path / "x.txt", mixed)

    assert thread_spans(trace) == Counter(made)
    assert trace.records is not None
    for record in trace.spans.record.tolist():
        fields = dict(f[:2] for f in trace.records.view(record).fields)
        assert fields["type"] == "begin"


def test_packets_in_small_blocks_are_the_same(tmp_path):
    path = tmp_path / "x.txt"
    data, _ = files.random_trace(7, 300, clock=LOCAL_CLOCK)
    path.write_bytes(data)

    with Source(path) as source:
        whole = PacketScan(text_of(source), ReadContext(), source.size).run()
        for size in (1, 7, 100, 4099):
            scan = PacketScan(
                text_of(source), ReadContext(), source.size, first_bytes=size
            )
            some = scan.run()
            assert some.time.tolist() == whole.time.tolist()
            assert [some.texts[i] for i in some.name] == [
                whole.texts[i] for i in whole.name
            ]


def test_sequences_texts_and_tracks_beyond_the_first_room(tmp_path):
    n = 3000
    parts = []
    for i in range(n):
        one = Sequence(i + 1)
        parts.append(one.packet(files.thread(10**12 + i, 7, i + 1, f"t{i}")))
        parts.append(one.event(BEGIN, 10 * i, 10**12 + i, f"name {i}"))
        parts.append(one.event(END, 10 * i + 5, 10**12 + i))

    trace = opened(tmp_path / "x.txt", b"".join(parts))

    assert thread_spans(trace) == Counter(
        Span(7, i + 1, f"name {i}", "", 10 * i, 10 * i + 5) for i in range(n)
    )
    assert trace.lanes.names[:2] == ("t0", "t1")


def test_many_texts_in_one_packet_make_room(tmp_path):
    n = 90_000
    one = Sequence(1)
    told_at_once = b"".join(files.interned(2, i + 1, f"name {i}") for i in range(n))
    data = one.packet(sub(12, told_at_once))
    data += b"".join(
        one.packet(sub(11, num(9, INSTANT) + num(11, 4) + num(10, i)), i)
        for i in (1, n // 2, n)
    )

    trace = opened(tmp_path / "x.txt", data)

    names = [trace.strings[i] for i in trace.markers.name]
    assert names == ["name 0", f"name {n // 2 - 1}", f"name {n - 1}"]
    assert codes(trace) == {}


# -- sequences and what is lost ------------------------------------------------------


def test_events_before_the_state_of_their_sequence_are_left_out(tmp_path):
    one = Sequence(1, is_begun=True)
    data = one.event(BEGIN, 1, 9, "lost") + one.event(END, 2, 9)
    data += one.start() + one.event(BEGIN, 3, 9, "there") + one.event(END, 4, 9)

    trace = opened(tmp_path / "x.txt", data)

    assert spans_by_lane(trace) == {"there": [("there", 3, 4)]}
    assert codes(trace) == {"packets_without_state": 2}


def test_lost_packets_end_what_a_sequence_knows(tmp_path):
    one = Sequence(1)
    data = one.start() + one.event(BEGIN, 1, 9, "a") + one.event(END, 2, 9)
    data += one.packet(b"", more=num(42, 1)) + one.event(BEGIN, 3, 9, "a")
    data += one.start() + one.event(BEGIN, 5, 9, "b") + one.event(END, 6, 9)

    trace = opened(tmp_path / "x.txt", data)

    assert [one[0] for one in spans_by_lane(trace)["a"]] == ["a", "b"]
    assert codes(trace) == {"packets_without_state": 1, "lost_packets": 1}


def test_texts_are_those_of_their_sequence_and_time(tmp_path):
    parts = []
    for number in (1, 2):
        one = Sequence(number)
        parts.append(one.start() + one.packet(sub(12, files.interned(2, 1, "old"))))
        parts.append(one.packet(sub(11, num(9, INSTANT) + num(10, 1)), number))
        parts.append(one.start() + one.packet(sub(12, files.interned(2, 1, "new"))))
        parts.append(one.packet(sub(11, num(9, INSTANT) + num(10, 1)), 10 + number))
    one = Sequence(3)
    parts.append(one.packet(sub(11, num(9, INSTANT) + num(10, 77)), 20))

    trace = opened(tmp_path / "x.txt", b"".join(parts))

    names = [trace.strings[i] if i >= 0 else "" for i in trace.markers.name]
    assert names == ["old", "old", "new", "new", ""]
    assert codes(trace) == {"unknown_name": 1}


def test_times_of_a_clock_without_a_snapshot_are_left_out(tmp_path):
    one = Sequence(1)
    at = packet(files.clocks((files.BOOTTIME, 5000), primary=files.BOOTTIME))
    data = at + one.start() + one.event(INSTANT, 6000, 9, "here")
    data += one.packet(
        sub(11, num(9, INSTANT) + num(11, 9)), 99, more=num(58, MONOTONIC)
    )

    trace = opened(tmp_path / "x.txt", data)

    assert codes(trace) == {"unknown_clock": 1}
    assert "MONOTONIC" in trace.warnings[0].message
    assert len(trace.markers) == 1


def test_only_clock_of_a_trace_needs_no_snapshot(tmp_path):
    one = Sequence(1, MONOTONIC)
    data = one.start() + one.event(BEGIN, 6000, 9, "a") + one.event(END, 6100, 9)

    trace = opened(tmp_path / "x.txt", data)

    assert spans_by_lane(trace) == {"a": [("a", 6000, 6100)]}
    assert codes(trace) == {}
    assert trace.info.producer == {"clock": "MONOTONIC"}


def test_clocks_are_converted_by_way_of_others(tmp_path):
    own, third = 5, 130
    data = packet(files.clocks((files.BOOTTIME, 1000), (own, 500)))
    data += packet(files.clocks((own, 600), (third, 77)))
    one = Sequence(1, third)
    data += one.start() + one.event(BEGIN, 80, 9, "a") + one.event(END, 90, 9)

    trace = opened(tmp_path / "x.txt", data)

    assert spans_by_lane(trace) == {"a": [("a", 1103, 1113)]}


def test_units_of_clocks_multiply(tmp_path):
    entries = sub(1, num(1, files.BOOTTIME) + num(2, 5_000_000))
    micros = sub(1, num(1, 65) + num(2, 2000) + num(3, 1) + num(4, 1000))
    one = Sequence(1)
    data = packet(sub(6, entries + micros), num(10, 1))
    for kind, delta in ((BEGIN, 1), (END, 3)):
        event = sub(11, num(9, kind) + num(11, 9) + sub(23, "a"))
        data += one.packet(event, delta, more=num(58, 65))

    trace = opened(tmp_path / "x.txt", data)

    assert spans_by_lane(trace) == {"a": [("a", 5_001_000, 5_004_000)]}


def test_old_times_are_differences_of_a_thread(tmp_path):
    one = Sequence(1)
    about = num(1, 7) + num(2, 8) + sub(5, "old") + num(6, 40)
    data = one.start() + one.packet(sub(44, about))

    def event(phase: str, more: bytes) -> bytes:
        legacy = sub(6, num(2, ord(phase)))
        return one.packet(sub(11, more + sub(23, "a") + legacy))

    data += event("B", num(1, 2)) + event("E", num(1, 3)) + event("I", num(16, 50))

    trace = opened(tmp_path / "x.txt", data)

    assert thread_spans(trace) == {Span(7, 8, "a", "", 42_000, 45_000): 1}
    assert (trace.markers.time + trace.clock.origin).tolist() == [50_000]
    assert trace.lanes.names == ("old",)


# -- tracks --------------------------------------------------------------------------


def test_threads_of_one_number_are_one_lane(tmp_path):
    one = Sequence(1)
    data = one.start() + one.packet(files.thread(5, 7, 9, "t"))
    data += one.packet(files.thread(6, 7, 9, ""))
    data += one.event(BEGIN, 1, 5, "a") + one.event(BEGIN, 2, 6, "b")
    data += one.event(END, 3, 5) + one.event(END, 4, 6)

    trace = opened(tmp_path / "x.txt", data)

    assert spans_by_lane(trace) == {"t": [("a", 1, 4), ("b", 2, 3)]}


def test_parents_that_go_in_circles_end(tmp_path):
    one = Sequence(1)
    data = one.start() + one.packet(files.track(5, "a", 6))
    data += one.packet(files.track(6, "b", 7)) + one.packet(files.track(7, "c", 5))
    data += one.packet(files.track(8, "d", 8))
    for uuid in (5, 6, 7, 8):
        data += one.event(BEGIN, 1, uuid, "x") + one.event(END, 2, uuid)

    trace = opened(tmp_path / "x.txt", data)

    assert sorted(trace.lanes.names) == ["a", "b", "c", "d"]


def test_tracks_follow_the_order_that_their_parent_asks_for(tmp_path):
    one = Sequence(1)
    data = one.start()
    orders = {3: "bca", 1: "abc", 2: "cab"}
    for ordering, names in orders.items():
        parent = 100 * ordering
        data += one.packet(files.track(parent, f"p{ordering}", 0, num(11, ordering)))
        for name in "cab":
            rank = names.index(name) + 1
            uuid = parent + ord(name)
            data += one.packet(files.track(uuid, name, parent, num(12, rank)))
            data += one.event(INSTANT, 1, uuid, "x")

    trace = opened(tmp_path / "x.txt", data)

    for ordering, names in orders.items():
        lanes = [lane for lane in trace.lanes if lane.group == (f"p{ordering}",)]
        lanes.sort(key=lambda lane: lane.sort_key)
        assert "".join(lane.name for lane in lanes) == names


def test_tracks_of_one_name_share_a_lane_unless_they_stay_apart(tmp_path):
    one = Sequence(1)
    data = one.start()
    for uuid, more in ((5, b""), (6, b""), (7, num(15, 2)), (8, sub(16, "k")),
                       (9, sub(16, "k"))):  # fmt: skip
        data += one.packet(files.track(uuid, "q", 0, more))
        data += one.event(BEGIN, uuid, uuid, "x") + one.event(END, 50, uuid)

    trace = opened(tmp_path / "x.txt", data)

    counts = Counter(trace.spans.lane.tolist())
    assert sorted(counts.values()) == [1, 2, 2]


def test_tracks_beyond_the_lanes_share_one(tmp_path, monkeypatch):
    monkeypatch.setattr("ggscope.readers.perfetto.trace._MAX_LANES", 3)
    one = Sequence(1)
    data = one.start()
    for uuid in range(5, 10):
        data += one.event(BEGIN, uuid, uuid, f"n{uuid}") + one.event(END, 50, uuid)

    trace = opened(tmp_path / "x.txt", data)

    assert len(trace.lanes) == 4
    assert len(trace.spans) == 5
    assert codes(trace) == {"tracks_joined": 2}


def test_counters_beyond_the_room_for_them_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("ggscope.readers.perfetto.trace._MAX_SERIES", 2)
    one = Sequence(1)
    data = one.start()
    for uuid in range(5, 8):
        data += one.packet(files.counter(uuid, f"c{uuid}"))
        data += one.event(COUNTER, uuid, uuid, more=num(30, 1))

    trace = opened(tmp_path / "x.txt", data)

    assert [series.name for series in trace.counters] == ["c5", "c6"]
    assert codes(trace) == {"too_many_counters": 1}


def test_names_beyond_the_room_for_ops_keep_their_names(tmp_path, monkeypatch):
    monkeypatch.setattr("ggscope.readers.common.op_names.MAX_OPS", 2)
    one = Sequence(1)
    data = one.start()
    for i in range(4):
        data += one.event(BEGIN, i, 5, f"n{i}") + one.event(END, i, 5)

    trace = opened(tmp_path / "x.txt", data)

    assert codes(trace) == {"too_many_ops": 2}
    assert [trace.strings[i] for i in trace.spans.name] == ["n0", "n1", "n2", "n3"]


def test_kernels_list_of_processes_names_what_has_no_name(tmp_path):
    one = Sequence(1)
    tree = sub(1, num(1, 7) + num(2, 1) + sub(3, "python") + sub(3, "-m"))
    tree += sub(2, num(1, 8) + sub(2, "kworker") + num(3, 7))
    data = one.start() + one.packet(sub(2, tree)) + one.packet(files.thread(5, 7, 8))
    data += one.event(BEGIN, 1, 5, "a") + one.event(END, 2, 5)

    trace = opened(tmp_path / "x.txt", data)

    assert [(lane.name, lane.group) for lane in trace.lanes] == [
        ("kworker", ("python",))
    ]


# -- damage --------------------------------------------------------------------------


def test_file_cut_anywhere_keeps_what_is_whole(tmp_path):
    data, _ = files.random_trace(3, 60)
    data += files.others()
    ends = set(np.cumsum([len(p) for p in files.split(data)]).tolist())
    whole = opened(tmp_path / "x.txt", data)
    for cut in range(60, len(data), 37):
        trace = opened(tmp_path / "x.txt", data[:cut])
        assert len(trace.spans) <= len(whole.spans)
        assert ("cut_packet" in codes(trace)) == (cut not in ends)


def test_damage_costs_the_packet_that_it_is_in(tmp_path):
    data, _ = files.random_trace(4, 200)
    packets = files.split(data)
    whole = opened(tmp_path / "x.txt", data)
    for at in (20, 60, 100):
        for wrong in (
            b"\xff" * 40,
            b"\x0b\x0c",
            b"\n\xff\xff\xff\xff\x0f",
            b"\n\x05\x12",
        ):
            broken = b"".join([*packets[:at], wrong, *packets[at:]])
            trace = opened(tmp_path / "x.txt", broken)
            assert len(trace.spans) == len(whole.spans), wrong
            assert codes(trace).get("broken_packet", 0) >= 1


def test_bundles_that_cannot_be_unpacked_are_reported(tmp_path):
    one = Sequence(1)
    good = one.start() + one.event(INSTANT, 5, 9, "x")
    damaged = zlib.compress(good)[:-6]
    nested = files.bundled(good)
    bomb = zlib.compress(b"\0" * (40 << 20))
    bad = files.bundled(damaged, is_raw=True) + files.bundled(bomb, is_raw=True)

    trace = opened(tmp_path / "x.txt", good + bad + files.bundled(nested))

    assert codes(trace) == {"broken_bundle": 3}
    assert len(trace.markers) == 1


def test_packets_by_zstd_are_reported_where_nothing_unpacks_them(tmp_path, monkeypatch):
    for module in ("packets", "bundles"):
        monkeypatch.setattr(
            f"ggscope.readers.perfetto.{module}.zstd_reader", lambda: None
        )
    one = Sequence(1)
    good = one.start() + one.event(INSTANT, 5, 9, "x")

    trace = opened(tmp_path / "x.txt", good + packet(sub(133, b"\x28\xb5\x2f\xfdx")))

    assert codes(trace) == {"packets_packed_by_zstd": 1}


def test_events_without_time_type_or_id_are_reported(tmp_path):
    one = Sequence(1)
    data = one.start() + one.event(INSTANT, 5, 9, "x")
    data += one.packet(sub(11, num(9, INSTANT) + num(11, 9)))  # no time
    data += one.packet(sub(11, num(11, 9)), 6)  # neither type nor phase
    data += files.old_event(one, "b", 7, "x")  # no id
    data += one.packet(sub(11, num(9, INSTANT) + num(1, 5)), 8)  # no reference

    trace = opened(tmp_path / "x.txt", data)

    assert codes(trace) == {"broken_event": 4}
    assert len(trace.markers) == 1


def test_events_of_kinds_that_are_not_shown_are_reported(tmp_path):
    one = Sequence(1)
    data = one.start()
    for phase in "CNDOMPZ":
        data += files.old_event(one, phase, 6, "x")
    data += one.packet(sub(66, b"\x08\x01"), 9)

    trace = opened(tmp_path / "x.txt", data)

    assert codes(trace) == {
        "events_left_out": 7, "packets_left_out": 1, "no_track_events": 1,
    }  # fmt: skip
    message = next(w for w in trace.warnings if w.code == "packets_left_out").message
    assert "perf_sample (1)" in message


def test_flows_of_old_form_lead_from_slice_to_slice(tmp_path):
    trace = opened(tmp_path / "x.txt", files.old_flows(n=2))

    names = [trace.strings[i] for i in trace.spans.name]
    starts = trace.spans.start
    order = np.argsort(starts)
    # The slices of each flow follow one another.
    expected = [
        (starts[a], starts[b])
        for a, b in itertools.pairwise(order)
        if names[a] == names[b]
    ]
    flows = trace.flows
    assert len(expected) >= 2
    assert (
        sorted(zip(starts[flows.source], starts[flows.target], strict=True)) == expected
    )
    assert len(trace.markers) == 0


def test_states_last_until_the_next_one_of_their_track(tmp_path):
    one = Sequence(1)
    data = one.start(time=1000) + one.packet(track(9, "player", 0, sub(18, b"")))
    data += one.event(STATE, 1000, 9, "buffering") + one.event(
        STATE, 1200, 9, "playing"
    )
    data += one.event(STATE, 1500, 9) + one.event(STATE, 1800, 9, "paused")
    data += one.event(INSTANT, 2000, 8, "x")

    trace = opened(tmp_path / "x.txt", data)

    assert spans_by_lane(trace)["player"] == [
        ("buffering", 1000, 1200), ("playing", 1200, 1500), ("paused", 1800, 2000),
    ]  # fmt: skip
    is_open = (trace.spans.flags & SpanFlag.UNFINISHED) != 0
    assert is_open.tolist() == [False, False, True]


def test_states_of_a_track_make_no_thread_busy(tmp_path):
    one = Sequence(1)
    data = one.start(time=1000) + one.packet(files.thread(8, 7, 1, "main"))
    data += one.packet(track(9, "power state", 7))
    data += one.event(BEGIN, 1000, 8, "work") + one.event(STATE, 1000, 9, "sleep")
    data += one.event(END, 1200, 8) + one.event(STATE, 2000, 9, "awake")

    trace = opened(tmp_path / "x.txt", data)

    kinds = {lane.name: lane.kind for lane in trace.lanes}
    assert kinds == {"main": LaneKind.THREAD, "power state": LaneKind.COMMAND}


def test_values_of_no_counter_are_reported(tmp_path):
    one = Sequence(1)
    data = one.start() + one.event(COUNTER, 5, 0, more=num(30, 4))
    data += one.event(COUNTER, 6, 9) + one.event(INSTANT, 7, 9, "x", more=num(12, 4))

    trace = opened(tmp_path / "x.txt", data)

    assert codes(trace)["value_without_counter"] == 3
    assert len(trace.counters) == 0


def test_ends_without_begin_and_wrong_nesting_are_reported(tmp_path):
    one = Sequence(1)
    data = one.start() + one.event(END, 5, 9)
    data += files.old_event(one, "X", 10, "a", duration=5)
    data += files.old_event(one, "X", 3000, "b", duration=9)
    data += files.old_event(one, "B", 50_000, "c")
    data += files.old_event(one, "E", 60_000, "d")
    data += one.event(INSTANT, 70_000, 9, "x", more=fixed(47, 8))

    trace = opened(tmp_path / "x.txt", data)

    assert codes(trace) == {
        "end_without_begin": 1, "bad_nesting": 1, "mismatched_end": 1, "loose_flow": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        b"\n", b"\n\n", b"\n\x00", b"\n" * 4000, b"\n\xff\xff\xff\xff\x0f" * 9,
        b"\n\x90\x01\x12\t/host:CPU" + bytes(200), b"\n{\"a\": 1}\n",
        sub(1, num(1, 1) + sub(2, "plane") + sub(3, b"\x08\x01")) * 3,
        sub(1, num(1, 1) + num(2, 2)) * 8 + sub(2, num(1, 1)),
    ],
)  # fmt: skip
def test_other_files_that_begin_alike_are_not_taken(data):
    head = Head("x.pb", len(data), data)

    assert PerfettoReader().sniff(head).confidence == 0


def test_huge_lengths_and_deep_messages_end_soon(tmp_path):
    one = Sequence(1)
    good = one.start() + one.event(INSTANT, 5, 9, "x")
    deep = b""
    for _ in range(5000):
        deep = sub(11, deep)
    event = one.event(INSTANT, 6, 9, "y", more=sub(4, num(1, 1) + deep))
    huge = b"\n" + files.varint(4 << 30) + b"\x08"
    for more in (huge, b"\n" + files.varint((1 << 64) - 1), event):
        trace = opened(tmp_path / "x.txt", good + more)
        assert len(trace.markers) >= 1
        assert trace.records is not None
        for record in trace.markers.record.tolist():
            trace.records.view(record)


def test_gzip_bombs_and_cut_gzip_are_reported(tmp_path):
    data = files.packed(files.random_trace(1, 4000)[0])

    trace = opened(tmp_path / "x.txt", data[: len(data) // 2])

    assert "packed_cut" in codes(trace)
    bomb = gzip.compress(files.others() + b"\n\0" * (80 << 20), 9)
    assert "packed_cut" in codes(opened(tmp_path / "y.txt", bomb))


def test_file_without_a_packet_is_refused_in_words(tmp_path):
    path = tmp_path / "x.pftrace"
    path.write_bytes(b"\n\x7f\x50\x01" + b"\x08\x01" * 9)

    with pytest.raises(ReadError, match="whole packet"):
        open_trace(path, reader_id="perfetto")


def test_reading_can_be_cancelled(tmp_path):
    import threading

    path = tmp_path / "x.pftrace"
    path.write_bytes(files.sample(1, 400))
    cancel = threading.Event()
    cancel.set()

    with pytest.raises(Cancelled):
        open_trace(path, context=ReadContext(cancel=cancel))


def test_first_part_is_shown_while_the_rest_is_read(tmp_path):
    path = tmp_path / "x.pftrace"
    made, n = [], 0
    one = Sequence(1)
    parts = [one.start()]
    while n < 3 << 20:
        now = 100 * len(made)
        parts += [one.event(BEGIN, now, 9, "op"), one.event(END, now + 50, 9)]
        made.append(now)
        n += len(parts[-1]) + len(parts[-2])
    path.write_bytes(b"".join(parts))
    early: list[Trace] = []

    trace = open_trace(path, context=ReadContext(publish=early.append))

    assert len(trace.spans) == len(made)
    assert early
    assert early[0].pending == {"spans"}
    assert 0 < len(early[0].spans) < len(trace.spans)
    assert early[0].clock.origin == trace.clock.origin


def test_what_devices_ran_is_an_engine(tmp_path):
    trace = opened(tmp_path / "x.pftrace", files.rocprof_like())

    kinds = dict(zip(trace.lanes.names, trace.lanes.kinds, strict=True))
    assert kinds["COMPUTE AGENT [4] QUEUE [1] (GPU)"] == LaneKind.ENGINE
    assert kinds["COPY to AGENT [4] (GPU)"] == LaneKind.ENGINE
    assert kinds["THREAD 0 (S)"] == LaneKind.THREAD
    assert len(trace.flows.source) == 3
    assert {series.unit for series in trace.counters} == {"B"}
    assert codes(trace) == {}


def test_summary_shows_the_times_of_devices(tmp_path):
    trace = opened(tmp_path / "x.pftrace", files.rocprof_like(4))

    (device,) = device_times(trace)

    assert (device.n_kernels, device.kernels) == (4, 4 * 50)
    assert (device.n_copies, device.copies) == (4, 4 * 10)
    assert device.launch_delay == 20
    assert not has_npu(trace)
