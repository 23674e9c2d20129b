"""Whether anybody opens a file: as the kernel sees it, not as Python does."""

import ctypes
import os
import struct
import sys
from pathlib import Path

import pytest

_IN_OPEN = 0x20
_EVENT = struct.Struct("iIII")


class WatchedFile:
    """A picture that shows whether it has been opened; Linux only."""

    def __init__(self, path: Path) -> None:
        if not sys.platform.startswith("linux"):
            pytest.skip("only Linux shows who opens a file")
        self.path = path
        # One pixel: a picture that a loader takes gladly.
        path.write_bytes(
            b"P6\n1 1\n255\n\xff\x00\x00"  # PPM: known by its content, not its name
        )
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._handle = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        watch = self._libc.inotify_add_watch(
            self._handle, os.fsencode(path), ctypes.c_uint32(_IN_OPEN)
        )
        assert watch >= 0, os.strerror(ctypes.get_errno())

    def opened(self) -> int:
        """Return how often it has been opened since the last call."""
        try:
            data = os.read(self._handle, 1 << 16)
        except BlockingIOError:
            return 0
        return len(data) // _EVENT.size

    def close(self) -> None:
        """Stop watching."""
        os.close(self._handle)


__all__ = ["WatchedFile"]
