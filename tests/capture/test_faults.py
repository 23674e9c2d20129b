"""What is left where something ends, is full or is not what it should be.

A made-up ggml computes; the tracer, the launcher and the viewer are the real ones.
"""

import os
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggscope.live import ring as live
from ggscope.live.program import ProgramSource
from ggscope.live.recording_store import save_recording
from ggscope.live.source import State
from ggscope_capture import recording, ring
from ggscope_capture.ring_format import FrameType
from recordings import facts_of
from tracing import TRACER, info, tracer, tracer_environment

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the tracer runs on Linux only so far"
)
SOURCE = Path(__file__).parent / "fake_ggml.c"
NODES = 50
Variables = dict[str, str]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with a made-up ggml beside it, in a folder with a name to trip over."""
    tracer()
    folder = tmp_path_factory.mktemp("faults") / "mit Köpfchen 知 '\"$x"
    folder.mkdir()
    for to, flags in (("libggml.so", ["-fPIC", "-shared"]), ("fake", ["-DPROGRAM"])):
        command = ["cc", "-O2", *flags, SOURCE, "-o", folder / to, "-ldl"]
        subprocess.run(command, check=True)
    return folder / "fake"


@pytest.fixture
def rings(tmp_path: Path) -> Path:
    """A folder for rings whose name is no plain word."""
    folder = tmp_path / "Ringe é 環"
    folder.mkdir()
    return folder


@pytest.fixture
def variables(program: Path, rings: Path) -> Variables:
    own = {
        "FAKE_GGML": str(program.with_name("libggml.so")),
        "GGSCOPE_RINGS": str(rings),
    }
    return {k: v for k, v in os.environ.items() if "GGML" not in k} | own


def direct(variables: Variables, path: Path, size: int = 16 << 20) -> Variables:
    """Return what lets the tracer in without the launcher."""
    own = {"GGSCOPE_RING": str(path), "GGSCOPE_RING_SIZE": str(size)}
    return variables | tracer_environment("preload") | own


def captured(*text: object) -> list[str]:
    return [sys.executable, "-m", "ggscope_capture", *map(str, text)]


def run(
    line: list[str], variables: Variables, **more: Any
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        line, env=variables, capture_output=True, check=False, timeout=60, **more
    )


def check_order(records: np.ndarray) -> None:
    """The n-th record of the only thread is that of node n % NODES of its graph."""
    n = np.arange(len(records))
    assert np.array_equal(records["node"], n % NODES)
    assert np.array_equal(records["graph"], n // NODES)


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)


# ---- no room ----


SMALL = """
set -e
mount -t tmpfs -o size="$1" none "$2"
shift
at=$1
shift
"$@"
ls "$at" >&2
"""


def in_small_memory(
    size: str, folder: Path, line: list[str], variables: Variables
) -> subprocess.CompletedProcess[bytes]:
    """Run with a file system of its own, of so many bytes, in a folder.

    What lies there in the end is listed on stderr.
    """
    unshare = shutil.which("unshare")
    if unshare is None or run([unshare, "-rm", "true"], variables).returncode:
        pytest.skip("no file system can be mounted here")
    arguments = ["sh", "-c", SMALL, "sh", size, str(folder), *line]
    return run([unshare, "-rm", *arguments], variables)


@pytest.mark.parametrize("size", ["4k", "64k", "640k"])
def test_full_memory_leaves_the_program_alone(
    size: str, program: Path, variables: Variables, rings: Path
) -> None:
    mine = direct(variables, rings / "ring")

    done = in_small_memory(size, rings, [str(program), str(NODES), "20"], mine)

    assert done.returncode == 0
    assert float(done.stdout) > 0
    assert done.stderr == b""  # neither a word nor a file


@pytest.mark.parametrize(("size", "has_names"), [("5m", True), ("656k", False)])
def test_ring_takes_what_is_free(
    size: str,
    has_names: bool,
    program: Path,
    variables: Variables,
    rings: Path,
    tmp_path: Path,
) -> None:
    """In the smaller one nothing is left for the names of a graph's ops."""
    mine = direct(variables, rings / "ring", 64 << 20)
    line = shlex.join([str(program), str(NODES), "2000"])
    copy = f"{line} && cp '{rings}'/* '{tmp_path}'"

    done = in_small_memory(size, rings, ["sh", "-c", copy], mine)

    assert done.returncode == 0, done.stderr
    with ring.Ring(tmp_path / "ring") as opened:
        records = np.concatenate(opened.records())
        assert opened.value("file_size") <= 5 << 19
        assert len(records) + opened.dropped() == NODES * 2000
        assert opened.dropped() > 0
        assert (opened.value("defs_lost") == 0) == has_names
        builds = [e for e in opened.definitions() if e.type == FrameType.BUILD]
        assert len(builds) == has_names
    check_order(records)


