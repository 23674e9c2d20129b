"""``ggscope bench``: one line of JSON, or one clear message."""

import json

import pytest

from ggscope.cli.arguments import parse
from ggscope.cli.bench import child_command, median_figures
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"
SIX = ["first_s", "open_s", "fps", "p99_ms", "max_ms", "peak_mb"]
OFFSCREEN = {"QT_QPA_PLATFORM": "offscreen"}


@pytest.mark.parametrize(
    "name",
    ["llama.ggmlviz", pytest.param("tinyllama-256.bin", marks=pytest.mark.nightly)],
)
def test_bench_prints_one_line_with_plausible_figures(shell, name, tmp_path):
    result = shell(
        "bench", SAMPLES / name, "--seconds", "0.5", "--size", "800x500",
        **OFFSCREEN, XDG_CONFIG_HOME=str(tmp_path / "config"),
    )  # fmt: skip

    assert result.code == 0, result.err
    assert result.out.count("\n") == 1
    figures = json.loads(result.out)
    assert list(figures)[:6] == SIX
    assert 0 < figures["first_s"] <= figures["complete_s"] <= figures["open_s"]
    assert 0 < figures["moved"] <= figures["frames"]
    assert 0 < figures["median_ms"] <= figures["p99_ms"] <= figures["max_ms"]
    assert 0 < figures["fps"] <= figures["moved"] / 0.5 + 0.1
    assert 0 < figures["window_mb"] < figures["open_peak_mb"] <= figures["peak_mb"]
    assert figures["canvas"] == [800, 500]
    assert figures["rows"] > 0
    assert figures["records"] > 0
    assert not (tmp_path / "config").exists()


@pytest.mark.nightly
def test_bench_of_panes_measures_the_heatmap_and_selecting(shell):
    result = shell(
        "bench", SAMPLES / "tinyllama-256.bin", "--panes", "--seconds", "0.4",
        "--size", "800x500", **OFFSCREEN,
    )  # fmt: skip

    assert result.code == 0, result.err
    figures = json.loads(result.out)
    assert list(figures)[:6] == SIX
    assert figures["heatmap_first_s"] >= 0
    assert 0 < figures["heatmap_fps"] <= figures["heatmap_moved"] / 0.4 + 0.1
    assert figures["points"] > 0
    assert 0 < figures["points_fps"] <= figures["points_moved"] / 0.4 + 0.1
    assert 0 < figures["select_span_ms"] <= figures["select_span_max_ms"]
    assert 0 < figures["select_tensor_ms"] <= figures["select_tensor_max_ms"]
    assert figures["close_ms"] > 0
    assert "graph_fps" not in figures


def test_bench_of_panes_without_accesses_is_an_error(shell):
    result = shell(
        "bench", SAMPLES / "llama.ggmlviz", "--panes", "--seconds", "0.2", **OFFSCREEN
    )

    assert (result.code, result.out) == (1, "")
    assert "no offset in a model file" in result.err


@pytest.mark.nightly
def test_bench_rounds_are_medians_of_processes(shell):
    result = shell(
        "bench", SAMPLES / "llama.ggmlviz", "--seconds", "0.2", "--rounds", "2",
        "--size", "400x300", "--format", "ggmlviz", **OFFSCREEN,
    )  # fmt: skip

    figures = json.loads(result.out)
    assert figures["rounds"] == 2
    assert list(figures)[:6] == SIX
    assert figures["window_s"] > 0
    assert "round 2 of 2" in result.err


def test_bench_rounds_read_the_same_session_as_one_would():
    text = ["bench", "a.bin", "--with", "b.json", "--shift", "b.json=1ms", "--rounds"]
    text += ["3", "--option", "salvage=true", "--names", "none", "--panes", "--force"]
    arguments = parse(text)

    command = child_command(arguments)
    again = parse(command[command.index("bench") :])

    assert vars(again) == {**vars(arguments), "rounds": again.rounds}


def test_bench_without_a_display_says_what_to_do(shell):
    result = shell("bench", SAMPLES / "llama.ggmlviz")

    assert (result.code, result.out) == (1, "")
    assert "xvfb-run" in result.err


def test_bench_of_a_missing_file_is_an_error(shell, tmp_path):
    result = shell("bench", tmp_path / "none.bin", **OFFSCREEN)

    assert (result.code, result.out) == (1, "")
    assert "does not exist" in result.err


@pytest.mark.parametrize(("content", "code"), [("junk", 3), ("#built cut", 1)])
def test_bench_of_a_file_that_cannot_be_read_is_an_error(
    shell, tmp_path, content, code
):
    path = tmp_path / "odd.built"
    path.write_text(content)

    result = shell("bench", path, **OFFSCREEN)

    assert (result.code, result.out) == (code, "")
    assert "odd.built" in result.err


@pytest.mark.parametrize(
    "argv",
    [
        ["bench"],
        ["bench", "a.bin", "b.bin"],
        ["bench", "a.bin", "--seconds", "0"],
        ["bench", "a.bin", "--seconds", "nan"],
        ["bench", "a.bin", "--renderer", "fast"],
        ["bench", "a.bin", "--rounds", "0"],
    ],
)
def test_bench_with_wrong_usage_exits_with_two(run, argv):
    assert run(*argv).code == 2


def test_median_leaves_out_what_not_all_rounds_have_and_keeps_words():
    rounds = [
        {"fps": 60.0, "renderer": "raster", "frames": 300, "window_s": 0.4},
        {"fps": 50.0, "renderer": "raster", "frames": 250},
        {"fps": 55.0, "renderer": "raster", "frames": 275, "window_s": 0.5},
    ]

    assert median_figures(rounds) == {
        "fps": 55.0, "renderer": "raster", "frames": 275,
    }  # fmt: skip
