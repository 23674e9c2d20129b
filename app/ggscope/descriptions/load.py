"""How a model was read as text: why loading takes so long, by measured figures."""

import math

from ggscope.analysis.load.causes import Cause
from ggscope.analysis.load.facts import LoadFacts, SizeBucket
from ggscope.analysis.load.load import Load
from ggscope.analysis.load.rows import OPS
from ggscope.model.trace import Trace
from ggscope.model.units import (
    format_byte_rate,
    format_bytes,
    format_count,
    format_counted,
    format_duration,
    format_share,
)

LEVELS = {
    "device": "requests to the disk",
    "call": "read calls",
    "fault": "page faults",
    "file": "file events",
    OPS: "reads of ops",
}
CAUSES = {
    Cause.ACCESS: "an op was reading these bytes",
    Cause.BEFORE: "before the first op: loading",
    Cause.NO_ACCESS: "no op was reading these bytes: read-ahead, or not recorded",
    Cause.NO_TENSOR: "head or padding of the model file",
    Cause.OTHER_FILE: "another file, or none that is known",
    Cause.OTHER_CLOCK: "the clocks of the files are not aligned: set a time shift",
    Cause.NO_OPS: "what ops read is not recorded",
    Cause.NO_MODEL: "tensors not known: open the model file beside the trace",
}
_SMALL = 64 << 10
"""Requests below are small: a disk needs as long for them as for larger ones."""
_MOST_SHARE, _FEW_SHARE = 0.9, 0.1
_AGAIN = 1.05
_WAITS = ": time goes into waiting for single small requests."
COLUMNS_NOTE = "bytes count in the column in which their read was complete"


def load_text(trace: Trace, facts: LoadFacts) -> str:
    """Return the answer to "why does loading take so long", with what it rests on."""
    return " ".join(load_sentences(trace, facts))


def load_sentences(trace: Trace, facts: LoadFacts) -> list[str]:
    """Return what was read and how fast, then what limits it where figures say so."""
    if not facts.n:
        return ["No reads are recorded here."]
    if facts.key == OPS:
        return _op_sentences(trace, facts)
    if facts.n_faults:
        return _fault_sentences(trace, facts)
    if not facts.n_sized:
        return _unsized_sentences(trace, facts)
    sentences = [_amount(trace, facts)]
    limit = _limit(trace, facts)
    if limit:
        sentences.append(limit)
    again = _again(facts)
    if again:
        sentences.append(again)
    if facts.n_maps:
        sentences.append(
            f"{format_counted(facts.n_maps, 'mapping')} of {format_bytes(facts.mapped)}"
            ": what is read through them are page faults, which strace does not see."
        )
    return sentences


def _took(trace: Trace, ticks: float) -> str:
    return format_duration(ticks, trace.clock.unit)


def _amount(trace: Trace, facts: LoadFacts) -> str:
    what = f"{format_bytes(facts.bytes)} in {format_counted(facts.n, 'read')}"
    if facts.duration <= 0:
        return f"{what}."
    rate = format_byte_rate(facts.rate, trace.clock.unit, trace.clock.hz)
    return f"{what}, {_took(trace, facts.duration)}: {rate}."


def _limit(trace: Trace, facts: LoadFacts) -> str:
    """Return what the figures say of the time; "" where they say nothing."""
    if not facts.busy:
        return ""
    alone, busy = facts.alone_share, facts.busy_share
    size = _usual_size(facts)
    each = _took(trace, facts.latency[0]) if facts.latency else ""
    if busy < 1 - _MOST_SHARE:
        return (
            f"No timed read was in flight for {format_share(1 - busy)} of the time: "
            "the time went into something else than these reads."
        )
    idle = ""
    if busy < _MOST_SHARE:
        idle = f" No timed read was in flight for {format_share(1 - busy)} of the time."
    if (
        alone >= _MOST_SHARE
        and facts.common_size < _SMALL
        and facts.common_share >= _MOST_SHARE
    ):
        return (
            f"{format_share(facts.common_share)} have "
            f"{format_bytes(facts.common_size)}, one at a time (queue "
            f"depth 1 for {format_share(alone)} of the busy time), {each} each"
            + (f".{idle}" if idle else _WAITS)
        )
    if alone >= _MOST_SHARE:
        return (
            f"One request at a time (queue depth 1 for {format_share(alone)} of the "
            f"busy time), {size}, {each} each: the next one waits for the one "
            f"before.{idle}"
        )
    text = f"Queue depth {facts.mean_depth:.3g} on average, {facts.max_depth} at most"
    text += f"; {size}, half took {each} or less." if each else "."
    if not math.isnan(facts.sequential) and facts.sequential < _FEW_SHARE:
        text += (
            f" {format_share(1 - facts.sequential)} do not go on where the one before "
            "ended."
        )
    return text + idle


