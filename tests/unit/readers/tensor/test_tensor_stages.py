"""Reading in stages: early pictures, cancelling, files that change, options."""

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracles
from ggscope.errors import Cancelled, LimitExceededError, ReadError
from ggscope.model.trace import Severity, Trace
from ggscope.readers import chunked
from ggscope.readers.api import Head, ReadContext
from ggscope.readers.source import Source
from ggscope.readers.tensor import columns as tensor_columns
from ggscope.readers.tensor import reader
from ggscope.readers.tensor import scan as tensor_scan
from ggscope.readers.tensor.layouts import LAYOUT_256
from ggscope.readers.tensor.reader import TensorAccessReader, TimestampSample
from ggscope.readers.tensor.trace import ALL_PENDING, NAMES_PENDING
from support import corpus_path, need_corpus, rewrite
from tensor_files import (
    LAYOUTS,
    SIZES,
    Rec,
    assert_same_table,
    encode,
    llama_trace,
    one_source_each,
)

READER = TensorAccessReader()
ONE_FOLDER = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
PREFIX_COLUMNS = ("start", "lane", "op", "token", "phase")


def read(path: Path, **kwargs: object) -> Trace:
    with Source(path) as source:
        trace = READER.read(source, ReadContext(**kwargs))  # type: ignore[arg-type]
    assert trace.check() == []
    return trace


def staged(path: Path, **options: str) -> tuple[list[Trace], Trace]:
    """Return the early snapshots, checked, and the whole trace."""
    early: list[Trace] = []
    whole = read(path, publish=early.append, options=options)
    for trace in early:
        assert trace.check() == []
    return early, whole


def written(path: Path, records: list[Rec], layout: str = "256") -> Path:
    if layout not in ("256", "1024"):
        records = one_source_each(records)
    rewrite(path, encode(records, layout))
    return path


def on_threads(records: list[Rec], n: int) -> list[Rec]:
    return [replace(r, thread=10 + i % n) for i, r in enumerate(records)]


