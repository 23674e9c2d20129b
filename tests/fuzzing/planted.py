"""A reader with faults on purpose: what shows that the campaign finds such faults."""

import ctypes
import os
import time

from ggscope.errors import ReadError
from ggscope.model.trace import Trace
from ggscope.readers.api import Head, ReadContext, ReaderInfo, Sniff
from ggscope.readers.source import Source

FAULTS = ("exception", "warning", "crash", "hang", "memory", "offset", "sanitizer")
"""What the reader does wrong; ``GGSCOPE_PLANTED`` names the one that is on."""


class PlantedReader:
    """Does wrong with one file in two, as its bytes decide."""

    info = ReaderInfo("planted", "planted faults", (".planted",), "Only for tests.")

    def sniff(self, head: Head) -> Sniff:
        """Be sure."""
        return Sniff(100)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Do the wrong that was asked for, or refuse the file."""
        data = source.head(4096)
        fault = os.environ.get("GGSCOPE_PLANTED", "")
        if sum(data) % 2:
            _do(fault, source.size)
        raise ReadError("this is no trace.", offset=0)


def _do(fault: str, size: int) -> None:
    match fault:
        case "exception":
            raise ValueError("planted")
        case "warning":
            import numpy as np

            np.float64(1e308) * np.float64(1e308)
        case "crash":
            ctypes.string_at(0)
        case "hang":
            end = time.process_time() + 3600
            while time.process_time() < end:
                pass
        case "memory":
            entries = bytearray(600 << 20)
            entries[::4096] = b"x" * len(entries[::4096])
        case "offset":
            raise ReadError("beyond.", offset=size + 1)
        case "sanitizer":
            library = ctypes.CDLL(os.environ["GGSCOPE_PLANTED_LIBRARY"])
            library.planted_overflow(8)
        case _:
            pass