def _usual_size(facts: LoadFacts) -> str:
    """Return the size of most requests, else from which to which they go."""
    if facts.common_share > 0.5:
        return f"most of {format_bytes(facts.common_size)}"
    low, high = facts.buckets[0].low, facts.buckets[-1].high
    return f"from {format_bytes(low)} to {format_bytes(high)}"


def _again(facts: LoadFacts) -> str:
    """Return how often bytes were read; "" where hardly any came twice."""
    parts = [share for share in facts.files if share.distinct > 0]
    if not parts:
        return ""
    share = parts[0]
    text = ""
    if share.size > 0:
        text = (
            f"{format_share(share.distinct / share.size)} of "
            f"{share.name.rpartition('/')[2]} was read."
        )
    if share.bytes > share.distinct * _AGAIN:
        text += f" Its bytes were read {share.bytes / share.distinct:.3g} times each."
    return text.strip()


def _fault_sentences(trace: Trace, facts: LoadFacts) -> list[str]:
    parts = []
    if facts.n_major:
        parts.append(format_counted(facts.n_major, "major fault"))
    if facts.n_minor:
        parts.append(format_counted(facts.n_minor, "minor fault"))
    rest = facts.n_faults - facts.n_major - facts.n_minor
    if rest:
        parts.append(f"{format_counted(rest, 'page fault')} of unknown kind")
    text = ", ".join(parts)
    seconds = facts.duration / 1e9 if trace.clock.per_s == 1e9 else 0
    if seconds > 0 and facts.n_major:
        rate = facts.n_major / seconds
        text += (
            f" in {_took(trace, facts.duration)}: {format_count(round(rate))} a "
            "second had to wait for storage"
        )
    return [f"{text}."]


def _unsized_sentences(trace: Trace, facts: LoadFacts) -> list[str]:
    noun = "event" if facts.key == "file" else "request"
    text = f"{format_counted(facts.n, noun)} in {_took(trace, facts.duration)}"
    if facts.busy:
        text += (
            f", queue depth {facts.mean_depth:.3g} on average; half took "
            f"{_took(trace, facts.latency[0])} or less"
        )
    return [f"{text}. Sizes are not recorded, so no rate is known."]


def _op_sentences(trace: Trace, facts: LoadFacts) -> list[str]:
    rate = ""
    if facts.duration > 0:
        speed = format_byte_rate(facts.rate, trace.clock.unit, trace.clock.hz)
        rate = f", {_took(trace, facts.duration)}: {speed}"
    return [
        f"Ops read {format_bytes(facts.bytes)} of the model file in "
        f"{format_count(facts.n)} reads{rate}. "
        "Whether from memory or from the disk is not recorded."
    ]


def bucket_text(bucket: SizeBucket) -> str:
    """Return the sizes of a bucket: ``4 KiB``, ``4 to 6 KiB``."""
    low = format_bytes(bucket.low)
    return low if bucket.low == bucket.high else f"{low} to {format_bytes(bucket.high)}"


def cause_lines(load: Load) -> list[tuple[str, int]]:
    """Return what caused reads, with how many, most first; those that have any."""
    counts = zip(Cause, load.cause_counts, strict=True)
    lines = [(CAUSES[cause], n) for cause, n in counts if n]
    return sorted(lines, key=lambda line: -line[1])


def level_text(key: str) -> str:
    """Return what reads were recorded as: "requests to the disk"."""
    return LEVELS[key]
