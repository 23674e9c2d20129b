"""Words about points of the 3D view, one or all, and why there are none."""

from ggscope.analysis.heat.points import AccessPoints
from ggscope.analysis.layers import LayerActivity
from ggscope.descriptions.reads import no_accesses_text
from ggscope.descriptions.spans import exact_time_text, time_text
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_both_bytes,
    format_count,
    format_counted,
    format_duration,
    format_offset,
    format_share,
)


def points_text(trace: Trace, points: AccessPoints) -> str:
    """Return how many points stand for how many accesses, and what has no point."""
    n = len(points)
    text = format_counted(n, "read") + " of the model file"
    if points.step:
        step = format_duration(points.step, trace.clock.unit)
        text = (
            f"{format_counted(n, 'point')} for {format_count(points.n_accesses)} "
            f"reads of the model file: those of the same bytes within {step} are one"
        )
    left_out = []
    if points.n_open:
        left_out.append(f"{format_count(points.n_open)} to unknown experts")
    if points.n_unplaced:
        left_out.append(f"{format_count(points.n_unplaced)} to unknown offsets")
    if points.n_spanless:
        left_out.append(f"{format_count(points.n_spanless)} that no span makes")
    return f"{text}; without a point: {', '.join(left_out)}" if left_out else text


def point_rows(
    trace: Trace, points: AccessPoints, i: int, *, absolute: bool = False
) -> tuple[str, list[tuple[str, str]]]:
    """Return the name of the tensor of a point, and what is known of the point."""
    span, tensor = int(points.span[i]), int(points.tensor[i])
    names = trace.tensors.name
    name = trace.strings[int(names[tensor])] if tensor >= 0 else ""
    offset, layer = int(points.offset[i]), int(points.layer[i])
    rows = [
        ("op", trace.span_name(span)),
        ("time", time_text(trace, int(points.time[i]), absolute=absolute)),
        ("exact", exact_time_text(trace, int(points.time[i]))),
        ("layer", str(layer) if layer >= 0 else "none"),
        ("file offset", _offset_text(points, offset)),
        ("bytes", format_both_bytes(int(points.size[i]))),
        ("lane", trace.lanes[int(trace.spans.lane[span])].name),
    ]
    token = trace.spans.token
    if token is not None and token[span] >= 0:
        rows.append(("token", str(int(token[span]))))
    if points.count[i] > 1:
        rows.append(
            ("reads", f"{format_count(int(points.count[i]))}, the first is shown")
        )
    return name or "unnamed tensor", rows


def _offset_text(points: AccessPoints, offset: int) -> str:
    part = points.files.part_at(offset)
    if part is not None and len(points.files.parts) > 1:
        return f"{part.name} {format_offset(offset - part.begin)}"
    return format_offset(offset)


def why_no_points(trace: Trace, points: AccessPoints | None) -> tuple[str, str]:
    """Return a headline and a hint for where a trace gives no points."""
    n_spanless = 0 if points is None else points.n_spanless
    if not len(trace.accesses.patterns) and not n_spanless:
        return no_accesses_text(trace)
    if points is not None and points.n_open + points.n_unplaced:
        return (
            "No file offsets",
            f"{points_text(trace, points).partition('; ')[2].capitalize()}. "
            "Add the model (.gguf) or its memory map to this session.",
        )
    if n_spanless:
        reads = format_counted(n_spanless, "read")
        return (
            "No reads by spans",
            f"{reads} of the model file in this trace, made by no span: without an op "
            "there is no layer to draw at.",
        )
    if points is not None and len(points.files):
        return "No reads of the model file", "No shown span reads the model file."
    return (
        "No file offsets",
        "Add the model (.gguf) or its memory map to this session.",
    )


def layer_text(trace: Trace, activity: LayerActivity, i: int) -> str:
    """Return the time of a layer's ops, and its part of the busiest layer's."""
    ticks = int(activity.ticks[i])
    if ticks < 0:
        return NOT_AVAILABLE
    time = format_duration(ticks, trace.clock.unit)
    return f"{time}, {format_share(float(activity.shares[i]))} of the busiest layer"
