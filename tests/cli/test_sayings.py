"""What the commands say of very different files."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ggmlviz_files
import gguf_files
import map_files
from ggscope.cli import live, self_test, stats
from ggscope.readers import memory
from ring_writer import Writer
from sentences import assert_sides
from silent_ops import joined
from support import ROOT
from tensor_files import encode, llama_trace

SAMPLES = ROOT / "resources" / "samples"


# -- claims that need a file, or a state of the machine, of their own ----------------


def test_unfinished_kinds_of_models_are_told_apart(run, tmp_path) -> None:
    whole = tmp_path / "whole.gguf"
    whole.write_bytes(gguf_files.encode([gguf_files.T("blk.0.a.weight", (64,))]))
    odd = tmp_path / "odd.gguf"
    odd.write_bytes(gguf_files.encode([gguf_files.T("blk.0.a.weight", (64,), 77)]))
    parts = [tmp_path / f"big-{i:05d}-of-00003.gguf" for i in (1, 2)]
    for i, path in enumerate(parts):
        rows = [gguf_files.T(f"blk.{i}.a.weight", (64,))]
        own = {"split.no": (gguf_files.U32, i), "split.count": (gguf_files.U32, 3)}
        path.write_bytes(gguf_files.encode(rows, own))

    said = run("info", whole).out

    assert_sides("; * of unknown size", run("info", odd).out, said)
    assert_sides("* of * at hand", run("info", parts[0]).out, said)
    assert "2 of 3 at hand" in run("info", parts[0]).out


def test_slices_of_experts_are_counted_where_they_are_listed(run, tmp_path) -> None:
    def said(*names: str) -> str:
        rows = [map_files.row(name, 700 * i, 700) for i, name in enumerate(names)]
        path = tmp_path / "memory-map.json"
        path.write_text(map_files.document(*rows))
        return run("info", path).out

    stack = "blk.0.ffn_up_exps.weight"
    slices = said(f"{stack}[0]", f"{stack}[1]")
    assert_sides("(* slices of experts listed)", slices, said(stack))


@pytest.mark.parametrize("command", [("open",), ("bench",)])
def test_paths_that_lead_nowhere_are_told(run, monkeypatch, tmp_path, command) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    there = tmp_path / "there.bin"
    there.write_bytes(b"x")

    none = run(*command, tmp_path / "nowhere.bin")
    one = run(*command, there)

    claim = "*: the file does not exist. Check the path."
    assert_sides(claim, none.err, one.err)
    assert "there is no display" in one.err


def test_memory_that_is_allocated_at_a_used_pointer_is_told(run, tmp_path) -> None:
    def said(*steps: tuple[int, int, int]) -> str:
        events = [
            ggmlviz_files.Event(kind, 1000 + 10 * i, pointer, 0, size)
            for i, (kind, pointer, size) in enumerate(steps)
        ]
        path = ggmlviz_files.write(tmp_path / "memory.ggmlviz", events)
        return run("info", path).out

    first = [(4, 10, 100), (5, 10, 0)]

    assert_sides(
        "at a pointer that was used before",
        said(*first, (4, 10, 50)),
        said(*first, (4, 11, 50)),
    )


def test_ops_that_no_record_tells_of_have_rows_without_figures(
    run, tmp_path, monkeypatch
) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(encode(llama_trace(2), "256"))
    first = run("stats", file)
    monkeypatch.setattr(stats, "load", lambda *_: joined())
    second = run("stats", file)
    plain, silent = first.out + first.err, second.out + second.err

    assert_sides("not recorded, per pass", silent, plain)
    assert_sides(
        "*. Derived durations last until the next record, so they include these ops: "
        "durations of other ops are upper limits.",
        silent,
        plain,
    )


@pytest.mark.parametrize("option", ["--web", "--no-hook", "--port=80"])
def test_options_of_ggml_viz_are_told_to_do_nothing(run, option) -> None:
    file = SAMPLES / "llama.ggmlviz"

    assert_sides(
        "note: --* is accepted for ggml-viz users and does nothing here.",
        run("check", option, file).err,
        run("check", file).err,
    )


def test_file_that_does_not_fit_may_be_read_in_part(run, monkeypatch) -> None:
    file = SAMPLES / "tinyllama-256.bin"
    good = run("info", file)
    monkeypatch.setattr(memory, "available_bytes", lambda: 100_000)
    records = run("info", file).err

    claim = "read a part with --records 0:*"
    assert_sides(claim, records.replace("Read a part", "read a part"), good.err)
    n = int(re.search(r"--records 0:(\d+)", records).group(1))
    assert run("info", file, "--records", f"0:{n}").code == 0
    assert run("info", file, "--records", f"0:{10 * n}").code != 0
    claim = "or read it all the same with --force"
    forced = run("info", file, "--force")
    for unsaid in (forced.err, good.err, run("info", file, "--records", f"0:{n}").err):
        assert_sides(claim, records, unsaid)
    assert forced.code == 0


def test_self_test_that_fails_says_why(run, monkeypatch) -> None:
    monkeypatch.setattr(self_test, "_try_sample", lambda _: None)
    good = run("self-test")

    def fail(_: Path) -> None:
        raise OSError("no such thing")

    monkeypatch.setattr(self_test, "_try_sample", fail)
    bad = run("self-test")

    assert (good.code, bad.code) == (0, 1)
    assert_sides("self-test failed: *", bad.err, good.out + good.err)
    assert_sides("self-test passed.", good.out + good.err, bad.out + bad.err)


def test_self_test_as_json_names_the_samples_and_what_failed(run, monkeypatch) -> None:
    tried = list[str]()

    def second_fails(sample: Path) -> None:
        tried.append(sample.name)
        if len(tried) == 2:
            raise OSError("no such thing")

    monkeypatch.setattr(self_test, "_try_sample", second_fails)
    bad = run("self-test", "--json")
    monkeypatch.setattr(self_test, "_try_sample", lambda _: None)
    good = run("self-test", "--json")

    failed, passed = json.loads(bad.out), json.loads(good.out)
    assert (bad.code, failed["ok"]) == (1, False)
    assert [(s["sample"], s["ok"], s["error"]) for s in failed["samples"]] == [
        (tried[0], True, None), (tried[1], False, "no such thing"),
    ]  # fmt: skip
    assert (good.code, passed["ok"]) == (0, True)
    assert all(s["ok"] and s["seconds"] >= 0 for s in passed["samples"])
    assert len(passed["samples"]) > 2


def test_probe_of_the_graphics_card_that_dies_is_told(run, monkeypatch) -> None:
    def said(code: int) -> str:
        done = subprocess.CompletedProcess([], code, '{"OpenGL": "4.6"}', "")
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
        return run("info", "--system").out

    monkeypatch.setenv("DISPLAY", ":1")
    assert_sides("not available (exit code *)", said(3), said(0))


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="rings need Linux")
def test_live_tells_of_a_ring_only_where_there_is_one(
    run, tmp_path, monkeypatch
) -> None:
    writer = Writer(tmp_path / "ring")
    writer.graph()
    writer.end()
    there = run("live", "--seconds", "5", tmp_path / "ring")
    monkeypatch.delenv("GGSCOPE_RING", raising=False)
    monkeypatch.setattr(live, "path_to_follow", lambda _: None)
    none = run("live", "--seconds", "0.1")

    message = "waiting for a traced program to start computing."
    assert_sides(message, none.err, there.err)
    assert "400 ops" in there.out.split(" · ")
    assert none.out == ""
