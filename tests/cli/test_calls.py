"""Traces of CUDA calls on the command line: counts, statistics, text and tables."""

import csv
import json

import pytest

import cuda_files
from cuda_files import Call, hook

CALLS = [
    Call(0, 14_000, 1, "cuMemcpyHtoD", 0, 4_000_000), Call(15_000, 16_000, 1, "cuInit"),
    Call(17_000, 19_000, 1, "cuLaunchKernel", 0, -1, 700),
]  # fmt: skip


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "x.txt"
    begun = '{"ts":0.02,"op_id":9,"phase":"B","name":"cuMemcpyDtoH"}'
    found.write_text("\n".join([*hook(CALLS), '{"ts":1.5,"op_id":', begun]))
    return found


def test_info_counts_calls_unmatched_and_broken_lines(run, path):
    answer = run("info", path, "--json")

    assert answer.code == 0
    told = json.loads(answer.out)
    assert told["reader"] == "cuda-calls"
    assert told["events"] == {"calls": 3, "unmatched": 1, "broken_lines": 1}
    assert not told["completeness"]["known"]


def test_statistics_add_up_categories(run, path):
    answer = run("stats", path, "--by", "category", "--json")

    rows = {row["key"]: row for row in json.loads(answer.out)["rows"]}
    assert {key: row["count"] for key, row in rows.items()} == {
        "transfer": 2, "init": 1, "kernel": 1,
    }  # fmt: skip


def test_text_timeline_marks_failed_calls(run, path):
    answer = run("show", path, "--ascii", "--color-by", "category")

    assert "F failed" in answer.out
    assert "T transfer" in answer.out


def test_folded_stacks_are_the_times_of_functions(run, path, tmp_path):
    out = tmp_path / "x.folded"

    assert run("convert", path, "--to", "folded", "-o", out).code == 0

    lines = out.read_text().splitlines()
    assert "Threads;calls;cuInit 1000000" in lines
    assert "Threads;calls;cuLaunchKernel 2000000" in lines


def test_table_of_spans_has_the_category(run, tmp_path):
    source, out = tmp_path / "a.log", tmp_path / "a.csv"
    source.write_bytes(cuda_files.text("strace", 1, 5))

    assert run("convert", source, "--to", "csv", "-o", out).code == 0

    with out.open(newline="") as lines:
        rows = list(csv.DictReader(line for line in lines if line[:1] != "#"))
    assert {row["category"] for row in rows} == {"other"}
