"""A program whose model is watched: samples, tracks, and where an access came from."""

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from cached_files import PAGE, evict, read_pages
from ggscope.analysis.reads.from_disk import Origin, evidence
from ggscope.descriptions.residency import resident_text
from ggscope.descriptions.spans import access_facts
from ggscope.live.program import ProgramSource
from ggscope.live.residency import ResidencyLog, Sample, process_figures
from ring_writer import N_NODES, Writer

pytestmark = pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the made-up writer needs Linux"
)
WEIGHT = 9000
"""Bytes of the only tensor, from 4,096 on."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model ü.gguf"
    path.write_bytes(bytes(64 * PAGE))
    return path


@pytest.fixture
def running(tmp_path, model):
    """Return a source and the writer that it follows, whose model is watched."""
    writer = Writer(tmp_path / "ring", model=model)
    source = ProgramSource(tmp_path / "ring")
    yield source, writer
    source.close()
    writer.close()


def sampled_after(source: ProgramSource, begin: int):
    """Return the trace once a sample has begun after `begin`."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        source.poll()
        trace = source.snapshot()
        residency = trace.residency
        if residency is not None and residency.begin[-1] + trace.clock.origin > begin:
            return trace
        time.sleep(0.01)
    raise AssertionError("no sample came")


def first_of_lane(trace, number: int) -> list[int]:
    """Return the first spans of each thread in graph `number`."""
    names = [trace.span_name(i) for i in range(len(trace.spans))]
    values = [i for i, name in enumerate(names) if name == "node-0-0"]
    return values[4 * number : 4 * number + 4]


def test_access_that_brought_its_pages_in_came_from_disk(running, model):
    source, writer = running
    evict(model)
    before = process_figures(os.getpid())[0]
    sampled_after(source, time.monotonic_ns())
    begin = time.monotonic_ns()
    read_pages(model, 0, 4)
    if process_figures(os.getpid())[0] <= max(before, 0):
        pytest.skip("this system does not count what a process reads from storage")
    writer.graph(begin=begin)
    trace = sampled_after(source, begin + N_NODES * 1000)

    assert trace.check() == []
    for span in first_of_lane(trace, 0):
        result = evidence(trace, span, 0)
        assert result is not None
        assert result.origin is Origin.DISK
        assert (result.held_before, result.held_after) == (0, WEIGHT)
        assert result.read_bytes >= 4 * PAGE
        (fact,) = access_facts(trace, span)
        assert fact.origin == "came from disk (derived)"
        assert "0 B of 8.8 KiB in the page cache at" in fact.origin_text
        assert "from storage" in fact.origin_text
        assert "Read-ahead may have loaded it" in fact.origin_text
        # The next op reads the same tensor.
        later = evidence(trace, span + 1, 0)
        assert later is not None
        assert later.origin is Origin.EARLIER
    assert resident_text(trace, 0).startswith("8.8 KiB of 8.8 KiB at ")
    assert "measured by mincore" in resident_text(trace, 0)


def test_access_to_a_model_in_memory_was_in_memory(running, model):
    source, writer = running
    model.read_bytes()
    sampled_after(source, time.monotonic_ns())
    begin = time.monotonic_ns()
    writer.graph(begin=begin)
    trace = sampled_after(source, begin + N_NODES * 1000)

    (span, *_) = first_of_lane(trace, 0)
    (fact,) = access_facts(trace, span)
    assert fact.origin == "was in memory"
    assert fact.origin_text.startswith("was in memory (measured by mincore): ")
    status = source.status()
    assert (status.resident_bytes, status.model_bytes) == (WEIGHT, WEIGHT)
    held, *_ = trace.counters
    assert held.name == "In page cache"
    assert np.unique(held.value).tolist() == [WEIGHT]
    assert {c.name for c in trace.counters} <= {
        "In page cache", "Read from storage", "Major faults",
    }  # fmt: skip
    assert trace.read_until is not None
    assert trace.read_until >= trace.extent.end


def test_samples_alone_are_no_news():
    log = ResidencyLog()

    def news(begin_ns: int, resident: int) -> bool:
        sample = Sample(begin_ns, begin_ns + 5, np.array([resident]), 0, 0, 0)
        return log.add(sample, 0)

    assert news(10, 0)
    assert news(20, WEIGHT)
    assert [news(ns, WEIGHT) for ns in (30, 40, 50)] == [False] * 3
    assert len(log) == 5, "they are listed all the same"
    assert news(60, 0)


def test_threads_end_with_the_program_and_with_the_source(tmp_path, model):
    def samplers():
        return [t for t in threading.enumerate() if t.name == "ggscope-residency"]

    before = samplers()
    for end in ("program", "source"):
        writer = Writer(tmp_path / end, model=model)
        source = ProgramSource(tmp_path / end, look_ns=0)
        sampled_after(source, 0)
        (mine,) = [t for t in samplers() if t not in before]
        if end == "program":
            writer.end()
            source.poll()
        else:
            source.close()
        mine.join(5)
        assert not mine.is_alive()
        source.close()
        writer.close()


def test_ring_without_a_model_starts_no_thread(tmp_path):
    before = threading.active_count()
    writer = Writer(tmp_path / "ring")
    source = ProgramSource(tmp_path / "ring")
    for _ in range(3):
        writer.graph()
        source.poll()

    assert threading.active_count() == before
    assert source.snapshot().residency is None
    assert source.status().resident_bytes == -1
    source.close()
    writer.close()


def test_model_that_cannot_be_watched_is_a_notice(tmp_path, model):
    writer = Writer(tmp_path / "ring", model=model)
    os.truncate(model, 9 * PAGE)
    source = ProgramSource(tmp_path / "ring")
    writer.graph()
    trace = sampled_after(source, 0)

    (problem,) = [w for w in trace.warnings if w.code == "live_residency"]
    assert "what of the model is in memory is not known" in problem.message
    assert "not as large as the one" in problem.message
    assert "In page cache" not in {c.name for c in trace.counters}
    assert resident_text(trace, 0).startswith("unknown: the file is not as large")
    source.close()
    writer.close()


def test_figures_come_without_spans(tmp_path, model):
    writer = Writer(tmp_path / "ring", model=model)
    source = ProgramSource(tmp_path / "ring", keeps_spans=False)
    model.read_bytes()
    until = time.monotonic() + 20
    while source.status().resident_bytes < 0 and time.monotonic() < until:
        source.poll()
        time.sleep(0.01)

    assert source.status().resident_bytes == WEIGHT
    source.close()
    writer.close()
