"""What an NPU does as text: claims beside what is computed, engines, windows, banks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ggscope.analysis.npu.bandwidth import Bandwidth
from ggscope.analysis.npu.engines import StallReason
from ggscope.analysis.npu.facts import NpuFacts
from ggscope.analysis.npu.quantisation import OpBits
from ggscope.analysis.npu.traffic import PARTS, UNSTATED
from ggscope.model.npu import HIGH_UTILISATION
from ggscope.model.trace import DeclaredMetric, Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_both_bytes,
    format_bytes,
    format_count,
    format_counted,
    format_duration,
    format_exact,
    format_share,
)

_OF_WINDOWS = "bandwidth_samples"
_CONFIG = "config."
PART_WORDS = {
    "weight": "weights", "kv": "KV cache", "activation": "activations",
    "other": "other tensors", UNSTATED: "role not stated",
}  # fmt: skip
"""Parts of the traffic of a token as people call them."""


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table of texts.

    Attributes
    ----------
    head : a title and a tip per column.
    rows : the plain value of each cell, a number where it is one, None = not known.
    """

    name: str
    head: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]


def rate_text(trace: Trace, rate: float) -> str:
    """Return a rate: ``25.0 B/cycle``."""
    unit = "cycle" if trace.clock.unit == "cycle" else trace.clock.unit
    amount = format_bytes(rate) if rate >= 1024 else f"{rate:.4g} B"
    return f"{amount}/{unit}"


# -- claims ----------------------------------------------------------------------


def claim_difference(claim: DeclaredMetric) -> float | None:
    """Return what is stated minus what is computed; None where that is not known."""
    return None if claim.computed is None else claim.stated - claim.computed


def difference_text(claim: DeclaredMetric) -> str:
    """Return the difference as people read it: ``+40.9 points``, ``+59 (≈ 4,608×)``."""
    difference = claim_difference(claim)
    if difference is None:
        return NOT_AVAILABLE
    if not difference or claim.agrees:
        return "0" if not difference else ""
    if claim.unit == "share":
        return f"{difference * 100:+.1f} points"
    if claim.unit == "B":
        sign = "+" if difference > 0 else "−"
        return f"{sign}{format_bytes(abs(difference))}"
    number = (
        f"{difference:+,.0f}"
        if difference == int(difference)
        else f"{difference:+,.4g}"
    )
    return number.replace("-", "−")


def verdict_text(claim: DeclaredMetric) -> str:
    """Return the verdict; why nothing can be determined where that is so."""
    if claim.agrees is not None:
        return claim.verdict
    if claim.computed is None:
        return "not recorded"
    return claim.verdict


# -- engines -----------------------------------------------------------------------


def engine_lines(trace: Trace, facts: NpuFacts, engine: int) -> list[str]:
    """Return what is known of an engine, a line each."""
    engines, unit = facts.engines, trace.clock.unit
    whole = max(engines.extent.duration, 1)
    busy, held = int(engines.busy.totals[engine]), int(engines.stalled.totals[engine])
    lines = [engines.names[engine]]
    if engines.lane[engine] >= 0:
        lines.append(
            f"busy {format_duration(busy, unit)}, {format_share(busy / whole)} of the "
            f"trace, {format_counted(int(engines.count[engine]), 'span')}"
        )
    else:
        lines.append("its work is not recorded, only its stalls")
    if engines.stall_lane[engine] >= 0:
        lines.append(
            f"stalled {format_duration(held, unit)}, {format_share(held / whole)}"
        )
    else:
        lines.append("no stalls recorded")
    moved = facts.moved
    parts = [
        f"{format_both_bytes(int(values[engine]))} {what}"
        for values, what in (
            (moved.stated, "stated by its spans"),
            (moved.read, "read by recorded accesses"),
            (moved.written, "written by recorded accesses"),
        )
        if values[engine] >= 0
    ]
    return lines + parts


def column_lines(
    trace: Trace, facts: NpuFacts, engine: int, begin: int, stop: int
) -> list[str]:
    """Return what an engine does in a pixel column: working, stalled, idle."""
    import numpy as np

    parts = facts.engines.ticks(np.array([begin]), np.array([stop]), [engine])
    length = max(stop - begin, 1)
    share_texts = [
        f"{what} {format_share(int(part[0, 0]) / length)}"
        for what, part in zip(("working", "stalled", "idle"), parts, strict=True)
    ]
    return [
        f"here ({format_exact(length, trace.clock.unit)}): " + ", ".join(share_texts)
    ]


