"""What other viewers are given: every span once, exactly, on tracks they can draw."""

import itertools
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import finished, spans_trace
from ggscope.errors import ExportError
from ggscope.exporters import chrome, events, folded, forms, perfetto
from ggscope.exporters.events import Events
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import NO_WAIT, SpanFlag
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import TimeRange
from ggscope.readers.registry import open_trace
from statements import new_statements
from wait_traces import with_waits

SAMPLES = Path(__file__).parents[3] / "resources" / "samples"
NAMES = ("llama.ggmlviz", "tinyllama-256.bin", "npu-prefill-decode.json")
HOSTILE = 'a"b\\c\n</script>\x1b[31m;\u202e\ud800é'
Slice = tuple[int, int, str]

pairs = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 40)), min_size=1, max_size=40
)


def finished_slices(made: Events) -> list[Slice]:
    """Return (begin, duration, name) of the spans that are meant and have an end."""
    s, trace = made.trace.spans, made.trace
    finished = (s.flags[made.spans] & int(SpanFlag.UNFINISHED)) == 0
    return sorted(
        (
            int(s.start[i]) + made.shift,
            int(s.end[i] - s.start[i]),
            trace.strings[int(s.name[i])] or trace.op_name(int(s.op[i])) or "–",
        )
        for i in made.spans[finished].tolist()
    )


def n_unfinished(made: Events) -> tuple[int, int]:
    """Return how many spans without an end are open slices, and how many instants."""
    flags = made.trace.spans.flags[made.spans]
    n = np.count_nonzero(flags & int(SpanFlag.UNFINISHED))
    n_open = np.count_nonzero(made.is_open)
    return n_open, n - n_open


def loss_text(writer: ModuleType, made: Events) -> str:
    """Return what a writer says that its file does not hold."""
    return "\n".join(writer.losses(made))


def chrome_of(made: Events) -> dict:
    return json.loads(b"".join(chrome.chunks(made)))


def nanos(value: float) -> int:
    return round(value * 1000)


@given(pairs)
def test_spans_of_a_track_lie_within_each_other_or_apart(
    spans: list[tuple[int, int]],
) -> None:
    start = np.array([s for s, _ in spans])
    trace = spans_trace(start, start + [n for _, n in spans])
    made = Events(trace)

    per_track: dict[int, list[tuple[int, int]]] = {}
    for i, track in zip(made.spans.tolist(), made.track.tolist(), strict=True):
        s = trace.spans
        per_track.setdefault(track, []).append((int(s.start[i]), int(s.end[i])))

    assert sum(map(len, per_track.values())) == len(spans)
    for rows in per_track.values():
        for n, (begin, end) in enumerate(rows):
            for other, stop in rows[n + 1 :]:
                assert other >= begin, "a track is in the order of time"
                assert other >= end or stop <= end


@pytest.mark.parametrize("name", NAMES)
def test_chrome_events_hold_every_span_to_the_nanosecond(name: str) -> None:
    made = Events(open_trace(SAMPLES / name))
    # Numbers as they are written: a float would hide what is lost in it.
    text = b"".join(chrome.chunks(made)).decode()
    data = json.loads(text, parse_float=str)["traceEvents"]

    slices = sorted(
        (int(e["ts"].replace(".", "")), int(e["dur"].replace(".", "")), e["name"])
        for e in data
        if e["ph"] == "X"
    )
    assert slices == finished_slices(made)
    assert slices == sorted(
        (nanos(e["ts"]), nanos(e["dur"]), e["name"])
        for e in json.loads(text)["traceEvents"]
        if e["ph"] == "X"
    )
    samples = sum(len(series) for series in made.trace.counters)
    count = Counter(e["ph"] for e in data)
    n_open, n_instants = n_unfinished(made)
    assert (count["B"], count["E"]) == (n_open, 0)
    assert (count["i"], count["C"]) == (len(made.trace.markers) + n_instants, samples)
    named = {(e["pid"], e["tid"]) for e in data if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in data if e["ph"] in "Xi"} <= named


