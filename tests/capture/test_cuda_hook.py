"""Calls of CUDA, from the hook to the reader, with a stand-in for the driver.

``fake_cuda.c`` is a small libcuda.so.1, ``fake_cupti.c`` a CUPTI, ``cuda_program.c``
what calls them. No GPU takes part: what is tried is that every call is passed on as it
is, comes into the file, and comes back out of it.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import cuda_programs
from ggscope.model.tables import FAILED_COLOR
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.registry import open_trace
from ggscope_capture import cuda
from ggscope_capture.native import build
from support import small_files

HERE = Path(__file__).parent
WAYS = ("linked", "dlsym", "proc", "cupti")
KINDS = [
    ("cuInit", 0, 0), ("cuMemAlloc", 0, 0), ("cuMemcpyHtoD", 0, 0),
    ("cuMemcpyDtoHAsync", 0, 0), ("cuMemcpy2D", 0, 0), ("cuModuleGetFunction", 0, 0),
    ("cuLaunchKernel", 0, 0),
    ("cuStreamSynchronize", 0, 0), ("cuEventQuery", 600, 0), ("cuParamSetf", 0, 0),
    ("cuIpcOpenMemHandle", 0, 0), ("cuLaunchHostFunc", 0, 0), ("cuMemAlloc", 0, 1),
    ("cuMemAlloc", 2, 0), ("cuMemFree", 0, 0),
]  # fmt: skip
"""Name, result and depth of the calls that ``every_kind`` makes, by their begin."""


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the hook, the stand-ins and both programs."""
    return cuda_programs.build(tmp_path_factory.mktemp("cuda"))


def environment(programs: Path, out: Path, way: str) -> dict[str, str]:
    values = {**os.environ, "LD_LIBRARY_PATH": str(programs), cuda.OUT: str(out)}
    if way == "cupti":
        values |= {
            cuda.INJECTION: str(programs / "_cuda.so"),
            cuda.CUPTI: str(programs / "libcupti.so"),
        }
    else:
        values |= {"LD_PRELOAD": str(programs / "_cuda.so")}
    return values


