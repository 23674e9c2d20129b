"""A program that is followed through its ring."""

import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from ggscope.analysis.completeness.expected import COUNTED, completeness
from ggscope.analysis.filters.masks import filter_mask, read_filter
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.statistics.table import stat_table
from ggscope.descriptions.completeness import with_completeness
from ggscope.descriptions.spans import span_facts
from ggscope.errors import LiveError
from ggscope.live.open_source import path_to_follow, rings
from ggscope.live.program import ProgramSource
from ggscope.live.ring import ring_head
from ggscope.live.source import State
from ggscope.model.run import BEGIN_ONLY, WHOLE_GRAPH
from ggscope.model.tables import LONGEST_WAIT, NO_WAIT
from ggscope.model.tensors import Place
from ggscope.model.trace import LaneKind
from ggscope.session.live import FollowState, ended
from ggscope.views.base.cells import columns_of
from ggscope_capture.ring import RECORD
from ggscope_capture.ring_format import FrameType
from ring_writer import N_NODES, Writer, frame, text

pytestmark = pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the made-up writer needs Linux"
)


def polled(source: ProgramSource) -> ProgramSource:
    source.poll()
    return source


def threads(trace) -> np.ndarray:
    return trace.lanes.of_kind(LaneKind.THREAD)[trace.spans.lane]


def test_ring_that_is_not_there_yet_is_waited_for(source, path):
    assert not source.poll()
    assert source.status().state is State.WAITING
    assert str(path) in source.status().message
    writer = Writer(path, is_ready=False)
    assert not source.poll()
    writer.make_ready()
    writer.graph()

    source.poll()

    assert source.status().state is State.RUNNING
    assert source.status().records == 4 * N_NODES


def test_every_record_comes_once_however_often_the_ring_goes_round(source, path):
    writer, seen = Writer(path, capacity=256), []
    for n in (100, 200, 37, 256, 1, 199):
        writer.graph(n)
        source.poll()
        seen.append(source.status().records)

    trace = source.snapshot()

    assert trace.check() == []
    assert seen == np.cumsum([400, 800, 148, 1024, 4, 796]).tolist()
    of_threads = threads(trace)
    assert int(of_threads.sum()) == writer.written
    names = [trace.span_name(i) for i in np.flatnonzero(of_threads)[:3]]
    assert names == ["node-0-0", "node-0-1", "node-0-2"]
    assert trace.op_name(int(trace.spans.op[of_threads][0])) == "MUL_MAT"
    assert source.status().lost == 0
    assert trace.is_running


def test_names_layers_and_accesses_are_those_of_the_build(source, path):
    writer = Writer(path)
    writer.graph()
    source.poll()
    trace = source.snapshot()
    span = int(np.flatnonzero(threads(trace))[23])

    access_columns = trace.accesses.of_span(span)

    assert trace.span_name(span) == "node-2-23"
    assert trace.spans.layer[span] == 2
    assert access_columns.offset.tolist() == [4096]
    assert access_columns.size.tolist() == [9000]
    tensor = int(access_columns.tensor[0])
    assert trace.strings[int(trace.tensors.name[tensor])] == "blk.0.ffn_up.weight"


def test_core_and_node_of_each_op_are_reported_and_unknown_stays_unknown(source, path):
    writer = Writer(path)
    writer.graph()
    source.poll()
    trace = source.snapshot()

    spans, of_threads = trace.spans, threads(trace)
    rows = {
        (trace.lanes[lane].name, core, node)
        for lane, core, node in zip(
            spans.lane[of_threads].tolist(),
            spans.core[of_threads].tolist(),
            spans.numa[of_threads].tolist(),
            strict=True,
        )
    }
    assert rows == {
        ("thread 0", -1, -1), ("thread 1", 11, 0), ("thread 2", 12, 1),
        ("thread 3", 13, 1),
    }  # fmt: skip
    assert set(spans.core[~of_threads].tolist()) <= {-1}
    entries = filter_mask(trace, read_filter("core=12 node=1", trace))
    assert np.array_equal(entries, spans.core == 12)
    unknown = filter_mask(trace, read_filter("core=unknown", trace))
    assert np.array_equal(unknown, spans.core < 0)
    table = stat_table(trace, "numa")
    assert {row.key: row.count for row in table.rows} == {
        "0": 100, "1": 200, "unknown": 100,
    }  # fmt: skip
    (first, *_) = np.flatnonzero(spans.core == 13).tolist()
    facts = {fact.label: fact.value for fact in span_facts(trace, first)}
    assert facts["core"] == "13"
    assert facts["NUMA node"] == "1"
    keys = [column.key for column in columns_of(trace)]
    assert {"core", "numa"} <= set(keys)


