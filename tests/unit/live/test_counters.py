"""Counters of a ring that cannot be: both packages say so and count nothing of them."""

import os
import sys
import time
from pathlib import Path

import pytest

from ggscope.live.program import ProgramSource
from ggscope.live.source import SourceStatus
from ggscope.model.trace import Trace
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_bundle
from ggscope_capture import recording
from ggscope_capture.__main__ import main
from ggscope_capture.config import resolve
from ggscope_capture.recording import Recorder
from recordings import facts_of
from ring_writer import N_NODES, Writer

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the made-up writer needs Linux"
)
LANES, CAPACITY = 2, 1 << 10
HUGE = 1 << 62
DAMAGE = {
    "dropped": lambda w: w.lanes["dropped"].__setitem__(0, HUGE),
    "all-dropped": lambda w: w.lanes["dropped"].__setitem__(slice(None), (1 << 64) - 1),
    "no-lane": lambda w: w.control["no_lane"].__setitem__(0, HUGE),
    "events-dropped": lambda w: w.control["events_dropped"].__setitem__(0, HUGE),
    "head": lambda w: w.lanes["head"].__setitem__(0, HUGE),
    "head-little": lambda w: w.lanes["head"].__setitem__(0, N_NODES + CAPACITY + 1),
    "events-head": lambda w: w.control["events_head"].__setitem__(0, HUGE),
}
"""What a hostile or broken program may write into the first page and the lanes."""


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    made = Writer(tmp_path / "ggscope-4000000001-abc", n_lanes=LANES, capacity=CAPACITY)
    made.graph()
    return made


def followed(source: ProgramSource, polls: int = 3) -> tuple[SourceStatus, Trace]:
    for _ in range(polls):
        source.poll()
    return source.status(), source.snapshot()


def codes(trace: Trace) -> set[str]:
    return {warning.code for warning in trace.warnings}


@pytest.mark.parametrize("kind", DAMAGE)
def test_viewer_counts_nothing_of_damaged_counters(kind: str, writer: Writer) -> None:
    source = ProgramSource(writer.path)
    source.poll()
    DAMAGE[kind](writer)

    messages, trace = followed(source)
    source.close()
    source.forget()

    assert "live_counters" in codes(trace) or kind == "events-dropped"
    assert messages.lost == 0
    assert messages.records == LANES * N_NODES
    assert trace.check() == []


@pytest.mark.parametrize("kind", DAMAGE)
def test_recorder_counts_nothing_of_damaged_counters(
    kind: str, writer: Writer, tmp_path: Path
) -> None:
    recorder = Recorder.begin(
        writer.path, tmp_path / "out.bin.partial", resolve({}, None, {}).settings
    )
    recorder.poll()
    DAMAGE[kind](writer)
    writer.end()
    writer.control["start_time"] = 1  # no process with this number is it
    recorder.finish()

    assert main(["recover", str(recorder.folder), "-o", str(tmp_path / "out.bin")]) == 0
    facts = facts_of(tmp_path / "out.bin")
    trace = open_bundle(survey([tmp_path / "out.bin"]))

    assert facts["records"] == LANES * N_NODES
    assert (facts["lost"], facts["lost_events"]) == (0, 0)
    assert max(facts["dropped"], facts["dropped_events"]) < HUGE
    assert facts["damaged_counters"]
    assert "capture_counters" in codes(trace)
    assert "capture_lost" not in codes(trace)


def test_sound_losses_are_counted_as_ever(writer: Writer) -> None:
    source = ProgramSource(writer.path)
    source.poll()
    for _ in range(2 * CAPACITY // N_NODES):
        writer.graph()

    messages, trace = followed(source)
    source.close()
    source.forget()

    assert messages.lost == writer.dropped > 0
    assert "live_counters" not in codes(trace)


def test_lag_is_not_known_of_times_before_the_ring(writer: Writer) -> None:
    source = ProgramSource(writer.path)
    source.poll()
    writer.graph(begin=1)  # just after the machine started

    messages, _ = followed(source, 1)
    source.close()
    source.forget()

    assert -1 <= messages.lag_ns < 60 * 10**9


def test_ring_of_another_start_of_the_machine_is_read(tmp_path: Path) -> None:
    """Its clock may be ahead of this one: nothing is known of what is too much."""
    writer = Writer(tmp_path / "ggscope-4000000001-abc", n_lanes=LANES, capacity=64)
    for _ in range(4):
        writer.graph()
    writer.control["t0_mono"] = time.monotonic_ns() + (1 << 50)
    writer.end()
    writer.control["pid"], writer.control["start_time"] = os.getpid(), 1

    ring_status = recording.ring_status(writer.path)
    source = ProgramSource(writer.path)
    messages, trace = followed(source)
    source.close()
    source.forget()

    assert ring_status.state == "ended"
    assert messages.lost == writer.dropped > 0
    assert "live_counters" not in codes(trace)
