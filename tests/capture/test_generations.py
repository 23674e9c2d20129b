"""A program that computes ever new graphs: what it describes is bounded in memory.

A made-up ggml computes graphs that differ in their sizes only, in two contexts at once,
as a server does that gets requests of ever new lengths.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggscope.live import builds as live_builds
from ggscope.live.program import ProgramSource
from ggscope.live.recording_folder import folder_of
from ggscope.live.recording_store import RecordedBuilds
from ggscope.live.source import State
from ggscope_capture import recording, ring
from ggscope_capture.config import resolve
from ggscope_capture.facts import to_sidecar
from ggscope_capture.native import build
from ggscope_capture.record_counts import count_records
from ggscope_capture.recording import Recorder
from ggscope_capture.ring_contents import RingContents
from ggscope_capture.ring_format import FrameType, Mode
from tracing import contents_of, tracer, tracer_environment

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the tracer was written for Linux only so far"
)
SOURCE = Path(__file__).parent / "fake_ggml.c"
NODES, THREADS, GRAPHS = 60, 2, 4000
GENERATIONS_BYTES = 3 << 20
"""Two generations, and what one is longer than it has to be."""
UNTAKEN_BYTES = 5 << 20
"""So much there is of them where nobody takes them."""
LARGE = 128 << 20
"""A ring that holds all: what is lost is not for want of room."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tracer()
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler here")
    folder = tmp_path_factory.mktemp("contexts")
    for name, flags in (
        ("libggml.so", ["-fPIC", "-shared", "-DTHREADED"]), ("fake", ["-DPROGRAM"]),
    ):  # fmt: skip
        line = ["cc", "-O2", *flags, SOURCE, "-o", folder / name, "-ldl", "-pthread"]
        subprocess.run(line, check=True)
    return folder


@contextlib.contextmanager
def running(
    built: Path,
    path: Path,
    *,
    size: int = LARGE,
    graphs: int = GRAPHS,
    n_same: int = 1,
    **more: str,
) -> Iterator[subprocess.Popen[bytes]]:
    """Compute `n_same` graphs all the time, and `graphs` new ones beside them."""
    variables = {
        **os.environ, **tracer_environment("preload"),
        "FAKE_GGML": str(built / "libggml.so"), "GGSCOPE_RING": str(path),
        "GGSCOPE_RING_SIZE": str(size), **more,
    }  # fmt: skip
    line = [built / "fake", str(NODES), str(graphs), str(THREADS), "contexts"]
    line.append(str(n_same))
    with subprocess.Popen(line, env=variables) as program:
        yield program


def settings() -> Any:
    return resolve({}, None, {}).settings


def allocated(path: Path) -> int:
    """Return the bytes that a file takes: holes take none."""
    return path.stat().st_blocks * 512


def recorder_of(path: Path, program: subprocess.Popen[bytes]) -> Recorder:
    until = time.monotonic() + 30
    while True:
        try:
            folder = path.with_name("out.bin.partial")
            return Recorder.begin(path, folder, settings())
        except (FileNotFoundError, ring.NotReadyError):
            assert program.poll() is None
            assert time.monotonic() < until
            time.sleep(0.001)


def reader_of(path: Path) -> int:
    """Return the process that empties a ring; 0 = none does, -1 = it is not there."""
    try:
        read = ring.Ring(path, is_owner=False)
    except (FileNotFoundError, ring.NotReadyError):
        return -1
    with read:
        return read.value("reader_pid")


def check_written(contents: RingContents, n_new: int) -> None:
    """Every graph has its build, every record is a node of it, none is missing."""
    numbers, counts = np.unique(contents.records.all()["graph"], return_counts=True)
    assert set(counts.tolist()) <= {NODES * THREADS, (NODES + 1) * THREADS}
    assert numbers.tolist() == contents.graphs["graph"].tolist()
    new = contents.graphs[contents.graphs["n_nodes"] == NODES + 1]
    assert len(new) == n_new
    for rows, number in zip(range(1, n_new + 1), new["build"].tolist(), strict=True):
        made = contents.builds[number]
        assert made.names[NODES] == f"new-{NODES}"
        assert set(made.tensors["ne"][:, 1].tolist()) == {rows}
        assert set(made.tensors["bytes"].tolist()) == {32 * rows}
        assert (made.tensors["pointer"][1:-1] > made.tensors["pointer"][0]).all()
    assert {contents.builds[n].names[0] for n in contents.graphs["build"].tolist()} == {
        "same-0", "new-0",
    }  # fmt: skip


