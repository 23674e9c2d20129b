"""`export` of several files: processes of their own, one of which may fail or die."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from functools import partial
from pathlib import Path

import pytest

from ggscope.cli import jobs
from ggscope.readers.api import Estimate
from statements import new_statement, new_statements
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"
GOOD = SAMPLES / "llama.ggmlviz"
PLUGIN = """
import os, pathlib, signal, sys, time
from ggscope.readers.api import ReaderInfo, Sniff

class Reader:
    info = ReaderInfo("rough", "made by a test", (".rough",), "Fails by its options.")

    def sniff(self, head):
        return Sniff(90 if head.data.startswith(b"#rough ") else 0)

    def read(self, source, context):
        words = source.head(4096).decode().split()
        if words[1] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        pathlib.Path(words[2]).write_text(str(os.getpid()))
        for _ in range(600):
            time.sleep(0.1)
            context.progress(0, 1)
"""


@pytest.fixture
def rough(plugin_folder: Path) -> None:
    (plugin_folder / "rough.py").write_text(PLUGIN)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.usefixtures("rough")
def test_results_do_not_depend_on_how_many_run_at_once(shell, tmp_path: Path) -> None:
    dead, broken = tmp_path / "dead.rough", tmp_path / "broken.bin"
    dead.write_text("#rough die")
    broken.write_text("junk")
    files = (dead, broken, GOOD)
    outputs = {}
    for n_jobs in (1, 3):
        result = shell("export", "--jobs", n_jobs, *files, "-o", "out", "--json")
        files_made = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
        (tmp_path / "out").rename(tmp_path / f"out-{n_jobs}")
        outputs[n_jobs] = result.code, result.out, files_made

    assert outputs[1] == outputs[3]
    code, out, made = outputs[3]
    data = json.loads(out)
    assert code == 3, "the worst of them: a format that nobody knows"
    assert [Path(f["path"]).name for f in data] == [p.name for p in files]
    assert "was ended by SIGKILL" in data[0]["error"]["message"]
    assert data[1]["error"]["code"] == "unknown_format"
    assert set(made) == {"llama.timeline.png"}
    assert "dead.rough: the process that drew its figures" in result.err
    assert "3 of 3 files: " in result.err


def test_quiet_batch_says_only_what_went_wrong(run, tmp_path: Path) -> None:
    (tmp_path / "broken.bin").write_text("junk")
    files = (GOOD, tmp_path / "broken.bin")

    result = run("export", "--quiet", *files, "-o", tmp_path / "out")

    assert result.code == 3
    assert result.out == ""
    (line,) = result.err.splitlines()
    assert "broken.bin: unknown file format" in line
    assert (tmp_path / "out" / "llama.timeline.png").is_file()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.usefixtures("rough")
def test_interrupt_ends_all_processes_and_leaves_nothing_half(tmp_path: Path) -> None:
    values = [tmp_path / f"{name}.pid" for name in "ab"]
    files = [tmp_path / f"{name}.rough" for name in "abc"]
    for file, pid in zip(files, [*values, values[0]], strict=True):
        file.write_text(f"#rough sleep {pid}")
    out = tmp_path / "out"
    out.mkdir()
    batch = subprocess.Popen(
        [sys.executable, "-m", "ggscope", "export", "--jobs", "2", *files, "-o", out],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # What a shell starts beside itself ignores it, and passes that on.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    try:
        until = time.monotonic() + 60
        while not all(p.exists() and p.read_text() for p in values):
            assert time.monotonic() < until
            assert batch.poll() is None
            time.sleep(0.05)
        batch.send_signal(signal.SIGINT)
        _, err = batch.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(batch.pid, signal.SIGKILL)

    assert batch.returncode == 130
    assert err == "ggscope: interrupted.\n"
    for pid in values:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)
    assert list(out.iterdir()) == []


def arguments(**more: object) -> Namespace:
    usual = {"jobs": None, "quiet": True, "force": False, "beside": [], "reader": None}
    reading = {"ops": None, "records": None, "names": None, "option": []}
    return Namespace(**usual | reading | more)


def test_no_more_files_at_once_than_fit_into_memory(monkeypatch) -> None:
    monkeypatch.setattr(jobs, "available_bytes", lambda: 8 << 30)
    needs = [6 << 30, 6 << 30, 1 << 30]

    def started(schedule: jobs.Schedule) -> list[int | None]:
        return [schedule.start_next(needs.__getitem__) for _ in needs]

    schedule = jobs.Schedule(3, 3, 8 << 30)
    assert started(schedule) == [0, None, None]
    assert not schedule.end(0, is_too_large=False)
    assert started(schedule) == [1, 2, None]
    assert schedule.running == {1: 6 << 30, 2: 1 << 30}
    assert started(jobs.Schedule(3, 3, 8 << 30, is_forced=True)) == [0, 1, 2]
    assert started(jobs.Schedule(3, 2, 1 << 40)) == [0, 1, None]
    monkeypatch.setattr(jobs, "available_bytes", lambda: 5 << 30)
    assert started(jobs.Schedule(3, 3, 1 << 40)) == [0, None, None]


def test_needed_memory_is_estimated_by_the_reader_or_the_size(
    monkeypatch, tmp_path: Path
) -> None:
    estimates = {"small": Estimate(1, 1, 1 << 30), "large": Estimate(1, 1, 6 << 30)}
    monkeypatch.setattr(jobs, "estimate", lambda p, **_: estimates.get(p.name))
    unknown = tmp_path / "unknown"
    unknown.write_bytes(b"x" * 1000)

    def needed(path: Path, **more: object) -> int:
        return jobs.needed_bytes(arguments(**more), path)

    small, large = needed(Path("small")), needed(Path("large"))
    assert large - small == pytest.approx(5 << 30, rel=0.5)
    assert large > 6 << 30
    assert small > 1 << 30
    beside = needed(Path("small"), beside=[unknown])
    assert beside > small + 4 * 1000
    assert needed(unknown) < beside


def test_file_that_was_too_large_beside_others_is_read_alone() -> None:
    schedule = jobs.Schedule(2, 2, 1 << 40)
    assert [schedule.start_next(lambda _: 0) for _ in "ab"] == [0, 1]

    assert schedule.end(0, is_too_large=True)
    assert schedule.start_next(lambda _: 0) is None, "the other runs still"
    assert not schedule.end(1, is_too_large=False)
    assert schedule.start_next(lambda _: 0) == 0
    assert not schedule.end(0, is_too_large=True), "nothing ran beside it"
    assert schedule.start_next(lambda _: 0) is None


def test_ended_processes_are_reported_with_what_ended_them() -> None:
    killed = jobs.exit_reason(-9, "")
    ended = jobs.exit_reason(143, "ggscope: ended by SIGTERM.\n")
    silent = jobs.exit_reason(3, "")
    why = jobs.exit_reason(1, "ggscope: internal error: no\n")

    assert new_statements(killed, silent)
    assert "ended by SIGKILL." in killed
    assert "ended by SIGTERM. Figures" in ended
    assert new_statements(killed, ended)
    assert new_statement(silent, why)
    assert why == "internal error: no"


def test_a_terminal_shows_how_far_a_batch_is(monkeypatch, tmp_path: Path) -> None:
    lines: list[str] = []
    monkeypatch.setattr(jobs.output, "rewrite_line", lines.append)
    monkeypatch.setattr(jobs.sys.stderr, "isatty", lambda: True, raising=False)
    paths = [tmp_path / name for name in ("a.bin", "b.bin")]
    for path in paths:
        path.write_text("junk")
    forwarded = [*map(str, paths), "-o", str(tmp_path / "out")]

    def run(files: list[Path], *, quiet: bool) -> jobs.Results:
        values = {"files": files, "command": "export", "forwarded": forwarded}
        return jobs.run_files(arguments(jobs=1, quiet=quiet, **values), files)

    assert len(run(paths[:1], quiet=True).objects) == 1
    assert lines == []
    assert len(run(paths, quiet=False).objects) == 2

    assert [line for line in lines if line] == [
        "0 of 2 files done; a.bin",
        "1 of 2 files done; b.bin",
    ]
    assert lines[-1] == "", "the line is taken away"
