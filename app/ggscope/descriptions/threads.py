"""Threads, waits at barriers and idle gaps as texts."""

from ggscope.analysis.reads.thread_touches import ThreadTouches
from ggscope.analysis.summary.barriers import CoreSharing
from ggscope.analysis.summary.gaps import Gaps
from ggscope.analysis.summary.op_imbalance import OpImbalance
from ggscope.analysis.summary.thread_estimate import (
    MIN_ALIKE,
    NoEstimate,
    OtherCount,
    Reason,
    ThreadEstimate,
)
from ggscope.analysis.summary.threads import ThreadTimes
from ggscope.analysis.summary.token_threads import NO_TIMES, TokenThreads
from ggscope.descriptions.tokens import plural
from ggscope.model.trace import LaneKind
from ggscope.model.units import (
    Unit,
    format_count,
    format_counted,
    format_duration,
    format_share,
)

NOT_RECORDED = "not recorded"
_NO_ESTIMATE = {
    Reason.NO_THREADS: "the trace records no threads",
    Reason.ONE_THREAD: "one thread is recorded",
    Reason.THREADS_LEFT_OUT: "the recording leaves threads out",
    Reason.NO_WAITS: "waits at barriers are not recorded",
    Reason.NO_CORES: "cores are not recorded, so threads may have shared some",
    Reason.SHARED_CORES: "threads share cores{0}, so times of ops include time without "
    "a core",
    Reason.DERIVED_TIMES: "times of ops are derived",
    Reason.TOO_LONG: "the trace is too long to find the spans of each op",
    Reason.NO_SHARED_OPS: "no op is computed by all threads",
    Reason.FEW_ALIKE: f"too few ops of one name for delays (at least {MIN_ALIKE})",
}
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
        longest_wait = times.last[0]
        share = format_share(longest_wait.waited / waited)
        parts.append(f"{share} of it for {longest_wait.name}")
    if times.n_cores:
        parts.append(f"seen on {format_counted(times.n_cores, 'core')}")
    if times.sharing is not None and times.sharing.share:
        parts.append(sharing_text(times.sharing))
    return " · ".join(parts)


def sharing_text(sharing: CoreSharing) -> str:
    """Return for how much of the time threads shared a core."""
    return f"a core shared in {format_share(sharing.share)} of the time of ops"


def no_estimate_text(no_estimate: NoEstimate) -> str:
    """Return why no other number of threads is estimated."""
    share = format_share(no_estimate.share)
    if no_estimate.reason is Reason.DELAYS:
        return f"{share} of the time of ops are delays, beyond the median of ops alike"
    where = f" in {share} of the time of ops" if no_estimate.share else ""
    return _NO_ESTIMATE[no_estimate.reason].format(where)


def other_count_text(one: OtherCount) -> str:
    """Return what ops would take with another number of threads: ``98 % to 182 %``."""
    return f"{format_share(one.low)} to {format_share(one.high)}"


def estimate_text(estimate: ThreadEstimate | NoEstimate) -> str:
    """Return what one thread fewer and one more would do, or why that is unknown."""
    if isinstance(estimate, NoEstimate):
        return f"No estimate for other thread counts: {no_estimate_text(estimate)}"
    others = ", ".join(
        f"{other_count_text(one)} with {format_counted(one.n_threads, 'thread')}"
        for one in (estimate.fewer, estimate.more)
    )
    return f"Estimate: ops would take {others} (100 % = as now)"


def estimate_basis_text(estimate: ThreadEstimate | NoEstimate) -> str:
    """Return what an estimate rests on, and its error; "" without one."""
    if isinstance(estimate, NoEstimate):
        return ""
    return (
        f"From {format_counted(estimate.n_ops, 'op')} that all "
        f"{format_count(estimate.n_threads)} threads compute. The limits are those of "
        "ops bound by memory and of ops bound by computing; the truth lies between "
        "them, and no value there is likelier. "
        f"{format_share(estimate.beyond)} of the time are delays."
    )


def token_threads_text(tokens: TokenThreads) -> str:
    """Return how the threads spend the time of all listed tokens, in one line."""
    n, noun = len(tokens), tokens.bars.noun
    if not n:
        return ""
    parts = [f"{format_count(n)} {noun if n == 1 else plural(noun)}"]
    whole = int(tokens.bars.duration.sum()) * len(tokens.lanes)
    for word, values, reason in (
        ("work", tokens.busy, tokens.hidden_work),
        ("waits", tokens.wait, tokens.hidden_work or NOT_RECORDED),
        ("idle", tokens.idle, tokens.hidden_idle),
    ):
        if values is None:
            parts.append(f"{word} unknown: {reason}")
        elif whole:
            parts.append(f"{word} {format_share(int(values.sum()) / whole)}")
    if tokens.hidden_work:  # the same reason for all
        parts[1:] = [f"work, waits and idle time unknown: {tokens.hidden_work}"]
    return " · ".join(parts)


def imbalance_text(by_op: tuple[OpImbalance, ...], duration: int, unit: Unit) -> str:
    """Return how much time uneven shares cost, in one line."""
    lost = sum(one.lost for one in by_op)
    n = format_counted(sum(one.n for one in by_op), "op")
    share = f", {format_share(lost / duration)} of the range" if duration else ""
    length = format_duration(round(lost), unit)
    return f"{n} of several threads · {length} less with even shares{share}"


def imbalance_reason(times: ThreadTimes) -> str:
    """Return why it is unknown how even ops are, or why none is there."""
    if times.kind is not LaneKind.THREAD:
        return "The trace records no threads."
    if times.by_op is not None:
        return "No op here has spans of several threads."
    if any(lane.busy is None for lane in times.lanes):
        return f"{NO_TIMES[:1].upper()}{NO_TIMES[1:]}."
    if not all(lane.is_measured for lane in times.lanes):
        return f"{HIDDEN_IDLE[:1].upper()}{HIDDEN_IDLE[1:]}."
    if times.hidden_work:
        return f"{times.hidden_work[:1].upper()}{times.hidden_work[1:]}."
    return "The trace is too long to find the spans of each op."


def touches_text(touches: ThreadTouches, window: int, unit: Unit) -> str:
    """Return how many tensors threads hand over within a window, in one line."""
    n, of = format_count(len(touches)), format_counted(touches.n_tensors, "tensor")
    text = f"{n} of {of} handed over within {format_duration(window, unit)}"
    return f"at least {text}: {touches.hidden}" if touches.hidden else text


def barriers_reason(times: ThreadTimes) -> str:
    """Return why it is unknown who came last at barriers; "" where it is known."""
    if times.n_barriers is not None:
        return ""
    if times.kind is not LaneKind.THREAD:
        return "the trace records no threads"
    if times.hidden_work and any(lane.wait is not None for lane in times.lanes):
        return times.hidden_work
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
