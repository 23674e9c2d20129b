"""What the command says of names that are too long, and of what is not there."""

import subprocess
import sys
from pathlib import Path

import pytest

import ggscope
import ggscope_capture
from ggscope_capture.__main__ import main
from ggscope_capture.config import resolve
from ggscope_capture.recording import Recorder
from ggscope_capture.recording_folder import FOLDER_SUFFIX, partial_of
from ring_writer import Writer

NAME = "n" * 300
PATH = "/tmp" + "/folder-with-a-name" * 300
TRUE = "/bin/true"
LONG_TEXT = 1_000
"""Longer lines say nothing that a person reads."""


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main([*map(str, arguments)])
    return code, capsys.readouterr().err


@pytest.mark.parametrize("name", [NAME, PATH], ids=["name", "path"])
@pytest.mark.parametrize(
    "command",
    [
        ("recover", "{}", "-o", "out.bin"), ("save", "{}", "-o", "out.bin"),
        ("set", "{}", "--sample", "2"), ("doctor", "{}"), ("models", "{}"),
        ("codemod", "{}"), ("targets", "--program", "{}"),
        ("demo", "{}", "--model", "nano"),
    ],
    ids=lambda command: command[0],
)  # fmt: skip
def test_names_that_are_too_long_are_reported(
    command: tuple[str, ...], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report = run_command(capsys, *(word.format(name) for word in command))

    assert code == 1
    assert "the name is too long" in report
    assert len(report) < LONG_TEXT
    assert "Errno" not in report


def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    line = [sys.executable, "-m", "ggscope_capture", *arguments]
    return subprocess.run(line, capture_output=True, check=False, timeout=60)


@pytest.mark.parametrize("name", [f"{NAME}.bin", f"{PATH}/out.bin", "x" * 252 + ".b"])
def test_program_runs_where_its_output_cannot_be_named(name: str) -> None:
    """The last one could be written, and its sidecar not."""
    lax = run("run", "-o", name, "--", TRUE)
    strict = run("run", "--require", "-o", name, "--", TRUE)

    for done, code in ((lax, 0), (strict, 125)):
        assert done.returncode == code
        assert b"the name is too long" in done.stderr
        assert b"Traceback" not in done.stderr
        assert len(done.stderr) < LONG_TEXT


def test_program_with_too_long_a_name_is_not_found() -> None:
    done = run("run", "-o", "out.bin", "--", PATH)

    assert done.returncode == 127
    assert b"not found" in done.stderr
    assert len(done.stderr) < LONG_TEXT


def test_long_output_has_a_recording_of_its_own(tmp_path: Path) -> None:
    """Its folder's name would be too long with what is added to it."""
    names = ["x" * 240 + end for end in ("a.bin", "b.bin", "ä.bin")]

    places = [partial_of(tmp_path / name) for name in names]

    assert len(set(places)) == 3
    writer = Writer(tmp_path / "ggscope-4000000001-abc")
    recorder = Recorder.begin(writer.path, places[0], resolve({}, None, {}).settings)
    assert recorder.folder == places[0]
    assert recorder.folder.name.endswith(FOLDER_SUFFIX)
    assert len(str(recorder.folder.name)) < 255
    short = partial_of(tmp_path / "out.bin")
    assert short.name == "out.bin.partial"


def test_version_is_that_of_the_viewer(capsys: pytest.CaptureFixture[str]) -> None:
    assert ggscope_capture.__version__ == ggscope.__version__
    for flag in ("--version", "-V"):
        with pytest.raises(SystemExit) as ended:
            main([flag])
        assert ended.value.code == 0
        out = capsys.readouterr().out
        assert out == f"ggscope-capture {ggscope.__version__}\n"


def test_no_rings_are_reported_as_none(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path))

    assert main(["rings"]) == 0
    assert str(tmp_path) in capsys.readouterr().out
    assert main(["rings", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"


@pytest.mark.parametrize("command", ["recover", "save"])
def test_ring_that_is_not_there_is_reported_by_name(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "nothing")

    code, report = run_command(capsys, command, path, "-o", str(tmp_path / "out.bin"))

    assert code == 1
    assert report == f"ggscope-capture: {path}: No such file or directory\n"
