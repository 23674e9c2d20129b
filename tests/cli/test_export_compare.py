"""``ggscope export --view compare``: two sides, folders of runs, what is refused."""

import json
import shutil

import pytest

from support import ROOT, sample_path

SAMPLE = ROOT / "resources" / "samples" / "tinyllama-256.bin"
NPU = ROOT / "resources" / "samples" / "npu-prefill-decode.json"


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_two_files_make_a_figure(run, tmp_path, suffix):
    target = tmp_path / f"a.{suffix}"

    result = run("export", "--view", "compare", SAMPLE, SAMPLE, "-o", target, "--json")

    value = json.loads(result.out)
    assert result.code == 0
    assert target.stat().st_size > 1000
    assert value["output"] == str(target)
    assert value["paths"] == [str(SAMPLE)] * 2
    assert value["caption"]


def test_folders_are_sides_of_several_runs(run, tmp_path):
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        for name in ("1.bin", "2.bin"):
            shutil.copy(SAMPLE, tmp_path / folder / name)

    result = run(
        "export", "--view", "compare", tmp_path / "old", tmp_path / "new",
        "-o", tmp_path / "a.svg", "--caption", "-",
        "--options", json.dumps({"show": "changes"}),
    )  # fmt: skip

    assert result.code == 0
    assert "old (2 runs)" in result.out
    assert "new (2 runs)" in result.out


@pytest.mark.parametrize("files", [[SAMPLE], [SAMPLE] * 3])
def test_other_than_two_sides_are_wrong_usage(run, tmp_path, files):
    result = run("export", "--view", "compare", *files, "-o", tmp_path / "a.png")

    assert result.code == 2
    assert not (tmp_path / "a.png").exists()


def test_other_views_beside_it_are_wrong_usage(run, tmp_path):
    views = "compare,timeline"

    result = run("export", "--view", views, SAMPLE, SAMPLE, "-o", tmp_path / "out")

    assert result.code == 2


def test_all_views_leave_it_out(run, tmp_path):
    result = run("export", "--view", "all", SAMPLE, "-o", tmp_path / "out")

    assert result.code == 0
    assert not [path for path in (tmp_path / "out").iterdir() if "compare" in path.name]


def test_what_cannot_be_compared_is_an_error(run, tmp_path):
    result = run("export", "--view", "compare", SAMPLE, NPU, "-o", tmp_path / "a.png")

    assert result.code not in (0, None)
    assert not (tmp_path / "a.png").exists()


def test_an_input_is_not_overwritten(run, tmp_path):
    copy = tmp_path / "run.png"
    shutil.copy(SAMPLE, copy)

    result = run("export", "--view", "compare", copy, SAMPLE, "-o", copy, "--force")

    assert result.code != 0
    assert copy.read_bytes() == SAMPLE.read_bytes()


def test_an_existing_figure_is_kept_without_force(run, tmp_path):
    target = tmp_path / "a.png"
    target.write_bytes(b"mine")

    result = run("export", "--view", "compare", SAMPLE, SAMPLE, "-o", target)

    assert result.code != 0
    assert target.read_bytes() == b"mine"


def test_a_model_beside_a_recording_is_no_run(run, tmp_path):
    folder = sample_path("moe-experiment")

    value = json.loads(run("diff", folder, folder, "--json").out)

    assert value["comparable"]
    assert (value["a"], value["b"]) == ([str(folder)], [str(folder)])