@pytest.mark.parametrize("name", NAMES)
def test_packets_hold_what_chrome_events_hold(name: str) -> None:
    pytest.importorskip("perfetto", reason="perfetto is not installed")
    made = Events(open_trace(SAMPLES / name))

    slices, markers, samples, n_begun = unpacked(b"".join(perfetto.chunks(made)))

    n_open, n_instants = n_unfinished(made)
    assert sorted(slices) == finished_slices(made)
    assert markers == len(made.trace.markers) + n_instants
    assert n_begun == n_open
    assert samples == sum(len(series) for series in made.trace.counters)


def unpacked(data: bytes) -> tuple[list[Slice], int, int, int]:
    """Return slices, instants, samples and open slices of packets.

    Read by Perfetto's own description: an end is of the slice that began last.
    """
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

    names: dict[int, str] = {}
    opened: dict[int, list[tuple[int, str]]] = {}
    slices, markers, samples = [], 0, 0
    for packet in Trace.FromString(data).packet:
        names |= {entry.iid: entry.name for entry in packet.interned_data.event_names}
        event = packet.track_event
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            begin = (packet.timestamp, names[event.name_iid])
            opened.setdefault(event.track_uuid, []).append(begin)
        elif event.type == TrackEvent.TYPE_SLICE_END:
            start, name = opened[event.track_uuid].pop()
            slices.append((start, packet.timestamp - start, name))
        markers += event.type == TrackEvent.TYPE_INSTANT
        samples += event.type == TrackEvent.TYPE_COUNTER
    return slices, markers, samples, sum(map(len, opened.values()))


def test_file_that_no_viewer_opens_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(perfetto, "MAX_BYTES", 10)

    with pytest.raises(ExportError, match="larger than 4 GiB"):
        list(perfetto.chunks(Events(spans_trace([0], [1]))))


@pytest.mark.parametrize("name", NAMES)
def test_parts_below_a_limit_hold_everything_once(name: str, monkeypatch) -> None:
    pytest.importorskip("perfetto", reason="perfetto is not installed")
    made = Events(open_trace(SAMPLES / name))
    whole = b"".join(perfetto.chunks(made))
    limit = len(whole) // 2
    monkeypatch.setattr(perfetto, "MAX_BYTES", limit)

    parts = perfetto.parts(made)
    files = [b"".join(perfetto.chunks(part)) for part in parts]

    assert len(files) > 1
    assert all(len(data) <= limit for data in files)
    result = [unpacked(data) for data in files]
    assert sorted(s for slices, *_ in result for s in slices) == finished_slices(made)
    assert [sum(column) for column in list(zip(*result, strict=True))[1:]] == list(
        unpacked(whole)[1:]
    )
    times = [[s[0] for s in slices] for slices, *_ in result if slices]
    assert all(max(a) < min(b) for a, b in itertools.pairwise(times))


UNFINISHED = int(SpanFlag.UNFINISHED)


@pytest.mark.parametrize(
    ("spans", "flags", "expected"),
    [
        ([(0, 4), (4, 4)], [0, UNFINISHED], [False, True]),
        ([(0, 0), (4, 9)], [UNFINISHED, 0], [False, False]),
        ([(0, 9), (4, 6)], [UNFINISHED, 0], [True, False]),
        ([(0, 9), (4, 9)], [0, UNFINISHED], [False, False]),
        ([(0, 9), (2, 9), (4, 5)], [UNFINISHED, UNFINISHED, 0], [True, True, False]),
        ([(0, 3), (2, 9)], [0, UNFINISHED], [False, True]),  # on a track of its own
    ],
)
def test_span_without_an_end_is_open_where_nothing_closes_it(
    spans: list[tuple[int, int]], flags: list[int], expected: list[bool]
) -> None:
    start, end = map(list, zip(*spans, strict=True))
    made = Events(spans_trace(start, end, flags=np.array(flags, np.uint16)))

    values = [e for e in chrome_of(made)["traceEvents"] if e["ph"] in "XBEi"]

    assert made.is_open.tolist() == expected
    kinds = [
        ("X" if not f else "B" if o else "i")
        for f, o in zip(flags, expected, strict=True)
    ]
    assert [e["ph"] for e in values] == kinds
    assert [e.get("args", {}).get("time") for e in values] == [
        "unfinished" if f else None for f in flags
    ]