def test_wait_behind_each_op_is_its_records(source, path):
    writer = Writer(path)
    writer.graph()
    source.poll()
    early = source.snapshot()
    writer.graph()
    source.poll()
    trace = source.snapshot()

    assert trace.check() == []
    wait, of_threads = trace.spans.wait, threads(trace)
    assert set(wait[of_threads].tolist()) == {100}
    assert set(wait[~of_threads].tolist()) == {NO_WAIT}
    end = trace.spans.end
    assert trace.spans.last_tick() == max(end.max(), end[of_threads].max() + 100)
    assert early.spans.wait.tolist() == wait[: len(early.spans)].tolist()


@pytest.mark.parametrize("flag", [BEGIN_ONLY, WHOLE_GRAPH])
def test_record_without_an_end_or_of_a_graph_has_no_wait(source, path, flag):
    writer = Writer(path)
    record = np.zeros(2, RECORD)
    record["t0"] = time.monotonic_ns() + np.arange(2) * 1000
    record["op_ns"], record["wait_ns"], record["op"] = 700, [100, 2**32 - 1], 1
    record["extra"] = [flag, 0]
    writer.put(0, record)
    source.poll()

    trace = source.snapshot()

    wait = trace.spans.wait[threads(trace)]
    assert wait.tolist() == [NO_WAIT, LONGEST_WAIT]


def test_ring_of_begins_has_no_waits(source, path):
    writer = Writer(path)
    record = np.zeros(2, RECORD)
    record["t0"] = time.monotonic_ns() + np.arange(2) * 1000
    record["op"], record["extra"] = 1, BEGIN_ONLY
    writer.put(0, record)
    source.poll()

    assert source.snapshot().spans.wait is None


def ubatch(number: int, tokens: list[int], positions: list[int]) -> bytes:
    numbers = [*tokens, *positions]
    head = struct.pack("<IIIIQ", number, len(tokens), len(positions), 2, 0)
    return head + struct.pack(f"<{len(numbers)}i", *numbers)


@pytest.mark.parametrize(
    ("tokens", "positions", "name"),
    [
        ([450], [17], "ubatch 0 · token 450 at 17"),
        ([450], [], "ubatch 0 · token 450"),
        ([5, 6, 7], [0, 1, 2], "ubatch 0 · 3 tokens at 0–2: 5, 6, 7"),
        ([5, 6], [9, 3], "ubatch 0 · 2 tokens at 9, 3: 5, 6"),
        ([1] * 7, [*range(6), 9],
         "ubatch 0 · 7 tokens at 0, 1, 2, 3, 4, 5, …: 1, 1, 1, 1, 1, 1, …"),
        # Of M-RoPE the first of several positions is that in the sequence.
        ([5, 6], [0, 1, 9, 9], "ubatch 0 · 2 tokens at 0, 1: 5, 6"),
        ([], [4], "ubatch 0 · 1 token at 4"),
    ],
)  # fmt: skip
def test_tokens_and_positions_of_a_ubatch_are_in_its_name(
    source, path, tokens, positions, name
):
    writer = Writer(path)
    writer.event(FrameType.UBATCH, ubatch(0, tokens, positions), time.monotonic_ns())
    writer.graph()
    source.poll()
    trace = source.snapshot()
    still_open = [trace.strings[i] for i in trace.open_spans.name.tolist()]
    writer.end()
    polled(source)
    polled(source)
    trace = source.snapshot()

    is_token = trace.lanes.of_kind(LaneKind.TOKEN)[trace.spans.lane]
    (row,) = np.flatnonzero(is_token)
    assert trace.span_name(int(row)) == name
    assert name in still_open


def test_ubatch_that_is_cut_shows_no_tokens(source, path):
    writer = Writer(path)
    writer.event(FrameType.UBATCH, ubatch(0, [1, 2, 3], [])[:28], time.monotonic_ns())
    writer.graph()
    source.poll()

    trace = source.snapshot()
    assert trace.strings[int(trace.open_spans.name[0])] == "ubatch 0"
    assert source.status().tokens == -1
    assert "live_damaged" in {problem.code for problem in trace.warnings}


