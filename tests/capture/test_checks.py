"""What is checked on this machine before a program is traced."""

import json
import os
from pathlib import Path

import pytest

from ggscope_capture import launcher
from ggscope_capture.__main__ import main
from ggscope_capture.checks import machine_checks
from ggscope_capture.config import resolve
from ggscope_capture.native import build


@pytest.fixture(autouse=True)
def _own_environment(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("GGML_", "GGSCOPE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path))


def checked(output: Path | None = None) -> dict[str, bool | None]:
    result = machine_checks(resolve({}, None, os.environ), os.environ, output)
    return {check.name: check.works for check in result}


def texts(output: Path | None = None) -> dict[str, str]:
    result = machine_checks(resolve({}, None, os.environ), os.environ, output)
    return {check.name: check.text for check in result}


def test_machine_that_is_as_it_has_to_be_is_good(tmp_path, monkeypatch):
    library = tmp_path / "tracer.so"
    library.write_bytes(b"\x7fELF")
    monkeypatch.setenv("GGSCOPE_TRACER", str(library))

    assert checked(tmp_path / "new" / "a.bin") == {
        "tracer": True,
        "rings": True,
        "environment": True,
        "output": True,
    }


def test_tracer_that_is_missing_or_none_is_reported(tmp_path, monkeypatch):
    path = tmp_path / "tracer.so"
    monkeypatch.setenv("GGSCOPE_TRACER", str(path))
    missing = checked()["tracer"]
    path.write_text("no library")
    wrong = checked()["tracer"]
    monkeypatch.delenv("GGSCOPE_TRACER")
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    monkeypatch.setenv("CC", "no-such-compiler")
    without = checked()["tracer"]
    monkeypatch.setenv("CC", "sh -c")
    to_be_made = checked()["tracer"]

    assert (missing, wrong, without, to_be_made) == (False, False, False, None)


def test_folder_for_rings_must_be_there_and_have_room(tmp_path, monkeypatch):
    monkeypatch.setattr(launcher, "MIN_BYTES", 1 << 62)
    full = checked()["rings"]
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path / "none"))

    assert (full, checked()["rings"]) == (False, False)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folders_that_may_not_be_written_to_are_reported(tmp_path, monkeypatch):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    monkeypatch.setenv("GGSCOPE_RINGS", str(closed))

    assert checked(closed / "a.bin")["rings"] is False
    assert checked(closed / "a.bin")["output"] is False


@pytest.mark.parametrize(
    ("name", "value", "works"),
    [("GGML_VIZ_DISABLE", "1", False), ("GGML_VIZ_DISABLE", "0", True),
     ("GGML_VIZ_MAX_EVENTS", "5", None), ("GGSCOPE_CAPTURE_OPS", "MUL_MAT", None),
     ("GGSCOPE_CAPTURE_SAMPLE", "1", True), ("GGML_VIZ_OP_TIMING", "0", None),
     ("GGML_BACKEND_PATH", "/x.so", None), ("GGML_VIZ_LOG_LEVEL", "loud", None)],
)  # fmt: skip
def test_what_the_environment_leaves_out_is_reported_with_its_name(
    monkeypatch, name, value, works
):
    monkeypatch.setenv(name, value)

    assert checked()["environment"] is works
    assert (name in texts()["environment"]) == (works is not True)


def test_output_that_is_a_folder_or_there_already_is_reported(tmp_path):
    there = tmp_path / "a.bin"
    there.write_bytes(b"")

    assert checked(tmp_path)["output"] is False
    assert checked(there)["output"] is None
    assert "output" not in checked()


def test_doctor_prints_the_checks_without_a_program_too(tmp_path, capsys):
    code = main(["doctor", "--json", "-o", str(tmp_path / "a.bin")])
    alone = json.loads(capsys.readouterr().out)
    main(["doctor", "/bin/sh", "--json"])
    of_program = json.loads(capsys.readouterr().out)
    main(["doctor"])
    lines = capsys.readouterr().out.splitlines()

    assert code == 0
    assert [c["name"] for c in alone["checks"]] == [
        "tracer", "rings", "environment", "output",
    ]  # fmt: skip
    assert "linkage" not in alone
    assert of_program["linkage"] == "no-ggml"
    assert len(of_program["checks"]) == 3
    assert [line.split()[0] for line in lines] == ["tracer", "rings", "environment"]
