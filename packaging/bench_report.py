"""The figures of ``make bench`` for people: a table, plain or for a document."""

from collections.abc import Mapping, Sequence

from bench_figures import Figure, limit_text

RATES = {
    "python_m_s": ("a loop in plain Python", "M turns/s"),
    "numpy_m_s": ("sort, gather and running sum by numpy", "M numbers/s"),
    "copy_gb_s": ("memory copy", "GB/s"),
    "first_touch_gb_s": ("first touch of new memory", "GB/s"),
    "page_cache_gb_s": ("page cache read, 256 KiB blocks", "GB/s"),
    "field_m_s": ("one 8-byte field of every 256-byte record", "M records/s"),
    "searchsorted_2000_s": ("2,000 edges among 10 M numbers", "times/s"),
    "viz_walk_m_s": ("walking .ggmlviz events, C loop", "M events/s"),
    "msgspec_mb_s": ("NPU JSON, msgspec typed", "MB/s"),
    "blit_fps": ("QPainter, one picture of 1920x1080", "/s"),
}
_HEAD = ("what", "aim", "measured", "met", "limit in this run")


def table(
    figures: Sequence[Figure], values: Mapping[str, float], rates: Mapping[str, float]
) -> list[tuple[str, ...]]:
    """Return the cells of the table, its head first."""
    rows: list[tuple[str, ...]] = [_HEAD]
    for figure in figures:
        if figure.key not in values:
            continue
        value = values[figure.key]
        aim = "" if figure.aim is None else f"{figure.aim:g} {figure.unit}"
        measured = f"{number(value)} {figure.unit}"
        limit = limit_text(figure.key, dict(rates))
        rows.append((figure.label, aim, measured, met(figure, value), limit))
    return rows


def rates_table(rates: Mapping[str, float]) -> list[tuple[str, ...]]:
    """Return the cells of the table of limits, its head first."""
    rows: list[tuple[str, ...]] = [("limit of this machine", "figure")]
    for name, rate in rates.items():
        text, unit = RATES.get(name, (name, ""))
        rows.append((text, f"{number(rate)} {unit}"))
    return rows


def met(figure: Figure, value: float) -> str:
    """Return whether a figure reaches its aim, and how far it is off."""
    if figure.aim is None:
        return ""
    is_met = value >= figure.aim if figure.more_is_better else value <= figure.aim
    if is_met:
        return "yes"
    low, high = sorted((value, figure.aim))
    return f"no, {high / low:.1f}x" if low > 0 else "no"


def number(value: float) -> str:
    """Return a figure with three digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def plain(rows: Sequence[Sequence[str]]) -> str:
    """Return a table for the terminal; the second and third column flush right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if i in (1, 2) else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return a table to paste into a document."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)