def test_records_without_a_lane_are_not_lost_for_want_of_room(source, path):
    writer = Writer(path, capacity=64)
    for n, n_without in ((10, 0), (100, 7), (5, 7), (5, 30)):
        writer.graph(n)
        writer.control["no_lane"] = n_without
        source.poll()

    trace = source.snapshot()

    counts = {"live_lost": 0, "live_no_lane": 0}
    for problem in trace.warnings:
        if problem.code in counts:
            counts[problem.code] += problem.count
    assert counts == {"live_lost": writer.dropped, "live_no_lane": 30}
    assert source.status().lost == writer.dropped + 30 > 30


def test_losses_of_a_ring_too_small_are_counted_exactly_and_hatched(source, path):
    writer = Writer(path, capacity=64)
    for n in (10, 300, 64, 100, 5):
        writer.graph(n)
        source.poll()
    writer.graph(1)
    source.poll()

    trace = source.snapshot()

    assert writer.dropped == 4 * (236 + 36)
    assert source.status().lost == writer.dropped
    assert source.status().records == writer.written
    (problem,) = (w for w in trace.warnings if w.code == "live_lost")
    assert problem.count == writer.dropped
    stalls = trace.lanes.of_kind(LaneKind.STALL)[trace.spans.lane]
    span_names = [trace.span_name(i) for i in np.flatnonzero(stalls).tolist()]
    assert sorted(span_names) == ["236 records lost"] * 4 + ["36 records lost"] * 4
    assert trace.check() == []
    # A gap lies where its thread has no records.
    for at in np.flatnonzero(stalls).tolist():
        over = int(trace.lanes[int(trace.spans.lane[at])].attributes["over"])
        of_lane = trace.spans.lane == over
        start, end = trace.spans.start[of_lane], trace.spans.end[of_lane]
        inside = (start < trace.spans.end[at]) & (end > trace.spans.start[at])
        assert not inside.any()


def test_losses_of_a_ring_that_writes_over_are_counted_exactly(source, path):
    writer = Writer(path, capacity=64, overwrites=True)
    for n in (10, 300, 64, 64, 65):
        writer.graph(n)
        source.poll()

    status = source.status()

    assert status.records + status.lost == writer.written
    assert status.lost > 4 * 236


def test_end_of_the_program_ends_the_trace(source, path):
    writer = Writer(path)
    writer.graph()
    polled(source)
    open_before = len(source.snapshot().open_spans)
    writer.end()

    polled(source)

    trace = source.snapshot()
    assert source.status().state is State.ENDED
    assert open_before == 1  # the pass, which a next graph may belong to
    assert not len(trace.open_spans)
    assert not trace.pending
    assert trace.read_until is None


def test_killed_program_is_reported_of_and_all_it_wrote_is_there(source, path):
    code = (
        "import sys, os, signal; sys.path[:0] = sys.argv[2:]\n"
        "from pathlib import Path; from ring_writer import Writer\n"
        "w = Writer(Path(sys.argv[1])); w.graph(); w.graph()\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    folder = str(Path(__file__).parents[2])
    subprocess.run([sys.executable, "-c", code, str(path), folder], check=False)

    polled(polled(source))

    assert source.status().state is State.GONE
    assert source.status().records == 8 * N_NODES


def test_program_that_does_not_know_when_it_began_is_not_gone(source, path):
    writer = Writer(path)
    writer.control["start_time"] = 0
    writer.graph()

    polled(polled(polled(source)))

    assert source.status().state is State.RUNNING
    assert ring_head(path).is_running
    writer.close()


def test_ring_of_a_program_that_has_gone_is_left_as_it_is(path):
    writer = Writer(path)
    writer.graph()
    writer.end()
    left = path.read_bytes()[4096:]
    for _ in range(2):  # the second one finds all of it, too
        source = ProgramSource(path, look_ns=0)
        polled(polled(source))
        assert source.status().records == 4 * N_NODES
        assert source.status().state is State.ENDED
        assert source.status().recording.place is not None
        source.close()
        source.forget()

    assert path.read_bytes()[4096:] == left
    assert int(writer.control["events_tail"][0]) == 0
    writer.close()


def test_program_that_was_killed_and_not_asked_about_is_gone(source, path):
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from pathlib import Path; from ring_writer import Writer\n"
        "w = Writer(Path(sys.argv[1])); w.graph(); print(flush=True); sys.stdin.read()"
    )
    folder = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", code, str(path), folder]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as program:
        assert program.stdout is not None
        program.stdout.readline()
        polled(source)
        program.kill()
        # It stays as a zombie until somebody asks.
        os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
        polled(polled(source))

        assert source.status().state is State.GONE


