"""Texts about page-cache samples of a tensor and of an access."""

from ggscope.analysis.reads.from_disk import Evidence, Origin, evidence
from ggscope.model.trace import Trace
from ggscope.model.units import format_bytes, format_count, listed_form

_NOT_KNOWN = {
    Origin.COPIED: "it was read at an address where no model file is mapped, so it is "
    "a copy; whether making it read the disk is not recorded",
    Origin.NOT_TOLD: "the system did not tell what of the file was in memory",
    Origin.NO_SAMPLE_BEFORE: "the page cache was first looked at after the op began",
    Origin.NO_SAMPLE_AFTER: "the page cache was not looked at after the op",
    Origin.LEFT: "some of the tensor left the page cache meanwhile",
    Origin.UNCHANGED: "no more of the tensor was in the page cache afterwards",
    Origin.PART: "the op reads a part of the tensor, some of which was in memory",
    Origin.EARLIER: "an earlier op read the tensor between the two samples",
    Origin.NOBODY: "the process read nothing from storage between the two samples, so "
    "who brought the pages in is not known",
    Origin.NO_FIGURES: "what the process read from storage is not known here",
}


def origin_words(trace: Trace, span: int, row: int) -> tuple[str, str]:
    """Return whether an access came from disk: shortly, and on what that rests.

    Both are "" where nobody looked at the page cache.
    """
    found = evidence(trace, span, row)
    if found is None:
        return "", ""
    seen = _seen(trace, found)
    if found.origin is Origin.MEMORY:
        return "was in memory", f"was in memory (measured by mincore): {seen}."
    if found.origin is not Origin.DISK:
        words = f"disk or memory is not known: {_NOT_KNOWN[found.origin]}"
        return "", f"{words} ({seen})." if seen else f"{words}."
    figures = []
    if found.read_bytes >= 0:
        figures.append(f"read {format_bytes(found.read_bytes)} from storage")
    if found.major_faults >= 0:
        n = found.major_faults
        figures.append(f"had {format_count(n)} major fault{'s' * (n != 1)}")
    return "came from disk (derived)", (
        f"came from disk (derived): {seen}; in between the process "
        f"{' and '.join(figures)}, and no earlier op of this thread read the tensor. "
        "Read-ahead may have brought it in before the op began."
    )


def _seen(trace: Trace, found: Evidence) -> str:
    samples = trace.residency
    if samples is None or min(found.before, found.after) < 0:
        return ""
    if min(found.held_before, found.held_after) < 0:
        return ""
    form = listed_form(trace.extent, trace.clock)
    first = form.text(int(samples.end[found.before]))
    second = form.text(int(samples.begin[found.after]))
    before, after = format_bytes(found.held_before), format_bytes(found.held_after)
    return (
        f"of {format_bytes(found.size)} there were {before} in the page cache at "
        f"{first} and {after} at {second}"
    )


def held_words(trace: Trace, tensor: int) -> str:
    """Return how much of a tensor is in memory by the last sample; "" without one."""
    found = trace.residency
    column = -1 if found is None else found.column_of(tensor)
    if found is None or column < 0:
        return ""
    held = found.bytes_at(-1, column)
    if held < 0:
        return f"not known: {found.why}" if found.why else "not known"
    size = format_bytes(int(trace.tensors.size[tensor]))
    when = listed_form(trace.extent, trace.clock).text(int(found.end[-1]))
    rate = found.per_second()
    often = f", {rate:.2g} samples/s" if rate else ""
    return f"{format_bytes(held)} of {size} at {when} (measured by mincore{often})"
