"""Waits at barriers and idle gaps as texts: tooltips and facts."""

from typing import TYPE_CHECKING

import numpy as np

from ggscope.analysis.rows.waits import wait_time
from ggscope.analysis.summary.barriers import Barrier, barrier_of
from ggscope.analysis.summary.partial import hidden_graphs, hidden_ops
from ggscope.descriptions.selected import COUNTING, SelectedFacts
from ggscope.descriptions.spans import (
    Fact,
    column_text,
    exact_time_text,
    op_text,
    time_text,
    wait_of,
    wait_share,
)
from ggscope.model.selection import Gap
from ggscope.model.tables import Quality, quality_of
from ggscope.model.tokens import token_noun, token_text
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    TimeRange,
    format_count,
    format_duration,
    format_exact,
    format_share,
)
from ggscope.sanitize import one_line

if TYPE_CHECKING:
    from ggscope.analysis.summary.pauses import PauseContext
    from ggscope.analysis.summary.threads import LaneTimes

_MAX_OTHERS = 8
"""Other lanes that are listed one by one."""
_MEASURED_WAIT = "recorded at the barrier"


def wait_text(trace: Trace, span: int, *, absolute: bool = False) -> str:
    """Return the wait behind an op in three lines of plain text, and its cause."""
    time, unit = wait_time(trace, span), trace.clock.unit
    share = wait_share(trace, span)
    about = [format_exact(wait_of(trace, span), unit)]
    about += [] if share is None else [f"{format_share(share)} of op and wait"]
    lines = [
        f"Waited {column_text(trace, 'wait', span)} at the barrier after "
        f"{op_text(trace, span)} ({lane_text(trace, span)})",
        " · ".join(about),
        f"from {time_text(trace, time.start, absolute=absolute)} "
        f"to {time_text(trace, time.end, absolute=absolute)}",
    ]
    if (barrier := barrier_of(trace, span)) is not None:
        lines.append(cause_text(trace, span, barrier))
    return "\n".join(lines)


def gap_text(trace: Trace, gap: Gap, *, absolute: bool = False) -> str:
    """Return idle time between two spans in five lines of plain text."""
    unit = trace.clock.unit
    where = _place_text(trace, gap.before, gap.after)
    return "\n".join(
        (
            f"{_gap_word(trace, gap)} {format_duration(gap.time.duration, unit)}",
            f"{format_exact(gap.time.duration, unit)} from "
            f"{time_text(trace, gap.time.start, absolute=absolute)}",
            *((where,) if where else ()),
            *((reason,) if (reason := gap_doubt(trace, gap)) else ()),
            f"after {op_text(trace, gap.before)}",
            f"before {op_text(trace, gap.after)}",
        )
    )


def gap_doubt(trace: Trace, gap: Gap) -> str:
    """Return why a gap may not be idle time; "" where it is."""
    reason = hidden_graphs(trace) or hidden_ops(trace)
    around = np.array([gap.before, gap.after])
    if not reason and (quality_of(trace.spans.flags[around]) > Quality.DERIVED).any():
        reason = "begin or end of a span beside it is not known"
    return reason


def _gap_word(trace: Trace, gap: Gap) -> str:
    return "Nothing recorded for" if gap_doubt(trace, gap) else "Idle for"


def cause_text(trace: Trace, span: int, barrier: Barrier) -> str:
    """Return whom a thread waited for at a barrier, and how much later that came."""
    n = format_count(len(barrier.spans))
    if barrier.last == span:
        return f"came last of {n} threads: the others waited for it"
    last, unit = lane_text(trace, barrier.last), trace.clock.unit
    late = int(trace.spans.end[barrier.last]) - int(trace.spans.end[span])
    if not late:
        return f"came last of {n} threads, as {last} did"
    text = (
        f"waited for {last}, the last of {n} threads, "
        f"{format_duration(late, unit)} later{_core_text(trace, barrier.last)}"
    )
    if rest := _after_last(trace, span, barrier):
        text += f"; {format_duration(rest, unit)} more after that"
    return text


def _after_last(trace: Trace, span: int, barrier: Barrier) -> int:
    """Return the ticks of a wait after the last thread had come to the barrier."""
    return max(wait_time(trace, span).end - int(trace.spans.end[barrier.last]), 0)


def arrival_text(trace: Trace, span: int, barrier: Barrier) -> str:
    """Return when a thread came to a barrier: ``thread 1 · 2 µs later, last``."""
    late = int(trace.spans.end[span]) - int(trace.spans.end[barrier.spans[0]])
    when = f"{format_duration(late, trace.clock.unit)} later" if late else "first"
    if span == barrier.last:
        when += ", last"
    return f"{lane_text(trace, span)} · {when}"


def lane_text(trace: Trace, span: int) -> str:
    """Return the name of the lane of a span, in one line."""
    return one_line(trace.lanes[int(trace.spans.lane[span])].name)


