"""``ggscope bench-table``: rows, Markdown and comparison."""

import json
from pathlib import Path

import pytest

import bench_files
import people


@pytest.fixture
def files(tmp_path) -> tuple[Path, Path]:
    a, b = tmp_path / "a.jsonl", tmp_path / "b.csv"
    a.write_bytes(bench_files.written(bench_files.rows(1), "jsonl"))
    b.write_bytes(bench_files.written(bench_files.rows(1, n_threads=8), "csv"))
    return a, b


def test_rows_have_the_keys_of_llama_bench(run, files):
    value = json.loads(run("bench-table", *files, "--json").out)

    tests = bench_files.rows(1)
    assert len(value["rows"]) == 2 * len(tests)
    first = {k: v for k, v in value["rows"][0].items() if k not in ("file", "test")}
    assert first == tests[0]
    assert "n_threads" in value["varying"]


def test_table_shows_what_varies(run, files):
    out = run("bench-table", *files).out

    assert "n_threads" in out
    assert "pp128" in out
    assert "cpu_info" not in out


@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "sql"])
def test_markdown_is_what_llama_bench_itself_prints(run, tmp_path, form):
    tests = bench_files.rows(1, n_depth=512, flash_attn=-1)
    path = tmp_path / "x.txt"
    path.write_bytes(bench_files.written(tests, form))

    out = run("bench-table", path, "--markdown").out

    assert out.encode() == bench_files.written(tests, "md")


def test_markdown_shows_what_varies_and_what_is_not_at_its_default(run, tmp_path):
    tests = bench_files.rows(
        1, backends="CUDA", n_gpu_layers=99, type_k="q8_0", split_mode="layer",
        flash_attn=-1, new_option=7,
    )  # fmt: skip
    for i, test in enumerate(tests):
        test |= {"n_ubatch": 256 << (i % 2), "newer": i}
    path = tmp_path / "x.txt"
    path.write_bytes(bench_files.written(tests, "jsonl"))

    head = run("bench-table", path, "--markdown").out.splitlines()[0]

    titles = [cell.strip() for cell in head.strip("|").split("|")]
    assert titles == [
        "model", "size", "params", "backend", "ngl", "n_ubatch", "type_k", "newer",
        "test", "t/s",
    ]  # fmt: skip


def test_markdown_read_and_written_again_is_the_same(run, tmp_path):
    first = tmp_path / "a.md"
    first.write_bytes(bench_files.text("md"))
    other = tmp_path / "b.md"
    other.write_bytes(bench_files.text("md").replace(b"threads", b"new_key"))

    assert run("bench-table", first, "--markdown").out == first.read_text()
    assert " new_key |" in run("bench-table", other, "--markdown").out


def test_markdown_of_several_files_and_builds_is_a_table_each(run, files):
    out = run("bench-table", *files, "--markdown", "--limit", "2").out

    assert [line for line in out.splitlines() if line.startswith("**")] == [
        "**a.jsonl**",
        "**b.csv**",
    ]
    assert out.count("build: 12345678 (6865)") == 2
    assert out.count("llama 1B Q4_0") == 4


def test_comparison_names_what_was_changed(run, files):
    result = run("bench-table", *files, "--compare")

    assert "n_threads: 4 → 8" in result.out
    assert "ranges overlap" in result.out  # a form without repetitions
    value = json.loads(run("bench-table", *files, "--compare", "--json").out)
    rows = value["comparison"]["rows"]
    assert {round(row["relative"], 9) for row in rows} == {0.0}
    assert {row["difference"] for row in rows} == {None}
    assert run("bench-table", files[0], "--compare").code == 2


def test_comparison_of_repetitions_has_intervals(run, files, tmp_path):
    other = tmp_path / "c.jsonl"
    other.write_bytes(bench_files.written(bench_files.rows(1, n_threads=2), "jsonl"))

    result = run("bench-table", files[0], other, "--compare", "--json")

    for row in json.loads(result.out)["comparison"]["rows"]:
        assert row["difference"]["low"] < 0 < row["difference"]["high"]
    assert "noise" in run("bench-table", files[0], other, "--compare").out


def test_other_files_are_named_and_the_rest_is_printed(run, files, tmp_path):
    other = tmp_path / "x.ggmlviz"
    other.write_bytes(b"nothing of this kind\n")

    result = run("bench-table", files[0], other)

    assert result.code != 0
    assert "x.ggmlviz" in result.err
    assert "pp128" in result.out


@people.each("llama-bench")  # of the corpus
def test_files_of_people_have_the_counts_of_the_index(run, tmp_path, name):
    entry = people.counts("llama-bench")[name]
    copy = tmp_path / "x.txt"
    copy.write_bytes(people.content(name))

    events = json.loads(run("info", copy, "--json").out)["events"]
    rows = json.loads(run("bench-table", copy, "--json").out)["rows"]

    assert events == {"runs": entry["rows"], "repetitions": entry["repetitions"]}
    assert float(str(entry["avg_ts_first"])) == rows[0]["avg_ts"]


def test_info_of_two_files_counts_the_tests_of_both(run, tmp_path):
    files = []
    for name, commit in (("a", "aaaa1111"), ("b", "bbbb2222")):
        files.append(tmp_path / f"{name}.jsonl")
        tests = bench_files.rows(1, build_commit=commit)
        files[-1].write_bytes(bench_files.written(tests, "jsonl"))

    value = json.loads(run("info", files[0], "--with", files[1], "--json").out)

    n = 2 * len(bench_files.rows(1))
    assert value["counts"]["records"] == n
    assert value["events"] == {"runs": n, "repetitions": 3 * n}
    assert value["producer"]["build_commit"] == "aaaa1111, bbbb2222"
    assert value["producer"]["cpu_info"] == "a processor"
