"""The roofline as text: points, shares of the roofs, and what is left out and why."""

from dataclasses import dataclass

from ggscope.analysis.roofline import (
    Reason,
    Roofline,
    RooflinePoint,
    Roofs,
    roofs_of,
)
from ggscope.analysis.summary.machine import MachinePeak, machine_of
from ggscope.analysis.summary.partial import hidden_graphs, hidden_ops
from ggscope.model.ggml.types import type_name
from ggscope.model.trace import Trace
from ggscope.model.units import (
    Clock,
    format_byte_rate,
    format_bytes,
    format_count,
    format_counted,
    format_duration,
    format_share,
)

REASONS = {
    Reason.NO_ARITHMETIC: "moves data, computes nothing",
    Reason.NO_FORMULA: "no formula: its arithmetic does not follow from a shape",
    Reason.NO_READS: "what it reads is not recorded",
    Reason.NO_SHAPE: "shape of the weight not known: open the model file beside it",
    Reason.NO_FIT: "sizes do not fit the weight's shape, or the tokens of the ubatch",
    Reason.NO_EXPERTS: "number of tokens or of used experts unknown",
    Reason.NO_BYTES: "not all bytes known",
    Reason.NO_TIME: "time not measured",
}
F32_NOTE = "vectors without a recorded type count as F32, as ggml multiplies them"
ABOVE = "above the roof: read from caches, or the roofs were measured while busy"
BYTES_NOTE = "bytes are those that ops read, as recorded"
TOO_LONG = "Too many spans to find which are of one op."
_PREFIXES = ("", "k", "M", "G", "T", "P")


@dataclass(frozen=True, slots=True)
class TraceRoofs:
    """The roofs for a trace; without them, why and how to get them."""

    roofs: Roofs | None
    reason: str = ""


def trace_roofs(trace: Trace) -> TraceRoofs:
    """Return the measured roofs of the trace's processor, or why there are none."""
    machine = machine_of(trace)
    roofs = roofs_of(trace, machine)
    if roofs is not None:
        return TraceRoofs(roofs)
    return TraceRoofs(None, _why_no_roofs(trace, machine))


def _why_no_roofs(trace: Trace, machine: MachinePeak | None) -> str:
    if trace.clock.unit != "ns" and not trace.clock.hz:
        return "no roofs: the length of a cycle is not known"
    if machine is not None:
        return "no roofs: ggscope machine has no result; run it again"
    if not trace.info.producer.get("backends"):
        return "no roofs: the trace does not name its processor"
    return (
        "no roofs: run ggscope machine on the machine of the trace, and open it there"
    )


def count_text(value: float, unit: str) -> str:
    """Return ``10.25 GFLOP/s`` for 1.025e10 and the unit ``FLOP/s``."""
    power = 0
    while value >= 999.95 and power < len(_PREFIXES) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.4g} {_PREFIXES[power]}{unit}"


def flops_text(trace: Trace, per_tick: float) -> str:
    """Return a rate of float operations per second, or per cycle."""
    return count_text(per_tick * per_second(trace.clock), f"FLOP/{per(trace.clock)}")


def per_second(clock: Clock) -> float:
    """Return ticks per second; 1 where the length of a cycle is not known."""
    return clock.per_s or 1.0


def per(clock: Clock) -> str:
    """Return what rates are per: ``s``, or ``cycle`` where its length is not known."""
    return "s" if clock.per_s else clock.unit


def shape_text(point: RooflinePoint) -> str:
    """Return ``f16 256×512 · 2 vectors``: the weight, and what it multiplies."""
    vectors = format_counted(point.columns, "vector")
    text = f"{weight_text(point)} · {vectors}"
    if point.experts:
        text += f" · {format_counted(point.experts, 'expert')}"
    return text


def weight_text(point: RooflinePoint) -> str:
    """Return type and shape of the weight: ``f16 256×512``."""
    kind = type_name(point.type) or "type unknown"
    return f"{kind} {point.shape[0]}×{point.shape[1]}"


def point_text(point: RooflinePoint) -> str:
    """Return op, weight and number of vectors."""
    return f"{point.op} {shape_text(point)}"


