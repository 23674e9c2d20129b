"""Who writes a file that is followed, as the system states."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ggscope.live import processes
from ggscope.live.processes import Process, environment, mapped_files, writers_of
from ggscope.live.source import NANO
from ggscope.live.writers import WriterWatch, Writing
from support import ROOT

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux shows who writes a file"
)
PROGRAM = ROOT / "tests" / "writing_program.py"
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a program which has a file open."""
    began: list[subprocess.Popen[str]] = []

    def run(mode: str, path: Path, **env: str) -> subprocess.Popen[str]:
        made = subprocess.Popen(
            [sys.executable, str(PROGRAM), mode, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )
        began.append(made)
        assert made.stdout is not None
        assert made.stdout.readline() == "ready\n"
        return made

    yield run
    for each in began:
        each.kill()
        each.communicate()


def send(program: subprocess.Popen[str], text: str) -> None:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(f"{text}\n")
    program.stdin.flush()
    assert program.stdout.readline() == "ready\n"


def polled(watch: WriterWatch, state: Writing) -> WriterWatch:
    """Poll until a state is there; each time more time has passed for the watch."""
    until, now = time.monotonic() + 30, NANO
    while watch.state is not state:
        assert time.monotonic() < until, watch.state
        watch.poll(now)
        now += 3 * NANO
        time.sleep(0.01)
    return watch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "trace ü.bin"
    made.write_bytes(bytes(8192))
    return made


@pytest.mark.parametrize(("mode", "writes"), [("map", 1), ("open", 1), ("read", 0)])
def test_process_that_writes_a_file_is_found(start, path, mode, writes):
    program = start(mode, path)

    writers = writers_of(path)

    assert [process.pid for process in writers] == [program.pid] * writes
    assert all(process.is_running for process in writers)
    assert all("python" in process.name for process in writers)


def test_file_that_nobody_has_open_has_no_writer(path, tmp_path):
    with path.open("ab"):  # this process follows; it is no writer
        assert writers_of(path) == ()
    assert writers_of(tmp_path / "none") == ()


def test_mapped_files_and_environment_of_a_process(start, path):
    program = start("map", path, GGML_VIZ_OUTPUT="a=b.ggmlviz")

    (file,) = [f for f in mapped_files(program.pid) if f.path == str(path)]

    assert (file.is_written, file.inode) == (True, path.stat().st_ino)
    assert environment(program.pid)["GGML_VIZ_OUTPUT"] == "a=b.ggmlviz"
    assert (mapped_files(0), environment(0)) == ((), {})


def test_killed_writer_is_gone(start, path):
    program = start("map", path)
    watch = polled(WriterWatch(path), Writing.OPEN)

    program.kill()

    # Nobody has asked how it ended: it is no more all the same.
    polled(watch, Writing.GONE)
    assert watch.writer is not None
    assert watch.writer.pid == program.pid


def test_writer_that_closes_the_file_runs_on(start, path):
    program = start("close", path)
    watch = polled(WriterWatch(path), Writing.OPEN)

    send(program, "close")

    assert polled(watch, Writing.CLOSED).writer is not None


def test_another_writer_takes_the_place_of_one_that_is_gone(start, path):
    first = start("map", path)
    watch = polled(WriterWatch(path), Writing.OPEN)
    first.kill()
    polled(watch, Writing.GONE)

    second = start("open", path)

    assert polled(watch, Writing.OPEN).writer.pid == second.pid


def test_number_of_an_ended_process_stands_for_nobody_else(monkeypatch):
    mine = Process(os.getpid(), "x", processes.start_time(os.getpid()))
    other = Process(os.getpid(), "x", 1)

    assert mine.is_running
    assert not other.is_running


def test_what_was_looked_for_in_another_file_counts_for_nothing(path):
    items = (Process(os.getpid(), "x", None),)
    watch = WriterWatch(path, lambda _: items)
    watch.poll(NANO)
    watch.forget()

    assert watch.state is Writing.UNKNOWN
    assert watch.writer is None
