"""How much memory there is, and whether a file would fit into it."""

import logging
import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ggscope.errors import LimitExceededError, TooLargeError
from ggscope.model.units import format_bytes, format_count
from ggscope.readers.api import Estimate
from ggscope.readers.partial_reading import NAMES_OPTION, RANGE_OPTION, parse_range

logger = logging.getLogger(__name__)

LIMIT_VARIABLE = "GGSCOPE_MEMORY_LIMIT"
_FREE_BYTES = 280 << 20
_RESERVE_SHARE = 20
"""One part in so many of all memory is left to others …"""
_RESERVE_MOST = 1 << 30
"""… but no more than this."""
_CGROUP = Path("/sys/fs/cgroup")
_PROC = Path("/proc")
# psutil knows all systems, but takes 40 ms to import, when every one counts: on
# Linux the same figures are read from the same files.


class Allowance:
    """Things that a file may still describe before they outgrow its size.

    A few bytes of text can stand for a thing of many, or for any number of things.
    What is allowed is three times the file's size and 280 MiB, so that reading stays
    below four times the size and 500 MB.

    Parameters
    ----------
    size : of the file in bytes.
    each : bytes that a thing takes at the worst moment of reading, measured.
    noun : what people call the things.

    Attributes
    ----------
    most : things in all.
    """

    def __init__(self, size: int, each: int, noun: str) -> None:
        self.most = (_FREE_BYTES + 3 * size) // each
        self._left = self.most
        self._noun = noun

    def take(self, n: int = 1) -> None:
        """Count `n` more. Raises LimitExceededError where they are too many."""
        self._left -= n
        if self._left < 0:
            raise LimitExceededError(
                f"the file has more than {self.most:,} {self._noun}, which is "
                "implausible for its size.",
                hint="Is this the right file?",
            )


@dataclass(frozen=True, slots=True)
class Fit:
    """What a file needs beside what there is.

    Attributes
    ----------
    estimate : of the whole file.
    n_records : how many records are to be read.
    bytes_per_record : memory at the worst moment of reading, per record.
    available_bytes : memory that reading may use.
    """

    estimate: Estimate
    n_records: int
    bytes_per_record: float
    available_bytes: int

    @property
    def needed_bytes(self) -> int:
        """Memory at the worst moment of reading."""
        return round(self.n_records * self.bytes_per_record)

    @property
    def fits(self) -> bool:
        """Whether the file fits into memory."""
        return self.needed_bytes <= self.available_bytes

    @property
    def n_fitting(self) -> int:
        """How many records fit, a round number, at least 1."""
        n_records = int(self.available_bytes * 0.9 / max(self.bytes_per_record, 1))
        n = min(n_records, self.estimate.records)
        if n < 10:
            return max(n, 1)
        step: int = 10 ** (int(math.log10(n)) - 1)
        return n // step * step


def judge(
    estimate: Estimate,
    options: Mapping[str, str],
    *,
    limit_bytes: int = 0,
    extra_per_record: int = 0,
) -> Fit:
    """Return whether a file of this estimate fits when it is read with `options`.

    Parameters
    ----------
    limit_bytes : memory for reading; 0 = that of ``GGSCOPE_MEMORY_LIMIT`` (MiB), else
        what is available.
    extra_per_record : bytes that the caller needs beside the trace.

    Notes
    -----
    With the option for fewer names only the spans count, for which half of the
    estimate stands.
    """
    n = estimate.records
    text = options.get(RANGE_OPTION, "")
    if text and estimate.can_range:
        try:
            first, stop = parse_range(text, n)
            n = stop - first
        except ValueError:  # the reader raises an error with a hint
            logger.debug("range %r is not understood", text)
    each = estimate.peak_bytes / max(estimate.records, 1) + extra_per_record
    if estimate.can_sample_names and options.get(NAMES_OPTION, "all") != "all":
        each /= 2
    available = memory_limit(limit_bytes) or available_bytes()
    return Fit(estimate, n, each, available)


def too_large(fit: Fit, path: Path, hint: str = "") -> TooLargeError:
    """Return the error for a file that does not fit into memory."""
    return TooLargeError(
        f"about {format_count(fit.n_records)} records need about "
        f"{format_bytes(fit.needed_bytes)} of memory; "
        f"{format_bytes(fit.available_bytes)} are available.",
        path=path,
        hint=hint,
        fit=fit,
    )