def test_stacks_give_no_time_to_a_span_without_an_end() -> None:
    flags = np.array([0, UNFINISHED, 0, UNFINISHED], np.uint16)
    trace = spans_trace(
        [0, 20, 30, 200], [100, 100, 40, 900], op=[3, 4, 5, 6], flags=flags
    )
    a, b, c = (trace.op_name(op) for op in (3, 4, 5))

    assert folded.stacks(Events(trace)) == {
        f"Threads;thread 0;{a}": 90,
        f"Threads;thread 0;{a};{b};{c}": 10,
    }


@given(pairs)
def test_stacks_sum_up_to_the_time_in_which_a_track_is_busy(
    spans: list[tuple[int, int]],
) -> None:
    start = np.array([s for s, _ in spans])
    trace = spans_trace(start, start + [n for _, n in spans], op=3)
    made = Events(trace)

    stacks = folded.stacks(made)

    busy = 0
    for track in set(made.track.tolist()):
        own = made.spans[made.track == track]
        ticks = {
            tick
            for i in own.tolist()
            for tick in range(int(trace.spans.start[i]), int(trace.spans.end[i]))
        }
        busy += len(ticks)
    assert sum(stacks.values()) == busy
    assert all(time > 0 for time in stacks.values())


def test_stacks_count_spans_with_a_recorded_end() -> None:
    trace = spans_trace([0, 2, 20], [10, 5, 24], op=3)
    flags = np.array([0, 0, SpanFlag.UNFINISHED], np.uint8)
    unfinished = Events(replace(trace, spans=replace(trace.spans, flags=flags)))

    assert forms.n_spans(Events(trace), "folded") == 3
    assert forms.n_spans(unfinished, "folded") == 2
    assert sum(folded.stacks(unfinished).values()) == 10


def test_stacks_name_process_track_and_nested_ops() -> None:
    trace = spans_trace([0, 2, 20], [10, 5, 24], op=[3, 4, 3])
    outer, inner = trace.op_name(3), trace.op_name(4)

    text = b"".join(folded.chunks(Events(trace))).decode()

    assert text.splitlines() == [
        f"Threads;thread 0;{outer} 11",
        f"Threads;thread 0;{outer};{inner} 3",
    ]


@pytest.mark.parametrize("form", ["chrome-json", "json"])
def test_names_are_utf_8_as_they_are(form: str) -> None:
    builder = TraceBuilder()
    builder.add_lane("Fäden", LaneKind.THREAD)
    names = builder.strings.intern_many(["ubatch 0 · 2 tokens"])
    builder.add_spans(start=np.array([0]), end=np.array([5]), lane=0, name=names)

    data = b"".join(forms.chunks(Events(finished(builder)), form)).decode()

    assert '"ubatch 0 · 2 tokens"' in data
    assert '"Fäden"' in data


def test_hostile_names_stay_data() -> None:
    trace = hostile_trace()
    made = Events(trace)

    result = chrome_of(made)
    lines = b"".join(folded.chunks(made)).decode().splitlines()

    assert [e["name"] for e in result["traceEvents"] if e["ph"] == "X"] == [HOSTILE]
    assert len(lines) == 1
    assert re.fullmatch(r"[^;]+;[^;]+;[^;]+ 5", lines[0])
    assert "\x1b" not in lines[0]


def hostile_trace() -> Trace:
    builder = TraceBuilder()
    builder.add_lane("thread 0", LaneKind.THREAD)
    names = builder.strings.intern_many([HOSTILE])
    builder.add_spans(start=np.array([0]), end=np.array([5]), lane=0, name=names)
    return finished(builder)


def test_times_before_zero_are_moved_and_that_is_reported() -> None:
    made = Events(spans_trace([-7, 3], [-2, 4]))

    ts = [e["ts"] for e in chrome_of(made)["traceEvents"] if e["ph"] == "X"]

    assert ts == [0.0, 0.010]
    later = Events(spans_trace([3], [4]))
    assert new_statements(
        loss_text(chrome, made), loss_text(chrome, later) + loss_text(folded, made)
    )
    assert "shifted by 7 ns" in loss_text(chrome, made)


def test_range_takes_what_reaches_into_it() -> None:
    trace = open_trace(SAMPLES / "npu-prefill-decode.json")
    time = TimeRange(20_000, 40_000)
    made = Events(trace, time=time)

    s = trace.spans
    inside = [
        i for i in range(len(s)) if s.end[i] >= time.start and s.start[i] < time.end
    ]
    assert sorted(made.spans.tolist()) == inside
    assert made.is_part
    samples = [e for e in chrome_of(made)["traceEvents"] if e["ph"] == "C"]
    assert 0 < len(samples) < sum(len(series) for series in trace.counters)
    first = min(nanos(e["ts"]) for e in samples)
    assert first <= time.start, "the value that holds at the begin is there"


