"""Files of speedscope: sampled and evented profiles, units, damage."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import people
import stack_files
from flame import frames_of, problems
from ggscope.errors import CorruptError, ReadError
from ggscope.model.tables import SpanFlag
from ggscope.readers.api import ReadContext
from ggscope.readers.registry import open_trace

_REAL = "speedscope/simple.speedscope.json"


def read(tmp_path, data: bytes | dict, **options: str):
    path = tmp_path / "x.txt"
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    trace = open_trace(path, context=ReadContext(options=options))
    assert trace.check() == []
    assert trace.info.reader_id == "speedscope"
    return trace


def sampled(unit="none", **more):
    return {
        "type": "sampled",
        "name": "p",
        "unit": unit,
        "startValue": 0,
        "endValue": 9,
        "samples": [[0, 1], [0, 2]],
        "weights": [4, 5],
    } | more


def evented(events, unit="none", **more):
    rows = [{"type": k, "at": at, "frame": f} for k, at, f in events]
    return {"type": "evented", "name": "e", "unit": unit, "startValue": 0,
            "endValue": 9, "events": rows} | more  # fmt: skip


def file_of(*profiles, n_frames=3):
    frames = [{"name": f"f{i}"} for i in range(n_frames)]
    schema = "https://www.speedscope.app/file-format-schema.json"
    return {"$schema": schema, "shared": {"frames": frames}, "profiles": profiles}


@people.each("speedscope", lambda name, _: name == _REAL)
def test_real_file_has_its_spans(name, tmp_path):
    trace = read(tmp_path, people.content(name))

    assert trace.info.summary["events"] == {"profiles": 1, "frames": 4, "events": 10}
    assert frames_of(trace, 0) == [
        (0, 2, ("a", "b", "c")),
        (0, 14, ("a",)),
        (0, 14, ("a", "b")),
        (2, 6, ("a", "b", "d")),
        (6, 9, ("a", "b", "c")),
    ]
    assert set(trace.spans.flags.tolist()) == {0}
    assert (trace.clock.unit, trace.clock.is_weight) == ("count", True)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 40))
def test_sampled_and_evented_profiles_give_the_same_spans(seed, n, tmp_path_factory):
    data = stack_files.speedscope(seed, n)

    trace = read(tmp_path_factory.mktemp("speedscope"), data)

    assert trace.lanes.names == ("sampled", "evented")
    assert frames_of(trace, 0) == frames_of(trace, 1)
    assert (trace.clock.unit, trace.clock.is_weight) == ("ns", False)
    roots = trace.spans.lane == 0
    assert int(trace.spans.samples[roots].max()) <= n


@pytest.mark.parametrize(
    ("unit", "weights", "ticks", "ends"),
    [
        ("seconds", [0.5, 1e-9], "ns", 500_000_001),
        ("milliseconds", [0.5, 1], "ns", 1_500_000),
        ("microseconds", [2, 1], "ns", 3_000),
        ("nanoseconds", [2, 1], "ns", 3),
        ("bytes", [2, 1], "byte", 3),
        ("none", [0.5, 1], "count/1000", 1500),
        ("none", [9007199254740993, 2], "count", 9007199254740995),
    ],
)
def test_units_become_ticks_digit_by_digit(unit, weights, ticks, ends, tmp_path):
    trace = read(tmp_path, file_of(sampled(unit, weights=weights)))

    assert (trace.clock.unit, trace.extent.end) == (ticks, ends)


def test_profiles_of_other_units_are_reported_and_can_be_asked_for(tmp_path):
    data = file_of(sampled("seconds"), sampled("bytes", name="heap"))

    trace = read(tmp_path, data)
    heap = read(tmp_path, data, weights="bytes")
    active = read(tmp_path, data | {"activeProfileIndex": 1})

    assert (trace.lanes.names, problems(trace)) == (("p",), {"other_weights": 1})
    assert heap.lanes.names == active.lanes.names == ("heap",)
    assert heap.clock.unit == "byte"


def test_damage_costs_what_it_is_in(tmp_path):
    bad = sampled(
        samples=[[0, 9], "x", [0, "y"], [1], [2, 10**30], [1]],
        weights=[1, 1, 1, -5, float("nan")],
    )

    trace = read(tmp_path, file_of(bad))

    assert problems(trace) == {
        "bad_frame": 2, "bad_sample": 2, "bad_weight": 3, "odd_value": 1,
    }  # fmt: skip
    assert frames_of(trace, 0)[0][2] in {("f0",), ("f0", "frame 9")}


def test_events_that_do_not_pair_are_reported(tmp_path):
    rows = [
        ("C", 0, 1),
        ("O", 1, 0),
        ("O", 3, 1),
        ("C", 2, 2),
        ("O", 4, 2),
        ("C", 5, 2),
    ]

    trace = read(tmp_path, file_of(evented(rows)))

    assert problems(trace) == {
        "end_without_begin": 1, "samples_out_of_order": 1, "mismatched_end": 1,
        "begin_without_end": 1,
    }  # fmt: skip
    open_ones = (trace.spans.flags & int(SpanFlag.UNFINISHED)) != 0
    assert trace.spans.end[open_ones].tolist() == [9]


def test_hostile_depth_is_cut(tmp_path):
    rows = [("O", 0, 0)] * 100_000 + [("C", 5, 0)] * 100_000

    trace = read(tmp_path, file_of(evented(rows), sampled(samples=[[0] * 100_000],
                                                          weights=[2])))  # fmt: skip

    assert problems(trace)["deep_stacks"] == 100_000 - 2048 + 1
    assert len(trace.spans) == 2 * 2048


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9, 0.99])
def test_cut_file_gives_what_was_read(share, tmp_path):
    data = stack_files.speedscope(5, 200)

    trace = read(tmp_path, data[: int(len(data) * share)])

    assert "truncated_json" in problems(trace)
    assert len(trace.spans) > 0


def test_details_name_file_and_line(tmp_path):
    data = file_of(sampled(), evented([("O", 0, 1), ("C", 3, 1)]))
    data["shared"]["frames"][1] = {"name": "work", "file": "a.py", "line": 3, "col": 7}

    trace = read(tmp_path, data)

    first = trace.records.view(0).fields
    assert [f[:2] for f in first] == [("frame 0", "work a.py:3:7"), ("frame 1", "f0")]
    event = int(trace.spans.record[trace.spans.lane == 1][0])
    assert trace.records.view(event).fields[0][1] == "work a.py:3:7"
    with pytest.raises(ReadError):
        trace.records.view(99)


def test_file_without_samples_is_refused(tmp_path):
    with pytest.raises(CorruptError, match="no profile has"):
        read(tmp_path, file_of(sampled(samples=[], weights=[])))
