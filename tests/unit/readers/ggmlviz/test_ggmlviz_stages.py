"""The .ggmlviz reader on the way: early pictures, parts, changes, no memory."""

import os
import threading
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ggmlviz_files as viz
from ggmlviz_files import Event
from ggscope.errors import Cancelled, LimitExceededError, ReadError
from ggscope.model.tables import Quality, quality_of
from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.readers.api import EstimatingReader, Head, Limits, ReadContext
from ggscope.readers.ggmlviz import reader as ggmlviz_reader
from ggscope.readers.ggmlviz.columns import NAME_BLOCK, NAMES_EVERY, EventCollector
from ggscope.readers.ggmlviz.reader import GgmlvizReader, Reading, choose
from ggscope.readers.source import Source
from oracles.ggmlviz_collector import NumpyCollector

INTAKES = ["numpy", "compiled"]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show every early picture that the number of events allows."""
    monkeypatch.setattr(ggmlviz_reader, "FIRST_S", 0.0)
    monkeypatch.setattr(ggmlviz_reader, "MOST", 1)


def intake_of(
    source: Source, context: ReadContext, kind: str, n_bytes: int
) -> EventCollector | NumpyCollector:
    choice = choose(source, context)
    if kind == "numpy":
        return NumpyCollector(choice.events, 8, walker_bytes=max(n_bytes // 1024, 1))
    return EventCollector(choice.events, 8, choice.layout, window_bytes=n_bytes)


def read(
    path: Path,
    context: ReadContext | None = None,
    kind: str = INTAKES[-1],
    n_bytes: int = 1 << 16,
    **options: str,
) -> Trace:
    """Read a file in stretches of so many bytes."""
    context = context or ReadContext(options=options)
    with Source(path) as source:
        collector = intake_of(source, context, kind, n_bytes)
        choice = choose(source, context)
        reading = Reading(source, context, choice, 1, collector)
        trace = reading.run(is_known=True)
    assert trace.check() == []
    return trace


def staged(path: Path, kind: str = INTAKES[-1], n_bytes: int = 1 << 10) -> list[Trace]:
    """Return all snapshots; the last one is whole."""
    early: list[Trace] = []
    whole = read(path, ReadContext(publish=early.append), kind, n_bytes)
    return [*early, whole]


def spans_by_record(trace: Trace) -> dict[int, tuple[object, ...]]:
    """Return the graphs and ops; bars of waits and threads come at the end only."""
    spans = trace.spans
    assert spans.record is not None
    names = [trace.span_name(i) for i in range(len(spans))]
    return {
        record: (start, end, lane, op, name, Quality(quality))
        for record, start, end, lane, op, name, quality in zip(
            spans.record.tolist(), spans.start.tolist(), spans.end.tolist(),
            [trace.lanes[i].attributes.get("raw") for i in spans.lane.tolist()],
            spans.op.tolist(), names, quality_of(spans.flags).tolist(),
            strict=True,
        )
        if lane is not None
    }  # fmt: skip


def same(a: Trace, b: Trace) -> None:
    for table in ("spans", "markers", "tensors", "buffers"):
        left, right = getattr(a, table), getattr(b, table)
        for field in fields(left):
            x, y = getattr(left, field.name), getattr(right, field.name)
            if isinstance(x, np.ndarray):
                assert x.dtype == y.dtype
                assert x.tolist() == y.tolist()
            else:
                assert x is y is None
    assert a.strings.texts() == b.strings.texts()
    assert (a.lanes, a.extent, a.clock, a.warnings, a.ops) == (
        b.lanes, b.extent, b.clock, b.warnings, b.ops,
    )  # fmt: skip
    assert a.info.summary == b.info.summary


def run_of_graphs(n: int = 60) -> list[Event]:
    """Return graphs of two threads, timed and not."""
    events: list[Event] = []
    for i in range(n):
        events += viz.graph(
            viz.T0 + 5000 * i, 4, thread=1 + i % 2, interleaved=i % 3 == 0
        )
    return events


def warning(trace: Trace, code: str) -> ReadWarning:
    warnings = [w for w in trace.warnings if w.code == code]
    assert warnings, f"no {code} in {[w.code for w in trace.warnings]}"
    return warnings[0]


# --- early pictures


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", INTAKES)
@pytest.mark.parametrize("n_bytes", [1 << 10, 5000])
def test_staged_reading_gives_the_trace_of_unstaged_reading(
    tmp_path: Path, kind: str, n_bytes: int
) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", run_of_graphs())

    *early, whole = staged(path, kind, n_bytes)

    assert early
    assert not whole.pending
    same(whole, read(path, kind=kind))


@pytest.mark.usefixtures("eager")
def test_early_pictures_agree_with_the_whole(tmp_path: Path) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", run_of_graphs())

    *early, whole = staged(path)

    final = spans_by_record(whole)
    assert len(early) >= 3
    for part in early:
        assert part.check() == []
        assert part.is_partial
        assert part.clock == whole.clock
        until = part.read_until
        assert until is not None
        shown = spans_by_record(part)
        expected = {r: span for r, span in final.items() if span[0] < until}  # type: ignore[operator]
        assert shown.keys() == expected.keys()
        for record, (start, end, *rest) in expected.items():
            if shown[record][-1] is Quality.UNFINISHED:
                assert shown[record][:2] == (start, min(end, until))  # type: ignore[type-var]
            else:
                assert shown[record] == (start, end, *rest)
        # Op numbers may have other names while few ops are known; not these.
    lengths = [part.read_until for part in early]
    assert lengths == sorted(lengths)  # type: ignore[type-var]


@pytest.mark.usefixtures("eager")
def test_early_pictures_know_how_long_the_whole_is(tmp_path: Path) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", run_of_graphs())

    *early, whole = staged(path)

    assert {part.extent for part in early} == {whole.extent}


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "tail", [b"\xff" * 200, b"\xff" * 70_000, b"\2" * 30, bytes(3000)]
)
def test_early_pictures_of_a_damaged_end_guess_nothing_wrong(
    tmp_path: Path, tail: bytes
) -> None:
    path = tmp_path / "t.ggmlviz"
    path.write_bytes(viz.packed(run_of_graphs()) + tail)

    *early, whole = staged(path)

    assert early
    for part in early:
        assert part.extent.end <= whole.extent.end


@pytest.mark.usefixtures("eager")
@settings(max_examples=30, deadline=None)
@given(
    specs=st.lists(
        st.tuples(
            st.sampled_from([0, 1, 2, 2, 3, 3, 9]), st.integers(0, 3),
            st.integers(0, 2), st.integers(1, 2),
        ),
        min_size=40, max_size=120,
    )
)  # fmt: skip
def test_any_early_picture_is_sound(
    tmp_path_factory: pytest.TempPathFactory, specs: list[tuple[int, int, int, int]]
) -> None:
    time, events = viz.T0, []
    for kind, delta, pointer, thread in specs:
        time += delta
        events.append(Event(kind, time, pointer, 27, thread=thread))
    path = viz.write(tmp_path_factory.mktemp("viz") / "t.ggmlviz", events, "c64")

    *early, whole = staged(path, n_bytes=100)

    starts = {r: span[0] for r, span in spans_by_record(whole).items()}
    for part in early:
        assert part.check() == []
        records = part.spans.record
        assert records is not None
        assert len(set(records.tolist())) == len(records)
        assert set(records.tolist()) <= starts.keys()


@pytest.mark.usefixtures("eager")
def test_early_pictures_stop_short_of_where_late_events_may_lie(
    tmp_path: Path,
) -> None:
    events = run_of_graphs()
    for i in range(50, len(events) - 1, 37):
        events[i], events[i + 1] = events[i + 1], events[i]
    path = viz.write(tmp_path / "t.ggmlviz", events)

    *early, whole = staged(path)

    final = spans_by_record(whole)
    assert len(early) >= 3
    for part in early:
        assert part.read_until is not None
        for record, (start, end, *_) in spans_by_record(part).items():
            assert start < part.read_until  # type: ignore[operator]
            assert final[record][0] == start
            assert end == final[record][1] or end == part.read_until


@pytest.mark.usefixtures("eager")
def test_early_pictures_of_a_range_do_not_look_at_the_end(tmp_path: Path) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", run_of_graphs())
    early: list[Trace] = []
    context = ReadContext(publish=early.append, options={"range": "0:400"})

    whole = read(path, context, n_bytes=1 << 10)

    assert early
    assert all(part.extent.end <= whole.extent.end for part in early)


@pytest.mark.usefixtures("eager")
def test_last_events_of_another_year_do_not_stretch_early_pictures(
    tmp_path: Path,
) -> None:
    late = [Event(9, e.time + 10**16) for e in run_of_graphs()[:5]]
    path = viz.write(tmp_path / "t.ggmlviz", run_of_graphs(300) + late)

    *early, _ = staged(path)

    assert early
    assert all(part.extent.end < 10**16 for part in early)


def test_small_files_show_nothing_early(tmp_path: Path) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", run_of_graphs())
    early: list[Trace] = []

    with Source(path) as source:
        GgmlvizReader().read(source, ReadContext(publish=early.append))

    assert early == []


# --- cancelling


class LosesPatience(threading.Event):
    """Set from the n-th question on."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n_left = n

    def is_set(self) -> bool:
        self.n_left -= 1
        return self.n_left < 0


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", INTAKES)
def test_cancelled_anywhere_leaves_nothing_behind(tmp_path: Path, kind: str) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", run_of_graphs(20))
    open_before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc") else 0
    n_threads = threading.active_count()
    n_cancelled = 0

    for n in range(2000):
        context = ReadContext(cancel=LosesPatience(n), publish=lambda trace: None)
        try:
            read(path, context, kind, 2000)
        except Cancelled:
            n_cancelled += 1
        else:
            break

    assert n_cancelled > 10
    # One of a test before may have ended meanwhile.
    assert threading.active_count() <= n_threads
    if open_before:
        assert len(os.listdir("/proc/self/fd")) <= open_before