def limit_text(point: RooflinePoint, roofs: Roofs) -> str:
    """Return which roof is over a point."""
    return "memory" if point.intensity < roofs.ridge else "arithmetic"


def roof_share(point: RooflinePoint, roofs: Roofs) -> float:
    """Return the share of what is possible at the point's operations per byte."""
    return point.rate / roofs.attainable(point.intensity)


def point_lines(trace: Trace, point: RooflinePoint, roofs: Roofs | None) -> list[str]:
    """Return what is known of a point, a line each."""
    clock = trace.clock
    rate = format_byte_rate(point.byte_rate, clock.unit, clock.hz)
    vectors = f"{format_counted(point.columns, 'vector')} at once"
    if point.experts:
        vectors += f", {format_counted(point.experts, 'expert')} each"
    lines = [
        f"{point.op} · {weight_text(point)}",
        vectors,
        f"{format_counted(point.n_ops, 'op')}, "
        f"{format_duration(point.ticks, clock.unit)} in total, "
        f"{format_duration(point.ticks / point.n_ops, clock.unit)} each",
        f"{count_text(point.flops / point.n_ops, 'FLOP')} and "
        f"{format_bytes(point.bytes / point.n_ops)} each: "
        f"{point.intensity:.4g} FLOP/B",
        f"{flops_text(trace, point.rate)}, {rate}",
    ]
    if roofs is not None:
        share = roof_share(point, roofs)
        if share > 1:
            lines.append(ABOVE)
        lines += [
            f"{format_share(share)} of the {limit_text(point, roofs)} roof",
            f"{format_share(point.byte_rate / roofs.read)} of memory, "
            f"{format_share(point.rate / roofs.flops)} of arithmetic",
        ]
    if point.is_f32_assumed:
        lines.append(F32_NOTE)
    return lines


def roofs_text(trace: Trace, roofs: Roofs) -> str:
    """Return both roofs, and of what they were measured."""
    clock = trace.clock
    read = format_byte_rate(roofs.read, clock.unit, clock.hz)
    return (
        f"roofs: {read} from memory, {flops_text(trace, roofs.flops)} float32, "
        f"measured with {format_counted(roofs.n_threads, 'thread')}"
    )


def roofline_text(trace: Trace, roofline: Roofline, of: TraceRoofs) -> str:
    """Return what the points cover, and the roofs or why there are none."""
    left_out = sum(x.ticks for x in roofline.left_out)
    whole = roofline.ticks + left_out
    parts = [format_counted(len(roofline.points), "point")]
    if whole:
        parts.append(f"{format_share(roofline.ticks / whole)} of op time")
    parts.append(roofs_text(trace, of.roofs) if of.roofs else of.reason)
    if hidden := hidden_ops(trace) or hidden_graphs(trace):
        parts.append(hidden)
    return " · ".join(parts)


def left_out_lines(trace: Trace, roofline: Roofline, limit: int = 8) -> list[str]:
    """Return the ops that are in no point, each with its time and the reason."""
    lines = [
        f"{x.op}: {format_counted(x.n_ops, 'op')}, "
        f"{format_duration(x.ticks, trace.clock.unit)}, {REASONS[x.reason]}"
        for x in roofline.left_out[:limit]
    ]
    if (n := len(roofline.left_out) - limit) > 0:
        lines.append(f"and {format_count(n)} more")
    return lines


def why_no_points(roofline: Roofline) -> str:
    """Return why there is no point, a sentence."""
    if roofline.is_too_long:
        return TOO_LONG
    reasons = {x.reason for x in roofline.left_out}
    if Reason.NO_SHAPE in reasons:
        return "The shapes of the weights are not known."
    if Reason.NO_READS in reasons:
        return "The trace does not record what matrix multiplications read."
    if Reason.NO_TIME in reasons or Reason.NO_BYTES in reasons:
        return "No matrix multiplication has both its bytes and its time recorded."
    if Reason.NO_EXPERTS in reasons or Reason.NO_FIT in reasons:
        return "The arithmetic of the matrix multiplications is not known."
    return "The trace records no matrix multiplication."
