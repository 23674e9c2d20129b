"""What this machine reaches at most: memory bandwidth and arithmetic, measured."""

import os
import platform
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np

from ggscope.atomic_write import make_folder, write_file
from ggscope.model.trace import Trace
from ggscope.native.library import library

_BYTES = 256 << 20
"""Read by each thread; beyond the caches of any processor of today."""
_ROUNDS = 5
_STEPS = 1 << 22
"""Of multiply-adds of each thread."""
_LANES = 64
"""Independent sums of one step, so that none waits for the one before."""
FORMAT = 1


class MachinePeak(msgspec.Struct, frozen=True):
    """Rates that were measured on a machine.

    Attributes
    ----------
    host, cpu : its name, and the model of its processor.
    n_threads : threads that were used.
    read : bytes per second that they read from memory.
    flops : float32 operations per second, two for each multiply-add.
    measured : seconds since 1970.
    """

    host: str
    cpu: str
    n_threads: int
    read: float
    flops: float
    measured: float
    format: int = FORMAT


def measure(n_threads: int | None = None) -> MachinePeak:
    """Return what the machine reaches; takes some seconds.

    The best of some rounds counts: other programs only make it less.

    Parameters
    ----------
    n_threads : None = as many as the process may use at once.
    """
    n = n_threads or available_cores()
    native = library()
    blocks = [np.ones(_BYTES // 8, np.uint64) for _ in range(n)]
    sums = [np.zeros(_LANES, np.float32) for _ in range(n)]

    def read(i: int) -> int:
        return int(native.ggscope_machine_read(blocks[i], len(blocks[i])))

    def compute(i: int) -> int:
        native.ggscope_machine_multiply_add(sums[i], _STEPS)
        return 0

    with ThreadPoolExecutor(n) as pool:

        def best(work: object) -> float:
            took = []
            for _ in range(_ROUNDS):
                began = time.perf_counter()
                list(pool.map(work, range(n)))  # type: ignore[arg-type]  # as above
                took.append(time.perf_counter() - began)
            return min(took)

        read_s, compute_s = best(read), best(compute)
    return MachinePeak(
        platform.node(),
        cpu_model(),
        n,
        n * _BYTES / read_s,
        2.0 * n * _STEPS * _LANES / compute_s,
        time.time(),
    )


def available_cores() -> int:
    """Return how many cores the process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_model() -> str:
    """Return the name of the processor as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def stored(folder: Path | None = None) -> MachinePeak | None:
    """Return what was measured on this machine before.

    None where nothing was, or the file is of another machine or version, or damaged:
    measuring again mends it.
    """
    try:
        text = _file(folder).read_bytes()
        peak = msgspec.json.decode(text, type=MachinePeak)
    except (OSError, msgspec.DecodeError):
        return None
    is_this = (peak.host, peak.cpu) == (platform.node(), cpu_model())
    return peak if is_this and peak.format == FORMAT else None


def store(peak: MachinePeak, folder: Path | None = None) -> Path:
    """Write what was measured; return the file. Raises WriteError."""
    target = _file(folder)
    make_folder(target.parent)
    write_file(target, msgspec.json.encode(peak), overwrite=True)
    return target


def peak_of(trace: Trace, given: float | None = None) -> float | None:
    """Return the peak of memory bandwidth in bytes per tick; None = not known.

    Parameters
    ----------
    given : bytes per second that the user states. Without it, what was measured on this
        machine counts for traces of a processor of the same name.
    """
    hz = trace.clock.per_s
    if given is None and hz and (machine := machine_of(trace)) is not None:
        given = machine.read
    return given / hz if given is not None and hz else None


def machine_of(trace: Trace) -> MachinePeak | None:
    """Return what was measured on this machine, for a trace of such a processor.

    None where nothing was, or the trace does not name a processor of the same name.
    """
    backends = trace.info.producer.get("backends")
    machine = stored() if backends else None
    is_same = machine is not None and backends and machine.cpu in backends
    return machine if is_same else None


def _file(folder: Path | None) -> Path:
    if folder is None:
        import platformdirs  # only where somebody asks for the machine

        folder = Path(platformdirs.user_data_dir("ggscope", appauthor=False))
    return folder / "machine.json"
