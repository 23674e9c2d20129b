"""What a followed program recorded is saved while it runs, and after a crash."""

import json
import os
import pickle
import resource
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ggscope.errors import LiveError
from ggscope.live import recording_store
from ggscope.live.files import GgmlvizSource
from ggscope.live.program import ProgramSource
from ggscope.live.recording_folder import note_path
from ggscope.live.recording_store import RecordingWriter, save_recording
from ggscope.live.source import SourceStatus, State
from ggscope.model.run import WHOLE_GRAPH
from ggscope.model.trace import LaneKind
from ggscope.readers.registry import open_trace
from ggscope_capture.__main__ import main as capture
from ggscope_capture.config import resolve
from ggscope_capture.recording import Recorder
from ggscope_capture.ring import CONTROL, RECORD
from ggscope_capture.ring_format import FrameType, frames
from ring_writer import N_NODES, Writer

pytestmark = pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the made-up writer needs Linux"
)
PER_GRAPH = 4 * N_NODES


def saved(source, target: Path):
    messages = []
    made = save_recording(
        source.status().recording,
        target,
        lambda *done: messages.append(done),
        lambda: None,
    )
    return made, messages


def lengths(trace) -> np.ndarray:
    is_thread = trace.lanes.of_kind(LaneKind.THREAD)[trace.spans.lane]
    return np.sort((trace.spans.end - trace.spans.start)[is_thread])


def n_records(target: Path) -> int:
    trace = open_trace(target)
    assert trace.check() == []
    return int(trace.lanes.of_kind(LaneKind.THREAD)[trace.spans.lane].sum())


def n_graphs(target: Path) -> int:
    return int(json.loads(target.with_suffix(".json").read_bytes())["graphs"])


def owns_ring(writer: Writer) -> bool:
    """Whether this process is the one that takes what the writer records."""
    return int(writer.control["reader_pid"][0]) == os.getpid()


def test_what_was_received_is_saved_while_the_program_runs(source, path, tmp_path):
    writer, target = Writer(path, capacity=256), tmp_path / "out ü.bin"
    for _ in range(5):  # the ring goes round twice
        writer.graph()
        source.poll()
    made, report = saved(source, target)

    assert (made.records, made.lost) == (5 * PER_GRAPH, 0)
    assert made.text() == f"saved as {target}: 2,000 ops, none lost"
    assert report[-1] == (2_000, 2_000)
    assert n_records(target) == 5 * PER_GRAPH
    result, whole = lengths(open_trace(target)), lengths(source.snapshot())
    assert np.array_equal(result, whole)

    writer.graph()
    source.poll()
    writer.end()
    source.poll()
    source.close()
    assert saved(source, target)[0].records == 6 * PER_GRAPH


def test_what_is_live_is_saved_and_opens_again_in_the_same_numbers(
    source, path, tmp_path
):
    """Lists of experts are records of the file alone, whole graphs of the ring."""
    writer = Writer(path)
    writer.graph()
    choice = struct.pack("<IIiIIIII", 0, 0, 3, 1, 2, 8, 0, 0)
    choice += np.array([5, 2], "<i4").tobytes()
    writer.event(FrameType.EXPERTS, choice, time.monotonic_ns())
    begin = time.monotonic_ns()
    head = struct.pack("<IIIHHHHIQQQ", 1, 0, 0, 0, 1, 2, 1, N_NODES, 0, 0, 1)
    writer.event(FrameType.GRAPH_BEGIN, head, begin)
    record = np.zeros(1, RECORD)
    record["node"], record["graph"], record["t0"] = 0xFFFFFFFF, 1, begin
    record["op_ns"], record["extra"] = 5_000, WHOLE_GRAPH | 0xFFF
    writer.put(0, record)
    end = struct.pack("<IiQ", 1, 0, 1)
    writer.event(FrameType.GRAPH_END, end, begin + 6_000)
    source.poll()
    target = tmp_path / "out.bin"

    status, live = source.status(), source.snapshot().info
    made, _ = saved(source, target)
    again = open_trace(target).info

    assert status.by_kind == {"ops": PER_GRAPH, "graphs": 1}
    assert live.records_by_kind == status.by_kind | {"lists of experts": 0}
    assert made.by_kind == {"ops": PER_GRAPH, "lists of experts": 1}
    assert again.records_by_kind == made.by_kind | {"graphs": 0}
    assert again.n_op_records == live.n_op_records == PER_GRAPH


