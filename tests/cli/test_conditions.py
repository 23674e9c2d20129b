"""Commands state a condition of a file or machine where it holds, and only there."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import builders
import ggmlviz_files
import gguf_files
import map_files
from ggscope.analysis.completeness.expected import completeness
from ggscope.cli import bench, live, self_test, stats, window
from ggscope.cli.check import judge
from ggscope.cli.reading import ways_to_read
from ggscope.descriptions.completeness import completeness_text
from ggscope.descriptions.files import join_text
from ggscope.errors import TooLargeError
from ggscope.exporters.ascii import ascii_timeline
from ggscope.gui.single_instance import client
from ggscope.model.trace import MatchReport, Trace
from ggscope.readers import memory
from ggscope.readers.api import Estimate
from ggscope.readers.discovery import FileSet, Skipped
from ggscope.readers.registry import open_trace
from ggscope.session_loading import notes_of
from ring_writer import Writer
from statements import new_statement, new_statements
from support import ROOT
from tensor_files import encode, llama_trace
from unrecorded_ops_traces import joined

SAMPLES = ROOT / "resources" / "samples"


# -- claims that need a file, or a state of the machine, of their own ----------------


def test_unfinished_kinds_of_models_are_distinguished(run, tmp_path) -> None:
    whole = tmp_path / "whole.gguf"
    whole.write_bytes(gguf_files.encode([gguf_files.T("blk.0.a.weight", (64,))]))
    odd = tmp_path / "odd.gguf"
    odd.write_bytes(gguf_files.encode([gguf_files.T("blk.0.a.weight", (64,), 77)]))
    parts = [tmp_path / f"big-{i:05d}-of-00003.gguf" for i in (1, 2)]
    for i, path in enumerate(parts):
        rows = [gguf_files.T(f"blk.{i}.a.weight", (64,))]
        own = {"split.no": (gguf_files.U32, i), "split.count": (gguf_files.U32, 3)}
        path.write_bytes(gguf_files.encode(rows, own))

    out = run("info", whole).out

    assert "1 of unknown size" in run("info", odd).out
    assert "of unknown size" not in out
    assert "2 of 3 at hand" in run("info", parts[0]).out
    assert "at hand" not in out


def test_slices_of_experts_are_counted_where_they_are_listed(run, tmp_path) -> None:
    def shown(*names: str) -> str:
        rows = [map_files.row(name, 700 * i, 700) for i, name in enumerate(names)]
        path = tmp_path / "memory-map.json"
        path.write_text(map_files.document(*rows))
        return run("info", path).out

    stack = "blk.0.ffn_up_exps.weight"
    slices = shown(f"{stack}[0]", f"{stack}[1]")
    assert "(2 slices of experts listed)" in slices
    assert "slices of experts" not in shown(stack)


@pytest.mark.parametrize("command", [("open",), ("bench",)])
def test_paths_that_lead_nowhere_are_reported(
    run, monkeypatch, tmp_path, command
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    there = tmp_path / "there.bin"
    there.write_bytes(b"x")

    none = run(*command, tmp_path / "nowhere.bin")
    one = run(*command, there)

    assert new_statements(none.err, one.err)
    assert "no display to open" in one.err


def test_memory_that_is_allocated_at_a_used_pointer_is_reported(run, tmp_path) -> None:
    def shown(*steps: tuple[int, int, int]) -> str:
        events = [
            ggmlviz_files.Event(kind, 1000 + 10 * i, pointer, 0, size)
            for i, (kind, pointer, size) in enumerate(steps)
        ]
        path = ggmlviz_files.write(tmp_path / "memory.ggmlviz", events)
        return run("info", path).out

    first = [(4, 10, 100), (5, 10, 0)]

    assert new_statements(shown(*first, (4, 10, 50)), shown(*first, (4, 11, 50)))


def test_ops_that_no_record_reports_have_rows_without_figures(
    run, tmp_path, monkeypatch
) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(encode(llama_trace(2), "256"))
    first = run("stats", file)
    monkeypatch.setattr(stats, "load", lambda *_: joined())
    second = run("stats", file)
    plain, silent = first.out + first.err, second.out + second.err

    assert len(new_statements(silent, plain)) >= 2


@pytest.mark.parametrize("option", ["--web", "--no-hook", "--port=80"])
def test_options_of_ggml_viz_are_reported_to_do_nothing(run, option) -> None:
    file = SAMPLES / "llama.ggmlviz"

    assert new_statement(run("check", option, file).err, run("check", file).err)


def test_file_that_does_not_fit_may_be_read_in_part(run, monkeypatch) -> None:
    file = SAMPLES / "tinyllama-256.bin"
    good = run("info", file)
    monkeypatch.setattr(memory, "available_bytes", lambda: 100_000)
    records = run("info", file).err

    assert new_statements(records.replace("Read a part", "read a part"), good.err)
    n = int(re.search(r"--records 0:(\d+)", records).group(1))
    assert run("info", file, "--records", f"0:{n}").code == 0
    assert run("info", file, "--records", f"0:{10 * n}").code != 0
    forced = run("info", file, "--force")
    for unsaid in (forced.err, good.err, run("info", file, "--records", f"0:{n}").err):
        assert new_statements(records, unsaid)
    assert forced.code == 0


def test_self_test_that_fails_says_why(run, monkeypatch) -> None:
    monkeypatch.setattr(self_test, "_try_sample", lambda _: None)
    good = run("self-test")

    def fail(_: Path) -> None:
        raise OSError("no such thing")

    monkeypatch.setattr(self_test, "_try_sample", fail)
    bad = run("self-test")

    assert (good.code, bad.code) == (0, 1)
    assert new_statement(bad.err, good.out + good.err)
    assert new_statements(good.out + good.err, bad.out + bad.err)


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


def test_probe_of_the_graphics_card_that_dies_is_reported(run, monkeypatch) -> None:
    def shown(code: int) -> str:
        done = subprocess.CompletedProcess([], code, '{"OpenGL": "4.6"}', "")
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
        return run("info", "--system").out

    monkeypatch.setenv("DISPLAY", ":1")
    assert new_statement(shown(3), shown(0))


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="rings need Linux")
def test_live_reports_a_ring_only_where_there_is_one(
    run, tmp_path, monkeypatch
) -> None:
    writer = Writer(tmp_path / "ring")
    writer.graph()
    writer.end()
    there = run("live", "--seconds", "5", tmp_path / "ring")
    monkeypatch.delenv("GGSCOPE_RING", raising=False)
    monkeypatch.setattr(live, "path_to_follow", lambda _: None)
    none = run("live", "--seconds", "0.1")

    assert new_statement(none.err, there.err)
    assert "400 ops" in there.out.split(" · ")
    assert none.out == ""


# -- windows ---------------------------------------------------------------------------


def test_display_is_missing_only_where_there_is_none(run, monkeypatch) -> None:
    file = SAMPLES / "llama.ggmlviz"
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(window, "_hand_over", lambda *_: client.HandoverResult())
    monkeypatch.setattr(window, "_run", lambda *_: 0)
    monkeypatch.setattr(bench, "_measure", lambda _: {})
    monkeypatch.setattr(bench, "_line", lambda _: "{}")
    done = subprocess.CompletedProcess([], 0, '{"OpenGL": "4.6"}', "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    commands = [("open", file), ("bench", file)]

    refused = [run(*command) for command in commands]
    assert all("no display to open" in result.err for result in refused)
    assert "there is no display" in run("info", "--system").out
    monkeypatch.setenv("DISPLAY", ":1")
    answers = [run(*command) for command in commands]

    assert [result.code for result in answers] == [0, 0]
    assert not any("display" in result.err for result in answers)
    assert "there is no display" not in run("info", "--system").out


def test_files_are_handed_over_where_a_window_takes_them(run, monkeypatch) -> None:
    def message(*files: Path, is_accepted: bool) -> str:
        result = client.HandoverResult(is_accepted=is_accepted)
        monkeypatch.setattr(window, "_hand_over", lambda *_: result)
        return run("open", *files).err

    file = SAMPLES / "llama.ggmlviz"
    monkeypatch.setenv("DISPLAY", ":1")
    monkeypatch.setattr(window, "_run", lambda *_: 0)

    for files in ((), (file,)):
        assert "--new-window" in message(*files, is_accepted=True)
    assert str(file) in message(file, is_accepted=True)
    assert message(file, is_accepted=False) == ""


# -- what is asked for -----------------------------------------------------------------


def test_command_that_does_not_exist_is_guessed_only_where_one_is_alike(run) -> None:
    assert "Did you mean info?" in run("inof").err
    assert "Did you mean" not in run("qqqqq").err


def test_info_needs_a_file_or_an_option(run) -> None:
    assert run("info").code == 2
    assert run("info", "--formats").code == 0
    assert run("info", SAMPLES / "llama.ggmlviz").code == 0


def test_shift_of_a_file_that_is_not_there_is_refused(run) -> None:
    folder = SAMPLES / "moe-experiment"

    assert run("info", folder, "--shift", "nothing.json=1ms").code != 0
    assert run("info", folder, "--shift", "buffer-timeline.json=1ms").code == 0


@pytest.mark.parametrize("names", [True, False])
def test_fewer_names_are_offered_where_a_reader_can_read_fewer(
    tmp_path, monkeypatch, names: bool
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 1 << 20)

    guard = memory.MemoryGuard(tmp_path, hint=ways_to_read)

    with pytest.raises(TooLargeError) as caught:
        guard(Estimate(10**9, 40 * 10**9, 10**9, True, names))

    assert ("--names" in f"{caught.value} {caught.value.hint}") == names


# -- what a file holds -----------------------------------------------------------------


def test_free_of_memory_that_was_never_allocated_is_stated(run, tmp_path) -> None:
    def info(*kinds: int) -> str:
        events = [
            ggmlviz_files.Event(kind, 1000 + 10 * i, 10, 0, 100)
            for i, kind in enumerate(kinds)
        ]
        path = ggmlviz_files.write(tmp_path / "memory.ggmlviz", events)
        return run("info", path).out

    allocation, free = 4, 5
    assert "freed without an allocation" in info(free, allocation)
    assert "freed without an allocation" not in info(allocation, free)


def test_trace_that_breaks_its_own_rules_is_a_problem() -> None:
    good = builders.spans_trace([0, 10], [5, 15])
    broken = replace(good, spans=replace(good.spans, end=good.spans.start - 1))

    def codes(trace: Trace) -> set[str]:
        return {w["code"] for w in judge(trace, Path("a.bin"))["warnings"]}

    assert "inconsistent_trace" in codes(broken)
    assert "inconsistent_trace" not in codes(good)


@pytest.mark.parametrize(("n", "n_left_out"), [(401, 1), (400, 0)])
def test_lanes_that_are_not_drawn_in_letters_are_counted(n: int, n_left_out) -> None:
    lane = list(range(n))

    text = ascii_timeline(builders.spans_trace(lane, [i + 1 for i in lane], lane))

    assert ("more lanes of" in text) == bool(n_left_out)


@pytest.mark.parametrize(("n_fewer", "n_more"), [(0, 5), (5, 0)])
def test_range_of_what_is_missing_is_stated_where_there_is_one(n_fewer, n_more) -> None:
    whole = completeness(open_trace(SAMPLES / "tinyllama-256.bin"))

    def text(fewer: int, more: int) -> str:
        return completeness_text(
            replace(whole, n_missing=9, n_fewer=fewer, n_more=more)
        )

    expected = f"{9 - n_fewer} to {9 + n_more}"
    assert expected in text(n_fewer, n_more)
    assert expected not in text(0, 0)


def test_files_that_take_no_part_are_listed_up_to_three() -> None:
    def notes(n: int) -> str:
        skipped = tuple(Skipped(Path(f"{i}.txt"), "it is no trace.") for i in range(n))
        return "\n".join(note.message for note in notes_of(FileSet(skipped=skipped)))

    assert all(f"{i}.txt" in notes(3) for i in range(3))
    assert "3.txt" not in notes(4)
    assert notes(4) != notes(3)  # it says that there are more


def test_cut_names_are_counted_for_files_that_complete_them() -> None:
    names, others = (MatchReport(kind, "model.gguf", 3, 5) for kind in ("names", "map"))

    assert join_text(names) != join_text(others)