def loaded(recorder: Recorder) -> recording.Recording:
    return recording.load(recorder.folder, recorder.common_settings)


def test_definitions_that_were_taken_are_given_back(
    built: Path, tmp_path: Path
) -> None:
    path = tmp_path / "ring"
    value = 0
    with running(built, path) as program:
        recorder = recorder_of(path, program)
        while program.poll() is None:
            recorder.poll()
            value = max(value, allocated(ring.defs_path(path)))
    recorder.poll()
    length, first = ring.defs_path(path).stat().st_size, recorder.ring.value
    n_given_back = first("defs_first")
    recorder.finish(keeps_ring=True)

    taken = loaded(recorder)

    assert program.returncode == 0
    # Several generations were begun, and two of them at most were there at once.
    assert n_given_back > 1 << 20
    assert value < GENERATIONS_BYTES < length
    assert (taken.lost, taken.lost_events, taken.damaged) == (0, 0, 0)
    assert (taken.control["no_node"], taken.control["defs_lost"]) == (0, 0)
    account = taken.sidecar_keys["account"]
    assert account["recorded"] == account["computed"] > GRAPHS * NODES * THREADS
    assert (account["missing"], account["unknown_graphs"]) == (0, 0)
    assert len(taken.contents.builds) == GRAPHS + 1
    check_written(taken.contents, GRAPHS)


def test_like_builds_take_a_small_part_of_the_bytes(
    built: Path, tmp_path: Path
) -> None:
    path = tmp_path / "ring"
    with running(built, path, graphs=200) as program:
        assert program.wait(60) == 0

    with ring.Ring(path, is_owner=False) as read:
        events = read.definitions()
    sizes = {kind: [len(e.body) for e in events if e.type == kind] for kind in (7, 14)}

    # One whole of each context; the others differ in sizes, and in where they lie.
    assert (len(sizes[7]), len(sizes[14])) == (2, 199)
    assert max(sizes[14]) < min(sizes[7]) / 4


@pytest.mark.parametrize("kind", ["overwrite", "drop"])
def test_definitions_that_nobody_takes_are_bounded(
    kind: str, built: Path, tmp_path: Path
) -> None:
    path = tmp_path / "ring"
    with running(built, path, size=4 << 20, GGSCOPE_RING_MODE=kind) as program:
        assert program.wait(100) == 0

    assert allocated(ring.defs_path(path)) < UNTAKEN_BYTES
    with ring.Ring(path, is_owner=False) as read:
        lost, first = read.value("defs_lost"), read.value("defs_first")
        report = RingContents.of(
            read.definitions(), read.events(), np.concatenate(read.records()),
            read.lanes.copy(),
        )  # fmt: skip
    records = report.records.all()
    if kind == "overwrite":
        # The newest records are there, with all that they refer to.
        assert (lost, first > 0) == (0, True)
        newest = report.graphs["graph"][-1]
        named = report.graphs["build"][report.places(records["graph"])]
        assert records["graph"].max() == newest
        assert set(named.tolist()) <= set(report.builds)
    else:
        # The oldest records are there, and as much of the definitions as is allowed.
        assert (lost > 0, first) == (True, 0)
        place = report.places(records["graph"][:1000])
        assert (report.graphs["build"][place] < 2000).all()


def test_ops_of_graphs_that_sampling_leaves_out_are_not_unknown(
    built: Path, tmp_path: Path
) -> None:
    path = tmp_path / "ring"
    with running(built, path, graphs=300, GGSCOPE_SAMPLE="3") as program:
        assert program.wait(60) == 0

    with ring.Ring(path, is_owner=False) as read:
        assert read.value("skipped") > 150
        assert read.value("no_node") == 0


def test_ops_of_threads_that_the_ring_has_no_lane_for_are_lost_and_counted(
    built: Path, tmp_path: Path
) -> None:
    """More contexts at once than a ring has lanes for: their ops are not unknown."""
    path, n_same = tmp_path / "ring", 7
    with running(built, path, graphs=300, n_same=n_same) as program:
        assert program.wait(60) == 0

    with ring.Ring(path, is_owner=False) as read:
        n_lanes = len(read.lanes)
        counts = {key: read.value(key) for key in ("no_lane", "no_node")}
        report, control = contents_of(read), read.control[0].copy()
    counted = count_records(report)
    facts = to_sidecar(report, control)

    assert n_lanes < (n_same + 1) * THREADS
    assert counts["no_node"] == 0
    assert facts["dropped"] == facts["no_lane"] == counts["no_lane"] > 0
    # Exactly what is missing of the graphs, each of which has ended.
    assert np.array_equal(counted.computed, counted.written)
    assert counted.computed.sum() == counted.received.sum() + counts["no_lane"]


