"""Where the bytes of an access came from, for every way in which samples can lie."""

from dataclasses import replace

import numpy as np
import pytest

from ggscope.analysis.reads.from_disk import Evidence, Origin, evidence
from ggscope.descriptions.residency import held_words
from ggscope.descriptions.spans import access_facts
from ggscope.model.builder import TraceBuilder
from ggscope.model.residency import Residency
from ggscope.model.tables import AccessColumns, Space
from ggscope.model.tensors import Tensors
from ggscope.model.trace import LaneKind, OpTable, Trace, TraceInfo
from sentences import assert_sides

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
    found = evidence(trace, span, 0)
    assert isinstance(found, Evidence)
    return found.origin


ALL, READ = [0, 0, SIZE, SIZE], [5, 5, 4101, 4101]


@pytest.mark.parametrize(
    ("wanted", "trace"),
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
        (Origin.NO_SAMPLE_BEFORE, trace_of(ALL, READ, starts=(105,))),
        (Origin.NO_SAMPLE_AFTER, trace_of(ALL, READ, starts=(395,))),
    ],
    ids=lambda value: value.name if isinstance(value, Origin) else "",
)
def test_origin_is_what_the_samples_allow(wanted, trace):
    assert origin(trace) is wanted


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

    found = evidence(trace, 0, 0)
    assert found is not None
    assert (found.before, found.after) == (0, 2)


def test_what_is_no_weight_and_what_was_not_sampled_have_no_evidence():
    assert evidence(trace_of(ALL, READ, space=Space.BUFFER), 0, 0) is None
    assert evidence(replace(trace_of(ALL, READ), residency=None), 0, 0) is None


DISK = trace_of(ALL, READ)


@pytest.mark.parametrize(
    ("claim", "trace", "like"),
    [
        (
            "it was read at an address where no model file is mapped, so it is a copy; "
            "whether making it read the disk is not recorded",
            trace_of(ALL, READ, address=0x9000),
            DISK,
        ),
        (
            "the system did not tell what of the file was in memory",
            trace_of([0, -1, SIZE, SIZE], READ),
            DISK,
        ),
        (
            "the page cache was first looked at after the op began",
            trace_of(ALL, READ, starts=(109,)),
            trace_of(ALL, READ, starts=(110,)),
        ),
        (
            "the page cache was not looked at after the op",
            trace_of(ALL, READ, starts=(391,)),
            trace_of(ALL, READ, starts=(390,)),
        ),
        (
            "some of the tensor left the page cache meanwhile",
            trace_of([0, 3, 2], READ[:3]),
            trace_of([0, 3, 3], READ[:3]),
        ),
        (
            "no more of the tensor was in the page cache afterwards",
            trace_of([0, 3, 3], READ[:3]),
            trace_of([0, 3, 4], READ[:3]),
        ),
        (
            "the op reads a part of the tensor, some of which was in memory",
            trace_of([0, 3, 9], READ[:3], op="GET_ROWS"),
            trace_of([0, 3, 9], READ[:3]),
        ),
        (
            "the op reads a part of the tensor, some of which was in memory",
            trace_of([0, 3, 9], READ[:3], op="GET_ROWS"),
            trace_of([0, 0, 9], READ[:3], op="GET_ROWS"),
        ),
        (
            "an earlier op read the tensor between the two samples",
            trace_of(ALL, READ, starts=(215, 250)),
            trace_of(ALL, READ, starts=(190, 250)),
        ),
        (
            "the process read nothing from storage between the two samples, so who "
            "brought the pages in is not known",
            trace_of(ALL, [5, 5, 5, 9]),
            trace_of(ALL, [5, 5, 6, 9]),
        ),
        (
            "what the process read from storage is not known here",
            trace_of(ALL, [5, 5, -1, 9]),
            trace_of(ALL, [5, 5, 5, 9]),
        ),
        ("disk or memory is not known: *", trace_of(ALL), DISK),
        ("disk or memory is not known: *", trace_of(ALL), trace_of([SIZE] * 4)),
        (
            "was in memory (measured by mincore): *.",
            trace_of([SIZE] * 4),
            trace_of([SIZE, SIZE - 1, SIZE, SIZE]),
        ),
        ("was in memory", trace_of([SIZE] * 4), trace_of([SIZE - 1] * 4)),
        ("came from disk (derived)", DISK, trace_of(ALL, [5, 5, 5, 9])),
        (
            "came from disk (derived): *; in between the process *, and no earlier op "
            "of this thread read the tensor. Read-ahead may have brought it in before "
            "the op began.",
            DISK,
            trace_of(ALL, READ, starts=(215, 250)),
        ),
        ("read * from storage", DISK, trace_of(ALL, faults=READ)),
        ("had * major fault*", trace_of(ALL, faults=READ), DISK),
        (
            "of * there were * in the page cache at * and * at *",
            DISK,
            trace_of(ALL, READ, starts=(109,)),
        ),
    ],
)
def test_what_samples_tell_of_an_access_is_said_with_its_reason(claim, trace, like):
    def said(trace: Trace) -> str:
        (fact,) = access_facts(trace, len(trace.spans) - 1)
        assert (fact.origin == "") == fact.origin_words.startswith("disk or memory is")
        return f"{fact.origin}\n{fact.origin_words}"

    assert_sides(claim, said(trace), said(like))


def test_what_of_a_tensor_is_in_memory_is_told_where_the_last_sample_tells():
    claim = "* of * at * (measured by mincore*)"

    assert_sides(
        claim,
        held_words(trace_of([-1, 300]), 0),
        held_words(trace_of([300, -1]), 0),
    )