@pytest.mark.parametrize("size", [0, 4096, 3 * 4096])
def test_ring_that_is_cut_while_it_is_followed_ends_the_trace_and_not_the_viewer(
    path, size
):
    """In a process of its own: a look beyond the end of a mapped file is a SIGBUS."""
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from ggscope.live.program import ProgramSource\n"
        "from ring_writer import Writer\n"
        "path = Path(sys.argv[1])\n"
        "writer = Writer(path)\n"
        "writer.graph()\n"
        "source = ProgramSource(path)\n"
        "source.poll()\n"
        f"os.truncate(path, {size})\n"
        "news = [source.poll(), source.poll()]\n"
        "status = source.status()\n"
        "print(news, status.state.name, status.message, len(source.snapshot().spans),"
        " flush=True)\n"
        "source.close()\n"
        "source.forget()\n"
        "os._exit(0)\n"  # the writer would find its own file cut
    )
    folders = os.pathsep.join(sys.path)

    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": folders}, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    text = "the ring was cut while it was followed"
    assert done.stdout.split("] ")[1].startswith(f"GONE {text} ")
    assert int(done.stdout.split()[-1]) > 0
    assert done.stdout.startswith("[True, False]")


def test_ring_made_anew_begins_another_trace(source, path):
    writer = Writer(path)
    writer.graph()
    polled(source)
    path.unlink()
    Writer(path).graph(50)
    writer.graph()  # what the old one still writes is not lost

    polled(polled(source))

    status = source.status()
    assert status.restarts == 1
    assert status.records == 8 * N_NODES + 200
    assert int(threads(source.snapshot()).sum()) == 200


def test_second_viewer_looks_and_leaves_the_ring_to_the_first(source, path):
    writer = Writer(path)
    writer.control["reader_pid"] = os.getppid()
    writer.graph()

    source.poll()

    assert source.status().records == 4 * N_NODES
    assert not writer.lanes["tail"].any()


def test_ring_of_a_launcher_is_left_to_it_even_before_it_comes(tmp_path):
    writer = Writer(tmp_path / f"ggscope-{os.getppid()}-abc")
    writer.graph()
    source = ProgramSource(writer.path)
    source.poll()

    assert source.status().records == 4 * N_NODES
    assert not writer.lanes["tail"].any()
    assert int(writer.control["reader_pid"][0]) == 0
    source.close()
    writer.close()


def test_viewer_that_comes_second_sees_what_the_first_has_taken(source, path):
    writer = Writer(path)
    writer.graph()
    source.poll()
    writer.control["reader_pid"] = os.getppid()  # as if the first were another process
    other = ProgramSource(path, look_ns=0)
    other.poll()

    assert other.status().records == source.status().records
    assert len(other.snapshot().spans) == len(source.snapshot().spans)
    assert other.status().lost == 0
    other.close()
    writer.close()


FOLLOWED = """
import os, sys
from pathlib import Path
from ggscope.live.program import ProgramSource
source = ProgramSource(Path(sys.argv[1]))
source.poll()
print(source.status().records, flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
source.close()
source.forget()
"""


def problems(source: ProgramSource) -> dict[str, tuple[int, str]]:
    warnings = source.snapshot().warnings
    return {problem.code: (problem.count, problem.remedy) for problem in warnings}


@pytest.mark.parametrize("how", ["killed", "closed"])
def test_viewer_that_goes_on_after_another_one_says_what_it_has_not(source, path, how):
    writer = Writer(path)
    writer.graph()
    stdout = subprocess.run(
        [sys.executable, "-c", FOLLOWED, path, how], capture_output=True, text=True
    ).stdout
    writer.graph(5)
    source.poll()
    n, remedy = problems(source)["live_before"]

    assert n == int(stdout) == 4 * N_NODES
    assert source.status().records == 20
    assert ("saved here has them" in remedy) is (how == "killed")
    writer.close()


def test_viewer_that_was_there_from_the_start_misses_nothing(source, path):
    writer = Writer(path)
    writer.graph()
    source.poll()
    writer.graph()
    source.poll()

    assert problems(source) == {}