def codes(trace: Trace) -> set[str]:
    return {w.code for w in trace.warnings}


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish after every stretch of some records."""
    for name, value in (
        ("FIRST_S", 0.0),
        ("SHORT_S", 0.0),
        ("GROWTH", 1),
        ("MOST", 1000),
        ("_COST_SHARE", float("inf")),
        ("_LARGEST_SHARE", 1.0),
    ):
        monkeypatch.setattr(reader, name, value)
    monkeypatch.setattr(tensor_scan, "STRETCH_BYTES", 3000)
    monkeypatch.setattr(tensor_scan, "_MAX_STRETCH_BYTES", 3000)
    monkeypatch.setattr(chunked, "_CHUNK_ROWS", 16)


# ------------------------------------------------------------- staged reading


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_staged_reading_ends_in_the_same_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, is_native: bool
) -> None:
    if not is_native:
        oracles.tensor(monkeypatch)
    path = written(tmp_path / "t", on_threads(llama_trace(9), 3), layout)

    early, whole = staged(path)

    assert_same_table(whole, read(path))
    assert [trace.pending for trace in early[-2:]] == [ALL_PENDING, NAMES_PENDING]
    generations = [trace.generation for trace in [*early, whole]]
    assert generations == list(range(1, len(early) + 2))


RECORDS = st.builds(
    Rec,
    time=st.integers(0, 400),
    dst=st.sampled_from(["", "inp_embd", "norm-0", "l_out-1 (view)"]),
    op=st.sampled_from([1, 2, 29, 0x7F, 0xEF, 0xF0]),
    token=st.integers(0, 2**31 - 1),
    layer=st.integers(0, 65535),
    thread=st.integers(0, 3),
    phase=st.integers(0, 2),
    duration=st.sampled_from([0, 0, 3, 2**40 - 1]),
)


@pytest.mark.usefixtures("eager")
@given(
    records=st.lists(RECORDS, min_size=1, max_size=120),
    holes=st.lists(st.integers(0, 119), max_size=6),
    layout=st.sampled_from(LAYOUTS),
    names=st.sampled_from(["all", "sampled", "none"]),
    is_native=st.booleans(),
)
@ONE_FOLDER
def test_any_records_give_the_same_trace_staged_and_not(
    tmp_path: Path,
    records: list[Rec],
    holes: list[int],
    layout: str,
    names: str,
    is_native: bool,
) -> None:
    data, size = bytearray(encode(records, layout)), SIZES[layout]
    for hole in holes:
        if (hole + 1) * size <= len(data):
            data[hole * size : (hole + 1) * size] = bytes(size)
    path = tmp_path / "t"
    rewrite(path, bytes(data))
    with pytest.MonkeyPatch.context() as patch:
        if not is_native:
            oracles.tensor(patch)
        patch.setattr(tensor_columns, "SAMPLE_RECORDS", 2)

        early, whole = staged(path, layout=layout, names=names)
        plain = read(path, options={"layout": layout, "names": names})

    assert_same_table(whole, plain)
    for trace in early:
        if trace.is_partial:
            assert_is_prefix(trace, whole)


def assert_is_prefix(part: Trace, whole: Trace) -> None:
    """Check that each span of a part is the whole trace's span of that record."""
    ours, theirs = np.flatnonzero(part.spans.op >= 0), whole.spans
    assert part.spans.record is not None
    assert theirs.record is not None
    record = theirs.record.astype(np.int64)
    of_op = np.flatnonzero(theirs.op >= 0)
    row = np.full(int(record.max(initial=0)) + 1, -1)
    row[record[of_op]] = of_op
    same = row[part.spans.record[ours]]
    assert (same >= 0).all()
    shift = part.clock.origin - whole.clock.origin
    # Threads are numbered by their first op, which a later block may hold.
    threads = [[lane.attributes.get("raw") for lane in t.lanes] for t in (part, whole)]
    for name in PREFIX_COLUMNS:
        mine = getattr(part.spans, name)[ours].astype(np.int64)
        other = getattr(theirs, name)[same].astype(np.int64)
        if name == "lane":
            raws = [
                [of[i] for i in ids]
                for of, ids in zip(threads, (mine, other), strict=True)
            ]
            assert raws[0] == raws[1]
            continue
        assert np.array_equal(mine + (shift if name == "start" else 0), other), name


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("n_threads", [1, 3])
def test_early_pictures_grow_and_know_the_extent(
    tmp_path: Path, n_threads: int
) -> None:
    path = written(tmp_path / "t", on_threads(llama_trace(9), n_threads))

    early, whole = staged(path)

    parts = [trace for trace in early if trace.is_partial]
    assert len(parts) > 3
    n_spans = [len(np.flatnonzero(trace.spans.op >= 0)) for trace in parts]
    assert n_spans == sorted(set(n_spans))
    for trace in parts:
        assert_is_prefix(trace, whole)
        assert trace.clock == whole.clock
        assert trace.extent.end >= int(whole.spans.start.max())
        assert_knows_all_until(trace, whole)
    until = [trace.read_until for trace in parts]
    assert until == sorted(set(until))
    assert whole.read_until is None


def assert_knows_all_until(part: Trace, whole: Trace) -> None:
    """Check that no span of the whole trace before ``read_until`` is missing."""
    assert part.read_until is not None
    is_op = whole.spans.op >= 0
    known = int((is_op & (whole.spans.start < part.read_until)).sum())
    here = part.spans.start[part.spans.op >= 0]
    assert int((here < part.read_until).sum()) == known


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("block", [4, 30, 10_000])
def test_early_pictures_of_blocks_per_thread_do_not_promise_too_much(
    tmp_path: Path, block: int
) -> None:
    records = on_threads(llama_trace(20), 3)
    threads = [[r for r in records if r.thread == 10 + k] for k in range(3)]
    mixed = [
        r
        for at in range(0, len(records), block)
        for thread in threads
        for r in thread[at : at + block]
    ]
    path = written(tmp_path / "t", mixed)

    early, whole = staged(path)

    # How far blocks reach back is known once one of each thread has been read.
    later = [t for t in early if t.is_partial and len(t.lanes) == len(whole.lanes)]
    assert later
    for trace in later:
        assert_knows_all_until(trace, whole)


@pytest.mark.usefixtures("eager")
def test_published_arrays_are_never_changed(tmp_path: Path) -> None:
    path = written(tmp_path / "t", on_threads(llama_trace(9, duration=300), 3))
    items: list[tuple[Trace, list[np.ndarray]]] = []

    def copies(trace: Trace) -> list[np.ndarray]:
        s = trace.spans
        return [
            np.array(getattr(s, name))
            for name in (*PREFIX_COLUMNS, "end", "record", "flags", "name", "layer")
        ]

    read(path, publish=lambda trace: items.append((trace, copies(trace))))

    assert len(items) > 3
    for trace, before in items:
        assert all(map(np.array_equal, copies(trace), before))


