"""Files that others change while they are read: a trace or a ReadError, no signal.

The change happens after the first bytes have been read, by the real system, for every
built-in reader. A mapped file would end the process with SIGBUS where it shrinks.
"""

import os
from pathlib import Path

import pytest

from ggscope.errors import ReadError
from ggscope.readers import registry
from ggscope.readers.api import ReadContext, Reader
from ggscope.readers.source import Change, Source
from reader_files import valid_file

LARGE = ("ggmlviz", "tensor-access", "npu-json")
"""Readers whose valid file is a sample of several blocks."""
READERS = tuple(info.id for info in registry.BUILTIN.values())


def outcome(reader: Reader, source: Source, context: ReadContext) -> list[str]:
    """Return what is contradictory in what was read; an error in words is fine."""
    try:
        return reader.read(source, context).check()
    except ReadError as error:
        return [] if error.message else ["an error without words"]


def shrink_to_nothing(path: Path) -> None:
    os.truncate(path, 0)


def shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def grow(path: Path) -> None:
    data = path.read_bytes()
    with path.open("ab") as file:
        file.write(data)


def rewrite(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(b"\xff" * size)


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"something else")
    other.replace(path)


def vanish(path: Path) -> None:
    path.unlink()


CHANGES = {
    shrink_to_nothing: Change.SHRUNK, shrink: Change.SHRUNK, grow: Change.GROWN,
    rewrite: Change.REWRITTEN, replace: Change.REPLACED, vanish: Change.GONE,
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", READERS)
def test_file_that_changes_while_it_is_read(
    tmp_path: Path, name: str, change: object
) -> None:
    reader = next(r for r in registry.readers() if r.info.id == name)
    path = valid_file(name, tmp_path)
    assert callable(change)

    with Source(path) as source:
        source.head(1)
        os.utime(path, ns=(0, source.modified_ns))
        change(path)
        contradictions = outcome(reader, source, ReadContext())
        result = source.change()

    assert contradictions == []
    # A file system may keep times more coarsely than two writes lie apart.
    assert result is CHANGES[change] or (change is rewrite and result is Change.NONE)


@pytest.mark.parametrize("change", [shrink, shrink_to_nothing, grow, vanish, replace])
@pytest.mark.parametrize("name", LARGE)
def test_file_that_changes_in_the_middle_of_its_reading(
    tmp_path: Path, name: str, change: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = next(r for r in registry.readers() if r.info.id == name)
    path = valid_file(name, tmp_path)
    assert callable(change)
    messages: list[int] = []

    def progress(done: int, total: int) -> None:
        if not messages:
            change(path)
        messages.append(done)

    with Source(path) as source:
        contradictions = outcome(reader, source, ReadContext(progress=progress))

    assert messages
    assert contradictions == []


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", READERS)
def test_file_that_changes_between_two_reads_says_so(
    tmp_path: Path, name: str, change: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system hands out a kilobyte at a time; half way the file changes."""
    if name == "sqlite":
        pytest.skip("SQLite reads by calls of its own")
    reader = next(r for r in registry.readers() if r.info.id == name)
    path = valid_file(name, tmp_path)
    assert callable(change)
    size, messages = path.stat().st_size, [0]
    pread, preadv = os.pread, os.preadv

    def count(n: int) -> None:
        before = messages[0]
        messages[0] += n
        if before < size // 2 <= messages[0]:
            change(path)

    def short_pread(descriptor: int, length: int, offset: int) -> bytes:
        data = pread(descriptor, min(length, 1024), offset)
        count(len(data))
        return data

    def short_preadv(descriptor: int, into: list[memoryview], offset: int) -> int:
        n = preadv(descriptor, [into[0][:1024]], offset)
        count(n)
        return n

    os.utime(path, ns=(0, 0))
    monkeypatch.setattr(os, "pread", short_pread)
    monkeypatch.setattr(os, "preadv", short_preadv)
    try:
        trace = registry.open_trace(path, reader_id=reader.info.id)
    except ReadError:
        return  # in words, too

    assert trace.check() == []
    assert [w.code for w in trace.warnings].count("file_changed") == 1
