"""Frames with an `EventList` need no more to be kept and shown; with a template."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pytest

from ggscope.live.program import ProgramSource
from ggscope.model.trace import Trace
from ggscope.readers.registry import open_trace
from ggscope_capture import ring
from ggscope_capture.facts import to_sidecar
from ggscope_capture.ring_format import (
    FRAMES,
    U32,
    U64,
    EventList,
    FrameFormat,
    FrameType,
    listed_frames,
    pack,
)
from ggscope_capture.sidecar import sidecar_chunks
from ring_writer import Writer
from tracing import contents_of

pytestmark = pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the made-up writer needs Linux"
)
PAGE_READ = 99


class EventPageRead(NamedTuple):
    """Pages that the system read for the program: the template of CONTRIBUTING."""

    begin: U64
    end: U64
    pages: U32
    reserved: U32
    name: Annotated[bytes, "S8"]


@pytest.fixture
def with_page_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = FrameFormat(
        EventPageRead, listed=EventList("page_reads", "page reads", "Memory")
    )
    monkeypatch.setitem(FRAMES, PAGE_READ, reads)


@pytest.fixture
def writer(path: Path, with_page_reads: None) -> Iterator[Writer]:
    """A program that recorded two page reads and a graph."""
    writer, now = Writer(path, n_lanes=2), time.monotonic_ns()
    for i, name in enumerate((b"weights", b"kv\0x")):
        read = EventPageRead(now + 100 * i, now + 100 * i + 7 + i, 3, 0, name)
        writer.event(PAGE_READ, pack(read), now + 100 * i)
    writer.graph()
    yield writer
    writer.close()


def page_reads(trace: Trace) -> list[tuple[str, int]]:
    """Return name and duration of each span of the lane."""
    (lane,) = (i for i, lane in enumerate(trace.lanes) if lane.name == "page reads")
    assert trace.lanes[lane].group == ("Memory",)
    rows = np.flatnonzero(trace.spans.lane == lane).tolist()
    durations = trace.spans.end - trace.spans.start
    return [(trace.span_name(row), int(durations[row])) for row in rows]


def test_live_trace_has_a_lane_of_them(writer: Writer, source: ProgramSource) -> None:
    source.poll()

    assert page_reads(source.snapshot()) == [("weights", 7), ("kv", 8)]


def test_recording_keeps_and_shows_them(
    writer: Writer, path: Path, tmp_path: Path
) -> None:
    with ring.Ring(path, is_owner=False) as read:
        contents, control = contents_of(read), read.control[0].copy()
    facts = to_sidecar(contents, control)
    rows = [*facts["page_reads"]]
    chunks = sidecar_chunks(facts, [], has_names=True)
    (tmp_path / "run.json").write_bytes(b"".join(chunks))

    trace = open_trace(tmp_path / "run.json")

    assert [row["name"] for row in rows] == ["weights", "kv"]
    assert all(row.keys() == {"name", "begin", "end", "pages"} for row in rows)
    assert trace.check() == []
    assert page_reads(trace) == [("weights", 7), ("kv", 8)]


def test_listed_frames_have_times_and_keys_of_their_own() -> None:
    lists = dict(listed_frames())

    assert FrameType.COPY in lists
    assert len({each.key for each in lists.values()}) == len(lists)
    for kind in lists:
        assert {"begin", "end"} <= set(FRAMES[kind].body.__annotations__)