def test_small_file_publishes_nothing_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "SHORT_S", 1e9)
    early, whole = staged(written(tmp_path / "t", llama_trace(3)))

    assert early == []
    assert whole.generation == 1


@pytest.mark.skipif(corpus_path() is None, reason="no corpus beside this checkout")
@pytest.mark.usefixtures("eager")
def test_corpus_traces_are_the_same_staged_and_not() -> None:
    for path in sorted((need_corpus() / "tracer").glob("trace*.bin")):
        early, whole = staged(path)

        assert_same_table(whole, read(path))
        for trace in early:
            if trace.is_partial:
                assert_is_prefix(trace, whole)


# ------------------------------------------------------------------- the pace


def test_outlook_sees_the_ends_of_the_file(tmp_path: Path) -> None:
    records = llama_trace(50)
    path = written(tmp_path / "t", records)
    with Source(path) as source:
        outlook = TimestampSample(source, LAYOUT_256.size, [(0, len(records))])
        nothing = TimestampSample(source, LAYOUT_256.size, [])

    assert (outlook.low, outlook.high) == (records[0].time, records[-1].time)
    assert outlook.earliest_from(len(records) - 1) == records[-1].time
    assert outlook.earliest_from(len(records)) is None
    assert nothing.high == -1


# ----------------------------------------------------------------- cancelling


def open_files() -> set[str]:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        return set()
    files = set()
    for name in os.listdir(folder):
        try:
            files.add(os.readlink(folder / name))
        except OSError:
            continue
    return files


@pytest.mark.usefixtures("eager")
@given(stop_at=st.integers(0, 60), is_native=st.booleans(), in_publish=st.booleans())
@ONE_FOLDER
def test_cancelled_reading_leaves_nothing_behind(
    tmp_path: Path, stop_at: int, is_native: bool, in_publish: bool
) -> None:
    path = written(tmp_path / "t", on_threads(llama_trace(6), 3))
    threads, files = set(threading.enumerate()), open_files()
    cancel, calls = threading.Event(), 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls > stop_at:
            cancel.set()

    def ignore(*_: object) -> None:
        pass

    with pytest.MonkeyPatch.context() as patch:
        if not is_native:
            oracles.tensor(patch)
        patch.setattr(ReadContext, "progress", _eager_progress)
        try:
            read(
                path,
                progress=ignore if in_publish else count,
                publish=count if in_publish else ignore,
                cancel=cancel,
            )
        except Cancelled:
            assert cancel.is_set()
        else:
            assert not cancel.is_set() or calls > stop_at

    assert set(threading.enumerate()) <= threads
    assert open_files() <= files


def _eager_progress(self: ReadContext, done: int, total: int) -> None:
    """Report every time, not 20 times a second."""
    self.check_cancelled()
    if self._progress is not None:
        self._progress(done, total)


@pytest.mark.usefixtures("eager")
def test_fault_of_the_receiver_leaves_nothing_behind(tmp_path: Path) -> None:
    path = written(tmp_path / "t", on_threads(llama_trace(6), 3))
    threads = set(threading.enumerate())

    def fail(trace: Trace) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        read(path, publish=fail)

    assert set(threading.enumerate()) <= threads


# ------------------------------------------------------------ files that change


def read_while(path: Path, change: Callable[[], object]) -> Trace:
    """Return the trace of a file that is changed after the first early picture."""
    seen: list[Trace] = []

    def publish(trace: Trace) -> None:
        if not seen:
            change()
        seen.append(trace)

    trace = read(path, publish=publish)
    assert seen[0].is_partial
    return trace


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize("n_left", [0, 1, 20, 100])
def test_file_that_shrinks_keeps_what_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_native: bool, n_left: int
) -> None:
    if not is_native:
        oracles.tensor(monkeypatch)
    records = on_threads(llama_trace(9), 3)
    path = written(tmp_path / "t", records)

    trace = read_while(path, lambda: os.truncate(path, 256 * n_left + 9))

    n = trace.info.n_records
    assert n_left <= n < len(records)
    warnings = [w for w in trace.warnings if w.code == "file_shrank"]
    assert [(w.severity, w.offset) for w in warnings] == [(Severity.DATA_LOSS, 256 * n)]
    assert f"{n:,} records before that were loaded" in warnings[0].message
    assert int((trace.spans.op >= 0).sum()) == n
    assert "file_changed" in codes(trace)


