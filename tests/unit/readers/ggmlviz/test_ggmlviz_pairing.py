"""Pairing of .ggmlviz events against a reference that goes event by event."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ggmlviz_files as viz
from ggmlviz_files import Event
from ggscope.model.tables import Quality, quality_of
from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.common.interval_pairing import match
from ggscope.readers.ggmlviz import pairing
from ggscope.readers.ggmlviz.columns import free_slots
from ggscope.readers.ggmlviz.reader import GgmlvizReader
from ggscope.readers.source import Source

GB, GE, OB, OE = viz.GRAPH_BEGIN, viz.GRAPH_END, viz.OP_BEGIN, viz.OP_END


def read_events(folder: Path, events: list[Event]) -> Trace:
    path = viz.write(folder / "t.ggmlviz", events)
    with Source(path) as source:
        trace = GgmlvizReader().read(source, ReadContext(options={"layout": "c64"}))
    assert trace.check() == []
    return trace


def spans_and_strays(trace: Trace) -> tuple[list[viz.Expected], list[int]]:
    """Return spans and strays as the reference does."""
    spans, markers = trace.spans, trace.markers
    origin = trace.clock.origin
    records = [] if spans.record is None else spans.record.tolist()
    quality = [Quality(q).name.lower() for q in quality_of(spans.flags)]
    rows = zip(records, spans.start.tolist(), spans.end.tolist(), quality, strict=True)
    strays = [] if markers.record is None else sorted(markers.record.tolist())
    return sorted(
        (viz.Expected(r, s + origin, e + origin, q) for r, s, e, q in rows),
        key=lambda span: span.record,
    ), strays


def steps(*kinds_and_pointers: tuple[int, int]) -> list[Event]:
    return [
        Event(kind, viz.T0 + 10 * i, pointer)
        for i, (kind, pointer) in enumerate(kinds_and_pointers)
    ]


def lengths(trace: Trace) -> list[tuple[int, int, int]]:
    """Return (start, end, quality) in ticks, by record."""
    spans = trace.spans
    assert spans.record is not None
    order = np.argsort(spans.record)
    return [
        (int(spans.start[i]), int(spans.end[i]), int(quality_of(spans.flags[i])))
        for i in order
    ]


def test_ops_that_all_begin_first_share_their_graph(tmp_path: Path) -> None:
    events = steps((GB, 9), (OB, 1), (OB, 2), (OB, 3), (OE, 1), (OE, 2), (OE, 3),
                   (GE, 9))  # fmt: skip

    trace = read_events(tmp_path, events)

    assert lengths(trace) == [(0, 70, 0), (0, 23, 2), (23, 46, 2), (46, 70, 2)]


def test_ops_that_alternate_are_measured(tmp_path: Path) -> None:
    events = steps((GB, 9), (OB, 1), (OE, 1), (OB, 2), (OE, 2), (GE, 9))

    trace = read_events(tmp_path, events)

    assert lengths(trace) == [(0, 50, 0), (10, 20, 0), (30, 40, 0)]


def test_one_op_alone_in_a_graph_is_measured(tmp_path: Path) -> None:
    trace = read_events(tmp_path, steps((GB, 9), (OB, 1), (OE, 1), (GE, 9)))

    assert lengths(trace) == [(0, 30, 0), (10, 20, 0)]


def test_ops_without_a_graph_are_measured(tmp_path: Path) -> None:
    trace = read_events(tmp_path, steps((OB, 1), (OB, 2), (OE, 1), (OE, 2)))

    assert lengths(trace) == [(0, 20, 0), (10, 30, 0)]


def test_wrapped_graphs_with_the_same_nodes_keep_both(tmp_path: Path) -> None:
    events = steps(
        (GB, 8), (OB, 1), (OB, 2), (GB, 9), (OB, 1), (OB, 2), (OE, 1), (OE, 2),
        (GE, 9), (OE, 1), (OE, 2), (GE, 8),
    )  # fmt: skip

    trace = read_events(tmp_path, events)

    assert lengths(trace) == [
        (0, 110, 0), (0, 55, 2), (55, 110, 2), (30, 80, 0), (30, 55, 2), (55, 80, 2),
    ]  # fmt: skip


def test_nested_graphs_of_one_pointer_pair_inside_out(tmp_path: Path) -> None:
    trace = read_events(tmp_path, steps((GB, 0), (GB, 0), (GE, 0), (GE, 0)))

    assert lengths(trace) == [(0, 30, 0), (10, 20, 0)]


def test_crossing_graphs_pair_by_pointer(tmp_path: Path) -> None:
    trace = read_events(tmp_path, steps((GB, 8), (GB, 9), (GE, 8), (GE, 9)))

    assert lengths(trace) == [(0, 20, 0), (10, 30, 0)]


def test_nested_begins_of_one_tensor_pair_inside_out(tmp_path: Path) -> None:
    trace = read_events(tmp_path, steps((OB, 1), (OB, 1), (OE, 1), (OE, 1)))

    assert lengths(trace) == [(0, 30, 0), (10, 20, 0)]


def test_tensors_whose_operations_have_ended_take_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    monkeypatch.setattr(pairing, "_FEWEST_KEYS", 64)
    monkeypatch.setattr(
        pairing, "free_slots", lambda n: made.append(n) or free_slots(n)
    )
    between = [(kind, tensor) for tensor in range(2, 1000) for kind in (OB, OE)]

    trace = read_events(tmp_path, steps((OB, 1), (OB, 1), *between, (OE, 1), (OE, 1)))

    assert set(made) == {64}
    assert len(made) > 5
    last = 10 * (2 * len(between) // 2 + 3)
    assert lengths(trace)[:3] == [(0, last, 0), (10, last - 10, 0), (20, 30, 0)]


def test_dropped_op_end_lasts_to_the_end_of_its_graph(tmp_path: Path) -> None:
    events = steps((GB, 9), (OB, 1), (OB, 2), (OE, 2), (GE, 9), (GB, 9), (GE, 9))

    trace = read_events(tmp_path, events)

    assert lengths(trace)[:3] == [(0, 40, 0), (10, 40, 3), (20, 40, 2)]
    assert [w.count for w in trace.warnings if w.code == "unfinished"] == [1]


def test_dropped_graph_end_lasts_to_the_end_of_the_graph_around(
    tmp_path: Path,
) -> None:
    events = steps((GB, 8), (GB, 9), (OB, 1), (GE, 8), (OB, 2))

    trace = read_events(tmp_path, events)

    assert lengths(trace) == [(0, 30, 0), (10, 30, 3), (20, 30, 3), (40, 40, 3)]


def test_dropped_ends_one_in_another_last_as_long_as_the_first_with_an_end(
    tmp_path: Path,
) -> None:
    events = steps((GB, 7), (GB, 8), (GB, 8), (OB, 1), (GE, 7), (GB, 7))

    trace = read_events(tmp_path, events)

    assert lengths(trace) == [
        (0, 40, 0), (10, 40, 3), (20, 40, 3), (30, 40, 3), (50, 50, 3),
    ]  # fmt: skip


def test_dropped_last_graph_end_lasts_to_the_end_of_the_trace(
    tmp_path: Path,
) -> None:
    trace = read_events(tmp_path, steps((GB, 8), (OB, 1), (OE, 1), (4, 0)))

    assert lengths(trace) == [(0, 30, 3), (10, 20, 0)]


def test_ends_without_begin_are_markers(tmp_path: Path) -> None:
    trace = read_events(tmp_path, steps((OE, 1), (GE, 8), (GB, 8), (GE, 8), (OE, 2)))

    names = [trace.strings[i] for i in trace.markers.name]
    assert names == ["OP_END", "GRAPH_END", "OP_END"]
    assert [w.count for w in trace.warnings if w.code == "unmatched_end"] == [3]
    assert lengths(trace) == [(20, 30, 0)]


def test_threads_do_not_pair_with_each_other(tmp_path: Path) -> None:
    events = [
        Event(GB, viz.T0, 9, thread=1),
        Event(OB, viz.T0 + 1, 1, thread=2),
        Event(OE, viz.T0 + 2, 1, thread=1),
        Event(OE, viz.T0 + 3, 1, thread=2),
        Event(GE, viz.T0 + 4, 9, thread=1),
    ]

    trace = read_events(tmp_path, events)

    assert lengths(trace) == [(0, 4, 0), (1, 3, 0)]
    assert len(trace.markers) == 1


def test_slices_of_a_century_do_not_overflow(tmp_path: Path) -> None:
    last = viz.T0 + 365 * 24 * 3600 * 10**9
    events = [Event(GB, viz.T0, 9)]
    events += [Event(OB, viz.T0 + 1, i) for i in range(1000)]
    events += [Event(OE, last, i) for i in range(1000)]
    events.append(Event(GE, last, 9))

    trace = read_events(tmp_path, events)

    assert spans_and_strays(trace) == viz.reference(events)


SPECS = st.lists(
    st.tuples(
        st.sampled_from([GB, GE, OB, OE]),
        st.integers(0, 3),
        st.integers(0, 2),
        st.integers(0, 1),
    ),
    max_size=40,
)


@given(specs=SPECS, is_sorted=st.booleans())
@settings(max_examples=100, deadline=None)
@example(specs=[], is_sorted=True)
@example(
    specs=[(GB, 1, 0, 0), (GB, 1, 1, 0), (GB, 1, 2, 0), (GE, 1, 0, 0), (GE, 1, 2, 0)],
    is_sorted=True,
)
def test_any_events_pair_as_the_reference_does(
    tmp_path_factory: pytest.TempPathFactory,
    specs: list[tuple[int, int, int, int]],
    is_sorted: bool,
) -> None:
    time, events = viz.T0, []
    for kind, delta, pointer, thread in specs:
        time = time + delta if is_sorted else viz.T0 + delta
        events.append(Event(kind, time, pointer, thread=thread))

    trace = read_events(tmp_path_factory.mktemp("viz"), events)

    assert spans_and_strays(trace) == viz.reference(events)


@given(
    depth=st.integers(1, 6),
    n_ops=st.integers(0, 4),
    drop=st.sets(st.integers(0, 60), max_size=3),
    interleaved=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_wrapped_graphs_with_losses_pair_as_the_reference_does(
    tmp_path_factory: pytest.TempPathFactory,
    depth: int,
    n_ops: int,
    drop: set[int],
    interleaved: bool,
) -> None:
    events: list[Event] = []
    for level in range(depth):
        inner = viz.graph(viz.T0 + level, n_ops, ptr=level % 2, interleaved=interleaved)
        half = len(inner) // 2
        events = inner[:half] + events + inner[half:]
    events = [
        Event(e.kind, viz.T0 + 5 * i, e.ptr, e.number)
        for i, e in enumerate(events * 2)
        if i not in drop
    ]

    trace = read_events(tmp_path_factory.mktemp("viz"), events)

    assert spans_and_strays(trace) == viz.reference(events)


def test_match_levels_count_open_brackets() -> None:
    key = np.array([1, 1, 2, 1, 1, 1, 2, 2])
    is_begin = np.array([1, 1, 1, 0, 0, 0, 0, 0], np.bool_)

    partner, level = match(key, is_begin)

    assert partner.tolist() == [4, 3, 6, 1, 0, -1, 2, -1]
    assert level.tolist() == [1, 2, 1, 2, 1, 0, 1, 0]
