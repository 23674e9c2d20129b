"""What the tracer does in programs that fork, die, unload or are built otherwise.

They compute with a made-up ggml: each case is one that real packages do not have.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ggscope.live import ring as live
from ggscope_capture import ring
from ggscope_capture.native import build
from ggscope_capture.ring_format import (
    CPU_BITS,
    RECORD_BEGIN,
    RECORD_GRAPH,
    RECORD_MIGRATED,
    UNKNOWN_U32,
    Clock,
    DefCheck,
    EventCopy,
    EventGraph,
    EventGraphEnd,
    EventHost,
    Frame,
    FrameType,
    HostCall,
    Mode,
    RingState,
    text_at,
    unpack,
)
from tracing import tracer, tracer_environment

SOURCE = Path(__file__).parent / "fake_ggml.c"
NODES, GRAPHS = 50, 20
FIELDS = range(12)
"""Where a tensor may have a field that the tracer does not know."""


@dataclass(frozen=True)
class Fake:
    """A program with a made-up ggml, and where its rings go."""

    program: Path
    libraries: Path
    folder: Path

    def environment(self, kind: str = "", **more: str) -> dict[str, str]:
        return {
            **os.environ,
            **tracer_environment("preload"),
            "FAKE_GGML": str(self.libraries / f"libggml{kind}.so"),
            "GGSCOPE_RING": str(self.folder / "ring"),
            "GGSCOPE_RING_SIZE": str(1 << 20),
            **more,
        }

    def run(self, *arguments: object, kind: str = "", **more: str) -> int:
        line = [self.program, *map(str, arguments)]
        done = subprocess.run(
            line, env=self.environment(kind, **more), capture_output=True,
            check=False, timeout=60,
        )  # fmt: skip
        return done.returncode


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tracer()
    folder = tmp_path_factory.mktemp("fake")
    kinds = {"": [], "-direct": ["-DDIRECT"]}
    for place in FIELDS:
        kinds[f"-field-{place}"] = [f"-DFIELD_AT={place}"]
    for kind in ("card", "sealed", "closed", "asked", "decodes"):
        kinds[f"-{kind}"] = [f"-D{kind.upper()}"]
    kinds["-open"] = ["-DNO_BARRIER"]
    for kind, flags in kinds.items():
        to = folder / f"libggml{kind}.so"
        subprocess.run(
            ["cc", "-O2", "-fPIC", "-shared", *flags, SOURCE, "-o", to], check=True
        )
    subprocess.run(
        ["cc", "-O2", "-DPROGRAM", SOURCE, "-o", folder / "fake", "-ldl"], check=True
    )
    return folder


@pytest.fixture
def fake(built: Path, tmp_path: Path) -> Fake:
    return Fake(built / "fake", built, tmp_path)


def taken(path: Path) -> tuple[ring.Ring, np.ndarray]:
    """Open a ring and take its records."""
    opened = ring.Ring(path)
    return opened, np.concatenate([np.zeros(0, ring.RECORD), *opened.records()])


def check_of(opened: ring.Ring) -> DefCheck:
    (check,) = [e for e in opened.definitions() if e.type == FrameType.CHECK]
    return unpack(DefCheck, check.body)


def test_every_node_of_every_graph_is_reported(fake: Fake) -> None:
    assert fake.run(NODES, GRAPHS, 3) == 0

    opened, records = taken(fake.folder / "ring")

    assert len(records) == NODES * GRAPHS * 3
    assert np.all(np.bincount(records["node"]) == GRAPHS * 3)
    assert check_of(opened).result == 1
    assert opened.value("state") == RingState.ENDED


def test_ops_without_elements_are_no_unknown_ops(fake: Fake) -> None:
    """ggml passes them by, as in the first graph of a model that drafts."""
    assert fake.run(NODES, GRAPHS, 2, "empty") == 0

    opened, records = taken(fake.folder / "ring")

    assert len(records) == NODES // 2 * GRAPHS * 2
    assert opened.value("no_node") == 0
    assert check_of(opened).result == 1


@pytest.mark.parametrize("pace_ms", [0, 20])
def test_decodes_keep_a_pace_where_one_is_set(pace_ms: int, fake: Fake) -> None:
    expected = {"GGSCOPE_PACE_NS": str(pace_ms * 1_000_000)} if pace_ms else {}
    assert fake.run(NODES, GRAPHS, kind="-decodes", **expected) == 0

    opened, records = taken(fake.folder / "ring")
    events = [e for e in opened.events() if e.type == FrameType.HOST]
    calls = [unpack(EventHost, e.body) for e in events]
    begins = np.sort([c.begin for c in calls if c.kind == HostCall.DECODE])

    assert len(records) == NODES * GRAPHS
    assert len(begins) == GRAPHS - 1  # the first one found the library untouched
    assert (np.diff(begins.astype(np.int64)) >= pace_ms * 1_000_000).all()
    # The waits lie between the calls: within them there is nothing but the graph.
    took = np.median([c.end - c.begin for c in calls])
    assert took < 20_000_000


@pytest.mark.parametrize("given", ["", "made slowly, on purpose", "x" * 2_000])
def test_what_is_given_to_be_known_of_a_run_stands_in_it(
    given: str, fake: Fake
) -> None:
    assert fake.run(NODES, 1, GGSCOPE_NOTE=given) == 0

    opened, _ = taken(fake.folder / "ring")
    notes = [
        text_at(e.body, 4)[0] for e in opened.definitions() if e.type == FrameType.NOTE
    ]

    assert notes == ([given[:511]] if given else [])


def test_a_ring_is_its_owners_alone(fake: Fake) -> None:
    assert fake.run(NODES, 1) == 0

    modes = {path.stat().st_mode & 0o777 for path in fake.folder.iterdir()}

    assert modes == {0o600}


def test_a_pinned_run_shows_one_core(fake: Fake) -> None:
    core = min(os.sched_getaffinity(0))
    line = [str(fake.program), str(NODES), str(GRAPHS)]
    pinned = (
        f"import os; os.sched_setaffinity(0, [{core}]); os.execv({line[0]!r}, {line})"
    )
    subprocess.run(
        [sys.executable, "-c", pinned], env=fake.environment(), check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip

    _, records = taken(fake.folder / "ring")

    cores = set((records["extra"] & (1 << CPU_BITS) - 1).tolist())
    if cores == {0xFFF}:
        pytest.skip("the processor does not report its cores")
    assert cores == {core}
    assert not np.any(records["extra"] & RECORD_MIGRATED)


def test_a_killed_program_leaves_all_that_it_did(fake: Fake) -> None:
    assert fake.run(NODES, GRAPHS, 1, "kill") == -9

    opened, records = taken(fake.folder / "ring")

    assert len(records) == NODES * GRAPHS
    assert opened.value("state") == RingState.RUNS


def test_a_child_has_a_ring_of_its_own(fake: Fake) -> None:
    assert fake.run(NODES, GRAPHS, 1, "fork") == 0

    rings = sorted(p for p in fake.folder.iterdir() if p.suffix != ".defs")
    assert len(rings) == 2
    opened, own = taken(rings[0])
    child, others = taken(rings[1])
    assert rings[1].name == f"ring-{child.value('pid')}"
    # The parent goes on after its child has ended.
    assert (len(own), len(others)) == (2 * NODES * GRAPHS, 2 * NODES * GRAPHS)
    names = {event.type for event in child.definitions()}
    assert {
        FrameType.BUILD,
        FrameType.OP,
        FrameType.PROGRAM,
    } <= names
    assert opened.value("pid") != child.value("pid")


@pytest.mark.parametrize("plan", ["close", "exec"])
def test_unloading_and_other_programs_do_no_harm(fake: Fake, plan: str) -> None:
    assert fake.run(NODES, GRAPHS, 1, plan) == 0

    _, records = taken(fake.folder / "ring")

    assert len(records) == NODES * GRAPHS * (2 if plan == "close" else 1)


@pytest.mark.parametrize("place", FIELDS)
def test_tensors_that_look_otherwise_are_refused_with_the_version(
    place: int, fake: Fake
) -> None:
    assert fake.run(NODES, GRAPHS, kind=f"-field-{place}") == 0

    opened, records = taken(fake.folder / "ring")

    notes = [e for e in opened.definitions() if e.type == FrameType.NOTE]
    text, _ = text_at(notes[0].body, 4)
    assert text.startswith("ggml 0.0.fake is not understood")
    assert len(records) == GRAPHS
    assert np.all(records["extra"] & RECORD_GRAPH)


def test_what_cannot_be_seen_by_thread_is_reported_by_graph(fake: Fake) -> None:
    assert fake.run(NODES, GRAPHS, kind="-direct") == 0

    opened, records = taken(fake.folder / "ring")

    assert opened.value("mode") == Mode.GRAPHS
    assert check_of(opened).missing_nodes == NODES
    assert len(records) == GRAPHS
    assert np.all(records["extra"] & RECORD_GRAPH)
    assert np.all(records["node"] == UNKNOWN_U32)


@pytest.mark.parametrize("kind", ["-card", "-sealed", "-closed"])
def test_other_backends_and_sealed_libraries_are_reported_by_graph(
    fake: Fake, kind: str
) -> None:
    assert fake.run(NODES, GRAPHS, kind=kind) == 0

    opened, records = taken(fake.folder / "ring")

    assert opened.value("mode") == Mode.GRAPHS
    assert len(records) == GRAPHS
    assert np.all(records["extra"] & RECORD_GRAPH)
    events = opened.events()
    begun = [
        unpack(EventGraph, event.body)
        for event in events
        if event.type == FrameType.GRAPH_BEGIN
    ]
    assert [graph.graph for graph in begun] == list(range(GRAPHS))
    assert all(graph.build == 0 and graph.n_nodes == NODES for graph in begun)
    field = "context" if kind == "-sealed" else "backend"
    assert all(getattr(graph, field) for graph in begun)
    copies = [e for e in events if e.type == FrameType.COPY]
    if kind == "-card":
        # The first one came before there was a ring.
        assert len(copies) == GRAPHS - 1
        copy = unpack(EventCopy, copies[0].body)
        assert copy.bytes == 8 * 8 * 4
        assert copy.begin <= copy.end
        assert copy.name.rstrip(b"\0") == b"left"


def test_ops_without_barriers_have_a_begin_only(fake: Fake) -> None:
    assert fake.run(NODES, GRAPHS, kind="-open") == 0

    opened, records = taken(fake.folder / "ring")

    assert opened.value("mode") == Mode.BEGINS
    assert len(records) == NODES * GRAPHS
    assert np.all(records["extra"] & RECORD_BEGIN)
    assert not records["op_ns"].any()


def test_libraries_that_call_themselves_directly_show_when_ops_begin(
    fake: Fake,
) -> None:
    """What is planned beforehand is no op; threads are new ones in each graph."""
    n_threads = 3
    assert fake.run(NODES, GRAPHS, n_threads, kind="-asked") == 0

    opened, records = taken(fake.folder / "ring")

    assert opened.value("mode") == Mode.BEGINS
    assert len(records) == NODES * GRAPHS * n_threads
    assert np.all(records["extra"] & RECORD_BEGIN)
    assert int(np.count_nonzero(opened.lanes["state"])) == n_threads
    for graph in range(GRAPHS):
        mine = records[records["graph"] == graph]
        assert np.all(np.bincount(mine["node"]) == n_threads)
        assert np.all(np.bincount(mine["lane"]) == NODES)
    begun = [
        unpack(EventGraph, event.body)
        for event in opened.events()
        if event.type == FrameType.GRAPH_BEGIN
    ]
    assert {graph.n_threads for graph in begun} == {0}  # not known beforehand
    definitions = ring.Ring(fake.folder / "ring").definitions()
    notes = [text_at(e.body, 4)[0] for e in definitions if e.type == FrameType.NOTE]
    assert [note.split(":")[0] for note in notes] == [
        "Ops are seen by their beginnings only"
    ]


@pytest.fixture(scope="module")
def arm64(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracer, both libraries and the program, compiled across."""
    compiler = shutil.which("aarch64-linux-gnu-gcc")
    if compiler is None:
        pytest.skip("there is no compiler for arm64 here")
    folder = tmp_path_factory.mktemp("arm64")
    build.compile_tracer(folder / "t.so", compiler=f"{compiler} -Werror")
    shared = ["-fPIC", "-shared"]
    ways = {"g.so": shared, "g-asked.so": [*shared, "-DASKED"], "fake": ["-DPROGRAM"]}
    for name, flags in ways.items():
        line = [compiler, *flags, "-O2", SOURCE, "-ldl", "-pthread"]
        subprocess.run([*line, "-o", folder / name], check=True)
    return folder