def test_second_viewer_says_what_was_there_before_it(source, path):
    writer = Writer(path, capacity=64)
    writer.control["reader_pid"] = os.getppid()
    for _ in range(3):
        writer.lanes["tail"] = writer.lanes["head"]
        writer.graph(60)

    source.poll()

    n, _ = problems(source)["live_before"]
    assert n + source.status().records + source.status().lost == writer.written


def test_second_viewer_counts_what_the_first_let_be_overwritten(source, path):
    writer = Writer(path, capacity=64)
    writer.control["reader_pid"] = os.getppid()
    writer.graph(10)
    source.poll()
    for _ in range(3):
        writer.lanes["tail"] = writer.lanes["head"]  # the first viewer read it
        writer.graph(60)

    source.poll()

    status = source.status()
    assert status.records + status.lost == writer.written
    assert status.lost > 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("version", 3),
        ("byte_order", 0x04030201),
        ("record_size", 64),
        ("n_lanes", 0),
        ("lane_capacity", 1000),
        ("lane_capacity", 1 << 40),
        ("records_offset", 1 << 60),
        ("events_capacity", 3),
    ],
)
def test_damaged_first_page_is_refused_with_a_sentence(source, path, name, value):
    writer = Writer(path)
    writer.control[name] = value

    with pytest.raises(LiveError, match=r"version 3|damaged"):
        source.poll()


@pytest.mark.parametrize("content", [b"GGUF" + bytes(5000), b"x", b"GGSRING1"])
def test_foreign_or_cut_file_is_refused(source, path, content):
    path.write_bytes(content)

    with pytest.raises(LiveError):
        source.poll()


@pytest.mark.parametrize("seed", range(6))
def test_random_bytes_in_records_and_frames_never_break_the_trace(path, seed):
    rng = np.random.default_rng(seed)
    writer, source = Writer(path), ProgramSource(path, look_ns=0)
    for _ in range(4):
        records = np.frombuffer(rng.bytes(50 * RECORD.itemsize), RECORD)
        writer.put(int(rng.integers(0, 4)), records)
        kind = int(rng.choice([*FrameType]))
        if kind >= 32:
            writer.event(kind, rng.bytes(int(rng.integers(0, 80))), 0)
        else:
            with path.with_name(path.name + ".defs").open("ab") as file:
                file.write(struct.pack("<IHHQ", 40, kind, 0, 0) + rng.bytes(24))
        writer.graph(20)
        source.poll()
        assert source.snapshot().check() == []
    source.close()


@pytest.mark.parametrize("value", [1 << 62, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("place", ["clock", "graph"])
def test_times_that_cannot_be_stay_within_those_of_a_trace(source, path, place, value):
    writer = Writer(path)
    if place == "clock":
        writer.control["t0_mono"] = value
    writer.graph(20)
    body = struct.pack("<IIIHHHHI16xI", 99, 0, 99, 0, 1, 1, 0, 0, 0)
    writer.event(FrameType.GRAPH_BEGIN, body, value)
    writer.event(FrameType.GRAPH_END, struct.pack("<I", 99) + bytes(28), value)

    source.poll()

    assert source.snapshot().check() == []


def test_what_is_derived_of_a_live_trace_is_that_of_the_whole(source, path):
    writer, index = Writer(path, capacity=128), None
    for n in (50, 200, 100, 0, 128, 7):
        writer.graph(n)
        source.poll()
        trace = source.snapshot()
        index = TraceIndex(trace, index, is_appended=index is not None)

    fresh = TraceIndex(trace)

    assert index.lanes == fresh.lanes
    for lane in index.lanes:
        items = index.rows(lane.key), fresh.rows(lane.key)
        for row, expected in zip(*items, strict=True):
            assert np.array_equal(row.start, expected.start)
            assert np.array_equal(row.id, expected.id[:])


def test_what_the_library_says_and_what_is_damaged_are_problems(source, path):
    writer = Writer(path)
    with path.with_name(path.name + ".defs").open("ab") as file:
        note = struct.pack("<IH", 1, 5) + b"hello"
        file.write(frame(FrameType.NOTE, note) + frame(FrameType.BUILD, bytes(8)))
    writer.graph()

    source.poll()

    values = {w.code: w.message for w in source.snapshot().warnings}
    assert values["live_note"] == "hello"
    assert "is damaged" in values["live_damaged"]


def test_rings_are_found_in_the_folder_that_the_environment_names(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path))
    writer = Writer(tmp_path / "ggscope-4000000001-abc")
    elsewhere = Path(tempfile.mkdtemp(prefix="ggscope-rings-", dir=tmp_path))

    assert path_to_follow("4000000001") == writer.path
    assert writer.path in rings()

    monkeypatch.setenv("GGSCOPE_RINGS", str(elsewhere))
    assert path_to_follow("4000000001") is None
    writer.close()


def test_ring_is_found_by_the_number_of_its_program_and_of_its_launcher(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path))
    writer = Writer(tmp_path / "ggscope-4000000001-abc")

    assert path_to_follow(str(os.getpid())) == writer.path
    assert path_to_follow("4000000001") == writer.path
    assert path_to_follow("4000000002") is None
    writer.close()


