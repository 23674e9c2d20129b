"""Folders and further files on the command line."""

import json
import shutil
from pathlib import Path

import pytest

import recordings
from session_files import write_experiment, write_map
from statements import new_statements
from support import ROOT, need_corpus
from tensor_files import encode, llama_trace

EXPERIMENT = ROOT / "resources" / "samples" / "moe-experiment"
NPU = "npu-prefill-decode.json"


@pytest.fixture
def folder(tmp_path):
    return write_experiment(tmp_path / "run")


def test_info_of_a_folder_lists_its_files_and_hit_rates(run, folder):
    result = run("info", folder)

    assert result.code == 0
    assert "2 files in one session" in result.out
    assert (
        "accesses with a tensor of memory-map.json: 4 of 4 (100.0 %): name 4; "
        "delta 4,096, all 4 agree"
    ) in result.out


def test_info_of_a_folder_as_json_has_parts_and_joins(run, folder):
    facts = json.loads(run("info", folder, "--json").out)

    assert [(p["role"], p["reader"], p["shift"]) for p in facts["parts"]] == [
        ("trace", "trace-json", 0),
        ("map", "memory-map", 0),
    ]
    assert facts["joins"] == [
        {
            "kind": "map",
            "part": "memory-map.json",
            "found": 4,
            "all": 4,
            "rules": {"name": 4},
            "delta": 4096,
            "agree": 4,
            "nodes": 0,
            "nodes_not_recorded": {},
        }
    ]


def test_info_of_a_file_alone_has_no_parts(run, folder):
    path = folder / "traces" / "token-00000.json"
    facts = json.loads(run("info", path, "--json").out)

    assert facts["parts"] == facts["joins"] == []
    assert "in one session" not in run("info", path).out


@pytest.mark.parametrize("option", ["--with", "--gguf"])
def test_named_files_join_the_session_of_each_file(run, folder, option):
    trace = folder / "traces" / "token-00000.json"
    result = run("info", trace, option, folder / "memory-map.json", "--json")

    assert json.loads(result.out)["joins"][0]["delta"] == 4096


def test_option_before_the_command_is_no_command(run, folder):
    trace = folder / "traces" / "token-00000.json"
    result = run("--with", folder / "memory-map.json", "info", trace)

    assert "2 files in one session" in result.out


def test_check_lists_what_does_not_fit(run, folder, tmp_path):
    wrong = [(f"blk.{i}.ffn_up.weight", i * i * 77, 8) for i in range(6)]
    other = write_map(tmp_path / "other.json", wrong)

    result = run("check", folder, "--with", other)

    assert result.code == 0
    assert "part_does_not_fit" in result.out
    assert "other.json does not match this trace" in result.out


def test_hot_and_cache_say_why_a_model_is_refused(run, folder, tmp_path):
    trace = folder / "traces" / "token-00000.json"
    wrong = [(f"blk.{i}.ffn_up.weight", i * i * 77, 8) for i in range(6)]
    other = write_map(tmp_path / "other.json", wrong)

    hot = json.loads(run("hot", trace, "--with", other, "--json").out)
    cache = json.loads(run("cache", trace, "--with", other, "--json").out)
    fits = json.loads(run("hot", folder, "--json").out)

    assert [one["file"] for one in hot["refused"]] == ["other.json"]
    assert cache["refused"] == [one["why"] for one in hot["refused"]]
    (never,) = (f for f in hot["facts"] if f["title"] == "Never touched")
    assert hot["refused"][0]["why"] in never["remark"]
    assert fits["refused"] == []


@pytest.mark.parametrize("command", ["info", "check", "stats", "hot"])
@pytest.mark.parametrize(("content", "code"), [(None, 1), (b"# no trace", 3)])
def test_file_that_cannot_be_read_is_refused_whatever_lies_beside_it(
    run, folder, tmp_path, command, content, code
):
    path = tmp_path / "gone.bin"
    if content is not None:
        path.write_bytes(content)

    alone = run(command, path)
    beside = run(command, path, "--with", folder / "memory-map.json")

    assert (alone.code, beside.code) == (code, code)
    assert (beside.out, beside.err) == (alone.out, alone.err)


def test_file_that_only_its_named_reader_takes_has_the_others_beside_it(
    run, folder, tmp_path
):
    records = encode(llama_trace(1), "256")
    path = tmp_path / "run.bin"
    path.write_bytes(b"\xff" * 256 * 40 + records)  # begins as nothing does
    arguments = ("--with", folder / "memory-map.json", "--json")

    unnamed = run("info", path, *arguments)
    how = ("--reader", "tensor-access", "--option", "layout=256")
    named = run("info", path, *arguments, *how)

    assert unnamed.code == 3
    facts = json.loads(named.out)
    assert (named.code, facts["reader"]) == (0, "tensor-access")
    assert [part["role"] for part in facts["parts"]] == ["trace", "map"]
    assert facts["counts"]["spans"] > 0


def test_check_of_a_missing_part_is_an_error_and_the_rest_is_read(run, folder):
    result = run("check", folder, "--json", "--with", folder / "gone.json")

    (fault,) = (
        w for w in json.loads(result.out)["warnings"] if w["code"] == "part_unreadable"
    )
    assert result.code == 1
    assert "gone.json" in fault["message"]
    assert json.loads(result.out)["spans"]


