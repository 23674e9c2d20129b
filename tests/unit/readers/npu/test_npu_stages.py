"""Early snapshots of NPU traces, parts of files, cancelling, and changing files."""

import json
import os
import threading
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from ggscope.errors import Cancelled, LimitExceededError, ReadError, TruncatedError
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import HEAD_BYTES, EstimatingReader, Head, ReadContext
from ggscope.readers.npu.reader import NpuJsonReader
from ggscope.readers.npu.trace import last_cycle, read_until
from ggscope.readers.source import Source
from npu_files import (
    access,
    as_lines,
    command,
    comparable,
    document,
    engine,
    marker,
    only_warning,
    read_text,
    sample,
    stall,
    token,
)
from support import need_corpus


def many_events(n: int = 60) -> list[dict[str, object]]:
    """Return events of all kinds, in order of time but for a few."""
    events: list[dict[str, object]] = [token(0, 10 * n, token_index=4)]
    for i in range(n):
        late = 7 if i % 9 == 4 else 0
        events.append(
            engine(10 * i - late + 7, 10 * i + 9, engine_id=i % 3, tile_id=f"t{i % 5}")
        )
        if i % 4 == 1:
            events.append(access(10 * i, cmdq_id=1, source_engine_id=i % 3))
        if i % 7 == 2:
            events += [stall(10 * i, 10 * i + 5), command(10 * i, "START", cmd_id=i)]
        if i % 11 == 3:
            events.append(marker(10 * i, f"m{i}"))
    return events


TEXT = json.dumps(document(*many_events(), bandwidth_samples=[sample(0), sample(640)]))
LINES = as_lines({"version": "1.0"}, *many_events(), sample(0), sample(640))


def staged(
    folder: Path, text: str, name: str = "t.json", **options: str
) -> tuple[list[Trace], Trace]:
    """Return every snapshot that a patient listener gets, and the whole trace."""
    items: list[Trace] = []
    context = ReadContext(publish=items.append, options=options)
    trace = read_text(
        folder, text, name=name, block_bytes=600, first_seconds=0, context=context
    )
    return items, trace


def all_columns(table: object) -> dict[str, object]:
    """Return every column of a table with its dtype."""
    values: dict[str, object] = {}
    for f in fields(table):  # type: ignore[arg-type]  # tables are dataclasses
        value = getattr(table, f.name)
        if isinstance(value, np.ndarray):
            values[f.name] = (value.dtype, value.tolist())
        elif hasattr(value, "__dataclass_fields__"):
            values[f.name] = all_columns(value)
        else:
            values[f.name] = value
    return values


