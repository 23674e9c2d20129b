"""Threads, waits at barriers and idle gaps as texts."""

from ggscope.analysis.summary.gaps import Gaps
from ggscope.analysis.summary.threads import ThreadTimes
from ggscope.model.trace import LaneKind
from ggscope.model.units import (
    Unit,
    format_count,
    format_counted,
    format_duration,
    format_share,
)

NOT_RECORDED = "not recorded"
HIDDEN_IDLE = "derived times end at the next record, so idle time between is not seen"


def threads_text(times: ThreadTimes) -> str:
    """Return how even the work is and who waits for whom, in one line."""
    is_threads = times.kind is LaneKind.THREAD
    parts = [format_counted(len(times.lanes), "thread" if is_threads else "engine")]
    if not is_threads:
        return parts[0]
    if times.imbalance is not None:
        parts.append(f"imbalance {format_share(times.imbalance)} (busiest over mean)")
    elif len(times.lanes) > 1:
        parts.append("imbalance unknown")
    if times.waiting is None:
        parts.append("waits not recorded")
    else:
        parts.append(f"{format_share(times.waiting)} of work and waits is waiting")
    waited = sum(one.waited for one in times.last)
    if times.n_barriers and waited:
        most = times.last[0]
        share = format_share(most.waited / waited)
        parts.append(f"{share} of it for {most.name}")
    if times.n_cores:
        parts.append(f"seen on {format_counted(times.n_cores, 'core')}")
    return " · ".join(parts)


def barriers_reason(times: ThreadTimes) -> str:
    """Return why it is unknown who came last at barriers; "" where it is known."""
    if times.n_barriers is not None:
        return ""
    if times.kind is not LaneKind.THREAD:
        return "the trace records no threads"
    if any(lane.wait is not None for lane in times.lanes):
        return "the trace is too long to find the spans of each op"
    return "waits at barriers are not recorded"


def gaps_text(gaps: Gaps, unit: Unit) -> str:
    """Return how many gaps there are and how long they are, in one line."""
    total = f"{format_duration(gaps.total, unit)} idle in all"
    if len(gaps) < gaps.n_all:
        longest = format_count(len(gaps))
        return f"the {longest} longest of {format_count(gaps.n_all)} gaps · {total}"
    return f"{format_counted(gaps.n_all, 'gap')} · {total}"


def gaps_reason(gaps: Gaps) -> str:
    """Return why no gap can be seen; "" where some are, or where there is none."""
    if gaps.hidden:
        return gaps.hidden
    if gaps.n_all:
        return ""
    if not gaps.n_spans:
        return "no thread, engine or command has a span there"
    if gaps.n_derived + gaps.n_open < gaps.n_spans:
        return ""
    if gaps.n_derived:
        return HIDDEN_IDLE
    return "no span has a measured time; all are estimated or unfinished"


def gaps_note(gaps: Gaps) -> str:
    """Return how many spans may hide gaps, in one line; "" where none does."""
    parts = []
    if gaps.n_derived:
        parts.append(f"{format_count(gaps.n_derived)} derived")
    if gaps.n_open:
        parts.append(f"{format_count(gaps.n_open)} estimated or unfinished")
    if not parts:
        return ""
    total = format_counted(gaps.n_spans, "span")
    return f"gaps may be hidden: of {total}, {' and '.join(parts)}"
