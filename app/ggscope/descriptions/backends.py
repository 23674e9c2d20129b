"""Ops by backend, splits, and what ran on the CPU, as text."""

import numpy as np

from ggscope.analysis.backends.op_groups import OpGroup
from ggscope.analysis.backends.op_spans import SpanJoin, SpanRule
from ggscope.analysis.backends.splits import CpuGroup, Reason, SplitGroup
from ggscope.model.backend_ops import BackendOps
from ggscope.model.tables import I64
from ggscope.model.units import (
    format_bytes,
    format_count,
    format_counted,
    format_duration,
    format_share,
)

UNKNOWN = ""
_RULE_WORDS = {
    SpanRule.NONE: "no span has this name",
    SpanRule.OWN: "the file states the span",
    SpanRule.NAME: "spans of the same tensor name and op",
    SpanRule.OP: "spans of the same op, listed with a single shape",
    SpanRule.AMBIGUOUS: "the name is cut, or the op has several shapes: ambiguous",
    SpanRule.OTHER_OP: "spans of this name are of another op",
}
OP_COLUMNS = (
    "backend", "op", "shape", "type", "count", "graphs", "total", "share", "mean",
    "result", "GFLOP/s",
)  # fmt: skip
OP_TIPS = {
    "shape": "as the file writes it",
    "count": "ops, in all graphs of the file",
    "graphs": "graphs of the file that have such ops",
    "total": "time of all of them, where the file has one",
    "share": "of the time of all ops",
    "result": "bytes that they write; the scheduler cuts sizes to whole KiB or MiB",
    "GFLOP/s": "billions of float operations per second, as stated",
}
SPLIT_COLUMNS = (
    "split", "backend", "after", "copied", "weights", "inputs", "largest", "why",
    "begins with", "tensor", "ops", "times",
)  # fmt: skip
SPLIT_TIPS = {
    "split": "number in its graph",
    "after": "backend of the split before",
    "copied": "bytes that are copied to the backend each time; the scheduler cuts "
    "sizes to whole KiB or MiB",
    "weights": "bytes of weights among these, at least",
    "inputs": "tensors that are copied",
    "largest": "the one with most bytes",
    "why": "derived from where weights and caches lie; the scheduler does not print it",
    "begins with": "its first op; views are not listed",
    "ops": "ops that are listed",
    "times": "such splits in all graphs of the file",
}
CPU_COLUMNS = ("op", "why", "count", "graphs", "begin splits", "result", "tensors")
CPU_TIPS = {
    "why": "derived from where weights and caches lie; the scheduler does not print it",
    "count": "ops on the CPU in graphs in which another backend takes part",
    "begin splits": "how many of them begin a split: data are copied for these",
    "result": "bytes that they write, at least",
    "tensors": "the first ones that they compute",
}


def op_cells(group: OpGroup) -> list[str]:
    """Return a row of `OP_COLUMNS`; "" where the file does not state it."""
    return [
        group.backend,
        group.op,
        group.shape,
        group.dtype,
        format_count(group.count),
        format_count(group.n_graphs),
        UNKNOWN if group.time is None else format_duration(group.time),
        UNKNOWN if group.share is None else format_share(group.share),
        UNKNOWN if group.mean is None else format_duration(group.mean),
        size_text(group.min_bytes, group.max_bytes),
        UNKNOWN if group.rate is None else f"{group.rate / 1e9:,.1f}",
    ]


def split_cells(group: SplitGroup) -> list[str]:
    """Return a row of `SPLIT_COLUMNS`; "" where the file does not state it."""
    has_copies = group.n_inputs > 0
    return [
        format_count(group.number),
        group.backend,
        group.before,
        copied_text(group),
        format_bytes(group.weights) if has_copies and group.weights else UNKNOWN,
        format_count(group.n_inputs),
        group.largest,
        reason_text(group.reason, group.data),
        group.op,
        group.name,
        format_count(group.n_nodes) if group.n_nodes else UNKNOWN,
        format_count(group.count),
    ]


def cpu_cells(group: CpuGroup) -> list[str]:
    """Return a row of `CPU_COLUMNS`."""
    why = reason_text(group.reason, group.data)
    if group.causes:
        why += f" ({', '.join(group.causes)})"
    return [
        group.op,
        why,
        format_count(group.count),
        format_count(group.n_graphs),
        format_count(group.begins),
        f"≥ {format_bytes(group.min_bytes)}",
        ", ".join(group.names),
    ]


def copied_text(group: SplitGroup) -> str:
    """Return the bytes that a split has copied; "nothing" where it has no inputs."""
    if not group.n_inputs:
        return "nothing"
    if group.max_bytes is None:
        return f"≥ {format_bytes(group.min_bytes)}"
    return size_text(group.min_bytes, group.max_bytes)


def size_text(min_bytes: int | None, limit: int | None) -> str:
    """Return the bounds of a size, one number where both read alike; "" unknown."""
    if min_bytes is None:
        return UNKNOWN
    if limit is None:
        return f"≥ {format_bytes(min_bytes)}"
    low, high = format_bytes(min_bytes), format_bytes(limit)
    return low if low == high else f"{low} – {high}"


def reason_text(reason: Reason, data: str) -> str:
    """Return why a split begins or an op lies where it does."""
    match reason:
        case Reason.FIRST:
            return "graph begins"
        case Reason.DATA:
            return f"{data} lies there"
        case Reason.BETWEEN:
            return "between ops whose data lie there"
        case Reason.MOVED:
            return "no data there: not taken by the backend before"
        case Reason.AGAIN:
            return "same backend, memory of copied weights used again"
        case Reason.UNKNOWN:
            return "not recorded"


def join_text(join: SpanJoin) -> str:
    """Return how many listed ops have spans beside them; "" where none could have."""
    n_open = len(join.rule) - join.count(SpanRule.OWN)
    if not n_open:
        return ""
    n = join.count(SpanRule.NAME, SpanRule.OP)
    text = f"{format_count(n)} of {format_count(n_open)} have spans of the same name"
    if unclear := join.count(SpanRule.AMBIGUOUS):
        text += f", names of {format_count(unclear)} are ambiguous"
    if others := join.count(SpanRule.OTHER_OP):
        text += f", {format_count(others)} have another op there"
    return text


def spans_text(join: SpanJoin, rows: I64, n_spans: int) -> str:
    """Return which spans the ops of a row lead to, and why others lead to none.

    Parameters
    ----------
    n_spans : that are selected.
    """
    counts = [
        (rule, int(np.count_nonzero(join.rule[rows] == rule))) for rule in SpanRule
    ]
    parts = [
        f"{format_counted(n, 'op')}: {_RULE_WORDS[rule]}" for rule, n in counts if n
    ]
    selected = f"selects {format_counted(n_spans, 'span')}" if n_spans else "no spans"
    return "\n".join((selected, *parts))


def listing_text(listing: BackendOps) -> str:
    """Return what a listing holds in one line."""
    parts = [format_counted(listing.n_graphs, "graph")]
    if len(listing.splits):
        parts.append(format_counted(len(listing.splits), "split"))
    n = sum(listing.ops.count.tolist())
    parts.append(format_counted(n, "op"))
    times = listing.ops.time[listing.ops.time >= 0]
    if len(times):
        parts.append(f"{format_duration(sum(times.tolist()))} in all")
    return ", ".join(parts)