@pytest.mark.usefixtures("eager")
def test_file_that_grows_is_reported_and_read_as_it_was(tmp_path: Path) -> None:
    records = on_threads(llama_trace(9), 3)
    path = written(tmp_path / "t", records)

    def append() -> None:
        with path.open("ab") as file:
            file.write(encode(records, "256"))

    trace = read_while(path, append)

    assert trace.info.n_records == len(records)
    assert "file_shrank" not in codes(trace)
    (warning,) = [w for w in trace.warnings if w.code == "file_changed"]
    assert "later records are missing" in warning.message


@pytest.mark.usefixtures("eager")
def test_file_that_vanishes_is_read_to_its_end(tmp_path: Path) -> None:
    records = on_threads(llama_trace(9), 3)
    path = written(tmp_path / "t", records)

    trace = read_while(path, path.unlink)

    assert trace.info.n_records == len(records)
    (warning,) = [w for w in trace.warnings if w.code == "file_changed"]
    assert "deleted or renamed" in warning.message
    assert trace.records is not None
    with pytest.raises(ReadError):
        trace.records.view(0)


@pytest.mark.usefixtures("eager")
def test_file_that_is_replaced_is_reported(tmp_path: Path) -> None:
    path = written(tmp_path / "t", on_threads(llama_trace(9), 3))
    other = written(tmp_path / "other", llama_trace(2))

    trace = read_while(path, lambda: other.replace(path))

    (warning,) = [w for w in trace.warnings if w.code == "file_changed"]
    assert "was replaced" in warning.message


def test_too_little_memory_names_the_ways_out(tmp_path: Path) -> None:
    path = written(tmp_path / "t", llama_trace())

    def run_out(done: int, total: int) -> None:
        raise MemoryError

    with pytest.raises(LimitExceededError, match="not enough memory") as caught:
        read(path, progress=run_out)

    assert "range=" in caught.value.hint
    assert "names=" in caught.value.hint


# -------------------------------------------------------------------- options


@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize(
    ("text", "first", "stop"),
    [("10:25", 10, 25), (":7", 0, 7), ("50%:", 29, 58), ("40:1_000_000", 40, 58)],
)
def test_range_reads_these_records_only(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_native: bool,
    text: str,
    first: int,
    stop: int,
) -> None:
    if not is_native:
        oracles.tensor(monkeypatch)
    records = llama_trace(2)
    assert len(records) == 58

    trace = read(written(tmp_path / "t", records), options={"range": text})

    assert trace.spans.record is not None
    value = trace.spans.record[trace.spans.op >= 0]
    assert value.tolist() == list(range(first, stop))
    assert trace.clock.origin == records[first].time
    (warning,) = [w for w in trace.warnings if w.code == "range"]
    assert warning.count == 58 - (stop - first)
    assert "records left out by the range" in warning.message
    assert trace.info.options["range"] == text
    assert trace.info.summary["records_left_out"] == warning.count


def test_range_of_a_sparse_file_counts_holes_inside_only(tmp_path: Path) -> None:
    data = encode(llama_trace(8), "256")
    path = tmp_path / "t"
    with path.open("wb") as file:
        file.write(data)
        file.seek(1 << 20)
        file.write(data)
    n = len(data) // 256

    trace = read(path, options={"range": f"{n // 2}:{4096 + 5}"})

    assert trace.info.n_records == n - n // 2 + 5
    (hole,) = [w for w in trace.warnings if w.code == "hole"]
    assert hole.count == 4096 - n


def test_range_inside_a_hole_is_an_empty_trace(tmp_path: Path) -> None:
    data = encode(llama_trace(8), "256")
    path = tmp_path / "t"
    with path.open("wb") as file:
        file.write(data)
        file.seek(1 << 22)
        file.write(data)
    if path.stat().st_blocks * 512 > 1 << 21:
        pytest.skip("the file system here has no sparse files")

    trace = read(path, options={"range": "5000:6000"})

    assert len(trace.spans) == 0


def test_range_does_not_read_the_rest_of_the_file(tmp_path: Path) -> None:
    counters = Path("/proc/self/io")
    if not counters.is_file():
        pytest.skip("this system does not count the bytes that a process reads")
    path = tmp_path / "t"
    data = encode(llama_trace(50), "256")
    with path.open("wb") as file:
        for _ in range(80):
            file.write(data)
    before = int(counters.read_text().split()[1])

    read(path, options={"range": "0:100"})

    # What remains are samples and the last block, to know the layout and the end.
    assert int(counters.read_text().split()[1]) - before < path.stat().st_size // 4


