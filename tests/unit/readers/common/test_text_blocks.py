"""Blocks of lines hold each byte of a file once, and end where lines end."""

import random
from pathlib import Path

import pytest

from ggscope.readers.api import ReadContext
from ggscope.readers.common.text_blocks import (
    BLOCK_BYTES,
    LONGEST_LINE,
    line_blocks,
    scanned,
)
from ggscope.readers.source import Source


def blocks(path: Path) -> list[tuple[int, bytes, bool]]:
    """Return the blocks; they are the same read one by one and on threads."""
    with Source(path) as source:
        one_by_one = [(o, b.tobytes(), last) for o, b, last in line_blocks(source)]

        def scan(block, is_last):
            return block.tobytes(), is_last

        at_once = [(o, *part) for o, part in scanned(source, ReadContext(), scan)]
    assert at_once == one_by_one
    return one_by_one


def random_lines(seed: int, n_bytes: int) -> bytes:
    """Return lines, some longer than what is first looked at for the end of one."""
    rng, parts, size = random.Random(seed), [], 0
    while size < n_bytes:
        length = rng.choice((0, 3, 90, 5_000, 200_000))
        parts.append(rng.randbytes(length).replace(b"\n", b".") + b"\n")
        size += length + 1
    return b"".join(parts)


@pytest.mark.parametrize("end", [b"", b"cut"])
@pytest.mark.parametrize("seed", range(3))
def test_blocks_are_the_file_cut_behind_lines(
    tmp_path: Path, seed: int, end: bytes
) -> None:
    text = random_lines(seed, 3 * BLOCK_BYTES) + end
    path = tmp_path / "lines.log"
    path.write_bytes(text)
    parts = blocks(path)
    assert b"".join(part for _, part, _ in parts) == text
    offset = 0
    for begin, part, is_last in parts:
        assert begin == offset
        offset += len(part)
        assert is_last == (offset == len(text))
        assert is_last or part.endswith(b"\n")


def test_byte_order_mark_is_of_no_line(tmp_path: Path) -> None:
    path = tmp_path / "lines.log"
    path.write_bytes(b"\xef\xbb\xbfa\nb")
    assert blocks(path) == [(3, b"a\nb", True)]


def test_line_longer_than_a_block_stays_whole(tmp_path: Path) -> None:
    long = b"x" * (2 * BLOCK_BYTES + 5) + b"\n"
    path = tmp_path / "lines.log"
    path.write_bytes(b"a\n" + long + b"b\n" * BLOCK_BYTES)
    assert any(long in part for _, part, _ in blocks(path))


def test_rest_of_the_longest_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "lines.log"
    behind = b"next\n" * BLOCK_BYTES
    path.write_bytes(b"x" * (LONGEST_LINE + 10) + b"\n" + behind)
    (first, cut, is_cut), *rest = blocks(path)
    assert (first, len(cut), is_cut) == (0, LONGEST_LINE, True)
    assert b"".join(part for _, part, _ in rest) == behind


def test_file_that_is_cut_meanwhile_ends_there(tmp_path: Path) -> None:
    path = tmp_path / "lines.log"
    text = b"0123456\n" * BLOCK_BYTES
    path.write_bytes(text)
    n_left = BLOCK_BYTES + 13
    with Source(path) as source:
        with path.open("r+b") as file:
            file.truncate(n_left)
        parts = [(block.tobytes(), last) for _, block, last in line_blocks(source)]
    assert b"".join(part for part, _ in parts) == text[:n_left]
    assert parts[-1][1]
