"""Buffer events of all forms: lives, occupied bytes, and what does not fit."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import make_info
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import CounterShape
from ggscope.model.trace import Trace
from ggscope.readers.common.buffer_lives import BufferEvents, add_buffers

T0 = 541_709_309_541_000
Event = tuple[int, bool, int, int]
"""(time, whether an allocation, id, size)."""


def made(
    events: list[Event],
    *,
    names: list[str] | None = None,
    usage: list[int] | None = None,
    layer: list[int] | None = None,
) -> Trace:
    builder, n = TraceBuilder(), len(events)
    columns = list(zip(*events, strict=True)) if events else [(), (), (), ()]
    texts = names or ["KV"] * n
    ids = [builder.strings.intern(t) if t else -1 for t in texts]
    add_buffers(
        builder,
        BufferEvents(
            time=np.array(columns[0], np.int64) + T0,
            is_alloc=np.array(columns[1], np.bool_),
            id=np.array(columns[2], np.uint64),
            size=np.array(columns[3], np.int64),
            name=np.array(ids, np.int32),
            backend=np.full(n, -1, np.int32),
            usage=np.array(usage or [2] * n, np.int16),
            layer=np.array(layer or [65535] * n, np.int64),
            record=np.arange(n),
        ),
    )
    trace = builder.snapshot(make_info())
    assert trace.check() == []
    return trace


def codes(trace: Trace) -> dict[str, int]:
    return {w.code: w.count for w in trace.warnings}


def simulated(
    events: list[Event],
) -> tuple[list[tuple[int, int, int, int]], list[tuple[int, int]]]:
    """Return (id, size, allocated, freed) of each life, and the level at each time."""
    lives: list[list[int]] = []
    alive: dict[int, int] = {}
    level: dict[int, int] = {}
    first = min((e[0] for e in events), default=0)
    for time, is_alloc, key, size in sorted(events, key=lambda e: e[0]):
        had = key in alive
        if had:
            lives[alive.pop(key)][3] = time - first
        if is_alloc:
            alive[key] = len(lives)
            lives.append([key, size, time - first, -1])
        if had or is_alloc:
            level[time - first] = sum(max(lives[i][1], 0) for i in alive.values())
    return [(a, b, c, d) for a, b, c, d in lives], sorted(level.items())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 6), st.booleans(), st.integers(0, 3), st.integers(-1, 9)
        ),
        max_size=24,
    )
)
def test_lives_and_level_equal_a_simulation(events: list[Event]) -> None:
    trace = made(events)

    b, (series,) = trace.buffers, trace.counters
    columns = (b.address, b.size, b.allocated, b.freed)
    lives, level = simulated(events)
    assert list(zip(*(c.tolist() for c in columns), strict=True)) == lives
    actual = zip(series.time.tolist(), series.value.tolist(), strict=True)
    assert [(t, int(v)) for t, v in actual] == level
    assert len(trace.markers) == len(events)


def test_clock_begins_at_the_first_event() -> None:
    trace = made([(5, True, 1, 10), (3, True, 2, 10)])

    assert trace.clock.origin == T0 + 3
    assert trace.buffers.allocated.tolist() == [0, 2]
    assert trace.counters[0].shape is CounterShape.LEVEL
    assert trace.counters[0].name == "Buffers"


def test_id_used_again_gives_two_buffers() -> None:
    trace = made([(0, True, 7, 10), (1, False, 7, -1), (2, True, 7, 20)])

    assert trace.buffers.size.tolist() == [10, 20]
    assert trace.buffers.freed.tolist() == [1, -1]
    assert "allocated_again" not in codes(trace)


def test_unpaired_events_are_distinguished() -> None:
    events = [(0, False, 9, -1), (1, True, 7, 5), (2, True, 7, 6), (3, False, 7, -1)]
    events += [(4, False, 7, -1), (5, False, 9, -1)]

    result = codes(made(events))

    assert result["free_without_alloc"] == 1
    assert result["double_free"] == 2
    assert result["allocated_again"] == 1


def test_release_without_a_name_is_called_like_its_buffer() -> None:
    events = [(0, True, 1, 5), (1, False, 1, -1), (2, False, 4, -1)]

    trace = made(events, names=["KV", "", ""])

    assert [trace.strings[d] for d in trace.markers.detail.tolist()] == ["KV", "KV", ""]


def test_values_that_cannot_be_are_unknown() -> None:
    events = [(0, True, 1, 1 << 53), (1, True, 2, 5), (2, True, 3, 6)]

    trace = made(events, usage=[2, 9, 1], layer=[65535, 70000, 4])

    assert trace.buffers.size.tolist() == [-1, 5, 6]
    assert trace.buffers.usage.tolist() == [2, 0, 1]
    assert trace.buffers.layer is not None
    assert trace.buffers.layer.tolist() == [-1, -1, 4]
    result = codes(trace)
    assert (result["unknown_usage"], result["unknown_size"], result["bad_layer"]) == (
        1, 1, 1,
    )  # fmt: skip


def test_missing_kinds_of_buffers_are_named() -> None:
    kv, weights, compute = (0, True, 1, 5), (1, True, 2, 5), (2, True, 3, 5)

    def message(events: list[Event], names: list[str], usage: list[int]) -> str:
        trace = made(events, names=names, usage=usage)
        return " ".join(
            w.message for w in trace.warnings if w.code == "buffers_not_recorded"
        )

    only_kv = message([kv], ["KVCache_CPU"], [2])
    both = message([kv, weights], ["KVCache_CPU", "ModelWeights"], [2, 1])
    all_kinds = message(
        [kv, weights, compute], ["KVCache", "ModelWeights", "sched"], [2, 1, 2]
    )
    assert "model weights and the scheduler's compute buffers" in only_kv
    assert "model weights" not in both
    assert "compute buffers" in both
    assert all_kinds == ""


def test_no_events_give_an_empty_trace() -> None:
    trace = made([])

    assert len(trace.buffers) == len(trace.markers) == 0
    assert codes(trace) == {}
