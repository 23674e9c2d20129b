"""Bandwidth of DRAM over the windows of a trace's samples."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.once import once
from ggscope.model.npu import (
    DRAM_READ,
    DRAM_WRITE,
    HIGH_UTILISATION,
    KV_BYTES,
    STALL_CYCLES,
    npu_config,
)
from ggscope.model.tables import I64, latest_owner
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

F64 = npt.NDArray[np.float64]
READ, WRITE, TOTAL, KV = "read", "write", "total", "KV cache"
_COUNTERS = {READ: DRAM_READ, WRITE: DRAM_WRITE, KV: KV_BYTES}
_OVER = 1 + 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """One figure of the samples.

    Attributes
    ----------
    name : "read", "write", "total" or "KV cache".
    rate : float64[n], bytes per tick in each window; NaN where not stated.
    """

    name: str
    rate: F64


@dataclass(frozen=True, slots=True, eq=False)
class Bandwidth:
    """The windows of a trace in order of time, and what is moved in each.

    Attributes
    ----------
    time, window : int64[n], ticks: where each begins and how long it is (> 0).
    channels : those of which any sample states something; total only with both read
        and write, where one of them is stated.
    stalled : float64[n], stalled cycles in each window; NaN where not stated.
    peak : bytes per tick that DRAM moves at most; None where not stated.
    n_overlapping : windows that begin before an earlier one ends; sums over windows
        count bytes twice then.
    """

    time: I64
    window: I64
    channels: tuple[Channel, ...]
    stalled: F64
    peak: float | None
    n_overlapping: int

    def __len__(self) -> int:
        return len(self.time)

    def channel(self, name: str) -> Channel | None:
        """Return a channel by its name; None where the trace has none."""
        return next((c for c in self.channels if c.name == name), None)

    @property
    def top(self) -> float:
        """The highest rate of all channels; 0 without any."""
        rates = [np.nanmax(c.rate, initial=0.0) for c in self.channels]
        return float(max(rates, default=0.0))

    def high(self, share: float = HIGH_UTILISATION) -> I64:
        """Return the windows of more than a share of the peak, int64[k].

        Of the total where there is one, else of whichever channel there is.
        """
        return self._above(share)

    def over_peak(self) -> I64:
        """Return the windows of more than the peak, int64[k]."""
        return self._above(_OVER)

    def _above(self, share: float) -> I64:
        if self.peak is None or not self.channels:
            return np.zeros(0, np.int64)
        of = self.channel(TOTAL) or self.channels[0]
        return np.flatnonzero(np.nan_to_num(of.rate) > share * self.peak)

    def columns(self, name: str, begin: I64, stop: I64) -> F64:
        """Return the highest rate of a channel in each column of a picture.

        Parameters
        ----------
        begin, stop : int64[k], ticks, half-open; both ascend, each column is at least
            a tick long, and columns may share ticks.

        Returns
        -------
        float64[k], NaN where no window with a stated figure lies.
        """
        channel = self.channel(name)
        highest = np.full(len(begin), np.nan)
        if channel is None:
            return highest
        rows = np.flatnonzero(~np.isnan(channel.rate))
        rows = rows[np.argsort(channel.rate[rows], kind="stable")]
        # Of the windows over a column the last one in that order is the highest.
        first = np.searchsorted(stop, self.time[rows], "right")
        last = np.searchsorted(begin, self.time[rows] + self.window[rows], "left")
        owner = latest_owner(first, last, len(begin))
        inside = owner >= 0
        highest[inside] = channel.rate[rows[owner[inside]]]
        return highest

    def at(self, tick: int) -> I64:
        """Return the windows that hold a tick, int64[k]."""
        return np.flatnonzero((self.time <= tick) & (tick < self.time + self.window))

    def range_of(self, row: int) -> TimeRange:
        """Return the time of a window."""
        start = int(self.time[row])
        return TimeRange(start, start + int(self.window[row]))


@once
def bandwidth(trace: Trace) -> Bandwidth:
    """Return the bandwidth of a trace, without windows where it has no samples."""
    series = {
        c.name: c for c in reversed(trace.counters) if c.window is not None and len(c)
    }
    times = [series[n] for n in (*_COUNTERS.values(), STALL_CYCLES) if n in series]
    peak = npu_config(trace).peak_bytes
    if not times:
        none = np.zeros(0, np.int64)
        return Bandwidth(none, none, (), np.zeros(0), peak, 0)
    time, window = times[0].time, times[0].window
    assert window is not None
    values = {
        name: series[counter].value
        for name, counter in _COUNTERS.items()
        if counter in series and np.array_equal(series[counter].time, time)
    }
    if READ in values and WRITE in values:
        read, write = values[READ], values[WRITE]
        is_stated = ~(np.isnan(read) & np.isnan(write))
        both = np.nan_to_num(read) + np.nan_to_num(write)
        values[TOTAL] = np.where(is_stated, both, np.nan)
    order = (READ, WRITE, TOTAL, KV)
    channels = tuple(
        Channel(name, values[name] / window) for name in order if name in values
    )
    stalled = np.full(len(time), np.nan)
    if STALL_CYCLES in series and len(series[STALL_CYCLES]) == len(time):
        stalled = series[STALL_CYCLES].value
    reach = np.maximum.accumulate(time + window)
    n_overlapping = int(np.count_nonzero(time[1:] < reach[:-1]))
    return Bandwidth(time, window, channels, stalled, peak, n_overlapping)
