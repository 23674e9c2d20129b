"""What of a file is in the page cache: real files, evicted and read in part."""

import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cached_files import PAGE, evict, read_pages
from ggscope.live import residency
from ggscope.live.residency import (
    CachedFile,
    ResidencyLog,
    ResidencySampler,
    Sample,
    process_figures,
    resident_bytes,
)
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import TraceInfo

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows does not report the page cache"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "model ü.gguf"
    made.write_bytes(b"x" * (40 * PAGE + 100))
    return made


def seen(path: Path, ranges: list[tuple[int, int]]) -> list[int]:
    file = CachedFile(path)
    begin, stop = np.array(ranges, np.int64).T
    result = resident_bytes(file.pages(), file.size, begin, stop)
    file.close()
    assert file.why == ""
    return result.tolist()


def test_only_pages_that_were_read_are_resident(path):
    evict(path)
    assert seen(path, [(0, 40 * PAGE + 100)]) == [0]

    read_pages(path, 3, 2)
    read_pages(path, 40, 1)

    ranges = [
        (0, 40 * PAGE + 100),
        (3 * PAGE + 10, 5 * PAGE),  # begins within a page that is there
        (4 * PAGE, 6 * PAGE + 1),  # ends within one that is not
        (40 * PAGE, 40 * PAGE + 100),  # the last page is not whole
        (5 * PAGE, 40 * PAGE),
        (7 * PAGE, 7 * PAGE),
        (39 * PAGE, 50 * PAGE),  # beyond the file
    ]
    assert seen(path, ranges) == [2 * PAGE + 100, 2 * PAGE - 10, PAGE, 100, 0, 0, -1]


def test_asking_brings_no_page_in(path):
    evict(path)
    file = CachedFile(path)
    for _ in range(3):
        assert not file.pages().any()
    file.close()


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_ranges_are_counted_as_page_by_page_whatever_the_chunk(monkeypatch, chunk):
    monkeypatch.setattr(residency, "_CHUNK_PAGES", chunk)
    random = np.random.default_rng(5)
    size = 50 * PAGE - 17
    pages = random.integers(0, 2, 50).astype(np.uint8)
    begin = random.integers(0, size, 200)
    stop = np.minimum(begin + random.integers(0, 9 * PAGE, 200), size)
    held = np.repeat(pages, PAGE)

    result = resident_bytes(pages, size, begin, stop)

    expected = [int(held[a:b].sum()) for a, b in zip(begin, stop, strict=True)]
    assert result.tolist() == expected


def test_file_of_somebody_else_is_not_known_rather_than_resident(path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(path).st_uid + 1)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)

    file = CachedFile(path)

    assert "belongs to another user" in file.why
    assert file.pages() is None
    assert resident_bytes(None, file.size, np.array([0]), np.array([9])).tolist() == [
        -1
    ]


@pytest.mark.parametrize(
    ("make", "size", "why"),
    [
        (lambda path: path.write_bytes(b""), -1, "empty"),
        (lambda path: path.unlink(), -1, "No such file"),
        (lambda path: None, 17, "not as large as the one that the program opened"),
    ],
)
def test_file_that_cannot_be_watched_says_why(path, make, size, why):
    make(path)
    file = CachedFile(path, size)
    assert why in file.why
    assert file.pages() is None


def test_file_that_is_cut_while_it_is_watched_is_not_known(path):
    file = CachedFile(path)
    assert file.pages() is not None
    os.truncate(path, PAGE)

    assert file.pages() is None
    assert "changed" in file.why
    file.close()


def test_system_without_mincore_says_so(path, monkeypatch):
    monkeypatch.setattr(residency, "_mincore", lambda: None)
    assert "does not report" in CachedFile(path).why


def test_sampler_shows_what_became_of_the_pages(path):
    evict(path)
    sampler = ResidencySampler(os.getpid())
    whole = np.array([0]), np.array([40 * PAGE])
    assert sampler.watch(path, path.stat().st_size, *whole) == ""
    sampler.start()
    samples: list[Sample] = []
    try:
        while not samples:
            time.sleep(0.01)
            samples += sampler.take()
        read_pages(path, 0, 5)
        read_at = time.monotonic_ns()
        while samples[-1].begin_ns < read_at:
            time.sleep(0.01)
            samples += sampler.take()
    finally:
        sampler.end()
        sampler.join(5)

    assert not sampler.is_alive()
    assert samples[0].resident.tolist() == [0]
    assert samples[-1].resident.tolist() == [5 * PAGE]
    assert all(sample.begin_ns <= sample.end_ns for sample in samples)


def test_process_of_our_own_has_figures_and_one_that_is_gone_has_none():
    assert process_figures(1 << 30) == (-1, -1, -1)
    if not Path("/proc/self/stat").exists():
        pytest.skip("this system has no /proc")
    _, major, minor = process_figures(os.getpid())
    assert major >= 0
    assert minor > 0


def sample(at: int, resident: list[int], read: int = -1, major: int = -1) -> Sample:
    return Sample(at, at + 10, np.array(resident, np.int64), read, major, major)


def logged(*samples: Sample):
    log, builder = ResidencyLog(), TraceBuilder(grows=True)
    news = [log.add(one, 1000) for one in samples]
    log.put_counters(builder)
    builder.residency = log.residency([0, 1], [(0x1000, 0x2000)], "")
    trace = builder.snapshot(TraceInfo((), "x", "x", "1", 0))
    assert trace.check() == []
    return news, trace


def test_samples_that_say_the_same_share_a_state():
    news, trace = logged(
        sample(1000, [0, 5], 0, 0),
        sample(2000, [0, 5], 0, 0),
        sample(3000, [8, 5], 700, 3),
        sample(4000, [8, 5], 700, 3),
        sample(5000, [8, 5], 700, 3),
    )

    residency = trace.residency
    assert residency is not None
    assert residency.state.tolist() == [0, 0, 1, 1, 1]
    assert residency.resident.tolist() == [[0, 5], [8, 5]]
    assert residency.begin.tolist() == [0, 1000, 2000, 3000, 4000]
    assert [residency.bytes_at(i, 0) for i in range(5)] == [0, 0, 8, 8, 8]
    # The fourth ends what the third began: reading.
    assert news == [True, False, True, True, False]


def test_counters_hold_rates_over_the_time_that_they_were_measured_in():
    _, trace = logged(
        sample(1000, [0, 5], 100, 1),
        sample(500_001_000, [8, 5], 600, 3),
        sample(1_000_001_000, [8, 5], 600, 3),
    )

    held, read, faults = trace.counters
    assert held.value.tolist() == [5, 13, 13]
    assert held.time.tolist() == [10, 500_000_010, 1_000_000_010]
    assert read.time.tolist() == [10, 500_000_010, 1_000_000_010]
    np.testing.assert_array_equal(read.value, [1000, 0, np.nan])
    np.testing.assert_array_equal(faults.value, [4, 0, np.nan])
    assert [c.unit for c in trace.counters] == ["bytes", "bytes/s", "faults/s"]


def test_what_is_not_known_makes_no_counter():
    _, trace = logged(sample(1000, [-1, -1]), sample(2000, [-1, -1]))

    assert trace.counters == ()
    assert trace.residency is not None
    assert trace.residency.bytes_at(1, 0) == -1


def test_second_model_is_not_known_before_it_came():
    _, trace = logged(sample(1000, [4]), sample(2000, [4, 7]))

    residency = trace.residency
    assert residency is not None
    assert residency.resident.tolist() == [[4, -1], [4, 7]]
