"""Rings of other users are followed only where a person names one in full."""

import json
import os
import time
from pathlib import Path

import pytest

from ggscope.cli import main
from ggscope.live.open_source import follow, path_to_follow, rings
from ggscope.live.ring import defs_of
from hostile_rings import GONE_USER
from ring_writer import Writer

pytestmark = pytest.mark.skipif(
    not hasattr(os, "posix_fallocate") or os.geteuid() != 0,
    reason="only root gives files away",
)


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ring of another user, whose program runs, in a folder for all."""
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path))
    monkeypatch.delenv("GGSCOPE_RING", raising=False)
    tmp_path.chmod(0o1777)
    writer = Writer(tmp_path / "ggscope-4000000001-abc")
    writer.graph(10)
    for path in (writer.path, defs_of(writer.path)):
        os.chown(path, GONE_USER, GONE_USER)
    return writer.path


def test_ring_of_another_user_is_not_found(theirs: Path) -> None:
    mine = Writer(theirs.with_name("ggscope-4000000002-abc"))
    # Newer than what other programs of this machine write; theirs is newer still.
    now = time.time()
    os.utime(mine.path, (now + 1000, now + 1000))
    os.utime(theirs, (now + 2000, now + 2000))

    assert set(rings()) & {theirs, mine.path} == {mine.path}
    assert path_to_follow("4000000001") is None
    assert path_to_follow("4000000002") == mine.path
    assert path_to_follow(None) == mine.path
    mine.close()


def test_ring_of_another_user_that_is_named_says_whose_it_is(
    theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = follow(path_to_follow(str(theirs)) or Path())
    source.poll()
    status, trace = source.status(), source.snapshot()
    source.close()
    source.forget()

    assert status.records == 40
    assert status.run["owner"] == f"user {GONE_USER}"
    assert [w.severity.name for w in trace.warnings if w.code == "live_foreign"] == [
        "NOTICE"
    ]
    assert main(["live", str(theirs), "--json", "--seconds", "0.1"]) == 0
    assert json.loads(capsys.readouterr().out)["owner"] == f"user {GONE_USER}"


def test_own_ring_is_nobody_elses(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "ring")
    writer.graph(10)
    source = follow(writer.path)
    source.poll()
    codes = {w.code for w in source.snapshot().warnings}
    source.close()
    source.forget()

    assert "live_foreign" not in codes
    assert "owner" not in source.status().run
    writer.close()