def test_any_ring_means_that_of_a_program_that_runs(tmp_path, monkeypatch):
    monkeypatch.delenv("GGSCOPE_RING", raising=False)
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path))
    mine = lambda: [p for p in rings() if p.parent == tmp_path]  # noqa: E731
    runs = Writer(tmp_path / "ggscope-4000000001-abc")
    ended = Writer(tmp_path / "ggscope-4000000002-abc")
    ended.end()
    os.utime(ended.path, ns=(2**62, 2**62))
    os.utime(runs.path, ns=(2**62 - 1, 2**62 - 1))

    assert mine()[0] == ended.path
    assert path_to_follow(None) == runs.path

    runs.end()
    assert path_to_follow(None) not in (runs.path, ended.path)
    runs.close()
    ended.close()


def test_what_no_definition_shows_is_unknown_in_the_spans(source, path):
    writer = Writer(path)
    writer.graph(1)
    odd = np.zeros(4, RECORD)
    odd["t0"] = writer.control["t0_mono"] + 50
    odd["op_ns"] = 7
    odd["graph"] = (0, 0, 77, 0)
    odd["node"] = (3, 100, 3, 3)
    odd["op"] = (2, 2, 2, 5000)
    odd["extra"] = (1 << 29, 0, 1 << 30, 0)
    writer.put(0, odd)
    source.poll()
    trace = source.snapshot()
    rows = np.flatnonzero(trace.spans.lane == trace.spans.lane[1])[1:]
    spans = trace.spans

    assert spans.start[rows].tolist() == [50] * 4
    assert spans.end[rows].tolist() == [57] * 4
    assert [trace.span_name(int(i)) for i in rows] == [
        "node-0-3",
        "ADD",
        "graph",
        "node-0-3",
    ]
    assert spans.op[rows].tolist() == [2, 2, -1, -1]
    assert spans.layer[rows].tolist() == [0, -1, -1, 0]
    assert spans.token[rows].tolist() == [0, 0, -1, 0]
    assert spans.phase[rows].tolist() == [1, 1, -1, 1]
    assert (spans.flags[rows] != 0).tolist() == [True, False, False, False]
    writer.close()


def write_choice(writer, kind, graph, experts, scores=(), layer=3, n_experts=8):
    """Write what a router or a multiplication chose for rows of the batch."""
    rows, used = len(experts), len(experts[0])
    body = struct.pack("<IIiIIIII", graph, 0, layer, rows, used, n_experts, 0, 0)
    body += np.array(experts, "<i4").tobytes() + np.array(scores, "<f4").tobytes()
    writer.event(kind, body, time.monotonic_ns())


def test_choices_of_a_graph_come_when_it_has_ended_with_the_scores_of_the_router(
    source, path
):
    writer = Writer(path)
    writer.graph()
    write_choice(
        writer, FrameType.ROUTER, 0, [[5, 2], [1, 0]], [[0.75, 0.25], [0.6, 0.4]]
    )
    write_choice(writer, FrameType.EXPERTS, 0, [[5, 2], [1, 0]])
    write_choice(writer, FrameType.EXPERTS, 0, [[5, 2], [1, 0]])  # of another weight
    write_choice(writer, FrameType.ROUTER, 0, [[7]], [[1.5]], layer=4)
    write_choice(writer, FrameType.EXPERTS, 0, [[8]])  # there is no such expert
    write_choice(writer, FrameType.EXPERTS, 99, [[1]])  # nor such a graph
    source.poll()
    assert len(source.snapshot().routing) == 0

    writer.event(FrameType.GRAPH_END, struct.pack("<IiQ", 0, 0, 0), 0)
    source.poll()
    assert len(source.snapshot().routing) == 0  # records of it may be on their way
    assert source.poll()

    trace = source.snapshot()
    routing = trace.routing
    assert routing.expert.tolist() == [5, 2, 1, 0, 7]
    assert routing.rank.tolist() == [0, 1, 0, 1, 0]
    assert routing.layer.tolist() == [3, 3, 3, 3, 4]
    assert routing.token.tolist() == [0] * 5
    np.testing.assert_allclose(routing.score, [0.75, 0.25, 0.6, 0.4, 1.0])
    assert routing.n_experts == 8
    assert trace.check() == []
    writer.close()


