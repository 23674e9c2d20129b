"""``ggscope diff``: what it refuses to compare."""

import json

import bench_files


def test_results_of_llama_bench_are_compared_by_another_command(run, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(bench_files.text("jsonl"))

    result = run("diff", path, path, "--json")

    facts = json.loads(result.out)
    assert result.code == 2
    assert facts["comparable"] is False
    assert "bench-table" in facts["reason"]