@pytest.mark.parametrize(("text", "name"), [(TEXT, "t.json"), (LINES, "t.jsonl")])
@pytest.mark.parametrize("native", ["0", "1"])
def test_staged_trace_equals_the_unstaged_one(
    tmp_path: Path,
    text: str,
    name: str,
    native: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if native == "0":
        oracles.npu(monkeypatch)

    early, trace = staged(tmp_path, text, name)

    assert len(early) >= 3
    whole = read_text(tmp_path, text, name=name, block_bytes=600)
    for table in ("spans", "markers", "accesses", "flows"):
        assert all_columns(getattr(trace, table)) == all_columns(getattr(whole, table))
    assert trace.strings.texts() == whole.strings.texts()
    assert comparable(trace) == comparable(whole)
    assert (trace.lanes, trace.extent) == (whole.lanes, whole.extent)
    assert not trace.pending
    assert trace.read_until is None


def test_every_file_of_the_corpus_is_the_same_in_stages(tmp_path: Path) -> None:
    for file in sorted((need_corpus() / "npu").glob("valid*.json*")):
        text = file.read_text()
        _, trace = staged(tmp_path, text, file.name)
        whole = read_text(tmp_path, text, name=file.name, block_bytes=600)
        assert comparable(trace) == comparable(whole)


def test_early_snapshots_are_sound_prefixes(tmp_path: Path) -> None:
    early, trace = staged(tmp_path, TEXT)

    assert [t.check() for t in early] == [[]] * len(early)
    assert 2 <= len(early) <= 6
    *parts, spans_known = early
    assert trace.spans.record is not None
    records = trace.spans.record.tolist()
    for part in parts:
        assert part.pending == {"spans", "names", "accesses"}
        assert part.clock.origin == trace.clock.origin
        assert part.extent.end >= int(trace.spans.end.max()) - 60
        assert part.spans.record is not None
        for i, record in enumerate(part.spans.record.tolist()):
            if record >= 0:
                same = records.index(record)
                assert part.spans.start[i] == trace.spans.start[same]
                assert part.span_name(i) == trace.span_name(same)
    assert spans_known.pending == {"accesses"}
    assert all_columns(spans_known.spans) == all_columns(trace.spans)
    lanes = spans_known.lanes
    assert trace.lanes[: len(lanes)] == lanes
    numbers = [t.generation for t in [*early, trace]]
    assert numbers == sorted(set(numbers))


def test_spans_before_read_until_are_all_there(tmp_path: Path) -> None:
    early, trace = staged(tmp_path, TEXT)

    engines = [lane.id for lane in trace.lanes if lane.name.startswith("TE ")]
    for part in early[:-1]:
        assert part.read_until is not None
        known = trace.spans.start < part.read_until
        known &= np.isin(trace.spans.lane, engines)
        assert part.spans.record is not None
        assert trace.spans.record is not None
        assert set(trace.spans.record[known]) <= set(part.spans.record)
    assert early[0].read_until != early[1].read_until


def test_stalls_alone_promise_nothing(tmp_path: Path) -> None:
    text = json.dumps(document(*[stall(i, i + 1) for i in range(99)]))

    early, _ = staged(tmp_path, text)

    assert [t.read_until for t in early[:-1]] == [0] * (len(early) - 1)
    assert early[0].check() == []


def test_nothing_is_published_before_the_first_span(tmp_path: Path) -> None:
    text = json.dumps(document(*[marker(i) for i in range(99)], engine(1, 2)))

    early, _ = staged(tmp_path, text)

    assert [t.pending for t in early] == [{"accesses"}]


def test_records_can_be_looked_at_while_reading_goes_on(tmp_path: Path) -> None:
    early, _ = staged(tmp_path, TEXT)

    assert early[0].records is not None
    assert early[0].records.view(1).fields


def test_small_file_publishes_nothing_early(tmp_path: Path) -> None:
    items: list[Trace] = []

    read_text(tmp_path, TEXT, context=ReadContext(publish=items.append))

    assert items == []


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40), st.integers(1, 39))
@settings(max_examples=100)
def test_read_until_holds_for_as_long_as_the_disorder_grows_no_more(
    start: list[int], cut: int
) -> None:
    part = start[:cut]
    setbacks = [max(part[: i + 1]) - time for i, time in enumerate(part)]

    result = read_until(np.array(part, np.int64))

    assert result == max(part) - max(setbacks)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"end_cycle": 70, "cycle": 30}', 70),
        ('{"cycle":12}', 12),
        ('{"summary_metrics": {"cycles_total": 99}}', 99),
        ('{"cycles_total": 99, "cycle": 8}', 8),
        ('{"cycle": "x", "cycle": -4, "cycle": 1.5}', None),
        ('{"cycle": 12345678901234567890}', None),
    ],
)
def test_last_cycle_is_read_from_the_end(
    tmp_path: Path, text: str, expected: int | None
) -> None:
    path = tmp_path / "t"
    path.write_text(" " * 100_000 + text)

    with Source(path) as source:
        assert last_cycle(source) == expected


