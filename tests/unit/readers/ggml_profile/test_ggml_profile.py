"""Profiles of ggml's scheduler against the records that they were made of."""

from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

import profile_files
from ggscope.analysis.backends.splits import Reason, split_groups
from ggscope.errors import ReadError
from ggscope.model.tables import Quality, quality_of
from ggscope.model.trace import Trace
from ggscope.readers.registry import open_trace
from support import corpus_path


def opened(path: Path, data: bytes) -> Trace:
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.check() == []
    assert trace.info.reader_id == "ggml-profile"
    return trace


@pytest.mark.parametrize("seed", range(3))
def test_records_are_those_that_were_written(seed, tmp_path):
    data, rows = profile_files.profile(seed)

    trace = opened(tmp_path / "x.txt", data)

    spans = trace.spans
    origin = min(row["start_ns"] for row in rows)
    assert (spans.start + trace.clock.origin).tolist() == [r["start_ns"] for r in rows]
    assert trace.clock.origin == origin
    assert (spans.end - spans.start).tolist() == [r["duration_ns"] for r in rows]
    assert [trace.op_name(op) for op in spans.op.tolist()] == [r["name"] for r in rows]
    assert set(quality_of(spans.flags).tolist()) == {Quality.MEASURED}
    lanes = [trace.lanes[lane].name for lane in spans.lane.tolist()]
    backend = ["CUDA0", "CPU"]
    assert lanes == [
        backend[r["backend_id"]] + (" copies" if r["type"] else "") for r in rows
    ]
    flat = trace.accesses.flat(spans)
    assert flat.what.size.tolist() == [r["bytes"] for r in rows]
    n_copies = sum(row["type"] for row in rows)
    events = {"ops": len(rows) - n_copies, "copies": n_copies}
    assert trace.info.summary["events"] == events


def test_shapes_name_what_has_no_tensor(tmp_path):
    trace = opened(tmp_path / "a.json", profile_files.profile(1)[0])

    assert trace.span_name(0) == "MUL_MAT 4096×32 · 4096"


def test_names_of_tensors_of_forks_are_taken(tmp_path):
    names = cycle(["Qcur-0", "ffn_out-3"])

    trace = opened(tmp_path / "a.json", profile_files.profile(1, names=names)[0])

    assert [trace.span_name(i) for i in range(2)] == ["Qcur-0", "ffn_out-3"]


def test_broken_records_cost_themselves(tmp_path):
    _, rows = profile_files.profile(2)
    broken = [rows[0], {"type": 0}, 7, rows[1] | {"start_ns": -1}, *rows[1:]]

    trace = opened(tmp_path / "a.json", profile_files.profile(2, records=broken)[0])

    assert len(trace.spans) == len(rows)
    (warning,) = [w for w in trace.warnings if w.code == "bad_record"]
    assert warning.count == 3


def test_later_versions_are_read_with_a_word(tmp_path):
    trace = opened(tmp_path / "a.json", profile_files.profile(3, version=3)[0])

    assert "profile_version" in {w.code for w in trace.warnings}


def test_cut_profiles_keep_whole_records(tmp_path):
    data, rows = profile_files.profile(4)
    rng = np.random.default_rng(1)
    for cut in rng.integers(500, len(data), 20).tolist():
        path = tmp_path / "x.json"
        path.write_bytes(data[:cut])
        try:
            trace = open_trace(path)
        except ReadError:
            continue
        n = len(trace.spans)
        assert trace.spans.start.tolist() == [
            row["start_ns"] - rows[0]["start_ns"] for row in rows[:n]
        ]
        assert trace.warnings


def test_shapes_types_and_functions_of_forks_are_taken(tmp_path):
    data, rows, calls = profile_files.fork(5)

    trace = opened(tmp_path / "a.json", data)

    n = len(rows)
    assert trace.info.summary["events"]["functions"] == len(calls)
    spans = trace.spans
    origin = rows[0]["start_ns"]
    assert spans.start[n:].tolist() == [c["start_ns"] - origin for c in calls]
    assert spans.end[n:].tolist() == [c["end_ns"] - origin for c in calls]
    names = [trace.span_name(i) for i in range(n, len(spans))]
    assert names == [call["name"] for call in calls]
    lanes = [trace.lanes[lane].name for lane in spans.lane[n:].tolist()]
    assert lanes == ["main" if c["tid"] == 70 else "thread 71" for c in calls]
    listing = trace.backend_ops
    assert listing is not None
    ops = [row for row in rows if row["type"] == 0]
    shapes = [listing.text(k) for k in listing.ops.shape.tolist()]
    assert shapes[0] == "4096×32 · 4096 → 32"
    assert shapes[1] == "4096×32 · 4096×2 → 32×2"
    assert {listing.text(k) for k in listing.ops.dtype.tolist()} == {"q4_K · f32 → f32"}
    assert listing.ops.time.tolist() == [row["duration_ns"] for row in ops]
    assert listing.ops.size.tolist() == [row["bytes"] for row in ops]


@pytest.mark.parametrize("seed", range(3))
def test_splits_have_the_bytes_that_were_copied(seed, tmp_path):
    data, rows, _ = profile_files.fork(seed)

    trace = opened(tmp_path / "a.json", data)

    copied: dict[tuple[int, int], list[int]] = {}
    graph, before = 0, 0
    for row in rows:
        graph += row["split_id"] < before
        before = row["split_id"]
        sizes = copied.setdefault((graph, before), [])
        if row["type"] == 1:
            sizes.append(row["bytes"])
    listing = trace.backend_ops
    assert listing is not None
    splits, inputs = listing.splits, listing.inputs
    keys = zip(splits.graph.tolist(), splits.number.tolist(), strict=True)
    assert list(keys) == list(copied)
    assert splits.n_inputs.tolist() == [len(sizes) for sizes in copied.values()]
    assert inputs.size.tolist() == [size for sizes in copied.values() for size in sizes]
    assert set(inputs.step.tolist()) == {1}
    groups = split_groups(listing)
    assert {group.reason for group in groups} <= {
        Reason.FIRST, Reason.AGAIN, Reason.UNKNOWN
    }  # fmt: skip
    assert sum(g.min_bytes * g.count for g in groups) == sum(map(sum, copied.values()))


def test_broken_calls_of_functions_cost_themselves(tmp_path):
    calls = [{"name": "f", "start_ns": 9}, 3, {"name": "g", "start_ns": 5, "end_ns": 4}]

    trace = opened(tmp_path / "a.json", profile_files.profile(6, fn_records=calls)[0])

    (warning,) = [w for w in trace.warnings if w.code == "bad_function"]
    assert warning.count == 3
    assert "functions" not in trace.info.summary["events"]


def test_a_split_of_copies_alone_is_of_their_backend():
    folder = corpus_path()
    path = None if folder is None else folder / "people/quoted/pr21160-profile-v2.json"
    if path is None or not path.is_file():
        pytest.skip("no quoted files")

    listing = open_trace(path).backend_ops

    assert listing is not None
    first, second = split_groups(listing)
    assert (first.n_nodes, first.min_bytes) == (1, 0)
    assert (second.backend, second.n_nodes, second.min_bytes) == ("CUDA0", 0, 176128)
