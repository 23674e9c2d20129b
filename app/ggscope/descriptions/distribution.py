"""Histograms of statistics as texts."""

from collections.abc import Mapping

from ggscope.analysis.statistics.amounts import PER_RATE, Amount
from ggscope.analysis.statistics.distribution import Bars, Distribution
from ggscope.model.trace import Trace
from ggscope.model.units import (
    format_byte_rate,
    format_bytes,
    format_count,
    format_duration,
)

AMOUNT_NAMES: Mapping[Amount, str] = {
    "duration": "time",
    "traffic": "bytes",
    "rate": "rate",
}
"""What people call the amounts."""
_UNKNOWN: Mapping[Amount, str] = {
    "duration": "without a measured or derived time",
    "traffic": "whose bytes are not recorded",
    "rate": "whose bytes or time are not known",
}


def noun_of(distribution: Distribution, n: int = 2) -> str:
    """Return what is counted: "spans" or "ops"."""
    noun = "span" if distribution.of == "duration" else "op"
    return noun if n == 1 else f"{noun}s"


def amount_text(trace: Trace, of: Amount, value: float) -> str:
    """Return an amount: ``12.3 µs``, ``1.5 MiB``, ``9.1 GiB/s``."""
    if of == "duration":
        return format_duration(value, trace.clock.unit)
    if of == "traffic":
        return format_bytes(value)
    return format_byte_rate(value / PER_RATE, trace.clock.unit, trace.clock.hz)


def distribution_text(trace: Trace, distribution: Distribution) -> str:
    """Return what is counted, and what is not: "1,234 spans, 2 µs – 3 ms"."""
    text = f"{format_count(distribution.n)} {noun_of(distribution, distribution.n)}"
    if distribution.n:
        low, high = (
            amount_text(trace, distribution.of, v)
            for v in (distribution.low, distribution.high)
        )
        text += f", {low} – {high}"
    if distribution.n_unknown:
        text += (
            f"; not {format_count(distribution.n_unknown)} {_UNKNOWN[distribution.of]}"
        )
    return text


def bars_text(
    trace: Trace, distribution: Distribution, bars: Bars, a: int, b: int
) -> str:
    """Return what the bars from `a` to below `b` hold."""
    low, stop = int(bars.edges[a]), int(bars.edges[b])
    n = int(bars.counts[a:b].sum())
    first, last = (amount_text(trace, distribution.of, v) for v in (low, stop))
    lines = [f"{first} – {last}", f"{format_count(n)} {noun_of(distribution, n)}"]
    if distribution.n:
        lines[-1] += f", {n / distribution.n:.1%} of all"
    if distribution.group is not None:
        key = " · ".join([distribution.group.key, *(distribution.group.also or ())[1:]])
        lines.append(f"{format_count(int(bars.own[a:b].sum()))} of {key}")
    return "\n".join(lines)
