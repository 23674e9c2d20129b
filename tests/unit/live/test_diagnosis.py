"""What keeps the first record from coming, as far as this machine shows."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ggscope.live import diagnosis
from ggscope.live.diagnosis import Step, diagnose
from ring_writer import Writer
from support import ROOT

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux shows what is mapped"
)
PROGRAM = ROOT / "tests" / "writing_program.py"
Start = Callable[..., int]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a program which has a file open."""
    began: list[subprocess.Popen[str]] = []

    def run(mode: str, path: Path, **variables: str) -> int:
        values = {k: v for k, v in os.environ.items() if not k.startswith("GGSCOPE_")}
        made = subprocess.Popen(
            [sys.executable, str(PROGRAM), mode, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**values, **variables},
        )
        began.append(made)
        assert made.stdout is not None
        assert made.stdout.readline() == "ready\n"
        return made.pid

    yield run
    for each in began:
        each.kill()
        each.communicate()


def look(expected: str | None, tool: int | None = None) -> dict[str, Step]:
    return {step.name: step for step in diagnose(expected, tool, lambda: None)}


def goods(steps: dict[str, Step]) -> dict[str, bool | None]:
    return {name: step.is_good for name, step in steps.items()}


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "libggml-cpu.so"
    path.write_bytes(bytes(4096))
    return path


@pytest.fixture
def tracer(tmp_path: Path) -> Path:
    path = tmp_path / "tracer.so"
    shutil.copy("/proc/self/exe", path)
    return path


def test_program_without_the_tracer_in_its_environment_is_reported(
    start: Start, library: Path
) -> None:
    pid = start("map", library)

    assert goods(look(str(pid))) == {
        "Program": True,
        "Environment": False,
        "ggml": True,
        "Tracer": False,
        "Permission": True,
        "Ring": False,
    }


def test_tracer_that_is_kept_out_is_distinguished_from_one_that_is_loaded(
    start: Start, library: Path, tracer: Path, tmp_path: Path
) -> None:
    ring = str(tmp_path / "ggscope-1-aa")
    out = start("map", library, GGSCOPE_RING=ring, GGML_BACKEND_PATH=str(tracer))
    inside = start("map", library, GGSCOPE_RING=ring, GGML_BACKEND_PATH=str(library))

    assert goods(look(str(out)))["Environment"] is True
    assert goods(look(str(out)))["Tracer"] is False
    assert goods(look(str(inside)))["Tracer"] is True
    assert str(tmp_path) in look(str(inside))["Permission"].text


@pytest.mark.parametrize(
    ("name", "value", "is_good"),
    [("GGML_VIZ_DISABLE", "1", False), ("GGML_VIZ_DISABLE", "0", True),
     ("GGSCOPE_ENABLED", "0", False), ("GGSCOPE_ENABLED", "1", True)],
)  # fmt: skip
def test_variable_that_switches_tracing_off_is_named(
    start: Start, library: Path, name: str, value: str, is_good: bool
) -> None:
    variables = {"GGSCOPE_RING": "/dev/shm/ggscope-1-aa", name: value}
    step = look(str(start("map", library, **variables)))["Environment"]

    assert step.is_good is is_good
    assert (name in step.text) == (not is_good)


def test_process_that_is_not_there_is_reported() -> None:
    assert goods(look(str((1 << 31) - 2))) == {"Program": False}


def test_children_of_the_tool_are_looked_at(start: Start, library: Path) -> None:
    pid = start("map", library)

    steps = look("1", os.getpid())

    assert str(pid) in steps["Program"].text
    assert steps["ggml"].is_good


def test_folder_without_room_for_a_ring_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path))
    roomy = look(None)["Permission"]
    monkeypatch.setattr(diagnosis, "MIN_FREE_BYTES", 1 << 62)
    full = look(None)["Permission"]
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path / "nowhere"))
    gone = look(None)["Permission"]

    assert [step.is_good for step in (roomy, full, gone)] == [True, False, False]


def test_empty_file_is_looked_at_for_its_writer(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "empty.ggmlviz"
    missing = look(str(path))
    nowhere = look(str(tmp_path / "none" / "a.ggmlviz"))
    path.write_bytes(b"")
    alone = look(str(path))
    pid = start("open", path, GGML_VIZ_DISABLE="1")
    written = look(str(path))

    assert goods(missing) == {"File": None, "Permission": True}
    assert goods(nowhere) == {"File": False}
    assert goods(alone) == {"File": None, "Permission": True, "Writer": False}
    assert written["Writer"].is_good
    assert str(pid) in written["Writer"].text
    assert written["Environment"].is_good is False
    assert str(path) in written["File"].text  # with its own first letter


def test_library_that_a_writer_lacks_is_named(
    start: Start, tmp_path: Path, library: Path
) -> None:
    path = tmp_path / "trace.bin"
    path.write_bytes(bytes(4096))
    start("map", path, LD_PRELOAD=f"/nowhere/libggml-viz.so:{library}")

    steps = look(str(path))

    assert steps["Preload"].is_good is False
    assert "/nowhere/libggml-viz.so" in steps["Preload"].text
    assert steps["Library"].is_good is None
    assert "ggml" in steps["Library"].text


def test_ring_of_a_program_that_ended_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path))
    writer = Writer(tmp_path / "ggscope-8-bb")
    writer.control["pid"] = 1 << 30

    assert look(None)["Ring"].is_good is None
    writer.close()
