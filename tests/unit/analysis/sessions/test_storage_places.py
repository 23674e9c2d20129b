"""Requests to devices in a session: files and offsets by extents, clocks."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import storage_files
from builders import llama_like_trace
from ggscope.analysis.sessions.concatenate import concatenate
from ggscope.analysis.sessions.storage import has_own_clock, placed
from ggscope.model.storage import Storage
from ggscope.model.trace import Trace
from ggscope.model.units import Clock
from ggscope.readers.discovery import survey
from ggscope.session_loading import named_shifts, open_bundle
from storage_files import MODEL, Io, random_io
from support import need_corpus

PARTITION = 2048


def session(
    tmp_path: Path, shifts: list[tuple[str, str]] | None = None, **files: bytes
) -> Trace:
    paths = []
    for name, data in files.items():
        path = tmp_path / f"{name}.txt"
        path.write_bytes(data)
        paths.append(path)
    bundle = survey(paths)
    trace = open_bundle(bundle, shifts=named_shifts(bundle, shifts or []))
    assert trace.check() == []
    return trace


def storage_of(trace: Trace) -> Storage:
    assert trace.storage is not None
    return trace.storage


def codes(trace: Trace) -> set[str]:
    return {warning.code for warning in trace.warnings}


def extents_of(requests: list[Io], partition: int) -> list[tuple[int, int, int]]:
    """Return a map in pieces over the first two thirds of what was asked for."""
    first = min(io.sector for io in requests) - partition
    last = max(io.sector + io.size // 512 for io in requests) - partition
    begin, n = first // 8, (last - first) // 8 * 2 // 3
    pieces, at = [], 0
    while at < n:
        length = min(37 + at % 11, n - at)
        # Every other piece lies elsewhere in the file.
        logical = at if (at // 37) % 2 else at + 100_000
        pieces.append((logical, begin + at, length))
        at += length
    return sorted(pieces)


def place_of(sector: int, extents: list[tuple[int, int, int]], partition: int) -> int:
    """Return the offset in the file of a sector, by looking at every extent."""
    at = (sector - partition) * 512
    for logical, physical, length in extents:
        if physical * 4096 <= at < (physical + length) * 4096:
            return at - physical * 4096 + logical * 4096
    return -1


@pytest.mark.parametrize("partition", [0, PARTITION])
@pytest.mark.parametrize("seed", range(3))
def test_requests_lie_in_the_file_as_every_extent_looked_at_shows(
    seed, partition, tmp_path
):
    requests = random_io(seed, 150)
    extents = extents_of(requests, partition)

    trace = session(
        tmp_path,
        b=storage_files.blkparse(requests, partition=partition),
        f=storage_files.filefrag(extents),
    )

    r = storage_of(trace).requests
    expected = [place_of(s, extents, partition) for s in r.sector.tolist()]
    assert r.offset.tolist() == expected
    assert (r.file >= 0).tolist() == [at >= 0 for at in expected]
    n_out = expected.count(-1)
    assert 0 < n_out < len(expected)
    counts = {w.code: w.count for w in trace.warnings}
    assert counts["requests_outside_files"] == n_out
    code = "partition_start" if partition else "partition_unknown"
    assert code in codes(trace)


def test_of_several_partitions_that_counts_in_which_the_file_lies(tmp_path):
    requests = random_io(1, 100)
    extents = extents_of(requests, PARTITION)
    data = storage_files.blkparse(requests, partition=PARTITION)
    far = b"259,0    0        1     0.000000001  1  A   R 90000008 + 8 <- (259,2) 8\n"

    trace = session(tmp_path, b=far + data, f=storage_files.filefrag(extents))

    storage = storage_of(trace)
    assert storage.devices[0].partitions == (90_000_000, PARTITION)
    assert placed(storage).partition == (PARTITION,)
    assert "partition_ambiguous" not in codes(trace)


def test_partitions_that_fit_alike_are_reported_as_ambiguous(tmp_path):
    requests = random_io(1, 100)
    whole = [(0, 0, 10_000_000)]
    data = storage_files.blkparse(requests, partition=PARTITION)
    other = b"259,0    0        1     0.000000001  1  A   R 4104 + 8 <- (259,2) 8\n"

    trace = session(tmp_path, b=other + data, f=storage_files.filefrag(whole))

    assert "partition_ambiguous" in codes(trace)


def test_a_request_across_extents_is_reported(tmp_path):
    requests = random_io(1, 60, sizes=(131072,))
    extents = extents_of(requests, 0)

    trace = session(
        tmp_path, b=storage_files.blkparse(requests), f=storage_files.filefrag(extents)
    )

    assert "requests_across_extents" in codes(trace)


def test_reads_that_name_their_file_stay_beside_a_map(tmp_path):
    reads = storage_files.random_reads(1, 30)
    alone = session(tmp_path, s=storage_files.strace(reads))

    trace = session(
        tmp_path, s=storage_files.strace(reads), f=storage_files.filefrag([(0, 9, 9)])
    )

    a, b = storage_of(alone), storage_of(trace)
    assert (a.requests.offset == b.requests.offset).all()
    assert [f.path for f in b.files] == [f.path for f in a.files]
    by_path = {file.path: file for file in b.files}
    assert len(by_path[MODEL].extents) == 1, "the map is of a file that was read"


# -- clocks ------------------------------------------------------------------------


def with_times(begin: int) -> bytes:
    """Return a strace whose clock counts from 1970, which is one to compare with."""
    read = storage_files.Read(begin, begin + 5000, 0, 4096, MODEL, 1, "pread64")
    return storage_files.strace([read])


def test_seconds_of_blkparse_are_never_taken_for_another_clock(tmp_path):
    begin = 1_732_000_000 * 10**9
    requests = random_io(1, 20)

    trace = session(tmp_path, a=with_times(begin), b=storage_files.blkparse(requests))

    assert "other_clock" in codes(trace)
    assert storage_of(trace).is_aligned is False
    assert len(storage_of(trace).requests) == 20 + 2


def test_a_shift_that_a_person_states_aligns_the_clocks(tmp_path):
    begin = 1_732_000_000 * 10**9
    requests = random_io(1, 20)

    trace = session(
        tmp_path,
        [("b.txt", f"{begin}ns")],
        a=with_times(begin),
        b=storage_files.blkparse(requests),
    )

    assert "other_clock" not in codes(trace)
    storage = storage_of(trace)
    assert storage.is_aligned is True
    r, origin = storage.requests, trace.clock.origin
    mine = np.flatnonzero(r.sector >= 0)
    assert (r.start[mine] + origin - begin).tolist() == [io.start for io in requests]
    assert (trace.spans.start[r.span[mine]] == r.start[mine]).all()
    assert (np.diff(r.start) >= 0).all()


@pytest.mark.parametrize("apart", [0, 2 * 3600])
def test_times_since_1970_are_put_on_a_clock_that_says_when_it_began(apart, tmp_path):
    begin = 1_732_000_000 * 10**9
    reads = session(tmp_path, a=with_times(begin + apart * 10**9))
    booted = begin - 5_000_000
    trace = llama_like_trace()
    trace = replace(trace, clock=Clock("ns", 5_000_000, epoch=booted))

    whole = concatenate([trace, reads])

    is_near = apart == 0
    assert storage_of(whole).is_aligned is is_near
    assert ("other_clock" in codes(whole)) is not is_near
    if is_near:
        r = storage_of(whole).requests
        wall = [whole.clock.wall(tick) for tick in r.start.tolist()]
        assert wall == [begin - 999_000, begin]


def test_a_trace_of_times_since_1970_has_no_clock_of_its_own(tmp_path):
    own = session(tmp_path, b=storage_files.blkparse(random_io(1, 5)))
    of_day = session(tmp_path, b=with_times(1_732_000_000 * 10**9))

    assert has_own_clock(own)
    assert not has_own_clock(of_day)
    assert not has_own_clock(replace(own, storage=None))


def test_processes_keep_their_names_in_a_session(tmp_path):
    requests = random_io(1, 20)

    trace = session(
        tmp_path,
        a=with_times(1_732_000_000 * 10**9),
        b=storage_files.blkparse(requests),
    )

    r = storage_of(trace).requests
    mine = np.flatnonzero(r.sector >= 0).tolist()
    names = [trace.strings[int(r.process[i])] for i in mine]
    assert names == [io.process for io in requests]
    assert [storage_of(trace).devices[int(r.device[i])].name for i in mine] == (
        ["259,0"] * 20
    )


# -- reference trace ----------------------------------------------------------------


def test_reference_reads_lie_where_they_were_made(tmp_path):
    folder = need_corpus() / "blktrace"
    expected = json.loads((folder / "expected_reads.json").read_text())
    start = expected["start_sector"] - PARTITION
    one = storage_files.filefrag(
        [(0, start // 8, 4_000_000)], size=13_792_639_168, path="/models/m.gguf"
    )

    trace = session(
        tmp_path, b=(folder / "blkparse_1.2.0_default.txt").read_bytes(), f=one
    )

    r = storage_of(trace).requests
    mine = np.flatnonzero(r.file >= 0)
    reads = {(int(r.offset[i]), int(r.size[i])) for i in mine.tolist()}
    pairs = {
        (offset // 4096 * 4096, size) for _, offset, size in expected["reads"]
    }  # a request begins at a page
    assert pairs <= reads
    names = [trace.strings[int(r.process[i])] for i in mine.tolist()]
    assert set(names) == {"llama-cli"}
    assert "partition_start" in codes(trace)