# --- parts


@pytest.mark.parametrize("kind", INTAKES)
def test_range_reads_only_its_events(tmp_path: Path, kind: str) -> None:
    events = run_of_graphs()
    path = viz.write(tmp_path / "t.ggmlviz", events)

    trace = read(path, kind=kind, range="100:250")

    expected, strays = viz.reference(events[100:250])
    spans = trace.spans
    assert spans.record is not None
    assert sorted(spans.record.tolist()) == sorted(100 + e.record for e in expected)
    assert trace.markers.record is not None
    assert trace.markers.record.tolist() == [100 + r for r in strays]
    assert trace.info.n_records == 150
    assert trace.info.options["range"] == "100:250"
    assert trace.info.summary["range"] == "100:250"
    assert "100 to 249" in warning(trace, "range_read").message
    assert warning(trace, "range_read").severity == Severity.INFO
    assert trace.records is not None
    fields_of = {name: text for name, text, *_ in trace.records.view(130).fields}
    assert fields_of["timestamp_ns"] == str(events[130].time)


def test_range_to_the_end_is_noted_once(tmp_path: Path) -> None:
    events = run_of_graphs()
    path = viz.write(tmp_path / "t.ggmlviz", events)

    trace = read(path, range="500:")

    assert trace.info.n_records == len(events) - 500
    assert trace.info.options["range"] == "500:"


