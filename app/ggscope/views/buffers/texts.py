"""Texts of the buffers view: summary, tooltips, gaps of the recording."""

from ggscope.analysis.buffers import BufferUse, Gap, Occupancy, gaps, never_freed
from ggscope.descriptions.counting import moved_text
from ggscope.descriptions.spans import PENDING
from ggscope.descriptions.spans import time_text as span_time_text
from ggscope.model.tensors import BufferUsage
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_both_bytes,
    format_bytes,
    format_count,
    format_duration,
    format_offset,
)
from ggscope.render.buffers import buffer_name, usage_name

_MAX_NAMED = 6


def about_text(trace: Trace, occupancy: Occupancy) -> str:
    """Return the figures in one line, the peak first."""
    peak = occupancy.peak
    buffers = trace.buffers
    if peak is None:
        n = format_count(len(buffers))
        return f"{n} buffers, known from accesses only"
    n_alive = len(peak.alive)
    alive = "1 buffer alive" if n_alive == 1 else "{0} buffers alive"
    parts = [
        f"peak {format_bytes(peak.bytes)}",
        alive.format(format_count(n_alive))
        + f" ({_by_usage(trace, peak.alive.tolist())})",
        f"{format_count(len(buffers))} in total",
    ]
    n_left = len(never_freed(buffers))
    if n_left:
        parts.append(f"{format_count(n_left)} never freed")
    return " · ".join(parts)


def _by_usage(trace: Trace, rows: list[int]) -> str:
    usage = trace.buffers.usage[rows]
    counts = [
        (u.name, int((usage == u).sum()))
        for u in (BufferUsage.WEIGHTS, BufferUsage.COMPUTE, BufferUsage.ANY)
    ]
    return ", ".join(f"{format_count(n)} {name}" for name, n in counts if n)


def gap_text(trace: Trace) -> str:
    """Return what the recording lacks, a sentence per line; "" where nothing."""
    sentences = {
        Gap.WEIGHTS: (
            "No weight buffers recorded: the model was loaded before recording "
            "started. The peak is a lower bound."
        ),
        Gap.COMPUTE: (
            "No scheduler compute buffers recorded. The peak is a lower bound."
        ),
        Gap.RELEASES: (
            "No releases recorded; the recorder may not write them. “Never freed” may "
            "be wrong."
        ),
        Gap.ALLOCATIONS: (
            "Some accessed buffers have no recorded allocation; they are listed "
            "without size and times."
        ),
        Gap.SIZES: "Buffers of unknown size are not included in the sums.",
    }
    return "\n".join(sentences[gap] for gap in gaps(trace))


def gap_head(trace: Trace) -> str:
    """Return a short note for the line of figures; "" where nothing lacks."""
    all_gaps = gaps(trace)
    if Gap.WEIGHTS in all_gaps and Gap.COMPUTE in all_gaps:
        return "recording incomplete: no weights, no scheduler buffers"
    if Gap.WEIGHTS in all_gaps:
        return "recording incomplete: no weights"
    if Gap.COMPUTE in all_gaps:
        return "recording incomplete: no scheduler buffers"
    if Gap.ALLOCATIONS in all_gaps:
        if (trace.buffers.allocated == -1).all():
            return "no allocations recorded"
        return "some allocations not recorded"
    return "no releases recorded" if Gap.RELEASES in all_gaps else ""


def time_text(trace: Trace, tick: int, *, absolute: bool) -> str:
    """Return a time of the trace; "N/A" for -1."""
    return (
        NOT_AVAILABLE if tick == -1 else span_time_text(trace, tick, absolute=absolute)
    )


def buffer_text(
    trace: Trace, row: int, use: BufferUse | None, *, absolute: bool
) -> str:
    """Return everything about a buffer, a line each."""
    buffers, unit = trace.buffers, trace.clock.unit
    size, backend = int(buffers.size[row]), int(buffers.backend[row])
    born, freed = int(buffers.allocated[row]), int(buffers.freed[row])
    where = trace.strings[backend] if backend >= 0 else NOT_AVAILABLE
    lines = [
        buffer_name(trace, row),
        f"{usage_name(trace, row)} · backend {where}",
        f"size {format_both_bytes(size) if size >= 0 else NOT_AVAILABLE}",
    ]
    if born == -1:
        lines.append("allocation not recorded")
    else:
        lines.append(f"allocated {span_time_text(trace, born, absolute=absolute)}")
        if freed == -1:
            lines.append("no release recorded")
        else:
            lifetime = format_duration(freed - born, unit)
            lines.append(
                f"freed {span_time_text(trace, freed, absolute=absolute)}, "
                f"after {lifetime}"
            )
    address = int(buffers.address[row])
    if address:
        lines.append(f"id {format_offset(address)}")
    return "\n".join([*lines, *_use_lines(trace, use, row)])


def _use_lines(trace: Trace, use: BufferUse | None, row: int) -> list[str]:
    if use is None or not use.is_known:
        if use is None or "accesses" in trace.pending:
            return [f"accesses {PENDING}"]
        return [f"accesses {NOT_AVAILABLE}: none of them names a buffer"]
    if use.is_open[row]:
        return [f"accesses {NOT_AVAILABLE}: weight reads name no buffer"]
    n = int(use.count[row])
    text = "1 access, {1}" if n == 1 else "{0} accesses, {1}"
    text = text.format(
        format_count(n), moved_text(int(use.bytes[row]), int(use.unsized[row]))
    )
    n_lives = int(use.n_lives[row])
    if n_lives > 1:
        text += " " + f"(of {format_count(n_lives)} buffers with this id)"
    return [text]


def peak_tip(trace: Trace, occupancy: Occupancy, *, absolute: bool) -> str:
    """Return the peak and its contents, a line per buffer; "" without a peak."""
    peak = occupancy.peak
    if peak is None:
        return ""
    when = time_text(trace, peak.time, absolute=absolute)
    lines = [f"peak {format_both_bytes(peak.bytes)} at {when}"]
    rows = peak.alive.tolist()
    for row in rows[:_MAX_NAMED]:
        size = int(trace.buffers.size[row])
        amount = format_bytes(size) if size >= 0 else NOT_AVAILABLE
        lines.append(f"{amount}  {buffer_name(trace, row)} · {usage_name(trace, row)}")
    if len(rows) > _MAX_NAMED:
        lines.append(f"and {format_count(len(rows) - _MAX_NAMED)} more")
    return "\n".join(lines)


def level_text(trace: Trace, occupancy: Occupancy, tick: int, *, absolute: bool) -> str:
    """Return what was occupied at a tick, a line per group."""
    levels = occupancy.at(tick)
    total = int(levels.sum())
    lines = [
        time_text(trace, tick, absolute=absolute) + f" · {format_both_bytes(total)}"
    ]
    lines += [
        f"{title}: {format_bytes(n)}"
        for title, n in zip(occupancy.groups, levels.tolist(), strict=True)
        if n
    ]
    return "\n".join(lines)
