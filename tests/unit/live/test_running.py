"""Which running programs are listed, and whether each can be followed."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ggscope.live.running import ProgramList, RunningProgram, Tracing
from ring_writer import Writer
from support import ROOT

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux shows what is mapped"
)
PROGRAM = ROOT / "tests" / "writing_program.py"
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a program which runs until the test is over."""
    began: list[subprocess.Popen[bytes]] = []

    def run(*command: object, **variables: str) -> subprocess.Popen[bytes]:
        texts = [str(word) for word in command]
        env = {k: v for k, v in os.environ.items() if not k.startswith("GGSCOPE_RING")}
        pipe = subprocess.PIPE
        made = subprocess.Popen(
            texts, stdin=pipe, stdout=pipe, env={**env, **variables}
        )
        began.append(made)
        if str(PROGRAM) in texts:
            assert made.stdout is not None
            assert made.stdout.readline() == b"ready\n"
        else:  # until it is the program, and no copy of this one
            wait_for(lambda: Path(f"/proc/{made.pid}/exe").readlink().name != own_name)
        return made

    own_name = Path("/proc/self/exe").readlink().name
    yield run
    for each in began:
        each.kill()
        each.communicate()


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def look(programs: ProgramList | None = None) -> dict[int, RunningProgram]:
    figures = (programs or ProgramList()).look(lambda: None)
    return {program.pid: program for program in figures}


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    """Return a program that is named like one of llama.cpp's, and sleeps."""
    path = tmp_path / "llama-server"
    shutil.copy(shutil.which("sleep") or "", path)
    return path


def test_program_that_was_started_without_the_tracer_says_how_to_start_it(
    start: Start, llama: Path, tmp_path: Path
) -> None:
    before = time.time()
    pid = start(llama, "600.5").pid

    figures = look()[pid]

    assert (figures.name, figures.tracing, figures.target) == (
        "llama-server",
        Tracing.UNTRACED,
        "",
    )
    assert figures.command == (str(llama), "600.5")
    assert figures.began is not None
    assert before - 1 <= figures.began <= time.time() + 1
    arguments = shlex.split(figures.restart_command)
    assert arguments[:3] == ["cd", os.getcwd(), "&&"]
    assert arguments[3:] == [
        *("ggscope-capture", "run", "-o", "llama-server.bin", "--"),
        *(str(llama), "600.5"),
    ]


def test_program_is_known_by_the_libraries_that_it_has_mapped(
    start: Start, tmp_path: Path
) -> None:
    library, other = tmp_path / "libggml-base.so.0", tmp_path / "libggmlish.so"
    for path in (library, other):
        path.write_bytes(bytes(4096))
    with_ggml = start(sys.executable, PROGRAM, "map", library)
    without = start(sys.executable, PROGRAM, "map", other)

    figures = look()

    assert figures[with_ggml.pid].tracing is Tracing.UNTRACED
    assert without.pid not in figures


def test_program_with_the_tracer_waits_for_its_first_graph(
    start: Start, llama: Path, tmp_path: Path
) -> None:
    library, tracer = tmp_path / "libggml.so", tmp_path / "tracer.so"
    library.write_bytes(bytes(4096))
    shutil.copy("/proc/self/exe", tracer)
    ring = str(tmp_path / "ggscope-1-aa")
    early = start(llama, "600", GGSCOPE_RING=ring, GGML_BACKEND_PATH=str(tracer))
    kept_out = start(
        sys.executable, PROGRAM, "map", library,
        GGSCOPE_RING=ring, GGML_BACKEND_PATH=str(tracer),
    )  # fmt: skip
    loaded = start(
        sys.executable, PROGRAM, "map", library,
        GGSCOPE_RING=ring, GGML_BACKEND_PATH=str(library),
    )  # fmt: skip

    figures = look()

    assert figures[early.pid].tracing is Tracing.PREPARED
    assert figures[early.pid].target == str(early.pid)
    assert "not loaded ggml" in figures[early.pid].why
    assert figures[kept_out.pid].tracing is Tracing.UNTRACED
    assert "not the tracer" in figures[kept_out.pid].why
    assert figures[loaded.pid].tracing is Tracing.PREPARED
    assert "computed nothing" in figures[loaded.pid].why


@pytest.mark.parametrize("mode", ["open", "map"])
def test_program_that_writes_a_trace_file_can_be_followed_by_it(
    start: Start, tmp_path: Path, mode: str
) -> None:
    path = tmp_path / ("tensor_trace.bin" if mode == "map" else "a.ggmlviz")
    path.write_bytes(bytes(4096))
    writes = start(sys.executable, PROGRAM, mode, path)
    reads = start(sys.executable, PROGRAM, "read", path)

    figures = look()

    assert figures[writes.pid].tracing is Tracing.STREAM
    assert figures[writes.pid].target == str(path)
    assert reads.pid not in figures


def test_rings_of_running_and_ended_programs_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path))
    writer = Writer(tmp_path / "ggscope-7-aa")
    gone = Writer(tmp_path / "ggscope-8-bb")
    gone.control["pid"] = 1 << 30

    figures = look()

    assert figures[os.getpid()].tracing is Tracing.TRACED
    assert figures[os.getpid()].target == str(os.getpid())
    ended = figures[1 << 30]
    assert (ended.name, ended.tracing) == ("made-up", Tracing.ENDED)
    assert ended.target == str(gone.path)
    tracings = [p.tracing for p in figures.values()]
    assert tracings == sorted(tracings, key=list(Tracing).index)
    for each in (writer, gone):
        each.close()


def test_what_has_no_ggml_is_passed_over_for_a_while_only(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "other.bin"
    library.write_bytes(bytes(4096))
    pid = start(sys.executable, PROGRAM, "map", library).pid
    programs, now = ProgramList(), time.monotonic()
    assert pid not in look(programs)
    library.rename(tmp_path / "libllama.so")

    soon = look(programs)
    monkeypatch.setattr(time, "monotonic", lambda: now + 60)
    later = look(programs)

    assert pid not in soon
    assert pid in later


def test_look_ends_where_it_is_cancelled() -> None:
    class EndedError(Exception):
        pass

    def cancel() -> None:
        raise EndedError

    with pytest.raises(EndedError):
        ProgramList().look(cancel)
