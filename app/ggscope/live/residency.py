"""What of model files is in the page cache: the kernel is asked, no page is touched.

`mincore` reports for each page of a mapping whether the page cache holds it. The viewer
maps the file by itself, so this costs the traced program nothing.
"""

import ctypes
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.live.regular_file import open_regular
from ggscope.live.source import NANO
from ggscope.model.builder import TraceBuilder
from ggscope.model.growing import Growing
from ggscope.model.residency import Residency
from ggscope.model.tables import I64, CounterShape
from ggscope.model.trace import Severity

Pages = npt.NDArray[np.uint8]

INTERVAL_S, IDLE_S = 0.25, 2.0
"""Least time between samples: while the program computes, and while it does not."""
_BUSY_NS = 2 * NANO
"""So long after its last record a program is taken to compute."""
_BUSY_SHARE, _IDLE_SHARE = 0.1, 0.005
"""The share of a core that samples may take then: where a look takes longer, fewer."""
_CHUNK_PAGES = 1 << 14
"""Asked about at a time: about a millisecond."""
_FIGURES = ("read_bytes", "major_faults", "minor_faults")
_COUNTERS = (
    ("In page cache", "bytes"),
    ("Read from storage", "bytes/s"),
    ("Major faults", "faults/s"),
)


class CachedFile:
    """A file whose pages are asked about.

    Parameters
    ----------
    size : that it must have; -1 = any.

    Attributes
    ----------
    why : why nothing can be known; "" where it can.
    """

    def __init__(self, path: Path, size: int = -1) -> None:
        self.path, self.size = path, 0
        self._map: mmap.mmap | None = None
        self._bytes: Any = None
        self._descriptor = -1
        self.why = self._open(size)
        if self.why:
            self.close()

    def _open(self, size: int) -> str:
        if _mincore() is None:
            return "this system does not report which pages of a file are in memory"
        try:
            self._descriptor = open_regular(self.path, follows_links=True)
            status = os.fstat(self._descriptor)
            self.size = status.st_size
            if size not in (-1, self.size):
                return "the file is not as large as the one that the program opened"
            if not self.size:
                return "the file is empty"
            # Since Linux 5.2 mincore reports all of it as resident to other users.
            is_mine = os.geteuid() == status.st_uid
            if not is_mine and not _may_write(self.path):
                return (
                    "the file belongs to another user; residency is shown only to "
                    "users who may write it"
                )
            self._map = mmap.mmap(
                self._descriptor, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ
            )
        except (OSError, ValueError) as error:
            return f"the file cannot be mapped: {getattr(error, 'strerror', error)}"
        self._bytes = np.frombuffer(self._map, np.uint8)
        return ""

    def close(self) -> None:
        """Let go of the file."""
        self._bytes = None
        if self._map is not None:
            self._map.close()
            self._map = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def pages(self, is_over: Callable[[], bool] = lambda: False) -> Pages | None:
        """Return which pages are in memory: 1 or 0, uint8[pages of the file].

        None where that cannot be known, see `why`, and where it `is_over` meanwhile.
        """
        if self.why:
            return None
        if os.fstat(self._descriptor).st_size != self.size:
            self.why = "the file changed while it was watched"
            return None
        mincore, address = _mincore(), int(self._bytes.ctypes.data)
        assert mincore is not None
        pages = np.zeros(-(-self.size // mmap.PAGESIZE), np.uint8)
        for first in range(0, len(pages), _CHUNK_PAGES):
            if is_over():
                return None
            n = min(_CHUNK_PAGES, len(pages) - first)
            begin = address + first * mmap.PAGESIZE
            # The library lets go of the interpreter's lock while it is called.
            if mincore(begin, n * mmap.PAGESIZE, pages.ctypes.data + first):
                self.why = (
                    f"the system does not report it: {os.strerror(ctypes.get_errno())}"
                )
                return None
        pages &= 1
        return pages


def resident_bytes(pages: Pages | None, size: int, begin: I64, stop: I64) -> I64:
    """Return how many bytes of each range of a file are in memory, int64[n].

    A page counts with those of its bytes that lie in the range. -1 for ranges that
    leave the file of `size` bytes, and for all where the pages are not known.
    """
    if pages is None:
        return np.full(len(begin), -1, np.int64)
    edges, which = np.unique(np.concatenate([begin, stop]), return_inverse=True)
    edges = np.clip(edges, 0, size)
    page, total = mmap.PAGESIZE, 0
    below = np.zeros(len(edges), np.int64)
    for first in range(0, len(pages), _CHUNK_PAGES):
        part = np.append(pages[first : first + _CHUNK_PAGES], np.uint8(0))
        last = first + len(part) - 1
        before = np.concatenate([[0], np.cumsum(part[:-1], dtype=np.int64)])
        ends = np.array([first, last]) * page
        low, high = np.searchsorted(edges, ends).tolist()
        high = len(edges) if last == len(pages) else high
        at, rest = np.divmod(edges[low:high] - first * page, page)
        below[low:high] = total + before[at] * page + part[at] * rest
        total += int(before[-1]) * page
    resident = below[which[len(begin) :]] - below[which[: len(begin)]]
    inside = (begin >= 0) & (begin <= stop) & (stop <= size)
    return np.where(inside, resident, -1)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One look at all files that are watched.

    Attributes
    ----------
    begin_ns, end_ns : CLOCK_MONOTONIC.
    resident : int64[n] bytes of each tensor in the order in which they were given.
    read_bytes, major_faults, minor_faults : of the process, at the end; -1 not known.
    """

    begin_ns: int
    end_ns: int
    resident: I64
    read_bytes: int = -1
    major_faults: int = -1
    minor_faults: int = -1


class ResidencySampler(threading.Thread):
    """Looks at the files of a program's models again and again.

    Attributes
    ----------
    is_busy : whether the program computes; else there are fewer looks.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(name="ggscope-residency", daemon=True)
        self._pid = pid
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._is_over = False
        self._files: list[tuple[CachedFile, I64, I64]] = []
        self._samples: list[Sample] = []
        self._is_busy = True

    @property
    def is_busy(self) -> bool:
        """Whether the program computes."""
        return self._is_busy

    @is_busy.setter
    def is_busy(self, is_busy: bool) -> None:
        if is_busy and not self._is_busy:
            self._wake.set()
        self._is_busy = is_busy

    def watch(self, path: Path, size: int, begin: I64, stop: I64) -> str:
        """Watch ranges of a file of `size` bytes too; return why that cannot be."""
        file = CachedFile(path, size)
        with self._lock:
            self._files.append((file, begin, stop))
        return file.why

    def take(self) -> list[Sample]:
        """Return the samples since the last call."""
        with self._lock:
            samples, self._samples = self._samples, []
        return samples

    def why(self) -> str:
        """Return why some file is not known; "" where all are."""
        with self._lock:
            return next((file.why for file, _, _ in self._files if file.why), "")

    def end(self) -> None:
        """Look no more."""
        self._is_over = True
        self._wake.set()

    def run(self) -> None:
        """Look until that is over."""
        try:
            while not self._is_over and threading.main_thread().is_alive():
                began = time.monotonic_ns()
                self._look(began)
                took = (time.monotonic_ns() - began) / NANO
                self._wait(began, took)
        finally:
            for file, _, _ in self._files:
                file.close()

    def _wait(self, began: int, took: float) -> None:
        """Wait until the next look; that is sooner where computing begins."""
        while not self._is_over:
            self._wake.clear()
            min_interval, share = INTERVAL_S, _BUSY_SHARE
            if not self._is_busy:
                min_interval, share = IDLE_S, _IDLE_SHARE
            due = began / NANO + max(min_interval, took / share)
            left = due - time.monotonic()
            if left <= 0:
                return
            self._wake.wait(min(left, IDLE_S))

    def _look(self, began: int) -> None:
        with self._lock:
            files = list(self._files)
        resident = [
            resident_bytes(file.pages(lambda: self._is_over), file.size, begin, stop)
            for file, begin, stop in files
        ]
        figures = process_figures(self._pid)
        sample = Sample(began, time.monotonic_ns(), np.concatenate(resident), *figures)
        with self._lock:
            if not self._is_over:
                self._samples.append(sample)


def process_figures(pid: int) -> tuple[int, int, int]:
    """Return (bytes read from storage, major faults, minor faults); -1 not known.

    Linux alone has them of another process, and only to its own user.
    """
    read = major = minor = -1
    folder = Path(f"/proc/{pid}")
    try:
        text = (folder / "stat").read_text("utf-8", "replace")
        fields = text.rpartition(")")[2].split()
        minor, major = int(fields[7]), int(fields[9])
    except (OSError, ValueError, IndexError):
        pass
    try:
        for line in (folder / "io").read_text("ascii", "replace").splitlines():
            name, _, number = line.partition(":")
            if name == "read_bytes":
                read = int(number)
    except (OSError, ValueError):
        pass
    return read, major, minor


class ResidencyLog:
    """The samples of a program so far, as columns of its trace."""

    def __init__(self) -> None:
        self._columns = {
            name: Growing(np.int64) for name in ("begin", "end", "state", *_FIGURES)
        }
        self._states: Growing | None = None
        self._last: I64 | None = None
        self._counters: dict[int, int] = {}
        self._values = [(Growing(np.int64), Growing(np.float64)) for _ in _COUNTERS]
        self._before: Sample | None = None
        self._was_quiet = False
        self.total = -1
        """Bytes of the model in memory by the last sample; -1 not known."""

    def __len__(self) -> int:
        return len(self._columns["begin"])

    @property
    def last(self) -> Sample | None:
        """The last sample."""
        return self._before

    def add(self, sample: Sample, origin: int) -> bool:
        """Add a sample; return whether it is new. `origin` is tick 0 in ns."""
        is_same = self._last is not None and np.array_equal(self._last, sample.resident)
        if not is_same:
            self._add_state(sample.resident)
        assert self._states is not None
        row: dict[str, int] = {name: getattr(sample, name) for name in _FIGURES}
        row |= {"begin": sample.begin_ns - origin, "end": sample.end_ns - origin}
        row["state"] = len(self._states) - 1
        for name, column in self._columns.items():
            column.append(np.array([row[name]], np.int64))
        known = sample.resident[sample.resident >= 0]
        self.total = int(known.sum()) if len(known) else -1
        self._add_level(row["end"])
        is_quiet = self._add_rates(sample, row["end"], origin)
        has_news = not is_same or not is_quiet or not self._was_quiet
        self._was_quiet, self._before = is_quiet, sample
        return has_news

    def _add_state(self, resident: I64) -> None:
        n = len(resident)
        if self._last is None or len(self._last) != n:  # another file came
            old = self._states
            self._states = Growing(np.int64, max(n, 2))  # of one they have no rows
            if old is not None:
                wide = np.full((len(old), max(n, 2)), -1, np.int64)
                wide[:, : old.view().shape[1]] = old.view()
                self._states.append(wide)
        assert self._states is not None
        row = np.full((1, max(n, 2)), -1, np.int64)
        row[0, :n] = resident
        self._states.append(row)
        self._last = resident

    def _add_level(self, now: int) -> None:
        when, value = self._values[0]
        when.append(np.array([now], np.int64))
        value.append(np.array([np.nan if self.total < 0 else self.total]))

    def _add_rates(self, sample: Sample, now: int, origin: int) -> bool:
        """Note what was read since the last sample; return whether that was nothing."""
        before, is_quiet = self._before, True
        for (when, value), name in zip(self._values[1:], _FIGURES, strict=False):
            rate = np.nan
            old = -1 if before is None else int(getattr(before, name))
            new = int(getattr(sample, name))
            if before is not None and min(old, new) >= 0:
                took = max(sample.end_ns - before.end_ns, 1) / NANO
                rate = max(new - old, 0) / took
                is_quiet = is_quiet and new <= old
            # A rate is that of the time before; what comes next is not known yet.
            begin = now if before is None else before.end_ns - origin
            at = max(len(value) - 1, 0)
            when.put(at, np.array([begin, now][: 1 + (before is not None)], np.int64))
            rates = [rate, np.nan] if before is not None else [np.nan]
            value.put(at, np.array(rates))
        return is_quiet

    def put_counters(self, builder: TraceBuilder) -> None:
        """Put what is known into counters of the trace."""
        for i, (name, unit) in enumerate(_COUNTERS):
            when, value = (column.view() for column in self._values[i])
            if i in self._counters:
                builder.set_counter(self._counters[i], when, value)
            elif not np.isnan(value).all():
                self._counters[i] = builder.add_counter(
                    name, unit, CounterShape.LEVEL, when, value
                )

    def residency(
        self, tensors: list[int], places: list[tuple[int, int]], why: str
    ) -> Residency | None:
        """Return all of it; None without a sample. `tensors` as they were watched."""
        if self._states is None or self._last is None:
            return None
        resident = self._states.view()[:, : len(self._last)]
        return Residency(
            **{name: column.view() for name, column in self._columns.items()},
            resident=resident,
            tensors=np.array(tensors[: resident.shape[1]], np.int32),
            places=np.array(places, np.uint64).reshape(-1, 2),
            why=why,
        )


class ProgramResidency:
    """The page cache of one program's models: from its definitions to its trace.

    Costs nothing until a model and its tensors are known.

    Attributes
    ----------
    newest : CLOCK_MONOTONIC ns at which the last sample ended; 0 before the first.
    model_bytes : of all tensors that are watched; -1 where there are none.
    """

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._log = ResidencyLog()
        self._sampler: ResidencySampler | None = None
        # By number of the model: its file, how large it is, how many tensors it has.
        self._models: dict[int, tuple[Path, int, int]] = {}
        self._waiting: dict[int, list[tuple[int, int, int]]] = {}
        self._n_waiting = 0
        self._rows: list[int] = []
        self._places: list[tuple[int, int]] = []
        self._why = ""
        self._n_records, self._computed_at = -1, 0
        self.newest, self.model_bytes = 0, -1

    def add_model(self, number: int, path: Path, size: int, n_tensors: int) -> None:
        """Note a model file that the program opened."""
        self._models.setdefault(number, (path, size, n_tensors))

    def add_tensor(self, model: int, row: int, offset: int, size: int) -> None:
        """Note a tensor of a model: its row in the trace, and where it lies."""
        if offset >= 0 and size > 0:
            self._waiting.setdefault(model, []).append((row, offset, size))

    def add_place(self, address: int, size: int) -> None:
        """Note where a model file is mapped in the program."""
        self._places.append((address, min(address + size, (1 << 64) - 1)))

    def poll(self, pid: int, origin: int, n_records: int) -> bool:
        """Take new samples; return whether they say anything new. Never waits.

        `origin` is tick 0 in CLOCK_MONOTONIC ns, `n_records` how many there are.
        """
        if self._waiting:
            self._watch(pid)
        if self._sampler is None:
            return False
        now = time.monotonic_ns()
        if n_records != self._n_records:
            self._n_records, self._computed_at = n_records, now
        self._sampler.is_busy = now - self._computed_at < _BUSY_NS
        has_news = False
        for sample in self._sampler.take():
            has_news = self._log.add(sample, origin) or has_news
            self.newest = sample.end_ns
            self._note_why(self._sampler.why())
        return has_news

    def counts(self) -> dict[str, Any]:
        """Return what `SourceStatus` holds of it, by the names there; -1 not known."""
        last = self._log.last
        return {
            "resident_bytes": self._log.total,
            "model_bytes": self.model_bytes,
            "read_bytes": -1 if last is None else last.read_bytes,
            "major_faults": -1 if last is None else last.major_faults,
        }

    def put(self) -> None:
        """Put what is known into the trace."""
        if len(self._log):
            self._log.put_counters(self._builder)
            self._builder.residency = self._log.residency(
                self._rows, self._places, self._why
            )

    def end(self) -> None:
        """Look no more; what was seen stays."""
        if self._sampler is not None:
            self._sampler.end()

    def _watch(self, pid: int) -> None:
        n = sum(map(len, self._waiting.values()))
        is_growing, self._n_waiting = n != self._n_waiting, n
        for number, rows in list(self._waiting.items()):
            path, size, n_tensors = self._models.get(number, (None, 0, 0))
            # The rest may be on its way; a file is mapped once.
            if is_growing and len(rows) < n_tensors:
                continue
            del self._waiting[number]
            if path is None:
                continue
            if self._sampler is None:
                self._sampler = ResidencySampler(pid)
            row, begin, n_bytes = np.array(rows, np.int64).T
            self._note_why(self._sampler.watch(path, size, begin, begin + n_bytes))
            self._rows += row.tolist()
            self.model_bytes = max(self.model_bytes, 0) + int(n_bytes.sum())
            if not self._sampler.is_alive():
                self._sampler.start()

    def _note_why(self, why: str) -> None:
        if why and not self._why:
            self._why = why
            self._builder.warn(
                Severity.NOTICE,
                "live_residency",
                f"what of the model is in memory is not known: {why}.",
            )


@cache
def _mincore() -> Callable[[int, int, int], int] | None:
    """Return the system's own function; None where it has none."""
    if sys.platform == "win32":
        return None
    try:
        mincore = ctypes.CDLL(None, use_errno=True).mincore
    except (OSError, AttributeError):
        return None
    mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    mincore.restype = ctypes.c_int
    return mincore


def _may_write(path: Path) -> bool:
    try:
        return os.access(path, os.W_OK, effective_ids=True)
    except NotImplementedError:
        return os.access(path, os.W_OK)
