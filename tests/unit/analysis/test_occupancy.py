"""Occupancy of memory against a simulation, its peak, and who uses a buffer."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builders
from buffer_traces import (
    ANY,
    COMPUTE,
    MIB,
    WEIGHTS,
    Life,
    buffers_trace,
    reference_buffers,
)
from ggscope.analysis.buffers import (
    Gap,
    alive_at,
    buffer_use,
    gaps,
    lives,
    never_freed,
    occupancy,
)
from ggscope.model.tables import Space
from ggscope.readers import registry
from support import need_corpus

LIVES = st.lists(
    st.builds(
        lambda size, born, length, usage: Life(
            size, born, born + length if length >= 0 else -1, usage
        ),
        st.integers(-1, 1 << 40),
        st.integers(-1, 30).filter(lambda t: t >= -1),
        st.integers(-1, 12),
        st.sampled_from([ANY, WEIGHTS, COMPUTE]),
    ),
    min_size=1,
    max_size=12,
)


def test_reference_run_has_its_known_peak() -> None:
    trace = reference_buffers()

    result = occupancy(trace)

    assert result.peak is not None
    assert result.peak.bytes == 654_311_424
    assert result.peak.bytes / MIB == 624.0
    assert (result.peak.time, result.peak.until) == (4_000_000, 8_000_000)
    usage = trace.buffers.usage[result.peak.alive]
    assert (int((usage == WEIGHTS).sum()), int((usage == COMPUTE).sum())) == (2, 3)


@given(LIVES)
@settings(max_examples=60)
def test_occupancy_equals_a_simulation_tick_by_tick(some: list[Life]) -> None:
    trace = buffers_trace(some)

    result = occupancy(trace)

    for tick in range(-2, 45):
        alive = [
            life for life in some
            if life.size >= 0 and life.born != -1 and life.born <= tick
            and (life.freed == -1 or life.freed > tick)
        ]  # fmt: skip
        assert int(result.at(tick).sum()) == sum(life.size for life in alive)
        by_name = dict(zip(result.groups, result.at(tick).tolist(), strict=True))
        for usage in (ANY, WEIGHTS, COMPUTE):
            expected = sum(life.size for life in alive if life.usage is usage)
            assert by_name.get(usage.name, 0) == expected
    if result.peak is not None:
        assert result.peak.bytes == max(int(result.at(t).sum()) for t in range(45))
        assert int(result.at(result.peak.time).sum()) == result.peak.bytes


def test_sums_beyond_the_precision_of_floats_are_exact() -> None:
    trace = buffers_trace([Life(1 << 60), Life(1), Life(1, 5, 6)])

    result = occupancy(trace)

    assert result.total.tolist() == [(1 << 60) + 1, (1 << 60) + 2, (1 << 60) + 1]


def test_changes_at_one_instant_count_as_one() -> None:
    trace = buffers_trace([Life(100, 0, 10), Life(100, 10, 20)])

    result = occupancy(trace)

    assert result.total.tolist() == [100, 100, 0]


def test_very_many_backends_share_a_level() -> None:
    """Of 20,000 of them in a file of 4 MB, a level each asked for 6 GB."""
    often = [Life(10, backend=f"CUDA{k}") for k in range(64) for _ in range(2)]
    seldom = [Life(10, backend=f"GPU{k}") for k in range(500)]

    unknown = Life(7, backend="")

    result = occupancy(buffers_trace([unknown, *seldom, *often]), "backend")

    assert len(result.groups) == result.level.shape[1] == 65
    assert result.groups[0] == "N/A"  # of it nobody knows that it is another one
    assert {*result.groups[1:64]} < {f"CUDA{k}" for k in range(64)}
    assert result.groups[64] == "other backends"
    assert result.level[-1].tolist() == [7] + [20] * 63 + [5020]
    assert result.total[-1] == result.level[-1].sum()


def test_groups_of_backends_are_named_and_the_unknown_one_is_too() -> None:
    trace = buffers_trace([Life(1, backend="CUDA0"), Life(2, backend=""), Life(4)])

    result = occupancy(trace, "backend")

    by_name = dict(zip(result.groups, result.at(0).tolist(), strict=True))
    assert by_name == {"N/A": 2, "CPU": 4, "CUDA0": 1}


def test_buffers_without_time_or_size_are_left_out() -> None:
    trace = buffers_trace([Life(5, -1), Life(-1, 3), Life(7, 3)])

    result = occupancy(trace)

    assert result.at(3).sum() == 7


def test_a_trace_without_buffers_has_no_peak() -> None:
    result = occupancy(builders.empty_trace())

    assert result.peak is None
    assert result.at(0).sum() == 0


def test_buffers_alive_are_those_born_and_not_yet_freed() -> None:
    buffers = buffers_trace([Life(1, 5, 9), Life(1, 0), Life(1, -1)]).buffers

    assert [alive_at(buffers, t).tolist() for t in (4, 5, 8, 9)] == [
        [1],
        [0, 1],
        [0, 1],
        [1],
    ]
    assert never_freed(buffers).tolist() == [1]


@given(LIVES)
@settings(max_examples=60)
def test_lives_in_one_row_never_overlap(some: list[Life]) -> None:
    buffers = buffers_trace(some).buffers

    packed = lives(buffers)

    timed = [i for i, life in enumerate(some) if life.born != -1]
    assert sorted(packed.buffer.tolist()) == timed
    sizes = buffers.size[packed.buffer].tolist()
    assert sizes == sorted(sizes, reverse=True)
    for row in range(packed.n_rows):
        inside = [some[i] for i in packed.buffer[packed.row == row].tolist()]
        inside.sort(key=lambda life: life.born)
        for a, b in pairwise(inside):
            assert a.freed != -1
            assert max(a.freed, a.born + 1) <= b.born


def test_the_largest_lives_are_kept_where_there_are_too_many() -> None:
    buffers = buffers_trace([Life(size, size) for size in range(1, 11)]).buffers

    packed = lives(buffers, limit=3)

    assert buffers.size[packed.buffer].tolist() == [10, 9, 8]
    assert packed.n_left_out == 7


def test_use_counts_accesses_bytes_and_the_last_op() -> None:
    trace = buffers_trace([Life(1), Life(1), Life(1)], accessed=[[0, 1, 0], [1], [0]])

    use = buffer_use(trace)

    assert use.count.tolist() == [3, 2, 0]
    assert use.bytes.tolist() == [192, 128, 0]
    assert use.last_span.tolist() == [2, 1, -1]


def test_lives_of_one_address_share_its_accesses() -> None:
    trace = buffers_trace(
        [Life(1, 0, 5, address=64), Life(1, 6, address=64), Life(1)],
        accessed=[[0], [0], [2]],
    )

    use = buffer_use(trace)

    assert use.count.tolist() == [2, 2, 1]
    assert use.last_span.tolist() == [1, 1, 2]
    assert use.n_lives.tolist() == [2, 2, 1]


def test_use_of_a_trace_that_names_no_buffer_is_not_known() -> None:
    assert not buffer_use(reference_buffers()).is_known


def test_use_of_weights_is_not_known_where_their_reads_name_no_buffer() -> None:
    lives_ = [Life(1, usage=WEIGHTS), Life(1)]
    trace = buffers_trace(lives_, accessed=[[0], [1]])
    what = trace.accesses.patterns
    unnamed = replace(what, space=np.full_like(what.space, Space.FILE))
    unnamed = replace(unnamed, buffer=np.array([-1, 1], np.int32))
    accesses = replace(trace.accesses, patterns=unnamed)

    named, open_ = buffer_use(trace), buffer_use(replace(trace, accesses=accesses))

    assert [named.knows(row) for row in (0, 1)] == [True, True]
    assert [open_.knows(row) for row in (0, 1)] == [False, True]


@pytest.mark.parametrize(
    ("some", "expected"),
    [
        ([Life(1, name="KVCache_CPU")], (Gap.WEIGHTS, Gap.COMPUTE, Gap.RELEASES)),
        ([Life(1, usage=WEIGHTS)], (Gap.COMPUTE, Gap.RELEASES)),
        ([Life(1, usage=WEIGHTS), Life(2, 0, 9, name="scheduler")], ()),
        ([Life(1, usage=WEIGHTS), Life(-1, 0, 9)], (Gap.SIZES,)),
        ([Life(-1, -1)], (Gap.ALLOCATIONS,)),
    ],
)
def test_what_the_recording_lacks_is_reported(
    some: list[Life], expected: tuple[Gap, ...]
) -> None:
    assert gaps(buffers_trace(some)) == expected


def test_five_allocations_without_a_scheduler_buffer_are_incomplete() -> None:
    some = [Life(1, usage=WEIGHTS), Life(1, usage=WEIGHTS)]
    some += [Life(1, name=f"KVCache_{i}") for i in range(3)]

    assert Gap.COMPUTE in gaps(buffers_trace(some))


def test_a_trace_without_buffers_lacks_nothing() -> None:
    assert gaps(builders.empty_trace()) == ()


def test_peak_of_the_recorded_kv_caches_is_the_one_their_recorder_states() -> None:
    path = need_corpus() / "tracer" / "buffer_events_128.bin"

    trace = registry.open_trace(path)

    peak = occupancy(trace).peak
    assert peak is not None
    assert peak.bytes == 3_240_099_840  # buffer-timeline.json of the same run
    assert len(peak.alive) == 2
    assert Gap.WEIGHTS in gaps(trace)
    assert Gap.COMPUTE in gaps(trace)