def test_range_in_shares_is_near_to_them(tmp_path: Path) -> None:
    events = run_of_graphs()
    path = viz.write(tmp_path / "t.ggmlviz", events)

    trace = read(path, range="50%:75%")

    assert abs(trace.info.n_records - len(events) / 4) < len(events) / 50


def test_range_of_everything_equals_the_whole(tmp_path: Path) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", run_of_graphs())

    part, whole = read(path, range=":"), read(path)

    same(part, whole)


def test_range_ignores_damage_behind_it(tmp_path: Path) -> None:
    events = run_of_graphs()
    path = tmp_path / "t.ggmlviz"
    path.write_bytes(viz.packed(events) + b"\xff" * 100)

    trace = read(path, range="0:100")

    codes = {w.code for w in trace.warnings}
    assert "range_read" in codes
    assert not codes & {"bad_label_flag", "truncated_event", "skipped_bytes"}


@pytest.mark.parametrize("text", ["7", "9:5", "a:b", "200%:"])
def test_range_that_is_none_is_a_read_error(tmp_path: Path, text: str) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", run_of_graphs())

    with pytest.raises(ReadError) as caught:
        read(path, range=text)

    assert caught.value.hint


def test_range_behind_the_end_says_how_many_events_there_are(tmp_path: Path) -> None:
    events = run_of_graphs(5)
    path = viz.write(tmp_path / "t.ggmlviz", events)

    with pytest.raises(ReadError, match=f"has {len(events)} events"):
        read(path, range="1_000_000:")


