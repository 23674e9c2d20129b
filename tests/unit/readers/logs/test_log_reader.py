"""Logs of servers in every form: requests, times, memory, damaged and mixed files."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import log_files
import people
from ggscope.analysis.rows.index import TraceIndex
from ggscope.errors import CorruptError
from ggscope.model.tables import Phase, Quality, SpanFlag, quality_of
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.api import Head, ReadContext
from ggscope.readers.common import text_blocks
from ggscope.readers.logs.lines import Kind, lines_done, scan_text
from ggscope.readers.logs.reader import LogReader
from ggscope.readers.registry import open_trace, sniff_all
from ggscope.readers.source import Source
from log_files import CLOCKED, FORMS, Request, random_requests

STARTS = re.compile(rb"build_info|load_model|listening")


def opened(tmp_path: Path, data: bytes, name: str = "x.txt") -> Trace:
    path = tmp_path / name
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.check() == []
    assert trace.info.reader_id == "llama-log"
    return trace


def rows_of(trace: Trace) -> list[tuple[int, ...]]:
    """Return what the table says of each request, times in ns."""
    assert trace.log is not None
    r = trace.log.requests
    columns = (
        r.slot, r.task, r.n_prompt, r.prompt_time, r.n_generated, r.generated_time,
        r.n_drafted, r.n_accepted,
    )  # fmt: skip
    return list(zip(*(column.tolist() for column in columns), strict=True))


def expected(requests: list[Request]) -> list[tuple[int, ...]]:
    return [
        (
            r.slot, r.task, r.n_prompt, round(r.prompt_ms * 1e6), r.n_generated,
            round(r.generated_ms * 1e6), r.drafted, r.accepted,
        )
        for r in requests
    ]  # fmt: skip


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("seed", range(3))
def test_requests_are_those_that_were_written(form, seed, tmp_path):
    requests = random_requests(seed, 40)

    trace = opened(tmp_path, log_files.log(requests, form))

    assert rows_of(trace) == expected(requests)
    assert trace.log is not None
    table = trace.log.requests
    assert table.n_cached.tolist() == [r.cached for r in requests]
    again = [max(r.past - r.cached, 0) if r.past >= 0 else r.cached for r in requests]
    again = [
        0 if r.cached >= 0 and r.past < 0 else n
        for r, n in zip(requests, again, strict=True)
    ]
    assert table.n_reprocessed.tolist() == again
    assert table.is_forced.tolist() == [r.is_forced for r in requests]
    events = trace.info.summary["events"]
    assert events == {
        "requests": len(requests),
        "prompt_tokens": sum(r.n_prompt for r in requests),
        "prompt_ms": pytest.approx(sum(r.prompt_ms for r in requests), abs=1e-6),
        "generated_tokens": sum(r.n_generated for r in requests),
        "generated_ms": pytest.approx(sum(r.generated_ms for r in requests), abs=1e-6),
        "reprocessed": sum(r.is_forced for r in requests),
    }
    assert trace.log.has_clock == (form in CLOCKED)


@pytest.mark.parametrize("seed", range(4))
def test_lines_that_a_runtime_of_kubernetes_has_cut_are_whole(seed, tmp_path):
    requests = random_requests(seed, 30)
    whole = opened(tmp_path, log_files.log(requests, "cri"), "whole.txt")

    trace = opened(tmp_path, log_files.cut_by_cri(requests, seed), "cut.txt")

    assert rows_of(trace) == rows_of(whole) == expected(requests)
    assert trace.log is not None
    assert whole.log is not None
    for name in ("launch", "queued", "n_cached", "n_reprocessed", "is_forced"):
        ours, theirs = (getattr(t.log.requests, name) for t in (trace, whole))
        assert ours.tolist() == theirs.tolist()
    values = [
        {c.name: (c.time.tolist(), c.value.tolist()) for c in t.counters}
        for t in (trace, whole)
    ]
    assert values[0] == values[1]


@pytest.mark.parametrize("seed", range(3))
def test_cut_lines_are_whole_at_every_border_of_blocks(seed, tmp_path, monkeypatch):
    data = log_files.cut_by_cri(random_requests(seed, 12), seed)
    expected = opened(tmp_path, data)
    counters = {c.name: c.value.tolist() for c in expected.counters}
    for size in range(2000, 6000, 61):  # borders fall on pieces, and within them
        monkeypatch.setattr(text_blocks, "BLOCK_BYTES", size)

        trace = opened(tmp_path, data)

        assert rows_of(trace) == rows_of(expected)
        assert len(trace.markers) == len(expected.markers)
        assert {c.name: c.value.tolist() for c in trace.counters} == counters


def lines_done_slow(lines: list[bytes]) -> list[bool]:
    """Return after which lines no line of a stream goes on."""
    is_open, result = {}, []
    for line in lines:
        words = line.split(b" ")
        is_open[words[1]] = words[2] == b"P"
        result.append(not any(is_open.values()))
    return result


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_lines_are_done_where_no_piece_waits_for_its_rest(tags):
    time = b"2026-11-26T12:00:00.123456789Z"
    lines = [
        time + b" " + (b"stdout", b"stderr")[s] + b" " + b"FP"[p : p + 1] + b" x\n"
        for s, p in tags
    ]
    data = np.frombuffer(b"".join(lines), np.uint8)
    ends = np.cumsum([len(line) for line in lines])
    expected = max(
        (int(e) for e, d in zip(ends, lines_done_slow(lines), strict=True) if d),
        default=0,
    )

    assert lines_done(data, True) == expected
    # Of lines in the middle of a log an end is known less often, and never elsewhere.
    assert lines_done(data, False) in {0, expected} | set(ends[:-1].tolist())


@given(
    st.lists(
        st.binary(max_size=40)
        | st.sampled_from([
            b"2026-11-26T12:00:00.123456789Z stderr P x\n", b" stdout P", b"\n",
            b"2026-11-26T12:00:00.123456789+01:00 stdout F:P:F\n",
        ]),
        max_size=8,
    ),
    st.booleans(),
)  # fmt: skip
def test_end_of_lines_in_any_bytes_is_one(parts, is_start):
    data = b"".join(parts)
    data = data[: data.rfind(b"\n") + 1]

    n = lines_done(np.frombuffer(data, np.uint8), is_start)

    assert 0 <= n <= len(data)
    assert not n or data[n - 1 : n] == b"\n"


def test_end_within_a_log_is_known_behind_whole_lines_of_both_streams():
    time = b"2026-11-26T12:00:00.123456789Z"
    whole = time + b" stderr F a\n", time + b" stdout F a\n"
    piece = time + b" stderr P a\n"

    def done(*lines: bytes) -> int:
        return lines_done(np.frombuffer(b"".join(lines), np.uint8), False)

    assert done(*whole) == 2 * len(whole[0])
    assert done(whole[0]) == 0  # a line of the other stream may go on
    assert done(*whole, piece) == 2 * len(whole[0])
    assert done(piece, whole[1]) == 0
    assert done(*[whole[0]] * 64) == 64 * len(whole[0])
    assert done(*[b"no prefix\n"] * 64) == 640


def test_piece_of_a_line_is_no_line(tmp_path):
    time = b"2026-11-26T12:00:00.123456789Z"
    launch = b"slot launch_slot_: id 0 | task 5 | processing task"
    pieces = [
        time + b" stderr P a line that begins like this: ",
        time + b" stdout F " + launch,
        time + b" stderr P " + launch,
        time + b" stderr F",
        time + b" stderr F " + launch,
    ]
    lines = scan_text(np.frombuffer(b"\n".join(pieces), np.uint8))
    assert lines.line.tolist() == [1, 4]
    assert lines.n_lines == len(pieces)


@pytest.mark.parametrize(("n", "names"), [(1, ("prompt", "generate")), (9, ())])
def test_only_a_log_of_one_request_has_phases_of_its_own(n, names, tmp_path):
    requests = random_requests(4, n)
    trace = opened(tmp_path, log_files.log(requests))
    assert TraceIndex(trace).phase_bands().names == names


@pytest.mark.parametrize("form", list(FORMS))
def test_spans_last_as_long_as_the_log_says_and_are_derived(form, tmp_path):
    requests = random_requests(5, 30)

    trace = opened(tmp_path, log_files.log(requests, form))

    assert trace.log is not None
    table, spans = trace.log.requests, trace.spans
    for rows, times, phase in (
        (table.prompt_span, table.prompt_time, Phase.PROMPT),
        (table.generated_span, table.generated_time, Phase.GENERATE),
    ):
        assert (spans.end[rows] - spans.start[rows] == times).all()
        assert spans.phase is not None
        assert set(spans.phase[rows].tolist()) == {phase}
        assert set(quality_of(spans.flags[rows]).tolist()) == {Quality.DERIVED}
    assert (spans.end[table.prompt_span] == spans.start[table.generated_span]).all()
    names = {lane.name for lane in trace.lanes if lane.kind is LaneKind.SEQUENCE}
    assert names == {f"slot {r.slot}" for r in requests}


def test_clock_of_lines_places_requests_and_their_waits(tmp_path):
    requests = random_requests(1, 20)

    trace = opened(tmp_path, log_files.log(requests))

    assert trace.log is not None
    table = trace.log.requests
    begin = trace.spans.start[table.prompt_span]
    # lines_of: 5 ms pass between the launch and the begin of the prompt.
    assert np.abs(table.queued - 5_000_000).max() <= 2_000
    assert np.abs(begin - table.launch - table.queued).max() == 0
    ends = trace.spans.end[table.generated_span]
    assert (begin[1:] >= ends[:-1]).all()


def test_without_a_clock_lines_are_laid_out_in_their_order(tmp_path):
    requests = random_requests(2, 20)

    trace = opened(tmp_path, log_files.log(requests, "no clock"))

    assert trace.log is not None
    table, spans = trace.log.requests, trace.spans
    begin, end = spans.start[table.prompt_span], spans.end[table.generated_span]
    assert (begin[1:] == end[:-1]).all()
    assert begin[0] == 0
    assert (table.queued == -1).all()
    assert trace.clock.epoch is None
    assert "no_clock" in {w.code for w in trace.warnings}


def test_slots_that_work_at_once_overlap_without_a_clock(tmp_path):
    a, b = Request(0, 1, 10, 100.0, 5, 50.0), Request(1, 2, 10, 200.0, 5, 50.0)
    first = [line.text for line in log_files.lines_of([a])]
    second = [line.text for line in log_files.lines_of([b])]
    both = [first[0], second[0], *first[1:-1], *second[1:]]

    trace = opened(tmp_path, "\n".join([*log_files.HEAD, *both, ""]).encode())

    assert trace.log is not None
    table, spans = trace.log.requests, trace.spans
    assert spans.start[table.prompt_span].tolist() == [0, 0]
    assert spans.end[table.generated_span].tolist() == [150_000_000, 250_000_000]


def test_times_of_day_are_kept_where_the_log_has_a_zone(tmp_path):
    trace = opened(tmp_path, log_files.log(random_requests(3, 5), "docker"))

    assert trace.clock.epoch == log_files.START_NS


def test_ik_llama_and_old_json_lines(tmp_path):
    requests = [
        Request(r.slot, r.task, r.n_prompt, r.prompt_ms, r.n_generated, r.generated_ms,
                r.cached)
        for r in random_requests(4, 25)
    ]  # fmt: skip

    ik = opened(tmp_path, log_files.ik_log(requests))
    old = opened(tmp_path, log_files.json_log(requests))

    assert rows_of(ik) == rows_of(old) == expected(requests)
    assert ik.log is not None
    assert ik.log.requests.n_cached.tolist() == [r.cached for r in requests]
    assert ik.log.has_clock


def test_calls_of_ollama_lie_between_the_lines_around(tmp_path):
    trace = opened(tmp_path, log_files.ollama_log())

    (lane,) = [lane for lane in trace.lanes if lane.name == "HTTP"]
    rows = np.flatnonzero(trace.spans.lane == lane.id)
    assert [trace.span_name(row) for row in rows.tolist()] == [
        "POST /api/generate · 200",
        "GET /x · 404",
    ]
    lasts = trace.spans.end[rows] - trace.spans.start[rows]
    assert lasts.tolist() == [1_500_000_000, 90_987]
    assert trace.clock.epoch is not None
    at = trace.spans.end[rows] + trace.clock.epoch - log_files.START_NS
    assert at.tolist() == [4_000_000_000, 5_000_000_000]
    assert len(rows_of(trace)) == 1
    details = [trace.strings[d] for d in trace.markers.detail.tolist() if d >= 0]
    assert any("low memory" in text for text in details)


def test_memory_breakdown_may_leave_less_than_nothing(tmp_path):
    trace = opened(tmp_path, log_files.log(random_requests(1, 2)))

    assert trace.log is not None
    mib = 1 << 20
    gpu, host = trace.log.memory
    assert (gpu.device, gpu.total, gpu.free) == ("GPU0 (a card)", 1000 * mib, 300 * mib)
    assert (gpu.used, gpu.model, gpu.context, gpu.compute) == tuple(
        n * mib for n in (600, 500, 60, 40)
    )
    assert gpu.unaccounted == -100 * mib
    assert (host.total, host.unaccounted, host.used) == (None, None, 57 * mib)
    facts = dict(trace.log.facts)
    assert facts["model"] == "/models/tiny.gguf"
    assert facts["build"] == "b9010-d05fe1d7d"
    assert facts["general.architecture"] == "llama"


def test_programs_that_start_again_number_tasks_anew(tmp_path):
    requests = random_requests(6, 10)
    text = log_files.log(requests)

    trace = opened(tmp_path, text + text)

    assert trace.log is not None
    table = trace.log.requests
    assert rows_of(trace) == expected(requests) * 2
    assert table.run.tolist() == [0] * 10 + [1] * 10
    starts = trace.spans.start[table.prompt_span]
    assert starts[10] > trace.spans.end[table.generated_span[:10]].max()
    assert "restarts" in {w.code for w in trace.warnings}


@pytest.mark.parametrize("form", ["ik_llama", *FORMS])
def test_task_that_is_launched_once_more_is_a_request_of_its_own(form, tmp_path):
    """Of two programs in one log, or of one that started again and says nothing."""
    one, two = random_requests(6, 5), random_requests(7, 5)
    write = log_files.ik_log if form == "ik_llama" else log_files.log
    args = () if form == "ik_llama" else (form,)
    first, second = (
        [
            line
            for line in write(requests, *args).splitlines(keepends=True)
            if not STARTS.search(line)
        ]
        for requests in (one, two)
    )

    trace = opened(tmp_path, b"".join(first + second))

    assert [row[:6] for row in rows_of(trace)] == [
        row[:6] for row in expected(one) + expected(two)
    ]


def test_command_line_programs_have_a_request_for_each_block(tmp_path):
    block = (
        "llama_perf_context_print:        load time =    3957.46 ms\n"
        "llama_perf_context_print: prompt eval time =     617.97 ms /    12 tokens\n"
        "llama_perf_context_print:        eval time =    9343.15 ms /   999 runs (1)\n"
        "llama_perf_context_print:       total time =   10595.15 ms /  1011 tokens\n"
    )

    trace = opened(tmp_path, (block + block).encode())

    row = (-1, -1, 12, 617_970_000, 999, 9_343_150_000, -1, -1)
    assert rows_of(trace) == [row, row]


@pytest.mark.parametrize("form", ["ik_llama", *FORMS])
def test_timings_of_another_program_behind_those_of_a_task_are_their_own(
    form, tmp_path
):
    requests = [Request(0, 4, 2190, 48430.56, 222, 24928.21)]
    # Without the line that says that the slot is free again.
    is_ik = form == "ik_llama"
    data = log_files.ik_log(requests) if is_ik else log_files.log(requests, form)
    lines = data.splitlines(keepends=True)[: -1 if is_ik else -2]

    trace = opened(tmp_path, b"".join(lines) + log_files.command_line_log(2))

    blocks = [(-1, -1, 12, (100 + i) * 10**6 + 970_000, 900 + i) for i in range(2)]
    assert rows_of(trace)[0] == expected(requests)[0]
    assert [row[:5] for row in rows_of(trace)[1:]] == blocks


def test_request_without_timings_is_unfinished(tmp_path):
    requests = random_requests(7, 3)
    text = log_files.log(requests)
    cut = text.rindex(b"print_timing")

    trace = opened(tmp_path, text[: text.rindex(b"\n", 0, cut) + 1])

    assert trace.log is not None
    assert trace.log.requests.is_timed.tolist() == [True, True, False]
    flags = trace.spans.flags & int(SpanFlag.UNFINISHED)
    assert np.count_nonzero(flags) == 1
    assert "requests_without_timings" in {w.code for w in trace.warnings}
    assert rows_of(trace)[2][2:6] == (-1, -1, -1, -1)


@pytest.mark.parametrize("seed", range(4))
def test_cut_anywhere_loses_only_what_is_cut(seed, tmp_path):
    requests = random_requests(8, 12)
    text = log_files.log(requests)
    rng = np.random.default_rng(seed)
    for cut in rng.integers(1, len(text), 12).tolist():
        lines = scan_text(np.frombuffer(text[:cut], np.uint8))
        if not lines.n_known:
            continue
        trace = opened(tmp_path, text[:cut])
        done = [row for row in rows_of(trace) if row[5] >= 0]
        n = text[:cut].count(b"      total time")
        assert expected(requests)[:n] == done[:n]


def test_foreign_lines_binary_and_long_lines_are_passed_over(tmp_path):
    requests = random_requests(9, 6)
    lines = log_files.log(requests).split(b"\n")
    noise = [
        b"\x00\xff\xfe binary \x1b[",
        "日本語の行".encode(),
        b"x" * 9_000_000,
        b"\r\r",
    ]
    mixed = lines[:8] + noise + lines[8:]

    trace = opened(tmp_path, b"\n".join(mixed))

    assert rows_of(trace) == expected(requests)
    assert trace.info.n_records >= len(mixed) - 1
    assert "other_lines" in {w.code for w in trace.warnings}


def test_progress_that_is_written_over_itself_hides_no_line(tmp_path):
    requests = random_requests(10, 4)
    text = (
        log_files.log(requests)
        .replace(b"\n", b"\r\n")
        .replace(b"slot print_timing", b"\r....\rslot print_timing")
    )

    assert rows_of(opened(tmp_path, text)) == expected(requests)


def test_blocks_of_a_long_log_join_without_a_seam(tmp_path, monkeypatch):
    requests = random_requests(11, 200)
    text = log_files.log(requests)
    whole = opened(tmp_path, text)
    monkeypatch.setattr("ggscope.readers.common.text_blocks.BLOCK_BYTES", 997)
    monkeypatch.setattr("ggscope.readers.common.line_table.BLOCK_ROWS", 3)

    pieces = opened(tmp_path, text)

    assert rows_of(pieces) == rows_of(whole) == expected(requests)
    assert pieces.info.n_records == whole.info.n_records
    assert np.array_equal(pieces.spans.start, whole.spans.start)
    assert pieces.log is not None
    assert whole.log is not None
    assert np.array_equal(pieces.log.requests.line, whole.log.requests.line)


def test_first_part_of_a_long_log_is_shown_before_the_rest(tmp_path, monkeypatch):
    monkeypatch.setattr("ggscope.readers.logs.reader._FIRST_BYTES", 4096)
    requests = random_requests(12, 100)
    path = tmp_path / "x.log"
    path.write_bytes(log_files.log(requests))
    early: list[Trace] = []

    with Source(path) as source:
        trace = LogReader().read(source, ReadContext(publish=early.append))

    (first,) = early
    assert first.pending == {"spans"}
    assert 0 < len(first.spans) < len(trace.spans)
    n = len(rows_of(first)) - 1  # the last one may be cut
    assert rows_of(first)[:n] == rows_of(trace)[:n]
    done = first.spans.record
    assert done is not None


def test_record_of_a_span_is_its_first_line(tmp_path):
    trace = opened(tmp_path, log_files.log(random_requests(13, 5), "colours"))

    assert trace.log is not None
    assert trace.records is not None
    for line in trace.log.requests.line.tolist():
        view = trace.records.view(line)
        assert b"processing task" in view.data
        assert view.fields[0][1] == f"{line + 1:,}"


@pytest.mark.parametrize(
    "text",
    [
        b"time = 3\nfoo: bar\n",
        b"n_past = 3\nn_tokens = 4\n",
        b"GET /index.html 200\n" * 20,
        b'{"level":"info","message":"hello"}\n' * 5,
        b"a,b\n1,2\n",
    ],
)
def test_other_texts_are_no_logs(text, tmp_path):
    path = tmp_path / "x.log"
    path.write_bytes(text)

    with Source(path) as source:
        assert "llama-log" not in {
            c.info.id for c in sniff_all(source) if c.sniff.confidence > 0
        }


def test_file_without_a_known_line_is_refused(tmp_path):
    path = tmp_path / "x.log"
    path.write_bytes(b"nothing\n" * 10)

    with Source(path) as source, pytest.raises(CorruptError):
        LogReader().read(source, ReadContext())


def test_estimate_follows_the_head():
    text = log_files.log(random_requests(14, 50))

    estimate = LogReader().estimate(Head("x.log", 100 * len(text), text))

    assert estimate is not None
    assert estimate.records == pytest.approx(100 * text.count(b"\n"), rel=0.01)


def test_kinds_of_lines_are_numbered_as_in_c():
    text = b"slot print_timing: id  0 | task 1 | n_decoded =    100, tg =  62.36 t/s\n"

    lines = scan_text(np.frombuffer(text, np.uint8))

    assert (lines.kind.tolist(), lines.slot.tolist()) == ([Kind.RATE], [0])
    assert lines.value[0, :2].tolist() == [100.0, 62.36]


def test_impossible_times_are_none(tmp_path):
    request = Request(0, 1, 10, 100.0, 5, 50.0)
    text = log_files.ik_log([request]).replace(b"timestamp=", b"timestamp=99999999")
    call = b'[GIN] 9999/01/01 - 01:00:04 | 200 | 1.5s | 127.0.0.1 | POST "/x"\n'

    trace = opened(tmp_path, text + call)

    assert rows_of(trace) == expected([request])
    assert trace.log is not None
    assert not trace.log.has_clock


def gin_call(seconds: str) -> bytes:
    head = b"[GIN] 2025/12/12 - 01:00:04 | 200 | "
    return head + seconds.encode() + b's | 127.0.0.1 | POST "/x"\n'


def test_endless_http_calls_are_listed(tmp_path):
    trace = opened(tmp_path, gin_call("1.5") + gin_call("9" * 300) + gin_call("2"))

    durations = trace.spans.end - trace.spans.start
    assert sorted(durations.tolist()) == [1_500_000_000, 2_000_000_000]
    assert {w.code: w.count for w in trace.warnings}["bad_event_time"] == 1


def test_http_calls_beyond_the_limit_are_listed(tmp_path):
    trace = opened(tmp_path, gin_call("0.001") * 200_003)

    assert len(trace.spans) == 200_000
    assert {w.code: w.count for w in trace.warnings}["too_many_calls"] == 3


def test_log_without_requests_says_so(tmp_path):
    text = "\n".join([*log_files.HEAD, ""]).encode()

    trace = opened(tmp_path, text)

    assert trace.warnings[0].code == "no_requests"
    assert not len(trace.spans)


def test_unfinished_request_is_drawn_without_a_clock_too(tmp_path):
    requests = random_requests(7, 3)
    text = log_files.log(requests, "no clock")
    cut = text.rindex(b"print_timing")

    trace = opened(tmp_path, text[: text.rindex(b"\n", 0, cut) + 1])

    rows = np.flatnonzero(trace.spans.flags & int(SpanFlag.UNFINISHED))
    assert len(rows) == 1
    assert trace.log is not None
    before = trace.spans.end[trace.log.requests.generated_span[1]]
    assert trace.spans.start[rows[0]] == before
    assert trace.log.requests.launch.tolist() == [-1, -1, -1]


def drafting(trace: Trace) -> list[tuple[int, ...]]:
    """Return rounds, those with something accepted, and ns of drafting."""
    assert trace.log is not None
    r = trace.log.requests
    columns = (r.n_rounds, r.n_accepted_rounds, r.draft_time)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("by_slot", [False, True])
@pytest.mark.parametrize("form", ["clock", "no clock", "docker"])
def test_sums_of_drafts_are_reported_as_what_each_request_added(
    by_slot, form, tmp_path
):
    requests = random_requests(21, 60)
    text = log_files.log_with_draft_sums(requests, by_slot=by_slot, form=form)

    trace = opened(tmp_path, text)

    assert drafting(trace) == [
        (-1, -1, -1)
        if r.drafted < 0
        else (r.drafted // 4 + 1, r.drafted // 8, r.drafted * 500_000)
        for r in requests
    ]


def test_sums_without_times_have_no_time_of_drafting(tmp_path):
    requests = random_requests(25, 12)
    lines = log_files.log_with_draft_sums(requests).split(b"\n")
    text = b"\n".join(line.partition(b", dur(b")[0] for line in lines)

    assert drafting(opened(tmp_path, text)) == [
        (-1, -1, -1) if r.drafted < 0 else (r.drafted // 4 + 1, r.drafted // 8, -1)
        for r in requests
    ]


def test_sums_begin_anew_with_the_program(tmp_path):
    requests = random_requests(22, 30)
    text = log_files.log_with_draft_sums(requests)
    text = b"build_info: b1-a\n" + text
    alone = drafting(opened(tmp_path, text))

    assert drafting(opened(tmp_path, text + text)) == alone * 2


def test_sums_whose_begin_is_cut_off_are_not_taken_for_a_request(tmp_path):
    requests = [r for r in random_requests(23, 60) if r.drafted > 0]
    text = log_files.log_with_draft_sums(requests)
    cut = text.index(b"launch_slot_", text.index(b"statistics"))

    trace = opened(tmp_path, text[text.rindex(b"\n", 0, cut) + 1 :])

    first, *others = drafting(trace)
    assert first == (-1, -1, -1)
    assert others == [
        (r.drafted // 4 + 1, r.drafted // 8, r.drafted * 500_000) for r in requests[2:]
    ]


def test_sums_of_several_kinds_of_drafts_add_up(tmp_path):
    one = random_requests(24, 30)
    text = log_files.log_with_draft_sums(one)
    lines = []
    for line in text.split(b"\n"):
        lines.append(line)
        if b"statistics" in line:  # the same again by another kind, which had no luck
            head = line.partition(b"statistics")[0]
            lines.append(
                head + b"statistics ngram: #gen drafts = 0, #acc drafts = 0, "
                b"#gen tokens = 0, #acc tokens = 0, dur(b,g,a) = 0.0, 0.0, 0.0 ms"
            )

    assert drafting(opened(tmp_path, b"\n".join(lines))) == drafting(
        opened(tmp_path, text)
    )


def test_loading_is_reported_by_phase(tmp_path):
    trace = opened(
        tmp_path, log_files.loading_log() + log_files.log(random_requests(1, 3))
    )

    (lane,) = [lane for lane in trace.lanes if lane.name == "loading"]
    rows = np.flatnonzero(trace.spans.lane == lane.id).tolist()
    ms = [
        (int(trace.spans.start[i]) // 10**6, int(trace.spans.end[i]) // 10**6)
        for i in rows
    ]
    assert [trace.span_name(i) for i in rows] == [
        "read metadata", "load tensors", "create context", "warm up and start",
    ]  # fmt: skip
    assert ms == [(0, 200), (200, 5000), (5000, 5700), (5700, 6000)]


def test_loading_that_no_line_ends_and_logs_without_times_have_no_phase(tmp_path):
    cut = log_files.loading_log()
    cut = cut[: cut.index(b"warming")]
    without = opened(tmp_path, log_files.loading_log("no clock"))
    assert "loading" not in {lane.name for lane in without.lanes}
    trace = opened(tmp_path, cut[: cut.rindex(b"\n") + 1])
    names = [trace.span_name(i) for i in range(len(trace.spans))]
    assert names == ["read metadata", "load tensors"]


def test_buffers_stand_for_a_breakdown_that_is_not_there(tmp_path):
    trace = opened(tmp_path, log_files.loading_log())

    assert trace.log is not None
    mib = 1 << 20
    gpu, host = trace.log.memory
    assert (gpu.device, gpu.is_sum, gpu.total) == ("CUDA0", True, None)
    assert gpu.model == round(20583.34 * mib)
    assert gpu.context == round(640 * mib) + round(502.5 * mib)
    assert gpu.compute == 501 * mib
    assert gpu.used == gpu.model + gpu.context + gpu.compute
    assert (host.device, host.context) == ("CUDA_Host", round(7.58 * mib))

    whole = opened(
        tmp_path, log_files.loading_log() + log_files.log(random_requests(1, 3))
    )

    assert whole.log is not None
    assert [use.is_sum for use in whole.log.memory if use.run == 1] == [False, False]


def series(trace: Trace) -> dict[str, tuple[list[int], list[float]]]:
    """Return seconds from the first sample of all, and values, of each counter."""
    first = min(int(counter.time[0]) for counter in trace.counters)
    return {
        c.name: (((c.time - first) // 10**9).tolist(), c.value.tolist())
        for c in trace.counters
    }


def test_means_of_vllm_are_counters_of_each_engine(tmp_path):
    trace = opened(tmp_path, log_files.vllm_log(12, engines=2))

    every = list(range(0, 120, 10))
    counters = series(trace)
    assert counters["prompt tokens/s"] == (every, [i + 0.5 for i in range(12)])
    assert counters["generated tokens/s, engine 1"] == (
        every, [2.0 * (i + 1) + 0.5 for i in range(12)],
    )  # fmt: skip
    assert counters["requests running"] == (every, [float(i) for i in range(12)])
    assert counters["requests waiting, engine 1"] == (every, [1.0] * 12)
    assert counters["KV cache used"] == (every, [i / 2 for i in range(12)])
    assert counters["prefix cache hits"] == (every, [10.0 + i for i in range(12)])
    accepted = counters["tokens accepted at once"]
    assert accepted == (every, [float(f"3.{i:02}") for i in range(12)])
    assert counters["drafted tokens accepted"][1] == [i + 0.5 for i in range(12)]
    assert trace.log is not None
    facts = dict(trace.log.facts)
    assert facts["build"] == "vLLM v0.25.1"
    assert facts["model"] == "me/tiny"
    assert facts["KV cache"] == "94,135 tokens"
    assert trace.clock.epoch is None  # no line states the year
    details = [trace.strings[d] for d in trace.markers.detail.tolist()]
    assert details == ["something is odd"]


def test_numbers_that_vllm_leaves_out_are_not_there(tmp_path):
    text = log_files.vllm_log(3).replace(b", Prefix cache hit rate: ", b", of other: ")

    counters = series(opened(tmp_path, text))

    assert "prefix cache hits" not in counters
    assert len(counters["KV cache used"][0]) == 3


@people.each("vllm-log")
def test_log_of_vllm_in_the_corpus_has_the_means_of_its_lines(name, tmp_path):
    data = people.content(name)

    counters = series(opened(tmp_path, data))

    for title, text in (
        ("prompt tokens/s", rb"Avg prompt throughput: ([0-9.]+)"),
        ("generated tokens/s", rb"Avg generation throughput: ([0-9.]+)"),
        ("requests running", rb"Running: ([0-9]+) reqs"),
        ("KV cache used", rb"KV cache usage: ([0-9.]+)"),
        ("drafted tokens accepted", rb"Draft acceptance rate: ([0-9.]+)"),
    ):
        assert counters[title][1] == [float(value) for value in re.findall(text, data)]