def test_losses_are_reported_with_what_was_saved(source, path, tmp_path):
    writer = Writer(path, capacity=64)
    writer.graph()
    source.poll()
    made, _ = saved(source, tmp_path / "out.bin")

    assert made.lost == writer.dropped == 4 * (N_NODES - 64)
    assert made.text().endswith(": 256 ops, 144 lost")


def test_overwritten_records_count_as_lost(source, path, tmp_path):
    writer = Writer(path, capacity=128, overwrites=True)
    writer.graph()
    source.poll()
    writer.graph(200)
    source.poll()
    made, _ = saved(source, tmp_path / "out.bin")

    assert made.lost == source.status().lost > 0
    assert made.records + made.lost == writer.written


def test_killed_writer_leaves_what_it_wrote(source, path, tmp_path):
    parts = [str(Path(__file__).parents[2] / "ring_writer.py"), str(path)]
    parts += ["--rate", "40000", "--seconds", "60", "--megabytes", "4"]
    with subprocess.Popen([sys.executable, *parts]) as writer:
        while source.status().records < 4_000:
            source.poll()
            time.sleep(0.01)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    while source.status().state is not State.GONE:
        source.poll()
    made, _ = saved(source, tmp_path / "out.bin")

    assert made.records == source.status().records
    assert n_records(tmp_path / "out.bin") == made.records