def test_reader_that_comes_late_names_all_that_it_sees(
    built: Path, tmp_path: Path
) -> None:
    """Neither the first definitions nor a recording of them are there any more."""
    path = tmp_path / "ring"
    with running(built, path) as program:
        first = recorder_of(path, program)
        while first.ring.value("defs_first") == 0:
            first.poll()
        program.send_signal(19)  # SIGSTOP: nothing comes between the two
        first.poll()
        first.ring.control["reader_pid"] = 0
        assert first.remove()
        ring.defs_path(path).with_name("ring.recording").unlink()
        program.send_signal(18)
        second = recorder_of(path, program)
        while program.poll() is None:
            second.poll()
    second.finish(keeps_ring=True)

    taken = loaded(second)

    named = set(taken.contents.graphs["build"].tolist())
    assert len(named) > 1000
    assert named <= set(taken.contents.builds)
    assert taken.sidecar_keys["account"]["unknown_graphs"] == 0
    assert {"ADD"} <= set(taken.contents.ops.values())


@pytest.mark.parametrize("n_polls", [1, 40])
def test_recorder_that_was_killed_is_gone_on_with(
    n_polls: int, built: Path, tmp_path: Path
) -> None:
    path = tmp_path / "ring"
    with running(built, path) as program:
        first = recorder_of(path, program)
        for _ in range(n_polls):
            first.poll()
        # It was killed in the middle of what it wrote, before the ring learned of it.
        first.ring.definitions()
        first.place.append("definitions", [b"\x40\0\0\0\x07\0\0\0" + bytes(9)])
        first.ring.control["reader_pid"] = 0
        second = recorder_of(path, program)
        while program.poll() is None:
            second.poll()
    second.finish(keeps_ring=True)

    taken = loaded(second)

    assert (taken.lost, taken.damaged) == (0, 0)
    check_written(taken.contents, GRAPHS)


def test_recording_is_saved_while_it_goes_on(built: Path, tmp_path: Path) -> None:
    path = tmp_path / "ring"
    n_named = []
    with running(built, path) as program:
        recorder = recorder_of(path, program)
        while program.poll() is None:
            for _ in range(100):
                recorder.poll()
            taken = loaded(recorder)
            named = taken.contents.graphs["build"].tolist()
            assert set(named) <= set(taken.contents.builds)
            n_named.append(len(set(named)))
    recorder.finish(keeps_ring=True)

    assert len(n_named) > 1


