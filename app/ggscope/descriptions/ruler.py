"""The readout of the ruler: how long, how many bytes and at what rate, which tokens."""

from ggscope.analysis.ruler import RulerFacts
from ggscope.model.trace import Trace
from ggscope.model.units import (
    TimeRange,
    format_byte_rate,
    format_bytes,
    format_count,
    format_counted,
    format_duration,
    format_exact,
)


def ruler_lines(
    trace: Trace, time: TimeRange, facts: RulerFacts | None
) -> tuple[str, ...]:
    """Return the length with all of its digits, and what lies between the points.

    `facts` of another range, or None, are not there yet: only the length is stated.
    """
    unit = trace.clock.unit
    length = format_duration(time.duration, unit)
    exact = format_exact(time.duration, unit)
    lines = [length if time.duration < 1000 else f"{length} ({exact})"]
    if facts is None or facts.time != time:
        return (*lines, "…")
    more = (_ops_line(facts), _bytes_line(trace, facts), _token_line(facts))
    return (*lines, *filter(None, more))


def ruler_text(trace: Trace, time: TimeRange, facts: RulerFacts | None) -> str:
    """Return the readout in one line."""
    return " · ".join(ruler_lines(trace, time, facts))


def _ops_line(facts: RulerFacts) -> str:
    if facts.n_ops is None:
        return "ops not counted: too many spans"
    text = format_counted(facts.n_ops, "op")
    if facts.n_cut_ops:
        text += f" and {format_count(facts.n_cut_ops)} cut"
    return f"{text} (times estimated)" if facts.is_estimated else text


def _bytes_line(trace: Trace, facts: RulerFacts) -> str:
    if facts.recorded != "known":
        is_pending = facts.recorded == "pending"
        return "bytes still being read" if is_pending else "bytes not recorded"
    if not facts.n_ops:
        return ""
    if facts.bytes is None:
        return "bytes not known"
    at_least = "≥ " if facts.is_least else ""
    rate, clock = facts.rate, trace.clock
    text = f"{at_least}{format_bytes(facts.bytes)}"
    if rate is None:
        return text
    return f"{text}, {at_least}{format_byte_rate(rate, clock.unit, clock.hz)}"


def _token_line(facts: RulerFacts) -> str:
    if not facts.n_bars and not facts.n_cut_bars:
        return ""
    at_least = "≥ " if facts.hides_tokens else ""
    plural = "es" if facts.noun.endswith(("s", "ch")) else "s"
    noun = facts.noun + ("" if facts.n_bars == 1 else plural)
    text = f"{at_least}{format_count(facts.n_bars)} {noun}"
    if facts.n_cut_bars:
        text += f" and {format_count(facts.n_cut_bars)} cut"
    if facts.n_tokens is not None and facts.noun == "ubatch":
        text += f", {format_counted(facts.n_tokens, 'token')}"
    return text
