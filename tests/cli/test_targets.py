"""What commands write to: one policy for figures, reports and converted traces."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import small_files
from tensor_files import encode, llama_trace

Run = Callable[..., Any]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a trace of three tokens in a folder of its own."""
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "run.bin"
    path.write_bytes(encode(llama_trace(3), "256"))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty folder to write to."""
    made = tmp_path / "out"
    made.mkdir()
    return made


def command(kind: str, trace: Path, folder: Path) -> tuple[list[object], Path]:
    """Return the words of a command that writes, and one of the files it writes."""
    if kind == "export":
        target = folder / "figure.png"
        return ["export", trace, "-o", target], target
    if kind == "check":
        target = folder / "report.html"
        return ["check", trace, "--report", target], target
    target = folder / "token-00001.json"
    return ["convert", trace, "--to", "token-json", "-o", folder], target


@pytest.mark.parametrize("kind", ["export", "check", "convert"])
@pytest.mark.parametrize("there", ["file", "link", "dangling link", "pipe"])
def test_what_is_there_is_not_replaced_unasked(
    run: Run, trace: Path, folder: Path, kind: str, there: str
) -> None:
    text, target = command(kind, trace, folder)
    other = trace.with_name("mine")
    other.write_text("mine")
    if there == "file":
        target.write_text("mine")
    elif there == "pipe":
        os.mkfifo(target)
    else:
        target.symlink_to(other if there == "link" else "nowhere")
    before = target.lstat()

    result = run(*text)

    assert result.code == 1
    assert str(target) in result.err
    assert "--force" in result.err
    assert os.path.samestat(target.lstat(), before)
    assert other.read_text() == "mine"
    assert there != "file" or target.read_text() == "mine"
    assert [path.name for path in folder.iterdir()] == [target.name]


@pytest.mark.parametrize("kind", ["check", "convert"])
def test_force_replaces_and_keeps_the_permissions(
    run: Run, trace: Path, folder: Path, kind: str
) -> None:
    text, target = command(kind, trace, folder)
    target.write_text("old")
    target.chmod(0o600)

    result = run(*text, "--force")

    assert result.code == 0, result.err
    assert target.read_text() != "old"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_export_writes_to_a_name_of_255_bytes_through_a_link(
    shell: Run, trace: Path, folder: Path
) -> None:
    name = "x" * 251 + ".svg"
    (folder / "link.svg").symlink_to(name)

    result = shell("export", trace, "-o", folder / "link.svg", "--force")

    assert result.code == 0, result.err
    assert (folder / "link.svg").is_symlink()
    assert (folder / name).read_text().endswith("</svg>\n")
    assert sorted(p.name for p in folder.iterdir()) == ["link.svg", name]


@pytest.mark.parametrize("kind", ["check", "convert"])
@pytest.mark.parametrize("is_there", [False, True])
def test_full_disk_leaves_what_was_there(
    run: Run,
    trace: Path,
    folder: Path,
    kind: str,
    is_there: bool,
) -> None:
    text, target = command(kind, trace, folder)
    if is_there:
        target.write_text("old")

    with small_files(100):
        result = run(*text, "--force")

    assert result.code == 1
    assert "cannot be written" in result.err
    assert "Traceback" not in result.err
    left = {path.name: path.read_text() for path in folder.iterdir()}
    assert left == ({target.name: "old"} if is_there else {})


def test_report_that_cannot_be_written_is_reported_before_the_work(
    run: Run, trace: Path, folder: Path
) -> None:
    for name, code, text in (
        ("no/r.html", 1, "no such folder"),
        ("r.txt", 2, "can be .html"),
    ):
        result = run("check", trace, "--report", folder / name)

        assert (result.code, result.out) == (code, "")
        assert text in result.err


def test_missing_folder_of_a_conversion_appears_whole(
    run: Run, trace: Path, folder: Path
) -> None:
    result = run("convert", trace, "--to", "token-json", "-o", folder / "a" / "b",
                 "--json")  # fmt: skip

    outputs = json.loads(result.out)["outputs"]
    assert len(outputs) == 3
    assert all(Path(path).is_file() for path in outputs)
    assert [path.name for path in (folder / "a").iterdir()] == ["b"]


@pytest.mark.parametrize("kind", ["export", "check", "convert"])
def test_help_says_what_force_does(run: Run, kind: str) -> None:
    assert "overwrite existing files" in " ".join(run(kind, "--help").out.split())
