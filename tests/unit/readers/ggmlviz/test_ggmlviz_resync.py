"""Damage in the middle of .ggmlviz files: what lies behind it is kept."""

import struct
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ggmlviz_files as viz
from ggmlviz_files import Event
from ggmlviz_scans import Found, find_events
from ggscope.errors import Cancelled
from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz import walk
from ggscope.readers.ggmlviz.layouts import HEADER_BYTES, LAYOUT_BY_ID
from ggscope.readers.ggmlviz.reader import GgmlvizReader
from ggscope.readers.ggmlviz.walk import MAX_GAPS, Stop
from ggscope.readers.source import Source

EVENTS = viz.run(20, 5)
"""240 events; in c64 graph events have 46 bytes, op events 58."""


class LosesPatience(threading.Event):
    """Set from the fourth question on."""

    n_asked = 0

    def is_set(self) -> bool:
        self.n_asked += 1
        return self.n_asked > 3


def starts(events: list[Event], layout: str = "c64") -> list[int]:
    sizes = [len(event.packed(layout)) for event in events]
    return [HEADER_BYTES + sum(sizes[:i]) for i in range(len(sizes) + 1)]


def find(data: bytes, layout: str = "c64", walker: int = 1 << 14) -> Found:
    return find_events(data, layout, walker_bytes=walker)


def read(tmp_path: Path, data: bytes, layout: str = "auto") -> Trace:
    path = tmp_path / "t.ggmlviz"
    path.write_bytes(data)
    with Source(path) as source:
        trace = GgmlvizReader().read(source, ReadContext(options={"layout": layout}))
    assert trace.check() == []
    return trace


def skipped(trace: Trace) -> ReadWarning:
    (skipped,) = (w for w in trace.warnings if w.code == "skipped_bytes")
    return skipped