def test_choices_that_wait_come_at_the_end_of_the_program(source, path):
    writer = Writer(path)
    writer.graph()
    write_choice(writer, FrameType.ROUTER, 0, [[5, 2]], [[0.75, 0.25]])
    writer.end()
    for _ in range(3):
        polled(source)

    assert source.status().state is State.ENDED
    assert source.snapshot().routing.expert.tolist() == [5, 2]
    writer.close()


def test_times_are_dated_by_the_clock_of_the_ring(source, path):
    writer = Writer(path)
    source.poll()

    clock = source.snapshot().clock

    assert clock.origin == int(writer.control["t0_mono"][0])
    assert clock.wall(0) == int(writer.control["t0_real"][0])


def test_models_weights_and_buffers_are_those_of_the_definitions(source, path):
    writer = Writer(path)

    def define(kind, body, at=0):
        with path.with_name(path.name + ".defs").open("ab") as file:
            file.write(frame(kind, body, at))

    origin = int(writer.control["t0_mono"][0])
    define(4, struct.pack("<IIQQ", 0, 2, 512, 70_000) + text("/models/tiny ü.gguf"))
    define(6, struct.pack("<IIQQQ", 3, 1, 1, 1 << 40, 9000) + text("CPU_Mapped"))
    define(6, struct.pack("<IIQQQ", 4, 0, 1, 2, 0) + text("empty"))
    define(40, struct.pack("<IIQ", 3, 1, 0), origin - 1000)
    weight = struct.pack("<IIII4QQQ", 0, 7, 8, 3, 64, 32, 8, 1, 16384, 4096)
    define(5, weight + text("blk.2.ffn_up_exps.weight"))
    source.poll()
    trace = source.snapshot()

    (model,) = trace.models
    assert (model.name, model.size, model.data_offset) == ("tiny ü.gguf", 70_000, 512)
    tensors = trace.tensors
    row = [trace.strings[int(i)] for i in tensors.name].index(
        "blk.2.ffn_up_exps.weight"
    )
    assert tensors.n_experts[row] == 8
    assert tensors.layer[row] == 2
    assert (tensors.offset[row], tensors.size[row]) == (16384, 4096)
    assert tensors.place[row] == Place.STATED
    assert tensors.file[row] == 0
    assert trace.buffers.size.tolist() == [9000]
    assert trace.buffers.allocated.tolist() == [-1000]
    assert trace.buffers.freed.tolist() == [-1]

    define(40, struct.pack("<IIQ", 3, 2, 0), origin + 77)
    source.poll()
    assert source.snapshot().buffers.freed.tolist() == [77]
    assert trace.buffers.freed.tolist() == [-1]  # the snapshot before stays true
    assert source.snapshot().check() == []
    writer.close()


def test_self_test_and_backends_are_reported_while_it_runs(source, path):
    writer = Writer(path)
    writer.graph()
    source.poll()
    assert source.status().run == {}
    assert set(source.snapshot().info.producer) == {"program"}
    check = struct.pack("<IIIIQQQQ", 0, 1, 1, 4, 400, 396, 1, 0)
    card = text("RPC0") + text("RPC0[a:1]") + text("a card")
    parts = [
        frame(FrameType.CHECK, check),
        frame(FrameType.BACKEND, struct.pack("<IIQ", 1, 0, 7) + text("CPU") * 3),
        frame(FrameType.BACKEND, struct.pack("<IIQ", 2, 0, 9) + card),
        frame(FrameType.BACKEND, b"\1"),
    ]
    with path.with_name(f"{path.name}.defs").open("ab") as file:
        file.write(b"".join(parts))
    for backend in (1, 2, 2):
        writer.graph(backend=backend)

    polled(source)

    producer = source.snapshot().info.producer
    assert producer["self-test"] == "graph 0: 396 of 400 expected records seen"
    assert producer["backends"] == (
        "CPU: 1 graph; RPC0 on RPC0[a:1] (a card): 2 graphs; unknown: 1 graph"
    )
    assert source.status().run_texts() == (
        f"self-test: {producer['self-test']}",
        f"backends: {producer['backends']}",
    )