def ran(
    programs: Path, out: Path, way: str, what: str, *more: str
) -> subprocess.CompletedProcess[str]:
    """Run a program under the hook; its calls come into `out`."""
    program = programs / ("linked" if way == "linked" else "loads")
    looked_up = "proc" if way == "proc" else "dlsym"
    return subprocess.run(
        [program, looked_up, what, *more], env=environment(programs, out, way),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def rows(path: Path) -> list[dict[str, Any]]:
    """Return all lines of a file: each one is an object of JSON."""
    text = path.read_text()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def opened(path: Path) -> Trace:
    trace = open_trace(path, context=ReadContext())
    assert trace.info.reader_id == "cuda-calls"
    assert trace.check() == []
    return trace


def names(trace: Trace) -> list[str]:
    return [trace.op_name(int(op)) for op in trace.spans.op]


def codes(trace: Trace) -> set[str]:
    return {warning.code for warning in trace.warnings}


@pytest.mark.parametrize("way", WAYS)
def test_every_call_is_passed_on_and_recorded(
    way: str, programs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "calls.jsonl"

    done = ran(programs, out, way, "kinds")

    assert (done.returncode, done.stderr) == (0, "")
    first, *events, last = rows(out)
    assert first["way"] == ("CUPTI" if way == "cupti" else "driver table")
    events = [event for event in events if event["name"] != "cuGetProcAddress"]
    ends = {event["op_id"]: event for event in events if event["phase"] == "E"}
    calls = [
        (event["name"], ends[event["op_id"]]["result"], event["depth"])
        for event in events
        if event["phase"] == "B"
    ]
    assert calls == KINDS
    assert (last["end"], last["dropped"]) == (True, 0)


@pytest.mark.parametrize("way", WAYS)
def test_details_are_what_the_program_gave(
    way: str, programs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "calls.jsonl"

    ran(programs, out, way, "kinds")

    begun: dict[str, Any] = {}
    ended: dict[str, Any] = {}
    for event in rows(out)[1:-1]:
        of = begun if event["phase"] == "B" else ended
        of.setdefault(event["name"], event.get("details"))
    assert begun["cuMemAlloc"] == {"size": 4_000_000}
    assert re.fullmatch("0x7000000[0-9a-f]{5}", ended["cuMemAlloc"]["ptr"])
    assert begun["cuMemcpyHtoD"] == {"size": 400_000, "direction": "host_to_device"}
    assert 0 < ended["cuMemcpyHtoD"]["bandwidth_gbps"] <= 4
    assert begun["cuMemcpy2D"] == {"size": 2000, "direction": "device_to_host"}
    # The call of an asynchronous copy does not show how long it takes.
    assert ended["cuMemcpyDtoHAsync"] is None
    assert begun["cuLaunchKernel"] == {
        "function": "0x55", "kernel": 'mul_mat_q<8, "x">', "grid": [128, 2, 1],
        "block": [256, 1, 3], "shared_mem": 4096, "stream": "0x9",
    }  # fmt: skip
    assert begun["cuMemFree"] == {"ptr": "0x700000000000"}


def test_reader_shows_what_was_called(programs: Path, tmp_path: Path) -> None:
    out = tmp_path / "calls.jsonl"
    ran(programs, out, "linked", "kinds")

    trace = opened(out)

    assert names(trace) == [name for name, _, _ in KINDS]
    launch = names(trace).index("cuLaunchKernel")
    assert trace.span_name(launch) == 'cuLaunchKernel · mul_mat_q<8, "x">'
    assert trace.info.summary["events"] == {
        "calls": len(KINDS), "unmatched": 0, "broken_lines": 0,
    }  # fmt: skip
    assert codes(trace) == set()
    colors = trace.spans.color
    assert colors is not None
    red = [KINDS[row] for row in (colors == FAILED_COLOR).nonzero()[0].tolist()]
    assert red == [("cuMemAlloc", 2, 0)]
    markers = trace.strings.get_many(trace.markers.name.tolist())
    assert markers == ["cuMemAlloc failed: 2 CUDA_ERROR_OUT_OF_MEMORY"]
    lanes = [lane for lane in trace.lanes if lane.kind is LaneKind.THREAD]
    assert len(lanes) == 1
    begin = rows(out)[0]
    wall = trace.clock.wall(0)
    assert wall is not None
    # The clock is that of the machine, and its zero is known.
    assert 0 <= wall - begin["epoch_ns"] < 60e9
    assert trace.clock.origin == round(rows(out)[1]["ts"] * 1e9)


@pytest.mark.parametrize("way", ["dlsym", "cupti"])
def test_threads_lose_nothing_that_is_not_counted(
    way: str, programs: Path, tmp_path: Path
) -> None:
    out, n = tmp_path / "calls.jsonl", 8_000

    assert ran(programs, out, way, "threads", str(n)).returncode == 0

    _, *events, last = rows(out)
    expected = 2 * (3 * 4 * n + 1)
    assert len(events) + last["dropped"] == expected
    assert last["lines"] == len(events) + 1
    times = [event["ts"] for event in events]
    assert times == sorted(times)
    trace = opened(out)
    # A call is there whole or not at all.
    assert trace.info.summary["events"] == {
        "calls": len(events) // 2, "unmatched": 0, "broken_lines": 0,
    }  # fmt: skip
    assert len({event["tid"] for event in events}) >= 4
    if last["dropped"]:
        (lost,) = (w for w in trace.warnings if w.code == "dropped_events")
        assert lost.count == last["dropped"]


def test_paced_calls_are_all_there(programs: Path, tmp_path: Path) -> None:
    out, n = tmp_path / "calls.jsonl", 5000

    assert ran(programs, out, "dlsym", "paced", str(n)).returncode == 0

    assert rows(out)[-1]["dropped"] == 0
    assert len(opened(out).spans) == n + 1


def test_children_have_files_of_their_own(programs: Path, tmp_path: Path) -> None:
    assert ran(programs, tmp_path / "x.jsonl", "dlsym", "fork").returncode == 0

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "x-2.jsonl", "x-3.jsonl", "x.jsonl",
    ]  # fmt: skip
    parent = opened(tmp_path / "x.jsonl")
    assert names(parent) == ["cuInit", "cuMemFree"]
    for name in ("x-2.jsonl", "x-3.jsonl"):
        child = opened(tmp_path / name)
        assert names(child) == ["cuStreamSynchronize"]
        assert codes(child) == set()
    pids = {rows(path)[0]["pid"] for path in tmp_path.iterdir()}
    assert len(pids) == 3


@pytest.mark.parametrize("way", ["dlsym", "cupti"])
def test_program_that_a_program_starts_is_recorded(
    way: str, programs: Path, tmp_path: Path
) -> None:
    assert ran(programs, tmp_path / "x.jsonl", way, "child").returncode == 0

    assert names(opened(tmp_path / "x.jsonl")) == ["cuInit"]
    assert names(opened(tmp_path / "x-2.jsonl")) == [name for name, _, _ in KINDS]


def test_call_that_fails_is_in_the_file_before_the_program_aborts(
    programs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "calls.jsonl"

    assert ran(programs, out, "dlsym", "abort").returncode == -signal.SIGABRT

    trace = opened(out)
    assert names(trace) == ["cuInit", "cuMemAlloc"]
    assert codes(trace) == {"calls_cut_short"}


def test_calls_at_exit_come_before_the_last_line(
    programs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "calls.jsonl"

    ran(programs, out, "dlsym", "late")

    assert names(opened(out)) == ["cuInit", "cuMemFree"]
    assert rows(out)[-1]["end"]


def test_killed_program_leaves_what_it_called(programs: Path, tmp_path: Path) -> None:
    out = tmp_path / "calls.jsonl"
    with subprocess.Popen(
        [programs / "loads", "dlsym", "wait"],
        env=environment(programs, out, "dlsym"), stdout=subprocess.PIPE,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        child.stdout.readline()
        while not out.exists() or out.read_bytes().count(b"\n") < 3:
            assert child.poll() is None
        child.kill()

    trace = opened(out)
    assert names(trace) == ["cuInit"]
    assert codes(trace) == {"calls_cut_short"}


@pytest.mark.parametrize("limit", [400, 1500, 20_000, 1 << 20])
def test_full_disk_keeps_whole_lines_and_counts_the_rest(
    limit: int, programs: Path, tmp_path: Path
) -> None:
    out, n = tmp_path / "calls.jsonl", 8_000

    with small_files(limit):
        assert ran(programs, out, "dlsym", "threads", str(n)).returncode == 0

    assert out.stat().st_size <= limit
    lines = rows(out)
    events = [line for line in lines if "trace" not in line]
    last = lines[-1]
    if "end" in last:
        assert len(events) + last["dropped"] == 2 * (3 * 4 * n + 1)
        assert last["write_error"]
    else:  # not even for the last line was there room
        assert limit == 400


def test_program_without_cuda_is_left_alone(programs: Path, tmp_path: Path) -> None:
    out = tmp_path / "calls.jsonl"

    done = subprocess.run(
        [sys.executable, "-c", "import ctypes; print(ctypes.CDLL(None).getpid() > 0)"],
        env=environment(programs, out, "dlsym"), capture_output=True, text=True,
        check=True,
    )  # fmt: skip

    assert (done.stdout, done.stderr) == ("True\n", "")
    assert not out.exists()


def test_other_names_are_looked_up_as_before(programs: Path, tmp_path: Path) -> None:
    assert ran(programs, tmp_path / "x.jsonl", "dlsym", "next").returncode == 0


def test_output_that_cannot_be_written_stops_no_program(
    programs: Path, tmp_path: Path
) -> None:
    done = ran(programs, tmp_path / "no" / "x.jsonl", "dlsym", "kinds")

    assert done.returncode == 0
    assert "not recorded" in done.stderr


def test_old_libraries_of_c_will_do(programs: Path) -> None:
    objdump = shutil.which("objdump")
    if objdump is None:
        pytest.skip("there is no objdump here")
    stdout = subprocess.run(
        [objdump, "-T", programs / "_cuda.so"], capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip

    versions = {
        tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", stdout)
    }

    assert max(versions) <= (2, 17)
    defined = re.findall(r"\.text\s+\w+\s+(?:Base\s+)?(\w+)$", stdout, re.MULTILINE)
    assert sorted(defined) == ["InitializeInjection", "dlsym"]


def test_declarations_are_those_of_the_headers(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    places = [*Path(sysconfig.get_path("purelib")).glob("nvidia/*/include")]
    for home in filter(None, (os.environ.get("CUDA_HOME"), "/usr/local/cuda")):
        places += [Path(home) / "include", Path(home) / "extras/CUPTI/include"]
    has = {
        name for name in ("cupti.h", "cuda.h") for p in places if (p / name).is_file()
    }
    if compiler is None or len(has) < 2:
        pytest.skip("there are no headers of CUDA and CUPTI here")
    folders = [f"-I{place}" for place in (*places, build.FOLDER / "cuda")]

    subprocess.run(
        [compiler, "-fsyntax-only", *folders, HERE / "cuda_headers.c"], check=True
    )


def captured(programs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ggscope_capture", *arguments],
        env={
            **os.environ, "LD_LIBRARY_PATH": str(programs),
            cuda.CUPTI: str(programs / "libcupti.so"),
        },
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("way", ["auto", "preload", "cupti"])
def test_command_records_a_program_and_its_children(
    way: str, programs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "made" / "x.jsonl"
    program = [str(programs / "loads"), "proc", "fork"]

    done = captured(programs, "cuda", "-o", str(out), "--way", way, "--", *program)

    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in out.parent.iterdir()) == [
        "x-2.jsonl", "x-3.jsonl", "x.jsonl",
    ]  # fmt: skip
    assert rows(out)[0]["way"] == ("CUPTI" if way == "cupti" else "driver table")


def test_command_ends_as_the_program_does_and_shows_what_is_missing(
    programs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "x.jsonl"

    done = captured(
        programs, "cuda", "-o", str(out), "--", str(programs / "loads"), "dlsym",
        "abort",
    )  # fmt: skip

    assert done.returncode == -signal.SIGABRT
    assert "killed" in done.stderr
    assert names(opened(out)) == ["cuInit", "cuMemAlloc"]


def test_command_names_the_output_that_nobody_named(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    done = captured(programs, "cuda", "--", str(programs / "loads"), "dlsym", "kinds")

    (path,) = tmp_path.iterdir()
    assert path.name in done.stderr
    assert re.fullmatch(r"loads-\d{8}-\d{6}\.jsonl", path.name)


def test_program_without_calls_makes_no_file(programs: Path, tmp_path: Path) -> None:
    arguments = ("cuda", "-o", str(tmp_path / "x.jsonl"))

    plain = captured(programs, *arguments, "--", "true")
    strict = captured(programs, *arguments, "--require", "--", "true")

    assert (plain.returncode, strict.returncode) == (0, 125)
    assert not list(tmp_path.iterdir())


def test_output_that_is_a_folder_leaves_the_program_unrecorded(
    programs: Path, tmp_path: Path
) -> None:
    program = (str(programs / "loads"), "dlsym", "kinds")

    plain = captured(programs, "cuda", "-o", str(tmp_path), "--", *program)
    strict = captured(
        programs, "cuda", "-o", str(tmp_path), "--require", "--", *program
    )

    assert (plain.returncode, strict.returncode) == (0, 125)
    assert not list(tmp_path.iterdir())


def test_doctor_shows_whether_calls_can_be_recorded(
    programs: Path, tmp_path: Path
) -> None:
    def answer(program: object) -> dict[str, Any]:
        out = str(tmp_path / "x.jsonl")
        done = captured(programs, "doctor", "--cuda", str(program), "-o", out, "--json")
        assert done.returncode == 0
        data: dict[str, Any] = json.loads(done.stdout)
        return data

    report = answer(programs / "loads")

    # It has run on no GPU, so the answer is never a plain yes.
    assert [entry_point["works"] for entry_point in report["doors"]] == [None, None]
    assert [check["name"] for check in report["checks"]] == [
        "hook", "driver", "CUPTI", "output",
    ]  # fmt: skip
    locked = tmp_path / "locked"
    shutil.copy(programs / "loads", locked)
    locked.chmod(0o600)
    assert {entry_point["works"] for entry_point in answer(locked)["doors"]} == {False}


def test_library_is_named_for_other_launchers(programs: Path) -> None:
    done = captured(programs, "cuda", "--library")

    assert Path(done.stdout.strip()).name == build.CUDA_NAME
