"""perf script: samples by thread and event as spans, against plain twins."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import people
import stack_files
from flame import frames_of, problems
from ggscope.errors import CorruptError, ReadError
from ggscope.model.tables import Quality, SpanFlag, quality_of
from ggscope.readers.common import stack_text
from ggscope.readers.registry import open_trace
from oracles.stack_spans import by_time
from stack_files import PERIOD, Sample

# index.json knows bytes alone; counted by grep of lines with a time.
_COUNTS = {
    "forks": 561,
    "simple-with-header": 136,
    "simple-with-pid": 137,
    "simple": 1,
}


def read(tmp_path: Path, data: bytes):
    path = tmp_path / "x.txt"
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.check() == []
    assert trace.info.reader_id == "perf-script"
    return trace


def expected(samples: list[Sample], origin: int, period: int):
    """Return the spans of one thread's samples."""
    timed = []
    for i, one in enumerate(samples):
        following = samples[i + 1].time if i + 1 < len(samples) else None
        end = one.time + period
        if following is not None and following - one.time <= int(period * 1.5):
            end = following
        timed.append((one.time - origin, end - origin, one.stack))
    return by_time(timed)


@people.each("perf-script")
def test_counts_of_real_files(name, tmp_path):
    trace = read(tmp_path, people.content(name))

    n = _COUNTS[Path(name).name.partition(".")[0]]
    assert trace.info.summary["events"] == {"cpu-clock": n}
    assert trace.info.n_records == n
    assert int(trace.spans.samples[trace.spans.start == 0].max()) >= 1


@given(seed=st.integers(0, 10**6), n=st.integers(1, 60))
def test_spans_are_those_of_the_plain_twin(seed, n, tmp_path_factory):
    samples = stack_files.samples(seed, n)
    trace = read(tmp_path_factory.mktemp("perf"), stack_files.perf(samples))

    origin = min(sample.time for sample in samples)
    assert trace.clock.origin == origin
    by_tid = {int(lane.attributes["tid"]): lane.id for lane in trace.lanes}
    for tid, lane in by_tid.items():
        mine = [sample for sample in samples if sample.tid == tid]
        assert frames_of(trace, lane) == expected(mine, origin, PERIOD)
    roots = [i for i in range(len(trace.spans)) if _is_root(trace, i)]
    assert sum(int(trace.spans.samples[i]) for i in roots) == len(samples)
    assert set(quality_of(trace.spans.flags)) == {Quality.DERIVED}


def _is_root(trace, i):
    spans = trace.spans
    return (
        i == 0
        or spans.lane[i] != spans.lane[i - 1]
        or (spans.start[i] >= spans.end[:i][spans.lane[:i] == spans.lane[i]].max())
    )


@pytest.mark.parametrize("block", [40, 333, 5000])
def test_blocks_of_any_size_give_the_same_spans(block, tmp_path, monkeypatch):
    data = stack_files.perf(stack_files.samples(3, 90))
    whole = read(tmp_path, data)
    monkeypatch.setattr(stack_text, "BLOCK_BYTES", block)

    trace = read(tmp_path, data)

    for name in ("start", "end", "op", "samples", "lane", "record"):
        assert (
            getattr(trace.spans, name).tolist() == getattr(whole.spans, name).tolist()
        )


def test_events_and_idle_cores_have_lanes_of_their_own(tmp_path):
    samples = [
        Sample(0, 10**9, ("idle",), comm="swapper", cpu=0),
        Sample(0, 10**9 + 5, ("idle",), comm="swapper", cpu=1),
        Sample(7, 10**9 + 9, ("main",), event="cycles:u", comm="my prog"),
        Sample(7, 10**9 + 9, ("main",), comm="my prog"),
    ]

    trace = read(tmp_path, stack_files.perf(samples))

    assert sorted(zip(trace.lanes.group_titles(), trace.lanes.names, strict=True)) == [
        (("Stacks · cpu-clock",), "my prog 7"),
        (("Stacks · cpu-clock",), "swapper, CPU 0"),
        (("Stacks · cpu-clock",), "swapper, CPU 1"),
        (("Stacks · cycles:u",), "my prog 7"),
    ]


def test_period_of_the_header_counts_where_samples_have_none(tmp_path):
    samples = [Sample(7, 10**9 + i * 10**6, ("main",), event="cycles") for i in (0, 9)]

    trace = read(tmp_path, stack_files.perf(samples, period=False, header=True))

    assert (trace.spans.end - trace.spans.start).tolist() == [PERIOD, PERIOD]
    assert trace.info.producer["cmdline"] == "/usr/bin/perf record -F 999 -g ./worker"
    assert problems(trace) == {}


