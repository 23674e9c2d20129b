"""Several traces as one: clocks, ids, lanes, records, and runs stored twice."""

from dataclasses import replace

import numpy as np
import pytest

from builders import llama_like_trace, npu_like_trace, spans_trace
from dependency_traces import Op, dependency_trace
from ggscope.analysis.sessions.concatenate import concatenate, is_same_run
from ggscope.analysis.sessions.remap_ids import JoinedRecords
from ggscope.errors import ReadError
from ggscope.model.tables import LONGEST_WAIT, NO_WAIT
from ggscope.model.trace import OpTable, RecordView, Trace
from ggscope.model.units import Clock
from session_files import reading_trace, rows_by_name
from wait_traces import with_waits

READS = [("a.weight", 0, 8), ("b.weight", 8, 16)]


class Records:
    """Gives the number that it is asked for."""

    def view(self, record: int) -> RecordView:
        return RecordView(record, b"", ())


def codes(trace: Trace) -> list[str]:
    return [w.code for w in trace.warnings]


def test_one_trace_is_itself():
    trace = llama_like_trace()

    assert concatenate([trace]) is trace


def test_tokens_of_one_run_keep_their_times_and_share_lanes_and_tensors():
    first = reading_trace(READS, origin=1_000, name="token-0.json")
    second = reading_trace(
        [("b.weight", 8, 16), ("c.weight", 24, 4)], origin=6_000, name="token-1.json"
    )

    whole = concatenate([first, second])

    assert whole.check() == []
    assert whole.spans.start.tolist() == [0, 100, 5_000, 5_100]
    assert len(whole.lanes) == 1
    assert sorted(rows_by_name(whole)) == ["a.weight", "b.weight", "c.weight"]
    names = [whole.strings[int(whole.tensors.name[r])] for r in _tensors(whole)]
    assert names == ["a.weight", "b.weight", "b.weight", "c.weight"]
    assert whole.extent.end == 5_180
    assert [p.shift for p in whole.parts] == [0, 0]
    assert whole.info.n_records == 4
    assert codes(whole) == []


def _tensors(trace: Trace) -> list[int]:
    return trace.accesses.flat(trace.spans).what.tensor.tolist()


def test_first_trace_and_its_strings_stay_as_they_are():
    first, second = reading_trace(READS), reading_trace([("z", 1, 1)], origin=900)
    n = len(first.strings)

    whole = concatenate([first, second])

    assert len(first.strings) == n
    assert whole.strings is not first.strings


def test_run_of_another_clock_begins_with_the_first_on_its_own_lanes():
    first = reading_trace(READS, origin=10**15, name="a.bin")
    second = reading_trace([("x", 0, 1)] * 3, origin=5, name="b.bin")

    whole = concatenate([first, second])

    assert whole.check() == []
    assert whole.spans.start.tolist() == [0, 100, 0, 100, 200]
    assert whole.parts[1].shift == 10**15 - 5
    assert [lane.group[0] for lane in whole.lanes] == ["Threads", "b.bin"]
    assert codes(whole) == ["other_clock"]


def test_run_that_is_stored_twice_is_shown_once():
    first = reading_trace(READS, repeats=10, name="trace.bin")
    second = replace(first, info=replace(first.info, reader_id="json"))

    whole = concatenate([first, second])

    assert len(whole.spans) == len(first.spans)
    assert codes(whole) == ["same_run_twice"]
    assert len(whole.parts) == 2
    assert is_same_run(first, second)


def test_run_that_is_stored_twice_is_recognised_though_origins_differ():
    first = spans_trace([0, 50, 75], [10, 60, 90])
    second = replace(spans_trace([1050, 1075], [1060, 1090]), clock=Clock("ns", -1000))

    assert is_same_run(first, second)
    assert not is_same_run(second, spans_trace([3, 4], [5, 6]))


def test_op_numbers_follow_their_names():
    first = reading_trace(READS)
    table = OpTable("other", ("MUL_MAT", "BRAND_NEW"))
    second = reading_trace(READS, origin=500)
    spans = replace(second.spans, op=np.array([0, 1], np.int16))
    second = replace(second, ops=table, spans=spans)

    whole = concatenate([first, second])

    names = [whole.op_name(op) for op in whole.spans.op.tolist()]
    assert names == ["MUL_MAT", "MUL_MAT", "MUL_MAT", "BRAND_NEW"]
    assert whole.ops.names[: len(first.ops.names)] == first.ops.names


def test_records_are_those_of_their_file():
    first = replace(reading_trace(READS), records=Records())
    second = replace(reading_trace(READS, origin=500), records=Records())

    whole = concatenate([first, second])

    assert whole.spans.record.tolist() == [0, 1, 2, 3]
    assert isinstance(whole.records, JoinedRecords)
    assert [whole.records.view(r).offset for r in range(4)] == [0, 1, 0, 1]