def stall_lines(trace: Trace, facts: NpuFacts, stall: StallReason) -> list[str]:
    """Return what is known of the stalls of an engine for one reason."""
    whole = max(facts.engines.extent.duration, 1)
    return [
        f"{facts.engines.names[stall.engine]} · {stall.reason or 'no reason'}",
        f"{format_duration(stall.ticks, trace.clock.unit)}, "
        f"{format_share(stall.ticks / whole)} of the trace",
        format_counted(len(stall.spans), "stall"),
    ]


def bits_lines(trace: Trace, point: OpBits) -> list[str]:
    """Return what is known of an op with values of so many bits."""
    unit, mean = trace.clock.unit, point.mean_moved
    lines = [
        f"{point.op} · {point.bits} bits",
        f"{format_counted(len(point.spans), 'span')}, "
        f"{format_duration(point.mean_ticks, unit)} each",
    ]
    if mean is not None:
        lines.append(f"{format_bytes(mean)} each, as they state")
    return lines


# -- bandwidth ---------------------------------------------------------------------


def window_lines(trace: Trace, windows: Bandwidth, row: int) -> list[str]:
    """Return what a bandwidth window states, a line each."""
    time = windows.range_of(row)
    lines = [
        f"window at {format_exact(time.start, trace.clock.unit)}, "
        f"{format_exact(time.duration, trace.clock.unit)} long"
    ]
    for channel in windows.channels:
        rate = float(channel.rate[row])
        if rate != rate:
            lines.append(f"{channel.name}: not stated")
            continue
        text = f"{channel.name}: {rate_text(trace, rate)}"
        if windows.peak:
            text += f", {format_share(rate / windows.peak)} of the peak"
        lines.append(text)
    held = float(windows.stalled[row])
    if held == held:
        lines.append(f"stalled cycles: {held:,.0f}")
    return lines


def bandwidth_text(trace: Trace, windows: Bandwidth) -> str:
    """Return the windows near and above the peak, and whether they overlap."""
    if not windows.channels:
        return ""
    parts = [format_counted(len(windows), "window")]
    if windows.peak is None:
        parts.append("peak not stated")
    else:
        n_high, n_over = len(windows.high()), len(windows.over_peak())
        parts.append(
            f"{format_count(n_high)} above {HIGH_UTILISATION * 100:.0f} % of the peak"
        )
        if n_over:
            parts.append(f"{format_count(n_over)} above the peak")
    if windows.n_overlapping:
        parts.append(f"{format_count(windows.n_overlapping)} overlapping")
    return ", ".join(parts)


def window_problems(trace: Trace) -> list[str]:
    """Return what is wrong with the file's bandwidth samples, a line each."""
    return [
        f"{w.message} ({format_count(w.count)} times)" if w.count > 1 else w.message
        for w in trace.warnings
        if w.code.startswith("bandwidth_") or w.place.startswith(_OF_WINDOWS)
    ]


# -- what is not recorded ------------------------------------------------------------


def not_recorded(trace: Trace, facts: NpuFacts) -> list[str]:
    """Return what the trace records nothing of, a noun each."""
    engines, memory = facts.engines, facts.memory
    lacks = [
        (not (engines.lane >= 0).any(), "work of engines"),
        (not (engines.stall_lane >= 0).any(), "stalls"),
        (not facts.bandwidth.channels, "bandwidth"),
        (not (len(memory.dram) or len(memory.spm)), "memory accesses"),
        (not memory.has_spm, "SPM banks"),
        (not facts.bits, "bits"),
        (not facts.traffic.has_roles, "what is moved (tensor_role)"),
        (not facts.traffic.has_tokens, "tokens"),
        (not trace.info.stated, "claims of the file"),
    ]
    return [noun for is_lacking, noun in lacks if is_lacking]


def about_text(trace: Trace, facts: NpuFacts) -> str:
    """Return the line above the pictures: claims that do not hold, and what lacks."""
    parts = []
    wrong = sum(c.agrees is False for c in trace.info.stated)
    if wrong:
        n = len(trace.info.stated)
        parts.append(
            f"{format_count(wrong)} of {format_counted(n, 'claim')} do not hold"
        )
    parallel = [c for c in facts.concurrency if c.maximum > 1]
    if parallel:
        text = ", ".join(f"{c.maximum} {c.kind}" for c in parallel)
        parts.append(f"at once at most: {text}")
    if text := bandwidth_text(trace, facts.bandwidth):
        parts.append(text)
    if lacks := not_recorded(trace, facts):
        parts.append("not recorded: " + ", ".join(lacks))
    return " · ".join(parts)


# -- tables --------------------------------------------------------------------------


