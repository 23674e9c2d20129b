"""Counters of an NPU trace: bandwidth samples and power estimates."""

import numpy as np
import numpy.typing as npt

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I64, CounterShape
from ggscope.model.trace import Severity
from ggscope.readers.npu.columns import EventColumns

F64 = npt.NDArray[np.float64]
HIGH_UTILISATION = 0.8
"""From this share of the peak on the format speaks of a bottleneck."""


def add_counters(
    builder: TraceBuilder,
    columns: EventColumns,
    origin: int,
    finish: int,
    peak_bytes: float | None,
) -> dict[str, object]:
    """Add a counter for each figure that any sample states.

    Parameters
    ----------
    origin : the file's cycle that is tick 0.
    finish : tick of the last event.
    peak_bytes : bytes per cycle that DRAM can move; None if not stated.

    Returns
    -------
    Totals, to hold against the file's own summary.
    """
    _add_power(builder, columns, origin)
    samples = columns.samples
    if not len(samples):
        return {}
    time = samples.column("time") - origin
    order = np.argsort(time, kind="stable")
    time, window = time[order], samples.column("window")[order]
    for column, name, unit in (
        ("read", "DRAM read", "B"),
        ("write", "DRAM write", "B"),
        ("stall", "Stall cycles", "cycle"),
        ("kv", "KV bytes", "B"),
    ):
        value = samples.column(column)[order]
        if not np.isnan(value).all():
            builder.add_counter(
                name, unit, CounterShape.RATE, time, value, window=window
            )
    read, write = samples.column("read")[order], samples.column("write")[order]
    totals: dict[str, object] = {}
    if _note_overlaps(builder, time, window, origin):
        # Sums would count some bytes twice.
        totals["samples_overlap"] = True
    else:
        for key, value in (
            ("dram_bytes_read", read),
            ("dram_bytes_write", write),
            ("kv_bytes", samples.column("kv")[order]),
        ):
            if not np.isnan(value).all():
                totals[key] = float(np.nansum(value))
        is_known = not np.isnan(read).any() and not np.isnan(write).any()
        totals["samples_cover_run"] = is_known and _covers(time, window, finish)
    known = ~(np.isnan(read) & np.isnan(write))
    if peak_bytes is not None and known.any():
        # Figures near the end of the scale: a sum of them is infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            moved = np.nan_to_num(read) + np.nan_to_num(write)
            share = np.where(known, moved / (window * peak_bytes), np.nan)
        totals |= _add_utilisation(builder, time, share, origin)
    return totals


def _note_overlaps(builder: TraceBuilder, time: I64, window: I64, origin: int) -> bool:
    """Note windows that share cycles, and those that are there twice.

    Parameters
    ----------
    time, window : int64[n], in order of time.
    """
    same = np.zeros(len(time), np.bool_)
    same[1:] = (time[1:] == time[:-1]) & (window[1:] == window[:-1])
    reach = np.maximum.accumulate(time + window)
    into = np.zeros(len(time), np.bool_)
    into[1:] = (time[1:] < reach[:-1]) & ~same[1:]
    for rows, code, what in (
        (np.flatnonzero(same), "bandwidth_window_repeated", "is there more than once"),
        (
            np.flatnonzero(into),
            "bandwidth_windows_overlap",
            "begins before the one before it ends",
        ),
    ):
        if len(rows):
            first = int(rows[0])
            builder.warn(
                Severity.ERROR,
                code,
                f"the bandwidth window of {int(window[first]):,} cycles at cycle "
                f"{int(time[first]) + origin:,} {what}: sums over samples count bytes "
                "twice",
                count=len(rows),
                place="bandwidth_samples",
            )
    return bool(same.any() or into.any())


def _covers(time: I64, window: I64, finish: int) -> bool:
    """Tell whether windows in order of time leave out no tick from 0 to `finish`."""
    end = time + window
    return bool(
        time[0] <= 0 and (time[1:] <= end[:-1]).all() and int(end[-1]) >= finish
    )


def _add_power(builder: TraceBuilder, columns: EventColumns, origin: int) -> None:
    instants = columns.instants
    power, time = instants.column("power"), instants.column("time") - origin
    rows = np.flatnonzero(~np.isnan(power))
    rows = rows[np.argsort(time[rows], kind="stable")]
    if len(rows):
        builder.add_counter("Power", "mW", CounterShape.LEVEL, time[rows], power[rows])


def _add_utilisation(
    builder: TraceBuilder, time: I64, share: F64, origin: int
) -> dict[str, object]:
    builder.add_counter("DRAM utilisation", "share", CounterShape.LEVEL, time, share)
    high = np.flatnonzero((share > HIGH_UTILISATION) & (share <= 1 + 1e-9))
    if len(high):
        first = int(high[0])
        builder.warn(
            Severity.NOTICE,
            "bandwidth_high",
            f"sample at cycle {int(time[first]) + origin}: DRAM moves "
            f"{share[first]:.1%} of its peak; from {HIGH_UTILISATION:.0%} on the "
            "format speaks of a bottleneck",
            count=len(high),
            place="bandwidth_samples",
        )
    over = np.flatnonzero(share > 1 + 1e-9)
    if len(over):
        builder.warn(
            Severity.NOTICE,
            "bandwidth_over_peak",
            f"sample at cycle {int(time[over[0]]) + origin}: DRAM moves "
            f"{share[over[0]]:.0%} of what config_snapshot says is its peak",
            count=len(over),
            place="bandwidth_samples",
            remedy="Check dram_peak_bw_bytes_per_cycle.",
        )
    return {
        "dram_utilisation_max": float(np.nanmax(share)),
        "dram_samples_above_80_percent": int(
            np.count_nonzero(share > HIGH_UTILISATION)
        ),
    }