def test_records_of_a_range_can_be_looked_at(tmp_path: Path) -> None:
    records = llama_trace(2)

    trace = read(written(tmp_path / "t", records), options={"range": "20:"})

    assert trace.spans.record is not None
    assert trace.records is not None
    view = trace.records.view(int(trace.spans.record[3]))
    assert view.offset == 23 * 256


@pytest.mark.parametrize("is_native", [True, False])
def test_sampled_names_are_those_of_every_sixteenth_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_native: bool
) -> None:
    if not is_native:
        oracles.tensor(monkeypatch)
    monkeypatch.setattr("ggscope.readers.tensor.scan.SAMPLE_RECORDS", 4)
    path = written(tmp_path / "t", on_threads(llama_trace(10), 3))
    whole = read(path)

    trace = read(path, options={"names": "sampled"})

    assert trace.spans.record is not None
    assert trace.spans.tensor is not None
    ids = np.flatnonzero(trace.spans.op >= 0)
    is_sampled = trace.spans.record[ids] // 4 % 16 == 0
    assert is_sampled.any()
    for column in (trace.spans.name, trace.spans.tensor, trace.accesses.pattern):
        assert np.array_equal(column[ids] >= 0, is_sampled)
    for i in ids[is_sampled].tolist():
        assert trace.span_name(i) == whole.span_name(i)
        assert trace.accesses.of_span(i).size.tolist() == (
            whole.accesses.of_span(i).size.tolist()
        )
    (warning,) = [w for w in trace.warnings if w.code == "names_left_out"]
    assert "names sampled: 1 of 16 blocks" in warning.message
    assert trace.info.summary["names"] == "sampled"
    assert trace.info.options["names"] == "sampled"


@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize("names", ["sampled", "none"])
def test_passes_and_times_do_not_depend_on_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_native: bool, names: str
) -> None:
    if not is_native:
        oracles.tensor(monkeypatch)
    path = written(tmp_path / "t", on_threads(llama_trace(10), 3))
    whole = read(path)

    trace = read(path, options={"names": names})

    assert trace.info.n_passes == whole.info.n_passes
    for name in (*PREFIX_COLUMNS, "end", "flags", "record"):
        mine, other = getattr(trace.spans, name), getattr(whole.spans, name)
        assert np.array_equal(mine, other), name
    bands = np.flatnonzero(trace.spans.op < 0).tolist()
    assert [trace.span_name(i) for i in bands] == [whole.span_name(i) for i in bands]


def test_without_names_there_are_no_accesses(tmp_path: Path) -> None:
    trace = read(written(tmp_path / "t", llama_trace()), options={"names": "none"})

    assert len(trace.accesses) == 0
    assert len(trace.tensors) == 0
    assert set(trace.spans.name[trace.spans.op >= 0].tolist()) == {-1}
    assert trace.span_name(0) == "GET_ROWS"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"range": "5"}, "range"),
        ({"range": "9:9"}, "holds none"),
        ({"names": "some"}, "'some' for option names"),
    ],
)
def test_options_that_are_not_understood_are_refused(
    tmp_path: Path, options: dict[str, str], match: str
) -> None:
    path = written(tmp_path / "t", llama_trace())

    with pytest.raises(ReadError, match=match) as caught:
        read(path, options=options)

    assert caught.value.hint


def test_estimate_shows_the_cost_from_the_head(tmp_path: Path) -> None:
    data = encode(llama_trace(50), "256")
    head = Head("t.bin", 1_000_000 * 256, data[: 64 << 10])

    estimate = READER.estimate(head)

    assert estimate is not None
    assert estimate.records == 1_000_000
    assert 30e6 < estimate.final_bytes < estimate.peak_bytes < 100e6
    assert estimate.can_range
    assert estimate.can_sample_names
    assert READER.estimate(Head("t.bin", 512, bytes(512))) is None


def test_memory_of_a_trace_is_what_the_estimate_says(tmp_path: Path) -> None:
    records = on_threads(llama_trace(60), 4)
    path = written(tmp_path / "t", records)

    trace = read(path)

    columns = [getattr(trace.spans, name) for name in trace.spans.__dataclass_fields__]
    columns = [*(c for c in columns if c is not None), trace.accesses.pattern]
    assert sum(c.itemsize for c in columns) <= 35