def test_stats_and_show_take_folders(run, folder):
    assert "MUL_MAT" in run("stats", folder).out
    assert run("show", folder).code == 0


def test_folder_without_traces_says_what_it_found(run, tmp_path):
    (tmp_path / "notes.txt").write_text("hello")

    result = run("info", tmp_path)

    assert result.code == 1
    assert "no supported files in it" in result.err
    assert "notes.txt" in result.err


def test_info_of_a_real_folder_prints_the_hit_rates(run):
    result = run("info", need_corpus() / "bsc" / "3584a339")

    assert (
        "134 of 134 (100.0 %): name 18, unique prefix 116; delta 1,709,440, all 134 "
        "agree"
    ) in result.out
    assert "ops with a node of graphs/token-00000.json: 582 of 582" in result.out


@pytest.mark.parametrize("command", ["info", "check", "hot"])
def test_model_is_no_offer_to_a_trace_that_cannot_read_it(run, tmp_path, command):
    """The DRAM accesses of an NPU lead to no model file."""
    for path in (EXPERIMENT / "model.gguf", EXPERIMENT.parent / NPU):
        shutil.copy(path, tmp_path)

    result = run(command, tmp_path / NPU)

    assert result.code == 0
    assert "lies beside" not in result.err


@pytest.mark.parametrize("command", ["info", "check", "hot", "cache"])
def test_model_that_lies_beside_is_named_and_not_read(run, tmp_path, command):
    folder = tmp_path / "an experiment"
    folder.mkdir()
    for name in ("trace-1024.bin", "memory-map.json", "model.gguf"):
        shutil.copy(EXPERIMENT / name, folder)
    trace, model = folder / "trace-1024.bin", folder / "model.gguf"
    note = f"model.gguf lies beside it and is not read; --gguf '{model}' adds it."

    alone = run(command, trace, "--json")
    assert f"trace-1024.bin: {note}" in alone.err
    assert "lies beside" not in run(command, trace, "--gguf", model).err
    assert "lies beside" not in run(command, folder).err
    assert "lies beside" not in run(command, model).err
    assert "lies beside" not in run("stats", trace).err
    assert (
        "memory-map.json: model.gguf lies"
        in run(command, folder / "memory-map.json").err
    )

    model.rename(folder / "a.gguf")
    shutil.copy(EXPERIMENT / "model.gguf", folder / "b.gguf")
    several = run(command, trace).err
    assert "2 files such as a.gguf lie beside it" in several
    assert new_statements(several, alone.err)
    (folder / "a.gguf").unlink()
    (folder / "b.gguf").unlink()
    assert (
        "memory-map.json lies beside it and is not read; --with"
        in run(command, trace).err
    )


def test_shift_moves_the_times_of_one_file_and_no_others(run):
    sample = ROOT / "resources" / "samples" / "moe-experiment"
    plain = json.loads(run("info", sample, "--json").out)

    result = run("info", sample, "--json", "--shift", "buffer-timeline.json=-2.5ms")

    moved = json.loads(result.out)
    shifts = {Path(part["path"]).name: part["shift"] for part in moved["parts"]}
    assert shifts.pop("buffer-timeline.json") == -2_500_000
    assert set(shifts.values()) == {0}
    assert moved["buffers"]["peak_at"] == plain["buffers"]["peak_at"] - 2_500_000
    assert moved["extent"]["start"] == plain["extent"]["start"] - 2_500_000
    assert moved["counts"]["spans"] == plain["counts"]["spans"]
    wrong = run("info", sample, "--shift", "nothing.json=1ms")
    assert (wrong.code, "no file is called nothing.json" in wrong.err) == (2, True)
    alone = run("info", sample / "model.gguf", "--shift", "model.gguf=1ms")
    assert (alone.code, "model.gguf is alone" in alone.err) == (2, True)
    odd = run("info", sample, "--shift", "buffer-timeline.json=soon")
    assert (odd.code, "invalid time shift 'soon'" in odd.err) == (2, True)


@pytest.mark.parametrize("command", ["info", "stats", "check", "export"])
def test_file_that_fails_while_read_is_an_error_beside_others_too(
    run, folder, tmp_path, command
):
    path = tmp_path / "broken.built"
    path.write_text("#built cut")
    target = ("-o", tmp_path / "a.png") if command == "export" else ()

    alone = run(command, path, *target)
    beside = run(
        command, path, "--with", folder / "traces" / "token-00000.json", *target
    )

    assert alone.code == 1
    assert (beside.code, beside.out, beside.err) == (alone.code, alone.out, alone.err)


def test_records_that_are_gone_are_an_error_beside_their_sidecar(run, tmp_path):
    path = recordings.recording(tmp_path)
    path.write_bytes(b"")
    beside = run("info", path)
    sidecar = run("info", path.with_suffix(".json"))
    path.with_suffix(".json").unlink()

    alone = run("info", path)

    assert alone.code == 1
    assert (beside.code, beside.out, beside.err) == (alone.code, alone.out, alone.err)
    assert sidecar.code == 0


def test_broken_file_of_a_folder_is_a_problem_and_the_rest_is_read(run, folder):
    (folder / "traces" / "broken.built").write_text("#built cut")

    result = run("info", folder, "--json")

    facts = json.loads(result.out)
    assert result.code == 0
    assert "part_unreadable" in {w["code"] for w in facts["warnings"]}
    assert facts["counts"]["spans"] > 0
