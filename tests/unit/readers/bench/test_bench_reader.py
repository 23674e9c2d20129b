"""Results of llama-bench: every form, damaged files, comparison."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

import bench_files
from bench_files import FORMS
from ggscope.analysis.bench.comparison import compare_bench, speed_of, varying_keys
from ggscope.errors import ReadError
from ggscope.model.bench import BenchRuns
from ggscope.readers.registry import open_trace


def opened(path: Path, data: bytes) -> BenchRuns:
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.info.reader_id == "llama-bench"
    assert trace.check() == []
    assert trace.bench is not None
    return trace.bench


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_those_that_were_written(form, tmp_path):
    tests = bench_files.rows(1)

    runs = opened(tmp_path / "x.txt", bench_files.written(tests, form))

    assert (len(runs), runs.form) == (len(tests), form)
    for i, test in enumerate(tests):
        row = runs.row(i)
        expected = {key: _stored(value, form) for key, value in test.items()}
        for key in row.keys() & expected.keys():
            if form == "md" and key in ("avg_ts", "stddev_ts"):
                assert row[key] == pytest.approx(expected[key], abs=0.005)
            else:
                assert row[key] == expected[key], key
        if form not in ("md",):
            lacking = set() if form.startswith("json") else {"samples_ns", "samples_ts"}
            assert expected.keys() - row.keys() == lacking
        assert runs.test(i) == ("pp" if test["n_prompt"] else "tg") + str(
            test["n_prompt"] or test["n_gen"]
        )
        assert speed_of(runs, i).mean == pytest.approx(test["avg_ts"], abs=0.005)
    n_samples = 3 * len(tests) if form.startswith("json") else 0
    assert runs.n_repetitions == n_samples


def _stored(value: object, form: str) -> object:
    if isinstance(value, list):
        return tuple(value)
    return int(value) if isinstance(value, bool) and form in ("csv", "sql") else value


def test_messages_between_lines_are_passed_over(tmp_path):
    lines = bench_files.text("jsonl").splitlines()
    noise = [b"ggml_cuda_init: found 1 device", b"{broken", b"", b"{}"]

    runs = opened(
        tmp_path / "x.log", b"\n".join([noise[0], *lines[:3], *noise, *lines[3:]])
    )

    assert len(runs) == len(lines)


@pytest.mark.parametrize("form", FORMS)
def test_cut_files_keep_the_rows_that_are_whole(form, tmp_path):
    tests = bench_files.rows(2)
    data = bench_files.written(tests, form)
    rng = random.Random(form)
    for cut in sorted(rng.sample(range(len(data) // 3, len(data)), 12)):
        path = tmp_path / "x.txt"
        path.write_bytes(data[:cut])
        try:
            trace = open_trace(path)
        except ReadError:
            continue
        assert trace.bench is not None
        n = len(trace.bench)
        speeds = [speed_of(trace.bench, i).mean for i in range(n)]
        expected = [test["avg_ts"] for test in tests[:n]]
        # The last number of a row of Markdown may be cut within.
        assert speeds[: n - 1] == pytest.approx(expected[: n - 1], abs=0.005)


def test_broken_rows_are_counted(tmp_path):
    lines = bench_files.text("csv").splitlines()
    lines[2] = lines[2][: len(lines[2]) // 2]
    path = tmp_path / "x.csv"
    path.write_bytes(b"\n".join(lines))

    trace = open_trace(path)

    assert trace.bench is not None
    assert len(trace.bench) == len(lines) - 2
    (warning,) = [w for w in trace.warnings if w.code == "broken_bench_row"]
    assert (warning.count, warning.place) == (1, "line 3")


def test_damaged_repetitions_are_named_and_the_others_count(tmp_path):
    tests = bench_files.rows(1, 4)
    tests[1]["samples_ns"][0] = "x"
    tests[2]["samples_ns"] = tests[2]["samples_ns"][:2]
    tests[3]["samples_ts"][2] = -1.0
    path = tmp_path / "x.jsonl"
    path.write_bytes(bench_files.written(tests, "jsonl"))

    trace = open_trace(path)

    assert trace.bench is not None
    assert len(trace.bench) == 4
    (warning,) = [w for w in trace.warnings if w.code == "bench_samples"]
    assert (warning.count, warning.place) == (3, "lines 2, 3, 4")
    n_samples = [len(speed_of(trace.bench, i).samples) for i in range(4)]
    assert n_samples == [3, 3, 3, 2]


@pytest.mark.parametrize(
    ("value", "samples", "n_odd"),
    [(7.5, (7.5,), 0), (-1, (), 1), ("x", (), 1), (True, (), 1), ({}, (), 1)],
)
def test_repetitions_that_are_no_list_are_one(tmp_path, value, samples, n_odd):
    (test,) = bench_files.rows(1, 1)
    del test["samples_ns"]
    path = tmp_path / "x.jsonl"
    path.write_bytes(bench_files.written([test | {"samples_ts": value}], "jsonl"))

    trace = open_trace(path)

    assert trace.bench is not None
    assert trace.bench.columns["samples_ts"] == (samples,)
    odd = [w.count for w in trace.warnings if w.code == "bench_samples"]
    assert odd == [1] * n_odd


def test_lists_put_together_keep_all_rows(tmp_path):
    data = bench_files.text("json")

    runs = opened(tmp_path / "x.json", data + b"\n" + data)

    assert len(runs) == 16


@pytest.mark.parametrize("n", [1, 3])
def test_rows_taken_out_of_a_list_are_read(n, tmp_path):
    tests = bench_files.rows(1, n)
    text = "\n".join(json.dumps(test, indent=2) for test in tests)

    runs = opened(tmp_path / "x.txt", text.encode())

    assert [runs.row(i)["samples_ns"] for i in range(n)] == [
        tuple(test["samples_ns"]) for test in tests
    ]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("form", FORMS)
def test_byte_order_mark_and_line_ends_lose_no_row(form, line_end, tmp_path):
    tests = bench_files.rows(1)
    data = bench_files.written(tests, form)

    runs = opened(tmp_path / "x.txt", b"\xef\xbb\xbf" + data.replace(b"\n", line_end))

    assert runs.columns == opened(tmp_path / "y.txt", data).columns


@pytest.mark.parametrize("indent", [None, 2])
def test_a_row_with_its_keys_in_another_order_is_read(indent, tmp_path):
    test = bench_files.rows(1, 1)[0]

    runs = opened(
        tmp_path / "x.txt", json.dumps(test, sort_keys=True, indent=indent).encode()
    )

    assert len(runs) == 1
    assert runs.row(0)["avg_ts"] == test["avg_ts"]


@pytest.mark.parametrize("depth", [10, 100, 400, 900, 2000])
def test_values_nested_deeply_do_not_stop_the_reading(depth, tmp_path):
    tests = bench_files.rows(1, 3, deep="DEEP")
    nested = b"[" * depth + b"]" * depth
    data = bench_files.written(tests, "jsonl").replace(b'"DEEP"', nested, 1)

    runs = opened(tmp_path / "x.txt", data)

    assert len(runs) in (2, 3)


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_lists_of_unknown_keys_stay_as_text(form, tmp_path):
    value = [1, "ü", 10**30, {"a": [None]}]
    rows = bench_files.rows(1, 2, fancy_new=value)

    runs = opened(tmp_path / "x.txt", bench_files.written(rows, form))

    texts = runs.columns["fancy_new"]
    assert [json.loads(str(text)) for text in texts] == [value, value]


def test_numbers_beyond_all_are_no_speeds(tmp_path):
    tests = [test | {"avg_ts": 1e300} for test in bench_files.rows(1, 2)]
    tests += bench_files.rows(2, 2, n_batch=10**30)
    path = tmp_path / "x.jsonl"
    path.write_bytes(bench_files.written(tests, "jsonl"))

    trace = open_trace(path)

    assert trace.bench is not None
    speeds = [speed_of(trace.bench, i).mean for i in range(len(trace.bench))]
    assert max(speeds) < 1e9
    assert trace.bench.columns["n_batch"][-1] == "beyond 1e18"


def test_a_file_against_itself_has_no_change(tmp_path):
    runs = opened(tmp_path / "a", bench_files.text("jsonl"))

    comparison = compare_bench(runs, runs)

    assert len(comparison.changes) == len(runs)
    assert {change.relative for change in comparison.changes} == {0.0}
    assert {change.within_noise for change in comparison.changes} == {True}
    assert (comparison.differs, comparison.only_a, comparison.only_b) == ((), (), ())


def test_twice_the_speed_is_a_change_of_100_percent(tmp_path):
    slow = bench_files.rows(3, build_number=1)
    fast = [
        test
        | {
            "build_number": 2,
            "flash_attn": False,
            "avg_ts": 2 * test["avg_ts"],
            "samples_ts": [2 * speed for speed in test["samples_ts"]],
        }
        for test in slow
    ]
    a = opened(tmp_path / "a", bench_files.written(slow, "json"))
    b = opened(tmp_path / "b", bench_files.written(fast[:-1], "json"))

    comparison = compare_bench(a, b)

    assert [change.relative for change in comparison.changes] == pytest.approx(
        [1.0] * 7
    )
    assert comparison.only_a == (a.test(7),)
    assert {key for key, _, _ in comparison.differs} == {"flash_attn", "build_number"}
    for change, test in zip(comparison.changes, slow, strict=False):
        lowest, highest = 2 * min(test["samples_ts"]), max(test["samples_ts"])
        assert change.within_noise == (lowest <= highest)


def test_flash_attention_of_old_and_new_versions_is_the_same(tmp_path):
    new = bench_files.rows(4, flash_attn=1)
    a = opened(tmp_path / "a", bench_files.text("jsonl"))
    b = opened(tmp_path / "b", bench_files.written(new, "csv"))

    assert "flash_attn" in compare_bench(a, b).matched_by


def test_one_repetition_does_not_show_noise(tmp_path):
    tests = [
        test | {"samples_ts": test["samples_ts"][:1], "stddev_ts": 0.0}
        for test in bench_files.rows(5)
    ]
    runs = opened(tmp_path / "a", bench_files.written(tests, "jsonl"))

    changes = compare_bench(runs, runs).changes

    assert {change.within_noise for change in changes} == {None}


def test_varying_keys_are_those_with_several_values(tmp_path):
    tests = bench_files.rows(6)
    tests[1]["n_threads"] = 8
    runs = opened(tmp_path / "a", bench_files.written(tests, "jsonl"))

    assert set(varying_keys([runs])) == {"n_threads", "n_prompt", "n_gen"}


def test_many_rows_are_read(tmp_path):
    row = bench_files.written(bench_files.rows(7, 1), "jsonl")

    runs = opened(tmp_path / "x", row * 5000)

    assert len(runs) == 5000
    assert np.isclose(speed_of(runs, 4999).mean, speed_of(runs, 0).mean)