def test_graphs_of_another_backend_are_named_after_it(source, path):
    """A record of a whole graph, as those of a GPU are, has the name of its graph."""
    writer = Writer(path)
    names = ("CPU", "Vulkan0")
    parts = [
        frame(FrameType.BACKEND, struct.pack("<IIQ", 1 + i, 0, 7) + text(name) * 3)
        for i, name in enumerate(names)
    ]
    with path.with_name(f"{path.name}.defs").open("ab") as file:
        file.write(b"".join(parts))
    begin = time.monotonic_ns()
    for number, backend in enumerate((1, 2)):
        head = struct.pack(
            "<IIIHHHHIQQQ", number, 0, 0, 0, 1, 2, number, N_NODES, 0, 0, backend
        )
        at = begin + 10_000 * number
        writer.event(FrameType.GRAPH_BEGIN, head, at)
        made = np.zeros(1, RECORD)
        made["node"], made["graph"], made["t0"] = 0xFFFFFFFF, number, at
        made["op_ns"], made["extra"] = 5_000, 1 << 30 | 0xFFF
        writer.put(0, made)
        writer.event(FrameType.GRAPH_END, struct.pack("<IiQ", number, 0, 1), at + 6_000)
    # The program waits for what the other backend has still to do.
    wait = struct.pack("<IIQQQQII", 6, 1, begin + 17_000, begin + 90_000, 0, 0, 0, 1)
    writer.event(FrameType.HOST, wait, begin + 90_000)
    writer.n_graphs = 2
    writer.graph()  # of the next ubatch
    polled(source)

    trace = source.snapshot()

    for kind in (LaneKind.THREAD, LaneKind.GRAPH):
        rows = np.flatnonzero(trace.lanes.of_kind(kind)[trace.spans.lane])
        span_names = [trace.span_name(row) for row in rows.tolist()]
        assert span_names[:2] == ["graph", "graph · split 1 · Vulkan0"]
    (row, *_) = np.flatnonzero(trace.lanes.of_kind(LaneKind.TOKEN)[trace.spans.lane])
    assert trace.spans.end[row] - trace.spans.start[row] == 90_000
    assert trace.spans.flags[row] == 0


def test_graph_that_is_not_over_when_following_stops_lacks_nothing(source, path):
    writer = Writer(path, n_lanes=2)
    for _ in range(6):
        writer.graph()
    begin = time.monotonic_ns()
    head = struct.pack("<IIIHHHHIQQQ", 6, 0, 3, 0, 2, 2, 0, N_NODES, 0, 0, 0)
    writer.event(FrameType.GRAPH_BEGIN, head, begin)
    for lane, nodes in enumerate((range(60), [*range(40), 59])):
        made = np.zeros(len(nodes), RECORD)
        made["node"], made["graph"], made["lane"] = list(nodes), 6, lane
        made["t0"], made["op_ns"] = begin + np.array(nodes) * 1000, 700
        made["op"] = made["node"] % 5 + 1
        writer.put(lane, made)
    source.poll()

    stopped = ended(source.snapshot(), FollowState.STOPPED)
    result = completeness(stopped)

    assert (result.n_there, result.n_missing) == (6 * 2 * N_NODES + 101, 0)
    assert [w.code for w in with_completeness(stopped, result).warnings] == [
        "live_stopped"
    ]


def test_missing_records_are_those_that_the_ring_lost(source, path):
    writer = Writer(path, n_lanes=2, capacity=64)
    writer.graph()
    source.poll()
    writer.end()
    polled(polled(source))

    trace = source.snapshot()
    result = completeness(trace)

    assert writer.dropped == 2 * 36
    assert (result.n_there, result.n_missing) == (2 * 64, 2 * 36)
    assert result.rests_on == (COUNTED,)
    codes = [w.code for w in with_completeness(trace, result).warnings]
    assert codes == ["live_lost"]
