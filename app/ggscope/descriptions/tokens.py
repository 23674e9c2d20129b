"""Latency of tokens as text."""

from decimal import Decimal

import numpy as np

from ggscope.analysis.compare.bar_parts import BarParts
from ggscope.analysis.summary.bars import bar_text
from ggscope.analysis.summary.latency import SLOW, Fit, Latency
from ggscope.descriptions.spans import exact_time_text, phase_word, time_text
from ggscope.model.tables import I64, Quality
from ggscope.model.trace import Trace
from ggscope.model.units import (
    UNITS,
    Unit,
    format_count,
    format_duration,
    format_exact,
    format_share,
)

_QUALITIES = {
    Quality.DERIVED: "end derived",
    Quality.ESTIMATED: "time estimated",
    Quality.UNFINISHED: "no end recorded",
}


def counted(n: int, noun: str) -> str:
    """Return ``1 token``, ``12 ubatches`` or ``3 graph passes``."""
    return f"{format_count(n)} {noun if n == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Return the plural of what a bar is."""
    return noun + ("es" if noun.endswith(("s", "h")) else "s")


def slope_text(fit: Fit, unit: Unit) -> str:
    """Return how much latency grows: ``+0.52 ± 0.03 ms per 1,000 tokens``."""
    scale, name = (1e6, "ms") if unit == "ns" else (1.0, UNITS[unit].plural)
    slope, error = (1000 * value / scale for value in (fit.slope, fit.error))
    return f"{_rounded(slope, 3, '+')} ± {_rounded(error, 2)} {name} per 1,000 tokens"


def _rounded(value: float, digits: int, sign: str = "") -> str:
    """Return so many significant digits without an exponent: ``1,470``."""
    return format(Decimal(f"{value:.{digits}g}"), f"{sign},f")


def latency_text(trace: Trace, latency: Latency) -> str:
    """Return median, p99 and number of outliers on one line."""
    unit, noun = trace.clock.unit, latency.bars.noun
    parts = [counted(len(latency.bars), noun)]
    if latency.median is not None and latency.p99 is not None:
        parts.append(f"median {format_duration(latency.median, unit)}")
        parts.append(f"p99 {format_duration(latency.p99, unit)}")
        n_slow = int(np.count_nonzero(latency.is_outlier))
        parts.append(f"{format_count(n_slow)} over {SLOW} × the median")
    return " · ".join(parts)


def fit_text(trace: Trace, latency: Latency) -> str:
    """Return the slope over the context, or why there is none."""
    if latency.fit is None:
        return f"no slope: {latency.no_fit}"
    fit = latency.fit
    n = counted(fit.n, "generated token")
    return (
        f"{slope_text(fit, trace.clock.unit)}, {n} "
        f"at positions {format_count(fit.low)} to {format_count(fit.high)}"
    )


def bar_lines(trace: Trace, latency: Latency, row: int) -> list[str]:
    """Return what a tooltip says of a bar."""
    bars, unit = latency.bars, trace.clock.unit
    duration, n = int(bars.duration[row]), int(bars.n_tokens[row])
    quality = Quality(int(bars.quality[row]))
    lines = [bar_text(trace, bars, row)]
    if quality is Quality.UNFINISHED:
        lines.append(_QUALITIES[quality])
    else:
        about = _QUALITIES.get(quality)
        text = f"{format_duration(duration, unit)} ({format_exact(duration, unit)})"
        lines.append(f"{text}, {about}" if about else text)
    if latency.is_outlier[row] and latency.median:
        lines.append(f"{_rounded(duration / latency.median, 3)} × the median")
    lines.append(f"phase: {phase_word(trace, int(bars.phase[row]))}")
    lines.append(f"tokens: {format_count(n) if n >= 0 else 'not recorded'}")
    if latency.position[row] >= 0:
        lines.append(f"position: {format_count(int(latency.position[row]))}")
    begin = int(bars.start[row])
    lines.append(f"begin: {time_text(trace, begin)} ({exact_time_text(trace, begin)})")
    return lines


def bars_lines(trace: Trace, latency: Latency, rows: I64) -> list[str]:
    """Return what a tooltip says of bars at one place, the longest first."""
    lines = bar_lines(trace, latency, int(rows[0]))
    if len(rows) > 1:
        unit, duration = trace.clock.unit, latency.bars.duration[rows]
        low, high = (
            format_duration(int(v), unit) for v in (duration.min(), duration.max())
        )
        n = counted(len(rows), latency.bars.noun)
        lines.append(f"the longest of {n} here: {low} to {high}")
    return lines


def idle_text(parts: BarParts) -> str:
    """Return the text about the time in which no op of a known time runs."""
    if parts.hides_ops:
        return "no recorded op runs"
    return "no op of known time runs" if parts.has_untimed else "no op runs"


def part_text(parts: BarParts | None) -> list[str]:
    """Return what the parts of bars are called, idle time last."""
    return [] if parts is None else [*parts.families, idle_text(parts)]


def parts_text(parts: BarParts, rows: I64) -> str:
    """Return the mean shares of bars by op family, or that there are none."""
    split = rows[parts.is_split[rows]]
    if not len(split):
        return "no op of known time runs in them"
    means = parts.shares(split).mean(axis=0)
    texts = part_text(parts)
    shares = [
        f"{word} {format_share(mean)}"
        for word, mean in zip(texts, means.tolist(), strict=True)
        if mean
    ]
    about = "; ends of ops are derived" if parts.has_derived else ""
    return f"mean shares: {', '.join(shares)}{about}"


def parts_lines(trace: Trace, parts: BarParts, rows: I64) -> list[str]:
    """Return what a tooltip says of what runs in bars at one place, see `bars_lines`.

    The longest bar is first: its time by op family, then the mean shares of all.
    """
    row, unit, lines = int(rows[0]), trace.clock.unit, []
    if parts.is_split[row]:
        ticks = [*parts.ticks[row].tolist(), int(parts.idle[row])]
        texts = part_text(parts)
        whole = sum(ticks)
        lines = [
            f"{word}: {format_duration(n / parts.divisor, unit)}, "
            f"{format_share(n / whole)}"
            for word, n in zip(texts, ticks, strict=True)
            if n
        ]
    else:
        lines = ["ops: none of known time runs in it"]
    if len(rows) > 1:
        lines.append(parts_text(parts, rows))
    return lines
