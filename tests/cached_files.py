"""Real files whose pages are put out of the page cache, and read in again."""

import mmap
import os
from pathlib import Path

import pytest

from ggscope.live.residency import CachedFile

PAGE = mmap.PAGESIZE


def evict(path: Path) -> None:
    """Put all of a file out of the page cache; skip the test where that fails."""
    if not hasattr(os, "posix_fadvise"):
        pytest.skip("this system evicts no file on request")
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    file = CachedFile(path)
    pages = file.pages()
    file.close()
    if pages is None:
        pytest.skip(f"nothing is known of the pages here: {file.why}")
    if pages.any():
        pytest.skip("files of this file system stay in memory (tmpfs?)")


def read_pages(path: Path, first: int, n: int) -> None:
    """Bring pages in, and none beside them."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead
    for page in range(first, first + n):
        os.pread(descriptor, 1, page * PAGE)
    os.close(descriptor)
