"""Tests of llama-bench as text: speeds, changes, comparisons."""

from collections.abc import Sequence

from ggscope.analysis.bench.comparison import (
    BenchChange,
    BenchComparison,
    TestComparison,
)
from ggscope.analysis.bench.curves import BenchCurve, BenchPoint
from ggscope.analysis.bench.intervals import Interval
from ggscope.model.units import format_count, format_counted, format_share

_MAX_LISTED = 8


def speed_text(value: float) -> str:
    """Return tokens per second: ``4,703.28``."""
    return f"{value:,.2f}"


def _signed(value: float) -> str:
    return ("−" if value < 0 else "+") + speed_text(abs(value))


def interval_text(interval: Interval) -> str:
    """Return both ends: ``98.20 – 101.30``."""
    return f"{speed_text(interval.low)} – {speed_text(interval.high)}"


def change_text(share: float) -> str:
    """Return a change with its sign: ``+4.2 %``, ``−3 %``."""
    sign = "+" if share >= 0 else "−"
    return f"{sign}{format_share(abs(share))}"


def relative_interval(change: BenchChange) -> Interval | None:
    """Return the interval of the difference as shares of A's mean; None = unknown."""
    if change.difference is None or not change.a.mean:
        return None
    a = change.a.mean
    return Interval(change.difference.low / a, change.difference.high / a)


def verdict(change: BenchChange) -> str:
    """Return whether a change is more than noise."""
    if change.difference is None:
        return "noise unknown" if change.within_noise is None else (
            "ranges overlap" if change.within_noise else "ranges apart"
        )  # fmt: skip
    if change.difference.has(0.0):
        return "noise"
    return "faster" if change.difference.low > 0 else "slower"


def change_interval_text(change: BenchChange) -> str:
    """Return the interval of a change: ``+1.1 % … +7.3 %``; "" = unknown."""
    interval = relative_interval(change)
    if interval is None:
        return ""
    return f"{change_text(interval.low)} … {change_text(interval.high)}"


def comparison_lines(of: TestComparison) -> list[str]:
    """Return what is known of two tests, a line each."""
    change = of.change
    n = tuple(len(speed.samples) for speed in (change.a, change.b))
    lines = [f"A {speed_text(change.a.mean)}, B {speed_text(change.b.mean)} tokens/s"]
    if change.relative is not None:
        head = f"B against A: {change_text(change.relative)}"
        interval = change_interval_text(change)
        if interval:
            head += f", 95 % interval {interval} ({verdict(change)})"
        lines.append(head)
    if change.difference is not None:
        ends = change.difference.low, change.difference.high
        low, high = (_signed(end) for end in ends)
        lines.append(
            f"difference of the means {low} … {high} tokens/s, "
            f"{n[0]} and {n[1]} repetitions"
        )
    else:
        lines.append(
            f"{verdict(change)}; no interval: it takes two repetitions of each"
        )
    lines += [f"{key}: {a or 'none'} → {b or 'none'}" for key, a, b in of.differs]
    same = format_counted(len(of.agrees), "key")
    lines.append(f"{same} of the configuration the same")
    return lines


def files_lines(files: Sequence[str], of: BenchComparison) -> list[str]:
    """Return what is known of two files, a line each."""
    lines = [f"A {files[0]} · B {files[1]}"]
    for key, a, b in of.differs:
        lines.append(f"{key}: {_listed(a)} → {_listed(b)}")
    keys = format_counted(len(of.matched_by), "key")
    lines.append(f"Tests match by {keys} of the configuration")
    for name, tests in (("A", of.only_a), ("B", of.only_b)):
        if tests:
            lines.append(f"only in {name}: {_listed(tests)}")
    return lines


def _listed(texts: Sequence[str]) -> str:
    shown = ", ".join(text or "none" for text in texts[:_MAX_LISTED])
    more = len(texts) - _MAX_LISTED
    return f"{shown} and {format_count(more)} more" if more > 0 else shown


def point_lines(curve: BenchCurve, point: BenchPoint, axis: str) -> list[str]:
    """Return what is known of a point, a line each."""
    place = f"{axis} {point.x:g}" if axis else ""
    lines = [part for part in (curve.label, place) if part]
    lines.append(f"{speed_text(point.mean)} tokens/s")
    if point.interval is not None:
        lines.append(f"95 % interval of the mean: {interval_text(point.interval)}")
    if point.samples:
        n = format_counted(len(point.samples), "repetition")
        ends = Interval(min(point.samples), max(point.samples))
        spread = f", {interval_text(ends)}" if len(point.samples) > 1 else ""
        lines.append(n + spread)
    elif point.stddev is not None:
        spread = f"± {speed_text(point.stddev)} (standard deviation)"
        lines += [spread, "repetitions not in the file"]
    else:
        lines.append("repetitions not in the file")
    if len(point.tests) > 1:
        lines.append(f"{format_count(len(point.tests))} tests of this configuration")
    return lines


def change_lines(change: BenchChange) -> list[str]:
    """Return what is known of a change, a line each."""
    lines = [
        change.test,
        f"A {speed_text(change.a.mean)}, B {speed_text(change.b.mean)} tokens/s",
    ]
    if change.relative is not None:
        lines.append(f"change {change_text(change.relative)}")
    interval = change_interval_text(change)
    lines.append(
        f"95 % interval {interval}, {verdict(change)}" if interval else verdict(change)
    )
    return lines
