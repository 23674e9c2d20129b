"""What this machine can do at all: the limits that figures are held against.

    python packaging/bench_limits.py RECORDS.bin EVENTS.ggmlviz TRACE.npu.json

Prints JSON. Every limit is a rate, more is better, the best of several tries: noise
only ever makes a machine look slower than it is. A process of its own, because the
memory that it takes would count as the program's.
"""

import ctypes
import gc
import json
import math
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

BLOCK = 256 * 1024
MAX_READ = 1 << 30
SOURCE = r"""
#include <stdint.h>
#include <string.h>

/* Sum one 8-byte field of every record: what a scan of the file cannot beat. */
uint64_t sum_field(const uint8_t *data, int64_t n, int64_t stride) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t value;
        memcpy(&value, data + i * stride, sizeof value);
        sum += value;
    }
    return sum;
}

/* Count ggml-viz events by jumping from label to label. */
int64_t walk_events(const uint8_t *data, int64_t size) {
    int64_t at = 12, n = 0;
    while (at + 50 <= size) {
        uint32_t length = 0;
        if (data[at + 45]) {
            memcpy(&length, data + at + 46, sizeof length);
            at += 4;
        }
        at += 46 + (int64_t)length;
        n++;
    }
    return n;
}
"""


class Event(msgspec.Struct, gc=False):
    """The fields of a timeline event that any reader must decode."""

    type: str
    start_cycle: int = -1
    end_cycle: int = -1
    cycle: int = -1
    engine: str = ""
    engine_id: int = -1
    cmdq_id: int = -1
    layer_id: str | None = None
    tile_id: str = ""
    op: str = ""
    bytes: int = -1
    addr: int = -1


class Document(msgspec.Struct, gc=False):
    """An NPU trace."""

    timeline_events: list[Event]


def best(work: Callable[[], object], tries: int = 5) -> float:
    """Return the seconds of the quickest of some tries."""
    seconds = math.inf
    for _ in range(tries):
        begin = time.perf_counter()
        work()
        seconds = min(seconds, time.perf_counter() - begin)
    return max(seconds, 1e-9)


def python_rate() -> float:
    """Return million turns per second of a loop in plain Python."""

    def loop() -> int:
        total, seen = 0, {}
        for i in range(300_000):
            seen[i & 255] = total
            total += len(seen) ^ i
        return total

    return 0.3 / best(loop)


def numpy_rate() -> float:
    """Return million numbers per second through sort, running sum and gather."""
    values = np.random.default_rng(1).integers(0, 1 << 40, 1_000_000)

    def work() -> object:
        order = np.argsort(values, kind="stable")
        return np.cumsum(values[order])

    return 1 / best(work)


def searchsorted_rate() -> float:
    """Return how often per second 2,000 edges are found among 10 million numbers."""
    values = np.arange(10_000_000, dtype=np.int64) * 3
    edges = np.linspace(0, values[-1], 2000).astype(np.int64)
    return 1 / best(lambda: np.searchsorted(values, edges), 50)


def read_rate(path: Path) -> float:
    """Return GB/s of reading a cached file in blocks of 256 KiB."""
    buffer = bytearray(BLOCK)

    def read() -> int:
        done = 0
        with path.open("rb", buffering=0) as file:
            while done < MAX_READ and (n := file.readinto(buffer)):
                done += n
        return done

    return min(path.stat().st_size, MAX_READ) / best(read, 3) / 1e9


def first_touch_rate() -> float:
    """Return GB/s at which new memory is taken into use."""
    size = 1 << 28

    def touch() -> None:
        with mmap.mmap(-1, size) as memory:
            memory[:: mmap.PAGESIZE] = bytes(len(range(0, size, mmap.PAGESIZE)))

    return size / best(touch, 3) / 1e9


def copy_rate() -> float:
    """Return GB/s of copying memory that is in use already."""
    source = np.ones(1 << 25, np.int64)
    target = np.ones_like(source)
    return source.nbytes / best(lambda: np.copyto(target, source)) / 1e9


def blit_rate() -> float:
    """Return how many pictures of 1920x1080 QPainter copies per second."""
    from PySide6.QtGui import QImage, QPainter

    source = QImage(1920, 1080, QImage.Format.Format_RGB32)
    target = QImage(1920, 1080, QImage.Format.Format_RGB32)
    source.fill(0xFF204060)

    def draw() -> None:
        painter = QPainter(target)
        for _ in range(20):
            painter.drawImage(0, 0, source)
        painter.end()

    return 20 / best(draw)


def kernels() -> ctypes.CDLL | None:
    """Return the two C loops, or None where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory(prefix="ggscope-bench-") as folder:
        code, built = Path(folder) / "limits.c", Path(folder) / "limits.so"
        code.write_text(SOURCE)
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(built), str(code)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
        library = ctypes.CDLL(str(built))
    library.sum_field.restype = ctypes.c_uint64
    library.sum_field.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    library.walk_events.restype = ctypes.c_int64
    library.walk_events.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    return library


def field_rate(path: Path, library: ctypes.CDLL | None) -> float:
    """Return million records of 256 bytes per second, of which one field is read."""
    n = min(path.stat().st_size, MAX_READ) // 256
    data = np.memmap(path, np.uint8, "r", shape=(n * 256,))
    if library is None:
        field = data.reshape(n, 256)[:, :8].copy().view(np.uint64)
        return n / best(field.sum, 3) / 1e6
    return n / best(lambda: library.sum_field(data.ctypes.data, n, 256), 3) / 1e6


def walk_rate(path: Path, library: ctypes.CDLL) -> float:
    """Return million ggml-viz events per second whose beginnings a C loop finds."""
    data = np.fromfile(path, np.uint8)
    n: int = library.walk_events(data.ctypes.data, len(data))
    seconds = best(lambda: library.walk_events(data.ctypes.data, len(data)))
    return n / seconds / 1e6


def decode_rate(path: Path) -> float:
    """Return MB/s of msgspec's typed decoding, everything kept."""
    data = path.read_bytes()
    decoder = msgspec.json.Decoder(Document)
    gc.disable()
    seconds = best(lambda: decoder.decode(data), 2)
    gc.enable()
    return len(data) / seconds / 1e6


def machine_rates() -> dict[str, float]:
    """Return the rates that need no file; they make machines comparable."""
    return {
        "python_m_s": python_rate(),
        "numpy_m_s": numpy_rate(),
        "copy_gb_s": copy_rate(),
        "first_touch_gb_s": first_touch_rate(),
        "searchsorted_2000_s": searchsorted_rate(),
        "blit_fps": blit_rate(),
    }


def main() -> int:
    """Measure and print."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    records, events, document = (Path(a) if a else None for a in sys.argv[1:4])
    library = kernels()
    rates = machine_rates()
    if records is not None:
        rates["page_cache_gb_s"] = read_rate(records)
        rates["field_m_s"] = field_rate(records, library)
    if events is not None and library is not None:
        rates["viz_walk_m_s"] = walk_rate(events, library)
    if document is not None:
        rates["msgspec_mb_s"] = decode_rate(document)
    print(json.dumps({name: float(f"{rate:.4g}") for name, rate in rates.items()}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