def test_parts_that_do_not_nest_lie_on_further_tracks_of_one_name() -> None:
    made = Events(spans_trace([0, 5], [10, 15]))

    assert len(made.tracks) == 2
    assert len({track.name for track in made.tracks}) == 1
    assert new_statements(
        loss_text(chrome, made), loss_text(chrome, Events(spans_trace([0], [9])))
    )
    assert "1 additional track of" in loss_text(chrome, made)


def test_mask_leaves_markers_and_counters_out_and_says_so() -> None:
    trace = open_trace(SAMPLES / "npu-prefill-decode.json")
    made = Events(trace, np.arange(len(trace.spans)) < 3)

    kinds = Counter(e["ph"] for e in chrome_of(made)["traceEvents"])

    assert (kinds["X"], kinds["i"], kinds["C"]) == (3, 0, 0)
    assert new_statements(loss_text(chrome, made), loss_text(chrome, Events(trace)))


def test_what_a_file_does_not_hold_is_reported_where_it_was_there() -> None:
    traces = {name: open_trace(SAMPLES / name) for name in NAMES}
    llama, tensors, npu = (loss_text(chrome, Events(traces[name])) for name in NAMES)

    assert new_statements(npu, llama + tensors)
    assert new_statements(tensors, llama)
    assert "omitted: tensor accesses, buffers" in tensors
    made = Events(traces[NAMES[0]])
    assert new_statements(loss_text(folded, made), loss_text(chrome, made))


def test_gaps_between_windows_are_counted() -> None:
    trace = open_trace(SAMPLES / NAMES[2])
    series = trace.counters[0]
    assert series.window is not None
    window = series.window.copy()
    window[3] -= 1
    gapped = replace(
        trace, counters=(replace(series, window=window), *trace.counters[1:])
    )

    assert "Counters have 1 gap" in loss_text(chrome, Events(gapped))
    assert "no value" not in loss_text(chrome, Events(trace))


def test_sample_without_a_value_is_left_out_and_counted() -> None:
    trace = open_trace(SAMPLES / NAMES[2])
    series = trace.counters[0]
    value = series.value.copy()
    value[1] = np.nan
    broken = replace(
        trace, counters=(replace(series, value=value), *trace.counters[1:])
    )
    made = Events(broken)

    assert b"nan" not in b"".join(chrome.chunks(made)).lower()
    assert "Counters have 1 gap" in loss_text(chrome, made)
    assert "no value" not in loss_text(chrome, Events(trace))


def test_tracks_that_nest_need_no_look_at_each_span(monkeypatch) -> None:
    """Millions of ops that follow each other cost no step of Python each."""
    start = np.arange(0, 20, 2)

    assert not events.nested(start, start + 2).any()
    assert events.nested(start, start + 3).max() == 1


def waiting() -> Events:
    """Return two ops with waits, one without, and one whose wait reaches too far."""
    trace = spans_trace([0, 100, 200, 300], [40, 140, 240, 340], op=1)
    return Events(with_waits(trace, [50, NO_WAIT, 90, 20]))


WAITS = [(40, 50), (240, 60), (340, 20)]


def test_waits_are_chrome_events_of_their_own() -> None:
    values = [e for e in chrome_of(waiting())["traceEvents"] if e["ph"] == "X"]

    waits = [e for e in values if e.get("cat") == events.WAIT]
    assert [(nanos(e["ts"]), nanos(e["dur"])) for e in waits] == WAITS
    assert {e["tid"] for e in waits} == {e["tid"] for e in values}
    assert len(values) == 7


def test_waits_are_slices_of_their_own() -> None:
    pytest.importorskip("perfetto", reason="perfetto is not installed")

    slices, *_ = unpacked(b"".join(perfetto.chunks(waiting())))

    assert [(at, n) for at, n, name in sorted(slices) if name == events.WAIT] == WAITS
    assert len(slices) == 7


def test_stacks_leave_waits_out() -> None:
    assert sum(folded.stacks(waiting()).values()) == 160