@pytest.mark.parametrize("kind", INTAKES)
def test_names_none_leaves_ops_their_numbers(tmp_path: Path, kind: str) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", run_of_graphs())

    trace = read(path, kind=kind, names="none")

    named = {trace.span_name(i) for i in range(len(trace.spans))}
    assert named == {"MUL_MAT", "graph (4 nodes)"}
    assert len(trace.tensors) == 0
    assert trace.info.options["names"] == "none"
    assert warning(trace, "names_left_out").severity == Severity.INFO
    assert len(trace.spans) == len(read(path).spans)


def test_names_sampled_reads_one_block_in_so_many(tmp_path: Path) -> None:
    n = 20 * NAME_BLOCK
    events = [
        Event(kind, viz.T0 + i, i // 2, 27, label="x") for i in range(n)
        for kind in [2 + i % 2]
    ]  # fmt: skip
    path = viz.write(tmp_path / "t.ggmlviz", events)

    trace = read(path, names="sampled")

    record = trace.spans.record
    assert record is not None
    is_named = np.asarray(trace.spans.name) >= 0
    block = record.astype(np.int64) // NAME_BLOCK
    assert (is_named == (block % NAMES_EVERY["sampled"] == 0)).all()


def test_unknown_names_option_is_a_read_error(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="'few' for option names"):
        read(viz.write(tmp_path / "t.ggmlviz", run_of_graphs()), names="few")


# --- cost


def test_estimate_is_near_to_what_is_there(tmp_path: Path) -> None:
    events = run_of_graphs(300)
    path = viz.write(tmp_path / "t.ggmlviz", events)
    data = path.read_bytes()
    reader = GgmlvizReader()

    estimate = reader.estimate(Head(path.name, len(data), data[:65536]))

    assert isinstance(reader, EstimatingReader)
    assert estimate is not None
    assert abs(estimate.records - len(events)) < len(events) / 20
    n_spans = len(read(path).spans)
    assert n_spans * 33 <= estimate.final_bytes <= n_spans * 42
    assert estimate.final_bytes < estimate.peak_bytes
    assert estimate.can_range
    assert estimate.can_sample_names


@pytest.mark.parametrize("data", [b"", b"GGML", b"PK\3\4" * 100])
def test_estimate_of_something_else_is_none(data: bytes) -> None:
    assert GgmlvizReader().estimate(Head("t.ggmlviz", len(data), data)) is None


def test_estimate_of_a_header_alone_is_nothing() -> None:
    estimate = GgmlvizReader().estimate(Head("t.ggmlviz", 12, viz.HEADER))

    assert estimate is not None
    assert estimate.records == 0


def test_spans_take_at_most_forty_bytes(tmp_path: Path) -> None:
    trace = read(viz.write(tmp_path / "t.ggmlviz", viz.run(200, 60)))

    columns = [getattr(trace.spans, f.name) for f in fields(trace.spans)]
    n_bytes = sum(column.nbytes for column in columns if column is not None)
    assert n_bytes + trace.accesses.pattern.nbytes <= 40 * len(trace.spans)


@pytest.mark.parametrize("kind", INTAKES)
def test_too_little_memory_names_the_options(tmp_path: Path, kind: str) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", run_of_graphs())

    with pytest.raises(LimitExceededError) as caught:
        read(path, ReadContext(limits=Limits(memory_bytes=4000)), kind)

    assert "range=FIRST:STOP" in caught.value.hint
    assert "names=none" in caught.value.hint


class Failing(Source):
    """A file that cannot be read from some place on."""

    def __init__(self, path: Path, at: int, error: BaseException) -> None:
        super().__init__(path)
        self.at, self.error = at, error

    def read_into(self, offset: int, buffer: np.ndarray) -> int:
        if offset + len(buffer) > self.at:
            raise self.error
        return super().read_into(offset, buffer)


def test_no_memory_is_a_limit_with_a_hint(tmp_path: Path) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", run_of_graphs())

    with (
        Failing(path, 0, MemoryError()) as source,
        pytest.raises(LimitExceededError) as caught,
    ):
        GgmlvizReader().read(source, ReadContext())

    assert "range=FIRST:STOP" in caught.value.hint


# --- files that change


@pytest.mark.parametrize("kind", INTAKES)
def test_unreadable_rest_keeps_what_was_read(tmp_path: Path, kind: str) -> None:
    events = run_of_graphs() + [Event(0, viz.T0 + 10**7, label="x" * 4000)] * 40
    path = viz.write(tmp_path / "t.ggmlviz", events)
    error = ReadError("the disk reports a read error.", hint="Copy it.")
    context = ReadContext()

    with Failing(path, 100_000, error) as source:
        choice = choose(source, context)
        collector = intake_of(source, context, kind, 2048)
        trace = Reading(source, context, choice, 1, collector).run(is_known=True)

    assert trace.check() == []
    assert 300 < trace.info.n_records < len(events)
    assert "disk reports" in warning(trace, "read_failed").message
    assert warning(trace, "read_failed").severity == Severity.DATA_LOSS


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be removed there")
def test_file_that_vanishes_keeps_everything(tmp_path: Path) -> None:
    path = viz.write(tmp_path / "t.ggmlviz", run_of_graphs())
    n = len(run_of_graphs())

    def vanish(done: int, total: int) -> None:
        path.unlink(missing_ok=True)

    trace = read(path, ReadContext(progress=vanish))

    assert trace.info.n_records == n
    problem = warning(trace, "file_changed")
    assert "deleted" in problem.message
    assert f"{n} events, up to byte" in problem.message
    assert trace.records is not None
    with pytest.raises(ReadError):
        trace.records.view(0)


@pytest.mark.parametrize("kind", INTAKES)
@pytest.mark.parametrize("left", [11, 12, 13, 2000, 9000])
def test_file_that_is_cut_between_windows_keeps_what_was_read(
    tmp_path: Path, kind: str, left: int
) -> None:
    events = run_of_graphs()
    path = viz.write(tmp_path / "t.ggmlviz", events)
    waiting = [left]

    def shrink(done: int, total: int) -> None:
        if waiting:
            os.truncate(path, waiting.pop())

    trace = read(path, ReadContext(progress=shrink), kind, 2048)

    assert 0 < trace.info.n_records <= len(events)
    assert "was truncated" in warning(trace, "file_changed").message