def claims_table(trace: Trace) -> ListedTable:
    """Return the file's figures beside those that follow from its content."""
    rows = tuple(
        (
            c.name,
            c.stated_text,
            c.computed_text,
            difference_text(c),
            verdict_text(c),
            c.basis,
            c.place,
        )
        for c in trace.info.stated
    )
    head = (
        ("claim", "A figure that the file states"),
        ("stated", "As the file states it"),
        ("computed", "As its events give it"),
        ("difference", "Stated minus computed"),
        ("verdict", "Whether the two agree but for rounding"),
        ("by", "What the computed figure was made of"),
        ("place", "Its place in the file"),
    )
    return ListedTable("claims", head, rows)


def engines_table(trace: Trace, facts: NpuFacts) -> ListedTable:
    """Return busy, stalled and idle time of each engine, and what it moves."""
    engines, moved = facts.engines, facts.moved
    whole = engines.extent.duration
    busy, held = engines.busy.totals, engines.stalled.totals
    either = engines.either.totals
    most_by_kind = {c.kind: c.maximum for c in facts.concurrency}
    rows = []
    for i, name in enumerate(engines.names):
        has_work, has_stalls = engines.lane[i] >= 0, engines.stall_lane[i] >= 0
        rows.append(
            (
                name,
                int(engines.count[i]) if has_work else None,
                int(busy[i]) if has_work else None,
                int(busy[i]) / whole if has_work and whole else None,
                int(held[i]) if has_stalls else None,
                int(held[i]) / whole if has_stalls and whole else None,
                whole - int(either[i]) if has_work else None,
                most_by_kind.get(engines.kinds[i]) if has_work else None,
                _known(int(moved.stated[i])),
                _known(int(moved.read[i])),
                _known(int(moved.written[i])),
            )
        )
    head = (
        ("engine", "Engine, or master of which only stalls are recorded"),
        ("spans", "Spans with a known time"),
        ("busy", "Time in which at least one span runs"),
        ("busy share", "Of the trace"),
        ("stalled", "Time in which at least one stall lasts"),
        ("stalled share", "Of the trace"),
        ("idle", "Time without span and stall"),
        (
            "at once",
            "Maximum of simultaneous spans, over engines of its kind",
        ),
        ("moved", "Bytes that its spans state"),
        ("read", "Bytes of recorded reads"),
        ("written", "Bytes of recorded writes"),
    )
    return ListedTable("engines", head, tuple(rows))


def stalls_table(facts: NpuFacts) -> ListedTable:
    """Return the stalls by engine and reason, the longest first."""
    whole = facts.engines.extent.duration
    rows = tuple(
        (
            facts.engines.names[s.engine],
            s.reason or None,
            len(s.spans),
            s.ticks,
            s.ticks / whole if whole else None,
        )
        for s in facts.stalls
    )
    head = (
        ("engine", "What stalls"),
        ("reason", "As the file spells it"),
        ("stalls", "How many"),
        ("time", "That they cover, each cycle once"),
        ("share", "Of the trace"),
    )
    return ListedTable("stalls", head, rows)


def windows_table(facts: NpuFacts, rows: Sequence[int] | None = None) -> ListedTable:
    """Return windows of bandwidth samples, all or the given ones."""
    windows = facts.bandwidth
    listed = range(len(windows)) if rows is None else rows
    names = [channel.name for channel in windows.channels]
    table = []
    for i in listed:
        rates = [_number(float(channel.rate[i])) for channel in windows.channels]
        highest = max((r for r in rates if r is not None), default=None)
        share = highest / windows.peak if windows.peak and highest is not None else None
        table.append(
            (
                int(windows.time[i]),
                int(windows.window[i]),
                *rates,
                share,
                _number(float(windows.stalled[i])),
            )
        )
    head = (
        ("begin", "Where the window begins"),
        ("window", "How long it is"),
        *((f"{name} rate", f"Bytes per tick: {name}") for name in names),
        ("of peak", "Highest rate of the window, as a share of the stated peak"),
        ("stalled", "Stalled cycles that it states"),
    )
    return ListedTable("windows", head, tuple(table))


def banks_table(facts: NpuFacts) -> ListedTable:
    """Return the use of each bank of the SPM."""
    whole = facts.engines.extent.duration
    rows = tuple(
        (
            b.number,
            b.n_transfers,
            b.busy,
            b.busy / whole if whole else None,
            _known(b.moved),
            b.n_accesses,
            _known(b.read),
            _known(b.written),
        )
        for b in facts.memory.banks
        if facts.memory.has_spm
    )
    head = (
        ("bank", "Of the SPM"),
        ("transfers", "Spans that name it"),
        ("busy", "Time in which one of them runs"),
        ("busy share", "Of the trace"),
        ("moved", "Bytes that they state"),
        ("accesses", "Recorded accesses whose address lies in it"),
        ("read", "Bytes of recorded reads"),
        ("written", "Bytes of recorded writes"),
    )
    return ListedTable("banks", head, rows)


