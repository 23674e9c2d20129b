"""Claims of the commands, each said where it is true and not by its neighbour."""

from dataclasses import replace
from pathlib import Path

import pytest

import builders
import ggmlviz_files
from ggscope.analysis.completeness.expected import completeness
from ggscope.cli import bench, system, window
from ggscope.cli.check import judge
from ggscope.cli.reading import _Guard
from ggscope.descriptions.completeness import completeness_words
from ggscope.descriptions.files import join_words
from ggscope.errors import TooLargeError
from ggscope.exporters.ascii import ascii_timeline
from ggscope.exporters.token_json import TokenJson
from ggscope.gui.single_instance import client
from ggscope.model.trace import MatchReport, Trace
from ggscope.readers import memory
from ggscope.readers.api import Estimate
from ggscope.readers.discovery import FileSet, Skipped
from ggscope.readers.registry import open_trace
from ggscope.session_loading import _notes_of
from sentences import assert_sides
from support import ROOT
from tensor_files import Rec, encode, llama_trace

SAMPLES = ROOT / "resources" / "samples"


# -- windows ---------------------------------------------------------------------------


@pytest.fixture
def no_display(monkeypatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")


@pytest.mark.usefixtures("no_display")
def test_what_a_display_is_needed_for_is_said_where_there_is_none(
    run, monkeypatch
) -> None:
    file = SAMPLES / "llama.ggmlviz"
    monkeypatch.setattr(window, "_hand_over", lambda *_: client.HandoverResult())
    monkeypatch.setattr(window, "_run", lambda *_: 0)
    monkeypatch.setattr(bench, "_measure", lambda _: {})
    monkeypatch.setattr(bench, "_line", lambda _: "{}")
    asked = [("open", file), ("bench", file)]
    without = [run(*words).err for words in asked]
    unasked = run("info", "--system").out
    monkeypatch.setenv("DISPLAY", ":1")
    done = system.subprocess.CompletedProcess([], 0, '{"OpenGL": "4.6"}', "")
    monkeypatch.setattr(system.subprocess, "run", lambda *_, **__: done)
    answers = [run(*words) for words in asked]

    assert [answer.code for answer in answers] == [0, 0]
    for claim, said, answer in zip(
        (
            "there is no display to open a window on. Use ggscope info, stats, show "
            "--ascii or export, which need none; or set DISPLAY.",
            "there is no display to open a window on. Run it under Xvfb, as in: "
            'xvfb-run -a -s "-screen 0 2048x1400x24" ggscope bench FILE; or set '
            "QT_QPA_PLATFORM=offscreen, which leaves out what a display costs.",
        ),
        without,
        answers,
        strict=True,
    ):
        assert_sides(claim, said, answer.err)
    assert_sides("not asked: there is no display", unasked, run("info", "--system").out)


def test_files_are_said_to_be_handed_over_where_a_window_took_them(
    run, monkeypatch
) -> None:
    def said(*files: Path, is_accepted: bool) -> str:
        found = client.HandoverResult(is_accepted=is_accepted)
        monkeypatch.setattr(window, "_hand_over", lambda *_: found)
        return run("open", *files).err

    file = SAMPLES / "llama.ggmlviz"
    monkeypatch.setenv("DISPLAY", ":1")
    monkeypatch.setattr(window, "_run", lambda *_: 0)
    none, one, alone = (
        said(is_accepted=True),
        said(file, is_accepted=True),
        said(file, is_accepted=False),
    )

    assert "already open" in none
    assert f"opened {file} in the running window" in one
    assert "--new-window" in none
    assert "--new-window" in one
    assert alone == ""


# -- what is asked for -----------------------------------------------------------------


def test_word_that_is_like_no_command_brings_no_guess(run) -> None:
    assert_sides("Did you mean *?", run("inof").err, run("qqqqq").err)


def test_info_without_a_file_says_what_it_needs(run) -> None:
    with_file = run("info", SAMPLES / "llama.ggmlviz")

    assert_sides(
        "info needs a FILE, --formats or --system.",
        run("info").err,
        with_file.err + run("info", "--formats").err,
    )


def test_shift_of_a_file_that_is_not_there_says_so(run) -> None:
    folder = SAMPLES / "moe-experiment"

    def said(name: str) -> str:
        return run("info", folder, "--shift", f"{name}=1ms").err

    assert_sides("no file is", said("nothing.json"), said("buffer-timeline.json"))


def test_fewer_names_are_offered_where_a_reader_can_read_fewer(
    tmp_path, monkeypatch
) -> None:
    def said(*, names: bool) -> str:
        monkeypatch.setattr(memory, "available_bytes", lambda: 1 << 20)
        with pytest.raises(TooLargeError) as found:
            _Guard(tmp_path, {})(Estimate(10**9, 40 * 10**9, 10**9, True, names))
        return f"{found.value} {found.value.hint}"

    assert_sides(
        "read fewer names with --names sampled or --names none",
        said(names=True),
        said(names=False),
    )


# -- what a file holds -----------------------------------------------------------------


def test_free_of_memory_that_was_never_allocated_is_told(run, tmp_path) -> None:
    def said(*kinds: int) -> str:
        events = [
            ggmlviz_files.Event(kind, 1000 + 10 * i, 10, 0, 100)
            for i, kind in enumerate(kinds)
        ]
        path = ggmlviz_files.write(tmp_path / "memory.ggmlviz", events)
        return run("info", path).out

    # 4 allocates, 5 frees.
    assert_sides("freed without an allocation", said(5, 4), said(4, 5))


def test_trace_that_breaks_its_own_rules_contradicts_itself() -> None:
    def said(trace: Trace) -> str:
        return str(judge(trace, Path("a.bin"))["warnings"])

    good = builders.spans_trace([0, 10], [5, 15])
    broken = replace(good, spans=replace(good.spans, end=good.spans.start - 1))

    assert_sides("The trace contradicts itself: *.", said(broken), said(good))


def test_extension_records_are_said_to_be_left_out_of_token_traces(tmp_path) -> None:
    def said(*more: Rec) -> str:
        records = llama_trace()
        records[6:6] = more
        path = tmp_path / "a.bin"
        path.write_bytes(encode(records, "256"))
        return "\n".join(TokenJson(open_trace(path), None).losses)

    extra = Rec(llama_trace()[5].time, "ext", 0xF0, token=0, thread=0)
    assert_sides("extension records are left out.", said(extra), said())


def test_lanes_that_are_not_drawn_in_letters_are_counted() -> None:
    def said(n: int) -> str:
        lane = list(range(n))
        return ascii_timeline(builders.spans_trace(lane, [i + 1 for i in lane], lane))

    assert_sides("(* more lanes of *)", said(401), said(400))


def test_trace_without_ops_has_nothing_to_be_complete_in() -> None:
    def said(op: int) -> str:
        return completeness_words(completeness(builders.spans_trace([0], [1], op=op)))

    assert_sides("the trace has no ops", said(-1), said(1))


def test_range_of_what_is_missing_is_told_where_there_is_one() -> None:
    def said(fewer: int, more: int) -> str:
        whole = completeness(open_trace(SAMPLES / "tinyllama-256.bin"))
        found = replace(whole, n_missing=9, n_fewer=fewer, n_more=more)
        return completeness_words(found)

    claim = (
        "; likely * to *, with those that every pass or the ends of the recording "
        "may lack"
    )
    assert_sides(claim, said(0, 5), said(0, 0))
    assert_sides(claim, said(5, 0), said(0, 0))


def test_files_that_take_no_part_are_listed_up_to_three() -> None:
    def said(n: int) -> str:
        skipped = tuple(Skipped(Path(f"{i}.txt"), "it is no trace.") for i in range(n))
        return "\n".join(note.message for note in _notes_of(FileSet(skipped=skipped)))

    assert all(f"{i}.txt" in said(3) for i in range(3))
    assert "3.txt" not in said(4)
    assert said(4) != said(3)  # it says that there are more


def test_cut_names_are_counted_for_files_that_complete_them() -> None:
    names, others = (MatchReport(kind, "model.gguf", 3, 5) for kind in ("names", "map"))

    assert_sides(
        "cut names completed from {0} without doubt",
        join_words(names),
        join_words(others),
    )