@pytest.mark.parametrize(("text", "name"), [(TEXT, "t.json"), (LINES, "t.jsonl")])
@pytest.mark.parametrize("native", ["0", "1"])
@pytest.mark.parametrize("block", [300, 100_000])
def test_range_reads_only_its_events(
    tmp_path: Path,
    text: str,
    name: str,
    native: str,
    block: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if native == "0":
        oracles.npu(monkeypatch)
    whole = read_text(tmp_path, text, name=name)

    part = read_text(tmp_path, text, name=name, block_bytes=block, range="20:41")

    assert part.spans.record is not None
    assert whole.spans.record is not None
    value = part.spans.record[part.spans.record >= 0]
    values = [r for r in whole.spans.record.tolist() if 20 <= r < 41]
    assert sorted(value.tolist()) == sorted(values)
    assert part.info.n_records == whole.info.n_records
    assert part.info.options["range"] == "20:41"
    assert "computed" not in part.info.summary
    warning = only_warning(part)
    assert (warning.severity, warning.code) == (Severity.INFO, "range_read")
    assert f"20 to 40 of {whole.info.n_records}" in warning.message
    assert part.records is not None
    assert whole.records is not None
    assert part.records.view(25).fields == whole.records.view(25).fields
    for record in (19, 41):
        with pytest.raises(ReadError):
            part.records.view(record)


def test_range_leaves_out_samples_of_other_times(tmp_path: Path) -> None:
    part = read_text(tmp_path, TEXT, range="1:3")

    assert [len(series) for series in part.counters] == [1, 1]


def test_range_of_unusable_events_keeps_the_samples(tmp_path: Path) -> None:
    events = [engine(1, 2), engine("x", 2), engine(3, 4)]
    text = json.dumps(document(*events, bandwidth_samples=[sample(0)]))

    part = read_text(tmp_path, text, range="1:2")

    assert (len(part.spans), len(part.counters[0])) == (0, 1)


def test_problems_outside_the_range_are_not_noted(tmp_path: Path) -> None:
    events = [engine("x", 2), engine(1, 2), engine(3, 4), engine(5, "y")]

    part = read_text(tmp_path, json.dumps(document(*events)), range="1:3")

    assert only_warning(part).code == "range_read"
    assert len(part.spans) == 2


@pytest.mark.parametrize("requested", ["50:", ":10", "50%:"])
def test_range_may_be_open_or_a_share(tmp_path: Path, requested: str) -> None:
    part = read_text(tmp_path, TEXT, range=requested)

    n = part.info.n_records
    assert 0 < len(part.spans) <= n
    assert only_warning(part).code == "range_read"


def test_range_that_holds_all_events_leaves_none_out(tmp_path: Path) -> None:
    assert not read_text(tmp_path, TEXT, range="0:1_000_000").warnings


@pytest.mark.parametrize("requested", ["x", "5", "9:3", "5:5", "200%:", "1.5:2"])
def test_range_that_is_none_is_refused(tmp_path: Path, requested: str) -> None:
    with pytest.raises(ReadError, match="option range"):
        read_text(tmp_path, TEXT, range=requested)


def test_range_beyond_the_last_event_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="has none of the"):
        read_text(tmp_path, TEXT, range="5000:")


@pytest.mark.parametrize(("text", "name"), [(TEXT, "t.json"), (LINES, "t.jsonl")])
def test_estimate_shows_about_how_many_events_there_are(text: str, name: str) -> None:
    reader = NpuJsonReader()
    data = text.encode()

    assert isinstance(reader, EstimatingReader)
    estimate = reader.estimate(Head(name, 50 * len(data), data))

    assert estimate is not None
    assert estimate.records == pytest.approx(50 * len(many_events()), rel=0.1)
    assert estimate.final_bytes < estimate.peak_bytes
    assert (estimate.can_range, estimate.can_sample_names) == (True, False)


def test_estimate_of_a_foreign_file_is_none() -> None:
    for data in (b"", b"{}", b"\x00" * HEAD_BYTES, b'{"type": "NOT_MINE"}' * 9):
        assert NpuJsonReader().estimate(Head("t.json", 1 << 30, data)) is None


def at_first_progress(action: Callable[[], object]) -> ReadContext:
    """Return a context that does something when the first block has been read."""
    waiting = [action]

    def progress(done: int, total: int) -> None:
        if waiting:
            waiting.pop()()

    return ReadContext(progress=progress)


@pytest.mark.parametrize(("text", "name"), [(TEXT, "t.json"), (LINES, "t.jsonl")])
def test_file_that_shrinks_keeps_what_was_read(
    tmp_path: Path, text: str, name: str
) -> None:
    path = tmp_path / name
    half = len(text) // 2
    context = at_first_progress(lambda: os.truncate(path, half))

    trace = read_text(tmp_path, text, name=name, block_bytes=600, context=context)

    n_whole = text[:half].count('"type"') - 1
    assert n_whole - 1 <= trace.info.n_records <= n_whole + 1
    (warning,) = [w for w in trace.warnings if w.code == "file_changed"]
    assert warning.severity == Severity.DATA_LOSS
    assert "was truncated during reading" in warning.message
    assert f"{trace.info.n_records} events, up to byte" in warning.message


