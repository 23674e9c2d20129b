"""Subjects of unpublished commits are checked by `make lint`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT

SCRIPT = ROOT / "packaging" / "commit_subjects.py"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, "Seed of the project, in another form")
    git(tmp_path, "checkout", "-q", "-b", "work")
    return tmp_path


def git(folder: Path, *text: str) -> None:
    named = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    subprocess.run(["git", "-C", str(folder), *named, *text], check=True)


def commit(folder: Path, subject: str) -> None:
    git(folder, "commit", "-q", "--allow-empty", "-m", subject)


def checked(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the script as if it belonged to another checkout."""
    script = folder / "packaging" / SCRIPT.name
    script.parent.mkdir(exist_ok=True)
    script.write_bytes(SCRIPT.read_bytes())
    return subprocess.run(
        [sys.executable, str(script)],
        capture_output=True, text=True, check=False, env={**os.environ, **variables},
    )  # fmt: skip


@pytest.mark.parametrize(
    "subject",
    [
        "readers: stop at first bad ggmlviz label",
        "views, gui: pass keys that no view takes to the window",
        "render/gl: process rows in one pass",
        "x: " + "add " + "y" * 65,
    ],
)
def test_good_subject_passes(repository: Path, subject: str) -> None:
    commit(repository, subject)

    done = checked(repository)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "subject",
    [
        "stop at first bad ggmlviz label",
        "Readers: stop at first bad label",
        "readers: stop",
        "readers: stopped at first bad label",
        "readers: stopping at first bad label",
        "readers: stops at first bad label",
        "house: six rooms go into those that ask for them",
        "timeline: a label covers no other",
        "x: " + "add " + "y" * 66,
    ],
)
def test_bad_subject_is_named(repository: Path, subject: str) -> None:
    commit(repository, "readers: stop at first bad label")
    commit(repository, subject)

    done = checked(repository)

    assert done.returncode == 1
    assert subject in done.stderr
    assert "stop at first bad label\n" not in done.stderr.replace(subject, "")


def test_published_commits_and_merges_are_not_checked(repository: Path) -> None:
    git(repository, "checkout", "-q", "main")
    commit(repository, "Another one of the old form")
    git(repository, "checkout", "-q", "work")
    commit(repository, "readers: stop at first bad label")
    git(repository, "merge", "-q", "--no-ff", "-m", "Merge main", "main")

    assert checked(repository).returncode == 0


def test_nothing_is_checked_without_git(repository: Path, tmp_path: Path) -> None:
    commit(repository, "Of no form")
    (tmp_path / "none").mkdir()

    assert checked(repository).returncode == 1
    assert checked(repository, PATH=str(tmp_path / "none")).returncode == 0
