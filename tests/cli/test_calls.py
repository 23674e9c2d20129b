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
    path = tmp_path / "x.txt"
    begun = '{"ts":0.02,"op_id":9,"phase":"B","name":"cuMemcpyDtoH"}'
    path.write_text("\n".join([*hook(CALLS), '{"ts":1.5,"op_id":', begun]))
    return path


def test_info_counts_calls_unmatched_and_broken_lines(run, path):
    result = run("info", path, "--json")

    assert result.code == 0
    data = json.loads(result.out)
    assert data["reader"] == "cuda-calls"
    assert data["events"] == {"calls": 3, "unmatched": 1, "broken_lines": 1}
    assert not data["completeness"]["known"]


def test_statistics_add_up_categories(run, path):
    result = run("stats", path, "--by", "category", "--json")

    rows = {row["key"]: row for row in json.loads(result.out)["rows"]}
    assert {key: row["count"] for key, row in rows.items()} == {
        "transfer": 2, "init": 1, "kernel": 1,
    }  # fmt: skip


SEED = """\
{"ts":0.000123,"op_id":0,"phase":"B","name":"cuInit"}
{"ts":0.000456,"op_id":0,"phase":"E","name":"cuInit","result":0}
{"ts":0.001234,"op_id":1,"phase":"B","name":"cuMemAlloc","details":{"size":4000000}}
{"ts":0.001890,"op_id":1,"phase":"E","name":"cuMemAlloc","details":{"ptr":"0xdeadbeef"}}
{"ts":0.015670,"op_id":2,"phase":"B","name":"cuMemcpyHtoD"}
{"ts":0.029450,"op_id":2,"phase":"E","name":"cuMemcpyHtoD","details":{"bandwidth_gbps":12.3}}
{"ts":0.029480,"op_id":3,"phase":"B","name":"cuLaunchKernel"}
{"ts":0.029503,"op_id":3,"phase":"E","name":"cuLaunchKernel","result":0}
"""
"""The eight lines with which call hooks are documented."""
GOLDEN = """\
seed.jsonl: 0.00 ms to 29.38 ms, one column = 554.3 us, 4 spans
         0.00 ms         8.86 ms         17.73 ms
         |---------------|---------------|---------------|----
Threads
  calls  I.Mm........................TTTTTTTTTTTTTTTTTTTTTTTTT  50.3 %

M memory_mgmt  T transfer  I init  . idle
Capital letters: busy for half of the column or more.
"""


def test_text_timeline_has_a_letter_per_category(run, tmp_path):
    source = tmp_path / "seed.jsonl"
    source.write_text(SEED)

    result = run("show", source, "--ascii", "--width", "70")

    assert result.out == GOLDEN


def test_text_timeline_marks_failed_calls(run, path):
    result = run("show", path, "--ascii")

    assert "F failed" in result.out
    assert "T transfer" in result.out


def test_folded_stacks_are_the_times_of_functions(run, path, tmp_path):
    out = tmp_path / "x.folded"

    assert run("convert", path, "--to", "folded", "-o", out).code == 0

    lines = out.read_text().splitlines()
    assert "Threads;calls;cuInit 1000000" in lines
    assert "Threads;calls;cuLaunchKernel 2000000" in lines


def test_gaps_are_those_between_calls(run, tmp_path):
    source = tmp_path / "seed.jsonl"
    source.write_text(SEED)

    result = json.loads(run("summary", source, "--gaps", "9", "--json").out)

    assert [gap["duration_ns"] for gap in result["gaps"]] == [
        13_780_000, 778_000, 30_000,
    ]  # fmt: skip
    assert result["gaps"][0]["before"] == "cuMemAlloc · 3.8 MiB"


def test_files_of_one_clock_lie_beside_each_other(run, tmp_path):
    line = '{{"ts":{},"op_id":1,"tid":{},"phase":"{}","name":"cuInit"}}\n'
    for tid, begin in ((1, 5000.25), (2, 5000.5)):
        text = line.format(begin, tid, "B") + line.format(begin + 0.5, tid, "E")
        (tmp_path / f"{tid}.jsonl").write_text(text)
    out = tmp_path / "both.csv"

    both = (tmp_path / "1.jsonl", "--with", tmp_path / "2.jsonl")
    assert run("convert", *both, "--to", "csv", "-o", out).code == 0

    with out.open(newline="") as lines:
        rows = list(csv.DictReader(line for line in lines if line[:1] != "#"))
    assert [int(row["start_ns"]) for row in rows] == [0, 250_000_000]


def test_failed_calls_are_listed_with_their_errors(run, path, tmp_path):
    out = tmp_path / "a.csv"

    where = ("--where", "name~failed")
    assert run("convert", path, "--to", "csv", "-o", out, *where).code == 0

    with out.open(newline="") as lines:
        rows = list(csv.DictReader(line for line in lines if line[:1] != "#"))
    assert [row["name"] for row in rows] == [
        "cuLaunchKernel · failed: 700 CUDA_ERROR_ILLEGAL_ADDRESS"
    ]


def test_table_of_spans_has_the_category(run, tmp_path):
    source, out = tmp_path / "a.log", tmp_path / "a.csv"
    source.write_bytes(cuda_files.text("strace", 1, 5))

    assert run("convert", source, "--to", "csv", "-o", out).code == 0

    with out.open(newline="") as lines:
        rows = list(csv.DictReader(line for line in lines if line[:1] != "#"))
    assert {row["category"] for row in rows} == {"other"}