def test_median_distance_counts_where_nothing_shows_a_period(tmp_path):
    times = (0, 10, 20, 31, 90)
    samples = [Sample(7, 10**9 + at, ("main",), event="cycles") for at in times]

    trace = read(tmp_path, stack_files.perf(samples, period=False))

    actual = zip(trace.spans.start.tolist(), trace.spans.end.tolist(), strict=True)
    assert list(actual) == [(0, 41), (90, 100)]
    assert problems(trace) == {"period_estimated": 1}


def test_lone_samples_without_period_have_no_length(tmp_path):
    samples = [Sample(7, 10**9, ("main", "work"), event="cycles")]

    trace = read(tmp_path, stack_files.perf(samples, period=False))

    assert (trace.spans.end - trace.spans.start).tolist() == [0, 0]
    assert all(flags & SpanFlag.UNFINISHED for flags in trace.spans.flags.tolist())
    assert problems(trace) == {"period_unknown": 1}


def test_frames_keep_names_with_blanks_and_lose_offsets(tmp_path):
    text = (
        "a b  7/9 [002] D.. 12.5: 100 cpu-clock:u: \n"
        "\t  1f std::map<int, long>::find(int const&) const+0x1f (/usr/lib/my lib.so)\n"
        "\t  20 inner (inlined)\n"
        "\t  21 [unknown] ([unknown])\n"
        "\t  22\n"
        "  main.c:12\n\n"
    )

    trace = read(tmp_path, text.encode())

    names = [trace.span_name(i) for i in range(4)]
    parts = [trace.strings[int(i)] if i >= 0 else "" for i in trace.spans.category]
    assert list(zip(names, parts, strict=True)) == [
        ("[unknown]", ""),
        ("[unknown]", "[unknown]"),
        ("inner", "inlined"),
        ("std::map<int, long>::find(int const&) const", "/usr/lib/my lib.so"),
    ]
    lane = trace.lanes[0]
    assert (lane.name, lane.attributes["pid"], lane.attributes["tid"]) == (
        "a b 9",
        "7",
        "9",
    )
    fields = dict(f[:2] for f in trace.records.view(0).fields)
    assert fields["frame 1"] == "20 inner (inlined)"


def test_samples_without_stacks_are_no_frames_of_one_another(tmp_path):
    """Names of programs may begin as addresses do."""
    path = tmp_path / "x.txt"
    names = ["python3", "bash", "dd", "cc", "bash"]
    path.write_text(
        "".join(
            f"{name:>16} 27881 11175.{i:06}: cpu-clock: \n"
            for i, name in enumerate(names)
        )
        + "            7f00 main (prog)\n\n"
    )

    trace = open_trace(path)

    assert trace.info.summary["events"] == {"cpu-clock": len(names)}
    assert len(trace.spans) == 1


def test_samples_on_one_line_are_read(tmp_path):
    line = "          prog 7 [000] {}: cpu-clock: ffff work+0x1 ([kernel.kallsyms])\n"
    text = line.format("1.000001") + line.format("1.000002")

    trace = read(tmp_path, text.encode())

    assert [trace.span_name(i) for i in range(len(trace.spans))] == ["work"]
    assert trace.spans.samples.tolist() == [2]


def test_what_is_left_out_is_reported(tmp_path):
    deep = tuple(f"f{i}" for i in range(5000))
    samples = [
        Sample(7, 10**9 + 9, deep),
        Sample(7, 10**9, ("main",)),
        Sample(8, 10**9, ()),
    ]
    data = stack_files.perf(samples) + b"no sample\n\n"

    trace = read(tmp_path, data)

    assert problems(trace) == {
        "deep_stacks": 1, "samples_without_stack": 1, "samples_out_of_order": 1,
        "other_lines": 1,
    }  # fmt: skip
    assert len(trace.spans) == 2048 + 1


def test_text_without_samples_is_refused(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"# captured on    : now\n# perf version : 6.1\n# ========\n")

    with pytest.raises(CorruptError, match="no line is a sample"):
        open_trace(path)


def test_record_of_a_file_that_changed_is_an_error(tmp_path):
    trace = read(tmp_path, stack_files.perf(stack_files.samples(1, 9)))
    (tmp_path / "x.txt").write_bytes(b"")

    with pytest.raises(ReadError):
        trace.records.view(0)
    with pytest.raises(ReadError):
        trace.records.view(10**6)