@pytest.mark.parametrize("kind", ["", "-asked"])
def test_arm64_does_the_same(kind: str, arm64: Path, tmp_path: Path) -> None:
    """Compiled across, and run by an emulator, where both are there."""
    library, ggml, program = (arm64 / name for name in ("t.so", f"g{kind}.so", "fake"))
    emulator = shutil.which("qemu-aarch64")
    if emulator is None:
        pytest.skip("compiled; there is no emulator of arm64 here")
    inside = {
        "LD_PRELOAD": library, "FAKE_GGML": ggml, "GGSCOPE_RING": tmp_path / "ring",
        "GGSCOPE_RING_SIZE": 1 << 20,
    }  # fmt: skip
    given = [word for key, value in inside.items() for word in ("-E", f"{key}={value}")]
    subprocess.run(
        [emulator, "-L", "/usr/aarch64-linux-gnu", *given, program, "50", "20", "3"],
        check=True, stdout=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip

    opened, records = taken(tmp_path / "ring")

    assert len(records) == 50 * 20 * 3
    mode = Mode.BEGINS if kind else Mode.THREADS
    assert (opened.value("mode"), opened.value("clock")) == (
        mode,
        Clock.IS_CNTVCT,
    )


def test_a_ring_that_cannot_be_made_changes_nothing(fake: Fake) -> None:
    assert fake.run(NODES, GRAPHS, GGSCOPE_RING="/nowhere/ring") == 0


def test_what_is_overwritten_is_counted_by_the_reader(fake: Fake) -> None:
    assert fake.run(NODES, 1000, GGSCOPE_RING_MODE="overwrite") == 0

    opened, records = taken(fake.folder / "ring")

    assert opened.dropped() == 0
    assert int(opened.lost.sum()) + len(records) == NODES * 1000
    assert opened.lost.any()


def test_newest_events_outlive_the_oldest_ones(fake: Fake) -> None:
    n = 5000
    assert fake.run(NODES, n, GGSCOPE_RING_MODE="overwrite") == 0

    opened, records = taken(fake.folder / "ring")

    events = opened.events()
    begun = [
        unpack(EventGraph, event.body).graph
        for event in events
        if event.type == FrameType.GRAPH_BEGIN
    ]
    assert opened.events_lost > 0
    assert begun == list(range(begun[0], n))
    report = int(opened.control["events_head"][0]) - opened.events_lost
    sizes = sum(16 + len(event.body) for event in events)
    assert 0 <= report - sizes < 200  # one frame may fill the end of the lane
    assert set(records["graph"].tolist()) <= set(range(n))


def test_the_viewer_takes_the_newest_events_of_a_lapped_ring(fake: Fake) -> None:
    n = 5000
    assert fake.run(NODES, n, GGSCOPE_RING_MODE="overwrite") == 0

    viewer = live.Ring(fake.folder / "ring")
    fresh = viewer.take()
    viewer.close()

    begun = [
        int.from_bytes(frame.body[:4], "little")
        for frame in fresh.frames
        if frame.type == FrameType.GRAPH_BEGIN
    ]
    assert begun
    assert begun == list(range(begun[0], n))


def test_events_that_find_no_room_are_counted(fake: Fake) -> None:
    n = 5000
    assert fake.run(NODES, n) == 0

    opened, _ = taken(fake.folder / "ring")

    dropped = opened.value("events_dropped")
    events = opened.events()
    clocks = sum(event.type == FrameType.CLOCK for event in events)
    assert dropped > 0
    assert len(events) - clocks + dropped >= 2 * n
    assert opened.events_lost == 0


def test_tracing_can_begin_switched_off(fake: Fake) -> None:
    assert fake.run(NODES, GRAPHS, GGSCOPE_ENABLED="0") == 0

    opened, records = taken(fake.folder / "ring")

    assert len(records) == 0
    assert opened.value("skipped") == GRAPHS


def test_one_graph_of_so_many_is_traced(fake: Fake) -> None:
    assert fake.run(NODES, GRAPHS, GGSCOPE_SAMPLE="5") == 0

    _, records = taken(fake.folder / "ring")

    assert len(records) == NODES * GRAPHS // 5


def ends(opened: ring.Ring) -> list[Frame]:
    return [e for e in opened.events() if e.type == FrameType.GRAPH_END]


def switch_off(control: np.ndarray) -> None:
    control["enabled"] = 0


def leave_out_the_op(control: np.ndarray) -> None:
    control["op_mask"][0, 0] = 1 << 1
    control["filter_seq"] += 1


def leave_out_the_thread(control: np.ndarray) -> None:
    control["lane_mask"][0, 0] = 1
    control["filter_seq"] += 1


def two_layers(control: np.ndarray) -> None:
    control["layer_first"], control["layer_last"] = 3, 4
    control["filter_seq"] += 1


@pytest.mark.parametrize(
    ("change", "n_after"),
    [
        (switch_off, 0),
        (leave_out_the_op, 0),
        (leave_out_the_thread, NODES),
        (two_layers, 4),
    ],
)
def test_the_viewer_changes_what_is_traced_while_it_runs(
    fake: Fake, change: Callable[[np.ndarray], None], n_after: int
) -> None:
    line = [str(fake.program), str(NODES), "3", "2", "pause"]
    process = subprocess.Popen(
        line, env=fake.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None

    process.stdout.readline()
    opened, before = taken(fake.folder / "ring")
    change(opened.control)
    process.stdin.write(b"\n")
    process.stdin.flush()
    process.stdout.readline()
    after = sum(map(len, opened.records()))
    expected = [unpack(EventGraphEnd, e.body).n_expected for e in ends(opened)]
    process.stdin.close()
    process.stdout.read()

    assert process.wait(timeout=20) == 0
    process.stdout.close()
    assert len(before) == 2 * NODES
    assert after == n_after
    assert expected == [2 * NODES] + ([] if change is switch_off else [n_after])
