"""Whether two files share a clock, and how far one must be moved beside the other."""

from ggscope.analysis.joining_tables import name_of
from ggscope.errors import QueryError
from ggscope.model.time import Unit
from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.model.units import parse_duration

SHIFT_OPTION = "shift"
"""Option of a file in a session: what is added to its times, as a person said."""
SAME_CLOCK_NS = 600 * 1_000_000_000
"""Files whose times lie no further apart were written in one run: the model of one is
loaded minutes before the first op, the next run comes later than that or has another
zero."""


def raw_range(trace: Trace) -> tuple[int, int]:
    """Return the first and last time of a trace in its file's own clock."""
    origin = trace.clock.origin
    return trace.extent.start + origin, trace.extent.end + origin


def has_times(trace: Trace) -> bool:
    """Tell whether anything in a trace has a time."""
    return bool(
        len(trace.spans)
        or len(trace.markers)
        or len(trace.accesses.loose)
        or any(len(series) for series in trace.counters)
        or (len(trace.buffers) and int(trace.buffers.allocated.max()) >= 0)
        or (len(trace.routing) and int(trace.routing.time.max()) >= 0)
    )


def shift_between(main: Trace, other: Trace) -> tuple[int, tuple[ReadWarning, ...]]:
    """Return what is added to the raw times of `other` to put it on `main`'s clock.

    0 where both share a clock. Else `other` begins where `main` does, and a notice
    says that nothing is known of what happened at the same time. Both must count in
    the same unit. What a person said (`SHIFT_OPTION`) goes before either.

    Raises
    ------
    QueryError
        If what was said is no time.
    """
    said = other.info.options.get(SHIFT_OPTION)
    if said is not None and has_times(other):
        return parsed_shift(said, main.clock.unit), ()
    if not has_times(other) or not has_times(main):
        return 0, ()
    begin, end = raw_range(main)
    first, last = raw_range(other)
    if max(first - end, begin - last) <= SAME_CLOCK_NS:
        return 0, ()
    name = name_of(other)
    notice = ReadWarning(
        Severity.NOTICE,
        "other_clock",
        f"The times of {name} are of another clock; it is drawn from the beginning of "
        "the session. What lies above each other need not have happened together.",
        place=name,
    )
    return begin - first, (notice,)


def parsed_shift(text: str, unit: Unit) -> int:
    """Return a shift in ticks; QueryError where `text` is no time of this unit."""
    try:
        return parse_duration(text, unit)
    except ValueError as error:
        raise QueryError(f"the shift {text!r} is not understood: {error}.") from error


def unlike_clocks(main: Trace, other: Trace) -> ReadWarning | None:
    """Return why `other` cannot be put on `main`'s clock; None if it can.

    Cycles become nanoseconds where their frequency is known, and not otherwise.
    """
    if main.clock.unit == other.clock.unit or not has_times(other):
        return None
    if not has_times(main) or (main.clock.unit == "ns" and other.clock.hz):
        return None
    name = name_of(other)
    units = {"ns": "nanoseconds", "cycle": "cycles"}
    return ReadWarning(
        Severity.NOTICE,
        "clock_unknown",
        f"{name} counts {units[other.clock.unit]}, the session "
        f"{units[main.clock.unit]}, and nothing says how long a cycle takes. What has "
        f"a time in {name} is left out.",
        place=name,
        remedy="Name the frequency with --option hz=…, or open the file alone.",
    )


__all__ = [
    "SAME_CLOCK_NS",
    "SHIFT_OPTION",
    "has_times",
    "parsed_shift",
    "raw_range",
    "shift_between",
    "unlike_clocks",
]