@dataclass(frozen=True, slots=True)
class MemoryGuard:
    """Refuses files that would not fit into memory, as `admit` of ``open_trace``.

    Attributes
    ----------
    path : named in the error.
    options, limit_bytes, extra_per_record : as of `judge`.
    hint : returns what the user can do.
    """

    path: Path
    options: Mapping[str, str] = field(default_factory=dict)
    limit_bytes: int = 0
    extra_per_record: int = 0
    hint: Callable[[Fit], str] = lambda _: ""

    def __call__(self, estimate: Estimate) -> None:
        """Raise TooLargeError where a file of this estimate does not fit."""
        fit = judge(
            estimate,
            self.options,
            limit_bytes=self.limit_bytes,
            extra_per_record=self.extra_per_record,
        )
        if not fit.fits:
            raise too_large(fit, self.path, self.hint(fit))


def available_bytes() -> int:
    """Return the memory that this process can still use, less a reserve for others.

    The least of what the system, its control group and its own limit leave.
    """
    available, total = system_bytes()
    free = [available, *cgroup_free_bytes(), *_limit_free_bytes()]
    reserve = min(total // _RESERVE_SHARE, _RESERVE_MOST)
    return max(min(free) - reserve, 0)


def system_bytes() -> tuple[int, int]:
    """Return the memory that the system can give, and all that it has."""
    file = _PROC / "meminfo"
    available, total = _stat(file, "MemAvailable:"), _stat(file, "MemTotal:")
    if available and total:
        return available << 10, total << 10
    import psutil

    memory = psutil.virtual_memory()
    return int(memory.available), int(memory.total)


def process_bytes() -> int:
    """Return the memory that this process has in use."""
    resident = _stat(_PROC / "self" / "status", "VmRSS:")
    if resident:
        return resident << 10
    import psutil

    return int(psutil.Process().memory_info().rss)


def memory_limit(limit_bytes: int) -> int:
    """Return the memory that a trace may take by the user's setting; 0 = none is set.

    That is `limit_bytes`, else what the environment says.
    """
    text = os.environ.get(LIMIT_VARIABLE, "")
    stated = int(text) << 20 if text.isascii() and text.isdigit() else 0
    return limit_bytes or stated


def _limit_free_bytes() -> list[int]:
    """Return what ``ulimit -v`` leaves; [] where there is none."""
    if sys.platform == "win32":
        return []
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return []
    return [max(soft - _address_bytes(), 0)]


def _address_bytes() -> int:
    """Return the size of this process's address space."""
    size = _stat(_PROC / "self" / "status", "VmSize:")
    if size:
        return size << 10
    import psutil

    return int(psutil.Process().memory_info().vms)


def cgroup_free_bytes() -> list[int]:
    """Return what the control groups of this process leave; [] where there is none."""
    if sys.platform != "linux":
        return []
    free = []
    for folder in (_CGROUP / _own_cgroup(), _CGROUP):
        limit, used = _number(folder / "memory.max"), _number(folder / "memory.current")
        if limit is None or used is None:
            continue
        # Pages of files are counted as used, but given up on demand.
        cached = _stat(folder / "memory.stat", "inactive_file")
        free.append(max(limit - used + cached, 0))
    return free


def _own_cgroup() -> str:
    try:
        lines = Path("/proc/self/cgroup").read_text("ascii", "replace").splitlines()
    except OSError:
        return ""
    own = (line[3:].lstrip("/") for line in lines if line.startswith("0::"))
    return next(own, "")


def _number(path: Path) -> int | None:
    """Return the number in a file; None where it is "max" or cannot be read."""
    try:
        text = path.read_text("ascii", "replace").strip()
    except OSError:
        return None
    return int(text) if text.isascii() and text.isdigit() else None


def _stat(path: Path, name: str) -> int:
    """Return one figure of a file of lines "name number …", 0 where it has none."""
    try:
        lines = path.read_text("ascii", "replace").splitlines()
    except OSError:
        return 0
    for line in lines:
        fields = line.split()
        if len(fields) > 1 and fields[0] == name and fields[1].isdigit():
            return int(fields[1])
    return 0
