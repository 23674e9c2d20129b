"""Finding and gathering events of .ggmlviz, against walking them one by one."""

import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ggmlviz_files as viz
from ggmlviz_files import Event
from ggmlviz_scans import Found, find_events
from ggscope.model.tables import StringTable
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz.columns import Events, encode, gather
from ggscope.readers.ggmlviz.layouts import HEADER_BYTES
from ggscope.readers.ggmlviz.reader import GgmlvizReader
from ggscope.readers.ggmlviz.walk import Stop
from ggscope.readers.source import Source


def find(data: bytes, layout: str = "c64", walker: int = 1 << 14) -> Found:
    return find_events(data, layout, walker_bytes=walker)


def gathered(events: list[Event]) -> tuple[Events, StringTable]:
    strings = StringTable()
    return gather(
        find(viz.packed(events)).collector, strings, ReadContext().chunked
    ), strings


def offsets(events: list[Event], layout: str = "c64") -> list[int]:
    sizes = [len(e.packed(layout)) for e in events]
    return [HEADER_BYTES + sum(sizes[:i]) for i in range(len(sizes) + 1)]


def noise(seed: int, n: int) -> list[Event]:
    """Return events whose labels are full of what looks like events."""
    rng = np.random.default_rng(seed)
    decoy = Event(2, viz.T0 + 5, 7, 27).packed()
    events = []
    for i in range(n):
        label: bytes | None = None
        if rng.random() < 0.7:
            label = (decoy * 3)[int(rng.integers(46)) :][: int(rng.integers(140))]
        events.append(Event(int(rng.integers(12)), viz.T0 + i, i, label=label))
    return events


@pytest.mark.parametrize("walker", [150, 400, 1 << 14])
@pytest.mark.parametrize("layout", viz.LAYOUT_IDS)
def test_events_are_found_whatever_the_walkers_guess(layout: str, walker: int) -> None:
    events = viz.run(60, 5) + noise(walker, 300) + viz.run(20, 5)

    result = find(viz.packed(events, layout), layout, walker)

    assert result.offsets.tolist() == offsets(events, layout)
    assert result.stop is Stop.END
    assert result.offsets.dtype == np.int64


