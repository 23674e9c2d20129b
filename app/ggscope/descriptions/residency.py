"""Texts about page-cache samples of a tensor and of an access."""

from ggscope.analysis.reads.from_disk import Evidence, Origin, evidence
from ggscope.model.trace import Trace
from ggscope.model.units import format_bytes, format_count, listed_form

_UNKNOWN_REASONS = {
    Origin.COPIED: "read from a copy, at an address outside the mapped model files; "
    "whether making the copy read the disk is not recorded",
    Origin.NOT_TOLD: "the system did not report how much of the file was in memory",
    Origin.NO_SAMPLE_BEFORE: "no page-cache sample before the op",
    Origin.NO_SAMPLE_AFTER: "no page-cache sample after the op",
    Origin.LEFT: "part of the tensor left the page cache between the two samples",
    Origin.UNCHANGED: "no more of the tensor was in the page cache after the op",
    Origin.PART: "the op reads part of the tensor, and some of it was in memory",
    Origin.EARLIER: "an earlier op read the tensor between the two samples",
    Origin.NOBODY: "the process read nothing from storage between the two samples; "
    "what loaded the pages is unknown",
    Origin.NO_FIGURES: "the storage reads of the process are unknown",
}


def origin_text(trace: Trace, span: int, row: int) -> tuple[str, str]:
    """Return whether an access came from disk: in short, and with its evidence.

    Both are "" where the page cache was not sampled.
    """
    facts = evidence(trace, span, row)
    if facts is None:
        return "", ""
    samples = _samples_text(trace, facts)
    if facts.origin is Origin.MEMORY:
        return "was in memory", f"was in memory (measured by mincore): {samples}."
    if facts.origin is not Origin.DISK:
        text = f"disk or memory unknown: {_UNKNOWN_REASONS[facts.origin]}"
        return "", f"{text} ({samples})." if samples else f"{text}."
    activity = []
    if facts.read_bytes >= 0:
        activity.append(f"read {format_bytes(facts.read_bytes)} from storage")
    if facts.major_faults >= 0:
        n = facts.major_faults
        activity.append(f"had {format_count(n)} major fault{'s' * (n != 1)}")
    return "came from disk (derived)", (
        f"came from disk (derived): {samples}; in between the process "
        f"{' and '.join(activity)}, and no earlier op of this thread read the tensor. "
        "Read-ahead may have loaded it before the op began."
    )


def _samples_text(trace: Trace, facts: Evidence) -> str:
    """Return what the samples around an access measured; "" without both."""
    samples = trace.residency
    if samples is None or min(facts.before, facts.after) < 0:
        return ""
    if min(facts.held_before, facts.held_after) < 0:
        return ""
    form = listed_form(trace.extent, trace.clock)
    first = form.text(int(samples.end[facts.before]))
    second = form.text(int(samples.begin[facts.after]))
    before, after = format_bytes(facts.held_before), format_bytes(facts.held_after)
    return (
        f"{before} of {format_bytes(facts.size)} in the page cache at {first}, "
        f"{after} at {second}"
    )


def resident_text(trace: Trace, tensor: int) -> str:
    """Return how much of a tensor is in memory by the last sample; "" without one."""
    samples = trace.residency
    column = -1 if samples is None else samples.column_of(tensor)
    if samples is None or column < 0:
        return ""
    n_bytes = samples.bytes_at(-1, column)
    if n_bytes < 0:
        return f"unknown: {samples.why}" if samples.why else "unknown"
    size = format_bytes(int(trace.tensors.size[tensor]))
    when = listed_form(trace.extent, trace.clock).text(int(samples.end[-1]))
    rate = samples.per_second()
    how = "mincore" + (f", {rate:.2g} samples/s" if rate else "")
    return f"{format_bytes(n_bytes)} of {size} at {when} (measured by {how})"
