"""Which units accesses read, and in what order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.analysis.heat.byte_ranges import span_variants
from ggscope.analysis.heat.file_map import file_map
from ggscope.analysis.reads.file_blocks import UnitReads, read_sequence, unit_reads
from ggscope.errors import Cancelled
from ggscope.model.tables import Space
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from reads_builder import Op, Read, TensorRow, reads_trace
from watchers import CancelAfter

TENSORS = (
    TensorRow("token_embd.weight", 100, 400),
    TensorRow("blk.0.ffn_up_exps.weight", 500, 103, 0, n_experts=4),
    TensorRow("blk.0.attn_q.weight", 700, 50, 0),
    TensorRow("Qcur-0", -1, 64, 0),
)


def of_patterns(trace: Trace) -> UnitReads:
    """Return what the accesses of all patterns read."""
    places = file_map(trace)
    return unit_reads(places, span_variants(trace, places).touches)


def reads_of(*reads: Read) -> tuple[Trace, list[list[tuple[int, int]]]]:
    """Return a trace of one op, and what each of its accesses reads."""
    trace = reads_trace(TENSORS, [Op(0, reads)])
    result = of_patterns(trace)
    lists = [
        list(
            zip(
                result.unit[a:b].tolist(),
                result.bytes[a:b].tolist(),
                strict=True,
            )
        )
        for a, b in zip(result.first[:-1], result.first[1:], strict=True)
    ]
    return trace, lists


def test_reads_of_a_tensor_are_its_unit():
    _, lists = reads_of(Read(2, 50))

    assert lists == [[(5, 50)]]


def test_reads_of_a_stack_without_an_expert_are_all_slices():
    _, lists = reads_of(Read(1, 103))

    # Slice k is [500 + k * 103 // 4, 500 + (k + 1) * 103 // 4).
    assert lists == [[(1, 25), (2, 26), (3, 26), (4, 26)]]


def test_reads_of_a_stack_with_an_expert_are_its_slice():
    _, lists = reads_of(Read(1, 26, expert=2), Read(1, 103, expert=3))

    assert lists == [[(3, 26)], [(4, 26)]]  # of a whole stack just the slice


def test_reads_of_a_place_inside_a_tensor_are_just_that():
    _, lists = reads_of(Read(0, 40, offset=180), Read(1, 30, offset=520))

    assert lists[0] == [(0, 40)]
    assert lists[1] == [(1, 5), (2, 25)]


def test_reads_of_less_than_a_stack_add_up_to_their_size():
    _, lists = reads_of(Read(1, 50))

    assert sum(size for _, size in lists[0]) == 50
    assert len(lists[0]) == 4


def test_reads_of_buffers_are_none_and_not_lost():
    trace, lists = reads_of(Read(3, 64, space=Space.BUFFER), Read(3, 64))
    result = of_patterns(trace)

    assert lists == [[], []]
    assert result.is_lost.tolist() == [False, True]  # a weight without a place


def test_reads_without_a_tensor_go_by_their_offset():
    _, lists = reads_of(Read(-1, 60, offset=690))

    assert lists == [[(5, 60)]]


def test_reads_without_a_map_are_lost():
    trace = reads_trace((TensorRow("a"),), [Op(0, (Read(0, 5),))])

    result = of_patterns(trace)
    sequence = read_sequence(trace, file_map(trace))

    assert result.is_lost.tolist() == [True]
    assert (len(sequence), sequence.n_lost) == (0, 1)


def test_read_sequence_is_in_the_order_of_time():
    ops = [Op(50, (Read(2, 50),)), Op(10, (Read(0, 400), Read(1, 103))), Op(30)]
    trace = reads_trace(TENSORS, ops)

    sequence = read_sequence(trace, file_map(trace), with_spans=True)

    assert sequence.unit.tolist() == [0, 1, 2, 3, 4, 5]
    assert sequence.span is not None
    assert sequence.span.tolist() == [1, 1, 1, 1, 1, 0]
    assert sequence.size.tolist() == [400, 25, 26, 26, 26, 50]
    assert sequence.follow.tolist() == [1, 2, 3, 4, 5, -1]


def test_read_sequence_leaves_look_ups_of_rows_out_unless_asked():
    ops = [Op(0, (Read(0, 400),), "GET_ROWS"), Op(9, (Read(2, 50),))]
    trace = reads_trace(TENSORS, ops)
    places = file_map(trace)

    without = read_sequence(trace, places)
    whole = read_sequence(trace, places, with_row_reads=True)

    assert (without.unit.tolist(), without.n_row_reads) == ([5], 1)
    assert (whole.unit.tolist(), whole.n_row_reads) == ([0, 5], 0)


def test_read_sequence_of_a_range_has_what_starts_in_it():
    trace = reads_trace(TENSORS, [Op(t, (Read(2, 50),)) for t in (0, 5, 10, 15)])

    sequence = read_sequence(trace, file_map(trace), time=TimeRange(5, 15))

    assert len(sequence) == 2


def test_read_sequence_stops_when_cancelled():
    trace = reads_trace(TENSORS, [Op(0, (Read(2, 50),))])

    with pytest.raises(Cancelled):
        read_sequence(trace, file_map(trace), watcher=CancelAfter(0))


one_read = st.builds(
    Read,
    tensor=st.integers(0, 3),
    size=st.integers(0, 500),
    offset=st.sampled_from([-1, 100, 130, 500, 533, 600, 700, 745]),
    expert=st.integers(-1, 5),
)


def test_read_sequence_reads_the_chosen_slices_where_routing_is_known():
    ops = [Op(t, (Read(1, 103), Read(2, 50)), token=t // 10) for t in (0, 10, 20)]
    chosen = {0: (1, 3), 1: (0,)}  # of token 2 nobody knows

    trace = reads_trace(TENSORS, ops, {(t, 0): e for t, e in chosen.items()})
    sequence = read_sequence(trace, file_map(trace))

    assert sequence.unit.tolist() == [2, 4, 5, 1, 5, 1, 2, 3, 4, 5]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(one_read, max_size=3), min_size=1, max_size=6))
def test_unit_reads_share_every_byte_out(lists):
    ops = [Op(i, tuple(reads)) for i, reads in enumerate(lists)]
    trace = reads_trace(TENSORS, ops)
    what, places = trace.accesses.patterns, file_map(trace)
    touches = span_variants(trace, places).touches
    result = unit_reads(places, touches)

    shared = np.zeros(len(what), np.int64)
    np.add.at(
        shared, np.repeat(np.arange(len(what)), np.diff(result.first)), result.bytes
    )
    reads_something = np.diff(result.first) > 0
    recorded = shared + touches.passed
    assert recorded[reads_something].tolist() == what.size[reads_something].tolist()
    assert (result.bytes >= 0).all()