@given(
    seed=st.integers(0, 1 << 30),
    n=st.integers(150, 400),
    walker=st.integers(60, 300),
    cut=st.integers(0, 200),
    flips=st.lists(st.tuples(st.integers(12, 20_000), st.integers(0, 255)), max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_walkers_find_what_one_walker_finds(
    seed: int, n: int, walker: int, cut: int, flips: list[tuple[int, int]]
) -> None:
    data = bytearray(viz.packed(noise(seed, n)))
    for at, value in flips:
        data[min(at, len(data) - 1)] = value
    whole = bytes(data[: len(data) - cut])

    many, one = find(whole, walker=walker), find(whole, walker=1 << 20)

    assert many.offsets.tolist() == one.offsets.tolist()
    assert many.stop is one.stop


@pytest.mark.parametrize("at_event", [0, 7, 299])
@pytest.mark.parametrize("walker", [200, 1 << 20])
@pytest.mark.parametrize(
    ("tail", "stop"),
    [
        (b"", Stop.END),
        (b"\2", Stop.TRUNCATED),
        (bytes(10), Stop.TRUNCATED),
        (bytes(64), Stop.ZEROS),
        (bytes(9000), Stop.ZEROS),
        (Event(2, viz.T0).packed()[:45] + b"\2" + bytes(99), Stop.BAD_FLAG),
        (Event(2, viz.T0, label="abc").packed()[:48], Stop.TRUNCATED),
        (Event(2, viz.T0, label="abc").packed()[:52], Stop.TRUNCATED),
        (
            Event(2, viz.T0).packed()[:45] + b"\1" + struct.pack("<I", 4097) * 5000,
            Stop.BAD_LABEL,
        ),
    ],
)
def test_stream_stops_at_a_fault(
    at_event: int, walker: int, tail: bytes, stop: Stop
) -> None:
    events = viz.run(60, 3)[:at_event]
    data = viz.packed(events) + tail

    result = find(data, walker=walker)

    assert len(result) == at_event
    assert result.stop is stop
    assert int(result.offsets[-1]) == offsets(events)[-1]


def test_longest_label_is_read_and_longer_ones_are_not() -> None:
    assert find(viz.packed([Event(2, viz.T0, label="x" * 4096)])).stop is Stop.END
    assert find(viz.packed([Event(2, viz.T0, label="x" * 4097)])).stop is Stop.BAD_LABEL


def test_columns_hold_what_was_written() -> None:
    events = [
        Event(0, viz.T0, (1 << 63) + 5, 580, 0, 0xFFFF_FFFF, 3, "g"),
        Event(2, viz.T0 + 1, 2, 27, 1 << 40, 7, (1 << 64) - 1, "x" * 100),
        Event(4, viz.T0 + 2, 5, 0, 99, 7),
        Event(99, viz.T0 + 3, 6, 7, 8, 9, 10),
    ]

    result, strings = gathered(events)

    assert result.kind.tolist() == [0, 2, 4, 99]
    assert result.time.tolist() == [viz.T0 + i for i in range(4)]
    assert result.thread_of[result.place].tolist() == [0, 1, 1, 2]
    assert result.backend_of[result.place].tolist() == [0, 1, 2, 2]
    assert result.pointer.tolist() == [(1 << 63) + 5, 2, 5, 0]
    assert result.number.tolist() == [580, 27, 0, 0]
    assert [strings[i] for i in result.string_of[result.label]] == [
        "g",
        "x" * 100,
        "",
        "",
    ]
    assert result.label.tolist()[2:] == [-1, -1]
    names = ("kind", "time", "place", "pointer", "number", "label")
    assert [getattr(result, name).dtype.name for name in names] == [
        "uint8", "int64", "int32", "uint64", "uint32", "int32",
    ]  # fmt: skip


def test_labels_with_one_digest_stay_apart() -> None:
    mask, mix = (1 << 64) - 1, 0x9E37_79B9_7F4A_7C15

    def state(first_word: int) -> int:
        mixed = ((17 * mix) & mask ^ first_word) * mix & mask
        return mixed ^ (mixed >> 29)

    first, other, second = 0x4141, 0x4242, 0x4343
    labels = [
        struct.pack("<QQ", first, second),
        struct.pack("<QQ", other, second ^ state(first) ^ state(other)),
    ]

    result, strings = gathered(
        [Event(2, viz.T0 + i, label=labels[i % 2]) for i in range(6)]
    )

    texts = [strings[i] for i in result.string_of[result.label]]
    assert texts[:2] == [b.decode("utf-8", "replace").rstrip("\0") for b in labels]
    assert texts[0] != texts[1]
    assert texts[:2] * 3 == texts


def test_labels_of_equal_digest_and_unequal_length_stay_apart() -> None:
    mask, mix = (1 << 64) - 1, 0x9E37_79B9_7F4A_7C15
    word = (8 * mix ^ 9 * mix ^ 0x41) & mask
    # Length 7 (+1) with one word, length 8 (+1) with another, one digest.
    short = struct.pack("<Q", 0x41)[:7]
    long = struct.pack("<Q", word)

    result, _ = gathered([Event(2, viz.T0, label=short), Event(2, viz.T0, label=long)])

    assert result.label.tolist() == [0, 1]


@given(st.lists(st.integers(0, 6), max_size=60), st.integers(0, 40_000))
@settings(max_examples=50, deadline=None)
def test_encode_numbers_values_by_first_appearance(
    values: list[int], padding: int
) -> None:
    column = np.array([9] * padding + values, np.uint64)

    codes, distinct, first = encode(column)

    order = list(dict.fromkeys(column.tolist()))
    assert distinct.tolist() == order
    assert distinct[codes].tolist() == column.tolist()
    assert first.tolist() == [column.tolist().index(v) for v in order]
    assert codes.dtype == np.int32


@pytest.mark.parametrize("labels", [False, True])
def test_reading_takes_little_more_memory_than_the_file(
    tmp_path: Path, labels: bool
) -> None:
    chunk = b"".join(
        e.packed() for t in (1, 2) for e in viz.run(40, 200, thread=t, labels=labels)
    )
    path = tmp_path / "t.ggmlviz"
    path.write_bytes(viz.HEADER + chunk * 6)
    small = viz.write(tmp_path / "s.ggmlviz", viz.run())
    with Source(small) as source:
        GgmlvizReader().read(source, ReadContext())

    tracemalloc.start()
    with Source(path) as source:
        trace = GgmlvizReader().read(source, ReadContext())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert len(trace.spans) == 6 * 2 * 40 * 201
    assert peak < 2 * path.stat().st_size