def test_killed_viewer_leaves_what_it_took(path, tmp_path, capsys):
    writer = Writer(path, capacity=256)
    writer.graph()
    script = (
        "import os, sys; from pathlib import Path\n"
        "from ggscope.live.program import ProgramSource\n"
        "source = ProgramSource(Path(sys.argv[1])); source.poll()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    writer.graph()  # the first records are written over
    with subprocess.Popen(["true"]) as gone:
        writer.control["pid"] = gone.pid
    target = tmp_path / "out.bin"

    assert capture(["recover", str(path), "-o", str(target)]) == 0
    capsys.readouterr()
    assert n_records(target) == 2 * PER_GRAPH
    assert not path.exists()


def killed(path: Path, *, is_acknowledged: bool = True, cut: bytes = b"") -> Path:
    """Let a viewer take what a ring has, and be killed; return what it has kept.

    `is_acknowledged` : whether the writer learns what was taken; `cut` : half of a
    record and of an event that it was about to write.
    """
    script = (
        "import os, sys; from pathlib import Path\n"
        "from ggscope.live.program import ProgramSource\n"
        "source = ProgramSource(Path(sys.argv[1])); source._open()\n"
        "source._ring._frees_slots &= sys.argv[2] == 'True'\n"
        "source.poll()\n"
        "print(source.status().recording.place, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    arguments = [sys.executable, "-c", script, str(path), str(is_acknowledged)]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True)
    folder = Path(done.stdout.strip())
    for name in ("records", "events"):
        with (folder / name).open("ab") as file:
            file.write(cut)
    return folder


def recovered(path: Path, target: Path) -> int:
    with subprocess.Popen(["true"]) as gone, path.open("r+b") as ring:
        ring.seek(CONTROL.fields["pid"][1])
        ring.write(gone.pid.to_bytes(4, "little"))
    assert capture(["recover", str(path), "-o", str(target)]) == 0
    return n_records(target)


@pytest.mark.parametrize("is_acknowledged", [True, False])
@pytest.mark.parametrize("cut", [b"", b"\x30\0\0\0\x01\0\0"])
def test_viewer_goes_on_with_what_a_killed_one_kept(
    source, path, tmp_path, capsys, is_acknowledged, cut
):
    writer = Writer(path, capacity=256)
    writer.graph()
    folder = killed(path, is_acknowledged=is_acknowledged, cut=cut)
    writer.graph()
    source.poll()
    writer.graph(40)
    source.poll()
    made, _ = saved(source, tmp_path / "out.bin")

    assert source.status().recording.place == folder
    assert (made.records, made.lost) == (2 * PER_GRAPH + 160, 0)
    assert n_records(tmp_path / "out.bin") == made.records
    assert n_graphs(tmp_path / "out.bin") == 3
    events = [event for event, _ in frames((folder / "events").read_bytes())]
    assert len(events) == len({(event.time, event.body) for event in events}) > 3
    # This one is closed, and the next one killed: nothing of it goes.
    source.close()
    source.forget()
    writer.graph(50)
    assert killed(path, is_acknowledged=is_acknowledged, cut=cut) == folder
    writer.graph(60)
    assert recovered(path, tmp_path / "all.bin") == 2 * PER_GRAPH + 600
    assert n_graphs(tmp_path / "all.bin") == 5
    assert not folder.exists()
    assert not list(tmp_path.glob("ring*"))


OWNER = """
import os, sys
from pathlib import Path
from ggscope.live.program import ProgramSource
source = ProgramSource(Path(sys.argv[1]), look_ns=0)
for _ in sys.stdin:
    source.poll()
    print(source.status().records, flush=True)
"""


@pytest.mark.parametrize("overwrites", [False, True])
def test_viewer_that_looks_takes_over_from_one_that_is_killed(
    source, path, tmp_path, capsys, overwrites
):
    writer = Writer(path, capacity=128, overwrites=overwrites)
    arguments = [sys.executable, "-c", OWNER, str(path)]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:

        def owner_takes() -> int:
            owner.stdin.write("\n")
            owner.stdin.flush()
            return int(owner.stdout.readline())

        writer.graph()
        assert owner_takes() == PER_GRAPH
        source.poll()
        assert not owns_ring(writer)
        before = source.status().records
        folder = source.status().recording.place
        writer.graph(20)
        source.poll()  # the owner does not come to it any more
        owner.kill()
        owner.wait()
    assert source.status().recording.place == folder
    writer.graph(108)  # each lane is full
    source.poll()
    assert owns_ring(writer)
    for _ in range(3):
        writer.graph(100)
        source.poll()
    made, _ = saved(source, tmp_path / "out.bin")

    assert writer.dropped == source.status().lost == 0
    assert source.status().recording.place == folder
    assert source.status().records == before + 4 * 428
    lost = 4 if overwrites else 0  # of each lane one that may be written just now
    assert (made.records, made.lost) == (4 * 528 - lost, lost)
    assert n_records(tmp_path / "out.bin") == made.records
    assert n_graphs(tmp_path / "out.bin") == 6


def test_viewer_takes_over_only_what_is_there(source, path):
    writer = Writer(path)
    writer.graph()
    writer.control["reader_pid"] = os.getppid()  # as if another process owned it
    source.poll()
    writer.control["reader_pid"] = 0
    path.rename(path.with_name("elsewhere"))
    source.poll()

    assert not owns_ring(writer)
    assert not note_path(path).exists()


def test_ring_of_a_program_that_ended_after_its_reader_was_killed_is_left(
    source, path, tmp_path, capsys
):
    writer = Writer(path)
    writer.graph()
    folder = killed(path)
    writer.control["reader_pid"] = os.getppid()  # as if it had not been killed yet
    source.poll()
    writer.graph(30)
    writer.end()
    writer.control["reader_pid"] = 0
    source.poll()
    source.poll()
    made, _ = saved(source, tmp_path / "out.bin")

    assert source.status().state is State.ENDED
    assert source.status().recording.place == folder
    assert (made.records, made.lost) == (PER_GRAPH + 120, 0)
    source.close()
    source.forget()
    assert recovered(path, tmp_path / "again.bin") == PER_GRAPH + 120


def test_losses_before_a_viewer_was_killed_are_reported(source, path, tmp_path):
    writer = Writer(path, capacity=64, overwrites=True)
    writer.graph()
    first = last_status(path, lambda viewer: viewer.poll()).lost
    writer.graph(90)
    source.poll()
    made, _ = saved(source, tmp_path / "out.bin")

    assert first > 0
    assert source.status().lost > 0
    assert made.lost == first + source.status().lost
    assert made.records + made.lost == writer.written


def test_what_a_ring_of_the_same_name_has_left_is_no_part_of_the_next(
    source, path, tmp_path, capsys
):
    Writer(path).graph()
    folder = killed(path)
    path.unlink()
    writer = Writer(path)
    writer.graph(30)
    source.poll()
    made, _ = saved(source, tmp_path / "out.bin")

    assert source.status().recording.place not in (None, folder)
    assert made.records == 120
    place = json.loads(note_path(path).read_bytes())
    assert place["folder"] == str(source.status().recording.place)


def test_launcher_goes_on_with_a_recording_that_was_cut(path, tmp_path, capsys):
    writer, folder = Writer(path, capacity=256), tmp_path / "out.bin.partial"
    writer.graph()
    recorder = Recorder.begin(path, folder, resolve({}, None, {}).settings)
    recorder.poll()
    recorder.ring.close()
    for name in ("records", "events"):
        with (folder / name).open("ab") as file:
            file.write(b"\x30\0\0\0\x01\0\0")
    writer.graph()
    writer.control["reader_pid"] = 0

    assert recovered(path, tmp_path / "all.bin") == 2 * PER_GRAPH
    assert n_graphs(tmp_path / "all.bin") == 2


def test_viewer_goes_on_with_a_launcher_that_was_killed_before_it_took_anything(
    source, path, tmp_path
):
    writer, folder = Writer(path, capacity=256), tmp_path / "out.bin.partial"
    writer.graph()
    recorder = Recorder.begin(path, folder, resolve({}, None, {}).settings)
    recorder.ring.close()
    writer.control["reader_pid"] = 0
    source.poll()

    assert source.status().recording.place == folder
    assert saved(source, tmp_path / "out.bin")[0].records == PER_GRAPH


def test_viewer_that_goes_on_keeps_what_the_launcher_reported_the_tracer(
    path, tmp_path
):
    writer = Writer(path)
    folder = tmp_path / "out.partial"
    Recorder.begin(path, folder, resolve({"ops": "!ADD"}, None, {}).settings).poll()
    writer.control["reader_pid"] = 0

    source = ProgramSource(path, look_ns=0)
    writer.graph()
    source.poll()
    saved(source, tmp_path / "out.bin")
    source.close()

    data = json.loads((tmp_path / "out.json").read_bytes())
    assert data["settings"]["ops"] == ["!ADD"]
    assert data["changes"] == []


def test_launcher_leaves_the_folder_of_another_recording_alone(path, tmp_path, capsys):
    folder = tmp_path / "all.bin.partial"
    folder.mkdir()
    for name in ("records", "events", "facts"):
        (folder / name).write_text("words")
    Writer(path).graph()

    assert recovered(path, tmp_path / "all.bin") == PER_GRAPH
    assert {each.read_text() for each in folder.iterdir()} == {"words"}
    assert sorted(p.name for p in tmp_path.glob("*.partial")) == [folder.name]


def test_folder_of_another_ring_is_not_gone_on_with(source, path, tmp_path):
    """Whoever may write beside the ring could name any folder."""
    writer, folder = Writer(path), tmp_path / "other"
    writer.graph()
    folder.mkdir()
    for name in ("records", "events", "facts", "ring"):
        (folder / name).write_text("words")
    place = {"folder": str(folder), "pid": 1, "identity": "00" * 16}
    for identity in (place["identity"], bytes(writer.control["identity"]).hex()):
        text = json.dumps(place | {"identity": identity})
        note_path(path).write_text(text)
        viewer = ProgramSource(path, look_ns=0)
        viewer.poll()

        assert viewer.status().recording.place not in (None, folder)
        assert {each.read_text() for each in folder.iterdir()} == {"words"}
        viewer.close()
        viewer.forget()


def test_second_viewer_saves_what_the_first_one_keeps(source, path, tmp_path):
    writer = Writer(path, capacity=256)
    writer.graph()
    source.poll()
    other = ProgramSource(path, look_ns=0)
    writer.control["reader_pid"] = os.getppid()  # as if another process owned it
    other.poll()

    made, _ = saved(other, tmp_path / "out.bin")
    other.close()

    assert made.records == PER_GRAPH


def test_what_a_launcher_removed_at_its_end_is_saved(path, tmp_path):
    """It writes its own file, and takes what it kept and the ring away."""
    writer, folder = Writer(path), tmp_path / "out.bin.partial"
    writer.graph()
    recorder = Recorder.begin(path, folder, resolve({}, None, {}).settings)
    recorder.poll()
    writer.control["reader_pid"] = os.getppid()  # as if another process owned it
    source = ProgramSource(path, look_ns=0)
    source.poll()
    assert source.status().recording.place == folder
    writer.graph()
    writer.end()
    source.poll()
    source.poll()
    assert source.status().state is State.ENDED
    recorder.finish()
    shutil.rmtree(folder)
    own = source.status().recording.place
    source.close()
    assert not path.exists()

    made, _ = saved(source, tmp_path / "again.bin")

    assert made.records == n_records(tmp_path / "again.bin") == 2 * PER_GRAPH
    assert made.lost == 0
    trace = open_trace(tmp_path / "again.bin")
    assert "node-0-0" in {trace.span_name(row) for row in range(len(trace.spans))}
    source.forget()
    assert not own.exists()


def test_launcher_that_ends_before_the_program_leaves_nothing(path, tmp_path):
    writer, folder = Writer(path), tmp_path / "out.bin.partial"
    writer.graph()
    recorder = Recorder.begin(path, folder, resolve({}, None, {}).settings)
    recorder.poll()
    writer.control["reader_pid"] = os.getppid()  # as if another process owned it
    source = ProgramSource(path, look_ns=0)
    source.poll()
    recorder.finish(keeps_ring=True)
    note_path(path).unlink()
    shutil.rmtree(folder)

    writer.control["reader_pid"] = 0
    writer.graph(20)
    source.poll()

    assert source.status().records == PER_GRAPH + 80
    assert source.status().recording.place is None
    assert "another process took the first records" in source.status().recording.why
    writer.graph()
    source.poll()
    assert writer.dropped == source.status().lost == 0
    source.close()
    source.forget()
    assert not note_path(path).exists()


def test_ring_whose_reader_keeps_nothing_says_so(path, tmp_path, capsys):
    writer = Writer(path)
    writer.control["reader_pid"] = os.getppid()
    source = ProgramSource(path, look_ns=0)
    source.poll()

    with pytest.raises(LiveError, match="another process takes the records"):
        saved(source, tmp_path / "out.bin")
    source.close()
    assert capture(["save", str(path), "-o", str(tmp_path / "out.bin")]) == 1
    assert "`ggscope-capture recover` starts a recording" in capsys.readouterr().err
    writer.control["start_time"] = 1  # another process had this number
    assert capture(["save", str(path), "-o", str(tmp_path / "out.bin")]) == 1
    assert "recover` saves the records left in it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("is_folder", "message"),
    [(True, "not a recording"), (False, "shorter than the first page")],
)
def test_what_is_no_ring_is_not_recommended_for_recovery(
    tmp_path, capsys, is_folder, message
):
    path = tmp_path / "other"
    path.mkdir() if is_folder else path.write_text("words")

    assert capture(["save", str(path), "-o", str(tmp_path / "out.bin")]) == 1

    err = capsys.readouterr().err
    assert message in err
    assert "recover" not in err


def test_what_is_kept_goes_with_the_tab(path):
    source = ProgramSource(path, look_ns=0)
    Writer(path).graph()
    source.poll()
    folder = source.status().recording.place
    place = note_path(path)
    assert folder.is_dir()
    assert place.exists()

    source.close()
    source.forget()

    assert not folder.exists()
    assert not place.exists()
    assert path.exists()


def test_what_a_killed_viewer_held_on_to_goes(tmp_path):
    left, held = (tmp_path / f"ggscope-kept-{name}.partial" for name in "ab")
    open_file = (tmp_path / "x").open("w")
    for folder, target in ((left, "/proc/0/fd/3"), (held, open_file.name)):
        folder.mkdir()
        (folder / "identity").write_text("ab" * 16)
        (folder / "records").symlink_to(target)

    recording_store.sweep_recordings(tmp_path)

    assert not left.exists()
    assert held.exists()
    open_file.close()


def test_what_a_killed_viewer_left_of_a_ring_that_is_gone_goes(path, tmp_path):
    script = (
        "import os, sys; from pathlib import Path\n"
        "from ggscope.live.recording_store import RecordingWriter\n"
        "keeper = RecordingWriter(Path(sys.argv[1]), bytes(16))\n"
        "print(keeper.folder, flush=True)\n"
        "os._exit(0)\n"
    )
    path.touch()
    arguments = [sys.executable, "-c", script, str(path)]
    left = Path(subprocess.check_output(arguments, text=True).strip())
    other = RecordingWriter(
        tmp_path / "other", bytes(16)
    )  # of no ring either, but alive
    RecordingWriter(tmp_path / "third", bytes(16)).remove()
    assert left.is_dir()  # its ring is there: it can be recovered

    path.unlink()
    RecordingWriter(tmp_path / "third", bytes(16)).remove()

    assert not left.exists()
    assert other.folder.is_dir()
    other.remove()
    assert not other.folder.exists()


def test_full_disk_ends_keeping_and_not_following(path, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(recording_store, "_CHECK_BYTES", 0)  # each time
    writer = Writer(path)

    def disk_fills_up(viewer: ProgramSource) -> None:
        writer.graph()
        viewer.poll()
        monkeypatch.setattr(recording_store, "_MIN_FREE_BYTES", 1 << 62)
        writer.graph()
        viewer.poll()

    status = last_status(path, disk_fills_up)
    assert status.records == 2 * PER_GRAPH
    assert status.recording.place is None
    assert "recording stopped" in status.recording.why
    assert recovered_with_losses(path, tmp_path) == (PER_GRAPH, PER_GRAPH)


def test_record_that_no_longer_fits_ends_keeping_and_counts(path, tmp_path, capsys):
    writer = Writer(path)

    def file_may_not_grow(viewer: ProgramSource) -> None:
        writer.graph()
        viewer.poll()
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, ((PER_GRAPH + 7) * 32 + 9, hard))
        writer.graph()
        viewer.poll()

    status = last_status(path, file_may_not_grow)
    assert "recording stopped" in status.recording.why
    assert status.records == 2 * PER_GRAPH
    value = PER_GRAPH + 7
    assert recovered_with_losses(path, tmp_path) == (value, PER_GRAPH - 7)


def last_status(path: Path, follow: Callable[[ProgramSource], object]) -> SourceStatus:
    """Return the status of a viewer, a process that is killed once it has followed."""
    into, out_of = os.pipe()[::-1]
    child = os.fork()
    if not child:
        try:
            viewer = ProgramSource(path, look_ns=0)
            follow(viewer)
            os.write(into, pickle.dumps(viewer.status()))
        finally:
            traceback.print_exc()
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(into)
    with open(out_of, "rb") as file:
        content = file.read()
    os.waitpid(child, 0)
    status = pickle.loads(content)
    assert isinstance(status, SourceStatus)
    return status


def recovered_with_losses(path: Path, tmp_path: Path) -> tuple[int, int]:
    """Return how many records are there after the viewer was killed, and not."""
    n = recovered(path, tmp_path / "out.bin")
    data = json.loads((tmp_path / "out.json").read_bytes())
    return n, data["lost"]


def test_no_room_for_the_file_leaves_nothing_half_written(source, path, tmp_path):
    writer = Writer(path)
    writer.graph()
    source.poll()
    target = tmp_path / "folder" / "out.bin"
    # Files of the tool, a child, may have 4 KB: 400 records do not fit.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(LiveError, match="File too large"):
            saved(source, target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert list(target.parent.iterdir()) == []
    assert saved(source, target)[0].records == PER_GRAPH


def test_cancelled_saving_leaves_nothing(source, path, tmp_path):
    writer = Writer(path)
    writer.graph()
    source.poll()
    target = tmp_path / "out.bin"

    def check() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        save_recording(source.status().recording, target, lambda *_: None, check)
    for thread in threading.enumerate():
        if thread.name == "launch":
            thread.join()

    assert not target.exists()
    assert list(tmp_path.glob(".ggscope*")) == []


def test_file_that_grows_is_copied_as_far_as_it_was_read(tmp_path):
    sample = Path(__file__).parents[3] / "resources" / "samples" / "llama.ggmlviz"
    path, target = tmp_path / "grows.ggmlviz", tmp_path / "out.ggmlviz"
    path.write_bytes(sample.read_bytes())
    source = GgmlvizSource(path)
    source.poll()
    n = source.status().recording.n_bytes
    with path.open("ab") as file:
        file.write(b"half an event")

    made, _ = saved(source, target)

    assert made.text() == f"saved as {target}"
    assert target.read_bytes() == sample.read_bytes()[:n]
    path.write_bytes(b"")
    with pytest.raises(LiveError, match="shorter"):
        saved(source, target)
    assert target.read_bytes() == sample.read_bytes()[:n]
    source.close()