def bits_table(facts: NpuFacts) -> ListedTable:
    """Return the time and bytes of ops by the bits of the values they work on."""
    rows = tuple(
        (x.op, x.bits, len(x.spans), x.ticks, x.mean_ticks, x.mean_moved)
        for x in facts.bits
    )
    head = (
        ("op", "Op"),
        ("bits", "Of weights, else of what is moved, else of activations"),
        ("spans", "How many"),
        ("time", "Of all of them"),
        ("mean time", "Of a span"),
        ("mean bytes", "Of the spans that state them"),
    )
    return ListedTable("bits", head, rows)


def traffic_table(facts: NpuFacts) -> ListedTable:
    """Return the bytes of weights, KV cache and others that each token moves."""
    traffic = facts.traffic
    parts = traffic.parts
    rows: list[tuple[str | int | None, ...]] = [
        (
            name,
            *(int(traffic.moved[part, i]) for part in parts),
            int(traffic.totals[i]),
            int(traffic.unsized[i]),
        )
        for i, name in enumerate(traffic.names)
    ]
    if traffic.outside.any() or traffic.unsized[-1]:
        outside = traffic.outside
        rows.append(
            (
                None,
                *(int(outside[part]) for part in parts),
                int(outside.sum()),
                int(traffic.unsized[-1]),
            )
        )
    head = (
        ("token", "During which the spans begin; N/A: during none"),
        *((PART_WORDS[PARTS[part]], "Bytes that spans state") for part in parts),
        ("moved", "All of them"),
        ("without bytes", "Spans that say what they move, and not how much"),
    )
    return ListedTable("traffic", head, tuple(rows))


def traffic_lines(facts: NpuFacts, number: int) -> list[str]:
    """Return what a token moves, a line each."""
    traffic = facts.traffic
    total = int(traffic.totals[number])
    lines = [f"token {traffic.names[number]}", f"{format_both_bytes(total)} moved"]
    for part in traffic.parts:
        n_bytes = int(traffic.moved[part, number])
        share = f", {format_share(n_bytes / total)}" if total else ""
        lines.append(f"{PART_WORDS[PARTS[part]]}: {format_both_bytes(n_bytes)}{share}")
    if n := int(traffic.unsized[number]):
        lines.append(f"{format_counted(n, 'span')} more without bytes")
    return lines


def config_table(trace: Trace) -> ListedTable:
    """Return metadata and configuration as the file states them."""
    facts = trace.info.producer
    rows = tuple(
        (
            "configuration" if name.startswith(_CONFIG) else "run",
            name.removeprefix(_CONFIG).replace("_", " "),
            text,
        )
        for name, text in facts.items()
    )
    head = (
        ("part", "run_metadata or config_snapshot"),
        ("name", "As the file spells it"),
        ("value", "As the file states it"),
    )
    return ListedTable("configuration", head, rows)


def _known(value: int) -> int | None:
    return None if value < 0 else value


def _number(value: float) -> float | None:
    return None if value != value else value


_TIMES = {"busy", "stalled", "idle", "time", "mean time", "begin", "window"}
_SHARES = {"busy share", "stalled share", "share", "of peak"}
_BYTES = {"moved", "read", "written", "mean bytes", *PART_WORDS.values()}
_RATE = " rate"


def cell_text(trace: Trace, title: str, value: object) -> str:
    """Return a value of a table as people read it; unknown is ``N/A``."""
    if value is None:
        return NOT_AVAILABLE
    if isinstance(value, str) or not isinstance(value, int | float):
        return str(value)
    if title in _TIMES:
        return format_duration(value, trace.clock.unit)
    if title in _SHARES:
        return format_share(value)
    if title in _BYTES:
        return format_bytes(value)
    if title.endswith(_RATE):
        return rate_text(trace, value)
    return format_count(int(value))


def unit_of(trace: Trace, title: str) -> str:
    """Return the unit of the plain values of a column; "" where they have none."""
    if title in _TIMES:
        return trace.clock.unit_name
    if title in _BYTES:
        return "bytes"
    return f"bytes/{trace.clock.unit}" if title.endswith(_RATE) else ""


TABLES: dict[str, Callable[[Trace, NpuFacts], ListedTable]] = {
    "claims": lambda trace, _: claims_table(trace),
    "engines": engines_table,
    "stalls": lambda _, facts: stalls_table(facts),
    "windows": lambda _, facts: windows_table(facts),
    "banks": lambda _, facts: banks_table(facts),
    "bits": lambda _, facts: bits_table(facts),
    "traffic": lambda _, facts: traffic_table(facts),
    "configuration": lambda trace, _: config_table(trace),
}
"""All tables, by the name that ``ggscope npu --csv`` takes, in the view's order."""
