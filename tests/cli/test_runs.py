"""``ggscope runs``: a table of the runs of a folder."""

import json

import pytest

import recordings


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    for threads in ("1", "2"):
        command = ["/bin/llama", "-m", "x.gguf", "-t", threads]
        recordings.recording(
            folder, f"t{threads}", command=command, **recordings.requests()
        )
    (folder / "notes.txt").write_text("no trace")
    return folder


def test_json_has_what_summary_and_stats_say_of_each_run(run, folder):
    result = run("runs", folder, "--json")

    data = json.loads(result.out)
    assert result.code == 0
    assert [one["run"] for one in data["runs"]] == ["t1.bin", "t2.bin"]
    assert [one["differs"] for one in data["runs"]] == ["-t 1", "-t 2"]
    assert [skipped["file"] for skipped in data["skipped"]] == [
        str(folder / "notes.txt")
    ]
    for one in data["runs"]:
        report = json.loads(run("summary", one["path"], "--json").out)["tokens"]
        for key in ("prompt", "generated", "prompt_per_s", "generated_per_s"):
            assert one[key] == report[key]
        stats = json.loads(
            run("stats", one["path"], "--by", "family", "--format", "json").out
        )
        times = {row["key"]: row["total_ns"] for row in stats["rows"]}
        assert {k: v["total_ns"] for k, v in one["families"].items()} == times
        assert one["events_read"]


def test_quick_reads_no_event_and_cached_runs_are_known_all_the_same(run, folder):
    quick = json.loads(run("runs", folder, "--quick", "--json").out)
    assert [one["families"] for one in quick["runs"]] == [None, None]
    assert all(one["generated"] for one in quick["runs"])

    run("runs", folder)
    cached = json.loads(run("runs", folder, "--quick", "--json").out)
    fresh = json.loads(run("runs", folder, "--quick", "--no-cache", "--json").out)

    assert all(one["families"] for one in cached["runs"])
    assert [one["families"] for one in fresh["runs"]] == [None, None]


def test_text_sorts_by_a_column_and_names_what_was_skipped(run, folder):
    result = run("runs", folder, "--sort", "size")

    lines = result.out.splitlines()
    assert lines[0].split()[:3] == ["run", "differs", "in"]
    assert {line.split()[0] for line in lines[1:3]} == {"t1.bin", "t2.bin"}
    assert "notes.txt" in result.err
    bad = run("runs", folder, "--sort", "nothing")
    assert bad.code == 2
    assert "generated_per_s" in bad.err


def test_damaged_run_is_an_error_of_its_own(run, folder):
    (folder / "bad.ggmlviz").write_bytes(b"GGMLVIZ1")

    result = run("runs", folder, "--json")

    values = {one["run"]: one for one in json.loads(result.out)["runs"]}
    assert result.code == 1
    assert values["bad.ggmlviz"]["error"]
    assert values["t1.bin"]["error"] is None


def test_empty_folder_and_file_say_so(run, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()

    assert "No runs" in run("runs", empty).out
    assert json.loads(run("runs", empty, "--json").out)["runs"] == []
    file = tmp_path / "file"
    file.write_text("x")
    assert run("runs", file).code == 2
