"""Reports of GGML_ROOFLINE_OUT: ops, kernels, counts of experts, damage."""

import json
import random
from collections import Counter

import numpy as np
import pytest

import roofline_files
from ggscope.analysis.experts.experts import ExpertSource, expert_choices, expert_grid
from ggscope.analysis.flags import CacheProfile, cache_profile
from ggscope.errors import ReadError
from ggscope.model.trace import Trace
from ggscope.readers.registry import open_trace
from roofline_files import EXPERTS, LAYERS


def opened(path, data: bytes) -> Trace:
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.info.reader_id == "ggml-roofline"
    assert trace.check() == []
    return trace


def nanoseconds(row: dict) -> list[int]:
    return [round(kernel["gpu_time_us"] * 1000) for kernel in row["kernels"]]


@pytest.mark.parametrize("seed", range(4))
def test_ops_follow_one_another_by_invocation(seed, tmp_path):
    data, rows = roofline_files.report(seed)

    trace = opened(tmp_path / "x.txt", data)

    spans, now, kernel = trace.spans, 0, len(rows)
    for i, row in enumerate(rows):
        times = nanoseconds(row)
        assert (spans.start[i], spans.end[i]) == (now, now + sum(times))
        assert trace.op_name(int(spans.op[i])) == row["ggml_op"]
        assert trace.span_name(i) == row["name"]
        for ns, one in zip(times, row["kernels"], strict=True):
            assert (spans.start[kernel], spans.end[kernel]) == (now, now + ns)
            assert trace.span_name(kernel) == one["name"]
            now, kernel = now + ns, kernel + 1
    assert kernel == len(spans)
    assert trace.info.summary["events"] == {"rows": len(rows)}
    assert trace.info.producer["device"] == "gfx1151"
    assert {w.code for w in trace.warnings} == {"no_times"}


@pytest.mark.parametrize("seed", range(4))
def test_counts_are_sums_of_one_tensor_of_each_layer(seed, tmp_path):
    data, rows = roofline_files.report(seed)

    choices = expert_choices(opened(tmp_path / "x.json", data))

    expected = np.zeros((LAYERS, EXPERTS), np.int64)
    for row in rows:
        if "up_exps" in row["in_names"][0]:
            layer = int(row["in_names"][0].split(".")[1])
            expected[layer] += row["tokens_per_expert"]
    assert choices.source is ExpertSource.LAUNCHES
    assert expert_grid(choices).count.tolist() == expected.tolist()
    assert expert_grid(choices).count[:, -1].tolist() == [0] * LAYERS


def test_counts_make_a_cache_profile(tmp_path):
    data, rows = roofline_files.report(1)

    profile = cache_profile(opened(tmp_path / "x.json", data))

    assert isinstance(profile, CacheProfile)
    counted = Counter()
    for line in b"".join(profile.lines()).decode().splitlines():
        _, layer, *ids = map(int, line.split(","))
        counted.update((layer, expert) for expert in ids)
    expected = Counter()
    for row in rows:
        if "up_exps" in row["in_names"][0]:
            layer = int(row["in_names"][0].split(".")[1])
            expected.update(
                {(layer, e): n for e, n in enumerate(row["tokens_per_expert"])}
            )
    assert counted == +expected


def test_early_reports_have_no_names_and_no_counts(tmp_path):
    _, rows = roofline_files.report(2)
    for row in rows:
        for key in ("name", "in_names", "in_types", "in_ne"):
            del row[key]
    data = json.dumps({"device": "x", "total_gpu_time_us": 1.0, "rows": rows}).encode()

    trace = opened(tmp_path / "x.json", data)

    assert trace.expert_counts is None
    (warning,) = [w for w in trace.warnings if w.code == "experts_without_layer"]
    assert warning.count == sum("tokens_per_expert" in row for row in rows)
    assert trace.span_name(1).startswith("MUL_MAT ")


@pytest.mark.parametrize(
    "change",
    [
        {"kernels": []}, {"kernels": [{"name": "x"}]}, {"kernels": [7]},
        {"invocation": -1}, {"invocation": "x"}, {"ggml_op": None},
        {"kernels": [{"name": "x", "gpu_time_us": -1.0}]},
        {"kernels": [{"name": "x", "gpu_time_us": 1e300}]},
    ],
)  # fmt: skip
def test_damaged_rows_are_counted(change, tmp_path):
    _, rows = roofline_files.report(3)
    rows[4] |= change
    data = json.dumps({"total_gpu_time_us": 1.0, "rows": rows}).encode()

    trace = opened(tmp_path / "x.json", data)

    (warning,) = [w for w in trace.warnings if w.code == "bad_record"]
    assert (warning.count, warning.place) == (1, "rows[4]")
    assert trace.info.n_records == len(rows) - 1


@pytest.mark.parametrize(
    "value", [[], "x", [1, -1], [1.5], [True], [1 << 50], [0] * 5000]
)
def test_counts_that_are_none_are_left_out(value, tmp_path):
    _, rows = roofline_files.report(4, 1)
    rows[2]["tokens_per_expert"] = value
    data = json.dumps({"total_gpu_time_us": 1.0, "rows": rows}).encode()

    trace = opened(tmp_path / "x.json", data)

    (warning,) = [w for w in trace.warnings if w.code == "experts_without_layer"]
    assert warning.count == 1
    assert trace.info.n_records == len(rows)


def test_cut_files_keep_whole_rows(tmp_path):
    data, rows = roofline_files.report(5)
    names = {row["invocation"]: row["name"] for row in rows}
    rng = random.Random(5)
    for cut in rng.sample(range(len(data) // 4, len(data) - 3), 20):
        path = tmp_path / "x.json"
        path.write_bytes(data[:cut])
        try:
            trace = open_trace(path)
        except ReadError:
            continue
        assert trace.check() == []
        n = trace.info.n_records
        assert 0 < n <= len(names)
        assert {trace.span_name(i) for i in range(n)} <= set(names.values())
