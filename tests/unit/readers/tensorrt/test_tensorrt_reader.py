"""trtexec's exports against the layers that they were made of."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

import people
import tensorrt_files
from ggscope.errors import ReadError
from ggscope.model.backend_ops import BackendOps
from ggscope.model.trace import Trace
from ggscope.readers.registry import open_trace
from tensorrt_files import RUNS


def opened(path: Path, data: bytes) -> tuple[Trace, BackendOps]:
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.check() == []
    assert trace.info.reader_id == "tensorrt"
    assert len(trace.spans) == 0
    assert trace.backend_ops is not None
    return trace, trace.backend_ops


def rows_of(listing: BackendOps) -> list[tuple[str, int, int]]:
    """Return op, count and nanoseconds of each layer."""
    ops = listing.ops
    columns = ops.op.tolist(), ops.count.tolist(), ops.time.tolist()
    return [(listing.text(op), n, time) for op, n, time in zip(*columns, strict=True)]


@pytest.mark.parametrize("seed", range(3))
def test_profiles_list_sums_over_all_runs(seed, tmp_path):
    made = tensorrt_files.layers(seed)

    trace, listing = opened(tmp_path / "x.txt", tensorrt_files.profile(made))

    expected = [(one.name, RUNS, round(one.total * 10**6)) for one in made]
    assert rows_of(listing) == expected
    assert trace.info.summary["events"] == {"layers": len(made)}
    assert {w.code for w in trace.warnings} == {"no_times"}


def test_sums_without_a_count_show_it_by_their_mean(tmp_path):
    made = tensorrt_files.layers(4)

    data = tensorrt_files.profile(made, has_count=False)
    _, listing = opened(tmp_path / "x.json", data)

    assert {n for _, n, _ in rows_of(listing)} == {RUNS}


def test_averages_alone_stand_for_one_run(tmp_path):
    made = tensorrt_files.layers(5)

    data = tensorrt_files.profile(made, has_sums=False)
    _, listing = opened(tmp_path / "x.json", data)

    expected = [(one.name, 1, round(one.mean * 10**6)) for one in made]
    assert rows_of(listing) == expected


def test_layer_info_lists_types_and_shapes_without_times(tmp_path):
    made = tensorrt_files.layers(6)

    trace, listing = opened(tmp_path / "x.json", tensorrt_files.layer_info(made))

    assert rows_of(listing) == [(one.kind, 1, -1) for one in made]
    ops = listing.ops
    assert [listing.text(n) for n in ops.name.tolist()] == [one.name for one in made]
    shapes = ["×".join(map(str, one.shape)) for one in made]
    assert [listing.text(n) for n in ops.shape.tolist()] == shapes
    assert listing.text(int(ops.dtype[0])) == "Row major linear FP16 format"
    assert not trace.warnings


def test_layer_info_may_have_names_alone(tmp_path):
    made = tensorrt_files.layers(6)

    data = tensorrt_files.layer_info(made, names_only=True)
    _, listing = opened(tmp_path / "x.json", data)

    assert [row[0] for row in rows_of(listing)] == [one.name for one in made]


def test_values_that_are_none_are_unknown(tmp_path):
    rows = [
        {"name": "a", "timeMs": -1.0, "averageMs": "x", "percentage": 1},
        {"name": "b", "timeMs": 2, "averageMs": 1e300, "percentage": 1},
        {"name": "c", "timeMs": True, "averageMs": float("nan")},
        7,
        {"count": -4},
        {"name": "d\ud800", "timeMs": 1.5},
    ]

    trace, listing = opened(tmp_path / "x.json", json.dumps(rows).encode())

    times = [time for _, _, time in rows_of(listing)]
    assert times == [-1, 2_000_000, -1, 1_500_000]
    assert {w.code: w.count for w in trace.warnings}["bad_record"] == 2


@pytest.mark.parametrize("make", [tensorrt_files.profile, tensorrt_files.layer_info])
def test_exports_cut_anywhere_keep_whole_layers(make, tmp_path):
    made = tensorrt_files.layers(7, 6)
    data = make(made)
    path = tmp_path / "x.json"
    _, whole = opened(path, data)
    for cut in range(len(data.rstrip()) - 1):
        path.write_bytes(data[:cut])
        try:
            trace = open_trace(path)
        except ReadError:
            continue
        if trace.info.reader_id != "tensorrt":
            continue
        assert trace.check() == []
        listing = trace.backend_ops
        assert listing is not None
        assert rows_of(listing) == rows_of(whole)[: len(listing)]
    assert len(listing) == len(made)


@people.each("quoted", lambda name, _: "tensorrt" in name)
def test_real_profiles_have_the_layers_that_a_plain_parser_finds(name, tmp_path):
    data = people.content(name)
    rows = json.loads(data, parse_float=Decimal)
    runs = rows[0]["count"]

    _, listing = opened(tmp_path / "x.txt", data)

    expected = [(r["name"], runs, round(r["timeMs"] * 10**6)) for r in rows[1:]]
    assert rows_of(listing) == expected


@people.each("quoted", lambda name, _: "onnxruntime" in name or "cl_trace" in name)
def test_profiles_of_others_stay_chrome_traces(name, tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(people.content(name))

    assert open_trace(path).info.reader_id == "chrome-json"
