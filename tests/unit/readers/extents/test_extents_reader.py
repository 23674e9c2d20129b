"""Extent maps of filefrag: extents as they were, flags, damage."""

import random
from pathlib import Path

import pytest

from ggscope.errors import CorruptError, ReadError
from ggscope.model.storage import StorageFile
from ggscope.model.trace import Trace
from ggscope.readers.api import EXTENTS
from ggscope.readers.extents import INFO
from ggscope.readers.registry import open_trace
from storage_files import MODEL, filefrag
from support import need_corpus


def opened(tmp_path: Path, data: bytes, name: str = "x.txt") -> Trace:
    path = tmp_path / name
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.info.reader_id == "extent-map"
    assert trace.check() == []
    return trace


def files_of(trace: Trace) -> tuple[StorageFile, ...]:
    assert trace.storage is not None
    return trace.storage.files


def blocks_of(file: StorageFile) -> dict[int, int]:
    """Return where each block of a file lies, one by one."""
    e = file.extents
    return {
        int(e.logical[i]) // 4096 + k: int(e.physical[i]) // 4096 + k
        for i in range(len(e))
        for k in range(int(e.length[i]) // 4096)
    }


def random_extents(seed: int, n: int) -> list[tuple[int, int, int]]:
    rng = random.Random(seed)
    made, first, start = [], 0, 1000
    for _ in range(n):
        length = rng.randrange(1, 9)
        if rng.random() < 0.6:
            start += rng.randrange(1, 50)
        made.append((first, start, length))
        first, start = first + length, start + length
        first += rng.choice((0, 0, 3))
    return made


@pytest.mark.parametrize("seed", range(4))
def test_every_block_lies_where_the_map_says(seed, tmp_path):
    extents = random_extents(seed, 60)

    trace = opened(tmp_path, filefrag(extents))

    (file,) = files_of(trace)
    expected = {a + k: b + k for a, b, n in extents for k in range(n)}
    assert blocks_of(file) == expected
    assert file.path == MODEL
    assert len(file.extents) <= 60
    assert trace.info.summary["events"] == {"files": 1, "extents": 60}
    assert not trace.warnings


def test_role_of_a_map_is_that_of_extents():
    assert INFO.role == EXTENTS


def test_several_files_of_one_map_are_kept_apart(tmp_path):
    data = filefrag([(0, 10, 4)], path="/a b/one") + filefrag([(0, 90, 2)], path="/two")

    files = files_of(opened(tmp_path, data))

    assert [f.path for f in files] == ["/a b/one", "/two"]
    assert [blocks_of(f)[0] for f in files] == [10, 90]


def test_extents_without_a_place_are_left_out_and_reported(tmp_path):
    data = filefrag([(0, 10, 4), (4, 50, 4)]).replace(b"last,eof", b"last,delalloc,eof")

    trace = opened(tmp_path, data)

    assert blocks_of(files_of(trace)[0]) == {i: 10 + i for i in range(4)}
    assert [w.code for w in trace.warnings] == ["extents_without_place"]


def test_a_map_cut_anywhere_keeps_the_extents_before_it(tmp_path):
    extents = random_extents(1, 30)
    data = filefrag(extents)
    whole = {a + k: b + k for a, b, n in extents for k in range(n)}
    for cut in range(data.index(b"ext:") + 80, len(data) - 2):
        try:
            trace = opened(tmp_path, data[:cut])
        except ReadError:
            assert b"eof" not in data[:cut]
            continue
        blocks = blocks_of(files_of(trace)[0])
        # The length of the last one may be cut.
        assert set(blocks.items()) <= set(whole.items())
        assert {w.code for w in trace.warnings} >= {"map_without_end"}


def test_a_map_without_extents_is_refused(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(filefrag([(0, 1, 1)]).split(b"   0:")[0])

    with pytest.raises(CorruptError):
        open_trace(path)


def test_foreign_lines_are_counted(tmp_path):
    data = filefrag([(0, 10, 4)]).replace(b" ext:", b"hello\n ext:")

    trace = opened(tmp_path, data)

    assert [(w.code, w.count) for w in trace.warnings] == [("stray_line", 1)]


def test_reference_map_has_its_extents(tmp_path):
    trace = opened(
        tmp_path, (need_corpus() / "blktrace" / "filefrag_sample.txt").read_bytes()
    )

    (file,) = files_of(trace)
    assert file.size == 13792639168
    # The first two go on behind one another.
    assert file.extents.logical.tolist() == [0, 65536 * 4096]
    assert file.extents.physical.tolist() == [256000 * 4096, 400000 * 4096]
    assert file.extents.length.tolist() == [65536 * 4096, 3301808 * 4096]
