"""Rings of other users are listed and recovered only where a person names one."""

import json
import os
from pathlib import Path

import pytest

from ggscope_capture.__main__ import main
from ggscope_capture.ring import Ring, defs_path
from hostile_rings import GONE_USER, ended_ring

pytestmark = pytest.mark.skipif(
    not hasattr(os, "posix_fallocate") or os.geteuid() != 0,
    reason="only root gives files away",
)


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ring of another user in a folder for all."""
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path))
    path = tmp_path / "ggscope-4000000001-abc"
    ended_ring(path)
    for each in (path, defs_path(path)):
        os.chown(each, GONE_USER, GONE_USER)
    return path


def test_rings_of_others_are_not_listed(
    theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = theirs.with_name("ggscope-4000000002-abc")
    ended_ring(mine)

    assert main(["rings", "--json"]) == 0

    assert [r["path"] for r in json.loads(capsys.readouterr().out)] == [str(mine)]


@pytest.mark.parametrize("command", ["recover", "save", "set"])
def test_number_of_a_process_names_only_own_rings(
    command: str, theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--no-enabled"] if command == "set" else ["-o", str(tmp_path / "out.bin")]

    assert main([command, "4000000001", *more]) == 1

    with Ring(theirs, is_owner=False) as ring:
        assert ring.waiting().sum() == 40
        assert ring.value("enabled") == 0
        assert ring.value("filter_seq") == 0
    assert not (tmp_path / "out.bin").exists()


def test_ring_that_is_named_in_full_is_recovered_and_it_is_reported_whose_it_is(
    theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.bin"

    assert main(["recover", str(theirs), "-o", str(out)]) == 0

    assert f"user {GONE_USER}" in capsys.readouterr().err
    assert json.loads(out.with_suffix(".json").read_bytes())["records"] == 40
    assert theirs.exists()
    assert not out.with_name("out.bin.partial").exists()