def wait_facts(
    trace: Trace, span: int, context: "PauseContext | None", *, absolute: bool
) -> SelectedFacts:
    """Return what is known of a wait; what takes a pass over all spans is pending."""
    share, time = wait_share(trace, span), wait_time(trace, span)
    origin_text = _MEASURED_WAIT
    text = column_text(trace, "wait", span)
    facts = [
        *_time_facts(
            trace, time, f"{text} {origin_text}", origin_text, absolute=absolute
        ),
        Fact(
            "share", "–" if share is None else f"{format_share(share)} of op and wait"
        ),
        *_cause_facts(trace, span),
        *_around_facts(trace, span, None if context is None else context.after),
        *_other_facts(context),
    ]
    kind = f"wait · {lane_text(trace, span)}"
    where = _place_text(trace, span, span)
    return SelectedFacts(
        f"Wait after {op_text(trace, span)}",
        f"{kind} · {where}" if where else kind,
        tuple(facts),
    )


def gap_facts(
    trace: Trace, gap: Gap, context: "PauseContext | None", *, absolute: bool
) -> SelectedFacts:
    """Return what is known of a gap; what takes a pass over all spans is pending."""
    text = format_duration(gap.time.duration, trace.clock.unit)
    origin_text = "between recorded spans"
    facts = [
        *_time_facts(
            trace, gap.time, f"{text} {origin_text}", origin_text, absolute=absolute
        ),
        *_around_facts(trace, gap.before, gap.after),
        *_other_facts(context),
    ]
    if reason := gap_doubt(trace, gap):
        facts.append(Fact("note", reason, caution=True))
    kind = f"gap · {lane_text(trace, gap.before)}"
    where = _place_text(trace, gap.before, gap.after)
    return SelectedFacts(
        f"{_gap_word(trace, gap)} {text}",
        f"{kind} · {where}" if where else kind,
        tuple(facts),
    )


def _cause_facts(trace: Trace, span: int) -> list[Fact]:
    """Return whom the thread waited for, and how long it waited after all had come."""
    barrier = barrier_of(trace, span)
    if barrier is None:
        reason = "the other threads of the op are not found"
        return [Fact("waited for", NOT_AVAILABLE, reason)]
    rule = "the thread whose span of the same op ends last"
    text, unit = "no one: it came last", trace.clock.unit
    if barrier.last != span:
        late = int(trace.spans.end[barrier.last]) - int(trace.spans.end[span])
        length = format_duration(late, unit)
        text = f"{lane_text(trace, barrier.last)}, {length} later"
    rest = _after_last(trace, span, barrier)
    about = "leaving the barrier, or waiting for a core"
    exact = f"{format_exact(rest, unit)} after all threads had come: {about}"
    return [
        Fact("waited for", text, rule),
        Fact("after the last", format_duration(rest, unit), exact),
    ]


def _time_facts(
    trace: Trace, time: TimeRange, length: str, origin_text: str, *, absolute: bool
) -> list[Fact]:
    def at(label: str, tick: int) -> Fact:
        text = time_text(trace, tick, absolute=absolute)
        return Fact(label, text, exact_time_text(trace, tick))

    exact = format_exact(time.duration, trace.clock.unit)
    return [
        at("start", time.start),
        Fact("duration", length, exact, qualifier=origin_text),
        at("end", time.end),
    ]


def _around_facts(trace: Trace, before: int, after: int | None) -> list[Fact]:
    """Return the ops around a pause and their cores; None = still looked for."""
    facts = [Fact("before", f"{op_text(trace, before)}{_core_text(trace, before)}")]
    if after is None:
        return [*facts, Fact("after", COUNTING)]
    if after < 0:
        return [*facts, Fact("after", "nothing on this lane")]
    text = f"{op_text(trace, after)}{_core_text(trace, after)}"
    return [*facts, Fact("after", text)]


def _other_facts(context: "PauseContext | None") -> list[Fact]:
    """Return what the other lanes did meanwhile."""
    if context is None:
        return [Fact("meanwhile", COUNTING)]
    shown = context.others[:_MAX_OTHERS]
    facts = [
        Fact(one_line(lane.name), _use_text(lane, context.duration)) for lane in shown
    ]
    if n := len(context.others) - len(shown):
        facts.append(Fact("meanwhile", f"{format_count(n)} more lanes"))
    return facts


def _use_text(lane: "LaneTimes", duration: int) -> str:
    parts = (("busy", lane.busy), ("waiting", lane.wait), ("idle", lane.idle))
    known = [
        f"{word} {format_share(ticks / duration)}"
        for word, ticks in parts
        if ticks is not None and duration
    ]
    return ", ".join(known) or NOT_AVAILABLE


def _core_text(trace: Trace, span: int) -> str:
    """Return " (core 3)" where the core of a span is recorded."""
    core = trace.spans.core
    if core is None or int(core[span]) < 0:
        return ""
    return f" (core {int(core[span])})"


def _place_text(trace: Trace, before: int, after: int) -> str:
    """Return between or within which tokens a pause lies; "" where it is not known."""
    first, second = token_text(trace, before), token_text(trace, after)
    if not first or not second:
        return ""
    noun = token_noun(trace)
    if first == second:
        return f"within {noun} {first}"
    return f"between {noun} {first} and {second}"
