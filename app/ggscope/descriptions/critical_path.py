"""The critical path of a token as text."""

from ggscope.analysis.graph.op_links import NoEdges, NoPass
from ggscope.analysis.graph.token_path import NoPath, TokenPath, Unknown
from ggscope.analysis.summary.bars import bar_text, token_bars
from ggscope.descriptions.dependencies import unknown_text
from ggscope.model.tables import Quality
from ggscope.model.trace import Trace
from ggscope.model.units import (
    format_count,
    format_counted,
    format_duration,
    format_share,
)

_UNKNOWN: dict[Unknown, str] = {
    NoPath.NO_SELECTION: "select an op or a token",
    NoPath.NO_OPS: "no op of the token is recorded",
    NoPath.NO_TIMES: "no op has a recorded end",
    NoPath.ESTIMATED: "times of ops are estimated",
    NoEdges.NO_SOURCES: "several threads, no graph, and what ops read is not recorded",
}


def path_title(trace: Trace, path: TokenPath) -> str:
    """Return what the path is of: "token 5", "ubatch 7", "graph pass 3", "ops"."""
    bars = token_bars(trace)
    rows = (bars.span == path.bar).nonzero()[0]
    return bar_text(trace, bars, int(rows[0])) if len(rows) else "the trace"


def path_reason(path: TokenPath) -> str:
    """Return why there is no critical path, lower case; "" where there is one."""
    why = path.unknown
    if why is None:
        return ""
    if why is NoPath.OPS_MISSING:
        return path.missing
    if why in _UNKNOWN:
        return _UNKNOWN[why]
    assert isinstance(why, NoPass | NoEdges)
    return unknown_text(why)


def path_notes(path: TokenPath) -> list[str]:
    """Return why the path may be longer than it is, and what its times rest on."""
    notes = list[str]()
    if path.unknown is not None:
        return notes
    if path.n_untimed:
        count = format_counted(path.n_untimed, "span")
        notes.append(f"{count} without a recorded end: counted as 0")
    if path.n_open:
        count = format_counted(path.n_open, "read")
        notes.append(f"the producers of {count} are not known")
    if path.quality is Quality.DERIVED:
        notes.append("derived ends hide gaps between ops")
    return notes


def path_length_text(trace: Trace, path: TokenPath) -> str:
    """Return "at least 4.9 ms of 5.65 ms (87 %)"."""
    unit = trace.clock.unit
    text = format_duration(path.length, unit)
    if path.is_lower_bound:
        text = f"at least {text}"
    if path.time is not None and path.time.duration:
        share = format_share(path.length / path.time.duration)
        text += f" of {format_duration(path.time.duration, unit)} ({share})"
    return text


def path_text(trace: Trace, path: TokenPath) -> str:
    """Return the critical path in one sentence, or why there is none."""
    if reason := path_reason(path):
        return f"Critical path unknown: {reason}."
    spans = f"{format_count(len(path.path))} of {format_count(len(path.spans))} spans"
    title, length = path_title(trace, path), path_length_text(trace, path)
    return f"Critical path of {title}: {length}, {spans}."


def path_lines(trace: Trace, path: TokenPath, span: int) -> list[str]:
    """Return what Details says of the path while a span is selected."""
    own = span_path_text(trace, path, span)
    notes = [f"{note[:1].upper()}{note[1:]}." for note in path_notes(path)]
    return [*([own] if own else []), path_text(trace, path), *notes]


def span_path_text(trace: Trace, path: TokenPath, span: int) -> str:
    """Return whether a span is on the path, else its slack; "" = neither is known."""
    if path.unknown is not None:
        return ""
    if (path.path == span).any():
        return "On the critical path."
    slack = path.slack_of(span)
    if slack is None:
        return ""
    bound = "at most " if path.is_lower_bound else ""
    return f"Slack: {bound}{format_duration(slack, trace.clock.unit)}."