def test_launcher_says_that_there_is_no_room(
    program: Path, variables: Variables, rings: Path, tmp_path: Path
) -> None:
    line = [str(program), str(NODES), "20"]
    out = tmp_path / "out.bin"
    lax = captured("run", "-o", out, "--", *line)
    strict = captured("run", "--require", "-o", out, "--", *line)

    runs = [in_small_memory("1m", rings, each, variables) for each in (lax, strict)]

    # The shell that mounts ends where the command fails, by its code.
    assert [done.returncode for done in runs] == [0, 125]
    assert all(b"not enough space for a ring" in done.stderr for done in runs)
    assert not out.exists()


@pytest.mark.parametrize(("limit", "is_traced"), [(600 << 10, False), (3 << 20, True)])
def test_limit_of_file_sizes_ends_no_program(
    limit: int, is_traced: bool, program: Path, variables: Variables, rings: Path
) -> None:
    """The system would end it by a signal where a file grows beyond."""
    done = subprocess.run(
        [str(program), str(NODES), "20"],
        env=direct(variables, rings / "ring"), capture_output=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip

    assert done.returncode == 0
    assert (rings / "ring").exists() == is_traced
    if is_traced:
        with ring.Ring(rings / "ring") as opened:
            assert sum(map(len, opened.records())) == NODES * 20
    else:
        assert list(rings.iterdir()) == []


# ---- ends ----


@pytest.mark.parametrize("plan", ["crash", "kill"])
def test_crashed_program_under_the_launcher_leaves_a_whole_trace(
    plan: str, program: Path, variables: Variables, rings: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.bin"
    line = [program, NODES, 20, 1, plan]

    done = run(captured("run", "--require", "-o", out, "--", *line), variables)

    # The launcher ends by the same signal.
    assert done.returncode == -(signal.SIGSEGV if plan == "crash" else signal.SIGKILL)
    sidecar = facts_of(out)
    assert (sidecar["records"], sidecar["lost"]) == (NODES * 20, 0)
    assert list(rings.iterdir()) == []


@pytest.mark.parametrize("seed", range(4))
def test_program_killed_at_any_moment_leaves_all_that_it_wrote(
    seed: int, program: Path, variables: Variables, rings: Path, tmp_path: Path
) -> None:
    path, chance = rings / "ggscope-killed", random.Random(seed)
    line = [str(program), str(NODES), "100000", "1", "" if seed % 2 else "slow"]
    mine = direct(variables, path)

    with subprocess.Popen(line, env=mine, stdout=subprocess.DEVNULL) as child:
        wait_for(path.exists)
        time.sleep(chance.random() * 0.05)
        child.kill()
    (report,) = recording.ring_statuses(rings)
    out = tmp_path / "out.bin"
    recovered = run(captured("recover", path, "-o", out), variables)

    assert report.state in {"dead", "not ready"}
    if report.state == "dead":
        assert recovered.returncode == 0, recovered.stderr
        sidecar = facts_of(out)
        assert sidecar["records"] == report.waiting
        content = np.frombuffer(out.read_bytes(), "<u8").reshape(-1, 32)
        assert len(content) == report.waiting
        assert np.all(np.diff(content[:, 0].astype(np.int64)) > 0)
        assert list(rings.iterdir()) == []


@pytest.mark.parametrize("seed", range(3))
def test_launcher_killed_at_any_moment_loses_nothing(
    seed: int, program: Path, variables: Variables, rings: Path, tmp_path: Path
) -> None:
    n_graphs, chance = 400, random.Random(seed)
    out, done = tmp_path / "out.bin", tmp_path / "done"
    computes = shlex.join([str(program), str(NODES), str(n_graphs), "1", "slow"])
    shell = f"{computes}; touch '{done}'"
    command = captured("run", "-o", out, "--", "sh", "-c", shell)

    with subprocess.Popen(command, env=variables) as child:
        wait_for(
            lambda: any(r.state == "running" for r in recording.ring_statuses(rings))
        )
        time.sleep(chance.random() * 0.3)
        child.kill()
    wait_for(done.exists)  # the program came to its end
    (left,) = recording.ring_statuses(rings)
    recovered = run(captured("recover", left.path, "-o", out), variables)

    assert left.state == "ended"
    assert recovered.returncode == 0, recovered.stderr
    sidecar = facts_of(out)
    assert (sidecar["records"], sidecar["lost"]) == (NODES * n_graphs, 0)
    assert len(sidecar["graph_list"]) == n_graphs
    assert list(rings.iterdir()) == []


def test_viewer_killed_while_it_reads_leaves_the_ring_to_the_next(
    program: Path, variables: Variables, rings: Path
) -> None:
    path, n_nodes, n_graphs = rings / "ggscope-viewed", 10, 2500
    line = [str(program), str(n_nodes), str(n_graphs), "1", "slow"]
    view = [sys.executable, "-m", "ggscope", "live", str(path), "--json"]

    traced = subprocess.Popen(
        line, env=direct(variables, path), stdout=subprocess.DEVNULL
    )
    with subprocess.Popen(view, env=variables, stdout=subprocess.PIPE) as viewer:
        wait_for(lambda: any(r.reader for r in recording.ring_statuses(rings)))
        time.sleep(0.05)
        viewer.kill()
    next_one = live.Ring(path)
    is_owner, begun = next_one.is_owner, next_one.n_before
    left = 0
    while next_one.is_running():
        left += next_one.take().records.size
        traced.poll()  # so that it does not stay as a zombie, which looks alive
    left += next_one.take().records.size
    lost = next_one.lost
    next_one.close()

    assert traced.wait(30) == 0
    assert is_owner
    assert begun > 0
    # Each record was there for one of the two.
    assert (begun + left, lost) == (n_nodes * n_graphs, 0)


def test_second_launcher_leaves_a_ring_and_its_recording_to_the_first(
    program: Path, variables: Variables, rings: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.bin"
    line = [program, NODES, 20, 1, "pause"]
    command = captured("run", "-o", out, "--", *line)

    with subprocess.Popen(
        command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as child:
        wait_for(lambda: any(r.reader for r in recording.ring_statuses(rings)))
        (report,) = recording.ring_statuses(rings)
        viewer = live.Ring(report.path)
        looks_only = not viewer.is_owner
        viewer.close()
        refused = run(captured("recover", report.path, "-o", tmp_path / "b"), variables)
        child.communicate(b"\n" * 20, timeout=30)  # the program goes on to its end
        assert child.returncode == 0

    assert looks_only
    assert refused.returncode == 1
    assert b"is already reading it" in refused.stderr
    sidecar = facts_of(out)
    assert (sidecar["records"], sidecar["lost"]) == (NODES * 20, 0)


@pytest.mark.parametrize("goes_on", [False, True])
def test_viewer_takes_over_from_a_launcher_that_is_killed(
    goes_on: bool, program: Path, variables: Variables, rings: Path, tmp_path: Path
) -> None:
    out, line = tmp_path / "out.bin", [program, NODES, 20, 1, "pause"]
    command = captured("run", "-o", out, "--", *line)
    child = subprocess.Popen(
        command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert child.stdin is not None
    wait_for(lambda: any(r.folder for r in recording.ring_statuses(rings)))
    (report,) = recording.ring_statuses(rings)
    viewer, saved = ProgramSource(report.path), tmp_path / "saved.bin"

    def is_received(n: int) -> bool:
        viewer.poll()
        return viewer.status().records == n

    def is_kept_here() -> bool:
        viewer.poll()
        (ring_now,) = recording.ring_statuses(rings)
        return ring_now.reader == os.getpid()

    try:
        child.stdin.write(b"\n" * 4)
        child.stdin.flush()
        wait_for(lambda: is_received(5 * NODES))
        child.kill()
        child.wait()
        if goes_on:
            wait_for(is_kept_here)
        with child.stdin:
            child.stdin.write(b"\n" * 16)  # the program goes on to its end
        wait_for(lambda: is_received(20 * NODES))
        wait_for(lambda: not is_received(0) and viewer.status().state is State.ENDED)
        entries = viewer.status().recording
        made = save_recording(entries, saved, lambda *_: None, lambda: None)
    finally:
        viewer.close()
        viewer.forget()
    recovered = run(captured("recover", report.path, "-o", out), variables)

    assert entries.place == tmp_path / "out.bin.partial"
    assert (made.records, made.lost) == (20 * NODES, 0)
    assert info(saved)["counts"]["records"] == 20 * NODES
    assert recovered.returncode == 0, recovered.stderr
    assert info(out)["counts"]["records"] == 20 * NODES
    assert list(rings.iterdir()) == []


# ---- what is damaged ----


def damaged(path: Path, place: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(content)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def scramble(path: Path) -> None:
    size = path.stat().st_size
    damaged(path, 64, random.Random(3).randbytes(min(size - 64, 4096)))


@pytest.mark.parametrize("harm", [cut, scramble, Path.unlink])
def test_damaged_definitions_cost_names_and_no_records(
    harm: Callable[[Path], None],
    program: Path,
    variables: Variables,
    rings: Path,
    tmp_path: Path,
) -> None:
    path, out = rings / "ggscope-harmed", tmp_path / "out.bin"
    run([str(program), str(NODES), "20"], direct(variables, path))
    harm(ring.defs_path(path))

    done = run(captured("recover", path, "-o", out), variables)

    assert done.returncode == 0, done.stderr
    assert out.stat().st_size == NODES * 20 * 256
    assert info(out)["counts"]["records"] == NODES * 20


def test_definitions_of_another_ring_are_refused_and_nothing_is_begun(
    program: Path, variables: Variables, rings: Path, tmp_path: Path
) -> None:
    path, other, out = rings / "ggscope-a", rings / "ggscope-b", tmp_path / "out.bin"
    for each in (path, other):
        run([str(program), str(NODES), "20"], direct(variables, each))
    own = ring.defs_path(path).read_bytes()
    shutil.copyfile(ring.defs_path(other), ring.defs_path(path))

    done = run(captured("recover", path, "-o", out), variables)
    left = list(tmp_path.glob("out.bin*"))
    ring.defs_path(path).write_bytes(own)
    again = run(captured("recover", path, "-o", out), variables)

    assert done.returncode == 1
    assert b"another ring's" in done.stderr
    assert not left
    assert again.returncode == 0
    assert out.stat().st_size == NODES * 20 * 256


def test_ring_of_another_version_is_refused_by_its_version(
    program: Path, variables: Variables, rings: Path, tmp_path: Path
) -> None:
    path = rings / "ggscope-old"
    run([str(program), str(NODES), "20"], direct(variables, path))
    at = ring.CONTROL.fields["version"][1]  # type: ignore[index]
    damaged(path, at, (7).to_bytes(4, "little"))

    done = run(captured("recover", path, "-o", tmp_path / "out.bin"), variables)

    assert done.returncode == 1
    assert b"a ring of version 7" in done.stderr
    assert [r.state for r in recording.ring_statuses(rings)] == ["damaged"]
    with pytest.raises(live.LiveError, match="version 7"):
        live.Ring(path)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"format": "other"}', b"\xff\0" * 99, None]
)
def test_records_are_read_beside_any_sidecar(
    content: bytes | None,
    program: Path,
    variables: Variables,
    rings: Path,
    tmp_path: Path,
) -> None:
    path, out = rings / "ggscope-side", tmp_path / "out.bin"
    run([str(program), str(NODES), "5"], direct(variables, path))
    run(captured("recover", path, "-o", out), variables)
    sidecar = out.with_suffix(".json")
    whole = sidecar.read_bytes()
    sidecar.write_bytes(whole[: len(whole) // 2] if content is None else content)

    assert info(out)["counts"]["records"] == NODES * 5
    assert TRACER.exists()