def test_file_without_records_says_so():
    whole = concatenate(
        [
            replace(reading_trace(READS), records=Records()),
            reading_trace(READS, origin=9),
        ]
    )

    with pytest.raises(ReadError, match="no single records"):
        whole.records.view(3)


def test_profile_without_times_joins_no_times():
    profile = replace(llama_like_trace(), clock=Clock("ns", is_weight=True))

    whole = concatenate([reading_trace(READS), profile])

    assert len(whole.spans) == len(reading_trace(READS).spans)
    assert codes(whole) == ["weights_apart"]


def test_cycles_without_a_frequency_are_left_out_with_a_remedy():
    npu = replace(npu_like_trace(), clock=Clock("cycle", 0, None))

    whole = concatenate([llama_like_trace(), npu])

    assert len(whole.spans) == len(llama_like_trace().spans)
    assert codes(whole) == ["clock_unknown"]
    assert "hz" in whole.warnings[0].remedy


def test_cycles_with_a_frequency_become_time():
    npu = replace(npu_like_trace(), clock=Clock("cycle", 0, 500e6))
    llama = llama_like_trace()

    whole = concatenate([llama, npu])

    assert whole.check() == []
    assert "cycles_as_time" in codes(whole)
    n = len(llama.spans)
    length = (whole.spans.end - whole.spans.start)[n:]
    assert np.array_equal(length, 2 * (npu.spans.end - npu.spans.start))
    over = [lane for lane in whole.lanes if "over" in lane.attributes]
    assert whole.lanes[int(over[0].attributes["over"])].name == "DMA0"


def test_everything_of_two_full_traces_is_there():
    a = llama_like_trace(tokens=3, layers=2)
    b = replace(llama_like_trace(tokens=2, layers=3), clock=Clock("ns", 40_000_000))

    whole = concatenate([a, b])

    assert whole.check() == []
    for table in ("spans", "markers", "accesses", "counters", "flows"):
        sizes = [len(getattr(trace, table)) for trace in (a, b, whole)]
        assert sizes[2] == sizes[0] + sizes[1], table
    total = whole.accesses.bytes_read_written().sum()
    parts = [t.accesses.bytes_read_written().sum() for t in (a, b)]
    assert total == sum(parts)


def test_many_tokens_come_out_in_order():
    traces = [
        reading_trace(READS, origin=i * 1000, name=f"token-{i}.json") for i in range(40)
    ]

    whole = concatenate(traces)

    assert whole.check() == []
    assert whole.spans.start.tolist() == [
        i * 1000 + k * 100 for i in range(40) for k in range(2)
    ]
    assert [p.info.paths[0].name for p in whole.parts] == [
        f"token-{i}.json" for i in range(40)
    ]
    assert whole.spans.record.tolist() == list(range(80))


def test_waits_are_moved_with_their_spans_and_stay_as_long() -> None:
    first = with_waits(spans_trace([0, 50], [10, 60]), [5, 7])
    second = replace(
        with_waits(spans_trace([0, 50], [20, 70]), [9, NO_WAIT]), clock=Clock("ns", 500)
    )

    whole = concatenate([first, second])

    assert whole.check() == []
    assert whole.spans.end.tolist() == [10, 60, 520, 570]
    assert whole.spans.wait.tolist() == [5, 7, 9, NO_WAIT]


def test_trace_without_waits_beside_one_with_waits_has_unknown_ones() -> None:
    first = spans_trace([0, 50], [10, 60])
    second = replace(with_waits(spans_trace([0], [20]), [9]), clock=Clock("ns", 500))

    whole = concatenate([first, second])

    assert whole.spans.wait.tolist() == [NO_WAIT, NO_WAIT, 9]


def test_waits_in_cycles_become_nanoseconds() -> None:
    cycles = with_waits(spans_trace([0, 50], [10, 60]), [4, LONGEST_WAIT])
    second = replace(cycles, clock=Clock("cycle", 0, hz=5e8))

    whole = concatenate([spans_trace([0], [10]), second])

    assert whole.spans.wait.tolist() == [NO_WAIT, 8, LONGEST_WAIT]


@pytest.mark.parametrize("known", [(True, True), (True, False), (False, False)])
def test_writers_of_sources_follow_their_patterns(known: tuple[bool, bool]) -> None:
    def part(name: str, has_writers: bool) -> Trace:
        ops: list[Op] = [(name, []), ("y", [(name, 0), (name, 0)])]
        # Both last differently long: else they were one run, stored twice.
        trace = dependency_trace([ops, *[[("z", [])]] * (name == "b")])
        writer = np.array([0, -1], np.int32) if has_writers else None
        return replace(trace, accesses=replace(trace.accesses, writer=writer))

    parts = [part(name, has) for name, has in zip("ab", known, strict=True)]
    accesses = concatenate(parts).accesses

    n = len(parts[0].accesses.first) - 1
    second = [n, -1] if known[1] else [-1, -1]
    expected = [0, -1, *second] if any(known) else None
    assert (None if accesses.writer is None else accesses.writer.tolist()) == expected
