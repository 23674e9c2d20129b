"""Where the bytes of an access came from, for every way in which samples can lie."""

from dataclasses import replace

import numpy as np
import pytest

from ggscope.analysis.reads.from_disk import Evidence, Origin, evidence
from ggscope.descriptions.residency import resident_text
from ggscope.descriptions.spans import access_facts
from ggscope.model.builder import TraceBuilder
from ggscope.model.residency import Residency
from ggscope.model.tables import AccessColumns, Space
from ggscope.model.tensors import Tensors
from ggscope.model.trace import LaneKind, OpTable, Trace, TraceInfo
from statements import new_statements

SIZE = 1000


def trace_of(
    held: list[int],
    read: list[int] | None = None,
    *,
    op: str = "MUL_MAT",
    address: int = 0x1500,
    starts: tuple[int, ...] = (250,),
    space: Space = Space.FILE,
    lanes: tuple[int, ...] | None = None,
    faults: list[int] | None = None,
) -> Trace:
    """Return ops of 10 ticks that read a tensor; samples at 100–110, 200–210, …"""
    builder, n = TraceBuilder(grows=True), len(held)
    builder.ops = OpTable("x", (op,))
    for number in range(2):
        builder.add_lane(f"thread {number}", LaneKind.THREAD)
    builder.tensors = Tensors(
        name=np.array([builder.strings.intern("w")], np.int32),
        offset=np.array([0], np.int64),
        size=np.array([SIZE], np.int64),
        layer=np.array([-1], np.int16),
        expert=np.array([-1], np.int16),
    )
    row = replace(
        AccessColumns.blank(1),
        tensor=np.array([0], np.int32),
        space=np.array([space], np.uint8),
        size=np.array([SIZE], np.int64),
        address=np.array([address], np.uint64),
    )
    pattern = builder.add_patterns(row, np.array([1]))
    start = np.array(starts, np.int64)
    builder.add_spans(
        start=start,
        end=start + 10,
        lane=np.array(lanes or (0,) * len(starts), np.int16),
        name=np.zeros(len(start), np.int32),
        op=np.zeros(len(start), np.int16),
        flags=np.zeros(len(start), np.uint16),
        pattern=np.full(len(start), pattern, np.int32),
    )
    begin = np.arange(1, n + 1) * 100
    none = np.full(n, -1, np.int64)
    builder.residency = Residency(
        begin=begin,
        end=begin + 10,
        state=np.arange(n),
        read_bytes=none if read is None else np.array(read, np.int64),
        major_faults=none if faults is None else np.array(faults, np.int64),
        minor_faults=none,
        resident=np.array(held, np.int64).reshape(-1, 1),
        tensors=np.array([0], np.int32),
        places=np.array([[0x1000, 0x2000]], np.uint64),
    )
    trace = builder.snapshot(TraceInfo((), "x", "x", "1", 0))
    assert trace.check() == []
    return trace


def origin(trace: Trace, span: int = 0) -> Origin:
    result = evidence(trace, span, 0)
    assert isinstance(result, Evidence)
    return result.origin


ALL, READ = [0, 0, SIZE, SIZE], [5, 5, 4101, 4101]


@pytest.mark.parametrize(
    ("expected", "trace"),
    [
        (Origin.DISK, trace_of(ALL, READ)),
        (Origin.DISK, trace_of([0, 300, SIZE, SIZE], READ)),
        (Origin.DISK, trace_of(ALL, READ, op="GET_ROWS")),
        (Origin.PART, trace_of([0, 300, SIZE, SIZE], READ, op="GET_ROWS")),
        (Origin.MEMORY, trace_of([SIZE] * 4, READ)),
        (Origin.MEMORY, trace_of([SIZE] * 4)),
        (Origin.LEFT, trace_of([SIZE, SIZE, 10, 10], READ)),
        (Origin.UNCHANGED, trace_of([0, 300, 300, SIZE], READ)),
        (Origin.NOBODY, trace_of(ALL, [5, 5, 5, 9])),
        (Origin.NO_FIGURES, trace_of(ALL)),
        (Origin.NOT_TOLD, trace_of([0, -1, SIZE, SIZE], READ)),
        (Origin.COPIED, trace_of(ALL, READ, address=0x9000)),
        (Origin.NO_SAMPLE_BEFORE, trace_of(ALL, READ, starts=(109,))),
        (Origin.NO_SAMPLE_AFTER, trace_of(ALL, READ, starts=(391,))),
    ],
    ids=lambda value: value.name if isinstance(value, Origin) else "",
)
def test_origin_is_what_the_samples_allow(expected, trace):
    (fact,) = access_facts(trace, 0)

    assert origin(trace) is expected
    assert bool(fact.origin) == (expected in (Origin.DISK, Origin.MEMORY))
    assert fact.origin_text.startswith(fact.origin or "disk or memory unknown: ")


def test_samples_that_begin_and_end_with_an_op_count_as_before_and_after():
    assert origin(trace_of(ALL, READ, starts=(110,))) is not Origin.NO_SAMPLE_BEFORE
    assert origin(trace_of(ALL, READ, starts=(390,))) is not Origin.NO_SAMPLE_AFTER


def test_only_the_first_op_after_a_sample_can_have_read_the_disk():
    trace = trace_of(ALL, READ, starts=(150, 215, 250, 270))

    assert origin(trace, 1) is Origin.DISK
    assert origin(trace, 2) is Origin.EARLIER
    assert origin(trace, 3) is Origin.EARLIER


def test_op_that_runs_on_behind_a_sample_can_have_read_the_disk():
    # It may have read after the sample looked.
    for start, expected in ((190, Origin.DISK), (191, Origin.EARLIER)):
        trace = trace_of(ALL, READ, starts=(start, 250))

        assert origin(trace, 1) is expected


def test_other_threads_of_the_same_op_read_at_the_same_time():
    trace = trace_of(ALL, READ, starts=(250, 251), lanes=(0, 1))

    assert origin(trace, 0) is origin(trace, 1) is Origin.DISK


def test_sample_that_the_op_began_in_says_nothing_of_before():
    trace = trace_of(ALL, READ, starts=(205,))

    result = evidence(trace, 0, 0)
    assert result is not None
    assert (result.before, result.after) == (0, 2)


def test_what_is_no_weight_and_what_was_not_sampled_have_no_evidence():
    assert evidence(trace_of(ALL, READ, space=Space.BUFFER), 0, 0) is None
    assert evidence(replace(trace_of(ALL, READ), residency=None), 0, 0) is None


def test_evidence_of_a_disk_read_names_samples_and_storage_reads():
    (fact,) = access_facts(trace_of(ALL, READ), 0)
    (faults,) = access_facts(trace_of(ALL, faults=READ), 0)

    assert "in the page cache at" in fact.origin_text
    assert "from storage" in fact.origin_text
    assert "major fault" not in fact.origin_text
    assert "major fault" in faults.origin_text


def test_what_of_a_tensor_is_in_memory_is_reported_where_the_last_sample_shows():

    assert new_statements(
        resident_text(trace_of([-1, 300]), 0), resident_text(trace_of([300, -1]), 0)
    )