def test_file_that_is_still_being_written_keeps_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    half = len(TEXT) // 2

    def go_on() -> None:
        with path.open("a") as file:
            file.write(TEXT[half:])

    trace = read_text(
        tmp_path, TEXT[:half], block_bytes=600, name="t.json",
        context=at_first_progress(go_on),
    )  # fmt: skip

    assert len(trace.spans) > 10
    assert "grew during reading" in only_warning(trace).message


def test_file_that_vanishes_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    context = at_first_progress(path.unlink)

    trace = read_text(tmp_path, TEXT, name="t.json", block_bytes=600, context=context)

    assert trace.info.n_records == len(many_events())
    warning = only_warning(trace)
    assert (warning.code, warning.severity) == ("file_changed", Severity.NOTICE)
    assert trace.records is not None
    with pytest.raises(ReadError):
        trace.records.view(3)


class FailingSource(Source):
    """A file on a disk that fails from some byte on."""

    limit = 5000
    error: Exception = ReadError("the disk reports a read error.", hint="Copy it.")

    def read_into(self, offset: int, buffer: npt.NDArray[np.uint8]) -> int:
        """Fail beyond the limit."""
        if offset > self.limit:
            raise self.error
        return super().read_into(offset, buffer)


def test_disk_that_fails_keeps_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(TEXT)

    with FailingSource(path) as source:
        trace = NpuJsonReader(block_bytes=600).read(source, ReadContext())

    assert trace.check() == []
    assert 5 < trace.info.n_records < len(many_events())
    warning = only_warning(trace)
    assert (warning.code, warning.remedy) == ("read_failed", "Copy it.")
    assert f"{trace.info.n_records} events" in warning.message


def test_too_little_memory_names_the_option_that_helps(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(TEXT)

    class Hungry(FailingSource):
        error = MemoryError()

    with Hungry(path) as source, pytest.raises(LimitExceededError) as caught:
        NpuJsonReader(block_bytes=600).read(source, ReadContext())

    assert "range=FIRST:STOP" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT[: TEXT.index("t3") + 1], "inside event 7, at byte"),
        (TEXT[: TEXT.index('{"type": "STALL')], "after event 4, inside its event list"),
        ('{"timeline_events": [ ', "before its first event, at byte 22"),
        ('{"version": "1.', "before its event list, inside its JSON object"),
        (TEXT[:-20], "after its event list, inside its JSON object"),
    ],
)
def test_cut_file_says_where_it_ends(tmp_path: Path, text: str, message: str) -> None:
    if text == TEXT[:-20]:
        text = json.dumps({"timeline_events": [], "summary_metrics": {"a": 1}})[:-3]

    with pytest.raises(TruncatedError) as caught:
        read_text(tmp_path, text, block_bytes=600, strict="true")

    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("strict", ["", "true"])
def test_salvaged_file_says_what_was_kept(tmp_path: Path, strict: str) -> None:
    text = TEXT[: TEXT.index("t3") + 1]
    if strict:
        with pytest.raises(TruncatedError, match="7 complete events before it"):
            read_text(tmp_path, text, strict=strict)
        return

    warning = only_warning(read_text(tmp_path, text))

    assert "inside event 7" in warning.message
    assert "Everything before that was loaded" in warning.message
    assert warning.remedy


@given(st.integers(0, 60), st.booleans(), st.booleans())
@settings(max_examples=60)
def test_cancelling_at_any_moment_leaves_nothing_behind(
    tmp_path_factory: pytest.TempPathFactory, moment: int, by_lines: bool, staged: bool
) -> None:
    folder = tmp_path_factory.getbasetemp()
    cancel, left = threading.Event(), [moment]

    class Impatient(ReadContext):
        """Gives up when it has been asked some times whether to go on."""

        def check_cancelled(self) -> None:
            left[0] -= 1
            if left[0] < 0:
                cancel.set()
            super().check_cancelled()

    threads, files = threading.active_count(), set(os.listdir(folder))
    context = Impatient(cancel=cancel, publish=(lambda _: None) if staged else None)
    name = "c.jsonl" if by_lines else "c.json"
    trace: Trace | None = None
    try:
        trace = read_text(
            folder,
            LINES if by_lines else TEXT,
            name=name,
            block_bytes=900,
            first_seconds=0,
            context=context,
        )
    except Cancelled:
        assert cancel.is_set()

    assert (trace is None) == cancel.is_set()
    assert threading.active_count() == threads
    assert set(os.listdir(folder)) - files <= {name}
