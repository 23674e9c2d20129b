"""A comparison of runs as texts: what changed most, how runs were matched."""

from ggscope.analysis.compare.compare import CompareRow, Comparison
from ggscope.descriptions.groupings import GROUPINGS
from ggscope.model.units import (
    NOT_AVAILABLE,
    Unit,
    format_count,
    format_counted,
    format_duration,
)

MEASURES = {
    "latency": "latency of each token, from its begin to its end",
    "wall": "time in which any op of the group runs",
    "thread time": "sum over all spans of the group",
}
_MAX_LISTED = 5


def relative_text(relative: float | None) -> str:
    """Return a relative change: ``+100.0 %``, ``−3.2 %``, ``×12.5``; "—" unknown."""
    if relative is None:
        return NOT_AVAILABLE
    if relative >= 9.995:
        return f"×{relative + 1:,.1f}"
    sign = "−" if relative < 0 else "+" if relative else ""
    return f"{sign}{abs(relative) * 100:.1f} %"


def time_text(ticks: float | None, unit: Unit) -> str:
    """Return the time of a side; "N/A" unknown."""
    return NOT_AVAILABLE if ticks is None else format_duration(ticks, unit)


def parts_text(comparison: Comparison, unit: Unit) -> str:
    """Return how the time of a thread changed, part by part; "" where not known."""
    texts = []
    for part in comparison.parts:
        change = relative_text(part.relative)
        if part.relative is None:
            change = change_text(part.change, unit)
        a, b = time_text(part.a.value, unit), time_text(part.b.value, unit)
        texts.append(f"{part.key} {a} → {b} ({change})")
    return f"Per thread: {' · '.join(texts)}" if texts else ""


def change_text(ticks: float | None, unit: Unit) -> str:
    """Return a change of time: ``+1.2 ms``, ``−30 µs``; "—" unknown."""
    if ticks is None:
        return NOT_AVAILABLE
    sign = "−" if ticks < 0 else "+" if ticks else ""
    return f"{sign}{format_duration(abs(ticks), unit)}"


def spread_text(row: CompareRow, unit: Unit) -> str:
    """Return least and most of each side where it has several runs; else ""."""
    parts = []
    for name, side in (("A", row.a), ("B", row.b)):
        if side.spread is not None:
            low, high = (format_duration(ticks, unit) for ticks in side.spread)
            parts.append(f"{name} {low} … {high}")
    return ", ".join(parts)


def headline(comparison: Comparison, unit: Unit) -> str:
    """Return what changed in a sentence: the elapsed time, and what explains it."""
    if not comparison.is_comparable:
        return f"Not comparable: {comparison.reason}."
    if comparison.is_equal:
        return "No difference."
    row = comparison.elapsed
    if row.relative is None:
        row = comparison.whole
    if row.a.value is None or row.b.value is None or row.change is None:
        return "Times differ; see the rows."
    if not row.change:
        text = "Both take the same time in all"
    else:
        word = "longer" if row.change > 0 else "shorter"
        text = (
            f"B takes {format_duration(abs(row.change), unit)} {word} "
            f"({relative_text(row.relative)})"
        )
    parts = [part for part in comparison.parts if part.change]
    main = max(parts, key=lambda part: abs(part.change or 0), default=None)
    if main is not None and main.change is not None:
        text += (
            f"; most of it is {main.key} ({change_text(main.change, unit)} per thread)"
        )
    elif comparison.rows and comparison.rows[0].change:
        first = comparison.rows[0]
        noun = GROUPINGS[comparison.by]
        text += (
            f"; most of it by {noun} {first.key} ({change_text(first.change, unit)})"
        )
    return f"{text}."


def matching_text(comparison: Comparison) -> str:
    """Return how runs are aligned, and what only one of them has."""
    n_a, n_b = comparison.tokens()
    runs = comparison.alignment.runs
    noun = runs[0].bars.noun if len(runs[0].bars) else "span"
    plural = f"{noun}{'es' if noun[-2:] in ('ch', 'ss') else 's'}"
    if comparison.alignment.by == "start":
        text = "Whole runs are compared"
    elif n_a == n_b:
        text = (
            f"{format_count(n_a)} {plural if n_a != 1 else noun} of each side compared"
        )
    else:
        text = (
            f"{format_count(n_a)} {plural} of A compared with {format_count(n_b)} of B"
        )
    for name, sides in (("A", runs[: comparison.n_a]), ("B", runs[comparison.n_a :])):
        if n := sum(len(run.unmatched) for run in sides):
            text += f"; {format_count(n)} only in {name}, not compared"
    return f"{text}."


def only_text(comparison: Comparison) -> list[str]:
    """Return which groups only one side has, a line per side."""
    lines = []
    for name, keys in (("A", comparison.only_a), ("B", comparison.only_b)):
        if not keys:
            continue
        listed = ", ".join(keys[:_MAX_LISTED])
        more = len(keys) - _MAX_LISTED
        rest = f" and {format_count(more)} more" if more > 0 else ""
        groups = format_counted(len(keys), GROUPINGS[comparison.by])
        lines.append(f"Only in {name}: {groups} ({listed}{rest}).")
    return lines
