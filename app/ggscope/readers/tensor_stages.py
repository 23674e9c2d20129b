"""Early pictures of a tensor trace: when to publish one, and what it can promise.

While the file is read, the spans so far are published now and then. The rest of the
file is looked at in a few places only, to tell how far it reaches.
"""

import time
from collections.abc import Callable

import numpy as np

from ggscope.model.strings import StringTable
from ggscope.model.tables import I64
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace
from ggscope.readers.records import MAX_TIMESTAMP
from ggscope.readers.source import Source
from ggscope.readers.tensor_build import assemble_part, make_job
from ggscope.readers.tensor_columns import NEVER
from ggscope.readers.tensor_job import File
from ggscope.readers.tensor_joined import joined_rows, op_starts
from ggscope.readers.tensor_order import Work
from ggscope.readers.tensor_passes import arrange
from ggscope.readers.tensor_ranges import Ranges, spread_records
from ggscope.readers.tensor_scan import Scan

FIRST_S = 0.04
"""When the first early picture is due; it takes about as long to make."""

SHORT_S = 0.15
"""A file that is read sooner needs no early picture."""

MOST = 8
GROWTH = 2
"""A further picture shows at least so many times as much."""

_COST_SHARE = 0.2
"""What all early pictures may take of the time for reading."""

_LARGEST_SHARE = 0.4
"""No early picture of more than this share of the file: its arrays lie beside those
of the whole trace until that replaces them."""

_N_PROBES = 64
_TAIL_RECORDS = 256
_U64 = np.uint64


class Outlook:
    """Time stamps of some records of the whole file.

    Attributes
    ----------
    low, high : the earliest and the latest stamp seen; (`NEVER`, -1) for none.
    """

    def __init__(self, source: Source, size: int, ranges: Ranges) -> None:
        numbers, stamps = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        tail = max(ranges[-1][0], ranges[-1][1] - _TAIL_RECORDS) if ranges else 0
        spots = [(number, 1) for number in spread_records(ranges, _N_PROBES)]
        spots += [(tail, ranges[-1][1] - tail)] if ranges else []
        for first, count in spots:
            block = source.array(first * size, count * size)
            whole = block[: len(block) // size * size].reshape(-1, size)
            time_of = np.ascontiguousarray(whole[:, :8]).view(_U64)[:, 0]
            # An all-zero record has no stamp.
            good = (time_of > 0) & (time_of <= _U64(MAX_TIMESTAMP))
            numbers.append(first + np.flatnonzero(good))
            stamps.append(time_of[good].astype(np.int64))
        self._numbers, self._stamps = np.concatenate(numbers), np.concatenate(stamps)
        has_any = bool(len(self._stamps))
        self.low = int(self._stamps.min()) if has_any else NEVER
        self.high = int(self._stamps.max()) if has_any else -1

    def earliest_from(self, record: int) -> int | None:
        """Return the earliest stamp of the known records from `record` on."""
        later = self._stamps[self._numbers >= record]
        return int(later.min()) if len(later) else None


class _Lateness:
    """How far the stamps of the file go back behind earlier ones."""

    def __init__(self) -> None:
        self.latest = 0
        self.most = 0
        self._n = 0

    def add(self, stamps: I64, work: Work) -> None:
        """Take the stamps of all rows so far, of which some are known already."""
        for piece in work.pieces(len(stamps), self._n):
            part = stamps[piece]
            ahead = np.maximum(np.maximum.accumulate(part), self.latest)
            self.most = max(self.most, int((ahead - part).max()))
            self.latest = int(ahead[-1])
        self._n = len(stamps)


class Pace:
    """Decides when an early picture is worth its time.

    Parameters
    ----------
    clock : seconds from anywhere.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._spent = 0.0
        self._price = 0.0
        self._last = 0
        self._count = 0

    def is_due(self, done: int, total: int) -> bool:
        """Tell whether to publish, with `done` of `total` records read."""
        if not done or self._count >= MOST or done > _LARGEST_SHARE * total:
            return False
        reading = self._clock() - self._began - self._spent
        if not self._count:
            return reading >= FIRST_S and reading * total / done >= SHORT_S
        cost = self._spent + self._price * done
        affordable = _COST_SHARE * reading * total / done
        return done >= GROWTH * self._last and cost <= affordable

    def note(self, done: int, seconds: float) -> None:
        """Note that a picture of `done` records took some time."""
        self._spent += seconds
        self._price = seconds / done
        self._last = done
        self._count += 1

    @property
    def is_slow(self) -> bool:
        """Whether reading takes so long that early pictures are wanted."""
        return self._count > 0 or self._clock() - self._began >= SHORT_S

    def timed(self, publish: Callable[[], None], done: int) -> None:
        """Publish, and note what it took."""
        began = self._clock()
        publish()
        self.note(done, self._clock() - began)


class Stages:
    """Publishes the spans so far while a file is being scanned."""

    def __init__(
        self,
        file: File,
        ranges: Ranges,
        work: Work,
        publish: Callable[[Trace], None],
    ) -> None:
        self._file = file
        self._work = work
        self._publish = publish
        self._ranges = ranges
        self._outlook: Outlook | None = None
        self._lateness = _Lateness()
        self.pace = Pace()

    def offer(self, scan: Scan) -> None:
        """Publish what the scan has, if it is time for that."""
        if scan.is_done or not scan.n_rows:
            return
        if self.pace.is_due(scan.n_done, scan.n_all):
            self.pace.timed(lambda: self._publish(self._part(scan)), scan.n_done)

    def _part(self, scan: Scan) -> Trace:
        columns, work = scan.columns(), self._work
        if self._outlook is None:
            size = self._file.choice.wants.layout.size
            self._outlook = Outlook(self._file.source, size, self._ranges)
        outlook = self._outlook
        self._lateness.add(columns.time, work)
        earliest = int(np.argmin(columns.time))
        origin = min(int(columns.time[earliest]), outlook.low)
        threads = scan.threads
        marks = scan.pass_marks(earliest)
        rows = arrange(columns, threads, marks, work, origin=origin)
        if self._file.choice.wants.layout.source is None:
            starts = op_starts(rows, columns.op, self._file.ops, work)
            rows = joined_rows(rows, starts)
        strings = StringTable()
        job = make_job(self._file, scan.tally, threads, columns, rows, strings, work)
        until = self._lateness.latest - self._lateness.most
        ahead = outlook.earliest_from(scan.next_record)
        if ahead is not None:
            until = min(until, ahead)
        extent = TimeRange(0, max(outlook.high - origin, 0))
        return assemble_part(job, strings, max(until - origin, 0), extent)