@pytest.mark.parametrize("watches", [False, True])
def test_viewer_names_every_op(watches: bool, built: Path, tmp_path: Path) -> None:
    """By itself, and beside another process that takes all before it."""
    path, out = tmp_path / "ring", tmp_path / "out.bin"
    until = time.monotonic() + 90
    line = [sys.executable, "-m", "ggscope_capture", "recover", path, "-o", out]
    with contextlib.ExitStack() as stack:
        program = stack.enter_context(running(built, path))
        if watches:
            while reader_of(path) < 0:
                assert time.monotonic() < until
            stack.enter_context(
                subprocess.Popen(
                    line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            )
            while reader_of(path) == 0:
                assert time.monotonic() < until
        source = ProgramSource(path)
        while source.status().state is not State.ENDED:
            assert time.monotonic() < until
            source.poll()
            program.poll()
        status, trace = source.status(), source.snapshot()
        source.close()
        source.forget()

    assert status.records > 0
    assert watches or status.lost == 0
    of_op = trace.spans.op >= 0
    names = {trace.strings[n] for n in np.unique(trace.spans.name[of_op]).tolist()}
    assert int(of_op.sum()) == status.records
    assert names == {f"same-{i}" for i in range(NODES)} | {
        f"new-{i}" for i in range(NODES + 1)
    }


def test_builds_that_the_ring_has_no_more_are_found_in_the_recording(
    built: Path, tmp_path: Path
) -> None:
    path = tmp_path / "ring"
    with running(built, path) as program:
        recorder = recorder_of(path, program)
        while recorder.ring.value("defs_first") == 0:
            recorder.poll()
        place = folder_of(path, recorder.ring.identity)
        assert place is not None
        builds = RecordedBuilds(place)
        contents = loaded(recorder).contents
        decoded = live_builds.Builds()
        for number in (3, 1, 500, 2):
            frames = builds.find(number)
            assert frames[0].type == FrameType.BUILD
            *_, result = (
                decoded.whole(frame.body)
                if frame.type == FrameType.BUILD
                else decoded.like(frame.body)
                for frame in frames
            )
            whole = contents.builds[number]
            assert (result.number, result.names) == (number, whole.names)
            for name in ("data", "bytes", "offset", "buffer", "sources", "layer"):
                assert np.array_equal(result.tensors[name], whole.tensors[name])
        assert builds.find(1 << 30) == []
        program.kill()


def test_viewer_takes_over_from_a_recorder_that_is_killed(
    built: Path, tmp_path: Path
) -> None:
    path = tmp_path / "ring"
    source = ProgramSource(path)
    until = time.monotonic() + 90
    with running(built, path) as program:
        first = recorder_of(path, program)
        while first.ring.value("defs_first") == 0:
            first.poll()
        source.poll()
        first.ring.control["reader_pid"] = 0
        while source.status().state is not State.ENDED:
            assert time.monotonic() < until
            source.poll()
            program.poll()
    place = source.status().recording.place
    source.close()
    assert place == first.folder

    taken = recording.load(place, settings())

    assert (taken.lost, taken.damaged) == (0, 0)
    check_written(taken.contents, GRAPHS)


# ---- contexts at once: nobody uses a build that another one replaces ----


@pytest.mark.parametrize(
    ("way", "most_builds", "graphs"),
    [("THREADED", 1024, 2500), ("THREADED", 1, 800), ("ASKED", 1, 800)],
)
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_no_thread_uses_a_build_that_another_one_replaces(
    sanitizer: str, way: str, most_builds: int, graphs: int, tmp_path: Path
) -> None:
    """More builds than the tracer keeps, while other contexts compute some of them.

    ASKED: ops are seen by their begins only, on threads that come as they like.
    """
    tracer()
    flags = ["-std=gnu11", "-O1", "-g", f"-fsanitize={sanitizer}"]
    flags += [f"-DMAX_BUILDS={most_builds}"]
    program, library = tmp_path / "fake", tmp_path / "libggml.so"
    for line in (
        [*flags, "-fPIC", "-shared", f"-D{way}", SOURCE, "-o", library, "-pthread"],
        # The tracer within the program: its functions come before those of libraries.
        [*flags, "-DPROGRAM", "-rdynamic", "-w", f"-I{build.FOLDER}", SOURCE,
         *build.sources(), "-o", program, "-ldl", "-pthread"],
    ):  # fmt: skip
        made = subprocess.run(["cc", *line], capture_output=True, check=False)
        if made.returncode != 0 and b"sanitize" in made.stderr + b"cannot find -lasan":
            pytest.skip(f"no {sanitizer} sanitizer here: {made.stderr.decode()[-200:]}")
        assert made.returncode == 0, made.stderr.decode()
    path = tmp_path / "ring"
    variables = {
        **os.environ, "FAKE_GGML": str(library), "GGSCOPE_RING": str(path),
        "GGSCOPE_RING_SIZE": str(4 << 20), "GGSCOPE_RING_MODE": "overwrite",
        "ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "halt_on_error=1",
    }  # fmt: skip
    done = subprocess.run(
        [program, "20", str(graphs), "2", "contexts", "3"], env=variables, check=False,
        capture_output=True, timeout=300,
    )  # fmt: skip

    text = done.stderr.decode()
    if "unexpected memory mapping" in text:
        pytest.skip("the thread sanitizer does not run on this kernel")
    assert done.returncode == 0, text
    assert "runtime error" not in text
    with ring.Ring(path, is_owner=False) as read:
        assert read.value("graphs") > graphs
        mode = Mode.THREADS if way == "THREADED" else Mode.BEGINS
        assert read.value("mode") == mode
        assert sum(map(len, read.records())) > 0
        assert (read.value("no_node"), read.value("defs_lost")) == (0, 0)
