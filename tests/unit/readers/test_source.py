"""Bounded access to one file."""

import errno
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from ggscope.errors import (
    Cancelled,
    EmptyFileError,
    ReadError,
    TruncatedError,
    UnsupportedVersionError,
)
from ggscope.readers.api import Head, ReadContext
from ggscope.readers.source import Change, Source, read_at


@pytest.fixture
def ten_bytes(tmp_path: Path) -> Path:
    path = tmp_path / "ten.bin"
    path.write_bytes(bytes(range(10)))
    return path


def test_reads_are_exact_and_heads_are_short_at_the_end(ten_bytes: Path) -> None:
    with Source(ten_bytes) as source:
        assert source.size == 10
        assert source.head(4) == bytes(range(4))
        assert source.head(64) == bytes(range(10))
        assert source.read(3, 4) == bytes(range(3, 7))
        assert source.array(8, 100).tolist() == [8, 9]
        assert source.array(100, 5).tolist() == []
        assert source.change() is Change.NONE


def test_read_beyond_the_end_says_where_the_file_ends(ten_bytes: Path) -> None:
    with Source(ten_bytes) as source, pytest.raises(TruncatedError) as caught:
        source.read(8, 4)

    assert caught.value.offset == 10
    assert "ends at byte 10" in str(caught.value)
    assert caught.value.code == "truncated"


def test_blocks_cover_the_file_in_order(ten_bytes: Path) -> None:
    with Source(ten_bytes) as source:
        parts = [(at, block.tobytes()) for at, block in source.blocks(2, 10, block=3)]

    assert parts == [(2, b"\2\3\4"), (5, b"\5\6\7"), (8, b"\x08\x09")]


def test_blocks_stop_where_the_file_was_cut_meanwhile(ten_bytes: Path) -> None:
    with Source(ten_bytes) as source:
        os.truncate(ten_bytes, 4)
        read = b"".join(block.tobytes() for _, block in source.blocks(0, 10, block=3))

        assert read == bytes(range(4))
        assert source.change() is not Change.NONE


def test_vanished_file_counts_as_changed(ten_bytes: Path) -> None:
    with Source(ten_bytes) as source:
        ten_bytes.unlink()

        assert source.change() is Change.GONE


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: p.mkdir(), "folder"),
        (lambda p: None, "does not exist"),
        (lambda p: os.mkfifo(p), "not a regular file"),
    ],
)
def test_what_is_no_file_is_refused_in_words(
    tmp_path: Path, make: object, message: str
) -> None:
    path = tmp_path / "thing"
    make(path)  # type: ignore[operator]

    with pytest.raises(ReadError, match=message) as caught:
        Source(path)

    assert "thing" in str(caught.value)


def test_empty_file_is_its_own_error(tmp_path: Path) -> None:
    path = tmp_path / "empty.bin"
    path.touch()

    with pytest.raises(EmptyFileError, match="0 bytes") as caught:
        Source(path)

    assert caught.value.code == "empty_file"


def test_unreadable_file_is_refused_in_words(
    ten_bytes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", forbidden)

    with pytest.raises(ReadError, match="permission denied"):
        Source(ten_bytes)


def test_disk_errors_while_reading_name_the_offset(
    ten_bytes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    with Source(ten_bytes) as source:
        monkeypatch.setattr(os, "preadv", broken)
        monkeypatch.setattr(os, "pread", broken)
        with pytest.raises(ReadError, match="disk reports") as caught:
            source.array(3, 2)
        assert caught.value.offset == 3
        with pytest.raises(ReadError, match="disk reports"):
            source.read(4, 2)


def test_unknown_disk_error_is_reported_as_the_system_names_it(
    ten_bytes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> int:
        raise OSError(errno.ESTALE, "Stale file handle")

    with Source(ten_bytes) as source:
        monkeypatch.setattr(os, "preadv", broken)
        with pytest.raises(ReadError, match="Stale file handle"):
            source.array(0, 2)


def test_reads_come_together_from_short_pieces(
    ten_bytes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.pread

    with Source(ten_bytes) as source:
        monkeypatch.setattr(os, "pread", lambda fd, n, at: whole(fd, min(n, 3), at))
        assert source.read(0, 10) == bytes(range(10))


def test_closing_twice_is_harmless(ten_bytes: Path) -> None:
    source = Source(ten_bytes)
    source.close()
    source.close()

    with pytest.raises(ReadError):
        source.read(0, 1)


def test_extents_of_a_sparse_file_leave_the_hole_out(tmp_path: Path) -> None:
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        file.write(b"x" * 4096)
        file.truncate(64 << 20)

    with Source(path) as source:
        extents = source.data_extents()

    assert extents[0][0] == 0
    assert sum(end - start for start, end in extents) <= 64 << 20
    assert all(0 <= start < end <= 64 << 20 for start, end in extents)


def test_extents_fall_back_to_the_whole_file(
    ten_bytes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> int:
        raise OSError(errno.EINVAL, "no")

    with Source(ten_bytes) as source:
        monkeypatch.setattr(os, "lseek", unsupported)
        assert source.data_extents() == [(0, 10)]


def test_extents_end_where_only_a_hole_follows(
    ten_bytes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing_left(*_: object) -> int:
        raise OSError(errno.ENXIO, "no data")

    with Source(ten_bytes) as source:
        monkeypatch.setattr(os, "lseek", nothing_left)
        assert source.data_extents() == []


def test_read_at_opens_just_for_one_record(ten_bytes: Path, tmp_path: Path) -> None:
    assert read_at(ten_bytes, 2, 3) == b"\2\3\4"
    with pytest.raises(ReadError, match="does not exist"):
        read_at(tmp_path / "gone", 0, 1)


def test_array_is_own_memory(ten_bytes: Path) -> None:
    with Source(ten_bytes) as source:
        first = source.array(0, 4)
        first += 1

        assert source.array(0, 4).tolist() == [0, 1, 2, 3]
        assert first.dtype == np.uint8


def test_head_knows_the_suffix() -> None:
    assert Head("a.B.JSON", 3, b"").suffix == ".json"
    assert Head("noname", 3, b"").suffix == ""
    assert Head(".hidden", 3, b"").suffix == ""


def test_context_reports_rarely_but_always_the_end() -> None:
    seen: list[tuple[int, int]] = []
    context = ReadContext(progress=lambda *p: seen.append(p))

    for done in range(101):
        context.progress(done, 100)

    assert seen[-1] == (100, 100)
    assert len(seen) < 50
    assert not context.wants_stages
    ReadContext().progress(1, 2)


def test_context_stops_when_cancelled() -> None:
    cancel = threading.Event()
    published: list[object] = []
    context = ReadContext(cancel=cancel, publish=published.append)
    context.publish("early")  # type: ignore[arg-type]  # any value passes through
    cancel.set()

    assert context.wants_stages
    assert published == ["early"]
    with pytest.raises(Cancelled):
        context.check_cancelled()
    with pytest.raises(Cancelled):
        context.publish("late")  # type: ignore[arg-type]


def test_errors_say_file_message_and_hint() -> None:
    error = UnsupportedVersionError(
        "version 9 is not known.", path=Path("/x/a.bin"), hint="Update ggscope."
    )

    assert str(error) == "a.bin: version 9 is not known. Update ggscope."
    assert error.code == "unsupported_version"
    assert str(ReadError("plain")) == "plain"