def replaced(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def bad_flag(data: bytes, event: int) -> bytes:
    return replaced(data, event + 45, b"\7")


def huge_label(data: bytes, event: int) -> bytes:
    return replaced(data, event + 46, struct.pack("<I", 1 << 31))


def long_label(data: bytes, event: int) -> bytes:
    return replaced(data, event + 46, struct.pack("<I", 1000))


def label_of_none(data: bytes, event: int) -> bytes:
    return replaced(data, event + 45, b"\0")


def noise(data: bytes, event: int) -> bytes:
    return replaced(data, event, b"\xa5" * 58)


def zeros(data: bytes, event: int) -> bytes:
    return data[:event] + bytes(500) + data[event:]


@pytest.mark.parametrize("walker", [200, 1 << 14])
@pytest.mark.parametrize("number", [13, 100, 225])
@pytest.mark.parametrize("damage", [bad_flag, huge_label, long_label, noise])
def test_one_damaged_event_costs_only_itself(
    damage: Callable[[bytes, int], bytes], number: int, walker: int
) -> None:
    at = starts(EVENTS)

    result = find(damage(viz.packed(EVENTS), at[number]), walker=walker)

    assert result.stop is Stop.END
    assert result.offsets.tolist() == at[:number] + at[number + 1 :]
    (gap,) = result.gaps
    assert (gap.row, gap.start, gap.end) == (number, at[number], at[number + 1])


def test_label_without_its_flag_is_skipped_alone() -> None:
    at = starts(EVENTS)

    result = find(label_of_none(viz.packed(EVENTS), at[100]))

    assert result.offsets.tolist() == at
    (gap,) = result.gaps
    assert (gap.row, gap.start, gap.end) == (101, at[100] + 46, at[101])


def test_hole_of_zeros_costs_nothing_else() -> None:
    at = starts(EVENTS)

    result = find(zeros(viz.packed(EVENTS), at[50]))

    assert len(result) == len(EVENTS)
    (gap,) = result.gaps
    assert (gap.row, gap.end - gap.start, gap.stop) == (50, 500, Stop.ZEROS)


@pytest.mark.parametrize("layout", viz.LAYOUT_IDS)
def test_events_behind_damage_are_kept_in_every_layout(
    tmp_path: Path, layout: str
) -> None:
    at = starts(EVENTS, layout)
    data = replaced(viz.packed(EVENTS, layout), at[70], b"\xa5" * 20)
    flag = at[70] + int(LAYOUT_BY_ID[layout].body_bytes[0xA5]) - 1

    trace = read(tmp_path, replaced(data, flag, b"\xa5"), layout)

    assert trace.info.n_records == len(EVENTS) - 1
    assert skipped(trace).offset == at[70]


def test_damage_in_the_first_event_is_passed() -> None:
    at = starts(EVENTS)

    result = find(bad_flag(viz.packed(EVENTS), at[0]))

    assert result.offsets.tolist() == at[1:]
    assert result.gaps[0].row == 0


@pytest.mark.parametrize("left", range(1, 8))
def test_fewer_events_are_enough_at_the_end(left: int) -> None:
    at = starts(EVENTS)
    number = len(EVENTS) - left - 1

    result = find(bad_flag(viz.packed(EVENTS), at[number]))

    assert result.offsets.tolist() == at[:number] + at[number + 1 :]


def test_fewer_events_are_enough_before_padding() -> None:
    at = starts(EVENTS)

    result = find(bad_flag(viz.packed(EVENTS), at[-4]) + bytes(300))

    assert len(result) == len(EVENTS) - 1
    assert result.stop is Stop.ZEROS


def test_few_events_between_damage_are_not_taken() -> None:
    at = starts(EVENTS)
    data = bad_flag(bad_flag(viz.packed(EVENTS), at[50]), at[55])

    result = find(data)

    (gap,) = result.gaps
    assert (gap.start, gap.end) == (at[50], at[56])


def test_events_of_another_year_are_not_taken() -> None:
    late = [Event(2, e.time + 10**16, e.ptr) for e in EVENTS[:30]]
    data = viz.packed(EVENTS[:30]) + b"\xff" * 46 + viz.packed(late, header=b"")

    result = find(data)

    assert result.stop is Stop.BAD_FLAG
    assert len(result) == 30


def test_labels_and_records_around_damage_are_whole(tmp_path: Path) -> None:
    at = starts(EVENTS)
    data = viz.packed(EVENTS)
    for number in (20, 64, 130):
        data = noise(data, at[number])

    trace = read(tmp_path, data)

    values = [e for i, e in enumerate(EVENTS) if i not in (20, 64, 130)]
    assert trace.info.n_records == len(values)
    assert {name for name in trace.strings if name.startswith("matmul")} == {
        f"matmul-{i}" for i in range(5)
    }
    assert trace.records is not None
    for row, event in enumerate(values):
        fields = {name: text for name, text, *_ in trace.records.view(row).fields}
        assert fields["timestamp_ns"] == str(event.time)
        assert fields.get("label") == event.label


def test_what_only_damage_says_is_forgotten(tmp_path: Path) -> None:
    # The damaged length leads into a label that looks like events of thread 99.
    decoy = b"".join(
        Event(2, 1 << 62, 7, 27, 0, 99, 0, label=f"decoy-{i}").packed()
        for i in range(3)
    )
    first = Event(2, EVENTS[99].time, 5, 27, label="abc").packed()
    second = Event(2, EVENTS[99].time + 1, 5, 27, label=b"x" * 9 + decoy).packed()
    jump = struct.pack("<I", 3 + 46 + 4 + 9)
    events = viz.packed(EVENTS[:100]) + replaced(first, 46, jump) + second
    fresh = Event(2, EVENTS[-1].time + 1, 5, 27, thread=2, label="fresh")
    rest = viz.packed([*EVENTS[100:], fresh], header=b"")

    trace = read(tmp_path, events + b"\xff" + rest)

    assert "skipped_bytes" in {w.code for w in trace.warnings}
    assert "decoy-0" not in trace.strings.texts()
    assert "fresh" in trace.strings.texts()
    assert trace.info.summary["threads"] == 2


def test_damage_is_reported_with_place_and_numbers(tmp_path: Path) -> None:
    at = starts(EVENTS)
    data = huge_label(viz.packed(EVENTS), at[100])

    once = skipped(read(tmp_path, data))
    thrice = skipped(read(tmp_path, bad_flag(bad_flag(data, at[130]), at[180])))

    n = at[101] - at[100]
    behind = len(EVENTS) - 101
    assert (once.severity, once.offset, once.count) == (
        Severity.DATA_LOSS,
        at[100],
        1,
    )
    assert f"{n} damaged bytes were skipped; the {behind} events" in once.message
    assert "here and at 2 other places" in thrice.message
    assert thrice.count == 3


def test_damage_without_end_is_given_up_after_many_places() -> None:
    part = viz.packed(viz.run(1, 4), header=b"") + b"\xff" * 60
    n = MAX_GAPS + 50

    result = find(viz.HEADER + part * n, walker=1 << 20)

    assert len(result.gaps) == MAX_GAPS
    assert result.stop is Stop.BAD_FLAG
    assert len(result) == 10 * (MAX_GAPS + 1)


@pytest.mark.parametrize("walker", [300, 1 << 20])
def test_walkers_do_not_change_what_is_skipped(walker: int) -> None:
    rng = np.random.default_rng(4)
    data = np.frombuffer(viz.packed(viz.run(60, 5)), np.uint8).copy()
    places = rng.integers(HEADER_BYTES, len(data), 40)
    data[places] = rng.integers(0, 256, 40, np.uint8)

    result = find(data.tobytes(), walker=walker)
    expected = find(data.tobytes(), walker=900)

    assert result.offsets.tolist() == expected.offsets.tolist()
    assert result.gaps == expected.gaps
    assert len(result) > 500


def test_search_far_behind_damage_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = viz.packed(EVENTS) + b"\xff" * 50_000 + viz.packed(EVENTS, header=b"")

    result = find(data)
    monkeypatch.setattr(walk, "REACH_BYTES", 40_000)
    given_up = find(data)

    assert len(result) == 2 * len(EVENTS)
    assert len(given_up) == len(EVENTS)


def test_damage_without_end_is_reported(tmp_path: Path) -> None:
    part = viz.packed(viz.run(1, 4), header=b"") + b"\xff" * 60

    trace = read(tmp_path, viz.HEADER + part * (MAX_GAPS + 2), "c64")

    assert "the rest was not searched" in skipped(trace).message
    assert skipped(trace).count == MAX_GAPS


def test_zeros_in_front_of_a_cut_are_the_end() -> None:
    data = viz.packed(EVENTS) + bytes((1 << 18) + 1000)

    events = find_events(data, walker_bytes=20, missing=1000)

    assert len(events) == len(EVENTS)
    assert events.stop is Stop.ZEROS


def test_search_can_be_cancelled() -> None:
    data = viz.packed(EVENTS) + b"\xff" * 200_000

    with pytest.raises(Cancelled):
        find_events(data, context=ReadContext(cancel=LosesPatience()))
